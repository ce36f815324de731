/*
 * statements.c
 *		The SQL of a flow.
 *
 * READ statements give the rows of a feed as they come (who reads them sorts them), each with its place.
 * The writing statements are set-wise: they join the target with what the engine put into
 * tuplestores (named relations scd2_…), by the place of the row, which no other transaction can
 * have moved: only the flow writes its target.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "flow/append.h"
#include "flow/lateness.h"
#include "flow/marks.h"
#include "flow/sqltext.h"
#include "flow/statements.h"

const char *
scd2_store_name(Scd2Store store)
{
	static const char *const names[] = {"scd2_inserts", "scd2_closes", "scd2_rewrites", "scd2_deletes", "scd2_touched"};

	return names[store];
}

/*
 * Since when copied rows are valid: the flow's expression, but at most the beginning, and the
 * beginning where it gives none.
 */
char *
scd2_flow_start_sql(Scd2Flow *flow, const char *beginning)
{
	StringInfoData sql;

	if (flow->initial_start == NULL)
		return pstrdup(beginning);
	initStringInfo(&sql);
	/* The line break ends a comment that the expression may end with. */
	scd2_sql(&sql, "LEAST((%s\n)::timestamptz, %s)", flow->initial_start, beginning);
	return sql.data;
}

/* An expression of the flow's; the line break ends a comment that it may end with. */
static void
append_expression(StringInfo sql, const char *expression, const char *type)
{
	if (expression == NULL)
		scd2_sql(sql, "NULL::%s", type);
	else
		scd2_sql(sql, "(%s\n)::%s", expression, type);
}

static void
append_is_no(StringInfo sql, const char *expression)
{
	append_expression(sql, expression, "boolean");
	scd2_sql(sql, " IS NOT TRUE");
}

/* Is a new image, or a TRUNCATE, one that empties the target? (Undoing looks at the source alone.) */
static void
append_empties(StringInfo sql, Scd2Flow *flow, Scd2Statement which)
{
	scd2_sql(sql, which == SCD2_READ_SEEN ? "_change_type = 'truncate' AND COALESCE(" : "_change_type IN ('insert', 'update_postimage', 'truncate') AND COALESCE(");
	append_expression(sql, flow->apply_as_truncates, "boolean");
	scd2_sql(sql, ", false)");
}

/*
 * Of a feed with its default sequence, images that are none for the flow: then the history is that
 * of the rows that are left. A TRUNCATE has no values to ask.
 */
static void
append_images(StringInfo sql, Scd2Flow *flow, Scd2Statement which)
{
	if (flow->source_filter != NULL)
	{
		scd2_sql(sql, " AND (_change_type = 'truncate' OR ");
		append_expression(sql, flow->source_filter, "boolean");
		scd2_sql(sql, ")");
	}
	if (flow->apply_as_truncates != NULL)
	{
		scd2_sql(sql, " AND (");
		append_empties(sql, flow, which);
		scd2_sql(sql, " OR _change_type <> 'truncate' AND ");
		append_expression(sql, flow->apply_as_truncates, "boolean");
		scd2_sql(sql, " IS NOT TRUE AND ");
		append_expression(sql, flow->apply_as_deletes, "boolean");
		scd2_sql(sql, " IS NOT TRUE)");
	}
	else if (flow->apply_as_deletes != NULL)
	{
		scd2_sql(sql, " AND (_change_type = 'truncate' OR ");
		append_expression(sql, flow->apply_as_deletes, "boolean");
		scd2_sql(sql, " IS NOT TRUE)");
	}
}

/*
 * The feed, or its last leaf.
 */
void
scd2_append_feed(StringInfo sql, Scd2Flow *flow, Scd2Statement which)
{
	if (which == SCD2_READ_TAIL)
		scd2_sql(sql, " FROM ONLY %s AS %I", flow->leaf_sql, flow->source_alias);
	else
		scd2_sql(sql, " FROM %s AS %I", flow->feed_sql, flow->source_alias);
}

/*
 * Whether the snapshot that is parameter n sees what a row of the feed tells. Those that came with
 * a dump have transaction ids of another server; what they tell is in the restored rows.
 */
void
scd2_append_seen(StringInfo sql, Scd2Flow *flow, int n)
{
	scd2_sql(sql, "(_commit_version <= %s OR pg_visible_in_snapshot(_xid, $%d))", flow->foreign_until, n);
}

