-- 43_flow_register.sql: the target of a flow, made, found or joined, and the flow's row.
--
-- All of it happens in the caller's transaction: the target, the flow's row, and a control record whose place in the
-- log is the flow's beginning. What follows the commit is the workers'.

-- NULL says nothing in columns that come later, unless a list of columns says in which it does. Of columns that events
-- bring their flow says so; of others, whose images are whole, the flows whose events lack them.
CREATE FUNCTION scd2_internal.ignored_later(target oid, asked scd2_internal.flow, columns name[]) RETURNS name[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY(SELECT c FROM unnest(columns) WITH ORDINALITY AS u (c, n)
        WHERE EXISTS (
            SELECT FROM (SELECT asked.input, asked.ignores_null, asked.options UNION ALL
                         SELECT f.input, f.ignores_null, f.options FROM scd2_internal.flow AS f
                         WHERE f.target_relid = target AND asked.input <> 'events') AS o
            WHERE o.input = 'events' AND o.ignores_null <> '{}' AND o.options -> 'ignore_null_updates_column_list' IS NULL
              AND NOT coalesce(o.options -> 'ignore_null_updates_except_column_list' ? c, false)) ORDER BY n)
$$;
COMMENT ON FUNCTION scd2_internal.ignored_later(oid, scd2_internal.flow, name[]) IS
    'Those of the columns, which a flow brings or lacks, in which NULL says nothing in events of its target';

-- A flow brings columns that its target does not have: target, memory and the other flows get them, whose events do not
-- have them. Returns the first of those.
CREATE FUNCTION scd2_internal.widen_target(first scd2_internal.flow, asked scd2_internal.flow, source oid)
    RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    more  name[] := ARRAY(SELECT c FROM unnest(asked.columns) WITH ORDINALITY AS u (c, n) WHERE c <> ALL (first.columns)
        ORDER BY n);
    kept  name[] := CASE WHEN first.scd_type = 2
        THEN ARRAY(SELECT c FROM unnest(more) AS c WHERE first.ignores_null <> '{}' OR c <> ALL (asked.tracked))
        ELSE '{}' END;
    ignored name[] := CASE asked.input WHEN 'events' THEN asked.ignores_null
        ELSE scd2_internal.ignored_later(first.target_relid, asked, more) END;
    added record;
BEGIN
    IF more = '{}' THEN
        RETURN first;
    END IF;
    PERFORM scd2_internal.check_memory_columns(kept, first.target_relid, first.memory_name);
    PERFORM scd2_internal.lock_tables(ARRAY[first.target_relid, first.memory_relid],
        ARRAY['ACCESS EXCLUSIVE', 'ACCESS EXCLUSIVE']);
    FOR added IN
        SELECT t.name, t.type || CASE WHEN c.oid IS NULL THEN ''
            ELSE ' COLLATE ' || scd2_internal.fixed_collation(c.oid) END AS type
        FROM scd2_internal.target_columns(source, more, '{}', 1, NULL, NULL, NULL, NULL, NULL) AS t
        LEFT JOIN pg_collation AS c ON c.oid = t.collation
            ORDER BY t.ordinal
    LOOP
        EXECUTE format('ALTER TABLE %s ADD COLUMN %I %s', scd2_internal.fixed_name(first.target_relid), added.name, added.type);
        IF added.name = ANY (kept) THEN
            EXECUTE format('ALTER TABLE %s ADD COLUMN %I %s', scd2_internal.fixed_name(first.memory_relid), added.name, added.type);
        END IF;
    END LOOP;
    UPDATE scd2_internal.flow AS f SET columns = f.columns || more, absent = f.absent || more,
            tracked = f.tracked || ARRAY(SELECT c FROM unnest(more) AS c WHERE c = ANY (asked.tracked)),
            ignores_null = f.ignores_null || ARRAY(SELECT c FROM unnest(more) AS c WHERE c = ANY (ignored) AND c <> ALL (f.ignores_null))
        WHERE f.target_relid = first.target_relid;
    SELECT f.* INTO first FROM scd2_internal.flow AS f WHERE f.flow_id = first.flow_id;
    RETURN first;
END $$;
COMMENT ON FUNCTION scd2_internal.widen_target(scd2_internal.flow, scd2_internal.flow, oid) IS
    'Adds the columns to a target that a flow brings into it';

-- A column that a flow brings and its target has: both of one type.
CREATE FUNCTION scd2_internal.differing_column(target oid, source oid, columns name[]) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN format_type(b.base, b.base_typmod) <> t.type
        THEN format('Its column "%s" is of type %s instead of %s.', t.name, format_type(b.base, b.base_typmod), t.type)
                ELSE format('Its column "%s" has another collation.', t.name) END
    FROM scd2_internal.target_columns(source, columns, '{}', 1, NULL, NULL, NULL, NULL, NULL) AS t
        JOIN pg_attribute AS a ON a.attrelid = target AND a.attname = t.name AND NOT a.attisdropped
        CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) AS b
    WHERE format_type(b.base, b.base_typmod) <> t.type OR a.attcollation <> t.collation
    ORDER BY t.ordinal LIMIT 1
