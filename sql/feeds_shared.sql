-- Captured tables that share a target: with a legacy history that seeds it, with late events, with each other.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = error;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, MDY';
CREATE SCHEMA feeds_shared;
SET search_path = feeds_shared;
-- What is shown of a history: moments of the feed are NULL.
CREATE FUNCTION shown(target regclass) RETURNS TABLE (id int, name text, region text, "from" date, "to" text) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format('SELECT id, name, region, CASE WHEN __start_at < ''2026-11-01'' THEN __start_at::date END, CASE WHEN __end_at IS NULL THEN ''open'' WHEN __end_at < ''2026-11-01'' THEN __end_at::date::text END FROM %s ORDER BY id, __start_at', target);
END $$;
CREATE TABLE legacy (id int, name text, region text, valid_from timestamptz, valid_to timestamptz);
INSERT INTO legacy VALUES (1, 'Ana', 'Norte', '2026-01-01', '2026-02-01'), (1, 'Ana', 'Este', '2026-02-01', NULL), (2, 'Luis', 'Centro', '2026-01-01', NULL), (3, 'Marta', 'Oeste', '2026-01-01', '2026-02-01'), (4, 'Old', 'Sur', '2026-01-01', NULL), (7, 'Legacy', 'Sur', '2026-01-01', NULL);
CREATE TABLE customers (id int PRIMARY KEY, name text, region text);
INSERT INTO customers VALUES (1, 'Ana', 'Este'), (2, 'Luis', 'Moved'), (5, 'New', 'Norte');
SELECT scd2.enable_change_feed('customers');
SELECT scd2.create_auto_cdc_flow('h', 'legacy', '{id}', 'valid_from', end_sequence_by => 'valid_to', column_list => '{id,name,region}', track_history_column_list => '{region}', stored_as_scd_type => 2, once => true);
SELECT scd2.create_auto_cdc_flow('c', 'legacy', '{id}', 'valid_from', end_sequence_by => 'valid_to', column_list => '{id,name,region}', once => true, shared => true);
SELECT scd2.sync() >= 0;
-- a TRUNCATE must be spoken of
SELECT scd2.create_auto_cdc_flow('h', 'customers_changes', '{id}', track_history_column_list => '{region}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('h', 'customers_changes', '{id}', track_history_column_list => '{region}', stored_as_scd_type => 2, apply_as_truncates => '_change_type = ''truncate''', name => 'live');
SELECT scd2.track('customers', 'c', stored_as_scd_type => 1, apply_as_truncates => 'false', name => 'live_now');
SELECT scd2.sync() >= 0;
-- a version that is as the legacy one goes on from it; keys that the source does not have stay as the legacy says
SELECT * FROM shown('h');
TABLE c ORDER BY id;
UPDATE customers SET region = 'Sur' WHERE id = 1;
UPDATE customers SET name = 'Luisa' WHERE id = 2;
DELETE FROM customers WHERE id = 5;
-- of one commit: comes and goes (nothing: the legacy row stays), goes and comes, moves, twice
BEGIN;
INSERT INTO customers VALUES (7, 'comes', 'and goes');
DELETE FROM customers WHERE id = 7;
DELETE FROM customers WHERE id = 2;
INSERT INTO customers VALUES (2, 'Back', 'Centro');
UPDATE customers SET region = 'x' WHERE id = 1;
UPDATE customers SET region = 'Oeste' WHERE id = 1;
INSERT INTO customers VALUES (8, 'moves', 'Norte');
UPDATE customers SET id = 9 WHERE id = 8;
COMMIT;
SELECT scd2.sync() >= 0;
SELECT * FROM shown('h');
TABLE c ORDER BY id;
-- a late event from elsewhere finds its place
CREATE TABLE late (id int, name text, region text, at timestamptz, op text);
SELECT scd2.create_auto_cdc_flow('h', 'late', '{id}', 'at', apply_as_deletes => 'op = ''D''', column_list => '{id,name,region}', track_history_column_list => '{region}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('c', 'late', '{id}', 'at', apply_as_deletes => 'op = ''D''', column_list => '{id,name,region}');
INSERT INTO late VALUES (1, 'late', 'Late', '2026-03-01', 'U'), (4, NULL, NULL, '2026-03-01', 'D'), (5, 'before', 'Early', '2026-03-01', 'U');
SELECT scd2.sync() >= 0;
SELECT * FROM shown('h') WHERE id IN (1, 4, 5);
TABLE c ORDER BY id;
SELECT t, c.* FROM unnest('{h,c}'::text[]) AS t, scd2.check_target(t::regclass) AS c;
-- TRUNCATE and new rows in one commit
BEGIN;
INSERT INTO customers VALUES (11, 'gone', 'Norte');
TRUNCATE customers;
INSERT INTO customers VALUES (1, 'Ana', 'Again');
COMMIT;
SELECT scd2.sync() >= 0;
SELECT * FROM shown('h') WHERE "to" = 'open' OR id = 11;
TABLE c ORDER BY id;
SELECT flow, state, events = applied + duplicates + rejected + too_late AS adds_up, last_error FROM scd2.flows ORDER BY flow;

-- two captured tables, each shared from the start, in both orders: one set
CREATE TABLE a (id int PRIMARY KEY, name text, region text);
CREATE TABLE b (LIKE a INCLUDING ALL);
INSERT INTO a VALUES (1, 'a', 'A'), (2, 'a', 'A');
INSERT INTO b VALUES (2, 'b', 'B'), (3, 'b', 'B');
SELECT scd2.track('a', 'common', shared => true, apply_as_truncates => 'false');
SELECT scd2.track('b', 'common', apply_as_truncates => 'false');
SELECT scd2.sync() >= 0;
UPDATE a SET region = 'A2' WHERE id = 2;
UPDATE b SET region = 'B2' WHERE id = 2;
DELETE FROM a WHERE id = 2;
DELETE FROM b WHERE id = 3;
INSERT INTO a VALUES (3, 'a', 'A3');
SELECT scd2.sync() >= 0;
SELECT id, name, region, __end_at IS NULL AS open FROM common ORDER BY id, __start_at;
SELECT scd2.track('a', 'common2', shared => true, apply_as_truncates => 'false', starting_version => scd2.earliest_version('a'), initial_start => '''2026-01-01''');
SELECT scd2.sync() >= 0;
SELECT id, name, region, __start_at < '2026-02-01' AS initial, __end_at IS NULL AS open FROM common2 ORDER BY id, __start_at;
-- a rebuild makes one set of them
CREATE TABLE common_was AS TABLE common;
SELECT scd2.full_refresh('common');
SELECT scd2.sync() >= 0;
SELECT count(*) FROM ((TABLE common EXCEPT ALL TABLE common_was) UNION ALL (TABLE common_was EXCEPT ALL TABLE common)) AS x;

-- a captured table with a sequence of its own shares, too: of equal sequences the later change counts, and wins over events that have no place
CREATE TABLE own (id int PRIMARY KEY, name text, rev int);
CREATE TABLE ev (id int, name text, rev int);
INSERT INTO own VALUES (1, 'own', 10);
SELECT scd2.enable_change_feed('own');
SELECT scd2.create_auto_cdc_flow('o', 'own_changes', '{id}', 'rev', delete_sequence_by => 'rev + 1', column_list => '{id,name}', stored_as_scd_type => 2, shared => true, apply_as_truncates => 'false');
SELECT scd2.create_auto_cdc_flow('o', 'ev', '{id}', 'rev', column_list => '{id,name}', stored_as_scd_type => 2);
SELECT scd2.sync() >= 0;
UPDATE own SET name = 'b', rev = 20;
UPDATE own SET name = 'a' WHERE rev = 20;
SELECT scd2.sync() >= 0;
INSERT INTO ev VALUES (1, 'z', 20), (1, 'late', 15), (1, 'new', 30);
SELECT scd2.sync() >= 0;
TABLE o ORDER BY __start_at;

-- A flow that had its target for itself gets company: what joins fills in history before it did, and changes nothing after; keys that it did not have end there.
CREATE TABLE tracked (id int PRIMARY KEY, name text, region text);
INSERT INTO tracked VALUES (1, 'one', 'x'), (2, 'two', 'x');
SELECT scd2.track('tracked', 'company');
SELECT scd2.track('tracked', 'company_now', stored_as_scd_type => 1);
SELECT scd2.sync() >= 0;
UPDATE tracked SET region = 'y' WHERE id = 1;
DELETE FROM tracked WHERE id = 2;
INSERT INTO tracked VALUES (3, 'three', 'x');
UPDATE tracked SET region = 'a' WHERE id = 1;         -- the last version: smaller than what was before
SELECT scd2.sync() >= 0;
CREATE TABLE company_was AS TABLE company;
CREATE TABLE history (id int, name text, region text, at timestamptz);
INSERT INTO history VALUES (1, 'one', 'old', '2026-01-01'), (2, 'two', 'old', '2026-01-01'), (4, 'four', 'old', '2026-01-01');
INSERT INTO history SELECT 1, 'one', 'just before', __start_at - interval '1 microsecond' FROM company WHERE region = 'a';
SELECT scd2.create_auto_cdc_flow('company', 'history', '{id}', 'at', column_list => '{id,name,region}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('company_now', 'history', '{id}', 'at', column_list => '{id,name,region}');
SELECT scd2.sync() >= 0;
SELECT * FROM shown('company');
SELECT count(*) FROM (TABLE company_was EXCEPT ALL TABLE company) AS lost;
TABLE company_now ORDER BY id;
-- both go on
UPDATE tracked SET region = 'z' WHERE id = 1;
INSERT INTO tracked VALUES (4, 'four', 'live');
INSERT INTO history VALUES (3, 'three', 'future', '2100-01-01'), (1, 'one', 'older', '2025-01-01');
SELECT scd2.sync() >= 0;
UPDATE tracked SET region = 'before the future' WHERE id = 3;
SELECT scd2.sync() >= 0;
SELECT id, name, region, __start_at > '2026-11-01' AND __start_at < '2099-01-01' AS live, __end_at IS NULL AS open FROM company ORDER BY id, __start_at;
TABLE company_now ORDER BY id;
SELECT flow, state, last_error FROM scd2.flows WHERE state NOT IN ('running', 'done');

-- refused
CREATE TABLE deferred (id int PRIMARY KEY DEFERRABLE, name text, region text);
SELECT scd2.track('deferred', 'h', apply_as_truncates => 'false');
SELECT scd2.track('deferred', 'alone');
SELECT scd2.sync() >= 0;
SELECT scd2.create_auto_cdc_flow('alone', 'late', '{id}', 'at', stored_as_scd_type => 2, column_list => '{id,name,region}');
SELECT scd2.track('customers', 'h', shared => true, apply_as_truncates => 'false', delete_sequence_by => 'now()');
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows;
DROP SCHEMA feeds_shared CASCADE;
