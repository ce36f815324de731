/*
 * arrivals.c
 *		From the rows of an event table, or of a feed that has a sequence of its own, to events of each key.
 *
 * One row is one event, or, with an end_sequence_by, an upsert and a close where it ends, which
 * comes as a row of its own. A query gives them as they come; they are sorted by key and sequence
 * here (within work_mem), with no more of them than is needed then: what is sorted is met in no
 * order that any cache likes. Truncates, which have no key, come first. Per key the timeline gets
 * the events, and asks for the rows and the memory that it needs.
 *
 * A truncate is an event of every key, remembered as a mark of the target. Keys that have other
 * events in the batch meet it among those; then the rows of all other keys that it cuts are looked
 * for in the target, in a second pass (scd2_read_cuts()).
 *
 * Where NULL says nothing, images of a feed are whole all the same. There no delete can be a close
 * (partial.c): that of a feed's default sequence has the place where its version begins, so it
 * yields to whatever that version brings, by this feed or another, and to nothing else.
 *
 * An event that is invalid fails the batch, or goes to scd2.rejected_events, as does one that is
 * too late: then the statement that reads has made JSON of it.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "tcop/dest.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/typcache.h"

#include "flow/erase.h"
#include "flow/marks.h"
#include "flow/lateness.h"
#include "flow/recall.h"
#include "flow/relations.h"
#include "flow/scope.h"
#include "flow/sort.h"
#include "flow/sqltext.h"
#include "flow/statements.h"
#include "flow/work.h"

/* Columns of what is sorted, before those of the flow. */
enum
{
	SORT_VERSION,				/* NULL: the row was there before the flow */
	SORT_CHANGE,				/* ordinal and flags */
	SORT_SEQUENCE,
	SORT_COLUMNS
};

#define CHANGE_BITS			3
#define CHANGE_DELETES		(1 << 0)
#define CHANGE_TRUNCATES	(1 << 1)
#define CHANGE_ENDS			(1 << 2)	/* the sequence is where the row ends */

typedef struct Invalid
{
	int64		n;
	bool		from_source;	/* the first: a row that was there */
	int64		version;		/* of the first */
	int32		ordinal;
	char	   *reason;
	char	   *key;
} Invalid;

typedef struct ArrivalReceiver
{
	DestReceiver pub;
	Scd2Work   *work;
	Scd2Flow   *flow;
	Scd2Timeline timeline;
	bool		from_feed;
	bool		cutting;		/* second pass: what comes is implied by truncates */
	bool		check_sequence; /* it can be invalid without being NULL */
	Invalid		invalid;

	/* While rows come. */
	Scd2Sorter	sorter;

	/* Once they are sorted. */
	bool		truncates_done;

	/* The key in work. */
	bool		in_key;
	Datum	   *key;			/* in the key's memory */
	Datum		lowest;			/* its first new sequence */
	bool		has_lowest;
	int			next_cut;
	Scd2Row    *first;			/* of its rows that were given; NULL: none yet */
} ArrivalReceiver;

/* ---- marks ---- */

static int
compare(ArrivalReceiver *r, Datum a, Datum b)
{
	return DatumGetInt32(FunctionCall2Coll(&r->flow->sequence_compare, r->flow->sequence_collation, a, b));
}

