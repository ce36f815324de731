-- Event tables against the definition, in plain SQL over all events so far: thousands of keys (each
-- one a random set of events) in random order, in several batches, with rows that are there before,
-- late events, duplicates, ties, deletes, NULLs, truncates, ends and invalid events; both SCD
-- types, tracked columns, NULL that says nothing; after every batch, after a rebuild and after
-- everything was sent again. (5,400 sets of events, each into eight targets.)
\set QUIET on
SET client_min_messages = warning;
SELECT 5 AS batches, 900 AS keys \gset

CREATE TABLE cases (name text, sequence_by text, sequence_type text, truncates boolean);
INSERT INTO cases VALUES
    ('bigint', 's::bigint', 'bigint', false),
    ('day', 'timestamptz ''2026-01-01'' + s * interval ''1 day''', 'timestamptz', true),
    ('number', 'CASE s WHEN 7 THEN ''NaN'' ELSE s / 10.0 END', 'numeric', true),
    ('word', 'to_char(s, ''FM000'')', 'text', false),
    ('of_name', 'to_char(s, ''FM000'')::name', 'name', false),
    ('float', 'nullif(s, 3)::float8', 'double precision', true);
SELECT plan(6 * ((:batches + 2) * 8 + 4) + 1);
SELECT coalesce(nullif(current_setting('scd2.seed', true), '')::float, extract(epoch FROM clock_timestamp())::int % 1000 / 1000.0) AS seed \gset
\echo '# again: PGOPTIONS=-cscd2.seed=':seed
SELECT setseed(:seed) \g /dev/null

\ir ../oracle/events.sql

-- The targets. "ignores": columns in which NULL says nothing.
CREATE TABLE targets (t text, says text, type int, columns text, tracked text, ends boolean, ignores text[], more text);
INSERT INTO targets VALUES
    ('_h', 'history with an untracked column', 2, 'k, p, t, u', 't', false, '{}', 'track_history_column_list => ''{t}'''),
    ('_a', 'history', 2, 'k, p, t, u, s', 't, u', false, '{}', 'open_row_index => true'),
    ('_c', 'current rows', 1, 'k, p, t, u', 't, u', false, '{}', ''),
    ('_s', 'current rows that show their sequence', 1, 'k, p, t, u, s', 't, u', false, '{}', ''),
    ('_e', 'history of rows with ends', 2, 'k, p, t, u', 't', true, '{}', 'track_history_column_list => ''{t}'', end_sequence_by => %L'),
    ('_x', 'current rows of rows with ends', 1, 'k, p, t, u', 't, u', true, '{}', 'end_sequence_by => %L'),
    ('_n', 'history of rows with ends, with NULLs that say nothing', 2, 'k, p, t, u', 't', true, '{t,u}', 'track_history_column_list => ''{t}'', end_sequence_by => %L, ignore_null_updates => true'),
    ('_m', 'current rows, with NULLs that say nothing', 1, 'k, p, t, u', 't, u', false, '{u}', 'ignore_null_updates_except_column_list => ''{t}''');
CREATE FUNCTION ends(sequence_by text) RETURNS text LANGUAGE sql AS $$ SELECT regexp_replace(sequence_by, '\ms\M', 'e', 'g') $$;

