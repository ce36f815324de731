/*
 * dropdb.c
 *		DROP DATABASE of a database that has, or had, workers.
 *
 * What shared memory has of a database goes with it.
 *
 * FORCE ends the sessions in the database, but the server counts the active slots before it does,
 * and refuses. So the session that drops tells our workers to end, and waits until the slot is
 * free, before the server's own code runs. If that fails after all, the workers are wanted again.
 *
 * Only for those who may drop the database; everything else, errors included, is the server's.
 */
#include "postgres.h"

#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "tcop/utility.h"

#include "pg_scd2.h"
#include "compat.h"
#include "worker/dropdb.h"
#include "worker/shmem.h"

#include <signal.h>

#define PATIENCE_MS		5000	/* as long as the server itself waits for sessions to leave */
#define LOOK_EVERY_MS	10

static ProcessUtility_hook_type prev_ProcessUtility = NULL;

/* Does the statement end the sessions in the database, and may the caller drop it? */
static bool
is_forced(const DropdbStmt *drop, Oid dboid)
{
	ListCell   *lc;
	bool		force = false;

	foreach(lc, drop->options)
		if (strcmp(lfirst_node(DefElem, lc)->defname, "force") == 0)
			force = true;
	return force && dboid != MyDatabaseId && scd2_owns_database(dboid);
}

/*
 * Nobody starts the database's workers again, and the one that holds the slot is told to end.
 * Returns its pid, 0 if there is none.
 */
static pid_t
unwant_workers(Oid dboid, bool *wanted)
{
	Scd2Database *db;
	pid_t		pid = 0;

	LWLockAcquire(scd2_shmem->lock, LW_EXCLUSIVE);
	db = scd2_find_database(dboid);
	if (db != NULL)
	{
		*wanted |= db->wanted;
		db->wanted = false;
		pid = db->capture_pid;
	}
	LWLockRelease(scd2_shmem->lock);
	return pid;
}

/* Ends the capture worker of a database; true if the database had workers that were wanted. */
static bool
end_capture(Oid dboid)
{
	bool		wanted = false;
	pid_t		pid;

	for (int waited = 0; waited < PATIENCE_MS; waited += LOOK_EVERY_MS)
	{
		pid = unwant_workers(dboid, &wanted);
		if (pid == 0)
			break;
		if (waited == 0)
			kill(pid, SIGTERM);
		pg_usleep(LOOK_EVERY_MS * 1000L);
	}
	scd2_wake_launcher();
	return wanted;
}

static void
go_on(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
	  ProcessUtilityContext context, ParamListInfo params,
	  QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	if (prev_ProcessUtility)
		prev_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
}

static void
process_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	DropdbStmt *drop = (DropdbStmt *) pstmt->utilityStmt;
	Oid			dboid = InvalidOid;
	volatile bool ended;

	if (IsA(drop, DropdbStmt) && context == PROCESS_UTILITY_TOPLEVEL)
		dboid = get_database_oid(drop->dbname, true);
	if (!OidIsValid(dboid))
	{
		go_on(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
		return;
	}
	ended = is_forced(drop, dboid) && end_capture(dboid);
	PG_TRY();
	{
		go_on(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	}
	PG_CATCH();
	{
		if (ended)
			scd2_want_workers(dboid);
		PG_RE_THROW();
	}
	PG_END_TRY();
	scd2_forget_database(dboid);
}

void
scd2_dropdb_init(void)
{
	prev_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}
