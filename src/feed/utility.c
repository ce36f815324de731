/*
 * utility.c
 *		Statements of users that event triggers do not see, or see too late.
 *
 *   partitions       rows that come and go with them (partitions.c)
 *   feeds            what must not stand on them (bare.c)
 *   ALTER TABLE      columns that it writes (rewrite.c)
 *   CLUSTER          rows that lie elsewhere (disorder.c)
 *   REASSIGN OWNED   feeds and targets follow their sources (51_follow_relations.sql); before 17 it fires no event trigger
 *
 * A statement that is none of these costs a comparison.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"

#include "pg_scd2.h"
#include "feed/bare.h"
#include "feed/disorder.h"
#include "feed/partitions.h"
#include "feed/rewrite.h"
#include "feed/utility.h"
#include "identity.h"
#include "worker/marks.h"

static ProcessUtility_hook_type prev_ProcessUtility = NULL;

/* What goes wrong is the statement's error: it must not leave feeds with whom they do not belong to. */
static void
follow_owners(void)
{
	Scd2Identity self;

	if (!OidIsValid(get_extension_oid(SCD2_EXTENSION, true)))
		return;
	scd2_become(BOOTSTRAP_SUPERUSERID, &self);
	SPI_connect();
	if (SPI_execute("SELECT scd2_internal.follow_relations(NULL)", false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not call scd2_internal.follow_relations()");
	SPI_finish();
	scd2_become_self_again(&self);
}

static void
run_statement(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
			  ProcessUtilityContext context, ParamListInfo params,
			  QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	if (prev_ProcessUtility)
		prev_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
}

/* What a statement runs for itself is part of it. SET belongs to the statements beside it. */
static void
run(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
	ProcessUtilityContext context, ParamListInfo params,
	QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	bool		outer;
	char	   *outer_columns;

	if (context == PROCESS_UTILITY_SUBCOMMAND || IsA(pstmt->utilityStmt, VariableSetStmt))
	{
		run_statement(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
		return;
	}
	outer_columns = scd2_rewrite_begin(pstmt->utilityStmt);
	outer = scd2_begin_statement();
	PG_TRY();
	{
		run_statement(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	}
	PG_FINALLY();
	{
		scd2_end_statement(outer);
		scd2_rewrite_end(outer_columns);
	}
	PG_END_TRY();
}

static void
process_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	bool		reassigns = IsA(pstmt->utilityStmt, ReassignOwnedStmt);
	bool		sorts = IsA(pstmt->utilityStmt, ClusterStmt);
	RangeVar   *sorted = sorts ? copyObject(((ClusterStmt *) pstmt->utilityStmt)->relation) : NULL;

	/* The server may scribble on the statement. */
	Node	   *stmt = scd2_concerns_partitions(pstmt->utilityStmt) ? copyObject(pstmt->utilityStmt) : NULL;

	scd2_utility_statement(pstmt->utilityStmt);
	if (stmt)
		scd2_partitions_before(stmt);
	run(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	if (stmt)
		scd2_partitions_after(stmt);
	if (reassigns)
		follow_owners();
	if (sorts)
		scd2_note_disorder(sorted == NULL ? InvalidOid : RangeVarGetRelid(sorted, NoLock, true));
	scd2_check_touched();
}

void
scd2_utility_init(void)
{
	prev_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}
