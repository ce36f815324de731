/*
 * backlog.c
 *		Changes of feeds that cannot be written where they belong, kept aside in order.
 *
 * A feed is its owner's table: somebody may hold a lock on it for hours, something may stand on it that
 * must not, writing it may fail. None of that is to stop the capture of other tables. So what a batch has
 * for such a feed goes into scd2_internal.backlog instead, in the transaction that moves the position:
 * the rows as they were formed, and before them the layout that they have. While a feed has a backlog,
 * everything of it goes there, so its order stays that of versions.
 *
 *   entry   l   the layout of the rows that follow; the feed's columns have to follow it first
 *           L   the same, and they have
 *           r   rows, a chunk of the batch's buffer
 *           g   a gap that is repaired from a version on (a rewrite)
 *
 * What ends a feed, a gap or that it was disabled, is noted in its row of scd2_internal.feed_backlog, and
 * takes effect when all before it is written.
 *
 * Between batches the entries are written where they belong, oldest first, 10 MB in a transaction,
 * which takes them away here. Locks are tried, every MAX_PAUSE at least. If that was in vain for
 * ASK_AFTER, we wait in the queue for a lock: else readers that overlap would keep it from us for ever.
 * Now those that come wait behind us, and so does the capture of all tables. So it is done once in
 * ASK_AFTER, never behind a transaction that has run for LONG_USE or is prepared, and for MIN_PATIENCE at
 * first, twice as long after each time in vain, up to MAX_PATIENCE: who takes less than that cannot keep
 * the lock from us.
 *
 * Up to which version a feed is complete (complete_version) is what everybody who reads it goes by:
 * scd2_internal.feed_complete().
 *
 * MAX_ERRORS errors in a row are the feed's: it has a gap from its first entry on. Lack of resources, locks,
 * cancellation, and what stands on the feed (classes 40, 53, 55, 57) do not count: those pass, or somebody
 * has to do something. Neither do those of a change of columns, while there is an event trigger that may
 * refuse it (watched.c). A backlog of more than pg_scd2.feed_backlog bytes is a gap
 * from the first version on that has no room.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "pg_scd2.h"
#include "capture/backlog.h"
#include "capture/captured.h"
#include "capture/feed_state.h"
#include "capture/transaction.h"
#include "feed/kept_layout.h"
#include "feed/layout.h"
#include "feed/writer.h"
#include "names.h"
#include "worker/failpoint.h"
#include "worker/marks.h"
#include "worker/watched.h"
#include "worker/worker.h"

#define MAX_ERRORS		5
#define MS				INT64CONST(1000)
#define MIN_PAUSE		(10 * MS)
#define MAX_PAUSE		(100 * MS)	/* between two tries for a lock */
#define ERROR_PAUSE		(100 * MS)	/* after an error, twice as long after each, */
#define MAX_ERROR_PAUSE	(1000 * MS) /* up to this */
#define EMPTY_EVERY		(1000 * MS)
#define ASK_AFTER		(1000 * MS)
#define LONG_USE		(1000 * MS)
#define MIN_PATIENCE	50		/* ms */
#define MAX_PATIENCE	400

/* What a transaction changes, to be taken back with it. */
typedef struct BacklogExtent
{
	int64		next_n;			/* number of the next entry */
	int64		bytes;
	bool		layout_kept;	/* the last layout kept is that of the next rows */
	bool		ended;			/* the feed is captured no longer: a gap, or it was disabled */
	int64		gap_version;	/* 0: no gap */
	char	   *full;			/* that it is because there is no room: to be told */
} BacklogExtent;

struct Scd2Backlog
{
	int			feed_id;
	Oid			source_relid;
	Oid			feed_relid;
	int64		complete;		/* the version before the first entry's */
	bool		there;			/* committed */
	bool		disabled;		/* the feed was, and nothing waits any more */
	BacklogExtent now;
	BacklogExtent committed;

	/* Writing where it belongs. */
	TimestampTz due;			/* not before */
	int64		pause;			/* µs: the last one between tries */
	TimestampTz locked_since;	/* 0: is not */
	TimestampTz asked_at;		/* when we last waited for a lock, */
	int			asked;			/* and how often since */
	char	   *error;			/* the last; NULL: none, or somebody's lock */
	int			errors;			/* in a row, of those that count */
};

/* What is written of a backlog in one transaction. */
typedef struct Part
{
	Scd2Backlog *backlog;
	Scd2Feed   *feed;			/* made of what is kept, as the batch had it */
	Portal		cursor;			/* over the entries */
	int64		layout_n;		/* of the layout; 0: none was met */
	int64		upto;			/* number of the last entry that is in it */
	int64		bytes;			/* of its entries that go */
	bool		columns;		/* they have to follow */
	bool		repair;			/* it is a gap that is repaired, and nothing else: */
	TimestampTz repair_timestamp;	/* the time of its version */
	/* The entry after it. */
	char		next_kind;		/* '\0': none */
	int64		next_version;
} Part;

