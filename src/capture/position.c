/*
 * position.c
 *		Where capture stands: the one row of scd2_internal.position.
 *
 * The row is written in the transaction that writes the feed rows up to it, by the capture worker
 * alone, and by TID: under an old snapshot (a long query anywhere) its dead versions cannot be
 * removed, and an update that finds the row through the index walks them all, a hundred times
 * slower after some minutes. The page is pruned before each update, which the server does on reads
 * only. The TID is looked up again after a relcache invalidation (VACUUM FULL moves the row).
 *
 * Columns are those of 10_catalog.sql, by number.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "common/pg_prng.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/pg_lsn.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/uuid.h"

#include "pg_scd2.h"
#include "compat.h"
#include "capture/position.h"

enum
{
	COL_SINGLETON, COL_VERSION, COL_COMMIT_TIMESTAMP, COL_CAPTURED_LSN, COL_DATABASE,
	COL_SYSTEM_IDENTIFIER, COL_TIMELINE, COL_SLOT, COL_HOME, NCOLS
};

#define COL_HOME_ID	1			/* of scd2_internal.home */

static Oid	position_relid = InvalidOid;
static ItemPointerData position_tid;
static NameData position_slot;	/* of the row that we made or read */

static void
forget_tid(Datum arg, Oid relid)
{
	if (!OidIsValid(relid) || relid == position_relid)
		ItemPointerSetInvalid(&position_tid);
}

static Relation
open_position(LOCKMODE mode)
{
	static bool registered = false;

	if (!registered)
		CacheRegisterRelcacheCallback(forget_tid, (Datum) 0);
	registered = true;
	position_relid = get_relname_relid("position", get_namespace_oid(SCD2_INTERNAL, false));
	return table_open(position_relid, mode);
}

/* The row of a table of one row, by a scan. NULL: there is none. The tuple is the caller's. */
static HeapTuple
only_row(Relation rel)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = table_beginscan(rel, snapshot, 0, NULL);
	HeapTuple	tup = heap_getnext(scan, ForwardScanDirection);

	if (tup)
		tup = heap_copytuple(tup);
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
	return tup;
}

/* As only_row(), and remembers where it is. */
static HeapTuple
find_row(Relation rel)
{
	HeapTuple	tup = only_row(rel);

	if (tup)
		position_tid = tup->t_self;
	return tup;
}

/* What scd2_internal.home() returns. Allocated in the current context. */
static Datum
home(void)
{
	Relation	rel = table_open(get_relname_relid("home", get_namespace_oid(SCD2_INTERNAL, false)), AccessShareLock);
	HeapTuple	tup = only_row(rel);
	Datum		id;
	bool		isnull;

	if (tup == NULL)
		elog(ERROR, "scd2_internal.home has no row");
	id = heap_getattr(tup, COL_HOME_ID + 1, RelationGetDescr(rel), &isnull);
	table_close(rel, AccessShareLock);
	return id;
}

/*
 * A template that has the extension, and where nothing was ever asked for, is copied with an empty
 * position. Deletes it; false if the position says something. Outside a transaction.
 */
bool
scd2_position_forget_empty(void)
{
	bool		empty;

	StartTransactionCommand();
	SPI_connect();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (SPI_execute("DELETE FROM scd2_internal.position WHERE version = 0 AND NOT EXISTS (SELECT FROM scd2_internal.feed)"
					" AND NOT EXISTS (SELECT FROM scd2_internal.flow)", false, 0) != SPI_OK_DELETE)
		elog(ERROR, "could not delete from scd2_internal.position");
	empty = SPI_processed > 0;
	PopActiveSnapshot();
	SPI_finish();
	CommitTransactionCommand();
	return empty;
}

/*
 * Nothing was captured here yet. If this database is a copy of a template that has the extension,
 * others have its home.
 */
