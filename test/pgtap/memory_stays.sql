-- <target>_memory is its owner's, and stays as it was made: what its flows would not find any more is refused when it is
-- asked for, under session_replication_role = replica too; with its target it goes, by whatever drops that. One that is
-- gone after all, or is not as it was made, is made anew by full_refresh().
\set QUIET on
SET client_min_messages = warning;
SELECT plan(35);
\ir parts/wait.sql
CREATE ROLE owner_of_memory;
CREATE ROLE reader_of_memory;
CREATE SCHEMA m AUTHORIZATION owner_of_memory;
SELECT format('GRANT TEMPORARY ON DATABASE %I TO owner_of_memory', current_database()) \gexec
SET SESSION AUTHORIZATION owner_of_memory;
SET search_path = m, public;
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE TABLE ev (k int, v text, how mood, s int);
SELECT scd2.enable_change_feed('ev') \g /dev/null
SELECT scd2.create_auto_cdc_flow('d', 'ev', '{k}', 's', stored_as_scd_type => 2, track_history_column_list => '{s}') \g /dev/null
SELECT scd2.create_auto_cdc_flow('c', 'ev', '{k}', 's', ignore_null_updates => true) \g /dev/null
INSERT INTO ev VALUES (1, 'a', 'good', 10), (1, 'b', 'bad', 20);
SELECT scd2.sync('50 s') \g /dev/null
INSERT INTO ev VALUES (1, 'late', 'bad', 15), (1, 'late', NULL, 5);
SELECT scd2.sync('50 s') \g /dev/null
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TABLE parent ();
CREATE TABLE partitioned (k int NOT NULL, _sequence int NOT NULL, _kind "char" NOT NULL, _version bigint, _ordinal int, _sequences int[]) PARTITION BY LIST (k);

SELECT is((SELECT relowner::regrole::text FROM pg_class WHERE oid = 'd_memory'::regclass), 'owner_of_memory', 'it is its target owner''s');
SELECT is_empty($$SELECT FROM pg_depend WHERE objid = 'd_memory'::regclass AND deptype = 'e'$$, '... and no member of the extension: a dump has it');

-- refused
SELECT throws_ok(statement, '55000', 'table "m.' || relation || '" cannot be altered: it is what flows into "m.' || left(relation, 1) || '" remember', statement)
FROM (VALUES
    ('d_memory', 'ALTER TABLE d_memory ALTER COLUMN v TYPE bigint USING 1'),
    ('d_memory', 'ALTER TABLE d_memory ALTER COLUMN _kind TYPE text'),
    ('c_memory', 'ALTER TABLE c_memory ALTER COLUMN _sequences TYPE text[]'),
    ('d_memory', 'ALTER TABLE d_memory DROP COLUMN v'),
    ('d_memory', 'ALTER TABLE d_memory RENAME COLUMN v TO w'),
    ('d_memory', 'ALTER TABLE d_memory ALTER COLUMN _kind DROP NOT NULL'),
    ('d_memory', 'ALTER TABLE d_memory ALTER COLUMN v SET DEFAULT ''x'''),
    ('d_memory', 'ALTER TABLE d_memory DROP CONSTRAINT d_memory_pkey'),
    ('d_memory', 'ALTER TABLE d_memory DROP CONSTRAINT d_memory_pkey, ADD PRIMARY KEY (_sequence, k)'),
    ('d_memory', 'ALTER TABLE d_memory ADD CHECK (k > 0)'),
    ('d_memory', 'ALTER TABLE d_memory SET UNLOGGED'),
    ('d_memory', 'ALTER TABLE d_memory INHERIT parent'),
    ('c_memory', 'ALTER TABLE partitioned ATTACH PARTITION c_memory DEFAULT'),
    ('d_memory', 'CREATE TABLE child () INHERITS (d_memory)'),
    ('d_memory', 'CREATE UNIQUE INDEX ON d_memory (v)'),
    ('d_memory', 'CREATE INDEX ON d_memory (lower(v))'),
    ('d_memory', 'CREATE TRIGGER t BEFORE DELETE ON d_memory FOR EACH ROW EXECUTE FUNCTION nothing()'),
    ('d_memory', 'CREATE RULE r AS ON DELETE TO d_memory DO INSTEAD NOTHING')) AS q (relation, statement);
