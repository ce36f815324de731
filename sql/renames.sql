-- Tables, schemas and columns get other names: feed, history, <target>_as_of, views and flows go on under them, and what comes under an old name is another table's.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
SET datestyle = 'ISO, YMD';
CREATE SCHEMA rn;
SET search_path = rn;
CREATE TABLE t (id integer PRIMARY KEY, v text);
SELECT scd2.track('t');
SELECT scd2.create_auto_cdc_flow(target => 'ordered', source => 't_changes', keys => '{id}', stored_as_scd_type => 2, sequence_by => 'struct(_commit_timestamp, _change_ordinal)', source_filter => 't_changes.v <> ''left out''');
INSERT INTO t VALUES (1, 'a');
SELECT scd2.sync() >= 0 AS reached;
CREATE VIEW open_rows AS SELECT id, v FROM t_history WHERE __end_at IS NULL;
CREATE VIEW as_of AS SELECT id, v FROM t_history_as_of(now());

-- the target
ALTER TABLE t_history RENAME TO "The History";
UPDATE t SET v = 'b';
SELECT scd2.sync() >= 0 AS reached;
TABLE open_rows;
TABLE as_of;
SELECT id, v FROM "The History_as_of"(now());
SELECT flow, target, source, state FROM scd2.flows ORDER BY 1;
SELECT target_name FROM scd2_internal.flow ORDER BY 1;
-- by ALTER INDEX, which renames tables too
ALTER INDEX "The History" RENAME TO history;
SELECT id, v FROM history_as_of(now());

-- the source, in two steps; a filter names it
ALTER TABLE t RENAME TO u;
ALTER TABLE u RENAME TO w;
INSERT INTO w VALUES (2, 'c'), (3, 'left out');
SELECT scd2.sync() >= 0 AS reached;
TABLE open_rows ORDER BY id;
SELECT id, v FROM ordered WHERE __end_at IS NULL ORDER BY id;
SELECT _change_type, id, v FROM scd2.table_changes('rn.w') c, jsonb_to_record(c._row) AS r (id integer, v text);

-- the schema, with the type of a struct in it
ALTER SCHEMA rn RENAME TO "Renamed";
SET search_path = "Renamed";
UPDATE w SET v = 'd' WHERE id = 2;
SELECT scd2.sync() >= 0 AS reached;
TABLE open_rows ORDER BY id;
TABLE as_of ORDER BY id;
SELECT id, v FROM ordered WHERE __end_at IS NULL ORDER BY id;
SELECT count(*) FROM ordered_as_of((SELECT __start_at FROM ordered ORDER BY __start_at DESC LIMIT 1));
SELECT name, sequence_type, source_schema, target_schema FROM scd2_internal.flow ORDER BY name;

-- SET SCHEMA of the target, of the source and of the feed
CREATE SCHEMA rn2;
ALTER TABLE history SET SCHEMA rn2;
ALTER TABLE w SET SCHEMA rn2;
SELECT source, feed FROM scd2.feeds;        -- which stays where it is until somebody moves it
ALTER TABLE t_changes SET SCHEMA rn2;
ALTER TABLE rn2.t_changes RENAME TO w_changes;
DELETE FROM rn2.w WHERE id = 3;
SELECT scd2.sync() >= 0 AS reached;
TABLE open_rows ORDER BY id;
SELECT count(*) FROM rn2.history_as_of(now());
SELECT source, feed, state FROM scd2.feeds;
-- a name that is taken is left alone
CREATE FUNCTION rn2.other_as_of(point timestamptz) RETURNS integer LANGUAGE sql AS 'SELECT 1';
ALTER TABLE rn2.history RENAME TO other;
SELECT count(*) FROM rn2.history_as_of(now()), rn2.other_as_of(now());
SELECT problem FROM scd2.diagnose();

-- CD-06: swapped by rename: what is captured is the table, whatever it is called
SET search_path = "Renamed", rn2;
CREATE TABLE s (id integer PRIMARY KEY, v text);
SELECT scd2.track('s');
INSERT INTO s VALUES (1, 'old table');
CREATE TABLE s_new (id integer PRIMARY KEY, extra integer, v text);
INSERT INTO s_new VALUES (1, 7, 'new table');
BEGIN;
ALTER TABLE s RENAME TO s_old;
ALTER TABLE s_new RENAME TO s;
COMMIT;
UPDATE s SET v = 'not captured';
UPDATE s_old SET v = 'captured';
SELECT scd2.sync() >= 0 AS reached;
SELECT _change_type, id, v FROM s_changes ORDER BY _commit_version, _change_ordinal;
SELECT id, v FROM s_history WHERE __end_at IS NULL;
SELECT source, feed FROM scd2.feeds WHERE feed = 's_changes'::regclass;
SELECT * FROM scd2.table_changes('s');
SELECT scd2.track('s');
SELECT scd2.enable_change_feed('s', feed => 's_changes_2');
SELECT scd2.track('s', target => 's_history_2');
SELECT scd2.sync() >= 0 AS reached;
SELECT id, extra, v FROM s_history_2;

