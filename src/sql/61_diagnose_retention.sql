-- 61_diagnose_retention.sql: feeds that are not shortened although nobody needs what is old.
--
-- Asked of the feed itself, not of what a worker has noted: it is told of too where no worker comes by. Within 60 looks
-- of the worker (ten minutes) there is nothing to tell: so long it pauses after a failure.

CREATE FUNCTION scd2_internal.retention_problems()
    RETURNS TABLE (owner oid, source text, problem text, detail text, fix text)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    patience CONSTANT interval := 60 * current_setting('pg_scd2.debug_upkeep_every')::interval;
    f      scd2_internal.feed;
    old    record;
    holder record;
BEGIN
    FOR f IN SELECT x.* FROM scd2_internal.feed x JOIN pg_class c ON c.oid = x.feed_relid WHERE NOT x.disabled LOOP
        SELECT count(*) AS n, array_agg(o.leaf) AS leaves, min(o.ended) AS ended INTO old
        FROM scd2_internal.old_leaves(f, least(scd2_internal.cutoff(f, NULL), clock_timestamp()) - patience) o
        WHERE o.held_by IS NULL AND o.last_version IS NOT NULL;
        CONTINUE WHEN old.n = 0;
        SELECT h.* INTO holder
        FROM scd2_internal.lock_holder(f.feed_relid || old.leaves,
            array_fill('ACCESS EXCLUSIVE'::text, ARRAY[old.n::integer + 1])) h;
        owner := (SELECT c.relowner FROM pg_class c WHERE c.oid = f.feed_relid);
        source := coalesce((SELECT c.oid::regclass::text FROM pg_class c WHERE c.oid = f.source_relid),
            format('%I.%I', f.source_schema, f.source_name));
        problem := 'its change data feed is not shortened, although nobody needs what is older than its retention';
        detail := format('Partitions: %s, with changes since %s or earlier. ', old.n, old.ended)
            || coalesce(format('Table "%s": %s.', scd2_internal.label(holder.relation), holder.who),
                        'The server''s log says why, and so does the statement.');
        fix := coalesce(holder.fix, format('SELECT * FROM scd2.vacuum_feed(%L);', source));
        RETURN NEXT;
    END LOOP;
    RETURN QUERY SELECT c.relowner, c.oid::regclass::text, 'old versions that purge_history() left to a worker are not removed', p.last_error,
            format('SELECT scd2.purge_history(%L, %L); -- begins again', c.oid::regclass, p.before)
        FROM scd2_internal.purge p JOIN pg_class c ON c.oid = p.target_relid WHERE p.last_error IS NOT NULL;
END $$;
COMMENT ON FUNCTION scd2_internal.retention_problems() IS
    'Part of diagnose: feeds with partitions that should have been removed, and targets with versions.';
