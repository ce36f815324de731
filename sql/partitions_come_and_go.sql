-- Rows that come or go with a partition are inserts and deletes of the partitioned table, in their place in the transaction.
\set SHOW_CONTEXT never
\set VERBOSITY terse
CREATE SCHEMA parts;
SET search_path = parts;
CREATE TABLE p (id integer PRIMARY KEY, v text, n integer DEFAULT 7) PARTITION BY RANGE (id);
CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p_2 PARTITION OF p FOR VALUES FROM (10) TO (20);
INSERT INTO p VALUES (1, 'one'), (11, 'eleven');
SELECT scd2.track('p');
SELECT scd2.sync() AS v0 \gset
CREATE VIEW feed AS SELECT dense_rank() OVER (ORDER BY _commit_version) AS v, _change_ordinal AS o, _change_type AS change, id, left(v, 12) AS v_, length(v) AS length, n FROM p_changes;
-- open rows of the history that are not the table's, or the other way round
CREATE FUNCTION differs() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT ROW(id, v, n)::text FROM ((TABLE p EXCEPT ALL SELECT id, v, n FROM p_history WHERE __end_at IS NULL) UNION ALL (SELECT id, v, n FROM p_history WHERE __end_at IS NULL EXCEPT ALL TABLE p)) d $$;

-- ATTACH: another order of columns, dropped and added ones, rows older than a column, values out of line, written in the same transaction
CREATE TABLE p_3 (gone integer, v text, id integer NOT NULL);
ALTER TABLE p_3 ALTER v SET STORAGE EXTERNAL;
INSERT INTO p_3 VALUES (1, 'twenty', 20), (2, repeat('x', 10000), 21);
ALTER TABLE p_3 DROP gone, ADD n integer DEFAULT 3;
INSERT INTO p VALUES (2, 'before');
BEGIN;
INSERT INTO p_3 VALUES ('late', 22, NULL);
INSERT INTO p VALUES (3, 'first');
SAVEPOINT s;
ALTER TABLE p ATTACH PARTITION p_3 FOR VALUES FROM (20) TO (30);
ROLLBACK TO s;
DELETE FROM p_3 WHERE id = 22;
INSERT INTO p_3 VALUES ('kept', 23, NULL);
ALTER TABLE p ATTACH PARTITION p_3 FOR VALUES FROM (20) TO (30);
UPDATE p SET v = 'updated' WHERE id = 20;
COMMIT;
SELECT scd2.sync() >= 0 AS reached;
SELECT * FROM feed ORDER BY v, o;
SELECT differs();
SELECT relreplident FROM pg_class WHERE oid = 'p_3'::regclass;

-- DETACH, in a transaction and concurrently; what happens to the table then is its own affair
BEGIN;
UPDATE p SET v = 'last' WHERE id = 23;
ALTER TABLE p DETACH PARTITION p_3;
INSERT INTO p_3 VALUES ('alone', 24, 1);
COMMIT;
UPDATE p_3 SET v = 'still alone';
SELECT relreplident FROM pg_class WHERE oid = 'p_3'::regclass;
ALTER TABLE p DETACH PARTITION p_2 CONCURRENTLY;
DELETE FROM p_2;
SELECT scd2.sync() >= 0 AS reached;
SELECT * FROM feed WHERE v > 2 ORDER BY v, o;
SELECT differs();

-- and back, all of it
ALTER TABLE p ATTACH PARTITION p_3 FOR VALUES FROM (20) TO (30);
ALTER TABLE p ATTACH PARTITION p_2 FOR VALUES FROM (10) TO (20);
SELECT scd2.sync() >= 0 AS reached;
SELECT * FROM feed WHERE v > 4 ORDER BY v, o;
SELECT differs();

-- TRUNCATE of a partition, of one with partitions, of several, of the table; DROP
CREATE TABLE p_4 PARTITION OF p FOR VALUES FROM (40) TO (60) PARTITION BY LIST (id);
CREATE TABLE p_4_1 PARTITION OF p_4 FOR VALUES IN (41, 42);
CREATE TABLE p_4_2 PARTITION OF p_4 DEFAULT;
CREATE TABLE p_rest PARTITION OF p DEFAULT;
INSERT INTO p VALUES (41, 'list'), (43, 'default of a list'), (99, 'default');
TRUNCATE p_1;
BEGIN;
INSERT INTO p VALUES (5, 'again');
TRUNCATE p_1, p_4;
INSERT INTO p VALUES (41, 'after');
SAVEPOINT s;
TRUNCATE p_rest;
ROLLBACK TO s;
COMMIT;
DROP TABLE p_4;
TRUNCATE p;
INSERT INTO p VALUES (98, 'default'), (6, 'six');
DROP TABLE p_rest, p_1;
SELECT scd2.sync() >= 0 AS reached;
SELECT * FROM feed WHERE v > 5 ORDER BY v, o;
SELECT differs();
SELECT operation, inserts, deletes, truncates FROM scd2.describe_history('p') WHERE version > :v0 + 4;
SELECT count(*) FROM scd2.table_at(NULL::p, scd2.latest_version() - 2);

