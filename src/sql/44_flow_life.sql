-- 44_flow_life.sql: pausing, resuming, altering, dropping a flow, and building its target anew.

CREATE FUNCTION scd2_internal.pause_flow(caller oid, name name) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    named scd2_internal.flow := scd2_internal.own_flow(caller, name);
BEGIN
    UPDATE scd2_internal.flow AS f SET paused = true WHERE f.flow_id = named.flow_id AND NOT f.paused;
END $$;

COMMENT ON FUNCTION scd2_internal.pause_flow(oid, name) IS
    'What scd2.pause_flow() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.pause_flow(name name) RETURNS void AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2.pause_flow(name) IS
    'Stops a flow after its current batch, until resume_flow(). 42704 no such flow, 42501 not the owner of its target.';

CREATE FUNCTION scd2_internal.resume_flow(caller oid, name name) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    named scd2_internal.flow := scd2_internal.own_flow(caller, name);
BEGIN
    UPDATE scd2_internal.flow AS f SET paused = false WHERE f.flow_id = named.flow_id AND f.paused;
    UPDATE scd2_internal.flow_state AS s SET phase = coalesce(s.failed_phase, s.phase), failed_phase = NULL,
        failures = 0, retry_at = NULL
        WHERE s.flow_id = named.flow_id AND (s.failures > 0 OR s.retry_at IS NOT NULL OR s.failed_phase IS NOT NULL);
    PERFORM scd2_internal.wake_apply_at_commit();
END $$;

COMMENT ON FUNCTION scd2_internal.resume_flow(oid, name) IS
    'What scd2.resume_flow() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.resume_flow(name name) RETURNS void AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2.resume_flow(name) IS
    'Has a paused or failed flow go on where it stopped. 42704 no such flow, 42501 not the owner of its target.';

