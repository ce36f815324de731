/*
 * plugin.c
 *		The output plugin: from decoded changes to the batch.
 *
 * It is loaded by the decoder of our capture worker, in whose process it fills the batch, and by
 * nobody else: started over SQL or by a walsender it refuses, since a second reader of the slot
 * would take changes away from the feeds. (Under pg_upgrade it may start: there the slot is created
 * by SQL, and no worker runs.)
 *
 * The callbacks run in the decoder's inner transaction, which is aborted: they read catalogs as of
 * the change, keep nothing in that transaction's memory, and write nothing.
 *
 * Our own writes have the origin DoNotReplicateId and are dropped before they are queued. No stream
 * or prepare callbacks: transactions arrive whole, at COMMIT or COMMIT PREPARED.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "miscadmin.h"
#include "replication/logical.h"
#include "replication/origin.h"
#include "replication/output_plugin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "pg_scd2.h"
#include "compat.h"
#include "capture/blame.h"
#include "capture/captured.h"
#include "capture/decoder.h"
#include "capture/images.h"
#include "capture/plugin.h"
#include "feed/layout.h"
#include "worker/failpoint.h"

/*
 * What a row in memory can have: a piece of memory, less headers, metadata and padding. (The values
 * of a table's row can be more together: they are stored apart.)
 */
#define MAX_ROW		((Size) MaxAllocSize - 64 * 1024)

extern PGDLLEXPORT void _PG_output_plugin_init(OutputPluginCallbacks *cb);

static Scd2Batch *batch = NULL;
static MemoryContext change_cxt = NULL;
static Oid	control_relid = InvalidOid;
static Oid	staged_relid = InvalidOid;
static List *emptied = NIL;		/* partitions that this transaction truncates, whose rows it has staged */
static List *settled_controls = NIL;	/* of int64 *: records of control_relid that are not heeded */

void
scd2_plugin_attach(Scd2Batch *to)
{
	batch = to;
	scd2_captured_attach(to);
	change_cxt = AllocSetContextCreate(TopMemoryContext, "pg_scd2 change", ALLOCSET_DEFAULT_SIZES);
}

/* "settled": numbers of control records (int64 *) that count as met. It lives as long as the worker. */
void
scd2_plugin_find_control(List *settled)
{
	Oid			schema = get_namespace_oid(SCD2_INTERNAL, false);

	settled_controls = settled;
	control_relid = get_relname_relid("control", schema);
	staged_relid = get_relname_relid("staged_row", schema);
}

static void
plugin_startup(LogicalDecodingContext *ctx, OutputPluginOptions *opt, bool is_init)
{
	opt->output_type = OUTPUT_PLUGIN_BINARY_OUTPUT;
	if (batch == NULL && !IsBinaryUpgrade)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("output plugin \"%s\" can only be used by its own capture worker", SCD2_PLUGIN),
				 errhint("SELECT * FROM scd2.table_changes('customers'); -- the changes of a table")));
}

static bool
plugin_filter_by_origin(LogicalDecodingContext *ctx, RepOriginId origin)
{
	return origin == DoNotReplicateId;
}

static void
plugin_begin(LogicalDecodingContext *ctx, ReorderBufferTXN *txn)
{
	list_free(emptied);
	emptied = NIL;
	scd2_batch_begin_transaction(batch, txn->xid, scd2_txn_commit_time(txn), scd2_decoder_spare_memory());
}

static void
plugin_commit(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, XLogRecPtr commit_lsn)
{
	scd2_batch_end_transaction(batch, txn->end_lsn);
}

static char *
text_or_null(Datum value, bool isnull)
{
	return isnull ? NULL : TextDatumGetCString(value);
}

/* Does the feed, whose layout was made to fit, take rows? If not, it fails, or a repair begins. */
static bool
takes_rows(Scd2Feed *feed)
{
	if (feed->misfit)
		scd2_batch_fail_feed(batch, feed, feed->misfit);
	else if (feed->retyped)
		scd2_batch_repair_feed(batch, feed, feed->retyped);
	feed->retyped = NULL;
	return feed->failure == NULL;
}

