-- Event tables: what must come of events that arrive late, twice or in any order. v@s is an upsert, DEL@s a delete, | ends a batch; shown as value[start,end), - is open.
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA events_examples;
SET search_path = events_examples;
CREATE TABLE ev (k text, v text, u int, seq int, op text);
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''DEL''', stored_as_scd_type => 2, column_list => '{k,v,u}', track_history_column_list => '{v}');
SELECT scd2.create_auto_cdc_flow('c', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''DEL''', stored_as_scd_type => 1, column_list => '{k,v,u}');

-- Each example is a key of its own; its events in arrival order. A value with a comma has an untracked part.
CREATE TABLE examples (n serial, events text, k text GENERATED ALWAYS AS (events) STORED);
INSERT INTO examples (events) VALUES
    ('Norte@10 | Sur@30 | Este@20 | Este@20'),
    ('a@10 DEL@20'),
    ('a@10 b@20 DEL@30 c@40'),
    ('a@10 | a@20'),
    ('a@10 DEL@20 a@30'),
    ('DEL@20 | x@10'),
    ('DEL@20 | x@30'),
    ('a@10 b@30 | DEL@20'),
    ('a@10 DEL@20 | DEL@15'),
    ('a@10 b@20 c@30 | x@15 y@25'),
    ('a@10 b@20 | a@5'),
    ('a@10 DEL@10'),
    ('DEL@10 a@10'),
    ('DEL@10 | a@10'),
    ('a@10 | DEL@10'),
    ('NULL@1 NULL@2 x@3'),
    ('al,100@10 al,200@20 al,300@30'),
    ('al,39@39 al,41@41 bob,42@42 carol,43@43'),
    ('al,1@10 al,3@30 | al,2@20'),
    ('DEL@20 | a@10 | b@30'),
    ('a@10 DEL@20 a@30 | DEL@25'),
    ('DEL@10 DEL@11'),
    ('a@10 b@10'),
    ('b@10 | a@10'),
    ('NULL@10 a@20 NULL@30 NULL@40'),
    ('a,1@10 a,3@30 | a,2@20 | a,4@25'),
    ('a@10 DEL@30 | b@20 | c@40'),
    ('a@10 c@30 b@20'),
    ('a@10 | b@20 | DEL@15 | a@12 | b@17 | DEL@20'),
    ('c@30 | c@20 | c@10 | x@25 | DEL@15');
CREATE FUNCTION batch(number int) RETURNS void LANGUAGE sql AS $$
    INSERT INTO events_examples.ev
    SELECT x.k, nullif(split_part(split_part(e, '@', 1), ',', 1), 'NULL'), nullif(split_part(split_part(e, '@', 1), ',', 2), '')::int, split_part(e, '@', 2)::int,
           CASE WHEN e LIKE 'DEL@%' THEN 'DEL' END
    FROM events_examples.examples AS x, regexp_split_to_table(split_part(x.events, ' | ', number), ' ') AS e WHERE e <> '' ORDER BY x.n $$;
CREATE VIEW result AS
    SELECT x.n, x.events,
           (SELECT string_agg(format('%s%s[%s,%s)', coalesce(v, 'NULL'), ',' || u, __start_at, coalesce(__end_at::text, '-')), ' ' ORDER BY __start_at) FROM h WHERE h.k = x.k) AS history,
           (SELECT coalesce(v, 'NULL') || coalesce(',' || u, '') FROM c WHERE c.k = x.k) AS current
    FROM examples AS x;
SELECT batch(1);
SELECT scd2.sync() >= 0;
SELECT batch(2);
SELECT scd2.sync() >= 0;
SELECT batch(3);
SELECT scd2.sync() >= 0;
SELECT batch(4);
SELECT scd2.sync() >= 0;
SELECT batch(5), batch(6);
SELECT scd2.sync() >= 0;
SELECT events, history, current FROM result ORDER BY n;
CREATE TABLE was AS SELECT * FROM result;

