-- A rewrite that gives rows values which the log does not show is repaired by itself at its place: what differs from a target comes as one version.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE SCHEMA columns_rewritten;
SET search_path = columns_rewritten;
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';
CREATE SEQUENCE s;
-- what a feed and its targets must be: images that add up to the table, histories that end in it
CREATE FUNCTION wrong(source regclass) RETURNS TABLE (what text, problem text, key jsonb, detail text) LANGUAGE plpgsql AS $$
DECLARE
    names text := (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = source AND attnum > 0 AND NOT attisdropped);
BEGIN
    RETURN QUERY SELECT f.target::text, c.* FROM (SELECT DISTINCT target FROM scd2.flows w WHERE w.source = wrong.source) f, scd2.check_target(f.target) c;
    RETURN QUERY SELECT w.flow::text, w.state, NULL::jsonb, w.last_error FROM scd2.flows w WHERE w.source = wrong.source AND w.state <> 'running';
    RETURN QUERY SELECT 'feed', f.state, NULL::jsonb, f.gap::text FROM scd2.feeds f WHERE f.source = wrong.source AND (f.state <> 'running' OR f.gap IS NOT NULL);
    RETURN QUERY EXECUTE format($q$
        SELECT 'images', 'do not add up', to_jsonb(x), NULL
        FROM (SELECT %1$s, sum(balance) AS balance FROM (
                SELECT %1$s, CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END AS balance FROM %2$s
                UNION ALL SELECT %1$s, -1 FROM %3$s) i GROUP BY %1$s) x WHERE balance <> 0 $q$, names, source || '_changes', source);
END $$;
CREATE TABLE t (id integer PRIMARY KEY, v text, n integer);
SELECT scd2.track('t');
SELECT scd2.track('t', 't_now', stored_as_scd_type => 1);
INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4);
SELECT scd2.sync() AS v0 \gset

-- who does it is told; changes before, between and behind, and a name that goes on changing, in one transaction
SET client_min_messages = notice;
BEGIN;
UPDATE t SET v = 'before' WHERE id = 1;
ALTER TABLE t ADD COLUMN r integer DEFAULT nextval('s');
DELETE FROM t WHERE id = 2;
INSERT INTO t VALUES (5, 'e', 5, 50);
ALTER TABLE t RENAME COLUMN r TO serial;
UPDATE t SET v = 'behind' WHERE id = 1;
COMMIT;
SET client_min_messages = warning;
UPDATE t SET v = 'later' WHERE id = 3;
SELECT scd2.sync() AS v1 \gset
SELECT :v1 - :v0 AS versions;
SELECT _commit_version - :v0 AS version, _change_type, id, v, n, serial FROM scd2.table_changes(NULL::t_changes, :v0 + 1) ORDER BY 1, id, _change_ordinal;
SELECT version - :v0 AS version, operation, inserts, updates, deletes FROM scd2.describe_history('t') WHERE version > :v0;
SELECT id, v, n, serial, dense_rank() OVER (ORDER BY __start_at) AS since, __end_at IS NULL AS open FROM t_history ORDER BY id, __start_at;
SELECT * FROM scd2.table_at(NULL::t, :v0) ORDER BY id;
SELECT * FROM scd2.table_at(NULL::t, :v0 + 2) ORDER BY id;
SELECT * FROM wrong('t');
SELECT * FROM scd2.diagnose();

-- two in one transaction, of two kinds
BEGIN;
ALTER TABLE t ALTER COLUMN v TYPE text USING v || '!';
UPDATE t SET n = 40 WHERE id = 4;
ALTER TABLE t ADD COLUMN twice integer GENERATED ALWAYS AS (n * 2) STORED;
COMMIT;
SELECT scd2.sync() AS v2 \gset
SELECT _commit_version - :v1 AS version, _change_type, id, v, n, twice FROM scd2.table_changes(NULL::t_changes, :v1 + 1) ORDER BY 1, id, _change_ordinal;
SELECT * FROM wrong('t');

-- one that did not happen, and a row that is as it was
BEGIN;
SAVEPOINT one;
ALTER TABLE t ALTER COLUMN v TYPE text USING v || '?';
ROLLBACK TO one;
UPDATE t SET n = 10 WHERE id = 1;
COMMIT;
BEGIN;
ALTER TABLE t ALTER COLUMN v TYPE text USING v || '?';
ROLLBACK;
ALTER TABLE t ALTER COLUMN v TYPE text USING CASE id WHEN 1 THEN 'one' ELSE v END;
SELECT scd2.sync() AS v3 \gset
SELECT _commit_version - :v2 AS version, _change_type, id, v, n FROM scd2.table_changes(NULL::t_changes, :v2 + 1) ORDER BY 1, id, _change_ordinal;
SELECT * FROM wrong('t');

