-- 38_resync.sql: repairing a feed that has a gap (the worker's part: src/flow/resync.c).
--
-- What was missed cannot be read any more, but what came of it can be seen: a flow's target still shows the source as it
-- was before the gap. scd2.resync() leaves a control record; at its place, version R, the feed is captured again.
-- A worker then compares the target with the source as it was at R (table_at: the rows that a snapshot sees, with
-- what was captured after R undone), writes the differences into the feed as the changes of version R, and closes the
-- gap, in one transaction. So nobody waits, nothing is held back meanwhile, and a crash begins the comparison anew.
-- The flows go on through version R as through any other: rows that are as they were are in no difference and are not
-- touched.
--
-- A rewrite of the table that gives its rows values which the log does not show (35_feed_columns.sql) is repaired in
-- the same way, without being asked, from the end of the transaction that did it, if there is a target to compare
-- with: capture begins that with the gap, and goes on following the table's columns, so nothing has to be caught up.
--
-- Which target: one that a flow keeps alone, without a filter, from the feed's rows as they are; the one with most
-- columns. Where no target shows a column, what it was before the gap is not known: then readers are still
-- refused to cross the gap, which ends before R, and flows that need such a column fail and say what can be done.
-- Without any such target nothing can be compared: the feed goes on behind the gap. Flows over event tables need no
-- comparison then: they read the events that are there once more, and those that they have are duplicates.

-- The columns that are compared: those that source and feed have.
CREATE FUNCTION scd2_internal.resync_columns(f scd2_internal.feed)
    RETURNS TABLE (ordinal bigint, name name, type text, attnum smallint)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT w.ordinal, w.name, format_type(a.atttypid, a.atttypmod), a.attnum
    FROM scd2_internal.feed_columns(f.source_relid, f.except_columns) w
         JOIN pg_attribute a ON a.attrelid = f.feed_relid AND a.attname = w.name AND a.attnum > 5 AND NOT a.attisdropped
    WHERE w.ordinal > 0
$$;
COMMENT ON FUNCTION scd2_internal.resync_columns(scd2_internal.feed) IS
    'The columns of a source that its feed has, with their types in the feed';

CREATE FUNCTION scd2_internal.column_behind(f scd2_internal.feed) RETURNS name
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(scd2_internal.columns_pending(f.feed_id),
        (SELECT w.name FROM scd2_internal.feed_columns(f.source_relid, f.except_columns) w
             LEFT JOIN pg_attribute a ON a.attrelid = f.feed_relid AND a.attname = w.name AND a.attnum > 5 AND NOT a.attisdropped
         WHERE w.ordinal > 0 AND NOT coalesce(scd2_internal.takes_type(a.atttypid, a.atttypmod, w.type, w.typmod), false)
         ORDER BY w.ordinal LIMIT 1))
$$;
COMMENT ON FUNCTION scd2_internal.column_behind(scd2_internal.feed) IS
    'A column of a source that its feed has not followed yet; NULL: none';

CREATE FUNCTION scd2_internal.resync_obstacle(f scd2_internal.feed) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE
        WHEN NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = f.source_relid) THEN 'it was dropped'
        WHEN NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = f.feed_relid) THEN 'its feed was dropped'
        WHEN EXISTS (SELECT FROM scd2_internal.feed_columns(f.source_relid, f.except_columns) w GROUP BY w.name HAVING count(*) > 1)
            THEN 'a column of it has the name of a metadata column' END
$$;
COMMENT ON FUNCTION scd2_internal.resync_obstacle(scd2_internal.feed) IS
    'Why a table and its feed can never be compared; NULL: they can.';

