/*
 * snapshot.c
 *		Complete snapshots as a source.
 *
 * A snapshot of version v is an upsert at v of each row of the source, and a delete at v of every
 * other key in scope. compare.c finds the keys for which that is not what was just before v; those
 * go through the timeline, as events do. The others write nothing. Where the target remembers
 * (other flows write into it too), the snapshot is remembered as a mark of the target, added when
 * its events are in: so it is evidence for the keys that were as they are, and an event that comes
 * later with a sequence at or below v finds out (timeline.c).
 *
 * Applied either by scd2.apply_snapshot(), in the transaction of whoever calls it, or by a worker,
 * every refresh_interval or once. Both hold the flow's lock until their transaction ends, and read
 * the source under a snapshot that they take with it in hand; a caller whose snapshot is older
 * (repeatable read) gets a serialization failure if anything was applied since (45_snapshot.sql).
 * All that it writes, with the version in flow_state, is one transaction.
 *
 * Before a snapshot is read, the flow follows the columns of its source
 * (49_follow_source_columns.sql), which stays locked until the transaction ends.
 *
 * Guards come before anything is written: what an aborted transaction wrote is still in the table's
 * way. Only in a type 1 target that remembers it takes the timeline to know what a snapshot
 * deletes; there it is asked twice.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/snapmgr.h"

#include "flow/apply.h"
#include "flow/check.h"
#include "flow/compare.h"
#include "flow/lateness.h"
#include "flow/marks.h"
#include "flow/recall.h"
#include "flow/rights.h"
#include "flow/scope.h"
#include "flow/snapshot.h"
#include "worker/failpoint.h"
#include "worker/worker.h"

PG_FUNCTION_INFO_V1(scd2_take_snapshot);

typedef struct SnapshotCounts
{
	int64		inserted;
	int64		updated;
	int64		deleted;
	int64		unchanged;
} SnapshotCounts;

typedef struct SnapshotRequest
{
	Datum		version;
	int64		expected_rows;	/* -1: any */
	bool		dry_run;
	bool		allow_deletes;
	bool		refresh;		/* into a target that is emptied first */
	bool		first;			/* the flow has taken no other, or none that counts any more */
} SnapshotRequest;

typedef struct TakenSnapshot
{
	Scd2Comparison comparison;
	Scd2Flow   *flow;
	Scd2Work   *work;
	const SnapshotRequest *request;
	bool		dry;			/* the timeline is only asked */

	/* The key in work. */
	Datum	   *key;
	Scd2Row    *first;			/* of its rows */
	bool		changed;

	SnapshotCounts counts;
} TakenSnapshot;

/* ---- the timeline ---- */

static Scd2Row *
give_row(void *arg)
{
	TakenSnapshot *s = arg;
	Scd2Row    *row = scd2_work_next_row(s->work, s->request->version);

	if (s->first == NULL)
		s->first = row;
	return row;
}

static Scd2Memory *
give_memory(void *arg)
{
	TakenSnapshot *s = arg;

	return scd2_recall_next(s->work->recall, s->request->version, s->first);
}

static int
compare_with_version(TakenSnapshot *s, Datum sequence)
{
	return DatumGetInt32(FunctionCall2Coll(&s->flow->sequence_compare, s->flow->sequence_collation, sequence, s->request->version));
}

static Scd2Image *
give_image_before(void *arg, const Scd2Row *row)
{
	TakenSnapshot *s = arg;

	return compare_with_version(s, row->start) >= 0 ? NULL : scd2_work_image_before(s->work, row);
}

static bool
is_in_scope(void *arg, const Scd2Mark *mark)
{
	TakenSnapshot *s = arg;

	return mark->scope < 0 || scd2_scope_has(s->flow, mark->scope, s->key);
}

static void
take_change(void *arg, const Scd2Change *change)
{
	TakenSnapshot *s = arg;

	s->changed = true;
	if (!s->dry)
		scd2_work_emit(s->work, change);
}

static void
take_memory(void *arg, const Scd2Memory *was, const Scd2Memory *now)
{
	TakenSnapshot *s = arg;

	if (!s->dry)
		scd2_recall_change(s->work->recall, s->key, was, now);
}

static Scd2Timeline
make_timeline(TakenSnapshot *s)
{
	return scd2_work_timeline(s->work, (Scd2TimelineUse){
		.arg = s,
		.next_row = give_row,
		.next_memory = s->work->recall != NULL ? give_memory : NULL,
		.image_before = give_image_before,
		.in_scope = is_in_scope,
		.change = take_change,
		.remember = take_memory
	});
}

