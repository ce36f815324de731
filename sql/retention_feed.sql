-- Old partitions of a feed are removed when all flows have passed them; what reads and refreshes say then.
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA retention_feed;
SET search_path = retention_feed;
SET DateStyle = ISO;
SET TimeZone = 'UTC';
SET IntervalStyle = postgres;
CREATE TABLE t (id integer PRIMARY KEY, v text);
CREATE TABLE quiet (id integer PRIMARY KEY);
SELECT scd2.track('t');
SELECT scd2.enable_change_feed('quiet', retention => '1 hour');
SELECT scd2.sync() AS base \gset
CREATE FUNCTION cut() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. 100 LOOP                  -- a worker may have it open
        IF scd2_internal.cut_feed('retention_feed.t_changes'::regclass) IS NOT NULL THEN
            RETURN true;
        END IF;
        PERFORM pg_sleep(0.1);
    END LOOP;
    RETURN false;
END $$;
-- as the worker does, which may have come first; left: how many partitions
CREATE FUNCTION retain() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    WHILE scd2_internal.retain_feed((SELECT feed_id FROM scd2_internal.feed WHERE source_relid = 'retention_feed.t'::regclass AND NOT disabled)) IS NULL LOOP
        PERFORM pg_sleep(0.1);
    END LOOP;
    RETURN (SELECT count(*) FROM pg_inherits WHERE inhparent = 'retention_feed.t_changes'::regclass);
END $$;
-- What a statement says, versions counted from the beginning and times left out.
CREATE FUNCTION said(query text, base bigint) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    message text;
    detail text;
    state text;
    n bigint;
BEGIN
    EXECUTE query;
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN format('%s rows', n);
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
    message := regexp_replace(concat_ws(' / ', state, message, nullif(detail, '')), '\d{4}-\d\d-\d\d [-+.:\d]*\d', 'TIME', 'g');
    FOR i IN 0 .. 9 LOOP
        message := regexp_replace(message, format('(version|from|to) %s\M', base + i), format('\1 base+%s', i), 'g');
    END LOOP;
    RETURN message;
END $$;

-- three partitions of one version each, and the one that takes new ones
INSERT INTO t VALUES (1, 'a');
SELECT scd2.sync() - :base AS synced, cut();
UPDATE t SET v = 'b';
SELECT scd2.sync() - :base AS synced, cut();
UPDATE t SET v = 'c';
SELECT scd2.sync() - :base AS synced, cut();
-- nothing is old enough
SELECT retain();
-- a paused flow has not passed the third
SELECT scd2.pause_flow('t_history');
UPDATE t SET v = 'd';
SELECT pg_sleep(0.1);
SELECT scd2.sync('10 s', '{}') - :base AS synced, cut();
SELECT scd2.alter_change_feed('t', retention => '1 microsecond');
SELECT retain();
SELECT scd2.earliest_version('t') - :base AS earliest, last_vacuum IS NOT NULL AS vacuumed, held_by = format('flow "t_history" at version %s', :base + 3) AS held FROM scd2.feeds WHERE source = 't'::regclass;
SELECT scd2.resume_flow('t_history');
SELECT scd2.sync() - :base AS synced, retain();
SELECT scd2.earliest_version('t') - :base AS earliest, latest_version - earliest_version AS latest, last_vacuum <= now() AS vacuumed FROM scd2.feeds WHERE source = 't'::regclass;
-- the last one is never removed as it is
SELECT count(*) FROM t_changes;
UPDATE t SET v = 'e';
SELECT scd2.sync() - :base AS synced, retain();
-- without a change since, it can be begun anew from now
SELECT scd2.track('t', target => 'now', starting_version => :base + 5);
SELECT scd2.sync() - :base AS synced;
SELECT id, v, __end_at FROM now;
SELECT scd2.drop_flow('now', drop_target => true);

-- reading
SELECT said(format('SELECT * FROM scd2.table_changes(''t'', %s)', :base + 4), :base);
SELECT said(format('SELECT * FROM scd2.table_changes(NULL::t_changes, %s)', :base), :base);
SELECT said(format('SELECT * FROM scd2.table_changes(''t'', %L::timestamptz)', (SELECT r.removed_until FROM scd2_internal.removal r JOIN scd2_internal.feed USING (feed_id) WHERE feed_relid = 't_changes'::regclass)), :base);
SELECT said(format('SELECT * FROM scd2.table_changes(''t'', %L::timestamptz)', (SELECT r.removed_until + interval '1 us' FROM scd2_internal.removal r JOIN scd2_internal.feed USING (feed_id) WHERE feed_relid = 't_changes'::regclass)), :base);
SELECT said(format('SELECT * FROM scd2.table_changes(''t'', %s)', :base + 5), :base);
SELECT said('SELECT * FROM scd2.table_changes(''t'')', :base);
SELECT said('SELECT * FROM scd2.describe_history(''t'')', :base);
SELECT said(format('SELECT * FROM scd2.table_at(NULL::t, %s)', :base + 2), :base);
SELECT said(format('SELECT * FROM scd2.table_at(NULL::t, %s)', :base + 3), :base);
-- that after the last change that was removed is known
SELECT * FROM scd2.table_at(NULL::t, :base + 4);
SELECT * FROM scd2.table_at(NULL::t, (SELECT r.removed_until FROM scd2_internal.removal r JOIN scd2_internal.feed USING (feed_id) WHERE feed_relid = 't_changes'::regclass));
SELECT * FROM scd2.table_at(NULL::t, :base + 5);
-- a flow cannot begin there, and a refresh would lose
SELECT said(format('SELECT scd2.track(''t'', target => ''other'', starting_version => %s)', :base + 2), :base);
SELECT said('SELECT scd2.full_refresh(''t_history'')', :base);
SELECT id, v, __end_at IS NULL AS open FROM t_history ORDER BY __start_at;
SELECT scd2.full_refresh('t_history', allow_loss => true);
SELECT scd2.sync() - :base AS synced;
-- as it was after the last change that was removed, valid since then
SELECT v, __end_at IS NULL AS open, __start_at = (SELECT r.removed_until FROM scd2_internal.removal r JOIN scd2_internal.feed USING (feed_id) WHERE feed_relid = 't_changes'::regclass) AS since_then FROM t_history ORDER BY __start_at;
SELECT * FROM scd2.check_target('t_history');

-- the feed of a quiet table goes on as it was
SELECT state, earliest_version <= :base AS whole, last_vacuum FROM scd2.feeds WHERE source = 'quiet'::regclass;

-- what depends on a partition keeps it, and is told
SELECT cut();
\set ECHO none
SELECT format('CREATE VIEW on_partition AS SELECT * FROM %s', (SELECT leaf::regclass FROM scd2_internal.feed_leaves('t_changes'::regclass) LIMIT 1)) \gexec
\set ECHO all
SELECT left(said('SELECT retain()', :base), 5);
DROP VIEW on_partition;
SELECT retain();
SELECT * FROM scd2.table_changes('t');

-- a feed that is disabled keeps what it has
INSERT INTO t VALUES (2, 'x');
SELECT scd2.sync() - :base AS synced, cut();
SELECT scd2.drop_flow('t_history');
SELECT scd2.disable_change_feed('t');
SELECT retain();
SELECT scd2.disable_change_feed('quiet', drop_feed => true);
DROP SCHEMA retention_feed CASCADE;
