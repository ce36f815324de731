-- 41_flow_target.sql: the tables that flows keep.
--
-- A target is an ordinary table of the user's. What makes it a target: its shape (selected columns, then the
-- interval, primary key (keys, start)), a guard trigger that keeps others from writing, and <target>_as_of().

-- The columns a target must have, in order: the selected ones as in the source, then those of the flow. A domain
-- becomes its base type, as in the feed: old versions must stay what they are when the domain becomes stricter.
CREATE FUNCTION scd2_internal.target_columns(source oid, columns name[], keys name[], scd_type integer, sequence_type text, sequence_collation oid,
                                             start_column name, end_column name, current_column name,
                                             OUT ordinal bigint, OUT name name, OUT type text, OUT collation oid, OUT not_null boolean)
    RETURNS SETOF record
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.n, a.attname, scd2_internal.fixed_type(b.base, b.base_typmod), a.attcollation, a.attname = ANY (keys)
    FROM unnest(columns) WITH ORDINALITY AS c (name, n) JOIN pg_attribute AS a ON a.attrelid = source AND a.attname = c.name
        CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) AS b
    UNION ALL
    SELECT cardinality(columns) + i.n, i.name, i.type, i.coll, i.not_null
    FROM (VALUES (1, start_column, sequence_type, sequence_collation, true), (2, end_column, sequence_type, sequence_collation, false),
                 (3, current_column, 'boolean', 0::oid, true)) AS i (n, name, type, coll, not_null)
    WHERE scd_type = 2 AND i.name IS NOT NULL
    ORDER BY 1
$$;
COMMENT ON FUNCTION scd2_internal.target_columns(oid, name[], name[], integer, text, oid, name, name, name) IS 'The columns that a target of these properties has';

-- An operator of the default btree order of a type, qualified, as SQL: 1 <, 2 <=, 4 >=, 5 >.
CREATE FUNCTION scd2_internal.order_operator(type regtype, strategy integer) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT format('OPERATOR(%I.%s)', n.nspname, o.oprname)
                     FROM pg_opclass AS c
                     JOIN pg_am AS m ON m.oid = c.opcmethod AND m.amname = 'btree'
                     JOIN pg_amop AS a ON a.amopfamily = c.opcfamily AND a.amoplefttype = c.opcintype AND a.amoprighttype = c.opcintype AND a.amopstrategy = strategy
                     JOIN pg_operator AS o ON o.oid = a.amopopr JOIN pg_namespace AS n ON n.oid = o.oprnamespace
                     WHERE c.opcdefault AND c.opcintype = type),
                    format('OPERATOR(pg_catalog.%s)', (ARRAY['<', '<=', '=', '>=', '>'])[strategy]))
$$;
COMMENT ON FUNCTION scd2_internal.order_operator(regtype, integer) IS 'Operator of a btree strategy for a type, as qualified SQL';

-- Who a new target belongs to: its maker, but not a superuser who makes it for somebody else's table. The flow acts as
-- the target's owner, and to plan a SELECT runs what the source's owner wrote (checks, index predicates): that is not
-- to be as a superuser.
CREATE FUNCTION scd2_internal.target_owner(caller oid, source oid) RETURNS oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN me.rolsuper AND NOT o.rolsuper THEN o.oid ELSE me.oid END
    FROM pg_roles AS me, pg_class AS c JOIN pg_roles AS o ON o.oid = c.relowner WHERE me.oid = caller AND c.oid = source
$$;
COMMENT ON FUNCTION scd2_internal.target_owner(oid, oid) IS 'The role that a target made by the caller belongs to';

-- Beside a target stand its function, its memory and perhaps a type, which belong to its owner. Superusers make things
-- for others where these may not, as anywhere.
CREATE FUNCTION scd2_internal.check_may_create(caller oid, owner oid, schema name) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT has_schema_privilege(owner, schema, 'CREATE') AND NOT (SELECT r.rolsuper FROM pg_roles AS r WHERE r.oid = caller) THEN
        RAISE insufficient_privilege USING MESSAGE = format('permission denied for schema %s', schema),
            HINT = format('GRANT CREATE ON SCHEMA %I TO %I;', schema, pg_get_userbyid(owner));
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_may_create(oid, oid, name) IS
    'Raises 42501 unless "owner" may create objects in the schema, or the caller is a superuser';

