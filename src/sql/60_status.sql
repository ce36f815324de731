-- 60_status.sql: what the views show, and stopping and starting the workers.
--
-- The views read the catalogs with the rights of their owner and show each row only to the owner of the relation that
-- it concerns, and to members of pg_monitor (who do not see error texts: those can hold data). They are right when no
-- worker runs, because lag is measured against the server's own WAL position.

CREATE FUNCTION scd2._capture_status(OUT state text, OUT pid integer, OUT captured_lsn pg_lsn, OUT version bigint,
    OUT spilled_bytes bigint, OUT error text,
                                     OUT apply_pids integer[], OUT caught_up_at timestamptz)
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STABLE;
CREATE FUNCTION scd2_internal._capture_status(caller oid, OUT state text, OUT pid integer, OUT captured_lsn pg_lsn,
    OUT version bigint, OUT spilled_bytes bigint, OUT error text,
                                     OUT apply_pids integer[], OUT caught_up_at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT s.state, s.pid, s.captured_lsn, s.version, s.spilled_bytes, s.error, s.apply_pids, s.caught_up_at
    INTO state, pid, captured_lsn, version, spilled_bytes, error, apply_pids, caught_up_at
    FROM scd2_internal.capture_status() s;
    IF (SELECT w.stopped FROM scd2_internal.switch w) THEN
        state := 'stopped';
    END IF;
    IF NOT (SELECT r.rolsuper FROM pg_roles r WHERE r.oid = caller) THEN
        error := NULL;
    END IF;
END $$;
COMMENT ON FUNCTION scd2._capture_status() IS
    'Part of the views: what shared memory knows of this database''s workers. The error text is for superusers.';

CREATE FUNCTION scd2._feed_latest(feed_id integer) RETURNS bigint
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STABLE STRICT;
CREATE FUNCTION scd2_internal._feed_latest(caller oid, feed_id integer) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.feed_latest($2) FROM scd2_internal.feed f
    WHERE f.feed_id = $2
      AND (pg_has_role(caller, 'pg_monitor', 'USAGE')
           OR EXISTS (SELECT FROM pg_class c
                      WHERE c.oid IN (SELECT f.source_relid::oid UNION SELECT f.feed_relid::oid
                                      UNION SELECT w.target_relid::oid FROM scd2_internal.flow w WHERE w.feed_id = f.feed_id)
                        AND pg_has_role(caller, c.relowner, 'USAGE')))
$$;
COMMENT ON FUNCTION scd2._feed_latest(integer) IS
    'Part of the views: the last version with rows in a feed of a table that you own or have a flow from (members of pg_monitor: any), NULL if it is not known.';

CREATE FUNCTION scd2._wal_position() RETURNS pg_lsn
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END
$$;
COMMENT ON FUNCTION scd2._wal_position() IS
    'Part of the views: where the server''s log ends; on a standby, how far it is replayed.';

-- Sizes of what nobody has locked against everybody: who looks why a feed waits must not wait himself.
CREATE FUNCTION scd2._feed_size(feed oid, OUT rows bigint, OUT bytes bigint)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(sum(greatest(pg_stat_get_live_tuples(c.oid), c.reltuples::bigint)), 0)::bigint,
        coalesce(sum(CASE WHEN NOT EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'relation' AND l.relation = c.oid AND l.mode = 'AccessExclusiveLock'
                                             AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                                             AND l.pid IS DISTINCT FROM pg_backend_pid())
                     THEN pg_total_relation_size(c.oid) END), 0)::bigint
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = feed
$$;
COMMENT ON FUNCTION scd2._feed_size(oid) IS
    'Part of the views: rows (as the statistics have them) and bytes of a feed with its indexes.';

CREATE FUNCTION scd2._feed_waits_for(feed_id integer) RETURNS text
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STABLE STRICT;
CREATE FUNCTION scd2_internal._feed_waits_for(caller oid, feed_id integer) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT w.why FROM scd2_internal.feed f, scd2_internal.feed_waits_for(f) w
    WHERE f.feed_id = $2 AND (pg_has_role(caller, 'pg_monitor', 'USAGE')
        OR EXISTS (SELECT FROM pg_class c WHERE c.oid IN (f.source_relid::oid, f.feed_relid::oid) AND pg_has_role(caller, c.relowner, 'USAGE')))
