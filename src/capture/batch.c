/*
 * batch.c
 *		What the decoder has read and the feeds do not have yet: rows by feed, control records,
 *		clock and counter.
 *
 * Rules.
 *
 * A transaction takes a version with its first row (or with the failure of a feed, or its repair: a
 * gap has a version of its own), and never otherwise: versions are dense. One that makes a gap which
 * is repaired by itself takes two, that of the gap and that of the repair behind it. The clock is
 * strictly monotone over versions and control records (clock.c).
 *
 * Rows are kept per feed (rows.c), and spill to a temporary file. They are formed in the feed's
 * layout at once, so that nothing points into the decoder's memory. In memory all buffers together
 * may keep what the decoder leaves of decoding_work_mem when a transaction is replayed, MIN_MEMORY
 * at least; a batch that keeps that much is written before more is decoded.
 *
 * The usual row is not taken apart at all. The metadata before the source's columns end at a
 * multiple of MAXALIGN, as a tuple's data begin at one, so the data of the source's tuple are right
 * behind them as they stand: see scd2_batch_add_image().
 *
 * Files are made outside any transaction or in the decoder's inner one, which is aborted: they are
 * inter-transaction and belong to our own resource owner.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "pg_scd2.h"
#include "compat.h"
#include "capture/batch.h"
#include "capture/clock.h"

#define MIN_MEMORY		((Size) 16 * 1024 * 1024)

static Datum change_type_datums[5];

/*
 * The same as it stands at the beginning of a tuple's data: a text with a short header, padded for
 * what follows.
 */
typedef struct ChangeTypeData
{
	char		data[24];
	Size		size;
} ChangeTypeData;

static ChangeTypeData change_types[5];

/* What follows it there. */
typedef struct MetaTail
{
	int64		version;
	TimestampTz timestamp;
	int32		ordinal;
	int32		padding;
	uint64		xid;
} MetaTail;

StaticAssertDecl(MAXIMUM_ALIGNOF == 8 && sizeof(MetaTail) == 32, "a row's metadata end at a multiple of MAXALIGN");

static void
init_change_types(void)
{
	static const char *const names[] = {
		"insert", "update_preimage", "update_postimage", "delete", "truncate"
	};
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	for (int i = 0; i < lengthof(names); i++)
	{
		Size		len = strlen(names[i]) + VARHDRSZ_SHORT;

		change_type_datums[i] = CStringGetTextDatum(names[i]);
		SET_VARSIZE_SHORT(change_types[i].data, len);
		memcpy(VARDATA_SHORT(change_types[i].data), names[i], len - VARHDRSZ_SHORT);
		change_types[i].size = MAXALIGN(len);
	}
	MemoryContextSwitchTo(old);
}

/*
 * Makes the worker's batch, empty. "version" and "timestamp" are those of the position.
 */
Scd2Batch *
scd2_batch_create(MemoryContext parent, int64 version, TimestampTz timestamp)
{
	Scd2Batch  *batch = MemoryContextAllocZero(parent, sizeof(Scd2Batch));

	init_change_types();
	batch->cxt = AllocSetContextCreate(parent, "pg_scd2 batch", ALLOCSET_DEFAULT_SIZES);
	batch->owner = ResourceOwnerCreate(NULL, "pg_scd2 batch");
	batch->version = version;
	batch->timestamp = timestamp;
	batch->maxxids = 1024;
	batch->xids = MemoryContextAlloc(parent, batch->maxxids * sizeof(TransactionId));
	return batch;
}

/* Empties the batch after it was written. Clock and counter stay. */
void
scd2_batch_reset(Scd2Batch *batch)
{
	ListCell   *lc;

	foreach(lc, batch->feeds)
	{
		Scd2Feed   *feed = lfirst(lc);

		if (feed->rows)
			scd2_rows_end(feed->rows);
		feed->rows = NULL;
		feed->touched = false;
	}
	batch->feeds = NIL;
	batch->controls = NIL;
	batch->nxids = 0;
	batch->changes = 0;
	batch->ends = false;
	batch->memory.used = 0;
	MemoryContextReset(batch->cxt);
}

/* The epoch of a transaction id that is in the recent past. */
static uint64
full_xid(TransactionId xid)
{
	FullTransactionId next = ReadNextFullTransactionId();
	uint32		epoch = EpochFromFullTransactionId(next);

	if (xid > XidFromFullTransactionId(next))
		epoch--;
	return ((uint64) epoch << 32) | xid;
}

void
scd2_batch_begin_transaction(Scd2Batch *batch, TransactionId xid, TimestampTz commit_time, Size memory)
{
	batch->memory.limit = Max(memory, MIN_MEMORY);
	batch->xid = xid;
	batch->full_xid = full_xid(xid);
	batch->commit_time = commit_time;
	batch->has_version = false;
	batch->repairs = false;
	batch->ordinal = 0;
	batch->first_control = list_length(batch->controls);
}