/* The first place in the marks whose sequence is not below. */
static int
mark_place(ArrivalReceiver *r, Datum sequence)
{
	int			low = 0;
	int			high = r->work->nmarks;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (compare(r, r->work->marks[middle].sequence, sequence) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Does a truncate say all that another at its sequence does? "at": the first mark that is not below
 * it. (Of equal sequences that are not the same, as 1.0 and 1.00, the greater image shows.)
 */
static bool
is_truncated_at(ArrivalReceiver *r, int at, Datum sequence)
{
	Scd2Flow   *flow = r->flow;
	const Scd2Mark *marks = r->work->marks;

	for (; at < r->work->nmarks && compare(r, marks[at].sequence, sequence) == 0; at++)
		if (!marks[at].snapshot && marks[at].kind == SCD2_DELETE &&
			scd2_datum_image_compare(marks[at].sequence, sequence, flow->sequence_typbyval, flow->sequence_typlen) >= 0)
			return true;
	return false;
}

/*
 * (That a close hides deletes of others that end rows at its very sequence, see timeline.h, is put
 * up with: it would take another flow whose event has the microsecond of the commit.)
 */
static Scd2EventKind
delete_kind(Scd2Flow *flow)
{
	return flow->closes && flow->shape.ignores_null == NULL ? SCD2_CLOSE : SCD2_DELETE;
}

/* A truncate: they come in ascending order, before the first key. */
static void
add_truncate(ArrivalReceiver *r, Datum sequence)
{
	Scd2Work   *work = r->work;
	int			at = mark_place(r, sequence);
	MemoryContext before;

	if (is_truncated_at(r, at, sequence))
	{
		work->duplicates++;
		return;
	}
	before = MemoryContextSwitchTo(work->cxt);
	sequence = datumCopy(sequence, r->flow->sequence_typbyval, r->flow->sequence_typlen);
	if (work->marks == r->flow->marks)	/* which stays as it is in the catalog */
	{
		work->marks = palloc((work->nmarks + 1) * sizeof(Scd2Mark));
		if (work->nmarks > 0)
			memcpy(work->marks, r->flow->marks, work->nmarks * sizeof(Scd2Mark));
	}
	else
		work->marks = repalloc(work->marks, (work->nmarks + 1) * sizeof(Scd2Mark));
	memmove(&work->marks[at + 1], &work->marks[at], (work->nmarks - at) * sizeof(Scd2Mark));
	work->marks[at] = (Scd2Mark){.sequence = sequence, .kind = delete_kind(r->flow), .scope = -1};
	work->nmarks++;
	work->cuts = work->cuts == NULL ? palloc(sizeof(Datum)) : repalloc(work->cuts, (work->ncuts + 1) * sizeof(Datum));
	work->cuts[work->ncuts++] = sequence;
	MemoryContextSwitchTo(before);
}

/* ---- the key in work ---- */

static void
add_event(ArrivalReceiver *r, Datum sequence, Scd2EventKind kind, Scd2Image *image, Scd2Place place, bool implied)
{
	Scd2Event	event = {.sequence = sequence, .kind = kind, .image = image, .place = place, .implied = implied};

	if (!r->has_lowest)
		r->lowest = sequence;
	r->has_lowest = true;
	scd2_timeline_event(&r->timeline, &event);
}

/*
 * New truncates up to a sequence are events of the key too; "all": those that are left. (Of type 1
 * the timeline finds them among the marks, unless each column is for itself.)
 */
static void
pass_cuts(ArrivalReceiver *r, Datum upto, bool all)
{
	if (r->flow->scd_type == 1 && r->flow->shape.ignores_null == NULL)
		return;
	for (; r->next_cut < r->work->ncuts; r->next_cut++)
	{
		if (!all && compare(r, r->work->cuts[r->next_cut], upto) > 0)
			break;
		add_event(r, r->work->cuts[r->next_cut], delete_kind(r->flow), NULL, (Scd2Place){0}, true);
	}
}

static void
finish_key(ArrivalReceiver *r)
{
	if (!r->in_key)
		return;
	r->in_key = false;
	if (!r->cutting)
		pass_cuts(r, (Datum) 0, true);
	scd2_timeline_end(&r->timeline);
	MemoryContextReset(r->work->key_cxt);
}

static void
begin_key(ArrivalReceiver *r, const Datum *columns)
{
	MemoryContext before = MemoryContextSwitchTo(r->work->key_cxt);

	r->in_key = true;
	r->has_lowest = false;
	r->next_cut = r->cutting ? r->work->ncuts : r->work->cuts_recorded;
	r->first = NULL;
	r->key = scd2_copy_key(r->flow, columns);
	MemoryContextSwitchTo(before);
	scd2_work_begin_key(r->work, r->key);
	scd2_recall_begin_key(r->work->recall, r->key);
	scd2_timeline_begin(&r->timeline);
}

static Scd2Row *
give_row(void *arg)
{
	ArrivalReceiver *r = arg;
	Scd2Row    *row = scd2_work_next_row(r->work, r->lowest);

	if (r->first == NULL)
		r->first = row;
	return row;
}

static Scd2Memory *
give_memory(void *arg)
{
	ArrivalReceiver *r = arg;

	return scd2_recall_next(r->work->recall, r->lowest, r->first);
}

/* (Of a row that begins with the new events, nothing is before it.) */
static Scd2Image *
give_image_before(void *arg, const Scd2Row *row)
{
	ArrivalReceiver *r = arg;

	return compare(r, row->start, r->lowest) >= 0 ? NULL : scd2_work_image_before(r->work, row);
}

static void
take_change(void *arg, const Scd2Change *change)
{
	scd2_work_emit(((ArrivalReceiver *) arg)->work, change);
}

static void
take_memory(void *arg, const Scd2Memory *was, const Scd2Memory *now)
{
	ArrivalReceiver *r = arg;

	scd2_recall_change(r->work->recall, r->key, was, now);
}

static bool
is_in_scope(void *arg, const Scd2Mark *mark)
{
	ArrivalReceiver *r = arg;

	return mark->scope < 0 || scd2_scope_has(r->flow, mark->scope, r->key);
}

/* ---- invalid events ---- */

static bool
is_nan(Oid type, Datum value)
{
	switch (type)
	{
		case FLOAT4OID:
			return isnan(DatumGetFloat4(value));
		case FLOAT8OID:
			return isnan(DatumGetFloat8(value));
		case NUMERICOID:
			return numeric_is_nan(DatumGetNumeric(value));
		default:
			return false;
	}
}

/*
 * What is wrong with a sequence ("what") that is not NULL; NULL: nothing.
 */
char *
scd2_invalid_sequence(Oid type, Datum sequence, const char *what)
{
	TupleDesc	desc;
	HeapTupleData tuple;
	char	   *invalid = NULL;

	if (is_nan(type, sequence))
		return psprintf("%s is NaN", what);
	if (get_typtype(type) != TYPTYPE_COMPOSITE)
		return NULL;
	desc = lookup_rowtype_tupdesc(type, -1);
	tuple.t_data = DatumGetHeapTupleHeader(sequence);
	tuple.t_len = HeapTupleHeaderGetDatumLength(tuple.t_data);
	for (int i = 0; i < desc->natts && invalid == NULL; i++)
	{
		bool		isnull;
		Datum		value = heap_getattr(&tuple, i + 1, desc, &isnull);
		const char *name = NameStr(TupleDescAttr(desc, i)->attname);

		if (isnull)
			invalid = psprintf("field \"%s\" of the %s is NULL", name, what);
		else if (is_nan(TupleDescAttr(desc, i)->atttypid, value))
			invalid = psprintf("field \"%s\" of the %s is NaN", name, what);
	}
	ReleaseTupleDesc(desc);
	return invalid;
}

/*
 * Of a row that has one; looking at its end (which was not made an event of its own if it is NULL),
 * at its beginning.
 */
static char *
what_is_invalid_of_end(ArrivalReceiver *r, TupleTableSlot *slot)
{
	Datum		sequence = slot->tts_values[SCD2_ARRIVAL_SEQUENCE];
	Datum		other = slot->tts_values[SCD2_ARRIVAL_OTHER_END];
	bool		is_end = DatumGetBool(slot->tts_values[SCD2_ARRIVAL_IS_END]);
	char	   *invalid = NULL;

	if (slot->tts_isnull[SCD2_ARRIVAL_OTHER_END])
		return is_end ? "sequence is NULL" : NULL;
	if (r->check_sequence)
		invalid = scd2_invalid_sequence(r->flow->sequence_type, other, is_end ? "sequence" : "end");
	if (invalid == NULL && (is_end ? compare(r, sequence, other) : compare(r, other, sequence)) <= 0)
		invalid = "end is not above the sequence";
	return invalid;
}

/* NULL: the event is valid. */
static char *
what_is_invalid(ArrivalReceiver *r, TupleTableSlot *slot, bool truncate)
{
	bool	   *nulls = slot->tts_isnull + SCD2_ARRIVAL_COLUMNS;
	char	   *invalid = NULL;

	for (int i = 0; !truncate && i < r->flow->nkeys; i++)
		if (nulls[r->flow->keys[i]])
			return psprintf("key column \"%s\" is NULL", r->flow->columns[r->flow->keys[i]]);
	if (slot->tts_isnull[SCD2_ARRIVAL_SEQUENCE] && r->flow->input == SCD2_CHANGES && !slot->tts_isnull[SCD2_ARRIVAL_DELETE] &&
		DatumGetBool(slot->tts_values[SCD2_ARRIVAL_DELETE]))
		return "sequence of the delete is NULL, or not above that of the row";
	if (slot->tts_isnull[SCD2_ARRIVAL_SEQUENCE])
		return "sequence is NULL";
	if (r->check_sequence)
		invalid = scd2_invalid_sequence(r->flow->sequence_type, slot->tts_values[SCD2_ARRIVAL_SEQUENCE], "sequence");
	return invalid != NULL ? invalid : what_is_invalid_of_end(r, slot);
}

static char *
key_text(ArrivalReceiver *r, TupleTableSlot *slot)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < r->flow->nkeys; i++)
	{
		int			c = SCD2_ARRIVAL_COLUMNS + r->flow->keys[i];
		Oid			output;
		bool		varlena;

		getTypeOutputInfo(TupleDescAttr(slot->tts_tupleDescriptor, c)->atttypid, &output, &varlena);
		appendStringInfo(&text, "%s%s", i > 0 ? ", " : "", slot->tts_isnull[c] ? "NULL" : OidOutputFunctionCall(output, slot->tts_values[c]));
	}
	return text.data;
}

