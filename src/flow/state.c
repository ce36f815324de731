/*
 * state.c
 *		A flow's state, as the workers keep it.
 *
 * A thousand batches a second update one row. It is found by its place: by key, each update would
 * go through all versions that an old snapshot keeps alive (measured: 6 µs become 884 µs after
 * 100,000 updates). Whoever else moves the row (resume_flow, full_refresh, VACUUM FULL) makes us
 * find it by key once.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "flow/state.h"

#define BATCHES_KEPT	100

static SPIPlanPtr
prepared(SPIPlanPtr *plan, const char *sql, int nargs, Oid *types)
{
	if (*plan == NULL)
	{
		*plan = SPI_prepare(sql, nargs, types);
		if (*plan == NULL)
			elog(ERROR, "could not prepare \"%s\": %s", sql, SPI_result_code_string(SPI_result));
		SPI_keepplan(*plan);
	}
	return *plan;
}

#define READ_STATE \
	"SELECT s.ctid, s.phase, f.definition, f.paused, s.begin_version, s.begin_timestamp," \
	"       s.watermark_version, s.watermark_timestamp, s.batches, s.failures, s.retry_at, s.last_batch IS NULL," \
	"       e.broken_at, s.snapshot_at, GREATEST(e.repaired_version, d.version, 0), s.rereads, k.complete_version," \
	"       GREATEST(r.earliest_version, CASE WHEN e.removed_at IS NOT NULL THEN e.earliest_version END, 0)" \
	" FROM scd2_internal.flow_state AS s JOIN scd2_internal.flow AS f USING (flow_id)" \
	" LEFT JOIN scd2_internal.feed_state AS e ON e.feed_id = f.feed_id" \
	" LEFT JOIN scd2_internal.removal AS r ON r.feed_id = f.feed_id LEFT JOIN scd2_internal.disorder AS d ON d.feed_id = f.feed_id" \
	" LEFT JOIN scd2_internal.feed_backlog AS k ON k.feed_id = f.feed_id WHERE s.flow_id = $1"

static Datum
column(int n, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, n, isnull);
}

/*
 * Reads the state anew; false if there is none. Within SPI. Under the flow's lock, what it says stays so.
 */
bool
scd2_state_read(Scd2FlowState *state)
{
	static SPIPlanPtr by_place = NULL;
	static SPIPlanPtr by_key = NULL;
	Oid			types[] = {INT4OID, TIDOID};
	Datum		args[] = {Int32GetDatum(state->flow_id), PointerGetDatum(&state->tid)};
	bool		isnull;

	SPI_processed = 0;
	if (ItemPointerIsValid(&state->tid))
		(void) SPI_execute_plan(prepared(&by_place, READ_STATE " AND s.ctid = $2", 2, types), args, NULL, false, 1);
	if (SPI_processed == 0)
		(void) SPI_execute_plan(prepared(&by_key, READ_STATE, 1, types), args, NULL, false, 1);
	if (SPI_processed == 0)
		return false;
	state->tid = *(ItemPointer) DatumGetPointer(column(1, &isnull));
	state->phase = *VARDATA_ANY(DatumGetPointer(column(2, &isnull)));
	state->definition = DatumGetInt32(column(3, &isnull));
	state->paused = DatumGetBool(column(4, &isnull));
	state->begin_version = DatumGetInt64(column(5, &isnull));
	state->begin_timestamp = DatumGetTimestampTz(column(6, &isnull));
	state->watermark_version = DatumGetInt64(column(7, &isnull));
	state->watermark_timestamp = DatumGetTimestampTz(column(8, &isnull));
	state->batches = DatumGetInt64(column(9, &isnull));
	state->failures = DatumGetInt32(column(10, &isnull));
	state->retry_at = DatumGetTimestampTz(column(11, &isnull));
	if (isnull)
		state->retry_at = 0;
	state->fresh = DatumGetBool(column(12, &isnull));
	state->gap = DatumGetInt64(column(13, &isnull));
	if (isnull)
		state->gap = PG_INT64_MAX;
	state->snapshot_at = DatumGetTimestampTz(column(14, &isnull));
	if (isnull)
		state->snapshot_at = 0;
	state->disordered = DatumGetInt64(column(15, &isnull));
	state->rereads = DatumGetBool(column(16, &isnull));
	state->complete = DatumGetInt64(column(17, &isnull));
	if (isnull)
		state->complete = PG_INT64_MAX;
	state->earliest = DatumGetInt64(column(18, &isnull));
	SPI_freetuptable(SPI_tuptable);
	return true;
}

