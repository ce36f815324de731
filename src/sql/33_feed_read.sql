-- 33_feed_read.sql: reading feeds by range.
--
-- table_changes runs with its caller's rights: who may SELECT from the feed may read it, nobody else. What it must ask
-- the catalogs, whom ordinary users may not read, it asks scd2._feed_range, which answers only to those who may read
-- the feed. Functions whose names begin with an underscore are parts of others, no interface.
--
-- Bounds reach the query as constants, so that partitions are pruned and the index is used. Versions and timestamps
-- ascend together, so a range of timestamps is the same rows as the range of versions that it resolves to.

CREATE FUNCTION scd2.latest_version() RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT p.version FROM scd2_internal.position p), 0)
$$;
COMMENT ON FUNCTION scd2.latest_version() IS 'The last version captured in this database so far, 0 if none.';

-- The feed that a table has or a relation is, for someone who may read it.
CREATE FUNCTION scd2_internal.readable_feed(caller oid, relation oid) RETURNS scd2_internal.feed
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed;
BEGIN
    IF relation IS NULL THEN
        PERFORM scd2_internal.refuse('22004', 'the table must not be null');
    END IF;
    SELECT x.* INTO f FROM scd2_internal.feed x WHERE relation IN (x.source_relid, x.feed_relid) AND NOT x.disabled;
    IF NOT FOUND THEN
        SELECT x.* INTO f FROM scd2_internal.feed x WHERE relation IN (x.source_relid, x.feed_relid)
            ORDER BY x.feed_id DESC LIMIT 1;
        IF FOUND AND EXISTS (SELECT FROM pg_class c WHERE c.oid = f.source_relid) THEN
            PERFORM scd2_internal.refuse('55000',
                format('the change data feed of table "%s" was disabled', scd2_internal.label(f.source_relid)),
                'What it had recorded can still be read from its relation, if that was not dropped.',
                    format('SELECT scd2.enable_change_feed(%L);', f.source_relid::regclass));
        END IF;
        f := scd2_internal.require_feed_of(relation);
    END IF;
    IF NOT has_table_privilege(caller, f.feed_relid, 'SELECT') THEN
        PERFORM scd2_internal.refuse('42501',
            format('permission denied for table "%s"', scd2_internal.label(f.feed_relid)));
    END IF;
    PERFORM scd2_internal.check_rows_open(caller, f.feed_relid);
    RETURN f;
END $$;
COMMENT ON FUNCTION scd2_internal.readable_feed(oid, oid) IS
    'The feed of a source, or that a relation is. Errors: 55000 there is none or it was disabled, 42501 "caller" may '
    'not SELECT from it.';

-- Row security without a policy hides all rows: that is said, instead of showing none.
CREATE FUNCTION scd2_internal.check_rows_open(caller oid, feed oid) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.refuse('42501', format('row level security hides the rows of table "%s"', scd2_internal.label(feed)),
            'It is closed to others than its owner, as its source is that has row level security, until it has a policy of its own.',
            format('CREATE POLICY readers ON %s FOR SELECT TO %I USING (true);', feed::regclass, pg_get_userbyid(caller)))
        FROM pg_class c, pg_roles r
        WHERE c.oid = feed AND r.oid = caller AND c.relrowsecurity AND NOT pg_has_role(caller, c.relowner, 'USAGE')
          AND NOT r.rolsuper AND NOT r.rolbypassrls AND NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid);
END $$;
COMMENT ON FUNCTION scd2_internal.check_rows_open(oid, oid) IS
    'Errors: 42501 if row level security hides all rows of a feed from the caller.';

-- The one place that says up to where a feed can be read: what of it is kept aside (feed_backlog) is not in it yet. As
-- the statement's snapshot has it. It only grows.
CREATE FUNCTION scd2_internal.feed_complete(feed integer) RETURNS bigint
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT least(p.version, b.complete_version)
    FROM scd2_internal.position p LEFT JOIN scd2_internal.feed_backlog b ON b.feed_id = feed
$$;
COMMENT ON FUNCTION scd2_internal.feed_complete(integer) IS
    'Up to this version a feed has everything that was captured (gaps apart). NULL: nothing was captured in this database yet';

