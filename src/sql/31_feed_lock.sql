-- 31_feed_lock.sql: locks on users' tables.
--
-- A request for a strong lock that waits makes everybody who comes later wait behind it. So a lock is tried for 100 ms,
-- given up, and tried again after a pause, until pg_scd2.lock_timeout has passed in total. All tables of one call are
-- tried together in one subtransaction, so that between two tries nothing is held.
--
-- A waiter makes the server cancel an autovacuum that is in its way, but only after deadlock_timeout, which no try of
-- ours reaches. So we cancel it, with the same exception: not one that prevents wraparound.
--
-- What is locked here is locked by oid, and keeps its name and that of its schema too (06_fixed.sql), so that DDL of ours
-- meets what was locked.
--
-- Lock levels: SHARE ROW EXCLUSIVE where the replica identity stays as it is, because it waits out every writer whose
-- changes the feed will not contain; ACCESS EXCLUSIVE where ALTER TABLE needs it.

CREATE FUNCTION scd2_internal.try_lock(relations oid[], modes text[]) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    i integer;
BEGIN
    FOR i IN 1 .. cardinality(relations) LOOP
        PERFORM scd2_internal.lock_relation(relations[i], modes[i]);
        PERFORM scd2_internal.fixed_name(relations[i]);
    END LOOP;
    RETURN true;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    RETURN false;
END $$;
COMMENT ON FUNCTION scd2_internal.try_lock(oid[], text[]) IS
    'Locks all of these tables, each in its mode, until the transaction ends, or, when one is not to be had within '
    '100 ms, none of them. Returns whether it did.';

CREATE FUNCTION scd2_internal.age_text(since timestamptz) RETURNS text
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT to_char(make_interval(secs => greatest(extract(epoch FROM clock_timestamp() - since), 0)::double precision),
        'HH24:MI:SS')
$$;
COMMENT ON FUNCTION scd2_internal.age_text(timestamptz) IS
    'The time since then as hours, minutes and seconds, whatever IntervalStyle is.';

-- Who is in the way. A prepared transaction has no process.
CREATE FUNCTION scd2_internal.lock_holder(relations oid[], modes text[], OUT relation oid, OUT who text, OUT fix text)
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT l.relation,
           CASE WHEN l.pid IS NOT NULL
                THEN format('process %s has %s for %s (%s)', l.pid, l.what, scd2_internal.age_text(a.xact_start),
                    coalesce(a.state, a.backend_type))
                ELSE format('prepared transaction "%s" has %s for %s', p.gid, l.what,
                    scd2_internal.age_text(p.prepared)) END,
           CASE WHEN l.pid IS NOT NULL THEN format('SELECT pg_terminate_backend(%s);', l.pid)
                ELSE format('COMMIT PREPARED %L; -- or: ROLLBACK PREPARED %1$L;', p.gid) END
    FROM (SELECT r.oid AS relation, k.pid, k.virtualtransaction, 'held a lock on it' AS what
          FROM unnest(relations, modes) r (oid, mode)
               JOIN pg_locks k ON k.locktype = 'relation' AND k.relation = r.oid AND k.granted
                   AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                   AND CASE r.mode WHEN 'ACCESS EXCLUSIVE' THEN true
                                   WHEN 'ROW EXCLUSIVE' THEN k.mode NOT IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock', 'ShareUpdateExclusiveLock')
                                   ELSE k.mode NOT IN ('AccessShareLock', 'RowShareLock') END
          UNION ALL
          SELECT c.oid, k.pid, k.virtualtransaction, 'been renaming its schema'
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               JOIN pg_locks k ON k.locktype = 'transactionid' AND k.transactionid = n.xmax AND k.granted
          WHERE c.oid = ANY (relations)) l
         LEFT JOIN pg_stat_activity a ON a.pid = l.pid
         -- (the virtual id is that of the session that prepared it, and after a restart none)
         LEFT JOIN pg_locks x ON l.pid IS NULL AND x.pid IS NULL AND x.locktype = 'transactionid' AND x.mode = 'ExclusiveLock' AND x.virtualtransaction = l.virtualtransaction
         LEFT JOIN pg_prepared_xacts p ON p.transaction = x.transactionid AND p.database = current_database()
    WHERE l.pid IS DISTINCT FROM pg_backend_pid()
    ORDER BY coalesce(a.xact_start, p.prepared) LIMIT 1
