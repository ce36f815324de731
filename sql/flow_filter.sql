-- Flows over a feed that leave rows out: source_filter, apply_as_deletes (a soft delete), and what a TRUNCATE means (apply_as_truncates).
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = error;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, MDY';
CREATE SCHEMA flow_filter;
SET search_path = flow_filter;
CREATE TABLE t (id int PRIMARY KEY, region text, status text, at timestamptz DEFAULT '2026-01-01');
INSERT INTO t VALUES (1, 'north', 'ok'), (2, 'south', 'ok'), (3, 'north', 'deleted'), (4, NULL, 'ok');
BEGIN;
SELECT scd2.track('t', 'everything');
SELECT scd2.track('t', 'north', source_filter => 'region = ''north''');
SELECT scd2.track('t', 'north_now', stored_as_scd_type => 1, source_filter => 't.region = ''north''   -- of the north');
SELECT scd2.track('t', 'alive', apply_as_deletes => 'status = ''deleted''', track_history_column_list => '{region,status}');
SELECT scd2.track('t', 'alive_now', stored_as_scd_type => 1, apply_as_deletes => 'status = ''deleted''');
SELECT scd2.track('t', 'kept', apply_as_truncates => 'false');
SELECT scd2.track('t', 'emptied', apply_as_truncates => '_change_type = ''truncate'' OR status = ''all gone''');
-- evaluated as when it was written
SET TimeZone = 'Asia/Tokyo';
SELECT scd2.track('t', 'tokyo', source_filter => 'at::date = ''2026-01-01''');
RESET TimeZone;
COMMIT;
SELECT scd2.sync() >= 0;
-- into the filter, out of it, within it, never in it; keys that move; a row that comes and goes in one commit
UPDATE t SET region = 'south' WHERE id = 1;
UPDATE t SET region = 'north' WHERE id = 2;
UPDATE t SET status = 'new' WHERE id = 2;
UPDATE t SET status = 'new' WHERE id = 4;
UPDATE t SET status = 'ok' WHERE id = 3;
UPDATE t SET status = 'deleted' WHERE id IN (2, 4);
UPDATE t SET id = id + 10 WHERE id > 2;
BEGIN;
UPDATE t SET region = 'north' WHERE id = 1;
UPDATE t SET region = 'south' WHERE id = 1;
INSERT INTO t VALUES (7, 'north', 'x');
DELETE FROM t WHERE id = 7;
COMMIT;
DELETE FROM t WHERE id IN (2, 13);
INSERT INTO t VALUES (8, 'north', 'ok', '2025-12-31 15:00'), (9, 'north', 'ok', '2025-12-31 14:00');
SELECT scd2.sync() >= 0;
-- the history of a filter is what passes it of the history of all
CREATE FUNCTION history(target regclass, filter text) RETURNS TABLE (id int, region text, status text, at timestamptz, start text, "end" timestamptz) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format('SELECT id, region, status, at, nullif(__start_at, (SELECT min(__start_at) FROM %1$s))::text, __end_at FROM %1$s WHERE %2$s', target, filter);
END $$;
SELECT (SELECT count(*) FROM (SELECT * FROM history('north', 'true') EXCEPT ALL SELECT * FROM history('everything', 'region = ''north''')) AS x) AS more,
       (SELECT count(*) FROM (SELECT * FROM history('everything', 'region = ''north''') EXCEPT ALL SELECT * FROM history('north', 'true')) AS x) AS less, (SELECT count(*) FROM north) AS rows;
SELECT (SELECT count(*) FROM (SELECT * FROM history('alive', 'true') EXCEPT ALL SELECT * FROM history('everything', 'status <> ''deleted''')) AS x) AS more,
       (SELECT count(*) FROM (SELECT * FROM history('everything', 'status <> ''deleted''') EXCEPT ALL SELECT * FROM history('alive', 'true')) AS x) AS less, (SELECT count(*) FROM alive) AS rows;
