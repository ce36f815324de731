/*
 * staged.c
 *		Rows that come or go with a partition, into the log.
 *
 * The log does not show them. Here they are written into scd2_internal.staged_row, in the user's
 * transaction, each row as it is stored, and deleted again at once: what counts is that the log has
 * them, in their place, where capture takes them for inserts into or deletes from the partitioned
 * table (plugin.c). So nothing has to be kept or cleared up, whatever becomes of the transaction,
 * of capture and of the partition.
 *
 * Columns that stay out of the feed stay out of this too: they are NULL.
 *
 * The table is read below the executor: no code of its owner's runs. The caller holds its lock
 * against everybody.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(scd2_stage_rows);

/* Which columns of the table stay out of the feed; NULL: none. Within SPI. */
static bool *
read_excluded(Relation leaf, int32 feed_id)
{
	Oid			types[] = {INT4OID, OIDOID};
	Datum		values[] = {Int32GetDatum(feed_id), ObjectIdGetDatum(RelationGetRelid(leaf))};
	bool	   *excluded;
	bool		isnull;

	if (SPI_execute_with_args("SELECT a.attnum FROM scd2_internal.feed f JOIN pg_catalog.pg_attribute a ON a.attname = ANY (f.except_columns)"
							  " WHERE f.feed_id = $1 AND a.attrelid = $2 AND a.attnum > 0 AND NOT a.attisdropped", 2, types, values, NULL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read scd2_internal.feed");
	if (SPI_processed == 0)
		return NULL;
	excluded = palloc0(RelationGetDescr(leaf)->natts * sizeof(bool));
	for (uint64 i = 0; i < SPI_processed; i++)
		excluded[DatumGetInt16(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull)) - 1] = true;
	return excluded;
}

static HeapTuple
without(HeapTuple tuple, TupleDesc desc, const bool *excluded)
{
	Datum	   *values = palloc0(desc->natts * sizeof(Datum));
	bool	   *isnull = palloc(desc->natts * sizeof(bool));

	memset(isnull, true, desc->natts * sizeof(bool));
	return heap_modify_tuple(tuple, desc, values, isnull, unconstify(bool *, excluded));
}

/* A row as it is stored, with what is stored apart from it. */
static bytea *
image_of(HeapTuple tuple, TupleDesc desc)
{
	HeapTuple	whole = HeapTupleHasExternal(tuple) ? toast_flatten_tuple(tuple, desc) : tuple;
	bytea	   *image = palloc(VARHDRSZ + whole->t_len);

	SET_VARSIZE(image, VARHDRSZ + whole->t_len);
	memcpy(VARDATA(image), whole->t_data, whole->t_len);
	return image;
}

static SPIPlanPtr
prepare_insert(void)
{
	Oid			types[] = {INT4OID, OIDOID, BOOLOID, BYTEAOID};
	SPIPlanPtr	plan = SPI_prepare("INSERT INTO scd2_internal.staged_row (feed_id, leaf_relid, arrives, image) VALUES ($1, $2, $3, $4)", 4, types);

	if (plan == NULL)
		elog(ERROR, "could not prepare the insert into scd2_internal.staged_row");
	return plan;
}

/* Returns how many rows there were. */
static int64
stage(Relation leaf, int32 feed_id, bool arrives)
{
	SPIPlanPtr	plan = prepare_insert();
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = table_beginscan(leaf, snapshot, 0, NULL);
	TupleTableSlot *slot = table_slot_create(leaf, NULL);
	MemoryContext row_cxt = AllocSetContextCreate(CurrentMemoryContext, "pg_scd2 staged row", ALLOCSET_DEFAULT_SIZES);
	Datum		values[] = {Int32GetDatum(feed_id), ObjectIdGetDatum(RelationGetRelid(leaf)), BoolGetDatum(arrives), 0};
	bool	   *excluded = read_excluded(leaf, feed_id);
	int64		rows = 0;

	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		MemoryContext old = MemoryContextSwitchTo(row_cxt);
		bool		should_free;
		HeapTuple	tuple = ExecFetchSlotHeapTuple(slot, false, &should_free);

		CHECK_FOR_INTERRUPTS();
		if (excluded != NULL)
			tuple = without(tuple, RelationGetDescr(leaf), excluded);
		values[3] = PointerGetDatum(image_of(tuple, RelationGetDescr(leaf)));
		if (SPI_execute_plan(plan, values, NULL, false, 0) != SPI_OK_INSERT)
			elog(ERROR, "could not insert into scd2_internal.staged_row");
		MemoryContextSwitchTo(old);
		MemoryContextReset(row_cxt);
		rows++;
	}
	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	MemoryContextDelete(row_cxt);
	return rows;
}

/*
 * scd2_internal.stage_rows(feed integer, leaf oid, arrives boolean): the rows of a table as everybody
 * sees them now and as this transaction made them. Returns how many.
 */
Datum
scd2_stage_rows(PG_FUNCTION_ARGS)
{
	Relation	leaf = table_open(PG_GETARG_OID(1), AccessShareLock);
	Oid			types[] = {OIDOID};
	Datum		values[] = {ObjectIdGetDatum(RelationGetRelid(leaf))};
	int64		rows;

	SPI_connect();
	rows = stage(leaf, PG_GETARG_INT32(0), PG_GETARG_BOOL(2));
	if (rows > 0 && SPI_execute_with_args("DELETE FROM scd2_internal.staged_row WHERE leaf_relid = $1", 1, types, values, NULL, false, 0) != SPI_OK_DELETE)
		elog(ERROR, "could not delete from scd2_internal.staged_row");
	SPI_finish();
	table_close(leaf, NoLock);
	PG_RETURN_INT64(rows);
}
