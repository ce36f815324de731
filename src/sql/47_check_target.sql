-- 47_check_target.sql: is a target what it must be?
--
-- First what can be said of its rows alone, and of its memory beside them. Then they are compared with what the sources
-- say: copies of the flows into it write into an empty temporary table, by the same engine, up to the versions that the
-- flows have applied (src/flow/rebuild.c). Until the caller's transaction ends, no worker applies these flows.
--
-- A source that was read once may have changed since: if what it shows now is what the target has, nothing is wrong;
-- else nobody can say which of the two changed, so that is a NOTICE.
--
-- The owner's tables are looked at as he (src/ask.c): queries come here as text, findings as JSON. Images are
-- compared as text, which every type has.

CREATE FUNCTION scd2_internal.key_json(keys name[]) RETURNS text
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN cardinality(keys) = 0 THEN 'NULL::jsonb'
                ELSE format('pg_catalog.jsonb_build_object(%s)', (SELECT string_agg(format('%L, t.%I', k, k), ', ' ORDER BY n) FROM unnest(keys) WITH ORDINALITY AS u (k, n))) END
$$;
COMMENT ON FUNCTION scd2_internal.key_json(name[]) IS 'The key of a row t as an expression of type jsonb; NULL without keys';

-- One query for each way in which rows can contradict themselves: problem, key, detail.
CREATE FUNCTION scd2_internal.check_queries(f scd2_internal.flow, target regclass) RETURNS SETOF text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    keys   text := (SELECT string_agg(format('t.%I', k), ', ' ORDER BY n) FROM unnest(f.keys) WITH ORDINALITY AS u (k, n));
    nulls  text := (SELECT string_agg(format('t.%I IS NULL', k), ' OR ' ORDER BY n) FROM unnest(f.keys) WITH ORDINALITY AS u (k, n));
    key    text := scd2_internal.key_json(f.keys);
    starts text := format('t.%I', f.start_column);
    ends   text := format('t.%I', f.end_column);
    above  text;
BEGIN
    IF f.kind = 'append' THEN
        RETURN;
    END IF;
    RETURN NEXT format('SELECT ''NULL key'', %s, t::text FROM ONLY %s AS t WHERE %s', key, target, nulls);
    IF f.scd_type = 1 THEN
        RETURN NEXT format('SELECT ''several rows'', %s, format(''The key has %%s rows.'', count(*)) FROM ONLY %s AS t GROUP BY %s HAVING count(*) > 1', key, target, keys);
        RETURN;
    END IF;
    above := scd2_internal.order_operator(f.sequence_type::regtype, 5);
    RETURN NEXT format('SELECT ''several open rows'', %s, format(''The key has %%s open rows.'', count(*)) FROM ONLY %s AS t WHERE %s IS NULL GROUP BY %s HAVING count(*) > 1', key, target, ends, keys);
    RETURN NEXT format('SELECT ''end not after start'', %s, format(''A row begins at %%s and ends at %%s.'', %s, %s) FROM ONLY %s AS t WHERE NOT %s IS NULL AND (%s %s %s) IS NOT TRUE',
                       key, starts, ends, target, ends, ends, above, starts);
    -- A row overlaps if one that begins no later ends after its start. Two open rows are told of above.
    RETURN NEXT format('SELECT ''overlap'', %1$s, format(''A row from %%s to %%s is followed by one from %%s on.'', o._scd2_start, coalesce(o._scd2_end::text, ''its open end''), %2$s) '
                       'FROM (SELECT t.*, lag(%2$s) OVER w AS _scd2_start, lag(%3$s) OVER w AS _scd2_end, lag(1) OVER w AS _scd2_before FROM ONLY %4$s AS t WINDOW w AS (PARTITION BY %5$s ORDER BY %2$s)) AS t '
                       'CROSS JOIN LATERAL (VALUES (t._scd2_start, t._scd2_end)) AS o (_scd2_start, _scd2_end) '
                       'WHERE t._scd2_before = 1 AND (o._scd2_end %6$s %2$s OR o._scd2_end IS NULL AND NOT %3$s IS NULL)', key, starts, ends, target, keys, above);
    IF f.current_column IS NOT NULL THEN
        RETURN NEXT format('SELECT ''wrong current column'', %s, format(''Column "%%s" is %%s in a row that %%s.'', %L, t.%I, coalesce(''ends at '' || %s::text, ''is open'')) FROM ONLY %s AS t WHERE t.%I IS DISTINCT FROM (%s IS NULL)',
                           key, f.current_column, f.current_column, ends, target, f.current_column, ends);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_queries(scd2_internal.flow, regclass) IS 'Queries that find rows of a target that contradict themselves or each other';

