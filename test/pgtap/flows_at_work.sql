-- What a flow runs while it is at work (triggers, views) cannot take the flow away from under it; and a rule that has something
-- else done in place of its writes is named.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(12);
\ir parts/wait.sql
CREATE TABLE s (id int PRIMARY KEY, v int);
INSERT INTO s VALUES (1, 1);
CREATE TABLE calls (n serial, what text);
CREATE FUNCTION call() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    what text;
BEGIN
    FOR what IN SELECT c.what FROM public.calls AS c ORDER BY n LOOP
        EXECUTE what;
    END LOOP;
    RETURN true;
END $$;
CREATE VIEW w AS SELECT * FROM s WHERE call();
SELECT scd2.create_auto_cdc_from_snapshot_flow('snap', 'w', '{id}', 'int') \g /dev/null
SELECT scd2.create_auto_cdc_from_snapshot_flow('other', 's', '{id}', 'int') \g /dev/null
INSERT INTO calls (what) VALUES ('SELECT scd2.drop_flow(''snap'')');
SELECT throws_ok($$SELECT scd2.apply_snapshot('snap', 1)$$, '55006', 'flow "snap" is at work in this transaction', 'a view cannot drop the flow that reads it');
UPDATE calls SET what = 'SELECT scd2.full_refresh(''public.snap'')';
SELECT throws_ok($$SELECT scd2.apply_snapshot('snap', 1)$$, '55006', 'flow "snap" is at work in this transaction', '... nor set it back');
UPDATE calls SET what = 'SELECT scd2.apply_snapshot(''snap'', 2)';
SELECT throws_ok($$SELECT scd2.apply_snapshot('snap', 1)$$, '55006', 'flow "snap" is at work in this transaction', '... nor apply it in itself');
UPDATE calls SET what = 'SELECT scd2.apply_snapshot(''other'', (SELECT count(*)::int + 1 FROM public.other))';
SELECT lives_ok($$SELECT scd2.apply_snapshot('snap', 1)$$, 'another flow is not that');
TRUNCATE calls;
SELECT lives_ok($$SELECT scd2.apply_snapshot('snap', 2)$$, 'after an error, the flow is as any other');
SELECT lives_ok($$SELECT scd2.apply_snapshot('snap', 3); SELECT scd2.drop_flow('snap')$$, 'and dropped in a transaction that has applied it');

-- by a worker
CREATE TABLE t (id int PRIMARY KEY);
SELECT scd2.track('t') \g /dev/null
SELECT scd2.sync() \g /dev/null
CREATE FUNCTION drops() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM scd2.drop_flow('t_history'); RETURN NEW; END $$;
CREATE TRIGGER drops BEFORE INSERT ON t_history FOR EACH ROW EXECUTE FUNCTION drops();
INSERT INTO t VALUES (1);
CALL wait_until($$(SELECT last_error FROM scd2.flows WHERE flow = 't_history') LIKE '55000: scd2.drop_flow() cannot be called by code that runs in a worker%'$$);
SELECT pass('nor can a trigger drop the flow that fires it');
DROP TRIGGER drops ON t_history;
SELECT scd2.resume_flow('t_history') \g /dev/null
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT count(*) FROM t_history), 1::bigint, 'without it, the flow goes on');

-- rules
CREATE RULE nothing AS ON INSERT TO t_history DO INSTEAD NOTHING;
INSERT INTO t VALUES (2);
CALL wait_until($$(SELECT last_error FROM scd2.flows WHERE flow = 't_history') LIKE '55000: rule "nothing" replaces writes to target public.t_history of flow "t_history"%'$$);
SELECT pass('a rule in place of a batch''s writes is named');
DROP RULE nothing ON public.t_history;
SELECT scd2.resume_flow('t_history') \g /dev/null
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT count(*) FROM t_history), 2::bigint, 'without it, the flow goes on');
CREATE RULE nothing AS ON INSERT TO t_history DO INSTEAD NOTHING;
SELECT scd2.full_refresh('t_history') \g /dev/null
CALL wait_until($$(SELECT last_error FROM scd2.flows WHERE flow = 't_history') LIKE '55000: rule "nothing" replaces writes to target public.t_history of flow "t_history"%'$$);
SELECT pass('and in place of a copy''s');
DROP RULE nothing ON public.t_history;
SELECT scd2.resume_flow('t_history') \g /dev/null
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT count(*) FROM t_history), 2::bigint, 'which goes on without it');
SELECT * FROM finish();
