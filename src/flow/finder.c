/*
 * finder.c
 *		Rows of one key, by descents of an index over (keys, sequence).
 *
 * No plan can turn this into a hash of the whole history, and the cost per key does not depend on
 * how many versions the key has. What is found is what the active snapshot of scd2_finder_begin()
 * sees; it must live as long as the finder.
 *
 * A descent costs more than steps beside it, and of a key several rows are asked for: the last below
 * a sequence, then those from there on. So the index is read from the key's end, the sequences in it
 * are kept (the heap is not looked at before a row is wanted), and whatever lies among the last
 * SCD2_MAX_ENTRIES of the key takes one descent in all. What lies deeper is searched by sequence.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "flow/finder.h"

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
	finder->slot = table_slot_create(heap, NULL);
	finder->by_key = scd2_index_beginscan(heap, index, GetActiveSnapshot(), flow->nkeys);
	finder->collects = index_has_sequences(flow, index);
	finder->by_key->xs_want_itup = finder->collects;
	if (finder->collects && !flow->sequence_typbyval)
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
	index_endscan(finder->by_key);
	if (finder->by_sequence != NULL)
		index_endscan(finder->by_sequence);
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
	for (int i = 0; i < finder->flow->nkeys; i++)
		finder->keys[i].sk_argument = key[i];
	finder->started = finder->complete = false;
	finder->nentries = 0;
	if (finder->cxt != NULL)
		MemoryContextReset(finder->cxt);
}

static void
keep_entry(Scd2Finder *finder, ItemPointer tid)
{
	Scd2Flow   *flow = finder->flow;
	Scd2Entry  *entry = &finder->entries[finder->nentries++];
	bool		isnull;

	entry->tid = *tid;
	entry->sequence = index_getattr(finder->by_key->xs_itup, flow->nkeys + 1, finder->by_key->xs_itupdesc, &isnull);
	if (!flow->sequence_typbyval)
	{
		MemoryContext before = MemoryContextSwitchTo(finder->cxt);

		entry->sequence = datumCopy(entry->sequence, false, flow->sequence_typlen);
		MemoryContextSwitchTo(before);
	}
}

/* Is there an entry at this place, counted from the key's end? No more are kept than there is room for. */
static bool
has_entry(Scd2Finder *finder, int place)
{
	ItemPointer tid;

	while (finder->nentries <= place && !finder->complete && finder->nentries < SCD2_MAX_ENTRIES)
	{
		if (!finder->started)
			index_rescan(finder->by_key, finder->keys, finder->flow->nkeys, NULL, 0);
		finder->started = true;
		tid = index_getnext_tid(finder->by_key, BackwardScanDirection);
		if (tid != NULL)
			keep_entry(finder, tid);
		else
			finder->complete = true;
	}
	return place < finder->nentries;
}

/* The row of an entry, into the slot; false: it is not there for our snapshot. */
static bool
fetch(Scd2Finder *finder, int place)
{
	bool		found;

	finder->by_key->xs_heaptid = finder->entries[place].tid;
	found = index_fetch_heap(finder->by_key, finder->slot);
	if (place < finder->nentries - 1)	/* what is dead is not where the scan is */
		finder->by_key->kill_prior_tuple = false;
	return found;
}

static bool
is_below(Scd2Finder *finder, int place, Datum sequence)
{
	return DatumGetInt32(FunctionCall2Coll(&finder->flow->sequence_compare, finder->flow->sequence_collation,
										   finder->entries[place].sequence, sequence)) < 0;
}

/*
 * The key's row with the highest sequence, into the slot. False: there is none.
 */
bool
scd2_finder_last(Scd2Finder *finder)
{
	for (int place = 0; finder->collects && has_entry(finder, place); place++)
		if (fetch(finder, place))
			return true;
	if (finder->complete)
		return false;
	index_rescan(finder->by_key, finder->keys, finder->flow->nkeys, NULL, 0);
	return index_getnext_slot(finder->by_key, BackwardScanDirection, finder->slot);
}

static void
scan_by_sequence(Scd2Finder *finder, const ScanKeyData *condition, Datum sequence)
{
	int			nkeys = finder->flow->nkeys;

	if (finder->by_sequence == NULL)
		finder->by_sequence = scd2_index_beginscan(finder->heap, finder->index, finder->by_key->xs_snapshot, nkeys + 1);
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
	for (int place = 0; finder->collects && has_entry(finder, place); place++)
		if (is_below(finder, place, sequence) && fetch(finder, place))
			return true;
	if (finder->complete)
		return false;
	scan_by_sequence(finder, &finder->less, sequence);
	return index_getnext_slot(finder->by_sequence, BackwardScanDirection, finder->slot);
}

/*
 * The key's first row at or above a sequence; scd2_finder_next() gives the others, ascending.
 */
bool
scd2_finder_first_from(Scd2Finder *finder, Datum sequence)
{
	int			place = 0;

	while (finder->collects && has_entry(finder, place) && !is_below(finder, place, sequence))
		place++;
	finder->next = place;
	if (place == finder->nentries && !finder->complete)
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
