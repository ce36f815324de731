-- expected.sql: what feeds and targets must hold, in plain SQL over the whole audit trail and the order of the commits (table commit_order, read from the
-- write-ahead log by pg_waldump). Slow and simple on purpose: it knows nothing of how the extension works.

CREATE TABLE commit_order (xid xid8 PRIMARY KEY, place bigint NOT NULL);

-- The version each transaction must have: 1, 2, 3 ... over those that changed a captured table.
CREATE VIEW expected_version AS
    SELECT xid, row_number() OVER (ORDER BY place) AS version
    FROM commit_order WHERE xid IN (SELECT xid FROM audit);

-- The feed of a source.
CREATE FUNCTION expected_feed(which text) RETURNS TABLE (version bigint, n bigint, change text, image text) LANGUAGE sql AS $$
    SELECT v.version, row_number() OVER (PARTITION BY v.version ORDER BY a.n), a.change, a.image::text
    FROM audit a JOIN expected_version v USING (xid)
    WHERE a.source = which AND a.change <> 'truncated'
$$;

-- The state of each key at the end of each version that touched it: the image that is live, counted over everything up to then; NULL: none.
CREATE FUNCTION expected_states(which text, keys text[]) RETURNS TABLE (key text, version bigint, image jsonb) LANGUAGE sql AS $$
    WITH change AS (
        SELECT (SELECT jsonb_object_agg(k, a.image -> k) FROM unnest(keys) k)::text AS key, v.version, a.image::text AS image,
               CASE WHEN a.change IN ('insert', 'update_postimage') THEN 1 ELSE -1 END AS sign
        FROM audit a JOIN expected_version v USING (xid)
        WHERE a.source = which AND a.image IS NOT NULL),
    delta AS (SELECT c.key, c.image, c.version, sum(c.sign) AS d FROM change c GROUP BY 1, 2, 3)
    SELECT t.key, t.version,
           (SELECT l.image FROM delta l WHERE l.key = t.key AND l.version <= t.version GROUP BY l.image HAVING sum(l.d) > 0)::jsonb
    FROM (SELECT DISTINCT delta.key, delta.version FROM delta) t
$$;

-- The rows of a target: runs of states that are equal in the tracked columns (names in "tracked"), with the values of the last; from the version at which
-- the flow began, where what was live then is valid since "began_at".
CREATE FUNCTION expected_history(which text, keys text[], tracked text[], began bigint, began_at timestamptz)
    RETURNS TABLE (image text, valid_from timestamptz, valid_to timestamptz) LANGUAGE sql AS $$
    WITH at AS (SELECT DISTINCT _commit_version AS version, _commit_timestamp AS ts FROM all_feeds),
    state AS (
        SELECT s.key, s.version, at.ts, s.image FROM expected_states(which, keys) s JOIN at USING (version) WHERE s.version > began
        UNION ALL
        (SELECT DISTINCT ON (s.key) s.key, began, began_at, s.image FROM expected_states(which, keys) s
         WHERE s.version <= began ORDER BY s.key, s.version DESC)),
    tracking AS (
        SELECT *, CASE WHEN state.image IS NULL THEN NULL
                       ELSE (SELECT jsonb_object_agg(c, state.image -> c)::text FROM unnest(tracked) c) END AS tracked_image FROM state),
    numbered AS (
        SELECT *, count(*) FILTER (WHERE starts) OVER (PARTITION BY key ORDER BY version) AS run
        FROM (SELECT *, tracked_image IS DISTINCT FROM lag(tracked_image) OVER (PARTITION BY key ORDER BY version)
                        OR row_number() OVER (PARTITION BY key ORDER BY version) = 1 AS starts FROM tracking) s),
    runs AS (
        SELECT key, run, min(ts) AS valid_from, (array_agg(numbered.image ORDER BY version DESC))[1] AS image FROM numbered GROUP BY key, run)
    SELECT r.image::text, r.valid_from, r.valid_to
    FROM (SELECT *, lead(runs.valid_from) OVER (PARTITION BY key ORDER BY run) AS valid_to FROM runs) r
    WHERE r.image IS NOT NULL
$$;
