-- erase(): a row that is gone from its table leaves the feed, targets of every kind, memory, rejected events and what
-- is made from targets, under other keys that it had, too; other rows stay as they are, and nothing brings it back.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(69);
CREATE ROLE "Owner";
CREATE SCHEMA own AUTHORIZATION "Owner";
SET SESSION AUTHORIZATION "Owner";
SET search_path = own, public;
CREATE FUNCTION anywhere(word text) RETURNS TABLE (relation text) LANGUAGE plpgsql AS $$
DECLARE
    c record;
    found boolean;
BEGIN
    FOR c IN SELECT x.oid FROM pg_class x WHERE x.relnamespace = 'own'::regnamespace AND x.relkind = 'r' LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %s t WHERE t::text LIKE %L)', c.oid::regclass, '%' || word || '%') INTO found;
        IF found THEN
            relation := c.oid::regclass;
            RETURN NEXT;
        END IF;
    END LOOP;
    RETURN QUERY SELECT 'rejected' FROM scd2.rejected_events r WHERE r.event::text LIKE '%' || word || '%' LIMIT 1;
    RETURN QUERY SELECT 'flows' FROM scd2.flows f WHERE f.last_error LIKE '%' || word || '%' LIMIT 1;
END $$;
CREATE FUNCTION hint_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    hint text;
BEGIN
    EXECUTE statement;
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RETURN hint;
END $$;

-- a captured table with targets of all kinds, and one made from a target
CREATE TABLE c (id int PRIMARY KEY, name text, region text);
SELECT scd2.track('c'), scd2.track('c', stored_as_scd_type => 1), scd2.create_append_flow('c_all', 'c') \g /dev/null
SELECT scd2.create_auto_cdc_flow('c_own', 'c_changes', '{id}', '_commit_timestamp', apply_as_truncates => 'false', shared => true, stored_as_scd_type => 2) \g /dev/null
SELECT scd2.track('c_history', 'c_history_2', keys => '{id,__start_at}', stored_as_scd_type => 1) \g /dev/null
SELECT scd2.create_auto_cdc_from_snapshot_flow('c_snap', 'c_current', '{id}', 'int', stored_as_scd_type => 2, max_delete_fraction => 1) \g /dev/null
SELECT scd2.sync() \g /dev/null
INSERT INTO c VALUES (1, 'marker', 'Norte'), (2, 'other', 'Norte');
SELECT scd2.sync() \g /dev/null
UPDATE c SET region = 'Sur';
SELECT scd2.sync() \g /dev/null
SELECT 1 FROM scd2.apply_snapshot('c_snap', 1) \g /dev/null
SELECT throws_ok($$SELECT * FROM scd2.erase('c', '{"id": 1}')$$, '55000', 'the row is still in table "own.c"', 'a row that is there is not erased');
SELECT lives_ok(hint_of($$SELECT scd2.erase('c', '{"id": 1}')$$), 'its hint works when pasted');
SELECT scd2.sync() \g /dev/null
SELECT bag_eq($$SELECT relation FROM anywhere('marker')$$, $$VALUES ('c_changes_p1'), ('c_history'), ('c_all'), ('c_own'), ('c_history_changes_p1'), ('c_history_2'), ('c_snap')$$, 'it is everywhere');
CREATE TABLE before AS SELECT 'feed' AS what, x::text AS row FROM c_changes x WHERE id = 2 UNION ALL SELECT 'history', x::text FROM c_history x WHERE id = 2 UNION ALL SELECT 'own', x::text FROM c_own x WHERE id = 2
    UNION ALL SELECT 'downstream', x::text FROM c_history_2 x WHERE id = 2 UNION ALL SELECT 'snap', x::text FROM c_snap x WHERE id = 2 UNION ALL SELECT 'all', x::text FROM c_all x WHERE id = 2;
