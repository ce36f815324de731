-- 36_feed_retention.sql: removing what is old from feeds (when: src/feed/upkeep.c; how readers are kept safe:
-- src/feed/retention.c).
--
-- Whole partitions go, the oldest first: no dead rows, nothing to vacuum. One is removed when its last change is
-- older than the feed's retention and everybody has passed that change: each flow over the feed (one that is paused
-- or has failed too; one that copies needs what came after its beginning) and each reader. So the first that is not
-- to go ends it.
--
-- earliest_version moves in the transaction that drops the partition; a crash leaves both or neither. Looked at
-- first without a lock, then again under ACCESS EXCLUSIVE on the feed and its old partitions: whoever relies on
-- what the feed has holds it (hold_feed), and is seen as flow or reader once his transaction has ended.
--
-- The worker tries that lock once, for 100 ms, and not at all while somebody has had the feed open for longer than
-- that: it is put off, and nobody queues behind it. Who calls vacuum_feed() waits for pg_scd2.lock_timeout in
-- total.

CREATE FUNCTION scd2_internal.hold_feed(feed_id integer, feed oid, OUT earliest_version bigint, OUT earliest_state bigint, OUT removed_until timestamptz, OUT removed_at timestamptz)
    AS 'MODULE_PATHNAME', 'scd2_hold_feed' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.hold_feed(integer, oid) IS
    'Keeps what a feed has from being removed until the transaction ends (ACCESS SHARE), and tells how far back that reaches, whatever the transaction''s snapshot: the first version whose changes it has, and the first after which the source''s rows are known. NULLs: capture has not reached the feed yet.';

CREATE FUNCTION scd2_internal.newest_change(leaf oid, cutoff timestamptz, ended boolean, OUT looked boolean, OUT version bigint, OUT at timestamptz)
    AS 'MODULE_PATHNAME', 'scd2_newest_change' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.newest_change(oid, timestamptz, boolean) IS
    'Greatest version and commit time in a partition of a feed, however its rows lie, NULLs if it has none; if a row is younger than "cutoff", those of some such. ended: it gets no more rows. looked: false if it is locked, or no such partition; nobody is waited for.';

-- A flow whose beginning capture has not met yet needs nothing that is captured already, unless it is to begin earlier.
CREATE VIEW scd2_internal.feed_holder AS
    SELECT w.feed_id, format('flow "%s" at version %s', w.name, h.version) AS who, h.version
    FROM scd2_internal.flow w LEFT JOIN scd2_internal.flow_state s USING (flow_id),
         LATERAL (SELECT CASE WHEN coalesce(s.failed_phase, s.phase, 'copy') = 'copy' THEN least(s.watermark_version, s.begin_version, w.starting_version)
                              ELSE s.watermark_version END AS version) h
    WHERE w.feed_id IS NOT NULL AND s.phase IS DISTINCT FROM 'done' AND h.version IS NOT NULL
    UNION ALL
    SELECT r.feed_id, format('reader "%s" at version %s', r.name, r.version), r.version FROM scd2_internal.reader r WHERE r.expired_at IS NULL;
COMMENT ON VIEW scd2_internal.feed_holder IS 'Who needs the changes of a feed after which version';

CREATE FUNCTION scd2_internal.holder_of(id integer, upto bigint) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT h.who FROM scd2_internal.feed_holder h WHERE h.feed_id = id AND (h.version < upto OR upto IS NULL) ORDER BY h.version, h.who LIMIT 1
$$;
COMMENT ON FUNCTION scd2_internal.holder_of(integer, bigint) IS
    'Who is furthest behind in a feed, of those that have not passed version "upto" (NULL: of all); NULL: nobody.';

CREATE FUNCTION scd2_internal.feed_leaves(feed oid) RETURNS TABLE (leaf oid, first_version bigint, last_version bigint)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.oid, substring(b.bound FROM E'FROM \\(''?(-?\\d+)''?\\)')::bigint, substring(b.bound FROM E'TO \\(''?(-?\\d+)''?\\)')::bigint - 1
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid, pg_get_expr(c.relpartbound, 0) b (bound)
    WHERE i.inhparent = feed AND c.relkind = 'r' AND b.bound LIKE 'FOR VALUES FROM %'
    ORDER BY 3 NULLS LAST
$$;
COMMENT ON FUNCTION scd2_internal.feed_leaves(oid) IS
    'The partitions of a feed, oldest first; first_version NULL: no lower bound; last_version NULL: it takes new versions. Locks nothing.';

-- Volatile: it sees what is committed now.
CREATE FUNCTION scd2_internal.old_leaves(f scd2_internal.feed, cutoff timestamptz, ended_only boolean DEFAULT false)
    RETURNS TABLE (leaf oid, first_version bigint, last_version bigint, ended timestamptz, held_by text)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l record;
    r record;