$$;
COMMENT ON FUNCTION scd2_internal.lock_holder(oid[], text[]) IS
    'The oldest holder of a lock that conflicts with one of these, or who renames a schema of theirs: on which table, who, since when and in what state, '
    'and the statement that ends it.';

CREATE FUNCTION scd2_internal.cancel_autovacuum(relations oid[]) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_cancel_backend(a.pid)
    FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'relation' AND l.relation = ANY (relations) AND l.granted AND a.datname = current_database()
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
      AND a.backend_type = 'autovacuum worker' AND a.query NOT LIKE '%(to prevent wraparound)'
$$;
COMMENT ON FUNCTION scd2_internal.cancel_autovacuum(oid[]) IS
    'Cancels autovacuum workers that hold locks on these tables, as the server does for a waiter, except those that '
    'prevent wraparound.';

CREATE FUNCTION scd2_internal.lock_tables(relations oid[], modes text[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    patience CONSTANT text := current_setting('pg_scd2.lock_timeout');
    deadline CONSTANT timestamptz := clock_timestamp() + patience::interval;
    holder record;
BEGIN
    WHILE NOT scd2_internal.try_lock(relations, modes) LOOP
        SELECT h.* INTO holder FROM scd2_internal.lock_holder(relations, modes) h;
        IF clock_timestamp() >= deadline THEN
            PERFORM scd2_internal.refuse('55P03',
                format('could not lock table "%s" within %s',
                    scd2_internal.label(coalesce(holder.relation, relations[1])), patience)
                    || coalesce(': ' || holder.who, ''),
                'pg_scd2.lock_timeout bounds the wait; the lock is tried briefly, again and again, so that nobody '
                'queues behind it.',
                coalesce(holder.fix || ' -- or wait until that has ended', 'Try again.'));
        END IF;
        PERFORM scd2_internal.cancel_autovacuum(relations);
        PERFORM pg_sleep(0.05 + random() * 0.1);
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.lock_tables(oid[], text[]) IS
    'Locks all of these tables until the transaction ends, trying for pg_scd2.lock_timeout in total. Errors: 55P03, '
    'naming who holds a lock, since when and in what state.';

-- The root first: with it locked no partition comes or goes.
CREATE FUNCTION scd2_internal.lock_source(source oid, for_identity boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    relations oid[];
    modes text[];
    locked text[];
BEGIN
    IF (SELECT c.relkind = 'p' FROM pg_class c WHERE c.oid = source) THEN
        PERFORM scd2_internal.lock_tables(ARRAY[source], ARRAY['SHARE ROW EXCLUSIVE']);
    END IF;
    LOOP
        SELECT array_agg(c.oid ORDER BY c.oid),
               array_agg(CASE WHEN for_identity AND c.relreplident <> 'f' THEN 'ACCESS EXCLUSIVE'
                   ELSE 'SHARE ROW EXCLUSIVE' END ORDER BY c.oid)
        INTO relations, modes
        FROM scd2_internal.leaves(source) l JOIN pg_class c ON c.oid = l;
        EXIT WHEN relations IS NULL OR modes = locked;      -- an identity may have been changed before we had the lock
        PERFORM scd2_internal.lock_tables(relations, modes);
        locked := modes;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.lock_source(oid, boolean) IS
    'Locks a table, or a partitioned table and its leaves, against writers; those whose replica identity is to be set '
    '(for_identity, not FULL yet) against everybody. Errors: 55P03.';