SELECT scd2.latest_version() AS version \gset
CREATE TABLE erased AS SELECT * FROM scd2.erase('c', '{"id": 1}');
SELECT bag_eq('SELECT relation::text, rows FROM erased WHERE rows > 0', $$VALUES ('c_changes', 4::bigint), ('c_history', 2), ('c_all', 1), ('c_own', 2), ('c_own_memory', 1), ('c_history_changes', 6), ('c_history_2', 2), ('c_snap', 1)$$, 'it says what it removed');
SELECT scd2.sync() \g /dev/null
SELECT is_empty($$SELECT * FROM anywhere('marker')$$, 'the row is nowhere any more, nor does a feed of a target have it again');
SELECT bag_eq($$SELECT 'feed', x::text FROM c_changes x UNION ALL SELECT 'history', x::text FROM c_history x UNION ALL SELECT 'own', x::text FROM c_own x
    UNION ALL SELECT 'downstream', x::text FROM c_history_2 x UNION ALL SELECT 'snap', x::text FROM c_snap x UNION ALL SELECT 'all', x::text FROM c_all x$$, 'TABLE before', 'other rows are as they were');
SELECT is(scd2.latest_version(), :version::bigint, 'it is no version');
SELECT is_empty(format('SELECT * FROM scd2.check_target(%L)', t), 'target ' || t || ' is what its sources say') FROM unnest('{c_history,c_current,c_all,c_own,c_history_2}'::text[]) t;
SELECT is((SELECT concat_ws(' ', source, erased_by, rows) FROM scd2.erasures), 'c Owner 19', 'that it was done is recorded');
RESET SESSION AUTHORIZATION;
SELECT is_empty($$SELECT * FROM scd2_internal.erasure e WHERE e::text LIKE '%marker%'$$, '... without the key');
SET SESSION AUTHORIZATION "Owner";
SELECT scd2.full_refresh('c_history'), scd2.full_refresh('c_all'), scd2.full_refresh('c_own') \g /dev/null
SELECT scd2.sync() \g /dev/null
SELECT is_empty($$SELECT * FROM anywhere('marker')$$, 'a full refresh does not bring it back');
SELECT is((SELECT count(*) FROM scd2.table_at(NULL::c, :version - 2)), 1::bigint, 'and the table of former days is without it');
INSERT INTO c VALUES (1, 'marker again', 'Este');
SELECT scd2.sync() \g /dev/null
SELECT results_eq('SELECT name, region FROM c_history WHERE id = 1', $$VALUES ('marker again', 'Este')$$, 'a new row with the key is a new row');
DELETE FROM c WHERE id = 1;
SELECT lives_ok($$SELECT * FROM scd2.erase('c', '{"id": "1"}')$$, 'erase waits until what deleted it is captured');
SELECT scd2.sync() \g /dev/null
SELECT is_empty($$SELECT * FROM anywhere('marker')$$, '... and leaves nothing');

-- keys that the row had before
CREATE TABLE k (id int PRIMARY KEY, name text);
SELECT scd2.track('k'), scd2.track('k', 'k_own', sequence_by => 'struct(_commit_timestamp, _change_ordinal)', delete_sequence_by => 'struct(_commit_timestamp, _change_ordinal)') \g /dev/null
SELECT scd2.sync() \g /dev/null
INSERT INTO k VALUES (10, 'someone before'), (20, 'marker');
DELETE FROM k WHERE id = 10;
UPDATE k SET id = 10 WHERE id = 20;             -- 20 is wholly its own, 10 was another's before
UPDATE k SET name = 'marker, changed';
UPDATE k SET id = 30;
INSERT INTO k VALUES (10, 'someone after');
SELECT scd2.sync() \g /dev/null
DELETE FROM k WHERE id = 30;
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT count(*) FROM k_history WHERE name LIKE 'marker%'), 4::bigint, 'a row that had three keys');
SELECT scd2.erase('k', '{"id": 30}') \g /dev/null
SELECT bag_eq($$SELECT relation FROM anywhere('marker')$$, $$VALUES ('k_own')$$, 'is gone under all of them where that can be told');
SELECT bag_eq('SELECT id, name, _change_type FROM k_changes', $$VALUES (10, 'someone before', 'insert'), (10, 'someone before', 'delete'), (10, 'someone after', 'insert')$$, 'others with one of them stay in the feed');
SELECT bag_eq('SELECT id, name FROM k_history', $$VALUES (10, 'someone before'), (10, 'someone after')$$, 'and in the history');
SELECT is_empty($$SELECT * FROM scd2.check_target('k_history')$$, 'which is what its sources say');
SELECT is((SELECT count(*) FROM k_own WHERE id IN (20, 30)), 0::bigint, 'where a sequence of its own does not tell, keys that only it had are gone');

