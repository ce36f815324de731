-- 61_diagnose_slot.sql: what the replication slot costs the server, and times that are not as they should be.
--
-- A slot holds back WAL, and the vacuuming of catalogs. Both are told of when they are worth it by the server's own
-- measures: WAL beyond four times max_wal_size or half of max_slot_wal_keep_size, catalog rows older than a quarter of
-- autovacuum_freeze_max_age.

-- What ends the wait of the slot: workers that run, a transaction that ends, or the slot given up.
CREATE FUNCTION scd2_internal.slot_holder(slot name, OUT reason text, OUT fix text)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    capture record;
    oldest  record;
BEGIN
    SELECT s.state, coalesce((SELECT w.stopped FROM scd2_internal.switch w), false) AS stopped
    INTO capture FROM scd2_internal.capture_status() s;
    IF capture.stopped OR capture.state IN ('off', 'stopped') THEN
        reason := 'Nothing is captured meanwhile.';
        fix := 'SELECT scd2.start();';
        RETURN;
    END IF;
    IF capture.state = 'failed' THEN
        reason := 'The capture worker fails.';
        fix := format('SELECT pg_drop_replication_slot(%L); '
                      '-- gives up what is not captured: each feed gets a gap',
            slot);
        RETURN;
    END IF;
    SELECT x.* INTO oldest FROM (
        SELECT a.backend_xid AS xid, format('Process %s (%s) has had a transaction open for %s.', a.pid, a.state,
                                            scd2_internal.age_text(a.xact_start)) AS reason,
               format('SELECT pg_terminate_backend(%s);', a.pid) AS fix
        FROM pg_stat_activity a WHERE a.backend_xid IS NOT NULL AND a.pid <> pg_backend_pid()
        UNION ALL
        SELECT p.transaction, format('Prepared transaction "%s" is there since %s.', p.gid, p.prepared),
               scd2_internal.end_prepared(p.gid, p.database)
        FROM pg_prepared_xacts p) x
    ORDER BY age(x.xid) DESC LIMIT 1;
    IF FOUND THEN
        reason := oldest.reason;
        fix := oldest.fix;
    ELSE
        reason := 'Capture is catching up.';
        fix := NULL;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.slot_holder(name) IS
    'Why the slot does not move on, and the statement that lets it.';

CREATE FUNCTION scd2_internal.slot_problems() RETURNS TABLE (problem text, detail text, fix text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH r AS (
        SELECT s.slot_name, greatest(scd2._wal_position() - s.restart_lsn, 0)::bigint AS held,
            age(s.catalog_xmin) AS xmin_age,
               (SELECT 4 * pg_size_bytes(current_setting('max_wal_size'))) AS usual,
               (SELECT nullif(t.setting::bigint, -1) * 1024 * 1024 FROM pg_settings t
                   WHERE t.name = 'max_slot_wal_keep_size') AS allowed,
               current_setting('autovacuum_freeze_max_age')::integer / 4 AS old
        FROM pg_replication_slots s JOIN scd2_internal.position p ON p.slot = s.slot_name AND s.database = current_database()
        WHERE s.restart_lsn IS NOT NULL)
    SELECT format('its slot holds back %s of WAL', pg_size_pretty(r.held)),
        format('Slot "%s". %s', r.slot_name, h.reason), h.fix
    FROM r, scd2_internal.slot_holder(r.slot_name) h WHERE r.held > least(r.usual, r.allowed / 2)
    UNION ALL
    SELECT format('its slot keeps the server from vacuuming catalogs: %s transactions', r.xmin_age),
           format('Slot "%s". %s', r.slot_name, h.reason), h.fix
    FROM r, scd2_internal.slot_holder(r.slot_name) h WHERE r.xmin_age > r.old
$$;
COMMENT ON FUNCTION scd2_internal.slot_problems() IS 'Part of diagnose: what the replication slot costs the server.';

-- For an hour: then it is history. Nothing in the database can mend a clock.
CREATE FUNCTION scd2_internal.clock_problems() RETURNS TABLE (problem text, detail text, fix text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('times of %s commits were not ascending, or in the future', c.moved),
           format('The last one: %s was captured as %s. '
                  'A clock was changed, or a publisher has another; versions are in the order of commits.',
                  c.moved_from, c.moved_to), NULL
    FROM scd2_internal.clock_status() c WHERE c.moved_at > clock_timestamp() - interval '1 hour'
$$;
COMMENT ON FUNCTION scd2_internal.clock_problems() IS 'Part of diagnose: commit times that versions could not have.';
