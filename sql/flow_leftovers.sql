-- What drop_flow() takes along: what was made for the flow, and nothing that is the user's or the server's.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE SCHEMA flow_leftovers;
SET search_path = flow_leftovers;
CREATE TABLE ev (k integer, v text, s integer, op text);
INSERT INTO ev VALUES (1, 'a', 1, 'U');
CREATE FUNCTION left_over() RETURNS TABLE (kind text, name text) LANGUAGE sql AS $$
    SELECT 'relation', c.relname FROM pg_class c WHERE c.relnamespace = 'flow_leftovers'::regnamespace AND c.relkind IN ('r', 'c') AND c.relname NOT LIKE 'ev%'
    UNION ALL SELECT 'function', p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = 'flow_leftovers'::regnamespace AND p.proname <> 'left_over'
    UNION ALL SELECT 'trigger', t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = 'flow_leftovers'::regnamespace AND c.relname NOT LIKE 'ev%'
    ORDER BY 1, 2 $$;

-- a sequence whose expression was altered is still of the server's type
SELECT scd2.create_auto_cdc_flow('cur', 'ev', '{k}', 's', column_list => '{k,v}');
SELECT scd2.alter_flow('cur', sequence_by => 's + 0');
SELECT scd2.sync() >= 0 AS synced;
SELECT scd2.drop_flow('cur', drop_target => true);
SELECT * FROM left_over();

-- a sequence of several fields: with a target of type 1, or with the target
SELECT scd2.create_auto_cdc_flow('cur', 'ev', '{k}', 'struct(s, k)', column_list => '{k,v}');
SELECT scd2.create_auto_cdc_flow('hist', 'ev', '{k}', 'struct(s, k)', column_list => '{k,v}', stored_as_scd_type => 2);
SELECT * FROM left_over();
SELECT scd2.drop_flow('cur'), scd2.drop_flow('hist');
SELECT * FROM left_over();
DROP TABLE cur, hist;
DROP TYPE hist_sequence;
SELECT scd2.create_auto_cdc_flow('hist', 'ev', '{k}', 'struct(s, k)', column_list => '{k,v}', stored_as_scd_type => 2);
SELECT scd2.drop_flow('hist', drop_target => true);
SELECT * FROM left_over();

-- a type of the user's own
CREATE TYPE mine AS (a integer, b integer);
CREATE TABLE ev2 (k integer, v text, s mine);
SELECT scd2.create_auto_cdc_flow('cur', 'ev2', '{k}', 's', column_list => '{k,v}');
SELECT scd2.drop_flow('cur', drop_target => true);
SELECT * FROM left_over();

-- a function of the user's that looks like ours
CREATE TABLE t (id integer PRIMARY KEY);
SELECT scd2.track('t');
CREATE FUNCTION customers_as_of(timestamptz) RETURNS SETOF t_history LANGUAGE sql AS 'SELECT * FROM flow_leftovers.t_history_as_of($1)';
SELECT scd2.sync() >= 0 AS synced;
SELECT scd2.untrack('t');
SELECT * FROM left_over();
SELECT scd2.disable_change_feed('t', drop_feed => true), scd2.disable_change_feed('ev', drop_feed => true), scd2.disable_change_feed('ev2', drop_feed => true);
DROP SCHEMA flow_leftovers CASCADE;
