-- Snapshots that the worker takes: every refresh_interval, once, in a full refresh; of versions that a query gives. What of a flow can be paused, altered, refreshed and dropped.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = notice;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
CREATE SCHEMA snapshot_worker;
SET search_path = snapshot_worker;
CREATE TABLE parts (kind text, id int, v text, PRIMARY KEY (kind, id)) PARTITION BY LIST (kind);
CREATE TABLE parts_a PARTITION OF parts FOR VALUES IN ('a');
CREATE TABLE parts_b PARTITION OF parts FOR VALUES IN ('b');
INSERT INTO parts VALUES ('a', 1, 'x'), ('b', 1, 'x');
CREATE VIEW seen AS SELECT kind, id, upper(v) AS v FROM parts;
CREATE MATERIALIZED VIEW stored AS TABLE parts;
CREATE TABLE loads (n bigint);
SELECT scd2.create_auto_cdc_from_snapshot_flow('h', 'seen', '{kind,id}', 'bigint', stored_as_scd_type => 2, refresh_interval => '1 hour', version_query => 'SELECT max(n) FROM snapshot_worker.loads', max_delete_fraction => 0.5);
SELECT scd2.create_auto_cdc_from_snapshot_flow('now', 'parts', '{kind,id}', refresh_interval => '1 hour');
SELECT scd2.create_auto_cdc_from_snapshot_flow('one', 'stored', '{kind,id}', 'date', once => true, version_query => 'VALUES (''2026-01-01'')', stored_as_scd_type => 2);
SELECT scd2.sync() >= 0;
-- without a version there is no snapshot; and with one again there is none
SELECT count(*) FROM h;
TABLE now ORDER BY kind;
TABLE one ORDER BY kind;
INSERT INTO loads VALUES (10);
SELECT scd2.sync() >= 0;
TABLE h ORDER BY kind, id, __start_at;
UPDATE parts SET v = 'y' WHERE kind = 'a';
SELECT scd2.sync() >= 0;
TABLE h ORDER BY kind, id, __start_at;
TABLE now ORDER BY kind;
INSERT INTO loads VALUES (20);
INSERT INTO parts VALUES ('b', 2, 'z');
SELECT scd2.sync() >= 0;
TABLE h ORDER BY kind, id, __start_at;
TABLE one ORDER BY kind;
SELECT flow, kind, once, state, rows_inserted, lag_versions, lag < interval '1 min' AS fresh, finished_at IS NOT NULL AS finished, last_error FROM scd2.flows ORDER BY flow;
-- by hand beside it: versions grow for both
SELECT * FROM scd2.apply_snapshot('h', 15);
SELECT * FROM scd2.apply_snapshot('h', 20);
SELECT * FROM scd2.apply_snapshot('h', 30);
SELECT scd2.sync() >= 0;
-- an older version than the last is the flow's failure: it is named, and gone with a right one
SELECT flow, state, last_error FROM scd2.flows WHERE flow = 'h';
SELECT scd2.resume_flow('h');
INSERT INTO loads VALUES (40);
SELECT scd2.sync() >= 0;
SELECT flow, state FROM scd2.flows WHERE flow = 'h';
-- a load that went wrong is refused; diagnose() has what helps if it did not
SELECT scd2.alter_flow('now', refresh_interval => '0');
DELETE FROM parts WHERE id = 1;
INSERT INTO loads VALUES (50);
SELECT scd2.sync() >= 0;
SELECT * FROM scd2.diagnose();
SELECT count(*) FROM h WHERE __end_at IS NULL;
SELECT fix AS pasted FROM scd2.diagnose() \gexec
SELECT scd2.sync() >= 0;
SELECT flow, state FROM scd2.flows ORDER BY flow;
SELECT count(*) FROM h WHERE __end_at IS NULL;
-- paused
SELECT scd2.pause_flow('h');
SELECT * FROM scd2.apply_snapshot('h', 60);
INSERT INTO loads VALUES (60);
SELECT scd2.sync() >= 0;
SELECT * FROM scd2.diagnose();
SELECT scd2.resume_flow('h');
-- altered: refresh_interval alone
SELECT scd2.alter_flow('h', source_filter => 'true');
SELECT scd2.alter_flow('h', refresh_interval => '-1 s');
SELECT scd2.alter_flow('one', refresh_interval => '1 s');
SELECT scd2.alter_flow('h', refresh_interval => '100 ms');
SELECT scd2.sync() >= 0;
INSERT INTO parts VALUES ('b', 3, 'by itself');
INSERT INTO loads VALUES (70);
DO $$ BEGIN
    FOR i IN 1..300 LOOP
        EXIT WHEN EXISTS (SELECT FROM h WHERE id = 3);
        PERFORM pg_sleep(0.1);
        COMMIT;
    END LOOP;
