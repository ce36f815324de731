-- Events in which NULL says nothing share a target with captured tables and snapshots, whose images are whole: there NULL is a value.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = error;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, MDY';
CREATE SCHEMA nulls_beside_images;
SET search_path = nulls_beside_images;
-- Moments of a commit are "now".
CREATE FUNCTION shown(target regclass, columns text DEFAULT 'name, phone') RETURNS TABLE (id int, image text, "from" text, "to" text) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format('SELECT id, concat_ws('','', %s), CASE WHEN __start_at < now() - interval ''1 hour'' THEN __start_at::date::text ELSE ''now'' END, CASE WHEN __end_at IS NULL THEN ''open'' WHEN __end_at < now() - interval ''1 hour'' THEN __end_at::date::text ELSE ''now'' END FROM %s ORDER BY id, __start_at',
        (SELECT string_agg(format('coalesce(%s, ''-'')', trim(c)), ', ') FROM regexp_split_to_table(columns, ',') AS c), target);
END $$;

-- a sequence of its own: in any order of arrival
CREATE TABLE crm (id int, name text, phone text, seq int, op text);
CREATE TABLE customers (id int PRIMARY KEY, name text, phone text, seq int);
CREATE TABLE files (id int, name text, phone text);
INSERT INTO customers VALUES (1, 'Ana', NULL, 20), (2, 'Luis', '222', 20);
SELECT scd2.enable_change_feed('customers');
SELECT scd2.create_auto_cdc_flow('h', 'crm', '{id}', 'seq', apply_as_deletes => 'op = ''D''', column_list => '{id,name,phone}', stored_as_scd_type => 2, ignore_null_updates => true);
SELECT scd2.create_auto_cdc_flow('c', 'crm', '{id}', 'seq', apply_as_deletes => 'op = ''D''', column_list => '{id,name,phone}', ignore_null_updates => true);
SELECT scd2.create_auto_cdc_flow('h', 'customers_changes', '{id}', 'seq', column_list => '{id,name,phone}', delete_sequence_by => 'seq', apply_as_truncates => 'false', stored_as_scd_type => 2, name => 'h_feed');
SELECT scd2.create_auto_cdc_flow('c', 'customers_changes', '{id}', 'seq', column_list => '{id,name,phone}', delete_sequence_by => 'seq', apply_as_truncates => 'false', name => 'c_feed');
SELECT scd2.create_auto_cdc_from_snapshot_flow('h', 'files', '{id}', 'int', stored_as_scd_type => 2, name => 'h_files', delete_absent => false);
SELECT scd2.create_auto_cdc_from_snapshot_flow('c', 'files', '{id}', 'int', name => 'c_files', delete_absent => false);
SELECT scd2.sync() >= 0;
INSERT INTO crm VALUES (1, NULL, '111', 10, 'U'), (1, 'Ana M', NULL, 30, 'U'), (2, NULL, NULL, 30, 'U'), (3, 'Marta', NULL, 10, 'U');
SELECT scd2.sync() >= 0;
SELECT id, name, phone, __start_at, __end_at FROM h ORDER BY id, __start_at;
TABLE c ORDER BY id;
-- the image at 20 says that there is no phone: what was sent before does not go on, what is sent after it does
INSERT INTO crm VALUES (1, NULL, '333', 25, 'U'), (2, 'Luisa', NULL, 15, 'U');
UPDATE customers SET phone = NULL, seq = 40 WHERE id = 2;
SELECT scd2.sync() >= 0;
SELECT id, name, phone, __start_at, __end_at FROM h WHERE id < 3 ORDER BY id, __start_at;
TABLE c ORDER BY id;
-- at one sequence the image counts, and of images the later
INSERT INTO crm VALUES (2, 'at once', 'at once', 40, 'U');
UPDATE customers SET name = 'Luis II' WHERE id = 2;
SELECT scd2.sync() >= 0;
INSERT INTO crm VALUES (2, NULL, 'too', 40, 'U'), (2, NULL, '444', 45, 'U');
INSERT INTO files VALUES (1, NULL, '111'), (2, 'Luis III', NULL);
SELECT scd2.apply_snapshot('h_files', 50), scd2.apply_snapshot('c_files', 50);
DELETE FROM customers WHERE id = 2;
INSERT INTO crm VALUES (2, NULL, 'after the delete', 42, 'U'), (1, 'late', NULL, 45, 'U'), (1, NULL, NULL, 60, 'U');
SELECT scd2.sync() >= 0;
SELECT id, name, phone, __start_at, __end_at FROM h WHERE id < 3 ORDER BY id, __start_at;
TABLE c ORDER BY id;

