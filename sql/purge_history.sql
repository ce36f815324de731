-- purge_history: versions that ended before a point go; what comes later neither brings them back nor meets their absence; who may, and what is no such target.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = notice;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, MDY';
CREATE SCHEMA purge_history;
SET search_path = purge_history;
CREATE TABLE ev (k int, v text, u int, seq int, op text);
INSERT INTO ev VALUES (1, 'a', 1, 10, 'U'), (1, 'b', 1, 20, 'U'), (1, 'c', 1, 60, 'U'), (2, 'x', 1, 10, 'U'), (2, NULL, NULL, 20, 'D'), (3, 'on', 1, 5, 'U'), (3, 'on', 2, 25, 'U'), (3, 'on', 3, 55, 'U'), (4, NULL, NULL, 15, 'D'),
    (5, 'ends at 30', 1, 10, 'U'), (5, NULL, NULL, 30, 'D'), (6, 'before 30', 1, 10, 'U'), (6, 'after', 1, 30, 'U'), (7, NULL, NULL, 40, 'D');
SET client_min_messages = warning;
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''D''', apply_as_truncates => 'op = ''T''', column_list => '{k,v,u}', track_history_column_list => '{v}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('c', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''D''', apply_as_truncates => 'op = ''T''', column_list => '{k,v,u}');
SELECT scd2.sync() >= 0;
SET client_min_messages = notice;
SELECT * FROM h ORDER BY k, __start_at;
SELECT k, u, _sequence, _kind FROM h_memory ORDER BY k, _sequence;
-- what would go; a row that ended at the point stays
SELECT scd2.purge_history('h', '30', dry_run => true);
SELECT count(*) FROM h;
BEGIN;
SELECT scd2.purge_history('h', 30);
SELECT * FROM h ORDER BY k, __start_at;
ROLLBACK;
SELECT count(*) FROM h;
SELECT scd2.purge_history('h', '30');
SELECT * FROM h ORDER BY k, __start_at;
SELECT k, u, _sequence, _kind FROM h_memory ORDER BY k, _sequence;
SELECT kind, sequence, flow_id FROM scd2_internal.mark WHERE target_relid = 'h'::regclass;
SELECT * FROM h_as_of(30) ORDER BY k;
-- again, and further back: nothing
SELECT scd2.purge_history('h', 30), scd2.purge_history('h', 7);
SELECT kind, sequence, flow_id FROM scd2_internal.mark WHERE target_relid = 'h'::regclass;
-- the target is what its sources say, as far as it is there
SELECT * FROM scd2.check_target('h');
SET pg_scd2.allow_target_writes = on;
BEGIN;
UPDATE h SET v = 'by hand' WHERE k = 1 AND __end_at IS NULL;
SELECT * FROM scd2.check_target('h');
ROLLBACK;
RESET pg_scd2.allow_target_writes;

-- below the point events are too late: they bring nothing back. At it and above all is as ever
INSERT INTO ev VALUES (1, 'late', 1, 15, 'U'), (2, 'must not come back', 1, 19, 'U'), (4, 'must not come back', 1, 14, 'U'), (8, 'too late', 1, 29, 'U'), (NULL, NULL, NULL, 28, 'T'),
    (5, 'deleted at 30', 1, 30, 'U'), (6, 'after, and more', 1, 30, 'U'), (3, 'split', 9, 40, 'U'), (7, 'x', 7, 35, 'U'), (9, 'new', 1, 30, 'U');
SELECT scd2.sync() >= 0;
SELECT * FROM h ORDER BY k, __start_at;
SELECT reason, event ->> 'k' AS k, event ->> 'seq' AS seq FROM scd2.rejected_events WHERE flow = 'h' ORDER BY change_ordinal;
SELECT events, applied, duplicates, too_late FROM scd2.flows WHERE flow = 'h';
-- what was too late is in the source: no comparison any more
SELECT * FROM scd2.check_target('h');
-- a truncate at the point cuts the rows that are there
INSERT INTO ev VALUES (NULL, NULL, NULL, 30, 'T');
SELECT scd2.sync() >= 0;
SELECT * FROM h ORDER BY k, __start_at;

-- whoever comes later fills in history before it, and changes nothing after it
CREATE TABLE old (k int, v text, u int, seq int);
INSERT INTO old VALUES (1, 'old', 0, 8), (2, 'old', 0, 10), (3, 'old', 0, 3), (10, 'gone since', 0, 5), (11, 'not so old', 0, 70);
SELECT scd2.create_auto_cdc_flow('h', 'old', '{k}', 'seq', column_list => '{k,v,u}', track_history_column_list => '{v}', stored_as_scd_type => 2, once => true);
SELECT scd2.sync() >= 0;
SELECT * FROM h WHERE __start_at < 30 OR k > 9 ORDER BY k, __start_at;
SELECT * FROM scd2.check_target('h');
-- and that can be purged as well
SELECT scd2.purge_history('h', '30');
SELECT * FROM h WHERE __start_at < 30 ORDER BY k, __start_at;
-- the horizon never passes what the target has seen
SELECT scd2.purge_history('h', '1000', dry_run => true);
SELECT scd2.purge_history('h', '1000');
SELECT * FROM h ORDER BY k, __start_at;
INSERT INTO ev VALUES (12, 'the last', 1, 70, 'U'), (13, 'not too late', 1, 71, 'U');
SELECT scd2.sync() >= 0;
SELECT * FROM h WHERE k >= 12 ORDER BY k;
-- a full refresh asks the sources anew
SELECT scd2.full_refresh('h', 'k = 1');
SELECT scd2.full_refresh('h');
SELECT scd2.sync() >= 0;
SELECT count(*) FROM h WHERE __end_at < 30;
SELECT * FROM scd2.check_target('h');
SELECT purged_before FROM scd2_internal.flow WHERE name = 'h';

