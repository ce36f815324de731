/*
 * ask.c
 *		Looking into users' relations from functions that run as superuser.
 *
 * Even to plan a query on a table runs code of its owner: the predicates and expressions of its
 * indexes and its check constraints are simplified, and functions that their owner declared
 * immutable are called for it. So no privileged function queries a user's relation itself. It asks
 * here: as_owner() runs the query as the relation's owner, has_rows() needs no query.
 *
 * For the same reason a superuser who reads a feed by one of our functions reads it as its owner
 * (read_rows()). Everybody else reads it as himself, under the policies that concern him.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "executor/tstoreReceiver.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "tcop/dest.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "identity.h"

PG_FUNCTION_INFO_V1(scd2_as_owner);
PG_FUNCTION_INFO_V1(scd2_has_rows);
PG_FUNCTION_INFO_V1(scd2_alter_as_owner);
PG_FUNCTION_INFO_V1(scd2_reads_as_owner);
PG_FUNCTION_INFO_V1(scd2_read_rows);

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
	(void) set_config_option("pg_scd2.own_ddl", "on", PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
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

/* scd2._reads_as_owner(relation regclass): is the caller a superuser, and the relation's owner none? */
Datum
scd2_reads_as_owner(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(superuser() && !superuser_arg(owner_of(PG_GETARG_OID(0))));
}

/* Those of the function at hand that are parameters of its query, from argument "first" on. */
static ParamListInfo
parameters(FunctionCallInfo fcinfo, int first)
{
	int			n = PG_NARGS() - first;
	ParamListInfo params = makeParamList(n);

	for (int i = 0; i < n; i++)
	{
		params->params[i].value = PG_GETARG_DATUM(first + i);
		params->params[i].isnull = PG_ARGISNULL(first + i);
		params->params[i].pflags = PARAM_FLAG_CONST;
		params->params[i].ptype = get_fn_expr_argtype(fcinfo->flinfo, first + i);
	}
	return params;
}

/*
 * scd2._read_rows(row anyelement, relation regclass, query text, …): the rows of a query, read as
 * the relation's owner, or, unless the caller is a superuser, as himself. What follows are $1, $2 …
 * Errors: 42501 row security would hide rows from the owner; those of the query.
 */
Datum
scd2_read_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	SPIExecuteOptions options = {.read_only = func_volatile(fcinfo->flinfo->fn_oid) != PROVOLATILE_VOLATILE};
	Scd2Identity self;
	Oid			owner = owner_of(PG_GETARG_OID(1));

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	options.dest = CreateDestReceiver(DestTuplestore);
	SetTuplestoreDestReceiverParams(options.dest, result->setResult, result->econtext->ecxt_per_query_memory, false, NULL, NULL);
	options.params = parameters(fcinfo, 3);
	if (!superuser() || superuser_arg(owner))
		owner = GetUserId();
	scd2_become(owner, &self);
	(void) set_config_option("row_security", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	SPI_connect();
	if (SPI_execute_extended(text_to_cstring(PG_GETARG_TEXT_PP(2)), &options) != SPI_OK_SELECT)
		elog(ERROR, "could not execute \"%s\"", text_to_cstring(PG_GETARG_TEXT_PP(2)));
	SPI_finish();
	scd2_become_self_again(&self);
	return (Datum) 0;
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