-- How full the pages of a new target are written. Half of each stays free, so that most closes are HOT even where a
-- batch closes all open rows: measured 20 % faster than with full pages. Most rows of an event table that comes in any
-- order are closed from the start: with less space free all closes were HOT still, and the whole, in a table larger than
-- the buffers, took 15 % less (but half as much again where a batch closes all rows).
CREATE FUNCTION scd2_internal.target_fillfactor(scd_type integer, input text) RETURNS integer
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN scd_type = 1 THEN 80 WHEN input = 'events' THEN 70 ELSE 50 END
$$;
COMMENT ON FUNCTION scd2_internal.target_fillfactor(integer, text) IS 'The fillfactor of the table that is created for a flow';

-- CREATE TABLE for the target; it belongs to "owner", who must be allowed to create in its schema.
CREATE FUNCTION scd2_internal.create_target(caller oid, schema name, relation name, source oid, columns name[], keys name[], scd_type integer, input text,
                                            sequence_type text, sequence_collation oid, start_column name, end_column name, current_column name,
                                            open_row_index boolean) RETURNS oid
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET pg_scd2.enable_change_feed_on_create = off AS $$
DECLARE
    body   text;
    target oid;
BEGIN
    PERFORM scd2_internal.check_may_create(caller, scd2_internal.target_owner(caller, source), schema);
    SELECT string_agg(format('%I %s%s%s', t.name, t.type,
                             CASE WHEN c.oid IS NOT NULL THEN ' COLLATE ' || scd2_internal.fixed_collation(c.oid) END,
                             CASE WHEN t.not_null THEN ' NOT NULL' END), ', ' ORDER BY t.ordinal)
        INTO body
        FROM scd2_internal.target_columns(source, columns, keys, scd_type, sequence_type, sequence_collation, start_column, end_column, current_column) AS t
        LEFT JOIN pg_collation AS c ON c.oid = t.collation;
    IF scd_type = 2 THEN
        body := body || format(', CHECK (%I %s %I)', end_column, scd2_internal.order_operator(sequence_type::regtype, 5), start_column);
    END IF;
    EXECUTE format('CREATE TABLE %I.%I (%s, PRIMARY KEY (%s)) WITH (fillfactor = %s)', schema, relation, body,
                   (SELECT string_agg(quote_ident(k), ', ' ORDER BY n)
                    FROM unnest(CASE scd_type WHEN 2 THEN keys || start_column ELSE keys END) WITH ORDINALITY AS k (k, n)),
                   scd2_internal.target_fillfactor(scd_type, input));
    target := format('%I.%I', schema, relation)::regclass;
    PERFORM scd2_internal.own_alone(target, scd2_internal.target_owner(caller, source));
    PERFORM scd2_internal.close_rows_as(source, target);
    IF open_row_index THEN
        EXECUTE format('CREATE UNIQUE INDEX %I ON %s (%s) WHERE %I IS NULL', scd2_internal.free_name((SELECT c.relnamespace FROM pg_class c WHERE c.oid = target), relation, 'open_idx'), scd2_internal.fixed_name(target),
                       (SELECT string_agg(quote_ident(k), ', ' ORDER BY n) FROM unnest(keys) WITH ORDINALITY AS k (k, n)), end_column);
    END IF;
    RETURN target;
END $$;
COMMENT ON FUNCTION scd2_internal.create_target(oid, name, name, oid, name[], name[], integer, text, text, oid, name, name, name, boolean) IS 'Creates the table of a flow for its owner';