static void
append_read(StringInfo sql, Scd2Flow *flow, Scd2Statement which)
{
	scd2_sql(sql, "SELECT ");
	if (flow->apply_as_truncates != NULL)
	{
		scd2_sql(sql, "CASE WHEN ");
		append_empties(sql, flow, which);
		scd2_sql(sql, " THEN 'truncate' ELSE _change_type END");
	}
	else
		scd2_sql(sql, "_change_type");
	scd2_sql(sql, ", _commit_version, _commit_timestamp, _change_ordinal");
	for (int i = 0; i < flow->shape.ncolumns; i++)
		scd2_sql(sql, ", %I.%I", flow->source_alias, flow->columns[i]);
	scd2_sql(sql, ", %I.ctid, %I.tableoid", flow->source_alias, flow->source_alias);
	if (which == SCD2_READ_SEEN)
		scd2_sql(sql, ", %s", scd2_flow_start_sql(flow, "$4"));
	scd2_append_feed(sql, flow, which);
	scd2_sql(sql, " WHERE _commit_version > $1 AND _commit_version <= $2");
	if (which == SCD2_READ_TAIL)
		scd2_sql(sql, " AND %I.ctid >= $3", flow->source_alias);
	else if (which == SCD2_READ_SEEN)
	{
		scd2_sql(sql, " AND ");
		scd2_append_seen(sql, flow, 3);
	}
	append_images(sql, flow, which);
}

/* ---- event tables ---- */

/*
 * Can a sequence be invalid although it is not NULL: a NaN, or part of a struct?
 */
bool
scd2_sequence_has_parts(Scd2Flow *flow)
{
	return flow->sequence_type == FLOAT4OID || flow->sequence_type == FLOAT8OID || flow->sequence_type == NUMERICOID ||
		get_typtype(flow->sequence_type) == TYPTYPE_COMPOSITE;
}

/*
 * "a OPERATOR(…) b", whatever the search_path.
 */
void
scd2_append_comparison(StringInfo sql, const char *a, Oid operator_oid, const char *b)
{
	HeapTuple	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(operator_oid));
	Form_pg_operator form;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator %u", operator_oid);
	form = (Form_pg_operator) GETSTRUCT(tuple);
	scd2_sql(sql, "%s OPERATOR(%I.%s) %s", a, get_namespace_name(form->oprnamespace), NameStr(form->oprname), b);
	ReleaseSysCache(tuple);
}

/*
 * The operator of the order of sequences.
 */
Oid
scd2_sequence_operator(Scd2Flow *flow, StrategyNumber strategy)
{
	TypeCacheEntry *type = lookup_type_cache(flow->sequence_type, TYPECACHE_BTREE_OPFAMILY);

	return get_opfamily_member(type->btree_opf, type->btree_opintype, type->btree_opintype, strategy);
}

/* Which versions of a feed; what the columns are qualified with. */
static void
append_range(StringInfo sql, Scd2Flow *flow, Scd2Statement which)
{
	scd2_sql(sql, "_commit_version > $1 AND _commit_version <= $2");
	if (which == SCD2_READ_TAIL)
		scd2_sql(sql, " AND %I.ctid >= $3", flow->source_alias);
	else if (which == SCD2_READ_SEEN)
	{
		scd2_sql(sql, " AND NOT ");
		scd2_append_seen(sql, flow, 3);
		scd2_sql(sql, " AND $4 IS NOT NULL");
	}
}

static void
append_filter(StringInfo sql, Scd2Flow *flow)
{
	if (flow->source_filter == NULL)
		return;
	scd2_sql(sql, " AND ");
	append_expression(sql, flow->source_filter, "boolean");
}

/* A TRUNCATE has no values to ask; apply_as_truncates says whether it is an event. */
static void
append_changes_filter(StringInfo sql, Scd2Flow *flow, Scd2Statement which)
{
	scd2_sql(sql, " AND CASE _change_type WHEN 'truncate' THEN ");
	append_expression(sql, flow->apply_as_truncates, "boolean");
	scd2_sql(sql, " ELSE ");
	append_expression(sql, flow->source_filter != NULL ? flow->source_filter : "true", "boolean");
	if (flow->closes)			/* images that are none */
	{
		scd2_sql(sql, " AND (");
		append_empties(sql, flow, which);
		scd2_sql(sql, " OR ");
		append_is_no(sql, flow->apply_as_truncates);
		scd2_sql(sql, " AND ");
		append_is_no(sql, flow->apply_as_deletes);
		scd2_sql(sql, ")");
	}
	scd2_sql(sql, " END");
}

static void
append_keys(StringInfo sql, Scd2Flow *flow)
{
	for (int k = 0; k < flow->nkeys; k++)
		scd2_sql(sql, "%I.%I, ", flow->source_alias, flow->columns[flow->keys[k]]);
}

/*
 * Of a feed with its default sequence whose target is shared: per key and version the last image
 * that is left, or the delete of the one from before, unless a TRUNCATE comes after it. (A unique
 * index guards the keys row by row, so what takes an image away comes right behind it, and the first
 * change says whether there was something before: see events.c for the general case. An image with
 * another right behind it was taken away by a TRUNCATE that is not applied: it is left.)
 */
