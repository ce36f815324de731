-- What stands on a feed that may not, from an earlier version, runs nowhere: the changes of that feed wait until it is
-- gone, nobody else's wait for them, and the statement that diagnose gives helps.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(22);
CREATE ROLE alice;
CREATE ROLE mallory;
CREATE SCHEMA a AUTHORIZATION alice;
CREATE SCHEMA m AUTHORIZATION mallory;
-- a superuser's: others' functions are not run (code_in_capture.sql)
CREATE TABLE m.ran (what text);
CREATE FUNCTION m.fail(v int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'XX000'; END $$;
CREATE FUNCTION m.hang(v int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM pg_sleep(1000); RETURN true; END $$;
CREATE FUNCTION m.loop_for_ever(v int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN LOOP END LOOP; END $$;
CREATE FUNCTION m.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN INSERT INTO m.ran VALUES (TG_TABLE_NAME); RETURN NULL; END $$;
SET SESSION AUTHORIZATION alice;
CREATE TABLE a.t (id int PRIMARY KEY, v int);
SELECT scd2.track('a.t') \g /dev/null
SET SESSION AUTHORIZATION mallory;
SET search_path = m, public;
CREATE TABLE fails (id int PRIMARY KEY, v int);
CREATE TABLE hangs (LIKE fails INCLUDING ALL);
CREATE TABLE loops (LIKE fails INCLUDING ALL);
CREATE TABLE indexed (LIKE fails INCLUDING ALL);
CREATE TABLE unique_index (LIKE fails INCLUDING ALL);
CREATE TABLE triggered (LIKE fails INCLUDING ALL);
SELECT scd2.enable_change_feed(c::regclass) FROM unnest('{fails,hangs,loops,indexed,unique_index,triggered}'::text[]) c \g /dev/null
SELECT scd2.sync() \g /dev/null
RESET SESSION AUTHORIZATION;
SET pg_scd2.own_ddl = on;
SET SESSION AUTHORIZATION mallory;
ALTER TABLE fails_changes ADD CHECK (v IS NULL OR m.fail(v));
ALTER TABLE hangs_changes ADD CHECK (v IS NULL OR m.hang(v));
ALTER TABLE loops_changes ADD CHECK (v IS NULL OR m.loop_for_ever(v));
CREATE INDEX ON indexed_changes ((v IS NULL OR m.hang(v)));
CREATE UNIQUE INDEX one_value ON unique_index_changes (_commit_version, v);
CREATE TRIGGER note AFTER INSERT ON triggered_changes FOR EACH ROW EXECUTE FUNCTION m.note();
RESET SESSION AUTHORIZATION;
RESET pg_scd2.own_ddl;
SELECT pid AS capture FROM scd2.capture \gset
SET SESSION AUTHORIZATION mallory;
INSERT INTO fails VALUES (1, 1);
INSERT INTO hangs VALUES (1, 1);
INSERT INTO loops VALUES (1, 1);
INSERT INTO indexed VALUES (1, 1);
INSERT INTO unique_index VALUES (1, 1);
INSERT INTO triggered VALUES (1, 1);
SET SESSION AUTHORIZATION alice;
INSERT INTO a.t VALUES (1, 1);
SELECT lives_ok($$SELECT scd2.sync('50 s')$$, 'others'' changes are captured and applied');
SELECT is((SELECT count(*) FROM a.t_history), 1::bigint, '... and there');
RESET SESSION AUTHORIZATION;
SELECT is((SELECT pid FROM scd2.capture), :capture, 'the worker has not died of it');
SELECT is((SELECT count(*) FROM scd2.feeds WHERE state = 'running' AND gap IS NULL), 7::bigint, 'no feed has failed');
SELECT is((SELECT count(*) FROM m.ran), 0::bigint, 'nothing ran');
SELECT is_empty(format('SELECT FROM m.%I', c || '_changes'), format('what came of "%s" waits', c)) FROM unnest('{fails,hangs,loops,indexed,unique_index,triggered}'::text[]) c;
SELECT ok(backlog_bytes > 0 AND complete_version < latest_version AND waits_for LIKE '%stands on the feed', format('%s: scd2.feeds says so', source)) FROM scd2.feeds WHERE source <> 'a.t'::regclass;

SET SESSION AUTHORIZATION mallory;
CREATE FUNCTION pg_temp.sync_waits() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM scd2.sync('1 s'); RETURN false; EXCEPTION WHEN query_canceled THEN RETURN true; END $$;
SELECT ok(pg_temp.sync_waits(), 'sync() of their owner waits');
SELECT is((SELECT count(*) FROM scd2.diagnose() WHERE problem LIKE 'its changes since version % wait to be written into its feed' AND fix IS NOT NULL), 6::bigint, 'diagnose has a statement for each');
SELECT fix FROM scd2.diagnose() WHERE problem LIKE 'its changes since version % wait%' \gexec
SELECT lives_ok($$SELECT scd2.sync('50 s')$$, 'which helps');
SELECT is((SELECT count(*) FROM scd2.diagnose()), 0::bigint, 'nothing is wrong any more');
SELECT is((SELECT count(*) FROM (SELECT id FROM fails_changes UNION ALL SELECT id FROM hangs_changes UNION ALL SELECT id FROM loops_changes
                                 UNION ALL SELECT id FROM indexed_changes UNION ALL SELECT id FROM unique_index_changes UNION ALL SELECT id FROM triggered_changes) c), 6::bigint, 'and what waited is there');
SELECT * FROM finish();
