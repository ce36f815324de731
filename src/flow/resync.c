/*
 * resync.c
 *		The repair of feeds that have a gap: the comparison, in an apply worker.
 *
 * What is compared with what, and why, is said in src/sql/38_resync.sql, which also writes the
 * statements. Here is the transaction around them:
 *
 *   1. the feed's repair is taken by a lock that is only ever tried, and so are its flows: none
 *      applies a batch meanwhile, so their targets are as of the gap
 *   2. capture passes the end of the log as it is now; what the comparison's snapshot sees beyond
 *      that, table_at() waits for itself
 *   3. as the feed's owner: what capture wrote of the gap's versions goes, the differences come
 *   4. the gap is closed, in the same transaction
 *
 * An error rolls all of it back and is recorded in another; five that will not pass by themselves,
 * and the feed is as it was before scd2.resync(), with that error.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "pg_scd2.h"
#include "flow/check.h"
#include "flow/resync.h"
#include "identity.h"
#include "worker/failpoint.h"
#include "worker/marks.h"
#include "worker/sync.h"
#include "worker/worker.h"

#define LOOK_AGAIN	(100 * INT64CONST(1000))	/* for flows and columns that are about to be there */

/* What scd2_internal.resync_plan() says. */
typedef struct Repair
{
	bool		wait;
	Oid			owner;
	Oid			feed;
	char	   *remove;
	char	   *statement;		/* NULL: nothing can be compared */
	Datum		known;			/* columns that are compared, if "statement" */
	bool		whole;			/* those are all */
	Datum		truncated;		/* the last TRUNCATE since, */
	bool		is_truncated;	/* if there is one */
} Repair;

static void
query(const char *sql, int nargs, Oid *types, Datum *values, const char *nulls)
{
	if (SPI_execute_with_args(sql, nargs, types, values, nulls, false, 0) < 0)
		elog(ERROR, "could not execute \"%s\"", sql);
}

/*
 * The feeds to be repaired whose time has come, a list in "cxt". "again" becomes the time of the next
 * one that has to wait.
 */
static List *
feeds_to_repair(MemoryContext cxt, TimestampTz *again)
{
	List	   *feeds = NIL;
	TimestampTz now = GetCurrentTimestamp();

	query("SELECT feed_id, resync_retry_at FROM scd2_internal.feed_state WHERE resync_version IS NOT NULL ORDER BY feed_id", 0, NULL, NULL, NULL);
	MemoryContextSwitchTo(cxt);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;
		Datum		feed = SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull);
		TimestampTz at = DatumGetTimestampTz(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 2, &isnull));

		if (isnull || at <= now)
			feeds = lappend_int(feeds, DatumGetInt32(feed));
		else
			*again = Min(*again, at);
	}
	return feeds;
}

static bool
try_lock(const LOCKTAG *tag)
{
	return LockAcquire(tag, ExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL;
}

/* The repair, and each flow over the feed. */
static bool
take(int feed_id)
{
	LOCKTAG		tag;
	Oid			types[] = {INT4OID};
	Datum		values[] = {Int32GetDatum(feed_id)};
	bool		isnull;

	scd2_repair_locktag(&tag, feed_id);
	if (!try_lock(&tag))
		return false;
	query("SELECT flow_id FROM scd2_internal.flow WHERE feed_id = $1 ORDER BY flow_id", 1, types, values, NULL);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		scd2_flow_locktag(&tag, DatumGetInt32(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull)));
		if (!try_lock(&tag))
			return false;
	}
	return true;
}

