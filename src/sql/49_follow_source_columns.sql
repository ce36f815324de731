-- 49_follow_source_columns.sql: flows over snapshots follow the columns of their source.
--
-- The source is any relation, and nothing says that it was altered. So before each snapshot, under a lock on the
-- source, its columns are compared with those that the flow knows, by number, and definition and target follow in the
-- transaction of the snapshot (a dry run: in one that is undone). As with feeds (49_follow_columns.sql):
--
--   renamed     renamed in target, memory and definition, the scope included
--   added       added, unless a column_list or track_history_column_list says otherwise
--   new type    the target's column gets it, if it takes the same values; a narrower one needs nothing
--   dropped     stays and is NULL from then on; if another column has its name now, it becomes <name>_until_<version>
--
-- Where the source is another relation than the numbers are of (after a restore), columns are known by their names.

-- As followed_columns() of a feed, with base types. A type that takes fewer values than the target's is the target's.
CREATE FUNCTION scd2_internal.followed_columns(w scd2_internal.flow, OUT attnum smallint, OUT name name, OUT type text,
    OUT typmod integer, OUT base oid, OUT collation oid, OUT missing text, OUT dropped boolean, OUT until bigint,
    OUT stands_for name)
    RETURNS SETOF record
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.* FROM scd2_internal.followed_columns(w.feed_id) AS c WHERE w.feed_id IS NOT NULL
    UNION ALL
    SELECT a.attnum, a.attname, format_type(b.base, m.typmod), m.typmod, b.base, a.attcollation,
           (SELECT (l.attmissingval::text::text[])[1] FROM pg_attribute AS l
            WHERE l.attrelid = scd2_internal.leaf_with_rows(a.attrelid) AND l.attname = a.attname AND l.atthasmissing),
           false, NULL, a.attname
    FROM pg_attribute AS a CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) AS b
    LEFT JOIN pg_attribute AS t ON t.attrelid = w.target_relid AND t.attname = a.attname AND NOT t.attisdropped
    LEFT JOIN LATERAL scd2_internal.base_type(t.atttypid, t.atttypmod) AS tb ON true
    CROSS JOIN LATERAL (SELECT CASE WHEN tb.base = b.base
        AND scd2_internal.type_is_followed(b.base, b.base_typmod, tb.base, tb.base_typmod)
        THEN tb.base_typmod ELSE b.base_typmod END) AS m (typmod)
    WHERE w.feed_id IS NULL AND a.attrelid = w.source_relid AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY 1
$$;
COMMENT ON FUNCTION scd2_internal.followed_columns(scd2_internal.flow) IS
    'The columns that a flow follows: of its feed, or, if it has none, of its source';

CREATE FUNCTION scd2_internal.know_source_columns(id integer) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE scd2_internal.flow AS f SET known_attnums = n.attnums, known_names = n.names, known_changes = n.source
    FROM (SELECT a.attrelid, array_agg(a.attnum ORDER BY a.attnum) AS attnums,
                 array_agg(a.attname ORDER BY a.attnum) AS names, hashoid(a.attrelid) AS source
          FROM pg_attribute AS a WHERE a.attnum > 0 AND NOT a.attisdropped
            AND a.attrelid = (SELECT w.source_relid FROM scd2_internal.flow AS w WHERE w.flow_id = id) GROUP BY a.attrelid) AS n
    WHERE f.flow_id = id AND f.kind = 'snapshot'
      AND (f.known_attnums, f.known_names, f.known_changes) IS DISTINCT FROM (n.attnums, n.names, n.source)
$$;
COMMENT ON FUNCTION scd2_internal.know_source_columns(integer) IS
    'Writes down the columns that the source of a flow over snapshots has now';

CREATE FUNCTION scd2_internal.with_known_numbers(w scd2_internal.flow) RETURNS scd2_internal.flow
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF w.known_changes IS DISTINCT FROM hashoid(w.source_relid) THEN
        w.known_attnums := ARRAY(SELECT coalesce(scd2_internal.column_number(w.source_relid, k.name), -k.n::smallint)
            FROM unnest(w.known_names) WITH ORDINALITY AS k (name, n) ORDER BY k.n);
    END IF;
    RETURN w;
END $$;
COMMENT ON FUNCTION scd2_internal.with_known_numbers(scd2_internal.flow) IS
    'A flow that knows its source''s columns by their numbers now, if the source is another relation';

-- A column that its source has no more, and whose name another has.
CREATE FUNCTION scd2_internal.keep_under_other_name(w scd2_internal.flow, column_name name) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kept name := scd2_internal.object_name(column_name,
        format('until_%s', (SELECT p.version FROM scd2_internal.position AS p)));
BEGIN
    WHILE scd2_internal.has_column(w.target_relid, kept) LOOP
        kept := scd2_internal.object_name(kept, 'too');
    END LOOP;
    PERFORM scd2_internal.lock_target_columns(w);
    PERFORM scd2_internal.alter_as_owner(w.target_relid,
        scd2_internal.rename_statements(w.target_relid, ARRAY[column_name], ARRAY[kept])
        || coalesce(scd2_internal.rename_statements(w.memory_relid, ARRAY[column_name], ARRAY[kept]), '{}'));
    w.columns := scd2_internal.renamed(w.columns, ARRAY[column_name], ARRAY[kept]);
    w.tracked := scd2_internal.renamed(w.tracked, ARRAY[column_name], ARRAY[kept]);
    w.ignores_null := scd2_internal.renamed(w.ignores_null, ARRAY[column_name], ARRAY[kept]);
    w.absent := w.absent || kept;
    RETURN w;