static void
begin_key(TakenSnapshot *s, TupleTableSlot *difference)
{
	MemoryContextReset(s->work->key_cxt);
	for (int k = 0; k < s->flow->nkeys; k++)
		s->key[k] = difference->tts_values[s->flow->keys[k]];
	s->first = NULL;
	s->changed = false;
	scd2_work_begin_key(s->work, s->key);
	if (s->work->recall != NULL)
		scd2_recall_begin_key(s->work->recall, s->key);
}

/*
 * Was the key just before the version as the snapshot has it, without an event at the version?
 * Something later is remembered of it: so the row that covers the version may be of other untracked
 * values than it had then.
 */
static bool
is_evidence(TakenSnapshot *s, const Scd2Image *image)
{
	Scd2Row    *row = scd2_work_next_row(s->work, s->request->version);
	Scd2Memory *memory = scd2_recall_first_from(s->work->recall, s->request->version);
	Scd2Image  *before;
	MemoryContext old;

	s->work->reading = SCD2_READ_NOTHING;
	if (row == NULL || (!row->open && compare_with_version(s, row->end) <= 0) ||
		(memory != NULL && (compare_with_version(s, memory->sequence) == 0 || s->flow->shape.ignores_null != NULL)))
		return false;
	before = row->image;
	old = MemoryContextSwitchTo(s->work->key_cxt);
	if (memory != NULL && memory->before != NULL &&
		(row->open || DatumGetInt32(FunctionCall2Coll(&s->flow->sequence_compare, s->flow->sequence_collation, memory->sequence, row->end)) < 0))
		before = scd2_image_combine(&s->flow->shape, row->image, memory->before);
	MemoryContextSwitchTo(old);
	return scd2_image_equal(&s->flow->shape, before, image->values, image->isnull);
}

/* What the snapshot says of a key, as an event. Its image lives as long as the slot. */
static void
take_difference(TakenSnapshot *s, Scd2Timeline *timeline, TupleTableSlot *slot)
{
	int			n = s->flow->shape.ncolumns;
	bool		here = DatumGetBool(slot->tts_values[n + SCD2_DIFFERENCE_HERE]);
	bool		there = DatumGetBool(slot->tts_values[n + SCD2_DIFFERENCE_THERE]);
	Scd2Image	image = {.values = slot->tts_values, .isnull = slot->tts_isnull, .borrowed = true, .whole = true};
	Scd2Event	event = {.sequence = s->request->version, .kind = here ? SCD2_UPSERT : SCD2_DELETE, .image = here ? &image : NULL};

	begin_key(s, slot);
	if (!DatumGetBool(slot->tts_values[n + SCD2_DIFFERENCE_LOOK]) || s->comparison.everything || !is_evidence(s, &image))
	{
		scd2_timeline_begin(timeline);
		scd2_timeline_event(timeline, &event);
		scd2_timeline_end(timeline);
	}
	if (here && !s->changed)
		s->counts.unchanged++;
	else if (here && there)
		s->counts.updated++;
	else if (here)
		s->counts.inserted++;
	else if (s->changed)
		s->counts.deleted++;
	if (!here && !s->dry)
		s->work->events++;
}

/* "dry": nothing is written, only counted. */
static void
take_differences(TakenSnapshot *s, bool dry)
{
	Scd2Timeline timeline = make_timeline(s);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(s->comparison.desc, &TTSOpsMinimalTuple);

	s->dry = dry;
	s->counts = (SnapshotCounts){.unchanged = s->comparison.unchanged};
	scd2_work_start_lookups(s->work);
	while (tuplesort_gettupleslot(s->comparison.differences, true, false, slot, NULL))
	{
		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slot);
		take_difference(s, &timeline, slot);
	}
	scd2_work_stop_lookups(s->work);
	ExecDropSingleTupleTableSlot(slot);
	if (dry)
	{
		tuplesort_rescan(s->comparison.differences);
		return;
	}
	s->work->duplicates += timeline.counts.duplicates;
	s->work->out_of_order += timeline.counts.out_of_order;
	s->work->conflicts += timeline.counts.conflicts;
}

/* ---- guards ---- */

