/*
 * events.c
 *		From the rows of a feed to the events of each key.
 *
 * With a feed's default sequence a key has one event per version: its net effect. Per key, the
 * images that are live are counted: an insert or post-image adds one, a pre-image or delete takes
 * away an equal one, else the one from before the version; a TRUNCATE takes away all. What is left
 * at the end is the upsert; nothing left is a close if the image from before was taken, else
 * nothing. (Not "the last row decides": over a deferrable key SET id = id + 1 makes 1 -> 2, 2 -> 3,
 * 3 -> 4, and the last row of keys 2 and 3 is a pre-image.)
 *
 * A flow may leave images out (source_filter, apply_as_deletes): then all this is said of those
 * that are left, and the target is the history of the rows that are not left out.
 *
 * Undoing (the first copy) counts over all versions at once, and asks the opposite: the image that
 * was taken without having been added is what the key was at the beginning; if there is none and
 * something was added, there was no row.
 *
 * A query gives the rows as they come; they are sorted by key here (tuplesort, within work_mem) and
 * then taken key by key. Half of an update's rows need not be sorted: where a unique index that is
 * checked row by row guards the keys, a key never has two live images, so a pre-image that its
 * post-image follows under the same key says nothing that the post-image does not: one row that
 * *replaces*. Should a key have two images after all (the index was another one when the changes
 * were made), the batch begins again with all rows.
 */
#include "postgres.h"

#include "access/genam.h"
#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "tcop/dest.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "flow/relations.h"
#include "flow/sort.h"
#include "flow/work.h"
#include "flow/statements.h"

typedef enum ChangeType
{
	CHANGE_ADDS,				/* insert, update_postimage */
	CHANGE_TAKES,				/* delete, update_preimage */
	CHANGE_REPLACES,			/* both, under one key; the image is the new one */
	CHANGE_TRUNCATES
} ChangeType;

/* Columns of what is sorted, before those of the flow (and, undoing, the start). */
enum
{
	SORT_VERSION,
	SORT_TIMESTAMP,
	SORT_CHANGE,				/* ordinal and ChangeType */
	SORT_COLUMNS
};

#define CHANGE_BITS		2

typedef struct Place
{
	int64		version;
	int32		ordinal;
	TimestampTz timestamp;
} Place;

typedef struct EventReceiver
{
	DestReceiver pub;
	Scd2Work  *work;
	Scd2Flow   *flow;
	Scd2Timeline timeline;
	bool		undo;

	/* While rows come. */
	Scd2Sorter	sorter;
	bool		holds;			/* a pre-image whose post-image comes next */
	TupleTableSlot *held;

	Place	   *truncates;		/* in order */
	int			ntruncates;
	int			max_truncates;

	/* The key in work. */
	bool		in_key;
	Datum	   *key;			/* in the key's memory */
	Scd2Row		row;
	bool		has_row;
	bool		row_is_next;	/* the timeline has not asked for it yet */
	int			next_truncate;

	/* Its version in work. */
	bool		in_version;
	Place		place;
	Scd2Image **live;
	int			nlive;
	int			max_live;
	bool		taken;			/* the image from before */
	bool		exists;			/* there is one */
	Scd2Image  *before;			/* undo: that image, */
	Datum		before_start;	/* and since when it is valid */
} EventReceiver;

/* The first letters tell; what was written by hand has none of these lengths, or is NULL. */
static ChangeType
change_type(EventReceiver *r, Datum value, bool isnull)
{
	text	   *type = isnull ? NULL : DatumGetTextPP(value);
	const char *letters = isnull ? "" : VARDATA_ANY(type);

	switch (isnull ? 0 : VARSIZE_ANY_EXHDR(type))
	{
		case 6:					/* insert, delete */
			return letters[0] == 'i' ? CHANGE_ADDS : CHANGE_TAKES;
		case 8:
			return CHANGE_TRUNCATES;
		case 15:
			return CHANGE_TAKES;	/* update_preimage */
		case 16:
			return CHANGE_ADDS; /* update_postimage */
		default:
			ereport(ERROR, (errcode(ERRCODE_DATA_EXCEPTION), errmsg("feed %s has a row without a type of change", r->flow->feed_sql)));
	}
}

static bool
precedes(const Place *a, const Place *b)
{
	return a->version < b->version || (a->version == b->version && a->ordinal < b->ordinal);
}

static void
add_event(EventReceiver *r, Scd2EventKind kind, Scd2Image *image)
{
	Scd2Event	event = {.sequence = TimestampTzGetDatum(r->place.timestamp), .kind = kind, .image = image};

	r->work->events++;
	scd2_timeline_event(&r->timeline, &event);
}

