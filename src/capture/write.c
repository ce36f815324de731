/*
 * write.c
 *		A batch into the database: feeds, control effects, position, in one transaction.
 *
 * What a feed cannot take now, because of somebody's lock or an error, is put aside (backlog.c), and so is
 * all that comes while something of it waits.
 *
 * At first without a savepoint per feed, which would cost a transaction id each. If writing a feed
 * fails, the transaction is rolled back and done again with a savepoint per feed. Any other error ends
 * the worker, and the next one begins at the position.
 *
 * A feed whose gap is of a rewrite (scd2_batch_repair_feed()) is repaired from the end of the batch
 * on, as scd2.resync() would have it, if there is something to compare its source with. It never
 * ceased to be captured then.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/pg_lsn.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "pg_scd2.h"
#include "compat.h"
#include "capture/backlog.h"
#include "capture/captured.h"
#include "capture/feed_state.h"
#include "capture/position.h"
#include "capture/transaction.h"
#include "capture/write.h"
#include "feed/writer.h"
#include "flow/begin.h"
#include "names.h"
#include "worker/failpoint.h"
#include "worker/marks.h"
#include "worker/worker.h"

static bool writing = false;	/* at a feed: an error is its own */

static bool
all_visible(Scd2Batch *batch)
{
	Snapshot	snapshot = GetActiveSnapshot();

	for (int i = batch->nxids - 1; i >= 0; i--)
		if (XidInMVCCSnapshot(batch->xids[i], snapshot))
			return false;
	return true;
}

/* Waits until new snapshots see every transaction of the batch. */
static void
wait_until_visible(Scd2Batch *batch)
{
	while (!all_visible(batch))
	{
		PopActiveSnapshot();
		pgstat_report_activity(STATE_RUNNING, "waiting for committed transactions to become visible (synchronous replication)");
		(void) WaitLatch(NULL, WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 1, PG_WAIT_EXTENSION);
		CHECK_FOR_INTERRUPTS();
		PushActiveSnapshot(GetLatestSnapshot());
	}
}

static void
tell_of_failure(const Scd2Feed *feed)
{
	ereport(feed->goes_on ? LOG : WARNING,
			(errcode(ERRCODE_DATA_EXCEPTION),
			 errmsg("the change data feed of table %s has a gap from version " INT64_FORMAT " on: %s",
					scd2_relation_name(feed->source_relid), feed->failed_version, feed->failure)));
}

static void
apply_control(Scd2Control *control)
{
	if (strcmp(control->kind, "enable feed") == 0)
		scd2_feed_state_enable(control);
	else if (strcmp(control->kind, "disable feed") == 0)
	{
		if (!scd2_backlog_disable(control->feed_id))
			scd2_feed_state_disable(control->feed_id);
	}
	else if (strcmp(control->kind, "begin flow") == 0)
		scd2_flow_begin(control->flow_id, control->version, control->timestamp);
	else if (strcmp(control->kind, "resync") == 0)
		scd2_feed_state_resync(control);
}

static void
apply_controls(Scd2Batch *batch)
{
	ListCell   *lc;

	if (batch->controls == NIL)
		return;
	SPI_connect();
	foreach(lc, batch->controls)
	{
		Scd2Control *control = lfirst(lc);
		Oid			types[] = {INT8OID};
		Datum		values[] = {Int64GetDatum(control->control_id)};

		apply_control(control);
		if (SPI_execute_with_args("DELETE FROM scd2_internal.control WHERE control_id = $1", 1, types, values, NULL, false, 0) != SPI_OK_DELETE)
			elog(ERROR, "could not delete from scd2_internal.control");
	}
	SPI_finish();
	CommandCounterIncrement();
}

/* Those of feeds that have a backlog are in it. */
static void
apply_failures(Scd2Batch *batch)
{
	ListCell   *lc;

	SPI_connect();
	foreach(lc, batch->feeds)
	{
		Scd2Feed   *feed = lfirst(lc);

		if (feed->failure == NULL || scd2_feed_is_disabled(feed->feed_id))
			continue;
		if (feed->backlog == NULL)
		{
			scd2_feed_state_fail(feed->feed_id, feed->failed_version, feed->failure);
			feed->goes_on = feed->repairs && scd2_feed_state_repair(feed->feed_id, batch->version, batch->version_timestamp);
		}
		tell_of_failure(feed);
	}
	SPI_finish();
}