static List *backlogs = NIL;	/* of Scd2Backlog */
static bool has_space = true;	/* the table of entries may take some, though it may be empty */
static TimestampTz emptied_at = 0;	/* or tried to be */

/* ---- those that there are ---- */

Scd2Backlog *
scd2_backlog_of(int feed_id)
{
	ListCell   *lc;

	foreach(lc, backlogs)
		if (((Scd2Backlog *) lfirst(lc))->feed_id == feed_id)
			return lfirst(lc);
	return NULL;
}

/* The relation of a feed that was disabled may be that of another by now. */
bool
scd2_backlog_on_relation(Oid feed_relid)
{
	ListCell   *lc;

	foreach(lc, backlogs)
		if (((Scd2Backlog *) lfirst(lc))->feed_relid == feed_relid)
			return true;
	return false;
}

bool
scd2_backlog_goes_on(const Scd2Backlog *backlog)
{
	return !backlog->now.ended;
}

int64
scd2_backlog_complete(const Scd2Backlog *backlog)
{
	return backlog->complete;
}

static Scd2Backlog *
make(int feed_id, Oid source_relid, Oid feed_relid)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	Scd2Backlog *backlog = palloc0(sizeof(Scd2Backlog));

	backlog->feed_id = feed_id;
	backlog->source_relid = source_relid;
	backlog->feed_relid = feed_relid;
	backlog->now.next_n = 1;
	backlogs = lappend(backlogs, backlog);
	MemoryContextSwitchTo(old);
	return backlog;
}

static void
forget(Scd2Backlog *backlog)
{
	scd2_captured_forget_backlog(backlog);
	backlogs = list_delete_ptr(backlogs, backlog);
	if (backlog->error)
		pfree(backlog->error);
	pfree(backlog);
}

static void
query(const char *sql, int expected, int nargs, Oid *types, Datum *values, const char *nulls)
{
	int			rc = SPI_execute_with_args(sql, nargs, types, values, nulls, false, 0);

	if (rc != expected)
		elog(ERROR, "SPI error %s: %s", SPI_result_code_string(rc), sql);
}

static Datum
result(uint64 row, int column, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column, isnull);
}

/*
 * What an earlier worker left. In a transaction with a snapshot.
 */
void
scd2_backlog_load(void)
{
	SPI_connect();
	query("SELECT b.feed_id, f.source_relid::oid, f.feed_relid::oid, b.complete_version, b.bytes, b.gap_version, b.disabled,"
		  "       (SELECT coalesce(max(e.n), 0) FROM scd2_internal.backlog e WHERE e.feed_id = b.feed_id)"
		  " FROM scd2_internal.feed_backlog b JOIN scd2_internal.feed f USING (feed_id) JOIN scd2_internal.feed_state s USING (feed_id)"
		  " WHERE " SCD2_AT_HOME("s") " ORDER BY b.feed_id", SPI_OK_SELECT, 0, NULL, NULL, NULL);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;
		bool		has_no_gap;
		Scd2Backlog *backlog = make(DatumGetInt32(result(i, 1, &isnull)), DatumGetObjectId(result(i, 2, &isnull)),
									DatumGetObjectId(result(i, 3, &isnull)));

		backlog->complete = DatumGetInt64(result(i, 4, &isnull));
		backlog->now.bytes = DatumGetInt64(result(i, 5, &isnull));
		backlog->now.gap_version = DatumGetInt64(result(i, 6, &has_no_gap));
		backlog->now.ended = !has_no_gap || DatumGetBool(result(i, 7, &isnull));
		backlog->now.next_n = DatumGetInt64(result(i, 8, &isnull)) + 1;
		backlog->committed = backlog->now;
		backlog->there = true;
		scd2_feed_set_latest(backlog->feed_id, backlog->complete);
	}
	SPI_finish();
}

static void
read_last_layout(Scd2Feed *feed)
{
	Oid			types[] = {INT4OID};
	Datum		values[] = {Int32GetDatum(feed->feed_id)};
	bool		isnull;

	SPI_connect();
	query("SELECT content FROM scd2_internal.backlog WHERE feed_id = $1 AND kind IN ('l', 'L') ORDER BY n DESC LIMIT 1",
		  SPI_OK_SELECT, 1, types, values, NULL);
	if (SPI_processed > 0)
	{
		scd2_layout_unpack(feed, DatumGetByteaPP(result(0, 1, &isnull)));
		scd2_layout_find_columns(feed);
		scd2_layout_settle(feed);
	}
	SPI_finish();
}

