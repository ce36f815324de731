-- Every kind of target (SCD type 1, type 2, appended to; over events, over a feed with its default sequence and with one of
-- its own, over snapshots; ignoring NULL or not, shared or not, with a column that says which rows are current, with the
-- sequence among its columns) with every kind of sequence (by value, by reference, of several fields), each twice: as the
-- flow made it, so that rows are written directly, and with a trigger, so that they are written by SQL. Both must hold what
-- the definition says, in plain SQL, and remember the same.
\set QUIET on
SET client_min_messages = warning;
SET TimeZone = 'UTC';
\ir ../oracle/events.sql

-- "x": the sequence as a column, made from the number "s"; "later": the same for a delete, which comes behind what it
-- deletes; "of": the type where it must be named.
CREATE TYPE pair AS (a integer, b integer);
CREATE TABLE sequences (name text PRIMARY KEY, x text, of text, by_expression text);
INSERT INTO sequences VALUES
    ('int', 's', 'integer'), ('bigint', 's::bigint << 33', 'bigint'), ('date', 'date ''2026-01-01'' + s', 'date'), ('timestamptz', 'to_timestamp(s * 86400)', 'timestamptz'),
    ('oid', 's::bigint::oid', 'oid'), ('float8', 's / 8.0::float8', 'float8'),
    ('text', 'lpad(s::text, 4, ''0'')', 'text'), ('numeric', 's / 10.0::numeric(20,3)', 'numeric'), ('uuid', 'lpad(s::text, 32, ''0'')::uuid', 'uuid'),
    ('name', 'lpad(s::text, 4, ''0'')::name', 'name'), ('interval', 's * interval ''1 hour''', 'interval'), ('pair', 'ROW(s / 7, s % 7)::public.pair', 'pair');
INSERT INTO sequences VALUES ('struct', 'ROW(s / 7, s % 7)::public.pair', 'pair', 'struct(s / 7, s % 7)');
CREATE FUNCTION later(expression text) RETURNS text LANGUAGE sql AS $$ SELECT regexp_replace(expression, '\ms\M', '(s + 1000)', 'g') $$;

SELECT format('CREATE TABLE ev (k int, p text, t text, u int, s int, op text, cut boolean DEFAULT false, %s)', string_agg(format('x_%s %s GENERATED ALWAYS AS (%s) STORED', name, of, x), ', ')) FROM sequences \gexec
SELECT format('CREATE TABLE cap (k int, p text, t text, u int, s int, %s, PRIMARY KEY (k, p))', string_agg(format('x_%s %s GENERATED ALWAYS AS (%s) STORED', name, of, x), ', ')) FROM sequences \gexec
CREATE TABLE snap (k int, p text, t text, u int, PRIMARY KEY (k, p));
SELECT scd2.enable_change_feed('cap') \g /dev/null

-- What happens, in rounds; and as events of the captured table and of the snapshots.
CREATE TABLE happens (round int, k int, p text, t text, u int, s int, op text);
INSERT INTO happens SELECT row_number() OVER (PARTITION BY k ORDER BY hashint4(k * 31 + s)), k, 'p', (ARRAY['a', 'b', NULL])[1 + (k + s * s) % 3], nullif((k * s) % 4, 2), s, CASE WHEN (k + s / 5) % 4 = 0 THEN 'D' ELSE 'U' END
    FROM generate_series(1, 24) AS k, generate_series(3, 33, 5) AS s;
CREATE TABLE cap_events (LIKE happens);
ALTER TABLE cap_events ADD COLUMN cut boolean DEFAULT false;
CREATE TABLE snap_events (LIKE cap_events INCLUDING DEFAULTS);

