-- events.sql: what targets of event tables must hold, in plain SQL over all events (SEMANTICS: "SCD type 2"). For tables and views with the columns
-- k, p (keys), t, u (values), s (what the sequence is made from), op ('D': a delete) and cut (true: a truncate); ties are decided over the images of k, p, t, u, s.
--
--   expected(EVENTS, SEQUENCE_BY, TRACKED)   a query: k, p, t, u, s, start, "end" of each row of the history
--   differences(TARGET, SHOWN, WANTED)       how many rows "SELECT SHOWN FROM TARGET" and "SELECT WANTED" differ in

-- What the definition says. In "e", per key and sequence the event that counts: a delete before an upsert, then the greatest image.
CREATE FUNCTION valid(events text, sequence_by text) RETURNS text LANGUAGE sql AS $$
    SELECT format('SELECT k, p, t, u, s, seq, coalesce(op = ''D'', false) AS gone FROM (SELECT *, %s AS seq FROM %I) AS q WHERE NOT cut AND k IS NOT NULL AND p IS NOT NULL AND seq IS NOT NULL AND seq::text <> ''NaN''', sequence_by, events) $$;
CREATE FUNCTION expected(events text, sequence_by text, tracked text) RETURNS text LANGUAGE sql AS $$
    SELECT format($q$
        WITH v AS (%s),
        a AS (SELECT * FROM v UNION ALL
              SELECT DISTINCT v.k, v.p, NULL::text, NULL::int, NULL::int, c.seq, true FROM v, (SELECT DISTINCT %s AS seq FROM %I WHERE cut) AS c WHERE c.seq IS NOT NULL AND c.seq::text <> 'NaN'),
        e AS (SELECT DISTINCT ON (k, p, seq) * FROM a ORDER BY k, p, seq, gone DESC, ROW(k, p, t, u, s) USING OPERATOR(pg_catalog.*>)),
        m AS (SELECT *, lag(gone, 1, true) OVER w OR ROW(%s) IS DISTINCT FROM ROW(%s) AS starts, lead(seq) OVER w AS next
              FROM e WINDOW w AS (PARTITION BY k, p ORDER BY seq)),
        r AS (SELECT *, count(*) FILTER (WHERE starts) OVER (PARTITION BY k, p ORDER BY seq) AS run FROM m WHERE NOT gone)
        SELECT DISTINCT ON (k, p, run) k, p, t, u, s, min(seq) OVER (PARTITION BY k, p, run) AS start, next AS "end" FROM r ORDER BY k, p, run, seq DESC
    $q$, valid(events, sequence_by), sequence_by, events, tracked, (SELECT string_agg(format('lag(%s) OVER w', c), ', ') FROM regexp_split_to_table(tracked, ', ') AS c)) $$;
CREATE FUNCTION differences(target text, shown text, wanted text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    EXECUTE format('WITH has AS MATERIALIZED (SELECT %1$s FROM %2$I), should AS MATERIALIZED (SELECT %3$s) SELECT (SELECT count(*) FROM (TABLE has EXCEPT ALL TABLE should) AS x) + (SELECT count(*) FROM (TABLE should EXCEPT ALL TABLE has) AS x)',
                   shown, target, wanted) INTO n;
    RETURN n;
END $$;
