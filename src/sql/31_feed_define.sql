-- 31_feed_define.sql: enabling, altering and disabling change data feeds.
--
-- Enabling, in the caller's transaction: lock the source against writers, remember its replica identity and set it to
-- FULL, make the feed relation, write the definition, and last the control record. The worker meets that record at its
-- place in the log; every transaction that wrote the source before has ended by then, because the lock waited for it,
-- and every later one writes full images.
--
-- The functions that make relations switch pg_scd2.enable_change_feed_on_create off for their own duration: a feed has
-- no feed.

-- Replica identities that were found on the leaves of a partitioned table, to be given back. (That of a plain table
-- stands in the feed's row.)
CREATE TABLE scd2_internal.found_identity (
    feed_id    integer,
    leaf_relid scd2_internal.relation,
    identity   "char" NOT NULL,
    index_name name,
    PRIMARY KEY (feed_id, leaf_relid)
);
COMMENT ON TABLE scd2_internal.found_identity IS
    'Replica identities found on the leaves of captured partitioned tables';

CREATE FUNCTION scd2_internal.current_identity(relation oid, OUT identity "char", OUT index_name name)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.relreplident, (SELECT i.relname FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
        WHERE x.indrelid = c.oid AND x.indisreplident)
    FROM pg_class c WHERE c.oid = relation
$$;
COMMENT ON FUNCTION scd2_internal.current_identity(oid) IS
    'A table''s replica identity (d, n, f, i) and, with i, its index.';

CREATE FUNCTION scd2_internal.set_full_identity(feed_id integer, leaf oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found record := scd2_internal.current_identity(leaf);
BEGIN
    INSERT INTO scd2_internal.found_identity VALUES (set_full_identity.feed_id, leaf, found.identity,
        found.index_name) ON CONFLICT DO NOTHING;
    IF found.identity <> 'f' THEN
        EXECUTE format('ALTER TABLE ONLY %s REPLICA IDENTITY FULL', scd2_internal.fixed_name(leaf));
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.set_full_identity(integer, oid) IS
    'Remembers the replica identity of a table of the feed and sets it to FULL.';

-- As the owner: whether an index can be the identity is asked of the index, and its expressions are his code.
CREATE FUNCTION scd2_internal.give_back_identity(leaf oid, identity "char", index_name name) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF identity = 'f' OR (SELECT c.relreplident <> 'f' FROM pg_class c WHERE c.oid = leaf) IS NOT FALSE THEN
        RETURN;                             -- as it was, gone, or changed since by somebody who wants it so
    END IF;
    PERFORM scd2_internal.alter_as_owner(leaf, ARRAY[format('ALTER TABLE ONLY %s REPLICA IDENTITY %s', scd2_internal.fixed_name(leaf),
        CASE WHEN identity = 'n' THEN 'NOTHING'
             WHEN identity = 'i' AND EXISTS (SELECT FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
                                             WHERE x.indrelid = leaf AND i.relname = index_name AND x.indisunique AND x.indimmediate
                                               AND x.indpred IS NULL AND x.indexprs IS NULL) THEN format('USING INDEX %I', index_name)
             ELSE 'DEFAULT' END)]);
END $$;
COMMENT ON FUNCTION scd2_internal.give_back_identity(oid, "char", name) IS
    'Sets the replica identity that was found, DEFAULT if its index is gone. Leaves one alone that is no longer FULL.';

-- The utility hook calls this after DDL on partitions, in the user's transaction, which holds the new leaf's lock.
CREATE FUNCTION scd2_internal.set_leaf_identities(root oid) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    f scd2_internal.feed;
    leaf oid;
BEGIN
    FOR f IN SELECT x.* FROM scd2_internal.feed x WHERE NOT x.disabled
        AND (x.source_relid = root OR x.source_relid IN (SELECT a.relid FROM pg_partition_ancestors(root) a)) LOOP
        FOR leaf IN SELECT c.oid FROM scd2_internal.leaves(f.source_relid) l JOIN pg_class c ON c.oid = l
            WHERE c.relreplident <> 'f' AND c.relkind = 'r' AND c.relpersistence = 'p' LOOP
            BEGIN
                PERFORM scd2_internal.set_full_identity(f.feed_id, leaf);
            EXCEPTION WHEN OTHERS THEN
                RAISE WARNING 'could not set the replica identity of partition "%": %', scd2_internal.label(leaf),
                    SQLERRM
                    USING HINT = format('ALTER TABLE %s REPLICA IDENTITY FULL;', leaf::regclass);
            END;
        END LOOP;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.set_leaf_identities(oid) IS
    'Sets REPLICA IDENTITY FULL on each leaf of a captured partitioned table that lacks it; nothing for other tables. '
    'Never an error: a WARNING with the statement.';

-- Makes "name" or says what stands in its place.
CREATE FUNCTION scd2_internal.feed_name(source oid, feed text) RETURNS name
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    parts text[];
    own_schema name;
    own_name name;
BEGIN
    SELECT n.nspname, c.relname INTO own_schema, own_name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = source;
    IF feed IS NULL THEN
        RETURN scd2_internal.generated_name(own_name, 'changes');
    END IF;
    parts := parse_ident(feed);
    IF cardinality(parts) > 2 OR cardinality(parts) = 2 AND parts[1] <> own_schema THEN
        PERFORM scd2_internal.refuse('22023',
            format('a feed is made in the schema of its source, "%s", not as "%s"', own_schema, feed));
    END IF;
    IF octet_length(parts[cardinality(parts)]) > 63 THEN
        PERFORM scd2_internal.refuse('42622', format('name "%s" is too long', parts[cardinality(parts)]),
            'Names have at most 63 bytes.');
    END IF;
    RETURN parts[cardinality(parts)];
END $$;
COMMENT ON FUNCTION scd2_internal.feed_name(oid, text) IS
    'The name of a feed: as given, or <source>_changes clipped to 63 bytes. Errors: 22023 for another schema or what '
    'is no identifier, 42622 for a name that is too long.';

CREATE FUNCTION scd2_internal.guard_feed(relation oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.put_guard(relation);
    EXECUTE format('ALTER TABLE ONLY %s REPLICA IDENTITY FULL', scd2_internal.fixed_name(relation));
END $$;
COMMENT ON FUNCTION scd2_internal.guard_feed(oid) IS
    'Puts the trigger on a relation of ours that keeps other writers out, and REPLICA IDENTITY FULL, so that '
    'publications do not stop our writes.';

CREATE FUNCTION scd2_internal.own_alone(relation oid, owner oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    grantee oid;
BEGIN
    EXECUTE format('ALTER TABLE %s OWNER TO %s', scd2_internal.fixed_name(relation), scd2_internal.fixed_role(owner));
    FOR grantee IN SELECT DISTINCT x.grantee FROM pg_class c, aclexplode(c.relacl) x WHERE c.oid = relation
        AND x.grantee <> owner LOOP
        EXECUTE format('REVOKE ALL ON %s FROM %s', scd2_internal.fixed_name(relation), CASE grantee WHEN 0 THEN 'public'
            ELSE scd2_internal.fixed_role(grantee) END);
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.own_alone(oid, oid) IS
    'Gives a relation to its owner and takes away what default privileges gave to others: it holds what row policies '
    'and column grants on the source may hide.';

-- Two feeds with long names may clip to one name for their partitions; those are nobody's business, so a clash gets a
-- number.
CREATE FUNCTION scd2_internal.leaf_name(schema oid, feed name, label text) RETURNS name
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    candidate name := scd2_internal.generated_name(feed, label);
    n integer := 1;
BEGIN
    WHILE EXISTS (SELECT FROM pg_class c WHERE c.relname = candidate AND c.relnamespace = schema) LOOP
        n := n + 1;
        candidate := scd2_internal.generated_name(feed, format('%s_%s', label, n));
    END LOOP;
    RETURN candidate;
END $$;
COMMENT ON FUNCTION scd2_internal.leaf_name(oid, name, text) IS
    'A name for a partition of a feed that is free in its schema: <feed>_label, clipped to 63 bytes, with a number if '
    'it is taken.';

CREATE FUNCTION scd2_internal.create_feed_relation(source oid, except_column_list name[], feed name) RETURNS oid
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET pg_scd2.enable_change_feed_on_create = off
        SET client_min_messages = warning AS $$
DECLARE
    own record;
    columns text;
    qualified text;
    leaf text;
BEGIN
    SELECT c.relowner, c.relnamespace, scd2_internal.fixed_schema(c.relnamespace) AS schema INTO own
        FROM pg_class c WHERE c.oid = source;
    SELECT string_agg(format('%I %s', f.name, scd2_internal.fixed_type(f.type, f.typmod))
                      || CASE WHEN f.collation_oid <> 0 AND f.collation_oid <> t.typcollation THEN ' COLLATE '
                          || scd2_internal.fixed_collation(f.collation_oid) ELSE '' END
                      || CASE WHEN f.not_null THEN ' NOT NULL' ELSE '' END, ', ' ORDER BY f.ordinal)
    INTO columns
    FROM scd2_internal.feed_columns(source, except_column_list) f JOIN pg_type t ON t.oid = f.type;
    qualified := format('%s.%I', own.schema, feed);
    leaf := format('%s.%I', own.schema, scd2_internal.leaf_name(own.relnamespace, feed, 'p1'));
    EXECUTE format('CREATE TABLE %s (%s) PARTITION BY RANGE (_commit_version)', qualified, columns);
    EXECUTE format('CREATE TABLE %s PARTITION OF %s FOR VALUES FROM (MINVALUE) TO (MAXVALUE) USING heap', leaf,
        qualified);
    -- Both ascend with the place in the table, so ranges of versions and of times read only their own pages.
    EXECUTE format('CREATE INDEX ON %s USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range = 16)',
        qualified);
    EXECUTE format('COMMENT ON TABLE %s IS %L', qualified,
        format('change data feed of %s, written by pg_scd2 alone', source::regclass));
    PERFORM scd2_internal.guard_feed(r), scd2_internal.own_alone(r, own.relowner)
        FROM unnest(ARRAY[qualified, leaf]::regclass[]) r;
    RETURN qualified::regclass;
END $$;
COMMENT ON FUNCTION scd2_internal.create_feed_relation(oid, name[], name) IS
    'Makes the relation of a feed: partitioned by version with one partition, indexed, guarded, owned by the '
    'source''s owner. Errors: 42P07 if the name is taken.';

CREATE FUNCTION scd2_internal.layout_misfit(source oid, except_column_list name[], feed oid) RETURNS name
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(w.name, h.attname)
    FROM scd2_internal.feed_columns(source, except_column_list) w
         FULL JOIN (SELECT a.* FROM pg_attribute a WHERE a.attrelid = feed AND a.attnum > 0
             AND NOT a.attisdropped) h ON h.attname = w.name
    WHERE (h.atttypid, h.atttypmod, h.attcollation) IS DISTINCT FROM (w.type, w.typmod, w.collation_oid)
          AND (w.name IS NOT NULL OR h.attnotnull OR h.attname = ANY (except_column_list))
       OR w.name IS NOT NULL AND h.attnotnull <> w.not_null
    ORDER BY w.ordinal LIMIT 1
$$;
COMMENT ON FUNCTION scd2_internal.layout_misfit(oid, name[], oid) IS
    'The first column in which a relation differs from what the feed of a source must have (more columns, if they can '
    'be NULL, do no harm); NULL if it fits.';

CREATE FUNCTION scd2_internal.enable_statement(source oid, retention interval, except_column_list name[], feed name)
    RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('SELECT scd2.enable_change_feed(%L', source::regclass) || CASE
        WHEN retention IS NOT NULL THEN format(', retention => %L', retention) ELSE '' END
        || CASE WHEN cardinality(except_column_list) > 0 THEN format(', except_column_list => %L', except_column_list)
            ELSE '' END
        || CASE WHEN feed IS NOT NULL THEN format(', feed => %L', quote_ident(feed)) ELSE '' END || ')'
$$;
COMMENT ON FUNCTION scd2_internal.enable_statement(oid, interval, name[], name) IS
    'The call, for hints, that enables a feed with these arguments; NULL or empty ones are left out.';

-- A feed that was disabled is used again if what it would get now fits what it has, and no change of columns waits that it
-- is still to follow.
CREATE FUNCTION scd2_internal.former_feed(caller oid, source oid, except_column_list name[], feed name) RETURNS oid
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    there pg_class;
    problem text;
BEGIN
    SELECT c.* INTO there FROM pg_class c WHERE c.relname = feed
        AND c.relnamespace = (SELECT s.relnamespace FROM pg_class s WHERE s.oid = source);
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF NOT EXISTS (SELECT FROM scd2_internal.feed f WHERE f.disabled AND f.feed_relid = there.oid
        AND f.source_relid = source) THEN
        problem := 'It is no former change data feed of this table.';
    ELSIF NOT pg_has_role(caller, there.relowner, 'USAGE') THEN
        problem := 'It is a former change data feed of this table, but you do not own it.';
    ELSIF EXISTS (SELECT FROM scd2_internal.unfit_on_feed(there.oid)) THEN
        SELECT format('It is a former change data feed of this table, but %s must not stand on one. %s', u.what, u.why)
        INTO problem FROM scd2_internal.unfit_on_feed(there.oid) u LIMIT 1;
    ELSE
        PERFORM scd2_internal.refuse_incomplete(f, scd2_internal.feed_complete(f.feed_id), scd2_internal.keeps_feed_locked(f)) FROM scd2_internal.feed f
            WHERE f.feed_relid = there.oid AND EXISTS (SELECT FROM scd2_internal.backlog e WHERE e.feed_id = f.feed_id AND e.kind = 'l');
        problem := format('It is a former change data feed of this table, but its column "%s" does not fit.',
                          scd2_internal.layout_misfit(source, except_column_list, there.oid));
        IF scd2_internal.layout_misfit(source, except_column_list, there.oid) IS NULL THEN
            RETURN there.oid;
        END IF;
    END IF;
    PERFORM scd2_internal.refuse('42P07', format('relation "%s" already exists', scd2_internal.label(there.oid)),
        problem,
        scd2_internal.enable_statement(source, NULL, except_column_list, scd2_internal.generated_name(feed, '2'))
            || ';');
END $$;
COMMENT ON FUNCTION scd2_internal.former_feed(oid, oid, name[], name) IS
    'The relation of this name if it is a former feed of the source and fits, NULL if there is none. Errors: 42P07 if '
    'there is another relation.';

CREATE FUNCTION scd2_internal.note_children(source oid) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    children text;
BEGIN
    SELECT string_agg(format('"%s"', scd2_internal.label(i.inhrelid)), ', ' ORDER BY i.inhseqno,
        i.inhrelid::regclass::text) INTO children
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent WHERE i.inhparent = source AND c.relkind = 'r';
    IF children IS NOT NULL THEN
        RAISE NOTICE 'the change data feed of "%" does not have the changes of tables that inherit from it: %',
            scd2_internal.label(source), children;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.note_children(oid) IS
    'NOTICE if tables inherit from the source: their rows are not its rows.';

CREATE FUNCTION scd2_internal.check_enable(caller oid, source oid, except_column_list name[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed;
    schema oid;
BEGIN
    PERFORM scd2_internal.check_owner(caller, source);
    PERFORM scd2_internal.check_kind(source);
    PERFORM scd2_internal.check_owner(caller, l) FROM scd2_internal.leaves(source) l;      -- a partition can have another
    SELECT c.relnamespace INTO schema FROM pg_class c WHERE c.oid = source;
    IF NOT has_schema_privilege(caller, schema, 'CREATE') THEN
        PERFORM scd2_internal.refuse('42501', format('permission denied for schema %s', schema::regnamespace),
            'The feed is made there.');
    END IF;
    f := scd2_internal.feed_of(source);
    IF f.feed_id IS NOT NULL THEN
        PERFORM scd2_internal.refuse('42710',
            format('table "%s" has a change data feed already: "%s"', scd2_internal.label(source),
            scd2_internal.label(f.feed_relid)));
    END IF;
    PERFORM scd2_internal.check_excepted(source, except_column_list);
    PERFORM scd2_internal.check_columns(source, except_column_list);
    PERFORM scd2_internal.check_publications(source);
END $$;
COMMENT ON FUNCTION scd2_internal.check_enable(oid, oid, name[]) IS
    'Everything that stands against enabling the feed of a table. Errors: as scd2.enable_change_feed.';

-- Definition and control record of a feed whose source is locked and whose relation is there.
CREATE FUNCTION scd2_internal.register_feed(source oid, feed oid, retention interval, except_column_list name[])
    RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found record := scd2_internal.current_identity(source);
    id integer;
BEGIN
    INSERT INTO scd2_internal.feed (source_schema, source_name, feed_schema, feed_name, source_relid, feed_relid,
        except_columns, retention, found_identity, found_index)
    SELECT sn.nspname, s.relname, fn.nspname, f.relname, s.oid, f.oid, except_column_list, register_feed.retention,
        found.identity, found.index_name
    FROM pg_class s JOIN pg_namespace sn ON sn.oid = s.relnamespace, pg_class f
        JOIN pg_namespace fn ON fn.oid = f.relnamespace
    WHERE s.oid = source AND f.oid = feed
    RETURNING feed_id INTO id;
    INSERT INTO scd2_internal.feed_column (feed_id, source_attnum, feed_attnum, name)
    SELECT id, a.attnum, coalesce(fa.attnum, 0), a.attname
    FROM pg_attribute a LEFT JOIN pg_attribute fa ON fa.attrelid = feed AND fa.attname = a.attname AND fa.attnum > 5
        AND a.attname <> ALL (except_column_list)
    WHERE a.attrelid = source AND a.attnum > 0 AND NOT a.attisdropped
      AND (fa.attnum IS NOT NULL OR a.attname = ANY (except_column_list));
    PERFORM scd2_internal.set_full_identity(id, l) FROM scd2_internal.leaves(source) l;
    INSERT INTO scd2_internal.control (kind, feed_id, source_relid, feed_relid, detail)
    VALUES ('enable feed', id, source, feed, CASE WHEN except_column_list <> '{}' THEN except_column_list::text END);
END $$;
COMMENT ON FUNCTION scd2_internal.register_feed(oid, oid, interval, name[]) IS
    'Writes a feed''s definition, sets the replica identities and leaves the control record from which on changes are '
    'captured.';

CREATE FUNCTION scd2.enable_change_feed(source regclass, retention interval DEFAULT NULL,
    except_column_list name[] DEFAULT '{}', feed text DEFAULT NULL) RETURNS regclass
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
CREATE FUNCTION scd2_internal.enable_change_feed(caller oid, source regclass, retention interval,
    except_column_list name[], feed text) RETURNS regclass
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    feed_name name;
    relation oid;
BEGIN
    except_column_list := coalesce(except_column_list, '{}');
    PERFORM scd2_internal.check_span('retention', retention);
    PERFORM scd2_internal.check_enable(caller, source, except_column_list);
    feed_name := scd2_internal.feed_name(source, feed);
    PERFORM scd2_internal.former_feed(caller, source, except_column_list, feed_name);
    PERFORM scd2_internal.require_capture();
    PERFORM scd2_internal.lock_source(source, true);
    PERFORM scd2_internal.check_enable(caller, source, except_column_list);
    relation := coalesce(scd2_internal.former_feed(caller, source, except_column_list, feed_name),
                         scd2_internal.create_feed_relation(source, except_column_list, feed_name));
    PERFORM scd2_internal.close_rows_as(source, relation);
    PERFORM scd2_internal.register_feed(source, relation, retention, except_column_list);
    PERFORM scd2_internal.warn_of_publications(relation);
    PERFORM scd2_internal.note_children(source);
    RETURN relation;
END $$;

-- For track(): whoever enables the same table at the same time is waited for, and has done it then.
CREATE FUNCTION scd2_internal.enabled_feed(caller oid, source regclass) RETURNS integer
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_id integer := (SELECT f.feed_id FROM scd2_internal.feed f WHERE f.source_relid = source AND NOT f.disabled);
BEGIN
    IF found_id IS NULL THEN
        PERFORM scd2_internal.check_enable(caller, source, '{}');
        PERFORM scd2_internal.require_capture();
        PERFORM scd2_internal.lock_source(source, true);
        found_id := (SELECT f.feed_id FROM scd2_internal.feed f WHERE f.source_relid = source AND NOT f.disabled);
    END IF;
    IF found_id IS NULL THEN
        PERFORM scd2_internal.enable_change_feed(caller, source, NULL::interval, '{}'::name[], NULL::text);
        found_id := (SELECT f.feed_id FROM scd2_internal.feed f WHERE f.source_relid = source AND NOT f.disabled);
    END IF;
    RETURN found_id;
END $$;
COMMENT ON FUNCTION scd2_internal.enabled_feed(oid, regclass) IS
    'The feed of a table, enabled if it is off. Errors as scd2.enable_change_feed.';

COMMENT ON FUNCTION scd2.enable_change_feed(regclass, interval, name[], text) IS
    'Records every change of a table from the caller''s commit on in a change data feed, and returns the feed''s '
    'relation. source: an ordinary or partitioned table that you own; '
    'retention: how long rows are kept, NULL: pg_scd2.feed_retention; except_column_list: columns that are never '
    'stored; feed: its name in the source''s schema, NULL: <source>_changes. '
    'Sets REPLICA IDENTITY FULL where it is not set, under an ACCESS EXCLUSIVE lock that is tried for '
    'pg_scd2.lock_timeout. '
    'Errors: 42501 not the owner, 42809, 55000, 0A000 no table that can be captured, 42710 it has a feed, 42P07 the '
    'name is taken, 42703, 42701 wrong columns, 54011, 54000 too many or too wide, '
    '55000 a publication or a setting is in the way, 55P03 the lock was not to be had.';