-- A version that a flow cannot apply is left out, and the flow goes on (src/flow/apply.c).
CREATE FUNCTION scd2_internal.skip_version(caller oid, flow name, version bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    named  scd2_internal.flow := scd2_internal.own_flow(caller, flow);
    state  scd2_internal.flow_state;
    latest bigint;
BEGIN
    PERFORM scd2_internal.lock_flow(named.flow_id);
    SELECT s.* INTO state FROM scd2_internal.flow_state AS s WHERE s.flow_id = named.flow_id;
    SELECT p.version INTO latest FROM scd2_internal.position AS p;
    IF named.feed_id IS NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('flow "%s" does not apply versions of a feed', flow);
    ELSIF coalesce(state.failed_phase, state.phase) IS DISTINCT FROM 'apply' THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('flow "%s" has not made its first copy', flow),
            DETAIL = 'That has rows as they are, of no version.';
    ELSIF version <= state.watermark_version THEN
        RAISE invalid_parameter_value USING MESSAGE = format('flow "%s" has applied version %s', flow, version),
            DETAIL = format('It stands at version %s.', state.watermark_version);
    ELSIF version > latest THEN
        RAISE invalid_parameter_value USING MESSAGE = format('version %s is yet to come', version), DETAIL = format('The latest version is %s.', latest);
    END IF;
    INSERT INTO scd2_internal.skipped_version (flow_id, version, skipped_by) VALUES (named.flow_id, version, pg_get_userbyid(caller)) ON CONFLICT DO NOTHING;
    UPDATE scd2_internal.flow AS f SET definition = f.definition + 1 WHERE f.flow_id = named.flow_id;
    PERFORM scd2_internal.resume_flow(caller, flow) WHERE NOT named.paused;
END $$;
COMMENT ON FUNCTION scd2_internal.skip_version(oid, name, bigint) IS
    'What scd2.skip_version() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.skip_version(flow name, version bigint) RETURNS void AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2.skip_version(name, bigint) IS
    'Has a flow leave out a version of its feed that it has not applied, for good, and go on (unless it is paused). Its events are counted as skipped, and scd2.skipped_versions has it. 42704 no such flow, 42501 not the '
    'owner of its target, 55000 the flow has no feed, or has not made its first copy, 22023 a version that it has applied or that is yet to come, 55P03 the flow is at work.';

-- The expressions of a flow that is altered: "source_filter" and "apply_as_deletes" are what was given, "asked" has all
-- that will be.
CREATE FUNCTION scd2_internal.with_altered_expressions(asked scd2_internal.flow, source_filter text,
    apply_as_deletes text) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    reads   oid := asked.source_relid;
    checked record;
BEGIN
    IF asked.input = 'events' THEN
        SELECT e.* INTO checked FROM scd2_internal.check_event_expressions(asked, reads,
            CASE WHEN asked.feed_id IS NULL
                THEN (SELECT array_agg(a.attname) FROM pg_attribute AS a WHERE a.attrelid = reads AND a.attnum > 0
                AND NOT a.attisdropped)
                 ELSE scd2_internal.feed_columns(asked.feed_id) END) AS e;
        IF checked.sequence_type <> asked.sequence_type THEN
            RAISE datatype_mismatch USING MESSAGE = format('sequence_by is of type %s instead of %s',
                checked.sequence_type, asked.sequence_type);
        END IF;
    ELSIF asked.input = 'append' THEN
        PERFORM scd2_internal.check_append_filter(source_filter, asked.source_relid, asked.columns, asked.author);
    ELSIF asked.input = 'net' THEN
        SELECT f.feed_relid INTO reads FROM scd2_internal.feed AS f WHERE f.feed_id = asked.feed_id;
        PERFORM scd2_internal.check_image_expressions(asked, asked.source_relid, reads,
            scd2_internal.feed_columns(asked.feed_id));
    ELSE
        SELECT f.feed_relid INTO reads FROM scd2_internal.feed AS f WHERE f.feed_id = asked.feed_id;
        PERFORM scd2_internal.check_expression(e.text, reads, 'boolean'::regtype, e.argument, asked.author)
            FROM (VALUES ('source_filter', source_filter), ('apply_as_deletes', apply_as_deletes)) AS e (argument, text)
                WHERE e.text IS NOT NULL;
        IF apply_as_deletes IS NOT NULL AND NOT asked.closes THEN
            asked.apply_as_deletes := scd2_internal.changes_that_delete(apply_as_deletes);
        END IF;
    END IF;
    RETURN asked;
END $$;
COMMENT ON FUNCTION scd2_internal.with_altered_expressions(scd2_internal.flow, text, text) IS
    'Part of alter_flow: the flow as it will be; raises what is wrong with its expressions';

-- What some kinds of flows do not have.
CREATE FUNCTION scd2_internal.check_can_be_altered(asked scd2_internal.flow, apply_as_deletes text, sequence_by text,
    on_invalid_event text, max_lateness text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    IF asked.input = 'net' AND on_invalid_event IS NOT NULL THEN
        RAISE invalid_parameter_value
            USING MESSAGE = format('flow "%s" has no invalid events: its sequence is that of the commits', asked.name);
    END IF;
    IF asked.input = 'append' AND coalesce(apply_as_deletes, sequence_by, on_invalid_event) IS NOT NULL THEN
        RAISE invalid_parameter_value
            USING MESSAGE = format('flow "%s" appends: it has neither deletes nor a sequence, and no row is invalid',
            asked.name);
    END IF;
    IF asked.input <> 'events' AND sequence_by IS NOT NULL THEN
        RAISE feature_not_supported
            USING MESSAGE = format('sequence_by of flow "%s", which is over a feed, cannot be altered', asked.name),
            DETAIL = 'Rows that were applied by the old one are deleted by the new one.';
    END IF;
    IF asked.input = 'append' AND max_lateness IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = format('flow "%s" appends: nothing is too late', asked.name);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_can_be_altered(scd2_internal.flow, text, text, text, text) IS
    'Part of alter_flow: raises 22023 or 0A000 for what is not for this kind of flow';

CREATE FUNCTION scd2_internal.with_altered_sequence(asked scd2_internal.flow, sequence_by text)
    RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    IF sequence_by IS NOT NULL THEN
        IF asked.sequence_column IS DISTINCT FROM NULL AND asked.sequence_column <> sequence_by THEN
            RAISE object_not_in_prerequisite_state
                USING MESSAGE = format('flow "%s" remembers its sequence in column "%s"', asked.name, asked.sequence_column),
                DETAIL = 'Another sequence_by would not agree with what is there.';
        END IF;
        IF (SELECT f.names IS NOT NULL FROM scd2_internal.struct_fields(sequence_by) AS f) THEN
            RAISE feature_not_supported USING MESSAGE = 'sequence_by cannot become a struct',
                DETAIL = 'The interval columns have the type of the sequence.';
        END IF;
        asked.sequence_by := sequence_by;
    END IF;
    RETURN asked;
END $$;
COMMENT ON FUNCTION scd2_internal.with_altered_sequence(scd2_internal.flow, text) IS
    'Part of alter_flow: the flow with another sequence_by, NULL: as it is. Errors: 55000, 0A000';

-- A horizon that an event has raised far ahead would be there for good. What was forgotten below it stays forgotten.
CREATE FUNCTION scd2_internal.lower_horizon(asked scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    former text;
BEGIN
    PERFORM scd2_internal.lock_flow(asked.flow_id);
    SELECT s.horizon INTO former FROM scd2_internal.flow_state s WHERE s.flow_id = asked.flow_id;
    UPDATE scd2_internal.flow_state s SET highest = NULL, horizon = NULL WHERE s.flow_id = asked.flow_id AND s.highest IS NOT NULL;
    IF former IS NOT NULL AND asked.memory_relid IS NOT NULL THEN
        RAISE NOTICE 'flow "%" has no horizon before the next event: it was at %', asked.name, former
            USING DETAIL = 'Deletes below it that ended no row are forgotten: an older upsert that comes now has no end there.',
                HINT = format('SELECT scd2.full_refresh(%L); -- if the source still has all events', asked.target_relid::regclass);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.lower_horizon(scd2_internal.flow) IS
    'Part of alter_flow: the flow forgets the highest sequence that it has seen, with a NOTICE of what that means';

-- alter_flow: what the flow was declared with, from now on. NULL: as it is.
CREATE FUNCTION scd2_internal.alter_flow(caller oid, name name, source_filter text, apply_as_deletes text,
    sequence_by text, refresh_interval interval,
        on_invalid_event text, max_lateness text, trust boolean) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    asked scd2_internal.flow := scd2_internal.flow_to_change(caller, name);
BEGIN
    PERFORM scd2_internal.check_trust(caller, asked.author, trust);
    UPDATE scd2_internal.flow AS f SET trusted = trust, definition = f.definition + 1
        WHERE f.flow_id = asked.flow_id AND f.trusted <> trust;
    IF asked.input = 'snapshots' THEN
        PERFORM scd2_internal.alter_snapshot_flow(asked, refresh_interval,
            ROW(source_filter, apply_as_deletes, sequence_by, on_invalid_event,
            max_lateness) IS NOT DISTINCT FROM ROW(NULL::text, NULL::text, NULL::text, NULL::text, NULL::text));
        RETURN;
    END IF;
    PERFORM scd2_internal.check_can_be_altered(asked, apply_as_deletes, sequence_by, on_invalid_event, max_lateness);
    IF coalesce(source_filter, apply_as_deletes, sequence_by) IS NOT NULL THEN
        -- What is given names the columns as they are called now.
        PERFORM scd2_internal.follow_columns(asked.flow_id, stops => false);
        PERFORM scd2_internal.check_columns_followed(asked.flow_id) WHERE asked.feed_id IS NOT NULL;
        SELECT f.* INTO asked FROM scd2_internal.flow AS f WHERE f.flow_id = asked.flow_id;
    END IF;
    asked.source_filter := coalesce(source_filter, asked.source_filter);
    asked.apply_as_deletes := coalesce(apply_as_deletes, asked.apply_as_deletes);
    asked.refresh_interval := coalesce(refresh_interval, asked.refresh_interval);
    asked.on_invalid_event := coalesce(on_invalid_event, asked.on_invalid_event);
    PERFORM scd2_internal.check_flow_arguments(asked, false, NULL, NULL);
    asked := scd2_internal.with_altered_sequence(asked, sequence_by);
    asked := scd2_internal.with_altered_expressions(asked, source_filter, apply_as_deletes);
    PERFORM scd2_internal.check_no_dropped(asked)
        WHERE coalesce(source_filter, apply_as_deletes, sequence_by) IS NOT NULL AND asked.feed_id IS NOT NULL;
    asked.trusted := coalesce(trust, asked.trusted);
    PERFORM scd2_internal.check_expression_owners(asked);
    IF max_lateness IS NOT NULL THEN
        asked.max_lateness := scd2_internal.check_max_lateness(max_lateness, asked, asked.sequence_type);
        PERFORM scd2_internal.lower_horizon(asked);
    END IF;
    UPDATE scd2_internal.flow AS f SET source_filter = asked.source_filter, apply_as_deletes = asked.apply_as_deletes,
        sequence_by = asked.sequence_by,
            refresh_interval = asked.refresh_interval, on_invalid_event = asked.on_invalid_event,
                max_lateness = asked.max_lateness, definition = f.definition + 1
        WHERE f.flow_id = asked.flow_id;
    PERFORM scd2_internal.wake_apply_at_commit();
END $$;
COMMENT ON FUNCTION scd2_internal.alter_flow(oid, name, text, text, text, interval, text, text, boolean) IS
    'What scd2.alter_flow() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.alter_flow(name name, source_filter text DEFAULT NULL, apply_as_deletes text DEFAULT NULL,
    sequence_by text DEFAULT NULL, refresh_interval interval DEFAULT NULL,
        on_invalid_event text DEFAULT NULL, max_lateness text DEFAULT NULL, trust boolean DEFAULT NULL) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.alter_flow(name, text, text, text, interval, text, text, boolean) IS
    'Changes how a flow reads from now on; NULL leaves an option as it is. sequence_by must keep its type; max_lateness, '
    'also the same, has it forget the highest sequence seen. What has been applied stays. 42704 no such flow, 42501 the caller cannot SET ROLE to the owner of its target, or the flow '
    'is not authorized, 42703, 42804 an expression, 0A000 or '
    '22023 not for this kind of flow, 55000 the target has the sequence in a column.';

CREATE FUNCTION scd2_internal.drop_flow(caller oid, name name, drop_target boolean) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.remove_flow(scd2_internal.own_flow(caller, name), drop_target);
END $$;

COMMENT ON FUNCTION scd2_internal.drop_flow(oid, name, boolean) IS
    'What scd2.drop_flow() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.drop_flow(name name, drop_target boolean DEFAULT false) RETURNS void AS 'MODULE_PATHNAME',
    'scd2_call_internal' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2.drop_flow(name, boolean) IS
    'Ends a flow. Its target stays as an ordinary table, or is dropped with it. 42704 no such flow, 42501 not the '
    'owner of its target, 55P03 if a batch does not end within pg_scd2.lock_timeout.';

-- The table as it was at the flow's beginning is today's with all later changes undone; that needs them all, and a
-- TRUNCATE does not say what it took.
CREATE FUNCTION scd2_internal.refresh_loss(refreshed scd2_internal.flow, state scd2_internal.flow_state,
    allow_loss boolean, key_filter text DEFAULT NULL, OUT version bigint, OUT at timestamptz)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    feed record;
BEGIN
    PERFORM scd2_internal.check_feed_runs(refreshed.feed_id, NULL);
    SELECT f.feed_relid, h.earliest_state, h.removed_until, upper(e.gap) AS behind_gap INTO feed
        FROM scd2_internal.feed AS f LEFT JOIN scd2_internal.feed_state AS e USING (feed_id),
            scd2_internal.hold_feed(f.feed_id, f.feed_relid) AS h
            WHERE f.feed_id = refreshed.feed_id;
    IF NOT FOUND THEN                       -- a flow that runs once
        RETURN;
    END IF;
    version := scd2_internal.as_owner(feed.feed_relid,
        format('SELECT max(_commit_version) FROM %s WHERE _commit_version > $1 AND _change_type = ''truncate''',
            feed.feed_relid::regclass), state.begin_version);
    version := greatest(version, CASE WHEN feed.earliest_state > state.begin_version THEN feed.earliest_state END,
        CASE WHEN feed.behind_gap > state.begin_version THEN feed.behind_gap END);
    IF version IS NULL THEN
        RETURN;
    END IF;
    IF NOT coalesce(allow_loss, false) THEN
        RAISE object_not_in_prerequisite_state
            USING MESSAGE = format('a full refresh of "%s" would lose history', refreshed.target_relid::regclass),
            DETAIL = format('The flow began at version %s; the table can be rebuilt from version %s on, after %s.',
                state.begin_version, version,
                            CASE WHEN version = feed.earliest_state THEN 'retention removed what was before'
                                 WHEN version = feed.behind_gap THEN 'a gap of its feed'
                                ELSE 'a TRUNCATE of its source' END),
            HINT = format('SELECT scd2.full_refresh(%L, %sallow_loss => true);', refreshed.target_relid::regclass,
                CASE WHEN key_filter IS NOT NULL THEN format('key_filter => %L, ', key_filter) END);
    END IF;
    at := greatest(feed.removed_until, scd2_internal.as_owner(feed.feed_relid,
        format('SELECT max(_commit_timestamp) FROM %s WHERE _commit_version <= $1', feed.feed_relid::regclass),
        version)::timestamptz);
END $$;
COMMENT ON FUNCTION scd2_internal.refresh_loss(scd2_internal.flow, scd2_internal.flow_state, boolean, text) IS
    'From which version (and time) on a flow can begin anew, NULL: from its beginning. Errors: 55000 if that is '
    'later, unless allow_loss';

-- A flow over a feed goes back to its beginning, or as far as it can.
CREATE FUNCTION scd2_internal.begin_again(refreshed scd2_internal.flow, allow_loss boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    state scd2_internal.flow_state;
    loss  record;
BEGIN
    SELECT s.* INTO state FROM scd2_internal.flow_state AS s WHERE s.flow_id = refreshed.flow_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT l.* INTO loss FROM scd2_internal.refresh_loss(refreshed, state, allow_loss) AS l;
    UPDATE scd2_internal.flow_state AS s SET begin_version = coalesce(loss.version, s.begin_version),
        watermark_version = coalesce(loss.version, s.begin_version),
            begin_timestamp = coalesce(loss.at, s.begin_timestamp),
                watermark_timestamp = coalesce(loss.at, s.begin_timestamp)
        WHERE s.flow_id = refreshed.flow_id;
END $$;
COMMENT ON FUNCTION scd2_internal.begin_again(scd2_internal.flow, boolean) IS
    'Sets a flow back to its beginning; 55000 if the feed does not reach back, unless allow_loss';

-- What a target is made of is said by the first flow into it.
CREATE FUNCTION scd2_internal.first_flow(target regclass) RETURNS scd2_internal.flow
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.flow;
BEGIN
    IF target IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'target must not be NULL';
    END IF;
    SELECT x.* INTO f FROM scd2_internal.flow AS x WHERE x.target_relid = target ORDER BY x.flow_id LIMIT 1;
    IF NOT FOUND THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('"%s" is not the target of a flow', target),
            HINT = 'SELECT target FROM scd2.flows;';
    END IF;
    RETURN f;
END $$;
COMMENT ON FUNCTION scd2_internal.first_flow(regclass) IS
    'The first flow into a target; 22004 NULL, 55000 if there is none';

-- What a column had that the source has no more is, for rows that did not change since, in the target alone.
CREATE FUNCTION scd2_internal.lost_column(target oid, for_good boolean) RETURNS name
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.name FROM scd2_internal.flow f, scd2_internal.followed_columns(f.feed_id) c
    WHERE f.target_relid = target AND c.dropped AND c.name = ANY (f.columns)
      AND (NOT for_good OR c.until IS NULL OR c.name = (scd2_internal.retyped_since(f)).unrepaired)
    ORDER BY f.flow_id, c.attnum LIMIT 1
$$;
COMMENT ON FUNCTION scd2_internal.lost_column(oid, boolean) IS
    'A column of a target that was dropped from a source, or kept of one whose type changed; for_good: open rows may have something in it; NULL: none';

CREATE FUNCTION scd2_internal.check_columns_lost(target regclass, key_filter text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lost name := scd2_internal.lost_column(target, false);
BEGIN
    IF lost IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('a full refresh of "%s" would lose history', target),
            DETAIL = format('Column "%s" is not in its source any more: what it had is known only of rows that changed since the feed began.', lost),
            HINT = format('SELECT scd2.full_refresh(%L, %sallow_loss => true);', target,
                CASE WHEN key_filter IS NOT NULL THEN format('key_filter => %L, ', key_filter) END);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_columns_lost(regclass, text) IS
    'Errors: 55000 a column was dropped from a source of the target';

CREATE FUNCTION scd2_internal.full_refresh(caller oid, target regclass, key_filter text, allow_loss boolean)
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    refreshed scd2_internal.flow;
    state     scd2_internal.flow_state;
BEGIN
    PERFORM scd2_internal.check_owner(caller, target) WHERE target IS NOT NULL;
    refreshed := scd2_internal.own_flow(caller, (scd2_internal.first_flow(target)).name);
    PERFORM scd2_internal.check_columns_lost(target, key_filter) WHERE NOT coalesce(allow_loss, false);
    IF key_filter IS NOT NULL THEN
        PERFORM scd2_internal.flow_to_change(caller, f.name) FROM scd2_internal.flow AS f WHERE f.target_relid = target;
        PERFORM scd2_internal.refresh_keys(target, refreshed, key_filter, coalesce(allow_loss, false));
        RETURN;
    ELSIF refreshed.kind = 'append' THEN
        PERFORM scd2_internal.refresh_append(target, allow_loss);
        RETURN;
    END IF;
    PERFORM scd2_internal.lock_flow(refreshed.flow_id);
    SELECT s.* INTO state FROM scd2_internal.flow_state AS s WHERE s.flow_id = refreshed.flow_id;
    IF NOT FOUND THEN           -- it has not even begun: the first copy is still to come
        RETURN;
    END IF;
    PERFORM scd2_internal.check_feed_runs(f.feed_id, NULL) FROM scd2_internal.flow AS f WHERE f.target_relid = target;
    PERFORM scd2_internal.forget_purge(target);
    PERFORM scd2_internal.remake_memory(target);
    -- begins anew with the events that are there, of all flows into the target
    IF refreshed.input IN ('events', 'snapshots')
        OR EXISTS (SELECT FROM scd2_internal.flow AS f WHERE f.target_relid = target AND f.flow_id <> refreshed.flow_id)
        THEN
        PERFORM scd2_internal.check_snapshots_lost(target) WHERE NOT coalesce(allow_loss, false);
        PERFORM scd2_internal.lock_flow(f.flow_id) FROM scd2_internal.flow AS f WHERE f.target_relid = target
            AND f.flow_id <> refreshed.flow_id ORDER BY f.flow_id;
        PERFORM scd2_internal.begin_again(f, allow_loss) FROM scd2_internal.flow AS f WHERE f.target_relid = target
            AND f.input = 'changes';
        -- what workers have of its marks will be gone
        UPDATE scd2_internal.flow AS f SET definition = f.definition + 1 WHERE f.target_relid = target;
        UPDATE scd2_internal.flow_state AS s SET phase = 'copy', rereads = false, failed_phase = NULL, failures = 0, retry_at = NULL,
            finished_at = NULL, highest = NULL, horizon = NULL
            WHERE s.flow_id IN (SELECT f.flow_id FROM scd2_internal.flow AS f WHERE f.target_relid = target);
        PERFORM scd2_internal.wake_apply_at_commit();
        RETURN;
    END IF;
    PERFORM scd2_internal.begin_again(refreshed, allow_loss);
    UPDATE scd2_internal.flow_state AS s SET phase = 'copy', rereads = false, failed_phase = NULL, failures = 0, retry_at = NULL,
        finished_at = NULL, highest = NULL, horizon = NULL
        WHERE s.flow_id = refreshed.flow_id;
    PERFORM scd2_internal.wake_apply_at_commit();
END $$;

COMMENT ON FUNCTION scd2_internal.full_refresh(oid, regclass, text, boolean) IS
    'What scd2.full_refresh() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.full_refresh(target regclass, key_filter text DEFAULT NULL, allow_loss boolean DEFAULT false)
    RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.full_refresh(regclass, text, boolean) IS
    'Has a worker rebuild the target from its source and feed, with the flow''s recorded beginning; readers see the '
    'old rows until it is done. With key_filter, a condition over the keys, the rows of these keys are made again, '
    'in the caller''s transaction, until whose end the flows wait. 55000 if history would be lost (allow_loss => '
    'true: accept it), 42501 not the owner, 42703, 42804 the filter, 0A000 a filter with snapshots or max_lateness, '
    '22023 a filter without keys, 25001 a filter in a transaction that has written the source or whose snapshot is '
    'fixed.';
