/*
 * decoder.c
 *		The slot and its decoding context: one of each for the worker's life.
 *
 * Rules of the server that this file keeps (each was learned by breaking it):
 *
 * The context is created inside a transaction, in a memory context of its own. Outside a
 * transaction the server would mark this process as one that only decodes, and other sessions would
 * then ignore our transaction ids: rows that we commit would vanish. The mark is checked before
 * every write.
 *
 * After each call into the decoder, current memory context and resource owner are put back: it may
 * leave others behind.
 *
 * Reading never waits inside the decoder once the start point is found: the flush pointer may stand
 * inside a record, and a waiting page read would sleep with changes in hand that nobody has
 * written. "No record and no error" means: that is all there is now.
 *
 * Caches. Catalogs are read under historic snapshots while decoding, and as they are now while
 * writing. As long as no invalidation message has come since decoding passed the end of the log,
 * both are the same. When one comes (a DDL somewhere), past and present may differ until decoding
 * has passed the log's insert position at that time: until then the caches are dropped at both
 * edges. (Dropping them always costs a tenth of a core at a thousand commits a second.)
 *
 * A read ends after READ_TIME or READ_BYTES, wherever in the log that is, so that what was found is
 * written, the position moves and the worker hears what it is asked, however much there is of
 * others' log behind. Changes of transactions that have not committed there stay with the decoder.
 */
#include "postgres.h"

#include "access/rmgr.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlogreader.h"
#include "access/xlogutils.h"
#include "miscadmin.h"
#include "replication/decode.h"
#include "replication/logical.h"
#include "replication/origin.h"
#include "replication/slot.h"
#include "storage/proc.h"
#include "storage/sinval.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "pg_scd2.h"
#include "compat.h"
#include "capture/decoder.h"

#define SPARE_MEMORY	((Size) 64 * 1024 * 1024)	/* beyond decoding_work_mem */
#define OTHERS_BYTES	(16 * 1024 * 1024)	/* so much WAL counts as others', whatever is in it */
#define READ_BYTES		(64 * 1024 * 1024)
#define READ_TIME		(100 * INT64CONST(1000))	/* µs */
#define RECORDS_BETWEEN_LOOKS	64	/* at the clock */
#define OTHERS_XIDS		1000	/* so many transactions' catalog rows are worth letting go */

static LogicalDecodingContext *decoder = NULL;
static MemoryContext decoder_cxt = NULL;
static ReadLocalXLogPageNoWaitPrivate page_state;

static bool saw_others = false;
static XLogRecPtr others_since = InvalidXLogRecPtr;

static uint64 messages_seen = 0;
static XLogRecPtr unsettled_until = InvalidXLogRecPtr;

static void
ensure_context(void)
{
	if (decoder_cxt == NULL)
		decoder_cxt = AllocSetContextCreate(TopMemoryContext, "pg_scd2 decoder", ALLOCSET_DEFAULT_SIZES);
}

/*
 * Creates the slot, which waits for every transaction that is running now, in any database, to end.
 * Called inside a transaction that has no id and holds no lock. Returns the position from which
 * everything will be decoded. If the wait is cut short nothing stays: the slot is ephemeral until
 * its end.
 */
XLogRecPtr
scd2_decoder_create_slot(const char *slot)
{
	MemoryContext old;
	ResourceOwner owner = CurrentResourceOwner;
	LogicalDecodingContext *ctx;
	XLogRecPtr	start;

	ensure_context();
	CheckSlotPermissions();
	CheckLogicalDecodingRequirements();
	scd2_slot_create_ephemeral(slot);

	old = MemoryContextSwitchTo(decoder_cxt);
	ctx = CreateInitDecodingContext(SCD2_PLUGIN, NIL, false, InvalidXLogRecPtr,
									XL_ROUTINE(.page_read = read_local_xlog_page,
											   .segment_open = wal_segment_open,
											   .segment_close = wal_segment_close),
									NULL, NULL, NULL);
	DecodingContextFindStartpoint(ctx);
	MemoryContextSwitchTo(old);
	CurrentResourceOwner = owner;

	start = MyReplicationSlot->data.confirmed_flush;
	FreeDecodingContext(ctx);
	ReplicationSlotPersist();
	ReplicationSlotRelease();
	MemoryContextSwitchTo(old);
	return start;
}