/* The version is complete for this key: its net effect. */
static void
finish_version(EventReceiver *r)
{
	if (!r->in_version)
		return;
	r->in_version = false;
	if (r->nlive > 0)
	{
		r->exists = true;
		add_event(r, SCD2_UPSERT, r->live[--r->nlive]);
	}
	else if (r->taken)
	{
		r->exists = false;
		add_event(r, SCD2_CLOSE, NULL);
	}
	while (r->nlive > 0)
		scd2_image_drop(r->live[--r->nlive]);
	r->taken = false;
}

static void
enter_version(EventReceiver *r, const Place *place)
{
	if (r->in_version && (r->undo || r->place.version == place->version))
		return;
	finish_version(r);
	r->in_version = true;
	r->place = *place;
	r->flow->at_version = place->version;
}

static void
truncate_key(EventReceiver *r, const Place *place)
{
	enter_version(r, place);
	while (r->nlive > 0)
		scd2_image_drop(r->live[--r->nlive]);
	r->taken = true;
}

/* Truncates that come before a row of the key, or (NULL) all that are left. */
static void
pass_truncates(EventReceiver *r, const Place *before)
{
	for (; r->next_truncate < r->ntruncates; r->next_truncate++)
	{
		Place	   *truncate = &r->truncates[r->next_truncate];

		if (before != NULL && precedes(before, truncate))
			break;
		truncate_key(r, truncate);
	}
}

/* What the row of the key was at the beginning goes into the target in place of what was copied. */
static void
undo_key(EventReceiver *r)
{
	Scd2Work  *work = r->work;
	Scd2Change	change = {.kind = SCD2_ROW_DELETE, .row = &r->row, .open = true};
	bool		as_copied;

	if (!r->taken && r->nlive == 0)
		return;
	as_copied = r->taken && r->has_row &&
		scd2_image_equal(&r->flow->shape, r->row.image, r->before->values, r->before->isnull) &&
		(r->flow->scd_type == 1 || DatumGetTimestampTz(r->row.start) == DatumGetTimestampTz(r->before_start));
	if (as_copied)
		return;
	if (r->has_row)
		scd2_work_emit(work, &change);
	if (r->taken)
	{
		change.kind = SCD2_ROW_INSERT;
		change.start = r->before_start;
		change.image = r->before;
		scd2_work_emit(work, &change);
	}
}

static void
finish_key(EventReceiver *r)
{
	if (!r->in_key)
		return;
	r->in_key = false;
	if (r->undo)
		undo_key(r);
	else
	{
		pass_truncates(r, NULL);
		finish_version(r);
		scd2_timeline_end(&r->timeline);
	}
	r->in_version = r->taken = false;
	r->nlive = 0;
	r->before = NULL;
	MemoryContextReset(r->work->key_cxt);
}

static void
begin_key(EventReceiver *r, const Datum *columns)
{
	Scd2Flow   *flow = r->flow;
	MemoryContext before = MemoryContextSwitchTo(r->work->key_cxt);

	r->in_key = true;
	r->next_truncate = 0;
	r->key = scd2_copy_key(flow, columns);
	MemoryContextSwitchTo(before);
	scd2_work_begin_key(r->work, r->key);
	r->has_row = scd2_work_last_row(r->work, &r->row);
	r->exists = r->has_row && r->row.open;
	if (r->undo)
		return;
	scd2_timeline_begin(&r->timeline);
	r->row_is_next = false;
	if (!r->has_row)
		return;
	if (r->ntruncates > 0 && r->row.open)
		scd2_work_touch(r->work, &r->row);
	r->row_is_next = true;
}

/* Events of a feed come in order: the last row of the key is all that the timeline has to see. */
static Scd2Row *
give_row(void *arg)
{
	EventReceiver *r = arg;

	if (!r->row_is_next)
		return NULL;
	r->row_is_next = false;
	return &r->row;
}

static void
take_change(void *arg, const Scd2Change *change)
{
	scd2_work_emit(((EventReceiver *) arg)->work, change);
}

static void
add_image(EventReceiver *r, const Datum *columns, const bool *nulls)
{
	MemoryContext before = MemoryContextSwitchTo(r->work->key_cxt);
	Scd2Image  *image = scd2_image_copy(&r->flow->shape, columns, nulls);

	MemoryContextSwitchTo(before);
	if (r->nlive == r->max_live)
	{
		r->max_live *= 2;
		r->live = repalloc(r->live, r->max_live * sizeof(Scd2Image *));
	}
	r->live[r->nlive++] = image;
}

