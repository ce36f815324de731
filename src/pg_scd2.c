/*
 * pg_scd2.c
 *		Module load: settings, shared memory, the launcher.
 *
 * The library works in two ways. Preloaded (shared_preload_libraries) it has shared memory and a
 * launcher, and every session tells the capture worker when it commits. Loaded by a session alone
 * (CREATE EXTENSION on a server that was not restarted yet), its functions answer with the setting
 * that is missing.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "utils/datetime.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "pg_scd2.h"
#include "compat.h"
#include "feed/bare.h"
#include "feed/utility.h"
#include "span.h"
#include "worker/dropdb.h"
#include "worker/hooks.h"
#include "worker/marks.h"
#include "worker/shmem.h"
#include "worker/worker.h"

PG_MODULE_MAGIC;

#define DEBUG_FLAGS		(GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE)

int			scd2_naptime = 1000;
char	   *scd2_feed_retention = NULL;
int			scd2_decoding_work_mem = 512 * 1024;
int			scd2_batch_changes = 100000;
int			scd2_max_apply_workers = 2;
int			scd2_max_databases = 64;
int			scd2_lock_timeout = 5000;
int			scd2_max_slot_lag = -1;
int			scd2_reader_timeout = 0;
int			scd2_feed_backlog = 1024 * 1024;
int			scd2_max_partition_copy = 256 * 1024;
bool		scd2_enable_change_feed_on_create = false;
bool		scd2_enabled = true;
bool		scd2_allow_target_writes = false;
bool		scd2_own_ddl = false;
char	   *scd2_library_version = SCD2_VERSION;
char	   *scd2_debug_fail_at = NULL;
int			scd2_debug_leaf_size = 1024 * 1024;
int			scd2_debug_leaf_age = 60 * 1000;
int			scd2_debug_upkeep_every = 10 * 1000;
int			scd2_debug_purge_size = 64 * 1024;
int			scd2_debug_drain_size = 10 * 1024;
int			scd2_debug_max_ordinal = PG_INT32_MAX;

void		_PG_init(void);

static void
define_integer(const char *name, const char *what, const char *more, int *var,
			   int boot, int min, int max, GucContext context, int flags)
{
	DefineCustomIntVariable(name, what, more, var, boot, min, max, context,
							flags, NULL, NULL, NULL);
}

static void
define_boolean(const char *name, const char *what, const char *more, bool *var,
			   bool boot, GucContext context)
{
	DefineCustomBoolVariable(name, what, more, var, boot, context, 0,
							 NULL, NULL, NULL);
}

/* The worker that needs the interval must not be the first to find that it is none. */
static bool
check_retention(char **newval, void **extra, GucSource source)
{
	char		copy[MAXDATELEN + 1];
	char		work[256];
	char	   *fields[MAXDATEFIELDS];
	int			types[MAXDATEFIELDS];
	int			nfields;
	int			type;
	struct pg_itm_in interval;
	Interval	span;

	if (*newval == NULL || strlen(*newval) > MAXDATELEN)
		return false;
	strlcpy(copy, *newval, sizeof(copy));
	memset(&interval, 0, sizeof(interval));
	if ((ParseDateTime(copy, work, sizeof(work), fields, types, MAXDATEFIELDS, &nfields) != 0 ||
		 DecodeInterval(fields, types, nfields, INTERVAL_FULL_RANGE, &type, &interval) != 0) &&
		DecodeISO8601Interval(copy, &type, &interval) != 0)
	{
		GUC_check_errdetail("It must be an interval, like '7 days'.");
		return false;
	}
	if (interval.tm_usec < 0 || interval.tm_mday < 0 || interval.tm_mon < 0 || interval.tm_year < 0)
	{
		GUC_check_errdetail("It must not be negative.");
		return false;
	}
	/* (An infinite one, where the server knows it, leaves all fields 0.) */
	if (type != DTK_DELTA || itmin2interval(&interval, &span) != 0 || !scd2_span_is_bounded(&span))
	{
		GUC_check_errdetail("It must be " SCD2_SPAN_BOUNDS ".");
		return false;
	}
	return true;
}