/* Drops a slot of ours if it is there. */
void
scd2_decoder_drop_slot(const char *slot)
{
	if (SearchNamedReplicationSlot(slot, true) != NULL)
		ReplicationSlotDrop(slot, true);
}

static void
check_slot(const char *slot, XLogRecPtr start)
{
	ReplicationSlot *found = SearchNamedReplicationSlot(slot, true);

	if (found == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("replication slot \"%s\" is lost", slot),
				 errdetail("Changes after %X/%X cannot be read any more.", LSN_FORMAT_ARGS(start)),
				 errhint("SELECT scd2.resume_capture();")));
	if (scd2_slot_is_invalid(found))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("replication slot \"%s\" was invalidated by the server", slot),
				 errdetail("WAL that it needs after %X/%X has been removed.", LSN_FORMAT_ARGS(start)),
				 errhint("SELECT scd2.resume_capture();")));
}

/*
 * Takes the slot and opens the context at "start", the end of what is captured. Inside a
 * transaction without an id. Raises 55000 when the slot is lost, invalid or ahead of "start": then
 * changes are missing, and going on would hide it.
 */
void
scd2_decoder_open(const char *slot, XLogRecPtr start)
{
	MemoryContext old;
	ResourceOwner owner = CurrentResourceOwner;

	Assert(IsTransactionState());
	ensure_context();
	check_slot(slot, start);
	scd2_slot_acquire(slot);
	if (MyReplicationSlot->data.confirmed_flush > start)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("replication slot \"%s\" is ahead of what is captured", slot),
				 errdetail("The slot is at %X/%X, capture at %X/%X.",
						   LSN_FORMAT_ARGS(MyReplicationSlot->data.confirmed_flush),
						   LSN_FORMAT_ARGS(start)),
				 errhint("SELECT scd2.resume_capture();")));

	old = MemoryContextSwitchTo(decoder_cxt);
	decoder = CreateDecodingContext(start, NIL, false,
									XL_ROUTINE(.page_read = read_local_xlog_page_no_wait,
											   .segment_open = wal_segment_open,
											   .segment_close = wal_segment_close),
									NULL, NULL, NULL);
	decoder->reader->private_data = &page_state;
	XLogBeginRead(decoder->reader, MyReplicationSlot->data.restart_lsn);
	MemoryContextSwitchTo(old);
	CurrentResourceOwner = owner;

	others_since = start;
	unsettled_until = GetXLogInsertRecPtr();
}

/*
 * Somebody's transaction ended, or much was written: then the position is worth moving although
 * nothing was captured.
 */
static void
note_others(XLogReaderState *reader)
{
	if (saw_others)
		return;
	saw_others = (XLogRecGetRmid(reader) == RM_XACT_ID && XLogRecGetOrigin(reader) != DoNotReplicateId) ||
		reader->EndRecPtr > others_since + OTHERS_BYTES;
}

/*
 * A record of the running transactions has gone by, past which the slot could let go of much, while
 * nothing of others' follows that would move the position past it. (Each such record would keep an
 * idle server writing for ever: moving the position is followed by another.)
 */
static bool
could_let_go(void)
{
	ReplicationSlot *slot = MyReplicationSlot;

	if (!XLogRecPtrIsInvalid(slot->candidate_restart_valid) &&
		slot->candidate_restart_lsn > slot->data.restart_lsn + OTHERS_BYTES)
		return true;
	return TransactionIdIsValid(slot->candidate_catalog_xmin) && TransactionIdIsValid(slot->data.catalog_xmin) &&
		(int32) (slot->candidate_catalog_xmin - slot->data.catalog_xmin) > OTHERS_XIDS;
}

bool
scd2_decoder_saw_others(void)
{
	return saw_others || could_let_go();
}

void
scd2_decoder_forget_others(void)
{
	saw_others = false;
	others_since = decoder->reader->EndRecPtr;
}

