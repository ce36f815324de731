/*
 * lateness.c
 *		How late events may be: the horizon of a flow, and what is forgotten below it.
 *
 * A flow's horizon is the highest sequence it has seen less its max_lateness. Which events are
 * below it is a matter of the order in which they arrive, so the statement that reads says of each
 * what the horizon was when it came: whatever the batches are, the same events are too late. (Rows
 * that were there before the flow came all at once: none is too late.) A sequence that is a time counts
 * as seen up to the commit that brought it: a clock that is ahead does not move the horizon.
 *
 * What is remembered below the lowest horizon of the flows into a target can matter no more, and is
 * forgotten now and then, with the marks; of rows that go on over the horizon, what was sent is
 * kept where the row does not show it.
 *
 * So a flow that comes later cannot have its old events mixed with the others': they come behind a
 * mark that says how each key was at the lowest horizon, fill in history before it, and change
 * nothing after it.
 *
 * Highest sequence and horizon are part of the flow's state, in the text form of marks.c. Types
 * that have differences are the server's own (42_flow_arguments.sql), so to read them as anybody is
 * safe.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "believed.h"
#include "flow/lateness.h"
#include "flow/marks.h"
#include "flow/sqltext.h"
#include "flow/statements.h"

/*
 * A memory of so many pages is looked through with every batch that moves the horizon; a larger one
 * once a minute.
 */
#define SMALL_MEMORY	64
#define FORGET_EVERY	60000	/* ms */

static int
compare(Scd2Flow *flow, Datum a, Datum b)
{
	return DatumGetInt32(FunctionCall2Coll(&flow->sequence_compare, flow->sequence_collation, a, b));
}

/*
 * The lowest horizon of the flows into the target; of other ones, where "others". False: one of
 * them has none.
 */
