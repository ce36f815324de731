/*
 * check.c
 *		What SQL cannot find out when a flow is created: names along the caller's path, the type and
 *		nature of an expression.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "common/hashfn.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "parser/parser.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/plancache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"
#include "utils/varlena.h"

#include "pg_scd2.h"
#include "compat.h"
#include "flow/check.h"
#include "identity.h"

PG_FUNCTION_INFO_V1(scd2_object_name);
PG_FUNCTION_INFO_V1(scd2_caller_relation);
PG_FUNCTION_INFO_V1(scd2_check_expression);
PG_FUNCTION_INFO_V1(scd2_sequence_expression);
PG_FUNCTION_INFO_V1(scd2_expression_columns);
PG_FUNCTION_INFO_V1(scd2_check_immutable);
PG_FUNCTION_INFO_V1(scd2_check_version_query);
PG_FUNCTION_INFO_V1(scd2_expression_owners);
PG_FUNCTION_INFO_V1(scd2_lock_flow);
PG_FUNCTION_INFO_V1(scd2_lock_target);
PG_FUNCTION_INFO_V1(scd2_take_name);

Scd2AtWork *scd2_at_work = NULL;

Datum
scd2_object_name(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	char	   *label = text_to_cstring(PG_GETARG_TEXT_PP(1));
	NameData   *result = palloc0(NAMEDATALEN);

	namestrcpy(result, makeObjectName(name, NULL, label));
	PG_RETURN_NAME(result);
}

/* Where an unqualified name is found, else where it would be created. */
static Oid
find_along_path(const char *relname)
{
	ListCell   *cell;

	foreach(cell, scd2_caller_path)
		if (OidIsValid(get_relname_relid(relname, lfirst_oid(cell))))
			return lfirst_oid(cell);
	if (scd2_caller_path == NIL)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_SCHEMA),
						errmsg("no schema has been selected to create \"%s\" in", relname)));
	return linitial_oid(scd2_caller_path);
}

/*
 * The oid of the schema, name and oid (NULL: does not exist) of a relation name as the caller of the public
 * function means it.
 */
Datum
scd2_caller_relation(PG_FUNCTION_ARGS)
{
	RangeVar   *rv = makeRangeVarFromNameList(textToQualifiedNameList(PG_GETARG_TEXT_PP(0)));
	TupleDesc	desc;
	Datum		values[3];
	bool		nulls[3] = {false};
	Oid			schema;
	Oid			relid;
	NameData	relation_name;
	NameData	schema_name;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (rv->catalogname != NULL)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("cross-database references are not implemented: \"%s.%s.%s\"",
							   rv->catalogname, rv->schemaname, rv->relname)));
	schema = rv->schemaname != NULL ? get_namespace_oid(rv->schemaname, false) : find_along_path(rv->relname);
	relid = get_relname_relid(rv->relname, schema);
	namestrcpy(&relation_name, rv->relname);
	values[0] = ObjectIdGetDatum(schema);
	if (TupleDescAttr(desc, 0)->atttypid == NAMEOID)	/* version 0.1.0, not updated yet */
	{
		namestrcpy(&schema_name, get_namespace_name(schema));
		values[0] = NameGetDatum(&schema_name);
	}
	values[1] = NameGetDatum(&relation_name);
	values[2] = ObjectIdGetDatum(relid);
	nulls[2] = !OidIsValid(relid);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

static void
not_an_expression(const char *argument)
{
	ereport(ERROR, (errcode(ERRCODE_SYNTAX_ERROR),
					errmsg("%s is not an expression", argument),
					errhint("Give one SQL expression over the columns of the source.")));
}

/*
 * The parse tree of one expression; raises 42601 for anything else.
 */
Node *
scd2_parse_expression(const char *expression, const char *argument)
{
	List	   *trees = raw_parser(expression, RAW_PARSE_PLPGSQL_EXPR);
	SelectStmt *select;
	ResTarget  *result;

	if (list_length(trees) != 1)
		not_an_expression(argument);
	select = (SelectStmt *) linitial_node(RawStmt, trees)->stmt;
	if (!IsA(select, SelectStmt) || list_length(select->targetList) != 1 ||
		select->distinctClause || select->intoClause || select->fromClause || select->whereClause || select->groupClause ||
		select->havingClause || select->windowClause || select->valuesLists || select->sortClause ||
		select->limitOffset || select->limitCount || select->lockingClause || select->withClause || select->op != SETOP_NONE)
		not_an_expression(argument);
	result = linitial_node(ResTarget, select->targetList);
	if (result->name != NULL || result->indirection != NIL)
		not_an_expression(argument);
	return result->val;
}