-- the sequence of commits: a row that moves in one transaction goes on, whatever is met first
CREATE TABLE web (id int, name text, phone text, at timestamptz);
CREATE TABLE leads (id int PRIMARY KEY, name text, phone text);
CREATE TABLE buyers (id int PRIMARY KEY, name text, phone text);
SELECT scd2.enable_change_feed(t::regclass) FROM unnest('{leads,buyers}'::text[]) AS t;
SELECT scd2.create_auto_cdc_flow(t, 'web', '{id}', 'at', column_list => '{id,name,phone}', stored_as_scd_type => n, ignore_null_updates => true) FROM (VALUES ('people', 2), ('people_now', 1)) AS f (t, n);
SELECT scd2.create_auto_cdc_flow(t, 'leads_changes', '{id}', stored_as_scd_type => n, apply_as_truncates => '_change_type = ''truncate''', name => t || '_leads') FROM (VALUES ('people', 2), ('people_now', 1)) AS f (t, n);
SELECT scd2.create_auto_cdc_flow(t, 'buyers_changes', '{id}', stored_as_scd_type => n, apply_as_truncates => '_change_type = ''truncate''', name => t || '_buyers') FROM (VALUES ('people', 2), ('people_now', 1)) AS f (t, n);
SELECT scd2.sync() >= 0;
INSERT INTO web VALUES (1, 'Ana', '111', '2024-01-01'), (1, 'Ana M', NULL, '2024-02-01'), (4, 'Eva', NULL, '2024-01-01');
INSERT INTO leads VALUES (1, 'Ana', NULL), (2, 'Luis', '222'), (3, 'Marta', NULL);
SELECT scd2.sync() >= 0;
SELECT scd2.pause_flow('people_buyers'), scd2.pause_flow('people_now_buyers');
WITH gone AS (DELETE FROM leads WHERE id < 3 RETURNING *) INSERT INTO buyers SELECT * FROM gone;
DELETE FROM leads WHERE id = 3;
SELECT scd2.sync() >= 0;
SELECT scd2.resume_flow('people_buyers'), scd2.resume_flow('people_now_buyers');
SELECT scd2.sync() >= 0;
SELECT * FROM shown('people');
TABLE people_now ORDER BY id;
-- an event that has the very moment of a commit comes before what that did
INSERT INTO web SELECT id, 'at once', 'at once', _commit_timestamp FROM leads_changes WHERE _change_type = 'delete';
INSERT INTO web SELECT 3, NULL, 'after it', max(_commit_timestamp) + interval '1 us' FROM leads_changes;
SELECT scd2.sync() >= 0;
SELECT * FROM shown('people');
TABLE people_now ORDER BY id;
SET client_min_messages = notice;        -- that it was compared, too
SELECT t, c.* FROM unnest('{people,people_now}'::text[]) AS t, scd2.check_target(t::regclass) AS c;
SET client_min_messages = error;
-- rebuilt, some keys and all of it
CREATE TABLE people_was AS TABLE people;
CREATE TABLE now_was AS TABLE people_now;
CREATE VIEW differs AS (TABLE people EXCEPT ALL TABLE people_was) UNION ALL (TABLE people_was EXCEPT ALL TABLE people);
CREATE VIEW now_differs AS (TABLE people_now EXCEPT ALL TABLE now_was) UNION ALL (TABLE now_was EXCEPT ALL TABLE people_now);
SELECT scd2.full_refresh('people_now', key_filter => 'id < 3'), scd2.full_refresh('people', key_filter => 'id < 3');
SELECT (SELECT count(*) FROM differs) AS history, (SELECT count(*) FROM now_differs) AS now;
SELECT scd2.full_refresh('people_now'), scd2.full_refresh('people');
SELECT scd2.sync() >= 0;
SELECT (SELECT count(*) FROM differs) AS history, (SELECT count(*) FROM now_differs) AS now;
-- a TRUNCATE ends all that its transaction does not bring, and so what of before comes later
BEGIN;
TRUNCATE leads;
INSERT INTO leads VALUES (5, 'Back', NULL);
COMMIT;
SELECT scd2.sync() >= 0;
INSERT INTO web VALUES (6, 'Eva', NULL, '2024-01-01'), (5, 'Pau', '555', '2024-01-01');
INSERT INTO web SELECT 5, 'at once', 'at once', _commit_timestamp FROM leads_changes WHERE _change_type = 'truncate';
SELECT scd2.sync() >= 0;
SELECT * FROM shown('people') WHERE "to" = 'open' OR id > 4;
TABLE people_now ORDER BY id;

