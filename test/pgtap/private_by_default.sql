-- Feed, history and what else is made from a table belong to its owner, and nobody else can read
-- them until granted: whatever default privileges say, whatever a role may read of the table
-- (SE-01).
\set QUIET on
SET client_min_messages = warning;
SELECT plan(11);
CREATE ROLE "Owner, of it";
CREATE ROLE reader;
CREATE SCHEMA own AUTHORIZATION "Owner, of it";
GRANT USAGE ON SCHEMA own TO reader;
ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO public;
ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO reader;
ALTER DEFAULT PRIVILEGES IN SCHEMA own GRANT ALL ON TABLES TO reader;

SET ROLE "Owner, of it";
CREATE TABLE own.t (id integer PRIMARY KEY, who text, secret text);
ALTER TABLE own.t ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON own.t TO reader USING (who = 'reader');
GRANT SELECT (id, who) ON own.t TO reader;
INSERT INTO own.t VALUES (1, 'reader', 's1'), (2, 'other', 's2');
CREATE TABLE own.ev (k integer, v text, s integer, at integer);
INSERT INTO own.ev VALUES (1, 'a', 1, 1);
SELECT scd2.track('own.t'), scd2.track('own.t', stored_as_scd_type => 1) \g /dev/null
SELECT scd2.create_auto_cdc_flow('own.ev_history', 'own.ev', '{k}', 'struct(s, at)', stored_as_scd_type => 2) \g /dev/null
SELECT scd2.create_auto_cdc_flow('own.ev_current', 'own.ev', '{k}', 's', column_list => '{k,v}') \g /dev/null
SELECT scd2.create_append_flow('own.all_ev', 'own.ev') \g /dev/null
SELECT scd2.sync() \g /dev/null
UPDATE own.t SET secret = 'changed';
SELECT scd2.sync() \g /dev/null
RESET ROLE;

CREATE TEMP VIEW made AS SELECT c.oid, c.relname, c.relacl, c.relowner FROM pg_class c WHERE c.relnamespace = 'own'::regnamespace AND c.relkind IN ('r', 'p') AND c.relname NOT IN ('t', 'ev');
SELECT cmp_ok((SELECT count(*) FROM made)::int, '>=', 11, 'feeds, partitions, targets and memories are there');
SELECT is_empty('SELECT relname, relowner::regrole FROM made WHERE relowner <> (SELECT oid FROM pg_roles WHERE rolname = ''Owner, of it'')', 'they belong to the owner of the table');
SELECT is_empty('SELECT m.relname, a.grantee FROM made m, aclexplode(m.relacl) a WHERE a.grantee <> m.relowner', 'nobody else was granted anything');
SET ROLE reader;
SELECT is((SELECT array_agg(id) FROM own.t), '{1}', 'the reader sees some rows and columns of the table');
SELECT throws_ok('TABLE own.t_changes', '42501', NULL, 'not the feed');
SELECT throws_ok('SELECT * FROM scd2.table_changes(''own.t'')', '42501', NULL, 'nor through table_changes');
SELECT throws_ok('SELECT * FROM scd2.table_changes(NULL::own.t_changes)', '42501', NULL, '... in columns');
SELECT throws_ok('TABLE own.t_history', '42501', NULL, 'not the history');
SELECT throws_ok('SELECT * FROM own.t_history_as_of(now())', '42501', NULL, 'nor through its function');
SELECT throws_ok('SELECT * FROM scd2.table_at(NULL::own.t, 1)', '42501', NULL, 'nor the table as it was');
SELECT is((SELECT count(*) FROM scd2.feeds) + (SELECT count(*) FROM scd2.flows), 0::bigint, 'nor that they are there');
RESET ROLE;
SELECT * FROM finish();
