-- Flows at the edges of what their types and targets allow: types whose SQL name without a length is a type of length 1,
-- rows without an end beside max_lateness, the greatest value of a sequence, and constraints of targets that the direct
-- writer does not check or that need the right order of writes.
\set QUIET on
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SELECT plan(2 * 5 + 2 + 6 + 3 + 2 + 2);

-- Keys, values and sequences of types with a length: each as it was written. The sequence is read back by a late event,
-- the keys by a truncate.
CREATE TABLE types (name text PRIMARY KEY, type text, value text);
INSERT INTO types VALUES
    ('char', 'char(8)', 'to_char(date ''2026-01-01'' + n, ''YYYYMMDD'')'), ('bit', 'bit(8)', 'n::bit(8)'), ('varbit', 'varbit(12)', 'n::bit(8)::varbit(12)'),
    ('varchar', 'varchar(6)', 'lpad(n::text, 6, ''0'')'), ('numeric', 'numeric(8,3)', 'n / 8.0');
SELECT format('CREATE TABLE %s_ev (k %s, s %2$s, v text, cut boolean DEFAULT false)', name, type) FROM types \gexec
SELECT format('INSERT INTO %1$s_ev SELECT k.x, s.x, ''v'' || s.n FROM (SELECT n, (%2$s)::%3$s AS x FROM generate_series(1, 9) AS n) AS k,
    (SELECT n, (%2$s)::%3$s AS x FROM generate_series(11, 41, 10) AS n) AS s', name, value, type) FROM types \gexec
\o /dev/null
SELECT scd2.create_auto_cdc_flow(name || '_h' || t, name || '_ev', '{k}', 's', apply_as_truncates => 'cut', column_list => '{k,v}', stored_as_scd_type => t) FROM types, unnest('{1,2}'::int[]) AS t;
SELECT scd2.sync('2min');
SELECT format('INSERT INTO %1$s_ev SELECT k.x, s.x, ''late'' FROM (SELECT n, (%2$s)::%3$s AS x FROM generate_series(1, 9) AS n) AS k, (SELECT n, (%2$s)::%3$s AS x FROM generate_series(25, 25) AS n) AS s', name, value, type) FROM types \gexec
SELECT scd2.sync('2min');
SELECT format('INSERT INTO %1$s_ev SELECT NULL, (%2$s)::%3$s, NULL, true FROM generate_series(36, 36) AS n', name, value, type) FROM types \gexec
SELECT scd2.sync('2min');
\o
CREATE FUNCTION rows_of(target text, columns text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    found text;
BEGIN
    EXECUTE format('SELECT string_agg(format(%L, n, r), '' '' ORDER BY r) FROM (SELECT %s AS r, count(*) AS n FROM %I GROUP BY 1) AS q', '%s*%s', columns, target) INTO found;
    RETURN found;
END $$;
CREATE FUNCTION at(type text, n int) RETURNS text LANGUAGE plpgsql STRICT AS $$
DECLARE
    found text;
BEGIN
    EXECUTE (SELECT format('SELECT (%s)::%s FROM (SELECT %s AS n) AS q', value, types.type, n) FROM types WHERE name = $1) INTO found;
    RETURN found;
END $$;
SELECT is(rows_of(name || '_h2', 'format(''%s[%s,%s)'', v, __start_at, __end_at)'),
          (SELECT string_agg(format('9*%s[%s,%s)', v, at(name, a), at(name, b)), ' ' ORDER BY v)
           FROM (VALUES ('v11', 11, 21), ('v21', 21, 25), ('late', 25, 31), ('v31', 31, 36), ('v41', 41, NULL)) AS x (v, a, b)), name || ': history') FROM types ORDER BY name;
SELECT is(rows_of(name || '_h1', 'v'), '9*v41', name || ': current rows') FROM types ORDER BY name;

-- A row without an end moves the horizon as one with an end does.
CREATE TABLE periods (k int, v text, s int, e int);
SELECT scd2.create_auto_cdc_flow('periods_h', 'periods', '{k}', 's', end_sequence_by => 'e', max_lateness => '10', stored_as_scd_type => 2) \g /dev/null
INSERT INTO periods VALUES (1, 'open', 100, NULL);
SELECT scd2.sync('2min') \g /dev/null
INSERT INTO periods VALUES (2, 'late', 89, 95), (2, 'in time', 90, 95);
SELECT scd2.sync('2min') \g /dev/null
SELECT is((SELECT string_agg(format('%s[%s,%s)', v, __start_at, __end_at), ' ' ORDER BY __start_at) FROM periods_h), 'in time[90,95) open[100,)', 'rows without an end move the horizon');
SELECT is((SELECT too_late FROM scd2.flows WHERE flow = 'periods_h'), 1::bigint, 'and what is below it is counted');

-- A delete after the greatest value of a sequence: there is no step behind it, its place is behind it.
CREATE TABLE greatest_of (name text PRIMARY KEY, type text, most text);
INSERT INTO greatest_of VALUES ('small', 'smallint', '32767'), ('int', 'integer', '2147483647'), ('big', 'bigint', '9223372036854775807'), ('day', 'date', '5874897-12-31'),
    ('stamp', 'timestamp', '294276-12-31 23:59:59.999999'), ('tz', 'timestamptz', '294276-12-31 23:59:59.999999+00');
SELECT format('CREATE TABLE top_%s (id int PRIMARY KEY, s %s, v text)', name, type) FROM greatest_of \gexec
\o /dev/null
SELECT scd2.enable_change_feed(('top_' || name)::regclass) FROM greatest_of;
SELECT scd2.create_auto_cdc_flow('top_' || name || '_h', 'top_' || name || '_changes', '{id}', 's', delete_sequence_by => 's', column_list => '{id,v}', stored_as_scd_type => 2) FROM greatest_of;
SELECT format('INSERT INTO top_%s VALUES (1, %L, ''gone''), (2, %2$L, ''stays'')', name, most) FROM greatest_of \gexec
SELECT scd2.sync('2min');
SELECT format('DELETE FROM top_%s WHERE id = 1', name) FROM greatest_of \gexec
SELECT scd2.sync('2min');
\o
SELECT is(rows_of('top_' || name || '_h', 'v') || (SELECT ' ' || state FROM scd2.flows WHERE flow = 'top_' || name || '_h'), '1*stays running', name || ': a delete at the greatest value') FROM greatest_of ORDER BY name;

-- Domains of a target's columns and bounds of a partition are checked, for new rows and for changed ones.
CREATE DOMAIN short AS text CHECK (length(value) < 5);
CREATE TABLE word (k int, v text, s int);
CREATE TABLE zone (k int, v text, s int);
\o /dev/null
SELECT scd2.create_auto_cdc_flow('word_h', 'word', '{k}', 's', column_list => '{k,v}', stored_as_scd_type => 2), scd2.create_auto_cdc_flow('zone_now', 'zone', '{k}', 's', column_list => '{k,v}', stored_as_scd_type => 1);
SELECT scd2.pause_flow('word_h'), scd2.pause_flow('zone_now');
\o
SET pg_scd2.allow_target_writes = on;
ALTER TABLE word_h ALTER COLUMN v TYPE short;
CREATE TABLE zones (LIKE zone_now) PARTITION BY LIST (v);
ALTER TABLE zones ATTACH PARTITION zone_now FOR VALUES IN ('N');
RESET pg_scd2.allow_target_writes;
SELECT scd2.resume_flow('word_h'), scd2.resume_flow('zone_now') \g /dev/null
INSERT INTO word VALUES (1, 'ok', 1);
INSERT INTO zone VALUES (1, 'N', 1);
SELECT scd2.sync('2min') \g /dev/null
SELECT is(rows_of('word_h', 'v') || ' ' || rows_of('zones', 'v'), '1*ok 1*N', 'a target with a domain and one that is a partition take rows');
INSERT INTO word VALUES (2, 'too long', 2);
SELECT throws_ok($$SELECT scd2.sync('2min', '{word_h}')$$, NULL, NULL, 'a value that a domain refuses stops the flow');
INSERT INTO zone VALUES (1, 'S', 2);
SELECT throws_ok($$SELECT scd2.sync('2min', '{zone_now}')$$, NULL, NULL, 'so does one that does not belong into the partition');
SELECT scd2.drop_flow('word_h'), scd2.drop_flow('zone_now') \g /dev/null

-- A period that grows into that of a row which goes.
CREATE EXTENSION IF NOT EXISTS btree_gist;
CREATE TABLE step (k int, v text, s int);
SELECT scd2.create_auto_cdc_flow('step_h', 'step', '{k}', 's', column_list => '{k,v}', stored_as_scd_type => 2) \g /dev/null
ALTER TABLE step_h ADD EXCLUDE USING gist (k WITH =, int4range(__start_at, __end_at) WITH &&);
INSERT INTO step VALUES (1, 'x', 10), (1, 'b', 20), (1, 'c', 30);
SELECT scd2.sync('2min') \g /dev/null
INSERT INTO step VALUES (1, 'x', 20);
SELECT lives_ok($$SELECT scd2.sync('2min')$$, 'rows are deleted before others grow into their periods');
SELECT is(rows_of('step_h', 'format(''%s[%s,%s)'', v, __start_at, __end_at)'), '1*c[30,) 1*x[10,30)', 'exclusion constraint on periods');

-- Snapshots of wide tables: as wide as they can be compared, or refused when the flow is created.
SELECT format('CREATE TABLE wide_%s (id int PRIMARY KEY, %s)', n, (SELECT string_agg(format('c%s int', i), ', ') FROM generate_series(2, n) AS i)) FROM unnest('{831,832}'::int[]) AS n \gexec
SELECT throws_like($$SELECT scd2.create_auto_cdc_from_snapshot_flow('wide_832_h', 'wide_832', '{id}', 'int', scope => 'id > 0', stored_as_scd_type => 2, shared => true)$$, 'too many columns of "%wide_832" for snapshots: 832', 'too wide');
SELECT scd2.create_auto_cdc_from_snapshot_flow('wide_831_h', 'wide_831', '{id}', 'int', scope => 'id > 0', stored_as_scd_type => 2, shared => true) \g /dev/null
INSERT INTO wide_831 (id, c831) VALUES (1, 1);
SELECT scd2.apply_snapshot('wide_831_h', '1') \g /dev/null
UPDATE wide_831 SET c831 = 2;
SELECT scd2.apply_snapshot('wide_831_h', '2') \g /dev/null
SELECT is(rows_of('wide_831_h', 'format(''%s[%s,%s)'', c831, __start_at, __end_at)'), '1*1[1,2) 1*2[2,)', 'as wide as it can be');
SELECT * FROM finish();