-- keys that the row had afterwards
CREATE TABLE l (id int PRIMARY KEY, name text);
SELECT scd2.track('l'), scd2.create_append_flow('l_all', 'l') \g /dev/null
SELECT scd2.sync() \g /dev/null
INSERT INTO l VALUES (2, 'other, before'), (1, 'marker');
DELETE FROM l WHERE id = 2;
UPDATE l SET id = 2 WHERE id = 1;
UPDATE l SET name = 'marker, changed' WHERE id = 2;
BEGIN;
UPDATE l SET id = 3 WHERE id = 2;
UPDATE l SET name = 'marker, again' WHERE id = 3;
UPDATE l SET id = 4 WHERE id = 3;
COMMIT;
INSERT INTO l VALUES (2, 'other, after'), (3, 'other, after');
DELETE FROM l WHERE id = 4;
SELECT scd2.sync() \g /dev/null
SELECT is((SELECT count(*) FROM l_history WHERE name LIKE 'marker%'), 4::bigint, 'a row that had four keys, one of them in passing');
SELECT scd2.erase('l', '{"id": 1}') \g /dev/null
SELECT is_empty($$SELECT relation FROM anywhere('marker') WHERE relation LIKE 'l\_%' AND relation <> 'l_all'$$, 'is gone by its first key');
SELECT bag_eq('SELECT id, name FROM l_history', $$VALUES (2, 'other, before'), (2, 'other, after'), (3, 'other, after')$$, 'others with one of its keys stay in the history');
SELECT bag_eq('SELECT id, name, _change_type FROM l_changes', $$VALUES (2, 'other, before', 'insert'), (2, 'other, before', 'delete'), (2, 'other, after', 'insert'), (3, 'other, after', 'insert')$$, '... and in the feed');
SELECT is_empty($$SELECT * FROM scd2.check_target('l_history')$$, 'which is what its sources say');
INSERT INTO l VALUES (11, 'marker'), (12, 'marker'), (13, 'marker');
UPDATE l SET id = id + 10 WHERE id IN (11, 12);
UPDATE l SET id = 23 WHERE id = 13;
DELETE FROM l WHERE id = 21;
TRUNCATE l;
INSERT INTO l VALUES (23, 'other');
SELECT scd2.sync() \g /dev/null
SELECT count(*) FROM scd2.erase('l', '{"id": 13}') \g /dev/null
SELECT bag_eq('SELECT id, name FROM l_history WHERE id > 10', $$VALUES (11, 'marker'), (12, 'marker'), (21, 'marker'), (22, 'marker'), (23, 'other')$$, 'a truncate ends a life, too');
SELECT count(*) FROM scd2.erase('l', '{"id": 12}') \g /dev/null
SELECT bag_eq('SELECT id, name FROM l_history WHERE id > 10', $$VALUES (11, 'marker'), (21, 'marker'), (23, 'other')$$, 'whether the row was there or not');
SELECT count(*) FROM scd2.erase('l', '{"id": 11}') \g /dev/null
SELECT bag_eq('SELECT id, name FROM l_history WHERE id > 10', $$VALUES (23, 'other')$$, 'and by its delete');
-- a row that is there under its later key; keys that can be the same for a moment
UPDATE l SET id = 33 WHERE id = 23;
SELECT scd2.sync() \g /dev/null
\set said `psql -XAtq -d :DBNAME -c 'SET SESSION AUTHORIZATION "Owner"' -c 'SET search_path = own, public' -c "SELECT count(*) FROM scd2.erase('l', '{\"id\": 23}')" 2>&1`
SELECT matches(:'said'::text, 'still in table "own.l", as \{"id": "33"\}', 'one that is in its table is named');
SELECT bag_eq('SELECT id, name FROM l_history WHERE id > 10', $$VALUES (33, 'other')$$, '... and keeps what it is there');
CREATE TABLE m (id int PRIMARY KEY DEFERRABLE, name text, also int NOT NULL UNIQUE);
SELECT scd2.track('m', keys => '{also}') \g /dev/null
SELECT scd2.sync() \g /dev/null
INSERT INTO m VALUES (1, 'moved', 1), (2, 'other', 2);
UPDATE m SET id = id + 1;
DELETE FROM m WHERE name = 'moved';
SELECT scd2.sync() \g /dev/null
\set said `psql -XAtq -d :DBNAME -c 'SET SESSION AUTHORIZATION "Owner"' -c 'SET search_path = own, public' -c "SELECT count(*) FROM scd2.erase('m', '{\"id\": 1}')" 2>&1`
SELECT matches(:'said'::text, 'is not followed', 'a key that two rows had at a time is not followed, but named');
SELECT is((SELECT count(*) FROM m_changes WHERE name = 'other'), 3::bigint, '... and the other row stays');

