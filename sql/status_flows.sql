-- scd2.flows, scd2.batches, scd2.progress and what diagnose() says of flows: running, behind, paused, failed, without a target.
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE ROLE regress_flows_owner;
CREATE ROLE regress_flows_monitor IN ROLE pg_monitor;
CREATE SCHEMA status_flows;
GRANT ALL ON SCHEMA status_flows TO regress_flows_owner;
SET search_path = status_flows;
SET ROLE regress_flows_owner;
CREATE TABLE t (id integer PRIMARY KEY, v text);
INSERT INTO t VALUES (1, 'a'), (2, 'b');
SELECT scd2.track('t');
SELECT scd2.sync() AS v0 \gset
SELECT flow, target, source, kind, scd_type, once, state, watermark_version - :v0 AS watermark, watermark_timestamp IS NOT NULL AS at, lag_versions, lag < '10 s' AS lag_known, last_error FROM scd2.flows;
SELECT count(*) FROM t_history;
UPDATE t SET v = 'c' WHERE id = 1;
DELETE FROM t WHERE id = 2;
INSERT INTO t VALUES (3, 'd');
SELECT scd2.sync() AS v1 \gset
SELECT state, watermark_version - :v0 AS watermark, lag_versions, events = applied + duplicates + too_late + rejected + skipped AS adds_up, applied > 0 AS applied, rows_inserted > 0 AS inserted, last_batch <= now() AS last_batch FROM scd2.flows;
SELECT flow, bool_and(started <= now()) AS started, bool_and(duration >= '0') AS duration, min(first_version) - :v0 AS first, max(last_version) - :v0 AS last, bool_or(first_version > last_version) AS reversed FROM scd2.batches GROUP BY flow;
SELECT source, held_by LIKE 'flow "t_history" at version %' AS held FROM scd2.feeds;

-- paused: behind, said so, and what was missed is applied when it goes on
SELECT scd2.pause_flow('t_history');
UPDATE t SET v = 'e' WHERE id = 1;
UPDATE t SET v = 'f' WHERE id = 1;
SELECT scd2.sync() AS v2 \gset
SELECT state, lag_versions, lag > '0' AS lags FROM scd2.flows;
SELECT subject, problem, detail, fix FROM scd2.diagnose();
SELECT scd2.disable_change_feed('t');
\set VERBOSITY default
SELECT scd2.disable_change_feed('t');
SELECT scd2.alter_change_feed('t', except_column_list => '{v}');
\set VERBOSITY terse
SELECT fix FROM scd2.diagnose() \gset
:fix
SELECT scd2.sync() AS v2 \gset
SELECT state, lag_versions FROM scd2.flows;
SELECT v FROM t_history WHERE id = 1 AND __end_at IS NULL;

-- failed: a change that the target does not take
ALTER TABLE t_history ADD CHECK (v <> 'bad');
UPDATE t SET v = 'bad' WHERE id = 1;
DO $$
BEGIN
    FOR i IN 1 .. 400 LOOP
        EXIT WHEN (SELECT state = 'failed' FROM scd2.flows);
        PERFORM pg_sleep(0.05);
    END LOOP;
END $$;
SELECT state, lag_versions, regexp_replace(regexp_replace(last_error, '\(1, bad.*', ''), 'version \d+', 'version N') AS error, last_error_at <= now() AS at FROM scd2.flows;
SELECT subject, problem, detail LIKE '%bad%' OR detail LIKE '%check%' AS says_why, fix FROM scd2.diagnose();
RESET ROLE;
-- others' errors hold data, so pg_monitor sees that there is one, not what it says
SET ROLE regress_flows_monitor;
SELECT state, last_error, last_error_at IS NOT NULL AS at FROM scd2.flows WHERE flow = 't_history';
SELECT subject, problem, detail LIKE '%check%' AS says_why FROM scd2.diagnose() WHERE subject = 'flow t_history';
RESET ROLE;
SET ROLE regress_flows_owner;
ALTER TABLE t_history DROP CONSTRAINT t_history_v_check;
SELECT fix FROM scd2.diagnose() \gset
:fix
SELECT scd2.sync() AS v3 \gset
SELECT state, lag_versions FROM scd2.flows;
SELECT count(*) FROM scd2.diagnose();

-- the target is dropped
DROP TABLE t_history CASCADE;
UPDATE t SET v = 'g' WHERE id = 1;
RESET ROLE;
SELECT subject, problem, fix FROM scd2.diagnose() WHERE subject = 'flow t_history';
SELECT fix FROM scd2.diagnose() WHERE subject = 'flow t_history' \gset
:fix
SELECT count(*) FROM scd2.flows WHERE flow = 't_history';
SELECT count(*) FROM scd2.diagnose() WHERE subject = 'flow t_history';
-- the first copy shows while it waits, while it runs, and no longer when it is done
CREATE TABLE big AS SELECT i AS id, md5(i::text) AS v FROM generate_series(1, 100000) i;
ALTER TABLE big ADD PRIMARY KEY (id);
ANALYZE big;
CREATE TABLE progress_seen (task text, relation text, rows_done bigint, rows_estimated bigint, started timestamptz);
-- (it is kept back at a row until it was seen)
CREATE FUNCTION kept_back(id integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    WHILE id = 90000 AND NOT pg_try_advisory_xact_lock_shared(90000) LOOP
        PERFORM pg_sleep(0.01);
    END LOOP;
    RETURN true;
END $$;
CREATE PROCEDURE watch(seen text) LANGUAGE plpgsql AS $$
DECLARE
    enough boolean;
BEGIN
    FOR i IN 1 .. 3000 LOOP
        INSERT INTO progress_seen SELECT p.task, p.relation, p.rows_done, p.rows_estimated, p.started FROM scd2.progress p WHERE p.relation = 'big_history'::regclass;
        COMMIT;
        EXECUTE 'SELECT ' || seen INTO enough;
        EXIT WHEN enough;
        PERFORM pg_sleep(0.01);
    END LOOP;
END $$;
SELECT pg_advisory_lock(90000);
SELECT scd2.enable_change_feed('big');
SELECT scd2.create_auto_cdc_flow('big_history', 'big_changes', '{id}', stored_as_scd_type => 2, source_filter => 'status_flows.kept_back(id)');
CALL watch('EXISTS (SELECT FROM progress_seen WHERE rows_done > 0)');
SELECT pg_advisory_unlock(90000);
CALL watch('NOT EXISTS (SELECT FROM scd2.progress WHERE relation = ''big_history''::regclass)');
SELECT DISTINCT task, relation, rows_estimated FROM progress_seen;
SELECT max(rows_done) BETWEEN 1 AND 100000 AS moved, max(started) <= clock_timestamp() AS started FROM progress_seen;
SELECT scd2.sync() AS v \gset
SELECT count(*) FROM scd2.progress WHERE relation = 'big_history'::regclass;
SELECT count(*) FROM big_history;
SELECT scd2.drop_flow('big_history', drop_target => true);
SELECT scd2.disable_change_feed('big', drop_feed => true);
DROP SCHEMA status_flows CASCADE;
DROP ROLE regress_flows_owner, regress_flows_monitor;
