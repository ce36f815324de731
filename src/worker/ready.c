/*
 * ready.c
 *		Whether this server can capture, and waiting until this database does.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "commands/dbcommands.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/pg_lsn.h"
#include "utils/snapmgr.h"
#include "utils/varlena.h"

#include "pg_scd2.h"
#include "compat.h"
#include "worker/ready.h"
#include "worker/worker.h"

PG_FUNCTION_INFO_V1(scd2_require_capture);
PG_FUNCTION_INFO_V1(scd2_capture_status);
PG_FUNCTION_INFO_V1(scd2_feed_latest_sql);

static const char *const state_names[] = {
	"off", "starting", "creating slot", "running", "failed", "stopped", "copy"
};

/* Is our plugin allowed? Servers without the setting allow every one. */
static bool
plugin_listed(void)
{
	const char *setting = GetConfigOption("output_plugin_libraries", true, false);
	List	   *names;
	ListCell   *lc;
	bool		found = false;

	if (setting == NULL)
		return true;
	if (!SplitIdentifierString(pstrdup(setting), ',', &names))
		return false;
	foreach(lc, names)
		found |= strcmp(lfirst(lc), SCD2_PLUGIN) == 0 || strcmp(lfirst(lc), "*") == 0;
	return found;
}

/*
 * Raises 55000, with the setting and the statement that mends it, if nothing can be captured on
 * this server as it is.
 */
void
scd2_require_settings(void)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("pg_scd2 does not capture on a standby"),
				 errhint("SELECT pg_promote(); -- then capture starts by itself")));
	if (!scd2_shmem_available())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("pg_scd2 is not in shared_preload_libraries"),
				 errhint("ALTER SYSTEM SET shared_preload_libraries = %s; -- then restart the server",
						 scd2_setting_with_us("shared_preload_libraries"))));
	if (wal_level < WAL_LEVEL_LOGICAL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("wal_level is lower than \"logical\""),
				 errhint("ALTER SYSTEM SET wal_level = 'logical'; -- then restart the server")));
	if (!plugin_listed())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("output_plugin_libraries does not list \"%s\"", SCD2_PLUGIN),
				 errhint("ALTER SYSTEM SET output_plugin_libraries = %s; SELECT pg_reload_conf();",
						 scd2_setting_with_us("output_plugin_libraries"))));
	if (!scd2_enabled)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("pg_scd2.enabled is off"),
				 errhint("ALTER SYSTEM SET pg_scd2.enabled = on; SELECT pg_reload_conf();")));
}

/*
 * A list setting with our library in it, as ALTER SYSTEM takes it: one literal per name (a single
 * literal would become one name).
 */
char *
scd2_setting_with_us(const char *setting)
{
	const char *now = GetConfigOption(setting, true, false);
	List	   *names = NIL;
	ListCell   *lc;
	StringInfoData list;

	initStringInfo(&list);
	if (now && SplitGUCList(pstrdup(now), ',', &names))
		foreach(lc, names)
			appendStringInfo(&list, "%s, ", quote_literal_cstr(lfirst(lc)));
	appendStringInfoString(&list, quote_literal_cstr(SCD2_EXTENSION));
	return list.data;
}

/* Is there a slot that captures for this database? Raises 55000 in one that was restored or copied. */
static bool
slot_exists(void)
{
	bool		exists;
	char	   *foreign = NULL;

	SPI_connect();
	if (SPI_execute("SELECT scd2_internal.position_foreign(p) FROM scd2_internal.position AS p WHERE p.captured_lsn IS NOT NULL",
					false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read scd2_internal.position");
	exists = SPI_processed > 0;
	if (exists)
		foreign = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	if (foreign)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("nothing is captured in database \"%s\": %s", get_database_name(MyDatabaseId), foreign),
				 errhint("SELECT scd2.resume_capture();")));
	SPI_finish();
	return exists;
}

/*
 * Raises 55000 in a copy (or a restored dump) of a database that was captured: what is asked for there would be met by
 * nobody.
 */
void
scd2_refuse_copy(void)
{
	Scd2CaptureState state;
	Scd2Database *db = scd2_my_database();

	if (db == NULL)
		return;
	LWLockAcquire(scd2_shmem->lock, LW_SHARED);
	state = db->state;
	LWLockRelease(scd2_shmem->lock);
	if (state == SCD2_CAPTURE_COPY)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("nothing is captured in database \"%s\": it is a copy or a restored dump of another", get_database_name(MyDatabaseId)),
				 errhint("SELECT scd2.resume_capture();")));
}

