/*
 * finder.c
 *		Rows of one key, found by an index over (keys, sequence).
 *
 * No plan can turn this into a hash of the whole history, and the cost per key does not depend on
 * how many versions the key has. What is found is what the active snapshot of scd2_finder_begin()
 * sees; it must live as long as the finder.
 *
 * Of a key several rows are asked for: the last below a sequence, then those from there on. So its
 * entries are read from the key's end, until some are below what is asked for, and kept: their
 * sequences tell which rows to look at in the heap. They come from the page that the last key was
 * found on (index_page.c), or after one descent. What lies deeper, or on another page, is searched
 * by scans.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "pgstat.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "flow/finder.h"

/* Of entries that are below what is asked for, how many are kept: the rows of the first may be dead. */
#define MOST_BELOW		2
/* How many are kept when the last row is asked for. */
#define MOST_LAST		4

/* Does the index have a column of sequences, as they are? (Of "name" it has C strings.) */
static bool
index_has_sequences(Scd2Flow *flow, Relation index)
{
	return IndexRelationGetNumberOfKeyAttributes(index) > flow->nkeys &&
		TupleDescAttr(RelationGetDescr(index), flow->nkeys)->atttypid == flow->sequence_type;
}

Scd2Finder *
scd2_finder_begin(Scd2Flow *flow, Relation heap, Relation index)
{
	Scd2Finder *finder = palloc0(sizeof(Scd2Finder));

	finder->flow = flow;
	finder->heap = heap;
	finder->index = index;
	finder->snapshot = GetActiveSnapshot();
	finder->slot = table_slot_create(heap, NULL);
	finder->page = scd2_index_page_begin(heap, index, finder->snapshot, flow->nkeys);
	finder->rows = scd2_heap_pages_begin(heap, finder->snapshot);
	finder->has_sequences = index_has_sequences(flow, index);
	if (finder->has_sequences && !flow->sequence_typbyval)
		finder->cxt = AllocSetContextCreate(CurrentMemoryContext, "pg_scd2 sequences", ALLOCSET_SMALL_SIZES);
	finder->keys = palloc0((flow->nkeys + 1) * sizeof(ScanKeyData));
	for (int i = 0; i < flow->nkeys; i++)
		ScanKeyEntryInitializeWithInfo(&finder->keys[i], 0, i + 1, BTEqualStrategyNumber, InvalidOid,
									   flow->key_collation[i], &flow->key_equal[i], (Datum) 0);
	ScanKeyEntryInitializeWithInfo(&finder->less, 0, flow->nkeys + 1, BTLessStrategyNumber, InvalidOid,
								   flow->sequence_collation, &flow->sequence_less, (Datum) 0);
	ScanKeyEntryInitializeWithInfo(&finder->not_less, 0, flow->nkeys + 1, BTGreaterEqualStrategyNumber, InvalidOid,
								   flow->sequence_collation, &flow->sequence_not_less, (Datum) 0);
	return finder;
}

void
scd2_finder_end(Scd2Finder *finder)
{
	scd2_index_page_end(finder->page);
	if (finder->by_key != NULL)
		index_endscan(finder->by_key);
	if (finder->by_sequence != NULL)
		index_endscan(finder->by_sequence);
	scd2_heap_pages_end(finder->rows);
	if (finder->cxt != NULL)
		MemoryContextDelete(finder->cxt);
	ExecDropSingleTupleTableSlot(finder->slot);
}

/*
 * What follows is asked of this key, in the order of the flow's keys; it must live until the next.
 */
void
scd2_finder_begin_key(Scd2Finder *finder, const Datum *key)
{
	finder->key = key;
	finder->collected = finder->complete = false;
	finder->nentries = 0;
	if (finder->cxt != NULL)
		MemoryContextReset(finder->cxt);
}

static bool
is_below(Scd2Finder *finder, const Scd2Entry *entry, Datum sequence)
{
	return DatumGetInt32(FunctionCall2Coll(&finder->flow->sequence_compare, finder->flow->sequence_collation,
										   entry->sequence, sequence)) < 0;
}

static void
keep_sequence(Scd2Finder *finder, Scd2Entry *entry, IndexTuple tuple)
{
	Scd2Flow   *flow = finder->flow;
	MemoryContext before;
	bool		isnull;

	entry->sequence = index_getattr(tuple, flow->nkeys + 1, RelationGetDescr(finder->index), &isnull);
	if (flow->sequence_typbyval)
		return;
	before = MemoryContextSwitchTo(finder->cxt);
	entry->sequence = datumCopy(entry->sequence, false, flow->sequence_typlen);
	MemoryContextSwitchTo(before);
}

