-- What flows are made from: partitioned tables, parents, keys of all kinds, feeds that lack columns, roles.
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE SCHEMA flow_sources;
SET search_path = flow_sources;
CREATE FUNCTION open_is_source(source text, history text, columns text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    same boolean;
BEGIN
    EXECUTE format('SELECT NOT EXISTS (SELECT %1$s FROM %2$s EXCEPT ALL SELECT %1$s FROM %3$s WHERE __end_at IS NULL)
                       AND NOT EXISTS (SELECT %1$s FROM %3$s WHERE __end_at IS NULL EXCEPT ALL SELECT %1$s FROM %2$s)', columns, source, history) INTO same;
    RETURN same;
END $$;

-- a partitioned table: one history; rows move between partitions; a partition made later; one with columns in another order
CREATE TABLE p (id integer, region text, v text, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE p_north PARTITION OF p FOR VALUES IN ('north');
CREATE TABLE p_south (v text, gone integer, region text NOT NULL, id integer NOT NULL, PRIMARY KEY (id, region));
ALTER TABLE p_south DROP COLUMN gone;
ALTER TABLE p ATTACH PARTITION p_south FOR VALUES IN ('south');
INSERT INTO p VALUES (1, 'north', 'a'), (2, 'south', 'b');
SELECT scd2.track('p');
SELECT scd2.sync() >= 0;
UPDATE p SET v = 'b1' WHERE id = 2;
UPDATE p SET region = 'south' WHERE id = 1;
CREATE TABLE p_east PARTITION OF p FOR VALUES IN ('east');
INSERT INTO p VALUES (3, 'east', 'c');
SELECT scd2.sync() >= 0;
SELECT id, region, v, __end_at IS NULL AS open FROM p_history ORDER BY id, __start_at;
TRUNCATE p;
SELECT scd2.sync() >= 0;
SELECT count(*) FROM p_history WHERE __end_at IS NULL;

-- a parent's children are tables of their own
CREATE TABLE par (id integer PRIMARY KEY, v text);
CREATE TABLE child (extra text) INHERITS (par);
INSERT INTO par VALUES (1, 'parent');
INSERT INTO child VALUES (1, 'child', 'x'), (2, 'child', 'y');
SELECT scd2.track('par');
SELECT scd2.sync() >= 0;
UPDATE par SET v = v || '!';
SELECT scd2.sync() >= 0;
SELECT id, v, __end_at IS NULL AS open FROM par_history ORDER BY id, __start_at;

-- keys: types of every kind, other unique indexes than the primary key, a subset that is unique
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN code AS text CHECK (VALUE <> '');
CREATE TABLE k (u uuid, m mood, n numeric, t timestamptz, b bytea, c code, ch char(3), r int4range, a integer[], d date, i interval, net inet,
                v text, other integer NOT NULL UNIQUE DEFERRABLE, PRIMARY KEY (u, m, n, t, b, c, ch, r, a, d, i, net));
INSERT INTO k SELECT md5(g::text)::uuid, 'ok', g / 10.0, 'epoch', decode(md5(g::text), 'hex'), 'c' || g, 'x', int4range(g, g + 1), ARRAY[g, NULL], 'epoch', '1 day', '::1', 'v', g
    FROM generate_series(1, 20) AS g;
SELECT scd2.track('k');
SELECT scd2.track('k', 'k_by_other', keys => '{other}');
SELECT scd2.track('k', 'k_by_two', keys => '{v,other}');
SELECT scd2.sync() >= 0;
UPDATE k SET v = 'w', m = 'sad' WHERE other % 2 = 0;
UPDATE k SET n = n + 0.00 WHERE other = 1;
UPDATE k SET i = '24:00:00' WHERE other = 3;
UPDATE k SET other = other + 1;
DELETE FROM k WHERE other > 15;
SELECT scd2.sync() >= 0;
SELECT open_is_source('k', h, 'u, m, n::text, t, b, c, ch, r, a, d, i::text, net, v, other') FROM unnest('{k_history,k_by_other,k_by_two}'::text[]) AS h;
SELECT other, n::text, __end_at IS NULL AS open FROM k_history WHERE b = decode(md5('1'), 'hex') ORDER BY __start_at;

-- keys that are equal in another spelling are one key; the spelling follows
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE names (name text COLLATE nocase PRIMARY KEY, v integer);
INSERT INTO names VALUES ('Ana', 1), ('luis', 1);
SELECT scd2.track('names');
SELECT scd2.track('names', stored_as_scd_type => 1);
SELECT scd2.sync() >= 0;
UPDATE names SET name = 'ANA' WHERE v = 1 AND name = 'ana';
BEGIN;
DELETE FROM names WHERE name = 'LUIS';
INSERT INTO names VALUES ('Luis', 2);
COMMIT;
SELECT scd2.sync() >= 0;
SELECT name, v, __end_at IS NULL AS open FROM names_history ORDER BY name COLLATE "C", __start_at;
SELECT * FROM names_current ORDER BY name COLLATE "C";

-- columns that a feed leaves out are in no target
CREATE TABLE users (id integer PRIMARY KEY, name text, secret text);
INSERT INTO users VALUES (1, 'Ana', 'x');
SELECT scd2.enable_change_feed('users', except_column_list => '{secret}');
SELECT scd2.track('users');
\set VERBOSITY terse
SELECT scd2.track('users', 'users_2', column_list => '{id,secret}');
\set VERBOSITY default
SELECT scd2.sync() >= 0;
UPDATE users SET secret = 'y';
UPDATE users SET name = 'Eva';
SELECT scd2.sync() >= 0;
SELECT id, name, __end_at IS NULL AS open FROM users_history ORDER BY __start_at;
SELECT attname FROM pg_attribute WHERE attrelid = 'users_history'::regclass AND attnum > 0 ORDER BY attnum;

-- an ordinary role does it all; what it wrote runs as itself
CREATE ROLE flow_owner;
GRANT CREATE, USAGE ON SCHEMA flow_sources TO flow_owner;
SET ROLE flow_owner;
CREATE TABLE mine (id integer PRIMARY KEY, v text, since timestamptz);
INSERT INTO mine VALUES (1, 'a', '2026-01-01');
CREATE FUNCTION spy(at timestamptz) RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF current_user <> 'flow_owner' OR current_setting('search_path') <> 'pg_catalog, pg_temp' THEN
        RAISE 'evaluated as % with %', current_user, current_setting('search_path');
    END IF;
    BEGIN
        PERFORM set_config('session_authorization', 'postgres', false);
        RAISE 'could leave';
    EXCEPTION WHEN insufficient_privilege THEN
        RETURN at;
    END;
END $$;
SELECT scd2.track('mine', initial_start => 'flow_sources.spy(since)');
RESET ROLE;
SELECT scd2.sync() >= 0;
SET ROLE flow_owner;
UPDATE mine SET v = 'b';
RESET ROLE;
SELECT scd2.sync() >= 0;
SELECT id, v, __start_at = '2026-01-01' AS since, pg_get_userbyid(c.relowner) AS owner FROM mine_history CROSS JOIN pg_class AS c WHERE c.oid = 'mine_history'::regclass ORDER BY __start_at;
SET ROLE flow_owner;
SELECT scd2.full_refresh('mine_history');
SELECT scd2.pause_flow('mine_history');
SELECT scd2.resume_flow('mine_history');
SELECT scd2.untrack('mine', drop_targets => true, drop_feed => true);
RESET ROLE;

SELECT scd2.untrack(s, drop_targets => true, drop_feed => true) FROM unnest('{p,par,k,names,users}'::regclass[]) AS s;
DROP SCHEMA flow_sources CASCADE;
DROP ROLE flow_owner;
