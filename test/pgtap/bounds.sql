-- Figures at the ends of their types. Each argument and setting is refused where it is given, by its name; and what a catalog
-- has nevertheless (from an older version, or a dump) ends nobody's look at the others: workers, upkeep, views, diagnose().
\set QUIET on
SET client_min_messages = warning;
\ir parts/wait.sql
CREATE TABLE t (id int PRIMARY KEY, v int);
CREATE TABLE healthy (id int PRIMARY KEY, v int);
CREATE TABLE ev (k int, v text, s timestamptz, n int);
SELECT scd2.track('t') \g /dev/null
SELECT scd2.track('healthy') \g /dev/null
SELECT scd2.create_auto_cdc_flow('dim', 'ev', '{k}', 's', stored_as_scd_type => 2) \g /dev/null
SELECT scd2.create_auto_cdc_from_snapshot_flow('snap', 't', '{id}', stored_as_scd_type => 2) \g /dev/null
SELECT scd2.create_append_flow('log', 'ev') \g /dev/null
SELECT scd2.create_reader('r', 't') \g /dev/null
SELECT scd2.sync() \g /dev/null

-- lengths of time
CREATE TABLE calls (argument text, call text);
INSERT INTO calls VALUES
    ('retention', 'scd2.enable_change_feed(''u'', %s)'), ('retention', 'scd2.alter_change_feed(''t'', %s)'), ('retain', 'scd2.vacuum_feed(''t'', %s)'),
    ('refresh_interval', 'scd2.track(''t'', ''x'', refresh_interval => %s)'), ('refresh_interval', 'scd2.create_auto_cdc_flow(''x'', ''ev'', ''{k}'', ''s'', refresh_interval => %s)'),
    ('refresh_interval', 'scd2.create_auto_cdc_from_snapshot_flow(''x'', ''t'', ''{id}'', refresh_interval => %s)'), ('refresh_interval', 'scd2.create_append_flow(''x'', ''ev'', refresh_interval => %s)'),
    ('refresh_interval', 'scd2.alter_flow(''t_history'', refresh_interval => %s)'), ('refresh_interval', 'scd2.alter_flow(''dim'', refresh_interval => %s)'),
    ('refresh_interval', 'scd2.alter_flow(''snap'', refresh_interval => %s)'), ('refresh_interval', 'scd2.alter_flow(''log'', refresh_interval => %s)'),
    ('timeout', 'scd2.sync(%s)'),
    ('max_lateness', 'scd2.alter_flow(''dim'', max_lateness => %s)'), ('max_lateness', 'scd2.create_auto_cdc_flow(''x'', ''ev'', ''{k}'', ''s'', max_lateness => %s)');
CREATE TABLE u (id int PRIMARY KEY);
CREATE TABLE spans (span text);
INSERT INTO spans VALUES ('-1 microsecond'), ('-178000000 years'), ('178000000 years'), ('1000 years 1 microsecond'), ('7000 years'), ('5000000 years -1799900000 days'), ('-2147483648 days 70000000 months'),
    ('2562047788 hours'), ('2147483647 days');
