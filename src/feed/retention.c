/*
 * retention.c
 *		What old partitions of feeds hold, and how readers and removal keep out of each other's way.
 *
 * Removing a partition shows at once, also to snapshots that should still see its rows. So whoever
 * relies on what a feed has (a read of a range, a flow or reader that begins at a version, a
 * refresh) holds the feed with ACCESS SHARE until its transaction ends, and only then looks how far
 * back it reaches, with the newest snapshot; removal (36_feed_retention.sql) needs ACCESS
 * EXCLUSIVE. What is there when somebody looks stays there for him; what was removed before he held
 * it, he is told of.
 *
 * The newest change of a partition is looked for here and not by SQL, which would wait for locks, and
 * run code of the owner (src/ask.c). We write rows in the order of their versions, but they need not
 * lie so: CLUSTER, an UPDATE by hand and a repair put others last. So the last row proves that a
 * partition is not old, and nothing else. Where it looks old, all rows are read; of a partition that
 * gets no more a process remembers what it has found, as long as it is stored as it was.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "feed/metadata.h"
#include "feed/retention.h"

PG_FUNCTION_INFO_V1(scd2_hold_feed);
PG_FUNCTION_INFO_V1(scd2_newest_change);
PG_FUNCTION_INFO_V1(scd2_last_row);

/* Opens a table if nobody stands in the way and it is still there, else NULL. */
Relation
scd2_try_open(Oid relid, LOCKMODE mode)
{
	if (!ConditionalLockRelationOid(relid, mode))
		return NULL;
	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		return table_open(relid, NoLock);
	UnlockRelationOid(relid, mode);
	return NULL;
}

static Datum
make_row(FunctionCallInfo fcinfo, Datum *values, bool *isnull)
{
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, isnull));
}

#define HOW_FAR_BACK \
	"SELECT earliest_version, earliest_version - CASE WHEN removed_at IS NULL THEN 0 ELSE 1 END, removed_until, removed_at" \
	" FROM scd2_internal.feed_start($1) WHERE earliest_version IS NOT NULL"

/*
 * scd2_internal.hold_feed(feed_id integer, feed oid, OUT earliest_version, OUT earliest_state, OUT
 * removed_until, OUT removed_at): see above. NULLs for a feed that capture has not reached.
 */
Datum
scd2_hold_feed(PG_FUNCTION_ARGS)
{
	Oid			types[] = {INT4OID};
	Datum		args[] = {PG_GETARG_DATUM(0)};
	Datum		values[4] = {0};
	bool		isnull[4] = {true, true, true, true};

	LockRelationOid(PG_GETARG_OID(1), AccessShareLock);
	PushActiveSnapshot(GetLatestSnapshot());
	SPI_connect();
	if (SPI_execute_with_args(HOW_FAR_BACK, 1, types, args, NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read scd2_internal.feed_state");
	if (SPI_processed == 1)
		for (int i = 0; i < lengthof(values); i++)
			values[i] = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, i + 1, &isnull[i]);
	SPI_finish();
	PopActiveSnapshot();
	return make_row(fcinfo, values, isnull);
}

/* What was found in a partition. */
typedef struct Newest
{
	Oid			leaf;
	Oid			storage;
	BlockNumber pages;
	int64		version;		/* 0: no row */
	TimestampTz at;
} Newest;

#define REMEMBERED	64

static Newest remembered[REMEMBERED];
static int	next_remembered = 0;

static Newest *
find_remembered(Relation rel)
{
	for (int i = 0; i < REMEMBERED; i++)
		if (remembered[i].leaf == RelationGetRelid(rel) && remembered[i].storage == scd2_relation_storage(rel) &&
			remembered[i].pages == RelationGetNumberOfBlocks(rel))
			return &remembered[i];
	return NULL;
}

static void
remember(const Newest *newest)
{
	remembered[next_remembered] = *newest;
	next_remembered = (next_remembered + 1) % REMEMBERED;
}

static void
note_row(Newest *newest, TupleTableSlot *slot)
{
	bool		isnull;
	int64		version = DatumGetInt64(slot_getattr(slot, SCD2_META_COMMIT_VERSION + 1, &isnull));
	TimestampTz at = DatumGetTimestampTz(slot_getattr(slot, SCD2_META_COMMIT_TIMESTAMP + 1, &isnull));

	if (newest->version == 0 || at > newest->at)
		newest->at = at;
	newest->version = Max(newest->version, version);
}

/* The newest of all rows; or, where the last is younger than "cutoff", that one. */
static Newest
read_newest(Relation rel, TimestampTz cutoff)
{
	Newest		newest = {.leaf = RelationGetRelid(rel), .storage = scd2_relation_storage(rel), .pages = RelationGetNumberOfBlocks(rel)};
	TableScanDesc scan = table_beginscan_strat(rel, GetLatestSnapshot(), 0, NULL, true, false);
	TupleTableSlot *slot = table_slot_create(rel, NULL);

	while (table_scan_getnextslot(scan, BackwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		note_row(&newest, slot);
		if (newest.at > cutoff)
			break;
	}
	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
	return newest;
}

/* "ended": the partition gets no more. */
static Datum
newest_of(FunctionCallInfo fcinfo, TimestampTz cutoff, bool ended)
{
	Relation	rel = scd2_try_open(PG_GETARG_OID(0), AccessShareLock);
	Datum		values[3] = {BoolGetDatum(false)};
	bool		isnull[3] = {false, true, true};
	Scd2Misfit	misfit;

	if (rel != NULL && scd2_leaf_fits(rel, &misfit))
	{
		Newest	   *known = ended ? find_remembered(rel) : NULL;
		Newest		newest = known ? *known : read_newest(rel, cutoff);

		if (known == NULL && ended && newest.at <= cutoff)
			remember(&newest);
		values[0] = BoolGetDatum(true);
		values[1] = Int64GetDatum(newest.version);
		values[2] = TimestampTzGetDatum(newest.at);
		isnull[1] = isnull[2] = newest.version == 0;
	}
	if (rel != NULL)
		table_close(rel, AccessShareLock);
	return make_row(fcinfo, values, isnull);
}

/*
 * scd2_internal.newest_change(leaf oid, cutoff timestamptz, ended boolean, OUT looked, OUT version, OUT
 * at): the greatest version and commit time in a feed's partition; if one is younger than "cutoff", some
 * such. looked: false if a lock is in the way, or the table is none of ours. NULLs: no row.
 */
Datum
scd2_newest_change(PG_FUNCTION_ARGS)
{
	return newest_of(fcinfo, PG_GETARG_TIMESTAMPTZ(1), PG_GETARG_BOOL(2));
}

/* scd2_internal.last_row(leaf oid, beyond bigint, …) of version 0.1.0, which may not be updated yet. */
Datum
scd2_last_row(PG_FUNCTION_ARGS)
{
	return newest_of(fcinfo, DT_NOEND, false);
}
