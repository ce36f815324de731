/*
 * ask.c
 *		Looking into users' relations from functions that run as superuser.
 *
 * Even to plan a query on a table runs code of its owner: the predicates and expressions of its
 * indexes and its check constraints are simplified, and functions that their owner declared
 * immutable are called for it. So no privileged function queries a user's relation itself. It asks
 * here: as_owner() runs the query as the relation's owner, has_rows() needs no query.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "identity.h"

PG_FUNCTION_INFO_V1(scd2_as_owner);
PG_FUNCTION_INFO_V1(scd2_has_rows);
PG_FUNCTION_INFO_V1(scd2_alter_as_owner);

static Oid
owner_of(Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	Oid			owner = rel->rd_rel->relowner;

	relation_close(rel, NoLock);
	return owner;
}

/*
 * scd2_internal.as_owner(relation oid, query text, argument bigint): the first value of the query's
 * first row, as text.
 */
Datum
scd2_as_owner(PG_FUNCTION_ARGS)
{
	Oid			types[] = {INT8OID};
	Datum		values[] = {PG_GETARG_DATUM(2)};
	char	   *query = text_to_cstring(PG_GETARG_TEXT_PP(1));
	MemoryContext cxt = CurrentMemoryContext;
	Scd2Identity self;
	char	   *answer = NULL;

	scd2_become(owner_of(PG_GETARG_OID(0)), &self);
	SPI_connect();
	if (SPI_execute_with_args(query, 1, types, values, NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not execute \"%s\"", query);
	if (SPI_processed > 0)
		answer = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	if (answer != NULL)
		answer = MemoryContextStrdup(cxt, answer);
	SPI_finish();
	scd2_become_self_again(&self);
	if (answer == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(answer));
}

/*
 * scd2_internal.alter_as_owner(relation oid, statements text[]): DDL on a user's relation runs what
 * hangs on it.
 */
Datum
scd2_alter_as_owner(PG_FUNCTION_ARGS)
{
	Datum	   *statements;
	int			n;
	Scd2Identity self;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), TEXTOID, -1, false, TYPALIGN_INT, &statements, NULL, &n);
	scd2_become(owner_of(PG_GETARG_OID(0)), &self);
	/* It is a flow that alters what it keeps (52_memory.sql). Until we are ourselves again. */
	(void) set_config_option("pg_scd2.debug_allow_ddl", "on", PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	SPI_connect();
	for (int i = 0; i < n; i++)
	{
		char	   *sql = TextDatumGetCString(statements[i]);

		if (SPI_execute(sql, false, 0) != SPI_OK_UTILITY)
			elog(ERROR, "could not execute \"%s\"", sql);
	}
	SPI_finish();
	scd2_become_self_again(&self);
	PG_RETURN_VOID();
}

/* A table without storage of its own (a foreign one) may have rows. */
static bool
table_has_rows(Oid relid, Snapshot snapshot)
{
	Relation	rel = table_open(relid, NoLock);
	bool		found = rel->rd_rel->relkind == RELKIND_FOREIGN_TABLE;

	if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind))
	{
		TableScanDesc scan = table_beginscan(rel, snapshot, 0, NULL);
		TupleTableSlot *slot = table_slot_create(rel, NULL);

		found = table_scan_getnextslot(scan, ForwardScanDirection, slot);
		ExecDropSingleTupleTableSlot(slot);
		table_endscan(scan);
	}
	table_close(rel, NoLock);
	return found;
}

/*
 * scd2_internal.has_rows(relation oid): as everybody sees it now and as this transaction made it,
 * partitions included.
 */
Datum
scd2_has_rows(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	Snapshot	snapshot;
	ListCell   *lc;
	bool		found = false;
	List	   *tables;

	relation_close(relation_open(relid, AccessShareLock), NoLock);
	tables = find_all_inheritors(relid, AccessShareLock, NULL);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	foreach(lc, tables)
		if (!found)
			found = table_has_rows(lfirst_oid(lc), snapshot);
	UnregisterSnapshot(snapshot);
	PG_RETURN_BOOL(found);
}
