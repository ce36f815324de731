-- Snapshots and events in one target: a row that did not change is evidence too.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = error;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
CREATE SCHEMA snapshot_shared;
SET search_path = snapshot_shared;
CREATE TABLE ev (k text, v text, seq int, op text);
CREATE TABLE snap (k text, v text);
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''D''', column_list => '{k,v}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('c', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''D''', column_list => '{k,v}');
SELECT scd2.create_auto_cdc_from_snapshot_flow('h', 'snap', '{k}', 'int', name => 'hs', stored_as_scd_type => 2, max_delete_fraction => 1);
SELECT scd2.create_auto_cdc_from_snapshot_flow('c', 'snap', '{k}', 'int', name => 'cs', max_delete_fraction => 1);
SELECT scd2.sync() >= 0;
-- x@10 | SNAP@20{x} | y@15 → x[10,15) y[15,20) x[20,∞); SNAP@20{} | a@10 → a[10,20); SNAP@20{} | b@20 → nothing
INSERT INTO ev VALUES ('one', 'x', 10, 'U'), ('same', 'x', 10, 'U'), ('gone', 'x', 10, 'U'), ('changed', 'x', 10, 'U'), ('at', 'x', 20, 'U'), ('later', 'x', 10, 'U'), ('later', 'y', 30, 'U');
SELECT scd2.sync() >= 0;
INSERT INTO snap VALUES ('one', 'x'), ('same', 'x'), ('changed', 'y'), ('new', 'z'), ('later', 'x');
SELECT * FROM scd2.apply_snapshot('hs', 20);
SELECT * FROM scd2.apply_snapshot('cs', 20);
TABLE h ORDER BY k, __start_at;
TABLE c ORDER BY k;
INSERT INTO ev VALUES ('one', 'y', 15, 'U'), ('a', 'a', 10, 'U'), ('b', 'b', 20, 'U'), ('new', 'early', 5, 'U'), ('gone', 'back', 30, 'U'), ('same', 'same', 20, 'U'), ('later', 'between', 25, 'U');
SELECT scd2.sync() >= 0;
TABLE h ORDER BY k, __start_at;
TABLE c ORDER BY k;
-- the higher sequence wins, per key: a snapshot of 25 comes after events of 30
INSERT INTO snap VALUES ('gone', 'kept');
SELECT * FROM scd2.apply_snapshot('hs', 27, dry_run => true);
SELECT * FROM scd2.apply_snapshot('hs', 27);
SELECT * FROM scd2.apply_snapshot('cs', 27);
SELECT * FROM h WHERE k IN ('gone', 'later') ORDER BY k, __start_at;
SELECT * FROM c WHERE k IN ('gone', 'later') ORDER BY k;
SELECT flow, source, events = applied + duplicates AS adds_up, state FROM scd2.flows ORDER BY flow;

-- 1=A@2024-12-01, 2=B@2025-02-01, 3=C@2024-11-01, then a once snapshot at 2025-01-01 {1=A2, 2=B0, 4=D}; then 3=E@2025-03-01; a late 3=F@2024-12-15
CREATE TABLE orders (k int, v text, day date);
CREATE TABLE legacy (k int, v text);
SELECT scd2.create_auto_cdc_flow('o', 'orders', '{k}', 'day', column_list => '{k,v}', shared => true);
INSERT INTO orders VALUES (1, 'A', '2024-12-01'), (2, 'B', '2025-02-01'), (3, 'C', '2024-11-01');
SELECT scd2.sync() >= 0;
INSERT INTO legacy VALUES (1, 'A2'), (2, 'B0'), (4, 'D');
SELECT scd2.create_auto_cdc_from_snapshot_flow('o', 'legacy', '{k}', 'date', name => 'seed', once => true, version_query => 'SELECT date ''2025-01-01''', max_delete_fraction => 0.5);
SELECT scd2.sync() >= 0;
TABLE o ORDER BY k;
SELECT flow, once, state, finished_at IS NOT NULL AS finished FROM scd2.flows WHERE target = 'o'::regclass ORDER BY flow;
INSERT INTO orders VALUES (3, 'E', '2025-03-01');
SELECT scd2.sync() >= 0;
TABLE o ORDER BY k;
INSERT INTO orders VALUES (3, 'F', '2024-12-15');
SELECT scd2.sync() >= 0;
TABLE o ORDER BY k;
SELECT * FROM scd2.apply_snapshot('seed', '2025-06-01');

