-- A row that a transaction changed before it dropped a column, and deleted after it, is gone: the image without the column takes away the one with it.
SET client_min_messages = warning;
CREATE SCHEMA columns_dropped;
SET search_path = columns_dropped;
CREATE TABLE t (id integer PRIMARY KEY, a text, b text);
INSERT INTO t VALUES (1, 'a', 'b');
SELECT scd2.track('t');
SELECT scd2.sync() IS NOT NULL AS synced;
BEGIN;
UPDATE t SET a = 'a2' WHERE id = 1;
INSERT INTO t VALUES (2, 'n', 'n'), (3, 'n', 'n');
ALTER TABLE t DROP COLUMN b;
UPDATE t SET a = 'a3' WHERE id = 1;
DELETE FROM t WHERE id = 2;
COMMIT;
SELECT scd2.sync() IS NOT NULL AS synced;
SELECT id, a, b, __end_at IS NULL AS open FROM t_history ORDER BY id, __start_at;
SELECT scd2.drop_flow(flow) FROM scd2.flows;
DROP SCHEMA columns_dropped CASCADE;
