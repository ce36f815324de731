-- Triggers, rules, defaults, generated columns, domains, casts and policies on targets, and views as sources: whatever
-- hangs there runs as the owner, cannot become somebody else, and leaves nothing behind in the worker.
\set QUIET on
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SELECT plan(19);
\ir parts/wait.sql
CREATE ROLE mallory;
CREATE ROLE victim;
CREATE SCHEMA m AUTHORIZATION mallory;
SELECT format('GRANT TEMPORARY ON DATABASE %I TO mallory', current_database()) \gexec
SET SESSION AUTHORIZATION mallory;
SET search_path = m, public;
CREATE TABLE ran (what text, who name DEFAULT current_user, login name DEFAULT session_user);
CREATE FUNCTION note(what text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$ BEGIN INSERT INTO m.ran (what) VALUES (what); END $$;
CREATE FUNCTION trap(i int, what text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM m.note(what); RETURN i; END $$;
CREATE FUNCTION trap_t(i text, what text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$ BEGIN PERFORM m.note(what); RETURN i; END $$;
CREATE DOMAIN trapped AS int CHECK (m.trap(VALUE, 'domain') IS NOT NULL);
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE FUNCTION mood_json(mood) RETURNS json LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM m.note('cast'); RETURN '"mood"'; END $$;
CREATE CAST (mood AS json) WITH FUNCTION mood_json(mood);
CREATE TYPE pair AS (a m.trapped, b int);

-- a target that is made by hand, with all of it
CREATE TABLE s (id int PRIMARY KEY, v int);
SELECT scd2.enable_change_feed('s') \g /dev/null
CREATE TABLE made (id int, v m.trapped, __start_at timestamptz, __end_at timestamptz, g int GENERATED ALWAYS AS (m.trap(v, 'generated')) STORED, d text DEFAULT m.trap_t('d', 'default'), PRIMARY KEY (id, __start_at));
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM m.note('trigger');
    PERFORM set_config('search_path', 'm', false), set_config('work_mem', '64kB', false), set_config('TimeZone', 'Asia/Kathmandu', false);
    RETURN NEW;
END $$;
CREATE TRIGGER tell BEFORE INSERT OR UPDATE ON made FOR EACH ROW EXECUTE FUNCTION tell();
CREATE FUNCTION become(what text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    EXECUTE what;
    RETURN 'done';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE;
END $$;
CREATE TABLE tried (what text, result text);
CREATE FUNCTION try() RETURNS trigger LANGUAGE plpgsql SECURITY INVOKER AS $$
DECLARE
    what text;
BEGIN
    FOREACH what IN ARRAY ARRAY['SET ROLE postgres', 'RESET ROLE', 'SET SESSION AUTHORIZATION postgres', 'RESET SESSION AUTHORIZATION', 'SET ROLE victim', 'SET session_replication_role = replica',
        'SET LOCAL pg_scd2.debug_fail_at = ''applied''', 'CREATE TEMPORARY TABLE pg_class (x int)', 'LISTEN m', 'UPDATE scd2_internal.flow SET paused = true', 'ALTER TABLE scd2_internal.flow ADD COLUMN x int',
        'DELETE FROM scd2_internal.position', 'SELECT scd2_internal.stop(10)', 'SELECT scd2.stop()', 'SELECT pg_terminate_backend(pg_backend_pid())', 'ALTER ROLE mallory SUPERUSER', 'COPY m.s TO PROGRAM ''true''', 'SELECT pg_read_file(''PG_VERSION'')'] LOOP
        INSERT INTO m.tried VALUES (what, m.become(what));
    END LOOP;
    RETURN NULL;
END $$;
CREATE TRIGGER try AFTER INSERT ON made FOR EACH ROW EXECUTE FUNCTION try();
SELECT scd2.create_auto_cdc_flow('made', 's_changes', '{id}', stored_as_scd_type => 2) \g /dev/null
SELECT scd2.sync() \g /dev/null
INSERT INTO s VALUES (1, 1);
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT count(*) FROM made), 1::bigint, 'the row is there');
SELECT is_empty('SELECT * FROM m.tried WHERE result NOT IN (''42501'', ''0A000'')', 'nothing that the trigger tried was allowed');
SELECT is((SELECT count(*) FROM tried), 18::bigint, 'and it tried all of it');

-- the worker is as it was
CREATE TABLE plain (id int PRIMARY KEY, at timestamptz);
CREATE FUNCTION m.upper(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM m.note('shadow'); RETURN 'shadow'; END $$;
SELECT scd2.track('plain', source_filter => $$upper('x') = 'X' AND at::text LIKE '%+00'$$) \g /dev/null
SELECT scd2.sync() \g /dev/null
INSERT INTO s VALUES (2, 2);
INSERT INTO plain VALUES (1, now());
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT count(*) FROM plain_history), 1::bigint, 'a function of a schema in its owner''s path, and settings that a trigger made, mean nothing to other flows');

-- rules write into what the owner may write
CREATE TABLE r (id int PRIMARY KEY);
CREATE TABLE seen (id int, who name DEFAULT current_user);
SELECT scd2.track('r') \g /dev/null
SELECT scd2.sync() \g /dev/null
CREATE RULE also AS ON INSERT TO r_history DO ALSO INSERT INTO m.seen (id) VALUES (NEW.id);
INSERT INTO r VALUES (1);
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT string_agg(who, ',') FROM seen), 'mallory', 'a rule runs as the owner');
DROP RULE also ON r_history;