static void
append_net_changes(StringInfo sql, Scd2Flow *flow, Scd2Statement which)
{
	scd2_sql(sql, " FROM (SELECT %I.*, %I.ctid AS _scd2_place, %I.tableoid AS _scd2_leaf,"
			 " max(_change_ordinal) FILTER (WHERE ",
			 flow->source_alias, flow->source_alias, flow->source_alias);
	append_empties(sql, flow, which);
	scd2_sql(sql, ") OVER (PARTITION BY _commit_version) AS _scd2_cut,"
			 " first_value(_change_type) OVER changes IN ('insert', 'update_postimage') AS _scd2_new,"
			 " lead(_change_type) OVER changes IN ('delete', 'update_preimage') IS TRUE AS _scd2_taken,"
			 " coalesce(sum(_scd2_adds) OVER (changes ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING), 0) AS _scd2_later,"
			 " sum(_scd2_adds) OVER (changes ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS _scd2_all");
	scd2_append_feed(sql, flow, which);
	scd2_sql(sql, " CROSS JOIN LATERAL (SELECT CASE WHEN ");
	append_empties(sql, flow, which);
	scd2_sql(sql, " THEN 0 WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END) AS _scd2_images (_scd2_adds) WHERE ");
	append_range(sql, flow, which);
	append_changes_filter(sql, flow, which);
	scd2_sql(sql, " WINDOW changes AS (PARTITION BY ");
	append_keys(sql, flow);
	scd2_sql(sql, "_commit_version ORDER BY _change_ordinal)) AS %I WHERE (", flow->source_alias);
	append_empties(sql, flow, which);
	scd2_sql(sql, " OR _scd2_cut > _change_ordinal IS NOT TRUE AND CASE WHEN _change_type IN ('insert', 'update_postimage')"
			 " THEN _scd2_later = 0 AND NOT _scd2_taken ELSE _scd2_later = 0 AND _scd2_all = -1 AND NOT _scd2_new END)");
}

/*
 * Changes of a feed, without deletes (and pre-images) that an upsert of the key follows in the same
 * version: they are nothing.
 */
static void
append_changes(StringInfo sql, Scd2Flow *flow, Scd2Statement which)
{
	scd2_sql(sql, " FROM (SELECT %I.*, %I.ctid AS _scd2_place, %I.tableoid AS _scd2_leaf,"
			 " max(_change_ordinal) FILTER (WHERE _change_type IN ('insert', 'update_postimage')) OVER (PARTITION BY ",
			 flow->source_alias, flow->source_alias, flow->source_alias);
	append_keys(sql, flow);
	scd2_sql(sql, "_commit_version) AS _scd2_last");
	scd2_append_feed(sql, flow, which);
	scd2_sql(sql, " WHERE ");
	append_range(sql, flow, which);
	append_changes_filter(sql, flow, which);
	scd2_sql(sql, ") AS %I WHERE (_change_type NOT IN ('delete', 'update_preimage') OR _scd2_last > _change_ordinal IS NOT TRUE)", flow->source_alias);
}

static void
append_sequence(StringInfo sql, Scd2Flow *flow, Scd2Statement which)
{
	char	   *type = scd2_type_sql(flow->sequence_type);

	if (flow->end_sequence_by != NULL)
		scd2_sql(sql, "_scd2_sequence");
	else if (flow->closes)
		scd2_sql(sql, "%s", which == SCD2_READ_SOURCE ? scd2_flow_start_sql(flow, "$2") : "_commit_timestamp");
	else if (flow->input == SCD2_CHANGES && which != SCD2_READ_SOURCE)
	{
		scd2_sql(sql, "CASE WHEN _change_type IN ('insert', 'update_postimage') THEN ");
		append_expression(sql, flow->sequence_by, type);
		scd2_sql(sql, " ELSE ");
		append_expression(sql, flow->delete_sequence_by, type);
		scd2_sql(sql, " END");
	}
	else
		append_expression(sql, flow->sequence_by, type);
}

/* A value of the sequence's type by which +infinity is no end; NULL: the type has none. */
static const char *
infinity_of(Oid type)
{
	switch (type)
	{
		case DATEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case FLOAT4OID:
		case FLOAT8OID:
		case NUMERICOID:
			return psprintf("'infinity'::%s", scd2_type_sql(type));
		default:
			return NULL;
	}
}

/* Is "end" no end? NULL, and infinity; of a struct: all of it, the first field. */
static void
append_is_no_end(StringInfo sql, Scd2Flow *flow, const char *end)
{
	const char *infinity;

	scd2_sql(sql, "%s IS NULL", end);
	if (get_typtype(flow->sequence_type) == TYPTYPE_COMPOSITE)
	{
		TupleDesc	desc = lookup_rowtype_tupdesc(flow->sequence_type, -1);
		Form_pg_attribute first = TupleDescAttr(desc, 0);

		infinity = infinity_of(first->atttypid);
		if (infinity != NULL)
			scd2_sql(sql, " OR (%s).%I = %s", end, NameStr(first->attname), infinity);
		ReleaseTupleDesc(desc);
	}
	else if ((infinity = infinity_of(flow->sequence_type)) != NULL)
		scd2_sql(sql, " OR %s = %s", end, infinity);
}

