-- The rows of feeds and targets are written by nobody else, by ALTER TABLE … USING neither, unless the session may write them.
\set QUIET on
SET client_min_messages = warning;
CREATE ROLE alice;
CREATE SCHEMA a AUTHORIZATION alice;
SET SESSION AUTHORIZATION alice;
CREATE TABLE a.t (id int PRIMARY KEY, v text, n int);
CREATE TABLE a.ev (id int, v text, n int, at int);
SELECT scd2.track('a.t') \g /dev/null
SELECT scd2.track('a.t', 'a.now', stored_as_scd_type => 1) \g /dev/null
SELECT scd2.create_append_flow('a.copy', 'a.t') \g /dev/null
SELECT scd2.create_auto_cdc_flow('a.d', 'a.ev', '{id}', 'at', stored_as_scd_type => 2) \g /dev/null
INSERT INTO a.t VALUES (1, 'one', 1), (2, 'two', 2);
INSERT INTO a.ev VALUES (1, 'one', 1, 1), (1, 'later', 1, 2);
SELECT scd2.sync() \g /dev/null
UPDATE a.t SET v = 'second' WHERE id = 2;
SELECT scd2.sync() \g /dev/null
CREATE TABLE a.relations AS SELECT c.oid::regclass::text AS r FROM pg_class c
    WHERE c.oid IN ('a.t_changes'::regclass, 'a.t_history'::regclass, 'a.now'::regclass, 'a.copy'::regclass, 'a.d'::regclass)
       OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'a.t_changes'::regclass);
CREATE TABLE a.statements (s text);
INSERT INTO a.statements VALUES ('ALTER v TYPE text USING ''x'''), ('ALTER v TYPE text USING upper(v)'), ('ALTER n TYPE int USING NULL'), ('ALTER n TYPE int USING n + 1'),
    ('ALTER v TYPE text USING v::varchar(1)');
CREATE FUNCTION a.rows_of(r text) RETURNS text LANGUAGE plpgsql AS $$ DECLARE x text; BEGIN EXECUTE format('SELECT md5(string_agg(t::text, '','' ORDER BY t::text)) FROM %s t', r) INTO x; RETURN x; END $$;
CREATE TABLE a.before AS SELECT r, a.rows_of(r) AS rows FROM a.relations;
SELECT plan(6);

CREATE FUNCTION a.tried(OUT refused bigint, OUT others text) LANGUAGE plpgsql AS $$
DECLARE
    c record;
BEGIN
    refused := 0;
    FOR c IN SELECT format('ALTER TABLE %s %s', r, s) AS statement FROM a.relations, a.statements LOOP
        BEGIN
            EXECUTE c.statement;
            others := concat_ws(E'\n', others, c.statement);
        EXCEPTION WHEN object_not_in_prerequisite_state THEN
            refused := refused + 1;
        WHEN invalid_table_definition THEN  -- a partition's column is its root's
            refused := refused + 1;
        END;
    END LOOP;
END $$;
SELECT results_eq('SELECT * FROM a.tried()', 'SELECT count(*), NULL::text FROM a.relations, a.statements', 'no statement gives values to the rows of a feed, its partitions or any kind of target');
SELECT is_empty('SELECT r FROM a.before WHERE rows IS DISTINCT FROM a.rows_of(r)', 'they are as they were');
SELECT throws_ok('ALTER TABLE a.t_history ALTER v TYPE text USING NULL', '55000', 'table "a.t_history" is written by pg_scd2 alone', 'which is told');
SELECT lives_ok('ALTER TABLE a.ev ALTER v TYPE text USING upper(v)', 'sources are their owner''s');
SET pg_scd2.allow_target_writes = on;
SELECT lives_ok('ALTER TABLE a.d ALTER v TYPE text USING upper(v)', 'who may write them, may');
RESET pg_scd2.allow_target_writes;
SELECT is((SELECT string_agg(DISTINCT v, ',' ORDER BY v) FROM a.d), 'LATER,ONE', '... and does');
SELECT * FROM finish();
