-- Commit times that jump (a clock set back or forward, a publisher's clock), made with a
-- replication origin: versions keep the order of commits, their times ascend and are not in the
-- future, ranges by time are cut between versions without gap or overlap (CI-19), histories have no
-- empty intervals, and somebody is told.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(11);
CREATE TABLE t (id integer PRIMARY KEY, v integer);
SELECT scd2.track('t'), scd2.track('t', 't_current', stored_as_scd_type => 1) \g /dev/null
INSERT INTO t VALUES (1, 0);
SELECT scd2.sync() AS v0 \gset
SELECT is_empty('SELECT * FROM scd2.diagnose()', 'nothing to tell before');

SELECT pg_replication_origin_create('elsewhere'), pg_replication_origin_session_setup('elsewhere') \g /dev/null
CREATE PROCEDURE write_at(n integer, at timestamptz) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_replication_origin_xact_setup(pg_lsn '0/0' + n, at);
    INSERT INTO t VALUES (n, n);
    UPDATE t SET v = n WHERE id = 1;
    COMMIT;
END $$;
-- the clock is set back by an hour, runs, is set back by a day, goes wild, and is right again
CREATE TABLE clock (n integer PRIMARY KEY, at timestamptz);
INSERT INTO clock SELECT n, now() - CASE WHEN n < 20 THEN interval '1 hour' ELSE interval '1 day' END + n * interval '10 ms' FROM generate_series(2, 40) n;
INSERT INTO clock VALUES (41, now() + interval '1 day'), (42, 'infinity'), (43, now() + interval '1 year'), (44, '-infinity'), (45, now());
SELECT format('CALL write_at(%s, %L)', n, at) FROM clock ORDER BY n \gexec
SELECT pg_replication_origin_session_reset() \g /dev/null
UPDATE t SET v = 46 WHERE id = 1;
SELECT scd2.sync() AS v1 \gset

CREATE TEMP VIEW version AS SELECT DISTINCT _commit_version AS version, _commit_timestamp AS at FROM t_changes;
SELECT is(array_agg(id ORDER BY _commit_version, _change_ordinal), ARRAY(SELECT generate_series(1, 45)), 'versions are in the order of commits') FROM t_changes WHERE _change_type = 'insert';
SELECT is((SELECT count(*) FROM version)::bigint, 46::bigint, 'each version has one time');
SELECT is_empty('SELECT * FROM (SELECT at, lag(at) OVER (ORDER BY version) AS before FROM version) x WHERE at <= before OR at > clock_timestamp()', 'times ascend and are not in the future');

-- every range whose ends are times of versions, and its halves
CREATE TEMP TABLE cut AS
    SELECT a.version AS first, m.version AS middle, b.version AS last, a.at AS from_time, m.at AS middle_time, b.at AS to_time
    FROM version a, version m, version b WHERE a.version <= m.version AND m.version < b.version AND b.version % 5 = 0 AND m.version % 3 = 0 AND a.version % 4 = 0;
CREATE FUNCTION by_time(a timestamptz, b timestamptz) RETURNS text LANGUAGE sql AS
    $$ SELECT string_agg(_commit_version || '.' || _change_ordinal, ' ') FROM scd2.table_changes(NULL::t_changes, a, b) $$;
CREATE FUNCTION by_version(a bigint, b bigint) RETURNS text LANGUAGE sql AS
    $$ SELECT string_agg(_commit_version || '.' || _change_ordinal, ' ') FROM scd2.table_changes(NULL::t_changes, a, b) $$;
SELECT cmp_ok((SELECT count(*) FROM cut), '>', 100::bigint, 'there are ranges to compare');
SELECT is_empty('SELECT * FROM cut WHERE by_time(from_time, to_time) IS DISTINCT FROM by_version(first, last)', 'a range by time is the range by version');
SELECT is_empty($$SELECT * FROM cut WHERE concat_ws(' ', by_time(from_time, middle_time), by_time(middle_time + interval '1 us', to_time)) <> by_time(from_time, to_time)$$,
                'ranges that follow each other have no gap and no overlap');

SELECT is((SELECT array_agg(v ORDER BY __start_at) FROM t_history WHERE id = 1), ARRAY[0] || ARRAY(SELECT generate_series(2, 46)), 'the history has every value, in the order of commits');
SELECT is_empty($$SELECT * FROM (SELECT *, lead(__start_at) OVER (PARTITION BY id ORDER BY __start_at) AS next FROM t_history) x WHERE __end_at IS DISTINCT FROM next$$,
                'each row ends where the next begins');
SELECT bag_eq('SELECT id, v FROM t_history WHERE __end_at IS NULL', 'SELECT id, v FROM t_current', 'current rows are the open rows');
SELECT results_eq($$SELECT problem, fix FROM scd2.diagnose() WHERE subject = 'capture'$$, $$VALUES ('times of 43 commits were not ascending, or in the future', NULL::text)$$,
                  'diagnose() counts the commits that got another time');
SELECT pg_replication_origin_drop('elsewhere') \g /dev/null
SELECT * FROM finish();
