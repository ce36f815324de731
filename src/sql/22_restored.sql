-- 22_restored.sql: making the states that a restore brought those of this database.
--
-- Relations found their new oids while they were restored (05_relation.sql). Left to do: columns are numbered anew in
-- a restored table, without those that were dropped; and what was not captured when the dump was made has no state.

CREATE FUNCTION scd2_internal.column_number(relation oid, name name) RETURNS smallint
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT a.attnum FROM pg_attribute a
    WHERE a.attrelid = relation AND a.attname = column_number.name AND a.attnum > 0 AND NOT a.attisdropped
$$;
COMMENT ON FUNCTION scd2_internal.column_number(oid, name) IS 'The number of a column, NULL if there is none';

-- What flows know of their feeds. Those names may be older than the feed's, which are those of the position: so by the
-- old numbers, while feed_column has them.
CREATE FUNCTION scd2_internal.renumber_known() RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE scd2_internal.flow w SET known_attnums = (
        SELECT array_agg(coalesce(scd2_internal.column_number(f.feed_relid, coalesce(c.name, k.name)), -1::smallint)
            ORDER BY k.n)
        FROM ROWS FROM (unnest(w.known_attnums), unnest(w.known_names)) WITH ORDINALITY k (attnum, name, n)
            LEFT JOIN scd2_internal.feed_column c ON c.feed_id = w.feed_id AND c.feed_attnum = k.attnum)
    FROM scd2_internal.feed f WHERE f.feed_id = w.feed_id AND w.known_attnums IS NOT NULL
$$;
COMMENT ON FUNCTION scd2_internal.renumber_known() IS 'Finds the columns again that flows know of restored feeds';

-- A column that the source no longer had keeps a number that no column has: its name may be used again. (The sort has
-- all old rows deleted before the first new one comes.)
CREATE FUNCTION scd2_internal.renumber_columns() RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    WITH old AS (DELETE FROM scd2_internal.feed_column c RETURNING c.*),
    new AS (
        SELECT o.feed_id, o.source_attnum AS old_number,
               coalesce(scd2_internal.column_number(f.source_relid, o.name),
                   -1000 - row_number() OVER (PARTITION BY o.feed_id ORDER BY o.name))::smallint AS source_attnum,
               CASE WHEN o.feed_attnum = 0 THEN 0::smallint
                   ELSE coalesce(scd2_internal.column_number(f.feed_relid, o.name), -1::smallint) END AS feed_attnum,
               o.name, o.missing, o.was, o.until
        FROM old o JOIN scd2_internal.feed f USING (feed_id))
    INSERT INTO scd2_internal.feed_column (feed_id, source_attnum, feed_attnum, name, missing, was, until)
    SELECT n.feed_id, n.source_attnum, n.feed_attnum, n.name, n.missing, w.source_attnum, n.until
    FROM new n LEFT JOIN new w ON w.feed_id = n.feed_id AND w.old_number = n.was
    ORDER BY n.feed_id, n.name
$$;
COMMENT ON FUNCTION scd2_internal.renumber_columns() IS 'Finds the columns of restored feeds and their sources again';

-- A feed's relation that was left out of the dump, or of the restore. (One whose source was is as if that had been
-- dropped: nothing more comes.)
CREATE FUNCTION scd2_internal.fail_missing_feeds(last_version bigint) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE scd2_internal.feed_state s SET state = 'failed', gap = int8range(least(lower(s.gap), last_version + 1), NULL),
        broken_at = least(s.broken_at, last_version + 1), resync_version = NULL,
        error = format('table %I.%I was not restored', f.feed_schema, f.feed_name), error_at = clock_timestamp()
    FROM scd2_internal.feed f
    WHERE f.feed_id = s.feed_id AND s.state = 'running' AND s.feed_relid = 0::oid
$$;
COMMENT ON FUNCTION scd2_internal.fail_missing_feeds(bigint) IS
    'Declares the gap of feeds that were restored without their relation';