-- What is remembered of an event (src/flow/recall.c) says whether its key was there right after it: of type 1 now, of
-- type 2 at its sequence. What is not remembered says nothing.
CREATE FUNCTION scd2_internal.check_memory_query(f scd2_internal.flow, target regclass) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format($query$
        SELECT 'contradicting memory', %1$s, format(CASE WHEN d.gone THEN 'A delete at %%s is remembered, and a row says that the key was there.' ELSE 'An upsert at %%s is remembered, and no row has it.' END, t._sequence)
        FROM ONLY %2$s AS t CROSS JOIN LATERAL (SELECT t._kind IN ('d', 'c')) AS d (gone)
        WHERE d.gone = EXISTS (SELECT FROM ONLY %3$s AS r WHERE %4$s) $query$,
        scd2_internal.key_json(f.keys), f.memory_relid::regclass, target,
        concat_ws(' AND ', (SELECT string_agg(format('r.%1$I %2$s t.%1$I', k, scd2_internal.order_operator(a.atttypid, 3)), ' AND ' ORDER BY n)
                            FROM unnest(f.keys) WITH ORDINALITY AS u (k, n) JOIN pg_attribute AS a ON a.attrelid = target AND a.attname = k),
            CASE WHEN f.scd_type = 2 THEN format('CASE t._kind WHEN ''u'' THEN t._sequence %2$s r.%1$I WHEN ''v'' THEN t._sequence %3$s r.%1$I ELSE t._sequence %4$s r.%1$I END AND (r.%5$I IS NULL OR r.%5$I %2$s t._sequence)',
                f.start_column, scd2_internal.order_operator(f.sequence_type::regtype, 5), scd2_internal.order_operator(f.sequence_type::regtype, 3),
                scd2_internal.order_operator(f.sequence_type::regtype, 4), f.end_column) END))
    WHERE f.memory_relid IS NOT NULL
$$;
COMMENT ON FUNCTION scd2_internal.check_memory_query(scd2_internal.flow, regclass) IS 'Query for what a target''s memory says that its rows deny; NULL without one';

-- The findings of a query, at most a thousand.
CREATE FUNCTION scd2_internal.findings(target oid, query text) RETURNS TABLE (problem text, key jsonb, detail text)
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT r ->> 0, nullif(r -> 1, 'null'), r ->> 2
    FROM jsonb_array_elements(scd2_internal.as_owner(target, format('SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(q.problem, q.key, q.detail)) FROM (%s LIMIT 1000) AS q (problem, key, detail)', query), 0)::jsonb) AS r
$$;
COMMENT ON FUNCTION scd2_internal.findings(oid, text) IS 'The rows (problem, key, detail) of a query that runs as the owner of the relation';

-- What a column had until its type changed is in the feed, but not in the source that a copy would begin with. After the
-- repair that brought the new values no row of source or target has anything in it any more.
CREATE FUNCTION scd2_internal.retyped_since(w scd2_internal.flow, OUT version bigint, OUT unrepaired name)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT max(r.version), min(c.name) FILTER (WHERE r.version IS NULL)
    FROM scd2_internal.followed_columns(w.feed_id) AS c
        LEFT JOIN LATERAL (SELECT min(x.version) AS version FROM scd2_internal.reconstruction AS x WHERE x.feed_id = w.feed_id AND x.version > c.until) AS r ON true
    WHERE c.until IS NOT NULL AND c.name = ANY (w.columns) AND c.name <> ALL (w.absent)
