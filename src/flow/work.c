/*
 * work.c
 *		The target's side of a batch: finding rows by key, collecting row changes, writing them.
 *
 * From scd2_work_begin() to scd2_work_end() we are the target's owner. The target is locked as any
 * writer locks it. Errors need no clean-up here: the transaction's end restores identity and
 * settings; the mark on our writes is taken off by the worker.
 *
 * Rows are found by descents of the primary key (keys, start): see finder.c.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_rewrite.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "rewrite/prs2lock.h"
#include "rewrite/rewriteDefine.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat.h"
#include "flow/work.h"
#include "flow/direct.h"
#include "flow/recall.h"
#include "flow/relations.h"
#include "flow/rights.h"
#include "flow/statements.h"
#include "pg_scd2.h"
#include "worker/marks.h"
#include "worker/worker.h"

static bool
is_guard(const Trigger *trigger)
{
	char	   *name = get_func_name(trigger->tgfoid);

	return name != NULL && strcmp(name, "guard") == 0 &&
		get_func_namespace(trigger->tgfoid) == get_namespace_oid(SCD2_INTERNAL, true);
}

static bool
feed_is_on(Oid relid)
{
	Oid			argtypes[] = {OIDOID};
	Datum		args[] = {ObjectIdGetDatum(relid)};

	if (SPI_execute_with_args("SELECT FROM scd2_internal.feed WHERE source_relid = $1 AND NOT disabled",
							  1, argtypes, args, NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not look for a feed");
	return SPI_processed > 0;
}

static char *
rule_name(Oid rule)
{
	Relation	catalog = table_open(RewriteRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	char	   *name;

	ScanKeyInit(&key, Anum_pg_rewrite_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(rule));
	scan = systable_beginscan(catalog, RewriteOidIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "rule %u does not exist", rule);
	name = pstrdup(NameStr(((Form_pg_rewrite) GETSTRUCT(tuple))->rulename));
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return name;
}

/*
 * A rule that has something else done in place of each write leaves nothing of the target to keep.
 * (What others do, is counted when rows are written.)
 */
static void
check_rules(const Scd2Flow *flow, Relation target)
{
	RuleLock   *rules = target->rd_rules;

	for (int i = 0; rules != NULL && i < rules->numLocks; i++)
	{
		RewriteRule *rule = rules->rules[i];
		char	   *name;

		if (!rule->isInstead || rule->qual != NULL || rule->event == CMD_SELECT ||
			rule->enabled == RULE_DISABLED || rule->enabled == RULE_FIRES_ON_REPLICA)
			continue;
		name = rule_name(rule->ruleId);
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("rule \"%s\" replaces writes to target %s of flow \"%s\"", name, flow->target_sql, flow->name),
						errhint("DROP RULE %s ON %s;", quote_identifier(name), flow->target_sql)));
	}
}

/* What triggers others than we have put on the target; foreign keys are triggers too. */
static void
look_at_triggers(Relation target, bool *only_guard, bool *deferrable)
{
	TriggerDesc *triggers = target->trigdesc;

	*only_guard = true;
	*deferrable = false;
	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		*only_guard = *only_guard && is_guard(&triggers->triggers[i]);
		*deferrable |= triggers->triggers[i].tgdeferrable;
	}
}

/*
 * Whether nobody but the flow sees its writes happen: no feed and no trigger of others on the
 * target. Feeds come with REPLICA IDENTITY FULL, so without it nothing needs to be looked up. Then
 * the writes can be marked, and capture skips them unread.
 */
static bool
writes_are_private(Scd2Work *work)
{
	Relation	target = work->target;

	return work->plain_triggers &&
		(target->rd_rel->relreplident != REPLICA_IDENTITY_FULL || !feed_is_on(RelationGetRelid(target)));
}

/* The names of the target's deferrable constraints, as SET CONSTRAINTS takes them. */
static char *
deferrable_constraints(Relation target)
{
	TriggerDesc *triggers = target->trigdesc;
	StringInfoData names;

	initStringInfo(&names);
	for (int i = 0; i < triggers->numtriggers; i++)
	{
		Oid			constraint = triggers->triggers[i].tgconstraint;
		HeapTuple	tuple;
		Form_pg_constraint form;

		if (!triggers->triggers[i].tgdeferrable)
			continue;
		tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint));
		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for constraint %u", constraint);
		form = (Form_pg_constraint) GETSTRUCT(tuple);
		appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "",
						 quote_qualified_identifier(get_namespace_name(form->connamespace), NameStr(form->conname)));
		ReleaseSysCache(tuple);
	}
	return names.data;
}

