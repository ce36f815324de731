-- max_lateness: what is below the horizon is too late, whatever the batches are; what is remembered below it is forgotten.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = error;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, MDY';
CREATE SCHEMA events_late;
SET search_path = events_late;
CREATE TABLE ev (k int, v text, u int, seq int, op text);
INSERT INTO ev VALUES (1, 'first', 1, 100, 'U'), (1, 'before', 1, 10, 'U');      -- there before the flow: none is too late
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''D''', apply_as_truncates => 'op = ''T''', column_list => '{k,v,u}', track_history_column_list => '{v}', stored_as_scd_type => 2, max_lateness => '50');
SELECT scd2.create_auto_cdc_flow('c', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''D''', apply_as_truncates => 'op = ''T''', column_list => '{k,v,u}', max_lateness => '50');
SELECT scd2.create_auto_cdc_flow('n', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''D''', apply_as_truncates => 'op = ''T''', column_list => '{k,v,u}', track_history_column_list => '{v}', stored_as_scd_type => 2, max_lateness => '50', ignore_null_updates => true);
SELECT scd2.create_auto_cdc_flow('m', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''D''', apply_as_truncates => 'op = ''T''', column_list => '{k,v,u}', max_lateness => '50', ignore_null_updates => true);
SELECT scd2.sync() >= 0;
SELECT * FROM h ORDER BY k, __start_at;
-- in one transaction: what counts is what came before each
INSERT INTO ev VALUES (2, 'taken', 1, 50, 'U'), (2, 'too late', 1, 49, 'U'), (2, 'moves', 1, 120, 'U'), (2, 'too late', 1, 69, 'D'), (2, 'taken', 1, 70, 'D'), (NULL, NULL, NULL, 60, 'T'), (3, NULL, NULL, 75, 'D');
SELECT scd2.sync() >= 0;
SELECT * FROM h WHERE k > 1 ORDER BY k, __start_at;
SELECT change_ordinal, reason, event FROM scd2.rejected_events WHERE flow = 'h' ORDER BY version, change_ordinal;
SELECT flow, events, applied, duplicates, too_late, rejected FROM scd2.flows ORDER BY flow;
SELECT t, c.* FROM unnest('{h,c,n,m}'::text[]) AS t, scd2.check_target(t::regclass) AS c;
-- each row a transaction: the same are too late
CREATE TABLE one (LIKE ev);
SELECT scd2.create_auto_cdc_flow('h1', 'one', '{k}', 'seq', apply_as_deletes => 'op = ''D''', column_list => '{k,v,u}', stored_as_scd_type => 2, max_lateness => '50');
SELECT scd2.sync() >= 0;
INSERT INTO one VALUES (1, 'first', 1, 100, 'U');
INSERT INTO one VALUES (2, 'taken', 1, 50, 'U');
INSERT INTO one VALUES (2, 'too late', 1, 49, 'U');
INSERT INTO one VALUES (2, 'moves', 1, 120, 'U');
INSERT INTO one VALUES (2, 'too late', 1, 69, 'D');
INSERT INTO one VALUES (2, 'taken', 1, 70, 'D');
SELECT scd2.sync() >= 0;
SELECT * FROM h1 ORDER BY k, __start_at;
SELECT events, applied, too_late FROM scd2.flows WHERE flow = 'h1';

