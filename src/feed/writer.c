/*
 * writer.c
 *		Rows of the batch into the feed.
 *
 * The rows of one feed in a batch go into its last leaf in one sweep, a page at a time. Rules:
 *
 * Append only, in version order: free space in earlier pages is never used (TABLE_INSERT_SKIP_FSM), so a reader that has read up to a block finds all later versions in
 * or after it.
 *
 * Not logically logged (TABLE_INSERT_NO_LOGICAL): a feed is read here, and the decoder would only throw the rows away again. What a FOR ALL TABLES publication publishes of a feed is nothing.
 *
 * BRIN indexes get the first and the last row of each page: versions and timestamps ascend, so the rows between add nothing. (Every row would be a third of the time.) Other indexes, which
 * the owner may have made, get every row, and his constraints are checked: as the owner, since index expressions and checks are his code. Triggers do not fire.
 *
 * If the source gained columns that the feed lacks, the feed gets them here, in the same transaction. Columns that the owner added to the feed by hand must accept NULL.
 *
 * While much is written the WAL writer is woken now and then: its writes and flushes run beside ours, which would otherwise wait in the middle of a page's eviction. (A
 * tenth of the time.)
 *
 * A lock on a feed is waited for: capture waits with it (scd2.capture shows for whom).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/partition.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "pgstat.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"

#include "pg_scd2.h"
#include "compat.h"
#include "feed/layout.h"
#include "feed/writer.h"
#include "identity.h"
#include "names.h"

#define ROWS_AT_ONCE	1000
#define NUDGE_BYTES		((Size) 1024 * 1024)
#define WRITE_OPTIONS	(TABLE_INSERT_SKIP_FSM | TABLE_INSERT_NO_LOGICAL)

/* One feed being written. */
typedef struct Writer
{
	Scd2Feed   *feed;
	Relation	leaf;
	int		   *column;			/* per attribute of the leaf: index into the layout, or -1 */
	bool		as_is;			/* layout and leaf are the same columns */
	EState	   *estate;
	ResultRelInfo *rri;
	bool		only_brin;
	struct BulkInsertStateData *bistate;
	bool		checks;			/* there are constraints besides those of the metadata, which hold */
	MemoryContext rows_cxt;		/* of the rows gathered if they had to be formed anew, reset with each flush */
	HeapTupleData rows[ROWS_AT_ONCE];
	TupleTableSlot *slots[ROWS_AT_ONCE];
	int			nslots;
	int			made;
} Writer;

/*
 * Slots for rows in the batch's memory, which outlives the insert. The server copies each row into a slot of TTSOpsHeapTuple before inserting it, so
 * these do not materialize.
 */
static TupleTableSlotOps row_slot_ops;

static void
keep_as_is(TupleTableSlot *slot)
{
}

/* ExecStoreHeapTuple() takes slots with the server's own operations only. */
static void
store_row(HeapTuple row, TupleTableSlot *slot)
{
	HeapTupleTableSlot *heap_slot = (HeapTupleTableSlot *) slot;

	ExecClearTuple(slot);
	heap_slot->tuple = row;
	heap_slot->off = 0;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
}

/* The partition of a feed that a version belongs to. */
static Oid
leaf_for(Relation feed, int64 version)
{
	PartitionKey key = RelationGetPartitionKey(feed);
	PartitionDesc desc = RelationGetPartitionDesc(feed, true);
	Datum		value = Int64GetDatum(version);
	bool		is_equal;
	int			bound;
	int			part = -1;

	if (desc->nparts > 0 && key->strategy == PARTITION_STRATEGY_RANGE && key->partnatts == 1)
	{
		bound = partition_range_datum_bsearch(key->partsupfunc, key->partcollation, desc->boundinfo, 1, &value, &is_equal);
		part = desc->boundinfo->indexes[bound + 1];
	}
	if (part < 0 || get_rel_relkind(desc->oids[part]) != RELKIND_RELATION)
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg("feed \"%s\" has no partition for version " INT64_FORMAT, RelationGetRelationName(feed), version)));
	return desc->oids[part];
}

