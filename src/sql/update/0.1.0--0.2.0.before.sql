-- 0.1.0--0.2.0.before.sql: changes of catalogs. Tables and indexes that are new come with the parts; what stands here
-- is what IF NOT EXISTS and OR REPLACE cannot do:
--   a new type                      \ir ../06_role.sql, before the columns that are of it
--   columns, constraints            ALTER TABLE …; columns are added at the end, here and in the part, with a default or
--                                   filled where resume_capture() makes restored rows this database's: a dump of before
--                                   has rows without them
--   functions and views             DROP, never CASCADE (views of users would go without a word): those that are gone, and
--                                   functions whose result, names of arguments or defaults are others

