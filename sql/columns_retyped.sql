-- A type that takes the same values is followed; where values changed and the log does not show how, the feed has a gap that says so (CD-04).
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE SCHEMA columns_retyped;
SET search_path = columns_retyped;
CREATE FUNCTION columns_of(r regclass) RETURNS text LANGUAGE sql AS
    $$ SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = r AND attnum > 0 AND NOT attisdropped AND attname NOT LIKE '\_%' $$;
CREATE TABLE t (id integer PRIMARY KEY, c varchar(5), n numeric(6,2), i smallint, b integer);
INSERT INTO t VALUES (1, 'a', 1.5, 7, 8), (2, 'b', 2.5, 7, 8);
SELECT scd2.track('t');
SELECT scd2.sync() IS NOT NULL AS synced;
-- no value changes, and none is written; changes before and after, in one transaction
BEGIN;
UPDATE t SET c = 'a2', b = 9 WHERE id = 1;
INSERT INTO t VALUES (3, 'c', 3, 7, 8);
ALTER TABLE t ALTER c TYPE varchar(20), ALTER n TYPE numeric(10,2) USING n::numeric(10,2), ALTER i TYPE bigint, ALTER b TYPE text USING b::text, ALTER id TYPE bigint;
UPDATE t SET c = 'longer than five' WHERE id = 3;
ALTER TABLE t ALTER c TYPE text;
UPDATE t SET i = 5000000000, b = 'text' WHERE id = 2;
COMMIT;
SELECT scd2.sync() IS NOT NULL AS synced;
SELECT r, columns_of(r) FROM unnest('{t_changes,t_history}'::regclass[]) r;
SELECT id, c, n, i, b, __end_at IS NULL AS open FROM t_history ORDER BY id, __start_at;
SELECT _change_type, id, c, n, i, b FROM scd2.table_changes(NULL::t_changes);
SET client_min_messages = notice;        -- that it was compared, too
SELECT * FROM scd2.check_target('t_history');
SET client_min_messages = warning;
SELECT * FROM scd2.diagnose();
-- values of their own for each row: compared with the target at once (columns_rewritten)
ALTER TABLE t ADD COLUMN r double precision DEFAULT random();
SELECT scd2.sync('10 s') IS NOT NULL AS synced;
SELECT s.state, s.error FROM scd2_internal.feed_state s WHERE source_relid = 't'::regclass;
SELECT problem, fix FROM scd2.diagnose() WHERE subject LIKE 'table%';
-- without a target: a gap, with what to do
CREATE TABLE u (id integer PRIMARY KEY, v text);
SELECT scd2.enable_change_feed('u');
-- nothing to be missed in a table without rows
ALTER TABLE u ADD COLUMN r double precision DEFAULT random();
ALTER TABLE u ALTER r TYPE integer;
SELECT scd2.sync() AS v0 \gset
INSERT INTO u (id, v) VALUES (1, '12');
ALTER TABLE u ALTER v TYPE integer USING v::integer + 1;
DO $$ BEGIN PERFORM scd2.sync('20 s', '{}'); END $$;
SELECT s.state, s.error FROM scd2_internal.feed_state s WHERE source_relid = 'u'::regclass;
SELECT problem, fix FROM scd2.diagnose() WHERE subject LIKE 'table%';
SELECT scd2.resync('u');
INSERT INTO u (id, v) VALUES (2, 2);
SELECT scd2.sync() AS v1 \gset
SELECT regexp_replace(columns_of('u_changes'), 'until_\d+', 'until_V', 'g');
SELECT id, v FROM scd2.table_changes(NULL::u_changes, :v1);
-- a cast to less than the column takes is one more change of values, with or without what is longer
CREATE TABLE w (id integer PRIMARY KEY, v varchar(10), x varchar(10));
SELECT scd2.track('w');
INSERT INTO w VALUES (1, 'abcdef', 'abcdef');
SELECT scd2.sync() AS v0 \gset
ALTER TABLE w ALTER v TYPE varchar(20) USING v::varchar(3);
SELECT scd2.sync() > 0 AS synced;
ALTER TABLE w ALTER x TYPE varchar(3) USING x::varchar(3);
SELECT scd2.sync() > 0 AS synced;
SELECT v, x, __end_at IS NULL AS open FROM w_history ORDER BY __start_at;