CREATE TABLE targets (name text PRIMARY KEY, source text, sequence text, scd_type int, ignores boolean, shared boolean, shown boolean, current boolean, way text);
INSERT INTO targets
    SELECT format('%s_%s_%s%s%s%s%s_%s', q.source, sequences.name, scd_type, CASE WHEN ignores THEN 'i' END, CASE WHEN shared THEN 's' END, CASE WHEN shown THEN 'x' END, CASE WHEN current THEN 'c' END, way),
           q.source, sequences.name, scd_type, ignores, shared, shown, current, way
    FROM sequences, unnest('{ev,cap,snap}'::text[]) AS q (source), unnest('{1,2}'::int[]) AS scd_type, unnest('{f,t}'::bool[]) AS ignores, unnest('{f,t}'::bool[]) AS shared,
         unnest('{f,t}'::bool[]) AS shown, unnest('{f,t}'::bool[]) AS current, unnest('{direct,sql}'::text[]) AS way
    WHERE (NOT ignores OR q.source = 'ev') AND (NOT shown OR scd_type = 1 AND q.source <> 'snap' AND sequences.name <> 'struct') AND (NOT current OR scd_type = 2) AND NOT (ignores AND shown)
    UNION ALL       -- the default sequence of a feed: its commits
    SELECT format('net_%s%s%s_%s', scd_type, CASE WHEN shared THEN 's' END, CASE WHEN current THEN 'c' END, way), 'net', NULL, scd_type, false, shared, false, current, way
    FROM unnest('{1,2}'::int[]) AS scd_type, unnest('{f,t}'::bool[]) AS shared, unnest('{f,t}'::bool[]) AS current, unnest('{direct,sql}'::text[]) AS way WHERE NOT current OR scd_type = 2
    UNION ALL
    SELECT format('%s_appended_%s', source, way), source || '_appended', NULL, 1, false, false, false, false, way FROM unnest('{ev,cap}'::text[]) AS source, unnest('{direct,sql}'::text[]) AS way;
CREATE FUNCTION create_flow(g targets) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    q       sequences;
    by_what text;
    columns name[] := ARRAY['k', 'p', 't', 'u'] || CASE WHEN g.shown THEN ARRAY['x_' || g.sequence] ELSE '{}' END;
    tracked name[] := CASE g.scd_type WHEN 2 THEN '{t}'::name[] END;
    called  name := CASE WHEN g.current THEN 'is_current' END;
BEGIN
    SELECT * INTO q FROM sequences WHERE name = g.sequence;
    by_what := coalesce(q.by_expression, 'x_' || q.name);
    IF g.source LIKE '%\_appended' THEN
        PERFORM scd2.create_append_flow(g.name, replace(g.source, '_appended', '')::regclass);
    ELSIF g.source = 'net' THEN
        PERFORM scd2.create_auto_cdc_flow(g.name, 'cap_changes', '{k,p}', apply_as_truncates => CASE WHEN g.shared THEN 'false' END, column_list => columns, stored_as_scd_type => g.scd_type, track_history_column_list => tracked, current_column => called, shared => g.shared);
    ELSIF g.source = 'snap' THEN
        PERFORM scd2.create_auto_cdc_from_snapshot_flow(g.name, 'snap', '{k,p}', q.of::regtype, stored_as_scd_type => g.scd_type, track_history_column_list => tracked, current_column => called, shared => g.shared, max_delete_fraction => 1);
    ELSIF g.source = 'cap' THEN
        PERFORM scd2.create_auto_cdc_flow(g.name, 'cap_changes', '{k,p}', by_what, apply_as_truncates => CASE WHEN g.shared THEN 'false' END, column_list => columns, stored_as_scd_type => g.scd_type, track_history_column_list => tracked, current_column => called, shared => g.shared,
            delete_sequence_by => later(coalesce(q.by_expression, q.x)));
    ELSE
        PERFORM scd2.create_auto_cdc_flow(g.name, 'ev', '{k,p}', by_what, apply_as_deletes => 'op = ''D''', apply_as_truncates => 'cut', column_list => columns, stored_as_scd_type => g.scd_type, track_history_column_list => tracked,
            current_column => called, shared => g.shared, ignore_null_updates => g.ignores);
    END IF;
END $$;
CREATE TABLE seen (name text PRIMARY KEY);
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.seen VALUES (TG_TABLE_NAME) ON CONFLICT DO NOTHING; RETURN NULL; END $$;

-- One round: an event of each key, of which some are deletes; the captured table and the snapshots follow them.
CREATE PROCEDURE happen(r int) LANGUAGE plpgsql AS $$
DECLARE
    e happens;
