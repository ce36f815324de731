-- Flows that append: the rows that are there, then every inserted one; nothing is deduplicated, updated or taken back.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = warning;
SET timezone = 'UTC';
SET datestyle = 'ISO';
CREATE SCHEMA append_flow;
SET search_path = append_flow;
CREATE TABLE orders (id int, region text COLLATE "C", amount numeric(8,2));
INSERT INTO orders VALUES (1, 'Norte', 10), (2, 'Sur', 20), (2, 'Sur', 20);
SELECT scd2.create_append_flow('archive', 'orders');
SELECT scd2.sync() >= 0;
SELECT * FROM archive ORDER BY id;
\d archive
-- two equal rows are two; updates and deletes append nothing; an insert of one transaction that deletes it again was an insert
INSERT INTO orders VALUES (3, 'Este', 30), (3, 'Este', 30);
UPDATE orders SET amount = 99;
DELETE FROM orders WHERE id = 1;
BEGIN;
INSERT INTO orders VALUES (4, NULL, NULL);
DELETE FROM orders WHERE id = 4;
COMMIT;
BEGIN;
INSERT INTO orders VALUES (5, 'rolled back', 1);
ROLLBACK;
TRUNCATE orders;
INSERT INTO orders VALUES (6, 'Oeste', 60);
SELECT scd2.sync() >= 0;
SELECT * FROM archive ORDER BY id, amount;
SELECT flow, target, source, kind, scd_type, once, state, lag_versions, events, applied, duplicates, rejected, rows_inserted, rows_updated, rows_deleted FROM scd2.flows;

-- a filter, and another source into the same target, by name: columns that it lacks come to it
CREATE TABLE web (at timestamptz, region text COLLATE "C", id int) PARTITION BY LIST (region);
CREATE TABLE web_n PARTITION OF web FOR VALUES IN ('Norte');
CREATE TABLE web_o PARTITION OF web DEFAULT;
INSERT INTO web VALUES ('2026-01-01', 'Norte', 100), ('2026-01-02', 'Sur', 101);
SELECT scd2.create_append_flow('archive', 'web', source_filter => 'web.region = ''Norte'' OR id > 200 -- a comment', name => 'from_web');
INSERT INTO web VALUES ('2026-01-03', 'Norte', 102), ('2026-01-04', 'Sur', 103), ('2026-01-05', 'Sur', 203), (NULL, NULL, NULL);
SELECT scd2.sync() >= 0;
SELECT * FROM archive WHERE id >= 100 ORDER BY id;
SELECT scd2.alter_flow('from_web', source_filter => 'id = 300');
INSERT INTO web VALUES ('2026-01-06', 'Norte', 104), ('2026-01-06', 'Sur', 300);
SELECT scd2.sync() >= 0;
SELECT * FROM archive WHERE id > 103 ORDER BY id;
SELECT flow, events, applied, rows_inserted FROM scd2.flows ORDER BY flow;

-- once, over whatever has rows
CREATE VIEW legacy AS SELECT g AS id, 'old' COLLATE "C" AS region FROM generate_series(-2, -1) g;
SELECT scd2.create_append_flow('archive', 'legacy', once => true);
SELECT scd2.create_append_flow('feed_copy', 'orders_changes', source_filter => '_change_type = ''delete''', once => true);
SELECT scd2.sync() >= 0;
SELECT * FROM archive WHERE id < 0 ORDER BY id;
SELECT _change_type, _change_ordinal, id FROM feed_copy;
SELECT flow, once, state, finished_at IS NOT NULL AS finished, rows_inserted FROM scd2.flows ORDER BY flow;

-- a table of the user's: its defaults, generated columns, checks and triggers count
CREATE TABLE own (n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id int, twice int GENERATED ALWAYS AS (id * 2) STORED, seen boolean NOT NULL DEFAULT true, CHECK (id < 1000));
CREATE TABLE small (id int);
CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.seen := NEW.id % 2 = 0; RETURN NEW; END $$;
CREATE TRIGGER shout BEFORE INSERT ON own FOR EACH ROW EXECUTE FUNCTION shout();
INSERT INTO small VALUES (1);
SELECT scd2.create_append_flow('own', 'small');
INSERT INTO small VALUES (2);
SELECT scd2.sync() >= 0;
SELECT id, twice, seen FROM own ORDER BY id;
-- what it does not take stops the flow, alone, and nothing is lost
INSERT INTO small VALUES (3), (1000);
DO $$
BEGIN
    PERFORM scd2.sync('60 s', ARRAY['append_flow.own'::regclass]);
EXCEPTION WHEN object_not_in_prerequisite_state THEN
    RAISE WARNING '%', regexp_replace(SQLERRM, '\(\d+, 1000', '(…, 1000');   -- each attempt takes a number
