/*
 * flow.c
 *		A flow as the worker has it at hand: definition, layout of its relations, prepared statements.
 *
 * Loaded once and kept from batch to batch: a small batch must not pay for catalog queries. A
 * relcache invalidation of target, feed or leaf marks it stale, and it is loaded again before its
 * next batch, as after a change of the definition.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "access/table.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "partitioning/partdesc.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "compat.h"
#include "flow/erase.h"
#include "flow/flow.h"
#include "flow/relations.h"
#include "flow/rights.h"
#include "flow/statements.h"

/* All loaded flows, for the invalidation callback. */
static List *loaded = NIL;
static bool changed_while_loading = false;	/* some relation */

/* One field of the row that SPI returned, as text; NULL if it is. Lives in the current context. */
static char *
field(const char *name)
{
	return SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc,
						SPI_fnumber(SPI_tuptable->tupdesc, name));
}

static int64
field_int(const char *name, int64 if_null)
{
	char	   *value = field(name);

	return value == NULL ? if_null : strtoll(value, NULL, 10);
}

/* A name[] or text[] of that row as C strings. */
static char **
field_array(const char *name, int *n)
{
	bool		isnull;
	int			attnum = SPI_fnumber(SPI_tuptable->tupdesc, name);
	Datum		value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, attnum, &isnull);
	Datum	   *elements;
	char	  **result;

	Assert(!isnull);
	deconstruct_array(DatumGetArrayTypeP(value), TEXTOID, -1, false, TYPALIGN_INT,
					  &elements, NULL, n);
	result = palloc0((*n + 1) * sizeof(char *));
	for (int i = 0; i < *n; i++)
		result[i] = TextDatumGetCString(elements[i]);
	return result;
}

static const char definition_query[] =
	"SELECT f.name, f.definition, f.author::oid AS author, f.trusted, f.scd_type, f.feed_id, f.starting_version, scd2._foreign_until() AS foreign_until, f.initial_start, f.start_column, f.end_column, f.current_column,"
	"       f.keys::text[] AS keys, f.columns::text[] AS columns, f.tracked::text[] AS tracked, f.settings,"
	"       f.input, f.sequence_by, f.sequence_column, f.delete_sequence_by, f.end_sequence_by, f.apply_as_deletes, f.apply_as_truncates, f.source_filter, f.on_invalid_event, f.max_lateness, f.purged_before, f.once, f.absent::text[] AS absent, f.ignores_null::text[] AS ignores_null,"
	"       f.scope, f.delete_absent, f.max_delete_fraction, f.version_query, f.once OR f.refresh_interval > '0' AS takes_snapshots, pg_catalog.to_regtype(f.sequence_type)::oid AS sequence_type, f.memory_name IS NOT NULL AS remembers,"
	"       EXISTS (SELECT FROM scd2_internal.flow AS o WHERE o.target_relid = f.target_relid AND o.flow_id <> f.flow_id) AS others, f.closes,"
	"       EXISTS (SELECT FROM scd2_internal.flow AS o WHERE o.target_relid = f.target_relid AND o.flow_id <> f.flow_id)"
	"           OR EXISTS (SELECT FROM scd2_internal.mark AS k WHERE k.target_relid = f.target_relid) AS shared, coalesce(e.except_columns, '{}')::text AS kept_out,"
	"       m.oid AS memory, quote_ident(mn.nspname) || '.' || quote_ident(m.relname) AS memory_sql, format('%I.%I', f.target_schema, coalesce(f.memory_name, f.target_name)) AS memory_was,"
	"       t.oid AS target, s.oid AS source, c.oid AS feed, scd2_internal.source_alias(f) AS source_alias, s.relkind = 'p' AS source_partitioned,"
	"       (SELECT string_agg(format(', NULL::%s AS %I', d.type, d.name), '') FROM scd2_internal.followed_columns(f.feed_id) AS d WHERE d.dropped) AS gone,"
	"       quote_ident(tn.nspname) || '.' || quote_ident(t.relname) AS target_sql, quote_ident(sn.nspname) || '.' || quote_ident(s.relname) AS source_sql,"
	"       quote_ident(cn.nspname) || '.' || quote_ident(c.relname) AS feed_sql,"
	"       format('%I.%I', f.target_schema, f.target_name) AS target_was,"
	"       NOT EXISTS (SELECT FROM pg_catalog.pg_index AS i"
	"           WHERE i.indrelid = f.source_relid AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL"
	"             AND NOT EXISTS (SELECT FROM unnest(i.indkey[0:i.indnkeyatts - 1]) AS k JOIN pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k"
	"                             WHERE a.attname <> ALL (f.keys))) AS all_images"
	" FROM scd2_internal.flow AS f"
	" LEFT JOIN scd2_internal.feed AS e USING (feed_id)"
	" LEFT JOIN pg_catalog.pg_class AS t ON t.oid = f.target_relid LEFT JOIN pg_catalog.pg_namespace AS tn ON tn.oid = t.relnamespace"
	" LEFT JOIN pg_catalog.pg_class AS m ON m.oid = f.memory_relid LEFT JOIN pg_catalog.pg_namespace AS mn ON mn.oid = m.relnamespace"
	" LEFT JOIN pg_catalog.pg_class AS s ON s.oid = f.source_relid LEFT JOIN pg_catalog.pg_namespace AS sn ON sn.oid = s.relnamespace"
	" LEFT JOIN pg_catalog.pg_class AS c ON c.oid = e.feed_relid LEFT JOIN pg_catalog.pg_namespace AS cn ON cn.oid = c.relnamespace"
	" WHERE f.flow_id = $1";