/* A row with an end is read twice: where it begins and where it ends. (A delete does not end.) */
static void
append_ends(StringInfo sql, Scd2Flow *flow)
{
	char	   *type = scd2_type_sql(flow->sequence_type);

	scd2_sql(sql, " CROSS JOIN LATERAL (SELECT ");
	append_expression(sql, flow->sequence_by, type);
	scd2_sql(sql, " AS _scd2_begins, ");
	append_expression(sql, flow->end_sequence_by, type);
	scd2_sql(sql, " AS _scd2_given) AS _scd2_g CROSS JOIN LATERAL (SELECT CASE WHEN ");
	append_is_no_end(sql, flow, "_scd2_given");
	scd2_sql(sql, " OR ");
	append_expression(sql, flow->apply_as_deletes, "boolean");
	scd2_sql(sql, " OR ");
	append_expression(sql, flow->apply_as_truncates, "boolean");
	scd2_sql(sql, " THEN NULL ELSE _scd2_given END AS _scd2_ends) AS _scd2_e"
			 " CROSS JOIN LATERAL (VALUES (_scd2_begins, _scd2_ends, false), (_scd2_ends, _scd2_begins, true)) AS _scd2_v (_scd2_sequence, _scd2_other, _scd2_is_end)");
}

static void
append_only_ends(StringInfo sql, Scd2Flow *flow)
{
	if (flow->end_sequence_by != NULL)
		scd2_sql(sql, " AND (NOT _scd2_is_end OR NOT _scd2_sequence IS NULL)");
}

/* What has the source's rows, with the columns of the feed that were dropped from it. */
void
scd2_append_rows(StringInfo sql, Scd2Flow *flow, const char *rows)
{
	if (flow->gone[0] == '\0')
		scd2_sql(sql, " FROM %s AS %I", rows, flow->source_alias);
	else
		scd2_sql(sql, " FROM (SELECT _scd2_s.*%s FROM %s AS _scd2_s) AS %I", flow->gone, rows, flow->source_alias);
}

/* The source as a relation in a query, or as it was at version $1. */
char *
scd2_source_now(Scd2Flow *flow)
{
	return psprintf("%s%s", flow->source_partitioned ? "" : "ONLY ", flow->source_sql);
}

char *
scd2_source_then(Scd2Flow *flow)
{
	return psprintf("scd2.table_at(NULL::%s, $1)", flow->source_sql);
}

/* The rows of the source that are there, as a feed would show them. */
static void
append_source(StringInfo sql, Scd2Flow *flow)
{
	if (flow->input == SCD2_CHANGES)
		scd2_sql(sql, " FROM (SELECT 'insert' AS _change_type, $1 AS _commit_version, $2 AS _commit_timestamp, 0 AS _change_ordinal, s.*%s FROM %s AS s) AS %I",
				 flow->gone, scd2_source_then(flow), flow->source_alias);
	else
		scd2_append_rows(sql, flow, flow->from_beginning ? scd2_source_then(flow) : scd2_source_now(flow));
	if (flow->end_sequence_by != NULL)
		append_ends(sql, flow);
	scd2_sql(sql, " WHERE true");
	append_only_ends(sql, flow);
	append_filter(sql, flow);
	if (flow->closes)
	{
		scd2_sql(sql, " AND ");
		append_is_no(sql, flow->apply_as_truncates);
		scd2_sql(sql, " AND ");
		append_is_no(sql, flow->apply_as_deletes);
	}
}

/* " OR" what can be wrong with a sequence that is not NULL, if anything. */
static void
append_has_bad_parts(StringInfo sql, Scd2Flow *flow, const char *sequence)
{
	if (get_typtype(flow->sequence_type) == TYPTYPE_COMPOSITE)
		scd2_sql(sql, " OR NOT (%s IS NULL OR %s IS NOT NULL) OR strpos((%s)::text, 'NaN') > 0", sequence, sequence, sequence);
	else if (scd2_sequence_has_parts(flow))
		scd2_sql(sql, " OR %s = 'NaN'", sequence);
}

/* Whether it may be no event: arrivals.c decides. */
static void
append_invalid(StringInfo sql, Scd2Flow *flow, const char *sequence)
{
	scd2_sql(sql, "(");
	for (int k = 0; k < flow->nkeys; k++)
		scd2_sql(sql, "%s%I.%I IS NULL", k > 0 ? " OR " : "", flow->source_alias, flow->columns[flow->keys[k]]);
	scd2_sql(sql, ")");
	if (flow->apply_as_truncates != NULL)
	{
		scd2_sql(sql, " AND ");
		append_expression(sql, flow->apply_as_truncates, "boolean");
		scd2_sql(sql, " IS NOT TRUE");
	}
	scd2_sql(sql, " OR %s IS NULL", sequence);
	append_has_bad_parts(sql, flow, sequence);
	if (flow->end_sequence_by == NULL)
		return;
	append_has_bad_parts(sql, flow, "_scd2_other");
	scd2_append_comparison(sql, " OR NOT _scd2_is_end AND _scd2_other", scd2_sequence_operator(flow, BTLessEqualStrategyNumber), "_scd2_sequence");
}