END $$;
ALTER TABLE own DROP CONSTRAINT own_id_check;
SELECT scd2.resume_flow('own');
SELECT scd2.sync() >= 0;
SELECT id FROM own ORDER BY id;

-- pause and resume
SELECT scd2.pause_flow('own');
INSERT INTO small VALUES (4);
SELECT scd2.sync() >= 0;
SELECT max(id) FROM own WHERE id < 1000;
SELECT scd2.resume_flow('own');
SELECT scd2.sync() >= 0;
SELECT max(id) FROM own WHERE id < 1000;

-- a rebuild gives the same; of orders, what was there before the TRUNCATE is lost
CREATE TABLE before_refresh AS TABLE own;
SELECT scd2.full_refresh('own');
SELECT scd2.sync() >= 0;
(SELECT id, twice, seen FROM own EXCEPT ALL SELECT id, twice, seen FROM before_refresh) UNION ALL (SELECT id, twice, seen FROM before_refresh EXCEPT ALL SELECT id, twice, seen FROM own);
\set VERBOSITY terse
SELECT scd2.full_refresh('archive');
\set VERBOSITY default
SELECT scd2.full_refresh('archive', allow_loss => true);
SELECT scd2.sync() >= 0;
SELECT * FROM archive ORDER BY id;

-- the target may be a source; nobody else writes it
SELECT scd2.create_append_flow('archive_2', 'archive', source_filter => 'id > 100');
SELECT scd2.create_append_flow('orders', 'archive');
INSERT INTO archive VALUES (1);
INSERT INTO web VALUES ('2026-01-07', 'Sur', 300);
SELECT scd2.sync() >= 0;
SELECT id FROM archive_2 ORDER BY 1;

-- what is refused
CREATE TABLE history (id int PRIMARY KEY, v text);
SELECT scd2.track('history', 'tracked');
SELECT scd2.create_append_flow(NULL, 'orders');
SELECT scd2.create_append_flow('x', 'orders', refresh_interval => '-1 s');
SELECT scd2.create_append_flow('x', 'orders_changes');
SELECT scd2.create_append_flow('x', 'legacy');
SELECT scd2.create_append_flow('x', 'orders', source_filter => 'amount');
SELECT scd2.create_append_flow('x', 'orders', source_filter => 'nothing > 1');
SELECT scd2.create_append_flow('x', 'orders', source_filter => 'random() > 0.5');
SELECT scd2.create_append_flow('x', 'orders', source_filter => '_commit_version > 1');
SELECT scd2.create_append_flow('x', 'orders', name => 'own');
SELECT scd2.create_append_flow('tracked', 'history');
CREATE TABLE wrong (id bigint, v text);
SELECT scd2.create_append_flow('wrong', 'history');
SELECT scd2.create_append_flow('archive', 'wrong');
CREATE TABLE lacks (id int);
SELECT scd2.create_append_flow('lacks', 'history');
CREATE TABLE full_one (id int, v text);
INSERT INTO full_one VALUES (1, 'mine');
SELECT scd2.create_append_flow('full_one', 'history');
SELECT scd2.create_append_flow('small_seq', 'own_n_seq', once => true);
SELECT scd2.alter_flow('from_web', sequence_by => 'id');
SELECT scd2.alter_flow('from_web', source_filter => 'nothing');
CREATE ROLE scd2_other;
GRANT USAGE, CREATE ON SCHEMA append_flow TO scd2_other;
SET ROLE scd2_other;
CREATE TABLE mine (id int);
SELECT scd2.create_append_flow('x', 'orders');
SELECT scd2.create_append_flow('archive', 'mine');
SELECT scd2.drop_flow('archive');
SELECT scd2.create_append_flow('mine_too', 'mine');
INSERT INTO mine VALUES (1);
SELECT scd2.sync() >= 0;
SELECT * FROM mine_too;
SELECT flow FROM scd2.flows;
RESET ROLE;

-- a flow that goes leaves its target, which is an ordinary table with the last of them
SELECT scd2.drop_flow('from_web'), scd2.drop_flow('archive_2');
INSERT INTO archive VALUES (1);
SELECT scd2.drop_flow('archive');
INSERT INTO archive VALUES (-3, 'by hand', 1);
SELECT count(*) FROM archive WHERE region = 'by hand';
SELECT scd2.drop_flow('own', drop_target => true);
SELECT to_regclass('own');
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT flow FROM scd2.flows LOOP
        PERFORM scd2.drop_flow(f.flow, drop_target => true);
    END LOOP;
    FOR f IN SELECT feed FROM scd2.feeds LOOP
        PERFORM scd2.disable_change_feed(f.feed, drop_feed => true);
    END LOOP;
END $$;
DROP SCHEMA append_flow CASCADE;
DROP ROLE scd2_other;