static void
define_settings(void)
{
	define_integer("pg_scd2.naptime", "Longest wait of a worker before it looks for work.",
				   "Commits wake the workers; this is the fallback.",
				   &scd2_naptime, 1000, 10, 3600 * 1000, PGC_SIGHUP, GUC_UNIT_MS);
	define_integer("pg_scd2.decoding_work_mem", "Memory for decoding before it spills to disk.", NULL,
				   &scd2_decoding_work_mem, 512 * 1024, 64, MAX_KILOBYTES, PGC_SIGHUP, GUC_UNIT_KB);
	define_integer("pg_scd2.batch_changes", "A capture batch ends at the first commit after so many changes.", NULL,
				   &scd2_batch_changes, 100000, 1, INT_MAX, PGC_SIGHUP, 0);
	define_integer("pg_scd2.max_apply_workers", "Apply workers of each database.",
				   "First copies use at most all but one.",
				   &scd2_max_apply_workers, 2, 1, SCD2_MAX_APPLY, PGC_SIGHUP, 0);
	if (process_shared_preload_libraries_in_progress)
		define_integer("pg_scd2.max_databases", "Databases of the server that can have workers at the same time.", NULL,
					   &scd2_max_databases, 64, 1, 10000, PGC_POSTMASTER, 0);
	define_integer("pg_scd2.lock_timeout", "How long in total a lock on a user's table is tried for.",
				   "It is tried briefly, again and again, so that nobody queues behind us.",
				   &scd2_lock_timeout, 5000, 0, INT_MAX, PGC_USERSET, GUC_UNIT_MS);
	define_integer("pg_scd2.max_slot_lag", "WAL that a slot may hold back before it is given up; -1: no limit.",
				   "What was not captured by then is a declared gap.",
				   &scd2_max_slot_lag, -1, -1, INT_MAX, PGC_SIGHUP, GUC_UNIT_MB);
	define_integer("pg_scd2.max_partition_copy", "Size up to which the rows of a partition that comes or goes are recorded; -1: no limit.",
				   "A bigger one is a declared gap: its rows would be read and written while it is locked.",
				   &scd2_max_partition_copy, 256 * 1024, -1, MAX_KILOBYTES, PGC_USERSET, GUC_UNIT_KB);
	define_integer("pg_scd2.feed_backlog", "What may wait of a feed that cannot be written.",
				   "What is locked, or fails to be written, is kept aside; beyond this the feed has a declared gap.",
				   &scd2_feed_backlog, 1024 * 1024, 64, MAX_KILOBYTES, PGC_SIGHUP, GUC_UNIT_KB);
	define_integer("pg_scd2.reader_timeout", "Time after which an unread reader is dropped; 0: never.", NULL,
				   &scd2_reader_timeout, 0, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_S);
	DefineCustomStringVariable("pg_scd2.feed_retention", "How long the rows of a feed are kept, an interval.", NULL,
							   &scd2_feed_retention, "7 days", PGC_SIGHUP, 0, check_retention, NULL, NULL);
	define_boolean("pg_scd2.enable_change_feed_on_create", "Enables the change feed of every table created from now on.", NULL,
				   &scd2_enable_change_feed_on_create, false, PGC_USERSET);
	define_boolean("pg_scd2.enabled", "Whether workers run; off: none anywhere, slots stay.", NULL,
				   &scd2_enabled, true, PGC_SIGHUP);
	define_boolean("pg_scd2.allow_target_writes", "Lets the owner of a target or feed write into it.",
				   "A target that was written by hand no longer holds what its sources say.",
				   &scd2_allow_target_writes, false, PGC_USERSET);
	DefineCustomBoolVariable("pg_scd2.own_ddl", "Whether statements are our own, which may alter feeds and what flows remember.", NULL,
							 &scd2_own_ddl, false, PGC_SUSET, DEBUG_FLAGS, scd2_check_own_ddl, scd2_assign_own_ddl, scd2_show_own_ddl);
	DefineCustomStringVariable("pg_scd2.debug_fail_at", "Place where workers fail, for tests.", NULL,
							   &scd2_debug_fail_at, NULL, PGC_SUSET, DEBUG_FLAGS,
							   NULL, NULL, NULL);
	DefineCustomStringVariable("pg_scd2.debug_version", "What version the library takes itself for, for tests.", NULL,
							   &scd2_library_version, SCD2_VERSION, PGC_SIGHUP, DEBUG_FLAGS,
							   NULL, NULL, NULL);
	define_integer("pg_scd2.debug_leaf_size", "Size at which the last partition of a feed is cut, for tests.", NULL,
				   &scd2_debug_leaf_size, 1024 * 1024, 8, MAX_KILOBYTES, PGC_SIGHUP, GUC_UNIT_KB | DEBUG_FLAGS);
	define_integer("pg_scd2.debug_leaf_age", "Age before which it is not cut because of its age, for tests.", NULL,
				   &scd2_debug_leaf_age, 60 * 1000, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_MS | DEBUG_FLAGS);
	define_integer("pg_scd2.debug_upkeep_every", "How often feeds are looked after, for tests.", NULL,
				   &scd2_debug_upkeep_every, 10 * 1000, 10, INT_MAX, PGC_SIGHUP, GUC_UNIT_MS | DEBUG_FLAGS);
	define_integer("pg_scd2.debug_purge_size", "Up to which size targets are purged at once, and how much of others in one transaction, for tests.", NULL,
				   &scd2_debug_purge_size, 64 * 1024, 8, MAX_KILOBYTES, PGC_SIGHUP, GUC_UNIT_KB | DEBUG_FLAGS);
	define_integer("pg_scd2.debug_drain_size", "How much of what waits of a feed is written in one transaction, for tests.", NULL,
				   &scd2_debug_drain_size, 10 * 1024, 1, MAX_KILOBYTES, PGC_SIGHUP, GUC_UNIT_KB | DEBUG_FLAGS);
	define_integer("pg_scd2.debug_max_ordinal", "How many changes a transaction can have, for tests.", NULL,
				   &scd2_debug_max_ordinal, PG_INT32_MAX, 1, PG_INT32_MAX, PGC_SIGHUP, DEBUG_FLAGS);
	MarkGUCPrefixReserved("pg_scd2");
}

static void
register_launcher(void)
{
	BackgroundWorker worker = {0};

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 5;
	strlcpy(worker.bgw_library_name, "pg_scd2", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "scd2_launcher_main", BGW_MAXLEN);
	strlcpy(worker.bgw_name, "pg_scd2 launcher", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "pg_scd2 launcher", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}

void
_PG_init(void)
{
	define_settings();
	/* pg_upgrade's servers are not for us to work in: the old one must not go on, the new one is being filled. */
	if (!process_shared_preload_libraries_in_progress || IsBinaryUpgrade)
		return;
	scd2_shmem_init();
	scd2_hooks_init();
	scd2_dropdb_init();
	scd2_utility_init();
	scd2_bare_init();
	scd2_marks_init();
	register_launcher();
}
