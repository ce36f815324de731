-- work.sql: the random work that the sessions do.

CREATE FUNCTION any_int(below int) RETURNS int LANGUAGE sql VOLATILE AS 'SELECT floor(random() * below)::int';

CREATE FUNCTION operate_on_plain(k int, x int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    CASE any_int(16)
        WHEN 0, 1, 2 THEN INSERT INTO plain (id, v, body) VALUES (k, x, repeat('body', any_int(4))) ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v;
        WHEN 3, 4 THEN UPDATE plain SET v = x WHERE id = k;
        WHEN 5 THEN UPDATE plain SET v = v WHERE id = k;                                        -- nothing changes
        WHEN 6 THEN UPDATE plain SET body = repeat(md5(k::text), 200 + x) WHERE id = k;         -- out of line
        WHEN 7 THEN UPDATE plain SET body = NULL, v = NULLIF(x, 0) WHERE id = k;
        WHEN 8 THEN UPDATE plain SET note = 'note ' || x WHERE id BETWEEN k AND k + 2;          -- not tracked everywhere
        WHEN 9 THEN UPDATE plain SET id = any_int(40) WHERE id = k;
        WHEN 10 THEN DELETE FROM plain WHERE id = k;
        WHEN 11 THEN                                            -- gone and back, with the same values or others
            DELETE FROM plain WHERE id = k;
            INSERT INTO plain (id, v, note) SELECT k, x, 'back' WHERE x > 0;
        WHEN 12 THEN                                            -- two keys change places
            UPDATE plain SET id = -k - 1 WHERE id = k;
            UPDATE plain SET id = k WHERE id = x;
            UPDATE plain SET id = x WHERE id = -k - 1;
        WHEN 13 THEN                                            -- many changes of one row
            FOR i IN 1 .. 5 LOOP
                UPDATE plain SET v = v + i - 3 WHERE id = k;
            END LOOP;
        WHEN 14 THEN UPDATE plain SET v = v + 1 WHERE id BETWEEN 1000 + 10 * k AND 1030 + 10 * k;
        ELSE UPDATE plain SET v = v + 1 WHERE id BETWEEN k AND k + 4;
    END CASE;
END $$;

CREATE FUNCTION operate_on_composite(k int, x int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    CASE any_int(8)
        WHEN 0, 1 THEN
            MERGE INTO composite c USING (VALUES (k % 5, chr(65 + x), x / 10.0)) AS s (k1, k2, n) ON c.k1 = s.k1 AND c.k2 = s.k2
                WHEN MATCHED AND c.n = s.n THEN DELETE
                WHEN MATCHED THEN UPDATE SET n = s.n
                WHEN NOT MATCHED THEN INSERT (k1, k2, n, doc, note) VALUES (s.k1, s.k2, s.n, jsonb_build_object('k', k), 'merged');
        WHEN 2 THEN UPDATE composite SET note = 'note ' || x WHERE k1 = k % 5;
        WHEN 3 THEN UPDATE composite SET n = CASE x WHEN 0 THEN NULL WHEN 1 THEN 1.0 WHEN 2 THEN 1.00 WHEN 3 THEN 'NaN' ELSE 2 END WHERE k1 = k % 5;
        WHEN 4 THEN UPDATE composite SET doc = NULLIF(jsonb_build_object('k', x), '{"k": 0}'), js = CASE x WHEN 1 THEN '{"b":1, "a":2}' WHEN 2 THEN '{"a":2,"b":1}' END::json
                    WHERE k1 = k % 5 AND k2 = chr(65 + x);
        WHEN 5 THEN UPDATE composite SET tags = array_append(tags[1:2], 't' || x), at = 'epoch'::timestamptz + x * interval '1 day' WHERE k1 = k % 5;
        WHEN 6 THEN DELETE FROM composite WHERE k1 = k % 5 AND k2 = chr(65 + x);
        ELSE UPDATE composite SET k1 = 4 - k1 WHERE k2 = chr(65 + x) AND NOT EXISTS (SELECT FROM composite o WHERE o.k2 = composite.k2 AND o.k1 = 4 - composite.k1 AND o.k1 <> composite.k1);
    END CASE;
END $$;

CREATE FUNCTION operate_on_shifting(k int, x int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    CASE any_int(6)
        WHEN 0, 1 THEN INSERT INTO shifting SELECT k, x WHERE NOT EXISTS (SELECT FROM shifting WHERE id = k);
        WHEN 2 THEN UPDATE shifting SET id = id + 1 WHERE id BETWEEN k AND k + 3;
        WHEN 3 THEN UPDATE shifting SET id = id - 1, v = x WHERE id BETWEEN k AND k + 3;
        WHEN 4 THEN                                             -- two keys change places, twice the same key for a while
            UPDATE shifting SET id = k + 1 WHERE id = k;
            UPDATE shifting SET id = k WHERE ctid IN (SELECT ctid FROM shifting WHERE id = k + 1 LIMIT 1);
        ELSE DELETE FROM shifting WHERE id BETWEEN k AND k + 1;
    END CASE;
END $$;

CREATE FUNCTION operate_on_parts(k int, x int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    CASE any_int(6)
        WHEN 0, 1 THEN INSERT INTO parts VALUES (k, 1 + x % 2, x) ON CONFLICT DO NOTHING;
        WHEN 2 THEN UPDATE parts SET region = 3 - region WHERE id = k;
        WHEN 3 THEN UPDATE parts SET v = x WHERE id BETWEEN k AND k + 5;
        WHEN 4 THEN INSERT INTO parts SELECT k, 3, x FROM pg_class WHERE relname = 'parts_3' ON CONFLICT (id, region) DO UPDATE SET v = EXCLUDED.v;
        ELSE DELETE FROM parts WHERE id = k;
    END CASE;
END $$;

CREATE FUNCTION operate_on_others(k int, x int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    CASE any_int(12)
        WHEN 0 THEN INSERT INTO people VALUES (CASE WHEN x > 2 THEN upper(chr(97 + k % 10)) ELSE chr(97 + k % 10) END, x)
                    ON CONFLICT (nick) DO UPDATE SET nick = EXCLUDED.nick, motto = CASE WHEN x > 2 THEN 'Motto' ELSE 'motto' END;
        WHEN 1 THEN UPDATE people SET nick = upper(nick::text)::citext WHERE nick = chr(97 + k % 10)::citext;
        WHEN 2 THEN UPDATE people SET points = x WHERE nick = chr(97 + k % 10)::citext;
        WHEN 3 THEN DELETE FROM people WHERE nick = chr(97 + k % 10)::citext AND x > 2;
        WHEN 4, 5 THEN INSERT INTO keyless SELECT x, CASE WHEN x > 2 THEN 'same' END FROM generate_series(1, 1 + x % 3);
        WHEN 6 THEN UPDATE keyless SET v = v + 1 WHERE ctid = (SELECT ctid FROM keyless LIMIT 1);
        WHEN 7 THEN DELETE FROM keyless WHERE ctid IN (SELECT ctid FROM keyless WHERE v = x LIMIT 2);
        WHEN 8 THEN EXECUTE format('COPY keyless FROM %L', current_setting('oracle.copy_file'));
        WHEN 9 THEN UPDATE owners SET id = k WHERE id = 1 + any_int(40) AND NOT EXISTS (SELECT FROM owners WHERE id = k);
        WHEN 10 THEN DELETE FROM owners WHERE id = k;
        ELSE
            INSERT INTO owners VALUES (k, x) ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v;
            INSERT INTO owned VALUES (1 + any_int(60), k) ON CONFLICT (id) DO UPDATE SET owner = EXCLUDED.owner;
    END CASE;
END $$;

CREATE FUNCTION operate_rarely(k int, x int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    kept composite[];
BEGIN
    CASE any_int(9)
        WHEN 0 THEN                                             -- undone, in a subtransaction of its own
            UPDATE plain SET v = -1 WHERE id < 10;
            DELETE FROM composite;
            RAISE no_data_found;
        WHEN 1 THEN TRUNCATE plain; INSERT INTO plain (id, v) VALUES (k, x), (k + 1, x);
        WHEN 2 THEN
            kept := ARRAY(SELECT c FROM composite c WHERE k1 < x);
            TRUNCATE composite, keyless;
            INSERT INTO composite SELECT * FROM unnest(kept);
            INSERT INTO composite (k1, k2, note) VALUES (x, 'T', 'after truncate');
        WHEN 3 THEN INSERT INTO shifting SELECT 100 + x, x WHERE NOT EXISTS (SELECT FROM shifting WHERE id = 100 + x); TRUNCATE shifting;
        WHEN 4 THEN TRUNCATE parts; INSERT INTO parts VALUES (k, 1, x);
        WHEN 5 THEN TRUNCATE owners CASCADE; INSERT INTO owners VALUES (k, x);
        WHEN 6 THEN PERFORM set_config('session_replication_role', 'replica', true); PERFORM operate_on_plain(k, x);
        WHEN 7 THEN UPDATE plain SET v = v + 1;                 -- much at once
        ELSE INSERT INTO plain (id, v, note) SELECT g, x, 'far away' FROM generate_series(1000, 3000) g ON CONFLICT DO NOTHING;
    END CASE;
END $$;

-- One random operation. Keys are few, so that sessions meet.
CREATE FUNCTION operate() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    kind int := any_int(current_setting('oracle.rarely')::int);
    k    int := any_int(40);
    x    int := any_int(5);
BEGIN
    IF kind = 0 THEN
        PERFORM operate_rarely(k, x);
        RETURN;
    END IF;
    CASE kind % 8
        WHEN 0, 1, 2 THEN PERFORM operate_on_plain(k, x);
        WHEN 3, 4 THEN PERFORM operate_on_composite(k, x);
        WHEN 5 THEN PERFORM operate_on_shifting(k, x);
        WHEN 6 THEN PERFORM operate_on_parts(k, x);
        ELSE PERFORM operate_on_others(k, x);
    END CASE;
END $$;

-- Some operations; what fails is undone and forgotten (a key that is there, a deadlock).
CREATE FUNCTION work() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. 1 + any_int(5) LOOP
        BEGIN
            SET CONSTRAINTS ALL DEFERRED;
            PERFORM operate();
            IF any_int(10) = 0 THEN                             -- the same once more, and undone
                BEGIN
                    PERFORM operate();
                    RAISE no_data_found;
                EXCEPTION WHEN no_data_found THEN NULL;
                END;
            END IF;
            SET CONSTRAINTS ALL IMMEDIATE;
        EXCEPTION WHEN unique_violation OR foreign_key_violation OR not_null_violation OR check_violation OR deadlock_detected OR lock_not_available OR no_data_found THEN NULL;
        END;
    END LOOP;
END $$;
