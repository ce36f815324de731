-- 32_feed_leaves.sql: cutting the last partition of a feed (when: src/feed/upkeep.c).
--
-- A feed is partitioned by version. New rows go into its last partition, [n, MAXVALUE). A cut at version b makes
-- that [n, b) and adds [b, MAXVALUE), so that what is old can be dropped as whole partitions.
--
-- b is the version after the last one captured. Under an ACCESS EXCLUSIVE lock on the feed no row is on its way
-- into it: those that are there have smaller versions, those that come later greater ones, and no batch has both.
-- Readers that come later see both partitions; those that have the feed open keep us out. (To attach a partition, a
-- weaker lock is enough for the server, but a transaction that has read the feed before may go on with the
-- partitions that it knows, and miss the rows of the new one.)
--
-- Nothing takes long under that lock. That no row has version b or a greater one (the owner can have written some)
-- shows in the BRIN index: only pages that it cannot exclude are read. Therefore the constraint that saves ATTACH a
-- scan of the whole partition is added as a valid one, without a scan of its own.
--
-- The lock is tried once, for 100 ms, and not at all while somebody has the feed for longer than that already. So
-- nobody queues behind a cut that waits for a long transaction; it is put off.
--
-- Attaching and detaching run what the owner hung on the feed (checks and index expressions are simplified), so the
-- owner does it. The new partition is made bare; all that hangs on the feed comes to it then.
--
-- All of it is one transaction: a crash leaves the feed as it was, or cut.

CREATE FUNCTION scd2_internal.last_leaf(feed oid, OUT leaf oid, OUT first_version bigint)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.oid, substring(b.bound FROM E'FROM \\(''?(\\d+)''?\\)')::bigint
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid, pg_get_expr(c.relpartbound, 0) b (bound)
    WHERE i.inhparent = feed AND c.relkind = 'r' AND b.bound LIKE '% TO (MAXVALUE)'
$$;
COMMENT ON FUNCTION scd2_internal.last_leaf(oid) IS
    'The partition of a feed that takes new versions, and the first version that it can have, NULL: no bound. Locks nothing.';

CREATE FUNCTION scd2_internal.in_use_for(relations oid[], milliseconds bigint) RETURNS boolean
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
                   WHERE l.locktype = 'relation' AND l.relation = ANY (relations) AND l.pid IS DISTINCT FROM pg_backend_pid()
                     AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                     AND (l.pid IS NULL OR a.xact_start < clock_timestamp() - make_interval(secs => milliseconds / 1000.0)))
$$;
COMMENT ON FUNCTION scd2_internal.in_use_for(oid[], bigint) IS
    'Whether a transaction that has run for so long, or a prepared one, has locks on one of these tables or waits for one.';

CREATE FUNCTION scd2_internal.in_long_use(relations oid[]) RETURNS boolean
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.in_use_for(relations, 100)
$$;
COMMENT ON FUNCTION scd2_internal.in_long_use(oid[]) IS
    'Whether a transaction that has run for more than 100 ms, or a prepared one, has locks on one of these tables or waits for one.';

CREATE FUNCTION scd2_internal.has_brin_index(leaf oid) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_am a ON a.oid = i.relam
                   WHERE x.indrelid = leaf AND x.indisvalid AND x.indpred IS NULL AND a.amname = 'brin'
                     AND scd2_internal.column_number(leaf, '_commit_version') = ANY (x.indkey))
$$;
COMMENT ON FUNCTION scd2_internal.has_brin_index(oid) IS 'Whether the range of a partition can be proved without reading it.';

CREATE FUNCTION scd2_internal.add_proven_check(leaf oid, first_version bigint, bound bigint) RETURNS name
    AS 'MODULE_PATHNAME', 'scd2_add_proven_check' LANGUAGE C;
COMMENT ON FUNCTION scd2_internal.add_proven_check(oid, bigint, bigint) IS
    'Adds CHECK (_commit_version >= first_version AND _commit_version < bound), the first part not with NULL, as a valid constraint without looking at the rows: for who has looked. Returns its name.';

CREATE FUNCTION scd2_internal.checks_of_feed(feed oid, leaf text) RETURNS text[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(format('ALTER TABLE ONLY %s ADD CONSTRAINT %I %s', leaf, c.conname, pg_get_constraintdef(c.oid)) ORDER BY c.oid), '{}')
    FROM pg_constraint c WHERE c.conrelid = feed AND c.contype = 'c' AND NOT c.connoinherit
$$;
COMMENT ON FUNCTION scd2_internal.checks_of_feed(oid, text) IS
    'Statements that give a table the checks of a feed, which it must have to become a partition.';

