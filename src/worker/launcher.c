/*
 * launcher.c
 *		Keeps the workers of every database that has the extension running.
 *
 * One process, started by the postmaster when recovery is over (so it is idle on a standby and
 * starts at promotion). It is connected to no database. At its start it has a capture worker look
 * into each database once, two at a time; a worker that finds no extension ends and is forgotten.
 * Later a CREATE EXTENSION tells it through shared memory, at commit.
 *
 * It starts workers, and restarts what ended: at once if it was told to end, after 1 s, 2 s, 4 s …
 * 60 s if it failed (worker.c counts). It never waits for a worker, so one that hangs harms nobody
 * else.
 *
 * Who works where says shared memory: a launcher that was started after another had died has no
 * handle of the workers that are there. A handle says more only of a worker that was started and is
 * not there yet, or has left and is not gone. (One that the former launcher started and that comes
 * later finds its place taken, and goes.) So a worker's end wakes the launcher through shared
 * memory, too: the server would tell the one that is gone.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "pg_scd2.h"
#include "compat.h"
#include "worker/slot_limit.h"
#include "worker/worker.h"

#include <signal.h>

#define PROBES_AT_ONCE	2		/* databases looked into at the same time, at start */
#define NO_SLOT_RETRY	(5 * USECS_PER_SEC)
#define LIMIT_EVERY		USECS_PER_SEC	/* how often slots are looked at, if there is a limit */
#define GIVING_UP		(100 * INT64CONST(1000))
#define GONE_EVERY		(10 * USECS_PER_SEC)	/* how often it is looked whether a database that nobody wants workers for is there */

/* Our own view of an entry of shared memory, by the same index. */
typedef struct Children
{
	BackgroundWorkerHandle *capture;
	BackgroundWorkerHandle *apply[SCD2_MAX_APPLY];
	TimestampTz apply_retry_at;
	TimestampTz looked_at;		/* whether its database is there */
	bool		out_of_workers; /* said so already */
} Children;

static Children *children;		/* pg_scd2.max_databases */
static List *unprobed = NIL;	/* oids of databases not looked into yet */

static void
launcher_leave(int code, Datum arg)
{
	scd2_shmem->launcher_latch = NULL;
	scd2_shmem->launcher_pid = 0;
}

/*
 * The databases that may have the extension. A template must have no connections when it is copied:
 * left alone.
 */
static void
list_databases(void)
{
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tup;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while (HeapTupleIsValid(tup = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database db = (Form_pg_database) GETSTRUCT(tup);
		MemoryContext old;

		if (!db->datallowconn || db->datistemplate)
			continue;
		old = MemoryContextSwitchTo(TopMemoryContext);
		unprobed = lappend_oid(unprobed, db->oid);
		MemoryContextSwitchTo(old);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
}

static bool
database_exists(Oid dboid)
{
	bool		exists;

	StartTransactionCommand();
	exists = SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(dboid));
	CommitTransactionCommand();
	return exists;
}

/* Is the worker behind the handle there? Forgets it if it has ended. */
static bool
alive(BackgroundWorkerHandle **handle)
{
	pid_t		pid;

	if (*handle == NULL)
		return false;
	if (GetBackgroundWorkerPid(*handle, &pid) != BGWH_STOPPED)
		return true;
	pfree(*handle);
	*handle = NULL;
	return false;
}

/* Has this place in shared memory a worker, or will it have one? */
static bool
is_taken(const pid_t *place, BackgroundWorkerHandle **handle)
{
	bool		started = alive(handle);

	return started || *(const volatile pid_t *) place != 0;
}

static void
end_worker(const pid_t *place, BackgroundWorkerHandle **handle)
{
	if (alive(handle))
		TerminateBackgroundWorker(*handle);
	LWLockAcquire(scd2_shmem->lock, LW_SHARED); /* until then it does not leave */
	if (*place != 0)
		kill(*place, SIGTERM);
	LWLockRelease(scd2_shmem->lock);
}

static BackgroundWorkerHandle *
start_worker(Oid dboid, int apply_slot)
{
	BackgroundWorker worker = {0};
	BackgroundWorkerHandle *handle = NULL;
	Scd2WorkerArg arg = {dboid, apply_slot};
	bool		capture = apply_slot < 0;
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_notify_pid = MyProcPid;
	strlcpy(worker.bgw_library_name, "pg_scd2", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, capture ? "scd2_capture_main" : "scd2_apply_main", BGW_MAXLEN);
	snprintf(worker.bgw_name, BGW_MAXLEN,
			 capture ? "pg_scd2 capture worker for database %u" : "pg_scd2 apply worker for database %u", dboid);
	strlcpy(worker.bgw_type, capture ? "pg_scd2 capture" : "pg_scd2 apply", BGW_MAXLEN);
	memcpy(worker.bgw_extra, &arg, sizeof(arg));
	if (!RegisterDynamicBackgroundWorker(&worker, &handle))
		handle = NULL;
	MemoryContextSwitchTo(old);
	return handle;
}

static void
say_out_of_workers(Scd2Database *db, Children *kids)
{
	LWLockAcquire(scd2_shmem->lock, LW_EXCLUSIVE);
	db->state = SCD2_CAPTURE_FAILED;
	strlcpy(db->error, "no free background worker: raise max_worker_processes", SCD2_ERROR_LEN);
	LWLockRelease(scd2_shmem->lock);
	if (!kids->out_of_workers)
		ereport(LOG,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("no free background worker for pg_scd2 in database %u", db->dboid),
				 errhint("ALTER SYSTEM SET max_worker_processes = %d; -- then restart the server", max_worker_processes + 8)));
	kids->out_of_workers = true;
}

