-- One feed for a partitioned table, with the changes of all its leaves, those to come too; and tables that inherit.
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA feed_partitions;
SET search_path = feed_partitions;
CREATE VIEW identities AS SELECT relname, relreplident FROM pg_class WHERE relnamespace = 'feed_partitions'::regnamespace AND relkind = 'r' AND relname NOT LIKE '%changes%';

-- CI-08: leaves that have other columns at other places are mapped by name
CREATE TABLE p (id integer, k text, v text) PARTITION BY LIST (k);
CREATE TABLE p_a PARTITION OF p FOR VALUES IN ('a');
CREATE TABLE p_b (v text, gone integer, k text, id integer);
ALTER TABLE p_b DROP gone;
ALTER TABLE p ATTACH PARTITION p_b FOR VALUES IN ('b');
CREATE TABLE p_c PARTITION OF p FOR VALUES IN ('c') PARTITION BY RANGE (id);
CREATE TABLE p_c_1 PARTITION OF p_c FOR VALUES FROM (1) TO (10);
ALTER TABLE p_a REPLICA IDENTITY NOTHING;
SELECT scd2.enable_change_feed('p');
SELECT * FROM identities ORDER BY 1;
INSERT INTO p VALUES (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'z');
UPDATE p SET v = v || v;
UPDATE p_b SET v = 'direct';
-- a row that moves is a delete and an insert
UPDATE p SET k = 'b' WHERE id = 1;
DELETE FROM p WHERE k = 'c';
TRUNCATE p;
SELECT scd2.sync() AS v \gset
SELECT dense_rank() OVER (ORDER BY _commit_version) AS v, _change_ordinal AS o, _change_type, id, k, v FROM scd2.table_changes(NULL::p_changes);
SELECT * FROM scd2.table_changes('p_a');

-- CI-09: partitions that come later, at any level, and a default partition
CREATE TABLE p_d PARTITION OF p FOR VALUES IN ('d');
CREATE TABLE p_c_2 PARTITION OF p_c FOR VALUES FROM (10) TO (20);
CREATE TABLE p_rest PARTITION OF p DEFAULT;
CREATE TABLE p_e (id integer, k text, v text);
ALTER TABLE p ATTACH PARTITION p_e FOR VALUES IN ('e');
SELECT * FROM identities ORDER BY 1;
SELECT scd2.sync() AS v0 \gset
INSERT INTO p VALUES (4, 'd', 'new'), (15, 'c', 'sub'), (6, 'other', 'default'), (7, 'e', 'attached');
UPDATE p SET v = 'updated' WHERE k IN ('d', 'e');
SELECT scd2.sync() AS v \gset
SELECT _commit_version - :v0 AS v, _change_ordinal AS o, _change_type, id, k, v FROM scd2.table_changes(NULL::p_changes, :v0 + 1);

-- CI-11: the identity of one leaf is changed
ALTER TABLE p_a REPLICA IDENTITY DEFAULT;
SELECT subject, detail, fix FROM scd2.diagnose() WHERE subject = 'table feed_partitions.p';
SELECT fix FROM scd2.diagnose() WHERE subject = 'table feed_partitions.p' \gexec

-- disabling gives each leaf what was found on it; the partitions themselves have no feed of their own
SELECT scd2.disable_change_feed('p_a');
SELECT scd2.enable_change_feed('p_a');
SELECT scd2.enable_change_feed('p_c');
SELECT scd2.disable_change_feed('p');
SELECT * FROM identities ORDER BY 1;

-- a partition that cannot be captured
CREATE UNLOGGED TABLE u_1 (id integer);
CREATE TABLE u (id integer) PARTITION BY RANGE (id);
ALTER TABLE u ATTACH PARTITION u_1 FOR VALUES FROM (1) TO (2);
SELECT scd2.enable_change_feed('u');
-- a partitioned table without partitions
CREATE TABLE empty (id integer) PARTITION BY RANGE (id);
SELECT scd2.enable_change_feed('empty');
CREATE TABLE empty_1 PARTITION OF empty FOR VALUES FROM (1) TO (2);
INSERT INTO empty VALUES (1);
SELECT scd2.sync() AS v \gset
SELECT _change_type, id FROM scd2.table_changes(NULL::empty_changes);

-- CI-13: rows of tables that inherit are not rows of the table
RESET client_min_messages;
CREATE TABLE par (id integer, v integer);
CREATE TABLE chi (extra text) INHERITS (par);
SELECT scd2.enable_change_feed('par');
INSERT INTO par VALUES (1, 1);
INSERT INTO chi VALUES (2, 1, 'x');
UPDATE par SET v = 2;
SELECT scd2.sync() AS v \gset
SELECT _change_type, id, v FROM scd2.table_changes(NULL::par_changes);
SELECT * FROM scd2.table_at(NULL::par, now());
SELECT scd2.enable_change_feed('chi');
UPDATE par SET v = 3;
SELECT scd2.sync() AS v \gset
SELECT _change_type, id, v, extra FROM scd2.table_changes(NULL::chi_changes);

SET client_min_messages = warning;
DROP SCHEMA feed_partitions CASCADE;
