-- What kinds of change leave in targets of both types. Times are shown as versions, counted from the flow's beginning (0).
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA flow_history;
SET search_path = flow_history;
CREATE TABLE t (id integer PRIMARY KEY DEFERRABLE, v text, u text);
INSERT INTO t VALUES (1, 'a', 'u'), (2, 'b', 'u'), (3, 'c', 'u');
SELECT scd2.track('t', track_history_column_list => '{v}');
SELECT scd2.track('t', stored_as_scd_type => 1);
SELECT scd2.sync() AS v0 \gset
CREATE TABLE zero (v bigint);
INSERT INTO zero VALUES (:v0);
CREATE FUNCTION at(point timestamptz) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN point IS NOT NULL THEN
        coalesce((SELECT _commit_version FROM flow_history.t_changes WHERE _commit_timestamp = point LIMIT 1), (SELECT max(v) FROM flow_history.zero)) - (SELECT max(v) FROM flow_history.zero) END $$;
CREATE VIEW history AS SELECT id, v, u, at(__start_at) AS "from", at(__end_at) AS "to" FROM t_history;

-- the copy; an update closes and opens; an untracked column is corrected in place; what changes nothing writes nothing
TABLE history ORDER BY id, "from";
UPDATE t SET v = 'a1' WHERE id = 1;                                     -- 1
UPDATE t SET u = 'u1' WHERE id = 1;                                     -- 2
UPDATE t SET v = v;                                                     -- 3
SELECT scd2.sync() >= 0;
TABLE history ORDER BY id, "from";

-- many changes in one transaction are one version; what comes and goes in it is none
BEGIN;
UPDATE t SET v = 'x' WHERE id = 2;
UPDATE t SET v = 'y' WHERE id = 2;
UPDATE t SET v = 'z', u = 'uz' WHERE id = 2;
INSERT INTO t VALUES (9, 'never', 'u');
UPDATE t SET v = 'was here' WHERE id = 9;
DELETE FROM t WHERE id = 9;
COMMIT;                                                                 -- 4
-- there and back in one transaction is no change
BEGIN;
UPDATE t SET v = 'elsewhere' WHERE id = 3;
UPDATE t SET v = 'c' WHERE id = 3;
COMMIT;                                                                 -- 5
-- delete, then insert the same: two rows, not merged; in one transaction: the row goes on
DELETE FROM t WHERE id = 3;                                             -- 6
INSERT INTO t VALUES (3, 'c', 'u');                                     -- 7
BEGIN;
DELETE FROM t WHERE id = 3;
INSERT INTO t VALUES (3, 'c', 'u again');
COMMIT;                                                                 -- 8
SELECT scd2.sync() >= 0;
TABLE history ORDER BY id, "from";
TABLE t_current ORDER BY id;

-- keys: changed, shifted, swapped, reused in one transaction
TRUNCATE t;                                                             -- 9
INSERT INTO t VALUES (10, 'p', 'u'), (11, 'q', 'u'), (12, 'r', 'u');    -- 10
UPDATE t SET id = 13 WHERE id = 12;                                     -- 11
UPDATE t SET id = id + 1 WHERE id < 13;                                 -- 12
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
UPDATE t SET id = 23 - id WHERE id IN (11, 12);
COMMIT;                                                                 -- 13
BEGIN;
DELETE FROM t WHERE id = 13;
INSERT INTO t VALUES (14, 'new', 'u');
UPDATE t SET id = 13 WHERE id = 14;
COMMIT;                                                                 -- 14
SELECT scd2.sync() >= 0;
SELECT * FROM history WHERE id >= 10 ORDER BY id, "from";
SELECT count(*) AS open_before_truncate FROM history WHERE id < 10 AND "to" IS NULL;
TABLE t_current ORDER BY id;

-- TRUNCATE ends all; a row put back with the same values in the same transaction goes on, one with others is a new version
BEGIN;
CREATE TEMP TABLE kept ON COMMIT DROP AS SELECT * FROM t WHERE id < 13;
INSERT INTO t VALUES (15, 'before', 'u');
TRUNCATE t;
INSERT INTO t TABLE kept;
UPDATE t SET v = 'other' WHERE id = 11;
COMMIT;                                                                 -- 15
SELECT scd2.sync() >= 0;
SELECT * FROM history WHERE id >= 10 ORDER BY id, "from";
BEGIN;
TRUNCATE t;
INSERT INTO t VALUES (16, 'once', 'u');
TRUNCATE t;
INSERT INTO t VALUES (16, 'twice', 'u');
COMMIT;                                                                 -- 16
TRUNCATE t;                                                             -- 17
SELECT scd2.sync() >= 0;
SELECT * FROM history WHERE id >= 10 AND "to" > 14 ORDER BY id, "from";
TABLE t_current;

