/*
 * fixed.c
 *		Names that stay what they are until the transaction ends.
 *
 * DDL takes names, and ours runs as superuser. A lock on a table keeps it from being renamed, but
 * not its schema: ALTER SCHEMA … RENAME locks no table, and an owner of two schemas could swap
 * their names between our look and the server's, or while either waits for a lock. Then the
 * statement would change another's table.
 *
 * So a relation is locked by its oid, and a name becomes part of a statement only through the
 * functions here. They lock the rows of pg_namespace, pg_type, pg_collation, pg_proc and pg_authid that the name
 * is made of, FOR KEY SHARE: whoever renames, moves or drops the object waits until we commit;
 * grants and other changes do not. Nobody who renamed it already is waited for for longer than
 * pg_scd2.lock_timeout (or lock_timeout, if that is less). Then the messages of what was renamed
 * before are read, so that the server's own look-up finds the same.
 *
 * That does not hold against the transaction itself: code of users that runs in it may rename what
 * is theirs. So a name is asked for in the expression that makes the statement, each time.
 *
 * What runs as the owner of the relation (scd2_internal.as_owner(), alter_as_owner(), the queries
 * of flows) can do no more by a wrong name than its owner can, and only has to fail on it.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/catalog.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "fixed.h"
#include "names.h"
#include "pg_scd2.h"

#define TRY_AGAIN	20000L		/* µs */

PG_FUNCTION_INFO_V1(scd2_lock_relation);
PG_FUNCTION_INFO_V1(scd2_fixed_name);
PG_FUNCTION_INFO_V1(scd2_fixed_schema);
PG_FUNCTION_INFO_V1(scd2_fixed_type);
PG_FUNCTION_INFO_V1(scd2_fixed_collation);
PG_FUNCTION_INFO_V1(scd2_fixed_function);
PG_FUNCTION_INFO_V1(scd2_fixed_role);

/* Locks the present row of an object, without waiting. TM_Deleted: there is none. */
static TM_Result
lock_row(Relation catalog, Oid object)
{
	Oid			class = RelationGetRelid(catalog);
	TM_Result	result = TM_Deleted;
	TM_FailureData failure;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	found;

	InvalidateCatalogSnapshot();
	ScanKeyInit(&key, get_object_attnum_oid(class), BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(object));
	scan = systable_beginscan(catalog, get_object_oid_index(class), true, NULL, 1, &key);
	found = systable_getnext(scan);
	if (HeapTupleIsValid(found))
	{
		HeapTupleData row = {.t_self = found->t_self, .t_tableOid = class};
		Buffer		buffer;

		result = heap_lock_tuple(catalog, &row, GetCurrentCommandId(false), LockTupleKeyShare, LockWaitSkip, false, &buffer, &failure);
		ReleaseBuffer(buffer);
	}
	systable_endscan(scan);
	return result;
}

static void
refuse_renamed(Oid class, Oid object, int waited)
{
	ObjectAddress address = {class, object, 0};

	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("could not lock the name of %s within %d ms", getObjectDescription(&address, false), waited),
			 errdetail("A transaction that has not ended yet renames, moves or drops it.")));
}

/*
 * Nobody renames, moves or drops an object until we commit. Raises 55P03 if somebody just does, 42704
 * if it is gone.
 */
static void
fix(Oid class, Oid object)
{
	int			patience = LockTimeout > 0 ? Min(LockTimeout, scd2_lock_timeout) : scd2_lock_timeout;
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), patience);
	Relation	catalog = table_open(class, RowShareLock);
	TM_Result	result;

	while ((result = lock_row(catalog, object)) == TM_WouldBlock || result == TM_Updated)
	{
		if (result == TM_WouldBlock && GetCurrentTimestamp() >= deadline)
			refuse_renamed(class, object, patience);
		CHECK_FOR_INTERRUPTS();
		if (result == TM_WouldBlock)
			pg_usleep(TRY_AGAIN);
		AcceptInvalidationMessages();
	}
	if (result != TM_Ok)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("object %u of catalog \"%s\" does not exist", object, RelationGetRelationName(catalog))));
	table_close(catalog, NoLock);
	AcceptInvalidationMessages();
}

/* A schema as SQL text. */
char *
scd2_fixed_schema_name(Oid schema)
{
	fix(NamespaceRelationId, schema);
	return pstrdup(quote_identifier(get_namespace_name(schema)));
}

