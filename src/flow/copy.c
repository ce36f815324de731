/*
 * copy.c
 *		The first copy: a target as its source was at the flow's beginning, without blocking anybody.
 *
 * The beginning is version V of time T. In one READ COMMITTED transaction:
 *
 *   1. the source's rows as snapshot S sees them go into the target. S is taken when the source is locked and all of V is visible, so S shows the source at V or later;
 *   2. capture passes the end of the log as it was after S: now the feed has every transaction that S saw;
 *   3. what S saw of versions after V is undone by the images in the feed (events.c says how).
 *
 * The target is the source at V now, valid since T, and every later version is applied once. A row
 * that a transaction changed that S did not see was copied as it was before.
 *
 * A TRUNCATE does not say what it took, so one that S saw cannot be undone: the flow begins right
 * after it instead, and says so. A full refresh is the same with a target that has rows: they are
 * deleted in the same transaction, so readers see the old ones until it commits. After a TRUNCATE
 * it fails, for it would lose history that is there.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "tcop/dest.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"

#include "believed.h"
#include "compat.h"
#include "flow/append.h"
#include "flow/apply.h"
#include "flow/direct.h"
#include "flow/sqltext.h"
#include "flow/lateness.h"
#include "flow/marks.h"
#include "flow/relations.h"
#include "flow/statements.h"
#include "identity.h"
#include "worker/sync.h"
#include "worker/worker.h"

static TimestampTz
enabled_at(Scd2Flow *flow)
{
	Oid			types[] = {INT4OID};
	Datum		args[] = {Int32GetDatum(flow->feed_id)};
	bool		isnull;

	if (SPI_execute_with_args("SELECT enabled_at FROM scd2_internal.feed_state WHERE feed_id = $1", 1, types, args, NULL, true, 1) != SPI_OK_SELECT ||
		SPI_processed != 1)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("feed %s is not enabled", flow->feed_sql)));
	return DatumGetTimestampTz(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
}

/*
 * Time of a version, as the feed tells it: of its last change at or before it, or (given) of its
 * enabling. As the owner, as all that looks into users' tables.
 */