static void
take_image(EventReceiver *r, const Datum *columns, const bool *nulls)
{
	for (int i = r->nlive - 1; i >= 0; i--)
		if (scd2_image_equal(&r->flow->shape, r->live[i], columns, nulls))
		{
			scd2_image_drop(r->live[i]);
			memmove(&r->live[i], &r->live[i + 1], (r->nlive - i - 1) * sizeof(Scd2Image *));
			r->nlive--;
			return;
		}
	if (r->undo && !r->taken)
	{
		MemoryContext before = MemoryContextSwitchTo(r->work->key_cxt);

		r->before = scd2_image_copy(&r->flow->shape, columns, nulls);
		r->before_start = columns[r->flow->shape.ncolumns];
		MemoryContextSwitchTo(before);
	}
	r->taken = true;
}

/* An update that left the key as it was: its pre-image is not here, and need not be. */
static void
replace_image(EventReceiver *r, const Datum *columns, const bool *nulls)
{
	if (r->nlive + (r->exists && !r->taken ? 1 : 0) > 1)
	{
		r->flow->all_images = true;
		ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
						errmsg("flow \"%s\" reads all images of version " INT64_FORMAT, r->flow->name, r->place.version)));
	}
	if (r->nlive > 0)
		scd2_image_drop(r->live[--r->nlive]);
	else
		r->taken = true;
	add_image(r, columns, nulls);
}

static void
remember_truncate(EventReceiver *r, const Place *place)
{
	int			at = r->ntruncates++;

	if (at == r->max_truncates)
	{
		r->max_truncates = Max(8, r->max_truncates * 2);
		r->truncates = r->truncates == NULL ?
			MemoryContextAlloc(r->work->cxt, r->max_truncates * sizeof(Place)) :
			repalloc(r->truncates, r->max_truncates * sizeof(Place));
	}
	for (; at > 0 && precedes(place, &r->truncates[at - 1]); at--)
		r->truncates[at] = r->truncates[at - 1];
	r->truncates[at] = *place;
	r->work->events++;
}

static void
check_key_not_null(EventReceiver *r, const bool *nulls, const Place *place)
{
	for (int i = 0; i < r->flow->nkeys; i++)
		if (nulls[r->flow->keys[i]])
			ereport(ERROR, (errcode(ERRCODE_NOT_NULL_VIOLATION),
							errmsg("key column \"%s\" of flow \"%s\" is NULL at version " INT64_FORMAT ", change %d",
								   r->flow->columns[r->flow->keys[i]], r->flow->name, place->version, place->ordinal)));
}

/* Remembers how far the batch goes, and where its last row is. */
static void
note_progress(EventReceiver *r, TupleTableSlot *slot, const Place *place)
{
	int			after = SCD2_EVENT_COLUMNS + r->flow->shape.ncolumns;

	if (place->version <= r->work->last_version)
		return;
	r->work->last_version = place->version;
	r->work->last_timestamp = place->timestamp;
	r->work->last_tid = *(ItemPointer) DatumGetPointer(slot->tts_values[after]);
	r->work->last_leaf = DatumGetObjectId(slot->tts_values[after + 1]);
}

/* A row of the feed as it is sorted; its values stay where they are. */
static void
fill_sort_row(EventReceiver *r, const Place *place, ChangeType type, const Datum *columns, const bool *nulls)
{
	TupleTableSlot *slot = r->sorter.row;
	int			n = r->flow->shape.ncolumns;

	ExecClearTuple(slot);
	slot->tts_values[SORT_VERSION] = Int64GetDatum(place->version);
	slot->tts_values[SORT_TIMESTAMP] = TimestampTzGetDatum(place->timestamp);
	slot->tts_values[SORT_CHANGE] = Int64GetDatum(((int64) place->ordinal << CHANGE_BITS) | type);
	memcpy(slot->tts_values + SORT_COLUMNS, columns, n * sizeof(Datum));
	memcpy(slot->tts_isnull + SORT_COLUMNS, nulls, n * sizeof(bool));
	if (r->undo)
	{
		slot->tts_values[SORT_COLUMNS + n] = columns[n + 2];
		slot->tts_isnull[SORT_COLUMNS + n] = nulls[n + 2];
	}
	ExecStoreVirtualTuple(slot);
}

static void
let_go(EventReceiver *r)
{
	if (r->holds)
		tuplesort_puttupleslot(r->sorter.sort, r->held);
	r->holds = false;
}