BEGIN
    FOR l IN SELECT x.* FROM scd2_internal.feed_leaves(f.feed_relid) x LOOP
        EXIT WHEN ended_only AND l.last_version IS NULL;
        SELECT x.* INTO r FROM scd2_internal.newest_change(l.leaf, cutoff, l.last_version IS NOT NULL) x;
        EXIT WHEN NOT r.looked OR r.at > cutoff OR r.version IS NULL AND l.last_version IS NULL;
        leaf := l.leaf;
        first_version := l.first_version;
        last_version := l.last_version;
        ended := r.at;
        held_by := coalesce(held_by, scd2_internal.holder_of(f.feed_id, r.version));
        RETURN NEXT;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.old_leaves(scd2_internal.feed, timestamptz, boolean) IS
    'The partitions of a feed, from the oldest on, whose last change (committed at "ended") is not younger than "cutoff", and who keeps each from being removed. last_version NULL: it takes new versions, and would have to be cut first; with ended_only not that one.';

CREATE FUNCTION scd2_internal.cutoff(f scd2_internal.feed, retain interval) RETURNS timestamptz
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN k.retain > '0' THEN clock_timestamp() - k.retain ELSE 'infinity' END
    FROM (SELECT scd2_internal.bounded(coalesce(cutoff.retain, f.retention, current_setting('pg_scd2.feed_retention')::interval)) AS retain) k
$$;
COMMENT ON FUNCTION scd2_internal.cutoff(scd2_internal.feed, interval) IS
    'Changes that were committed until then are old. retain: NULL: the feed''s retention.';

CREATE FUNCTION scd2_internal.remove_leaves(f scd2_internal.feed, cutoff timestamptz) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    gone record;
BEGIN
    SELECT array_agg(o.leaf ORDER BY o.last_version) AS leaves, max(o.last_version) AS upto, max(o.ended) AS ended INTO gone
    FROM scd2_internal.old_leaves(f, cutoff, true) o WHERE o.held_by IS NULL;
    FOR i IN 1 .. coalesce(cardinality(gone.leaves), 0) LOOP
        EXECUTE format('DROP TABLE %s', scd2_internal.fixed_name(gone.leaves[i]));
    END LOOP;
    IF gone.upto IS NULL THEN
        RETURN false;
    END IF;
    INSERT INTO scd2_internal.removal AS r (feed_id, earliest_version, removed_until, removed_at)
    VALUES (f.feed_id, gone.upto + 1, gone.ended, clock_timestamp())
    ON CONFLICT (feed_id) DO UPDATE SET earliest_version = greatest(r.earliest_version, excluded.earliest_version),
        removed_until = greatest(r.removed_until, excluded.removed_until), removed_at = excluded.removed_at;
    RETURN true;
END $$;
COMMENT ON FUNCTION scd2_internal.remove_leaves(scd2_internal.feed, timestamptz) IS
    'Drops the old partitions of a feed that nobody holds. The caller holds ACCESS EXCLUSIVE on the feed and these partitions. Returns whether there was one. Errors: 2BP01 other objects depend on a partition.';

-- Not called for feeds that are disabled: what stays of them is the owner's.
CREATE FUNCTION scd2_internal.retain_feed(id integer) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    f scd2_internal.feed;
    cutoff timestamptz;
    relations oid[];
BEGIN
    SELECT x.* INTO f FROM scd2_internal.feed x WHERE x.feed_id = id AND NOT x.disabled;
    cutoff := scd2_internal.cutoff(f, NULL);
    relations := ARRAY(SELECT o.leaf FROM scd2_internal.old_leaves(f, cutoff, true) o WHERE o.held_by IS NULL);
    IF relations = '{}' THEN
        RETURN false;
    END IF;
    relations := f.feed_relid || relations;
    IF scd2_internal.in_long_use(relations)
       OR NOT scd2_internal.try_lock(relations, array_fill('ACCESS EXCLUSIVE'::text, ARRAY[cardinality(relations)])) THEN
        RETURN NULL;
    END IF;
    RETURN scd2_internal.remove_leaves(f, cutoff);
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN     -- DROP needs more locks: of indexes, of TOAST
    RETURN NULL;
END $$;
COMMENT ON FUNCTION scd2_internal.retain_feed(integer) IS
    'Removes from a feed what its retention no longer keeps and nobody holds. false: nothing; NULL: it is in use, to be tried later.';

CREATE FUNCTION scd2_internal.feeds_to_retain() RETURNS SETOF integer
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT f.feed_id FROM scd2_internal.feed f JOIN scd2_internal.feed_state s USING (feed_id)
    WHERE NOT f.disabled AND EXISTS (SELECT FROM scd2_internal.old_leaves(f, scd2_internal.cutoff(f, NULL), true) o WHERE o.held_by IS NULL)
$$;
COMMENT ON FUNCTION scd2_internal.feeds_to_retain() IS 'The feeds that have something to be removed.';

