-- 00_schema.sql: the two schemas.
--
-- scd2 is the interface: every object in it is documented and callable by everybody; each function checks for itself
-- who may do what. scd2_internal holds the catalogs and the functions that run with the extension owner's rights;
-- nobody else may look into it. The one door between them is scd2_internal's twin of a public function: a public
-- function that needs more rights than its caller is a C function "scd2_call_internal", which calls the function of the
-- same name in scd2_internal with the caller's role oid as first argument (src/call.c).

\echo Use "CREATE EXTENSION pg_scd2" to load this file. \quit

-- Whoever owns the schema could put functions into it that are called instead of ours, or drop it and all of this.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) n.nspowner
               WHERE n.nspname OPERATOR(pg_catalog.=) 'scd2' AND NOT r.rolsuper) THEN
        RAISE insufficient_privilege USING MESSAGE = 'schema "scd2" belongs to a role that is no superuser',
            HINT = 'ALTER SCHEMA scd2 OWNER TO CURRENT_USER; -- and see what is in it';
    ELSIF EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) d.refobjid
                  WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass AND n.nspname OPERATOR(pg_catalog.=) 'scd2'
                    AND d.classid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_extension'::pg_catalog.regclass) THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'schema "scd2" is not empty',
            HINT = 'DROP SCHEMA scd2 CASCADE; -- or rename it';
    END IF;
END $$;
SET LOCAL search_path = pg_catalog, pg_temp;

GRANT USAGE ON SCHEMA scd2 TO public;

CREATE SCHEMA scd2_internal;
REVOKE ALL ON SCHEMA scd2_internal FROM public;

COMMENT ON SCHEMA scd2 IS 'pg_scd2: change data feeds and SCD type 1 and type 2 tables';
COMMENT ON SCHEMA scd2_internal IS 'pg_scd2: catalogs and privileged functions, no interface';
