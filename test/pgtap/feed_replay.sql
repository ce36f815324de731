-- Random transactions on a table without a key, with equal rows, in partitions, with savepoints and
-- rollbacks. Then, for every version, table_at is the table as it was, the changes replayed up to
-- it give the same, and ranges put together again are the whole, however they are cut.
\set QUIET on
SET client_min_messages = warning;
SET search_path = public;
SELECT setseed(0.42);
SELECT plan(7);

CREATE TABLE t (id integer, v text, n numeric, j json) PARTITION BY LIST (id);
CREATE TABLE t_0 PARTITION OF t FOR VALUES IN (0, 1, 2);
CREATE TABLE t_1 (j json, gone integer, n numeric, v text, id integer);
ALTER TABLE t_1 DROP gone;
ALTER TABLE t ATTACH PARTITION t_1 DEFAULT;
INSERT INTO t SELECT i % 6, 'v' || i % 3, i % 2 + 0.0, '{}' FROM generate_series(1, 20) i;
CREATE TABLE snapshot (version bigint, id integer, v text, n numeric, j text);
SELECT scd2.enable_change_feed('t') \g /dev/null

CREATE PROCEDURE one_change() LANGUAGE plpgsql AS $$
DECLARE
    k integer := floor(random() * 6);
BEGIN
    CASE floor(random() * 5)
        WHEN 0 THEN INSERT INTO t SELECT k, 'v' || floor(random() * 3), floor(random() * 2)::numeric + 0.0, '{"a": 1}' FROM generate_series(0, floor(random() * 3)::integer);
        WHEN 1 THEN UPDATE t SET v = 'v' || floor(random() * 3) WHERE id = k;
        WHEN 2 THEN UPDATE t SET id = floor(random() * 6) WHERE id = k AND v = 'v1';
        WHEN 3 THEN DELETE FROM t WHERE ctid IN (SELECT ctid FROM t_0 WHERE v = 'v2' LIMIT 1) AND tableoid = 't_0'::regclass;
        ELSE UPDATE t SET n = n, v = v WHERE id = k;
    END CASE;
END $$;
CREATE PROCEDURE one_transaction() LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 0 .. floor(random() * 4) LOOP
        BEGIN
            CALL one_change();
            IF random() < 0.2 THEN
                RAISE EXCEPTION 'undone' USING ERRCODE = 'ZZ001';
            END IF;
        EXCEPTION WHEN SQLSTATE 'ZZ001' THEN
        END;
    END LOOP;
END $$;
CREATE PROCEDURE run(transactions integer) LANGUAGE plpgsql AS $$
DECLARE
    reached bigint;
BEGIN
    FOR i IN 1 .. transactions LOOP
        CALL one_transaction();
        COMMIT;
        reached := scd2.sync();
        DELETE FROM snapshot s WHERE s.version = reached;
        INSERT INTO snapshot SELECT reached, t.id, t.v, t.n, t.j::text FROM t;
        COMMIT;
    END LOOP;
END $$;
CALL run(60);

CREATE TABLE versions AS SELECT DISTINCT version FROM snapshot;
SELECT ok((SELECT count(*) > 30 FROM versions), 'there were transactions enough: ' || count(*)) FROM versions;

CREATE TABLE wrong AS
    SELECT w.version, d.* FROM versions w, LATERAL (
        (SELECT id, v, n, j::text FROM scd2.table_at(NULL::t, w.version) EXCEPT ALL SELECT id, v, n, j FROM snapshot s WHERE s.version = w.version)
        UNION ALL
        (SELECT id, v, n, j FROM snapshot s WHERE s.version = w.version EXCEPT ALL SELECT id, v, n, j::text FROM scd2.table_at(NULL::t, w.version))) d;
SELECT is((SELECT count(*) FROM wrong), 0::bigint, 'table_at every version is the table as it was');

CREATE TABLE wrong_time AS
    SELECT w.version, d.* FROM versions w JOIN (SELECT DISTINCT _commit_version, _commit_timestamp FROM t_changes) c ON c._commit_version = w.version, LATERAL (
        SELECT id, v, n, j::text FROM scd2.table_at(NULL::t, c._commit_timestamp) EXCEPT ALL SELECT id, v, n, j FROM snapshot s WHERE s.version = w.version) d;
SELECT is((SELECT count(*) FROM wrong_time), 0::bigint, 'and so is table_at every commit time');

-- replay: images of the first snapshot, plus what came, minus what went
CREATE TABLE replayed AS
    WITH first AS (SELECT min(version) AS version FROM versions),
    signed AS (
        SELECT s.id, s.v, s.n, s.j, first.version, 1 AS sign FROM snapshot s JOIN first USING (version)
        UNION ALL
        SELECT c.id, c.v, c.n, c.j::text, c._commit_version, CASE WHEN c._change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END
        FROM first, scd2.table_changes(NULL::t_changes, first.version + 1) c)
    SELECT w.version, g.id, g.v, g.n::text AS n, g.j, sum(g.sign) AS copies FROM versions w JOIN signed g ON g.version <= w.version GROUP BY 1, 2, 3, 4, 5 HAVING sum(g.sign) <> 0;
SELECT is((SELECT count(*) FROM (SELECT version, id, v, n::text, j, count(*)::bigint FROM snapshot GROUP BY 1, 2, 3, 4, 5 EXCEPT SELECT version, id, v, n, j, copies FROM replayed) x), 0::bigint,
          'the feed replayed gives every version of the table');
SELECT is((SELECT count(*) FROM (SELECT version, id, v, n, j, copies FROM replayed EXCEPT SELECT version, id, v, n::text, j, count(*)::bigint FROM snapshot GROUP BY 1, 2, 3, 4, 5) x), 0::bigint,
          'and nothing else');

-- ranges
CREATE FUNCTION whole() RETURNS text LANGUAGE sql AS $$ SELECT md5(string_agg(c::text, E'\n')) FROM scd2.table_changes(NULL::t_changes) c $$;
CREATE FUNCTION cut_by_version() RETURNS text LANGUAGE sql AS $$
    SELECT md5(string_agg(c::text, E'\n' ORDER BY b.lower, b.n)) FROM (
        SELECT lower, r.c, r.n FROM (SELECT cut + 1 AS lower, lead(cut) OVER (ORDER BY cut) AS upper
              FROM (SELECT scd2.earliest_version('t') AS cut UNION SELECT version FROM versions WHERE random() < 0.4 UNION SELECT scd2.latest_version()) x) y,
             LATERAL (SELECT c, row_number() OVER () AS n FROM scd2.table_changes(NULL::t_changes, y.lower, y.upper) c WHERE y.upper IS NOT NULL) r) b $$;
CREATE FUNCTION cut_by_time() RETURNS text LANGUAGE sql AS $$
    SELECT md5(string_agg(c::text, E'\n' ORDER BY b.lower, b.n)) FROM (
        SELECT lower, r.c, r.n FROM (SELECT cut AS lower, lead(cut) OVER (ORDER BY cut) - interval '1 us' AS upper
              FROM (SELECT enabled_at AS cut FROM scd2.feeds UNION SELECT DISTINCT _commit_timestamp FROM t_changes WHERE _commit_version % 3 = 0) x) y,
             LATERAL (SELECT c, row_number() OVER () AS n FROM scd2.table_changes(NULL::t_changes, y.lower, y.upper) c) r) b $$;
SELECT is(cut_by_version(), whole(), 'ranges of versions put together are the whole');
SELECT is(cut_by_time(), whole(), 'ranges of timestamps put together are the whole');
SELECT * FROM finish();
