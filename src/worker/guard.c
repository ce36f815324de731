/*
 * guard.c
 *		Keeps others from writing into feeds and targets.
 *
 * A statement trigger on each feed and target. Our workers pass. The owner passes after SET pg_scd2.allow_target_writes = on, which says that he knows: what he writes is in no source, and a
 * rebuild takes it away. Everybody else gets 55000. The trigger is always enabled, and depends on the extension, so that DROP EXTENSION needs no CASCADE for it.
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/rel.h"

#include "pg_scd2.h"
#include "compat.h"
#include "worker/worker.h"

PG_FUNCTION_INFO_V1(scd2_guard);

Datum
scd2_guard(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	Relation	rel;

	if (!CALLED_AS_TRIGGER(fcinfo))
		elog(ERROR, "scd2_guard: not called by a trigger");
	rel = trigger->tg_relation;
	if (scd2_in_worker)
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
				 errhint("As the owner: SET pg_scd2.allow_target_writes = on;")));
	return PointerGetDatum(NULL);
}