-- Whether there is something to repair; a NOTICE if not.
CREATE FUNCTION scd2_internal.needs_resync(f scd2_internal.feed) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s scd2_internal.feed_state;
BEGIN
    SELECT x.* INTO s FROM scd2_internal.feed_state x WHERE x.feed_id = f.feed_id;
    IF s.resync_version IS NOT NULL
       OR EXISTS (SELECT FROM scd2_internal.control c WHERE c.kind IN ('resync', 'rewrite') AND c.feed_id = f.feed_id AND NOT c.settled) THEN
        RAISE NOTICE 'the change data feed of table "%" is being repaired already', scd2_internal.label(f.source_relid);
        RETURN false;
    ELSIF s.broken_at IS NULL THEN
        RAISE NOTICE 'the change data feed of table "%" has no gap that is open: nothing to repair', scd2_internal.label(f.source_relid);
        RETURN false;
    END IF;
    RETURN true;
END $$;
COMMENT ON FUNCTION scd2_internal.needs_resync(scd2_internal.feed) IS 'Whether a feed has a gap that nobody repairs yet; a NOTICE if not';

CREATE FUNCTION scd2.resync(source regclass) RETURNS void AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
CREATE FUNCTION scd2_internal.resync(caller oid, source regclass) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed;
BEGIN
    PERFORM scd2_internal.check_owner(caller, source);
    f := scd2_internal.require_feed_of(source);
    -- A statement that warned of a gap may not be captured yet, or its gap comes behind what waits to be written.
    IF pg_current_xact_id_if_assigned() IS NULL AND (SELECT s.broken_at IS NULL FROM scd2_internal.feed_state s WHERE s.feed_id = f.feed_id) THEN
        PERFORM scd2._wait_captured('1 min');
        PERFORM scd2_internal.wait_complete(f, scd2.latest_version())
            FROM scd2_internal.feed_backlog b WHERE b.feed_id = f.feed_id AND b.gap_version IS NOT NULL;
    END IF;
    IF NOT scd2_internal.needs_resync(f) THEN
        RETURN;
    END IF;
    IF scd2_internal.resync_obstacle(f) IS NOT NULL THEN
        PERFORM scd2_internal.refuse('55000',
            format('table "%s" cannot be compared with what its feed has: %s', scd2_internal.label(source), scd2_internal.resync_obstacle(f)),
            'The feed can only begin anew.', scd2_internal.repair_statement(f));
    ELSIF EXISTS (SELECT FROM scd2_internal.leaves(source) l JOIN pg_class c ON c.oid = l WHERE c.relpersistence = 'u') THEN
        PERFORM scd2_internal.refuse('55000',
            format('table "%s" is unlogged: its changes leave no trace in the log', scd2_internal.label(source)), NULL,
            format('ALTER TABLE %s SET LOGGED; SELECT scd2.resync(%L);', source, source));
    END IF;
    PERFORM scd2_internal.require_capture();
    PERFORM scd2_internal.lock_source(source, true);
    IF NOT scd2_internal.needs_resync(f) THEN           -- somebody was quicker
        RETURN;
    END IF;
    PERFORM scd2_internal.set_full_identity(f.feed_id, l) FROM scd2_internal.leaves(source) l;
    INSERT INTO scd2_internal.control (kind, feed_id, source_relid, feed_relid) VALUES ('resync', f.feed_id, f.source_relid, f.feed_relid);
END $$;
COMMENT ON FUNCTION scd2.resync(regclass) IS
    'Repairs a table''s change data feed that has a gap: from the caller''s commit on changes are captured again; right '
    'after it a worker compares the table with what a target had of it before the gap, writes the differences into the '
    'feed as one version, marked as reconstructed, and lets the flows go on (scd2.sync() waits for it). A NOTICE if there '
    'is nothing to repair. source: a table that you own. Waits until all changes are captured if no gap is known. Errors: 42501 not the owner, '
    '55000 no feed, no worker that captures, or it can only begin anew, 57014 no capture for a minute, 55P03 the table could not be locked for a moment.';
COMMENT ON FUNCTION scd2_internal.resync(oid, regclass) IS 'Privileged twin of scd2.resync.';