-- dropped, and another one of the same name
RESET client_min_messages;
DROP TABLE s_old;
SET client_min_messages = warning;
CREATE TABLE s_old (id integer PRIMARY KEY, v text);
INSERT INTO s_old VALUES (1, 'another');
SELECT count(*) FROM s_changes;
SELECT id, v FROM s_history WHERE __end_at IS NULL;
SELECT state FROM scd2.feeds WHERE feed = 's_changes'::regclass;
SELECT subject, problem, fix FROM scd2.diagnose();
SELECT fix FROM scd2.diagnose() \gexec
SELECT scd2.track('s_old');
SELECT scd2.sync() >= 0 AS reached;
SELECT id, v FROM s_old_history;
SELECT count(*) FROM scd2.diagnose();

-- columns: an expression goes along wherever it names one, and nowhere else
CREATE TABLE x (id integer PRIMARY KEY, "at" timestamptz, "Op" text, note text);
SELECT scd2.create_auto_cdc_flow(target => 'xh', source => scd2.enable_change_feed('x'), keys => '{id}', stored_as_scd_type => 2, sequence_by => 'at',
    apply_as_deletes => '"Op" = ''Op'' OR x_changes."Op" = upper(note) /* Op */', source_filter => 'note IS DISTINCT FROM ''at'' AND x_changes.note::text <> ''note''');
INSERT INTO x VALUES (1, '2026-01-01 00:00+00', 'x', 'n');
BEGIN;
ALTER TABLE x RENAME COLUMN "at" TO tmp;
ALTER TABLE x RENAME COLUMN note TO "at";
ALTER TABLE x RENAME COLUMN tmp TO note;
ALTER VIEW x RENAME COLUMN "Op" TO "select";
COMMIT;
INSERT INTO x VALUES (2, '2026-01-02 00:00+00', 'x', 'at'), (3, '2026-01-03 00:00+00', 'y', 'n');
UPDATE x SET "select" = 'Op', note = '2026-01-04 00:00+00' WHERE id = 3;
SELECT scd2.sync() >= 0 AS reached;
SELECT id, note AT TIME ZONE 'UTC' AS note, "select", "at", __end_at AT TIME ZONE 'UTC' AS ends FROM xh ORDER BY id;
SELECT sequence_by, source_filter, apply_as_deletes FROM scd2_internal.flow WHERE name = 'xh';

-- taken along by something else
CREATE DOMAIN short AS text;
CREATE TABLE y (id integer PRIMARY KEY, d short, v integer);
SELECT scd2.track('y');
INSERT INTO y VALUES (1, 'gone', 1);
DROP DOMAIN short CASCADE;
ALTER TABLE y ADD d integer;
UPDATE y SET v = 2;
SELECT scd2.sync() >= 0 AS reached;
SELECT id, v, d FROM y_history WHERE __end_at IS NULL;
SELECT count(*) FILTER (WHERE d IS NOT NULL) FROM y_changes;
-- a table of a type, whose attributes change
CREATE TYPE shape AS (id integer, a text);
CREATE TABLE typed OF shape (PRIMARY KEY (id));
SELECT scd2.track('typed');
INSERT INTO typed VALUES (1, 'x');
ALTER TYPE shape RENAME ATTRIBUTE a TO b CASCADE;
ALTER TYPE shape ADD ATTRIBUTE c integer CASCADE;
UPDATE typed SET c = 1;
SELECT scd2.sync() >= 0 AS reached;
SELECT id, b, c, __end_at IS NULL AS open FROM typed_history ORDER BY __start_at;
SELECT subject, problem, regexp_replace(detail, '\d+', 'N') AS detail FROM scd2.diagnose();

DROP VIEW as_of, open_rows;
SELECT count(scd2.drop_flow(name, true)) FROM (SELECT name FROM scd2_internal.flow ORDER BY flow_id DESC) f;
DROP SCHEMA "Renamed", rn2 CASCADE;
