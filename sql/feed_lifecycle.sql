-- Enabling in transactions, altering, disabling, enabling again.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE SCHEMA feed_lifecycle;
SET search_path = feed_lifecycle;

-- OP-09: in the transaction that creates the table, after writes of its own, in a DO block, rolled back, twice
BEGIN;
CREATE TABLE a (id integer PRIMARY KEY, v text, w text);
INSERT INTO a VALUES (1, 'before', 'x');
SELECT scd2.enable_change_feed('a');
INSERT INTO a VALUES (2, 'after', 'x');
COMMIT;
INSERT INTO a VALUES (3, 'later', 'x');
SELECT scd2.sync() AS v \gset
SELECT _change_type, id, v FROM scd2.table_changes(NULL::a_changes);
CREATE TABLE b (id integer);
BEGIN;
SELECT scd2.enable_change_feed('b');
ROLLBACK;
SELECT to_regclass('b_changes'), relreplident FROM pg_class WHERE oid = 'b'::regclass;
SELECT count(*) FROM scd2.feeds WHERE source = 'b'::regclass;
DO $$ BEGIN PERFORM scd2.enable_change_feed('b'); END $$;
BEGIN;
SELECT scd2.disable_change_feed('b', true);
SELECT scd2.enable_change_feed('b');
INSERT INTO b VALUES (1);
SAVEPOINT s;
SELECT scd2.disable_change_feed('b');
ROLLBACK TO s;
SELECT scd2.enable_change_feed('b');
COMMIT;
INSERT INTO b VALUES (2);
SELECT scd2.sync() AS v \gset
SELECT id FROM scd2.table_changes(NULL::b_changes) WHERE id = 2;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM a;
CREATE TABLE c (id integer);
SELECT scd2.enable_change_feed('c');
COMMIT;
INSERT INTO c VALUES (1);
SELECT scd2.sync() AS v \gset
SELECT id FROM scd2.table_changes(NULL::c_changes);

-- SE-06: excepted columns are in no image; a column that becomes excepted leaves the feed with all that was stored of it; one that comes back begins empty
CREATE TABLE users (id integer PRIMARY KEY, name text, password_hash text);
SELECT scd2.enable_change_feed('users', except_column_list => '{password_hash}', retention => '30 days');
INSERT INTO users VALUES (1, 'ana', 'secret');
UPDATE users SET password_hash = 'secret2';
SELECT scd2.sync() AS v \gset
SELECT _change_type, _row FROM scd2.table_changes('users');
SELECT retention FROM scd2.feeds WHERE source = 'users'::regclass;
SELECT scd2.alter_change_feed('users', except_column_list => '{password_hash,name}');
UPDATE users SET name = 'bea';
SELECT scd2.sync() AS v \gset
SELECT _change_type, _row FROM scd2.table_changes('users');
SELECT scd2.alter_change_feed('users', retention => '1 hour', except_column_list => '{password_hash}');
UPDATE users SET name = 'eva';
SELECT scd2.sync() AS v \gset
SELECT _change_type, _row FROM scd2.table_changes('users');
SELECT retention, state FROM scd2.feeds WHERE source = 'users'::regclass;
SELECT scd2.alter_change_feed('users', except_column_list => '{nix}');

-- also of changes that the worker meets together with the enabling, and when the excepted column is called like a metadata column
BEGIN;
CREATE TABLE early (id integer PRIMARY KEY, secret text, _xid text);
SELECT scd2.enable_change_feed('early', except_column_list => '{secret,_xid}');
INSERT INTO early VALUES (1, 'secret', 'x');
COMMIT;
UPDATE early SET secret = 'secret2';
SELECT scd2.sync() AS v \gset
SELECT _change_type, _row FROM scd2.table_changes('early');

-- disabling keeps the feed, which is used again if it fits; what happens in between is in neither part
SELECT scd2.disable_change_feed('a');
INSERT INTO a VALUES (4, 'unseen', 'x');
SELECT state FROM scd2.feeds WHERE source = 'a'::regclass;
SELECT * FROM scd2.table_changes('a');
SELECT count(*) FROM a_changes;
SELECT scd2.enable_change_feed('a');
INSERT INTO a VALUES (5, 'seen', 'x');
SELECT scd2.sync() AS v \gset
SELECT id FROM scd2.table_changes(NULL::a_changes);
SELECT id FROM a_changes ORDER BY id;
SELECT state FROM scd2.feeds WHERE source = 'a'::regclass;
-- it does not fit when a column has become another, or is to be excepted
SELECT scd2.disable_change_feed('a');
SELECT scd2.enable_change_feed('a', except_column_list => '{v}');
ALTER TABLE a ALTER v TYPE varchar(100);
SELECT scd2.enable_change_feed('a');
SELECT scd2.enable_change_feed('feed_lifecycle.a', feed => 'a_changes_2');
SELECT scd2.disable_change_feed('a', drop_feed => true);
SELECT to_regclass('a_changes') AS kept, to_regclass('a_changes_2') AS dropped;
SELECT scd2.disable_change_feed('a');
-- a relation of another is never taken
CREATE TABLE c_changes_2 (LIKE c_changes);
SELECT scd2.disable_change_feed('c');
SELECT scd2.enable_change_feed('c', feed => 'c_changes_2');
-- what depends on the feed's relation keeps it from being dropped
SELECT scd2.enable_change_feed('c');
CREATE VIEW on_c AS SELECT * FROM c_changes;
SELECT scd2.disable_change_feed('c', true);
SELECT state FROM scd2.feeds WHERE source = 'c'::regclass;

-- a worker that is behind meets all of it in order
SELECT scd2.sync() AS v \gset
BEGIN;
CREATE TABLE d (id integer);
SELECT scd2.enable_change_feed('d');
COMMIT;
INSERT INTO d VALUES (1);
SELECT scd2.disable_change_feed('d', true);
INSERT INTO d VALUES (2);
SELECT scd2.enable_change_feed('d');
INSERT INTO d VALUES (3);
SELECT scd2.sync() AS v \gset
SELECT id FROM scd2.table_changes(NULL::d_changes);

-- the source is dropped: the feed stays, and is closed by its own name
DROP TABLE d;
SELECT scd2.sync() AS v \gset
SELECT state FROM scd2.feeds WHERE feed = 'd_changes'::regclass;
SELECT problem, fix FROM scd2.diagnose() WHERE subject = 'table feed_lifecycle.d';
SELECT fix FROM scd2.diagnose() WHERE subject = 'table feed_lifecycle.d' \gexec
SELECT count(*) FROM d_changes;
CREATE TABLE d (id integer);
SELECT scd2.enable_change_feed('d');
-- the feed is dropped: the source's writers do not notice
DROP TABLE b_changes;
INSERT INTO b VALUES (3);
SELECT scd2.sync() AS v \gset
SELECT state, latest_version IS NOT NULL AS known FROM scd2.feeds WHERE source = 'b'::regclass;
SELECT scd2.disable_change_feed('b', true);
SELECT scd2.enable_change_feed('b');
INSERT INTO b VALUES (4);
SELECT scd2.sync() AS v \gset
SELECT id FROM scd2.table_changes(NULL::b_changes);

DROP SCHEMA feed_lifecycle CASCADE;
