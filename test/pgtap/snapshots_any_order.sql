-- Snapshots and events into the same targets against the definition, in plain SQL over all of both
-- so far: thousands of keys, each one a random set of events in random order, in several batches,
-- with snapshots between them that are late for some of the events and early for others; complete,
-- of a scope, and without deletes; both SCD types, with NULLs of events that are values or say
-- nothing, after every step; and a flow over the snapshots alone.
\set QUIET on
SET client_min_messages = warning;
SELECT 1500 AS keys \gset

CREATE TABLE cases (name text, sequence_by text, sequence_type text, scope text, delete_absent boolean);
INSERT INTO cases VALUES
    ('plain', 's', 'integer', 'true', true),
    ('day', 'timestamptz ''2026-01-01'' + s * interval ''1 day''', 'timestamptz', 'k % 3 <> 0', true),
    ('adds', 's / 10.0', 'numeric', 'true', false);
SELECT plan(3 * (8 * 7 + 4 + 2) + 1);
SELECT coalesce(nullif(current_setting('scd2.seed', true), '')::float, extract(epoch FROM clock_timestamp())::int % 1000 / 1000.0) AS seed \gset
\echo '# again: PGOPTIONS=-cscd2.seed=':seed
SELECT setseed(:seed) \g /dev/null

-- Events, the snapshots that were applied, and the rows of each.
CREATE TABLE all_events (name text, batch int, k int, t text, u int, s int, op text);
CREATE TABLE given (LIKE all_events);
CREATE TABLE applied (name text, n int, s int);
CREATE TABLE snapshot_rows (name text, n int, k int, t text, u int);
INSERT INTO all_events
    SELECT name, floor(random() * 4), k, CASE WHEN random() < 0.1 THEN NULL ELSE chr(97 + floor(random() * 3)::int) END, CASE WHEN random() < 0.15 THEN NULL ELSE floor(random() * 3) END, floor(random() * 50),
           CASE WHEN random() < 0.2 THEN 'D' ELSE 'U' END
    FROM cases, generate_series(1, :keys) AS k, generate_series(1, CASE WHEN k % 50 = 0 THEN 40 ELSE 1 + k % 7 END) WHERE k % 10 > 0;     -- some keys are in snapshots only
INSERT INTO all_events SELECT name, floor(random() * 4), k, t, u, s, op FROM all_events WHERE random() < 0.15;

-- What the definition says, of events (or not) and snapshots from the n-th on. In "e", per key and
-- sequence the event that counts: a delete before an upsert, then the greatest image.
CREATE FUNCTION expected(c cases, events boolean, since int, tracked text) RETURNS text LANGUAGE sql AS $$
    SELECT format($q$
        WITH up AS (SELECT k, t, u, s, op = 'D' AS gone FROM given WHERE name = %1$L AND %2$L UNION ALL
                    SELECT r.k, r.t, r.u, a.s, false FROM applied AS a JOIN snapshot_rows AS r USING (name, n) WHERE a.name = %1$L AND a.n >= %3$s),
        a AS (SELECT * FROM up UNION ALL
              SELECT g.k, NULL, NULL, a.s, true FROM (SELECT DISTINCT k FROM up) AS g, applied AS a
              WHERE a.name = %1$L AND a.n >= %3$s AND %4$L AND (%5$s) AND NOT EXISTS (SELECT FROM snapshot_rows AS r WHERE r.name = a.name AND r.n = a.n AND r.k = g.k)),
        e AS (SELECT DISTINCT ON (k, s) * FROM a ORDER BY k, s, gone DESC, ROW(k, t, u) USING OPERATOR(pg_catalog.*>)),
        m AS (SELECT *, lag(gone, 1, true) OVER w OR ROW(%6$s) IS DISTINCT FROM ROW(%7$s) AS starts, lead(s) OVER w AS next FROM e WINDOW w AS (PARTITION BY k ORDER BY s)),
        r AS (SELECT *, count(*) FILTER (WHERE starts) OVER (PARTITION BY k ORDER BY s) AS run FROM m WHERE NOT gone),
        x AS (SELECT DISTINCT ON (k, run) k, t, u, min(s) OVER (PARTITION BY k, run) AS start, next FROM r ORDER BY k, run, r.s DESC)
        SELECT k, t, u, (SELECT %8$s FROM (SELECT x.start AS s) AS q) AS start, CASE WHEN next IS NOT NULL THEN (SELECT %8$s FROM (SELECT x.next AS s) AS q) END AS "end" FROM x
    $q$, c.name, events, since, c.delete_absent, c.scope, tracked, (SELECT string_agg(format('lag(%s) OVER w', t), ', ') FROM regexp_split_to_table(tracked, ', ') AS t), c.sequence_by) $$;
