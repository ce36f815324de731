-- begin.sql: how every update begins (src/sql/update/make).

SET LOCAL search_path = pg_catalog, pg_temp;
LOAD 'MODULE_PATHNAME';

-- What was replaced on disk is loaded when the server starts. With the library from before, functions of this script
-- would not be found, or would find the catalogs of another version than theirs.
DO $$
DECLARE
    library CONSTANT text := current_setting('pg_scd2.debug_version');
    wanted CONSTANT text := (SELECT e.extversion FROM pg_extension e WHERE e.extname = 'pg_scd2');
BEGIN
    IF library <> wanted THEN
        RAISE EXCEPTION 'extension "pg_scd2" cannot be updated to version %: the library that the server has loaded is of version %', wanted, library
            USING ERRCODE = 'object_not_in_prerequisite_state',
                HINT = 'Restart the server if the library was replaced since it started; the statement can be repeated then.';
    END IF;
END $$;

-- All is of one owner, whoever updates.
DO $$
DECLARE
    owner name;
BEGIN
    SELECT r.rolname INTO owner FROM pg_extension e JOIN pg_roles r ON r.oid = e.extowner WHERE e.extname = 'pg_scd2' AND r.rolsuper;
    IF FOUND THEN
        PERFORM set_config('role', owner, true);
    END IF;
END $$;

-- All tables, or none: sessions that use them lock them in another order. No worker is at work; who is in the way is
-- named after pg_scd2.lock_timeout.
DO $$
BEGIN
    PERFORM scd2_internal.lock_tables(array_agg(c.oid), array_agg('ACCESS EXCLUSIVE'::text))
        FROM pg_class c WHERE c.relnamespace = 'scd2_internal'::regnamespace AND c.relkind = 'r';
END $$;

-- Event triggers would be called by the statements that follow, while the functions that they call are of both
-- versions. They are created again at the end.
DO $$
DECLARE
    t name;
BEGIN
    FOR t IN SELECT e.evtname FROM pg_event_trigger e JOIN pg_depend d ON d.classid = 'pg_event_trigger'::regclass AND d.objid = e.oid
                 AND d.deptype = 'e' JOIN pg_extension x ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = x.oid
             WHERE x.extname = 'pg_scd2' LOOP
        EXECUTE format('DROP EVENT TRIGGER %I', t);
    END LOOP;
END $$;