-- event tables: what comes late
CREATE TABLE ev (k numeric, v text, s int, op text);
SELECT scd2.create_auto_cdc_flow('ev_2', 'ev', '{k}', 's', apply_as_deletes => 'op = ''D''', column_list => '{k,v}', stored_as_scd_type => 2, on_invalid_event => 'quarantine') \g /dev/null
SELECT scd2.create_auto_cdc_flow('ev_1', 'ev', '{k}', 's', apply_as_deletes => 'op = ''D''', column_list => '{k,v}') \g /dev/null
INSERT INTO ev VALUES (1, 'marker', 10, 'U'), (1, 'marker 2', 30, 'U'), (1, 'marker 2', 40, 'U'), (1, NULL, 50, 'D'), (2, 'other', 10, 'U'), (1.0, 'marker invalid', NULL, 'U'), (2, 'other invalid', NULL, 'U');
SELECT scd2.alter_flow('ev_1', on_invalid_event => 'quarantine') \g /dev/null
SELECT scd2.sync() \g /dev/null
SELECT throws_ok($$SELECT * FROM scd2.erase('ev', '{"k": 1}')$$, '55000', NULL, 'the events must be gone from their table first');
DELETE FROM ev WHERE k = 1;
SELECT ok((SELECT count(*) FROM ev_2_memory WHERE k = 1) > 0 AND (SELECT count(*) FROM scd2.rejected_events WHERE event::text LIKE '%marker%') > 0, 'memory and rejected events have it');
SELECT scd2.erase('ev', '{"k": 1}') \g /dev/null
SELECT bag_eq($$SELECT relation FROM anywhere('marker')$$, $$VALUES ('k_own')$$, 'afterwards nothing has');
SELECT is((SELECT count(*) FROM ev_2_memory WHERE k = 1) + (SELECT count(*) FROM ev_1_memory WHERE k = 1) + (SELECT count(*) FROM scd2.rejected_events WHERE event @> '{"k": 1}'), 0::bigint, 'under any spelling of the key');
SELECT is((SELECT count(*) FROM scd2.rejected_events), 2::bigint, 'rejected events of others stay');
INSERT INTO ev VALUES (1.00, 'marker', 10, 'U'), (1, 'marker late', 20, 'U'), (1, 'marker 2', 50, 'U'), (2, 'other 2', 20, 'U');
SELECT scd2.sync() \g /dev/null
SELECT is_empty('SELECT * FROM ev_2 WHERE k = 1 UNION ALL SELECT *, NULL, NULL FROM ev_1 WHERE k = 1', 'late events do not bring it back');
SELECT results_eq('SELECT events = applied + duplicates + too_late + rejected + skipped, skipped FROM scd2.flows WHERE flow IN (''ev_1'', ''ev_2'')', $$VALUES (true, 3::bigint), (true, 3)$$, 'they are counted as skipped');
INSERT INTO ev VALUES (1, 'a new one', 60, 'U');
SELECT scd2.sync() \g /dev/null
SELECT results_eq('SELECT v, __start_at FROM ev_2 WHERE k = 1', $$VALUES ('a new one', 60)$$, 'what is later is another');
SELECT is_empty(format('SELECT * FROM scd2.check_target(%L)', t), 'what the sources say is without them too') FROM unnest('{ev_2,ev_1}'::text[]) t;
SELECT lives_ok($$SELECT scd2.full_refresh('ev_2', key_filter => 'k = 1')$$, 'the key is made again');
SELECT results_eq('SELECT v, __start_at FROM ev_2 WHERE k = 1', $$VALUES ('a new one', 60)$$, '... without what was erased');
SELECT scd2.full_refresh('ev_2'), scd2.full_refresh('ev_1') \g /dev/null
SELECT scd2.sync() \g /dev/null
SELECT results_eq('SELECT v, __start_at FROM ev_2 WHERE k = 1', $$VALUES ('a new one', 60)$$, 'a full refresh neither');
SELECT results_eq('SELECT v FROM ev_1 WHERE k = 1', $$VALUES ('a new one')$$, 'in both types');

