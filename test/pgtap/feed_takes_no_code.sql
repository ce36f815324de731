-- Feeds are written by one process for everybody, so nothing may stand on them that runs code of users or stops their
-- rows: whatever it is, whichever way it comes, for owner and superuser alike. What may stand there stands.
\set QUIET on
SET client_min_messages = warning;
SELECT no_plan();
CREATE ROLE alice;
CREATE ROLE mallory;
SELECT format('GRANT CREATE ON DATABASE %I TO alice', current_database()) \gexec
CREATE SCHEMA a AUTHORIZATION alice;
CREATE EXTENSION IF NOT EXISTS citext;
CREATE FUNCTION public.less(int, int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN $1 < $2; END $$;
CREATE FUNCTION public.compare(int, int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN btint4cmp($1, $2); END $$;
CREATE OPERATOR CLASS public.slow FOR TYPE int USING btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 public.compare(int, int);
CREATE TYPE a.whole;
CREATE FUNCTION a.whole_canonical(a.whole) RETURNS a.whole LANGUAGE internal IMMUTABLE AS 'int4range_canonical';
CREATE TYPE a.whole AS RANGE (subtype = int, canonical = a.whole_canonical);
CREATE OR REPLACE FUNCTION a.whole_canonical(a.whole) RETURNS a.whole LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN $1; END $$;
ALTER FUNCTION a.whole_canonical(a.whole) OWNER TO alice;
SET SESSION AUTHORIZATION alice;
SET search_path = a, public;
CREATE FUNCTION yes(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN true; END $$;
CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$;
CREATE DOMAIN positive AS int CHECK (yes(VALUE));
CREATE TABLE t (id int PRIMARY KEY, v int, w text, c citext, r int4range, o whole, d positive, p point);
CREATE TABLE other (id int PRIMARY KEY);
CREATE TABLE apart (LIKE t);
SELECT scd2.enable_change_feed('t') \g /dev/null
SELECT scd2.sync() \g /dev/null

CREATE TABLE refused (n serial, statement text);
GRANT SELECT ON refused TO PUBLIC;
GRANT ALL ON SCHEMA a TO PUBLIC;
INSERT INTO refused (statement) SELECT replace(s, 'REL', r) FROM unnest('{t_changes,t_changes_p1}'::text[]) r, unnest(ARRAY[
    'CREATE INDEX ON REL ((v + 1))',
    'CREATE INDEX ON REL (yes(v))',
    'CREATE INDEX ON REL (v) WHERE v > 0',
    'CREATE INDEX ON REL USING brin (v) WHERE yes(v)',
    'CREATE UNIQUE INDEX ON REL (_commit_version, _change_ordinal)',
    'CREATE INDEX ON ONLY REL ((v + 1))',
    'CREATE UNIQUE INDEX ON ONLY REL (_commit_version, id)',
    'CREATE INDEX ON REL USING gist (r)',
    'CREATE INDEX ON REL USING gist (o)',
    'CREATE INDEX ON REL USING spgist (p)',
    'CREATE INDEX ON REL USING spgist (r)',
    'CREATE INDEX ON REL USING gin (to_tsvector(''english'', w))',
    'CREATE INDEX ON REL USING brin (o)',
    'CREATE INDEX ON REL (v public.slow)',
    'ALTER TABLE REL ADD CHECK (v > 0)',
    'ALTER TABLE REL ADD CHECK (v > 0) NOT VALID',
    'ALTER TABLE REL ADD PRIMARY KEY (_commit_version, id)',
    'ALTER TABLE REL ADD UNIQUE (_commit_version, id)',
    'ALTER TABLE REL ADD FOREIGN KEY (id) REFERENCES other',
    'ALTER TABLE REL ALTER v SET NOT NULL',
    'ALTER TABLE REL ALTER v SET DEFAULT 7',
    'ALTER TABLE REL ALTER w SET DEFAULT current_user',
    'CREATE TRIGGER x AFTER INSERT ON REL FOR EACH ROW EXECUTE FUNCTION tell()',
    'CREATE TRIGGER x BEFORE INSERT ON REL FOR EACH STATEMENT EXECUTE FUNCTION tell()',
    'CREATE RULE x AS ON INSERT TO REL DO INSTEAD NOTHING',
    'CREATE STATISTICS x (ndistinct) ON v, (v + 1) FROM REL',
    'CREATE STATISTICS x ON v, (yes(id)) FROM REL',
    'CREATE TABLE of_rows (x REL)',
    'CREATE TABLE of_rows (x REL[])',
    'ALTER TABLE other ADD COLUMN x REL',
    'CREATE DOMAIN of_rows AS REL',
    'CREATE TYPE of_rows AS (x REL)',
    'DO $x$ BEGIN EXECUTE ''ALTER TABLE REL ADD CHECK (v > 0)''; END $x$']) s;
INSERT INTO refused (statement) VALUES
    ('ALTER TABLE t_changes RENAME COLUMN v TO x'),
    ('ALTER TABLE t_changes ALTER v TYPE bigint'),
    ('ALTER TABLE t_changes ALTER v TYPE positive'),
    ('ALTER TABLE t_changes ADD COLUMN x int'),
    ('ALTER TABLE t_changes ADD COLUMN x int DEFAULT 7'),
    ('ALTER TABLE t_changes ADD COLUMN x int GENERATED ALWAYS AS (v + 1) STORED'),
    ('ALTER TABLE t_changes_p1 ADD EXCLUDE USING btree (id WITH =)'),
    ('ALTER TABLE t_changes_p1 ALTER id SET NOT NULL, ALTER id ADD GENERATED ALWAYS AS IDENTITY'),
    ('ALTER TABLE t_changes_p1 ADD FOREIGN KEY (id) REFERENCES other NOT VALID'),
    ('ALTER TABLE t_changes_p1 SET UNLOGGED'),
    ('ALTER TABLE t_changes DETACH PARTITION t_changes_p1'),
    ('CREATE MATERIALIZED VIEW of_rows AS SELECT f FROM t_changes f');

CREATE FUNCTION standing(OUT n bigint) LANGUAGE sql SECURITY INVOKER SET search_path = pg_catalog AS
    'SELECT (SELECT count(*) FROM pg_index) + (SELECT count(*) FROM pg_constraint) + (SELECT count(*) FROM pg_trigger) + (SELECT count(*) FROM pg_attribute WHERE attnotnull) + (SELECT count(*) FROM pg_rewrite) + (SELECT count(*) FROM pg_statistic_ext)';
SELECT standing() AS before \gset

SELECT throws_ok(statement, '55000', NULL, statement) FROM refused ORDER BY n;
SELECT is(standing(), :before::bigint, 'nothing has come of it');

RESET SESSION AUTHORIZATION;
SELECT throws_ok(statement, '55000', NULL, 'superuser: ' || statement) FROM refused ORDER BY n;
SET session_replication_role = replica;
SET SESSION AUTHORIZATION alice;
SELECT throws_ok(statement, '55000', NULL, 'replica: ' || statement) FROM refused ORDER BY n;
RESET SESSION AUTHORIZATION;
RESET session_replication_role;
SELECT current_setting('event_triggers', true) IS NOT NULL AS has_switch \gset
\if :has_switch
SET event_triggers = off;
SET SESSION AUTHORIZATION alice;
SELECT throws_ok(statement, '55000', NULL, 'event_triggers = off: ' || statement) FROM refused ORDER BY n;
RESET SESSION AUTHORIZATION;
RESET event_triggers;
\endif
SET SESSION AUTHORIZATION mallory;
SELECT throws_ok(statement, '55000', NULL, 'a stranger: ' || statement) FROM refused WHERE statement ~ 'of_rows (AS )?\(?x?|OF t_' AND statement !~ 'MATERIALIZED' ORDER BY n;
RESET SESSION AUTHORIZATION;
SELECT is(standing(), :before::bigint, 'nor now');

-- by a function, by itself in a transaction, behind a subtransaction
SET SESSION AUTHORIZATION alice;
CREATE FUNCTION hang(sql text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN EXECUTE sql; RETURN 'done'; EXCEPTION WHEN undefined_table THEN RETURN 'caught'; END $$;
SELECT throws_ok($$SELECT hang('ALTER TABLE t_changes ADD CHECK (yes(v))')$$, '55000', 'constraint "t_changes_v_check" on "a.t_changes" must not stand on change data feed "a.t_changes"', 'a function''s statement');
SELECT throws_ok($$SET pg_scd2.own_ddl = on$$, '42501', NULL, 'only superusers say that statements are ours');

RESET SESSION AUTHORIZATION;

-- a transaction that began before the feed was there, and does not see its definition
CREATE EXTENSION dblink;
CREATE TABLE a.later (id int PRIMARY KEY, v int);
ALTER TABLE a.later OWNER TO alice;
SELECT dblink_connect('old', 'dbname=' || current_database() || ' user=' || current_user) \g /dev/null
SELECT dblink_exec('old', 'BEGIN ISOLATION LEVEL REPEATABLE READ') \g /dev/null
SELECT * FROM dblink('old', 'SELECT count(*) FROM scd2_internal.feed') x (n bigint) \g /dev/null
SELECT scd2.enable_change_feed('a.later') \g /dev/null
SELECT throws_ok($$SELECT dblink_exec('old', 'CREATE INDEX ON a.later_changes ((v + 1))')$$, '55000', NULL, 'a transaction that is older than the feed');
SELECT dblink_disconnect('old') \g /dev/null

-- attached to another, and another to it
SET SESSION AUTHORIZATION alice;
CREATE TABLE above (LIKE t_changes) PARTITION BY RANGE (_commit_version);
SELECT throws_ok('ALTER TABLE above ATTACH PARTITION t_changes FOR VALUES FROM (0) TO (1000000)', '55000', 'table "a.t_changes" as a partition of "a.above" must not stand on change data feed "a.t_changes"', 'the feed as a partition');
SELECT throws_ok('ALTER TABLE above ATTACH PARTITION t_changes_p1 FOR VALUES FROM (0) TO (1000000)', '42809', NULL, 'a partition of it as one of another: the server says no');
CREATE TABLE below (LIKE t_changes INCLUDING ALL);
SELECT throws_ok('ALTER TABLE below INHERIT t_changes', '42809', NULL, 'inheritance from a feed: the server says no');
SELECT throws_ok('ALTER TABLE t_changes_p1 INHERIT below', '42809', NULL, 'inheritance of a partition: the server says no');

-- CONCURRENTLY, which is no statement of a transaction block
\set ON_ERROR_STOP off
\set VERBOSITY sqlstate
CREATE INDEX CONCURRENTLY in_vain ON t_changes_p1 ((v + 1));
SELECT is(:'LAST_ERROR_SQLSTATE'::text, '55000', 'an index that is made concurrently');
SELECT is(to_regclass('in_vain')::text, NULL, '... has not come');
CREATE INDEX CONCURRENTLY ON t_changes_p1 (v);
REINDEX TABLE CONCURRENTLY t_changes_p1;
SELECT is(:'SQLSTATE'::text, '00000', 'a plain one comes, and is made anew');
\set VERBOSITY default
\set ON_ERROR_STOP on

-- what may stand there
SELECT lives_ok(s, s) FROM unnest(ARRAY[
    'CREATE INDEX ON t_changes (id)', 'CREATE INDEX ON t_changes (v, w text_pattern_ops DESC)', 'CREATE INDEX ON t_changes USING hash (w)', 'CREATE INDEX ON t_changes USING brin (v)',
    'CREATE INDEX ON t_changes (c)', 'CREATE INDEX ON t_changes (r)', 'CREATE INDEX ON t_changes (o)', 'CREATE INDEX ON t_changes USING brin (r)', 'CREATE INDEX ON t_changes (id) INCLUDE (v)',
    'CREATE INDEX on_root ON ONLY t_changes (d)', 'CREATE INDEX on_leaf ON t_changes_p1 (d)', 'ALTER INDEX on_root ATTACH PARTITION on_leaf',
    'CREATE INDEX ON t_changes_p1 (w COLLATE "C")', 'REINDEX TABLE t_changes_p1', 'CREATE STATISTICS plain ON v, w FROM t_changes',
    'GRANT SELECT ON t_changes TO mallory', 'GRANT SELECT (v) ON t_changes TO mallory', 'COMMENT ON COLUMN t_changes.v IS ''x''', 'ALTER TABLE t_changes ENABLE ROW LEVEL SECURITY',
    'CREATE POLICY p ON t_changes USING (yes(id))', 'ALTER TABLE t_changes ALTER v SET STATISTICS 200', 'ALTER TABLE t_changes_p1 SET (autovacuum_enabled = false)', 'ALTER TABLE t_changes ALTER w SET STORAGE external',
    'ALTER TABLE t_changes_p1 SET TABLESPACE pg_default', 'CREATE VIEW over AS SELECT * FROM t_changes', 'CREATE FUNCTION of_row(t_changes) RETURNS int LANGUAGE sql AS ''SELECT 1''',
    'CLUSTER t_changes_p1 USING on_leaf', 'ALTER TABLE t_changes RENAME TO changes_of_t', 'ALTER TABLE changes_of_t RENAME TO t_changes',
    'CREATE TABLE copied (LIKE t_changes INCLUDING ALL)', 'ALTER TABLE copied ADD CHECK (yes(v)), ALTER v SET DEFAULT 7']) s;
SELECT throws_ok('ALTER INDEX on_root ATTACH PARTITION x', '42P01', NULL, 'no such index');
RESET SESSION AUTHORIZATION;
SELECT is_empty($$SELECT * FROM scd2_internal.unfit_on_feed('a.t_changes'::regclass)$$, 'none of it is told of');
SELECT is_empty($$SELECT problem FROM scd2.diagnose()$$, 'diagnose finds nothing');
SET SESSION AUTHORIZATION alice;
INSERT INTO t VALUES (1, 1, 'w', 'c', '[1,2)', '[1,2)', 1, '(1,1)');
UPDATE t SET v = 2;
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT count(*) FROM t_changes), 3::bigint, 'and the feed gets its rows');
SELECT lives_ok($$SELECT scd2.vacuum_feed('t', '0')$$, 'it is cut');
DROP VIEW over;
SELECT lives_ok($$ALTER TABLE t ADD COLUMN n int DEFAULT 5$$, 'the source gets a column');
SELECT lives_ok($$ALTER TABLE t ALTER v TYPE bigint$$, '... and another type');
INSERT INTO t VALUES (2, 1, 'w', 'c', '[1,2)', '[1,2)', 1, '(1,1)');
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT n FROM t_changes WHERE id = 2), 5, 'the feed follows');
SELECT lives_ok($$SELECT scd2.alter_change_feed('t', except_column_list => '{w}')$$, 'a column leaves');
SELECT lives_ok($$SELECT scd2.alter_change_feed('t', except_column_list => '{}')$$, '... and comes back');