/* The columns of a captured table, or which of them stay out, may have changed. */
static void
follow_columns(Scd2Feed *feed, const Scd2Control *control)
{
	int			gone;

	if (feed == NULL || (feed->failure && !feed->repairs))
		return;
	gone = scd2_layout_gone(feed);
	scd2_layout_exclude(feed, control->detail);
	if (!scd2_captured_follow(feed, control->source_relid))
		return;
	feed->columns_changed |= scd2_layout_gone(feed) > gone;	/* flows may name it */
	if (control->no_rows)
		feed->retyped = NULL;
	(void) takes_rows(feed);
	if (feed->columns_changed)
		scd2_batch_change_columns(batch, feed);
}

/* Is it the feed at which capture fails? Then it has a gap, from here on, and nothing is looked at. */
static bool
is_condemned(Scd2Feed *feed)
{
	if (feed == NULL || !scd2_is_condemned(feed->feed_id))
		return false;
	scd2_batch_fail_feed(batch, feed, scd2_condemned_why());
	return true;
}

static void
enable_feed(Scd2Control *control)
{
	Scd2Feed   *feed = scd2_captured_add(control->feed_id, control->source_relid, control->feed_relid);

	if (is_condemned(feed))
		return;
	scd2_layout_exclude(feed, control->detail);
	(void) scd2_captured_follow(feed, control->source_relid);
	feed->columns_changed = false;	/* register_feed() has written which they are */
	feed->retyped = NULL;
}

/* The rows that a TRUNCATE takes are known: it comes next. */
static void
note_emptied(Oid relid)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	emptied = lappend_oid(emptied, relid);
	MemoryContextSwitchTo(old);
}

static bool
is_settled(const Scd2Control *control)
{
	ListCell   *lc;

	foreach(lc, settled_controls)
		if (*(int64 *) lfirst(lc) == control->control_id)
			return true;
	return false;
}

/* From its place on, in this transaction too. */
static void
heed(Scd2Control *control)
{
	Scd2Feed   *feed = scd2_captured_by_id(control->feed_id);

	scd2_batch_add_control(batch, control);
	scd2_feed_at_work = control->feed_id;
	if (strcmp(control->kind, "enable feed") == 0)
		enable_feed(control);
	else if (strcmp(control->kind, "disable feed") == 0)
		scd2_captured_remove(control->feed_id);
	else if (is_condemned(feed))
		;
	else if (strcmp(control->kind, "columns") == 0)
		follow_columns(feed, control);
	else if (strcmp(control->kind, "partition emptied") == 0)
		note_emptied(control->source_relid);
	else if (strcmp(control->kind, "resync") == 0)
	{
		/* The feed is captured from the next transaction on: its definition is read before that. */
		scd2_batch_take_version(batch);
		batch->ends = true;
	}
	else if (strcmp(control->kind, "gap") == 0 && feed != NULL)
		scd2_batch_fail_feed(batch, feed, control->detail);
	else if (strcmp(control->kind, "rewrite") == 0 && feed != NULL)
		scd2_batch_repair_feed(batch, feed, control->detail);
	scd2_feed_at_work = 0;
}

/* A row of scd2_internal.control; columns are found by name, as they were then. */
static void
read_control(Relation relation, HeapTuple tuple)
{
	TupleDesc	desc = RelationGetDescr(relation);
	Datum	   *values = palloc(desc->natts * sizeof(Datum));
	bool	   *isnull = palloc(desc->natts * sizeof(bool));
	Scd2Control control = {0};

	heap_deform_tuple(tuple, desc, values, isnull);
	for (int i = 0; i < desc->natts; i++)
	{
		const char *name = NameStr(TupleDescAttr(desc, i)->attname);

		if (isnull[i])
			continue;
		if (strcmp(name, "control_id") == 0)
			control.control_id = DatumGetInt64(values[i]);
		else if (strcmp(name, "kind") == 0)
			control.kind = text_or_null(values[i], isnull[i]);
		else if (strcmp(name, "feed_id") == 0)
			control.feed_id = DatumGetInt32(values[i]);
		else if (strcmp(name, "flow_id") == 0)
			control.flow_id = DatumGetInt32(values[i]);
		else if (strcmp(name, "source_relid") == 0)
			control.source_relid = DatumGetObjectId(values[i]);
		else if (strcmp(name, "feed_relid") == 0)
			control.feed_relid = DatumGetObjectId(values[i]);
		else if (strcmp(name, "detail") == 0)
			control.detail = text_or_null(values[i], isnull[i]);
		else if (strcmp(name, "no_rows") == 0)
			control.no_rows = DatumGetBool(values[i]);
	}
	if (!is_settled(&control))
		heed(&control);
}

