/*
 * sort.h
 *		Rows in the order of a flow's keys.
 */
#ifndef SCD2_FLOW_SORT_H
#define SCD2_FLOW_SORT_H

#include "utils/tuplesort.h"

#include "flow/flow.h"

/* A column that decides between rows of one key. */
typedef struct Scd2SortColumn
{
	AttrNumber	attnum;
	Oid			less;
	Oid			collation;
} Scd2SortColumn;

extern Tuplesortstate *scd2_sort_by_key(Scd2Flow *flow, TupleDesc desc, int first, int nthen, const Scd2SortColumn *then, int options);

#endif							/* SCD2_FLOW_SORT_H */