-- Raises 42804 or 55000, saying what differs, unless the table can be a target as it is.
CREATE FUNCTION scd2_internal.check_can_be_target(caller oid, target oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    rel record;
BEGIN
    SELECT c.relkind, c.relpersistence, c.relowner, c.relispartition, c.relhassubclass INTO rel FROM pg_class AS c WHERE c.oid = target;
    PERFORM scd2_internal.check_may_create(caller, rel.relowner,
        (SELECT n.nspname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = target));
    IF rel.relkind <> 'r' OR rel.relpersistence <> 'p' OR rel.relispartition OR rel.relhassubclass THEN
        RAISE wrong_object_type USING MESSAGE = format('"%s" cannot be a target', target::regclass),
            DETAIL = 'A target is an ordinary, permanent table without partitions or children.';
    END IF;
    IF EXISTS (SELECT FROM scd2_internal.feed AS f WHERE f.feed_relid = target) THEN
        RAISE wrong_object_type USING MESSAGE = format('"%s" cannot be a target', target::regclass), DETAIL = 'It is a change data feed.';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_can_be_target(oid, oid) IS 'Raises why an existing relation cannot be the target of a flow: 42501, 42809';

CREATE FUNCTION scd2_internal.check_columns_fit(target oid, source oid, columns name[], keys name[], scd_type integer,
                                                sequence_type text, sequence_collation oid, start_column name, end_column name, current_column name) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bad record;
BEGIN
    SELECT t.name, t.type, a.attname, format_type(b.base, b.base_typmod) AS is_type, a.attgenerated, t.collation <> a.attcollation AND t.collation <> 0 AS other_collation
        INTO bad
        FROM scd2_internal.target_columns(source, columns, keys, scd_type, sequence_type, sequence_collation, start_column, end_column, current_column) AS t
        LEFT JOIN pg_attribute AS a ON a.attrelid = target AND a.attname = t.name AND a.attnum > 0 AND NOT a.attisdropped
        LEFT JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) AS b ON true
        WHERE a.attname IS NULL OR format_type(b.base, b.base_typmod) <> t.type OR a.attgenerated <> '' OR a.attidentity <> ''
              OR (t.collation <> 0 AND t.collation <> a.attcollation)
        ORDER BY t.ordinal LIMIT 1;
    IF FOUND THEN
        RAISE datatype_mismatch USING MESSAGE = format('table "%s" does not fit as target', target::regclass),
            DETAIL = CASE WHEN bad.attname IS NULL THEN format('Column "%s" of type %s is missing.', bad.name, bad.type)
                          WHEN bad.is_type <> bad.type THEN format('Column "%s" is of type %s instead of %s.', bad.name, bad.is_type, bad.type)
                          WHEN bad.other_collation THEN format('Column "%s" has another collation than in "%s".', bad.name, source::regclass)
                          ELSE format('Column "%s" is generated or an identity column.', bad.name) END;
    END IF;
    SELECT a.attname INTO bad
        FROM pg_attribute AS a
        WHERE a.attrelid = target AND a.attnum > 0 AND NOT a.attisdropped AND a.attnotnull AND NOT a.atthasdef AND a.attidentity = ''
          AND NOT EXISTS (SELECT FROM scd2_internal.target_columns(source, columns, keys, scd_type, sequence_type, sequence_collation, start_column, end_column, current_column) AS t
                          WHERE t.name = a.attname)
        LIMIT 1;
    IF FOUND THEN
        RAISE datatype_mismatch USING MESSAGE = format('table "%s" does not fit as target', target::regclass),
            DETAIL = format('Column "%s" is NOT NULL, has no default, and the flow does not fill it.', bad.attname);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_columns_fit(oid, oid, name[], name[], integer, text, oid, name, name, name) IS 'Raises 42804 unless a table has the columns of a target, and fills its others by itself';

CREATE FUNCTION scd2_internal.check_target_fits(caller oid, target oid, source oid, columns name[], keys name[], scd_type integer,
                                                sequence_type text, sequence_collation oid, start_column name, end_column name, current_column name) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    expected name[] := CASE scd_type WHEN 2 THEN keys || start_column ELSE keys END;
    key_is   name[];
BEGIN
    PERFORM scd2_internal.check_can_be_target(caller, target);
    PERFORM scd2_internal.check_columns_fit(target, source, columns, keys, scd_type, sequence_type, sequence_collation, start_column, end_column, current_column);
    SELECT array_agg(a.attname ORDER BY k.n) INTO key_is
        FROM pg_index AS i
        CROSS JOIN unnest(i.indkey[0:i.indnkeyatts - 1]) WITH ORDINALITY AS k (attnum, n)
        JOIN pg_attribute AS a ON a.attrelid = target AND a.attnum = k.attnum
        WHERE i.indrelid = target AND i.indisprimary AND i.indimmediate;
    IF cardinality(keys) > 0 AND key_is IS DISTINCT FROM expected THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('table "%s" does not fit as target', target::regclass),
            DETAIL = format('Its primary key is (%s) instead of (%s), not deferrable.', coalesce(array_to_string(key_is, ', '), 'none'), array_to_string(expected, ', '));
    END IF;
    IF scd2_internal.has_rows(target) THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('table "%s" holds rows that no flow put there', target::regclass),
            HINT = format('TRUNCATE %s; -- or name another target, or seed a new one from these rows by a flow with once => true', target::regclass);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_target_fits(oid, oid, oid, name[], name[], integer, text, oid, name, name, name) IS 'Raises what keeps an existing table from being the target';

