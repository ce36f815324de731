/*
 * identity.c
 *		Running code that a user wrote with that user's rights.
 *
 * A worker is a superuser process. Whatever the owner of a table wrote (expressions, triggers,
 * checks, index expressions, casts, operators of his types) runs as that owner, in a
 * security-restricted operation (no SET ROLE back, no temporary objects, no deferred triggers, no
 * LISTEN), and with search_path pinned to pg_catalog, so that an unqualified name means what it
 * meant when it was checked.
 *
 * None of its statements is ours (feed/bare.c).
 *
 * Who becomes a superuser has only functions run that superusers own (worker/code.c). In a worker
 * that is so from its beginning; in a session from here to the end, but for what its caches have.
 *
 * After an error nothing has to be undone by hand: ending the (sub)transaction restores user,
 * security context and settings.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/guc.h"

#include "pg_scd2.h"
#include "identity.h"
#include "worker/code.h"
#include "worker/worker.h"

bool		scd2_has_been_another = false;	/* since a worker looked last (worker/session.c) */

/*
 * Becomes "role" until scd2_become_self_again(). "before" is filled in, owned by the caller. May be nested.
 */
void
scd2_become(Oid role, Scd2Identity *before)
{
	GetUserIdAndSecContext(&before->userid, &before->sec_context);
	before->guc_nestlevel = NewGUCNestLevel();
	scd2_has_been_another = true;
	(void) set_config_option("search_path", "pg_catalog, pg_temp",
							 PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	if (scd2_own_ddl)
		(void) set_config_option("pg_scd2.own_ddl", "off", PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	SetUserIdAndSecContext(role,
						   before->sec_context | SECURITY_LOCAL_USERID_CHANGE |
							   SECURITY_RESTRICTED_OPERATION);
	before->code_rules = 0;
	if (!scd2_in_worker && superuser_arg(role))
	{
		scd2_code_begin(SCD2_CODE_OF_SUPERUSERS);
		before->code_rules++;
	}
}

/*
 * After scd2_become() of a superuser: functions of everybody may run as him, which are refused
 * otherwise.
 */
void
scd2_trust_code(Scd2Identity *before)
{
	scd2_code_begin(SCD2_CODE_ANY);
	before->code_rules++;
}

void
scd2_become_self_again(const Scd2Identity *before)
{
	for (int i = 0; i < before->code_rules; i++)
		scd2_code_end();
	AtEOXact_GUC(false, before->guc_nestlevel);
	SetUserIdAndSecContext(before->userid, before->sec_context);
}
