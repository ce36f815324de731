-- 99_end.sql: nothing in the internal schema is for others; then tell the launcher that this database has work.

REVOKE ALL ON ALL TABLES IN SCHEMA scd2_internal FROM public;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA scd2_internal FROM public;

CREATE FUNCTION scd2_internal.start_workers_at_commit() RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_start_workers_at_commit' LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION scd2_internal.start_workers_at_commit() FROM public;
COMMENT ON FUNCTION scd2_internal.start_workers_at_commit() IS
    'Tells the launcher, when the calling transaction commits, to start this database''s workers. No error if the library is not preloaded.';
SELECT scd2_internal.start_workers_at_commit();
