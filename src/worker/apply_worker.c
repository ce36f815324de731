/*
 * apply_worker.c
 *		Applies flows: finds one with work, takes it, does a batch or its first copy, goes on.
 *
 * Every apply worker of a database knows all its flows, in a list of its own that costs nothing to
 * look through: what it has applied of each is compared with the latest version of the flow's feed
 * in shared memory. The list is read again when shared memory says that flows changed, and after a
 * wake that brought nothing.
 *
 * A flow is taken by a lock that lasts for the transaction and is only ever tried; under it the
 * flow's state is read, for another worker may have been there. A worker is at home with some of
 * the flows and takes others only when they lag: so that two workers do not race for every small
 * batch.
 *
 * Each batch is one transaction. If it fails, it is rolled back as a whole. One of several versions
 * is tried again at once with half of them, so that what comes before the version that cannot be
 * applied is applied, and the error is that version's; then it is recorded with the flow in another
 * transaction, and other flows go on. If the list cannot be read because of one flow, each is read
 * alone, and that one is left out; the server's log has its error. What goes wrong while feeds are repaired or looked
 * after ends no worker either. First copies take long: worker 0 makes none
 * unless it is alone.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "pg_scd2.h"
#include "feed/upkeep.h"
#include "flow/apply.h"
#include "flow/check.h"
#include "flow/resync.h"
#include "flow/snapshot.h"
#include "worker/failpoint.h"
#include "worker/marks.h"
#include "worker/watched.h"
#include "worker/worker.h"

/* How long a flow may lag before a worker that is not at home takes it. */
#define LEND_A_HAND		(50 * INT64CONST(1000))	/* µs */

/* Once batches have grown to so many versions again, they are not limited any more. */
#define SMALL_AGAIN		100000

/* How soon the worker that is at home looks again whether a helper is done. */
#define HELPED			INT64CONST(1000)

/* How soon a first copy is tried again whose feed has changes that wait to be written. */
#define COMPLETE_EVERY	(100 * INT64CONST(1000))

/* How soon it is tried again if feeds that are to be repaired could not even be found. */
#define REPAIR_PAUSE	(60 * USECS_PER_SEC)

/* A flow as this worker knows it. */
typedef struct KnownFlow
{
	Scd2FlowState state;		/* as of the last look */
	Scd2FlowState taken;		/* as it was before what was tried last */
	int			feed_id;
	Oid			feed_relid;		/* or of a flow over snapshots its source; invalid: none */
	Oid			target;			/* if other flows may write into it too; else invalid */
	bool		snapshots;		/* it has no feed to follow: looks at its source from time to time, */
	bool		once;			/* or once */
	bool		columns_changed;	/* of its feed, when the list was read */
	bool		following;		/* target and definition are being altered, */
	bool		followed;		/* and were, in the transaction at hand */
	int64		refresh_interval;	/* µs */
	TimestampTz not_before;		/* another worker has it */
	TimestampTz refresh_at;		/* with a refresh interval: the next time */
	TimestampTz lagging_since;	/* 0: does not */
	Scd2Flow   *flow;			/* NULL: not loaded */
	bool		all_images;		/* it was found to need them, */
	Scd2Hint	hint;			/* and where it was, when it was loaded last */
	int64		most_versions;	/* in a batch, while it is found out which one fails; 0: any number */
	bool		listed;			/* seen in the last reload */
} KnownFlow;

static Scd2Database *db;
static int	my_slot;
static List *flows = NIL;
static MemoryContext list_cxt;	/* of the list */
static MemoryContext work_cxt;	/* of one batch, reset */
static uint32 flows_seen;
static TimestampTz listed_at;
static TimestampTz repair_at = 0;	/* when to look for feeds to repair */
static bool copied;				/* the transaction at hand made a first copy */

static void
begin_work(const char *what)
{
	scd2_worker_begin_work(work_cxt, what);
}

static void
end_work(void)
{
	scd2_worker_end_work();
	scd2_mark_writes(false);
	MemoryContextReset(work_cxt);
	MemoryContextSwitchTo(list_cxt);
}