/* Which of the columns are in a list of names. */
static bool *
read_column_set(Scd2Flow *flow, const char *name)
{
	int			n;
	char	  **names = field_array(name, &n);
	bool	   *set = palloc0(flow->shape.ncolumns * sizeof(bool));

	for (int i = 0; i < flow->shape.ncolumns; i++)
		for (int k = 0; k < n; k++)
			set[i] |= strcmp(names[k], flow->columns[i]) == 0;
	return set;
}

/* Columns: which there are, and what they are to the flow. */
static void
read_columns(Scd2Flow *flow)
{
	char	  **keys;
	bool		ignores = false;
	char	   *sequence_column = flow->scd_type == 1 ? field("sequence_column") : NULL;

	flow->columns = field_array("columns", &flow->shape.ncolumns);
	keys = field_array("keys", &flow->nkeys);
	flow->sequence_column = -1;
	for (int i = 0; sequence_column != NULL && i < flow->shape.ncolumns; i++)
		if (strcmp(flow->columns[i], sequence_column) == 0)
			flow->sequence_column = i;
	flow->absent = read_column_set(flow, "absent");
	flow->shape.tracked = read_column_set(flow, "tracked");
	flow->shape.ignores_null = read_column_set(flow, "ignores_null");
	flow->keys = palloc0(flow->nkeys * sizeof(int));
	flow->shape.is_key = palloc0(flow->shape.ncolumns * sizeof(bool));
	for (int i = 0; i < flow->shape.ncolumns; i++)
	{
		for (int k = 0; k < flow->nkeys; k++)
			if (strcmp(keys[k], flow->columns[i]) == 0)
			{
				flow->keys[k] = i;
				flow->shape.is_key[i] = true;
			}
		ignores |= flow->shape.ignores_null[i];
		flow->ignores_untracked |= flow->shape.ignores_null[i] && !flow->shape.tracked[i];
	}
	if (!ignores)
		flow->shape.ignores_null = NULL;
}

static bool
field_is_true(const char *name)
{
	return strcmp(field(name), "t") == 0;
}

static Scd2Input
input_of(const char *name)
{
	static const char *const names[] = {"net", "changes", "events", "snapshots", "append"};

	for (int i = 0; i < lengthof(names); i++)
		if (strcmp(names[i], name) == 0)
			return (Scd2Input) i;
	elog(ERROR, "unknown input \"%s\"", name);
}

