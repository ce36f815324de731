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
 * None of this can fail a user's transaction. But one that creates, alters or drops the extension,
 * or starts or stops the workers, cannot be prepared: who commits it later, perhaps after a restart,
 * does not know what to tell the launcher.
 *
 * Dropping the extension gives replica identities back, and warns of the slot on a server where no
 * worker can drop it (not preloaded, switched off), by an event trigger: without the library
 * preloaded there are no hooks.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/dependency.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_type.h"
#include "commands/event_trigger.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "replication/origin.h"
#include "utils/acl.h"
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
static bool changed_at_commit = false;	/* the extension: dropped or updated */
static bool recheck_at_commit = false;
static bool flows_at_commit = false;

static void
at_commit(void)
{
	static XLogRecPtr last_commit = InvalidXLogRecPtr;

	/*
	 * Of an extension that is gone a worker drops the slot, if need be one that is started for it:
	 * after scd2.stop() there is none. One that was updated may be what the library waited for.
	 */
	if (start_at_commit || changed_at_commit)
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
refuse_to_prepare(void)
{
	if (start_at_commit || changed_at_commit || recheck_at_commit)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot PREPARE a transaction that creates, alters or drops extension \"%s\", or starts or stops its workers",
						SCD2_EXTENSION)));
}

static void
at_xact_event(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			refuse_to_prepare();
			return;
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
	changed_at_commit = false;
	recheck_at_commit = false;
	flows_at_commit = false;
}

static void
at_object_access(ObjectAccessType access, Oid classId, Oid objectId, int subId, void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, classId, objectId, subId, arg);
	if ((access == OAT_DROP || access == OAT_POST_ALTER) && classId == ExtensionRelationId &&
		objectId == get_extension_oid(SCD2_EXTENSION, true))
		changed_at_commit = recheck_at_commit = true;
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

/* Does a list of names have one of these? */
static bool
has_name(List *names, const char *one, const char *other)
{
	ListCell   *lc;

	foreach(lc, names)
		if (strcmp(strVal(lfirst(lc)), one) == 0 || strcmp(strVal(lfirst(lc)), other) == 0)
			return true;
	return false;
}

static bool
owns_us(List *roles)
{
	bool		found = false;
	ListCell   *lc;

	foreach(lc, roles)
	{
		Oid			types[] = {OIDOID};
		Datum		values[] = {ObjectIdGetDatum(get_rolespec_oid(lfirst(lc), true))};

		if (SPI_execute_with_args("SELECT FROM pg_catalog.pg_extension WHERE extname = '" SCD2_EXTENSION "' AND extowner = $1",
								  1, types, values, NULL, true, 1) != SPI_OK_SELECT)
			elog(ERROR, "could not read pg_extension");
		found |= SPI_processed > 0;
	}
	return found;
}

/* Does a statement drop the extension, by itself or with the schema that it depends on or its owner's objects? */
static bool
drops_us(Node *statement)
{
	if (IsA(statement, DropOwnedStmt))
		return owns_us(((DropOwnedStmt *) statement)->roles);
	if (!IsA(statement, DropStmt))
		return false;
	if (((DropStmt *) statement)->removeType == OBJECT_EXTENSION)
		return has_name(((DropStmt *) statement)->objects, SCD2_EXTENSION, SCD2_EXTENSION);
	return ((DropStmt *) statement)->removeType == OBJECT_SCHEMA &&
		has_name(((DropStmt *) statement)->objects, SCD2_SCHEMA, SCD2_INTERNAL);
}

static void
warn_of_slot(void)
{
	char	   *slot;

	if (SPI_execute("SELECT p.slot FROM scd2_internal.position p JOIN pg_catalog.pg_replication_slots s"
					" ON s.slot_name OPERATOR(pg_catalog.=) p.slot", true, 1) != SPI_OK_SELECT || SPI_processed == 0)
		return;
	slot = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	ereport(WARNING,
			(errmsg("replication slot \"%s\" stays and holds back WAL: no worker runs that could drop it", slot),
			 errhint("SELECT pg_drop_replication_slot(%s);", quote_literal_cstr(slot))));
}

/* Event trigger, ddl_command_start of what may drop the extension. */
Datum
scd2_on_drop_extension(PG_FUNCTION_ARGS)
{
	EventTriggerData *event = (EventTriggerData *) fcinfo->context;

	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		elog(ERROR, "scd2_on_drop_extension: not called by an event trigger");
	if (!superuser())
		return PointerGetDatum(NULL);
	SPI_connect();
	if (drops_us((Node *) event->parsetree))
	{
		if (SPI_execute("SELECT scd2_internal.give_back_identities()", false, 0) != SPI_OK_SELECT)
			elog(ERROR, "could not call scd2_internal.give_back_identities()");
		if (SPI_execute("SELECT scd2_internal.lock_catalogs()", false, 0) != SPI_OK_SELECT)
			elog(ERROR, "could not call scd2_internal.lock_catalogs()");
		if (scd2_shmem == NULL || !scd2_enabled)
			warn_of_slot();
	}
	SPI_finish();
	return PointerGetDatum(NULL);
}
