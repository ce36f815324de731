/*
 * upkeep.c
 *		What feeds need from time to time: their BRIN indexes summarised, their last partitions cut,
 *		their old ones removed. And targets: old versions that purge_history() left to be removed.
 *
 * A BRIN index knows nothing of the pages that were added since it was last summarised: a read of
 * any range scans them all. Vacuum summarises, but comes for an insert-only table only when a fifth
 * of it is new. (The index's own autosummarize asks autovacuum page by page, and floods the
 * server's log when its queue is full.) So an idle apply worker does it when a feed has grown by
 * GROWN pages, and never waits for a lock: a vacuum that is at work does it too.
 *
 * The last partition of a feed is cut (32_feed_leaves.sql) when it has 1 GB, or when its first row
 * is as old as a tenth of the feed's retention, but a minute at least: so that about ten
 * partitions, or a minute's worth each, are there to be dropped one by one. One without rows is
 * never cut. A cut that has to wait is tried at the next look; one that fails, after FAILED_PAUSE
 * looks.
 *
 * What is removed, and when, says 36_feed_retention.sql. Each feed has a transaction of its own:
 * what goes wrong with one concerns it alone, and is told in the server's log.
 *
 * A large target is purged (48_purge.sql) some pages at a time, one batch with each call while there
 * is more to do, so that flows come between.
 *
 * Sizes and first rows are looked at here and not by SQL, which would wait for locks, and run code
 * of the owner (src/ask.c).
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "pg_scd2.h"
#include "feed/metadata.h"
#include "feed/retention.h"
#include "feed/upkeep.h"
#include "worker/failpoint.h"
#include "worker/marks.h"

#define BUSY_FACTOR		6		/* how much more seldom a busy worker looks */
#define FAILED_PAUSE	60		/* looks */
#define GROWN			256		/* pages */

typedef struct Leaf
{
	Oid			relid;
	int64		summarised;		/* pages */
	TimestampTz first;			/* commit time of the first row, 0: not known */
	TimestampTz retry_at;		/* a cut failed: not before */
	bool		seen;			/* in the look that goes on */
} Leaf;

/* A feed from which nothing could be removed, or a target. */
typedef struct PutOff
{
	bool		is_target;
	Oid			id;				/* of a feed, its number */
	TimestampTz until;
} PutOff;

static char last_error[256];	/* of what was attempted */
static List *put_off = NIL;		/* of PutOff */
static List *leaves = NIL;		/* of Leaf */

static TimestampTz
pause_after_failure(void)
{
	return (TimestampTz) scd2_debug_upkeep_every * 1000 * FAILED_PAUSE;
}

static Leaf *
leaf_of(Oid relid)
{
	MemoryContext old;
	ListCell   *lc;
	Leaf	   *leaf;

	foreach(lc, leaves)
	{
		leaf = lfirst(lc);
		if (leaf->relid == relid)
			return leaf;
	}
	old = MemoryContextSwitchTo(TopMemoryContext);
	leaf = palloc0(sizeof(Leaf));
	leaf->relid = relid;
	leaves = lappend(leaves, leaf);
	MemoryContextSwitchTo(old);
	return leaf;
}

/*
 * The partitions of feeds that have a BRIN index, whether it takes new rows and may be cut, and at
 * what age in seconds.
 */
#define LIST_LEAVES \
	"SELECT s.feed_relid, c.oid, x.indexrelid," \
	"       s.state = 'running' AND c.relkind = 'r' AND pg_get_expr(c.relpartbound, 0) LIKE '% TO (MAXVALUE)'," \
	"       (EXTRACT(epoch FROM scd2_internal.bounded(coalesce(f.retention, current_setting('pg_scd2.feed_retention')::interval))) / 10)::float8" \
	" FROM scd2_internal.feed_state s JOIN scd2_internal.feed f USING (feed_id) JOIN pg_inherits h ON h.inhparent = s.feed_relid" \
	" JOIN pg_class c ON c.oid = h.inhrelid JOIN pg_index x ON x.indrelid = c.oid" \
	" JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_am a ON a.oid = i.relam" \
	" WHERE a.amname = 'brin' AND x.indisvalid AND " SCD2_AT_HOME("s")

