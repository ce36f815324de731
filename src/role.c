/*
 * role.c
 *		Type scd2_internal.role: how our catalogs name roles; and who may act as whom.
 *
 * As type relation (relation.c): stored, it is the oid; as text, the name that the role has at that
 * moment. A role that is not there is no error but 0, which no role is: one missing role must not
 * keep a catalog from being restored (as it would in a column of type regrole), and what it stood
 * for belongs to nobody then.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/regproc.h"

#include "compat.h"

#define GONE	"-"

PG_FUNCTION_INFO_V1(scd2_role_in);
PG_FUNCTION_INFO_V1(scd2_role_out);
PG_FUNCTION_INFO_V1(scd2_can_set_role_sql);

/* scd2_internal.role_in(cstring): a name, quoted where an identifier would be. Errors: 42602. */
Datum
scd2_role_in(PG_FUNCTION_ARGS)
{
	char	   *text = PG_GETARG_CSTRING(0);
	List	   *names;

	if (strcmp(text, GONE) == 0)
		PG_RETURN_OID(InvalidOid);
	names = scd2_name_list(text);
	if (list_length(names) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("\"%s\" is not the name of a role", text)));
	PG_RETURN_OID(get_role_oid(strVal(linitial(names)), true));
}

/* scd2_internal.role_out(scd2_internal.role): "-" for a role that is gone. */
Datum
scd2_role_out(PG_FUNCTION_ARGS)
{
	Oid			role = PG_GETARG_OID(0);
	char	   *name = OidIsValid(role) ? GetUserNameFromId(role, true) : NULL;

	PG_RETURN_CSTRING(name ? pstrdup(quote_identifier(name)) : pstrdup(GONE));
}

/*
 * scd2_internal.can_set_role(member oid, role oid): may the first become the second by SET ROLE?
 * That, not what it inherits, is what having somebody's code run takes.
 */
Datum
scd2_can_set_role_sql(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(scd2_can_set_role(PG_GETARG_OID(0), PG_GETARG_OID(1)));
}
