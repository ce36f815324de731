-- Flows over event tables: what is refused when they are declared, and which types order.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = warning;
CREATE SCHEMA events_refusals;
SET search_path = events_refusals;
CREATE TABLE ev (k int, v text, j json, seq int, at timestamptz, op text, _kind text);
CREATE VIEW seen AS SELECT * FROM ev;
-- the sequence
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}');
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'nope');
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'j');
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', '''a literal''');
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'max(seq)');
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'clock_timestamp()');
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'seq, seq');
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', '_commit_version');
-- the other expressions
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'seq', apply_as_deletes => 'v || op');
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'seq', apply_as_deletes => 'at');
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'seq', apply_as_truncates => 'random() < 0.5');
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'seq', source_filter => 'EXISTS (SELECT)');
-- the rest
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'seq', on_invalid_event => 'ignore');
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'seq', starting_version => 1);
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'seq', stored_as_scd_type => 2, initial_start => 'at');
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'seq', track_history_column_list => '{v}');
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{nope}', 'seq');
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k,_kind}', 'seq');
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{j}', 'seq', column_list => '{j,v}');
SELECT scd2.create_auto_cdc_flow('h', 'seen', '{k}', 'seq');
SELECT scd2.create_auto_cdc_flow('ev', 'ev', '{k}', 'seq');
CREATE TABLE other (k int, v text, __start_at int NOT NULL, __end_at bigint, PRIMARY KEY (k, __start_at));
SELECT scd2.create_auto_cdc_flow('other', 'ev', '{k}', 'seq', column_list => '{k,v}', stored_as_scd_type => 2);
SELECT count(*) FROM scd2.flows WHERE source = 'ev'::regclass;

-- types that order: a domain, a date, text of a collation, citext-like equality of keys, an array
CREATE DOMAIN rank AS int CHECK (VALUE > 0);
CREATE COLLATION loud (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE many (k text COLLATE loud, v text, d date, r rank, c text COLLATE "C", a int[]);
INSERT INTO many VALUES ('Ana', 'one', '2026-01-02', 1, 'b', '{1,2}'), ('ANA', 'two', '2026-01-01', 2, 'B', '{1,3}');
SET client_min_messages = error;
SELECT scd2.create_auto_cdc_flow('by_d', 'many', '{k}', 'd', column_list => '{k,v}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('by_r', 'many', '{k}', 'r', column_list => '{k,v}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('by_c', 'many', '{k}', 'c', column_list => '{k,v}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('by_a', 'many', '{k}', 'a', column_list => '{k,v}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('by_e', 'many', '{k}', 'extract(epoch FROM d)', column_list => '{k,v}', stored_as_scd_type => 2);
SELECT scd2.sync() >= 0;
SELECT * FROM by_d ORDER BY __start_at;
SELECT * FROM by_r ORDER BY __start_at;
SELECT * FROM by_c ORDER BY __start_at;
SELECT * FROM by_a ORDER BY __start_at;
SELECT * FROM by_e ORDER BY __start_at;
SELECT v FROM by_d_as_of('2026-01-01');
SELECT v FROM by_a_as_of('{1,2}');
-- the spelling of a key is a value that is not tracked
INSERT INTO many VALUES ('ana', 'one', '2026-01-05', 3, 'c', '{2}');
SELECT scd2.sync() >= 0;
SELECT * FROM by_d ORDER BY __start_at;
INSERT INTO many VALUES ('ANa', 'late', '2026-01-03', 4, 'd', '{3}');
SELECT scd2.sync() >= 0;
SELECT * FROM by_d ORDER BY __start_at;
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows WHERE source::text IN ('ev', 'many');
DROP SCHEMA events_refusals CASCADE;
