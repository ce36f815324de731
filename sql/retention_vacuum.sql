-- vacuum_feed: what it would remove, what it removes, who keeps it from that, and who may call it.
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA retention_vacuum;
SET search_path = retention_vacuum;
CREATE ROLE scd2_owner;
CREATE ROLE scd2_other;
GRANT USAGE, CREATE ON SCHEMA retention_vacuum TO scd2_owner;
GRANT USAGE ON SCHEMA retention_vacuum TO scd2_other;
SET ROLE scd2_owner;
CREATE TABLE t (id integer PRIMARY KEY, v text);
SELECT scd2.track('t');
RESET ROLE;
SELECT scd2.sync() AS base \gset
SET ROLE scd2_owner;
-- nothing yet
SELECT * FROM scd2.vacuum_feed('t', retain => '0');
INSERT INTO t SELECT i, 'a' FROM generate_series(1, 10) i;
SELECT scd2.sync() - :base AS synced;
UPDATE t SET v = 'b' WHERE id <= 3;
SELECT scd2.sync() - :base AS synced;
-- not old enough
SELECT * FROM scd2.vacuum_feed('t');
SELECT * FROM scd2.vacuum_feed('t', retain => '1 hour');
-- what is in the last partition would go
SELECT first_version - :base AS first, last_version - :base AS last, rows, bytes > 0 AS bytes, held_by FROM scd2.vacuum_feed('t', retain => '0', dry_run => true);
SELECT count(*) FROM t_changes;
-- a flow that has not passed it
SELECT scd2.pause_flow('t_history');
DELETE FROM t WHERE id = 10;
SELECT scd2.sync(targets => '{}') - :base AS synced;
SELECT first_version - :base AS first, last_version - :base AS last, rows, held_by = format('flow "t_history" at version %s', :base + 2) AS held FROM scd2.vacuum_feed('t', retain => '0', dry_run => true);
SELECT first_version - :base AS first, last_version - :base AS last, rows, held_by = format('flow "t_history" at version %s', :base + 2) AS held FROM scd2.vacuum_feed('t', retain => '0');
SELECT count(*) FROM t_changes;
SELECT scd2.resume_flow('t_history');
SELECT scd2.sync() - :base AS synced;
-- rolled back: nothing has happened
BEGIN;
SELECT first_version - :base AS first, last_version - :base AS last, rows, held_by FROM scd2.vacuum_feed('t', retain => '0');
SELECT count(*) FROM t_changes;
ROLLBACK;
SELECT count(*), count(DISTINCT tableoid) AS partitions FROM t_changes;
SELECT scd2.earliest_version('t') - :base AS earliest;
-- it is removed, and the flow goes on
SELECT first_version - :base AS first, last_version - :base AS last, rows, bytes > 0 AS bytes, held_by FROM scd2.vacuum_feed('t', retain => '0');
SELECT count(*) FROM t_changes;
SELECT scd2.earliest_version('t') - :base AS earliest, last_vacuum IS NOT NULL AS vacuumed FROM scd2.feeds WHERE source = 't'::regclass;
SELECT * FROM scd2.vacuum_feed('t', retain => '0');
UPDATE t SET v = 'c' WHERE id = 1;
SELECT scd2.sync() - :base AS synced;
SELECT id, v FROM t_history WHERE id = 1 ORDER BY __start_at;
SELECT * FROM scd2.table_at(NULL::t, :base + 3) WHERE id = 1;
-- partitions that have ended, by the feed itself
RESET ROLE;
DO $$
BEGIN
    WHILE scd2_internal.cut_feed('t_changes'::regclass) IS NULL LOOP     -- a worker may have it open
        PERFORM pg_sleep(0.1);
    END LOOP;
END $$;
SET ROLE scd2_owner;
UPDATE t SET v = 'd' WHERE id = 1;
SELECT scd2.sync() - :base AS synced;
SELECT first_version - :base AS first, last_version - :base AS last, rows, held_by FROM scd2.vacuum_feed('t_changes', retain => '0', dry_run => true);
SELECT first_version - :base AS first, last_version - :base AS last, rows, held_by FROM scd2.vacuum_feed('t_changes', retain => '0');
-- refusals
SELECT * FROM scd2.vacuum_feed('t', retain => '-1 day');
SELECT * FROM scd2.vacuum_feed(NULL);
SELECT * FROM scd2.vacuum_feed('t_history');
UPDATE t SET v = 'e' WHERE id = 1;
SELECT scd2.sync() - :base AS synced;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM scd2.vacuum_feed('t', retain => '0');
ROLLBACK;
SET ROLE scd2_other;
SELECT * FROM scd2.vacuum_feed('t', retain => '0');
RESET ROLE;
-- without its index it cannot be cut
SELECT format('DROP INDEX %s', indexrelid::regclass) FROM pg_index JOIN pg_class i ON i.oid = indexrelid JOIN pg_am a ON a.oid = relam WHERE indrelid = 't_changes'::regclass AND amname = 'brin' \gexec
SET client_min_messages = notice;
SELECT * FROM scd2.vacuum_feed('t', retain => '0');
SELECT count(*) FROM t_changes;
SET client_min_messages = warning;
SELECT scd2.untrack('t', drop_targets => true, drop_feed => true);
DROP SCHEMA retention_vacuum CASCADE;
DROP ROLE scd2_owner, scd2_other;
