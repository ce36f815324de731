/*
 * finder.h
 *		Rows of one key, found by an index over (keys, sequence).
 */
#ifndef SCD2_FLOW_FINDER_H
#define SCD2_FLOW_FINDER_H

#include "access/genam.h"
#include "access/skey.h"
#include "executor/tuptable.h"
#include "utils/rel.h"

#include "flow/flow.h"
#include "flow/heap_page.h"
#include "flow/index_page.h"

#define SCD2_MAX_ENTRIES	32

typedef struct Scd2Entry
{
	ItemPointerData tid;
	Datum		sequence;
} Scd2Entry;

typedef struct Scd2Finder
{
	Scd2Flow   *flow;
	Relation	heap;
	Relation	index;			/* its first columns are the flow's keys in their order, then, unless one row per key, the sequence */
	Snapshot	snapshot;
	TupleTableSlot *slot;		/* the row found last */

	/* The key's entries, from its end: see finder.c. */
	Scd2IndexPage *page;
	Scd2HeapPages *rows;
	const Datum *key;
	bool		has_sequences;	/* the entries do */
	bool		collected;
	bool		complete;		/* these are all */
	int			nentries;
	Scd2Entry	entries[SCD2_MAX_ENTRIES];
	int			next;			/* the entry before which to go on; -1: by_sequence goes on */
	MemoryContext cxt;			/* of their sequences; NULL: those are values */

	/* Scans for what is not among these; NULL: not needed yet. */
	IndexScanDesc by_key;
	IndexScanDesc by_sequence;
	ScanKeyData *keys;			/* one more than the flow has: the sequence, */
	ScanKeyData less;			/* which is one of these */
	ScanKeyData not_less;
} Scd2Finder;

extern Scd2Finder *scd2_finder_begin(Scd2Flow *flow, Relation heap, Relation index);
extern void scd2_finder_end(Scd2Finder *finder);
extern void scd2_finder_begin_key(Scd2Finder *finder, const Datum *key);
extern bool scd2_finder_last(Scd2Finder *finder);
extern bool scd2_finder_last_below(Scd2Finder *finder, Datum sequence);
extern bool scd2_finder_first_from(Scd2Finder *finder, Datum sequence);
extern bool scd2_finder_next(Scd2Finder *finder);

#endif							/* SCD2_FLOW_FINDER_H */