-- memory: deletes and hidden upserts below the horizon are forgotten (with the next batch that moves it), and do not come back; the current rows stay
INSERT INTO ev VALUES (4, 'run', 1, 130, 'U'), (4, 'run', 2, 140, 'U'), (4, 'run', NULL, 150, 'U'), (5, NULL, NULL, 141, 'D'), (6, 'one', NULL, 142, 'U'), (6, NULL, 6, 143, 'U'), (4, 'run', 4, 260, 'U');
SELECT scd2.sync() >= 0;
SELECT 'h' AS target, k, _sequence, _kind FROM h_memory UNION ALL SELECT 'c', k, _sequence, _kind FROM c_memory UNION ALL SELECT 'n', k, _sequence, _kind FROM n_memory UNION ALL SELECT 'm', k, _sequence, _kind FROM m_memory ORDER BY 1, 2, 3;
INSERT INTO ev VALUES (7, 'moves', 1, 261, 'U');
SELECT scd2.sync() >= 0;
SELECT 'h' AS target, k, _sequence, _kind FROM h_memory UNION ALL SELECT 'c', k, _sequence, _kind FROM c_memory UNION ALL SELECT 'n', k, _sequence, _kind FROM n_memory UNION ALL SELECT 'm', k, _sequence, _kind FROM m_memory ORDER BY 1, 2, 3;
INSERT INTO ev VALUES (5, 'must not come back', 1, 140, 'U'), (4, NULL, NULL, 230, 'D'), (6, 'two', NULL, 250, 'U'), (7, 'new', NULL, 251, 'U');
SELECT scd2.sync() >= 0;
SELECT * FROM h WHERE k >= 4 ORDER BY k, __start_at;
SELECT * FROM n WHERE k >= 4 ORDER BY k, __start_at;
SELECT * FROM c WHERE k >= 4 ORDER BY k;
SELECT * FROM m WHERE k >= 4 ORDER BY k;
-- a truncate finds the rows of which nothing is remembered any more
INSERT INTO ev VALUES (NULL, NULL, NULL, 255, 'T');
SELECT scd2.sync() >= 0;
SELECT * FROM h WHERE __end_at IS NULL ORDER BY k;
SELECT * FROM c ORDER BY k;
SELECT * FROM m ORDER BY k;

-- who comes later fills in history below the horizon, and changes nothing above it
CREATE TABLE old (k int, v text, u int, seq int);
INSERT INTO old VALUES (7, 'old', 0, 5), (7, 'older', 0, 1), (8, 'gone since', 0, 5), (4, 'old', 0, 20), (9, 'not so old', 0, 300);
SELECT scd2.create_auto_cdc_flow('h', 'old', '{k}', 'seq', column_list => '{k,v,u}', track_history_column_list => '{v}', stored_as_scd_type => 2, once => true);
SELECT scd2.create_auto_cdc_flow('c', 'old', '{k}', 'seq', column_list => '{k,v,u}', once => true);
SELECT scd2.create_auto_cdc_flow('m', 'old', '{k}', 'seq', column_list => '{k,v,u}', once => true, ignore_null_updates => true);
SELECT scd2.sync() >= 0;
SELECT * FROM h WHERE k >= 4 ORDER BY k, __start_at;
SELECT * FROM c ORDER BY k;
SELECT * FROM m ORDER BY k;
SELECT flow, state, events, applied, too_late FROM scd2.flows WHERE once ORDER BY flow;

-- marks below the horizon go too
SELECT target_name, kind, sequence FROM scd2_internal.mark WHERE target_schema = 'events_late' AND target_name IN ('h', 'c') ORDER BY target_name, mark_id;
INSERT INTO ev VALUES (10, 'moves', 1, 320, 'U');
SELECT scd2.sync() >= 0;
INSERT INTO ev VALUES (10, 'moves', 1, 321, 'U');
SELECT scd2.sync() >= 0;
SELECT target_name, kind, sequence FROM scd2_internal.mark WHERE target_schema = 'events_late' AND target_name IN ('h', 'c') ORDER BY target_name, mark_id;

-- set later, and changed: what was seen before does not count any more
SELECT scd2.alter_flow('h1', max_lateness => '10');
INSERT INTO one VALUES (2, 'later', 1, 200, 'U'), (2, 'too late', 1, 189, 'U');
SELECT scd2.sync() >= 0;
SELECT scd2.alter_flow('h1', max_lateness => '1000');
INSERT INTO one VALUES (2, 'taken: nothing was seen since', 1, 150, 'U'), (2, 'taken', 1, 195, 'U');
SELECT scd2.sync() >= 0;
SELECT * FROM h1 WHERE k = 2 ORDER BY __start_at;
SELECT events, applied, too_late FROM scd2.flows WHERE flow = 'h1';

