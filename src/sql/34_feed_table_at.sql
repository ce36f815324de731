-- 34_feed_table_at.sql: a table as it was right after a version.
--
-- Today's rows with later changes undone. One statement reads the rows under its snapshot S and calls scd2._undo_rows,
-- which waits until everything that S sees is captured and returns, from a newer snapshot, the changes after the
-- version whose transaction S sees. Rows are taken as a bag of row images: an insert or post-image takes one away, a
-- pre-image or delete puts one back, and only the sums count. So no key is needed, no equality of the types (images are
-- compared as text, which every type has), and no order.
--
-- A TRUNCATE does not say what it removed, a gap says nothing: with one in between there is no answer.

CREATE FUNCTION scd2._wait_captured(timeout interval) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_wait_captured' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2._wait_captured(interval) IS
    'Part of table_at: waits until everything in the log up to now is captured. Errors: 55000 if no worker captures, '
    '57014 at the timeout.';

-- (Not volatile: it may be called in a worker. What it calls looks anew each time.)
CREATE FUNCTION scd2._wait_complete(source regclass) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STABLE;
CREATE FUNCTION scd2_internal._wait_complete(caller oid, source regclass) RETURNS void
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.wait_complete(f, scd2.latest_version()) FROM scd2_internal.readable_feed(caller, source) f
$$;
COMMENT ON FUNCTION scd2._wait_complete(regclass) IS
    'Part of table_at: waits until the feed of a table has everything that was captured before the call. Errors: 55000 it waits to be written.';

CREATE FUNCTION scd2._truncated(version bigint, source regclass) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('table %s was truncated at version %s', source, version),
        DETAIL = 'A TRUNCATE does not record the rows that it removed, '
                 'so the table cannot be shown as it was before it.',
        HINT = format('SELECT * FROM scd2.table_at(NULL::%s, %s);', source, version);
END $$;
COMMENT ON FUNCTION scd2._truncated(bigint, regclass) IS 'Part of table_at: raises 55000.';

CREATE FUNCTION scd2._undo_rows(feed anyelement, source regclass, after_version bigint, after_timestamp timestamptz,
    seen pg_snapshot) RETURNS SETOF anyelement
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET max_parallel_workers_per_gather = 0 AS $$
DECLARE
    r record;
BEGIN
    PERFORM scd2._wait_captured('1 min');
    PERFORM scd2._wait_complete(source);
    r := scd2._feed_range(source, after_version, NULL, after_timestamp, NULL, true);
    IF upper_inf(r.gap) OR upper(r.gap) - 1 > coalesce(after_version, r.first_version) THEN
        RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('changes of table %s are missing since then', source),
            DETAIL = format('Changes of versions %s were not recorded.', r.gap),
                HINT = CASE WHEN upper_inf(r.gap) THEN format('SELECT scd2.resync(%L);', source)
                    ELSE format('SELECT * FROM scd2.table_at(NULL::%s, %s);', source, upper(r.gap)) END;
    ELSIF EXISTS (SELECT FROM scd2._reconstructions(source) c WHERE (c.version > after_version OR c."timestamp" > after_timestamp)
                  AND NOT pg_visible_in_snapshot(c.xid, seen)) THEN
        RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = format('the change data feed of table %s was repaired meanwhile', source),
            HINT = 'Try again.';
    END IF;
    RETURN QUERY EXECUTE format('SELECT * FROM %s WHERE _commit_version BETWEEN $1 AND $2', r.feed)
        || CASE WHEN after_version IS NULL THEN ' AND _commit_timestamp > $3' ELSE '' END
        || ' AND (_commit_version <= $6 OR pg_visible_in_snapshot(_xid, $4))'
           ' AND (_change_type <> ''truncate'' OR scd2._truncated(_commit_version, $5))'
        USING greatest(r.first_version, after_version + 1), r.last_version, after_timestamp, seen, source, scd2._foreign_until();
END $$;
COMMENT ON FUNCTION scd2._undo_rows(anyelement, regclass, bigint, timestamptz, pg_snapshot) IS
    'Part of table_at: the changes after a version (or time) whose transactions a snapshot sees. Errors: 55000 a '
    'TRUNCATE or missing versions among them, or as of _feed_range and _wait_captured.';

