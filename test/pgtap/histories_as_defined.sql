-- What the definition of a target gives as examples and no other test shows word for word: NULLs that say nothing in every order, an empty snapshot as evidence, the last of
-- the ties, deletes of a type without a smallest step, keys and values whose equality ignores case, facts joined with what was valid at their time.
\set QUIET on
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SELECT plan(26);

-- what a key has in a target: each row as values[start,end)
CREATE FUNCTION shown(target text, columns text, key text, keyed_by text DEFAULT 'k') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    EXECUTE format('SELECT string_agg(concat(concat_ws('','', %s), ''['', __start_at, '','', coalesce(__end_at::text, ''-''), '')''), '' '' ORDER BY __start_at) FROM %I WHERE %I::text = %L', columns, target, keyed_by, key) INTO result;
    RETURN result;
END $$;

-- (l1,r1)@1 (l2,NULL)@2 (NULL,r3)@3: each order a key of its own, in one transaction ("1 2 3") and in three ("1 | 2 | 3")
CREATE TABLE sent (k text, l text, r text, seq int);
CREATE TABLE parts (l text, r text, seq int);
INSERT INTO parts VALUES ('l1', 'r1', 1), ('l2', NULL, 2), (NULL, 'r3', 3);
CREATE TABLE orders AS SELECT a.seq AS a, b.seq AS b, c.seq AS c FROM parts a, parts b, parts c WHERE a.seq <> b.seq AND b.seq <> c.seq AND a.seq <> c.seq;
SELECT scd2.create_auto_cdc_flow('sent_1', 'sent', '{k}', 'seq', column_list => '{k,l,r}', ignore_null_updates => true),
       scd2.create_auto_cdc_flow('sent_2', 'sent', '{k}', 'seq', column_list => '{k,l,r}', stored_as_scd_type => 2, ignore_null_updates => true) \g /dev/null
SELECT scd2.sync() \g /dev/null
INSERT INTO sent SELECT concat_ws(' ', a, b, c), p.l, p.r, p.seq FROM orders, unnest(ARRAY[a, b, c]) WITH ORDINALITY AS n (seq, place) JOIN parts p USING (seq) ORDER BY 1, place;
INSERT INTO sent SELECT concat_ws(' | ', a, b, c), p.l, p.r, p.seq FROM orders JOIN parts p ON p.seq = a;
SELECT scd2.sync() \g /dev/null
INSERT INTO sent SELECT concat_ws(' | ', a, b, c), p.l, p.r, p.seq FROM orders JOIN parts p ON p.seq = b;
SELECT scd2.sync() \g /dev/null
INSERT INTO sent SELECT concat_ws(' | ', a, b, c), p.l, p.r, p.seq FROM orders JOIN parts p ON p.seq = c;
SELECT scd2.sync() \g /dev/null
SELECT results_eq('SELECT l, r, count(*) FROM sent_1 GROUP BY 1, 2', $$VALUES ('l2', 'r3', 12::bigint)$$, 'NULL that was not sent, in every order: the last value of each column');
SELECT results_eq($$SELECT shown('sent_2', 'l, r', k), count(*) FROM (SELECT DISTINCT k FROM sent) AS s GROUP BY 1$$, $$VALUES ('l1,r1[1,2) l2,r1[2,3) l2,r3[3,-)', 12::bigint)$$, '... and one history');

-- SNAP@20{}, a@10, b@20; x@10, SNAP@20{x}, y@15
CREATE TABLE ev (k text, v text, seq int);
CREATE TABLE nothing (k text, v text);
CREATE TABLE x_alone (k text, v text);
INSERT INTO x_alone VALUES ('x', 'x');
SELECT scd2.create_auto_cdc_flow(t, 'ev', '{k}', 'seq', column_list => '{k,v}', stored_as_scd_type => 2, shared => true) FROM unnest('{empty,one}'::text[]) t \g /dev/null
SELECT scd2.create_auto_cdc_from_snapshot_flow('empty', 'nothing', '{k}', 'int', name => 'of nothing', stored_as_scd_type => 2),
       scd2.create_auto_cdc_from_snapshot_flow('one', 'x_alone', '{k}', 'int', name => 'of x', stored_as_scd_type => 2) \g /dev/null