static void
remember_batch(const Scd2FlowState *state, const Scd2Work *work, TimestampTz started, int64 first, int64 last)
{
	static SPIPlanPtr plan = NULL;
	Oid			types[] = {INT4OID, INT4OID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID};
	Datum		args[] = {
		Int32GetDatum(state->flow_id), Int32GetDatum(state->batches % BATCHES_KEPT),
		TimestampTzGetDatum(started), TimestampTzGetDatum(GetCurrentTimestamp()),
		Int64GetDatum(first), Int64GetDatum(last), Int64GetDatum(work->events),
		Int64GetDatum(work->inserted), Int64GetDatum(work->updated), Int64GetDatum(work->deleted)
	};

	if (SPI_execute_plan(prepared(&plan,
								  "INSERT INTO scd2_internal.batch AS b"
								  " (flow_id, slot, started, duration, first_version, last_version, events, rows_inserted, rows_updated, rows_deleted)"
								  " VALUES ($1, $2, $3, $4 - $3, $5, $6, $7, $8, $9, $10)"
								  " ON CONFLICT (flow_id, slot) DO UPDATE SET started = EXCLUDED.started, duration = EXCLUDED.duration,"
								  " first_version = EXCLUDED.first_version, last_version = EXCLUDED.last_version, events = EXCLUDED.events,"
								  " rows_inserted = EXCLUDED.rows_inserted, rows_updated = EXCLUDED.rows_updated, rows_deleted = EXCLUDED.rows_deleted",
								  10, types), args, NULL, false, 0) != SPI_OK_INSERT)
		elog(ERROR, "could not record the batch");
}

/* Where the state's row is by now: resume_flow() does not wait for a batch that is being applied. */
static void
find_place(Scd2FlowState *state)
{
	Oid			types[] = {INT4OID};
	Datum		args[] = {Int32GetDatum(state->flow_id)};
	bool		isnull;

	if (SPI_execute_with_args("SELECT ctid FROM scd2_internal.flow_state WHERE flow_id = $1", 1, types, args, NULL, false, 1) != SPI_OK_SELECT ||
		SPI_processed != 1)
		elog(ERROR, "state of flow %d is gone", state->flow_id);
	state->tid = *(ItemPointer) DatumGetPointer(column(1, &isnull));
	SPI_freetuptable(SPI_tuptable);
}

/*
 * Runs an UPDATE … RETURNING ctid of the state's row, whose first argument is its place, and keeps
 * the new place. Under the flow's lock.
 */
static void
update_state(Scd2FlowState *state, SPIPlanPtr plan, Datum *args, const char *nulls)
{
	bool		isnull;
	int			result = SPI_execute_plan(plan, args, nulls, false, 0);

	if (result == SPI_OK_UPDATE_RETURNING && SPI_processed == 0)
	{
		find_place(state);
		result = SPI_execute_plan(plan, args, nulls, false, 0);
	}
	if (result != SPI_OK_UPDATE_RETURNING || SPI_processed != 1)
		elog(ERROR, "could not update the state of flow %d", state->flow_id);
	state->tid = *(ItemPointer) DatumGetPointer(column(1, &isnull));
	SPI_freetuptable(SPI_tuptable);
}

