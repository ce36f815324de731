-- full_refresh() of some keys: they become what the sources say, at once; other keys and rows that are right stay as they are, the flows go on.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = warning;
CREATE SCHEMA refresh_keys;
SET search_path = refresh_keys;
SET timezone = 'UTC';
SET datestyle = 'ISO';
CREATE TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t SELECT g, 'v' || g FROM generate_series(1, 6) g;
SELECT scd2.track('t'), scd2.track('t', stored_as_scd_type => 1);
SELECT scd2.sync() >= 0;
UPDATE t SET v = v || '+' WHERE id < 5;
UPDATE t SET id = id + 10 WHERE id = 4;
DELETE FROM t WHERE id = 3;
SELECT scd2.sync() >= 0;
CREATE TABLE before AS TABLE t_history;
SET pg_scd2.allow_target_writes = on;
UPDATE t_history SET v = 'damaged' WHERE id IN (1, 2);
DELETE FROM t_history WHERE id = 14;
INSERT INTO t_history VALUES (99, 'from nowhere', '2020-01-01', NULL);
UPDATE t_current SET v = 'damaged';
RESET pg_scd2.allow_target_writes;
CREATE TABLE settled AS SELECT id, __start_at, xmin::text AS was FROM t_history;
SELECT scd2.full_refresh('t_history', key_filter => 'id IN (1, 3, 14) OR id > 50 -- a comment');
SET client_min_messages = notice;        -- that it was compared, too
SELECT problem, key FROM scd2.check_target('t_history') ORDER BY 2, 1;
SET client_min_messages = warning;
SELECT scd2.full_refresh('t_history', key_filter => 'id = 2');
SET client_min_messages = notice;        -- that it was compared, too
SELECT * FROM scd2.check_target('t_history');
SET client_min_messages = warning;
(TABLE t_history EXCEPT ALL TABLE before) UNION ALL (TABLE before EXCEPT ALL TABLE t_history);
SELECT h.id, count(*) AS settled FROM t_history h JOIN settled s USING (id, __start_at) WHERE h.xmin::text = s.was GROUP BY 1 ORDER BY 1;
SELECT scd2.full_refresh('t_current', key_filter => 'id <= 2');
SELECT * FROM t_current ORDER BY id;
-- readers see it when it commits; the flows go on
UPDATE t SET v = 'next' WHERE id IN (1, 14);
SELECT scd2.sync() >= 0;
SET client_min_messages = notice;        -- that it was compared, too
SELECT * FROM scd2.check_target('t_history');
SET client_min_messages = warning;
SELECT flow, state, lag_versions FROM scd2.flows ORDER BY flow;

-- events: what is there now, with truncates, untracked columns, two flows, one of which runs once
CREATE TABLE e (k text COLLATE "C", v text, note text, s int, op text);
CREATE TABLE old (k text COLLATE "C", v text, s int);
INSERT INTO e VALUES ('a', 'a1', 'n', 1, 'U'), ('b', 'b1', 'n', 1, 'U'), ('a', 'a5', 'n', 5, 'U'), ('a', 'a5', 'm', 7, 'U'), (NULL, NULL, NULL, 10, 'T'), ('b', 'b12', 'n', 12, 'U'), ('c', NULL, NULL, 20, 'D');
INSERT INTO old VALUES ('a', 'o3', 3), ('c', 'o1', 1);
SELECT scd2.create_auto_cdc_flow('h', 'e', '{k}', 's', apply_as_deletes => 'op = ''D''', apply_as_truncates => 'op = ''T''', column_list => '{k,v,note}', stored_as_scd_type => 2, track_history_column_list => '{v}');
SELECT scd2.create_auto_cdc_flow('h', 'old', '{k}', 's', column_list => '{k,v}', stored_as_scd_type => 2, track_history_column_list => '{v}', once => true);
SELECT scd2.sync() >= 0;
TABLE h ORDER BY k, __start_at;
CREATE TABLE h_before AS TABLE h;
CREATE TABLE memory_before AS TABLE h_memory;
SET pg_scd2.allow_target_writes = on;
DELETE FROM h WHERE k <> 'b';
DELETE FROM h_memory;
INSERT INTO h VALUES ('b', 'x', 'x', 100, NULL);
RESET pg_scd2.allow_target_writes;
SELECT scd2.full_refresh('h', key_filter => 'k <> ''b''');
(TABLE h EXCEPT ALL TABLE h_before) UNION ALL (TABLE h_before EXCEPT ALL TABLE h);
SELECT scd2.full_refresh('h', key_filter => 'k = ''b''');
(TABLE h EXCEPT ALL TABLE h_before) UNION ALL (TABLE h_before EXCEPT ALL TABLE h);
(SELECT k, note, _sequence, _kind FROM h_memory EXCEPT ALL SELECT k, note, _sequence, _kind FROM memory_before) UNION ALL (SELECT k, note, _sequence, _kind FROM memory_before EXCEPT ALL SELECT k, note, _sequence, _kind FROM h_memory);
-- what is remembered is there again: late events find their places
INSERT INTO e VALUES ('a', 'a6', 'late', 6, 'U'), ('c', 'c15', 'late', 15, 'U');
SELECT scd2.sync() >= 0;
TABLE h ORDER BY k, __start_at;
SELECT count(*) AS marks FROM scd2_internal.mark WHERE target_relid = 'h'::regclass;
SELECT count(*) AS left_over FROM scd2_internal.mark m WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = m.target_relid);