static TupleDesc
rejects_desc(void)
{
	TupleDesc	desc = CreateTemplateTupleDesc(4);

	TupleDescInitEntry(desc, 1, "version", INT8OID, -1, 0);
	TupleDescInitEntry(desc, 2, "change_ordinal", INT4OID, -1, 0);
	TupleDescInitEntry(desc, 3, "reason", TEXTOID, -1, 0);
	TupleDescInitEntry(desc, 4, "event", JSONBOID, -1, 0);
	return desc;
}

static void
reject(ArrivalReceiver *r, TupleTableSlot *slot, const char *reason)
{
	Scd2Work   *work = r->work;
	int			json = SCD2_ARRIVAL_COLUMNS + r->flow->shape.ncolumns;
	Datum		values[] = {slot->tts_values[SCD2_ARRIVAL_VERSION], slot->tts_values[SCD2_ARRIVAL_ORDINAL], CStringGetTextDatum(reason), slot->tts_values[json]};
	bool		nulls[] = {slot->tts_isnull[SCD2_ARRIVAL_VERSION], slot->tts_isnull[SCD2_ARRIVAL_ORDINAL], false, slot->tts_isnull[json]};
	MemoryContext before = MemoryContextSwitchTo(work->cxt);

	if (work->rejects == NULL)
		work->rejects = tuplestore_begin_heap(false, false, work_mem);
	tuplestore_putvalues(work->rejects, rejects_desc(), values, nulls);
	MemoryContextSwitchTo(before);
}

