-- Several flows of events into one target: their events are one set.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = error;
CREATE SCHEMA events_shared;
SET search_path = events_shared;
CREATE TABLE a (k int, v text, w text, seq int, op text);
CREATE TABLE b (id int, v text, at int);
ALTER TABLE b RENAME id TO k;
CREATE TABLE old (k int, v text, w text, seq bigint);
INSERT INTO a VALUES (1, 'a10', 'w', 10, 'U'), (2, 'a10', 'w', 10, 'U');
INSERT INTO b VALUES (1, 'b20', 20);
INSERT INTO old VALUES (1, 'o5', 'x', 5), (3, 'o1', 'x', 1);
SELECT scd2.create_auto_cdc_flow('h', 'a', '{k}', 'seq', apply_as_deletes => 'op = ''D''', apply_as_truncates => 'op = ''T''', column_list => '{k,v,w}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('h', 'b', '{k}', 'at', column_list => '{k,v}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('h', 'old', '{k}', 'seq::int', column_list => '{k,v,w}', stored_as_scd_type => 2, once => true);
SELECT scd2.create_auto_cdc_flow('c', 'a', '{k}', 'seq', apply_as_deletes => 'op = ''D''', apply_as_truncates => 'op = ''T''', column_list => '{k,v,w,seq}', shared => true);
SELECT scd2.create_auto_cdc_flow('c', 'b', '{k}', 'at', column_list => '{k,v}');
SELECT scd2.sync() >= 0;
TABLE h ORDER BY k, __start_at;
TABLE c ORDER BY k;
INSERT INTO a VALUES (1, 'a15', 'w', 15, 'U'), (3, NULL, NULL, 30, 'D'), (2, 'a40', 'w', 40, 'U');
INSERT INTO b VALUES (2, 'b30', 30), (3, 'b25', 25), (4, 'b1', 1), (1, 'a15', 16);
SELECT scd2.sync() >= 0;
TABLE h ORDER BY k, __start_at;
TABLE c ORDER BY k;
-- a truncate of one is one of all, also of what comes later from another
INSERT INTO a VALUES (NULL, NULL, NULL, 35, 'T');
SELECT scd2.sync() >= 0;
INSERT INTO b VALUES (5, 'late', 34), (6, 'new', 36);
SELECT scd2.sync() >= 0;
TABLE h ORDER BY k, __start_at;
TABLE c ORDER BY k;
SELECT flow, source, state, events, applied, duplicates FROM scd2.flows ORDER BY flow, source::text;
-- a rebuild makes them all anew
CREATE TABLE h_was AS TABLE h;
CREATE TABLE c_was AS TABLE c;
SELECT scd2.full_refresh('h'), scd2.full_refresh('c');
SELECT scd2.sync() >= 0;
SELECT count(*) FROM ((TABLE h EXCEPT ALL TABLE h_was) UNION ALL (TABLE h_was EXCEPT ALL TABLE h)) AS x;
SELECT count(*) FROM ((TABLE c EXCEPT ALL TABLE c_was) UNION ALL (TABLE c_was EXCEPT ALL TABLE c)) AS x;
-- what does not agree
CREATE TABLE other (k int, v text, w text, seq bigint, x int);
CREATE TABLE typed (k int, v varchar(10), seq int);
CREATE TABLE collated (k int, v text COLLATE "C", seq int);
SELECT scd2.create_auto_cdc_flow('h', 'typed', '{k}', 'seq', column_list => '{k,v}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('h', 'collated', '{k}', 'seq', column_list => '{k,v}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('h', 'other', '{k}', 'seq', column_list => '{k,v}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('h', 'other', '{k}', 'seq::int', column_list => '{k,v}');
SELECT scd2.create_auto_cdc_flow('h', 'other', '{k,v}', 'seq::int', column_list => '{k,v}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('h', 'other', '{k}', 'seq::int', column_list => '{k,v,w}', stored_as_scd_type => 2, track_history_column_list => '{v}');
SELECT scd2.create_auto_cdc_flow('h', 'other', '{k}', 'seq::int', column_list => '{k,v,w}', stored_as_scd_type => 2, start_column => 'since');
CREATE TABLE source (k int PRIMARY KEY, v text, w text);
SELECT scd2.track('source', 'h', apply_as_truncates => 'false');
SELECT scd2.create_auto_cdc_flow('alone', 'a', '{k}', 'seq', column_list => '{k,seq}');
SELECT scd2.create_auto_cdc_flow('alone', 'b', '{k}', 'at', column_list => '{k}');
-- a flow goes, its events stay; memory goes with the last
SELECT scd2.drop_flow('h');
INSERT INTO b VALUES (7, 'x', 1);
SELECT scd2.sync(targets => '{h}') >= 0;
SELECT * FROM h WHERE k IN (1, 7) ORDER BY k, __start_at;
SELECT to_regclass('h_memory');
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows;
SELECT to_regclass('h_memory'), to_regclass('h');
DROP SCHEMA events_shared CASCADE;