-- a flow that begins with the commit which took away from another what it has
CREATE TABLE from_here (id int PRIMARY KEY, name text, phone text);
CREATE TABLE to_there (id int PRIMARY KEY, name text, phone text);
SELECT scd2.enable_change_feed(t::regclass) FROM unnest('{from_here,to_there}'::text[]) AS t;
SELECT scd2.create_auto_cdc_flow(t, 'web', '{id}', 'at', column_list => '{id,name,phone}', source_filter => 'id > 100', stored_as_scd_type => n, ignore_null_updates => true) FROM (VALUES ('moved', 2), ('moved_now', 1)) AS f (t, n);
SELECT scd2.create_auto_cdc_flow(t, 'from_here_changes', '{id}', stored_as_scd_type => n, apply_as_truncates => 'false', name => t || '_from') FROM (VALUES ('moved', 2), ('moved_now', 1)) AS f (t, n);
SELECT scd2.sync() >= 0;
INSERT INTO from_here VALUES (1, 'Ana', NULL), (2, 'Luis', NULL);
SELECT scd2.sync() >= 0;
WITH gone AS (DELETE FROM from_here RETURNING *) INSERT INTO to_there SELECT * FROM gone WHERE id = 1;
SELECT scd2.sync() AS version \gset
SELECT scd2.create_auto_cdc_flow(t, 'to_there_changes', '{id}', stored_as_scd_type => n, apply_as_truncates => 'false', starting_version => :version, name => t || '_to') FROM (VALUES ('moved', 2), ('moved_now', 1)) AS f (t, n);
SELECT scd2.sync() >= 0;
SELECT * FROM shown('moved');
TABLE moved_now ORDER BY id;

-- columns of their own: what an event lacks is as it was; what an image lacks is NULL in it
CREATE TABLE scores (id int, score text, at timestamptz);
CREATE TABLE members (id int PRIMARY KEY, name text);
INSERT INTO members VALUES (1, 'Ana'), (2, 'Luis');
SELECT scd2.enable_change_feed('members');
SELECT scd2.create_auto_cdc_flow('scored', 'scores', '{id}', 'at', column_list => '{id,score}', stored_as_scd_type => 2, ignore_null_updates => true);
SELECT scd2.create_auto_cdc_flow('scored_now', 'scores', '{id}', 'at', column_list => '{id,score}', ignore_null_updates => true);
SELECT scd2.create_auto_cdc_flow('scored', 'members_changes', '{id}', stored_as_scd_type => 2, apply_as_truncates => 'false', name => 'scored_members');
SELECT scd2.create_auto_cdc_flow('scored_now', 'members_changes', '{id}', apply_as_truncates => 'false', name => 'scored_now_members');
SELECT scd2.sync() >= 0;
INSERT INTO scores VALUES (1, 'low', clock_timestamp()), (3, 'none', '2024-01-01');
SELECT scd2.sync() >= 0;
INSERT INTO scores VALUES (1, 'high', clock_timestamp()), (1, NULL, clock_timestamp());
UPDATE members SET name = 'Luisa' WHERE id = 2;
SELECT scd2.sync() >= 0;
SELECT * FROM shown('scored', 'name, score');
SELECT id, name, score FROM scored_now ORDER BY id;
UPDATE members SET name = 'Ana M' WHERE id = 1;
ALTER TABLE members ADD COLUMN city text DEFAULT 'Lima';
INSERT INTO scores SELECT 2, 'top', clock_timestamp() FROM scd2.sync();
SELECT scd2.sync() >= 0;
INSERT INTO members VALUES (4, 'Eva');
SELECT scd2.sync() >= 0;
INSERT INTO scores VALUES (4, 'low', clock_timestamp());
SELECT scd2.sync() >= 0;
SELECT id, name, score, city FROM scored_now ORDER BY id;
SELECT id, name, score, city FROM scored WHERE __end_at IS NULL ORDER BY id;