static void
take_too_late(ArrivalReceiver *r, TupleTableSlot *slot)
{
	r->work->events++;
	if (r->flow->rereads && slot->tts_isnull[SCD2_ARRIVAL_VERSION])
	{
		r->work->duplicates++;	/* as far as can be known: most came in time */
		return;
	}
	r->work->too_late++;
	reject(r, slot, psprintf("too late: the horizon was at %s", scd2_sequence_text(r->flow, slot->tts_values[SCD2_ARRIVAL_HORIZON])));
}

/* Counted, and the first one by version kept, for the error that comes when all are read. */
static void
take_invalid(ArrivalReceiver *r, TupleTableSlot *slot, char *reason)
{
	Invalid    *invalid = &r->invalid;
	bool		from_source = slot->tts_isnull[SCD2_ARRIVAL_VERSION];
	int64		version = from_source ? 0 : DatumGetInt64(slot->tts_values[SCD2_ARRIVAL_VERSION]);
	int32		ordinal = from_source ? 0 : DatumGetInt32(slot->tts_values[SCD2_ARRIVAL_ORDINAL]);
	MemoryContext before;

	r->work->events++;
	if (r->flow->quarantine)
	{
		r->work->rejected++;
		reject(r, slot, reason);
		return;
	}
	if (invalid->n++ > 0 && (version > invalid->version || (version == invalid->version && ordinal >= invalid->ordinal)))
		return;
	before = MemoryContextSwitchTo(r->work->cxt);
	invalid->from_source = from_source;
	invalid->version = version;
	invalid->ordinal = ordinal;
	invalid->reason = pstrdup(reason);
	invalid->key = key_text(r, slot);
	MemoryContextSwitchTo(before);
}

static void
raise_invalid(ArrivalReceiver *r)
{
	Invalid    *invalid = &r->invalid;

	if (invalid->n == 0)
		return;
	ereport(ERROR, (errcode(ERRCODE_DATA_EXCEPTION),
					errmsg(INT64_FORMAT " of " INT64_FORMAT " events of flow \"%s\" are invalid", invalid->n, r->work->events, r->flow->name),
					invalid->from_source ?
					errdetail("One of the rows that were there, of key (%s): %s.", invalid->key, invalid->reason) :
					errdetail("The first is change %d of version " INT64_FORMAT ", of key (%s): %s.", invalid->ordinal, invalid->version, invalid->key, invalid->reason),
					errhint("SELECT scd2.alter_flow(%s, on_invalid_event => 'quarantine'); SELECT scd2.resume_flow(%s); -- goes on without such events",
							 quote_literal_cstr(r->flow->name), quote_literal_cstr(r->flow->name))));
}