static void
end_workers(Scd2Database *db, Children *kids)
{
	end_worker(&db->capture_pid, &kids->capture);
	for (int i = 0; i < SCD2_MAX_APPLY; i++)
		end_worker(&db->apply_pid[i], &kids->apply[i]);
}

/* Starts what is missing; returns when to look again at the latest (0: no need). */
static TimestampTz
keep_running(Scd2Database *db, Children *kids, TimestampTz now)
{
	TimestampTz again = 0;
	int			napply = Min(db->napply, scd2_max_apply_workers);

	if (!is_taken(&db->capture_pid, &kids->capture))
	{
		if (db->retry_at > now)
			return db->retry_at;
		if (db->failures > 0 && !database_exists(db->dboid))
		{
			db->wanted = false;
			return now;
		}
		kids->capture = start_worker(db->dboid, -1);
		if (kids->capture == NULL)
		{
			say_out_of_workers(db, kids);
			return db->retry_at = now + NO_SLOT_RETRY;
		}
		kids->out_of_workers = false;
		return 0;
	}
	for (int i = scd2_max_apply_workers; i < SCD2_MAX_APPLY; i++)
		if (is_taken(&db->apply_pid[i], &kids->apply[i]))	/* the setting was lowered */
			end_worker(&db->apply_pid[i], &kids->apply[i]);
	if (db->state != SCD2_CAPTURE_RUNNING || kids->apply_retry_at > now)
		return kids->apply_retry_at > now ? kids->apply_retry_at : 0;
	for (int i = 0; i < napply; i++)
	{
		if (is_taken(&db->apply_pid[i], &kids->apply[i]))
			continue;
		if (db->apply_retry_at[i] > now)
		{
			again = again == 0 ? db->apply_retry_at[i] : Min(again, db->apply_retry_at[i]);
			continue;
		}
		kids->apply[i] = start_worker(db->dboid, i);
		kids->apply_retry_at = now + USECS_PER_SEC;
		again = again == 0 ? kids->apply_retry_at : Min(again, kids->apply_retry_at);
	}
	return again;
}

/*
 * An entry that nobody wants: its processes end by themselves or with their database; then it is
 * free, unless it tells why nothing runs in a database that is there.
 */
static void
let_go(Scd2Database *db, Children *kids, TimestampTz now)
{
	bool		busy = is_taken(&db->capture_pid, &kids->capture);
	bool		tells = db->state == SCD2_CAPTURE_STOPPED || db->state == SCD2_CAPTURE_COPY;

	for (int i = 0; i < SCD2_MAX_APPLY; i++)
	{
		if (!is_taken(&db->apply_pid[i], &kids->apply[i]))
			continue;
		end_worker(&db->apply_pid[i], &kids->apply[i]);
		busy = true;
	}
	if (busy)
		return;
	if (tells && now - kids->looked_at >= GONE_EVERY)
	{
		kids->looked_at = now;
		tells = database_exists(db->dboid);
	}
	if (!tells)
		scd2_free_database(db);
}

/* One look at everything; returns milliseconds until the next, unless woken. */
static long
manage(void)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz next = now + (scd2_max_slot_lag < 0 ? 60 * USECS_PER_SEC : LIMIT_EVERY);
	List	   *giving_up = scd2_give_up_slots();
	int			probing = 0;

	for (int i = 0; i < scd2_max_databases; i++)
	{
		Scd2Database *db = &scd2_shmem->databases[i];
		TimestampTz again = 0;

		if (!OidIsValid(db->dboid))
			continue;
		if (!scd2_enabled)
			end_workers(db, &children[i]);
		else if (list_member_oid(giving_up, db->dboid))
			again = now + GIVING_UP;
		else if (db->wanted)
			again = keep_running(db, &children[i], now);
		else
			let_go(db, &children[i], now);
		if (again != 0 && again < next)
			next = again;
		if (db->wanted && db->state == SCD2_CAPTURE_OFF)
			probing++;
	}
	/* (Those that are being looked into can be in the way of the next.) */
	while (scd2_enabled && unprobed != NIL && probing < PROBES_AT_ONCE && !scd2_entries_are_taken())
	{
		scd2_want_workers(linitial_oid(unprobed));
		unprobed = list_delete_first(unprobed);
		probing++;
		next = now;
	}
	scd2_shmem->probed |= unprobed == NIL;
	list_free(giving_up);
	return Max(10, (next - now) / 1000);
}

/* Settings changed: perhaps what made workers fail. */
static void
retry_now(void)
{
	LWLockAcquire(scd2_shmem->lock, LW_EXCLUSIVE);
	for (int i = 0; i < scd2_max_databases; i++)
		scd2_retry_now(&scd2_shmem->databases[i]);
	LWLockRelease(scd2_shmem->lock);
}

void
scd2_launcher_main(Datum arg)
{
	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	before_shmem_exit(launcher_leave, (Datum) 0);
	scd2_shmem->launcher_pid = MyProcPid;
	scd2_shmem->launcher_latch = MyLatch;
	children = MemoryContextAllocZero(TopMemoryContext, scd2_max_databases * sizeof(Children));
	if (!scd2_shmem->probed)
		list_databases();

	for (;;)
	{
		long		ms = manage();

		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 ms, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			retry_now();
		}
	}
}
