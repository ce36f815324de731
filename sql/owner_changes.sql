-- A table gets another owner: its feed goes with it in the same transaction; its targets stay with their owners, whose flows stop and say so, until they may read on or their targets are given away too.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE ROLE regress_former;
CREATE ROLE regress_heir;
CREATE ROLE regress_analyst;
CREATE SCHEMA owners;
GRANT ALL ON SCHEMA owners TO regress_former, regress_heir, regress_analyst;
SET search_path = owners;
CREATE FUNCTION owners.of(names text) RETURNS TABLE (name text, owner name) LANGUAGE sql AS $$
    SELECT c.relname::text, pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.relnamespace = 'owners'::regnamespace AND c.relname ~ names AND c.relkind IN ('r', 'p', 'c')
    UNION ALL SELECT p.proname || '()', pg_get_userbyid(p.proowner) FROM pg_proc p WHERE p.pronamespace = 'owners'::regnamespace AND p.proname ~ names
    UNION ALL SELECT 'type ' || t.typname, pg_get_userbyid(t.typowner) FROM pg_type t WHERE t.typnamespace = 'owners'::regnamespace AND t.typname ~ names AND t.typname ~ '_sequence$'
    ORDER BY 1 $$;

-- ALTER TABLE OWNER
SET ROLE regress_former;
CREATE TABLE t (id integer PRIMARY KEY, v text);
INSERT INTO t VALUES (1, 'before');
SELECT scd2.track('t', shared => true, apply_as_truncates => 'false');
SELECT scd2.sync() >= 0 AS reached;
GRANT SELECT ON t_history TO regress_analyst;
RESET ROLE;
ALTER TABLE t OWNER TO regress_heir;
SELECT * FROM owners.of('^t(_|$)');
UPDATE t SET v = 'after';
DO $$ BEGIN FOR i IN 1..200 LOOP EXIT WHEN EXISTS (SELECT FROM scd2.flows WHERE flow = 't_history' AND state = 'failed'); PERFORM pg_sleep(0.05); END LOOP; END $$;
SELECT problem, fix FROM scd2.diagnose();
-- the second way: all of it goes to the new owner, who agrees to what runs as him
ALTER TABLE t_history OWNER TO regress_heir;
SELECT * FROM owners.of('^t(_|$)');
SET ROLE regress_heir;
SELECT kind, object, definition, owner FROM scd2.authorize_flow('t_history') ORDER BY 1, 2;
SELECT scd2.sync() >= 0 AS reached;
SELECT _change_type, v FROM scd2.table_changes(NULL::t_changes) ORDER BY _commit_version, _change_ordinal;
SELECT v, __end_at IS NULL AS open FROM t_history ORDER BY __start_at;
SELECT count(*) FROM t_history_as_of(now());
SELECT problem FROM scd2.diagnose();
SET ROLE regress_former;
SELECT count(*) FROM t_changes;
SELECT count(*) FROM t_history;
SELECT count(*) FROM t_history_memory;
SELECT * FROM scd2.table_changes('t');
SELECT scd2.disable_change_feed('t');
SELECT scd2.drop_flow('t_history');
CREATE OR REPLACE FUNCTION t_history_as_of(point timestamptz) RETURNS SETOF t_history LANGUAGE sql AS 'SELECT * FROM t_history';
SELECT count(*) FROM scd2.feeds;
SET ROLE regress_analyst;
SELECT count(*) FROM t_history;
RESET ROLE;

-- rolled back: as it was
BEGIN;
ALTER TABLE t OWNER TO regress_analyst;
ROLLBACK;
SELECT * FROM owners.of('^t_');

-- REASSIGN OWNED: all of it, and a target that is a source too
SET ROLE regress_heir;
SELECT scd2.track('t_history', target => 'second', keys => '{id,__start_at}', start_column => 'since', end_column => 'until');
SELECT scd2.sync() >= 0 AS reached;
RESET ROLE;
REASSIGN OWNED BY regress_heir TO regress_former;
SELECT DISTINCT owner FROM owners.of('^(t|second)(_|$)');
SET ROLE regress_former;
SELECT subject, problem FROM scd2.diagnose() ORDER BY 1;
SELECT count(*) > 0 AS shown FROM scd2.authorize_flow('t_history', 'second');
UPDATE t SET v = 'back';
SELECT scd2.sync() >= 0 AS reached;
SELECT count(*) FROM second WHERE v = 'back';
RESET ROLE;
ALTER TABLE t OWNER TO regress_heir;
SELECT * FROM owners.of('^(t|second)(_|$)');
ALTER TABLE t OWNER TO regress_former;

