-- What an owner hangs on his feed is run by nobody but him where feeds are looked after, and when they are given up:
-- cutting and attaching partitions, giving back a replica identity. Two of these have a superuser's rights otherwise:
-- to attach a partition simplifies checks, and to ask an index whether it can be an identity its expressions.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(8);
CREATE ROLE mallory;
CREATE SCHEMA m AUTHORIZATION mallory;
SET SESSION AUTHORIZATION mallory;
SET search_path = m, public;
CREATE TABLE ran (what text, who name DEFAULT current_user);
CREATE FUNCTION note(what text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$ BEGIN INSERT INTO m.ran VALUES (what); END $$;
CREATE FUNCTION trap(what text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM m.note(what); RETURN true; END $$;
CREATE FUNCTION trap(i int, what text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM m.note(what); RETURN i; END $$;
CREATE TABLE s (id int PRIMARY KEY, v int);
SELECT scd2.track('s') \g /dev/null
CREATE TABLE i (id int NOT NULL, v int);
CREATE UNIQUE INDEX i_is_identity ON i (id);
ALTER TABLE i REPLICA IDENTITY USING INDEX i_is_identity;
SELECT scd2.enable_change_feed('i') \g /dev/null
INSERT INTO s VALUES (1, 1);
SELECT scd2.sync() \g /dev/null

-- as from an earlier version: a feed does not take them any more
RESET SESSION AUTHORIZATION;
SET pg_scd2.own_ddl = on;
SET SESSION AUTHORIZATION mallory;
ALTER TABLE s_changes ADD CHECK (m.trap('check of the feed'));
CREATE INDEX ON s_changes (m.trap(1, 'index of the feed'));
CREATE INDEX ON s_changes (v) WHERE m.trap('predicate of the feed');
RESET SESSION AUTHORIZATION;
RESET pg_scd2.own_ddl;
SET SESSION AUTHORIZATION mallory;
TRUNCATE ran;
SELECT lives_ok($$SELECT scd2.vacuum_feed('s', '0')$$, 'the feed is cut, and its old partition removed');
SELECT is((SELECT count(*) FROM pg_inherits WHERE inhparent = 'm.s_changes'::regclass), 1::bigint, 'one partition is left');
SELECT results_eq('SELECT DISTINCT what FROM m.ran ORDER BY 1', $$VALUES ('check of the feed'), ('index of the feed'), ('predicate of the feed')$$, '... for which all of it was run');
SELECT results_eq('SELECT DISTINCT who FROM m.ran', $$VALUES ('mallory'::name)$$, '... as the owner');
SELECT is((SELECT count(*)::int FROM pg_inherits h JOIN pg_index x ON x.indrelid = h.inhrelid WHERE h.inhparent = 'm.s_changes'::regclass)
    + (SELECT count(*)::int FROM pg_inherits h JOIN pg_constraint c ON c.conrelid = h.inhrelid AND c.contype = 'c' WHERE h.inhparent = 'm.s_changes'::regclass),
    4, 'the new partition has the indexes and the check of the feed');

-- an index of the identity's name, with an expression
DROP INDEX i_is_identity;
CREATE UNIQUE INDEX i_is_identity ON i (m.trap(id, 'never'), m.trap(1, 'index of the identity''s name'));
TRUNCATE ran;
SELECT lives_ok($$SELECT scd2.disable_change_feed('i')$$, 'the identity that was found is not there any more');
SELECT is((SELECT relreplident FROM pg_class WHERE oid = 'm.i'::regclass), 'd', 'the default is given back instead');
SELECT is_empty('SELECT * FROM m.ran WHERE who <> ''mallory''', 'and whoever asked the index was its owner');
SELECT * FROM finish();
