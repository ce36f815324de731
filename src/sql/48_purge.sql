-- 48_purge.sql: purge_history(): versions that ended before a point leave their target.
--
-- From then on the point is the target's horizon (src/flow/purge.c says why): flow.purged_before of each flow that is
-- there, and a mark behind which later ones come. It is never above what the target has seen: an event that is later
-- than all others is not too late, whatever somebody typed. Nor above what a captured table or a source of snapshots
-- that shares the target has brought: what comes from there is always accepted.
--
-- In the caller's transaction: horizon, memory, and the rows of a target of up to pg_scd2.debug_purge_size. Its flows
-- wait until the transaction ends, so a larger one is left to the worker that looks after feeds (src/feed/upkeep.c),
-- so many pages in each transaction. Whoever reads is never in the way, nor is he hindered. Horizon first: a crash
-- leaves rows that the worker will remove, never a target that would take what was removed.

CREATE FUNCTION scd2_internal.sequence_point(flow_id integer, point text) RETURNS text
    AS 'MODULE_PATHNAME', 'scd2_sequence_point' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.sequence_point(integer, text) IS
    'A value of the sequence of a flow''s target, given in the caller''s settings, in the text form of the '
    'catalogs. Errors: what the type says of it, 22023 NaN or a NULL field.';

CREATE FUNCTION scd2_internal.purge_rows(flow_id integer, before text, first_block bigint, last_block bigint,
    horizon boolean) RETURNS bigint
    AS 'MODULE_PATHNAME', 'scd2_purge_rows' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.purge_rows(integer, text, bigint, bigint, boolean) IS
    'Removes the versions of a flow''s target that ended before a point, of pages from first_block up to, not '
    'including, last_block; horizon: and what is remembered below it. Returns how many rows.';

CREATE FUNCTION scd2_internal.check_can_purge(target regclass) RETURNS scd2_internal.flow
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first scd2_internal.flow := scd2_internal.first_flow(target);
BEGIN
    IF first.kind = 'append' THEN
        PERFORM scd2_internal.refuse('22023', format('"%s" has no closed versions: rows are appended to it', target));
    ELSIF first.scd_type <> 2 THEN
        PERFORM scd2_internal.refuse('22023', format('"%s" has no closed versions: it is of SCD type 1', target),
            'It has the current row of each key; what is remembered of deleted ones is bounded by max_lateness.');
    END IF;
    RETURN first;
END $$;
COMMENT ON FUNCTION scd2_internal.check_can_purge(regclass) IS
    'The first flow of a target that has closed versions. Errors: 55000 not the target of a flow, 22023 SCD type '
    '1 or appended to.';

-- Of flows whose events come in order by construction nothing can be too late. The text form needs these settings.
CREATE FUNCTION scd2_internal.purge_horizon(first scd2_internal.flow, before text) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET TimeZone = 'UTC' SET DateStyle = 'ISO, YMD'
        SET IntervalStyle = 'postgres' SET bytea_output = 'hex' SET extra_float_digits = 1 AS $$
DECLARE
    bounds text;
BEGIN
    IF first.input = 'net' THEN             -- no row of such a flow ends later than now
        RETURN least(before::timestamptz, clock_timestamp())::text;
    ELSIF first.memory_relid IS NULL THEN
        RETURN before;
    END IF;
    SELECT string_agg(format(', %L::%s',
            CASE WHEN f.closes THEN s.watermark_timestamp::text ELSE s.snapshot_version END, first.sequence_type), '')
        INTO bounds
        FROM scd2_internal.flow AS f JOIN scd2_internal.flow_state AS s USING (flow_id)
        WHERE f.target_relid = first.target_relid AND NOT f.once
            AND (f.closes OR f.kind = 'snapshot' AND s.snapshot_version IS NOT NULL);
    RETURN scd2_internal.as_owner(first.target_relid, format(
        'SELECT LEAST(%1$L::%2$s, seen.s%6$s)::text '
        'FROM (SELECT q.s FROM (SELECT t.%3$I AS s FROM ONLY %5$s AS t '
        'UNION ALL SELECT t.%4$I FROM ONLY %5$s AS t WHERE NOT t.%4$I IS NULL) AS q ORDER BY q.s DESC LIMIT 1) AS seen',
        before, first.sequence_type, first.start_column, first.end_column, first.target_relid::regclass, bounds), 0);
