-- Event tables against the definition, in plain SQL over all events so far: thousands of keys (each one a random set of events) in random order, in several batches, with
-- rows that are there before, late events, duplicates, ties, deletes, NULLs, truncates and invalid events; both SCD types, after every batch, after a rebuild and after everything was sent again.
-- (7,000 sets of events, each into four targets.)
\set QUIET on
SET client_min_messages = warning;
SELECT 5 AS batches, 1400 AS keys \gset

CREATE TABLE cases (name text, sequence_by text, sequence_type text, truncates boolean);
INSERT INTO cases VALUES
    ('bigint', 's::bigint', 'bigint', false),
    ('day', 'timestamptz ''2026-01-01'' + s * interval ''1 day''', 'timestamptz', true),
    ('number', 'CASE s WHEN 7 THEN ''NaN'' ELSE s / 10.0 END', 'numeric', true),
    ('word', 'to_char(s, ''FM000'')', 'text', false),
    ('float', 'nullif(s, 3)::float8', 'double precision', true);
SELECT plan(5 * ((:batches + 2) * 4 + 4));
SELECT setseed(coalesce(nullif(current_setting('scd2.seed', true), '')::float, extract(epoch FROM clock_timestamp())::int % 1000 / 1000.0)) \g /dev/null

\ir ../oracle/events.sql

