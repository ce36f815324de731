/*
 * marks.c
 *		Which writes are marked as nothing to capture.
 *
 * What a worker writes is in no feed, so it is marked with the origin DoNotReplicateId, and the
 * decoder drops it unread: record by record, and, by the mark of the commit record, the whole
 * transaction. But expressions, checks, index functions and casts of users run in that transaction,
 * and one that writes (a function that is declared immutable can call another) writes into tables
 * that may have feeds, of others too. Such a change must be captured.
 *
 * So a statement of somebody else's in a worker takes the mark off, for all that follows in the
 * transaction, its commit included. (What was marked until then is ours: nothing is lost by that.)
 * Somebody else's is every statement that writes a table which is neither the flow's nor one of our
 * catalogs, and every utility statement: COPY and TRUNCATE write too. Those that we execute
 * ourselves cost the mark as well; they are rare.
 *
 * erase() writes with a mark in a session, whose transaction is the user's. There the mark is off
 * while a statement of somebody else's (a trigger's, a foreign key's) runs, and at the end.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "executor/executor.h"
#include "nodes/parsenodes.h"
#include "parser/parsetree.h"
#include "replication/origin.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "pg_scd2.h"
#include "compat.h"
#include "worker/code.h"
#include "worker/marks.h"
#include "worker/worker.h"

static ExecutorStart_hook_type prev_ExecutorStart = NULL;
static ExecutorRun_hook_type prev_ExecutorRun = NULL;
static ExecutorFinish_hook_type prev_ExecutorFinish = NULL;

static Oid	own[2];
static bool marked = false;
static RepOriginId unmarked;	/* what the mark stands in place of */
static bool strange = false;	/* somebody else wrote in this transaction of a worker */

/* The mark is ours: a session can have an origin of its own, and other extensions mark their writes too. */
void
scd2_mark_writes(bool mark)
{
	mark = mark && !strange;
	if (mark == marked)
		return;
	if (mark)
		unmarked = replorigin_session_origin;
	replorigin_session_origin = mark ? DoNotReplicateId : unmarked;
	marked = mark;
}

void
scd2_mark_as_own(Oid target, Oid memory)
{
	own[0] = target;
	own[1] = memory;
}

static void
take_mark_off(void)
{
	strange = true;
	scd2_mark_writes(false);
}

static bool
is_ours(Oid relid)
{
	return relid == own[0] || relid == own[1] ||
		(scd2_in_worker && get_rel_namespace(relid) == get_namespace_oid(SCD2_INTERNAL, true));
}

/* Does a query write what is not ours? */
static bool
is_strange(const QueryDesc *query)
{
	const PlannedStmt *plan = query->plannedstmt;
	ListCell   *lc;

	if (query->operation == CMD_SELECT && !plan->hasModifyingCTE)
		return false;
	foreach(lc, plan->resultRelations)
		if (!is_ours(rt_fetch(lfirst_int(lc), plan->rtable)->relid))
			return true;
	return false;
}

static void
executor_start(QueryDesc *query, int eflags)
{
	scd2_code_check_query(query->plannedstmt);
	if (scd2_in_worker && is_strange(query))
		take_mark_off();
	if (prev_ExecutorStart)
		prev_ExecutorStart(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
}

/* In a session. */
static bool
needs_no_mark(const QueryDesc *query)
{
	return !scd2_in_worker && marked && is_strange(query);
}

static void
run(QueryDesc *query, ScanDirection direction, uint64 count SCD2_EXECUTE_ONCE_PARAM)
{
	if (prev_ExecutorRun)
		prev_ExecutorRun(query, direction, count SCD2_EXECUTE_ONCE_ARG);
	else
		standard_ExecutorRun(query, direction, count SCD2_EXECUTE_ONCE_ARG);
}

static void
executor_run(QueryDesc *query, ScanDirection direction, uint64 count SCD2_EXECUTE_ONCE_PARAM)
{
	if (!needs_no_mark(query))
	{
		run(query, direction, count SCD2_EXECUTE_ONCE_ARG);
		return;
	}
	scd2_mark_writes(false);
	PG_TRY();
	{
		run(query, direction, count SCD2_EXECUTE_ONCE_ARG);
	}
	PG_FINALLY();
	{
		scd2_mark_writes(true);
	}
	PG_END_TRY();
}

static void
finish(QueryDesc *query)
{
	if (prev_ExecutorFinish)
		prev_ExecutorFinish(query);
	else
		standard_ExecutorFinish(query);
}

static void
executor_finish(QueryDesc *query)
{
	if (!needs_no_mark(query))
	{
		finish(query);
		return;
	}
	scd2_mark_writes(false);
	PG_TRY();
	{
		finish(query);
	}
	PG_FINALLY();
	{
		scd2_mark_writes(true);
	}
	PG_END_TRY();
}

/* Before a utility statement. */
void
scd2_utility_statement(const Node *stmt)
{
	if (scd2_in_worker)
		take_mark_off();
	else if (marked && !IsA(stmt, VariableSetStmt) && !IsA(stmt, ConstraintsSetStmt) && !IsA(stmt, LockStmt))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("what hangs on \"%s\" executes a command that cannot be captured while rows are erased", get_rel_name(own[0])),
				 errdetail("Triggers of a table from which rows are erased may read and write rows.")));
}

/* "strange" is of one transaction, and so is what is written in it. */
static void
at_xact_event(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT)
		return;
	strange = false;
	scd2_mark_as_own(InvalidOid, InvalidOid);
}

/*
 * Does this process, a worker, write the relation itself now? What a trigger does is not ours.
 */
bool
scd2_writes_itself(Oid relid)
{
	return scd2_in_worker && (relid == own[0] || relid == own[1]) &&
		DatumGetInt32(OidFunctionCall0(F_PG_TRIGGER_DEPTH)) <= 1;
}

void
scd2_marks_init(void)
{
	prev_ExecutorStart = ExecutorStart_hook;
	ExecutorStart_hook = executor_start;
	prev_ExecutorRun = ExecutorRun_hook;
	ExecutorRun_hook = executor_run;
	prev_ExecutorFinish = ExecutorFinish_hook;
	ExecutorFinish_hook = executor_finish;
	RegisterXactCallback(at_xact_event, NULL);
}
