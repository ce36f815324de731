/*
 * writer.c
 *		Rows of the batch into the feed.
 *
 * The rows of one feed in a batch go into its last leaf in one sweep, a page at a time. Rules:
 *
 * Append only, in version order: free space in earlier pages is never used (TABLE_INSERT_SKIP_FSM),
 * so a reader that has read up to a block finds all later versions in or after it.
 *
 * Logically logged like any table's, although our decoder only throws the rows away again (by their
 * origin, before it looks at them). TABLE_INSERT_NO_LOGICAL is not for many rows at once: it takes
 * the data out of the records of long values only, and other decoders (a FOR ALL TABLES publication)
 * would get rows that lack those.
 *
 * Our own BRIN index gets the first and the last row of each page: versions and timestamps ascend, so
 * the rows between add nothing. (Every row would be a third of the time.) It is known by what it is;
 * where there is any other index too, all get every row, as the server inserts them. Indexes that are
 * not ready (REINDEX CONCURRENTLY builds them) get none.
 *
 * What may stand on a feed (32_feed_bare.sql) calls nothing but C. Where something else stands on it, from
 * version 0.1.0 or a restore, nothing is written: it waits until that is gone. It is looked at once, and
 * again when the server says that the feed or the leaf changed.
 *
 * Where the layout changed, the feed relation follows here, in the same transaction
 * (follow_columns()).
 *
 * While much is written the WAL writer is woken now and then: its writes and flushes run beside
 * ours, which would otherwise wait in the middle of a page's eviction. (A tenth of the time.)
 *
 * Nobody waits for somebody's lock on a feed: all locks that the write takes are tried first (lock.c). If
 * one is not to be had, nothing is written, and the rows wait by themselves (capture/backlog.c). What is met
 * behind those (a lock on a row of a definition) is waited for PATIENCE, no longer.
 */
#include "postgres.h"

#include "access/brin_internal.h"
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
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "partitioning/partbounds.h"
#include "partitioning/partdesc.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/partcache.h"
#include "utils/rel.h"

#include "pg_scd2.h"
#include "compat.h"
#include "feed/kept_layout.h"
#include "feed/layout.h"
#include "feed/lock.h"
#include "feed/writer.h"
#include "fixed.h"
#include "identity.h"
#include "names.h"

#define ROWS_AT_ONCE	1000
#define NUDGE_BYTES		((Size) 1024 * 1024)
#define WRITE_OPTIONS	TABLE_INSERT_SKIP_FSM
#define PATIENCE		20		/* ms: of who waits for a lock although the others were to be had */
#define FORMER_NUMBERS	(-10000)	/* below them: columns that were the source's (a restore numbers anew, from -1000 on) */

/* One feed being written. */
typedef struct Writer
{
	Scd2Feed   *feed;
	Relation	leaf;
	int		   *column;			/* per attribute of the leaf: index into the layout, or -1 */
	bool		as_is;			/* layout and leaf are the same columns */
	EState	   *estate;
	ResultRelInfo *rri;
	bool		only_ours;		/* no index but our BRIN index (and copies that are being made of it) */
	struct BulkInsertStateData *bistate;
	MemoryContext rows_cxt;		/* of the rows gathered if they had to be formed anew, reset with each flush */
	HeapTupleData rows[ROWS_AT_ONCE];
	TupleTableSlot *slots[ROWS_AT_ONCE];
	int			nslots;
	int			made;
} Writer;

/*
 * Slots for rows in the batch's memory, which outlives the insert. The server copies each row into
 * a slot of TTSOpsHeapTuple before inserting it, so these do not materialize.
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

	if (desc->nparts > 0 && key->strategy == PARTITION_STRATEGY_RANGE && key->partnatts == 1 && key->parttypid[0] == INT8OID)
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
 * The leaf that takes the batch's rows. It is the last one, and no cut comes in between
 * (32_feed_leaves.sql), but the owner may have done what we would not.
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

static char *
type_sql(Form_pg_attribute att)
{
	char	   *type = scd2_fixed_type_name(att->atttypid, att->atttypmod);

	if (!OidIsValid(att->attcollation) || att->attcollation == get_typcollation(att->atttypid))
		return type;
	return psprintf("%s COLLATE %s", type, scd2_fixed_collation_name(att->attcollation));
}

static void
alter(const char *sql)
{
	if (SPI_execute(sql, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not execute %s", sql);
}

/* What the relation calls a column of the layout now; NULL: it does not have it. */
static const char *
present_name(Scd2Feed *feed, TupleDesc desc, int i)
{
	int16		attnum = feed->columns[i].feed_attnum;
	int			at;

	if (attnum > 0 && attnum <= desc->natts && !TupleDescAttr(desc, attnum - 1)->attisdropped)
		return NameStr(TupleDescAttr(desc, attnum - 1)->attname);
	at = scd2_layout_find(desc, NameStr(TupleDescAttr(feed->layout, i)->attname));
	for (int other = 0; at >= 0 && other < feed->layout->natts; other++)
		if (other != i && feed->columns[other].feed_attnum == at + 1)
			return NULL;		/* another's, which gets another name */
	return at < 0 ? NULL : NameStr(TupleDescAttr(desc, at)->attname);
}

