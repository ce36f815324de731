-- A snapshot of a part of the keys, and one that deletes nothing.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = notice;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, YMD';
CREATE SCHEMA snapshot_scope;
SET search_path = snapshot_scope;
-- two regions send their own files into one target
CREATE TABLE eu (region text, id int, v text);
CREATE TABLE us (region text, id int, v text);
INSERT INTO eu VALUES ('eu', 1, 'a'), ('eu', 2, 'a');
INSERT INTO us VALUES ('us', 1, 'a'), ('us', 2, 'a');
SELECT scd2.create_auto_cdc_from_snapshot_flow('h', 'eu', '{region,id}', 'int', name => 'eu', stored_as_scd_type => 2, shared => true, scope => 'region = ''eu''', max_delete_fraction => 1);
SELECT scd2.create_auto_cdc_from_snapshot_flow('h', 'us', '{region,id}', 'int', name => 'us', stored_as_scd_type => 2, scope => 'region = ''us''', max_delete_fraction => 1);
SELECT * FROM scd2.apply_snapshot('eu', 10);
SELECT * FROM scd2.apply_snapshot('us', 10);
DELETE FROM eu WHERE id = 1;
UPDATE us SET v = 'b' WHERE id = 2;
SELECT * FROM scd2.apply_snapshot('us', 20);
SELECT * FROM scd2.apply_snapshot('eu', 20);
TABLE h ORDER BY region, id, __start_at;
-- a late event is cut by the snapshots of its region alone
CREATE TABLE ev (region text, id int, v text, seq int);
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{region,id}', 'seq', name => 'events', column_list => '{region,id,v}', stored_as_scd_type => 2);
SELECT scd2.sync() >= 0;
INSERT INTO ev VALUES ('eu', 9, 'late', 15), ('us', 9, 'late', 5), ('asia', 9, 'free', 5), ('eu', 2, 'x', 15), ('us', 2, 'x', 15), ('us', 1, 'x', 20);
SELECT scd2.sync() >= 0;
TABLE h ORDER BY region, id, __start_at;
-- the flow goes, what it said stays
SELECT scd2.drop_flow('eu');
INSERT INTO ev VALUES ('eu', 8, 'later', 15), ('us', 8, 'later', 15);
SELECT scd2.sync() >= 0;
SELECT * FROM h WHERE id = 8 ORDER BY region;

-- deletes nothing: plain upserts
CREATE TABLE part (id int PRIMARY KEY, v text);
INSERT INTO part VALUES (1, 'a'), (2, 'a');
SELECT scd2.create_auto_cdc_from_snapshot_flow('p', 'part', '{id}', 'int', stored_as_scd_type => 2, delete_absent => false);
SELECT scd2.create_auto_cdc_from_snapshot_flow('p1', 'part', '{id}', 'int', delete_absent => false);
SELECT * FROM scd2.apply_snapshot('p', 10);
SELECT * FROM scd2.apply_snapshot('p1', 10);
DELETE FROM part WHERE id = 1;
INSERT INTO part VALUES (3, 'a');
SELECT * FROM scd2.apply_snapshot('p', 20);
SELECT * FROM scd2.apply_snapshot('p1', 20);
TRUNCATE part;
SELECT * FROM scd2.apply_snapshot('p', 30);
TABLE p ORDER BY id, __start_at;
TABLE p1 ORDER BY id;
-- remembered like any: 2=a@20 is an event, 1@20 is none
CREATE TABLE pe (id int, v text, at int);
SELECT scd2.create_auto_cdc_from_snapshot_flow('q', 'part', '{id}', 'int', stored_as_scd_type => 2, delete_absent => false, shared => true);
SELECT scd2.create_auto_cdc_flow('q', 'pe', '{id}', 'at', name => 'qe', column_list => '{id,v}', stored_as_scd_type => 2);
SELECT scd2.sync() >= 0;
INSERT INTO part VALUES (1, 'a'), (2, 'a');
SELECT * FROM scd2.apply_snapshot('q', 10);
DELETE FROM part WHERE id = 1;
SELECT * FROM scd2.apply_snapshot('q', 20);
INSERT INTO pe VALUES (1, 'b', 15), (2, 'b', 15);
SELECT scd2.sync() >= 0;
TABLE q ORDER BY id, __start_at;
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows;
DROP SCHEMA snapshot_scope CASCADE;