-- a captured table: nothing of it can be too late
CREATE TABLE t (id int PRIMARY KEY, v text);
INSERT INTO t VALUES (1, 'a'), (2, 'a'), (3, 'a');
SELECT scd2.track('t');
SELECT scd2.sync() >= 0;
UPDATE t SET v = 'b' WHERE id < 3;
DELETE FROM t WHERE id = 2;
SELECT scd2.sync() >= 0;
SELECT scd2.purge_history('t_history', now() - interval '1 hour');
SELECT scd2.pause_flow('t_history');
UPDATE t SET v = 'c' WHERE id = 1;
INSERT INTO t VALUES (2, 'again');
SELECT scd2.sync(targets => '{}') >= 0;
SELECT scd2.purge_history('t_history', 'infinity');
SELECT scd2.resume_flow('t_history');
SELECT scd2.sync() >= 0;
SELECT id, v, __end_at IS NULL AS open FROM t_history ORDER BY id, __start_at;
SELECT * FROM scd2.check_target('t_history');
SELECT count(*) FROM scd2.rejected_events WHERE flow = 't_history';
-- some keys again: what was purged stays so
SELECT scd2.full_refresh('t_history', 'id = 2');
SELECT id, v, __end_at IS NULL AS open FROM t_history ORDER BY id, __start_at;
-- with company, the point is not above what the captured table has brought
SELECT scd2.drop_flow('t_history', drop_target => true);
SELECT scd2.track('t', 'shared_h', shared => true, apply_as_truncates => 'false');
CREATE TABLE more (id int, v text, at timestamptz);
INSERT INTO more VALUES (1, 'planned', now() + interval '1 year'), (1, 'past', '2020-01-01'), (1, 'past too', '2020-01-02');
SELECT scd2.create_auto_cdc_flow('shared_h', 'more', '{id}', 'at', column_list => '{id,v}', stored_as_scd_type => 2);
SELECT scd2.sync() >= 0;
SELECT scd2.pause_flow('shared_h');
UPDATE t SET v = 'd' WHERE id = 3;
SELECT scd2.purge_history('shared_h', 'infinity');
SELECT scd2.resume_flow('shared_h');
SELECT scd2.sync() >= 0;
SELECT id, v, isfinite(__start_at) AS start, __end_at IS NULL AS open FROM shared_h ORDER BY id, __start_at;
SELECT * FROM scd2.rejected_events WHERE flow LIKE 'shared_h%';

-- snapshots, by day; the next is never too late
CREATE TABLE prices (sku text PRIMARY KEY, price int);
INSERT INTO prices VALUES ('a', 1), ('b', 1);
SELECT scd2.create_auto_cdc_from_snapshot_flow('price_history', 'prices', '{sku}', 'date', stored_as_scd_type => 2, max_delete_fraction => 1);
SELECT * FROM scd2.apply_snapshot('price_history', '2026-01-01');
UPDATE prices SET price = 2;
SELECT * FROM scd2.apply_snapshot('price_history', '2026-01-02');
DELETE FROM prices WHERE sku = 'b';
SELECT * FROM scd2.apply_snapshot('price_history', '2026-01-03');
SELECT scd2.purge_history('price_history', '2026-01-03'::date);
TABLE price_history ORDER BY sku, __start_at;
SELECT scd2.purge_history('price_history', '2027-01-01');
INSERT INTO prices VALUES ('b', 2);
SELECT * FROM scd2.apply_snapshot('price_history', '2026-01-04');
TABLE price_history ORDER BY sku, __start_at;

-- sequences of several fields
CREATE TABLE ev2 (k int, v text, day date, n int);
INSERT INTO ev2 VALUES (1, 'a', '2026-01-01', 1), (1, 'b', '2026-01-01', 2), (1, 'c', '2026-01-02', 1);
SELECT scd2.create_auto_cdc_flow('h2', 'ev2', '{k}', 'struct(day, n)', column_list => '{k,v}', stored_as_scd_type => 2);
SELECT scd2.sync() >= 0;
SELECT scd2.purge_history('h2', '(2026-01-02,0)');
TABLE h2 ORDER BY k, __start_at;
SELECT scd2.purge_history('h2', '(2026-01-02,)');
INSERT INTO ev2 VALUES (1, 'late', '2026-01-01', 9), (1, 'in time', '2026-01-02', 0);
SELECT scd2.sync() >= 0;
TABLE h2 ORDER BY k, __start_at;

-- refusals
SELECT scd2.purge_history('c', '30');
SELECT scd2.purge_history('h', NULL);
SELECT scd2.purge_history('h', 'thirty');
SELECT scd2.purge_history('ev', '30');
SELECT scd2.purge_history(NULL, '30');
SELECT scd2.create_append_flow('appended', 'ev');
SELECT scd2.purge_history('appended', '30');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT scd2.purge_history('h', '30');
ROLLBACK;
CREATE ROLE scd2_other;
GRANT USAGE ON SCHEMA purge_history TO scd2_other;
SET ROLE scd2_other;
SELECT scd2.purge_history('h', '30', dry_run => true);
RESET ROLE;

SET client_min_messages = error;
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows;
SELECT scd2.disable_change_feed(source, drop_feed => true) FROM scd2.feeds WHERE state <> 'disabled';
DROP SCHEMA purge_history CASCADE;
DROP ROLE scd2_other;
SELECT count(*) FROM scd2_internal.purge;
