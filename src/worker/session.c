/*
 * session.c
 *		What a worker's session keeps from one transaction to the next: nothing of users'.
 *
 * One worker runs the triggers, expressions and checks of many owners, one batch after the other. What
 * the code of one leaves in the session would meet that of the next, or stay as long as the worker
 * lives. DISCARD ALL is the measure, at the end of each transaction, but our own plans and settings
 * stay:
 *
 *   settings                        at commit as at abort they are as they were when the transaction began, whoever set them and
 *                                   however: what a worker fixes for itself, it sets outside of transactions
 *   advisory locks of the session   released
 *   sequences                       forgotten: values that were cached, lastval(), currval()
 *   random()                        begins at a new place, whatever setseed() said
 *
 * The rest cannot be made in a security-restricted operation, in which all of that code runs
 * (identity.c): prepared statements, LISTEN, cursors WITH HOLD, temporary objects.
 *
 * While log is decoded, each transaction of others is an aborted one of ours, which runs nobody's
 * code: those pay nothing.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/sequence.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "storage/lock.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"

#include "identity.h"
#include "worker/session.h"

/* Takes back what the transaction at hand has set, and goes on as if it had set nothing. */
static void
restore_settings(void)
{
	AtEOXact_GUC(false, 1);
	AtStart_GUC();
}

/* Raises nothing: the transaction has ended. */
static void
forget(void)
{
	LockReleaseSession(USER_LOCKMETHOD);
	ResetSequenceCaches();
	if (scd2_has_been_another)
		DirectFunctionCall1(setseed, Float8GetDatum(pg_prng_double(&pg_global_prng_state)));
	scd2_has_been_another = false;
}

static void
end_of_transaction(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			restore_settings();
			break;
		case XACT_EVENT_COMMIT:
			forget();
			break;
		case XACT_EVENT_ABORT:
			if (scd2_has_been_another)
				forget();
			break;
		default:
			break;
	}
}

/*
 * Called once by a worker, when its settings are fixed.
 */
void
scd2_session_init(void)
{
	RegisterXactCallback(end_of_transaction, NULL);
}
