-- pg_scd2.enable_change_feed_on_create
\set SHOW_CONTEXT never
CREATE SCHEMA feed_on_create;
SET search_path = feed_on_create;
CREATE TABLE before (id integer);
SET pg_scd2.enable_change_feed_on_create = on;
CREATE TABLE plain (id integer);
CREATE TABLE IF NOT EXISTS plain (id integer);
CREATE TABLE taken AS SELECT 1 AS id;
SELECT 2 AS id INTO into_;
CREATE TABLE part (id integer) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (1) TO (2);
CREATE TEMP TABLE temporary (id integer);
CREATE UNLOGGED TABLE unlogged (id integer);
CREATE VIEW vw AS SELECT 1 AS one;
CREATE MATERIALIZED VIEW mv AS SELECT 1 AS one;
CREATE SCHEMA feed_on_create_2 CREATE TABLE inner_ (id integer);
-- what cannot have one does not make the user's DDL fail
CREATE TABLE clash (id integer, _xid text);
-- the feed is its source's owner's
CREATE ROLE regress_feed_creator;
GRANT ALL ON SCHEMA feed_on_create TO regress_feed_creator;
SET ROLE regress_feed_creator;
CREATE TABLE theirs (id integer);
RESET ROLE;
-- also where replication applies changes
SET session_replication_role = replica;
CREATE TABLE replicated (id integer);
RESET session_replication_role;
BEGIN;
CREATE TABLE rolled_back (id integer);
ROLLBACK;
RESET pg_scd2.enable_change_feed_on_create;
CREATE TABLE after (id integer);
SELECT f.source, f.feed, c.relowner::regrole FROM scd2.feeds f JOIN pg_class c ON c.oid = f.feed
WHERE c.relnamespace IN ('feed_on_create'::regnamespace, 'feed_on_create_2'::regnamespace) ORDER BY f.source::text;
INSERT INTO plain VALUES (1);
INSERT INTO part VALUES (1);
SELECT scd2.sync() AS v \gset
SELECT _change_type, id FROM scd2.table_changes(NULL::plain_changes);
SELECT _change_type, id FROM scd2.table_changes(NULL::part_changes);
SET client_min_messages = warning;
DROP SCHEMA feed_on_create, feed_on_create_2 CASCADE;
DROP ROLE regress_feed_creator;
