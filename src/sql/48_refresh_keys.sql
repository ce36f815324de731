-- 48_refresh_keys.sql: full_refresh() of some keys.
--
-- In the caller's transaction: the keys are made again from the sources in a temporary table (47_check_target.sql),
-- and what differs is replaced in the target, and in what it remembers. The flows wait until that transaction ends.
-- Whatever they apply then comes after what was made here, or is known already.

CREATE FUNCTION scd2_internal.write_target(flow_id integer, statements text[]) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_write_target' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.write_target(integer, text[]) IS 'Runs statements that write the target of a flow, as its owner';

CREATE FUNCTION scd2_internal.check_refresh_keys(target regclass, key_filter text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.flow;
    s scd2_internal.flow_state;
BEGIN
    FOR f IN SELECT x.* FROM scd2_internal.flow AS x WHERE x.target_relid = target ORDER BY x.flow_id LOOP
        IF f.kind = 'append' THEN
            RAISE invalid_parameter_value USING MESSAGE = format('"%s" has no keys: rows are appended to it', target);
        END IF;
        IF f.max_lateness IS NOT NULL THEN
            RAISE feature_not_supported USING MESSAGE = format('keys of "%s" cannot be refreshed: flow "%s" has a max_lateness', target, f.name),
                DETAIL = 'Which events were too late depends on those of all keys.', HINT = format('SELECT scd2.full_refresh(%L);', target::text);
        END IF;
        IF f.purged_before IS NOT NULL AND f.memory_relid IS NOT NULL THEN
            RAISE object_not_in_prerequisite_state USING MESSAGE = format('keys of "%s" cannot be refreshed: its history was purged', target),
                DETAIL = format('What is remembered begins at %s.', f.purged_before), HINT = format('SELECT scd2.full_refresh(%L);', target::text);
        END IF;
        IF f.kind = 'snapshot' OR EXISTS (SELECT FROM scd2_internal.mark AS m WHERE m.target_relid = target AND m.kind = 'snapshot') THEN
            RAISE feature_not_supported USING MESSAGE = format('keys of "%s" cannot be refreshed: snapshots were applied to it', target),
                DETAIL = 'They spoke of all keys.', HINT = format('SELECT scd2.full_refresh(%L);', target::text);
        END IF;
        PERFORM scd2_internal.check_expression(key_filter, r, 'boolean'::regtype, 'key_filter', f.author),
                scd2_internal.check_column_list(scd2_internal.expression_columns(key_filter, r, 'key_filter', f.author), f.keys, 'key_filter', target::text)
            FROM unnest(ARRAY[target::oid, f.source_relid]) AS r;
        PERFORM scd2_internal.lock_flow(f.flow_id);
        SELECT x.* INTO s FROM scd2_internal.flow_state AS x WHERE x.flow_id = f.flow_id;
        IF s.flow_id IS NULL OR coalesce(s.failed_phase, s.phase) NOT IN ('apply', 'done') THEN
            RAISE object_not_in_prerequisite_state USING MESSAGE = format('flow "%s" has not made its first copy', f.name), HINT = 'SELECT scd2.sync();';
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.check_refresh_keys(regclass, text) IS 'Raises what stands against the refresh of some keys; locks the flows';

-- Rows that are as they must be stay as they are. (Rows of one image are equal in what identifies them, by which an
-- index or a hash finds them.)
CREATE FUNCTION scd2_internal.replace_statements(relation regclass, beside regclass, columns name[], identity name[], key_filter text) RETURNS text[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY[
        format(E'DELETE FROM ONLY %s AS t WHERE (%s\n) AND NOT EXISTS (SELECT FROM %s AS b WHERE %s)', relation, key_filter, beside, l.same),
        format(E'INSERT INTO %s (%s) SELECT %s FROM %s AS b WHERE (%s\n) AND NOT EXISTS (SELECT FROM ONLY %s AS t WHERE %s)', relation, l.names, l.values, beside, key_filter, relation, l.same)]
    FROM (SELECT string_agg(quote_ident(c), ', ' ORDER BY n) AS names, string_agg(format('b.%I', c), ', ' ORDER BY n) AS values,
                 format('%s AND pg_catalog.record_image_eq(ROW(%s), ROW(%s))', (SELECT string_agg(format('b.%I %s t.%1$I', k, scd2_internal.order_operator(a.atttypid, 3)), ' AND ')
                                                                          FROM unnest(identity) AS k JOIN pg_attribute AS a ON a.attrelid = relation AND a.attname = k),
                        string_agg(format('b.%I', c), ', ' ORDER BY n), string_agg(format('t.%I', c), ', ' ORDER BY n)) AS same
          FROM unnest(columns) WITH ORDINALITY AS u (c, n)) AS l
$$;
COMMENT ON FUNCTION scd2_internal.replace_statements(regclass, regclass, name[], name[], text) IS 'Statements that make the rows of some keys what they are in another table';

CREATE FUNCTION scd2_internal.refresh_keys(target regclass, first scd2_internal.flow, key_filter text, allow_loss boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    beside     oid;
    memory     oid;
    statements text[];
BEGIN
    PERFORM scd2_internal.check_can_rebuild(target, 'full_refresh of some keys');
    PERFORM scd2_internal.check_refresh_keys(target, key_filter);
    SELECT f.* INTO first FROM scd2_internal.flow AS f WHERE f.target_relid = target ORDER BY f.flow_id LIMIT 1;
    PERFORM scd2_internal.wait_for_feeds(target);
    beside := scd2_internal.rebuild_beside(target, first, key_filter, allow_loss);
    statements := scd2_internal.replace_statements(target, beside, scd2_internal.target_columns_kept(target),
        CASE WHEN first.scd_type = 2 THEN first.keys || first.start_column ELSE first.keys END,
        -- what was purged stays so
        CASE WHEN first.purged_before IS NULL THEN key_filter
             ELSE format(E'(%s\n) AND (%I IS NULL OR %2$I >= %L::%s)', key_filter, first.end_column, first.purged_before, first.sequence_type) END);
    IF first.memory_relid IS NOT NULL THEN
        memory := (SELECT f.memory_relid FROM scd2_internal.flow AS f WHERE f.target_relid = beside LIMIT 1);
        statements := statements || scd2_internal.replace_statements(first.memory_relid, memory,
            ARRAY(SELECT a.attname FROM pg_attribute AS a WHERE a.attrelid = memory AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum), first.keys || '_sequence'::name, key_filter);
    END IF;
    PERFORM scd2_internal.write_target(first.flow_id, statements);
    PERFORM scd2_internal.forget_beside(beside);
END $$;
COMMENT ON FUNCTION scd2_internal.refresh_keys(regclass, scd2_internal.flow, text, boolean) IS 'Part of full_refresh: makes the rows of some keys again';
