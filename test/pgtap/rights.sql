-- The rights table of the README, cell by cell: each call by each kind of role. What counts is whether it is refused for
-- want of rights (42501); everything is rolled back.
\set QUIET on
SET client_min_messages = warning;
CREATE ROLE alice;                      -- owns the sources
CREATE ROLE bob IN ROLE alice;          -- a member, who has a target of his own
CREATE ROLE staff NOINHERIT IN ROLE alice;
CREATE ROLE eve;
CREATE ROLE granted;                    -- may read all of it
CREATE ROLE watcher IN ROLE pg_monitor;
CREATE ROLE boss SUPERUSER;
CREATE SCHEMA a AUTHORIZATION alice;
CREATE SCHEMA of_boss AUTHORIZATION boss;
GRANT USAGE ON SCHEMA a, of_boss TO public;
GRANT CREATE ON SCHEMA a TO public;      -- that is not what is missing
SET ROLE alice;
CREATE TABLE a.off (id int PRIMARY KEY, v int);
CREATE TABLE a.t (id int PRIMARY KEY, v int);
CREATE TABLE a.ev (id int, s int);
GRANT SELECT, INSERT, UPDATE, DELETE ON a.off, a.t, a.ev TO granted;
SELECT scd2.track('a.t') \g /dev/null
SELECT scd2.enable_change_feed('a.ev'), scd2.create_reader('r', 'a.t') \g /dev/null
SELECT scd2.create_auto_cdc_from_snapshot_flow('a.snap', 'a.off', '{id}', 'int', stored_as_scd_type => 2) \g /dev/null
GRANT SELECT, INSERT, UPDATE, DELETE ON a.t_history, a.snap TO granted;
GRANT SELECT ON a.t_changes TO granted;
SET ROLE bob;
SELECT scd2.track('a.t', 'a.of_bob') \g /dev/null
RESET ROLE;
SELECT scd2.sync() \g /dev/null
INSERT INTO a.t VALUES (1, 1);
DELETE FROM a.t;
SELECT scd2.sync() \g /dev/null

