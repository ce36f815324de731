-- 05_relation.sql: the type of relations in our catalogs (src/relation.c): stored as oid, dumped as name.

CREATE TYPE scd2_internal.relation;

CREATE FUNCTION scd2_internal.relation_in(cstring) RETURNS scd2_internal.relation
    AS 'MODULE_PATHNAME', 'scd2_relation_in' LANGUAGE C STABLE STRICT;
CREATE FUNCTION scd2_internal.relation_out(scd2_internal.relation) RETURNS cstring
    AS 'MODULE_PATHNAME', 'scd2_relation_out' LANGUAGE C STABLE STRICT;
COMMENT ON FUNCTION scd2_internal.relation_in(cstring) IS
    'The relation of a name; 0 if there is none. Errors: 42602 not a name.';
COMMENT ON FUNCTION scd2_internal.relation_out(scd2_internal.relation) IS
    'The qualified name, whatever the search_path; "-" for a relation that is gone.';

CREATE TYPE scd2_internal.relation (
    INPUT = scd2_internal.relation_in, OUTPUT = scd2_internal.relation_out, LIKE = pg_catalog.oid, CATEGORY = 'N');
COMMENT ON TYPE scd2_internal.relation IS
    'A relation: its oid, which a dump writes as name and a restore finds again by name';

CREATE CAST (scd2_internal.relation AS oid) WITHOUT FUNCTION AS IMPLICIT;
CREATE CAST (scd2_internal.relation AS regclass) WITHOUT FUNCTION AS IMPLICIT;
CREATE CAST (oid AS scd2_internal.relation) WITHOUT FUNCTION AS ASSIGNMENT;
CREATE CAST (regclass AS scd2_internal.relation) WITHOUT FUNCTION AS ASSIGNMENT;
