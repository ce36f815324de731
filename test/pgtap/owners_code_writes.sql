-- Code of an owner that runs in a worker may write tables that have feeds, of others too. Such changes are captured as
-- any: what the worker itself writes is marked as nothing to capture, and a mark on theirs would take a change out of
-- somebody's feed without a trace.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(7);
CREATE ROLE alice;
CREATE ROLE mallory;
CREATE SCHEMA a AUTHORIZATION alice;
CREATE SCHEMA m AUTHORIZATION mallory;
GRANT USAGE ON SCHEMA a TO mallory;
SET SESSION AUTHORIZATION alice;
CREATE TABLE a.orders (id serial PRIMARY KEY, what text);
GRANT INSERT, TRUNCATE ON a.orders TO mallory;
GRANT USAGE ON a.orders_id_seq TO mallory;
SELECT scd2.track('a.orders') \g /dev/null
SELECT scd2.sync() \g /dev/null
SET SESSION AUTHORIZATION mallory;
SET search_path = m, public;
CREATE FUNCTION put(what text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$ BEGIN INSERT INTO a.orders (what) VALUES (what); END $$;
CREATE FUNCTION check_it(v int, what text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM m.put(what || v); RETURN true; END $$;
CREATE TABLE s (id int PRIMARY KEY, v int);
SELECT scd2.track('s', source_filter => $$m.check_it(v, 'filter ')$$) \g /dev/null
SELECT scd2.sync() \g /dev/null
ALTER TABLE s_history ADD CHECK (m.check_it(v, 'target '));
CREATE INDEX ON s_history ((m.check_it(v, 'index ')));
INSERT INTO s VALUES (1, 1);
SELECT scd2.sync(targets => '{s_history}') \g /dev/null
UPDATE s SET v = 2;
SELECT scd2.sync(targets => '{s_history}') \g /dev/null
RESET SESSION AUTHORIZATION;
SELECT scd2.sync(targets => '{a.orders_history}') \g /dev/null
SELECT results_eq('SELECT DISTINCT split_part(what, '' '', 1) FROM a.orders ORDER BY 1', $$VALUES ('filter'), ('index'), ('target')$$, 'workers ran code that writes, of all kinds');
SELECT bag_eq($$SELECT what FROM a.orders_changes WHERE _change_type = 'insert'$$, 'SELECT what FROM a.orders', 'the feed of the table has every change');
SELECT bag_eq('SELECT what FROM a.orders_history', 'SELECT what FROM a.orders', 'and so has its history');
SELECT is_empty($$SELECT * FROM scd2.check_target('a.orders_history')$$, 'which is what it must be');

-- TRUNCATE writes too
SET SESSION AUTHORIZATION mallory;
CREATE FUNCTION empty_it(v int) RETURNS void LANGUAGE plpgsql VOLATILE AS $$ BEGIN IF v = 3 THEN TRUNCATE a.orders; END IF; END $$;
CREATE FUNCTION empty_check(v int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM m.empty_it(v); RETURN true; END $$;
ALTER TABLE s_history DROP CONSTRAINT s_history_v_check, ADD CHECK (m.empty_check(v));
DROP INDEX s_history_check_it_idx;
SELECT scd2.alter_flow('s_history', source_filter => 'true') \g /dev/null
UPDATE s SET v = 3;
SELECT scd2.sync(targets => '{s_history}') \g /dev/null
RESET SESSION AUTHORIZATION;
SELECT scd2.sync(targets => '{a.orders_history}') \g /dev/null
SELECT is((SELECT count(*) FROM a.orders), 0::bigint, 'a check emptied the table');
SELECT is((SELECT count(*) FROM a.orders_changes WHERE _change_type = 'truncate'), 1::bigint, 'its feed says so');
SELECT is((SELECT count(*) FROM a.orders_history WHERE __end_at IS NULL), 0::bigint, 'and its history');
SELECT * FROM finish();
