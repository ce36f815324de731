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
 * never cut. A cut that has to wait is tried at the next look.
 *
 * What is removed, and when, says 36_feed_retention.sql.
 *
 * Each of these chores has a transaction of its own for each feed, partition or target. If it fails,
 * it is put off for that one alone for FAILED_PAUSE looks; the error is told in the server's log once, not each
 * time it comes again, and by diagnose() (scd2_internal.upkeep_error).
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
#include "utils/lsyscache.h"
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

typedef enum Chore
{
	LIST = 'l',					/* of all feeds */
	LOOK = 'f',					/* at a feed's partitions */
	SUMMARISE = 's',			/* a partition's BRIN index */
	CUT = 'c',					/* a feed */
	RETAIN = 'r',				/* a feed */
	EXPIRE = 'e',				/* readers */
	PURGE = 'p',				/* a target */
	NOTE = 'n'					/* what failed, for diagnose() */
} Chore;

typedef struct Leaf
{
	Oid			relid;
	int64		summarised;		/* pages */
	TimestampTz first;			/* commit time of the first row, 0: not known */
	bool		seen;			/* in the look that goes on */
	/* As of that look: */
	int			feed_id;
	Oid			feed;
	Oid			index;
	bool		last;			/* it takes new rows, and may be cut */
	double		seconds;		/* at what age */
	int64		pages;
	bool		to_summarise;
	bool		to_cut;
} Leaf;

/* A chore that failed. */
typedef struct Failed
{
	Chore		chore;
	Oid			id;				/* of a relation, or a feed's number; 0: of all */
	int			feed_id;		/* 0: it concerns no feed alone */
	TimestampTz until;			/* not before */
	char	   *error;
} Failed;

static List *failures = NIL;	/* of Failed */
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

static Failed *
failed(Chore chore, Oid id)
{
	ListCell   *lc;

	foreach(lc, failures)
	{
		Failed	   *entry = lfirst(lc);

		if (entry->chore == chore && entry->id == id)
			return entry;
	}
	return NULL;
}

static bool attempt(Chore chore, Oid id, int feed_id, void (*work)(void *), void *arg);

/* What diagnose() says of a failure. In a transaction, within SPI. */
static void
write_note(void *arg)
{
	const Failed *entry = arg;
	Oid			types[] = {INT4OID, CHAROID, OIDOID, TEXTOID};
	Datum		args[] = {
		Int32GetDatum(entry->feed_id), CharGetDatum(entry->chore), ObjectIdGetDatum(entry->id),
		entry->error ? CStringGetTextDatum(entry->error) : (Datum) 0
	};

	if (SPI_execute_with_args(entry->error == NULL ? "DELETE FROM scd2_internal.upkeep_error WHERE chore = $2 AND id = $3" :
							  "INSERT INTO scd2_internal.upkeep_error (feed_id, chore, id, error) SELECT f.feed_id, $2, $3, $4 FROM scd2_internal.feed f WHERE f.feed_id = $1"
							  " ON CONFLICT (chore, id) DO UPDATE SET error = excluded.error, since = excluded.since",
							  4, types, args, entry->error ? NULL : "   n", false, 0) < 0)
		elog(ERROR, "could not write scd2_internal.upkeep_error");
}

/* What an earlier worker noted: this one tries everything anew. */
static void
remove_notes(void *arg)
{
	if (SPI_execute("DELETE FROM scd2_internal.upkeep_error", false, 0) != SPI_OK_DELETE)
		elog(ERROR, "could not delete from scd2_internal.upkeep_error");
}

/* Keeps the error; true: it is another than the last time. */
static bool
has_failed(Chore chore, Oid id, int feed_id, const ErrorData *error)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	Failed	   *entry = failed(chore, id);
	bool		other;

	if (entry == NULL)
	{
		entry = palloc0(sizeof(Failed));
		entry->chore = chore;
		entry->id = id;
		entry->feed_id = feed_id;
		failures = lappend(failures, entry);
	}
	other = entry->error == NULL || strcmp(entry->error + strlen("00000: "), error->message) != 0;
	if (other)
		entry->error = psprintf("%s: %s", unpack_sql_state(error->sqlerrcode), error->message);
	entry->until = GetCurrentTimestamp() + pause_after_failure();
	MemoryContextSwitchTo(old);
	return other;
}

static void
went_well(Chore chore, Oid id)
{
	Failed	   *entry = failures == NIL ? NULL : failed(chore, id);

	if (entry == NULL)
		return;
	failures = list_delete_ptr(failures, entry);
	pfree(entry->error);
	entry->error = NULL;
	if (entry->feed_id != 0)
		(void) attempt(NOTE, InvalidOid, 0, write_note, entry);
	pfree(entry);
}

