/*
 * captured.c
 *		Which tables are captured, and how their rows become rows of their feeds.
 *
 * The set of captured tables is that of the place the decoder is at, not that of today: it is
 * loaded from scd2_internal.feed_state (which stands with the position in one transaction) and
 * changed by the control records met since.
 *
 * A relation's columns are matched with the feed's as they were when the change was made: the
 * decoder shows the catalogs of that moment. The layout follows them (layout.c). Maps are forgotten
 * on relcache invalidations, which the decoder replays in log order.
 *
 * What is built here is built inside the decoder's callbacks, under a historic snapshot: only
 * catalogs may be read.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "pg_scd2.h"
#include "capture/backlog.h"
#include "capture/blame.h"
#include "capture/captured.h"
#include "feed/layout.h"
#include "feed/writer.h"
#include "worker/failpoint.h"

/* Tables come and go, and each VACUUM of one has its map made anew: so many, and all are made anew. */
#define MAX_MAPS	10000

static MemoryContext captured_cxt = NULL;
static MemoryContext sources_cxt = NULL;
static List *captured = NIL;	/* of Scd2Feed */
static List *removed = NIL;		/* likewise: the batch at hand may still know them */
static HTAB *sources = NULL;
static Scd2Source *last_source = NULL;
static Scd2Source staged;		/* the partition whose rows came or went last */
static const Scd2Batch *at_batch = NULL;	/* where the decoder is */
static bool all_invalid = false;
static int	maps_made = 0;		/* since they went last */

static void
forget_source(Datum arg, Oid relid)
{
	Scd2Source *source;

	if (sources == NULL)
		return;
	staged.valid = false;
	if (!OidIsValid(relid))
	{
		all_invalid = true;
		last_source = NULL;
		return;
	}
	source = hash_search(sources, &relid, HASH_FIND, NULL);
	if (source)
		source->valid = false;
}

/* It may be a feed, or a partition of one. */
static void
look_again(Datum arg, Oid relid)
{
	ListCell   *lc;

	foreach(lc, captured)
		scd2_feed_look_again(lfirst(lc), relid);
}

