/*
 * sync.c
 *		scd2.sync(): waits until what was committed before the call is in the feeds and in the targets.
 *
 * A round: take the log's end, have it flushed and captured, then wait until every flow asked for
 * has applied the version that was reached. Targets can be sources of others: rounds are repeated
 * until one brings no new version.
 *
 * Waiting for oneself is refused. In a transaction that has written, capture waits for its commit;
 * in one whose snapshot is fixed, the result could not be seen (25001). A lock of the caller's that
 * a worker waits for is found with pg_blocking_pids (55P03).
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "commands/dbcommands.h"
#include "access/xlog_internal.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "pg_scd2.h"
#include "span.h"
#include "compat.h"
#include "identity.h"
#include "worker/ready.h"
#include "worker/sync.h"
#include "worker/worker.h"

#define LOOK_AGAIN		100		/* ms; signs of progress may be those of flows that we do not wait for */

PG_FUNCTION_INFO_V1(scd2_sync);

typedef struct Sync
{
	TimestampTz deadline;		/* 0: none */
	Oid			caller;
	Datum		targets;		/* regclass[] */
	bool		all;			/* no targets given */
	bool		noticed;		/* what is not waited for was told */
	TimestampTz since;			/* snapshots older than this do not count */
	TimestampTz looked_at;		/* for what is in our way */
} Sync;

/*
 * The end of the log as it is now, flushed. The insert position stands behind the header of a page
 * in which there is nothing yet: such a place can be neither flushed nor reached.
 */
XLogRecPtr
scd2_flushed_end(void)
{
	XLogRecPtr	end = GetXLogInsertRecPtr();
	uint32		in_page = end % XLOG_BLCKSZ;

	if (in_page == SizeOfXLogShortPHD ||
		(in_page == SizeOfXLogLongPHD && XLogSegmentOffset(end, wal_segment_size) == SizeOfXLogLongPHD))
		end -= in_page;
	XLogFlush(end);
	return end;
}

static void
refuse_waiting_for_oneself(void)
{
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("scd2.sync() cannot run in a transaction that has written"),
				 errdetail("It would wait for the transaction's own commit."),
				 errhint("COMMIT; SELECT scd2.sync();")));
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("scd2.sync() cannot run in a transaction whose snapshot is fixed"),
				 errdetail("The transaction could not see the result."),
				 errhint("COMMIT; SELECT scd2.sync();")));
}

/* One value of a query, as the extension's owner sees it. */
static char *
ask(const char *sql, int nargs, Oid *types, Datum *values, const char *nulls)
{
	Scd2Identity self;
	MemoryContext cxt = CurrentMemoryContext;
	char	   *answer = NULL;

	scd2_become(BOOTSTRAP_SUPERUSERID, &self);
	SPI_connect();
	if (SPI_execute_with_args(sql, nargs, types, values, nulls, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read scd2_internal");
	if (SPI_processed > 0)
	{
		char	   *value = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);

		if (value)
			answer = MemoryContextStrdup(cxt, value);
	}
	SPI_finish();
	scd2_become_self_again(&self);
	return answer;
}

/* What a worker says of its error can have values of anybody's rows in it: it is for superusers, as in scd2.capture. */
static char *
error_for_caller(const char *error)
{
	return superuser() ? psprintf(": %s", error) : pstrdup("");
}

static void
check_workers(Scd2Database *db)
{
	Scd2CaptureState state;
	char		error[SCD2_ERROR_LEN];

	scd2_require_settings();
	LWLockAcquire(scd2_shmem->lock, LW_SHARED);
	state = db->state;
	strlcpy(error, db->error, SCD2_ERROR_LEN);
	LWLockRelease(scd2_shmem->lock);
	scd2_refuse_copy();
	if (state == SCD2_CAPTURE_STOPPED)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the workers of database \"%s\" are stopped", get_database_name(MyDatabaseId)),
				 errhint("SELECT scd2.start();")));
	if (state == SCD2_CAPTURE_FAILED)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the capture worker of database \"%s\" failed%s", get_database_name(MyDatabaseId), error_for_caller(error)),
				 errhint("SELECT * FROM scd2.diagnose();")));
}

