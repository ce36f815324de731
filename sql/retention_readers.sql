-- Readers: what they read, how they advance, what they keep, and who may use them.
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA retention_readers;
SET search_path = retention_readers;
SET DateStyle = ISO;
SET TimeZone = 'UTC';
SET IntervalStyle = postgres;
CREATE ROLE scd2_owner;
CREATE ROLE scd2_other;
GRANT USAGE, CREATE ON SCHEMA retention_readers TO scd2_owner;
GRANT USAGE ON SCHEMA retention_readers TO scd2_other;
SET ROLE scd2_owner;
CREATE TABLE t (id integer PRIMARY KEY, v text);
CREATE TABLE elsewhere (id integer PRIMARY KEY);
SELECT scd2.enable_change_feed('t');
SELECT scd2.enable_change_feed('elsewhere');
INSERT INTO t VALUES (1, 'before');
RESET ROLE;
SELECT scd2.sync() AS base \gset
SET ROLE scd2_owner;

-- a consistent start: the rows at the version after which the reader starts
SELECT scd2.create_reader('scd2_r', 't') AS v \gset
SELECT :v - :base AS starts_after;
SELECT * FROM scd2.table_at(NULL::t, :v);
-- nothing to read
SELECT * FROM scd2.read_changes('scd2_r', NULL::t_changes);
INSERT INTO t VALUES (2, 'a'), (3, 'a');
UPDATE t SET v = 'b' WHERE id = 2;
DELETE FROM t WHERE id = 3;
SELECT scd2.sync() - :base AS synced;
SELECT _commit_version - :base AS v, _change_ordinal AS o, _change_type, id, v FROM scd2.read_changes('scd2_r', NULL::t_changes);
-- again, until it advances
SELECT count(*) FROM scd2.read_changes('scd2_r', NULL::t_changes);
SELECT name, source, version - :base AS version, lag_versions, lag > '0' AS lag, held_bytes > 0 AS held, last_read IS NOT NULL AS was_read FROM scd2.readers;
-- whole versions, so many
SELECT _commit_version - :base AS v, _change_type, id FROM scd2.read_changes('scd2_r', NULL::t_changes, max_versions => 1);
SELECT scd2.advance_reader('scd2_r') - :base AS advanced;
SELECT _commit_version - :base AS v, _change_type, id FROM scd2.read_changes('scd2_r', NULL::t_changes, 1);
SELECT scd2.advance_reader('scd2_r', :base + 2) - :base AS advanced;
-- nothing was read since: it stays
SELECT scd2.advance_reader('scd2_r') - :base AS advanced;
SELECT _commit_version - :base AS v, _change_type, id FROM scd2.read_changes('scd2_r', NULL::t_changes, 100);
SELECT scd2.advance_reader('scd2_r') - :base AS advanced;
SELECT name, version - :base AS version, lag_versions, lag, held_bytes FROM scd2.readers;

-- a quiet table: versions of others, between which one of its own is found whatever their number
INSERT INTO elsewhere VALUES (1);
INSERT INTO elsewhere VALUES (2);
INSERT INTO elsewhere VALUES (3);
SELECT scd2.sync() - :base AS synced;
SELECT count(*) FROM scd2.read_changes('scd2_r', NULL::t_changes);
SELECT scd2.advance_reader('scd2_r') - :base AS advanced;
INSERT INTO elsewhere VALUES (4);
INSERT INTO elsewhere VALUES (5);
INSERT INTO t VALUES (4, 'x');
INSERT INTO elsewhere VALUES (6);
INSERT INTO t VALUES (5, 'y');
SELECT scd2.sync() - :base AS synced;
SELECT _commit_version - :base AS v, _change_type, id FROM scd2.read_changes('scd2_r', NULL::t_changes, 1);
SELECT scd2.advance_reader('scd2_r') - :base AS advanced;

-- rolled back, a read or an advance has not been
BEGIN;
SELECT count(*) FROM scd2.read_changes('scd2_r', NULL::t_changes);
SELECT scd2.advance_reader('scd2_r') - :base AS advanced;
ROLLBACK;
SELECT scd2.advance_reader('scd2_r') - :base AS advanced;
-- exactly once: what is read and the advance in one transaction
CREATE TABLE copy (LIKE t_changes);
BEGIN;
INSERT INTO copy SELECT * FROM scd2.read_changes('scd2_r', NULL::t_changes);
SELECT scd2.advance_reader('scd2_r') - :base AS advanced;
COMMIT;
SELECT id, v FROM copy;

