-- Owners and rights that change after a flow was made: a target with another owner, an owner who loses his rights or
-- becomes a superuser, a source with another owner, a schema of ours that is somebody else's.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(43);
CREATE ROLE alice;
CREATE ROLE bob;
CREATE ROLE carol;
CREATE ROLE mallory;
GRANT alice TO bob;
CREATE SCHEMA a AUTHORIZATION alice;
GRANT ALL ON SCHEMA a TO bob, carol, mallory;
\ir parts/wait.sql
SET SESSION AUTHORIZATION alice;
CREATE TABLE a.t (id int PRIMARY KEY);
CREATE FUNCTION a.even(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN true; END $$;
SELECT scd2.track('a.t', source_filter => 'a.even(id)'), scd2.track('a.t', 'a.other') \g /dev/null
SET SESSION AUTHORIZATION bob;
SELECT scd2.track('a.t', 'a.of_bob') \g /dev/null
SELECT scd2.sync() \g /dev/null
RESET SESSION AUTHORIZATION;

-- a target that another role gets: its flows wait for his word, and nobody else's will do
SET SESSION AUTHORIZATION alice;
CREATE FUNCTION a.logs() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO a.log VALUES (current_user); RETURN NEW; END $$;
CREATE TABLE a.log (who name);
GRANT ALL ON a.log TO public;
CREATE TRIGGER logs BEFORE INSERT ON a.t_history FOR EACH ROW EXECUTE FUNCTION a.logs();
GRANT SELECT ON a.t, a.t_changes TO carol;
RESET SESSION AUTHORIZATION;
ALTER TABLE a.t_history OWNER TO carol;
INSERT INTO a.t VALUES (1);
CALL wait_until($$(SELECT state = 'failed' FROM scd2.flows WHERE flow = 't_history')$$);
SELECT matches((SELECT last_error FROM scd2.flows WHERE flow = 't_history'), '^42501: flow "t_history" is not authorized: its target a.t_history belongs to role "carol"', 'a flow stops when its target gets another owner');
SELECT is((SELECT count(*) FROM a.t_history), 0::bigint, '... and writes nothing');
SELECT is_empty('SELECT * FROM a.log', '... nor has what hangs on it run');
SELECT lives_ok('SELECT scd2.sync(targets => ''{a.other,a.of_bob}'')', 'other flows go on');
SELECT is((SELECT count(*) FROM a.other), 1::bigint, '... and have it');
SET SESSION AUTHORIZATION alice;
SELECT throws_ok($$SELECT * FROM scd2.authorize_flow('t_history')$$, '42501', 'must be able to SET ROLE "carol"', 'the former owner does not say so');
SELECT throws_ok($$SELECT scd2.alter_flow('t_history', source_filter => 'true')$$, '42501', 'must be able to SET ROLE "carol"', 'nor changes it');
SELECT throws_ok($$SELECT * FROM scd2.erase('a.t', '{"id": 3}')$$, '42501', NULL, 'nor has rows erased from it, which would run the trigger');
SET SESSION AUTHORIZATION carol;
SELECT throws_ok($$SELECT scd2.alter_flow('t_history', source_filter => 'true')$$, '42501', 'flow "t_history" is not authorized: its target a.t_history belongs to role "carol"', 'the new one looks before he changes it');
SELECT throws_ok($$SELECT scd2.full_refresh('a.t_history', key_filter => 'id = 1')$$, '42501', 'flow "t_history" is not authorized: its target a.t_history belongs to role "carol"', '... or refreshes some keys');
SELECT is((SELECT problem FROM scd2.diagnose() WHERE subject = 'flow t_history'), 'it is not authorized: its target belongs to role "carol", and it was written for role "alice"', 'diagnose() says it');
SELECT matches((SELECT detail FROM scd2.diagnose() WHERE subject = 'flow t_history'), 'source_filter t_history: a.even\(id\) \(calls what role "alice" owns\); trigger a.t_history.logs: .* \(calls what role "alice" owns\)', '... with what would run, and whose it is');
SELECT fix AS fix FROM scd2.diagnose() WHERE subject = 'flow t_history' \gset
SELECT throws_ok($$SELECT scd2.sync(targets => '{a.t_history}')$$, '55000', NULL, 'sync() says that it has failed');
BEGIN;
SELECT results_eq($$SELECT kind, object, owner FROM scd2.authorize_flow('t_history') WHERE kind IN ('source_filter', 'trigger')$$, $$VALUES ('source_filter', 't_history', 'alice'::name), ('trigger', 'a.t_history.logs', 'alice')$$, 'authorize_flow() returns it, to be looked at before COMMIT');
ROLLBACK;
:fix \g /dev/null
SELECT lives_ok('SELECT scd2.sync(targets => ''{a.t_history}'')', 'the statement that diagnose() gives has it go on');
SELECT is((SELECT count(*) FROM a.t_history), 1::bigint, '... with what came meanwhile');
SELECT results_eq('SELECT who FROM a.log', $$VALUES ('carol'::name)$$, '... and the trigger runs as the one who agreed to it');
SELECT throws_ok('SELECT * FROM scd2.authorize_flow(NULL)', '22004', NULL, 'a name must be given');
SELECT throws_ok('SELECT * FROM scd2.authorize_flow(''nothing'')', '42704', NULL, '... of a flow');
RESET SESSION AUTHORIZATION;

-- in both directions, and by every statement that gives tables away
SET SESSION AUTHORIZATION alice;
CREATE TABLE a.u (id int PRIMARY KEY);
SELECT scd2.track('a.u') \g /dev/null
SELECT scd2.create_auto_cdc_flow('a.dim', 'a.u', '{id}', 'id') \g /dev/null
SELECT scd2.sync(targets => '{a.u_history,a.dim}') \g /dev/null
RESET SESSION AUTHORIZATION;
CREATE ROLE dora;
ALTER TABLE a.u_history OWNER TO dora;
SELECT is((SELECT problem LIKE 'it is not authorized%' FROM scd2.diagnose() WHERE subject = 'flow u_history'), true, 'ALTER TABLE … OWNER: told before the next change comes');
SET ROLE dora;
SELECT isnt((SELECT count(*) FROM scd2.authorize_flow('u_history')), 0::bigint, 'its owner says so');
RESET ROLE;
INSERT INTO a.u VALUES (1);
CALL wait_until($$(SELECT state = 'failed' FROM scd2.flows WHERE flow = 'u_history')$$);
SELECT matches((SELECT last_error FROM scd2.flows WHERE flow = 'u_history'), '^42501: permission denied for table u .* role "dora"', 'which gives no rights on the source');
SELECT matches((SELECT fix FROM scd2.diagnose() WHERE subject = 'flow u_history'), '^GRANT USAGE ON SCHEMA a TO dora; GRANT SELECT ON a\.u, a\.u_changes TO dora; SELECT scd2\.resume_flow\(''u_history''\); -- or: ALTER TABLE a\.u_history OWNER TO alice; SELECT \* FROM scd2\.authorize_flow\(''u_history''\);$', 'both ways out are told');
SELECT fix AS fix FROM scd2.diagnose() WHERE subject = 'flow u_history' \gset
:fix
SELECT lives_ok('SELECT scd2.sync(targets => ''{a.u_history}'')', 'and the statements help');
ALTER TABLE a.u_history OWNER TO alice;
SELECT is((SELECT problem LIKE 'it is not authorized%' FROM scd2.diagnose() WHERE subject = 'flow u_history'), true, 'given back, it waits again: it was written for the other meanwhile');
SET SESSION AUTHORIZATION alice;
SELECT scd2.authorize_flow('u_history', 'dim') \g /dev/null
SELECT lives_ok('SELECT scd2.sync(targets => ''{a.u_history,a.dim}'')', 'several at a time');
RESET SESSION AUTHORIZATION;

-- an owner who loses his rights
REVOKE alice FROM bob;
INSERT INTO a.t VALUES (2);
CALL wait_until($$(SELECT state = 'failed' FROM scd2.flows WHERE flow = 'of_bob')$$);
SELECT matches((SELECT last_error FROM scd2.flows WHERE flow = 'of_bob'), '^42501: permission denied for table t ', 'who may not read the source any more gets nothing');
SET SESSION AUTHORIZATION bob;
SELECT is((SELECT state FROM scd2.flows WHERE flow = 'of_bob'), 'failed', 'he sees that it has failed');
SELECT throws_ok($$SELECT scd2.track('a.t', 'a.again')$$, '42501', 'permission denied for table t', 'and makes no other');
RESET SESSION AUTHORIZATION;
SELECT lives_ok('SELECT scd2.sync(targets => ''{a.other,a.t_history}'')', 'others go on');
GRANT SELECT ON a.t TO bob;
SELECT scd2.resume_flow('of_bob') \g /dev/null
CALL wait_until($$(SELECT state = 'failed' FROM scd2.flows WHERE flow = 'of_bob')$$);
SELECT matches((SELECT last_error FROM scd2.flows WHERE flow = 'of_bob'), '^42501: permission denied for table t_changes', 'the source without its feed is not enough');
GRANT SELECT (id) ON a.t_changes TO bob;
SELECT throws_ok($$SET ROLE bob; SELECT scd2.track('a.t', 'a.again')$$, '42501', 'permission denied for table t_changes', 'nor are some of its columns');
RESET ROLE;
GRANT SELECT ON a.t_changes TO bob;
SELECT scd2.resume_flow('of_bob') \g /dev/null
SELECT lives_ok('SELECT scd2.sync(targets => ''{a.of_bob}'')', 'who may read both again gets what came');

-- a source that gets another owner: its feed goes along, no target does
ALTER TABLE a.t OWNER TO carol;
SELECT is((SELECT array_agg(format('%s %s', c.relname, pg_get_userbyid(c.relowner)) ORDER BY c.relname::text) FROM pg_class c WHERE c.oid IN ('a.t_changes'::regclass, 'a.t_history'::regclass, 'a.other'::regclass, 'a.of_bob'::regclass)),
    '{"of_bob bob","other alice","t_changes carol","t_history carol"}', 'a feed follows its source, targets stay with their owners');
INSERT INTO a.t VALUES (3);
CALL wait_until($$(SELECT state = 'failed' FROM scd2.flows WHERE flow = 'other')$$);
SELECT matches((SELECT last_error FROM scd2.flows WHERE flow = 'other'), '^42501: permission denied for table t ', 'their flows stop');
SET SESSION AUTHORIZATION alice;
SELECT throws_ok($$SELECT * FROM scd2.table_changes('a.t')$$, '42501', NULL, 'the former owner does not read on');
SELECT is((SELECT count(*) FROM a.other), 2::bigint, '... but what was recorded while the source was his');
SET SESSION AUTHORIZATION carol;
SELECT lives_ok($$SELECT * FROM scd2.table_changes('a.t')$$, 'the new one does');
SELECT lives_ok($$SELECT scd2.sync(targets => '{a.t_history}')$$, 'and his own history goes on');
RESET SESSION AUTHORIZATION;
ALTER TABLE a.t_changes OWNER TO alice;
SET SESSION AUTHORIZATION carol;
SELECT is((SELECT problem FROM scd2.diagnose() WHERE subject = 'table a.t'), 'its change data feed belongs to role "alice"', 'if the feed is given to somebody, its source''s owner is told');
RESET SESSION AUTHORIZATION;
SELECT fix AS fix FROM scd2.diagnose() WHERE subject = 'table a.t' \gset
:fix
SELECT is_empty('SELECT * FROM scd2.diagnose() WHERE subject = ''table a.t''', 'the statements that help do');

-- our schema
DROP EXTENSION pg_scd2 CASCADE;
ALTER SCHEMA scd2 OWNER TO bob;
SELECT throws_ok('CREATE EXTENSION pg_scd2', '42501', NULL, 'a schema that somebody else owns is not used for the extension');
ALTER SCHEMA scd2 OWNER TO CURRENT_USER;
CREATE FUNCTION scd2.sync(name) RETURNS bigint LANGUAGE sql AS 'SELECT 1';
SELECT throws_ok('CREATE EXTENSION pg_scd2', '55000', NULL, 'nor one that has something in it');
SELECT * FROM finish();
