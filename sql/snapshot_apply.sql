-- Snapshots into targets of their own: what they add, change, end and leave as it is; versions; in the caller's transaction.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = notice;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
CREATE SCHEMA snapshot_apply;
SET search_path = snapshot_apply;
CREATE TABLE products (shop int, sku text, name text, price numeric(8,2), note text);
INSERT INTO products VALUES (1, 'a', 'apple', 1.00, 'n1'), (1, 'b', 'bread', 2.00, 'n1'), (2, 'a', 'apfel', 1.50, 'n1'), (2, 'c', NULL, NULL, NULL);
SELECT scd2.create_auto_cdc_from_snapshot_flow('history', 'products', '{shop,sku}', 'bigint', stored_as_scd_type => 2, track_history_except_column_list => '{note}',
    start_column => 'valid_from', end_column => 'valid_to', current_column => 'is_current', open_row_index => true, max_delete_fraction => 0.5);
SELECT scd2.create_auto_cdc_from_snapshot_flow('prices', 'products', '{shop,sku}', 'bigint', column_list => '{shop,sku,price}', name => 'current prices', max_delete_fraction => 0.5);
\d history
SELECT * FROM scd2.apply_snapshot('history', 10);
SELECT * FROM scd2.apply_snapshot('current prices', '10');
TABLE history ORDER BY shop, sku;
TABLE prices ORDER BY shop, sku;
-- a price changes (a version), a note changes (no version), a row goes, one comes, NULL becomes a value
UPDATE products SET price = 1.20 WHERE sku = 'a' AND shop = 1;
UPDATE products SET note = 'n2' WHERE sku = 'b';
UPDATE products SET name = 'cake' WHERE sku = 'c';
DELETE FROM products WHERE shop = 2 AND sku = 'a';
INSERT INTO products VALUES (3, 'z', 'zucchini', 3, 'n2');
CREATE TABLE was AS SELECT ctid AS place, xmin::text AS writer FROM history;
SELECT * FROM scd2.apply_snapshot('history', 20, dry_run => true);
SELECT count(*) AS written_by_a_dry_run FROM history AS h WHERE NOT EXISTS (SELECT FROM was WHERE place = h.ctid AND writer = h.xmin::text);
SELECT * FROM scd2.apply_snapshot('history', 20);
SELECT * FROM scd2.apply_snapshot('current prices', 20);
TABLE history ORDER BY shop, sku, valid_from;
TABLE prices ORDER BY shop, sku;
SELECT shop, sku, name, price FROM history_as_of(15) ORDER BY shop, sku;
-- the same again is unchanged, and writes nothing
DROP TABLE was;
CREATE TABLE was AS SELECT ctid AS place, xmin::text AS writer FROM history;
SELECT * FROM scd2.apply_snapshot('history', 30);
SELECT count(*) AS written FROM history AS h WHERE NOT EXISTS (SELECT FROM was WHERE place = h.ctid AND writer = h.xmin::text);
-- a key comes back after a gap
INSERT INTO products VALUES (2, 'a', 'apfel', 1.50, 'n1');
SELECT * FROM scd2.apply_snapshot('history', 40);
SELECT valid_from, valid_to, is_current FROM history WHERE shop = 2 AND sku = 'a' ORDER BY valid_from;
-- versions grow: the last again is skipped, an older one is an error, so is none
SELECT * FROM scd2.apply_snapshot('history', 40);
SELECT * FROM scd2.apply_snapshot('history', '39');
SELECT * FROM scd2.apply_snapshot('history', NULL::text);
SELECT * FROM scd2.apply_snapshot('history', 'forty');
-- in the caller's transaction: with what it has written, and gone with it
BEGIN;
DELETE FROM products WHERE shop = 1;
SELECT * FROM scd2.apply_snapshot('history', 50);
SELECT count(*) FROM history WHERE valid_to IS NULL;
SELECT task, relation, rows_done FROM scd2.progress;
ROLLBACK;
SELECT count(*) FROM scd2.progress;
SELECT count(*) FROM history WHERE valid_to IS NULL;
BEGIN;
SAVEPOINT s;
TRUNCATE products;
SELECT * FROM scd2.apply_snapshot('history', 50, allow_deletes => true);
ROLLBACK TO s;
SELECT * FROM scd2.apply_snapshot('history', 50);
COMMIT;
SELECT flow, kind, state, watermark_version, events, applied, rows_inserted, rows_updated, rows_deleted FROM scd2.flows ORDER BY flow;
SELECT flow, first_version, events, rows_inserted, rows_updated, rows_deleted FROM scd2.batches ORDER BY flow, started;
SELECT to_regclass('history_memory') AS memory, count(*) AS marks FROM scd2_internal.mark;

-- an error in the middle leaves nothing behind
UPDATE products SET price = price + 1;
SET pg_scd2.debug_fail_at = 'snapshot compared';
SELECT * FROM scd2.apply_snapshot('history', 60);
SET pg_scd2.debug_fail_at = 'snapshot written';
SELECT * FROM scd2.apply_snapshot('history', 60);
RESET pg_scd2.debug_fail_at;
SELECT count(*) FROM history WHERE valid_from = 60;
SELECT * FROM scd2.apply_snapshot('history', 60);

-- versions of any type
CREATE TABLE t (k int PRIMARY KEY, v text);
INSERT INTO t VALUES (1, 'x');
SELECT scd2.create_auto_cdc_from_snapshot_flow('by_time', 't', '{k}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_from_snapshot_flow('by_day', 't', '{k}', 'date', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_from_snapshot_flow('by_word', 't', '{k}', 'text', stored_as_scd_type => 2);
SELECT * FROM scd2.apply_snapshot('by_time', '2026-01-01 12:00+02');
SELECT * FROM scd2.apply_snapshot('by_day', date '2026-01-01');
SELECT * FROM scd2.apply_snapshot('by_word', 'v1');
SET TimeZone = 'Asia/Tokyo';
SET DateStyle = 'SQL, DMY';
UPDATE t SET v = 'y';
SELECT * FROM scd2.apply_snapshot('by_time', timestamptz '2026-02-01 09:00');
SELECT * FROM scd2.apply_snapshot('by_day', '02/01/2026');
SELECT * FROM scd2.apply_snapshot('by_word', 'v2'::text);
SELECT * FROM scd2.apply_snapshot('by_time', '31/01/2026 23:59:59');
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
TABLE by_time ORDER BY k, __start_at;
TABLE by_day ORDER BY k, __start_at;
TABLE by_word ORDER BY k, __start_at;
SELECT flow, watermark_timestamp FROM scd2.flows WHERE flow = 'by_time';
SELECT scd2.create_auto_cdc_from_snapshot_flow('by_number', 't', '{k}', 'numeric');
SELECT * FROM scd2.apply_snapshot('by_number', 'NaN'::numeric);
-- one who looks at an old state cannot write what comes of it
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM scd2.apply_snapshot('by_word', 'v3');
COMMIT;
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows;
DROP SCHEMA snapshot_apply CASCADE;
