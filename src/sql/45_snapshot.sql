-- 45_snapshot.sql: complete snapshots as a source.
--
-- A flow over snapshots has no feed and begins at no place of the log: its state is there with it. Snapshots are
-- applied by scd2.apply_snapshot() in the caller's transaction, or by a worker, every
-- refresh_interval or once; src/flow/snapshot.c is what both do. Alone in its target it needs no memory: versions grow.

CREATE FUNCTION scd2_internal.check_version_query(query text, role oid) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_check_version_query' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.check_version_query(text, oid)
    IS 'Raises 22023 unless the query is one SELECT of one column, as the role reads it';

CREATE FUNCTION scd2_internal.lock_target(target oid) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_lock_target' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.lock_target(oid)
    IS 'Takes the lock under which flows write into a target that several have; 55P03 after pg_scd2.lock_timeout';

CREATE FUNCTION scd2_internal.take_snapshot(flow_id integer, version text, expected_rows bigint, dry_run boolean,
    allow_deletes boolean,
        OUT inserted bigint, OUT updated bigint, OUT deleted bigint, OUT unchanged bigint)
    AS 'MODULE_PATHNAME', 'scd2_take_snapshot' LANGUAGE C;
COMMENT ON FUNCTION scd2_internal.take_snapshot(integer, text, bigint, boolean, boolean)
    IS 'Applies a snapshot; the caller has the locks and has checked the rights';

-- The type of versions, as other flows have that of their sequence_by.
CREATE FUNCTION scd2_internal.snapshot_sequence(wanted text, source oid, role oid, OUT sequence_type text,
    OUT sequence_collation oid, OUT control_columns name[])
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF wanted IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'sequence_type must not be NULL';
    END IF;
    SELECT scd2_internal.fixed_type(e.type, -1), e.collation INTO sequence_type, sequence_collation
        FROM scd2_internal.sequence_expression('NULL::' || wanted, source, 'sequence_type', role) AS e;
    control_columns := '{}';
END $$;
COMMENT ON FUNCTION scd2_internal.snapshot_sequence(text, oid, oid)
    IS 'Raises unless the type has an order; the base type of a domain';

