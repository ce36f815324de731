-- What goes wrong with histories elsewhere, as it is told there: (key, value, sequence, kind) in arrival order, | ends a batch. Each must end as its line says; no key ever has two
-- open rows or rows that overlap; events that come again change nothing, and in the opposite order they make the same.
\set QUIET on
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SELECT plan(42);
\ir parts/wait.sql
CREATE TABLE ev (k int, v text, seq int, op text);
CREATE TABLE again (LIKE ev);
CREATE TABLE reversed (LIKE ev);
CREATE FUNCTION declare(target text, source regclass, type int) RETURNS name LANGUAGE sql AS $$
    SELECT scd2.create_auto_cdc_flow(target, source, '{k}', 'seq', apply_as_deletes => 'op = ''D''', column_list => '{k,v}', stored_as_scd_type => type) $$;
SELECT declare('h', 'ev', 2), declare('c', 'ev', 1), declare('h_reversed', 'reversed', 2), declare('c_reversed', 'reversed', 1) \g /dev/null
SELECT scd2.sync() \g /dev/null
CREATE FUNCTION history(key int) RETURNS text LANGUAGE sql AS $$ SELECT string_agg(format('%s[%s,%s)', coalesce(v, 'null'), __start_at, coalesce(__end_at::text, '-')), ' ' ORDER BY __start_at) FROM h WHERE k = key $$;
CREATE FUNCTION current(key int) RETURNS text LANGUAGE sql AS $$ SELECT string_agg(coalesce(v, 'null'), ' ') FROM c WHERE k = key $$;

-- the first batch of each
INSERT INTO ev VALUES (1, 'a', 10, 'U'), (1, 'b', 30, 'U'), (17, 'N', 10, 'U'), (17, 'S', 30, 'U'), (6, NULL, 20, 'D'), (7, 'a', 10, 'U'), (7, 'b', 30, 'U'), (8, 'a', 10, 'U'), (8, NULL, 20, 'D'), (8, 'a', 30, 'U'),
    (99, NULL, 10, 'D'), (99, NULL, 11, 'D'), (10, 'a', 10, 'U'), (10, 'b', 10, 'U'), (11, 'a', 10, 'U'), (11, NULL, 10, 'D'), (13, 'b', 10, 'U'), (14, NULL, 10, 'D'),
    (20, 'a', 10, 'U'), (20, NULL, 30, 'D'), (21, 'a', 10, 'U'), (21, 'c', 30, 'U'), (21, 'b', 20, 'U'), (5, 'a', 10, 'U');
SELECT scd2.sync() \g /dev/null
SELECT is(history(8), 'a[10,20) a[30,-)', 'a key that was deleted comes back with the same values: two rows');
SELECT is(history(99), NULL, 'deletes of a key that nobody knows: no row');
SELECT is((SELECT state || coalesce(last_error, '') FROM scd2.flows WHERE flow = 'h'), 'running', '... and no error');
SELECT is(history(10), 'b[10,-)', 'two values of one key and sequence: one row');
SELECT is(history(11), NULL, 'an upsert and a delete of one key and sequence: none');
SELECT is((SELECT array_agg(conflicts ORDER BY flow) FROM scd2.flows WHERE flow IN ('c', 'h')), '{1,1}', '... and the two values are told of as a conflict');
SELECT is(current(20), NULL, 'type 1: deleted');
SELECT is(current(21), 'c', 'several events of one key in one batch: the greatest');
-- the second
CREATE TABLE settled AS SELECT ctid AS place, xmin::text AS writer, k FROM h;
INSERT INTO ev VALUES (1, 'c', 20, 'U'), (17, 'E', 20, 'U'), (6, 'a', 10, 'U'), (7, NULL, 20, 'D'), (7, NULL, 5, 'D'), (8, NULL, 25, 'D'), (13, 'a', 10, 'U'), (14, 'a', 10, 'U'), (20, 'b', 20, 'U'), (5, NULL, 3, 'D');
SELECT scd2.sync() \g /dev/null
SELECT is(history(1), 'a[10,20) c[20,30) b[30,-)', 'a late event ends what is before it and ends at what is after it');
SELECT is(history(17), 'N[10,20) E[20,30) S[30,-)', 'it splits an interval that was closed');
SELECT is(history(6), 'a[10,20)', 'a delete that came before the row it deletes');
SELECT is(history(7), 'a[10,20) b[30,-)', 'a late delete inside an interval: a gap');
SELECT is(history(5), 'a[10,-)', 'a late delete before the first start: no change');
SELECT is(history(8), 'a[10,20) a[30,-)', 'another delete in a gap adds nothing');
SELECT is(history(13), 'b[10,-)', 'the same two values in the other order, in two batches: the same row');
SELECT is((SELECT array_agg(conflicts ORDER BY flow) FROM scd2.flows WHERE flow IN ('c', 'h')), '{2,2}', '... another conflict');
SELECT is(history(14), NULL, 'the delete first, in two batches: none');
SELECT is(current(20), NULL, 'an old upsert after a newer delete does not bring the row back');
SELECT is_empty('SELECT k FROM settled s WHERE k IN (5, 8, 10) AND NOT EXISTS (SELECT FROM h WHERE h.ctid = s.place AND h.xmin::text = s.writer)', 'rows that did not change were not written');
-- the third: repeats; a delete that is long gone, behind a VACUUM
VACUUM FULL c, c_memory, h, h_memory;
CREATE TABLE places AS SELECT ctid AS place, xmin::text AS writer FROM h UNION ALL SELECT ctid, xmin::text FROM h_memory;
INSERT INTO ev VALUES (17, 'E', 20, 'U'), (20, 'b', 20, 'U'), (14, 'a', 10, 'U');
SELECT scd2.sync() \g /dev/null
SELECT is(history(17), 'N[10,20) E[20,30) S[30,-)', 'events that come again change nothing');
SELECT is_empty('TABLE places EXCEPT ALL SELECT ctid AS place, xmin::text FROM h EXCEPT ALL SELECT ctid, xmin::text FROM h_memory', '... and write nothing');
SELECT is(current(20), NULL, 'a delete is remembered after VACUUM FULL');
INSERT INTO ev VALUES (6, 'b', 30, 'U'), (20, 'c', 40, 'U'), (1, 'late', 15, 'U');
SELECT scd2.sync() \g /dev/null
SELECT is(history(6), 'a[10,20) b[30,-)', 'a delete before its row, and a row after it');
SELECT is(current(20), 'c', 'type 1: a newer upsert than the delete');
SELECT is(history(1), 'a[10,15) late[15,20) c[20,30) b[30,-)', 'late again');

