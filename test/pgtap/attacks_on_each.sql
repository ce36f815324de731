-- Each public call by an ordinary role against tables of a superuser, of a stranger, and of a role that it is a member of
-- without inheriting: what is theirs is neither read nor changed, whatever may be had by SET ROLE.
\set QUIET on
SET client_min_messages = error;
CREATE ROLE mallory;
CREATE ROLE boss SUPERUSER;
CREATE ROLE alice;
CREATE ROLE team;
ALTER ROLE mallory NOINHERIT;
GRANT team TO mallory;
CREATE TABLE victim (name name);
INSERT INTO victim VALUES ('boss'), ('alice'), ('team');
SELECT format('CREATE SCHEMA of_%1$s AUTHORIZATION %1$I; GRANT ALL ON SCHEMA of_%1$s TO mallory', name) FROM victim \gexec
CREATE SCHEMA m AUTHORIZATION mallory;
SELECT format($$SET ROLE %1$I; CREATE TABLE of_%1$s.t (id int PRIMARY KEY, v text); CREATE TABLE of_%1$s.ev (id int, s int, v text);
    SELECT scd2.track('of_%1$s.t', 'of_%1$s.h', name => '%1$s_h'), scd2.create_auto_cdc_flow('of_%1$s.d', 'of_%1$s.ev', '{id}', 's', stored_as_scd_type => 2, name => '%1$s_d'),
           scd2.create_auto_cdc_from_snapshot_flow('of_%1$s.snap', 'of_%1$s.t', '{id}', 'int', name => '%1$s_snap'), scd2.create_append_flow('of_%1$s.app', 'of_%1$s.ev', name => '%1$s_app'), scd2.create_reader('%1$s_r', 'of_%1$s.t');
    RESET ROLE$$, name) FROM victim \gexec
SELECT scd2.sync() \g /dev/null
SELECT format($$INSERT INTO of_%1$s.t VALUES (1, 'secret'); INSERT INTO of_%1$s.ev VALUES (1, 1, 'secret')$$, name) FROM victim \gexec
SELECT scd2.sync() \g /dev/null
SELECT 'nobody reads or changes this' AS picture, count(*) AS flows, sum(definition) AS definitions, bool_or(paused) AS paused FROM scd2_internal.flow \gset before_