-- it keeps what it has not passed, and is told of
INSERT INTO t VALUES (6, 'z');
SELECT scd2.sync() - :base AS synced;
SELECT held_by = format('reader "scd2_r" at version %s', :base + 11) AS held FROM scd2.feeds WHERE source = 't'::regclass;
SELECT rows, held_by = format('reader "scd2_r" at version %s', :base + 11) AS held FROM scd2.vacuum_feed('t', retain => '0');
SELECT scd2.disable_change_feed('t');
SELECT count(*) FROM scd2.read_changes('scd2_r', NULL::t_changes);
SELECT scd2.advance_reader('scd2_r') - :base AS advanced;
SELECT rows, held_by FROM scd2.vacuum_feed('t', retain => '0');
SELECT count(*) FROM scd2.read_changes('scd2_r', NULL::t_changes);
INSERT INTO t VALUES (7, 'z');
SELECT scd2.sync() - :base AS synced;
SELECT _commit_version - :base AS v, _change_type, id FROM scd2.read_changes('scd2_r', NULL::t_changes);

-- refusals
SELECT scd2.create_reader('scd2_r', 't');
SELECT scd2.create_reader(NULL, 't');
SELECT scd2.create_reader('scd2_s', 'copy');
SELECT scd2.create_reader('scd2_s', NULL);
\set VERBOSITY sqlstate
SELECT scd2.create_reader('scd2_s', 't', :base + 2);
SELECT scd2.create_reader('scd2_s', 't', :base + 1000);
SELECT scd2.create_reader('scd2_s', 't', -1);
SELECT scd2.advance_reader('scd2_r', :base + 2);
SELECT scd2.advance_reader('scd2_r', :base + 1000);
\set VERBOSITY terse
SELECT scd2.read_changes('scd2_r', NULL::elsewhere_changes);
\set VERBOSITY default
SELECT scd2.read_changes('scd2_r', NULL::t);
SELECT scd2.read_changes('scd2_r', 5);
\set VERBOSITY terse
SELECT scd2.read_changes('scd2_r', NULL::t_changes, 0);
SELECT scd2.read_changes('scd2_s', NULL::t_changes);
SELECT scd2.read_changes(NULL, NULL::t_changes);
SELECT scd2.advance_reader('scd2_s');
SELECT scd2.drop_reader('scd2_s');
-- at the lowest version that is left
SELECT scd2.create_reader('scd2_s', 't', :base + 12) - :base AS starts_after;
SELECT id FROM scd2.read_changes('scd2_s', NULL::t_changes);
-- who may read the feed may not have a reader
GRANT SELECT ON t_changes TO scd2_other;
SET ROLE scd2_other;
SELECT scd2.create_reader('scd2_o', 't');
SELECT scd2.read_changes('scd2_r', NULL::t_changes);
SELECT scd2.advance_reader('scd2_r');
SELECT scd2.drop_reader('scd2_r');
SELECT count(*) FROM scd2.readers;
SET ROLE scd2_owner;

-- a gap: what is whole before it, then an error, until the reader steps over it
RESET ROLE;
UPDATE scd2_internal.feed_state SET gap = int8range(:base + 14, :base + 15) WHERE feed_relid = 't_changes'::regclass;
SET ROLE scd2_owner;
INSERT INTO t VALUES (8, 'lost');
INSERT INTO t VALUES (9, 'found');
SELECT scd2.sync() - :base AS synced;
SELECT _commit_version - :base AS v, id FROM scd2.read_changes('scd2_r', NULL::t_changes);
SELECT scd2.advance_reader('scd2_r') - :base AS advanced;
\set VERBOSITY sqlstate
SELECT _commit_version - :base AS v, id FROM scd2.read_changes('scd2_r', NULL::t_changes);
\set VERBOSITY terse
SELECT scd2.advance_reader('scd2_r', :base + 14) - :base AS advanced;
SELECT _commit_version - :base AS v, id FROM scd2.read_changes('scd2_r', NULL::t_changes);

-- one that has expired keeps nothing, and says so
RESET ROLE;
UPDATE scd2_internal.reader SET expired_at = now() WHERE name = 'scd2_s';
SET ROLE scd2_owner;
\set VERBOSITY sqlstate
SELECT scd2.read_changes('scd2_s', NULL::t_changes);
SELECT scd2.advance_reader('scd2_s');
\set VERBOSITY terse
SELECT name FROM scd2.readers;
SELECT regexp_replace(problem, '\d+$', '…') AS problem, fix FROM scd2.diagnose() WHERE problem LIKE '%expired%';
SELECT scd2.drop_reader('scd2_s');
\set VERBOSITY default
SELECT scd2.drop_reader('scd2_s');
SELECT scd2.drop_reader('scd2_r');
SELECT scd2.disable_change_feed('t', drop_feed => true);
SELECT scd2.disable_change_feed('elsewhere', drop_feed => true);
RESET ROLE;
DROP SCHEMA retention_readers CASCADE;
DROP ROLE scd2_owner, scd2_other;
