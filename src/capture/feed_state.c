/*
 * feed_state.c
 *		What capture notes of a feed: it is captured, has a gap, is being repaired, was disabled.
 *
 * Rows of scd2_internal.feed_state, in the transaction that captures the place in the log where they
 * become true. All functions are called within SPI.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/builtins.h"

#include "capture/feed_state.h"
#include "worker/worker.h"

static void
execute(const char *sql, int nargs, Oid *types, Datum *values, const char *nulls)
{
	int			rc = SPI_execute_with_args(sql, nargs, types, values, nulls, false, 0);

	if (rc < 0)
		elog(ERROR, "SPI error %s: %s", SPI_result_code_string(rc), sql);
}

/* A feed begins at the place of its control record. */
void
scd2_feed_state_enable(const Scd2Control *control)
{
	Oid			types[] = {INT4OID, OIDOID, OIDOID, INT8OID, TIMESTAMPTZOID};
	Datum		values[] = {
		Int32GetDatum(control->feed_id), ObjectIdGetDatum(control->source_relid),
		ObjectIdGetDatum(control->feed_relid), Int64GetDatum(control->version),
		TimestampTzGetDatum(control->timestamp)
	};

	execute("INSERT INTO scd2_internal.feed_state"
			" (feed_id, source_relid, feed_relid, state, enabled_version, enabled_at, earliest_version)"
			" VALUES ($1, $2, $3, 'running', $4, $5, $4)", 5, types, values, NULL);
}

void
scd2_feed_state_disable(int feed_id)
{
	Oid			types[] = {INT4OID};
	Datum		values[] = {Int32GetDatum(feed_id)};

	execute("DELETE FROM scd2_internal.feed_state WHERE feed_id = $1", 1, types, values, NULL);
	execute("DELETE FROM scd2_internal.feed_column WHERE feed_id = $1", 1, types, values, NULL);
	execute("DELETE FROM scd2_internal.reconstruction WHERE feed_id = $1", 1, types, values, NULL);
	scd2_feed_forget(feed_id);
}

/*
 * What the repair of a feed brings stands at this place. A feed that is not broken (any more) needs
 * none. Since it failed nothing was followed.
 */
void
scd2_feed_state_resync(const Scd2Control *control)
{
	Oid			types[] = {INT4OID, INT8OID, TIMESTAMPTZOID};
	Datum		values[] = {
		Int32GetDatum(control->feed_id), Int64GetDatum(control->version), TimestampTzGetDatum(control->timestamp)
	};

	execute("UPDATE scd2_internal.feed_state SET state = 'running', resync_version = $2, resync_timestamp = $3, resync_failures = 0, resync_retry_at = NULL, catches_up = true"
			" WHERE feed_id = $1 AND state = 'failed' AND broken_at IS NOT NULL", 3, types, values, NULL);
	scd2_feed_set_latest(control->feed_id, control->version);
}

/*
 * A feed that got a gap by a rewrite is repaired from this version on. False: there is nothing to compare
 * its source with.
 */
bool
scd2_feed_state_repair(int feed_id, int64 version, TimestampTz timestamp)
{
	Oid			types[] = {INT4OID, INT8OID, TIMESTAMPTZOID};
	Datum		values[] = {Int32GetDatum(feed_id), Int64GetDatum(version), TimestampTzGetDatum(timestamp)};
	bool		isnull;

	execute("SELECT scd2_internal.begin_repair($1, $2, $3)", 3, types, values, NULL);
	return DatumGetBool(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
}

/* Whether scd2_feed_state_repair() would find something. */
bool
scd2_feed_is_comparable(int feed_id)
{
	Oid			types[] = {INT4OID};
	Datum		values[] = {Int32GetDatum(feed_id)};

	execute("SELECT FROM scd2_internal.feed f WHERE f.feed_id = $1 AND scd2_internal.is_comparable(f)", 1, types, values, NULL);
	return SPI_processed > 0;
}

/* A feed that was disabled meanwhile, further on in the log, may well be gone. */
bool
scd2_feed_is_disabled(int feed_id)
{
	Oid			types[] = {INT4OID};
	Datum		values[] = {Int32GetDatum(feed_id)};

	execute("SELECT FROM scd2_internal.feed WHERE feed_id = $1 AND NOT disabled", 1, types, values, NULL);
	return SPI_processed == 0;
}

/* A feed has a gap from a version on; one that it has already may begin earlier now. */
void
scd2_feed_state_fail(int feed_id, int64 version, const char *why)
{
	Oid			types[] = {INT4OID, INT8OID, TEXTOID};
	Datum		values[] = {Int32GetDatum(feed_id), Int64GetDatum(version), CStringGetTextDatum(why)};

	execute("UPDATE scd2_internal.feed_state"
			" SET state = 'failed', gap = int8range(least(lower(gap), $2), NULL), broken_at = least(broken_at, $2), resync_version = NULL,"
			"     catches_up = false, error = $3, error_at = clock_timestamp()"
			" WHERE feed_id = $1 AND (state = 'running' OR $2 < broken_at)", 3, types, values, NULL);
}
