-- check_target() finds each kind of damage, planted one by one by the owner, and nothing where there is none.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET client_min_messages = warning;
CREATE SCHEMA check_target;
SET search_path = check_target;
CREATE TABLE events (k int, v text, note text, seq int, op text);
INSERT INTO events VALUES (1, 'a', 'n', 10, 'U'), (1, 'b', 'n', 20, 'U'), (2, 'x', 'n', 5, 'U'), (2, NULL, NULL, 8, 'D');
SELECT scd2.create_auto_cdc_flow('h', 'events', '{k}', 'seq', apply_as_deletes => 'op = ''D''', except_column_list => '{op,seq}', stored_as_scd_type => 2, track_history_column_list => '{v}', current_column => 'live');
SELECT scd2.create_auto_cdc_flow('c', 'events', '{k}', 'seq', apply_as_deletes => 'op = ''D''', except_column_list => '{op}');
INSERT INTO events VALUES (1, 'late', 'n', 15, 'U'), (1, 'b', 'other', 30, 'U'), (3, 'y', 'n', 1, 'U'), (3, 'z', 'n', 9, 'U');
SELECT scd2.sync() >= 0;
TABLE h ORDER BY k, __start_at;
SELECT * FROM scd2.check_target('h');
SELECT * FROM scd2.check_target('c');
-- who cleans up his event table changes nothing
DELETE FROM events WHERE seq < 20;
UPDATE events SET v = 'changed';
SELECT scd2.sync() >= 0;
SELECT f.target, d.* FROM scd2.flows f, scd2.check_target(f.target) d;
-- nothing is left of it
SELECT count(*) FROM pg_class WHERE relname LIKE 'scd2\_copy%';
SELECT (SELECT count(*) FROM scd2_internal.flow) - (SELECT count(*) FROM scd2.flows) AS flows, (SELECT count(*) FROM scd2_internal.mark) AS marks;

-- damage: in a transaction that is rolled back, constraints out of the way where they would keep it out
SET pg_scd2.allow_target_writes = on;
\set damage 'BEGIN; ALTER TABLE h DROP CONSTRAINT h_pkey, DROP CONSTRAINT h_check; ALTER TABLE h ALTER k DROP NOT NULL;'
-- a value, tracked or not
BEGIN;
UPDATE h SET v = 'by hand' WHERE k = 2;
SELECT * FROM scd2.check_target('h');
ROLLBACK;
BEGIN;
UPDATE h SET note = NULL WHERE k = 1 AND __end_at IS NULL;
SELECT * FROM scd2.check_target('h');
ROLLBACK;
-- a row too few, a row too many
BEGIN;
DELETE FROM h WHERE k = 3 AND __start_at = 1;
SELECT * FROM scd2.check_target('h');
ROLLBACK;
BEGIN;
INSERT INTO h VALUES (4, 'new', 'n', 1, NULL, true);
SELECT * FROM scd2.check_target('h');
ROLLBACK;
-- an interval
BEGIN;
UPDATE h SET __end_at = 7 WHERE k = 2;
SELECT * FROM scd2.check_target('h');
ROLLBACK;
BEGIN;
UPDATE h SET __end_at = 18 WHERE k = 1 AND __start_at = 10;
SELECT * FROM scd2.check_target('h') WHERE problem NOT LIKE '% row';
ROLLBACK;
BEGIN;
UPDATE h SET __end_at = NULL WHERE k = 1 AND __start_at = 10;
SELECT * FROM scd2.check_target('h') WHERE problem NOT LIKE '% row';
ROLLBACK;
BEGIN;
UPDATE h SET __end_at = NULL, live = true WHERE k = 1 AND __start_at < 30;
SELECT * FROM scd2.check_target('h') WHERE problem NOT LIKE '% row';
ROLLBACK;
:damage
UPDATE h SET __end_at = __start_at WHERE k = 1 AND __start_at = 10;
SELECT * FROM scd2.check_target('h') WHERE problem NOT LIKE '% row';
ROLLBACK;
:damage
UPDATE h SET k = NULL WHERE k = 2;
SELECT * FROM scd2.check_target('h') WHERE problem NOT LIKE '% row';
ROLLBACK;
BEGIN;
UPDATE h SET live = NOT live WHERE k = 2;
SELECT * FROM scd2.check_target('h') WHERE problem NOT LIKE '% row';
ROLLBACK;
-- equal rows count
:damage
INSERT INTO h SELECT * FROM h WHERE k = 2;
INSERT INTO h SELECT * FROM h WHERE k = 2;
SELECT * FROM scd2.check_target('h');
ROLLBACK;
-- type 1
BEGIN;
ALTER TABLE c DROP CONSTRAINT c_pkey;
ALTER TABLE c ALTER k DROP NOT NULL;
INSERT INTO c SELECT * FROM c WHERE k = 1;
UPDATE c SET k = NULL WHERE k = 3;
SELECT * FROM scd2.check_target('c');
ROLLBACK;
RESET pg_scd2.allow_target_writes;