CREATE FUNCTION check_all(events text, sequence_by text, at text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT is(differences(events || t, columns || CASE type WHEN 2 THEN ', __start_at, __end_at' ELSE '' END,
                          format(CASE type WHEN 2 THEN '%s, start, "end" FROM (%s) AS x' ELSE '%s FROM (%s) AS x WHERE "end" IS NULL' END, columns, expected(events, sequence_by, tracked, CASE WHEN ends THEN ends(sequence_by) END, ignores))),
              0::bigint, format('%s: %s, %s', events, says, at))
    FROM targets ORDER BY t $$;

-- All events of a case, in the order in which they will be inserted: "batch" 0 is there before the flows.
CREATE FUNCTION make_events(name text, keys int, batches int, truncates boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE %I (batch int, k int, p text, t text, u int, s int, e int, op text, cut boolean)', name || '_all');
    EXECUTE format($q$INSERT INTO %I
        SELECT floor(random() * $2), key, CASE WHEN random() < 0.001 THEN NULL ELSE CASE key %% 2 WHEN 0 THEN 'a' ELSE 'b' END END,
               CASE WHEN random() < 0.2 THEN NULL ELSE chr(97 + floor(random() * 3)::int) END, CASE WHEN random() < 0.2 THEN NULL ELSE floor(random() * 4) END, s,
               CASE WHEN random() < 0.2 THEN s + 1 + floor(random() * 5) WHEN random() < 0.003 THEN s END,
               CASE WHEN random() < 0.2 THEN 'D' WHEN random() < 0.05 THEN NULL ELSE 'U' END, false
        FROM (SELECT key, CASE WHEN key %% 500 = 0 THEN 300 WHEN key %% 20 = 0 THEN 60 ELSE 1 + floor(random() * 10)::int END AS n FROM generate_series(1, $1) AS key) AS g, generate_series(1, n) AS i, LATERAL (SELECT CASE WHEN random() < 0.002 THEN NULL ELSE floor(random() * (3 + n * 1.5) + i * 0) END AS s) AS l$q$, name || '_all') USING keys, batches;
    IF truncates THEN
        EXECUTE format('INSERT INTO %I SELECT floor(random() * $1), NULL, NULL, NULL, NULL, CASE n WHEN 8 THEN NULL ELSE floor(random() * n * 3) END, NULL, ''T'', true FROM generate_series(1, 8) AS n', name || '_all') USING batches;
    END IF;
    EXECUTE format('INSERT INTO %1$I SELECT floor(random() * $1), k, p, t, u, s, e, op, cut FROM %1$I WHERE random() < 0.15', name || '_all') USING batches;
    EXECUTE format('CREATE TABLE %I (k int, p text, t text, u int, s int, e int, op text, cut boolean)', name);
END $$;
CREATE FUNCTION insert_batch(name text, batch int) RETURNS text LANGUAGE sql AS $$
    SELECT format('INSERT INTO %I SELECT k, p, t, u, s, e, op, cut FROM %I WHERE batch = %s ORDER BY random()', name, name || '_all', batch) $$;
CREATE FUNCTION create_flow(name text, sequence_by text, target text) RETURNS text LANGUAGE sql AS $$
    SELECT format('SELECT scd2.create_auto_cdc_flow(%L, %L, ''{k,p}'', %L, apply_as_deletes => ''op = ''''D'''''', apply_as_truncates => ''cut'', on_invalid_event => ''quarantine'', stored_as_scd_type => %s, column_list => %L %s)',
                  name || target, name, sequence_by, type, '{' || replace(columns, ' ', '') || '}', ', ' || nullif(format(more, ends(sequence_by)), ''))
    FROM targets WHERE t = target $$;

SELECT make_events(name, :keys, :batches, truncates) FROM cases \g /dev/null
SELECT insert_batch(name, 0) FROM cases \gexec
\o /dev/null
SELECT create_flow(name, sequence_by, t) FROM cases, targets \gexec
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
CREATE TABLE before AS SELECT name || t || m AS target, places(name || t || m) AS hash FROM cases, (SELECT t FROM targets) AS q, unnest(ARRAY['', '_memory']) AS m WHERE NOT truncates OR m = '';
SELECT format('INSERT INTO %I SELECT k, p, t, u, s, e, op, cut FROM %I ORDER BY random()', name, name || '_all') FROM cases \gexec
\o /dev/null
SELECT scd2.sync('10min');
\o
SELECT check_all(name, sequence_by, 'everything again') FROM cases;
SELECT is((SELECT array_agg(b.target ORDER BY b.target) FROM before AS b WHERE b.target LIKE name || '\_%' AND b.hash IS DISTINCT FROM places(b.target)), NULL, name || ': events that come again write nothing') FROM cases;

-- counters add up; what is invalid is in rejected_events
SELECT is((SELECT count(*) FROM scd2.flows WHERE source = name::regclass AND (events <> applied + duplicates + rejected + too_late + skipped OR state <> 'running'))::int, 0, name || ': counters add up') FROM cases;
CREATE FUNCTION invalid(name text, sequence_by text, with_ends boolean) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    EXECUTE format('SELECT (SELECT count(*) FROM %1$I WHERE NOT cut) - (SELECT count(*) FROM (%2$s) AS v) + (SELECT count(*) FROM (SELECT %3$s AS seq FROM %1$I WHERE cut) AS c WHERE seq IS NULL OR seq::text = ''NaN'')',
                   name, valid(name, sequence_by, CASE WHEN with_ends THEN ends(sequence_by) END), sequence_by) INTO n;
    RETURN n;
END $$;
SELECT is((SELECT array_agg(DISTINCT f.rejected - invalid(name, sequence_by, g.ends)) FROM scd2.flows AS f JOIN targets AS g ON f.flow = name || g.t), '{0}', name || ': invalid events are counted') FROM cases;
SELECT is((SELECT count(*) FROM scd2.rejected_events AS r WHERE r.flow = name || '_n'), invalid(name, sequence_by, true), name || ': and kept') FROM cases;
\ir parts/memory.sql

-- a rebuild gives the same
\o /dev/null
SELECT format('SELECT scd2.full_refresh(%L)', name || t) FROM cases, targets \gexec
SELECT scd2.sync('10min');
\o
SELECT check_all(name, sequence_by, 'rebuilt') FROM cases;

SELECT * FROM finish();