-- invariants, of all of these
SELECT is_empty('SELECT k FROM h WHERE __end_at IS NULL GROUP BY k HAVING count(*) > 1', 'no key has two open rows');
SELECT is_empty('SELECT a.k FROM h a JOIN h b ON a.k = b.k AND a.__start_at < b.__start_at WHERE a.__end_at IS NULL OR a.__end_at > b.__start_at', 'no rows of a key overlap');
SELECT is_empty('SELECT k FROM h WHERE __end_at <= __start_at', 'no interval is empty');
SELECT bag_eq('SELECT k, v FROM h WHERE __end_at IS NULL', 'TABLE c', 'type 1 is the open rows of type 2');
INSERT INTO reversed SELECT k, v, seq, op FROM (SELECT *, row_number() OVER () AS n FROM ev) e ORDER BY n DESC;
SELECT scd2.sync() \g /dev/null
SELECT bag_eq('TABLE h_reversed', 'TABLE h', 'the opposite order, in one batch: the same history');
SELECT bag_eq('TABLE c_reversed', 'TABLE c', '... and the same current rows');
SELECT is_empty(format('SELECT * FROM scd2.check_target(%L)', t), 'no check objects to ' || t || ', or to its gaps') FROM unnest('{h,c,h_reversed,c_reversed}'::text[]) t;

-- a NULL in a key, twice: put aside each time, and never a version
CREATE TABLE two_keys (k int, k2 int, v text, seq int);
SELECT scd2.create_auto_cdc_flow('two', 'two_keys', '{k,k2}', 'seq', column_list => '{k,k2,v}', stored_as_scd_type => 2, on_invalid_event => 'quarantine') \g /dev/null
INSERT INTO two_keys VALUES (1, NULL, 'a', 10), (1, 1, 'b', 10);
SELECT scd2.sync() \g /dev/null
INSERT INTO two_keys VALUES (1, NULL, 'a', 10), (1, NULL, 'b', 20);
SELECT scd2.sync() \g /dev/null
SELECT results_eq('SELECT k, k2, v FROM two', $$VALUES (1, 1, 'b')$$, 'events with a NULL in the key make no rows');
SELECT is((SELECT count(*) FROM scd2.rejected_events WHERE flow = 'two'), 3::bigint, '... and each is told of');

-- an event whose row the target refuses: its version is closed and opened as a whole, or not at all
CREATE DOMAIN short AS text CHECK (length(VALUE) < 5);
CREATE TABLE strict (k int, v short NOT NULL, __start_at int, __end_at int, PRIMARY KEY (k, __start_at), CHECK (__end_at > __start_at));
CREATE TABLE strict_ev (k int, v text, seq int);
ALTER TABLE strict ALTER v TYPE text, ADD CHECK (length(v) < 5);
SELECT scd2.create_auto_cdc_flow('strict', 'strict_ev', '{k}', 'seq', column_list => '{k,v}', stored_as_scd_type => 2) \g /dev/null
INSERT INTO strict_ev VALUES (1, 'a', 10), (2, 'a', 10);
SELECT scd2.sync() \g /dev/null
INSERT INTO strict_ev VALUES (1, NULL, 20), (2, 'b', 20);
CALL wait_until($$(SELECT state = 'failed' FROM scd2.flows WHERE flow = 'strict')$$);
SELECT results_eq('SELECT k, v, __end_at FROM strict ORDER BY k', $$VALUES (1, 'a', NULL::int), (2, 'a', NULL)$$, 'a row that must not be NULL: what was open stays open');
SELECT matches((SELECT last_error FROM scd2.flows WHERE flow = 'strict'), '^23502: null value in column "v"', '... and the flow says why it stops');
SELECT is((SELECT count(*) FROM scd2.check_target('strict') WHERE problem IN ('several open rows', 'overlap')), 0::bigint, '... with a target that is sound');

-- the same key twice in a seed: nothing of it is applied, and the key is named
CREATE TABLE seed (k int, v text);
INSERT INTO seed VALUES (1, 'a'), (1, 'b'), (2, 'c');
SELECT scd2.create_auto_cdc_from_snapshot_flow('seeded', 'seed', '{k}', 'int', once => true, version_query => 'SELECT 1') \g /dev/null
CALL wait_until($$(SELECT state = 'failed' FROM scd2.flows WHERE flow = 'seeded')$$);
SELECT matches((SELECT last_error FROM scd2.flows WHERE flow = 'seeded'), '^21000: a key occurs more than once.*\(1\)', 'a key that is in a seed twice is named');
SELECT is((SELECT count(*) FROM seeded), 0::bigint, '... and nothing of the seed is there');
SELECT * FROM finish();