-- Flows whose targets show their source as it is, one target each.
CREATE FUNCTION scd2_internal.resync_candidates(f scd2_internal.feed)
    RETURNS TABLE (flow scd2_internal.flow, state scd2_internal.flow_state, known bigint)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT w, s, (SELECT count(*) FROM scd2_internal.resync_columns(f) c WHERE c.name = ANY (w.columns)) AS known
    FROM scd2_internal.flow w JOIN scd2_internal.flow_state s USING (flow_id) JOIN pg_class t ON t.oid = w.target_relid
         JOIN pg_class fc ON fc.oid = f.feed_relid
    WHERE w.feed_id = f.feed_id AND w.input IN ('net', 'changes') AND w.source_filter IS NULL AND NOT w.once AND w.ignores_null = '{}'
      AND (w.input = 'net' OR w.sequence_by IS NOT NULL AND w.apply_as_truncates IS DISTINCT FROM 'false')
      AND NOT EXISTS (SELECT FROM scd2_internal.flow o WHERE o.target_relid = w.target_relid AND o.flow_id <> w.flow_id)
      AND coalesce(s.failed_phase, s.phase) = 'apply'
      -- of these the target lacks something that the feed has
      AND NOT EXISTS (SELECT FROM scd2_internal.skipped_version k WHERE k.flow_id = w.flow_id) AND s.rejected = 0 AND s.too_late = 0
      AND (t.relowner = fc.relowner OR has_table_privilege(fc.relowner, t.oid, 'SELECT'))
    ORDER BY known DESC, w.input = 'net' DESC, w.flow_id
$$;
COMMENT ON FUNCTION scd2_internal.resync_candidates(scd2_internal.feed) IS
    'Flows over a feed whose targets show the source as of their watermarks, and how many of its columns; the best first';

-- Nobody waits for this repair and sees what became of it: so it needs a flow that runs. (One that is paused, or has
-- failed, may stand before the gap when it is asked for.) A flow that has not made its copy begins behind the repair.
CREATE FUNCTION scd2_internal.is_comparable(f scd2_internal.feed) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM scd2_internal.resync_candidates(f) c WHERE (c.state).phase = 'apply' AND NOT (c.flow).paused)
        OR EXISTS (SELECT FROM scd2_internal.flow w LEFT JOIN scd2_internal.flow_state s USING (flow_id)
                   WHERE w.feed_id = f.feed_id AND (s.flow_id IS NULL OR s.phase = 'copy' AND NOT s.rereads))
$$;
COMMENT ON FUNCTION scd2_internal.is_comparable(scd2_internal.feed) IS
    'Whether a repair of a feed that nobody asked for brings its flows on';

-- Called by capture, with the gap in the same transaction.
CREATE FUNCTION scd2_internal.begin_repair(id integer, version bigint, at timestamptz) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE scd2_internal.feed_state s SET state = 'running', resync_version = version, resync_timestamp = at,
        resync_failures = 0, resync_retry_at = NULL
        WHERE s.feed_id = id AND s.state = 'failed' AND s.broken_at IS NOT NULL
          AND (SELECT scd2_internal.is_comparable(f) FROM scd2_internal.feed f WHERE f.feed_id = id);
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION scd2_internal.begin_repair(integer, bigint, timestamptz) IS
    'Has a feed that got a gap by a rewrite be repaired from this version on; false: there is nothing to compare with';

-- Has the flow all that was captured before the gap?
CREATE FUNCTION scd2_internal.stands_before_gap(f scd2_internal.feed, state scd2_internal.flow_state, broken_at bigint) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT state.watermark_version >= broken_at - 1
        OR scd2_internal.as_owner(f.feed_relid, format('SELECT 1 FROM %s WHERE _commit_version > %s AND _commit_version < $1 LIMIT 1',
            f.feed_relid::regclass, state.watermark_version), broken_at) IS NULL
