-- 46_append.sql: flows that append rows (src/flow/append.c).
--
-- Their targets have no keys and no interval: the columns of the sources, by name, and nothing says that a row came
-- twice. Several flows append to one target, which has the union of their columns; a column that a source lacks is
-- what INSERT makes of it.

CREATE FUNCTION scd2_internal.check_append_source(source regclass, once boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    rel pg_class;
    f   scd2_internal.feed;
BEGIN
    SELECT c.* INTO rel FROM pg_class AS c WHERE c.oid = source;
    IF once THEN
        IF rel.relkind NOT IN ('r', 'p', 'v', 'm', 'f') THEN
            RAISE wrong_object_type USING MESSAGE = format('"%s" has no rows to read', source);
        END IF;
        PERFORM scd2_internal.require_capture();        -- it says when the flow begins
        RETURN;
    END IF;
    SELECT x.* INTO f FROM scd2_internal.feed AS x WHERE x.feed_relid = source ORDER BY x.feed_id DESC LIMIT 1;
    IF FOUND THEN
        RAISE wrong_object_type USING MESSAGE = format('"%s" is a change data feed', source),
            DETAIL = 'Rows that are inserted into a table are appended; its feed is read for that.',
            HINT = format('source => %L, or once => true for the changes that are there.', f.source_relid::regclass);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_append_source(regclass, boolean) IS 'Raises what stands against appending from a relation: 42809 it has no rows or is a feed, 55000 nothing captures';

-- The rows that a filter lets pass are decided by the columns that the feed has.
CREATE FUNCTION scd2_internal.check_append_filter(source_filter text, source oid, columns name[], role oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF source_filter IS NOT NULL THEN
        PERFORM scd2_internal.check_expression(source_filter, source, 'boolean'::regtype, 'source_filter', role);
        PERFORM scd2_internal.check_column_list(scd2_internal.expression_columns(source_filter, source, 'source_filter', role), columns, 'source_filter', source::regclass::text);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_append_filter(text, oid, name[], oid) IS 'Raises what is wrong with the source_filter of an append flow';

-- The columns of a target for these of a source, as definitions: all, or those that "target" lacks.
CREATE FUNCTION scd2_internal.append_definitions(source oid, columns name[], target oid) RETURNS SETOF text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('%I %s%s', t.name, t.type, CASE WHEN c.oid IS NOT NULL THEN ' COLLATE ' || scd2_internal.fixed_collation(c.oid) END)
    FROM scd2_internal.target_columns(source, columns, '{}', 1, NULL, 0, NULL, NULL, NULL) AS t
         LEFT JOIN pg_collation AS c ON c.oid = t.collation
    WHERE target IS NULL OR NOT EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = target AND a.attname = t.name AND a.attnum > 0 AND NOT a.attisdropped)
    ORDER BY t.ordinal
$$;
COMMENT ON FUNCTION scd2_internal.append_definitions(oid, name[], oid) IS 'Column definitions for a target of an append flow; with a target, only of columns that it lacks';

CREATE FUNCTION scd2_internal.create_append_target(caller oid, schema name, relation name, source oid, columns name[]) RETURNS oid
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET pg_scd2.enable_change_feed_on_create = off AS $$
BEGIN
    PERFORM scd2_internal.check_may_create(caller, scd2_internal.target_owner(caller, source), schema);
    EXECUTE format('CREATE TABLE %I.%I (%s)', schema, relation, (SELECT string_agg(d, ', ') FROM scd2_internal.append_definitions(source, columns, NULL) AS d));
    PERFORM scd2_internal.own_alone(format('%I.%I', schema, relation)::regclass, scd2_internal.target_owner(caller, source));
    PERFORM scd2_internal.close_rows_as(source, format('%I.%I', schema, relation)::regclass);
    RETURN format('%I.%I', schema, relation)::regclass;
END $$;
COMMENT ON FUNCTION scd2_internal.create_append_target(oid, name, name, oid, name[]) IS 'Creates the table of an append flow for its owner';

-- A target that other flows append to already: it gets the columns that it lacks.
CREATE FUNCTION scd2_internal.join_append_target(target regclass, source regclass, columns name[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    other   scd2_internal.flow;
    differs text;
    missing text;
BEGIN
    SELECT f.* INTO other FROM scd2_internal.flow AS f WHERE f.target_relid = target AND f.kind <> 'append' LIMIT 1;
    IF FOUND THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('"%s" is the target of flow "%s", which does not append', target, other.name),
            DETAIL = 'What is appended to it would be no part of what that flow keeps.', HINT = 'Name another target.';
    END IF;
    SELECT format('Column "%s" is %s%s instead of %s%s.', t.name, format_type(b.base, b.base_typmod), coalesce(' with collation ' || nullif(a.attcollation, 0)::regcollation, ''),
                  t.type, coalesce(' with collation ' || nullif(t.collation, 0)::regcollation, ''))
        INTO differs
        FROM scd2_internal.target_columns(source, columns, '{}', 1, NULL, 0, NULL, NULL, NULL) AS t
        JOIN pg_attribute AS a ON a.attrelid = target AND a.attname = t.name AND a.attnum > 0 AND NOT a.attisdropped
        CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) AS b
        WHERE format_type(b.base, b.base_typmod) <> t.type OR a.attcollation <> t.collation ORDER BY t.ordinal LIMIT 1;
    IF FOUND THEN
        RAISE datatype_mismatch USING MESSAGE = format('flow does not agree with the others into "%s"', target), DETAIL = differs;
    END IF;
    SELECT string_agg('ADD COLUMN ' || d, ', ') INTO missing FROM scd2_internal.append_definitions(source, columns, target) AS d;
    IF missing IS NOT NULL THEN
        PERFORM scd2_internal.lock_tables(ARRAY[target::oid], ARRAY['ACCESS EXCLUSIVE']);
        EXECUTE format('ALTER TABLE %s %s', scd2_internal.fixed_name(target), missing);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.join_append_target(regclass, regclass, name[]) IS
    'Raises what stands against one more append flow into a target; adds the columns that it lacks';

-- The relation that the flow appends to: created, joined or found to fit.
CREATE FUNCTION scd2_internal.append_target(caller oid, schema name, relation name, target oid, source oid, columns name[]) RETURNS oid
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF target IS NULL THEN
        target := scd2_internal.create_append_target(caller, schema, relation, source, columns);
    ELSE
        PERFORM scd2_internal.check_no_cycle(source, target);
        IF EXISTS (SELECT FROM scd2_internal.flow AS f WHERE f.target_relid = target) THEN
            PERFORM scd2_internal.join_append_target(target, source, columns);
            RETURN target;
        END IF;
        PERFORM scd2_internal.check_target_fits(caller, target, source, columns, '{}', 1, NULL, 0, NULL, NULL, NULL);
    END IF;
    PERFORM scd2_internal.dress_target(target, 1, NULL, NULL, NULL);
    RETURN target;
END $$;
COMMENT ON FUNCTION scd2_internal.append_target(oid, name, name, oid, oid, name[]) IS 'The target of an append flow, as it must be. Errors: what does not fit';

CREATE FUNCTION scd2_internal.create_append_flow(caller oid, target text, source regclass, source_filter text, name name, once boolean, refresh_interval interval, trust boolean) RETURNS name
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    place   record;
    origin  record;
    feed_id integer;
    columns name[];
    schema  name;
    made    scd2_internal.flow;
BEGIN
    IF target IS NULL OR source IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = format('%s must not be NULL', CASE WHEN target IS NULL THEN 'target' ELSE 'source' END);
    END IF;
    once := coalesce(once, false);
    IF refresh_interval IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'refresh_interval must not be NULL';
    END IF;
    PERFORM scd2_internal.check_span('refresh_interval', refresh_interval);
    PERFORM scd2_internal.check_not_repeated(once, refresh_interval);
    PERFORM scd2_internal.check_append_source(source, once);
    SELECT r.* INTO place FROM scd2_internal.caller_relation(target) AS r;
    name := scd2_internal.flow_name(name, place.relation);
    IF NOT once THEN
        feed_id := scd2_internal.enabled_feed(caller, source);
        PERFORM scd2_internal.check_feed_runs(feed_id, NULL);
        PERFORM scd2_internal.check_columns_captured(feed_id);
        PERFORM scd2_internal.add_missing_columns(f, f.except_columns) FROM scd2_internal.feed AS f WHERE f.feed_id = feed_id;
    END IF;
    columns := CASE WHEN once THEN (SELECT array_agg(a.attname ORDER BY a.attnum) FROM pg_attribute AS a WHERE a.attrelid = source AND a.attnum > 0 AND NOT a.attisdropped)
                    ELSE scd2_internal.feed_columns(feed_id) END;
    IF columns IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = format('"%s" has no columns to append', source);
    END IF;
    schema := scd2_internal.place_of(place.schema);
    place.relid := (SELECT c.oid FROM pg_class AS c WHERE c.relnamespace = place.schema AND c.relname = place.relation);     -- it may have come while we waited
    made.target_schema := schema;
    made.target_name := place.relation;
    made.target_relid := place.relid;
    made := scd2_internal.with_author(caller, made, source, (SELECT f.feed_relid FROM scd2_internal.feed AS f WHERE f.feed_id = feed_id), trust);
    PERFORM scd2_internal.check_append_filter(source_filter, source, columns, made.author);
    made.source_relid := source;
    made.source_filter := source_filter;
    PERFORM scd2_internal.check_expression_owners(made);
    place.relid := scd2_internal.append_target(caller, schema, place.relation, place.relid, source, columns);
    SELECT n.nspname AS schema, c.relname AS relation INTO origin FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = source;
    INSERT INTO scd2_internal.flow AS f (name, kind, target_schema, target_name, target_relid, source_schema, source_name, source_relid, feed_id, scd_type, keys, columns, tracked,
            input, source_filter, once, refresh_interval, author, trusted, settings)
        VALUES (name, 'append', schema, place.relation, place.relid, origin.schema, origin.relation, source, feed_id, 1, '{}', columns, '{}',
            'append', source_filter, once, refresh_interval, made.author, made.trusted, ARRAY(SELECT s || '=' || current_setting(s) FROM unnest('{TimeZone,DateStyle,IntervalStyle}'::text[]) AS s))
        RETURNING f.* INTO made;
    PERFORM scd2_internal.know_columns(made.flow_id);
    INSERT INTO scd2_internal.control (kind, flow_id, feed_id) VALUES ('begin flow', made.flow_id, feed_id);
    RETURN made.name;
END $$;
COMMENT ON FUNCTION scd2_internal.create_append_flow(oid, text, regclass, text, name, boolean, interval, boolean) IS 'What scd2.create_append_flow() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.create_append_flow(target text, source regclass, source_filter text DEFAULT NULL, name name DEFAULT NULL, once boolean DEFAULT false, refresh_interval interval DEFAULT '0', trust boolean DEFAULT false) RETURNS name
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.create_append_flow(text, regclass, text, name, boolean, interval, boolean) IS
    'Declares a flow that appends to "target" (created if it is not there) the rows of "source" that are there at the commit and every row inserted later, columns matched by name, exactly once each and nothing deduplicated; returns the '
    'flow''s name. Updates and deletes append nothing. source_filter: rows for which it is not true are left out; once: only the rows that are there, of any relation; trust: see create_auto_cdc_flow. '
    'Errors: 42501 rights (see create_auto_cdc_flow), 42703, 42804 the filter or a column does not fit, 42809 a feed, 55000 a target that holds rows or belongs to a flow of another kind, 22023 arguments.';

-- full_refresh of a target that is appended to: all flows begin anew, those that run once too.
CREATE FUNCTION scd2_internal.refresh_append(target regclass, allow_loss boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f     scd2_internal.flow;
    state scd2_internal.flow_state;
    loss  record;
BEGIN
    FOR f IN SELECT x.* FROM scd2_internal.flow AS x WHERE x.target_relid = target ORDER BY x.flow_id LOOP
        PERFORM scd2_internal.lock_flow(f.flow_id);
        SELECT s.* INTO state FROM scd2_internal.flow_state AS s WHERE s.flow_id = f.flow_id;
        CONTINUE WHEN NOT FOUND;                -- its first copy is still to come
        SELECT l.* INTO loss FROM scd2_internal.refresh_loss(f, state, allow_loss) AS l;
        UPDATE scd2_internal.flow_state AS s SET phase = 'copy', rereads = false, failed_phase = NULL, failures = 0, retry_at = NULL, finished_at = NULL,
                begin_version = coalesce(loss.version, s.begin_version), watermark_version = coalesce(loss.version, s.begin_version),
                begin_timestamp = coalesce(loss.at, s.begin_timestamp), watermark_timestamp = coalesce(loss.at, s.begin_timestamp)
            WHERE s.flow_id = f.flow_id;
    END LOOP;
    PERFORM scd2_internal.wake_apply_at_commit();
END $$;
COMMENT ON FUNCTION scd2_internal.refresh_append(regclass, boolean) IS 'Part of full_refresh: has all flows that append to a target begin anew';