$$;
COMMENT ON FUNCTION scd2_internal.differing_column(oid, oid, name[]) IS
    'What differs in a column that a target and a source have; NULL: nothing';

-- Events in which NULL says nothing come to a flow that has its target for itself: there is no memory yet that would
-- have taken NULL for a value. What the target has is whole.
CREATE FUNCTION scd2_internal.ignore_null_from_now(first scd2_internal.flow, asked scd2_internal.flow)
    RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF asked.input = 'events' AND asked.ignores_null <> '{}' AND first.ignores_null = '{}'
        AND first.memory_relid IS NULL THEN
        UPDATE scd2_internal.flow AS f
            SET ignores_null = asked.ignores_null || scd2_internal.ignored_later(first.target_relid, asked,
                ARRAY(SELECT c FROM unnest(first.columns) WITH ORDINALITY AS u (c, n)
                      WHERE c <> ALL (asked.columns || first.keys) ORDER BY n))
            WHERE f.flow_id = first.flow_id RETURNING f.* INTO first;
    END IF;
    RETURN first;
END $$;
COMMENT ON FUNCTION scd2_internal.ignore_null_from_now(scd2_internal.flow, scd2_internal.flow) IS
    'The first flow into a target as it is when one joins whose events ignore NULL';

-- Of the columns that a flow brings and the target has, are those on both lists the same?
CREATE FUNCTION scd2_internal.agree(theirs name[], target_columns name[], ours name[], own_columns name[])
    RETURNS boolean
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY(SELECT c FROM unnest(theirs) AS c WHERE c = ANY (own_columns)) <@ ours
       AND ARRAY(SELECT c FROM unnest(ours) AS c WHERE c = ANY (target_columns)) <@ theirs
$$;
COMMENT ON FUNCTION scd2_internal.agree(name[], name[], name[], name[]) IS
    'Whether two flows say the same of the columns that both bring';

CREATE FUNCTION scd2_internal.what_differs(asked scd2_internal.flow, first scd2_internal.flow, source oid)
    RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE
        WHEN asked.keys <> first.keys THEN format('Its keys are %s instead of %s.', first.keys, asked.keys)
        WHEN asked.scd_type <> first.scd_type THEN format('It is of SCD type %s.', first.scd_type)
        WHEN asked.sequence_type <> first.sequence_type
            THEN format('Its sequence is of type %s instead of %s.', first.sequence_type, asked.sequence_type)
        WHEN d.column IS NOT NULL THEN d.column
        -- images of feeds and snapshots are whole, whatever NULL is in events
        WHEN asked.input = 'events' AND first.ignores_null = '{}' AND asked.ignores_null <> '{}'
            THEN 'It has remembered NULL as a value so far: a flow that ignores NULL is the first into a target, or comes to one that has it for itself.'
        WHEN asked.input = 'events'
            AND NOT scd2_internal.agree(first.ignores_null, first.columns, asked.ignores_null, asked.columns)
            THEN format('The columns of which it ignores NULL are %s.', first.ignores_null)
        WHEN asked.scd_type = 2
            AND NOT scd2_internal.agree(first.tracked, first.columns, asked.tracked, asked.columns)
            THEN format('Its tracked columns are %s.', first.tracked)
        WHEN asked.scd_type = 2 AND ROW(asked.start_column, asked.end_column, asked.current_column)
            IS DISTINCT FROM ROW(first.start_column, first.end_column, first.current_column)
            THEN 'The columns of its interval have other names.' END
    FROM (SELECT scd2_internal.differing_column(first.target_relid, source,
            ARRAY(SELECT c FROM unnest(asked.columns) WITH ORDINALITY AS u (c, n) WHERE c = ANY (first.columns)
                  ORDER BY n))) AS d ("column")
$$;
COMMENT ON FUNCTION scd2_internal.what_differs(scd2_internal.flow, scd2_internal.flow, oid) IS
    'In what a flow does not agree with those into a target, of which one is given; NULL: in nothing';

-- A flow into a target that has one: what both declare must agree. The new flow takes the target's columns; those that
-- it lacks are NULL in its events.
CREATE FUNCTION scd2_internal.join_target(caller oid, asked scd2_internal.flow, first scd2_internal.flow, source oid)
    RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    target  regclass := first.target_relid;
    differs text;
    own     name[] := asked.columns;
