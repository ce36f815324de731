/*
 * relation.c
 *		Type scd2_internal.relation: how our catalogs name tables.
 *
 * Stored, it is the oid. As text, it is the qualified name that the relation has at that moment. So
 * a dump has today's names, whatever was renamed since; a restore, whose tables are there before the
 * rows of our catalogs come, finds the new oids; and nothing has to follow either. (The name and
 * schema that stand beside some of these columns are only for telling of relations that are gone.)
 *
 * Unlike regclass, a relation that is not there is no error, but 0, which no relation is: a table
 * that was left out of a dump must not keep the rest of a catalog from being restored. And unlike
 * there, a number is no relation: an oid of another database would be whatever has it here.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/varlena.h"

#define GONE	"-"

PG_FUNCTION_INFO_V1(scd2_relation_in);
PG_FUNCTION_INFO_V1(scd2_relation_out);

Datum
scd2_relation_in(PG_FUNCTION_ARGS)
{
	char	   *text = PG_GETARG_CSTRING(0);
	List	   *names;

	if (strcmp(text, GONE) == 0)
		PG_RETURN_OID(InvalidOid);
	names = textToQualifiedNameList(cstring_to_text(text));
	PG_RETURN_OID(RangeVarGetRelid(makeRangeVarFromNameList(names), NoLock, true));
}

Datum
scd2_relation_out(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	char	   *name = OidIsValid(relid) ? get_rel_name(relid) : NULL;

	if (name == NULL)
		PG_RETURN_CSTRING(pstrdup(GONE));
	PG_RETURN_CSTRING(quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), name));
}
