-- Flows and row security: what policies hide from the owner of a target would be missing from it without a word, so the
-- flow is refused, or stops. Whom policies do not concern reads on.
\set QUIET on
SET client_min_messages = error;
SELECT plan(17);
CREATE ROLE alice;
CREATE ROLE bob;
CREATE SCHEMA a AUTHORIZATION alice;
CREATE SCHEMA b AUTHORIZATION bob;
GRANT USAGE ON SCHEMA a TO bob;
\ir parts/wait.sql
SET ROLE alice;
CREATE TABLE a.t (id int PRIMARY KEY, v int);
CREATE TABLE a.ev (id int, s int);
SELECT scd2.enable_change_feed('a.t'), scd2.enable_change_feed('a.ev') \g /dev/null
GRANT SELECT ON a.t, a.ev, a.t_changes, a.ev_changes TO bob;
SET ROLE bob;
SELECT scd2.track('a.t', 'b.h'), scd2.create_append_flow('b.app', 'a.ev'), scd2.create_auto_cdc_from_snapshot_flow('b.snap', 'a.t', '{id}', 'int') \g /dev/null
SET ROLE alice;
SELECT scd2.track('a.t') \g /dev/null
RESET ROLE;
SELECT scd2.sync() \g /dev/null
SET ROLE alice;
INSERT INTO a.t VALUES (1, 1), (2, 2);
RESET ROLE;
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT count(*) FROM b.h), 2::bigint, 'without policies there is nothing to hide');

-- policies come
SET ROLE alice;
CREATE POLICY p ON a.t TO bob USING (id = 1);
ALTER TABLE a.t ENABLE ROW LEVEL SECURITY;
INSERT INTO a.t VALUES (3, 3);
RESET ROLE;
CALL wait_until($$(SELECT state = 'failed' FROM scd2.flows WHERE flow = 'h')$$);
SELECT matches((SELECT last_error FROM scd2.flows WHERE flow = 'h'), '^42501: row security hides rows of table t - .* role "bob"', 'a flow of another role stops');
SELECT is((SELECT count(*) FROM b.h), 2::bigint, '... with what it has');
SET ROLE bob;
SELECT throws_ok($$SELECT * FROM scd2.apply_snapshot('snap', 1)$$, '42501', 'row security hides rows of table t', 'a snapshot is refused');
SELECT throws_ok($$SELECT scd2.track('a.t', 'b.more')$$, '42501', 'row security hides rows of table t', 'and a new flow');
SELECT throws_ok($$SELECT scd2.create_auto_cdc_from_snapshot_flow('b.more', 'a.t', '{id}')$$, '42501', 'row security hides rows of table t', '... of snapshots');
SET ROLE alice;
SELECT lives_ok('SELECT scd2.sync(targets => ''{a.t_history}'')', 'its owner''s goes on');
SELECT is((SELECT count(*) FROM a.t_history), 3::bigint, '... with all rows');

-- on the feed alone
CREATE POLICY all_rows ON a.t TO bob USING (true);
ALTER TABLE a.t DISABLE ROW LEVEL SECURITY;
SET ROLE bob;
SELECT throws_ok($$SELECT scd2.track('a.t', 'b.more')$$, '42501', 'row security hides rows of table t_changes', 'the feed got it with its source');

-- FORCE concerns the owner too
SET ROLE alice;
ALTER TABLE a.t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
RESET ROLE;
INSERT INTO a.t VALUES (4, 4);
CALL wait_until($$(SELECT state = 'failed' FROM scd2.flows WHERE flow = 't_history')$$);
SELECT matches((SELECT last_error FROM scd2.flows WHERE flow = 't_history'), '^42501: row security hides rows of table t ', 'FORCE stops the owner''s own');
SET ROLE alice;
SELECT throws_ok($$SELECT scd2.track('a.t', 'a.more')$$, '42501', 'row security hides rows of table t', '... and a new one');
ALTER TABLE a.t NO FORCE ROW LEVEL SECURITY;
SELECT scd2.resume_flow('t_history') \g /dev/null
SELECT lives_ok('SELECT scd2.sync(targets => ''{a.t_history}'')', 'without it, it goes on');
SELECT is((SELECT count(*) FROM a.t_history), 4::bigint, '... and has all');
RESET ROLE;

-- who bypasses them
ALTER ROLE bob BYPASSRLS;
SET ROLE bob;
SELECT scd2.resume_flow('h') \g /dev/null
SELECT lives_ok('SELECT scd2.sync(targets => ''{b.h}'')', 'a role with BYPASSRLS reads on, as the hint says');
SELECT is((SELECT count(*) FROM b.h WHERE __end_at IS NULL), 4::bigint, '... everything');
SELECT lives_ok($$SELECT * FROM scd2.apply_snapshot('snap', 1)$$, 'snapshots as well');
SELECT lives_ok($$SELECT scd2.track('a.t', 'b.more')$$, 'and new flows');
SELECT * FROM finish();
