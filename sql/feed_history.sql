-- describe_history: a row per version that changed a table.
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA feed_history;
SET search_path = feed_history;
CREATE TABLE t (id integer PRIMARY KEY, v text);
CREATE TABLE other (id integer);
SELECT scd2.enable_change_feed('t'), scd2.enable_change_feed('other');
SELECT scd2.sync() AS v0 \gset
SELECT * FROM scd2.describe_history('t');
INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');
UPDATE t SET v = 'x';
INSERT INTO other VALUES (1);
DELETE FROM t WHERE id = 1;
BEGIN;
SELECT pg_current_xact_id() AS xid \gset
INSERT INTO t VALUES (4, 'd');
UPDATE t SET v = 'y' WHERE id = 2;
DELETE FROM t WHERE id = 3;
COMMIT;
BEGIN;
TRUNCATE t;
INSERT INTO t VALUES (5, 'e');
COMMIT;
SELECT scd2.sync() AS v \gset
SELECT version - :v0 AS version, operation, inserts, updates, deletes, truncates FROM scd2.describe_history('t');
SELECT operation FROM scd2.describe_history('t') WHERE xid = :'xid';
SELECT bool_and("timestamp" = c._commit_timestamp AND xid = c._xid) FROM scd2.describe_history('t') h JOIN t_changes c ON c._commit_version = h.version;
SELECT version - :v0 AS version, operation FROM scd2.describe_history('other');
SELECT count(*) FROM scd2.describe_history('t_changes');
CREATE TABLE nofeed (id integer);
SELECT * FROM scd2.describe_history('nofeed');
DROP SCHEMA feed_history CASCADE;