/*
 * The leaf that takes the batch's rows. It is the last one, and no cut comes in between (32_feed_leaves.sql), but the owner may have done what we would not.
 */
static Oid
leaf_for_batch(Scd2Feed *feed, Relation rel)
{
	Oid			leaf;

	if (rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		return RelationGetRelid(rel);
	leaf = leaf_for(rel, feed->first_version);
	if (leaf != leaf_for(rel, feed->last_version))
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg("feed \"%s\" was cut at a version that was yet to come", RelationGetRelationName(rel)),
				 errdetail("Versions " INT64_FORMAT " to " INT64_FORMAT " belong to different partitions.", feed->first_version, feed->last_version)));
	return leaf;
}

static Relation
open_feed(Scd2Feed *feed)
{
	Relation	rel = try_relation_open(feed->feed_relid, RowExclusiveLock);

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the feed of table %s is gone",
						scd2_relation_name(feed->source_relid))));
	return rel;
}

/* The statement that adds to the feed what its source gained; NULL if nothing. Excluded columns were left out of the layout by then. */
static char *
missing_columns(Scd2Feed *feed, Relation rel)
{
	StringInfoData sql;
	bool		any = false;

	initStringInfo(&sql);
	appendStringInfo(&sql, "ALTER TABLE %s",
					 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
												RelationGetRelationName(rel)));
	for (int i = SCD2_META_COLUMNS; i < feed->layout->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(feed->layout, i);

		if (scd2_layout_find(RelationGetDescr(rel), NameStr(att->attname)) >= 0 ||
			scd2_layout_excludes(feed, NameStr(att->attname)))
			continue;
		appendStringInfo(&sql, "%s ADD COLUMN %s %s", any ? "," : "",
						 quote_identifier(NameStr(att->attname)),
						 format_type_extended(att->atttypid, att->atttypmod,
											  FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY));
		if (OidIsValid(att->attcollation) && att->attcollation != get_typcollation(att->atttypid))
			appendStringInfo(&sql, " COLLATE %s", scd2_collation_name(att->attcollation));
		any = true;
	}
	return any ? sql.data : NULL;
}

/* The feed relation, locked, with a column for each of its rows' columns. */
static Relation
open_feed_for(Scd2Feed *feed)
{
	Relation	rel = open_feed(feed);
	char	   *sql = missing_columns(feed, rel);

	if (sql != NULL)
	{
		/* alter_change_feed() may have excluded it since. */
		scd2_layout_read_exclusions(feed);
		sql = missing_columns(feed, rel);
	}
	if (sql == NULL)
		return rel;
	table_close(rel, RowExclusiveLock);
	SPI_connect();
	if (SPI_execute(sql, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not execute %s", sql);
	SPI_finish();
	return open_feed(feed);
}

/* Matches the leaf's columns with the layout's, by name. What does not fit was altered by hand: an error for good. */
static void
map_leaf(Writer *w)
{
	TupleDesc	desc = RelationGetDescr(w->leaf);
	TupleDesc	layout = w->feed->layout;

	w->column = palloc(desc->natts * sizeof(int));
	w->as_is = desc->natts == layout->natts;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		int			at = att->attisdropped ? -1 : scd2_layout_find(layout, NameStr(att->attname));

		if (at >= 0 && TupleDescAttr(layout, at)->atttypid != att->atttypid)
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("column \"%s\" of feed \"%s\" is of type %s, its rows of type %s",
							NameStr(att->attname), RelationGetRelationName(w->leaf),
							format_type_be(att->atttypid),
							format_type_be(TupleDescAttr(layout, at)->atttypid))));
		w->column[i] = at;
		w->as_is &= at == i;
		w->checks |= i >= SCD2_META_COLUMNS && att->attnotnull;
	}
	w->checks |= desc->constr != NULL && desc->constr->num_check > 0;
}