static bool
is_column(const Scd2Feed *feed, int i)
{
	return i >= SCD2_META_COLUMNS && !feed->columns[i].replaced;
}

/* Has the feed to have a column? Not one that stays out, nor one whose type went, and took it along. */
static bool
is_wanted(Scd2Feed *feed, int i)
{
	Form_pg_attribute att = TupleDescAttr(feed->layout, i);

	return !scd2_layout_excludes(feed, NameStr(att->attname)) && !scd2_column_type_is_gone(att);
}

static bool
lacks_columns(Scd2Feed *feed, TupleDesc desc)
{
	for (int i = 0; i < feed->layout->natts; i++)
		if (is_column(feed, i) && present_name(feed, desc, i) == NULL && is_wanted(feed, i))
			return true;
	return false;
}

/* Names can go round: all that change first get names that nothing has. */
static void
rename_columns(Scd2Feed *feed, const char *relation, TupleDesc desc)
{
	for (int pass = 1; pass <= 2; pass++)
		for (int i = 0; i < feed->layout->natts; i++)
		{
			const char *wanted = NameStr(TupleDescAttr(feed->layout, i)->attname);
			const char *present = is_column(feed, i) ? present_name(feed, desc, i) : NULL;
			char	   *between = psprintf("_scd2_renamed_%d", i);

			if (present == NULL || strcmp(present, wanted) == 0)
				continue;
			alter(psprintf("ALTER TABLE %s RENAME COLUMN %s TO %s", relation,
						   quote_identifier(pass == 1 ? present : between), quote_identifier(pass == 1 ? between : wanted)));
		}
}

/*
 * What rows from before a column came have in it. The column may have got other types since: the
 * text of the value is what they make of it, too.
 */
static char *
missing_text(Scd2Feed *feed, int i)
{
	Oid			output;
	bool		is_varlena;

	while (!feed->columns[i].has_missing && feed->columns[i].replaces >= 0)
		i = feed->columns[i].replaces;
	if (!feed->columns[i].has_missing)
		return NULL;
	getTypeOutputInfo(TupleDescAttr(feed->layout, i)->atttypid, &output, &is_varlena);
	return OidOutputFunctionCall(output, feed->columns[i].missing);
}

static void
add_column(Scd2Feed *feed, const char *relation, int i)
{
	Form_pg_attribute att = TupleDescAttr(feed->layout, i);
	const char *name = quote_identifier(NameStr(att->attname));
	char	   *missing = missing_text(feed, i);

	if (missing == NULL)
	{
		alter(psprintf("ALTER TABLE %s ADD COLUMN %s %s", relation, name, type_sql(att)));
		return;
	}
	alter(psprintf("ALTER TABLE %s ADD COLUMN %s %s DEFAULT %s::%s", relation, name, type_sql(att),
				   quote_literal_cstr(missing),
				   scd2_fixed_type_name(att->atttypid, att->atttypmod)));
	alter(psprintf("ALTER TABLE %s ALTER COLUMN %s DROP DEFAULT", relation, name));
}

/* Types and new columns, after the renaming; "desc" is from before it. */
static void
change_columns(Scd2Feed *feed, const char *relation, TupleDesc desc)
{
	for (int i = 0; i < feed->layout->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(feed->layout, i);
		const char *present = is_column(feed, i) ? present_name(feed, desc, i) : NULL;

		if (!is_column(feed, i) || (present == NULL && !is_wanted(feed, i)))
			continue;
		if (present == NULL)
			add_column(feed, relation, i);
		else if (feed->columns[i].replaces >= 0 && !scd2_column_type_is_gone(att))
			alter(psprintf("ALTER TABLE %s ALTER COLUMN %s TYPE %s", relation, quote_identifier(NameStr(att->attname)), type_sql(att)));
	}
}

