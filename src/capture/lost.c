/*
 * lost.c
 *		A place in the log that is lost, and what the capture worker makes of it.
 *
 * The position is the end of what is captured. Changes after it can be read only through the slot
 * that it names, if that is there, valid, not ahead of it, and has its log. This is looked at before
 * the slot is opened; while a worker has the slot, nobody can drop it, and a server that invalidates
 * it ends the worker first. So the start is the only place where a slot can be found lost.
 *
 * The timeline is recorded, but decides nothing. The position is a row, so what it says is of the
 * timeline that the server is on: a slot at or behind it reads the same log that the row was
 * written after. A slot that another timeline has left here (a data folder restored over the old
 * one) is ahead, or its log is not there.
 *
 * What follows is src/sql/21_resume.sql's.
 */
#include "postgres.h"

#include <sys/stat.h>

#include "access/timeline.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "access/xlog_internal.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "replication/slot.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "capture/lost.h"
#include "worker/worker.h"

/* Is the row that of another database or system, which this is a copy or a restored dump of? */
bool
scd2_position_is_foreign(const Scd2Position *position)
{
	return position->restored || position->database != MyDatabaseId || position->system_identifier != GetSystemIdentifier();
}

/* Is there a file with the log at "lsn", of this timeline or one that it came from? */
static bool
log_is_there(XLogRecPtr lsn)
{
	List	   *history = readTimeLineHistory(GetWALInsertionTimeLine());
	ListCell   *lc;
	XLogSegNo	segment;
	bool		found = false;

	XLByteToSeg(lsn, segment, wal_segment_size);
	foreach(lc, history)
	{
		char		path[MAXPGPATH];
		struct stat st;

		XLogFilePath(path, ((TimeLineHistoryEntry *) lfirst(lc))->tli, segment, wal_segment_size);
		found |= stat(path, &st) == 0;
	}
	list_free_deep(history);
	return found;
}

/*
 * Why nothing can be read after a position that has been reached, NULL if it can. In the current
 * memory context; in a transaction.
 */
char *
scd2_position_why_lost(const Scd2Position *position)
{
	const char *name = NameStr(position->slot);
	ReplicationSlot *slot = SearchNamedReplicationSlot(name, true);

	if (slot == NULL || slot->data.database != MyDatabaseId)
		return psprintf("replication slot \"%s\" is gone", name);
	if (scd2_slot_is_invalid(slot))
		return psprintf("replication slot \"%s\" was invalidated by the server", name);
	if (slot->data.confirmed_flush > position->lsn)
		return psprintf("replication slot \"%s\" is ahead of what is captured: at %X/%X instead of %X/%X", name,
						LSN_FORMAT_ARGS(slot->data.confirmed_flush), LSN_FORMAT_ARGS(position->lsn));
	if (!log_is_there(slot->data.restart_lsn))
		return psprintf("the log that replication slot \"%s\" needs, from %X/%X on, is not there", name,
						LSN_FORMAT_ARGS(slot->data.restart_lsn));
	return NULL;
}

static void
lock_position(void)
{
	if (SPI_execute("LOCK TABLE scd2_internal.position IN ACCESS EXCLUSIVE MODE", false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not lock scd2_internal.position");
}

/* Returns the first version that is missing. */
static int64
lose(const char *why)
{
	Oid			types[] = {TEXTOID};
	Datum		values[] = {CStringGetTextDatum(why)};
	bool		isnull;

	if (SPI_execute_with_args("SELECT scd2_internal.lose_position($1)", 1, types, values, NULL, false, 1) != SPI_OK_SELECT ||
		SPI_processed != 1)
		elog(ERROR, "could not call scd2_internal.lose_position()");
	return DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
}

/*
 * Declares the gap of every feed; "position" becomes one without a slot. (scd2.resume_capture() may
 * do the same at the same time: who comes second finds another slot's name.) Outside a transaction.
 */
void
scd2_position_lose(Scd2Position *position, const char *why)
{
	NameData	slot = position->slot;
	int64		version;

	StartTransactionCommand();
	SPI_connect();
	PushActiveSnapshot(GetTransactionSnapshot());
	lock_position();
	PopActiveSnapshot();
	PushActiveSnapshot(GetTransactionSnapshot());
	(void) scd2_position_read(position);
	if (strcmp(NameStr(position->slot), NameStr(slot)) == 0)
	{
		version = lose(why);
		ereport(WARNING,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("change data feeds have a gap from version " INT64_FORMAT " on: %s", version, why),
				 errdetail("Changes after %X/%X cannot be read any more.", LSN_FORMAT_ARGS(position->lsn)),
				 errhint("SELECT * FROM scd2.diagnose();")));
		CommandCounterIncrement();
		(void) scd2_position_read(position);
	}
	PopActiveSnapshot();
	SPI_finish();
	CommitTransactionCommand();
}

/*
 * What was asked for while the new slot was made may not be in the part of the log that it reads. In
 * a transaction with a snapshot.
 */
void
scd2_position_settle_controls(const Scd2Position *position)
{
	Oid			types[] = {INT8OID, TIMESTAMPTZOID};
	Datum		values[] = {Int64GetDatum(position->version), TimestampTzGetDatum(position->timestamp)};

	SPI_connect();
	if (SPI_execute_with_args("SELECT scd2_internal.fail_unmet_controls($1, COALESCE($2, pg_catalog.clock_timestamp()),"
							  " 'the place in the log was lost when it was asked for')",
							  2, types, values, position->timestamp == 0 ? " n" : NULL, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not call scd2_internal.fail_unmet_controls()");
	SPI_finish();
}

/*
 * The numbers (int64 *) of control records that are settled and must not be heeded when they are
 * met. In a transaction with a snapshot; in the current memory context.
 */
List *
scd2_position_settled_controls(void)
{
	MemoryContext cxt = CurrentMemoryContext;
	List	   *settled = NIL;

	SPI_connect();
	if (SPI_execute("SELECT control_id FROM scd2_internal.control WHERE settled", true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read scd2_internal.control");
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;
		MemoryContext old = MemoryContextSwitchTo(cxt);
		int64	   *id = palloc(sizeof(int64));

		*id = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull));
		settled = lappend(settled, id);
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
	return settled;
}