/* Maps are many and small: they go all at once. */
static void
forget_all_sources(void)
{
	HASHCTL ctl = {.keysize = sizeof(Oid), .entrysize = sizeof(Scd2Source)};

	MemoryContextReset(sources_cxt);
	ctl.hcxt = sources_cxt;
	sources = hash_create("pg_scd2 sources", 128, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	last_source = NULL;
	staged.valid = false;
	all_invalid = false;
	maps_made = 0;
}

/* "parent" lives as long as the worker. */
void
scd2_captured_init(MemoryContext parent)
{
	captured_cxt = AllocSetContextCreate(parent, "pg_scd2 captured", ALLOCSET_DEFAULT_SIZES);
	sources_cxt = AllocSetContextCreate(parent, "pg_scd2 sources", ALLOCSET_DEFAULT_SIZES);
	forget_all_sources();
	CacheRegisterRelcacheCallback(forget_source, (Datum) 0);
	CacheRegisterRelcacheCallback(look_again, (Datum) 0);
}

/*
 * Adds a table to the set. The feed relation is looked at as it is now (at start) or was then (from
 * a control record).
 */
Scd2Feed *
scd2_captured_add(int feed_id, Oid source_relid, Oid feed_relid)
{
	MemoryContext cxt = AllocSetContextCreate(captured_cxt, "pg_scd2 feed", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	Scd2Feed   *feed = palloc0(sizeof(Scd2Feed));

	feed->cxt = cxt;
	feed->feed_id = feed_id;
	feed->source_relid = source_relid;
	feed->feed_relid = feed_relid;
	scd2_feed_at_work = feed_id;
	if (scd2_is_condemned(feed_id))
		scd2_layout_of_misfit(feed, scd2_condemned_why());
	else
		scd2_layout_load(feed);
	scd2_feed_at_work = 0;
	MemoryContextSwitchTo(captured_cxt);
	captured = lappend(captured, feed);
	MemoryContextSwitchTo(old);
	all_invalid = true;
	last_source = NULL;
	return feed;
}

/*
 * Takes a table out of the set. Its rows in the batch at hand are lost: only to be called when
 * there are none, or at its place in the log.
 */
void
scd2_captured_remove(int feed_id)
{
	MemoryContext old;
	ListCell   *lc;

	foreach(lc, captured)
	{
		Scd2Feed   *feed = lfirst(lc);

		if (feed->feed_id != feed_id)
			continue;
		captured = foreach_delete_current(captured, lc);
		old = MemoryContextSwitchTo(captured_cxt);
		removed = lappend(removed, feed);
		MemoryContextSwitchTo(old);
		all_invalid = true;
		last_source = NULL;
		break;
	}
}

/* A backlog that is no more: also feeds that were taken out of the set, but are in the batch, do not know it any longer. */
void
scd2_captured_forget_backlog(const Scd2Backlog *backlog)
{
	ListCell   *lc;

	foreach(lc, captured)
		if (((Scd2Feed *) lfirst(lc))->backlog == backlog)
			((Scd2Feed *) lfirst(lc))->backlog = NULL;
	foreach(lc, removed)
		if (((Scd2Feed *) lfirst(lc))->backlog == backlog)
			((Scd2Feed *) lfirst(lc))->backlog = NULL;
}

/* Frees what was taken out of the set. The batch is empty. */
void
scd2_captured_forget_removed(void)
{
	ListCell   *lc;

	if (removed == NIL)
		return;
	forget_all_sources();
	foreach(lc, removed)
		MemoryContextDelete(((Scd2Feed *) lfirst(lc))->cxt);
	list_free(removed);
	removed = NIL;
}

/*
 * A feed whose repair has just begun. While it was not captured nothing was followed. (In the
 * decoder's absence the columns are those of now: one that goes on takes them from the log.)
 */
static void
catch_up_columns(Scd2Batch *batch, Scd2Feed *feed)
{
	Oid			types[] = {OIDOID};
	Datum		values[] = {ObjectIdGetDatum(feed->source_relid)};
	bool		isnull;
	Oid			relid;

	SPI_connect();
	if (SPI_execute_with_args("SELECT scd2_internal.leaf_with_rows($1)", 1, types, values, NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not call scd2_internal.leaf_with_rows()");
	relid = DatumGetObjectId(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	SPI_finish();
	if (!scd2_captured_follow(feed, relid) || !feed->columns_changed)
		return;
	feed->retyped = NULL;		/* it is being repaired */
	scd2_batch_change_columns(batch, feed);
	batch->changes++;
}

/* False: the feed is captured no longer. */
static bool
load_columns(Scd2Batch *batch, Scd2Feed *feed)
{
	bool		goes_on = true;

	if (scd2_is_condemned(feed->feed_id))
		return true;
	scd2_feed_at_work = feed->feed_id;
	scd2_layout_read(feed);
	if (feed->backlog != NULL)
		goes_on = scd2_backlog_last_layout(feed, batch->version + 1);
	scd2_feed_at_work = 0;
	return goes_on;
}

/*
 * The set as of the position, or what came into it by a repair. In a transaction; the batch is empty.
 */
void
scd2_captured_load(Scd2Batch *batch)
{
	List	   *came = NIL;
	List	   *repaired = NIL;
	ListCell   *lc;

	SPI_connect();
	if (SPI_execute("SELECT s.feed_id, s.source_relid, s.feed_relid, s.catches_up FROM scd2_internal.feed_state s"
					" WHERE s.state = 'running' AND s.source_relid <> 0::oid AND " SCD2_AT_HOME("s")
					" ORDER BY s.feed_id", true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read scd2_internal.feed_state");
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple	tup = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		bool		isnull;
		Scd2Feed   *feed;
		Scd2Backlog *backlog = scd2_backlog_of(DatumGetInt32(SPI_getbinval(tup, desc, 1, &isnull)));

		if (scd2_captured_by_id(DatumGetInt32(SPI_getbinval(tup, desc, 1, &isnull))) != NULL ||
			(backlog != NULL && !scd2_backlog_goes_on(backlog)))
			continue;
		feed = scd2_captured_add(DatumGetInt32(SPI_getbinval(tup, desc, 1, &isnull)),
								 DatumGetObjectId(SPI_getbinval(tup, desc, 2, &isnull)),
								 DatumGetObjectId(SPI_getbinval(tup, desc, 3, &isnull)));
		feed->backlog = backlog;
		came = lappend(came, feed);
		if (DatumGetBool(SPI_getbinval(tup, desc, 4, &isnull)))
			repaired = lappend(repaired, feed);
	}
	foreach(lc, came)
	{
		Scd2Feed   *feed = lfirst(lc);

		if (load_columns(batch, feed))
			continue;
		repaired = list_delete_ptr(repaired, feed);
		scd2_captured_remove(feed->feed_id);
	}
	foreach(lc, repaired)
	{
		scd2_feed_at_work = ((Scd2Feed *) lfirst(lc))->feed_id;
		if (!scd2_is_condemned(scd2_feed_at_work))
			catch_up_columns(batch, lfirst(lc));
		scd2_feed_at_work = 0;
	}
	SPI_finish();
}

/* What the decoder fills: it says at which version changes are. */
void
scd2_captured_attach(const Scd2Batch *batch)
{
	at_batch = batch;
}

/* After the batch: feeds whose columns changed have the layout of their relation. */
void
scd2_captured_settle(List *feeds)
{
	ListCell   *lc;

	foreach(lc, feeds)
	{
		Scd2Feed   *feed = lfirst(lc);

		if (!feed->columns_changed)
			continue;
		scd2_layout_settle(feed);
		all_invalid = true;
		last_source = NULL;
	}
}

int
scd2_captured_count(void)
{
	return list_length(captured);
}

List *
scd2_captured_feeds(void)
{
	return captured;
}

/* By the feed's number, or by its source. */
static Scd2Feed *
find(int feed_id, Oid source_relid)
{
	ListCell   *lc;

	foreach(lc, captured)
	{
		Scd2Feed   *feed = lfirst(lc);

		if (feed->feed_id == feed_id || feed->source_relid == source_relid)
			return feed;
	}
	return NULL;
}

Scd2Feed *
scd2_captured_by_id(int feed_id)
{
	return find(feed_id, InvalidOid);
}

Scd2Feed *
scd2_captured_by_source(Oid source_relid)
{
	return find(0, source_relid);	/* feeds are numbered from 1 */
}

/*
 * The feed that a relation's rows go to: its own, or that of a partitioned table above it. (One that
 * is being detached CONCURRENTLY is a partition until that is done, when its rows are taken away.)
 */
Scd2Feed *
scd2_captured_of(Relation relation)
{
	Scd2Feed   *feed = scd2_captured_by_source(RelationGetRelid(relation));
	bool		is_partition = relation->rd_rel->relispartition;
	Oid			relid = RelationGetRelid(relation);

	while (feed == NULL && is_partition && captured != NIL)
	{
		relid = get_partition_parent(relid, true);
		feed = scd2_captured_by_source(relid);
		is_partition = get_rel_relispartition(relid);
	}
	return feed;
}

static bool
stored_alike(Form_pg_attribute a, Form_pg_attribute b)
{
	return a->attlen == b->attlen && a->attbyval == b->attbyval && a->attalign == b->attalign;
}

/*
 * Makes the feed's layout fit the source as it is at this place in the log. "relation" is the
 * source or a leaf of it.
 */
static void
follow(Scd2Feed *feed, TupleDesc root, TupleDesc relation)
{
	int64		version = at_batch == NULL ? 0 : at_batch->has_version ? at_batch->version : at_batch->version + 1;

	scd2_layout_follow(feed, root, relation, version, at_batch == NULL ? InvalidTransactionId : at_batch->xid);
}

/* A column of the source that the layout follows is of its type, or the feed fails. (A leaf has its root's types.) */
static void
check_type(Scd2Feed *feed, int at, Form_pg_attribute att)
{
	if (!scd2_is_of_type(att->atttypid, TupleDescAttr(feed->layout, at)->atttypid))
		feed->misfit = MemoryContextStrdup(feed->cxt, psprintf("column \"%s\" of the source is of type %s instead of %s", NameStr(att->attname),
															   format_type_be(att->atttypid), format_type_be(TupleDescAttr(feed->layout, at)->atttypid)));
}

static void
map_layout(Scd2Source *source, TupleDesc root, TupleDesc desc)
{
	Scd2Feed   *feed = source->feed;

	source->ncolumns = feed->layout->natts;
	source->attribute = palloc(feed->layout->natts * sizeof(int16));
	source->as_is = feed->layout->natts == desc->natts + SCD2_META_COLUMNS;
	for (int i = 0; i < feed->layout->natts; i++)
	{
		int16		attnum = feed->columns[i].replaced ? 0 : feed->columns[i].source_attnum;
		bool		there = attnum > 0 && attnum <= root->natts && !TupleDescAttr(root, attnum - 1)->attisdropped;

		source->attribute[i] = !there ? -1 : root == desc ? attnum - 1 :
			scd2_layout_find(desc, NameStr(TupleDescAttr(root, attnum - 1)->attname));
		if (i >= SCD2_META_COLUMNS && source->attribute[i] >= 0)
			check_type(feed, i, TupleDescAttr(desc, source->attribute[i]));
		source->as_is &= i < SCD2_META_COLUMNS ||
			(source->attribute[i] == i - SCD2_META_COLUMNS &&
			 stored_alike(TupleDescAttr(feed->layout, i), TupleDescAttr(desc, i - SCD2_META_COLUMNS)));
	}
}

static void
map_columns(Scd2Source *source, Relation relation)
{
	TupleDesc	desc = RelationGetDescr(relation);
	Scd2Feed   *feed = source->feed;
	Relation	root = relation;

	SCD2_FAIL_POINT_OF("map columns", RelationGetRelationName(relation));
	if (RelationGetRelid(relation) != feed->source_relid)
	{
		root = RelationIdGetRelation(feed->source_relid);
		if (root == NULL)
			elog(ERROR, "partitioned table %u does not exist", feed->source_relid);
	}
	follow(feed, RelationGetDescr(root), desc);
	SCD2_FORGET_POINT("columns followed");
	map_layout(source, RelationGetDescr(root), desc);
	if (root != relation)
		RelationClose(root);
	source->natts = desc->natts;
	source->varlena = palloc(desc->natts * sizeof(int16));
	source->nvarlena = 0;
	source->values = palloc(desc->natts * sizeof(Datum));
	source->isnull = palloc(desc->natts * sizeof(bool));
	source->old_values = palloc(desc->natts * sizeof(Datum));
	source->old_isnull = palloc(desc->natts * sizeof(bool));
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && att->attlen == -1)
			source->varlena[source->nvarlena++] = i;
	}
}

/* Looking into the catalogs, it may be told of invalidations, and so be invalid again at its end. */
static void
build_source(Scd2Source *source, Relation relation)
{
	MemoryContext old = MemoryContextSwitchTo(sources_cxt);

	maps_made++;
	source->valid = true;
	source->feed = scd2_captured_of(relation);
	source->identity_full = relation->rd_rel->relreplident == REPLICA_IDENTITY_FULL;
	if (source->feed)
	{
		scd2_feed_at_work = source->feed->feed_id;
		map_columns(source, relation);
		scd2_feed_at_work = 0;
	}
	MemoryContextSwitchTo(old);
}

/* Is a map still right? Another leaf may have made the feed's layout grow. */
static inline bool
is_current(const Scd2Source *source)
{
	return source->valid &&
		(source->feed == NULL || source->ncolumns == source->feed->layout->natts);
}

Scd2Source *
scd2_source_of(Relation relation)
{
	Oid			relid = RelationGetRelid(relation);
	Scd2Source *source = last_source;
	bool		found;

	if (source && source->relid == relid && is_current(source))
		return source;
	if (all_invalid || maps_made > MAX_MAPS)
		forget_all_sources();
	source = hash_search(sources, &relid, HASH_ENTER, &found);
	if (!found)
		source->valid = false;
	last_source = source;		/* until an invalidation of everything, which can come with the next look into the catalogs */
	if (!is_current(source))
		build_source(source, relation);
	return source;
}

/*
 * How the rows of a partition fit the feed of the partitioned table that it came to or left,
 * whether or not it is its partition at this place in the log. Right until the next call.
 */
Scd2Source *
scd2_source_for(Relation relation, Scd2Feed *feed)
{
	MemoryContext old;

	if (all_invalid || maps_made > MAX_MAPS)
		forget_all_sources();
	if (staged.relid == RelationGetRelid(relation) && staged.feed == feed && is_current(&staged))
		return &staged;
	old = MemoryContextSwitchTo(sources_cxt);
	maps_made++;
	memset(&staged, 0, sizeof(staged));
	staged.relid = RelationGetRelid(relation);
	staged.feed = feed;
	staged.valid = true;
	map_columns(&staged, relation);
	MemoryContextSwitchTo(old);
	return &staged;
}

/*
 * Has the feed of a table, of which "relid" is the source or a leaf, follow its columns as they are
 * at this place in the log. False: the table is not captured (any more) or has not that feed.
 */
bool
scd2_captured_follow(Scd2Feed *feed, Oid relid)
{
	Relation	relation = RelationIdGetRelation(relid);
	bool		ours;

	all_invalid = true;			/* what stays out may have changed */
	last_source = NULL;
	if (relation == NULL)
		return false;
	ours = scd2_source_of(relation)->feed == feed;
	RelationClose(relation);
	return ours;
}
