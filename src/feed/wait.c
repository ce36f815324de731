/*
 * wait.c
 *		Waiting, in a session, until the log up to now is captured.
 *
 * table_at needs it: the rows that its snapshot sees may have been changed by transactions that are
 * not in the feed yet. What the snapshot sees was committed before, so its commit records lie
 * before the insert position that is read here, after the snapshot was taken.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

#include "pg_scd2.h"
#include "worker/ready.h"
#include "worker/shmem.h"
#include "worker/sync.h"

PG_FUNCTION_INFO_V1(scd2_wait_captured);

/* Waiting makes sense as long as a worker captures or is about to. */
static void
check_capturing(Scd2Database *db)
{
	Scd2CaptureState state;

	if (db == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no worker captures changes in this database"),
				 errhint("SELECT * FROM scd2.preflight();")));
	LWLockAcquire(scd2_shmem->lock, LW_SHARED);
	state = db->state;
	LWLockRelease(scd2_shmem->lock);
	scd2_refuse_copy();
	if (state != SCD2_CAPTURE_OFF && state != SCD2_CAPTURE_FAILED && state != SCD2_CAPTURE_STOPPED)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the worker that captures changes does not run"),
			 errhint("SELECT * FROM scd2.diagnose();")));
}

static long
milliseconds(const Interval *span)
{
	return span->time / 1000 + (span->day + span->month * (int64) DAYS_PER_MONTH) * SECS_PER_DAY * INT64CONST(1000);
}

/* scd2._wait_captured(timeout interval) */
Datum
scd2_wait_captured(PG_FUNCTION_ARGS)
{
	TimestampTz deadline = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), milliseconds(PG_GETARG_INTERVAL_P(0)));
	XLogRecPtr	upto = scd2_flushed_end();
	Scd2Database *db = scd2_my_database();

	scd2_require_settings();
	check_capturing(db);
	ConditionVariablePrepareToSleep(&db->progress);
	while (pg_atomic_read_u64(&db->captured_lsn) < upto)
	{
		scd2_wake_capture(upto);
		if (ConditionVariableTimedSleep(&db->progress, 100, PG_WAIT_EXTENSION))
		{
			ConditionVariableCancelSleep();
			check_capturing(db);
			if (scd2_worker_behind_us(false) != NULL)
				ereport(ERROR,
						(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
						 errmsg("capture waits for a lock of this transaction, which would wait for capture"),
						 errhint("COMMIT;")));
		}
		if (GetCurrentTimestamp() >= deadline)
			ereport(ERROR,
					(errcode(ERRCODE_QUERY_CANCELED),
					 errmsg("timeout while waiting for changes to be captured"),
					 errhint("SELECT * FROM scd2.capture;")));
	}
	ConditionVariableCancelSleep();
	PG_RETURN_VOID();
}
