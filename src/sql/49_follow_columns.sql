-- 49_follow_columns.sql: flows follow the columns of their feeds.
--
-- A feed follows its source (src/feed/layout.c), in all its rows at once: a column has its new name and type in old
-- versions too. So it does not matter how far a flow is: before its next batch, definition and target get what the
-- feed has. Columns of a feed keep their number; a flow knows which there were, under which names.
--
--   renamed     renamed in target, memory and definition, expressions included
--   added       added, unless a column_list or track_history_column_list says otherwise; rows that are there have the constant default, as their source's have, and so no row changes
--   new type    the target's column gets it; where values changed, the feed keeps the column beside a new one of the name, and so does the target: what a flow says of
--               the column (lists) it says of the new one. A flow with an expression that names it stops, and so does one whose key it is
--   dropped     stays; a flow with an expression that names it stops
--
-- A target that other flows keep too has its columns from all of them: there, only adding is followed, and the rows
-- that are there have NULL.
--
-- As the owner of the target, under its lock, which is tried for 100 ms: what cannot be done now is tried again.

CREATE FUNCTION scd2_internal.alter_as_owner(relation oid, statements text[]) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_alter_as_owner' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.alter_as_owner(oid, text[]) IS 'Executes the statements as the owner of the relation';

-- Columns of a feed that are its source's. (The owner may have added others.)
CREATE FUNCTION scd2_internal.followed_columns(feed integer, OUT attnum smallint, OUT name name, OUT type text, OUT typmod integer, OUT base oid, OUT collation oid, OUT missing text, OUT dropped boolean, OUT until bigint, OUT stands_for name)
    RETURNS SETOF record
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.atttypmod, a.atttypid, a.attcollation, c.missing,
           NOT EXISTS (SELECT FROM pg_attribute s WHERE s.attrelid = f.source_relid AND s.attnum = c.source_attnum AND NOT s.attisdropped),
           c.until, coalesce((SELECT n.name FROM scd2_internal.feed_column n WHERE n.feed_id = c.feed_id AND n.source_attnum = c.was), a.attname)
    FROM scd2_internal.feed f JOIN scd2_internal.feed_column c USING (feed_id) JOIN pg_attribute a ON a.attrelid = f.feed_relid AND a.attnum = c.feed_attnum AND NOT a.attisdropped
    WHERE f.feed_id = feed ORDER BY a.attnum
$$;
COMMENT ON FUNCTION scd2_internal.followed_columns(integer) IS
    'The columns of a feed that follow those of its source, or did: dropped; until: its type changed in this version, and stands_for is the column that came then';

-- What a new flow knows. (A column that came to the feed with it is not followed yet: it is known by its name.)
CREATE FUNCTION scd2_internal.know_columns(id integer) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE scd2_internal.flow f SET (known_changes, known_attnums, known_names) = (
        SELECT coalesce((SELECT l.changes FROM scd2_internal.feed_layout l WHERE l.feed_id = f.feed_id), 0), array_agg(a.attnum ORDER BY a.attnum), array_agg(a.attname ORDER BY a.attnum)
        FROM scd2_internal.feed d JOIN pg_attribute a ON a.attrelid = d.feed_relid AND a.attnum > 5 AND NOT a.attisdropped WHERE d.feed_id = f.feed_id)
    WHERE f.flow_id = id AND f.feed_id IS NOT NULL
$$;
COMMENT ON FUNCTION scd2_internal.know_columns(integer) IS 'Writes down the columns of a flow''s feed as they are';

CREATE FUNCTION scd2_internal.renamed(names name[], old_names name[], new_names name[]) RETURNS name[]
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(coalesce(new_names[array_position(old_names, n)], n) ORDER BY i), '{}') FROM unnest(names) WITH ORDINALITY u (n, i)
$$;
COMMENT ON FUNCTION scd2_internal.renamed(name[], name[], name[]) IS 'A list of columns under their new names';

