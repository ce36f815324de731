-- A horizon against the definition: thousands of keys, random order, several batches. What is taken
-- follows from the order of arrival alone, and that memory below the horizon is forgotten never
-- shows.
\set QUIET on
SET client_min_messages = warning;
SELECT 6 AS batches, 600 AS keys, 25 AS lateness \gset
CREATE TABLE cases (name text, sequence_by text, lateness text);
INSERT INTO cases VALUES ('number', 's::bigint', :'lateness'), ('day', 'timestamptz ''2001-01-01'' + s * interval ''1 day''', :'lateness' || ' days');
CREATE TABLE targets (t text, says text, type int, columns text, tracked text, ignores text[], more text);
INSERT INTO targets VALUES
    ('_h', 'history with an untracked column', 2, 'k, p, t, u', 't', '{}', 'track_history_column_list => ''{t}'''),
    ('_a', 'history', 2, 'k, p, t, u, s', 't, u', '{}', ''),
    ('_c', 'current rows', 1, 'k, p, t, u', 't, u', '{}', ''),
    ('_s', 'current rows that show their sequence', 1, 'k, p, t, u, s', 't, u', '{}', ''),
    ('_n', 'history, with NULLs that say nothing', 2, 'k, p, t, u', 't', '{t,u}', 'track_history_column_list => ''{t}'', ignore_null_updates => true'),
    ('_m', 'current rows, with NULLs that say nothing', 1, 'k, p, t, u', 't, u', '{u}', 'ignore_null_updates_except_column_list => ''{t}''');
SELECT plan(2 * (:batches * 6 + 2) + 1);
SELECT coalesce(nullif(current_setting('scd2.seed', true), '')::float, extract(epoch FROM clock_timestamp())::int % 1000 / 1000.0) AS seed \gset
\echo '# again: PGOPTIONS=-cscd2.seed=':seed
SELECT setseed(:seed) \g /dev/null

\ir ../oracle/events.sql
\ir ../oracle/batches.sql

CREATE FUNCTION check_all(events text, sequence_by text, at text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT is(differences(events || t, columns || CASE type WHEN 2 THEN ', __start_at, __end_at' ELSE '' END,
                          format(CASE type WHEN 2 THEN '%s, start, "end" FROM (%s) AS x' ELSE '%s FROM (%s) AS x WHERE "end" IS NULL' END, columns, expected(events, sequence_by, tracked, NULL, ignores))),
              0::bigint, format('%s: %s, %s', events, says, at))
    FROM targets ORDER BY t $$;
-- (batch 0 is there before the flows)
SELECT make_events(name, :keys, :batches, 20, 60, 0.002) FROM cases \g /dev/null
SELECT format('CREATE VIEW %I AS SELECT k, p, t, u, s, op, cut FROM (SELECT *, max(s) OVER (ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS seen FROM %I) AS q WHERE batch = 0 OR s IS NULL OR s >= seen - %s', name, name || '_in', :lateness) FROM cases \gexec
SELECT insert_batch(name, 0) FROM cases \gexec
\o /dev/null
SELECT format('SELECT scd2.create_auto_cdc_flow(%L, %L, ''{k,p}'', %L, apply_as_deletes => ''op = ''''D'''''', apply_as_truncates => ''cut'', on_invalid_event => ''quarantine'', max_lateness => %L, stored_as_scd_type => %s, column_list => %L %s)',
              name || t, name || '_in', sequence_by, lateness, type, '{' || replace(columns, ' ', '') || '}', ', ' || nullif(more, '')) FROM cases, targets \gexec
SELECT scd2.sync('10min');
\o
SELECT check_all(name, sequence_by, 'first rows') FROM cases;
SELECT insert_batch(name, 1) FROM cases \gexec
\o /dev/null
SELECT scd2.sync('10min');
\o
SELECT check_all(name, sequence_by, 'batch 1') FROM cases;
SELECT insert_batch(name, 2) FROM cases \gexec
\o /dev/null
SELECT scd2.sync('10min');
\o
SELECT check_all(name, sequence_by, 'batch 2') FROM cases;
-- no stop between two
SELECT insert_batch(name, 3) FROM cases \gexec
SELECT insert_batch(name, 4) FROM cases \gexec
\o /dev/null
SELECT scd2.sync('10min');
\o
SELECT check_all(name, sequence_by, 'batches 3 and 4') FROM cases;
SELECT insert_batch(name, 5) FROM cases \gexec
\o /dev/null
SELECT scd2.sync('10min');
\o
SELECT check_all(name, sequence_by, 'batch 5') FROM cases;
-- all again: most is too late
SELECT format('INSERT INTO %I (batch, k, p, t, u, s, op, cut) SELECT batch + 1, k, p, t, u, s, op, cut FROM %I ORDER BY n', name || '_in', name || '_in') FROM cases \gexec
\o /dev/null
SELECT scd2.sync('10min');
\o
SELECT check_all(name, sequence_by, 'all again') FROM cases;

-- what is too late is counted and kept; memory does not grow for ever
CREATE FUNCTION refused(name text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    EXECUTE format('SELECT (SELECT count(*) FROM %I) - (SELECT count(*) FROM %I)', name || '_in', name) INTO n;
    RETURN n;
END $$;
SELECT is((SELECT array_agg(DISTINCT ARRAY[f.too_late - refused(name), events - applied - duplicates - rejected - too_late - skipped]) FROM scd2.flows AS f WHERE f.source = (name || '_in')::regclass), '{{0,0}}', name || ': too late events are counted, and the counters add up') FROM cases;
SELECT is((SELECT count(*) FROM scd2.rejected_events AS r WHERE r.flow = name || '_n' AND reason LIKE 'too late%'), refused(name), name || ': and kept') FROM cases;
\ir parts/memory.sql
SELECT * FROM finish();