$$;
COMMENT ON FUNCTION scd2_internal.stands_before_gap(scd2_internal.feed, scd2_internal.flow_state, bigint) IS
    'Whether a flow has applied everything that its feed has before a gap';

-- Equality of keys: the image of a type that is not the server's own does it as well, and needs no operator's name.
CREATE FUNCTION scd2_internal.resync_condition(keys name[], target oid) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(format(CASE WHEN t.typnamespace = 'pg_catalog'::regnamespace OR t.typtype = 'e' THEN 'k.%1$I = n.%1$I'
        ELSE 'ROW(k.%1$I)::text COLLATE "C" = ROW(n.%1$I)::text COLLATE "C"' END, a.attname), ' AND ')
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = target AND a.attname = ANY (keys)
$$;
COMMENT ON FUNCTION scd2_internal.resync_condition(name[], oid) IS 'The condition under which a row of a target and one of its source are of one key';

-- What the target has in columns that were the source's until their type changed; the source has nothing there.
CREATE FUNCTION scd2_internal.former_columns(f scd2_internal.feed, w scd2_internal.flow)
    RETURNS TABLE (ordinal bigint, name name, type text, attnum smallint)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT 10000::bigint + c.attnum, c.name, c.type, c.attnum
    FROM scd2_internal.followed_columns(f.feed_id) c
    WHERE c.until IS NOT NULL AND c.name = ANY (w.columns) AND c.name <> ALL (w.absent)
$$;
COMMENT ON FUNCTION scd2_internal.former_columns(scd2_internal.feed, scd2_internal.flow) IS
    'Columns of a feed that a target has too, and that are kept of ones whose type changed';

-- Columns that the target lacks are taken to be as they are.
CREATE FUNCTION scd2_internal.resync_statement(f scd2_internal.feed, w scd2_internal.flow, s scd2_internal.feed_state) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH c AS (
        SELECT r.*, r.name = ANY (w.columns) AS known, false AS former FROM scd2_internal.resync_columns(f) r
        UNION ALL SELECT r.*, true, true FROM scd2_internal.former_columns(f, w) r),
    t AS (
        SELECT string_agg(format('%I', c.name), ', ' ORDER BY c.ordinal) AS names,
               string_agg(format(CASE WHEN c.former THEN 'NULL::%2$s AS %1$I' ELSE 'n.%1$I::%2$s AS %1$I' END, c.name, c.type), ', ' ORDER BY c.ordinal) AS now,
               string_agg(format('k.%1$I::%2$s AS %1$I', c.name, c.type), ', ' ORDER BY c.ordinal) FILTER (WHERE c.known) AS then_known,
               string_agg(format('n.%I', c.name), ', ' ORDER BY c.ordinal) AS new_image,
               string_agg(CASE WHEN c.known THEN format('k.%I', c.name) ELSE format('n.%I', c.name) END, ', ' ORDER BY c.ordinal) AS old_image,
               string_agg(format('k.%I', c.name), ', ' ORDER BY c.ordinal) FILTER (WHERE c.known) AS known_old,
               string_agg(format('n.%I', c.name), ', ' ORDER BY c.ordinal) FILTER (WHERE c.known) AS known_new,
               (SELECT quote_ident(k) FROM unnest(w.keys) k LIMIT 1) AS one_key
        FROM c)
    SELECT format($query$
        INSERT INTO %1$s (_change_type, _commit_version, _commit_timestamp, _change_ordinal, _xid, %2$s)
        SELECT d._change_type, %3$s, %4$L::timestamptz, (row_number() OVER ())::integer, pg_current_xact_id(), %2$s
        FROM (SELECT v.* FROM (SELECT %5$s FROM ONLY %6$s k %7$s) k
              FULL JOIN (SELECT %8$s FROM scd2.table_at(NULL::%9$s, %3$s) n) n ON %10$s
              CROSS JOIN LATERAL (
                  SELECT CASE WHEN n.%11$s IS NULL THEN 'delete' ELSE 'update_preimage' END AS _change_type, %12$s WHERE k.%11$s IS NOT NULL
                  UNION ALL
                  SELECT CASE WHEN k.%11$s IS NULL THEN 'insert' ELSE 'update_postimage' END, %13$s WHERE n.%11$s IS NOT NULL) v
              WHERE k.%11$s IS NULL OR n.%11$s IS NULL OR record_image_ne(ROW(%14$s), ROW(%15$s))) d $query$,
        f.feed_relid::regclass, t.names, s.resync_version, s.resync_timestamp, t.then_known, w.target_relid::regclass,
        CASE w.scd_type WHEN 2 THEN format('WHERE k.%I IS NULL', w.end_column) ELSE '' END,
        t.now, f.source_relid::regclass, scd2_internal.resync_condition(w.keys, w.target_relid), t.one_key,
        t.old_image, t.new_image, t.known_old, t.known_new)
    FROM t
