/*
 * leaves.c
 *		Constraints that are known to hold.
 *
 * ALTER TABLE … ATTACH PARTITION reads the whole table under an ACCESS EXCLUSIVE lock, unless a
 * valid constraint says what it would look for; and to add one, ALTER TABLE reads the whole table
 * too. cut_feed() (32_feed_leaves.sql) knows it from an index, so the constraint is added here by
 * the function that ALTER TABLE and CREATE TABLE use for it, without the reading.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/heap.h"
#include "catalog/pg_constraint.h"
#include "nodes/makefuncs.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "compat.h"

#define VERSION_COLUMN "_commit_version"

PG_FUNCTION_INFO_V1(scd2_add_proven_check);

/* "_commit_version operator version". */
static Node *
comparison(const char *operator, int64 version)
{
	ColumnRef  *column = makeNode(ColumnRef);
	A_Const    *constant = makeNode(A_Const);
	TypeCast   *cast = makeNode(TypeCast);

	column->fields = list_make1(makeString(VERSION_COLUMN));
	column->location = -1;
	constant->val.sval.type = T_String;
	constant->val.sval.sval = psprintf(INT64_FORMAT, version);
	constant->location = -1;
	cast->arg = (Node *) constant;
	cast->typeName = SystemTypeName("int8");
	cast->location = -1;
	return (Node *) makeSimpleA_Expr(AEXPR_OP, pstrdup(operator), (Node *) column, (Node *) cast, -1);
}

/*
 * scd2_internal.add_proven_check(leaf oid, first_version bigint, bound bigint): the caller holds an
 * ACCESS EXCLUSIVE lock.
 */
Datum
scd2_add_proven_check(PG_FUNCTION_ARGS)
{
	Relation	leaf = table_open(PG_GETARG_OID(0), AccessExclusiveLock);
	Constraint *check = makeNode(Constraint);
	char	   *name = ChooseConstraintName(RelationGetRelationName(leaf), VERSION_COLUMN, "check",
											RelationGetNamespace(leaf), NIL);

	check->contype = CONSTR_CHECK;
	check->conname = name;
	check->location = -1;
	check->raw_expr = comparison("<", PG_GETARG_INT64(2));
	if (!PG_ARGISNULL(1))
		check->raw_expr = (Node *) makeBoolExpr(AND_EXPR, list_make2(comparison(">=", PG_GETARG_INT64(1)), check->raw_expr), -1);
	scd2_constraint_holds(check);
	(void) AddRelationNewConstraints(leaf, NIL, list_make1(check), false, true, true, NULL);
	table_close(leaf, NoLock);
	CommandCounterIncrement();
	PG_RETURN_DATUM(DirectFunctionCall1(namein, CStringGetDatum(name)));
}