-- several of these in one batch
SELECT scd2.pause_flow('t_history');
INSERT INTO t VALUES (20, 'a', 'u');                                    -- 18
UPDATE t SET v = 'b' WHERE id = 20;                                     -- 19
UPDATE t SET u = 'untracked' WHERE id = 20;                             -- 20
DELETE FROM t;                                                          -- 21
INSERT INTO t VALUES (20, 'c', 'u'), (21, 'a', 'u');                    -- 22
TRUNCATE t;                                                             -- 23
INSERT INTO t VALUES (20, 'd', 'u');                                    -- 24
SELECT scd2.resume_flow('t_history');
SELECT scd2.sync() >= 0;
SELECT * FROM history WHERE id >= 20 ORDER BY id, "from";
TABLE t_current;

-- NULL is a value like any; spelling and scale count; NaN is itself
CREATE TABLE n (a integer, b text COLLATE "C", v numeric, w json, PRIMARY KEY (a, b));
INSERT INTO n VALUES (1, 'x', NULL, '{"a":1}');
SELECT scd2.track('n');
SELECT scd2.sync() >= 0;
UPDATE n SET v = 1.0;
UPDATE n SET v = 1.00;
UPDATE n SET v = NULL;
UPDATE n SET v = NULL;
UPDATE n SET v = 'NaN';
UPDATE n SET v = 'NaN', w = '{"a":1}';
UPDATE n SET w = '{"a": 1}';
UPDATE n SET b = 'y';
SELECT scd2.sync() >= 0;
SELECT a, b, v, w, row_number() OVER (PARTITION BY a ORDER BY __start_at) AS n, lead(__start_at) OVER (PARTITION BY a ORDER BY __start_at) IS NOT DISTINCT FROM __end_at AS joins_next
    FROM n_history ORDER BY __start_at;

-- wide values: compared by content, wherever they are stored
CREATE TABLE d (id integer PRIMARY KEY, n integer, body text);
ALTER TABLE d ALTER body SET STORAGE EXTERNAL;
SELECT scd2.track('d', track_history_column_list => '{body}');
INSERT INTO d VALUES (1, 0, repeat('x', 9000));
SELECT scd2.sync() >= 0;
UPDATE d SET n = 1;
UPDATE d SET body = repeat('x', 9000), n = 2;
UPDATE d SET id = 2;
UPDATE d SET body = repeat('x', 8999) || 'y';
SELECT scd2.sync() >= 0;
SELECT id, n, length(body), right(body, 1), __end_at IS NULL AS open FROM d_history ORDER BY __start_at;

-- two rows of one key at once, in changes made under a deferrable key, read by a flow that finds another key
CREATE TABLE a (id integer PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v text);
INSERT INTO a SELECT i, 'v' || i FROM generate_series(1, 4) AS i;
SELECT scd2.track('a');
SELECT scd2.sync() AS begun \gset
BEGIN;
UPDATE a SET id = id + 1;
UPDATE a SET v = v || 'x' WHERE id = 3;
COMMIT;
BEGIN;
UPDATE a SET id = 2 WHERE id = 3;
UPDATE a SET v = 'k' WHERE id = 2 AND v = 'v1';
UPDATE a SET id = 3 WHERE v = 'k';
COMMIT;
SELECT scd2.sync() >= 0;
ALTER TABLE a DROP CONSTRAINT a_pkey, ADD PRIMARY KEY (id);
SELECT scd2.create_auto_cdc_flow('a_later', 'a_changes', '{id}', stored_as_scd_type => 2, starting_version => :begun);
SELECT scd2.sync() >= 0;
SELECT id, v, __end_at IS NULL AS open FROM a_history ORDER BY id, __start_at;
SELECT count(*) FROM (SELECT id, v, __end_at FROM a_history EXCEPT ALL SELECT id, v, __end_at FROM a_later) AS differs;

DROP VIEW history;
SELECT scd2.untrack(s, drop_targets => true, drop_feed => true) FROM unnest('{t,n,d,a}'::regclass[]) AS s;
DROP SCHEMA flow_history CASCADE;