$$;
COMMENT ON FUNCTION scd2_internal.resync_statement(scd2_internal.feed, scd2_internal.flow, scd2_internal.feed_state) IS
    'The statement that writes the differences between a target and the source as the changes of the version of the repair';

-- A flow that goes through the repair and only then gets a column of the feed would never have what it was told there.
CREATE FUNCTION scd2_internal.columns_to_follow(w scd2_internal.flow) RETURNS name[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(c.name), '{}') FROM scd2_internal.followed_columns(w.feed_id) c
    WHERE NOT c.dropped AND c.attnum <> ALL (w.known_attnums) AND scd2_internal.takes_column(w, c.name)
$$;
COMMENT ON FUNCTION scd2_internal.columns_to_follow(scd2_internal.flow) IS
    'Columns that came to a flow''s feed and will come to its target before its next batch';

CREATE FUNCTION scd2_internal.flows_will_follow(id integer) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM scd2_internal.flow w JOIN scd2_internal.flow_state s USING (flow_id)
                       LEFT JOIN scd2_internal.feed_layout l ON l.feed_id = w.feed_id
                   WHERE w.feed_id = id AND s.phase = 'apply' AND NOT w.paused
                     AND w.known_changes IS DISTINCT FROM coalesce(l.changes, 0))
$$;
COMMENT ON FUNCTION scd2_internal.flows_will_follow(integer) IS
    'Whether flows over a feed are about to follow columns that changed';

-- What a worker does next about a feed that is being repaired. "wait": not yet; "remove" takes what capture wrote of
-- the gap's versions, "statement" (NULL: nothing can be compared) writes the differences.
CREATE FUNCTION scd2_internal.resync_plan(id integer, OUT wait boolean, OUT owner oid, OUT remove text, OUT statement text,
    OUT whole boolean, OUT known name[], OUT truncated bigint)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed;
    s scd2_internal.feed_state;
    chosen record;
    behind name;