static void
make_plan(int feed_id, Repair *plan)
{
	Oid			types[] = {INT4OID};
	Datum		values[] = {Int32GetDatum(feed_id)};
	HeapTuple	tup;
	TupleDesc	desc;
	bool		isnull;

	query("SELECT p.wait, p.owner, p.remove, p.statement, p.whole, p.known, p.truncated, f.feed_relid::oid"
		  " FROM scd2_internal.resync_plan($1) AS p LEFT JOIN scd2_internal.feed AS f ON f.feed_id = $1", 1, types, values, NULL);
	tup = SPI_tuptable->vals[0];
	desc = SPI_tuptable->tupdesc;
	plan->wait = DatumGetBool(SPI_getbinval(tup, desc, 1, &isnull));
	if (plan->wait)
		return;
	plan->owner = DatumGetObjectId(SPI_getbinval(tup, desc, 2, &isnull));
	plan->remove = SPI_getvalue(tup, desc, 3);
	plan->statement = SPI_getvalue(tup, desc, 4);
	plan->whole = DatumGetBool(SPI_getbinval(tup, desc, 5, &isnull));
	plan->known = SPI_getbinval(tup, desc, 6, &isnull);
	plan->truncated = SPI_getbinval(tup, desc, 7, &isnull);
	plan->is_truncated = !isnull;
	plan->feed = DatumGetObjectId(SPI_getbinval(tup, desc, 8, &isnull));
}

/*
 * It takes as long as capture takes. If the workers are told to look whether they are wanted, it ends;
 * and if capture waits for a lock of ours (it has found its place lost, and declares another gap).
 */
static void
wait_for_capture(void)
{
	Scd2Database *db = scd2_my_database();
	uint32		recheck = pg_atomic_read_u32(&db->recheck);
	XLogRecPtr	end = scd2_flushed_end();

	while (pg_atomic_read_u64(&db->captured_lsn) < end)
	{
		scd2_wake_capture(end);
		if (ConditionVariableTimedSleep(&db->progress, 100, PG_WAIT_EXTENSION))
		{
			ConditionVariableCancelSleep();
			if (scd2_worker_behind_us(false) != NULL)
				ereport(ERROR, (errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
								errmsg("the repair gives way: capture, which it waits for, waits for a lock of its own")));
		}
		CHECK_FOR_INTERRUPTS();
		if (pg_atomic_read_u32(&db->recheck) != recheck)
			ereport(ERROR, (errcode(ERRCODE_OPERATOR_INTERVENTION),
							errmsg("the repair is interrupted: the workers may have to stop")));
	}
	ConditionVariableCancelSleep();
}

