-- events.sql: what targets of event tables must hold, in plain SQL over all events (SEMANTICS: "SCD
-- type 2"). For tables and views with the columns k, p (keys), t, u (values), s (what the sequence
-- is made from), op ('D': a delete) and cut (true: a truncate); ties are decided over the images of
-- k, p, t, u, s.
--
--   expected(EVENTS, SEQUENCE_BY, TRACKED, END_BY, IGNORES)   a query: k, p, t, u, s, start, "end" of each row of the history; END_BY: where rows end, IGNORES: of t and u, those in which NULL says nothing
--   differences(TARGET, SHOWN, WANTED)                        how many rows "SELECT SHOWN FROM TARGET" and "SELECT WANTED" differ in

-- What the definition says. In "e", per key and sequence the event that counts: a close before an
-- upsert before a delete; of upserts the greatest image, or, of each column, the greatest value
-- that was sent.
CREATE FUNCTION valid(events text, sequence_by text, end_by text DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
    SELECT format('SELECT k, p, t, u, s, seq, CASE WHEN gone THEN 2 ELSE 1 END AS kind, CASE WHEN NOT gone THEN upto END AS upto FROM (SELECT *, coalesce(op = ''D'', false) AS gone, %s AS seq, %s AS upto FROM %I) AS q
                   WHERE NOT cut AND k IS NOT NULL AND p IS NOT NULL AND seq IS NOT NULL AND seq::text <> ''NaN'' AND (gone OR upto IS NULL OR upto::text <> ''NaN'' AND upto > seq)',
                  sequence_by, coalesce(end_by, format('CASE WHEN false THEN %s END', sequence_by)), events) $$;
CREATE FUNCTION one_of(column_name text, ignores text[]) RETURNS text LANGUAGE sql AS $$
    SELECT format(CASE WHEN column_name = ANY (ignores) THEN 'max(%1$s)' ELSE 'CASE WHEN bool_and(%1$s IS NOT NULL) THEN max(%1$s) END' END, column_name) $$;
CREATE FUNCTION taken_over(column_name text, ignores text[]) RETURNS text LANGUAGE sql AS $$
    SELECT format(CASE WHEN column_name = ANY (ignores) THEN '(array_agg(%1$s) FILTER (WHERE kind = 1 AND %1$s IS NOT NULL) OVER b)[count(%1$s) FILTER (WHERE kind = 1) OVER b] AS %1$s' ELSE '%1$s' END, column_name) $$;
CREATE FUNCTION expected(events text, sequence_by text, tracked text, end_by text DEFAULT NULL, ignores text[] DEFAULT '{}') RETURNS text LANGUAGE sql AS $$
    SELECT format($q$
        WITH v AS (%s),
        a AS (SELECT k, p, t, u, s, seq, kind FROM v UNION ALL SELECT k, p, NULL, NULL, NULL, upto, 0 FROM v WHERE upto IS NOT NULL UNION ALL
              SELECT DISTINCT v.k, v.p, NULL::text, NULL::int, NULL::int, c.seq, 2 FROM v, (SELECT DISTINCT %s AS seq FROM %I WHERE cut) AS c WHERE c.seq IS NOT NULL AND c.seq::text <> 'NaN'),
        e AS (%s),
        f AS (SELECT k, p, %s, %s, s, seq, kind FROM (SELECT *, count(*) FILTER (WHERE kind <> 1) OVER (PARTITION BY k, p ORDER BY seq) AS block FROM e) AS q WINDOW b AS (PARTITION BY k, p, block ORDER BY seq)),
        m AS (SELECT *, lag(kind, 1, 2) OVER w <> 1 OR ROW(%s) IS DISTINCT FROM ROW(%s) AS starts, lead(seq) OVER w AS next
              FROM f WINDOW w AS (PARTITION BY k, p ORDER BY seq)),
        r AS (SELECT *, count(*) FILTER (WHERE starts) OVER (PARTITION BY k, p ORDER BY seq) AS run FROM m WHERE kind = 1)
        SELECT DISTINCT ON (k, p, run) k, p, t, u, s, min(seq) OVER (PARTITION BY k, p, run) AS start, next AS "end" FROM r ORDER BY k, p, run, seq DESC
    $q$, valid(events, sequence_by, end_by), sequence_by, events,
         CASE WHEN ignores = '{}' THEN 'SELECT DISTINCT ON (k, p, seq) * FROM a ORDER BY k, p, seq, kind DESC, ROW(k, p, t, u, s) USING OPERATOR(pg_catalog.*>)'
              ELSE format('SELECT k, p, %s AS t, %s AS u, NULL::int AS s, seq, kind FROM (SELECT *, max(kind) OVER (PARTITION BY k, p, seq) AS counts FROM a) AS q WHERE kind = counts GROUP BY k, p, seq, kind', one_of('t', ignores), one_of('u', ignores)) END,
         taken_over('t', ignores), taken_over('u', ignores), tracked, (SELECT string_agg(format('lag(%s) OVER w', c), ', ') FROM regexp_split_to_table(tracked, ', ') AS c)) $$;
\ir ../pgtap/parts/differences.sql
