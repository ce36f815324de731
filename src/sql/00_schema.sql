-- 00_schema.sql: the two schemas.
--
-- scd2 is the interface: every object in it is documented and callable by everybody; each function checks for itself
-- who may do what. scd2_internal holds the catalogs and the functions that run with the extension owner's rights;
-- nobody else may look into it. The one door between them is scd2_internal's twin of a public function: a public
-- function that needs more rights than its caller is a C function "scd2_call_internal", which calls the function of the
-- same name in scd2_internal with the caller's role oid as first argument (src/call.c).

\echo Use "CREATE EXTENSION pg_scd2" to load this file. \quit

GRANT USAGE ON SCHEMA scd2 TO public;

CREATE SCHEMA scd2_internal;
REVOKE ALL ON SCHEMA scd2_internal FROM public;

COMMENT ON SCHEMA scd2 IS 'pg_scd2: change data feeds and SCD type 1 and type 2 tables';
COMMENT ON SCHEMA scd2_internal IS 'pg_scd2: catalogs and privileged functions, no interface';