-- The same where the NULLs of events say nothing: what is at one sequence is one event, of each
-- column the greatest value that is sent (of a snapshot also NULL, which is greatest), and what is
-- not sent stays as it was.
CREATE FUNCTION expected_ignoring(c cases, since int, tracked text) RETURNS text LANGUAGE sql AS $$
    SELECT format($q$
        WITH up AS (SELECT k, t, u, s, op = 'D' AS gone, false AS whole FROM given WHERE name = %1$L UNION ALL
                    SELECT r.k, r.t, r.u, a.s, false, true FROM applied AS a JOIN snapshot_rows AS r USING (name, n) WHERE a.name = %1$L AND a.n >= %2$s),
        a AS (SELECT * FROM up UNION ALL
              SELECT g.k, NULL, NULL, a.s, true, false FROM (SELECT DISTINCT k FROM up) AS g, applied AS a
              WHERE a.name = %1$L AND a.n >= %2$s AND %3$L AND (%4$s) AND NOT EXISTS (SELECT FROM snapshot_rows AS r WHERE r.name = a.name AND r.n = a.n AND r.k = g.k)),
        o AS (SELECT k, s, bool_or(gone) AS gone, bool_or(whole OR t IS NOT NULL) AS t_sent, bool_or(whole OR u IS NOT NULL) AS u_sent,
                     CASE WHEN NOT bool_or(whole AND t IS NULL) THEN max(t COLLATE "C") END AS t, CASE WHEN NOT bool_or(whole AND u IS NULL) THEN max(u) END AS u
              FROM a GROUP BY k, s),
        d AS (SELECT *, count(*) FILTER (WHERE gone) OVER w AS life FROM o WINDOW w AS (PARTITION BY k ORDER BY s)),
        l AS (SELECT *, count(*) FILTER (WHERE t_sent AND NOT gone) OVER w AS t_from, count(*) FILTER (WHERE u_sent AND NOT gone) OVER w AS u_from FROM d WINDOW w AS (PARTITION BY k, life ORDER BY s)),
        e AS (SELECT k, s, gone, CASE WHEN t_from > 0 THEN first_value(t) OVER (PARTITION BY k, life, t_from ORDER BY s) END AS t,
                     CASE WHEN u_from > 0 THEN first_value(u) OVER (PARTITION BY k, life, u_from ORDER BY s) END AS u FROM l),
        m AS (SELECT *, lag(gone, 1, true) OVER w OR ROW(%5$s) IS DISTINCT FROM ROW(%6$s) AS starts, lead(s) OVER w AS next FROM e WINDOW w AS (PARTITION BY k ORDER BY s)),
        r AS (SELECT *, count(*) FILTER (WHERE starts) OVER (PARTITION BY k ORDER BY s) AS run FROM m WHERE NOT gone),
        x AS (SELECT DISTINCT ON (k, run) k, t, u, min(s) OVER (PARTITION BY k, run) AS start, next FROM r ORDER BY k, run, r.s DESC)
        SELECT k, t, u, (SELECT %7$s FROM (SELECT x.start AS s) AS q) AS start, CASE WHEN next IS NOT NULL THEN (SELECT %7$s FROM (SELECT x.next AS s) AS q) END AS "end" FROM x
    $q$, c.name, since, c.delete_absent, c.scope, tracked, (SELECT string_agg(format('lag(%s) OVER w', t), ', ') FROM regexp_split_to_table(tracked, ', ') AS t), c.sequence_by) $$;
