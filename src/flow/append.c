/*
 * append.c
 *		Flows that append rows: those that are there, then each that is inserted. Nothing is looked
 *		up, compared or taken back.
 *
 * Over a feed the beginning is exact: the rows of the source as it was at the flow's beginning
 * (table_at), then the inserts of every later version, in batches that move the watermark in the
 * same transaction. So a row that was inserted right after the beginning and deleted before the
 * copy was made is appended, and one that was there and has changed since is appended as it was.
 * After a TRUNCATE in between, the rows that were there cannot be known: the flow says so and
 * begins with the inserts.
 *
 * A flow that runs once appends what its source has, as one snapshot sees it.
 *
 * The filter is no condition of the query but one of its columns: else a batch without a row that
 * passes would tell nothing of how far it read, and the next one read all of it again.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type_d.h"
#include "executor/tuptable.h"
#include "tcop/dest.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "flow/append.h"
#include "flow/apply.h"
#include "flow/relations.h"
#include "flow/sqltext.h"
#include "flow/statements.h"

/*
 * What the READ statements return, before the flow's columns; after them come, of a feed, ctid and
 * tableoid.
 */
enum
{
	APPEND_VERSION,
	APPEND_TIMESTAMP,
	APPEND_TAKES,				/* the row is appended */
	APPEND_COLUMNS
};

/* An expression may end with a comment: hence the line break. */
static void
append_filter(StringInfo sql, Scd2Flow *flow)
{
	if (flow->source_filter == NULL)
		scd2_sql(sql, "true");
	else
		scd2_sql(sql, "(%s\n)::boolean", flow->source_filter);
}

static void
append_columns(StringInfo sql, Scd2Flow *flow)
{
	for (int i = 0; i < flow->shape.ncolumns; i++)
		scd2_sql(sql, ", %I.%I", flow->source_alias, flow->columns[i]);
}

/*
 * The text of a READ statement: versions ($1, $2] of the feed, from a place on ($3) with
 * SCD2_READ_TAIL; or the rows that are there, over a feed at version $1.
 */
void
scd2_append_read_sql(StringInfo sql, Scd2Flow *flow, Scd2Statement which)
{
	if (which == SCD2_READ_SOURCE)
	{
		scd2_sql(sql, "SELECT NULL::bigint, NULL::timestamptz, true");
		append_columns(sql, flow);
		scd2_append_rows(sql, flow, flow->feedless ? scd2_source_now(flow) : scd2_source_then(flow));
		scd2_sql(sql, " WHERE ");
		append_filter(sql, flow);
		return;
	}
	scd2_sql(sql, "SELECT _commit_version, _commit_timestamp, CASE WHEN _change_type = 'insert' THEN ");
	append_filter(sql, flow);
	scd2_sql(sql, " END");
	append_columns(sql, flow);
	scd2_sql(sql, ", %I.ctid, %I.tableoid", flow->source_alias, flow->source_alias);
	scd2_append_feed(sql, flow, which);
	scd2_sql(sql, " WHERE _commit_version > $1 AND _commit_version <= $2");
	if (which == SCD2_READ_TAIL)
		scd2_sql(sql, " AND %I.ctid >= $3", flow->source_alias);
}

typedef struct AppendReceiver
{
	DestReceiver pub;
	Scd2Work   *work;
	bool		from_feed;
} AppendReceiver;

/* How far the batch goes, and where its last row is. */
static void
note_progress(Scd2Work *work, TupleTableSlot *slot)
{
	int			after = APPEND_COLUMNS + work->flow->shape.ncolumns;
	int64		version = DatumGetInt64(slot->tts_values[APPEND_VERSION]);

	work->flow->at_version = version;
	if (version <= work->last_version)
		return;
	work->last_version = version;
	work->last_timestamp = DatumGetTimestampTz(slot->tts_values[APPEND_TIMESTAMP]);
	work->last_tid = *(ItemPointer) DatumGetPointer(slot->tts_values[after]);
	work->last_leaf = DatumGetObjectId(slot->tts_values[after + 1]);
}