/* What the column of the feed had in rows from before it came, it has under any number of the source's. */
static void
write_column(Scd2Feed *feed, int16 source_attnum, int16 feed_attnum, const char *name, char *missing, const Scd2Column *column)
{
	bool		is_former = column != NULL && column->was != 0;
	Oid			types[] = {INT4OID, INT2OID, INT2OID, TEXTOID, TEXTOID, INT2OID, INT8OID};
	Datum		values[] = {
		Int32GetDatum(feed->feed_id), Int16GetDatum(source_attnum), Int16GetDatum(feed_attnum),
		CStringGetTextDatum(name), missing ? CStringGetTextDatum(missing) : (Datum) 0,
		Int16GetDatum(is_former ? column->was : 0), Int64GetDatum(is_former ? column->until : 0)
	};
	char		nulls[] = {' ', ' ', ' ', ' ', missing ? ' ' : 'n', is_former ? ' ' : 'n', is_former ? ' ' : 'n', '\0'};

	if (SPI_execute_with_args("INSERT INTO scd2_internal.feed_column AS c (feed_id, source_attnum, feed_attnum, name, missing, was, until)"
							  " VALUES ($1, $2, $3, $4::name, coalesce($5, (SELECT p.missing FROM scd2_internal.feed_column AS p WHERE p.feed_id = $1 AND p.feed_attnum = $3 AND $3 <> 0 LIMIT 1)), $6, $7)"
							  " ON CONFLICT (feed_id, source_attnum) DO UPDATE SET feed_attnum = excluded.feed_attnum, name = excluded.name, missing = excluded.missing",
							  7, types, values, nulls, false, 0) != SPI_OK_INSERT)
		elog(ERROR, "could not write scd2_internal.feed_column");
}