static void
read_snapshot_definition(Scd2Flow *flow)
{
	flow->scope = field("scope");
	flow->delete_absent = field_is_true("delete_absent");
	flow->max_delete_fraction = field("max_delete_fraction");
	flow->version_query = field("version_query");
	flow->takes_snapshots = field_is_true("takes_snapshots");
}

/* What of the rows is an event, and which. */
static void
read_events_definition(Scd2Flow *flow)
{
	flow->sequence_by = field("sequence_by");
	flow->delete_sequence_by = field("delete_sequence_by");
	flow->end_sequence_by = field("end_sequence_by");
	flow->apply_as_deletes = field("apply_as_deletes");
	flow->apply_as_truncates = field("apply_as_truncates");
	flow->source_filter = field("source_filter");
	flow->max_lateness = field("max_lateness");
	flow->purged_before = field("purged_before");
	flow->quarantine = strcmp(field("on_invalid_event"), "quarantine") == 0;
	flow->kept_out = field("kept_out");
}

/* Which relations it reads and writes, under their names. */
static void
read_relations(Scd2Flow *flow)
{
	flow->target = field_int("target", InvalidOid);
	flow->source = field_int("source", InvalidOid);
	flow->feed = flow->feedless ? flow->source : field_int("feed", InvalidOid);
	flow->memory = field_int("memory", InvalidOid);
	if (!OidIsValid(flow->target))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
						errmsg("target %s of flow \"%s\" does not exist", field("target_was"), flow->name)));
	if (!OidIsValid(flow->feed))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
						errmsg("%s of flow \"%s\" does not exist", flow->feedless ? "source" : "feed", flow->name)));
	if (field_is_true("remembers") && !OidIsValid(flow->memory))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
						errmsg("memory %s of flow \"%s\" does not exist", field("memory_was"), flow->name),
						errhint("SELECT scd2.full_refresh(%s); -- makes it anew", quote_literal_cstr(field("target_sql")))));
	flow->target_sql = field("target_sql");
	flow->source_sql = field("source_sql");
	flow->source_alias = field("source_alias");
	flow->memory_sql = field("memory_sql");
	flow->feed_sql = flow->feedless ? flow->source_sql : field("feed_sql");
	flow->source_partitioned = strcmp(field("source_partitioned") ? field("source_partitioned") : "f", "t") == 0;
}

/* Reads the definition into a new flow. */
static void
read_definition(Scd2Flow *flow)
{
	Oid			argtypes[] = {INT4OID};
	Datum		args[] = {Int32GetDatum(flow->flow_id)};
	char	  **settings;
	int			nsettings;

	if (SPI_execute_with_args(definition_query, 1, argtypes, args, NULL, true, 1) != SPI_OK_SELECT ||
		SPI_processed != 1)
		elog(ERROR, "flow %d does not exist", flow->flow_id);
	MemoryContextSwitchTo(flow->cxt);	/* SPI left its own */
	flow->name = field("name");
	flow->activity = psprintf("applying flow \"%s\"", flow->name);
	flow->input = input_of(field("input"));
	flow->shared = field_is_true("shared");
	flow->others = field_is_true("others");
	flow->closes = field_is_true("closes");
	flow->once = field_is_true("once");
	flow->feedless = flow->once || flow->input == SCD2_SNAPSHOTS;
	read_relations(flow);
	flow->definition = field_int("definition", 0);
	flow->author = field_int("author", InvalidOid);
	flow->trusted = field_is_true("trusted");
	flow->scd_type = field_int("scd_type", 0);
	flow->feed_id = field_int("feed_id", 0);
	read_events_definition(flow);
	flow->starting_version = field_int("starting_version", -1);
	flow->foreign_until = field("foreign_until");
	flow->initial_start = field("initial_start");
	flow->gone = field("gone") ? field("gone") : pstrdup("");
	flow->all_images = strcmp(field("all_images"), "t") == 0;
	flow->start_column = field("start_column");
	flow->end_column = field("end_column");
	flow->current_column = field("current_column");
	flow->sequence_type = field_int("sequence_type", InvalidOid);
	if (!OidIsValid(flow->sequence_type))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("type of the sequence of flow \"%s\" does not exist", flow->name)));
	if (flow->input == SCD2_SNAPSHOTS)
		read_snapshot_definition(flow);
	read_columns(flow);
	settings = field_array("settings", &nsettings);
	for (int i = 0; i < nsettings; i++)
		flow->settings = lappend(flow->settings, settings[i]);
}

