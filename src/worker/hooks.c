/*
 * hooks.c
 *		What every session does for us: wakes the capture worker at commit, and tells it when the extension comes or goes.
 *
 * At commit. The hook runs after the transaction has become visible. XactLastCommitEnd moves with every commit that wrote WAL, COMMIT PREPARED from a session without an
 * xid included. What it costs a writer is one compare, and a SetLatch that does nothing while the worker has not reset its latch (which it does at most every two milliseconds).
 * Commits whose writes are marked as nothing to capture wake nobody.
 *
 * None of this can fail a user's transaction.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/dependency.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "replication/origin.h"

#include "pg_scd2.h"
#include "worker/hooks.h"
#include "worker/shmem.h"

PG_FUNCTION_INFO_V1(scd2_start_workers_at_commit);
PG_FUNCTION_INFO_V1(scd2_workers_changed);
PG_FUNCTION_INFO_V1(scd2_wake_apply_at_commit);

static object_access_hook_type prev_object_access_hook = NULL;

/* What to do when this transaction commits. */
static bool start_at_commit = false;
static bool recheck_at_commit = false;
static bool flows_at_commit = false;

static void
at_commit(void)
{
	static XLogRecPtr last_commit = InvalidXLogRecPtr;

	if (start_at_commit)
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
		recheck_at_commit = true;
}

void
scd2_hooks_init(void)
{
	prev_object_access_hook = object_access_hook;
	object_access_hook = at_object_access;
	RegisterXactCallback(at_xact_event, NULL);
}

/* CREATE EXTENSION and scd2.start(): the launcher starts this database's workers when the transaction commits. */
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