static bool
is_stopped(void)
{
	bool		stopped;

	SPI_connect();
	if (SPI_execute("SELECT FROM scd2_internal.switch WHERE stopped", false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read scd2_internal.switch");
	stopped = SPI_processed > 0;
	SPI_finish();
	return stopped;
}

static Scd2CaptureState
capture_state(char *error)
{
	Scd2Database *db = scd2_my_database();
	Scd2CaptureState state = SCD2_CAPTURE_OFF;

	error[0] = '\0';
	if (db == NULL)
	{
		if (scd2_shmem != NULL && scd2_entries_are_taken())
			snprintf(error, SCD2_ERROR_LEN, "no entry for this database: %d others have workers, as many as pg_scd2.max_databases allows", scd2_max_databases);
		return state;
	}
	LWLockAcquire(scd2_shmem->lock, LW_SHARED);
	state = db->state;
	strlcpy(error, db->error, SCD2_ERROR_LEN);
	LWLockRelease(scd2_shmem->lock);
	/* scd2.resume_capture() may just have taken the position from it. */
	if (state == SCD2_CAPTURE_RUNNING && !scd2_capture_has_heard(db))
		state = SCD2_CAPTURE_STARTING;
	return state;
}

/* Who keeps the slot from being made: the oldest transaction with an id, of any database. */
static char *
oldest_writer(void)
{
	char	   *who = NULL;

	SPI_connect();
	if (SPI_execute("SELECT pg_catalog.format('process %s, open for %s', pid, pg_catalog.date_trunc('second', pg_catalog.clock_timestamp() - xact_start))"
					" FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_catalog.pg_backend_pid()"
					" UNION ALL SELECT pg_catalog.format('prepared transaction %L of %s', gid, prepared) FROM pg_catalog.pg_prepared_xacts"
					" LIMIT 1", false, 1) == SPI_OK_SELECT && SPI_processed > 0)
		who = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	if (who)
		who = SPI_palloc(strlen(who) + 1) ? strcpy(SPI_palloc(strlen(who) + 1), who) : NULL;
	SPI_finish();
	return who;
}

static void
not_ready(void)
{
	char		error[SCD2_ERROR_LEN];
	Scd2CaptureState state = capture_state(error);
	char	   *who = state == SCD2_CAPTURE_CREATING_SLOT ? oldest_writer() : NULL;

	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("capture of database \"%s\" has not begun yet", get_database_name(MyDatabaseId)),
			 who ? errdetail("Its replication slot waits for a transaction to end: %s.", who) :
			 error[0] && superuser_arg(GetOuterUserId()) ? errdetail("The capture worker failed: %s.", error) : 0,
			 state == SCD2_CAPTURE_FAILED ? errhint("SELECT * FROM scd2.diagnose();") :
			 errhint("COMMIT; -- CREATE EXTENSION first; then try again")));
}

/*
 * Raises 55000 unless this database's slot exists. Waits for it, at most pg_scd2.lock_timeout, if
 * the calling transaction has written nothing: a transaction that has would be waited for by the
 * slot.
 */
Datum
scd2_require_capture(PG_FUNCTION_ARGS)
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), scd2_lock_timeout);

	scd2_require_settings();
	if (is_stopped())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the workers of database \"%s\" are stopped", get_database_name(MyDatabaseId)),
				 errhint("SELECT scd2.start();")));
	if (scd2_my_database() == NULL)
		scd2_want_workers(MyDatabaseId);
	while (!slot_exists())
	{
		scd2_refuse_copy();
		if (TransactionIdIsValid(GetTopTransactionIdIfAny()) ||
			IsolationUsesXactSnapshot() ||
			GetCurrentTimestamp() >= deadline)
			not_ready();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 20, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	PG_RETURN_VOID();
}

/* What shared memory knows of this database's workers. */
Datum
scd2_capture_status(PG_FUNCTION_ARGS)
{
	Scd2Database *db = scd2_my_database();
	TupleDesc	desc;
	Datum		values[9] = {0};
	bool		isnull[9] = {false};
	char		error[SCD2_ERROR_LEN];
	Datum		pids[SCD2_MAX_APPLY];
	int			npids = 0;
	uint64		captured;
	uint64		caught_up;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = CStringGetTextDatum(state_names[capture_state(error)]);
	memset(isnull + 1, true, sizeof(isnull) - 1);
	isnull[5] = error[0] == '\0';
	values[5] = CStringGetTextDatum(error);
	if (db)
	{
		captured = pg_atomic_read_u64(&db->captured_lsn);
		isnull[1] = db->capture_pid == 0;
		values[1] = Int32GetDatum(db->capture_pid);
		isnull[2] = captured == 0;
		values[2] = LSNGetDatum(captured);
		isnull[3] = db->capture_pid == 0;
		values[3] = Int64GetDatum((int64) pg_atomic_read_u64(&db->version));
		isnull[4] = db->capture_pid == 0;
		values[4] = Int64GetDatum((int64) pg_atomic_read_u64(&db->spilled));
		for (int i = 0; i < SCD2_MAX_APPLY; i++)
			if (db->apply_pid[i] != 0)
				pids[npids++] = Int32GetDatum(db->apply_pid[i]);
		caught_up = pg_atomic_read_u64(&db->caught_up);
		isnull[7] = caught_up == 0;
		values[7] = TimestampTzGetDatum((TimestampTz) caught_up);
		isnull[8] = db->apply_error[0] == '\0';
		values[8] = CStringGetTextDatum(db->apply_error);
		isnull[6] = false;
		values[6] = PointerGetDatum(construct_array(pids, npids, INT4OID, 4, true, TYPALIGN_INT));
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, isnull)));
}

Datum
scd2_feed_latest_sql(PG_FUNCTION_ARGS)
{
	int64		latest = scd2_feed_latest(PG_GETARG_INT32(0));

	if (latest < 0)
		PG_RETURN_NULL();
	PG_RETURN_INT64(latest);
}
