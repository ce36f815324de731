-- demo.sql: what `make demo` plays. Each statement is printed before its result; pauses make the times tell apart.
\set QUIET on
\pset border 2
\pset linestyle unicode
\pset null '-'
\pset footer off
SET client_min_messages = warning;
SET TimeZone = 'UTC';
SELECT date_trunc('year', now()) AS since \gset

\echo
\echo '1. A customers table with two rows. One call keeps its history from now on'
\echo '   (existing customers count as valid since the beginning of the year).'
\echo
\set ECHO queries
CREATE EXTENSION pg_scd2;
CREATE TABLE customers (
    customer_id int PRIMARY KEY,
    name        text NOT NULL,
    region      text NOT NULL,
    status      text NOT NULL
);
CREATE TABLE sales (customer_id int, sold_at timestamptz DEFAULT now(), amount int);
INSERT INTO customers VALUES (17, 'Ana', 'Norte', 'activo'), (23, 'Luis', 'Centro', 'activo');
SELECT scd2.track('customers', track_history_column_list => '{region,status}',
                  initial_start => quote_literal(:'since'));
SELECT scd2.sync() AS "captured and applied up to version";
\set ECHO none

\echo
\echo '2. Life goes on. Nothing here knows of the history: no triggers, no extra columns.'
\echo
\set ECHO queries
INSERT INTO sales (customer_id, amount) VALUES (17, 150) /* Ana is in Norte */;
\! sleep 1.1
UPDATE customers SET region = 'Este' WHERE customer_id = 17;
\set ECHO none
SELECT clock_timestamp() AS moment \gset
\set ECHO queries
\! sleep 1.1
INSERT INTO sales (customer_id, amount) VALUES (17, 300) /* ... in Este */;
DELETE FROM customers WHERE customer_id = 23;
\! sleep 1.1
UPDATE customers SET region = 'Sur' WHERE customer_id = 17;
\! sleep 1.1
INSERT INTO sales (customer_id, amount) VALUES (17, 200) /* ... in Sur */;
INSERT INTO customers VALUES (31, 'Marta', 'Oeste', 'activo');
UPDATE customers SET name = 'Ana María' WHERE customer_id = 17 /* not tracked: no new version */;
SELECT scd2.sync();
\set ECHO none

\echo
\echo '3. The change feed: every committed change, in commit order, before and after.'
\echo
\set ECHO queries
SELECT _commit_version AS version, date_trunc('second', _commit_timestamp) AS committed, _change_type AS change,
       customer_id AS id, name, region, status
FROM scd2.table_changes(NULL::customers_changes, 1);
\set ECHO none

\echo
\echo '4. The history (SCD type 2): every version of every customer. "-" as an end: valid now.'
\echo
\set ECHO queries
SELECT customer_id AS id, name, region, status,
       date_trunc('second', __start_at) AS valid_from, date_trunc('second', __end_at) AS valid_to
FROM customers_history ORDER BY customer_id, __start_at;
\set ECHO none

\echo
\echo '5. As of a moment: just after Ana moved to Este, Luis was still a customer.'
\echo
\set ECHO queries
SELECT customer_id AS id, name, region, status FROM customers_history_as_of(:'moment') ORDER BY customer_id;
SELECT customer_id AS id, name, region, status FROM customers_history_as_of(now()) ORDER BY customer_id;
\set ECHO none

\echo
\echo '6. Sales by region. Joined with the customers of today, all of them happened in Sur ...'
\echo
\set ECHO queries
SELECT c.region, sum(s.amount) AS amount
FROM sales s JOIN customers c USING (customer_id)
GROUP BY c.region;
\set ECHO none
\echo
\echo '   ... joined with the customers of the moment of each sale, where they did happen.'
\echo
\set ECHO queries
SELECT h.region, sum(s.amount) AS amount
FROM sales s
JOIN customers_history h ON h.customer_id = s.customer_id
    AND s.sold_at >= h.__start_at AND (s.sold_at < h.__end_at OR h.__end_at IS NULL)
GROUP BY h.region ORDER BY min(s.sold_at);
\set ECHO none