/* Raises 55000 if there is no apply worker and none can stay: a flow that fails is another matter. */
static void
check_apply_workers(Scd2Database *db)
{
	int			failing = 0;
	char		error[SCD2_ERROR_LEN];

	LWLockAcquire(scd2_shmem->lock, LW_SHARED);
	for (int i = 0; i < Min(db->napply, scd2_max_apply_workers); i++)
		if (db->apply_pid[i] == 0 && db->apply_failures[i] > 1)
			failing++;
	strlcpy(error, db->apply_error, SCD2_ERROR_LEN);
	LWLockRelease(scd2_shmem->lock);
	if (failing == 0 || failing < Min(db->napply, scd2_max_apply_workers))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the apply workers of database \"%s\" failed%s", get_database_name(MyDatabaseId), error_for_caller(error)),
			 errhint("SELECT * FROM scd2.diagnose();")));
}

/*
 * The pid of a worker ("all", else of the capture worker) that waits for a lock of this process,
 * itself or behind others who wait for it; NULL if there is none. Who waits for a worker must ask:
 * the server sees no deadlock where one of the waits is not for a lock.
 */
char *
scd2_worker_behind_us(bool all)
{
	Oid			types[] = {BOOLOID};
	Datum		values[] = {BoolGetDatum(all)};

	return ask("WITH RECURSIVE waiting (worker, behind) AS ("
			   "  SELECT w.pid, pg_catalog.unnest(pg_catalog.pg_blocking_pids(w.pid))"
			   "  FROM scd2_internal.capture_status() s,"
			   "    pg_catalog.unnest(CASE WHEN $1 THEN s.apply_pids || s.pid ELSE ARRAY[s.pid] END) w (pid)"
			   "  UNION"
			   "  SELECT w.worker, pg_catalog.unnest(pg_catalog.pg_blocking_pids(w.behind)) FROM waiting w WHERE w.behind <> pg_catalog.pg_backend_pid())"
			   " SELECT w.worker FROM waiting w WHERE w.behind = pg_catalog.pg_backend_pid()",
			   1, types, values, NULL);
}

/* One column of what scd2_internal.sync_waits_for() says; NULL: nothing. */
static char *
waits_for(const Sync *sync, const char *column)
{
	Oid			types[] = {OIDOID};
	Datum		values[] = {ObjectIdGetDatum(sync->caller)};

	return ask(psprintf("SELECT %s FROM scd2_internal.sync_waits_for($1)", column), 1, types, values, NULL);
}

static void
check_own_locks(const Sync *sync)
{
	char	   *mine = scd2_worker_behind_us(true);

	(void) waits_for(sync, "why");

	if (mine)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("scd2.sync() would wait for a lock of its own transaction"),
				 errdetail("Worker %s waits for a lock that this session holds.", mine),
				 errhint("COMMIT; SELECT scd2.sync();")));
}

static void
raise_timeout(const Sync *sync)
{
	char	   *why;
	char	   *fix;

	ConditionVariableCancelSleep();
	why = waits_for(sync, "why");
	fix = waits_for(sync, "fix");
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg("scd2.sync() reached its timeout"),
			 why == NULL ? 0 : errdetail("%s", why),
			 errhint("%s", fix != NULL ? fix : "SELECT * FROM scd2.diagnose();")));
}

/* Waits for a sign of progress; raises when that is hopeless. */
static void
wait_for_progress(Sync *sync, Scd2Database *db)
{
	TimestampTz now = GetCurrentTimestamp();

	if (sync->deadline != 0 && now >= sync->deadline)
		raise_timeout(sync);
	if (sync->looked_at == 0)
		sync->looked_at = now;
	(void) ConditionVariableTimedSleep(&db->progress, LOOK_AGAIN, PG_WAIT_EXTENSION);
	if (TimestampDifferenceExceeds(sync->looked_at, GetCurrentTimestamp(), LOOK_AGAIN))
	{
		ConditionVariableCancelSleep();
		sync->looked_at = GetCurrentTimestamp();
		check_own_locks(sync);
		scd2_wake_capture(InvalidXLogRecPtr);
		pg_atomic_fetch_add_u32(&db->run_now, 1);
		scd2_wake_apply();
	}
	CHECK_FOR_INTERRUPTS();
}

