/*
 * write.c
 *		A batch into the database: feeds, control effects, position, in one transaction.
 *
 * At first without a savepoint per feed, which would cost a transaction id each. If a feed's rows
 * fail for good, the transaction is rolled back and done again with a savepoint per feed: the ones
 * that fail get state "failed" with a gap from their first version in the batch, the others their
 * rows. Any other error ends the worker, and the next one begins at the position.
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
#include "capture/captured.h"
#include "capture/position.h"
#include "capture/write.h"
#include "feed/layout.h"
#include "feed/owners_code.h"
#include "feed/writer.h"
#include "flow/begin.h"
#include "names.h"
#include "worker/failpoint.h"
#include "worker/marks.h"
#include "worker/worker.h"

static void
begin_transaction(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	scd2_mark_writes(true);
}

static void
commit_transaction(void)
{
	PopActiveSnapshot();
	CommitTransactionCommand();
	scd2_mark_writes(false);
}

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
execute(const char *sql, int nargs, Oid *types, Datum *values, const char *nulls)
{
	int			rc = SPI_execute_with_args(sql, nargs, types, values, nulls, false, 0);

	if (rc < 0)
		elog(ERROR, "SPI error %s: %s", SPI_result_code_string(rc), sql);
}

static void
enable_feed(Scd2Control *control)
{
	Oid			types[] = {INT4OID, OIDOID, OIDOID, INT8OID, TIMESTAMPTZOID};
	Datum		values[] = {
		Int32GetDatum(control->feed_id), ObjectIdGetDatum(control->source_relid),
		ObjectIdGetDatum(control->feed_relid), Int64GetDatum(control->version),
		TimestampTzGetDatum(control->timestamp)
	};

	execute("INSERT INTO scd2_internal.feed_state"
			" (feed_id, source_relid, feed_relid, state, enabled_version, enabled_at, earliest_version)"
			" VALUES ($1, $2, $3, 'running', $4, $5, $4)", 5, types, values, NULL);
}

static void
disable_feed(Scd2Control *control)
{
	Oid			types[] = {INT4OID};
	Datum		values[] = {Int32GetDatum(control->feed_id)};

	execute("DELETE FROM scd2_internal.feed_state WHERE feed_id = $1", 1, types, values, NULL);
	execute("DELETE FROM scd2_internal.feed_column WHERE feed_id = $1", 1, types, values, NULL);
	execute("DELETE FROM scd2_internal.reconstruction WHERE feed_id = $1", 1, types, values, NULL);
	scd2_feed_forget(control->feed_id);
}

/*
 * What the repair of a feed brings stands at this place. A feed that is not broken (any more) needs
 * none. Since it failed nothing was followed.
 */
static void
begin_resync(Scd2Control *control)
{
	Oid			types[] = {INT4OID, INT8OID, TIMESTAMPTZOID};
	Datum		values[] = {
		Int32GetDatum(control->feed_id), Int64GetDatum(control->version), TimestampTzGetDatum(control->timestamp)
	};

	execute("UPDATE scd2_internal.feed_state SET state = 'running', resync_version = $2, resync_timestamp = $3, resync_failures = 0, resync_retry_at = NULL, catches_up = true"
			" WHERE feed_id = $1 AND state = 'failed' AND broken_at IS NOT NULL", 3, types, values, NULL);
	scd2_feed_set_latest(control->feed_id, control->version);
}

