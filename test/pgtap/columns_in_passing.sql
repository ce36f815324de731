-- A column that came and went in one transaction leaves nothing: neither the feed nor a target has it, whatever the
-- transaction did besides, and nothing is wrong afterwards.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(16);
CREATE TABLE t (id int PRIMARY KEY, v text);
CREATE TABLE p (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (100);
CREATE TYPE mood AS ENUM ('good');
SELECT scd2.track('t'), scd2.track('p') \g /dev/null
INSERT INTO t VALUES (1, 'a'), (2, 'a');
INSERT INTO p VALUES (1, 'a'), (2, 'a');
UPDATE t SET v = 'b' WHERE id = 2;
SELECT scd2.sync('50 s') \g /dev/null
CREATE FUNCTION columns_of(relation text) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = relation::regclass AND attnum > 0 AND NOT attisdropped AND attname NOT LIKE E'\\_%' $$;

BEGIN; ALTER TABLE t ADD d int DEFAULT 7; ALTER TABLE t DROP d; COMMIT;
SELECT scd2.sync('50 s') \g /dev/null
SELECT is(columns_of('t_changes') || ' ' || columns_of('t_history'), 'id,v id,v', 'nothing between');
BEGIN; ALTER TABLE t ADD d int DEFAULT 7; INSERT INTO t VALUES (3, 'c', 8); UPDATE t SET v = 'd' WHERE id = 1; ALTER TABLE t DROP d; UPDATE t SET v = 'e' WHERE id = 3; COMMIT;
SELECT scd2.sync('50 s') \g /dev/null
SELECT is(columns_of('t_changes') || ' ' || columns_of('t_history'), 'id,v id,v', 'rows between');
BEGIN; UPDATE t SET v = 'f' WHERE id = 1; ALTER TABLE t ADD d int; ALTER TABLE t ALTER d TYPE bigint; ALTER TABLE t RENAME d TO e; UPDATE t SET e = 5; ALTER TABLE t DROP e; COMMIT;
SELECT scd2.sync('50 s') \g /dev/null
SELECT is(columns_of('t_changes') || ' ' || columns_of('t_history'), 'id,v id,v', 'another type and name between');
BEGIN; ALTER TABLE t ADD d mood DEFAULT 'good'; INSERT INTO t VALUES (4, 'c', 'good'); DROP TYPE mood CASCADE; COMMIT;
SELECT scd2.sync('50 s') \g /dev/null
SELECT is(columns_of('t_changes') || ' ' || columns_of('t_history'), 'id,v id,v', 'with its type');
BEGIN; ALTER TABLE t ADD d int DEFAULT 7; ALTER TABLE t DROP d; ALTER TABLE t ADD d text DEFAULT 'stays'; UPDATE t SET d = 'x' WHERE id = 1; COMMIT;
SELECT scd2.sync('50 s') \g /dev/null
SELECT is(columns_of('t_changes') || ' ' || columns_of('t_history'), 'id,v,d id,v,d', 'one of its name that stays is there');
SELECT results_eq('SELECT d FROM t_history WHERE __end_at IS NULL ORDER BY id', 'SELECT d FROM t ORDER BY id', '... with what it has');
BEGIN; SAVEPOINT s; ALTER TABLE t ADD f int DEFAULT 7; ROLLBACK TO s; ALTER TABLE t ADD f int DEFAULT 8; RELEASE s; ALTER TABLE t DROP f; COMMIT;
SELECT scd2.sync('50 s') \g /dev/null
SELECT is(columns_of('t_changes') || ' ' || columns_of('t_history'), 'id,v,d id,v,d', 'in subtransactions');
BEGIN; ALTER TABLE p ADD d int DEFAULT 7; INSERT INTO p VALUES (3, 'c', 8); ALTER TABLE p DROP d; COMMIT;
SELECT scd2.sync('50 s') \g /dev/null
SELECT is(columns_of('p_changes') || ' ' || columns_of('p_history'), 'id,v id,v', 'a partitioned table');
-- in two transactions it was there
ALTER TABLE t ADD g int DEFAULT 7;
UPDATE t SET v = 'g' WHERE id = 1;
ALTER TABLE t DROP g;
UPDATE t SET v = 'h' WHERE id = 2;
SELECT scd2.sync('50 s') \g /dev/null
SELECT is(columns_of('t_history'), 'id,v,d,g', 'in two transactions it was there');
-- a feed that is locked meanwhile: the rows wait with the columns that they had
BEGIN;
LOCK TABLE p_changes IN ACCESS SHARE MODE;
CREATE EXTENSION dblink;
COMMIT;
SELECT dblink_connect('holder', 'dbname=' || current_database() || ' user=' || current_user) \g /dev/null
SELECT dblink_exec('holder', 'BEGIN; LOCK TABLE p_changes IN ACCESS EXCLUSIVE MODE') \g /dev/null
INSERT INTO p VALUES (4, 'waits');
BEGIN; ALTER TABLE p ADD d int DEFAULT 7; INSERT INTO p VALUES (5, 'c', 8); ALTER TABLE p DROP d; COMMIT;
INSERT INTO p VALUES (6, 'after');
SELECT scd2.sync('50 s', '{t_history}') \g /dev/null
SELECT dblink_exec('holder', 'COMMIT') \g /dev/null
SELECT scd2.sync('50 s') \g /dev/null
SELECT is(columns_of('p_changes') || ' ' || columns_of('p_history'), 'id,v id,v', 'where the feed was locked');
-- all is there
SELECT bag_eq('SELECT id, v, d FROM t_history WHERE __end_at IS NULL', 'TABLE t', 'the history has the table''s rows');
SELECT bag_eq('SELECT id, v FROM p_history WHERE __end_at IS NULL', 'TABLE p', '... of the partitioned table, too');
SELECT is((SELECT count(*) FROM scd2.feeds WHERE gap IS NOT NULL), 0::bigint, 'there is no gap');
SELECT is((SELECT count(*) FROM scd2.check_target('p_history')), 0::bigint, 'the target is right');
SELECT is((SELECT count(*) FROM scd2.diagnose() WHERE subject LIKE '%p_history%'), 0::bigint, 'and nothing is wrong with it');
SELECT is((SELECT string_agg(problem, ';') FROM scd2.diagnose() WHERE subject LIKE '%t_history%' AND detail NOT LIKE '%: g.%'), NULL, 'nor with the other but the column that was there');
SELECT * FROM finish();
