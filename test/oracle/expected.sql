-- expected.sql: what feeds and targets must hold, in plain SQL over the whole audit trail and the
-- order of the commits (table commit_order, read from the write-ahead log by pg_waldump). Slow and
-- simple on purpose: it knows nothing of how the extension works, except the time that a version
-- has.

CREATE TABLE commit_order (xid xid8 PRIMARY KEY, place bigint NOT NULL);

-- Versions: 1, 2, 3 ... over the transactions that changed a table whose feed had been enabled by then.
CREATE TABLE versions (version bigint PRIMARY KEY, xid xid8 UNIQUE, place bigint UNIQUE, at timestamptz);
-- Changes with the version their transaction has (others': the version before it).
CREATE TABLE changes (n bigint PRIMARY KEY, source text, version bigint, xid xid8, own_version boolean, change text, sign int, key text, image jsonb);
CREATE INDEX ON changes (source, version);
-- Rows of all feeds.
CREATE TABLE feed_rows (source text, version bigint, ordinal int, at timestamptz, xid xid8, change text, image jsonb);
CREATE INDEX ON feed_rows (source, version);

-- The version that the database had when a transaction had committed.
CREATE FUNCTION version_at(which xid8) RETURNS bigint LANGUAGE sql AS $$
    SELECT coalesce(max(v.version), 0) FROM versions v JOIN commit_order c ON c.xid = which AND v.place <= c.place
$$;

CREATE FUNCTION collect() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    each record;
BEGIN
    TRUNCATE versions, changes, feed_rows;
    CREATE INDEX IF NOT EXISTS audit_xid ON audit (xid);
    ANALYZE audit, commit_order;
    FOR each IN SELECT * FROM sources WHERE enabled_xid IS NOT NULL LOOP
        EXECUTE format('INSERT INTO feed_rows SELECT %L, _commit_version, _change_ordinal, _commit_timestamp, _xid, _change_type, CASE WHEN _change_type <> ''truncate'' THEN %s END FROM %I f',
                       each.source, image_sql('f', each.columns), each.source || '_changes');
    END LOOP;
    INSERT INTO versions (version, xid, place)
        SELECT row_number() OVER (ORDER BY place), xid, place FROM commit_order c
        WHERE EXISTS (SELECT FROM audit a JOIN sources s USING (source) JOIN commit_order e ON e.xid = s.enabled_xid
                      WHERE a.xid = c.xid AND a.change <> 'truncated' AND c.place > e.place);
    UPDATE versions v SET at = f.at FROM (SELECT version, min(at) AS at FROM feed_rows GROUP BY version) f WHERE f.version = v.version;
    INSERT INTO changes (n, source, version, xid, own_version, change, sign, image)
        SELECT a.n, a.source, v.version, a.xid, v.xid = a.xid, a.change, CASE WHEN a.change IN ('insert', 'update_postimage') THEN 1 ELSE -1 END, a.image
        FROM audit a JOIN commit_order c USING (xid)
        LEFT JOIN LATERAL (SELECT o.version AS floor FROM versions o WHERE o.place <= c.place ORDER BY o.place DESC LIMIT 1) f ON true
        LEFT JOIN versions v ON v.version = f.floor;
    UPDATE changes SET version = 0, own_version = false WHERE version IS NULL;
    FOR each IN SELECT * FROM sources WHERE key_sql IS NOT NULL LOOP
        EXECUTE format('UPDATE changes SET key = %s WHERE source = %L AND image IS NOT NULL', each.key_sql, each.source);
    END LOOP;
    ANALYZE versions, changes, feed_rows;
END $$;

-- Versions and transactions are one to one, dense, in commit order; times grow; a time is the
-- commit's unless an earlier one forbids it. Ordinals are dense in a version.
CREATE FUNCTION check_versions() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT format('version %s is of transaction %s, should be of %s', coalesce(f.version, v.version), f.xid, v.xid)
        FROM (SELECT DISTINCT version, xid FROM feed_rows) f FULL JOIN versions v USING (version) WHERE f.xid IS DISTINCT FROM v.xid
    UNION ALL
    SELECT format('version %s has times %s', version, array_agg(DISTINCT at)) FROM feed_rows GROUP BY version HAVING count(DISTINCT at) > 1
    UNION ALL
    SELECT format('time of version %s is not after the one before', version) FROM (SELECT version, at, lag(at) OVER (ORDER BY version) AS before FROM versions) v WHERE before >= at
    UNION ALL
    SELECT format('time of version %s is %s, its commit was at %s', version, at, pg_xact_commit_timestamp(xid::xid)) FROM versions
        WHERE NOT at BETWEEN pg_xact_commit_timestamp(xid::xid) AND pg_xact_commit_timestamp(xid::xid) + interval '1 second'
    UNION ALL
    SELECT format('ordinals of version %s are not 1 to %s', version, count(*)) FROM feed_rows GROUP BY version
        HAVING min(ordinal) <> 1 OR max(ordinal) <> count(*) OR count(DISTINCT ordinal) <> count(*)
    UNION ALL
    SELECT format('latest_version() is %s instead of %s', scd2.latest_version(), count(*)) FROM versions HAVING count(*) <> scd2.latest_version()
$$;

-- A feed has the changes since it was enabled, in order.
CREATE FUNCTION check_feed(which text) RETURNS SETOF text LANGUAGE sql AS $$
    WITH actual AS (SELECT version, row_number() OVER (PARTITION BY version ORDER BY ordinal) AS n, change, image FROM feed_rows WHERE source = which),
    wanted AS (
        SELECT version, row_number() OVER (PARTITION BY version ORDER BY n) AS n, change, image FROM changes
        WHERE source = which AND own_version AND change <> 'truncated' AND version > (SELECT version_at(enabled_xid) FROM sources WHERE source = which))
    SELECT 'missing: ' || left(m::text, 300) FROM (SELECT * FROM wanted EXCEPT ALL SELECT * FROM actual) m
    UNION ALL
    SELECT 'too much: ' || left(t::text, 300) FROM (SELECT * FROM actual EXCEPT ALL SELECT * FROM wanted) t
$$;

CREATE FUNCTION check_description(which text) RETURNS SETOF text LANGUAGE sql AS $$
    WITH actual AS (SELECT version, xid, inserts, updates, deletes, truncates FROM scd2.describe_history(which::regclass)),
    wanted AS (
        SELECT version, xid, count(*) FILTER (WHERE change = 'insert'), count(*) FILTER (WHERE change = 'update_postimage'),
               count(*) FILTER (WHERE change = 'delete'), count(*) FILTER (WHERE change = 'truncate')
        FROM changes WHERE source = which AND own_version AND change <> 'truncated' AND version > (SELECT version_at(enabled_xid) FROM sources WHERE source = which)
        GROUP BY version, xid)
    SELECT 'missing: ' || m FROM (SELECT * FROM wanted EXCEPT ALL SELECT * FROM actual) m
    UNION ALL
    SELECT 'too much: ' || t FROM (SELECT * FROM actual EXCEPT ALL SELECT * FROM wanted) t
$$;

-- The audit trail replayed to a version.
CREATE FUNCTION rows_at(which text, v bigint) RETURNS SETOF jsonb LANGUAGE sql AS $$
    SELECT image FROM (SELECT image, sum(sign) AS n FROM changes WHERE source = which AND version <= v AND image IS NOT NULL GROUP BY image HAVING sum(sign) <> 0) r
    CROSS JOIN LATERAL generate_series(1, n)
$$;

CREATE FUNCTION truncated_since(which text, v bigint) RETURNS boolean LANGUAGE sql AS $$
    SELECT EXISTS (SELECT FROM changes WHERE source = which AND change = 'truncate' AND version > v)
$$;

-- The rows of the table itself: a check of the audit trail more than of anything else.
CREATE FUNCTION check_source(which text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format($q$
        WITH actual AS (SELECT %s FROM %I t), wanted AS (SELECT rows_at(%2$L, 9223372036854775807))
        SELECT 'missing: ' || m FROM (SELECT * FROM wanted EXCEPT ALL SELECT * FROM actual) m
        UNION ALL SELECT 'too much: ' || t FROM (SELECT * FROM actual EXCEPT ALL SELECT * FROM wanted) t $q$, image_sql('t', (SELECT columns FROM sources WHERE source = which)), which);
END $$;

-- table_at at random versions, and what it said while others wrote.
CREATE FUNCTION check_table_at(which text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    earliest bigint := scd2.earliest_version(which::regclass);
    v bigint;
BEGIN
    FOR v IN SELECT earliest + floor(random() * (scd2.latest_version() - earliest + 1)) FROM generate_series(1, 4) LOOP
        BEGIN
            RETURN QUERY EXECUTE format($q$
                WITH actual AS (SELECT %s FROM scd2.table_at(NULL::%I, $1) t), wanted AS (SELECT rows_at(%2$L, $1))
                SELECT format('version %%s, missing: %%s', $1, m) FROM (SELECT * FROM wanted EXCEPT ALL SELECT * FROM actual) m
                UNION ALL SELECT format('version %%s, too much: %%s', $1, t) FROM (SELECT * FROM actual EXCEPT ALL SELECT * FROM wanted) t $q$,
                image_sql('t', (SELECT columns FROM sources WHERE source = which)), which) USING v;
            IF truncated_since(which, v) THEN
                RETURN NEXT format('version %s was shown across a TRUNCATE', v);
            END IF;
        EXCEPTION WHEN object_not_in_prerequisite_state THEN
            IF NOT truncated_since(which, v) THEN
                RETURN NEXT format('version %s was not shown: %s', v, SQLERRM);
            END IF;
        END;
    END LOOP;
    FOR v IN SELECT version FROM seen WHERE source = which AND image IS NULL GROUP BY version HAVING count(*) = 1 LOOP
        RETURN QUERY
            WITH actual AS (SELECT image FROM seen WHERE source = which AND version = v AND image IS NOT NULL), wanted AS (SELECT rows_at(which, v))
            SELECT format('version %s while others wrote, missing: %s', v, m) FROM (SELECT * FROM wanted EXCEPT ALL SELECT * FROM actual) m
            UNION ALL SELECT format('version %s while others wrote, too much: %s', v, t) FROM (SELECT * FROM actual EXCEPT ALL SELECT * FROM wanted) t;
    END LOOP;
END $$;

-- The state of each key at the end of each version that made a difference to it, by counting the
-- images that are live; NULL: none.
CREATE FUNCTION states(which text, columns text[]) RETURNS TABLE (key text, version bigint, image text) LANGUAGE sql AS $$
    WITH difference AS (
        SELECT c.key, c.version, p.image, sum(c.sign) AS d
        FROM changes c CROSS JOIN LATERAL (SELECT jsonb_object_agg(k, c.image -> k)::text AS image FROM unnest(columns) k) p
        WHERE c.source = which AND c.image IS NOT NULL GROUP BY 1, 2, 3),
    running AS (SELECT *, sum(d) OVER (PARTITION BY difference.key, difference.image ORDER BY difference.version) AS live FROM difference)
    SELECT key, version, max(image) FILTER (WHERE live > 0) FROM running WHERE d <> 0 GROUP BY key, version
$$;

-- The rows of a target: runs of states that are equal in the tracked columns, with the values of
-- the last; from the version at which the flow began, where what was live then is valid since its
-- beginning.
CREATE FUNCTION history(which text, columns text[], tracked text[], began bigint, began_at timestamptz)
    RETURNS TABLE (image jsonb, valid_from timestamptz, valid_to timestamptz) LANGUAGE sql AS $$
    WITH s AS MATERIALIZED (SELECT * FROM states(which, columns)),
    event AS (
        SELECT s.key, s.version, v.at, s.image::jsonb AS image FROM s JOIN versions v USING (version) WHERE s.version > began
        UNION ALL
        SELECT * FROM (SELECT DISTINCT ON (s.key) s.key, began, began_at, s.image::jsonb AS image FROM s WHERE s.version <= began ORDER BY s.key, s.version DESC) b WHERE b.image IS NOT NULL),
    tracking AS (SELECT *, CASE WHEN e.image IS NOT NULL THEN coalesce((SELECT jsonb_object_agg(c, e.image -> c)::text FROM unnest(tracked) c), '') END AS seen FROM event e),
    marked AS (SELECT *, row_number() OVER w = 1 OR seen IS DISTINCT FROM lag(seen) OVER w AS starts FROM tracking WINDOW w AS (PARTITION BY key ORDER BY version)),
    numbered AS (SELECT *, count(*) FILTER (WHERE starts) OVER (PARTITION BY key ORDER BY version) AS run FROM marked),
    runs AS (SELECT key, run, min(numbered.at) AS valid_from, (array_agg(numbered.image ORDER BY version DESC))[1] AS image FROM numbered GROUP BY key, run)
    SELECT r.image, r.valid_from, r.valid_to
    FROM (SELECT *, lead(runs.valid_from) OVER (PARTITION BY key ORDER BY run) AS valid_to FROM runs) r
    WHERE r.image IS NOT NULL
$$;

-- Where a flow began: at the version of its transaction, or the one asked for; at a later one only
-- if that was a TRUNCATE, which cannot be undone.
CREATE FUNCTION check_beginning(which text) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT format('began at version %s, should have at %s', s.begin_version, w.wanted)
    FROM flows f JOIN scd2_internal.flow d ON d.name = f.flow JOIN scd2_internal.flow_state s USING (flow_id)
    CROSS JOIN LATERAL (SELECT coalesce(f.starting_version, version_at(f.xid)) AS wanted) w
    WHERE f.flow = which AND s.begin_version <> w.wanted
      AND NOT (s.begin_version > w.wanted AND EXISTS (SELECT FROM changes c WHERE c.source = f.source AND c.change = 'truncate' AND c.version = s.begin_version))
    UNION ALL
    SELECT format('began at %s, not between %s and %s', s.begin_timestamp, v.at, n.at)
    FROM scd2_internal.flow d JOIN scd2_internal.flow_state s USING (flow_id) JOIN flows f ON f.flow = d.name
    LEFT JOIN versions v ON v.version = s.begin_version LEFT JOIN versions n ON n.version = s.begin_version + 1
    WHERE d.name = which AND (f.starting_version IS NULL AND s.begin_timestamp < v.at OR s.begin_timestamp >= n.at)
$$;

CREATE FUNCTION check_flow(which text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    f flows;
    s record;
    is_sql text;
BEGIN
    SELECT * INTO f FROM flows WHERE flow = which;
    SELECT begin_version, begin_timestamp INTO s FROM scd2_internal.flow_state JOIN scd2_internal.flow USING (flow_id) WHERE name = which;
    IF f.scd_type = 1 THEN
        is_sql := format('SELECT %s AS image FROM %I t', image_sql('t', f.columns), which);
        RETURN QUERY EXECUTE format($q$
            WITH actual AS (%s), wanted AS (SELECT image FROM history($1, $2, $3, $4, $5) WHERE valid_to IS NULL)
            SELECT 'missing: ' || left(m::text, 300) FROM (SELECT * FROM wanted EXCEPT ALL SELECT * FROM actual) m
            UNION ALL SELECT 'too much: ' || left(t::text, 300) FROM (SELECT * FROM actual EXCEPT ALL SELECT * FROM wanted) t $q$, is_sql)
            USING f.source, f.columns, f.tracked, s.begin_version, s.begin_timestamp;
    ELSE
        is_sql := format('SELECT %s AS image, __start_at, __end_at, %s AS current FROM %I t', image_sql('t', f.columns), coalesce(quote_ident(f.current_column), '__end_at IS NULL'), which);
        RETURN QUERY EXECUTE format($q$
            WITH actual AS (%s), wanted AS (SELECT image, valid_from, valid_to, valid_to IS NULL FROM history($1, $2, $3, $4, $5))
            SELECT 'missing: ' || left(m::text, 300) FROM (SELECT * FROM wanted EXCEPT ALL SELECT * FROM actual) m
            UNION ALL SELECT 'too much: ' || left(t::text, 300) FROM (SELECT * FROM actual EXCEPT ALL SELECT * FROM wanted) t $q$, is_sql)
            USING f.source, f.columns, f.tracked, s.begin_version, s.begin_timestamp;
    END IF;
END $$;

-- Open rows are the source's rows; as of a version's time the rows are what the source had then.
CREATE FUNCTION check_open_rows(which text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    f flows;
    began bigint;
    v record;
BEGIN
    SELECT * INTO f FROM flows WHERE flow = which;
    RETURN QUERY EXECUTE format($q$
        WITH actual AS (SELECT %s FROM %I t %s), wanted AS (SELECT %1$s FROM %4$I t)
        SELECT 'missing: ' || left(m::text, 300) FROM (SELECT * FROM wanted EXCEPT ALL SELECT * FROM actual) m
        UNION ALL SELECT 'too much: ' || left(t::text, 300) FROM (SELECT * FROM actual EXCEPT ALL SELECT * FROM wanted) t $q$,
        image_sql('t', f.columns), which, CASE f.scd_type WHEN 2 THEN 'WHERE __end_at IS NULL' ELSE '' END, f.source);
    IF f.scd_type = 1 THEN
        RETURN;
    END IF;
    SELECT begin_version INTO began FROM scd2_internal.flow_state JOIN scd2_internal.flow USING (flow_id) WHERE name = which;
    -- (Untracked values are those of a run's end: compare keys and tracked columns.)
    FOR v IN SELECT version, at FROM versions WHERE version > began ORDER BY random() LIMIT 3 LOOP
        RETURN QUERY EXECUTE format($q$
            WITH actual AS (SELECT %s FROM %I($1) t), wanted AS (SELECT %s FROM rows_at($2, $3) r)
            SELECT format('as of version %%s, missing: %%s', $3, m) FROM (SELECT * FROM wanted EXCEPT ALL SELECT * FROM actual) m
            UNION ALL SELECT format('as of version %%s, too much: %%s', $3, t) FROM (SELECT * FROM actual EXCEPT ALL SELECT * FROM wanted) t $q$,
            image_sql('t', f.tracked), which || '_as_of',
            'jsonb_build_object(' || (SELECT string_agg(format('%L, r -> %1$L', c), ', ') FROM unnest(f.tracked) c) || ')')
            USING v.at, f.source, v.version;
    END LOOP;
END $$;

-- A full refresh is asked for, unless that would lose history; then it must be refused. What the
-- target held is kept beside it.
CREATE FUNCTION ask_refresh(which text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    since bigint;
    src text;
BEGIN
    SELECT begin_version, f.source INTO since, src FROM scd2_internal.flow_state JOIN scd2_internal.flow d USING (flow_id) JOIN flows f ON f.flow = d.name WHERE d.name = which;
    BEGIN
        EXECUTE format('CREATE TABLE before_%s AS SELECT * FROM %I', which, which);
        PERFORM scd2.full_refresh(which::regclass);
        IF truncated_since(src, since) THEN
            RETURN NEXT 'a full refresh across a TRUNCATE was not refused';
        END IF;
    EXCEPTION WHEN object_not_in_prerequisite_state THEN
        IF NOT truncated_since(src, since) THEN
            RETURN NEXT 'full_refresh: ' || SQLERRM;
        END IF;
    END;
END $$;

CREATE FUNCTION check_refreshed(which text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    IF to_regclass('before_' || which) IS NULL THEN
        RETURN;
    END IF;
    -- as text: json has no equality
    RETURN QUERY EXECUTE format($q$
        SELECT 'missing: ' || m FROM (SELECT t::text FROM %2$I t EXCEPT ALL SELECT t::text FROM %1$I t) m
        UNION ALL SELECT 'too much: ' || m FROM (SELECT t::text FROM %1$I t EXCEPT ALL SELECT t::text FROM %2$I t) m $q$, which, 'before_' || which);
    EXECUTE format('DROP TABLE %I', 'before_' || which);
END $$;
