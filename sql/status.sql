-- What the views, preflight and diagnose say when all is well, behind, failed and stopped, and to whom.
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE ROLE regress_status_owner;
CREATE ROLE regress_status_other;
CREATE ROLE regress_status_monitor IN ROLE pg_monitor;
CREATE SCHEMA status;
GRANT ALL ON SCHEMA status TO regress_status_owner;
GRANT USAGE ON SCHEMA status TO regress_status_monitor;
SET search_path = status;
SELECT setting, ok, fix FROM scd2.preflight() WHERE setting NOT LIKE 'publication%' AND setting <> 'output_plugin_libraries';
SELECT count(*) FROM scd2.preflight() WHERE NOT ok;

-- all is well
SET ROLE regress_status_owner;
CREATE TABLE t (id integer PRIMARY KEY, v text);
SELECT scd2.enable_change_feed('t', retention => '2 days');
SELECT scd2.sync() AS v0 \gset
INSERT INTO t VALUES (1, 'a'), (2, 'b');
SELECT scd2.sync() AS v1 \gset
SELECT source, feed, state, enabled_version - :v0 AS enabled, enabled_at <= now() AS enabled_before, earliest_version - :v0 AS earliest, latest_version - :v0 AS latest, bytes > 0 AS has_bytes, retention, held_by, last_vacuum, gap FROM scd2.feeds;
SELECT state, pid IS NOT NULL AS runs, slot LIKE 'pg\_scd2\_%' AS has_slot, captured_lsn IS NOT NULL AS captured, lag < '10 s' AS lag_known, wal_held_bytes >= 0 AS held, wal_status, catalog_xmin_age >= 0 AS age, spilled_bytes >= 0 AS spilled, last_error FROM scd2.capture;
SELECT count(*) FROM scd2.flows;
SELECT count(*) FROM scd2.progress;
SELECT * FROM scd2.diagnose();
RESET ROLE;

-- who sees what: the owner, pg_monitor, nobody else
SET ROLE regress_status_other;
SELECT count(*) FROM scd2.feeds;
SELECT count(*) FROM scd2.flows;
SELECT count(*) FROM scd2.batches;
SELECT count(*) FROM scd2.capture;
RESET ROLE;
SET ROLE regress_status_monitor;
SELECT count(*) FROM scd2.feeds WHERE source = 'status.t'::regclass;
RESET ROLE;

-- a feed that fails: alone, shown with its error to the owner, without it to pg_monitor, not at all to others
SET ROLE regress_status_owner;
CREATE TABLE sound (id integer PRIMARY KEY);
SELECT scd2.enable_change_feed('sound');
RESET ROLE;
SET pg_scd2.own_ddl = on;
ALTER TABLE t_changes ALTER v TYPE integer USING 0;
RESET pg_scd2.own_ddl;
SET ROLE regress_status_owner;
INSERT INTO t VALUES (3, 'not a number');
INSERT INTO sound VALUES (1);
SELECT scd2.sync() AS v2 \gset
SELECT source, state, gap IS NOT NULL AS has_gap FROM scd2.feeds ORDER BY source::text;
SELECT count(*) FROM scd2.table_changes('sound');
SELECT subject, problem, detail IS NOT NULL AS says_why, fix FROM scd2.diagnose();
RESET ROLE;
SET ROLE regress_status_monitor;
SELECT subject, problem, detail, fix FROM scd2.diagnose() WHERE subject LIKE 'table status.%';
RESET ROLE;
SET ROLE regress_status_other;
SELECT * FROM scd2.diagnose() WHERE subject LIKE 'table status.%';
RESET ROLE;
-- the fix works: the relation gets the column again
SET ROLE regress_status_owner;
SELECT fix FROM scd2.diagnose() \gset
:fix
INSERT INTO t VALUES (4, 'd');
SELECT scd2.sync() AS v3 \gset
SELECT _change_type, id, v FROM scd2.table_changes(NULL::t_changes, (SELECT upper(gap) FROM scd2.feeds WHERE source = 't'::regclass));
SELECT source, feed, state, retention FROM scd2.feeds ORDER BY feed::text;
SELECT * FROM scd2.diagnose();
RESET ROLE;

-- the guard is switched off by hand
ALTER TABLE t_changes_p1 DISABLE TRIGGER scd2_guard;
SELECT subject, problem, detail, fix FROM scd2.diagnose() WHERE subject LIKE 'table status.%';
SELECT fix FROM scd2.diagnose() WHERE subject LIKE 'table status.%' \gexec
SELECT count(*) FROM scd2.diagnose() WHERE subject LIKE 'table status.%';

