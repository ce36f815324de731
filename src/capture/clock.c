/*
 * clock.c
 *		The times of versions: commit times, made strictly monotone.
 *
 * Commits are not ordered by their times: the server's clock can be set back, and what a
 * subscription applies carries the publisher's clock. A version's time is greatest(last + 1 µs,
 * least(commit time, our clock)): one commit from the future must not push all that follows there.
 *
 * A commit whose time is moved by more than a second is counted and told of: the history is right
 * in its order, but not in its times. scd2.diagnose() tells of it for an hour, the log once a
 * minute at most.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"

#include "pg_scd2.h"
#include "capture/clock.h"
#include "worker/shmem.h"

#define WORTH_TELLING	USECS_PER_SEC
#define TELL_EVERY		(60 * USECS_PER_SEC)

PG_FUNCTION_INFO_V1(scd2_clock_status);

/* Counts a commit that got another time than its own. */
static void
tell_moved(TimestampTz commit_time, TimestampTz version_time, TransactionId xid, TimestampTz now)
{
	static TimestampTz told_at = 0;
	Scd2Database *db = scd2_my_database();

	if (db)
	{
		pg_atomic_fetch_add_u64(&db->moved, 1);
		pg_atomic_write_u64(&db->moved_at, (uint64) now);
		pg_atomic_write_u64(&db->moved_from, (uint64) commit_time);
		pg_atomic_write_u64(&db->moved_to, (uint64) version_time);
	}
	if (now - told_at < TELL_EVERY)
		return;
	told_at = now;
	ereport(WARNING,
			(errmsg("commit time %s of transaction %u was captured as %s",
					pstrdup(timestamptz_to_str(commit_time)), xid, timestamptz_to_str(version_time)),
			 errdetail("Versions have ascending times that are not in the future. The clock of this server or of a publisher was changed, or they differ.")));
}

/*
 * The time of the next version, after one at "last".
 */
TimestampTz
scd2_clock_tick(TimestampTz last, TimestampTz commit_time, TransactionId xid)
{
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz at = Max(last + 1, Min(commit_time, now));

	/* -infinity and infinity are commit times, too: no difference of the two. */
	if (commit_time < at - WORTH_TELLING || commit_time > at + WORTH_TELLING)
		tell_moved(commit_time, at, xid, now);
	return at;
}

/*
 * For scd2.diagnose(): how many commits since the server started, and of the last one when, from and to.
 */
Datum
scd2_clock_status(PG_FUNCTION_ARGS)
{
	Scd2Database *db = scd2_my_database();
	TupleDesc	desc;
	Datum		values[4] = {0};
	bool		isnull[4] = {false, true, true, true};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = Int64GetDatum(db ? (int64) pg_atomic_read_u64(&db->moved) : 0);
	if (DatumGetInt64(values[0]) > 0)
	{
		memset(isnull, false, sizeof(isnull));
		values[1] = TimestampTzGetDatum((TimestampTz) pg_atomic_read_u64(&db->moved_at));
		values[2] = TimestampTzGetDatum((TimestampTz) pg_atomic_read_u64(&db->moved_from));
		values[3] = TimestampTzGetDatum((TimestampTz) pg_atomic_read_u64(&db->moved_to));
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, isnull)));
}
