/*
 * index_page.h
 *		Entries of one key after another in a btree, each from the page that is at hand if it is there.
 */
#ifndef SCD2_FLOW_INDEX_PAGE_H
#define SCD2_FLOW_INDEX_PAGE_H

#include "access/nbtree.h"
#include "utils/rel.h"
#include "utils/snapshot.h"

typedef struct Scd2IndexPage
{
	Relation	heap;
	Relation	index;
	Snapshot	snapshot;
	BTScanInsert key;			/* the first columns of the index */
	Buffer		buffer;			/* pinned; invalid: none */
	OffsetNumber next;			/* of the entries of the key in work, in descending order; while locked */
	int			tids_left;		/* in its posting list */
	bool		complete;		/* the last of them was met, not just the last of the page */
} Scd2IndexPage;

extern Scd2IndexPage *scd2_index_page_begin(Relation heap, Relation index, Snapshot snapshot, int nkeys);
extern void scd2_index_page_end(Scd2IndexPage *at);
extern void scd2_index_page_lock(Scd2IndexPage *at, const Datum *key);
extern IndexTuple scd2_index_page_next(Scd2IndexPage *at, ItemPointer tid);
extern void scd2_index_page_unlock(Scd2IndexPage *at);
extern void scd2_index_page_kill(Scd2IndexPage *at, ItemPointer tid);

#endif							/* SCD2_FLOW_INDEX_PAGE_H */