/*
 * Is there a horizon below which events are not accepted?
 */
bool
scd2_can_be_too_late(Scd2Flow *flow)
{
	return flow->max_lateness != NULL || flow->purged_before != NULL;
}

/*
 * Do the statements that read bring events as JSON, if those may not be taken?
 */
bool
scd2_keeps_events(Scd2Flow *flow)
{
	return flow->quarantine || scd2_can_be_too_late(flow);
}

/*
 * The horizon that a row of the feed met; NULL: none. The last two arguments say what it was before.
 * Rows that are there are the flow's beginning and meet none, except those that it reads again: of
 * what lies below, nothing is remembered, or it was purged.
 */
static char *
horizon_met(Scd2Flow *flow, Scd2Statement which, const char *moves)
{
	StringInfoData sql;
	int			highest = which == SCD2_READ_RANGE ? 3 : which == SCD2_READ_TAIL ? 4 : 5;
	char	   *type = scd2_type_sql(flow->sequence_type);

	initStringInfo(&sql);
	if (!scd2_can_be_too_late(flow) || (which == SCD2_READ_SOURCE && !flow->rereads))
		return psprintf("NULL::%s", type);
	scd2_sql(&sql, "GREATEST(");
	if (flow->max_lateness != NULL && which == SCD2_READ_SOURCE)
		scd2_sql(&sql, "NULLIF(%L, '')::%s", flow->lateness.has_horizon ? scd2_sequence_text(flow, flow->lateness.horizon) : "", type);
	else if (flow->max_lateness != NULL)
	{
		scd2_append_horizon(&sql, flow, psprintf("GREATEST(max(%s) OVER (ORDER BY _commit_version, _change_ordinal), NULLIF($%d, '')::%s)", moves, highest, type));
		scd2_sql(&sql, ", NULLIF($%d, '')::%s", highest + 1, type);
	}
	if (flow->purged_before != NULL)
		scd2_sql(&sql, flow->max_lateness != NULL ? ", %L::%s" : "%L::%s", flow->purged_before, type);
	scd2_sql(&sql, ")");
	return sql.data;
}

/* What the event does to the horizon, and the horizon that it met, which is returned. */
static char *
append_lateness(StringInfo sql, Scd2Flow *flow, Scd2Statement which, const char *sequence, const char *invalid)
{
	StringInfoData moves;
	char	   *met;

	initStringInfo(&moves);
	if (flow->max_lateness == NULL)
		scd2_sql(&moves, "NULL::%s", scd2_type_sql(flow->sequence_type));
	else
		scd2_append_moves(&moves, flow, sequence, invalid, which != SCD2_READ_SOURCE);
	met = horizon_met(flow, which, moves.data);
	scd2_sql(sql, ", %s, %s", moves.data, met);
	return met;
}

/* The row as JSON, if it may not be taken. */
static void
append_rejected(StringInfo sql, Scd2Flow *flow, const char *sequence, const char *invalid, const char *horizon)
{
	scd2_sql(sql, ", CASE WHEN %s", invalid);
	if (scd2_can_be_too_late(flow))
		scd2_append_comparison(sql, psprintf(" OR %s", sequence), scd2_sequence_operator(flow, BTLessStrategyNumber), horizon);
	scd2_sql(sql, " THEN to_jsonb(%I.*) - '{_change_type,_commit_version,_commit_timestamp,_change_ordinal,_xid,_scd2_place,_scd2_leaf,_scd2_last,_scd2_cut,_scd2_new,_scd2_taken,_scd2_later,_scd2_all}'::text[] - %L::text[] END",
			 flow->source_alias, flow->kept_out);
}

static void
append_truncates(StringInfo sql, Scd2Flow *flow, Scd2Statement which)
{
	if (flow->closes && which == SCD2_READ_SOURCE)	/* those that would are left out */
		scd2_sql(sql, "false");
	else if (flow->closes)
		append_empties(sql, flow, which);
	else
	{
		scd2_sql(sql, "COALESCE(");
		append_expression(sql, flow->apply_as_truncates, "boolean");
		scd2_sql(sql, ", false)");
	}
}

