-- scd2.sync(): what it waits for, and what it refuses instead of waiting for ever.
\set SHOW_CONTEXT never
CREATE ROLE regress_sync_owner;
CREATE ROLE regress_sync_other;
CREATE SCHEMA sync;
GRANT ALL ON SCHEMA sync TO regress_sync_owner, regress_sync_other;
SET search_path = sync;
SET ROLE regress_sync_owner;
CREATE TABLE t (id integer PRIMARY KEY, v text);
INSERT INTO t VALUES (1, 'a');
-- the first copy, and a target of a target
SELECT scd2.track('t', 'first', stored_as_scd_type => 1);
SELECT scd2.track('first', 'second', keys => '{id}');
SELECT scd2.sync() >= 0 AS reached;
SELECT * FROM first;
SELECT id, v, __end_at FROM second;
INSERT INTO t VALUES (2, 'b');
SELECT scd2.sync() AS version \gset
SELECT :version = scd2.latest_version() AS same;
SELECT id, v FROM second ORDER BY id;
-- nothing new: the same version; only some targets; a target that is none of a flow
SELECT scd2.sync() = :version AS same;
UPDATE t SET v = 'c' WHERE id = 1;
SELECT scd2.sync(targets => '{first}') > :version AS reached;
SELECT v FROM first WHERE id = 1;
SELECT scd2.sync('10 s', '{t}') > :version AS reached;
SELECT scd2.sync(NULL) > :version AS without_limit;
-- what has just been committed asynchronously
SET synchronous_commit = off;
UPDATE t SET v = 'd' WHERE id = 1;
SELECT scd2.sync() > 0 AS reached;
SELECT v FROM second WHERE id = 1 AND __end_at IS NULL;
RESET synchronous_commit;

-- it would wait for itself, or not see the result
BEGIN;
UPDATE t SET v = 'e' WHERE id = 1;
SELECT scd2.sync();
ROLLBACK;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM t;
SELECT scd2.sync();
ROLLBACK;
BEGIN;
SELECT count(*) FROM t;
SELECT scd2.sync() > 0 AS reading_is_no_harm;
COMMIT;
-- a lock of its own is in the way of a worker
RESET ROLE;
SET client_min_messages = error;
CREATE EXTENSION dblink SCHEMA sync;
BEGIN;
LOCK TABLE first IN SHARE MODE;
SELECT dblink_exec(format('dbname=%L host=%L port=%s user=%I', current_database(), split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_user),
                   $$UPDATE sync.t SET v = 'f' WHERE id = 1$$);
\set VERBOSITY sqlstate
SELECT scd2.sync('20 s');
\set VERBOSITY default
ROLLBACK;
RESET client_min_messages;
SET ROLE regress_sync_owner;
SELECT scd2.sync() > 0 AS reached;

-- the timeout: somebody else's lock is in the way
RESET ROLE;
SELECT dblink_connect('holder', format('dbname=%L host=%L port=%s user=%I', current_database(), split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_user));
SELECT dblink_exec('holder', 'BEGIN'), dblink_exec('holder', 'LOCK TABLE sync.first IN SHARE MODE');
UPDATE t SET v = 'locked' WHERE id = 1;
SELECT scd2.sync('1 s');
SELECT dblink_disconnect('holder');
SET ROLE regress_sync_owner;
SELECT scd2.sync() > 0 AS reached;
SELECT v FROM first WHERE id = 1;

-- a paused flow is not waited for
SELECT scd2.pause_flow('first');
UPDATE t SET v = 'g' WHERE id = 1;
SELECT scd2.sync() > 0 AS paused_is_told;
SELECT v FROM first WHERE id = 1;
SELECT scd2.resume_flow('first');
SELECT scd2.sync() > 0 AS reached;
SELECT v FROM first WHERE id = 1;
-- what others own
SET ROLE regress_sync_other;
SELECT scd2.sync(targets => '{first}') > 0 AS not_mine;
RESET ROLE;
-- a flow that has failed
SET ROLE regress_sync_owner;
ALTER TABLE second ADD CONSTRAINT never CHECK (v <> 'bad');
UPDATE t SET v = 'bad' WHERE id = 1;
\set VERBOSITY sqlstate
SELECT scd2.sync('30 s');
\set VERBOSITY default
SELECT v FROM first WHERE id = 1;
RESET ROLE;
SET client_min_messages = error;
SELECT scd2.drop_flow('second'), scd2.drop_flow('first');
DROP SCHEMA sync CASCADE;
DROP ROLE regress_sync_owner, regress_sync_other;
