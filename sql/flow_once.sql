-- Flows that run once: whatever a relation shows becomes events, and that is all.
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA flow_once;
SET search_path = flow_once;
CREATE DOMAIN word AS text CHECK (VALUE <> '');
CREATE TABLE legacy (id int, name word NOT NULL, day date, gone boolean) PARTITION BY LIST (gone);
CREATE TABLE legacy_live PARTITION OF legacy FOR VALUES IN (false);
CREATE TABLE legacy_gone PARTITION OF legacy FOR VALUES IN (true);
INSERT INTO legacy VALUES (1, 'Norte', '2020-01-01', false), (1, 'Sur', '2020-03-01', false), (1, 'Este', '2020-02-01', false), (2, 'Centro', '2020-01-01', false), (2, 'Centro', '2020-02-01', true);
CREATE VIEW seen AS SELECT id, upper(name) AS name, day FROM legacy WHERE NOT gone;
CREATE MATERIALIZED VIEW stored AS TABLE seen;
SELECT scd2.create_auto_cdc_flow('from_table', 'legacy', '{id}', 'day', apply_as_deletes => 'gone', column_list => '{id,name}', stored_as_scd_type => 2, once => true);
SELECT scd2.create_auto_cdc_flow('from_view', 'seen', '{id}', 'day', once => true);
SELECT scd2.create_auto_cdc_flow('from_stored', 'stored', '{id}', 'day', source_filter => 'id = 1', stored_as_scd_type => 2, once => true);
SELECT scd2.sync() >= 0;
TABLE from_table ORDER BY id, __start_at;
TABLE from_view ORDER BY id;
TABLE from_stored ORDER BY id, __start_at;
SELECT flow, source, once, state, events, applied, lag_versions, finished_at IS NOT NULL AS finished, last_error FROM scd2.flows ORDER BY flow;
-- no feed was made; what comes later is not for them, until a rebuild
SELECT to_regclass('legacy_changes');
INSERT INTO legacy VALUES (3, 'later', '2020-05-01', false);
SELECT scd2.sync() >= 0;
SELECT count(*) FROM from_table WHERE id = 3;
SELECT scd2.full_refresh('from_table'), scd2.full_refresh('from_view');
SELECT scd2.sync() >= 0;
TABLE from_table ORDER BY id, __start_at;
TABLE from_view ORDER BY id;
SELECT flow, state FROM scd2.flows ORDER BY flow;
SELECT * FROM scd2.diagnose() WHERE subject LIKE 'flow%';
-- refused
SELECT scd2.create_auto_cdc_flow('x', 'seen', '{id}', once => true);
SELECT scd2.create_auto_cdc_flow('x', 'seen', '{id}', 'day', once => true, refresh_interval => '1 min');
SELECT scd2.create_auto_cdc_flow('x', 'seen', '{nope}', 'day', once => true);
CREATE ROLE flow_once_stranger;
GRANT USAGE, CREATE ON SCHEMA flow_once TO flow_once_stranger;
SET ROLE flow_once_stranger;
SELECT scd2.create_auto_cdc_flow('x', 'seen', '{id}', 'day', once => true);
RESET ROLE;
GRANT SELECT ON seen TO flow_once_stranger;
SET ROLE flow_once_stranger;
SELECT scd2.create_auto_cdc_flow('x', 'seen', '{id}', 'day', once => true);
RESET ROLE;
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows;
DROP SCHEMA flow_once CASCADE;
DROP ROLE flow_once_stranger;
