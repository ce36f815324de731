-- 32_feed_partitions.sql: what DDL on the partitions of a captured table does to its feed (called by the hook of
-- src/feed/partitions.c).
--
-- Rows that come with a partition are inserts, those that go with one are deletes, in their place in the transaction.
-- They are read and written while the statement has the partition locked; where that would take long
-- (pg_scd2.max_partition_copy), or where something goes wrong, the feed has a gap instead, with a WARNING.

CREATE FUNCTION scd2_internal.stage_rows(feed integer, leaf oid, arrives boolean) RETURNS bigint
    AS 'MODULE_PATHNAME', 'scd2_stage_rows' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.stage_rows(integer, oid, boolean) IS
    'Puts the rows of a table into the log, for capture to take them for inserts into the source of the feed, or deletes. The caller has locked the table against everybody. Returns how many';

-- Leaves and what is between.
CREATE FUNCTION scd2_internal.partition_tree(relation oid) RETURNS SETOF oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT relation UNION SELECT t.relid FROM pg_partition_tree(relation) t
$$;
COMMENT ON FUNCTION scd2_internal.partition_tree(oid) IS 'A table and all partitions below it';

-- Feeds that capture writes into.
CREATE FUNCTION scd2_internal.feeds_above(relation oid) RETURNS SETOF scd2_internal.feed
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT f.* FROM scd2_internal.feed f LEFT JOIN scd2_internal.feed_state s USING (feed_id)
    WHERE NOT f.disabled AND s.state IS DISTINCT FROM 'failed'
      AND (f.source_relid = relation OR f.source_relid IN (SELECT a.relid FROM pg_partition_ancestors(relation) a))
$$;
COMMENT ON FUNCTION scd2_internal.feeds_above(oid) IS
    'The running feed of a table or of a partitioned one above it';

CREATE FUNCTION scd2_internal.is_small(leaf oid) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT bound = '-1' OR pg_table_size(leaf) <= pg_size_bytes(bound) FROM current_setting('pg_scd2.max_partition_copy') AS bound
$$;
COMMENT ON FUNCTION scd2_internal.is_small(oid) IS 'Whether the rows of a partition are recorded when it comes or goes';

CREATE FUNCTION scd2_internal.move_rows(f scd2_internal.feed, leaf oid, what text, arrives boolean, trouble text)
    RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    unfit CONSTANT text := (SELECT k.reason FROM scd2_internal.unfit_kind(leaf) k);
BEGIN
    IF unfit IS NOT NULL AND (arrives OR what = 'CREATE') THEN
        PERFORM scd2_internal.declare_gap(f, format('partition %s cannot be captured: %s', leaf::regclass, rtrim(unfit, '.')),
            'SELECT * FROM scd2.diagnose();');
    ELSIF what = 'CREATE' OR NOT scd2_internal.has_rows(leaf) THEN
        RETURN;
    ELSIF trouble IS NOT NULL OR unfit IS NOT NULL OR NOT scd2_internal.is_small(leaf) THEN
        PERFORM scd2_internal.declare_gap(f,
            format('%s of partition %s: its rows are not recorded, %s', what, leaf::regclass,
                   coalesce(trouble, unfit, format('it is larger than pg_scd2.max_partition_copy (%s)',
                       current_setting('pg_scd2.max_partition_copy')))), 'SELECT * FROM scd2.diagnose();');
    ELSE
        PERFORM scd2_internal.stage_rows(f.feed_id, leaf, arrives);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.move_rows(scd2_internal.feed, oid, text, boolean, text) IS
    'Records the rows of one partition that comes or goes, or declares the gap that they are';

CREATE FUNCTION scd2_internal.partition_came(parent oid, partition oid, what text, trouble text) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.set_leaf_identities(parent);
    SELECT scd2_internal.move_rows(f, l, what, what = 'ATTACH', trouble)
    FROM scd2_internal.feeds_above(parent) f, scd2_internal.leaves(partition) l ORDER BY l;
$$;
COMMENT ON FUNCTION scd2_internal.partition_came(oid, oid, text, text) IS
    'New leaves have REPLICA IDENTITY FULL; their rows are inserts';

