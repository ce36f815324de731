/*
 * sort.h
 *		Rows in the order of a flow's keys.
 */
#ifndef SCD2_FLOW_SORT_H
#define SCD2_FLOW_SORT_H

#include "executor/tuptable.h"
#include "utils/tuplesort.h"

#include "flow/work.h"

/* A column that decides between rows of one key. */
typedef struct Scd2SortColumn
{
	AttrNumber	attnum;
	Oid			less;
	Oid			collation;
} Scd2SortColumn;

/* What a batch reads, on its way from the order in which it comes to that of keys. */
typedef struct Scd2Sorter
{
	Tuplesortstate *sort;
	TupleTableSlot *row;		/* virtual: the next to put, */
	TupleTableSlot *sorted;		/* and the one that came out */
} Scd2Sorter;

extern Tuplesortstate *scd2_sort_by_key(Scd2Flow *flow, TupleDesc desc, int first, int nthen, const Scd2SortColumn *then, int options);
extern void scd2_sorter_begin(Scd2Sorter *sorter, Scd2Flow *flow, TupleDesc desc, int first, int nthen, const Scd2SortColumn *then);
extern void scd2_sorter_turn(Scd2Sorter *sorter, Scd2Work *work);
extern bool scd2_sorter_next(Scd2Sorter *sorter);
extern void scd2_sorter_end(Scd2Sorter *sorter, Scd2Work *work);
extern Datum *scd2_copy_key(const Scd2Flow *flow, const Datum *columns);
extern bool scd2_same_key(Scd2Flow *flow, const Datum *key, const Datum *columns);

#endif							/* SCD2_FLOW_SORT_H */
