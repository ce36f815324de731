-- What can have no change data feed, and why; who may not; what stands in the way.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE ROLE regress_feed_owner;
CREATE ROLE regress_feed_member IN ROLE regress_feed_owner;
CREATE ROLE regress_feed_other;
CREATE SCHEMA feed_refusals;
GRANT USAGE, CREATE ON SCHEMA feed_refusals TO regress_feed_owner, regress_feed_other;
SET search_path = feed_refusals;

-- CI-14: relations whose changes are not in the log
CREATE UNLOGGED TABLE unlogged (id integer);
SELECT scd2.enable_change_feed('unlogged');
CREATE TEMP TABLE temporary (id integer);
\set VERBOSITY sqlstate
SELECT scd2.enable_change_feed('temporary');
\set VERBOSITY default
CREATE VIEW vw AS SELECT 1 AS one;
SELECT scd2.enable_change_feed('vw');
CREATE MATERIALIZED VIEW mv AS SELECT 1 AS one;
SELECT scd2.enable_change_feed('mv');
CREATE FOREIGN DATA WRAPPER feed_refusals;
CREATE SERVER feed_refusals FOREIGN DATA WRAPPER feed_refusals;
CREATE FOREIGN TABLE ft (id integer) SERVER feed_refusals;
SELECT scd2.enable_change_feed('ft');
CREATE ACCESS METHOD other_heap TYPE TABLE HANDLER heap_tableam_handler;
CREATE TABLE am (id integer) USING other_heap;
SELECT scd2.enable_change_feed('am');
SELECT scd2.enable_change_feed('pg_class');
SELECT scd2.enable_change_feed('information_schema.sql_features');
SELECT scd2.enable_change_feed('scd2_internal.feed');
CREATE SEQUENCE sq;
SELECT scd2.enable_change_feed('sq');
CREATE INDEX ix ON unlogged (id);
SELECT scd2.enable_change_feed('ix');
CREATE TYPE comp AS (a integer);
SELECT scd2.enable_change_feed('comp');
SELECT scd2.enable_change_feed('nosuchtable');
SELECT scd2.enable_change_feed(NULL);
SELECT scd2.enable_change_feed(1::oid);
CREATE TABLE part (id integer) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (1) TO (2);
SELECT scd2.enable_change_feed('part_1');
-- the hint of the unlogged table works
ALTER TABLE feed_refusals.unlogged SET LOGGED;
SELECT scd2.enable_change_feed('unlogged');
-- a captured table that becomes unlogged: a gap, said at once, shown, and ended as shown
CREATE TABLE turns (id integer PRIMARY KEY);
SELECT scd2.enable_change_feed('turns');
INSERT INTO turns VALUES (1);
ALTER TABLE turns SET UNLOGGED;
INSERT INTO turns VALUES (2);
SELECT scd2.sync() AS v \gset
SELECT problem, detail, fix FROM scd2.diagnose() WHERE subject = 'table feed_refusals.turns' ORDER BY problem;
ALTER TABLE turns SET LOGGED;
INSERT INTO turns VALUES (3);
SELECT scd2.sync() AS v \gset
\set VERBOSITY terse
SELECT count(*) FROM scd2.table_changes('turns');
\set VERBOSITY default
SELECT problem, fix FROM scd2.diagnose() WHERE subject = 'table feed_refusals.turns';
SELECT fix FROM scd2.diagnose() WHERE subject = 'table feed_refusals.turns' \gexec
INSERT INTO turns VALUES (4);
SELECT scd2.sync() AS v \gset
SELECT _change_type, id FROM scd2.table_changes(NULL::turns_changes, (SELECT upper(gap) FROM scd2.feeds WHERE source = 'turns'::regclass));
DROP TABLE turns, turns_changes;
-- feeds themselves, and what has one
SELECT scd2.enable_change_feed('unlogged_changes');
SELECT scd2.enable_change_feed('unlogged_changes_p1');
SELECT scd2.enable_change_feed('unlogged');

-- CT-14: columns with the names of metadata columns
CREATE TABLE x (id integer PRIMARY KEY, _change_type text, _commit_version integer, __start_at integer);
SELECT scd2.enable_change_feed('x');
SELECT scd2.enable_change_feed('feed_refusals.x', except_column_list => '{_change_type}');
SELECT scd2.enable_change_feed('feed_refusals.x', except_column_list => '{_change_type,_commit_version}');

