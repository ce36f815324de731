-- Indexes on a feed that its owner makes, or makes anew, while it is written: a query by the planner's choice gives what a
-- scan of the table gives, whatever the index, and no worker dies of one that is not ready.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(13);
CREATE TABLE t (id int PRIMARY KEY, created int, v int, pad text);
INSERT INTO t SELECT i, i, 0, repeat('x', 200) FROM generate_series(1, 3000) i;
SELECT scd2.enable_change_feed('t') \g /dev/null
CREATE INDEX on_created ON t_changes USING brin (created) WITH (pages_per_range = 1);
CREATE INDEX on_both ON t_changes USING brin (_commit_version, created) WITH (pages_per_range = 1);
CREATE INDEX on_bloom ON t_changes USING brin (v int4_bloom_ops) WITH (pages_per_range = 1);
SELECT pid AS capture FROM scd2.capture \gset

-- old rows in the midst of a page that is summarized already
UPDATE t SET v = 1 WHERE id > 2995;
SELECT scd2.sync() \g /dev/null
SELECT brin_summarize_new_values(i.inhrelid) FROM pg_inherits i WHERE i.inhparent IN ('on_created'::regclass, 'on_both'::regclass, 'on_bloom'::regclass) \g /dev/null
BEGIN;
UPDATE t SET v = 1 WHERE id = 2990;
UPDATE t SET v = 77 WHERE id IN (5, 500);
UPDATE t SET v = 1 WHERE id = 2991;
COMMIT;
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT count(*) FROM t_changes), 18::bigint, 'all is there');
SELECT is(pg_relation_size('t_changes_p1'), current_setting('block_size')::bigint, '... in one page');
CREATE FUNCTION plan_has(query text, index text) RETURNS boolean LANGUAGE plpgsql AS $$ DECLARE l text; BEGIN FOR l IN EXECUTE 'EXPLAIN ' || query LOOP IF l LIKE '%' || index || '%' THEN RETURN true; END IF; END LOOP; RETURN false; END $$;
CREATE FUNCTION rows_of(condition text) RETURNS bigint LANGUAGE plpgsql AS $$ DECLARE n bigint; BEGIN EXECUTE 'SELECT count(*) FROM t_changes WHERE ' || condition INTO n; RETURN n; END $$;
SET enable_indexscan = off;
SET enable_seqscan = off;
SELECT ok(plan_has('SELECT * FROM t_changes WHERE created < 600', 'created_idx') OR plan_has('SELECT * FROM t_changes WHERE created < 600', 't_changes_p1'), 'an index is used');
SELECT is(rows_of('created < 600'), 4::bigint, 'BRIN on a column of the source finds all');
SELECT is(rows_of('v = 77'), 2::bigint, 'so does a bloom');
SELECT is(rows_of('created = 500 AND _commit_version > 0'), 2::bigint, 'and one that has the version and another column');
RESET enable_seqscan;

-- with a predicate, which a feed does not take any more
SET pg_scd2.own_ddl = on;
CREATE INDEX with_predicate ON t_changes USING brin ((100 / v)) WHERE v <> 0;
RESET pg_scd2.own_ddl;
UPDATE t SET v = 0 WHERE id = 1;
CREATE FUNCTION pg_temp.sync_waits() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM scd2.sync('1 s'); RETURN false; EXCEPTION WHEN query_canceled THEN RETURN true; END $$;
SELECT ok(pg_temp.sync_waits(), 'with a partial index on it the feed waits');
DROP INDEX with_predicate, on_created, on_both, on_bloom;
SELECT scd2.sync() \g /dev/null
SELECT is(rows_of('id = 1'), 2::bigint, '... and when that is gone, what waited is in the feed');

-- our own alone: first and last row of each page
VACUUM t_changes;
UPDATE t SET v = v + 1;
SELECT scd2.sync() \g /dev/null
UPDATE t SET v = v + 1 WHERE id = 3;
SELECT scd2.sync() AS last \gset
SET enable_seqscan = off;
SELECT is((SELECT count(*) FROM t_changes WHERE _commit_version = :last), 2::bigint, 'our own index finds the last version');
SELECT is((SELECT count(*) FROM t_changes WHERE _commit_version = :last - 1), 6000::bigint, '... and the one before');
RESET enable_seqscan;

-- a copy that is not ready, as REINDEX CONCURRENTLY has one for as long as older transactions last
CREATE EXTENSION dblink;
SELECT dblink_connect('old', 'dbname=' || current_database() || ' user=' || current_user) \g /dev/null
SELECT dblink_connect('reindex', 'dbname=' || current_database() || ' user=' || current_user) \g /dev/null
SELECT dblink_exec('old', 'BEGIN') \g /dev/null
SELECT dblink_exec('old', 'LOCK TABLE t_changes_p1 IN ACCESS SHARE MODE') \g /dev/null
SELECT dblink_exec('old', 'LOCK TABLE t_changes_p1 IN ROW EXCLUSIVE MODE') \g /dev/null
SELECT dblink_send_query('reindex', 'REINDEX TABLE CONCURRENTLY t_changes_p1') \g /dev/null
DO $$ BEGIN FOR i IN 1 .. 100 LOOP EXIT WHEN EXISTS (SELECT FROM pg_index WHERE indrelid = 't_changes_p1'::regclass AND NOT indisready); PERFORM pg_sleep(0.1); END LOOP; END $$;
SELECT ok(EXISTS (SELECT FROM pg_index WHERE indrelid = 't_changes_p1'::regclass AND NOT indisready), 'an index is not ready');
UPDATE t SET v = v + 1 WHERE id = 4;
SELECT scd2.sync('20 s') AS last \gset
SELECT dblink_exec('old', 'COMMIT') \g /dev/null
-- in statements of their own: it waits for snapshots
\o /dev/null
SELECT 'SELECT pg_sleep(0.05 * dblink_is_busy(''reindex''))' FROM generate_series(1, 400) \gexec
\o
SELECT * FROM dblink_get_result('reindex') AS x (r text) \g /dev/null
SELECT is((SELECT pid FROM scd2.capture), :capture, 'the worker has not died of it');
SET enable_seqscan = off;
SELECT is((SELECT count(*) FROM t_changes WHERE _commit_version = :last), 2::bigint, 'its rows are in the index that was made');
SELECT * FROM finish();
