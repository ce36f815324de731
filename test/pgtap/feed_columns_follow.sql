-- What a feed's owner may not, or has made of its row type, is no gap: its columns follow those of the source, or begin anew.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(8);
CREATE ROLE alice;
CREATE SCHEMA a;
GRANT CREATE, USAGE ON SCHEMA a TO alice;
SET SESSION AUTHORIZATION alice;
CREATE TABLE a.t (id int PRIMARY KEY, v int);
CREATE TYPE a.mood AS ENUM ('good', 'bad');
SELECT scd2.track('a.t') \g /dev/null
SELECT scd2.sync() \g /dev/null
RESET SESSION AUTHORIZATION;
REVOKE ALL ON SCHEMA a FROM alice;
-- whoever may alter his tables without the right to name them
ALTER TABLE a.t ADD COLUMN w a.mood DEFAULT 'bad';
ALTER TABLE a.t RENAME COLUMN v TO x;
ALTER TABLE a.t ALTER x TYPE bigint;
INSERT INTO a.t VALUES (1, 3000000000);
SELECT scd2.sync(targets => '{}') \g /dev/null
SELECT is((SELECT state FROM scd2.feeds), 'running', 'the feed of an owner without USAGE on its schema goes on');
SELECT is((SELECT gap FROM scd2_internal.feed_state), NULL, 'it has no gap');
SELECT results_eq('SELECT id, x, w::text FROM a.t_changes', $$VALUES (1, 3000000000, 'bad')$$, 'its columns are the source''s');
GRANT ALL ON SCHEMA a TO alice;

-- columns of a feed's row type are refused; they can be there from an earlier version
SET SESSION AUTHORIZATION alice;
CREATE TABLE a.u (id int PRIMARY KEY, v int);
SELECT scd2.track('a.u') \g /dev/null
SELECT throws_ok('ALTER TABLE a.u ADD COLUMN w a.u_changes', '55000', NULL, 'the source has no column of its feed''s rows');
RESET SESSION AUTHORIZATION;
SET pg_scd2.own_ddl = on;
CREATE TABLE a.kept (x a.u_changes[]);
RESET pg_scd2.own_ddl;
SET SESSION AUTHORIZATION alice;
INSERT INTO a.u VALUES (1, 1);
ALTER TABLE a.u ALTER v TYPE bigint;
INSERT INTO a.u VALUES (2, 3000000000);
CREATE FUNCTION pg_temp.sync_waits() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM scd2.sync('1 s'); RETURN false; EXCEPTION WHEN query_canceled THEN RETURN true; END $$;
SELECT ok(pg_temp.sync_waits(), 'a feed whose row type is used waits');
RESET SESSION AUTHORIZATION;
DROP TABLE a.kept;
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT state FROM scd2.feeds WHERE source = 'a.u'::regclass), 'running', 'and goes on when it is no more');
SELECT is((SELECT gap FROM scd2_internal.feed_state WHERE source_relid = 'a.u'::regclass), NULL, 'it has no gap');
SELECT results_eq('SELECT id, v FROM a.u_history WHERE __end_at IS NULL ORDER BY id', 'SELECT id, v FROM a.u ORDER BY id', 'and its history is the table');
SELECT * FROM finish();