-- A partition like the last one, behind it.
CREATE FUNCTION scd2_internal.add_leaf(feed oid, like_leaf oid, first_version bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET pg_scd2.own_ddl = on SET pg_scd2.enable_change_feed_on_create = off SET client_min_messages = warning AS $$
DECLARE
    own record;
    options text;
    leaf text;
BEGIN
    SELECT c.relname, c.relowner, c.relnamespace INTO own FROM pg_class c WHERE c.oid = feed;
    SELECT coalesce(' WITH (' || string_agg(format('%I = %L', o.option_name, o.option_value), ', ') || ')', '')
    INTO options FROM pg_class c, pg_options_to_table(c.reloptions) o WHERE c.oid = like_leaf;
    options := options || coalesce((SELECT format(' TABLESPACE %I', t.spcname) FROM pg_class c JOIN pg_tablespace t ON t.oid = c.reltablespace WHERE c.oid = like_leaf), '');
    leaf := format('%s.%I', scd2_internal.fixed_schema(own.relnamespace), scd2_internal.leaf_name(own.relnamespace, own.relname, 'p' || first_version));
    EXECUTE format('CREATE TABLE %s (LIKE %s INCLUDING GENERATED INCLUDING STORAGE INCLUDING COMPRESSION) USING heap', leaf, scd2_internal.fixed_name(feed)) || options;
    PERFORM scd2_internal.guard_feed(leaf::regclass);
    PERFORM scd2_internal.own_alone(leaf::regclass, own.relowner);
    PERFORM scd2_internal.alter_as_owner(feed, scd2_internal.checks_of_feed(feed, leaf)
        || format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%s) TO (MAXVALUE)', scd2_internal.fixed_name(feed), leaf, first_version));
END $$;
COMMENT ON FUNCTION scd2_internal.add_leaf(oid, oid, bigint) IS
    'Adds [first_version, MAXVALUE) to a feed that has no such partition: owned, guarded and stored like like_leaf, readable through the feed only.';

CREATE FUNCTION scd2_internal.cut_locked_feed(feed oid) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET pg_scd2.own_ddl = on SET enable_seqscan = off AS $$
DECLARE
    last record := scd2_internal.last_leaf(feed);
    bound bigint;
    proof name;
BEGIN
    -- (One statement: a backlog begins with a version above the position's.)
    SELECT p.version + 1 INTO bound FROM scd2_internal.position p
    WHERE NOT EXISTS (SELECT FROM scd2_internal.feed_backlog b JOIN scd2_internal.feed f USING (feed_id) WHERE f.feed_relid = feed);
    IF bound IS NULL OR bound <= last.first_version OR NOT scd2_internal.has_rows(last.leaf) THEN
        RETURN NULL;
    END IF;
    IF NOT scd2_internal.has_brin_index(last.leaf) THEN
        RETURN NULL;
    END IF;
    IF scd2_internal.as_owner(last.leaf, format('SELECT true FROM ONLY %s WHERE _commit_version >= $1 LIMIT 1', last.leaf::regclass), bound) THEN
        PERFORM scd2_internal.refuse('55000', format('partition "%s" of change data feed "%s" has rows of versions that are yet to come', scd2_internal.label(last.leaf), scd2_internal.label(feed)),
            format('The latest version is %s. Rows like these are not written by capture.', bound - 1),
            format('BEGIN; SET LOCAL pg_scd2.allow_target_writes = on; DELETE FROM %s WHERE _commit_version >= %s; COMMIT;', last.leaf::regclass, bound));
    END IF;
    proof := scd2_internal.add_proven_check(last.leaf, last.first_version, bound);
    PERFORM scd2_internal.alter_as_owner(feed, ARRAY[
        format('ALTER TABLE %s DETACH PARTITION %s', scd2_internal.fixed_name(feed), scd2_internal.fixed_name(last.leaf)),
        format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%s) TO (%s)', scd2_internal.fixed_name(feed), scd2_internal.fixed_name(last.leaf), coalesce(last.first_version::text, 'MINVALUE'), bound),
        format('ALTER TABLE ONLY %s DROP CONSTRAINT %I', scd2_internal.fixed_name(last.leaf), proof)]);
    PERFORM scd2_internal.add_leaf(feed, last.leaf, bound);
    RETURN bound;
END $$;
COMMENT ON FUNCTION scd2_internal.cut_locked_feed(oid) IS
    'Ends the last partition of a feed and begins another, for versions from the returned one on. NULL, and nothing done: it has no rows, no BRIN index to prove its range with, or changes that wait to be written. '
    'The caller has locked both against everybody. Errors: 55000 the owner has written rows of versions that are yet to come.';

CREATE FUNCTION scd2_internal.cut_feed(feed oid) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    last record := scd2_internal.last_leaf(feed);
BEGIN
    IF last.leaf IS NULL OR NOT scd2_internal.has_brin_index(last.leaf)
       OR scd2_internal.in_long_use(ARRAY[feed, last.leaf])
       OR NOT scd2_internal.try_lock(ARRAY[feed, last.leaf], ARRAY['ACCESS EXCLUSIVE', 'ACCESS EXCLUSIVE'])
       OR last IS DISTINCT FROM scd2_internal.last_leaf(feed) THEN
        RETURN NULL;
    END IF;
    RETURN scd2_internal.cut_locked_feed(feed);
END $$;
COMMENT ON FUNCTION scd2_internal.cut_feed(oid) IS
    'Ends the last partition of a feed and begins another, for versions from the returned one on. NULL, and nothing done: it has no rows, no BRIN index to prove its range with, or is in use. '
    'Errors: 55000 the owner has written rows of versions that are yet to come.';