\ir parts/differences.sql
CREATE FUNCTION check_all(c cases, at text, since int DEFAULT 0) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    RETURN NEXT is(differences(c.name || '_h', 'k, t, u, __start_at, __end_at', format('k, t, u, start, "end" FROM (%s) AS x', expected(c, true, since, 't'))), 0::bigint, format('%s: history with an untracked column, %s', c.name, at));
    RETURN NEXT is(differences(c.name || '_a', 'k, t, u, __start_at, __end_at', format('k, t, u, start, "end" FROM (%s) AS x', expected(c, true, since, 't, u'))), 0::bigint, format('%s: history, %s', c.name, at));
    RETURN NEXT is(differences(c.name || '_c', 'k, t, u', format('k, t, u FROM (%s) AS x WHERE "end" IS NULL', expected(c, true, since, 't, u'))), 0::bigint, format('%s: current rows, %s', c.name, at));
    RETURN NEXT is(differences(c.name || '_n', 'k, t, u, __start_at, __end_at', format('k, t, u, start, "end" FROM (%s) AS x', expected_ignoring(c, since, 't'))), 0::bigint, format('%s: history with NULLs that say nothing, %s', c.name, at));
    RETURN NEXT is(differences(c.name || '_m', 'k, t, u', format('k, t, u FROM (%s) AS x WHERE "end" IS NULL', expected_ignoring(c, since, 't, u'))), 0::bigint, format('%s: current rows with NULLs that say nothing, %s', c.name, at));
    RETURN NEXT is(differences(c.name || '_o', 'k, t, u, __start_at, __end_at', format('k, t, u, start, "end" FROM (%s) AS x', expected(c, false, since, 't'))), 0::bigint, format('%s: history of snapshots alone, %s', c.name, at));
    RETURN NEXT is(differences(c.name || '_p', 'k, t, u', format('k, t, u FROM (%s) AS x WHERE "end" IS NULL', expected(c, false, since, 't, u'))), 0::bigint, format('%s: current rows of snapshots alone, %s', c.name, at));
END $$;

CREATE FUNCTION make(c cases) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    flow record;
BEGIN
    EXECUTE format('CREATE TABLE %I (k int, t text, u int, s int, op text)', c.name);
    EXECUTE format('CREATE TABLE %I (k int, t text, u int)', c.name || '_source');      -- no index guards it
    FOR flow IN SELECT * FROM (VALUES ('_h', 2, true, '{t}', false), ('_a', 2, true, NULL, false), ('_c', 1, true, NULL, false), ('_n', 2, true, '{t}', true), ('_m', 1, true, NULL, true),
                                      ('_o', 2, false, '{t}', false), ('_p', 1, false, NULL, false)) AS f (target, type, events, tracked, ignores) LOOP
        IF flow.events THEN
            PERFORM scd2.create_auto_cdc_flow(c.name || flow.target, c.name, '{k}', c.sequence_by, apply_as_deletes => 'op = ''D''', column_list => '{k,t,u}', stored_as_scd_type => flow.type,
                track_history_column_list => flow.tracked::name[], ignore_null_updates => flow.ignores, shared => true);
        END IF;
        PERFORM scd2.create_auto_cdc_from_snapshot_flow(c.name || flow.target, c.name || '_source', '{k}', c.sequence_type::regtype, name => c.name || '_s' || flow.target, stored_as_scd_type => flow.type,
            track_history_column_list => flow.tracked::name[], scope => nullif(c.scope, 'true'), delete_absent => c.delete_absent, max_delete_fraction => 1);
    END LOOP;