-- late events that are not taken for another reason too: they are of an erased key first of all
CREATE TYPE kind AS ENUM ('big', 'small');
CREATE TABLE late (k int, kind kind, v text, s int, e int);
SELECT scd2.create_auto_cdc_flow('late_2', 'late', '{k,kind}', 's', end_sequence_by => 'e', column_list => '{k,kind,v}', stored_as_scd_type => 2, on_invalid_event => 'quarantine', max_lateness => '100') \g /dev/null
SELECT scd2.create_auto_cdc_flow('late_fails', 'late', '{k,kind}', 's', end_sequence_by => 'e', column_list => '{k,kind,v}', stored_as_scd_type => 2) \g /dev/null
SELECT scd2.create_auto_cdc_flow('late_purged', 'late', '{k,kind}', 's', column_list => '{k,kind,v}', stored_as_scd_type => 2) \g /dev/null
SELECT scd2.sync() \g /dev/null
INSERT INTO late VALUES (1, 'big', 'erase me', 500, NULL), (2, 'big', 'other', 990, NULL);
SELECT scd2.sync() \g /dev/null
DELETE FROM late WHERE k = 1;
SELECT scd2.erase('late', '{"k": 1, "kind": "big"}') \g /dev/null
INSERT INTO late VALUES (2, 'big', 'other', 1000, NULL);
SELECT scd2.sync() \g /dev/null
SELECT scd2.purge_history('late_purged', 900) \g /dev/null
INSERT INTO late VALUES (1, 'big', 'erase me: too late', 10, NULL), (1, 'big', 'erase me: it ends before it begins', 480, 470), (1, 'big', 'erase me: it ends after', 490, 2000), (2, 'big', 'other, too late', 10, NULL);
SELECT scd2.sync() \g /dev/null
SELECT bag_eq($$SELECT relation FROM anywhere('erase me')$$, $$VALUES ('late'), ('late_changes_p1')$$, 'no rejected event has what was erased: only the table that they came into, and its feed');
SELECT bag_eq($$SELECT flow, event ->> 'v' FROM scd2.rejected_events WHERE flow LIKE 'late%'$$, $$VALUES ('late_2'::name, 'other, too late'), ('late_purged', 'other, too late')$$, '... but what of other keys is too late');
SELECT results_eq($$SELECT flow, skipped, rejected, too_late, state FROM scd2.flows WHERE flow LIKE 'late%' ORDER BY 1$$, $$VALUES ('late_2'::name, 3::bigint, 0::bigint, 1::bigint, 'running'), ('late_fails', 3, 0, 0, 'running'), ('late_purged', 3, 0, 1, 'running')$$, 'they are counted as skipped, and fail no flow');
SELECT is_empty($$SELECT k FROM late_2_memory WHERE k = 1 UNION ALL SELECT k FROM late_fails_memory WHERE k = 1 UNION ALL SELECT k FROM late_2 WHERE k = 1 UNION ALL SELECT k FROM late_fails WHERE k = 1$$, 'the end of an event that is skipped is skipped too');
CREATE TYPE restored_kind AS ENUM ('big', 'small');
CREATE TABLE restored (k int, kind restored_kind, kinds restored_kind[], s int);
SELECT scd2.create_auto_cdc_flow('restored_1', 'restored', '{k,kind}', 's'), scd2.create_auto_cdc_flow('restored_2', 'restored', '{kinds}', 's') \g /dev/null
RESET SESSION AUTHORIZATION;
SELECT is(scd2_internal.key_fingerprint(f.flow_id, '{"k": "1", "kind": "big"}', e.seed), e.fingerprint, 'the fingerprint of an enum does not depend on oids, which another database has not')
FROM scd2_internal.erased_key e, scd2_internal.flow f WHERE e.target_name = 'late_2' AND f.name = 'restored_1';
SELECT isnt(scd2_internal.key_fingerprint(f.flow_id, '{"kinds": "{big,small}"}', 1), scd2_internal.key_fingerprint(f.flow_id, '{"kinds": "{small,big}"}', 1), '... but on the value, in an array too')
FROM scd2_internal.flow f WHERE f.name = 'restored_2';
SET SESSION AUTHORIZATION "Owner";