CREATE FUNCTION scd2_internal.cannot_follow(w scd2_internal.flow, what text, detail text, hint text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.refuse('55000', format('flow "%s" cannot follow its source "%s.%s": %s', w.name, w.source_schema, w.source_name, what), concat_ws(' ', detail, 'Remedy: ' || hint), hint);
END $$;
COMMENT ON FUNCTION scd2_internal.cannot_follow(scd2_internal.flow, text, text, text) IS 'Raises 55000';

CREATE FUNCTION scd2_internal.rename_columns(expression text, alias name, old_names name[], new_names name[]) RETURNS text
    AS 'MODULE_PATHNAME', 'scd2_rename_columns' LANGUAGE C IMMUTABLE STRICT;
COMMENT ON FUNCTION scd2_internal.rename_columns(text, name, name[], name[]) IS
    'An expression over the columns of a relation, called alias in it, after columns of it were renamed';

-- A table that is renamed keeps its alias in expressions that have it (follow_recorded_names).
CREATE FUNCTION scd2_internal.source_alias(w scd2_internal.flow) RETURNS name
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(w.options ->> 'source_alias', CASE w.input WHEN 'changes' THEN (SELECT f.feed_name FROM scd2_internal.feed f WHERE f.feed_id = w.feed_id) END, w.source_name)::name
$$;
COMMENT ON FUNCTION scd2_internal.source_alias(scd2_internal.flow) IS 'What expressions of a flow may call the relation whose columns they name';

CREATE FUNCTION scd2_internal.renamed_expression(w scd2_internal.flow, expression text, old_names name[], new_names name[])
    RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.rename_columns(expression, scd2_internal.source_alias(w), old_names, new_names)
$$;
COMMENT ON FUNCTION scd2_internal.renamed_expression(scd2_internal.flow, text, name[], name[]) IS
    'An expression of a flow after columns were renamed';

-- The lists among the arguments as given; what is left out stays so under its new name, and a new column of the old name
-- is another.
CREATE FUNCTION scd2_internal.renamed_options(options jsonb, old_names name[], new_names name[]) RETURNS jsonb
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_object_agg(o.key, CASE jsonb_typeof(o.value) WHEN 'array'
        THEN to_jsonb(scd2_internal.renamed(ARRAY(SELECT jsonb_array_elements_text(o.value))::name[], old_names, new_names))
        ELSE o.value END), '{}') FROM jsonb_each(options) o
$$;
COMMENT ON FUNCTION scd2_internal.renamed_options(jsonb, name[], name[]) IS 'Lists of columns under their new names';

CREATE FUNCTION scd2_internal.has_column(relation oid, column_name name) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = column_name AND a.attnum > 0 AND NOT a.attisdropped)
$$;
COMMENT ON FUNCTION scd2_internal.has_column(oid, name) IS 'Whether a relation has a column of this name';

-- Statements that rename the columns of one relation that it has. Names can go round, so there are names between.
CREATE FUNCTION scd2_internal.rename_statements(relation oid, old_names name[], new_names name[]) RETURNS text[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(format('ALTER TABLE %s RENAME COLUMN %I TO %I', scd2_internal.fixed_name(relation), CASE p WHEN 1 THEN o ELSE '_scd2_renamed_' || n END, CASE p WHEN 1 THEN '_scd2_renamed_' || n ELSE new_names[n] END) ORDER BY p, n), '{}')
    FROM unnest(old_names) WITH ORDINALITY u (o, n), generate_series(1, 2) p WHERE scd2_internal.has_column(relation, o)
$$;
COMMENT ON FUNCTION scd2_internal.rename_statements(oid, name[], name[]) IS 'ALTER TABLE … RENAME COLUMN for each of these that the relation has';

CREATE FUNCTION scd2_internal.is_shared(w scd2_internal.flow) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM scd2_internal.flow o WHERE o.target_relid = w.target_relid AND o.flow_id <> w.flow_id)
$$;
COMMENT ON FUNCTION scd2_internal.is_shared(scd2_internal.flow) IS 'Whether other flows keep the target too';