/*
 * Is it time to write the batch? Rows that are kept while more is decoded add to the decoder's
 * memory, so they are few.
 */
bool
scd2_batch_is_full(const Scd2Batch *batch, int max_changes)
{
	return batch->ends || batch->changes >= max_changes || batch->memory.used >= MIN_MEMORY;
}

static void
remember_xid(Scd2Batch *batch)
{
	if (batch->nxids > 0 && batch->xids[batch->nxids - 1] == batch->xid)
		return;
	if (batch->nxids == batch->maxxids)
	{
		batch->maxxids *= 2;
		batch->xids = repalloc_huge(batch->xids, batch->maxxids * sizeof(TransactionId));
	}
	batch->xids[batch->nxids++] = batch->xid;
}

void
scd2_batch_end_transaction(Scd2Batch *batch, XLogRecPtr end_lsn)
{
	batch->end_lsn = end_lsn;
	if (batch->repairs)
	{
		batch->has_version = false;
		scd2_batch_take_version(batch);
	}

	/* A flow begins with the source as its transaction left it, at the time of that version if it has one. */
	for (int i = batch->first_control; i < list_length(batch->controls); i++)
	{
		Scd2Control *control = list_nth(batch->controls, i);

		if (strcmp(control->kind, "begin flow") != 0 && strcmp(control->kind, "resync") != 0)
			continue;
		control->version = batch->version;
		control->timestamp = batch->has_version ? batch->version_timestamp : scd2_batch_tick(batch);
	}
	if (batch->has_version || list_length(batch->controls) > batch->first_control)
	{
		remember_xid(batch);
		batch->captured_end = end_lsn;
	}
}

/* The next point of the monotone clock for the transaction at hand. */
TimestampTz
scd2_batch_tick(Scd2Batch *batch)
{
	batch->timestamp = scd2_clock_tick(batch->timestamp, batch->commit_time, batch->xid);
	return batch->timestamp;
}

/*
 * The transaction at hand gets a version.
 */
void
scd2_batch_take_version(Scd2Batch *batch)
{
	if (batch->has_version)
		return;
	batch->has_version = true;
	batch->version++;
	batch->version_timestamp = scd2_batch_tick(batch);
}

static void
touch_feed(Scd2Batch *batch, Scd2Feed *feed)
{
	MemoryContext old;

	if (feed->touched)
		return;
	feed->touched = true;
	old = MemoryContextSwitchTo(batch->cxt);
	batch->feeds = lappend(batch->feeds, feed);
	MemoryContextSwitchTo(old);
}

static void
open_rows(Scd2Batch *batch, Scd2Feed *feed)
{
	touch_feed(batch, feed);
	feed->rows = scd2_rows_create(batch->cxt, batch->owner, &batch->memory);
	feed->first_version = batch->version;
}

/*
 * Whatever a row of the feed needs before it is formed. False: the feed does not take it. Changes are
 * numbered within their version, by an integer: a transaction with more of them is a gap.
 */
static bool
begin_row(Scd2Batch *batch, Scd2Feed *feed)
{
	if (feed->failure)
		return false;
	if (batch->ordinal >= scd2_debug_max_ordinal)
	{
		scd2_batch_fail_feed(batch, feed,
							 psprintf("a transaction has more than %d changes of captured tables: they cannot be numbered",
									  scd2_debug_max_ordinal));
		return false;
	}
	scd2_batch_take_version(batch);
	if (feed->rows == NULL)
		open_rows(batch, feed);
	batch->ordinal++;
	batch->changes++;
	feed->last_version = batch->version;
	return true;
}

/*
 * Adds a row of a feed. The source's columns stand in feed->values and feed->isnull, behind the
 * metadata, which is filled in here. Nothing of what they point to is kept.
 */
void
scd2_batch_add_row(Scd2Batch *batch, Scd2Feed *feed, Scd2ChangeType type)
{
	HeapTuple	row;

	if (!begin_row(batch, feed))
		return;
	memset(feed->isnull, false, SCD2_META_COLUMNS * sizeof(bool));
	feed->values[SCD2_META_CHANGE_TYPE] = change_type_datums[type];
	feed->values[SCD2_META_COMMIT_VERSION] = Int64GetDatum(batch->version);
	feed->values[SCD2_META_COMMIT_TIMESTAMP] = TimestampTzGetDatum(batch->version_timestamp);
	feed->values[SCD2_META_CHANGE_ORDINAL] = Int32GetDatum(batch->ordinal);
	feed->values[SCD2_META_XID] = UInt64GetDatum(batch->full_xid);
	row = heap_form_tuple(feed->layout, feed->values, feed->isnull);
	memcpy(scd2_rows_add(feed->rows, row->t_len), row->t_data, row->t_len);
	heap_freetuple(row);
}

