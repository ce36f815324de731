-- table_at while others write at full speed: a version's rows do not change, whatever is committed,
-- decoded or waiting at that moment.
\set QUIET on
SET client_min_messages = warning;
SET search_path = public;
SELECT plan(4);
CREATE EXTENSION dblink;
CREATE TABLE t (id integer, v integer);
INSERT INTO t SELECT i, 0 FROM generate_series(1, 300) i;
SELECT scd2.enable_change_feed('t') \g /dev/null
INSERT INTO t VALUES (0, 0);
SELECT scd2.sync() AS v \gset
CREATE TABLE expected AS SELECT * FROM t;
CREATE TABLE enough ();
CREATE PROCEDURE writes(async boolean) LANGUAGE plpgsql AS $$
BEGIN
    IF async THEN
        SET synchronous_commit = off;
    END IF;
    WHILE NOT EXISTS (SELECT FROM public.enough) LOOP
        -- (they wait for nobody: else two of them may deadlock)
        UPDATE public.t SET v = v + 1 WHERE ctid IN (SELECT ctid FROM public.t WHERE id = floor(random() * 300) FOR UPDATE SKIP LOCKED);
        IF random() < 0.3 THEN
            DELETE FROM public.t WHERE ctid IN (SELECT ctid FROM public.t WHERE id = floor(random() * 300) FOR UPDATE SKIP LOCKED);
        ELSIF random() < 0.5 THEN
            INSERT INTO public.t VALUES (floor(random() * 300), floor(random() * 3));
        END IF;
        IF random() < 0.1 THEN
            ROLLBACK;
        ELSE
            COMMIT;
        END IF;
    END LOOP;
END $$;
SELECT format('dbname=%L host=%L port=%s user=%I', current_database(), split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_user) AS here \gset
SELECT dblink_connect('w' || i, :'here'), dblink_send_query('w' || i, format('CALL public.writes(%L)', i = 2)) FROM generate_series(1, 3) i \g /dev/null

CREATE TABLE seen (n integer, problem text);
CREATE PROCEDURE looks(v bigint, seconds integer, times integer) LANGUAGE plpgsql AS $$
DECLARE
    until timestamptz := clock_timestamp() + make_interval(secs => seconds);
    n integer := 0;
BEGIN
    WHILE clock_timestamp() < until OR n < times LOOP
        n := n + 1;
        INSERT INTO seen SELECT n, d.problem FROM (
            SELECT format('missing %s', e) AS problem FROM (SELECT * FROM expected EXCEPT ALL SELECT * FROM scd2.table_at(NULL::t, v)) e
            UNION ALL
            SELECT format('too many %s', e) FROM (SELECT * FROM scd2.table_at(NULL::t, v) EXCEPT ALL SELECT * FROM expected) e) d;
        INSERT INTO seen VALUES (n, NULL);
        COMMIT;
    END LOOP;
END $$;
CALL looks(:v, 3, 20);
INSERT INTO enough DEFAULT VALUES;
SELECT * FROM generate_series(1, 3) i, dblink_get_result('w' || i) AS r (done text) \g /dev/null
SELECT dblink_disconnect('w' || i) FROM generate_series(1, 3) i \g /dev/null
SELECT ok((SELECT count(*) >= 20 FROM seen WHERE problem IS NULL), 'looked often');
SELECT is((SELECT string_agg(problem, ', ') FROM (SELECT problem FROM seen WHERE problem IS NOT NULL LIMIT 5) x), NULL, 'the table at the version stays as it was');
SELECT ok(scd2.sync() > :v + 100, 'while it was written');
SELECT is((SELECT count(*) FROM (SELECT * FROM scd2.table_at(NULL::t, scd2.latest_version()) EXCEPT ALL SELECT * FROM t) x), 0::bigint, 'and at the latest version it is as it is');
SELECT * FROM finish();
