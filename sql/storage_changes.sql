-- Captured tables are moved, rewritten and stored in another way: nothing is lost, nothing is extra, and what the log does not show is a declared gap.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE SCHEMA stored;
SET search_path = stored;
CREATE TABLE a (id integer PRIMARY KEY, v integer);
SELECT scd2.track('a');
INSERT INTO a VALUES (1, 1);
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_scd2_space LOCATION '';
-- with changes before, between and after, all waiting in the log
SELECT scd2.sync() >= 0 AS reached;
SELECT scd2.stop();
BEGIN;
UPDATE a SET v = 2;
ALTER TABLE a SET TABLESPACE regress_scd2_space;
UPDATE a SET v = 3;
COMMIT;
CLUSTER a USING a_pkey;
UPDATE a SET v = 4;
VACUUM FULL a;
UPDATE a SET v = 5;
ALTER TABLE a SET (fillfactor = 50), ALTER v SET STATISTICS 10;
UPDATE a SET v = 6;
SELECT scd2.start();
SELECT scd2.sync() >= 0 AS reached;
SELECT _change_type, v FROM a_changes ORDER BY _commit_version, _change_ordinal;
SELECT v, __end_at IS NULL AS open FROM a_history ORDER BY __start_at;
ALTER TABLE a SET TABLESPACE pg_default;
-- a generated column becomes an ordinary one; NULL is allowed and not
CREATE TABLE g (id integer PRIMARY KEY, v integer, d integer GENERATED ALWAYS AS (v * 2) STORED);
SELECT scd2.track('g');
INSERT INTO g VALUES (1, 1);
ALTER TABLE g ALTER d DROP EXPRESSION;
UPDATE g SET d = 7;
ALTER TABLE g ALTER v SET NOT NULL;
ALTER TABLE g ALTER v DROP NOT NULL;
INSERT INTO g VALUES (2, NULL, NULL);
SELECT scd2.sync() >= 0 AS reached;
SELECT id, v, d, __end_at IS NULL AS open FROM g_history ORDER BY id, __start_at;
SELECT count(*) FROM scd2.diagnose();
-- by what decoding does not read
CREATE ACCESS METHOD regress_scd2_heap TYPE TABLE HANDLER heap_tableam_handler;
ALTER TABLE g SET ACCESS METHOD regress_scd2_heap;
UPDATE g SET d = 8;
DO $$ BEGIN PERFORM scd2.sync(); EXCEPTION WHEN object_not_in_prerequisite_state THEN RAISE WARNING '%', SQLERRM; END $$;
SELECT gap IS NOT NULL AS gap FROM scd2.feeds WHERE source = 'g'::regclass;
SELECT d, __end_at IS NULL AS open FROM g_history WHERE id = 1 ORDER BY __start_at;
SELECT count(scd2.drop_flow(name)) FROM (SELECT name FROM scd2_internal.flow ORDER BY name) f;
DROP SCHEMA stored CASCADE;
DROP TABLESPACE regress_scd2_space;
DROP ACCESS METHOD regress_scd2_heap;
