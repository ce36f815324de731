/*
 * capture_worker.c
 *		The capture worker: one per database, holds the slot.
 *
 *     start ── of this database? ──no──► ends, until scd2.resume_capture()                (capture/lost.c)
 *       │
 *       ├──── has a position whose slot is lost? ──yes──► gaps, no position any more         (capture/lost.c)
 *       ├──── has a position? ──no──► row with a new name
 *       │                             slot of that name dropped if it is there, created, persisted
 *       │ yes                         row gets the position
 *       ▼
 *     open the decoder at the position
 *       │
 *       ├──► read to the end of the flushed log, or until the batch is full, or for 100 ms
 *       │    write it: one transaction with rows, control effects, position       (capture/write.c)
 *       │    publish: version, captured LSN, wake apply workers and sync()
 *       │    confirm the slot, if the position is flushed and it is worth it
 *       └─── wait for a commit, at most naptime
 *
 * Exactly once. Rows and position are one transaction; a new worker decodes from the position, so a
 * death at any moment repeats and loses nothing. The slot is confirmed only up to a position whose
 * commit is flushed (our commits are asynchronous): it can be behind the position, never ahead of
 * it.
 *
 * A version is written only when its transaction is visible to new snapshots: decoding can be
 * quicker than the committing backend, and with synchronous replication by a long time. So whoever
 * sees version N in the position sees the tables as of N at least. While a synchronous standby is
 * missing, capture waits as the writers do.
 *
 * Idle. When only others' WAL passes by, row and slot are moved on, at most every IDLE_ADVANCE; while
 * there is much of it to be read, every BEHIND_BYTES or BEHIND_ADVANCE, so that a worker that comes after us need not
 * read it again.
 *
 * Wake-up. Writers set our latch at commit. After a batch the latch is not reset for COALESCE_MS,
 * so that a busy writer finds it set and does not signal.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "replication/slot.h"
#include "storage/proc.h"
#include "storage/standby.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "pg_scd2.h"
#include "compat.h"
#include "capture/backlog.h"
#include "capture/batch.h"
#include "capture/blame.h"
#include "capture/captured.h"
#include "capture/decoder.h"
#include "capture/lost.h"
#include "capture/memory.h"
#include "capture/plugin.h"
#include "capture/position.h"
#include "capture/write.h"
#include "worker/failpoint.h"
#include "worker/ready.h"
#include "worker/worker.h"

#define IDLE_ADVANCE	(10 * USECS_PER_SEC)
#define BEHIND_ADVANCE	USECS_PER_SEC
#define BEHIND_BYTES	(64 * 1024 * 1024)
#define WAKE_HELPERS_EVERY	(50 * INT64CONST(1000))
#define COALESCE_MS		2		/* commits that come so soon after a batch wait for each other */
#define CONFIRM_BYTES	(16 * 1024 * 1024)
#define CONFIRM_EVERY	(10 * USECS_PER_SEC)
#define STANDBY_SNAPSHOT_BYTES	(64 * 1024 * 1024)
#define STANDBY_SNAPSHOT_EVERY	(10 * USECS_PER_SEC)

static Scd2Database *db;
static Scd2Batch *batch;

/* A position that is committed, and the end of that commit. */
static XLogRecPtr written_position = InvalidXLogRecPtr;
static XLogRecPtr position_lsn = InvalidXLogRecPtr;	/* as it was found or is now */
static XLogRecPtr written_commit = InvalidXLogRecPtr;
static TimestampTz last_confirm = 0;
static TimestampTz last_batch = 0;
static TimestampTz last_advance = 0;

/* PROC_IN_LOGICAL_DECODING would make our rows vanish: see decoder.c. */
static void
check_not_marked(void)
{
	if (MyProc->statusFlags & PROC_IN_LOGICAL_DECODING)
		elog(PANIC, "capture worker is marked as only decoding");
}

/*
 * Creates row and slot in three transactions, so that a death in between leaves nothing that is not
 * found and cleared.
 */