/* The null bitmap of a row whose source's columns have this one, and "natts" columns. */
static void
shift_nulls(bits8 *to, const bits8 *from, int natts)
{
	for (int i = 0; i < SCD2_META_COLUMNS; i++)
		to[i >> 3] |= 1 << (i & 7);
	for (int i = 0; i < natts; i++)
		if (!att_isnull(i, from))
			to[(i + SCD2_META_COLUMNS) >> 3] |= 1 << ((i + SCD2_META_COLUMNS) & 7);
}

/*
 * Adds a row of a feed whose columns after the metadata are exactly those of "image", with nothing
 * out of line.
 */
void
scd2_batch_add_image(Scd2Batch *batch, Scd2Feed *feed, Scd2ChangeType type, HeapTuple image)
{
	HeapTupleHeader from = image->t_data;
	int			natts = HeapTupleHeaderGetNatts(from);
	bool		has_nulls = HeapTupleHasNulls(image);
	Size		head = MAXALIGN(SizeofHeapTupleHeader + (has_nulls ? BITMAPLEN(natts + SCD2_META_COLUMNS) : 0));
	Size		data = image->t_len - from->t_hoff;
	HeapTupleHeader row;
	char	   *at;

	if (!begin_row(batch, feed))
		return;
	row = scd2_rows_add(feed->rows, head + change_types[type].size + sizeof(MetaTail) + data);
	memset(row, 0, head);
	HeapTupleHeaderSetNatts(row, natts + SCD2_META_COLUMNS);
	row->t_infomask = HEAP_HASVARWIDTH | (has_nulls ? HEAP_HASNULL : 0);
	row->t_hoff = head;
	if (has_nulls)
		shift_nulls(row->t_bits, from->t_bits, natts);

	at = (char *) row + head;
	memcpy(at, change_types[type].data, change_types[type].size);
	at += change_types[type].size;
	*(MetaTail *) at = (MetaTail){
		batch->version, batch->version_timestamp, batch->ordinal, 0, batch->full_xid};
	memcpy(at + sizeof(MetaTail), (char *) from + from->t_hoff, data);
}

/*
 * Adds a control record, a copy of it. What it says about its place is filled in here.
 */
void
scd2_batch_add_control(Scd2Batch *batch, Scd2Control *control)
{
	MemoryContext old = MemoryContextSwitchTo(batch->cxt);
	Scd2Control *copy = palloc(sizeof(Scd2Control));

	*copy = *control;
	copy->kind = pstrdup(control->kind);
	copy->detail = control->detail ? pstrdup(control->detail) : NULL;
	if (batch->has_version)
	{
		/*
		 * The rest of the transaction still belongs to the version at hand: the record stands just
		 * before it.
		 */
		copy->version = batch->version - 1;
		copy->timestamp = batch->version_timestamp - 1;
	}
	else
	{
		copy->version = batch->version;
		copy->timestamp = scd2_batch_tick(batch);
	}
	batch->controls = lappend(batch->controls, copy);
	batch->changes++;
	MemoryContextSwitchTo(old);
}

/*
 * The layout of a feed changed: its relation follows with the batch, also if no rows come.
 */
void
scd2_batch_change_columns(Scd2Batch *batch, Scd2Feed *feed)
{
	if (feed->rows == NULL)
		feed->first_version = batch->has_version ? batch->version : batch->version + 1;
	touch_feed(batch, feed);
}

/*
 * A feed cannot take the change at hand: from this version on it has a gap. "why" names the table
 * and what to do.
 */
void
scd2_batch_fail_feed(Scd2Batch *batch, Scd2Feed *feed, const char *why)
{
	if (feed->failure && !feed->repairs)
		return;
	scd2_batch_take_version(batch);
	touch_feed(batch, feed);
	feed->failure = MemoryContextStrdup(feed->cxt, why);
	feed->failed_version = batch->version;
	feed->repairs = false;
	batch->changes++;
}

/*
 * The rows of a feed's source got values of their own, which left no trace in the log, in the
 * transaction at hand: it has a gap, and behind the transaction its repair begins. What else the
 * transaction did to the table will be seen by that; its columns are followed on. The batch ends, as
 * the feed can take rows again only when that is written.
 */
void
scd2_batch_repair_feed(Scd2Batch *batch, Scd2Feed *feed, const char *why)
{
	if (feed->failure)
		return;
	scd2_batch_fail_feed(batch, feed, why);
	feed->repairs = true;
	batch->repairs = true;
	batch->ends = true;
}
