-- What a trigger of a target leaves in the session of the worker that ran it is gone with its batch, whether that was committed
-- or failed: locks, settings, sequences, the seed of random(), and what cannot be made at all. A flow of another owner, in
-- the same worker, finds nothing of it.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(13);
\ir parts/wait.sql
ALTER SYSTEM SET pg_scd2.max_apply_workers = 1;
SELECT pg_reload_conf() \g /dev/null
CALL wait_until($$(SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'pg_scd2 apply' AND datname = current_database())$$);
CREATE ROLE mallory;
CREATE ROLE victim;
CREATE SCHEMA m AUTHORIZATION mallory;
CREATE SCHEMA v AUTHORIZATION victim;
SELECT format('GRANT TEMPORARY ON DATABASE %I TO mallory', current_database()) \gexec

SET SESSION AUTHORIZATION mallory;
CREATE SEQUENCE m.numbers CACHE 1000;
CREATE TABLE m.t (id int PRIMARY KEY, v text);
CREATE TABLE m.tried (id int, what text, result text);
SELECT scd2.track('m.t') \g /dev/null
CREATE FUNCTION m.try(what text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE what;
    RETURN 'done';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE;
END $$;
CREATE FUNCTION m.leave() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    what text;
BEGIN
    FOREACH what IN ARRAY ARRAY['SELECT pg_advisory_lock(1, 2)', 'SELECT pg_advisory_lock_shared(7)', 'SELECT nextval(''m.numbers'')', 'SELECT setseed(0.5)',
        'SELECT set_config(''work_mem'', ''77kB'', false)', 'SELECT set_config(''my.own'', ''7'', false)', 'SET search_path = m', 'SET enable_seqscan = on', 'SET lock_timeout = ''77s''', 'SET statement_timeout = ''77s''',
        'SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY', 'SET TimeZone = ''Asia/Kathmandu''', 'SET pg_scd2.allow_target_writes = on', 'SET application_name = ''m''',
        'PREPARE p AS SELECT 1', 'LISTEN l', 'DECLARE c CURSOR WITH HOLD FOR SELECT 1', 'CREATE TEMPORARY TABLE x (i int)'] LOOP
        INSERT INTO m.tried VALUES (NEW.id, what, m.try(what));
    END LOOP;
    IF NEW.v = 'fails' THEN
        RAISE 'fails as it should';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER leave BEFORE INSERT ON m.t_history FOR EACH ROW EXECUTE FUNCTION m.leave();
RESET SESSION AUTHORIZATION;

SET SESSION AUTHORIZATION victim;
CREATE TABLE v.t (id int PRIMARY KEY);
CREATE TABLE v.found (id int, what text, result text);
SELECT scd2.track('v.t') \g /dev/null
CREATE FUNCTION v.get(what text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    found text;
BEGIN
    EXECUTE what INTO found;
    RETURN found;
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE;
END $$;
CREATE FUNCTION v.look() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO v.found SELECT NEW.id, w, v.get(w) FROM unnest(ARRAY['SELECT pg_backend_pid()', 'SELECT lastval()', 'SELECT random()', 'SELECT count(*) FROM pg_prepared_statements', 'SELECT count(*) FROM pg_listening_channels()',
        'SELECT count(*) FROM pg_cursors WHERE is_holdable', 'SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = ''advisory'' AND (classid, objid) IN ((1, 2), (0, 7))',
        'SELECT pg_my_temp_schema()', 'SELECT nullif(current_setting(''my.own'', true), '''')']) AS w;
    INSERT INTO v.found SELECT NEW.id, 'setting ' || name, setting FROM pg_settings WHERE name IN ('work_mem', 'enable_seqscan', 'lock_timeout', 'statement_timeout', 'default_transaction_read_only', 'TimeZone',
        'pg_scd2.allow_target_writes', 'application_name', 'search_path');
    RETURN NEW;
END $$;
CREATE TRIGGER look BEFORE INSERT ON v.t_history FOR EACH ROW EXECUTE FUNCTION v.look();
RESET SESSION AUTHORIZATION;
GRANT USAGE ON SCHEMA m TO victim;
GRANT USAGE ON SEQUENCE m.numbers TO victim;
SELECT scd2.sync() \g /dev/null

INSERT INTO v.t VALUES (1);
SELECT scd2.sync() \g /dev/null
INSERT INTO m.t VALUES (1, 'succeeds');
SELECT scd2.sync() \g /dev/null
SELECT is_empty($$SELECT * FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND a.backend_type LIKE 'pg_scd2%'$$, 'no lock is left by a batch that was committed');
INSERT INTO v.t VALUES (2);
SELECT scd2.sync() \g /dev/null
SELECT results_eq($$SELECT what FROM m.tried WHERE id = 1 AND result <> 'done' ORDER BY 1$$,
    $$VALUES ('CREATE TEMPORARY TABLE x (i int)'), ('DECLARE c CURSOR WITH HOLD FOR SELECT 1'), ('LISTEN l'), ('PREPARE p AS SELECT 1')$$, 'what cannot be taken back, nobody can do');
SELECT is((SELECT count(*) FROM m.tried WHERE id = 1), 18::bigint, '... and all was tried');
SELECT is((SELECT count(DISTINCT result) FROM v.found WHERE what = 'SELECT pg_backend_pid()'), 1::bigint, 'the other owner''s flow ran in the same worker before and after');
SELECT results_eq($$SELECT what, result FROM v.found WHERE id = 2 AND what NOT LIKE '%random()' ORDER BY 1$$, $$SELECT what, result FROM v.found WHERE id = 1 AND what NOT LIKE '%random()' ORDER BY 1$$,
    'and finds what it found before');
SELECT is((SELECT result FROM v.found WHERE id = 2 AND what = 'SELECT lastval()'), '55000', 'no sequence');
SELECT setseed(0.5) \g /dev/null
SELECT isnt((SELECT result FROM v.found WHERE id = 2 AND what = 'SELECT random()'), random()::text, 'no seed');

-- a batch that fails
INSERT INTO m.t VALUES (2, 'fails');
CALL wait_until($$(SELECT last_error FROM scd2.flows WHERE flow = 't_history' AND target = 'm.t_history'::regclass) LIKE '%fails as it should%'$$);
SELECT is_empty($$SELECT * FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND a.backend_type LIKE 'pg_scd2%'$$, 'no lock is left by a batch that failed');
SELECT scd2.pause_flow(flow) FROM scd2.flows WHERE target = 'm.t_history'::regclass \g /dev/null
INSERT INTO v.t VALUES (3);
SELECT scd2.sync('1 min', '{v.t_history}') \g /dev/null
SELECT is((SELECT count(DISTINCT result) FROM v.found WHERE what = 'SELECT pg_backend_pid()'), 1::bigint, 'the worker is the same');
SELECT results_eq($$SELECT what, result FROM v.found WHERE id = 3 AND what NOT LIKE '%random()' ORDER BY 1$$, $$SELECT what, result FROM v.found WHERE id = 1 AND what NOT LIKE '%random()' ORDER BY 1$$,
    'and the other owner''s flow still finds what it found before');
SELECT setseed(0.5) \g /dev/null
SELECT isnt((SELECT result FROM v.found WHERE id = 3 AND what = 'SELECT random()'), random()::text, 'no seed');

-- a superuser's event trigger runs as the worker itself
CREATE FUNCTION meddle() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('enable_seqscan', 'on', false), set_config('TimeZone', 'Asia/Kathmandu', false), pg_advisory_lock(9);
END $$;
CREATE EVENT TRIGGER meddle ON ddl_command_end WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION meddle();
ALTER TABLE v.t ADD COLUMN x int;
DROP EVENT TRIGGER meddle;
SELECT pg_advisory_unlock_all() \g /dev/null
CREATE EVENT TRIGGER meddle ON ddl_command_end EXECUTE FUNCTION meddle();
INSERT INTO v.t VALUES (4, 1);
SELECT scd2.sync('1 min', '{v.t_history}') \g /dev/null
DROP EVENT TRIGGER meddle;
SELECT pg_advisory_unlock_all() \g /dev/null
INSERT INTO v.t VALUES (5, 1);
SELECT scd2.sync('1 min', '{v.t_history}') \g /dev/null
SELECT results_eq($$SELECT what, result FROM v.found WHERE id = 5 AND what NOT LIKE '%random()' ORDER BY 1$$, $$SELECT what, result FROM v.found WHERE id = 1 AND what NOT LIKE '%random()' ORDER BY 1$$,
    'what event triggers set is gone, too');
SELECT is_empty($$SELECT * FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND a.backend_type LIKE 'pg_scd2%'$$, 'and what they locked');
ALTER SYSTEM RESET pg_scd2.max_apply_workers;
SELECT pg_reload_conf() \g /dev/null
SELECT * FROM finish();