-- a former feed is its owner's
SELECT scd2.disable_change_feed('t') \g /dev/null
SELECT lives_ok('ALTER TABLE t_changes ADD CHECK (v <> 77)', 'what was a feed takes anything');
SELECT throws_ok($$SELECT scd2.enable_change_feed('t')$$, '42P07', NULL, '... but is none any more then');
ALTER TABLE t_changes DROP CONSTRAINT t_changes_v_check;
SELECT lives_ok($$SELECT scd2.enable_change_feed('t')$$, '... until it is bare again');
SELECT throws_ok('ALTER TABLE t_changes ADD CHECK (v <> 77)', '55000', NULL, 'then it takes it no more');

-- found when it came another way, with what removes it
CREATE TABLE u (LIKE t INCLUDING ALL);
SELECT scd2.enable_change_feed('u') \g /dev/null
RESET SESSION AUTHORIZATION;
SET pg_scd2.own_ddl = on;
SET SESSION AUTHORIZATION alice;
CREATE TABLE done (statement text);
CREATE FUNCTION hang_on(sql text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE sql; INSERT INTO a.done VALUES (sql); EXCEPTION WHEN duplicate_object OR duplicate_table OR duplicate_column OR invalid_table_definition THEN NULL; END $$;
CREATE FUNCTION yes(bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN true; END $$;
SELECT hang_on(replace(statement, 't_changes', 'u_changes')) FROM refused WHERE statement !~ '^DO|RENAME|TYPE (bigint|positive)|DETACH|ADD COLUMN x int$|slow' ORDER BY n \g /dev/null
SELECT cmp_ok((SELECT count(*) FROM done), '>', 40::bigint, 'nearly all of it stands there now');
RESET SESSION AUTHORIZATION;
RESET pg_scd2.own_ddl;
SET SESSION AUTHORIZATION alice;
SELECT cmp_ok((SELECT count(*) FROM scd2.diagnose() WHERE problem LIKE '% stands on its change data feed'), '>', 35::bigint, 'diagnose tells of it');
SELECT fix FROM scd2.diagnose() WHERE problem LIKE '% stands on its change data feed' \gexec
SELECT fix FROM scd2.diagnose() WHERE problem LIKE '% stands on its change data feed' \gexec
RESET SESSION AUTHORIZATION;
SELECT is_empty($$SELECT what, fix FROM scd2_internal.unfit_on_feed('a.u_changes'::regclass)$$, 'and its statements remove it');

-- what a statement of ours runs is not ours: the column of a history follows, whose index is computed anew
SET SESSION AUTHORIZATION alice;
CREATE TABLE followed (id int PRIMARY KEY, v int);
INSERT INTO followed VALUES (1, 1);
SELECT scd2.track('followed') \g /dev/null
SELECT scd2.sync() \g /dev/null
CREATE TABLE tried (own text, error text);
CREATE FUNCTION hang_once() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    own text := current_setting('pg_scd2.own_ddl');
BEGIN
    ALTER TABLE a.followed_changes ADD CONSTRAINT slow CHECK (pg_sleep(0) IS NOT NULL);
    INSERT INTO a.tried VALUES (own, NULL);
EXCEPTION WHEN OTHERS THEN
    INSERT INTO a.tried VALUES (own, SQLSTATE);
END $$;
CREATE FUNCTION computed(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM a.hang_once(); RETURN $1; END $$;
CREATE INDEX ON followed_history (computed(v));
ALTER TABLE followed ALTER v TYPE bigint;
INSERT INTO followed VALUES (2, 2);
SELECT scd2.sync() \g /dev/null
SELECT ok(EXISTS (SELECT FROM tried WHERE own = 'on'), 'code of alice ran in a statement of ours');
SELECT is_empty($$SELECT * FROM tried WHERE error IS DISTINCT FROM '55000'$$, '... and put nothing on the feed');
SELECT is((SELECT count(*) FROM followed_history), 2::bigint, '... whose rows arrive');
RESET SESSION AUTHORIZATION;
SELECT * FROM finish();