/* Finds out what has to be done for each row besides storing it. */
static void
open_indexes(Writer *w)
{
	w->estate = CreateExecutorState();
	w->rri = makeNode(ResultRelInfo);
	InitResultRelInfo(w->rri, w->leaf, 1, NULL, 0);
	ExecOpenIndices(w->rri, false);
	scd2_init_range_table(w->estate, w->leaf, w->rri);

	w->only_brin = true;
	for (int i = 0; i < w->rri->ri_NumIndices; i++)
		w->only_brin &= w->rri->ri_IndexRelationDescs[i]->rd_rel->relam == BRIN_AM_OID;
}

static Writer *
begin_write(Scd2Feed *feed, Relation rel)
{
	Writer	   *w = palloc0(sizeof(Writer));

	w->feed = feed;
	w->leaf = table_open(leaf_for_batch(feed, rel), RowExclusiveLock);
	map_leaf(w);
	open_indexes(w);
	w->bistate = GetBulkInsertState();
	w->rows_cxt = AllocSetContextCreate(CurrentMemoryContext, "pg_scd2 rows", ALLOCSET_DEFAULT_SIZES);
	row_slot_ops = TTSOpsHeapTuple;
	row_slot_ops.materialize = keep_as_is;
	return w;
}

static void
insert_index_tuple(Writer *w, int index, TupleTableSlot *slot)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	IndexInfo  *info = w->rri->ri_IndexRelationInfo[index];

	GetPerTupleExprContext(w->estate)->ecxt_scantuple = slot;
	FormIndexDatum(info, slot, w->estate, values, isnull);
	(void) index_insert(w->rri->ri_IndexRelationDescs[index], values, isnull, &slot->tts_tid,
						w->leaf, UNIQUE_CHECK_NO, false, info);
}

/* First and last row of each page. */
static void
insert_brin_tuples(Writer *w)
{
	for (int i = 0; i < w->nslots; i++)
	{
		BlockNumber block = ItemPointerGetBlockNumber(&w->slots[i]->tts_tid);
		bool		first = i == 0 ||
			ItemPointerGetBlockNumber(&w->slots[i - 1]->tts_tid) != block;
		bool		last = i == w->nslots - 1 ||
			ItemPointerGetBlockNumber(&w->slots[i + 1]->tts_tid) != block;

		if (!first && !last)
			continue;
		for (int index = 0; index < w->rri->ri_NumIndices; index++)
			insert_index_tuple(w, index, w->slots[i]);
		ResetPerTupleExprContext(w->estate);
	}
}

static void
insert_all_index_tuples(Writer *w)
{
	for (int i = 0; i < w->nslots; i++)
	{
		list_free(scd2_insert_index_tuples(w->rri, w->slots[i], w->estate));
		ResetPerTupleExprContext(w->estate);
	}
}

static void
flush_rows(Writer *w)
{
	if (w->nslots == 0)
		return;
	table_multi_insert(w->leaf, w->slots, w->nslots, GetCurrentCommandId(true),
					   WRITE_OPTIONS, w->bistate);
	scd2_extend_no_more_than_needed(w->bistate);
	if (w->rri->ri_NumIndices > 0)
	{
		if (w->only_brin)
			insert_brin_tuples(w);
		else
			insert_all_index_tuples(w);
	}
	for (int i = 0; i < w->nslots; i++)
		ExecClearTuple(w->slots[i]);
	MemoryContextReset(w->rows_cxt);
	w->nslots = 0;
}

/* A row of the batch as a tuple of the leaf, in rows_cxt. */
static HeapTuple
form_row(Writer *w, HeapTuple row)
{
	TupleDesc	desc = RelationGetDescr(w->leaf);
	TupleDesc	layout = w->feed->layout;
	MemoryContext old = MemoryContextSwitchTo(w->rows_cxt);
	Datum	   *from = palloc(layout->natts * sizeof(Datum));
	bool	   *from_isnull = palloc(layout->natts * sizeof(bool));
	Datum	   *values = palloc(desc->natts * sizeof(Datum));
	bool	   *isnull = palloc(desc->natts * sizeof(bool));
	HeapTuple	formed;

	heap_deform_tuple(row, layout, from, from_isnull);
	for (int i = 0; i < desc->natts; i++)
	{
		int			at = w->column[i];

		isnull[i] = at < 0 || from_isnull[at];
		values[i] = isnull[i] ? (Datum) 0 : from[at];
	}
	formed = heap_form_tuple(desc, values, isnull);
	MemoryContextSwitchTo(old);
	return formed;
}