static void
create_slot(Scd2Position *position, bool has_row)
{
	scd2_worker_set_state(SCD2_CAPTURE_CREATING_SLOT);
	pgstat_report_activity(STATE_RUNNING, "creating the replication slot: waits for running transactions to end");
	/*
	 * No worker saw the end of the extension that was here before; or its slot was lost, and
	 * another was named.
	 */
	scd2_drop_orphaned_slots();
	if (!has_row)
	{
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		scd2_position_create(position);
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
	/* The row must be on disk before a slot of its name can be. */
	XLogFlush(XactLastCommitEnd);

	StartTransactionCommand();
	scd2_decoder_drop_slot(NameStr(position->slot));
	position->lsn = scd2_decoder_create_slot(NameStr(position->slot));
	CommitTransactionCommand();

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	scd2_position_settle_controls(position);
	scd2_position_write(position->version, position->timestamp, position->lsn);
	PopActiveSnapshot();
	CommitTransactionCommand();
	scd2_worker_set_state(SCD2_CAPTURE_STARTING);
}

/*
 * A copy of another database, or a restored dump of one: somebody must say whether it shall be
 * captured. A slot that we made here before a dump was restored, or that pg_upgrade made, goes: it
 * would hold back WAL until then.
 */
static void
refuse_copy(const Scd2Position *position)
{
	if (!scd2_position_is_foreign(position))
		return;
	scd2_drop_orphaned_slots();
	ereport(WARNING,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("database %u is a copy or a restored dump of one that was captured: nothing is captured here", MyDatabaseId),
			 errdetail("Recorded are database %u of system " UINT64_FORMAT ", here are %u of " UINT64_FORMAT ".",
					   position->database, position->system_identifier,
					   MyDatabaseId, GetSystemIdentifier()),
			 errhint("SELECT scd2.resume_capture(); -- in that database")));
	scd2_worker_end_quietly(SCD2_CAPTURE_COPY);
}

/* The row, if there is one, with a position that can be gone on from, or none. */
static bool
find_position(Scd2Position *position)
{
	MemoryContext cxt = CurrentMemoryContext;
	char	   *why = NULL;
	bool		has_row;

	StartTransactionCommand();
	has_row = scd2_position_read(position);
	if (has_row && !XLogRecPtrIsInvalid(position->lsn) && !scd2_position_is_foreign(position))
		why = scd2_position_why_lost(position);
	if (why)
		why = MemoryContextStrdup(cxt, why);
	CommitTransactionCommand();
	if (has_row && scd2_position_is_foreign(position) && scd2_position_forget_empty())
		has_row = false;
	if (has_row)
		refuse_copy(position);
	if (why)
		scd2_position_lose(position, why);
	else if (has_row && !XLogRecPtrIsInvalid(position->lsn) && position->timeline != GetWALInsertionTimeLine())
		ereport(LOG,
				(errmsg("capture goes on at %X/%X on timeline %u: slot \"%s\" came along from timeline %d",
						LSN_FORMAT_ARGS(position->lsn), GetWALInsertionTimeLine(), NameStr(position->slot), position->timeline)));
	return has_row;
}

/*
 * The worker before us may have died between a commit and telling of it, or have been another
 * extension's: each feed can have rows up to the position.
 */
static void
publish_captured(void)
{
	ListCell   *lc;

	foreach(lc, scd2_captured_feeds())
		if (((Scd2Feed *) lfirst(lc))->backlog == NULL)
			scd2_feed_set_latest(((Scd2Feed *) lfirst(lc))->feed_id, batch->version);
}

