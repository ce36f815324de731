-- 91_drop.sql: what goes with the extension, and what it gives back.
--
-- Feeds, targets and what belongs to them are the users' and stay; guards go (src/worker/guard.c); the slot is dropped
-- by a worker that finds the extension gone. The replica identities that enabling found are given back before, by an
-- event trigger, since nobody knows them afterwards.

CREATE FUNCTION scd2_internal.give_back_identities() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    i record;
BEGIN
    FOR i IN SELECT x.* FROM scd2_internal.found_identity x JOIN pg_class c ON c.oid = x.leaf_relid
        WHERE x.identity <> 'f' AND c.relreplident = 'f' ORDER BY x.leaf_relid LOOP
        BEGIN
            PERFORM scd2_internal.lock_tables(ARRAY[i.leaf_relid], ARRAY['ACCESS EXCLUSIVE']);
            DELETE FROM scd2_internal.found_identity x WHERE x.feed_id = i.feed_id AND x.leaf_relid = i.leaf_relid;   -- no warning
            PERFORM scd2_internal.give_back_identity(i.leaf_relid, i.identity, i.index_name);
        EXCEPTION WHEN lock_not_available THEN
            RAISE WARNING 'table "%" keeps REPLICA IDENTITY FULL: %', scd2_internal.label(i.leaf_relid), SQLERRM
                USING HINT = format('ALTER TABLE %s REPLICA IDENTITY DEFAULT;', i.leaf_relid::regclass);
        END;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.give_back_identities() IS
    'Gives every captured table the replica identity back that was found; a WARNING where it cannot be locked within '
    'pg_scd2.lock_timeout.';

-- The server locks one after the other what it drops, and workers use it in another order: each could wait for the
-- other. So all is locked before, or none; behind somebody who has a lock for long (a first copy) it goes the server's
-- way.
CREATE FUNCTION scd2_internal.lock_catalogs() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.lock_tables(array_agg(c.oid), array_agg('ACCESS EXCLUSIVE'::text))
        FROM pg_class c WHERE c.relnamespace = 'scd2_internal'::regnamespace AND c.relkind = 'r';
EXCEPTION WHEN lock_not_available THEN
    NULL;
END $$;
COMMENT ON FUNCTION scd2_internal.lock_catalogs() IS
    'Locks all our tables together, if they can be had within pg_scd2.lock_timeout.';

CREATE FUNCTION scd2_internal.on_drop_extension() RETURNS event_trigger AS 'MODULE_PATHNAME', 'scd2_on_drop_extension'
    LANGUAGE C;
COMMENT ON FUNCTION scd2_internal.on_drop_extension() IS
    'Gives back replica identities, and tells of the slot where no worker can drop it, if the statement drops us';
CREATE EVENT TRIGGER scd2_on_drop_extension ON ddl_command_start WHEN TAG IN ('DROP EXTENSION', 'DROP SCHEMA', 'DROP OWNED')
    EXECUTE FUNCTION scd2_internal.on_drop_extension();
ALTER EVENT TRIGGER scd2_on_drop_extension ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER scd2_on_drop_extension IS
    'Gives back replica identities, and tells of a replication slot that stays';