$$;
COMMENT ON FUNCTION scd2._feed_waits_for(integer) IS
    'Part of the views: why changes of a feed of a table that you own wait to be written (members of pg_monitor: any), NULL: they do not.';

-- The feeds, with what both scd2.feeds and scd2.flows need.
CREATE VIEW scd2_internal.feed_status AS
    SELECT f.*, s.state AS captured, s.enabled_version, s.enabled_at, greatest(s.earliest_version, r.earliest_version) AS earliest_version,
           greatest(s.removed_at, r.removed_at) AS removed_at, s.gap, s.broken_at,
           s.resync_version, s.error, s.error_at,
           least(p.version, greatest(scd2._feed_latest(f.feed_id), k.last_version)) AS latest_version,
           sc.oid AS source_there, fc.oid AS feed_there, coalesce(sc.relowner, fc.relowner) AS owner,
           k.complete_version, k.bytes AS backlog_bytes, k.since AS waits_since
    FROM scd2_internal.feed f
         LEFT JOIN scd2_internal.feed_state s USING (feed_id)
         LEFT JOIN scd2_internal.removal r USING (feed_id)       -- feed_start(), which is not for everybody to call
         LEFT JOIN LATERAL (SELECT x.*, (SELECT e.last_version FROM scd2_internal.backlog e WHERE e.feed_id = x.feed_id ORDER BY e.n DESC LIMIT 1) AS last_version
                            FROM scd2_internal.feed_backlog x WHERE x.feed_id = f.feed_id) k ON true
         LEFT JOIN scd2_internal.position p ON p.singleton
         LEFT JOIN pg_class sc ON sc.oid = f.source_relid
         LEFT JOIN pg_class fc ON fc.oid = f.feed_relid
    WHERE CASE WHEN f.disabled THEN fc.oid IS NOT NULL
        AND NOT EXISTS (SELECT FROM scd2_internal.feed n WHERE n.feed_relid = f.feed_relid AND n.feed_id > f.feed_id)
               ELSE sc.oid IS NOT NULL OR fc.oid IS NOT NULL END;
COMMENT ON VIEW scd2_internal.feed_status IS 'Feeds as defined, as captured, and who owns them';

CREATE VIEW scd2.feeds WITH (security_barrier) AS
    SELECT f.source_relid::regclass AS source, f.feed_relid::regclass AS feed,
           CASE WHEN f.disabled THEN 'disabled' WHEN f.captured IS NULL THEN 'enabling'
                WHEN f.source_there IS NULL THEN 'source dropped' WHEN f.resync_version IS NOT NULL THEN 'repairing'
                ELSE f.captured END AS state,
           f.enabled_version, f.enabled_at, f.earliest_version, CASE
               WHEN f.enabled_version IS NOT NULL
               THEN greatest(f.latest_version, f.enabled_version) END AS latest_version,
           z.rows, z.bytes, coalesce(f.retention,
               current_setting('pg_scd2.feed_retention', true)::interval) AS retention,
           (SELECT h.who FROM scd2_internal.feed_holder h WHERE h.feed_id = f.feed_id
            ORDER BY h.version, h.who LIMIT 1) AS held_by,
           f.removed_at AS last_vacuum, f.gap, CASE WHEN f.enabled_version IS NOT NULL THEN greatest(coalesce(f.complete_version, f.latest_version), f.enabled_version) END AS complete_version,
           coalesce(f.backlog_bytes, 0) AS backlog_bytes, scd2._feed_waits_for(f.feed_id) AS waits_for
    FROM scd2_internal.feed_status f, scd2._feed_size(f.feed_relid) z
    WHERE pg_has_role(f.owner, 'USAGE') OR pg_has_role('pg_monitor', 'USAGE');
COMMENT ON VIEW scd2.feeds IS 'The change data feeds of tables that you own (members of pg_monitor: all)';