/*
 * The batch is in the target: moves the watermark to "upto", in the same transaction. Within SPI,
 * after scd2_state_read().
 */
void
scd2_state_advance(Scd2FlowState *state, const Scd2Work *work, TimestampTz started, int64 upto, TimestampTz upto_timestamp)
{
	static SPIPlanPtr plan = NULL;
	Oid			types[] = {TIDOID, INT4OID, INT8OID, TIMESTAMPTZOID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, TEXTOID, TEXTOID, INT8OID};
	const char	nulls[] = {' ', ' ', ' ', ' ', ' ', ' ', ' ', ' ', ' ', ' ', ' ', ' ', ' ', work->highest ? ' ' : 'n', work->horizon ? ' ' : 'n', ' ', '\0'};
	Datum		args[] = {
		PointerGetDatum(&state->tid), Int32GetDatum(state->flow_id), Int64GetDatum(upto), TimestampTzGetDatum(upto_timestamp),
		Int64GetDatum(work->events), Int64GetDatum(work->inserted), Int64GetDatum(work->updated), Int64GetDatum(work->deleted),
		Int64GetDatum(work->duplicates), Int64GetDatum(work->out_of_order), Int64GetDatum(work->conflicts), Int64GetDatum(work->rejected),
		Int64GetDatum(work->too_late), work->highest ? CStringGetTextDatum(work->highest) : (Datum) 0, work->horizon ? CStringGetTextDatum(work->horizon) : (Datum) 0,
		Int64GetDatum(work->skipped)
	};

	update_state(state, prepared(&plan,
								 "UPDATE scd2_internal.flow_state SET watermark_version = $3, watermark_timestamp = $4, events = events + $5, applied = applied + $5 - $9 - $12 - $13 - $16, skipped = skipped + $16,"
								 " duplicates = duplicates + $9, out_of_order = out_of_order + $10, conflicts = conflicts + $11, rejected = rejected + $12,"
								 " too_late = too_late + $13, highest = COALESCE($14, highest), horizon = COALESCE($15, horizon),"
								 " rows_inserted = rows_inserted + $6, rows_updated = rows_updated + $7, rows_deleted = rows_deleted + $8,"
								 " batches = batches + 1, last_batch = clock_timestamp(), failures = 0, retry_at = NULL"
								 " WHERE ctid = $1 AND flow_id = $2 RETURNING ctid", 16, types), args, nulls);
	remember_batch(state, work, started, state->watermark_version + 1, upto);
	state->watermark_version = upto;
	state->watermark_timestamp = upto_timestamp;
	state->batches++;
	state->failures = 0;
	state->retry_at = 0;
}

/* A gap that was declared while the copy was made: what it saw is not what the feed tells. */
static void
check_no_gap(const Scd2FlowState *state)
{
	Oid			types[] = {INT4OID};
	Datum		args[] = {Int32GetDatum(state->flow_id)};

	if (SPI_execute_with_args("SELECT FROM scd2_internal.flow AS f JOIN scd2_internal.feed_state AS e USING (feed_id)"
							  " WHERE f.flow_id = $1 AND e.broken_at IS NOT NULL", 1, types, args, NULL, false, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read scd2_internal.feed_state");
	if (SPI_processed > 0)
		ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
						errmsg("the feed got a gap while its source was copied")));
}

/*
 * The first copy is in the target, which is now the source as of the state's beginning.
 */
