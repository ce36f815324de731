-- 61_diagnose.sql: what is wrong, and the statement that helps.
--
-- preflight looks at the server's settings, diagnose at everything. Each fix works when it is pasted; where the server
-- must be restarted for it, a comment in it says so.

-- A list setting with one more name, as ALTER SYSTEM takes it: one literal per name.
CREATE FUNCTION scd2_internal.setting_with_us(setting text) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(string_agg(quote_literal(btrim(n, ' "')), ', ' ORDER BY o) || ', ', '') || '''pg_scd2'''
    FROM regexp_split_to_table(nullif(current_setting(setting, true), ''), ',') WITH ORDINALITY x (n, o)
$$;
COMMENT ON FUNCTION scd2_internal.setting_with_us(text) IS
    'A list setting with pg_scd2 in it, as ALTER SYSTEM takes it.';

CREATE FUNCTION scd2_internal.setting_lists_us(setting text) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(bool_or(btrim(n, ' "') IN ('pg_scd2', '$libdir/pg_scd2', '*')), false)
        FROM regexp_split_to_table(current_setting(setting, true), ',') n
$$;
COMMENT ON FUNCTION scd2_internal.setting_lists_us(text) IS 'Whether a list setting has pg_scd2 in it.';

-- The statements that make a publication which takes in everything one that names its tables: those of the user's that
-- it has now.
CREATE FUNCTION scd2_internal.named_publication(publication name, kind text) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH tables AS (
        SELECT string_agg(format('%I.%I', t.schemaname, t.tablename), ', ' ORDER BY t.schemaname, t.tablename) AS list
        FROM pg_publication_tables t JOIN pg_namespace n ON n.nspname = t.schemaname
            JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
        WHERE t.pubname = publication AND n.nspname NOT IN ('scd2', 'scd2_internal')
          AND NOT EXISTS (SELECT FROM scd2_internal.feed f WHERE c.oid = f.feed_relid
              OR c.oid IN (SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = f.feed_relid))
          AND NOT EXISTS (SELECT FROM scd2_internal.flow w WHERE w.target_relid = c.oid))
    SELECT CASE kind WHEN 'FOR ALL TABLES' THEN
               format('BEGIN; DROP PUBLICATION %I; CREATE PUBLICATION %1$I%s '
                      'WITH (publish = %L, publish_via_partition_root = %s); COMMIT;',
                      p.pubname, ' FOR TABLE ' || tables.list,
                      concat_ws(', ', CASE WHEN p.pubinsert THEN 'insert' END, CASE WHEN p.pubupdate THEN 'update' END,
                          CASE WHEN p.pubdelete THEN 'delete' END, CASE WHEN p.pubtruncate THEN 'truncate' END),
                      p.pubviaroot::text)
           ELSE format('ALTER PUBLICATION %I SET TABLE %s;', p.pubname, tables.list) END
    FROM pg_publication p, tables WHERE p.pubname = publication
$$;
COMMENT ON FUNCTION scd2_internal.named_publication(name, text) IS
    'Statements that let a publication name the user''s tables that it has now, instead of taking in new ones by '
    'itself. NULL if it has none.';

