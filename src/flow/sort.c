/*
 * sort.c
 *		Rows in the order of a flow's keys.
 */
#include "postgres.h"

#include "miscadmin.h"

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
