/*
 * events.c
 *		From the rows of a feed, sorted by key, to events of each key.
 *
 * With a feed's default sequence a key has one event per version: its net effect. Per key, the images that are live are counted: an insert or post-image adds one,
 * a pre-image or delete takes away an equal one, else the one from before the version; a TRUNCATE takes away all. What is left at the end is the
 * upsert; nothing left is a close if the image from before was taken, else nothing. (Not "the last row decides": over a deferrable key SET id = id + 1 makes 1 -> 2,
 * 2 -> 3, 3 -> 4, and the last row of keys 2 and 3 is a pre-image.)
 *
 * Undoing (the first copy) counts over all versions at once, and asks the opposite: the image that was taken without having been added is what the key was at the beginning;
 * if there is none and something was added, there was no row.
 */
#include "postgres.h"

#include "access/genam.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "tcop/dest.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "flow/work.h"
#include "flow/statements.h"

typedef enum ChangeType
{
	CHANGE_ADDS,				/* insert, update_postimage */
	CHANGE_TAKES,				/* delete, update_preimage */
	CHANGE_TRUNCATES
} ChangeType;

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
	bool		with_tid;

	Place	   *truncates;		/* in order; they come before the first key */
	int			ntruncates;

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
	Scd2Image  *before;			/* undo: that image, */
	Datum		before_start;	/* and since when it is valid */
} EventReceiver;

static ChangeType
change_type(Datum value)
{
	const char *text = VARDATA_ANY(DatumGetPointer(value));

	switch (text[0])
	{
		case 'i':
			return CHANGE_ADDS;
		case 'd':
			return CHANGE_TAKES;
		case 't':
			return CHANGE_TRUNCATES;
		default:
			return text[8] == 'r' ? CHANGE_TAKES : CHANGE_ADDS; /* update_preimage, update_postimage */
	}
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
		add_event(r, SCD2_UPSERT, r->live[--r->nlive]);
	else if (r->taken)
		add_event(r, SCD2_CLOSE, NULL);
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

		if (before != NULL &&
			(truncate->version > before->version ||
			 (truncate->version == before->version && truncate->ordinal > before->ordinal)))
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
	r->key = palloc(flow->nkeys * sizeof(Datum));
	for (int i = 0; i < flow->nkeys; i++)
	{
		int			c = flow->keys[i];

		r->key[i] = flow->shape.typbyval[c] ? columns[c] :
			datumCopy(columns[c], false, flow->shape.typlen[c]);
	}
	MemoryContextSwitchTo(before);
	r->has_row = scd2_work_last_row(r->work, r->key, &r->row);
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

static bool
same_key(EventReceiver *r, const Datum *columns)
{
	Scd2Flow   *flow = r->flow;

	if (!r->in_key)
		return false;
	for (int i = 0; i < flow->nkeys; i++)
	{
		int			c = flow->keys[i];

		if (datum_image_eq(r->key[i], columns[c], flow->shape.typbyval[c], flow->shape.typlen[c]))
			continue;
		if (DatumGetInt32(FunctionCall2Coll(&flow->key_compare[i], flow->key_collation[i],
											r->key[i], columns[c])) != 0)
			return false;
	}
	return true;
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

static void
remember_truncate(EventReceiver *r, const Place *place)
{
	if (r->ntruncates == 0)
	{
		r->truncates = MemoryContextAlloc(r->work->cxt, sizeof(Place));
		scd2_work_truncated(r->work, place->timestamp);
	}
	else
		r->truncates = repalloc(r->truncates, (r->ntruncates + 1) * sizeof(Place));
	r->truncates[r->ntruncates++] = *place;
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

static bool
receive(TupleTableSlot *slot, DestReceiver *self)
{
	EventReceiver *r = (EventReceiver *) self;
	Place		place;
	ChangeType	type;
	Datum	   *columns;
	bool	   *nulls;

	slot_getallattrs(slot);
	columns = slot->tts_values + SCD2_EVENT_COLUMNS;
	nulls = slot->tts_isnull + SCD2_EVENT_COLUMNS;
	place.version = DatumGetInt64(slot->tts_values[SCD2_EVENT_VERSION]);
	place.ordinal = DatumGetInt32(slot->tts_values[SCD2_EVENT_ORDINAL]);
	place.timestamp = DatumGetTimestampTz(slot->tts_values[SCD2_EVENT_TIMESTAMP]);
	if (place.version > r->work->last_version)
	{
		r->work->last_version = place.version;
		r->work->last_timestamp = place.timestamp;
		if (r->with_tid)
			r->work->last_tid = *(ItemPointer) DatumGetPointer(columns[r->flow->shape.ncolumns]);
	}

	type = change_type(slot->tts_values[SCD2_EVENT_TYPE]);
	if (type == CHANGE_TRUNCATES)
	{
		remember_truncate(r, &place);
		return true;
	}
	check_key_not_null(r, nulls, &place);
	if (!same_key(r, columns))
	{
		finish_key(r);
		begin_key(r, columns);
	}
	pass_truncates(r, &place);
	enter_version(r, &place);
	if (type == CHANGE_ADDS)
		add_image(r, columns, nulls);
	else
		take_image(r, columns, nulls);
	return true;
}

static void
startup(DestReceiver *self, int operation, TupleDesc desc)
{
	scd2_work_start_lookups(((EventReceiver *) self)->work);
}

static void
shutdown_receiver(DestReceiver *self)
{
	EventReceiver *r = (EventReceiver *) self;

	finish_key(r);
	scd2_work_stop_lookups(r->work);
}

static void
destroy(DestReceiver *self)
{
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
		params->params[i].ptype = SPI_getargtypeid(plan, i);
	}
	return params;
}

/*
 * Reads events by one of the READ statements and has the batch collect the row changes that follow from them.
 */
void
scd2_read_events(Scd2Work *work, Scd2Statement which, int nargs, const Datum *args)
{
	Scd2Flow   *flow = work->flow;
	SPIExecuteOptions options = {0};
	EventReceiver r = {
		.pub = {.receiveSlot = receive, .rStartup = startup, .rShutdown = shutdown_receiver, .rDestroy = destroy, .mydest = DestNone},
		.work = work,
		.flow = flow,
		.undo = which == SCD2_READ_SEEN,
		.with_tid = which == SCD2_READ_TAIL,
		.max_live = 8
	};
	int			nest = NewGUCNestLevel();
	SPIPlanPtr	plan;
	int			result;

	r.live = MemoryContextAlloc(work->cxt, r.max_live * sizeof(Scd2Image *));
	r.timeline.shape = &flow->shape;
	r.timeline.scd_type = flow->scd_type;
	r.timeline.compare = flow->sequence_compare;
	r.timeline.use.arg = &r;
	r.timeline.use.next_row = give_row;
	r.timeline.use.change = take_change;
	if (which == SCD2_READ_TAIL)
		(void) set_config_option("enable_bitmapscan", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	plan = scd2_flow_plan(flow, which);
	options.params = scd2_params(plan, nargs, args);
	options.dest = &r.pub;
	result = SPI_execute_plan_extended(plan, &options);
	if (result < 0)
		elog(ERROR, "reading the feed failed: %s", SPI_result_code_string(result));
	AtEOXact_GUC(true, nest);
}
