-- A flow's life: begun now or at a version, paused, failed, resumed, refreshed, dropped.
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, MDY';
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE SCHEMA flow_life;
SET search_path = flow_life;
CREATE VIEW states AS SELECT f.name, s.phase, f.paused, s.failures, s.last_error FROM scd2_internal.flow f JOIN scd2_internal.flow_state s USING (flow_id) WHERE f.target_schema = 'flow_life';
CREATE PROCEDURE wait_for(condition text) LANGUAGE plpgsql AS $$
DECLARE
    met boolean;
BEGIN
    FOR i IN 1..300 LOOP
        EXECUTE 'SELECT ' || condition INTO met;
        EXIT WHEN met;
        COMMIT;
        PERFORM pg_sleep(0.05);
    END LOOP;
    IF NOT met THEN
        RAISE 'waited in vain for %', condition;
    END IF;
END $$;

-- begun in the transaction that creates the table; rolled back, nothing is left
BEGIN;
CREATE TABLE t (id integer PRIMARY KEY, v text, since timestamptz);
INSERT INTO t VALUES (1, 'a', '2026-01-01 00:00+00'), (2, 'b', NULL), (3, 'c', 'infinity');
SELECT scd2.track('t');
ROLLBACK;
SELECT count(*) FROM scd2_internal.flow WHERE target_schema = 'flow_life';
BEGIN;
CREATE TABLE t (id integer PRIMARY KEY, v text, since timestamptz);
INSERT INTO t VALUES (1, 'a', '2026-01-01 00:00+00'), (2, 'b', NULL), (3, 'c', 'infinity');
SELECT scd2.track('t');
INSERT INTO t VALUES (4, 'd', NULL);
COMMIT;
SELECT scd2.sync() >= 0;
SELECT id, v, __end_at IS NULL AS open FROM t_history ORDER BY id;

-- initial_start: since when copied rows are valid, at most the beginning
SET TimeZone = 'Europe/Madrid';
SELECT scd2.create_auto_cdc_flow('since', 't_changes', '{id}', stored_as_scd_type => 2, initial_start => '(since::date + time ''12:00'')::timestamp -- local', name => 'since the date');
SET TimeZone = 'UTC';
SELECT scd2.sync() >= 0;
SELECT id, CASE WHEN __start_at < '2026-06-01' THEN __start_at AT TIME ZONE 'UTC' END AS start_utc, __start_at = (SELECT begin_timestamp FROM scd2_internal.flow_state JOIN scd2_internal.flow USING (flow_id) WHERE name = 'since the date') AS at_beginning
    FROM since ORDER BY id;

-- starting_version: a flow made later, as if it had been made then
SELECT scd2.latest_version() AS v1 \gset
UPDATE t SET v = 'a1' WHERE id = 1;
DELETE FROM t WHERE id = 2;
UPDATE t SET id = 20, v = 'moved' WHERE id = 3;
UPDATE t SET id = 3 WHERE id = 20;
INSERT INTO t VALUES (2, 'again', NULL);
SELECT scd2.create_auto_cdc_flow('later', 't_changes', '{id}', stored_as_scd_type => 2, starting_version => :v1);
SELECT scd2.create_auto_cdc_flow('later_1', 't_changes', '{id}', starting_version => :v1);
SELECT scd2.sync() >= 0;
SELECT id, v, row_number() OVER (PARTITION BY id ORDER BY __start_at) AS n, __end_at IS NULL AS open FROM later ORDER BY id, __start_at;
SELECT count(*) FROM (SELECT id, v, __end_at FROM t_history EXCEPT ALL SELECT id, v, __end_at FROM later) AS only_there;
TABLE later_1 ORDER BY id;
SELECT count(*) FROM (TABLE t EXCEPT ALL TABLE later_1) AS missing;

-- paused: nothing moves; resumed: all is there
SELECT scd2.pause_flow('t_history');
UPDATE t SET v = 'while paused' WHERE id = 1;
\set VERBOSITY terse
SET client_min_messages = notice;
SELECT scd2.sync(targets => '{t_history}') >= 0;
SET client_min_messages = warning;
\set VERBOSITY default
SELECT count(*) FROM t_history WHERE v = 'while paused';
SELECT scd2.resume_flow('t_history');
SELECT scd2.sync() >= 0;
SELECT count(*) FROM t_history WHERE v = 'while paused';

-- a full refresh gives what the increments gave, and is atomic
CREATE TABLE before AS TABLE t_history;
CREATE TABLE before_since AS TABLE since;
SELECT scd2.full_refresh('t_history');
SELECT scd2.full_refresh('since');
SELECT scd2.full_refresh('later_1');
SELECT scd2.sync() >= 0;
SELECT count(*) FROM (TABLE t_history EXCEPT ALL TABLE before) AS more;
SELECT count(*) FROM (TABLE before EXCEPT ALL TABLE t_history) AS less;
SELECT count(*) FROM (TABLE since EXCEPT ALL TABLE before_since) AS more;
SELECT count(*) FROM (TABLE before_since EXCEPT ALL TABLE since) AS less;
SELECT count(*) FROM (TABLE t EXCEPT ALL TABLE later_1) AS missing;

