-- What runs in a worker writes into no feed and no history but its own flow's, whatever it was granted, and calls nothing of
-- ours that changes something or waits.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(14);
CREATE ROLE alice;
CREATE ROLE mallory;
CREATE SCHEMA a AUTHORIZATION alice;
CREATE SCHEMA m AUTHORIZATION mallory;
GRANT USAGE ON SCHEMA a TO mallory;
\ir parts/wait.sql
SET ROLE alice;
CREATE TABLE a.t (id int PRIMARY KEY, v text);
SELECT scd2.track('a.t') \g /dev/null
RESET ROLE;
SELECT scd2.sync() \g /dev/null
SET ROLE alice;
GRANT ALL ON a.t_history, a.t_changes TO mallory;
SET ROLE mallory;
CREATE TABLE m.t (id int PRIMARY KEY, what text);
CREATE TABLE m.answer (what text, said text);
-- each statement is tried, and what it says is kept
CREATE FUNCTION m.try(what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE what;
    INSERT INTO m.answer VALUES (what, 'done');
EXCEPTION WHEN OTHERS THEN
    INSERT INTO m.answer VALUES (what, sqlstate);
END $$;
CREATE FUNCTION m.tries() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.what IS NOT NULL THEN PERFORM m.try(NEW.what); END IF; RETURN NEW; END $$;
SELECT scd2.track('m.t') \g /dev/null
CREATE TRIGGER tries BEFORE INSERT ON m.t_history FOR EACH ROW EXECUTE FUNCTION m.tries();
RESET ROLE;
SELECT scd2.sync() \g /dev/null
CREATE TABLE tried AS SELECT row_number() OVER () AS id, t.* FROM (VALUES
    ($$INSERT INTO a.t_history VALUES (9, 'forged', now(), NULL)$$, '55000', 'another''s history'),
    ($$DELETE FROM a.t_history$$, '55000', '... is not emptied either'),
    ($$INSERT INTO a.t_changes VALUES ('insert', 99, now(), 1, '1', 9, 'forged')$$, '55000', 'another''s feed'),
    ($$SET pg_scd2.allow_target_writes = on; INSERT INTO a.t_history VALUES (9, 'forged', now(), NULL)$$, '55000', 'the setting is for owners'),
    ($$INSERT INTO m.t_history VALUES (9, 'forged', now(), NULL)$$, '55000', 'the own history, while the flow writes it'),
    ($$INSERT INTO m.t_changes VALUES ('insert', 99, now(), 1, '1', 9, 'forged')$$, '55000', 'the own feed'),
    ($$SELECT scd2.pause_flow('t_history_2')$$, '55000', 'a function that changes a flow'),
    ($$SELECT scd2.drop_flow('t_history_2')$$, '55000', '... drops it'),
    ($$SELECT scd2.sync()$$, '55000', 'one that waits'),
    ($$SELECT scd2.full_refresh('m.t_history')$$, '55000', '... rebuilds'),
    ($$SELECT scd2.track('m.answer')$$, '55000', '... declares'),
    ($$SELECT count(*) FROM scd2.table_changes('m.t')$$, 'done', 'to read is allowed'),
    ($$SELECT count(*) FROM scd2.flows$$, 'done', '... to ask as well')) t (what, wanted, name);
GRANT SELECT ON tried TO mallory;
SET ROLE mallory;
INSERT INTO m.t SELECT id, what FROM tried;
RESET ROLE;
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT a.said FROM m.answer a WHERE a.what = t.what), t.wanted, t.name) FROM tried t ORDER BY t.id;
SELECT results_eq('SELECT (SELECT count(*) FROM a.t_history), (SELECT count(*) FROM a.t_changes), (SELECT count(*) FROM m.t_history)', 'SELECT 0::bigint, 0::bigint, count(*) FROM tried', 'the flow itself writes what it has to');
SELECT * FROM finish();