-- the other way round, all at once, and each event twice: the same
CREATE TABLE ev2 (LIKE ev);
INSERT INTO ev2 SELECT e.* FROM (SELECT *, row_number() OVER () AS n FROM ev) AS q, LATERAL (SELECT q.k, q.v, q.u, q.seq, q.op) AS e, generate_series(1, 2) ORDER BY q.n DESC;
SELECT scd2.create_auto_cdc_flow('h2', 'ev2', '{k}', 'seq', apply_as_deletes => 'op = ''DEL''', stored_as_scd_type => 2, column_list => '{k,v,u}', track_history_column_list => '{v}');
SELECT scd2.create_auto_cdc_flow('c2', 'ev2', '{k}', 'seq', apply_as_deletes => 'op = ''DEL''', stored_as_scd_type => 1, column_list => '{k,v,u}');
SELECT scd2.sync() >= 0;
SELECT (SELECT count(*) FROM (TABLE h EXCEPT ALL TABLE h2) AS x) + (SELECT count(*) FROM (TABLE h2 EXCEPT ALL TABLE h) AS x) AS histories_differ,
       (SELECT count(*) FROM (TABLE c EXCEPT ALL TABLE c2) AS x) + (SELECT count(*) FROM (TABLE c2 EXCEPT ALL TABLE c) AS x) AS current_rows_differ;
-- a rebuild: the same
SELECT scd2.full_refresh('h'), scd2.full_refresh('c');
SELECT scd2.sync() >= 0;
SELECT count(*) AS differ FROM result AS r JOIN was AS w USING (n) WHERE ROW(r.*) IS DISTINCT FROM ROW(w.*);
-- the current rows are the open rows of the history
SELECT count(*) AS differ FROM (SELECT k, v, u FROM h WHERE __end_at IS NULL) AS o FULL JOIN c USING (k) WHERE ROW(o.v, o.u) IS DISTINCT FROM ROW(c.v, c.u);

-- the customers
CREATE TABLE customer_events (customer_id int, name text, region text, status text, version int, op text);
SELECT scd2.create_auto_cdc_flow('customers', 'customer_events', '{customer_id}', 'version', apply_as_deletes => 'op = ''DELETE''', except_column_list => '{version,op}',
    stored_as_scd_type => 2, track_history_column_list => '{region,status}', start_column => 'valid_from', end_column => 'valid_to', current_column => 'is_current');
INSERT INTO customer_events VALUES (17, 'Ana', 'Norte', 'activo', 10, 'UPSERT'), (23, 'Luis', 'Centro', 'activo', 11, 'UPSERT');
SELECT scd2.sync() >= 0;
INSERT INTO customer_events VALUES (17, 'Ana', 'Sur', 'activo', 30, 'UPSERT'), (23, 'Luis', 'Centro', 'activo', 25, 'DELETE');
SELECT scd2.sync() >= 0;
INSERT INTO customer_events VALUES (17, 'Ana', 'Este', 'activo', 20, 'UPSERT'), (31, 'Marta', 'Oeste', 'activo', 35, 'UPSERT');
SELECT scd2.sync() >= 0;
INSERT INTO customer_events VALUES (17, 'Ana', 'Este', 'activo', 20, 'UPSERT');
INSERT INTO customer_events VALUES (17, 'Ana María', 'Sur', 'activo', 40, 'UPSERT');
SELECT scd2.sync() >= 0;
TABLE customers ORDER BY customer_id, valid_from;
SELECT customer_id, region FROM customers_as_of(22) ORDER BY 1;
EXPLAIN (COSTS OFF) SELECT * FROM customers_as_of(22) WHERE customer_id = 17;

-- Barcelona, Madrid, Valencia, gone: from rows that were there before the flow
CREATE TABLE city_events (id int, city text, seq int, op text);
INSERT INTO city_events VALUES (101, 'Barcelona', 1, 'INSERT'), (101, 'Madrid', 2, 'UPDATE'), (101, 'Valencia', 3, 'UPDATE'), (101, NULL, 4, 'DELETE');
SELECT scd2.create_auto_cdc_flow('cities', 'city_events', '{id}', 'seq', apply_as_deletes => 'op = ''DELETE''', except_column_list => '{seq,op}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('cities_now', 'city_events', '{id}', 'seq', apply_as_deletes => 'op = ''DELETE''', except_column_list => '{seq,op}');
SELECT scd2.sync() >= 0;
TABLE cities ORDER BY __start_at;
TABLE cities_now;

-- counters: what came twice, late, and what only the image decided
SELECT flow, events, applied, duplicates, out_of_order, conflicts, rejected FROM scd2.flows WHERE flow IN ('customers', 'cities') ORDER BY 1;

DROP VIEW result;
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows WHERE source::text LIKE ANY ('{ev,ev2,customer_events,city_events}');
SELECT relname FROM pg_class WHERE relname LIKE '%\_memory' AND relnamespace = 'events_examples'::regnamespace;
DROP SCHEMA events_examples CASCADE;