-- a feed with its own sequence, and a key whose comparison is not the default's
CREATE TABLE own (id int PRIMARY KEY, at int, x numeric);
INSERT INTO own VALUES (1, 1, 1.0), (2, 1, 1.0);
SELECT scd2.enable_change_feed('own');
SELECT scd2.create_auto_cdc_flow('o', 'own_changes', '{id}', 'at', delete_sequence_by => 'at + 1', stored_as_scd_type => 2);
SELECT scd2.sync() >= 0;
UPDATE own SET at = 3, x = 1.00;
DELETE FROM own WHERE id = 2;
SELECT scd2.sync() >= 0;
SET pg_scd2.allow_target_writes = on;
UPDATE o SET x = 1.0 WHERE __start_at = 3;
RESET pg_scd2.allow_target_writes;
SELECT scd2.full_refresh('o', key_filter => 'true');
TABLE o ORDER BY id, __start_at;
SET client_min_messages = notice;        -- that it was compared, too
SELECT * FROM scd2.check_target('o');
SET client_min_messages = warning;

-- what would be lost
TRUNCATE t;
INSERT INTO t VALUES (1, 'anew'), (2, 'anew');
SELECT scd2.sync() >= 0;
\set VERBOSITY terse
SELECT scd2.full_refresh('t_history', key_filter => 'id = 1');
-- what is advised is about these keys, too
DO $$
DECLARE
    advice text;
BEGIN
    PERFORM scd2.full_refresh('t_history', key_filter => 'id = 1');
EXCEPTION WHEN object_not_in_prerequisite_state THEN
    GET STACKED DIAGNOSTICS advice = PG_EXCEPTION_HINT;
    RAISE WARNING '%', advice;
END $$;
SELECT scd2.full_refresh('t_history', key_filter => 'id = 1', allow_loss => true);
SELECT id, v, __end_at IS NULL AS open FROM t_history WHERE id < 3 ORDER BY id, __start_at;
\set VERBOSITY default

-- refused
SELECT scd2.create_append_flow('appended', 't');
SELECT scd2.create_auto_cdc_from_snapshot_flow('snap', 't', '{id}');
SELECT scd2.create_auto_cdc_flow('lately', 'e', '{k}', 's', max_lateness => '100');
SELECT scd2.sync() >= 0;
SELECT scd2.full_refresh('appended', key_filter => 'id = 1');
SELECT scd2.full_refresh('snap', key_filter => 'id = 1');
SELECT scd2.full_refresh('lately', key_filter => 'k = ''a''');
SELECT scd2.full_refresh('t_history', key_filter => 'v = ''a''');
SELECT scd2.full_refresh('t_history', key_filter => 'id');
SELECT scd2.full_refresh('t_history', key_filter => 'random() > id');
SELECT scd2.full_refresh('t', key_filter => 'id = 1');
BEGIN;
INSERT INTO t VALUES (50);
SELECT scd2.full_refresh('t_history', key_filter => 'id = 1');
ROLLBACK;
CREATE ROLE scd2_other;
GRANT USAGE ON SCHEMA refresh_keys TO scd2_other;
SET ROLE scd2_other;
SELECT scd2.full_refresh('t_history', key_filter => 'id = 1');
RESET ROLE;

DO $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT flow FROM scd2.flows LOOP
        PERFORM scd2.drop_flow(f.flow, drop_target => true);
    END LOOP;
    FOR f IN SELECT feed FROM scd2.feeds LOOP
        PERFORM scd2.disable_change_feed(f.feed, drop_feed => true);
    END LOOP;
END $$;
DROP SCHEMA refresh_keys CASCADE;
DROP ROLE scd2_other;
