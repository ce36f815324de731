/*
 * relations.c
 *		A flow's relations, compared with what it believes of them (see believed.c).
 *
 *   feed        has the metadata columns in front, as we made it; its other columns say of which types rows are
 *   target      has the flow's columns with the types that the feed has, and its interval with that of the sequence
 *   memory      has the target's types, and columns of its own
 *   indexes     the primary keys of both are btrees over the keys in the flow's order, then (type 2) the
 *               sequence, each ascending in the same order of the same values: entries are read off their pages
 *   statements  that read bring the flow's columns with those types, and around them what we wrote into them
 *
 * All of it is compared when the flow is loaded, relations again under the locks under which they are
 * read and written, which keep them as they are until the transaction ends.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "access/relation.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_type_d.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "believed.h"
#include "compat.h"
#include "feed/metadata.h"
#include "flow/relations.h"

static Form_pg_attribute
flow_column(const Scd2Flow *flow, int i)
{
	return TupleDescAttr(flow->store_desc[SCD2_INSERTS], i);
}

static Scd2BelievedColumn
sequence_column(const Scd2Flow *flow, const char *name, AttrNumber attnum, bool not_null)
{
	return (Scd2BelievedColumn){
		.name = name, .attnum = attnum, .type = flow->sequence_type, .typmod = -1, .collation = flow->sequence_collation, .not_null = not_null};
}

/*
 * What the target must be, from the types of the flow's columns and of its sequence. Attribute numbers
 * count once they are known.
 */
void
scd2_believe_target(Scd2Flow *flow)
{
	Scd2BelievedColumn *columns = palloc0((flow->shape.ncolumns + 3) * sizeof(Scd2BelievedColumn));
	int			n = 0;

	for (; n < flow->shape.ncolumns; n++)
		columns[n] = (Scd2BelievedColumn){
			.name = flow->columns[n],
			.attnum = flow->attnums[n],
			.type = flow_column(flow, n)->atttypid,
			.typmod = flow_column(flow, n)->atttypmod,
			.collation = flow->shape.is_key[n] ? flow_column(flow, n)->attcollation : InvalidOid,
			.not_null = flow->shape.is_key[n]};
	if (flow->scd_type == 2 && flow->input != SCD2_APPEND)
	{
		columns[n++] = sequence_column(flow, flow->start_column, flow->start_attnum, true);
		columns[n++] = sequence_column(flow, flow->end_column, flow->end_attnum, false);
		if (flow->current_column != NULL)
			columns[n++] = (Scd2BelievedColumn){.name = flow->current_column, .attnum = flow->current_attnum, .type = BOOLOID, .typmod = -1};
	}
	flow->target_believed = columns;
	flow->ntarget_believed = n;
}

/*
 * Does the memory have a column of the flow? Of type 2 what rows of the target do not show (where NULL
 * says nothing, all), else keys alone.
 */
bool
scd2_memory_has_column(const Scd2Flow *flow, int column)
{
	return flow->shape.is_key[column] ||
		(flow->scd_type == 2 && (flow->shape.ignores_null != NULL || !flow->shape.tracked[column]));
}

/*
 * What the memory must be; see scd2_believe_target().
 */
void
scd2_believe_memory(Scd2Flow *flow)
{
	Scd2BelievedColumn *columns = palloc0((flow->shape.ncolumns + 5) * sizeof(Scd2BelievedColumn));
	int			n = 0;

	for (int i = 0; i < flow->shape.ncolumns; i++)
	{
		if (!scd2_memory_has_column(flow, i))
			continue;
		columns[n] = flow->target_believed[i];
		columns[n++].attnum = flow->memory_attnums[i];
	}
	columns[n++] = sequence_column(flow, "_sequence", flow->memory_sequence, true);
	columns[n++] = (Scd2BelievedColumn){.name = "_kind", .attnum = flow->memory_kind, .type = CHAROID, .typmod = -1, .not_null = true};
	columns[n++] = (Scd2BelievedColumn){.name = "_version", .attnum = flow->memory_version, .type = INT8OID, .typmod = -1};
	columns[n++] = (Scd2BelievedColumn){.name = "_ordinal", .attnum = flow->memory_ordinal, .type = INT4OID, .typmod = -1};
	if (flow->scd_type == 1 && flow->shape.ignores_null != NULL)
		columns[n++] = (Scd2BelievedColumn){
			.name = "_sequences", .attnum = flow->memory_sequences, .type = get_array_type(flow->sequence_type), .typmod = -1};
	flow->memory_believed = columns;
	flow->nmemory_believed = n;
}