-- A change of columns may wait although all versions are there.
CREATE FUNCTION scd2_internal.feed_is_behind(feed integer, version bigint) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM scd2_internal.feed_backlog b WHERE b.feed_id = feed
        AND (b.complete_version < version OR EXISTS (SELECT FROM scd2_internal.backlog e WHERE e.feed_id = feed AND e.kind = 'l' AND e.first_version <= version + 1)))
$$;
COMMENT ON FUNCTION scd2_internal.feed_is_behind(integer, bigint) IS
    'Whether a feed lacks something of what was captured up to a version: changes, or columns';

CREATE FUNCTION scd2_internal.feed_start(feed integer, OUT earliest_version bigint, OUT removed_until timestamptz, OUT removed_at timestamptz)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT greatest(s.earliest_version, r.earliest_version), greatest(s.removed_until, r.removed_until), greatest(s.removed_at, r.removed_at)
    FROM scd2_internal.feed_state s LEFT JOIN scd2_internal.removal r USING (feed_id) WHERE s.feed_id = feed
$$;
COMMENT ON FUNCTION scd2_internal.feed_start(integer) IS
    'The first version that can be asked of a feed; commit time of the last change that was removed, and when that was, NULL: none was. NULLs: capture has not reached the feed yet';

-- A feed that capture has not reached yet begins at a version that is not given out yet.
CREATE FUNCTION scd2_internal.feed_extent(id integer, OUT enabled_version bigint, OUT enabled_at timestamptz,
    OUT earliest_version bigint, OUT latest_version bigint, OUT gap int8range)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(s.enabled_version, p.version, 0), coalesce(s.enabled_at, p.commit_timestamp, '-infinity'),
        coalesce(b.earliest_version, p.version, 0), coalesce(scd2_internal.feed_complete(id), 0), s.gap
    FROM (VALUES (id)) i LEFT JOIN scd2_internal.position p ON p.singleton
        LEFT JOIN scd2_internal.feed_state s ON s.feed_id = id LEFT JOIN scd2_internal.feed_start(id) b ON true
$$;
COMMENT ON FUNCTION scd2_internal.feed_extent(integer) IS
    'Since when a feed is, what of it can be read, and which versions it lacks.';