/* The partition that new versions go into: the one without upper bound, last in bound order. */
static void
find_leaf(Scd2Flow *flow)
{
	Relation	feed = table_open(flow->feed, AccessShareLock);
	Relation	leaf;

	if (!flow->feedless)
		scd2_check_feed(flow, feed);
	if (!flow->feedless && feed->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
	{
		PartitionDesc parts = RelationGetPartitionDesc(feed, true);

		if (parts->nparts > 0)
		{
			flow->leaf = parts->oids[parts->nparts - 1];
			flow->leaf_sql = quote_qualified_identifier(get_namespace_name(get_rel_namespace(flow->leaf)),
														get_rel_name(flow->leaf));
			leaf = table_open(flow->leaf, AccessShareLock);
			scd2_check_leaf(flow, leaf);
			table_close(leaf, AccessShareLock);
		}
	}
	table_close(feed, AccessShareLock);
}

static AttrNumber
find_attnum(TupleDesc desc, const char *column)
{
	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped &&
			strcmp(NameStr(TupleDescAttr(desc, i)->attname), column) == 0)
			return i + 1;
	return 0;
}

/* The column that says of which type a column of the flow is. */
static Form_pg_attribute
typing_column(Scd2Flow *flow, int i, TupleDesc target, TupleDesc feed)
{
	AttrNumber	attnum = find_attnum(flow->absent[i] ? target : feed, flow->columns[i]);

	if (attnum == 0)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
						flow->absent[i] ? errmsg("column \"%s\" of target %s does not exist", flow->columns[i], flow->target_sql) :
						errmsg("column \"%s\" of %s %s does not exist", flow->columns[i], flow->feedless ? "source" : "feed", flow->feed_sql)));
	return TupleDescAttr(flow->absent[i] ? target : feed, attnum - 1);
}

/* Types of the columns: as the feed has them, or, of those that only others bring, the target; domains as their base types. */
static void
read_types(Scd2Flow *flow, TupleDesc target, TupleDesc feed)
{
	Scd2Shape  *shape = &flow->shape;
	int			n = shape->ncolumns;

	shape->typlen = palloc0(n * sizeof(int16));
	shape->typbyval = palloc0(n * sizeof(bool));
	shape->typalign = palloc0(n * sizeof(char));
	flow->store_desc[SCD2_INSERTS] = CreateTemplateTupleDesc(n + 2);
	flow->store_desc[SCD2_REWRITES] = CreateTemplateTupleDesc(n + 2);
	for (int i = 0; i < n; i++)
	{
		Form_pg_attribute att = typing_column(flow, i, target, feed);
		int32		typmod = att->atttypmod;
		Oid			type = getBaseTypeAndTypmod(att->atttypid, &typmod);
		char	   *name = psprintf("c%d", i + 1);

		shape->typlen[i] = att->attlen;
		shape->typbyval[i] = att->attbyval;
		shape->typalign[i] = att->attalign;
		TupleDescInitEntry(flow->store_desc[SCD2_INSERTS], i + 1, name, type, typmod, 0);
		TupleDescInitEntryCollation(flow->store_desc[SCD2_INSERTS], i + 1, att->attcollation);
		TupleDescInitEntry(flow->store_desc[SCD2_REWRITES], i + 3, name, type, typmod, 0);
		TupleDescInitEntryCollation(flow->store_desc[SCD2_REWRITES], i + 3, att->attcollation);
	}
}

