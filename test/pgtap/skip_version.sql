-- A flow that cannot apply a version applies what is before it, says which version it is and why, and goes on without
-- it when it is told to; other flows over the same feed have it.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(31);
CREATE ROLE "Owner";
CREATE SCHEMA own AUTHORIZATION "Owner";
SET SESSION AUTHORIZATION "Owner";
SET search_path = own, public;
CREATE TABLE t (id int PRIMARY KEY, v int);
SELECT scd2.track('t'), scd2.track('t', 'other') \g /dev/null
SELECT scd2.create_append_flow('all_t', 't') \g /dev/null
SELECT scd2.sync() \g /dev/null
ALTER TABLE t_history ADD CHECK (v <> 13);
ALTER TABLE all_t ADD CHECK (v <> 13);
SELECT scd2.latest_version() AS before \gset
SELECT scd2.pause_flow('t_history'), scd2.pause_flow('all_t') \g /dev/null
DO $$ BEGIN FOR i IN 1 .. 20 LOOP INSERT INTO t VALUES (i, i); COMMIT; END LOOP; END $$;
SELECT scd2.sync() \g /dev/null
SELECT scd2.resume_flow('t_history'), scd2.resume_flow('all_t') \g /dev/null
\ir parts/wait.sql
CALL wait_until($$(SELECT state = 'failed' FROM scd2.flows WHERE flow = 't_history')$$);
CALL wait_until($$(SELECT state = 'failed' FROM scd2.flows WHERE flow = 'all_t')$$);
SELECT is((SELECT state FROM scd2.flows WHERE flow = 't_history'), 'failed', 'a version that a check refuses makes the flow fail');
SELECT is((SELECT watermark_version FROM scd2.flows WHERE flow = 't_history'), :before + 12::bigint, '... after all versions before it');
SELECT is((SELECT count(*) FROM t_history), 12::bigint, '... which are applied');
SELECT matches((SELECT last_error FROM scd2.flows WHERE flow = 't_history'), '^23514: .*\(at version ' || :before + 13 || '\).*\(13, 13, ', 'the error has the version, and the row with its key');
SELECT is((SELECT count(*) FROM all_t), 12::bigint, 'a flow that appends does the same');
SELECT matches((SELECT last_error FROM scd2.flows WHERE flow = 'all_t'), 'at version ' || :before + 13, '... and says so');
SELECT is((SELECT count(*) FROM other), 20::bigint, 'another flow over the feed has everything');
SELECT is((SELECT detail ~ ('It stopped after version ' || :before + 12) FROM scd2.diagnose() WHERE subject = 'flow t_history'), true, 'diagnose tells');

SELECT throws_ok(format('SELECT scd2.skip_version(''t_history'', %s)', :before + 12), '22023', NULL, 'a version that is applied cannot be left out');
SELECT throws_ok(format('SELECT scd2.skip_version(''t_history'', %s)', :before + 99), '22023', NULL, 'nor one that is yet to come');
SELECT throws_ok('SELECT scd2.skip_version(''nosuch'', 1)', '42704', NULL, 'nor of a flow that is none');
SELECT lives_ok(format('SELECT scd2.skip_version(''t_history'', %s), scd2.skip_version(''all_t'', %1$s)', :before + 13), 'the one that fails can');
SELECT lives_ok('SELECT scd2.sync()', 'the flow goes on');
SELECT is((SELECT array_agg(id) FROM generate_series(1, 20) id WHERE id NOT IN (SELECT h.id FROM t_history h)), '{13}', '... without it');
SELECT is((SELECT array_agg(id) FROM generate_series(1, 20) id WHERE id NOT IN (SELECT a.id FROM all_t a)), '{13}', '... the one that appends too');
SELECT results_eq('SELECT state, skipped, events = applied + duplicates + too_late + rejected + skipped FROM scd2.flows WHERE flow IN (''t_history'', ''all_t'')', $$VALUES ('running', 1::bigint, true), ('running', 1, true)$$, 'what was left out is counted');
SELECT is((SELECT string_agg(format('%s %s %s %s', flow, version, skipped_by, passed), ', ' ORDER BY flow) FROM scd2.skipped_versions), format('all_t %s Owner t, t_history %1$s Owner t', :before + 13), 'and recorded');
SELECT is((SELECT state FROM scd2.flows WHERE flow = 'other'), 'running', 'nobody else skips');
SELECT is_empty('SELECT * FROM scd2.diagnose() WHERE subject LIKE ''flow%''', 'nothing is wrong any more');
UPDATE t SET v = 100 WHERE id = 13;
DELETE FROM t WHERE id = 12;
SELECT scd2.sync() \g /dev/null
SELECT results_eq('SELECT v FROM t_history WHERE id = 13', 'VALUES (100)', 'later changes of the key are applied');
SELECT is_empty($$SELECT * FROM scd2.check_target('t_history')$$, 'the target is what its sources say, without what is left out');
SELECT scd2.full_refresh('t_history') \g /dev/null
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT count(*) FROM t_history), 20::bigint, 'a full refresh leaves it out, too');

-- which is ahead of the flow
SELECT scd2.pause_flow('other') \g /dev/null
INSERT INTO t VALUES (50, 50);
INSERT INTO t VALUES (51, 51);
INSERT INTO t VALUES (52, 52);
SELECT scd2.sync() \g /dev/null
SELECT scd2.skip_version('other', scd2.latest_version() - 1) \g /dev/null
SELECT is((SELECT state FROM scd2.flows WHERE flow = 'other'), 'paused', 'a paused flow stays so');
SELECT is((SELECT passed FROM scd2.skipped_versions WHERE flow = 'other'), false, '... and has it before it');
SELECT scd2.resume_flow('other') \g /dev/null
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT array_agg(id ORDER BY id) FROM other WHERE id >= 50), '{50,52}', 'then it leaves it out');

-- who may, and of what
CREATE TABLE ev (k int, s int);
SELECT scd2.create_auto_cdc_flow('dim', 'ev', '{k}', 's'), scd2.create_auto_cdc_from_snapshot_flow('snap', 't', '{id}') \g /dev/null
SELECT scd2.sync() \g /dev/null
INSERT INTO ev VALUES (1, NULL);
CALL wait_until($$(SELECT state = 'failed' FROM scd2.flows WHERE flow = 'dim')$$);
SELECT matches((SELECT last_error FROM scd2.flows WHERE flow = 'dim'), '^22000: 1 of 1 events', 'an invalid event fails its flow');
SELECT lives_ok('SELECT scd2.skip_version(''dim'', scd2.latest_version())', 'its version can be left out');
SELECT lives_ok('SELECT scd2.sync()', '... and the flow goes on');
SELECT throws_ok('SELECT scd2.skip_version(''snap'', 1)', '55000', NULL, 'snapshots are no versions of a feed');
RESET SESSION AUTHORIZATION;
CREATE ROLE stranger;
SET SESSION AUTHORIZATION stranger;
SELECT throws_ok('SELECT scd2.skip_version(''t_history'', 1)', '42501', NULL, 'it is for the owner of the target');
SELECT is_empty('SELECT * FROM scd2.skipped_versions', 'who alone sees it');
RESET SESSION AUTHORIZATION;
SELECT * FROM finish();