void
scd2_state_copied(Scd2FlowState *state, int64 rows)
{
	static SPIPlanPtr plan = NULL;
	Oid			types[] = {TIDOID, INT4OID, INT8OID, TIMESTAMPTZOID, INT8OID};
	Datum		args[] = {
		PointerGetDatum(&state->tid), Int32GetDatum(state->flow_id),
		Int64GetDatum(state->begin_version), TimestampTzGetDatum(state->begin_timestamp), Int64GetDatum(rows)
	};

	check_no_gap(state);
	update_state(state, prepared(&plan,
								 "UPDATE scd2_internal.flow_state SET phase = 'apply', begin_version = $3, begin_timestamp = $4,"
								 " watermark_version = $3, watermark_timestamp = $4, rows_inserted = rows_inserted + $5,"
								 " last_batch = clock_timestamp(), failures = 0, retry_at = NULL"
								 " WHERE ctid = $1 AND flow_id = $2 RETURNING ctid", 5, types), args, NULL);
	state->phase = 'a';
	state->watermark_version = state->begin_version;
	state->watermark_timestamp = state->begin_timestamp;
	state->failures = 0;
	state->retry_at = 0;
}

/*
 * The events that were there are in the target: from now on batches are applied, unless that was
 * all ("done"). scd2_state_advance() has said how far it is.
 */
void
scd2_state_begun(Scd2FlowState *state, bool done)
{
	static SPIPlanPtr plan = NULL;
	Oid			types[] = {TIDOID, INT4OID, INT8OID, TIMESTAMPTZOID, BOOLOID};
	Datum		args[] = {
		PointerGetDatum(&state->tid), Int32GetDatum(state->flow_id), Int64GetDatum(state->begin_version), TimestampTzGetDatum(state->begin_timestamp),
		BoolGetDatum(done)
	};

	check_no_gap(state);
	update_state(state, prepared(&plan, "UPDATE scd2_internal.flow_state SET phase = CASE WHEN $5 THEN 'done' ELSE 'apply' END, rereads = false,"
								 " finished_at = CASE WHEN $5 THEN clock_timestamp() END, begin_version = $3, begin_timestamp = $4"
								 " WHERE ctid = $1 AND flow_id = $2 RETURNING ctid", 5, types), args, NULL);
	state->phase = done ? 'd' : 'a';
}

/*
 * A snapshot of this version, taken at "started", is in the target; "timestamp" is what stands for
 * it in time. Without "work", there was none to take. "done": it was the only one.
 */
void
scd2_state_snapshot(Scd2FlowState *state, const Scd2Work *work, TimestampTz started, const char *version, TimestampTz timestamp, bool done)
{
	static SPIPlanPtr plan = NULL;
	static const Scd2Work nothing = {0};
	Oid			types[] = {TIDOID, INT4OID, TIMESTAMPTZOID, TEXTOID, TIMESTAMPTZOID, BOOLOID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID, INT8OID};
	const Scd2Work *w = work != NULL ? work : &nothing;
	char		nulls[] = "             ";
	Datum		args[] = {
		PointerGetDatum(&state->tid), Int32GetDatum(state->flow_id), TimestampTzGetDatum(started), (Datum) 0, TimestampTzGetDatum(timestamp), BoolGetDatum(done),
		Int64GetDatum(w->events), Int64GetDatum(w->inserted), Int64GetDatum(w->updated), Int64GetDatum(w->deleted),
		Int64GetDatum(w->duplicates), Int64GetDatum(w->out_of_order), Int64GetDatum(w->conflicts)
	};

	if (work != NULL)
		args[3] = CStringGetTextDatum(version);
	else
		nulls[3] = nulls[4] = 'n';
	update_state(state, prepared(&plan,
								 "UPDATE scd2_internal.flow_state SET snapshot_at = $3, snapshot_version = coalesce($4, snapshot_version), watermark_timestamp = coalesce($5, watermark_timestamp),"
								 " events = events + $7, applied = applied + $7 - $11, duplicates = duplicates + $11, out_of_order = out_of_order + $12, conflicts = conflicts + $13,"
								 " rows_inserted = rows_inserted + $8, rows_updated = rows_updated + $9, rows_deleted = rows_deleted + $10,"
								 " batches = batches + CASE WHEN $4 IS NULL THEN 0 ELSE 1 END, last_batch = CASE WHEN $4 IS NULL THEN last_batch ELSE clock_timestamp() END,"
								 " phase = CASE WHEN $6 THEN 'done' ELSE 'apply' END, finished_at = CASE WHEN $6 THEN clock_timestamp() END, failed_phase = NULL, failures = 0, retry_at = NULL"
								 " WHERE ctid = $1 AND flow_id = $2 RETURNING ctid", 13, types), args, nulls);
	if (work != NULL)
	{
		remember_batch(state, work, started, 0, 0);
		state->batches++;
	}
	state->phase = done ? 'd' : 'a';
	state->snapshot_at = started;
	state->failures = 0;
	state->retry_at = 0;
}