-- What waited to be written is not in the dump: it is made of oids. So the feed lacks it.
CREATE FUNCTION scd2_internal.fail_waiting_feeds() RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE scd2_internal.feed_state s SET state = 'failed', gap = int8range(least(lower(s.gap), b.complete_version + 1), NULL),
        broken_at = least(s.broken_at, b.complete_version + 1), resync_version = NULL,
        error = 'changes waited to be written when the dump was made', error_at = clock_timestamp()
    FROM scd2_internal.feed_backlog b WHERE b.feed_id = s.feed_id;
    DELETE FROM scd2_internal.feed_backlog;
$$;
COMMENT ON FUNCTION scd2_internal.fail_waiting_feeds() IS
    'Declares the gap of feeds whose changes waited to be written when a dump was made';

-- Their control records are not in the dump: as if they had been lost with the log.
CREATE FUNCTION scd2_internal.recall_controls() RETURNS bigint
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM scd2_internal.control;
    DELETE FROM scd2_internal.feed_state s USING scd2_internal.feed f WHERE f.feed_id = s.feed_id AND f.disabled;
    INSERT INTO scd2_internal.control (kind, feed_id, source_relid, feed_relid)
        SELECT 'enable feed', f.feed_id, f.source_relid, f.feed_relid FROM scd2_internal.feed f
        WHERE NOT f.disabled AND NOT EXISTS (SELECT FROM scd2_internal.feed_state s WHERE s.feed_id = f.feed_id);
    INSERT INTO scd2_internal.control (kind, flow_id, feed_id)
        SELECT 'begin flow', w.flow_id, w.feed_id FROM scd2_internal.flow w
        WHERE NOT EXISTS (SELECT FROM scd2_internal.flow_state s WHERE s.flow_id = w.flow_id);
    SELECT count(*) FROM scd2_internal.control;
$$;
COMMENT ON FUNCTION scd2_internal.recall_controls() IS
    'Writes the control records of feeds and flows that had not begun when the dump was made; returns how many';

-- A copy of a database has the home of the original; what is dumped in one may be restored in the other.
CREATE FUNCTION scd2_internal.new_home() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old CONSTANT uuid := scd2_internal.home();
    new CONSTANT uuid := gen_random_uuid();
BEGIN
    UPDATE scd2_internal.home SET id = new;
    UPDATE scd2_internal.position p SET home = new WHERE p.home = old;
    UPDATE scd2_internal.feed_state s SET home = new WHERE s.home = old;
    UPDATE scd2_internal.flow_state s SET home = new WHERE s.home = old;
    UPDATE scd2_internal.purge p SET home = new WHERE p.home = old;
END $$;
COMMENT ON FUNCTION scd2_internal.new_home() IS 'Gives this database, with the states that are its own, another home';

CREATE FUNCTION scd2_internal.come_home(p scd2_internal.position) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.renumber_known();
    PERFORM scd2_internal.renumber_columns();
    PERFORM scd2_internal.fail_missing_feeds(p.version);
    PERFORM scd2_internal.fail_waiting_feeds();
    PERFORM scd2_internal.close_all_rows();
    PERFORM scd2_internal.follow_all_as_of();
    UPDATE scd2_internal.feed_state SET home = scd2_internal.home();
    UPDATE scd2_internal.flow_state SET home = scd2_internal.home();
    UPDATE scd2_internal.purge SET home = scd2_internal.home(), storage = 0;
    UPDATE scd2_internal.flow SET definition = definition + 1;
    UPDATE scd2_internal.home SET foreign_until = p.version;
    UPDATE scd2_internal.reconstruction SET xid = '2';         -- of another server: long visible here
    UPDATE scd2_internal.position SET home = scd2_internal.home();
    RETURN scd2_internal.recall_controls();
END $$;
COMMENT ON FUNCTION scd2_internal.come_home(scd2_internal.position) IS
    'Makes restored states those of this database; returns how many feeds and flows had not begun when the dump was '
    'made';
