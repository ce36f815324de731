-- 38_feed_follows_source.sql: what the owner of a table decides about its rows holds for what is made from them.
--
-- Feeds, targets and memories are their owner's alone (own_alone()), until he grants. Policies of the source are not
-- evaluated on them: they speak of rows as they are, not as they were. So where the source has row level security,
-- the tables made from it have it too, without a policy: a grant alone shows nothing, and who shall read them needs a
-- policy on them. That follows when row level security comes to the source later. It stays when it goes there:
-- to open a table is its owner's decision.
--
-- While a dump is being restored its jobs must not wait for each other's locks here, and fail: then resume_capture()
-- makes up for it.
--
-- A new owner of the source gets feed and targets too: 51_follow_relations.sql.

CREATE FUNCTION scd2_internal.close_rows(relation oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (SELECT NOT c.relrowsecurity FROM pg_class c WHERE c.oid = relation) THEN
        PERFORM scd2_internal.lock_tables(ARRAY[relation], ARRAY['ACCESS EXCLUSIVE']);
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', scd2_internal.fixed_name(relation));
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.close_rows(oid) IS
    'Row level security for a table, if it has none. Errors: 55P03 a lock was not to be had.';

CREATE FUNCTION scd2_internal.close_rows_as(source oid, relation oid) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.close_rows(relation) FROM pg_class c WHERE c.oid = source AND c.relrowsecurity
$$;
COMMENT ON FUNCTION scd2_internal.close_rows_as(oid, oid) IS
    'Row level security for a table that is made from a source that has it.';

CREATE FUNCTION scd2_internal.made_from(source oid) RETURNS SETOF oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.oid FROM pg_class c
    WHERE c.oid IN (SELECT f.feed_relid FROM scd2_internal.feed f WHERE f.source_relid = source
                    UNION SELECT unnest(ARRAY[w.target_relid, w.memory_relid]) FROM scd2_internal.flow w WHERE w.source_relid = source)
    ORDER BY c.oid
$$;
COMMENT ON FUNCTION scd2_internal.made_from(oid) IS 'Feed, targets and memories that have rows of a table.';

CREATE FUNCTION scd2_internal.close_all_rows() RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.close_rows_as(s.oid, m)
    FROM (SELECT f.source_relid::oid AS oid FROM scd2_internal.feed f UNION SELECT w.source_relid::oid FROM scd2_internal.flow w) s,
         scd2_internal.made_from(s.oid) m
$$;
COMMENT ON FUNCTION scd2_internal.close_all_rows() IS
    'Row level security for all that is made from sources that have it. Errors: 55P03 a lock was not to be had.';

CREATE FUNCTION scd2_internal.on_row_security() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    closed oid;
BEGIN
    IF scd2_internal.awaits_resume() THEN
        RETURN;
    END IF;
    FOR closed IN
        SELECT DISTINCT m FROM pg_event_trigger_ddl_commands() d
            JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relrowsecurity,
            scd2_internal.made_from(c.oid) m JOIN pg_class t ON t.oid = m AND NOT t.relrowsecurity ORDER BY m
    LOOP
        PERFORM scd2_internal.close_rows(closed);
        RAISE WARNING 'table "%" has row level security now, as its source has', scd2_internal.label(closed)
            USING DETAIL = 'It has rows that the policies of the source may hide; its owner sees them all, others none.',
                  HINT = format('CREATE POLICY readers ON %s TO some_role USING (true); -- for who shall read it', closed::regclass);
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.on_row_security() IS
    'Row level security comes to what is made from a table when it comes to the table, with a WARNING. Errors: 55P03.';

CREATE EVENT TRIGGER scd2_on_row_security ON ddl_command_end WHEN TAG IN ('ALTER TABLE')
    EXECUTE FUNCTION scd2_internal.on_row_security();
ALTER EVENT TRIGGER scd2_on_row_security ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER scd2_on_row_security IS 'Row level security of captured tables';
