-- 32_feed_partitions.sql: what DDL on the partitions of a captured table does to its feed (called by the hook of
-- src/feed/partitions.c).

CREATE FUNCTION scd2_internal.partition_event(parent oid, leaf oid, what text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    captured integer;
BEGIN
    SELECT f.feed_id INTO captured
    FROM scd2_internal.feed f
    WHERE NOT f.disabled AND f.source_relid IN (SELECT a.relid FROM pg_partition_ancestors(parent) a);
    IF captured IS NULL THEN
        RETURN;
    END IF;
    IF what IN ('create', 'attach') THEN
        PERFORM scd2_internal.set_leaf_identities(parent);
    END IF;
    IF what = 'create' THEN
        RETURN;
    END IF;
    IF what IN ('detach', 'drop') THEN
        -- The statement will take these locks itself, in this order; now nobody can add a row before it does.
        EXECUTE format('LOCK TABLE ONLY %s, %s IN ACCESS EXCLUSIVE MODE', parent::regclass, leaf::regclass);
    END IF;
    IF NOT scd2_internal.has_rows(leaf) THEN
        RETURN;
    END IF;
    INSERT INTO scd2_internal.control (kind, feed_id, detail)
    VALUES ('gap', captured, format('partition %s was changed by %s: its rows came or went without a trace in the log', leaf::regclass, upper(what)));
    RAISE WARNING 'the change feed of % has a gap from here on: % of partition % leaves no trace in the log',
        (SELECT f.source_relid::regclass FROM scd2_internal.feed f WHERE f.feed_id = captured), upper(what), leaf::regclass;
END $$;
COMMENT ON FUNCTION scd2_internal.partition_event(oid, oid, text) IS
    'Follows the DDL of one partition: new leaves get REPLICA IDENTITY FULL; rows that come or go with ATTACH, DETACH or DROP become a declared gap.';
