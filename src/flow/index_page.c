/*
 * index_page.c
 *		Entries of one key after another in a btree, each from the page that is at hand if it is there.
 *
 * An index scan descends from the root for every key, and the keys of a batch come in order: dozens
 * of them have their entries on one leaf page, and a descent takes half as long as all else that is
 * done for a key. So the page of the last key stays pinned, and is where the next key is looked for
 * first; a descent of the server's own leads to the others.
 *
 * Only the layout of pages is known here, and only what it guarantees is relied on: a leaf page in
 * use that has something up to the key, and something above it or a high key that is, is where the
 * key's entries end, whatever became of the page since it was pinned. The entries are what an MVCC scan would see:
 * places of rows, to be looked at in the heap. VACUUM waits for the page at hand, as it does for
 * that of any scan which has to come back to its page.
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "catalog/pg_am_d.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"

#include "compat.h"
#include "flow/index_page.h"

/*
 * "nkeys": how many columns of the index, a btree, the keys are; none of them is ever NULL. The
 * relations must stay open, and the snapshot active, until scd2_index_page_end().
 */
Scd2IndexPage *
scd2_index_page_begin(Relation heap, Relation index, Snapshot snapshot, int nkeys)
{
	Scd2IndexPage *at = palloc0(sizeof(Scd2IndexPage));

	Assert(index->rd_rel->relam == BTREE_AM_OID);
	at->heap = heap;
	at->index = index;
	at->snapshot = snapshot;
	at->buffer = InvalidBuffer;
	at->key = _bt_mkscankey(index, NULL);
	_bt_metaversion(index, &at->key->heapkeyspace, &at->key->allequalimage);
	at->key->keysz = nkeys;
	at->key->nextkey = true;	/* to where the key's entries end */
	at->key->anynullkeys = false;
	for (int i = 0; i < nkeys; i++)
		at->key->scankeys[i].sk_flags &= ~SK_ISNULL;
	return at;
}

void
scd2_index_page_end(Scd2IndexPage *at)
{
	if (BufferIsValid(at->buffer))
		ReleaseBuffer(at->buffer);
	pfree(at->key);
	pfree(at);
}

/* The place behind the key's last entry on the page, which is locked. */
static OffsetNumber
end_of_key(Scd2IndexPage *at)
{
	Page		page = BufferGetPage(at->buffer);
	OffsetNumber low = P_FIRSTDATAKEY(BTPageGetOpaque(page));
	OffsetNumber high = OffsetNumberNext(PageGetMaxOffsetNumber(page));

	while (low < high)
	{
		OffsetNumber middle = low + (high - low) / 2;

		if (_bt_compare(at->index, at->key, page, middle) >= 0)
			low = OffsetNumberNext(middle);
		else
			high = middle;
	}
	return low;
}

/* Are the key's last entries on the page, or would they be? */
static bool
is_page_of_key(Scd2IndexPage *at, OffsetNumber end)
{
	Page		page = BufferGetPage(at->buffer);
	BTPageOpaque opaque = BTPageGetOpaque(page);

	return end > P_FIRSTDATAKEY(opaque) &&
		(end <= PageGetMaxOffsetNumber(page) || P_RIGHTMOST(opaque) || _bt_compare(at->index, at->key, page, P_HIKEY) < 0);
}

/* Locks the page at hand, if it is the key's; false: it is another. */
static bool
lock_same_page(Scd2IndexPage *at)
{
	BTPageOpaque opaque;
	OffsetNumber end;

	if (!BufferIsValid(at->buffer))
		return false;
	_bt_lockbuf(at->index, at->buffer, BT_READ);
	opaque = BTPageGetOpaque(BufferGetPage(at->buffer));
	if (P_ISLEAF(opaque) && !P_IGNORE(opaque))
	{
		end = end_of_key(at);
		at->next = OffsetNumberPrev(end);
		if (is_page_of_key(at, end))
			return true;
	}
	_bt_relbuf(at->index, at->buffer);
	return false;
}