CREATE FUNCTION scd2_internal.refuse_start(f scd2_internal.feed, asked text, enabled_version bigint, enabled_at timestamptz, earliest bigint,
    removed_until timestamptz, removed_at timestamptz, hint text DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.refuse('22023',
        format('the change data feed of table "%s" does not reach back to %s', scd2_internal.label(f.source_relid), asked),
        CASE WHEN removed_at IS NOT NULL
             THEN format('It has changes since version %s; older ones%s were removed at %s (it keeps them for %s).', earliest, ', up to ' || removed_until || ',', removed_at,
                  coalesce(f.retention::text, current_setting('pg_scd2.feed_retention')))
             ELSE format('It was enabled at version %s (%s); changes before that were not recorded.', enabled_version, enabled_at) END,
        coalesce(hint, format('SELECT * FROM scd2.table_changes(%L, %s);', f.source_relid::regclass, earliest)));
END $$;
COMMENT ON FUNCTION scd2_internal.refuse_start(scd2_internal.feed, text, bigint, timestamptz, bigint, timestamptz, timestamptz, text) IS
    'Raises 22023: what was asked for, what is there since when, and why and since when the rest is not. hint: NULL: how to read what is there.';

CREATE FUNCTION scd2_internal.gap_remedy(f scd2_internal.feed, gap int8range) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT upper_inf(gap) THEN
        RETURN format('SELECT * FROM scd2.table_changes(%L, %s);', f.source_relid::regclass, upper(gap));
    ELSIF EXISTS (SELECT FROM scd2_internal.feed_state s WHERE s.feed_id = f.feed_id AND s.resync_version IS NOT NULL) THEN
        RETURN 'SELECT scd2.sync(); -- it is being repaired';
    END IF;
    RETURN scd2_internal.repair_statement(f);
END $$;
COMMENT ON FUNCTION scd2_internal.gap_remedy(scd2_internal.feed, int8range) IS
    'For hints: what repairs a gap, or reads on behind one that is closed.';

CREATE FUNCTION scd2_internal.refuse_incomplete(f scd2_internal.feed, complete bigint, own_lock boolean) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    waits record;
BEGIN
    PERFORM scd2_internal.refuse('55P03', format('the change data feed of table "%s" has no changes after version %s before this transaction ends', scd2_internal.label(f.source_relid), complete),
            'They wait to be written, and capture needs a lock on it that this transaction holds.', 'COMMIT;')
        WHERE own_lock;
    SELECT w.* INTO waits FROM scd2_internal.feed_waits_for(f) w;
    PERFORM scd2_internal.refuse('55000',
        format('the change data feed of table "%s" has no changes after version %s yet', scd2_internal.label(f.source_relid), complete),
        format('They wait to be written: %s.', rtrim(coalesce(waits.why, 'try again'), '.')), coalesce(waits.fix, 'SELECT * FROM scd2.feeds;'));
END $$;
COMMENT ON FUNCTION scd2_internal.refuse_incomplete(scd2_internal.feed, bigint, boolean) IS
    'Raises 55000: what was asked for waits to be written, and what for; 55P03 (own_lock): for the caller''s own transaction.';

-- Times ascend with versions.
CREATE FUNCTION scd2_internal.reaches_behind(f scd2_internal.feed, point timestamptz) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
    SELECT scd2_internal.as_owner(f.feed_relid, format('SELECT 1 FROM %s WHERE _commit_timestamp > %L AND _commit_version <= $1 LIMIT 1', f.feed_relid::regclass, point),
        scd2_internal.feed_complete(f.feed_id)) IS NOT NULL
$$;
COMMENT ON FUNCTION scd2_internal.reaches_behind(scd2_internal.feed, timestamptz) IS
    'Whether a feed has a change that was committed after a time, and so all from before it, whatever waits to be written.';

-- With a range of timestamps the place of a gap among the times of the rows around it decides; in doubt the range has
-- it.
CREATE FUNCTION scd2_internal.range_has_gap(f scd2_internal.feed, gap int8range, first bigint, last bigint,
    starting timestamptz, ending timestamptz) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before timestamptz;
    after timestamptz;
BEGIN
    IF gap IS NULL OR first > last OR NOT gap && int8range(first, last, '[]') THEN
        RETURN false;
    END IF;
    IF starting IS NULL AND ending IS NULL THEN
        RETURN true;
    END IF;
    before := scd2_internal.as_owner(f.feed_relid,
        format('SELECT max(_commit_timestamp) FROM %s WHERE _commit_version < $1', f.feed_relid::regclass), lower(gap));
    after := scd2_internal.as_owner(f.feed_relid,
        format('SELECT min(_commit_timestamp) FROM %s WHERE _commit_version >= $1', f.feed_relid::regclass),
        upper(gap));
    RETURN coalesce(ending > before, true) AND coalesce(starting < after, true);
END $$;
COMMENT ON FUNCTION
    scd2_internal.range_has_gap(scd2_internal.feed, int8range, bigint, bigint, timestamptz, timestamptz) IS
    'Whether versions that a feed lacks lie in a range given by versions, timestamps or both.';

CREATE FUNCTION scd2_internal.check_order(starting_version bigint, ending_version bigint,
    starting_timestamp timestamptz, ending_timestamp timestamptz) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF starting_version > ending_version AND starting_version <> ending_version + 1 THEN
        PERFORM scd2_internal.refuse('22023',
            format('the range starts at version %s, after its end at version %s', starting_version, ending_version));
    ELSIF starting_timestamp > ending_timestamp THEN
        PERFORM scd2_internal.refuse('22023',
            format('the range starts at %s, after its end at %s', starting_timestamp, ending_timestamp));
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_order(bigint, bigint, timestamptz, timestamptz) IS
    'Errors: 22023 if a range is reversed; a start right after the end is an empty range, which who polls asks for.';

CREATE FUNCTION scd2._feed_range(relation regclass, starting_version bigint, ending_version bigint,
    starting_timestamp timestamptz, ending_timestamp timestamptz, across_gap boolean,
    OUT feed regclass, OUT first_version bigint, OUT last_version bigint, OUT gap int8range)
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STABLE;
-- across_gap: the start is one after which the rows of the source are wanted (table_at); that of the last change that
-- was removed is known.
CREATE FUNCTION scd2_internal._feed_range(caller oid, relation regclass, starting_version bigint, ending_version bigint,
    starting_timestamp timestamptz, ending_timestamp timestamptz, across_gap boolean,
    OUT feed regclass, OUT first_version bigint, OUT last_version bigint, OUT gap int8range)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed := scd2_internal.readable_feed(caller, relation);
    own_lock CONSTANT boolean := scd2_internal.keeps_feed_locked(f);    -- from before this call
    held record := scd2_internal.hold_feed(f.feed_id, f.feed_relid);
    extent record := scd2_internal.feed_extent(f.feed_id);
    earliest bigint := coalesce(held.earliest_version, extent.earliest_version);
    lowest bigint := CASE WHEN across_gap THEN held.earliest_state ELSE earliest END;
BEGIN
    feed := f.feed_relid;
    gap := extent.gap;
    PERFORM scd2_internal.check_order(starting_version, ending_version, starting_timestamp, ending_timestamp);
    PERFORM scd2_internal.refuse_start(f, coalesce('version ' || starting_version, starting_timestamp::text), extent.enabled_version, extent.enabled_at, earliest,
                held.removed_until, held.removed_at,
                CASE WHEN across_gap THEN format('SELECT * FROM scd2.table_at(NULL::%s, %s);', f.source_relid::regclass, lowest) END)
        WHERE starting_version < coalesce(lowest, earliest) OR starting_timestamp < extent.enabled_at
           OR starting_timestamp < held.removed_until OR starting_timestamp = held.removed_until AND NOT across_gap;
    -- "All that is there" is what the snapshot sees.
    IF starting_version IS NULL AND starting_timestamp IS NULL AND earliest > extent.earliest_version THEN
        PERFORM scd2_internal.refuse('40001', format('old changes of table "%s" were removed before they could be read', scd2_internal.label(f.source_relid)),
            format('The snapshot of this statement is older: it sees changes since version %s, and those since version %s are there.', extent.earliest_version, earliest),
            format('SELECT * FROM scd2.table_changes(%L, %s);', f.source_relid::regclass, earliest));
    END IF;
    -- The version at which a feed was enabled is a legal start, but no change of it is in the feed (a relation that is
    -- used again may have one of the former feed).
    first_version := greatest(starting_version, earliest, extent.enabled_version + 1);
    PERFORM scd2_internal.refuse_incomplete(f, extent.latest_version, own_lock)
        WHERE extent.latest_version < scd2.latest_version()
          AND (ending_version > extent.latest_version OR ending_timestamp IS NOT NULL AND NOT scd2_internal.reaches_behind(f, ending_timestamp));
    last_version := least(ending_version, extent.latest_version);
    IF NOT across_gap AND scd2_internal.range_has_gap(f, gap, first_version, last_version, starting_timestamp,
        ending_timestamp) THEN
        PERFORM scd2_internal.refuse('55000',
            format('the change data feed of table "%s" has a gap in this range', scd2_internal.label(f.source_relid)),
            format('Changes of versions %s were not recorded.', gap),
            scd2_internal.gap_remedy(f, gap));
    END IF;
END $$;
COMMENT ON FUNCTION scd2._feed_range(regclass, bigint, bigint, timestamptz, timestamptz, boolean) IS
    'Part of table_changes: checks a range of a feed (relation: it or its source) and returns the feed, the first and '
    'the last version to read, and the gap it has. Until the transaction ends nothing is removed from the feed. '
    'Errors: 55000 no feed or, unless across_gap, a gap in the range; 22023 a reversed range or one that begins '
    'before the feed; 42501 no right to read the feed.';

-- A bound as text: digits are a version, all else a timestamp.
CREATE FUNCTION scd2._bound(bound text, OUT version bigint, OUT "timestamp" timestamptz)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF bound ~ E'^\\s*[-+]?[0-9]+\\s*$' THEN
        version := bound::bigint;
    ELSE
        "timestamp" := bound::timestamptz;
    END IF;
END $$;
COMMENT ON FUNCTION scd2._bound(text) IS
    'Part of table_changes: a bound as version or timestamp. Errors: 22007, 22008 no timestamp.';

CREATE FUNCTION scd2._range_condition(starting_timestamp timestamptz, ending_timestamp timestamptz) RETURNS text
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'WHERE c._commit_version BETWEEN $1 AND $2'
        || CASE WHEN starting_timestamp IS NOT NULL THEN ' AND c._commit_timestamp >= $3' ELSE '' END
        || CASE WHEN ending_timestamp IS NOT NULL THEN ' AND c._commit_timestamp <= $4' ELSE '' END
        || ' ORDER BY c._commit_version, c._change_ordinal'
$$;
COMMENT ON FUNCTION scd2._range_condition(timestamptz, timestamptz) IS
    'Part of table_changes: condition and order of its query; $1, $2 are versions, $3, $4 timestamps.';

-- To plan a query on a table runs code of its owner. A superuser who reads somebody's feed by these functions reads it as
-- its owner, in a security-restricted operation (src/ask.c); everybody else as himself.
CREATE FUNCTION scd2._reads_as_owner(relation regclass) RETURNS boolean
    AS 'MODULE_PATHNAME', 'scd2_reads_as_owner' LANGUAGE C STABLE STRICT;
COMMENT ON FUNCTION scd2._reads_as_owner(regclass) IS
    'Part of the functions that read feeds: whether the caller is a superuser and the relation''s owner is none.';
CREATE FUNCTION scd2._read_rows("row" anyelement, relation regclass, query text, first_version bigint, last_version bigint,
    starting timestamptz, ending timestamptz) RETURNS SETOF anyelement
    AS 'MODULE_PATHNAME', 'scd2_read_rows' LANGUAGE C STABLE;
COMMENT ON FUNCTION scd2._read_rows(anyelement, regclass, text, bigint, bigint, timestamptz, timestamptz) IS
    'Part of table_changes: the rows of a query as the owner of the relation reads them; what follows are its parameters.';
CREATE FUNCTION scd2._read_rows_now("row" anyelement, relation regclass, query text, first_version bigint, last_version bigint)
    RETURNS SETOF anyelement
    AS 'MODULE_PATHNAME', 'scd2_read_rows' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION scd2._read_rows_now(anyelement, regclass, text, bigint, bigint) IS
    'Part of read_changes: as _read_rows, with what is visible now.';
CREATE FUNCTION scd2._read_rows_now("row" anyelement, relation regclass, query text, after_version bigint, after_timestamp timestamptz)
    RETURNS SETOF anyelement
    AS 'MODULE_PATHNAME', 'scd2_read_rows' LANGUAGE C VOLATILE;
COMMENT ON FUNCTION scd2._read_rows_now(anyelement, regclass, text, bigint, timestamptz) IS
    'Part of table_at: as _read_rows, with what is visible now.';
CREATE FUNCTION scd2._read_records("row" boolean, relation regclass, query text, first_version bigint, last_version bigint,
    starting timestamptz, ending timestamptz, gap int8range) RETURNS SETOF record
    AS 'MODULE_PATHNAME', 'scd2_read_rows' LANGUAGE C STABLE;
COMMENT ON FUNCTION scd2._read_records(boolean, regclass, text, bigint, bigint, timestamptz, timestamptz, int8range) IS
    'Part of table_changes and describe_history: as _read_rows, rows of any columns.';

-- The forms of table_changes with typed rows end here. The result has the type of "feed". A feed that has grown since
-- it was last analyzed looks small, hence no sequential scan and no parallel workers; even for all of it the index
-- costs next to nothing.
CREATE FUNCTION scd2._changes(feed anyelement, relation regclass, starting_version bigint, ending_version bigint,
    starting_timestamp timestamptz, ending_timestamp timestamptz)
    RETURNS SETOF anyelement
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET max_parallel_workers_per_gather = 0 SET jit = off AS $$
DECLARE
    r record := scd2._feed_range(relation, starting_version, ending_version, starting_timestamp, ending_timestamp,
        false);
    query text := format('SELECT c.* FROM %s c ', r.feed) || scd2._range_condition(starting_timestamp, ending_timestamp);
BEGIN
    IF scd2._reads_as_owner(r.feed) THEN
        RETURN QUERY SELECT c.* FROM scd2._read_rows(feed, r.feed, query, r.first_version, r.last_version, starting_timestamp, ending_timestamp) c;
        RETURN;
    END IF;
    RETURN QUERY EXECUTE query USING r.first_version, r.last_version, starting_timestamp, ending_timestamp;
END $$;
COMMENT ON FUNCTION scd2._changes(anyelement, regclass, bigint, bigint, timestamptz, timestamptz) IS
    'Part of table_changes: the rows of a range.';

-- The feed whose row type a value has, for table_changes, or for read_changes of a reader.
CREATE FUNCTION scd2._feed_of_type(type regtype, reader name DEFAULT NULL) RETURNS regclass
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    relation regclass;
    feed regclass;
BEGIN
    SELECT t.typrelid INTO relation FROM pg_type t WHERE t.oid = type AND t.typrelid <> 0;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '42804',
            MESSAGE = format('argument of %s, not of type %s', CASE WHEN reader IS NULL
                THEN 'table_changes must be a row of a change data feed or a table''s name'
                ELSE 'read_changes must be a row of a change data feed' END, type),
            HINT = CASE WHEN reader IS NULL
                THEN 'SELECT * FROM scd2.table_changes(''customers'', 1); '
                     '-- or, with NULL::customers_changes, as columns'
                ELSE format('SELECT * FROM scd2.read_changes(%L, NULL::customers_changes);', reader) END;
    END IF;
    SELECT r.feed INTO feed FROM scd2._feed_range(relation, 9223372036854775807, NULL, NULL, NULL, true) r;    -- no range, no refusal
    IF feed <> relation THEN
        RAISE EXCEPTION USING ERRCODE = '42804',
            MESSAGE = format('"%s" is not the change data feed but its source', relation),
            HINT = format(CASE WHEN reader IS NULL THEN 'SELECT * FROM scd2.table_changes(NULL::%2$s);'
                ELSE 'SELECT * FROM scd2.read_changes(%1$L, NULL::%2$s);' END, reader, feed);
    END IF;
    RETURN relation;
END $$;
COMMENT ON FUNCTION scd2._feed_of_type(regtype, name) IS
    'Part of table_changes and read_changes: the feed whose row type this is. Errors: 42804 it is no row type, or that of a source; '
    '55000 that of a table without a feed.';

-- Names are qualified and no search_path is set on these, so that they are inlined: setting it would cost one more copy
-- of the rows.
CREATE FUNCTION scd2.table_changes(feed anyelement) RETURNS SETOF anyelement
    LANGUAGE sql STABLE AS $$
    SELECT * FROM scd2._changes($1, scd2._feed_of_type(pg_catalog.pg_typeof($1)), NULL, NULL, NULL, NULL)
$$;
CREATE FUNCTION scd2.table_changes(feed anyelement, starting_version bigint, ending_version bigint DEFAULT NULL)
    RETURNS SETOF anyelement
    LANGUAGE sql STABLE AS $$
    SELECT * FROM scd2._changes($1, scd2._feed_of_type(pg_catalog.pg_typeof($1)), $2, $3, NULL, NULL)
$$;
CREATE FUNCTION scd2.table_changes(feed anyelement, starting_timestamp timestamptz,
    ending_timestamp timestamptz DEFAULT NULL) RETURNS SETOF anyelement
    LANGUAGE sql STABLE AS $$
    SELECT * FROM scd2._changes($1, scd2._feed_of_type(pg_catalog.pg_typeof($1)), NULL, NULL, $2, $3)
$$;
CREATE FUNCTION scd2.table_changes(feed anyelement, starting text, ending text DEFAULT NULL) RETURNS SETOF anyelement
    LANGUAGE sql STABLE AS $$
    SELECT c.* FROM scd2._bound($2) s, scd2._bound($3) e,
        scd2._changes($1, scd2._feed_of_type(pg_catalog.pg_typeof($1)),
            s.version, e.version, s."timestamp", e."timestamp") c
$$;

CREATE FUNCTION scd2._changes_as_json(relation regclass, starting_version bigint, ending_version bigint,
    starting_timestamp timestamptz, ending_timestamp timestamptz)
    RETURNS TABLE (_change_type text, _commit_version bigint, _commit_timestamp timestamptz, _change_ordinal integer,
        _row jsonb)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET max_parallel_workers_per_gather = 0 SET jit = off AS $$
DECLARE
    r record := scd2._feed_range(relation, starting_version, ending_version, starting_timestamp, ending_timestamp,
        false);
    columns text;
    query text;
BEGIN
    SELECT string_agg(format('c.%I', a.attname), ', ' ORDER BY a.attnum) INTO columns FROM pg_attribute a
        WHERE a.attrelid = r.feed AND a.attnum > 5 AND NOT a.attisdropped;
    query := format(
        'SELECT c._change_type, c._commit_version, c._commit_timestamp, c._change_ordinal, to_jsonb(o.*) '
        'FROM %s c, LATERAL (SELECT %s) o ', r.feed, columns)
        || scd2._range_condition(starting_timestamp, ending_timestamp);
    IF scd2._reads_as_owner(r.feed) THEN
        RETURN QUERY SELECT c.* FROM scd2._read_records(NULL, r.feed, query, r.first_version, r.last_version, starting_timestamp, ending_timestamp, NULL)
            AS c (_change_type text, _commit_version bigint, _commit_timestamp timestamptz, _change_ordinal integer, _row jsonb);
        RETURN;
    END IF;
    RETURN QUERY EXECUTE query USING r.first_version, r.last_version, starting_timestamp, ending_timestamp;
END $$;
COMMENT ON FUNCTION scd2._changes_as_json(regclass, bigint, bigint, timestamptz, timestamptz) IS
    'Part of table_changes: the rows of a range, source columns as one JSON object.';

-- No SET search_path on these: the name of the source is looked up in the caller's.
CREATE FUNCTION scd2.table_changes(source text)
    RETURNS TABLE (_change_type text, _commit_version bigint, _commit_timestamp timestamptz, _change_ordinal integer,
        _row jsonb)
    LANGUAGE sql STABLE AS $$
    SELECT * FROM scd2._changes_as_json($1::pg_catalog.regclass, NULL, NULL, NULL, NULL)
$$;
CREATE FUNCTION scd2.table_changes(source text, starting_version bigint, ending_version bigint DEFAULT NULL)
    RETURNS TABLE (_change_type text, _commit_version bigint, _commit_timestamp timestamptz, _change_ordinal integer,
        _row jsonb)
    LANGUAGE sql STABLE AS $$
    SELECT * FROM scd2._changes_as_json($1::pg_catalog.regclass, $2, $3, NULL, NULL)
$$;
CREATE FUNCTION scd2.table_changes(source text, starting_timestamp timestamptz,
    ending_timestamp timestamptz DEFAULT NULL)
    RETURNS TABLE (_change_type text, _commit_version bigint, _commit_timestamp timestamptz, _change_ordinal integer,
        _row jsonb)
    LANGUAGE sql STABLE AS $$
    SELECT * FROM scd2._changes_as_json($1::pg_catalog.regclass, NULL, NULL, $2, $3)
$$;
CREATE FUNCTION scd2.table_changes(source text, starting text, ending text DEFAULT NULL)
    RETURNS TABLE (_change_type text, _commit_version bigint, _commit_timestamp timestamptz, _change_ordinal integer,
        _row jsonb)
    LANGUAGE sql STABLE AS $$
    SELECT c.* FROM scd2._bound($2) s, scd2._bound($3) e,
        scd2._changes_as_json($1::pg_catalog.regclass, s.version, e.version, s."timestamp", e."timestamp") c
$$;

DO $$
DECLARE
    f regprocedure;
BEGIN
    FOR f IN SELECT p.oid FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'scd2'::regnamespace
        AND p.proname = 'table_changes' LOOP
        EXECUTE format('COMMENT ON FUNCTION %s IS %L', f,
            'The changes of a table in a range, both ends included, in order. First argument: NULL::<feed>, for rows '
            'of the feed''s type, or the table''s name, for rows as jsonb; then start and end, both versions, '
            'both timestamps or both text (digits: a version). No start: all that the feed has; no end, or one that '
            'is yet to come: the latest. '
            'Errors: 22023 a reversed range, or a start before what the feed has; 55000 no feed, or versions in the '
            'range were not recorded; 42501 no right to read the feed.');
    END LOOP;
END $$;

CREATE FUNCTION scd2.earliest_version(source regclass) RETURNS bigint
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STABLE;
CREATE FUNCTION scd2_internal.earliest_version(caller oid, source regclass) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT e.earliest_version
        FROM scd2_internal.feed_extent((scd2_internal.readable_feed(caller, source)).feed_id) e);