static TimestampTz
version_timestamp(Scd2Flow *flow, int64 version, TimestampTz enabled)
{
	StringInfoData sql;
	Oid			types[] = {INT8OID, TIMESTAMPTZOID};
	Datum		args[] = {Int64GetDatum(version), TimestampTzGetDatum(enabled)};
	bool		isnull;

	initStringInfo(&sql);
	scd2_sql(&sql, "SELECT COALESCE(max(_commit_timestamp), $2) FROM %s WHERE _commit_version <= $1", flow->feed_sql);
	if (SPI_execute_with_args(sql.data, 2, types, args, NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read the feed");
	return DatumGetTimestampTz(scd2_result_value(0, 1, TIMESTAMPTZOID, &isnull));
}

/* Those of the flow's expression, until scd2_work_end(). */
static void
use_settings(Scd2Flow *flow)
{
	scd2_use_written_settings(flow->settings);
	/* These statements read whole tables. */
	(void) set_config_option("enable_seqscan", "on", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	(void) set_config_option("enable_hashjoin", "on", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

void
scd2_delete_all(Scd2Flow *flow)
{
	StringInfoData sql;

	initStringInfo(&sql);
	scd2_sql(&sql, "DELETE FROM ONLY %s", flow->target_sql);
	if (SPI_execute(sql.data, false, 0) != SPI_OK_DELETE)
		elog(ERROR, "could not empty the target");
}

/* Takes the source's rows straight into a plain target. */
typedef struct CopyReceiver
{
	DestReceiver pub;
	Scd2Work   *work;
} CopyReceiver;

static bool
receive_row(TupleTableSlot *slot, DestReceiver *self)
{
	Scd2Work   *work = ((CopyReceiver *) self)->work;
	Scd2Image	image;
	Scd2Change	change = {.kind = SCD2_ROW_INSERT, .open = true, .image = &image};

	slot_getallattrs(slot);
	image.values = slot->tts_values;
	image.isnull = slot->tts_isnull;
	if (work->flow->scd_type == 2)
		change.start = slot->tts_values[work->flow->shape.ncolumns];
	scd2_direct_insert(work->direct, &change);
	return true;
}

/* The plan reads the columns as they are now. */
static void
begin_rows(DestReceiver *self, int operation, TupleDesc desc)
{
	static const Oid start[] = {TIMESTAMPTZOID};
	Scd2Flow   *flow = ((CopyReceiver *) self)->work->flow;

	scd2_check_columns_read(flow, desc, 0, NULL, flow->scd_type == 2 ? 1 : 0, start);
}

static void
end_rows(DestReceiver *self)
{
}

/* The rows that the active snapshot sees. */
static void
copy_rows(Scd2Work *work, TimestampTz beginning)
{
	Oid			types[] = {TIMESTAMPTZOID};
	Datum		args[] = {TimestampTzGetDatum(beginning)};
	CopyReceiver receiver = {
		.pub = {.receiveSlot = receive_row, .rStartup = begin_rows, .rShutdown = end_rows, .rDestroy = end_rows, .mydest = DestNone},
		.work = work
	};
	SPIPlanPtr	plan = SPI_prepare(scd2_copy_sql(work->flow, work->direct == NULL), 1, types);

	if (plan == NULL)
		elog(ERROR, "could not prepare the copy: %s", SPI_result_code_string(SPI_result));
	if (work->direct == NULL)
	{
		if (SPI_execute_snapshot(plan, args, NULL, GetActiveSnapshot(), InvalidSnapshot, false, true, 0) != SPI_OK_INSERT)
			elog(ERROR, "could not copy");
		work->inserted += SPI_processed;
	}
	else
	{
		/* Read-only: what uses the active snapshot. */
		SPIExecuteOptions options = {.read_only = true, .dest = &receiver.pub};

		options.params = scd2_params(plan, 1, args);
		if (SPI_execute_plan_extended(plan, &options) < 0)
			elog(ERROR, "could not copy");
		scd2_direct_flush(work->direct);
	}
}

/* A name in the source must mean what it means in the feed: capture may be behind a renaming. */
static void
check_columns(Scd2Flow *flow)
{
	Oid			types[] = {INT4OID};
	Datum		args[] = {Int32GetDatum(flow->flow_id)};
	Scd2Identity owner;

	scd2_become(BOOTSTRAP_SUPERUSERID, &owner);
	if (SPI_execute_with_args("SELECT scd2_internal.check_columns_followed($1)", 1, types, args, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not call scd2_internal.check_columns_followed()");
	scd2_become_self_again(&owner);
}

/*
 * Before S is taken: a TRUNCATE or a rewrite that commits while we wait for its lock would empty
 * the table for an S that is older. With the lock in hand S sees it, or it comes after us.
 */
void
scd2_lock_source(Scd2Flow *flow)
{
	LockRelationOid(flow->source, AccessShareLock);
	if (flow->source_partitioned)
		list_free(find_all_inheritors(flow->source, AccessShareLock, NULL));
	if (flow->feed_id != 0)
		check_columns(flow);
}

/* Step 1. Returns S, as text. */
static char *
copy_under_snapshot(Scd2Work *work, TimestampTz beginning)
{
	char	   *snapshot;

	PushActiveSnapshot(GetTransactionSnapshot());
	if (SPI_execute("SELECT pg_current_snapshot()", true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not get the snapshot");
	snapshot = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	copy_rows(work, beginning);
	PopActiveSnapshot();
	CommandCounterIncrement();
	return snapshot;
}

/* Does a query on catalogs of ours, to which the flow's owner has no right, say something of the flow's feed? */
static bool
is_so(Scd2Flow *flow, const char *sql, int64 version)
{
	Oid			types[] = {INT4OID, INT8OID};
	Datum		args[] = {Int32GetDatum(flow->feed_id), Int64GetDatum(version)};
	Scd2Identity self;

	scd2_become(BOOTSTRAP_SUPERUSERID, &self);
	if (SPI_execute_with_args(sql, 2, types, args, NULL, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not execute \"%s\"", sql);
	scd2_become_self_again(&self);
	return SPI_processed > 0;
}

/* Do we keep capture from writing the feed? */
static bool
keeps_feed_locked(Scd2Flow *flow)
{
	return is_so(flow, "SELECT FROM scd2_internal.feed f WHERE f.feed_id = $1 AND $2 = 0 AND scd2_internal.keeps_feed_locked(f)", 0);
}

/* Capture may be kept from what it does by a lock of ours, or by somebody (a VACUUM FULL of the feed) who waits for one. */
static void
give_way(Scd2Flow *flow)
{
	if (scd2_worker_behind_us(false) != NULL || keeps_feed_locked(flow))
		ereport(ERROR, (errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
						errmsg("first copy of flow \"%s\" gives way: capture, which it waits for, waits for a lock of its own", flow->name)));
}

/* Has the flow's feed everything up to a version, or does something of it wait to be written? */
static bool
is_complete(Scd2Flow *flow, int64 version)
{
	return is_so(flow, "SELECT WHERE NOT scd2_internal.feed_is_behind($1, $2)", version);
}

/*
 * Step 2. It takes as long as capture takes, to reach the place and to write what it read into the feed;
 * if the workers are told to look whether they are wanted, the copy ends, so that they can. Returns a
 * version that everything seen is not behind of, and that the feed has.
 */
static int64
wait_for_capture(Scd2Flow *flow)
{
	Scd2Database *db = scd2_my_database();
	uint32		recheck = pg_atomic_read_u32(&db->recheck);
	XLogRecPtr	end = scd2_flushed_end();
	int64		version = -1;

	pgstat_report_activity(STATE_RUNNING, "first copy: waiting for capture");
	scd2_wake_capture(end);
	for (;;)
	{
		if (version < 0 && pg_atomic_read_u64(&db->captured_lsn) >= end)
			version = (int64) pg_atomic_read_u64(&db->version);
		if (version >= 0 && is_complete(flow, version))
			break;
		if (ConditionVariableTimedSleep(&db->progress, 100, PG_WAIT_EXTENSION))
		{
			ConditionVariableCancelSleep();
			give_way(flow);
		}
		CHECK_FOR_INTERRUPTS();
		if (pg_atomic_read_u32(&db->recheck) != recheck)
			ereport(ERROR, (errcode(ERRCODE_OPERATOR_INTERVENTION),
							errmsg("first copy interrupted: the workers may have to stop")));
		scd2_wake_capture(end);
	}
	ConditionVariableCancelSleep();
	return version;
}

/* The last TRUNCATE after version V that S saw; false if there is none. */
bool
scd2_last_truncate_seen(Scd2Flow *flow, int64 version, Datum snapshot, int64 *truncate, TimestampTz *truncated_at)
{
	StringInfoData sql;
	Oid			types[] = {INT8OID, PG_SNAPSHOTOID};
	Datum		args[] = {Int64GetDatum(version), snapshot};
	bool		isnull;

	initStringInfo(&sql);
	scd2_sql(&sql, "SELECT _commit_version, _commit_timestamp FROM %s WHERE _commit_version > $1 AND _change_type = 'truncate'"
			 " AND ", flow->feed_sql);
	scd2_append_seen(&sql, flow, 2);
	scd2_sql(&sql, " ORDER BY _commit_version DESC LIMIT 1");
	if (SPI_execute_with_args(sql.data, 2, types, args, NULL, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read the feed");
	if (SPI_processed == 0)
		return false;
	*truncate = DatumGetInt64(scd2_result_value(0, 1, INT8OID, &isnull));
	*truncated_at = DatumGetTimestampTz(scd2_result_value(0, 2, TIMESTAMPTZOID, &isnull));
	return true;
}

static void
begin_after_truncate(Scd2Flow *flow, Scd2FlowState *state, int64 version, TimestampTz at)
{
	if (state->fresh && flow->starting_version >= 0)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("flow \"%s\" cannot begin at version " INT64_FORMAT, flow->name, state->begin_version),
						errdetail("A TRUNCATE at version " INT64_FORMAT " does not say which rows it took.", version),
						errhint("SELECT scd2.drop_flow(%s, drop_target => true); -- then create it with starting_version => " INT64_FORMAT ", or without", quote_literal_cstr(flow->name), version)));
	/* A refresh was asked for that loses nothing; what readers see is still whole. */
	if (!state->fresh)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("a full refresh of %s would lose history", flow->target_sql),
						errdetail("Its source was truncated at version " INT64_FORMAT ", after the refresh was asked for.", version),
						errhint("SELECT scd2.full_refresh(%s, allow_loss => true);", quote_literal_cstr(flow->target_sql))));
	ereport(WARNING, (errmsg("flow \"%s\" begins at version " INT64_FORMAT " instead of " INT64_FORMAT,
							 flow->name, version, state->begin_version),
					  errdetail("The source was truncated before its rows were copied.")));
	state->begin_version = version;
	state->begin_timestamp = at;
}

/* ---- event tables ---- */

/*
 * May the copy empty the target? Not of another flow's events; in a full refresh the first of them empties
 * it. And a flow that never copied has put nothing there: what is in the target, or remembered of it, comes
 * from flows that are gone.
 */
bool
scd2_has_target_for_itself(Scd2Flow *flow, bool fresh)
{
	Oid			types[] = {INT4OID, OIDOID, BOOLOID, OIDOID};
	Datum		args[] = {Int32GetDatum(flow->flow_id), ObjectIdGetDatum(flow->target), BoolGetDatum(fresh), ObjectIdGetDatum(flow->memory)};

	if (SPI_execute_with_args("SELECT FROM scd2_internal.flow AS f JOIN scd2_internal.flow_state AS s USING (flow_id)"
							  " WHERE f.target_relid = $2 AND f.flow_id <> $1 AND (s.rereads OR coalesce(s.failed_phase, s.phase) <> 'copy')"
							  " UNION ALL SELECT FROM scd2_internal.mark AS m WHERE $3 AND m.target_relid = $2"
							  " UNION ALL SELECT WHERE $3 AND (scd2_internal.has_rows($2) OR $4 <> 0 AND scd2_internal.has_rows($4))",
							  4, types, args, NULL, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not look for other flows");
	return SPI_processed == 0;
}

static void
forget_rejected(Scd2Flow *flow)
{
	Oid			types[] = {INT4OID};
	Datum		args[] = {Int32GetDatum(flow->flow_id)};

	if (SPI_execute_with_args("DELETE FROM scd2_internal.rejected WHERE flow_id = $1", 1, types, args, NULL, false, 0) != SPI_OK_DELETE)
		elog(ERROR, "could not forget");
}

/*
 * Nothing is remembered of the target's truncates and snapshots any more.
 */
void
scd2_forget_marks(Scd2Flow *flow)
{
	Oid			types[] = {INT4OID};
	Datum		args[] = {Int32GetDatum(flow->flow_id)};

	if (SPI_execute_with_args("DELETE FROM scd2_internal.mark AS m USING scd2_internal.flow AS f WHERE f.flow_id = $1 AND m.target_relid = f.target_relid",
							  1, types, args, NULL, false, 0) != SPI_OK_DELETE)
		elog(ERROR, "could not forget");
	flow->marks = NULL;
	flow->nmarks = 0;
	flow->marks_upto = 0;
}

static void
delete_memory(Scd2Flow *flow)
{
	StringInfoData sql;

	initStringInfo(&sql);
	scd2_sql(&sql, "DELETE FROM ONLY %s", flow->memory_sql);
	if (SPI_execute(sql.data, false, 0) != SPI_OK_DELETE)
		elog(ERROR, "could not empty the memory");
}

/*
 * Target and memory without rows; as the owner.
 */
void
scd2_empty_target(Scd2Flow *flow)
{
	scd2_delete_all(flow);
	if (OidIsValid(flow->memory))
		delete_memory(flow);
}

/* What became of the rows that were there at the flow's beginning, as far as S sees. */
typedef enum RowsFate
{
	ROWS_STAYED,
	ROWS_CHANGED,				/* some were updated or deleted */
	ROWS_TRUNCATED
} RowsFate;

/* After capture has passed S. Nobody who cleans up his event table soon takes events away with it. */
static RowsFate
fate_of_rows(Scd2Flow *flow, int64 version, Datum snapshot)
{
	StringInfoData sql;
	Oid			types[] = {INT8OID, PG_SNAPSHOTOID};
	Datum		args[] = {Int64GetDatum(version), snapshot};
	RowsFate	fate = ROWS_STAYED;
	bool		isnull;

	initStringInfo(&sql);
	scd2_sql(&sql, "SELECT _change_type = 'truncate' FROM %s WHERE _commit_version > $1 AND _change_type <> 'insert'"
			 " AND ", flow->feed_sql);
	scd2_append_seen(&sql, flow, 2);
	scd2_sql(&sql, " ORDER BY 1 DESC LIMIT 1");
	if (SPI_execute_with_args(sql.data, 2, types, args, NULL, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read the feed");
	if (SPI_processed > 0)
		fate = DatumGetBool(scd2_result_value(0, 1, BOOLOID, &isnull)) ? ROWS_TRUNCATED : ROWS_CHANGED;
	return fate;
}

/* The events that were there at the flow's beginning, by undoing what came since. */
static void
read_first_events(Scd2Work *work, int64 version)
{
	Datum		args[] = {Int64GetDatum(version)};

	work->flow->from_beginning = true;
	work->flow->stale = true;	/* what is prepared for that is of no use later */
	scd2_read_arrivals(work, SCD2_READ_SOURCE, 1, args);
	work->flow->from_beginning = false;
}

/*
 * The events that are there, as the snapshot S sees them; returns S. Of a flow that is new ("fate"
 * is asked for), those that were there when it began: rows that somebody changed since, before S was
 * taken, count as they were, and what a TRUNCATE took is lost.
 */
static Datum
read_source_events(Scd2Work *work, int64 version, RowsFate *fate)
{
	Scd2Flow   *flow = work->flow;
	Datum		snapshot;

	PushActiveSnapshot(GetTransactionSnapshot());
	snapshot = OidFunctionCall0(F_PG_CURRENT_SNAPSHOT);
	if (fate != NULL)
	{
		(void) wait_for_capture(flow);
		*fate = fate_of_rows(flow, version, snapshot);
	}
	if (fate == NULL || *fate == ROWS_STAYED)
		scd2_read_arrivals(work, SCD2_READ_SOURCE, 0, NULL);
	PopActiveSnapshot();
	if (fate != NULL && *fate == ROWS_CHANGED)
		read_first_events(work, version);
	if (fate != NULL && *fate == ROWS_TRUNCATED)
		ereport(WARNING, (errmsg("flow \"%s\" begins without the events that were there", flow->name),
						  errdetail("The source was truncated before they were read.")));
	scd2_read_cuts(work);
	scd2_work_write(work);
	scd2_work_again(work);
	return snapshot;
}

/*
 * Rows that are there are events like any: they go through the timeline, and so do those that came
 * into the feed meanwhile and that S does not see. All that was captured before S was taken is
 * visible in it, so the feed is read from there on; order does not matter. (If rows were changed
 * since the flow's beginning, all that came after that is left to batches.)
 *
 * After a gap of the feed the events that are there are read again, and what the target has stays:
 * those that it has are duplicates, the others were missed.
 */
static void
copy_events(Scd2Flow *flow, Scd2FlowState *state)
{
	TimestampTz started = GetCurrentTimestamp();
	int64		captured = (int64) pg_atomic_read_u64(&scd2_my_database()->version);
	bool		alone = !state->rereads && scd2_has_target_for_itself(flow, state->fresh);
	RowsFate	fate = ROWS_STAYED;
	Scd2Work   *work;
	Datum		args[4];

	flow->rereads = state->rereads;
	if (!flow->rereads)
	{
		forget_rejected(flow);
		scd2_lateness_begin(flow, !alone && state->fresh);	/* (A full refresh makes one set of all.) */
	}
	else if (flow->max_lateness != NULL)
		scd2_lateness_load(flow);
	if (alone)
		scd2_forget_marks(flow);
	else
		scd2_load_marks(flow);
	work = scd2_work_begin(flow);
	scd2_lateness_joined(work);
	if (alone)
		scd2_empty_target(flow);
	scd2_lock_source(flow);
	args[2] = read_source_events(work, state->begin_version, state->fresh && !flow->once ? &fate : NULL);
	args[1] = Int64GetDatum(state->begin_version);
	if (!flow->once && fate == ROWS_STAYED)
	{
		args[1] = Int64GetDatum(wait_for_capture(flow));
		args[0] = Int64GetDatum(Max(captured, state->begin_version));
		args[3] = TimestampTzGetDatum(state->begin_timestamp);
		scd2_read_arrivals(work, SCD2_READ_SEEN, 4, args);
	}
	scd2_finish_arrivals(work);
	scd2_state_advance(state, work, started, Max(DatumGetInt64(args[1]), state->begin_version),
					   work->last_version >= 0 ? work->last_timestamp : state->watermark_timestamp);
	scd2_state_begun(state, flow->once);
	flow->rereads = state->rereads = false;
}

/*
 * If the flow begins with a commit, what others took away in that commit yields to its rows, as to
 * what the commit brought (arrivals.c).
 */
static void
place_copy(Scd2Work *work, const Scd2FlowState *state)
{
	Scd2Flow   *flow = work->flow;

	if (flow->closes && flow->shape.ignores_null != NULL &&
		version_timestamp(flow, state->begin_version, 0) == state->begin_timestamp)
		work->copied_at = (Scd2Place){.version = state->begin_version, .ordinal = 1};
}

/*
 * A feed with a sequence of its own: the rows at the flow's beginning are upserts, and every later
 * version is applied in batches.
 */
static void
copy_changes(Scd2Flow *flow, Scd2FlowState *state)
{
	TimestampTz started = GetCurrentTimestamp();
	bool		from_past = state->fresh && flow->starting_version >= 0;
	bool		alone = scd2_has_target_for_itself(flow, state->fresh);
	TimestampTz enabled = from_past ? enabled_at(flow) : 0;
	int64		truncate;
	TimestampTz truncated_at;
	Scd2Work   *work;
	Datum		args[2];

	forget_rejected(flow);
	scd2_lateness_begin(flow, !alone && state->fresh);
	if (alone)
		scd2_forget_marks(flow);
	else
		scd2_load_marks(flow);
	work = scd2_work_begin(flow);
	scd2_lateness_joined(work);
	if (from_past)
	{
		state->begin_version = flow->starting_version;
		state->begin_timestamp = version_timestamp(flow, flow->starting_version, enabled);
	}
	if (alone)
		scd2_empty_target(flow);
	scd2_lock_source(flow);
	if (scd2_last_truncate_seen(flow, state->begin_version, OidFunctionCall0(F_PG_CURRENT_SNAPSHOT), &truncate, &truncated_at))
		begin_after_truncate(flow, state, truncate, truncated_at);
	place_copy(work, state);
	args[0] = Int64GetDatum(state->begin_version);
	args[1] = TimestampTzGetDatum(state->begin_timestamp);
	scd2_read_arrivals(work, SCD2_READ_SOURCE, 2, args);
	scd2_finish_arrivals(work);
	scd2_state_advance(state, work, started, state->begin_version, state->begin_timestamp);
	scd2_state_begun(state, false);
}

/*
 * Makes the first copy, or a refreshed one. In a READ COMMITTED transaction, within SPI, under the
 * flow's lock.
 */
void
scd2_first_copy(Scd2Flow *flow, Scd2FlowState *state)
{
	Scd2Work   *work;
	int64		truncate;
	TimestampTz truncated_at;
	char	   *snapshot_text;
	Datum		snapshot;
	Datum		args[4];
	bool		from_past = state->fresh && flow->starting_version >= 0;
	TimestampTz enabled = from_past ? enabled_at(flow) : 0;

	if (!OidIsValid(flow->source))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
						errmsg("source \"%s\" of flow \"%s\" does not exist", flow->source_alias, flow->name)));
	if (flow->input != SCD2_NET)
	{
		if (flow->input == SCD2_APPEND)
			scd2_append_copy(flow, state);
		else if (flow->input == SCD2_EVENTS)
			copy_events(flow, state);
		else
			copy_changes(flow, state);
		return;
	}
	work = scd2_work_begin(flow);
	use_settings(flow);
	if (from_past)
	{
		state->begin_version = flow->starting_version;
		state->begin_timestamp = version_timestamp(flow, flow->starting_version, enabled);
	}
	scd2_lock_source(flow);
	for (bool again = !state->fresh;; again = true)
	{
		if (again)
			scd2_delete_all(flow);
		work->inserted = 0;
		snapshot_text = copy_under_snapshot(work, state->begin_timestamp);
		(void) wait_for_capture(flow);
		snapshot = OidFunctionCall1(F_PG_SNAPSHOT_IN, CStringGetDatum(snapshot_text));
		if (!scd2_last_truncate_seen(flow, state->begin_version, snapshot, &truncate, &truncated_at))
			break;
		begin_after_truncate(flow, state, truncate, truncated_at);
	}
	args[0] = Int64GetDatum(state->begin_version);
	args[1] = Int64GetDatum(PG_INT64_MAX);
	args[2] = snapshot;
	args[3] = TimestampTzGetDatum(state->begin_timestamp);
	scd2_read_events(work, SCD2_READ_SEEN, 4, args);
	scd2_work_write(work);
	scd2_work_end(work);
	scd2_state_copied(state, work->inserted - work->deleted);
}