-- CT-15: too many columns, dropped ones not counted, and rows that would not fit a page
CREATE FUNCTION wide(name text, type text, n integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE %I (%s)', name, (SELECT string_agg(format('c%s %s', i, type), ', ' ORDER BY i) FROM generate_series(1, n) i));
END $$;
SELECT wide('w1600', 'integer', 1600), wide('w1597', 'integer', 1597), wide('w1595', 'integer', 1595), wide('w1500', 'integer', 1500), wide('w1016', 'bigint', 1016), wide('t1595', 'text', 1595);
SELECT scd2.enable_change_feed('w1600');
SELECT scd2.enable_change_feed('w1597');
SELECT scd2.enable_change_feed('w1016');
SELECT scd2.enable_change_feed('w1595');
DO $$
BEGIN
    EXECUTE (SELECT 'ALTER TABLE w1500 ' || string_agg(format('DROP c%s', i), ', ') FROM generate_series(1, 50) i);
    EXECUTE (SELECT 'ALTER TABLE w1500 ' || string_agg(format('ADD d%s integer', i), ', ') FROM generate_series(1, 100) i);
END $$;
SELECT scd2.enable_change_feed('w1500'), scd2.enable_change_feed('t1595'), scd2.enable_change_feed('w1600', except_column_list => '{c1,c2,c3,c4,c5}');
INSERT INTO w1595 (c1, c1595) VALUES (1, 2);
INSERT INTO w1500 (c51, d100) VALUES (1, 2);
SELECT scd2.sync() AS v \gset
SELECT _change_type, c1, c1595 FROM w1595_changes;
SELECT _change_type, c51, d100 FROM w1500_changes;
SELECT count(*) FROM scd2.feeds WHERE state = 'failed';

-- one that gets such a column later fails alone, and its repair leaves the column out
CREATE TABLE y (id integer);
SELECT scd2.enable_change_feed('y');
ALTER TABLE y ADD _xid text;
INSERT INTO y VALUES (1, 'x');
SELECT scd2.sync() AS v \gset
SELECT problem, detail, fix FROM scd2.diagnose() WHERE subject = 'table feed_refusals.y';
SELECT fix FROM scd2.diagnose() WHERE subject = 'table feed_refusals.y' \gexec
INSERT INTO y VALUES (2, 'y');
SELECT scd2.sync() AS v \gset
SELECT _change_type, _row FROM scd2.table_changes('y');

-- lists that name what is not there, or twice; settings out of range
SELECT scd2.enable_change_feed('part', except_column_list => '{id,nix}');
SELECT scd2.enable_change_feed('part', except_column_list => '{id,id}');
SELECT scd2.enable_change_feed('part', except_column_list => '{NULL}');
SELECT scd2.enable_change_feed('part', except_column_list => '{ctid}');
SELECT scd2.enable_change_feed('part', retention => '-1 day');
SELECT scd2.alter_change_feed('part', retention => '1 day');
SELECT scd2.disable_change_feed('part');

-- rights: the owner, members of it, and nobody else; CREATE on the schema
SET ROLE regress_feed_owner;
CREATE TABLE owned (id integer PRIMARY KEY, secret text);
RESET ROLE;
SET ROLE regress_feed_other;
SELECT scd2.enable_change_feed('owned');
SELECT scd2.stop();
SELECT scd2_internal.enable_change_feed(10, 'owned', NULL, '{}', NULL);
SET ROLE regress_feed_member;
SELECT scd2.enable_change_feed('owned');
RESET ROLE;
SELECT relname, pg_get_userbyid(relowner) AS owner, relacl FROM pg_class WHERE relname LIKE 'owned\_changes%' ORDER BY 1;
SET ROLE regress_feed_other;
SELECT * FROM owned_changes;
SELECT * FROM scd2.table_changes(NULL::owned_changes);
SELECT * FROM scd2.table_changes('owned');
SELECT * FROM scd2.describe_history('owned');
SELECT scd2.earliest_version('owned');
SELECT scd2.alter_change_feed('owned', retention => '1 day');
SELECT scd2.disable_change_feed('owned');
RESET ROLE;
SET ROLE regress_feed_owner;
GRANT SELECT ON owned, owned_changes TO regress_feed_other;
RESET ROLE;
SET ROLE regress_feed_other;
SELECT * FROM scd2.table_changes('owned');
SELECT * FROM scd2.table_at(NULL::owned, now());
RESET ROLE;
-- the feed does not show more than the source when policies hide rows: table_at refuses
ALTER TABLE owned ENABLE ROW LEVEL SECURITY;
SET ROLE regress_feed_other;
SELECT * FROM scd2.table_at(NULL::owned, now());
RESET ROLE;
REVOKE CREATE ON SCHEMA feed_refusals FROM regress_feed_owner;
SET ROLE regress_feed_owner;
SELECT scd2.disable_change_feed('owned', true);
SELECT scd2.enable_change_feed('owned');
RESET ROLE;
GRANT CREATE ON SCHEMA feed_refusals TO regress_feed_owner;
-- what default privileges give to others is taken away again
ALTER DEFAULT PRIVILEGES IN SCHEMA feed_refusals GRANT SELECT ON TABLES TO public, regress_feed_other;
SET ROLE regress_feed_member;
SELECT scd2.enable_change_feed('owned');
RESET ROLE;
SELECT c.relname, x.grantee::regrole FROM pg_class c, aclexplode(c.relacl) x WHERE c.relname LIKE 'owned\_changes%' GROUP BY 1, 2 ORDER BY 1;
ALTER DEFAULT PRIVILEGES IN SCHEMA feed_refusals REVOKE SELECT ON TABLES FROM public, regress_feed_other;

-- only the worker writes into a feed; its owner may, if he says so
SET ROLE regress_feed_owner;
INSERT INTO owned_changes VALUES ('insert', 1, now(), 1, '1', 1, 'x');
DELETE FROM owned_changes_p1;
TRUNCATE owned_changes;
SET pg_scd2.allow_target_writes = on;
DELETE FROM owned_changes;
RESET pg_scd2.allow_target_writes;
RESET ROLE;
DELETE FROM owned_changes;

-- publications that would make the application's updates fail; those that carry feeds along are warned of
CREATE TABLE pub (id integer PRIMARY KEY, v text);
INSERT INTO pub VALUES (1, 'a');
CREATE PUBLICATION "feed Columns" FOR TABLE pub (id);
SELECT scd2.enable_change_feed('pub');
ALTER PUBLICATION "feed Columns" SET (publish = 'insert');
SELECT scd2.enable_change_feed('pub');
UPDATE pub SET v = 'b';
SELECT scd2.disable_change_feed('pub', true);
ALTER PUBLICATION "feed Columns" SET (publish = 'insert, update');
ALTER PUBLICATION "feed Columns" DROP TABLE feed_refusals.pub; ALTER PUBLICATION "feed Columns" ADD TABLE feed_refusals.pub;
SELECT scd2.enable_change_feed('pub');
UPDATE pub SET v = 'c';
SELECT scd2.disable_change_feed('pub', true);
CREATE PUBLICATION feed_leaf FOR TABLE part_1 (id) WITH (publish = 'delete');
SELECT scd2.enable_change_feed('part');
DROP PUBLICATION feed_leaf;
CREATE PUBLICATION feed_schema FOR TABLES IN SCHEMA feed_refusals;
SELECT scd2.enable_change_feed('pub');
UPDATE pub SET v = 'd';
SELECT scd2.sync() AS v \gset
SELECT setting, current, ok FROM scd2.preflight() WHERE setting LIKE 'publication%';
-- made or changed later, they are refused as well
DROP PUBLICATION feed_schema;
ALTER PUBLICATION "feed Columns" SET TABLE pub (id);
CREATE PUBLICATION feed_later FOR TABLE pub (id, v);
CREATE PUBLICATION feed_later FOR TABLE pub (id, v) WITH (publish = 'insert');
ALTER PUBLICATION feed_later SET (publish = 'insert, delete');
CREATE PUBLICATION feed_all FOR ALL TABLES;
UPDATE pub SET v = 'e';
DELETE FROM pub;
DROP PUBLICATION "feed Columns", feed_later, feed_all;

DROP SCHEMA feed_refusals CASCADE;
DROP SERVER feed_refusals;
DROP FOREIGN DATA WRAPPER feed_refusals;
DROP ACCESS METHOD other_heap;
DROP ROLE regress_feed_member, regress_feed_owner, regress_feed_other;