-- three dated snapshots of 2019 to 2021, then live events of 2026: what was, began when it says, and the cut-over is per key
CREATE TABLE yearly (k int PRIMARY KEY, v text);
CREATE TABLE live (k int, v text, at timestamptz, op text);
SELECT scd2.create_auto_cdc_from_snapshot_flow('dated', 'yearly', '{k}', name => 'yearly', stored_as_scd_type => 2, shared => true, max_delete_fraction => 0.5);
INSERT INTO yearly VALUES (1, 'a'), (2, 'b');
SELECT * FROM scd2.apply_snapshot('yearly', '2019-12-31');
UPDATE yearly SET v = 'b2' WHERE k = 2;
INSERT INTO yearly VALUES (3, 'c');
SELECT * FROM scd2.apply_snapshot('yearly', '2020-12-31');
DELETE FROM yearly WHERE k = 1;
SELECT * FROM scd2.apply_snapshot('yearly', '2021-12-31');
SELECT scd2.create_auto_cdc_flow('dated', 'live', '{k}', 'at', name => 'live', apply_as_deletes => 'op = ''D''', column_list => '{k,v}', stored_as_scd_type => 2);
INSERT INTO live VALUES (2, 'b3', '2026-01-01', 'U'), (3, NULL, '2026-02-01', 'D'), (4, 'd', '2026-02-01', 'U'), (1, 'late', '2020-06-01', 'U');
SELECT scd2.sync() >= 0;
TABLE dated ORDER BY k, __start_at;

-- the same before the history of a captured table; its own changes are of now
CREATE TABLE captured_live (k int PRIMARY KEY, v text);
INSERT INTO captured_live VALUES (1, 'now'), (2, 'same');
SELECT scd2.track('captured_live', 'all_time', shared => true, apply_as_truncates => 'false');
SELECT scd2.sync() >= 0;
CREATE TABLE old (k int, v text);
INSERT INTO old VALUES (1, 'then'), (2, 'same'), (3, 'gone');
SELECT scd2.create_auto_cdc_from_snapshot_flow('all_time', 'old', '{k}', name => 'old', stored_as_scd_type => 2);
SELECT * FROM scd2.apply_snapshot('old', '2020-01-01');
UPDATE captured_live SET v = 'later' WHERE k = 1;
DELETE FROM captured_live WHERE k = 2;
SELECT scd2.sync() >= 0;
UPDATE old SET v = 'then, too' WHERE k = 1;
DELETE FROM old WHERE k = 3;
SELECT * FROM scd2.apply_snapshot('old', '2021-01-01', allow_deletes => true);
SELECT k, v, CASE WHEN __start_at < '2022-01-01' THEN __start_at::text ELSE 'now' END AS "from", CASE WHEN __end_at < '2022-01-01' THEN __end_at::text WHEN __end_at IS NOT NULL THEN 'now' END AS "to"
    FROM all_time ORDER BY k, __start_at;