$$;
COMMENT ON FUNCTION scd2_internal.retyped_since(scd2_internal.flow) IS
    'The version since which columns of a target whose type changed have nothing any more; unrepaired: one of which that is not known';

-- Since when the sources of a target tell what it must hold: "why" not at all, or, with a version, only of what was valid
-- at its time or later. All NULL: since its beginning. A flow over a feed that has its target for itself can be begun
-- again wherever the feed reaches back to; of others, what came before may show later.
CREATE FUNCTION scd2_internal.comparable_since(target regclass, OUT why text, OUT version bigint, OUT at timestamptz)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f     scd2_internal.flow;
    s     scd2_internal.flow_state;
    feed  record;
    loss  record;
    retyped record;
BEGIN
    FOR f IN SELECT x.* FROM scd2_internal.flow AS x WHERE x.target_relid = target ORDER BY x.flow_id LOOP
        SELECT x.* INTO s FROM scd2_internal.flow_state AS x WHERE x.flow_id = f.flow_id;
        why := CASE WHEN f.kind = 'snapshot' OR f.once THEN format('flow "%s" read its source once, which may have changed since', f.name)
                    WHEN f.max_lateness IS NOT NULL AND (s.too_late > 0 OR EXISTS (SELECT FROM scd2_internal.mark AS m WHERE m.target_relid = target AND m.kind = 'horizon' AND m.flow_id IS NOT NULL))
                    THEN format('flow "%s" has a max_lateness, and what was too late depends on when it came', f.name)
                    WHEN f.purged_before IS NOT NULL AND s.too_late > 0 THEN format('events of flow "%s" were too late after a purge, and its source still has them', f.name)
                    WHEN f.purged_before IS NULL AND EXISTS (SELECT FROM scd2_internal.mark AS m WHERE m.target_relid = target AND m.kind = 'horizon' AND m.flow_id IS NULL)
                    THEN format('flow "%s" came after a purge, and what it has of before only filled in history', f.name)
                    WHEN s.flow_id IS NULL OR coalesce(s.failed_phase, s.phase) <> 'apply' THEN format('flow "%s" has not made its first copy', f.name) END;
        EXIT WHEN why IS NOT NULL;
        SELECT e.gap, c.oid AS there, sc.oid AS source_there INTO feed
            FROM scd2_internal.feed AS x LEFT JOIN scd2_internal.feed_state AS e USING (feed_id) LEFT JOIN pg_class AS c ON c.oid = x.feed_relid LEFT JOIN pg_class AS sc ON sc.oid = x.source_relid
            WHERE x.feed_id = f.feed_id;
        why := CASE WHEN feed.there IS NULL OR feed.source_there IS NULL THEN format('the source of flow "%s", or its feed, was dropped', f.name)
                    WHEN upper_inf(feed.gap) THEN format('the feed of flow "%s" lacks versions %s', f.name, feed.gap) END;
        EXIT WHEN why IS NOT NULL;
        why := format('column "%s" was dropped from a source, and what it had is known only of rows that changed since', scd2_internal.lost_column(target, true));
        EXIT WHEN scd2_internal.lost_column(target, true) IS NOT NULL;
        why := NULL;
        SELECT l.version, l.at INTO loss FROM scd2_internal.refresh_loss(f, s, true) AS l;
        SELECT r.version, r.commit_time AS at INTO retyped FROM scd2_internal.retyped_since(f) AS v JOIN scd2_internal.reconstruction AS r ON r.feed_id = f.feed_id AND r.version = v.version;
        IF retyped.version > coalesce(loss.version, 0) THEN
            loss := retyped;
        END IF;
        IF loss.version IS NOT NULL AND (f.input <> 'net' OR (SELECT count(*) > 1 FROM scd2_internal.flow AS x WHERE x.target_relid = target)) THEN
            why := format('flow "%s" began at version %s, and its source is known since version %s: what was before was removed from its feed, or a TRUNCATE took it', f.name, s.begin_version, loss.version);
            EXIT;
        END IF;
        version := loss.version;
        at := loss.at;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.comparable_since(regclass) IS
    'Why a target cannot be compared with its sources; NULL: it can, and, with a version, of what is valid at its time or later';

