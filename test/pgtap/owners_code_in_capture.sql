-- What an owner hangs on his feed can fail in any way, and for ever: that is a gap of his feed, and nobody else's
-- changes wait for it.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(14);
CREATE ROLE alice;
CREATE ROLE mallory;
CREATE SCHEMA a AUTHORIZATION alice;
CREATE SCHEMA m AUTHORIZATION mallory;
ALTER SYSTEM SET pg_scd2.debug_owners_code_limit = '500ms';
SELECT pg_reload_conf() \g /dev/null
-- a superuser's: others' functions are not run (code_in_capture.sql)
CREATE FUNCTION m.fail(state text, v int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = state; END $$;
CREATE FUNCTION m.hang(v int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM pg_sleep(1000); RETURN true; END $$;
CREATE FUNCTION m.wait_for_itself(v int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM scd2._wait_captured('1 day'); RETURN true; END $$;
CREATE FUNCTION m.loop_for_ever(v int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN LOOP END LOOP; END $$;
SET SESSION AUTHORIZATION alice;
CREATE TABLE a.t (id int PRIMARY KEY, v int);
SELECT scd2.track('a.t') \g /dev/null
SET SESSION AUTHORIZATION mallory;
SET search_path = m, public;
CREATE SEQUENCE never_used;
CREATE TABLE xx (id int PRIMARY KEY, v int);
CREATE TABLE resources (LIKE xx INCLUDING ALL);
CREATE TABLE operator (LIKE xx INCLUDING ALL);
CREATE TABLE sequence (LIKE xx INCLUDING ALL);
CREATE TABLE sleeps (LIKE xx INCLUDING ALL);
CREATE TABLE waits (LIKE xx INCLUDING ALL);
CREATE TABLE loops (LIKE xx INCLUDING ALL);
CREATE TABLE index_hangs (LIKE xx INCLUDING ALL);
SELECT scd2.enable_change_feed(c::regclass) FROM unnest('{xx,resources,operator,sequence,sleeps,waits,loops,index_hangs}'::text[]) c \g /dev/null
-- as from an earlier version: a feed does not take them any more
RESET SESSION AUTHORIZATION;
SET pg_scd2.own_ddl = on;
SET SESSION AUTHORIZATION mallory;
ALTER TABLE xx_changes ADD CHECK (v IS NULL OR m.fail('XX000', v));
ALTER TABLE resources_changes ADD CHECK (v IS NULL OR m.fail('53100', v));
ALTER TABLE operator_changes ADD CHECK (v IS NULL OR m.fail('57P01', v));
ALTER TABLE sequence_changes ADD CHECK (v IS NULL OR currval('m.never_used') > 0);
ALTER TABLE sleeps_changes ADD CHECK (v IS NULL OR m.hang(v));
ALTER TABLE waits_changes ADD CHECK (v IS NULL OR m.wait_for_itself(v));
ALTER TABLE loops_changes ADD CHECK (v IS NULL OR m.loop_for_ever(v));
CREATE INDEX ON index_hangs_changes ((v IS NULL OR m.hang(v)));
RESET SESSION AUTHORIZATION;
RESET pg_scd2.own_ddl;
SET SESSION AUTHORIZATION mallory;
SELECT scd2.sync() \g /dev/null
RESET SESSION AUTHORIZATION;
SELECT pid AS capture FROM scd2.capture \gset
SET SESSION AUTHORIZATION mallory;
INSERT INTO xx VALUES (1, 1);
INSERT INTO resources VALUES (1, 1);
INSERT INTO operator VALUES (1, 1);
INSERT INTO sequence VALUES (1, 1);
INSERT INTO sleeps VALUES (1, 1);
INSERT INTO waits VALUES (1, 1);
INSERT INTO loops VALUES (1, 1);
INSERT INTO index_hangs VALUES (1, 1);
SET SESSION AUTHORIZATION alice;
SET search_path = public;
INSERT INTO a.t VALUES (1, 1);
SELECT lives_ok($$SELECT scd2.sync('50 s')$$, 'others'' changes are captured and applied');
SELECT is((SELECT count(*) FROM a.t_history), 1::bigint, '... and there');
RESET SESSION AUTHORIZATION;
SELECT is((SELECT pid FROM scd2.capture), :capture, 'the worker has not died of it');
SELECT is((SELECT state FROM scd2.feeds WHERE source = format('m.%s', c)::regclass), 'failed', format('the feed of "%s" has failed', c)) FROM unnest('{xx,resources,operator,sequence,sleeps,waits,loops,index_hangs}'::text[]) c;
SELECT is((SELECT count(*) FROM scd2.feeds WHERE state = 'running'), 1::bigint, 'no other feed has');
SET SESSION AUTHORIZATION mallory;
SELECT matches((SELECT detail FROM scd2.diagnose() WHERE subject = 'table m.sleeps' AND problem = 'its change data feed has failed'), 'check or index expression of the feed was cancelled', 'its owner is told why');
SELECT is_empty($$SELECT * FROM m.xx_changes$$, 'nothing is in such a feed');
RESET SESSION AUTHORIZATION;

ALTER SYSTEM RESET pg_scd2.debug_owners_code_limit;
SELECT pg_reload_conf() \g /dev/null
SELECT * FROM finish();
