-- 0.1.0--0.2.0.before.sql: what IF NOT EXISTS and OR REPLACE cannot do.
--
--   a new type                 \ir ../06_role.sql, before the columns that are of it
--   columns, constraints       ALTER TABLE. Columns come last, here and in the part, and with a default, or are filled where
--                              resume_capture() makes restored rows this database's: rows in a dump of before lack them
--   functions, views           DROP of those that take the same arguments but whose result, or the names or defaults of
--                              arguments, are others; never CASCADE, which takes users' views along
--
-- Tables and indexes that are new come with the parts; functions and views that no part has any more go by end.sql.

\ir ../05_role.sql
ALTER TABLE scd2_internal.flow ADD COLUMN author scd2_internal.role NOT NULL DEFAULT '-', ADD COLUMN trusted boolean NOT NULL DEFAULT false;
DROP FUNCTION scd2_internal.caller_relation(text);
