-- schema.sql: tables of several kinds, an audit trail of everything that happens to them, and the random work that the sessions do.

CREATE EXTENSION pg_scd2;

CREATE TABLE plain (id int PRIMARY KEY, v int, body text);
CREATE TABLE composite (k1 int, k2 text COLLATE "C", n numeric, doc jsonb, note text, PRIMARY KEY (k2, k1));
CREATE TABLE shifting (id int PRIMARY KEY DEFERRABLE, v int);
CREATE TABLE parts (id int, region int, v int, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE parts_2 (v int, dropped text, region int NOT NULL, id int NOT NULL);
ALTER TABLE parts_2 DROP COLUMN dropped;
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES IN (2);
CREATE TABLE keyless (v int, w text);

-- What happened, written by the transaction in which it happened. A truncate is noted row by row as well (change 'truncated').
CREATE TABLE audit (n bigserial PRIMARY KEY, xid xid8 NOT NULL DEFAULT pg_current_xact_id(), source text, change text, image jsonb);

CREATE FUNCTION audit_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- a partition's rows are those of the root
    IF TG_OP = 'INSERT' THEN
        INSERT INTO audit (source, change, image) VALUES (TG_ARGV[0], 'insert', to_jsonb(NEW));
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO audit (source, change, image) VALUES (TG_ARGV[0], 'delete', to_jsonb(OLD));
    ELSE
        INSERT INTO audit (source, change, image) VALUES (TG_ARGV[0], 'update_preimage', to_jsonb(OLD));
        INSERT INTO audit (source, change, image) VALUES (TG_ARGV[0], 'update_postimage', to_jsonb(NEW));
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION audit_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('INSERT INTO audit (source, change, image) SELECT %L, %L, to_jsonb(t) FROM %I t', TG_ARGV[0], 'truncated', TG_ARGV[0]);
    INSERT INTO audit (source, change) VALUES (TG_ARGV[0], 'truncate');
    RETURN NULL;
END $$;

DO $$
DECLARE
    source text;
BEGIN
    FOREACH source IN ARRAY '{plain,composite,shifting,parts,keyless}'::text[] LOOP
        EXECUTE format('CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION audit_row(%L)', source, source);
        EXECUTE format('CREATE TRIGGER audit_truncate BEFORE TRUNCATE ON %I EXECUTE FUNCTION audit_truncate(%L)', source, source);
    END LOOP;
END $$;

CREATE FUNCTION any_int(below int) RETURNS int LANGUAGE sql VOLATILE AS 'SELECT floor(random() * below)::int';

-- One random operation. Keys are few, so that sessions meet.
CREATE FUNCTION operate() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    kind int := any_int(240);
    k    int := any_int(40);
    x    int := any_int(5);
BEGIN
    CASE
        WHEN kind < 20 THEN INSERT INTO plain VALUES (k, x, repeat('body', any_int(4))) ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v;
        WHEN kind < 30 THEN UPDATE plain SET v = x WHERE id = k;
        WHEN kind < 35 THEN UPDATE plain SET v = v WHERE id = k;
        WHEN kind < 40 THEN UPDATE plain SET body = repeat(md5(k::text), 200 + x) WHERE id = k;
        WHEN kind < 45 THEN UPDATE plain SET body = NULL, v = NULLIF(x, 0) WHERE id = k;
        WHEN kind < 55 THEN UPDATE plain SET id = any_int(40) WHERE id = k;
        WHEN kind < 62 THEN DELETE FROM plain WHERE id = k;
        WHEN kind < 68 THEN                                     -- gone and back, with the same values or others
            WITH gone AS (DELETE FROM plain WHERE id = k RETURNING *) SELECT count(*) FROM gone INTO x;
            INSERT INTO plain SELECT k, x, 'back' WHERE x > 0;
        WHEN kind < 74 THEN                                     -- two keys change places
            UPDATE plain SET id = -k - 1 WHERE id = k;
            UPDATE plain SET id = k WHERE id = x;
            UPDATE plain SET id = x WHERE id = -k - 1;
        WHEN kind < 90 THEN
            MERGE INTO composite c USING (VALUES (k % 5, chr(65 + x), x / 10.0)) AS s (k1, k2, n) ON c.k1 = s.k1 AND c.k2 = s.k2
                WHEN MATCHED AND c.n = s.n THEN DELETE
                WHEN MATCHED THEN UPDATE SET n = s.n
                WHEN NOT MATCHED THEN INSERT VALUES (s.k1, s.k2, s.n, jsonb_build_object('k', k), 'merged');
        WHEN kind < 105 THEN UPDATE composite SET note = 'note ' || x WHERE k1 = k % 5;
        WHEN kind < 115 THEN UPDATE composite SET n = CASE x WHEN 0 THEN NULL WHEN 1 THEN 1.0 WHEN 2 THEN 1.00 WHEN 3 THEN 'NaN' ELSE 2 END WHERE k1 = k % 5;
        WHEN kind < 120 THEN UPDATE composite SET doc = NULLIF(jsonb_build_object('k', x), '{"k": 0}') WHERE k1 = k % 5 AND k2 = chr(65 + x);
        WHEN kind < 125 THEN DELETE FROM composite WHERE k1 = k % 5 AND k2 = chr(65 + x);
        WHEN kind < 140 THEN INSERT INTO shifting SELECT k, x WHERE NOT EXISTS (SELECT FROM shifting WHERE id = k);
        WHEN kind < 150 THEN UPDATE shifting SET id = id + 1 WHERE id BETWEEN k AND k + 3;
        WHEN kind < 156 THEN UPDATE shifting SET id = id - 1, v = x WHERE id BETWEEN k AND k + 3;
        WHEN kind < 162 THEN DELETE FROM shifting WHERE id BETWEEN k AND k + 1;
        WHEN kind < 180 THEN INSERT INTO parts VALUES (k, 1 + x % 2, x) ON CONFLICT DO NOTHING;
        WHEN kind < 190 THEN UPDATE parts SET region = 3 - region WHERE id = k;
        WHEN kind < 196 THEN UPDATE parts SET v = x WHERE id BETWEEN k AND k + 5;
        WHEN kind < 200 THEN DELETE FROM parts WHERE id = k;
        WHEN kind < 212 THEN INSERT INTO keyless SELECT x, CASE WHEN x > 2 THEN 'same' END FROM generate_series(1, 1 + x % 3);
        WHEN kind < 218 THEN UPDATE keyless SET v = v + 1 WHERE ctid = (SELECT ctid FROM keyless LIMIT 1);
        WHEN kind < 224 THEN DELETE FROM keyless WHERE ctid IN (SELECT ctid FROM keyless WHERE v = x LIMIT 2);
        WHEN kind < 226 THEN                                    -- undone, in a subtransaction of its own
            BEGIN
                UPDATE plain SET v = -1;
                DELETE FROM composite;
                RAISE EXCEPTION 'undone' USING ERRCODE = 'P0002';
            EXCEPTION WHEN no_data_found THEN NULL;
            END;
        WHEN kind = 226 AND any_int(10) = 0 THEN TRUNCATE plain;
        WHEN kind = 227 AND any_int(10) = 0 THEN
            TRUNCATE composite, keyless;
            INSERT INTO composite VALUES (1, 'A', 1, NULL, 'after truncate');
        ELSE UPDATE plain SET v = v + 1 WHERE id BETWEEN k AND k + 4;
    END CASE;
END $$;

-- Some operations; what fails is undone and forgotten (a key that is there, a deadlock).
CREATE FUNCTION work() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. 1 + any_int(5) LOOP
        BEGIN
            PERFORM operate();
            SET CONSTRAINTS ALL IMMEDIATE;
        EXCEPTION WHEN unique_violation OR deadlock_detected OR exclusion_violation OR lock_not_available THEN NULL;
        END;
    END LOOP;
END $$;
