-- 33_feed_backlog.sql: feeds whose changes wait to be written (src/capture/backlog.c).

CREATE FUNCTION scd2_internal.feed_relations(f scd2_internal.feed) RETURNS oid[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH r (oid) AS (SELECT f.feed_relid::oid UNION ALL SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = f.feed_relid)
    SELECT ARRAY(SELECT r.oid FROM r UNION ALL SELECT x.indexrelid FROM r JOIN pg_index x ON x.indrelid = r.oid)
$$;
COMMENT ON FUNCTION scd2_internal.feed_relations(scd2_internal.feed) IS 'A feed, its partitions and their indexes: what capture locks to write it';

-- A change of columns locks everybody out.
CREATE FUNCTION scd2_internal.feed_lock_needed(feed integer) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE (SELECT e.kind FROM scd2_internal.backlog e WHERE e.feed_id = feed ORDER BY e.n LIMIT 1) WHEN 'l' THEN 'ACCESS EXCLUSIVE' ELSE 'ROW EXCLUSIVE' END
$$;
COMMENT ON FUNCTION scd2_internal.feed_lock_needed(integer) IS 'The lock that what waits of a feed needs to be written';

CREATE FUNCTION scd2_internal.feed_waits_for(f scd2_internal.feed, OUT why text, OUT fix text)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    b scd2_internal.feed_backlog;
    relations oid[];
    holder record;
BEGIN
    SELECT x.* INTO b FROM scd2_internal.feed_backlog x WHERE x.feed_id = f.feed_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    relations := scd2_internal.feed_relations(f);
    SELECT h.who, h.fix INTO holder
    FROM scd2_internal.lock_holder(relations, array_fill(scd2_internal.feed_lock_needed(f.feed_id), ARRAY[cardinality(relations)])) h;
    IF b.error IS NULL AND holder.who IS NULL AND scd2_internal.keeps_feed_locked(f) THEN
        holder.who := 'this transaction holds a lock on it';
        holder.fix := 'COMMIT;';
    END IF;
    why := coalesce(b.error, holder.who, 'they are being written');
    fix := CASE WHEN b.error IS NULL THEN holder.fix ELSE (SELECT u.fix FROM scd2_internal.unfit_on_feed(f.feed_relid) u LIMIT 1) END;
END $$;
COMMENT ON FUNCTION scd2_internal.feed_waits_for(scd2_internal.feed) IS
    'Why changes of a feed wait to be written: whose lock is in the way, or what went wrong; and the statement that ends it, NULL: none is known. NULLs: none wait';

-- Capture does not queue for locks, so the server sees no deadlock with who waits for it.
CREATE FUNCTION scd2_internal.keeps_feed_locked(f scd2_internal.feed) RETURNS boolean
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM scd2_internal.feed_backlog b WHERE b.feed_id = f.feed_id)
       AND EXISTS (SELECT FROM pg_locks l
                   WHERE l.locktype = 'relation' AND l.relation = ANY (scd2_internal.feed_relations(f))
                     AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                     AND CASE WHEN NOT l.granted THEN pg_backend_pid() = ANY (pg_blocking_pids(l.pid))
                              ELSE l.pid = pg_backend_pid()
                                   AND (scd2_internal.feed_lock_needed(f.feed_id) = 'ACCESS EXCLUSIVE'
                                        OR l.mode NOT IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock', 'ShareUpdateExclusiveLock')) END)
$$;
COMMENT ON FUNCTION scd2_internal.keeps_feed_locked(scd2_internal.feed) IS
    'Whether what waits of a feed cannot be written before the transaction of the caller ends: its own lock is in the way, or it keeps somebody waiting whose is';

CREATE FUNCTION scd2_internal.wait_complete(f scd2_internal.feed, version bigint) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    deadline CONSTANT timestamptz := clock_timestamp() + current_setting('pg_scd2.lock_timeout')::interval;
BEGIN
    WHILE scd2_internal.feed_is_behind(f.feed_id, version) LOOP
        IF clock_timestamp() >= deadline OR current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted')
           OR scd2_internal.keeps_feed_locked(f) THEN
            PERFORM scd2_internal.refuse_incomplete(f, scd2_internal.feed_complete(f.feed_id), scd2_internal.keeps_feed_locked(f));
        END IF;
        PERFORM pg_sleep(0.02);
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.wait_complete(scd2_internal.feed, bigint) IS
    'Waits until a feed has everything up to a version, for pg_scd2.lock_timeout at most. Errors: 55000, naming what its changes wait for; 55P03 the caller''s own transaction.';

CREATE FUNCTION scd2_internal.wait_for_feeds(target oid) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2._wait_captured('1 min');
    PERFORM scd2_internal.wait_complete(f, scd2.latest_version())
        FROM scd2_internal.feed f WHERE f.feed_id IN (SELECT w.feed_id FROM scd2_internal.flow w WHERE w.target_relid = target);
END $$;
COMMENT ON FUNCTION scd2_internal.wait_for_feeds(oid) IS
    'Waits until the feeds that a target is made from have everything that was committed before the call. Errors: those of _wait_captured and wait_complete';