SELECT throws_ok('DROP TABLE d_memory', '2BP01', 'cannot drop table "m.d_memory": it is what flows into "m.d" remember', 'DROP TABLE');
SELECT throws_ok('DROP TABLE d_memory, c CASCADE', '2BP01', NULL, '... with another target');
RESET SESSION AUTHORIZATION;
SET session_replication_role = replica;
SELECT throws_ok('DROP TABLE m.d_memory', '2BP01', NULL, '... by a superuser, and where triggers do not fire');
SELECT throws_ok('ALTER TABLE m.d_memory ALTER COLUMN v TYPE bigint USING 1', '55000', NULL, '... ALTER TABLE likewise');
RESET session_replication_role;
SET SESSION AUTHORIZATION owner_of_memory;

-- let through
SELECT lives_ok($$GRANT SELECT ON d_memory TO reader_of_memory; COMMENT ON TABLE d_memory IS 'mine'; ALTER TABLE d_memory SET (fillfactor = 60); ALTER TABLE d_memory RENAME TO remembered;
    CREATE INDEX ON remembered (v); CREATE STATISTICS st ON k, v FROM remembered; ALTER TABLE remembered RENAME TO d_memory$$, 'grants, comments, settings, names and plain indexes');
INSERT INTO ev VALUES (1, 'later', 'good', 12);
SELECT lives_ok($$ALTER TABLE ev RENAME COLUMN v TO renamed; ALTER TABLE ev ADD COLUMN more text; ALTER TABLE ev ALTER COLUMN k TYPE bigint$$, 'its source may change');
INSERT INTO ev VALUES (1, 'later', 'good', 11, 'more');
SELECT scd2.sync('50 s') \g /dev/null
SELECT is((SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'd_memory'::regclass AND attnum BETWEEN 1 AND 3),
    'k bigint, renamed text, how mood', '... and its flow alters it');
SELECT is_empty($$SELECT * FROM scd2.check_target('d') UNION ALL SELECT * FROM scd2.check_target('c')$$, '... and is right');

-- gone with its target
BEGIN;
SELECT lives_ok('DROP TABLE d CASCADE; DROP TABLE d_memory', 'dropped after its target');
ROLLBACK;
BEGIN;
SELECT lives_ok('DROP TABLE d, d_memory CASCADE', '... and with it');
ROLLBACK;
BEGIN;
SELECT lives_ok($$SELECT scd2.drop_flow('d', drop_target => true)$$, '... and with its flow');
SELECT is(to_regclass('d_memory'), NULL, '... which takes it along');
ROLLBACK;
RESET SESSION AUTHORIZATION;
BEGIN;
SELECT lives_ok('DROP SCHEMA m CASCADE', '... and with the schema');
ROLLBACK;
BEGIN;
SELECT lives_ok('DROP OWNED BY owner_of_memory CASCADE', '... and with all that its owner has');
ROLLBACK;

-- gone alone, or altered, after all
SET pg_scd2.own_ddl = on;
DROP TABLE m.d_memory;
ALTER TABLE m.c_memory ALTER COLUMN _sequences TYPE text[];
RESET pg_scd2.own_ddl;
SET SESSION AUTHORIZATION owner_of_memory;
SELECT scd2.full_refresh('d'), scd2.full_refresh('c') \g /dev/null
SELECT scd2.sync('50 s') \g /dev/null
SELECT is((SELECT string_agg(c.relname || ' ' || c.relowner::regrole || ' ' || coalesce(format_type(a.atttypid, -1), '-'), ', ' ORDER BY c.relname) FROM pg_class c
               LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = '_sequences' WHERE c.relname IN ('d_memory', 'c_memory')),
    'c_memory owner_of_memory integer[], d_memory owner_of_memory -', 'full_refresh() makes them anew');
RESET SESSION AUTHORIZATION;
SELECT scd2.drop_flow(flow) FROM scd2.flows \g /dev/null
DROP OWNED BY owner_of_memory CASCADE;
DROP ROLE owner_of_memory, reader_of_memory;
SELECT * FROM finish();
