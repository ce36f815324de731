-- A feed has no pages without rows in its middle: what is written extends it by as much as it needs
-- (of a transaction of several chunks, the last is a small one).
\set QUIET on
SET client_min_messages = warning;
SELECT plan(3);
CREATE TABLE t (id int PRIMARY KEY, v int);
SELECT scd2.enable_change_feed('t') \g /dev/null
INSERT INTO t SELECT g, 0 FROM generate_series(1, 1020) g;
SELECT scd2.sync() \g /dev/null
INSERT INTO t SELECT g, 0 FROM generate_series(2001, 3020) g;
SELECT scd2.sync() \g /dev/null
INSERT INTO t SELECT g, 0 FROM generate_series(4001, 5020) g;
SELECT scd2.sync() \g /dev/null
SELECT pg_relation_size('t_changes_p1') / current_setting('block_size')::int AS pages \gset
SELECT is((SELECT count(*) FROM t_changes), 3060::bigint, 'the feed has all rows');
SELECT cmp_ok(:pages, '>', 20, 'on many pages');
SELECT is(:pages - count(DISTINCT (ctid::text::point)[0])::int, 0, 'and none has no rows') FROM t_changes_p1;
SELECT * FROM finish();
