-- 42_flow.sql: declaring flows.
--
-- All of it happens in the caller's transaction: the target, the flow's row, and a control record whose place in the
-- log is the flow's beginning. What follows the commit is the workers'.

-- Arguments that are not for this kind of flow.
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
COMMENT ON FUNCTION scd2_internal.flow_name(name, name) IS
    'The name of a new flow: as wanted, or the target''s, with a number if it is taken';

-- starting_version: the feed must hold every change since.
CREATE FUNCTION scd2_internal.check_starting_version(feed_id integer, source oid, starting_version bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    earliest bigint;
    latest   bigint;
BEGIN
    SELECT h.earliest_state INTO earliest FROM scd2_internal.feed AS f, scd2_internal.hold_feed(f.feed_id, f.feed_relid) AS h
        WHERE f.feed_id = check_starting_version.feed_id;
    SELECT p.version INTO latest FROM scd2_internal.position AS p;
    IF earliest IS NULL OR starting_version < earliest OR starting_version > latest THEN
        RAISE invalid_parameter_value
            USING MESSAGE = format('starting_version %s is not in the feed of "%s"', starting_version,
            source::regclass),
            DETAIL = CASE WHEN earliest IS NULL THEN 'The feed begins with this transaction.'
                ELSE format('It can be from %s to %s.', earliest, latest) END;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_starting_version(integer, oid, bigint) IS
    'Raises 22023 unless the feed reaches back to the version';

-- A feed that failed gets no more rows: what is made from it would stand still, and say so to nobody.
CREATE FUNCTION scd2_internal.check_feed_runs(feed_id integer, since bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s scd2_internal.feed_state;
BEGIN
    IF feed_id IS NULL THEN                 -- a flow that runs once
        RETURN;
    END IF;
    IF NOT EXISTS (SELECT FROM scd2_internal.feed AS f JOIN pg_class AS c ON c.oid = f.feed_relid
        WHERE f.feed_id = check_feed_runs.feed_id) THEN
        RAISE object_not_in_prerequisite_state USING HINT = 'SELECT * FROM scd2.diagnose();',
            MESSAGE = (SELECT format('the change data feed of table "%s" was dropped',
                scd2_internal.label(f.source_relid)) FROM scd2_internal.feed AS f
                WHERE f.feed_id = check_feed_runs.feed_id);
    END IF;
    SELECT q.* INTO s FROM scd2_internal.feed_state AS q WHERE q.feed_id = check_feed_runs.feed_id;
    IF s.state = 'failed' OR s.gap && int8range(since, NULL, '()') THEN
        RAISE object_not_in_prerequisite_state
            USING MESSAGE = format('feed of "%s" has a gap at versions %s', s.source_relid::regclass, s.gap),
            DETAIL = s.error, HINT = 'SELECT * FROM scd2.diagnose();';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_feed_runs(integer, bigint) IS
    'Raises 55000 if the feed was dropped, has failed, or has a gap after version "since"';

-- The columns a flow can select: those of the source that its feed has.
CREATE FUNCTION scd2_internal.feed_columns(feed_id integer) RETURNS name[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(a.attname ORDER BY a.attnum)
    FROM scd2_internal.feed AS f JOIN pg_attribute AS a ON a.attrelid = f.source_relid AND a.attnum > 0
        AND NOT a.attisdropped AND a.attname <> ALL (f.except_columns)
    WHERE f.feed_id = feed_columns.feed_id
      AND EXISTS (SELECT FROM pg_attribute AS fa WHERE fa.attrelid = f.feed_relid AND fa.attname = a.attname
          AND fa.attnum > 0 AND NOT fa.attisdropped)
$$;
COMMENT ON FUNCTION scd2_internal.feed_columns(integer) IS
    'Columns that both a source and its feed have, in the order of the source';

-- The expressions of a flow over an event table, or over a feed (then its metadata are columns too). Returns the type
-- of the sequence, and the columns that say what an event is rather than what it brings: they are not tracked by
-- default.
CREATE FUNCTION scd2_internal.check_event_expressions(asked scd2_internal.flow, source oid, allowed name[],
    OUT sequence_type text, OUT sequence_collation oid, OUT control_columns name[])
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    sequence   record;
    expression record;
    used       name[];
    metadata   name[] := CASE asked.input
        WHEN 'changes' THEN '{_change_type,_commit_version,_commit_timestamp,_change_ordinal,_xid}'::name[]
        ELSE '{}' END;
BEGIN
    SELECT e.* INTO sequence FROM scd2_internal.sequence_expression(asked.sequence_by, source, 'sequence_by') AS e;
    sequence_type := format_type(sequence.type, -1);
    sequence_collation := sequence.collation;
    control_columns := sequence.column_names;
    FOR expression IN
        SELECT e.* FROM (VALUES ('apply_as_deletes', asked.apply_as_deletes),
            ('apply_as_truncates', asked.apply_as_truncates), ('source_filter', asked.source_filter)) AS e (argument,
            text)
        WHERE e.text IS NOT NULL
    LOOP
        PERFORM scd2_internal.check_expression(expression.text, source, 'boolean'::regtype, expression.argument);
        used := scd2_internal.expression_columns(expression.text, source, expression.argument);
        PERFORM scd2_internal.check_column_list(used, allowed || metadata, expression.argument, source::regclass::text);
        IF expression.argument <> 'source_filter' THEN
            control_columns := control_columns || used;
        END IF;
    END LOOP;
    PERFORM scd2_internal.check_column_list(sequence.column_names, allowed || metadata, 'sequence_by',
        source::regclass::text);
END $$;
COMMENT ON FUNCTION scd2_internal.check_event_expressions(scd2_internal.flow, oid, name[]) IS
    'Raises what is wrong with the expressions of a flow over an event table';

-- The expressions of a flow over a feed with its default sequence: of the source's rows, wherever they are met; whether
-- one empties the target may depend on the change. Returns the columns that are not tracked by default.
CREATE FUNCTION scd2_internal.check_image_expressions(asked scd2_internal.flow, source oid, feed oid, allowed name[])
    RETURNS name[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    expression      record;
    used            name[];
    control_columns name[] := '{}';
BEGIN
    FOR expression IN
        SELECT e.*
        FROM (VALUES ('apply_as_deletes', asked.apply_as_deletes, source, '{}'::name[]),
                     ('source_filter', asked.source_filter, source, '{}'),
                     ('apply_as_truncates', asked.apply_as_truncates, feed,
                      '{_change_type,_commit_version,_commit_timestamp,_change_ordinal,_xid}'))
                 AS e (argument, text, reads, metadata)
        WHERE e.text IS NOT NULL
    LOOP
        PERFORM scd2_internal.check_expression(expression.text, expression.reads, 'boolean'::regtype,
            expression.argument);
        used := scd2_internal.expression_columns(expression.text, expression.reads, expression.argument);
        PERFORM scd2_internal.check_column_list(used, allowed || expression.metadata, expression.argument,
            source::regclass::text);
        IF expression.argument <> 'source_filter' THEN
            control_columns := control_columns || used;
        END IF;
    END LOOP;
    RETURN control_columns;
END $$;
COMMENT ON FUNCTION scd2_internal.check_image_expressions(scd2_internal.flow, oid, oid, name[]) IS
    'Raises what is wrong with the expressions of a flow over a feed with its default sequence';

-- Of a feed with a sequence of its own: which changes are deletes, besides those that the feed says are; and what
-- empties the target, a TRUNCATE if nothing else is said.
CREATE FUNCTION scd2_internal.changes_that_delete(given text) RETURNS text
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT '_change_type IN (''delete'', ''update_preimage'')' || CASE WHEN given IS NULL THEN ''
        ELSE format(E' OR COALESCE((%s\n)::boolean, false)', given) END
$$;
COMMENT ON FUNCTION scd2_internal.changes_that_delete(text) IS
    'Expression over a feed: is a change a delete? "given": apply_as_deletes, or NULL';

CREATE FUNCTION scd2_internal.changes_that_empty(given text) RETURNS text
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN given IS NULL THEN '_change_type = ''truncate'''
        ELSE format(E'_change_type NOT IN (''delete'', ''update_preimage'') AND COALESCE((%s\n)::boolean, false)',
        given) END
$$;
COMMENT ON FUNCTION scd2_internal.changes_that_empty(text) IS
    'Expression over a feed: does a change empty the target? "given": apply_as_truncates, or NULL';

-- The sequence of deletes of a feed that has one of its own, as an expression over the feed's columns. A delete carries
-- the old row, and must come after it: one step, in types that have steps; in others what comes no later is NULL, which
-- makes the event invalid. A sequence made from metadata alone is the delete's own.
CREATE FUNCTION scd2_internal.delete_sequence(asked scd2_internal.flow, feed oid, sequence_type text, of_row boolean)
    RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given  text := asked.delete_sequence_by;
    struct record;
    step   text := CASE WHEN sequence_type LIKE 'timestamp with%' THEN 'interval ''1 microsecond'''
                        WHEN sequence_type IN ('smallint', 'integer', 'bigint') THEN '1::' || sequence_type
                            WHEN sequence_type = 'date' THEN '1' END;
    own    text := format(E'(%s\n)::%s', asked.sequence_by, sequence_type);
BEGIN
    IF given IS NULL THEN
        IF NOT of_row THEN
            RETURN asked.sequence_by;
        ELSIF sequence_type <> 'timestamp with time zone' THEN
            RAISE invalid_parameter_value USING MESSAGE = 'delete_sequence_by is missing',
                DETAIL = format('A row that is deleted does not say when, in the type of the sequence, %s.',
                    sequence_type), HINT = 'delete_sequence_by => ''…''';
        END IF;
        given := '_commit_timestamp';
    END IF;
    SELECT f.* INTO struct FROM scd2_internal.struct_fields(given) AS f;
    IF struct.names IS NOT NULL THEN
        given := format('ROW(%s)', (SELECT string_agg(format('(%s%s)', e, E'\n'), ', ' ORDER BY n)
            FROM unnest(struct.expressions) WITH ORDINALITY AS u (e, n)));
    END IF;
    PERFORM scd2_internal.check_expression(given, feed, sequence_type::regtype, 'delete_sequence_by');
    given := format(E'(%s\n)::%s', given, sequence_type);
    RETURN CASE WHEN NOT of_row THEN given WHEN step IS NOT NULL THEN format('GREATEST(%s, %s + %s)', given, own, step)
                ELSE format('CASE WHEN _change_type = ''truncate'' OR %1$s %2$s %3$s THEN %1$s END', given,
                    scd2_internal.order_operator(sequence_type::regtype, 5), own) END;
END $$;
COMMENT ON FUNCTION scd2_internal.delete_sequence(scd2_internal.flow, oid, text, boolean) IS
    'Expression for the sequence of a delete; 22023 if delete_sequence_by is needed';

-- Where a row of an event table ends, as an expression of the sequence's type; and the columns that say so.
CREATE FUNCTION scd2_internal.end_sequence(given text, source oid, sequence_type text, allowed name[],
    OUT expression text, OUT column_names name[])
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    struct record;
BEGIN
    expression := given;
    SELECT f.* INTO struct FROM scd2_internal.struct_fields(given) AS f;
    IF struct.names IS NOT NULL AND (SELECT t.typtype FROM pg_type AS t WHERE t.oid = sequence_type::regtype) <> 'c'
        THEN
        RAISE datatype_mismatch USING MESSAGE = format('end_sequence_by is a struct instead of %s', sequence_type);
    ELSIF struct.names IS NOT NULL THEN
        expression := format('ROW(%s)::%s',
            (SELECT string_agg(format('(%s%s)', e, E'\n'), ', ' ORDER BY n)
            FROM unnest(struct.expressions) WITH ORDINALITY AS u (e, n)), sequence_type);
    END IF;
    PERFORM scd2_internal.check_expression(expression, source, sequence_type::regtype, 'end_sequence_by');
    column_names := scd2_internal.expression_columns(expression, source, 'end_sequence_by');
    PERFORM scd2_internal.check_column_list(column_names, allowed, 'end_sequence_by', source::regclass::text);
END $$;
COMMENT ON FUNCTION scd2_internal.end_sequence(text, oid, text, name[]) IS
    'Raises what is wrong with an end_sequence_by';

-- How late events may be, in the unit of the differences of sequences.
CREATE FUNCTION scd2_internal.check_max_lateness(given text, asked scd2_internal.flow, sequence_type text) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    example text := CASE WHEN sequence_type IN ('smallint', 'integer', 'bigint', 'numeric', 'real', 'double precision')
        THEN '1000'
                         WHEN sequence_type = 'date' OR sequence_type LIKE 'timestamp%' THEN '7 days' END;
    lateness text := given;
    fits    boolean;
BEGIN
    IF given IS NULL THEN
        RETURN NULL;
    ELSIF asked.input = 'net' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'max_lateness is for flows whose events can be late',
            DETAIL = 'A change data feed with its default sequence is in order.';
    ELSIF asked.once THEN
        RAISE invalid_parameter_value USING MESSAGE = 'max_lateness is for flows that go on',
            DETAIL = 'The rows that a flow reads once come all at the same time.';
    ELSIF example IS NULL THEN
        RAISE datatype_mismatch USING MESSAGE = format('max_lateness does not go with a sequence of type %s',
            sequence_type), DETAIL = 'Its values have no differences.';
    END IF;
    BEGIN
        CASE WHEN sequence_type IN ('smallint', 'integer', 'bigint') THEN fits := lateness::bigint >= 0;
             WHEN example = '1000' THEN fits := lateness::numeric >= 0 AND lateness::numeric NOT IN ('NaN', 'Infinity');
             ELSE
                lateness := CASE WHEN sequence_type = 'date' AND given ~ '^\s*\d+\s*$' THEN given || ' days'
                    ELSE given END;
                fits := isfinite(lateness::interval) AND lateness::interval BETWEEN '0' AND '1000 years';
        END CASE;
    EXCEPTION WHEN data_exception THEN
        fits := false;
    END;
    IF NOT fits THEN
        RAISE invalid_parameter_value USING MESSAGE = format('max_lateness is %L', given),
            HINT = format('max_lateness => %L', example);
    END IF;
    RETURN lateness;
END $$;
COMMENT ON FUNCTION scd2_internal.check_max_lateness(text, scd2_internal.flow, text) IS
    'Raises what is wrong with a max_lateness; returns it as the flow keeps it';

-- Arguments that hold for every flow.
CREATE FUNCTION scd2_internal.check_flow_arguments(asked scd2_internal.flow, open_row_index boolean, track_list name[],
    track_except_list name[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF asked.scd_type IS NULL OR asked.scd_type NOT IN (1, 2) THEN
        RAISE invalid_parameter_value
            USING MESSAGE = format('stored_as_scd_type is %s', coalesce(asked.scd_type::text, 'NULL')),
            HINT = 'It is 1 or 2.';
    END IF;
    IF asked.refresh_interval IS NULL OR asked.refresh_interval < '0' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'refresh_interval must not be NULL or negative';
    END IF;
    IF asked.on_invalid_event IS NULL OR asked.on_invalid_event NOT IN ('fail', 'quarantine') THEN
        RAISE invalid_parameter_value
            USING MESSAGE = format('on_invalid_event is %s', coalesce(quote_literal(asked.on_invalid_event), 'NULL')),
            HINT = 'It is ''fail'' or ''quarantine''.';
    END IF;
    IF asked.scd_type = 1 THEN
        PERFORM scd2_internal.refuse_with_type_1('track_history_column_list', track_list IS NOT NULL);
        PERFORM scd2_internal.refuse_with_type_1('track_history_except_column_list', track_except_list IS NOT NULL);
        PERFORM scd2_internal.refuse_with_type_1('current_column', asked.current_column IS NOT NULL);
        PERFORM scd2_internal.refuse_with_type_1('open_row_index', open_row_index);
        PERFORM scd2_internal.refuse_with_type_1('initial_start', asked.initial_start IS NOT NULL);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_flow_arguments(scd2_internal.flow, boolean, name[], name[]) IS
    'Raises 22023 for arguments that are wrong whatever the source is';

-- The columns that open a version. A list is taken as it is; an except list takes away from the default.
CREATE FUNCTION scd2_internal.tracked_columns(track_list name[], track_except_list name[], chosen name[], keys name[],
    control_columns name[], source oid) RETURNS name[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY(SELECT c FROM unnest(scd2_internal.choose_columns(track_list, track_except_list,
                                          ARRAY(SELECT s FROM unnest(chosen) WITH ORDINALITY AS u (s, n)
                                              WHERE s <> ALL (keys) ORDER BY n),
                                          'track_history_column_list', 'track_history_except_column_list',
                                              source::regclass::text)) WITH ORDINALITY AS t (c, n)
                 WHERE track_list IS NOT NULL OR c <> ALL (control_columns) ORDER BY n)
$$;
COMMENT ON FUNCTION scd2_internal.tracked_columns(name[], name[], name[], name[], name[], oid) IS
    'Tracked columns of a flow';

-- The columns in which NULL means that nothing was sent. A list says so by itself.
CREATE FUNCTION scd2_internal.ignored_nulls(asked scd2_internal.flow, ignore_null boolean, ignore_list name[],
    ignore_except_list name[], source oid) RETURNS name[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    argument text := CASE WHEN ignore_list IS NOT NULL THEN 'ignore_null_updates_column_list'
        WHEN ignore_except_list IS NOT NULL THEN 'ignore_null_updates_except_column_list'
        ELSE 'ignore_null_updates' END;
    ignored  name[];
BEGIN
    IF ignore_list IS NULL AND ignore_except_list IS NULL AND NOT coalesce(ignore_null, false) THEN
        RETURN '{}';
    ELSIF asked.input <> 'events' THEN
        RAISE invalid_parameter_value USING MESSAGE = format('%s is for tables whose rows are events', argument),
            DETAIL = 'The images of a change data feed are whole: NULL is a value there.';
    ELSIF (ignore_list || ignore_except_list) && asked.keys THEN
        RAISE invalid_parameter_value
            USING MESSAGE = format('key column "%s" in %s',
            (SELECT k FROM unnest(asked.keys) AS k WHERE k = ANY (ignore_list || ignore_except_list) LIMIT 1),
            argument),
            DETAIL = 'The keys of an event are never NULL.';
    END IF;
    ignored := scd2_internal.choose_columns(ignore_list, ignore_except_list,
        ARRAY(SELECT c FROM unnest(asked.columns) WITH ORDINALITY AS u (c, n) WHERE c <> ALL (asked.keys) ORDER BY n),
        'ignore_null_updates_column_list', 'ignore_null_updates_except_column_list', source::regclass::text);
    IF asked.scd_type = 1 AND asked.end_sequence_by IS NOT NULL AND ignored <> '{}' THEN
        RAISE invalid_parameter_value
            USING MESSAGE = format('%s and end_sequence_by exclude each other in a target of SCD type 1', argument),
            DETAIL = 'Whether an end counts depends on events that such a target does not remember.',
                HINT = 'stored_as_scd_type => 2';
    END IF;
    RETURN ignored;
END $$;
COMMENT ON FUNCTION scd2_internal.ignored_nulls(scd2_internal.flow, boolean, name[], name[], oid) IS
    'Columns in which a NULL is no value; raises what is wrong with the arguments that say so';

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
            ELSE format(' COLLATE %I.%I', n.nspname, c.collname) END AS type
        FROM scd2_internal.target_columns(source, more, '{}', 1, NULL, NULL, NULL, NULL, NULL) AS t
        LEFT JOIN pg_collation AS c ON c.oid = t.collation LEFT JOIN pg_namespace AS n ON n.oid = c.collnamespace
            ORDER BY t.ordinal
    LOOP
        EXECUTE format('ALTER TABLE %s ADD COLUMN %I %s', first.target_relid::regclass, added.name, added.type);
        IF added.name = ANY (kept) THEN
            EXECUTE format('ALTER TABLE %s ADD COLUMN %I %s', first.memory_relid::regclass, added.name, added.type);
        END IF;
    END LOOP;
    UPDATE scd2_internal.flow AS f SET columns = f.columns || more, absent = f.absent || more,
            tracked = f.tracked || ARRAY(SELECT c FROM unnest(more) AS c WHERE c = ANY (asked.tracked)),
            ignores_null = f.ignores_null || ARRAY(SELECT c FROM unnest(more) AS c WHERE c = ANY (asked.ignores_null))
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

-- A flow into a target that has one: what both declare must agree. The new flow takes the target's columns; those that
-- it lacks are NULL in its events.
CREATE FUNCTION scd2_internal.join_target(caller oid, asked scd2_internal.flow, first scd2_internal.flow,
    sequence_type text, source oid) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    target  regclass := first.target_relid;
    differs text;
    own     name[] := asked.columns;
BEGIN
    PERFORM scd2_internal.check_member(caller, (SELECT c.relowner FROM pg_class AS c WHERE c.oid = target), 'table',
        target::text);
    IF asked.kind = 'append' OR first.kind = 'append' THEN
        RAISE feature_not_supported USING MESSAGE = format('"%s" is the target of a flow already', target),
            DETAIL = 'A target that is appended to is kept by such flows only.';
    ELSIF (asked.input = 'changes' OR first.input IN ('net', 'changes'))
        AND (first.ignores_null <> '{}' OR asked.ignores_null <> '{}') THEN
        RAISE feature_not_supported
            USING MESSAGE = 'flows over feeds do not share a target with flows that ignore NULL';
    END IF;
    differs := CASE WHEN asked.keys <> first.keys THEN format('Its keys are %s instead of %s.', first.keys, asked.keys)
                    WHEN asked.scd_type <> first.scd_type THEN format('It is of SCD type %s.', first.scd_type)
                    WHEN sequence_type <> first.sequence_type
                        THEN format('Its sequence is of type %s instead of %s.', first.sequence_type, sequence_type)
                    WHEN scd2_internal.differing_column(target, source,
                        ARRAY(SELECT c FROM unnest(own) WITH ORDINALITY AS u (c, n) WHERE c = ANY (first.columns)
                        ORDER BY n)) IS NOT NULL
                        THEN scd2_internal.differing_column(target, source,
                            ARRAY(SELECT c FROM unnest(own) WITH ORDINALITY AS u (c, n) WHERE c = ANY (first.columns)
                            ORDER BY n))
                    WHEN asked.input <> 'snapshots'
                        AND (first.ignores_null = '{}' AND asked.ignores_null <> '{}'
                        OR NOT (ARRAY(SELECT c FROM unnest(asked.ignores_null) AS c
                        WHERE c = ANY (first.columns)) <@ first.ignores_null
                        AND ARRAY(SELECT c FROM unnest(first.ignores_null) AS c
                        WHERE c = ANY (own)) <@ asked.ignores_null))
                        THEN format('The columns of which it ignores NULL are %s.', first.ignores_null)
                    WHEN asked.scd_type = 2 AND NOT (ARRAY(SELECT c FROM unnest(first.tracked) AS c
                        WHERE c = ANY (own)) <@ asked.tracked
                                                     AND ARRAY(SELECT c FROM unnest(asked.tracked) AS c
                                                         WHERE c = ANY (first.columns)) <@ first.tracked)
                        THEN format('Its tracked columns are %s.', first.tracked)
                    WHEN asked.scd_type = 2 AND ROW(asked.start_column, asked.end_column,
                        asked.current_column) IS DISTINCT FROM ROW(first.start_column, first.end_column,
                        first.current_column)
                        THEN 'The columns of its interval have other names.' END;
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
COMMENT ON FUNCTION scd2_internal.join_target(oid, scd2_internal.flow, scd2_internal.flow, text, oid) IS
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
        asked.sequence_by := scd2_internal.create_sequence_type(
            coalesce((SELECT c.relowner FROM pg_class AS c WHERE c.oid = asked.target_relid), caller),
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
            FROM scd2_internal.end_sequence(asked.end_sequence_by, reads, events.sequence_type, allowed) AS e;
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
            asked.columns, asked.keys, asked.scd_type, asked.sequence_type, sequence_collation,
            asked.start_column, asked.end_column, asked.current_column, open_row_index);
    ELSE
        PERFORM scd2_internal.check_no_cycle(source, asked.target_relid);
        SELECT f.* INTO first FROM scd2_internal.flow AS f
            WHERE f.target_relid = asked.target_relid ORDER BY f.flow_id LIMIT 1;
        IF FOUND THEN
            RETURN scd2_internal.join_target(caller, asked, first, asked.sequence_type, source);
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
    asked.name := scd2_internal.flow_name(asked.name, asked.target_name);
    asked.kind := CASE asked.input WHEN 'snapshots' THEN 'snapshot' ELSE 'auto_cdc' END;
    asked.source_relid := source;
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
            version_query, options, settings)
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
            ARRAY(SELECT s || '=' || current_setting(s) FROM unnest('{TimeZone,DateStyle,IntervalStyle}'::text[]) AS s))
        RETURNING f.flow_id INTO asked.flow_id;
    PERFORM scd2_internal.know_columns(asked.flow_id);
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
    feed            scd2_internal.feed;
    source          oid;
    allowed         name[];
    events          record;
    sequence_collation oid := 0;
    control_columns name[] := '{}';
BEGIN
    SELECT f.* INTO feed FROM scd2_internal.feed AS f WHERE f.feed_id = asked.feed_id;
    source := coalesce(feed.source_relid, asked.source_relid);      -- flows that run once have no feed
    PERFORM scd2_internal.check_member(caller, (SELECT c.relowner FROM pg_class AS c WHERE c.oid = source),
                                       'table', source::regclass::text);
    PERFORM scd2_internal.check_flow_arguments(asked, open_row_index, track_list, track_except_list);
    asked.options := jsonb_strip_nulls(jsonb_build_object('sequence_by', asked.sequence_by,
        'column_list', column_list, 'except_column_list', except_column_list, 'track_history_column_list', track_list,
        'track_history_except_column_list', track_except_list, 'open_row_index', open_row_index, 'shared', shared,
        'ignore_null_updates', ignore_null, 'ignore_null_updates_column_list', ignore_list,
        'ignore_null_updates_except_column_list', ignore_except_list));
    allowed := scd2_internal.selectable_columns(asked, source);
    asked := scd2_internal.with_columns(asked, source, allowed, column_list, except_column_list);

    IF asked.input = 'snapshots' THEN
        SELECT e.* INTO events FROM scd2_internal.snapshot_sequence(asked.sequence_type, source) AS e;
        PERFORM scd2_internal.check_snapshot_flow(asked, source, events.sequence_type);
        asked.sequence_type := events.sequence_type;
        sequence_collation := events.sequence_collation;
        control_columns := events.control_columns;
    ELSIF asked.input = 'net' THEN
        asked.sequence_type := 'timestamp with time zone';
        control_columns := scd2_internal.check_image_expressions(asked, source, feed.feed_relid, allowed);
    ELSE
        events := scd2_internal.with_event_sequence(caller, asked,
            CASE asked.input WHEN 'changes' THEN feed.feed_relid ELSE source END, allowed,
            NOT (shared OR coalesce(ignore_null, false) OR ignore_list IS NOT NULL OR ignore_except_list IS NOT NULL));
        asked := events.flow;
        sequence_collation := events.sequence_collation;
        control_columns := events.control_columns;
    END IF;
    asked.max_lateness := scd2_internal.check_max_lateness(asked.max_lateness, asked, asked.sequence_type);
    asked.ignores_null := scd2_internal.ignored_nulls(asked, ignore_null, ignore_list, ignore_except_list, source);
    asked.tracked := scd2_internal.tracked_columns(track_list, track_except_list, asked.columns, asked.keys,
                                                   control_columns, source);
    IF asked.scd_type = 2 THEN
        PERFORM scd2_internal.check_interval_columns(asked);
    END IF;
    IF asked.initial_start IS NOT NULL THEN
        PERFORM scd2_internal.check_expression(asked.initial_start, source, 'timestamptz'::regtype, 'initial_start');
    END IF;
    IF asked.starting_version IS NOT NULL THEN
        PERFORM scd2_internal.check_starting_version(asked.feed_id, source, asked.starting_version);
    END IF;

    asked := scd2_internal.with_target(caller, asked, source, coalesce(feed.feed_relid, source), sequence_collation,
                                       open_row_index, shared);
    PERFORM scd2_internal.check_array_type(asked);
    IF asked.scope IS NOT NULL AND asked.memory_relid IS NOT NULL THEN
        PERFORM scd2_internal.check_immutable(asked.scope, source, 'scope');
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

CREATE FUNCTION scd2_internal.remove_flow(doomed scd2_internal.flow, drop_target boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- The worker that applies it right now finishes its batch first.
    PERFORM scd2_internal.lock_flow(doomed.flow_id);
    DELETE FROM scd2_internal.flow AS f WHERE f.flow_id = doomed.flow_id;
    PERFORM scd2_internal.wake_apply_at_commit();
    IF NOT EXISTS (SELECT FROM scd2_internal.flow AS f WHERE f.target_relid = doomed.target_relid) THEN
        PERFORM scd2_internal.undress_target(doomed.target_relid, doomed.sequence_type);
        DELETE FROM scd2_internal.mark AS m WHERE m.target_relid = doomed.target_relid;
        IF EXISTS (SELECT FROM pg_class AS c WHERE c.oid = doomed.memory_relid) THEN
            EXECUTE format('DROP TABLE %s', doomed.memory_relid::regclass);
        END IF;
        IF drop_target AND EXISTS (SELECT FROM pg_class AS c WHERE c.oid = doomed.target_relid) THEN
            EXECUTE format('DROP TABLE %s', doomed.target_relid::regclass);
        END IF;
        IF (drop_target OR doomed.scd_type = 1) AND scd2_internal.is_sequence_type(doomed.sequence_type) THEN
            EXECUTE format('DROP TYPE %s', doomed.sequence_type);
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

-- How a flow reads its feed: the net effect of each version, or each change, with a sequence of its own. In a target
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
        refresh_interval interval) RETURNS name
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
    PERFORM scd2_internal.refuse_unsupported('once with refresh_interval', once AND refresh_interval > '0');

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
    asked.name := name;
    asked.source_relid := source;
    asked.once := coalesce(once, false);
    asked.max_lateness := max_lateness;
    SELECT r.* INTO place FROM scd2_internal.caller_relation(target) AS r;
    asked.target_schema := place.schema;
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
    asked.flow_id := scd2_internal.add_feed_flow(caller, asked, column_list, except_column_list,
        track_history_column_list, track_history_except_column_list, open_row_index, shared,
        ignore_null_updates, ignore_null_updates_column_list, ignore_null_updates_except_column_list);
    RETURN (SELECT f.name FROM scd2_internal.flow AS f WHERE f.flow_id = asked.flow_id);
END $$;

COMMENT ON FUNCTION scd2_internal.create_auto_cdc_flow(oid, text, regclass, name[], text, text, text, name[], name[],
    integer, name[], name[], boolean, name[], name[], name, boolean, text, text, text, bigint, text, name, name, name,
    boolean, boolean, text, text, interval) IS
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
            refresh_interval interval DEFAULT '0') RETURNS name
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.create_auto_cdc_flow(text, regclass, name[], text, text, text, name[], name[], integer, name[],
    name[], boolean, name[], name[], name, boolean, text, text, text, bigint, text, name, name, name, boolean, boolean,
    text, text, interval) IS
    'Declares a flow that keeps "target" (created if it is not there) from "source", a change data feed; returns the '
    'flow''s name. '
    'Errors: 42501 not the owner, 42703/42701 columns, 42804/55000 a target or keys that do not fit, 22023 arguments, '
    '0A000 what is not supported yet.';

-- track, untrack

CREATE FUNCTION scd2_internal.track(caller oid, source regclass, target text, keys name[], stored_as_scd_type integer,
    sequence_by text, apply_as_deletes text,
        apply_as_truncates text, column_list name[], except_column_list name[], track_history_column_list name[],
            track_history_except_column_list name[], name name,
        source_filter text, delete_sequence_by text, starting_version bigint, initial_start text, start_column name,
            end_column name, current_column name,
        open_row_index boolean, shared boolean, on_invalid_event text, max_lateness text, refresh_interval interval)
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
    IF target IS NULL THEN
        SELECT n.nspname AS schema, scd2_internal.object_name(c.relname, CASE stored_as_scd_type WHEN 1 THEN 'current'
            ELSE 'history' END) AS relation, NULL::oid AS relid
            INTO place
            FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = source;
        place.relid := to_regclass(format('%I.%I', place.schema, place.relation));
    ELSE
        SELECT r.* INTO place FROM scd2_internal.caller_relation(target) AS r;
    END IF;
    asked.sequence_by := sequence_by;
    asked.delete_sequence_by := delete_sequence_by;
    asked.apply_as_deletes := apply_as_deletes;
    asked.apply_as_truncates := apply_as_truncates;
    asked.source_filter := source_filter;
    asked.feed_id := feed_id;
    asked.target_schema := place.schema;
    asked.target_name := place.relation;
    asked.target_relid := place.relid;
    asked.keys := keys;
    asked.scd_type := stored_as_scd_type;
    asked.start_column := start_column;
    asked.end_column := end_column;
    asked.current_column := current_column;
    asked.on_invalid_event := on_invalid_event;
    asked.initial_start := initial_start;
    asked.starting_version := starting_version;
    asked.refresh_interval := refresh_interval;
    asked.name := name;
    asked.max_lateness := max_lateness;
    asked := scd2_internal.over_a_feed(asked, shared);
    asked.flow_id := scd2_internal.add_feed_flow(caller, asked, column_list, except_column_list,
        track_history_column_list, track_history_except_column_list, open_row_index, coalesce(shared, false));
    RETURN (SELECT f.target_relid FROM scd2_internal.flow AS f WHERE f.flow_id = asked.flow_id);
END $$;

COMMENT ON FUNCTION scd2_internal.track(oid, regclass, text, name[], integer, text, text, text, name[], name[], name[],
    name[], name, text, text, bigint, text, name, name, name, boolean, boolean, text, text, interval) IS
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
        on_invalid_event text DEFAULT 'fail', max_lateness text DEFAULT NULL, refresh_interval interval DEFAULT '0')
            RETURNS regclass
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.track(regclass, text, name[], integer, text, text, text, name[], name[], name[], name[], name,
    text, text, bigint, text, name, name, name, boolean, boolean, text, text, interval) IS
    'Keeps the history (SCD type 2) or the current rows (type 1) of "source" in "target", by default <source>_history '
    'or <source>_current: enables the feed if it is off, creates the target, '
    'copies the rows that are there after the commit, and keeps it from then on. "keys": by default the primary key. '
    'Returns the target. Errors as create_auto_cdc_flow.';

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

-- alter_flow: what the flow was declared with, from now on. NULL: as it is.
CREATE FUNCTION scd2_internal.alter_flow(caller oid, name name, source_filter text, apply_as_deletes text,
    sequence_by text, refresh_interval interval,
        on_invalid_event text, max_lateness text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    asked  scd2_internal.flow := scd2_internal.own_flow(caller, name);
    reads  oid := asked.source_relid;
    checked record;
BEGIN
    IF asked.input = 'snapshots' THEN
        PERFORM scd2_internal.alter_snapshot_flow(asked, refresh_interval,
            ROW(source_filter, apply_as_deletes, sequence_by, on_invalid_event,
            max_lateness) IS NOT DISTINCT FROM ROW(NULL::text, NULL::text, NULL::text, NULL::text, NULL::text));
        RETURN;
    END IF;
    PERFORM scd2_internal.refuse_unsupported('on_invalid_event over a feed with its default sequence',
        asked.input = 'net' AND on_invalid_event IS NOT NULL);
    IF asked.input = 'append' AND coalesce(apply_as_deletes, sequence_by, on_invalid_event) IS NOT NULL THEN
        RAISE invalid_parameter_value
            USING MESSAGE = format('flow "%s" appends: it has neither deletes nor a sequence, and no row is invalid',
            name);
    END IF;
    PERFORM scd2_internal.refuse_unsupported('sequence_by over a feed', asked.input <> 'events'
        AND sequence_by IS NOT NULL);
    asked.source_filter := coalesce(source_filter, asked.source_filter);
    asked.apply_as_deletes := coalesce(apply_as_deletes, asked.apply_as_deletes);
    asked.refresh_interval := coalesce(refresh_interval, asked.refresh_interval);
    asked.on_invalid_event := coalesce(on_invalid_event, asked.on_invalid_event);
    PERFORM scd2_internal.check_flow_arguments(asked, false, NULL, NULL);
    IF sequence_by IS NOT NULL THEN
        IF asked.sequence_column IS DISTINCT FROM NULL AND asked.sequence_column <> sequence_by THEN
            RAISE object_not_in_prerequisite_state
                USING MESSAGE = format('flow "%s" remembers its sequence in column "%s"', name, asked.sequence_column),
                DETAIL = 'Another sequence_by would not agree with what is there.';
        END IF;
        PERFORM scd2_internal.refuse_unsupported('sequence_by with a struct',
            (SELECT f.names IS NOT NULL FROM scd2_internal.struct_fields(sequence_by) AS f));
        asked.sequence_by := sequence_by;
    END IF;
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
        PERFORM scd2_internal.check_append_filter(source_filter, asked.source_relid, asked.columns);
    ELSIF asked.input = 'net' THEN
        SELECT f.feed_relid INTO reads FROM scd2_internal.feed AS f WHERE f.feed_id = asked.feed_id;
        PERFORM scd2_internal.check_image_expressions(asked, asked.source_relid, reads,
            scd2_internal.feed_columns(asked.feed_id));
    ELSE
        SELECT f.feed_relid INTO reads FROM scd2_internal.feed AS f WHERE f.feed_id = asked.feed_id;
        PERFORM scd2_internal.check_expression(e.text, reads, 'boolean'::regtype, e.argument)
            FROM (VALUES ('source_filter', source_filter), ('apply_as_deletes', apply_as_deletes)) AS e (argument, text)
                WHERE e.text IS NOT NULL;
        IF apply_as_deletes IS NOT NULL AND NOT asked.closes THEN
            asked.apply_as_deletes := scd2_internal.changes_that_delete(apply_as_deletes);
        END IF;
    END IF;
    IF max_lateness IS NOT NULL AND asked.input = 'append' THEN
        RAISE invalid_parameter_value USING MESSAGE = format('flow "%s" appends: nothing is too late', name);
    ELSIF max_lateness IS NOT NULL THEN
        asked.max_lateness := scd2_internal.check_max_lateness(max_lateness, asked, asked.sequence_type);
    END IF;
    UPDATE scd2_internal.flow AS f SET source_filter = asked.source_filter, apply_as_deletes = asked.apply_as_deletes,
        sequence_by = asked.sequence_by,
            refresh_interval = asked.refresh_interval, on_invalid_event = asked.on_invalid_event,
                max_lateness = asked.max_lateness, definition = f.definition + 1
        WHERE f.flow_id = asked.flow_id;
    PERFORM scd2_internal.wake_apply_at_commit();
END $$;
COMMENT ON FUNCTION scd2_internal.alter_flow(oid, name, text, text, text, interval, text, text) IS
    'What scd2.alter_flow() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.alter_flow(name name, source_filter text DEFAULT NULL, apply_as_deletes text DEFAULT NULL,
    sequence_by text DEFAULT NULL, refresh_interval interval DEFAULT NULL,
        on_invalid_event text DEFAULT NULL, max_lateness text DEFAULT NULL) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.alter_flow(name, text, text, text, interval, text, text) IS
    'Changes how a flow reads from now on; NULL leaves an option as it is. sequence_by must keep its type. What has '
    'been applied stays. 42704 no such flow, 42501 not the owner of its target, 42804 another type, 0A000 not for '
    'this kind of flow.';

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
    allow_loss boolean, OUT version bigint, OUT at timestamptz)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    feed record;
BEGIN
    PERFORM scd2_internal.check_feed_runs(refreshed.feed_id, state.begin_version);
    SELECT f.feed_relid, h.earliest_state, h.removed_until INTO feed
        FROM scd2_internal.feed AS f, scd2_internal.hold_feed(f.feed_id, f.feed_relid) AS h
            WHERE f.feed_id = refreshed.feed_id;
    IF NOT FOUND THEN                       -- a flow that runs once
        RETURN;
    END IF;
    version := scd2_internal.as_owner(feed.feed_relid,
        format('SELECT max(_commit_version) FROM %s WHERE _commit_version > $1 AND _change_type = ''truncate''',
            feed.feed_relid::regclass), state.begin_version);
    version := greatest(version, CASE WHEN feed.earliest_state > state.begin_version THEN feed.earliest_state END);
    IF version IS NULL THEN
        RETURN;
    END IF;
    IF NOT coalesce(allow_loss, false) THEN
        RAISE object_not_in_prerequisite_state
            USING MESSAGE = format('a full refresh of "%s" would lose history', refreshed.target_relid::regclass),
            DETAIL = format('The flow began at version %s; the table can be rebuilt from version %s on, after %s.',
                state.begin_version, version,
                            CASE WHEN version = feed.earliest_state THEN 'retention removed what was before'
                                ELSE 'a TRUNCATE of its source' END),
            HINT = format('SELECT scd2.full_refresh(%L, allow_loss => true);', refreshed.target_relid::regclass);
    END IF;
    at := greatest(feed.removed_until, scd2_internal.as_owner(feed.feed_relid,
        format('SELECT max(_commit_timestamp) FROM %s WHERE _commit_version <= $1', feed.feed_relid::regclass),
        version)::timestamptz);
END $$;
COMMENT ON FUNCTION scd2_internal.refresh_loss(scd2_internal.flow, scd2_internal.flow_state, boolean) IS
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

CREATE FUNCTION scd2_internal.full_refresh(caller oid, target regclass, key_filter text, allow_loss boolean)
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    refreshed scd2_internal.flow;
    state     scd2_internal.flow_state;
BEGIN
    IF target IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'target must not be NULL';
    END IF;
    SELECT f.* INTO refreshed FROM scd2_internal.flow AS f WHERE f.target_relid = target ORDER BY f.flow_id LIMIT 1;
    IF NOT FOUND THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('"%s" is not the target of a flow', target);
    END IF;
    refreshed := scd2_internal.own_flow(caller, refreshed.name);
    IF key_filter IS NOT NULL THEN
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
    PERFORM scd2_internal.check_feed_runs(refreshed.feed_id, state.begin_version);
    PERFORM scd2_internal.check_feed_runs(f.feed_id, s.begin_version)
        FROM scd2_internal.flow AS f JOIN scd2_internal.flow_state AS s USING (flow_id) WHERE f.target_relid = target
            AND f.flow_id <> refreshed.flow_id;
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
        UPDATE scd2_internal.flow_state AS s SET phase = 'copy', failed_phase = NULL, failures = 0, retry_at = NULL,
            finished_at = NULL, highest = NULL, horizon = NULL
            WHERE s.flow_id IN (SELECT f.flow_id FROM scd2_internal.flow AS f WHERE f.target_relid = target);
        PERFORM scd2_internal.wake_apply_at_commit();
        RETURN;
    END IF;
    PERFORM scd2_internal.begin_again(refreshed, allow_loss);
    UPDATE scd2_internal.flow_state AS s SET phase = 'copy', failed_phase = NULL, failures = 0, retry_at = NULL,
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
