/*
 * worker.c
 *		What capture and apply workers have in common: birth, settings, waiting, death.
 *
 * A worker is started by the launcher, never restarted by the postmaster (BGW_NEVER_RESTART): the
 * launcher knows when to back off. It tells how it ended through the database's entry in shared
 * memory:
 *
 *   quietly (no extension, stopped, switched off)     "wanted" is taken back; the launcher frees the entry or leaves it as stopped
 *   told to (SIGTERM, pg_terminate_backend)           started again at once
 *   with an error                                     started again after 1 s, 2 s, 4 s … 60 s; the error is kept for scd2.capture
 *
 * A worker runs as the bootstrap superuser. Settings that could change what it does are fixed here,
 * whatever the server, database or role says.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "replication/slot.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "pg_scd2.h"
#include "compat.h"
#include "worker/code.h"
#include "worker/session.h"
#include "worker/worker.h"

bool		scd2_in_worker = false;

static Scd2Database *me = NULL;
static Scd2WorkerArg my_arg;
static bool ends_quietly = false;
static uint32 wishes_seen = 0;	/* when we looked last whether we are wanted */
static uint32 recheck_seen = 0; /* likewise */
static volatile sig_atomic_t told_to_end = false;
static bool retry_soon = false;

static const char *const fixed_settings[][2] = {
	{"search_path", "pg_catalog, pg_temp"},
	{"synchronous_commit", "off"},
	{"default_transaction_isolation", "read committed"},
	{"default_transaction_read_only", "off"},
	{"default_transaction_deferrable", "off"},
	{"statement_timeout", "0"},
	{"transaction_timeout", "0"},
	{"lock_timeout", "0"},
	{"deadlock_timeout", "200ms"},	/* in a deadlock we are the victim, not the application; longer than tries for a lock (31_feed_lock.sql) */
	{"idle_in_transaction_session_timeout", "0"},
	{"idle_session_timeout", "0"},
	{"session_replication_role", "origin"},
	{"row_security", "off"},
	{"TimeZone", "UTC"},
	{"DateStyle", "ISO, YMD"},
	{"IntervalStyle", "postgres"},
	{"gin_fuzzy_search_limit", "0"},
	{"jit", "off"},
	{"temp_file_limit", "-1"},
	{"default_table_access_method", "heap"},
	{"max_parallel_workers_per_gather", "0"},
	{"max_parallel_maintenance_workers", "0"},	/* another process would run functions without our hooks (code.c) */
	{"client_min_messages", "warning"},
};

