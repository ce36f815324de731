-- 06_fixed.sql: names for DDL of ours, which stay what they are until the transaction ends (src/fixed.c has the rules).
--
-- A statement that changes a user's relation, schema, type, function or role names it by one of these, in the very
-- expression that makes the statement: never by ::regclass or format('%I').

CREATE FUNCTION scd2_internal.lock_relation(relation oid, mode text) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_lock_relation' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.lock_relation(oid, text) IS
    'LOCK TABLE ONLY by oid. Errors: 42P01 it is gone';

CREATE FUNCTION scd2_internal.fixed_name(relation oid) RETURNS text
    AS 'MODULE_PATHNAME', 'scd2_fixed_name' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.fixed_name(oid) IS
    'A relation as SQL text: nobody else renames or moves it, or its schema, before the transaction ends. The caller has locked it. Errors: 42P01 it is gone, 55P03 its schema is being renamed';

CREATE FUNCTION scd2_internal.fixed_schema(schema oid) RETURNS text
    AS 'MODULE_PATHNAME', 'scd2_fixed_schema' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.fixed_schema(oid) IS
    'A schema as SQL text: nobody else renames it before the transaction ends. Errors: 55P03, 42704 it was dropped';

-- For names in catalogs, and format('%I').
CREATE FUNCTION scd2_internal.place_of(schema oid) RETURNS name
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT (parse_ident(scd2_internal.fixed_schema(schema)))[1]::name
$$;
COMMENT ON FUNCTION scd2_internal.place_of(oid) IS 'The name of a schema, which nobody else changes before the transaction ends. Errors: as fixed_schema';

CREATE FUNCTION scd2_internal.fixed_type(type oid, typmod integer) RETURNS text
    AS 'MODULE_PATHNAME', 'scd2_fixed_type' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.fixed_type(oid, integer) IS
    'As format_type(): nobody else renames or moves the type, or its schema, before the transaction ends. Errors: 55P03, 42704 it was dropped';

CREATE FUNCTION scd2_internal.fixed_collation(collation_oid oid) RETURNS text
    AS 'MODULE_PATHNAME', 'scd2_fixed_collation' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.fixed_collation(oid) IS
    'A collation as SQL text: nobody else renames or moves it, or its schema, before the transaction ends. Errors: 55P03, 42704 it was dropped';

CREATE FUNCTION scd2_internal.fixed_function(function oid) RETURNS text
    AS 'MODULE_PATHNAME', 'scd2_fixed_function' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.fixed_function(oid) IS
    'A function, with the types of its arguments, as SQL text: nobody else renames or moves it before the transaction ends. Errors: 55P03, 42704 it was dropped';

CREATE FUNCTION scd2_internal.fixed_role(role oid) RETURNS text
    AS 'MODULE_PATHNAME', 'scd2_fixed_role' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.fixed_role(oid) IS
    'A role as SQL text: nobody else renames it before the transaction ends. Errors: 55P03, 42704 it was dropped';
