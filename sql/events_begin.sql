-- A flow over an event table begins with the rows that were there at its commit, whatever became of them before a worker came to read them.
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA events_begin;
SET search_path = events_begin;
CREATE TABLE ev (k int, v text, seq int, op text);
INSERT INTO ev VALUES (1, 'a', 10, 'U'), (1, 'b', 20, 'U'), (2, 'a', 10, 'U'), (2, NULL, 20, 'D'), (3, 'deleted', 10, 'U'), (3, 'deleted', 10, 'U'), (4, 'as it was', 10, 'U'), (5, 'stays', 10, 'U');
-- paused in the transaction that creates it: no worker comes before what follows
BEGIN;
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''D''', column_list => '{k,v}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('c', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''D''', column_list => '{k,v}');
SELECT scd2.pause_flow('h'), scd2.pause_flow('c');
COMMIT;
DELETE FROM ev WHERE k = 3;
UPDATE ev SET v = 'changed', seq = 15 WHERE k = 4;
DELETE FROM ev WHERE k = 2 AND op = 'D';
INSERT INTO ev VALUES (6, 'came', 10, 'U'), (6, 'and was deleted', 20, 'U'), (1, 'late', 15, 'U');
DELETE FROM ev WHERE k = 6;
INSERT INTO ev VALUES (7, 'at last', 10, 'U');
SELECT scd2.sync(targets => '{}') >= 0;
SELECT scd2.resume_flow('h'), scd2.resume_flow('c');
SELECT scd2.sync() >= 0;
TABLE h ORDER BY k, __start_at;
TABLE c ORDER BY k;
SELECT relname, reloptions AS room FROM pg_class WHERE oid IN ('h'::regclass, 'c'::regclass) ORDER BY relname;
SELECT flow, events, applied, duplicates FROM scd2.flows ORDER BY flow;
SELECT c.* FROM unnest('{h,c}'::regclass[]) AS t, scd2.check_target(t) AS c;
INSERT INTO ev VALUES (7, 'goes on', 20, 'U');
SELECT scd2.sync() >= 0;
SELECT * FROM h WHERE k = 7 ORDER BY __start_at;
-- a full refresh reads what is there now
SELECT scd2.full_refresh('h');
SELECT scd2.sync() >= 0;
TABLE h ORDER BY k, __start_at;

-- what a TRUNCATE took is lost, what came later is not
BEGIN;
SELECT scd2.create_auto_cdc_flow('late', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''D''', column_list => '{k,v}', stored_as_scd_type => 2);
SELECT scd2.pause_flow('late');
COMMIT;
INSERT INTO ev VALUES (8, 'before the truncate', 10, 'U');
TRUNCATE ev;
INSERT INTO ev VALUES (9, 'after it', 10, 'U');
SELECT scd2.sync(targets => '{}') >= 0;
SELECT scd2.resume_flow('late');
SELECT scd2.sync() >= 0;
TABLE late ORDER BY k;
INSERT INTO ev VALUES (9, 'goes on', 20, 'U');
SELECT scd2.sync() >= 0;
TABLE late ORDER BY k, __start_at;

SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows;
SELECT scd2.disable_change_feed('ev', drop_feed => true);
DROP SCHEMA events_begin CASCADE;