/*
 * Catalog caches at the edge between decoding and writing, in either direction.
 */
void
scd2_decoder_settle_caches(void)
{
	AcceptInvalidationMessages();
	if (SharedInvalidMessageCounter != messages_seen)
	{
		messages_seen = SharedInvalidMessageCounter;
		unsettled_until = GetXLogInsertRecPtr();
	}
	if (decoder->reader->EndRecPtr < unsettled_until)
		InvalidateSystemCaches();
}

/* Has a read gone on for long enough that others have their turn? */
static bool
is_long(XLogRecPtr begun_at, TimestampTz begun, int *records)
{
	if (decoder->reader->EndRecPtr - begun_at >= READ_BYTES)
		return true;
	if (++*records < RECORDS_BETWEEN_LOOKS)
		return false;
	*records = 0;
	return GetCurrentTimestamp() - begun >= READ_TIME;
}

/*
 * Decodes into the batch until it has "max_changes" and a transaction ends, or the log ends, or for
 * long enough. True: the end of the flushed log was reached. Outside a transaction.
 */
bool
scd2_decoder_read(Scd2Batch *batch, int max_changes)
{
	MemoryContext old = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	bool		reached_end = false;
	XLogRecPtr	begun_at = InvalidXLogRecPtr;
	TimestampTz begun = GetCurrentTimestamp();
	int			records = 0;

	scd2_decoder_settle_caches();
	CurrentResourceOwner = batch->owner;
	while (!scd2_batch_is_full(batch, max_changes))
	{
		char	   *error = NULL;
		XLogRecord *record;

		MemoryContextSwitchTo(decoder_cxt);
		record = XLogReadRecord(decoder->reader, &error);
		if (error)
			elog(ERROR, "could not read WAL at %X/%X: %s",
				 LSN_FORMAT_ARGS(decoder->reader->EndRecPtr), error);
		if (record == NULL)
		{
			page_state.end_of_wal = false;
			reached_end = true;
			break;
		}
		note_others(decoder->reader);
		LogicalDecodingProcessRecord(decoder, decoder->reader);
		CurrentResourceOwner = batch->owner;
		CHECK_FOR_INTERRUPTS();
		if (XLogRecPtrIsInvalid(begun_at))
			begun_at = decoder->reader->EndRecPtr;	/* (the first read begins at the slot's restart point) */
		if (is_long(begun_at, begun, &records))
			break;
	}
	MemoryContextSwitchTo(old);
	CurrentResourceOwner = owner;
	if (!reached_end && batch->changes == 0)
		scd2_decoder_settle_caches();	/* the worker may look into catalogs before it reads on */
	return reached_end;
}

/*
 * Bytes that the worker may use besides what the decoder holds now. Its own count of them is short
 * by a third, which the limit it is given takes into account.
 */
Size
scd2_decoder_spare_memory(void)
{
	Size		may = (Size) scd2_decoding_work_mem * 1024 + SPARE_MEMORY;
	Size		holds = decoder->reorder->size / 3 * 4;

	return may > holds ? may - holds : 0;
}

/* The end of the last record decoded. */
XLogRecPtr
scd2_decoder_reached(void)
{
	return decoder->reader->EndRecPtr;
}

/* The record at hand; invalid: none, or nothing is open. */
XLogRecPtr
scd2_decoder_at(void)
{
	return decoder == NULL ? InvalidXLogRecPtr : decoder->reader->ReadRecPtr;
}

/*
 * Lets the server forget the log before "upto", which must be captured and flushed. Never backwards.
 */
void
scd2_decoder_confirm(XLogRecPtr upto)
{
	if (upto <= MyReplicationSlot->data.confirmed_flush)
		return;
	LogicalConfirmReceivedLocation(upto);
	ReplicationSlotMarkDirty();
}

XLogRecPtr
scd2_decoder_confirmed(void)
{
	return MyReplicationSlot->data.confirmed_flush;
}

/* Bytes that this context wrote to disk because a transaction did not fit into decoding_work_mem. */
uint64
scd2_decoder_spilled(void)
{
	return decoder->reorder->spillBytes;
}