-- takes: whether SET ROLE would do ('set'), or what is inherited counts ('inherit')
CREATE TABLE attack (takes text, call text);
INSERT INTO attack VALUES
    ('inherit', $$SELECT scd2.enable_change_feed('%1$s.t')$$), ('inherit', $$SELECT scd2.alter_change_feed('%1$s.t', retention => '1 day')$$), ('inherit', $$SELECT scd2.disable_change_feed('%1$s.t')$$),
    ('inherit', $$SELECT scd2.track('%1$s.t', 'm.stolen')$$), ('inherit', $$SELECT scd2.track('%1$s.t')$$), ('inherit', $$SELECT scd2.untrack('%1$s.t')$$),
    ('inherit', $$SELECT scd2.create_auto_cdc_flow('m.stolen', '%1$s.t_changes', '{id}')$$), ('inherit', $$SELECT scd2.create_auto_cdc_flow('m.stolen', '%1$s.ev', '{id}', 's')$$),
    ('inherit', $$SELECT scd2.create_auto_cdc_flow('m.stolen', '%1$s.t', '{id}', 'id', once => true)$$), ('inherit', $$SELECT scd2.create_auto_cdc_from_snapshot_flow('m.stolen', '%1$s.t', '{id}')$$),
    ('inherit', $$SELECT scd2.create_append_flow('m.stolen', '%1$s.ev')$$), ('inherit', $$SELECT scd2.create_append_flow('m.stolen', '%1$s.t', once => true)$$),
    ('set', $$SELECT scd2.create_auto_cdc_flow('%1$s.d', '%1$s.ev', '{id}', 's', stored_as_scd_type => 2)$$),
    ('set', $$SELECT scd2.alter_flow('%2$s_d', source_filter => 'false')$$), ('set', $$SELECT * FROM scd2.authorize_flow('%2$s_d')$$),
    ('inherit', $$SELECT scd2.pause_flow('%2$s_h')$$), ('inherit', $$SELECT scd2.resume_flow('%2$s_h')$$), ('inherit', $$SELECT scd2.drop_flow('%2$s_h', true)$$), ('inherit', $$SELECT scd2.skip_version('%2$s_h', 1)$$),
    ('inherit', $$SELECT scd2.full_refresh('%1$s.h', allow_loss => true)$$), ('inherit', $$SELECT scd2.full_refresh('%1$s.h', key_filter => 'id = 1')$$), ('inherit', $$SELECT * FROM scd2.check_target('%1$s.h')$$),
    ('inherit', $$SELECT scd2.purge_history('%1$s.h', now())$$), ('inherit', $$SELECT * FROM scd2.apply_snapshot('%2$s_snap', 1)$$), ('inherit', $$SELECT * FROM scd2.erase('%1$s.t', '{"id": 1}')$$),
    ('inherit', $$SELECT scd2.resync('%1$s.t')$$), ('inherit', $$SELECT * FROM scd2.vacuum_feed('%1$s.t')$$), ('inherit', $$SELECT scd2.create_reader('mine', '%1$s.t')$$),
    ('inherit', $$SELECT * FROM scd2.read_changes('%2$s_r', NULL::%1$s.t_changes)$$), ('inherit', $$SELECT scd2.advance_reader('%2$s_r')$$), ('inherit', $$SELECT scd2.drop_reader('%2$s_r')$$),
    ('inherit', $$SELECT * FROM scd2.table_changes('%1$s.t')$$), ('inherit', $$SELECT * FROM scd2.table_changes(NULL::%1$s.t_changes, 0)$$), ('inherit', $$SELECT * FROM scd2.describe_history('%1$s.t')$$),
    ('inherit', $$SELECT * FROM scd2.table_at(NULL::%1$s.t, scd2.latest_version())$$), ('inherit', $$SELECT * FROM %1$s.h_as_of(now())$$), ('inherit', $$SELECT * FROM %1$s.d_memory$$),
    ('inherit', $$SELECT * FROM scd2._read_rows(NULL::%1$s.t_changes, '%1$s.t_changes', 'SELECT * FROM %1$s.t_changes', NULL, NULL, NULL, NULL)$$),
    ('inherit', $$SELECT * FROM scd2._read_records(NULL, '%1$s.t', 'SELECT * FROM %1$s.t', NULL, NULL, NULL, NULL, NULL) AS r (id int, v text)$$);
CREATE FUNCTION refused(call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    SET LOCAL ROLE mallory;
    EXECUTE call;
    RAISE EXCEPTION 'back' USING ERRCODE = 'P0998';
EXCEPTION WHEN sqlstate 'P0998' THEN
    RETURN 'done';
WHEN OTHERS THEN
    RETURN sqlstate;
END $$;
SELECT plan((SELECT count(*)::int FROM attack) * 3 + 2);
SELECT CASE WHEN a.takes = 'set' AND v.name = 'team' THEN isnt(refused(c.call), '42501', 'SET ROLE would do: ' || c.call) ELSE is(refused(c.call), '42501', c.call) END
FROM victim v, attack a, LATERAL (SELECT format(a.call, 'of_' || v.name, v.name)) c (call) ORDER BY v.name, a.call;
SELECT is((SELECT count(*) || ' ' || sum(definition) || ' ' || bool_or(paused) FROM scd2_internal.flow), :'before_flows' || ' ' || :'before_definitions' || ' ' || CASE :'before_paused' WHEN 'f' THEN 'false' ELSE 'true' END, 'nothing has changed');
SET ROLE mallory;
SELECT is((SELECT count(*) FROM scd2.flows) + (SELECT count(*) FROM scd2.feeds) + (SELECT count(*) FROM scd2.readers) + (SELECT count(*) FROM scd2.diagnose() WHERE subject ~ '^(flow|table)'), 0::bigint, 'and nothing is told of them');
RESET ROLE;
SELECT * FROM finish();
