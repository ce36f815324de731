-- What each kind of statement leaves in the feed.
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA feed_operations;
SET search_path = feed_operations;
CREATE TABLE t (id integer PRIMARY KEY, v text);
SELECT scd2.enable_change_feed('t');
SELECT scd2.sync() AS v0 \gset

-- an update gives two rows, also when nothing changed; a statement that touches nothing gives none
INSERT INTO t VALUES (1, 'a'), (2, 'b');
UPDATE t SET v = 'c' WHERE id = 1;
UPDATE t SET v = v WHERE id = 1;
UPDATE t SET v = 'z' WHERE id = 99;
DELETE FROM t WHERE id = 2;
-- COPY, ON CONFLICT, MERGE
COPY t FROM STDIN;
3	x
4	y
\.
INSERT INTO t VALUES (3, 'xx'), (5, 'z') ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v;
INSERT INTO t VALUES (3, 'no') ON CONFLICT DO NOTHING;
MERGE INTO t USING (VALUES (4, 'm'), (5, NULL), (6, 'n')) s (id, v) ON s.id = t.id
    WHEN MATCHED AND s.v IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v);
SELECT scd2.sync() AS v1 \gset
SELECT _commit_version - :v0 AS v, _change_ordinal AS o, _change_type, id, v AS value FROM scd2.table_changes(NULL::t_changes, :v0);

-- CI-15: savepoints, exceptions, rolled back transactions
BEGIN;
UPDATE t SET v = '20' WHERE id = 1;
SAVEPOINT s;
UPDATE t SET v = '99' WHERE id = 1;
ROLLBACK TO s;
UPDATE t SET v = '30' WHERE id = 1;
COMMIT;
BEGIN;
UPDATE t SET v = 'never';
ROLLBACK;
DO $$
BEGIN
    UPDATE t SET v = 'do' WHERE id = 1;
    BEGIN
        UPDATE t SET v = 'inner' WHERE id = 1;
        INSERT INTO t VALUES (1, 'duplicate');
    EXCEPTION WHEN unique_violation THEN
        UPDATE t SET v = 'after' WHERE id = 3;
    END;
END $$;
SELECT scd2.sync() AS v2 \gset
SELECT _commit_version - :v1 AS v, _change_ordinal AS o, _change_type, id, v AS value FROM scd2.table_changes(NULL::t_changes, :v1 + 1);

-- CI-07: TRUNCATE is one row without values; it may be followed by rows of its transaction; a table without a feed leaves nothing
CREATE TABLE other (id integer REFERENCES t);
BEGIN;
INSERT INTO t VALUES (7, 'short');
TRUNCATE t, other;
INSERT INTO t VALUES (8, 'new');
COMMIT;
TRUNCATE t CASCADE;
TRUNCATE other;
SELECT scd2.sync() AS v3 \gset
SELECT _commit_version - :v2 AS v, _change_ordinal AS o, _change_type, id, v AS value FROM scd2.table_changes(NULL::t_changes, :v2 + 1);

-- CI-20: cascades, triggers and session_replication_role: what is stored is captured, with the version of the transaction that did it
CREATE TABLE parent (id integer PRIMARY KEY, n integer DEFAULT 0);
CREATE TABLE child (id integer PRIMARY KEY, p integer REFERENCES parent ON UPDATE CASCADE ON DELETE CASCADE);
CREATE FUNCTION counts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.n := NEW.n + 100; RETURN NEW; END $$;
CREATE TRIGGER counts BEFORE INSERT OR UPDATE ON parent FOR EACH ROW EXECUTE FUNCTION counts();
SELECT scd2.enable_change_feed('parent'), scd2.enable_change_feed('child');
INSERT INTO parent VALUES (1, 1);
INSERT INTO child VALUES (1, 1), (2, 1);
UPDATE parent SET id = 10;
DELETE FROM parent;
SET session_replication_role = replica;
INSERT INTO parent VALUES (3, 3);
RESET session_replication_role;
SELECT scd2.sync() AS v4 \gset
SELECT _commit_version - :v3 AS v, 'parent' AS of, _change_ordinal AS o, _change_type, id, n AS "n or p" FROM scd2.table_changes(NULL::parent_changes)
UNION ALL
SELECT _commit_version - :v3, 'child', _change_ordinal, _change_type, id, p FROM scd2.table_changes(NULL::child_changes)
ORDER BY 1, 3, 2;

-- CI-18: versions are in commit order, one per transaction and dense
SELECT count(DISTINCT _commit_version) = max(_commit_version) - min(_commit_version) + 1 AS dense, count(DISTINCT _commit_version) = count(DISTINCT _xid) AS one_per_transaction
FROM (SELECT _commit_version, _xid FROM t_changes UNION ALL SELECT _commit_version, _xid FROM parent_changes UNION ALL SELECT _commit_version, _xid FROM child_changes) x;
SELECT bool_and(ok) AS times_ascend FROM (SELECT _commit_timestamp > lag(_commit_timestamp) OVER (ORDER BY _commit_version) AS ok FROM (SELECT DISTINCT _commit_version, _commit_timestamp FROM t_changes) x) y;

DROP SCHEMA feed_operations CASCADE;
