-- Settings of the database that change what SQL text means, or what values are as text, change nothing of what we do.
\set QUIET on
SET client_min_messages = warning;
CREATE ROLE alice;
CREATE SCHEMA a AUTHORIZATION alice;
-- workers begin anew with them, and so do we
ALTER DATABASE :DBNAME SET standard_conforming_strings = off;
ALTER DATABASE :DBNAME SET escape_string_warning = off;
ALTER DATABASE :DBNAME SET backslash_quote = on;
ALTER DATABASE :DBNAME SET transform_null_equals = on;
ALTER DATABASE :DBNAME SET array_nulls = off;
ALTER DATABASE :DBNAME SET quote_all_identifiers = on;
ALTER DATABASE :DBNAME SET bytea_output = escape;
ALTER DATABASE :DBNAME SET extra_float_digits = -10;
SELECT scd2.stop() \g /dev/null
DO $$ BEGIN WHILE EXISTS (SELECT FROM pg_stat_activity WHERE backend_type LIKE 'pg_scd2 %' AND datname = current_database()) LOOP PERFORM pg_sleep(0.05), pg_stat_clear_snapshot(); END LOOP; END $$;
SELECT scd2.start() \g /dev/null
\c
\set QUIET on
SET client_min_messages = warning;
SELECT plan(11);
SELECT is(current_setting('standard_conforming_strings'), 'off', 'the database has settings of its own');
SET SESSION AUTHORIZATION alice;
CREATE TABLE a.s (id int PRIMARY KEY, v text, f double precision, b bytea);
SELECT scd2.track('a.s', source_filter => E's.v <> \'a\\b\' AND (s.v = NULL) IS NULL AND (\'{NULL}\'::text[])[1] IS NULL') \g /dev/null
INSERT INTO a.s VALUES (1, E'a\\b', 0, ''), (2, 'kept', 0.1::float8 + 0.2::float8, E'\\\\x01ff');
SELECT scd2.sync() \g /dev/null
SELECT results_eq('SELECT id FROM a.s_history', ARRAY[2], 'an expression means in the worker what it meant when it was given');
SELECT results_eq('SELECT f, b FROM a.s_history', 'SELECT f, b FROM a.s WHERE id = 2', 'values are whole');
ALTER TABLE a.s RENAME TO r;
SELECT results_eq($$SELECT source::text, state FROM scd2.flows WHERE flow = 's_history'$$, $$VALUES ('a.r'::regclass::text, 'running')$$, 'a source that its filter names gets another name');
UPDATE a.r SET v = 'again' WHERE id = 2;
SELECT scd2.sync() \g /dev/null
SELECT results_eq('SELECT v FROM a.s_history WHERE __end_at IS NULL', ARRAY['again'], 'and the flow goes on');
SELECT is_empty($$SELECT * FROM scd2.check_target('a.s_history')$$, 'check_target finds nothing');
SELECT isnt_empty($$SELECT * FROM scd2.table_changes('a.r', ' 1 ', '1000000')$$, 'bounds given as text are read');
SELECT lives_ok($$SELECT * FROM scd2.vacuum_feed('a.r', retain => '0')$$, 'a feed is cut');
SELECT is_empty($$SELECT * FROM scd2.diagnose()$$, 'nothing is wrong');
SELECT lives_ok($$SELECT scd2.untrack('a.r', true, true)$$, 'and all of it goes');
RESET SESSION AUTHORIZATION;
SELECT format('ALTER DATABASE %I RESET ALL', current_database()) \gexec
SELECT is((SELECT count(*) FROM scd2_internal.flow), 0::bigint, 'nothing is left');
SELECT * FROM finish();