/* ---- reading ---- */

static void
note_version(ArrivalReceiver *r, TupleTableSlot *slot)
{
	int64		version;

	if (slot->tts_isnull[SCD2_ARRIVAL_VERSION])
		return;
	version = DatumGetInt64(slot->tts_values[SCD2_ARRIVAL_VERSION]);
	if (version <= r->work->last_version)
		return;
	r->work->last_version = version;
	r->work->last_timestamp = DatumGetTimestampTz(slot->tts_values[SCD2_ARRIVAL_TIMESTAMP]);
	r->work->last_tid = *(ItemPointer) DatumGetPointer(slot->tts_values[slot->tts_tupleDescriptor->natts - 2]);
	r->work->last_leaf = DatumGetObjectId(slot->tts_values[slot->tts_tupleDescriptor->natts - 1]);
}

static bool
is_true(TupleTableSlot *slot, int column)
{
	return !slot->tts_isnull[column] && DatumGetBool(slot->tts_values[column]);
}

/* Of a key that was erased, and not above what was known of it: as far as that can be told. (An end is of its beginning.) */
static bool
is_erased(ArrivalReceiver *r, TupleTableSlot *slot)
{
	Scd2Flow   *flow = r->flow;
	int			sequence = is_true(slot, SCD2_ARRIVAL_IS_END) ? SCD2_ARRIVAL_OTHER_END : SCD2_ARRIVAL_SEQUENCE;

	if (flow->erased == NULL || is_true(slot, SCD2_ARRIVAL_TRUNCATE) || slot->tts_isnull[sequence])
		return false;
	for (int i = 0; i < flow->nkeys; i++)
		if (slot->tts_isnull[SCD2_ARRIVAL_COLUMNS + flow->keys[i]])
			return false;
	return scd2_erased_has(flow, slot->tts_values + SCD2_ARRIVAL_COLUMNS, slot->tts_values[sequence]);
}

/*
 * Is an event not to be applied? Then it is counted, as its beginning if it has two rows. Of what
 * was erased nothing may be kept, so that is asked first: rejected events and errors show them.
 */
static bool
is_turned_away(ArrivalReceiver *r, TupleTableSlot *slot)
{
	char	   *invalid = what_is_invalid(r, slot, is_true(slot, SCD2_ARRIVAL_TRUNCATE));
	bool		is_end = is_true(slot, SCD2_ARRIVAL_IS_END);
	/* Where the horizon is does not depend on what was erased. */
	bool		too_late = invalid == NULL && scd2_can_be_too_late(r->flow) && !scd2_lateness_see(r->work, slot);

	if (is_erased(r, slot))
	{
		r->work->events += !is_end;
		r->work->skipped += !is_end;
		return true;
	}
	if (invalid != NULL && !is_end)
		take_invalid(r, slot, invalid);
	else if (too_late && !is_end)
		take_too_late(r, slot);
	return invalid != NULL || too_late;
}

/* An event as it is sorted; its values stay where they are. Truncates have no keys, which sorts them first. */
static void
fill_sort_row(ArrivalReceiver *r, TupleTableSlot *slot)
{
	TupleTableSlot *to_sort = r->sorter.row;
	int			n = r->flow->shape.ncolumns;
	bool		truncate = is_true(slot, SCD2_ARRIVAL_TRUNCATE);
	int64		change = slot->tts_isnull[SCD2_ARRIVAL_ORDINAL] ? 0 : DatumGetInt32(slot->tts_values[SCD2_ARRIVAL_ORDINAL]);

	change = change << CHANGE_BITS |
		(is_true(slot, SCD2_ARRIVAL_DELETE) ? CHANGE_DELETES : 0) |
		(truncate ? CHANGE_TRUNCATES : 0) |
		(is_true(slot, SCD2_ARRIVAL_IS_END) ? CHANGE_ENDS : 0);
	ExecClearTuple(to_sort);
	to_sort->tts_values[SORT_VERSION] = slot->tts_values[SCD2_ARRIVAL_VERSION];
	to_sort->tts_isnull[SORT_VERSION] = slot->tts_isnull[SCD2_ARRIVAL_VERSION];
	to_sort->tts_values[SORT_CHANGE] = Int64GetDatum(change);
	to_sort->tts_values[SORT_SEQUENCE] = slot->tts_values[SCD2_ARRIVAL_SEQUENCE];
	to_sort->tts_isnull[SORT_CHANGE] = to_sort->tts_isnull[SORT_SEQUENCE] = false;
	memcpy(to_sort->tts_values + SORT_COLUMNS, slot->tts_values + SCD2_ARRIVAL_COLUMNS, n * sizeof(Datum));
	if (truncate)
		memset(to_sort->tts_isnull + SORT_COLUMNS, true, n * sizeof(bool));
	else
		memcpy(to_sort->tts_isnull + SORT_COLUMNS, slot->tts_isnull + SCD2_ARRIVAL_COLUMNS, n * sizeof(bool));
	ExecStoreVirtualTuple(to_sort);
}