-- A temporary table of the target's owner with the columns that its flows keep, the same key, and no rows.
CREATE FUNCTION scd2_internal.empty_copy(relation regclass, columns name[], key name[]) RETURNS oid
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    copy text := format('pg_temp.scd2_copy_of_%s', relation::oid);
BEGIN
    EXECUTE format('CREATE TEMPORARY TABLE %s USING heap AS SELECT %s FROM %s WITH NO DATA', copy, (SELECT string_agg(quote_ident(c), ', ' ORDER BY n) FROM unnest(columns) WITH ORDINALITY AS u (c, n)), scd2_internal.fixed_name(relation));
    IF cardinality(key) > 0 THEN
        EXECUTE format('ALTER TABLE %s ADD PRIMARY KEY (%s)', copy, (SELECT string_agg(quote_ident(c), ', ' ORDER BY n) FROM unnest(key) WITH ORDINALITY AS u (c, n)));
    END IF;
    EXECUTE format('ALTER TABLE %s OWNER TO %s', copy, (SELECT scd2_internal.fixed_role(c.relowner) FROM pg_class AS c WHERE c.oid = relation));
    RETURN copy::regclass;
END $$;
COMMENT ON FUNCTION scd2_internal.empty_copy(regclass, name[], name[]) IS 'An empty temporary table with these columns of a relation, and its owner';

CREATE FUNCTION scd2_internal.rebuild(flow_id integer, upto bigint, from_beginning boolean) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_rebuild' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.rebuild(integer, bigint, boolean) IS
    'Runs a flow that only this transaction knows: its first copy, and all versions up to one. from_beginning: of event tables, the rows at the flow''s beginning count instead of those that are there';

