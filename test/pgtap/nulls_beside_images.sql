-- Events in which NULL says nothing beside captured tables and snapshots, whose images are whole, in one
-- target, against the definition in plain SQL over all of them: two captured tables between which rows
-- move, TRUNCATE, and events and snapshots of random sequences, many of them those of commits; captured
-- tables with a sequence of their own; both SCD types; and events that come to a table's history later.
\set QUIET on
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SELECT plan(3 * (6 * 3 + 3) + 2);
SELECT coalesce(nullif(current_setting('scd2.seed', true), '')::float, extract(epoch FROM clock_timestamp())::int % 1000 / 1000.0) AS seed \gset
\echo '# again: PGOPTIONS=-cscd2.seed=':seed
SELECT setseed(:seed) \g /dev/null

-- "first": who is there first. "own": the sequence is that of the rows (a number), not of the commits.
CREATE TABLE cases (name text, first text, own boolean);
INSERT INTO cases VALUES ('commits', 'events', false), ('joined', 'feed', false), ('own', 'events', true);
CREATE TABLE targets (suffix text, type int, tracked name[]);
INSERT INTO targets VALUES ('_h', 2, '{t}'), ('_a', 2, NULL), ('_c', 1, NULL);

-- All that was said: at, an even number per sequence (odd: just before it); of a feed, with its place. "of": one of the targets alone.
CREATE TABLE said (name text, source text, k int, t text, u int, at bigint, version bigint, ordinal int, gone boolean, whole boolean, of text);
CREATE TABLE begun (name text, source text, version bigint, PRIMARY KEY (name, source));