/* False: there is nothing to compare the feed's source with. */
static bool
begin_repair(const Scd2Batch *batch, const Scd2Feed *feed)
{
	Oid			types[] = {INT4OID, INT8OID, TIMESTAMPTZOID};
	Datum		values[] = {
		Int32GetDatum(feed->feed_id), Int64GetDatum(batch->version), TimestampTzGetDatum(batch->version_timestamp)
	};
	bool		isnull;

	execute("SELECT scd2_internal.begin_repair($1, $2, $3)", 3, types, values, NULL);
	return DatumGetBool(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
}

/* A feed that was disabled meanwhile, further on in the log, may well be gone. */
static bool
is_disabled(int feed_id)
{
	Oid			types[] = {INT4OID};
	Datum		values[] = {Int32GetDatum(feed_id)};

	execute("SELECT FROM scd2_internal.feed WHERE feed_id = $1 AND NOT disabled", 1, types, values, NULL);
	return SPI_processed == 0;
}

static void
record_failure(const Scd2Feed *feed)
{
	Oid			types[] = {INT4OID, INT8OID, TEXTOID};
	Datum		values[] = {
		Int32GetDatum(feed->feed_id), Int64GetDatum(feed->failed_version), CStringGetTextDatum(feed->failure)
	};

	execute("UPDATE scd2_internal.feed_state"
			" SET state = 'failed', gap = int8range(least(lower(gap), $2), NULL), broken_at = least(broken_at, $2), resync_version = NULL,"
			"     catches_up = false, error = $3, error_at = clock_timestamp()"
			" WHERE feed_id = $1 AND state = 'running'", 3, types, values, NULL);
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

		if (strcmp(control->kind, "enable feed") == 0)
			enable_feed(control);
		else if (strcmp(control->kind, "disable feed") == 0)
			disable_feed(control);
		else if (strcmp(control->kind, "begin flow") == 0)
			scd2_flow_begin(control->flow_id, control->version, control->timestamp);
		else if (strcmp(control->kind, "resync") == 0)
			begin_resync(control);
		execute("DELETE FROM scd2_internal.control WHERE control_id = $1", 1, types, values, NULL);
	}
	SPI_finish();
	CommandCounterIncrement();
}

static void
apply_failures(Scd2Batch *batch)
{
	ListCell   *lc;

	SPI_connect();
	foreach(lc, batch->feeds)
	{
		Scd2Feed   *feed = lfirst(lc);

		feed->goes_on = false;
		if (feed->failure == NULL || is_disabled(feed->feed_id))
			continue;
		record_failure(feed);
		feed->goes_on = feed->repairs && begin_repair(batch, feed);
		tell_of_failure(feed);
	}
	SPI_finish();
}

/* A feed's rows in a savepoint: if they fail for good, so does the feed. */
static void
write_feed_alone(Scd2Feed *feed)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		scd2_feed_write(feed);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		if (!scd2_feed_error_is_permanent(error))
			PG_RE_THROW();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		feed->failure = MemoryContextStrdup(feed->cxt, error->message);
		feed->failed_version = feed->first_version;
		feed->repairs = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
}

static void
write_all(Scd2Batch *batch, bool alone)
{
	ListCell   *lc;

	begin_transaction();
	wait_until_visible(batch);
	foreach(lc, batch->feeds)
	{
		Scd2Feed   *feed = lfirst(lc);

		if (feed->rows == NULL && !feed->columns_changed)
			continue;
		if (alone)
			write_feed_alone(feed);
		else
			scd2_feed_write(feed);
	}
	SCD2_FAIL_POINT("feeds written");
	apply_controls(batch);
	apply_failures(batch);
	scd2_position_write(batch->version, batch->timestamp, batch->captured_end);
	SCD2_FAIL_POINT("position written");
	commit_transaction();
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
			feed->last_version = batch->version;
			scd2_feed_set_latest(feed->feed_id, batch->version);
		}
		else if (feed->failure)
			scd2_captured_remove(feed->feed_id);
	}
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
		MemoryContextSwitchTo(cxt);
		if (!scd2_feed_error_is_permanent(CopyErrorData()))
			PG_RE_THROW();
		FlushErrorState();
		AbortOutOfAnyTransaction();
		scd2_mark_writes(false);
		again = true;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	if (again)
		write_all(batch, true);
	scd2_captured_settle(batch->feeds);
	settle_failed(batch);
}

/* Moves the position alone. */
void
scd2_write_position(Scd2Batch *batch, XLogRecPtr lsn)
{
	begin_transaction();
	scd2_position_write(batch->version, batch->timestamp, lsn);
	commit_transaction();
}