CREATE FUNCTION scd2_internal.target_columns_kept(target oid) RETURNS name[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(a.attname ORDER BY a.attnum) FROM pg_attribute AS a
    WHERE a.attrelid = target AND a.attnum > 0 AND NOT a.attisdropped
      AND EXISTS (SELECT FROM scd2_internal.flow AS f WHERE f.target_relid = target
                  AND (a.attname = ANY (f.columns) OR f.kind <> 'append' AND f.scd_type = 2 AND a.attname IN (f.start_column, f.end_column, f.current_column)))
$$;
COMMENT ON FUNCTION scd2_internal.target_columns_kept(oid) IS 'The columns of a target that its flows fill';

-- Copies of the flows of a target, into the temporary table that is returned when they have run; with a key_filter,
-- only these keys; begun at a later version than they were, if one is given.
CREATE FUNCTION scd2_internal.rebuild_beside(target regclass, first scd2_internal.flow, key_filter text DEFAULT NULL, allow_loss boolean DEFAULT false,
        since_version bigint DEFAULT NULL, since timestamptz DEFAULT NULL) RETURNS oid
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f      scd2_internal.flow;
    s      scd2_internal.flow_state;
    beside oid;
    memory oid;
    place  record;
    flow_ids integer[] := '{}';
    applied  bigint[] := '{}';
    at_once  boolean[] := '{}';
    loss     record;
BEGIN
    PERFORM scd2_internal.check_target_fits_flows(target);
    beside := scd2_internal.empty_copy(target, scd2_internal.target_columns_kept(target), CASE WHEN first.scd_type = 2 THEN first.keys || first.start_column ELSE first.keys END);
    IF first.memory_relid IS NOT NULL THEN
        memory := scd2_internal.empty_copy(first.memory_relid, ARRAY(SELECT a.attname FROM pg_attribute AS a WHERE a.attrelid = first.memory_relid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum),
            ARRAY(SELECT a.attname FROM pg_index AS i CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k (attnum, n) JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
                  WHERE i.indrelid = first.memory_relid AND i.indisprimary ORDER BY k.n));
        EXECUTE format('ALTER TABLE %s ALTER COLUMN _sequence SET NOT NULL, ALTER COLUMN _kind SET NOT NULL', scd2_internal.fixed_name(memory));
    END IF;
    SELECT n.nspname AS schema, c.relname AS name INTO place FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = beside;
    -- All are there before one runs: then each knows that it is not alone.
    FOR f IN SELECT x.* FROM scd2_internal.flow AS x WHERE x.target_relid = target ORDER BY x.flow_id LOOP
        SELECT x.* INTO s FROM scd2_internal.flow_state AS x WHERE x.flow_id = f.flow_id;
        f.flow_id := nextval(pg_get_serial_sequence('scd2_internal.flow', 'flow_id'));
        f.name := scd2_internal.object_name(f.name, format('rebuilt_%s', f.flow_id));
        f.max_lateness := NULL;                 -- nothing was too late
        f.purged_before := NULL;
        s.begin_version := coalesce(since_version, s.begin_version);
        s.begin_timestamp := coalesce(since, s.begin_timestamp);
        IF key_filter IS NOT NULL THEN
            SELECT l.version, l.at INTO loss FROM scd2_internal.refresh_loss(f, s, allow_loss, key_filter) AS l WHERE f.input <> 'events';
            s.begin_version := coalesce(loss.version, s.begin_version);
            s.begin_timestamp := coalesce(loss.at, s.begin_timestamp);
            f.source_filter := concat_ws(' AND ', '(' || f.source_filter || E'\n)', format(E'(%s\n%s)', key_filter, ' OR (' || f.apply_as_truncates || E'\n)'));
        END IF;
        f.target_schema := place.schema;
        f.target_name := place.name;
        f.target_relid := beside;
        f.memory_relid := memory;
        f.memory_name := (SELECT c.relname FROM pg_class AS c WHERE c.oid = memory);
        INSERT INTO scd2_internal.flow OVERRIDING SYSTEM VALUE SELECT f.*;
        INSERT INTO scd2_internal.flow_state (flow_id, phase, begin_version, begin_timestamp, watermark_version, watermark_timestamp, last_batch)
            VALUES (f.flow_id, 'copy', s.begin_version, s.begin_timestamp, s.begin_version, s.begin_timestamp, now());
        INSERT INTO scd2_internal.skipped_version (flow_id, version, skipped_by)
            SELECT f.flow_id, k.version, k.skipped_by FROM scd2_internal.skipped_version k WHERE k.flow_id = s.flow_id;
        flow_ids := flow_ids || f.flow_id;
        applied := applied || s.watermark_version;
        at_once := at_once || f.once;
    END LOOP;
    INSERT INTO scd2_internal.erased_key SELECT place.schema, place.name, beside, e.fingerprint, e.seed, e.sequence FROM scd2_internal.erased_key e WHERE e.target_relid = target;
    FOR i IN 1 .. cardinality(flow_ids) LOOP
        -- what the first had all by itself when the second came stays as it was found (remember_changes_from_now)
        INSERT INTO scd2_internal.mark (target_schema, target_name, target_relid, sequence, kind, flow_id)
            SELECT place.schema, place.name, beside, m.sequence, m.kind, flow_ids[1] FROM scd2_internal.mark AS m
            WHERE i = 2 AND m.target_relid = target AND m.kind = 'horizon' AND m.flow_id = first.flow_id;
        PERFORM scd2_internal.rebuild(flow_ids[i], applied[i], key_filter IS NULL AND NOT at_once[i]);
    END LOOP;
    RETURN beside;
END $$;
COMMENT ON FUNCTION scd2_internal.rebuild_beside(regclass, scd2_internal.flow, text, boolean, bigint, timestamptz) IS 'Makes a target, or some of its keys, again from its sources, in a temporary table';

CREATE FUNCTION scd2_internal.forget_beside(beside oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    memory oid := (SELECT f.memory_relid FROM scd2_internal.flow AS f WHERE f.target_relid = beside LIMIT 1);
BEGIN
    DELETE FROM scd2_internal.flow AS f WHERE f.target_relid = beside;
    DELETE FROM scd2_internal.mark AS m WHERE m.target_relid = beside;
    DELETE FROM scd2_internal.erased_key AS e WHERE e.target_relid = beside;
    EXECUTE format('DROP TABLE %s', concat_ws(', ', scd2_internal.fixed_name(beside), scd2_internal.fixed_name(memory)));
END $$;
COMMENT ON FUNCTION scd2_internal.forget_beside(oid) IS 'Removes what rebuild_beside() made';

-- What is in one of two tables more often than in the other. Of type 2, what was valid before "since" does not count, nor
-- do versions that ended before a purge.
CREATE FUNCTION scd2_internal.difference_query(target regclass, beside regclass, columns name[], first scd2_internal.flow, since timestamptz) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format($query$
        SELECT CASE WHEN d.n > 0 THEN 'missing row' ELSE 'unexpected row' END,
               CASE WHEN d.n > 0 THEN (SELECT %3$s FROM %2$s AS t WHERE t.ctid = d.wanted) ELSE (SELECT %3$s FROM ONLY %1$s AS t WHERE t.ctid = d.found) END,
               format(CASE WHEN d.n > 0 THEN 'The sources say %%s%%s.' ELSE 'The sources do not say %%s%%s.' END, d.image, CASE WHEN abs(d.n) > 1 THEN format(', %%s times', abs(d.n)) END)
        FROM (SELECT c.image, sum(c.side) AS n, min(c.place) FILTER (WHERE c.side = 1) AS wanted, min(c.place) FILTER (WHERE c.side = -1) AS found
              FROM (SELECT ROW(%4$s)::text COLLATE "C" AS image, 1 AS side, t.ctid AS place FROM %2$s AS t WHERE %5$s
                    UNION ALL SELECT ROW(%4$s)::text COLLATE "C", -1, t.ctid FROM ONLY %1$s AS t WHERE %5$s) AS c
              GROUP BY c.image HAVING sum(c.side) <> 0) AS d
        ORDER BY 2, 1 $query$, target, beside, scd2_internal.key_json(first.keys),
        (SELECT string_agg(CASE WHEN first.scd_type = 2 AND c = first.start_column AND since IS NOT NULL THEN format('GREATEST(t.%I, %L::timestamptz)', c, since) ELSE format('t.%I', c) END, ', ' ORDER BY n)
         FROM unnest(columns) WITH ORDINALITY AS u (c, n)),
        CASE WHEN first.scd_type = 2 AND coalesce(since::text, first.purged_before) IS NOT NULL
             THEN format('(t.%I IS NULL OR %s)', first.end_column, concat_ws(' AND ', CASE WHEN since IS NOT NULL THEN format('t.%I > %L::timestamptz', first.end_column, since) END,
                  CASE WHEN first.purged_before IS NOT NULL THEN format('t.%I %s %L::%s', first.end_column, scd2_internal.order_operator(first.sequence_type::regtype, 4), first.purged_before, first.sequence_type) END))
             ELSE 'true' END)
$$;
COMMENT ON FUNCTION scd2_internal.difference_query(regclass, regclass, name[], scd2_internal.flow, timestamptz) IS 'Query for the rows in which a target differs from what it must be';

-- A snapshot that is fixed, or changes that nobody captures before they are committed, would make differences where
-- there are none.
CREATE FUNCTION scd2_internal.check_can_rebuild(target regclass, what text) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    written regclass;
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE active_sql_transaction USING MESSAGE = format('%s cannot run in a transaction whose snapshot is fixed', what),
            DETAIL = 'It must see changes that are captured after the snapshot was taken.', HINT = 'ROLLBACK; BEGIN ISOLATION LEVEL READ COMMITTED;';
    END IF;
    SELECT l.relation INTO written FROM scd2_internal.flow AS f CROSS JOIN LATERAL (SELECT f.source_relid AS oid UNION ALL SELECT p.relid FROM pg_partition_tree(f.source_relid) AS p) AS r
        JOIN pg_locks AS l ON l.relation = r.oid
        WHERE f.target_relid = target AND l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.granted AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
          AND l.mode NOT IN ('AccessShareLock', 'RowShareLock') LIMIT 1;
    IF FOUND THEN
        RAISE active_sql_transaction USING MESSAGE = format('%s cannot run in a transaction that has written "%s"', what, written),
            DETAIL = 'Its changes are not captured before it commits.', HINT = 'COMMIT;';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_can_rebuild(regclass, text) IS 'Raises 25001 if the transaction has a fixed snapshot or has written a source of the target';

-- In how many rows a target differs from the one relation that its snapshots are of, as that is now: what is open.
CREATE FUNCTION scd2_internal.count_differing_from_source(target regclass, f scd2_internal.flow) RETURNS bigint
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.as_owner(target, format('SELECT count(*) FROM (SELECT q.image FROM (SELECT ROW(%1$s)::text COLLATE "C" AS image, 1 AS side FROM %2$s AS t '
            'UNION ALL SELECT ROW(%1$s)::text COLLATE "C", -1 FROM ONLY %3$s AS t WHERE %4$s) AS q GROUP BY q.image HAVING sum(q.side) <> 0) AS d',
        (SELECT string_agg(format('t.%I', c), ', ' ORDER BY n) FROM unnest(f.columns) WITH ORDINALITY AS u (c, n)),
        CASE (SELECT c.relkind FROM pg_class AS c WHERE c.oid = f.source_relid) WHEN 'r' THEN 'ONLY ' ELSE '' END || f.source_relid::regclass,
        target, CASE f.scd_type WHEN 2 THEN format('t.%I IS NULL', f.end_column) ELSE 'true' END), 0)::bigint
$$;
COMMENT ON FUNCTION scd2_internal.count_differing_from_source(regclass, scd2_internal.flow) IS 'How many images of rows a source and the open rows of its target do not share';

-- The NOTICE about a target that is made of what was read once and of nothing else; NULL: it is as its sources are now.
CREATE FUNCTION scd2_internal.compare_with_what_is_there(target regclass, first scd2_internal.flow) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    beside  oid;
    differs bigint;
BEGIN
    IF first.kind = 'snapshot' THEN
        differs := scd2_internal.count_differing_from_source(target, first);
        IF differs = 0 THEN
            RETURN CASE first.scd_type WHEN 2 THEN format('rows of "%s" that have ended are not compared: flow "%s" took snapshots, of which its source shows the last', target, first.name) END;
        END IF;
    ELSE
        beside := scd2_internal.rebuild_beside(target, first);
        SELECT count(*) INTO differs FROM scd2_internal.findings(target, scd2_internal.difference_query(target, beside, scd2_internal.target_columns_kept(target), first, NULL));
        PERFORM scd2_internal.forget_beside(beside);
        IF differs = 0 THEN
            RETURN NULL;
        END IF;
    END IF;
    RETURN format('rows of "%s" are not what its sources show now (%s images differ): they were changed, or the sources were since they were read', target, differs);
END $$;
COMMENT ON FUNCTION scd2_internal.compare_with_what_is_there(regclass, scd2_internal.flow) IS
    'What can be said of a target whose sources were read once, and may have changed since';

-- Flows that ran once, or one over complete snapshots, all by themselves: then what the target must hold follows from what their sources were.
CREATE FUNCTION scd2_internal.is_made_of_what_was_there(target regclass) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(bool_and(f.once AND f.input = 'events' AND s.phase = 'done' AND f.purged_before IS NULL AND NOT (s.rejected > 0 OR s.too_late > 0)), false)
               AND NOT EXISTS (SELECT FROM scd2_internal.mark AS m WHERE m.target_relid = target AND m.kind <> 'truncate')
           OR count(*) = 1 AND coalesce(bool_and(f.kind = 'snapshot' AND f.delete_absent AND f.memory_relid IS NULL AND s.snapshot_version IS NOT NULL), false)
    FROM scd2_internal.flow AS f JOIN scd2_internal.flow_state AS s USING (flow_id) JOIN pg_class AS c ON c.oid = f.source_relid WHERE f.target_relid = target
    HAVING count(*) = (SELECT count(*) FROM scd2_internal.flow AS f WHERE f.target_relid = target)
$$;
COMMENT ON FUNCTION scd2_internal.is_made_of_what_was_there(regclass) IS 'Whether a target can be compared with what its sources show now; NULL: a source is gone';

-- What can go wrong with sources that no longer tell is a NOTICE (a feed that was shortened since, a TRUNCATE); any
-- other error is one: nobody can say what the target must hold.
CREATE FUNCTION scd2_internal.compare_with_sources(target regclass, first scd2_internal.flow) RETURNS TABLE (problem text, key jsonb, detail text)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
    sources record;
    why     text;
    beside  oid;
BEGIN
    SELECT c.* INTO sources FROM scd2_internal.comparable_since(target) AS c;
    why := sources.why;
    IF why IS NOT NULL AND scd2_internal.is_made_of_what_was_there(target) THEN
        BEGIN
            why := scd2_internal.compare_with_what_is_there(target, first);
            IF why IS NOT NULL THEN
                RAISE NOTICE '%', why;
            END IF;
            RETURN;
        EXCEPTION WHEN syntax_error_or_access_rule_violation OR data_exception OR object_not_in_prerequisite_state THEN
            why := SQLERRM;
        END;
    ELSIF why IS NULL THEN
        PERFORM scd2_internal.wait_for_feeds(target);
        BEGIN
            beside := scd2_internal.rebuild_beside(target, first, since_version => sources.version, since => sources.at);
            RETURN QUERY SELECT d.* FROM scd2_internal.findings(target, scd2_internal.difference_query(target, beside, scd2_internal.target_columns_kept(target), first, sources.at)) AS d;
            PERFORM scd2_internal.forget_beside(beside);
        EXCEPTION WHEN object_not_in_prerequisite_state OR invalid_parameter_value THEN
            why := SQLERRM;
        END;
    END IF;
    IF why IS NOT NULL THEN
        RAISE NOTICE 'rows of "%" are not compared with its sources: %', target, why;
    ELSIF sources.version IS NOT NULL AND first.scd_type = 2 THEN
        RAISE NOTICE 'what rows of "%" say of the time before % is not compared with its source, which is not known before version %', target, sources.at, sources.version;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.compare_with_sources(regclass, scd2_internal.flow) IS 'The rows in which a target differs from what its sources say; a NOTICE of what they do not say any more';

CREATE FUNCTION scd2_internal.check_target(caller oid, target regclass) RETURNS TABLE (problem text, key jsonb, detail text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first scd2_internal.flow;
    query text;
BEGIN
    PERFORM scd2_internal.check_owner(caller, target) WHERE target IS NOT NULL;
    first := scd2_internal.first_flow(target);
    PERFORM scd2_internal.check_can_rebuild(target, 'check_target');
    PERFORM scd2_internal.lock_flow(f.flow_id) FROM scd2_internal.flow AS f WHERE f.target_relid = target ORDER BY f.flow_id;
    PERFORM scd2_internal.check_target_fits_flows(target);
    FOR query IN SELECT q FROM scd2_internal.check_queries(first, target) AS q UNION ALL SELECT scd2_internal.check_memory_query(first, target) LOOP
        CONTINUE WHEN query IS NULL;
        RETURN QUERY SELECT d.* FROM scd2_internal.findings(target, query) AS d;
    END LOOP;
    RETURN QUERY SELECT d.* FROM scd2_internal.compare_with_sources(target, first) AS d;
END $$;
COMMENT ON FUNCTION scd2_internal.check_target(oid, regclass) IS 'What scd2.check_target() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.check_target(target regclass) RETURNS TABLE (problem text, key jsonb, detail text)
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.check_target(regclass) IS
    'What is wrong with the rows of a target, no row if nothing is: NULL key, several rows (type 1), several open rows, end not after start, overlap, wrong current column, contradicting memory (an event is remembered that the rows deny), and missing or unexpected row where it differs from what its sources say '
    '(it is made again from them, as far as its flows have applied them, which takes about as long as a full refresh). At most a thousand of each. A NOTICE of what is not compared because the sources no longer tell; of sources that were read once, if they are not as the target says. Until the caller''s transaction ends, its flows wait. '
    'Errors: 42501 not the owner, 55000 not the target of a flow, 55P03 a batch does not end within pg_scd2.lock_timeout, 25001 the transaction has written a source or its snapshot is fixed.';