static char *
target_label(const Scd2Flow *flow)
{
	return psprintf("target %s", flow->target_sql);
}

static char *
memory_label(const Scd2Flow *flow)
{
	return psprintf("memory %s", flow->memory_sql);
}

static void
raise_misfit(Scd2Flow *flow, Relation rel, const Scd2Misfit *misfit)
{
	char	   *hint = misfit->remedy == NULL ? NULL : psprintf("%s; SELECT scd2.resume_flow(%s);", misfit->remedy, quote_literal_cstr(flow->name));

	ereport(ERROR, (errcode(misfit->sqlerrcode), errmsg("%s", misfit->what), errtable(rel), hint == NULL ? 0 : errhint("%s", hint)));
}

/* What is remembered can be made again from the sources. */
static void
raise_memory_misfit(Scd2Flow *flow, Relation rel, int sqlerrcode, const char *what)
{
	ereport(ERROR, (errcode(sqlerrcode), errmsg("%s", what), errtable(rel),
					errhint("SELECT scd2.full_refresh(%s); -- makes it anew", quote_literal_cstr(flow->target_sql))));
}

/*
 * Raises unless the target, which is open and locked, is as it was.
 */
void
scd2_check_target(Scd2Flow *flow, Relation target)
{
	char	   *label = target_label(flow);
	Scd2Misfit	misfit;

	if (!scd2_table_fits(target, label, 0, &misfit) ||
		!scd2_columns_fit(target, label, flow->target_believed, flow->ntarget_believed, &misfit))
		raise_misfit(flow, target, &misfit);
	pfree(label);
}

/*
 * The same of the memory.
 */
void
scd2_check_memory(Scd2Flow *flow, Relation memory)
{
	char	   *label = memory_label(flow);
	Scd2Misfit	misfit;

	if (!scd2_table_fits(memory, label, SCD2_BELIEVED_HEAP | SCD2_BELIEVED_STANDALONE, &misfit) ||
		!scd2_columns_fit(memory, label, flow->memory_believed, flow->nmemory_believed, &misfit))
		raise_memory_misfit(flow, memory, misfit.sqlerrcode, misfit.what);
	pfree(label);
}

/*
 * The same of the metadata of a feed
 */
void
scd2_check_feed(Scd2Flow *flow, Relation feed)
{
	Scd2Misfit	misfit;

	if (!scd2_feed_fits(feed, &misfit))
		raise_misfit(flow, feed, &misfit);
}

/*
 * and of its last partition, whose pages are looked at.
 */
void
scd2_check_leaf(Scd2Flow *flow, Relation leaf)
{
	Scd2Misfit	misfit;

	if (!scd2_leaf_fits(leaf, &misfit))
		raise_misfit(flow, leaf, &misfit);
}

/* ---- indexes ---- */

/* Is it a btree of so many columns that takes part in everything? */
static bool
is_key_index(Relation index, int ncolumns)
{
	Form_pg_index form = index->rd_index;

	return index->rd_rel->relam == BTREE_AM_OID && IndexRelationGetNumberOfKeyAttributes(index) == ncolumns &&
		form->indisunique && form->indimmediate && form->indisvalid && form->indisready && form->indislive &&
		RelationGetIndexExpressions(index) == NIL && RelationGetIndexPredicate(index) == NIL;
}

static bool
orders_sequence(const Scd2Flow *flow, Relation index, AttrNumber attnum)
{
	int			i = flow->nkeys;

	return index->rd_index->indkey.values[i] == attnum && index->rd_indoption[i] == 0 &&
		index->rd_indcollation[i] == flow->sequence_collation &&
		index->rd_opfamily[i] == lookup_type_cache(flow->sequence_type, TYPECACHE_BTREE_OPFAMILY)->btree_opf;
}