-- another type, of other values: the column is kept beside a new one, in feed and targets; what was said of it is said of the new one
CREATE TABLE k (id integer PRIMARY KEY, v text, n numeric(6,2), e text, note text);
SELECT scd2.track('k', except_column_list => '{e}');
SELECT scd2.track('k', 'k_now', stored_as_scd_type => 1);
SELECT scd2.create_auto_cdc_flow('k_few', 'k_changes', '{id}', column_list => '{id,v,note}', stored_as_scd_type => 2, track_history_column_list => '{v}');
SELECT scd2.create_auto_cdc_flow('k_some', 'k_changes', '{id}', source_filter => $$v <> '3'$$, stored_as_scd_type => 2);
INSERT INTO k VALUES (1, '1', 1, '1', 'one'), (2, '2', 2, '2', 'two'), (3, '3', 3, '3', 'three'), (4, NULL, 4, '4', 'four');
SELECT scd2.sync() AS v0 \gset
SET client_min_messages = notice;
BEGIN;
UPDATE k SET v = '10' WHERE id = 1;
ALTER TABLE k ALTER v TYPE integer USING v::integer + 1, ALTER n TYPE numeric(8,3), ALTER e TYPE date USING '2026-11-30';
DELETE FROM k WHERE id = 2;
INSERT INTO k VALUES (5, 5, 5, '2026-11-30', 'five');
ALTER TABLE k RENAME COLUMN v TO value;
COMMIT;
SET client_min_messages = warning;
UPDATE k SET value = 33 WHERE id = 3;
SELECT scd2.sync(targets => '{k_history,k_now,k_few}') - :v0 AS versions;
CREATE FUNCTION relative(c text, v bigint) RETURNS text LANGUAGE sql AS $$ SELECT replace(c, 'until_' || v + 1, 'until_V') $$;
SELECT r, relative(columns_of(r), :v0) FROM unnest('{k_changes,k_history,k_now,k_few}'::regclass[]) r;
SELECT _commit_version - :v0 AS version, _change_type, relative((to_jsonb(c) - '{_change_type,_commit_version,_commit_timestamp,_change_ordinal,_xid}'::text[])::text, :v0) AS image
FROM scd2.table_changes(NULL::k_changes) c ORDER BY 1, id, _change_ordinal;
SELECT relative((to_jsonb(h) - '{__start_at,__end_at}'::text[])::text, :v0) AS row, __end_at IS NULL AS open FROM k_history h ORDER BY id, __start_at;
SELECT relative(to_jsonb(h)::text, :v0) AS row FROM k_now h ORDER BY id;
SELECT relative((to_jsonb(h) - '{__start_at,__end_at}'::text[])::text, :v0) AS row, __end_at IS NULL AS open FROM k_few h ORDER BY id, __start_at;
SELECT columns, tracked, options -> 'column_list' AS column_list, options -> 'track_history_column_list' AS track FROM
    (SELECT f.name, f.options, relative(f.columns::text, :v0) AS columns, relative(f.tracked::text, :v0) AS tracked FROM scd2_internal.flow f) f WHERE name = 'k_few';
SELECT count(*) AS new_values FROM scd2.table_at(NULL::k, :v0) WHERE value IS NOT NULL OR n IS NOT NULL;
SELECT t, c.* FROM unnest('{k_history,k_now,k_few}'::regclass[]) t, scd2.check_target(t) c;
-- a flow with an expression over the column stops, until somebody says what it shall be
SELECT state, relative(last_error, :v0) AS last_error FROM scd2.flows WHERE flow = 'k_some';
SELECT problem, fix FROM scd2.diagnose() WHERE subject LIKE '%k_some%';
SELECT scd2.alter_flow('k_some', source_filter => 'value <> 4');
SELECT scd2.resume_flow('k_some');
SELECT scd2.sync(targets => '{k_history,k_now,k_few}') > 0 AS synced;
SELECT state, regexp_replace(last_error, 'versions \d+ to \d+', 'versions X to Y') AS last_error FROM scd2.flows WHERE flow = 'k_some';
SELECT scd2.full_refresh('k_some', allow_loss => true);
SELECT scd2.sync() AS v1 \gset
SELECT id, value, n FROM k_some WHERE __end_at IS NULL ORDER BY id;
-- once more, and away
SELECT scd2.stop();
ALTER TABLE k ALTER value TYPE date USING date '2026-01-01' + value;
UPDATE k SET note = 'between' WHERE id = 1;
ALTER TABLE k ALTER value TYPE text USING value || '!';
UPDATE k SET value = 'text' WHERE id = 1;
ALTER TABLE k DROP COLUMN n;
SELECT scd2.drop_flow('k_some');
SELECT scd2.start();
SELECT scd2.sync() AS v2 \gset
SELECT id, value, __end_at IS NULL AS open FROM k_few WHERE __end_at IS NULL ORDER BY id;
SELECT id, value FROM k_now EXCEPT SELECT id, value FROM k;
SELECT flow, state, last_error FROM scd2.flows WHERE flow LIKE 'k%' ORDER BY 1;
SELECT t, c.* FROM unnest('{k_history,k_now,k_few}'::regclass[]) t, scd2.check_target(t) c;
SELECT subject, problem FROM scd2.diagnose() ORDER BY 1;