CREATE FUNCTION refused(role name, call text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', role);
    EXECUTE call;
    RAISE EXCEPTION 'back';
EXCEPTION WHEN insufficient_privilege THEN
    RETURN true;
WHEN OTHERS THEN
    RETURN false;
END $$;
CREATE TABLE cell (who text, call text, roles name[]);
INSERT INTO cell VALUES
    ('owner of the source', 'SELECT scd2.enable_change_feed(''a.off'')', '{alice,bob,boss}'),
    ('owner of the source', 'SELECT scd2.alter_change_feed(''a.t'', retention => ''1 day'')', '{alice,bob,boss}'),
    ('owner of the source', 'SELECT scd2.alter_change_feed(''a.ev'', except_column_list => ''{s}'')', '{alice,bob,boss}'),
    ('owner of the source', 'SELECT scd2.disable_change_feed(''a.ev'', drop_feed => true)', '{alice,bob,boss}'),
    ('owner of the source', 'SELECT scd2.track(''a.off'')', '{alice,bob,boss}'),
    ('who may read source and feed', 'SELECT scd2.track(''a.t'', ''a.more'')', '{alice,bob,granted,boss}'),
    ('... and create in the target''s schema', 'SELECT scd2.track(''a.t'', ''of_boss.more'')', '{boss}'),
    ('... and become the owner of a target that is there', 'SELECT scd2.track(''a.t'', ''a.of_bob'', apply_as_truncates => ''false'')', '{bob,boss}'),
    ('owner of source and targets', 'SELECT scd2.untrack(''a.t'')', '{bob,boss}'),
    ('owner of the source', 'SELECT scd2.create_auto_cdc_flow(''a.dim'', ''a.ev'', ''{id}'', ''s'')', '{alice,bob,boss}'),
    ('who may read source and feed', 'SELECT scd2.create_auto_cdc_flow(''a.dim'', ''a.t_changes'', ''{id}'')', '{alice,bob,granted,boss}'),
    ('who may read the source', 'SELECT scd2.create_auto_cdc_flow(''a.dim'', ''a.t'', ''{id}'', ''v'', once => true)', '{alice,bob,granted,boss}'),
    ('who may read the source, but not its feed', 'SELECT scd2.create_append_flow(''a.all'', ''a.ev'')', '{alice,bob,boss}'),
    ('who may read source and feed', 'SELECT scd2.create_append_flow(''a.all'', ''a.t'')', '{alice,bob,granted,boss}'),
    ('who may read the source', 'SELECT scd2.create_auto_cdc_from_snapshot_flow(''a.snap_2'', ''a.off'', ''{id}'')', '{alice,bob,granted,boss}'),
    ('owner of the source', 'SELECT scd2.create_reader(''r2'', ''a.t'')', '{alice,bob,boss}'),
    ('owner of the source', 'SELECT * FROM scd2.read_changes(''r'', NULL::a.t_changes)', '{alice,bob,boss}'),
    ('owner of the source', 'SELECT scd2.advance_reader(''r'')', '{alice,bob,boss}'),
    ('owner of the source', 'SELECT scd2.drop_reader(''r'')', '{alice,bob,boss}'),
    ('owner of the source', 'SELECT * FROM scd2.vacuum_feed(''a.t'', dry_run => true)', '{alice,bob,boss}'),
    ('owner of the source', 'SELECT * FROM scd2.erase(''a.t'', ''{"id": 1}'')', '{alice,bob,boss}'),
    ('owner of the source', 'SELECT scd2.resync(''a.t'')', '{alice,bob,boss}'),
    ('owner of the target', 'SELECT scd2.pause_flow(''t_history'')', '{alice,bob,boss}'),
    ('owner of the target', 'SELECT scd2.resume_flow(''t_history'')', '{alice,bob,boss}'),
    ('who can SET ROLE to the owner of the target', 'SELECT scd2.alter_flow(''t_history'', refresh_interval => ''1 h'')', '{alice,bob,staff,boss}'),
    ('who can SET ROLE to the owner of the target', 'SELECT * FROM scd2.authorize_flow(''t_history'')', '{alice,bob,staff,boss}'),
    ('who can SET ROLE to the owner of the target, not of the source', 'SELECT * FROM scd2.authorize_flow(''of_bob'')', '{bob,boss}'),
    ('a superuser alone says that others are to be trusted', 'SELECT scd2.track(''a.t'', ''a.trusting'', trust => true)', '{boss}'),
    ('owner of the target', 'SELECT scd2.drop_flow(''t_history'', drop_target => true)', '{alice,bob,boss}'),
    ('owner of the target', 'SELECT scd2.full_refresh(''a.t_history'')', '{alice,bob,boss}'),
    ('owner of the target', 'SELECT scd2.full_refresh(''a.t_history'', key_filter => ''id = 1'')', '{alice,bob,boss}'),
    ('owner of the target', 'SELECT * FROM scd2.purge_history(''a.t_history'', now(), dry_run => true)', '{alice,bob,boss}'),
    ('owner of the target', 'SELECT * FROM scd2.check_target(''a.t_history'')', '{alice,bob,boss}'),
    ('owner of what is no target, who is told that', 'SELECT scd2.full_refresh(''a.ev'')', '{alice,bob,boss}'),
    ('owner of what is no target, who is told that', 'SELECT * FROM scd2.purge_history(''a.ev'', now())', '{alice,bob,boss}'),
    ('owner of what is no target, who is told that', 'SELECT * FROM scd2.check_target(''a.ev'')', '{alice,bob,boss}'),
    ('owner of the target', 'SELECT scd2.skip_version(''t_history'', 1)', '{alice,bob,boss}'),
    ('owner of the target', 'SELECT * FROM scd2.apply_snapshot(''snap'', 1)', '{alice,bob,boss}'),
    ('owner of the target, not of the source', 'SELECT scd2.pause_flow(''of_bob'')', '{bob,boss}'),
    ('owner of the target, not of the source', 'SELECT scd2.full_refresh(''a.of_bob'')', '{bob,boss}'),
    ('owner of the target, not of the source', 'SELECT * FROM scd2.check_target(''a.of_bob'')', '{bob,boss}'),
    ('owner of the target, not of the source', 'SELECT scd2.drop_flow(''of_bob'')', '{bob,boss}'),
    ('who may read the feed', 'SELECT * FROM scd2.table_changes(''a.t'')', '{alice,bob,granted,boss}'),
    ('who may read the feed', 'SELECT * FROM scd2.table_changes(NULL::a.t_changes, 0)', '{alice,bob,granted,boss}'),
    ('who may read the feed', 'SELECT * FROM scd2.describe_history(''a.t'')', '{alice,bob,granted,boss}'),
    ('who may read the feed', 'SELECT scd2.earliest_version(''a.t'')', '{alice,bob,granted,boss}'),
    ('who may read feed and source', 'SELECT * FROM scd2.table_at(NULL::a.t, scd2.latest_version())', '{alice,bob,granted,boss}'),
    ('who may read the target', 'SELECT * FROM a.t_history_as_of(now())', '{alice,bob,granted,boss}'),
    ('nobody writes them', 'DELETE FROM scd2_internal.rejected', '{boss}'),
    ('superuser', 'SELECT scd2.stop()', '{boss}'),
    ('superuser', 'SELECT scd2.start()', '{boss}'),
    ('superuser', 'SELECT scd2.resume_capture()', '{boss}'),
    ('everybody', 'SELECT scd2.latest_version()', '{alice,bob,staff,eve,granted,watcher,boss}'),
    ('everybody', 'SELECT * FROM scd2.preflight()', '{alice,bob,staff,eve,granted,watcher,boss}'),
    ('everybody', 'SELECT * FROM scd2.diagnose()', '{alice,bob,staff,eve,granted,watcher,boss}'),
    ('everybody', 'SELECT (SELECT count(*) FROM scd2.feeds), (SELECT count(*) FROM scd2.flows), (SELECT count(*) FROM scd2.readers), (SELECT count(*) FROM scd2.batches), (SELECT count(*) FROM scd2.capture), (SELECT count(*) FROM scd2.progress), (SELECT count(*) FROM scd2.rejected_events), (SELECT count(*) FROM scd2.erasures), (SELECT count(*) FROM scd2.skipped_versions)', '{alice,bob,staff,eve,granted,watcher,boss}');

SELECT plan((SELECT count(*)::int FROM cell) + 15);
SELECT is((SELECT array_agg(r ORDER BY r::text) FROM unnest('{alice,bob,staff,eve,granted,watcher,boss}'::name[]) r WHERE NOT refused(r, c.call)), (SELECT array_agg(r ORDER BY r::text) FROM unnest(c.roles) r), format('%s: %s', c.who, c.call))
FROM cell c;

-- what is granted by a superuser
SELECT ok(refused('eve', 'SELECT scd2.stop()'), 'scd2.stop() is nobody else''s');
GRANT EXECUTE ON FUNCTION scd2.stop(), scd2.start(), scd2.resume_capture(boolean) TO eve;
SELECT ok(NOT refused('eve', call), 'unless it is granted: ' || call) FROM unnest('{"SELECT scd2.stop()","SELECT scd2.start()","SELECT scd2.resume_capture()"}'::text[]) call;

-- what views tell
CREATE FUNCTION seen(role name) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', role);
    SELECT concat_ws(' ', (SELECT count(*) FROM scd2.feeds), (SELECT count(*) FROM scd2.flows), (SELECT count(*) FROM scd2.readers), (SELECT count(last_error) FROM scd2.flows), (SELECT count(*) > 0 FROM scd2.batches), (SELECT count(*) FROM scd2.rejected_events)) INTO result;
    RAISE EXCEPTION 'back';
EXCEPTION WHEN raise_exception THEN
    RETURN result;
END $$;
UPDATE scd2_internal.flow_state SET last_error = 'secret';
INSERT INTO scd2_internal.rejected (flow_id, reason, event) SELECT flow_id, 'invalid', '"secret"' FROM scd2_internal.flow WHERE name = 't_history';
SELECT is(seen('alice'), '2 2 1 2 t 1', 'an owner sees what concerns his tables');
SELECT is(seen('bob'), '2 3 1 3 t 1', 'a member too, and his own');
SELECT is(seen('eve'), '0 0 0 0 f 0', 'others see nothing');
SELECT is(seen('granted'), '0 0 0 0 f 0', 'nor does who may read the tables');
SELECT is(seen('watcher'), '2 3 1 0 t 0', 'members of pg_monitor see all, but neither error texts nor rejected events');

-- row level security of the source
SET ROLE alice;
ALTER TABLE a.t ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON a.t USING (id > 100);
RESET ROLE;
SELECT is((SELECT array_agg(c.oid::regclass::text ORDER BY c.relname) FROM pg_class c WHERE c.relnamespace = 'a'::regnamespace AND c.relrowsecurity AND c.oid <> 'a.t'::regclass), '{a.of_bob,a.t_changes,a.t_history}', 'what is made from a table gets row level security with it');
SELECT ok(refused('granted', call), 'who was granted it before has no rows of it: ' || call) FROM unnest('{"SELECT * FROM scd2.table_changes(''a.t'')","SELECT * FROM scd2.describe_history(''a.t'')"}'::text[]) call;
SET ROLE granted;
SELECT is((SELECT count(*) FROM a.t_changes) + (SELECT count(*) FROM a.t_history), 0::bigint, 'nor in plain queries');
SET ROLE alice;
CREATE POLICY readers ON a.t_changes TO granted USING (true);
SELECT isnt_empty('SELECT * FROM scd2.table_changes(''a.t'')', 'its owner has them all');
SET ROLE granted;
SELECT isnt_empty('SELECT * FROM scd2.table_changes(''a.t'')', 'and who gets a policy');
RESET ROLE;
SELECT * FROM finish();