SELECT scd2.sync() \g /dev/null
SELECT results_eq($$SELECT * FROM scd2.apply_snapshot('of nothing', 20, allow_deletes => true)$$, 'VALUES (0::bigint, 0::bigint, 0::bigint, 0::bigint)', 'an empty snapshot of an empty target changes nothing');
INSERT INTO ev VALUES ('x', 'x', 10);
SELECT scd2.sync() \g /dev/null
SELECT results_eq($$SELECT * FROM scd2.apply_snapshot('of x', 20)$$, 'VALUES (0::bigint, 0::bigint, 0::bigint, 1::bigint)', 'a snapshot that finds a row as it is changes nothing');
INSERT INTO ev VALUES ('a', 'a', 10), ('b', 'b', 20), ('x', 'y', 15);
SELECT scd2.sync() \g /dev/null
SELECT is(shown('empty', 'v', 'a'), 'a[10,20)', 'what comes later from before an empty snapshot ends at it');
SELECT is(shown('empty', 'v', 'b'), NULL, '... and what comes at it is nothing');
SELECT is(shown('one', 'v', 'x'), 'x[10,15) y[15,20) x[20,-)', 'what comes later from before a snapshot ends where it found the row as it was');

-- equal sequences and equal values: the image of the sequence itself decides, whatever comes first
CREATE TABLE scales (k int, v text, seq numeric);
SELECT scd2.create_auto_cdc_flow('scaled', 'scales', '{k}', 'seq', column_list => '{k,v}', stored_as_scd_type => 2) \g /dev/null
SELECT scd2.sync() \g /dev/null
INSERT INTO scales VALUES (1, 'v', 1.0), (2, 'v', 1.00);
SELECT scd2.sync() \g /dev/null
INSERT INTO scales VALUES (1, 'v', 1.00), (2, 'v', 1.0), (3, 'v', 1.0), (3, 'v', 1.00), (4, 'v', 1.00), (4, 'v', 1.0);
SELECT scd2.sync() \g /dev/null
SELECT results_eq($$SELECT __start_at::text, count(*) FROM scaled GROUP BY 1$$, $$VALUES ('1.0', 4::bigint)$$, '1.0 and 1.00 are one sequence, and one of the two is shown, in whatever order they come');
SELECT is((SELECT conflicts FROM scd2.flows WHERE flow = 'scaled'), 0::bigint, '... which is no conflict');

-- a delete of a type without a smallest step: below the row, or at it, it could erase the version that it is to close
CREATE TABLE named (k int PRIMARY KEY, v text, rev text COLLATE "C");
SELECT scd2.enable_change_feed('named') \g /dev/null
SELECT scd2.create_auto_cdc_flow('named_h', 'named_changes', '{k}', 'rev', delete_sequence_by => 'CASE k WHEN 1 THEN rev || ''+'' ELSE rev END', column_list => '{k,v}', stored_as_scd_type => 2, on_invalid_event => 'quarantine') \g /dev/null
SELECT scd2.sync() \g /dev/null
INSERT INTO named VALUES (1, 'a', 'r1'), (2, 'b', 'r1');
DELETE FROM named;
SELECT scd2.sync() \g /dev/null
SELECT is(shown('named_h', 'v', '1'), 'a[r1,r1+)', 'a delete above the row closes it');
SELECT is(shown('named_h', 'v', '2'), 'b[r1,-)', 'one that is not above it, of a type without a step, is none');
SELECT matches((SELECT reason FROM scd2.rejected_events WHERE flow = 'named_h'), 'not above that of the row', '... but invalid');

