-- 32_feed_change.sql: what can be done with a feed once it is there, and feeds of tables that are yet to come.

CREATE FUNCTION scd2_internal.check_no_flow(f scd2_internal.feed, what text, only_columns name[] DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names text;
    statements text;
BEGIN
    SELECT string_agg(format('"%s"', w.name), ', ' ORDER BY w.flow_id), string_agg(format('SELECT scd2.drop_flow(%L);', w.name), ' ' ORDER BY w.flow_id)
    INTO names, statements
    FROM scd2_internal.flow w WHERE w.feed_id = f.feed_id AND (only_columns IS NULL OR w.columns && only_columns);
    IF names IS NOT NULL THEN
        PERFORM scd2_internal.refuse('55000', format('%s because flows depend on the change data feed of table "%s"', what, scd2_internal.label(f.source_relid)),
            format('Flows: %s.', names), statements);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_no_flow(scd2_internal.feed, text, name[]) IS
    'Errors: 55000, naming the flows and how to drop them, if flows depend on the feed (or, with only_columns, copy one of these columns).';

-- The source of a feed may be gone.
CREATE FUNCTION scd2_internal.owned_feed(caller oid, relation oid) RETURNS scd2_internal.feed
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed;
BEGIN
    PERFORM scd2_internal.check_owner(caller, relation);
    SELECT x.* INTO f FROM scd2_internal.feed x WHERE x.feed_relid = relation AND NOT x.disabled;
    IF NOT FOUND THEN
        RETURN scd2_internal.require_feed_of(relation);
    ELSIF EXISTS (SELECT FROM pg_class c WHERE c.oid = f.source_relid) THEN
        PERFORM scd2_internal.check_owner(caller, f.source_relid);
    END IF;
    RETURN f;
END $$;
COMMENT ON FUNCTION scd2_internal.owned_feed(oid, oid) IS
    'The feed of a table that the caller owns, or that the relation is. Errors: 42501 not the owner, 55000 no feed, 22004 NULL.';

CREATE FUNCTION scd2.disable_change_feed(source regclass, drop_feed boolean DEFAULT false) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
CREATE FUNCTION scd2_internal.disable_change_feed(caller oid, source regclass, drop_feed boolean) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed;
    relations oid[];
BEGIN
    f := scd2_internal.owned_feed(caller, source);
    IF drop_feed AND EXISTS (SELECT FROM pg_class c WHERE c.oid = f.feed_relid) THEN
        PERFORM scd2_internal.check_owner(caller, f.feed_relid);        -- the source may have another owner by now
    END IF;
    PERFORM scd2_internal.check_no_flow(f, 'cannot disable');
    -- ALTER TABLE below would wait for these without a bound.
    SELECT array_agg(i.leaf_relid ORDER BY i.leaf_relid) INTO relations
    FROM scd2_internal.found_identity i JOIN pg_class c ON c.oid = i.leaf_relid WHERE i.feed_id = f.feed_id AND i.identity <> 'f' AND c.relreplident = 'f';
    IF drop_feed THEN
        relations := relations || ARRAY(SELECT c.oid FROM pg_class c WHERE c.oid = f.feed_relid) || ARRAY(SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = f.feed_relid);
    END IF;
    IF cardinality(relations) > 0 THEN
        PERFORM scd2_internal.lock_tables(relations, array_fill('ACCESS EXCLUSIVE'::text, ARRAY[cardinality(relations)]));
    END IF;
    UPDATE scd2_internal.feed x SET disabled = true WHERE x.feed_id = f.feed_id;
    PERFORM scd2_internal.give_back_identity(i.leaf_relid, i.identity, i.index_name) FROM scd2_internal.found_identity i WHERE i.feed_id = f.feed_id;
    DELETE FROM scd2_internal.found_identity i WHERE i.feed_id = f.feed_id;
    PERFORM scd2_internal.check_no_reader(f);           -- now none can come
    INSERT INTO scd2_internal.control (kind, feed_id, source_relid, feed_relid) VALUES ('disable feed', f.feed_id, f.source_relid, f.feed_relid);
    IF drop_feed AND EXISTS (SELECT FROM pg_class c WHERE c.oid = f.feed_relid) THEN
        EXECUTE format('DROP TABLE %s', scd2_internal.fixed_name(f.feed_relid));
    END IF;
END $$;
COMMENT ON FUNCTION scd2.disable_change_feed(regclass, boolean) IS
    'Ends the recording of a table''s changes with the caller''s commit and gives back the replica identity that was found. source: a table that you own, or the feed itself; drop_feed: drop the feed''s relation too, '
    'else it stays and is used again when the feed is enabled again. Errors: 42501 not the owner, 55000 no feed, or flows or readers depend on it, 55P03 a lock was not to be had, 2BP01 other objects depend on the relation.';

-- Columns that leave the feed take what was stored of them along; columns that come back begin empty.
CREATE FUNCTION scd2_internal.lock_feed(f scd2_internal.feed) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.lock_tables(array_agg(l), array_agg('ACCESS EXCLUSIVE'::text))
    FROM (SELECT f.feed_relid AS l UNION ALL SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = f.feed_relid) y
$$;
COMMENT ON FUNCTION scd2_internal.lock_feed(scd2_internal.feed) IS
    'Locks a feed for a change of its columns, within pg_scd2.lock_timeout.';

-- The capture worker does the same when it meets the first row that has the column.
CREATE FUNCTION scd2_internal.add_missing_columns(f scd2_internal.feed, except_column_list name[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET pg_scd2.own_ddl = on AS $$
DECLARE
    coming record;
BEGIN
    FOR coming IN
        SELECT w.*, t.typcollation FROM scd2_internal.feed_columns(f.source_relid, except_column_list) w JOIN pg_type t ON t.oid = w.type
        WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = f.feed_relid AND a.attname = w.name AND NOT a.attisdropped)
    LOOP
        PERFORM scd2_internal.lock_feed(f);
        EXECUTE format('ALTER TABLE %s ADD COLUMN %I %s', scd2_internal.fixed_name(f.feed_relid), coming.name, scd2_internal.fixed_type(coming.type, coming.typmod)
            || CASE WHEN coming.collation_oid NOT IN (0, coming.typcollation) THEN ' COLLATE ' || scd2_internal.fixed_collation(coming.collation_oid) ELSE '' END);
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.add_missing_columns(scd2_internal.feed, name[]) IS
    'Part of alter_change_feed and of new flows: the feed gets the columns of its source that it lacks.';

CREATE FUNCTION scd2_internal.change_excepted(f scd2_internal.feed, except_column_list name[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET pg_scd2.own_ddl = on AS $$
DECLARE
    leaving name[];
BEGIN
    PERFORM scd2_internal.check_excepted(f.source_relid, except_column_list);
    PERFORM scd2_internal.check_columns(f.source_relid, except_column_list);
    leaving := ARRAY(SELECT a.attname FROM pg_attribute a WHERE a.attrelid = f.feed_relid AND a.attnum > 5 AND NOT a.attisdropped AND a.attname = ANY (except_column_list));
    PERFORM scd2_internal.check_no_flow(f, format('cannot leave out column %s', array_to_string(leaving, ', ')), leaving);
    PERFORM scd2_internal.lock_feed(f);
    PERFORM scd2_internal.check_columns_captured(f.feed_id);
    FOR i IN 1 .. cardinality(leaving) LOOP
        EXECUTE format('ALTER TABLE %s DROP COLUMN %I', scd2_internal.fixed_name(f.feed_relid), leaving[i]);
    END LOOP;
    PERFORM scd2_internal.add_missing_columns(f, except_column_list);
    UPDATE scd2_internal.feed x SET except_columns = except_column_list WHERE x.feed_id = f.feed_id;
    INSERT INTO scd2_internal.control (kind, feed_id, source_relid, detail) VALUES ('columns', f.feed_id, scd2_internal.leaf_with_rows(f.source_relid), except_column_list::text);
END $$;
COMMENT ON FUNCTION scd2_internal.change_excepted(scd2_internal.feed, name[]) IS
    'Makes a feed''s columns be the source''s without those excepted. Errors: 42703, 42701 wrong list, 55000 a flow copies a column that leaves, or a new name of a column is not captured yet, 55P03 the feed could not be locked.';

CREATE FUNCTION scd2.alter_change_feed(source regclass, retention interval DEFAULT NULL, except_column_list name[] DEFAULT NULL) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
CREATE FUNCTION scd2_internal.alter_change_feed(caller oid, source regclass, retention interval, except_column_list name[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed;
BEGIN
    PERFORM scd2_internal.check_owner(caller, source);
    f := scd2_internal.require_feed_of(source);
    PERFORM scd2_internal.check_span('retention', retention);
    IF except_column_list IS NOT NULL THEN
        PERFORM scd2_internal.check_owner(caller, f.feed_relid);
        PERFORM scd2_internal.change_excepted(f, except_column_list);
    END IF;
    UPDATE scd2_internal.feed x SET retention = coalesce(alter_change_feed.retention, x.retention) WHERE x.feed_id = f.feed_id;
END $$;
COMMENT ON FUNCTION scd2.alter_change_feed(regclass, interval, name[]) IS
    'Changes a feed; NULL leaves a setting as it is. source: a table that you own; retention: how long rows are kept; except_column_list: the columns that are not stored from now on: '
    'what the feed has of them is dropped, and a column that is no longer excepted begins with NULLs. '
    'Errors: 42501 not the owner, 55000 no feed or a flow copies such a column, 22023 negative retention, 42703, 42701 wrong columns, 55P03 a lock was not to be had.';

-- pg_scd2.enable_change_feed_on_create. Runs as the user who creates the table, and must not make that fail: what
-- goes wrong is a WARNING. A restore brings its feeds along, or meant to have none: dumps switch check_function_bodies
-- off, nobody else does.
CREATE FUNCTION scd2_internal.on_create_table() RETURNS event_trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    created oid;
    state text;
    message text;
    hint text;
BEGIN
    IF coalesce(current_setting('pg_scd2.enable_change_feed_on_create', true), 'off') <> 'on'
        OR current_setting('check_function_bodies') = 'off' THEN
        RETURN;
    END IF;
    FOR created IN
        SELECT c.oid FROM pg_event_trigger_ddl_commands() d JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
        WHERE d.object_type = 'table' AND NOT d.in_extension AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition
    LOOP
        BEGIN
            PERFORM scd2.enable_change_feed(created);
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
            CONTINUE WHEN state = '42710';
            RAISE WARNING 'table % has no change data feed: %', created::regclass, message
                USING HINT = coalesce(nullif(hint, ''), format('SELECT scd2.enable_change_feed(%L);', created::regclass));
        END;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.on_create_table() IS
    'Enables the feed of a table that was just created, if pg_scd2.enable_change_feed_on_create is on. Not for temporary and unlogged tables, partitions (their root has the feed) and tables of extensions.';

CREATE EVENT TRIGGER scd2_on_create_table ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'CREATE SCHEMA')
    EXECUTE FUNCTION scd2_internal.on_create_table();
ALTER EVENT TRIGGER scd2_on_create_table ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER scd2_on_create_table IS 'pg_scd2.enable_change_feed_on_create';

-- A publication made or changed later could break the application's writes as one that was there before could: it
-- is refused too, and is warned of where it would carry feeds along.
CREATE FUNCTION scd2_internal.on_publication() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT x.source_relid, x.feed_relid FROM scd2_internal.feed x JOIN pg_class c ON c.oid = x.source_relid WHERE NOT x.disabled LOOP
        PERFORM scd2_internal.refuse('55000', format('publication "%s" would make updates and deletes of table "%s" fail: %s', b.publication, scd2_internal.label(l), b.reason),
            'The table has a change data feed and hence REPLICA IDENTITY FULL.', format('SELECT scd2.disable_change_feed(%L); -- or publish the whole table', f.source_relid::regclass))
        FROM scd2_internal.leaves(f.source_relid) l, scd2_internal.breaking_publication(l) b WHERE b.publication IS NOT NULL;
    END LOOP;
    IF tg_tag = 'CREATE PUBLICATION' THEN
        FOR f IN
            SELECT x.publication, x.kind, string_agg(format('"%s"', scd2_internal.label(c.oid)), ', ' ORDER BY c.oid) AS feeds
            FROM pg_event_trigger_ddl_commands() d JOIN pg_publication p ON d.classid = 'pg_publication'::regclass AND p.oid = d.objid,
                 scd2_internal.feed fd JOIN pg_class c ON c.oid = fd.feed_relid AND NOT fd.disabled, scd2_internal.catch_all_publications(c.relnamespace) x
            WHERE x.publication = p.pubname GROUP BY x.publication, x.kind
        LOOP
            RAISE WARNING 'publication "%" (%) sends change data feeds to its subscribers too', f.publication, f.kind
                USING DETAIL = format('A subscriber that has no such table stops with an error at its first row: %s.', f.feeds);
        END LOOP;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.on_publication() IS 'Refuses publications that would make the application''s writes to captured tables fail. Errors: 55000, naming publication and table.';

CREATE EVENT TRIGGER scd2_on_publication ON ddl_command_end WHEN TAG IN ('CREATE PUBLICATION', 'ALTER PUBLICATION')
    EXECUTE FUNCTION scd2_internal.on_publication();
ALTER EVENT TRIGGER scd2_on_publication ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER scd2_on_publication IS 'Publications that would make the application''s writes to captured tables fail';
