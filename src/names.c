/*
 * names.c
 *		Names of objects, for messages and as SQL text.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_collation.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "names.h"

/* A relation for messages, also one that is gone. */
char *
scd2_relation_name(Oid relid)
{
	char	   *name = get_rel_name(relid);

	return name ? psprintf("\"%s\"", name) : psprintf("with oid %u", relid);
}

/* A collation as SQL text. */
char *
scd2_collation_name(Oid collation)
{
	HeapTuple	tup = SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));
	Form_pg_collation form;
	char	   *name;

	if (!HeapTupleIsValid(tup))
		elog(ERROR, "cache lookup failed for collation %u", collation);
	form = (Form_pg_collation) GETSTRUCT(tup);
	name = quote_qualified_identifier(get_namespace_name(form->collnamespace), NameStr(form->collname));
	ReleaseSysCache(tup);
	return name;
}
