-- Rights that change after a flow was made: a target that a superuser gets, an owner who loses his rights, a source
-- with another owner, a schema of ours that is somebody else's.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(20);
CREATE ROLE alice;
CREATE ROLE bob;
CREATE ROLE carol;
GRANT alice TO bob;
CREATE SCHEMA a AUTHORIZATION alice;
GRANT ALL ON SCHEMA a TO bob, carol;
\ir parts/wait.sql
SET SESSION AUTHORIZATION alice;
CREATE TABLE a.t (id int PRIMARY KEY);
SELECT scd2.track('a.t'), scd2.track('a.t', 'a.other') \g /dev/null
SET SESSION AUTHORIZATION bob;
SELECT scd2.track('a.t', 'a.of_bob') \g /dev/null
SELECT scd2.sync() \g /dev/null
RESET SESSION AUTHORIZATION;

-- what a superuser owns is not made by running somebody else's code
ALTER TABLE a.t_history OWNER TO CURRENT_USER;
INSERT INTO a.t VALUES (1);
CALL wait_until($$(SELECT state = 'failed' FROM scd2.flows WHERE flow = 't_history')$$);
SELECT matches((SELECT last_error FROM scd2.flows WHERE flow = 't_history'), '^42501: target a.t_history belongs to a superuser', 'a target that a superuser got is not kept from others'' tables');
SELECT is((SELECT count(*) FROM a.t_history), 0::bigint, '... and has nothing');
SELECT lives_ok('SELECT scd2.sync(targets => ''{a.other,a.of_bob}'')', 'other flows go on');
SELECT is((SELECT count(*) FROM a.other), 1::bigint, '... and have it');
ALTER TABLE a.t_history OWNER TO alice;
SELECT scd2.resume_flow('t_history') \g /dev/null
SELECT lives_ok('SELECT scd2.sync()', 'its owner''s again, it goes on');
SELECT is((SELECT count(*) FROM a.t_history), 1::bigint, '... and has it');

-- an owner who loses his rights
REVOKE alice FROM bob;
INSERT INTO a.t VALUES (2);
CALL wait_until($$(SELECT state = 'failed' FROM scd2.flows WHERE flow = 'of_bob')$$);
SELECT matches((SELECT last_error FROM scd2.flows WHERE flow = 'of_bob'), '^42501: permission denied for table t_changes', 'who may not read the feed any more gets nothing');
SET SESSION AUTHORIZATION bob;
SELECT is((SELECT state FROM scd2.flows WHERE flow = 'of_bob'), 'failed', 'he sees that it has failed');
SELECT throws_ok($$SELECT scd2.track('a.t', 'a.again')$$, '42501', NULL, 'and makes no other');
RESET SESSION AUTHORIZATION;
SELECT lives_ok('SELECT scd2.sync(targets => ''{a.other,a.t_history}'')', 'others go on');
GRANT SELECT ON a.t_changes TO bob;
SELECT scd2.resume_flow('of_bob') \g /dev/null
SELECT lives_ok('SELECT scd2.sync()', 'who may read it again gets what came');

-- a source that gets another owner: what goes along brings nobody's code
SET SESSION AUTHORIZATION alice;
CREATE FUNCTION a.trap(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN true; END $$;
CREATE FUNCTION a.trap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
RESET SESSION AUTHORIZATION;
SET pg_scd2.own_ddl = on;      -- as from an earlier version: a feed does not take it any more
ALTER TABLE a.t_changes ADD CONSTRAINT trap CHECK (a.trap(id));
RESET pg_scd2.own_ddl;
SELECT throws_ok('ALTER TABLE a.t OWNER TO CURRENT_USER', '42501', 'table "a.t_changes" cannot go to role "' || current_user || '" along with what it is made from: it calls a function of role "alice"', 'a feed with a check of the former owner''s goes to nobody with its table');
SET SESSION AUTHORIZATION alice;
ALTER TABLE a.t_changes DROP CONSTRAINT trap;
CREATE TRIGGER trap BEFORE INSERT ON a.other FOR EACH ROW EXECUTE FUNCTION a.trap();
RESET SESSION AUTHORIZATION;
SELECT throws_ok('ALTER TABLE a.t OWNER TO carol', '42501', 'table "a.other" cannot go to role "carol" along with what it is made from: it calls a function of role "alice"', 'nor a target with a trigger');
DROP TRIGGER trap ON a.other;
SELECT lives_ok('ALTER TABLE a.t OWNER TO carol', 'without, they go along');
SET SESSION AUTHORIZATION alice;
SELECT throws_ok($$SELECT * FROM scd2.table_changes('a.t')$$, '42501', NULL, 'the former owner does not read on');
SET SESSION AUTHORIZATION carol;
SELECT lives_ok($$SELECT * FROM scd2.table_changes('a.t')$$, 'the new one does');
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
