/*
 * blame.c
 *		The feed at whose changes capture fails again and again.
 *
 * An error while a change is decoded ends the capture worker, for the decoder is of no use any more.
 * The next worker comes to the same change, and if the error is not one that passes, no table of the
 * database would be captured any more because of one. So a worker that dies leaves in shared memory
 * at which feed it was, and at which place in the log. After SAME_DEATHS of that kind in a row, all
 * at the same feed and place, the next worker gives that feed a gap there, with the error, and the
 * others go on.
 *
 * Lack of resources, conflicts and operators (classes 40, 53, 57) do not count: those pass.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "pg_scd2.h"
#include "capture/blame.h"
#include "worker/shmem.h"

#define SAME_DEATHS		5

int			scd2_feed_at_work = 0;
int			scd2_condemned_feed = 0;

static char *why = NULL;

/* Why the condemned feed is to have a gap. */
const char *
scd2_condemned_why(void)
{
	return why;
}

/* At the worker's start. */
void
scd2_blame_load(void)
{
	Scd2Database *db = scd2_my_database();
	char		error[SCD2_ERROR_LEN];

	LWLockAcquire(scd2_shmem->lock, LW_SHARED);
	scd2_condemned_feed = db->blamed_times >= SAME_DEATHS ? db->blamed_feed : 0;
	strlcpy(error, db->blamed_error, sizeof(error));
	LWLockRelease(scd2_shmem->lock);
	if (scd2_condemned_feed != 0)
		why = MemoryContextStrdup(TopMemoryContext, psprintf("capture failed %d times at a change of it: %s", SAME_DEATHS, error));
}

static bool
counts(int sqlerrcode)
{
	switch (ERRCODE_TO_CATEGORY(sqlerrcode))
	{
		case ERRCODE_TRANSACTION_ROLLBACK:
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_OPERATOR_INTERVENTION:
			return false;
		default:
			return true;
	}
}

/*
 * The worker dies, "at" a place in the log. Returns whether it was at work for a feed, so that it is worth trying again
 * soon: it is either another error then, or the feed's.
 */
bool
scd2_blame_note(const ErrorData *error, XLogRecPtr at)
{
	Scd2Database *db = scd2_my_database();

	if (db == NULL || scd2_feed_at_work == 0 || !counts(error->sqlerrcode))
		return false;
	LWLockAcquire(scd2_shmem->lock, LW_EXCLUSIVE);
	db->blamed_times = db->blamed_feed == scd2_feed_at_work && db->blamed_at == at ? db->blamed_times + 1 : 1;
	db->blamed_feed = scd2_feed_at_work;
	db->blamed_at = at;
	strlcpy(db->blamed_error, error->message, SCD2_ERROR_LEN);
	LWLockRelease(scd2_shmem->lock);
	return true;
}

/* A batch was written: the gap of the condemned feed, if it was in it, is there. */
void
scd2_blame_settle(void)
{
	Scd2Database *db = scd2_my_database();

	LWLockAcquire(scd2_shmem->lock, LW_EXCLUSIVE);
	if (db->blamed_feed == scd2_condemned_feed)
		db->blamed_times = db->blamed_feed = 0;
	LWLockRelease(scd2_shmem->lock);
	scd2_condemned_feed = 0;
}
