-- OP-08: locks on users' tables are tried for pg_scd2.lock_timeout in total, without making others queue; the error names who is in the way.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE SCHEMA feed_lock;
SET search_path = feed_lock;
CREATE EXTENSION dblink SCHEMA feed_lock;
CREATE TABLE t (id integer PRIMARY KEY);
CREATE TABLE f (id integer PRIMARY KEY);
ALTER TABLE f REPLICA IDENTITY FULL;
SELECT format('dbname=%L host=%L port=%s user=%I', current_database(), split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_user) AS here \gset
SELECT dblink_connect('writer', :'here'), dblink_connect('reader', :'here');
SELECT pid AS writer FROM dblink('writer', 'SELECT pg_backend_pid()') x (pid integer) \gset
SELECT scd2.sync() >= 0 AS captures;
SET pg_scd2.lock_timeout = '300ms';
-- what differs from run to run is left out of the messages
CREATE FUNCTION try(statement text) RETURNS TABLE (state text, message text, hint text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    state := 'done';
    RETURN NEXT;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
    message := regexp_replace(message, '\d\d:\d\d:\d\d', 'TIME');
    RETURN NEXT;
END $$;

-- an open transaction that has written
SELECT dblink_exec('writer', 'BEGIN'), dblink_exec('writer', 'INSERT INTO feed_lock.t VALUES (1)'), dblink_exec('writer', 'INSERT INTO feed_lock.f VALUES (1)');
SELECT state, replace(message, :'writer', 'PID') AS message, replace(hint, :'writer', 'PID') AS hint FROM try($$SELECT scd2.enable_change_feed('feed_lock.t')$$);
SELECT state, replace(message, :'writer', 'PID') AS message FROM try($$SELECT scd2.enable_change_feed('feed_lock.f')$$);
-- nothing is half done
SELECT relname, relreplident, to_regclass(relname || '_changes') FROM pg_class WHERE oid IN ('t'::regclass, 'f'::regclass) ORDER BY 1;
SELECT count(*) FROM scd2.feeds WHERE source IN ('t'::regclass, 'f'::regclass);
SELECT dblink_exec('writer', 'COMMIT');

-- one that has only read is in the way of setting the identity, not of a table that has it
SELECT dblink_exec('writer', 'BEGIN');
SELECT * FROM dblink('writer', 'SELECT count(*) FROM feed_lock.t, feed_lock.f') x (n bigint);
SELECT state, replace(message, :'writer', 'PID') AS message FROM try($$SELECT scd2.enable_change_feed('feed_lock.t')$$);
SELECT * FROM try($$SELECT scd2.enable_change_feed('feed_lock.f')$$);
SELECT dblink_exec('writer', 'COMMIT');

-- two at once: the second waits for the first, and finds it done
CREATE TABLE twice (id integer PRIMARY KEY);
SELECT dblink_exec('writer', 'BEGIN');
SELECT * FROM dblink('writer', $$SELECT scd2.enable_change_feed('feed_lock.twice')$$) x (feed text);
SELECT state, replace(message, :'writer', 'PID') AS message FROM try($$SELECT scd2.enable_change_feed('feed_lock.twice')$$);
SELECT dblink_exec('writer', 'COMMIT');
SELECT state, message FROM try($$SELECT scd2.enable_change_feed('feed_lock.twice')$$);
-- disabling waits as briefly
SELECT dblink_exec('writer', 'BEGIN'), dblink_exec('writer', 'INSERT INTO feed_lock.twice VALUES (1)');
SELECT state, replace(message, :'writer', 'PID') AS message FROM try($$SELECT scd2.disable_change_feed('feed_lock.twice')$$);
SELECT dblink_exec('writer', 'COMMIT');
SELECT state FROM try($$SELECT scd2.disable_change_feed('feed_lock.twice')$$);

-- a transaction that ends in time; readers meanwhile do not wait for it: it ends when they are done
CREATE TABLE readers_done ();
SET pg_scd2.lock_timeout = '60s';
SELECT dblink_exec('writer', 'BEGIN'), dblink_exec('writer', 'INSERT INTO feed_lock.t VALUES (2)');
SELECT dblink_send_query('writer', $$DO 'BEGIN FOR i IN 1 .. 5000 LOOP EXIT WHEN EXISTS (SELECT FROM feed_lock.readers_done); PERFORM pg_sleep(0.01); END LOOP; END'; COMMIT$$);
SELECT dblink_exec('reader', $$SET lock_timeout = '10s'$$);
SELECT dblink_send_query('reader', $$DO 'BEGIN FOR i IN 1 .. 40 LOOP
    PERFORM count(*) FROM feed_lock.t; COMMIT; PERFORM pg_sleep(0.02);
    END LOOP; INSERT INTO feed_lock.readers_done DEFAULT VALUES; END'$$);
SELECT scd2.enable_change_feed('t');
SELECT count(*) >= 0 AS got FROM dblink_get_result('reader', false) x (r text);
SELECT dblink_error_message('reader');
SELECT dblink_disconnect('writer'), dblink_disconnect('reader');
DROP SCHEMA feed_lock CASCADE;
