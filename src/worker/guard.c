/*
 * guard.c
 *		Keeps others from writing into feeds and targets.
 *
 * A statement trigger on each feed and target. Our workers pass with what they write themselves; a
 * trigger or expression of somebody's that runs in a worker does not. The owner passes after SET
 * pg_scd2.allow_target_writes = on, which says that he knows: what he writes is in no source, and a
 * rebuild takes it away. Everybody else gets 55000. The trigger is always enabled, and depends on
 * the extension, so that DROP EXTENSION needs no CASCADE for it. (Not by ALTER TRIGGER … DEPENDS ON
 * EXTENSION: that locks the extension against everybody until the transaction ends, and the next
 * who enables a feed, of whatever table, would wait as long.)
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "commands/extension.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/rel.h"

#include "pg_scd2.h"
#include "compat.h"
#include "feed/disorder.h"
#include "worker/marks.h"
#include "worker/worker.h"

PG_FUNCTION_INFO_V1(scd2_guard);
PG_FUNCTION_INFO_V1(scd2_depend_on_extension);
PG_FUNCTION_INFO_V1(scd2_belong_to_table);

Datum
scd2_guard(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	Relation	rel;

	if (!CALLED_AS_TRIGGER(fcinfo))
		elog(ERROR, "scd2_guard: not called by a trigger");
	rel = trigger->tg_relation;
	if (scd2_writes_itself(RelationGetRelid(rel)))
		return PointerGetDatum(NULL);
	if (!has_privs_of_role(GetUserId(), rel->rd_rel->relowner))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" is written by pg_scd2 alone", RelationGetRelationName(rel)),
				 errdetail("Its rows follow from its source.")));
	if (!scd2_allow_target_writes)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" is written by pg_scd2 alone", RelationGetRelationName(rel)),
				 errdetail("What is written by hand follows from no source, and a rebuild takes it away."),
				 errhint("SET pg_scd2.allow_target_writes = on;")));
	if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event) || TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
		scd2_note_disorder(RelationGetRelid(rel));
	return PointerGetDatum(NULL);
}

/*
 * Has a trigger go with the extension. Arguments: a relation's oid, the trigger's name. Raises
 * 42704 if either is gone.
 */
Datum
scd2_depend_on_extension(PG_FUNCTION_ARGS)
{
	ObjectAddress trigger;
	ObjectAddress extension;

	ObjectAddressSet(trigger, TriggerRelationId,
					 get_trigger_oid(PG_GETARG_OID(0), NameStr(*PG_GETARG_NAME(1)), false));
	ObjectAddressSet(extension, ExtensionRelationId, get_extension_oid(SCD2_EXTENSION, false));
	LockDatabaseObject(ExtensionRelationId, extension.objectId, 0, AccessShareLock);
	if (get_extension_oid(SCD2_EXTENSION, false) != extension.objectId)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("extension \"%s\" was dropped meanwhile", SCD2_EXTENSION)));
	recordDependencyOn(&trigger, &extension, DEPENDENCY_AUTO_EXTENSION);
	PG_RETURN_VOID();
}

/*
 * scd2_internal.belong_to_table(function oid, relation oid): an automatic dependency. The caller has looked that there is none.
 */
Datum
scd2_belong_to_table(PG_FUNCTION_ARGS)
{
	ObjectAddress function;
	ObjectAddress table;

	ObjectAddressSet(function, ProcedureRelationId, PG_GETARG_OID(0));
	ObjectAddressSet(table, RelationRelationId, PG_GETARG_OID(1));
	recordDependencyOn(&function, &table, DEPENDENCY_AUTO);
	CommandCounterIncrement();
	PG_RETURN_VOID();
}