-- a type that would be followed, and a view on the feed that is in the way: the view keeps the column that it is of
CREATE TABLE h (id integer PRIMARY KEY, v varchar(5));
SELECT scd2.track('h');
INSERT INTO h VALUES (1, 'a');
CREATE VIEW of_feed AS SELECT id, v FROM h_changes;
SELECT scd2.sync() AS v0 \gset
ALTER TABLE h ALTER v TYPE text;
INSERT INTO h VALUES (2, 'longer than it was');
SELECT scd2.sync() > 0 AS synced;
SELECT id, v FROM of_feed WHERE v IS NOT NULL;
SELECT id, v, __end_at IS NULL AS open FROM h_history ORDER BY id, __start_at;
SELECT state, gap FROM scd2.feeds WHERE source = 'h'::regclass;
SELECT * FROM scd2.check_target('h_history');
DROP VIEW of_feed;

-- keys, and targets that other flows keep too, cannot follow
CREATE TABLE a (id integer PRIMARY KEY, v text);
SELECT scd2.track('a');
SELECT scd2.create_auto_cdc_flow('s', 'a_changes', '{id}', apply_as_truncates => 'false', column_list => '{id,v}', stored_as_scd_type => 2, shared => true, name => 's');
CREATE TABLE b (id integer, v text, at timestamptz);
SELECT scd2.create_auto_cdc_flow('s', 'b', '{id}', sequence_by => 'at', column_list => '{id,v}', stored_as_scd_type => 2, name => 's_too');
INSERT INTO a VALUES (1, '1');
SELECT scd2.sync() > 0 AS synced;
CREATE PROCEDURE wait_until_failed(VARIADIC waited_for name[]) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. 600 LOOP
        EXIT WHEN (SELECT bool_and(state = 'failed') FROM scd2.flows WHERE flow = ANY (waited_for));
        COMMIT;
        PERFORM pg_sleep(0.05);
    END LOOP;
END $$;
CREATE PROCEDURE wait_until_repaired(captured regclass) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. 600 LOOP
        EXIT WHEN (SELECT state = 'running' FROM scd2.feeds WHERE source = captured);
        COMMIT;
        PERFORM pg_sleep(0.05);
    END LOOP;
END $$;
ALTER TABLE a ALTER v TYPE integer USING v::integer + 1;
CALL wait_until_failed('s');
CALL wait_until_repaired('a');
SELECT scd2.sync(targets => '{a_history}') > 0 AS synced;
SELECT flow, state, last_error FROM scd2.flows WHERE flow IN ('s', 's_too', 'a_history') ORDER BY 1;
SELECT v, __end_at IS NULL AS open FROM a_history ORDER BY __start_at;
SELECT scd2.drop_flow('s');
-- (a type that is followed: other keys are other rows)
ALTER TABLE a ALTER id TYPE bigint USING id + 10;
SELECT scd2.sync() > 0 AS synced;
SELECT id, v, __end_at IS NULL AS open FROM a_history WHERE v IS NOT NULL ORDER BY id;
ALTER TABLE a ALTER id TYPE date USING date '2026-01-01' + id::integer;
CALL wait_until_failed('a_history');
SELECT last_error FROM scd2.flows WHERE flow = 'a_history';
SELECT fix FROM scd2.diagnose() WHERE subject LIKE '%a_history' AND problem = 'it has failed';
SELECT scd2.drop_flow('a_history', drop_target => true);
SELECT scd2.sync('20 s', '{}') > 0 AS synced;
CALL wait_until_repaired('a');
SELECT state, gap IS NOT NULL AS has_gap FROM scd2.feeds WHERE source = 'a'::regclass;
SELECT scd2.track('a');
SELECT scd2.sync(targets => '{a_history}') > 0 AS synced;
SELECT id, v FROM a_history;
SELECT count(scd2.drop_flow(flow)) FROM scd2.flows;
DROP SCHEMA columns_retyped CASCADE;
