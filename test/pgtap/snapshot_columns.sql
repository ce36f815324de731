-- Flows over snapshots follow the columns of their source with the next snapshot, in its transaction: both types, by
-- hand and by a worker, of tables and views, alone and in a target that is shared.
\set QUIET on
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SELECT plan(44);
CREATE ROLE "Owner";
CREATE SCHEMA own AUTHORIZATION "Owner";
GRANT USAGE ON SCHEMA public TO "Owner";
SET SESSION AUTHORIZATION "Owner";
SET search_path = own, public;
CREATE FUNCTION columns_of(r regclass) RETURNS text LANGUAGE sql AS
    $$ SELECT string_agg(regexp_replace(attname, '_until_\d+', '_until_N') || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = r AND attnum > 0 AND NOT attisdropped AND attname NOT LIKE '\_%' $$;
CREATE FUNCTION said(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    message text;
    hint    text;
BEGIN
    EXECUTE statement;
    RETURN 'done';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
    RETURN concat_ws(' | ', SQLSTATE, message, hint);
END $$;
CREATE TABLE products (dropped int, sku varchar(5), name text, price int, note varchar(5));
ALTER TABLE products DROP COLUMN dropped;
INSERT INTO products VALUES ('a', 'apple', 1, 'n'), ('b', 'bread', 2, 'n');
SELECT scd2.create_auto_cdc_from_snapshot_flow('h', 'products', '{sku}', 'int', stored_as_scd_type => 2, track_history_except_column_list => '{note}', scope => 'sku < ''x''', shared => true, current_column => 'is_current') \g /dev/null
SELECT scd2.create_auto_cdc_from_snapshot_flow('c', 'products', '{sku}', 'int') \g /dev/null
SELECT scd2.create_auto_cdc_from_snapshot_flow('few', 'products', '{sku}', 'int', column_list => '{sku,name}', stored_as_scd_type => 2) \g /dev/null
SELECT scd2.create_auto_cdc_from_snapshot_flow('most', 'products', '{sku}', 'int', except_column_list => '{note}') \g /dev/null
SELECT scd2.apply_snapshot(f, 10) FROM unnest('{h,c,few,most}'::name[]) AS f \g /dev/null

-- added: with a constant default that its rows got, nothing changes
ALTER TABLE products ADD COLUMN stock int DEFAULT 7, ADD COLUMN city text;
SELECT results_eq($$SELECT * FROM scd2.apply_snapshot('h', 20)$$, 'VALUES (0::bigint, 0::bigint, 0::bigint, 2::bigint)', 'a column that is added with a constant default changes no row');
SELECT results_eq($$SELECT sku, stock, city, __start_at, is_current FROM h ORDER BY 1$$, $$VALUES ('a'::varchar, 7, NULL::text, 10, true), ('b', 7, NULL, 10, true)$$, '... and is in those that are there');
UPDATE products SET stock = 8, city = 'Lima' WHERE sku = 'a';
SELECT results_eq($$SELECT * FROM scd2.apply_snapshot('h', 30)$$, 'VALUES (0::bigint, 1::bigint, 0::bigint, 1::bigint)', '... and is tracked from then on');
SELECT bag_eq($$SELECT sku, stock, city, __start_at, __end_at FROM h$$, $$VALUES ('a'::varchar, 7, NULL::text, 10, 30), ('a', 8, 'Lima', 30, NULL), ('b', 7, NULL, 10, NULL)$$, '... in the history');
SELECT scd2.apply_snapshot(f, 30) FROM unnest('{c,few,most}'::name[]) AS f \g /dev/null
SELECT is(columns_of('c'), 'sku character varying(5), name text, price integer, note character varying(5), stock integer, city text', 'current rows get it too');
SELECT is(columns_of('few'), 'sku character varying(5), name text', 'not with a column_list');
SELECT is(columns_of('most'), 'sku character varying(5), name text, price integer, stock integer, city text', 'with an except_column_list that does not name it');

-- renamed, in a cycle, the key too
ALTER TABLE products RENAME name TO tmp;
ALTER TABLE products RENAME city TO name;
ALTER TABLE products RENAME tmp TO city;
ALTER TABLE products RENAME sku TO code;
SELECT results_eq($$SELECT * FROM scd2.apply_snapshot('h', 40, dry_run => true)$$, 'VALUES (0::bigint, 0::bigint, 0::bigint, 2::bigint)', 'a dry run knows the new names');
SELECT is(columns_of('h'), 'sku character varying(5), name text, price integer, note character varying(5), is_current boolean, stock integer, city text', '... and changes nothing');
SELECT results_eq(format('SELECT * FROM scd2.apply_snapshot(%L, 40)', f), 'VALUES (0::bigint, 0::bigint, 0::bigint, 2::bigint)', f || ': renaming changes no row') FROM unnest('{h,c,few,most}'::name[]) AS f;
SELECT is(columns_of('h'), 'code character varying(5), city text, price integer, note character varying(5), is_current boolean, stock integer, name text', 'columns are renamed in the history');
SELECT is(columns_of('h_memory'), 'code character varying(5), note character varying(5)', '... and in what it remembers');
SELECT is(columns_of('few'), 'code character varying(5), city text', '... and those that a list has');
RESET SESSION AUTHORIZATION;
SELECT is((SELECT array_agg(DISTINCT m.scope) FROM scd2_internal.mark AS m WHERE m.target_name = 'h'), '{"code < ''x''"}', 'the scope of snapshots that are remembered has the new name');
SET SESSION AUTHORIZATION "Owner";
INSERT INTO products (code) VALUES ('y');
SELECT is(said($$SELECT scd2.apply_snapshot('h', 50)$$), '22000 | a row of the snapshot of flow "h" is out of its scope | ', '... and that of new ones');
DELETE FROM products WHERE code = 'y';
CREATE TABLE late (code varchar(5), city text, price int, s int);
SELECT scd2.create_auto_cdc_flow('h', 'late', '{code}', 's', column_list => '{code,city,price}', stored_as_scd_type => 2, current_column => 'is_current', name => 'late') \g /dev/null
INSERT INTO late VALUES ('a', 'early', 5, 5), ('y', 'out of scope', 5, 15), ('b', 'between', 2, 35);
SELECT scd2.sync() \g /dev/null
SELECT bag_eq($$SELECT code, city, __start_at, __end_at FROM h$$, $$VALUES ('a'::varchar, 'early', 5, 10), ('a', 'apple', 10, 30), ('a', 'apple', 30, NULL), ('b', 'bread', 10, 35), ('b', 'between', 35, 40), ('b', 'bread', 40, NULL), ('y', 'out of scope', 15, NULL)$$, 'late events meet those snapshots');
SELECT scd2.drop_flow('late') \g /dev/null

-- of a type that takes the same values
ALTER TABLE products ALTER price TYPE bigint, ALTER code TYPE varchar(9), ALTER note TYPE varchar(3);
SELECT results_eq(format('SELECT * FROM scd2.apply_snapshot(%L, 60)', f), 'VALUES (0::bigint, 0::bigint, 0::bigint, 2::bigint)', f || ': a wider type changes no row') FROM unnest('{c,few,most}'::name[]) AS f;
SELECT is(columns_of('c'), 'code character varying(9), city text, price bigint, note character varying(5), stock integer, name text', 'columns get the wider types, and keep those that are');
UPDATE products SET price = 3000000000 WHERE code = 'a';
SELECT results_eq($$SELECT * FROM scd2.apply_snapshot('c', 70)$$, 'VALUES (0::bigint, 1::bigint, 0::bigint, 1::bigint)', '... which take the values');
SELECT is((SELECT price FROM c WHERE code = 'a'), 3000000000, '... whole');
ALTER TABLE products ALTER note TYPE int USING length(note);
SELECT is(said($$SELECT scd2.apply_snapshot('c', 80)$$), '55000 | flow "c" cannot follow its source "own.products": column "note" is of type integer now | ALTER TABLE own.c ALTER COLUMN note TYPE integer USING note::integer; SELECT scd2.resume_flow(''c''); -- or what else makes new values of the old', 'what is not known to be the same stops the flow');
SELECT is(columns_of('c'), 'code character varying(9), city text, price bigint, note character varying(5), stock integer, name text', '... and nothing is done');
ALTER TABLE c ALTER COLUMN note TYPE int USING length(note);
SELECT is(said($$SELECT scd2.apply_snapshot('c', 80)$$), 'done', '... until its target is altered');

-- dropped, and again under the same name
ALTER TABLE products DROP COLUMN note;
SELECT results_eq($$SELECT * FROM scd2.apply_snapshot('c', 90)$$, 'VALUES (0::bigint, 2::bigint, 0::bigint, 0::bigint)', 'a column that is dropped is NULL from then on');
SELECT bag_eq('SELECT code, price, note FROM c', $$VALUES ('a'::varchar, 3000000000, NULL::int), ('b', 2, NULL)$$, '... and stays');
ALTER TABLE products DROP COLUMN price, ADD COLUMN price text DEFAULT 'cheap';
ALTER TABLE products DROP COLUMN name;
ALTER TABLE products RENAME stock TO name;
SELECT scd2.apply_snapshot(f, 100) FROM unnest('{c,few,most}'::name[]) AS f \g /dev/null
SELECT is(columns_of('c'), 'code character varying(9), city text, price_until_N bigint, note integer, name integer, name_until_N text, price text', 'another column of its name takes its place');
SELECT bag_eq('SELECT code, city, name, price, note FROM c', $$VALUES ('a'::varchar, 'apple', 8, 'cheap', NULL::int), ('b', 'bread', 7, 'cheap', NULL)$$, '... with its own values');
SELECT is(columns_of('few'), 'code character varying(9), city text', 'lists leave out what they left out');
ALTER TABLE products DROP COLUMN code;
SELECT is(said($$SELECT scd2.apply_snapshot('few', 110)$$), '55000 | flow "few" cannot follow its source "own.products": key column "code" was dropped | SELECT scd2.drop_flow(''few''); -- then begin anew', 'without a key column the flow stops');

-- a view, by a worker, whose transaction follows
CREATE TABLE below (id int PRIMARY KEY, v text);
INSERT INTO below VALUES (1, 'one');
CREATE VIEW seen AS SELECT id, v FROM below;
SELECT scd2.create_auto_cdc_from_snapshot_flow('by_worker', 'seen', '{id}', stored_as_scd_type => 2, refresh_interval => '1 day') \g /dev/null
SELECT scd2.sync() \g /dev/null
CREATE OR REPLACE VIEW seen AS SELECT id, v, 'constant'::text AS added FROM below;
ALTER VIEW seen RENAME COLUMN v TO w;
SELECT scd2.sync() \g /dev/null
SELECT results_eq('SELECT id, w, added, __end_at IS NULL AS open FROM by_worker ORDER BY __start_at', $$VALUES (1, 'one', NULL::text, false), (1, 'one', 'constant', true)$$, 'the worker follows a view');

-- a target that others keep too: only what is added is followed, what is dropped is NULL
CREATE TABLE one (id int, v text, w text);
CREATE TABLE two (id int, v text, s int);
INSERT INTO one VALUES (1, 'a', 'b');
SELECT scd2.create_auto_cdc_flow('shared', 'two', '{id}', 's', column_list => '{id,v}', shared => true, name => 'two') \g /dev/null
SELECT scd2.create_auto_cdc_from_snapshot_flow('shared', 'one', '{id}', 'int', name => 'one', delete_absent => false) \g /dev/null
SELECT scd2.sync() \g /dev/null
SELECT scd2.apply_snapshot('one', 10) \g /dev/null
ALTER TABLE one ADD COLUMN x int DEFAULT 3, DROP COLUMN w;
SELECT scd2.apply_snapshot('one', 20) \g /dev/null
INSERT INTO two VALUES (2, 'b', 30);
SELECT scd2.sync() \g /dev/null
SELECT bag_eq('SELECT id, v, w, x FROM shared', $$VALUES (1, 'a', NULL::text, 3), (2, 'b', NULL, NULL)$$, 'in a target that is shared columns come and go');
ALTER TABLE one RENAME v TO y;
SELECT is(said($$SELECT scd2.apply_snapshot('one', 30)$$), '55000 | flow "one" cannot follow its source "own.one": column "v" was renamed to "y" | SELECT scd2.drop_flow(''one''); -- then let it join the target anew', 'another name is not for one of them to give');
ALTER TABLE one RENAME y TO v;
SELECT is(said($$SELECT scd2.apply_snapshot('one', 30)$$), 'done', '... and it goes on when it has its name again');
CREATE TABLE taken (id int, v text);
INSERT INTO taken VALUES (1, 'a');
SELECT scd2.create_auto_cdc_from_snapshot_flow('has_more', 'taken', '{id}', 'int') \g /dev/null
ALTER TABLE has_more ADD COLUMN own text;
ALTER TABLE taken ADD COLUMN own int;
SELECT is(said($$SELECT scd2.apply_snapshot('has_more', 10)$$), '55000 | flow "has_more" cannot follow its source "own.taken": column "own" was added, and target "own.has_more" has a column of that name | ALTER TABLE own.has_more RENAME COLUMN own TO own_old; SELECT scd2.resume_flow(''has_more'');', 'a column of the target''s own is not taken');
ALTER TABLE has_more RENAME own TO own_old;
SELECT is(said($$SELECT scd2.apply_snapshot('has_more', 10)$$), 'done', '... and makes room');

-- all of it is undone with the caller's transaction
ALTER TABLE taken ADD COLUMN more int;
BEGIN;
SELECT scd2.apply_snapshot('has_more', 20) \g /dev/null
SELECT is(columns_of('has_more'), 'id integer, v text, own_old text, own integer, more integer', 'it follows in the transaction of the snapshot');
ROLLBACK;
SELECT is(columns_of('has_more'), 'id integer, v text, own_old text, own integer', '... and not if that is undone');
SELECT is(said($$SELECT scd2.apply_snapshot('has_more', 20)$$), 'done', '... but with the next');
RESET SESSION AUTHORIZATION;
SELECT is_empty($$SELECT flow, state, last_error FROM scd2.flows WHERE state <> 'running'$$, 'all flows run');
SELECT * FROM finish();