BEGIN
    INSERT INTO ev (k, p, t, u, s, op) SELECT k, p, t, u, s, op FROM happens WHERE round = r;
    FOR e IN SELECT * FROM happens WHERE round = r LOOP
        IF e.op = 'U' THEN
            INSERT INTO cap VALUES (e.k, e.p, e.t, e.u, e.s) ON CONFLICT ON CONSTRAINT cap_pkey DO UPDATE SET t = e.t, u = e.u, s = e.s;
            INSERT INTO cap_events VALUES (r, e.k, e.p, e.t, e.u, e.s, 'U');
        ELSE
            WITH gone AS (DELETE FROM cap WHERE k = e.k RETURNING *) INSERT INTO cap_events SELECT r, k, p, t, u, s + 1000, 'D' FROM gone;
        END IF;
    END LOOP;
    TRUNCATE snap;
    INSERT INTO snap SELECT k, p, t, u FROM cap;
    INSERT INTO snap_events SELECT r, k, p, t, u, r * 3, 'U' FROM snap;
    INSERT INTO snap_events SELECT DISTINCT r, k, p, NULL, 0, r * 3, 'D' FROM snap_events AS x WHERE NOT EXISTS (SELECT FROM snap WHERE snap.k = x.k);
    COMMIT;
END $$;
CREATE FUNCTION take_snapshots(r int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    g       targets;
    version text;
BEGIN
    FOR g IN SELECT * FROM targets WHERE source = 'snap' LOOP
        EXECUTE format('SELECT (%s)::text FROM (SELECT %s AS s) AS q', (SELECT x FROM sequences WHERE name = g.sequence), r * 3) INTO version;
        PERFORM * FROM scd2.apply_snapshot(g.name, version);
    END LOOP;
END $$;

-- What a target holds that it should not, or lacks; and how two of a pair differ. (Flows over a feed with its default
-- sequence begin at times of their own.)
CREATE FUNCTION wrong(g targets) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    events text := CASE g.source WHEN 'ev' THEN 'ev' WHEN 'net' THEN 'net_events' ELSE g.source || '_events' END;
    x      text := CASE g.source WHEN 'net' THEN format('SELECT CASE s WHEN 1 THEN (SELECT watermark FROM began WHERE name = %L) ELSE (SELECT at FROM commits WHERE round = s) END', g.name)
                        ELSE (SELECT q.x FROM sequences AS q WHERE q.name = g.sequence) END;
BEGIN
    IF g.source = 'cap_appended' THEN
        RETURN differences(g.name, 'k, p, t, u, s, x_name, x_pair::text', 'k, p, t, u, s, x_name, x_pair::text FROM cap_changes WHERE _change_type = ''insert''');
    ELSIF g.source = 'ev_appended' THEN
        RETURN differences(g.name, 'k, p, t, u, s, op, x_text, x_pair::text', 'k, p, t, u, s, op, x_text, x_pair::text FROM ev');
    ELSIF g.scd_type = 1 THEN
        RETURN differences(g.name, 'k, p, t, u' || CASE WHEN g.shown THEN format(', x_%s::text', g.sequence) ELSE '' END,
            format('k, p, t, u%s FROM (%s) AS x WHERE "end" IS NULL', CASE WHEN g.shown THEN format(', (%s)::text', x) ELSE '' END, expected(events, 's', 't, u, s', NULL, CASE WHEN g.ignores THEN '{t,u}'::text[] ELSE '{}' END)));
    END IF;
    RETURN differences(g.name, 'k, p, t, u, __start_at::text, __end_at::text' || CASE WHEN g.current THEN ', is_current' ELSE '' END,
        format('k, p, t, u, (SELECT (%1$s)::text FROM (SELECT x.start AS s) AS q), (SELECT (%1$s)::text FROM (SELECT x."end" AS s) AS q WHERE s IS NOT NULL)%2$s FROM (%3$s) AS x', x, CASE WHEN g.current THEN ', "end" IS NULL' ELSE '' END,
               expected(events, 's', 't', NULL, CASE WHEN g.ignores THEN '{t,u}'::text[] ELSE '{}' END)));
END $$;
CREATE FUNCTION differing(a text, b text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN CASE WHEN to_regclass(a) IS NULL AND to_regclass(b) IS NULL THEN 0 ELSE differences(a, format('%I::text', a), format('%1$I::text FROM %1$I', b)) END;
END $$;
CREATE FUNCTION check_all(at text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    q record;
BEGIN
    FOR q IN SELECT source, sequence, array_agg(g) AS these FROM targets AS g GROUP BY 1, 2 ORDER BY 1, 2 LOOP
        RETURN NEXT is((SELECT array_agg(name ORDER BY name) FROM unnest(q.these) AS g WHERE wrong(g) <> 0), NULL, format('%s, sequence %s: as defined, %s', q.source, q.sequence, at));
        RETURN NEXT is((SELECT array_agg(d.name ORDER BY d.name) FROM unnest(q.these) AS d JOIN unnest(q.these) AS s ON s.name = replace(d.name, '_direct', '_sql') WHERE d.way = 'direct' AND d.source <> 'net'
                        AND (differing(d.name, s.name) <> 0 OR differing(d.name || '_memory', s.name || '_memory') <> 0)), NULL, format('%s, sequence %s: the same directly and by SQL, %s', q.source, q.sequence, at));
    END LOOP;
END $$;

SELECT plan((SELECT 6 * count(DISTINCT (source, sequence)) + 4 FROM targets)::int);
CALL happen(1);
\o /dev/null
SELECT format('SELECT create_flow(g) FROM targets AS g WHERE name = %L', name) FROM targets ORDER BY sequence = 'struct' DESC, name \gexec
SELECT format('CREATE TRIGGER see AFTER INSERT OR UPDATE OR DELETE ON %I EXECUTE FUNCTION see()', name) FROM targets WHERE way = 'sql' \gexec
SELECT take_snapshots(1);
SELECT scd2.sync('10min');
\o
CREATE TABLE began AS SELECT flow::text AS name, watermark_timestamp AS watermark FROM scd2.flows WHERE flow LIKE 'net%';
CREATE TABLE commits (round int, at timestamptz);
CREATE VIEW net_events AS SELECT k, p, t, u, round AS s, op, cut FROM cap_events;
SELECT check_all('first rows');
CALL happen(2);
\o /dev/null
SELECT take_snapshots(2);
SELECT scd2.sync('10min');
\o
INSERT INTO commits SELECT row_number() OVER (ORDER BY _commit_version), max(_commit_timestamp) FROM cap_changes GROUP BY _commit_version;
SELECT check_all('second round');

-- and now with a truncate, in the middle of what is there (all flows meet it in the same batches: what is remembered can depend on them)
\o /dev/null
CALL happen(3);
SELECT scd2.sync('10min');
INSERT INTO ev (s, op, cut) VALUES (14, 'T', true);
CALL happen(4);
SELECT take_snapshots(4);
SELECT scd2.sync('10min');
\o
TRUNCATE commits;
INSERT INTO commits SELECT row_number() OVER (ORDER BY _commit_version), max(_commit_timestamp) FROM cap_changes GROUP BY _commit_version;
DELETE FROM snap_events WHERE s = 9;
SELECT check_all('late events, and a truncate');
SELECT is_empty($$SELECT flow, state, last_error FROM scd2.flows WHERE state <> 'running'$$, 'all flows run');
SELECT is_empty($$SELECT name FROM targets WHERE (way = 'sql') <> (name IN (SELECT s.name FROM seen AS s))$$, 'one of each pair was written by SQL, the other directly');
\ir parts/memory.sql

-- A foreign key is a trigger too; and a trigger that takes away what a row shows of its event: the next event replaces it.
CREATE TABLE late (k int, v text, s text);
SELECT scd2.create_auto_cdc_flow('cur', 'late', '{k}', 's') \g /dev/null
CREATE FUNCTION hide() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.s := NULL; RETURN NEW; END $$;
CREATE TRIGGER hide BEFORE INSERT ON cur FOR EACH ROW EXECUTE FUNCTION hide();
CREATE TABLE fact (k int REFERENCES cur);
INSERT INTO late VALUES (1, 'a', '2026-01');
SELECT scd2.sync() \g /dev/null
INSERT INTO late VALUES (1, 'b', '2025-12');
SELECT scd2.sync() \g /dev/null
SELECT results_eq('TABLE cur', $$VALUES (1, 'b', '2025-12')$$, 'a row that does not show its event is replaced by the next');
SELECT * FROM finish();
