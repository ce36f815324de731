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
 * The last row of a partition is looked at here and not by SQL, which would wait for locks, and run
 * code of the owner (src/ask.c).
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

#include "feed/metadata.h"
#include "feed/retention.h"

PG_FUNCTION_INFO_V1(scd2_hold_feed);
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

/*
 * Version and commit time of the last row, NULLs if there is none. The rows of a repair are written
 * at the end, but are of an earlier version than what was captured meanwhile: rows up to version
 * "beyond" count only if there are no others.
 */
static void
read_last_row(Relation rel, int64 beyond, Datum *version, Datum *at, bool *isnull)
{
	TableScanDesc scan = table_beginscan_strat(rel, GetLatestSnapshot(), 0, NULL, true, false);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	bool		found = false;

	while ((!found || DatumGetInt64(*version) <= beyond) && table_scan_getnextslot(scan, BackwardScanDirection, slot))
	{
		bool		is_null;
		Datum		this = slot_getattr(slot, SCD2_META_COMMIT_VERSION + 1, &is_null);

		CHECK_FOR_INTERRUPTS();
		if (found && (is_null || DatumGetInt64(this) <= beyond))
			continue;
		*version = this;
		*at = slot_getattr(slot, SCD2_META_COMMIT_TIMESTAMP + 1, isnull);
		*isnull |= is_null;
		found = true;
	}
	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
}

/*
 * scd2_internal.last_row(leaf oid, beyond bigint, OUT looked, OUT version, OUT at): version and commit
 * time of the last row of a feed's partition. looked: false if a lock is in the way, or the table is
 * none of ours. NULLs: no row.
 */
Datum
scd2_last_row(PG_FUNCTION_ARGS)
{
	Relation	rel = scd2_try_open(PG_GETARG_OID(0), AccessShareLock);
	Datum		values[3] = {BoolGetDatum(false)};
	bool		isnull[3] = {false, true, true};
	Scd2Misfit	misfit;

	if (rel != NULL && scd2_leaf_fits(rel, &misfit))
	{
		values[0] = BoolGetDatum(true);
		read_last_row(rel, PG_GETARG_INT64(1), &values[1], &values[2], &isnull[1]);
		isnull[2] = isnull[1];
	}
	if (rel != NULL)
		table_close(rel, AccessShareLock);
	return make_row(fcinfo, values, isnull);
}