-- a flow that fails is alone: its error is told, others go on, and so does it when the cause is gone
ALTER TABLE since ADD CONSTRAINT short CHECK (length(v) < 20);
UPDATE t SET v = 'a value that is too long for one' WHERE id = 4;
CALL wait_for($$(SELECT phase = 'failed' FROM flow_life.states WHERE name = 'since the date')$$);
SELECT name, phase, failures, last_error LIKE '23514: new row for relation "since" violates check constraint "short" (at version %) - Failing row contains (4, a value that is%' AS told FROM states WHERE name = 'since the date';
SELECT scd2.sync(targets => '{t_history,later,later_1}') >= 0;
SELECT count(*) FROM t_history WHERE v LIKE 'a value%';
\set VERBOSITY sqlstate
SELECT scd2.sync() >= 0;
\set VERBOSITY default
ALTER TABLE since DROP CONSTRAINT short;
SELECT scd2.resume_flow('since the date');
SELECT scd2.sync() >= 0;
SELECT count(*) FROM since WHERE v LIKE 'a value%';
SELECT name, phase, failures FROM states WHERE name = 'since the date';
-- damaged by hand: said by name
ALTER TABLE later DROP COLUMN v;
UPDATE t SET v = 'x' WHERE id = 4;
CALL wait_for($$(SELECT phase = 'failed' FROM flow_life.states WHERE name = 'later')$$);
SELECT last_error FROM states WHERE name = 'later';
SELECT scd2.drop_flow('later', drop_target => true);

-- a TRUNCATE cannot be undone: not by a refresh, not by a flow that begins before it
TRUNCATE t;
INSERT INTO t VALUES (1, 'after', NULL);
SELECT scd2.sync() >= 0;
\set VERBOSITY terse
SELECT scd2.full_refresh('t_history');
\set VERBOSITY default
SELECT scd2.create_auto_cdc_flow('too_early', 't_changes', '{id}', starting_version => :v1);
CALL wait_for($$(SELECT phase = 'failed' FROM flow_life.states WHERE name = 'too_early')$$);
SELECT last_error LIKE '55000: flow "too_early" cannot begin at version %' FROM states WHERE name = 'too_early';
SELECT scd2.full_refresh('t_history', allow_loss => true);
SELECT scd2.sync(targets => '{t_history,since,later_1}') >= 0;
SELECT id, v, __end_at IS NULL AS open FROM t_history;

-- refresh_interval: not before
SELECT scd2.create_auto_cdc_flow('slow', 't_changes', '{id}', refresh_interval => '1 hour');
CALL wait_for('(SELECT count(*) = 1 FROM flow_life.slow)');
INSERT INTO t VALUES (2, 'later', NULL);
CALL wait_for('(SELECT count(*) = 2 FROM flow_life.t_history)');
SELECT count(*) FROM slow;
-- but for sync()
SELECT scd2.sync(targets => '{slow}') >= 0;
SELECT count(*) FROM slow;
SELECT scd2.drop_flow('slow', true);

-- names: taken ones get a number
CREATE SCHEMA flow_life_2;
SELECT scd2.create_auto_cdc_flow('flow_life_2.later_1', 't_changes', '{id}');
SELECT scd2.drop_flow('later_1_2', true);
DROP SCHEMA flow_life_2;

-- dropped: the table stays
SELECT scd2.drop_flow('since the date');
SELECT count(*) > 0 FROM since;
SELECT scd2.untrack('t', drop_targets => true, drop_feed => true);
SELECT relname FROM pg_class WHERE relnamespace = 'flow_life'::regnamespace AND relkind = 'r' ORDER BY 1;
SELECT count(*) FROM scd2_internal.flow WHERE target_schema = 'flow_life';

-- a target that somebody dropped: its flow can still go
CREATE TABLE gone (id integer PRIMARY KEY);
SELECT scd2.track('gone');
SELECT scd2.sync() >= 0;
DROP TABLE gone_history;
INSERT INTO gone VALUES (1);
CALL wait_for($$(SELECT phase = 'failed' FROM flow_life.states WHERE name = 'gone_history')$$);
SELECT last_error FROM states WHERE name = 'gone_history';
SELECT scd2.drop_flow('gone_history', drop_target => true);
SELECT scd2.track('gone');
SELECT scd2.untrack('gone', true, true);
DROP SCHEMA flow_life CASCADE;