/*
 * A relation as SQL text. The caller has it locked as the statement will need it: here it gets the
 * weakest lock only.
 */
char *
scd2_fixed_relation_name(Oid relid)
{
	char	   *schema;
	char	   *name;

	LockRelationOid(relid, AccessShareLock);
	name = get_rel_name(relid);
	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	schema = scd2_fixed_schema_name(get_rel_namespace(relid));
	if (get_relname_relid(name, get_rel_namespace(relid)) != relid)
		elog(ERROR, "relation %u is not what its name finds", relid);
	return psprintf("%s.%s", schema, quote_identifier(name));
}

/* Types of the server keep their names. */
static void
fix_type(Oid type)
{
	Oid			element = get_element_type(type);
	Oid			named = OidIsValid(element) ? element : type;
	HeapTuple	tuple;

	if (named < FirstNormalObjectId)
		return;
	fix(TypeRelationId, named);
	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(named));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", named);
	fix(NamespaceRelationId, ((Form_pg_type) GETSTRUCT(tuple))->typnamespace);
	ReleaseSysCache(tuple);
}

/* A type as SQL text. */
char *
scd2_fixed_type_name(Oid type, int32 typmod)
{
	fix_type(type);
	return format_type_extended(type, typmod, FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
}

/* scd2_internal.lock_relation(relation oid, mode text): LOCK TABLE ONLY, by oid. */
Datum
scd2_lock_relation(PG_FUNCTION_ARGS)
{
	static const char *const modes[] = {
		"ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE", "SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE"
	};
	Oid			relid = PG_GETARG_OID(0);
	char	   *mode = text_to_cstring(PG_GETARG_TEXT_PP(1));
	LOCKMODE	lockmode = 0;

	while (strcmp(modes[lockmode], mode) != 0)
		if (++lockmode == lengthof(modes))
			elog(ERROR, "no lock mode \"%s\"", mode);
	LockRelationOid(relid, lockmode + 1);
	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	PG_RETURN_VOID();
}

Datum
scd2_fixed_name(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(scd2_fixed_relation_name(PG_GETARG_OID(0))));
}

Datum
scd2_fixed_schema(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(scd2_fixed_schema_name(PG_GETARG_OID(0))));
}

/* scd2_internal.fixed_type(type oid, typmod integer): as format_type(). */
Datum
scd2_fixed_type(PG_FUNCTION_ARGS)
{
	fix_type(PG_GETARG_OID(0));
	PG_RETURN_TEXT_P(cstring_to_text(format_type_extended(PG_GETARG_OID(0), PG_GETARG_INT32(1), FORMAT_TYPE_TYPEMOD_GIVEN)));
}

/* Collations of the server keep their names. */
char *
scd2_fixed_collation_name(Oid collation)
{
	HeapTuple	tuple;

	if (collation >= FirstNormalObjectId)
	{
		fix(CollationRelationId, collation);
		tuple = SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));
		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for collation %u", collation);
		fix(NamespaceRelationId, ((Form_pg_collation) GETSTRUCT(tuple))->collnamespace);
		ReleaseSysCache(tuple);
	}
	return scd2_collation_name(collation);
}

Datum
scd2_fixed_collation(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(scd2_fixed_collation_name(PG_GETARG_OID(0))));
}

/* scd2_internal.fixed_function(function oid): with the types of its arguments. */
Datum
scd2_fixed_function(PG_FUNCTION_ARGS)
{
	Oid			function = PG_GETARG_OID(0);
	HeapTuple	tuple;
	Form_pg_proc form;

	fix(ProcedureRelationId, function);
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", function);
	form = (Form_pg_proc) GETSTRUCT(tuple);
	fix(NamespaceRelationId, form->pronamespace);
	for (int i = 0; i < form->pronargs; i++)
		fix_type(form->proargtypes.values[i]);
	ReleaseSysCache(tuple);
	PG_RETURN_TEXT_P(cstring_to_text(format_procedure_qualified(function)));
}

Datum
scd2_fixed_role(PG_FUNCTION_ARGS)
{
	fix(AuthIdRelationId, PG_GETARG_OID(0));
	PG_RETURN_TEXT_P(cstring_to_text(quote_identifier(GetUserNameFromId(PG_GETARG_OID(0), false))));
}