/*
 * Does a chore in a transaction of its own, within SPI, unless it failed a short while ago. Returns
 * whether it was done: an error goes no further. "feed_id": whose failure it is, 0: no feed's.
 */
static bool
attempt(Chore chore, Oid id, int feed_id, void (*work)(void *), void *arg)
{
	MemoryContext cxt = CurrentMemoryContext;
	Failed	   *before = failures == NIL ? NULL : failed(chore, id);
	volatile bool done = false;
	volatile bool other = false;

	if (before != NULL && before->until > GetCurrentTimestamp())
		return false;
	scd2_worker_looks_after(feed_id);
	PG_TRY();
	{
		begin_work();
		work(arg);
		end_work();
		done = true;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		other = has_failed(chore, id, feed_id, error);
		FreeErrorData(error);
		if (other)
			EmitErrorReport();
		FlushErrorState();
		AbortOutOfAnyTransaction();
	}
	PG_END_TRY();
	scd2_worker_looks_after(0);
	scd2_mark_writes(false);
	MemoryContextSwitchTo(cxt);
	if (done)
		went_well(chore, id);
	else if (other && feed_id != 0)
		(void) attempt(NOTE, InvalidOid, 0, write_note, failed(chore, id));
	MemoryContextSwitchTo(cxt);
	return done;
}

/* Those of what is gone are forgotten a while after they could have been tried again. */
static void
forget_failures(bool (*is_there)(Chore chore, Oid id))
{
	ListCell   *lc;
	TimestampTz now = GetCurrentTimestamp();

	foreach(lc, failures)
	{
		Failed	   *entry = lfirst(lc);

		if (entry->until + pause_after_failure() > now || is_there(entry->chore, entry->id))
			continue;
		if (entry->error)
			pfree(entry->error);
		pfree(entry);
		failures = foreach_delete_current(failures, lc);
	}
}

/*
 * The partitions of feeds that have a BRIN index, whether it takes new rows and may be cut, and at
 * what age in seconds.
 */
#define LIST_LEAVES \
	"SELECT s.feed_id, s.feed_relid, c.oid, x.indexrelid," \
	"       s.state = 'running' AND c.relkind = 'r' AND pg_get_expr(c.relpartbound, 0) LIKE '% TO (MAXVALUE)'," \
	"       (EXTRACT(epoch FROM scd2_internal.bounded(coalesce(f.retention, current_setting('pg_scd2.feed_retention')::interval))) / 10)::float8" \
	" FROM scd2_internal.feed_state s JOIN scd2_internal.feed f USING (feed_id) JOIN pg_inherits h ON h.inhparent = s.feed_relid" \
	" JOIN pg_class c ON c.oid = h.inhrelid JOIN pg_index x ON x.indrelid = c.oid" \
	" JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_am a ON a.oid = i.relam" \
	" WHERE a.amname = 'brin' AND x.indisvalid AND " SCD2_AT_HOME("s")