-- The snapshot is joined with the target, in full: that takes a key type that can be hashed or merged. (All of the
-- server's can.)
CREATE FUNCTION scd2_internal.check_keys_join(source oid, keys name[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bad record;
BEGIN
    SELECT a.attname AS name, format_type(b.base, -1) AS type INTO bad
        FROM pg_attribute AS a CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) AS b
        JOIN pg_opclass AS c ON c.opcdefault AND c.opcintype = b.base
        JOIN pg_am AS m ON m.oid = c.opcmethod AND m.amname = 'btree'
        JOIN pg_amop AS p ON p.amopfamily = c.opcfamily AND p.amoplefttype = c.opcintype
            AND p.amoprighttype = c.opcintype AND p.amopstrategy = 3
        JOIN pg_operator AS o ON o.oid = p.amopopr
        WHERE a.attrelid = source AND a.attname = ANY (keys) AND NOT o.oprcanmerge AND NOT o.oprcanhash
        LIMIT 1;
    IF FOUND THEN
        RAISE feature_not_supported USING MESSAGE = format('column "%s" of "%s" cannot be a key of snapshots',
            bad.name, source::regclass),
            DETAIL = format('The equality of type %s supports neither merge nor hash joins.', bad.type);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_keys_join(oid, name[]) IS 'Raises 0A000 unless the keys can be joined in full';

CREATE FUNCTION scd2_internal.check_snapshot_schedule(asked scd2_internal.flow, sequence_type text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF asked.version_query IS NULL AND (asked.once OR asked.refresh_interval > '0')
        AND sequence_type NOT IN ('timestamp with time zone', 'timestamp without time zone', 'date') THEN
        RAISE invalid_parameter_value USING MESSAGE = 'version_query is missing',
            DETAIL = format('A snapshot that a worker takes is of version now(), which is no %s.', sequence_type),
                HINT = 'version_query => ''SELECT …''';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_snapshot_schedule(scd2_internal.flow, text)
    IS 'Raises 22023 if a worker could give its snapshots no version';

-- What only flows over snapshots have.
CREATE FUNCTION scd2_internal.check_snapshot_flow(asked scd2_internal.flow, source oid, sequence_type text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    others name[];
BEGIN
    IF asked.delete_absent IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'delete_absent must not be NULL';
    END IF;
    IF asked.max_delete_fraction IS NULL OR NOT asked.max_delete_fraction BETWEEN 0 AND 1 THEN
        RAISE invalid_parameter_value USING MESSAGE = format('max_delete_fraction is %s',
            coalesce(asked.max_delete_fraction::text, 'NULL')),
            HINT = 'It is from 0 to 1: 0.1 for at most a tenth of the keys.';
    END IF;
    -- A comparison has source and target side by side, the keys once more, and whether the row is in scope; the server
    -- takes 1664 columns.
    IF 2 * cardinality(asked.columns) + cardinality(asked.keys) + 1 > 1664 THEN
        RAISE too_many_columns USING MESSAGE = format('too many columns of "%s" for snapshots: %s', source::regclass, cardinality(asked.columns)),
            DETAIL = format('With %s keys there are at most %s.', cardinality(asked.keys), (1663 - cardinality(asked.keys)) / 2),
            HINT = 'Leave some out: except_column_list => ''{…}''.';
    END IF;
    PERFORM scd2_internal.check_keys_join(source, asked.keys);
    PERFORM scd2_internal.check_snapshot_schedule(asked, sequence_type);
    IF asked.scope IS NOT NULL THEN
        PERFORM scd2_internal.check_expression(asked.scope, source, 'boolean'::regtype, 'scope', asked.author);
        others := ARRAY(SELECT c FROM unnest(scd2_internal.expression_columns(asked.scope, source, 'scope', asked.author)) AS c
            WHERE c <> ALL (asked.keys));
        IF others <> '{}' THEN
            RAISE invalid_parameter_value USING MESSAGE = 'scope must use key columns only',
                DETAIL = format('It uses %s.', array_to_string(others, ', ')),
                HINT = 'A row that a snapshot lacks has nothing but its key to be asked by.';
        END IF;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_snapshot_flow(scd2_internal.flow, oid, text)
    IS 'Raises what is wrong with a flow over snapshots';

-- The same of a flow over a feed with its default sequence: as it was just before the last version that it has
-- applied, whose changes are in the rows. From then on it remembers what changes it makes.
CREATE FUNCTION scd2_internal.remember_changes_from_now(first scd2_internal.flow) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.check_keys_immediate(first.source_relid, first.keys);
    first := scd2_internal.give_memory(first, first.target_relid, 0);
    UPDATE scd2_internal.flow AS f SET memory_name = first.memory_name, memory_relid = first.memory_relid,
            input = 'changes', closes = true,
            -- nothing that it will bring is below the first moment after what it has brought
            purged_before = (SELECT to_char(least(f.purged_before::timestamptz, s.watermark_timestamp + interval '1 us') AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') || '+00'
                             FROM scd2_internal.flow_state AS s WHERE s.flow_id = f.flow_id AND f.purged_before IS NOT NULL), sequence_by = '_commit_timestamp', delete_sequence_by = '_commit_timestamp',
            apply_as_truncates = coalesce(f.apply_as_truncates, '_change_type = ''truncate''')
        WHERE f.flow_id = first.flow_id;
    INSERT INTO scd2_internal.mark (target_schema, target_name, target_relid, sequence, kind, flow_id)
        SELECT first.target_schema, first.target_name, first.target_relid,
               to_char(s.watermark_timestamp AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') || '+00', 'horizon', first.flow_id
        FROM scd2_internal.flow_state AS s
        WHERE s.flow_id = first.flow_id AND coalesce(s.failed_phase, s.phase) <> 'copy';
    SELECT f.* INTO first FROM scd2_internal.flow AS f WHERE f.flow_id = first.flow_id;
    RETURN first;
END $$;
COMMENT ON FUNCTION scd2_internal.remember_changes_from_now(scd2_internal.flow) IS
    'Gives the target of a flow over a feed a memory, with a mark that says how each key was';

-- A flow that had its target for itself gets company: its rows are taken as found, as of its last snapshot.
CREATE FUNCTION scd2_internal.remember_from_now(first scd2_internal.flow) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.lock_flow(first.flow_id);
    IF first.input = 'net' THEN
        RETURN scd2_internal.remember_changes_from_now(first);
    END IF;
    IF first.scope IS NOT NULL THEN
        PERFORM scd2_internal.check_immutable(first.scope, first.source_relid, 'scope', first.author);
    END IF;
    first := scd2_internal.give_memory(first, first.target_relid, (SELECT t.typcollation FROM pg_type AS t
        WHERE t.oid = first.sequence_type::regtype));
    UPDATE scd2_internal.flow AS f SET memory_name = first.memory_name, memory_relid = first.memory_relid, purged_before = NULL
        WHERE f.flow_id = first.flow_id;
    INSERT INTO scd2_internal.mark (target_schema, target_name, target_relid, sequence, kind, flow_id, scope,
        scope_alias, scope_settings)
        SELECT first.target_schema, first.target_name, first.target_relid, s.snapshot_version, 'snapshot',
            first.flow_id, first.scope, first.source_name,
               CASE WHEN first.scope IS NOT NULL THEN first.settings END
        FROM scd2_internal.flow_state AS s WHERE s.flow_id = first.flow_id AND s.snapshot_version IS NOT NULL;
    RETURN first;
END $$;
COMMENT ON FUNCTION scd2_internal.remember_from_now(scd2_internal.flow)
    IS 'Gives the target of a flow that has none a memory, with its last snapshot in it';

CREATE FUNCTION scd2_internal.create_auto_cdc_from_snapshot_flow(caller oid, target text, source regclass, keys name[],
    sequence_type regtype, stored_as_scd_type integer,
        column_list name[], except_column_list name[], track_history_column_list name[],
            track_history_except_column_list name[], name name, once boolean,
        start_column name, end_column name, current_column name, open_row_index boolean, shared boolean, scope text,
            delete_absent boolean, max_delete_fraction numeric,
        refresh_interval interval, version_query text, trust boolean) RETURNS name
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    asked scd2_internal.flow;
    rel   record;
    place record;
BEGIN
    IF target IS NULL OR source IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = format('%s must not be NULL',
            CASE WHEN target IS NULL THEN 'target' ELSE 'source' END);
    END IF;
    PERFORM scd2_internal.check_not_repeated(once, refresh_interval);
    IF refresh_interval <= '0' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'refresh_interval must be positive',
            HINT = 'Without one, only scd2.apply_snapshot() applies snapshots.';
    END IF;
    SELECT c.relkind, c.relpersistence INTO rel FROM pg_class AS c WHERE c.oid = source;
    IF rel.relkind NOT IN ('r', 'p', 'v', 'm', 'f') OR rel.relpersistence = 't' THEN
        RAISE wrong_object_type USING MESSAGE = format('"%s" cannot be a source of snapshots', source),
            DETAIL = CASE WHEN rel.relpersistence = 't' THEN 'It is temporary.' ELSE 'It has no rows to read.' END;
    END IF;
    asked.input := 'snapshots';
    asked.source_relid := source;
    asked.keys := keys;
    asked.sequence_type := scd2_internal.fixed_type(sequence_type, -1);
    asked.scd_type := stored_as_scd_type;
    asked.once := coalesce(once, false);
    asked.start_column := start_column;
    asked.end_column := end_column;
    asked.current_column := current_column;
    asked.scope := scope;
    asked.delete_absent := delete_absent;
    asked.max_delete_fraction := max_delete_fraction;
    asked.refresh_interval := coalesce(refresh_interval, '0');
    asked.version_query := version_query;
    asked.on_invalid_event := 'fail';
    asked.trusted := trust;
    SELECT r.* INTO place FROM scd2_internal.caller_relation(target) AS r;
    asked.name := scd2_internal.flow_name(name, place.relation);
    asked.target_schema := scd2_internal.place_of(place.schema);
    asked.target_name := place.relation;
    asked.target_relid := place.relid;
    asked.flow_id := scd2_internal.add_feed_flow(caller, asked, column_list, except_column_list,
        track_history_column_list, track_history_except_column_list, open_row_index, coalesce(shared, false));
    IF version_query IS NOT NULL THEN
        PERFORM scd2_internal.check_version_query(version_query, f.author) FROM scd2_internal.flow AS f
            WHERE f.flow_id = asked.flow_id;
    END IF;
    RETURN (SELECT f.name FROM scd2_internal.flow AS f WHERE f.flow_id = asked.flow_id);
END $$;
COMMENT ON FUNCTION scd2_internal.create_auto_cdc_from_snapshot_flow(oid, text, regclass, name[], regtype, integer,
    name[], name[], name[], name[], name, boolean, name, name, name, boolean, boolean, text, boolean, numeric,
    interval, text, boolean) IS
    'What scd2.create_auto_cdc_from_snapshot_flow() does, with the rights of the extension''s owner; "caller" is '
    'whose rights count';

CREATE FUNCTION scd2.create_auto_cdc_from_snapshot_flow(target text, source regclass, keys name[],
    sequence_type regtype DEFAULT 'timestamptz', stored_as_scd_type integer DEFAULT 1,
        column_list name[] DEFAULT NULL, except_column_list name[] DEFAULT NULL,
            track_history_column_list name[] DEFAULT NULL, track_history_except_column_list name[] DEFAULT NULL,
        name name DEFAULT NULL, once boolean DEFAULT false, start_column name DEFAULT '__start_at',
            end_column name DEFAULT '__end_at', current_column name DEFAULT NULL,
        open_row_index boolean DEFAULT false, shared boolean DEFAULT false, scope text DEFAULT NULL,
            delete_absent boolean DEFAULT true, max_delete_fraction numeric DEFAULT 0.1,
        refresh_interval interval DEFAULT NULL, version_query text DEFAULT NULL,
        trust boolean DEFAULT false) RETURNS name
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.create_auto_cdc_from_snapshot_flow(text, regclass, name[], regtype, integer, name[], name[],
    name[], name[], name, boolean, name, name, name, boolean, boolean, text, boolean, numeric, interval, text, boolean) IS
    'Declares a flow that keeps "target" (created if it is not there) from snapshots of "source", any relation: its '
    'rows, each time anew, are all that there is. Returns the flow''s name. apply_snapshot() applies one; '
    'with refresh_interval or once a worker does, of the version that version_query gives (NULL: now()). '
    'sequence_type: of versions; scope: a condition over the keys, only keys for which it is true are deleted when absent; '
    'delete_absent: false: none is; max_delete_fraction: of the keys, 0 to 1. The other arguments and errors as create_auto_cdc_flow.';

CREATE FUNCTION scd2_internal.check_snapshot_can_be_applied(named scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    phase text;
BEGIN
    IF named.kind <> 'snapshot' THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('flow "%s" takes no snapshots', named.name),
            HINT = 'SELECT flow FROM scd2.flows WHERE kind = ''snapshot'';';
    END IF;
    IF named.paused THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('flow "%s" is paused', named.name),
            HINT = format('SELECT scd2.resume_flow(%L);', named.name);
    END IF;
    SELECT coalesce(s.failed_phase, s.phase) INTO phase FROM scd2_internal.flow_state AS s
        WHERE s.flow_id = named.flow_id;
    IF phase = 'copy' THEN
        RAISE object_not_in_prerequisite_state
            USING MESSAGE = format('a full refresh of the target of flow "%s" has not ended', named.name),
            HINT = 'SELECT scd2.sync();';
    ELSIF phase = 'done' THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('flow "%s" has taken its snapshot', named.name),
            DETAIL = 'It is of once => true.',
            HINT = format('SELECT scd2.full_refresh(%L);', named.target_relid::regclass::text);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_snapshot_can_be_applied(scd2_internal.flow)
    IS 'Raises 55000 unless the flow is over snapshots and ready for one';

CREATE FUNCTION scd2_internal.apply_snapshot(caller oid, flow name, snapshot_version text, expected_rows bigint,
    dry_run boolean, allow_deletes boolean)
    RETURNS TABLE (inserted bigint, updated bigint, deleted bigint, unchanged bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    named  scd2_internal.flow := scd2_internal.find_flow(caller, flow);
    counts record;
BEGIN
    IF snapshot_version IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'snapshot_version must not be NULL';
    ELSIF expected_rows < 0 THEN
        RAISE invalid_parameter_value USING MESSAGE = format('expected_rows is %s', expected_rows),
            DETAIL = 'A source has no rows at least.';
    END IF;
    PERFORM scd2_internal.check_snapshot_can_be_applied(named);
    -- Until the transaction ends: two runs never interleave.
    PERFORM scd2_internal.lock_flow(named.flow_id);
    PERFORM scd2_internal.lock_target(named.target_relid);
    PERFORM scd2_internal.check_snapshot_can_be_applied(scd2_internal.find_flow(caller, flow));
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        -- What was applied since the transaction's snapshot was taken would not be seen, and be undone in part: a
        -- serialization failure instead.
        PERFORM FROM scd2_internal.flow_state AS s JOIN scd2_internal.flow AS f USING (flow_id)
            WHERE f.target_relid = named.target_relid FOR UPDATE OF s;
    END IF;
    -- (Before it, the flow follows the columns of its source.)
    IF coalesce(dry_run, false) THEN
        BEGIN
            SELECT t.* INTO counts FROM scd2_internal.take_snapshot(named.flow_id, snapshot_version, expected_rows,
                true, allow_deletes) AS t;
            RAISE EXCEPTION SQLSTATE 'SC2DR' USING MESSAGE = 'what a dry run did is undone';
        EXCEPTION WHEN SQLSTATE 'SC2DR' THEN
            RETURN QUERY SELECT counts.inserted, counts.updated, counts.deleted, counts.unchanged;
            RETURN;
        END;
    END IF;
    RETURN QUERY SELECT t.* FROM scd2_internal.take_snapshot(named.flow_id, snapshot_version, expected_rows, false,
        allow_deletes) AS t;
END $$;
COMMENT ON FUNCTION scd2_internal.apply_snapshot(oid, name, text, bigint, boolean, boolean)
    IS 'What scd2.apply_snapshot() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.apply_snapshot(flow name, snapshot_version text, expected_rows bigint DEFAULT NULL,
    dry_run boolean DEFAULT false, allow_deletes boolean DEFAULT false)
    RETURNS TABLE (inserted bigint, updated bigint, deleted bigint, unchanged bigint)
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.apply_snapshot(name, text, bigint, boolean, boolean) IS
    'Applies what the source of a flow over snapshots shows now, as version "snapshot_version", in the caller''s '
    'transaction, after the target has followed the columns of the source; how many keys it added, changed, deleted, '
    'and left as they were. A version must be above the '
    'last; the same is skipped with a notice. expected_rows: of the source; dry_run: only counts; allow_deletes: of any '
    'number of keys. Refused: a version below the last (22023), keys that are NULL (22004), out of scope (22000) or '
    'there twice (21000), another number than expected_rows (22000); more deletes than max_delete_fraction, or no '
    'row at all (55000, '
    'unless allow_deletes), columns that cannot be followed (55000; 55P03 while the target is in use). 42704 no such flow, 42501 not the owner of its target, 55P03 if the flow is at work.';

CREATE FUNCTION scd2.apply_snapshot(flow name, snapshot_version anyelement, expected_rows bigint DEFAULT NULL,
    dry_run boolean DEFAULT false, allow_deletes boolean DEFAULT false)
    RETURNS TABLE (inserted bigint, updated bigint, deleted bigint, unchanged bigint)
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.* FROM scd2.apply_snapshot($1, $2::text, $3, $4, $5) AS s
$$;
COMMENT ON FUNCTION scd2.apply_snapshot(name, anyelement, bigint, boolean, boolean)
    IS 'The same with a version of any type: apply_snapshot(''f'', 42). Arguments and errors as there.';

CREATE FUNCTION scd2_internal.alter_snapshot_flow(altered scd2_internal.flow, refresh_interval interval,
    nothing_else boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT nothing_else THEN
        RAISE feature_not_supported
            USING MESSAGE = format('of flow "%s", which is over snapshots, only refresh_interval can be altered',
            altered.name);
    END IF;
    altered.refresh_interval := coalesce(alter_snapshot_flow.refresh_interval, altered.refresh_interval);
    PERFORM scd2_internal.check_span('refresh_interval', altered.refresh_interval);
    PERFORM scd2_internal.check_not_repeated(altered.once, altered.refresh_interval);
    PERFORM scd2_internal.check_snapshot_schedule(altered, altered.sequence_type);
    UPDATE scd2_internal.flow AS f SET refresh_interval = altered.refresh_interval, definition = f.definition + 1
        WHERE f.flow_id = altered.flow_id;
    PERFORM scd2_internal.wake_apply_at_commit();
END $$;
COMMENT ON FUNCTION scd2_internal.alter_snapshot_flow(scd2_internal.flow, interval, boolean)
    IS 'alter_flow() for flows over snapshots. An interval of 0 leaves them to apply_snapshot()';

-- A refresh knows what the source shows now, not what earlier snapshots showed.
CREATE FUNCTION scd2_internal.check_snapshots_lost(target regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    losing record;
BEGIN
    SELECT f.name, s.batches INTO losing FROM scd2_internal.flow AS f JOIN scd2_internal.flow_state AS s USING (flow_id)
        WHERE f.target_relid = target AND f.kind = 'snapshot' AND s.batches > 1 AND (f.scd_type = 2
            OR NOT f.delete_absent)
        ORDER BY f.flow_id LIMIT 1;
    IF FOUND THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('a full refresh of "%s" would lose history',
            target),
            DETAIL = format('Flow "%s" has applied %s snapshots; only what its source shows now can be applied again.',
                losing.name, losing.batches),
            HINT = format('SELECT scd2.full_refresh(%L, allow_loss => true);', target::text);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_snapshots_lost(regclass)
    IS 'Raises 55000 if a full refresh could not bring back what earlier snapshots made';