-- 'Ana' and 'ANA' are one key, and two values
CREATE EXTENSION citext;
CREATE TABLE spelt (k citext, v int, seq int);
SELECT scd2.create_auto_cdc_flow('spelt_h', 'spelt', '{k}', 'seq', column_list => '{k,v}', stored_as_scd_type => 2) \g /dev/null
CREATE TABLE people (id int PRIMARY KEY, name citext);
INSERT INTO people VALUES (1, 'Ana'), (2, 'Luis');
SELECT scd2.track('people') \g /dev/null
SELECT scd2.sync() \g /dev/null
INSERT INTO spelt VALUES ('Ana', 1, 10), ('ANA', 1, 20), ('ana', 2, 30), ('aNA', 1, 15);
UPDATE people SET name = 'ANA' WHERE name = 'ana';
UPDATE people SET name = 'Luis' WHERE name = 'LUIS';
SELECT scd2.sync() \g /dev/null
SELECT is(shown('spelt_h', 'k, v', 'ana'), 'ana,2[30,-)', 'two spellings of a citext are one key');
SELECT is((SELECT string_agg(k || v, ' ' ORDER BY __start_at) FROM spelt_h), 'ANA1 ana2', '... whose spelling is a value that is not tracked');
SELECT results_eq('SELECT id, name::text, __end_at IS NULL FROM people_history ORDER BY id, __start_at', $$VALUES (1, 'Ana', false), (1, 'ANA', true), (2, 'Luis', true)$$, 'a spelling that is corrected is a version, one that stays is none');
SELECT bag_eq('SELECT id, name::text FROM people_history WHERE __end_at IS NULL', 'SELECT id, name::text FROM people', '... and the open row is spelt as the source is');

-- sales by the region of their time
CREATE TABLE moves (customer int, region text, since date);
CREATE TABLE sales (id int, customer int, sold date, amount int);
INSERT INTO moves VALUES (1, 'Sur', '2026-03-01'), (1, 'Norte', '2026-01-01');
INSERT INTO sales VALUES (1001, 1, '2026-01-15', 150), (1002, 1, '2026-02-20', 300), (1003, 1, '2026-03-18', 200);
SELECT scd2.create_auto_cdc_flow('customers', 'moves', '{customer}', 'since', column_list => '{customer,region}', stored_as_scd_type => 2) \g /dev/null
SELECT scd2.create_auto_cdc_flow('customers_now', 'moves', '{customer}', 'since', column_list => '{customer,region}') \g /dev/null
SELECT scd2.sync() \g /dev/null
INSERT INTO moves VALUES (1, 'Este', '2026-02-01');
SELECT scd2.sync() \g /dev/null
SELECT is(shown('customers', 'region', '1', 'customer'), 'Norte[2026-01-01,2026-02-01) Este[2026-02-01,2026-03-01) Sur[2026-03-01,-)', 'a customer who moved twice');
SELECT results_eq('SELECT c.region, sum(s.amount) FROM sales s JOIN LATERAL customers_as_of(s.sold) c ON c.customer = s.customer GROUP BY 1 ORDER BY 1', $$VALUES ('Este', 300::bigint), ('Norte', 150), ('Sur', 200)$$, 'each sale is of the region of its day');
SELECT results_eq('SELECT c.region, sum(s.amount) FROM sales s JOIN customers c ON c.customer = s.customer AND s.sold >= c.__start_at AND (s.sold < c.__end_at OR c.__end_at IS NULL) GROUP BY 1 ORDER BY 1', $$VALUES ('Este', 300::bigint), ('Norte', 150), ('Sur', 200)$$, '... written out, too');
SELECT results_eq('SELECT c.region, sum(s.amount) FROM sales s JOIN customers_now c USING (customer) GROUP BY 1', $$VALUES ('Sur', 650::bigint)$$, '... where the customer of today has them all');

-- each of these targets holds what its sources say, rebuilt; where a snapshot was taken nobody can tell
SELECT is_empty(format('SELECT * FROM scd2.check_target(%L)', t), t || ' is what its sources say') FROM unnest('{sent_1,sent_2,scaled,spelt_h,customers,customers_now}'::text[]) t;
SELECT * FROM finish();