/* Has the flows look at the columns, and the definition follow the names of those that stay out. */
static void
tell_of_columns(Scd2Feed *feed)
{
	Oid			types[] = {INT4OID};
	Datum		values[] = {Int32GetDatum(feed->feed_id)};

	if (SPI_execute_with_args("SELECT scd2_internal.columns_changed($1)", 1, types, values, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not call scd2_internal.columns_changed()");
}

/* Writes which column of the feed is which of the source. */
static void
write_columns(Scd2Feed *feed, TupleDesc desc)
{
	ListCell   *lc;

	for (int i = 0; i < feed->layout->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(feed->layout, i);
		int			at = is_column(feed, i) ? scd2_layout_find(desc, NameStr(att->attname)) : -1;

		feed->columns[i].feed_attnum = at + 1;
		if (feed->columns[i].source_attnum == SCD2_FORMER_COLUMN)
			feed->columns[i].source_attnum = FORMER_NUMBERS - (at + 1);
		if (at >= 0 && feed->columns[i].source_attnum != 0)
			write_column(feed, feed->columns[i].source_attnum, at + 1, NameStr(att->attname), missing_text(feed, i), &feed->columns[i]);
	}
	foreach(lc, feed->excluded)
	{
		Scd2Excluded *out = lfirst(lc);

		if (out->source_attnum != 0)
			write_column(feed, out->source_attnum, 0, out->name, NULL, NULL);
	}
	tell_of_columns(feed);
}

/*
 * As whom the feed is altered: its owner, whose expressions can hang on it if it is older than the rule
 * that it has none. Who may not use the schema of his feed cannot alter it.
 */
static Oid
who_alters(Relation rel)
{
	Oid			owner = rel->rd_rel->relowner;

	return scd2_may_use_schema(RelationGetNamespace(rel), owner) ? owner : BOOTSTRAP_SUPERUSERID;
}

/* The relation gets the columns of the layout. */
static void
follow_columns(Scd2Feed *feed, Relation rel)
{
	char	   *relation = scd2_fixed_relation_name(RelationGetRelid(rel));
	TupleDesc	desc = CreateTupleDescCopy(RelationGetDescr(rel));
	Oid			owner = who_alters(rel);
	Scd2Identity self;

	LockRelationOid(RelationGetRelid(rel), AccessShareLock);	/* it keeps its name */
	table_close(rel, RowExclusiveLock);
	SPI_connect();
	scd2_become(owner, &self);
	(void) set_config_option("pg_scd2.own_ddl", "on", PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	rename_columns(feed, relation, desc);
	change_columns(feed, relation, desc);
	scd2_become_self_again(&self);
	rel = table_open(feed->feed_relid, RowExclusiveLock);
	write_columns(feed, RelationGetDescr(rel));
	table_close(rel, NoLock);
	SPI_finish();
}

/* alter_change_feed() may have excluded what the relation lacks since it was looked at. */
static void
look_for_columns(Scd2Feed *feed, Relation rel)
{
	if (!lacks_columns(feed, RelationGetDescr(rel)))
		return;
	scd2_layout_read_exclusions(feed);
	feed->columns_changed |= lacks_columns(feed, RelationGetDescr(rel));
}

/* All locks that writing a feed takes. */
static bool
lock_feed(Scd2Locks *locks, Scd2Feed *feed)
{
	Relation	rel;
	bool		locked = true;

	if (!scd2_take_lock(locks, feed->feed_relid, RowExclusiveLock))
		return false;
	rel = open_feed(feed);
	look_for_columns(feed, rel);
	if (feed->columns_changed)
		locked = scd2_take_locks_of_feed(locks, feed->feed_relid);
	else if (feed->rows != NULL)
		locked = scd2_take_locks_of_table(locks, leaf_for_batch(feed, rel), RowExclusiveLock);
	relation_close(rel, RowExclusiveLock);	/* locked once more by open_feed() */
	return locked;
}

/* Can rows buffered earlier have another value or type in a column? */
static bool
feed_is_mixed(const Scd2Feed *feed, int i)
{
	return feed->columns[i].has_missing || feed->columns[i].replaces >= 0 || feed->columns[i].gone_at != 0;
}

/*
 * Matches the leaf's columns with the layout's, by name. What does not fit was altered by hand: an
 * error for good.
 */
static void
map_leaf(Writer *w)
{
	TupleDesc	desc = RelationGetDescr(w->leaf);
	TupleDesc	layout = w->feed->layout;
	Scd2Misfit	misfit;

	if (!scd2_leaf_fits(w->leaf, &misfit))
		ereport(ERROR, (errcode(misfit.sqlerrcode), errmsg("%s", misfit.what)));

	w->column = palloc(desc->natts * sizeof(int));
	w->as_is = desc->natts == layout->natts;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		int			at = att->attisdropped ? -1 : scd2_layout_find(layout, NameStr(att->attname));

		if (at >= 0 && TupleDescAttr(layout, at)->atttypid != att->atttypid && scd2_column_type_is_gone(TupleDescAttr(layout, at)))
			at = -1;
		if (at >= 0 && TupleDescAttr(layout, at)->atttypid != att->atttypid)
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("column \"%s\" of feed \"%s\" is of type %s, its rows of type %s",
							NameStr(att->attname), RelationGetRelationName(w->leaf),
							format_type_be(att->atttypid),
							format_type_be(TupleDescAttr(layout, at)->atttypid))));
		if (at >= 0 && att->attgenerated != '\0')
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
					 errmsg("column \"%s\" of feed \"%s\" is generated", NameStr(att->attname), RelationGetRelationName(w->leaf))));
		w->column[i] = at;
		w->as_is &= at == i && !feed_is_mixed(w->feed, at);
	}
}

static bool
is_column_of(Relation rel, AttrNumber attnum, const char *name)
{
	return attnum > 0 && strcmp(NameStr(TupleDescAttr(RelationGetDescr(rel), attnum - 1)->attname), name) == 0;
}

/* The least and greatest version and timestamp of ranges of pages, of all rows. */
static bool
is_our_index(Relation leaf, Relation index, const IndexInfo *info)
{
	return index->rd_rel->relam == BRIN_AM_OID && info->ii_NumIndexAttrs == 2 &&
		info->ii_Expressions == NIL && info->ii_Predicate == NIL &&
		is_column_of(leaf, info->ii_IndexAttrNumbers[0], "_commit_version") &&
		is_column_of(leaf, info->ii_IndexAttrNumbers[1], "_commit_timestamp") &&
		index_getprocid(index, 1, BRIN_PROCNUM_OPCINFO) == F_BRIN_MINMAX_OPCINFO &&
		index_getprocid(index, 2, BRIN_PROCNUM_OPCINFO) == F_BRIN_MINMAX_OPCINFO;
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

	w->only_ours = true;
	for (int i = 0; i < w->rri->ri_NumIndices; i++)
		w->only_ours &= is_our_index(w->leaf, w->rri->ri_IndexRelationDescs[i], w->rri->ri_IndexRelationInfo[i]);
}