static void
check_nature(ParseState *pstate, Node *expr, const char *argument)
{
	if (pstate->p_hasAggs || pstate->p_hasWindowFuncs || pstate->p_hasSubLinks || expression_returns_set(expr))
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("%s must not use aggregates, window functions, subqueries or sets", argument),
						errdetail("It is evaluated for each row by itself.")));
	if (contain_volatile_functions(expr))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("%s must not use volatile functions", argument),
						errdetail("The result of a flow depends on its events alone, and it must not write.")));
}

/* Positions are in the expression, not in the statement that checks it. */
static void
position_in_expression(void *expression)
{
	int			position = geterrposition();

	if (position <= 0)
		return;
	errposition(0);
	internalerrposition(position);
	internalerrquery(expression);
}

/*
 * The expression over the columns of the relation, made explicit to type "wanted" (InvalidOid:
 * whatever it is). Parses as the role that will evaluate it, for to read a literal can run the check
 * of a user's domain; and under the current search_path, which in twins is pg_catalog, as when the
 * worker evaluates it.
 */
static Node *
transform(char *expression, Relation rel, Oid wanted, const char *argument, Oid role)
{
	ParseState *pstate = make_parsestate(NULL);
	ParseNamespaceItem *item;
	Node	   *expr;
	Node	   *coerced;
	Scd2Identity self;
	ErrorContextCallback context = {error_context_stack, position_in_expression, expression};

	error_context_stack = &context;
	scd2_become(role, &self);
	pstate->p_sourcetext = expression;
	item = addRangeTableEntryForRelation(pstate, rel, AccessShareLock, NULL, false, true);
	addNSItemToQuery(pstate, item, false, true, true);
	expr = transformExpr(pstate, scd2_parse_expression(expression, argument), EXPR_KIND_SELECT_TARGET);
	if (!OidIsValid(wanted))
		wanted = getBaseType(exprType(expr));
	coerced = coerce_to_target_type(pstate, expr, exprType(expr), wanted, -1, COERCION_ASSIGNMENT, COERCE_EXPLICIT_CAST, -1);
	if (coerced == NULL)
		ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
						errmsg("%s is of type %s instead of %s", argument, format_type_be(exprType(expr)), format_type_be(wanted))));
	assign_expr_collations(pstate, coerced);
	check_nature(pstate, coerced, argument);
	scd2_become_self_again(&self);
	error_context_stack = context.previous;
	return coerced;
}

Datum
scd2_check_expression(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(1), AccessShareLock);

	(void) transform(text_to_cstring(PG_GETARG_TEXT_PP(0)), rel, PG_GETARG_OID(2), text_to_cstring(PG_GETARG_TEXT_PP(3)), PG_GETARG_OID(4));
	table_close(rel, NoLock);
	PG_RETURN_VOID();
}

/* scd2_internal.check_immutable(expression text, relation oid, argument text, role oid) */
Datum
scd2_check_immutable(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(1), AccessShareLock);
	char	   *argument = text_to_cstring(PG_GETARG_TEXT_PP(2));

	if (contain_mutable_functions(transform(text_to_cstring(PG_GETARG_TEXT_PP(0)), rel, InvalidOid, argument, PG_GETARG_OID(3))))
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("%s must use immutable functions only", argument),
						errdetail("The target is for several flows: what a snapshot says has to be remembered, and must not depend on when it is asked.")));
	table_close(rel, NoLock);
	PG_RETURN_VOID();
}

/*
 * scd2_internal.check_version_query(query text, role oid): raises unless it is one SELECT with one
 * column, as that role reads it.
 */
Datum
scd2_check_version_query(PG_FUNCTION_ARGS)
{
	char	   *query = text_to_cstring(PG_GETARG_TEXT_PP(0));
	Scd2Identity self;
	SPIPlanPtr	plan;
	CachedPlanSource *source = NULL;
	Query	   *parsed = NULL;

	scd2_become(PG_GETARG_OID(1), &self);
	SPI_connect();
	plan = SPI_prepare(query, 0, NULL);
	if (plan != NULL && list_length(SPI_plan_get_plan_sources(plan)) == 1)
		source = linitial(SPI_plan_get_plan_sources(plan));
	if (source != NULL && list_length(source->query_list) == 1)
		parsed = linitial_node(Query, source->query_list);
	if (parsed == NULL || parsed->commandType != CMD_SELECT || parsed->hasModifyingCTE || parsed->rowMarks != NIL ||
		source->resultDesc == NULL || source->resultDesc->natts != 1)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("version_query is not a query of one column"),
						errhint("Give one SELECT that returns the version of the snapshot.")));
	SPI_finish();
	scd2_become_self_again(&self);
	PG_RETURN_VOID();
}

