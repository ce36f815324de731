-- What a superuser's targets and calls run: nothing that others wrote, unless he trusts them. Each try would make its
-- author a superuser.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(29);
CREATE ROLE mallory;
CREATE ROLE boss SUPERUSER;
CREATE SCHEMA m AUTHORIZATION mallory;
CREATE SCHEMA b AUTHORIZATION boss;
GRANT ALL ON SCHEMA b TO mallory;
\ir parts/wait.sql

-- what would give it away: it notes who ran it
SET SESSION AUTHORIZATION mallory;
CREATE TABLE m.ran_as (who name, how text);
GRANT INSERT, SELECT ON m.ran_as TO public;
GRANT USAGE ON SCHEMA m TO public;
CREATE FUNCTION m.note(how text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    INSERT INTO m.ran_as VALUES (current_user, how);
    RETURN true;
EXCEPTION WHEN read_only_sql_transaction OR feature_not_supported THEN
    RETURN true;
END $$;
CREATE FUNCTION m.trap(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM m.note('function'); RETURN $1; END $$;
CREATE FUNCTION m.checked(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN m.note('check'); END $$;
CREATE DOMAIN m.dom AS int CHECK (m.checked(VALUE));
CREATE FUNCTION m.diff(float8, float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM m.note('subtype_diff'); RETURN $1 - $2; END $$;
CREATE TYPE m.span AS RANGE (SUBTYPE = float8, SUBTYPE_DIFF = m.diff);
RESET SESSION AUTHORIZATION;

-- others' sources
SET SESSION AUTHORIZATION mallory;
CREATE TABLE m.t (id int PRIMARY KEY, v int);
CREATE INDEX ON m.t (v) WHERE m.trap(1) = 1;
RESET SESSION AUTHORIZATION;
SET ROLE boss;
SELECT scd2.track('m.t')::oid AS made \gset
SELECT is((SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = :made), 'mallory'::name, 'a target that a superuser has made for another''s table is that one''s');
CREATE TABLE b.t_history (id int, v int, __start_at timestamptz, __end_at timestamptz, PRIMARY KEY (id, __start_at));
SELECT throws_ok($$SELECT scd2.track('m.t', 'b.t_history')$$, '42501', 'target of flow belongs to a superuser, "t" does not', 'a superuser''s own is refused');
SELECT throws_ok($$SELECT scd2.create_auto_cdc_from_snapshot_flow('b.t_history', 'm.t', '{id}', stored_as_scd_type => 2)$$, '42501', NULL, '... for snapshots as well');
RESET ROLE;

-- his own sources, with others' partitions and types
SET ROLE boss;
CREATE TABLE b.parts (id int PRIMARY KEY, v int) PARTITION BY RANGE (id);
CREATE TABLE b.parts_1 PARTITION OF b.parts FOR VALUES FROM (0) TO (1000);
CREATE TABLE b.spans (id int PRIMARY KEY, s m.span[]);
CREATE TABLE b.plain (id int PRIMARY KEY, v int);
ALTER TABLE b.parts_1 OWNER TO mallory;
SELECT throws_ok($$SELECT scd2.create_auto_cdc_from_snapshot_flow('b.of_parts', 'b.parts', '{id}')$$, '42501', 'target of flow belongs to a superuser, "parts_1" does not', 'a partition of somebody else''s');
SELECT throws_ok($$SELECT scd2.track('b.spans')$$, '42501', NULL, 'a column of somebody''s range type, in an array');
SELECT throws_ok($$SELECT scd2.create_auto_cdc_flow('b.dim', 'b.plain', '{id}', 'm.trap(v)', once => true)$$, '42501', NULL, 'an expression that calls somebody''s function');
SELECT throws_ok($$SELECT scd2.create_auto_cdc_flow('b.dim', 'b.plain', '{id}', '''5''::m.dom', once => true)$$, '42501', NULL, '... or casts to somebody''s domain');
SELECT is_empty($$SELECT * FROM m.ran_as WHERE who <> 'mallory'$$, 'none of it ran');
SELECT lives_ok($$SELECT scd2.track('b.plain')$$, 'what is a superuser''s alone is taken');
RESET ROLE;
SELECT scd2.sync() \g /dev/null

-- what comes later
SET ROLE boss;
ALTER TABLE b.plain ADD COLUMN s m.span;
INSERT INTO b.plain VALUES (1, 1, '[1,2)');
RESET ROLE;
CALL wait_until($$(SELECT state = 'failed' FROM scd2.flows WHERE flow = 'plain_history')$$);
SELECT matches((SELECT last_error FROM scd2.flows WHERE flow = 'plain_history'), '^42501: target of flow "plain_history" belongs to a superuser, type m.span of a column of "plain" does not', 'a type that comes by ADD COLUMN of the source');
SET ROLE boss;
SELECT scd2.untrack('b.plain', true, true) \g /dev/null
ALTER TABLE b.plain DROP COLUMN s;
SELECT scd2.track('b.plain') \g /dev/null
RESET ROLE;
SELECT scd2.sync() \g /dev/null
GRANT CREATE ON DATABASE :DBNAME TO mallory;
SET ROLE boss;
GRANT TRIGGER ON b.plain_history TO mallory;
SET ROLE mallory;
CREATE FUNCTION m.trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM m.note('trigger'); RETURN NEW; END $$;
CREATE TRIGGER trap BEFORE INSERT ON b.plain_history FOR EACH ROW EXECUTE FUNCTION m.trigger();
RESET ROLE;
INSERT INTO b.plain VALUES (2, 2);
CALL wait_until($$(SELECT state = 'failed' FROM scd2.flows WHERE flow = 'plain_history')$$);
SELECT matches((SELECT last_error FROM scd2.flows WHERE flow = 'plain_history'), '^42501: .*m\.trigger', 'a trigger that somebody may put there is refused, by name');
SELECT is_empty($$SELECT * FROM m.ran_as WHERE who <> 'mallory'$$, 'none of it ran');

-- his word
SET ROLE mallory;
SELECT throws_ok($$SELECT scd2.alter_flow('t_history', trust => true)$$, '42501', 'must be superuser to give trust => true', 'nobody else trusts for him');
SET ROLE boss;
SELECT throws_ok($$SELECT scd2.alter_flow('t_history', trust => true)$$, '22023', NULL, 'nor is there anything to trust where the target is another''s');
SELECT lives_ok($$SELECT scd2.alter_flow('plain_history', trust => true), scd2.resume_flow('plain_history')$$, 'a superuser can trust others, for one flow');
SELECT lives_ok($$SELECT scd2.track('m.t', 'b.t_history', trust => true)$$, '... also from the start');
RESET ROLE;
SELECT lives_ok('SELECT scd2.sync()', 'then they go on');
SELECT is((SELECT count(*) FROM m.ran_as WHERE who = 'boss' AND how = 'trigger'), 1::bigint, 'and what others wrote runs as him');
TRUNCATE m.ran_as;

-- an owner who becomes a superuser
SET ROLE mallory;
CREATE TABLE m.own (id int PRIMARY KEY, v int);
RESET ROLE;
RESET ROLE;
CREATE ROLE victim;
CREATE SCHEMA v AUTHORIZATION victim;
SET ROLE mallory;
GRANT SELECT ON m.own TO victim;
SELECT scd2.enable_change_feed('m.own') \g /dev/null
GRANT SELECT ON m.own_changes TO victim;
SET ROLE victim;
SELECT scd2.track('m.own', 'v.of_mallory') \g /dev/null
RESET ROLE;
SELECT lives_ok('SELECT scd2.sync(targets => ''{v.of_mallory}'')', 'a table of somebody else''s, by who may read it');
ALTER ROLE victim SUPERUSER;
INSERT INTO m.own VALUES (1, 1);
CALL wait_until($$(SELECT state = 'failed' FROM scd2.flows WHERE flow = 'of_mallory')$$);
SELECT matches((SELECT last_error FROM scd2.flows WHERE flow = 'of_mallory'), '^42501: target of flow "of_mallory" belongs to a superuser, "own" does not', '... stops when he becomes a superuser');
SELECT is((SELECT fix FROM scd2.diagnose() WHERE subject = 'flow of_mallory'), 'ALTER TABLE v.of_mallory OWNER TO mallory; SELECT * FROM scd2.authorize_flow(''of_mallory''); -- or, if that role is to be trusted: SELECT scd2.alter_flow(''of_mallory'', trust => true); SELECT scd2.resume_flow(''of_mallory'');', 'diagnose() has both ways out');

-- what superusers read by our functions is read as its owner
SET ROLE mallory;
SELECT scd2.sync(targets => '{m.t_history}') \g /dev/null
INSERT INTO m.t VALUES (1, 1);
SELECT scd2.sync(targets => '{m.t_history}') \g /dev/null
SELECT scd2.create_reader('r', 'm.t', 0) \g /dev/null
CREATE FUNCTION m.as_json(m.dom) RETURNS json LANGUAGE plpgsql AS $$ BEGIN PERFORM m.note('cast'); RETURN '1'; END $$;
CREATE POLICY seen ON m.t USING (m.note('policy'));
ALTER TABLE m.t ENABLE ROW LEVEL SECURITY;
RESET ROLE;
TRUNCATE m.ran_as;
SET ROLE boss;
SELECT is((SELECT count(*) FROM scd2.table_changes('m.t')), 1::bigint, 'table_changes, as json');
SELECT is((SELECT count(*) FROM scd2.table_changes(NULL::m.t_changes, 0)), 1::bigint, '... typed');
SELECT is((SELECT sum(inserts) FROM scd2.describe_history('m.t')), 1::numeric, 'describe_history');
SELECT is((SELECT count(*) FROM scd2.read_changes('r', NULL::m.t_changes, 10)), 1::bigint, 'read_changes');
SELECT is((SELECT count(*) FROM scd2.table_at(NULL::m.t, scd2.latest_version())), 1::bigint, 'table_at');
RESET ROLE;
SELECT is_empty($$SELECT * FROM m.ran_as WHERE who <> 'mallory'$$, 'none of their owner''s code ran as the superuser');

-- a view of another beneath one's own, and in a version_query: its owner writes what it calls, of the server's functions too
SET ROLE mallory;
CREATE VIEW m.below AS SELECT 1 AS id, current_user::text COLLATE "default" AS v;
RESET ROLE;
SET ROLE boss;
CREATE VIEW b.above AS SELECT * FROM m.below;
CREATE TABLE b.queried (id int PRIMARY KEY);
SELECT scd2.create_auto_cdc_from_snapshot_flow('b.of_view', 'b.above', '{id}', 'int') \g /dev/null
SELECT scd2.create_auto_cdc_from_snapshot_flow('b.of_query', 'b.queried', '{id}', 'int', version_query => 'SELECT id FROM m.below', refresh_interval => '100 ms') \g /dev/null
SELECT throws_ok($$SELECT scd2.apply_snapshot('of_view', 1)$$, '42501', 'view m.below of role "mallory" must not be read as superuser "boss"', 'another''s view through one''s own');
CALL wait_until($$(SELECT last_error LIKE '%view m.below of role%' FROM scd2.flows WHERE flow = 'of_query')$$); -- and in a version_query
SELECT scd2.alter_flow('of_view', trust => true) \g /dev/null
SELECT lives_ok($$SELECT scd2.apply_snapshot('of_view', 1)$$, '... unless he is trusted');
RESET ROLE;
SELECT * FROM finish();
