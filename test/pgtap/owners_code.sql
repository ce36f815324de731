-- Code that a table's owner hangs on it (index predicates, checks, domains in expressions) is run
-- by nobody but the owner: to plan a query is enough to run it.
CREATE ROLE mallory;
CREATE SCHEMA m AUTHORIZATION mallory;
SET client_min_messages = warning;
SET SESSION AUTHORIZATION mallory;
SET search_path = m;
CREATE TABLE ran (what text, who name DEFAULT current_user);
CREATE FUNCTION note(what text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$ BEGIN INSERT INTO m.ran VALUES (what); END $$;
CREATE FUNCTION trap(what text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM m.note(what); RETURN true; END $$;
CREATE FUNCTION domain_trap(i int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM m.note('domain'); RETURN true; END $$;
CREATE DOMAIN trapped AS int CHECK (m.domain_trap(VALUE));
CREATE TABLE s (id int PRIMARY KEY, v int);
INSERT INTO s VALUES (1, 1);
SELECT scd2.track('s');
RESET SESSION AUTHORIZATION;
SELECT scd2.sync();

SET SESSION AUTHORIZATION mallory;
SET search_path = m;
CREATE INDEX ON s (v) WHERE m.trap('index of the source');
CREATE INDEX ON s_history (v) WHERE m.trap('index of the target');
ALTER TABLE s ADD CHECK (m.trap('check of the source'));
CREATE TABLE made (id int, v int, __start_at timestamptz, __end_at timestamptz, PRIMARY KEY (id, __start_at));
CREATE INDEX ON made (v) WHERE m.trap('index of an existing target');
CREATE TABLE p (id int PRIMARY KEY) PARTITION BY LIST (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
CREATE INDEX ON p1 (id) WHERE m.trap('index of a partition');
INSERT INTO p VALUES (1);
SELECT scd2.enable_change_feed('p');
UPDATE s SET v = 2;
SELECT scd2.full_refresh('s_history');
SELECT count(*) FROM scd2.table_changes('s', 0);
SELECT count(*) FROM scd2.describe_history('s');
SELECT count(*) FROM scd2.table_at(NULL::s, 1);
SELECT count(*) FROM scd2.feeds, scd2.flows, scd2.diagnose();
SELECT scd2.create_auto_cdc_flow('made', 's_changes', '{id}', stored_as_scd_type => 2, starting_version => 0,
                                 initial_start => $$CASE WHEN '{1}'::m.trapped[] IS NOT NULL THEN now() END$$);
ALTER TABLE p DETACH PARTITION p1;
SELECT scd2.sync(targets => '{s_history,made}');
DO $$ BEGIN PERFORM scd2.table_changes('p', now(), now() + '1 hour'); EXCEPTION WHEN object_not_in_prerequisite_state OR invalid_parameter_value THEN NULL; END $$;  -- the gap
UPDATE s SET v = 3;
SELECT scd2.sync(targets => '{s_history,made}');
RESET SESSION AUTHORIZATION;

RESET search_path;
SELECT plan(2);
SELECT results_eq('SELECT DISTINCT who FROM m.ran', $$VALUES ('mallory'::name)$$, 'the owner''s code runs as the owner, in sessions and workers');
SELECT results_eq('SELECT DISTINCT what FROM m.ran ORDER BY 1', $$VALUES ('check of the source'), ('domain'), ('index of a partition'), ('index of an existing target'), ('index of the source'), ('index of the target')$$, 'and all of it was tried');
SELECT * FROM finish();