static char *
key_columns(const Scd2Flow *flow, const char *sequence)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int k = 0; k < flow->nkeys; k++)
		appendStringInfo(&list, "%s%s", k > 0 ? ", " : "", quote_identifier(flow->columns[flow->keys[k]]));
	if (flow->scd_type == 2)
		appendStringInfo(&list, ", %s", quote_identifier(sequence));
	return list.data;
}

/* "index": NULL if the target has no primary key. */
static void
raise_target_index(Scd2Flow *flow, Relation target, Relation index)
{
	ereport(ERROR, (errcode(ERRCODE_INVALID_TABLE_DEFINITION), errtable(target),
					index == NULL ? errmsg("target %s has no primary key", flow->target_sql) :
					errmsg("primary key of target %s is not that of the flow", flow->target_sql),
					errhint("ALTER TABLE %s %sADD PRIMARY KEY (%s); SELECT scd2.resume_flow(%s);", flow->target_sql,
							index == NULL ? "" : psprintf("DROP CONSTRAINT %s, ", quote_identifier(RelationGetRelationName(index))),
							key_columns(flow, flow->start_column), quote_literal_cstr(flow->name))));
}

/*
 * Raises unless the target's primary key ("index", NULL: there is none) is that of the flow.
 */
void
scd2_check_target_index(Scd2Flow *flow, Relation target, Relation index)
{
	bool		fits = index != NULL && is_key_index(index, flow->nkeys + (flow->scd_type == 2 ? 1 : 0));

	for (int k = 0; fits && k < flow->nkeys; k++)
		fits = index->rd_index->indkey.values[k] == flow->attnums[flow->keys[k]] && index->rd_indoption[k] == 0;
	if (!fits || (flow->scd_type == 2 && !orders_sequence(flow, index, flow->start_attnum)))
		raise_target_index(flow, target, index);
}

/*
 * The same of the memory's, which has the keys in the order of the target's: after that is known.
 */
void
scd2_check_memory_index(Scd2Flow *flow, Relation memory, Relation index)
{
	bool		fits = index != NULL && is_key_index(index, flow->nkeys + (flow->scd_type == 2 ? 1 : 0));

	for (int k = 0; fits && k < flow->nkeys; k++)
		fits = index->rd_index->indkey.values[k] == flow->memory_attnums[flow->keys[k]] && index->rd_indoption[k] == 0 &&
			index->rd_opfamily[k] == flow->key_opfamily[k] && index->rd_opcintype[k] == flow->key_opcintype[k] &&
			index->rd_indcollation[k] == flow->key_collation[k];
	if (!fits || (flow->scd_type == 2 && !orders_sequence(flow, index, flow->memory_sequence)))
		raise_memory_misfit(flow, memory, ERRCODE_INVALID_TABLE_DEFINITION,
							psprintf("primary key of memory %s is not that of its target", flow->memory_sql));
}

/* ---- under the lock ---- */

/*
 * Opens and locks a table for writing. "label": what to call it if it is gone.
 */
Relation
scd2_open_to_write(Oid relid, const char *label)
{
	Relation	rel = try_relation_open(relid, RowExclusiveLock);

	if (rel == NULL)
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("%s does not exist", label)));
	return rel;
}

/*
 * Opens the primary key that a table had when the flow was loaded. It may have got another one since:
 * then the flow has to be loaded again.
 */
Relation
scd2_open_primary_key(Relation rel, Oid index, const char *label)
{
	if (scd2_primary_key_index(rel) != index)
		ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
						errmsg("primary key of %s was replaced meanwhile", label)));
	return index_open(index, RowExclusiveLock);
}

/* ---- results ---- */

/*
 * Raises unless a statement brings the flow's columns with their types, behind columns of "before" and
 * in front of those of "after".
 */
void
scd2_check_columns_read(Scd2Flow *flow, TupleDesc desc, int nbefore, const Oid *before, int nafter, const Oid *after)
{
	int			n = flow->shape.ncolumns;
	Oid		   *types = palloc((n + 1) * sizeof(Oid));
	char	   *what = psprintf("what flow \"%s\" reads", flow->name);

	for (int i = 0; i < n; i++)
		types[i] = flow_column(flow, i)->atttypid;
	scd2_check_result(desc, 0, nbefore, before, what);
	scd2_check_result(desc, nbefore, n, types, what);
	scd2_check_result(desc, nbefore + n, nafter, after, what);
	pfree(types);
	pfree(what);
}
