/*
 * recall.c
 *		What a target's rows do not show of the events behind them: <target>_memory.
 *
 * Of type 2 a row per key and sequence, with the untracked values of the event before (the timeline
 * says why that is enough); key columns are untracked too: they hold the spelling that they had in
 * the event before. Of type 1 a row per key: its last event. Where the sequence is a selected
 * column, the rows of a type 1 target show it themselves, and only deletes are remembered.
 *
 * Where NULL says nothing, of type 2 whatever was sent is kept as it was, in columns of the same
 * names, and is complete; of type 1 an array says since when each such column is as it is, in the
 * order of the target's columns.
 *
 * The table is ours alone, an ordinary heap in the target's schema, so it is written directly.
 * In-order input finds it empty, and then it is not looked into at all.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "flow/gather.h"
#include "flow/recall.h"
#include "flow/relations.h"

struct Scd2Recall
{
	Scd2Work   *work;
	Relation	rel;
	Relation	index;
	Scd2Finder *finder;			/* NULL: the table is empty, or no lookups now */
	Scd2Reading reading;
	Scd2Gather *gather;			/* NULL: nothing to write yet */
	TupleTableSlot *changed;
	Datum	   *values;			/* of a row of the table */
	bool	   *nulls;
	Datum	   *image_values;	/* of the selected columns */
	bool	   *image_nulls;
};

/*
 * Locks the memory; as the target's owner.
 */
Scd2Recall *
scd2_recall_begin(Scd2Work *work)
{
	Scd2Flow   *flow = work->flow;
	Scd2Recall *recall = palloc0(sizeof(Scd2Recall));
	char	   *label = psprintf("memory %s", flow->memory_sql);
	int			natts;

	recall->work = work;
	recall->rel = scd2_open_to_write(flow->memory, label);
	scd2_check_memory(flow, recall->rel);
	recall->index = scd2_open_primary_key(recall->rel, flow->memory_index, label);
	if (recall->rel->rd_rel->relowner != work->target->rd_rel->relowner)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("memory %s must be a table of the owner of target %s", flow->memory_sql, flow->target_sql),
						errhint("ALTER TABLE %s OWNER TO %s; SELECT scd2.resume_flow(%s);", flow->memory_sql,
								quote_identifier(GetUserNameFromId(work->target->rd_rel->relowner, false)), quote_literal_cstr(flow->name))));
	natts = RelationGetDescr(recall->rel)->natts;
	recall->values = palloc(natts * sizeof(Datum));
	recall->nulls = palloc(natts * sizeof(bool));
	recall->image_values = palloc0(flow->shape.ncolumns * sizeof(Datum));
	recall->image_nulls = palloc(flow->shape.ncolumns * sizeof(bool));
	return recall;
}

void
scd2_recall_end(Scd2Recall *recall)
{
	index_close(recall->index, NoLock);
	table_close(recall->rel, NoLock);
}

void
scd2_recall_start_lookups(Scd2Recall *recall)
{
	if (RelationGetNumberOfBlocks(recall->rel) > 0)
		recall->finder = scd2_finder_begin(recall->work->flow, recall->rel, recall->index);
}

void
scd2_recall_stop_lookups(Scd2Recall *recall)
{
	if (recall->finder != NULL)
		scd2_finder_end(recall->finder);
	recall->finder = NULL;
}

/*
 * See scd2_work_begin_key().
 */
void
scd2_recall_begin_key(Scd2Recall *recall, const Datum *key)
{
	recall->reading = SCD2_READ_NOTHING;
	if (recall->finder != NULL)
		scd2_finder_begin_key(recall->finder, key);
}

/* The values of the selected columns in the row found; of columns that it does not have, NULL. */
static Scd2Image *
read_image(Scd2Recall *recall)
{
	Scd2Flow   *flow = recall->work->flow;
	TupleTableSlot *slot = recall->finder->slot;
	Scd2Image  *image;

	for (int i = 0; i < flow->shape.ncolumns; i++)
	{
		AttrNumber	attnum = flow->memory_attnums[i];

		recall->image_nulls[i] = attnum == 0 || slot->tts_isnull[attnum - 1];
		if (attnum != 0)
			recall->image_values[i] = slot->tts_values[attnum - 1];
	}
	image = scd2_image_copy(&flow->shape, recall->image_values, recall->image_nulls);
	image->borrowed = true;
	return image;
}