BEGIN
    IF asked.kind = 'append' OR first.kind = 'append' THEN
        RAISE feature_not_supported USING MESSAGE = format('"%s" is the target of a flow already', target),
            DETAIL = 'A target that is appended to is kept by such flows only.';
    END IF;
    first := scd2_internal.ignore_null_from_now(first, asked);
    differs := scd2_internal.what_differs(asked, first, source);
    IF differs IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = format('flow does not agree with the others into "%s"', target),
            DETAIL = differs;
    END IF;
    IF first.sequence_column IS NOT NULL AND first.sequence_column IS DISTINCT FROM asked.sequence_column THEN
        RAISE object_not_in_prerequisite_state
            USING MESSAGE = format('flow "%s" has its target for itself', first.name),
            DETAIL = format('What it remembers of "%s" is in column "%s".', target, first.sequence_column),
                HINT = 'Create the first flow with shared => true.';
    END IF;
    IF first.memory_relid IS NULL THEN
        first := scd2_internal.remember_from_now(first);
    END IF;
    first := scd2_internal.widen_target(first, asked, source);
    asked.absent := ARRAY(SELECT c FROM unnest(first.columns) AS c WHERE c <> ALL (own));
    asked.columns := first.columns;
    asked.tracked := first.tracked;
    asked.ignores_null := first.ignores_null;
    asked.sequence_column := first.sequence_column;
    asked.memory_relid := first.memory_relid;
    asked.memory_name := first.memory_name;
    UPDATE scd2_internal.flow AS f SET definition = f.definition + 1 WHERE f.target_relid = first.target_relid;
    RETURN asked;
END $$;
COMMENT ON FUNCTION scd2_internal.join_target(oid, scd2_internal.flow, scd2_internal.flow, oid) IS
    'Raises what does not agree with the flows that are there; returns the flow as it joins them';

-- A flow with the memory of its target, which is made.
CREATE FUNCTION scd2_internal.give_memory(asked scd2_internal.flow, layout oid, sequence_collation oid)
    RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    asked.memory_relid := scd2_internal.create_memory((SELECT c.relowner FROM pg_class AS c
        WHERE c.oid = asked.target_relid), asked.target_relid, layout, asked.keys,
        CASE asked.scd_type WHEN 2 THEN ARRAY(SELECT c FROM unnest(asked.columns) WITH ORDINALITY AS u (c, n)
                                              WHERE c <> ALL (asked.keys) AND (asked.ignores_null <> '{}'
                                                  OR c <> ALL (asked.tracked)) ORDER BY n) ELSE '{}' END,
        asked.scd_type, asked.sequence_type, sequence_collation, asked.ignores_null);
    asked.memory_name := (SELECT c.relname FROM pg_class AS c WHERE c.oid = asked.memory_relid);
    RETURN asked;
END $$;
COMMENT ON FUNCTION scd2_internal.give_memory(scd2_internal.flow, oid, oid) IS
    'Creates the memory of the flow''s target, with the types that the relation "layout" has; returns the flow with it';

CREATE FUNCTION scd2_internal.check_columns_captured(feed_id integer) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    pending text := scd2_internal.columns_pending(feed_id);
BEGIN
    IF pending IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('capture is behind a change of column "%s" of table "%s"', pending,
            (SELECT scd2_internal.label(f.source_relid) FROM scd2_internal.feed f WHERE f.feed_id = check_columns_captured.feed_id)),
            DETAIL = 'What the column is called in the change data feed is not known yet.', HINT = 'SELECT scd2.sync(); -- then again';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_columns_captured(integer) IS
    'Raises 55000 if columns of a source have names that its feed does not have yet';