-- flows over a feed: with its own sequence and another, type 1 and 2, keys that change, a key of several columns
CREATE DOMAIN citextlike AS text CHECK (VALUE <> '');
CREATE TABLE t (a int, "B b" citextlike, at timestamptz NOT NULL, j json, f float8, PRIMARY KEY (a, "B b"));
INSERT INTO t SELECT g, 'k' || g, '2026-01-01', '{"x": 1}', 0.1 * g FROM generate_series(1, 50) g;
SELECT scd2.track('t');
SELECT scd2.track('t', stored_as_scd_type => 1);
SELECT scd2.create_auto_cdc_flow('own_seq', 't_changes', '{a,B b}', sequence_by => 'struct(at, a)', delete_sequence_by => 'struct(_commit_timestamp, a)', stored_as_scd_type => 2);
SELECT scd2.create_append_flow('all_t', 't', source_filter => 'f > 1');
SELECT scd2.sync() >= 0;
UPDATE t SET f = f + 1, at = '2026-02-01' WHERE a % 3 = 0;
UPDATE t SET a = a + 1000 WHERE a < 10;
DELETE FROM t WHERE a % 7 = 0;
INSERT INTO t VALUES (7, 'k7', '2026-03-01', NULL, 'NaN');
UPDATE t SET a = a + 1 WHERE a > 1000;
SELECT scd2.sync() >= 0;
SELECT f.target, d.* FROM scd2.flows f, scd2.check_target(f.target) d;
SET pg_scd2.allow_target_writes = on;
BEGIN;
UPDATE t_history SET j = '{"x": 1 }' WHERE a = 20;
UPDATE t_current SET f = 3 WHERE a = 20;
UPDATE own_seq SET "B b" = 'other' WHERE a = 20;
DELETE FROM all_t WHERE a = 20;
SELECT f.target, d.problem, d.key FROM scd2.flows f, scd2.check_target(f.target) d ORDER BY 1, 2, 3;
ROLLBACK;
RESET pg_scd2.allow_target_writes;