-- It is nobody's partition any more, and locked.
CREATE FUNCTION scd2_internal.partition_was_detached(parent oid, partition oid, trouble text) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.move_rows(f, l, 'DETACH', false, trouble)
    FROM scd2_internal.feeds_above(parent) f, scd2_internal.leaves(partition) l ORDER BY l;
    SELECT scd2_internal.give_back_identity(i.leaf_relid, i.identity, i.index_name)
    FROM scd2_internal.feeds_above(parent) f JOIN scd2_internal.found_identity i USING (feed_id)
    WHERE i.leaf_relid IN (SELECT l FROM scd2_internal.leaves(partition) l);
    DELETE FROM scd2_internal.found_identity i USING scd2_internal.feeds_above(parent) f
    WHERE i.feed_id = f.feed_id AND i.leaf_relid IN (SELECT l FROM scd2_internal.leaves(partition) l);
$$;
COMMENT ON FUNCTION scd2_internal.partition_was_detached(oid, oid, text) IS
    'The rows of a partition that was detached are deletes; its leaves get the replica identity that was found';

-- Before the statement: it may still be refused.
CREATE FUNCTION scd2_internal.may_take_rows(caller oid, relation oid, what text) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE what WHEN 'TRUNCATE' THEN has_table_privilege(caller, relation, 'TRUNCATE')
                ELSE pg_has_role(caller, c.relowner, 'USAGE') OR pg_has_role(caller, n.nspowner, 'USAGE') END
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation
$$;
COMMENT ON FUNCTION scd2_internal.may_take_rows(oid, oid, text) IS 'Whether a role may drop or truncate a table';

-- The locks are those that the statement takes, in its order.
CREATE FUNCTION scd2_internal.lock_leaving(partition oid, what text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    relation oid;
BEGIN
    FOR relation IN
        SELECT i.inhparent FROM pg_inherits i WHERE i.inhrelid = partition AND what = 'DROP'
        UNION ALL SELECT t FROM scd2_internal.partition_tree(partition) t
    LOOP
        PERFORM scd2_internal.lock_relation(relation, 'ACCESS EXCLUSIVE');
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.lock_leaving(oid, text) IS 'Locks a partition, and all below it, that is dropped or truncated';

CREATE FUNCTION scd2_internal.partition_goes(caller oid, partition oid, what text, named oid[], trouble text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed;
    relation oid;
BEGIN
    -- Where the captured table itself goes, all of it does.
    SELECT x.* INTO f FROM scd2_internal.feeds_above(partition) x
        WHERE x.source_relid <> partition AND x.source_relid <> ALL (named)
          AND NOT EXISTS (SELECT FROM pg_partition_ancestors(partition) a WHERE a.relid <> partition AND a.relid = ANY (named));
    IF NOT FOUND OR NOT scd2_internal.may_take_rows(caller, partition, what) THEN
        RETURN;
    END IF;
    PERFORM scd2_internal.lock_leaving(partition, what);
    FOR relation IN SELECT t FROM scd2_internal.partition_tree(partition) t ORDER BY t LOOP
        IF (SELECT c.relkind <> 'p' FROM pg_class c WHERE c.oid = relation) THEN
            PERFORM scd2_internal.move_rows(f, relation, what, false, trouble);
        END IF;
        IF what = 'TRUNCATE' THEN
            INSERT INTO scd2_internal.control (kind, feed_id, source_relid) VALUES ('partition emptied', f.feed_id, relation);
        ELSE
            DELETE FROM scd2_internal.found_identity i WHERE i.feed_id = f.feed_id AND i.leaf_relid = relation;
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.partition_goes(oid, oid, text, oid[], text) IS
    'The rows of a partition that is about to be dropped or truncated are deletes';

CREATE FUNCTION scd2_internal.partition_event(caller oid, what text, parent oid, partitions oid[], trouble text)
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = on AS $$
BEGIN
    IF what IN ('CREATE', 'ATTACH') THEN
        PERFORM scd2_internal.partition_came(parent, partitions[1], what, trouble);
    ELSIF what = 'DETACH' THEN
        PERFORM scd2_internal.partition_was_detached(parent, partitions[1], trouble);
    ELSE
        PERFORM scd2_internal.partition_goes(caller, p, what, partitions, trouble)
            FROM (SELECT DISTINCT u AS p FROM unnest(partitions) u) d ORDER BY p;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.partition_event(oid, text, oid, oid[], text) IS
    'Follows DDL of partitions: new leaves get REPLICA IDENTITY FULL; rows that come or go with one become changes. '
    'trouble: why they cannot, then they are a declared gap';
