-- A type that takes the same values is followed; where values changed and the log does not show how, the feed has a gap that says so (CD-04).
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE SCHEMA columns_retyped;
SET search_path = columns_retyped;
CREATE FUNCTION columns_of(r regclass) RETURNS text LANGUAGE sql AS
    $$ SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = r AND attnum > 0 AND NOT attisdropped AND attname NOT LIKE '\_%' $$;
CREATE TABLE t (id integer PRIMARY KEY, c varchar(5), n numeric(6,2), i smallint, b integer);
INSERT INTO t VALUES (1, 'a', 1.5, 7, 8), (2, 'b', 2.5, 7, 8);
SELECT scd2.track('t');
SELECT scd2.sync() IS NOT NULL AS synced;
-- no value changes, and none is written; changes before and after, in one transaction
BEGIN;
UPDATE t SET c = 'a2', b = 9 WHERE id = 1;
INSERT INTO t VALUES (3, 'c', 3, 7, 8);
ALTER TABLE t ALTER c TYPE varchar(20), ALTER n TYPE numeric(10,2) USING n::numeric(10,2), ALTER i TYPE bigint, ALTER b TYPE text USING b::text, ALTER id TYPE bigint;
UPDATE t SET c = 'longer than five' WHERE id = 3;
ALTER TABLE t ALTER c TYPE text;
UPDATE t SET i = 5000000000, b = 'text' WHERE id = 2;
COMMIT;
SELECT scd2.sync() IS NOT NULL AS synced;
SELECT r, columns_of(r) FROM unnest('{t_changes,t_history}'::regclass[]) r;
SELECT id, c, n, i, b, __end_at IS NULL AS open FROM t_history ORDER BY id, __start_at;
SELECT _change_type, id, c, n, i, b FROM scd2.table_changes(NULL::t_changes);
SET client_min_messages = notice;        -- that it was compared, too
SELECT * FROM scd2.check_target('t_history');
SET client_min_messages = warning;
SELECT * FROM scd2.diagnose();
-- values of their own for each row: compared with the target at once (columns_rewritten)
ALTER TABLE t ADD COLUMN r double precision DEFAULT random();
SELECT scd2.sync('10 s') IS NOT NULL AS synced;
SELECT s.state, s.error FROM scd2_internal.feed_state s WHERE source_relid = 't'::regclass;
SELECT problem, fix FROM scd2.diagnose() WHERE subject LIKE 'table%';
-- without a target: a gap, with what to do
CREATE TABLE u (id integer PRIMARY KEY, v text);
SELECT scd2.enable_change_feed('u');
-- nothing to be missed in a table without rows
ALTER TABLE u ADD COLUMN r double precision DEFAULT random();
INSERT INTO u (id, v) VALUES (1, '12');
ALTER TABLE u ALTER v TYPE integer USING v::integer + 1;
DO $$ BEGIN PERFORM scd2.sync('20 s', '{}'); END $$;
SELECT s.state, s.error FROM scd2_internal.feed_state s WHERE source_relid = 'u'::regclass;
SELECT problem, fix FROM scd2.diagnose() WHERE subject LIKE 'table%';
-- a cast to less than the column takes is one more change of values
CREATE TABLE w (id integer PRIMARY KEY, v varchar(10));
SELECT scd2.enable_change_feed('w');
INSERT INTO w VALUES (1, 'abcdef');
ALTER TABLE w ALTER v TYPE varchar(20) USING v::varchar(3);
DO $$ BEGIN PERFORM scd2.sync('20 s', '{}'); END $$;
SELECT s.state, s.error FROM scd2_internal.feed_state s WHERE source_relid = 'w'::regclass;
-- something hangs on the column of a target: its flow stops and says so, until that is out of the way
CREATE TABLE x (id integer PRIMARY KEY, v integer);
SELECT scd2.track('x');
SELECT scd2.sync(targets => '{x_history}') IS NOT NULL AS synced;
CREATE VIEW on_x AS SELECT v FROM x_history;
ALTER TABLE x ALTER v TYPE bigint;
INSERT INTO x VALUES (1, 5000000000);
DO $$ BEGIN PERFORM scd2.sync('20 s', '{x_history}'); EXCEPTION WHEN OTHERS THEN RAISE WARNING '%', SQLERRM; END $$;
SELECT problem, fix FROM scd2.diagnose() WHERE subject = 'flow x_history';
DROP VIEW on_x;
SELECT scd2.resume_flow('x_history');
SELECT scd2.sync(targets => '{x_history}') IS NOT NULL AS synced;
SELECT id, v FROM x_history;
SELECT scd2.drop_flow(flow) FROM scd2.flows;
DROP SCHEMA columns_retyped CASCADE;