static void
fail_without_image(Scd2Feed *feed, Relation relation)
{
	scd2_batch_fail_feed(batch, feed,
						 psprintf("table \"%s\" was changed without REPLICA IDENTITY FULL: the old row is not in the log",
								  RelationGetRelationName(relation)));
}

/* The row that is laid out in the feed's values, if it can be one. */
static void
add_row(Scd2Source *source, Relation relation, Scd2ChangeType type)
{
	Size		size = scd2_image_size(source);

	if (size > MAX_ROW)
		scd2_batch_fail_feed(batch, source->feed,
							 psprintf("a row of table \"%s\" has %zu bytes: too many for a row in one piece",
									  RelationGetRelationName(relation), size));
	else
		scd2_batch_add_row(batch, source->feed, type);
}

static void
add_old_image(Scd2Source *source, Relation relation, HeapTuple old, Scd2ChangeType type)
{
	if (scd2_image_is_row(source, old))
	{
		scd2_batch_add_image(batch, source->feed, type, old);
		return;
	}
	scd2_image_old(source, RelationGetDescr(relation), old);
	scd2_image_to_row(source, true);
	add_row(source, relation, type);
}

/* "old" can be NULL. */
static void
add_new_image(Scd2Source *source, Relation relation, HeapTuple new, HeapTuple old, Scd2ChangeType type)
{
	if (scd2_image_is_row(source, new))
	{
		scd2_batch_add_image(batch, source->feed, type, new);
		return;
	}
	if (old)
		scd2_image_old(source, RelationGetDescr(relation), old);
	if (!scd2_image_new(source, RelationGetDescr(relation), new, old != NULL))
	{
		fail_without_image(source->feed, relation);
		return;
	}
	scd2_image_to_row(source, false);
	add_row(source, relation, type);
}

/* One row of a captured table. */
static void
capture_change(Scd2Source *source, Relation relation, ReorderBufferChange *change)
{
	HeapTuple	old = scd2_change_oldtuple(change);
	HeapTuple	new = scd2_change_newtuple(change);

	SCD2_FAIL_POINT_OF("capture change", RelationGetRelationName(relation));
	if (change->action != REORDER_BUFFER_CHANGE_INSERT && (old == NULL || !source->identity_full))
	{
		fail_without_image(source->feed, relation);
		return;
	}
	switch (change->action)
	{
		case REORDER_BUFFER_CHANGE_INSERT:
			add_new_image(source, relation, new, NULL, SCD2_INSERT);
			break;
		case REORDER_BUFFER_CHANGE_UPDATE:
			add_old_image(source, relation, old, SCD2_UPDATE_PREIMAGE);
			add_new_image(source, relation, new, old, SCD2_UPDATE_POSTIMAGE);
			break;
		case REORDER_BUFFER_CHANGE_DELETE:
			add_old_image(source, relation, old, SCD2_DELETE);
			break;
		default:
			elog(ERROR, "unexpected change %d", (int) change->action);
	}
}

/* A row that came or went with a partition, as it was stored there. */
static void
capture_staged(Scd2Feed *feed, Relation leaf, bool arrives, struct varlena *image)
{
	Scd2Source *source = scd2_source_for(leaf, feed);
	HeapTupleData row = {.t_len = VARSIZE_ANY_EXHDR(image), .t_tableOid = RelationGetRelid(leaf)};

	ItemPointerSetInvalid(&row.t_self);
	row.t_data = palloc(row.t_len);
	memcpy(row.t_data, VARDATA_ANY(image), row.t_len);
	if (!takes_rows(feed))
		return;
	if (arrives)
		add_new_image(source, leaf, &row, NULL, SCD2_INSERT);
	else
		add_old_image(source, leaf, &row, SCD2_DELETE);
}