CREATE FUNCTION at(point timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT (extract(epoch FROM point) * 2000000)::bigint $$;

-- Rows as they were taken from a captured table at the flow's beginning, and of each version the last
-- change of a key, unless it takes away what the version brought; of a TRUNCATE a delete of every key.
CREATE FUNCTION said_by_commits(c text, source text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM said AS s WHERE s.name = c AND s.source = said_by_commits.source AND s.version IS NOT NULL;
    EXECUTE format($q$
        INSERT INTO said
        WITH f AS (SELECT *, max(_change_ordinal) FILTER (WHERE _change_type = 'truncate') OVER v AS cut, first_value(_change_type) OVER (PARTITION BY k, _commit_version ORDER BY _change_ordinal) IN ('insert', 'update_postimage') AS new,
                          last_value(_change_ordinal) OVER (PARTITION BY k, _commit_version ORDER BY _change_ordinal ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS last
                   FROM %I WHERE _commit_version > (SELECT version FROM begun WHERE name = %L AND source = %L) WINDOW v AS (PARTITION BY _commit_version))
        SELECT %2$L, %3$L, k, t, u, at(_commit_timestamp), _commit_version, CASE WHEN _change_type IN ('insert', 'update_postimage') THEN _change_ordinal ELSE 0 END,
               _change_type NOT IN ('insert', 'update_postimage'), true
        FROM f WHERE _change_ordinal = last AND _change_ordinal > coalesce(cut, 0) AND NOT (new AND _change_type IN ('delete', 'update_preimage'))$q$, source || '_changes', c, source);
    EXECUTE format($q$INSERT INTO said SELECT DISTINCT %L, %L, NULL::int, NULL, NULL::int, at(_commit_timestamp), _commit_version, NULL::int, true, true FROM %I
        WHERE _change_type = 'truncate' AND _commit_version > (SELECT version FROM begun WHERE name = %1$L AND source = %2$L)$q$, c, source, source || '_changes');
END $$;
-- With a sequence of their own each upsert counts, and each delete that none of the key follows in its version.
CREATE FUNCTION said_by_changes(c text, source text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM said AS s WHERE s.name = c AND s.source = said_by_changes.source AND s.version IS NOT NULL;
    EXECUTE format($q$
        INSERT INTO said SELECT %L, %L, k, t, u, (2 * CASE WHEN _change_type IN ('insert', 'update_postimage') THEN s ELSE s + 1 END)::bigint, _commit_version, _change_ordinal, _change_type NOT IN ('insert', 'update_postimage'), true
        FROM (SELECT *, max(_change_ordinal) FILTER (WHERE _change_type IN ('insert', 'update_postimage')) OVER (PARTITION BY k, _commit_version) AS last FROM %I WHERE _commit_version > (SELECT version FROM begun WHERE name = %1$L AND source = %2$L)) AS f
        WHERE _change_type IN ('insert', 'update_postimage') OR last IS NULL OR last < _change_ordinal$q$, c, source, source || '_changes');
END $$;

-- What the definition says: at one sequence the last that has a place; else a delete; else all upserts are
-- one event, of each column the greatest value that is sent (by an image NULL too, which is greatest).
CREATE FUNCTION expected(c text, target text, tracked text) RETURNS text LANGUAGE sql AS $$
    SELECT format($q$
        WITH a AS (SELECT k, t, u, at, version, ordinal, gone, whole FROM said WHERE name = %1$L AND k IS NOT NULL AND coalesce(of, %4$L) = %4$L UNION ALL
                   SELECT DISTINCT s.k, NULL, NULL::int, c.at, NULL::bigint, NULL::int, true, false FROM said AS s, said AS c WHERE s.name = %1$L AND c.name = %1$L AND s.k IS NOT NULL AND c.k IS NULL),
        p AS (SELECT DISTINCT ON (k, at) k, at, gone, t, u FROM a WHERE version IS NOT NULL ORDER BY k, at, version DESC, ordinal DESC),
        o AS (SELECT k, at, gone, true AS t_sent, true AS u_sent, t, u FROM p UNION ALL
              SELECT k, at, bool_or(gone), bool_or(whole OR t IS NOT NULL), bool_or(whole OR u IS NOT NULL),
                     CASE WHEN NOT bool_or(whole AND t IS NULL) THEN max(t COLLATE "C") END, CASE WHEN NOT bool_or(whole AND u IS NULL) THEN max(u) END
              FROM a WHERE NOT EXISTS (SELECT FROM p WHERE p.k = a.k AND p.at = a.at) GROUP BY k, at),
        d AS (SELECT *, count(*) FILTER (WHERE gone) OVER w AS life FROM o WINDOW w AS (PARTITION BY k ORDER BY at)),
        l AS (SELECT *, count(*) FILTER (WHERE t_sent AND NOT gone) OVER w AS t_from, count(*) FILTER (WHERE u_sent AND NOT gone) OVER w AS u_from FROM d WINDOW w AS (PARTITION BY k, life ORDER BY at)),
        e AS (SELECT k, at, gone, CASE WHEN t_from > 0 THEN first_value(t) OVER (PARTITION BY k, life, t_from ORDER BY at) END AS t,
                     CASE WHEN u_from > 0 THEN first_value(u) OVER (PARTITION BY k, life, u_from ORDER BY at) END AS u FROM l),
        m AS (SELECT *, lag(gone, 1, true) OVER w OR ROW(%2$s) IS DISTINCT FROM ROW(%3$s) AS starts, lead(at) OVER w AS next FROM e WINDOW w AS (PARTITION BY k ORDER BY at)),
        r AS (SELECT *, count(*) FILTER (WHERE starts) OVER (PARTITION BY k ORDER BY at) AS run FROM m WHERE NOT gone),
        x AS (SELECT DISTINCT ON (k, run) k, t, u, min(at) OVER (PARTITION BY k, run) AS start, next FROM r ORDER BY k, run, r.at DESC)
        SELECT k, t, u, (start + 1) / 2 * 2 AS start, (next + 1) / 2 * 2 AS "end" FROM x WHERE ((start + 1) / 2 < (next + 1) / 2) IS NOT FALSE
    $q$, c, tracked, (SELECT string_agg(format('lag(%s) OVER w', t), ', ') FROM regexp_split_to_table(tracked, ', ') AS t), target) $$;
\ir parts/differences.sql
CREATE FUNCTION check_all(c cases, moment text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    shown text := CASE WHEN c.own THEN 'k, t, u, 2 * __start_at::bigint, 2 * __end_at::bigint' ELSE 'k, t, u, at(__start_at), at(__end_at)' END;
BEGIN
    IF c.own THEN
        PERFORM said_by_changes(c.name, 'own_1'), said_by_changes(c.name, 'own_2');
    ELSE
        PERFORM said_by_commits(c.name, c.name || '_1'), said_by_commits(c.name, c.name || '_2');
    END IF;
    RETURN NEXT is(differences(c.name || '_h', shown, format('k, t, u, start, "end" FROM (%s) AS x', expected(c.name, '_h', 't'))), 0::bigint, format('%s: history with an untracked column, %s', c.name, moment));
    RETURN NEXT is(differences(c.name || '_a', shown, format('k, t, u, start, "end" FROM (%s) AS x', expected(c.name, '_a', 't, u'))), 0::bigint, format('%s: history, %s', c.name, moment));
    RETURN NEXT is(differences(c.name || '_c', 'k, t, u', format('k, t, u FROM (%s) AS x WHERE "end" IS NULL', expected(c.name, '_c', 't, u'))), 0::bigint, format('%s: current rows, %s', c.name, moment));
END $$;

CREATE FUNCTION add_feeds(c cases, n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM scd2.create_auto_cdc_flow(c.name || suffix, (c.name || '_' || n || '_changes')::regclass, '{k}', CASE WHEN c.own THEN 's' END, column_list => '{k,t,u}', stored_as_scd_type => type, track_history_column_list => tracked,
        delete_sequence_by => CASE WHEN c.own THEN 's + 1' END, apply_as_truncates => CASE WHEN c.first = 'feed' AND n = 1 THEN NULL ELSE '_change_type = ''truncate''' END, name => c.name || suffix || n)
    FROM targets;
END $$;
CREATE FUNCTION add_events(c cases) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM scd2.create_auto_cdc_flow(c.name || suffix, c.name || '_ev', '{k}', 's', apply_as_deletes => 'op = ''D''', column_list => '{k,t,u}', stored_as_scd_type => type,
        track_history_column_list => tracked, ignore_null_updates => true, name => c.name || suffix || '_ev') FROM targets;
END $$;
CREATE FUNCTION add_snapshots(c cases) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM scd2.create_auto_cdc_from_snapshot_flow(c.name || suffix, c.name || '_snap', '{k}', CASE WHEN c.own THEN 'numeric' ELSE 'timestamptz' END::regtype, column_list => '{k,t,u}', stored_as_scd_type => type,
        track_history_column_list => tracked, name => c.name || suffix || '_snap', max_delete_fraction => 1) FROM targets;
END $$;
-- Since when a flow speaks, and of what; to a target that a feed had for itself events come behind what it has.
CREATE FUNCTION note_beginning(c cases, n int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    s record;
BEGIN
    FOR s IN SELECT q.begin_version, q.begin_timestamp, suffix FROM targets JOIN scd2_internal.flow AS f ON f.name = c.name || suffix || n JOIN scd2_internal.flow_state AS q USING (flow_id) LOOP
        INSERT INTO begun VALUES (c.name, c.name || '_' || n, s.begin_version) ON CONFLICT DO NOTHING;
        EXECUTE format('INSERT INTO said SELECT %L, %L, k, t, u, %s, NULL, NULL, false, true, %L FROM %2$I', c.name, c.name || '_' || n, CASE WHEN c.own THEN '(2 * s)::bigint' ELSE at(s.begin_timestamp)::text END, s.suffix);
    END LOOP;
END $$;
CREATE FUNCTION note_found(c cases) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    found text := format($q$(SELECT '_h' AS suffix, h.* FROM %I AS h UNION ALL SELECT s, a.* FROM %I AS a, unnest('{_a,_c}'::text[]) AS s)$q$, c.name || '_h', c.name || '_a');
    w timestamptz := (SELECT s.watermark_timestamp FROM scd2_internal.flow_state AS s JOIN scd2_internal.flow AS f USING (flow_id) WHERE f.name = c.name || '_a1');
BEGIN
    UPDATE begun SET version = (SELECT s.watermark_version FROM scd2_internal.flow_state AS s JOIN scd2_internal.flow AS f USING (flow_id) WHERE f.name = c.name || '_a1') WHERE name = c.name;
    EXECUTE format($q$INSERT INTO said
        SELECT %1$L, 'found', k, t, u, at(__start_at), NULL::bigint, NULL::int, false, true, suffix FROM %2$s UNION ALL
        SELECT %1$L, 'found', k, NULL, NULL, at(__end_at), NULL, NULL, true, false, suffix FROM %2$s WHERE __end_at IS NOT NULL AND NOT EXISTS (SELECT FROM %4$s WHERE n.suffix = r.suffix AND n.k = r.k AND n.__start_at = r.__end_at) UNION ALL
        SELECT %1$L, 'found', g, r.t, r.u, at(%3$L) - 1, NULL, NULL, r.k IS NULL, true, o FROM generate_series(0, 40) AS g CROSS JOIN unnest('{_h,_a,_c}'::text[]) AS o LEFT JOIN %2$s ON r.suffix = o AND r.k = g AND r.__end_at IS NULL$q$,
        c.name, found || ' AS r', w, found || ' AS n');
END $$;

CREATE PROCEDURE work(c cases, transactions int) LANGUAGE plpgsql AS $$
DECLARE
    one text := c.name || '_1';
    two text := c.name || '_2';
    s   text := CASE WHEN c.own THEN ', s' END;
    v   text := CASE WHEN c.own THEN ', floor(random() * 60)' END;
BEGIN
    FOR i IN 1 .. transactions LOOP
        FOR j IN 1 .. 1 + floor(random() * 4)::int LOOP
            IF random() < 0.5 THEN
                one := c.name || '_2';
                two := c.name || '_1';
            END IF;
            CASE WHEN random() < 0.35 THEN EXECUTE format('INSERT INTO %I (k, t, u%s) SELECT k, CASE WHEN random() < 0.8 THEN chr(97 + floor(random() * 3)::int) END, CASE WHEN random() < 0.7 THEN floor(random() * 3) END%s FROM (SELECT floor(random() * 30)::int AS k) AS q ON CONFLICT DO NOTHING', one, s, v);
                 WHEN random() < 0.4 THEN EXECUTE format('UPDATE %I SET t = CASE WHEN random() < 0.8 THEN chr(97 + floor(random() * 3)::int) END, u = CASE WHEN random() < 0.7 THEN floor(random() * 3) END%s WHERE k %% 10 = floor(random() * 10)', one, CASE WHEN c.own THEN ', s = floor(random() * 60)' END);
                 WHEN random() < 0.4 THEN EXECUTE format('DELETE FROM %I WHERE k %% 10 = floor(random() * 10)', one);
                 WHEN random() < 0.7 THEN EXECUTE format('WITH gone AS (DELETE FROM %I AS g WHERE k %% 6 = 1 AND NOT EXISTS (SELECT FROM %I AS o WHERE o.k = g.k) RETURNING *) INSERT INTO %2$I SELECT * FROM gone', one, two);
                 WHEN random() < 0.1 AND NOT c.own THEN EXECUTE format('TRUNCATE %I', one);
                 ELSE EXECUTE format('UPDATE %I SET k = k + 10 WHERE k < 10 AND NOT EXISTS (SELECT FROM %1$I AS o WHERE o.k = %1$I.k + 10)', one);
            END CASE;
        END LOOP;
        COMMIT;
    END LOOP;
END $$;

-- A sequence of theirs: of a commit or right beside one, or any. (Not that of the mark that says how keys were when
-- events joined a table's history: there such do not come just after it, see timeline.h.)
CREATE FUNCTION any_sequence(c cases) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    s text;
BEGIN
    IF c.own THEN
        RETURN floor(random() * 62)::text;
    END IF;
    EXECUTE format('SELECT _commit_timestamp + (floor(random() * 3) - 1) * (random() < 0.4)::int * interval ''1 microsecond'' FROM (TABLE %I UNION ALL TABLE %I) AS f OFFSET floor(random() * (SELECT count(*) FROM (TABLE %1$I UNION ALL TABLE %2$I) AS f)) LIMIT 1',
        c.name || '_1_changes', c.name || '_2_changes') INTO s;
    IF EXISTS (SELECT FROM scd2_internal.mark WHERE target_name = c.name || '_a' AND kind = 'horizon' AND sequence::timestamptz = s::timestamptz) THEN
        RETURN any_sequence(c);
    END IF;
    RETURN s;
END $$;
CREATE FUNCTION insert_events(c cases, n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    CREATE TEMP TABLE new_events AS SELECT floor(random() * 34)::int AS k, CASE WHEN random() < 0.6 THEN chr(97 + floor(random() * 3)::int) END AS t, CASE WHEN random() < 0.5 THEN floor(random() * 3)::int END AS u,
        any_sequence(c) AS s, CASE WHEN random() < 0.15 THEN 'D' ELSE 'U' END AS op FROM generate_series(1, n);
    EXECUTE format('INSERT INTO %I SELECT k, t, u, s::%s, op FROM new_events UNION ALL SELECT k, t, u, s::%2$s, op FROM new_events WHERE random() < 0.1', c.name || '_ev', CASE WHEN c.own THEN 'numeric' ELSE 'timestamptz' END);
    EXECUTE format('INSERT INTO said SELECT %L, ''ev'', k, t, u, %s, NULL, NULL, op = ''D'', false FROM new_events', c.name, CASE WHEN c.own THEN '(2 * s::numeric)::bigint' ELSE 'at(s::timestamptz)' END);
    DROP TABLE new_events;
END $$;
-- Most keys are as they were just before.
CREATE FUNCTION snapshot(c cases, version text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('TRUNCATE %I', c.name || '_snap');
    EXECUTE format($q$INSERT INTO %I SELECT g, CASE WHEN random() < 0.1 THEN NULL WHEN random() < 0.1 THEN 'b' ELSE r.t END, CASE WHEN random() < 0.1 THEN 9 ELSE r.u END
        FROM generate_series(0, 40) AS g LEFT JOIN %I AS r ON r.k = g AND __start_at < %L AND (__end_at >= %3$L OR __end_at IS NULL) WHERE random() < CASE WHEN r.k IS NULL THEN 0.1 ELSE 0.9 END$q$, c.name || '_snap', c.name || '_a', version);
    EXECUTE format('INSERT INTO said SELECT %1$L, ''snap'', g, t, u, %2$s, NULL, NULL, k IS NULL, true FROM generate_series(0, 40) AS g LEFT JOIN %3$I ON k = g', c.name, CASE WHEN c.own THEN 2 * version::int ELSE at(version::timestamptz) END, c.name || '_snap');
    PERFORM scd2.apply_snapshot(c.name || suffix || '_snap', version, allow_deletes => true) FROM targets;
END $$;

\o /dev/null
SELECT format('CREATE TABLE %I (k int PRIMARY KEY, t text, u int%s)', name || '_' || n, CASE WHEN own THEN ', s numeric' END), format('SELECT scd2.enable_change_feed(%L)', name || '_' || n) FROM cases, generate_series(1, 2) AS n \gexec
SELECT format('CREATE TABLE %I (k int, t text, u int, s %s, op text)', name || '_ev', CASE WHEN own THEN 'numeric' ELSE 'timestamptz' END), format('CREATE TABLE %I (k int, t text, u int)', name || '_snap') FROM cases \gexec
INSERT INTO commits_1 VALUES (1, 'a', NULL), (2, NULL, 1);
INSERT INTO joined_1 VALUES (1, 'a', NULL), (2, NULL, 1);
INSERT INTO own_1 VALUES (1, 'a', NULL, 5), (2, NULL, 1, 10);
INSERT INTO commits_2 VALUES (3, 'a', NULL), (4, NULL, 1);
INSERT INTO own_2 VALUES (3, 'a', NULL, 5), (4, NULL, 1, 10);
SELECT add_events(c) FROM cases AS c WHERE first = 'events';
SELECT add_feeds(c, 1) FROM cases AS c;
SELECT add_feeds(c, 2), add_snapshots(c) FROM cases AS c WHERE first = 'events';
SELECT scd2.sync('5min');
SELECT note_beginning(c, n) FROM cases AS c, generate_series(1, CASE first WHEN 'feed' THEN 1 ELSE 2 END) AS n;
SELECT format('CALL work(%L, 60)', cases) FROM cases \gexec
SELECT scd2.sync('5min');
SELECT note_found(c) FROM cases AS c WHERE first = 'feed';
SELECT add_events(c), add_feeds(c, 2), add_snapshots(c) FROM cases AS c WHERE first = 'feed';
SELECT scd2.sync('5min');
SELECT note_beginning(c, 2) FROM cases AS c WHERE first = 'feed';
\o
SELECT check_all(c, 'begun') FROM cases AS c;
SELECT insert_events(c, 300) FROM cases AS c \g /dev/null
SELECT scd2.sync('5min') \g /dev/null
SELECT check_all(c, 'with events') FROM cases AS c;
SELECT format('CALL work(%L, 60)', cases) FROM cases \gexec
SELECT scd2.sync('5min') \g /dev/null
SELECT snapshot(c, CASE WHEN own THEN '20' ELSE (SELECT max(_commit_timestamp) FROM (TABLE commits_1_changes UNION ALL TABLE commits_2_changes) AS f)::text END) FROM cases AS c WHERE name <> 'joined' \g /dev/null
SELECT snapshot(c, (SELECT max(_commit_timestamp) FROM (TABLE joined_1_changes UNION ALL TABLE joined_2_changes) AS f)::text) FROM cases AS c WHERE name = 'joined' \g /dev/null
SELECT check_all(c, 'after a snapshot') FROM cases AS c;
SELECT format('CALL work(%L, 60)', cases) FROM cases \gexec
SELECT insert_events(c, 300) FROM cases AS c \g /dev/null
SELECT scd2.sync('5min') \g /dev/null
SELECT check_all(c, 'with late events') FROM cases AS c;
SELECT snapshot(c, CASE WHEN own THEN '61' ELSE clock_timestamp()::text END) FROM cases AS c \g /dev/null
SELECT check_all(c, 'after a snapshot of now') FROM cases AS c;
SELECT insert_events(c, 300) FROM cases AS c \g /dev/null
SELECT format('CALL work(%L, 60)', cases) FROM cases \gexec
SELECT scd2.sync('5min') \g /dev/null
SELECT check_all(c, 'at the end') FROM cases AS c;

SELECT is((SELECT array_agg(flow) FROM scd2.flows WHERE events <> applied + duplicates + rejected + too_late + skipped OR state <> 'running'), NULL, 'all flows run, and their counters add up');
SELECT cmp_ok((SELECT count(*) FROM commits_h), '>', 100::bigint, 'there was something to compare');
-- events again: no row of a target is written
CREATE FUNCTION places(target text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    hash text;
BEGIN
    EXECUTE format('SELECT md5(string_agg(ctid || xmin::text, '','' ORDER BY ctid)) FROM %I', target) INTO hash;
    RETURN hash;
END $$;
CREATE TABLE before AS SELECT name || suffix AS target, places(name || suffix) AS hash FROM cases, targets;
SELECT format('INSERT INTO %I TABLE %1$I', name || '_ev') FROM cases \gexec
SELECT scd2.sync('5min') \g /dev/null
SELECT is(b.hash, places(b.target), b.target || ': events that come again write nothing') FROM before AS b;
SELECT * FROM finish();
