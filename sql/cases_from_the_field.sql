-- What goes wrong for others who keep histories, and the right outcome: each block one case of its kind that no other test shows.
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SET DateStyle = ISO;
CREATE SCHEMA cases_from_the_field;
SET search_path = cases_from_the_field;
CREATE FUNCTION differ(a text, b text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM ((%1$s EXCEPT ALL %2$s) UNION ALL (%2$s EXCEPT ALL %1$s)) d', a, b) INTO n;
    RETURN n;
END $$;

-- a point in time belongs to one version of a key: at each change exactly one, after a delete none
CREATE TABLE ev (k int, v text, seq int, op text);
INSERT INTO ev VALUES (1, 'a', 10, 'U'), (1, 'b', 20, 'U'), (1, 'c', 30, 'U'), (2, 'x', 10, 'U'), (2, NULL, 20, 'D'), (2, 'x', 30, 'U');
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''D''', column_list => '{k,v}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('c', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''D''', column_list => '{k,v}');
SELECT scd2.sync() >= 0;
SELECT point, string_agg(k || v, ' ' ORDER BY k) AS valid FROM generate_series(5, 35, 5) AS point LEFT JOIN LATERAL h_as_of(point) ON true GROUP BY point ORDER BY point;
-- and the current rows are the open ones
SELECT differ('SELECT k, v FROM c', 'SELECT k, v FROM h WHERE __end_at IS NULL');

