/*
 * heap_page.h
 *		Rows by their places, on pages that are met again and again.
 */
#ifndef SCD2_FLOW_HEAP_PAGE_H
#define SCD2_FLOW_HEAP_PAGE_H

#include "executor/tuptable.h"
#include "storage/buf.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

#define SCD2_RECENT_PAGES	64

typedef struct Scd2HeapPages
{
	Relation	heap;
	Snapshot	snapshot;
	struct IndexFetchTableData *fetch;	/* of a table that is no heap; NULL: it is one */
	struct
	{
		BlockNumber block;
		Buffer		buffer;		/* where it was, not pinned */
	}			recent[SCD2_RECENT_PAGES];
} Scd2HeapPages;

extern Scd2HeapPages *scd2_heap_pages_begin(Relation heap, Snapshot snapshot);
extern void scd2_heap_pages_end(Scd2HeapPages *pages);
extern bool scd2_heap_pages_fetch(Scd2HeapPages *pages, const ItemPointerData *tid, TupleTableSlot *slot, bool *all_dead);

#endif							/* SCD2_FLOW_HEAP_PAGE_H */