/* A row of scd2_internal.staged_row; columns are found by name, as they were then. */
static void
read_staged(Relation relation, HeapTuple tuple)
{
	TupleDesc	desc = RelationGetDescr(relation);
	Datum	   *values = palloc(desc->natts * sizeof(Datum));
	bool	   *isnull = palloc(desc->natts * sizeof(bool));
	Scd2Feed   *feed;
	Relation	leaf;

	heap_deform_tuple(tuple, desc, values, isnull);
	feed = scd2_captured_by_id(DatumGetInt32(values[scd2_layout_find(desc, "feed_id")]));
	if (feed == NULL || feed->failure || is_condemned(feed))
		return;
	scd2_feed_at_work = feed->feed_id;
	leaf = RelationIdGetRelation(DatumGetObjectId(values[scd2_layout_find(desc, "leaf_relid")]));
	if (leaf == NULL)
		elog(ERROR, "partition of a staged row does not exist");
	capture_staged(feed, leaf, DatumGetBool(values[scd2_layout_find(desc, "arrives")]),
				   PG_DETOAST_DATUM_PACKED(values[scd2_layout_find(desc, "image")]));
	RelationClose(leaf);
	scd2_feed_at_work = 0;
}

static void
plugin_change(LogicalDecodingContext *ctx, ReorderBufferTXN *txn,
			  Relation relation, ReorderBufferChange *change)
{
	Scd2Source *source;
	MemoryContext old;

	if (RelationGetRelid(relation) == control_relid)
	{
		if (change->action != REORDER_BUFFER_CHANGE_INSERT)
			return;
		old = MemoryContextSwitchTo(change_cxt);
		read_control(relation, scd2_change_newtuple(change));
	}
	else if (RelationGetRelid(relation) == staged_relid)
	{
		if (change->action != REORDER_BUFFER_CHANGE_INSERT)
			return;				/* taken away again at once */
		old = MemoryContextSwitchTo(change_cxt);
		read_staged(relation, scd2_change_newtuple(change));
	}
	else
	{
		if (unlikely(scd2_condemned_feed != 0) && is_condemned(scd2_captured_of(relation)))
			return;
		source = scd2_source_of(relation);
		if (source->feed == NULL || source->feed->failure)
			return;
		old = MemoryContextSwitchTo(change_cxt);
		scd2_feed_at_work = source->feed->feed_id;
		if (takes_rows(source->feed))
			capture_change(source, relation, change);
		scd2_feed_at_work = 0;
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(change_cxt);
}

/*
 * The truncated relations: what lists the captured table itself is a truncate row. The rows of a
 * partition alone have been staged, else they are a gap.
 */
static void
plugin_truncate(LogicalDecodingContext *ctx, ReorderBufferTXN *txn, int nrelations,
				Relation relations[], ReorderBufferChange *change)
{
	List	   *whole = NIL;

	for (int i = 0; i < nrelations; i++)
	{
		Scd2Feed   *feed = scd2_captured_by_source(RelationGetRelid(relations[i]));

		if (feed == NULL || feed->failure || is_condemned(feed))
			continue;
		whole = lappend(whole, feed);
		if (!takes_rows(feed))
			continue;
		scd2_feed_at_work = feed->feed_id;
		memset(feed->isnull, true, feed->layout->natts * sizeof(bool));
		scd2_batch_add_row(batch, feed, SCD2_TRUNCATE);
		scd2_feed_at_work = 0;
	}
	for (int i = 0; i < nrelations; i++)
	{
		Scd2Feed   *feed;

		if (unlikely(scd2_condemned_feed != 0) && is_condemned(scd2_captured_of(relations[i])))
			continue;
		feed = scd2_source_of(relations[i])->feed;
		if (feed == NULL || feed->failure || list_member_ptr(whole, feed))
			continue;
		if (list_member_oid(emptied, RelationGetRelid(relations[i])))
		{
			emptied = list_delete_oid(emptied, RelationGetRelid(relations[i]));
			continue;
		}
		scd2_batch_fail_feed(batch, feed,
							 psprintf("partition \"%s\" was truncated alone: its rows left without a trace in the log",
									  RelationGetRelationName(relations[i])));
	}
	list_free(whole);
}

void
_PG_output_plugin_init(OutputPluginCallbacks *cb)
{
	cb->startup_cb = plugin_startup;
	cb->begin_cb = plugin_begin;
	cb->change_cb = plugin_change;
	cb->truncate_cb = plugin_truncate;
	cb->commit_cb = plugin_commit;
	cb->filter_by_origin_cb = plugin_filter_by_origin;
}