static void
append_read_events(StringInfo sql, Scd2Flow *flow, Scd2Statement which)
{
	bool		from_feed = which != SCD2_READ_SOURCE;
	StringInfoData sequence;
	StringInfoData invalid;
	char	   *horizon;

	initStringInfo(&sequence);
	initStringInfo(&invalid);
	append_sequence(&sequence, flow, which);
	append_invalid(&invalid, flow, sequence.data);
	scd2_sql(sql, from_feed ? "SELECT _commit_version, _commit_timestamp, _change_ordinal, " : "SELECT NULL::bigint, NULL::timestamptz, NULL::integer, ");
	scd2_sql(sql, "%s, ", sequence.data);
	if (flow->closes)
		scd2_sql(sql, "_change_type IN ('delete', 'update_preimage')");
	else
		append_expression(sql, flow->apply_as_deletes, "boolean");
	scd2_sql(sql, ", ");
	append_truncates(sql, flow, which);
	scd2_sql(sql, flow->end_sequence_by == NULL ? ", false, NULL::%s" : ", _scd2_is_end, _scd2_other::%s",
			 scd2_type_sql(flow->sequence_type));
	horizon = append_lateness(sql, flow, which, sequence.data, invalid.data);
	for (int i = 0; i < flow->shape.ncolumns; i++)
	{
		if (flow->absent[i])
			scd2_sql(sql, ", NULL::%s", scd2_type_sql(TupleDescAttr(flow->store_desc[SCD2_INSERTS], i)->atttypid));
		else
			scd2_sql(sql, ", %I.%I", flow->source_alias, flow->columns[i]);
	}
	if (scd2_keeps_events(flow))
		append_rejected(sql, flow, sequence.data, invalid.data, horizon);
	if (!from_feed)
		append_source(sql, flow);
	else if (flow->input == SCD2_CHANGES)
	{
		scd2_sql(sql, ", _scd2_place, _scd2_leaf");
		if (flow->closes)
			append_net_changes(sql, flow, which);
		else
			append_changes(sql, flow, which);
	}
	else
	{
		scd2_sql(sql, ", %I.ctid, %I.tableoid", flow->source_alias, flow->source_alias);
		scd2_append_feed(sql, flow, which);
		if (flow->end_sequence_by != NULL)
			append_ends(sql, flow);
		scd2_sql(sql, " WHERE _change_type = 'insert' AND ");
		append_range(sql, flow, which);
		append_only_ends(sql, flow);
		append_filter(sql, flow);
	}
}

/* The keys of rows that truncates $1 cut, as deletes at those. */
static void
append_read_cuts(StringInfo sql, Scd2Flow *flow)
{
	TupleDesc	desc = flow->store_desc[SCD2_INSERTS];
	char	   *sequence = scd2_type_sql(flow->sequence_type);

	scd2_sql(sql, "SELECT NULL::bigint, NULL::timestamptz, NULL::integer, m.cut, true, false, false, NULL::%s, NULL::%s, NULL::%s", sequence, sequence, sequence);
	for (int i = 0; i < flow->shape.ncolumns; i++)
	{
		char	   *type = scd2_type_sql(TupleDescAttr(desc, i)->atttypid);

		if (flow->shape.is_key[i])
			scd2_sql(sql, ", t.%I::%s", flow->columns[i], type);
		else
			scd2_sql(sql, ", NULL::%s", type);
	}
	/* (unnest() would take a sequence of several fields apart.) */
	scd2_sql(sql, " FROM (SELECT ($1)[i] AS cut FROM generate_subscripts($1, 1) AS i) AS m JOIN ONLY %s AS t ON ", flow->target_sql);
	if (flow->scd_type == 2)
	{
		char	   *start = psprintf("t.%s", quote_identifier(flow->start_column));
		char	   *end = psprintf("t.%s", quote_identifier(flow->end_column));

		scd2_append_comparison(sql, start, scd2_sequence_operator(flow, BTLessEqualStrategyNumber), "m.cut");
		scd2_sql(sql, " AND (%s IS NULL OR ", end);
		/* (A row that ends at it shows the greater image of the two.) */
		scd2_append_comparison(sql, end, scd2_sequence_operator(flow, BTGreaterEqualStrategyNumber), "m.cut");
		scd2_sql(sql, ")");
	}
	else if (flow->sequence_column >= 0)
	{
		char	   *shown = psprintf("t.%s", quote_identifier(flow->columns[flow->sequence_column]));

		scd2_sql(sql, "(%s IS NULL OR ", shown);
		scd2_append_comparison(sql, shown, scd2_sequence_operator(flow, BTLessEqualStrategyNumber), "m.cut");
		scd2_sql(sql, ")");
	}
	else
	{
		/* (What is not remembered is below the horizon.) */
		scd2_sql(sql, "true LEFT JOIN ONLY %s AS r ON ", flow->memory_sql);
		for (int k = 0; k < flow->nkeys; k++)
		{
			const char *column = quote_identifier(flow->columns[flow->keys[k]]);

			scd2_sql(sql, k > 0 ? " AND " : "");
			scd2_append_comparison(sql, psprintf("t.%s", column), flow->key_operator[k], psprintf("r.%s", column));
		}
		scd2_append_comparison(sql, " WHERE (r._sequence IS NULL OR r._sequence", scd2_sequence_operator(flow, BTLessEqualStrategyNumber), "m.cut");
		if (flow->shape.ignores_null != NULL)	/* or what a column was sent */
			scd2_append_comparison(sql, " OR EXISTS (SELECT FROM generate_subscripts(r._sequences, 1) AS i WHERE r._sequences[i]", scd2_sequence_operator(flow, BTLessEqualStrategyNumber), "m.cut)");
		scd2_sql(sql, ")");
	}
}