/* ---- putting aside ---- */

/* Before a batch is written, also again after that failed: what was put aside and not committed is not there. */
void
scd2_backlog_begin(void)
{
	for (int i = list_length(backlogs) - 1; i >= 0; i--)
	{
		Scd2Backlog *backlog = list_nth(backlogs, i);

		if (backlog->there)
			backlog->now = backlog->committed;
		else
			forget(backlog);
	}
}

/* After it was committed. */
void
scd2_backlog_settle(void)
{
	ListCell   *lc;

	foreach(lc, backlogs)
	{
		Scd2Backlog *backlog = lfirst(lc);

		if (backlog->now.full)
			ereport(WARNING, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED), errmsg_internal("%s", backlog->now.full)));
		if (!backlog->there)
			scd2_feed_set_latest(backlog->feed_id, backlog->complete);
		backlog->now.full = NULL;
		backlog->there = true;
		backlog->committed = backlog->now;
	}
}

static void
put_entry(Scd2Backlog *backlog, char kind, int64 first, int64 last, bytea *content)
{
	Oid			types[] = {INT4OID, INT8OID, CHAROID, INT8OID, INT8OID, BYTEAOID};
	Datum		values[] = {
		Int32GetDatum(backlog->feed_id), Int64GetDatum(backlog->now.next_n), CharGetDatum(kind),
		Int64GetDatum(first), Int64GetDatum(last), PointerGetDatum(content)
	};

	query("INSERT INTO scd2_internal.backlog (feed_id, n, kind, first_version, last_version, content) VALUES ($1, $2, $3, $4, $5, $6)",
		  SPI_OK_INSERT, 6, types, values, NULL);
	backlog->now.next_n++;
	backlog->now.bytes += VARSIZE(content);
	has_space = true;
}

static bytea *
make_bytes(const char *bytes, Size size)
{
	bytea	   *content = palloc_extended(VARHDRSZ + size, MCXT_ALLOC_HUGE);

	SET_VARSIZE(content, VARHDRSZ + size);
	memcpy(VARDATA(content), bytes, size);
	return content;
}

static int64
version_of(Scd2Feed *feed, HeapTuple row)
{
	bool		isnull;

	return DatumGetInt64(heap_getattr(row, SCD2_META_COMMIT_VERSION + 1, feed->layout, &isnull));
}

/* The versions of the chunk at hand. */
static void
versions_of_chunk(Scd2Feed *feed, int64 *first, int64 *last)
{
	HeapTupleData row;

	*first = *last = 0;
	while (scd2_rows_next(feed->rows, &row))
	{
		*last = version_of(feed, &row);
		if (*first == 0)
			*first = *last;
	}
}

static void
end_at(Scd2Backlog *backlog, int64 version)
{
	backlog->now.ended = true;
	backlog->now.gap_version = version;
}

/* False: there is no room for all of them. */
static bool
put_rows(Scd2Backlog *backlog, Scd2Feed *feed)
{
	int64		limit = (int64) scd2_feed_backlog * 1024;

	scd2_rows_rewind(feed->rows);
	while (scd2_rows_next_chunk(feed->rows))
	{
		Size		size;
		const char *chunk = scd2_rows_chunk(feed->rows, &size);
		int64		first;
		int64		last;
		bytea	   *content;

		versions_of_chunk(feed, &first, &last);
		if (feed->failure && first >= feed->failed_version)
			break;
		if (backlog->now.bytes + (int64) size > limit || size > MaxAllocSize - VARHDRSZ)
		{
			end_at(backlog, first);
			return false;
		}
		content = make_bytes(chunk, size);
		put_entry(backlog, 'r', first, last, content);
		pfree(content);
		CHECK_FOR_INTERRUPTS();
	}
	return true;
}

static void
put_repair(Scd2Batch *batch, Scd2Backlog *backlog, Scd2Feed *feed)
{
	StringInfoData to;

	pq_begintypsend(&to);
	pq_sendint64(&to, batch->version_timestamp);
	appendStringInfoString(&to, feed->failure);
	put_entry(backlog, 'g', feed->failed_version, batch->version, pq_endtypsend(&to));
	backlog->now.layout_kept = false;
	feed->goes_on = true;
}