END $$;
COMMENT ON FUNCTION scd2.earliest_version(regclass) IS
    'The lowest version from which the changes of a table can be read. Errors: 55000 no feed, 42501 no right to read '
    'it.';

CREATE FUNCTION scd2.describe_history(source regclass)
    RETURNS TABLE (version bigint, "timestamp" timestamptz, xid xid8, operation text, inserts bigint, updates bigint,
        deletes bigint, truncates bigint)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r record := scd2._feed_range(source, NULL, NULL, NULL, NULL, true);
    query text := format($query$
        SELECT coalesce(v.version, c.version), coalesce(v."timestamp", c."timestamp"), coalesce(v.xid, c.xid),
               concat_ws(', ', CASE WHEN c.version IS NOT NULL THEN 'RECONSTRUCTED' END, CASE WHEN v.inserts > 0 THEN 'INSERT' END, CASE WHEN v.updates > 0 THEN 'UPDATE' END,
                               CASE WHEN v.deletes > 0 THEN 'DELETE' END, CASE
                                   WHEN v.truncates > 0 THEN 'TRUNCATE' END),
               coalesce(v.inserts, 0), coalesce(v.updates, 0), coalesce(v.deletes, 0), coalesce(v.truncates, 0)
        FROM (SELECT f._commit_version AS version, min(f._commit_timestamp) AS "timestamp",
            (array_agg(f._xid))[1] AS xid,
                     count(*) FILTER (WHERE f._change_type = 'insert') AS inserts,
                         count(*) FILTER (WHERE f._change_type = 'update_postimage') AS updates,
                     count(*) FILTER (WHERE f._change_type = 'delete') AS deletes,
                         count(*) FILTER (WHERE f._change_type = 'truncate') AS truncates
              FROM %s f WHERE f._commit_version BETWEEN $1 AND $2 AND (f._commit_version <@ $5) IS NOT TRUE GROUP BY f._commit_version) v
             FULL JOIN (SELECT x.* FROM scd2._reconstructions(%L) x WHERE x.version BETWEEN $1 AND $2) c ON c.version = v.version
        UNION ALL
        SELECT lower($5), NULL, NULL, 'GAP', 0, 0, 0, 0 WHERE $5 IS NOT NULL
        ORDER BY 1 $query$, r.feed, source);
BEGIN
    IF scd2._reads_as_owner(r.feed) THEN
        RETURN QUERY SELECT c.* FROM scd2._read_records(NULL, r.feed, query, r.first_version, r.last_version, NULL, NULL, r.gap)
            AS c (version bigint, "timestamp" timestamptz, xid xid8, operation text, inserts bigint, updates bigint, deletes bigint, truncates bigint);
        RETURN;
    END IF;
    RETURN QUERY EXECUTE query USING r.first_version, r.last_version, NULL::timestamptz, NULL::timestamptz, r.gap;
END $$;
COMMENT ON FUNCTION scd2.describe_history(regclass) IS
    'A row per version that changed a table: when, by which transaction, what it did and how often; GAP where '
    'versions were not recorded, RECONSTRUCTED for what a repair found by comparison. Errors: 55000 no feed, 42501 no right to read it.';