-- rows that move between partitions, and what comes from the default partition
CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p_rest PARTITION OF p DEFAULT;
INSERT INTO p VALUES (1, 'moves'), (70, 'other');
UPDATE p SET id = 11 WHERE id = 1;
UPDATE p SET id = 71 WHERE id = 11;
SELECT scd2.sync() >= 0 AS reached;
SELECT differs();

-- larger than pg_scd2.max_partition_copy: a declared gap
CREATE TABLE big (id integer NOT NULL, v text, n integer);
SET pg_scd2.max_partition_copy = 0;
ALTER TABLE p ATTACH PARTITION big FOR VALUES FROM (100) TO (200);
SELECT scd2.sync() >= 0 AS reached;
INSERT INTO big VALUES (100, 'x');
ALTER TABLE p DETACH PARTITION big;
RESET pg_scd2.max_partition_copy;
SELECT scd2.sync() >= 0;
SELECT gap IS NOT NULL AS gap FROM scd2.feeds WHERE source = 'p'::regclass;
DROP TABLE big;
-- nothing more of it is recorded, and DDL goes on
DROP TABLE p_1;
SELECT scd2.drop_flow('p_history');
SELECT scd2.disable_change_feed('p');

-- what cannot be captured, what has a feed of its own, what goes with something else
CREATE TABLE q (id integer, k integer) PARTITION BY LIST (k);
SELECT scd2.enable_change_feed('q');
CREATE TABLE q_own (id integer, k integer);
SELECT scd2.enable_change_feed('q_own');
ALTER TABLE q ATTACH PARTITION q_own FOR VALUES IN (1);
SELECT scd2.disable_change_feed('q_own', drop_feed => true);
ALTER TABLE q ATTACH PARTITION q_own FOR VALUES IN (1);
CREATE SCHEMA parts2;
CREATE TABLE parts2.q_2 PARTITION OF q FOR VALUES IN (2);
INSERT INTO q VALUES (1, 1), (2, 2);
SELECT scd2.sync() >= 0 AS reached;
SET client_min_messages = warning;
DROP SCHEMA parts2 CASCADE;
RESET client_min_messages;
SELECT count(*) FROM q;
CREATE TABLE r (id integer, k integer) PARTITION BY LIST (k);
SELECT scd2.enable_change_feed('r');
CREATE UNLOGGED TABLE r_1 PARTITION OF r FOR VALUES IN (1);
SELECT scd2.sync() >= 0;
SELECT subject, problem, detail FROM scd2.diagnose() WHERE subject LIKE '%.r' OR subject LIKE '%.q' ORDER BY 1, 2;
SELECT scd2.disable_change_feed('q');
SELECT scd2.disable_change_feed('r');

-- somebody who may neither drop nor truncate a partition has it neither locked nor read
CREATE ROLE regress_stranger;
GRANT USAGE ON SCHEMA parts TO regress_stranger;
CREATE TABLE o (id integer) PARTITION BY RANGE (id);
CREATE TABLE o_1 PARTITION OF o FOR VALUES FROM (0) TO (10);
SELECT scd2.enable_change_feed('o');
INSERT INTO o VALUES (1);
SELECT scd2.sync() >= 0 AS reached;
SET ROLE regress_stranger;
TRUNCATE o_1;
DROP TABLE o_1;
ALTER TABLE o DETACH PARTITION o_1;
RESET ROLE;
GRANT TRUNCATE ON o_1 TO regress_stranger;
SET ROLE regress_stranger;
TRUNCATE o_1;
RESET ROLE;
SELECT scd2.sync() >= 0 AS reached;
SELECT _change_type, id FROM o_changes ORDER BY _commit_version, _change_ordinal;
SELECT count(*) FROM scd2_internal.staged_row;

-- a TRUNCATE of another table takes a partition along
CREATE TABLE referred (id integer PRIMARY KEY);
ALTER TABLE o_1 ADD FOREIGN KEY (id) REFERENCES referred;
SET client_min_messages = warning;
TRUNCATE referred CASCADE;
RESET client_min_messages;
SELECT scd2.sync('20 s') >= 0;
SELECT problem, detail FROM scd2.diagnose() WHERE subject LIKE '%.o';

SET client_min_messages = warning;
DROP SCHEMA parts CASCADE;
DROP ROLE regress_stranger;
