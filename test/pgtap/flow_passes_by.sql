-- A flow for which most changes are nothing (updates, where inserted rows are events; what a filter
-- leaves out) does not read them again with every batch: measured in pages of the feed.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(4);
CREATE TABLE t (id int PRIMARY KEY, v int);
INSERT INTO t SELECT g, 0 FROM generate_series(1, 20000) g;
SELECT scd2.create_auto_cdc_flow('h', 't', '{id}', 'v') \g /dev/null
SELECT scd2.create_append_flow('a', 't', source_filter => 'v < 0') \g /dev/null
SELECT scd2.sync() \g /dev/null
UPDATE t SET v = 1;
SELECT scd2.sync() \g /dev/null
SELECT pg_relation_size('t_changes_p1') / current_setting('block_size')::int AS pages \gset
SELECT pg_sleep(1.5) \g /dev/null
SELECT heap_blks_read + heap_blks_hit AS before FROM pg_statio_all_tables WHERE relid = 't_changes_p1'::regclass \gset
DO $$
BEGIN
    FOR i IN 1 .. 30 LOOP
        UPDATE t SET v = v + 1 WHERE id = i;
        COMMIT;
        PERFORM pg_sleep(0.02);
    END LOOP;
END $$;
SELECT scd2.sync() \g /dev/null
SELECT pg_sleep(1.5) \g /dev/null
SELECT heap_blks_read + heap_blks_hit AS after FROM pg_statio_all_tables WHERE relid = 't_changes_p1'::regclass \gset
SELECT cmp_ok(:pages, '>', 200, 'the feed has many pages');
SELECT cmp_ok(:after - :before, '<', :pages * 10, 'thirty batches do not read them thirty times');
INSERT INTO t VALUES (30000, -1);
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT v FROM h WHERE id = 30000), -1, 'what comes after them is found');
SELECT is((SELECT count(*) FROM a), 1::bigint, 'by every flow');
SELECT * FROM finish();