-- A sequence of several fields: the composite type <target>_sequence, and the expression that makes one. Fields
-- compare in their order.
CREATE FUNCTION scd2_internal.create_sequence_type(owner oid, schema name, target name, source oid, names name[], expressions text[]) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    type   text := (SELECT f.sequence_type FROM scd2_internal.flow f WHERE f.target_relid = to_regclass(format('%I.%I', schema, target))
                    AND scd2_internal.made_sequence_type(f, owner) IS NOT NULL LIMIT 1);        -- of the flow that this one joins
    fields text;
BEGIN
    SELECT string_agg(format('%I %s%s', f.name, scd2_internal.fixed_type(e.type, -1), CASE WHEN c.oid IS NOT NULL THEN ' COLLATE ' || scd2_internal.fixed_collation(c.oid) END), ', ' ORDER BY f.ordinality)
        INTO fields
        FROM ROWS FROM (unnest(names), unnest(expressions)) WITH ORDINALITY AS f (name, expression),
             LATERAL (SELECT s.* FROM scd2_internal.sequence_expression(f.expression, source, 'sequence_by', owner) AS s) AS e
             LEFT JOIN pg_collation AS c ON c.oid = e.collation;
    IF type IS NULL THEN
        type := format('%I.%I', schema, scd2_internal.free_name((SELECT n.oid FROM pg_namespace n WHERE n.nspname = schema), target, 'sequence'));
        EXECUTE format('CREATE TYPE %s AS (%s)', type, fields);
        EXECUTE format('ALTER TYPE %s OWNER TO %s', type, scd2_internal.fixed_role(owner));
        EXECUTE format('COMMENT ON TYPE %s IS %L', type, format('pg_scd2: sequence of the rows of %I.%I', schema, target));
    END IF;
    RETURN format('ROW(%s)::%s', (SELECT string_agg(format('(%s%s)', e, E'\n'), ', ' ORDER BY n) FROM unnest(expressions) WITH ORDINALITY AS u (e, n)), type);
END $$;
COMMENT ON FUNCTION scd2_internal.create_sequence_type(oid, name, name, oid, name[], text[]) IS 'Creates <target>_sequence; returns the expression of that type';

-- The type of a column can be anybody's, and everybody can describe his own types so: only one of the owner's is it.
CREATE FUNCTION scd2_internal.made_sequence_type(w scd2_internal.flow, owner oid) RETURNS oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT t.oid FROM pg_type AS t
    WHERE t.typtype = 'c' AND t.typowner = owner AND obj_description(t.oid, 'pg_type') LIKE E'pg\\_scd2: sequence of %'
      AND t.oid = coalesce((SELECT a.atttypid FROM pg_attribute AS a
                            WHERE a.attnum > 0 AND NOT a.attisdropped
                              AND (w.scd_type = 2 AND a.attrelid = w.target_relid AND a.attname = w.start_column
                                   OR w.scd_type = 1 AND a.attrelid = w.memory_relid AND a.attname = '_sequence')),
                           to_regtype(w.sequence_type))
$$;
COMMENT ON FUNCTION scd2_internal.made_sequence_type(scd2_internal.flow, oid) IS
    'The type that was made for the sequence of a target of this owner, and goes with it; NULL: there is none';

CREATE FUNCTION scd2_internal.check_memory_columns(kept name[], target oid, memory name) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    clash name;
BEGIN
    SELECT c INTO clash FROM unnest(kept) AS c WHERE c IN ('_sequence', '_kind', '_version', '_ordinal', '_sequences') LIMIT 1;
    IF FOUND THEN
        RAISE duplicate_column USING MESSAGE = format('column "%s" cannot be a key or an untracked column of "%s"', clash, target::regclass),
            DETAIL = format('Table "%s" would have it twice: it keeps what the rows of the target do not show, and has a column of that name.', memory),
            HINT = 'Leave it out by except_column_list, or track it.';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_memory_columns(name[], oid, name) IS 'Raises 42701 if a column would have the name of one that every memory has';