-- what came of a feed that is locked waits: who holds it is named, and nothing is lost
CREATE EXTENSION dblink SCHEMA status;
SELECT dblink_connect('holder', format('dbname=%L host=%L port=%s user=%I', current_database(), split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_user));
SELECT pid AS holder FROM dblink('holder', 'SELECT pg_backend_pid()') x (pid integer) \gset
SELECT dblink_exec('holder', 'BEGIN'), dblink_exec('holder', 'LOCK TABLE status.t_changes_p1');
INSERT INTO t VALUES (5, 'e');
DO $$
BEGIN
    FOR i IN 1 .. 200 LOOP
        EXIT WHEN EXISTS (SELECT FROM scd2.diagnose() WHERE problem LIKE 'its changes since version%');
        PERFORM pg_sleep(0.05);
    END LOOP;
END $$;
SELECT subject, regexp_replace(problem, '\d+', 'N') AS problem, regexp_replace(replace(detail, :'holder', 'PID'), '\d\d:\d\d:\d\d .*', 'TIME …') AS detail, replace(fix, :'holder', 'PID') AS fix FROM scd2.diagnose() WHERE subject LIKE 'table status.%';
SELECT complete_version < latest_version AS behind, backlog_bytes > 0 AS waits, state FROM scd2.feeds WHERE source = 't'::regclass;
SELECT fix FROM scd2.diagnose() WHERE subject LIKE 'table status.%' \gset
:fix
SELECT scd2.sync() AS v4 \gset
SELECT id FROM scd2.table_changes(NULL::t_changes, :v3 + 1);
SELECT dblink_disconnect('holder');

-- stopped: everything says so, lag grows, nothing is lost
SELECT scd2.stop();
INSERT INTO t VALUES (6, 'f');
DO $$
BEGIN
    FOR i IN 1 .. 200 LOOP
        EXIT WHEN (SELECT pid IS NULL FROM scd2.capture);
        PERFORM pg_sleep(0.05);
    END LOOP;
END $$;
SELECT state, pid, lag_bytes > 0 AS behind, lag > '0' AS since, wal_held_bytes > 0 AS held, wal_status FROM scd2.capture;
SELECT subject, problem, fix FROM scd2.diagnose() WHERE subject = 'capture';
SELECT scd2.sync();
SELECT count(*) FROM scd2.table_at(NULL::t, :v3);
SELECT scd2.enable_change_feed('status.t_changes');
CREATE TABLE later (id integer);
\set VERBOSITY default
SELECT scd2.enable_change_feed('later');
\set VERBOSITY terse
SELECT fix FROM scd2.diagnose() WHERE subject = 'capture' \gexec
SELECT scd2.sync() AS v5 \gset
SELECT state FROM scd2.capture;
SELECT id FROM scd2.table_changes(NULL::t_changes, :v4 + 1);
SELECT count(*) FROM scd2.diagnose() WHERE subject = 'capture';
-- who may stop and start: superusers, and whom they grant it to
SET ROLE regress_status_owner;
SELECT scd2.stop();
SELECT scd2.start();
RESET ROLE;
GRANT EXECUTE ON FUNCTION scd2.start() TO regress_status_owner;
SET ROLE regress_status_owner;
SELECT scd2.start();
RESET ROLE;
REVOKE EXECUTE ON FUNCTION scd2.start() FROM regress_status_owner;
-- rolled back is not stopped
BEGIN;
SELECT scd2.stop();
ROLLBACK;
SELECT state FROM scd2.capture;
-- a worker that is killed is back by itself
SELECT pg_terminate_backend(pid) AS killed FROM scd2.capture;
INSERT INTO t VALUES (7, 'g');
DO $$
BEGIN
    FOR i IN 1 .. 200 LOOP
        EXIT WHEN (SELECT state = 'running' FROM scd2.capture);
        PERFORM pg_sleep(0.05);
    END LOOP;
END $$;
SELECT scd2.sync() AS v6 \gset
SELECT id FROM scd2.table_changes(NULL::t_changes, :v5 + 1);

-- every object that users meet is explained, and every function of ours has a fixed search_path, except those that look a name up in the caller's or are inlined
SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace IN ('scd2'::regnamespace, 'scd2_internal'::regnamespace) AND p.prolang <> (SELECT oid FROM pg_language WHERE lanname = 'c')
    AND NOT coalesce(p.proconfig::text LIKE '%search_path=pg_catalog%', false) ORDER BY p.oid::regprocedure::text COLLATE "C";
SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'scd2'::regnamespace AND obj_description(p.oid, 'pg_proc') IS NULL;
SELECT c.oid::regclass FROM pg_class c WHERE c.relnamespace = 'scd2'::regnamespace AND c.relkind = 'v' AND obj_description(c.oid, 'pg_class') IS NULL;
SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'scd2_internal'::regnamespace AND has_function_privilege('regress_status_other', p.oid, 'EXECUTE');

DROP SCHEMA status CASCADE;
DROP ROLE regress_status_owner, regress_status_other, regress_status_monitor;
