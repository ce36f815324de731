-- A column that is added to the source comes into feed and targets, tracked unless the flow says otherwise, and makes no versions of rows that did not change (S2-21, CD-01, CD-05).
\set SHOW_CONTEXT never
SET client_min_messages = warning;
SET timezone = 'UTC';
SET datestyle = 'ISO, MDY';
CREATE SCHEMA columns_added;
SET search_path = columns_added;
CREATE TABLE t (id integer PRIMARY KEY, v text);
INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');
SELECT scd2.track('t');
SELECT scd2.track('t', 't_now', stored_as_scd_type => 1);
SELECT scd2.track('t', 't_listed', column_list => '{id,v}');
SELECT scd2.track('t', 't_kept', track_history_column_list => '{v}');
SELECT scd2.track('t', 't_without', track_history_except_column_list => '{v}');
SELECT scd2.create_append_flow('t_all', 't');
SELECT scd2.sync() IS NOT NULL AS synced;
UPDATE t SET v = 'a2' WHERE id = 1;
-- nothing but DDL: the columns come all the same
ALTER TABLE t ADD COLUMN plain integer, ADD COLUMN secret text;
SELECT scd2.sync() IS NOT NULL AS synced;
ALTER TABLE t ADD COLUMN given text DEFAULT 'd';
-- the default that rows got stays, also when the source's goes or the table is rewritten before the next change
ALTER TABLE t ALTER COLUMN given DROP DEFAULT;
VACUUM FULL t;
SELECT scd2.sync() IS NOT NULL AS synced;
CREATE FUNCTION columns_of(r regclass) RETURNS text LANGUAGE sql AS
    $$ SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = r AND attnum > 0 AND NOT attisdropped $$;
SELECT r, columns_of(r) FROM unnest('{t_changes,t_history,t_now,t_listed,t_kept,t_without,t_all}'::regclass[]) r;
SELECT id, v, plain, given, __end_at IS NULL AS open FROM t_history ORDER BY id, __start_at;
SELECT * FROM t_now ORDER BY id;
-- a change elsewhere makes one version, in which the new columns are as they were; an update of nothing makes none
UPDATE t SET v = 'b2' WHERE id = 2;
UPDATE t SET v = v WHERE id = 3;
UPDATE t SET plain = 7 WHERE id = 1;
UPDATE t SET given = 'other' WHERE id = 3;
SELECT scd2.sync() IS NOT NULL AS synced;
SELECT id, v, plain, given, __end_at IS NULL AS open FROM t_history ORDER BY id, __start_at;
SELECT id, v, plain, given, __end_at IS NULL AS open FROM t_kept ORDER BY id, __start_at;
SELECT id, v, plain, given, __end_at IS NULL AS open FROM t_without ORDER BY id, __start_at;
SELECT * FROM t_now ORDER BY id;
SELECT * FROM t_all ORDER BY id;
SELECT id, v, plain, given FROM t_history_as_of(now()) ORDER BY id;
-- DDL and DML in one transaction
BEGIN;
INSERT INTO t (id, v) VALUES (4, 'new');
UPDATE t SET v = 'a3' WHERE id = 1;
ALTER TABLE t ADD COLUMN later numeric(5,1) DEFAULT 1.5;
UPDATE t SET v = 'a4' WHERE id = 1;
UPDATE t SET v = 'new2', later = 2 WHERE id = 4;
COMMIT;
SELECT scd2.sync() AS v \gset
SELECT id, v, later, __end_at IS NULL AS open FROM t_history ORDER BY id, __start_at;
SELECT _change_type, id, v, later FROM scd2.table_changes(NULL::t_changes, :v);
SELECT * FROM scd2.table_at(NULL::t, :v - 1) ORDER BY id;
-- nobody but the worker writes a target with new columns either
UPDATE t_history SET later = 0;
SET client_min_messages = notice;        -- that it was compared, too
SELECT * FROM scd2.check_target('t_history');
SET client_min_messages = warning;
SELECT * FROM scd2.diagnose();
-- a name that the target has for something else: the flow stops and says what helps
ALTER TABLE t_history RENAME COLUMN plain TO mine;
ALTER TABLE t_now ADD COLUMN extra text;
ALTER TABLE t ADD COLUMN extra text;
DO $$ BEGIN PERFORM scd2.sync('20 s', '{t_now}'); EXCEPTION WHEN OTHERS THEN RAISE WARNING '%', SQLERRM; END $$;
SELECT fix FROM scd2.diagnose() WHERE subject = 'flow t_now';
-- truncate rows of the feed show the constant as all that were there before; in a target that several flows keep rows that are there have NULL
CREATE TABLE s (id integer PRIMARY KEY, v text);
CREATE TABLE more (id integer, v text, at timestamptz);
SELECT scd2.track('s', shared => true, apply_as_truncates => 'false');
SELECT scd2.create_auto_cdc_flow('s_history', 'more', '{id}', 'at', column_list => '{id,v}', stored_as_scd_type => 2, name => 'more');
INSERT INTO s VALUES (1, 'a');
TRUNCATE s;
INSERT INTO s VALUES (2, 'b');
SELECT scd2.sync(targets => '{s_history}') IS NOT NULL AS synced;
ALTER TABLE s ADD COLUMN d integer DEFAULT 5;
INSERT INTO s VALUES (3, 'c');
SELECT scd2.sync(targets => '{s_history}') IS NOT NULL AS synced;
SELECT _change_type, id, d FROM s_changes ORDER BY _commit_version, _change_ordinal;
SELECT id, v, d FROM s_history ORDER BY id;
SELECT scd2.drop_flow(flow) FROM scd2.flows;
DROP SCHEMA columns_added CASCADE;
