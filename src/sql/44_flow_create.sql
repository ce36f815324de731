-- 44_flow_create.sql: create_auto_cdc_flow(), track() and untrack().

CREATE FUNCTION scd2_internal.refuse_over_a_feed(asked scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF asked.end_sequence_by IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'end_sequence_by is for tables whose rows are events',
            DETAIL = 'A change data feed says itself where a row ends.';
    END IF;
    IF asked.input = 'net' THEN
        IF asked.on_invalid_event IS DISTINCT FROM 'fail' THEN
            RAISE invalid_parameter_value USING MESSAGE = 'on_invalid_event needs a sequence_by of its own',
                DETAIL = 'Changes in the order of their commits are never invalid.';
        END IF;
        IF asked.delete_sequence_by IS NOT NULL THEN
            RAISE invalid_parameter_value USING MESSAGE = 'delete_sequence_by needs a sequence_by of its own',
                HINT = 'sequence_by => ''…''';
        END IF;
    ELSIF asked.initial_start IS NOT NULL AND NOT asked.closes THEN
        RAISE invalid_parameter_value
            USING MESSAGE = 'initial_start is for flows over a feed with its default sequence',
            DETAIL = 'Copied rows are valid since their sequence_by.';
    ELSIF asked.closes AND asked.delete_sequence_by IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'delete_sequence_by needs a sequence_by of its own',
            HINT = 'sequence_by => ''…''';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.refuse_over_a_feed(scd2_internal.flow) IS
    'Raises 0A000 or 22023 for arguments that flows over feeds do not have';

-- What is left of a key after a version is told by its last change, if no two rows ever have the key.
CREATE FUNCTION scd2_internal.check_keys_immediate(source oid, keys name[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM pg_index AS i
        WHERE i.indrelid = source AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL
          AND i.indexprs IS NULL
          AND NOT EXISTS (SELECT FROM unnest(i.indkey[0:i.indnkeyatts - 1]) AS k
                          JOIN pg_attribute AS a ON a.attrelid = source AND a.attnum = k WHERE a.attname <> ALL (keys));
    IF NOT FOUND THEN
        RAISE feature_not_supported
            USING MESSAGE = format('keys of "%s" can be the same for a moment', source::regclass),
            DETAIL = 'A flow over its feed into a target that is shared needs a unique index that is not deferrable.';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_keys_immediate(oid, name[]) IS
    'Raises 0A000 unless a unique index guards the keys row by row';

-- How a flow reads its feed: the net effect of each version, or each change, with a sequence of its own. In a target
-- that is shared what comes may be out of order, and is remembered as changes are.
CREATE FUNCTION scd2_internal.over_a_feed(asked scd2_internal.flow, shared boolean) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    others  boolean := EXISTS (SELECT FROM scd2_internal.flow AS f WHERE f.target_relid = asked.target_relid);
    by_time boolean := coalesce(asked.sequence_by, '_commit_timestamp') = '_commit_timestamp';
    source  oid := (SELECT f.source_relid FROM scd2_internal.feed AS f WHERE f.feed_id = asked.feed_id);
    same    name := (SELECT f.name FROM scd2_internal.flow AS f
                     WHERE f.target_relid = asked.target_relid AND f.source_relid = source LIMIT 1);
BEGIN
    IF same IS NOT NULL AND asked.apply_as_truncates IS NULL THEN       -- not meant to be shared: the same call twice
        RAISE duplicate_object USING MESSAGE = format('"%s" is the target of a flow already', asked.target_relid::regclass),
            DETAIL = format('Flow "%s" keeps it from "%s".', same, source::regclass);
    END IF;
    asked.input := CASE WHEN by_time AND NOT coalesce(shared, false) AND NOT others THEN 'net' ELSE 'changes' END;
    asked.closes := by_time AND asked.input = 'changes';
    PERFORM scd2_internal.refuse_over_a_feed(asked);
    IF asked.closes THEN
        asked.sequence_by := '_commit_timestamp';
        PERFORM scd2_internal.check_keys_immediate(source, asked.keys);
    END IF;
    IF (others OR shared) AND asked.apply_as_truncates IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'apply_as_truncates is missing',
            DETAIL = format('A TRUNCATE of "%s" would end the rows of the other flows too.', source::regclass),
            HINT = 'It is ''false'', or ''_change_type = ''''truncate'''''', or what else says so.';
    END IF;
    RETURN asked;
END $$;
COMMENT ON FUNCTION scd2_internal.over_a_feed(scd2_internal.flow, boolean) IS
    'A flow over a feed, with how it reads it; raises what does not go together';

-- The feed through which an event table is read: enabled if it is off. Raises what makes no sense with event tables.
CREATE FUNCTION scd2_internal.event_feed(caller oid, source regclass, once boolean, sequence_by text,
    starting_version bigint, initial_start text, delete_sequence_by text) RETURNS integer
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF sequence_by IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'sequence_by is missing',
            DETAIL = format('The rows of "%s" are taken as events, which must say in which order they happened.',
                source),
            HINT = format('SELECT scd2.track(%L); -- for the history of the table itself; or give sequence_by',
                source::text);
    END IF;
    IF starting_version IS NOT NULL OR initial_start IS NOT NULL OR delete_sequence_by IS NOT NULL THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('%s is for flows over a feed', CASE WHEN starting_version IS NOT NULL
                THEN 'starting_version' WHEN initial_start IS NOT NULL THEN 'initial_start'
                ELSE 'delete_sequence_by' END),
            DETAIL = format('"%s" is a table whose rows are events.', source);
    END IF;
    IF once THEN                -- any relation will do; capture only says when the flow begins
        IF (SELECT c.relkind FROM pg_class AS c WHERE c.oid = source) NOT IN ('r', 'p', 'v', 'm', 'f') THEN
            RAISE wrong_object_type USING MESSAGE = format('"%s" has no rows to read', source);
        END IF;
        PERFORM scd2_internal.require_capture();
        RETURN NULL;
    END IF;
    RETURN scd2_internal.enabled_feed(caller, source);
END $$;
COMMENT ON FUNCTION scd2_internal.event_feed(oid, regclass, boolean, text, bigint, text, text) IS
    'The feed of an event table, enabled if it is off; NULL for a flow that runs once';

CREATE FUNCTION scd2_internal.create_auto_cdc_flow(caller oid, target text, source regclass, keys name[],
    sequence_by text, apply_as_deletes text, apply_as_truncates text,
        column_list name[], except_column_list name[], stored_as_scd_type integer, track_history_column_list name[],
            track_history_except_column_list name[],
        ignore_null_updates boolean, ignore_null_updates_column_list name[],
            ignore_null_updates_except_column_list name[], name name, once boolean,
        source_filter text, delete_sequence_by text, end_sequence_by text, starting_version bigint, initial_start text,
        start_column name, end_column name, current_column name, open_row_index boolean, shared boolean,
            on_invalid_event text, max_lateness text,
        refresh_interval interval, trust boolean) RETURNS name
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    asked scd2_internal.flow;
    place record;
BEGIN
    IF target IS NULL OR source IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = format('%s must not be NULL', CASE
            WHEN target IS NULL THEN 'target' ELSE 'source' END);
    END IF;
    PERFORM scd2_internal.check_not_repeated(once, refresh_interval);

    asked.keys := keys;
    asked.scd_type := stored_as_scd_type;
    asked.start_column := start_column;
    asked.end_column := end_column;
    asked.current_column := current_column;
    asked.sequence_by := sequence_by;
    asked.end_sequence_by := end_sequence_by;
    asked.apply_as_deletes := apply_as_deletes;
    asked.apply_as_truncates := apply_as_truncates;
    asked.source_filter := source_filter;
    asked.on_invalid_event := on_invalid_event;
    asked.initial_start := initial_start;
    asked.starting_version := starting_version;
    asked.refresh_interval := refresh_interval;
    asked.source_relid := source;
    asked.once := coalesce(once, false);
    asked.max_lateness := max_lateness;
    asked.trusted := trust;
    SELECT r.* INTO place FROM scd2_internal.caller_relation(target) AS r;
    asked.name := scd2_internal.flow_name(name, place.relation);
    asked.target_name := place.relation;
    asked.target_relid := place.relid;
    SELECT f.feed_id INTO asked.feed_id FROM scd2_internal.feed AS f WHERE f.feed_relid = source AND NOT f.disabled
        AND NOT asked.once;
    IF FOUND THEN
        asked.delete_sequence_by := delete_sequence_by;
        asked := scd2_internal.over_a_feed(asked, shared);
    ELSE
        asked.input := 'events';
        asked.feed_id := scd2_internal.event_feed(caller, source, asked.once, sequence_by, starting_version,
            initial_start, delete_sequence_by);
        IF apply_as_deletes IS NULL AND end_sequence_by IS NULL AND NOT asked.once THEN
            RAISE NOTICE 'flow into "%" deletes nothing: there is no apply_as_deletes', target;
        END IF;
    END IF;
    asked.target_schema := scd2_internal.place_of(place.schema);
    asked.target_relid := (SELECT c.oid FROM pg_class AS c WHERE c.relnamespace = place.schema AND c.relname = place.relation);     -- it may have come while we waited
    asked.flow_id := scd2_internal.add_feed_flow(caller, asked, column_list, except_column_list,
        track_history_column_list, track_history_except_column_list, open_row_index, shared,
        ignore_null_updates, ignore_null_updates_column_list, ignore_null_updates_except_column_list);
    RETURN (SELECT f.name FROM scd2_internal.flow AS f WHERE f.flow_id = asked.flow_id);
END $$;

COMMENT ON FUNCTION scd2_internal.create_auto_cdc_flow(oid, text, regclass, name[], text, text, text, name[], name[],
    integer, name[], name[], boolean, name[], name[], name, boolean, text, text, text, bigint, text, name, name, name,
    boolean, boolean, text, text, interval, boolean) IS
    'What scd2.create_auto_cdc_flow() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.create_auto_cdc_flow(target text, source regclass, keys name[], sequence_by text DEFAULT NULL,
    apply_as_deletes text DEFAULT NULL, apply_as_truncates text DEFAULT NULL,
        column_list name[] DEFAULT NULL, except_column_list name[] DEFAULT NULL, stored_as_scd_type integer DEFAULT 1,
            track_history_column_list name[] DEFAULT NULL,
        track_history_except_column_list name[] DEFAULT NULL, ignore_null_updates boolean DEFAULT false,
            ignore_null_updates_column_list name[] DEFAULT NULL,
        ignore_null_updates_except_column_list name[] DEFAULT NULL, name name DEFAULT NULL, once boolean DEFAULT false,
            source_filter text DEFAULT NULL,
        delete_sequence_by text DEFAULT NULL, end_sequence_by text DEFAULT NULL, starting_version bigint DEFAULT NULL,
            initial_start text DEFAULT NULL,
        start_column name DEFAULT '__start_at', end_column name DEFAULT '__end_at', current_column name DEFAULT NULL,
            open_row_index boolean DEFAULT false,
        shared boolean DEFAULT false, on_invalid_event text DEFAULT 'fail', max_lateness text DEFAULT NULL,
            refresh_interval interval DEFAULT '0', trust boolean DEFAULT false) RETURNS name
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.create_auto_cdc_flow(text, regclass, name[], text, text, text, name[], name[], integer, name[],
    name[], boolean, name[], name[], name, boolean, text, text, text, bigint, text, name, name, name, boolean, boolean,
    text, text, interval, boolean) IS
    'Declares a flow that keeps "target" (created if it is not there) from "source": a change data feed, a table whose '
    'rows are events, or, with once, any relation whose rows are events; returns the flow''s name. keys: columns that '
    'identify a row; sequence_by, delete_sequence_by, end_sequence_by, initial_start: expressions of when a row is valid; '
    'apply_as_deletes, apply_as_truncates, source_filter: conditions on rows of the source; column_list, track_history_column_list '
    'and ignore_null_updates_column_list, or each with except: columns of the target, that open a version, in which NULL means '
    'not sent; stored_as_scd_type: 1 or 2; name: by default the target''s; starting_version: of the feed; start_column, end_column, '
    'current_column: names; open_row_index: a unique index on the keys of open rows; shared: others write into the target too; '
    'on_invalid_event: fail or quarantine; max_lateness: in the unit of the sequence''s differences; refresh_interval: 0: as changes arrive; '
    'trust: a superuser''s word that code of others may run as the superuser who owns the target. '
    'Errors: 42501 the caller cannot SET ROLE to the owner of the target, who must have SELECT on the source and its feed, 42703/42701 columns, 42804/55000 a target or keys that do not fit, 22023 arguments, '
    '0A000 flows that cannot share a target.';

-- track, untrack

-- Nobody who leaves the target's name to us means the target of another table.
CREATE FUNCTION scd2_internal.refuse_cut_target(source regclass, target oid, relation name, label text) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    base name;
    schema oid;
    free name;
    n integer := 1;
BEGIN
    SELECT c.relname, c.relnamespace INTO base, schema FROM pg_class c WHERE c.oid = source;
    IF target IS NULL OR NOT scd2_internal.is_cut(base, label)
       OR EXISTS (SELECT FROM scd2_internal.flow f JOIN scd2_internal.feed d USING (feed_id) WHERE f.target_relid = target AND d.source_relid = source) THEN
        RETURN;
    END IF;
    LOOP
        n := n + 1;
        free := scd2_internal.object_name(base, format('%s_%s', n, label));
        EXIT WHEN NOT EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = schema AND c.relname = free);
    END LOOP;
    PERFORM scd2_internal.refuse('42P07', format('relation "%s" already exists', scd2_internal.label(target)),
        format('The name "%s_%s" was cut to 63 bytes, and another relation has what is left.', base, label),
        format('SELECT scd2.track(%L, target => %L%s);', source::text, (SELECT format('%I.%I', n.nspname, free) FROM pg_namespace n WHERE n.oid = schema), CASE label WHEN 'current' THEN ', stored_as_scd_type => 1' ELSE '' END));
END $$;
COMMENT ON FUNCTION scd2_internal.refuse_cut_target(regclass, oid, name, text) IS
    'Raises 42P07 if the default name of a target was cut, and is that of a relation which does not come from the source';

CREATE FUNCTION scd2_internal.track(caller oid, source regclass, target text, keys name[], stored_as_scd_type integer,
    sequence_by text, apply_as_deletes text,
        apply_as_truncates text, column_list name[], except_column_list name[], track_history_column_list name[],
            track_history_except_column_list name[], name name,
        source_filter text, delete_sequence_by text, starting_version bigint, initial_start text, start_column name,
            end_column name, current_column name,
        open_row_index boolean, shared boolean, on_invalid_event text, max_lateness text, refresh_interval interval, trust boolean)
            RETURNS regclass
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    asked   scd2_internal.flow;
    feed_id integer;
    place   record;
BEGIN
    IF source IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'source must not be NULL';
    END IF;
    PERFORM scd2_internal.check_owner(caller, source) WHERE (scd2_internal.feed_of(source)).feed_id IS NULL;     -- it would be enabled
    IF target IS NULL THEN
        SELECT c.relnamespace AS schema, w.relation, (SELECT t.oid FROM pg_class AS t WHERE t.relnamespace = c.relnamespace AND t.relname = w.relation) AS relid
            INTO place
            FROM pg_class AS c, scd2_internal.object_name(c.relname, CASE stored_as_scd_type WHEN 1 THEN 'current' ELSE 'history' END) AS w (relation)
            WHERE c.oid = source;
    ELSE
        SELECT r.* INTO place FROM scd2_internal.caller_relation(target) AS r;
    END IF;
    PERFORM scd2_internal.refuse_cut_target(source, place.relid, place.relation, CASE stored_as_scd_type WHEN 1 THEN 'current' ELSE 'history' END) WHERE target IS NULL;
    asked.name := scd2_internal.flow_name(name, place.relation);

    feed_id := scd2_internal.enabled_feed(caller, source);
    IF keys IS NULL THEN
        SELECT array_agg(a.attname ORDER BY k.n) INTO keys
            FROM pg_index AS i CROSS JOIN unnest(i.indkey[0:i.indnkeyatts - 1]) WITH ORDINALITY AS k (attnum, n)
            JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
            WHERE i.indrelid = source AND i.indisprimary;
        IF keys IS NULL THEN
            RAISE object_not_in_prerequisite_state USING MESSAGE = format('"%s" has no primary key', source),
                DETAIL = 'A flow needs keys that identify a row.',
                HINT = format('SELECT scd2.track(%L, keys => ''{…}''); -- columns that a unique index guards',
                    source::text);
        END IF;
    END IF;
    asked.sequence_by := sequence_by;
    asked.delete_sequence_by := delete_sequence_by;
    asked.apply_as_deletes := apply_as_deletes;
    asked.apply_as_truncates := apply_as_truncates;
    asked.source_filter := source_filter;
    asked.feed_id := feed_id;
    asked.target_schema := scd2_internal.place_of(place.schema);
    asked.target_name := place.relation;
    asked.target_relid := (SELECT c.oid FROM pg_class AS c WHERE c.relnamespace = place.schema AND c.relname = place.relation);     -- it may have come while we waited
    asked.keys := keys;
    asked.scd_type := stored_as_scd_type;
    asked.start_column := start_column;
    asked.end_column := end_column;
    asked.current_column := current_column;
    asked.on_invalid_event := on_invalid_event;
    asked.initial_start := initial_start;
    asked.starting_version := starting_version;
    asked.refresh_interval := refresh_interval;
    asked.max_lateness := max_lateness;
    asked.trusted := trust;
    asked := scd2_internal.over_a_feed(asked, shared);
    asked.flow_id := scd2_internal.add_feed_flow(caller, asked, column_list, except_column_list,
        track_history_column_list, track_history_except_column_list, open_row_index, coalesce(shared, false));
    RETURN (SELECT f.target_relid FROM scd2_internal.flow AS f WHERE f.flow_id = asked.flow_id);
END $$;

COMMENT ON FUNCTION scd2_internal.track(oid, regclass, text, name[], integer, text, text, text, name[], name[], name[],
    name[], name, text, text, bigint, text, name, name, name, boolean, boolean, text, text, interval, boolean) IS
    'What scd2.track() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.track(source regclass, target text DEFAULT NULL, keys name[] DEFAULT NULL,
    stored_as_scd_type integer DEFAULT 2, sequence_by text DEFAULT NULL,
        apply_as_deletes text DEFAULT NULL, apply_as_truncates text DEFAULT NULL, column_list name[] DEFAULT NULL,
            except_column_list name[] DEFAULT NULL,
        track_history_column_list name[] DEFAULT NULL, track_history_except_column_list name[] DEFAULT NULL,
            name name DEFAULT NULL, source_filter text DEFAULT NULL,
        delete_sequence_by text DEFAULT NULL, starting_version bigint DEFAULT NULL, initial_start text DEFAULT NULL,
            start_column name DEFAULT '__start_at',
        end_column name DEFAULT '__end_at', current_column name DEFAULT NULL, open_row_index boolean DEFAULT false,
            shared boolean DEFAULT false,
        on_invalid_event text DEFAULT 'fail', max_lateness text DEFAULT NULL, refresh_interval interval DEFAULT '0',
        trust boolean DEFAULT false) RETURNS regclass
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.track(regclass, text, name[], integer, text, text, text, name[], name[], name[], name[], name,
    text, text, bigint, text, name, name, name, boolean, boolean, text, text, interval, boolean) IS
    'Keeps the history (SCD type 2) or the current rows (type 1) of "source" in "target", by default <source>_history '
    'or <source>_current: enables the feed if it is off, creates the target, '
    'copies the rows that are there after the commit, and keeps it from then on. "keys": by default the primary key. '
    'Returns the target. The other arguments and errors as create_auto_cdc_flow.';

CREATE FUNCTION scd2_internal.untrack(caller oid, source regclass, drop_targets boolean, drop_feed boolean) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    doomed scd2_internal.flow;
    owner  oid;
BEGIN
    SELECT c.relowner INTO owner FROM pg_class AS c WHERE c.oid = source;
    PERFORM scd2_internal.check_member(caller, owner, 'table', source::text);
    FOR doomed IN SELECT f.* FROM scd2_internal.flow AS f WHERE f.source_relid = source AND f.feed_id IS NOT NULL
        ORDER BY f.flow_id LOOP
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

COMMENT ON FUNCTION scd2_internal.untrack(oid, regclass, boolean, boolean) IS
    'What scd2.untrack() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.untrack(source regclass, drop_targets boolean DEFAULT false, drop_feed boolean DEFAULT false)
    RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2.untrack(regclass, boolean, boolean) IS
    'Ends all flows over the feed of "source". Targets stay as ordinary tables, or are dropped with them; the feed '
    'goes on, or is disabled and dropped. 55000 if there is no flow, 42501 if not the owner.';

-- pause, resume, drop, refresh
