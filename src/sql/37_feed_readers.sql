-- 37_feed_readers.sql: readers, consumers from outside that remember in the database how far they have read a feed.
--
-- A reader is a version: its owner has all changes up to it. Retention keeps what came after. read_changes() gives
-- the versions that follow, whole ones, and notes how far that was; advance_reader() says that they have arrived.
-- Whoever fails in between reads them again: at least once, or exactly once if what is read and the advance are
-- written in one transaction.
--
-- A read covers versions without changes of this table too, so a reader of a quiet table advances. It locks the
-- reader's row until its transaction ends: two that share a reader take turns.
--
-- A reader that is not read for pg_scd2.reader_timeout expires: it no longer keeps anything, the server's log and
-- diagnose() tell, and so does its next read. Its row stays until it is dropped or created anew.

-- Who may use readers, and which one it is.
CREATE FUNCTION scd2_internal.own_reader(caller oid, name name) RETURNS scd2_internal.reader
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    r scd2_internal.reader;
    f scd2_internal.feed;
    owner oid;
BEGIN
    IF name IS NULL THEN
        PERFORM scd2_internal.refuse('22004', 'the name of the reader must not be null');
    END IF;
    SELECT x.* INTO r FROM scd2_internal.reader x WHERE x.name = own_reader.name;
    IF NOT FOUND THEN
        PERFORM scd2_internal.refuse('42704', format('reader "%s" does not exist', name), hint => 'SELECT * FROM scd2.readers;');
    END IF;
    SELECT x.* INTO f FROM scd2_internal.feed x WHERE x.feed_id = r.feed_id;
    owner := coalesce((SELECT c.relowner FROM pg_class c WHERE c.oid = f.source_relid), (SELECT c.relowner FROM pg_class c WHERE c.oid = f.feed_relid));
    IF NOT coalesce(pg_has_role(caller, owner, 'USAGE'), (SELECT s.rolsuper FROM pg_roles s WHERE s.oid = caller)) THEN
        PERFORM scd2_internal.refuse('42501', format('must be owner of the source of reader "%s"', name));
    END IF;
    RETURN r;
END $$;
COMMENT ON FUNCTION scd2_internal.own_reader(oid, name) IS
    'A reader of a table that the caller owns (of the feed, if the table is gone). Errors: 22004 NULL, 42704 no such reader, 42501 not the owner.';

CREATE FUNCTION scd2_internal.check_not_expired(r scd2_internal.reader) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.refuse('55000', format('reader "%s" has expired', r.name),
        format('It was not read for longer than pg_scd2.reader_timeout; since %s what came after version %s is no longer kept for it.', r.expired_at, r.version),
        format('SELECT scd2.drop_reader(%L); SELECT scd2.create_reader(%1$L, %L);', r.name, (SELECT f.source_relid::regclass FROM scd2_internal.feed f WHERE f.feed_id = r.feed_id)))
    WHERE r.expired_at IS NOT NULL;
END $$;
COMMENT ON FUNCTION scd2_internal.check_not_expired(scd2_internal.reader) IS 'Errors: 55000 the reader has expired.';

-- Two that share a reader take turns: its row is locked until the transaction ends.
CREATE FUNCTION scd2_internal.lock_reader(caller oid, name name) RETURNS scd2_internal.reader
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    r scd2_internal.reader := scd2_internal.own_reader(caller, name);
BEGIN
    SELECT x.* INTO r FROM scd2_internal.reader x WHERE x.name = r.name FOR UPDATE;
    IF NOT FOUND THEN                                   -- dropped meanwhile
        r := scd2_internal.own_reader(caller, name);
    END IF;
    PERFORM scd2_internal.check_not_expired(r);
    RETURN r;
END $$;
COMMENT ON FUNCTION scd2_internal.lock_reader(oid, name) IS
    'A reader as own_reader gives it, locked, as it is then. Errors: as own_reader; 55000 the reader has expired.';