/* Is this the post-image of the pre-image held, under the same key? */
static bool
replaces_held(EventReceiver *r, const Place *place, const Datum *columns)
{
	const Datum *held = r->held->tts_values;

	if (DatumGetInt64(held[SORT_VERSION]) != place->version ||
		DatumGetInt64(held[SORT_CHANGE]) >> CHANGE_BITS != place->ordinal - 1)
		return false;
	for (int i = 0; i < r->flow->nkeys; i++)
	{
		int			c = r->flow->keys[i];

		if (!datum_image_eq(held[SORT_COLUMNS + c], columns[c], r->flow->shape.typbyval[c], r->flow->shape.typlen[c]))
			return false;
	}
	return true;
}

static bool
receive(TupleTableSlot *slot, DestReceiver *self)
{
	EventReceiver *r = (EventReceiver *) self;
	Datum	   *columns;
	bool	   *nulls;
	Place		place;
	ChangeType	type;

	slot_getallattrs(slot);
	columns = slot->tts_values + SCD2_EVENT_COLUMNS;
	nulls = slot->tts_isnull + SCD2_EVENT_COLUMNS;
	place.version = DatumGetInt64(slot->tts_values[SCD2_EVENT_VERSION]);
	place.ordinal = DatumGetInt32(slot->tts_values[SCD2_EVENT_ORDINAL]);
	place.timestamp = DatumGetTimestampTz(slot->tts_values[SCD2_EVENT_TIMESTAMP]);
	note_progress(r, slot, &place);
	type = change_type(r, slot->tts_values[SCD2_EVENT_TYPE], slot->tts_isnull[SCD2_EVENT_TYPE]);
	if (type == CHANGE_TRUNCATES)
	{
		remember_truncate(r, &place);
		return true;
	}
	check_key_not_null(r, nulls, &place);
	if (r->holds && type == CHANGE_ADDS && replaces_held(r, &place, columns))
	{
		r->holds = false;
		type = CHANGE_REPLACES;
	}
	let_go(r);
	fill_sort_row(r, &place, type, columns, nulls);
	if (type == CHANGE_TAKES && !r->flow->all_images && !r->undo)
	{
		ExecCopySlot(r->held, r->sorter.row);
		slot_getallattrs(r->held);
		r->holds = true;
	}
	else
		tuplesort_puttupleslot(r->sorter.sort, r->sorter.row);
	return true;
}

/* The plan reads the columns as they are now. */
static void
startup(DestReceiver *self, int operation, TupleDesc desc)
{
	static const Oid before[SCD2_EVENT_COLUMNS] = {TEXTOID, INT8OID, TIMESTAMPTZOID, INT4OID};
	static const Oid after[] = {TIDOID, OIDOID, TIMESTAMPTZOID};
	EventReceiver *r = (EventReceiver *) self;

	scd2_check_columns_read(r->flow, desc, SCD2_EVENT_COLUMNS, before, r->undo ? 3 : 2, after);
}

static void
shut_down(DestReceiver *self)
{
	let_go((EventReceiver *) self);
}

static void
destroy(DestReceiver *self)
{
}

/* Next row in the order of keys, versions and changes. */
static void
take_row(EventReceiver *r, TupleTableSlot *slot)
{
	Datum	   *columns;
	bool	   *nulls;
	int64		change;
	Place		place;

	columns = slot->tts_values + SORT_COLUMNS;
	nulls = slot->tts_isnull + SORT_COLUMNS;
	change = DatumGetInt64(slot->tts_values[SORT_CHANGE]);
	place.version = DatumGetInt64(slot->tts_values[SORT_VERSION]);
	place.timestamp = DatumGetTimestampTz(slot->tts_values[SORT_TIMESTAMP]);
	place.ordinal = change >> CHANGE_BITS;

	if (!r->in_key || !scd2_same_key(r->flow, r->key, columns))
	{
		finish_key(r);
		begin_key(r, columns);
	}
	pass_truncates(r, &place);
	enter_version(r, &place);
	switch (change & ((1 << CHANGE_BITS) - 1))
	{
		case CHANGE_ADDS:
			add_image(r, columns, nulls);
			break;
		case CHANGE_REPLACES:
			replace_image(r, columns, nulls);
			break;
		default:
			take_image(r, columns, nulls);
	}
}

