/*
 * compare.c
 *		What a snapshot has that its target has not, and the other way round.
 *
 * One full join of the source with the rows of the target that were valid just before the
 * snapshot's version reads each of them once. All joined rows come here, where the images are
 * compared, which is cheaper than to have the executor build records for it; what differs is kept,
 * sorted by key. With a million rows and one per cent of changes the join is nearly all the work.
 *
 * Where the target remembers (other flows write into it too), the rows do not show everything. A
 * key that has an event at exactly the version needs the snapshot's own beside it; and the row that
 * covers the version can have values of a later upsert of its run. Such keys come from the target
 * and its memory by a second join; they are few unless the snapshot is late.
 *
 * A key that is NULL or out of scope is seen as it comes. A key that occurs twice is seen among the
 * differences, where it lies beside itself; but not if one of the two rows is as the target has it.
 * Then the join has more pairs than the target has rows: unless a unique index guards the source,
 * they are counted.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "tcop/dest.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "believed.h"
#include "flow/compare.h"
#include "flow/relations.h"
#include "flow/sort.h"
#include "flow/sqltext.h"
#include "flow/statements.h"

typedef struct CompareReceiver
{
	DestReceiver pub;
	Scd2Comparison *comparison;
	Scd2Flow   *flow;
	TupleTableSlot *difference;

	/*
	 * Columns of the join: those of the flow in the source, in the target, then the keys that take
	 * a closer look, and whether the row is in scope. (No more: what no row needs costs with a
	 * million of them. A key that is not NULL says that there is a row.)
	 */
	int			target;
	int			looks;			/* 0: none */
	int			inside;			/* 0: there is no scope */
} CompareReceiver;

/* ---- the join ---- */

static bool
remembers(Scd2Flow *flow)
{
	return OidIsValid(flow->memory);
}

/* A key can be found again by the order of its type alone: "closer looks" are for histories. */
static bool
needs_looks(Scd2Flow *flow)
{
	return remembers(flow) && flow->scd_type == 2;
}

static void
append_scope(StringInfo sql, Scd2Flow *flow, const char *before, const char *after)
{
	if (flow->scope != NULL)
		scd2_sql(sql, "%s(%s\n)::boolean%s", before, flow->scope, after);
}

/* Names for the columns of a subquery: c1, c2 … */
static void
append_names(StringInfo sql, Scd2Flow *flow)
{
	for (int i = 0; i < flow->shape.ncolumns; i++)
		scd2_sql(sql, "%sc%d", i > 0 ? ", " : "", i + 1);
}

static void
append_source(StringInfo sql, Scd2Flow *flow)
{
	scd2_sql(sql, "(SELECT ");
	for (int i = 0; i < flow->shape.ncolumns; i++)
	{
		if (flow->absent[i])
			scd2_sql(sql, "NULL::%s, ", scd2_type_sql(TupleDescAttr(flow->store_desc[SCD2_INSERTS], i)->atttypid));
		else
			scd2_sql(sql, "%I.%I, ", flow->source_alias, flow->columns[i]);
	}
	scd2_sql(sql, "true");
	append_scope(sql, flow, " AND COALESCE(", ", false)");
	scd2_sql(sql, " FROM %s%s AS %I) AS s (", flow->source_partitioned ? "" : "ONLY ", flow->source_sql, flow->source_alias);
	append_names(sql, flow);
	scd2_sql(sql, ", inside)");
}

/* The rows that were valid just before $1. */
static void
append_valid(StringInfo sql, Scd2Flow *flow)
{
	char	   *start;
	char	   *end;

	scd2_sql(sql, " FROM ONLY %s AS %I WHERE true", flow->target_sql, flow->source_alias);
	append_scope(sql, flow, " AND ", "");
	if (flow->scd_type == 1)
		return;
	start = psprintf("%s.%s", quote_identifier(flow->source_alias), quote_identifier(flow->start_column));
	end = psprintf("%s.%s", quote_identifier(flow->source_alias), quote_identifier(flow->end_column));
	if (!remembers(flow))
	{
		scd2_sql(sql, " AND %s IS NULL", end);
		return;
	}
	scd2_sql(sql, " AND ");
	scd2_append_comparison(sql, start, scd2_sequence_operator(flow, BTLessStrategyNumber), "$1");
	scd2_sql(sql, " AND (%s IS NULL OR ", end);
	scd2_append_comparison(sql, end, scd2_sequence_operator(flow, BTGreaterEqualStrategyNumber), "$1");
	scd2_sql(sql, ")");
}

