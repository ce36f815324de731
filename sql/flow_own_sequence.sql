-- Flows over a feed whose events have a sequence of their own: a column of the source, or of the feed.
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA flow_own_sequence;
SET search_path = flow_own_sequence;
SET TimeZone = 'UTC';
CREATE TABLE t (id int PRIMARY KEY DEFERRABLE, v text, u text, rev int);
INSERT INTO t VALUES (1, 'a', 'u', 10), (2, 'b', 'u', 10), (3, 'c', 'u', 10);
SELECT scd2.enable_change_feed('t') \g /dev/null
SELECT scd2.create_auto_cdc_flow('h', 't_changes', '{id}', 'rev', delete_sequence_by => 'rev + 5', stored_as_scd_type => 2, column_list => '{id,v,u}', track_history_column_list => '{v}');
SELECT scd2.create_auto_cdc_flow('c', 't_changes', '{id}', 'rev', delete_sequence_by => 'rev - 100', column_list => '{id,v,u}');
SELECT scd2.create_auto_cdc_flow('s', 't_changes', '{id}', 'rev', delete_sequence_by => 'NULL::int', source_filter => 'u <> ''hidden''');
SELECT scd2.create_auto_cdc_flow('every', 't_changes', '{id}', 'struct(_commit_timestamp, _change_ordinal)', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('both', 't_changes', '{id}', 'struct(rev, _commit_version)', delete_sequence_by => 'struct(rev + 1, _commit_version)', stored_as_scd_type => 2);
SELECT scd2.sync() >= 0;
TABLE h ORDER BY id, __start_at;
TABLE c ORDER BY id;
-- forward, backward (late), twice at one sequence, an untracked value
UPDATE t SET v = 'a2', rev = 20 WHERE id = 1;
UPDATE t SET v = 'b2', rev = 5 WHERE id = 2;
UPDATE t SET v = 'c1' WHERE id = 3;
UPDATE t SET v = 'c2' WHERE id = 3;
UPDATE t SET u = 'u2', rev = 15 WHERE id = 3;
SELECT scd2.sync() >= 0;
TABLE h ORDER BY id, __start_at;
TABLE c ORDER BY id;
-- a delete closes the last version; a key that changes; a delete and an insert in one transaction are an update
DELETE FROM t WHERE id = 1;
UPDATE t SET id = 4, rev = 30 WHERE id = 3;
BEGIN;
DELETE FROM t WHERE id = 2;
INSERT INTO t VALUES (2, 'b3', 'u', 40);
COMMIT;
INSERT INTO t VALUES (5, 'e', 'hidden', 1), (6, 'f', 'u', 1);
UPDATE t SET u = 'hidden', rev = 2 WHERE id = 6;
SELECT scd2.sync() >= 0;
TABLE h ORDER BY id, __start_at;
TABLE c ORDER BY id;
TABLE s ORDER BY id;
SELECT id, v, u, rev, (__start_at).rev AS "from", (__end_at).rev AS "to" FROM "both" ORDER BY id, __start_at;
-- with the place in the feed as sequence every change is kept
BEGIN;
UPDATE t SET v = 'x' WHERE id = 6;
UPDATE t SET v = 'y' WHERE id = 6;
UPDATE t SET v = 'z' WHERE id = 6;
COMMIT;
DELETE FROM t WHERE id = 6;
SELECT scd2.sync() >= 0;
SELECT id, v, u, (__start_at)._change_ordinal AS "from", (__end_at)._change_ordinal AS "to", (__end_at)._commit_timestamp = (__start_at)._commit_timestamp AS one_commit
FROM every WHERE id = 6 ORDER BY __start_at;
-- a rebuild: the same
CREATE TABLE was AS SELECT 'h' AS t, to_jsonb(h) AS r FROM h UNION ALL SELECT 'c', to_jsonb(c) FROM c UNION ALL SELECT 's', to_jsonb(s) FROM s UNION ALL SELECT 'every', to_jsonb(every) FROM every UNION ALL SELECT 'both', to_jsonb("both") FROM "both";
SELECT scd2.full_refresh(r) FROM unnest('{h,c,s,every,both}'::regclass[]) AS r \g /dev/null
SELECT scd2.sync() >= 0;
CREATE TABLE now AS SELECT 'h' AS t, to_jsonb(h) AS r FROM h UNION ALL SELECT 'c', to_jsonb(c) FROM c UNION ALL SELECT 's', to_jsonb(s) FROM s UNION ALL SELECT 'every', to_jsonb(every) FROM every UNION ALL SELECT 'both', to_jsonb("both") FROM "both";
SELECT * FROM (TABLE was EXCEPT ALL TABLE now) AS gone;
SELECT * FROM (TABLE now EXCEPT ALL TABLE was) AS new;
-- a TRUNCATE ends what begins before it
CREATE TABLE d (id int PRIMARY KEY, v text, at timestamptz);
SELECT scd2.enable_change_feed('d') \g /dev/null
SELECT scd2.create_auto_cdc_flow('dh', 'd_changes', '{id}', 'at', stored_as_scd_type => 2, on_invalid_event => 'quarantine');
SELECT scd2.sync() >= 0;
INSERT INTO d VALUES (1, 'a', '2020-01-01'), (2, 'b', '2020-01-02'), (3, 'later', '2999-01-01'), (4, 'never', NULL);
DELETE FROM d WHERE id IN (2, 3);
TRUNCATE d;
SELECT scd2.sync() >= 0;
SELECT id, v, at, __start_at = at AS starts, __end_at - __start_at > interval '1 day' AS at_commit, __end_at - __start_at = interval '1 us' AS right_after FROM dh ORDER BY id;
SELECT flow, reason, event FROM scd2.rejected_events;
SELECT flow, events, applied, duplicates, rejected, state FROM scd2.flows WHERE source = 'd'::regclass;
-- a row empties the target when it comes; that it goes, or gets another key, says nothing of the others
CREATE TABLE e (id int PRIMARY KEY, v text, rev int);
SELECT scd2.enable_change_feed('e') \g /dev/null
SELECT scd2.create_auto_cdc_flow('eh', 'e_changes', '{id}', 'rev', delete_sequence_by => 'rev + 100', apply_as_truncates => 'v = ''all gone''', column_list => '{id,v}', stored_as_scd_type => 2);
SELECT scd2.sync() >= 0;
INSERT INTO e VALUES (1, 'before', 10), (2, 'all gone', 20), (3, 'all gone', 21), (4, 'after', 30);
SELECT scd2.sync() >= 0;
DELETE FROM e WHERE id = 2;
UPDATE e SET id = 5, v = 'moved', rev = 40 WHERE id = 3;
SELECT scd2.sync() >= 0;
TABLE eh ORDER BY id, __start_at;
-- the rows that are there when the flow begins may empty a target that has others' rows
CREATE TABLE ev (id int, v text, rev int);
INSERT INTO ev VALUES (7, 'of events', 5), (8, 'of events, later', 50);
SELECT scd2.create_auto_cdc_flow('eboth', 'ev', '{id}', 'rev', column_list => '{id,v}', track_history_column_list => '{v}', stored_as_scd_type => 2, shared => true);
SELECT scd2.sync() >= 0;
INSERT INTO e VALUES (6, 'all gone', 41);
SELECT scd2.create_auto_cdc_flow('eboth', 'e_changes', '{id}', 'rev', delete_sequence_by => 'rev + 100', apply_as_truncates => 'v = ''all gone''', column_list => '{id,v}', track_history_column_list => '{v}', stored_as_scd_type => 2, name => 'eboth_feed');
SELECT scd2.sync() >= 0;
TABLE eboth ORDER BY id, __start_at;
-- refused
SELECT scd2.create_auto_cdc_flow('x', 't_changes', '{id}', 'rev');
SELECT scd2.create_auto_cdc_flow('x', 't_changes', '{id}', 'rev', delete_sequence_by => 'v');
SELECT scd2.create_auto_cdc_flow('x', 't_changes', '{id}', 'rev', delete_sequence_by => '1', stored_as_scd_type => 2, initial_start => 'now()');
SELECT scd2.create_auto_cdc_flow('x', 't_changes', '{id}', delete_sequence_by => '_commit_timestamp');
SELECT scd2.create_auto_cdc_flow('x', 't_changes', '{v}', 'rev', delete_sequence_by => '1');
-- the default sequence by its name is the default
SELECT scd2.create_auto_cdc_flow('x', 't_changes', '{id}', '_commit_timestamp');
SELECT to_regclass('x_memory');
SELECT scd2.sync() >= 0;
TABLE x ORDER BY id;
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows WHERE source::text IN ('t', 'd', 'e', 'ev');
DROP SCHEMA flow_own_sequence CASCADE;