CREATE FUNCTION scd2._bytes_after(feed oid, version bigint) RETURNS bigint
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid, pg_get_expr(c.relpartbound, 0) b (bound)
    WHERE i.inhparent = feed
      AND coalesce(substring(b.bound FROM E'TO \\(''?(-?\\d+)''?\\)')::bigint - 1 > version, true)
$$;
COMMENT ON FUNCTION scd2._bytes_after(oid, bigint) IS
    'Part of the views: size of the partitions of a feed that can have changes after a version.';

CREATE VIEW scd2.readers WITH (security_barrier) AS
    SELECT r.name, f.source_relid::regclass AS source, r.version, l.lag_versions,
           CASE WHEN l.lag_versions > 0 THEN clock_timestamp() - CASE WHEN isfinite(r.reached) THEN r.reached ELSE r.used_at END
               ELSE interval '0' END AS lag,
           CASE WHEN l.lag_versions > 0 THEN scd2._bytes_after(f.feed_relid, r.version) ELSE 0 END AS held_bytes, r.last_read
    FROM scd2_internal.reader r JOIN scd2_internal.feed_status f USING (feed_id),
         LATERAL (SELECT greatest(f.latest_version - r.version, 0) AS lag_versions) l
    WHERE r.expired_at IS NULL AND (pg_has_role(f.owner, 'USAGE') OR pg_has_role('pg_monitor', 'USAGE'));
COMMENT ON VIEW scd2.readers IS
    'The readers of tables that you own (members of pg_monitor: all), but those that have expired: how far they are, how far behind, and the size of the partitions that they have not passed';

CREATE VIEW scd2.capture AS
    SELECT CASE s.state
               WHEN 'running' THEN 'running'
               WHEN 'starting' THEN 'starting'
               WHEN 'stopped' THEN 'stopped: SELECT scd2.start();'
               WHEN 'creating slot' THEN 'waiting: SELECT * FROM scd2.diagnose();'
               WHEN 'failed' THEN 'failed: SELECT * FROM scd2.diagnose();'
               WHEN 'copy' THEN 'a copy, off: SELECT scd2.resume_capture();'
               ELSE CASE WHEN pg_is_in_recovery() THEN 'standby: SELECT pg_promote();'
                   ELSE 'off: SELECT * FROM scd2.preflight();' END
           END AS state,
           s.pid, p.slot, greatest(s.captured_lsn, p.captured_lsn) AS captured_lsn,
           greatest(w.lsn - greatest(s.captured_lsn, p.captured_lsn), 0)::bigint AS lag_bytes,
           CASE WHEN w.lsn <= greatest(s.captured_lsn, p.captured_lsn) THEN interval '0'
                ELSE greatest(CASE WHEN isfinite(greatest(s.caught_up_at, p.commit_timestamp)) THEN clock_timestamp() - greatest(s.caught_up_at, p.commit_timestamp) END,
                    interval '0') END AS lag,
           greatest(w.lsn - r.restart_lsn, 0)::bigint AS wal_held_bytes, r.wal_status, r.safe_wal_size,
               age(r.catalog_xmin) AS catalog_xmin_age,
           coalesce((SELECT spill_bytes FROM pg_stat_replication_slots t WHERE t.slot_name = p.slot),
               0) AS spilled_bytes, s.error AS last_error
    FROM scd2._capture_status() s
         CROSS JOIN (SELECT scd2._wal_position() AS lsn OFFSET 0) w
         LEFT JOIN scd2_internal.position p ON p.singleton
         LEFT JOIN pg_replication_slots r ON r.slot_name = p.slot AND r.database = current_database();
COMMENT ON VIEW scd2.capture IS
    'How capture of this database stands: one row. lag is the time since it last stood at the end of the log; a state '
    'other than running comes with the command that helps. The error text is for superusers.';

