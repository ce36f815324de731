-- 42_flow_arguments.sql: what the arguments of a flow must be, and what follows from them.
--
-- Checked when the flow is declared, by name, never left to the first batch.

CREATE FUNCTION scd2_internal.check_not_repeated(once boolean, refresh_interval interval) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF once AND refresh_interval > '0' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'once and refresh_interval exclude each other',
            DETAIL = 'A flow that reads its source once has nothing to look at again.';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_not_repeated(boolean, interval) IS 'Raises 22023 if both are given';

CREATE FUNCTION scd2_internal.flow_name(wanted name, relation name) RETURNS name
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    candidate name := coalesce(wanted, relation);
    taken boolean;
    n     integer := 1;
BEGIN
    LOOP
        taken := scd2_internal.take_name('flow', candidate, wanted IS NOT NULL);
        EXIT WHEN taken AND NOT EXISTS (SELECT FROM scd2_internal.flow AS f WHERE f.name = candidate);
        IF wanted IS NOT NULL AND taken THEN
            RAISE duplicate_object USING MESSAGE = format('flow "%s" exists already', wanted);
        ELSIF wanted IS NOT NULL THEN
            PERFORM scd2_internal.refuse_name_in_use('flow', wanted);
        END IF;
        n := n + 1;
        candidate := scd2_internal.object_name(relation, n::text);
    END LOOP;
    RETURN candidate;
END $$;
COMMENT ON FUNCTION scd2_internal.flow_name(name, name) IS
    'The name of a new flow, which is taken from then on: as wanted, or the target''s, with a number if another has it or gives it just now. Errors: 42710, 55P03';

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
    IF s.state = 'failed' OR upper_inf(s.gap) OR upper(s.gap) - 1 > since THEN
        RAISE object_not_in_prerequisite_state
            USING MESSAGE = format('feed of "%s" has a gap at versions %s', s.source_relid::regclass, s.gap),
            DETAIL = s.error, HINT = (SELECT CASE WHEN upper_inf(s.gap) THEN scd2_internal.gap_remedy(f, s.gap)
                ELSE 'SELECT * FROM scd2.feeds;' END FROM scd2_internal.feed AS f WHERE f.feed_id = s.feed_id);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_feed_runs(integer, bigint) IS
    'Raises 55000 if the feed was dropped, has failed, or has a gap after version "since" (NULL: now)';

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
    SELECT e.* INTO sequence FROM scd2_internal.sequence_expression(asked.sequence_by, source, 'sequence_by', asked.author) AS e;
    sequence_type := scd2_internal.fixed_type(sequence.type, -1);
    sequence_collation := sequence.collation;
    control_columns := sequence.column_names;
    FOR expression IN
        SELECT e.* FROM (VALUES ('apply_as_deletes', asked.apply_as_deletes),
            ('apply_as_truncates', asked.apply_as_truncates), ('source_filter', asked.source_filter)) AS e (argument,
            text)
        WHERE e.text IS NOT NULL
    LOOP
        PERFORM scd2_internal.check_expression(expression.text, source, 'boolean'::regtype, expression.argument,
            asked.author);
        used := scd2_internal.expression_columns(expression.text, source, expression.argument, asked.author);
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
            expression.argument, asked.author);
        used := scd2_internal.expression_columns(expression.text, expression.reads, expression.argument,
            asked.author);
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
-- makes the event invalid. After the greatest value there is no step: the delete is at the row's own sequence, and comes
-- after it by its place in the feed. A sequence made from metadata alone is the delete's own.
CREATE FUNCTION scd2_internal.delete_sequence(asked scd2_internal.flow, feed oid, sequence_type text, of_row boolean)
    RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given  text := asked.delete_sequence_by;
    struct record;
    step   text := CASE WHEN sequence_type LIKE 'timestamp with%' THEN 'interval ''1 microsecond'''
                        WHEN sequence_type IN ('smallint', 'integer', 'bigint') THEN '1::' || sequence_type
                            WHEN sequence_type = 'date' THEN '1' END;
    most   text := CASE sequence_type WHEN 'smallint' THEN '32767' WHEN 'integer' THEN '2147483647'
                        WHEN 'bigint' THEN '9223372036854775807' WHEN 'date' THEN '5874897-12-31'
                        WHEN 'timestamp without time zone' THEN '294276-12-31 23:59:59.999999'
                        ELSE '294276-12-31 23:59:59.999999+00' END;
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
    PERFORM scd2_internal.check_expression(given, feed, sequence_type::regtype, 'delete_sequence_by', asked.author);
    given := format(E'(%s\n)::%s', given, sequence_type);
    RETURN CASE WHEN NOT of_row THEN given WHEN step IS NOT NULL
                THEN format('GREATEST(%1$s, CASE WHEN %2$s < %3$L::%4$s THEN %2$s + %5$s ELSE %2$s END)', given, own, most, sequence_type, step)
                ELSE format('CASE WHEN _change_type = ''truncate'' OR %1$s %2$s %3$s THEN %1$s END', given,
                    scd2_internal.order_operator(sequence_type::regtype, 5), own) END;
END $$;
COMMENT ON FUNCTION scd2_internal.delete_sequence(scd2_internal.flow, oid, text, boolean) IS
    'Expression for the sequence of a delete; 22023 if delete_sequence_by is needed';

-- Where a row of an event table ends, as an expression of the sequence's type; and the columns that say so.
CREATE FUNCTION scd2_internal.end_sequence(given text, source oid, sequence_type text, allowed name[], role oid,
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
    PERFORM scd2_internal.check_expression(expression, source, sequence_type::regtype, 'end_sequence_by', role);
    column_names := scd2_internal.expression_columns(expression, source, 'end_sequence_by', role);
    PERFORM scd2_internal.check_column_list(column_names, allowed, 'end_sequence_by', source::regclass::text);
END $$;
COMMENT ON FUNCTION scd2_internal.end_sequence(text, oid, text, name[], oid) IS
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
                lateness := CASE WHEN sequence_type = 'date' AND given ~ E'^\\s*\\d+\\s*$' THEN given || ' days'
                    ELSE given END;
                fits := lateness::interval::text = scd2_internal.bounded(lateness::interval)::text;
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
    IF asked.refresh_interval IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'refresh_interval must not be NULL';
    END IF;
    PERFORM scd2_internal.check_span('refresh_interval', asked.refresh_interval);
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