-- the target alone: what was made for it goes along; who may not read the feed gets nothing more, until he may
SET ROLE regress_heir;
CREATE TABLE e (id integer, a integer, b integer, v text);
SELECT scd2.create_auto_cdc_flow(target => 'kept', source => 'e', keys => '{id}', sequence_by => 'struct(a, b)', stored_as_scd_type => 2);
INSERT INTO e VALUES (1, 1, 1, 'x');
SELECT scd2.sync() >= 0 AS reached;
RESET ROLE;
ALTER TABLE kept OWNER TO regress_analyst;
SELECT * FROM owners.of('^kept');
INSERT INTO e VALUES (1, 2, 1, 'y');
DO $$ BEGIN FOR i IN 1..200 LOOP EXIT WHEN EXISTS (SELECT FROM scd2_internal.flow f JOIN scd2_internal.flow_state s USING (flow_id) WHERE f.name = 'kept' AND s.failures > 0); PERFORM pg_sleep(0.05); END LOOP; END $$;
SELECT v FROM kept;
SELECT subject, problem, detail, fix FROM scd2.diagnose() WHERE subject = 'flow kept';
SET ROLE regress_analyst;
SELECT count(*) > 0 AS shown FROM scd2.authorize_flow('kept');
RESET ROLE;
DO $$ BEGIN FOR i IN 1..200 LOOP EXIT WHEN EXISTS (SELECT FROM scd2.flows WHERE flow = 'kept' AND state = 'failed'); PERFORM pg_sleep(0.05); END LOOP; END $$;
SELECT fix FROM scd2.diagnose() WHERE subject = 'flow kept';
SELECT fix FROM scd2.diagnose() WHERE subject = 'flow kept' \gexec
SELECT scd2.sync() >= 0 AS reached;
SELECT v, __end_at FROM kept ORDER BY __start_at;

-- a target of two tables
SET ROLE regress_former;
CREATE TABLE a (id integer PRIMARY KEY, v text);
CREATE TABLE b (id integer PRIMARY KEY, v text);
SELECT scd2.track('a', target => 'shared_by_two', shared => true, apply_as_truncates => 'false');
SELECT scd2.track('b', target => 'shared_by_two', apply_as_truncates => 'false');
INSERT INTO a VALUES (1, 'a');
SELECT scd2.sync() >= 0 AS reached;
RESET ROLE;
ALTER TABLE a OWNER TO regress_heir;
SELECT * FROM owners.of('^(shared_by_two|[ab])(_|$)');
UPDATE a SET v = 'not for the former owner';
DO $$ BEGIN FOR i IN 1..200 LOOP EXIT WHEN EXISTS (SELECT FROM scd2_internal.flow f JOIN scd2_internal.flow_state s USING (flow_id) WHERE f.name = 'shared_by_two' AND s.failures > 0); PERFORM pg_sleep(0.05); END LOOP; END $$;
SELECT v FROM shared_by_two;
SELECT problem, fix FROM scd2.diagnose() WHERE subject = 'flow shared_by_two';
SELECT fix FROM scd2.diagnose() WHERE subject = 'flow shared_by_two' \gexec
SELECT scd2.sync() >= 0 AS reached;
SELECT v FROM shared_by_two ORDER BY v;

-- what a superuser keeps is not read as him from a table that is not a superuser's any more
CREATE TABLE s (id integer PRIMARY KEY, v text);
SELECT scd2.create_auto_cdc_flow(target => 's_kept', source => scd2.enable_change_feed('s'), keys => '{id}');
SELECT scd2.sync() >= 0 AS reached;
ALTER TABLE s OWNER TO regress_heir;
SELECT * FROM owners.of('^s(_|$)');
INSERT INTO s VALUES (1, 'x');
DO $$ BEGIN FOR i IN 1..200 LOOP EXIT WHEN EXISTS (SELECT FROM scd2_internal.flow f JOIN scd2_internal.flow_state s USING (flow_id) WHERE f.name = 's_kept' AND s.failures > 0); PERFORM pg_sleep(0.05); END LOOP; END $$;
DO $$ BEGIN FOR i IN 1..200 LOOP EXIT WHEN EXISTS (SELECT FROM scd2.flows WHERE flow = 's_kept' AND state = 'failed'); PERFORM pg_sleep(0.05); END LOOP; END $$;
SELECT substring(detail FROM '42501: .*does not') AS why FROM scd2.diagnose() WHERE subject = 'flow s_kept';
SELECT fix FROM scd2.diagnose() WHERE subject = 'flow s_kept';
SELECT fix FROM scd2.diagnose() WHERE subject = 'flow s_kept' \gexec
SELECT scd2.sync() >= 0 AS reached;
SELECT * FROM s_kept;

-- a feed that was given to somebody else by hand is shown
ALTER TABLE s_changes OWNER TO regress_former;
SELECT subject, problem, fix FROM scd2.diagnose() WHERE subject LIKE 'table %';
SELECT fix FROM scd2.diagnose() WHERE subject LIKE 'table %' \gexec
SELECT count(*) FROM scd2.diagnose();

-- DROP OWNED leaves nothing that holds anything up
DROP OWNED BY regress_heir CASCADE;
SELECT subject, problem FROM scd2.diagnose() ORDER BY 1;
SELECT scd2.sync() >= 0 AS reached;
SELECT scd2.drop_flow(name) FROM scd2_internal.flow;
DROP SCHEMA owners CASCADE;
DROP OWNED BY regress_former, regress_analyst CASCADE;
DROP ROLE regress_former, regress_heir, regress_analyst;