static bool
exceeds(int64 n, int64 of, const char *fraction)
{
	Datum		limit = DirectFunctionCall2(numeric_mul, NumericGetDatum(int64_to_numeric(of)),
											DirectFunctionCall3(numeric_in, CStringGetDatum(fraction), ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));

	return DatumGetBool(DirectFunctionCall2(numeric_gt, NumericGetDatum(int64_to_numeric(n)), limit));
}

/* What helps: to apply it by hand. */
static char *
allow_deletes_hint(TakenSnapshot *s)
{
	return psprintf("SELECT * FROM scd2.apply_snapshot(%s, %s, allow_deletes => true); -- if that is right",
					quote_literal_cstr(s->flow->name), quote_literal_cstr(scd2_sequence_text(s->flow, s->request->version)));
}

static void
check_rows(TakenSnapshot *s)
{
	const SnapshotRequest *request = s->request;
	int64		rows = s->comparison.rows;

	if (request->expected_rows >= 0 && rows != request->expected_rows)
		ereport(ERROR, (errcode(ERRCODE_DATA_EXCEPTION),
						errmsg("snapshot of flow \"%s\" has " INT64_FORMAT " rows instead of " INT64_FORMAT, s->flow->name, rows, request->expected_rows)));
	/* With nothing to delete, and nobody else who may bring something to be deleted, it does no harm. */
	if (rows == 0 && s->flow->delete_absent && !request->allow_deletes && (s->comparison.absent > 0 || s->work->recall != NULL))
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("snapshot of flow \"%s\" is empty", s->flow->name),
						errdetail("It says that no key is there; now " INT64_FORMAT " are.", s->comparison.absent),
						errhint("%s", allow_deletes_hint(s))));
}

static void
check_deletes(TakenSnapshot *s, int64 deletes)
{
	int64		live = s->comparison.both + s->comparison.absent;

	if (!s->flow->delete_absent || s->request->allow_deletes || !exceeds(deletes, live, s->flow->max_delete_fraction))
		return;
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("snapshot of flow \"%s\" would delete " INT64_FORMAT " of " INT64_FORMAT " keys", s->flow->name, deletes, live),
					errdetail("That is more than max_delete_fraction, %s.", s->flow->max_delete_fraction),
					errhint("%s", allow_deletes_hint(s))));
}

/* ---- versions below the horizon of the flows beside it (lateness.c) ---- */

static bool
is_below_horizon(Scd2Flow *flow, Datum version, Datum *horizon)
{
	return OidIsValid(flow->memory) && scd2_lateness_lowest(flow, horizon) &&
		DatumGetInt32(FunctionCall2Coll(&flow->sequence_compare, flow->sequence_collation, version, *horizon)) < 0;
}

/* A snapshot that is too late is kept as a rejected event: its version. (A dry run says so, no more.) */
static void
reject(Scd2Flow *flow, Scd2FlowState *state, const SnapshotRequest *request, Datum horizon)
{
	char	   *version = scd2_sequence_text(flow, request->version);
	char	   *reason = psprintf("too late: the horizon was at %s", scd2_sequence_text(flow, horizon));
	Oid			types[] = {INT4OID, TEXTOID, TEXTOID};
	Datum		args[] = {Int32GetDatum(flow->flow_id), CStringGetTextDatum(reason), CStringGetTextDatum(version)};

	ereport(WARNING, (errmsg("snapshot version %s of flow \"%s\" is not applied", version, flow->name), errdetail("It is %s.", reason)));
	if (request->dry_run)
		return;
	scd2_state_snapshot(state, NULL, GetCurrentTimestamp(), NULL, 0, false);
	ItemPointerSetInvalid(&state->tid);
	if (SPI_execute_with_args("INSERT INTO scd2_internal.rejected (flow_id, reason, event) VALUES ($1, $2, pg_catalog.jsonb_build_object('snapshot_version', $3))", 3, types, args, NULL, false, 0) != SPI_OK_INSERT ||
		SPI_execute_with_args("UPDATE scd2_internal.flow_state SET events = events + 1, too_late = too_late + 1 WHERE flow_id = $1", 1, types, args, NULL, false, 0) != SPI_OK_UPDATE)
		elog(ERROR, "could not record a rejected snapshot");
}

/* ---- a snapshot ---- */