-- The columns a flow can select: those of the source, and, if it is read through a feed, that its feed has. The feed
-- may not have met the newest yet: they are added.
CREATE FUNCTION scd2_internal.selectable_columns(asked scd2_internal.flow, source oid) RETURNS name[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF asked.feed_id IS NULL THEN
        RETURN (SELECT array_agg(a.attname ORDER BY a.attnum) FROM pg_attribute AS a
                WHERE a.attrelid = source AND a.attnum > 0 AND NOT a.attisdropped);
    END IF;
    PERFORM scd2_internal.check_feed_runs(asked.feed_id, asked.starting_version);
    PERFORM scd2_internal.check_columns_captured(asked.feed_id);
    PERFORM scd2_internal.add_missing_columns(f, f.except_columns)
        FROM scd2_internal.feed AS f WHERE f.feed_id = asked.feed_id;
    RETURN scd2_internal.feed_columns(asked.feed_id);
END $$;
COMMENT ON FUNCTION scd2_internal.selectable_columns(scd2_internal.flow, oid) IS
    'The columns that a flow can select. Raises 55000 if its feed does not run';

CREATE FUNCTION scd2_internal.with_columns(asked scd2_internal.flow, source oid, allowed name[], column_list name[],
        except_column_list name[]) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce(cardinality(asked.keys), 0) = 0 THEN
        RAISE invalid_parameter_value USING MESSAGE = format('flow over "%s" has no keys', source::regclass),
            HINT = 'Name the columns that identify a row: keys => ''{…}''.';
    END IF;
    PERFORM scd2_internal.check_column_list(asked.keys, allowed, 'keys', source::regclass::text);
    asked.columns := scd2_internal.choose_columns(column_list, except_column_list, allowed,
                                                  'column_list', 'except_column_list', source::regclass::text);
    IF NOT asked.keys <@ asked.columns THEN
        RAISE invalid_parameter_value USING MESSAGE = 'keys must be among the selected columns',
            DETAIL = format('Not selected: %s.', (SELECT string_agg(k, ', ') FROM unnest(asked.keys) AS k
                                                  WHERE k <> ALL (asked.columns)));
    END IF;
    IF asked.input IN ('net', 'changes') THEN
        PERFORM scd2_internal.check_keys_guarded(source, asked.keys);
    END IF;
    RETURN asked;
END $$;
COMMENT ON FUNCTION scd2_internal.with_columns(scd2_internal.flow, oid, name[], name[], name[]) IS
    'A flow with its selected columns; raises what is wrong with its keys and lists';

-- The sequence of events that have one of their own. "reads": over whose columns the expressions are. "lone": the
-- target may be read for what was remembered.
CREATE FUNCTION scd2_internal.with_event_sequence(caller oid, asked scd2_internal.flow, reads oid, allowed name[],
    lone boolean,
        OUT flow scd2_internal.flow, OUT sequence_collation oid, OUT control_columns name[])
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    struct record;
    events record;
    ends   record;
BEGIN
    SELECT f.* INTO struct FROM scd2_internal.struct_fields(asked.sequence_by) AS f;
    IF struct.names IS NOT NULL THEN
        asked.sequence_by := scd2_internal.create_sequence_type(asked.author,
            asked.target_schema, asked.target_name, reads, struct.names, struct.expressions);
    END IF;
    SELECT e.* INTO events FROM scd2_internal.check_event_expressions(asked, reads, allowed) AS e;
    asked.sequence_type := events.sequence_type;
    IF asked.input = 'changes' THEN
        asked.delete_sequence_by := scd2_internal.delete_sequence(asked, reads, events.sequence_type,
                                                                  allowed && events.control_columns);
        IF asked.closes THEN
            asked.apply_as_truncates := coalesce(asked.apply_as_truncates, '_change_type = ''truncate''');
        ELSE
            asked.apply_as_deletes := scd2_internal.changes_that_delete(asked.apply_as_deletes);
            asked.apply_as_truncates := scd2_internal.changes_that_empty(asked.apply_as_truncates);
        END IF;
    END IF;
    control_columns := events.control_columns;
    IF asked.end_sequence_by IS NOT NULL THEN
        SELECT e.* INTO ends
            FROM scd2_internal.end_sequence(asked.end_sequence_by, reads, events.sequence_type, allowed, asked.author) AS e;
        asked.end_sequence_by := ends.expression;
        control_columns := control_columns || ends.column_names;
    END IF;
    IF lone THEN
        asked.sequence_column := (SELECT c FROM unnest(asked.columns) AS c
                                  WHERE asked.sequence_by IN (c, quote_ident(c)) AND control_columns[1] = c LIMIT 1);
    END IF;
    flow := asked;
    sequence_collation := events.sequence_collation;
END $$;
COMMENT ON FUNCTION scd2_internal.with_event_sequence(oid, scd2_internal.flow, oid, name[], boolean) IS
    'A flow with the sequence of its events, and the columns that say what an event is; raises what is wrong with its '
    'expressions';

CREATE FUNCTION scd2_internal.check_interval_columns(asked scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.check_flow_column('start_column', asked.start_column, asked.columns,
                                            ARRAY[asked.end_column, asked.current_column]);
    PERFORM scd2_internal.check_flow_column('end_column', asked.end_column, asked.columns,
                                            ARRAY[asked.start_column, asked.current_column]);
    IF asked.current_column IS NOT NULL THEN
        PERFORM scd2_internal.check_flow_column('current_column', asked.current_column, asked.columns,
                                                ARRAY[asked.start_column, asked.end_column]);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_interval_columns(scd2_internal.flow) IS
    'Raises what is wrong with the names of a type 2 target''s own columns';

-- The flow's table: created, or found and fitting, or that of other flows. "layout" has the types of the columns.
CREATE FUNCTION scd2_internal.with_target(caller oid, asked scd2_internal.flow, source oid, layout oid,
    sequence_collation oid,
        open_row_index boolean, shared boolean) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first scd2_internal.flow;
BEGIN
    IF asked.target_relid IS NULL THEN
        asked.target_relid := scd2_internal.create_target(caller, asked.target_schema, asked.target_name, source,
            asked.columns, asked.keys, asked.scd_type, asked.input, asked.sequence_type, sequence_collation,
            asked.start_column, asked.end_column, asked.current_column, open_row_index);
    ELSE
        PERFORM scd2_internal.check_no_cycle(source, asked.target_relid);
        SELECT f.* INTO first FROM scd2_internal.flow AS f
            WHERE f.target_relid = asked.target_relid ORDER BY f.flow_id LIMIT 1;
        IF FOUND THEN
            RETURN scd2_internal.join_target(caller, asked, first, source);
        END IF;
        PERFORM scd2_internal.check_target_fits(caller, asked.target_relid, source,
            asked.columns, asked.keys, asked.scd_type, asked.sequence_type, sequence_collation,
            asked.start_column, asked.end_column, asked.current_column);
    END IF;
    PERFORM scd2_internal.dress_target(asked.target_relid, asked.scd_type, asked.sequence_type,
                                       asked.start_column, asked.end_column);
    IF asked.input IN ('changes', 'events') OR asked.input = 'snapshots' AND shared THEN
        asked := scd2_internal.give_memory(asked, layout, sequence_collation);
    END IF;
    RETURN asked;
END $$;
COMMENT ON FUNCTION scd2_internal.with_target(oid, scd2_internal.flow, oid, oid, oid, boolean, boolean) IS
    'A flow with its target and what belongs to it; raises why it cannot have it';

-- Marks and what ignores NULL of type 1 are kept with arrays of the sequence's type.
CREATE FUNCTION scd2_internal.check_array_type(asked scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF asked.input = 'events'
       AND (asked.apply_as_truncates IS NOT NULL OR asked.scd_type = 1 AND asked.ignores_null <> '{}')
       AND (SELECT t.typarray FROM pg_type AS t WHERE t.oid = asked.sequence_type::regtype) = 0 THEN
        RAISE feature_not_supported USING MESSAGE = format('a sequence of type %s does not go with %s',
            asked.sequence_type,
            CASE WHEN asked.apply_as_truncates IS NOT NULL THEN 'apply_as_truncates' ELSE 'ignore_null_updates' END);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_array_type(scd2_internal.flow) IS
    'Raises 0A000 where arrays of the sequence''s type are needed and there are none';

-- The flow's row, and its place in the log. (One that takes snapshots begins at no place.)
CREATE FUNCTION scd2_internal.register_flow(asked scd2_internal.flow, source oid) RETURNS integer
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    asked.kind := CASE asked.input WHEN 'snapshots' THEN 'snapshot' ELSE 'auto_cdc' END;
    asked.source_relid := source;
    PERFORM scd2_internal.check_expression_owners(asked);
    SELECT n.nspname, c.relname INTO asked.source_schema, asked.source_name
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = source;
    INSERT INTO scd2_internal.flow AS f (name, kind, target_schema, target_name, target_relid, source_schema,
        source_name,
            source_relid, feed_id, scd_type, keys, columns, tracked, start_column, end_column, current_column, input,
            closes, ignores_null, absent, sequence_by, sequence_type, sequence_column, delete_sequence_by,
                end_sequence_by,
            apply_as_deletes, apply_as_truncates, source_filter, on_invalid_event, max_lateness, memory_name,
                memory_relid,
            initial_start, starting_version, once, refresh_interval, scope, delete_absent, max_delete_fraction,
            version_query, options, settings, author, trusted)
        VALUES (asked.name, asked.kind, asked.target_schema, asked.target_name, asked.target_relid, asked.source_schema,
            asked.source_name, asked.source_relid, asked.feed_id, asked.scd_type, asked.keys, asked.columns,
                asked.tracked,
            asked.start_column, asked.end_column, asked.current_column, asked.input, coalesce(asked.closes, false),
                asked.ignores_null,
            coalesce(asked.absent, '{}'), asked.sequence_by, asked.sequence_type, asked.sequence_column,
            asked.delete_sequence_by, asked.end_sequence_by, asked.apply_as_deletes, asked.apply_as_truncates,
            asked.source_filter, asked.on_invalid_event, asked.max_lateness, asked.memory_name, asked.memory_relid,
            asked.initial_start, asked.starting_version, coalesce(asked.once, false), asked.refresh_interval,
                asked.scope,
            coalesce(asked.delete_absent, true), asked.max_delete_fraction, asked.version_query, asked.options,
            ARRAY(SELECT s || '=' || current_setting(s) FROM unnest('{TimeZone,DateStyle,IntervalStyle}'::text[]) AS s),
            asked.author, asked.trusted)
        RETURNING f.flow_id INTO asked.flow_id;
    PERFORM scd2_internal.know_columns(asked.flow_id);
    PERFORM scd2_internal.know_source_columns(asked.flow_id);
    IF asked.input = 'snapshots' THEN
        INSERT INTO scd2_internal.flow_state
                (flow_id, phase, begin_version, begin_timestamp, watermark_version, watermark_timestamp)
            VALUES (asked.flow_id, 'apply', 0, now(), 0, now());
        PERFORM scd2_internal.wake_apply_at_commit();
    ELSE
        INSERT INTO scd2_internal.control (kind, flow_id, feed_id) VALUES ('begin flow', asked.flow_id, asked.feed_id);
    END IF;
    RETURN asked.flow_id;
END $$;
COMMENT ON FUNCTION scd2_internal.register_flow(scd2_internal.flow, oid) IS
    'Writes the definition of a flow and its control record; returns the flow_id';

-- What orders the events of a flow, and the columns that say what an event is. "feed": NULL if it has none; "lone": as
-- above.
CREATE FUNCTION scd2_internal.with_sequence(caller oid, asked scd2_internal.flow, source oid, feed oid, allowed name[],
    lone boolean, OUT flow scd2_internal.flow, OUT sequence_collation oid, OUT control_columns name[])
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    events record;
BEGIN
    sequence_collation := 0;
    IF asked.input = 'snapshots' THEN
        SELECT e.* INTO events FROM scd2_internal.snapshot_sequence(asked.sequence_type, source, asked.author) AS e;
        PERFORM scd2_internal.check_snapshot_flow(asked, source, events.sequence_type);
        asked.sequence_type := events.sequence_type;
        sequence_collation := events.sequence_collation;
        control_columns := events.control_columns;
    ELSIF asked.input = 'net' THEN
        asked.sequence_type := 'timestamp with time zone';
        control_columns := scd2_internal.check_image_expressions(asked, source, feed, allowed);
    ELSE
        events := scd2_internal.with_event_sequence(caller, asked,
            CASE asked.input WHEN 'changes' THEN feed ELSE source END, allowed, lone);
        asked := events.flow;
        sequence_collation := events.sequence_collation;
        control_columns := events.control_columns;
    END IF;
    flow := asked;
END $$;
COMMENT ON FUNCTION scd2_internal.with_sequence(oid, scd2_internal.flow, oid, oid, name[], boolean) IS
    'A flow with its sequence, and the columns that are not tracked by default; raises what is wrong with its '
    'expressions';

-- Everything about a flow that track(), create_auto_cdc_flow() and create_auto_cdc_from_snapshot_flow() all do. "asked"
-- has the arguments that are columns of the catalog; the rest of it is filled in here.
CREATE FUNCTION scd2_internal.add_feed_flow(caller oid, asked scd2_internal.flow, column_list name[],
    except_column_list name[],
        track_list name[], track_except_list name[], open_row_index boolean, shared boolean,
        ignore_null boolean DEFAULT false, ignore_list name[] DEFAULT NULL, ignore_except_list name[] DEFAULT NULL)
    RETURNS integer
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    feed      scd2_internal.feed;
    source    oid;
    allowed   name[];
    sequenced record;
BEGIN
    SELECT f.* INTO feed FROM scd2_internal.feed AS f WHERE f.feed_id = asked.feed_id;
    source := coalesce(feed.source_relid, asked.source_relid);      -- flows that run once have no feed
    asked := scd2_internal.with_author(caller, asked, source, feed.feed_relid, asked.trusted);
    PERFORM scd2_internal.check_flow_arguments(asked, open_row_index, track_list, track_except_list);
    asked.options := jsonb_strip_nulls(jsonb_build_object('sequence_by', asked.sequence_by,
        'column_list', column_list, 'except_column_list', except_column_list, 'track_history_column_list', track_list,
        'track_history_except_column_list', track_except_list, 'open_row_index', open_row_index, 'shared', shared,
        'ignore_null_updates', ignore_null, 'ignore_null_updates_column_list', ignore_list,
        'ignore_null_updates_except_column_list', ignore_except_list));
    allowed := scd2_internal.selectable_columns(asked, source);
    asked := scd2_internal.with_columns(asked, source, allowed, column_list, except_column_list);

    sequenced := scd2_internal.with_sequence(caller, asked, source, feed.feed_relid, allowed,
        NOT (shared OR coalesce(ignore_null, false) OR ignore_list IS NOT NULL OR ignore_except_list IS NOT NULL));
    asked := sequenced.flow;
    asked.max_lateness := scd2_internal.check_max_lateness(asked.max_lateness, asked, asked.sequence_type);
    asked.ignores_null := scd2_internal.ignored_nulls(asked, ignore_null, ignore_list, ignore_except_list, source);
    asked.tracked := scd2_internal.tracked_columns(track_list, track_except_list, asked.columns, asked.keys,
                                                   sequenced.control_columns, source);
    IF asked.scd_type = 2 THEN
        PERFORM scd2_internal.check_interval_columns(asked);
    END IF;
    IF asked.initial_start IS NOT NULL THEN
        PERFORM scd2_internal.check_expression(asked.initial_start, source, 'timestamptz'::regtype, 'initial_start',
            asked.author);
    END IF;
    IF asked.starting_version IS NOT NULL THEN
        PERFORM scd2_internal.check_starting_version(asked.feed_id, source, asked.starting_version);
    END IF;

    asked := scd2_internal.with_target(caller, asked, source, coalesce(feed.feed_relid, source),
                                       sequenced.sequence_collation, open_row_index, shared);
    PERFORM scd2_internal.check_array_type(asked);
    IF asked.scope IS NOT NULL AND asked.memory_relid IS NOT NULL THEN
        PERFORM scd2_internal.check_immutable(asked.scope, source, 'scope', asked.author);
    END IF;
    RETURN scd2_internal.register_flow(asked, source);
END $$;
COMMENT ON FUNCTION scd2_internal.add_feed_flow(oid, scd2_internal.flow, name[], name[], name[], name[], boolean,
    boolean, boolean, name[], name[]) IS
    'Checks, creates the target, registers the flow and its control record; returns the flow_id';

CREATE FUNCTION scd2_internal.refuse_with_type_1(argument text, given boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF given THEN
        RAISE invalid_parameter_value USING MESSAGE = format('%s needs SCD type 2', argument),
            HINT = 'stored_as_scd_type => 2';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.refuse_with_type_1(text, boolean) IS
    'Raises 22023 if an argument for histories was given for a type 1 target';

CREATE FUNCTION scd2_internal.check_flow_column(argument text, column_name name, selected name[], others name[])
    RETURNS void
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
COMMENT ON FUNCTION scd2_internal.check_flow_column(text, name, name[], name[]) IS
    'Raises if a column of the flow has no name or that of another column';

-- Where the target was dropped, whoever owns the source, or what is left of its feed, may clear up.
CREATE FUNCTION scd2_internal.flow_owner(flow scd2_internal.flow) RETURNS oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT c.relowner FROM pg_class c WHERE c.oid = flow.target_relid),
                    (SELECT c.relowner FROM pg_class c WHERE c.oid = flow.source_relid),
                    (SELECT c.relowner FROM scd2_internal.feed f JOIN pg_class c ON c.oid = f.feed_relid
                        WHERE f.feed_id = flow.feed_id))
$$;
COMMENT ON FUNCTION scd2_internal.flow_owner(scd2_internal.flow) IS
    'Whose flow it is: the owner of the target; NULL if target, source and feed are gone';

-- A flow and the rights of who names it.
CREATE FUNCTION scd2_internal.find_flow(caller oid, flow_name name) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    named scd2_internal.flow;
BEGIN
    SELECT f.* INTO named FROM scd2_internal.flow AS f WHERE f.name = flow_name;
    IF NOT FOUND THEN
        RAISE undefined_object USING MESSAGE = format('flow "%s" does not exist', flow_name),
            HINT = 'SELECT flow FROM scd2.flows;';
    END IF;
    PERFORM scd2_internal.check_member(caller, coalesce(scd2_internal.flow_owner(named), 10), 'the target of flow',
        flow_name);
    RETURN named;
END $$;
COMMENT ON FUNCTION scd2_internal.find_flow(oid, name) IS
    'The flow; 42704 if there is none, 42501 unless the caller owns its target';

-- And nobody else changes it before the transaction ends.
CREATE FUNCTION scd2_internal.own_flow(caller oid, flow_name name) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM scd2_internal.flow AS f WHERE f.name = flow_name FOR NO KEY UPDATE;
    RETURN scd2_internal.find_flow(caller, flow_name);
END $$;
COMMENT ON FUNCTION scd2_internal.own_flow(oid, name) IS
    'The flow, locked; 42704 if there is none, 42501 unless the caller owns its target';

-- A flow was written for the owner that its target had then. Who gets the target looks first.
CREATE FUNCTION scd2_internal.check_authorized(w scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner CONSTANT oid := (SELECT c.relowner FROM pg_class AS c WHERE c.oid = w.target_relid);
BEGIN
    IF owner <> w.author::oid THEN
        RAISE insufficient_privilege
            USING MESSAGE = format('flow "%s" is not authorized: its target %s belongs to role "%s"', w.name, w.target_relid::regclass, pg_get_userbyid(owner)),
            DETAIL = CASE WHEN w.author::oid = 0 THEN 'Whom it was written for is not known here.'
                ELSE format('It was written for role "%s".', pg_get_userbyid(w.author)) END,
            HINT = format('SELECT * FROM scd2.authorize_flow(%L); -- shows what will run as that role, which it is for to say', w.name);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_authorized(scd2_internal.flow) IS
    'Raises 42501 if the target of a flow has another owner than it was written for';

-- The flow, locked, for someone who changes what it does: that runs as its target's owner.
CREATE FUNCTION scd2_internal.flow_to_change(caller oid, flow_name name) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    named scd2_internal.flow;
BEGIN
    SELECT f.* INTO named FROM scd2_internal.flow AS f WHERE f.name = flow_name FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN scd2_internal.find_flow(caller, flow_name);
    END IF;
    PERFORM scd2_internal.check_can_set_role(caller, coalesce(scd2_internal.flow_owner(named), 10), scd2_internal.label(named.target_relid));
    PERFORM scd2_internal.check_authorized(named);
    RETURN named;
END $$;
COMMENT ON FUNCTION scd2_internal.flow_to_change(oid, name) IS
    'The flow, locked; 42704 if there is none, 42501 unless the caller may SET ROLE to the owner of its target, and the flow is authorized';

CREATE FUNCTION scd2_internal.remove_flow(doomed scd2_internal.flow, drop_target boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    sequence_type oid;
BEGIN
    -- The worker that applies it right now finishes its batch first.
    PERFORM scd2_internal.lock_flow(doomed.flow_id);
    sequence_type := scd2_internal.made_sequence_type(doomed, coalesce(scd2_internal.owner_of(doomed.memory_relid), scd2_internal.flow_owner(doomed)));
    DELETE FROM scd2_internal.flow AS f WHERE f.flow_id = doomed.flow_id;
    PERFORM scd2_internal.wake_apply_at_commit();
    IF NOT EXISTS (SELECT FROM scd2_internal.flow AS f WHERE f.target_relid = doomed.target_relid) THEN
        PERFORM scd2_internal.undress_target(doomed.target_relid, doomed.sequence_type);
        DELETE FROM scd2_internal.mark AS m WHERE m.target_relid = doomed.target_relid;
        DELETE FROM scd2_internal.erased_key AS e WHERE e.target_relid = doomed.target_relid;
        DELETE FROM scd2_internal.purge AS p WHERE p.target_relid = doomed.target_relid;
        IF EXISTS (SELECT FROM pg_class AS c WHERE c.oid = doomed.memory_relid) THEN
            EXECUTE format('DROP TABLE %s', scd2_internal.fixed_name(doomed.memory_relid));
        END IF;
        IF drop_target AND EXISTS (SELECT FROM pg_class AS c WHERE c.oid = doomed.target_relid) THEN
            EXECUTE format('DROP TABLE %s', scd2_internal.fixed_name(doomed.target_relid));
        END IF;
        IF (drop_target OR doomed.scd_type = 1) AND sequence_type IS NOT NULL THEN
            EXECUTE format('DROP TYPE %s', scd2_internal.fixed_type(sequence_type, -1));
        END IF;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.remove_flow(scd2_internal.flow, boolean) IS
    'Removes a flow, and its target''s guard with the last flow into it';

-- Waits for the worker that has the flow, and keeps workers from it until the transaction ends.
CREATE FUNCTION scd2_internal.lock_flow(flow_id integer) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_lock_flow' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.lock_flow(integer) IS
    'Takes the lock under which workers apply a flow; 55P03 after pg_scd2.lock_timeout';

CREATE FUNCTION scd2_internal.wake_apply_at_commit() RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_wake_apply_at_commit' LANGUAGE C;
COMMENT ON FUNCTION scd2_internal.wake_apply_at_commit() IS
    'Has the apply workers look for work when the calling transaction commits';

-- create_auto_cdc_flow
