-- A repair after a gap does not bring back what was erased: neither what the feed says nor the table has it.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(4);
\ir parts/wait.sql
CREATE TABLE c (id int PRIMARY KEY, name text);
SELECT scd2.track('c') \g /dev/null
SELECT scd2.sync() \g /dev/null
INSERT INTO c VALUES (1, 'marker'), (2, 'other'), (3, 'third');
UPDATE c SET name = name || '!';
DELETE FROM c WHERE id = 1;
SELECT scd2.sync() \g /dev/null
SELECT scd2.erase('c', '{"id": 1}') \g /dev/null
SELECT scd2.stop() \g /dev/null
CALL wait_until('NOT EXISTS (SELECT FROM pg_replication_slots WHERE active AND database = current_database())');
SELECT slot FROM scd2.capture \gset
SELECT pg_drop_replication_slot(:'slot') \g /dev/null
UPDATE c SET name = 'changed' WHERE id = 2;
SELECT scd2.start() \g /dev/null
CALL wait_until('(SELECT gap IS NOT NULL FROM scd2.feeds)');
SELECT lives_ok('SELECT scd2.resync(''c'')', 'resync');
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT count(*) FROM c_changes WHERE name LIKE 'marker%') + (SELECT count(*) FROM c_history WHERE name LIKE 'marker%'), 0::bigint, 'nothing came back');
SELECT bag_eq('SELECT id, name FROM c_history WHERE __end_at IS NULL', 'TABLE c', 'what is open is the table');
SELECT is((SELECT count(*) FROM scd2.check_target('c_history')), 0::bigint, 'and the history is what its sources say');
SELECT * FROM finish();
