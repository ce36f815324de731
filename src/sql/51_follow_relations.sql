-- 51_follow_relations.sql: what stands beside a relation follows it when it gets another owner, name or schema.
--
--   owner of a source   its feed, on which nothing hangs that runs code. No target changes hands by itself: autovacuum
--                       alone would run what hangs on it as its new owner. Its flow stops for want of SELECT, unless
--                       that is granted; its owner can still read what was recorded while the source was his.
--   owner of a target   memory, <target>_as_of and the type of a struct. Its flows wait for his word
--                       (44_flow_authorize.sql).
--   names               the catalogs, which find relations by name after a restore; <target>_as_of, whose body
--                       names the target (as a parse tree, which follows by itself, it would keep columns from
--                       being altered) and which is called after it
--
-- All of it in the transaction of the statement, which fails (55P03) where the locks are not to be had in time: rather
-- than that rows go on to whom they should not. What is altered here comes here again, so chains of flows follow.

CREATE FUNCTION scd2_internal.owner_of(relation oid) RETURNS oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.relowner FROM pg_class c WHERE c.oid = relation
$$;
COMMENT ON FUNCTION scd2_internal.owner_of(oid) IS 'The owner of a relation; NULL: there is none';

CREATE FUNCTION scd2_internal.give_relations(relations oid[], owner oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET pg_scd2.own_ddl = on AS $$
DECLARE
    others oid[] := ARRAY(SELECT c.oid FROM pg_class c WHERE c.oid = ANY (relations) AND c.relowner <> owner ORDER BY c.oid);
BEGIN
    PERFORM scd2_internal.lock_tables(others, array_fill('ACCESS EXCLUSIVE'::text, ARRAY[cardinality(others)]))
        WHERE others <> '{}';
    FOR i IN 1 .. cardinality(others) LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO %s', scd2_internal.fixed_name(others[i]), scd2_internal.fixed_role(owner));
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.give_relations(oid[], oid) IS
    'Gives these tables to an owner, with the rights that others were granted. Errors: 55P03';

CREATE FUNCTION scd2_internal.follow_source_owner(f scd2_internal.feed) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner CONSTANT oid := scd2_internal.owner_of(f.source_relid);
    former CONSTANT oid := scd2_internal.owner_of(f.feed_relid);
BEGIN
    IF owner IS NULL OR former IS NULL OR owner = former THEN
        RETURN;
    END IF;
    -- What came to stand on it by another way would run as its new owner.
    PERFORM scd2_internal.refuse('55000', format('change data feed "%s" cannot go to role "%s" along with its source: %s stands on it',
            scd2_internal.label(f.feed_relid), pg_get_userbyid(owner), u.what), u.why, u.fix)
        FROM (SELECT f.feed_relid::oid AS oid UNION ALL SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = f.feed_relid) r,
            LATERAL (SELECT o.what, o.why, o.fix FROM scd2_internal.unfit_objects(r.oid) o UNION ALL SELECT c.what, c.why, c.fix FROM scd2_internal.unfit_columns(r.oid) c) u LIMIT 1;
    -- First the feed: no partition comes then. (To list them by pg_partition_tree() would lock them, and capture may be
    -- waiting for these locks with that of the feed in hand.)
    PERFORM scd2_internal.give_relations(ARRAY[f.feed_relid], owner);
    PERFORM scd2_internal.give_relations(ARRAY(SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = f.feed_relid), owner);
END $$;
COMMENT ON FUNCTION scd2_internal.follow_source_owner(scd2_internal.feed) IS
    'Gives a feed to the owner of its source. Errors: 55P03, 55000 something stands on it that runs code';

CREATE FUNCTION scd2_internal.follow_as_of(w scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    target record;
    f record;
    wanted name;
BEGIN
    SELECT c.relname, n.nspname, c.relnamespace, c.relowner INTO target
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = w.target_relid;
    wanted := scd2_internal.object_name(target.relname, 'as_of');
    FOR f IN SELECT p.oid, p.proname, p.pronamespace, p.proowner, p.prosrc FROM scd2_internal.as_of_functions(w.target_relid, w.sequence_type) p LOOP
        PERFORM scd2_internal.belong_to_table(f.oid, w.target_relid) WHERE NOT scd2_internal.belongs_to_table(f.oid, w.target_relid);
        IF f.prosrc <> scd2_internal.as_of_body(w.target_relid, w.sequence_type, w.start_column, w.end_column) THEN
            PERFORM scd2_internal.define_as_of(w.target_relid,
                scd2_internal.fixed_schema(f.pronamespace) || '.' || quote_ident(f.proname), w.sequence_type, w.start_column,
                w.end_column, true);
        END IF;
        IF f.pronamespace <> target.relnamespace AND NOT scd2_internal.function_exists(target.relnamespace, f.proname, w.sequence_type) THEN
            EXECUTE format('ALTER FUNCTION %s SET SCHEMA %s', scd2_internal.fixed_function(f.oid), scd2_internal.fixed_schema(target.relnamespace));
        END IF;
        IF f.proname <> wanted AND f.proname = scd2_internal.object_name(w.target_name, 'as_of')
           AND NOT scd2_internal.function_exists(target.relnamespace, wanted, w.sequence_type) THEN
            EXECUTE format('ALTER FUNCTION %s RENAME TO %I', scd2_internal.fixed_function(f.oid), wanted);
        END IF;
        IF f.proowner <> target.relowner THEN
            EXECUTE format('ALTER FUNCTION %s OWNER TO %s', scd2_internal.fixed_function(f.oid), scd2_internal.fixed_role(target.relowner));
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.follow_as_of(scd2_internal.flow) IS
    'Makes <target>_as_of that of the target as it is called now; it keeps its name if the new one is taken';

-- A dump does not have whom a function belongs to.
CREATE FUNCTION scd2_internal.follow_all_as_of() RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.follow_as_of(w) FROM scd2_internal.flow w JOIN pg_class c ON c.oid = w.target_relid WHERE w.scd_type = 2 AND w.input <> 'append'
$$;
COMMENT ON FUNCTION scd2_internal.follow_all_as_of() IS 'Makes each <target>_as_of of a target''s owner that of the target again';

CREATE FUNCTION scd2_internal.function_exists(schema oid, function name, argument text) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = schema AND p.proname = function
                   AND p.proargtypes::text = argument::regtype::oid::text)
$$;
COMMENT ON FUNCTION scd2_internal.function_exists(oid, name, text) IS 'Whether there is a function of one argument';

-- Types are recorded by name too. That of the sequence is that of a column.
CREATE FUNCTION scd2_internal.sequence_type_now(w scd2_internal.flow) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT format_type(a.atttypid, -1) FROM pg_attribute a
                     WHERE a.attnum > 0 AND NOT a.attisdropped
                       AND (w.scd_type = 2 AND a.attrelid = w.target_relid AND a.attname = w.start_column
                            OR w.scd_type = 1 AND a.attrelid = w.memory_relid AND a.attname = '_sequence')),
                    w.sequence_type)