static void
summarise(Leaf *leaf, int64 pages, Oid index)
{
	Oid			types[] = {REGCLASSOID};
	Datum		values[] = {ObjectIdGetDatum(index)};
	Relation	rel;

	if (pages == leaf->summarised || (rel = scd2_try_open(leaf->relid, ShareUpdateExclusiveLock)) == NULL)
		return;
	table_close(rel, NoLock);
	if (SPI_execute_with_args("SELECT brin_summarize_new_values($1)", 1, types, values, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not summarise index %u", index);
	leaf->summarised = pages;
}

/* When the first row of a feed's partition was committed; 0: it has none. */
static TimestampTz
first_commit(Relation rel)
{
	TableScanDesc scan = table_beginscan_strat(rel, GetActiveSnapshot(), 0, NULL, true, false);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	TimestampTz first = 0;
	Scd2Misfit	misfit;

	if (scd2_leaf_fits(rel, &misfit) && table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		bool		isnull;

		first = DatumGetTimestampTz(slot_getattr(slot, SCD2_META_COMMIT_TIMESTAMP + 1, &isnull));
	}
	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
	return first;
}

/* Is the last partition of a feed to be cut? "seconds": the age at which it is. */
static bool
is_due(Leaf *leaf, Relation rel, int64 pages, double seconds)
{
	TimestampTz now = GetCurrentTimestamp();

	if (pages == 0 || leaf->retry_at > now)
		return false;
	if (pages * (BLCKSZ / 1024) >= scd2_debug_leaf_size)
		return true;
	if (leaf->first == 0)
		leaf->first = first_commit(rel);
	return leaf->first != 0 && (now - leaf->first) / 1000.0 >= Max(seconds * 1000.0, (double) scd2_debug_leaf_age);
}

/* Looks at one partition. Returns whether it is to be cut. */
static bool
look_at(Leaf *leaf, Oid index, bool last, double seconds)
{
	Relation	rel = scd2_try_open(leaf->relid, AccessShareLock);
	int64		pages;
	bool		due;

	if (rel == NULL)
		return false;
	pages = RelationGetNumberOfBlocks(rel);
	due = last && is_due(leaf, rel, pages, seconds);
	table_close(rel, AccessShareLock);
	if (pages < leaf->summarised)
		leaf->summarised = 0;	/* rewritten */
	if (due || pages >= leaf->summarised + GROWN)
		summarise(leaf, pages, index);
	return due;
}

/* Partitions that are gone. */
static void
forget_unseen(void)
{
	ListCell   *lc;

	foreach(lc, leaves)
	{
		Leaf	   *leaf = lfirst(lc);

		if (!leaf->seen)
		{
			pfree(leaf);
			leaves = foreach_delete_current(leaves, lc);
			continue;
		}
		leaf->seen = false;
	}
}

typedef struct Cut
{
	Oid			feed;
	Leaf	   *leaf;
} Cut;

/* Looks at all partitions. Returns those to be cut, in "cxt". In a transaction, within SPI. */
static List *
look_at_all(MemoryContext cxt)
{
	SPITupleTable *table;
	uint64		n;
	List	   *cuts = NIL;

	if (SPI_execute(LIST_LEAVES, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not list feeds");
	table = SPI_tuptable;
	n = SPI_processed;
	for (uint64 i = 0; i < n; i++)
	{
		bool		isnull;
		Datum		column[5];
		Leaf	   *leaf;

		for (int k = 0; k < lengthof(column); k++)
			column[k] = SPI_getbinval(table->vals[i], table->tupdesc, k + 1, &isnull);
		leaf = leaf_of(DatumGetObjectId(column[1]));
		leaf->seen = true;
		if (look_at(leaf, DatumGetObjectId(column[2]), DatumGetBool(column[3]), DatumGetFloat8(column[4])))
		{
			MemoryContext old = MemoryContextSwitchTo(cxt);
			Cut		   *cut = palloc(sizeof(Cut));

			cut->feed = DatumGetObjectId(column[0]);
			cut->leaf = leaf;
			cuts = lappend(cuts, cut);
			MemoryContextSwitchTo(old);
		}
	}
	forget_unseen();
	return cuts;
}

static void
begin_work(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	SPI_connect();
	PushActiveSnapshot(GetTransactionSnapshot());
}

static void
end_work(void)
{
	PopActiveSnapshot();
	SPI_finish();
	CommitTransactionCommand();
}

/*
 * Calls a function in a transaction of its own. Returns whether it went well: an error is told and
 * goes no further. "answer", if given: whether the function said true.
 */
static bool
attempt(const char *call, Oid type, Datum argument, const char *fail_point, bool *answer)
{
	MemoryContext cxt = CurrentMemoryContext;
	volatile bool done = false;

	PG_TRY();
	{
		bool		isnull = true;
		bool		value;

		begin_work();
		if (SPI_execute_with_args(call, 1, &type, &argument, NULL, false, 0) != SPI_OK_SELECT)
			elog(ERROR, "could not execute \"%s\"", call);
		value = answer != NULL && DatumGetBool(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
		SCD2_FAIL_POINT(fail_point);
		end_work();
		if (answer != NULL)
			*answer = value && !isnull;
		done = true;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		snprintf(last_error, sizeof(last_error), "%s: %s", unpack_sql_state(error->sqlerrcode), error->message);
		FreeErrorData(error);
		EmitErrorReport();
		FlushErrorState();
		AbortOutOfAnyTransaction();
	}
	PG_END_TRY();
	scd2_mark_writes(false);
	MemoryContextSwitchTo(cxt);
	return done;
}

static void
cut_feeds(List *cuts)
{
	ListCell   *lc;

	foreach(lc, cuts)
	{
		Cut		   *cut = lfirst(lc);

		if (!attempt("SELECT scd2_internal.cut_feed($1)", OIDOID, ObjectIdGetDatum(cut->feed), "feed cut", NULL))
			cut->leaf->retry_at = GetCurrentTimestamp() + pause_after_failure();
	}
}

/* In a transaction, within SPI. */
static void
expire_readers(void)
{
	if (scd2_reader_timeout > 0 && SPI_execute("SELECT scd2_internal.expire_readers()", false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not look after readers");
}

/* The numbers that a query gives, in "cxt". In a transaction, within SPI. */
static List *
numbers(const char *query, MemoryContext cxt)
{
	List	   *result = NIL;
	MemoryContext old;
	bool		isnull;

	if (SPI_execute(query, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not execute \"%s\"", query);
	old = MemoryContextSwitchTo(cxt);
	for (uint64 i = 0; i < SPI_processed; i++)
		result = lappend_int(result, DatumGetInt32(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull)));
	MemoryContextSwitchTo(old);
	return result;
}

static bool
is_put_off(bool is_target, Oid id, TimestampTz now)
{
	ListCell   *lc;

	foreach(lc, put_off)
	{
		PutOff	   *entry = lfirst(lc);

		if (entry->is_target == is_target && entry->id == id && entry->until > now)
			return true;
		if (entry->until <= now)
		{
			pfree(entry);
			put_off = foreach_delete_current(put_off, lc);
		}
	}
	return false;
}

static void
put_it_off(bool is_target, Oid id)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	PutOff	   *entry = palloc(sizeof(PutOff));

	entry->is_target = is_target;
	entry->id = id;
	entry->until = GetCurrentTimestamp() + pause_after_failure();
	put_off = lappend(put_off, entry);
	MemoryContextSwitchTo(old);
}

static void
retain_feeds(List *feeds)
{
	ListCell   *lc;

	foreach(lc, feeds)
		if (!is_put_off(false, lfirst_int(lc), GetCurrentTimestamp()) &&
			!attempt("SELECT scd2_internal.retain_feed($1)", INT4OID, Int32GetDatum(lfirst_int(lc)), "feed retained", NULL))
			put_it_off(false, lfirst_int(lc));
}

/* For diagnose(): nobody waits for what a worker does. */
static void
record_error(Oid target)
{
	Oid			types[] = {OIDOID, TEXTOID};
	Datum		args[] = {ObjectIdGetDatum(target), CStringGetTextDatum(last_error)};

	begin_work();
	if (SPI_execute_with_args("UPDATE scd2_internal.purge SET last_error = $2 WHERE target_relid = $1", 2, types, args, NULL, false, 0) != SPI_OK_UPDATE)
		elog(ERROR, "could not record an error");
	end_work();
}

/* A batch of each target that is being purged. Returns whether there is more to do. */
static bool
purge_targets(void)
{
	MemoryContext cxt = CurrentMemoryContext;
	List	   *targets;
	ListCell   *lc;
	bool		more = false;

	begin_work();
	targets = numbers("SELECT p.target_relid::oid::integer FROM scd2_internal.purge AS p WHERE " SCD2_AT_HOME("p"), cxt);
	end_work();
	MemoryContextSwitchTo(cxt);
	foreach(lc, targets)
	{
		Oid			target = (Oid) lfirst_int(lc);
		bool		goes_on = false;

		if (!is_put_off(true, target, GetCurrentTimestamp()) &&
			!attempt("SELECT scd2_internal.purge_some($1)", OIDOID, ObjectIdGetDatum(target), "target purged", &goes_on))
		{
			put_it_off(true, target);
			record_error(target);
			MemoryContextSwitchTo(cxt);
		}
		more |= goes_on;
	}
	list_free(targets);
	return more;
}

/*
 * Looks after the feeds, if that is due. Outside a transaction, between other work ("busy") or with
 * nothing else to do. Returns whether there is more to do at once. An error ends the worker, which
 * begins anew.
 */
bool
scd2_feed_upkeep(bool busy)
{
	static bool purging = false;
	static TimestampTz last_look = 0;
	TimestampTz now = GetCurrentTimestamp();
	MemoryContext cxt = CurrentMemoryContext;
	List	   *cuts;
	List	   *old;

	if (now - last_look < (TimestampTz) scd2_debug_upkeep_every * 1000 * (busy ? BUSY_FACTOR : 1))
	{
		if (purging)
			purging = purge_targets();
		return purging;
	}
	last_look = now;
	pgstat_report_activity(STATE_RUNNING, "looking after feeds");
	begin_work();
	cuts = look_at_all(cxt);
	expire_readers();
	old = numbers("SELECT scd2_internal.feeds_to_retain()", cxt);
	end_work();
	MemoryContextSwitchTo(cxt);
	cut_feeds(cuts);
	retain_feeds(old);
	list_free_deep(cuts);
	list_free(old);
	purging = purge_targets();
	pgstat_report_activity(STATE_IDLE, NULL);
	return purging;
}