/*
 * Type 1: since when each column that ignores NULL is as it is. A column that is newer than the row
 * never was sent.
 */
static void
read_since(Scd2Recall *recall, Scd2Memory *memory)
{
	Scd2Flow   *flow = recall->work->flow;
	TupleTableSlot *slot = recall->finder->slot;
	int			n = flow->shape.ncolumns;
	int			nelements = 0;
	int			at = 0;
	Datum	   *elements = NULL;
	bool	   *nulls = NULL;

	memory->since = palloc0(n * sizeof(Datum));
	memory->never = palloc(n * sizeof(bool));
	if (!slot->tts_isnull[flow->memory_sequences - 1])
		deconstruct_array(DatumGetArrayTypePCopy(slot->tts_values[flow->memory_sequences - 1]), flow->sequence_type,
						  flow->sequence_typlen, flow->sequence_typbyval, flow->sequence_typalign, &elements, &nulls, &nelements);
	for (int i = 0; i < n; i++)
	{
		memory->never[i] = !flow->shape.ignores_null[i] || at >= nelements || nulls[at];
		if (!memory->never[i])
			memory->since[i] = elements[at];
		at += flow->shape.ignores_null[i];
	}
}

/* What a row can tell of its event: each kind has what the timeline expects of it. Somebody may have written another. */
static void
check_kind(Scd2Flow *flow, char kind)
{
	const char *kinds = flow->scd_type == 1 ? "vdc" : flow->shape.ignores_null != NULL ? "swdc" : "uvdc";

	if (kind == '\0' || strchr(kinds, kind) == NULL)
		ereport(ERROR, (errcode(ERRCODE_DATA_EXCEPTION),
						errmsg("memory %s has a row of a kind that no flow has written", flow->memory_sql),
						errhint("SELECT scd2.full_refresh(%s);", quote_literal_cstr(flow->target_sql))));
}

/* The row found, in the key's memory. */
static Scd2Memory *
read_memory(Scd2Recall *recall)
{
	Scd2Flow   *flow = recall->work->flow;
	TupleTableSlot *slot = recall->finder->slot;
	MemoryContext before = MemoryContextSwitchTo(recall->work->key_cxt);
	Scd2Memory *memory = palloc0(sizeof(Scd2Memory));

	slot_getallattrs(slot);
	memory->tid = slot->tts_tid;
	memory->sequence = datumCopy(slot->tts_values[flow->memory_sequence - 1], flow->sequence_typbyval, flow->sequence_typlen);
	memory->kind = DatumGetChar(slot->tts_values[flow->memory_kind - 1]);
	check_kind(flow, memory->kind);
	if (!slot->tts_isnull[flow->memory_version - 1])
	{
		memory->place.version = DatumGetInt64(slot->tts_values[flow->memory_version - 1]);
		memory->place.ordinal = DatumGetInt32(slot->tts_values[flow->memory_ordinal - 1]);
	}
	if (memory->kind == SCD2_REMEMBER_HIDDEN)
		memory->before = read_image(recall);
	else if (memory->kind == SCD2_REMEMBER_SENT || memory->kind == SCD2_REMEMBER_WHOLE)
	{
		memory->sent = read_image(recall);
		memory->sent->whole = memory->kind == SCD2_REMEMBER_WHOLE;
	}
	if (flow->memory_sequences != 0)
		read_since(recall, memory);
	MemoryContextSwitchTo(before);
	return memory;
}

static bool
below(Scd2Recall *recall, Datum lowest)
{
	Scd2Flow   *flow = recall->work->flow;
	bool		isnull;

	return DatumGetInt32(FunctionCall2Coll(&flow->sequence_compare, flow->sequence_collation,
										   slot_getattr(recall->finder->slot, flow->memory_sequence, &isnull), lowest)) < 0;
}

/*
 * Has the row, which begins below "lowest", an upsert at or above it that must be resolved? Then
 * all that was sent since its beginning is needed.
 */