CREATE FUNCTION scd2.preflight() RETURNS TABLE (setting text, current text, required text, ok boolean, fix text)
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STABLE;
CREATE FUNCTION scd2_internal.preflight(caller oid)
    RETURNS TABLE (setting text, current text, required text, ok boolean, fix text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH own AS (
        SELECT (SELECT count(*) FROM pg_replication_slots) AS slots,
               EXISTS (SELECT FROM pg_replication_slots r
                   JOIN scd2_internal.position p ON p.slot = r.slot_name) AS has_slot,
               current_setting('max_replication_slots')::integer AS max_slots,
               current_setting('max_worker_processes')::integer AS max_workers,
               coalesce(current_setting('pg_scd2.max_apply_workers', true), '2')::integer + 2 AS workers,
               coalesce((SELECT s.pid IS NOT NULL AND cardinality(s.apply_pids) > 0
                   FROM scd2_internal.capture_status() s), false) AS works,
               coalesce((SELECT s.pid IS NULL AND s.error LIKE 'no free background worker%'
                   FROM scd2_internal.capture_status() s), false) AS starved),
    checks (rank, setting, current, required, ok, fix) AS (
        SELECT 1, 'shared_preload_libraries', current_setting('shared_preload_libraries'), 'pg_scd2 among them',
            scd2_internal.setting_lists_us('shared_preload_libraries'),
               format('ALTER SYSTEM SET shared_preload_libraries = %s; -- then restart the server',
                   scd2_internal.setting_with_us('shared_preload_libraries'))
        UNION ALL
        SELECT 2, 'wal_level', current_setting('wal_level'), 'logical', current_setting('wal_level') = 'logical',
               'ALTER SYSTEM SET wal_level = ''logical''; -- then restart the server'
        UNION ALL
        SELECT 3, 'output_plugin_libraries', current_setting('output_plugin_libraries'), 'pg_scd2 among them',
            scd2_internal.setting_lists_us('output_plugin_libraries'),
               format('ALTER SYSTEM SET output_plugin_libraries = %s; SELECT pg_reload_conf();',
                   scd2_internal.setting_with_us('output_plugin_libraries'))
        FROM pg_settings s WHERE s.name = 'output_plugin_libraries'
        UNION ALL
        SELECT 4, 'max_replication_slots', format('%s, %s in use', max_slots, slots),
            'one for each database that captures', has_slot OR slots < max_slots,
               format('ALTER SYSTEM SET max_replication_slots = %s; -- then restart the server', slots + 4)
        FROM own
        UNION ALL
        SELECT 5, 'max_worker_processes', max_workers::text, format('at least %s, and those of others', workers), works
            OR max_workers >= workers AND NOT starved,
               format('ALTER SYSTEM SET max_worker_processes = %s; -- then restart the server',
                   greatest(16, max_workers + workers))
        FROM own
        UNION ALL
        SELECT 6, 'pg_scd2.enabled', coalesce(current_setting('pg_scd2.enabled', true), 'on'), 'on',
            coalesce(current_setting('pg_scd2.enabled', true), 'on') = 'on',
               'ALTER SYSTEM SET pg_scd2.enabled = on; SELECT pg_reload_conf();'
        UNION ALL
        SELECT 7, 'in_hot_standby', CASE WHEN pg_is_in_recovery() THEN 'on' ELSE 'off' END,
            'off: capture begins when the standby is promoted', NOT pg_is_in_recovery(), 'SELECT pg_promote();'
        UNION ALL
        SELECT DISTINCT ON (p.publication) 8, format('publication %I', p.publication), p.kind,
            'names its tables, if its subscribers have no feeds and targets', false,
            scd2_internal.named_publication(p.publication, p.kind)
        FROM scd2_internal.feed f JOIN pg_class c ON c.oid = f.feed_relid,
            scd2_internal.catch_all_publications(c.relnamespace) p WHERE NOT f.disabled)
    SELECT c.setting, c.current, c.required, c.ok, CASE WHEN NOT c.ok THEN c.fix END FROM checks c ORDER BY c.rank,
        c.setting
$$;
COMMENT ON FUNCTION scd2.preflight() IS
    'Whether this server''s settings let pg_scd2 work: each setting, what it is, what it must be, whether that is so, '
    'and the statement that changes it.';

-- It ends in its own database only.
CREATE FUNCTION scd2_internal.end_prepared(gid text, database name) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('ROLLBACK PREPARED %L; -- or COMMIT PREPARED', gid)
        || CASE WHEN database <> current_database() THEN format(', in database "%s"', database) ELSE '' END
$$;
COMMENT ON FUNCTION scd2_internal.end_prepared(text, name) IS 'The statement that ends a prepared transaction.';

-- The capture worker.
CREATE FUNCTION scd2_internal.capture_problems(see_errors boolean) RETURNS TABLE (problem text, detail text, fix text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH s AS (SELECT c.*, coalesce((SELECT w.stopped FROM scd2_internal.switch w), false) AS stopped, p.slot
               FROM scd2_internal.capture_status() c LEFT JOIN scd2_internal.position p ON p.singleton),
    lost AS (
        SELECT p.slot, coalesce(r.wal_status, 'gone') AS what
        FROM scd2_internal.position p LEFT JOIN pg_replication_slots r ON r.slot_name = p.slot
        WHERE p.captured_lsn IS NOT NULL AND (r.slot_name IS NULL OR r.wal_status = 'lost') AND scd2_internal.position_foreign(p) IS NULL),
    blocker AS (
        SELECT a.pid, a.state, scd2_internal.age_text(a.xact_start) AS age
        FROM s, unnest(pg_blocking_pids(s.pid)) b JOIN pg_stat_activity a ON a.pid = b LIMIT 1),
    writer AS (
        SELECT a.pid, a.state, scd2_internal.age_text(a.xact_start) AS age
        FROM pg_stat_activity a WHERE a.backend_xid IS NOT NULL AND a.pid <> pg_backend_pid() ORDER BY a.xact_start
            LIMIT 1)
    SELECT 'the workers of this database are stopped', format('The slot "%s" holds back WAL meanwhile.', s.slot),
        'SELECT scd2.start();' FROM s WHERE s.stopped
    UNION ALL
    SELECT 'no worker captures changes', initcap(left(s.error, 1)) || substr(s.error, 2) || '.',
        format('ALTER SYSTEM SET pg_scd2.max_databases = %s; -- then restart the server', 2 * current_setting('pg_scd2.max_databases')::integer)
    FROM s WHERE s.error LIKE 'no entry for this database%' AND NOT s.stopped
    UNION ALL
    SELECT 'no worker captures changes', 'The launcher starts one when it is asked to.', 'SELECT scd2.start();'
    FROM s WHERE s.state = 'off' AND (s.error LIKE 'no entry for this database%') IS NOT TRUE AND NOT s.stopped AND scd2_internal.setting_lists_us('shared_preload_libraries')
        AND NOT pg_is_in_recovery()
             AND current_setting('pg_scd2.enabled', true) = 'on'
    UNION ALL
    SELECT 'the capture worker fails', CASE WHEN see_errors THEN s.error END,
        'SELECT scd2.start(); -- tries again at once, when the cause is removed' FROM s WHERE s.state = 'failed'
        AND NOT s.stopped
             AND s.error NOT LIKE 'no free background worker%' -- preflight() has it
             AND NOT EXISTS (SELECT FROM lost)
    UNION ALL
    SELECT 'an apply worker fails', CASE WHEN see_errors THEN s.apply_error END,
        'SELECT scd2.start(); -- tries again at once, when the cause is removed'
    FROM s WHERE s.apply_error IS NOT NULL AND NOT s.stopped
        AND cardinality(s.apply_pids) < current_setting('pg_scd2.max_apply_workers')::integer
    UNION ALL
    SELECT 'capture waits for transactions to end before it can begin',
        format('Process %s (%s) has had a transaction open for %s.', w.pid, w.state, w.age),
        format('SELECT pg_terminate_backend(%s);', w.pid)
    FROM s, writer w WHERE s.state = 'creating slot'
    UNION ALL
    SELECT 'capture waits for a prepared transaction to end before it can begin',
        format('Prepared transaction "%s" is there since %s.', x.gid, x.prepared),
        scd2_internal.end_prepared(x.gid, x.database)
    FROM s, pg_prepared_xacts x WHERE s.state = 'creating slot'
    UNION ALL
    SELECT 'capture waits for a lock',
        format('Process %s (%s) has had a transaction open for %s.', b.pid, b.state, b.age),
        format('SELECT pg_terminate_backend(%s);', b.pid) FROM blocker b
    UNION ALL
    SELECT format('only %s of %s apply workers run', cardinality(s.apply_pids),
        current_setting('pg_scd2.max_apply_workers')),
           'The server has no more background workers to give: first copies wait, and flows are slower.',
           format('ALTER SYSTEM SET max_worker_processes = %s; -- then restart the server',
               current_setting('max_worker_processes')::integer + 8)
    FROM s WHERE s.state = 'running'
        AND cardinality(s.apply_pids) < current_setting('pg_scd2.max_apply_workers')::integer AND NOT s.stopped
        AND s.apply_error IS NULL
             -- not while they start
             AND EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = s.pid
                 AND a.backend_start < clock_timestamp() - interval '10 s')
    UNION ALL
    SELECT 'the replication slot is lost',
        format('Slot "%s": %s. When capture runs, it makes another, and each feed gets a gap.', l.slot, l.what),
        'SELECT scd2.start();'
    FROM lost l
    UNION ALL
    SELECT 'nothing is captured here', scd2_internal.position_foreign(p) || ' that was captured.', 'SELECT scd2.resume_capture();'
    FROM scd2_internal.position p WHERE scd2_internal.position_foreign(p) IS NOT NULL
    UNION ALL
    SELECT 'the replication slot is about to be lost',
        format('Slot "%s" holds back more WAL than max_slot_wal_keep_size allows.', s.slot),
        'ALTER SYSTEM SET max_slot_wal_keep_size = -1; SELECT pg_reload_conf();'
    FROM s JOIN pg_replication_slots r ON r.slot_name = s.slot WHERE r.wal_status = 'unreserved'
$$;
COMMENT ON FUNCTION scd2_internal.capture_problems(boolean) IS
    'Part of diagnose: what keeps changes from being captured.';

-- Where feed and source cannot be compared, the feed begins anew. Flows over it are dropped, since they lack what the
-- feed lacks; their targets stay.
CREATE FUNCTION scd2_internal.repair_statement(f scd2_internal.feed) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH e AS (SELECT f.except_columns
        || ARRAY(SELECT c.name FROM scd2_internal.feed_columns(f.source_relid, f.except_columns) c
        GROUP BY c.name HAVING count(*) > 1) AS excepted)
    SELECT CASE WHEN scd2_internal.resync_obstacle(f) IS NULL
        THEN format('SELECT scd2.resync(%L);', f.source_relid::regclass)
           ELSE coalesce((SELECT string_agg(format('SELECT scd2.drop_flow(%L);', w.name), ' ' ORDER BY w.flow_id) || ' '
               FROM scd2_internal.flow w WHERE w.feed_id = f.feed_id), '')
                || format('SELECT scd2.disable_change_feed(%L); ', f.source_relid::regclass)
                || scd2_internal.enable_statement(f.source_relid, f.retention, e.excepted,
                       CASE WHEN EXISTS (SELECT FROM pg_class c WHERE c.oid = f.feed_relid)
                           AND scd2_internal.layout_misfit(f.source_relid, e.excepted, f.feed_relid) IS NOT NULL
                            THEN scd2_internal.generated_name(f.feed_name, '2') END) || ';' END
    FROM e
$$;
COMMENT ON FUNCTION scd2_internal.repair_statement(scd2_internal.feed) IS
    'The statement that repairs a feed with a gap.';

CREATE FUNCTION scd2_internal.feed_problems()
    RETURNS TABLE (owner oid, source text, problem text, error text, detail text, fix text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH f AS (
        SELECT s.*, coalesce(c.oid::regclass::text, format('%I.%I', s.source_schema, s.source_name)) AS name,
            s.source_there AS there, c.relpersistence,
               (SELECT scd2_internal.repair_statement(d) FROM scd2_internal.feed d WHERE d.feed_id = s.feed_id
                   AND (s.captured = 'failed' OR s.gap IS NOT NULL)) AS repair
        FROM scd2_internal.feed_status s LEFT JOIN pg_class c ON c.oid = s.source_relid WHERE NOT s.disabled)
    SELECT f.owner, f.name, 'its change data feed has failed', f.error, NULL, f.repair FROM f
        WHERE f.captured = 'failed' AND f.there IS NOT NULL
    UNION ALL
    SELECT f.owner, f.name, 'its change data feed has a gap', NULL,
        format('Changes of versions %s were not recorded.', f.gap), f.repair
    FROM f WHERE upper_inf(f.gap) AND f.captured <> 'failed' AND f.there IS NOT NULL AND f.resync_version IS NULL
    UNION ALL
    SELECT f.owner, f.name, format('its reader "%s" %s', r.name, CASE
               WHEN r.expired_at IS NOT NULL THEN format('has expired: it was at version %s', r.version)
               ELSE 'keeps changes that are older than the retention of the feed' END),
        NULL, format('It was used last at %s.', r.used_at), format('SELECT scd2.drop_reader(%L);', r.name)
    FROM f JOIN scd2_internal.reader r ON r.feed_id = f.feed_id
    WHERE r.expired_at IS NOT NULL OR r.version < f.latest_version AND r.used_at < clock_timestamp()
        - scd2_internal.bounded(coalesce(f.retention, current_setting('pg_scd2.feed_retention', true)::interval))
    UNION ALL
    SELECT f.owner, f.name, 'it was dropped, its change data feed is still there', NULL, NULL,
           concat_ws(' ', (SELECT string_agg(format('SELECT scd2.drop_flow(%L);', w.name), ' ' ORDER BY w.flow_id)
               FROM scd2_internal.flow w WHERE w.feed_id = f.feed_id),
                     format('SELECT scd2.disable_change_feed(%L);', c.oid::regclass))
    FROM f JOIN pg_class c ON c.oid = f.feed_relid WHERE f.there IS NULL
    UNION ALL
    SELECT f.owner, f.name, format('its change data feed "%s.%s" was dropped', f.feed_schema, f.feed_name), NULL, NULL,
        (SELECT scd2_internal.repair_statement(d) FROM scd2_internal.feed d WHERE d.feed_id = f.feed_id)
    FROM f WHERE f.feed_there IS NULL AND f.there IS NOT NULL AND f.captured <> 'failed'
    UNION ALL
    SELECT f.owner, f.name, format('its change data feed belongs to role "%s"', pg_get_userbyid(c.relowner)), NULL, NULL,
        (SELECT string_agg(format('ALTER TABLE %s OWNER TO %I;', r::regclass, pg_get_userbyid(f.owner)), ' ' ORDER BY r)
         FROM (SELECT f.feed_relid AS r UNION ALL SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = f.feed_relid) x)
    FROM f JOIN pg_class c ON c.oid = f.feed_relid WHERE f.there IS NOT NULL AND c.relowner <> f.owner
    UNION ALL
    SELECT f.owner, f.name, format('%s stands on its change data feed', u.what), NULL, u.why, u.fix
    FROM f, scd2_internal.unfit_on_feed(f.feed_there) u WHERE f.there IS NOT NULL
    UNION ALL
    SELECT f.owner, f.name, format('its changes since version %s wait to be written into its feed', f.complete_version + 1), NULL,
        format('%s. %s since %s; more than pg_scd2.feed_backlog (%s) will be a gap.', upper(left(w.why, 1)) || rtrim(substr(w.why, 2), '.'), pg_size_pretty(f.backlog_bytes), f.waits_since,
            current_setting('pg_scd2.feed_backlog', true)), w.fix
    FROM f JOIN scd2_internal.feed d USING (feed_id), scd2_internal.feed_waits_for(d) w WHERE f.complete_version IS NOT NULL
    UNION ALL
    SELECT f.owner, f.name, CASE u.chore WHEN 'f' THEN 'its change data feed cannot be looked after'
            WHEN 's' THEN 'a BRIN index of its change data feed cannot be summarised: reads of new changes are slow'
            WHEN 'c' THEN 'the last partition of its change data feed cannot be cut: nothing of it can be removed'
            ELSE 'old changes cannot be removed from its change data feed' END, u.error,
        NULL, CASE u.chore WHEN 'r' THEN format('SELECT * FROM scd2.vacuum_feed(%L);', f.name) END
    FROM f JOIN scd2_internal.upkeep_error u USING (feed_id)
    WHERE u.chore <> 's' OR EXISTS (SELECT FROM pg_class c WHERE c.oid = u.id)
    UNION ALL
    SELECT f.owner, f.name, 'it is unlogged, so its changes are not captured', NULL, NULL,
        format('ALTER TABLE %s SET LOGGED;', f.name) FROM f WHERE f.relpersistence = 'u'
    UNION ALL
    SELECT f.owner, f.name, 'its replica identity is not FULL, so its changes cannot be captured whole', NULL,
        format('Table "%s".', scd2_internal.label(c.oid)),
           format('ALTER TABLE %s REPLICA IDENTITY FULL;', c.oid::regclass)
    FROM f, scd2_internal.leaves(f.there) l JOIN pg_class c ON c.oid = l WHERE c.relreplident <> 'f'
    UNION ALL
    SELECT f.owner, f.name, format('publication "%s" makes its updates and deletes fail: %s', b.publication, b.reason),
        NULL, 'A feed needs REPLICA IDENTITY FULL.', b.fix
    FROM f, scd2_internal.leaves(f.there) l, scd2_internal.breaking_publication(l) b WHERE b.publication IS NOT NULL
    UNION ALL
    SELECT f.owner, f.name, 'the guard of its change data feed is off: others can write into it', NULL,
        format('Table "%s".', scd2_internal.label(r.oid)),
           format('ALTER TABLE %s ENABLE ALWAYS TRIGGER scd2_guard;', r.oid::regclass)
    FROM f, (SELECT i.inhparent, i.inhrelid AS oid FROM pg_inherits i UNION ALL SELECT c.oid, c.oid FROM pg_class c) r
        JOIN pg_trigger t ON t.tgrelid = r.oid
    WHERE r.inhparent = f.feed_relid AND t.tgname = 'scd2_guard' AND t.tgenabled <> 'A'
$$;
COMMENT ON FUNCTION scd2_internal.feed_problems() IS 'Part of diagnose: what is wrong with feeds.';

CREATE FUNCTION scd2_internal.hand_over(w scd2_internal.flow, owner oid) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('ALTER TABLE %s OWNER TO %I; SELECT * FROM scd2.authorize_flow(%s);', w.target_relid::regclass, pg_get_userbyid(owner),
        (SELECT string_agg(quote_literal(f.name), ', ' ORDER BY f.flow_id) FROM scd2_internal.flow f WHERE f.target_relid = w.target_relid))
$$;
COMMENT ON FUNCTION scd2_internal.hand_over(scd2_internal.flow, oid) IS
    'Statements that give the target of a flow to a role, which has a look at what will run as it';

-- A flow reads with the rights of its target's owner: these may have been revoked, or the source may have got another
-- owner, who has the second way as well.
CREATE FUNCTION scd2_internal.rights_remedy(w scd2_internal.flow) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH lacking AS (
        SELECT t.relowner AS role, r.oid, r.relowner, r.relnamespace::regnamespace AS schema, NOT has_table_privilege(t.relowner, r.oid, 'SELECT') AS rows,
            NOT has_schema_privilege(t.relowner, r.relnamespace, 'USAGE') AS names
        FROM pg_class t, pg_class r
        WHERE t.oid = w.target_relid
          AND r.oid IN (w.source_relid::oid, (SELECT d.feed_relid::oid FROM scd2_internal.feed d WHERE d.feed_id = w.feed_id)))
    SELECT concat_ws(' ', 'GRANT USAGE ON SCHEMA ' || string_agg(DISTINCT l.schema::text, ', ') FILTER (WHERE l.names) || format(' TO %I;', pg_get_userbyid(l.role)),
        'GRANT SELECT ON ' || string_agg(l.oid::regclass::text, ', ' ORDER BY l.oid) FILTER (WHERE l.rows) || format(' TO %I;', pg_get_userbyid(l.role)),
        format('SELECT scd2.resume_flow(%L); -- or: %s', w.name, scd2_internal.hand_over(w, min(l.relowner))))
    FROM lacking l WHERE l.rows OR l.names
    GROUP BY l.role
    UNION ALL
    SELECT format('%s -- or, if that role is to be trusted: SELECT scd2.alter_flow(%L, trust => true); SELECT scd2.resume_flow(%2$L);', scd2_internal.hand_over(w, min(l.relowner)), w.name)
    FROM lacking l JOIN pg_roles h ON h.oid = l.role JOIN pg_roles o ON o.oid = l.relowner
    WHERE h.rolsuper AND NOT o.rolsuper AND NOT w.trusted
    HAVING count(*) > 0
    LIMIT 1
$$;
COMMENT ON FUNCTION scd2_internal.rights_remedy(scd2_internal.flow) IS
    'Statements that let a flow read what it reads, or give its target to the owner of that, or trust him; NULL: it may';

-- What runs as the owner of a target that changes hands, shown before it does.
CREATE FUNCTION scd2_internal.code_text(w scd2_internal.flow) RETURNS text
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce('As its owner would run: ' || string_agg(format('%s %s: %s', c.kind, c.object, c.definition) || CASE WHEN c.owner IS NULL THEN '' ELSE format(' (calls what role "%s" owns)', c.owner) END, '; ' ORDER BY c.kind, c.object, c.owner) || '.',
        'It has no expressions, and nothing hangs on its target.')
    FROM scd2_internal.code_of_flow(w) c
$$;
COMMENT ON FUNCTION scd2_internal.code_text(scd2_internal.flow) IS 'Part of diagnose: what a flow would run as the owner of its target';

-- A flow over snapshots reads its source's columns by their names: that may be another relation each time.
CREATE FUNCTION scd2_internal.snapshot_columns_remedy(w scd2_internal.flow) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH c AS (
        SELECT n.name, n.n, a.attnum, s.attnum AS there, t.base <> b.base OR t.base_typmod <> b.base_typmod AS other, format_type(b.base, b.base_typmod) AS type
        FROM unnest(w.columns) WITH ORDINALITY n (name, n)
            LEFT JOIN pg_attribute a ON a.attrelid = w.target_relid AND a.attname = n.name AND NOT a.attisdropped
            LEFT JOIN pg_attribute s ON s.attrelid = w.source_relid AND s.attname = n.name AND NOT s.attisdropped
            LEFT JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) t ON true
            LEFT JOIN LATERAL scd2_internal.base_type(s.atttypid, s.atttypmod) b ON true
        WHERE n.name <> ALL (w.absent))
    SELECT coalesce(
        (SELECT format('SELECT scd2.drop_flow(%1$L); -- and create it anew, or, when %2$s again has column "%3$s": SELECT scd2.resume_flow(%1$L);', w.name, w.source_relid::regclass, c.name)
         FROM c WHERE c.there IS NULL ORDER BY c.n LIMIT 1),
        (SELECT string_agg(format('ALTER TABLE %s ALTER COLUMN %I TYPE %s;', w.target_relid::regclass, c.name, c.type), ' ' ORDER BY c.n) || format(' SELECT scd2.resume_flow(%L);', w.name)
         FROM c WHERE c.other))
    WHERE w.kind = 'snapshot'
$$;
COMMENT ON FUNCTION scd2_internal.snapshot_columns_remedy(scd2_internal.flow) IS
    'Statements for a flow over snapshots whose source lacks a column that it keeps, or has one of another type; NULL: neither';

CREATE FUNCTION scd2_internal.flow_problems()
    RETURNS TABLE (owner oid, flow name, problem text, error text, detail text, fix text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH w AS (
        SELECT w.name, w.paused, w.author, (SELECT t.relowner FROM pg_class t WHERE t.oid = w.target_relid) AS holder, w.flow_id AS id, w.kind, w.max_lateness, w.version_query, w.source_schema, w.source_name, NOT EXISTS (SELECT FROM pg_class sc WHERE sc.oid = w.source_relid) AS source_gone, w.feed_id, w.target_schema, w.target_name, c.oid AS there,
            c.relname, scd2_internal.flow_owner(w) AS relowner,
               scd2_internal.snapshot_columns_remedy(w) AS columns_remedy,
               scd2_internal.rights_remedy(w) AS rights,
               (SELECT string_agg(u, ', ' ORDER BY o) FROM unnest(w.columns) WITH ORDINALITY AS c (u, o), pg_class sc
                WHERE sc.oid = w.source_relid
                    AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = sc.oid AND a.attname = u
                    AND a.attnum > 0 AND NOT a.attisdropped)
                    AND NOT EXISTS (SELECT FROM scd2_internal.followed_columns(w.feed_id) r WHERE r.name = u AND r.until IS NOT NULL)) AS lacking, s.*
        FROM scd2_internal.flow w LEFT JOIN scd2_internal.flow_state s USING (flow_id)
            LEFT JOIN pg_class c ON c.oid = w.target_relid)
    SELECT w.relowner, w.name, 'it has failed', w.last_error,
        format('It stopped after version %s.', CASE w.kind WHEN 'snapshot' THEN coalesce(w.snapshot_version, 'none')
        ELSE w.watermark_version::text END),
           -- a snapshot that was refused because of what it would delete
           CASE WHEN w.kind = 'snapshot' AND w.last_error LIKE '55000: snapshot of flow %'
               THEN format('SELECT * FROM scd2.apply_snapshot(%L, (%s), allow_deletes => true);', w.name,
               coalesce(w.version_query, 'now()'))
                WHEN w.last_error LIKE '55000: flow % cannot follow its source %'
                THEN substring(w.last_error FROM ' Remedy: (.*)$')
                WHEN w.last_error LIKE '42501: %' AND w.rights IS NOT NULL THEN w.rights
                WHEN w.last_error ~ '^(42703|42804): ' AND w.columns_remedy IS NOT NULL THEN w.columns_remedy
                ELSE format('SELECT scd2.resume_flow(%L);', w.name) END
    FROM w WHERE w.phase = 'failed' AND w.there IS NOT NULL AND w.author::oid = w.holder
    UNION ALL
    SELECT w.relowner, w.name, 'it fails and is tried again', w.last_error,
        format('Failures in a row: %s; next try at %s.', w.failures, w.retry_at),
        coalesce(CASE WHEN w.last_error LIKE '42501: %' THEN w.rights
                      WHEN w.last_error ~ '^(42703|42804): ' THEN w.columns_remedy END,
            format('SELECT scd2.resume_flow(%L);', w.name))
    FROM w WHERE w.phase <> 'failed' AND w.failures > 0 AND w.there IS NOT NULL AND w.author::oid = w.holder
    UNION ALL
    SELECT w.relowner, w.name, format('it is not authorized: its target belongs to role "%s", and it was written for %s', pg_get_userbyid(w.holder),
        CASE WHEN w.author::oid = 0 THEN 'a role that is not known here' ELSE format('role "%s"', pg_get_userbyid(w.author)) END), NULL,
        (SELECT scd2_internal.code_text(f) FROM scd2_internal.flow f WHERE f.flow_id = w.id),
        format('SELECT * FROM scd2.authorize_flow(%L);', w.name)
    FROM w WHERE w.author::oid <> w.holder
    UNION ALL
    SELECT w.relowner, w.name, 'it rejected events', last.reason,
        format('%s were too late and %s invalid so far, the last at %s.', w.too_late, w.rejected, last.rejected_at),
        format('SELECT * FROM scd2.rejected_events WHERE flow = %L ORDER BY rejected_at DESC;', w.name)
            || CASE WHEN last.reason LIKE 'too late: the horizon %' AND w.max_lateness IS NOT NULL
                THEN format(' -- if the horizon is ahead: SELECT scd2.alter_flow(%L, max_lateness => %L);', w.name, w.max_lateness) ELSE '' END
    FROM w CROSS JOIN LATERAL (SELECT r.reason, r.rejected_at FROM scd2_internal.rejected r WHERE r.flow_id = w.id ORDER BY r.rejected_id DESC LIMIT 1) last
    WHERE w.too_late + w.rejected > 0 AND last.rejected_at > clock_timestamp() - interval '1 day'
    UNION ALL
    SELECT w.relowner, w.name, 'it is paused', NULL, CASE w.kind WHEN 'snapshot' THEN 'It takes no snapshots.'
        ELSE 'Its feed keeps what it has not applied.' END, format('SELECT scd2.resume_flow(%L);', w.name) FROM w
        WHERE w.paused AND w.phase IS DISTINCT FROM 'failed' AND w.there IS NOT NULL
    UNION ALL
    SELECT w.relowner, w.name, 'its source lacks columns that it keeps', NULL,
        format('Dropped or renamed, and NULL in the target since: %s.', w.lacking),
           format('SELECT scd2.drop_flow(%L); ALTER TABLE %s RENAME TO %I; -- then track the table anew', w.name,
               w.there::regclass, scd2_internal.generated_name(w.relname, 'old'))
    FROM w WHERE w.lacking IS NOT NULL AND w.there IS NOT NULL
    UNION ALL
    SELECT w.relowner, w.name, format('its source "%s.%s" was dropped', w.source_schema, w.source_name), NULL, NULL, format('SELECT scd2.drop_flow(%L);', w.name)
    FROM w WHERE w.kind = 'snapshot' AND w.source_gone AND w.there IS NOT NULL
    UNION ALL
    SELECT w.relowner, w.name, format('its target "%s.%s" was dropped', w.target_schema, w.target_name), NULL, NULL,
        format('SELECT scd2.drop_flow(%L);', w.name) FROM w WHERE w.there IS NULL
$$;
COMMENT ON FUNCTION scd2_internal.flow_problems() IS 'Part of diagnose: what is wrong with flows.';

CREATE FUNCTION scd2.diagnose() RETURNS TABLE (subject text, problem text, detail text, fix text)
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STABLE;
CREATE FUNCTION scd2_internal.diagnose(caller oid) RETURNS TABLE (subject text, problem text, detail text, fix text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
    super CONSTANT boolean := (SELECT r.rolsuper FROM pg_roles r WHERE r.oid = caller);
    monitor CONSTANT boolean := pg_has_role(caller, 'pg_monitor', 'USAGE');
BEGIN
    RETURN QUERY SELECT CASE WHEN p.setting LIKE 'publication %' THEN p.setting
        ELSE format('setting %s', p.setting) END, format('is %s', coalesce(nullif(p.current, ''), 'empty')),
        format('Required: %s.', p.required), p.fix
        FROM scd2_internal.preflight(caller) p WHERE NOT p.ok;
    RETURN QUERY SELECT 'capture', c.problem, c.detail, c.fix FROM scd2_internal.capture_problems(super) c;
    RETURN QUERY SELECT 'capture', c.problem, c.detail, c.fix FROM scd2_internal.slot_problems() c;
    RETURN QUERY SELECT 'capture', c.problem, c.detail, c.fix FROM scd2_internal.clock_problems() c;
    RETURN QUERY SELECT format('table %s', p.source), p.problem,
        coalesce(p.detail, CASE WHEN pg_has_role(caller, p.owner, 'USAGE') THEN p.error END), p.fix
        FROM scd2_internal.feed_problems() p WHERE monitor OR pg_has_role(caller, p.owner, 'USAGE');
    RETURN QUERY SELECT format('table %s', p.source), p.problem, CASE WHEN pg_has_role(caller, p.owner, 'USAGE') THEN p.detail END, p.fix
        FROM scd2_internal.retention_problems() p WHERE monitor OR pg_has_role(caller, p.owner, 'USAGE');
    RETURN QUERY SELECT format('flow %I', p.flow), p.problem,
        concat_ws(' ', CASE WHEN pg_has_role(caller, p.owner, 'USAGE') THEN rtrim(p.error, '.') || '.' END, p.detail),
        p.fix
        FROM scd2_internal.flow_problems() p WHERE monitor OR pg_has_role(caller, p.owner, 'USAGE');
END $$;
COMMENT ON FUNCTION scd2.diagnose() IS
    'What is wrong now, and the statement that helps: settings, capture, and the feeds and flows of relations that '
    'you own (members of pg_monitor: all, without error texts). No row: nothing is wrong.';