static bool
receive(TupleTableSlot *slot, DestReceiver *self)
{
	ArrivalReceiver *r = (ArrivalReceiver *) self;

	slot_getallattrs(slot);
	note_version(r, slot);
	if (!r->cutting && is_turned_away(r, slot))
		return true;
	if (!r->cutting)
		r->work->events += !is_true(slot, SCD2_ARRIVAL_IS_END);
	fill_sort_row(r, slot);
	tuplesort_puttupleslot(r->sorter.sort, r->sorter.row);
	return true;
}

/* The plan reads the columns as they are now. */
static void
startup(DestReceiver *self, int operation, TupleDesc desc)
{
	ArrivalReceiver *r = (ArrivalReceiver *) self;
	Oid			sequence = r->flow->sequence_type;
	Oid			before[SCD2_ARRIVAL_COLUMNS] = {
		INT8OID, TIMESTAMPTZOID, INT4OID, sequence, BOOLOID, BOOLOID, BOOLOID, sequence, sequence, sequence
	};
	Oid			after[3];
	int			n = 0;

	if (!r->cutting && scd2_keeps_events(r->flow))
		after[n++] = JSONBOID;
	if (r->from_feed)
	{
		after[n++] = TIDOID;
		after[n++] = OIDOID;
	}
	scd2_check_columns_read(r->flow, desc, SCD2_ARRIVAL_COLUMNS, before, n, after);
}

static void
shut_down(DestReceiver *self)
{
}

static void
destroy(DestReceiver *self)
{
}

/* ---- once they are sorted ---- */

static void
begin_keys(ArrivalReceiver *r)
{
	if (r->truncates_done)
		return;
	r->truncates_done = true;
	r->timeline.marks = r->work->marks;
	r->timeline.nmarks = r->work->nmarks;
}

/*
 * Changes of a feed at one sequence: the later counts. (What was there before the batch came
 * earlier, and need not remember its place; unless it begins with a commit whose deletes others
 * bring: copied_at.)
 */
static Scd2Place
place_of(ArrivalReceiver *r, TupleTableSlot *slot, int64 change)
{
	Scd2Flow   *flow = r->flow;
	Scd2Place	place = {0};

	if (flow->input != SCD2_CHANGES || r->cutting)
		return place;
	if (slot->tts_isnull[SORT_VERSION])
		return r->work->copied_at;
	place.version = DatumGetInt64(slot->tts_values[SORT_VERSION]);
	place.ordinal = change >> CHANGE_BITS;
	if (flow->closes && flow->shape.ignores_null != NULL && (change & CHANGE_DELETES) != 0)
		place.ordinal = 0;
	return place;
}

/* Next event in the order of keys and sequences. */
static void
take_event(ArrivalReceiver *r, TupleTableSlot *slot)
{
	Scd2Work   *work = r->work;
	Datum	   *columns = slot->tts_values + SORT_COLUMNS;
	int64		change;
	bool		is_delete;
	bool		is_end;
	Datum		sequence;
	Scd2Image  *image = NULL;
	MemoryContext before;

	change = DatumGetInt64(slot->tts_values[SORT_CHANGE]);
	is_delete = (change & CHANGE_DELETES) != 0;
	is_end = (change & CHANGE_ENDS) != 0;
	sequence = slot->tts_values[SORT_SEQUENCE];
	if (!slot->tts_isnull[SORT_VERSION])
		r->flow->at_version = DatumGetInt64(slot->tts_values[SORT_VERSION]);
	if ((change & CHANGE_TRUNCATES) != 0)
	{
		add_truncate(r, sequence);
		return;
	}
	begin_keys(r);
	if (!r->in_key || !scd2_same_key(r->flow, r->key, columns))
	{
		finish_key(r);
		begin_key(r, columns);
	}
	before = MemoryContextSwitchTo(work->key_cxt);
	sequence = datumCopy(sequence, r->flow->sequence_typbyval, r->flow->sequence_typlen);
	if (!is_delete && !is_end)
	{
		image = scd2_image_copy(&r->flow->shape, columns, slot->tts_isnull + SORT_COLUMNS);
		image->whole = r->flow->input == SCD2_CHANGES;
	}
	MemoryContextSwitchTo(before);
	if (!r->cutting)
		pass_cuts(r, sequence, false);
	add_event(r, sequence, is_end ? SCD2_CLOSE : is_delete ? delete_kind(r->flow) : SCD2_UPSERT, image, place_of(r, slot, change), r->cutting || is_end);
}