END $$;
CREATE FUNCTION insert_batch(c cases, batch int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO given SELECT e.* FROM all_events AS e WHERE e.name = c.name AND e.batch = insert_batch.batch;
    EXECUTE format('INSERT INTO %I SELECT k, t, u, s, op FROM all_events WHERE name = %L AND batch = %s ORDER BY random()', c.name, c.name, batch);
END $$;

-- Most keys are as they were just before, some lack, some are others or new.
CREATE FUNCTION snapshot(c cases, n int, s int) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    version text;
    flow    text;
    dry     record;
    counts  record;
    rows    bigint;
    wrong   text[] := '{}';
BEGIN
    EXECUTE format('SELECT (%s)::text FROM (SELECT %s AS s) AS q', c.sequence_by, s) INTO version;
    EXECUTE format($q$INSERT INTO snapshot_rows SELECT %L, %s, k, CASE WHEN random() < 0.05 THEN NULL WHEN random() < 0.1 THEN 'b' ELSE t END, CASE WHEN random() < 0.1 THEN 9 ELSE u END
        FROM (SELECT k, t, u FROM %I WHERE __start_at < %L AND (__end_at >= %4$L OR __end_at IS NULL) UNION ALL
              SELECT k, 'a', 1 FROM generate_series(1, %5$s) AS k WHERE random() < 0.1 AND NOT EXISTS (SELECT FROM %3$I AS h WHERE h.k = k.k AND __start_at < %4$L AND (__end_at >= %4$L OR __end_at IS NULL))) AS q
        WHERE random() < 0.9 AND (%6$s)$q$, c.name, n, c.name || '_a', version, (SELECT max(a.k) FROM all_events AS a), c.scope);
    INSERT INTO applied VALUES (c.name, n, s);
    EXECUTE format('TRUNCATE %1$I_source', c.name);
    EXECUTE format('INSERT INTO %1$I_source SELECT k, t, u FROM snapshot_rows WHERE name = %1$L AND n = %2$s ORDER BY random()', c.name, n);
    GET DIAGNOSTICS rows = ROW_COUNT;
    FOREACH flow IN ARRAY '{_h,_a,_c,_n,_m,_o,_p}'::text[] LOOP
        SELECT * INTO dry FROM scd2.apply_snapshot(c.name || '_s' || flow, version, expected_rows => rows, dry_run => true);
        SELECT * INTO counts FROM scd2.apply_snapshot(c.name || '_s' || flow, version, expected_rows => rows);
        IF dry <> counts OR counts.inserted + counts.updated + counts.unchanged <> rows THEN
            wrong := wrong || format('%s: dry %s, done %s, of %s rows', flow, dry, counts, rows);
        END IF;
    END LOOP;
    RETURN NEXT is(wrong, '{}', format('%s: counts of snapshot %s add up', c.name, n));
END $$;

\o /dev/null
SELECT make(c) FROM cases AS c;
SELECT insert_batch(c, 0) FROM cases AS c;
SELECT scd2.sync('10min');
\o
SELECT check_all(c, 'first events') FROM cases AS c;
SELECT snapshot(c, 1, 10) FROM cases AS c;
SELECT check_all(c, 'snapshot 1') FROM cases AS c;
\o /dev/null
SELECT insert_batch(c, 1) FROM cases AS c;
SELECT scd2.sync('10min');
\o
SELECT check_all(c, 'events after it') FROM cases AS c;
SELECT snapshot(c, 2, 11) FROM cases AS c;
SELECT snapshot(c, 3, 30) FROM cases AS c;
SELECT check_all(c, 'snapshots 2 and 3') FROM cases AS c;
\o /dev/null
SELECT insert_batch(c, 2) FROM cases AS c;
SELECT scd2.sync('10min');
\o
SELECT check_all(c, 'late events') FROM cases AS c;
SELECT insert_batch(c, 3) FROM cases AS c \g /dev/null
SELECT snapshot(c, 4, 45) FROM cases AS c;
SELECT scd2.sync('10min') \g /dev/null
SELECT check_all(c, 'snapshot 4 while events are applied') FROM cases AS c;

-- everything again: no row of a target is written
CREATE FUNCTION places(target text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    hash text;
BEGIN
    EXECUTE format('SELECT md5(string_agg(ctid || xmin::text, '','' ORDER BY ctid)) FROM %I', target) INTO hash;
    RETURN hash;
END $$;
CREATE TABLE before AS SELECT name || t AS target, places(name || t) AS hash FROM cases, unnest('{_h,_a,_c,_n,_m}'::text[]) AS t;
SELECT format('INSERT INTO %I SELECT k, t, u, s, op FROM all_events WHERE name = %L ORDER BY random()', name, name) FROM cases \gexec
SELECT scd2.sync('10min') \g /dev/null
SELECT check_all(c, 'events again') FROM cases AS c;
SELECT is((SELECT array_agg(b.target ORDER BY b.target) FROM before AS b WHERE b.target LIKE name || '\_%' AND b.hash IS DISTINCT FROM places(b.target)), NULL, name || ': events that come again write nothing') FROM cases;
SELECT is((SELECT array_agg(flow) FROM scd2.flows WHERE target::text LIKE name || '\_%' AND (events <> applied + duplicates + rejected + too_late + skipped OR state <> 'running')), NULL, name || ': counters add up') FROM cases;
\ir parts/memory.sql

-- a rebuild knows the events, and of snapshots what the source shows now, at the last version
\o /dev/null
SELECT scd2.full_refresh((name || t)::regclass, allow_loss => true) FROM cases, unnest('{_h,_a,_c,_n,_m,_o,_p}'::text[]) AS t;
SELECT scd2.sync('10min');
\o
SELECT check_all(c, 'rebuilt', since => 4) FROM cases AS c;

SELECT * FROM finish();