static bool
receive_row(TupleTableSlot *slot, DestReceiver *self)
{
	Scd2Work   *work = ((AppendReceiver *) self)->work;
	Scd2Image	image;
	Scd2Change	change = {.kind = SCD2_ROW_INSERT, .open = true, .image = &image};

	slot_getallattrs(slot);
	if (!slot->tts_isnull[APPEND_VERSION])
		note_progress(work, slot);
	if (slot->tts_isnull[APPEND_TAKES] || !DatumGetBool(slot->tts_values[APPEND_TAKES]))
		return true;
	image.values = slot->tts_values + APPEND_COLUMNS;
	image.isnull = slot->tts_isnull + APPEND_COLUMNS;
	work->events++;
	scd2_work_emit(work, &change);
	return true;
}

/* The plan reads the columns as they are now. */
static void
begin_rows(DestReceiver *self, int operation, TupleDesc desc)
{
	static const Oid before[APPEND_COLUMNS] = {INT8OID, TIMESTAMPTZOID, BOOLOID};
	static const Oid after[] = {TIDOID, OIDOID};
	AppendReceiver *receiver = (AppendReceiver *) self;

	scd2_check_columns_read(receiver->work->flow, desc, APPEND_COLUMNS, before, receiver->from_feed ? 2 : 0, after);
}

static void
end_rows(DestReceiver *self)
{
}

/*
 * Reads rows by one of the READ statements and has the batch insert them.
 */
void
scd2_append_read(Scd2Work *work, Scd2Statement which, int nargs, const Datum *args)
{
	Scd2Flow   *flow = work->flow;
	/* What is there and has no feed is read under the snapshot that is active. */
	SPIExecuteOptions options = {.read_only = which == SCD2_READ_SOURCE && flow->feedless};
	AppendReceiver receiver = {
		.pub = {.receiveSlot = receive_row, .rStartup = begin_rows, .rShutdown = end_rows, .rDestroy = end_rows, .mydest = DestNone},
		.work = work,
		.from_feed = which != SCD2_READ_SOURCE
	};
	int			nest = NewGUCNestLevel();
	SPIPlanPtr	plan;

	scd2_use_settings(flow, which);
	plan = scd2_flow_plan(flow, which);
	options.params = scd2_params(plan, nargs, args);
	options.dest = &receiver.pub;
	if (SPI_execute_plan_extended(plan, &options) < 0)
		elog(ERROR, "reading rows to append failed");
	AtEOXact_GUC(true, nest);
	flow->at_version = -1;
}

/* The rows at the flow's beginning, or those that are there. */
static void
read_source(Scd2Work *work, Scd2FlowState *state)
{
	Datum		args[] = {Int64GetDatum(state->begin_version)};

	PushActiveSnapshot(GetTransactionSnapshot());
	scd2_append_read(work, SCD2_READ_SOURCE, work->flow->feedless ? 0 : 1, args);
	PopActiveSnapshot();
}

/* Was the source truncated since the flow's beginning? Then its rows of that time are not to be had. */
static bool
was_truncated(Scd2Flow *flow, Scd2FlowState *state)
{
	int64		version;
	TimestampTz at;

	if (flow->feedless || !scd2_last_truncate_seen(flow, state->begin_version, OidFunctionCall0(F_PG_CURRENT_SNAPSHOT), &version, &at))
		return false;
	if (!state->fresh)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("a full refresh of %s would lose rows", flow->target_sql),
						errdetail("Its source was truncated at version " INT64_FORMAT ", after the refresh was asked for.", version),
						errhint("SELECT scd2.full_refresh(%s, allow_loss => true);", quote_literal_cstr(flow->target_sql))));
	ereport(WARNING, (errmsg("flow \"%s\" begins without the rows that were in its source", flow->name),
					  errdetail("The source was truncated, at version " INT64_FORMAT ", before they were copied.", version)));
	return true;
}

/*
 * Makes the first copy, or a refreshed one, or all that a flow does that runs once. In a READ
 * COMMITTED transaction, within SPI, under the flow's lock.
 */
void
scd2_append_copy(Scd2Flow *flow, Scd2FlowState *state)
{
	TimestampTz started = GetCurrentTimestamp();
	bool		alone = scd2_has_target_for_itself(flow, state->fresh);
	Scd2Work   *work = scd2_work_begin(flow);

	if (alone)
		scd2_delete_all(flow);
	scd2_lock_source(flow);
	if (!was_truncated(flow, state))
		read_source(work, state);
	scd2_work_write(work);
	scd2_work_end(work);
	scd2_state_advance(state, work, started, state->begin_version, state->begin_timestamp);
	scd2_state_begun(state, flow->once);
}
