-- What somebody can try who is no superuser: the internal schema, functions that tell of others, roles, settings that
-- change what SQL means, names, objects that shadow ours, a tablespace that is not his, the output plugin.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(33);
CREATE ROLE alice;
CREATE ROLE mallory;
CREATE SCHEMA a AUTHORIZATION alice;
CREATE SCHEMA m AUTHORIZATION mallory;
GRANT USAGE ON SCHEMA a TO mallory;
GRANT TEMPORARY ON DATABASE :DBNAME TO mallory;
SET SESSION AUTHORIZATION alice;
CREATE TABLE a.t (id int PRIMARY KEY, v text);
SELECT scd2.track('a.t') \g /dev/null
SELECT scd2.create_reader('of_alice', 'a.t') \g /dev/null
SELECT scd2.sync() \g /dev/null
INSERT INTO a.t VALUES (1, 'secret');
SELECT scd2.sync() \g /dev/null

-- the internal schema
RESET SESSION AUTHORIZATION;
SELECT is_empty($$SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'scd2_internal'::regnamespace AND has_function_privilege('mallory', p.oid, 'EXECUTE')$$, 'nobody may execute a function of the internal schema');
SELECT is_empty($$SELECT c.oid::regclass FROM pg_class c WHERE c.relnamespace = 'scd2_internal'::regnamespace AND c.relkind IN ('r', 'v', 'S') AND has_table_privilege('mallory', c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')$$, 'or look into its tables');
SELECT ok(NOT has_schema_privilege('mallory', 'scd2_internal', 'USAGE') AND NOT has_schema_privilege('mallory', 'scd2_internal', 'CREATE') AND NOT has_schema_privilege('mallory', 'scd2', 'CREATE'), 'nor put something into our schemas');
SELECT is_empty($$SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace IN ('scd2_internal'::regnamespace, 'scd2'::regnamespace) AND p.prosecdef
    AND NOT p.proconfig @> '{"search_path=pg_catalog, pg_temp"}'$$, 'each function with our rights has a search_path of its own');
SET SESSION AUTHORIZATION mallory;
SELECT throws_ok($$SELECT scd2_internal.as_owner('a.t'::regclass, 'SELECT v FROM a.t', 0)$$, '42501', NULL, 'such a call is refused');
SELECT throws_ok($$SELECT scd2_internal.erase(10, 'a.t', '{"id": 1}')$$, '42501', NULL, 'with somebody else''s oid too');
SELECT throws_ok($$CREATE FUNCTION m.twin(oid) RETURNS void AS '$libdir/pg_scd2', 'scd2_call_internal' LANGUAGE C$$, '42501', NULL, 'and no other door can be made');
CREATE TABLE m.guarded (id int);
SELECT throws_ok('CREATE TRIGGER g BEFORE INSERT ON m.guarded EXECUTE FUNCTION scd2_internal.guard()', '42501', NULL, 'our trigger function is for our triggers');

-- parts of views
RESET SESSION AUTHORIZATION;
BEGIN;
UPDATE scd2_internal.flow_state SET phase = 'copy';     -- as if a worker were about to copy
SELECT isnt_empty('SELECT * FROM scd2._copy_progress()', 'what views are made of shows a superuser everything');
SET LOCAL ROLE mallory;
SELECT is_empty('SELECT * FROM scd2._copy_progress()', 'and tells others nothing');
ROLLBACK;
SET SESSION AUTHORIZATION mallory;
SELECT throws_ok($$SELECT * FROM scd2._feed_range('a.t', 1, NULL, NULL, NULL, false)$$, '42501', NULL, '_feed_range is for who may read the feed');
SELECT throws_ok($$SELECT scd2._covered('of_alice', 1)$$, '42501', NULL, '_covered for the reader''s owner');
SELECT throws_ok($$SELECT * FROM scd2._begin_read('of_alice', 'a.t_changes')$$, '42501', NULL, 'and _begin_read');

-- roles
RESET SESSION AUTHORIZATION;
CREATE ROLE staff NOINHERIT;
GRANT alice TO staff;
CREATE FUNCTION a.pause() RETURNS void LANGUAGE sql SECURITY DEFINER AS $$ SELECT scd2.pause_flow('t_history') $$;
ALTER FUNCTION a.pause() OWNER TO mallory;
GRANT USAGE ON SCHEMA a TO staff;
SET SESSION AUTHORIZATION staff;
SELECT throws_ok($$SELECT scd2.pause_flow('t_history')$$, '42501', NULL, 'a member that does not inherit has no rights');
SET ROLE alice;
SELECT throws_ok('SELECT a.pause()', '42501', NULL, 'it is the current role that counts, a function''s owner');
SELECT lives_ok($$SELECT scd2.pause_flow('t_history')$$, 'as the owner he has');
RESET ROLE;
SELECT throws_ok($$SELECT scd2.resume_flow('t_history')$$, '42501', NULL, 'and afterwards not');
SET SESSION AUTHORIZATION alice;
SELECT scd2.resume_flow('t_history') \g /dev/null

-- shadows: functions, operators and tables of the user's names, before pg_catalog in his search_path
SET SESSION AUTHORIZATION mallory;
CREATE TABLE m.t (id int PRIMARY KEY, v text);
CREATE FUNCTION m.format(text, VARIADIC text[]) RETURNS text LANGUAGE sql AS $$ SELECT 'SELECT 1' $$;
CREATE FUNCTION m.pg_has_role(oid, oid, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
CREATE FUNCTION m.yes(oid, oid) RETURNS boolean LANGUAGE sql AS 'SELECT true';
CREATE OPERATOR m.= (FUNCTION = m.yes, LEFTARG = oid, RIGHTARG = oid);
CREATE FUNCTION m.quote_ident(text) RETURNS text LANGUAGE sql AS $$ SELECT 'x; DROP TABLE a.t; --' $$;
CREATE TEMPORARY TABLE pg_class (oid oid, relowner oid, relname name, relnamespace oid, relkind "char", relpersistence "char");
CREATE TEMPORARY TABLE pg_roles (oid oid, rolsuper boolean);
SET search_path = m, pg_temp, pg_catalog, public;
SELECT throws_ok($$SELECT scd2.enable_change_feed('a.t')$$, '42501', NULL, 'what stands before pg_catalog in a search_path does not count');
SELECT lives_ok($$SELECT scd2.track('m.t')$$, 'nor is it in the way');
SET search_path = public;
DROP TABLE pg_temp.pg_class, pg_temp.pg_roles;

-- settings
SET standard_conforming_strings = off;
SET escape_string_warning = off;
SELECT throws_ok($t$SELECT scd2.alter_flow('t_history_2', source_filter => $e$v = '\''$e$)$t$, '42601', NULL, 'an expression is checked as the worker will read it');
RESET standard_conforming_strings;
RESET escape_string_warning;
RESET SESSION AUTHORIZATION;
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE not_for_mallory LOCATION '';
SET SESSION AUTHORIZATION mallory;
CREATE TABLE m.elsewhere (id int PRIMARY KEY);
SET default_tablespace = not_for_mallory;
SELECT scd2.track('m.elsewhere') \g /dev/null
RESET default_tablespace;
RESET SESSION AUTHORIZATION;
SELECT is_empty($$SELECT c.oid::regclass FROM pg_class c JOIN pg_tablespace t ON t.oid = c.reltablespace WHERE t.spcname = 'not_for_mallory'$$, 'nothing is made in a tablespace that its owner may not use');
SELECT throws_ok($$SET ROLE mallory; SET pg_scd2.debug_fail_at = 'applied'$$, '42501', NULL, 'failures can be injected by superusers alone');
RESET ROLE;

-- names
CREATE SCHEMA "it's; DROP TABLE a.t; --" AUTHORIZATION mallory;
SET SESSION AUTHORIZATION mallory;
CREATE TABLE m.names AS SELECT n FROM unnest(ARRAY['a"b; DROP TABLE a.t; --', rpad('ü', 31, 'ü') || 'x', 'it''s "%I" $1']) n;
SET search_path = "it's; DROP TABLE a.t; --", public;
SELECT format('CREATE TABLE %I (%I int PRIMARY KEY, %I text)', n, 'k"; %s', 'v''$$; SELECT') FROM m.names \gexec
SELECT lives_ok(format('SELECT scd2.track(%L, source_filter => %L)', n::regclass, '"k""; %s" IS NOT NULL'), 'a table with a name as strange as this is tracked: ' || n)
    FROM (SELECT quote_ident(n) AS n FROM m.names) x;
SELECT format('INSERT INTO %I VALUES (1, %L)', n, '''; DROP TABLE a.t; --') FROM m.names \gexec
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT count(*) FROM scd2.flows WHERE rows_inserted = 1), 3::bigint, 'and its rows arrive');
SELECT lives_ok(format('SELECT count(*) FROM scd2.check_target(%L)', target), 'check_target') FROM scd2.flows WHERE rows_inserted = 1 ORDER BY target::text LIMIT 1;
SELECT lives_ok(format('SELECT scd2.full_refresh(%L, key_filter => %L)', target, '"k""; %s" = 1'), 'full_refresh') FROM scd2.flows WHERE rows_inserted = 1 ORDER BY target::text LIMIT 1;
SET search_path = public;
SELECT lives_ok(format('SELECT scd2.untrack(%L, true, true)', source), 'untrack') FROM scd2.flows WHERE rows_inserted > 0 ORDER BY target::text LIMIT 1;
RESET SESSION AUTHORIZATION;
SELECT is((SELECT count(*) FROM a.t), 1::bigint, 'and nothing else was executed');

-- the output plugin
CREATE ROLE replicator REPLICATION;
SET SESSION AUTHORIZATION replicator;
-- (not in throws_ok(): the server gives a slot back when a statement fails, not when a subtransaction does)
SELECT slot FROM scd2.capture \gset
\set ON_ERROR_STOP off
SELECT pg_create_logical_replication_slot('of_mine', 'pg_scd2');
SELECT is(:'SQLSTATE'::text, '55006', 'a slot of somebody''s own does not get our plugin');
SELECT * FROM pg_logical_slot_get_changes(:'slot', NULL, NULL);
SELECT is(:'SQLSTATE'::text, '55006', 'nor does he read ours');
\set ON_ERROR_STOP on
RESET SESSION AUTHORIZATION;
SET SESSION AUTHORIZATION alice;
UPDATE a.t SET v = 'still captured';
SELECT lives_ok('SELECT scd2.sync()', 'and capture goes on');
RESET SESSION AUTHORIZATION;
DROP TABLESPACE not_for_mallory;
SELECT * FROM finish();
