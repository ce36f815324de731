-- 20_worker.sql: the workers of this database, waiting for them, and what they show of themselves.

CREATE FUNCTION scd2.sync(timeout interval DEFAULT '1 min', targets regclass[] DEFAULT NULL) RETURNS bigint
    AS 'MODULE_PATHNAME', 'scd2_sync' LANGUAGE C;
COMMENT ON FUNCTION scd2.sync(interval, regclass[]) IS
    'Waits until all that was committed before the call is captured and applied, at most "timeout", into "targets" '
    '(NULL: all that the caller owns). Returns the version reached. '
    'Errors: 57014 at the timeout, 55000 if the workers are off or a flow or feed failed, 55P03 if the caller''s own '
    'locks are in the way, 25001 in a transaction that has written or whose snapshot is fixed.';

-- What shared memory knows of this database's workers: one row, NULLs if the library is not preloaded.
CREATE FUNCTION scd2_internal.capture_status(
        OUT state text, OUT pid integer, OUT captured_lsn pg_lsn, OUT version bigint, OUT spilled_bytes bigint,
            OUT error text, OUT apply_pids integer[],
        OUT caught_up_at timestamptz, OUT apply_error text)
    AS 'MODULE_PATHNAME', 'scd2_capture_status' LANGUAGE C;

-- Commits since the server started whose versions got another time than theirs, and of the last one when it was
-- captured, its time and its version's.
CREATE FUNCTION scd2_internal.clock_status(OUT moved bigint, OUT moved_at timestamptz, OUT moved_from timestamptz,
    OUT moved_to timestamptz)
    AS 'MODULE_PATHNAME', 'scd2_clock_status' LANGUAGE C;

-- Latest version of a feed, NULL if not known (then it may be any up to the position's).
CREATE FUNCTION scd2_internal.feed_latest(feed_id integer) RETURNS bigint
    AS 'MODULE_PATHNAME', 'scd2_feed_latest_sql' LANGUAGE C STRICT;

-- Raises 55000 with the setting that is wrong and a hint, if nothing can be captured on this server; waits for the
-- worker's slot if there is none yet (bounded by pg_scd2.lock_timeout, and only while the transaction has written
-- nothing), else fails with what it waits for.
CREATE FUNCTION scd2_internal.require_capture() RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_require_capture' LANGUAGE C;

CREATE FUNCTION scd2_internal.may_wait_for(caller oid, f scd2_internal.feed) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_class c WHERE c.oid IN (f.feed_relid::oid, f.source_relid::oid) AND (pg_has_role(caller, c.relowner, 'USAGE')
               OR c.oid = f.feed_relid AND has_table_privilege(caller, c.oid, 'SELECT')))
        OR EXISTS (SELECT FROM scd2_internal.flow w WHERE w.feed_id = f.feed_id AND pg_has_role(caller, scd2_internal.flow_owner(w), 'USAGE'))
$$;
COMMENT ON FUNCTION scd2_internal.may_wait_for(oid, scd2_internal.feed) IS 'Whether a feed concerns a role: it may read it, owns its source, or has a flow from it';

-- The name of a flow (or the repair of a feed) that scd2.sync() still waits for, NULL if there is none. Raises 55000 for a flow or feed that
-- failed; with "tell", a NOTICE for what is not waited for. Flows that take snapshots by themselves must have looked at
-- their source since "since".
CREATE FUNCTION scd2_internal.sync_pending(caller oid, targets regclass[], version bigint, tell boolean,
    since timestamptz) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r record;
    pending text;