/* The row of feed_backlog, made or brought up to date. "why": an error because of which the feed was not written. */
static void
note(Scd2Backlog *backlog, const char *gap_reason, const ErrorData *why)
{
	Oid			types[] = {INT4OID, INT8OID, INT8OID, INT8OID, TEXTOID, TEXTOID};
	Datum		values[] = {
		Int32GetDatum(backlog->feed_id), Int64GetDatum(backlog->complete), Int64GetDatum(backlog->now.bytes), Int64GetDatum(backlog->now.gap_version),
		gap_reason ? CStringGetTextDatum(gap_reason) : (Datum) 0, why ? CStringGetTextDatum(why->message) : (Datum) 0
	};
	char		nulls[] = {' ', ' ', ' ', backlog->now.gap_version > 0 ? ' ' : 'n', gap_reason ? ' ' : 'n', why ? ' ' : 'n', '\0'};

	query("INSERT INTO scd2_internal.feed_backlog AS b (feed_id, complete_version, bytes, gap_version, gap_reason, error)"
		  " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (feed_id) DO UPDATE"
		  " SET bytes = excluded.bytes, gap_version = coalesce(b.gap_version, excluded.gap_version), gap_reason = coalesce(b.gap_reason, excluded.gap_reason)",
		  SPI_OK_INSERT, 6, types, values, nulls);
}

/* What comes of the feed cannot be formed. What waits may still be written, up to where that fails. */
static void
lose_layout(Scd2Backlog *backlog, int64 version, const ErrorData *error)
{
	end_at(backlog, version);
	SPI_connect();
	note(backlog, error->message, NULL);
	SPI_finish();
	backlog->committed = backlog->now;
	ereport(WARNING,
			(errcode(error->sqlerrcode),
			 errmsg("the change data feed of table %s will have a gap from version " INT64_FORMAT " on: %s",
					scd2_relation_name(backlog->source_relid), version, error->message)));
}

/*
 * Gives a feed the layout that the decoder has of it at the position, and what stays out, if there is one in
 * its backlog. False: that cannot be read (another version of the library may have written it), and the feed
 * has a gap from "version" on. In a transaction with a snapshot.
 */
bool
scd2_backlog_last_layout(Scd2Feed *feed, int64 version)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		read_last_layout(feed);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	if (error != NULL)
		lose_layout(feed->backlog, version, error);
	return error == NULL;
}

static void
remember_error(Scd2Backlog *backlog, const ErrorData *error)
{
	if (backlog->error)
		pfree(backlog->error);
	backlog->error = MemoryContextStrdup(TopMemoryContext, error->message);
}

static Scd2Backlog *
begin(Scd2Feed *feed, int64 first_version, const ErrorData *why)
{
	Scd2Backlog *backlog = make(feed->feed_id, feed->source_relid, feed->feed_relid);

	backlog->complete = first_version - 1;
	feed->backlog = backlog;
	if (why != NULL)
		remember_error(backlog, why);
	return backlog;
}

/*
 * Puts what the batch has of a feed into its backlog. "why": the error because of which it was not
 * written; NULL: somebody's lock, or what is there waits already. In the transaction that moves the
 * position, within no SPI.
 */
void
scd2_backlog_put(Scd2Batch *batch, Scd2Feed *feed, const ErrorData *why)
{
	int64		first = feed->rows != NULL || feed->columns_changed ? feed->first_version : feed->failed_version;
	Scd2Backlog *backlog = feed->backlog != NULL ? feed->backlog : begin(feed, first, why);
	char	   *gap_reason = NULL;
	bool		goes_on = true;

	SPI_connect();
	if ((feed->rows != NULL || feed->columns_changed) && (feed->columns_changed || !backlog->now.layout_kept))
	{
		put_entry(backlog, feed->columns_changed ? 'l' : 'L', first, first, scd2_layout_pack(feed));
		backlog->now.layout_kept = !feed->columns_changed;
	}
	if (feed->rows != NULL && !put_rows(backlog, feed))
	{
		goes_on = false;
		gap_reason = psprintf("what could not be written is more than pg_scd2.feed_backlog (%s)", GetConfigOptionByName("pg_scd2.feed_backlog", NULL, false));
		backlog->now.full = MemoryContextStrdup(batch->cxt, psprintf("the change data feed of table %s will have a gap from version " INT64_FORMAT " on: %s",
																	 scd2_relation_name(feed->source_relid), backlog->now.gap_version, gap_reason));
	}
	if (feed->failure && goes_on)
	{
		if (feed->repairs && scd2_feed_is_comparable(feed->feed_id))
			put_repair(batch, backlog, feed);
		else
		{
			end_at(backlog, feed->failed_version);
			gap_reason = feed->failure;
		}
	}
	note(backlog, gap_reason, why);
	SPI_finish();
	CommandCounterIncrement();
	SCD2_FAIL_POINT("put aside");
}

/*
 * A feed was disabled, at this place in the log: once what waits is written. False: nothing waits. Within
 * SPI, in the transaction that moves the position.
 */