/* Gathers a row, which lives until the next flush. */
static void
add_row(Writer *w, HeapTuple row)
{
	TupleTableSlot *slot;

	if (w->nslots == w->made)
		w->slots[w->made++] = MakeSingleTupleTableSlot(RelationGetDescr(w->leaf), &row_slot_ops);
	slot = w->slots[w->nslots];
	w->rows[w->nslots] = w->as_is ? *row : *form_row(w, row);
	store_row(&w->rows[w->nslots], slot);
	slot->tts_tableOid = RelationGetRelid(w->leaf);
	if (w->checks)
		ExecConstraints(w->rri, slot, w->estate);
	if (++w->nslots == ROWS_AT_ONCE)
		flush_rows(w);
}

static int64
row_version(Writer *w, HeapTuple row)
{
	bool		isnull;

	return DatumGetInt64(heap_getattr(row, SCD2_META_COMMIT_VERSION + 1, w->feed->layout, &isnull));
}

/* Rows are inserted from where the batch has them: a chunk's before the next is read. Of a version that the feed lacks in part, it gets nothing. */
static void
write_rows(Writer *w)
{
	Scd2Feed   *feed = w->feed;
	HeapTupleData row;
	Size		since_nudge = 0;

	scd2_rows_rewind(feed->rows);
	while (scd2_rows_next_chunk(feed->rows))
	{
		while (scd2_rows_next(feed->rows, &row))
		{
			if (feed->failure && row_version(w, &row) >= feed->failed_version)
				break;
			since_nudge += row.t_len;
			add_row(w, &row);
		}
		flush_rows(w);
		if (since_nudge >= NUDGE_BYTES)
		{
			scd2_nudge_wal_writer();
			since_nudge = 0;
		}
		CHECK_FOR_INTERRUPTS();
	}
}

static void
end_write(Writer *w)
{
	for (int i = 0; i < w->made; i++)
		ExecDropSingleTupleTableSlot(w->slots[i]);
	FreeBulkInsertState(w->bistate);
	table_finish_bulk_insert(w->leaf, WRITE_OPTIONS);
	ExecCloseIndices(w->rri);
	FreeExecutorState(w->estate);
	table_close(w->leaf, NoLock);
}

/*
 * Writes the batch's rows of one feed. In a transaction with a snapshot; may be called again for the same rows after a failure. Raises what the server raises.
 */
void
scd2_feed_write(Scd2Feed *feed)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "pg_scd2 write", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	Relation	rel = open_feed_for(feed);
	Scd2Identity self;
	Writer	   *w;

	scd2_become(rel->rd_rel->relowner, &self);
	w = begin_write(feed, rel);
	write_rows(w);
	end_write(w);
	scd2_become_self_again(&self);
	table_close(rel, NoLock);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/*
 * Does an error mean that this feed cannot be written as it is, whenever it is tried? Internal errors (XX) and cancellations (57) are not: the worker dies and
 * tries again, so that a fault of ours never hides behind a gap. Lack of resources and locks (53, 40, 55) pass.
 */
bool
scd2_feed_error_is_permanent(int sqlerrcode)
{
	switch (ERRCODE_TO_CATEGORY(sqlerrcode))
	{
		case ERRCODE_INTERNAL_ERROR:
		case ERRCODE_OPERATOR_INTERVENTION:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_TRANSACTION_ROLLBACK:
		case ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
		case ERRCODE_SYSTEM_ERROR:
			return false;
		default:
			return true;
	}
}