-- The statement that shows a table at a version. Whole rows are written alias.*: a bare alias would be a column of that
-- name, if there is one.
CREATE FUNCTION scd2._table_at_query(source regclass, feed regclass) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH c AS (
        SELECT a.attnum, a.attname, a.atttypid, a.atttypmod, a.attgenerated = 'v' AS is_virtual,
               EXISTS (SELECT FROM pg_attribute f WHERE f.attrelid = feed AND f.attname = a.attname
                   AND NOT f.attisdropped) AS in_feed
        FROM pg_attribute a WHERE a.attrelid = source AND a.attnum > 0 AND NOT a.attisdropped),
    t AS (
        SELECT coalesce(string_agg(format('(u.r).%I', c.attname), ', ' ORDER BY c.attnum) FILTER (WHERE c.in_feed),
            '') AS undo_image,
               coalesce(string_agg(format('s.%I', c.attname), ', ' ORDER BY c.attnum) FILTER (WHERE c.in_feed),
                   '') AS image,
               string_agg(CASE WHEN c.in_feed
                   THEN format('((b.r).%I)::%s AS %1$I', c.attname, format_type(c.atttypid, c.atttypmod))
                               ELSE format('NULL::%s AS %I', format_type(c.atttypid, c.atttypmod), c.attname) END, ', '
                                   ORDER BY c.attnum) AS columns,
               string_agg(CASE WHEN c.is_virtual
                   THEN (SELECT format('(%s)::%s', pg_get_expr(d.adbin, d.adrelid),
                   format_type(c.atttypid, c.atttypmod))
                                                       FROM pg_attrdef d WHERE d.adrelid = source
                                                           AND d.adnum = c.attnum)
                               ELSE quote_ident(c.attname) END, ', ' ORDER BY c.attnum) AS computed,
               (SELECT CASE k.relkind WHEN 'p' THEN '' ELSE 'ONLY ' END || source FROM pg_class k
                   WHERE k.oid = source) AS rows
        FROM c)
    SELECT format($query$
        WITH undo AS MATERIALIZED (
            SELECT u.r, ROW(%1$s)::text COLLATE "C" AS image,
                   CASE WHEN (u.r)._change_type IN ('insert', 'update_postimage') THEN -1 ELSE 1 END AS sign
            FROM (SELECT (c.*)::%2$s AS r FROM scd2._undo_rows(NULL::%2$s, %3$L, $1, $2, pg_current_snapshot()) c) u),
        net AS MATERIALIZED (
            SELECT image, sum(sign) AS n FROM undo GROUP BY image HAVING sum(sign) <> 0)
        SELECT s.* FROM %4$s s
        WHERE NOT EXISTS (SELECT FROM net WHERE net.n < 0 AND net.image = ROW(%5$s)::text COLLATE "C")
        UNION ALL
        SELECT (k.r).* FROM (SELECT (s.*)::%3$s AS r, net.n, row_number() OVER (PARTITION BY net.image) AS copy
                             FROM %4$s s JOIN net ON net.n < 0 AND net.image = ROW(%5$s)::text COLLATE "C") k
        WHERE k.copy > -k.n
        UNION ALL
        SELECT %7$s FROM (
            SELECT %6$s FROM (SELECT undo.r, net.n, row_number() OVER (PARTITION BY net.image) AS copy
                              FROM undo JOIN net ON net.n > 0 AND net.image = undo.image WHERE undo.sign = 1) b
            WHERE b.copy <= b.n) q $query$, t.undo_image, feed, source, t.rows, t.image, t.columns, t.computed)
    FROM t
$$;
COMMENT ON FUNCTION scd2._table_at_query(regclass, regclass) IS
    'Part of table_at: the text of its query; $1 the version, $2 the time. Columns that the feed does not have are '
    'NULL in rows that are put back, virtual generated ones are computed.';

-- What would make the answer wrong without anybody noticing.
CREATE FUNCTION scd2._check_table_at(source regclass, feed regclass) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION USING ERRCODE = '25001',
            MESSAGE = 'table_at cannot run in a transaction whose snapshot is fixed',
            DETAIL = 'It must see changes that are captured after the snapshot was taken.',
                HINT = 'ROLLBACK; BEGIN ISOLATION LEVEL READ COMMITTED;';
    END IF;
    IF EXISTS (SELECT FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.granted
               AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
               AND l.relation IN (SELECT source UNION ALL SELECT p.relid FROM pg_partition_tree(source) p)
               AND l.mode NOT IN ('AccessShareLock', 'RowShareLock')) THEN
        RAISE EXCEPTION USING ERRCODE = '25001',
            MESSAGE = format('table_at cannot run in a transaction that has written %s', source),
            DETAIL = 'Its changes are not captured before it commits.', HINT = 'COMMIT;';
    END IF;
    IF row_security_active(source) OR row_security_active(feed) THEN
        RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('row security hides rows of %s', CASE WHEN row_security_active(source) THEN source ELSE feed END),
            DETAIL = 'A feed has all rows, whatever the policies of its source say, so the two cannot be put together.';
    END IF;