SELECT id, region, status FROM north_now ORDER BY id;
SELECT id, region, status FROM alive_now ORDER BY id;
SELECT DISTINCT id FROM tokyo ORDER BY id;
SET client_min_messages = notice;        -- that it was compared, too
SELECT t, c.* FROM unnest('{north,north_now,alive,alive_now,kept,emptied,tokyo}'::text[]) AS t, scd2.check_target(t::regclass) AS c;
SET client_min_messages = error;
-- the column that says what is deleted is not tracked by default
SELECT tracked FROM scd2_internal.flow WHERE name = 'emptied';
-- a row that empties the target, later a TRUNCATE
INSERT INTO t VALUES (20, 'north', 'all gone');
SELECT scd2.sync() >= 0;
SELECT count(*) FILTER (WHERE __end_at IS NULL) FROM emptied;
INSERT INTO t VALUES (21, 'north', 'after');
TRUNCATE t;
INSERT INTO t VALUES (1, 'north', 'again');
SELECT scd2.sync() >= 0;
SELECT id, status FROM emptied WHERE __end_at IS NULL ORDER BY id;
SELECT id, status FROM north WHERE __end_at IS NULL ORDER BY id;
SELECT id, status FROM north_now ORDER BY id;
SELECT id, status FROM kept WHERE __end_at IS NULL ORDER BY id;
SELECT flow, state, last_error FROM scd2.flows WHERE state <> 'running';

-- with a sequence of its own
CREATE TABLE s (id int PRIMARY KEY, v text, gone boolean, rev int);
INSERT INTO s VALUES (1, 'a', NULL, 1), (2, 'b', true, 1);
SELECT scd2.track('s', delete_sequence_by => 'coalesce(rev + 1, 1000)', sequence_by => 'rev', apply_as_deletes => 'gone', source_filter => 'v <> ''hidden'' AND rev IS NOT NULL', column_list => '{id,v}');
SELECT scd2.sync() >= 0;
SELECT scd2.track('s', 's_kept', delete_sequence_by => 'rev + 1', sequence_by => 'rev', apply_as_truncates => 'false', on_invalid_event => 'quarantine', column_list => '{id,v}');
SELECT scd2.sync() >= 0;
UPDATE s SET gone = true, rev = 10 WHERE id = 1;
UPDATE s SET gone = false, rev = 5 WHERE id = 2;
INSERT INTO s VALUES (3, 'hidden', false, 1), (4, 'x', false, NULL);
DELETE FROM s WHERE id = 4;
SELECT scd2.sync(targets => '{s_kept}') >= 0;
UPDATE s SET rev = 20, v = 'c' WHERE id = 2;
SELECT scd2.sync(targets => '{s_kept}') >= 0;
SELECT * FROM s_kept ORDER BY id, __start_at;
SELECT event FROM scd2.rejected_events WHERE flow = 's_kept';
SELECT scd2.sync() >= 0;
SELECT * FROM s_history ORDER BY id, __start_at;
UPDATE s SET rev = 30;
TRUNCATE s;
SELECT scd2.sync() >= 0;
SELECT * FROM s_kept WHERE __end_at IS NULL ORDER BY id;
SELECT count(*) FROM scd2.rejected_events WHERE flow = 's_kept';
-- a TRUNCATE ends what a filter shows, too
SELECT * FROM s_history WHERE __end_at IS NULL OR __end_at > 25 ORDER BY id;

-- changed later: from now on
INSERT INTO t VALUES (31, 'west', 'ok');
SELECT scd2.sync(targets => '{north}') >= 0;
SELECT scd2.alter_flow('north', source_filter => 'region IN (''north'', ''west'')');
INSERT INTO t VALUES (32, 'west', 'ok');
SELECT scd2.sync(targets => '{north}') >= 0;
SELECT id FROM north WHERE region = 'west' ORDER BY id;

SELECT scd2.alter_flow('s_kept', apply_as_deletes => 'gone');
SELECT scd2.alter_flow('alive', apply_as_deletes => 'status IN (''deleted'', ''lost'')');
INSERT INTO s VALUES (7, 'seven', true, 2050), (8, 'eight', false, 2050);
UPDATE t SET status = 'lost' WHERE id = 31;
SELECT scd2.sync() >= 0;
SELECT id FROM s_kept WHERE id > 6;
SELECT id FROM alive WHERE __end_at IS NULL ORDER BY id;

-- refused
SELECT scd2.track('t', 'x', source_filter => 'nope');
SELECT scd2.track('t', 'x', source_filter => '_change_type <> ''delete''');
SELECT scd2.track('t', 'x', apply_as_deletes => 'region');
SELECT scd2.track('t', 'x', apply_as_truncates => 'random() > 0.5');
SELECT scd2.track('t', 'x', on_invalid_event => 'quarantine');
SELECT scd2.track('t', 'x', delete_sequence_by => 'now()');
SELECT scd2.track('t', 'x', sequence_by => 'status', initial_start => 'now()');
SELECT scd2.alter_flow('north', source_filter => 'nope');
SELECT scd2.alter_flow('s_history', apply_as_deletes => 'v');
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows;
DROP SCHEMA flow_filter CASCADE;