bool
scd2_backlog_disable(int feed_id)
{
	Scd2Backlog *backlog = scd2_backlog_of(feed_id);
	Oid			types[] = {INT4OID};
	Datum		values[] = {Int32GetDatum(feed_id)};

	if (backlog == NULL)
		return false;
	backlog->now.ended = true;
	query("UPDATE scd2_internal.feed_backlog SET disabled = true WHERE feed_id = $1", SPI_OK_UPDATE, 1, types, values, NULL);
	return true;
}

/* ---- writing where it belongs ---- */

/* Another feed's on the same relation comes first. */
static bool
has_turn(const Scd2Backlog *backlog)
{
	ListCell   *lc;

	foreach(lc, backlogs)
	{
		const Scd2Backlog *other = lfirst(lc);

		if (other->feed_relid == backlog->feed_relid && other->feed_id < backlog->feed_id)
			return false;
	}
	return true;
}

/* The next entry, which stays the cursor's until the next is read; false: there is none. */
static bool
fetch(Part *part)
{
	bool		isnull;

	SPI_cursor_fetch(part->cursor, true, 1);
	part->next_kind = SPI_processed == 0 ? '\0' : DatumGetChar(result(0, 2, &isnull));
	part->next_version = SPI_processed == 0 ? 0 : DatumGetInt64(result(0, 3, &isnull));
	return SPI_processed > 0;
}

static void
take_layout(Part *part, int64 n, bytea *content)
{
	part->layout_n = n;
	part->columns = part->feed->columns_changed = part->next_kind == 'l';
	scd2_layout_unpack(part->feed, content);
	scd2_layout_find_columns(part->feed);
	part->feed->first_version = part->feed->last_version = part->next_version;
}

static void
take_rows(Scd2Batch *batch, Part *part, int64 last_version, bytea *content)
{
	Scd2Feed   *feed = part->feed;

	if (feed->rows == NULL)
	{
		feed->rows = scd2_rows_create(feed->cxt, batch->owner, &batch->memory);
		feed->first_version = part->next_version;
	}
	feed->last_version = last_version;
	scd2_rows_add_chunk(feed->rows, VARDATA_ANY(content), VARSIZE_ANY_EXHDR(content));
}

static void
take_repair(Part *part, int64 version, bytea *content)
{
	Scd2Feed   *feed = part->feed;
	StringInfoData from;

	initStringInfo(&from);
	appendBinaryStringInfo(&from, VARDATA_ANY(content), VARSIZE_ANY_EXHDR(content));
	part->repair = true;
	feed->failed_version = part->next_version;
	feed->last_version = version;
	part->repair_timestamp = pq_getmsgint64(&from);
	feed->failure = pnstrdup(from.data + from.cursor, from.len - from.cursor);
}

/* Takes the entry at hand into the part. */
static void
take(Scd2Batch *batch, Part *part)
{
	MemoryContext old = MemoryContextSwitchTo(part->feed->cxt);
	bool		isnull;
	int64		n = DatumGetInt64(result(0, 1, &isnull));
	int64		last_version = DatumGetInt64(result(0, 4, &isnull));
	bytea	   *content = DatumGetByteaPP(result(0, 5, &isnull));

	if (part->next_kind == 'r')
		take_rows(batch, part, last_version, content);
	else if (part->next_kind == 'g')
		take_repair(part, last_version, content);
	else
		take_layout(part, n, content);
	part->upto = n;
	part->bytes += VARSIZE_ANY_EXHDR(content) + VARHDRSZ;
	MemoryContextSwitchTo(old);
}

/* The first entries: a layout with the first rows behind it, or a repair. In SPI, as all that follows. */
static void
read_beginning(Scd2Batch *batch, Part *part)
{
	Oid			types[] = {INT4OID};
	Datum		values[] = {Int32GetDatum(part->backlog->feed_id)};

	part->cursor = SPI_cursor_open_with_args(NULL, "SELECT n, kind, first_version, last_version, content FROM scd2_internal.backlog WHERE feed_id = $1 ORDER BY n",
											 1, types, values, NULL, true, 0);
	while (fetch(part) && part->feed->rows == NULL && !part->repair &&
		   (part->layout_n == 0 || part->next_kind == 'r'))
		take(batch, part);
}

/* What follows of the same layout. */
static void
read_on(Scd2Batch *batch, Part *part)
{
	while (part->feed->rows != NULL && part->next_kind == 'r' && part->bytes < (int64) scd2_debug_drain_size * 1024)
	{
		take(batch, part);
		(void) fetch(part);
	}
	SPI_cursor_close(part->cursor);
}

