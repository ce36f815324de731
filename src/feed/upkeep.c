/*
 * upkeep.c
 *		What feeds need from time to time: their BRIN indexes summarised.
 *
 * A BRIN index knows nothing of the pages that were added since it was last summarised: a read of any range scans them all. Vacuum summarises, but comes for an
 * insert-only table only when a fifth of it is new. (The index's own autosummarize asks autovacuum page by page, and floods the server's log when its queue is full.) So an idle apply worker
 * does it when a feed has grown by GROWN pages, and never waits for a lock: a vacuum that is at work does it too.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "pg_scd2.h"
#include "feed/upkeep.h"

#define LOOK_EVERY	(10 * USECS_PER_SEC)
#define GROWN		256			/* pages */

typedef struct Leaf
{
	Oid			relid;
	int64		summarised;		/* pages */
} Leaf;

static List *leaves = NIL;		/* of Leaf; forgets those that are gone at a restart */

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

/* The leaves of feeds with their sizes, and their BRIN indexes. */
#define LIST_LEAVES \
	"SELECT c.oid, pg_relation_size(c.oid) / current_setting('block_size')::bigint, x.indexrelid" \
	" FROM scd2_internal.feed_state s CROSS JOIN LATERAL pg_partition_tree(s.feed_relid) t" \
	" JOIN pg_class c ON c.oid = t.relid JOIN pg_index x ON x.indrelid = c.oid" \
	" JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_am a ON a.oid = i.relam" \
	" WHERE t.isleaf AND a.amname = 'brin' AND x.indisvalid"

static void
summarise(Oid relid, int64 pages, Oid index)
{
	Leaf	   *leaf = leaf_of(relid);
	Oid			types[] = {REGCLASSOID};
	Datum		values[] = {ObjectIdGetDatum(index)};

	if (pages < leaf->summarised)
		leaf->summarised = 0;	/* rewritten */
	if (pages < leaf->summarised + GROWN ||
		!ConditionalLockRelationOid(relid, ShareUpdateExclusiveLock))
		return;
	if (SPI_execute_with_args("SELECT brin_summarize_new_values($1)", 1, types, values, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not summarise index %u", index);
	leaf->summarised = pages;
}

/*
 * Looks after the feeds, if that is due. Outside a transaction, in a worker with nothing else to do. An error ends the worker, which begins anew.
 */
void
scd2_feed_upkeep(void)
{
	static TimestampTz last_look = 0;
	TimestampTz now = GetCurrentTimestamp();
	SPITupleTable *table;
	uint64		n;

	if (now - last_look < LOOK_EVERY)
		return;
	last_look = now;
	pgstat_report_activity(STATE_RUNNING, "looking after feeds");
	StartTransactionCommand();
	SPI_connect();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (SPI_execute(LIST_LEAVES, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not list feeds");
	table = SPI_tuptable;
	n = SPI_processed;
	for (uint64 i = 0; i < n; i++)
	{
		bool		isnull;

		summarise(DatumGetObjectId(SPI_getbinval(table->vals[i], table->tupdesc, 1, &isnull)),
				  DatumGetInt64(SPI_getbinval(table->vals[i], table->tupdesc, 2, &isnull)),
				  DatumGetObjectId(SPI_getbinval(table->vals[i], table->tupdesc, 3, &isnull)));
	}
	PopActiveSnapshot();
	SPI_finish();
	CommitTransactionCommand();
	pgstat_report_activity(STATE_IDLE, NULL);
}