static void
use_setting(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/*
 * The settings that the flow's expressions were written for, and how whole tables are best read, in
 * a worker and in whoever's session. Until scd2_work_end().
 */
static void
use_settings(Scd2Flow *flow)
{
	scd2_use_written_settings(flow->settings);
	use_setting("enable_seqscan", "on");
	use_setting("enable_hashjoin", "on");
	use_setting("enable_mergejoin", "on");
	use_setting("plan_cache_mode", "force_custom_plan");
	use_setting("jit", "off");
	use_setting("row_security", "off");	/* rows that are hidden would be deleted: an error instead */
	use_setting("pg_scd2.allow_target_writes", "on");
	if (maintenance_work_mem > work_mem)
		use_setting("work_mem", GetConfigOption("maintenance_work_mem", false, false));
}

/* The active snapshot shows what this transaction has done so far. */
static void
see_own_writes(void)
{
	CommandCounterIncrement();
	UpdateActiveSnapshotCommandId();
}

/* Differences are found and checked; all that was read is kept until the transaction ends. */
static void
apply(TakenSnapshot *s)
{
	bool		dry_first = s->request->dry_run || (s->work->recall != NULL && s->flow->scd_type == 1);

	scd2_compare(&s->comparison);
	SCD2_FAIL_POINT("snapshot compared");
	check_rows(s);
	if (dry_first)
		take_differences(s, true);
	check_deletes(s, dry_first ? s->counts.deleted : s->comparison.absent);
	if (!s->request->dry_run)
	{
		s->work->events += s->comparison.rows;
		take_differences(s, false);
		scd2_work_write(s->work);
		SCD2_FAIL_POINT("snapshot written");
	}
	tuplesort_end(s->comparison.differences);
}

/* Loads what is remembered of the target. A first snapshot "below" the horizon comes behind a mark there. */
static void
come_to_others(Scd2Flow *flow, const SnapshotRequest *request, bool below, Datum horizon)
{
	if (below && !request->dry_run)
		scd2_lateness_begin(flow, true);
	see_own_writes();
	scd2_load_marks(flow);
	if (below && request->dry_run)
		scd2_assume_horizon(flow, horizon);
}

/* What stands for the version in time. */
static TimestampTz
timestamp_of(Scd2Flow *flow, Datum version, TimestampTz started)
{
	return flow->sequence_type == TIMESTAMPTZOID ? DatumGetTimestampTz(version) : started;
}

/*
 * Takes a snapshot of the source as the active snapshot (which is the transaction's own) sees it.
 * Within SPI, as ourselves, under the flow's and the target's locks.
 */
static SnapshotCounts
take_snapshot(Scd2Flow *flow, Scd2FlowState *state, const SnapshotRequest *request)
{
	TimestampTz started = GetCurrentTimestamp();
	bool		alone = request->refresh && scd2_has_target_for_itself(flow, state->fresh);
	Datum		horizon = (Datum) 0;
	bool		below = !request->refresh && is_below_horizon(flow, request->version, &horizon);	/* (A full refresh makes one set of all.) */
	TakenSnapshot s = {.flow = flow, .request = request};

	if (below && !request->first)
	{
		reject(flow, state, request, horizon);
		return s.counts;
	}
	flow->lateness.joins = false;
	if (alone)
		scd2_forget_marks(flow);
	else if (OidIsValid(flow->memory))
		come_to_others(flow, request, below, horizon);
	s.work = scd2_work_begin(flow);
	use_settings(flow);
	if (alone)
		scd2_empty_target(flow);
	scd2_lateness_joined(s.work);
	see_own_writes();
	s.key = palloc(flow->nkeys * sizeof(Datum));
	s.comparison.work = s.work;
	s.comparison.version = request->version;
	/* Without its mark, a snapshot is remembered row by row. */
	s.comparison.everything = s.work->recall != NULL && !flow->delete_absent;
	apply(&s);
	scd2_work_end(s.work);
	if (request->dry_run)
		return s.counts;
	if (OidIsValid(flow->memory) && flow->delete_absent)
		scd2_record_mark(flow, request->version, true);
	scd2_state_snapshot(state, s.work, started, scd2_sequence_text(flow, request->version),
						timestamp_of(flow, request->version, started), flow->once);
	return s.counts;
}

/* ---- versions ---- */

/* The version of the flow's last snapshot; false: there is none. */
static bool
last_version(Scd2Flow *flow, Datum *version)
{
	Oid			types[] = {INT4OID};
	Datum		args[] = {Int32GetDatum(flow->flow_id)};
	char	   *text;

	if (SPI_execute_with_args("SELECT snapshot_version FROM scd2_internal.flow_state WHERE flow_id = $1", 1, types, args, NULL, false, 1) != SPI_OK_SELECT ||
		SPI_processed != 1)
		elog(ERROR, "state of flow %d is gone", flow->flow_id);
	text = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	if (text == NULL)
		return false;
	*version = scd2_sequence_value(flow, text);
	return true;
}

/* Is there anything to do for a version? Versions grow; "first": there was none before. */
static bool
is_newer(Scd2Flow *flow, Datum version, bool *first)
{
	Datum		last;
	int			order;
	char	   *invalid = scd2_invalid_sequence(flow->sequence_type, version, "snapshot_version");

	if (invalid != NULL)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("snapshot of flow \"%s\" cannot be applied: %s", flow->name, invalid)));
	*first = !last_version(flow, &last);
	if (*first)
		return true;
	order = DatumGetInt32(FunctionCall2Coll(&flow->sequence_compare, flow->sequence_collation, version, last));
	if (order < 0)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("snapshot version %s of flow \"%s\" is older than the last, %s",
							   scd2_sequence_text(flow, version), flow->name, scd2_sequence_text(flow, last))));
	return order > 0;
}