BEGIN
    SELECT x.* INTO f FROM scd2_internal.feed x WHERE x.feed_id = id;
    SELECT x.* INTO s FROM scd2_internal.feed_state x WHERE x.feed_id = id;
    wait := true;
    IF f.feed_id IS NULL OR f.disabled OR s.resync_version IS NULL THEN
        RETURN;
    END IF;
    IF scd2_internal.feed_complete(id) < s.resync_version THEN       -- what came before waits to be written
        RETURN;
    END IF;
    behind := scd2_internal.column_behind(f);
    IF behind IS NOT NULL THEN              -- capture has not followed the source's columns yet
        IF clock_timestamp() > s.resync_timestamp + interval '1 minute'
           AND NOT EXISTS (SELECT FROM scd2_internal.control c WHERE c.feed_id = id AND NOT c.settled) THEN
            PERFORM scd2_internal.refuse('55000', format('column "%s" of table "%s" is not in its feed as it is', behind, scd2_internal.label(f.source_relid)));
        END IF;
        RETURN;
    ELSIF scd2_internal.flows_will_follow(id) THEN
        RETURN;
    END IF;
    FOR chosen IN SELECT c.* FROM scd2_internal.resync_candidates(f) c WHERE NOT scd2_internal.has_retyped((c.flow)) LOOP
        IF scd2_internal.stands_before_gap(f, chosen.state, s.broken_at) THEN
            EXIT;
        ELSIF (chosen.state).phase = 'apply' AND NOT (chosen.flow).paused AND (chosen.state).failures = 0 THEN
            RETURN;         -- it will soon
        END IF;
        chosen := NULL;
    END LOOP;
    wait := false;
    owner := (SELECT c.relowner FROM pg_class c WHERE c.oid = f.feed_relid);
    remove := format('DELETE FROM %s WHERE _commit_version >= %s AND _commit_version <= %s', f.feed_relid::regclass, s.broken_at, s.resync_version);
    truncated := scd2_internal.as_owner(f.feed_relid,
        format('SELECT max(_commit_version) FROM %s WHERE _commit_version > $1 AND _change_type = ''truncate''', f.feed_relid::regclass),
        s.resync_version);
    whole := false;
    IF chosen.flow IS NULL OR truncated IS NOT NULL THEN
        RETURN;
    END IF;
    known := (chosen.flow).columns;
    whole := NOT EXISTS (SELECT FROM scd2_internal.resync_columns(f) c WHERE c.name <> ALL (known));
    statement := scd2_internal.resync_statement(f, chosen.flow, s);
    -- Within this transaction, so that the source can be seen as of the repair.
    UPDATE scd2_internal.feed_state x SET gap = int8range(lower(x.gap), x.resync_version) WHERE x.feed_id = id;
END $$;
COMMENT ON FUNCTION scd2_internal.resync_plan(integer) IS 'Part of the repair of a feed, in a worker: what is to be done now';

-- Flows that could not get what they missed.
CREATE FUNCTION scd2_internal.fail_unserved(f scd2_internal.feed, s scd2_internal.feed_state, known name[]) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE scd2_internal.flow_state x
    SET phase = 'failed', failed_phase = 'apply', watermark_version = s.resync_version, watermark_timestamp = s.resync_timestamp,
        last_error = format('55000: the changes of versions %s to %s are missing, and no target shows what they were. '
            'Remedy: SELECT scd2.full_refresh(%L, allow_loss => true); -- or go on without them: SELECT scd2.resume_flow(%L);',
            x.watermark_version + 1, s.resync_version, w.target_relid::regclass, w.name),
        last_error_at = clock_timestamp()
    FROM scd2_internal.flow w
    WHERE w.flow_id = x.flow_id AND w.feed_id = f.feed_id AND x.phase <> 'done' AND coalesce(x.failed_phase, x.phase) = 'apply'
      AND w.input <> 'events'
      AND NOT CASE w.input WHEN 'net' THEN w.source_filter IS NULL AND w.columns || scd2_internal.columns_to_follow(w) <@ coalesce(known, '{}')
                           WHEN 'changes' THEN false
                           ELSE known IS NOT NULL END       -- rows that came are known by their keys alone
      AND NOT scd2_internal.has_retyped_key(w)      -- which will never get on, and says why
$$;
COMMENT ON FUNCTION scd2_internal.fail_unserved(scd2_internal.feed, scd2_internal.feed_state, name[]) IS
    'Has the flows fail that need more of a repaired feed than the columns that were known, with the remedy';

