-- batches.sql: random events whose sequences go up from batch to batch, so that some of each batch come below what earlier ones have brought. For what is
-- said of events in events.sql.
--
--   make_events(NAME, KEYS, BATCHES, STEP, SPREAD, NULLS)   tables NAME_all, what there is, and NAME_in, what has come, "n" in this order; the sequences of
--                                   batch B are from B * STEP on, less than SPREAD above that, and NULL as often as NULLS says; batches after the first have a truncate
--   insert_batch(NAME, BATCH)       the statement by which a batch comes

CREATE FUNCTION make_events(name text, keys int, batches int, step int, spread int, nulls float) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format($q$CREATE TABLE %I AS
        SELECT batch, k, CASE k %% 2 WHEN 0 THEN 'a' ELSE 'b' END AS p, CASE WHEN random() < 0.2 THEN NULL ELSE chr(97 + floor(random() * 2)::int) END AS t, CASE WHEN random() < 0.2 THEN NULL ELSE floor(random() * 4)::int END AS u,
               CASE WHEN random() < $5 THEN NULL ELSE batch * $3 + floor(random() * $4)::int END AS s, CASE WHEN random() < 0.15 THEN 'D' ELSE 'U' END AS op, false AS cut
        FROM generate_series(1, $1) AS k, generate_series(1, 1 + (k %% 7 = 0)::int * 10 + k %% 4) AS i, LATERAL (SELECT floor(random() * $2 + i * 0)::int AS batch) AS b$q$, name || '_all') USING keys, batches, step, spread, nulls;
    EXECUTE format('INSERT INTO %I SELECT batch, NULL, NULL, NULL, NULL, batch * $2 + floor(random() * $3)::int, ''T'', true FROM generate_series(1, $1 - 1) AS batch', name || '_all') USING batches, step, spread;
    EXECUTE format('CREATE TABLE %I (batch int, n bigint GENERATED ALWAYS AS IDENTITY, k int, p text, t text, u int, s int, op text, cut boolean)', name || '_in');
END $$;
CREATE FUNCTION insert_batch(name text, batch int) RETURNS text LANGUAGE sql AS $$
    SELECT format('INSERT INTO %I (batch, k, p, t, u, s, op, cut) SELECT batch, k, p, t, u, s, op, cut FROM %I WHERE batch = %s ORDER BY random()', name || '_in', name || '_all', batch) $$;
