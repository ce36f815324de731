/*
 * purge.c
 *		Old versions leave a target: what scd2.purge_history() (48_purge.sql) has done to its rows.
 *
 * A version that ended before the point P goes. So that what comes later cannot bring it back, or
 * find its place among versions that are gone, P is a horizon from then on (lateness.c): events
 * below it are too late for the flows that are there, what they remember of them is forgotten, and
 * flows that come later come behind a mark at P. Rows that end at P or later stay, whole: any event
 * that is still accepted meets the same neighbours as before.
 *
 * Of a flow whose events come in order by construction nothing is remembered, and nothing that it
 * will apply looks at a row that has ended; there P is no horizon.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "storage/block.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "flow/lateness.h"
#include "flow/marks.h"
#include "flow/sqltext.h"
#include "flow/statements.h"
#include "flow/work.h"

PG_FUNCTION_INFO_V1(scd2_sequence_point);
PG_FUNCTION_INFO_V1(scd2_purge_rows);

/*
 * scd2_internal.sequence_point(flow_id integer, point text) RETURNS text: a sequence of the flow's
 * target as the caller writes it, in his settings, in the text form of marks.c. Raises what the
 * type says of it, and 22023 for what is no sequence.
 */
Datum
scd2_sequence_point(PG_FUNCTION_ARGS)
{
	MemoryContext cxt = CurrentMemoryContext;
	Scd2Flow   *flow;
	char	   *volatile canonical = NULL;

	SPI_connect();
	flow = scd2_flow_load(PG_GETARG_INT32(0));
	PG_TRY();
	{
		Datum		point = scd2_sequence_from_user(flow, text_to_cstring(PG_GETARG_TEXT_PP(1)));
		char	   *invalid = scd2_invalid_sequence(flow->sequence_type, point, "point");

		if (invalid != NULL)
			ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
							errmsg("history of %s cannot be purged: %s", flow->target_sql, invalid)));
		canonical = MemoryContextStrdup(cxt, scd2_sequence_text(flow, point));
	}
	PG_FINALLY();
	{
		scd2_flow_free(flow);
	}
	PG_END_TRY();
	SPI_finish();
	PG_RETURN_TEXT_P(cstring_to_text(canonical));
}

/* Versions in pages [first, last) that ended before the point. */
static int64
delete_versions(Scd2Flow *flow, Datum before, int64 first, int64 last)
{
	StringInfoData sql;
	Oid			types[] = {flow->sequence_type};

	if (first >= last)
		return 0;
	initStringInfo(&sql);
	scd2_sql(&sql, "DELETE FROM ONLY %s AS t WHERE t.ctid >= %L AND t.ctid < %L AND ", flow->target_sql,
			 psprintf("(%u,0)", (BlockNumber) first), psprintf("(%u,0)", (BlockNumber) Min(last, MaxBlockNumber)));
	scd2_append_comparison(&sql, psprintf("t.%s", quote_identifier(flow->end_column)), scd2_sequence_operator(flow, BTLessStrategyNumber), "$1");
	if (SPI_execute_with_args(sql.data, 1, types, &before, NULL, false, 0) != SPI_OK_DELETE)
		elog(ERROR, "could not remove versions");
	return SPI_processed;
}

/*
 * scd2_internal.purge_rows(flow_id integer, before text, first_block bigint, last_block bigint,
 * horizon boolean) RETURNS bigint: removes the versions in some pages of the target, and, with
 * "horizon", what is remembered below the point. As a flow writes its target; who calls it has the
 * locks that are needed.
 */
Datum
scd2_purge_rows(PG_FUNCTION_ARGS)
{
	char	   *point = text_to_cstring(PG_GETARG_TEXT_PP(1));
	int64		purged = 0;
	Scd2Flow   *flow;
	Scd2Work   *work;
	Datum		before;

	SPI_connect();
	flow = scd2_flow_load(PG_GETARG_INT32(0));
	PG_TRY();
	{
		before = scd2_sequence_value(flow, point);
		work = scd2_work_begin(flow);
		(void) set_config_option("pg_scd2.allow_target_writes", "on", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
		if (PG_GETARG_BOOL(4) && work->recall != NULL)
			scd2_lateness_purge(work, before);
		purged = delete_versions(flow, before, PG_GETARG_INT64(2), PG_GETARG_INT64(3));
		CommandCounterIncrement();
		scd2_work_end(work);
	}
	PG_FINALLY();
	{
		scd2_flow_free(flow);
	}
	PG_END_TRY();
	SPI_finish();
	PG_RETURN_INT64(purged);
}