CREATE FUNCTION check_all(events text, sequence_by text, at text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    RETURN NEXT is(differences(events || '_h', 'k, p, t, u, __start_at, __end_at', format('k, p, t, u, start, "end" FROM (%s) AS x', expected(events, sequence_by, 't'))), 0::bigint, format('%s: history with an untracked column, %s', events, at));
    RETURN NEXT is(differences(events || '_a', 'k, p, t, u, s, __start_at, __end_at', format('k, p, t, u, s, start, "end" FROM (%s) AS x', expected(events, sequence_by, 't, u'))), 0::bigint, format('%s: history, %s', events, at));
    RETURN NEXT is(differences(events || '_c', 'k, p, t, u', format('k, p, t, u FROM (%s) AS x WHERE "end" IS NULL', expected(events, sequence_by, 't, u'))), 0::bigint, format('%s: current rows, %s', events, at));
    RETURN NEXT is(differences(events || '_s', 'k, p, t, u, s', format('k, p, t, u, s FROM (%s) AS x WHERE "end" IS NULL', expected(events, sequence_by, 't, u'))), 0::bigint, format('%s: current rows that show their sequence, %s', events, at));
END $$;

-- All events of a case, in the order in which they will be inserted: "batch" 0 is there before the flows.
CREATE FUNCTION make_events(name text, keys int, batches int, truncates boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE %I (batch int, k int, p text, t text, u int, s int, op text, cut boolean)', name || '_all');
    EXECUTE format($q$INSERT INTO %I
        SELECT floor(random() * $2), key, CASE WHEN random() < 0.001 THEN NULL ELSE CASE key %% 2 WHEN 0 THEN 'a' ELSE 'b' END END,
               CASE WHEN random() < 0.1 THEN NULL ELSE chr(97 + floor(random() * 3)::int) END, floor(random() * 4), CASE WHEN random() < 0.002 THEN NULL ELSE floor(random() * (3 + n * 1.5)) END,
               CASE WHEN random() < 0.2 THEN 'D' WHEN random() < 0.05 THEN NULL ELSE 'U' END, false
        FROM (SELECT key, CASE WHEN key %% 500 = 0 THEN 300 WHEN key %% 20 = 0 THEN 60 ELSE 1 + floor(random() * 10)::int END AS n FROM generate_series(1, $1) AS key) AS g, generate_series(1, n)$q$, name || '_all') USING keys, batches;
    IF truncates THEN
        EXECUTE format('INSERT INTO %I SELECT floor(random() * $1), NULL, NULL, NULL, NULL, CASE n WHEN 8 THEN NULL ELSE floor(random() * n * 3) END, ''T'', true FROM generate_series(1, 8) AS n', name || '_all') USING batches;
    END IF;
    EXECUTE format('INSERT INTO %1$I SELECT floor(random() * $1), k, p, t, u, s, op, cut FROM %1$I WHERE random() < 0.15', name || '_all') USING batches;
    EXECUTE format('CREATE TABLE %I (k int, p text, t text, u int, s int, op text, cut boolean)', name);
END $$;
CREATE FUNCTION insert_batch(name text, batch int) RETURNS text LANGUAGE sql AS $$
    SELECT format('INSERT INTO %I SELECT k, p, t, u, s, op, cut FROM %I WHERE batch = %s ORDER BY random()', name, name || '_all', batch) $$;
CREATE FUNCTION create_flow(name text, sequence_by text, target text, more text) RETURNS text LANGUAGE sql AS $$
    SELECT format('SELECT scd2.create_auto_cdc_flow(%L, %L, ''{k,p}'', %L, apply_as_deletes => ''op = ''''D'''''', apply_as_truncates => ''cut'', on_invalid_event => ''quarantine'', %s)', name || target, name, sequence_by, more) $$;

SELECT make_events(name, :keys, :batches, truncates) FROM cases \g /dev/null
SELECT insert_batch(name, 0) FROM cases \gexec
\o /dev/null
SELECT create_flow(name, sequence_by, '_h', 'stored_as_scd_type => 2, column_list => ''{k,p,t,u}'', track_history_column_list => ''{t}'''),
       create_flow(name, sequence_by, '_a', 'stored_as_scd_type => 2, except_column_list => ''{op,cut}'', open_row_index => true'),
       create_flow(name, sequence_by, '_c', 'column_list => ''{k,p,t,u}'''),
       create_flow(name, sequence_by, '_s', 'except_column_list => ''{op,cut}''') FROM cases \gexec
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
SELECT insert_batch(name, 3) FROM cases \gexec
\o /dev/null
SELECT scd2.sync('10min');
\o
SELECT check_all(name, sequence_by, 'batch 3') FROM cases;
SELECT insert_batch(name, 4) FROM cases \gexec
\o /dev/null
SELECT scd2.sync('10min');
\o
SELECT check_all(name, sequence_by, 'batch 4') FROM cases;

-- everything again: nothing is written (memory forgets what a truncate has come to imply)
CREATE FUNCTION places(target text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    hash text;
BEGIN
    EXECUTE format('SELECT md5(string_agg(ctid || xmin::text, '','' ORDER BY ctid)) FROM %I', target) INTO hash;
    RETURN hash;
END $$;
CREATE TABLE before AS SELECT name || t || m AS target, places(name || t || m) AS hash FROM cases, unnest('{_h,_a,_c,_s}'::text[]) AS t, unnest(ARRAY['', '_memory']) AS m WHERE NOT truncates OR m = '';
SELECT format('INSERT INTO %I SELECT k, p, t, u, s, op, cut FROM %I ORDER BY random()', name, name || '_all') FROM cases \gexec
\o /dev/null
SELECT scd2.sync('10min');
\o
SELECT check_all(name, sequence_by, 'everything again') FROM cases;
SELECT is((SELECT array_agg(b.target ORDER BY b.target) FROM before AS b WHERE b.target LIKE name || '\_%' AND b.hash IS DISTINCT FROM places(b.target)), NULL, name || ': events that come again write nothing') FROM cases;

-- counters add up; what is invalid is in rejected_events
SELECT is((SELECT count(*) FROM scd2.flows WHERE source = name::regclass AND (events <> applied + duplicates + rejected + too_late + skipped OR state <> 'running'))::int, 0, name || ': counters add up') FROM cases;
CREATE FUNCTION invalid(name text, sequence_by text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM (SELECT *, %s AS seq FROM %I) AS q WHERE seq IS NULL OR seq::text = ''NaN'' OR NOT cut AND (k IS NULL OR p IS NULL)', sequence_by, name) INTO n;
    RETURN n;
END $$;
SELECT is((SELECT array_agg(DISTINCT f.rejected) FROM scd2.flows AS f WHERE f.source = name::regclass), ARRAY[invalid(name, sequence_by)], name || ': invalid events are counted') FROM cases;
SELECT is((SELECT count(*) FROM scd2.rejected_events AS r WHERE r.flow = name || '_h'), invalid(name, sequence_by), name || ': and kept') FROM cases;

-- a rebuild gives the same
\o /dev/null
SELECT format('SELECT scd2.full_refresh(%L)', name || t) FROM cases, unnest('{_h,_a,_c,_s}'::text[]) AS t \gexec
SELECT scd2.sync('10min');
\o
SELECT check_all(name, sequence_by, 'rebuilt') FROM cases;

SELECT * FROM finish();