-- What the rows of a target do not show of the events behind them (src/flow/recall.c). Of type 2: per key and
-- sequence, with the untracked values of the event before (where NULL says nothing, with all values as they were
-- sent); of type 1: per key its last event (and since when columns are as they are).
CREATE FUNCTION scd2_internal.create_memory(owner oid, target oid, layout oid, keys name[], kept name[], scd_type integer, sequence_type text, sequence_collation oid, ignores_null name[]) RETURNS oid
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET pg_scd2.enable_change_feed_on_create = off AS $$
DECLARE
    schema   text;
    relation name;
    memory   regclass;
    body     text;
    coll     text;
BEGIN
    SELECT scd2_internal.fixed_schema(c.relnamespace), scd2_internal.free_name(c.relnamespace, c.relname, 'memory') INTO schema, relation
        FROM pg_class AS c WHERE c.oid = target;
    PERFORM scd2_internal.check_memory_columns(keys || kept, target, relation);
    SELECT string_agg(format('%I %s%s%s', a.attname, scd2_internal.fixed_type(b.base, b.base_typmod),
                             CASE WHEN c.oid IS NOT NULL THEN ' COLLATE ' || scd2_internal.fixed_collation(c.oid) END,
                             CASE WHEN a.attname = ANY (keys) THEN ' NOT NULL' END), ', ' ORDER BY u.n)
        INTO body
        FROM unnest(keys || kept) WITH ORDINALITY AS u (name, n)
        JOIN pg_attribute AS a ON a.attrelid = layout AND a.attname = u.name
        CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) AS b       -- a domain may refuse NULL
        LEFT JOIN pg_collation AS c ON c.oid = a.attcollation;
    coll := (SELECT ' COLLATE ' || scd2_internal.fixed_collation(c.oid) FROM pg_collation AS c WHERE c.oid = sequence_collation);
    EXECUTE format('CREATE TABLE %s.%I (%s, _sequence %s%s NOT NULL, _kind "char" NOT NULL, _version bigint, _ordinal integer%s, PRIMARY KEY (%s%s)) USING heap',
                   schema, relation, body, sequence_type, coll,
                   CASE WHEN scd_type = 1 AND ignores_null <> '{}' THEN format(', _sequences %s[]%s', sequence_type, coll) END,
                   (SELECT string_agg(quote_ident(k), ', ' ORDER BY n) FROM unnest(keys) WITH ORDINALITY AS k (k, n)), CASE scd_type WHEN 2 THEN ', _sequence' END);
    memory := format('%s.%I', schema, relation)::regclass;
    EXECUTE format('COMMENT ON TABLE %s IS %L', scd2_internal.fixed_name(memory), format('pg_scd2: events of %s that its rows do not show', target::regclass));
    PERFORM scd2_internal.own_alone(memory, owner);
    PERFORM scd2_internal.close_rows_as(target, memory);
    PERFORM scd2_internal.put_guard(memory);
    RETURN memory;
END $$;
COMMENT ON FUNCTION scd2_internal.create_memory(oid, oid, oid, name[], name[], integer, text, oid, name[]) IS 'Creates <target>_memory';

-- No SET clause and one SELECT: the planner inlines it. Operators are qualified instead.
CREATE FUNCTION scd2_internal.as_of_body(target oid, sequence_type text, start_column name, end_column name) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('SELECT t.* FROM %I.%I AS t WHERE t.%I %s $1 AND (t.%I %s $1 OR t.%I IS NULL)', n.nspname, c.relname,
                  start_column, scd2_internal.order_operator(sequence_type::regtype, 2),
                  end_column, scd2_internal.order_operator(sequence_type::regtype, 5), end_column)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = target
$$;
COMMENT ON FUNCTION scd2_internal.as_of_body(oid, text, name, name) IS 'The query of <target>_as_of';