/* Locks the page, wherever it is; false: the index is empty. */
static bool
lock_page_below(Scd2IndexPage *at)
{
	at->buffer = scd2_btree_descend(at->heap, at->index, at->key, at->snapshot);
	if (!BufferIsValid(at->buffer))
		return false;
	at->next = OffsetNumberPrev(end_of_key(at));
	return true;
}

/*
 * Goes to the page where the entries of a key are, and locks it. They are given from the last one
 * on. The key must live until the next.
 */
void
scd2_index_page_lock(Scd2IndexPage *at, const Datum *key)
{
	for (int i = 0; i < at->key->keysz; i++)
		at->key->scankeys[i].sk_argument = key[i];
	at->tids_left = 0;
	pgstat_count_index_scan(at->index);
	at->complete = !lock_same_page(at) && !lock_page_below(at);
	if (at->complete)
	{
		PredicateLockRelation(at->index, at->snapshot);
		return;
	}
	PredicateLockPage(at->index, BufferGetBlockNumber(at->buffer), at->snapshot);
	scd2_test_for_old_snapshot(at->snapshot, at->index, BufferGetPage(at->buffer));
}

/*
 * The entry before the one that was given last, and the place of its row. NULL: there is none on
 * the page; none at all if "complete" is set then.
 */
IndexTuple
scd2_index_page_next(Scd2IndexPage *at, ItemPointer tid)
{
	Page		page;
	BTPageOpaque opaque;
	IndexTuple	entry;

	if (at->complete)
		return NULL;
	page = BufferGetPage(at->buffer);
	opaque = BTPageGetOpaque(page);
	for (; at->next >= P_FIRSTDATAKEY(opaque); at->next = OffsetNumberPrev(at->next), at->tids_left = 0)
	{
		ItemId		item = PageGetItemId(page, at->next);

		if (ItemIdIsDead(item))
			continue;
		entry = (IndexTuple) PageGetItem(page, item);
		if (at->tids_left == 0)
		{
			if (_bt_compare(at->index, at->key, page, at->next) != 0)
			{
				at->complete = true;
				return NULL;
			}
			at->tids_left = BTreeTupleIsPosting(entry) ? BTreeTupleGetNPosting(entry) : 1;
		}
		at->tids_left--;
		*tid = BTreeTupleIsPosting(entry) ? *BTreeTupleGetPostingN(entry, at->tids_left) : entry->t_tid;
		if (at->tids_left == 0)
			at->next = OffsetNumberPrev(at->next);
		return entry;
	}
	at->complete = P_LEFTMOST(opaque);
	return NULL;
}

/*
 * What was given by reference is gone after this.
 */
void
scd2_index_page_unlock(Scd2IndexPage *at)
{
	if (BufferIsValid(at->buffer))
		_bt_unlockbuf(at->index, at->buffer);
}

/*
 * The row at this place, which an entry of the key led to, is dead to everybody: nobody needs to
 * follow that entry again. (The page was pinned all the time, so VACUUM has not made the place free
 * for another row.)
 */
void
scd2_index_page_kill(Scd2IndexPage *at, ItemPointer tid)
{
	Page		page = BufferGetPage(at->buffer);
	BTPageOpaque opaque;

	_bt_lockbuf(at->index, at->buffer, BT_READ);
	opaque = BTPageGetOpaque(page);
	for (OffsetNumber i = OffsetNumberPrev(end_of_key(at));
		 i >= P_FIRSTDATAKEY(opaque) && _bt_compare(at->index, at->key, page, i) == 0; i = OffsetNumberPrev(i))
	{
		ItemId		item = PageGetItemId(page, i);
		IndexTuple	entry = (IndexTuple) PageGetItem(page, item);

		if (ItemIdIsDead(item) || BTreeTupleIsPosting(entry) || !ItemPointerEquals(&entry->t_tid, tid))
			continue;
		ItemIdMarkDead(item);
		opaque->btpo_flags |= BTP_HAS_GARBAGE;
		MarkBufferDirtyHint(at->buffer, true);
		break;
	}
	_bt_unlockbuf(at->index, at->buffer);
}
