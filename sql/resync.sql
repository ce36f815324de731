-- scd2.resync: what a feed missed comes as one version, marked as reconstructed, into the feed and all its targets.
-- (Slots that are lost: test/tap. Here rows change in ways that leave no trace in the log.)
\set SHOW_CONTEXT never
SET client_min_messages = error;
CREATE SCHEMA resync;
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';
SET search_path = resync;
-- an error with its parts, without the numbers of versions
CREATE FUNCTION said(statement text) RETURNS TABLE (state text, error text) LANGUAGE plpgsql AS $$
DECLARE
    detail text;
    hint text;
BEGIN
    EXECUTE statement;
    RETURN QUERY SELECT '00000', 'no error';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN QUERY SELECT SQLSTATE, regexp_replace(concat_ws(' | ', SQLERRM, detail, hint), '\m\d+', 'N', 'g');
END $$;
CREATE TABLE p (id integer, part integer, v text, n integer, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
CREATE TABLE p_1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p_2 PARTITION OF p FOR VALUES IN (2);
INSERT INTO p VALUES (1, 1, 'there', 1), (2, 1, 'there', 2), (3, 2, 'there', 3);
SELECT scd2.track('p'), scd2.track('p', 'p_now', stored_as_scd_type => 1);
SELECT scd2.create_auto_cdc_flow('p_few', 'p_changes', '{id,part}', column_list => '{id,part,v}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('p_some', 'p_changes', '{id,part}', source_filter => 'n > 1', stored_as_scd_type => 2);
SELECT scd2.create_append_flow('p_rows', 'p');
INSERT INTO p VALUES (4, 2, 'came', 4);
SELECT scd2.sync() AS v0 \gset
CREATE VIEW versions AS SELECT id, part, v, n, dense_rank() OVER (ORDER BY __start_at) AS since, __end_at IS NULL AS open FROM p_history;

-- nothing to repair
SET client_min_messages = notice;
SELECT scd2.resync('p');
-- wrong arguments
SELECT scd2.resync(NULL);
SELECT scd2.resync('p_1');
CREATE TABLE no_feed (id integer);
SELECT scd2.resync('no_feed');
CREATE ROLE resync_other;
GRANT USAGE ON SCHEMA resync TO resync_other;
SET ROLE resync_other;
SELECT scd2.resync('p');
RESET ROLE;
SET client_min_messages = error;

-- a partition with rows comes, another goes, too large to be recorded
SET pg_scd2.max_partition_copy = 0;
CREATE TABLE p_3 (n integer, id integer NOT NULL, part integer NOT NULL, v text);
INSERT INTO p_3 VALUES (5, 5, 3, 'attached'), (1, 6, 3, 'attached');
ALTER TABLE p ATTACH PARTITION p_3 FOR VALUES IN (3);
UPDATE p SET v = 'missed' WHERE id = 2;
ALTER TABLE p DETACH PARTITION p_2;
SELECT scd2.sync('20 s');
SELECT state, gap = int8range(:v0 + 1, NULL) AS gap FROM scd2.feeds WHERE source = 'p'::regclass;
SELECT * FROM said($s$SELECT count(*) FROM scd2.table_changes('p')$s$);
SELECT * FROM said(format($s$SELECT count(*) FROM scd2.table_at(NULL::p, %s)$s$, :v0));
SELECT flow, state, last_error LIKE '55000: it stands before a gap of its feed, %Remedy: SELECT scd2.resync(''p'');' AS says FROM scd2.flows WHERE target::text LIKE 'p%' ORDER BY 1;
SELECT subject, fix FROM scd2.diagnose() WHERE subject LIKE '%resync.p' OR subject = 'table p';
SELECT * FROM said($s$SELECT scd2.track('p', 'p_late')$s$);
CREATE TABLE untouched AS SELECT id, xmin::text AS x, ctid AS place FROM p_history WHERE id = 1;
SELECT scd2.resync('p');
SET client_min_messages = notice;
SELECT scd2.resync('p');
SET client_min_messages = error;
INSERT INTO p VALUES (7, 1, 'after', 7);
SELECT scd2.sync() AS v1 \gset
SELECT state, gap FROM scd2.feeds WHERE source = 'p'::regclass;
SELECT flow, state, last_error FROM scd2.flows WHERE target::text LIKE 'p%' ORDER BY 1;
SELECT _commit_version - :v0 AS version, _change_type, id, part, v, n FROM scd2.table_changes(NULL::p_changes, :v0 + 1) ORDER BY 1, id, _change_ordinal;
SELECT count(*) FROM p_changes a JOIN p_changes b ON b._commit_version = a._commit_version AND b._change_ordinal = a._change_ordinal + 1
    AND a._change_type = 'update_preimage' WHERE b._change_type <> 'update_postimage' OR a.id <> b.id;
SELECT version - :v0 AS version, operation, inserts, updates, deletes FROM scd2.describe_history('p') WHERE version > :v0;
SELECT bool_and(h.x = u.x AND h.ctid = u.place) AS untouched FROM untouched u JOIN (SELECT id, xmin::text AS x, ctid FROM p_history) h USING (id);
SELECT * FROM versions ORDER BY id, since;
SELECT id, part, v, n FROM p_now ORDER BY id;
SELECT id, v, __end_at IS NULL AS open FROM p_few ORDER BY id, __start_at;
SELECT id, v, n, __end_at IS NULL AS open FROM p_some ORDER BY id, __start_at;
SELECT id, v FROM p_rows ORDER BY id;
SELECT f.target, c.* FROM (SELECT DISTINCT target FROM scd2.flows WHERE target::text LIKE 'p%') f, scd2.check_target(f.target) c;
SELECT * FROM scd2.table_at(NULL::p, :v0) ORDER BY id;
SELECT * FROM scd2.table_at(NULL::p, :v0 + 1) ORDER BY id;
SELECT * FROM scd2.table_at(NULL::p, :v1) EXCEPT ALL TABLE p;

-- values of their own in a new column: the old image has what was known of it, nothing
CREATE TABLE t (id integer PRIMARY KEY, v text);
SELECT scd2.track('t');
INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 3) i;
SELECT scd2.sync() AS v0 \gset
CREATE SEQUENCE s;
ALTER TABLE t ADD COLUMN n integer DEFAULT nextval('resync.s');        -- repaired by itself
DELETE FROM t WHERE id = 2;
SELECT scd2.sync() AS v1 \gset
SELECT _commit_version - :v0 AS version, _change_type, id, v, n FROM scd2.table_changes(NULL::t_changes, :v0 + 1) ORDER BY 1, id, _change_ordinal;
SELECT id, v, n, __end_at IS NULL AS open FROM t_history ORDER BY id, __start_at;
SELECT f.target, c.* FROM (SELECT DISTINCT target FROM scd2.flows WHERE target = 't_history'::regclass) f, scd2.check_target(f.target) c;

-- a flow that is paused meanwhile, and gets the column only behind the repair, would lack what it says of it
SELECT scd2.pause_flow('t_history');
ALTER TABLE t ADD COLUMN m integer DEFAULT nextval('resync.s');        -- without a flow that runs, a gap
SELECT scd2.resync('t') FROM scd2.sync('20 s', '{}');
CREATE PROCEDURE wait_until_repaired(captured regclass) LANGUAGE plpgsql AS $$
BEGIN
    WHILE (SELECT state <> 'running' FROM scd2.feeds WHERE source = captured) LOOP
        PERFORM pg_sleep(0.05);
        COMMIT;
    END LOOP;
END $$;
CALL wait_until_repaired('t');
SELECT state, regexp_replace(last_error, 'versions \d+ to \d+', 'versions X to Y') AS last_error FROM scd2.flows WHERE flow = 't_history';
SELECT scd2.full_refresh('t_history', allow_loss => true), scd2.resume_flow('t_history');
SELECT scd2.sync() AS v \gset
SELECT id, h.n = t.n AS n, h.m = t.m AS m FROM t_history h JOIN t USING (id) WHERE h.__end_at IS NULL ORDER BY id;

-- another type, of other values
ALTER TABLE t ALTER COLUMN v TYPE integer USING length(v);
SELECT scd2.sync() AS v \gset
SELECT id, v FROM t_history WHERE __end_at IS NULL ORDER BY id;
SELECT scd2.drop_flow('t_history'), scd2.disable_change_feed('t');

-- nothing to compare with: the feed goes on behind the gap
CREATE TABLE alone (id integer PRIMARY KEY, v text);
SELECT scd2.enable_change_feed('alone');
INSERT INTO alone VALUES (1, 'a');
SELECT scd2.sync() AS v0 \gset
SELECT scd2.create_reader('r', 'alone', :v0) - :v0 AS after;
ALTER TABLE alone ADD COLUMN n integer DEFAULT nextval('resync.s');
SELECT scd2.sync('20 s', '{}') AS v \gset
SELECT * FROM said($s$SELECT * FROM scd2.read_changes('r', NULL::alone_changes)$s$);
SELECT scd2.resync('alone');
SELECT scd2.sync() AS v1 \gset
INSERT INTO alone (id, v) VALUES (2, 'b');
SELECT scd2.sync() AS v2 \gset
SELECT state, gap = int8range(:v0 + 1, :v1) AS gap FROM scd2.feeds WHERE source = 'alone'::regclass;
\set VERBOSITY terse
SELECT count(*) FROM scd2.table_changes('alone', :v0 + 1);
\set VERBOSITY default
SELECT id, v FROM scd2.table_changes(NULL::alone_changes, :v1);
SELECT id FROM scd2.table_at(NULL::alone, :v1);
SELECT version - :v0 AS version, operation, inserts FROM scd2.describe_history('alone');
\set VERBOSITY terse
SELECT * FROM said($s$SELECT * FROM scd2.read_changes('r', NULL::alone_changes)$s$);
SELECT scd2.advance_reader('r', :v1 - 1) - :v1 AS advanced;
SELECT id FROM scd2.read_changes('r', NULL::alone_changes);
SELECT id FROM scd2.table_at(NULL::alone, :v0);
SELECT scd2.drop_reader('r');
-- a flow that begins behind it
SELECT scd2.track('alone');
SELECT scd2.sync() AS v \gset
SELECT id, v FROM alone_history ORDER BY id;

-- a TRUNCATE since: what there was before is gone from flows too
SELECT scd2.sync() AS v0 \gset
ALTER TABLE alone ADD COLUMN m integer DEFAULT nextval('resync.s');
SELECT scd2.sync('20 s', '{}') AS v \gset
BEGIN;
SELECT scd2.resync('alone');
TRUNCATE alone;
INSERT INTO alone (id, v) VALUES (9, 'nine');
COMMIT;
SELECT scd2.sync() AS v1 \gset
SELECT id, v, __end_at IS NULL AS open FROM alone_history ORDER BY id;
ALTER TABLE alone ADD COLUMN o integer DEFAULT nextval('resync.s');
SELECT scd2.sync('20 s', '{}') AS v \gset
SELECT scd2.resync('alone');
TRUNCATE alone;
INSERT INTO alone (id, v) VALUES (10, 'ten');
SELECT scd2.sync() AS v1 \gset
SELECT id, v, __end_at IS NULL AS open FROM alone_history ORDER BY id, __start_at;

-- only a target with fewer columns, and one with a filter: with the first it is repaired by itself, the other says what can be done
CREATE TABLE w (id integer PRIMARY KEY, v text, n integer);
SELECT scd2.enable_change_feed('w');
SELECT scd2.create_auto_cdc_flow('w_few', 'w_changes', '{id}', column_list => '{id,v}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('w_some', 'w_changes', '{id}', source_filter => 'n > 1', stored_as_scd_type => 2);
INSERT INTO w VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3);
SELECT scd2.sync() AS v0 \gset
ALTER TABLE w ALTER COLUMN n SET DATA TYPE integer USING n + 1, ADD COLUMN o integer DEFAULT nextval('resync.s');
UPDATE w SET v = 'B' WHERE id = 2;
DELETE FROM w WHERE id = 3;
SELECT scd2.sync(targets => '{w_few}') > 0 AS synced;
SELECT state, upper(gap) AS v1, gap = int8range(:v0 + 1, :v0 + 2) AS gap FROM scd2.feeds WHERE source = 'w'::regclass \gset w_
SELECT :'w_state' AS state, :'w_gap' AS gap;
SELECT _commit_version - :v0 AS version, _change_type, id, v, n FROM scd2.table_changes(NULL::w_changes, :w_v1) ORDER BY id, _commit_version, _change_ordinal;
SELECT id, v, __end_at IS NULL AS open FROM w_few ORDER BY id, __start_at;
SELECT flow, state, regexp_replace(last_error, 'versions \d+ to \d+', 'versions X to Y') AS last_error FROM scd2.flows WHERE flow = 'w_some';
SELECT scd2.full_refresh('w_some');
SELECT scd2.full_refresh('w_some', allow_loss => true);
SELECT scd2.sync() AS v \gset
SELECT id, v, n FROM w_some ORDER BY id;

-- an event table alone: the events that are there are read once more, what targets have stays
CREATE TABLE e (id integer, v text, at integer);
SELECT scd2.create_auto_cdc_flow('e_history', 'e', '{id}', sequence_by => 'at', stored_as_scd_type => 2, on_invalid_event => 'quarantine');
SELECT scd2.create_auto_cdc_flow('e_now', 'e', '{id}', sequence_by => 'at', source_filter => 'id IS NOT NULL', max_lateness => '100');
SELECT scd2.create_append_flow('e_rows', 'e');
SELECT scd2.sync() AS v \gset
INSERT INTO e VALUES (NULL, 'invalid', 1), (1, 'z', 5), (1, 'a', 10), (1, 'b', 300), (2, 'c', 20);
SELECT scd2.sync() AS v0 \gset
SELECT scd2.purge_history('e_history', 100); -- for good
DELETE FROM e WHERE id = 2;
ALTER TABLE e ADD COLUMN o integer DEFAULT nextval('resync.s'), ADD COLUMN p integer;
ALTER TABLE e DROP COLUMN o;
INSERT INTO e (id, v, at) VALUES (1, 'between', 250), (NULL, 'invalid in the gap', 2), (3, 'd', 310);
SELECT scd2.sync('20 s', '{}') AS v \gset
SELECT scd2.resync('e');
INSERT INTO e (id, v, at) VALUES (3, 'e', 320);
SELECT scd2.sync(targets => '{e_history,e_now}') AS v1 \gset
SELECT id, v, __start_at, __end_at FROM e_history ORDER BY id, __start_at;
SELECT id, v FROM e_now ORDER BY id;
SELECT flow, state, events, applied, duplicates, too_late, rejected, regexp_replace(last_error, 'versions \d+ to \d+', 'versions X to Y') AS last_error
FROM scd2.flows WHERE flow LIKE 'e\_%' ORDER BY flow;
SELECT version IS NULL AS was_there, reason, event FROM scd2.rejected_events WHERE flow = 'e_history' ORDER BY event ->> 'at';
SELECT scd2.full_refresh('e_rows', allow_loss => true);
SELECT scd2.sync() AS v \gset
SELECT count(*) FROM e_rows;

-- at once after the statement that warned of a gap, when that may not be captured yet
CREATE TABLE at_once (id integer PRIMARY KEY);
SELECT scd2.track('at_once');
INSERT INTO at_once VALUES (1);
SELECT scd2.sync(targets => '{at_once_history}') > 0 AS done;
ALTER TABLE at_once ADD n double precision DEFAULT random();
SELECT scd2.resync('at_once');
SELECT scd2.sync(targets => '{at_once_history}') > 0 AS done;
SELECT state, gap IS NULL AS repaired FROM scd2.feeds WHERE source = 'at_once'::regclass;
SELECT count(*) FROM at_once JOIN at_once_history h USING (id, n) WHERE h.__end_at IS NULL;
SELECT scd2.untrack('at_once', drop_targets => true, drop_feed => true);

-- who comes to a target whose flow is about to read its events again does not begin it anew
CREATE TABLE g (id integer, v text, at integer);
CREATE TABLE g_more (LIKE g);
SELECT scd2.create_auto_cdc_flow('g_history', 'g', '{id}', sequence_by => 'at', stored_as_scd_type => 2);
INSERT INTO g VALUES (1, 'gone from its table', 10);
SELECT scd2.sync() AS v \gset
SELECT scd2.pause_flow('g_history');
DELETE FROM g;
INSERT INTO g VALUES (2, 'a', 10);
ALTER TABLE g ADD COLUMN o integer DEFAULT nextval('resync.s');
ALTER TABLE g DROP COLUMN o;
SELECT scd2.resync('g') FROM scd2.sync('20 s', '{}');
CALL wait_until_repaired('g');
SELECT scd2.create_auto_cdc_flow('g_history', 'g_more', '{id}', sequence_by => 'at', name => 'g_more', stored_as_scd_type => 2);
INSERT INTO g_more VALUES (3, 'b', 10);
SELECT scd2.sync() AS v \gset
SELECT id, v FROM g_history ORDER BY id;
SELECT scd2.resume_flow('g_history');
SELECT scd2.sync() AS v \gset
SELECT id, v FROM g_history ORDER BY id;

SELECT count(scd2.drop_flow(flow)) FROM scd2.flows WHERE target::text ~ '^(p|t|alone|w|e|g)_';
DROP SCHEMA resync CASCADE;
DROP ROLE resync_other;
