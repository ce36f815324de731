-- What one role names is not another's: functions and types that look like those of a target, the numbers of a feed.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(16);
CREATE ROLE alice;
CREATE ROLE heir;
CREATE ROLE mallory;
CREATE ROLE heir_of_mallory;
CREATE ROLE monitor IN ROLE pg_monitor;
GRANT heir TO alice;
GRANT heir_of_mallory TO mallory;
CREATE SCHEMA a AUTHORIZATION alice;
CREATE SCHEMA m AUTHORIZATION mallory;
GRANT USAGE, CREATE ON SCHEMA a TO heir;
GRANT USAGE, CREATE ON SCHEMA m TO heir_of_mallory;
GRANT USAGE ON SCHEMA a TO mallory;
GRANT USAGE ON SCHEMA m TO alice;

-- a function that returns rows of the target, and is called and described as ours
SET SESSION AUTHORIZATION alice;
CREATE TABLE a.t (id int PRIMARY KEY, v text);
SELECT scd2.track('a.t') \g /dev/null
INSERT INTO a.t VALUES (1, 'x');
SELECT scd2.sync() \g /dev/null
SET SESSION AUTHORIZATION mallory;
CREATE FUNCTION m.t_history_as_of(point timestamptz) RETURNS SETOF a.t_history LANGUAGE sql AS 'SELECT NULL::a.t_history';
COMMENT ON FUNCTION m.t_history_as_of IS 'Rows of a.t_history that were valid at a point in time';
SET SESSION AUTHORIZATION alice;
ALTER TABLE a.t_history RENAME TO h;
SELECT is(to_regprocedure('a.h_as_of(timestamptz)') IS NOT NULL, true, 'the function of a target follows its name');
SELECT is((SELECT p.prosrc FROM pg_proc p WHERE p.oid = 'm.t_history_as_of'::regproc), 'SELECT NULL::a.t_history', 'that of somebody else stays as it is');
RESET SESSION AUTHORIZATION;
ALTER TABLE a.h OWNER TO heir;
SELECT is((SELECT pg_get_userbyid(p.proowner) FROM pg_proc p WHERE p.oid = 'a.h_as_of'::regproc), 'heir', 'it follows its owner');
SELECT is((SELECT pg_get_userbyid(p.proowner) || p.pronamespace::regnamespace FROM pg_proc p WHERE p.oid = 'm.t_history_as_of'::regproc), 'mallorym', 'that of somebody else is still his, and where it was');
ALTER FUNCTION a.h_as_of RENAME TO whatever;
ALTER TABLE a.h RENAME TO t_history;
SELECT is((SELECT count(*) FROM a.whatever(now())), 1::bigint, 'under any name it is known, and reads its target');
ALTER TABLE a.t_history OWNER TO alice;
SELECT is((SELECT pg_get_userbyid(p.proowner) FROM pg_proc p WHERE p.oid = 'a.whatever'::regproc), 'alice', 'whoever has it');
-- as in a dump, or made by version 0.1.0
DELETE FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = 'a.whatever'::regproc AND deptype = 'a';
ALTER FUNCTION a.whatever RENAME TO t_history_as_of;
SELECT scd2_internal.follow_all_as_of() \g /dev/null
ALTER TABLE a.t_history OWNER TO heir;
SELECT is((SELECT pg_get_userbyid(p.proowner) FROM pg_proc p WHERE p.oid = 'a.t_history_as_of'::regproc), 'heir', 'a function that came with a dump is known by its owner, name and description');
ALTER TABLE a.t_history OWNER TO alice;
DROP FUNCTION m.t_history_as_of;     -- it depends on the type
SET SESSION AUTHORIZATION alice;
SELECT lives_ok($$SELECT scd2.untrack('a.t', drop_targets => true)$$, 'untrack');
RESET SESSION AUTHORIZATION;
SELECT is(to_regprocedure('a.t_history_as_of(timestamptz)') IS NULL, true, 'drops it with its target');

-- the type of somebody else's sequence, as that of one's own
SET SESSION AUTHORIZATION alice;
CREATE TABLE a.e (id int, s int, n int);
SELECT scd2.create_auto_cdc_flow('a.d', 'a.e', '{id}', 'struct(s, n)', stored_as_scd_type => 2) \g /dev/null
SET SESSION AUTHORIZATION mallory;
CREATE TABLE m.e (id int, s a.d_sequence);
SELECT scd2.create_auto_cdc_flow('m.d', 'm.e', '{id}', 's', stored_as_scd_type => 2) \g /dev/null
SELECT scd2.create_auto_cdc_flow('m.one', 'm.e', '{id}', 's', shared => true) \g /dev/null
ALTER TABLE m.d OWNER TO heir_of_mallory;
SELECT is((SELECT pg_get_userbyid(t.typowner) FROM pg_type t WHERE t.oid = 'a.d_sequence'::regtype), 'alice', 'a type that a target uses does not follow its owner unless it was made for it');
SELECT lives_ok($$SELECT scd2.drop_flow('one')$$, 'nor does one try to drop it');
RESET SESSION AUTHORIZATION;
ALTER TABLE a.d OWNER TO heir;
SELECT is((SELECT pg_get_userbyid(t.typowner) FROM pg_type t WHERE t.oid = 'a.d_sequence'::regtype), 'heir', 'its own target''s it does');
SET SESSION AUTHORIZATION mallory;
SELECT scd2.drop_flow('d_2', drop_target => true) \g /dev/null
DROP TABLE m.one;
SELECT scd2.disable_change_feed('m.e', drop_feed => true) \g /dev/null
DROP TABLE m.e;
RESET SESSION AUTHORIZATION;
SELECT scd2.drop_flow('d', drop_target => true) \g /dev/null
SELECT is(to_regtype('a.d_sequence'), NULL, 'and goes with it');

-- the last version of a feed
SELECT feed_id AS feed FROM scd2_internal.feed WHERE source_relid = 'a.t'::regclass AND NOT disabled \gset
SET SESSION AUTHORIZATION mallory;
SELECT is(scd2._feed_latest(:feed), NULL, 'the last version of somebody else''s feed is not told');
SET SESSION AUTHORIZATION alice;
SELECT isnt(scd2._feed_latest(:feed), NULL, 'to its owner it is');
SET SESSION AUTHORIZATION monitor;
SELECT isnt(scd2._feed_latest(:feed), NULL, 'and to who monitors');
RESET SESSION AUTHORIZATION;
SELECT * FROM finish();