-- Before columns of target and memory change.
CREATE FUNCTION scd2_internal.lock_target_columns(w scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    relations oid[] := array_remove(ARRAY[w.target_relid, w.memory_relid], NULL);
BEGIN
    IF NOT scd2_internal.try_lock(relations, array_fill('ACCESS EXCLUSIVE'::text, ARRAY[cardinality(relations)])) THEN
        RAISE lock_not_available USING MESSAGE = format('the columns of target "%s" cannot follow the source''s while it is in use', scd2_internal.label(w.target_relid));
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.lock_target_columns(scd2_internal.flow) IS 'Locks target and memory. Raises 55P03 if they are in use';

CREATE FUNCTION scd2_internal.naming_expressions(w scd2_internal.flow, column_name name) RETURNS TABLE (argument text, text text, can_be_altered boolean)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT x.argument, x.text, x.argument IN ('source_filter', 'apply_as_deletes')
    FROM (VALUES ('source_filter', w.source_filter), ('apply_as_deletes', w.apply_as_deletes), ('apply_as_truncates', w.apply_as_truncates),
                 ('sequence_by', w.sequence_by), ('delete_sequence_by', w.delete_sequence_by), ('end_sequence_by', w.end_sequence_by)) x (argument, text)
    WHERE x.text IS NOT NULL
      AND scd2_internal.rename_columns(x.text, scd2_internal.source_alias(w), ARRAY[column_name], ARRAY['_scd2_dropped'::name]) <> x.text
$$;
COMMENT ON FUNCTION scd2_internal.naming_expressions(scd2_internal.flow, name) IS 'The expressions of a flow that name a column, and whether scd2.alter_flow() can give it another';

-- Columns that a flow knows and does not know yet to have changed their types so.
CREATE FUNCTION scd2_internal.retyped_columns(w scd2_internal.flow) RETURNS TABLE (known name, kept name, now name, type text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT k.name, c.name, n.name, n.type
    FROM ROWS FROM (unnest(w.known_attnums), unnest(w.known_names)) k (attnum, name) JOIN scd2_internal.followed_columns(w.feed_id) c USING (attnum)
        JOIN scd2_internal.followed_columns(w.feed_id) n ON n.name = c.stands_for AND n.attnum <> ALL (w.known_attnums)
    WHERE c.until IS NOT NULL ORDER BY c.attnum
$$;
COMMENT ON FUNCTION scd2_internal.retyped_columns(scd2_internal.flow) IS
    'Columns of a flow''s feed, as it knows them, that are kept beside a new one now: their names, and those, and the types, of the new ones';

CREATE FUNCTION scd2_internal.has_retyped(w scd2_internal.flow) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM scd2_internal.retyped_columns(w) r WHERE r.known = ANY (w.columns))
$$;
COMMENT ON FUNCTION scd2_internal.has_retyped(scd2_internal.flow) IS
    'Whether columns of a target have other values now than those that are called so in the feed';

CREATE FUNCTION scd2_internal.has_retyped_key(w scd2_internal.flow) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM scd2_internal.retyped_columns(w) r WHERE r.known = ANY (w.keys))
$$;
COMMENT ON FUNCTION scd2_internal.has_retyped_key(scd2_internal.flow) IS 'Whether a key of a flow has other values now';