/* Writing numbers the columns that are new (feed/writer.c); what was rolled back has no numbers. */
static void
remember_columns(Scd2Batch *batch, Scd2Feed *feed)
{
	Size		size = feed->layout->natts * sizeof(Scd2Column);

	if (!feed->columns_changed)
		return;
	feed->columns_before = MemoryContextAlloc(batch->cxt, size);
	memcpy(feed->columns_before, feed->columns, size);
}

static void
recall_columns(Scd2Feed *feed)
{
	if (feed->columns_before != NULL)
		memcpy(feed->columns, feed->columns_before, feed->layout->natts * sizeof(Scd2Column));
	feed->columns_before = NULL;
}

/* Its part of the batch, where it belongs. False: somebody's lock is in the way. */
static bool
write_feed(Scd2Feed *feed)
{
	if (!scd2_feed_lock(feed, 0))
		return false;
	scd2_feed_write(feed);
	return true;
}

/* The same in a savepoint. "error" becomes why it failed. */
static bool
write_feed_alone(Scd2Feed *feed, ErrorData **error)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool written = false;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		written = write_feed(feed);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		*error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		written = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	return written;
}

static bool
has_something(const Scd2Feed *feed)
{
	return feed->rows != NULL || feed->columns_changed || (feed->failure != NULL && feed->backlog != NULL);
}

/* "alone": each feed in a savepoint. */
static void
write_feeds(Scd2Batch *batch, bool alone)
{
	ListCell   *lc;

	foreach(lc, batch->feeds)
	{
		Scd2Feed   *feed = lfirst(lc);
		ErrorData  *error = NULL;

		feed->goes_on = false;
		if (!has_something(feed))
			continue;
		recall_columns(feed);
		remember_columns(batch, feed);
		writing = true;
		if (scd2_backlog_on_relation(feed->feed_relid) || !(alone ? write_feed_alone(feed, &error) : write_feed(feed)))
		{
			writing = false;
			recall_columns(feed);
			scd2_backlog_put(batch, feed, error != NULL && error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE ? NULL : error);
		}
		writing = false;
	}
}

static void
write_all(Scd2Batch *batch, bool alone)
{
	scd2_backlog_begin();
	scd2_begin_write();
	wait_until_visible(batch);
	write_feeds(batch, alone);
	SCD2_FAIL_POINT("feeds written");
	apply_controls(batch);
	apply_failures(batch);
	scd2_position_write(batch->version, batch->timestamp, batch->captured_end);
	SCD2_FAIL_POINT("position written");
	scd2_commit_write();
	scd2_backlog_settle();
}

/*
 * Feeds that failed are captured no longer: resync() is another beginning. Those whose repair has
 * begun go on; its version is their last.
 */
static void
settle_failed(Scd2Batch *batch)
{
	ListCell   *lc;

	foreach(lc, batch->feeds)
	{
		Scd2Feed   *feed = lfirst(lc);

		if (feed->goes_on)
		{
			feed->failure = NULL;
			feed->repairs = feed->goes_on = false;
			if (feed->backlog != NULL)
				continue;
			feed->last_version = batch->version;
			scd2_feed_set_latest(feed->feed_id, batch->version);
		}
		else if (feed->failure || (feed->backlog != NULL && !scd2_backlog_goes_on(feed->backlog)))
			scd2_captured_remove(feed->feed_id);
	}
}

/* The layouts are settled next: the copies go with the batch. */
static void
forget_columns(Scd2Batch *batch)
{
	ListCell   *lc;

	foreach(lc, batch->feeds)
		((Scd2Feed *) lfirst(lc))->columns_before = NULL;
}

/*
 * Writes the batch. After an error that is not a feed's own the transaction is left for the process
 * to end with.
 */
void
scd2_write_batch(Scd2Batch *batch)
{
	MemoryContext cxt = CurrentMemoryContext;
	volatile bool again = false;

	PG_TRY();
	{
		write_all(batch, false);
	}
	PG_CATCH();
	{
		if (!writing)
			PG_RE_THROW();
		writing = false;
		MemoryContextSwitchTo(cxt);
		FlushErrorState();
		AbortOutOfAnyTransaction();
		scd2_mark_writes(false);
		again = true;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	if (again)
		write_all(batch, true);
	forget_columns(batch);
	scd2_captured_settle(batch->feeds);
	settle_failed(batch);
}

/* Moves the position alone. */
void
scd2_write_position(Scd2Batch *batch, XLogRecPtr lsn)
{
	scd2_begin_write();
	scd2_position_write(batch->version, batch->timestamp, lsn);
	scd2_commit_write();
}