CREATE FUNCTION scd2_internal.define_as_of(target oid, as_of text, sequence_type text, start_column name, end_column name, again boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    sequence_type := scd2_internal.fixed_type(sequence_type::regtype, -1);
    EXECUTE format('CREATE%s FUNCTION %s(point %s) RETURNS SETOF %s LANGUAGE sql STABLE PARALLEL SAFE AS %L',
        CASE WHEN again THEN ' OR REPLACE' END, as_of, sequence_type, scd2_internal.fixed_name(target),
        scd2_internal.as_of_body(target, sequence_type, start_column, end_column));
    EXECUTE format('COMMENT ON FUNCTION %s(%s) IS %L', as_of, sequence_type,
                   format('Rows of %s that were valid at a point %s', target::regclass, CASE WHEN sequence_type ~ '^(timestamp|date)' THEN 'in time' ELSE 'of its sequence' END));
    PERFORM scd2_internal.belong_to_table(format('%s(%s)', as_of, sequence_type)::regprocedure, target);
END $$;
COMMENT ON FUNCTION scd2_internal.define_as_of(oid, text, text, name, name, boolean) IS 'Makes <target>_as_of; again: for what the target is called now';

-- Guard and as-of function of a target that is there.
CREATE FUNCTION scd2_internal.dress_target(target oid, scd_type integer, sequence_type text, start_column name, end_column name) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    as_of    text;
BEGIN
    PERFORM scd2_internal.lock_tables(ARRAY[target], ARRAY['SHARE ROW EXCLUSIVE']);
    PERFORM scd2_internal.put_guard(target);
    IF scd_type = 2 THEN
        SELECT format('%s.%I', scd2_internal.fixed_schema(c.relnamespace), scd2_internal.free_name(c.relnamespace, c.relname, 'as_of', sequence_type)) INTO as_of
            FROM pg_class AS c WHERE c.oid = target;
        PERFORM scd2_internal.define_as_of(target, as_of, sequence_type, start_column, end_column, false);
        EXECUTE format('ALTER FUNCTION %s(%s) OWNER TO %s', as_of, sequence_type,
                       (SELECT scd2_internal.fixed_role(c.relowner) FROM pg_class AS c WHERE c.oid = target));
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.dress_target(oid, integer, text, name, name) IS 'Puts the guard on a target and creates <target>_as_of';

-- Both may have been renamed. A dependency tells which function was made for the target: SQL makes none of its kind, and
-- it goes when the function is replaced. Dumps do not have it; so there, and from version 0.1.0, it is one of the target's
-- owner that is called and described so. What others call and describe so is theirs.
CREATE FUNCTION scd2_internal.belongs_to_table(function oid, relation oid) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = function
                   AND d.refclassid = 'pg_class'::regclass AND d.refobjid = relation AND d.refobjsubid = 0 AND d.deptype = 'a')
$$;
COMMENT ON FUNCTION scd2_internal.belongs_to_table(oid, oid) IS 'Whether belong_to_table() was called';

CREATE FUNCTION scd2_internal.as_of_functions(target oid, sequence_type text) RETURNS SETOF pg_proc
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.* FROM pg_proc p JOIN pg_class c ON c.reltype = p.prorettype
    WHERE c.oid = target AND p.proretset AND p.prosecdef IS FALSE
      AND p.proargtypes::text = to_regtype(sequence_type)::oid::text
      AND (scd2_internal.belongs_to_table(p.oid, target)
           OR p.proowner = c.relowner AND p.proname LIKE E'%\\_as\\_of' AND obj_description(p.oid, 'pg_proc') LIKE 'Rows of % that were valid at a point %')
$$;
COMMENT ON FUNCTION scd2_internal.as_of_functions(oid, text) IS 'The function <target>_as_of, under whatever name';

CREATE FUNCTION scd2_internal.undress_target(target oid, sequence_type text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    as_of oid;
BEGIN
    IF EXISTS (SELECT FROM pg_class AS c WHERE c.oid = target) THEN
        PERFORM scd2_internal.lock_tables(ARRAY[target], ARRAY['ACCESS EXCLUSIVE']);
        IF EXISTS (SELECT FROM pg_trigger AS g WHERE g.tgrelid = target AND g.tgname = 'scd2_guard') THEN
            EXECUTE format('DROP TRIGGER scd2_guard ON %s', scd2_internal.fixed_name(target));
        END IF;
        FOR as_of IN SELECT p.oid FROM scd2_internal.as_of_functions(target, sequence_type) p LOOP
            EXECUTE format('DROP FUNCTION %s', scd2_internal.fixed_function(as_of));
        END LOOP;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.undress_target(oid, text) IS 'Makes a target an ordinary table again';
