/*
 * marks.c
 *		Events of every key of a target: truncates and complete snapshots.
 *
 * Each is remembered once (scd2_internal.mark), whoever brought it, for whoever brings late events;
 * the timeline says what becomes of them. A flow keeps those it has read, and before each batch
 * reads those that are new: who writes marks has the target's lock, so their numbers ascend as they
 * become visible.
 *
 * Sequences are in the catalog as text, in a form that does not depend on the session: a snapshot
 * may be applied in anybody's.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "flow/marks.h"
#include "flow/rights.h"
#include "flow/scope.h"
#include "flow/timeline.h"

/* As in the workers (worker.c). */
static const char *const text_settings[][2] = {
	{"TimeZone", "UTC"}, {"DateStyle", "ISO, YMD"}, {"IntervalStyle", "postgres"}, {"bytea_output", "hex"}, {"extra_float_digits", "1"},
};

/*
 * To read or write a value as text can run code of its type's owner (the check of a domain in an
 * array): as the owner of the target. Returns a level of settings.
 */
static int
become_owner(Scd2Flow *flow, Scd2Identity *before)
{
	int			nest;

	scd2_flow_become(flow, before);
	nest = NewGUCNestLevel();
	for (int i = 0; i < lengthof(text_settings); i++)
		(void) set_config_option(text_settings[i][0], text_settings[i][1], PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	return nest;
}

static void
become_self_again(const Scd2Identity *before, int nest)
{
	AtEOXact_GUC(false, nest);
	scd2_become_self_again(before);
}

/*
 * A sequence as the catalog has it. In the current memory context.
 */
char *
scd2_sequence_text(Scd2Flow *flow, Datum sequence)
{
	Scd2Identity self;
	Oid			output;
	bool		varlena;
	char	   *text;
	int			nest = become_owner(flow, &self);

	getTypeOutputInfo(flow->sequence_type, &output, &varlena);
	text = OidOutputFunctionCall(output, sequence);
	become_self_again(&self, nest);
	return text;
}

/*
 * And back.
 */
Datum
scd2_sequence_value(Scd2Flow *flow, const char *text)
{
	Scd2Identity self;
	Oid			input;
	Oid			ioparam;
	Datum		value;
	int			nest = become_owner(flow, &self);

	getTypeInputInfo(flow->sequence_type, &input, &ioparam);
	value = OidInputFunctionCall(input, unconstify(char *, text), ioparam, -1);
	become_self_again(&self, nest);
	return value;
}

/*
 * A sequence as somebody writes it, in his settings; as the target's owner, whose type it may be.
 */
Datum
scd2_sequence_from_user(Scd2Flow *flow, char *text)
{
	Scd2Identity self;
	Oid			input;
	Oid			ioparam;
	Datum		sequence;

	scd2_flow_become(flow, &self);
	getTypeInputInfo(flow->sequence_type, &input, &ioparam);
	sequence = OidInputFunctionCall(input, text, ioparam, -1);
	scd2_become_self_again(&self);
	return sequence;
}

static List *
read_settings(HeapTuple row, TupleDesc desc, int column)
{
	bool		isnull;
	Datum		value = SPI_getbinval(row, desc, column, &isnull);
	Datum	   *elements;
	int			n;
	List	   *settings = NIL;

	if (isnull)
		return NIL;
	deconstruct_array(DatumGetArrayTypeP(value), TEXTOID, -1, false, TYPALIGN_INT, &elements, NULL, &n);
	for (int i = 0; i < n; i++)
		settings = lappend(settings, TextDatumGetCString(elements[i]));
	return settings;
}

/* The mark of a row: mark_id, sequence, kind, scope, scope_alias, scope_settings. As the owner. */
static Scd2Mark
read_mark(Scd2Flow *flow, HeapTuple row, TupleDesc desc)
{
	Scd2Mark	mark = {.kind = SCD2_DELETE, .scope = -1};
	char	   *kind = SPI_getvalue(row, desc, 3);
	char	   *scope = SPI_getvalue(row, desc, 4);

	mark.sequence = scd2_sequence_value(flow, SPI_getvalue(row, desc, 2));
	mark.yields = strcmp(kind, "horizon") == 0;
	mark.snapshot = mark.yields || strcmp(kind, "snapshot") == 0;
	if (strcmp(kind, "close") == 0)
		mark.kind = SCD2_CLOSE;
	if (scope != NULL)
		mark.scope = scd2_scope_find(flow, scope, SPI_getvalue(row, desc, 5), read_settings(row, desc, 6));
	return mark;
}

/* Into its place: they ascend. */
static void
add_mark(Scd2Flow *flow, const Scd2Mark *mark)
{
	int			at = flow->nmarks++;

	flow->marks = flow->marks == NULL ? palloc(sizeof(Scd2Mark)) : repalloc(flow->marks, flow->nmarks * sizeof(Scd2Mark));
	for (; at > 0 && DatumGetInt32(FunctionCall2Coll(&flow->sequence_compare, flow->sequence_collation,
													 flow->marks[at - 1].sequence, mark->sequence)) > 0; at--)
		flow->marks[at] = flow->marks[at - 1];
	flow->marks[at] = *mark;
}

/*
 * A horizon, as scd2_record_horizon() would put it there, for what is only tried; after scd2_load_marks().
 */
void
scd2_assume_horizon(Scd2Flow *flow, Datum sequence)
{
	Scd2Mark	mark = {.sequence = sequence, .snapshot = true, .yields = true, .kind = SCD2_DELETE, .scope = -1};
	MemoryContext before = MemoryContextSwitchTo(flow->cxt);

	add_mark(flow, &mark);
	MemoryContextSwitchTo(before);
}

/*
 * Reads the target's marks, also those of this transaction, if there are others than those at hand.
 * Within SPI, as ourselves.
 */
void
scd2_load_marks(Scd2Flow *flow)
{
	Oid			types[] = {OIDOID, INT8OID};
	Datum		args[] = {ObjectIdGetDatum(flow->target), Int64GetDatum(flow->marks_upto)};
	MemoryContext before = CurrentMemoryContext;
	SPITupleTable *table;
	uint64		n;
	Scd2Identity self;
	int			nest;

	if (SPI_execute_with_args("SELECT mark_id, sequence, kind, scope, scope_alias, scope_settings FROM scd2_internal.mark"
							  " WHERE target_relid = $1 AND mark_id > $2 ORDER BY mark_id",
							  2, types, args, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read marks");
	table = SPI_tuptable;
	n = SPI_processed;
	MemoryContextSwitchTo(flow->cxt);
	nest = become_owner(flow, &self);
	for (uint64 i = 0; i < n; i++)
	{
		bool		isnull;
		Scd2Mark	mark = read_mark(flow, table->vals[i], table->tupdesc);

		flow->marks_upto = DatumGetInt64(SPI_getbinval(table->vals[i], table->tupdesc, 1, &isnull));
		add_mark(flow, &mark);
	}
	become_self_again(&self, nest);
	SPI_freetuptable(table);
	MemoryContextSwitchTo(before);
}

/*
 * A truncate, or a snapshot of the flow's scope, goes into the catalog. Within SPI, as ourselves,
 * with the target's lock.
 */
void
scd2_record_mark(Scd2Flow *flow, Datum sequence, bool snapshot)
{
	Oid			types[] = {INT4OID, TEXTOID, BOOLOID};
	Datum		args[] = {Int32GetDatum(flow->flow_id), CStringGetTextDatum(scd2_sequence_text(flow, sequence)), BoolGetDatum(snapshot)};

	if (SPI_execute_with_args("INSERT INTO scd2_internal.mark (target_schema, target_name, target_relid, sequence, kind, flow_id, scope, scope_alias, scope_settings)"
							  " SELECT target_schema, target_name, target_relid, $2, CASE WHEN $3 THEN 'snapshot' WHEN closes AND ignores_null = '{}' THEN 'close' ELSE 'truncate' END, flow_id,"
							  "        CASE WHEN $3 THEN scope END, CASE WHEN $3 THEN source_name END, CASE WHEN $3 AND scope IS NOT NULL THEN settings END"
							  " FROM scd2_internal.flow WHERE flow_id = $1",
							  3, types, args, NULL, false, 0) != SPI_OK_INSERT)
		elog(ERROR, "could not record a mark");
}

/*
 * A horizon: all keys are there as they are, just before all that is at it. Within SPI, as
 * ourselves, with the target's lock.
 */
void
scd2_record_horizon(Scd2Flow *flow, Datum sequence)
{
	Oid			types[] = {INT4OID, TEXTOID};
	Datum		args[] = {Int32GetDatum(flow->flow_id), CStringGetTextDatum(scd2_sequence_text(flow, sequence))};

	if (SPI_execute_with_args("INSERT INTO scd2_internal.mark (target_schema, target_name, target_relid, sequence, kind, flow_id)"
							  " SELECT target_schema, target_name, target_relid, $2, 'horizon', flow_id FROM scd2_internal.flow WHERE flow_id = $1",
							  2, types, args, NULL, false, 0) != SPI_OK_INSERT)
		elog(ERROR, "could not record a horizon");
}