static void
append_target(StringInfo sql, Scd2Flow *flow)
{
	for (int i = 0; i < flow->shape.ncolumns; i++)
		scd2_sql(sql, "%s%I.%I", i > 0 ? ", " : "(SELECT ", flow->source_alias, flow->columns[i]);
	append_valid(sql, flow);
	scd2_sql(sql, ") AS t (");
	append_names(sql, flow);
	scd2_sql(sql, ")");
}

static void
append_keys(StringInfo sql, Scd2Flow *flow)
{
	for (int k = 0; k < flow->nkeys; k++)
		scd2_sql(sql, "%s%I.%I", k > 0 ? ", " : "", flow->source_alias, flow->columns[flow->keys[k]]);
}

/* The keys that have an event at $1, or, in memory, above it. */
static void
append_looks(StringInfo sql, Scd2Flow *flow)
{
	char	   *start = psprintf("%s.%s", quote_identifier(flow->source_alias), quote_identifier(flow->start_column));

	scd2_sql(sql, "(SELECT DISTINCT ");
	append_keys(sql, flow);
	scd2_sql(sql, " FROM (SELECT ");
	append_keys(sql, flow);
	scd2_sql(sql, " FROM ONLY %s AS %I WHERE ", flow->target_sql, flow->source_alias);
	scd2_append_comparison(sql, start, scd2_sequence_operator(flow, BTEqualStrategyNumber), "$1");
	scd2_sql(sql, " UNION ALL SELECT ");
	append_keys(sql, flow);
	scd2_sql(sql, " FROM ONLY %s AS %I WHERE ", flow->memory_sql, flow->source_alias);
	scd2_append_comparison(sql, psprintf("%s._sequence", quote_identifier(flow->source_alias)), scd2_sequence_operator(flow, BTGreaterEqualStrategyNumber), "$1");
	scd2_sql(sql, ") AS %I WHERE true", flow->source_alias);
	append_scope(sql, flow, " AND ", "");
	scd2_sql(sql, ") AS e (");
	for (int k = 0; k < flow->nkeys; k++)
		scd2_sql(sql, "%sk%d", k > 0 ? ", " : "", k + 1);
	scd2_sql(sql, ")");
}

static char *
join_sql(Scd2Flow *flow)
{
	StringInfoData sql;

	initStringInfo(&sql);
	for (int i = 0; i < flow->shape.ncolumns; i++)
		scd2_sql(&sql, "%s s.c%d", i > 0 ? "," : "SELECT", i + 1);
	for (int i = 0; i < flow->shape.ncolumns; i++)
		scd2_sql(&sql, ", t.c%d", i + 1);
	for (int k = 0; k < flow->nkeys && needs_looks(flow); k++)
		scd2_sql(&sql, ", e.k%d", k + 1);
	if (flow->scope != NULL)
		scd2_sql(&sql, ", s.inside");
	scd2_sql(&sql, " FROM ");
	append_source(&sql, flow);
	scd2_sql(&sql, " FULL JOIN ");
	append_target(&sql, flow);
	for (int k = 0; k < flow->nkeys; k++)
	{
		scd2_sql(&sql, k == 0 ? " ON " : " AND ");
		scd2_append_comparison(&sql, psprintf("s.c%d", flow->keys[k] + 1), flow->key_operator[k], psprintf("t.c%d", flow->keys[k] + 1));
	}
	if (!needs_looks(flow))
		return sql.data;
	scd2_sql(&sql, " FULL JOIN ");
	append_looks(&sql, flow);
	for (int k = 0; k < flow->nkeys; k++)
	{
		int			c = flow->keys[k] + 1;

		scd2_sql(&sql, k == 0 ? " ON " : " AND ");
		scd2_append_comparison(&sql, psprintf("COALESCE(s.c%d, t.c%d)", c, c), flow->key_operator[k], psprintf("e.k%d", k + 1));
	}
	return sql.data;
}

