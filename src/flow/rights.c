/*
 * rights.c
 *		Whom a flow acts as, and whether it may.
 *
 * A flow acts as the owner of its target, as one role, in a security-restricted operation, in
 * workers and in calls alike: its expressions, its reads of source and feed, its DDL and all code on
 * the target. Three things are looked at whenever it becomes that role, under a lock on the target,
 * and never remembered:
 *
 *   author      Expressions belong to the role that they were written for. Where the target has
 *               another owner since, the flow stops until scd2.authorize_flow().
 *   SELECT      The role has it on the source and on the feed as a whole, and no policy concerns it
 *               there: rows that it may not see would be missing without a word. Some pages are read
 *               below the executor, which would ask only for what it reads itself.
 *   superusers  To plan a SELECT runs functions that the owner of a table put into indexes,
 *               statistics and checks; columns bring the code of their types. A flow that acts as a
 *               superuser takes relations, partitions and types of superusers alone. What the
 *               catalogs do not show is refused function by function (worker/code.c). A superuser
 *               can lift both for one flow (trust => true).
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/rls.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "flow/rights.h"

PG_FUNCTION_INFO_V1(scd2_check_rights);

/* Types nest, but not deeper than anybody needs. */
#define DEEPEST_TYPE	32

static Oid	first_foreign_type(Oid type, int depth);

/* The owner of a relation that may be gone. */
static Oid
owner_of(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
		ReleaseSysCache(tuple);
	}
	return owner;
}

static char *
qualified_name(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid));
}

static Oid
type_owner(Oid type)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	Oid			owner = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		owner = ((Form_pg_type) GETSTRUCT(tuple))->typowner;
		ReleaseSysCache(tuple);
	}
	return owner;
}

static const char *
role_name(Oid role)
{
	char	   *name = OidIsValid(role) ? GetUserNameFromId(role, true) : NULL;

	return name != NULL ? name : "(dropped)";
}

/* A relation that is gone is somebody else's matter. */
static void
check_may_read(Oid role, Oid relid)
{
	bool		is_missing = false;

	if (pg_class_aclcheck_ext(relid, role, ACL_SELECT, &is_missing) != ACLCHECK_OK && !is_missing)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for table %s", get_rel_name(relid)),
				 errdetail("The flow reads it as the owner of its target, role \"%s\".", role_name(role)),
				 errhint("GRANT SELECT ON %s TO %s;", qualified_name(relid), quote_identifier(role_name(role)))));
	if (!is_missing && check_enable_rls(relid, role, true) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("row security hides rows of table %s", get_rel_name(relid)),
				 errdetail("The flow reads it as the owner of its target, role \"%s\": what policies hide would be missing from the target without a word.", role_name(role)),
				 errhint("ALTER ROLE %s BYPASSRLS; -- or give the target to a role whom no policy of \"%s\" concerns", quote_identifier(role_name(role)), get_rel_name(relid))));
}

/*
 * The first type of these columns, or a type that theirs is made of, that no superuser owns.
 */
static Oid
first_foreign_column(Oid relid, int depth)
{
	Relation	rel = RelationIdGetRelation(relid);
	Oid			found = InvalidOid;

	if (rel == NULL)
		return InvalidOid;
	for (int i = 0; i < rel->rd_att->natts && !OidIsValid(found); i++)
		if (!TupleDescAttr(rel->rd_att, i)->attisdropped)
			found = first_foreign_type(TupleDescAttr(rel->rd_att, i)->atttypid, depth + 1);
	RelationClose(rel);
	return found;
}

static Oid
first_foreign_type(Oid type, int depth)
{
	HeapTuple	tuple;
	Form_pg_type form;
	Oid			parts[2];
	Oid			row;
	bool		foreign;

	if (type < FirstNormalObjectId)
		return InvalidOid;
	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	form = (Form_pg_type) GETSTRUCT(tuple);
	foreign = !superuser_arg(form->typowner);
	row = form->typrelid;
	parts[0] = form->typtype == TYPTYPE_DOMAIN ? form->typbasetype : form->typelem;
	parts[1] = form->typtype == TYPTYPE_RANGE ? get_range_subtype(type) :
		form->typtype == TYPTYPE_MULTIRANGE ? get_multirange_range(type) : InvalidOid;
	ReleaseSysCache(tuple);
	if (foreign || depth > DEEPEST_TYPE)
		return type;
	for (int i = 0; i < lengthof(parts); i++)
	{
		Oid			found = OidIsValid(parts[i]) ? first_foreign_type(parts[i], depth + 1) : InvalidOid;

		if (OidIsValid(found))
			return found;
	}
	return OidIsValid(row) ? first_foreign_column(row, depth) : InvalidOid;
}

/* For whom it is asked: a flow, or (name NULL) one that is being declared. */
typedef struct Asker
{
	const char *flow;
	Oid			role;
	Oid			target;			/* invalid: it is not there yet */
	bool		trusted;
} Asker;

