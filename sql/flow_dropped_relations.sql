-- What is left when tables, feeds and targets are dropped, renamed or lose columns: diagnose() tells their owner, its statements work, sync() waits for nothing in vain.
\set SHOW_CONTEXT never
CREATE ROLE regress_dropped_owner;
CREATE SCHEMA dropped AUTHORIZATION regress_dropped_owner;
SET search_path = dropped;
SET ROLE regress_dropped_owner;
CREATE TABLE t (id integer PRIMARY KEY, a text, b integer);
INSERT INTO t VALUES (1, 'x', 1);
SELECT scd2.track('t');
SELECT scd2.sync() >= 0 AS reached;
-- columns
ALTER TABLE t RENAME COLUMN a TO aa;
ALTER TABLE t DROP COLUMN b;
SELECT problem, detail, fix FROM scd2.diagnose() WHERE subject = 'flow t_history';
SELECT fix FROM scd2.diagnose() WHERE subject = 'flow t_history' \gexec
SELECT scd2.track('t');
SELECT scd2.sync() >= 0 AS reached;
SELECT id, aa FROM t_history;
-- the target, renamed and dropped with its flow
ALTER TABLE t_history RENAME TO renamed;
SELECT scd2.drop_flow('t_history', true);
SELECT to_regclass('renamed'), to_regprocedure('t_history_as_of(timestamptz)');
-- the target
SELECT scd2.track('t');
SET client_min_messages = warning;
DROP TABLE t_history CASCADE;
RESET client_min_messages;
SELECT problem, fix FROM scd2.diagnose() WHERE subject = 'flow t_history';
SELECT scd2.sync() >= 0 AS reached;
-- its feed
DROP TABLE t_changes;
SELECT scd2.track('t');
SELECT problem, fix FROM scd2.diagnose() WHERE subject LIKE 'table %';
SELECT fix FROM scd2.diagnose() WHERE subject LIKE 'table %' \gexec
-- source and target: the feed is left
SELECT scd2.track('t');
SET client_min_messages = warning;
DROP TABLE t, t_history CASCADE;
RESET client_min_messages;
SELECT problem, fix FROM scd2.diagnose() WHERE subject LIKE 'table %';
SELECT scd2.sync() >= 0 AS reached;
SELECT fix FROM scd2.diagnose() WHERE subject LIKE 'table %' \gexec
SELECT count(*) FROM scd2.diagnose();
SELECT count(*) FROM scd2.flows;
RESET ROLE;
SET client_min_messages = warning;
DROP SCHEMA dropped CASCADE;
DROP ROLE regress_dropped_owner;