/*
 * Runs a query with the version as $1, under the active snapshot; rows go to "dest", or (NULL) stay
 * in SPI's table.
 */
static void
run_query(Scd2Comparison *comparison, const char *sql, DestReceiver *dest)
{
	Oid			types[] = {comparison->work->flow->sequence_type};
	Datum		args[] = {comparison->version};
	SPIPlanPtr	plan = SPI_prepare(sql, 1, types);
	SPIExecuteOptions options = {.read_only = true, .dest = dest};
	int			result;

	if (plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", sql, SPI_result_code_string(SPI_result));
	options.params = scd2_params(plan, 1, args);
	result = SPI_execute_plan_extended(plan, &options);
	if (result < 0)
		elog(ERROR, "comparing a snapshot failed: %s", SPI_result_code_string(result));
	SPI_freeplan(plan);
}

/* ---- its rows ---- */

/*
 * A key as text, for messages. "columns": all of the flow's.
 */
char *
scd2_key_text(Scd2Flow *flow, const Datum *columns, const bool *isnull)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int k = 0; k < flow->nkeys; k++)
	{
		int			c = flow->keys[k];
		Oid			output;
		bool		varlena;

		getTypeOutputInfo(TupleDescAttr(flow->store_desc[SCD2_INSERTS], c)->atttypid, &output, &varlena);
		appendStringInfo(&text, "%s%s", k > 0 ? ", " : "", isnull[c] ? "NULL" : OidOutputFunctionCall(output, columns[c]));
	}
	return text.data;
}

static void
check_row(CompareReceiver *r, TupleTableSlot *slot)
{
	Scd2Flow   *flow = r->flow;

	for (int k = 0; k < flow->nkeys; k++)
		if (slot->tts_isnull[flow->keys[k]])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
							errmsg("a row of the snapshot of flow \"%s\" has a NULL in its key", flow->name),
							errdetail("Its key is (%s).", scd2_key_text(flow, slot->tts_values, slot->tts_isnull))));
	if (r->inside > 0 && !DatumGetBool(slot->tts_values[r->inside]))
		ereport(ERROR, (errcode(ERRCODE_DATA_EXCEPTION),
						errmsg("a row of the snapshot of flow \"%s\" is out of its scope", flow->name),
						errdetail("Its key is (%s), the scope %s.", scd2_key_text(flow, slot->tts_values, slot->tts_isnull), flow->scope)));
}

/* From the source's side of the join, or, of a key that it lacks, from one of the others. */
static void
put_difference(CompareReceiver *r, TupleTableSlot *slot, bool here, bool there, bool look)
{
	Scd2Flow   *flow = r->flow;
	int			n = flow->shape.ncolumns;
	Datum	   *values = r->difference->tts_values;
	bool	   *nulls = r->difference->tts_isnull;

	ExecClearTuple(r->difference);
	memcpy(values, slot->tts_values, n * sizeof(Datum));
	memcpy(nulls, slot->tts_isnull, n * sizeof(bool));
	for (int k = 0; k < flow->nkeys && !here; k++)
	{
		int			from = there ? r->target + flow->keys[k] : r->looks + k;

		values[flow->keys[k]] = slot->tts_values[from];
		nulls[flow->keys[k]] = false;
	}
	values[n + SCD2_DIFFERENCE_HERE] = BoolGetDatum(here);
	values[n + SCD2_DIFFERENCE_THERE] = BoolGetDatum(there);
	values[n + SCD2_DIFFERENCE_LOOK] = BoolGetDatum(look);
	memset(nulls + n, false, SCD2_DIFFERENCE_END * sizeof(bool));
	ExecStoreVirtualTuple(r->difference);
	tuplesort_puttupleslot(r->comparison->differences, r->difference);
}