-- Partitions that have ended are counted before they are locked: they do not change.
CREATE FUNCTION scd2_internal.count_rows(leaf oid) RETURNS bigint
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.as_owner(leaf, format('SELECT count(*) FROM ONLY %s', leaf::regclass), 0)::bigint
$$;
COMMENT ON FUNCTION scd2_internal.count_rows(oid) IS 'How many rows a partition of a feed has.';

-- What is whole in the last partition and old is cut off, so that it can go.
CREATE FUNCTION scd2_internal.lock_and_cut(f scd2_internal.feed, cutoff timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    relations oid[] := f.feed_relid || ARRAY(SELECT o.leaf FROM scd2_internal.old_leaves(f, cutoff) o WHERE o.held_by IS NULL);
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        PERFORM scd2_internal.refuse('25001', 'vacuum_feed cannot run in a transaction whose snapshot is fixed',
            'It must see who needs the feed now.', 'ROLLBACK; BEGIN ISOLATION LEVEL READ COMMITTED;');
    END IF;
    PERFORM scd2_internal.lock_tables(relations, array_fill('ACCESS EXCLUSIVE'::text, ARRAY[cardinality(relations)]));
    IF EXISTS (SELECT FROM scd2_internal.old_leaves(f, cutoff) o WHERE o.held_by IS NULL AND o.last_version IS NULL AND o.leaf = ANY (relations))
       AND scd2_internal.cut_locked_feed(f.feed_relid) IS NULL THEN
        RAISE NOTICE 'the last partition of change data feed "%" cannot be cut: it has no BRIN index', scd2_internal.label(f.feed_relid);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.lock_and_cut(scd2_internal.feed, timestamptz) IS
    'Part of vacuum_feed: locks what can be removed, and cuts the last partition if all of it can. Errors: 55P03 a lock was not to be had, 25001 the transaction''s snapshot is fixed.';

CREATE FUNCTION scd2.vacuum_feed(source regclass, retain interval DEFAULT NULL, dry_run boolean DEFAULT false)
    RETURNS TABLE (first_version bigint, last_version bigint, rows bigint, bytes bigint, held_by text)
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
CREATE FUNCTION scd2_internal.vacuum_feed(caller oid, source regclass, retain interval, dry_run boolean)
    RETURNS TABLE (first_version bigint, last_version bigint, rows bigint, bytes bigint, held_by text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    f scd2_internal.feed := scd2_internal.owned_feed(caller, source);
    cutoff timestamptz;
    counted jsonb;
    o record;
BEGIN
    PERFORM scd2_internal.check_span('retain', retain);
    cutoff := scd2_internal.cutoff(f, retain);
    dry_run := coalesce(dry_run, false);
    counted := (SELECT jsonb_object_agg(x.leaf, scd2_internal.count_rows(x.leaf)) FROM scd2_internal.old_leaves(f, cutoff) x WHERE dry_run OR x.last_version IS NOT NULL);
    IF NOT dry_run AND EXISTS (SELECT FROM scd2_internal.old_leaves(f, cutoff) x WHERE x.held_by IS NULL) THEN
        PERFORM scd2_internal.lock_and_cut(f, cutoff);
    END IF;
    FOR o IN SELECT x.* FROM scd2_internal.old_leaves(f, cutoff) x WHERE dry_run OR x.held_by IS NOT NULL OR x.last_version IS NOT NULL LOOP
        first_version := coalesce(o.first_version, (SELECT s.enabled_version + 1 FROM scd2_internal.feed_state s WHERE s.feed_id = f.feed_id));
        last_version := coalesce(o.last_version, scd2_internal.feed_complete(f.feed_id));
        rows := coalesce((counted ->> o.leaf::text)::bigint, scd2_internal.count_rows(o.leaf));
        bytes := pg_total_relation_size(o.leaf);
        held_by := o.held_by;
        RETURN NEXT;
    END LOOP;
    IF NOT dry_run AND EXISTS (SELECT FROM scd2_internal.old_leaves(f, cutoff, true) x WHERE x.held_by IS NULL) THEN
        PERFORM scd2_internal.remove_leaves(f, cutoff);
    END IF;
END $$;
COMMENT ON FUNCTION scd2.vacuum_feed(regclass, interval, boolean) IS
    'Removes from a feed now what is older than "retain" (NULL: the feed''s retention; 0: everything) and has been passed by all flows and readers; returns a row for each partition that is old enough: its versions, '
    'rows and bytes, and who keeps it from being removed, NULL if it is removed. source: a table that you own; dry_run: nothing is removed. The feed is locked until the transaction ends. '
    'Errors: 42501 not the owner, 55000 no feed, 22023 a negative retain, 55P03 the lock was not to be had, 25001 the transaction''s snapshot is fixed, 2BP01 objects depend on a partition.';
