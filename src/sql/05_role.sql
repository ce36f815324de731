-- 05_role.sql: the type of roles in our catalogs (src/role.c): stored as oid, dumped as name.

CREATE TYPE scd2_internal.role;

CREATE FUNCTION scd2_internal.role_in(cstring) RETURNS scd2_internal.role
    AS 'MODULE_PATHNAME', 'scd2_role_in' LANGUAGE C STABLE STRICT;
CREATE FUNCTION scd2_internal.role_out(scd2_internal.role) RETURNS cstring
    AS 'MODULE_PATHNAME', 'scd2_role_out' LANGUAGE C STABLE STRICT;
COMMENT ON FUNCTION scd2_internal.role_in(cstring) IS
    'The role of a name; 0 if there is none. Errors: 42602 not a name.';
COMMENT ON FUNCTION scd2_internal.role_out(scd2_internal.role) IS
    'The name, quoted where an identifier would be; "-" for a role that is gone.';

CREATE TYPE scd2_internal.role (
    INPUT = scd2_internal.role_in, OUTPUT = scd2_internal.role_out, LIKE = pg_catalog.oid, CATEGORY = 'N');
COMMENT ON TYPE scd2_internal.role IS
    'A role: its oid, which a dump writes as name and a restore finds again by name';

CREATE CAST (scd2_internal.role AS oid) WITHOUT FUNCTION AS IMPLICIT;
CREATE CAST (oid AS scd2_internal.role) WITHOUT FUNCTION AS ASSIGNMENT;

CREATE FUNCTION scd2_internal.can_set_role(member oid, role oid) RETURNS boolean
    AS 'MODULE_PATHNAME', 'scd2_can_set_role_sql' LANGUAGE C STABLE STRICT;
COMMENT ON FUNCTION scd2_internal.can_set_role(oid, oid) IS
    'Whether "member" may become "role" by SET ROLE; to inherit from it is not enough.';