static void
remove_entries(Part *part)
{
	Oid			types[] = {INT4OID, INT8OID, INT8OID};
	Datum		values[] = {
		Int32GetDatum(part->backlog->feed_id), Int64GetDatum(part->upto),
		Int64GetDatum(part->next_kind == 'r' ? part->layout_n : 0)	/* rows that follow need it */
	};

	query("DELETE FROM scd2_internal.backlog WHERE feed_id = $1 AND n <= $2 AND n <> $3", SPI_OK_DELETE, 3, types, values, NULL);
	if (part->next_kind == 'r' && part->columns)
		query("UPDATE scd2_internal.backlog SET kind = 'L' WHERE feed_id = $1 AND n = $3 AND $2 > 0", SPI_OK_UPDATE, 3, types, values, NULL);
}

static void
note_progress(Part *part)
{
	Oid			types[] = {INT4OID, INT8OID, INT8OID};
	Datum		values[] = {Int32GetDatum(part->backlog->feed_id), Int64GetDatum(part->next_version - 1), Int64GetDatum(part->bytes)};

	query("UPDATE scd2_internal.feed_backlog SET complete_version = $2, bytes = greatest(bytes - $3, 0), error = NULL WHERE feed_id = $1",
		  SPI_OK_UPDATE, 3, types, values, NULL);
}

/* Nothing waits any more: what ended the feed takes effect. */
static void
end(Scd2Backlog *backlog)
{
	Oid			types[] = {INT4OID};
	Datum		values[] = {Int32GetDatum(backlog->feed_id)};
	Scd2Feed   *feed = scd2_captured_by_id(backlog->feed_id);
	bool		isnull;
	bool		disabled;
	char	   *gap_reason;

	query("DELETE FROM scd2_internal.feed_backlog WHERE feed_id = $1 RETURNING disabled, gap_reason", SPI_OK_DELETE_RETURNING, 1, types, values, NULL);
	disabled = DatumGetBool(result(0, 1, &isnull));
	gap_reason = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2);
	backlog->disabled = disabled;
	if (disabled)
		scd2_feed_state_disable(backlog->feed_id);
	else if (gap_reason != NULL)
		scd2_feed_state_fail(backlog->feed_id, backlog->committed.gap_version, gap_reason);
	else if (feed != NULL)
		scd2_layout_find_columns(feed);
	SCD2_FAIL_POINT("backlog ended");
}

/* Writes a part. False: somebody's lock is in the way. In a transaction, within SPI. */
static bool
write_part(Scd2Batch *batch, Part *part, int patience)
{
	Scd2Feed   *feed = part->feed;

	read_beginning(batch, part);
	if (!part->repair)
	{
		if (feed->layout != NULL && !scd2_feed_lock(feed, patience))
			return false;
		SCD2_FAIL_POINT("backlog locked");
		read_on(batch, part);
		if (feed->layout != NULL)
			scd2_feed_write(feed);
	}
	else
	{
		SPI_cursor_close(part->cursor);
		scd2_feed_state_fail(feed->feed_id, feed->failed_version, feed->failure);
		if (scd2_captured_by_id(feed->feed_id) != NULL) /* its place in the log may have been lost since */
			(void) scd2_feed_state_repair(feed->feed_id, feed->last_version, part->repair_timestamp);
	}
	SCD2_FAIL_POINT("backlog rows written");
	remove_entries(part);
	SCD2_FAIL_POINT("backlog entries removed");
	if (part->next_kind == '\0')
		end(part->backlog);
	else
		note_progress(part);
	SCD2_FAIL_POINT("backlog written");
	return true;
}

/* What is committed is told. */
static void
tell(Part *part)
{
	Scd2Backlog *backlog = part->backlog;
	Scd2Database *db = scd2_my_database();
	bool		done = part->next_kind == '\0';

	if (part->columns || part->repair || (done && backlog->committed.ended))
		pg_atomic_fetch_add_u32(&db->flows_changed, 1);
	if (!done)
		scd2_feed_set_latest(backlog->feed_id, part->next_version - 1);
	else if (!backlog->committed.ended)
		scd2_feed_set_latest(backlog->feed_id, part->feed->last_version);
	else if (!backlog->disabled)	/* shared memory has forgotten it */
		scd2_feed_set_latest(backlog->feed_id, backlog->committed.gap_version - 1);
	if (done)
		forget(backlog);
	else
	{
		backlog->complete = part->next_version - 1;
		backlog->now.bytes = backlog->committed.bytes = Max(backlog->committed.bytes - part->bytes, 0);
		backlog->errors = 0;
		backlog->locked_since = 0;
		backlog->asked = 0;
		backlog->pause = 0;
	}
	scd2_wake_apply();
	scd2_progress();
}