CREATE FUNCTION scd2.create_reader(name name, source regclass, starting_version bigint DEFAULT NULL) RETURNS bigint
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
CREATE FUNCTION scd2_internal.create_reader(caller oid, name name, source regclass, starting_version bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    f scd2_internal.feed;
    held record;
    latest bigint;
    start bigint;
BEGIN
    IF name IS NULL THEN
        PERFORM scd2_internal.refuse('22004', 'the name of the reader must not be null');
    END IF;
    f := scd2_internal.owned_feed(caller, source);
    PERFORM scd2_internal.refuse_name_in_use('reader', name) WHERE NOT scd2_internal.take_name('reader', name, true);
    PERFORM FROM scd2_internal.feed x WHERE x.feed_id = f.feed_id AND NOT x.disabled FOR SHARE;
    IF NOT FOUND THEN                                   -- disabled meanwhile
        f := scd2_internal.owned_feed(caller, source);
    END IF;
    SELECT h.* INTO held FROM scd2_internal.hold_feed(f.feed_id, f.feed_relid) h;       -- first: then nothing that is seen below goes
    SELECT p.version INTO latest FROM scd2_internal.position p;
    start := coalesce(starting_version, latest, 0);
    IF start > coalesce(latest, 0) THEN
        PERFORM scd2_internal.refuse('22023', format('version %s is yet to come', start), format('The latest version is %s.', coalesce(latest, 0)));
    END IF;
    PERFORM scd2_internal.refuse_start(f, format('version %s', start + 1), held.earliest_version, (SELECT s.enabled_at FROM scd2_internal.feed_state s WHERE s.feed_id = f.feed_id),
            held.earliest_version, held.removed_until, held.removed_at,
            format('SELECT scd2.create_reader(%L, %L, %s);', name, f.source_relid::regclass, held.earliest_version - CASE WHEN held.removed_at IS NULL THEN 0 ELSE 1 END))
        WHERE start + 1 < held.earliest_version AND starting_version IS NOT NULL;
    BEGIN
        INSERT INTO scd2_internal.reader (name, feed_id, version, reached) VALUES (name, f.feed_id, start, scd2_internal.reached(f, start));
    EXCEPTION WHEN unique_violation THEN
        PERFORM scd2_internal.refuse('42710', format('reader "%s" exists already', name));
    END;
    RETURN start;
END $$;
COMMENT ON FUNCTION scd2.create_reader(name, regclass, bigint) IS
    'Creates a reader of the change data feed of a table that you own, and returns the version after which it starts. The feed keeps what came later until the reader has advanced. starting_version: NULL: the latest. '
    'Errors: 42501 not the owner, 55000 no feed, 42710 there is such a reader, 55P03 one is just being created, 22023 a version that is yet to come or no longer in the feed, 22004 NULL.';

-- For lag: the commit time of the version, or of the first change after it.
CREATE FUNCTION scd2_internal.reached(f scd2_internal.feed, version bigint) RETURNS timestamptz
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN p.version > reached.version
                THEN scd2_internal.as_owner(f.feed_relid, format('SELECT _commit_timestamp FROM %s WHERE _commit_version > $1 LIMIT 1', f.feed_relid::regclass), reached.version)::timestamptz END
    FROM scd2_internal.position p
$$;
COMMENT ON FUNCTION scd2_internal.reached(scd2_internal.feed, bigint) IS
    'When a change was committed that is about the first after a version (rows are stored in order); NULL: there is none yet.';

CREATE FUNCTION scd2._begin_read(name name, feed regclass, OUT feed_id integer, OUT first_version bigint, OUT last_version bigint)
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
CREATE FUNCTION scd2_internal._begin_read(caller oid, name name, feed regclass, OUT feed_id integer, OUT first_version bigint, OUT last_version bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    r scd2_internal.reader := scd2_internal.lock_reader(caller, name);
    f scd2_internal.feed;
    held record;
    extent record;
BEGIN
    UPDATE scd2_internal.reader x SET last_read = clock_timestamp(), used_at = clock_timestamp() WHERE x.name = r.name;
    SELECT x.* INTO f FROM scd2_internal.feed x WHERE x.feed_id = r.feed_id;
    IF f.feed_relid <> feed THEN
        PERFORM scd2_internal.refuse('42804', format('reader "%s" reads "%s", not "%s"', name, scd2_internal.label(f.feed_relid), scd2_internal.label(feed)),
            hint => format('SELECT * FROM scd2.read_changes(%L, NULL::%s);', name, f.feed_relid::regclass));
    END IF;
    SELECT h.* INTO held FROM scd2_internal.hold_feed(f.feed_id, f.feed_relid) h;
    SELECT x.* INTO extent FROM scd2_internal.feed_extent(f.feed_id) x;
    feed_id := f.feed_id;
    first_version := r.version + 1;
    PERFORM scd2_internal.refuse_start(f, format('version %s', first_version), extent.enabled_version, extent.enabled_at, held.earliest_version, held.removed_until, held.removed_at,
            format('SELECT scd2.advance_reader(%L, %s);', name, held.earliest_version - 1))
        WHERE first_version < held.earliest_version AND held.removed_at IS NOT NULL;
    last_version := extent.latest_version;
    IF first_version <= last_version AND extent.gap && int8range(first_version, greatest(first_version, last_version), '[]') THEN
        IF lower(extent.gap) <= first_version THEN
            PERFORM scd2_internal.refuse('55000', format('the change data feed of table "%s" has a gap after version %s', scd2_internal.label(f.source_relid), r.version),
                format('Changes of versions %s were not recorded.', extent.gap),
                CASE WHEN upper_inf(extent.gap) THEN scd2_internal.gap_remedy(f, extent.gap) ELSE format('SELECT scd2.advance_reader(%L, %s);', name, upper(extent.gap) - 1) END);
        END IF;
        last_version := lower(extent.gap) - 1;          -- what is whole, first
    END IF;
END $$;
COMMENT ON FUNCTION scd2._begin_read(name, regclass) IS
    'Part of read_changes: locks the reader and returns the versions that follow it. Errors: as read_changes.';

CREATE FUNCTION scd2._covered(name name, version bigint) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
CREATE FUNCTION scd2_internal._covered(caller oid, name name, version bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    r scd2_internal.reader := scd2_internal.own_reader(caller, name);
BEGIN
    UPDATE scd2_internal.reader x SET read_version = least(version, scd2_internal.feed_complete(x.feed_id)) WHERE x.name = r.name AND version >= x.version;
END $$;
COMMENT ON FUNCTION scd2._covered(name, bigint) IS 'Part of read_changes: notes how far a read went.';

-- The last of the next "n" versions with changes, looked for in ranges that grow; NULL: there are fewer.
CREATE FUNCTION scd2._nth_version(feed regclass, first_version bigint, last_version bigint, n bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET max_parallel_workers_per_gather = 0 SET jit = off AS $$
DECLARE
    span bigint := least(n, last_version - first_version + 1);
    found record;
    query text := format('SELECT count(*) AS n, max(v) AS version FROM (SELECT DISTINCT _commit_version AS v FROM %s WHERE _commit_version BETWEEN $1 AND $2 ORDER BY 1 LIMIT %s) d', feed, n);
BEGIN
    LOOP
        IF scd2._reads_as_owner(feed) THEN
            SELECT c.* INTO found FROM scd2._read_records(NULL, feed, query, first_version, first_version + span - 1, NULL, NULL, NULL) AS c (n bigint, version bigint);
        ELSE
            EXECUTE query INTO found USING first_version, first_version + span - 1;
        END IF;
        IF found.n >= n THEN
            RETURN found.version;
        END IF;
        EXIT WHEN first_version + span > last_version;
        span := least(span * 4, last_version - first_version + 1);
    END LOOP;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION scd2._nth_version(regclass, bigint, bigint, bigint) IS 'Part of read_changes: where a limited number of versions ends.';

CREATE FUNCTION scd2.read_changes(name name, feed anyelement, max_versions bigint DEFAULT NULL) RETURNS SETOF anyelement
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET max_parallel_workers_per_gather = 0 SET jit = off AS $$
#variable_conflict use_variable
DECLARE
    relation regclass := scd2._feed_of_type(pg_typeof(feed), name);
    query text := format('SELECT c.* FROM %s c WHERE c._commit_version BETWEEN $1 AND $2 ORDER BY c._commit_version, c._change_ordinal', relation);
    r record;
BEGIN
    IF max_versions < 1 THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('max_versions is %s', max_versions), DETAIL = 'A read has one version at least.';
    END IF;
    r := scd2._begin_read(name, relation);
    IF max_versions IS NOT NULL AND r.first_version <= r.last_version THEN
        r.last_version := coalesce(scd2._nth_version(relation, r.first_version, r.last_version, max_versions), r.last_version);
    END IF;
    PERFORM scd2._covered(name, r.last_version);
    IF scd2._reads_as_owner(relation) THEN
        RETURN QUERY SELECT c.* FROM scd2._read_rows_now(feed, relation, query, r.first_version, r.last_version) c;
        RETURN;
    END IF;
    RETURN QUERY EXECUTE query USING r.first_version, r.last_version;
END $$;
COMMENT ON FUNCTION scd2.read_changes(name, anyelement, bigint) IS
    'The changes that come after a reader, whole versions, in order; the reader stays where it is until advance_reader(), and is locked until the transaction ends. feed: NULL::<feed>; max_versions: at most so many versions '
    'with changes of the table, NULL: all. Errors: 42704 no such reader, 42501 not the owner of the source, 42804 another feed''s type, 22023 max_versions, or the feed no longer has what comes after the reader, 55000 the reader has expired, or versions were not recorded here.';

CREATE FUNCTION scd2.advance_reader(name name, version bigint DEFAULT NULL) RETURNS bigint
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
CREATE FUNCTION scd2_internal.advance_reader(caller oid, name name, version bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    r scd2_internal.reader := scd2_internal.lock_reader(caller, name);
    complete CONSTANT bigint := scd2_internal.feed_complete(r.feed_id);
BEGIN
    version := coalesce(version, r.read_version, r.version);
    IF version < r.version THEN
        PERFORM scd2_internal.refuse('22023', format('reader "%s" is at version %s already', name, r.version),
            format('It was to advance to version %s; what it has passed may have been removed.', version));
    ELSIF version > scd2.latest_version() THEN
        PERFORM scd2_internal.refuse('22023', format('version %s is yet to come', version), format('The latest version is %s.', scd2.latest_version()));
    ELSIF version > greatest(complete, r.version) THEN          -- (a new reader begins behind what waits)
        PERFORM scd2_internal.refuse_incomplete(f, complete, scd2_internal.keeps_feed_locked(f)) FROM scd2_internal.feed f WHERE f.feed_id = r.feed_id;
    END IF;
    UPDATE scd2_internal.reader x SET version = advance_reader.version, read_version = nullif(greatest(x.read_version, advance_reader.version), advance_reader.version),
            used_at = clock_timestamp(), reached = scd2_internal.reached(f, advance_reader.version)
        FROM scd2_internal.feed f WHERE x.name = r.name AND f.feed_id = x.feed_id;
    RETURN version;
END $$;
COMMENT ON FUNCTION scd2.advance_reader(name, bigint) IS
    'Says that a reader has all changes up to a version, NULL: all that its last read covered, also if it found none. Returns that version. Errors: 42704 no such reader, 42501 not the owner of the source, '
    '22023 a version that it has passed or that is yet to come, 55000 the reader has expired.';

CREATE FUNCTION scd2.drop_reader(name name) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
CREATE FUNCTION scd2_internal.drop_reader(caller oid, name name) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r scd2_internal.reader := scd2_internal.own_reader(caller, drop_reader.name);
BEGIN
    DELETE FROM scd2_internal.reader x WHERE x.name = r.name;
END $$;
COMMENT ON FUNCTION scd2.drop_reader(name) IS
    'Drops a reader: its feed no longer keeps anything for it. Errors: 42704 no such reader, 42501 not the owner of its source.';

CREATE FUNCTION scd2_internal.check_no_reader(f scd2_internal.feed) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names text;
    statements text;
BEGIN
    DELETE FROM scd2_internal.reader r WHERE r.feed_id = f.feed_id AND r.expired_at IS NOT NULL;
    SELECT string_agg(format('"%s"', r.name), ', ' ORDER BY r.name), string_agg(format('SELECT scd2.drop_reader(%L);', r.name), ' ' ORDER BY r.name)
    INTO names, statements FROM scd2_internal.reader r WHERE r.feed_id = f.feed_id;
    IF names IS NOT NULL THEN
        PERFORM scd2_internal.refuse('55000', format('cannot disable because readers depend on the change data feed of table "%s"', scd2_internal.label(f.source_relid)),
            format('Readers: %s.', names), statements);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_no_reader(scd2_internal.feed) IS
    'Part of disable_change_feed. Errors: 55000, naming the readers and how to drop them.';

-- By the worker that looks after feeds. A reader that somebody is using is not idle.
CREATE FUNCTION scd2_internal.expire_readers() RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    patience CONSTANT interval := current_setting('pg_scd2.reader_timeout')::interval;
    r scd2_internal.reader;
BEGIN
    IF patience = interval '0' THEN
        RETURN;
    END IF;
    FOR r IN SELECT x.* FROM scd2_internal.reader x WHERE x.expired_at IS NULL AND x.used_at < clock_timestamp() - patience FOR UPDATE SKIP LOCKED LOOP
        BEGIN
            UPDATE scd2_internal.reader x SET expired_at = clock_timestamp() WHERE x.name = r.name;
            RAISE WARNING 'reader "%" of table "%" has expired: it was not read for more than %', r.name,
                    (SELECT scd2_internal.label(f.source_relid) FROM scd2_internal.feed f WHERE f.feed_id = r.feed_id), current_setting('pg_scd2.reader_timeout')
                USING DETAIL = format('What came after version %s is no longer kept for it.', r.version);
        EXCEPTION WHEN others THEN
            RAISE WARNING 'reader "%" could not be expired: %', r.name, SQLERRM;
        END;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.expire_readers() IS
    'Readers that were not read for pg_scd2.reader_timeout no longer keep anything, with a WARNING for each.';
