/*
 * partitions.c
 *		What DDL on the partitions of a captured table does to its feed.
 *
 * Two things have to happen in the user's own transaction, while it holds the partition's lock:
 *
 *   a new leaf (CREATE … PARTITION OF, ATTACH) gets REPLICA IDENTITY FULL, so that its first update already has whole images;
 *   rows that come or go with a partition (ATTACH, DETACH, DROP, TRUNCATE of it alone) leave nothing in the log: they are put there (staged.c), and become inserts and deletes.
 *
 * What comes or was detached is looked at after the statement, which has the locks and was allowed.
 * What a DROP or TRUNCATE takes is looked at before it, if the user may do that, under the locks
 * that it would take.
 *
 * From the hook of utility.c and not from an event trigger: those do not see every path. (What
 * comes by another one, as DROP SCHEMA or TRUNCATE … CASCADE, becomes a gap: 35_feed_columns.sql,
 * plugin.c.)
 *
 * This does not fail the user's statement: what goes wrong in our part is rolled back and
 * becomes a gap of the feed, with a WARNING. Only if not even that can be written down, or a lock
 * that the statement needs too is not to be had, the error is the user's. A statement that has
 * nothing to do with partitions costs one comparison, DROP and TRUNCATE of others a look into the
 * cache.
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
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "pg_scd2.h"
#include "compat.h"
#include "feed/partitions.h"
#include "identity.h"

/* What a statement does to partitions. */
typedef struct PartitionEvent
{
	const char *what;			/* CREATE, ATTACH, DETACH, DROP, TRUNCATE */
	Oid			parent;			/* what the partition came to or left; DROP, TRUNCATE: invalid */
	List	   *relids;			/* the partition; DROP, TRUNCATE: all that the statement names */
} PartitionEvent;

static Datum
oid_array(List *oids)
{
	Datum	   *elements = palloc(list_length(oids) * sizeof(Datum));
	int			n = 0;
	ListCell   *lc;

	foreach(lc, oids)
		elements[n++] = ObjectIdGetDatum(lfirst_oid(lc));
	return PointerGetDatum(construct_array(elements, n, OIDOID, sizeof(Oid), true, TYPALIGN_INT));
}

/* "trouble": what went wrong when it was followed; NULL: follow it. */
static void
tell(PartitionEvent *event, const char *trouble)
{
	Oid			types[] = {OIDOID, TEXTOID, OIDOID, OIDARRAYOID, TEXTOID};
	Datum		values[] = {
		ObjectIdGetDatum(GetUserId()), CStringGetTextDatum(event->what), ObjectIdGetDatum(event->parent),
		oid_array(event->relids), trouble ? CStringGetTextDatum(trouble) : (Datum) 0
	};
	Scd2Identity self;

	scd2_become(BOOTSTRAP_SUPERUSERID, &self);
	SPI_connect();
	if (SPI_execute_with_args("SELECT scd2_internal.partition_event($1, $2, $3, $4, $5)", 5, types, values, trouble ? NULL : "    n", false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not call scd2_internal.partition_event()");
	SPI_finish();
	scd2_become_self_again(&self);
}

/* An error that the user's statement would have met too. */
static bool
is_the_users(int sqlerrcode)
{
	return ERRCODE_TO_CATEGORY(sqlerrcode) == ERRCODE_OPERATOR_INTERVENTION ||
		ERRCODE_TO_CATEGORY(sqlerrcode) == ERRCODE_TRANSACTION_ROLLBACK ||
		sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE;
}

/* In a subtransaction; returns what went wrong, NULL: nothing. */
static ErrorData *
try_to_tell(PartitionEvent *event, const char *trouble)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		tell(event, trouble);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	return error;
}

static void
follow(PartitionEvent *event)
{
	ErrorData  *error;

	if (event->relids == NIL || !IsTransactionState() ||
		!OidIsValid(get_extension_oid(SCD2_EXTENSION, true)))
		return;
	error = try_to_tell(event, NULL);
	if (error == NULL)
		return;
	if (is_the_users(error->sqlerrcode) || try_to_tell(event, error->message) != NULL)
		ReThrowError(error);
}

static PartitionCmd *
partition_command(AlterTableStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (cmd->subtype == AT_AttachPartition || cmd->subtype == AT_DetachPartition || cmd->subtype == AT_DetachPartitionFinalize)
			return castNode(PartitionCmd, cmd->def);
	}
	return NULL;
}

static bool
has_partition(List *relids)
{
	ListCell   *lc;

	foreach(lc, relids)
		if (get_rel_relispartition(lfirst_oid(lc)))
			return true;
	return false;
}

static List *
add_relid(List *relids, const RangeVar *name)
{
	Oid			relid = RangeVarGetRelid(name, NoLock, true);

	return OidIsValid(relid) ? lappend_oid(relids, relid) : relids;
}

/* Could a statement be about partitions? */
bool
scd2_concerns_partitions(Node *stmt)
{
	return IsA(stmt, AlterTableStmt) || IsA(stmt, CreateStmt) || IsA(stmt, CreateForeignTableStmt) ||
		IsA(stmt, DropStmt) || IsA(stmt, TruncateStmt);
}

/* Rows are about to go: told before, while they are there. */
void
scd2_partitions_before(Node *stmt)
{
	PartitionEvent event = {0};
	ListCell   *lc;

	if (IsA(stmt, TruncateStmt))
	{
		event.what = "TRUNCATE";
		foreach(lc, ((TruncateStmt *) stmt)->relations)
			event.relids = add_relid(event.relids, lfirst_node(RangeVar, lc));
	}
	else if (IsA(stmt, DropStmt) && ((DropStmt *) stmt)->removeType == OBJECT_TABLE)
	{
		event.what = "DROP";
		foreach(lc, ((DropStmt *) stmt)->objects)
			event.relids = add_relid(event.relids, makeRangeVarFromNameList(lfirst(lc)));
	}
	if (has_partition(event.relids))
		follow(&event);
}

/* A partition has come, or was detached. */
void
scd2_partitions_after(Node *stmt)
{
	PartitionEvent event = {0};
	CreateStmt *create = IsA(stmt, CreateStmt) ? (CreateStmt *) stmt :
		IsA(stmt, CreateForeignTableStmt) ? &((CreateForeignTableStmt *) stmt)->base : NULL;

	if (create != NULL && create->partbound != NULL)
	{
		event.what = "CREATE";
		event.relids = add_relid(NIL, create->relation);
		event.parent = event.relids == NIL || !get_rel_relispartition(linitial_oid(event.relids)) ? InvalidOid :
			get_partition_parent(linitial_oid(event.relids), true);
		follow(&event);
	}
	else if (IsA(stmt, AlterTableStmt))
	{
		PartitionCmd *cmd = partition_command((AlterTableStmt *) stmt);

		if (cmd == NULL)
			return;
		event.what = cmd->bound != NULL ? "ATTACH" : "DETACH";
		event.relids = add_relid(NIL, cmd->name);
		event.parent = RangeVarGetRelid(((AlterTableStmt *) stmt)->relation, NoLock, true);
		follow(&event);
	}
}
