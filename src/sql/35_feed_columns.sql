-- 35_feed_columns.sql: DDL of captured tables that the log shows too late or not at all.
--
-- The decoder shows a table's columns as they were when each change was made. But what an ALTER TABLE did to the
-- rows that were there, only it can tell: so each one on a captured table leaves a control record, at which capture
-- looks at the columns (src/feed/layout.c); and where the values of rows changed without a trace, one that declares
-- the feed's gap.

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

-- CI-14: a captured table that becomes unlogged changes without a trace in the log from then on, and becoming
-- logged again writes no row changes either.
CREATE FUNCTION scd2_internal.on_alter_table() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f record;
BEGIN
    FOR f IN
        SELECT x AS feed, c.oid AS unlogged
        FROM pg_event_trigger_ddl_commands() d JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relpersistence = 'u' AND c.relkind = 'r'
             JOIN scd2_internal.feed x ON NOT x.disabled AND (x.source_relid = c.oid OR x.source_relid IN (SELECT a.relid FROM pg_partition_ancestors(c.oid) a))
             LEFT JOIN scd2_internal.feed_state s ON s.feed_id = x.feed_id
        WHERE s.gap IS NULL OR NOT upper_inf(s.gap)
    LOOP
        PERFORM scd2_internal.declare_gap(f.feed, format('table %s is unlogged: its changes leave no trace in the log', f.unlogged::regclass),
            format('ALTER TABLE %s SET LOGGED; SELECT * FROM scd2.diagnose();', f.unlogged::regclass));
    END LOOP;
    INSERT INTO scd2_internal.control (kind, feed_id, source_relid)
    SELECT DISTINCT 'columns', x.feed_id, scd2_internal.leaf_with_rows(x.source_relid)
    FROM pg_event_trigger_ddl_commands() d JOIN scd2_internal.feed x ON d.classid = 'pg_class'::regclass AND x.source_relid = d.objid AND NOT x.disabled;
END $$;
COMMENT ON FUNCTION scd2_internal.on_alter_table() IS
    'Has capture look at the columns of a captured table at this place in the log; declares a gap in the feed of one that becomes unlogged, with a WARNING.';

CREATE EVENT TRIGGER scd2_on_alter_table ON ddl_command_end WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION scd2_internal.on_alter_table();
ALTER EVENT TRIGGER scd2_on_alter_table ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER scd2_on_alter_table IS 'Columns of captured tables, and those that become unlogged';

-- Called by the trigger of src/feed/rewrite.c, before the table is rewritten.
CREATE FUNCTION scd2_internal.table_rewritten(relation oid, reason integer, given_values text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed := scd2_internal.feed_above(relation);
BEGIN
    -- 2: values for a new column, or of an expression; 4: another type.
    IF f.feed_id IS NULL OR NOT (reason & 2 > 0 OR reason & 4 > 0 AND given_values IS NOT NULL) OR NOT scd2_internal.has_rows(relation) THEN
        RETURN;
    END IF;
    PERFORM scd2_internal.declare_gap(f, format('rows of table %s got values of their own in column %s: they left no trace in the log',
            relation::regclass, coalesce(given_values, '(a generated one)')), 'SELECT * FROM scd2.diagnose();');
END $$;
COMMENT ON FUNCTION scd2_internal.table_rewritten(oid, integer, text) IS
    'Declares a gap where a rewrite gives rows values that cannot be known: a default that is not constant, USING, a stored generated column';

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