static void
append_read_horizon(StringInfo sql, Scd2Flow *flow)
{
	char	   *type = scd2_type_sql(flow->sequence_type);

	scd2_sql(sql, "SELECT GREATEST(");
	scd2_append_horizon(sql, flow, psprintf("NULLIF($1, '')::%s", type));
	scd2_sql(sql, ", NULLIF($2, '')::%s)", type);
}

/* ---- writing ---- */

static void
append_insert(StringInfo sql, Scd2Flow *flow)
{
	int			n = flow->shape.ncolumns;

	scd2_sql(sql, "INSERT INTO %s (", flow->target_sql);
	for (int i = 0; i < n; i++)
		scd2_sql(sql, "%s%I", i > 0 ? ", " : "", flow->columns[i]);
	if (flow->scd_type == 2)
		scd2_sql(sql, ", %I, %I", flow->start_column, flow->end_column);
	if (flow->current_column != NULL)
		scd2_sql(sql, ", %I", flow->current_column);
	scd2_sql(sql, ") SELECT ");
	for (int i = 0; i < n; i++)
		scd2_sql(sql, "%sc%d", i > 0 ? ", " : "", i + 1);
	if (flow->scd_type == 2)
		scd2_sql(sql, ", starts, ends");
	if (flow->current_column != NULL)
		scd2_sql(sql, ", ends IS NULL");
	scd2_sql(sql, " FROM scd2_inserts");
}

static void
append_update(StringInfo sql, Scd2Flow *flow, Scd2Statement which)
{
	const char *separator = "";

	scd2_sql(sql, "UPDATE ONLY %s AS t SET ", flow->target_sql);
	for (int i = 0; which == SCD2_REWRITE && i < flow->shape.ncolumns; i++)
	{
		scd2_sql(sql, "%s%I = n.c%d", separator, flow->columns[i], i + 1);
		separator = ", ";
	}
	if (flow->scd_type == 2)
		scd2_sql(sql, "%s%I = n.ends", separator, flow->end_column);
	if (flow->current_column != NULL)
		scd2_sql(sql, ", %I = n.ends IS NULL", flow->current_column);
	scd2_sql(sql, " FROM %s AS n WHERE t.ctid = n.tid",
			 scd2_store_name(which == SCD2_REWRITE ? SCD2_REWRITES : SCD2_CLOSES));
}

static void
append_end_others(StringInfo sql, Scd2Flow *flow)
{
	if (flow->scd_type == 1)
	{
		scd2_sql(sql, "DELETE FROM ONLY %s AS t WHERE $1 IS NOT NULL", flow->target_sql);
	}
	else
	{
		scd2_sql(sql, "UPDATE ONLY %s AS t SET %I = $1", flow->target_sql, flow->end_column);
		if (flow->current_column != NULL)
			scd2_sql(sql, ", %I = false", flow->current_column);
		scd2_sql(sql, " WHERE t.%I IS NULL", flow->end_column);
	}
	scd2_sql(sql, " AND NOT EXISTS (SELECT FROM scd2_touched AS n WHERE n.tid = t.ctid)");
}

/* ---- all of them ---- */

/* A statement that reads the feed; returns how many parameters it has. */
static int
append_feed_read(StringInfo sql, Scd2Flow *flow, Scd2Statement which, Oid *argtypes)
{
	int			nargs = which == SCD2_READ_RANGE ? 2 : which == SCD2_READ_TAIL ? 3 : 4;

	if (flow->input == SCD2_APPEND)
		scd2_append_read_sql(sql, flow, which);
	else if (flow->input != SCD2_NET)
		append_read_events(sql, flow, which);
	else
		append_read(sql, flow, which);
	argtypes[0] = argtypes[1] = INT8OID;
	argtypes[2] = which == SCD2_READ_TAIL ? TIDOID : PG_SNAPSHOTOID;
	argtypes[3] = TIMESTAMPTZOID;
	if (flow->max_lateness != NULL)
	{
		argtypes[nargs] = argtypes[nargs + 1] = TEXTOID;
		nargs += 2;
	}
	return nargs;
}

/* The same of the rows that are there. */
static int
append_source_read(StringInfo sql, Scd2Flow *flow, Oid *argtypes)
{
	if (flow->input == SCD2_APPEND)
		scd2_append_read_sql(sql, flow, SCD2_READ_SOURCE);
	else
		append_read_events(sql, flow, SCD2_READ_SOURCE);
	argtypes[0] = INT8OID;
	argtypes[1] = TIMESTAMPTZOID;
	return flow->input == SCD2_CHANGES ? 2 : flow->from_beginning || (flow->input == SCD2_APPEND && !flow->feedless) ? 1 : 0;
}

