-- A captured table into targets that are shared gives what it gives into targets of its own:
-- transactions of several changes to few keys, keys that move, TRUNCATE, a filter, a soft delete.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(9 + 2 + 1);
SELECT coalesce(nullif(current_setting('scd2.seed', true), '')::float, extract(epoch FROM clock_timestamp())::int % 1000 / 1000.0) AS seed \gset
\echo '# again: PGOPTIONS=-cscd2.seed=':seed
SELECT setseed(:seed) \g /dev/null
CREATE TABLE t (id int PRIMARY KEY, v text, u int);
SELECT scd2.enable_change_feed('t') \g /dev/null
CREATE TABLE kinds (kind text, type int, more text);
INSERT INTO kinds VALUES ('plain', 2, ''), ('untracked', 2, ', track_history_column_list => ''{v}'''), ('current', 1, ''), ('filtered', 2, ', source_filter => ''u < 3'''),
    ('soft', 2, ', apply_as_deletes => ''v = ''''d'''''''), ('kept', 2, ', apply_as_truncates => ''false'''), ('emptied', 1, ', apply_as_truncates => ''_change_type = ''''truncate'''' OR u = 5''');
\o /dev/null
SELECT format('SELECT scd2.track(''t'', %L, stored_as_scd_type => %s %s)', kind || '_lone', type, more) FROM kinds \gexec
SELECT format('SELECT scd2.track(''t'', %L, shared => true, stored_as_scd_type => %s %s)', kind || '_shared', type,
              more || CASE WHEN more LIKE '%truncates%' THEN '' ELSE ', apply_as_truncates => ''_change_type = ''''truncate''''''' END) FROM kinds \gexec
SELECT scd2.sync('1min');
INSERT INTO t VALUES (1, 'a', 1), (2, 'a', 1), (3, 'a', 1);
BEGIN;
UPDATE t SET v = 'b';
DELETE FROM t WHERE id = 2;
TRUNCATE t;
INSERT INTO t VALUES (1, 'c', 1), (2, 'c', 1), (4, 'c', 1);
DELETE FROM t WHERE id <> 1;
COMMIT;
BEGIN;
INSERT INTO t VALUES (5, 'c', 1);
TRUNCATE t;
INSERT INTO t VALUES (5, 'd', 1);
DELETE FROM t;
COMMIT;
SELECT scd2.sync('1min');
\o
SELECT bag_eq(format('SELECT id, v FROM %I WHERE __end_at IS NULL', target), $$VALUES (1, 'c'), (3, 'b'), (5, 'c')$$, target || ': of a transaction with a TRUNCATE that takes nothing away, what rows were left')
FROM unnest('{kept_lone,kept_shared}'::text[]) AS target;
\o /dev/null
CREATE PROCEDURE work(transactions int) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. transactions LOOP
        FOR j IN 1 .. 1 + floor(random() * 5)::int LOOP
            CASE WHEN random() < 0.4 THEN INSERT INTO t VALUES (floor(random() * 12), chr(97 + floor(random() * 4)::int), floor(random() * 6)) ON CONFLICT DO NOTHING;
                 WHEN random() < 0.4 THEN UPDATE t SET v = chr(97 + floor(random() * 4)::int), u = floor(random() * 6) WHERE id = floor(random() * 12);
                 WHEN random() < 0.4 THEN DELETE FROM t WHERE id = floor(random() * 12);
                 WHEN random() < 0.5 THEN UPDATE t SET id = id + 12 WHERE id < 12 AND u = 2 AND NOT EXISTS (SELECT FROM t AS o WHERE o.id = t.id + 12);
                 WHEN random() < 0.5 THEN UPDATE t SET id = id - 12 WHERE id >= 12 AND NOT EXISTS (SELECT FROM t AS o WHERE o.id = t.id - 12);
                 WHEN random() < 0.1 THEN TRUNCATE t;
                 ELSE UPDATE t SET u = u;
            END CASE;
        END LOOP;
        COMMIT;
    END LOOP;
END $$;
CALL work(1500);
SELECT scd2.sync('5min');
\o
CREATE FUNCTION differences(a text, b text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM ((TABLE %1$I EXCEPT ALL TABLE %2$I) UNION ALL (TABLE %2$I EXCEPT ALL TABLE %1$I)) AS x', a, b) INTO n;
    RETURN n;
END $$;
SELECT is(differences(kind || '_lone', kind || '_shared'), 0::bigint, kind) FROM kinds;
SELECT cmp_ok(count(*), '>', 100::bigint, 'there was something to compare') FROM plain_lone;
SELECT is(count(*), 0::bigint, 'all flows run') FROM scd2.flows WHERE state <> 'running';
\ir parts/memory.sql
SELECT * FROM finish();