static void
fix_settings(void)
{
	for (int i = 0; i < lengthof(fixed_settings); i++)
	{
		/* transaction_timeout, for one, came with 17 */
		if (GetConfigOption(fixed_settings[i][0], true, false) == NULL)
			continue;
		SetConfigOption(fixed_settings[i][0], fixed_settings[i][1],
						PGC_SUSET, PGC_S_OVERRIDE);
	}
	for (int i = 0; i < SCD2_TEXT_SETTINGS; i++)
		SetConfigOption(scd2_text_settings[i][0], scd2_text_settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
}

static void
handle_sigterm(SIGNAL_ARGS)
{
	told_to_end = true;
	die(postgres_signal_arg);
}

/* Counts a failure, and says when to try again. */
static void
back_off(int *failures, TimestampTz *retry_at)
{
	*failures = told_to_end ? 0 : *failures + 1;
	*retry_at = told_to_end ? 0 : GetCurrentTimestamp() + USECS_PER_SEC * (retry_soon ? 1 : Min(60, 1 << Min(*failures - 1, 6)));
}

static void
leave(int code, Datum arg)
{
	/* (Of all that is done when a process ends nearly the last: the slot is free, and so is the database.) */
	LWLockAcquire(scd2_shmem->lock, LW_EXCLUSIVE);
	if (my_arg.apply_slot >= 0)
	{
		me->apply_pid[my_arg.apply_slot] = 0;
		me->apply_feed[my_arg.apply_slot] = 0;
		me->apply_latch[my_arg.apply_slot] = NULL;
		if (!ends_quietly)
			back_off(&me->apply_failures[my_arg.apply_slot], &me->apply_retry_at[my_arg.apply_slot]);
	}
	else if (me->capture_pid == MyProcPid)
	{
		me->capture_pid = 0;
		me->capture_latch = NULL;
		pg_atomic_write_u64(&me->captured_lsn, 0);
		if (!ends_quietly)
		{
			back_off(&me->failures, &me->retry_at);
			me->state = told_to_end ? SCD2_CAPTURE_OFF : SCD2_CAPTURE_FAILED;
		}
	}
	LWLockRelease(scd2_shmem->lock);
	ConditionVariableBroadcast(&me->progress);
	scd2_wake_launcher();		/* the server tells only the one that started us, which may be gone */
}

/*
 * Ends this process without a word; "wanted" false: the launcher does not start it again until asked.
 * Who asked since we looked is not let down: the next one looks again.
 */
static void
end_quietly(bool wanted, Scd2CaptureState state)
{
	ends_quietly = true;
	LWLockAcquire(scd2_shmem->lock, LW_EXCLUSIVE);
	if (my_arg.apply_slot < 0)
	{
		wanted |= me->wishes != wishes_seen;
		me->wanted = wanted;
		me->state = wanted ? SCD2_CAPTURE_OFF : state;
	}
	LWLockRelease(scd2_shmem->lock);
	scd2_wake_launcher();
	proc_exit(0);
}

/* The capture worker has nothing to do in this database until somebody asks for it; "state" says why. */
void
scd2_worker_end_quietly(Scd2CaptureState state)
{
	end_quietly(false, state);
}

void
scd2_worker_looks_after(int feed_id)
{
	if (me != NULL && my_arg.apply_slot >= 0)
		me->apply_feed[my_arg.apply_slot] = feed_id;
}

/* Takes the place in shared memory; a second worker for the same place goes, and one that is not wanted any more. */
static void
enter(void)
{
	bool		taken = false;

	LWLockAcquire(scd2_shmem->lock, LW_EXCLUSIVE);
	me = scd2_find_database(my_arg.dboid);
	if (me == NULL || !me->wanted)
		taken = true;
	else if (my_arg.apply_slot >= 0)
	{
		taken = me->apply_pid[my_arg.apply_slot] != 0;
		if (!taken)
		{
			me->apply_pid[my_arg.apply_slot] = MyProcPid;
			me->apply_latch[my_arg.apply_slot] = MyLatch;
		}
	}
	else
	{
		taken = me->capture_pid != 0;
		if (!taken)
		{
			me->capture_pid = MyProcPid;
			me->capture_latch = MyLatch;
			me->state = SCD2_CAPTURE_STARTING;
		}
	}
	LWLockRelease(scd2_shmem->lock);
	if (taken)
		proc_exit(0);
	on_shmem_exit(leave, (Datum) 0);
}

/*
 * Drops the slots of ours in this database, which an extension that is gone or a position that was
 * lost has left: they would hold back WAL for ever, or be one slot less for others. Only ours have
 * our plugin. Outside a transaction.
 */
void
scd2_drop_orphaned_slots(void)
{
	for (int i = 0; i < max_replication_slots; i++)
	{
		ReplicationSlot *slot = &ReplicationSlotCtl->replication_slots[i];
		NameData	name;
		bool		ours;

		LWLockAcquire(ReplicationSlotControlLock, LW_SHARED);
		ours = slot->in_use && slot->data.database == MyDatabaseId &&
			strcmp(NameStr(slot->data.plugin), SCD2_PLUGIN) == 0;
		name = slot->data.name;
		LWLockRelease(ReplicationSlotControlLock);
		if (!ours)
			continue;
		ereport(LOG,
				(errmsg("dropping replication slot \"%s\": it belongs to nothing any more", NameStr(name))));
		ReplicationSlotDrop(NameStr(name), true);
	}
}

/* Keeps an error for scd2.capture and scd2.diagnose(). */
static void
note_error(const char *message)
{
	LWLockAcquire(scd2_shmem->lock, LW_EXCLUSIVE);
	strlcpy(my_arg.apply_slot < 0 ? me->error : me->apply_error, message, SCD2_ERROR_LEN);
	LWLockRelease(scd2_shmem->lock);
}

/*
 * The catalogs are of the version that CREATE or ALTER EXTENSION made, this code is of the library
 * that the server loaded when it started. Raises 55000 if they differ.
 */
static void
check_version(const char *installed)
{
	char	   *message;

	if (strcmp(installed, scd2_library_version) == 0)
		return;
	message = psprintf("extension \"%s\" is of version %s, the library that the server has loaded of %s",
					   SCD2_EXTENSION, installed, scd2_library_version);
	note_error(message);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg_internal("%s", message),
			 errhint("ALTER EXTENSION %s UPDATE TO '%s'; -- or restart the server, if the library was replaced since it started",
					 SCD2_EXTENSION, scd2_library_version)));
}

