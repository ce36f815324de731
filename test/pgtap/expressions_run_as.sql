-- Whoever's the source is: expressions run as the owner of the target, where they are declared, altered and applied. A source
-- that a superuser owns would make their author one.
\set QUIET on
SET client_min_messages = warning;
CREATE ROLE carl;
CREATE ROLE boss SUPERUSER;
CREATE SCHEMA b AUTHORIZATION boss;
CREATE SCHEMA c AUTHORIZATION carl;
GRANT USAGE ON SCHEMA b TO carl;
GRANT USAGE ON SCHEMA c TO public;
SET ROLE boss;
CREATE TABLE b.t (id int PRIMARY KEY, v int);
CREATE TABLE b.ev (id int, v int, s int);
SELECT scd2.enable_change_feed('b.t'), scd2.enable_change_feed('b.ev') \g /dev/null
GRANT SELECT ON b.t, b.ev, b.t_changes, b.ev_changes TO carl;
SET ROLE carl;
-- a literal runs the check where it is read, a cast where it is evaluated: each raises unless it runs as carl
CREATE FUNCTION c.is_carl() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF current_user <> 'carl' THEN
        RAISE 'it runs as %', current_user USING ERRCODE = 'P0999';
    END IF;
    RETURN true;
END $$;
CREATE DOMAIN c.mine AS int CHECK (c.is_carl());
SELECT plan(18);
SELECT lives_ok($$SELECT scd2.track('b.t', 'c.net', source_filter => '''1''::c.mine = 1 AND v::c.mine = v', apply_as_deletes => 'v::c.mine = -1')$$, 'track');
SELECT lives_ok($$SELECT scd2.create_auto_cdc_flow('c.changes', 'b.t_changes', '{id}', '(''0''::c.mine + v)', delete_sequence_by => '''5''::c.mine::int', stored_as_scd_type => 2)$$, 'a feed with a sequence of its own');
SELECT lives_ok($$SELECT scd2.create_auto_cdc_flow('c.events', 'b.ev', '{id}', '(''0''::c.mine + s)', apply_as_deletes => 'v::c.mine = ''-1''::c.mine', end_sequence_by => '''999''::c.mine::int', stored_as_scd_type => 2)$$, 'events');
SELECT lives_ok($$SELECT scd2.create_auto_cdc_flow('c.structs', 'b.ev', '{id}', 'struct(''0''::c.mine + s, v)', stored_as_scd_type => 2)$$, 'a struct');
SELECT lives_ok($$SELECT scd2.create_auto_cdc_from_snapshot_flow('c.snaps', 'b.t', '{id}', 'int', scope => 'id::c.mine >= ''0''::c.mine', version_query => 'SELECT ''7''::c.mine::int', once => true)$$, 'snapshots');
SELECT lives_ok($$SELECT scd2.create_append_flow('c.app', 'b.ev', source_filter => 'v::c.mine <> ''-2''::c.mine')$$, 'appending');
RESET ROLE;
SELECT scd2.sync() \g /dev/null
SET ROLE boss;
INSERT INTO b.t VALUES (1, 1);
INSERT INTO b.ev VALUES (1, 1, 1), (1, 2, 2);
UPDATE b.t SET v = 2;
RESET ROLE;
SELECT lives_ok('SELECT scd2.sync()', 'they are applied');
SET ROLE carl;
SELECT is((SELECT count(*) FROM c.net WHERE __end_at IS NULL), 1::bigint, '... with rows');
SELECT is((SELECT count(*) FROM c.events), 1::bigint, '... of events');
SELECT is((SELECT count(*) FROM c.app), 2::bigint, '... appended');
SELECT is((SELECT count(*) FROM c.snaps), 0::bigint, '... and of a snapshot that was taken before');
SELECT lives_ok($$SELECT scd2.alter_flow('net', source_filter => '''2''::c.mine = 2', apply_as_deletes => '''-1''::c.mine = v')$$, 'alter_flow, over a feed');
SELECT lives_ok($$SELECT scd2.alter_flow('events', sequence_by => '(''1''::c.mine + s)')$$, 'alter_flow, of events');
SELECT lives_ok($$SELECT scd2.alter_flow('app', source_filter => '''2''::c.mine = 2')$$, 'alter_flow, appending');
SELECT lives_ok($$SELECT scd2.full_refresh('c.net', key_filter => 'id = ''1''::c.mine', allow_loss => true)$$, 'full_refresh of some keys');
SELECT lives_ok($$SELECT count(*) FROM scd2.check_target('c.changes')$$, 'check_target');
SELECT lives_ok($$SELECT scd2.full_refresh('c.snaps')$$, 'full_refresh of a snapshot');
RESET ROLE;
SELECT lives_ok('SELECT scd2.sync()', 'which is taken');
SELECT * FROM finish();