CREATE VIEW scd2.flows WITH (security_barrier) AS
    SELECT w.name AS flow, w.target_relid::regclass AS target, w.source_relid::regclass AS source, w.kind, CASE
        WHEN w.kind <> 'append' THEN w.scd_type END AS scd_type, w.once,
           CASE WHEN s.phase = 'failed' OR g.error IS NOT NULL THEN 'failed' WHEN s.phase = 'done' THEN 'done' WHEN w.paused THEN 'paused'
               ELSE 'running' END AS state,
           CASE WHEN w.kind <> 'snapshot' THEN s.watermark_version END AS watermark_version,
           CASE WHEN w.kind <> 'snapshot' OR s.snapshot_version IS NOT NULL
               THEN s.watermark_timestamp END AS watermark_timestamp, b.lag_versions,
           CASE WHEN s.phase = 'done' THEN interval '0'
                WHEN w.kind = 'snapshot' THEN CASE WHEN isfinite(s.snapshot_at) THEN clock_timestamp() - s.snapshot_at END
                WHEN b.lag_versions > 0 THEN greatest(CASE WHEN isfinite(s.watermark_timestamp) THEN clock_timestamp() - s.watermark_timestamp END, c.lag)
                    ELSE c.lag END AS lag,
           coalesce(s.events, 0) AS events, coalesce(s.applied, 0) AS applied, coalesce(s.duplicates, 0) AS duplicates,
               coalesce(s.out_of_order, 0) AS out_of_order,
           coalesce(s.too_late, 0) AS too_late, coalesce(s.conflicts, 0) AS conflicts,
               coalesce(s.rejected, 0) AS rejected, coalesce(s.skipped, 0) AS skipped,
           coalesce(s.rows_inserted, 0) AS rows_inserted, coalesce(s.rows_updated, 0) AS rows_updated,
               coalesce(s.rows_deleted, 0) AS rows_deleted,
           s.last_batch, s.finished_at, CASE WHEN pg_has_role(coalesce(t.relowner, f.owner), 'USAGE')
               THEN coalesce(g.error, s.last_error) END AS last_error, CASE WHEN g.error IS NOT NULL THEN f.error_at ELSE s.last_error_at END AS last_error_at
    FROM scd2_internal.flow w
         LEFT JOIN scd2_internal.flow_state s USING (flow_id)
         LEFT JOIN scd2_internal.feed_status f ON f.feed_id = w.feed_id
         CROSS JOIN scd2.capture c
         CROSS JOIN LATERAL (SELECT CASE WHEN s.phase = 'done' THEN 0
             WHEN w.kind <> 'snapshot' THEN greatest(f.latest_version - s.watermark_version, 0) END AS lag_versions) b
         LEFT JOIN pg_class t ON t.oid = w.target_relid
         CROSS JOIN LATERAL (SELECT CASE WHEN f.captured = 'failed' AND f.source_there IS NOT NULL AND NOT w.once
                 AND (s.phase = 'copy' OR s.phase = 'apply' AND s.watermark_version >= least(f.broken_at - 1, f.latest_version))
             THEN format('55000: it stands before a gap of its feed, from version %s on: %s. Remedy: SELECT scd2.resync(%L);', f.broken_at,
                 rtrim(f.error, '.'), w.source_relid::regclass) END AS error) g
    WHERE pg_has_role(coalesce(t.relowner, f.owner), 'USAGE') OR pg_has_role('pg_monitor', 'USAGE');
COMMENT ON VIEW scd2.flows IS
    'The flows into tables that you own (members of pg_monitor: all, without error texts). watermark_version stays at '
    'the last version with changes for the flow; lag_versions counts those that it has not applied; lag includes what '
    'is not captured yet. Of a flow over snapshots, watermark_timestamp is the version of the last one, or when it '
    'was taken, and lag is how long ago its source was looked at';

CREATE VIEW scd2.rejected_events WITH (security_barrier) AS
    SELECT w.name AS flow, r.version, r.change_ordinal, r.reason, r.event, r.rejected_at
    FROM scd2_internal.rejected r JOIN scd2_internal.flow w USING (flow_id) JOIN pg_class t ON t.oid = w.target_relid
    WHERE pg_has_role(t.relowner, 'USAGE');
COMMENT ON VIEW scd2.rejected_events IS
    'Events that flows into tables that you own could not accept, and why (on_invalid_event => ''quarantine''). '
    'version and change_ordinal say where in the feed of the event table; NULL: the row was there before the flow';

