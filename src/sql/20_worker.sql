-- 20_worker.sql: the workers of this database, waiting for them, and what they show of themselves.

CREATE FUNCTION scd2.sync(timeout interval DEFAULT '1 min', targets regclass[] DEFAULT NULL) RETURNS bigint
    AS 'MODULE_PATHNAME', 'scd2_sync' LANGUAGE C;
COMMENT ON FUNCTION scd2.sync(interval, regclass[]) IS
    'Waits until all that was committed before the call is captured and applied, at most "timeout", into "targets" (NULL: all that the caller owns). Returns the version reached. '
    'Errors: 57014 at the timeout, 55000 if the workers are off or a flow or feed failed, 55P03 if the caller''s own locks are in the way, 25001 in a transaction that has written or whose snapshot is fixed.';

-- What shared memory knows of this database's workers: one row, NULLs if the library is not preloaded.
CREATE FUNCTION scd2_internal.capture_status(
        OUT state text, OUT pid integer, OUT captured_lsn pg_lsn, OUT version bigint, OUT spilled_bytes bigint, OUT error text, OUT apply_pids integer[])
    AS 'MODULE_PATHNAME', 'scd2_capture_status' LANGUAGE C;

-- Latest version of a feed, NULL if not known (then it may be any up to the position's).
CREATE FUNCTION scd2_internal.feed_latest(feed_id integer) RETURNS bigint
    AS 'MODULE_PATHNAME', 'scd2_feed_latest_sql' LANGUAGE C STRICT;

-- Raises 55000 with the setting that is wrong and a hint, if nothing can be captured on this server; waits for the worker's slot if there is none yet
-- (bounded by pg_scd2.lock_timeout, and only while the transaction has written nothing), else fails with what it waits for.
CREATE FUNCTION scd2_internal.require_capture() RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_require_capture' LANGUAGE C;