/* The target may go to the owner of what it is made from; or a superuser says that he trusts that role. */
static char *
remedy(const Asker *asker, Oid owner)
{
	const char *to = quote_identifier(role_name(owner));

	if (!OidIsValid(asker->target))
		return pstrdup("Give trust => true if that role is to be trusted.");
	if (asker->flow == NULL)
		return psprintf("ALTER TABLE %s OWNER TO %s; -- then again; or, if that role is to be trusted, with trust => true", qualified_name(asker->target), to);
	return psprintf("ALTER TABLE %s OWNER TO %s; SELECT * FROM scd2.authorize_flow(%s); -- or, if that role is to be trusted: SELECT scd2.alter_flow(%s, trust => true);",
					qualified_name(asker->target), to, quote_literal_cstr(asker->flow), quote_literal_cstr(asker->flow));
}

static void
refuse_foreign(const Asker *asker, const char *what, Oid owner)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("target of flow%s belongs to a superuser, %s does not", asker->flow != NULL ? psprintf(" \"%s\"", asker->flow) : "", what),
			 errdetail("What its owner, role \"%s\", wrote would run as superuser \"%s\".", role_name(owner), role_name(asker->role)),
			 errhint("%s", remedy(asker, owner))));
}

/* What a superuser's flow reads: the relation, its partitions and children, the types of its columns. */
static void
check_is_superusers(const Asker *asker, Oid relid)
{
	List	   *relids = find_all_inheritors(relid, NoLock, NULL);
	Oid			type = first_foreign_column(relid, 0);
	ListCell   *cell;

	foreach(cell, relids)
	{
		Oid			owner = owner_of(lfirst_oid(cell));

		if (OidIsValid(owner) && !superuser_arg(owner))
			refuse_foreign(asker, psprintf("\"%s\"", get_rel_name(lfirst_oid(cell))), owner);
	}
	if (OidIsValid(type))
		refuse_foreign(asker, psprintf("type %s of a column of \"%s\"", format_type_be(type), get_rel_name(relid)), type_owner(type));
	list_free(relids);
}

static void
check_relation(const Asker *asker, Oid relid)
{
	if (!OidIsValid(relid))
		return;
	check_may_read(asker->role, relid);
	if (superuser_arg(asker->role) && !asker->trusted)
		check_is_superusers(asker, relid);
}

/*
 * scd2_internal.check_rights(role oid, target oid, relations oid[], trusted boolean): what a flow
 * that is being declared, and acts as "role", will read. "target": 0 if it is not there yet.
 */
Datum
scd2_check_rights(PG_FUNCTION_ARGS)
{
	Asker		asker = {.role = PG_GETARG_OID(0), .target = PG_GETARG_OID(1), .trusted = PG_GETARG_BOOL(3)};
	Datum	   *relations;
	int			n;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(2), OIDOID, sizeof(Oid), true, TYPALIGN_INT, &relations, NULL, &n);
	for (int i = 0; i < n; i++)
		check_relation(&asker, DatumGetObjectId(relations[i]));
	PG_RETURN_VOID();
}

/*
 * Raises 42501 unless the flow was written for the present owner of its target. (Asked when it is
 * loaded too: what hangs on the target may be another's, and is not to run before he has said so.)
 */
void
scd2_flow_check_author(Scd2Flow *flow)
{
	Oid			owner = owner_of(flow->target);

	if (owner == flow->author)
		return;
	if (!OidIsValid(owner))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("target %s of flow \"%s\" does not exist", flow->target_sql, flow->name)));
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("flow \"%s\" is not authorized: its target %s belongs to role \"%s\"", flow->name, flow->target_sql, role_name(owner)),
			 OidIsValid(flow->author) ?
			 errdetail("It was written for role \"%s\".", role_name(flow->author)) :
			 errdetail("Whom it was written for is not known here."),
			 errhint("SELECT * FROM scd2.authorize_flow(%s); -- shows what will run as that role, which it is for to say",
					 quote_literal_cstr(flow->name))));
}

/* Raises 42501 unless the flow may act now. The target is locked, so that its owner stays. */
static void
check_rights(Scd2Flow *flow)
{
	Asker		asker = {.flow = flow->name, .role = flow->author, .target = flow->target, .trusted = flow->trusted};

	scd2_flow_check_author(flow);
	check_relation(&asker, flow->source);
	if (!flow->feedless)
		check_relation(&asker, flow->feed);
	if (superuser_arg(flow->author) && !flow->trusted)
		check_is_superusers(&asker, flow->target);
}

/*
 * Becomes the role that the flow acts as, until scd2_become_self_again(). The target stays locked
 * until the transaction ends. Errors: 42501 it may not act.
 */
void
scd2_flow_become(Scd2Flow *flow, Scd2Identity *before)
{
	LockRelationOid(flow->target, AccessShareLock);
	check_rights(flow);
	scd2_become(flow->author, before);
	if (flow->trusted)
		scd2_trust_code(before);
}
