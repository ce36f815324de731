-- A column keeps its values through any renaming, in feed, targets and definitions; nothing is mixed up when names go round or are used again (CD-01, CD-06, FR-05).
\set SHOW_CONTEXT never
SET client_min_messages = warning;
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
CREATE SCHEMA columns_renamed;
SET search_path = columns_renamed;
CREATE FUNCTION columns_of(r regclass) RETURNS text LANGUAGE sql AS
    $$ SELECT string_agg(regexp_replace(attname, '_until_\d+', '_until_N'), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = r AND attnum > 0 AND NOT attisdropped AND attname NOT LIKE '\_%' $$;
CREATE TABLE t (id integer PRIMARY KEY, a text, b text, secret text);
SELECT scd2.enable_change_feed('t', except_column_list => '{secret}');
INSERT INTO t VALUES (1, 'a1', 'b1', 's'), (2, 'a2', 'b2', 's');
SELECT scd2.track('t', track_history_column_list => '{a}');
SELECT scd2.track('t', 't_now', stored_as_scd_type => 1);
SELECT scd2.track('t', 't_some', column_list => '{id,b}', source_filter => 'b <> ''none''');
SELECT scd2.sync() IS NOT NULL AS synced;
CREATE VIEW seen AS SELECT id, a FROM t_history WHERE __end_at IS NULL;
-- round, the key too, with changes before, between and after, in one transaction
BEGIN;
UPDATE t SET a = 'a1x' WHERE id = 1;
ALTER TABLE t RENAME a TO c;
ALTER TABLE t RENAME b TO a;
ALTER TABLE t RENAME c TO b;
UPDATE t SET b = 'a2x' WHERE id = 2;
ALTER TABLE t RENAME id TO key;
ALTER TABLE t RENAME secret TO hidden;
INSERT INTO t (key, a, b, hidden) VALUES (3, 'b3', 'a3', 's');
COMMIT;
SELECT scd2.sync('1 min', '{t_history,t_now}') AS v1 \gset
SELECT r, columns_of(r) FROM unnest('{t_changes,t_history,t_now}'::regclass[]) r;
SELECT key, a, b, __end_at IS NULL AS open FROM t_history ORDER BY key, __start_at;
SELECT * FROM t_now ORDER BY key;
SELECT * FROM seen ORDER BY id;
SELECT _change_type, key, a, b FROM scd2.table_changes(NULL::t_changes);
SELECT keys, columns, tracked FROM scd2_internal.flow WHERE target_name = 't_history';
SELECT key, a, b FROM scd2.table_at(NULL::t, :v1 - 1) ORDER BY key;
SELECT except_columns FROM scd2_internal.feed WHERE source_relid = 't'::regclass;
SET client_min_messages = notice;        -- that it was compared, too
SELECT * FROM scd2.check_target('t_history');
SET client_min_messages = warning;
-- an expression that names the column names it by its new name
SELECT scd2.sync() IS NOT NULL AS synced;
SELECT source_filter FROM scd2_internal.flow WHERE name = 't_some';
SELECT key, a FROM t_some WHERE __end_at IS NULL ORDER BY key;
SELECT scd2.drop_flow('t_some', drop_target => true);
-- a tracked column under its new name, an untracked one under its
UPDATE t SET b = 'a1y' WHERE key = 1;
UPDATE t SET a = 'b2y' WHERE key = 2;
SELECT scd2.sync() IS NOT NULL AS synced;
SELECT key, a, b, __end_at IS NULL AS open FROM t_history ORDER BY key, __start_at;
-- a name that is used again, also within one statement
ALTER TABLE t DROP COLUMN a, ADD COLUMN a integer DEFAULT 5;
UPDATE t SET a = 6 WHERE key = 1;
ALTER TABLE t DROP COLUMN b;
ALTER TABLE t RENAME a TO b;
INSERT INTO t (key, b) VALUES (4, 7);
SELECT scd2.sync() IS NOT NULL AS synced;
SELECT r, columns_of(r) FROM unnest('{t_changes,t_history,t_now}'::regclass[]) r;
SELECT key, b, __end_at IS NULL AS open FROM t_history ORDER BY key, __start_at;
SELECT state, gap FROM scd2.feeds WHERE source = 't'::regclass;
-- who tracks while capture is behind is told to wait
SELECT scd2.stop();
ALTER TABLE t RENAME b TO d;
SELECT scd2.track('t', 't_late');
SELECT scd2.start();
SELECT scd2.sync() IS NOT NULL AS synced;
SELECT scd2.track('t', 't_late');
-- all of it waiting in the log, and after a restart of the worker
SELECT scd2.stop();
UPDATE t SET d = 8 WHERE key = 4;
ALTER TABLE t RENAME d TO e;
UPDATE t SET e = 9 WHERE key = 4;
ALTER TABLE t RENAME e TO d;
UPDATE t SET d = 10 WHERE key = 4;
SELECT scd2.start();
SELECT scd2.sync() IS NOT NULL AS synced;
SELECT key, d, __end_at IS NULL AS open FROM t_late ORDER BY key, __start_at;
SELECT key, d FROM t_now WHERE key = 4;
-- expressions of every kind of flow
CREATE TABLE e (id integer, n integer, m integer, op text, kind text);
SELECT scd2.create_auto_cdc_flow('e_now', 'e', '{id}', sequence_by => 'n', apply_as_deletes => 'kind = ''D''', column_list => '{id,op}');
SELECT scd2.create_auto_cdc_flow('e_struct', 'e', '{id}', sequence_by => 'struct(n, m)', apply_as_deletes => 'op = ''D''', column_list => '{id,op}', stored_as_scd_type => 2);
CREATE TABLE s (id integer PRIMARY KEY, at timestamptz, seen timestamptz, "delete" integer);
SELECT scd2.enable_change_feed('s');
SELECT scd2.create_auto_cdc_flow('s_at', 's_changes', '{id}', sequence_by => 'at', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('s_expression', 's_changes', '{id}', sequence_by => 'coalesce(at, seen)', stored_as_scd_type => 2);
SELECT scd2.sync() IS NOT NULL AS synced;
ALTER TABLE e RENAME kind TO sort;
ALTER TABLE e RENAME m TO minor;
ALTER TABLE s RENAME "delete" TO removed;      -- no expression of a flow names it, whatever a change is called
ALTER TABLE s RENAME seen TO loaded;
INSERT INTO e VALUES (1, 1, 1, 'U', 'U'), (2, 1, 1, 'U', 'U'), (2, 2, 1, 'D', 'D');
INSERT INTO s VALUES (1, '2026-01-01', NULL, 7);
SELECT scd2.sync() IS NOT NULL AS synced;
SELECT name, sequence_by, apply_as_deletes FROM scd2_internal.flow WHERE name ~ '^[es]_' ORDER BY name;
SELECT id, op, __start_at, __end_at FROM e_struct ORDER BY id, __start_at;
SELECT id, removed, __start_at FROM s_expression;
SELECT * FROM e_now;
SELECT id, removed, at = __start_at AS at_its_time, __end_at FROM s_at;
SELECT scd2.drop_flow('e_struct', true), scd2.drop_flow('s_expression', true);
-- leaves with another order of columns, and a renaming through the root
CREATE TABLE p (id integer, x text, y text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE TABLE p2 (y text, id integer NOT NULL, gone int, x text);
ALTER TABLE p2 DROP COLUMN gone;
ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20);
SELECT scd2.track('p');
INSERT INTO p VALUES (1, 'x1', 'y1'), (11, 'x11', 'y11');
BEGIN;
ALTER TABLE p RENAME x TO z;
ALTER TABLE p RENAME y TO x;
ALTER TABLE p ADD COLUMN w text DEFAULT 'w';
INSERT INTO p (id, z, x) VALUES (2, 'x2', 'y2'), (12, 'x12', 'y12');
UPDATE p SET w = 'v' WHERE id IN (1, 11);
COMMIT;
SELECT scd2.sync() IS NOT NULL AS synced;
SELECT id, z, x, w, __end_at IS NULL AS open FROM p_history ORDER BY id, __start_at;
SELECT subject, problem, regexp_replace(detail, '_until_\d+', '_until_N', 'g') AS detail FROM scd2.diagnose() ORDER BY 1;
SELECT scd2.drop_flow(flow) FROM scd2.flows;
DROP SCHEMA columns_renamed CASCADE;