static bool
receive(TupleTableSlot *slot, DestReceiver *self)
{
	CompareReceiver *r = (CompareReceiver *) self;
	Scd2Comparison *comparison = r->comparison;
	int			key = r->flow->keys[0];
	bool		here;
	bool		there;
	bool		look;
	Scd2Image	source;

	slot_getallattrs(slot);
	there = !slot->tts_isnull[r->target + key];
	look = r->looks > 0 && !slot->tts_isnull[r->looks];
	here = !slot->tts_isnull[key] || !(there || look);	/* (the latter has a NULL in its key) */
	if (here)
		check_row(r, slot);
	comparison->rows += here;
	comparison->both += here && there;
	comparison->absent += there && !here;
	source.values = slot->tts_values;
	source.isnull = slot->tts_isnull;
	if (!comparison->everything && !look && here && there &&
		scd2_image_equal(&r->flow->shape, &source, slot->tts_values + r->target, slot->tts_isnull + r->target))
		comparison->unchanged++;
	else if (here || r->flow->delete_absent)
		put_difference(r, slot, here, there, look && here && there);
	return true;
}

/* The plan reads the columns as they are now. */
static void
startup(DestReceiver *self, int operation, TupleDesc desc)
{
	CompareReceiver *r = (CompareReceiver *) self;
	Scd2Flow   *flow = r->flow;
	int			n = flow->shape.ncolumns;
	Oid		   *types = palloc((n + flow->nkeys + 1) * sizeof(Oid));
	int			nafter = n;

	for (int i = 0; i < n; i++)
		types[i] = TupleDescAttr(flow->store_desc[SCD2_INSERTS], i)->atttypid;
	for (int k = 0; k < flow->nkeys && r->looks > 0; k++)
		types[nafter++] = types[flow->keys[k]];
	if (r->inside > 0)
		types[nafter++] = BOOLOID;
	scd2_check_columns_read(flow, desc, 0, NULL, nafter, types);
}

static void
shutdown_receiver(DestReceiver *self)
{
}

static void
begin_sort(CompareReceiver *r)
{
	static const char *const names[] = {"here", "there", "look"};
	Scd2Comparison *comparison = r->comparison;
	Scd2Flow   *flow = r->flow;
	int			n = flow->shape.ncolumns;
	TupleDesc	desc = CreateTemplateTupleDesc(n + SCD2_DIFFERENCE_END);

	for (int i = 0; i < n; i++)
		TupleDescCopyEntry(desc, i + 1, flow->store_desc[SCD2_INSERTS], i + 1);
	for (int i = 0; i < SCD2_DIFFERENCE_END; i++)
		TupleDescInitEntry(desc, n + 1 + i, names[i], BOOLOID, -1, 0);
	comparison->desc = desc;
	comparison->differences = scd2_sort_by_key(flow, desc, 0, 0, NULL, TUPLESORT_RANDOMACCESS);
	r->difference = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
}

/* ---- keys that occur twice ---- */

static int64
count_valid(Scd2Comparison *comparison)
{
	StringInfoData sql;
	bool		isnull;

	initStringInfo(&sql);
	scd2_sql(&sql, "SELECT count(*)");
	append_valid(&sql, comparison->work->flow);
	scd2_sql(&sql, " AND $1 IS NOT NULL");
	run_query(comparison, sql.data, NULL);
	return DatumGetInt64(scd2_result_value(0, 1, INT8OID, &isnull));
}

