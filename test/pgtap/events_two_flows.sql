-- Two flows of events into one target, at work at the same time, bring it to what one flow makes of
-- all the events.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(10 + 1);
CREATE TABLE ev (batch int, half int, k int, v text, u int, s int, op text);
CREATE TABLE one (k int, v text, u int, s int, op text);
CREATE TABLE first (LIKE one);
CREATE TABLE second (LIKE one);
INSERT INTO ev SELECT floor(random() * 4), floor(random() * 2), k, chr(97 + floor(random() * 3)::int), floor(random() * 4), floor(random() * 12),
    CASE WHEN random() < 0.2 THEN 'D' WHEN k = 1 AND random() < 0.1 THEN 'T' ELSE 'U' END FROM generate_series(1, 3000) AS k, generate_series(1, 8);
\o /dev/null
SELECT scd2.create_auto_cdc_flow(t || '_h', s, '{k}', 'struct(s, 1)', apply_as_deletes => 'op = ''D''', apply_as_truncates => 'op = ''T''', column_list => '{k,v,u}', track_history_column_list => '{v}', stored_as_scd_type => 2)
    FROM (VALUES ('one', 'one'), ('two', 'first'), ('two', 'second')) AS f (t, s);
SELECT scd2.create_auto_cdc_flow(t || '_c', s, '{k}', 's', apply_as_deletes => 'op = ''D''', apply_as_truncates => 'op = ''T''', column_list => '{k,v,u}')
    FROM (VALUES ('one', 'one'), ('two', 'first'), ('two', 'second')) AS f (t, s);
SELECT scd2.sync('5min');
\o
CREATE FUNCTION load(n int) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT format('INSERT INTO %I SELECT k, v, u, s, op FROM ev WHERE batch = %s AND (%s) ORDER BY random()', t, n, which)
    FROM (VALUES ('one', 'true'), ('first', 'half = 0'), ('second', 'half = 1')) AS q (t, which) $$;
CREATE VIEW history_differs AS (SELECT k, v, u, (__start_at).s AS "from", (__end_at).s AS "to" FROM one_h EXCEPT ALL SELECT k, v, u, (__start_at).s, (__end_at).s FROM two_h)
    UNION ALL (SELECT k, v, u, (__start_at).s, (__end_at).s FROM two_h EXCEPT ALL SELECT k, v, u, (__start_at).s, (__end_at).s FROM one_h);
CREATE VIEW current_differs AS (TABLE one_c EXCEPT ALL TABLE two_c) UNION ALL (TABLE two_c EXCEPT ALL TABLE one_c);
SELECT load(0) \gexec
SELECT load(1) \gexec
SELECT scd2.sync('5min') \g /dev/null
SELECT is_empty('TABLE history_differs', 'histories after two batches');
SELECT is_empty('TABLE current_differs', 'current rows after two batches');
SELECT load(2) \gexec
SELECT load(3) \gexec
SELECT scd2.sync('5min') \g /dev/null
SELECT is_empty('TABLE history_differs', 'histories after all batches');
SELECT is_empty('TABLE current_differs', 'current rows after all batches');
-- again, through the other flow
INSERT INTO second TABLE first;
SELECT scd2.sync('5min') \g /dev/null
SELECT is_empty('TABLE history_differs', 'histories after events came again by the other flow');
SELECT is_empty('TABLE current_differs', 'current rows after events came again by the other flow');
SELECT scd2.full_refresh('two_h'), scd2.full_refresh('two_c') \g /dev/null
SELECT scd2.sync('5min') \g /dev/null
SELECT is_empty('TABLE history_differs', 'histories after a rebuild');
SELECT is_empty('TABLE current_differs', 'current rows after a rebuild');
SELECT is_empty($$SELECT flow, state, last_error FROM scd2.flows WHERE state <> 'running' OR events <> applied + duplicates + rejected + too_late + skipped$$, 'counters add up');
SELECT isnt((SELECT count(*) FROM two_h), 0::bigint, 'there was something to compare');
\ir parts/memory.sql
SELECT * FROM finish();
