/*
 * apply.c
 *		The next batch of a flow.
 *
 * Reads the rows of the feed after the watermark, lets the engine find the row changes, writes them
 * and moves the watermark: one transaction.
 *
 * Reading the tail of a big feed must be cheap. Its index is BRIN, whose unsummarised end is read
 * as a whole. But the writer appends in version order, so what comes after the last applied row
 * lies in its page or behind (not always behind the row: a crash leaves places in the last page
 * that are used again). That row's place is remembered (in this process; each start finds it anew),
 * and the last partition is read from its page on. The place is trusted only while the row is still
 * found at it: VACUUM FULL, CLUSTER or a truncated end of the file move things. What a repair wrote,
 * what was written by hand, and what CLUSTER sorted lies anywhere: neither the row of the last such
 * version nor one before it is a place to go on from.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "storage/bufmgr.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "believed.h"
#include "compat.h"
#include "feed/metadata.h"
#include "flow/append.h"
#include "flow/apply.h"
#include "flow/lateness.h"
#include "flow/marks.h"
#include "flow/relations.h"
#include "flow/rights.h"
#include "flow/sqltext.h"
#include "flow/statements.h"

/*
 * One transaction never takes more than this; it bounds how long a target stays locked and what a
 * failure repeats.
 */
#define MAX_VERSIONS	1000000

/* How far the writer may be ahead for a batch without rows to find its place. */
#define PAGES_BACK		256

/*
 * Is the last applied row still where it was? The lock on the leaf is kept, else a VACUUM FULL that
 * waits for it would move the rows between this look and the reading (and versions would be
 * missed).
 */