END $$;
COMMENT ON FUNCTION scd2_internal.purge_horizon(scd2_internal.flow, text) IS
    'Before what versions are removed if somebody asks for "before": not above what the target has seen, nor '
    'what flows whose events must never be too late have brought. NULL: it has seen nothing.';

CREATE FUNCTION scd2_internal.count_ended(first scd2_internal.flow, before text) RETURNS bigint
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.as_owner(first.target_relid, format('SELECT count(*) FROM ONLY %s AS t WHERE t.%I %s %L::%s',
        first.target_relid::regclass, first.end_column,
        scd2_internal.order_operator(first.sequence_type::regtype, 1), before, first.sequence_type), 0)::bigint
$$;
COMMENT ON FUNCTION scd2_internal.count_ended(scd2_internal.flow, text) IS 'How many versions of a target ended before a point.';

-- Values of the type are compared as the owner, whose type it may be.
CREATE FUNCTION scd2_internal.raise_horizon(first scd2_internal.flow, horizon text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    below CONSTANT text := format('%s %L::%s',
        scd2_internal.order_operator(first.sequence_type::regtype, 1), horizon, first.sequence_type);
    passed bigint[];
BEGIN
    IF first.purged_before IS NOT NULL
       AND NOT scd2_internal.as_owner(first.target_relid,
           format('SELECT %L::%s %s', first.purged_before, first.sequence_type, below), 0)::boolean THEN
        RETURN;
    END IF;
    UPDATE scd2_internal.flow AS f SET purged_before = horizon, definition = f.definition + 1
        WHERE f.target_relid = first.target_relid;
    PERFORM scd2_internal.wake_apply_at_commit();
    IF first.memory_relid IS NULL THEN
        RETURN;
    END IF;
    passed := scd2_internal.as_owner(first.target_relid,
        (SELECT format('SELECT array_agg(u.id) FROM unnest(%L::bigint[], %L::text[]) AS u (id, s) WHERE u.s::%s %s',
            array_agg(m.mark_id), array_agg(m.sequence), first.sequence_type, below)
         FROM scd2_internal.mark AS m WHERE m.target_relid = first.target_relid), 0)::bigint[];
    DELETE FROM scd2_internal.mark AS m WHERE m.target_relid = first.target_relid AND m.mark_id = ANY (passed);
    INSERT INTO scd2_internal.mark (target_schema, target_name, target_relid, sequence, kind)
        VALUES (first.target_schema, first.target_name, first.target_relid, horizon, 'horizon');
END $$;
COMMENT ON FUNCTION scd2_internal.raise_horizon(scd2_internal.flow, text) IS
    'Events below the point are too late for the flows into a target from now on, those that come later come '
    'behind a mark there, and marks below it are forgotten. It never sinks.';

-- Under the locks of all flows into it, and of the target itself: nobody writes it, or reads its marks.
CREATE FUNCTION scd2_internal.lock_flows_to_purge(target regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    beginning name;
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        PERFORM scd2_internal.refuse('25001', 'purge_history cannot run in a transaction whose snapshot is fixed',
            'It must see what flows have applied until now.', 'ROLLBACK; BEGIN ISOLATION LEVEL READ COMMITTED;');
    END IF;
    PERFORM scd2_internal.lock_flow(f.flow_id) FROM scd2_internal.flow AS f WHERE f.target_relid = target
        ORDER BY f.flow_id;
    PERFORM scd2_internal.lock_target(target);
    SELECT f.name INTO beginning FROM scd2_internal.flow AS f LEFT JOIN scd2_internal.flow_state AS s USING (flow_id)
        WHERE f.target_relid = target AND coalesce(coalesce(s.failed_phase, s.phase) = 'copy', f.kind <> 'snapshot')
        ORDER BY f.flow_id LIMIT 1;
    IF FOUND THEN
        PERFORM scd2_internal.refuse('55000', format('flow "%s" has not made its first copy', beginning),
            hint => 'SELECT scd2.sync();');
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.lock_flows_to_purge(regclass) IS
    'Keeps workers from a target until the transaction ends. Errors: 55P03 a batch does not end within '
    'pg_scd2.lock_timeout, 55000 a flow that has not begun, 25001 the transaction''s snapshot is fixed.';

CREATE FUNCTION scd2_internal.not_below_pending(first scd2_internal.flow, horizon text) RETURNS text
    LANGUAGE sql SET search_path = pg_catalog, pg_temp SET TimeZone = 'UTC' SET DateStyle = 'ISO, YMD'
        SET IntervalStyle = 'postgres' SET bytea_output = 'hex' SET extra_float_digits = 1 AS $$
    SELECT coalesce((SELECT scd2_internal.as_owner(first.target_relid, format('SELECT GREATEST(%L::%s, %L::%2$s)::text',
        horizon, first.sequence_type, p.before), 0)
        FROM scd2_internal.purge AS p WHERE p.target_relid = first.target_relid), horizon)
$$;
COMMENT ON FUNCTION scd2_internal.not_below_pending(scd2_internal.flow, text) IS
    'A point, or that up to which a worker still removes versions: who asks for less does not call that off';

CREATE FUNCTION scd2_internal.purge_history(caller oid, target regclass, older_than text, dry_run boolean) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    first   scd2_internal.flow;
    before  text;
    horizon text;
    ended   bigint;
BEGIN
    PERFORM scd2_internal.check_owner(caller, target) WHERE target IS NOT NULL;
    first := scd2_internal.check_can_purge(target);
    IF older_than IS NULL THEN
        PERFORM scd2_internal.refuse('22004', 'older_than must not be NULL');
    END IF;
    before := scd2_internal.sequence_point(first.flow_id, older_than);
    -- What takes long comes before the locks: what the target has seen only grows.
    horizon := scd2_internal.purge_horizon(first, before);
    IF horizon IS NULL THEN
        RETURN 0;
    END IF;
    ended := scd2_internal.count_ended(first, horizon);
    IF coalesce(dry_run, false) THEN
        RETURN ended;
    END IF;
    PERFORM scd2_internal.lock_flows_to_purge(target);
    first := scd2_internal.check_can_purge(target);
    horizon := scd2_internal.not_below_pending(first, horizon);
    PERFORM scd2_internal.raise_horizon(first, horizon);
    DELETE FROM scd2_internal.purge AS p WHERE p.target_relid = target;
    IF pg_relation_size(target) <= pg_size_bytes(current_setting('pg_scd2.debug_purge_size')) THEN
        ended := scd2_internal.purge_rows(first.flow_id, horizon, 0, 4294967294, true);
    ELSE
        PERFORM scd2_internal.purge_rows(first.flow_id, horizon, 0, 0, true);
        INSERT INTO scd2_internal.purge (target_relid, before, storage, rows_estimated)
            VALUES (target, horizon, pg_relation_filenode(target), ended);
    END IF;
    RETURN ended;
END $$;
COMMENT ON FUNCTION scd2_internal.purge_history(oid, regclass, text, boolean) IS
    'What scd2.purge_history() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.purge_history(target regclass, older_than text, dry_run boolean DEFAULT false) RETURNS bigint
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.purge_history(regclass, text, boolean) IS
    'Removes the versions of an SCD type 2 target that ended before a point, and returns how many: at once, or, '
    'of a large target, by a worker after the commit (scd2.progress). older_than: in the type of the target''s '
    'sequence. dry_run: only counted. '
    'Rows that are open, or ended at the point or later, stay. Events below it are too late from then on, and '
    'what is remembered of such is forgotten. Flows into the target wait until the transaction ends. '
    'Errors: 42501 not the owner, 55000 not the target of a flow, or one that has not made its first copy, 22023 '
    'SCD type 1 or appended to, 22004 NULL, 55P03 a batch does not end within pg_scd2.lock_timeout, 25001 the '
    'transaction''s snapshot is fixed.';

CREATE FUNCTION scd2.purge_history(target regclass, older_than anyelement, dry_run boolean DEFAULT false) RETURNS bigint
    LANGUAGE sql SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres'
        SET extra_float_digits = 1 AS $$
    SELECT scd2.purge_history($1, $2::text, $3)
$$;
COMMENT ON FUNCTION scd2.purge_history(regclass, anyelement, boolean) IS
    'The same with a point of any type: purge_history(''t_history'', now() - interval ''1 year''). Arguments and errors as there.';

-- By the worker. Nobody changes rows that ended below the horizon; flows that begin could fill in such.
CREATE FUNCTION scd2_internal.purge_some(target oid) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    p     scd2_internal.purge;
    f     scd2_internal.flow;
    pages CONSTANT bigint :=
        pg_size_bytes(current_setting('pg_scd2.debug_purge_size')) / current_setting('block_size')::bigint;
    ended bigint;
BEGIN
    SELECT x.* INTO p FROM scd2_internal.purge AS x WHERE x.target_relid = target FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    SELECT x.* INTO f FROM scd2_internal.flow AS x JOIN pg_class AS c ON c.oid = x.target_relid
        WHERE x.target_relid = target ORDER BY x.flow_id LIMIT 1;
    IF NOT FOUND THEN                       -- an ordinary table now, or gone
        DELETE FROM scd2_internal.purge AS x WHERE x.target_relid = target;
        RETURN false;
    ELSIF EXISTS (SELECT FROM scd2_internal.flow AS x JOIN scd2_internal.flow_state AS s USING (flow_id)
                  WHERE x.target_relid = target AND coalesce(s.failed_phase, s.phase) = 'copy') THEN
        RETURN false;
    END IF;
    IF p.storage <> pg_relation_filenode(target) THEN
        p.next_block := 0;
    END IF;
    ended := scd2_internal.purge_rows(f.flow_id, p.before, p.next_block, p.next_block + pages, false);
    IF (p.next_block + pages) * current_setting('block_size')::bigint >= pg_relation_size(target) THEN
        DELETE FROM scd2_internal.purge AS x WHERE x.target_relid = target;
        RETURN false;
    END IF;
    UPDATE scd2_internal.purge AS x SET next_block = p.next_block + pages, rows_done = x.rows_done + ended,
            last_error = NULL, storage = pg_relation_filenode(target)
        WHERE x.target_relid = target;
    RETURN true;
END $$;
COMMENT ON FUNCTION scd2_internal.purge_some(oid) IS
    'Removes the next versions of a target that purge_history() left to be removed. Returns whether there is '
    'more to do now.';

-- What sources still have comes back with a full refresh: they are asked anew.
CREATE FUNCTION scd2_internal.forget_purge(target regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before text := (SELECT f.purged_before FROM scd2_internal.flow AS f
                    WHERE f.target_relid = target AND f.purged_before IS NOT NULL ORDER BY f.flow_id LIMIT 1);
BEGIN
    IF before IS NOT NULL THEN
        RAISE NOTICE 'versions of "%" that were purged will be there again, as far as its sources have them', target
            USING HINT = format('SELECT scd2.purge_history(%L, %L); -- when the refresh is done', target::text, before);
    END IF;
    UPDATE scd2_internal.flow AS f SET purged_before = NULL, definition = f.definition + 1
        WHERE f.target_relid = target AND f.purged_before IS NOT NULL;
    DELETE FROM scd2_internal.purge AS p WHERE p.target_relid = target;
END $$;
COMMENT ON FUNCTION scd2_internal.forget_purge(regclass) IS
    'Part of full_refresh: nothing is too late any more; a NOTICE says how to purge again.';
