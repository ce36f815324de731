-- The last partition of a feed is cut: what the new one is like, what is not cut, and what reads of several partitions return.
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA feed_leaves;
SET search_path = feed_leaves;
CREATE ROLE scd2_owner;
CREATE ROLE scd2_reader;
GRANT USAGE, CREATE ON SCHEMA feed_leaves TO scd2_owner;
GRANT USAGE ON SCHEMA feed_leaves TO scd2_reader;
ALTER DEFAULT PRIVILEGES IN SCHEMA feed_leaves GRANT SELECT ON TABLES TO scd2_reader;
SET ROLE scd2_owner;
CREATE TABLE t (id integer PRIMARY KEY, v text);
SELECT scd2.enable_change_feed('t');
GRANT SELECT ON t_changes TO scd2_reader;
CREATE INDEX by_id ON t_changes (id);
RESET ROLE;
-- Versions are those of the whole database: here they count from the feed's beginning.
SELECT scd2.sync() AS base \gset
CREATE FUNCTION cut() RETURNS bigint LANGUAGE sql AS $$ SELECT scd2_internal.cut_feed('feed_leaves.t_changes'::regclass) $$;
CREATE VIEW leaves AS
    SELECT CASE WHEN b.bound LIKE '%MINVALUE%' THEN 'from the beginning' ELSE 'from a version' END AS begins, CASE WHEN b.bound LIKE '%MAXVALUE%' THEN 'open' ELSE 'to a version' END AS ends,
           c.relowner::regrole AS owner, (SELECT bool_and(x.grantee = c.relowner) FROM aclexplode(c.relacl) x) AS his_alone, c.relreplident AS identity, c.reloptions,
           (SELECT count(*) FROM pg_trigger g WHERE g.tgrelid = c.oid AND g.tgname = 'scd2_guard' AND g.tgenabled = 'A') AS guards,
           (SELECT string_agg(a.amname, ', ' ORDER BY a.amname) FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_am a ON a.oid = i.relam
            WHERE x.indrelid = c.oid AND i.relispartition) AS indexes,
           (SELECT string_agg(k.conname, ', ' ORDER BY k.conname) FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c') AS checks
    FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid, pg_get_expr(c.relpartbound, 0) b (bound) WHERE h.inhparent = 'feed_leaves.t_changes'::text::regclass ORDER BY c.oid;

-- not without rows
SELECT cut();
INSERT INTO t VALUES (1, 'a'), (2, 'b');
SELECT scd2.sync() - :base AS synced;
ALTER TABLE t_changes_p1 SET (autovacuum_vacuum_insert_threshold = 5000);
-- it is scanned once, for a first row, and not to prove its range (ATTACH would); the new one is like it
BEGIN;
SELECT pg_stat_get_xact_numscans('t_changes_p1'::regclass) AS before \gset
SELECT cut() - :base AS cut;
SELECT pg_stat_get_xact_numscans('t_changes_p1'::regclass) - :before AS scans;
COMMIT;
SELECT * FROM leaves;
SELECT cut();
UPDATE t SET v = 'c' WHERE id = 1;
SELECT scd2.sync() - :base AS synced;
SELECT cut() - :base AS cut;
-- a column that comes later is in all of them
ALTER TABLE t ADD COLUMN w integer;
UPDATE t SET w = 1 WHERE id = 2;
SELECT scd2.sync() - :base AS synced;
SELECT cut() - :base AS cut;
UPDATE t SET w = 2;
DELETE FROM t WHERE id = 1;
SELECT scd2.sync() - :base AS synced;
SELECT begins, ends, checks, indexes FROM leaves;

-- who may read the feed reads all of it, and no partition directly
SET ROLE scd2_reader;
SELECT count(*) FROM t_changes;
SELECT DISTINCT has_table_privilege(inhrelid, 'SELECT') FROM pg_inherits WHERE inhparent = 't_changes'::regclass;
RESET ROLE;
SELECT _commit_version - :base AS v, _change_ordinal AS o, _change_type, id, v, w, dense_rank() OVER (ORDER BY tableoid) AS leaf FROM t_changes ORDER BY 1, 2;
SELECT _commit_version - :base AS v, _change_type, id, v, w FROM scd2.table_changes(NULL::t_changes, :base + 2, :base + 3);
SELECT version - :base AS v, operation, inserts, updates, deletes FROM scd2.describe_history('t');
SELECT * FROM scd2.table_at(NULL::t, :base + 1) ORDER BY id;
SELECT * FROM scd2.table_at(NULL::t, :base + 3) ORDER BY id;
SELECT count(*) AS partitions, bool_and(bytes > 0) AS bytes FROM scd2.feeds, pg_inherits WHERE source = 't'::regclass AND inhparent = feed;
-- a range reads only its partitions
CREATE FUNCTION partitions_read(query text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
    RETURN (SELECT count(DISTINCT m[1]) FROM regexp_matches(plan::text, '"Relation Name": "(t_changes_p[0-9]+)"', 'g') m);
END $$;
SELECT partitions_read('SELECT * FROM t_changes') AS all_of_it, partitions_read(format('SELECT * FROM t_changes WHERE _commit_version BETWEEN %s AND %s', :base + 2, :base + 2)) AS one_version;

-- the owner has written a row of a version to come: cutting before it would hide it
SET ROLE scd2_owner;
SET pg_scd2.allow_target_writes = on;
INSERT INTO t_changes VALUES ('insert', 1000000000, now(), 1, '1', 7, 'x', 1);
RESET ROLE;
DO $$
BEGIN
    PERFORM cut();
EXCEPTION WHEN object_not_in_prerequisite_state THEN
    RAISE WARNING '%', regexp_replace(SQLERRM, '_p\d+', '_p…');
END $$;
SET ROLE scd2_owner;
DELETE FROM t_changes WHERE _commit_version = 1000000000;
RESET pg_scd2.allow_target_writes;
RESET ROLE;
SELECT cut() - :base AS cut;
-- without its index a range cannot be proved
INSERT INTO t VALUES (3, 'd');
SELECT scd2.sync() - :base AS synced;
SELECT format('DROP INDEX %s', indexrelid::regclass) FROM pg_index JOIN pg_class i ON i.oid = indexrelid JOIN pg_am a ON a.oid = relam WHERE indrelid = 't_changes'::regclass AND amname = 'brin' \gexec
SELECT cut();

-- what the owner cut himself at a version that is yet to come stops his feed alone when a batch has both
SET ROLE scd2_owner;
SELECT scd2.disable_change_feed('t', drop_feed => true);
SELECT scd2.enable_change_feed('t');
SELECT scd2.sync() AS base \gset
RESET ROLE;
SET pg_scd2.own_ddl = on;
ALTER TABLE t_changes DETACH PARTITION t_changes_p1;
\set ECHO none
SELECT format('ALTER TABLE t_changes ATTACH PARTITION t_changes_p1 FOR VALUES FROM (MINVALUE) TO (%s)', :base + 2) \gexec
\set ECHO all
RESET pg_scd2.own_ddl;
INSERT INTO t VALUES (4, 'fits');
SELECT scd2.sync() - :base AS synced;
INSERT INTO t VALUES (5, 'does not fit');
SELECT scd2.sync() - :base AS synced;
SELECT f.state, s.error LIKE 'feed "t_changes" has no partition for version %' AS told FROM scd2.feeds f, scd2_internal.feed_state s WHERE f.source = 't'::regclass AND s.feed_relid = f.feed;
SELECT _change_type, id, v FROM t_changes;

SELECT scd2.disable_change_feed('t', drop_feed => true);
SELECT count(*) FROM pg_class WHERE relnamespace = 'feed_leaves'::regnamespace AND relname LIKE 't\_changes%';
DROP TABLE t;
DROP SCHEMA feed_leaves CASCADE;
DROP ROLE scd2_owner, scd2_reader;