$$;
COMMENT ON FUNCTION scd2_internal.sequence_type_now(scd2_internal.flow) IS
    'The type of a target''s sequence as it is called now';

CREATE FUNCTION scd2_internal.follow_sequence_type(w scd2_internal.flow) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    former CONSTANT text := w.sequence_type;
BEGIN
    IF to_regtype(former) IS NULL THEN          -- renamed. (A column that got another type is a misfit.)
        w.sequence_type := scd2_internal.sequence_type_now(w);
    END IF;
    IF w.sequence_type <> former AND w.input <> 'append' THEN
        w.sequence_by := replace(w.sequence_by, '::' || former, '::' || w.sequence_type);
        w.delete_sequence_by := replace(w.delete_sequence_by, '::' || former, '::' || w.sequence_type);
        w.end_sequence_by := replace(w.end_sequence_by, '::' || former, '::' || w.sequence_type);
        UPDATE scd2_internal.flow f SET sequence_type = w.sequence_type, sequence_by = w.sequence_by,
            delete_sequence_by = w.delete_sequence_by, end_sequence_by = w.end_sequence_by,
            definition = f.definition + 1 WHERE f.flow_id = w.flow_id;
    END IF;
    RETURN w;
END $$;
COMMENT ON FUNCTION scd2_internal.follow_sequence_type(scd2_internal.flow) IS
    'A flow with the type of its sequence as it is called now, in its expressions too';

