/*
 * partitions.c
 *		What DDL on the partitions of a captured table does to its feed.
 *
 * Two things have to happen in the user's own transaction, while it holds the partition's lock:
 *
 *   a new leaf (CREATE … PARTITION OF, ATTACH) gets REPLICA IDENTITY FULL, so that its first update already has whole images;
 *   rows that come or go with a partition (ATTACH, DETACH, DROP) leave nothing in the log: if there are any, a control record declares the feed's gap.
 *
 * A ProcessUtility hook and not an event trigger: those do not see every path, and not under
 * session_replication_role = replica. (TRUNCATE of a leaf is in the log: plugin.c.)
 *
 * Who may not do what he asks for is none of our business: the server will tell him. (Our part runs
 * as superuser, and must not lock tables for him.)
 *
 * The hook never fails the user's statement: what goes wrong in our part is rolled back and told as
 * a WARNING. A statement that has nothing to do with partitions costs one comparison.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "pg_scd2.h"
#include "compat.h"
#include "feed/partitions.h"
#include "identity.h"
#include "worker/marks.h"

static ProcessUtility_hook_type prev_ProcessUtility = NULL;

/* A partition that a statement is about; root is the table above it at the time it is one. */
typedef struct PartitionEvent
{
	const char *what;			/* create, attach, detach, detach concurrently, drop */
	Oid			parent;
	Oid			leaf;
} PartitionEvent;

static void
tell(PartitionEvent *event)
{
	Oid			types[] = {OIDOID, OIDOID, TEXTOID};
	Datum		values[] = {
		ObjectIdGetDatum(event->parent), ObjectIdGetDatum(event->leaf), CStringGetTextDatum(event->what)
	};
	Scd2Identity self;

	scd2_become(BOOTSTRAP_SUPERUSERID, &self);
	SPI_connect();
	if (SPI_execute_with_args("SELECT scd2_internal.partition_event($1, $2, $3)", 3, types, values, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not call scd2_internal.partition_event()");
	SPI_finish();
	scd2_become_self_again(&self);
}

/* As above, but whatever goes wrong becomes a WARNING. (A cancel goes on: the statement is the user's.) */
static void
try_to_tell(PartitionEvent *event)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;

	if (!OidIsValid(event->parent) || !IsTransactionState() ||
		!OidIsValid(get_extension_oid(SCD2_EXTENSION, true)))
		return;
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		tell(event);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		/* The user's own cancel or timeout is his. */
		if (ERRCODE_TO_CATEGORY(error->sqlerrcode) == ERRCODE_OPERATOR_INTERVENTION)
			ReThrowError(error);
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("the change feed could not follow the change of partitions: %s", error->message)));
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
}

/* The table above a partition, if the caller may add or take it away; else invalid. */
static Oid
parent_of(Oid relid)
{
	Oid			parent = OidIsValid(relid) && get_rel_relispartition(relid) ? get_partition_parent(relid, true) : InvalidOid;

	return OidIsValid(parent) && (scd2_owns_relation(relid) || scd2_owns_relation(parent) || scd2_owns_schema(get_rel_namespace(relid))) ?
		parent : InvalidOid;
}

static PartitionCmd *
partition_command(AlterTableStmt *stmt, AlterTableType type)
{
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (cmd->subtype == type)
			return castNode(PartitionCmd, cmd->def);
	}
	return NULL;
}

/* Rows are about to leave: told before, while they can be looked for. */
static void
before_statement(Node *stmt)
{
	PartitionEvent event = {0};
	ListCell   *lc;

	if (IsA(stmt, AlterTableStmt))
	{
		PartitionCmd *cmd = partition_command((AlterTableStmt *) stmt, AT_DetachPartition);

		if (cmd == NULL)
			return;
		event.what = cmd->concurrent ? "detach concurrently" : "detach";
		event.leaf = RangeVarGetRelid(cmd->name, NoLock, true);
		event.parent = parent_of(event.leaf);
		try_to_tell(&event);
	}
	else if (IsA(stmt, DropStmt) && ((DropStmt *) stmt)->removeType == OBJECT_TABLE)
	{
		foreach(lc, ((DropStmt *) stmt)->objects)
		{
			event.what = "drop";
			event.leaf = RangeVarGetRelid(makeRangeVarFromNameList((List *) lfirst(lc)), NoLock, true);
			event.parent = parent_of(event.leaf);
			try_to_tell(&event);
		}
	}
}

/* A leaf has come. */
static void
after_statement(Node *stmt)
{
	PartitionEvent event = {0};

	if (IsA(stmt, CreateStmt) && ((CreateStmt *) stmt)->partbound != NULL)
	{
		event.what = "create";
		event.leaf = RangeVarGetRelid(((CreateStmt *) stmt)->relation, NoLock, true);
		event.parent = parent_of(event.leaf);
		try_to_tell(&event);
	}
	else if (IsA(stmt, AlterTableStmt))
	{
		PartitionCmd *cmd = partition_command((AlterTableStmt *) stmt, AT_AttachPartition);

		if (cmd == NULL)
			return;
		event.what = "attach";
		event.leaf = RangeVarGetRelid(cmd->name, NoLock, true);
		event.parent = parent_of(event.leaf);
		try_to_tell(&event);
	}
}

/* Could a statement be about partitions? */
static bool
concerns_partitions(Node *stmt)
{
	return IsA(stmt, AlterTableStmt) || IsA(stmt, CreateStmt) || IsA(stmt, DropStmt);
}

static void
process_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	/* The server may scribble on the statement. */
	Node	   *stmt = concerns_partitions(pstmt->utilityStmt) ? copyObject(pstmt->utilityStmt) : NULL;

	scd2_utility_statement(pstmt->utilityStmt);
	if (stmt)
		before_statement(stmt);
	if (prev_ProcessUtility)
		prev_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	if (stmt)
		after_statement(stmt);
}

void
scd2_partitions_init(void)
{
	prev_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}
