-- The tables that flows keep: their shape, their guard, the as-of function, targets that are sources.
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, MDY';
\set SHOW_CONTEXT never
SET client_min_messages = warning;
CREATE SCHEMA flow_target;
CREATE SCHEMA "Dim";
SET search_path = flow_target;
CREATE DOMAIN mail AS text CHECK (VALUE LIKE '%@%');
CREATE TABLE customers (
    customer_id integer GENERATED ALWAYS AS IDENTITY,
    country char(2) COLLATE "C" DEFAULT 'ES',
    name varchar(40) COLLATE "C",
    mail mail,
    score numeric(8,2) DEFAULT 1,
    twice numeric GENERATED ALWAYS AS (score * 2) STORED,
    tags text[],
    PRIMARY KEY (country, customer_id));
INSERT INTO customers (name, mail, tags) VALUES ('Ana', 'a@x', '{a}'), ('Luis', 'l@x', '{}');

-- by default: columns as in the source, plain, then the interval
SELECT scd2.track('customers');
\d customers_history
SELECT scd2.track('customers', stored_as_scd_type => 1);
\d customers_current
SELECT reloptions FROM pg_class WHERE oid = 'customers_history'::regclass;
-- names of one's own, fewer columns, an index of open rows
SELECT scd2.track('customers', '"Dim"."Clients, all"', column_list => '{mail,customer_id,country}', start_column => 'valid from', end_column => 'valid_to', current_column => 'is_current', open_row_index => true);
\d "Dim"."Clients, all"
-- a name of 63 bytes: what is made from it is clipped
CREATE TABLE l23456789012345678901234567890123456789012345678901234567890123 (id integer PRIMARY KEY);
SELECT scd2.track('l23456789012345678901234567890123456789012345678901234567890123');
SELECT oid::regprocedure FROM pg_proc WHERE proname LIKE 'l234567%';
-- comments
SELECT obj_description('customers_history_as_of'::regproc, 'pg_proc');

SELECT scd2.sync() >= 0;
UPDATE customers SET score = 2, mail = 'ana@x' WHERE name = 'Ana';
DELETE FROM customers WHERE name = 'Luis';
SELECT scd2.sync() >= 0;
SELECT country, customer_id, name, mail, score, twice, tags, __end_at IS NULL AS open FROM customers_history ORDER BY customer_id, __start_at;
SELECT * FROM customers_current;
SELECT mail, customer_id, "valid_to" IS NULL AS open, is_current FROM "Dim"."Clients, all" ORDER BY customer_id, "valid from";

-- as of: a point in time, boundaries, the plan
SELECT min(__start_at) AS t0, max(__start_at) AS t1 FROM customers_history \gset
SELECT customer_id, name, score FROM customers_history_as_of(:'t0') ORDER BY 1;
SELECT customer_id, name, score FROM customers_history_as_of(:'t1') ORDER BY 1;
SELECT customer_id, name, score FROM customers_history_as_of('-infinity') ORDER BY 1;
SELECT customer_id, name, score FROM customers_history_as_of('infinity') ORDER BY 1;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS off) SELECT * FROM customers_history_as_of('2026-01-01 00:00+00') WHERE country = 'ES' AND customer_id = 1;
RESET enable_seqscan;
RESET enable_bitmapscan;

-- the guard: for all, in every mode, but not for the owner who insists
INSERT INTO customers_current VALUES (9, 'ES');
UPDATE customers_history SET name = 'x';
DELETE FROM customers_history;
TRUNCATE customers_history;
COPY customers_history FROM stdin;
\.
SET session_replication_role = replica;
DELETE FROM customers_history;
RESET session_replication_role;
CREATE ROLE flow_writer;
GRANT USAGE ON SCHEMA flow_target TO flow_writer;
GRANT ALL ON customers_current TO flow_writer;
SET ROLE flow_writer;
DELETE FROM customers_current;
SET pg_scd2.allow_target_writes = on;
DELETE FROM customers_current;
RESET ROLE;
UPDATE customers_current SET name = 'by hand';
RESET pg_scd2.allow_target_writes;
SELECT scd2.full_refresh('customers_current');
SELECT scd2.sync() >= 0;
SELECT name FROM customers_current;

-- an existing table that fits, with more columns and indexes, a trigger, an identity of its own
CREATE TABLE fits (note text DEFAULT 'made by the flow', v text, id integer NOT NULL, changed_by name, s timestamptz, e timestamptz, PRIMARY KEY (id, s), UNIQUE (v, s));
CREATE UNIQUE INDEX fits_one_open_v ON fits (v) WHERE e IS NULL;
CREATE TABLE src (id integer PRIMARY KEY, v text);
INSERT INTO src VALUES (1, 'a'), (2, 'b');
CREATE FUNCTION who() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.changed_by := current_user; RETURN NEW; END $$;
CREATE TRIGGER who BEFORE INSERT OR UPDATE ON fits FOR EACH ROW EXECUTE FUNCTION who();
GRANT CREATE ON SCHEMA flow_target TO flow_writer;
GRANT flow_writer TO CURRENT_USER;
ALTER TABLE fits OWNER TO flow_writer;
GRANT SELECT ON src TO flow_writer;
SELECT scd2.enable_change_feed('src');
GRANT SELECT ON src_changes TO flow_writer;
SELECT scd2.track('src', 'fits', start_column => 's', end_column => 'e');
SELECT scd2.sync() >= 0;
-- swapped values in a column that is unique across keys: rows end before others begin
BEGIN;
UPDATE src SET v = CASE v WHEN 'a' THEN 'b' ELSE 'a' END;
COMMIT;
SELECT scd2.sync() >= 0;
SELECT id, v, note, changed_by, e IS NULL AS open FROM fits ORDER BY id, s;

-- a target that is tracked, and one that is tracked from that
SELECT scd2.track('customers_current', stored_as_scd_type => 1);
SELECT scd2.track('customers_history', 'history_of_history', column_list => '{country,customer_id,__start_at,__end_at,name}', start_column => 's', end_column => 'e');
SELECT scd2.sync() >= 0;
UPDATE customers SET name = 'Ana María' WHERE name = 'Ana';
SELECT scd2.sync() >= 0;
SELECT name FROM customers_current_current;
SELECT name, __end_at IS NULL AS open_then, e IS NULL AS still_said FROM history_of_history ORDER BY __start_at, s;

-- without the flow it is a table like any
SELECT scd2.untrack('src');
DELETE FROM fits;
\d fits
SELECT scd2.untrack(s, drop_targets => true, drop_feed => true)
    FROM unnest('{customers_current,customers_history,customers,l23456789012345678901234567890123456789012345678901234567890123}'::regclass[]) AS s;
SELECT scd2.disable_change_feed('src', drop_feed => true);
SELECT relname FROM pg_class WHERE relnamespace IN ('flow_target'::regnamespace, '"Dim"'::regnamespace) AND relkind = 'r' ORDER BY relname COLLATE "C";
DROP SCHEMA flow_target, "Dim" CASCADE;
DROP ROLE flow_writer;