-- a backlog: the table goes on being altered before capture comes by
SELECT scd2.stop();
ALTER TABLE t ALTER COLUMN v TYPE text USING upper(v);
UPDATE t SET v = 'one more' WHERE id = 1;
ALTER TABLE t RENAME COLUMN v TO value;
ALTER TABLE t DROP COLUMN twice, ALTER COLUMN n TYPE bigint;
UPDATE t SET n = 10000000000 WHERE id = 3;
ALTER TABLE t ADD COLUMN r integer DEFAULT nextval('s');
INSERT INTO t VALUES (6, 'six', 6, 6, 6);
ALTER TABLE t ALTER COLUMN value TYPE varchar;
DELETE FROM t WHERE id = 4;
SELECT scd2.start();
SELECT scd2.sync() AS v4 \gset
SELECT id, value, n, r, __end_at IS NULL AS open FROM t_history WHERE __end_at IS NULL ORDER BY id;
SELECT * FROM scd2.table_at(NULL::t, :v4) EXCEPT ALL TABLE t;
SELECT count(*) > 0 AS readable FROM scd2.table_changes('t');
SELECT * FROM wrong('t');
-- a flow that rests meanwhile stands where it did; it goes through the repair as through any version
SELECT scd2.pause_flow('t_now');
ALTER TABLE t ALTER COLUMN value TYPE varchar USING value || '.';
SELECT scd2.sync(targets => '{t_history}') > 0 AS synced;
SELECT scd2.resume_flow('t_now');
SELECT scd2.sync() > 0 AS synced;
SELECT * FROM wrong('t');

-- partitions
CREATE TABLE p (id integer, part integer, v text, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
CREATE TABLE p_1 PARTITION OF p FOR VALUES IN (1);
CREATE TABLE p_2 (v text, part integer NOT NULL, id integer NOT NULL);
ALTER TABLE p ATTACH PARTITION p_2 FOR VALUES IN (2);
SELECT scd2.track('p');
INSERT INTO p VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 2, 'c');
SELECT scd2.sync() AS v0 \gset
BEGIN;
UPDATE p SET v = 'B' WHERE id = 2;
ALTER TABLE p ADD COLUMN r integer DEFAULT nextval('s'), ALTER COLUMN v TYPE text USING v || '!';
UPDATE p SET part = 1 WHERE id = 3;
COMMIT;
SELECT scd2.sync() AS v1 \gset
SELECT _commit_version - :v0 AS version, _change_type, id, part, v, r IS NULL AS none FROM scd2.table_changes(NULL::p_changes, :v0 + 1) ORDER BY 1, id, _change_ordinal;
SELECT * FROM wrong('p');

-- tracked and rewritten in one transaction, by a table that had rows: the copy is made behind it
CREATE TABLE c (id integer PRIMARY KEY, v text);
INSERT INTO c VALUES (1, 'a');
SET client_min_messages = notice;
BEGIN;
SELECT scd2.track('c');
ALTER TABLE c ADD COLUMN r integer DEFAULT 7 + random() * 0;
COMMIT;
SET client_min_messages = warning;
SELECT scd2.sync() > 0 AS synced;
SELECT id, v, r FROM c_history;
SELECT flow, state FROM scd2.flows WHERE source = 'c'::regclass;

-- nothing to be missed in a table without rows
CREATE TABLE e (id integer PRIMARY KEY, v text);
SELECT scd2.enable_change_feed('e');
SELECT scd2.sync() AS v0 \gset
ALTER TABLE e ADD COLUMN r integer DEFAULT nextval('s');
INSERT INTO e VALUES (1, 'a');
SELECT scd2.sync() - :v0 AS versions;
SELECT state, gap FROM scd2.feeds WHERE source = 'e'::regclass;
-- nothing to compare it with: a gap, for scd2.resync() to end
ALTER TABLE e ADD COLUMN q integer DEFAULT nextval('s');
SELECT scd2.sync('20 s', '{}') AS v \gset
SELECT state, gap IS NOT NULL AS has_gap FROM scd2.feeds WHERE source = 'e'::regclass;
SELECT fix FROM scd2.diagnose() WHERE subject = 'table columns_rewritten.e';

-- what cannot be repaired at the end of the transaction is none that repairs itself
CREATE TABLE u (id integer PRIMARY KEY, v text);
SELECT scd2.track('u');
INSERT INTO u VALUES (1, 'a');
SELECT scd2.sync() AS v0 \gset
BEGIN;
ALTER TABLE u ADD COLUMN r integer DEFAULT nextval('s');
ALTER TABLE u SET UNLOGGED;
COMMIT;
SELECT scd2.sync('20 s', '{}') AS v \gset
SELECT f.state, s.error FROM scd2.feeds f JOIN scd2_internal.feed_state s ON s.source_relid = f.source WHERE source = 'u'::regclass;
-- until it can be
ALTER TABLE u SET LOGGED;
SELECT scd2.resync('u');
SELECT scd2.sync() > 0 AS synced;
SELECT * FROM wrong('u');

-- a feed that goes in the same transaction
CREATE TABLE d (id integer PRIMARY KEY, v text);
INSERT INTO d VALUES (1, 'a');
SELECT scd2.track('d');
SELECT scd2.sync() AS v0 \gset
BEGIN;
ALTER TABLE d ADD COLUMN r integer DEFAULT nextval('s');
SELECT scd2.untrack('d', drop_targets => true, drop_feed => true);
COMMIT;
INSERT INTO d VALUES (2, 'b', 2);
SELECT scd2.track('d');
SELECT scd2.sync() > 0 AS synced;
SELECT id, v FROM d_history ORDER BY id;
SELECT flow, state FROM scd2.flows WHERE source = 'd'::regclass;
SELECT * FROM scd2.diagnose() WHERE subject <> 'table columns_rewritten.e' AND problem <> 'its source lacks columns that it keeps';
SELECT count(scd2.drop_flow(flow)) FROM scd2.flows;
DROP SCHEMA columns_rewritten CASCADE;