static Writer *
begin_write(Scd2Feed *feed, Relation leaf)
{
	Writer	   *w = palloc0(sizeof(Writer));

	w->feed = feed;
	w->leaf = leaf;
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

	if (!info->ii_ReadyForInserts)
		return;
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
		if (w->only_ours)
			insert_brin_tuples(w);
		else
			insert_all_index_tuples(w);
	}
	for (int i = 0; i < w->nslots; i++)
		ExecClearTuple(w->slots[i]);
	MemoryContextReset(w->rows_cxt);
	w->nslots = 0;
}

/* A value of a column whose type changed, as the type it has now: one that the same text is of. */
static Datum
convert(Form_pg_attribute from, Form_pg_attribute to, Datum value)
{
	Oid			output;
	Oid			input;
	Oid			ioparam;
	bool		is_varlena;

	getTypeOutputInfo(from->atttypid, &output, &is_varlena);
	getTypeInputInfo(to->atttypid, &input, &ioparam);
	return OidInputFunctionCall(input, OidOutputFunctionCall(output, value), ioparam, to->atttypmod);
}

static bool
is_truncate_row(Datum change_type)
{
	text	   *type = DatumGetTextPP(change_type);

	return VARSIZE_ANY_EXHDR(type) == 8 && memcmp(VARDATA_ANY(type), "truncate", 8) == 0;
}

/* The value of column "at" in a row that has the first "natts" columns of the layout. */
static Datum
row_value(const Scd2Feed *feed, int at, int natts, bool is_truncate, const Datum *values, const bool *isnull, bool *is_null)
{
	int			from = at;

	while (from >= natts && feed->columns[from].replaces >= 0)
		from = feed->columns[from].replaces;
	*is_null = from < natts ? isnull[from] : is_truncate || !feed->columns[from].has_missing;
	if (*is_null)
		return (Datum) 0;
	if (from < natts && from == at)
		return values[from];
	if (from == at)
		return feed->columns[from].missing;
	return convert(TupleDescAttr(feed->layout, from), TupleDescAttr(feed->layout, at), from < natts ? values[from] : feed->columns[from].missing);
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
	int			natts = HeapTupleHeaderGetNatts(row->t_data);
	bool		is_truncate;
	int64		version;
	HeapTuple	formed;

	heap_deform_tuple(row, layout, from, from_isnull);
	version = DatumGetInt64(from[SCD2_META_COMMIT_VERSION]);
	is_truncate = natts < layout->natts && is_truncate_row(from[SCD2_META_CHANGE_TYPE]);
	for (int i = 0; i < desc->natts; i++)
	{
		isnull[i] = true;
		values[i] = w->column[i] < 0 || w->feed->columns[w->column[i]].gone_at == version ? (Datum) 0 :
			row_value(w->feed, w->column[i], natts, is_truncate, from, from_isnull, &isnull[i]);
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
	if (++w->nslots == ROWS_AT_ONCE)
		flush_rows(w);
}

static int64
row_version(Writer *w, HeapTuple row)
{
	bool		isnull;

	return DatumGetInt64(heap_getattr(row, SCD2_META_COMMIT_VERSION + 1, w->feed->layout, &isnull));
}

/*
 * Rows are inserted from where the batch has them: a chunk's before the next is read. Of a version
 * that the feed lacks in part, it gets nothing.
 */
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

static void
write_into(Scd2Feed *feed, Relation rel)
{
	Relation	leaf = table_open(leaf_for_batch(feed, rel), RowExclusiveLock);
	Scd2Identity self;
	Writer	   *w;

	scd2_become(leaf->rd_rel->relowner, &self);		/* whose indexes and checks they are */
	w = begin_write(feed, leaf);
	write_rows(w);
	end_write(w);
	scd2_become_self_again(&self);
}

typedef struct FeedInWork
{
	const Scd2Feed *feed;
	const char *source_name;
} FeedInWork;

static void
say_which_feed(void *arg)
{
	const FeedInWork *in_work = arg;

	errcontext("change data feed of table %s, versions " INT64_FORMAT " to " INT64_FORMAT,
			   in_work->source_name, in_work->feed->first_version, in_work->feed->last_version);
}

/* Raises 55000 if something stands on a feed or the leaf that may not. */
static void
check_bare(Scd2Feed *feed, Oid leaf)
{
	Oid			types[] = {OIDOID, OIDOID};
	Datum		values[] = {ObjectIdGetDatum(feed->feed_relid), ObjectIdGetDatum(leaf)};

	if (feed->looked && feed->leaf_relid == leaf)
		return;
	feed->looked = true;		/* until we are told otherwise, which can be as soon as catalogs are read */
	feed->leaf_relid = leaf;
	SPI_connect();
	if (SPI_execute_with_args("SELECT u.what, u.fix FROM pg_catalog.unnest(ARRAY[$1, $2]) AS r, scd2_internal.unfit_on(r) AS u LIMIT 1",
							  2, types, values, NULL, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not call scd2_internal.unfit_on()");
	if (SPI_processed > 0)
	{
		feed->looked = false;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%s stands on the feed", SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1)),
				 errhint("%s", SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2))));
	}
	SPI_finish();
}

