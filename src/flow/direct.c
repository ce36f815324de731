/*
 * direct.c
 *		Writing a plain target without going through SQL.
 *
 * A batch writes rows that it has just looked up, in key order. Through the executor each of them
 * is put into a tuplestore, read again, joined with the target by its place, fetched again and
 * rebuilt; measured for a million closes and inserts, that is half of all time. Here a close is one
 * update of the row at hand, and inserts go in a page at a time.
 *
 * Only for targets where that is the same as INSERT, UPDATE and DELETE: an ordinary heap of the
 * shape that flows create, perhaps with more columns and indexes. Triggers other than the guard,
 * generated columns, defaults, domains, bounds of a partition, row security in force, deferrable or
 * foreign unique indexes: those go through SQL (work.c). Checks are checked and all indexes kept, as
 * the target's owner, who we are.
 *
 * Rows that end are written at once, new ones gathered and written after; so unique indexes must
 * not reach across keys.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "flow/direct.h"
#include "flow/gather.h"

struct Scd2Direct
{
	Scd2Work   *work;
	Relation	rel;
	Scd2Gather *gather;
	TupleTableSlot *changed;	/* a row as it becomes */
	TupleTableSlot *fetched;	/* a row that is not at hand */
	Datum	   *values;			/* of a new row */
	bool	   *nulls;
};

/* No column that INSERT would treat in a way of its own. */
static bool
columns_are_plain(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped)
			continue;
		if (att->atthasdef || att->attgenerated != '\0' || att->attidentity != '\0' ||
			get_typtype(att->atttypid) == TYPTYPE_DOMAIN)
			return false;
	}
	return true;
}

static bool
has_column(IndexInfo *info, AttrNumber attnum)
{
	for (int i = 0; i < info->ii_NumIndexKeyAttrs; i++)
		if (info->ii_IndexAttrNumbers[i] == attnum)
			return true;
	return false;
}

/* Does uniqueness never compare rows of two keys? */
static bool
index_is_plain(Scd2Flow *flow, Relation index, IndexInfo *info)
{
	if (info->ii_ExclusionOps != NULL || !index->rd_index->indimmediate)
		return false;
	for (int k = 0; info->ii_Unique && k < flow->nkeys; k++)
		if (!has_column(info, flow->attnums[flow->keys[k]]))
			return false;
	return true;
}

static bool
indexes_are_plain(Scd2Flow *flow, ResultRelInfo *rri)
{
	for (int i = 0; i < rri->ri_NumIndices; i++)
		if (!index_is_plain(flow, rri->ri_IndexRelationDescs[i], rri->ri_IndexRelationInfo[i]))
			return false;
	return true;
}

/*
 * NULL: the target must be written by SQL.
 */
Scd2Direct *
scd2_direct_begin(Scd2Work *work)
{
	Relation	rel = work->target;
	int			natts = RelationGetDescr(rel)->natts;
	Scd2Gather *gather;
	Scd2Direct *direct;

	if (!work->plain_triggers || rel->rd_rel->relam != HEAP_TABLE_AM_OID || rel->rd_rules != NULL ||
		rel->rd_rel->relispartition || rel->rd_rel->relforcerowsecurity || !columns_are_plain(rel))
		return NULL;
	gather = scd2_gather_begin(rel);
	if (!indexes_are_plain(work->flow, gather->rri))
	{
		scd2_gather_end(gather);
		return NULL;
	}
	direct = palloc0(sizeof(Scd2Direct));
	direct->work = work;
	direct->rel = rel;
	direct->gather = gather;
	direct->changed = MakeSingleTupleTableSlot(RelationGetDescr(rel), &TTSOpsVirtual);
	direct->values = palloc(natts * sizeof(Datum));
	direct->nulls = palloc(natts * sizeof(bool));
	return direct;
}

static void
set_column(Datum *values, bool *nulls, AttrNumber attnum, Datum value, bool isnull)
{
	values[attnum - 1] = value;
	nulls[attnum - 1] = isnull;
}