static Datum
new_home(void)
{
	SPI_connect();
	if (SPI_execute("SELECT scd2_internal.new_home()", false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not call scd2_internal.new_home()");
	SPI_finish();
	CommandCounterIncrement();
	return home();
}

/* Reads the row; false if there is none. In a transaction. */
bool
scd2_position_read(Scd2Position *position)
{
	Relation	rel = open_position(AccessShareLock);
	HeapTuple	tup = find_row(rel);
	Datum		values[NCOLS];
	bool		isnull[NCOLS];

	if (tup)
	{
		heap_deform_tuple(tup, RelationGetDescr(rel), values, isnull);
		position->version = DatumGetInt64(values[COL_VERSION]);
		position->timestamp = isnull[COL_COMMIT_TIMESTAMP] ? 0 : DatumGetTimestampTz(values[COL_COMMIT_TIMESTAMP]);
		position->lsn = isnull[COL_CAPTURED_LSN] ? InvalidXLogRecPtr : DatumGetLSN(values[COL_CAPTURED_LSN]);
		position->database = DatumGetObjectId(values[COL_DATABASE]);
		position->system_identifier = (uint64) DatumGetInt64(values[COL_SYSTEM_IDENTIFIER]);
		position->timeline = DatumGetInt32(values[COL_TIMELINE]);
		position->slot = position_slot = *DatumGetName(values[COL_SLOT]);
		position->restored = memcmp(DatumGetUUIDP(values[COL_HOME]), DatumGetUUIDP(home()), UUID_LEN) != 0;
	}
	table_close(rel, AccessShareLock);
	return tup != NULL;
}

/*
 * Makes the row, without a position: the slot whose name it gives comes next. The name has a random
 * part, so that a copy of the database is never mistaken for this one. In a transaction with a snapshot.
 */
void
scd2_position_create(Scd2Position *position)
{
	Relation	rel = open_position(RowExclusiveLock);
	Datum		values[NCOLS];
	bool		isnull[NCOLS] = {false};

	memset(position, 0, sizeof(*position));
	position->database = MyDatabaseId;
	position->system_identifier = GetSystemIdentifier();
	position->timeline = GetWALInsertionTimeLine();
	snprintf(NameStr(position->slot), NAMEDATALEN, "pg_scd2_%u_%08x",
			 MyDatabaseId, pg_prng_uint32(&pg_global_prng_state));
	position_slot = position->slot;

	values[COL_SINGLETON] = BoolGetDatum(true);
	values[COL_VERSION] = Int64GetDatum(0);
	isnull[COL_COMMIT_TIMESTAMP] = true;
	isnull[COL_CAPTURED_LSN] = true;
	values[COL_DATABASE] = ObjectIdGetDatum(position->database);
	values[COL_SYSTEM_IDENTIFIER] = Int64GetDatum((int64) position->system_identifier);
	values[COL_TIMELINE] = Int32GetDatum(position->timeline);
	values[COL_SLOT] = NameGetDatum(&position->slot);
	values[COL_HOME] = new_home();
	CatalogTupleInsert(rel, heap_form_tuple(RelationGetDescr(rel), values, isnull));
	table_close(rel, NoLock);
	CommandCounterIncrement();
}

/* The row as it is, by its TID. The tuple points into the page, which stays pinned in *buffer. */
static bool
fetch_row(Relation rel, HeapTuple tup, Buffer *buffer)
{
	Buffer		page;

	if (!ItemPointerIsValid(&position_tid))
		return false;
	page = ReadBuffer(rel, ItemPointerGetBlockNumber(&position_tid));
	heap_page_prune_opt(rel, page);
	ReleaseBuffer(page);
	tup->t_self = position_tid;
	return heap_fetch(rel, GetActiveSnapshot(), tup, buffer, false);
}

static void
check_ours(HeapTuple row, TupleDesc desc)
{
	bool		isnull;
	Name		slot = DatumGetName(heap_getattr(row, COL_SLOT + 1, desc, &isnull));

	if (strcmp(NameStr(*slot), NameStr(position_slot)) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a dump was restored into this database"),
				 errhint("SELECT scd2.resume_capture();")));
}

/*
 * Moves the position. In the transaction that writes what lies before it. Raises 55000 if the row is
 * not the one that was read or made.
 */
void
scd2_position_write(int64 version, TimestampTz timestamp, XLogRecPtr lsn)
{
	Relation	rel = open_position(RowExclusiveLock);
	HeapTupleData old;
	HeapTuple	found = &old;
	HeapTuple	new;
	Buffer		buffer = InvalidBuffer;
	Datum		values[NCOLS] = {0};
	bool		isnull[NCOLS] = {false};
	bool		replace[NCOLS] = {false};

	if (!fetch_row(rel, &old, &buffer))
		found = find_row(rel);
	if (found == NULL)
		elog(ERROR, "scd2_internal.position has no row");
	check_ours(found, RelationGetDescr(rel));

	replace[COL_VERSION] = replace[COL_COMMIT_TIMESTAMP] = replace[COL_CAPTURED_LSN] = replace[COL_TIMELINE] = true;
	values[COL_VERSION] = Int64GetDatum(version);
	values[COL_COMMIT_TIMESTAMP] = TimestampTzGetDatum(timestamp);
	isnull[COL_COMMIT_TIMESTAMP] = timestamp == 0;
	values[COL_CAPTURED_LSN] = LSNGetDatum(lsn);
	values[COL_TIMELINE] = Int32GetDatum(GetWALInsertionTimeLine());
	new = heap_modify_tuple(found, RelationGetDescr(rel), values, isnull, replace);
	CatalogTupleUpdate(rel, &found->t_self, new);
	position_tid = new->t_self;
	if (BufferIsValid(buffer))
		ReleaseBuffer(buffer);
	table_close(rel, NoLock);
}