-- a target that was a snapshot flow's alone gets company: taken as found, as of the last snapshot
CREATE TABLE first (k int, v text, w text);
INSERT INTO first VALUES (1, 'a', 'w'), (2, 'b', 'w');
SELECT scd2.create_auto_cdc_from_snapshot_flow('alone', 'first', '{k}', 'int', stored_as_scd_type => 2, track_history_column_list => '{v}');
SELECT scd2.create_auto_cdc_from_snapshot_flow('alone1', 'first', '{k}', 'int');
SELECT * FROM scd2.apply_snapshot('alone', 10);
SELECT * FROM scd2.apply_snapshot('alone1', 10);
UPDATE first SET v = 'b2' WHERE k = 2;
SELECT * FROM scd2.apply_snapshot('alone', 20);
SELECT * FROM scd2.apply_snapshot('alone1', 20);
CREATE TABLE second (k int, v text, at int);
INSERT INTO second VALUES (1, 'early', 15), (2, 'late', 30), (3, 'early', 15), (4, 'late', 30);
SELECT scd2.create_auto_cdc_flow('alone', 'second', '{k}', 'at', name => 'events', column_list => '{k,v}', track_history_column_list => '{v}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('alone1', 'second', '{k}', 'at', name => 'events1', column_list => '{k,v}');
SELECT scd2.sync() >= 0;
TABLE alone ORDER BY k, __start_at;
TABLE alone1 ORDER BY k;
SELECT * FROM scd2.apply_snapshot('alone', 40, allow_deletes => true);
SELECT * FROM scd2.apply_snapshot('alone1', 40, allow_deletes => true);
TABLE alone ORDER BY k, __start_at;
TABLE alone1 ORDER BY k;

-- a sequence of several fields; NULL that says nothing in events is a value in a snapshot
CREATE TABLE fields (k int, v text, day date, n int);
SELECT scd2.create_auto_cdc_flow('f', 'fields', '{k}', 'struct(day, n)', column_list => '{k,v}', ignore_null_updates => true, stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_from_snapshot_flow('f', 'yearly', '{k}', 'f_sequence', name => 'fs', stored_as_scd_type => 2);
SELECT scd2.sync() >= 0;
INSERT INTO fields VALUES (2, 'x', '2026-01-01', 1), (2, NULL, '2026-01-01', 2), (3, 'c', '2026-01-01', 1);
SELECT scd2.sync() >= 0;
UPDATE yearly SET v = NULL WHERE k = 2;
SELECT * FROM scd2.apply_snapshot('fs', ROW('2026-01-02', 1)::f_sequence);
SELECT * FROM scd2.apply_snapshot('fs', '(2026-01-02,)');
INSERT INTO fields VALUES (2, NULL, '2026-01-03', 1), (2, 'y', '2026-01-01', 3);
SELECT scd2.sync() >= 0;
TABLE f ORDER BY k, __start_at;

-- what does not agree
SELECT scd2.create_auto_cdc_from_snapshot_flow('h', 'snap', '{k}', 'bigint', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_from_snapshot_flow('h', 'snap', '{k}', 'int');
SELECT scd2.create_auto_cdc_from_snapshot_flow('h', 'snap', '{k}', 'int', stored_as_scd_type => 2, scope => 'k < current_user');
CREATE TABLE own (k text, seq int);
SELECT scd2.create_auto_cdc_flow('own1', 'own', '{k}', 'seq');
SELECT scd2.create_auto_cdc_from_snapshot_flow('own1', 'own', '{k}', 'int');
SELECT scd2.create_auto_cdc_from_snapshot_flow('mutable', 'snap', '{k}', 'int', stored_as_scd_type => 2, scope => 'k < current_user');
SELECT scd2.create_auto_cdc_flow('mutable', 'ev', '{k}', 'seq', column_list => '{k,v}', stored_as_scd_type => 2);
CREATE TABLE captured (k text PRIMARY KEY, v text);
SELECT scd2.track('captured', 'captured_h');        -- remembers nothing for others so far
SELECT scd2.create_auto_cdc_from_snapshot_flow('captured_h', 'snap', '{k}', stored_as_scd_type => 2);
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows;
SELECT scd2.disable_change_feed('captured', true), scd2.disable_change_feed('captured_live', true);
SELECT count(*) FROM scd2_internal.mark;
DROP SCHEMA snapshot_shared CASCADE;
