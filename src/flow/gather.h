/*
 * gather.h
 *		Writing new rows of a plain heap a page at a time.
 */
#ifndef SCD2_FLOW_GATHER_H
#define SCD2_FLOW_GATHER_H

#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "utils/rel.h"

#define SCD2_ROWS_AT_ONCE	1000

typedef struct Scd2Gather
{
	Relation	rel;
	EState	   *estate;
	ResultRelInfo *rri;			/* indexes open */
	MemoryContext cxt;			/* where slots live */
	MemoryContext rows_cxt;		/* of the rows gathered, reset with each flush */
	TupleTableSlot *slots[SCD2_ROWS_AT_ONCE];
	int			nslots;
	int			made;
	Size		bytes;
} Scd2Gather;

extern Scd2Gather *scd2_gather_begin(Relation rel);
extern void scd2_gather_row(Scd2Gather *gather, Datum *values, bool *nulls);
extern void scd2_gather_check(Scd2Gather *gather, TupleTableSlot *slot);
extern void scd2_gather_flush(Scd2Gather *gather);
extern void scd2_gather_end(Scd2Gather *gather);

#endif							/* SCD2_FLOW_GATHER_H */