/* As the feed's owner, whose tables these are. */
static void
write_differences(const Repair *plan)
{
	Scd2Identity self;
	int			nest = NewGUCNestLevel();

	/* These statements read whole tables. */
	(void) set_config_option("enable_seqscan", "on", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	(void) set_config_option("enable_hashjoin", "on", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	(void) set_config_option("enable_mergejoin", "on", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	scd2_mark_as_own(plan->feed, InvalidOid);
	scd2_become(plan->owner, &self);
	query(plan->remove, 0, NULL, NULL, NULL);
	if (plan->statement != NULL)
		query(plan->statement, 0, NULL, NULL, NULL);
	scd2_become_self_again(&self);
	scd2_mark_as_own(InvalidOid, InvalidOid);
	AtEOXact_GUC(true, nest);
}

static void
close_gap(int feed_id, const Repair *plan)
{
	Oid			types[] = {INT4OID, BOOLOID, NAMEARRAYOID, INT8OID};
	Datum		values[] = {Int32GetDatum(feed_id), BoolGetDatum(plan->whole), plan->known, plan->truncated};
	char		nulls[] = {' ', ' ', plan->statement ? ' ' : 'n', plan->is_truncated ? ' ' : 'n', '\0'};

	query("SELECT scd2_internal.resync_done($1, $2, $3, $4)", 4, types, values, nulls);
}

/* False: not yet. */
static bool
repair(MemoryContext work_cxt, int feed_id)
{
	Repair		plan = {0};
	bool		done = false;

	scd2_worker_begin_work(work_cxt, "comparing a source with a target");
	if (take(feed_id))
	{
		PopActiveSnapshot();
		PushActiveSnapshot(GetTransactionSnapshot());	/* what flows did before they were taken */
		make_plan(feed_id, &plan);
		done = !plan.wait;
	}
	if (done)
	{
		SCD2_FAIL_POINT("resync taken");
		SCD2_WAIT_POINT("resync taken");
		wait_for_capture();
		PopActiveSnapshot();
		PushActiveSnapshot(GetTransactionSnapshot());
		write_differences(&plan);
		SCD2_FAIL_POINT("resync compared");
		close_gap(feed_id, &plan);
		SCD2_FAIL_POINT("resync done");
	}
	scd2_worker_end_work();
	if (done)
		SCD2_FAIL_POINT("resync committed");
	return done;
}

/* Errors that may pass by themselves: conflicts, resources, locks, operators. */
static bool
passes(int sqlerrcode)
{
	int			category = ERRCODE_TO_CATEGORY(sqlerrcode);

	return category == ERRCODE_TRANSACTION_ROLLBACK || category == ERRCODE_INSUFFICIENT_RESOURCES ||
		category == ERRCODE_OPERATOR_INTERVENTION || sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE;
}

static void
write_failure(MemoryContext work_cxt, int feed_id, const ErrorData *error)
{
	Oid			types[] = {INT4OID, TEXTOID, BOOLOID};
	Datum		values[3];

	scd2_worker_begin_work(work_cxt, "recording a failure");
	values[0] = Int32GetDatum(feed_id);
	values[1] = CStringGetTextDatum(error->message);
	values[2] = BoolGetDatum(!passes(error->sqlerrcode));
	query("SELECT scd2_internal.resync_failed($1, $2, $3)", 3, types, values, NULL);
	scd2_worker_end_work();
}

/* If that fails too, it is tried again after a while, and fails again. */
static void
record_failure(MemoryContext work_cxt, int feed_id, const ErrorData *error)
{
	PG_TRY();
	{
		write_failure(work_cxt, feed_id, error);
	}
	PG_CATCH();
	{
		EmitErrorReport();
		FlushErrorState();
		AbortOutOfAnyTransaction();
	}
	PG_END_TRY();
}

/* As repair(), but what goes wrong is the feed's. */
static bool
repair_safely(MemoryContext work_cxt, int feed_id)
{
	MemoryContext cxt = CurrentMemoryContext;
	ErrorData  *volatile error = NULL;
	volatile bool done = false;

	PG_TRY();
	{
		done = repair(work_cxt, feed_id);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		EmitErrorReport();
		FlushErrorState();
		AbortOutOfAnyTransaction();
	}
	PG_END_TRY();
	MemoryContextReset(work_cxt);
	if (error != NULL)
	{
		record_failure(work_cxt, feed_id, error);
		FreeErrorData(error);
	}
	MemoryContextReset(work_cxt);
	MemoryContextSwitchTo(cxt);
	return done;
}

/*
 * Repairs the feeds that are to be repaired. Returns when to look again. Outside a transaction;
 * "work_cxt" is reset.
 */
TimestampTz
scd2_repair_feeds(MemoryContext work_cxt)
{
	MemoryContext cxt = CurrentMemoryContext;
	Scd2Database *db = scd2_my_database();
	TimestampTz again = PG_INT64_MAX;
	List	   *feeds;
	ListCell   *lc;

	scd2_worker_begin_work(work_cxt, "looking for feeds to repair");
	feeds = feeds_to_repair(cxt, &again);
	scd2_worker_end_work();
	MemoryContextSwitchTo(cxt);
	foreach(lc, feeds)
	{
		if (repair_safely(work_cxt, lfirst_int(lc)))
		{
			/* Flows go on. */
			pg_atomic_fetch_add_u32(&db->flows_changed, 1);
			scd2_wake_apply();
			scd2_progress();
		}
		else
		{
			again = Min(again, GetCurrentTimestamp() + LOOK_AGAIN);
			pg_atomic_fetch_add_u32(&db->run_now, 1);	/* flows are not waited for until a refresh is due */
			scd2_wake_apply();
		}
	}
	list_free(feeds);
	return again;
}