/* That of sequences is the collation that a column has; where there is none, that of the type. */
static void
read_sequence_collation(Scd2Flow *flow, TupleDesc desc, const char *column)
{
	AttrNumber	attnum = find_attnum(desc, column);

	flow->sequence_collation = attnum > 0 ? TupleDescAttr(desc, attnum - 1)->attcollation : get_typcollation(flow->sequence_type);
}

static void
find_target_columns(Scd2Flow *flow, TupleDesc desc)
{
	for (int i = 0; i < flow->shape.ncolumns; i++)
		flow->attnums[i] = find_attnum(desc, flow->columns[i]);
	if (flow->scd_type != 2)
		return;
	flow->start_attnum = find_attnum(desc, flow->start_column);
	flow->end_attnum = find_attnum(desc, flow->end_column);
	if (flow->current_column != NULL)
		flow->current_attnum = find_attnum(desc, flow->current_column);
}

/* The target, compared with the feed. */
static void
read_layout(Scd2Flow *flow)
{
	Relation	target = table_open(flow->target, AccessShareLock);
	Relation	feed = table_open(flow->feed, AccessShareLock);

	flow->attnums = palloc0(flow->shape.ncolumns * sizeof(AttrNumber));
	read_types(flow, RelationGetDescr(target), RelationGetDescr(feed));
	if (flow->scd_type == 2)
		read_sequence_collation(flow, RelationGetDescr(target), flow->start_column);
	scd2_believe_target(flow);
	scd2_check_target(flow, target);
	find_target_columns(flow, RelationGetDescr(target));
	scd2_believe_target(flow);
	flow->target_index = scd2_primary_key_index(target);
	get_typlenbyvalalign(flow->sequence_type, &flow->sequence_typlen, &flow->sequence_typbyval, &flow->sequence_typalign);
	table_close(feed, AccessShareLock);
	table_close(target, AccessShareLock);
}

static void
find_memory_columns(Scd2Flow *flow, TupleDesc desc)
{
	for (int i = 0; i < flow->shape.ncolumns; i++)
		flow->memory_attnums[i] = scd2_memory_has_column(flow, i) ? find_attnum(desc, flow->columns[i]) : 0;
	flow->memory_sequence = find_attnum(desc, "_sequence");
	flow->memory_kind = find_attnum(desc, "_kind");
	flow->memory_version = find_attnum(desc, "_version");
	flow->memory_ordinal = find_attnum(desc, "_ordinal");
	if (flow->scd_type == 1 && flow->shape.ignores_null != NULL)
		flow->memory_sequences = find_attnum(desc, "_sequences");
}

/* The memory, if there is one, compared with the target. */
static void
read_memory_layout(Scd2Flow *flow)
{
	Relation	memory;

	if (!OidIsValid(flow->memory))
	{
		if (flow->scd_type != 2)
			flow->sequence_collation = get_typcollation(flow->sequence_type);
		return;
	}
	memory = table_open(flow->memory, AccessShareLock);
	flow->memory_attnums = palloc0(flow->shape.ncolumns * sizeof(AttrNumber));
	if (flow->scd_type != 2)
		read_sequence_collation(flow, RelationGetDescr(memory), "_sequence");
	scd2_believe_memory(flow);
	scd2_check_memory(flow, memory);
	find_memory_columns(flow, RelationGetDescr(memory));
	scd2_believe_memory(flow);
	flow->memory_index = scd2_primary_key_index(memory);
	table_close(memory, AccessShareLock);
}

static void
init_sequence_entry(Scd2Flow *flow, Scd2Store store, int attnum, const char *name)
{
	TupleDescInitEntry(flow->store_desc[store], attnum, name, flow->sequence_type, -1, 0);
	TupleDescInitEntryCollation(flow->store_desc[store], attnum, flow->sequence_collation);
}