static KnownFlow *
known_flow(int flow_id)
{
	ListCell   *cell;
	KnownFlow  *known;
	MemoryContext before;

	foreach(cell, flows)
	{
		known = lfirst(cell);
		if (known->state.flow_id == flow_id)
			return known;
	}
	before = MemoryContextSwitchTo(list_cxt);
	known = palloc0(sizeof(KnownFlow));
	known->state.flow_id = flow_id;
	flows = lappend(flows, known);
	MemoryContextSwitchTo(before);
	return known;
}

static void
forget_unlisted(void)
{
	ListCell   *cell;

	foreach(cell, flows)
	{
		KnownFlow  *known = lfirst(cell);

		if (known->listed)
			continue;
		if (known->flow != NULL)
			scd2_flow_free(known->flow);
		flows = foreach_delete_current(flows, cell);
		pfree(known);
	}
}

/* As the launcher counts them. */
static int
apply_workers(void)
{
	return Max(1, Min(db->napply, scd2_max_apply_workers));
}

/* Whether capture wakes this worker for the flow. */
static bool
at_home(const KnownFlow *known)
{
	return known->state.flow_id % apply_workers() == my_slot;
}

/* Has capture wake this worker with each batch only if it has something to apply then. */
static void
tell_at_home(void)
{
	ListCell   *cell;
	bool		any = false;

	foreach(cell, flows)
		any |= at_home(lfirst(cell));
	db->apply_at_home[my_slot] = any;
}

#define LIST_FLOWS \
	"SELECT f.flow_id, f.feed_id, (EXTRACT(epoch FROM scd2_internal.bounded(f.refresh_interval)) * 1000000)::bigint," \
	"       CASE WHEN scd2_internal.bounded(f.refresh_interval) > '0' THEN s.last_batch + scd2_internal.bounded(f.refresh_interval) END," \
	"       CASE WHEN f.memory_relid IS NOT NULL OR f.kind <> 'auto_cdc' THEN f.target_relid END, f.kind = 'snapshot', f.once," \
	"       f.feed_id IS NOT NULL AND f.known_changes IS DISTINCT FROM coalesce(l.changes, 0)," \
	"       CASE WHEN f.kind = 'snapshot' THEN f.source_relid ELSE e.feed_relid END" \
	" FROM scd2_internal.flow AS f JOIN scd2_internal.flow_state AS s USING (flow_id) LEFT JOIN scd2_internal.feed_layout AS l USING (feed_id)" \
	"      LEFT JOIN scd2_internal.feed AS e USING (feed_id)" \
	" WHERE (f.feed_id IS NOT NULL OR f.once OR f.kind = 'snapshot') AND " SCD2_AT_HOME("s")
#define ORDER_FLOWS " ORDER BY f.flow_id"

static void
read_listed(HeapTuple row, TupleDesc desc)
{
	bool		isnull;
	KnownFlow  *known = known_flow(DatumGetInt32(SPI_getbinval(row, desc, 1, &isnull)));
	Datum		due;

	known->feed_id = DatumGetInt32(SPI_getbinval(row, desc, 2, &isnull));
	known->refresh_interval = DatumGetInt64(SPI_getbinval(row, desc, 3, &isnull));
	due = SPI_getbinval(row, desc, 4, &isnull);
	known->refresh_at = isnull ? 0 : DatumGetTimestampTz(due);
	due = SPI_getbinval(row, desc, 5, &isnull);
	known->target = isnull ? InvalidOid : DatumGetObjectId(due);
	known->snapshots = DatumGetBool(SPI_getbinval(row, desc, 6, &isnull));
	known->once = DatumGetBool(SPI_getbinval(row, desc, 7, &isnull));
	known->columns_changed = DatumGetBool(SPI_getbinval(row, desc, 8, &isnull));
	due = SPI_getbinval(row, desc, 9, &isnull);
	known->feed_relid = isnull ? InvalidOid : DatumGetObjectId(due);
	SCD2_FAIL_POINT_OF("list flow", psprintf("%d", known->state.flow_id));
	known->listed = scd2_state_read(&known->state);
}

