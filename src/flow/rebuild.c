/*
 * rebuild.c
 *		A target made again beside the one that is there: to compare the two, or to take rows from.
 *
 * scd2.check_target() (47_check_target.sql) registers copies of the target's flows that write into
 * an empty temporary table, in its own transaction, so that no worker ever sees them. Here one of
 * them is run, by the same engine as always: its first copy, then batches up to the version that
 * the flow itself has applied. What the engine says of the sources is what the target must hold.
 *
 * For that, rows of event tables count as they were at the flow's beginning (and then as they were
 * inserted), for who cleans up an event table changes nothing in its targets.
 *
 * scd2.full_refresh() of some keys (48_refresh_keys.sql) does the same, with event tables as they
 * are now, and has the rows of these keys replaced.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "flow/apply.h"
#include "flow/lateness.h"
#include "flow/marks.h"
#include "flow/work.h"

PG_FUNCTION_INFO_V1(scd2_rebuild);
PG_FUNCTION_INFO_V1(scd2_write_target);
PG_FUNCTION_INFO_V1(scd2_check_flow_fits);

/* The events that were there at the flow's beginning; as copy.c does with those that are there now. */
static void
copy_first_events(Scd2Flow *flow, Scd2FlowState *state)
{
	TimestampTz started = GetCurrentTimestamp();
	Datum		args[] = {Int64GetDatum(state->begin_version)};
	Scd2Work   *work;

	scd2_lateness_begin(flow, false);
	scd2_load_marks(flow);
	work = scd2_work_begin(flow);
	scd2_read_arrivals(work, SCD2_READ_SOURCE, 1, args);
	scd2_finish_arrivals(work);
	scd2_state_advance(state, work, started, state->begin_version, state->begin_timestamp);
	scd2_state_begun(state, false);
}

/* Each batch sees what the one before it wrote. */
static void
run_flow(Scd2Flow *flow, int64 upto)
{
	Scd2FlowState state = {.flow_id = flow->flow_id};
	MemoryContext batch = AllocSetContextCreate(CurrentMemoryContext, "pg_scd2 rebuild", ALLOCSET_DEFAULT_SIZES);
	MemoryContext before = MemoryContextSwitchTo(batch);

	if (!scd2_state_read(&state))
		elog(ERROR, "state of flow %d is gone", flow->flow_id);
	if (flow->input == SCD2_EVENTS && flow->from_beginning)
		copy_first_events(flow, &state);
	else
		scd2_first_copy(flow, &state);
	while (!flow->once && state.watermark_version < upto)
	{
		CHECK_FOR_INTERRUPTS();
		CommandCounterIncrement();
		MemoryContextSwitchTo(before);
		MemoryContextReset(batch);
		MemoryContextSwitchTo(batch);
		(void) scd2_apply_batch(flow, &state, upto);
	}
	CommandCounterIncrement();
	MemoryContextSwitchTo(before);
	MemoryContextDelete(batch);
}

/*
 * scd2_internal.rebuild(flow_id integer, upto bigint, from_beginning boolean): a flow is loaded for
 * this one call, for nothing tells sessions that it changes.
 */
Datum
scd2_rebuild(PG_FUNCTION_ARGS)
{
	Scd2Flow   *flow;

	SPI_connect();
	flow = scd2_flow_load(PG_GETARG_INT32(0));
	flow->from_beginning = PG_GETARG_BOOL(2) && flow->input == SCD2_EVENTS;
	flow->all_images = true;	/* else a batch may have to begin again */
	PG_TRY();
	{
		run_flow(flow, PG_GETARG_INT64(1));
	}
	PG_FINALLY();
	{
		scd2_flow_free(flow);
	}
	PG_END_TRY();
	SPI_finish();
	PG_RETURN_VOID();
}

/* scd2_internal.check_flow_fits(flow_id integer): loading it compares its relations with what it believes of them. */
Datum
scd2_check_flow_fits(PG_FUNCTION_ARGS)
{
	SPI_connect();
	scd2_flow_free(scd2_flow_load(PG_GETARG_INT32(0)));
	SPI_finish();
	PG_RETURN_VOID();
}

/* scd2_internal.write_target(flow_id integer, statements text[]): as a flow writes its target, but by SQL. */
Datum
scd2_write_target(PG_FUNCTION_ARGS)
{
	Datum	   *statements;
	int			n;
	Scd2Flow   *flow;
	Scd2Work   *work;

	SPI_connect();
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(1), TEXTOID, -1, false, TYPALIGN_INT, &statements, NULL, &n);
	flow = scd2_flow_load(PG_GETARG_INT32(0));
	PG_TRY();
	{
		work = scd2_work_begin(flow);
		(void) set_config_option("pg_scd2.allow_target_writes", "on", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
		for (int i = 0; i < n; i++)
			if (SPI_execute(TextDatumGetCString(statements[i]), false, 0) < 0)
				elog(ERROR, "could not execute \"%s\"", TextDatumGetCString(statements[i]));
		scd2_work_end(work);
	}
	PG_FINALLY();
	{
		scd2_flow_free(flow);
	}
	PG_END_TRY();
	SPI_finish();
	PG_RETURN_VOID();
}