static void
make_store_descs(Scd2Flow *flow)
{
	int			n = flow->shape.ncolumns;

	init_sequence_entry(flow, SCD2_INSERTS, n + 1, "starts");
	init_sequence_entry(flow, SCD2_INSERTS, n + 2, "ends");
	TupleDescInitEntry(flow->store_desc[SCD2_REWRITES], 1, "tid", TIDOID, -1, 0);
	init_sequence_entry(flow, SCD2_REWRITES, 2, "ends");
	flow->store_desc[SCD2_CLOSES] = CreateTemplateTupleDesc(2);
	TupleDescInitEntry(flow->store_desc[SCD2_CLOSES], 1, "tid", TIDOID, -1, 0);
	init_sequence_entry(flow, SCD2_CLOSES, 2, "ends");
	flow->store_desc[SCD2_DELETES] = CreateTemplateTupleDesc(1);
	TupleDescInitEntry(flow->store_desc[SCD2_DELETES], 1, "tid", TIDOID, -1, 0);
	flow->store_desc[SCD2_TOUCHED] = CreateTupleDescCopy(flow->store_desc[SCD2_DELETES]);
}

/* How sequences compare: by the default order of their type. */
static void
read_sequence_order(Scd2Flow *flow)
{
	TypeCacheEntry *type = lookup_type_cache(flow->sequence_type, TYPECACHE_CMP_PROC | TYPECACHE_BTREE_OPFAMILY);
	Oid			intype = type->btree_opintype;

	fmgr_info_cxt(type->cmp_proc, &flow->sequence_compare, flow->cxt);
	fmgr_info_cxt(get_opcode(get_opfamily_member(type->btree_opf, intype, intype, BTLessStrategyNumber)), &flow->sequence_less, flow->cxt);
	fmgr_info_cxt(get_opcode(get_opfamily_member(type->btree_opf, intype, intype, BTGreaterEqualStrategyNumber)), &flow->sequence_not_less, flow->cxt);
}

/* How keys compare: as the target's primary key orders them. */
static void
read_key_order(Scd2Flow *flow)
{
	Relation	target = table_open(flow->target, AccessShareLock);
	Relation	index = OidIsValid(flow->target_index) ? index_open(flow->target_index, AccessShareLock) : NULL;
	int			n = flow->nkeys;

	scd2_check_target_index(flow, target, index);
	flow->key_compare = palloc0(n * sizeof(FmgrInfo));
	flow->key_equal = palloc0(n * sizeof(FmgrInfo));
	flow->key_less = palloc0(n * sizeof(Oid));
	flow->key_collation = palloc0(n * sizeof(Oid));
	flow->key_operator = palloc0(n * sizeof(Oid));
	flow->key_opfamily = palloc0(n * sizeof(Oid));
	flow->key_opcintype = palloc0(n * sizeof(Oid));
	for (int i = 0; i < n; i++)
	{
		Oid			family = flow->key_opfamily[i] = index->rd_opfamily[i];
		Oid			type = flow->key_opcintype[i] = index->rd_opcintype[i];

		fmgr_info_copy(&flow->key_compare[i], index_getprocinfo(index, i + 1, BTORDER_PROC), flow->cxt);
		flow->key_operator[i] = get_opfamily_member(family, type, type, BTEqualStrategyNumber);
		fmgr_info_cxt(get_opcode(flow->key_operator[i]), &flow->key_equal[i], flow->cxt);
		flow->key_less[i] = get_opfamily_member(family, type, type, BTLessStrategyNumber);
		flow->key_collation[i] = index->rd_indcollation[i];
	}
	index_close(index, AccessShareLock);
	table_close(target, AccessShareLock);
}

/* The memory must order them so, too. */
static void
check_memory_order(Scd2Flow *flow)
{
	Relation	memory;
	Relation	index;

	if (!OidIsValid(flow->memory))
		return;
	memory = table_open(flow->memory, AccessShareLock);
	index = OidIsValid(flow->memory_index) ? index_open(flow->memory_index, AccessShareLock) : NULL;
	scd2_check_memory_index(flow, memory, index);
	index_close(index, AccessShareLock);
	table_close(memory, AccessShareLock);
}