/*
 * A restore takes the position from the worker that holds a slot (90_dump.sql): that must not go on
 * as if it captured. No failure: the next worker finds out what the database is now, at once, so that
 * who resumes capture right after the restore does not meet an error of before. In a transaction,
 * connected to SPI.
 */
static bool
is_position_replaced(void)
{
	Oid			types[] = {NAMEOID};
	Datum		values[1];

	if (MyReplicationSlot == NULL)
		return false;
	values[0] = NameGetDatum(&MyReplicationSlot->data.name);
	if (SPI_execute_with_args("SELECT FROM scd2_internal.position WHERE slot = $1", 1, types, values, NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read scd2_internal.position");
	return SPI_processed == 0;
}

/* Of the extension at hand. In a transaction. */
static bool
is_stopped(char **version, bool *replaced)
{
	bool		stopped = false;

	SPI_connect();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (SPI_execute("SELECT extversion FROM pg_catalog.pg_extension WHERE extname = '" SCD2_EXTENSION "'", true, 1) != SPI_OK_SELECT ||
		SPI_processed != 1)
		elog(ERROR, "could not read pg_extension");
	*version = MemoryContextStrdup(TopMemoryContext, SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1));
	if (SPI_execute("SELECT FROM scd2_internal.switch WHERE stopped", true, 1) == SPI_OK_SELECT)
		stopped = SPI_processed > 0;
	*replaced = is_position_replaced();
	PopActiveSnapshot();
	SPI_finish();
	return stopped;
}

/* A template must have no connections when it is copied. In a transaction. */
static bool
is_template(void)
{
	HeapTuple	tup = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));
	bool		template = HeapTupleIsValid(tup) && ((Form_pg_database) GETSTRUCT(tup))->datistemplate;

	if (HeapTupleIsValid(tup))
		ReleaseSysCache(tup);
	return template;
}

/*
 * Is there work for this worker in this database? Ends the process if not. An extension that was
 * dropped and created again is another one: nothing that this process knows is true of it, so the
 * next one begins.
 */
static void
check_wanted(void)
{
	static Oid	served = InvalidOid;
	Oid			extension;
	bool		installed;
	bool		stopped = false;
	bool		replaced = false;
	bool		template;
	char	   *version = NULL;

	StartTransactionCommand();
	extension = get_extension_oid(SCD2_EXTENSION, true);
	if (!OidIsValid(served))
		served = extension;
	installed = OidIsValid(extension) && extension == served;
	if (installed)
		stopped = is_stopped(&version, &replaced);
	template = is_template();
	CommitTransactionCommand();

	if (!installed)
	{
		if (my_arg.apply_slot < 0)
		{
			if (MyReplicationSlot)
				ReplicationSlotRelease();
			scd2_drop_orphaned_slots();
		}
		end_quietly(OidIsValid(extension), SCD2_CAPTURE_OFF);
	}
	if (template)
		end_quietly(false, SCD2_CAPTURE_OFF);
	if (stopped)
		end_quietly(false, SCD2_CAPTURE_STOPPED);
	if (replaced)
	{
		ReplicationSlotRelease();
		end_quietly(true, SCD2_CAPTURE_OFF);
	}
	if (!scd2_enabled)
		end_quietly(true, SCD2_CAPTURE_OFF);
	check_version(version);
	pfree(version);
}