-- several flows, one of which joined later; and where the sources no longer tell
SET client_min_messages = notice;
CREATE TABLE more (k int, v text, seq int);
CREATE TABLE shared_a (k int, v text, seq int);
INSERT INTO shared_a VALUES (1, 'a', 1), (2, 'a', 5);
SET client_min_messages = warning;
SELECT scd2.create_auto_cdc_flow('s', 'shared_a', '{k}', 'seq', column_list => '{k,v}', stored_as_scd_type => 2, shared => true);
SELECT scd2.sync() >= 0;
SELECT scd2.create_auto_cdc_flow('s', 'more', '{k}', 'seq', column_list => '{k,v}', stored_as_scd_type => 2);
INSERT INTO more VALUES (1, 'm', 0), (2, 'm', 9), (3, 'm', 1);
SELECT scd2.sync() >= 0;
SET client_min_messages = notice;
SELECT * FROM scd2.check_target('s');
TRUNCATE more;
SELECT scd2.sync() >= 0;
SELECT regexp_replace(why, '\d+', '…', 'g'), version IS NULL AS nothing FROM scd2_internal.comparable_since('s');
CREATE VIEW old AS SELECT 1 AS k, 'v' AS v, 2 AS seq;
SELECT scd2.create_auto_cdc_flow('o', 'old', '{k}', 'seq', once => true);
SELECT scd2.sync() >= 0;
SELECT * FROM scd2.check_target('o');
-- what the owner's own expression does now
CREATE FUNCTION fine(int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true';
CREATE TABLE filtered (id int);
INSERT INTO filtered VALUES (1);
SELECT scd2.create_append_flow('passed', 'filtered', source_filter => 'check_target.fine(id)');
SELECT scd2.sync() >= 0;
CREATE OR REPLACE FUNCTION fine(int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT 1 / 0 = 1';
SELECT * FROM scd2.check_target('passed');

SELECT scd2.drop_flow('passed');

-- a captured table that had its target for itself: who joined filled in history before, and changed nothing after
CREATE TABLE own (id int PRIMARY KEY, v text);
INSERT INTO own VALUES (1, 'a'), (2, 'a');
SET client_min_messages = warning;
SELECT scd2.track('own', apply_as_truncates => 'false');
SELECT scd2.sync() >= 0;
UPDATE own SET v = 'b' WHERE id = 1;
DELETE FROM own WHERE id = 2;
SELECT scd2.sync() >= 0;
CREATE TABLE told (id int, v text, at timestamptz);
INSERT INTO told VALUES (1, 'earlier', '2020-01-01'), (2, 'earlier', '2021-01-01'), (3, 'gone', '2022-01-01');
INSERT INTO told SELECT 1, 'between', __start_at + interval '1 us' FROM own_history WHERE v = 'a' AND id = 1;
SELECT scd2.purge_history('own_history', now());
SELECT scd2.create_auto_cdc_flow('own_history', 'told', '{id}', 'at', column_list => '{id,v}', stored_as_scd_type => 2);
SELECT scd2.sync() >= 0;
INSERT INTO told VALUES (2, 'late', '2021-06-01'), (4, 'new', now() + interval '1 hour');
UPDATE own SET v = 'c' WHERE id = 1;
SELECT scd2.sync() >= 0;
SELECT id, v FROM own_history ORDER BY id, __start_at;
SET client_min_messages = notice;
SELECT * FROM scd2.check_target('own_history');
SET client_min_messages = warning;
SET pg_scd2.allow_target_writes = on;
BEGIN;
UPDATE own_history SET v = 'by hand' WHERE id = 1 AND v IN ('earlier', 'c');
SELECT problem, key, regexp_replace(detail, ',.*', '') FROM scd2.check_target('own_history');
ROLLBACK;
RESET pg_scd2.allow_target_writes;

-- a captured table whose feed was shortened, or that was truncated: what is valid since then is compared
CREATE FUNCTION checked(target text) RETURNS TABLE (problem text, key jsonb, detail text) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT c.problem, c.key, regexp_replace(c.detail, '\d{4}-\d\d-\d\d [0-9:.+]+', 'TIME', 'g') FROM scd2.check_target(target::regclass) AS c;
END $$;
CREATE TABLE cut (id int PRIMARY KEY, v text, note text);
INSERT INTO cut VALUES (1, 'a', 'n'), (2, 'a', 'n'), (3, 'a', 'n'), (4, 'a', 'n');
SET client_min_messages = warning;
SELECT scd2.track('cut', track_history_column_list => '{v}', current_column => 'live', initial_start => '''2020-01-01''');
SELECT scd2.track('cut', stored_as_scd_type => 1);
SELECT scd2.sync() >= 0;
UPDATE cut SET v = 'b' WHERE id < 3;
DELETE FROM cut WHERE id = 4;
UPDATE cut SET note = 'o' WHERE id = 2;
SELECT scd2.sync() >= 0;
SELECT count(*) FROM scd2.vacuum_feed('cut', retain => '0') WHERE held_by IS NULL;
UPDATE cut SET v = 'c' WHERE id = 1;
UPDATE cut SET note = 'p' WHERE id > 1;
INSERT INTO cut VALUES (4, 'again', 'n');
SELECT scd2.sync() >= 0;
SELECT c.why, c.version = s.earliest_version - 1 AS version, c.at = s.removed_until AS at FROM scd2_internal.comparable_since('cut_history') AS c, scd2_internal.feed AS f, scd2_internal.feed_start(f.feed_id) AS s WHERE f.source_relid = 'cut'::regclass;
SELECT * FROM checked('cut_history');
SELECT * FROM checked('cut_current');
SET pg_scd2.allow_target_writes = on;
BEGIN;
UPDATE cut_history SET note = 'by hand' WHERE id = 2 AND live;
UPDATE cut_history SET v = 'what nobody can tell' WHERE id = 4 AND NOT live;
SELECT * FROM checked('cut_history');
UPDATE cut_current SET note = 'by hand' WHERE id = 3;
SELECT * FROM checked('cut_current');
ROLLBACK;
TRUNCATE cut;
INSERT INTO cut VALUES (1, 'new', 'n'), (5, 'new', 'n');
UPDATE cut SET v = 'newer' WHERE id = 5;
SELECT scd2.sync() >= 0;
SELECT * FROM checked('cut_history');
SELECT * FROM checked('cut_current');
BEGIN;
DELETE FROM cut_history WHERE id = 1 AND live;
UPDATE cut_history SET __end_at = now() + interval '1 day' WHERE id = 3;
SELECT problem, key FROM scd2.check_target('cut_history');
ROLLBACK;
RESET pg_scd2.allow_target_writes;
-- and it can be purged
SELECT scd2.purge_history('cut_history', now()) > 0 AS purged;
SELECT count(*) FILTER (WHERE live) AS live, count(*) FROM cut_history;
SELECT * FROM checked('cut_history');

-- what is remembered of events, against the rows: of every target that remembers, whatever its sources tell
SET client_min_messages = notice;
SELECT k, _sequence, _kind FROM h_memory ORDER BY 1, 2;
SELECT k, _sequence, _kind FROM s_memory ORDER BY 1, 2;
SELECT k, _kind FROM c_memory ORDER BY 1;
SET client_min_messages = warning;
SET pg_scd2.allow_target_writes = on;
BEGIN;
DELETE FROM h WHERE k = 1 AND __start_at = 20;
SELECT * FROM scd2.check_target('h') WHERE problem LIKE '%memory';
ROLLBACK;
BEGIN;
UPDATE h SET __end_at = 25 WHERE k = 1 AND __start_at = 20;
SELECT * FROM scd2.check_target('h') WHERE problem LIKE '%memory';
ROLLBACK;
BEGIN;
INSERT INTO c VALUES (2, 'back', 'n', 5);
SELECT * FROM scd2.check_target('c') WHERE problem LIKE '%memory';
ROLLBACK;
BEGIN;
INSERT INTO h_memory (k, _sequence, _kind) VALUES (1, 12, 'd');
SELECT * FROM scd2.check_target('h') WHERE problem LIKE '%memory';
ROLLBACK;
RESET pg_scd2.allow_target_writes;

-- what was read once: compared with what is there now, and said if that is something else
CREATE TABLE once_ev (k int, v text, seq int, op text);
INSERT INTO once_ev VALUES (1, 'a', 10, 'U'), (1, 'b', 20, 'U'), (2, 'x', 10, 'U'), (2, NULL, 20, 'D');
CREATE VIEW once_seen AS SELECT k, v, seq + 5 AS seq FROM once_ev WHERE op = 'U';
SELECT scd2.create_auto_cdc_flow('oh', 'once_ev', '{k}', 'seq', apply_as_deletes => 'op = ''D''', column_list => '{k,v}', stored_as_scd_type => 2, once => true);
SELECT scd2.create_auto_cdc_flow('oh', 'once_seen', '{k}', 'seq', column_list => '{k,v}', stored_as_scd_type => 2, once => true);
SELECT scd2.create_auto_cdc_flow('oc', 'once_ev', '{k}', 'seq', apply_as_deletes => 'op = ''D''', column_list => '{k,v}', once => true);
CREATE TABLE shown (k int PRIMARY KEY, v text, j json);
INSERT INTO shown VALUES (1, 'a', '{}'), (2, 'b', NULL);
SELECT scd2.create_auto_cdc_from_snapshot_flow('sh', 'shown', '{k}', 'int', stored_as_scd_type => 2, max_delete_fraction => 1);
SELECT scd2.create_auto_cdc_from_snapshot_flow('sc', 'shown', '{k}', 'int', max_delete_fraction => 1);
SELECT f, a.* FROM unnest('{sh,sc}'::name[]) f, scd2.apply_snapshot(f, 10) a;
UPDATE shown SET v = 'c' WHERE k = 1;
DELETE FROM shown WHERE k = 2;
INSERT INTO shown VALUES (3, 'new', '[1]');
SELECT f, a.* FROM unnest('{sh,sc}'::name[]) f, scd2.apply_snapshot(f, 20) a;
SELECT scd2.sync() >= 0;
SET client_min_messages = notice;
SELECT t, c.* FROM unnest('{oh,oc,sh,sc}'::text[]) AS t, scd2.check_target(t::regclass) AS c;
SET pg_scd2.allow_target_writes = on;
BEGIN;
UPDATE oh SET v = 'by hand' WHERE k = 2;
UPDATE oc SET v = 'by hand';
UPDATE sh SET v = 'by hand' WHERE k = 3;
DELETE FROM sc WHERE k = 3;
SELECT t, c.* FROM unnest('{oh,oc,sh,sc}'::text[]) AS t, scd2.check_target(t::regclass) AS c;
ROLLBACK;
-- intervals need no source
BEGIN;
UPDATE oh SET __end_at = 25 WHERE k = 1 AND __start_at = 10;
UPDATE sh SET __end_at = NULL WHERE k = 1;
SELECT t, c.* FROM unnest('{oh,sh}'::text[]) AS t, scd2.check_target(t::regclass) AS c;
ROLLBACK;
RESET pg_scd2.allow_target_writes;
-- sources that changed since, and one that is not what it was
INSERT INTO once_ev VALUES (3, 'later', 10, 'U');
UPDATE shown SET j = '{ }' WHERE k = 1;
SELECT t, c.* FROM unnest('{oh,oc,sh,sc}'::text[]) AS t, scd2.check_target(t::regclass) AS c;
ALTER TABLE shown RENAME v TO w;
ALTER TABLE once_ev RENAME op TO kind;
SELECT t, c.* FROM unnest('{oh,oc,sh,sc}'::text[]) AS t, scd2.check_target(t::regclass) AS c;
SET client_min_messages = warning;

-- refused
SELECT * FROM scd2.check_target(NULL);
SELECT * FROM scd2.check_target('t');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM scd2.check_target('t_history');
ROLLBACK;
BEGIN;
INSERT INTO t VALUES (8, 'k8', now());
SELECT * FROM scd2.check_target('t_history');
ROLLBACK;
CREATE ROLE scd2_other;
GRANT USAGE ON SCHEMA check_target TO scd2_other;
SET ROLE scd2_other;
SELECT * FROM scd2.check_target('t_history');
RESET ROLE;

SET client_min_messages = warning;
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT flow FROM scd2.flows LOOP
        PERFORM scd2.drop_flow(f.flow, drop_target => true);
    END LOOP;
    FOR f IN SELECT feed FROM scd2.feeds LOOP
        PERFORM scd2.disable_change_feed(f.feed, drop_feed => true);
    END LOOP;
END $$;
DROP SCHEMA check_target CASCADE;
DROP ROLE scd2_other;