/*
 * Deferred triggers cannot fire as the owner. In a session of somebody's (a snapshot) that is no
 * reason to check what else he has deferred. As the owner, for some may have been waiting.
 */
static void
set_constraints_immediate(Relation target)
{
	char	   *sql = psprintf("SET CONSTRAINTS %s IMMEDIATE", scd2_in_worker ? "ALL" : deferrable_constraints(target));

	if (SPI_execute(sql, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not make constraints immediate");
}

/* Locks the target, which from here on stays as it is now: as the flow believes it to be. */
static void
open_target(Scd2Work *work)
{
	Scd2Flow   *flow = work->flow;
	char	   *label = psprintf("target %s", flow->target_sql);

	work->target = scd2_open_to_write(flow->target, label);
	scd2_check_target(flow, work->target);
	if (OidIsValid(flow->target_index))		/* append-only targets may have none */
		work->index = scd2_open_primary_key(work->target, flow->target_index, label);
}

/*
 * Locks the target and becomes its owner; within a transaction, connected to SPI.
 */
Scd2Work *
scd2_work_begin(Scd2Flow *flow)
{
	Scd2Work  *work = palloc0(sizeof(Scd2Work));
	bool		deferrable;

	work->flow = flow;
	work->cxt = CurrentMemoryContext;
	work->key_cxt = AllocSetContextCreate(work->cxt, "pg_scd2 key", ALLOCSET_DEFAULT_SIZES);
	work->row_values = palloc0((flow->shape.ncolumns + 2) * sizeof(Datum));
	work->row_nulls = palloc0((flow->shape.ncolumns + 2) * sizeof(bool));
	work->row_image.values = palloc0(flow->shape.ncolumns * sizeof(Datum));
	work->row_image.isnull = palloc0(flow->shape.ncolumns * sizeof(bool));
	work->row_image.borrowed = true;
	work->last_version = -1;
	open_target(work);
	check_rules(flow, work->target);
	look_at_triggers(work->target, &work->plain_triggers, &deferrable);
	scd2_mark_as_own(flow->target, flow->memory);
	if (scd2_in_worker)
		scd2_mark_writes(writes_are_private(work));
	scd2_flow_become(flow, &work->before);
	if (deferrable)
		set_constraints_immediate(work->target);
	work->direct = scd2_direct_begin(work);
	if (OidIsValid(flow->memory))
		work->recall = scd2_recall_begin(work);
	work->marks = flow->marks;
	work->nmarks = flow->nmarks;
	return work;
}

/* Ourselves again; locks stay until the transaction ends. */
void
scd2_work_end(Scd2Work *work)
{
	if (work->direct != NULL)	/* a dry run */
		scd2_direct_end(work->direct);
	scd2_become_self_again(&work->before);
	if (work->recall != NULL)
		scd2_recall_end(work->recall);
	for (int i = 0; i < SCD2_N_STORES; i++)
		if (work->stores[i] != NULL)
			tuplestore_end(work->stores[i]);
	if (work->index != NULL)
		index_close(work->index, NoLock);
	table_close(work->target, NoLock);
	MemoryContextDelete(work->key_cxt);
	scd2_mark_as_own(InvalidOid, InvalidOid);
}

/*
 * A timeline for the keys of the flow, with the marks known so far.
 */
Scd2Timeline
scd2_work_timeline(Scd2Work *work, Scd2TimelineUse use)
{
	Scd2Flow   *flow = work->flow;

	return (Scd2Timeline){
		.shape = &flow->shape,
		.scd_type = flow->scd_type,
		.compare = flow->sequence_compare,
		.collation = flow->sequence_collation,
		.sequence_typlen = flow->sequence_typlen,
		.sequence_typbyval = flow->sequence_typbyval,
		.remembers = work->recall != NULL,
		.remembers_places = flow->others || flow->shape.ignores_null != NULL,
		.marks = work->marks,
		.nmarks = work->nmarks,
		.use = use};
}

/*
 * Lookups see what the active snapshot sees, which must live until they stop.
 */
void
scd2_work_start_lookups(Scd2Work *work)
{
	work->rows = scd2_finder_begin(work->flow, work->target, work->index);
	if (work->recall != NULL)
		scd2_recall_start_lookups(work->recall);
}

void
scd2_work_stop_lookups(Scd2Work *work)
{
	scd2_finder_end(work->rows);
	work->rows = NULL;
	if (work->recall != NULL)
		scd2_recall_stop_lookups(work->recall);
}

/* The row that was found. Its image, and whatever of it is by reference, lives until the next lookup. */
static void
read_row(Scd2Work *work, Scd2Row *row)
{
	Scd2Flow   *flow = work->flow;
	TupleTableSlot *slot = work->rows->slot;
	Scd2Image  *image = &work->row_image;

	slot_getallattrs(slot);
	for (int i = 0; i < flow->shape.ncolumns; i++)
	{
		image->values[i] = slot->tts_values[flow->attnums[i] - 1];
		image->isnull[i] = slot->tts_isnull[flow->attnums[i] - 1];
	}
	row->tid = slot->tts_tid;
	row->open = true;
	row->start = row->end = (Datum) 0;
	if (flow->scd_type == 2)
	{
		row->start = slot->tts_values[flow->start_attnum - 1];
		row->end = slot->tts_values[flow->end_attnum - 1];
		row->open = slot->tts_isnull[flow->end_attnum - 1];
	}
	row->image = image;
}

/*
 * What follows is asked of this key, in the order of the flow's keys; it must live until the next.
 */
void
scd2_work_begin_key(Scd2Work *work, const Datum *key)
{
	work->reading = SCD2_READ_NOTHING;
	scd2_finder_begin_key(work->rows, key);
}

/*
 * The key's row that has the highest start (type 1: its row); false if there is none. The row's
 * image lives until the next lookup.
 */
bool
scd2_work_last_row(Scd2Work *work, Scd2Row *row)
{
	if (!scd2_finder_last(work->rows))
		return false;
	read_row(work, row);
	return true;
}

/* A copy of it in the current memory context. */
static Scd2Row *
copy_row(Scd2Flow *flow, const Scd2Row *row)
{
	Scd2Row    *copy = palloc(sizeof(Scd2Row));

	*copy = *row;
	if (flow->scd_type == 2)
	{
		copy->start = datumCopy(row->start, flow->sequence_typbyval, flow->sequence_typlen);
		if (!row->open)
			copy->end = datumCopy(row->end, flow->sequence_typbyval, flow->sequence_typlen);
	}
	copy->image = scd2_image_copy(&flow->shape, row->image->values, row->image->isnull);
	copy->image->borrowed = true;
	return copy;
}

/*
 * Moves on to the next row that the timeline needs: the last that starts below "lowest", then those
 * from there on. Nothing comes after an open row.
 */
static bool
find_next_row(Scd2Work *work, Datum lowest)
{
	bool		found = false;

	if (work->reading == SCD2_READ_ALL)
		return false;
	if (work->flow->scd_type == 1)
		found = scd2_finder_last(work->rows);
	else if (work->reading == SCD2_READ_NOTHING && scd2_finder_last_below(work->rows, lowest))
	{
		work->reading = SCD2_READ_BELOW;
		return true;
	}
	else if (work->reading == SCD2_READING_ON)
		found = scd2_finder_next(work->rows);
	else
		found = scd2_finder_first_from(work->rows, lowest);
	work->reading = found && work->flow->scd_type == 2 ? SCD2_READING_ON : SCD2_READ_ALL;
	return found;
}

/*
 * The next row of the key in work, NULL at the end. "lowest": its first new sequence. What is
 * returned is in the key's memory.
 */
Scd2Row *
scd2_work_next_row(Scd2Work *work, Datum lowest)
{
	Scd2Row		found;
	Scd2Row    *row;
	MemoryContext before;

	if (!find_next_row(work, lowest))
		return NULL;
	read_row(work, &found);
	if (found.open)
		work->reading = SCD2_READ_ALL;
	before = MemoryContextSwitchTo(work->key_cxt);
	row = copy_row(work->flow, &found);
	MemoryContextSwitchTo(before);
	return row;
}

/*
 * The image of the key's row that ends where "row" begins, NULL if there is none; in the key's
 * memory. While only the first row has been asked for, which begins below all that is new.
 */
Scd2Image *
scd2_work_image_before(Scd2Work *work, const Scd2Row *row)
{
	Scd2Flow   *flow = work->flow;
	Scd2Row		found;
	Scd2Image  *image;
	MemoryContext before;

	Assert(work->reading != SCD2_READING_ON);
	if (!scd2_finder_last_below(work->rows, row->start))
		return NULL;
	read_row(work, &found);
	if (found.open || DatumGetInt32(FunctionCall2Coll(&flow->sequence_compare, flow->sequence_collation, found.end, row->start)) != 0)
		return NULL;
	before = MemoryContextSwitchTo(work->key_cxt);
	image = scd2_image_copy(&flow->shape, found.image->values, found.image->isnull);
	image->borrowed = image->whole = true;
	MemoryContextSwitchTo(before);
	return image;
}

static void
put(Scd2Work *work, Scd2Store which)
{
	if (work->stores[which] == NULL)
	{
		MemoryContext before = MemoryContextSwitchTo(work->cxt);

		work->stores[which] = tuplestore_begin_heap(false, false, work_mem);
		MemoryContextSwitchTo(before);
	}
	tuplestore_putvalues(work->stores[which], work->flow->store_desc[which],
						 work->row_values, work->row_nulls);
	work->store_rows[which]++;
}

static void
put_image(Scd2Work *work, int at, const Scd2Image *image)
{
	int			n = work->flow->shape.ncolumns;

	memcpy(work->row_values + at, image->values, n * sizeof(Datum));
	memcpy(work->row_nulls + at, image->isnull, n * sizeof(bool));
}

/*
 * Where a row begins or ends, if it does. The rows of histories alone do: what a change has there of
 * others is no Datum of the sequence's type.
 */
static void
put_bound(Scd2Work *work, int at, Datum bound, bool none)
{
	none |= work->flow->scd_type != 2;
	work->row_values[at] = none ? (Datum) 0 : bound;
	work->row_nulls[at] = none;
}

static void
put_tid(Scd2Work *work, const Scd2Row *row)
{
	work->row_values[0] = PointerGetDatum(unconstify(ItemPointerData *, &row->tid));
	work->row_nulls[0] = false;
}

/*
 * Takes a change from the timeline. (It copies what it needs.)
 */
void
scd2_work_emit(void *arg, const Scd2Change *change)
{
	Scd2Work  *work = arg;
	int			n = work->flow->shape.ncolumns;

	if (work->direct != NULL)
	{
		scd2_direct_emit(work->direct, change);
		return;
	}
	switch (change->kind)
	{
		case SCD2_ROW_INSERT:
			put_image(work, 0, change->image);
			put_bound(work, n, change->start, false);
			put_bound(work, n + 1, change->end, change->open);
			put(work, SCD2_INSERTS);
			break;
		case SCD2_ROW_CLOSE:
			put_tid(work, change->row);
			put_bound(work, 1, change->end, change->open);
			put(work, SCD2_CLOSES);
			break;
		case SCD2_ROW_REWRITE:
			put_tid(work, change->row);
			put_bound(work, 1, change->end, change->open);
			put_image(work, 2, change->image);
			put(work, SCD2_REWRITES);
			break;
		case SCD2_ROW_DELETE:
			put_tid(work, change->row);
			put(work, SCD2_DELETES);
			break;
	}
}

/*
 * There are truncates: the changes of single keys must wait until all other open rows are ended, so
 * they go into stores. Called before the first key.
 */
void
scd2_work_truncated(Scd2Work *work, TimestampTz at)
{
	if (work->direct != NULL)
		scd2_direct_end(work->direct);
	work->direct = NULL;
	work->truncated = true;
	work->truncated_at = at;
}

/* A row that SCD2_END_OTHERS must leave alone. */
void
scd2_work_touch(Scd2Work *work, const Scd2Row *row)
{
	put_tid(work, row);
	put(work, SCD2_TOUCHED);
}

static void
register_stores(Scd2Work *work)
{
	for (int i = 0; i < SCD2_N_STORES; i++)
	{
		EphemeralNamedRelation enr = palloc0(sizeof(EphemeralNamedRelationData));

		enr->md.name = unconstify(char *, scd2_store_name(i));
		enr->md.reliddesc = InvalidOid;
		enr->md.tupdesc = work->flow->store_desc[i];
		enr->md.enrtype = ENR_NAMED_TUPLESTORE;
		enr->md.enrtuples = work->store_rows[i];
		enr->reldata = work->stores[i];
		if (SPI_register_relation(enr) != SPI_OK_REL_REGISTER)
			elog(ERROR, "could not register \"%s\"", enr->md.name);
	}
}

static void
unregister_stores(void)
{
	for (int i = 0; i < SCD2_N_STORES; i++)
		SPI_unregister_relation(scd2_store_name(i));
}

/* Runs a statement over a store, if that has rows; "done" grows by the rows it touched. */
static void
write_store(Scd2Work *work, Scd2Statement which, Scd2Store store, int64 *done)
{
	int			result;

	if (work->store_rows[store] == 0)
		return;
	result = SPI_execute_plan(scd2_flow_plan(work->flow, which), NULL, NULL, false, 0);
	if (result < 0)
		elog(ERROR, "writing the target failed: %s", SPI_result_code_string(result));
	if (SPI_processed != work->store_rows[store])
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("target %s did not take all rows: " INT64_FORMAT " of " INT64_FORMAT,
							   work->flow->target_sql, (int64) SPI_processed, work->store_rows[store]),
						errhint("SELECT tgname FROM pg_trigger WHERE tgrelid = %s::regclass AND NOT tgisinternal; -- one of them suppresses rows, or a rule does",
								quote_literal_cstr(work->flow->target_sql))));
	*done += SPI_processed;
}

