-- 99_end.sql: nothing in the internal schema is for others; then tell the launcher that this database has work.

REVOKE ALL ON ALL TABLES IN SCHEMA scd2_internal FROM public;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA scd2_internal FROM public;

SELECT scd2_internal.start_workers_at_commit();
