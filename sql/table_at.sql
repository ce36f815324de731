-- table_at: a table as it was right after a version.
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA table_at;
SET search_path = table_at;

-- without a key, with equal rows, types without equality, a domain, a generated and a dropped column
CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
CREATE TABLE t (gone integer, id integer, j json, p point, d positive, g integer GENERATED ALWAYS AS (id * 2) STORED);
ALTER TABLE t DROP gone;
INSERT INTO t VALUES (1, '{"a":1}', '(1,1)', 1), (1, '{"a":1}', '(1,1)', 1);
SELECT scd2.enable_change_feed('t');
SELECT scd2.sync() AS v0 \gset
INSERT INTO t VALUES (1, '{"a":1}', '(1,1)', 1);
DELETE FROM t WHERE ctid = (SELECT min(ctid) FROM t);
UPDATE t SET j = '{"a": 1}';
BEGIN;
INSERT INTO t VALUES (2, NULL, NULL, NULL);
UPDATE t SET id = 3 WHERE id = 2;
DELETE FROM t WHERE id = 3;
UPDATE t SET p = '(2,2)' WHERE ctid = (SELECT max(ctid) FROM t);
COMMIT;
DELETE FROM t;
SELECT scd2.sync() AS v \gset
SELECT v, x.* FROM generate_series(0, 5) v LEFT JOIN LATERAL scd2.table_at(NULL::t, :v0 + v) x ON true;
-- by time: the last commit at or before it
SELECT min(_commit_timestamp) FILTER (WHERE _commit_version = :v0 + 3) AS t3, min(_commit_timestamp) FILTER (WHERE _commit_version = :v0 + 4) AS t4 FROM t_changes \gset
SELECT * FROM scd2.table_at(NULL::t, :'t3'::timestamptz);
SELECT * FROM scd2.table_at(NULL::t, :'t4'::timestamptz - interval '1 us');
SELECT count(*) FROM scd2.table_at(NULL::t, now());
SELECT count(*) FROM scd2.table_at(NULL::t, 'infinity'::timestamptz);
-- as text
SELECT count(*) FROM scd2.table_at(NULL::t, :'v0');
SELECT count(*) FROM scd2.table_at(NULL::t, :'t3');

-- a partitioned table; columns that the feed leaves out are NULL in rows that are put back
CREATE TABLE p (id integer PRIMARY KEY, k integer, secret text) PARTITION BY RANGE (id);
CREATE TABLE p_1 (secret text, k integer, id integer NOT NULL);
ALTER TABLE p ATTACH PARTITION p_1 FOR VALUES FROM (1) TO (100);
CREATE TABLE p_2 PARTITION OF p FOR VALUES FROM (100) TO (200);
INSERT INTO p VALUES (1, 1, 'a'), (2, 2, 'b'), (101, 3, 'c');
SELECT scd2.enable_change_feed('p', except_column_list => '{secret}');
SELECT scd2.sync() AS v0 \gset
UPDATE p SET id = id + 150 WHERE id = 1 OR id = 2;
SELECT * FROM scd2.table_at(NULL::p, :v0) ORDER BY id;
SELECT * FROM scd2.table_at(NULL::p, now()) ORDER BY id;
DROP TABLE p;
CREATE TABLE p (id integer PRIMARY KEY, k integer, secret text);

-- columns whose names the query might use itself
CREATE TABLE names (c integer, s text, o text, u text, q text, k text, r text, b text, n text, image text, sign text, copy text, undo text, net text);
SELECT scd2.enable_change_feed('names');
INSERT INTO names VALUES (1, 's', 'o', 'u', 'q', 'k', 'r', 'b', 'n', 'image', 'sign', 'copy', 'undo', 'net');
SELECT scd2.sync() AS v0 \gset
UPDATE names SET s = 'other', c = 2;
DELETE FROM names;
SELECT * FROM scd2.table_at(NULL::names, :v0);
SELECT * FROM scd2.table_at(NULL::names, :v0 + 1);
SELECT _row FROM scd2.table_changes('names', :v0 + 2);
SELECT operation FROM scd2.describe_history('names');

-- a TRUNCATE in between, a version that is not there, what is no table
CREATE TABLE tr (id integer);
SELECT scd2.enable_change_feed('tr');
SELECT scd2.sync() AS v0 \gset
INSERT INTO tr VALUES (1);
TRUNCATE tr;
INSERT INTO tr VALUES (2);
SELECT scd2.sync() AS v \gset
SELECT * FROM scd2.table_at(NULL::tr, :v0 + 2);
SELECT * FROM scd2.table_at(NULL::tr, :v0 + 3);
\set VERBOSITY sqlstate
SELECT * FROM scd2.table_at(NULL::tr, :v0 + 1);
SELECT * FROM scd2.table_at(NULL::tr, :v0 - 1);
SELECT * FROM scd2.table_at(NULL::tr, '2000-01-01'::timestamptz);
SELECT * FROM scd2.table_at(NULL::tr, :v0 + 100);
SELECT * FROM scd2.table_at(NULL::tr, -1);
SELECT * FROM scd2.table_at(NULL::tr, NULL::bigint);
SELECT * FROM scd2.table_at(NULL::tr_changes, now());
SELECT * FROM scd2.table_at(NULL::integer, 1);
SELECT * FROM scd2.table_at(NULL::p, 1);
\set VERBOSITY default
SELECT * FROM scd2.table_at(NULL::p, 1);
-- where the answer would be wrong: the transaction has written the table, or sees no newer snapshot. Other writes do no harm
BEGIN;
INSERT INTO tr VALUES (3);
SELECT * FROM scd2.table_at(NULL::tr, :v0 + 3);
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM scd2.table_at(NULL::tr, :v0 + 3);
ROLLBACK;
CREATE TABLE copy AS SELECT * FROM scd2.table_at(NULL::tr, :v0 + 2);
SELECT * FROM copy;
BEGIN;
INSERT INTO copy VALUES (9);
SAVEPOINT s;
INSERT INTO tr VALUES (3);
ROLLBACK TO s;
SELECT * FROM scd2.table_at(NULL::tr, :v0 + 3);
COMMIT;
-- what was just committed, also asynchronously, is seen
SET synchronous_commit = off;
INSERT INTO tr VALUES (4);
SELECT count(*) FROM scd2.table_at(NULL::tr, :v0 + 3);
SELECT count(*) FROM scd2.table_at(NULL::tr, :v0 + 4);
RESET synchronous_commit;
-- a gap in between
UPDATE scd2_internal.feed_state SET gap = int8range(:v0 + 3, :v0 + 4) WHERE source_relid = 'tr'::regclass;
SELECT count(*) FROM scd2.table_at(NULL::tr, :v0 + 3);
\set VERBOSITY sqlstate
SELECT count(*) FROM scd2.table_at(NULL::tr, :v0 + 2);
DROP SCHEMA table_at CASCADE;