CREATE FUNCTION scd2_internal.follow_target(w scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner CONSTANT oid := scd2_internal.owner_of(w.target_relid);
    former CONSTANT oid := scd2_internal.owner_of(w.memory_relid);
    made CONSTANT oid := scd2_internal.made_sequence_type(w, former);
BEGIN
    IF owner IS NULL OR w.input = 'append' THEN
        RETURN;
    END IF;
    w := scd2_internal.follow_sequence_type(w);
    PERFORM scd2_internal.give_relations(ARRAY[w.memory_relid], owner);
    IF made IS NOT NULL AND former <> owner THEN
        EXECUTE format('ALTER TYPE %s OWNER TO %s', scd2_internal.fixed_type(made, -1), scd2_internal.fixed_role(owner));
    END IF;
    IF w.scd_type = 2 THEN
        PERFORM scd2_internal.follow_as_of(w);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.follow_target(scd2_internal.flow) IS
    'Has what was made for a target follow its owner and name. Errors: 55P03';

-- Expressions may qualify columns with the name that the source had: it stays their alias.
CREATE FUNCTION scd2_internal.names_relation(w scd2_internal.flow, relation name) RETURNS boolean
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT concat_ws(' ', w.sequence_by, w.delete_sequence_by, w.end_sequence_by, w.apply_as_deletes, w.apply_as_truncates, w.source_filter,
        w.initial_start, w.scope) ~* (E'(^|\\W)"?' || regexp_replace(relation, E'(\\W)', E'\\\\\\1', 'g') || E'"?\\s*\\.')
$$;
COMMENT ON FUNCTION scd2_internal.names_relation(scd2_internal.flow, name) IS
    'Whether an expression of a flow may name its source';

CREATE FUNCTION scd2_internal.follow_recorded_names(relations oid[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE scd2_internal.flow f SET options = f.options || jsonb_build_object('source_alias', scd2_internal.source_alias(f)), definition = f.definition + 1
        FROM pg_class c
        WHERE c.oid = CASE f.input WHEN 'changes' THEN (SELECT d.feed_relid FROM scd2_internal.feed d WHERE d.feed_id = f.feed_id) ELSE f.source_relid END
          AND (relations IS NULL OR c.oid = ANY (relations)) AND c.relname <> scd2_internal.source_alias(f)
          AND NOT f.options ? 'source_alias' AND scd2_internal.names_relation(f, scd2_internal.source_alias(f));
    UPDATE scd2_internal.feed f SET source_schema = n.nspname, source_name = c.relname
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = f.source_relid AND (relations IS NULL OR c.oid = ANY (relations))
          AND (f.source_schema, f.source_name) IS DISTINCT FROM (n.nspname, c.relname);
    UPDATE scd2_internal.feed f SET feed_schema = n.nspname, feed_name = c.relname
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = f.feed_relid AND (relations IS NULL OR c.oid = ANY (relations))
          AND (f.feed_schema, f.feed_name) IS DISTINCT FROM (n.nspname, c.relname);
    UPDATE scd2_internal.flow f SET source_schema = n.nspname, source_name = c.relname, definition = f.definition + 1
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = f.source_relid AND (relations IS NULL OR c.oid = ANY (relations))
          AND (f.source_schema, f.source_name) IS DISTINCT FROM (n.nspname, c.relname);
    UPDATE scd2_internal.flow f SET target_schema = n.nspname, target_name = c.relname, definition = f.definition + 1
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = f.target_relid AND (relations IS NULL OR c.oid = ANY (relations))
          AND (f.target_schema, f.target_name) IS DISTINCT FROM (n.nspname, c.relname);
    UPDATE scd2_internal.flow f SET memory_name = c.relname, definition = f.definition + 1
        FROM pg_class c WHERE c.oid = f.memory_relid AND (relations IS NULL OR c.oid = ANY (relations))
          AND f.memory_name IS DISTINCT FROM c.relname;
    UPDATE scd2_internal.mark m SET target_schema = n.nspname, target_name = c.relname
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = m.target_relid AND (relations IS NULL OR c.oid = ANY (relations))
          AND (m.target_schema, m.target_name) IS DISTINCT FROM (n.nspname, c.relname);
END $$;
COMMENT ON FUNCTION scd2_internal.follow_recorded_names(oid[]) IS
    'Writes down what relations are called now; NULL: all that are recorded';

CREATE FUNCTION scd2_internal.follow_relations(relations oid[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = on SET quote_all_identifiers = off AS $$
DECLARE
    f scd2_internal.feed;
    w scd2_internal.flow;
BEGIN
    FOR f IN SELECT x.* FROM scd2_internal.feed x WHERE NOT x.disabled
             AND (relations IS NULL OR x.source_relid = ANY (relations)) ORDER BY x.feed_id LOOP
        PERFORM scd2_internal.follow_source_owner(f);
    END LOOP;
    -- One flow of each target: they agree in what matters here but for the names of their own types.
    FOR w IN SELECT x.* FROM scd2_internal.flow x WHERE relations IS NULL OR x.target_relid = ANY (relations)
             ORDER BY x.flow_id LOOP
        PERFORM scd2_internal.follow_target(w);
    END LOOP;
    PERFORM scd2_internal.follow_recorded_names(relations);
END $$;
COMMENT ON FUNCTION scd2_internal.follow_relations(oid[]) IS
    'Has everything that is recorded follow the owners and names that these relations have now, NULL: all. '
    'Errors: 55P03';

CREATE FUNCTION scd2_internal.on_relation_changed() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = on
        SET pg_scd2.enable_change_feed_on_create = off SET client_min_messages = warning AS $$
DECLARE
    relations oid[] := ARRAY(SELECT d.objid FROM pg_event_trigger_ddl_commands() d
                             WHERE d.classid = 'pg_class'::regclass AND scd2_internal.may_concern_us(d.objid));
BEGIN
    IF tg_tag IN ('ALTER SCHEMA', 'ALTER TYPE', 'ALTER DOMAIN') THEN
        PERFORM scd2_internal.follow_relations(NULL);
    ELSIF relations <> '{}' THEN
        PERFORM scd2_internal.follow_relations(relations);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.on_relation_changed() IS
    'Has feeds, targets and what was made for them follow owner and name of what was altered. Errors: 55P03';

-- ALTER VIEW and ALTER INDEX rename tables too. (REASSIGN OWNED: src/feed/utility.c.)
CREATE EVENT TRIGGER scd2_on_relation_changed ON ddl_command_end
    WHEN TAG IN ('ALTER TABLE', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW', 'ALTER INDEX', 'ALTER FOREIGN TABLE',
                 'ALTER SEQUENCE', 'ALTER SCHEMA', 'ALTER TYPE', 'ALTER DOMAIN')
    EXECUTE FUNCTION scd2_internal.on_relation_changed();
ALTER EVENT TRIGGER scd2_on_relation_changed ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER scd2_on_relation_changed IS 'Owners and names of sources, feeds and targets';