BEGIN
    FOR r IN
        SELECT f.name, f AS definition, f.author::oid AS author, c.relowner AS holder, s.phase, s.last_error, f.feed_id, fs.state AS feed_state, fs.error AS feed_error, fs.resync_version,
               coalesce(scd2_internal.label(sc.oid), f.source_schema || '.' || f.source_name) AS source,
               CASE WHEN f.paused THEN 'it is paused'
                    WHEN NOT pg_has_role(caller, scd2_internal.flow_owner(f), 'USAGE') THEN 'it belongs to another role'
                    WHEN c.oid IS NULL THEN 'its target was dropped'
                    WHEN sc.oid IS NULL AND fs.state = 'failed' THEN 'its source was dropped' END AS not_waiting,
               s.flow_id IS NULL OR s.phase = 'copy' OR s.phase = 'apply' AND f.feed_id IS NOT NULL AND NOT f.once
                   AND f.known_changes <> (SELECT l.changes FROM scd2_internal.feed_layout l WHERE l.feed_id = f.feed_id)
                   OR s.phase = 'apply' AND CASE WHEN f.kind = 'snapshot' THEN (f.once OR f.refresh_interval > '0')
                       AND s.snapshot_at >= since IS NOT TRUE
                   ELSE scd2_internal.feed_is_behind(f.feed_id, sync_pending.version) OR s.watermark_version < least(sync_pending.version,
                       coalesce(scd2_internal.feed_latest(f.feed_id), sync_pending.version)) END AS behind
        FROM scd2_internal.flow f
        LEFT JOIN scd2_internal.flow_state s USING (flow_id)
        LEFT JOIN scd2_internal.feed_state fs ON fs.feed_id = f.feed_id
        LEFT JOIN pg_class c ON c.oid = f.target_relid
        LEFT JOIN pg_class sc ON sc.oid = f.source_relid
        WHERE (targets IS NULL OR f.target_relid = ANY (targets))
    LOOP
        IF r.not_waiting IS NOT NULL THEN
            IF tell THEN
                RAISE NOTICE 'not waiting for flow "%": %', r.name, r.not_waiting;
            END IF;
            CONTINUE;
        END IF;
        IF r.phase = 'failed' THEN
            RAISE EXCEPTION 'flow "%" has failed: %', r.name, r.last_error
                USING ERRCODE = 'object_not_in_prerequisite_state',
                    HINT = CASE WHEN r.last_error LIKE '55000: flow % cannot follow its source %'
                        THEN substring(r.last_error FROM ' Remedy: (.*)$')
                        WHEN r.author <> r.holder THEN format('SELECT * FROM scd2.authorize_flow(%L);', r.name)
                        WHEN r.last_error LIKE '42501: %' AND scd2_internal.rights_remedy(r.definition) IS NOT NULL THEN scd2_internal.rights_remedy(r.definition)
                        ELSE format('SELECT scd2.resume_flow(%L);', r.name) END;
        END IF;
        IF r.feed_state = 'failed' THEN
            RAISE EXCEPTION 'the feed of "%" has failed: %', r.source, r.feed_error
                USING ERRCODE = 'object_not_in_prerequisite_state',
                    HINT = (SELECT scd2_internal.repair_statement(x) FROM scd2_internal.feed x WHERE x.feed_id = r.feed_id);
        END IF;
        IF r.behind OR r.resync_version IS NOT NULL THEN
            pending := r.name;
        END IF;
    END LOOP;
    IF pending IS NULL AND targets IS NULL THEN
        SELECT format('repair of %s', f.source_relid::regclass) INTO pending
        FROM scd2_internal.feed_state s JOIN scd2_internal.feed f USING (feed_id) JOIN pg_class c ON c.oid = f.source_relid
        WHERE s.resync_version IS NOT NULL AND pg_has_role(caller, c.relowner, 'USAGE') LIMIT 1;
    END IF;
    IF pending IS NULL AND (targets IS NULL OR targets = '{}') THEN
        SELECT format('feed of %s', f.source_relid::regclass) INTO pending
        FROM scd2_internal.feed_backlog b JOIN scd2_internal.feed f USING (feed_id)
        WHERE scd2_internal.feed_is_behind(f.feed_id, sync_pending.version) AND scd2_internal.may_wait_for(caller, f) LIMIT 1;
    END IF;
    RETURN pending;
END $$;

