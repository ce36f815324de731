-- 35_feed_columns.sql: DDL of captured tables that the log shows too late or not at all.
--
-- The decoder shows a table's columns as they were when each change was made. But what an ALTER TABLE did to the
-- rows that were there, only it can tell: so each one on a captured table leaves a control record, at which capture
-- looks at the columns (src/feed/layout.c); and where the values of rows changed without a trace, one that declares
-- the feed's gap, and has it repaired where there is a target to compare the table with (38_resync.sql).

CREATE FUNCTION scd2_internal.leaf_with_rows(relation oid) RETURNS oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT c.oid FROM pg_class c WHERE c.oid = relation AND c.relkind = 'r'), (SELECT min(l) FROM scd2_internal.leaves(relation) l), relation)
$$;
COMMENT ON FUNCTION scd2_internal.leaf_with_rows(oid) IS 'A table, or a leaf of a partitioned one: it shows what its rows had before a column was added';

CREATE FUNCTION scd2_internal.feed_above(relation oid) RETURNS scd2_internal.feed
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT f FROM scd2_internal.feed f WHERE NOT f.disabled AND (f.source_relid = relation OR f.source_relid IN (SELECT a.relid FROM pg_partition_ancestors(relation) a))
$$;
COMMENT ON FUNCTION scd2_internal.feed_above(oid) IS 'The feed that the rows of a table go to, its own or that of a partitioned table above it';

