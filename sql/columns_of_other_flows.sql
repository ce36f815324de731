-- Columns of an event table, of a table whose rows are appended and of one that snapshots are taken of change: flows follow, or stop and name the column and the remedy.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE SCHEMA others;
SET search_path = others;
CREATE PROCEDURE until_it_fails(flow name) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. 400 LOOP
        EXIT WHEN EXISTS (SELECT FROM scd2_internal.flow f JOIN scd2_internal.flow_state s USING (flow_id) WHERE f.name = flow AND s.failures > 0);
        COMMIT;
        PERFORM pg_sleep(0.05);
    END LOOP;
END $$;

-- events, appended rows
CREATE TABLE e (k integer, at integer, v text, n integer, op text);
INSERT INTO e VALUES (1, 10, 'a', 1, 'U');
SELECT scd2.create_auto_cdc_flow('eh', 'e', '{k}', 'at', apply_as_deletes => 'op = ''D''', except_column_list => '{op}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('ec', 'e', '{k}', 'e.at', ignore_null_updates => true);
SELECT scd2.create_append_flow('log', 'e', source_filter => 'op <> ''D''');
SELECT scd2.sync() >= 0 AS reached;
ALTER TABLE e RENAME k TO key;
ALTER TABLE e RENAME at TO "when";
ALTER TABLE e RENAME op TO at;
ALTER TABLE e ADD extra integer DEFAULT 5;
ALTER TABLE e ALTER n TYPE bigint;
ALTER TABLE e ALTER "when" TYPE bigint;
INSERT INTO e VALUES (1, 20, 'b', 1, 'U', NULL), (2, 15, 'c', 3000000000, 'U', 6), (2, 25, NULL, NULL, 'D', NULL);
SELECT scd2.sync() >= 0 AS reached;
SELECT * FROM eh ORDER BY key, __start_at;
SELECT * FROM ec ORDER BY key;
SELECT * FROM log ORDER BY key, "when";
SELECT scd2.full_refresh('eh');
SELECT scd2.sync() >= 0 AS reached;
SELECT * FROM eh ORDER BY key, __start_at;
SELECT subject, problem, detail, fix FROM scd2.diagnose();
ALTER TABLE e DROP v;
INSERT INTO e VALUES (1, 30, 2, 'U');
SELECT scd2.sync() >= 0 AS reached;
SELECT * FROM eh ORDER BY key, __start_at;
SELECT scd2.full_refresh('log', allow_loss => true);
SELECT scd2.sync() >= 0 AS reached;
SELECT * FROM log ORDER BY key, "when";
SELECT count(scd2.drop_flow(name, true)) FROM (SELECT name FROM scd2_internal.flow ORDER BY flow_id DESC) f;

-- snapshots, by hand and by the worker
CREATE TABLE s (id integer PRIMARY KEY, v integer, w text);
INSERT INTO s VALUES (1, 1, 'x');
SELECT scd2.create_auto_cdc_from_snapshot_flow('sh', 's', '{id}', 'integer', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_from_snapshot_flow('sw', 's', '{id}', refresh_interval => '100 ms');
SELECT * FROM scd2.apply_snapshot('sh', 1);
SELECT scd2.sync() >= 0 AS reached;
ALTER TABLE s ADD extra text;
SELECT * FROM scd2.apply_snapshot('sh', 2);
ALTER TABLE s RENAME v TO value;
SELECT * FROM scd2.apply_snapshot('sh', 3);
ALTER TABLE s RENAME value TO v;
ALTER TABLE s ALTER v TYPE bigint;
UPDATE s SET v = 3000000000;
SELECT * FROM scd2.apply_snapshot('sh', 4);
SELECT * FROM sh ORDER BY __start_at;
SELECT scd2.sync() >= 0 AS reached;
SELECT * FROM sw;
ALTER TABLE s ALTER v TYPE boolean USING v > 0;
SELECT * FROM scd2.apply_snapshot('sh', 5);
CALL until_it_fails('sw');
SELECT regexp_replace(detail, ' (Failures|It stopped).*', '') AS detail, fix FROM scd2.diagnose() WHERE subject = 'flow sw' AND problem ~ 'fail';
ALTER TABLE sw ALTER COLUMN v TYPE boolean USING v > 0;      -- bigint is not cast
SELECT scd2.resume_flow('sw');
SELECT scd2.sync() >= 0 AS reached;
SELECT * FROM sw;
SELECT count(scd2.drop_flow(name, true)) FROM (SELECT name FROM scd2_internal.flow ORDER BY flow_id DESC) f;
SELECT count(*) FROM scd2.diagnose();
DROP SCHEMA others CASCADE;