/*
 * The version of the snapshot that a worker takes, as the active snapshot sees it; false: there is
 * none now. As the target's owner.
 */
static bool
query_version(Scd2Flow *flow, Datum *version)
{
	const char *query = flow->version_query != NULL ? flow->version_query : "SELECT pg_catalog.now()";
	bool		isnull = true;
	Datum		value = (Datum) 0;

	if (SPI_execute(query, true, 2) != SPI_OK_SELECT)
		ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						errmsg("version_query of flow \"%s\" is not a query", flow->name)));
	if (SPI_processed > 1)
		ereport(ERROR, (errcode(ERRCODE_CARDINALITY_VIOLATION),
						errmsg("version_query of flow \"%s\" gives more than one row", flow->name)));
	if (SPI_processed == 1)
		value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	if (isnull)
		return false;
	if (SPI_gettypeid(SPI_tuptable->tupdesc, 1) == flow->sequence_type)
		*version = value;
	else
		*version = scd2_sequence_from_user(flow, SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1));
	return true;
}

/* ---- by a worker ---- */

/*
 * In a refresh of a target whose snapshots are applied by hand: what the source shows now, at the
 * version it had.
 */
static bool
worker_version(Scd2Flow *flow, Datum *version)
{
	Scd2Identity self;
	bool		found;

	if (!flow->takes_snapshots && flow->version_query == NULL)
		return last_version(flow, version);
	scd2_flow_become(flow, &self);
	scd2_use_written_settings(flow->settings);
	found = query_version(flow, version);
	scd2_become_self_again(&self);
	return found;
}

/*
 * When does a worker have to look at the source? "asked": whoever is in sync() wants no older look than that.
 */
bool
scd2_snapshot_is_due(const Scd2FlowState *state, bool once, int64 refresh_interval, TimestampTz asked, TimestampTz *due)
{
	if (!once && refresh_interval <= 0)
		return false;
	*due = state->snapshot_at == 0 || state->snapshot_at < asked ? 0 : state->snapshot_at;
	if (*due != 0 && pg_add_s64_overflow(*due, refresh_interval, due))
		*due = PG_INT64_MAX;
	return true;
}

/* Without a version, a flow waits for the next time; not one that was asked to. */
static void
check_version_found(Scd2Flow *flow, const SnapshotRequest *request)
{
	if (flow->once || (request->refresh && flow->version_query != NULL))
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("version_query of flow \"%s\" gives no version", flow->name)));
}

/*
 * Takes a snapshot, or has nothing to take. In a READ COMMITTED transaction, within SPI, under the
 * flow's lock, after scd2_state_read().
 */
void
scd2_snapshot_by_worker(Scd2Flow *flow, Scd2FlowState *state)
{
	TimestampTz started = GetCurrentTimestamp();
	SnapshotRequest request = {.expected_rows = -1, .refresh = state->phase == 'c', .first = state->phase == 'c'};
	bool		found;

	PushCopiedSnapshot(GetTransactionSnapshot());
	see_own_writes();
	found = worker_version(flow, &request.version);
	if (!found)
		check_version_found(flow, &request);
	if (found && (request.refresh || is_newer(flow, request.version, &request.first)))
		(void) take_snapshot(flow, state, &request);
	else
		scd2_state_snapshot(state, NULL, started, NULL, 0, false);
	PopActiveSnapshot();
}