static void
open_everything(Scd2Position *position)
{
	bool		has_row = find_position(position);

	batch = scd2_batch_create(TopMemoryContext, 0, 0);
	scd2_plugin_attach(batch);
	if (!has_row || XLogRecPtrIsInvalid(position->lsn))
		create_slot(position, has_row);
	position_lsn = position->lsn;
	batch->version = position->version;
	batch->timestamp = position->timestamp;

	StartTransactionCommand();
	scd2_decoder_open(NameStr(position->slot), position->lsn);
	CommitTransactionCommand();

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	scd2_captured_init(TopMemoryContext);
	scd2_blame_load();
	scd2_feed_forget_all();
	scd2_backlog_load();
	scd2_captured_load(batch);
	publish_captured();
	MemoryContextSwitchTo(TopMemoryContext);
	scd2_plugin_find_control(scd2_position_settled_controls());
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/*
 * So far, every commit is captured; tells who waits. But not before we have heard that the position
 * is no longer ours, if it is not: what was read is read before this is asked.
 */
static void
publish(XLogRecPtr captured)
{
	pg_atomic_write_u64(&db->version, (uint64) batch->version);
	pg_atomic_write_u64(&db->spilled, scd2_decoder_spilled());
	if (captured > pg_atomic_read_u64(&db->captured_lsn) && scd2_capture_has_heard(db))
	{
		pg_atomic_write_u64(&db->captured_lsn, captured);
		scd2_progress();
	}
}

/* Within the batch: shared memory has forgotten it. */
static bool
is_disabled(const Scd2Feed *feed)
{
	ListCell   *lc;

	foreach(lc, batch->controls)
	{
		const Scd2Control *control = lfirst(lc);

		if (control->feed_id == feed->feed_id && strcmp(control->kind, "disable feed") == 0)
			return true;
	}
	return false;
}

static void
publish_feeds(void)
{
	ListCell   *lc;

	foreach(lc, batch->feeds)
	{
		Scd2Feed   *feed = lfirst(lc);

		if (feed->rows == NULL || feed->backlog != NULL || is_disabled(feed))
			continue;
		/* What a feed that failed has of its last version does not count. */
		scd2_feed_set_latest(feed->feed_id, feed->failure ?
							 Min(feed->last_version, feed->failed_version - 1) : feed->last_version);
	}
}

/*
 * Workers without flows of their own are only told now and then, so that they can lend a hand: each
 * wake costs the writers beside us.
 */
static void
wake_apply(bool all)
{
	static TimestampTz last_all = 0;

	if (all || last_batch - last_all > WAKE_HELPERS_EVERY)
	{
		last_all = last_batch;
		scd2_wake_apply();
	}
	else
		scd2_wake_apply_at_home();
}

/* Feeds whose repair begins at the end of the batch that was written. */
static void
load_resynced(void)
{
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	scd2_captured_load(batch);
	PopActiveSnapshot();
	CommitTransactionCommand();
	SCD2_FAIL_POINT("resync begun");
}

static void
write_batch(void)
{
	bool		woken = batch->feeds != NIL || batch->controls != NIL;
	bool		batch_has_controls = batch->controls != NIL;
	bool		ends = batch->ends;
	bool		condemned = false;
	ListCell   *lc;

	foreach(lc, batch->feeds)
	{
		const Scd2Feed *feed = lfirst(lc);

		batch_has_controls |= feed->columns_changed;	/* flows follow */
		condemned |= feed->failure != NULL && scd2_is_condemned(feed->feed_id);
	}
	check_not_marked();
	pgstat_report_activity(STATE_RUNNING, "writing feeds");
	scd2_decoder_settle_caches();
	SCD2_FAIL_POINT("decoded");
	scd2_write_batch(batch);
	SCD2_FAIL_POINT("committed");
	position_lsn = written_position = batch->captured_end;
	written_commit = XactLastCommitEnd;
	last_advance = last_batch = GetCurrentTimestamp();
	scd2_decoder_forget_others();
	publish_feeds();
	if (batch_has_controls)
		pg_atomic_fetch_add_u32(&db->flows_changed, 1);
	scd2_batch_reset(batch);
	scd2_captured_forget_removed();
	if (condemned)
		scd2_blame_settle();
	if (ends)
		load_resynced();
	pg_atomic_write_u64(&db->version, (uint64) batch->version);
	pgstat_report_stat(false);
	if (woken)
		wake_apply(batch_has_controls);
}

/* Nothing of ours went by, but others' WAL did: the position moves, so that the slot can. */
static void
advance_idle(TimestampTz now, bool reached_end)
{
	XLogRecPtr	reached = scd2_decoder_reached();

	if (reached <= position_lsn)	/* reading begins at the slot's restart point */
		return;
	if (!scd2_decoder_saw_others())
		return;
	if (reached_end ? now - last_advance < IDLE_ADVANCE : now - last_advance < BEHIND_ADVANCE && reached - position_lsn < BEHIND_BYTES)
		return;
	check_not_marked();
	scd2_decoder_settle_caches();
	scd2_write_position(batch, reached);
	position_lsn = written_position = reached;
	written_commit = XactLastCommitEnd;
	last_advance = now;
	scd2_decoder_forget_others();
}

/* Lets the server forget the log before the position, when that is flushed and worth an fsync. */
static void
confirm(TimestampTz now)
{
	static TimestampTz last_snapshot = 0;

	if (XLogRecPtrIsInvalid(written_position) || written_commit > GetFlushRecPtr(NULL))
		return;
	if (written_position <= scd2_decoder_confirmed())
		return;
	if (written_position < scd2_decoder_confirmed() + CONFIRM_BYTES && now - last_confirm < CONFIRM_EVERY)
		return;
	/*
	 * A standby that is promoted has the slot as it was synchronized: it must not be ahead of the
	 * position's row that came with the log. So what is waited for is the commit of the row.
	 */
	if (!scd2_standbys_have(written_commit))
		return;
	SCD2_FAIL_POINT("before confirm");
	scd2_decoder_confirm(written_position);
	last_confirm = now;

	/*
	 * The slot's restart point moves only past a record of the running transactions; after a crash
	 * there may be none for long.
	 */
	if (scd2_decoder_confirmed() > MyReplicationSlot->data.restart_lsn + STANDBY_SNAPSHOT_BYTES &&
		now - last_snapshot > STANDBY_SNAPSHOT_EVERY)
	{
		last_snapshot = now;
		LogStandbySnapshot();
	}
}

/* One look at the log. True: its end was reached. */
static bool
work(void)
{
	XLogRecPtr	wake = pg_atomic_read_u64(&db->wake_lsn);
	XLogRecPtr	flushed;
	TimestampTz now;
	bool		reached_end;

	if (wake > GetFlushRecPtr(NULL))
		XLogFlush(wake);
	flushed = GetFlushRecPtr(NULL);
	reached_end = scd2_decoder_read(batch, scd2_batch_changes);
	if (batch->changes > 0)
		write_batch();
	publish(reached_end ? flushed : scd2_decoder_reached());

	now = GetCurrentTimestamp();
	if (reached_end)
		pg_atomic_write_u64(&db->caught_up, (uint64) now);
	advance_idle(now, reached_end);
	confirm(now);
	return reached_end;
}

/*
 * Between batches what waits is written where it belongs. Returns when to do so again; 0: nothing waits.
 * (A repair that has just begun can have left a change of columns in the batch: that goes first.)
 */
static TimestampTz
drain(void)
{
	TimestampTz again;

	if (!scd2_backlog_any())
		return 0;
	if (batch->changes > 0)
		return GetCurrentTimestamp();
	check_not_marked();
	scd2_decoder_settle_caches();
	if (scd2_backlog_drain(batch, &again))
		pgstat_report_stat(false);
	return again;
}

/* Waits for commits; see "Wake-up" above. "again": not beyond this time, 0: that of nothing. */
static void
rest(TimestampTz again)
{
	TimestampTz now = GetCurrentTimestamp();

	if (now - last_batch < COALESCE_MS * 1000)
	{
		(void) WaitLatch(NULL, WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, COALESCE_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		scd2_worker_wait(0);
		return;
	}
	pgstat_report_stat(false);	/* what was not due after the last batch */
	pgstat_report_activity(STATE_IDLE, NULL);
	scd2_worker_wait(again == 0 ? scd2_naptime : Min(scd2_naptime, Max(1, (again - now) / 1000)));
}

static void
set_decoding_memory(void)
{
	char		kb[32];

	/* What the decoder really uses is about a third more than its limit. */
	snprintf(kb, sizeof(kb), "%d", Max(64, (int) (scd2_decoding_work_mem * 0.75)));
	SetConfigOption("logical_decoding_work_mem", kb, PGC_SUSET, PGC_S_OVERRIDE);
}

static void
run(void)
{
	Scd2Position position;
	bool		reached_end;
	bool		told = false;
	TimestampTz again;

	memset(&position, 0, sizeof(position));
	scd2_require_settings();
	scd2_memory_keep();
	set_decoding_memory();
	open_everything(&position);
	scd2_worker_set_state(SCD2_CAPTURE_RUNNING);
	LWLockAcquire(scd2_shmem->lock, LW_EXCLUSIVE);
	db->napply = SCD2_MAX_APPLY;
	LWLockRelease(scd2_shmem->lock);
	scd2_wake_launcher();
	for (;;)
	{
		reached_end = work();
		if (!told)
			scd2_worker_succeeded();
		told = true;
		again = drain();
		scd2_memory_give_back(!reached_end);
		if (reached_end)
			rest(again);
		else
			scd2_worker_wait(0);
		set_decoding_memory();
	}
}

/* An error while changes are decoded is that of a feed, if it comes again and again (capture/blame.c). */
static void
run_and_blame(void)
{
	PG_TRY();
	{
		run();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(TopMemoryContext);
		error = CopyErrorData();
		if (scd2_blame_note(error, scd2_decoder_at()))
			scd2_worker_retry_soon();
		FreeErrorData(error);
		PG_RE_THROW();
	}
	PG_END_TRY();
}

void
scd2_capture_main(Datum arg)
{
	Scd2WorkerArg who;

	db = scd2_worker_begin(&who);
	scd2_worker_run(run_and_blame);
}