static bool
goes_on_inside(Scd2Recall *recall, Datum lowest, const Scd2Row *row)
{
	Scd2Flow   *flow = recall->work->flow;
	bool		isnull;

	if (!flow->ignores_untracked || row == NULL)
		return false;
	if (DatumGetInt32(FunctionCall2Coll(&flow->sequence_compare, flow->sequence_collation, row->start, lowest)) >= 0 ||
		!scd2_finder_first_from(recall->finder, lowest))
		return false;
	return row->open ||
		DatumGetInt32(FunctionCall2Coll(&flow->sequence_compare, flow->sequence_collation,
										slot_getattr(recall->finder->slot, flow->memory_sequence, &isnull), row->end)) < 0;
}

/*
 * Moves on to the next of the key's memories that the timeline needs: those from "lowest" on, which
 * mostly are none. Where NULL says nothing, the last below it comes before.
 */
static bool
find_next(Scd2Recall *recall, Datum lowest, const Scd2Row *first)
{
	Scd2Finder *finder = recall->finder;
	Scd2Flow   *flow = recall->work->flow;

	switch (recall->reading)
	{
		case SCD2_READ_NOTHING:
			recall->reading = SCD2_READING_ON;
			if (flow->scd_type == 2 && flow->shape.ignores_null == NULL)
				return scd2_finder_first_from(finder, lowest);
			recall->reading = SCD2_READ_ALL;
			if (!scd2_finder_last(finder))
				return false;
			if (flow->scd_type == 1 || below(recall, lowest))
				return true;
			if (goes_on_inside(recall, lowest, first))
			{
				recall->reading = SCD2_READING_ON;
				return scd2_finder_first_from(finder, first->start);
			}
			recall->reading = SCD2_READ_BELOW;
			if (scd2_finder_last_below(finder, lowest))
				return true;
			/* FALLTHROUGH */
		case SCD2_READ_BELOW:
			recall->reading = SCD2_READING_ON;
			return scd2_finder_first_from(finder, lowest);
		case SCD2_READING_ON:
			if (scd2_finder_next(finder))
				return true;
			recall->reading = SCD2_READ_ALL;
			break;
		case SCD2_READ_ALL:
			break;
	}
	return false;
}

/*
 * What a type 1 row shows of its last event, where that is a column of it. No event has NULL there,
 * but a trigger can have put it there: then nothing is known of the event, and any other replaces it.
 */
static Scd2Memory *
shown_by(Scd2Recall *recall, const Scd2Row *row)
{
	int			column = recall->work->flow->sequence_column;
	Scd2Memory *memory;

	recall->reading = SCD2_READ_ALL;
	if (row->image->isnull[column])
		return NULL;
	memory = MemoryContextAllocZero(recall->work->key_cxt, sizeof(Scd2Memory));
	memory->sequence = row->image->values[column];
	memory->kind = SCD2_REMEMBER_START;
	return memory;
}

/*
 * The next memory of the key in work, NULL at the end; see scd2_work_next_row(). "first": the first
 * of the rows that were given, NULL if there is none.
 */
Scd2Memory *
scd2_recall_next(Scd2Recall *recall, Datum lowest, const Scd2Row *first)
{
	if (recall->reading == SCD2_READ_NOTHING && recall->work->flow->sequence_column >= 0 && first != NULL)
		return shown_by(recall, first);
	if (recall->finder == NULL || !find_next(recall, lowest, first))
		return NULL;
	return read_memory(recall);
}

/*
 * The first memory of the key at or above a sequence, NULL if there is none. In the key's memory.
 */
Scd2Memory *
scd2_recall_first_from(Scd2Recall *recall, Datum sequence)
{
	if (recall->finder == NULL || !scd2_finder_first_from(recall->finder, sequence))
		return NULL;
	return read_memory(recall);
}

static void
set_column(Scd2Recall *recall, AttrNumber attnum, Datum value, bool isnull)
{
	recall->values[attnum - 1] = value;
	recall->nulls[attnum - 1] = isnull;
}

static Datum
array_of_since(Scd2Recall *recall, const Scd2Memory *memory)
{
	Scd2Flow   *flow = recall->work->flow;
	Datum	   *elements = palloc(flow->shape.ncolumns * sizeof(Datum));
	bool	   *nulls = palloc(flow->shape.ncolumns * sizeof(bool));
	int			n = 0;
	int			lower = 1;

	for (int i = 0; i < flow->shape.ncolumns; i++)
		if (flow->shape.ignores_null[i])
		{
			elements[n] = memory->since[i];
			nulls[n++] = memory->never[i];
		}
	return PointerGetDatum(construct_md_array(elements, nulls, 1, &n, &lower, flow->sequence_type,
											  flow->sequence_typlen, flow->sequence_typbyval, flow->sequence_typalign));
}

