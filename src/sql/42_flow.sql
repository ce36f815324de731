-- 42_flow.sql: declaring flows.
--
-- All of it happens in the caller's transaction: the target, the flow's row, and a control record whose place in the log is the flow's
-- beginning. What follows the commit is the workers'.

-- Arguments that belong to event tables, snapshots and shared targets.
CREATE FUNCTION scd2_internal.refuse_unsupported(argument text, given boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF given THEN
        RAISE feature_not_supported USING MESSAGE = format('argument %s is not supported yet', argument);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.refuse_unsupported(text, boolean) IS 'Raises 0A000 if the argument was given';

CREATE FUNCTION scd2_internal.flow_name(wanted name, relation name) RETURNS name
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    free_name name := coalesce(wanted, relation);
    n     integer := 1;
BEGIN
    WHILE EXISTS (SELECT FROM scd2_internal.flow AS f WHERE f.name = free_name) LOOP
        IF wanted IS NOT NULL THEN
            RAISE duplicate_object USING MESSAGE = format('flow "%s" exists already', wanted);
        END IF;
        n := n + 1;
        free_name := scd2_internal.object_name(relation, n::text);
    END LOOP;
    RETURN free_name;
END $$;
COMMENT ON FUNCTION scd2_internal.flow_name(name, name) IS 'The name of a new flow: as wanted, or the target''s, with a number if it is taken';

-- starting_version: the feed must hold every change since.
CREATE FUNCTION scd2_internal.check_starting_version(feed_id integer, source oid, starting_version bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    earliest bigint;
    latest   bigint;
BEGIN
    SELECT s.earliest_version INTO earliest FROM scd2_internal.feed_state AS s WHERE s.feed_id = check_starting_version.feed_id;
    SELECT p.version INTO latest FROM scd2_internal.position AS p;
    IF earliest IS NULL OR starting_version < earliest OR starting_version > latest THEN
        RAISE invalid_parameter_value USING MESSAGE = format('starting_version %s is not in the feed of "%s"', starting_version, source::regclass),
            DETAIL = CASE WHEN earliest IS NULL THEN 'The feed begins with this transaction.' ELSE format('It can be from %s to %s.', earliest, latest) END;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_starting_version(integer, oid, bigint) IS 'Raises 22023 unless the feed reaches back to the version';

-- A feed that failed gets no more rows: what is made from it would stand still, and say so to nobody.
CREATE FUNCTION scd2_internal.check_feed_runs(feed_id integer, since bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s scd2_internal.feed_state;
BEGIN
    IF NOT EXISTS (SELECT FROM scd2_internal.feed AS f JOIN pg_class AS c ON c.oid = f.feed_relid WHERE f.feed_id = check_feed_runs.feed_id) THEN
        RAISE object_not_in_prerequisite_state USING HINT = 'SELECT * FROM scd2.diagnose();',
            MESSAGE = (SELECT format('the change data feed of table "%s" was dropped', scd2_internal.label(f.source_relid)) FROM scd2_internal.feed AS f WHERE f.feed_id = check_feed_runs.feed_id);
    END IF;
    SELECT q.* INTO s FROM scd2_internal.feed_state AS q WHERE q.feed_id = check_feed_runs.feed_id;
    IF s.state = 'failed' OR s.gap && int8range(since, NULL, '()') THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('feed of "%s" has a gap at versions %s', s.source_relid::regclass, s.gap),
            DETAIL = s.error, HINT = 'SELECT * FROM scd2.diagnose();';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_feed_runs(integer, bigint) IS 'Raises 55000 if the feed was dropped, has failed, or has a gap after version "since"';

-- Arguments that go with one type of target only.
CREATE FUNCTION scd2_internal.check_scd_type(scd_type integer, refresh_interval interval, track_list name[], track_except_list name[], current_column name,
                                             open_row_index boolean, initial_start text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF scd_type IS NULL OR scd_type NOT IN (1, 2) THEN
        RAISE invalid_parameter_value USING MESSAGE = format('stored_as_scd_type is %s', coalesce(scd_type::text, 'NULL')), HINT = 'It is 1 or 2.';
    END IF;
    IF refresh_interval IS NULL OR refresh_interval < '0' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'refresh_interval must not be NULL or negative';
    END IF;
    IF scd_type = 1 THEN
        PERFORM scd2_internal.refuse_with_type_1('track_history_column_list', track_list IS NOT NULL);
        PERFORM scd2_internal.refuse_with_type_1('track_history_except_column_list', track_except_list IS NOT NULL);
        PERFORM scd2_internal.refuse_with_type_1('current_column', current_column IS NOT NULL);
        PERFORM scd2_internal.refuse_with_type_1('open_row_index', open_row_index);
        PERFORM scd2_internal.refuse_with_type_1('initial_start', initial_start IS NOT NULL);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_scd_type(integer, interval, name[], name[], name, boolean, text) IS 'Raises 22023 for a type that is none, and for arguments that do not go with it';

-- Everything about a flow over a feed with its default sequence that both track() and create_auto_cdc_flow() do.
CREATE FUNCTION scd2_internal.add_feed_flow(caller oid, target_schema name, target_name name, target_relid oid, feed_id integer, keys name[],
        column_list name[], except_column_list name[], scd_type integer, track_list name[], track_except_list name[],
        name name, starting_version bigint, initial_start text, start_column name, end_column name, current_column name,
        open_row_index boolean, refresh_interval interval) RETURNS integer
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    feed    scd2_internal.feed;
    source  oid;
    owner   oid;
    allowed name[];
    chosen  name[];
    tracked name[];
    id      integer;
BEGIN
    SELECT f.* INTO feed FROM scd2_internal.feed AS f WHERE f.feed_id = add_feed_flow.feed_id;
    source := feed.source_relid;
    SELECT c.relowner INTO owner FROM pg_class AS c WHERE c.oid = source;
    PERFORM scd2_internal.check_member(caller, owner, 'table', source::regclass::text);
    PERFORM scd2_internal.check_scd_type(scd_type, refresh_interval, track_list, track_except_list, current_column, open_row_index, initial_start);

    -- Columns: those of the source that its feed has. It may not have met the newest yet.
    PERFORM scd2_internal.check_feed_runs(feed_id, starting_version);
    PERFORM scd2_internal.add_missing_columns(feed, feed.except_columns);
    SELECT array_agg(a.attname ORDER BY a.attnum) INTO allowed FROM pg_attribute AS a
        WHERE a.attrelid = source AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> ALL (feed.except_columns)
          AND EXISTS (SELECT FROM pg_attribute AS fa WHERE fa.attrelid = feed.feed_relid AND fa.attname = a.attname AND fa.attnum > 0 AND NOT fa.attisdropped);
    IF coalesce(cardinality(keys), 0) = 0 THEN
        RAISE invalid_parameter_value USING MESSAGE = format('flow over "%s" has no keys', source::regclass), HINT = 'Name the columns that identify a row: keys => ''{…}''.';
    END IF;
    PERFORM scd2_internal.check_column_list(keys, allowed, 'keys', source::regclass::text);
    chosen := scd2_internal.choose_columns(column_list, except_column_list, allowed, 'column_list', 'except_column_list', source::regclass::text);
    IF NOT keys <@ chosen THEN
        RAISE invalid_parameter_value USING MESSAGE = 'keys must be among the selected columns',
            DETAIL = format('Not selected: %s.', (SELECT string_agg(k, ', ') FROM unnest(keys) AS k WHERE k <> ALL (chosen)));
    END IF;
    PERFORM scd2_internal.check_keys_guarded(source, keys);
    tracked := scd2_internal.choose_columns(track_list, track_except_list,
        ARRAY(SELECT c FROM unnest(chosen) WITH ORDINALITY AS u (c, n) WHERE c <> ALL (keys) ORDER BY n),
        'track_history_column_list', 'track_history_except_column_list', source::regclass::text);
    IF scd_type = 2 THEN
        PERFORM scd2_internal.check_flow_column('start_column', start_column, chosen, ARRAY[end_column, current_column]);
        PERFORM scd2_internal.check_flow_column('end_column', end_column, chosen, ARRAY[start_column, current_column]);
        IF current_column IS NOT NULL THEN
            PERFORM scd2_internal.check_flow_column('current_column', current_column, chosen, ARRAY[start_column, end_column]);
        END IF;
    END IF;

    IF initial_start IS NOT NULL THEN
        PERFORM scd2_internal.check_expression(initial_start, source, 'timestamptz'::regtype, 'initial_start');
    END IF;
    IF starting_version IS NOT NULL THEN
        PERFORM scd2_internal.check_starting_version(feed_id, source, starting_version);
    END IF;

    IF target_relid IS NULL THEN
        target_relid := scd2_internal.create_target(caller, target_schema, target_name, source, chosen, keys, scd_type,
                                                    start_column, end_column, current_column, open_row_index);
    ELSE
        PERFORM scd2_internal.check_no_cycle(source, target_relid);
        PERFORM scd2_internal.check_target_fits(caller, target_relid, source, chosen, keys, scd_type, start_column, end_column, current_column);
    END IF;
    PERFORM scd2_internal.dress_target(target_relid, scd_type, start_column, end_column);

    INSERT INTO scd2_internal.flow AS f (name, kind, target_schema, target_name, target_relid, source_schema, source_name, source_relid, feed_id, scd_type,
            keys, columns, tracked, start_column, end_column, current_column, initial_start, starting_version, refresh_interval, options, settings)
        VALUES (scd2_internal.flow_name(name, target_name), 'auto_cdc', target_schema, target_name, target_relid, feed.source_schema, feed.source_name, source, feed_id, scd_type,
            keys, chosen, tracked, start_column, end_column, current_column, initial_start, starting_version, refresh_interval,
            jsonb_strip_nulls(jsonb_build_object('column_list', column_list, 'except_column_list', except_column_list,
                'track_history_column_list', track_list, 'track_history_except_column_list', track_except_list, 'open_row_index', open_row_index)),
            ARRAY(SELECT s || '=' || current_setting(s) FROM unnest('{TimeZone,DateStyle,IntervalStyle}'::text[]) AS s))
        RETURNING f.flow_id INTO id;
    INSERT INTO scd2_internal.control (kind, flow_id, feed_id) VALUES ('begin flow', id, feed_id);
    RETURN id;
END $$;
COMMENT ON FUNCTION scd2_internal.add_feed_flow(oid, name, name, oid, integer, name[], name[], name[], integer, name[], name[], name, bigint, text, name, name, name, boolean, interval) IS
    'Checks, creates the target, registers the flow and its control record; returns the flow_id';

CREATE FUNCTION scd2_internal.refuse_with_type_1(argument text, given boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF given THEN
        RAISE invalid_parameter_value USING MESSAGE = format('%s needs SCD type 2', argument), HINT = 'stored_as_scd_type => 2';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.refuse_with_type_1(text, boolean) IS 'Raises 22023 if an argument for histories was given for a type 1 target';

CREATE FUNCTION scd2_internal.check_flow_column(argument text, column_name name, selected name[], others name[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF column_name IS NULL OR column_name = '' THEN
        RAISE invalid_parameter_value USING MESSAGE = format('%s must have a name', argument);
    END IF;
    IF column_name = ANY (selected) OR column_name = ANY (others) THEN
        RAISE duplicate_column USING MESSAGE = format('column "%s" would occur twice in the target', column_name),
            HINT = format('Choose another name: %s => ''…''.', argument);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_flow_column(text, name, name[], name[]) IS 'Raises if a column of the flow has no name or that of another column';

-- Where the target was dropped, whoever owns the source, or what is left of its feed, may clear up.
CREATE FUNCTION scd2_internal.flow_owner(flow scd2_internal.flow) RETURNS oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT c.relowner FROM pg_class c WHERE c.oid = flow.target_relid),
                    (SELECT c.relowner FROM pg_class c WHERE c.oid = flow.source_relid),
                    (SELECT c.relowner FROM scd2_internal.feed f JOIN pg_class c ON c.oid = f.feed_relid WHERE f.feed_id = flow.feed_id))
$$;
COMMENT ON FUNCTION scd2_internal.flow_owner(scd2_internal.flow) IS 'Whose flow it is: the owner of the target; NULL if target, source and feed are gone';

-- A flow and the rights of who names it.
CREATE FUNCTION scd2_internal.own_flow(caller oid, flow_name name) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    named scd2_internal.flow;
BEGIN
    SELECT f.* INTO named FROM scd2_internal.flow AS f WHERE f.name = flow_name FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE undefined_object USING MESSAGE = format('flow "%s" does not exist', flow_name), HINT = 'SELECT flow FROM scd2.flows;';
    END IF;
    PERFORM scd2_internal.check_member(caller, coalesce(scd2_internal.flow_owner(named), 10), 'the target of flow', flow_name);
    RETURN named;
END $$;
COMMENT ON FUNCTION scd2_internal.own_flow(oid, name) IS 'The flow, locked; 42704 if there is none, 42501 unless the caller owns its target';

CREATE FUNCTION scd2_internal.remove_flow(doomed scd2_internal.flow, drop_target boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- The worker that applies it right now finishes its batch first.
    PERFORM scd2_internal.lock_flow(doomed.flow_id);
    DELETE FROM scd2_internal.flow AS f WHERE f.flow_id = doomed.flow_id;
    PERFORM scd2_internal.wake_apply_at_commit();
    IF NOT EXISTS (SELECT FROM scd2_internal.flow AS f WHERE f.target_relid = doomed.target_relid) THEN
        PERFORM scd2_internal.undress_target(doomed.target_relid);
        IF drop_target AND EXISTS (SELECT FROM pg_class AS c WHERE c.oid = doomed.target_relid) THEN
            EXECUTE format('DROP TABLE %s', doomed.target_relid::regclass);
        END IF;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.remove_flow(scd2_internal.flow, boolean) IS 'Removes a flow, and its target''s guard with the last flow into it';

-- Waits for the worker that has the flow, and keeps workers from it until the transaction ends.
CREATE FUNCTION scd2_internal.lock_flow(flow_id integer) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_lock_flow' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.lock_flow(integer) IS 'Takes the lock under which workers apply a flow; 55P03 after pg_scd2.lock_timeout';

CREATE FUNCTION scd2_internal.wake_apply_at_commit() RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_wake_apply_at_commit' LANGUAGE C;
COMMENT ON FUNCTION scd2_internal.wake_apply_at_commit() IS 'Has the apply workers look for work when the calling transaction commits';

-- create_auto_cdc_flow

CREATE FUNCTION scd2_internal.create_auto_cdc_flow(caller oid, target text, source regclass, keys name[], sequence_by text, apply_as_deletes text, apply_as_truncates text,
        column_list name[], except_column_list name[], stored_as_scd_type integer, track_history_column_list name[], track_history_except_column_list name[],
        ignore_null_updates boolean, ignore_null_updates_column_list name[], ignore_null_updates_except_column_list name[], name name, once boolean,
        source_filter text, delete_sequence_by text, end_sequence_by text, starting_version bigint, initial_start text,
        start_column name, end_column name, current_column name, open_row_index boolean, shared boolean, on_invalid_event text, max_lateness text,
        refresh_interval interval) RETURNS name
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    feed_id integer;
    feed    regclass;
    place   record;
    id      integer;
BEGIN
    IF target IS NULL OR source IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = format('%s must not be NULL', CASE WHEN target IS NULL THEN 'target' ELSE 'source' END);
    END IF;
    PERFORM scd2_internal.refuse_unsupported('sequence_by', sequence_by IS NOT NULL);
    PERFORM scd2_internal.refuse_unsupported('apply_as_deletes', apply_as_deletes IS NOT NULL);
    PERFORM scd2_internal.refuse_unsupported('apply_as_truncates', apply_as_truncates IS NOT NULL);
    PERFORM scd2_internal.refuse_unsupported('ignore_null_updates', ignore_null_updates);
    PERFORM scd2_internal.refuse_unsupported('ignore_null_updates_column_list', ignore_null_updates_column_list IS NOT NULL);
    PERFORM scd2_internal.refuse_unsupported('ignore_null_updates_except_column_list', ignore_null_updates_except_column_list IS NOT NULL);
    PERFORM scd2_internal.refuse_unsupported('once', once);
    PERFORM scd2_internal.refuse_unsupported('source_filter', source_filter IS NOT NULL);
    PERFORM scd2_internal.refuse_unsupported('delete_sequence_by', delete_sequence_by IS NOT NULL);
    PERFORM scd2_internal.refuse_unsupported('end_sequence_by', end_sequence_by IS NOT NULL);
    PERFORM scd2_internal.refuse_unsupported('shared', shared);
    PERFORM scd2_internal.refuse_unsupported('on_invalid_event', on_invalid_event IS DISTINCT FROM 'fail');
    PERFORM scd2_internal.refuse_unsupported('max_lateness', max_lateness IS NOT NULL);

    SELECT f.feed_id INTO feed_id FROM scd2_internal.feed AS f WHERE f.feed_relid = source AND NOT f.disabled;
    IF NOT FOUND THEN
        SELECT f.feed_relid INTO feed FROM scd2_internal.feed AS f WHERE f.source_relid = source AND NOT f.disabled;
        RAISE feature_not_supported USING MESSAGE = format('"%s" is not a change data feed', source),
            DETAIL = 'Flows over event tables are not supported yet.',
            HINT = CASE WHEN feed IS NULL THEN format('SELECT scd2.enable_change_feed(%L);', source::text) ELSE format('Its feed: source => %L.', feed::text) END;
    END IF;
    SELECT r.* INTO place FROM scd2_internal.caller_relation(target) AS r;
    id := scd2_internal.add_feed_flow(caller, place.schema, place.relation, place.relid, feed_id, keys, column_list, except_column_list, stored_as_scd_type,
        track_history_column_list, track_history_except_column_list, name, starting_version, initial_start, start_column, end_column, current_column,
        open_row_index, refresh_interval);
    RETURN (SELECT f.name FROM scd2_internal.flow AS f WHERE f.flow_id = id);
END $$;

COMMENT ON FUNCTION scd2_internal.create_auto_cdc_flow(oid, text, regclass, name[], text, text, text, name[], name[], integer, name[], name[], boolean, name[], name[], name, boolean, text, text, text, bigint, text, name, name, name, boolean, boolean, text, text, interval) IS 'What scd2.create_auto_cdc_flow() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.create_auto_cdc_flow(target text, source regclass, keys name[], sequence_by text DEFAULT NULL, apply_as_deletes text DEFAULT NULL, apply_as_truncates text DEFAULT NULL,
        column_list name[] DEFAULT NULL, except_column_list name[] DEFAULT NULL, stored_as_scd_type integer DEFAULT 1, track_history_column_list name[] DEFAULT NULL,
        track_history_except_column_list name[] DEFAULT NULL, ignore_null_updates boolean DEFAULT false, ignore_null_updates_column_list name[] DEFAULT NULL,
        ignore_null_updates_except_column_list name[] DEFAULT NULL, name name DEFAULT NULL, once boolean DEFAULT false, source_filter text DEFAULT NULL,
        delete_sequence_by text DEFAULT NULL, end_sequence_by text DEFAULT NULL, starting_version bigint DEFAULT NULL, initial_start text DEFAULT NULL,
        start_column name DEFAULT '__start_at', end_column name DEFAULT '__end_at', current_column name DEFAULT NULL, open_row_index boolean DEFAULT false,
        shared boolean DEFAULT false, on_invalid_event text DEFAULT 'fail', max_lateness text DEFAULT NULL, refresh_interval interval DEFAULT '0') RETURNS name
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.create_auto_cdc_flow(text, regclass, name[], text, text, text, name[], name[], integer, name[], name[], boolean, name[], name[], name, boolean, text, text, text, bigint, text, name, name, name, boolean, boolean, text, text, interval) IS
    'Declares a flow that keeps "target" (created if it is not there) from "source", a change data feed; returns the flow''s name. '
    'Errors: 42501 not the owner, 42703/42701 columns, 42804/55000 a target or keys that do not fit, 22023 arguments, 0A000 what is not supported yet.';

-- track, untrack

CREATE FUNCTION scd2_internal.track(caller oid, source regclass, target text, keys name[], stored_as_scd_type integer, sequence_by text, apply_as_deletes text,
        apply_as_truncates text, column_list name[], except_column_list name[], track_history_column_list name[], track_history_except_column_list name[], name name,
        source_filter text, delete_sequence_by text, starting_version bigint, initial_start text, start_column name, end_column name, current_column name,
        open_row_index boolean, shared boolean, on_invalid_event text, max_lateness text, refresh_interval interval) RETURNS regclass
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    feed_id integer;
    place   record;
    id      integer;
BEGIN
    IF source IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'source must not be NULL';
    END IF;
    PERFORM scd2_internal.refuse_unsupported('sequence_by', sequence_by IS NOT NULL);
    PERFORM scd2_internal.refuse_unsupported('apply_as_deletes', apply_as_deletes IS NOT NULL);
    PERFORM scd2_internal.refuse_unsupported('apply_as_truncates', apply_as_truncates IS NOT NULL);
    PERFORM scd2_internal.refuse_unsupported('source_filter', source_filter IS NOT NULL);
    PERFORM scd2_internal.refuse_unsupported('delete_sequence_by', delete_sequence_by IS NOT NULL);
    PERFORM scd2_internal.refuse_unsupported('shared', shared);
    PERFORM scd2_internal.refuse_unsupported('on_invalid_event', on_invalid_event IS DISTINCT FROM 'fail');
    PERFORM scd2_internal.refuse_unsupported('max_lateness', max_lateness IS NOT NULL);

    SELECT f.feed_id INTO feed_id FROM scd2_internal.feed AS f WHERE f.source_relid = source AND NOT f.disabled;
    IF feed_id IS NULL THEN
        PERFORM scd2_internal.enable_change_feed(caller, source, NULL::interval, '{}'::name[], NULL::text);
        SELECT f.feed_id INTO feed_id FROM scd2_internal.feed AS f WHERE f.source_relid = source AND NOT f.disabled;
    END IF;
    IF keys IS NULL THEN
        SELECT array_agg(a.attname ORDER BY k.n) INTO keys
            FROM pg_index AS i CROSS JOIN unnest(i.indkey[0:i.indnkeyatts - 1]) WITH ORDINALITY AS k (attnum, n)
            JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
            WHERE i.indrelid = source AND i.indisprimary;
        IF keys IS NULL THEN
            RAISE object_not_in_prerequisite_state USING MESSAGE = format('"%s" has no primary key', source),
                DETAIL = 'A flow needs keys that identify a row.',
                HINT = format('Name columns that a unique index guards: SELECT scd2.track(%L, keys => ''{…}'');', source::text);
        END IF;
    END IF;
    IF target IS NULL THEN
        SELECT n.nspname AS schema, scd2_internal.object_name(c.relname, CASE stored_as_scd_type WHEN 1 THEN 'current' ELSE 'history' END) AS relation, NULL::oid AS relid
            INTO place
            FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = source;
        place.relid := to_regclass(format('%I.%I', place.schema, place.relation));
    ELSE
        SELECT r.* INTO place FROM scd2_internal.caller_relation(target) AS r;
    END IF;
    id := scd2_internal.add_feed_flow(caller, place.schema, place.relation, place.relid, feed_id, keys, column_list, except_column_list, stored_as_scd_type,
        track_history_column_list, track_history_except_column_list, name, starting_version, initial_start, start_column, end_column, current_column,
        open_row_index, refresh_interval);
    RETURN (SELECT f.target_relid FROM scd2_internal.flow AS f WHERE f.flow_id = id);
END $$;

COMMENT ON FUNCTION scd2_internal.track(oid, regclass, text, name[], integer, text, text, text, name[], name[], name[], name[], name, text, text, bigint, text, name, name, name, boolean, boolean, text, text, interval) IS 'What scd2.track() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.track(source regclass, target text DEFAULT NULL, keys name[] DEFAULT NULL, stored_as_scd_type integer DEFAULT 2, sequence_by text DEFAULT NULL,
        apply_as_deletes text DEFAULT NULL, apply_as_truncates text DEFAULT NULL, column_list name[] DEFAULT NULL, except_column_list name[] DEFAULT NULL,
        track_history_column_list name[] DEFAULT NULL, track_history_except_column_list name[] DEFAULT NULL, name name DEFAULT NULL, source_filter text DEFAULT NULL,
        delete_sequence_by text DEFAULT NULL, starting_version bigint DEFAULT NULL, initial_start text DEFAULT NULL, start_column name DEFAULT '__start_at',
        end_column name DEFAULT '__end_at', current_column name DEFAULT NULL, open_row_index boolean DEFAULT false, shared boolean DEFAULT false,
        on_invalid_event text DEFAULT 'fail', max_lateness text DEFAULT NULL, refresh_interval interval DEFAULT '0') RETURNS regclass
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.track(regclass, text, name[], integer, text, text, text, name[], name[], name[], name[], name, text, text, bigint, text, name, name, name, boolean, boolean, text, text, interval) IS
    'Keeps the history (SCD type 2) or the current rows (type 1) of "source" in "target", by default <source>_history or <source>_current: enables the feed if it is off, creates the target, '
    'copies the rows that are there after the commit, and keeps it from then on. "keys": by default the primary key. Returns the target. Errors as create_auto_cdc_flow.';

CREATE FUNCTION scd2_internal.untrack(caller oid, source regclass, drop_targets boolean, drop_feed boolean) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    doomed scd2_internal.flow;
    owner  oid;
BEGIN
    SELECT c.relowner INTO owner FROM pg_class AS c WHERE c.oid = source;
    PERFORM scd2_internal.check_member(caller, owner, 'table', source::text);
    FOR doomed IN SELECT f.* FROM scd2_internal.flow AS f WHERE f.source_relid = source AND f.feed_id IS NOT NULL ORDER BY f.flow_id LOOP
        doomed := scd2_internal.own_flow(caller, doomed.name);
        PERFORM scd2_internal.remove_flow(doomed, drop_targets);
    END LOOP;
    IF doomed.flow_id IS NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('"%s" is not tracked', source);
    END IF;
    IF drop_feed THEN
        PERFORM scd2_internal.disable_change_feed(caller, source, true);
    END IF;
END $$;

COMMENT ON FUNCTION scd2_internal.untrack(oid, regclass, boolean, boolean) IS 'What scd2.untrack() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.untrack(source regclass, drop_targets boolean DEFAULT false, drop_feed boolean DEFAULT false) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2.untrack(regclass, boolean, boolean) IS
    'Ends all flows over the feed of "source". Targets stay as ordinary tables, or are dropped with them; the feed goes on, or is disabled and dropped. 55000 if there is no flow, 42501 if not the owner.';

-- pause, resume, drop, refresh

CREATE FUNCTION scd2_internal.pause_flow(caller oid, name name) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    named scd2_internal.flow := scd2_internal.own_flow(caller, name);
BEGIN
    UPDATE scd2_internal.flow AS f SET paused = true WHERE f.flow_id = named.flow_id AND NOT f.paused;
END $$;

COMMENT ON FUNCTION scd2_internal.pause_flow(oid, name) IS 'What scd2.pause_flow() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.pause_flow(name name) RETURNS void AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2.pause_flow(name) IS 'Stops a flow after its current batch, until resume_flow(). 42704 no such flow, 42501 not the owner of its target.';

CREATE FUNCTION scd2_internal.resume_flow(caller oid, name name) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    named scd2_internal.flow := scd2_internal.own_flow(caller, name);
BEGIN
    UPDATE scd2_internal.flow AS f SET paused = false WHERE f.flow_id = named.flow_id AND f.paused;
    UPDATE scd2_internal.flow_state AS s SET phase = coalesce(s.failed_phase, s.phase), failed_phase = NULL, failures = 0, retry_at = NULL
        WHERE s.flow_id = named.flow_id AND (s.failures > 0 OR s.retry_at IS NOT NULL OR s.failed_phase IS NOT NULL);
    PERFORM scd2_internal.wake_apply_at_commit();
END $$;

COMMENT ON FUNCTION scd2_internal.resume_flow(oid, name) IS 'What scd2.resume_flow() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.resume_flow(name name) RETURNS void AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2.resume_flow(name) IS 'Has a paused or failed flow go on where it stopped. 42704 no such flow, 42501 not the owner of its target.';

CREATE FUNCTION scd2_internal.drop_flow(caller oid, name name, drop_target boolean) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.remove_flow(scd2_internal.own_flow(caller, name), drop_target);
END $$;

COMMENT ON FUNCTION scd2_internal.drop_flow(oid, name, boolean) IS 'What scd2.drop_flow() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.drop_flow(name name, drop_target boolean DEFAULT false) RETURNS void AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2.drop_flow(name, boolean) IS
    'Ends a flow. Its target stays as an ordinary table, or is dropped with it. 42704 no such flow, 42501 not the owner of its target, 55P03 if a batch does not end within pg_scd2.lock_timeout.';

CREATE FUNCTION scd2_internal.full_refresh(caller oid, target regclass, key_filter text, allow_loss boolean) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    refreshed scd2_internal.flow;
    state     scd2_internal.flow_state;
    feed      record;
    lost_from bigint;
    lost_at   timestamptz;
BEGIN
    IF target IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'target must not be NULL';
    END IF;
    PERFORM scd2_internal.refuse_unsupported('key_filter', key_filter IS NOT NULL);
    SELECT f.* INTO refreshed FROM scd2_internal.flow AS f WHERE f.target_relid = target;
    IF NOT FOUND THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('"%s" is not the target of a flow', target);
    END IF;
    refreshed := scd2_internal.own_flow(caller, refreshed.name);
    PERFORM scd2_internal.lock_flow(refreshed.flow_id);
    SELECT s.* INTO state FROM scd2_internal.flow_state AS s WHERE s.flow_id = refreshed.flow_id;
    IF NOT FOUND THEN           -- it has not even begun: the first copy is still to come
        RETURN;
    END IF;
    PERFORM scd2_internal.check_feed_runs(refreshed.feed_id, state.begin_version);
    SELECT f.feed_relid, s.earliest_version INTO feed
        FROM scd2_internal.feed AS f LEFT JOIN scd2_internal.feed_state AS s USING (feed_id) WHERE f.feed_id = refreshed.feed_id;
    -- The table as it was at the beginning is today's with all later changes undone; that needs them all, and a TRUNCATE does not say what it took.
    lost_from := scd2_internal.as_owner(feed.feed_relid,
        format('SELECT max(_commit_version) FROM %s WHERE _commit_version > $1 AND _change_type = ''truncate''', feed.feed_relid::regclass), state.begin_version);
    lost_from := greatest(lost_from, CASE WHEN feed.earliest_version > state.begin_version THEN feed.earliest_version END);
    IF lost_from IS NOT NULL AND NOT coalesce(allow_loss, false) THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('a full refresh of "%s" would lose history', target),
            DETAIL = format('The flow began at version %s; the table can be rebuilt from version %s on, after %s.', state.begin_version, lost_from,
                            CASE WHEN lost_from = feed.earliest_version THEN 'retention removed what was before' ELSE 'a TRUNCATE of its source' END),
            HINT = format('SELECT scd2.full_refresh(%L, allow_loss => true);', target::text);
    END IF;
    IF lost_from IS NOT NULL THEN
        lost_at := scd2_internal.as_owner(feed.feed_relid,
            format('SELECT max(_commit_timestamp) FROM %s WHERE _commit_version <= $1', feed.feed_relid::regclass), lost_from);
    END IF;
    UPDATE scd2_internal.flow_state AS s SET phase = 'copy', failed_phase = NULL, failures = 0, retry_at = NULL,
            begin_version = coalesce(lost_from, s.begin_version), watermark_version = coalesce(lost_from, s.begin_version),
            begin_timestamp = coalesce(lost_at, s.begin_timestamp), watermark_timestamp = coalesce(lost_at, s.begin_timestamp), finished_at = NULL
        WHERE s.flow_id = refreshed.flow_id;
    PERFORM scd2_internal.wake_apply_at_commit();
END $$;

COMMENT ON FUNCTION scd2_internal.full_refresh(oid, regclass, text, boolean) IS 'What scd2.full_refresh() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.full_refresh(target regclass, key_filter text DEFAULT NULL, allow_loss boolean DEFAULT false) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.full_refresh(regclass, text, boolean) IS
    'Has a worker rebuild the target from its source and feed, with the flow''s recorded beginning; readers see the old rows until it is done. 55000 if history would be lost (allow_loss => true: accept it), 42501 not the owner.';
