-- What is refused when a flow is declared, by name and class, before anything is created.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = warning;
CREATE SCHEMA flow_refusals;
SET search_path = flow_refusals;
CREATE TABLE t (id integer PRIMARY KEY, v text, created timestamptz, __start_at integer);
CREATE TABLE nokey (a integer, b integer);
CREATE TABLE loose (a integer UNIQUE, b integer NOT NULL, c integer NOT NULL);
CREATE UNIQUE INDEX ON loose (b) WHERE c > 0;
CREATE UNIQUE INDEX ON loose ((c + 1));
CREATE ROLE flow_stranger;
GRANT USAGE ON SCHEMA flow_refusals TO flow_stranger;
SELECT scd2.enable_change_feed(s) FROM unnest('{t,nokey,loose}'::regclass[]) AS s;

-- keys
SELECT scd2.track('nokey');
SELECT scd2.track('nokey', keys => '{a}');
SELECT scd2.track('loose', keys => '{a}');
SELECT scd2.track('loose', keys => '{b}');
SELECT scd2.track('loose', keys => '{c}');
SELECT scd2.track('t', keys => '{}');
SELECT scd2.track('t', keys => '{id,nope}');
SELECT scd2.track('t', keys => '{id,id}');
SELECT scd2.track('t', keys => '{v}');
-- lists
SELECT scd2.track('t', column_list => '{id}', except_column_list => '{v}');
SELECT scd2.track('t', column_list => '{v}');
SELECT scd2.track('t', except_column_list => '{id}');
SELECT scd2.track('t', column_list => '{id,nope}', start_column => 's');
SELECT scd2.track('t', column_list => '{id,v,v}', start_column => 's');
SELECT scd2.track('t', column_list => '{id,NULL}');
SELECT scd2.track('t', start_column => 's', track_history_column_list => '{id}');
SELECT scd2.track('t', start_column => 's', column_list => '{id,v}', track_history_column_list => '{created}');
SELECT scd2.track('t', start_column => 's', track_history_column_list => '{v}', track_history_except_column_list => '{v}');
-- columns of the flow
SELECT scd2.track('t');
SELECT scd2.track('t', start_column => 's', end_column => 's');
SELECT scd2.track('t', start_column => 's', current_column => 'v');
SELECT scd2.track('t', start_column => NULL);
-- type
SELECT scd2.track('t', stored_as_scd_type => 3);
SELECT scd2.track('t', stored_as_scd_type => 1, track_history_column_list => '{v}');
SELECT scd2.track('t', stored_as_scd_type => 1, track_history_except_column_list => '{v}');
SELECT scd2.track('t', stored_as_scd_type => 1, current_column => 'c');
SELECT scd2.track('t', stored_as_scd_type => 1, open_row_index => true);
SELECT scd2.track('t', stored_as_scd_type => 1, initial_start => 'created');
-- expressions
SELECT scd2.track('t', start_column => 's', initial_start => 'nope');
SELECT scd2.track('t', start_column => 's', initial_start => 'id');
SELECT scd2.track('t', start_column => 's', initial_start => 'created created2');
SELECT scd2.track('t', start_column => 's', initial_start => 'created) FROM t; DROP TABLE t; --');
SELECT scd2.track('t', start_column => 's', initial_start => 'max(created)');
SELECT scd2.track('t', start_column => 's', initial_start => '(SELECT now())');
SELECT scd2.track('t', start_column => 's', initial_start => 'clock_timestamp()');
SELECT scd2.track('t', start_column => 's', initial_start => 'created, created');
-- versions and intervals
\set VERBOSITY terse
SELECT scd2.track('t', start_column => 's', starting_version => -1);
SELECT scd2.track('t', start_column => 's', starting_version => 999999999) IS NULL;
SELECT scd2.track('t', start_column => 's', refresh_interval => '-1 s');
\set VERBOSITY default
-- the target
CREATE TABLE other (id integer, v text);
CREATE TABLE rows_in_it (id integer PRIMARY KEY, v text, created timestamptz, __start_at integer);
INSERT INTO rows_in_it VALUES (1);
CREATE TABLE wrong_type (id integer PRIMARY KEY, v varchar(10), created timestamptz, __start_at integer);
CREATE TABLE wrong_key (id integer, v text, created timestamptz, __start_at integer PRIMARY KEY);
CREATE TABLE wrong_collation (id integer PRIMARY KEY, v text COLLATE "C", created timestamptz, __start_at integer);
CREATE TABLE more (id integer PRIMARY KEY, v text, created timestamptz, __start_at integer, needed integer NOT NULL);
CREATE TABLE made (id integer PRIMARY KEY, v text GENERATED ALWAYS AS ('x') STORED, created timestamptz, __start_at integer);
CREATE TABLE parts (id integer PRIMARY KEY, v text, created timestamptz, __start_at integer) PARTITION BY RANGE (id);
CREATE VIEW seen AS SELECT * FROM t;
SELECT scd2.track('t', target, stored_as_scd_type => 1) FROM unnest('{other,rows_in_it}'::text[]) AS target LIMIT 1;
SELECT scd2.track('t', 'rows_in_it', stored_as_scd_type => 1);
SELECT scd2.track('t', 'wrong_type', stored_as_scd_type => 1);
SELECT scd2.track('t', 'wrong_key', stored_as_scd_type => 1);
SELECT scd2.track('t', 'wrong_collation', stored_as_scd_type => 1);
SELECT scd2.track('t', 'more', stored_as_scd_type => 1);
SELECT scd2.track('t', 'made', stored_as_scd_type => 1);
SELECT scd2.track('t', 'parts', stored_as_scd_type => 1);
SELECT scd2.track('t', 'seen', stored_as_scd_type => 1);
SELECT scd2.track('t', 't', stored_as_scd_type => 1);
SELECT scd2.track('t', 't_changes', stored_as_scd_type => 1);
SELECT scd2.track('t', 'nowhere.x', stored_as_scd_type => 1);
SELECT scd2.track('t', 'a.b.c', stored_as_scd_type => 1);
-- a circle, and a target that is taken
CREATE TABLE a (id integer PRIMARY KEY, v text);
SELECT scd2.track('a', 'b', stored_as_scd_type => 1, apply_as_truncates => 'false');
SELECT scd2.track('a', 'b', stored_as_scd_type => 1, apply_as_truncates => 'false');
SELECT scd2.track('b', 'c', stored_as_scd_type => 1);
SELECT scd2.track('c', 'a', stored_as_scd_type => 1);
-- what does not go together, or is not supported yet, by name
SELECT scd2.track('t', sequence_by => 'id');
SELECT scd2.track('t', delete_sequence_by => 'id');
SELECT scd2.track('t', shared => true);
SELECT scd2.track('t', on_invalid_event => 'quarantine');
SELECT scd2.track('t', max_lateness => '1 day');
SELECT scd2.create_auto_cdc_flow('x', 't_changes', '{id}', ignore_null_updates => true);
SELECT scd2.create_auto_cdc_flow('x', 't_changes', '{id}', ignore_null_updates_column_list => '{v}');
SELECT scd2.create_auto_cdc_flow('x', 't_changes', '{id}', ignore_null_updates_except_column_list => '{v}');
SELECT scd2.create_auto_cdc_flow('x', 't_changes', '{id}', once => true);
SELECT scd2.create_auto_cdc_flow('x', 't_changes', '{id}', end_sequence_by => 'id');
SELECT scd2.create_auto_cdc_flow('x', 't', '{id}');
SELECT scd2.create_auto_cdc_flow('x', 'other', '{id}');
SELECT scd2.create_auto_cdc_flow(NULL, 't_changes', '{id}');
-- rights
SET ROLE flow_stranger;
SELECT scd2.track('t', stored_as_scd_type => 1);
SELECT scd2.create_auto_cdc_flow('x', 't_changes', '{id}');
SELECT scd2.untrack('a');
SELECT scd2.pause_flow('b');
SELECT scd2.resume_flow('b');
SELECT scd2.drop_flow('b');
SELECT scd2.full_refresh('b');
RESET ROLE;
GRANT CREATE ON SCHEMA flow_refusals TO flow_stranger;
SET ROLE flow_stranger;
CREATE TABLE theirs (id integer PRIMARY KEY, v text);
CREATE TABLE their_target (id integer PRIMARY KEY, v text);
RESET ROLE;
REVOKE CREATE ON SCHEMA flow_refusals FROM flow_stranger;
SELECT scd2.enable_change_feed('theirs');
SET ROLE flow_stranger;
SELECT scd2.track('theirs');
SELECT scd2.track('theirs', 'their_target', stored_as_scd_type => 1);
SELECT scd2.track('theirs', 'rows_in_it', stored_as_scd_type => 1);
RESET ROLE;
-- no such thing
SELECT scd2.pause_flow('nope');
SELECT scd2.drop_flow('nope');
SELECT scd2.untrack('nokey');
SELECT scd2.full_refresh('nokey');
SELECT scd2.create_auto_cdc_flow('x', 't_changes', '{id}', name => 'b');
-- nothing was left behind
SELECT relname FROM pg_class WHERE relnamespace = 'flow_refusals'::regnamespace AND relkind = 'r' ORDER BY 1;

SELECT scd2.untrack(s, drop_targets => true, drop_feed => true) FROM unnest('{b,a}'::regclass[]) AS s;
SELECT scd2.disable_change_feed(s, drop_feed => true) FROM unnest('{t,nokey,loose,theirs}'::regclass[]) AS s;
DROP SCHEMA flow_refusals CASCADE;
DROP ROLE flow_stranger;
