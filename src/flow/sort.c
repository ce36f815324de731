/*
 * sort.c
 *		Rows in the order of a flow's keys.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/snapmgr.h"

#include "flow/sort.h"

/*
 * Begins a sort, within work_mem, of rows whose columns from "first" (0: the first one) on are the
 * flow's; by its keys, NULL first, then by the "nthen" columns of "then". For the options see
 * tuplesort.h.
 */
Tuplesortstate *
scd2_sort_by_key(Scd2Flow *flow, TupleDesc desc, int first, int nthen, const Scd2SortColumn *then, int options)
{
	int			n = flow->nkeys + nthen;
	AttrNumber *columns = palloc(n * sizeof(AttrNumber));
	Oid		   *operators = palloc(n * sizeof(Oid));
	Oid		   *collations = palloc(n * sizeof(Oid));
	bool	   *nulls_first = palloc(n * sizeof(bool));

	for (int i = 0; i < flow->nkeys; i++)
	{
		columns[i] = first + flow->keys[i] + 1;
		operators[i] = flow->key_less[i];
		collations[i] = flow->key_collation[i];
	}
	for (int i = 0; i < nthen; i++)
	{
		columns[flow->nkeys + i] = then[i].attnum;
		operators[flow->nkeys + i] = then[i].less;
		collations[flow->nkeys + i] = then[i].collation;
	}
	memset(nulls_first, true, n * sizeof(bool));
	return tuplesort_begin_heap(desc, n, columns, operators, collations, nulls_first, work_mem, NULL, options);
}

/*
 * Begins to take what a batch reads: row by row in sorter->row, then tuplesort_puttupleslot(). For
 * the rest see scd2_sort_by_key().
 */
void
scd2_sorter_begin(Scd2Sorter *sorter, Scd2Flow *flow, TupleDesc desc, int first, int nthen, const Scd2SortColumn *then)
{
	sorter->sort = scd2_sort_by_key(flow, desc, first, nthen, then, TUPLESORT_NONE);
	sorter->row = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	sorter->sorted = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
}

/*
 * All rows are there. Until scd2_sorter_end() the target's can be looked up.
 */
void
scd2_sorter_turn(Scd2Sorter *sorter, Scd2Work *work)
{
	tuplesort_performsort(sorter->sort);
	/* A snapshot that sees what this transaction has done so far. */
	PushActiveSnapshot(GetTransactionSnapshot());
	scd2_work_start_lookups(work);
}

/*
 * The next row into sorter->sorted; false: there is none.
 */
bool
scd2_sorter_next(Scd2Sorter *sorter)
{
	CHECK_FOR_INTERRUPTS();
	if (!tuplesort_gettupleslot(sorter->sort, true, false, sorter->sorted, NULL))
		return false;
	slot_getallattrs(sorter->sorted);
	return true;
}

void
scd2_sorter_end(Scd2Sorter *sorter, Scd2Work *work)
{
	scd2_work_stop_lookups(work);
	PopActiveSnapshot();
	ExecDropSingleTupleTableSlot(sorter->row);
	ExecDropSingleTupleTableSlot(sorter->sorted);
	tuplesort_end(sorter->sort);
}

/*
 * The key of a row, of which "columns" are the flow's; in the current memory context.
 */
Datum *
scd2_copy_key(const Scd2Flow *flow, const Datum *columns)
{
	Datum	   *key = palloc(flow->nkeys * sizeof(Datum));

	for (int i = 0; i < flow->nkeys; i++)
	{
		int			c = flow->keys[i];

		key[i] = datumCopy(columns[c], flow->shape.typbyval[c], flow->shape.typlen[c]);
	}
	return key;
}

/*
 * Is it the key of another row? In the order of keys, not by image: 'a' is 'A' in citext.
 */
bool
scd2_same_key(Scd2Flow *flow, const Datum *key, const Datum *columns)
{
	for (int i = 0; i < flow->nkeys; i++)
	{
		int			c = flow->keys[i];

		if (!datum_image_eq(key[i], columns[c], flow->shape.typbyval[c], flow->shape.typlen[c]) &&
			DatumGetInt32(FunctionCall2Coll(&flow->key_compare[i], flow->key_collation[i], key[i], columns[c])) != 0)
			return false;
	}
	return true;
}