/* The table's row for a memory, in values and nulls. */
static void
form_row(Scd2Recall *recall, const Datum *key, const Scd2Memory *memory)
{
	Scd2Flow   *flow = recall->work->flow;
	bool		hidden = memory->kind == SCD2_REMEMBER_HIDDEN;

	memset(recall->nulls, true, RelationGetDescr(recall->rel)->natts * sizeof(bool));
	for (int i = 0; hidden && i < flow->shape.ncolumns; i++)
		if (flow->memory_attnums[i] != 0 && !flow->shape.tracked[i])
			set_column(recall, flow->memory_attnums[i], memory->before->values[i], memory->before->isnull[i]);
	for (int i = 0; memory->sent != NULL && i < flow->shape.ncolumns; i++)
		set_column(recall, flow->memory_attnums[i], memory->sent->values[i], memory->sent->isnull[i]);
	for (int k = 0; !hidden && memory->sent == NULL && k < flow->nkeys; k++)
		set_column(recall, flow->memory_attnums[flow->keys[k]], key[k], false);
	if (memory->since != NULL && memory->kind == SCD2_REMEMBER_START)
		set_column(recall, flow->memory_sequences, array_of_since(recall, memory), false);
	set_column(recall, flow->memory_sequence, memory->sequence, false);
	set_column(recall, flow->memory_kind, CharGetDatum(memory->kind), false);
	set_column(recall, flow->memory_version, Int64GetDatum(memory->place.version), memory->place.version == 0);
	set_column(recall, flow->memory_ordinal, Int32GetDatum(memory->place.ordinal), memory->place.version == 0);
}

static void
update_row(Scd2Recall *recall, const Scd2Memory *was)
{
	ItemPointerData tid = was->tid;
	int			natts = RelationGetDescr(recall->rel)->natts;

	if (recall->changed == NULL)
	{
		MemoryContext before = MemoryContextSwitchTo(recall->work->cxt);

		recall->changed = MakeSingleTupleTableSlot(RelationGetDescr(recall->rel), &TTSOpsVirtual);
		MemoryContextSwitchTo(before);
	}
	ExecClearTuple(recall->changed);
	memcpy(recall->changed->tts_values, recall->values, natts * sizeof(Datum));
	memcpy(recall->changed->tts_isnull, recall->nulls, natts * sizeof(bool));
	ExecStoreVirtualTuple(recall->changed);
	recall->changed->tts_tableOid = RelationGetRelid(recall->rel);
	scd2_update_tuple(recall->gather->rri, &tid, recall->changed, recall->gather->estate);
	ResetPerTupleExprContext(recall->gather->estate);
}

/*
 * Remembers "now" (NULL: nothing) in place of "was" (NULL: nothing).
 */
void
scd2_recall_change(Scd2Recall *recall, const Datum *key, const Scd2Memory *was, const Scd2Memory *now)
{
	ItemPointerData tid;

	if (was != NULL && !ItemPointerIsValid(&was->tid))
		was = NULL;				/* the target's row showed it */
	if (now != NULL && now->kind == SCD2_REMEMBER_START && recall->work->flow->sequence_column >= 0)
		now = NULL;				/* and will show it */
	if (was == NULL && now == NULL)
		return;
	if (recall->gather == NULL)
	{
		MemoryContext before = MemoryContextSwitchTo(recall->work->cxt);

		recall->gather = scd2_gather_begin(recall->rel);
		MemoryContextSwitchTo(before);
	}
	if (now != NULL)
		form_row(recall, key, now);
	if (now != NULL && was != NULL)
		update_row(recall, was);
	else if (now != NULL)
		scd2_gather_row(recall->gather, recall->values, recall->nulls);
	else
	{
		tid = was->tid;
		simple_table_tuple_delete(recall->rel, &tid, GetActiveSnapshot());
	}
}

/*
 * All that was to be remembered is written.
 */
void
scd2_recall_write(Scd2Recall *recall)
{
	if (recall->gather != NULL)
		scd2_gather_end(recall->gather);
	recall->gather = NULL;
	if (recall->changed != NULL)
		ExecDropSingleTupleTableSlot(recall->changed);
	recall->changed = NULL;
}