INSERT INTO spans SELECT s FROM unnest('{infinity,-infinity}'::text[]) AS s WHERE current_setting('server_version_num')::int >= 170000;
CREATE FUNCTION refused(argument text, call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'SELECT ' || call;
    RETURN call || ' is accepted';
EXCEPTION WHEN OTHERS THEN
    RETURN CASE WHEN SQLSTATE <> '22023' OR SQLERRM NOT LIKE argument || ' %' THEN format('%s: %s %s', call, SQLSTATE, SQLERRM) END;
END $$;
SELECT plan(42);
SELECT is((SELECT array_agg(r ORDER BY r) FROM calls, spans, refused(argument, format(call, quote_literal(span))) AS r WHERE argument = 'timeout' AND r IS NOT NULL), NULL, 'a time to wait likewise');
SELECT is((SELECT array_agg(r ORDER BY r) FROM calls, spans, refused(argument, format(call, quote_literal(span))) AS r WHERE argument <> 'timeout' AND r IS NOT NULL), NULL, 'lengths of time that no clock takes are refused, by the argument''s name');
SELECT lives_ok($$SELECT scd2.alter_change_feed('t', '1000 years'), scd2.alter_flow('t_history', refresh_interval => '1000 years')$$, 'the longest that there are');
SELECT lives_ok($$SELECT scd2.alter_change_feed('t', '0'), scd2.alter_flow('t_history', refresh_interval => '0'), scd2.alter_flow('dim', max_lateness => '1000 years')$$, 'and the shortest');

-- numbers
INSERT INTO calls VALUES
    ('max_delete_fraction', 'scd2.create_auto_cdc_from_snapshot_flow(''x'', ''t'', ''{id}'', max_delete_fraction => ''NaN'')'), ('max_delete_fraction', 'scd2.create_auto_cdc_from_snapshot_flow(''x'', ''t'', ''{id}'', max_delete_fraction => -0.0001)'),
    ('max_delete_fraction', 'scd2.create_auto_cdc_from_snapshot_flow(''x'', ''t'', ''{id}'', max_delete_fraction => ''infinity'')'), ('max_delete_fraction', 'scd2.create_auto_cdc_from_snapshot_flow(''x'', ''t'', ''{id}'', max_delete_fraction => 1.1)'),
    ('starting_version', 'scd2.track(''t'', ''x'', starting_version => -1)'), ('starting_version', 'scd2.track(''t'', ''x'', starting_version => 9223372036854775807)'), ('starting_version', 'scd2.track(''t'', ''x'', starting_version => -9223372036854775808)'),
    ('starting_version', 'scd2.track(''t'', ''x'', starting_version => scd2.latest_version() + 1)'),
    ('version', 'scd2.create_reader(''x'', ''t'', 9223372036854775807)'), ('the change data feed of table "public.t" does not reach back to version', 'scd2.create_reader(''x'', ''t'', -9223372036854775808)'),
    ('version', 'scd2.advance_reader(''r'', 9223372036854775807)'), ('reader', 'scd2.advance_reader(''r'', -9223372036854775808)'),
    ('max_versions', 'scd2.read_changes(''r'', NULL::t_changes, 0)'), ('max_versions', 'scd2.read_changes(''r'', NULL::t_changes, -9223372036854775808)'),
    ('expected_rows', 'scd2.apply_snapshot(''snap'', ''2026-01-01'', expected_rows => -1)'), ('expected_rows', 'scd2.apply_snapshot(''snap'', ''2026-01-01'', expected_rows => -9223372036854775808)'),
    ('version', 'scd2.skip_version(''t_history'', 9223372036854775807)'), ('flow', 'scd2.skip_version(''t_history'', -9223372036854775808)'),
    ('version', 'scd2.table_at(NULL::t, 9223372036854775807)'), ('the change data feed of table "public.t" does not reach back to version', 'scd2.table_at(NULL::t, -9223372036854775808)'),
    ('the change data feed of table "public.t" does not reach back to version', 'scd2.table_changes(NULL::t_changes, -9223372036854775808)'),
    ('the range starts', 'scd2.table_changes(NULL::t_changes, 9223372036854775807, 5)'),
    ('max_lateness', 'scd2.create_auto_cdc_flow(''x'', ''ev'', ''{k}'', ''n'', max_lateness => ''-1'')'), ('max_lateness', 'scd2.create_auto_cdc_flow(''x'', ''ev'', ''{k}'', ''n'', max_lateness => ''9223372036854775808'')'),
    ('max_lateness', 'scd2.create_auto_cdc_flow(''x'', ''ev'', ''{k}'', ''n::numeric'', max_lateness => ''NaN'')'), ('max_lateness', 'scd2.create_auto_cdc_flow(''x'', ''ev'', ''{k}'', ''n::float8'', max_lateness => ''infinity'')'),
    ('stored_as_scd_type', 'scd2.track(''t'', ''x'', stored_as_scd_type => -2147483648)');
SELECT ok(r IS NULL, coalesce(r, call)) FROM calls, refused(argument, call) AS r WHERE call NOT LIKE '%\%s%';
SELECT lives_ok($$SELECT * FROM scd2.read_changes('r', NULL::t_changes, 9223372036854775807)$$, 'all versions that there are');
SELECT lives_ok($$SELECT * FROM scd2.table_changes(NULL::t_changes, 9223372036854775807) a, scd2.table_changes('t', scd2.latest_version(), 9223372036854775807) b$$, 'a range that nothing is in');

-- the setting: nothing changes
SELECT setting AS before FROM pg_settings WHERE name = 'pg_scd2.feed_retention' \gset
\set ON_ERROR_STOP off
\o /dev/null
ALTER SYSTEM SET pg_scd2.feed_retention = '200000000 years';
SELECT :'SQLSTATE' AS years \gset
ALTER SYSTEM SET pg_scd2.feed_retention = '-1 day';
SELECT :'SQLSTATE' AS negative \gset
ALTER SYSTEM SET pg_scd2.feed_retention = 'infinity';
SELECT :'SQLSTATE' AS infinite \gset
ALTER SYSTEM SET pg_scd2.feed_retention = '2147483647 days';
SELECT :'SQLSTATE' AS days \gset
\o
\set ON_ERROR_STOP on
SELECT is(ARRAY[:'years', :'negative', :'infinite', :'days'], '{22023,22023,22023,22023}', 'pg_scd2.feed_retention has the same bounds');

-- purge_history('infinity') of a target that has seen nothing is no horizon
SELECT is((SELECT scd2.purge_history('dim', 'infinity')), 0::bigint, 'a target without rows has nothing that ended');
INSERT INTO ev VALUES (1, 'a', '2026-01-01', 1);
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT count(*) FROM dim), 1::bigint, 'and its next event is not too late');