-- refusals
CREATE TABLE plain (id int PRIMARY KEY);
CREATE TABLE few (id int PRIMARY KEY, other int UNIQUE NOT NULL, v text);
SELECT scd2.track('few', column_list => '{id,v}') \g /dev/null
SELECT throws_ok($$SELECT scd2.erase('plain', '{"id": 1}')$$, '55000', NULL, 'nothing is made from a table');
SELECT throws_ok($$SELECT scd2.erase('c', '{"region": "Sur"}')$$, '22023', NULL, 'columns that are no key');
SELECT throws_ok($$SELECT scd2.erase('c', '{"nosuch": 1}')$$, '42703', NULL, 'no such column');
SELECT throws_ok($$SELECT scd2.erase('c', '{"id": null}')$$, '22004', NULL, 'a NULL in the key');
SELECT throws_ok($$SELECT scd2.erase('c', '[1]')$$, '22023', NULL, 'no object');
SELECT throws_ok($$SELECT scd2.erase('c', '{"id": "x"}')$$, '22P02', NULL, 'no value of the type');
SELECT throws_ok($$SELECT scd2.erase('few', '{"other": 1}')$$, '55000', NULL, 'a target that lacks the key''s column');
CREATE TABLE numbered (event int PRIMARY KEY, k int, s int);
SELECT scd2.create_auto_cdc_flow('numbered_2', 'numbered', '{k}', 's', stored_as_scd_type => 2) \g /dev/null
SELECT scd2.sync() \g /dev/null
SELECT throws_ok($$SELECT scd2.erase('numbered', '{"event": 1}')$$, '55000', 'table "own.numbered_2_memory" lacks a column of the key', 'a memory that lacks it');
BEGIN;
INSERT INTO c VALUES (7);
SELECT throws_ok($$SELECT scd2.erase('c', '{"id": 1}')$$, '25001', NULL, 'in a transaction that has written the table');
ROLLBACK;
RESET SESSION AUTHORIZATION;
CREATE ROLE stranger;
GRANT USAGE ON SCHEMA own TO stranger;
SET SESSION AUTHORIZATION stranger;
SELECT throws_ok($$SELECT scd2.erase('own.c', '{"id": 1}')$$, '42501', NULL, 'not the owner');
SELECT is_empty('SELECT * FROM scd2.erasures', 'who does not see that it was done');
RESET SESSION AUTHORIZATION;

-- a session that replays changes of elsewhere goes on doing so
SELECT pg_replication_origin_create('elsewhere'), pg_replication_origin_session_setup('elsewhere') \g /dev/null
BEGIN;
SELECT pg_replication_origin_xact_setup('0/100', now()) \g /dev/null
SELECT scd2.erase('own.c', '{"id": 100}') \g /dev/null
COMMIT;
SELECT is(pg_replication_origin_session_progress(false), '0/100', 'the replication origin of a session stays');
SELECT pg_replication_origin_session_reset(), pg_replication_origin_drop('elsewhere') \g /dev/null
SELECT * FROM finish();