/* Keeps the key's entries from its end, if that is not done yet, until enough are below "lowest" (NULL: MOST_LAST). */
static void
collect(Scd2Finder *finder, const Datum *lowest)
{
	int			most = lowest != NULL ? SCD2_MAX_ENTRIES : MOST_LAST;
	int			below = 0;
	IndexTuple	tuple = NULL;

	if (finder->collected)
		return;
	finder->collected = true;
	scd2_index_page_lock(finder->page, finder->key);
	while (finder->nentries < most && below < MOST_BELOW)
	{
		Scd2Entry  *entry = &finder->entries[finder->nentries];

		tuple = scd2_index_page_next(finder->page, &entry->tid);
		if (tuple == NULL)
			break;
		if (finder->has_sequences)
			keep_sequence(finder, entry, tuple);
		if (lowest != NULL && is_below(finder, entry, *lowest))
			below++;
		finder->nentries++;
	}
	finder->complete = finder->page->complete;
	scd2_index_page_unlock(finder->page);
}

/* The row of an entry, into the slot; false: it is not there for our snapshot. */
static bool
fetch(Scd2Finder *finder, int place)
{
	bool		all_dead;
	bool		found = scd2_heap_pages_fetch(finder->rows, &finder->entries[place].tid, finder->slot, &all_dead);

	if (found)
		pgstat_count_heap_fetch(finder->index);
	if (all_dead)
		scd2_index_page_kill(finder->page, &finder->entries[place].tid);
	return found;
}

/*
 * The key's row with the highest sequence, into the slot. False: there is none.
 */
bool
scd2_finder_last(Scd2Finder *finder)
{
	collect(finder, NULL);
	for (int place = 0; place < finder->nentries; place++)
		if (fetch(finder, place))
			return true;
	if (finder->complete)
		return false;
	for (int i = 0; i < finder->flow->nkeys; i++)
		finder->keys[i].sk_argument = finder->key[i];
	if (finder->by_key == NULL)
		finder->by_key = scd2_index_beginscan(finder->heap, finder->index, finder->snapshot, finder->flow->nkeys);
	index_rescan(finder->by_key, finder->keys, finder->flow->nkeys, NULL, 0);
	return index_getnext_slot(finder->by_key, BackwardScanDirection, finder->slot);
}

static void
scan_by_sequence(Scd2Finder *finder, const ScanKeyData *condition, Datum sequence)
{
	int			nkeys = finder->flow->nkeys;

	if (finder->by_sequence == NULL)
		finder->by_sequence = scd2_index_beginscan(finder->heap, finder->index, finder->snapshot, nkeys + 1);
	for (int i = 0; i < nkeys; i++)
		finder->keys[i].sk_argument = finder->key[i];
	finder->keys[nkeys] = *condition;
	finder->keys[nkeys].sk_argument = sequence;
	index_rescan(finder->by_sequence, finder->keys, nkeys + 1, NULL, 0);
}

/*
 * The key's last row below a sequence.
 */
bool
scd2_finder_last_below(Scd2Finder *finder, Datum sequence)
{
	if (finder->has_sequences)
	{
		collect(finder, &sequence);
		for (int place = 0; place < finder->nentries; place++)
			if (is_below(finder, &finder->entries[place], sequence) && fetch(finder, place))
				return true;
		if (finder->complete)
			return false;
	}
	scan_by_sequence(finder, &finder->less, sequence);
	return index_getnext_slot(finder->by_sequence, BackwardScanDirection, finder->slot);
}

/*
 * The key's first row at or above a sequence; scd2_finder_next() gives the others, ascending.
 */
bool
scd2_finder_first_from(Scd2Finder *finder, Datum sequence)
{
	finder->next = 0;
	if (finder->has_sequences)
	{
		collect(finder, &sequence);
		while (finder->next < finder->nentries && !is_below(finder, &finder->entries[finder->next], sequence))
			finder->next++;
	}
	if (!finder->has_sequences || (finder->next == finder->nentries && !finder->complete))
	{
		finder->next = -1;
		scan_by_sequence(finder, &finder->not_less, sequence);
	}
	return scd2_finder_next(finder);
}

bool
scd2_finder_next(Scd2Finder *finder)
{
	if (finder->next < 0)
		return index_getnext_slot(finder->by_sequence, ForwardScanDirection, finder->slot);
	while (finder->next > 0)
		if (fetch(finder, --finder->next))
			return true;
	return false;
}