\echo
\echo '7. A date is not a moment. Compared with a timestamptz it becomes midnight, so the sales of today'
\echo '   happen before the moves of today:'
\echo
\set ECHO queries
ALTER TABLE sales ADD COLUMN sold_on date;
UPDATE sales SET sold_on = sold_at::date;
SELECT h.region, sum(s.amount) AS amount
FROM sales s
JOIN customers_history h ON h.customer_id = s.customer_id
    AND s.sold_on >= h.__start_at AND (s.sold_on < h.__end_at OR h.__end_at IS NULL)
GROUP BY h.region;
\set ECHO none
\echo
\echo '   And midnight where? The session''s TimeZone decides. A sale of the first day of the history, seen from three places:'
\echo
CREATE FUNCTION pg_temp.region_on(customer int, day date, zone text) RETURNS text LANGUAGE plpgsql SET TimeZone = 'UTC' AS
$$BEGIN
    PERFORM set_config('TimeZone', zone, true);
    RETURN (SELECT h.region FROM customers_history h
            WHERE h.customer_id = customer AND day >= h.__start_at AND (day < h.__end_at OR h.__end_at IS NULL));
END$$;
SELECT zone AS "TimeZone", :'since'::date AS sold_on,
       to_char((:'since'::date::timestamp AT TIME ZONE zone) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') AS "its midnight, in UTC",
       coalesce(pg_temp.region_on(17, :'since'::date, zone), '(no row: before the history)') AS region
FROM unnest('{UTC,America/Lima,Asia/Tokyo}'::text[]) AS zone;
\echo
\echo '   Keep the moment of a sale (timestamptz). Where there is only a date, say which moment of which place is meant:'
\echo '   (sold_on + time ''23:59:59'') AT TIME ZONE ''Europe/Madrid'' gives the same rows in every session.'
\echo

\echo
\echo '8. The same story told by events that arrive late, twice and out of order. Their version says when they happened.'
\echo
\set ECHO queries
CREATE TABLE customer_events (customer_id int, name text, region text, status text, version int, op text);
SELECT scd2.create_auto_cdc_flow('dim_customers', 'customer_events', keys => '{customer_id}', sequence_by => 'version',
           apply_as_deletes => 'op = ''DELETE''', except_column_list => '{version,op}',
           stored_as_scd_type => 2, track_history_column_list => '{region,status}') AS flow;
INSERT INTO customer_events VALUES (17, 'Ana', 'Norte', 'activo', 10, 'UPSERT'), (23, 'Luis', 'Centro', 'activo', 11, 'UPSERT');
INSERT INTO customer_events VALUES (17, 'Ana', 'Sur', 'activo', 30, 'UPSERT'), (23, 'Luis', 'Centro', 'activo', 25, 'DELETE');
INSERT INTO customer_events VALUES (17, 'Ana', 'Este', 'activo', 20, 'UPSERT') /* late */, (31, 'Marta', 'Oeste', 'activo', 35, 'UPSERT');
INSERT INTO customer_events VALUES (17, 'Ana', 'Este', 'activo', 20, 'UPSERT') /* again */;
INSERT INTO customer_events VALUES (17, 'Ana María', 'Sur', 'activo', 40, 'UPSERT') /* the name is not tracked */;
SELECT scd2.sync();
SELECT * FROM dim_customers ORDER BY customer_id, __start_at;
SELECT customer_id, name, region FROM dim_customers_as_of(22) ORDER BY customer_id;
SELECT events, applied, duplicates FROM scd2.flows WHERE flow = 'dim_customers';
\set ECHO none
\echo
\echo '   All of them once more, in the opposite order: nothing changes, nothing is written.'
\echo
\set ECHO queries
INSERT INTO customer_events SELECT * FROM customer_events ORDER BY version DESC;
SELECT scd2.sync();
SELECT * FROM dim_customers ORDER BY customer_id, __start_at;
SELECT events, duplicates, rows_inserted, rows_updated, rows_deleted FROM scd2.flows WHERE flow = 'dim_customers';
\set ECHO none