-- policies: not for the owner; in force they would hide rows from the flow
CREATE FUNCTION hide(i int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM m.note('policy'); RETURN false; END $$;
CREATE POLICY p ON r_history USING (m.hide(id));
ALTER TABLE r_history ENABLE ROW LEVEL SECURITY;
INSERT INTO r VALUES (2);
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT count(*) FROM r_history), 2::bigint, 'policies do not hide a target from its flow');
ALTER TABLE r_history FORCE ROW LEVEL SECURITY;
INSERT INTO r VALUES (3);
SELECT throws_like('SELECT scd2.sync(''10 s'')', '%row-level security policy for table "r_history"%', 'in force for the owner they are an error, not a hole');
ALTER TABLE r_history NO FORCE ROW LEVEL SECURITY;
SELECT scd2.resume_flow('r_history') \g /dev/null
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT count(*) FROM r_history), 3::bigint, 'and the flow goes on without');

-- code that does not end keeps a worker, not the other flows; an end is put to it
CREATE TABLE endless (id int PRIMARY KEY);
SELECT scd2.track('endless') \g /dev/null
SELECT scd2.sync() \g /dev/null
CREATE FUNCTION never_ends() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1000); RETURN NEW; END $$;
CREATE TRIGGER never_ends BEFORE INSERT ON endless_history FOR EACH ROW EXECUTE FUNCTION never_ends();
INSERT INTO endless VALUES (1);
RESET SESSION AUTHORIZATION;
CALL public.wait_until($$EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'pg_scd2 apply' AND datname = current_database() AND wait_event = 'PgSleep')$$);
INSERT INTO m.r VALUES (4);
SELECT lives_ok('SELECT scd2.sync(''30 s'', ''{m.r_history}'')', 'code that does not end holds up no other flow');
SELECT lives_ok('SELECT scd2.pause_flow(''endless_history'')', '... and the flow can be paused before its worker is ended');
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'pg_scd2 apply' AND datname = current_database() AND wait_event = 'PgSleep' \g /dev/null
CALL public.wait_until($$NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'pg_scd2 apply' AND datname = current_database() AND wait_event = 'PgSleep')$$);
SELECT is((SELECT state FROM scd2.flows WHERE flow = 'endless_history'), 'paused', '... which is not begun again');
SET SESSION AUTHORIZATION mallory;
SELECT scd2.drop_flow('endless_history') \g /dev/null

-- JSON of rejected events, and domains inside of composite types
CREATE TABLE ev (id int, f mood, p pair, s int);
SELECT scd2.create_auto_cdc_flow('dim', 'ev', '{id}', 's', on_invalid_event => 'quarantine') \g /dev/null
SELECT scd2.sync() \g /dev/null
INSERT INTO ev VALUES (1, 'good', '(1,1)', 1), (2, 'bad', '(2,2)', NULL);
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT count(*) FROM scd2.rejected_events), 1::bigint, 'an event is rejected');
DELETE FROM ev;
SELECT scd2.erase('ev', '{"id": 2}') \g /dev/null
SELECT is((SELECT count(*) FROM scd2.rejected_events), 0::bigint, 'and erased');

-- a view as source of snapshots, taken by a superuser's hand
CREATE VIEW w AS SELECT m.trap(id, 'view') AS id, m.trap_t('x', 'volatile in view') AS x FROM s;
SELECT scd2.create_auto_cdc_from_snapshot_flow('snap', 'w', '{id}', 'int', version_query => 'SELECT m.trap(1, ''version_query'')', once => true) \g /dev/null
SELECT scd2.sync() \g /dev/null
SELECT scd2.create_auto_cdc_from_snapshot_flow('snap_2', 'w', '{id}', 'm.pair') \g /dev/null
RESET SESSION AUTHORIZATION;
RESET search_path;
SELECT lives_ok($$SELECT * FROM scd2.apply_snapshot('snap_2', '(1,1)')$$, 'a superuser applies a snapshot');
SELECT lives_ok($$SELECT count(*) FROM scd2.check_target('m.made') a, scd2.check_target('m.dim') b, scd2.check_target('m.r_history') c$$, 'and checks targets');
SELECT lives_ok($$SELECT scd2.full_refresh('m.made', key_filter => 'id = 1')$$, 'and refreshes a key');

SELECT is((SELECT string_agg(DISTINCT who, ',') FROM m.ran), 'mallory', 'all of it ran as the owner');
SELECT ok((SELECT array_agg(DISTINCT what) FROM m.ran) @> '{cast,default,domain,generated,trigger,view,"volatile in view",version_query}', 'and all of it ran');
SELECT is_empty('SELECT * FROM m.ran WHERE what = ''shadow''', 'but what stands in the place of something else');
SELECT * FROM finish();