/*
 * A name[] of the columns of the relation that an expression uses; one that takes the row as a
 * whole uses all.
 */
static Datum
columns_used(Node *expr, Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Bitmapset  *used = NULL;
	Datum	   *names = palloc(desc->natts * sizeof(Datum));
	int			n = 0;

	pull_varattnos(expr, 1, &used);
	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped &&
			(bms_is_member(i + 1 - FirstLowInvalidHeapAttributeNumber, used) ||
			 bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, used)))
			names[n++] = NameGetDatum(&TupleDescAttr(desc, i)->attname);
	return PointerGetDatum(construct_array(names, n, NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR));
}

Datum
scd2_expression_columns(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(1), AccessShareLock);
	Node	   *expr = transform(text_to_cstring(PG_GETARG_TEXT_PP(0)), rel, InvalidOid, text_to_cstring(PG_GETARG_TEXT_PP(2)), PG_GETARG_OID(3));
	Datum		columns = columns_used(expr, rel);

	table_close(rel, NoLock);
	PG_RETURN_DATUM(columns);
}

/*
 * Type, collation and columns of an expression that orders events.
 */
Datum
scd2_sequence_expression(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(1), AccessShareLock);
	char	   *argument = text_to_cstring(PG_GETARG_TEXT_PP(2));
	Node	   *expr = transform(text_to_cstring(PG_GETARG_TEXT_PP(0)), rel, InvalidOid, argument, PG_GETARG_OID(3));
	Oid			type = exprType(expr);
	TupleDesc	desc;
	Datum		values[3];
	bool		nulls[3] = {false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (type == UNKNOWNOID || type == RECORDOID || !OidIsValid(lookup_type_cache(type, TYPECACHE_CMP_PROC)->cmp_proc))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_FUNCTION),
						errmsg("%s is of type %s, which has no order", argument, format_type_be(type)),
						errhint("Cast it to a type with a btree operator class.")));
	values[0] = ObjectIdGetDatum(type);
	values[1] = ObjectIdGetDatum(exprCollation(expr));
	values[2] = columns_used(expr, rel);
	table_close(rel, NoLock);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}

static bool
note_owner(Oid function, void *owners)
{
	HeapTuple	tuple;

	if (function < FirstNormalObjectId)
		return false;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (HeapTupleIsValid(tuple))
	{
		*(List **) owners = list_append_unique_oid(*(List **) owners, ((Form_pg_proc) GETSTRUCT(tuple))->proowner);
		ReleaseSysCache(tuple);
	}
	return false;
}

/* Functions, also behind operators and casts; the checks of domains are their types' owners'. */
static bool
collect_owners(Node *node, void *owners)
{
	if (node == NULL)
		return false;
	if (IsA(node, CoerceToDomain) && ((CoerceToDomain *) node)->resulttype >= FirstNormalObjectId)
	{
		HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(((CoerceToDomain *) node)->resulttype));

		if (HeapTupleIsValid(tuple))
		{
			*(List **) owners = list_append_unique_oid(*(List **) owners, ((Form_pg_type) GETSTRUCT(tuple))->typowner);
			ReleaseSysCache(tuple);
		}
	}
	(void) check_functions_in_node(node, note_owner, owners);
	return expression_tree_walker(node, collect_owners, owners);
}

/* scd2_internal.expression_owners(expression text, relation oid, role oid): NULL if there are none. */
Datum
scd2_expression_owners(PG_FUNCTION_ARGS)
{
	Relation	rel = table_open(PG_GETARG_OID(1), AccessShareLock);
	List	   *owners = NIL;
	ListCell   *cell;
	Datum	   *elements;
	int			n = 0;

	(void) collect_owners(transform(text_to_cstring(PG_GETARG_TEXT_PP(0)), rel, InvalidOid, "expression", PG_GETARG_OID(2)), &owners);
	table_close(rel, NoLock);
	if (owners == NIL)
		PG_RETURN_NULL();
	elements = palloc(list_length(owners) * sizeof(Datum));
	foreach(cell, owners)
		elements[n++] = ObjectIdGetDatum(lfirst_oid(cell));
	PG_RETURN_ARRAYTYPE_P(construct_array(elements, n, OIDOID, sizeof(Oid), true, TYPALIGN_INT));
}

static Oid
flow_catalog(void)
{
	static Oid	catalog = InvalidOid;

	if (!OidIsValid(catalog) || get_rel_name(catalog) == NULL)
		catalog = get_relname_relid("flow", get_namespace_oid(SCD2_INTERNAL, false));
	return catalog;
}