/*
 * All open rows that were not looked at end with the TRUNCATE. This one statement may read the
 * whole target.
 */
static void
end_others(Scd2Work *work)
{
	Datum		args[] = {TimestampTzGetDatum(work->truncated_at)};
	int			nest = NewGUCNestLevel();

	if (work->stores[SCD2_TOUCHED] == NULL)
		work->stores[SCD2_TOUCHED] = tuplestore_begin_heap(false, false, work_mem);
	(void) set_config_option("enable_seqscan", "on", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	(void) set_config_option("enable_hashjoin", "on", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	register_stores(work);
	if (SPI_execute_plan(scd2_flow_plan(work->flow, SCD2_END_OTHERS), args, NULL, false, 0) < 0)
		elog(ERROR, "writing the target failed");
	if (work->flow->scd_type == 1)
		work->deleted += SPI_processed;
	else
		work->updated += SPI_processed;
	unregister_stores();
	AtEOXact_GUC(true, nest);
}

/*
 * Writes the collected changes, so that unique indexes on open rows and exclusion constraints on
 * periods hold at every moment: first rows are deleted, into whose periods others may grow, then
 * rows get other ends, then rows begin.
 */
void
scd2_work_write(Scd2Work *work)
{
	if (work->recall != NULL)
		scd2_recall_write(work->recall);
	if (work->direct != NULL)
	{
		scd2_direct_end(work->direct);
		work->direct = NULL;
		return;
	}
	if (work->truncated)
		end_others(work);
	register_stores(work);
	write_store(work, SCD2_DELETE_ROWS, SCD2_DELETES, &work->deleted);
	write_store(work, SCD2_CLOSE_ROWS, SCD2_CLOSES, &work->updated);
	write_store(work, SCD2_REWRITE, SCD2_REWRITES, &work->updated);
	write_store(work, SCD2_INSERT, SCD2_INSERTS, &work->inserted);
	unregister_stores();
}

/*
 * After scd2_work_write(): ready for more, which sees what was written.
 */
void
scd2_work_again(Scd2Work *work)
{
	CommandCounterIncrement();
	for (int i = 0; i < SCD2_N_STORES; i++)
	{
		if (work->stores[i] != NULL)
			tuplestore_end(work->stores[i]);
		work->stores[i] = NULL;
		work->store_rows[i] = 0;
	}
	work->direct = scd2_direct_begin(work);
}