-- times (clocks that are ahead: test/pgtap/clocks_ahead.sql); days of a date
CREATE TABLE clock (k int, v text, at timestamptz, day date);
SELECT scd2.create_auto_cdc_flow('t', 'clock', '{k}', 'at', column_list => '{k,v}', stored_as_scd_type => 2, max_lateness => '1 hour');
SELECT scd2.create_auto_cdc_flow('d', 'clock', '{k}', 'day', column_list => '{k,v}', stored_as_scd_type => 2, max_lateness => '7');
SELECT scd2.sync() >= 0;
INSERT INTO clock VALUES (1, 'now', '2001-11-30 12:00', '2001-11-30'), (1, 'taken', '2001-11-30 11:00', '2001-11-23'), (1, 'too late', '2001-11-30 10:59', '2001-11-22'), (1, 'ahead', 'infinity', 'infinity'), (1, 'ahead', now() + interval '2 years', current_date + 700);
SELECT scd2.sync() >= 0;
SELECT v, __start_at FROM t WHERE __start_at < '2027-01-01' ORDER BY __start_at;
SELECT v, __start_at FROM d WHERE __start_at < '2027-01-01' ORDER BY __start_at;
SELECT flow, too_late FROM scd2.flows WHERE flow IN ('t', 'd') ORDER BY flow;
SELECT flow, reason FROM scd2.rejected_events WHERE flow IN ('t', 'd') ORDER BY flow;
-- numbers
CREATE TABLE numbers (k int, n numeric, f float4, s smallint);
SELECT scd2.create_auto_cdc_flow('nn', 'numbers', '{k}', 'n', column_list => '{k,s}', stored_as_scd_type => 2, max_lateness => '0.5');
SELECT scd2.create_auto_cdc_flow('nf', 'numbers', '{k}', 'f', column_list => '{k,s}', stored_as_scd_type => 2, max_lateness => '0.5');
SELECT scd2.create_auto_cdc_flow('ns', 'numbers', '{k}', 's', column_list => '{k,n}', stored_as_scd_type => 2, max_lateness => '40000');
SELECT scd2.sync() >= 0;
INSERT INTO numbers VALUES (1, 'Infinity', 'Infinity', 5), (1, 1.5, 1.5, 6), (1, 1, 1, 7), (1, 0.9, 0.9, -32768);
SELECT scd2.sync() >= 0;
SELECT flow, events, too_late FROM scd2.flows WHERE source = 'numbers'::regclass ORDER BY flow;
-- a feed with a sequence of its own
CREATE TABLE captured (id int PRIMARY KEY, v text, seq int);
SELECT scd2.enable_change_feed('captured');
SELECT scd2.create_auto_cdc_flow('f', 'captured_changes', '{id}', 'seq', delete_sequence_by => 'seq', column_list => '{id,v}', stored_as_scd_type => 2, max_lateness => '10');
SELECT scd2.sync() >= 0;
INSERT INTO captured VALUES (1, 'a', 100), (2, 'b', 89), (3, 'c', 90);
UPDATE captured SET v = 'aa', seq = 80 WHERE id = 1;
DELETE FROM captured WHERE id = 3;
SELECT scd2.sync() >= 0;
SELECT * FROM f ORDER BY id;
SELECT change_ordinal, reason, event FROM scd2.rejected_events WHERE flow = 'f' ORDER BY version, change_ordinal;

-- a rebuild takes what is there as it is there: nothing is too late
SELECT scd2.full_refresh('h1');
SELECT scd2.sync() >= 0;
SELECT count(*), count(*) FILTER (WHERE v LIKE 'too late') FROM h1;
SELECT count(*) FROM scd2.rejected_events WHERE flow = 'h1';

-- refused
SELECT scd2.create_auto_cdc_flow('x', 'ev', '{k}', 'seq', max_lateness => '7 days');
SELECT scd2.create_auto_cdc_flow('x', 'ev', '{k}', 'seq', max_lateness => '-1');
SELECT scd2.create_auto_cdc_flow('x', 'clock', '{k}', 'at', max_lateness => '-1 day');
SELECT scd2.create_auto_cdc_flow('x', 'clock', '{k}', 'at', max_lateness => 'soon');
SELECT scd2.create_auto_cdc_flow('x', 'ev', '{k}', 'v', max_lateness => '1');
SELECT scd2.create_auto_cdc_flow('x', 'ev', '{k}', 'struct(seq, u)', max_lateness => '1');
SELECT scd2.create_auto_cdc_flow('x', 'ev', '{k}', 'seq', max_lateness => '1', once => true);
SELECT scd2.create_auto_cdc_flow('x', 'captured_changes', '{id}', max_lateness => '1 day');
SELECT scd2.alter_flow('h1', max_lateness => 'x');
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows;
DROP SCHEMA events_late CASCADE;