CREATE VIEW scd2.skipped_versions WITH (security_barrier) AS
    SELECT w.name AS flow, k.version, k.skipped_by, k.skipped_at, k.version <= s.watermark_version AS passed
    FROM scd2_internal.skipped_version k JOIN scd2_internal.flow w USING (flow_id) LEFT JOIN scd2_internal.flow_state s USING (flow_id)
         LEFT JOIN pg_class t ON t.oid = w.target_relid
    WHERE pg_has_role(t.relowner, 'USAGE') OR pg_has_role('pg_monitor', 'USAGE');
COMMENT ON VIEW scd2.skipped_versions IS
    'Versions that flows into tables that you own leave out, by skip_version() (members of pg_monitor: all); passed: the flow is beyond it';

CREATE VIEW scd2.batches WITH (security_barrier) AS
    SELECT w.name AS flow, b.started, b.duration, v.first_version, v.last_version, b.events, b.rows_inserted, b.rows_updated, b.rows_deleted
    FROM scd2_internal.batch b JOIN scd2_internal.flow w USING (flow_id) LEFT JOIN pg_class t ON t.oid = w.target_relid
         LEFT JOIN LATERAL (SELECT b.first_version, b.last_version) v ON w.kind <> 'snapshot' AND b.first_version <= b.last_version
    WHERE pg_has_role(t.relowner, 'USAGE') OR pg_has_role('pg_monitor', 'USAGE');
COMMENT ON VIEW scd2.batches IS 'The last batches of each flow into a table that you own (members of pg_monitor: all). No versions: a first copy, or a snapshot';

-- The worker copies in one statement, so how far it is shows in the size that its target has reached: pages, at the
-- source's rows per page and the target's fillfactor.
CREATE FUNCTION scd2._copy_progress()
    RETURNS TABLE (task text, relation regclass, rows_done bigint, rows_estimated bigint, started timestamptz)
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STABLE ROWS 10;
CREATE FUNCTION scd2_internal.copy_progress()
    RETURNS TABLE (task text, relation regclass, rows_done bigint, rows_estimated bigint, started timestamptz)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp ROWS 10 AS $$
    SELECT format('first copy of flow %I', w.name), w.target_relid::regclass,
           CASE WHEN x.started IS NULL THEN 0
                ELSE least(z.rows, pg_relation_size(w.target_relid) / current_setting('block_size')::bigint
                                   * f.fill * z.rows / greatest(z.pages, 1) / 100) END::bigint,
           z.rows, x.started
    FROM scd2_internal.flow w LEFT JOIN scd2_internal.flow_state s USING (flow_id),
         LATERAL (SELECT coalesce(sum(CASE WHEN c.reltuples > 0 THEN c.reltuples
             ELSE pg_stat_get_live_tuples(c.oid) END), 0)::bigint AS rows,
                         coalesce(sum(pg_relation_size(c.oid)),
                             0)::bigint / current_setting('block_size')::bigint AS pages
                  FROM scd2_internal.leaves(w.source_relid) l JOIN pg_class c ON c.oid = l) z,
         LATERAL (SELECT coalesce((SELECT o.option_value::integer FROM pg_class c, pg_options_to_table(c.reloptions) o
             WHERE c.oid = w.target_relid AND o.option_name = 'fillfactor'), 100) AS fill) f,
         LATERAL (SELECT min(a.xact_start) AS started FROM pg_locks k JOIN pg_stat_activity a USING (pid)
                  WHERE k.locktype = 'relation' AND k.relation = w.target_relid AND k.mode = 'RowExclusiveLock'
                      AND k.granted
                    AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                    AND k.pid IN (SELECT unnest(c.apply_pids) FROM scd2_internal.capture_status() c)) x
    WHERE NOT w.paused AND (s.phase = 'copy' OR s.flow_id IS NULL)
    UNION ALL
    SELECT format('repair of the feed of %s', f.source_relid::regclass), f.feed_relid, NULL,
           (SELECT sum(greatest(c.reltuples, 0)) FROM scd2_internal.leaves(f.source_relid) l
            JOIN pg_class c ON c.oid = l)::bigint,
           s.resync_timestamp
    FROM scd2_internal.feed_state s JOIN scd2_internal.feed f USING (feed_id) WHERE s.resync_version IS NOT NULL
    UNION ALL
    -- Who has the flow's lock applies a snapshot, a worker or somebody by hand. How far it is does not show.
    SELECT format('snapshot of flow %I', w.name), w.target_relid::regclass, NULL,
           (SELECT sum(greatest(c.reltuples, 0)) FROM scd2_internal.leaves(w.source_relid) l
            JOIN pg_class c ON c.oid = l)::bigint,
           a.xact_start
    FROM scd2_internal.flow w JOIN scd2_internal.flow_state s USING (flow_id)
         JOIN pg_locks k ON k.locktype = 'object' AND k.classid = 'scd2_internal.flow'::regclass
              AND k.objid = w.flow_id AND k.objsubid = 0 AND k.granted
              AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
         JOIN pg_stat_activity a USING (pid)
    WHERE w.kind = 'snapshot' AND s.phase <> 'copy'
    UNION ALL
    SELECT 'purge of history', p.target_relid::regclass, p.rows_done, p.rows_estimated, p.started FROM scd2_internal.purge p