/* Reads the flows that a query lists, in one transaction. */
static void
list_flows(const char *query)
{
	SPITupleTable *table;
	uint64		n;

	begin_work("looking for flows");
	SCD2_FAIL_POINT("list flows");
	if (SPI_execute(query, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not list flows");
	table = SPI_tuptable;
	n = SPI_processed;
	for (uint64 i = 0; i < n; i++)
		read_listed(table->vals[i], table->tupdesc);
	end_work();
}

/* As list_flows(), but an error goes no further. "said": as last time, so that it is told once; it becomes this time's. */
static bool
list_safely(const char *query, char **said)
{
	volatile bool done = false;

	PG_TRY();
	{
		list_flows(query);
		done = true;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(list_cxt);
		error = CopyErrorData();
		if (*said == NULL || strcmp(*said, error->message) != 0)
		{
			EmitErrorReport();
			if (*said)
				pfree(*said);
			*said = MemoryContextStrdup(TopMemoryContext, error->message);
		}
		FreeErrorData(error);
		FlushErrorState();
		AbortOutOfAnyTransaction();
		MemoryContextReset(work_cxt);
		MemoryContextSwitchTo(list_cxt);
	}
	PG_END_TRY();
	return done;
}

/* The numbers of all flows, in list_cxt. */
static List *
flow_numbers(void)
{
	List	   *numbers = NIL;
	bool		isnull;

	begin_work("looking for flows");
	SCD2_FAIL_POINT("list flows");
	if (SPI_execute("SELECT f.flow_id FROM scd2_internal.flow AS f ORDER BY 1", true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not list flows");
	MemoryContextSwitchTo(list_cxt);
	for (uint64 i = 0; i < SPI_processed; i++)
		numbers = lappend_int(numbers, DatumGetInt32(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull)));
	end_work();
	return numbers;
}

/* Reads the list of flows and their states anew. An error that has to do with no single flow ends the worker. */
static void
reload(void)
{
	static char *said = NULL;
	ListCell   *cell;
	List	   *numbers;

	flows_seen = pg_atomic_read_u32(&db->flows_changed);
	repair_at = 0;
	listed_at = GetCurrentTimestamp();
	foreach(cell, flows)
		((KnownFlow *) lfirst(cell))->listed = false;
	if (!list_safely(LIST_FLOWS ORDER_FLOWS, &said))
	{
		numbers = flow_numbers();
		foreach(cell, numbers)
		{
			char		query[sizeof(LIST_FLOWS) + 64];

			snprintf(query, sizeof(query), LIST_FLOWS " AND f.flow_id = %d", lfirst_int(cell));
			(void) list_safely(query, &said);
		}
		list_free(numbers);
	}
	forget_unlisted();
	tell_at_home();
	pgstat_report_activity(STATE_IDLE, NULL);
}

/*
 * The version up to which a flow can be applied now. Under the flow's lock that is sure, else a guess: a
 * feed of which shared memory knows nothing may have changes that wait to be written.
 */
static int64
latest_version(KnownFlow *known)
{
	int64		latest = scd2_feed_latest(known->feed_id);
	int64		captured = (int64) pg_atomic_read_u64(&db->version);

	if (latest < 0 || latest > captured)
		latest = captured;
	return Min(Min(latest, known->state.complete), known->state.gap - 1);
}

/*
 * There may be fewer workers than are wanted: the server has run out of them, or the others are
 * being started.
 */
static bool
is_alone(void)
{
	for (int i = 0; i < SCD2_MAX_APPLY; i++)
		if (i != my_slot && db->apply_pid[i] != 0)
			return false;
	return true;
}

/*
 * Long copies are not for worker 0, so that small batches are never behind one: unless nobody else
 * is there.
 */
static bool
copies_here(void)
{
	return my_slot > 0 || apply_workers() == 1 || is_alone();
}

/* When the flow's source has to be looked at; false: never. */
static bool
snapshot_due(KnownFlow *known, TimestampTz *due)
{
	return scd2_snapshot_is_due(&known->state, known->once, known->refresh_interval, (TimestampTz) pg_atomic_read_u64(&db->look_since), due);
}

/* As has_work(), of a running flow that takes snapshots. Those can take as long as copies. */
static bool
has_snapshot_to_take(KnownFlow *known, TimestampTz *next)
{
	TimestampTz due;

	if (!copies_here() || !snapshot_due(known, &due))
		return false;
	due = Max(due, Max(known->state.retry_at, known->not_before));
	if (due <= GetCurrentTimestamp())
		return true;
	*next = Min(*next, due);
	return false;
}

/* Whether this worker should try the flow now; "next" becomes the time when it should, if that is known. */
static bool
has_work(KnownFlow *known, TimestampTz *next)
{
	Scd2FlowState *state = &known->state;
	TimestampTz now;
	TimestampTz due;
	bool		copy = state->phase == 'c';

	if (state->paused || !(copy || state->phase == 'a'))
		return false;
	if (known->snapshots && !copy)
		return has_snapshot_to_take(known, next);
	if (copy ? !copies_here() || state->gap != PG_INT64_MAX : state->watermark_version >= latest_version(known) && !known->columns_changed)
	{
		known->lagging_since = 0;
		return false;
	}
	now = GetCurrentTimestamp();
	if (known->lagging_since == 0)
		known->lagging_since = now;
	due = Max(state->retry_at, known->not_before);
	if (!copy)
		due = Max(due, known->refresh_at);
	if (!copy && !at_home(known))
		due = Max(due, known->lagging_since + LEND_A_HAND);
	if (due <= now)
		return true;
	*next = Min(*next, due);
	return false;
}

/* Target and definition get the columns that the feed has. */
static void
follow_columns(KnownFlow *known)
{
	Oid			types[] = {INT4OID};
	Datum		args[] = {Int32GetDatum(known->state.flow_id)};

	known->following = true;	/* until that went well */
	if (SPI_execute_with_args("SELECT scd2_internal.follow_columns($1)", 1, types, args, NULL, false, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not call scd2_internal.follow_columns()");
	CommandCounterIncrement();
	PopActiveSnapshot();		/* the definition is read as it is now */
	PushActiveSnapshot(GetTransactionSnapshot());
	known->following = false;
	known->followed = true;
}

/* The flow's definition, loaded if it is not, or no longer, at hand. */
static Scd2Flow *
definition(KnownFlow *known)
{
	if (known->flow != NULL && (known->flow->stale || known->columns_changed || known->flow->definition != known->state.definition))
	{
		known->all_images |= known->flow->all_images;
		known->hint = known->flow->hint;
		scd2_flow_free(known->flow);
		known->flow = NULL;
	}
	if (known->flow == NULL)
	{
		follow_columns(known);
		known->flow = scd2_flow_load(known->state.flow_id);
		known->flow->all_images |= known->all_images;
		known->flow->hint = known->hint;	/* looked at before it is used */
	}
	return known->flow;
}

/*
 * The same under the lock of who writes the target: while it was waited for, somebody may have
 * altered that.
 */
static Scd2Flow *
locked_definition(KnownFlow *known)
{
	Scd2Flow   *flow = definition(known);

	LockRelationOid(flow->target, RowExclusiveLock);
	return flow->stale ? definition(known) : flow;
}

static void
apply(KnownFlow *known, int64 latest)
{
	Scd2Flow   *flow = locked_definition(known);

	flow->most_versions = known->most_versions;
	scd2_apply_batch(flow, &known->state, latest);
	if (known->most_versions > 0)
		known->most_versions = known->most_versions < SMALL_AGAIN ? known->most_versions * 2 : 0;
}

/*
 * Columns that came with the versions at hand are followed before they are applied; under the lock
 * no others come.
 */
static void
lock_feed(KnownFlow *known)
{
	if (OidIsValid(known->feed_relid))
		LockRelationOid(known->feed_relid, AccessShareLock);
}

/* For a copy, which waits for capture, which may have to alter the feed. It looks again itself. */
static void
unlock_feed(KnownFlow *known)
{
	if (OidIsValid(known->feed_relid))
		UnlockRelationOid(known->feed_relid, AccessShareLock);
}

/* Under the flow's lock: whatever its state says is to be done. */
static void
do_work(KnownFlow *known)
{
	Scd2FlowState *state = &known->state;
	Scd2Flow   *flow;
	int64		latest;

	if (!scd2_state_read(state))
	{
		state->phase = 'd';		/* dropped: the next list is without it */
		return;
	}
	known->taken = *state;
	if (state->paused || state->retry_at > GetCurrentTimestamp())
		return;
	if (known->snapshots)
	{
		TimestampTz due;

		if (state->phase == 'c' || (state->phase == 'a' && snapshot_due(known, &due) && due <= GetCurrentTimestamp()))
		{
			lock_feed(known);
			scd2_snapshot_by_worker(locked_definition(known), state);
		}
	}
	else if (state->phase == 'c' && state->gap == PG_INT64_MAX)
	{
		if (state->complete != PG_INT64_MAX)
		{
			known->not_before = GetCurrentTimestamp() + COMPLETE_EVERY; /* a copy would wait for it, and hold what it has */
			return;
		}
		if (known->flow != NULL)
			known->flow->stale = true;	/* the source may have lost columns since */
		lock_feed(known);
		flow = locked_definition(known);
		unlock_feed(known);
		scd2_first_copy(flow, state);
		copied = true;
	}
	else if (state->phase == 'a' && state->watermark_version < (latest = latest_version(known)))
	{
		lock_feed(known);
		apply(known, latest);
	}
	else if (state->phase == 'a' && known->columns_changed)
	{
		lock_feed(known);
		(void) definition(known);
	}
	else
		return;
	known->not_before = 0;
	known->refresh_at = known->refresh_interval > 0 ? GetCurrentTimestamp() + known->refresh_interval : 0;
}

/* Did the worker that is at home with the flow apply something since we looked? */
static bool
gets_on(KnownFlow *known)
{
	int64		before = known->state.watermark_version;

	return known->state.phase == 'a' && !at_home(known) &&
		scd2_state_read(&known->state) && known->state.watermark_version > before;
}

/* Takes the flow until the transaction ends, if no other worker has it, nor another flow into its target. */
static bool
take(const KnownFlow *known)
{
	LOCKTAG		tag;

	scd2_flow_locktag(&tag, known->state.flow_id);
	if (LockAcquire(&tag, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		return false;
	if (!OidIsValid(known->target))
		return true;
	scd2_target_locktag(&tag, known->target);
	return LockAcquire(&tag, ExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL;
}

static void
say_which_flow(void *arg)
{
	const KnownFlow *known = arg;

	if (known->flow == NULL)
		errcontext("flow %d", known->state.flow_id);
	else if (known->flow->at_version < 0)
		errcontext("flow \"%s\", after version " INT64_FORMAT, known->flow->name, known->state.watermark_version);
	else
		errcontext("flow \"%s\", version " INT64_FORMAT, known->flow->name, known->flow->at_version);
}

/* A transaction for the flow, if no other worker has it. False if another has. */
static bool
try_flow(KnownFlow *known)
{
	bool		taken;
	ErrorContextCallback context = {.callback = say_which_flow, .arg = known, .previous = error_context_stack};
	Scd2AtWork	here = {.flow_id = known->state.flow_id};

	known->taken = known->state;
	if (known->flow != NULL)
		known->flow->versions_tried = 0;
	begin_work(known->flow != NULL ? known->flow->activity : "taking a flow");
	if (gets_on(known))
	{
		end_work();
		known->lagging_since = 0;
		return true;
	}
	taken = take(known);
	copied = false;
	known->following = known->followed = false;
	if (taken)
	{
		error_context_stack = &context;
		scd2_at_work = &here;
		do_work(known);
		scd2_at_work = NULL;
		SCD2_FAIL_POINT("applied");
		error_context_stack = context.previous;
	}
	end_work();
	if (known->followed)
		known->columns_changed = false;
	if (taken)
		SCD2_FAIL_POINT("applied and committed");
	if (copied)
	{
		/* Who is at home with the flow could not do this, and goes on now. */
		pg_atomic_fetch_add_u32(&db->flows_changed, 1);
		scd2_wake_apply();
	}
	known->lagging_since = 0;
	if (taken)
		scd2_progress();
	return taken;
}

/*
 * The lock went with the transaction that failed. Another worker may have the flow by now, and
 * relies on its state's place; or it has applied the batch, or failed with it as we did and
 * recorded that. Then there is nothing to record: two failures at once are one, or the flow would
 * be given up too soon.
 */
static bool
still_ours(KnownFlow *known)
{
	return take(known) && scd2_state_read(&known->state) &&
		known->state.phase == known->taken.phase && known->state.watermark_version == known->taken.watermark_version &&
		known->state.failures == known->taken.failures;
}

/* Somebody's event trigger may have refused to have target and definition altered. (55000 is what we say ourselves.) */
static bool
may_pass(const KnownFlow *known, const ErrorData *error)
{
	return known->following && error->sqlerrcode != ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE && scd2_ddl_is_watched();
}

static void
record_failure(KnownFlow *known, const ErrorData *error)
{
	PG_TRY();
	{
		begin_work("recording a failure");
		if (still_ours(known))
			scd2_state_failed(&known->state, error, known->flow != NULL ? known->flow->at_version : -1, may_pass(known, error));
		end_work();
	}
	PG_CATCH();
	{
		/* Then it is tried again after a while, and fails again. */
		EmitErrorReport();
		FlushErrorState();
		AbortOutOfAnyTransaction();
		known->state.retry_at = GetCurrentTimestamp() + USECS_PER_SEC;
	}
	PG_END_TRY();
	scd2_progress();
}

/* A batch of several versions failed: is it worth trying with fewer? Not if the error has to do with something else. */
static bool
try_with_fewer(KnownFlow *known, const ErrorData *error)
{
	int64		tried = known->flow != NULL ? known->flow->versions_tried : 0;

	if (tried <= 1 || error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE || scd2_state_is_transient(error->sqlerrcode))
		return false;
	known->most_versions = tried / 2;
	return true;
}

/* As try_flow(), but nothing gets out: the error is the flow's. */
static bool
try_flow_safely(KnownFlow *known)
{
	ErrorData  *volatile error = NULL;
	volatile bool taken = true;
	bool		all_images = known->flow == NULL || known->flow->all_images;
	volatile bool again = false;

	PG_TRY();
	{
		taken = try_flow(known);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(list_cxt);
		error = CopyErrorData();
		scd2_at_work = NULL;
		again = try_with_fewer(known, error);
		if (!again)
			EmitErrorReport();
		FlushErrorState();
		AbortOutOfAnyTransaction();
		scd2_mark_writes(false);
		MemoryContextReset(work_cxt);
	}
	PG_END_TRY();
	if (error != NULL)
	{
		if (known->flow != NULL)
			known->flow->stale = true;
		/* Unless it only has to begin again in another way. */
		if (!again && (known->flow == NULL || known->flow->all_images == all_images))
		{
			SCD2_WAIT_POINT("failed");
			record_failure(known, error);
		}
		FreeErrorData(error);
	}
	return taken;
}

/* scd2.sync() does not wait for refresh intervals. */
static void
run_now(void)
{
	static uint32 seen = 0;
	uint32		asked = pg_atomic_read_u32(&db->run_now);
	ListCell   *cell;

	if (asked == seen)
		return;
	seen = asked;
	foreach(cell, flows)
		((KnownFlow *) lfirst(cell))->refresh_at = 0;
}

/* Goes through the flows once. Returns how many had work that was done here. */
static int
one_round(TimestampTz *next)
{
	ListCell   *cell;
	int			done = 0;

	run_now();
	*next = PG_INT64_MAX;
	foreach(cell, flows)
	{
		KnownFlow  *known = lfirst(cell);

		if (!has_work(known, next))
			continue;
		if (try_flow_safely(known))
			done++;
		else
		{
			known->not_before = GetCurrentTimestamp() + (at_home(known) ? HELPED : LEND_A_HAND);
			*next = Min(*next, known->not_before);
		}
		scd2_worker_wait(0);
	}
	return done;
}

/* As scd2_repair_feeds(), but what goes wrong outside of any repair goes no further. */
static TimestampTz
repair_feeds_safely(void)
{
	volatile TimestampTz again = GetCurrentTimestamp() + REPAIR_PAUSE;
	static TimestampTz not_before = 0;

	if (not_before > GetCurrentTimestamp())
		return not_before;
	PG_TRY();
	{
		again = scd2_repair_feeds(work_cxt);
		not_before = 0;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(list_cxt);
		EmitErrorReport();
		FlushErrorState();
		AbortOutOfAnyTransaction();
		MemoryContextReset(work_cxt);
		MemoryContextSwitchTo(list_cxt);
		not_before = again;
	}
	PG_END_TRY();
	return again;
}

/* Like first copies, repairs can take long. */
static void
repair_feeds(TimestampTz *next)
{
	if (!copies_here())
		return;
	if (repair_at <= GetCurrentTimestamp())
		repair_at = repair_feeds_safely();
	*next = Min(*next, repair_at);
}

static long
time_to_wait(TimestampTz next)
{
	TimestampTz now = GetCurrentTimestamp();

	if (next <= now)
		return 0;
	return Min(scd2_naptime, (next - now) / 1000 + 1);
}

/*
 * Only as superuser of the worker: how statements of flows are planned (statements.c), and how long
 * they wait for a lock.
 */
static void
fix_settings(void)
{
	static const char *const settings[][2] = {
		{"enable_seqscan", "off"}, {"enable_hashjoin", "off"}, {"enable_mergejoin", "off"},
		{"plan_cache_mode", "force_generic_plan"}, {"lock_timeout", "1s"},
	};

	for (int i = 0; i < lengthof(settings); i++)
		SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
	/* One big sort or store at a time: what maintenance may use. */
	SetConfigOption("work_mem", GetConfigOption("maintenance_work_mem", false, false), PGC_SUSET, PGC_S_OVERRIDE);
}

static void
run(void)
{
	TimestampTz next;
	int			homes = 0;		/* apply workers that flows were shared out to */
	bool		busy;
	bool		told = false;

	fix_settings();
	list_cxt = AllocSetContextCreate(TopMemoryContext, "pg_scd2 flows", ALLOCSET_SMALL_SIZES);
	work_cxt = AllocSetContextCreate(TopMemoryContext, "pg_scd2 batch", ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(list_cxt);
	scd2_flow_watch();
	flows_seen = pg_atomic_read_u32(&db->flows_changed) - 1;

	for (;;)
	{
		/*
		 * Reading the list is not for every small batch: when told to, and now and then with
		 * nothing else to do.
		 */
		if (flows_seen != pg_atomic_read_u32(&db->flows_changed))
			reload();
		if (homes != apply_workers())
		{
			homes = apply_workers();	/* a setting was reloaded: flows have another home */
			tell_at_home();
		}
		busy = one_round(&next) > 0;
		repair_feeds(&next);
		if (!told)
			scd2_worker_succeeded();
		told = true;
		if (my_slot == 0 && scd2_feed_upkeep(busy))
		{
			busy = true;		/* there is more to purge; who is told to stop hears it in between */
			scd2_worker_wait(0);
		}
		if (busy)
			continue;
		if (GetCurrentTimestamp() - listed_at >= (int64) scd2_naptime * 1000)
		{
			reload();
			if (one_round(&next) > 0)
				continue;
		}
		pgstat_report_stat(true);
		pgstat_report_activity(STATE_IDLE, NULL);
		scd2_worker_wait(time_to_wait(next));
	}
}

void
scd2_apply_main(Datum arg)
{
	Scd2WorkerArg me;

	db = scd2_worker_begin(&me);
	my_slot = me.apply_slot;
	scd2_worker_run(run);
}
