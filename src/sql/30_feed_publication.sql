-- 30_feed_publication.sql: feeds beside the server's own publications.
--
-- REPLICA IDENTITY FULL makes the server refuse the application's UPDATE and DELETE where a publication sends only some
-- of the table's columns. That must never come as a surprise after enabling, so enabling is refused. A publication that
-- takes in tables by itself would send feeds and targets to subscribers that do not have them: that is only warned of,
-- since it breaks nothing here.

-- The publication that would make updates or deletes of a table (a leaf) fail once its identity is FULL, and why; NULLs
-- if there is none.
CREATE FUNCTION scd2_internal.breaking_publication(leaf oid, OUT publication name, OUT reason text, OUT fix text)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT p.pubname, 'it has a column list',
           format('ALTER PUBLICATION %I DROP TABLE %s; ALTER PUBLICATION %1$I ADD TABLE %2$s;', p.pubname,
               r.prrelid::regclass)
    INTO publication, reason, fix
    FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
    WHERE (p.pubupdate OR p.pubdelete) AND r.prattrs IS NOT NULL
      AND (r.prrelid = leaf OR p.pubviaroot AND r.prrelid IN (SELECT a.relid FROM pg_partition_ancestors(leaf) a))
    LIMIT 1;
    IF FOUND OR NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = leaf AND a.attnum > 0 AND NOT a.attisdropped
        AND a.attgenerated <> '')
        OR NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'pg_publication'::regclass
            AND a.attname = 'pubgencols') THEN
        RETURN;
    END IF;
    -- Since PostgreSQL 18 a generated column that is part of the identity must be published: never possible for virtual
    -- ones.
    EXECUTE $query$
        SELECT p.pubname, 'it leaves out generated columns',
               format(CASE WHEN EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = $1 AND a.attnum > 0
                   AND NOT a.attisdropped AND a.attgenerated = 'v')
                           THEN 'ALTER PUBLICATION %I SET (publish = ''insert'');'
                           ELSE 'ALTER PUBLICATION %I SET (publish_generated_columns = stored);' END, p.pubname)
        FROM pg_publication p
        WHERE (p.pubupdate OR p.pubdelete)
          AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
                      AND (a.attgenerated = 'v' OR a.attgenerated = 's' AND p.pubgencols <> 's'))
          AND p.pubname IN (SELECT t.pubname FROM pg_publication_tables t JOIN pg_class c ON c.relname = t.tablename
                            JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = t.schemaname
                            WHERE c.oid = $1 OR c.oid IN (SELECT a.relid FROM pg_partition_ancestors($1) a))
        LIMIT 1 $query$ INTO publication, reason, fix USING leaf;
END $$;
COMMENT ON FUNCTION scd2_internal.breaking_publication(oid) IS
    'A publication that would make updates or deletes of this table fail if its replica identity were FULL, the '
    'reason, and the statements that publish the whole table; NULLs if none does.';

CREATE FUNCTION scd2_internal.check_publications(source oid) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    leaf oid;
    found record;
BEGIN
    FOR leaf IN SELECT c.oid FROM scd2_internal.leaves(source) l JOIN pg_class c ON c.oid = l
        WHERE c.relreplident <> 'f' LOOP
        SELECT b.* INTO found FROM scd2_internal.breaking_publication(leaf) b;
        IF found.publication IS NOT NULL THEN
            PERFORM scd2_internal.refuse('55000',
                format('publication "%s" stands against a change data feed for table "%s": %s', found.publication,
                    scd2_internal.label(source), found.reason),
                'A feed needs REPLICA IDENTITY FULL, and with it the server would refuse updates and deletes of the '
                'table.',
                found.fix);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.check_publications(oid) IS
    'Errors: 55000, naming the publication, if REPLICA IDENTITY FULL on the table would make the application''s '
    'updates or deletes fail.';

-- Publications that take in every new table of a schema.
CREATE FUNCTION scd2_internal.catch_all_publications(schema oid) RETURNS TABLE (publication name, kind text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.pubname, 'FOR ALL TABLES' FROM pg_publication p WHERE p.puballtables
    UNION ALL
    SELECT p.pubname, 'FOR TABLES IN SCHEMA' FROM pg_publication p JOIN pg_publication_namespace n ON n.pnpubid = p.oid
        WHERE n.pnnspid = schema
$$;
COMMENT ON FUNCTION scd2_internal.catch_all_publications(oid) IS
    'Publications that take in each new table of a schema.';

CREATE FUNCTION scd2_internal.warn_of_publications(relation oid) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    p record;
BEGIN
    FOR p IN SELECT x.* FROM pg_class c, scd2_internal.catch_all_publications(c.relnamespace) x
        WHERE c.oid = relation LOOP
        RAISE WARNING 'publication "%" (%) sends "%" to its subscribers too', p.publication, p.kind,
            scd2_internal.label(relation)
            USING DETAIL = 'A subscriber that has no such table stops with an error at its first row.';
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.warn_of_publications(oid) IS
    'WARNING for each publication that carries this new table of ours to subscribers because it takes in all tables.';