static bool
lowest_horizon(Scd2Flow *flow, bool others, Datum *lowest)
{
	Oid			types[] = {OIDOID, INT4OID, BOOLOID};
	Datum		args[] = {ObjectIdGetDatum(flow->target), Int32GetDatum(flow->flow_id), BoolGetDatum(others)};
	MemoryContext before = CurrentMemoryContext;
	SPITupleTable *table;
	uint64		n;
	bool		found = true;

	if (SPI_execute_with_args("SELECT s.horizon FROM scd2_internal.flow AS f LEFT JOIN scd2_internal.flow_state AS s USING (flow_id)"
							  " WHERE f.target_relid = $1 AND f.kind = 'auto_cdc' AND NOT ($3 AND f.flow_id = $2) AND s.phase IS DISTINCT FROM 'done'",
							  3, types, args, NULL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read horizons");
	table = SPI_tuptable;
	n = SPI_processed;
	MemoryContextSwitchTo(before);
	for (uint64 i = 0; i < n && found; i++)
	{
		char	   *text = SPI_getvalue(table->vals[i], table->tupdesc, 1);
		Datum		horizon;

		found = text != NULL;
		if (!found)
			break;
		horizon = scd2_sequence_value(flow, text);
		if (i == 0 || compare(flow, horizon, *lowest) < 0)
			*lowest = horizon;
	}
	SPI_freetuptable(table);
	return found && n > 0;
}

/*
 * Below what nothing is remembered of the other flows into the target; false if all is. Within SPI,
 * as ourselves, with the target's lock.
 */
bool
scd2_lateness_lowest(Scd2Flow *flow, Datum *lowest)
{
	return lowest_horizon(flow, true, lowest);
}

/*
 * What the flow has seen so far, before a batch. Within SPI, as ourselves; lives in the current
 * memory context.
 */
void
scd2_lateness_load(Scd2Flow *flow)
{
	Scd2Lateness *lateness = &flow->lateness;
	Oid			types[] = {INT4OID};
	Datum		args[] = {Int32GetDatum(flow->flow_id)};
	MemoryContext before = CurrentMemoryContext;
	char	   *highest;
	char	   *horizon;

	if (SPI_execute_with_args("SELECT highest, horizon FROM scd2_internal.flow_state WHERE flow_id = $1", 1, types, args, NULL, true, 1) != SPI_OK_SELECT ||
		SPI_processed != 1)
		elog(ERROR, "state of flow %d is gone", flow->flow_id);
	highest = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	horizon = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2);
	MemoryContextSwitchTo(before);
	memset(lateness, 0, offsetof(Scd2Lateness, forgotten));
	lateness->has_highest = highest != NULL;
	if (highest != NULL)
		lateness->highest = scd2_sequence_value(flow, highest);
	lateness->has_horizon = horizon != NULL;
	if (horizon != NULL)
		lateness->horizon = scd2_sequence_value(flow, horizon);
	lateness->has_lowest = lowest_horizon(flow, false, &lateness->lowest);
}

/*
 * A flow begins and has seen nothing. "joins": it comes to other flows; if those have a horizon,
 * puts the mark there. Within SPI, as ourselves, with the target's lock; scd2_lateness_joined()
 * does the rest, as the owner.
 */
void
scd2_lateness_begin(Scd2Flow *flow, bool joins)
{
	Scd2Lateness *lateness = &flow->lateness;

	memset(lateness, 0, offsetof(Scd2Lateness, forgotten));
	lateness->joins = joins && lowest_horizon(flow, true, &lateness->lowest);
	if (lateness->joins)
		scd2_record_horizon(flow, lateness->lowest);
}

/* Runs a statement over whole tables. */
static void
run(Scd2Flow *flow, Scd2Statement which, Datum sequence)
{
	int			nest = NewGUCNestLevel();

	(void) set_config_option("enable_seqscan", "on", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	(void) set_config_option("enable_hashjoin", "on", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	if (SPI_execute_plan(scd2_flow_plan(flow, which), &sequence, NULL, false, 0) < 0)
		elog(ERROR, "writing the memory failed");
	AtEOXact_GUC(true, nest);
}

/*
 * Remembers the deletes that end rows at the horizon, which the mark would hide (timeline.h).
 */
void
scd2_lateness_joined(Scd2Work *work)
{
	if (!work->flow->lateness.joins || work->flow->scd_type == 1)
		return;
	run(work->flow, SCD2_REMEMBER_ENDS, work->flow->lateness.lowest);
	CommandCounterIncrement();
}

/*
 * The horizon is raised by hand, and rows that ended before it will go: forgets what is below it,
 * and remembers the deletes that end rows there, as a flow does that joins.
 */
void
scd2_lateness_purge(Scd2Work *work, Datum before)
{
	if (work->flow->shape.ignores_null != NULL)
		run(work->flow, SCD2_COMPLETE, before);
	CommandCounterIncrement();
	run(work->flow, SCD2_FORGET, before);
	CommandCounterIncrement();
	run(work->flow, SCD2_REMEMBER_ENDS, before);
	CommandCounterIncrement();
}

/*
 * Looks at an event: false if it is too late. Else the highest sequence seen may move. (The end of
 * a row is as late as its beginning.)
 */
bool
scd2_lateness_see(Scd2Work *work, TupleTableSlot *slot)
{
	Scd2Flow   *flow = work->flow;
	Scd2Lateness *lateness = &flow->lateness;
	bool		is_end = DatumGetBool(slot->tts_values[SCD2_ARRIVAL_IS_END]);
	Datum		moves = slot->tts_values[SCD2_ARRIVAL_MOVES];
	MemoryContext before;

	if (!slot->tts_isnull[SCD2_ARRIVAL_HORIZON] &&
		compare(flow, slot->tts_values[is_end ? SCD2_ARRIVAL_OTHER_END : SCD2_ARRIVAL_SEQUENCE], slot->tts_values[SCD2_ARRIVAL_HORIZON]) < 0)
		return false;
	if (slot->tts_isnull[SCD2_ARRIVAL_MOVES] || (lateness->has_highest && compare(flow, moves, lateness->highest) <= 0))
		return true;
	before = MemoryContextSwitchTo(work->cxt);
	lateness->highest = datumCopy(moves, flow->sequence_typbyval, flow->sequence_typlen);
	lateness->has_highest = lateness->moved = true;
	MemoryContextSwitchTo(before);
	return true;
}

static Datum
text_of(Scd2Flow *flow, bool has, Datum sequence)
{
	return CStringGetTextDatum(has ? scd2_sequence_text(flow, sequence) : "");
}

/*
 * The last two arguments of statements that read a feed; returns how many there are then.
 */
int
scd2_lateness_args(Scd2Flow *flow, Datum *args, int nargs)
{
	args[nargs] = text_of(flow, flow->lateness.has_highest, flow->lateness.highest);
	args[nargs + 1] = text_of(flow, flow->lateness.has_horizon, flow->lateness.horizon);
	return nargs + 2;
}

/* Where the horizon is now. */
static void
move_horizon(Scd2Work *work)
{
	Scd2Flow   *flow = work->flow;
	Scd2Lateness *lateness = &flow->lateness;
	Datum		args[2];
	bool		isnull;
	MemoryContext before = CurrentMemoryContext;
	Datum		horizon;

	(void) scd2_lateness_args(flow, args, 0);
	if (SPI_execute_plan(scd2_flow_plan(flow, SCD2_HORIZON), args, NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not find the horizon");
	horizon = scd2_result_value(0, 1, flow->sequence_type, &isnull);
	MemoryContextSwitchTo(work->cxt);
	lateness->has_horizon = !isnull;
	if (!isnull)
		lateness->horizon = datumCopy(horizon, flow->sequence_typbyval, flow->sequence_typlen);
	work->highest = scd2_sequence_text(flow, lateness->highest);
	work->horizon = isnull ? NULL : scd2_sequence_text(flow, lateness->horizon);
	MemoryContextSwitchTo(before);
}

static bool
is_time_to_forget(Scd2Flow *flow)
{
	Scd2Lateness *lateness = &flow->lateness;
	Relation	memory;
	bool		small;

	if (!lateness->has_lowest)
		return false;
	memory = table_open(flow->memory, NoLock);
	small = RelationGetNumberOfBlocks(memory) <= SMALL_MEMORY;
	table_close(memory, NoLock);
	return small || lateness->forgotten == 0 || TimestampDifferenceExceeds(lateness->forgotten, GetCurrentTimestamp(), FORGET_EVERY);
}

/*
 * The batch is written: moves the horizon, and forgets what is below the lowest. As the owner.
 */
void
scd2_lateness_finish(Scd2Work *work)
{
	Scd2Flow   *flow = work->flow;
	Scd2Lateness *lateness = &flow->lateness;

	if (flow->max_lateness == NULL || !lateness->moved)
		return;
	move_horizon(work);
	if (!is_time_to_forget(flow))
		return;
	CommandCounterIncrement();
	run(flow, SCD2_FORGET, lateness->lowest);
	lateness->forgets = true;
	lateness->forgotten = GetCurrentTimestamp();
}

/*
 * The marks below it go too. As ourselves.
 */
void
scd2_lateness_forget_marks(Scd2Flow *flow)
{
	StringInfoData sql;
	char	   *type = scd2_type_sql(flow->sequence_type);
	Oid			types[] = {OIDOID, TEXTOID};
	Datum		args[2];

	if (flow->max_lateness == NULL || !flow->lateness.forgets)
		return;
	args[0] = ObjectIdGetDatum(flow->target);
	args[1] = text_of(flow, true, flow->lateness.lowest);
	initStringInfo(&sql);
	scd2_sql(&sql, "DELETE FROM scd2_internal.mark WHERE target_relid = $1 AND sequence::%s < $2::%s", type, type);
	if (SPI_execute_with_args(sql.data, 2, types, args, NULL, false, 0) != SPI_OK_DELETE)
		elog(ERROR, "could not forget marks");
}

/* ---- SQL ---- */

/*
 * The sequence that an event counts for, if it can move the horizon. No clock is taken to be ahead of the
 * commit, so that no event that is committed in time is too late because of another; and a greater
 * sequence never counts for less than a smaller one.
 */
void
scd2_append_moves(StringInfo sql, Scd2Flow *flow, const char *sequence, const char *invalid, bool from_feed)
{
	const char *committed = from_feed ? "_commit_timestamp" : "now()";
	char	   *type = scd2_type_sql(flow->sequence_type);

	scd2_sql(sql, "CASE WHEN (%s) IS NOT TRUE", invalid);
	if (flow->end_sequence_by != NULL)
		scd2_sql(sql, " AND NOT _scd2_is_end");
	switch (flow->sequence_type)
	{
		case DATEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			scd2_sql(sql, " AND %s > '-infinity' THEN LEAST(%s, (%s)::%s) END", sequence, sequence, committed, type);
			return;
		case FLOAT4OID:
		case FLOAT8OID:
		case NUMERICOID:
			scd2_sql(sql, " AND %s NOT IN ('Infinity', '-Infinity')", sequence);
			break;
	}
	scd2_sql(sql, " THEN %s END", sequence);
}

/* The horizon when "highest" has been seen; NULL if it would be below all values. */
void
scd2_append_horizon(StringInfo sql, Scd2Flow *flow, const char *highest)
{
	char	   *type = scd2_type_sql(flow->sequence_type);
	const char *least = flow->sequence_type == INT2OID ? "-32768" : flow->sequence_type == INT4OID ? "-2147483648" : "-9223372036854775808";

	switch (flow->sequence_type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
			scd2_sql(sql, "CASE WHEN (%s)::numeric - %L::numeric >= %s THEN ((%s)::numeric - %L::numeric)::%s END", highest, flow->max_lateness, least, highest, flow->max_lateness, type);
			break;
		case DATEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			scd2_sql(sql, "((%s) - %L::interval)::%s", highest, flow->max_lateness, type);
			break;
		default:
			scd2_sql(sql, "((%s) - %L::%s)::%s", highest, flow->max_lateness, flow->sequence_type == NUMERICOID ? "numeric" : "float8", type);
	}
}

/* "a" and "b" have the same key. */
static void
append_same_key(StringInfo sql, Scd2Flow *flow, const char *a, const char *b)
{
	for (int k = 0; k < flow->nkeys; k++)
	{
		const char *column = quote_identifier(flow->columns[flow->keys[k]]);

		scd2_sql(sql, k > 0 ? " AND " : "");
		scd2_append_comparison(sql, psprintf("%s.%s", a, column), flow->key_operator[k], psprintf("%s.%s", b, column));
	}
}

/* Memory below $1; not what was sent in rows that go on over it and do not show all of it. */
void
scd2_append_forget(StringInfo sql, Scd2Flow *flow)
{
	bool		shows_all = true;

	for (int i = 0; i < flow->shape.ncolumns; i++)
		shows_all &= flow->shape.tracked[i] || flow->shape.is_key[i];
	scd2_sql(sql, "DELETE FROM ONLY %s AS m WHERE m._sequence < $1", flow->memory_sql);
	if (flow->scd_type == 1 || flow->shape.ignores_null == NULL || shows_all)
		return;
	scd2_sql(sql, " AND NOT (m._kind IN ('s', 'w') AND EXISTS (SELECT FROM ONLY %s AS t WHERE ", flow->target_sql);
	append_same_key(sql, flow, "t", "m");
	scd2_sql(sql, " AND t.%I <= m._sequence AND (t.%I > $1 OR t.%I IS NULL)))", flow->start_column, flow->end_column, flow->end_column);
}

/* Deletes that end rows at $1, unless something else is remembered there. */
void
scd2_append_remember_ends(StringInfo sql, Scd2Flow *flow)
{
	scd2_sql(sql, "INSERT INTO %s (", flow->memory_sql);
	for (int k = 0; k < flow->nkeys; k++)
		scd2_sql(sql, "%I, ", flow->columns[flow->keys[k]]);
	scd2_sql(sql, "_sequence, _kind) SELECT ");
	for (int k = 0; k < flow->nkeys; k++)
		scd2_sql(sql, "t.%I, ", flow->columns[flow->keys[k]]);
	scd2_sql(sql, "$1, 'd' FROM ONLY %s AS t WHERE t.%I = $1 AND NOT EXISTS (SELECT FROM ONLY %s AS n WHERE ", flow->target_sql, flow->end_column, flow->target_sql);
	append_same_key(sql, flow, "n", "t");
	scd2_sql(sql, " AND n.%I = $1) AND NOT EXISTS (SELECT FROM ONLY %s AS m WHERE ", flow->start_column, flow->memory_sql);
	append_same_key(sql, flow, "m", "t");
	scd2_sql(sql, " AND m._sequence = $1)");
}

/*
 * Where NULL says nothing: what the first upsert of a row took over from the row before, which ends
 * before $1, becomes its own.
 */
void
scd2_append_complete(StringInfo sql, Scd2Flow *flow)
{
	scd2_sql(sql, "UPDATE ONLY %s AS m SET _kind = 'w'", flow->memory_sql);
	for (int i = 0; i < flow->shape.ncolumns; i++)
		if (flow->shape.ignores_null[i])
			scd2_sql(sql, ", %I = COALESCE(m.%I, t.%I)", flow->columns[i], flow->columns[i], flow->columns[i]);
	scd2_sql(sql, " FROM ONLY %s AS t WHERE ", flow->target_sql);
	append_same_key(sql, flow, "t", "m");
	scd2_sql(sql, " AND t.%I = m._sequence AND t.%I < $1 AND m._kind = 's'", flow->end_column, flow->end_column);
}