-- The differences are written. A flow that had not made its copy begins behind the gap.
CREATE FUNCTION scd2_internal.resync_done(id integer, whole boolean, known name[], truncated bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed;
    s scd2_internal.feed_state;
BEGIN
    SELECT x.* INTO f FROM scd2_internal.feed x WHERE x.feed_id = id;
    SELECT x.* INTO s FROM scd2_internal.feed_state x WHERE x.feed_id = id;
    IF NOT whole AND truncated IS NULL THEN
        PERFORM scd2_internal.fail_unserved(f, s, known);
    END IF;
    UPDATE scd2_internal.flow_state x
    SET begin_version = s.resync_version, begin_timestamp = s.resync_timestamp, watermark_version = s.resync_version, watermark_timestamp = s.resync_timestamp,
        phase = 'copy', failed_phase = NULL, failures = 0, retry_at = NULL
    FROM scd2_internal.flow w
    WHERE w.flow_id = x.flow_id AND w.feed_id = id AND coalesce(x.failed_phase, x.phase) = 'copy' AND x.begin_version < s.resync_version;
    IF known IS NULL AND truncated IS NULL THEN
        UPDATE scd2_internal.flow_state x SET phase = 'copy', rereads = true, failed_phase = NULL, failures = 0, retry_at = NULL
        FROM scd2_internal.flow w
        WHERE w.flow_id = x.flow_id AND w.feed_id = id AND w.input = 'events' AND coalesce(x.failed_phase, x.phase) = 'apply';
    END IF;
    INSERT INTO scd2_internal.reconstruction (feed_id, version, commit_time, xid, gap, whole)
    SELECT id, s.resync_version, s.resync_timestamp, pg_current_xact_id(), int8range(s.broken_at, s.resync_version), resync_done.whole
    WHERE known IS NOT NULL;
    UPDATE scd2_internal.feed_state x
    SET gap = CASE WHEN NOT resync_done.whole THEN int8range(lower(x.gap), coalesce(truncated, x.resync_version))
                   WHEN lower(x.gap) < x.broken_at THEN int8range(lower(x.gap), x.broken_at) END,
        broken_at = NULL, repaired_version = x.resync_version, resync_version = NULL, catches_up = false, resync_failures = 0, resync_retry_at = NULL,
        error = NULL, error_at = NULL
    WHERE x.feed_id = id;
END $$;
COMMENT ON FUNCTION scd2_internal.resync_done(integer, boolean, name[], bigint) IS 'Part of the repair of a feed, in a worker: closes the gap and lets the flows go on';

CREATE FUNCTION scd2_internal.resync_failed(id integer, why text, counts boolean) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE scd2_internal.feed_state x
    SET resync_failures = x.resync_failures + CASE WHEN counts THEN 1 ELSE 0 END,
        resync_retry_at = clock_timestamp() + make_interval(secs => least(60, 2 ^ least(x.resync_failures, 6))),
        state = CASE WHEN counts AND x.resync_failures >= 4 THEN 'failed' ELSE x.state END,
        resync_version = CASE WHEN counts AND x.resync_failures >= 4 THEN NULL ELSE x.resync_version END,
        error = format('it could not be repaired: %s', why), error_at = clock_timestamp()
    WHERE x.feed_id = id AND x.resync_version IS NOT NULL
$$;
COMMENT ON FUNCTION scd2_internal.resync_failed(integer, text, boolean) IS
    'Part of the repair of a feed, in a worker: records an error and when to try again; gives up after five that count';

CREATE FUNCTION scd2._reconstructions(relation regclass) RETURNS TABLE (version bigint, "timestamp" timestamptz, xid xid8, gap int8range)
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STABLE;
CREATE FUNCTION scd2_internal._reconstructions(caller oid, relation regclass)
    RETURNS TABLE (version bigint, "timestamp" timestamptz, xid xid8, gap int8range)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    f scd2_internal.feed := scd2_internal.readable_feed(caller, relation);
BEGIN
    RETURN QUERY SELECT r.version, r.commit_time, r.xid, r.gap FROM scd2_internal.reconstruction r WHERE r.feed_id = f.feed_id;
END $$;
COMMENT ON FUNCTION scd2._reconstructions(regclass) IS
    'Part of describe_history and table_at: the versions of a feed that repairs brought. Errors: 55000 no feed, 42501 no right to read it.';
