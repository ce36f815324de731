-- Names of 63 bytes that are equal in what stays of them when something is appended: each target has its own function,
-- memory, type and index; a default name that is another's is refused, with one to give.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(24);
SELECT repeat('long_name_', 6) || 'aaa' AS a, repeat('long_name_', 6) || 'bbb' AS b \gset
-- Executes a statement, and where it says that a name is taken what the hint says, until it is done. Returns how often that was.
CREATE FUNCTION follow_hints(statement text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    hint text;
BEGIN
    FOR n IN 0 .. 5 LOOP
        BEGIN
            EXECUTE statement;
            RETURN n;
        EXCEPTION WHEN duplicate_table THEN
            GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
        END;
        IF hint LIKE '%enable_change_feed%' THEN
            EXECUTE hint;
        ELSE
            statement := hint;
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

-- captured tables
CREATE TABLE :a (id int PRIMARY KEY, v text);
CREATE TABLE :b (id int PRIMARY KEY, v text);
INSERT INTO :a VALUES (1, 'a');
INSERT INTO :b VALUES (1, 'b'), (2, 'b');
SELECT scd2.track(:'a') AS a_history \gset
SELECT scd2.track(:'a', stored_as_scd_type => 1) AS a_current \gset
SELECT is(follow_hints(format('SELECT scd2.track(%L)', :'b')), 2, 'the names of feed and target are another''s: hints that can be pasted, type 2');
SELECT is(follow_hints(format('SELECT scd2.track(%L, stored_as_scd_type => 1)', :'b')), 1, 'type 1 likewise');
SELECT scd2.sync('50 s') \g /dev/null
SELECT is((SELECT count(*) FROM scd2.flows f WHERE f.source = :'b'::regclass), 2::bigint, 'both are there');
SELECT results_eq(format('SELECT id, v FROM %I ORDER BY id', :'a_history'), $$VALUES (1, 'a')$$, 'a''s history has a''s rows alone');
SELECT results_eq(format('SELECT id, v FROM %I ORDER BY id', :'a_current'), $$VALUES (1, 'a')$$, '... and its current rows');
SELECT is((SELECT array_agg(n) FROM (SELECT (xpath('/table/row/n/text()', query_to_xml(format('SELECT count(*) AS n FROM %s', f.target), true, false, '')))[1]::text::int AS n
           FROM scd2.flows f WHERE f.source = :'b'::regclass) x), '{2,2}'::int[], 'b''s targets have b''s');
SELECT throws_ok(format('SELECT scd2.track(%L)', :'a'), '42710', NULL, 'the same call twice is what it was');
SELECT is((SELECT count(DISTINCT p.proname) FROM scd2.flows f JOIN pg_class c ON c.oid = f.target::regclass JOIN pg_proc p ON p.prorettype = c.reltype), 2::bigint, 'each history has its function');

-- what belongs to targets of events
CREATE TABLE ev (k int, v text, w text, s int, n int);
SELECT repeat('target_of_', 6) || 'aaa' AS a, repeat('target_of_', 6) || 'bbb' AS b, repeat('target_of_', 6) || 'ccc' AS c \gset
SELECT scd2.create_auto_cdc_flow(t, 'ev', '{k}', 'struct(s, n)', stored_as_scd_type => 2, open_row_index => true, track_history_column_list => '{v}', column_list => '{k,v,w}')
    FROM unnest(ARRAY[:'a', :'b', :'c']) t \g /dev/null
INSERT INTO ev VALUES (1, 'x', 'x', 10, 1), (1, 'x', 'y', 10, 2), (1, 'z', 'z', 20, 1);
SELECT scd2.create_auto_cdc_flow(left(:'a', 60) || t, 'ev', '{k}', 's', stored_as_scd_type => 2, column_list => '{k,v,w}') FROM unnest('{int,two}'::text[]) t \g /dev/null
SELECT scd2.sync('50 s') \g /dev/null
INSERT INTO ev VALUES (1, 'q', 'late', 15, 1);
SELECT scd2.sync('50 s') \g /dev/null
SELECT is((SELECT array_agg(p.proname::text ORDER BY p.oid) FROM pg_proc p WHERE p.proname LIKE 'target\_of%' AND p.proargtypes = '23'),
    ARRAY[left(:'a', 57) || '_as_of', left(:'a', 55) || '_2_as_of'], 'functions of the same argument have numbers');
SELECT is((SELECT array_agg(c.relname::text ORDER BY c.oid) FROM pg_class c WHERE c.relname LIKE 'target\_of%\_memory'),
    ARRAY[left(:'a', 56) || '_memory'] || ARRAY(SELECT left(:'a', 54) || format('_%s_memory', n) FROM generate_series(2, 5) n), 'memories, too');
SELECT is((SELECT count(*) FROM pg_type t WHERE t.typname LIKE 'target\_of%\_sequence' AND t.typtype = 'c'), 3::bigint, 'and types of sequences');
SELECT is((SELECT count(*) FROM pg_class c WHERE c.relname LIKE 'target\_of%\_open\_idx'), 3::bigint, 'and indexes of open rows');
SELECT is((SELECT count(*) FROM unnest(ARRAY[:'a', :'b', :'c', left(:'a', 60) || 'int', left(:'a', 60) || 'two']) t, scd2.check_target(t)), 0::bigint, 'all targets are right');
SELECT results_eq(format('SELECT v, w FROM %I(15)', left(:'a', 55) || '_2_as_of'), $$VALUES ('q', 'late')$$, 'a function with a number works');
-- another flow into a target whose type has a number
SELECT lives_ok(format($$SELECT scd2.create_auto_cdc_flow(%L, 'ev', '{k}', 'struct(s, n)', stored_as_scd_type => 2, name => 'again', track_history_column_list => '{v}', column_list => '{k,v,w}')$$, :'b'), 'another flow joins with the type that is there');
SELECT is((SELECT count(*) FROM pg_type t WHERE t.typname LIKE 'target\_of%\_sequence' AND t.typtype = 'c'), 3::bigint, '... and makes none');
-- each goes, and is made anew, with its target
SELECT scd2.sync('50 s') \g /dev/null
SELECT scd2.drop_flow('again') \g /dev/null
SELECT lives_ok(format('SELECT scd2.drop_flow(%L, drop_target => true)', :'a'), 'one is dropped');
SELECT is((SELECT count(*) FROM pg_class c WHERE c.relname LIKE 'target\_of%\_memory'), 4::bigint, '... with its memory');
SELECT is((SELECT count(*) FROM pg_proc p WHERE p.proname LIKE 'target\_of%'), 4::bigint, '... and its function alone');
SELECT lives_ok(format('SELECT scd2.create_auto_cdc_flow(%L, ''ev'', ''{k}'', ''s'', stored_as_scd_type => 2, column_list => ''{k,v}'')', :'a'), 'its names are free again');
SELECT ok(to_regclass(left(:'a', 56) || '_memory') IS NOT NULL, '... and used');
SELECT scd2.sync('50 s') \g /dev/null
SELECT is((SELECT count(*) FROM unnest(ARRAY[:'a', :'b', :'c', left(:'a', 60) || 'int', left(:'a', 60) || 'two']) t, scd2.check_target(t)), 0::bigint, 'all targets are right in the end');
-- what is not cut is as it is called
CREATE TABLE short_memory ();
SELECT throws_ok($$SELECT scd2.create_auto_cdc_flow('short', 'ev', '{k}', 's', stored_as_scd_type => 2, column_list => '{k,v}')$$, '42P07', NULL, 'a name that is not cut and taken is an error');
SELECT is((SELECT count(*) FROM scd2.diagnose() WHERE problem NOT LIKE '%publication%'), 0::bigint, 'nothing is wrong');
SELECT * FROM finish();
