-- What holds for every object of the extension: documented, safe search_path, internals closed to others.
BEGIN;
SELECT plan(10);

CREATE TEMP VIEW members AS
    SELECT classid, objid, objsubid FROM pg_depend
    WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'pg_scd2') AND deptype = 'e';
CREATE TEMP VIEW functions AS
    SELECT p.* FROM pg_proc p JOIN members m ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid;
CREATE TEMP VIEW relations AS
    SELECT c.* FROM pg_class c JOIN members m ON m.classid = 'pg_class'::regclass AND m.objid = c.oid;

SELECT is_empty($$
    SELECT oid::regprocedure FROM functions WHERE pronamespace = 'scd2'::regnamespace AND obj_description(oid, 'pg_proc') IS NULL ORDER BY 1$$,
    'every public function has a comment');
SELECT is_empty($$
    SELECT oid::regclass FROM relations WHERE relnamespace = 'scd2'::regnamespace AND obj_description(oid, 'pg_class') IS NULL ORDER BY 1$$,
    'every view has a comment');
SELECT is_empty($$
    SELECT f.oid::regprocedure FROM functions f JOIN pg_language l ON l.oid = prolang
    WHERE lanname IN ('plpgsql', 'sql') AND proconfig::text NOT LIKE '%search_path=%' IS NOT FALSE
      AND proname <> 'table_changes'         -- a relation's name is read as its caller does; the others are inlined
    ORDER BY 1$$,
    'every function in SQL or PL/pgSQL pins its search_path');
SELECT is_empty($$
    SELECT oid::regprocedure FROM functions WHERE prosecdef AND pronamespace = 'scd2'::regnamespace
      AND proname NOT IN ('latest_version', '_foreign_until', '_copy_progress') ORDER BY 1$$,   -- numbers, no data
    'public functions are not SECURITY DEFINER: rights are checked behind the door');
SELECT is_empty($$
    SELECT oid::regprocedure FROM functions
    WHERE pronamespace = 'scd2_internal'::regnamespace AND has_function_privilege('public', oid, 'EXECUTE') AND prorettype <> 'trigger'::regtype
      AND prorettype <> 'event_trigger'::regtype ORDER BY 1$$,
    'nobody else may execute internal functions');
SELECT is_empty($$
    SELECT oid::regclass FROM relations WHERE relkind IN ('r', 'v', 'S') AND relnamespace = 'scd2_internal'::regnamespace
      AND has_table_privilege('public', oid, 'SELECT, INSERT, UPDATE, DELETE') ORDER BY 1$$,
    'nobody else may touch internal tables');
SELECT is(has_schema_privilege('public', 'scd2_internal', 'USAGE'), false, 'the internal schema is closed');
SELECT is_empty($$
    SELECT oid::regclass FROM relations c WHERE relkind = 'r' AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisprimary) ORDER BY 1$$,
    'every internal table has a primary key, so that publications FOR ALL TABLES do not stop our updates');

SELECT is_empty($$
    SELECT oid::regprocedure FROM functions WHERE prolang <> 13 AND strpos(regexp_replace(prosrc, E'\\mE\'([^\'\\\\]|\'\'|\\\\.)*\'', '', 'g'), E'\\') > 0 ORDER BY 1$$,
    'no ordinary literal has a backslash: standard_conforming_strings makes no difference');
SELECT is_empty($$
    SELECT oid::regprocedure FROM functions, regexp_matches(prosrc, E'EXECUTE format\\(\'(?:ALTER|DROP|COMMENT|REVOKE|GRANT|LOCK|CREATE)[^;]*;', 'g') m
    WHERE m[1] ~ '::reg|pg_get_userbyid' AND m[1] !~ 'obj_description|COMMENT ON' AND proname NOT LIKE '%\_at' ORDER BY 1$$,
    'DDL has names of 06_fixed.sql');

SELECT * FROM finish();
ROLLBACK;
