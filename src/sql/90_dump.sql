-- 90_dump.sql: what a dump has of our catalogs, and what happens when it is restored.
--
-- A dump has definitions, states, memory and position as of its snapshot, and so have the feeds and targets in it:
-- they fit together. It has neither control records nor home: what was asked for and not captured by then is settled
-- by scd2.resume_capture() (22_restored.sql), and every state and position that a restore brings carries another home
-- than the new database's. Workers act on states of their home alone: so nothing is captured or applied while the
-- restore is under way, in whatever order and by however many jobs it is done, and nothing afterwards until
-- resume_capture() has made the states its own.
--
-- A restore creates the extension first, and the worker makes its slot and position at once. That position knows
-- nothing: the restored one takes its place, and the worker ends (src/capture/position.c).

CREATE FUNCTION scd2_internal.replace_position() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- The worker may be about to write its own.
    LOCK TABLE scd2_internal.position IN SHARE ROW EXCLUSIVE MODE;
    IF EXISTS (SELECT FROM scd2_internal.position p WHERE p.version > 0 OR p.home <> scd2_internal.home())
        OR EXISTS (SELECT FROM scd2_internal.feed_state s WHERE s.home = scd2_internal.home()) THEN
        PERFORM scd2_internal.refuse('55000',
            format('database "%s" has change data feeds already: a dump of others cannot be added', current_database()),
            NULL, 'Restore it into a new database.');
    END IF;
    DELETE FROM scd2_internal.position;
    PERFORM scd2_internal.workers_changed();
    RETURN NEW;
END $$;
COMMENT ON FUNCTION scd2_internal.replace_position() IS
    'Lets a restored position take the place of one that has captured nothing. Errors: 55000 if it has.';
-- (The workers write no row by SQL, so they do not come here.)
CREATE TRIGGER replace_position BEFORE INSERT ON scd2_internal.position
    FOR EACH ROW EXECUTE FUNCTION scd2_internal.replace_position();
ALTER TABLE scd2_internal.position ENABLE ALWAYS TRIGGER replace_position;

-- Relations that were left out of a dump would all be the same one.
CREATE FUNCTION scd2_internal.skip_row() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN NULL;
END $$;
COMMENT ON FUNCTION scd2_internal.skip_row() IS 'Inserts nothing';
CREATE TRIGGER skip_unknown BEFORE INSERT ON scd2_internal.found_identity
    FOR EACH ROW WHEN (NEW.leaf_relid = 0::oid) EXECUTE FUNCTION scd2_internal.skip_row();
ALTER TABLE scd2_internal.found_identity ENABLE ALWAYS TRIGGER skip_unknown;
CREATE TRIGGER skip_unknown BEFORE INSERT ON scd2_internal.purge
    FOR EACH ROW WHEN (NEW.target_relid = 0::oid) EXECUTE FUNCTION scd2_internal.skip_row();
ALTER TABLE scd2_internal.purge ENABLE ALWAYS TRIGGER skip_unknown;

-- A database where nothing was ever enabled has nothing to resume from.
SELECT pg_extension_config_dump('scd2_internal.position',
    'WHERE version > 0 OR EXISTS (SELECT FROM scd2_internal.feed) OR EXISTS (SELECT FROM scd2_internal.flow)');
DO $$
DECLARE
    dumped text;
BEGIN
    FOREACH dumped IN ARRAY '{feed,feed_feed_id_seq,feed_state,removal,disorder,feed_backlog,reconstruction,feed_column,feed_layout,found_identity,reader,flow,
        flow_flow_id_seq,flow_state,batch,mark,mark_mark_id_seq,rejected,rejected_rejected_id_seq,skipped_version,erasure,
        erasure_erasure_id_seq,erased_key,purge}'::text[] LOOP
        PERFORM pg_catalog.pg_extension_config_dump('scd2_internal.' || dumped, '');
    END LOOP;
END $$;
