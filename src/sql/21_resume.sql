-- 21_resume.sql: going on after the place in the log was lost.
--
-- A slot that is gone, invalidated, or ahead of the position: what was committed since the position cannot be read any
-- more. So every feed gets a declared gap: a version of its own, from which on nothing is claimed. The position starts
-- anew with a slot of another name, which the capture worker makes next. Versions go on counting. The worker does this
-- by itself: while nobody looks, a gap only grows. (So it does on another timeline: after a failover somebody needs
-- the changes, and a promoted standby cannot be told from a restored backup.)
--
-- Another database or system than recorded is a copy or a restored dump: whether it shall capture at all is not for us
-- to say, so nothing happens until scd2.resume_capture(). The name of a slot has a random part: the original's is
-- never touched.

CREATE FUNCTION scd2_internal.position_foreign(p scd2_internal.position) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE
        WHEN p.home <> scd2_internal.home() THEN 'this database is a restored dump of another'
        WHEN p.database <> (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
            THEN 'this database is a copy of another'
        WHEN p.system_identifier <> (SELECT c.system_identifier FROM pg_control_system() c)
            THEN 'this server is a copy of another'
    END
$$;
COMMENT ON FUNCTION scd2_internal.position_foreign(scd2_internal.position) IS
    'Why a position is none of this database''s; NULL if it is.';

CREATE FUNCTION scd2_internal.position_lost(p scd2_internal.position) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE
        WHEN scd2_internal.position_foreign(p) IS NOT NULL THEN scd2_internal.position_foreign(p)
        WHEN p.captured_lsn IS NULL THEN NULL
        WHEN s.slot_name IS NULL THEN format('replication slot "%s" is gone', p.slot)
        WHEN s.wal_status = 'lost' THEN format('replication slot "%s" was invalidated by the server', p.slot)
        WHEN s.confirmed_flush_lsn > p.captured_lsn
            THEN format('replication slot "%s" is ahead of what is captured', p.slot)
    END
    FROM (SELECT) AS one LEFT JOIN pg_replication_slots s ON s.slot_name = p.slot
$$;
COMMENT ON FUNCTION scd2_internal.position_lost(scd2_internal.position) IS
    'Why capture cannot go on from a position, NULL if it can.';

-- What had been asked for and was not met in the log before it was lost: a feed that has nothing but a gap, a flow that
-- did not begin. The records stay, marked: one that was committed while the new slot was made may be met yet.
CREATE FUNCTION scd2_internal.fail_unmet_controls(version bigint, at timestamptz, why text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO scd2_internal.feed_state (feed_id, source_relid, feed_relid, state, enabled_version, enabled_at,
        earliest_version, gap, broken_at, error, error_at)
    SELECT c.feed_id, c.source_relid, c.feed_relid, 'failed', fail_unmet_controls.version, at,
        fail_unmet_controls.version,
        int8range(fail_unmet_controls.version + 1, NULL), fail_unmet_controls.version + 1, why, clock_timestamp()
    FROM scd2_internal.control c
    WHERE c.kind = 'enable feed' AND NOT c.settled AND NOT EXISTS (SELECT FROM scd2_internal.control d
        WHERE d.kind = 'disable feed' AND d.feed_id = c.feed_id)
    ON CONFLICT DO NOTHING;
    DELETE FROM scd2_internal.feed_state s USING scd2_internal.control c WHERE c.kind = 'disable feed'
        AND NOT c.settled AND c.feed_id = s.feed_id;
    INSERT INTO scd2_internal.flow_state (flow_id, phase, begin_version, begin_timestamp, watermark_version,
        watermark_timestamp, failed_phase, last_error, last_error_at)
    SELECT f.flow_id, 'failed', fail_unmet_controls.version, at, fail_unmet_controls.version, at, 'copy', why,
        clock_timestamp()
    FROM scd2_internal.control c JOIN scd2_internal.flow f USING (flow_id)
    WHERE c.kind = 'begin flow' AND NOT c.settled
    ON CONFLICT DO NOTHING;
    UPDATE scd2_internal.control c SET settled = true WHERE NOT c.settled;
END $$;
COMMENT ON FUNCTION scd2_internal.fail_unmet_controls(bigint, timestamptz, text) IS
    'Settles the control records that were lost with the log.';

-- The next worker makes a slot of another name, and goes on counting.
CREATE FUNCTION scd2_internal.begin_position(version bigint, at timestamptz) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE scd2_internal.position SET version = begin_position.version, commit_timestamp = at, captured_lsn = NULL,
        database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()),
        system_identifier = (SELECT c.system_identifier FROM pg_control_system() c),
        slot = format('pg_scd2_%s_%s', (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()),
            substr(md5(gen_random_uuid()::text), 1, 8))
$$;
COMMENT ON FUNCTION scd2_internal.begin_position(bigint, timestamptz) IS
    'Makes the position one of this database that has no slot yet.';

-- Whether nothing was written since the position only the caller can know; what can be seen is checked.
CREATE FUNCTION scd2_internal.check_no_gap(p scd2_internal.position, unbegun bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF scd2_internal.position_foreign(p) IS NULL THEN
        PERFORM scd2_internal.refuse('55000', format('changes of database "%s" were lost', current_database()),
            'no_gap => true is for databases that were upgraded or restored, and not written meanwhile.',
            'SELECT scd2.resume_capture();');
    ELSIF unbegun > 0 THEN
        PERFORM scd2_internal.refuse('55000',
            format('not everything was captured when database "%s" was stopped or dumped', current_database()),
            'Feeds were enabled, altered or disabled, or flows begun, that capture had not met.',
            'SELECT scd2.resume_capture(); -- or go back, and do SELECT scd2.sync(); first');
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_no_gap(scd2_internal.position, bigint) IS
    'Errors: 55000 for a position of this database, or if control records were not met.';

CREATE FUNCTION scd2_internal.lose_position(why text) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    p scd2_internal.position;
    next_version bigint;
    at timestamptz;
BEGIN
    SELECT * INTO p FROM scd2_internal.position;
    next_version := p.version + CASE WHEN EXISTS (SELECT FROM scd2_internal.feed_state WHERE state = 'running') THEN 1
        ELSE 0 END;
    at := greatest(p.commit_timestamp + interval '1 microsecond', clock_timestamp());
    DELETE FROM scd2_internal.control c WHERE c.settled;        -- of a log that is lost twice
    UPDATE scd2_internal.feed_state SET state = 'failed',
        gap = int8range(least(lower(gap), p.version + 1), NULL), broken_at = least(broken_at, p.version + 1),
        resync_version = NULL,
        error = format('changes were lost: %s', why), error_at = clock_timestamp()
        WHERE state = 'running';
    PERFORM scd2_internal.fail_unmet_controls(next_version, at, format('changes were lost: %s', why));
    PERFORM scd2_internal.begin_position(next_version, at);
    RETURN p.version + 1;
END $$;
COMMENT ON FUNCTION scd2_internal.lose_position(text) IS
    'Declares the gap of every feed that runs, and has the position begin anew. Returns the first version that is '
    'missing. The caller has locked the position.';

CREATE FUNCTION scd2.resume_capture(no_gap boolean DEFAULT false) RETURNS void AS 'MODULE_PATHNAME',
    'scd2_call_internal' LANGUAGE C;
-- A restore can bring targets under other owners than their flows were written for.
CREATE FUNCTION scd2_internal.warn_of_unauthorized() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    w record;
BEGIN
    FOR w IN SELECT f.name, f.author::oid AS author, c.oid::regclass AS target, c.relowner FROM scd2_internal.flow f
             JOIN pg_class c ON c.oid = f.target_relid WHERE c.relowner <> f.author::oid ORDER BY f.name LOOP
        RAISE WARNING 'flow "%" is not authorized and does not run: its target % belongs to role "%"', w.name, w.target, pg_get_userbyid(w.relowner)
            USING DETAIL = CASE WHEN w.author = 0 THEN 'Whom it was written for is not known here.' ELSE format('It was written for role "%s".', pg_get_userbyid(w.author)) END,
                  HINT = format('SELECT * FROM scd2.authorize_flow(%L); -- shows what will run as that role, which it is for to say', w.name);
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.warn_of_unauthorized() IS 'A WARNING for each flow whose target has another owner than it was written for';

-- A gap that nobody expects who says that there is none.
CREATE FUNCTION scd2_internal.warn_of_waiting() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed;
BEGIN
    FOR f IN SELECT x.* FROM scd2_internal.feed x JOIN scd2_internal.feed_state s USING (feed_id)
             WHERE s.state = 'failed' AND s.error = 'changes waited to be written when the dump was made' ORDER BY x.feed_id LOOP
        RAISE WARNING 'changes of table "%" waited to be written into its feed when the dump was made, which lacks them', scd2_internal.label(f.source_relid)
            USING HINT = scd2_internal.repair_statement(f);
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.warn_of_waiting() IS 'A WARNING for each feed that has a gap since a dump leaves out what waits';

CREATE FUNCTION scd2_internal.resume_capture(caller oid, no_gap boolean) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    p scd2_internal.position;
    why text;
    unbegun bigint;
BEGIN
    LOCK TABLE scd2_internal.position IN ACCESS EXCLUSIVE MODE;
    SELECT * INTO p FROM scd2_internal.position;
    why := scd2_internal.position_lost(p);
    IF why IS NULL THEN
        RAISE NOTICE 'capture of database "%" has nothing to resume from', current_database()
            USING DETAIL = 'Its place in the log is not lost.', HINT = 'SELECT * FROM scd2.diagnose();';
        RETURN;
    END IF;
    unbegun := CASE WHEN p.home <> scd2_internal.home() THEN scd2_internal.come_home(p)
        ELSE (SELECT count(*) FROM scd2_internal.control c WHERE NOT c.settled) END;
    PERFORM scd2_internal.new_home() WHERE scd2_internal.position_foreign(p) IS NOT NULL;
    IF no_gap THEN
        PERFORM scd2_internal.check_no_gap(p, unbegun);
        PERFORM scd2_internal.begin_position(p.version, p.commit_timestamp);
        PERFORM scd2_internal.warn_of_waiting();
    ELSE
        PERFORM scd2_internal.lose_position(why);
    END IF;
    PERFORM scd2_internal.warn_of_unauthorized();
    PERFORM scd2_internal.workers_changed();
    PERFORM scd2_internal.switch_workers(false);       -- after scd2.stop() too
END $$;
COMMENT ON FUNCTION scd2.resume_capture(boolean) IS
    'Has a copy of a database or a restored one capture: each feed that ran gets a declared gap, which scd2.resync() '
    'repairs. no_gap => true, after pg_upgrade or a restore, if nothing was written since scd2.sync() returned before: '
    'feeds and flows go on as they were (a WARNING for each feed whose changes waited to be written when a dump was made: it has a gap). A NOTICE if nothing is lost. For superusers and those they grant it to. '
    'Errors: 55000 no_gap where something is lost.';
COMMENT ON FUNCTION scd2_internal.resume_capture(oid, boolean) IS 'Privileged twin of scd2.resume_capture.';
REVOKE EXECUTE ON FUNCTION scd2.resume_capture(boolean) FROM public;
