-- Examples from the field, with captured tables: what the history must be, row by row.
CREATE TABLE src (id integer PRIMARY KEY, v text);
INSERT INTO src SELECT i, 'v' || i FROM generate_series(1, 4) AS i;
SELECT scd2.track('src', 'hist', start_column => 'valid_from', end_column => 'valid_to', current_column => 'is_current') \g /dev/null
SELECT scd2.track('src', 'cur', stored_as_scd_type => 1) \g /dev/null
SELECT scd2.sync() AS v0 \gset

SELECT plan(14);

CREATE FUNCTION t(point timestamptz) RETURNS text LANGUAGE sql AS $$
    SELECT CASE WHEN point IS NULL THEN NULL ELSE
        coalesce((SELECT 't' || n FROM (SELECT _commit_timestamp, dense_rank() OVER (ORDER BY _commit_version) AS n FROM src_changes) AS c WHERE _commit_timestamp = point LIMIT 1), 't0') END $$;
CREATE VIEW shown AS SELECT id, v, t(valid_from) AS s, t(valid_to) AS e, is_current FROM hist;

SELECT results_eq('SELECT * FROM shown ORDER BY id, s',
    $$VALUES (1, 'v1', 't0', NULL::text, true), (2, 'v2', 't0', NULL, true), (3, 'v3', 't0', NULL, true), (4, 'v4', 't0', NULL, true)$$, 'the rows that were there');
UPDATE src SET v = 'v1b' WHERE id = 1;
INSERT INTO src VALUES (5, 'v5');
DELETE FROM src WHERE id = 4;
SELECT scd2.sync() \g /dev/null
SELECT results_eq('SELECT * FROM shown ORDER BY id, s',
    $$VALUES (1, 'v1', 't0', 't1', false), (1, 'v1b', 't1', NULL::text, true), (2, 'v2', 't0', NULL, true), (3, 'v3', 't0', NULL, true),
             (4, 'v4', 't0', 't3', false), (5, 'v5', 't2', NULL, true)$$, 'an update, an insert and a delete, one commit each');
SELECT scd2.pause_flow('hist') \g /dev/null
UPDATE src SET v = 'v1c' WHERE id = 1;
UPDATE src SET v = 'v1d' WHERE id = 1;
UPDATE src SET v = 'v3b' WHERE id = 3;
SELECT scd2.resume_flow('hist') \g /dev/null
SELECT scd2.sync() \g /dev/null
CREATE TABLE expected AS SELECT * FROM (VALUES
    (1, 'v1', 't0', 't1', false), (1, 'v1b', 't1', 't4', false), (1, 'v1c', 't4', 't5', false), (1, 'v1d', 't5', NULL::text, true), (2, 'v2', 't0', NULL, true),
    (3, 'v3', 't0', 't6', false), (3, 'v3b', 't6', NULL, true), (4, 'v4', 't0', 't3', false), (5, 'v5', 't2', NULL, true)) AS r (id, v, s, e, is_current);
SELECT bag_eq('TABLE shown', 'TABLE expected', 'three more in one batch');
SELECT bag_eq('TABLE cur', 'TABLE src', 'type 1 is the source');
SELECT bag_eq('SELECT id, v FROM hist WHERE is_current', 'TABLE cur', 'type 1 is the open rows of type 2');
SELECT scd2.full_refresh('hist') \g /dev/null
SELECT scd2.full_refresh('cur') \g /dev/null
SELECT scd2.sync() \g /dev/null
SELECT bag_eq('TABLE shown', 'TABLE expected', 'a rebuild gives the same');
SELECT bag_eq('TABLE cur', 'TABLE src', 'of type 1 too');

-- settled rows are not written again
CREATE TABLE settled AS SELECT ctid AS place, xmin::text AS x, * FROM hist;
UPDATE src SET v = v;
BEGIN;
UPDATE src SET v = 'not for long' WHERE id = 2;
UPDATE src SET v = 'v2' WHERE id = 2;
COMMIT;
SELECT scd2.sync() \g /dev/null
SELECT bag_eq('SELECT ctid AS place, xmin::text AS x, * FROM hist', 'TABLE settled', 'changes that are none write nothing');

-- half-open: at a boundary exactly one row
SELECT is((SELECT count(*)::int FROM hist AS h CROSS JOIN LATERAL hist_as_of(h.valid_from) AS a WHERE a.id = h.id), (SELECT count(*)::int FROM hist), 'at each start exactly one row is valid');
SELECT is((SELECT count(*)::int FROM hist AS h JOIN hist AS o ON o.id = h.id AND o.ctid <> h.ctid
           WHERE tstzrange(h.valid_from, h.valid_to) && tstzrange(o.valid_from, o.valid_to)), 0, 'no two rows of a key overlap');

-- Barcelona, Madrid, Valencia, gone
INSERT INTO src VALUES (101, 'Barcelona');
UPDATE src SET v = 'Madrid' WHERE id = 101;
UPDATE src SET v = 'Valencia' WHERE id = 101;
DELETE FROM src WHERE id = 101;
SELECT scd2.sync() \g /dev/null
SELECT results_eq('SELECT v FROM hist WHERE id = 101 ORDER BY valid_from', $$VALUES ('Barcelona'), ('Madrid'), ('Valencia')$$, 'every city was a version');
SELECT ok((SELECT bool_and(coalesce(next, valid_to) = valid_to) AND bool_and(valid_to IS NOT NULL)
           FROM (SELECT valid_to, lead(valid_from) OVER (ORDER BY valid_from) AS next FROM hist WHERE id = 101) AS q), 'each until the next, the last until the delete');
SELECT is((SELECT count(*)::int FROM cur WHERE id = 101), 0, 'and type 1 has none');

-- counters
SELECT results_eq($$SELECT s.events = s.applied, s.duplicates + s.too_late + s.rejected + s.skipped FROM scd2_internal.flow_state AS s JOIN scd2_internal.flow AS f USING (flow_id) WHERE f.name = 'hist'$$,
    'VALUES (true, 0::bigint)', 'every event of a feed was applied');
SELECT * FROM finish();