/* The columns of the flow, as the change leaves them. */
static void
set_columns(Scd2Direct *direct, Datum *values, bool *nulls, const Scd2Change *change)
{
	Scd2Flow   *flow = direct->work->flow;

	if (change->kind != SCD2_ROW_CLOSE)
		for (int i = 0; i < flow->shape.ncolumns; i++)
			set_column(values, nulls, flow->attnums[i], change->image->values[i], change->image->isnull[i]);
	if (flow->scd_type == 1)
		return;
	set_column(values, nulls, flow->end_attnum, change->end, change->open);
	if (flow->current_attnum != 0)
		set_column(values, nulls, flow->current_attnum, BoolGetDatum(change->open), false);
}

/*
 * A new row; it is written with the next page of them. Copies what it needs.
 */
void
scd2_direct_insert(Scd2Direct *direct, const Scd2Change *change)
{
	memset(direct->nulls, true, RelationGetDescr(direct->rel)->natts * sizeof(bool));
	set_columns(direct, direct->values, direct->nulls, change);
	if (direct->work->flow->scd_type == 2)
		set_column(direct->values, direct->nulls, direct->work->flow->start_attnum, change->start, false);
	scd2_gather_row(direct->gather, direct->values, direct->nulls);
	direct->work->inserted++;
}

/* The row as it is: mostly the one that was looked up last. */
static TupleTableSlot *
row_slot(Scd2Direct *direct, const Scd2Row *row)
{
	TupleTableSlot *slot = direct->work->rows ? direct->work->rows->slot : NULL;
	ItemPointerData tid = row->tid;

	if (slot != NULL && !TTS_EMPTY(slot) && ItemPointerEquals(&slot->tts_tid, &tid))
		return slot;
	if (direct->fetched == NULL)
	{
		MemoryContext before = MemoryContextSwitchTo(direct->work->cxt);

		direct->fetched = table_slot_create(direct->rel, NULL);
		MemoryContextSwitchTo(before);
	}
	if (!table_tuple_fetch_row_version(direct->rel, &tid, GetActiveSnapshot(), direct->fetched))
		elog(ERROR, "row (%u,%u) of the target is gone",
			 ItemPointerGetBlockNumber(&tid), ItemPointerGetOffsetNumber(&tid));
	return direct->fetched;
}

static void
update_row(Scd2Direct *direct, const Scd2Change *change)
{
	TupleTableSlot *slot = row_slot(direct, change->row);
	TupleTableSlot *changed = direct->changed;
	int			natts = RelationGetDescr(direct->rel)->natts;
	ItemPointerData tid = change->row->tid;

	slot_getallattrs(slot);
	ExecClearTuple(changed);
	memcpy(changed->tts_values, slot->tts_values, natts * sizeof(Datum));
	memcpy(changed->tts_isnull, slot->tts_isnull, natts * sizeof(bool));
	set_columns(direct, changed->tts_values, changed->tts_isnull, change);
	ExecStoreVirtualTuple(changed);
	changed->tts_tableOid = RelationGetRelid(direct->rel);
	scd2_gather_check(direct->gather, changed);
	scd2_update_tuple(direct->gather->rri, &tid, changed, direct->gather->estate);
	ResetPerTupleExprContext(direct->gather->estate);
	direct->work->updated++;
}

/*
 * Writes a change, a new row perhaps later.
 */
void
scd2_direct_emit(Scd2Direct *direct, const Scd2Change *change)
{
	ItemPointerData tid;

	switch (change->kind)
	{
		case SCD2_ROW_INSERT:
			scd2_direct_insert(direct, change);
			break;
		case SCD2_ROW_CLOSE:
		case SCD2_ROW_REWRITE:
			update_row(direct, change);
			break;
		case SCD2_ROW_DELETE:
			tid = change->row->tid;
			simple_table_tuple_delete(direct->rel, &tid, GetActiveSnapshot());
			direct->work->deleted++;
			break;
	}
}

/*
 * Writes the rows gathered so far.
 */
void
scd2_direct_flush(Scd2Direct *direct)
{
	scd2_gather_flush(direct->gather);
}

void
scd2_direct_end(Scd2Direct *direct)
{
	scd2_gather_end(direct->gather);
	ExecDropSingleTupleTableSlot(direct->changed);
	if (direct->fetched != NULL)
		ExecDropSingleTupleTableSlot(direct->fetched);
	CommandCounterIncrement();
}
