-- History is purged between batches of events, again and again, against the definition: thousands of
-- keys, random order. What the target holds is what it would hold without, less the versions that
-- ended before the last purge; events below it are too late, and that memory below it is forgotten
-- never shows. At last a second flow brings old events: they change nothing that is valid at the
-- point or later.
\set QUIET on
SET client_min_messages = warning;
SELECT 6 AS batches, 800 AS keys \gset
CREATE TABLE cases (name text, sequence_by text, point text);
INSERT INTO cases VALUES ('number', 's::bigint', '%s'), ('day', 'date ''2026-01-01'' + s', 'date ''2026-01-01'' + %s'), ('field', 'struct(s, 1)', '(%s,1)');
CREATE TABLE targets (t text, says text, columns text, tracked text, ignores text[], more text);
INSERT INTO targets VALUES
    ('_h', 'history with an untracked column', 'k, p, t, u', 't', '{}', 'track_history_column_list => ''{t}'''),
    ('_a', 'history', 'k, p, t, u, s', 't, u', '{}', ''),
    ('_n', 'history, with NULLs that say nothing', 'k, p, t, u', 't', '{t,u}', 'track_history_column_list => ''{t}'', ignore_null_updates => true');
SELECT plan(3 * 3 * :batches + 9 + 1);
SELECT coalesce(nullif(current_setting('scd2.seed', true), '')::float, extract(epoch FROM clock_timestamp())::int % 1000 / 1000.0) AS seed \gset
\echo '# again: PGOPTIONS=-cscd2.seed=':seed
SELECT setseed(:seed) \g /dev/null

\ir ../oracle/events.sql
\ir ../oracle/batches.sql

CREATE TABLE purges (batch int, h int);          -- after the batch, all below h
-- of a struct: its first field
CREATE FUNCTION plain(sequence text) RETURNS text LANGUAGE sql AS $$ SELECT CASE WHEN $1 ~ '^\(' THEN split_part(btrim($1, '()'), ',', 1) ELSE $1 END $$;
CREATE FUNCTION check_all(events text, sequence_by text, at text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT is(differences(events || t, format('%s, plain(__start_at::text), plain(__end_at::text)', columns),
                          format('%s, start::text, "end"::text FROM (%s) AS x WHERE "end" IS NULL OR "end" >= %s', columns, expected(events, regexp_replace(sequence_by, 'struct\((.*), 1\)', '\1'), tracked, NULL, ignores),
                                 coalesce((SELECT format(CASE events WHEN 'day' THEN point ELSE '%s' END, max(h)) FROM purges, cases WHERE name = events GROUP BY point), CASE events WHEN 'day' THEN 'date ''-infinity''' ELSE '-1' END))),
              0::bigint, format('%s: %s, %s', events, says, at))
    FROM targets ORDER BY t $$;
CREATE FUNCTION purge(h int) RETURNS SETOF bigint LANGUAGE sql AS $$
    SELECT scd2.purge_history((name || t)::regclass, CASE WHEN name = 'day' THEN (date '2026-01-01' + h)::text WHEN name = 'field' THEN format('(%s,1)', h) ELSE h::text END) FROM cases, targets $$;
SELECT make_events(name, :keys, :batches, 10, 40, 0) FROM cases \g /dev/null
SELECT format('CREATE VIEW %I AS SELECT k, p, t, u, s, op, cut FROM %I AS e WHERE s >= ALL (SELECT h FROM purges WHERE purges.batch < e.batch)', name, name || '_in') FROM cases \gexec
SELECT insert_batch(name, 0) FROM cases \gexec
\o /dev/null
SELECT format('SELECT scd2.create_auto_cdc_flow(%L, %L, ''{k,p}'', %L, apply_as_deletes => ''op = ''''D'''''', apply_as_truncates => ''cut'', stored_as_scd_type => 2, column_list => %L %s)',
              name || t, name || '_in', sequence_by, '{' || replace(columns, ' ', '') || '}', ', ' || nullif(more, '')) FROM cases, targets \gexec
SELECT scd2.sync('10min');
\o
SELECT check_all(name, sequence_by, 'first rows') FROM cases;
-- each round: what is there is purged, events come, some of them too late
CREATE PROCEDURE play(batch int, h int) LANGUAGE plpgsql AS $$
DECLARE
    statement text;
BEGIN
    PERFORM purge(h);
    INSERT INTO purges VALUES (batch - 1, h);
    COMMIT;
    FOR statement IN SELECT insert_batch(name, batch) FROM cases LOOP
        EXECUTE statement;
    END LOOP;
    COMMIT;
    PERFORM scd2.sync('10min');
END $$;
CALL play(1, 12);
SELECT check_all(name, sequence_by, 'purged once') FROM cases;
CALL play(2, 20);
SELECT check_all(name, sequence_by, 'purged twice') FROM cases;
CALL play(3, 31);
SELECT check_all(name, sequence_by, 'three times') FROM cases;
CALL play(4, 31);
SELECT check_all(name, sequence_by, 'again at the same point') FROM cases;
CALL play(5, 44);
SELECT purge(50) \g /dev/null
INSERT INTO purges VALUES (5, 50);
SELECT check_all(name, sequence_by, 'at last') FROM cases;

SELECT is((SELECT array_agg(DISTINCT events - applied - duplicates - rejected - too_late - skipped) FROM scd2.flows), '{0}', 'counters add up');
SELECT cmp_ok((SELECT min(too_late) FROM scd2.flows), '>', 0::bigint, 'some events were too late');
SELECT cmp_ok((SELECT count(*) FROM number_h WHERE __end_at IS NOT NULL), '>', 0::bigint, 'versions are left');

-- old events by another flow: they fill in history before the point
CREATE FUNCTION later(name text) RETURNS TABLE (k int, p text, t text, u int, "end" text) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format('SELECT k, p, t, u, plain(__end_at::text) FROM %I AS h WHERE coalesce(plain(__end_at::text)::%s > %L, true)',
                                name || '_n', CASE name WHEN 'day' THEN 'date' ELSE 'int' END, CASE name WHEN 'day' THEN (date '2026-01-01' + 50)::text ELSE '50' END);
END $$;
CREATE TABLE before AS SELECT name, x.* FROM cases, later(name) AS x;
\o /dev/null
SELECT format('CREATE TABLE %I AS SELECT * FROM %I WHERE s < 50 AND NOT cut', name || '_old', name || '_all') FROM cases \gexec
SELECT format('SELECT scd2.create_auto_cdc_flow(%L, %L, ''{k,p}'', %L, apply_as_deletes => ''op = ''''D'''''', stored_as_scd_type => 2, column_list => ''{k,p,t,u}'', once => true, track_history_column_list => ''{t}'', ignore_null_updates => true)',
              name || '_n', name || '_old', sequence_by) FROM cases \gexec
SELECT scd2.sync('10min');
\o
SELECT is((SELECT count(*) FROM (SELECT k, p, t, u, "end" FROM before AS b WHERE b.name = c.name EXCEPT ALL SELECT k, p, t, u, "end" FROM later(c.name)) AS d), 0::bigint, c.name || ': what is valid at the point and later stays') FROM cases AS c;
SELECT is((SELECT count(*) FROM (SELECT k, p, t, u, "end" FROM later(c.name) EXCEPT ALL SELECT k, p, t, u, "end" FROM before AS b WHERE b.name = c.name) AS d), 0::bigint, c.name || ': and nothing comes there') FROM cases AS c;
\ir parts/memory.sql
SELECT * FROM finish();
