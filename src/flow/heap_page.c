/*
 * heap_page.c
 *		Rows by their places, on pages that are met again and again.
 *
 * Each batch wrote its new rows in the order of keys. So whoever asks for the rows of one key after
 * another goes through as many regions of the heap as there were batches, in each from page to page,
 * and between all of them in turns. Where the last pages are among the buffers is remembered: that
 * spares most lookups of buffers and, of pages seen a moment ago, the question whether they want to
 * be pruned. (Pins would spare more, and would keep VACUUM waiting.)
 *
 * The rest is what an index scan does.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/tableam.h"
#include "storage/bufmgr.h"

#include "compat.h"
#include "flow/heap_page.h"

/*
 * The table must stay open, and the snapshot (an MVCC one) active, until scd2_heap_pages_end().
 */
Scd2HeapPages *
scd2_heap_pages_begin(Relation heap, Snapshot snapshot)
{
	Scd2HeapPages *pages = palloc0(sizeof(Scd2HeapPages));

	pages->heap = heap;
	pages->snapshot = snapshot;
	if (heap->rd_tableam != GetHeapamTableAmRoutine())
		pages->fetch = table_index_fetch_begin(heap);
	for (int i = 0; i < SCD2_RECENT_PAGES; i++)
		pages->recent[i].block = InvalidBlockNumber;
	return pages;
}

void
scd2_heap_pages_end(Scd2HeapPages *pages)
{
	if (pages->fetch != NULL)
		table_index_fetch_end(pages->fetch);
	pfree(pages);
}

/* The buffer of a page, pinned. */
static Buffer
read_page(Scd2HeapPages *pages, BlockNumber block)
{
	int			at = block % SCD2_RECENT_PAGES;

	if (pages->recent[at].block == block && scd2_read_recent_buffer(pages->heap, block, pages->recent[at].buffer))
		return pages->recent[at].buffer;
	pages->recent[at].block = block;
	pages->recent[at].buffer = ReadBuffer(pages->heap, block);
	heap_page_prune_opt(pages->heap, pages->recent[at].buffer);
	return pages->recent[at].buffer;
}

/*
 * The row at a place, or the version of it that the snapshot sees, into the slot (of the table's
 * own kind). False: it sees none; then "all_dead" says whether nobody ever will.
 */
bool
scd2_heap_pages_fetch(Scd2HeapPages *pages, const ItemPointerData *tid, TupleTableSlot *slot, bool *all_dead)
{
	HeapTuple	tuple = &((BufferHeapTupleTableSlot *) slot)->base.tupdata;
	ItemPointerData place = *tid;
	bool		call_again = false;
	bool		found;
	Buffer		buffer;

	*all_dead = false;
	if (pages->fetch != NULL)
		return table_index_fetch_tuple(pages->fetch, &place, pages->snapshot, slot, &call_again, all_dead);
	ExecClearTuple(slot);
	buffer = read_page(pages, ItemPointerGetBlockNumber(&place));
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	found = heap_hot_search_buffer(&place, pages->heap, buffer, pages->snapshot, tuple, all_dead, true);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	if (!found)
	{
		ReleaseBuffer(buffer);
		return false;
	}
	tuple->t_self = place;
	tuple->t_tableOid = slot->tts_tableOid = RelationGetRelid(pages->heap);
	ExecStorePinnedBufferHeapTuple(tuple, slot, buffer);
	return true;
}