-- a delete that brings its key alone, into targets with columns that must not be NULL: nothing of it but the key is looked at or kept
CREATE TABLE strict_h (k int, v text NOT NULL, n int NOT NULL, __start_at int NOT NULL, __end_at int, PRIMARY KEY (k, __start_at), CHECK (__end_at > __start_at));
CREATE TABLE strict_c (k int PRIMARY KEY, v text NOT NULL, n int NOT NULL);
CREATE TABLE full_ev (k int, v text, n int, seq int, op text);
SELECT scd2.create_auto_cdc_flow('strict_h', 'full_ev', '{k}', 'seq', apply_as_deletes => 'op = ''D''', column_list => '{k,v,n}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('strict_c', 'full_ev', '{k}', 'seq', apply_as_deletes => 'op = ''D''', column_list => '{k,v,n}');
INSERT INTO full_ev VALUES (1, 'a', 1, 10, 'U'), (2, 'b', 2, 10, 'U');
SELECT scd2.sync() >= 0;
INSERT INTO full_ev VALUES (1, NULL, NULL, 20, 'D'), (3, NULL, NULL, 20, 'D'), (2, 'not looked at', NULL, 30, 'D');
SELECT scd2.sync() >= 0;
TABLE strict_h ORDER BY k;
TABLE strict_c ORDER BY k;
SELECT flow, state, last_error FROM scd2.flows WHERE flow LIKE 'strict%' ORDER BY flow;
INSERT INTO full_ev VALUES (3, 'late', 3, 15, 'U');
SELECT scd2.sync() >= 0;
TABLE strict_h ORDER BY k;

-- a flow of events that deletes nothing says so when it is declared; a captured table needs no word
SET client_min_messages = notice;
SELECT scd2.create_auto_cdc_flow('kept', 'ev', '{k}', 'seq', column_list => '{k,v}');
SET client_min_messages = warning;
CREATE TABLE t (id int PRIMARY KEY, v text, note text, body text);
ALTER TABLE t ALTER body SET STORAGE EXTERNAL;
INSERT INTO t SELECT i, 'a', 'n', repeat('x', 9000) FROM generate_series(1, 4) i;
SELECT scd2.track('t', track_history_column_list => '{v,body}', initial_start => '''2020-01-01''');
SELECT scd2.track('t', stored_as_scd_type => 1);
SELECT scd2.sync() >= 0;
-- facts older than the history: what the rows were before anybody looked is said when the flow is declared
SELECT count(*) FROM t_history_as_of('2021-06-01');
DELETE FROM t WHERE id = 4;
SELECT scd2.sync() >= 0;
SELECT id FROM t_current ORDER BY id;

-- changes that are none open no version; an untracked column is changed in the open one
SELECT scd2.latest_version() AS v \gset
UPDATE t SET v = v WHERE id = 1;
UPDATE t SET v = v WHERE id = 1;
UPDATE t SET note = 'other' WHERE id = 1;
SELECT scd2.sync() - :v AS versions;
SELECT count(*) AS rows_of_feed FROM t_changes WHERE _commit_version > :v;
SELECT id, v, note, length(body), __end_at IS NULL AS open FROM t_history WHERE id = 1;
-- several changes of a row in one transaction make one version, whatever comes between
BEGIN;
UPDATE t SET v = 'b' WHERE id = 2;
UPDATE t SET v = 'c' WHERE id = 2;
DELETE FROM t WHERE id = 2;
INSERT INTO t VALUES (2, 'd', 'n', 'y');
COMMIT;
BEGIN;
INSERT INTO t VALUES (5, 'came', 'n', 'z');
DELETE FROM t WHERE id = 5;
COMMIT;
BEGIN;
UPDATE t SET v = 'changed' WHERE id = 3;
UPDATE t SET v = 'a' WHERE id = 3;
COMMIT;
SELECT scd2.sync() - :v AS versions;
SELECT id, v, __end_at IS NULL AS open FROM t_history WHERE id IN (2, 3, 5) ORDER BY id, __start_at;
SELECT differ('TABLE t', 'TABLE t_current');
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows WHERE source = 't'::regclass ORDER BY flow;

-- rows that are changed before their first copy: their large values are whole, and they are as they were, then as they are
BEGIN;
SELECT scd2.track('t', track_history_column_list => '{v,body}');
SELECT scd2.pause_flow('t_history');
COMMIT;
UPDATE t SET v = 'small change' WHERE id = 1;
UPDATE t SET id = 30 WHERE id = 3;
SELECT scd2.sync(targets => '{}') >= 0;
SELECT scd2.resume_flow('t_history');
SELECT scd2.sync() >= 0;
SELECT id, v, length(body), __end_at IS NULL AS open FROM t_history ORDER BY id, __start_at;

-- a source that is dropped and made again before its first copy: nothing of one gets into the history of the other
CREATE TABLE gone (id int PRIMARY KEY, v text);
INSERT INTO gone VALUES (1, 'old');
BEGIN;
SELECT scd2.track('gone');
SELECT scd2.pause_flow('gone_history');
COMMIT;
DROP TABLE gone;
CREATE TABLE gone (id int PRIMARY KEY, v text);
INSERT INTO gone VALUES (2, 'new');
SELECT scd2.sync(targets => '{}') >= 0;
SELECT scd2.resume_flow('gone_history');
SELECT scd2.sync() >= 0;
TABLE gone_history;
SELECT subject, problem, fix FROM scd2.diagnose() WHERE subject ~ 'gone' ORDER BY 1, 2;
SELECT fix FROM scd2.diagnose() WHERE subject ~ 'table' AND fix ~ 'gone' \gexec
-- (what the feed of the former has stays)
SELECT scd2.enable_change_feed('gone', feed => 'gone_changes_2');
SELECT scd2.track('gone', 'gone_again');
SELECT scd2.sync() >= 0;
SELECT id, v FROM gone_again;

-- three dated snapshots of the past in order, then events of today: each row begins where its data say
CREATE TABLE yearly (id int PRIMARY KEY, v text);
CREATE TABLE live (id int, v text, at date);
SELECT scd2.create_auto_cdc_from_snapshot_flow('past', 'yearly', '{id}', 'date', stored_as_scd_type => 2, shared => true, max_delete_fraction => 1);
INSERT INTO yearly VALUES (1, 'a'), (2, 'a'), (3, 'a');
SELECT * FROM scd2.apply_snapshot('past', '2019-01-01');
UPDATE yearly SET v = 'b' WHERE id = 1;
DELETE FROM yearly WHERE id = 2;
SELECT * FROM scd2.apply_snapshot('past', '2020-01-01');
INSERT INTO yearly VALUES (2, 'back');
SELECT * FROM scd2.apply_snapshot('past', '2021-01-01');
SELECT scd2.create_auto_cdc_flow('past', 'live', '{id}', 'at', column_list => '{id,v}', stored_as_scd_type => 2);
INSERT INTO live VALUES (1, 'c', '2026-01-01'), (3, 'a', '2026-01-01'), (4, 'new', '2026-02-01'), (2, 'between', '2020-06-01');
SELECT scd2.sync() >= 0;
TABLE past ORDER BY id, __start_at;

SET client_min_messages = error;
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows ORDER BY flow;
SELECT scd2.disable_change_feed(feed, drop_feed => true) FROM scd2.feeds WHERE state <> 'disabled';
DROP SCHEMA cases_from_the_field CASCADE;