/*
 * The lock under which a worker has a flow: no row of a catalog is locked for it, so nobody's
 * snapshot or vacuum is in its way.
 */
void
scd2_flow_locktag(LOCKTAG *tag, int flow_id)
{
	SET_LOCKTAG_OBJECT(*tag, MyDatabaseId, flow_catalog(), flow_id, 0);
}

/*
 * The lock under which a worker writes into a target that several flows have.
 */
void
scd2_target_locktag(LOCKTAG *tag, Oid target)
{
	SET_LOCKTAG_OBJECT(*tag, MyDatabaseId, flow_catalog(), target, 1);
}

/*
 * The lock under which a worker repairs a feed.
 */
void
scd2_repair_locktag(LOCKTAG *tag, int feed_id)
{
	SET_LOCKTAG_OBJECT(*tag, MyDatabaseId, flow_catalog(), feed_id, 2);
}

static char *
flow_name(int flow_id)
{
	Oid			types[] = {INT4OID};
	Datum		args[] = {Int32GetDatum(flow_id)};
	char	   *name;

	SPI_connect();
	if (SPI_execute_with_args("SELECT name FROM scd2_internal.flow WHERE flow_id = $1", 1, types, args, NULL, true, 1) != SPI_OK_SELECT ||
		SPI_processed != 1)
		elog(ERROR, "flow %d does not exist", flow_id);
	name = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	name = strcpy(SPI_palloc(strlen(name) + 1), name);
	SPI_finish();
	return name;
}

/*
 * scd2_internal.take_name(kind text, name name, waits boolean): nobody else gives a flow or a reader
 * this name until the transaction ends. false: somebody just does. (To wait for that at the index
 * would have no bound, and by then tables are locked.)
 */
Datum
scd2_take_name(PG_FUNCTION_ARGS)
{
	bool		of_flow = strcmp(text_to_cstring(PG_GETARG_TEXT_PP(0)), "flow") == 0;
	char	   *name = NameStr(*PG_GETARG_NAME(1));
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), PG_GETARG_BOOL(2) ? scd2_lock_timeout : 0);
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, flow_catalog(), DatumGetUInt32(hash_any((unsigned char *) name, strlen(name))), of_flow ? 3 : 4);
	while (LockAcquire(&tag, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
	{
		if (GetCurrentTimestamp() >= deadline)
			PG_RETURN_BOOL(false);
		CHECK_FOR_INTERRUPTS();
		pg_usleep(10000);
	}
	PG_RETURN_BOOL(true);
}

/* Tried again and again, so that an error can say what it is that takes so long. */
static void
acquire(const LOCKTAG *tag, const char *what)
{
	TimestampTz deadline = GetCurrentTimestamp() + scd2_lock_timeout * INT64CONST(1000);

	while (LockAcquire(tag, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
	{
		if (GetCurrentTimestamp() > deadline)
			ereport(ERROR, (errcode(ERRCODE_LOCK_NOT_AVAILABLE),
							errmsg("%s is at work: its first copy or a batch has not ended within %d ms", what, scd2_lock_timeout),
							errhint("SET pg_scd2.lock_timeout = '5min'; -- scd2.progress shows how far it is")));
		CHECK_FOR_INTERRUPTS();
		pg_usleep(10000);
	}
}

/*
 * What a batch or a snapshot runs (triggers, views) must not drop its flow, or set it back: the lock
 * does not tell, for it is the same transaction's.
 */
static void
check_not_at_work(int flow_id)
{
	for (Scd2AtWork *work = scd2_at_work; work != NULL; work = work->outer)
		if (work->flow_id == flow_id)
			ereport(ERROR, (errcode(ERRCODE_OBJECT_IN_USE),
							errmsg("flow \"%s\" is at work in this transaction", flow_name(flow_id)),
							errdetail("What is called here is part of that.")));
}

/* scd2_internal.lock_flow(flow_id integer) */
Datum
scd2_lock_flow(PG_FUNCTION_ARGS)
{
	LOCKTAG		tag;

	check_not_at_work(PG_GETARG_INT32(0));
	scd2_flow_locktag(&tag, PG_GETARG_INT32(0));
	acquire(&tag, "the flow");
	PG_RETURN_VOID();
}

/* scd2_internal.lock_target(target oid) */
Datum
scd2_lock_target(PG_FUNCTION_ARGS)
{
	LOCKTAG		tag;

	scd2_target_locktag(&tag, PG_GETARG_OID(0));
	acquire(&tag, "another flow into the target");
	PG_RETURN_VOID();
}