static void
summarise(void *arg)
{
	Leaf	   *leaf = arg;
	Oid			types[] = {REGCLASSOID};
	Datum		values[] = {ObjectIdGetDatum(leaf->index)};
	Relation	rel;

	if (leaf->pages == leaf->summarised || (rel = scd2_try_open(leaf->relid, ShareUpdateExclusiveLock)) == NULL)
		return;
	SCD2_FAIL_POINT_OF("summarise", RelationGetRelationName(rel));
	table_close(rel, NoLock);
	if (SPI_execute_with_args("SELECT brin_summarize_new_values($1)", 1, types, values, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not summarise index %u", leaf->index);
	leaf->summarised = leaf->pages;
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

/* Is the last partition of a feed to be cut? */
static bool
is_due(Leaf *leaf, Relation rel)
{
	TimestampTz now = GetCurrentTimestamp();

	if (leaf->pages == 0)
		return false;
	if (leaf->pages * (BLCKSZ / 1024) >= scd2_debug_leaf_size)
		return true;
	if (leaf->first == 0)
		leaf->first = first_commit(rel);
	return leaf->first != 0 && (now - leaf->first) / 1000.0 >= Max(leaf->seconds * 1000.0, (double) scd2_debug_leaf_age);
}

/* What is to be done with one partition? */
static void
look_at(Leaf *leaf)
{
	Relation	rel = scd2_try_open(leaf->relid, AccessShareLock);

	leaf->to_cut = leaf->to_summarise = false;
	if (rel == NULL)
		return;
	SCD2_FAIL_POINT_OF("look at feed", RelationGetRelationName(rel));
	leaf->pages = RelationGetNumberOfBlocks(rel);
	if (leaf->pages < leaf->summarised)
		leaf->summarised = 0;	/* rewritten */
	leaf->to_cut = leaf->last && is_due(leaf, rel);
	leaf->to_summarise = leaf->to_cut || leaf->pages >= leaf->summarised + GROWN;
	table_close(rel, AccessShareLock);
}

static void
look_at_feed(void *arg)
{
	int			feed_id = *(int *) arg;
	ListCell   *lc;

	foreach(lc, leaves)
		if (((Leaf *) lfirst(lc))->feed_id == feed_id)
			look_at(lfirst(lc));
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

/* In a transaction, within SPI. */
static void
list_leaves(void *arg)
{
	SPITupleTable *table;
	uint64		n;

	if (SPI_execute(LIST_LEAVES, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not list feeds");
	table = SPI_tuptable;
	n = SPI_processed;
	for (uint64 i = 0; i < n; i++)
	{
		bool		isnull;
		Datum		column[6];
		Leaf	   *leaf;

		for (int k = 0; k < lengthof(column); k++)
			column[k] = SPI_getbinval(table->vals[i], table->tupdesc, k + 1, &isnull);
		leaf = leaf_of(DatumGetObjectId(column[2]));
		leaf->seen = true;
		leaf->to_cut = leaf->to_summarise = false;
		leaf->feed_id = DatumGetInt32(column[0]);
		leaf->feed = DatumGetObjectId(column[1]);
		leaf->index = DatumGetObjectId(column[3]);
		leaf->last = DatumGetBool(column[4]);
		leaf->seconds = DatumGetFloat8(column[5]);
	}
	forget_unseen();
}

static void
cut(void *arg)
{
	const Leaf *leaf = arg;
	Oid			types[] = {OIDOID};
	Datum		values[] = {ObjectIdGetDatum(leaf->feed)};

	SCD2_FAIL_POINT_OF("cut feed", get_rel_name(leaf->relid));
	if (SPI_execute_with_args("SELECT scd2_internal.cut_feed($1)", 1, types, values, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not call scd2_internal.cut_feed()");
	SCD2_FAIL_POINT("feed cut");
}

/* The feeds that have partitions. */
static List *
feeds_with_leaves(void)
{
	List	   *feeds = NIL;
	ListCell   *lc;

	foreach(lc, leaves)
		feeds = list_append_unique_int(feeds, ((Leaf *) lfirst(lc))->feed_id);
	return feeds;
}

static void
look_after_leaves(void)
{
	List	   *feeds;
	ListCell   *lc;

	if (!attempt(LIST, InvalidOid, 0, list_leaves, NULL))
		return;
	feeds = feeds_with_leaves();
	foreach(lc, feeds)
	{
		int			feed_id = lfirst_int(lc);

		(void) attempt(LOOK, feed_id, feed_id, look_at_feed, &feed_id);
	}
	list_free(feeds);
	foreach(lc, leaves)
	{
		Leaf	   *leaf = lfirst(lc);

		if (leaf->to_summarise || failed(SUMMARISE, leaf->relid) != NULL)
			(void) attempt(SUMMARISE, leaf->relid, leaf->feed_id, summarise, leaf);
		if (leaf->to_cut)
			(void) attempt(CUT, leaf->feed, leaf->feed_id, cut, leaf);
		else if (leaf->last)
			went_well(CUT, leaf->feed); /* no longer due */
	}
}

static void
expire_readers(void *arg)
{
	if (SPI_execute("SELECT scd2_internal.expire_readers()", false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not look after readers");
}

/* A query that gives numbers, which are kept. */
typedef struct Numbers
{
	const char *query;
	List	   *list;
	MemoryContext cxt;
} Numbers;

static void
ask_numbers(void *arg)
{
	Numbers    *numbers = arg;
	MemoryContext old;
	bool		isnull;

	if (SPI_execute(numbers->query, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not execute \"%s\"", numbers->query);
	old = MemoryContextSwitchTo(numbers->cxt);
	for (uint64 i = 0; i < SPI_processed; i++)
		numbers->list = lappend_int(numbers->list, DatumGetInt32(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull)));
	MemoryContextSwitchTo(old);
}

static void
retain(void *arg)
{
	Oid			types[] = {INT4OID};
	Datum		values[] = {Int32GetDatum(*(int *) arg)};

	if (SPI_execute_with_args("SELECT scd2_internal.retain_feed($1)", 1, types, values, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not call scd2_internal.retain_feed()");
	SCD2_FAIL_POINT("feed retained");
}

/* Failures of feeds that are not among those that have something to be removed. */
static void
forget_retained(List *feeds)
{
	for (int i = list_length(failures) - 1; i >= 0; i--)
	{
		const Failed *entry = list_nth(failures, i);

		if (entry->chore == RETAIN && entry->id != InvalidOid && !list_member_int(feeds, (int) entry->id))
			went_well(RETAIN, entry->id);
	}
}

/* Those that have something to be removed are found together; if that fails because of one, each is asked alone. */
static void
retain_feeds(void)
{
	Numbers		numbers = {.query = "SELECT scd2_internal.feeds_to_retain()", .cxt = CurrentMemoryContext};
	ListCell   *lc;

	if (!attempt(RETAIN, InvalidOid, 0, ask_numbers, &numbers))
	{
		list_free(numbers.list);
		numbers.list = feeds_with_leaves();
	}
	else
		forget_retained(numbers.list);
	foreach(lc, numbers.list)
	{
		int			feed_id = lfirst_int(lc);

		(void) attempt(RETAIN, feed_id, feed_id, retain, &feed_id);
	}
	list_free(numbers.list);
}

typedef struct Purge
{
	Oid			target;
	bool		goes_on;
} Purge;

static void
purge(void *arg)
{
	Purge	   *this = arg;
	Oid			types[] = {OIDOID};
	Datum		values[] = {ObjectIdGetDatum(this->target)};
	bool		isnull;
	bool		more;

	if (SPI_execute_with_args("SELECT scd2_internal.purge_some($1)", 1, types, values, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not call scd2_internal.purge_some()");
	more = DatumGetBool(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	SCD2_FAIL_POINT("target purged");
	this->goes_on = more && !isnull;
}

/* For diagnose(): nobody waits for what a worker does. */
static void
record_error(void *arg)
{
	const Failed *entry = arg;
	Oid			types[] = {OIDOID, TEXTOID};
	Datum		args[] = {ObjectIdGetDatum(entry->id), CStringGetTextDatum(entry->error)};

	if (SPI_execute_with_args("UPDATE scd2_internal.purge SET last_error = $2 WHERE target_relid = $1", 2, types, args, NULL, false, 0) != SPI_OK_UPDATE)
		elog(ERROR, "could not record an error");
}

/* A batch of each target that is being purged. Returns whether there is more to do. */
static bool
purge_targets(void)
{
	Numbers		numbers = {
		.query = "SELECT p.target_relid::oid::integer FROM scd2_internal.purge AS p WHERE " SCD2_AT_HOME("p"), .cxt = CurrentMemoryContext
	};
	ListCell   *lc;
	bool		more = false;

	(void) attempt(PURGE, InvalidOid, 0, ask_numbers, &numbers);
	foreach(lc, numbers.list)
	{
		Purge		this = {.target = (Oid) lfirst_int(lc)};
		Failed	   *before = failed(PURGE, this.target);

		if (before != NULL && before->until > GetCurrentTimestamp())
			continue;
		if (!attempt(PURGE, this.target, 0, purge, &this))
			(void) attempt(NOTE, InvalidOid, 0, record_error, failed(PURGE, this.target));
		more |= this.goes_on;
	}
	list_free(numbers.list);
	return more;
}

/* A partition, or a feed with one; whatever else there may be. */
static bool
is_there(Chore chore, Oid id)
{
	ListCell   *lc;

	if (chore == PURGE)
		return false;			/* what is to be purged is listed each time */
	foreach(lc, leaves)
	{
		const Leaf *leaf = lfirst(lc);

		if (id == InvalidOid || id == (chore == SUMMARISE ? leaf->relid : chore == CUT ? leaf->feed : (Oid) leaf->feed_id))
			return true;
	}
	return false;
}

/*
 * Looks after the feeds, if that is due. Outside a transaction, between other work ("busy") or with
 * nothing else to do. Returns whether there is more to do at once. Raises nothing.
 */
bool
scd2_feed_upkeep(bool busy)
{
	static bool purging = false;
	static TimestampTz last_look = 0;
	TimestampTz now = GetCurrentTimestamp();

	if (now - last_look < (TimestampTz) scd2_debug_upkeep_every * 1000 * (busy ? BUSY_FACTOR : 1))
	{
		if (purging)
			purging = purge_targets();
		return purging;
	}
	pgstat_report_activity(STATE_RUNNING, "looking after feeds");
	if (last_look == 0)
		(void) attempt(NOTE, InvalidOid, 0, remove_notes, NULL);
	last_look = now;
	look_after_leaves();
	if (scd2_reader_timeout > 0)
		(void) attempt(EXPIRE, InvalidOid, 0, expire_readers, NULL);
	retain_feeds();
	forget_failures(is_there);
	purging = purge_targets();
	pgstat_report_activity(STATE_IDLE, NULL);
	return purging;
}