-- in the catalogs, as an older version left it
UPDATE scd2_internal.feed SET retention = '178000000 years' WHERE source_relid = 't'::regclass;
UPDATE scd2_internal.feed SET retention = '-178000000 years' WHERE source_relid = 'ev'::regclass;
UPDATE scd2_internal.flow SET refresh_interval = '178000000 years', definition = definition + 1 WHERE name IN ('t_history', 'snap');
UPDATE scd2_internal.flow SET max_lateness = '178000000 years', definition = definition + 1 WHERE name = 'dim';
UPDATE scd2_internal.flow_state SET snapshot_at = 'infinity' WHERE flow_id = (SELECT flow_id FROM scd2_internal.flow WHERE name = 'snap');
UPDATE scd2_internal.flow_state SET watermark_timestamp = '-infinity' WHERE flow_id = (SELECT flow_id FROM scd2_internal.flow WHERE name = 'log');
UPDATE scd2_internal.reader SET reached = 'infinity';
SELECT scd2_internal.wake_apply_at_commit() \g /dev/null
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type LIKE 'pg_scd2 %' AND datname = current_database() \g /dev/null
INSERT INTO t VALUES (1, 1);
INSERT INTO healthy VALUES (1, 1);
INSERT INTO ev VALUES (2, 'b', '2026-01-02', 2);
CALL wait_until($$EXISTS (SELECT FROM healthy_history)$$);
SELECT pass('the workers go on with the others');
SELECT lives_ok($$TABLE scd2.feeds; TABLE scd2.flows; TABLE scd2.readers; TABLE scd2.capture; TABLE scd2.progress; TABLE scd2.batches$$, 'views look at all of them');
SELECT lives_ok($$SELECT * FROM scd2.diagnose(), scd2.preflight()$$, 'and diagnose()');
SELECT lives_ok($$SELECT scd2_internal.feeds_to_retain()$$, 'and upkeep');
SELECT is((SELECT error FROM scd2_internal.capture_status()) || (SELECT apply_error FROM scd2_internal.capture_status()), NULL, 'no worker has failed');
SELECT is((SELECT count(*) FROM scd2.vacuum_feed('t', dry_run => true)), 0::bigint, 'what is kept for ever is kept');
SELECT * FROM finish();
