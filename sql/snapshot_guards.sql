-- What keeps an incomplete or wrong snapshot out: nothing is changed when one is refused.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = notice;
CREATE SCHEMA snapshot_guards;
SET search_path = snapshot_guards;
CREATE TABLE load (region text, id int, v text);
INSERT INTO load SELECT CASE i % 2 WHEN 0 THEN 'eu' ELSE 'us' END, i, 'v' FROM generate_series(1, 20) AS i;
SELECT scd2.create_auto_cdc_from_snapshot_flow('h', 'load', '{region,id}', 'int', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_from_snapshot_flow('c', 'load', '{region,id}', 'int');
SELECT scd2.create_auto_cdc_from_snapshot_flow('m', 'load', '{region,id}', 'int', shared => true);      -- looks twice
SELECT f, s.* FROM unnest('{h,c,m}'::name[]) AS f, scd2.apply_snapshot(f, 1, expected_rows => 20) AS s;
CREATE FUNCTION try(version int, more text DEFAULT '') RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    flow    text;
    counts  record;
    message text;
    detail  text;
    hint    text;
BEGIN
    FOREACH flow IN ARRAY '{h,c,m}'::text[] LOOP
        BEGIN
            EXECUTE format('SELECT * FROM scd2.apply_snapshot(%L, %s %s)', flow, version, more) INTO counts;
            RETURN NEXT format('%s: %s', flow, counts);
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
            RETURN NEXT format('%s: %s: %s | %s | %s', flow, SQLSTATE, message, detail, hint);
        END;
    END LOOP;
END $$;
CREATE FUNCTION change(sql text, version int, more text DEFAULT '') RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    CREATE TEMPORARY TABLE kept AS TABLE load;
    EXECUTE sql;
    RETURN QUERY SELECT try(version, more);
    TRUNCATE load;
    INSERT INTO load TABLE kept;
    DROP TABLE kept;
END $$;
-- empty, and with 40 % of the keys
SELECT change('DELETE FROM load', 2);
SELECT change('DELETE FROM load WHERE id > 8', 2);
-- a tenth may go
SELECT change('DELETE FROM load WHERE id > 18', 2, ', dry_run => true');
SELECT change('DELETE FROM load WHERE id > 17', 2, ', dry_run => true');
SELECT change('DELETE FROM load WHERE id > 8', 2, ', dry_run => true, allow_deletes => true');
SELECT change('DELETE FROM load', 2, ', dry_run => true, allow_deletes => true');
-- another number of rows
SELECT change('DELETE FROM load WHERE id = 20', 2, ', expected_rows => 20');
SELECT change('DELETE FROM load', 2, ', expected_rows => 0');
-- a key that occurs twice: a new one, a changed one; one of the two, or both, as the target has it
SELECT change($$INSERT INTO load VALUES ('eu', 100, 'a'), ('eu', 100, 'b')$$, 2);
SELECT change($$INSERT INTO load VALUES ('eu', 100, 'a'), ('eu', 100, 'a')$$, 2);
SELECT change($$UPDATE load SET v = 'w' WHERE id = 2; INSERT INTO load VALUES ('eu', 2, 'x')$$, 2);
SELECT change($$INSERT INTO load VALUES ('us', 3, 'x')$$, 2);
SELECT change($$INSERT INTO load VALUES ('us', 3, 'v')$$, 2);
SELECT change($$INSERT INTO load VALUES ('us', 3, 'v'); DELETE FROM load WHERE id = 4$$, 2);
-- NULL in a key
SELECT change($$UPDATE load SET region = NULL WHERE id = 7$$, 2);
SELECT change($$INSERT INTO load VALUES ('eu', NULL, 'x')$$, 2);
-- nothing of that changed anything
SELECT count(*), count(*) FILTER (WHERE __end_at IS NULL AND __start_at = 1) FROM h;
SELECT (SELECT count(*) FROM c) AS c, (SELECT count(*) FROM m) AS m;
SELECT flow, events, applied, rows_inserted, rows_updated, rows_deleted FROM scd2.flows ORDER BY flow;
SELECT change('DELETE FROM load WHERE id > 8', 2, ', allow_deletes => true');
SELECT count(*), count(*) FILTER (WHERE __end_at IS NULL) FROM h;
SELECT (SELECT count(*) FROM c) AS c, (SELECT count(*) FROM m) AS m;

-- a fraction is of the live keys in scope, and a scope is for all rows
SELECT scd2.create_auto_cdc_from_snapshot_flow('eu', 'load', '{region,id}', 'int', stored_as_scd_type => 2, scope => 'load.region = ''eu''', max_delete_fraction => 0.2);
SELECT * FROM scd2.apply_snapshot('eu', 1);
DELETE FROM load WHERE region = 'us' OR id > 18;
SELECT * FROM scd2.apply_snapshot('eu', 1);
DELETE FROM load WHERE id > 14;
SELECT * FROM scd2.apply_snapshot('eu', 2);
DELETE FROM load WHERE id > 12;
SELECT * FROM scd2.apply_snapshot('eu', 2, dry_run => true);
SELECT * FROM scd2.apply_snapshot('eu', 3);

-- rows that a policy hides would be deleted
CREATE ROLE snapshot_guards_owner;
GRANT ALL ON SCHEMA snapshot_guards TO snapshot_guards_owner;
CREATE TABLE secret (id int PRIMARY KEY, v text);
INSERT INTO secret VALUES (1, 'seen'), (2, 'hidden');
ALTER TABLE secret OWNER TO snapshot_guards_owner;
ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON secret USING (v = 'seen');
SELECT scd2.create_auto_cdc_from_snapshot_flow('s', 'secret', '{id}', 'int');
ALTER TABLE secret FORCE ROW LEVEL SECURITY;
SELECT * FROM scd2.apply_snapshot('s', 1);

SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows;
DROP SCHEMA snapshot_guards CASCADE;
DROP ROLE snapshot_guards_owner;