END $$;
COMMENT ON FUNCTION scd2_internal.keep_under_other_name(scd2_internal.flow, name) IS
    'A flow, and its target, in which a column that was dropped makes room for another of its name. Raises 55P03';

CREATE FUNCTION scd2_internal.leave_dropped_columns(w scd2_internal.flow) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    gone name;
BEGIN
    FOR gone IN
        SELECT k.name FROM ROWS FROM (unnest(w.known_attnums), unnest(w.known_names)) WITH ORDINALITY AS k (attnum, name, n)
        WHERE k.name = ANY (w.columns) AND k.name <> ALL (w.absent)
          AND k.attnum NOT IN (SELECT c.attnum FROM scd2_internal.followed_columns(w) AS c) ORDER BY k.n
    LOOP
        IF gone = ANY (w.keys) THEN
            PERFORM scd2_internal.cannot_follow(w, format('key column "%s" was dropped', gone), NULL,
                format('SELECT scd2.drop_flow(%L); -- then begin anew', w.name));
        ELSIF scd2_internal.has_column(w.source_relid, gone) AND NOT scd2_internal.is_shared(w) THEN
            w := scd2_internal.keep_under_other_name(w, gone);
        ELSE
            w.absent := w.absent || gone;
        END IF;
    END LOOP;
    RETURN w;
END $$;
COMMENT ON FUNCTION scd2_internal.leave_dropped_columns(scd2_internal.flow) IS
    'A flow for which columns that its source has no more are NULL. Raises 55000, 55P03';

-- Snapshots that are remembered speak of the keys in their scope.
CREATE FUNCTION scd2_internal.rename_in_scopes(w scd2_internal.flow) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old_names name[];
    new_names name[];
BEGIN
    SELECT array_agg(k.name), array_agg(c.name) INTO old_names, new_names
        FROM ROWS FROM (unnest(w.known_attnums), unnest(w.known_names)) AS k (attnum, name)
        JOIN scd2_internal.followed_columns(w) AS c USING (attnum) WHERE c.name <> k.name;
    IF old_names IS NOT NULL THEN
        w.scope := scd2_internal.renamed_expression(w, w.scope, old_names, new_names);
        UPDATE scd2_internal.mark AS m SET scope = scd2_internal.rename_columns(m.scope, m.scope_alias, old_names, new_names)
            WHERE m.target_relid = w.target_relid AND m.flow_id = w.flow_id AND m.scope IS NOT NULL;
    END IF;
    RETURN w;
END $$;
COMMENT ON FUNCTION scd2_internal.rename_in_scopes(scd2_internal.flow) IS
    'A flow, and the snapshots of it that are remembered, with scopes under the names that columns have now';

CREATE FUNCTION scd2_internal.check_types_follow(w scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c record;
BEGIN
    SELECT f.name, f.type, format_type(b.base, b.base_typmod) AS was INTO c
        FROM scd2_internal.followed_columns(w) AS f
        JOIN pg_attribute AS a ON a.attrelid = w.target_relid AND a.attname = f.name AND NOT a.attisdropped
        CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) AS b
        WHERE f.name = ANY (w.columns) AND f.name <> ALL (w.absent)
          AND (b.base <> f.base OR b.base_typmod <> f.typmod)
          AND NOT scd2_internal.type_is_followed(b.base, b.base_typmod, f.base, f.typmod)
        ORDER BY f.attnum LIMIT 1;
    IF FOUND THEN
        PERFORM scd2_internal.cannot_follow(w, format('column "%s" is of type %s now', c.name, c.type),
            format('In target "%s" it is of type %s, whose values are not all of the new one in one way only.',
                scd2_internal.label(w.target_relid), c.was),
            (SELECT string_agg(format('ALTER TABLE %s ALTER COLUMN %I TYPE %s USING %2$I::%3$s; ', r::regclass, c.name, c.type), '')
             FROM unnest(ARRAY[w.target_relid, w.memory_relid]::oid[]) AS r WHERE scd2_internal.has_column(r, c.name))
            || format('SELECT scd2.resume_flow(%L); -- or what else makes new values of the old', w.name));
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_types_follow(scd2_internal.flow) IS
    'Raises 55000 if the target''s values of a column cannot become the type that the source''s column has now';

CREATE FUNCTION scd2_internal.follow_source_columns(id integer) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET pg_scd2.enable_change_feed_on_create = off AS $$
DECLARE
    w     scd2_internal.flow;
    known scd2_internal.flow;
BEGIN
    SELECT f.* INTO known FROM scd2_internal.flow AS f JOIN pg_class AS t ON t.oid = f.target_relid
        JOIN pg_class AS s ON s.oid = f.source_relid WHERE f.flow_id = id AND f.kind = 'snapshot';
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM scd2_internal.check_authorized(known);
    known := scd2_internal.with_known_numbers(known);
    w := scd2_internal.leave_dropped_columns(known);
    w := scd2_internal.rename_in_scopes(w);
    w := scd2_internal.follow_names(w);
    PERFORM scd2_internal.check_types_follow(w);
    PERFORM scd2_internal.follow_types(w);
    w := scd2_internal.follow_additions(w);
    IF w OPERATOR(pg_catalog.*<>) known THEN
        UPDATE scd2_internal.flow AS f SET keys = w.keys, columns = w.columns, tracked = w.tracked, absent = w.absent,
                ignores_null = w.ignores_null, scope = w.scope, options = w.options, definition = f.definition + 1
            WHERE f.flow_id = id;
    END IF;
    PERFORM scd2_internal.know_source_columns(id);
END $$;
COMMENT ON FUNCTION scd2_internal.follow_source_columns(integer) IS
    'Has a flow over snapshots follow the columns of its source, which is locked. Errors: 55000, 55P03';