-- events come to a table's history, and to snapshots, that remembered nothing: what is there is whole
CREATE TABLE shops (id int PRIMARY KEY, name text, phone text);
INSERT INTO shops VALUES (1, 'North', '111'), (2, 'South', NULL);
SELECT scd2.track('shops'), scd2.track('shops', stored_as_scd_type => 1);
SELECT scd2.sync() >= 0;
UPDATE shops SET phone = '112' WHERE id = 1;
SELECT scd2.sync() >= 0;
CREATE TABLE calls (id int, phone text, at timestamptz);
SELECT scd2.create_auto_cdc_flow('shops_history', 'calls', '{id}', 'at', column_list => '{id,phone}', stored_as_scd_type => 2, ignore_null_updates_column_list => '{phone}');
SELECT scd2.create_auto_cdc_flow('shops_current', 'calls', '{id}', 'at', column_list => '{id,phone}', ignore_null_updates => true);
SELECT flow, ignores_null FROM (SELECT name AS flow, ignores_null FROM scd2_internal.flow) AS f WHERE flow LIKE 'shops%' ORDER BY flow;
INSERT INTO calls VALUES (1, '113', clock_timestamp()), (2, '222', clock_timestamp()), (2, 'early', '2024-01-01'), (3, 'new', clock_timestamp());
SELECT scd2.sync() >= 0;
INSERT INTO calls VALUES (1, NULL, clock_timestamp()), (3, NULL, clock_timestamp());
UPDATE shops SET name = 'South II' WHERE id = 2;
SELECT scd2.sync() >= 0;
SELECT * FROM shown('shops_history');
TABLE shops_current ORDER BY id;
SELECT scd2.create_auto_cdc_from_snapshot_flow('filed', 'files', '{id}', 'int', stored_as_scd_type => 2);
SELECT * FROM scd2.apply_snapshot('filed', 10);
SELECT scd2.create_auto_cdc_flow('filed', 'crm', '{id}', 'seq', apply_as_deletes => 'op = ''D''', column_list => '{id,name,phone}', stored_as_scd_type => 2, ignore_null_updates => true, source_filter => 'seq > 100');
SELECT scd2.sync() >= 0;
INSERT INTO crm VALUES (1, NULL, '999', 110, 'U'), (2, NULL, NULL, 110, 'U');
SELECT scd2.sync() >= 0;
SELECT id, name, phone, __start_at, __end_at FROM filed ORDER BY id, __start_at;
-- not to one that has remembered NULL as a value
SELECT scd2.track('shops', 'shops_shared', shared => true, apply_as_truncates => 'false');
SELECT scd2.create_auto_cdc_flow('shops_shared', 'calls', '{id}', 'at', column_list => '{id,phone}', stored_as_scd_type => 2, ignore_null_updates => true);

-- a purge, and a horizon
SELECT scd2.purge_history('h', 25);
SELECT scd2.alter_flow('h', max_lateness => '30');
INSERT INTO crm VALUES (1, 'too late', NULL, 24, 'U'), (1, NULL, '555', 26, 'U'), (2, 'Luis IV', NULL, 90, 'U');
SELECT scd2.sync() >= 0;
INSERT INTO crm VALUES (2, 'too late', NULL, 59, 'U'), (2, NULL, '777', 70, 'U');
UPDATE customers SET seq = 65, name = 'Ana at 65' WHERE id = 1;
SELECT scd2.sync() >= 0;
SELECT id, name, phone, __start_at, __end_at FROM h ORDER BY id, __start_at;
SELECT flow, event ->> 'name' AS name FROM scd2.rejected_events ORDER BY 2;
SELECT flow, state, last_error FROM scd2.flows WHERE state <> 'running' OR events <> applied + duplicates + rejected + too_late + skipped;
DROP VIEW differs, now_differs;
SELECT count(scd2.drop_flow(flow, drop_target => true)) FROM scd2.flows;
SELECT count(scd2.disable_change_feed(source, true)) FROM scd2.feeds;
DROP SCHEMA nulls_beside_images CASCADE;