/* How long it is waited for a lock now, in ms; 0: it is tried. */
static int
patience_for(Scd2Backlog *backlog, TimestampTz now)
{
	Oid			types[] = {OIDOID, INT8OID};
	Datum		values[] = {ObjectIdGetDatum(backlog->feed_relid), Int64GetDatum(LONG_USE / MS)};
	bool		isnull;

	if (backlog->locked_since == 0 || now - Max(backlog->locked_since, backlog->asked_at) < ASK_AFTER)
		return 0;
	backlog->asked_at = now;
	query("SELECT scd2_internal.cancel_autovacuum(r), scd2_internal.in_use_for(r, $2)"
		  " FROM (SELECT $1 || ARRAY(SELECT i.inhrelid FROM pg_catalog.pg_inherits i WHERE i.inhparent = $1)) AS x (r)", SPI_OK_SELECT, 2, types, values, NULL);
	if (DatumGetBool(result(0, 2, &isnull)))
		return 0;
	return Min(MIN_PATIENCE << Min(backlog->asked++, 10), MAX_PATIENCE);
}

static void
is_locked(Scd2Backlog *backlog, TimestampTz now)
{
	if (backlog->locked_since == 0)
		backlog->locked_since = now;
	backlog->pause = backlog->pause == 0 ? MIN_PAUSE : Min(backlog->pause * 2, MAX_PAUSE);
	backlog->due = now + backlog->pause;
}

/* Does an error say something of the feed, if it comes again and again? */
static bool
counts(int sqlerrcode)
{
	switch (ERRCODE_TO_CATEGORY(sqlerrcode))
	{
		case ERRCODE_TRANSACTION_ROLLBACK:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
		case ERRCODE_OPERATOR_INTERVENTION:
			return false;
		default:
			return true;
	}
}

/* What waits cannot be written: a gap from its first version on. */
static void
give_up(Scd2Backlog *backlog, const char *why)
{
	Oid			types[] = {INT4OID, TEXTOID};
	Datum		values[] = {Int32GetDatum(backlog->feed_id), (Datum) 0};

	scd2_begin_write();
	SPI_connect();
	values[1] = CStringGetTextDatum(why);
	query("DELETE FROM scd2_internal.backlog WHERE feed_id = $1", SPI_OK_DELETE, 1, types, values, NULL);
	query("UPDATE scd2_internal.feed_backlog SET gap_version = complete_version + 1, gap_reason = $2 WHERE feed_id = $1",
		  SPI_OK_UPDATE, 2, types, values, NULL);
	backlog->committed.ended = backlog->now.ended = true;
	backlog->committed.gap_version = backlog->now.gap_version = backlog->complete + 1;
	end(backlog);
	SPI_finish();
	ereport(WARNING,
			(errcode(ERRCODE_DATA_EXCEPTION),
			 errmsg("the change data feed of table %s has a gap from version " INT64_FORMAT " on: %s",
					scd2_relation_name(backlog->source_relid), backlog->complete + 1, why)));
	SCD2_FAIL_POINT("backlog given up");
	scd2_commit_write();
	SCD2_FAIL_POINT("gap committed");
	scd2_captured_remove(backlog->feed_id);
	scd2_captured_forget_removed();
	tell(&(Part){.backlog = backlog});
}

/* For diagnose(), and the log. */
static void
note_error(const Scd2Backlog *backlog, int sqlerrcode)
{
	Oid			types[] = {INT4OID, TEXTOID};
	Datum		values[] = {Int32GetDatum(backlog->feed_id), (Datum) 0};

	scd2_begin_write();
	SPI_connect();
	values[1] = CStringGetTextDatum(backlog->error);
	query("UPDATE scd2_internal.feed_backlog SET error = $2 WHERE feed_id = $1", SPI_OK_UPDATE, 2, types, values, NULL);
	SPI_finish();
	ereport(LOG,
			(errcode(sqlerrcode),
			 errmsg("changes of table %s wait to be written into its feed: %s", scd2_relation_name(backlog->source_relid), backlog->error)));
	SCD2_FAIL_POINT("backlog error noted");
	scd2_commit_write();
}

/* Can it be that somebody's event trigger has refused the change of columns? */
static bool
is_refused(const Part *part)
{
	bool		watched;

	if (!part->columns)
		return false;
	scd2_begin_write();
	SPI_connect();
	watched = scd2_ddl_is_watched();
	SPI_finish();
	scd2_commit_write();
	return watched;
}