static bool
hint_holds(Scd2Flow *flow, int64 watermark, int64 disordered)
{
	Scd2Hint   *hint = &flow->hint;
	Relation	leaf;
	TupleTableSlot *slot;
	bool		holds = false;

	if (!OidIsValid(hint->leaf) || hint->leaf != flow->leaf || hint->version > watermark ||
		hint->version <= disordered)
		return false;
	/* Who was granted the feed has no rights on its partitions, and reads it as a whole. */
	if (pg_class_aclcheck(hint->leaf, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		return false;
	leaf = table_open(hint->leaf, AccessShareLock);
	if (!flow->stale && scd2_relation_storage(leaf) == hint->storage &&
		ItemPointerGetBlockNumber(&hint->tid) < RelationGetNumberOfBlocks(leaf))
	{
		bool		isnull;

		scd2_check_leaf(flow, leaf);
		slot = table_slot_create(leaf, NULL);
		holds = table_tuple_fetch_row_version(leaf, &hint->tid, GetActiveSnapshot(), slot) &&
			DatumGetInt64(slot_getattr(slot, SCD2_META_COMMIT_VERSION + 1, &isnull)) == hint->version;
		ExecDropSingleTupleTableSlot(slot);
	}
	table_close(leaf, NoLock);
	return holds;
}

static void
set_hint(Scd2Flow *flow, ItemPointer tid, int64 version)
{
	Relation	leaf = table_open(flow->leaf, AccessShareLock);

	flow->hint.leaf = flow->leaf;
	flow->hint.storage = scd2_relation_storage(leaf);
	flow->hint.tid = *tid;
	flow->hint.version = version;
	table_close(leaf, AccessShareLock);
}

/*
 * How many places of a page are taken: none of one by which the file was extended and that was not
 * written.
 */
static OffsetNumber
places_of_page(Relation leaf, BlockNumber block)
{
	Buffer		buffer = ReadBuffer(leaf, block);
	OffsetNumber places;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	places = PageGetMaxOffsetNumber(BufferGetPage(buffer));
	UnlockReleaseBuffer(buffer);
	return places;
}

/* The first row of a page that the active snapshot sees; false if there is none. */
static bool
first_of_page(Relation leaf, BlockNumber block, TupleTableSlot *slot)
{
	ItemPointerData tid;
	OffsetNumber places = places_of_page(leaf, block);

	for (OffsetNumber at = FirstOffsetNumber; at <= places; at++)
	{
		ItemPointerSet(&tid, block, at);
		if (table_tuple_fetch_row_version(leaf, &tid, GetActiveSnapshot(), slot))
			return true;
	}
	return false;
}

/*
 * The batch had no row for the flow, as many in a row may have (updates, where inserted rows are
 * events; what a filter leaves out). The next must not read all of them again: any row up to
 * "upto", from near the end of the leaf, will do.
 */
static void
pass_by(Scd2Flow *flow, int64 upto, int64 disordered)
{
	Relation	leaf;
	TupleTableSlot *slot;
	BlockNumber nblocks;
	bool		found = false;

	if (!OidIsValid(flow->leaf))
		return;
	leaf = table_open(flow->leaf, AccessShareLock);
	scd2_check_leaf(flow, leaf);
	slot = table_slot_create(leaf, NULL);
	nblocks = RelationGetNumberOfBlocks(leaf);
	for (BlockNumber back = 1; back <= Min(nblocks, PAGES_BACK) && !found; back++)
	{
		bool		isnull;
		int64		version;

		if (!first_of_page(leaf, nblocks - back, slot))
			continue;
		version = DatumGetInt64(slot_getattr(slot, SCD2_META_COMMIT_VERSION + 1, &isnull));
		if (version > upto || version <= disordered)
			continue;
		set_hint(flow, &slot->tts_tid, version);
		found = true;
	}
	ExecDropSingleTupleTableSlot(slot);
	table_close(leaf, AccessShareLock);
}

static void
read_by(Scd2Work *work, Scd2Statement which, int nargs, const Datum *args)
{
	if (work->flow->input == SCD2_APPEND)
		scd2_append_read(work, which, nargs, args);
	else if (work->flow->input != SCD2_NET)
		scd2_read_arrivals(work, which, nargs, args);
	else
		scd2_read_events(work, which, nargs, args);
}

/* Reads versions (watermark, upto]; leaves a hint for the next batch. */
static void
read_versions(Scd2Work *work, int64 watermark, int64 upto, int64 disordered)
{
	Scd2Flow   *flow = work->flow;
	ItemPointerData page;
	Datum		args[] = {Int64GetDatum(watermark), Int64GetDatum(upto), PointerGetDatum(&page)};

	if (hint_holds(flow, watermark, disordered))
	{
		ItemPointerSet(&page, ItemPointerGetBlockNumber(&flow->hint.tid), 0);
		read_by(work, SCD2_READ_TAIL, 3, args);
	}
	else
		read_by(work, SCD2_READ_RANGE, 2, args);
	if (work->last_version < 0)
	{
		pass_by(flow, upto, disordered);
		return;
	}
	flow->hint.leaf = InvalidOid;
	if (OidIsValid(flow->leaf) && work->last_leaf == flow->leaf && work->last_version > disordered)
		set_hint(flow, &work->last_tid, work->last_version);
}

/* ---- versions that are left out ---- */

/* The first after the watermark. */
static int64
next_skip(const Scd2Flow *flow, int64 watermark)
{
	for (int i = 0; i < flow->nskips; i++)
		if (flow->skips[i] > watermark)
			return flow->skips[i];
	return PG_INT64_MAX;
}

/* How many events a version has for the flow, about, and its time. As the owner, as all that looks into users' tables. */
static int64
count_events(Scd2Flow *flow, int64 version, TimestampTz *at)
{
	Oid			types[] = {INT8OID};
	Datum		args[] = {Int64GetDatum(version)};
	StringInfoData sql;
	Scd2Identity self;
	Datum		max;
	bool		isnull;
	int64		n;

	initStringInfo(&sql);
	scd2_sql(&sql, "SELECT count(*), max(_commit_timestamp) FROM %s WHERE _commit_version = $1 AND _change_type", flow->feed_sql);
	appendStringInfoString(&sql, flow->input == SCD2_EVENTS || flow->input == SCD2_APPEND ? " = 'insert'" : " <> 'update_preimage'");
	scd2_flow_become(flow, &self);
	if (SPI_execute_with_args(sql.data, 1, types, args, NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not read the feed");
	scd2_become_self_again(&self);
	n = DatumGetInt64(scd2_result_value(0, 1, INT8OID, &isnull));
	max = scd2_result_value(0, 2, TIMESTAMPTZOID, &isnull);
	if (!isnull)
		*at = DatumGetTimestampTz(max);
	return n;
}

static void
skip_version(Scd2Flow *flow, Scd2FlowState *state, int64 version)
{
	TimestampTz at = state->watermark_timestamp;
	Scd2Work	nothing = {.flow = flow};

	nothing.events = nothing.skipped = count_events(flow, version, &at);
	ereport(LOG, (errmsg("flow \"%s\" leaves out version " INT64_FORMAT " with " INT64_FORMAT " events, as skip_version() said",
						 flow->name, version, nothing.events)));
	scd2_state_advance(state, &nothing, GetCurrentTimestamp(), version, at);
}

/* Nothing that a flow needs is removed; if it is after all, or somebody did it, the flow must not go on as if nothing had been there. */
static void
check_reaches_back(Scd2Flow *flow, const Scd2FlowState *state)
{
	if (state->watermark_version + 1 >= state->earliest)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("changes that flow \"%s\" has not applied were removed from its feed", flow->name),
			 errdetail("The flow is at version " INT64_FORMAT ", the feed has changes since version " INT64_FORMAT ".",
					   state->watermark_version, state->earliest),
			 errhint("SELECT scd2.full_refresh(%s, allow_loss => true);", quote_literal_cstr(flow->target_sql))));
}

/*
 * Applies versions up to "latest", all of which are in the feed, but not more than a batch's worth.
 * In a transaction, within SPI, under the flow's lock. Returns the rows that were changed in the
 * target.
 */
int64
scd2_apply_batch(Scd2Flow *flow, Scd2FlowState *state, int64 latest)
{
	TimestampTz started = GetCurrentTimestamp();
	int64		skip = next_skip(flow, state->watermark_version);
	int64		upto = Min(Min(latest, skip - 1), state->watermark_version + (flow->most_versions > 0 ? flow->most_versions : MAX_VERSIONS));
	Scd2Work   *work;

	check_reaches_back(flow, state);
	flow->at_version = -1;
	flow->versions_tried = upto - state->watermark_version;
	if (skip == state->watermark_version + 1)
	{
		skip_version(flow, state, skip);
		return 0;
	}
	if (flow->apply_as_truncates != NULL || flow->shared)
		scd2_load_marks(flow);
	if (flow->max_lateness != NULL)
		scd2_lateness_load(flow);
	work = scd2_work_begin(flow);
	PushActiveSnapshot(GetTransactionSnapshot());
	read_versions(work, state->watermark_version, upto, state->disordered);
	PopActiveSnapshot();
	scd2_finish_arrivals(work);
	scd2_lateness_forget_marks(flow);
	scd2_state_advance(state, work, started, upto,
					   work->last_version >= 0 ? work->last_timestamp : state->watermark_timestamp);
	return work->inserted + work->updated + work->deleted;
}