static void
wait_until_captured(Sync *sync, Scd2Database *db)
{
	XLogRecPtr	end = scd2_flushed_end();

	scd2_wake_capture(end);
	while (pg_atomic_read_u64(&db->captured_lsn) < end)
	{
		check_workers(db);
		wait_for_progress(sync, db);
	}
	ConditionVariableCancelSleep();
}

/* Flows that have not applied "version" yet; raises if one of them never will. */
static bool
flows_pending(Sync *sync, int64 version)
{
	Oid			types[] = {OIDOID, REGCLASSARRAYOID, INT8OID, BOOLOID, TIMESTAMPTZOID};
	Datum		values[] = {
		ObjectIdGetDatum(sync->caller), sync->targets, Int64GetDatum(version), BoolGetDatum(!sync->noticed), TimestampTzGetDatum(sync->since)
	};
	char	   *pending;

	pending = ask("SELECT scd2_internal.sync_pending($1, $2, $3, $4, $5)", 5, types, values,
				  sync->all ? " n   " : NULL);
	sync->noticed = true;
	return pending != NULL;
}

/* What the workers look at from now on counts. */
static void
ask_for_snapshots(Sync *sync, Scd2Database *db)
{
	uint64		asked = pg_atomic_read_u64(&db->look_since);

	sync->since = GetCurrentTimestamp();
	while (asked < (uint64) sync->since)
		if (pg_atomic_compare_exchange_u64(&db->look_since, &asked, (uint64) sync->since))
			break;
}

static void
wait_until_applied(Sync *sync, Scd2Database *db, int64 version)
{
	ask_for_snapshots(sync, db);
	pg_atomic_fetch_add_u32(&db->run_now, 1);
	scd2_wake_apply();
	while (flows_pending(sync, version))
	{
		check_workers(db);
		check_apply_workers(db);
		wait_for_progress(sync, db);
	}
	ConditionVariableCancelSleep();
}

static bool
has_chains(void)
{
	return ask("SELECT 1 FROM scd2_internal.feed f JOIN scd2_internal.flow w ON w.target_relid = f.source_relid"
			   " WHERE NOT f.disabled"
			   " UNION ALL SELECT 1 FROM scd2_internal.flow f JOIN scd2_internal.flow w ON w.target_relid = f.source_relid"
			   " WHERE f.kind = 'snapshot' AND f.refresh_interval > '0'", 0, NULL, NULL, NULL) != NULL;
}

static Scd2Database *
require_database(Sync *sync)
{
	Scd2Database *db;

	scd2_require_settings();
	db = scd2_my_database();
	if (db == NULL)
	{
		scd2_want_workers(MyDatabaseId);
		db = scd2_my_database();
	}
	if (db == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no workers run in database \"%s\"", get_database_name(MyDatabaseId)),
				 scd2_entries_are_taken() ? errhint("SELECT * FROM scd2.diagnose();") : errhint("SELECT scd2.start();")));
	return db;
}

static TimestampTz
deadline_after(Interval *timeout)
{
	if (!scd2_span_is_bounded(timeout))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("timeout must be " SCD2_SPAN_BOUNDS ": %s",
						DatumGetCString(DirectFunctionCall1(interval_out, IntervalPGetDatum(timeout)))),
				 errhint("SELECT scd2.sync(NULL); -- waits as long as it takes")));
	return DatumGetTimestampTz(DirectFunctionCall2(timestamptz_pl_interval,
												   TimestampTzGetDatum(GetCurrentTimestamp()),
												   IntervalPGetDatum(timeout)));
}

Datum
scd2_sync(PG_FUNCTION_ARGS)
{
	Sync		sync = {0};
	Scd2Database *db;
	int64		version = -1;
	int64		before;

	scd2_refuse_in_worker("sync");
	refuse_waiting_for_oneself();
	if (!PG_ARGISNULL(0))
		sync.deadline = deadline_after(PG_GETARG_INTERVAL_P(0));
	sync.caller = GetUserId();
	sync.all = PG_ARGISNULL(1);
	sync.targets = sync.all ? (Datum) 0 : PG_GETARG_DATUM(1);

	db = require_database(&sync);
	do
	{
		before = version;
		wait_until_captured(&sync, db);
		version = (int64) pg_atomic_read_u64(&db->version);
		wait_until_applied(&sync, db, version);
	} while (version != before && has_chains());
	PG_RETURN_INT64(version);
}