/* The feed relation changed: what stands on it has to be looked at again. */
void
scd2_feed_look_again(Scd2Feed *feed, Oid relid)
{
	if (!OidIsValid(relid) || relid == feed->feed_relid || relid == feed->leaf_relid)
		feed->looked = false;
}

/*
 * Works at a feed. Rows need no locks but those that are tried; whoever changes columns may have to wait for
 * others (rows of catalogs), but not for long.
 */
typedef struct Work
{
	FeedInWork	in_work;
	ErrorContextCallback context;
	int			nestlevel;		/* 0: no setting was changed */
	MemoryContext cxt;
	MemoryContext before;
} Work;

static void
begin_work(Work *work, const Scd2Feed *feed, int patience)
{
	work->cxt = AllocSetContextCreate(CurrentMemoryContext, "pg_scd2 write", ALLOCSET_DEFAULT_SIZES);
	work->before = MemoryContextSwitchTo(work->cxt);
	work->in_work = (FeedInWork){.feed = feed, .source_name = scd2_relation_name(feed->source_relid)};
	work->context = (ErrorContextCallback){.callback = say_which_feed, .arg = &work->in_work, .previous = error_context_stack};
	error_context_stack = &work->context;
	work->nestlevel = 0;
	if (patience == 0 && !feed->columns_changed)
		return;
	work->nestlevel = NewGUCNestLevel();
	(void) set_config_option("lock_timeout", psprintf("%dms", patience == 0 ? PATIENCE : patience),
							 PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

static void
end_work(Work *work)
{
	if (work->nestlevel > 0)
		AtEOXact_GUC(false, work->nestlevel);
	error_context_stack = work->context.previous;
	MemoryContextSwitchTo(work->before);
	MemoryContextDelete(work->cxt);
}

/*
 * Locks all that writing the batch's part of a feed takes, if nobody is in the way; "patience": or
 * leaves the way within so many ms. False: somebody is, and nothing is locked. In a transaction with a
 * snapshot. Raises 42P01 if the feed is gone, 23514 if it has no partition for the rows, 55P03 if
 * patience was in vain.
 */
bool
scd2_feed_lock(Scd2Feed *feed, int patience)
{
	Work		work;
	Scd2Locks	locks = {.feed_id = feed->feed_id, .until = patience == 0 ? 0 : TimestampTzPlusMilliseconds(GetCurrentTimestamp(), patience)};
	bool		locked;

	begin_work(&work, feed, patience);
	locked = lock_feed(&locks, feed);
	if (!locked)
		scd2_give_locks_back(&locks);
	end_work(&work);
	return locked;
}

/*
 * Writes the batch's rows of one feed that scd2_feed_lock() has locked, and has its columns follow. May be
 * called again for the same rows after a failure. Raises what the server raises, and 55000 if something
 * stands on the feed that may not.
 */
void
scd2_feed_write(Scd2Feed *feed)
{
	Work		work;
	Relation	rel;

	begin_work(&work, feed, 0);
	rel = open_feed(feed);
	check_bare(feed, feed->rows != NULL ? leaf_for_batch(feed, rel) : feed->feed_relid);
	if (feed->columns_changed)
	{
		follow_columns(feed, rel);
		rel = open_feed(feed);
	}
	if (feed->rows != NULL)
		write_into(feed, rel);
	table_close(rel, NoLock);
	end_work(&work);
}