/*
 * Errors that may pass by themselves: conflicts, resources, operators.
 */
bool
scd2_state_is_transient(int sqlerrcode)
{
	int			category = ERRCODE_TO_CATEGORY(sqlerrcode);

	return category == ERRCODE_TRANSACTION_ROLLBACK || category == ERRCODE_INSUFFICIENT_RESOURCES ||
		category == ERRCODE_OPERATOR_INTERVENTION;
}

static char *
error_text(const ErrorData *error, int64 version)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfo(&text, "%s: %s", unpack_sql_state(error->sqlerrcode), error->message);
	if (version >= 0)
		appendStringInfo(&text, " (at version " INT64_FORMAT ")", version);
	if (error->detail != NULL)
		appendStringInfo(&text, " - %s", error->detail);
	return text.data;
}

/*
 * How many failures in a row are the last: 3, or 8 of conflicts. Waiting for a lock on the target,
 * for space or memory, or for what an operator does, is not for us to give up.
 */
static int
failures_allowed(int sqlerrcode)
{
	if (ERRCODE_TO_CATEGORY(sqlerrcode) == ERRCODE_TRANSACTION_ROLLBACK)
		return 8;
	return sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE || scd2_state_is_transient(sqlerrcode) ? INT_MAX : 3;
}

/*
 * Records an error in a transaction of its own, begun by the caller: backs off 1, 2, 4 … 60 s
 * (waiting for a lock: 5 s), and at last gives up, unless the error "passes" when somebody does
 * something about it. "version" was in work, -1: none.
 */
void
scd2_state_failed(Scd2FlowState *state, const ErrorData *error, int64 version, bool passes)
{
	Oid			types[] = {INT4OID, TEXTOID, INT4OID, INT4OID, TIMESTAMPTZOID};
	TimestampTz now = GetCurrentTimestamp();
	int			failures = state->failures + 1;
	bool		gives_up = !passes && failures >= failures_allowed(error->sqlerrcode);
	int64		longest = error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE ? 5 : 60;
	int64		pause = Min(longest, INT64CONST(1) << Min(failures - 1, 6)) * USECS_PER_SEC;
	Datum		args[] = {
		Int32GetDatum(state->flow_id), CStringGetTextDatum(error_text(error, version)), Int32GetDatum(failures),
		Int32GetDatum(gives_up ? 1 : 0), TimestampTzGetDatum(now + pause)
	};

	if (SPI_execute_with_args("UPDATE scd2_internal.flow_state SET failures = $3, last_error = $2, last_error_at = clock_timestamp(),"
							  " retry_at = CASE $4 WHEN 0 THEN $5 END,"
							  " failed_phase = CASE $4 WHEN 0 THEN failed_phase ELSE phase END,"
							  " phase = CASE $4 WHEN 0 THEN phase ELSE 'failed' END"
							  " WHERE flow_id = $1 AND phase <> 'failed'", 5, types, args, NULL, false, 0) != SPI_OK_UPDATE)
		elog(ERROR, "could not record the failure of flow %d", state->flow_id);
	ItemPointerSetInvalid(&state->tid);
	state->failures = failures;
	state->retry_at = now + pause;
	if (gives_up)
		state->phase = 'f';
}