-- Where an expression names a column of another type, it may mean something else now.
CREATE FUNCTION scd2_internal.check_retyped(w scd2_internal.flow, stops boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r record;
    e record;
    what text;
BEGIN
    FOR r IN SELECT c.* FROM scd2_internal.retyped_columns(w) c LOOP
        what := format('column "%s" is of type %s now, and has other values', r.known, r.type);
        IF r.known = ANY (w.keys) THEN
            PERFORM scd2_internal.cannot_follow(w, what, 'It is a key: which row was which is not known.', format('SELECT scd2.drop_flow(%L); -- then begin anew', w.name));
        ELSIF r.known = ANY (w.columns) AND r.known <> ALL (w.absent) AND scd2_internal.is_shared(w) THEN
            PERFORM scd2_internal.cannot_follow(w, what, 'Other flows keep the target too, with the type that it had.',
                format('SELECT scd2.drop_flow(%L); -- then let it join the target anew', w.name));
        END IF;
        FOR e IN SELECT x.* FROM scd2_internal.naming_expressions(w, r.known) x WHERE stops LOOP
            PERFORM scd2_internal.cannot_follow(w, what, format('Its %s names the column: %s.', e.argument, e.text),
                CASE WHEN e.can_be_altered THEN format('SELECT scd2.alter_flow(%L, %s => %L); SELECT scd2.resume_flow(%1$L); -- or what it shall be now', w.name, e.argument, e.text)
                     ELSE format('SELECT scd2.drop_flow(%L); -- then begin anew', w.name) END);
        END LOOP;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.check_retyped(scd2_internal.flow, boolean) IS
    'Raises 55000 if a flow needs a column whose type changed so that its values are others; stops: for an expression that names it, too';

CREATE FUNCTION scd2_internal.follow_names(w scd2_internal.flow) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old_names name[];
    new_names name[];
    ours name[];
    theirs name[];
    taken name;
BEGIN
    -- (What was known by another name, and is kept beside a new column since, is that to the flow.)
    SELECT array_agg(k.name ORDER BY k.n), array_agg(CASE WHEN r.known IS NULL THEN c.name ELSE r.now END ORDER BY k.n),
           array_agg(k.name ORDER BY k.n) FILTER (WHERE k.name = ANY (w.columns) AND k.name <> ALL (w.absent)),
           array_agg(c.name ORDER BY k.n) FILTER (WHERE k.name = ANY (w.columns) AND k.name <> ALL (w.absent))
    INTO old_names, new_names, ours, theirs
    FROM ROWS FROM (unnest(w.known_attnums), unnest(w.known_names)) WITH ORDINALITY k (attnum, name, n) JOIN scd2_internal.followed_columns(w) c USING (attnum)
         LEFT JOIN scd2_internal.retyped_columns(w) r ON r.known = k.name WHERE c.name <> k.name;
    IF old_names IS NULL THEN
        RETURN w;
    END IF;
    w.sequence_by := scd2_internal.renamed_expression(w, w.sequence_by, old_names, new_names);
    w.delete_sequence_by := scd2_internal.renamed_expression(w, w.delete_sequence_by, old_names, new_names);
    w.end_sequence_by := scd2_internal.renamed_expression(w, w.end_sequence_by, old_names, new_names);
    w.apply_as_deletes := scd2_internal.renamed_expression(w, w.apply_as_deletes, old_names, new_names);
    w.apply_as_truncates := scd2_internal.renamed_expression(w, w.apply_as_truncates, old_names, new_names);
    w.source_filter := scd2_internal.renamed_expression(w, w.source_filter, old_names, new_names);
    w.initial_start := scd2_internal.renamed_expression(w, w.initial_start, old_names, new_names);
    IF ours IS NOT NULL THEN
        IF scd2_internal.is_shared(w) THEN
            PERFORM scd2_internal.cannot_follow(w, format('column "%s" was renamed to "%s"', ours[1], theirs[1]), 'Other flows keep the target too, under the old name.',
                format('SELECT scd2.drop_flow(%L); -- then let it join the target anew', w.name));
        END IF;
        SELECT n INTO taken FROM unnest(theirs) n WHERE n <> ALL (ours) AND scd2_internal.has_column(w.target_relid, n) LIMIT 1;
        IF FOUND THEN
            PERFORM scd2_internal.cannot_follow(w, format('column "%s" was renamed to "%s", and target "%s" has a column of that name', ours[array_position(theirs, taken)], taken, scd2_internal.label(w.target_relid)),
                NULL, format('ALTER TABLE %s RENAME COLUMN %I TO %I; SELECT scd2.resume_flow(%L);', w.target_relid::regclass, taken, taken || '_old', w.name));
        END IF;
        PERFORM scd2_internal.lock_target_columns(w);
        PERFORM scd2_internal.alter_as_owner(w.target_relid, scd2_internal.rename_statements(w.target_relid, ours, theirs) || coalesce(scd2_internal.rename_statements(w.memory_relid, ours, theirs), '{}'));
    END IF;
    w.keys := scd2_internal.renamed(w.keys, old_names, new_names);
    w.columns := scd2_internal.renamed(w.columns, ours, theirs);
    w.tracked := scd2_internal.renamed(w.tracked, ours, theirs);
    w.ignores_null := scd2_internal.renamed(w.ignores_null, ours, theirs);
    w.options := scd2_internal.renamed_options(w.options, old_names, new_names);
    w.sequence_column := coalesce(new_names[array_position(old_names, w.sequence_column)], w.sequence_column);
    RETURN w;
END $$;
COMMENT ON FUNCTION scd2_internal.follow_names(scd2_internal.flow) IS 'A flow, and its target, under the names that its feed''s columns have now. Raises 55000, 55P03';

CREATE FUNCTION scd2_internal.follow_types(w scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c record;
BEGIN
    FOR c IN
        SELECT r.oid AS relation, f.name, f.type, (SELECT format(' COLLATE %I.%I', n.nspname, l.collname) FROM pg_collation l JOIN pg_namespace n ON n.oid = l.collnamespace WHERE l.oid = f.collation) AS collate_clause
        FROM scd2_internal.followed_columns(w) f, unnest(ARRAY[w.target_relid, w.memory_relid]) r (oid)
            JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) b
        WHERE a.attname = f.name AND f.name = ANY (w.columns) AND f.name <> ALL (w.absent) AND (b.base <> f.base OR b.base_typmod <> f.typmod AND b.base_typmod <> -1)
        ORDER BY r.oid, f.attnum
    LOOP
        IF scd2_internal.is_shared(w) THEN
            PERFORM scd2_internal.cannot_follow(w, format('column "%s" is of type %s now', c.name, c.type), 'Other flows keep the target too, with the type that it had.',
                format('SELECT scd2.drop_flow(%L); -- then let it join the target anew', w.name));
        END IF;
        PERFORM scd2_internal.lock_target_columns(w);
        PERFORM scd2_internal.alter_as_owner(c.relation, ARRAY[format('ALTER TABLE %s ALTER COLUMN %I TYPE %s%s', scd2_internal.fixed_name(c.relation), c.name, c.type, c.collate_clause)]);
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.follow_types(scd2_internal.flow) IS 'The target''s columns get the types that the feed''s have now. Raises 55000, 55P03, or what the server says of what hangs on them';

-- Does a flow take columns that come later?
CREATE FUNCTION scd2_internal.takes_column(w scd2_internal.flow, column_name name) RETURNS boolean
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(w.options -> 'column_list' ? column_name, true) AND NOT coalesce(w.options -> 'except_column_list' ? column_name, false)
       AND (w.scd_type = 1 OR column_name NOT IN (w.start_column, w.end_column, coalesce(w.current_column, w.end_column)))
$$;
COMMENT ON FUNCTION scd2_internal.takes_column(scd2_internal.flow, name) IS 'Whether a column that is added to the source comes into the target';

CREATE FUNCTION scd2_internal.add_to_target(w scd2_internal.flow, c record, kept boolean, shared boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    definition text := format('%I %s%s', c.name, c.type, (SELECT ' COLLATE ' || scd2_internal.fixed_collation(l.oid) FROM pg_collation l WHERE l.oid = c.collation))
        || CASE WHEN c.missing IS NOT NULL AND NOT shared THEN format(' DEFAULT %L::%s', c.missing, c.type) ELSE '' END;
BEGIN
    PERFORM scd2_internal.lock_target_columns(w);
    PERFORM scd2_internal.alter_as_owner(r, ARRAY[format('ALTER TABLE %s ADD COLUMN %s', scd2_internal.fixed_name(r), definition), format('ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT', scd2_internal.fixed_name(r), c.name)])
        FROM unnest(ARRAY[w.target_relid] || CASE WHEN kept THEN ARRAY[w.memory_relid] ELSE '{}' END) r;
END $$;
COMMENT ON FUNCTION scd2_internal.add_to_target(scd2_internal.flow, record, boolean, boolean) IS 'Part of follow_additions: the column comes into target and memory';

CREATE FUNCTION scd2_internal.follow_additions(w scd2_internal.flow) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    shared boolean := scd2_internal.is_shared(w);
    is_tracked boolean;
    ignores boolean;
    c record;
BEGIN
    FOR c IN SELECT f.* FROM scd2_internal.followed_columns(w) f
             WHERE f.attnum <> ALL (w.known_attnums) AND scd2_internal.takes_column(w, f.stands_for) AND (f.name <> ALL (w.columns) OR f.name = ANY (w.absent))
    LOOP
        is_tracked := w.input <> 'append' AND coalesce(w.options -> 'track_history_column_list' ? c.stands_for, true) AND NOT coalesce(w.options -> 'track_history_except_column_list' ? c.stands_for, false);
        ignores := scd2_internal.ignored_later(w.target_relid, w, ARRAY[c.stands_for]) <> '{}'
            OR w.ignores_null <> '{}' AND coalesce(w.options -> 'ignore_null_updates_column_list' ? c.stands_for, false);
        IF c.name <> ALL (w.columns) AND scd2_internal.has_column(w.target_relid, c.name) THEN
            PERFORM scd2_internal.cannot_follow(w, format('column "%s" was added, and target "%s" has a column of that name', c.name, scd2_internal.label(w.target_relid)),
                NULL, format('ALTER TABLE %s RENAME COLUMN %I TO %I; SELECT scd2.resume_flow(%L);', w.target_relid::regclass, c.name, c.name || '_old', w.name));
        ELSIF c.name <> ALL (w.columns) THEN
            PERFORM scd2_internal.add_to_target(w, c, w.memory_relid IS NOT NULL AND w.scd_type = 2 AND (w.ignores_null <> '{}' OR NOT is_tracked), shared);
            UPDATE scd2_internal.flow f SET columns = f.columns || c.name, absent = f.absent || c.name, tracked = f.tracked || CASE WHEN is_tracked THEN ARRAY[c.name] ELSE '{}' END,
                    ignores_null = f.ignores_null || CASE WHEN ignores THEN ARRAY[c.name] ELSE '{}' END, definition = f.definition + 1
                WHERE f.target_relid = w.target_relid AND f.flow_id <> w.flow_id;
            w.columns := w.columns || c.name;
            IF is_tracked THEN
                w.tracked := w.tracked || c.name;
            END IF;
            IF ignores THEN
                w.ignores_null := w.ignores_null || c.name;
            END IF;
        END IF;
        w.absent := array_remove(w.absent, c.name);
    END LOOP;
    RETURN w;
END $$;
COMMENT ON FUNCTION scd2_internal.follow_additions(scd2_internal.flow) IS 'A flow, and its target, with the columns that came to its feed. Raises 55000, 55P03';

-- A column that was dropped is NULL from then on: a filter would leave out all that comes, a condition for deletes would
-- never be true again.
CREATE FUNCTION scd2_internal.check_no_dropped(w scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    e record;
BEGIN
    FOR e IN
        SELECT x.*, d.name FROM scd2_internal.followed_columns(w.feed_id) d, scd2_internal.naming_expressions(w, d.name) x WHERE d.dropped LIMIT 1
    LOOP
        PERFORM scd2_internal.cannot_follow(w, format('column "%s" was dropped', e.name), format('Its %s names the column: %s.', e.argument, e.text),
            CASE WHEN e.can_be_altered THEN format('SELECT scd2.alter_flow(%L, %s => %L); SELECT scd2.resume_flow(%1$L); -- or what it shall be now', w.name, e.argument, CASE e.argument WHEN 'source_filter' THEN 'true' ELSE 'false' END)
                 ELSE format('SELECT scd2.drop_flow(%L); -- then begin anew', w.name) END);
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.check_no_dropped(scd2_internal.flow) IS 'Raises 55000 if an expression of a flow names a column that its source has no more';

-- stops: unless expressions are about to be altered, a flow with one that names a dropped column stops.
CREATE FUNCTION scd2_internal.follow_columns(id integer, stops boolean DEFAULT true) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET pg_scd2.enable_change_feed_on_create = off AS $$
DECLARE
    w scd2_internal.flow;
BEGIN
    SELECT f.* INTO w FROM scd2_internal.flow f LEFT JOIN scd2_internal.feed_layout l USING (feed_id)
        WHERE f.flow_id = id AND f.feed_id IS NOT NULL AND f.known_changes IS DISTINCT FROM coalesce(l.changes, 0) AND EXISTS (SELECT FROM pg_class c WHERE c.oid = f.target_relid);
    IF NOT FOUND THEN
        PERFORM scd2_internal.follow_source_columns(id);
        RETURN;
    END IF;
    PERFORM scd2_internal.check_authorized(w);          -- DDL on the target runs what hangs on it, as its owner
    PERFORM scd2_internal.check_retyped(w, stops);
    w := scd2_internal.follow_names(w);
    PERFORM scd2_internal.check_no_dropped(w) WHERE stops;
    PERFORM scd2_internal.follow_types(w);
    w := scd2_internal.follow_additions(w);
    UPDATE scd2_internal.flow f SET keys = w.keys, columns = w.columns, tracked = w.tracked, ignores_null = w.ignores_null, absent = w.absent, sequence_column = w.sequence_column,
            sequence_by = w.sequence_by, delete_sequence_by = w.delete_sequence_by, end_sequence_by = w.end_sequence_by, apply_as_deletes = w.apply_as_deletes,
            apply_as_truncates = w.apply_as_truncates, source_filter = w.source_filter, initial_start = w.initial_start, options = w.options, definition = f.definition + 1
        WHERE f.flow_id = id;
    PERFORM scd2_internal.know_columns(id);
END $$;
COMMENT ON FUNCTION scd2_internal.follow_columns(integer, boolean) IS 'Has a flow follow the columns of its feed, if they changed';

-- Before a flow reads its source. A name there must mean what it means in the feed.
CREATE FUNCTION scd2_internal.check_columns_followed(id integer) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    w scd2_internal.flow := (SELECT f FROM scd2_internal.flow f WHERE f.flow_id = id);
BEGIN
    IF scd2_internal.columns_pending(w.feed_id) IS NOT NULL OR w.known_changes <> (SELECT l.changes FROM scd2_internal.feed_layout l WHERE l.feed_id = w.feed_id) THEN
        RAISE lock_not_available USING MESSAGE = format('flow "%s" waits until changes of columns of "%s.%s" are captured', w.name, w.source_schema, w.source_name);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_columns_followed(integer) IS 'Raises 55P03 if columns of the flow''s source have names that its feed does not have yet';