static TupleDesc
sort_desc(Scd2Flow *flow, bool undo)
{
	int			n = flow->shape.ncolumns;
	TupleDesc	desc = CreateTemplateTupleDesc(SORT_COLUMNS + n + (undo ? 1 : 0));

	TupleDescInitEntry(desc, SORT_VERSION + 1, "version", INT8OID, -1, 0);
	TupleDescInitEntry(desc, SORT_TIMESTAMP + 1, "at", TIMESTAMPTZOID, -1, 0);
	TupleDescInitEntry(desc, SORT_CHANGE + 1, "change", INT8OID, -1, 0);
	for (int i = 0; i < n; i++)
		TupleDescCopyEntry(desc, SORT_COLUMNS + i + 1, flow->store_desc[SCD2_INSERTS], i + 1);
	if (undo)
		TupleDescInitEntry(desc, SORT_COLUMNS + n + 1, "starts", TIMESTAMPTZOID, -1, 0);
	return desc;
}

/* By key, version and change. */
static void
begin_sort(EventReceiver *r)
{
	TupleDesc	desc = sort_desc(r->flow, r->undo);
	Scd2SortColumn then[] = {
		{.attnum = SORT_VERSION + 1, .less = Int8LessOperator},
		{.attnum = SORT_CHANGE + 1, .less = Int8LessOperator}
	};

	scd2_sorter_begin(&r->sorter, r->flow, desc, SORT_COLUMNS, lengthof(then), then);
	r->held = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
}

/* All rows are here: key by key. */
static void
take_rows(EventReceiver *r)
{
	if (r->ntruncates > 0)
		scd2_work_truncated(r->work, r->truncates[0].timestamp);
	scd2_sorter_turn(&r->sorter, r->work);
	while (scd2_sorter_next(&r->sorter))
		take_row(r, r->sorter.sorted);
	finish_key(r);
	scd2_sorter_end(&r->sorter, r->work);
	ExecDropSingleTupleTableSlot(r->held);
}

/*
 * Parameters for a plan that is executed with options; none of them NULL.
 */
ParamListInfo
scd2_params(SPIPlanPtr plan, int nargs, const Datum *args)
{
	ParamListInfo params = makeParamList(nargs);

	for (int i = 0; i < nargs; i++)
	{
		params->params[i].value = args[i];
		params->params[i].isnull = false;
		params->params[i].pflags = PARAM_FLAG_CONST;
		params->params[i].ptype = SPI_getargtypeid(plan, i);
	}
	return params;
}

static void
run_query(EventReceiver *r, Scd2Statement which, int nargs, const Datum *args)
{
	SPIPlanPtr	plan = scd2_flow_plan(r->flow, which);
	SPIExecuteOptions options = {.dest = &r->pub};
	int			nest = NewGUCNestLevel();
	int			result;

	if (r->flow->source_filter != NULL || r->flow->apply_as_deletes != NULL || r->flow->apply_as_truncates != NULL)
		scd2_use_settings(r->flow, which);
	else if (which == SCD2_READ_TAIL)
		(void) set_config_option("enable_bitmapscan", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	options.params = scd2_params(plan, nargs, args);
	result = SPI_execute_plan_extended(plan, &options);
	if (result < 0)
		elog(ERROR, "reading the feed failed: %s", SPI_result_code_string(result));
	AtEOXact_GUC(true, nest);
}

/*
 * Reads events by one of the READ statements and has the row changes that follow from them made.
 */
void
scd2_read_events(Scd2Work *work, Scd2Statement which, int nargs, const Datum *args)
{
	Scd2Flow   *flow = work->flow;
	EventReceiver r = {
		.pub = {.receiveSlot = receive, .rStartup = startup, .rShutdown = shut_down, .rDestroy = destroy, .mydest = DestNone},
		.work = work,
		.flow = flow,
		.undo = which == SCD2_READ_SEEN,
		.max_live = 8
	};
	MemoryContext before = MemoryContextSwitchTo(work->cxt);

	r.live = palloc(r.max_live * sizeof(Scd2Image *));
	r.timeline.shape = &flow->shape;
	r.timeline.scd_type = flow->scd_type;
	r.timeline.compare = flow->sequence_compare;
	r.timeline.sequence_typlen = sizeof(TimestampTz);
	r.timeline.sequence_typbyval = FLOAT8PASSBYVAL;
	r.timeline.use.arg = &r;
	r.timeline.use.next_row = give_row;
	r.timeline.use.change = take_change;
	begin_sort(&r);
	run_query(&r, which, nargs, args);
	MemoryContextSwitchTo(work->cxt);
	take_rows(&r);
	MemoryContextSwitchTo(before);
}
