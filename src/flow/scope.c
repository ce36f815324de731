/*
 * scope.c
 *		Of which keys a complete snapshot speaks.
 *
 * A snapshot that is remembered (a mark of the target) says something of the keys for which its
 * scope, an expression over the key columns, is true. Whoever brings late events into the target
 * has to ask it, also when the flow that took the snapshot is long gone; so a mark has its scope
 * with it, with the settings that it was written under. Its functions are immutable
 * (40_flow_check.sql sees to that), so the answer is always the one that was given when the
 * snapshot was taken.
 *
 * Scopes are kept with the flow in work, each once, ready to be evaluated over a row of the target
 * of which nothing but the key is filled in.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "flow/check.h"
#include "flow/scope.h"

typedef struct Scd2Scope
{
	char	   *expression;
	ExprState  *state;
	ExprContext *context;
	TupleTableSlot *row;		/* of the target */
} Scd2Scope;

/* The expression over the target's columns, as the scope is written. */
static Expr *
parse(Relation target, const char *expression, const char *alias)
{
	ParseState *pstate = make_parsestate(NULL);
	ParseNamespaceItem *item;
	Node	   *expr;

	pstate->p_sourcetext = expression;
	item = addRangeTableEntryForRelation(pstate, target, AccessShareLock, makeAlias(alias, NIL), false, true);
	addNSItemToQuery(pstate, item, false, true, true);
	expr = transformExpr(pstate, scd2_parse_expression(expression, "scope"), EXPR_KIND_SELECT_TARGET);
	expr = coerce_to_target_type(pstate, expr, exprType(expr), BOOLOID, -1, COERCION_ASSIGNMENT, COERCE_EXPLICIT_CAST, -1);
	if (expr == NULL)
		elog(ERROR, "scope \"%s\" is not boolean", expression);
	assign_expr_collations(pstate, expr);
	return expression_planner((Expr *) expr);
}

static Scd2Scope *
make_scope(Scd2Flow *flow, const char *expression, const char *alias)
{
	Relation	target = table_open(flow->target, AccessShareLock);
	Scd2Scope  *scope = palloc0(sizeof(Scd2Scope));

	scope->expression = pstrdup(expression);
	scope->state = ExecInitExpr(parse(target, expression, alias), NULL);
	scope->context = CreateStandaloneExprContext();
	scope->row = MakeSingleTupleTableSlot(CreateTupleDescCopy(RelationGetDescr(target)), &TTSOpsVirtual);
	table_close(target, NoLock);
	return scope;
}

/*
 * The place of a scope among those of the flow; made ready if it is new. "alias": what its columns
 * may be qualified with; "settings": "name=value". As the target's owner.
 */
int
scd2_scope_find(Scd2Flow *flow, const char *expression, const char *alias, List *settings)
{
	MemoryContext before;
	int			nest;

	for (int i = 0; i < flow->nscopes; i++)
		if (strcmp(flow->scopes[i]->expression, expression) == 0)
			return i;
	before = MemoryContextSwitchTo(flow->cxt);
	nest = NewGUCNestLevel();
	scd2_use_written_settings(settings);
	flow->scopes = flow->scopes == NULL ? palloc(sizeof(Scd2Scope *)) : repalloc(flow->scopes, (flow->nscopes + 1) * sizeof(Scd2Scope *));
	flow->scopes[flow->nscopes] = make_scope(flow, expression, alias);
	AtEOXact_GUC(true, nest);
	MemoryContextSwitchTo(before);
	return flow->nscopes++;
}

/*
 * Is a key (in the order of the flow's keys) in the scope? As the target's owner.
 */
bool
scd2_scope_has(Scd2Flow *flow, int which, const Datum *key)
{
	Scd2Scope  *scope = flow->scopes[which];
	TupleTableSlot *row = scope->row;
	Datum		answer;
	bool		isnull;

	ExecClearTuple(row);
	memset(row->tts_isnull, true, row->tts_tupleDescriptor->natts * sizeof(bool));
	for (int k = 0; k < flow->nkeys; k++)
	{
		AttrNumber	attnum = flow->attnums[flow->keys[k]];

		row->tts_values[attnum - 1] = key[k];
		row->tts_isnull[attnum - 1] = false;
	}
	ExecStoreVirtualTuple(row);
	scope->context->ecxt_scantuple = row;
	ResetExprContext(scope->context);
	answer = ExecEvalExprSwitchContext(scope->state, scope->context, &isnull);
	return !isnull && DatumGetBool(answer);
}