END $$;
SELECT * FROM h WHERE __end_at IS NULL ORDER BY kind, id;
SELECT scd2.alter_flow('h', refresh_interval => '1 hour');
-- a full refresh knows what the source shows now, not what it showed before
SELECT scd2.full_refresh('h');
BEGIN;
SELECT scd2.full_refresh('h', allow_loss => true);
SELECT * FROM scd2.apply_snapshot('h', 80);
ROLLBACK;
SELECT scd2.full_refresh('h', allow_loss => true);
SELECT scd2.sync() >= 0;
TABLE h ORDER BY kind, id, __start_at;
REFRESH MATERIALIZED VIEW stored;
SELECT scd2.full_refresh('one'), scd2.full_refresh('now');
SELECT scd2.sync() >= 0;
TABLE one ORDER BY kind, id;
TABLE now ORDER BY kind, id;
SELECT flow, state FROM scd2.flows ORDER BY flow;
-- of a flow that is applied by hand: at the version it had; before the first there is nothing to do
SELECT scd2.create_auto_cdc_from_snapshot_flow('hand', 'parts', '{kind,id}', 'int', stored_as_scd_type => 2);
SELECT scd2.full_refresh('hand');
SELECT scd2.sync() >= 0;
SELECT * FROM scd2.apply_snapshot('hand', 5);
INSERT INTO parts VALUES ('a', 9, 'new');
SELECT scd2.full_refresh('hand');
SELECT scd2.sync() >= 0;
TABLE hand ORDER BY kind, id;
SELECT * FROM scd2.apply_snapshot('hand', 5);
SELECT * FROM scd2.apply_snapshot('hand', 6);
-- once, and by hand in the transaction that makes it; nobody takes another
BEGIN;
SELECT scd2.create_auto_cdc_from_snapshot_flow('hand', 'stored', '{kind,id}', 'int', name => 'hand once', stored_as_scd_type => 2, once => true, version_query => 'SELECT 99');
SELECT * FROM scd2.apply_snapshot('hand once', 7, allow_deletes => true);
COMMIT;
SELECT scd2.sync() >= 0;
SELECT flow, state FROM scd2.flows WHERE flow = 'hand once';
SELECT DISTINCT __start_at, __end_at FROM hand ORDER BY 1;
-- a source that is a target: sync follows
CREATE TABLE base (id int PRIMARY KEY, v text);
SELECT scd2.track('base', 'base_now', stored_as_scd_type => 1);
SELECT scd2.create_auto_cdc_from_snapshot_flow('chain', 'base_now', '{id}', refresh_interval => '1 hour');
SELECT scd2.create_auto_cdc_from_snapshot_flow('base_now', 'chain', '{id}', refresh_interval => '1 hour');
SELECT scd2.sync() >= 0;
INSERT INTO base VALUES (1, 'through');
SELECT scd2.sync() >= 0;
TABLE chain;
-- dropped: with the flow goes its guard, not its rows
SELECT scd2.drop_flow('hand'), scd2.drop_flow('hand once');
DELETE FROM hand;
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows;
SET client_min_messages = warning;
SELECT scd2.disable_change_feed('base', true);
DROP SCHEMA snapshot_worker CASCADE;
