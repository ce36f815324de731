/*
 * finder.c
 *		Rows of one key, by descents of an index over (keys, sequence).
 *
 * No plan can turn this into a hash of the whole history, and the cost per key does not depend on
 * how many versions the key has. What is found is what the active snapshot of scd2_finder_begin()
 * sees; it must live as long as the finder.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "flow/finder.h"

Scd2Finder *
scd2_finder_begin(Scd2Flow *flow, Relation heap, Relation index)
{
	Scd2Finder *finder = palloc0(sizeof(Scd2Finder));

	finder->flow = flow;
	finder->heap = heap;
	finder->index = index;
	finder->slot = table_slot_create(heap, NULL);
	finder->by_key = scd2_index_beginscan(heap, index, GetActiveSnapshot(), flow->nkeys);
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
	ExecDropSingleTupleTableSlot(finder->slot);
}

static void
set_key(Scd2Finder *finder, const Datum *key)
{
	for (int i = 0; i < finder->flow->nkeys; i++)
		finder->keys[i].sk_argument = key[i];
}

/*
 * The key's row with the highest sequence, into the slot. False: there is none.
 */
bool
scd2_finder_last(Scd2Finder *finder, const Datum *key)
{
	set_key(finder, key);
	index_rescan(finder->by_key, finder->keys, finder->flow->nkeys, NULL, 0);
	return index_getnext_slot(finder->by_key, BackwardScanDirection, finder->slot);
}

static void
scan_by_sequence(Scd2Finder *finder, const Datum *key, const ScanKeyData *condition, Datum sequence)
{
	int			nkeys = finder->flow->nkeys;

	if (finder->by_sequence == NULL)
		finder->by_sequence = scd2_index_beginscan(finder->heap, finder->index, finder->by_key->xs_snapshot, nkeys + 1);
	set_key(finder, key);
	finder->keys[nkeys] = *condition;
	finder->keys[nkeys].sk_argument = sequence;
	index_rescan(finder->by_sequence, finder->keys, nkeys + 1, NULL, 0);
}

/*
 * The key's last row below a sequence.
 */
bool
scd2_finder_last_below(Scd2Finder *finder, const Datum *key, Datum sequence)
{
	scan_by_sequence(finder, key, &finder->less, sequence);
	return index_getnext_slot(finder->by_sequence, BackwardScanDirection, finder->slot);
}

/*
 * The key's first row at or above a sequence; scd2_finder_next() gives the others, ascending.
 */
bool
scd2_finder_first_from(Scd2Finder *finder, const Datum *key, Datum sequence)
{
	scan_by_sequence(finder, key, &finder->not_less, sequence);
	return scd2_finder_next(finder);
}

bool
scd2_finder_next(Scd2Finder *finder)
{
	return index_getnext_slot(finder->by_sequence, ForwardScanDirection, finder->slot);
}
