/*
 * statements.c
 *		The SQL of a flow.
 *
 * READ statements give the rows of a feed as they come (events.c sorts them), each with its place.
 * The writing statements are set-wise: they join the target with what the engine put into tuplestores (named relations scd2_…), by the
 * place of the row, which no other transaction can have moved: only the flow writes its target.
 */
#include "postgres.h"

#include "catalog/pg_type.h"

#include "flow/sqltext.h"
#include "flow/statements.h"

const char *
scd2_store_name(Scd2Store store)
{
	static const char *const names[] = {"scd2_inserts", "scd2_closes", "scd2_rewrites", "scd2_deletes", "scd2_touched"};

	return names[store];
}

/* Since when copied rows are valid: the flow's expression, but at most the beginning, and the beginning where it gives none. */
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

static void
append_read(StringInfo sql, Scd2Flow *flow, Scd2Statement which)
{
	scd2_sql(sql, "SELECT _change_type, _commit_version, _commit_timestamp, _change_ordinal");
	for (int i = 0; i < flow->shape.ncolumns; i++)
		scd2_sql(sql, ", %I.%I", flow->source_alias, flow->columns[i]);
	scd2_sql(sql, ", %I.ctid, %I.tableoid", flow->source_alias, flow->source_alias);
	if (which == SCD2_READ_SEEN)
		scd2_sql(sql, ", %s", scd2_flow_start_sql(flow, "$4"));
	if (which == SCD2_READ_TAIL)
		scd2_sql(sql, " FROM ONLY %s AS %I", flow->leaf_sql, flow->source_alias);
	else
		scd2_sql(sql, " FROM %s AS %I", flow->feed_sql, flow->source_alias);
	scd2_sql(sql, " WHERE _commit_version > $1 AND _commit_version <= $2");
	if (which == SCD2_READ_TAIL)
		scd2_sql(sql, " AND %I.ctid >= $3", flow->source_alias);
	else if (which == SCD2_READ_SEEN)
		scd2_sql(sql, " AND pg_visible_in_snapshot(_xid, $3)");
}

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

/*
 * The text of a statement and the types of its parameters (at most 4).
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
			append_read(&sql, flow, which);
			argtypes[0] = argtypes[1] = INT8OID;
			argtypes[2] = which == SCD2_READ_TAIL ? TIDOID : PG_SNAPSHOTOID;
			argtypes[3] = TIMESTAMPTZOID;
			*nargs = which == SCD2_READ_RANGE ? 2 : which == SCD2_READ_TAIL ? 3 : 4;
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
 * The source's rows for the first copy: columns and (type 2) since when they are valid; $1 is the flow's beginning. With "insert", all of the copy in one statement.
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
	scd2_sql(&sql, " FROM %s%s AS %I", flow->source_partitioned ? "" : "ONLY ",
			 flow->source_sql, flow->source_alias);
	return sql.data;
}
