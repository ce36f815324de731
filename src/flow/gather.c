/*
 * gather.c
 *		Writing new rows of a plain heap a page at a time.
 *
 * Checks are checked and all indexes kept; nothing else of what INSERT does is done (direct.c says
 * for which tables that is the same).
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "utils/memutils.h"

#include "compat.h"
#include "flow/gather.h"

#define BYTES_AT_ONCE	(256 * 1024)

/*
 * The relation must be open and locked for writing until scd2_gather_end(). All of it lives in the
 * current memory context.
 */
Scd2Gather *
scd2_gather_begin(Relation rel)
{
	Scd2Gather *gather = palloc0(sizeof(Scd2Gather));

	gather->rel = rel;
	gather->cxt = CurrentMemoryContext;
	gather->rri = makeNode(ResultRelInfo);
	InitResultRelInfo(gather->rri, rel, 1, NULL, 0);
	ExecOpenIndices(gather->rri, false);
	gather->estate = CreateExecutorState();
	scd2_init_range_table(gather->estate, rel, gather->rri);
	gather->rows_cxt = AllocSetContextCreate(CurrentMemoryContext, "pg_scd2 rows", ALLOCSET_DEFAULT_SIZES);
	return gather;
}

/*
 * Raises unless the row satisfies the relation's constraints.
 */
void
scd2_gather_check(Scd2Gather *gather, TupleTableSlot *slot)
{
	if (gather->rel->rd_att->constr != NULL)
		ExecConstraints(gather->rri, slot, gather->estate);
}

/*
 * A new row, all columns of the relation; it is written with the next page of them. Copies what it needs.
 */
void
scd2_gather_row(Scd2Gather *gather, Datum *values, bool *nulls)
{
	TupleDesc	desc = RelationGetDescr(gather->rel);
	TupleTableSlot *slot;
	MemoryContext before = MemoryContextSwitchTo(gather->cxt);
	HeapTuple	tuple;

	if (gather->nslots == gather->made)
		gather->slots[gather->made++] = MakeSingleTupleTableSlot(desc, &TTSOpsHeapTuple);
	slot = gather->slots[gather->nslots++];
	MemoryContextSwitchTo(gather->rows_cxt);
	tuple = heap_form_tuple(desc, values, nulls);
	MemoryContextSwitchTo(before);
	ExecStoreHeapTuple(tuple, slot, false);
	slot->tts_tableOid = RelationGetRelid(gather->rel);
	scd2_gather_check(gather, slot);
	gather->bytes += tuple->t_len;
	if (gather->nslots == SCD2_ROWS_AT_ONCE || gather->bytes > BYTES_AT_ONCE)
		scd2_gather_flush(gather);
}

/*
 * Writes the rows gathered so far.
 */
void
scd2_gather_flush(Scd2Gather *gather)
{
	MemoryContext before;

	if (gather->nslots == 0)
		return;
	before = MemoryContextSwitchTo(gather->rows_cxt);
	table_multi_insert(gather->rel, gather->slots, gather->nslots, GetCurrentCommandId(true), 0, NULL);
	for (int i = 0; i < gather->nslots; i++)
	{
		if (gather->rri->ri_NumIndices > 0)
			list_free(scd2_insert_index_tuples(gather->rri, gather->slots[i], gather->estate));
		ResetPerTupleExprContext(gather->estate);
		ExecClearTuple(gather->slots[i]);
	}
	MemoryContextSwitchTo(before);
	MemoryContextReset(gather->rows_cxt);
	gather->nslots = 0;
	gather->bytes = 0;
}

void
scd2_gather_end(Scd2Gather *gather)
{
	scd2_gather_flush(gather);
	for (int i = 0; i < gather->made; i++)
		ExecDropSingleTupleTableSlot(gather->slots[i]);
	ExecCloseIndices(gather->rri);
	FreeExecutorState(gather->estate);
	MemoryContextDelete(gather->rows_cxt);
}