/* ---- by hand ---- */

static void
say_skipped(Scd2Flow *flow, Datum version)
{
	ereport(NOTICE, (errmsg("snapshot version %s of flow \"%s\" is the last that was applied: skipped",
							scd2_sequence_text(flow, version), flow->name)));
}

static SnapshotCounts
apply_by_hand(Scd2Flow *flow, char *version, SnapshotRequest *request)
{
	Scd2FlowState state = {.flow_id = flow->flow_id};
	SnapshotCounts counts = {0};

	if (!scd2_state_read(&state))
		elog(ERROR, "state of flow %d is gone", flow->flow_id);
	request->version = scd2_sequence_from_user(flow, version);
	if (!is_newer(flow, request->version, &request->first))
	{
		say_skipped(flow, request->version);
		return counts;
	}
	/* What the caller has written himself is in the snapshot. */
	PushCopiedSnapshot(GetTransactionSnapshot());
	see_own_writes();
	counts = take_snapshot(flow, &state, request);
	PopActiveSnapshot();
	return counts;
}

static Datum
result_row(FunctionCallInfo fcinfo, const SnapshotCounts *counts)
{
	TupleDesc	desc;
	Datum		values[] = {
		Int64GetDatum(counts->inserted), Int64GetDatum(counts->updated), Int64GetDatum(counts->deleted), Int64GetDatum(counts->unchanged)
	};
	bool		nulls[lengthof(values)] = {false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/* Definition and target get the columns that the source has now, which stays locked. */
static void
follow_source(int flow_id)
{
	Oid			types[] = {INT4OID};
	Datum		args[] = {Int32GetDatum(flow_id)};
	bool		isnull;
	Oid			source;

	if (SPI_execute_with_args("SELECT source_relid::oid FROM scd2_internal.flow WHERE flow_id = $1", 1, types, args, NULL, false, 1) != SPI_OK_SELECT ||
		SPI_processed != 1)
		elog(ERROR, "flow %d does not exist", flow_id);
	source = DatumGetObjectId(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	if (isnull)
		return;
	LockRelationOid(source, AccessShareLock);
	if (SPI_execute_with_args("SELECT scd2_internal.follow_source_columns($1)", 1, types, args, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not call scd2_internal.follow_source_columns()");
}

/* The flow, after that. */
static Scd2Flow *
load_to_apply(int flow_id)
{
	Scd2Flow   *flow;

	follow_source(flow_id);
	PushCopiedSnapshot(GetTransactionSnapshot());
	see_own_writes();
	flow = scd2_flow_load(flow_id);
	PopActiveSnapshot();
	return flow;
}

/*
 * scd2_internal.take_snapshot(flow_id integer, version text, expected_rows bigint, dry_run boolean,
 * allow_deletes boolean): the caller has looked at rights, state and locks. A flow is loaded for
 * this one call, for nothing tells sessions that it changes.
 */
Datum
scd2_take_snapshot(PG_FUNCTION_ARGS)
{
	char	   *version = text_to_cstring(PG_GETARG_TEXT_PP(1));
	SnapshotRequest request = {
		.expected_rows = PG_ARGISNULL(2) ? -1 : PG_GETARG_INT64(2),
		.dry_run = !PG_ARGISNULL(3) && PG_GETARG_BOOL(3),
		.allow_deletes = !PG_ARGISNULL(4) && PG_GETARG_BOOL(4)
	};
	ErrorContextCallback *context = error_context_stack;
	Scd2Flow   *flow;
	SnapshotCounts counts;
	Scd2AtWork	here = {PG_GETARG_INT32(0), scd2_at_work};

	SPI_connect();
	error_context_stack = NULL; /* an error is apply_snapshot()'s: see call.c */
	flow = load_to_apply(PG_GETARG_INT32(0));
	PG_TRY();
	{
		scd2_at_work = &here;
		counts = apply_by_hand(flow, version, &request);
	}
	PG_FINALLY();
	{
		scd2_at_work = here.outer;
		scd2_flow_free(flow);
	}
	PG_END_TRY();
	error_context_stack = context;
	SPI_finish();
	PG_RETURN_DATUM(result_row(fcinfo, &counts));
}