static TupleDesc
sort_desc(Scd2Flow *flow)
{
	int			n = flow->shape.ncolumns;
	TupleDesc	desc = CreateTemplateTupleDesc(SORT_COLUMNS + n);

	TupleDescInitEntry(desc, SORT_VERSION + 1, "version", INT8OID, -1, 0);
	TupleDescInitEntry(desc, SORT_CHANGE + 1, "change", INT8OID, -1, 0);
	TupleDescInitEntry(desc, SORT_SEQUENCE + 1, "sequence", flow->sequence_type, -1, 0);
	for (int i = 0; i < n; i++)
		TupleDescCopyEntry(desc, SORT_COLUMNS + i + 1, flow->store_desc[SCD2_INSERTS], i + 1);
	return desc;
}

static void
begin_sort(ArrivalReceiver *r)
{
	Scd2Flow   *flow = r->flow;
	TupleDesc	desc = sort_desc(flow);
	Scd2SortColumn by_sequence = {
		.attnum = SORT_SEQUENCE + 1,
		.less = scd2_sequence_operator(flow, BTLessStrategyNumber),
		.collation = flow->sequence_collation
	};

	scd2_sorter_begin(&r->sorter, flow, desc, SORT_COLUMNS, 1, &by_sequence);
}

/* All events are here: key by key. */
static void
take_events(ArrivalReceiver *r)
{
	scd2_sorter_turn(&r->sorter, r->work);
	while (scd2_sorter_next(&r->sorter))
		take_event(r, r->sorter.sorted);
	finish_key(r);
	scd2_sorter_end(&r->sorter, r->work);
}

/* ---- all of it ---- */