$$;
CREATE FUNCTION scd2_internal._copy_progress(caller oid)
    RETURNS TABLE (task text, relation regclass, rows_done bigint, rows_estimated bigint, started timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp ROWS 10 AS $$
    SELECT p.* FROM scd2_internal.copy_progress() p LEFT JOIN pg_class c ON c.oid = p.relation
    WHERE pg_has_role(caller, c.relowner, 'USAGE') OR pg_has_role(caller, 'pg_monitor', 'USAGE')
$$;
COMMENT ON FUNCTION scd2._copy_progress() IS
    'Part of scd2.progress: first copies that run or are about to (rows_done is estimated from the size of the '
    'target), snapshots that are being applied, and old versions that are being removed, on tables that the caller '
    'owns (members of pg_monitor: all).';

CREATE VIEW scd2.progress AS
    SELECT p.task, p.relation, p.rows_done, p.rows_estimated, p.started FROM scd2._copy_progress() p;
COMMENT ON VIEW scd2.progress IS
    'Long tasks that run now, or wait for a worker (started is NULL), on tables that you own (members of pg_monitor: '
    'all). rows_done is estimated from sizes, NULL for snapshots and repairs';

GRANT SELECT ON scd2.feeds, scd2.readers, scd2.flows, scd2.rejected_events, scd2.skipped_versions, scd2.batches, scd2.capture, scd2.progress TO public;

CREATE FUNCTION scd2_internal.switch_workers(stop boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO scd2_internal.switch (stopped) VALUES (stop)
        ON CONFLICT (singleton) DO UPDATE SET stopped = EXCLUDED.stopped;
    IF stop THEN
        PERFORM scd2_internal.workers_changed();
    ELSE
        PERFORM scd2_internal.start_workers_at_commit();
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.switch_workers(boolean) IS
    'Sets whether this database''s workers run, from the caller''s commit on.';

CREATE FUNCTION scd2.stop() RETURNS void AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
CREATE FUNCTION scd2_internal.stop(caller oid) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog,
        pg_temp AS $$ SELECT scd2_internal.switch_workers(true) $$;
COMMENT ON FUNCTION scd2.stop() IS
    'Ends this database''s workers when the caller commits, until scd2.start(), also across restarts. The slot stays '
    'and holds back WAL. For superusers and those they grant it to. Errors: 42501 others.';
CREATE FUNCTION scd2.start() RETURNS void AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
CREATE FUNCTION scd2_internal.start(caller oid) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog,
        pg_temp AS $$ SELECT scd2_internal.switch_workers(false) $$;
COMMENT ON FUNCTION scd2.start() IS
    'Starts this database''s workers when the caller commits, after scd2.stop(). For superusers and those they grant '
    'it to. Errors: 42501 others.';
REVOKE EXECUTE ON FUNCTION scd2.stop(), scd2.start() FROM public;
