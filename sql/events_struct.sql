-- A sequence of several fields: compared field by field, the interval's columns are of a composite type made for the target.
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = error;
CREATE SCHEMA events_struct;
SET search_path = events_struct;
CREATE TABLE ev (k int, v text, day date, n int, "odd, (name" text, op text);
INSERT INTO ev VALUES (1, 'a', '2026-01-01', 1, 'x', 'U'), (1, 'b', '2026-01-01', 2, 'x', 'U');
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'struct(day, n)', apply_as_deletes => 'op = ''D''', stored_as_scd_type => 2, column_list => '{k,v}', on_invalid_event => 'quarantine');
SELECT scd2.create_auto_cdc_flow('c', 'ev', '{k}', 'named_struct(''the day'', greatest(day, date ''2026-01-01'') /* a, b ( */, ''nth'', n::numeric -- last
 )', apply_as_deletes => 'op = ''D''', column_list => '{k,v}', on_invalid_event => 'quarantine');
SELECT scd2.create_auto_cdc_flow('q', 'ev', '{k}', 'struct("odd, (name", day, abs(n))', column_list => '{k,v,day}', stored_as_scd_type => 2);
SELECT scd2.sync() >= 0;
\d h
\d h_sequence
\d c_sequence
\d q_sequence
TABLE h ORDER BY k, __start_at;
TABLE c;
INSERT INTO ev VALUES (1, 'c', '2026-01-02', 0, 'y', 'U'), (2, 'late', '2026-01-01', 5, 'y', 'U'), (2, NULL, '2026-01-03', 1, 'y', 'D');
SELECT scd2.sync() >= 0;
INSERT INTO ev VALUES (2, 'x', '2026-01-02', 7, 'z', 'U'), (1, 'd', '2026-01-01', 3, 'z', 'U'), (1, 'd', '2026-01-01', 3, 'z', 'U'), (1, 'n', '2026-01-01', NULL, '', 'U');
SELECT scd2.sync(targets => '{h,c}') >= 0;
TABLE h ORDER BY k, __start_at;
TABLE c ORDER BY k;
SELECT flow, reason, event ->> 'v' AS v FROM scd2.rejected_events ORDER BY 1;
SELECT flow, events, applied, duplicates, out_of_order, rejected FROM scd2.flows WHERE flow IN ('h', 'c') ORDER BY 1;
SELECT * FROM h_as_of(ROW('2026-01-01', 2)::h_sequence);
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM h_as_of(ROW('2026-01-01', 2)::h_sequence) WHERE k = 1;
RESET enable_seqscan;
SELECT scd2.full_refresh('h');
CREATE TABLE was AS TABLE h;
SELECT scd2.sync(targets => '{h,c}') >= 0;
SELECT count(*) FROM (TABLE h EXCEPT ALL TABLE was) AS x;
-- refused
SELECT scd2.create_auto_cdc_flow('r', 'ev', '{k}', 'struct()');
SELECT scd2.create_auto_cdc_flow('r', 'ev', '{k}', '(struct(day, n))');
SELECT scd2.create_auto_cdc_flow('r', 'ev', '{k}', 'named_struct(''a'', day, ''b'')');
SELECT scd2.create_auto_cdc_flow('r', 'ev', '{k}', 'named_struct(k, day)');
SELECT scd2.create_auto_cdc_flow('r', 'ev', '{k}', 'struct(day, day)');
SELECT scd2.create_auto_cdc_flow('r', 'ev', '{k}', 'struct(day, point(1, 2))');
DROP TABLE was;
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows WHERE source::text = 'ev';
SELECT typname FROM pg_type WHERE typnamespace = 'events_struct'::regnamespace AND typname LIKE '%sequence';
DROP SCHEMA events_struct CASCADE;
