-- A row that a transaction changed before it dropped a column, and deleted after it, is gone: the image without the column takes away the one with it.
SET client_min_messages = warning;
CREATE SCHEMA columns_dropped;
SET search_path = columns_dropped;
CREATE TABLE t (id integer PRIMARY KEY, a text, b text);
INSERT INTO t VALUES (1, 'a', 'b');
SELECT scd2.track('t');
SELECT scd2.sync() IS NOT NULL AS synced;
BEGIN;
UPDATE t SET a = 'a2' WHERE id = 1;
INSERT INTO t VALUES (2, 'n', 'n'), (3, 'n', 'n');
ALTER TABLE t DROP COLUMN b;
UPDATE t SET a = 'a3' WHERE id = 1;
DELETE FROM t WHERE id = 2;
COMMIT;
SELECT scd2.sync() IS NOT NULL AS synced;
SELECT id, a, b, __end_at IS NULL AS open FROM t_history ORDER BY id, __start_at;
-- What a dropped column had is not made again: a refresh says so, a comparison leaves it.
SET client_min_messages = notice;
SELECT * FROM scd2.check_target('t_history');
SELECT scd2.full_refresh('t_history');
SELECT scd2.full_refresh('t_history', key_filter => 'id = 1');
SELECT scd2.full_refresh('t_history', allow_loss => true);
SET client_min_messages = warning;
SELECT scd2.sync() IS NOT NULL AS synced;
SELECT id, a, b, __end_at IS NULL AS open FROM t_history ORDER BY id, __start_at;
-- Before the first copy.
CREATE TABLE u (id integer PRIMARY KEY, a text, b text);
INSERT INTO u VALUES (1, 'a', 'b');
BEGIN;
SELECT scd2.track('u');
ALTER TABLE u DROP COLUMN b;
COMMIT;
UPDATE u SET a = 'a2';
SELECT scd2.sync() IS NOT NULL AS synced;
SELECT id, a, b, __end_at IS NULL AS open FROM u_history ORDER BY id, __start_at;
-- An expression names it: its flow stops and says so, instead of leaving out all that comes.
CREATE TABLE w (id integer PRIMARY KEY, a text, kind text, op text);
SELECT scd2.track('w', 'w_some', source_filter => 'kind = ''x''', except_column_list => '{op}');
SELECT scd2.track('w', 'w_del', apply_as_deletes => 'w.op = ''D''');
SELECT scd2.track('w', 'w_all');
INSERT INTO w VALUES (1, 'a', 'x', 'U'), (2, 'b', 'y', 'D');
SELECT scd2.sync() IS NOT NULL AS synced;
ALTER TABLE w DROP COLUMN kind;
ALTER TABLE w DROP COLUMN op, ADD COLUMN op text;
UPDATE w SET a = 'a2', op = 'D' WHERE id = 1;
DO $$ BEGIN PERFORM scd2.sync('20 s', '{w_some}'); EXCEPTION WHEN object_not_in_prerequisite_state THEN RAISE WARNING '%', regexp_replace(SQLERRM, '_until_\d+', '_until_N', 'g'); END $$;
DO $$ BEGIN PERFORM scd2.sync('20 s', '{w_del}'); EXCEPTION WHEN object_not_in_prerequisite_state THEN RAISE WARNING '%', regexp_replace(SQLERRM, '_until_\d+', '_until_N', 'g'); END $$;
SELECT scd2.sync(targets => '{w_all}') IS NOT NULL AS synced;
SELECT id, a, op FROM w_all WHERE __end_at IS NULL ORDER BY id;
SELECT fix FROM scd2.diagnose() WHERE problem = 'it has failed' AND subject = 'flow w_some' \gexec
SELECT scd2.alter_flow('w_del', apply_as_deletes => 'op = ''D''');
SELECT scd2.resume_flow('w_del');
SELECT scd2.sync() IS NOT NULL AS synced;
SELECT id, a FROM w_some WHERE __end_at IS NULL ORDER BY id;
SELECT id, a FROM w_del WHERE __end_at IS NULL ORDER BY id;
SELECT count(scd2.drop_flow(flow)) FROM scd2.flows;
DROP SCHEMA columns_dropped CASCADE;
