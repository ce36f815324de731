-- Flows of one target that bring different columns: it has them all; a column that an event lacks is NULL, or, with ignore_null_updates, as it was.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = error;
CREATE SCHEMA events_union;
SET search_path = events_union;
CREATE DOMAIN grade AS int CHECK (VALUE > 0);
CREATE TABLE crm (id int, name text, seq int);
CREATE TABLE billing (id int, plan text COLLATE "C", grade grade, seq int);
INSERT INTO crm VALUES (1, 'Ana', 10), (2, 'Luis', 10);
SELECT scd2.create_auto_cdc_flow('h', 'crm', '{id}', 'seq', column_list => '{id,name}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('c', 'crm', '{id}', 'seq', column_list => '{id,name}', shared => true);
SELECT scd2.create_auto_cdc_flow('n', 'crm', '{id}', 'seq', column_list => '{id,name}', stored_as_scd_type => 2, ignore_null_updates => true);
SELECT scd2.create_auto_cdc_flow('m', 'crm', '{id}', 'seq', column_list => '{id,name}', ignore_null_updates => true, shared => true);
SELECT scd2.sync() >= 0;
SELECT scd2.create_auto_cdc_flow('h', 'billing', '{id}', 'seq', column_list => '{id,plan,grade}', track_history_column_list => '{plan}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('c', 'billing', '{id}', 'seq', column_list => '{id,plan,grade}');
SELECT scd2.create_auto_cdc_flow('n', 'billing', '{id}', 'seq', column_list => '{id,plan,grade}', stored_as_scd_type => 2, ignore_null_updates => true);
SELECT scd2.create_auto_cdc_flow('m', 'billing', '{id}', 'seq', column_list => '{id,plan,grade}', ignore_null_updates => true);
INSERT INTO billing VALUES (1, 'gold', 1, 20), (1, 'gold', 2, 30), (3, 'silver', 1, 5);
SELECT scd2.sync() >= 0;
INSERT INTO crm VALUES (1, 'Ana María', 25), (3, 'Marta', 7);
SELECT scd2.sync() >= 0;
SELECT * FROM h ORDER BY id, __start_at;
SELECT * FROM n ORDER BY id, __start_at;
SELECT * FROM c ORDER BY id;
SELECT * FROM m ORDER BY id;
SELECT * FROM h_as_of(26) WHERE id = 1;
SELECT a.attname, format_type(a.atttypid, a.atttypmod) AS type, c.collname FROM pg_attribute AS a LEFT JOIN pg_collation AS c ON c.oid = a.attcollation WHERE a.attrelid = 'h'::regclass AND a.attnum > 0 ORDER BY a.attnum;
SET client_min_messages = notice;        -- that it was compared, too
SELECT t, c.* FROM unnest('{h,n,c,m}'::text[]) AS t, scd2.check_target(t::regclass) AS c;
SET client_min_messages = error;
-- a rebuild gives the same
CREATE TABLE h_was AS TABLE h;
CREATE TABLE n_was AS TABLE n;
CREATE TABLE c_was AS TABLE c;
CREATE TABLE m_was AS TABLE m;
SELECT scd2.full_refresh(t::regclass) FROM unnest('{h,n,c,m}'::text[]) AS t;
SELECT scd2.sync() >= 0;
SELECT (SELECT count(*) FROM ((TABLE h EXCEPT ALL TABLE h_was) UNION ALL (TABLE h_was EXCEPT ALL TABLE h)) AS x) AS h, (SELECT count(*) FROM ((TABLE n EXCEPT ALL TABLE n_was) UNION ALL (TABLE n_was EXCEPT ALL TABLE n)) AS x) AS n,
       (SELECT count(*) FROM ((TABLE c EXCEPT ALL TABLE c_was) UNION ALL (TABLE c_was EXCEPT ALL TABLE c)) AS x) AS c, (SELECT count(*) FROM ((TABLE m EXCEPT ALL TABLE m_was) UNION ALL (TABLE m_was EXCEPT ALL TABLE m)) AS x) AS m;
-- a third, of snapshots, with one more
CREATE TABLE site (id int, city text);
INSERT INTO site VALUES (1, 'Lima');
SELECT scd2.create_auto_cdc_from_snapshot_flow('h', 'site', '{id}', sequence_type => 'int', stored_as_scd_type => 2, delete_absent => false, name => 'sites');
SELECT * FROM scd2.apply_snapshot('sites', 40);
SELECT * FROM h WHERE id = 1 ORDER BY id, __start_at;
INSERT INTO crm VALUES (1, 'late', 35), (1, 'later', 50);
SELECT scd2.sync() >= 0;
SELECT * FROM h WHERE id = 1 ORDER BY id, __start_at;
-- refused
CREATE TABLE other (id int, name int, _kind text, __end_at int, seq int);
SELECT scd2.create_auto_cdc_flow('h', 'other', '{id}', 'seq', column_list => '{id,name}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('h', 'other', '{id}', 'seq', column_list => '{id,_kind}', track_history_column_list => '{}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('h', 'other', '{id}', 'seq', column_list => '{id,__end_at}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('h', 'other', '{id}', 'seq', column_list => '{id,_kind}', stored_as_scd_type => 2, ignore_null_updates => true);
SELECT count(*) FROM pg_attribute WHERE attrelid = 'h'::regclass AND attname = '_kind';
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows;
DROP SCHEMA events_union CASCADE;
