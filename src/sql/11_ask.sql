-- 11_ask.sql: looking into users' relations from functions that run as superuser (src/ask.c says why they must not
-- query them).

CREATE FUNCTION scd2_internal.as_owner(relation oid, query text, argument bigint) RETURNS text
    AS 'MODULE_PATHNAME', 'scd2_as_owner' LANGUAGE C STABLE STRICT;
COMMENT ON FUNCTION scd2_internal.as_owner(oid, text, bigint) IS
    'The first value that a query (with $1, the argument) gives, as text; it runs as the owner of the relation';

CREATE FUNCTION scd2_internal.has_rows(relation oid) RETURNS boolean
    AS 'MODULE_PATHNAME', 'scd2_has_rows' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.has_rows(oid) IS
    'Whether a table or one of its partitions has a row, without a query';