/* There is one: which? (A source that is another each time it is read may not tell.) */
static char *
find_duplicate(Scd2Comparison *comparison)
{
	Scd2Flow   *flow = comparison->work->flow;
	StringInfoData sql;
	StringInfoData key;

	initStringInfo(&sql);
	scd2_sql(&sql, "SELECT ");
	append_keys(&sql, flow);
	scd2_sql(&sql, " FROM %s%s AS %I WHERE $1 IS NOT NULL GROUP BY ", flow->source_partitioned ? "" : "ONLY ", flow->source_sql, flow->source_alias);
	append_keys(&sql, flow);
	scd2_sql(&sql, " HAVING count(*) > 1 ORDER BY ");
	append_keys(&sql, flow);
	scd2_sql(&sql, " LIMIT 1");
	run_query(comparison, sql.data, NULL);
	if (SPI_processed == 0)
		return "?";
	initStringInfo(&key);
	for (int k = 0; k < flow->nkeys; k++)
		appendStringInfo(&key, "%s%s", k > 0 ? ", " : "", SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, k + 1));
	return key.data;
}

static void
raise_duplicate(Scd2Flow *flow, const char *key)
{
	ereport(ERROR, (errcode(ERRCODE_CARDINALITY_VIOLATION),
					errmsg("a key occurs more than once in the snapshot of flow \"%s\"", flow->name),
					errdetail("The key is (%s).", key)));
}

static bool
same_key(Scd2Flow *flow, const Datum *a, const Datum *b)
{
	for (int k = 0; k < flow->nkeys; k++)
	{
		int			c = flow->keys[k];

		if (!datum_image_eq(a[c], b[c], flow->shape.typbyval[c], flow->shape.typlen[c]) &&
			DatumGetInt32(FunctionCall2Coll(&flow->key_compare[k], flow->key_collation[k], a[c], b[c])) != 0)
			return false;
	}
	return true;
}

/* Goes through the differences once. */
static void
check_differences(Scd2Comparison *comparison)
{
	Scd2Flow   *flow = comparison->work->flow;
	TupleTableSlot *slots[] = {
		MakeSingleTupleTableSlot(comparison->desc, &TTSOpsMinimalTuple),
		MakeSingleTupleTableSlot(comparison->desc, &TTSOpsMinimalTuple)
	};
	int			at = 0;

	while (tuplesort_gettupleslot(comparison->differences, true, true, slots[at], NULL))
	{
		TupleTableSlot *before = slots[1 - at];

		slot_getallattrs(slots[at]);
		if (!TTS_EMPTY(before) && same_key(flow, before->tts_values, slots[at]->tts_values))
			raise_duplicate(flow, scd2_key_text(flow, slots[at]->tts_values, slots[at]->tts_isnull));
		at = 1 - at;
	}
	ExecDropSingleTupleTableSlot(slots[0]);
	ExecDropSingleTupleTableSlot(slots[1]);
	tuplesort_rescan(comparison->differences);
}

/*
 * Reads the source and compares it with the target as it was just before the version, as the active
 * snapshot sees both. As the target's owner, within SPI. Raises for keys that are NULL, occur more
 * than once or are out of scope.
 */
void
scd2_compare(Scd2Comparison *comparison)
{
	Scd2Flow   *flow = comparison->work->flow;
	CompareReceiver r = {
		.pub = {.receiveSlot = receive, .rStartup = startup, .rShutdown = shutdown_receiver, .rDestroy = shutdown_receiver, .mydest = DestNone},
		.comparison = comparison,
		.flow = flow,
		.target = flow->shape.ncolumns,
		.looks = needs_looks(flow) ? 2 * flow->shape.ncolumns : 0,
		.inside = flow->scope != NULL ? 2 * flow->shape.ncolumns + (needs_looks(flow) ? flow->nkeys : 0) : 0
	};

	begin_sort(&r);
	run_query(comparison, join_sql(flow), &r.pub);
	ExecDropSingleTupleTableSlot(r.difference);
	tuplesort_performsort(comparison->differences);
	if (!flow->all_images)
		return;
	check_differences(comparison);
	if (comparison->both + comparison->absent != count_valid(comparison))
		raise_duplicate(flow, find_duplicate(comparison));
}