/* Looks whether we are wanted, and says so. */
static void
look_again(void)
{
	recheck_seen = pg_atomic_read_u32(&me->recheck);
	LWLockAcquire(scd2_shmem->lock, LW_SHARED);
	wishes_seen = me->wishes;
	LWLockRelease(scd2_shmem->lock);
	check_wanted();
	if (my_arg.apply_slot < 0)
		pg_atomic_write_u32(&me->rechecked, recheck_seen);
}

Scd2Database *
scd2_worker_begin(Scd2WorkerArg *arg)
{
	memcpy(&my_arg, MyBgworkerEntry->bgw_extra, sizeof(my_arg));
	*arg = my_arg;

	pqsignal(SIGTERM, handle_sigterm);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();

	enter();
	scd2_code_install(my_arg.apply_slot < 0 ? SCD2_CODE_OF_CAPTURE : SCD2_CODE_OF_SUPERUSERS);
	BackgroundWorkerInitializeConnectionByOid(my_arg.dboid, InvalidOid, 0);
	fix_settings();
	scd2_session_init();
	scd2_in_worker = true;
	look_again();
	return me;
}

void
scd2_worker_begin_work(MemoryContext work, const char *what)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	SPI_connect();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(work);
	pgstat_report_activity(STATE_RUNNING, what);
}

void
scd2_worker_end_work(void)
{
	PopActiveSnapshot();
	SPI_finish();
	CommitTransactionCommand();
	pgstat_report_stat(false);
}

void
scd2_worker_wait(long ms)
{
	if (ms != 0)
	{
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | (ms > 0 ? WL_TIMEOUT : 0),
						 ms, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
		if (!scd2_enabled)
			end_quietly(true, SCD2_CAPTURE_OFF);
	}
	if (pg_atomic_read_u32(&me->recheck) != recheck_seen)
		look_again();
}

/* Every line in the log says whose it is. */
static void
say_whose(void *arg)
{
	errcontext("pg_scd2 %s worker of database \"%s\"", my_arg.apply_slot < 0 ? "capture" : "apply", (char *) arg);
}

void
scd2_worker_run(void (*loop)(void))
{
	ErrorContextCallback context = {.callback = say_whose};

	StartTransactionCommand();
	context.arg = MemoryContextStrdup(TopMemoryContext, get_database_name(MyDatabaseId));
	CommitTransactionCommand();
	context.previous = error_context_stack;
	error_context_stack = &context;
	PG_TRY();
	{
		loop();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(TopMemoryContext);
		error = CopyErrorData();
		FlushErrorState();
		AbortOutOfAnyTransaction();
		look_again();
		note_error(error->message);
		ReThrowError(error);
	}
	PG_END_TRY();
	error_context_stack = context.previous;
}

void
scd2_worker_retry_soon(void)
{
	retry_soon = true;
}

void
scd2_worker_set_state(Scd2CaptureState state)
{
	LWLockAcquire(scd2_shmem->lock, LW_EXCLUSIVE);
	me->state = state;
	LWLockRelease(scd2_shmem->lock);
}

/*
 * The capture worker got through a batch, an apply worker through its flows: what went wrong before
 * is over. (Not before: to start is no success, and what always fails would be tried each second.)
 */
void
scd2_worker_succeeded(void)
{
	LWLockAcquire(scd2_shmem->lock, LW_EXCLUSIVE);
	if (my_arg.apply_slot < 0)
	{
		me->failures = 0;
		me->error[0] = '\0';
	}
	else
	{
		me->apply_failures[my_arg.apply_slot] = 0;
		me->apply_error[0] = '\0';
	}
	LWLockRelease(scd2_shmem->lock);
}