static void
has_failed(Part *part, const ErrorData *error, TimestampTz now)
{
	Scd2Backlog *backlog = part->backlog;

	if (error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE)
	{
		is_locked(backlog, now);
		return;
	}
	if (backlog->error == NULL || strcmp(backlog->error, error->message) != 0)
	{
		remember_error(backlog, error);
		note_error(backlog, error->sqlerrcode);
	}
	if (counts(error->sqlerrcode) && !is_refused(part) && ++backlog->errors >= MAX_ERRORS)
	{
		give_up(backlog, backlog->error);
		return;
	}
	backlog->pause = backlog->pause == 0 ? ERROR_PAUSE : Min(backlog->pause * 2, MAX_ERROR_PAUSE);
	backlog->due = GetCurrentTimestamp() + backlog->pause;
}

static Part *
make_part(Scd2Backlog *backlog, MemoryContext cxt)
{
	Part	   *part = MemoryContextAllocZero(cxt, sizeof(Part));

	part->backlog = backlog;
	part->feed = MemoryContextAllocZero(cxt, sizeof(Scd2Feed));
	part->feed->cxt = cxt;
	part->feed->feed_id = backlog->feed_id;
	part->feed->source_relid = backlog->source_relid;
	part->feed->feed_relid = backlog->feed_relid;
	part->feed->failed_version = backlog->committed.gap_version;
	part->feed->failure = backlog->committed.gap_version > 0 ? "" : NULL;
	return part;
}

/* One transaction: the next part of a backlog, where it belongs. */
static void
drain(Scd2Batch *batch, Scd2Backlog *backlog)
{
	MemoryContext old = CurrentMemoryContext;
	MemoryContext cxt = AllocSetContextCreate(old, "pg_scd2 backlog", ALLOCSET_DEFAULT_SIZES);
	TimestampTz now = GetCurrentTimestamp();
	Part	   *part = make_part(backlog, cxt);
	ErrorData  *volatile error = NULL;
	volatile bool written = false;

	PG_TRY();
	{
		scd2_begin_write();
		SPI_connect();
		written = write_part(batch, part, patience_for(backlog, now));
		SPI_finish();
		if (written)
			scd2_commit_write();
		else
			AbortCurrentTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		FlushErrorState();
		AbortOutOfAnyTransaction();
		written = false;
	}
	PG_END_TRY();
	scd2_mark_writes(false);
	MemoryContextSwitchTo(old);
	if (part->feed->rows != NULL)
		scd2_rows_end(part->feed->rows);
	batch->memory.used = 0;
	if (written)
	{
		SCD2_FAIL_POINT("backlog committed");
		tell(part);
	}
	else if (error != NULL)
		has_failed(part, error, now);
	else
		is_locked(backlog, now);
	MemoryContextDelete(cxt);
}

/*
 * When nothing waits any more, the table of entries gives its space back, if that is worth it. Somebody who
 * has read it (a dump) is not waited for. Outside a transaction.
 */
static void
empty(void)
{
	bool		isnull;

	scd2_begin_write();
	SPI_connect();
	query("SELECT 'scd2_internal.backlog'::pg_catalog.regclass::oid, pg_catalog.pg_total_relation_size('scd2_internal.backlog') > 1024 * 1024",
		  SPI_OK_SELECT, 0, NULL, NULL, NULL);
	has_space = DatumGetBool(result(0, 2, &isnull));
	if (has_space && ConditionalLockRelationOid(DatumGetObjectId(result(0, 1, &isnull)), AccessExclusiveLock))
	{
		query("TRUNCATE scd2_internal.backlog", SPI_OK_UTILITY, 0, NULL, NULL, NULL);
		has_space = false;
	}
	SPI_finish();
	scd2_commit_write();
}

/* Does anything wait, or is there something to do when nothing does? */
bool
scd2_backlog_any(void)
{
	return backlogs != NIL || has_space;
}

/*
 * Writes a part of a backlog whose time has come; false: of none it has. "again" becomes the time when to call
 * again, 0: there is no backlog. The batch is empty. Outside a transaction.
 */
bool
scd2_backlog_drain(Scd2Batch *batch, TimestampTz *again)
{
	TimestampTz now;
	Scd2Backlog *next = NULL;
	ListCell   *lc;

	*again = 0;
	if (backlogs == NIL)
	{
		if (GetCurrentTimestamp() - emptied_at > EMPTY_EVERY)
		{
			empty();
			emptied_at = GetCurrentTimestamp();
		}
		return false;
	}
	foreach(lc, backlogs)
	{
		Scd2Backlog *backlog = lfirst(lc);

		if (has_turn(backlog) && (next == NULL || backlog->due < next->due))
			next = backlog;
	}
	now = GetCurrentTimestamp();
	if (next->due > now)
	{
		*again = next->due;
		return false;
	}
	next->due = now;			/* the others come first, if this has more */
	drain(batch, next);
	*again = now;
	return true;
}