/* Those of skip_version(). */
static void
read_skips(Scd2Flow *flow)
{
	Oid			types[] = {INT4OID};
	Datum		args[] = {Int32GetDatum(flow->flow_id)};
	bool		isnull;

	if (SPI_execute_with_args("SELECT version FROM scd2_internal.skipped_version WHERE flow_id = $1 ORDER BY version", 1, types, args, NULL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read scd2_internal.skipped_version");
	MemoryContextSwitchTo(flow->cxt);	/* SPI left its own */
	flow->nskips = SPI_processed;
	flow->skips = palloc((flow->nskips + 1) * sizeof(int64));
	for (int i = 0; i < flow->nskips; i++)
		flow->skips[i] = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull));
}

/*
 * Loads a flow's definition and layout; within a transaction, connected to SPI. Raises what does
 * not fit any more.
 */
Scd2Flow *
scd2_flow_load(int flow_id)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "pg_scd2 flow", ALLOCSET_SMALL_SIZES);
	MemoryContext before = MemoryContextSwitchTo(cxt);
	Scd2Flow   *flow = palloc0(sizeof(Scd2Flow));

	flow->cxt = cxt;
	flow->flow_id = flow_id;
	flow->at_version = -1;
	AcceptInvalidationMessages();
	changed_while_loading = false;
	read_definition(flow);
	scd2_flow_check_author(flow);
	find_leaf(flow);
	read_layout(flow);
	read_memory_layout(flow);
	read_sequence_order(flow);
	make_store_descs(flow);
	if (flow->input != SCD2_APPEND)
		read_key_order(flow);
	check_memory_order(flow);
	flow->erased = scd2_erased_load(flow);
	read_skips(flow);

	/* Complete: from here on it stays. What changed meanwhile has not been told of one that is not in the list. */
	flow->stale = changed_while_loading;
	MemoryContextSetParent(cxt, TopMemoryContext);
	MemoryContextSwitchTo(TopMemoryContext);
	loaded = lappend(loaded, flow);
	MemoryContextSwitchTo(before);
	return flow;
}

void
scd2_flow_free(Scd2Flow *flow)
{
	loaded = list_delete_ptr(loaded, flow);
	for (int i = 0; i < SCD2_N_STATEMENTS; i++)
		if (flow->plans[i] != NULL)
			SPI_freeplan(flow->plans[i]);
	MemoryContextDelete(flow->cxt);
}

static void
relation_changed(Datum arg, Oid relid)
{
	ListCell   *cell;

	changed_while_loading = true;
	foreach(cell, loaded)
	{
		Scd2Flow   *flow = lfirst(cell);

		if (relid == InvalidOid || relid == flow->target || relid == flow->feed ||
			relid == flow->leaf || relid == flow->source || relid == flow->target_index || relid == flow->memory || relid == flow->memory_index)
			flow->stale = true;
	}
}

/*
 * Called once by a worker, before it loads flows.
 */
void
scd2_flow_watch(void)
{
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
}

/*
 * A statement of the flow, prepared and kept. Within SPI; what it reads from stores must be registered.
 */
SPIPlanPtr
scd2_flow_plan(Scd2Flow *flow, Scd2Statement which)
{
	if (flow->plans[which] == NULL)
	{
		Oid			argtypes[SCD2_MOST_ARGUMENTS];
		int			nargs;
		char	   *sql = scd2_statement_sql(flow, which, argtypes, &nargs);
		SPIPlanPtr	plan = SPI_prepare(sql, nargs, argtypes);

		if (plan == NULL)
			elog(ERROR, "could not prepare \"%s\": %s", sql, SPI_result_code_string(SPI_result));
		SPI_keepplan(plan);
		flow->plans[which] = plan;
	}
	return flow->plans[which];
}

/*
 * Settings that expressions were written for ("name=value"). The caller opens and ends a nest level.
 */
void
scd2_use_written_settings(List *settings)
{
	ListCell   *cell;

	foreach(cell, settings)
	{
		char	   *name = pstrdup(lfirst(cell));
		char	   *value = strchr(name, '=');

		*value++ = '\0';
		(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	}
}
