-- Functions of users that hang on a feed in any way, from an earlier version: capture runs none of them, a superuser's neither.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(9);
CREATE ROLE alice;
CREATE ROLE mallory;
CREATE SCHEMA a AUTHORIZATION alice;
CREATE SCHEMA m AUTHORIZATION mallory;
SET SESSION AUTHORIZATION alice;
CREATE TABLE a.t (id int PRIMARY KEY, v int);
SELECT scd2.enable_change_feed('a.t') \g /dev/null
RESET SESSION AUTHORIZATION;
CREATE FUNCTION m.of_superuser(v int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN true; END $$;
SET SESSION AUTHORIZATION mallory;
SET search_path = m, public;
CREATE FUNCTION plain(v int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN true; END $$;
CREATE FUNCTION definer(v int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER AS $$ BEGIN RETURN true; END $$;
CREATE FUNCTION setting(v int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE SET work_mem = '1MB' AS $$ BEGIN RETURN true; END $$;
CREATE FUNCTION inlined(v int) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT v + 1 > 0 $$;
CREATE FUNCTION within(v int) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT m.plain(v) $$;
CREATE OPERATOR ## (RIGHTARG = int, FUNCTION = plain);
CREATE TABLE plain (id int PRIMARY KEY, v int);
CREATE TABLE definer (LIKE plain INCLUDING ALL);
CREATE TABLE setting (LIKE plain INCLUDING ALL);
CREATE TABLE inlined (LIKE plain INCLUDING ALL);
CREATE TABLE within (LIKE plain INCLUDING ALL);
CREATE TABLE operator (LIKE plain INCLUDING ALL);
CREATE TABLE indexed (LIKE plain INCLUDING ALL);
CREATE TABLE of_superuser (LIKE plain INCLUDING ALL);
SELECT scd2.enable_change_feed(c::regclass) FROM unnest('{plain,definer,setting,inlined,within,operator,indexed,of_superuser}'::text[]) c \g /dev/null
-- what a feed does not take any more
RESET SESSION AUTHORIZATION;
SET pg_scd2.own_ddl = on;
SET SESSION AUTHORIZATION mallory;
ALTER TABLE plain_changes ADD CHECK (m.plain(v));
ALTER TABLE definer_changes ADD CHECK (m.definer(v));
ALTER TABLE setting_changes ADD CHECK (m.setting(v));
ALTER TABLE inlined_changes ADD CHECK (m.inlined(v));
ALTER TABLE within_changes ADD CHECK (m.within(v));
ALTER TABLE operator_changes ADD CHECK (OPERATOR(m.##) v);
CREATE INDEX ON indexed_changes (m.plain(v));
ALTER TABLE of_superuser_changes ADD CHECK (m.of_superuser(v));
RESET SESSION AUTHORIZATION;
RESET pg_scd2.own_ddl;
SET SESSION AUTHORIZATION mallory;
SELECT scd2.sync() \g /dev/null
INSERT INTO plain VALUES (1, 1);
INSERT INTO definer VALUES (1, 1);
INSERT INTO setting VALUES (1, 1);
INSERT INTO inlined VALUES (1, 1);
INSERT INTO within VALUES (1, 1);
INSERT INTO operator VALUES (1, 1);
INSERT INTO indexed VALUES (1, 1);
INSERT INTO of_superuser VALUES (1, 1);
SET SESSION AUTHORIZATION alice;
SET search_path = public;
INSERT INTO a.t VALUES (1, 1);
SELECT scd2.sync() \g /dev/null
RESET SESSION AUTHORIZATION;
SELECT ok(waits_for LIKE '%stands on the feed' AND state = 'running', format('the feed of "%s" waits', source)) FROM scd2.feeds WHERE source::text LIKE 'm.%';
SELECT is((SELECT count(*) FROM a.t_changes), 1::bigint, 'others go on');
SELECT * FROM finish();
