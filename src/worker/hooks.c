/*
 * hooks.c
 *		What every session does for us: wakes the capture worker at commit, and tells it when the
 *		extension comes or goes.
 *
 * At commit. The hook runs after the transaction has become visible. XactLastCommitEnd moves with
 * every commit that wrote WAL, COMMIT PREPARED from a session without an xid included. What it
 * costs a writer is one compare, and a SetLatch that does nothing while the worker has not reset
 * its latch (which it does at most every two milliseconds). Commits whose writes are marked as
 * nothing to capture wake nobody.
 *
 * None of this can fail a user's transaction.
 *
 * DROP EXTENSION on a server where no worker can drop the slot (not preloaded, switched off) warns
 * of it, by an event trigger: without the library preloaded there are no hooks.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/dependency.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_extension.h"
#include "commands/event_trigger.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "replication/origin.h"
#include "utils/builtins.h"

#include "pg_scd2.h"
#include "worker/hooks.h"
#include "worker/shmem.h"

PG_FUNCTION_INFO_V1(scd2_start_workers_at_commit);
PG_FUNCTION_INFO_V1(scd2_workers_changed);
PG_FUNCTION_INFO_V1(scd2_wake_apply_at_commit);
PG_FUNCTION_INFO_V1(scd2_on_drop_extension);

static object_access_hook_type prev_object_access_hook = NULL;

/* What to do when this transaction commits. */
static bool start_at_commit = false;
static bool dropped_at_commit = false;
static bool recheck_at_commit = false;
static bool flows_at_commit = false;

static void
at_commit(void)
{
	static XLogRecPtr last_commit = InvalidXLogRecPtr;

	/*
	 * Of an extension that is gone a worker drops the slot, if need be one that is started for it:
	 * after scd2.stop() there is none.
	 */
	if (start_at_commit || dropped_at_commit)
		scd2_want_workers(MyDatabaseId);
	if (recheck_at_commit)
	{
		Scd2Database *db = scd2_my_database();

		if (db)
		{
			pg_atomic_fetch_add_u32(&db->recheck, 1);
			scd2_wake_apply();
		}
	}
	if (flows_at_commit)
	{
		Scd2Database *db = scd2_my_database();

		if (db)
		{
			pg_atomic_fetch_add_u32(&db->flows_changed, 1);
			scd2_wake_apply();
		}
	}
	if (XactLastCommitEnd == last_commit)
		return;
	last_commit = XactLastCommitEnd;
	if (replorigin_session_origin != DoNotReplicateId)
		scd2_wake_capture(last_commit);
}

static void
at_xact_event(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			at_commit();
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			break;
		default:
			return;
	}
	start_at_commit = false;
	dropped_at_commit = false;
	recheck_at_commit = false;
	flows_at_commit = false;
}

static void
at_object_access(ObjectAccessType access, Oid classId, Oid objectId, int subId, void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, classId, objectId, subId, arg);
	if (access == OAT_DROP && classId == ExtensionRelationId &&
		objectId == get_extension_oid(SCD2_EXTENSION, true))
		dropped_at_commit = recheck_at_commit = true;
}

void
scd2_hooks_init(void)
{
	prev_object_access_hook = object_access_hook;
	object_access_hook = at_object_access;
	RegisterXactCallback(at_xact_event, NULL);
}

/*
 * CREATE EXTENSION and scd2.start(): the launcher starts this database's workers when the
 * transaction commits.
 */
Datum
scd2_start_workers_at_commit(PG_FUNCTION_ARGS)
{
	start_at_commit = true;
	PG_RETURN_VOID();
}

/* scd2.stop(): the workers look whether they are still wanted when the transaction commits. */
Datum
scd2_workers_changed(PG_FUNCTION_ARGS)
{
	recheck_at_commit = true;
	PG_RETURN_VOID();
}

/* A flow's definition or state changed: the apply workers read them again when the transaction commits. */
Datum
scd2_wake_apply_at_commit(PG_FUNCTION_ARGS)
{
	flows_at_commit = true;
	PG_RETURN_VOID();
}

static bool
drops_us(const DropStmt *drop)
{
	ListCell   *lc;

	if (drop->removeType != OBJECT_EXTENSION)
		return false;
	foreach(lc, drop->objects)
		if (strcmp(strVal(lfirst(lc)), SCD2_EXTENSION) == 0)
			return true;
	return false;
}

/* Event trigger, ddl_command_start of DROP EXTENSION: tells of the slot that will stay. */
Datum
scd2_on_drop_extension(PG_FUNCTION_ARGS)
{
	EventTriggerData *event = (EventTriggerData *) fcinfo->context;

	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		elog(ERROR, "scd2_on_drop_extension: not called by an event trigger");
	if ((scd2_shmem != NULL && scd2_enabled) || !superuser() ||
		!IsA(event->parsetree, DropStmt) || !drops_us((DropStmt *) event->parsetree))
		return PointerGetDatum(NULL);
	SPI_connect();
	if (SPI_execute("SELECT p.slot FROM scd2_internal.position p JOIN pg_catalog.pg_replication_slots s"
					" ON s.slot_name OPERATOR(pg_catalog.=) p.slot", true, 1) == SPI_OK_SELECT && SPI_processed > 0)
	{
		char	   *slot = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);

		ereport(WARNING,
				(errmsg("replication slot \"%s\" stays and holds back WAL: no worker runs that could drop it", slot),
				 errhint("SELECT pg_drop_replication_slot(%s);", quote_literal_cstr(slot))));
	}
	SPI_finish();
	return PointerGetDatum(NULL);
}
