-- A range that crosses changes of the table's columns has one shape, the feed's as it is now: a column has the name and the type that it has now, what a row did not have is NULL or the default that came with the column, what was dropped is still there (FR-05).
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE SCHEMA feed_columns;
SET search_path = feed_columns;
CREATE TABLE t (id integer PRIMARY KEY, gone text, kept text);
SELECT scd2.enable_change_feed('t');
SELECT scd2.sync() AS v0 \gset
INSERT INTO t VALUES (1, 'g1', 'k1');
ALTER TABLE t ADD COLUMN added integer;
INSERT INTO t VALUES (2, 'g2', 'k2', 2);
-- in one transaction with changes before and after it
BEGIN;
UPDATE t SET kept = 'before' WHERE id = 1;
ALTER TABLE t DROP COLUMN gone, ADD COLUMN later text DEFAULT 'd';
UPDATE t SET kept = 'after' WHERE id = 1;
COMMIT;
ALTER TABLE t RENAME COLUMN kept TO called;
UPDATE t SET called = 'renamed' WHERE id = 2;
SELECT scd2.sync() AS v1 \gset
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't_changes'::regclass AND attnum > 5 AND NOT attisdropped ORDER BY attnum;
SELECT _change_type, _commit_version - :v0 AS version, id, gone, added, later, called FROM scd2.table_changes(NULL::t_changes);
SELECT _commit_version - :v0 AS version, _change_ordinal AS n, _row FROM scd2.table_changes('t');
-- the same with all of it waiting in the log
SELECT scd2.stop();
INSERT INTO t VALUES (3, 'k3', 3, 'l3');
ALTER TABLE t ADD COLUMN last date, DROP COLUMN added;
INSERT INTO t VALUES (4, 'k4', 'l4', '2026-01-01');
ALTER TABLE t DROP COLUMN last;
UPDATE t SET called = 'end' WHERE id = 4;
SELECT scd2.start();
SELECT scd2.sync() AS v2 \gset
SELECT _change_type, _commit_version - :v0 AS version, id, added, later, called, last FROM scd2.table_changes(NULL::t_changes, :v1 + 1);
SELECT state, gap FROM scd2.feeds WHERE source = 't'::regclass;
DROP SCHEMA feed_columns CASCADE;