CREATE FUNCTION scd2_internal.declare_gap(f scd2_internal.feed, why text, hint text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO scd2_internal.control (kind, feed_id, detail) VALUES ('gap', f.feed_id, why);
    RAISE WARNING 'the change data feed of table "%" has a gap from here on: %', scd2_internal.label(f.source_relid), why USING HINT = hint;
END $$;
COMMENT ON FUNCTION scd2_internal.declare_gap(scd2_internal.feed, text, text) IS 'Leaves the control record of a gap, with a WARNING';

CREATE FUNCTION scd2_internal.type_is_followed(from_type oid, from_typmod integer, to_type oid, to_typmod integer) RETURNS boolean
    AS 'MODULE_PATHNAME', 'scd2_type_is_followed' LANGUAGE C IMMUTABLE STRICT;
COMMENT ON FUNCTION scd2_internal.type_is_followed(oid, integer, oid, integer) IS
    'Whether a feed''s column can get the type that its source''s column has now, with its values';

CREATE FUNCTION scd2_internal.takes_type(type oid, typmod integer, other oid, other_typmod integer) RETURNS boolean
    AS 'MODULE_PATHNAME', 'scd2_takes_type' LANGUAGE C IMMUTABLE STRICT;
COMMENT ON FUNCTION scd2_internal.takes_type(oid, integer, oid, integer) IS
    'Whether a feed''s column of a type takes the values of another type as it is';

-- As far as that can be seen here: the feed has its columns as of what is captured.
CREATE FUNCTION scd2_internal.retyped_column(f scd2_internal.feed) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('column "%s" changed its type from %s to %s: its values left no trace in the log', s.attname,
        format_type(a.atttypid, a.atttypmod), format_type(b.base, b.base_typmod))
    FROM scd2_internal.feed_column c JOIN pg_attribute s ON s.attrelid = f.source_relid AND s.attnum = c.source_attnum AND NOT s.attisdropped
        JOIN pg_attribute a ON a.attrelid = f.feed_relid AND a.attnum = c.feed_attnum AND NOT a.attisdropped
        CROSS JOIN LATERAL scd2_internal.base_type(s.atttypid, s.atttypmod) b
    WHERE c.feed_id = f.feed_id AND NOT scd2_internal.takes_type(a.atttypid, a.atttypmod, b.base, b.base_typmod)
      AND NOT scd2_internal.type_is_followed(a.atttypid, a.atttypmod, b.base, b.base_typmod)
    ORDER BY s.attnum LIMIT 1
$$;
COMMENT ON FUNCTION scd2_internal.retyped_column(scd2_internal.feed) IS
    'What is to be said of a column of a source whose type cannot be followed; NULL: there is none';

-- Whether there is a target to compare with, capture looks again: a flow may begin in this transaction, or go.
CREATE FUNCTION scd2_internal.declare_rewrite(f scd2_internal.feed, why text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO scd2_internal.control (kind, feed_id, detail) VALUES ('rewrite', f.feed_id, why);
    IF scd2_internal.is_comparable(f) THEN
        RAISE NOTICE '%', why USING DETAIL = 'A worker compares the table with a target of it: what differs comes as the changes of one version.',
            HINT = 'SELECT scd2.sync(); -- waits for it';
    ELSE
        RAISE WARNING 'the change data feed of table "%" has a gap from here on: %', scd2_internal.label(f.source_relid), why
            USING HINT = 'SELECT * FROM scd2.diagnose();';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.declare_rewrite(scd2_internal.feed, text) IS
    'Leaves the control record of a gap that is repaired if there is a target to compare with: a NOTICE, else a WARNING';

CREATE FUNCTION scd2_internal.look_at_columns(f scd2_internal.feed) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    why CONSTANT text := scd2_internal.retyped_column(f);
    -- That locks every partition, which not all that comes here has done.
    has_rows boolean := true;
BEGIN
    IF why IS NOT NULL OR EXISTS (SELECT FROM scd2_internal.control c WHERE c.feed_id = f.feed_id AND NOT c.settled) THEN
        has_rows := scd2_internal.has_rows(f.source_relid);
    END IF;
    IF why IS NOT NULL AND has_rows
       AND NOT EXISTS (SELECT FROM scd2_internal.control c WHERE c.feed_id = f.feed_id AND c.kind = 'rewrite' AND NOT c.settled)
       AND EXISTS (SELECT FROM scd2_internal.feed_state s WHERE s.feed_id = f.feed_id AND s.state = 'running') THEN
        PERFORM scd2_internal.declare_rewrite(f, why);
    END IF;
    INSERT INTO scd2_internal.control (kind, feed_id, source_relid, no_rows)
    VALUES ('columns', f.feed_id, scd2_internal.leaf_with_rows(f.source_relid), NOT has_rows);
END $$;
COMMENT ON FUNCTION scd2_internal.look_at_columns(scd2_internal.feed) IS
    'Has capture look at the columns of the source at this place in the log; tells of a type that it will not be able to follow';

-- The event names what the statement names: not the tables that inherit from it or are of its type.
CREATE FUNCTION scd2_internal.altered_with(relation oid) RETURNS SETOF oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE a (oid) AS (
        SELECT relation
        UNION SELECT x.oid FROM a, LATERAL (SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = a.oid
            UNION ALL SELECT c.oid FROM pg_type t JOIN pg_class c ON c.reloftype = t.oid WHERE t.typrelid = a.oid) x (oid))
    SELECT oid FROM a
$$;
COMMENT ON FUNCTION scd2_internal.altered_with(oid) IS 'Relations whose columns change with those of one';

-- Most DDL is none of our business, and is not held up by more than this.
CREATE FUNCTION scd2_internal.may_concern_us(relation oid) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM scd2_internal.feed f WHERE f.source_relid = relation OR f.feed_relid = relation)
        OR EXISTS (SELECT FROM scd2_internal.flow w WHERE w.target_relid = relation OR w.source_relid = relation OR w.memory_relid = relation)
        OR EXISTS (SELECT FROM pg_class c WHERE c.oid = relation AND (c.relispartition AND c.relkind IN ('r', 'p', 'f') OR c.relhassubclass OR c.relkind = 'c'));
END $$;
COMMENT ON FUNCTION scd2_internal.may_concern_us(oid) IS 'Whether DDL of a relation may concern feeds or flows; false: it does not';

-- Changes of a row go to one feed.
CREATE FUNCTION scd2_internal.refuse_feed_below(source oid) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    below oid;
BEGIN
    SELECT f.source_relid INTO below FROM scd2_internal.feed f
        WHERE NOT f.disabled AND f.source_relid <> source AND f.source_relid IN (SELECT t.relid FROM pg_partition_tree(source) t);
    IF FOUND THEN
        PERFORM scd2_internal.refuse('55000', format('partition "%s" of table "%s" has a change data feed of its own', scd2_internal.label(below), scd2_internal.label(source)),
            'The changes of a partition are in the feed of the partitioned table.', format('SELECT scd2.untrack(%1$L); SELECT scd2.disable_change_feed(%1$L);', below::regclass));
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.refuse_feed_below(oid) IS 'Errors: 55000 if a partition of a captured table has a feed';

CREATE FUNCTION scd2_internal.warn_of_identity(f scd2_internal.feed, relation oid) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (SELECT c.relreplident <> 'f' AND c.relkind = 'r' FROM pg_class c WHERE c.oid = relation)
        AND EXISTS (SELECT FROM scd2_internal.found_identity i WHERE i.feed_id = f.feed_id AND i.leaf_relid = relation) THEN   -- not given back
        RAISE WARNING 'the next update or delete of "%" gives its change data feed a gap: it would not be recorded whole', scd2_internal.label(relation)
            USING HINT = format('ALTER TABLE %s REPLICA IDENTITY FULL; -- or, before: SELECT scd2.disable_change_feed(%L);', relation::regclass, f.source_relid::regclass);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.warn_of_identity(scd2_internal.feed, oid) IS 'WARNING if a captured table lacks REPLICA IDENTITY FULL';

-- CI-14: a captured table that becomes unlogged, or is stored by what decoding does not read, changes without a trace in
-- the log from then on, and becoming logged again writes no row changes either.
CREATE FUNCTION scd2_internal.on_alter_table() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = on AS $$
DECLARE
    f record;
BEGIN
    IF scd2_internal.awaits_resume()            -- jobs of a restore would be in each other's way here, for nothing
       OR NOT EXISTS (SELECT FROM pg_event_trigger_ddl_commands() d WHERE d.classid = 'pg_class'::regclass AND scd2_internal.may_concern_us(d.objid)) THEN
        RETURN;
    END IF;
    FOR f IN
        SELECT x AS feed, c.oid AS relation, k.reason, k.hint
        FROM pg_event_trigger_ddl_commands() d JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relkind = 'r'
             CROSS JOIN LATERAL scd2_internal.feed_above(c.oid) x
             LEFT JOIN scd2_internal.feed_state s ON s.feed_id = x.feed_id, scd2_internal.unfit_kind(c.oid) k
        WHERE x.feed_id IS NOT NULL AND k.code IS NOT NULL AND (s.gap IS NULL OR NOT upper_inf(s.gap))
    LOOP
        PERFORM scd2_internal.declare_gap(f.feed, format('changes of table %s cannot be captured: %s', f.relation::regclass, rtrim(f.reason, '.')),
            concat_ws(' ', f.hint, 'SELECT * FROM scd2.diagnose();'));
    END LOOP;
    PERFORM scd2_internal.refuse_feed_below(x.source_relid)
        FROM pg_event_trigger_ddl_commands() d, scd2_internal.feed_above(d.objid) x WHERE d.classid = 'pg_class'::regclass AND x.feed_id IS NOT NULL;
    PERFORM scd2_internal.warn_of_identity(x, d.objid)
        FROM pg_event_trigger_ddl_commands() d, scd2_internal.feeds_above(d.objid) x WHERE d.classid = 'pg_class'::regclass AND tg_tag = 'ALTER TABLE';
    PERFORM scd2_internal.look_at_columns(x)
        FROM (SELECT DISTINCT x.feed_id FROM pg_event_trigger_ddl_commands() d, scd2_internal.altered_with(d.objid) a JOIN scd2_internal.feed x
                  ON x.source_relid = a WHERE NOT x.disabled AND d.classid = 'pg_class'::regclass) i
             JOIN scd2_internal.feed x USING (feed_id);
END $$;
COMMENT ON FUNCTION scd2_internal.on_alter_table() IS
    'Has capture look at the columns of a captured table at this place in the log; declares a gap in the feed of one that becomes unlogged or is stored in another way, with a WARNING. Errors: 55000 a captured table becomes a partition of another.';

-- ALTER VIEW and ALTER INDEX rename columns of tables too, ALTER TYPE alters those of typed tables.
CREATE EVENT TRIGGER scd2_on_alter_table ON ddl_command_end
    WHEN TAG IN ('ALTER TABLE', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW', 'ALTER INDEX', 'ALTER FOREIGN TABLE', 'ALTER TYPE')
    EXECUTE FUNCTION scd2_internal.on_alter_table();
ALTER EVENT TRIGGER scd2_on_alter_table ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER scd2_on_alter_table IS 'Columns of captured tables, and those that become unlogged';

-- What DROP takes along: columns, by DROP TYPE … CASCADE and the like; partitions, by DROP SCHEMA and the like (those
-- that DROP TABLE names have been seen to); tables that have a feed.
CREATE FUNCTION scd2_internal.on_drop() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = on AS $$
DECLARE
    f scd2_internal.feed;
    gone record;
BEGIN
    IF NOT EXISTS (SELECT FROM scd2_internal.feed) THEN
        RETURN;
    END IF;
    FOR f IN SELECT x.* FROM scd2_internal.feed x WHERE NOT x.disabled AND EXISTS (SELECT FROM pg_class c WHERE c.oid = x.source_relid)
                AND x.source_relid IN (SELECT scd2_internal.altered_with(d.objid) FROM pg_event_trigger_dropped_objects() d WHERE d.object_type = 'table column') LOOP
        PERFORM scd2_internal.look_at_columns(f);
    END LOOP;
    FOR gone IN
        SELECT i.feed_id, min(d.object_identity) AS leaf FROM pg_event_trigger_dropped_objects() d JOIN scd2_internal.found_identity i ON i.leaf_relid = d.objid
            JOIN scd2_internal.feed x USING (feed_id) LEFT JOIN scd2_internal.feed_state s USING (feed_id)
        WHERE d.classid = 'pg_class'::regclass AND d.objsubid = 0 AND x.source_relid <> d.objid AND NOT x.disabled AND s.state IS DISTINCT FROM 'failed'
          AND EXISTS (SELECT FROM pg_class c WHERE c.oid = x.source_relid) GROUP BY i.feed_id
    LOOP
        PERFORM scd2_internal.declare_gap(x, format('partition %s was dropped with something else: its rows left no trace in the log', gone.leaf), 'SELECT * FROM scd2.diagnose();')
            FROM scd2_internal.feed x WHERE x.feed_id = gone.feed_id;
    END LOOP;
    FOR f IN SELECT x.* FROM pg_event_trigger_dropped_objects() d JOIN scd2_internal.feed x ON d.classid = 'pg_class'::regclass AND d.objsubid = 0 AND x.source_relid = d.objid
             WHERE NOT x.disabled AND EXISTS (SELECT FROM pg_class c WHERE c.oid = x.feed_relid) LOOP
        RAISE NOTICE 'the change data feed "%" of table "%.%" is still there', scd2_internal.label(f.feed_relid), f.source_schema, f.source_name
            USING HINT = format('SELECT scd2.disable_change_feed(%L, drop_feed => true);', f.feed_relid::regclass);
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.on_drop() IS
    'Has capture look at the columns of a captured table that lost some with something else; declares a gap where partitions went so; NOTICE of the feed of a table that was dropped';

CREATE EVENT TRIGGER scd2_on_drop ON sql_drop EXECUTE FUNCTION scd2_internal.on_drop();
ALTER EVENT TRIGGER scd2_on_drop ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER scd2_on_drop IS 'Columns and partitions of captured tables that go with something else';

-- Called by the trigger of src/feed/rewrite.c, before the table is rewritten.
-- A statement that gives rows other values of the same type writes them, as UPDATE does, which the guard refuses. (Another
-- type stops the flow, or is what lets it go on.)
CREATE FUNCTION scd2_internal.refuse_given_values(relation oid, columns text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('pg_scd2.allow_target_writes')::boolean OR current_setting('pg_scd2.own_ddl')::boolean THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM (SELECT relation UNION SELECT a.relid::oid FROM pg_partition_ancestors(relation) a) r (oid)
               WHERE r.oid IN (SELECT e.feed_relid FROM scd2_internal.feed e UNION ALL SELECT w.target_relid FROM scd2_internal.flow w)) THEN
        PERFORM scd2_internal.refuse('55000', format('table "%s" is written by pg_scd2 alone', scd2_internal.label(relation)),
            format('What USING gives its rows in column %s follows from no source.', columns), 'SET pg_scd2.allow_target_writes = on;');
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.refuse_given_values(oid, text) IS
    'Raises 55000 if a table is a feed, a part of one or a target, whose rows are to get other values, unless the session may write them';

CREATE FUNCTION scd2_internal.table_rewritten(relation oid, reason integer, given_values text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed := scd2_internal.feed_above(relation);
BEGIN
    -- 2: values for a new column, or of an expression; 4: another type.
    IF f.feed_id IS NULL OR NOT (reason & 2 > 0 OR reason & 4 > 0 AND given_values IS NOT NULL) OR NOT scd2_internal.has_rows(relation) THEN
        RETURN;
    END IF;
    PERFORM scd2_internal.declare_rewrite(f, format('rows of table %s got values of their own in column %s: they left no trace in the log',
            relation::regclass, coalesce(given_values, '(a generated one)')));
END $$;
COMMENT ON FUNCTION scd2_internal.table_rewritten(oid, integer, text) IS
    'Declares a gap, to be repaired, where a rewrite gives rows values that cannot be known: a default that is not constant, USING, a stored generated column';

CREATE FUNCTION scd2_internal.on_table_rewrite() RETURNS event_trigger AS 'MODULE_PATHNAME', 'scd2_on_table_rewrite' LANGUAGE C;
COMMENT ON FUNCTION scd2_internal.on_table_rewrite() IS 'Finds out which columns get values of their own, and calls table_rewritten()';
CREATE EVENT TRIGGER scd2_on_table_rewrite ON table_rewrite EXECUTE FUNCTION scd2_internal.on_table_rewrite();
ALTER EVENT TRIGGER scd2_on_table_rewrite ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER scd2_on_table_rewrite IS 'Values of captured tables that change without a trace in the log';

-- Called by capture when a feed's columns have followed the source's.
CREATE FUNCTION scd2_internal.columns_changed(feed integer) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    excepted name[] := ARRAY(SELECT c.name FROM scd2_internal.feed_column c WHERE c.feed_id = feed AND c.feed_attnum = 0 ORDER BY c.source_attnum);
BEGIN
    UPDATE scd2_internal.feed_state s SET catches_up = false WHERE s.feed_id = feed AND s.catches_up;
    INSERT INTO scd2_internal.feed_layout AS l (feed_id, changes) VALUES (feed, 1) ON CONFLICT (feed_id) DO UPDATE SET changes = l.changes + 1;
    -- Only names change here.
    UPDATE scd2_internal.feed f SET except_columns = excepted
    WHERE f.feed_id = feed AND cardinality(f.except_columns) = cardinality(excepted) AND NOT (f.except_columns @> excepted);
END $$;
COMMENT ON FUNCTION scd2_internal.columns_changed(integer) IS 'Has the flows over a feed look at its columns; columns that stay out do so under their new names';

-- Capture may be behind: then names in the source are not yet those in the feed.
CREATE FUNCTION scd2_internal.columns_pending(feed integer) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT min(a.attname) FROM scd2_internal.feed f JOIN scd2_internal.feed_column c USING (feed_id)
        JOIN pg_attribute a ON a.attrelid = f.source_relid AND (a.attnum = c.source_attnum AND NOT a.attisdropped AND a.attname <> c.name
            OR a.attnum <> c.source_attnum AND NOT a.attisdropped AND a.attname = c.name AND c.feed_attnum <> 0)
    WHERE f.feed_id = feed
$$;
COMMENT ON FUNCTION scd2_internal.columns_pending(integer) IS 'A column of a source whose new name its feed has not followed yet; NULL: none';