static void
use_setting(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/*
 * The settings that the flow's expressions were written for, and how the statement is to be
 * planned. The caller opens and ends a nest level.
 */
void
scd2_use_settings(Scd2Flow *flow, Scd2Statement which)
{
	scd2_use_written_settings(flow->settings);
	if (which == SCD2_READ_TAIL)
		use_setting("enable_bitmapscan", "off");
	if (which == SCD2_READ_SOURCE || which == SCD2_READ_CUTS)
	{
		use_setting("enable_seqscan", "on");
		use_setting("enable_hashjoin", "on");
	}
}

/* Runs the statement that reads: all rows go into the sort. */
static void
read_all(ArrivalReceiver *r, Scd2Statement which, int nargs, const Datum *args)
{
	Scd2Flow   *flow = r->flow;
	/* The rows that are there are read under the snapshot that is active. */
	SPIExecuteOptions options = {.read_only = which == SCD2_READ_SOURCE && flow->input == SCD2_EVENTS && !flow->from_beginning};
	SPIPlanPtr	plan;
	int			result;
	Datum		all_args[SCD2_MOST_ARGUMENTS];

	for (int i = 0; i < nargs; i++)
		all_args[i] = args[i];
	if (flow->max_lateness != NULL && which != SCD2_READ_SOURCE && which != SCD2_READ_CUTS)
		nargs = scd2_lateness_args(flow, all_args, nargs);
	plan = scd2_flow_plan(flow, which);
	options.params = scd2_params(plan, nargs, all_args);
	options.dest = &r->pub;
	result = SPI_execute_plan_extended(plan, &options);
	if (result < 0)
		elog(ERROR, "reading events failed: %s", SPI_result_code_string(result));
}

/*
 * Reads events by one of the READ statements and has the batch collect the changes of rows and
 * memory that follow from them.
 */
void
scd2_read_arrivals(Scd2Work *work, Scd2Statement which, int nargs, const Datum *args)
{
	Scd2Flow   *flow = work->flow;
	ArrivalReceiver r = {
		.pub = {.receiveSlot = receive, .rStartup = startup, .rShutdown = shut_down, .rDestroy = destroy, .mydest = DestNone},
		.work = work,
		.flow = flow,
		.from_feed = which != SCD2_READ_SOURCE && which != SCD2_READ_CUTS,
		.cutting = which == SCD2_READ_CUTS,
		.check_sequence = scd2_sequence_has_parts(flow)
	};
	int			nest = NewGUCNestLevel();
	MemoryContext before = MemoryContextSwitchTo(work->cxt);

	scd2_use_settings(flow, which);
	r.timeline = scd2_work_timeline(work, (Scd2TimelineUse){
		.arg = &r, .next_row = give_row, .next_memory = give_memory, .image_before = give_image_before,
		.in_scope = is_in_scope, .change = take_change, .remember = take_memory
	});
	begin_sort(&r);
	read_all(&r, which, nargs, args);
	raise_invalid(&r);
	MemoryContextSwitchTo(work->cxt);
	take_events(&r);
	MemoryContextSwitchTo(before);
	AtEOXact_GUC(true, nest);
	flow->at_version = -1;
	flow->sequence_compare = r.timeline.compare;	/* with what it keeps from call to call */
	work->duplicates += r.timeline.counts.duplicates;
	work->out_of_order += r.timeline.counts.out_of_order;
	work->conflicts += r.timeline.counts.conflicts;
}

/*
 * The second pass, if there were truncates: keys that had no other events.
 */
void
scd2_read_cuts(Scd2Work *work)
{
	Scd2Flow   *flow = work->flow;
	int			ncuts = work->ncuts - work->cuts_recorded;
	Datum	   *cuts = work->cuts + work->cuts_recorded;
	int16		typlen;
	bool		typbyval;
	char		typalign;
	Datum		args[1];

	if (ncuts == 0)
		return;
	scd2_work_write(work);
	scd2_work_again(work);
	if (flow->scd_type == 1)	/* the last says it all */
	{
		cuts += ncuts - 1;
		ncuts = 1;
	}
	get_typlenbyvalalign(flow->sequence_type, &typlen, &typbyval, &typalign);
	args[0] = PointerGetDatum(construct_array(cuts, ncuts, flow->sequence_type, typlen, typbyval, typalign));
	scd2_read_arrivals(work, SCD2_READ_CUTS, 1, args);
	work->cuts_recorded = work->ncuts;
}

/* ---- what is recorded of a batch ---- */

/* Rows that are read again, and were rejected the first time (perhaps before columns were added), are duplicates. */
#define RECORD_REJECTS \
	"INSERT INTO scd2_internal.rejected (flow_id, version, change_ordinal, reason, event)" \
	" SELECT $1, n.version, n.change_ordinal, n.reason, n.event FROM scd2_rejects AS n" \
	" WHERE NOT $2 OR NOT n.version IS NULL OR (n.reason, jsonb_strip_nulls(n.event)) NOT IN" \
	"  (SELECT r.reason, jsonb_strip_nulls(r.event) FROM scd2_internal.rejected AS r WHERE r.flow_id = $1)"

static void
record_rejects(Scd2Work *work)
{
	EphemeralNamedRelation enr = palloc0(sizeof(EphemeralNamedRelationData));
	Oid			types[] = {INT4OID, BOOLOID};
	Datum		args[] = {Int32GetDatum(work->flow->flow_id), BoolGetDatum(work->flow->rereads)};
	int64		known;

	enr->md.name = "scd2_rejects";
	enr->md.tupdesc = rejects_desc();
	enr->md.enrtype = ENR_NAMED_TUPLESTORE;
	enr->md.enrtuples = work->rejected + work->too_late;
	enr->reldata = work->rejects;
	if (SPI_register_relation(enr) != SPI_OK_REL_REGISTER)
		elog(ERROR, "could not register \"%s\"", enr->md.name);
	if (SPI_execute_with_args(RECORD_REJECTS, 2, types, args, NULL, false, 0) != SPI_OK_INSERT)
		elog(ERROR, "could not record rejected events");
	known = work->rejected + work->too_late - (int64) SPI_processed;
	work->rejected -= known;
	work->duplicates += known;
	SPI_unregister_relation(enr->md.name);
	tuplestore_end(work->rejects);
	work->rejects = NULL;
}

/*
 * Marks and rejected events go into the catalog. As ourselves again: after scd2_work_end().
 */
static void
record_arrivals(Scd2Work *work)
{
	for (int i = 0; i < work->ncuts; i++)
		scd2_record_mark(work->flow, work->cuts[i], false);
	if (work->rejects != NULL)
		record_rejects(work);
}

/*
 * All is read: what follows from new truncates, then all is written. The batch is no more in work
 * then, but still says what it did.
 */
void
scd2_finish_arrivals(Scd2Work *work)
{
	scd2_read_cuts(work);
	scd2_work_write(work);
	scd2_lateness_finish(work);
	scd2_work_end(work);
	record_arrivals(work);
}