-- What sync() waits for, of feeds that the caller may read or has flows from; raises 55P03 if it is the caller's own transaction.
CREATE FUNCTION scd2_internal.sync_waits_for(caller oid, OUT why text, OUT fix text)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed;
BEGIN
    FOR f IN SELECT x.* FROM scd2_internal.feed_backlog b JOIN scd2_internal.feed x USING (feed_id) WHERE scd2_internal.may_wait_for(caller, x) ORDER BY b.since LOOP
        PERFORM scd2_internal.refuse('55P03', 'scd2.sync() would wait for a lock of its own transaction',
                format('Changes of table "%s" wait to be written into its feed, which this session has locked.', scd2_internal.label(f.source_relid)), 'COMMIT; SELECT scd2.sync();')
            WHERE scd2_internal.keeps_feed_locked(f);
        IF why IS NULL THEN
            SELECT format('Changes of table "%s" wait to be written into its feed: %s.', scd2_internal.label(f.source_relid), rtrim(w.why, '.')), w.fix INTO why, fix
            FROM scd2_internal.feed_waits_for(f) w;
        END IF;
    END LOOP;
END $$;

-- BEFORE statement trigger of feeds and targets: 55000 unless the worker writes, or the owner with
-- pg_scd2.allow_target_writes = on.
CREATE FUNCTION scd2_internal.guard() RETURNS trigger AS 'MODULE_PATHNAME', 'scd2_guard' LANGUAGE C;

-- Written when rows were written or sorted, and seen with them.
CREATE FUNCTION scd2_internal.note_disorder(relation oid) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO scd2_internal.disorder AS d (feed_id, version)
    SELECT DISTINCT f.feed_id, p.version FROM scd2_internal.position p, scd2_internal.feed f LEFT JOIN pg_inherits h ON h.inhparent = f.feed_relid
    WHERE NOT f.disabled AND (relation IN (f.feed_relid, h.inhrelid)
        OR relation IS NULL AND EXISTS (SELECT FROM pg_index x WHERE x.indrelid = h.inhrelid AND x.indisclustered))
    ORDER BY f.feed_id
    ON CONFLICT (feed_id) DO UPDATE SET version = excluded.version
$$;
COMMENT ON FUNCTION scd2_internal.note_disorder(oid) IS
    'Keeps in mind that the rows of a feed, or of a partition of one, no longer lie in the order of their versions; NULL: of all that CLUSTER sorts. Other relations: nothing';

-- Lets a trigger go with the extension: DROP EXTENSION takes it along.
CREATE FUNCTION scd2_internal.depend_on_extension(relation oid, trigger name) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_depend_on_extension' LANGUAGE C STRICT;

CREATE FUNCTION scd2_internal.belong_to_table(function oid, relation oid) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_belong_to_table' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.belong_to_table(oid, oid) IS
    'Has a function go with the table that it was made for, and be known by it';

CREATE FUNCTION scd2_internal.put_guard(relation oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('CREATE OR REPLACE TRIGGER scd2_guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s '
                   'FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard()', scd2_internal.fixed_name(relation));
    EXECUTE format('ALTER TABLE ONLY %s ENABLE ALWAYS TRIGGER scd2_guard', scd2_internal.fixed_name(relation));
    PERFORM scd2_internal.depend_on_extension(relation, 'scd2_guard');
END $$;
COMMENT ON FUNCTION scd2_internal.put_guard(oid) IS
    'Keeps others than the worker from writing a feed or target. Statement triggers are not inherited: a feed''s '
    'partitions need it too.';

-- The workers look whether they are still wanted when the calling transaction commits.
CREATE FUNCTION scd2_internal.workers_changed() RETURNS void AS 'MODULE_PATHNAME', 'scd2_workers_changed' LANGUAGE C;

CREATE FUNCTION scd2_internal.start_workers_at_commit() RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_start_workers_at_commit' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.start_workers_at_commit() IS
    'Tells the launcher, when the calling transaction commits, to start this database''s workers. No error if the '
    'library is not preloaded.';