END $$;
COMMENT ON FUNCTION scd2._check_table_at(regclass, regclass) IS
    'Part of table_at. Errors: 25001 the transaction''s snapshot is fixed or it has written the table, 42501 row '
    'security hides rows from the caller.';

CREATE FUNCTION scd2._table_at(source anyelement, after_version bigint, after_timestamp timestamptz)
    RETURNS SETOF anyelement
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 SET jit = off AS $$
DECLARE
    relation regclass;
    r record;
BEGIN
    SELECT c.oid INTO relation FROM pg_type t JOIN pg_class c ON c.oid = t.typrelid AND c.relkind IN ('r', 'p')
        WHERE t.oid = pg_typeof(source);
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '42804',
            MESSAGE = format('argument of table_at must be a row of a table, not of type %s', pg_typeof(source)),
            HINT = 'SELECT * FROM scd2.table_at(NULL::customers, 1);';
    END IF;
    IF after_version IS NULL AND after_timestamp IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'the version of table_at must not be null';
    END IF;
    -- Before the feed is held: capture may have to lock it.
    PERFORM scd2._wait_captured('1 min');
    PERFORM scd2._wait_complete(relation);
    r := scd2._feed_range(relation, after_version, NULL, after_timestamp, NULL, true);
    IF r.feed = relation THEN
        RAISE EXCEPTION USING ERRCODE = '42804', MESSAGE = format('%s is a change data feed, not a source', relation);
    END IF;
    PERFORM scd2._check_table_at(relation, r.feed);
    IF after_version > scd2.latest_version() THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('version %s is yet to come', after_version),
            DETAIL = format('The latest version is %s.', scd2.latest_version());
    END IF;
    IF scd2._reads_as_owner(relation) THEN
        RETURN QUERY SELECT t.* FROM scd2._read_rows_now(source, relation, scd2._table_at_query(relation, r.feed), after_version, after_timestamp) t;
        RETURN;
    END IF;
    RETURN QUERY EXECUTE scd2._table_at_query(relation, r.feed) USING after_version, after_timestamp;
END $$;
COMMENT ON FUNCTION scd2._table_at(anyelement, bigint, timestamptz) IS 'Part of table_at: all of its forms.';

CREATE FUNCTION scd2.table_at(source anyelement, version bigint) RETURNS SETOF anyelement
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM scd2._table_at($1, $2, NULL)
$$;
CREATE FUNCTION scd2.table_at(source anyelement, "timestamp" timestamptz) RETURNS SETOF anyelement
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM scd2._table_at($1, NULL, $2)
$$;
-- An untyped literal would be ambiguous without this one.
CREATE FUNCTION scd2.table_at(source anyelement, point text) RETURNS SETOF anyelement
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT t.* FROM scd2._bound($2) b, scd2._table_at($1, b.version, b."timestamp") t
$$;
COMMENT ON FUNCTION scd2.table_at(anyelement, bigint) IS
    'The rows of a table as they were right after a version: today''s rows with later changes undone. source: '
    'NULL::<table>. Waits until what the statement sees is captured. Columns that the feed leaves out are NULL in '
    'rows that '
    'are put back. Errors: 22023 a version before the feed or yet to come; 55000 no feed, no worker that captures, or '
    'a TRUNCATE or missing versions since then; 25001 the transaction has written the table or its snapshot is '
    'fixed; 42501 no right to read the feed, or row security hides rows; 42804 the argument is no row of a table.';
COMMENT ON FUNCTION scd2.table_at(anyelement, timestamptz) IS
    'The rows of a table as they were after the last commit at or before this time. Errors as table_at by version.';
COMMENT ON FUNCTION scd2.table_at(anyelement, text) IS
    'As table_at by version, if "point" has digits only, else by time.';