/*
 * The text of a statement and the types of its parameters (at most SCD2_MOST_ARGUMENTS).
 */
char *
scd2_statement_sql(Scd2Flow *flow, Scd2Statement which, Oid *argtypes, int *nargs)
{
	StringInfoData sql;

	initStringInfo(&sql);
	*nargs = 0;
	switch (which)
	{
		case SCD2_READ_RANGE:
		case SCD2_READ_TAIL:
		case SCD2_READ_SEEN:
			*nargs = append_feed_read(&sql, flow, which, argtypes);
			break;
		case SCD2_READ_SOURCE:
			*nargs = append_source_read(&sql, flow, argtypes);
			break;
		case SCD2_READ_CUTS:
			append_read_cuts(&sql, flow);
			argtypes[0] = get_array_type(flow->sequence_type);
			*nargs = 1;
			break;
		case SCD2_HORIZON:
			append_read_horizon(&sql, flow);
			argtypes[0] = argtypes[1] = TEXTOID;
			*nargs = 2;
			break;
		case SCD2_FORGET:
		case SCD2_REMEMBER_ENDS:
		case SCD2_COMPLETE:
			if (which == SCD2_FORGET)
				scd2_append_forget(&sql, flow);
			else if (which == SCD2_COMPLETE)
				scd2_append_complete(&sql, flow);
			else
				scd2_append_remember_ends(&sql, flow);
			argtypes[0] = flow->sequence_type;
			*nargs = 1;
			break;
		case SCD2_INSERT:
			append_insert(&sql, flow);
			break;
		case SCD2_CLOSE_ROWS:
		case SCD2_REWRITE:
			append_update(&sql, flow, which);
			break;
		case SCD2_DELETE_ROWS:
			scd2_sql(&sql, "DELETE FROM ONLY %s AS t USING scd2_deletes AS n WHERE t.ctid = n.tid", flow->target_sql);
			break;
		case SCD2_END_OTHERS:
			append_end_others(&sql, flow);
			argtypes[0] = TIMESTAMPTZOID;
			*nargs = 1;
			break;
		case SCD2_N_STATEMENTS:
			elog(ERROR, "no such statement");
	}
	return sql.data;
}

/*
 * The source's rows, but those that are none for the flow. What empties the target may be said of a
 * change: they count as inserted.
 */
static void
append_copied(StringInfo sql, Scd2Flow *flow)
{
	if (flow->apply_as_truncates == NULL)
	{
		scd2_append_rows(sql, flow, scd2_source_now(flow));
		scd2_sql(sql, " WHERE true");
	}
	else
	{
		scd2_sql(sql, " FROM (SELECT 'insert'::text AS _change_type, 0::bigint AS _commit_version, $1 AS _commit_timestamp, 0 AS _change_ordinal, NULL::xid8 AS _xid, s.*%s FROM %s AS s) AS %I WHERE ",
				 flow->gone, scd2_source_now(flow), flow->source_alias);
		append_expression(sql, flow->apply_as_truncates, "boolean");
		scd2_sql(sql, " IS NOT TRUE");
	}
	append_filter(sql, flow);
	if (flow->apply_as_deletes == NULL)
		return;
	scd2_sql(sql, " AND ");
	append_expression(sql, flow->apply_as_deletes, "boolean");
	scd2_sql(sql, " IS NOT TRUE");
}

/*
 * The source's rows for the first copy: columns and (type 2) since when they are valid; $1 is the
 * flow's beginning. With "insert", all of the copy in one statement.
 */
char *
scd2_copy_sql(Scd2Flow *flow, bool insert)
{
	StringInfoData sql;
	int			n = flow->shape.ncolumns;

	initStringInfo(&sql);
	if (insert)
	{
		scd2_sql(&sql, "INSERT INTO %s (", flow->target_sql);
		for (int i = 0; i < n; i++)
			scd2_sql(&sql, "%s%I", i > 0 ? ", " : "", flow->columns[i]);
		if (flow->scd_type == 2)
			scd2_sql(&sql, ", %I", flow->start_column);
		if (flow->current_column != NULL)
			scd2_sql(&sql, ", %I", flow->current_column);
		scd2_sql(&sql, ") ");
	}
	scd2_sql(&sql, "SELECT ");
	for (int i = 0; i < n; i++)
		scd2_sql(&sql, "%s%I.%I", i > 0 ? ", " : "", flow->source_alias, flow->columns[i]);
	if (flow->scd_type == 2)
		scd2_sql(&sql, ", %s", scd2_flow_start_sql(flow, "$1"));
	if (insert && flow->current_column != NULL)
		scd2_sql(&sql, ", true");
	append_copied(&sql, flow);
	return sql.data;
}
