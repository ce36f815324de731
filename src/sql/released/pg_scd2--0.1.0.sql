-- 00_schema.sql: the two schemas.
--
-- scd2 is the interface: every object in it is documented and callable by everybody; each function checks for itself
-- who may do what. scd2_internal holds the catalogs and the functions that run with the extension owner's rights;
-- nobody else may look into it. The one door between them is scd2_internal's twin of a public function: a public
-- function that needs more rights than its caller is a C function "scd2_call_internal", which calls the function of the
-- same name in scd2_internal with the caller's role oid as first argument (src/call.c).

\echo Use "CREATE EXTENSION pg_scd2" to load this file. \quit

-- Whoever owns the schema could put functions into it that are called instead of ours, or drop it and all of this.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) n.nspowner
               WHERE n.nspname OPERATOR(pg_catalog.=) 'scd2' AND NOT r.rolsuper) THEN
        RAISE insufficient_privilege USING MESSAGE = 'schema "scd2" belongs to a role that is no superuser',
            HINT = 'ALTER SCHEMA scd2 OWNER TO CURRENT_USER; -- and see what is in it';
    ELSIF EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) d.refobjid
                  WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass AND n.nspname OPERATOR(pg_catalog.=) 'scd2'
                    AND d.classid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_extension'::pg_catalog.regclass) THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = 'schema "scd2" is not empty',
            HINT = 'DROP SCHEMA scd2 CASCADE; -- or rename it';
    END IF;
END $$;
SET LOCAL search_path = pg_catalog, pg_temp;

GRANT USAGE ON SCHEMA scd2 TO public;

CREATE SCHEMA scd2_internal;
REVOKE ALL ON SCHEMA scd2_internal FROM public;

COMMENT ON SCHEMA scd2 IS 'pg_scd2: change data feeds and SCD type 1 and type 2 tables';
COMMENT ON SCHEMA scd2_internal IS 'pg_scd2: catalogs and privileged functions, no interface';
-- 05_relation.sql: the type of relations in our catalogs (src/relation.c): stored as oid, dumped as name.

CREATE TYPE scd2_internal.relation;

CREATE FUNCTION scd2_internal.relation_in(cstring) RETURNS scd2_internal.relation
    AS 'MODULE_PATHNAME', 'scd2_relation_in' LANGUAGE C STABLE STRICT;
CREATE FUNCTION scd2_internal.relation_out(scd2_internal.relation) RETURNS cstring
    AS 'MODULE_PATHNAME', 'scd2_relation_out' LANGUAGE C STABLE STRICT;
COMMENT ON FUNCTION scd2_internal.relation_in(cstring) IS
    'The relation of a name; 0 if there is none. Errors: 42602 not a name.';
COMMENT ON FUNCTION scd2_internal.relation_out(scd2_internal.relation) IS
    'The qualified name, whatever the search_path; "-" for a relation that is gone.';

CREATE TYPE scd2_internal.relation (
    INPUT = scd2_internal.relation_in, OUTPUT = scd2_internal.relation_out, LIKE = pg_catalog.oid, CATEGORY = 'N');
COMMENT ON TYPE scd2_internal.relation IS
    'A relation: its oid, which a dump writes as name and a restore finds again by name';

CREATE CAST (scd2_internal.relation AS oid) WITHOUT FUNCTION AS IMPLICIT;
CREATE CAST (scd2_internal.relation AS regclass) WITHOUT FUNCTION AS IMPLICIT;
CREATE CAST (oid AS scd2_internal.relation) WITHOUT FUNCTION AS ASSIGNMENT;
CREATE CAST (regclass AS scd2_internal.relation) WITHOUT FUNCTION AS ASSIGNMENT;
-- 10_catalog.sql: what the extension remembers.
--
-- Two kinds of table, so that nobody waits for anybody: a *definition* (feed, flow) is written by the user's
-- transaction, a *state* (position, feed_state, flow_state, batch) by the workers alone. A definition takes effect
-- when the capture worker meets its control record in the log, in commit order, and writes the state row in the
-- transaction that captures that place.
--
-- Relations are oids that a dump writes as names (05_relation.sql); a schema and name beside them are for telling of
-- relations that are gone. Rows of user tables are only ever named by key. Every table has a primary key, so that FOR
-- ALL TABLES publications do not stop our updates.
--
-- What a dump has of all this, and how workers know that it was restored: 90_dump.sql. There are no foreign keys:
-- pg_restore fills these tables in any order when it works in parallel. Feeds are never deleted; what belongs to a flow
-- goes with it by a trigger.

-- Where these catalogs are at home: random, made by CREATE EXTENSION, not dumped. States and position carry it, so
-- those that a restore brought are told from those of this database.
CREATE TABLE scd2_internal.home (
    singleton     boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    id            uuid NOT NULL,
    foreign_until bigint NOT NULL DEFAULT 0             -- versions up to this came with a dump
);
INSERT INTO scd2_internal.home (id) VALUES (gen_random_uuid());

CREATE FUNCTION scd2_internal.home() RETURNS uuid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT h.id FROM scd2_internal.home h
$$;
COMMENT ON FUNCTION scd2_internal.home() IS 'Identity of this extension in this database';

-- Transactions of versions that came with a dump are those of another server: their numbers mean others here. What they
-- did is in the restored rows, all of it: the dump saw source and feed under one snapshot, and a version is written
-- only once that shows its transaction.
CREATE FUNCTION scd2._foreign_until() RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT h.foreign_until FROM scd2_internal.home h
$$;
COMMENT ON FUNCTION scd2._foreign_until() IS
    'Versions up to this came with a dump: every snapshot of this database sees them, whatever their _xid; 0 if none did.';

-- Where capture stands. One row, written by the capture worker alone, by TID.
CREATE TABLE scd2_internal.position (
    singleton         boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    version           bigint NOT NULL DEFAULT 0,        -- last version given out
    commit_timestamp  timestamptz,                      -- of the last version or control record: the monotone clock
    captured_lsn      pg_lsn,                           -- end of the last transaction captured; NULL until the slot exists
    database          oid NOT NULL,                     -- a copy of the database has another,
    system_identifier bigint NOT NULL,                  -- a copy of the cluster too or not,
    timeline          integer NOT NULL,                 -- a promoted standby another timeline
    slot              name NOT NULL,                    -- with a random part: never a stranger's
    home              uuid NOT NULL                     -- a restored dump has another
);

CREATE FUNCTION scd2_internal.awaits_resume() RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM scd2_internal.position p WHERE p.home <> scd2_internal.home())
$$;
COMMENT ON FUNCTION scd2_internal.awaits_resume() IS
    'Whether a dump was restored here, or is being restored, and scd2.resume_capture() is yet to come';

-- Whether this database's workers run: scd2.stop(), scd2.start(). No row: they do.
CREATE TABLE scd2_internal.switch (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    stopped   boolean NOT NULL
);

-- Things that must reach the capture worker at their place in the log. Decoded by our plugin, processed in commit
-- order, then deleted by the worker.
CREATE TABLE scd2_internal.control (
    control_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind         text NOT NULL CHECK (kind IN ('enable feed', 'disable feed', 'begin flow', 'gap', 'columns', 'partition emptied', 'resync', 'rewrite')),
    feed_id      integer,
    flow_id      integer,
    source_relid oid,                                   -- enable feed: the table to capture (a partitioned root too); columns: it, or a leaf; partition emptied: the partition
    feed_relid   oid,                                   -- enable feed: the leaf to write into is looked up from it
    detail       text,                                  -- gap, rewrite: why; enable feed, columns: the columns that stay out, an array
    no_rows      boolean NOT NULL DEFAULT false,        -- columns: the table has none, so whatever became of them, nothing is missed
    settled      boolean NOT NULL DEFAULT false         -- its place in the log was lost: not heeded if it is met after all
);

-- Rows that came or went with a partition, for the log alone: there is never one to see (src/feed/staged.c).
CREATE TABLE scd2_internal.staged_row (
    staged_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    feed_id    integer NOT NULL,
    leaf_relid oid NOT NULL,
    arrives    boolean NOT NULL,                        -- else it goes
    image      bytea NOT NULL                           -- as it is stored in the leaf
);
ALTER TABLE scd2_internal.staged_row ALTER image SET STORAGE EXTERNAL;

-- A feed, as its owner defined it.
CREATE TABLE scd2_internal.feed (
    feed_id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source_schema    name NOT NULL,
    source_name      name NOT NULL,
    feed_schema      name NOT NULL,
    feed_name        name NOT NULL,
    source_relid     scd2_internal.relation NOT NULL,
    feed_relid       scd2_internal.relation NOT NULL,
    except_columns   name[] NOT NULL DEFAULT '{}',
    retention        interval,                          -- NULL: pg_scd2.feed_retention
    found_identity   "char" NOT NULL,                   -- replica identity to give back: d, n, f or i
    found_index      name,                              -- with i: the index
    disabled         boolean NOT NULL DEFAULT false,    -- by disable_change_feed; its relation may still be read
    created_at       timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX feed_one_per_source ON scd2_internal.feed (source_relid) WHERE NOT disabled AND source_relid <> 0::oid;
CREATE UNIQUE INDEX feed_one_per_relation ON scd2_internal.feed (feed_relid) WHERE NOT disabled AND feed_relid <> 0::oid;

-- What capture makes of it. A row exists from the place of "enable feed" in the log until that of "disable feed":
-- the rows with state 'running' are the set of captured tables as of the position.
CREATE TABLE scd2_internal.feed_state (
    feed_id          integer PRIMARY KEY,
    source_relid     scd2_internal.relation NOT NULL,
    feed_relid       scd2_internal.relation NOT NULL,
    state            text NOT NULL CHECK (state IN ('running', 'failed')),
    enabled_version  bigint NOT NULL,                   -- the version before the first that can be in the feed
    enabled_at       timestamptz NOT NULL,
    earliest_version bigint NOT NULL,                   -- lowest legal start: enabled_version, or more after retention
    removed_until    timestamptz,                       -- commit time of the last change that was removed,
    removed_at       timestamptz,                       -- and when that was; NULL: none yet
    gap              int8range,                         -- versions that are missing; upper bound NULL while it lasts
    broken_at        bigint,                            -- the first of them that flows have to wait before; NULL: they need not
    resync_version   bigint,                            -- the repair has begun: it brings the differences as this version,
    resync_timestamp timestamptz,                       -- of this time
    resync_failures  integer NOT NULL DEFAULT 0,        -- in a row,
    resync_retry_at  timestamptz,                       -- and not before
    catches_up       boolean NOT NULL DEFAULT false,    -- its columns were not followed while it was not captured
    repaired_version bigint NOT NULL DEFAULT 0,         -- of the last repair: its rows do not lie in the order of versions
    error            text,
    error_at         timestamptz,
    home             uuid NOT NULL DEFAULT scd2_internal.home()
);

-- Repairs of gaps: what was missing came as the changes of one version.
CREATE TABLE scd2_internal.reconstruction (
    feed_id     integer,
    version     bigint,
    commit_time timestamptz NOT NULL,
    xid         xid8 NOT NULL,                          -- that wrote it
    gap         int8range NOT NULL,                     -- that it repaired
    whole       boolean NOT NULL,                       -- all columns could be compared
    PRIMARY KEY (feed_id, version)
);

-- Which column of the source each of a feed's is, as of the position: numbers stay when names change. Written with
-- the definition, then by capture alone.
CREATE TABLE scd2_internal.feed_column (
    feed_id       integer,
    source_attnum smallint,                             -- negative: of a column that is not followed any more
    feed_attnum   smallint NOT NULL,                    -- 0: stays out
    name          name NOT NULL,
    missing       text,                                 -- what rows from before it was added have: the constant default
    was           smallint,                             -- the source's whose values it had until the type of that changed,
    until         bigint,                               -- in this version; NULL: no such column
    PRIMARY KEY (feed_id, source_attnum)
);

-- How often the columns of a feed changed: flows that know of fewer changes have to follow.
CREATE TABLE scd2_internal.feed_layout (
    feed_id integer PRIMARY KEY,
    changes integer NOT NULL
);

-- A flow, as its owner defined it. Its owner is the target's.
CREATE TABLE scd2_internal.flow (
    flow_id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name             name NOT NULL UNIQUE,
    kind             text NOT NULL CHECK (kind IN ('auto_cdc', 'snapshot', 'append')),
    target_schema    name NOT NULL,
    target_name      name NOT NULL,
    target_relid     scd2_internal.relation NOT NULL,
    source_schema    name NOT NULL,                     -- the table, also where the flow reads its feed
    source_name      name NOT NULL,
    source_relid     scd2_internal.relation NOT NULL,
    feed_id          integer,                           -- NULL: not over a feed
    scd_type         integer NOT NULL CHECK (scd_type IN (1, 2)),
    keys             name[] NOT NULL,
    columns          name[] NOT NULL,                   -- selected, in the target's order, keys included
    tracked          name[] NOT NULL,                   -- subset of columns: a difference opens a version
    start_column     name NOT NULL DEFAULT '__start_at',
    end_column       name NOT NULL DEFAULT '__end_at',
    current_column   name,
    input            text NOT NULL DEFAULT 'net' CHECK (input IN ('net', 'changes', 'events', 'snapshots', 'append')),
                                                        -- of a feed the net effect of each version, or each change;
                                                        -- the rows inserted into an event table; all rows of the
                                                        -- source, from time to time; 'append': the rows inserted,
                                                        -- without keys (scd_type means nothing)
    closes           boolean NOT NULL DEFAULT false,    -- 'changes': of each version the net effect, as 'net' has it, for a target that is shared
    ignores_null     name[] NOT NULL DEFAULT '{}',      -- 'events': columns in which NULL means that nothing was sent
    absent           name[] NOT NULL DEFAULT '{}',      -- columns that others bring into the target: NULL in its own events
    sequence_by      text,                              -- expressions over the columns of the source; NULL: not given
    sequence_type    text NOT NULL DEFAULT 'timestamp with time zone',
    sequence_column  name,                              -- type 1: the selected column that sequence_by is, if it is one
    delete_sequence_by text,                            -- 'changes': of deletes and truncates
    end_sequence_by  text,                              -- 'events': where a row ends
    apply_as_deletes text,
    apply_as_truncates text,
    source_filter    text,
    on_invalid_event text NOT NULL DEFAULT 'fail' CHECK (on_invalid_event IN ('fail', 'quarantine')),
    max_lateness     text,                              -- how far behind the highest sequence an event may be; NULL: it is never too late
    purged_before    text,                              -- versions that ended before it were removed (purge_history), and events below it
                                                        -- are too late; in the text form of sequence_type; NULL: none were
    memory_name      name,                              -- in the target's schema: what rows do not show of events; NULL: they come in order
    memory_relid     scd2_internal.relation,
    scope            text,                              -- 'snapshots': an expression over the keys; NULL: all
    delete_absent    boolean NOT NULL DEFAULT true,     -- keys that a snapshot lacks are deleted
    max_delete_fraction numeric,                        -- of the live keys, unless told otherwise
    version_query    text,                              -- gives the version of a snapshot that the worker takes; NULL: now()
    initial_start    text,                              -- expression; NULL: the flow's beginning
    starting_version bigint,                            -- NULL: the flow's own commit
    once             boolean NOT NULL DEFAULT false,
    refresh_interval interval NOT NULL DEFAULT '0',     -- 'snapshots': how often the worker takes one; 0: only apply_snapshot() does
    options          jsonb NOT NULL DEFAULT '{}',       -- the arguments as given, for describing and for kinds to come
    settings         text[] NOT NULL DEFAULT '{}',      -- 'TimeZone=…', 'DateStyle=…', 'IntervalStyle=…' at creation
    known_changes    integer,                           -- of its feed's columns (feed_layout), that are in the definition;
                                                        -- 'snapshots': which relation the source was (a hash of its oid)
    known_attnums    smallint[],                        -- the columns of the feed ('snapshots': of the source) then,
    known_names      name[],                            -- and their names
    definition       integer NOT NULL DEFAULT 1,        -- grows with each change: cached plans are of one definition
    paused           boolean NOT NULL DEFAULT false,
    created_at       timestamptz NOT NULL DEFAULT now()
);

-- What the workers make of it. The row comes with the control record; its beginning never changes afterwards.
CREATE TABLE scd2_internal.flow_state (
    flow_id             integer PRIMARY KEY,
    phase               text NOT NULL CHECK (phase IN ('copy', 'apply', 'failed', 'done')),
    begin_version       bigint NOT NULL,                -- the target holds the source as of this version at first,
    begin_timestamp     timestamptz NOT NULL,           -- valid since this time (or initial_start)
    watermark_version   bigint NOT NULL,
    watermark_timestamp timestamptz NOT NULL,
    rereads             boolean NOT NULL DEFAULT false, -- the copy adds to what is there: events that a gap kept from it
    failed_phase        text,                           -- 'copy' or 'apply': where resume_flow goes on
    failures            integer NOT NULL DEFAULT 0,     -- in a row
    retry_at            timestamptz,                    -- not before
    last_error          text,
    last_error_at       timestamptz,
    events              bigint NOT NULL DEFAULT 0,
    applied             bigint NOT NULL DEFAULT 0,
    duplicates          bigint NOT NULL DEFAULT 0,
    out_of_order        bigint NOT NULL DEFAULT 0,
    too_late            bigint NOT NULL DEFAULT 0,
    highest             text,                           -- with a max_lateness: the highest sequence seen,
    horizon             text,                           -- and below what events are too late; in the text form of the target's sequence type
    conflicts           bigint NOT NULL DEFAULT 0,
    rejected            bigint NOT NULL DEFAULT 0,
    skipped             bigint NOT NULL DEFAULT 0,
    rows_inserted       bigint NOT NULL DEFAULT 0,
    rows_updated        bigint NOT NULL DEFAULT 0,
    rows_deleted        bigint NOT NULL DEFAULT 0,
    batches             bigint NOT NULL DEFAULT 0,
    last_batch          timestamptz,
    snapshot_version    text,                           -- of the last snapshot, in the text form of the sequence's type
    snapshot_at         timestamptz,                    -- when the worker looked at the source last, or it was applied
    finished_at         timestamptz,
    home                uuid NOT NULL DEFAULT scd2_internal.home()
) WITH (fillfactor = 50);

-- The last batches of each flow, a ring: slot = batches % 100.
CREATE TABLE scd2_internal.batch (
    flow_id       integer,
    slot          integer,
    started       timestamptz NOT NULL,
    duration      interval NOT NULL,
    first_version bigint NOT NULL,
    last_version  bigint NOT NULL,
    events        bigint NOT NULL,
    rows_inserted bigint NOT NULL,
    rows_updated  bigint NOT NULL,
    rows_deleted  bigint NOT NULL,
    PRIMARY KEY (flow_id, slot)
) WITH (fillfactor = 50);

-- Events of every key of a target that are remembered once: truncates and complete snapshots.
CREATE TABLE scd2_internal.mark (
    mark_id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    target_schema name NOT NULL,
    target_name   name NOT NULL,
    target_relid  scd2_internal.relation NOT NULL,
    sequence      text NOT NULL,                        -- in the text form of the target's sequence type
    kind          text NOT NULL CHECK (kind IN ('truncate', 'close', 'snapshot', 'horizon')),
    scope         text,                                 -- snapshot: of which keys it speaks, an expression; NULL: of all
    scope_alias   name,                                 -- what its columns may be qualified with
    scope_settings text[],                              -- under which it was written
    flow_id       integer                               -- that brought it; NULL: purge_history()
);
CREATE INDEX mark_of_target ON scd2_internal.mark (target_relid, mark_id);

-- Targets that are too large for purge_history() to remove old versions in its caller's transaction: the worker that
-- looks after feeds goes on, some pages at a time.
CREATE TABLE scd2_internal.purge (
    target_relid   scd2_internal.relation PRIMARY KEY,
    before         text NOT NULL,                       -- in the text form of the target's sequence type
    storage        oid NOT NULL,                        -- relfilenode of the target: another, and it begins again
    next_block     bigint NOT NULL DEFAULT 0,
    rows_done      bigint NOT NULL DEFAULT 0,
    rows_estimated bigint NOT NULL,
    started        timestamptz NOT NULL DEFAULT now(),
    home           uuid NOT NULL DEFAULT scd2_internal.home(),
    last_error     text                                 -- of the last try; NULL: it went well
);

-- Events that could not be accepted: invalid ones of flows with on_invalid_event = 'quarantine', and those that are
-- too late.
CREATE TABLE scd2_internal.rejected (
    rejected_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    flow_id        integer NOT NULL,
    version        bigint,                              -- NULL: the row was there before the flow
    change_ordinal integer,
    reason         text NOT NULL,
    event          jsonb NOT NULL,
    rejected_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX rejected_of_flow ON scd2_internal.rejected (flow_id);

-- What was erased from what is made from a table, without the key.
CREATE TABLE scd2_internal.erasure (
    erasure_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source_schema name NOT NULL,
    source_name   name NOT NULL,
    source_relid  scd2_internal.relation NOT NULL,
    rows          bigint NOT NULL,
    erased_by     name NOT NULL,
    erased_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Events of a key that was erased from a target, and that come again: known by a fingerprint of the key.
CREATE TABLE scd2_internal.erased_key (
    target_schema name NOT NULL,
    target_name   name NOT NULL,
    target_relid  scd2_internal.relation,
    fingerprint   bigint,                               -- a hash of the key, seeded with
    seed          bigint NOT NULL,                      -- a random number that all of a target share
    sequence      text NOT NULL,                        -- events up to here are not accepted; in the text form of the target's sequence type
    PRIMARY KEY (target_relid, fingerprint)
);

-- Versions that a flow leaves out, by skip_version().
CREATE TABLE scd2_internal.skipped_version (
    flow_id    integer,
    version    bigint,
    skipped_by name NOT NULL,
    skipped_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (flow_id, version)
);

-- Consumers from outside, and how far they have read. Written by their transactions; a reader locks its own row alone.
CREATE TABLE scd2_internal.reader (
    name         name PRIMARY KEY,
    feed_id      integer NOT NULL,
    version      bigint NOT NULL,                       -- it has everything up to here
    read_version bigint,                                -- what the last read covered; NULL: no more than that
    reached      timestamptz,                           -- commit time of the first change after it; NULL: there was none
    last_read    timestamptz,
    used_at      timestamptz NOT NULL DEFAULT clock_timestamp(),    -- created, read or advanced
    expired_at   timestamptz                            -- by pg_scd2.reader_timeout: keeps nothing any more
);
CREATE INDEX reader_of_feed ON scd2_internal.reader (feed_id);

CREATE FUNCTION scd2_internal.forget_flow() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    DELETE FROM scd2_internal.flow_state s WHERE s.flow_id = OLD.flow_id;
    DELETE FROM scd2_internal.batch b WHERE b.flow_id = OLD.flow_id;
    DELETE FROM scd2_internal.rejected r WHERE r.flow_id = OLD.flow_id;
    DELETE FROM scd2_internal.skipped_version v WHERE v.flow_id = OLD.flow_id;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION scd2_internal.forget_flow() IS 'Deletes what belongs to a flow that was deleted';
CREATE TRIGGER forget_flow AFTER DELETE ON scd2_internal.flow FOR EACH ROW EXECUTE FUNCTION scd2_internal.forget_flow();
ALTER TABLE scd2_internal.flow ENABLE ALWAYS TRIGGER forget_flow;
-- 11_ask.sql: looking into users' relations from functions that run as superuser (src/ask.c says why they must not
-- query them).

CREATE FUNCTION scd2_internal.as_owner(relation oid, query text, argument bigint) RETURNS text
    AS 'MODULE_PATHNAME', 'scd2_as_owner' LANGUAGE C STABLE STRICT;
COMMENT ON FUNCTION scd2_internal.as_owner(oid, text, bigint) IS
    'The first value that a query (with $1, the argument) gives, as text; it runs as the owner of the relation';

CREATE FUNCTION scd2_internal.has_rows(relation oid) RETURNS boolean
    AS 'MODULE_PATHNAME', 'scd2_has_rows' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.has_rows(oid) IS
    'Whether a table or one of its partitions has a row, without a query';
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
        SELECT f.name, s.phase, s.last_error, f.feed_id, fs.state AS feed_state, fs.error AS feed_error, fs.resync_version,
               coalesce(scd2_internal.label(sc.oid), f.source_schema || '.' || f.source_name) AS source,
               CASE WHEN f.paused THEN 'it is paused'
                    WHEN NOT pg_has_role(caller, scd2_internal.flow_owner(f), 'USAGE') THEN 'it belongs to another role'
                    WHEN c.oid IS NULL THEN 'its target was dropped'
                    WHEN sc.oid IS NULL AND fs.state = 'failed' THEN 'its source was dropped' END AS not_waiting,
               s.flow_id IS NULL OR s.phase = 'copy' OR s.phase = 'apply' AND f.feed_id IS NOT NULL AND NOT f.once
                   AND f.known_changes <> (SELECT l.changes FROM scd2_internal.feed_layout l WHERE l.feed_id = f.feed_id)
                   OR s.phase = 'apply' AND CASE WHEN f.kind = 'snapshot' THEN (f.once OR f.refresh_interval > '0')
                       AND s.snapshot_at >= since IS NOT TRUE
                   ELSE s.watermark_version < least(sync_pending.version,
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
    RETURN pending;
END $$;

-- BEFORE statement trigger of feeds and targets: 55000 unless the worker writes, or the owner with
-- pg_scd2.allow_target_writes = on.
CREATE FUNCTION scd2_internal.guard() RETURNS trigger AS 'MODULE_PATHNAME', 'scd2_guard' LANGUAGE C;

-- Lets a trigger go with the extension: DROP EXTENSION takes it along.
CREATE FUNCTION scd2_internal.depend_on_extension(relation oid, trigger name) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_depend_on_extension' LANGUAGE C STRICT;

CREATE FUNCTION scd2_internal.put_guard(relation oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('CREATE OR REPLACE TRIGGER scd2_guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s '
                   'FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard()', relation::regclass);
    EXECUTE format('ALTER TABLE ONLY %s ENABLE ALWAYS TRIGGER scd2_guard', relation::regclass);
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
    ELSE
        PERFORM scd2_internal.lose_position(why);
    END IF;
    PERFORM scd2_internal.workers_changed();
    PERFORM scd2_internal.switch_workers(false);       -- after scd2.stop() too
END $$;
COMMENT ON FUNCTION scd2.resume_capture(boolean) IS
    'Has a copy of a database or a restored one capture: each feed that ran gets a declared gap, which scd2.resync() '
    'repairs. no_gap => true, after pg_upgrade or a restore, if nothing was written since scd2.sync() returned before: '
    'feeds and flows go on as they were. A NOTICE if nothing is lost. For superusers and those they grant it to. '
    'Errors: 55000 no_gap where something is lost.';
COMMENT ON FUNCTION scd2_internal.resume_capture(oid, boolean) IS 'Privileged twin of scd2.resume_capture.';
REVOKE EXECUTE ON FUNCTION scd2.resume_capture(boolean) FROM public;
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
    PERFORM scd2_internal.close_all_rows();
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
-- 30_feed_check.sql: may this table have a change data feed, and whose is it.
--
-- Each check raises its own error, which names the table, says why, and, where there is one, gives the statement that
-- helps. The checks read the catalogs only; they run once before the source is locked (so that a hopeless call waits
-- for nobody) and once after it (because what they saw may have changed meanwhile).

CREATE FUNCTION scd2_internal.refuse(code text, message text, detail text DEFAULT NULL, hint text DEFAULT NULL)
    RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF detail IS NOT NULL AND hint IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = detail, HINT = hint;
    ELSIF detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = detail;
    ELSIF hint IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, HINT = hint;
    END IF;
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message;
END $$;
COMMENT ON FUNCTION scd2_internal.refuse(text, text, text, text) IS
    'Raises an error with this SQLSTATE, message and, where not null, detail and hint.';

CREATE FUNCTION scd2_internal.label(relation oid) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT n.nspname || '.' || c.relname
                     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation),
                         relation::text)
$$;
COMMENT ON FUNCTION scd2_internal.label(oid) IS
    'A relation''s name for messages, where it stands in double quotes: schema and name, not quoted. For statements '
    'use regclass.';

CREATE FUNCTION scd2_internal.generated_name(base text, label text) RETURNS name
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    room CONSTANT integer := 63 - octet_length(label) - 1;
    clipped text := left(base, room);
BEGIN
    WHILE octet_length(clipped) > room LOOP
        clipped := left(clipped, -1);
    END LOOP;
    RETURN clipped || '_' || label;
END $$;
COMMENT ON FUNCTION scd2_internal.generated_name(text, text) IS
    'base_label in at most 63 bytes: the base is clipped, at a character, as the server does for index names.';

-- Where rows are stored: the table itself, or all leaves of a partitioned one.
CREATE FUNCTION scd2_internal.leaves(source oid) RETURNS SETOF oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.oid FROM pg_class c WHERE c.oid = source AND c.relkind <> 'p'
    UNION ALL
    SELECT t.relid::oid FROM pg_class c, pg_partition_tree(source) t WHERE c.oid = source AND c.relkind = 'p'
        AND t.isleaf
        AND (SELECT l.relkind FROM pg_class l WHERE l.oid = t.relid) <> 'p'
    ORDER BY 1
$$;
COMMENT ON FUNCTION scd2_internal.leaves(oid) IS
    'The tables that hold a source''s rows, by oid: itself, or the leaves of a partitioned table (none for one '
    'without partitions).';

CREATE FUNCTION scd2_internal.feed_of(source oid) RETURNS scd2_internal.feed
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT f FROM scd2_internal.feed f WHERE f.source_relid = source AND NOT f.disabled
$$;
COMMENT ON FUNCTION scd2_internal.feed_of(oid) IS 'The feed of a table, NULL if it has none or it was disabled.';

CREATE FUNCTION scd2_internal.require_feed_of(source oid) RETURNS scd2_internal.feed
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed := scd2_internal.feed_of(source);
    root oid;
BEGIN
    IF f.feed_id IS NULL THEN
        SELECT pg_partition_root(c.oid) INTO root FROM pg_class c WHERE c.oid = source AND c.relispartition;
        IF root IS NOT NULL THEN
            PERFORM scd2_internal.refuse('55000',
                format('partition "%s" has no change data feed of its own', scd2_internal.label(source)),
                format('The feed of the partitioned table "%s" has the changes of all its partitions.',
                    scd2_internal.label(root)),
                CASE WHEN (scd2_internal.feed_of(root)).feed_id IS NULL
                    THEN format('SELECT scd2.enable_change_feed(%L);', root::regclass)
                     ELSE format('SELECT * FROM scd2.table_changes(%L);', root::regclass) END);
        END IF;
        PERFORM scd2_internal.refuse('55000', format('table "%s" has no change data feed', scd2_internal.label(source)),
            hint => format('SELECT scd2.enable_change_feed(%L);', source::regclass));
    END IF;
    RETURN f;
END $$;
COMMENT ON FUNCTION scd2_internal.require_feed_of(oid) IS 'The feed of a table. Errors: 55000 if it has none.';

CREATE FUNCTION scd2_internal.check_owner(caller oid, relation oid) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner oid;
BEGIN
    IF relation IS NULL THEN
        PERFORM scd2_internal.refuse('22004', 'the table must not be null');
    END IF;
    SELECT c.relowner INTO owner FROM pg_class c WHERE c.oid = relation;
    IF owner IS NULL THEN
        PERFORM scd2_internal.refuse('42P01', format('relation with oid %s does not exist', relation));
    END IF;
    IF NOT pg_has_role(caller, owner, 'USAGE') THEN
        PERFORM scd2_internal.refuse('42501', format('must be owner of table "%s"', scd2_internal.label(relation)));
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_owner(oid, oid) IS
    'Errors: 42501 if "caller" has not the privileges of the relation''s owner, 42P01 if there is none, 22004 for '
    'NULL.';

-- What stands against a feed in the kind of the relation, NULL if nothing. "root" is what to enable instead.
CREATE FUNCTION scd2_internal.unfit_kind(source oid, OUT code text, OUT what text, OUT reason text, OUT hint text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT k.code, k.what, k.reason, k.hint
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_am a ON a.oid = c.relam,
         LATERAL (VALUES
            (1, c.relkind = 'v', '42809', 'view', 'A view stores no rows, so it has no changes of its own.',
                'Enable the feeds of the tables that it reads.'),
            (2, c.relkind = 'm', '42809', 'materialized view',
                'A refresh replaces its contents; the log does not show it as changes.', NULL),
            (3, c.relkind = 'f', '42809', 'foreign table',
                'Its rows are stored elsewhere, and the log of this server does not show them.', NULL),
            (4, c.relkind NOT IN ('r', 'p', 'v', 'm', 'f'), '42809', 'relation', 'It is not a table.', NULL),
            (5, c.oid < 16384 OR n.nspname IN ('pg_catalog', 'information_schema') OR n.nspname LIKE 'pg\_toast%',
                '42809', 'system catalog', 'Changes of system catalogs are not decoded.', NULL),
            (6, n.nspname IN ('scd2', 'scd2_internal'), '42809', 'table', 'It belongs to pg_scd2 itself.', NULL),
            (7, EXISTS (SELECT FROM scd2_internal.feed f
                        WHERE f.feed_relid = c.oid OR f.feed_relid IN (SELECT p.relid
                            FROM pg_partition_ancestors(c.oid) p)),
                '42809', 'table', 'It is a change data feed itself.', NULL),
            (8, c.relpersistence = 't', '42809', 'temporary table', 'Changes of temporary tables are not logged.',
                NULL),
            (9, c.relpersistence = 'u', '55000', 'unlogged table', 'Changes of unlogged tables are not logged.',
                format('ALTER TABLE %s SET LOGGED;', c.oid::regclass)),
            (10, c.relkind = 'r' AND a.amname <> 'heap', '0A000', 'table',
                format('Its access method "%s" is none that logical decoding reads.', a.amname),
                format('ALTER TABLE %s SET ACCESS METHOD heap;', c.oid::regclass))
         ) k (rank, applies, code, what, reason, hint)
    WHERE c.oid = source AND k.applies
    ORDER BY k.rank LIMIT 1
$$;
COMMENT ON FUNCTION scd2_internal.unfit_kind(oid) IS
    'Why a relation of this kind can have no feed: SQLSTATE, word for the kind, reason and hint; NULLs if it can.';

CREATE FUNCTION scd2_internal.check_kind(source oid) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    unfit record;
    leaf oid;
    root oid;
BEGIN
    SELECT k.* INTO unfit FROM scd2_internal.unfit_kind(source) k;
    IF unfit.code IS NOT NULL THEN
        PERFORM scd2_internal.refuse(unfit.code,
            format('cannot enable a change data feed for %s "%s"', unfit.what, scd2_internal.label(source)),
                                     unfit.reason, unfit.hint);
    END IF;
    IF (SELECT c.relispartition FROM pg_class c WHERE c.oid = source) THEN
        root := pg_partition_root(source);
        PERFORM scd2_internal.refuse('42809',
            format('cannot enable a change data feed for partition "%s"', scd2_internal.label(source)),
            format('The feed of the partitioned table "%s" has the changes of all its partitions.',
                scd2_internal.label(root)),
            format('SELECT scd2.enable_change_feed(%L);', root::regclass));
    END IF;
    PERFORM scd2_internal.refuse_feed_below(source);
    FOR leaf IN SELECT l FROM scd2_internal.leaves(source) l WHERE l <> source LOOP
        SELECT k.* INTO unfit FROM scd2_internal.unfit_kind(leaf) k;
        IF unfit.code IS NOT NULL THEN
            PERFORM scd2_internal.refuse(unfit.code,
                format('cannot enable a change data feed for table "%s": '
                       'its partition "%s" is no table that can be captured',
                                                            scd2_internal.label(source), scd2_internal.label(leaf)),
                                                                unfit.reason, unfit.hint);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.check_kind(oid) IS
    'Errors: 42809, 55000, 0A000 if the relation, or a partition of it, is of a kind whose changes cannot be captured.';

CREATE FUNCTION scd2_internal.check_excepted(source oid, except_column_list name[]) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bad name;
BEGIN
    SELECT e INTO bad FROM unnest(except_column_list) e
    WHERE e IS NULL OR NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = source AND a.attname = e
        AND a.attnum > 0 AND NOT a.attisdropped)
    LIMIT 1;
    IF FOUND THEN
        PERFORM scd2_internal.refuse('42703',
            format('column "%s" of table "%s" does not exist', coalesce(bad, 'NULL'), scd2_internal.label(source)),
            detail => 'It is named in except_column_list.');
    END IF;
    SELECT e INTO bad FROM unnest(except_column_list) e GROUP BY e HAVING count(*) > 1 LIMIT 1;
    IF FOUND THEN
        PERFORM scd2_internal.refuse('42701', format('column "%s" is named twice in except_column_list', bad));
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_excepted(oid, name[]) IS
    'Errors: 42703 if a name of the list is no column of the table, 42701 if one is named twice.';

-- What a domain stands for: a feed must take values that an older or stricter domain would refuse.
CREATE FUNCTION scd2_internal.base_type(type oid, typmod integer, OUT base oid, OUT base_typmod integer)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t record;
BEGIN
    base := type;
    base_typmod := typmod;
    LOOP
        SELECT y.typtype, y.typbasetype, y.typtypmod INTO t FROM pg_type y WHERE y.oid = base;
        EXIT WHEN t.typtype IS DISTINCT FROM 'd';
        base := t.typbasetype;
        base_typmod := t.typtypmod;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.base_type(oid, integer) IS
    'The type and type modifier that a domain is over, through all levels; other types as they are.';

-- A feed's columns. Virtual generated columns are not stored, so the log cannot show them.
CREATE FUNCTION scd2_internal.feed_columns(source oid, except_column_list name[])
    RETURNS TABLE (ordinal bigint, name name, type oid, typmod integer, collation_oid oid, not_null boolean)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM (VALUES (-5::bigint, '_change_type'::name, 'text'::regtype::oid, -1,
        'pg_catalog.default'::regcollation::oid, true),
                          (-4, '_commit_version', 'bigint'::regtype, -1, 0, true),
                          (-3, '_commit_timestamp', 'timestamptz'::regtype, -1, 0, true),
                          (-2, '_change_ordinal', 'integer'::regtype, -1, 0, true),
                          (-1, '_xid', 'xid8'::regtype, -1, 0, true)) m
    UNION ALL
    SELECT a.attnum, a.attname, b.base, b.base_typmod, a.attcollation, false
    FROM pg_attribute a, scd2_internal.base_type(a.atttypid, a.atttypmod) b
    WHERE a.attrelid = source AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> 'v'
        AND a.attname <> ALL (except_column_list)
    ORDER BY 1
$$;
COMMENT ON FUNCTION scd2_internal.feed_columns(oid, name[]) IS
    'The columns that the feed of a table has, in order: the five metadata columns, then the table''s, without those '
    'excepted.';

-- Bytes that a row takes if all of its columns of fixed width have a value and all others are moved out of line or
-- NULL. No row can be stored in less.
CREATE FUNCTION scd2_internal.fixed_row_width(source oid, except_column_list name[]) RETURNS integer
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c record;
    width integer := 0;
    columns integer := 0;
    step integer;
BEGIN
    FOR c IN SELECT t.typlen, t.typalign FROM scd2_internal.feed_columns(source, except_column_list) f
        JOIN pg_type t ON t.oid = f.type ORDER BY f.ordinal LOOP
        columns := columns + 1;
        CONTINUE WHEN c.typlen < 0;
        step := CASE c.typalign WHEN 'd' THEN 8 WHEN 'i' THEN 4 WHEN 's' THEN 2 ELSE 1 END;
        width := (width + step - 1) / step * step + c.typlen;
    END LOOP;
    RETURN (23 + (columns + 7) / 8 + 7) / 8 * 8 + width;
END $$;
COMMENT ON FUNCTION scd2_internal.fixed_row_width(oid, name[]) IS
    'The least bytes of a feed row whose columns of fixed width all have values.';

CREATE FUNCTION scd2_internal.check_columns(source oid, except_column_list name[]) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    source_label CONSTANT text := scd2_internal.label(source);
    most CONSTANT integer := 1600;          -- MaxHeapAttributeNumber
    room CONSTANT integer := 8160;          -- MaxHeapTupleSize with 8 kB pages
    page CONSTANT integer := current_setting('block_size')::integer;
    bad name[];
    n bigint;
BEGIN
    bad := ARRAY(SELECT f.name FROM scd2_internal.feed_columns(source, except_column_list) f
        GROUP BY f.name HAVING count(*) > 1 ORDER BY f.name);
    IF bad <> '{}' THEN
        PERFORM scd2_internal.refuse('42701',
            format('column "%s" of table "%s" has the name of a metadata column of its feed', bad[1], source_label),
            'Rename it, or leave it out of the feed.',
            format('SELECT scd2.enable_change_feed(%L, except_column_list => %L);', source::regclass, except_column_list
                || bad));
    END IF;
    SELECT count(*) INTO n FROM scd2_internal.feed_columns(source, except_column_list);
    IF n > most THEN
        PERFORM scd2_internal.refuse('54011',
            format('table "%s" has too many columns for a change data feed', source_label),
            format('The feed would have %s columns, five of them metadata; a table can have %s.', n, most),
            'Leave columns out with except_column_list.');
    END IF;
    IF scd2_internal.fixed_row_width(source, except_column_list) > room + page - 8192 THEN
        PERFORM scd2_internal.refuse('54000',
            format('rows of table "%s" are too wide for a change data feed', source_label),
            format('A feed row with a value in each column of fixed width takes %s bytes with its metadata; '
                   'a page has room for %s.',
                   scd2_internal.fixed_row_width(source, except_column_list), room + page - 8192),
            'Leave columns out with except_column_list.');
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_columns(oid, name[]) IS
    'Errors: 42701 if a column is called like a metadata column, 54011 if the feed would have too many columns, 54000 '
    'if its rows would not fit a page.';
-- 30_feed_publication.sql: feeds beside the server's own publications.
--
-- REPLICA IDENTITY FULL makes the server refuse the application's UPDATE and DELETE where a publication sends only some
-- of the table's columns. That must never come as a surprise after enabling, so enabling is refused. A publication that
-- takes in tables by itself would send feeds and targets to subscribers that do not have them: that is only warned of,
-- since it breaks nothing here.

-- The publication that would make updates or deletes of a table (a leaf) fail once its identity is FULL, and why; NULLs
-- if there is none.
CREATE FUNCTION scd2_internal.breaking_publication(leaf oid, OUT publication name, OUT reason text, OUT fix text)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT p.pubname, 'it has a column list',
           format('ALTER PUBLICATION %I DROP TABLE %s; ALTER PUBLICATION %1$I ADD TABLE %2$s;', p.pubname,
               r.prrelid::regclass)
    INTO publication, reason, fix
    FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
    WHERE (p.pubupdate OR p.pubdelete) AND r.prattrs IS NOT NULL
      AND (r.prrelid = leaf OR p.pubviaroot AND r.prrelid IN (SELECT a.relid FROM pg_partition_ancestors(leaf) a))
    LIMIT 1;
    IF FOUND OR NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = leaf AND a.attnum > 0 AND NOT a.attisdropped
        AND a.attgenerated <> '')
        OR NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'pg_publication'::regclass
            AND a.attname = 'pubgencols') THEN
        RETURN;
    END IF;
    -- Since PostgreSQL 18 a generated column that is part of the identity must be published: never possible for virtual
    -- ones.
    EXECUTE $query$
        SELECT p.pubname, 'it leaves out generated columns',
               format(CASE WHEN EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = $1 AND a.attnum > 0
                   AND NOT a.attisdropped AND a.attgenerated = 'v')
                           THEN 'ALTER PUBLICATION %I SET (publish = ''insert'');'
                           ELSE 'ALTER PUBLICATION %I SET (publish_generated_columns = stored);' END, p.pubname)
        FROM pg_publication p
        WHERE (p.pubupdate OR p.pubdelete)
          AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
                      AND (a.attgenerated = 'v' OR a.attgenerated = 's' AND p.pubgencols <> 's'))
          AND p.pubname IN (SELECT t.pubname FROM pg_publication_tables t JOIN pg_class c ON c.relname = t.tablename
                            JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = t.schemaname
                            WHERE c.oid = $1 OR c.oid IN (SELECT a.relid FROM pg_partition_ancestors($1) a))
        LIMIT 1 $query$ INTO publication, reason, fix USING leaf;
END $$;
COMMENT ON FUNCTION scd2_internal.breaking_publication(oid) IS
    'A publication that would make updates or deletes of this table fail if its replica identity were FULL, the '
    'reason, and the statements that publish the whole table; NULLs if none does.';

CREATE FUNCTION scd2_internal.check_publications(source oid) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    leaf oid;
    found record;
BEGIN
    FOR leaf IN SELECT c.oid FROM scd2_internal.leaves(source) l JOIN pg_class c ON c.oid = l
        WHERE c.relreplident <> 'f' LOOP
        SELECT b.* INTO found FROM scd2_internal.breaking_publication(leaf) b;
        IF found.publication IS NOT NULL THEN
            PERFORM scd2_internal.refuse('55000',
                format('publication "%s" stands against a change data feed for table "%s": %s', found.publication,
                    scd2_internal.label(source), found.reason),
                'A feed needs REPLICA IDENTITY FULL, and with it the server would refuse updates and deletes of the '
                'table.',
                found.fix);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.check_publications(oid) IS
    'Errors: 55000, naming the publication, if REPLICA IDENTITY FULL on the table would make the application''s '
    'updates or deletes fail.';

-- Publications that take in every new table of a schema.
CREATE FUNCTION scd2_internal.catch_all_publications(schema oid) RETURNS TABLE (publication name, kind text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.pubname, 'FOR ALL TABLES' FROM pg_publication p WHERE p.puballtables
    UNION ALL
    SELECT p.pubname, 'FOR TABLES IN SCHEMA' FROM pg_publication p JOIN pg_publication_namespace n ON n.pnpubid = p.oid
        WHERE n.pnnspid = schema
$$;
COMMENT ON FUNCTION scd2_internal.catch_all_publications(oid) IS
    'Publications that take in each new table of a schema.';

CREATE FUNCTION scd2_internal.warn_of_publications(relation oid) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    p record;
BEGIN
    FOR p IN SELECT x.* FROM pg_class c, scd2_internal.catch_all_publications(c.relnamespace) x
        WHERE c.oid = relation LOOP
        RAISE WARNING 'publication "%" (%) sends "%" to its subscribers too', p.publication, p.kind,
            scd2_internal.label(relation)
            USING DETAIL = 'A subscriber that has no such table stops with an error at its first row.';
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.warn_of_publications(oid) IS
    'WARNING for each publication that carries this new table of ours to subscribers because it takes in all tables.';
-- 31_feed_define.sql: enabling, altering and disabling change data feeds.
--
-- Enabling, in the caller's transaction: lock the source against writers, remember its replica identity and set it to
-- FULL, make the feed relation, write the definition, and last the control record. The worker meets that record at its
-- place in the log; every transaction that wrote the source before has ended by then, because the lock waited for it,
-- and every later one writes full images.
--
-- The functions that make relations switch pg_scd2.enable_change_feed_on_create off for their own duration: a feed has
-- no feed.

-- Replica identities that were found on the leaves of a partitioned table, to be given back. (That of a plain table
-- stands in the feed's row.)
CREATE TABLE scd2_internal.found_identity (
    feed_id    integer,
    leaf_relid scd2_internal.relation,
    identity   "char" NOT NULL,
    index_name name,
    PRIMARY KEY (feed_id, leaf_relid)
);
COMMENT ON TABLE scd2_internal.found_identity IS
    'Replica identities found on the leaves of captured partitioned tables';

CREATE FUNCTION scd2_internal.current_identity(relation oid, OUT identity "char", OUT index_name name)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.relreplident, (SELECT i.relname FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
        WHERE x.indrelid = c.oid AND x.indisreplident)
    FROM pg_class c WHERE c.oid = relation
$$;
COMMENT ON FUNCTION scd2_internal.current_identity(oid) IS
    'A table''s replica identity (d, n, f, i) and, with i, its index.';

CREATE FUNCTION scd2_internal.set_full_identity(feed_id integer, leaf oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found record := scd2_internal.current_identity(leaf);
BEGIN
    INSERT INTO scd2_internal.found_identity VALUES (set_full_identity.feed_id, leaf, found.identity,
        found.index_name) ON CONFLICT DO NOTHING;
    IF found.identity <> 'f' THEN
        EXECUTE format('ALTER TABLE ONLY %s REPLICA IDENTITY FULL', leaf::regclass);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.set_full_identity(integer, oid) IS
    'Remembers the replica identity of a table of the feed and sets it to FULL.';

-- As the owner: whether an index can be the identity is asked of the index, and its expressions are his code.
CREATE FUNCTION scd2_internal.give_back_identity(leaf oid, identity "char", index_name name) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF identity = 'f' OR (SELECT c.relreplident <> 'f' FROM pg_class c WHERE c.oid = leaf) IS NOT FALSE THEN
        RETURN;                             -- as it was, gone, or changed since by somebody who wants it so
    END IF;
    PERFORM scd2_internal.alter_as_owner(leaf, ARRAY[format('ALTER TABLE ONLY %s REPLICA IDENTITY %s', leaf::regclass,
        CASE WHEN identity = 'n' THEN 'NOTHING'
             WHEN identity = 'i' AND EXISTS (SELECT FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
                                             WHERE x.indrelid = leaf AND i.relname = index_name AND x.indisunique AND x.indimmediate
                                               AND x.indpred IS NULL AND x.indexprs IS NULL) THEN format('USING INDEX %I', index_name)
             ELSE 'DEFAULT' END)]);
END $$;
COMMENT ON FUNCTION scd2_internal.give_back_identity(oid, "char", name) IS
    'Sets the replica identity that was found, DEFAULT if its index is gone. Leaves one alone that is no longer FULL.';

-- The utility hook calls this after DDL on partitions, in the user's transaction, which holds the new leaf's lock.
CREATE FUNCTION scd2_internal.set_leaf_identities(root oid) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    f scd2_internal.feed;
    leaf oid;
BEGIN
    FOR f IN SELECT x.* FROM scd2_internal.feed x WHERE NOT x.disabled
        AND (x.source_relid = root OR x.source_relid IN (SELECT a.relid FROM pg_partition_ancestors(root) a)) LOOP
        FOR leaf IN SELECT c.oid FROM scd2_internal.leaves(f.source_relid) l JOIN pg_class c ON c.oid = l
            WHERE c.relreplident <> 'f' AND c.relkind = 'r' AND c.relpersistence = 'p' LOOP
            BEGIN
                PERFORM scd2_internal.set_full_identity(f.feed_id, leaf);
            EXCEPTION WHEN OTHERS THEN
                RAISE WARNING 'could not set the replica identity of partition "%": %', scd2_internal.label(leaf),
                    SQLERRM
                    USING HINT = format('ALTER TABLE %s REPLICA IDENTITY FULL;', leaf::regclass);
            END;
        END LOOP;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.set_leaf_identities(oid) IS
    'Sets REPLICA IDENTITY FULL on each leaf of a captured partitioned table that lacks it; nothing for other tables. '
    'Never an error: a WARNING with the statement.';

-- Makes "name" or says what stands in its place.
CREATE FUNCTION scd2_internal.feed_name(source oid, feed text) RETURNS name
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    parts text[];
    own_schema name;
    own_name name;
BEGIN
    SELECT n.nspname, c.relname INTO own_schema, own_name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = source;
    IF feed IS NULL THEN
        RETURN scd2_internal.generated_name(own_name, 'changes');
    END IF;
    parts := parse_ident(feed);
    IF cardinality(parts) > 2 OR cardinality(parts) = 2 AND parts[1] <> own_schema THEN
        PERFORM scd2_internal.refuse('22023',
            format('a feed is made in the schema of its source, "%s", not as "%s"', own_schema, feed));
    END IF;
    IF octet_length(parts[cardinality(parts)]) > 63 THEN
        PERFORM scd2_internal.refuse('42622', format('name "%s" is too long', parts[cardinality(parts)]),
            'Names have at most 63 bytes.');
    END IF;
    RETURN parts[cardinality(parts)];
END $$;
COMMENT ON FUNCTION scd2_internal.feed_name(oid, text) IS
    'The name of a feed: as given, or <source>_changes clipped to 63 bytes. Errors: 22023 for another schema or what '
    'is no identifier, 42622 for a name that is too long.';

CREATE FUNCTION scd2_internal.guard_feed(relation oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.put_guard(relation);
    EXECUTE format('ALTER TABLE ONLY %s REPLICA IDENTITY FULL', relation::regclass);
END $$;
COMMENT ON FUNCTION scd2_internal.guard_feed(oid) IS
    'Puts the trigger on a relation of ours that keeps other writers out, and REPLICA IDENTITY FULL, so that '
    'publications do not stop our writes.';

CREATE FUNCTION scd2_internal.own_alone(relation oid, owner oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    grantee oid;
BEGIN
    EXECUTE format('ALTER TABLE %s OWNER TO %I', relation::regclass, pg_get_userbyid(owner));
    FOR grantee IN SELECT DISTINCT x.grantee FROM pg_class c, aclexplode(c.relacl) x WHERE c.oid = relation
        AND x.grantee <> owner LOOP
        EXECUTE format('REVOKE ALL ON %s FROM %s', relation::regclass, CASE grantee WHEN 0 THEN 'public'
            ELSE quote_ident(pg_get_userbyid(grantee)) END);
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.own_alone(oid, oid) IS
    'Gives a relation to its owner and takes away what default privileges gave to others: it holds what row policies '
    'and column grants on the source may hide.';

-- Two feeds with long names may clip to one name for their partitions; those are nobody's business, so a clash gets a
-- number.
CREATE FUNCTION scd2_internal.leaf_name(schema name, feed name, label text) RETURNS name
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    candidate name := scd2_internal.generated_name(feed, label);
    n integer := 1;
BEGIN
    WHILE EXISTS (SELECT FROM pg_class c WHERE c.relname = candidate
        AND c.relnamespace = (SELECT s.oid FROM pg_namespace s WHERE s.nspname = schema)) LOOP
        n := n + 1;
        candidate := scd2_internal.generated_name(feed, format('%s_%s', label, n));
    END LOOP;
    RETURN candidate;
END $$;
COMMENT ON FUNCTION scd2_internal.leaf_name(name, name, text) IS
    'A name for a partition of a feed that is free in its schema: <feed>_label, clipped to 63 bytes, with a number if '
    'it is taken.';

CREATE FUNCTION scd2_internal.create_feed_relation(source oid, except_column_list name[], feed name) RETURNS oid
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET pg_scd2.enable_change_feed_on_create = off
        SET client_min_messages = warning AS $$
DECLARE
    own record;
    columns text;
    qualified text;
    leaf text;
BEGIN
    SELECT c.relowner, n.nspname INTO own FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = source;
    SELECT string_agg(format('%I %s', f.name, format_type(f.type, f.typmod))
                      || CASE WHEN f.collation_oid <> 0 AND f.collation_oid <> t.typcollation THEN ' COLLATE '
                          || f.collation_oid::regcollation ELSE '' END
                      || CASE WHEN f.not_null THEN ' NOT NULL' ELSE '' END, ', ' ORDER BY f.ordinal)
    INTO columns
    FROM scd2_internal.feed_columns(source, except_column_list) f JOIN pg_type t ON t.oid = f.type;
    qualified := format('%I.%I', own.nspname, feed);
    leaf := format('%I.%I', own.nspname, scd2_internal.leaf_name(own.nspname, feed, 'p1'));
    EXECUTE format('CREATE TABLE %s (%s) PARTITION BY RANGE (_commit_version)', qualified, columns);
    EXECUTE format('CREATE TABLE %s PARTITION OF %s FOR VALUES FROM (MINVALUE) TO (MAXVALUE) USING heap', leaf,
        qualified);
    -- Both ascend with the place in the table, so ranges of versions and of times read only their own pages.
    EXECUTE format('CREATE INDEX ON %s USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range = 16)',
        qualified);
    EXECUTE format('COMMENT ON TABLE %s IS %L', qualified,
        format('change data feed of %s, written by pg_scd2 alone', source::regclass));
    PERFORM scd2_internal.guard_feed(r), scd2_internal.own_alone(r, own.relowner)
        FROM unnest(ARRAY[qualified, leaf]::regclass[]) r;
    RETURN qualified::regclass;
END $$;
COMMENT ON FUNCTION scd2_internal.create_feed_relation(oid, name[], name) IS
    'Makes the relation of a feed: partitioned by version with one partition, indexed, guarded, owned by the '
    'source''s owner. Errors: 42P07 if the name is taken.';

CREATE FUNCTION scd2_internal.layout_misfit(source oid, except_column_list name[], feed oid) RETURNS name
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(w.name, h.attname)
    FROM scd2_internal.feed_columns(source, except_column_list) w
         FULL JOIN (SELECT a.* FROM pg_attribute a WHERE a.attrelid = feed AND a.attnum > 0
             AND NOT a.attisdropped) h ON h.attname = w.name
    WHERE (h.atttypid, h.atttypmod, h.attcollation) IS DISTINCT FROM (w.type, w.typmod, w.collation_oid)
          AND (w.name IS NOT NULL OR h.attnotnull OR h.attname = ANY (except_column_list))
       OR w.name IS NOT NULL AND h.attnotnull <> w.not_null
    ORDER BY w.ordinal LIMIT 1
$$;
COMMENT ON FUNCTION scd2_internal.layout_misfit(oid, name[], oid) IS
    'The first column in which a relation differs from what the feed of a source must have (more columns, if they can '
    'be NULL, do no harm); NULL if it fits.';

CREATE FUNCTION scd2_internal.enable_statement(source oid, retention interval, except_column_list name[], feed name)
    RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('SELECT scd2.enable_change_feed(%L', source::regclass) || CASE
        WHEN retention IS NOT NULL THEN format(', retention => %L', retention) ELSE '' END
        || CASE WHEN cardinality(except_column_list) > 0 THEN format(', except_column_list => %L', except_column_list)
            ELSE '' END
        || CASE WHEN feed IS NOT NULL THEN format(', feed => %L', quote_ident(feed)) ELSE '' END || ')'
$$;
COMMENT ON FUNCTION scd2_internal.enable_statement(oid, interval, name[], name) IS
    'The call, for hints, that enables a feed with these arguments; NULL or empty ones are left out.';

-- A feed that was disabled is used again if what it would get now fits what it has.
CREATE FUNCTION scd2_internal.former_feed(caller oid, source oid, except_column_list name[], feed name) RETURNS oid
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    there pg_class;
    problem text;
BEGIN
    SELECT c.* INTO there FROM pg_class c WHERE c.relname = feed
        AND c.relnamespace = (SELECT s.relnamespace FROM pg_class s WHERE s.oid = source);
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF NOT EXISTS (SELECT FROM scd2_internal.feed f WHERE f.disabled AND f.feed_relid = there.oid
        AND f.source_relid = source) THEN
        problem := 'It is no former change data feed of this table.';
    ELSIF NOT pg_has_role(caller, there.relowner, 'USAGE') THEN
        problem := 'It is a former change data feed of this table, but you do not own it.';
    ELSE
        problem := format('It is a former change data feed of this table, but its column "%s" does not fit.',
                          scd2_internal.layout_misfit(source, except_column_list, there.oid));
        IF scd2_internal.layout_misfit(source, except_column_list, there.oid) IS NULL THEN
            RETURN there.oid;
        END IF;
    END IF;
    PERFORM scd2_internal.refuse('42P07', format('relation "%s" already exists', scd2_internal.label(there.oid)),
        problem,
        scd2_internal.enable_statement(source, NULL, except_column_list, scd2_internal.generated_name(feed, '2'))
            || ';');
END $$;
COMMENT ON FUNCTION scd2_internal.former_feed(oid, oid, name[], name) IS
    'The relation of this name if it is a former feed of the source and fits, NULL if there is none. Errors: 42P07 if '
    'there is another relation.';

CREATE FUNCTION scd2_internal.note_children(source oid) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    children text;
BEGIN
    SELECT string_agg(format('"%s"', scd2_internal.label(i.inhrelid)), ', ' ORDER BY i.inhseqno,
        i.inhrelid::regclass::text) INTO children
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent WHERE i.inhparent = source AND c.relkind = 'r';
    IF children IS NOT NULL THEN
        RAISE NOTICE 'the change data feed of "%" does not have the changes of tables that inherit from it: %',
            scd2_internal.label(source), children;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.note_children(oid) IS
    'NOTICE if tables inherit from the source: their rows are not its rows.';

CREATE FUNCTION scd2_internal.check_enable(caller oid, source oid, except_column_list name[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed;
    schema oid;
BEGIN
    PERFORM scd2_internal.check_owner(caller, source);
    PERFORM scd2_internal.check_kind(source);
    PERFORM scd2_internal.check_owner(caller, l) FROM scd2_internal.leaves(source) l;      -- a partition can have another
    SELECT c.relnamespace INTO schema FROM pg_class c WHERE c.oid = source;
    IF NOT has_schema_privilege(caller, schema, 'CREATE') THEN
        PERFORM scd2_internal.refuse('42501', format('permission denied for schema %s', schema::regnamespace),
            'The feed is made there.');
    END IF;
    f := scd2_internal.feed_of(source);
    IF f.feed_id IS NOT NULL THEN
        PERFORM scd2_internal.refuse('42710',
            format('table "%s" has a change data feed already: "%s"', scd2_internal.label(source),
            scd2_internal.label(f.feed_relid)));
    END IF;
    PERFORM scd2_internal.check_excepted(source, except_column_list);
    PERFORM scd2_internal.check_columns(source, except_column_list);
    PERFORM scd2_internal.check_publications(source);
END $$;
COMMENT ON FUNCTION scd2_internal.check_enable(oid, oid, name[]) IS
    'Everything that stands against enabling the feed of a table. Errors: as scd2.enable_change_feed.';

CREATE FUNCTION scd2_internal.check_retention(retention interval) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF retention < interval '0' THEN
        PERFORM scd2_internal.refuse('22023', format('retention must not be negative: %s', retention));
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_retention(interval) IS 'Errors: 22023 for a negative retention.';

-- Definition and control record of a feed whose source is locked and whose relation is there.
CREATE FUNCTION scd2_internal.register_feed(source oid, feed oid, retention interval, except_column_list name[])
    RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found record := scd2_internal.current_identity(source);
    id integer;
BEGIN
    INSERT INTO scd2_internal.feed (source_schema, source_name, feed_schema, feed_name, source_relid, feed_relid,
        except_columns, retention, found_identity, found_index)
    SELECT sn.nspname, s.relname, fn.nspname, f.relname, s.oid, f.oid, except_column_list, register_feed.retention,
        found.identity, found.index_name
    FROM pg_class s JOIN pg_namespace sn ON sn.oid = s.relnamespace, pg_class f
        JOIN pg_namespace fn ON fn.oid = f.relnamespace
    WHERE s.oid = source AND f.oid = feed
    RETURNING feed_id INTO id;
    INSERT INTO scd2_internal.feed_column (feed_id, source_attnum, feed_attnum, name)
    SELECT id, a.attnum, coalesce(fa.attnum, 0), a.attname
    FROM pg_attribute a LEFT JOIN pg_attribute fa ON fa.attrelid = feed AND fa.attname = a.attname AND fa.attnum > 5
        AND a.attname <> ALL (except_column_list)
    WHERE a.attrelid = source AND a.attnum > 0 AND NOT a.attisdropped
      AND (fa.attnum IS NOT NULL OR a.attname = ANY (except_column_list));
    PERFORM scd2_internal.set_full_identity(id, l) FROM scd2_internal.leaves(source) l;
    INSERT INTO scd2_internal.control (kind, feed_id, source_relid, feed_relid, detail)
    VALUES ('enable feed', id, source, feed, CASE WHEN except_column_list <> '{}' THEN except_column_list::text END);
END $$;
COMMENT ON FUNCTION scd2_internal.register_feed(oid, oid, interval, name[]) IS
    'Writes a feed''s definition, sets the replica identities and leaves the control record from which on changes are '
    'captured.';

CREATE FUNCTION scd2.enable_change_feed(source regclass, retention interval DEFAULT NULL,
    except_column_list name[] DEFAULT '{}', feed text DEFAULT NULL) RETURNS regclass
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
CREATE FUNCTION scd2_internal.enable_change_feed(caller oid, source regclass, retention interval,
    except_column_list name[], feed text) RETURNS regclass
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    feed_name name;
    relation oid;
BEGIN
    except_column_list := coalesce(except_column_list, '{}');
    PERFORM scd2_internal.check_retention(retention);
    PERFORM scd2_internal.check_enable(caller, source, except_column_list);
    feed_name := scd2_internal.feed_name(source, feed);
    PERFORM scd2_internal.former_feed(caller, source, except_column_list, feed_name);
    PERFORM scd2_internal.require_capture();
    PERFORM scd2_internal.lock_source(source, true);
    PERFORM scd2_internal.check_enable(caller, source, except_column_list);
    relation := coalesce(scd2_internal.former_feed(caller, source, except_column_list, feed_name),
                         scd2_internal.create_feed_relation(source, except_column_list, feed_name));
    PERFORM scd2_internal.close_rows_as(source, relation);
    PERFORM scd2_internal.register_feed(source, relation, retention, except_column_list);
    PERFORM scd2_internal.warn_of_publications(relation);
    PERFORM scd2_internal.note_children(source);
    RETURN relation;
END $$;

-- For track(): whoever enables the same table at the same time is waited for, and has done it then.
CREATE FUNCTION scd2_internal.enabled_feed(caller oid, source regclass) RETURNS integer
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_id integer := (SELECT f.feed_id FROM scd2_internal.feed f WHERE f.source_relid = source AND NOT f.disabled);
BEGIN
    IF found_id IS NULL THEN
        PERFORM scd2_internal.check_enable(caller, source, '{}');
        PERFORM scd2_internal.require_capture();
        PERFORM scd2_internal.lock_source(source, true);
        found_id := (SELECT f.feed_id FROM scd2_internal.feed f WHERE f.source_relid = source AND NOT f.disabled);
    END IF;
    IF found_id IS NULL THEN
        PERFORM scd2_internal.enable_change_feed(caller, source, NULL::interval, '{}'::name[], NULL::text);
        found_id := (SELECT f.feed_id FROM scd2_internal.feed f WHERE f.source_relid = source AND NOT f.disabled);
    END IF;
    RETURN found_id;
END $$;
COMMENT ON FUNCTION scd2_internal.enabled_feed(oid, regclass) IS
    'The feed of a table, enabled if it is off. Errors as scd2.enable_change_feed.';

COMMENT ON FUNCTION scd2.enable_change_feed(regclass, interval, name[], text) IS
    'Records every change of a table from the caller''s commit on in a change data feed, and returns the feed''s '
    'relation. source: an ordinary or partitioned table that you own; '
    'retention: how long rows are kept, NULL: pg_scd2.feed_retention; except_column_list: columns that are never '
    'stored; feed: its name in the source''s schema, NULL: <source>_changes. '
    'Sets REPLICA IDENTITY FULL where it is not set, under an ACCESS EXCLUSIVE lock that is tried for '
    'pg_scd2.lock_timeout. '
    'Errors: 42501 not the owner, 42809, 55000, 0A000 no table that can be captured, 42710 it has a feed, 42P07 the '
    'name is taken, 42703, 42701 wrong columns, 54011, 54000 too many or too wide, '
    '55000 a publication or a setting is in the way, 55P03 the lock was not to be had.';
-- 31_feed_lock.sql: locks on users' tables.
--
-- A request for a strong lock that waits makes everybody who comes later wait behind it. So a lock is tried for 100 ms,
-- given up, and tried again after a pause, until pg_scd2.lock_timeout has passed in total. All tables of one call are
-- tried together in one subtransaction, so that between two tries nothing is held.
--
-- A waiter makes the server cancel an autovacuum that is in its way, but only after deadlock_timeout, which no try of
-- ours reaches. So we cancel it, with the same exception: not one that prevents wraparound.
--
-- Lock levels: SHARE ROW EXCLUSIVE where the replica identity stays as it is, because it waits out every writer whose
-- changes the feed will not contain; ACCESS EXCLUSIVE where ALTER TABLE needs it.

CREATE FUNCTION scd2_internal.try_lock(relations oid[], modes text[]) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    i integer;
BEGIN
    FOR i IN 1 .. cardinality(relations) LOOP
        EXECUTE format('LOCK TABLE ONLY %s IN %s MODE', relations[i]::regclass, modes[i]);
    END LOOP;
    RETURN true;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    RETURN false;
END $$;
COMMENT ON FUNCTION scd2_internal.try_lock(oid[], text[]) IS
    'Locks all of these tables, each in its mode, until the transaction ends, or, when one is not to be had within '
    '100 ms, none of them. Returns whether it did.';

CREATE FUNCTION scd2_internal.age_text(since timestamptz) RETURNS text
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT to_char(make_interval(secs => greatest(extract(epoch FROM clock_timestamp() - since), 0)::double precision),
        'HH24:MI:SS')
$$;
COMMENT ON FUNCTION scd2_internal.age_text(timestamptz) IS
    'The time since then as hours, minutes and seconds, whatever IntervalStyle is.';

-- Who is in the way. A prepared transaction has no process.
CREATE FUNCTION scd2_internal.lock_holder(relations oid[], modes text[], OUT relation oid, OUT who text, OUT fix text)
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT l.relation,
           CASE WHEN l.pid IS NOT NULL
                THEN format('process %s has held a lock on it for %s (%s)', l.pid, scd2_internal.age_text(a.xact_start),
                    coalesce(a.state, a.backend_type))
                ELSE format('prepared transaction "%s" has held a lock on it for %s', p.gid,
                    scd2_internal.age_text(p.prepared)) END,
           CASE WHEN l.pid IS NOT NULL THEN format('SELECT pg_terminate_backend(%s);', l.pid)
                ELSE format('COMMIT PREPARED %L; or: ROLLBACK PREPARED %1$L;', p.gid) END
    FROM unnest(relations, modes) r (oid, mode)
         JOIN pg_locks l ON l.locktype = 'relation' AND l.relation = r.oid AND l.granted
             AND l.pid IS DISTINCT FROM pg_backend_pid()
              AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
              AND (r.mode = 'ACCESS EXCLUSIVE' OR l.mode NOT IN ('AccessShareLock', 'RowShareLock'))
         LEFT JOIN pg_stat_activity a ON a.pid = l.pid
         LEFT JOIN pg_prepared_xacts p ON l.pid IS NULL AND '-1/' || p.transaction = l.virtualtransaction
    ORDER BY coalesce(a.xact_start, p.prepared) LIMIT 1
$$;
COMMENT ON FUNCTION scd2_internal.lock_holder(oid[], text[]) IS
    'The oldest holder of a lock that conflicts with one of these: on which table, who, since when and in what state, '
    'and the statement that ends it.';

CREATE FUNCTION scd2_internal.cancel_autovacuum(relations oid[]) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_cancel_backend(a.pid)
    FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'relation' AND l.relation = ANY (relations) AND l.granted AND a.datname = current_database()
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
      AND a.backend_type = 'autovacuum worker' AND a.query NOT LIKE '%(to prevent wraparound)'
$$;
COMMENT ON FUNCTION scd2_internal.cancel_autovacuum(oid[]) IS
    'Cancels autovacuum workers that hold locks on these tables, as the server does for a waiter, except those that '
    'prevent wraparound.';

CREATE FUNCTION scd2_internal.lock_tables(relations oid[], modes text[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    patience CONSTANT text := current_setting('pg_scd2.lock_timeout');
    deadline CONSTANT timestamptz := clock_timestamp() + patience::interval;
    holder record;
BEGIN
    WHILE NOT scd2_internal.try_lock(relations, modes) LOOP
        SELECT h.* INTO holder FROM scd2_internal.lock_holder(relations, modes) h;
        IF clock_timestamp() >= deadline THEN
            PERFORM scd2_internal.refuse('55P03',
                format('could not lock table "%s" within %s',
                    scd2_internal.label(coalesce(holder.relation, relations[1])), patience)
                    || coalesce(': ' || holder.who, ''),
                'pg_scd2.lock_timeout bounds the wait; the lock is tried briefly, again and again, so that nobody '
                'queues behind it.',
                coalesce(holder.fix || ' -- or wait until that has ended', 'Try again.'));
        END IF;
        PERFORM scd2_internal.cancel_autovacuum(relations);
        PERFORM pg_sleep(0.05 + random() * 0.1);
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.lock_tables(oid[], text[]) IS
    'Locks all of these tables until the transaction ends, trying for pg_scd2.lock_timeout in total. Errors: 55P03, '
    'naming who holds a lock, since when and in what state.';

-- The root first: with it locked no partition comes or goes.
CREATE FUNCTION scd2_internal.lock_source(source oid, for_identity boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    relations oid[];
    modes text[];
    locked text[];
BEGIN
    IF (SELECT c.relkind = 'p' FROM pg_class c WHERE c.oid = source) THEN
        PERFORM scd2_internal.lock_tables(ARRAY[source], ARRAY['SHARE ROW EXCLUSIVE']);
    END IF;
    LOOP
        SELECT array_agg(c.oid ORDER BY c.oid),
               array_agg(CASE WHEN for_identity AND c.relreplident <> 'f' THEN 'ACCESS EXCLUSIVE'
                   ELSE 'SHARE ROW EXCLUSIVE' END ORDER BY c.oid)
        INTO relations, modes
        FROM scd2_internal.leaves(source) l JOIN pg_class c ON c.oid = l;
        EXIT WHEN relations IS NULL OR modes = locked;      -- an identity may have been changed before we had the lock
        PERFORM scd2_internal.lock_tables(relations, modes);
        locked := modes;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.lock_source(oid, boolean) IS
    'Locks a table, or a partitioned table and its leaves, against writers; those whose replica identity is to be set '
    '(for_identity, not FULL yet) against everybody. Errors: 55P03.';
-- 32_feed_change.sql: what can be done with a feed once it is there, and feeds of tables that are yet to come.

CREATE FUNCTION scd2_internal.check_no_flow(f scd2_internal.feed, what text, only_columns name[] DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names text;
    statements text;
BEGIN
    SELECT string_agg(format('"%s"', w.name), ', ' ORDER BY w.flow_id), string_agg(format('SELECT scd2.drop_flow(%L);', w.name), ' ' ORDER BY w.flow_id)
    INTO names, statements
    FROM scd2_internal.flow w WHERE w.feed_id = f.feed_id AND (only_columns IS NULL OR w.columns && only_columns);
    IF names IS NOT NULL THEN
        PERFORM scd2_internal.refuse('55000', format('%s because flows depend on the change data feed of table "%s"', what, scd2_internal.label(f.source_relid)),
            format('Flows: %s.', names), statements);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_no_flow(scd2_internal.feed, text, name[]) IS
    'Errors: 55000, naming the flows and how to drop them, if flows depend on the feed (or, with only_columns, copy one of these columns).';

-- The source of a feed may be gone.
CREATE FUNCTION scd2_internal.owned_feed(caller oid, relation oid) RETURNS scd2_internal.feed
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed;
BEGIN
    PERFORM scd2_internal.check_owner(caller, relation);
    SELECT x.* INTO f FROM scd2_internal.feed x WHERE x.feed_relid = relation AND NOT x.disabled;
    IF NOT FOUND THEN
        RETURN scd2_internal.require_feed_of(relation);
    ELSIF EXISTS (SELECT FROM pg_class c WHERE c.oid = f.source_relid) THEN
        PERFORM scd2_internal.check_owner(caller, f.source_relid);
    END IF;
    RETURN f;
END $$;
COMMENT ON FUNCTION scd2_internal.owned_feed(oid, oid) IS
    'The feed of a table that the caller owns, or that the relation is. Errors: 42501 not the owner, 55000 no feed, 22004 NULL.';

CREATE FUNCTION scd2.disable_change_feed(source regclass, drop_feed boolean DEFAULT false) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
CREATE FUNCTION scd2_internal.disable_change_feed(caller oid, source regclass, drop_feed boolean) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed;
    relations oid[];
BEGIN
    f := scd2_internal.owned_feed(caller, source);
    IF drop_feed AND EXISTS (SELECT FROM pg_class c WHERE c.oid = f.feed_relid) THEN
        PERFORM scd2_internal.check_owner(caller, f.feed_relid);        -- the source may have another owner by now
    END IF;
    PERFORM scd2_internal.check_no_flow(f, 'cannot disable');
    -- ALTER TABLE below would wait for these without a bound.
    SELECT array_agg(i.leaf_relid ORDER BY i.leaf_relid) INTO relations
    FROM scd2_internal.found_identity i JOIN pg_class c ON c.oid = i.leaf_relid WHERE i.feed_id = f.feed_id AND i.identity <> 'f' AND c.relreplident = 'f';
    IF drop_feed THEN
        relations := relations || ARRAY(SELECT c.oid FROM pg_class c WHERE c.oid = f.feed_relid) || ARRAY(SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = f.feed_relid);
    END IF;
    IF cardinality(relations) > 0 THEN
        PERFORM scd2_internal.lock_tables(relations, array_fill('ACCESS EXCLUSIVE'::text, ARRAY[cardinality(relations)]));
    END IF;
    UPDATE scd2_internal.feed x SET disabled = true WHERE x.feed_id = f.feed_id;
    PERFORM scd2_internal.give_back_identity(i.leaf_relid, i.identity, i.index_name) FROM scd2_internal.found_identity i WHERE i.feed_id = f.feed_id;
    DELETE FROM scd2_internal.found_identity i WHERE i.feed_id = f.feed_id;
    PERFORM scd2_internal.check_no_reader(f);           -- now none can come
    INSERT INTO scd2_internal.control (kind, feed_id, source_relid, feed_relid) VALUES ('disable feed', f.feed_id, f.source_relid, f.feed_relid);
    IF drop_feed AND EXISTS (SELECT FROM pg_class c WHERE c.oid = f.feed_relid) THEN
        EXECUTE format('DROP TABLE %s', f.feed_relid::regclass);
    END IF;
END $$;
COMMENT ON FUNCTION scd2.disable_change_feed(regclass, boolean) IS
    'Ends the recording of a table''s changes with the caller''s commit and gives back the replica identity that was found. source: a table that you own, or the feed itself; drop_feed: drop the feed''s relation too, '
    'else it stays and is used again when the feed is enabled again. Errors: 42501 not the owner, 55000 no feed, or flows or readers depend on it, 55P03 a lock was not to be had, 2BP01 other objects depend on the relation.';

-- Columns that leave the feed take what was stored of them along; columns that come back begin empty.
CREATE FUNCTION scd2_internal.lock_feed(f scd2_internal.feed) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.lock_tables(array_agg(l), array_agg('ACCESS EXCLUSIVE'::text))
    FROM (SELECT f.feed_relid AS l UNION ALL SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = f.feed_relid) y
$$;
COMMENT ON FUNCTION scd2_internal.lock_feed(scd2_internal.feed) IS
    'Locks a feed for a change of its columns, within pg_scd2.lock_timeout.';

-- The capture worker does the same when it meets the first row that has the column.
CREATE FUNCTION scd2_internal.add_missing_columns(f scd2_internal.feed, except_column_list name[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    coming record;
BEGIN
    FOR coming IN
        SELECT w.*, t.typcollation FROM scd2_internal.feed_columns(f.source_relid, except_column_list) w JOIN pg_type t ON t.oid = w.type
        WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = f.feed_relid AND a.attname = w.name AND NOT a.attisdropped)
    LOOP
        PERFORM scd2_internal.lock_feed(f);
        EXECUTE format('ALTER TABLE %s ADD COLUMN %I %s', f.feed_relid::regclass, coming.name, format_type(coming.type, coming.typmod)
            || CASE WHEN coming.collation_oid NOT IN (0, coming.typcollation) THEN ' COLLATE ' || coming.collation_oid::regcollation ELSE '' END);
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.add_missing_columns(scd2_internal.feed, name[]) IS
    'Part of alter_change_feed and of new flows: the feed gets the columns of its source that it lacks.';

CREATE FUNCTION scd2_internal.change_excepted(f scd2_internal.feed, except_column_list name[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    leaving name[];
BEGIN
    PERFORM scd2_internal.check_excepted(f.source_relid, except_column_list);
    PERFORM scd2_internal.check_columns(f.source_relid, except_column_list);
    leaving := ARRAY(SELECT a.attname FROM pg_attribute a WHERE a.attrelid = f.feed_relid AND a.attnum > 5 AND NOT a.attisdropped AND a.attname = ANY (except_column_list));
    PERFORM scd2_internal.check_no_flow(f, format('cannot leave out column %s', array_to_string(leaving, ', ')), leaving);
    PERFORM scd2_internal.lock_feed(f);
    FOR i IN 1 .. cardinality(leaving) LOOP
        EXECUTE format('ALTER TABLE %s DROP COLUMN %I', f.feed_relid::regclass, leaving[i]);
    END LOOP;
    PERFORM scd2_internal.add_missing_columns(f, except_column_list);
    UPDATE scd2_internal.feed x SET except_columns = except_column_list WHERE x.feed_id = f.feed_id;
    INSERT INTO scd2_internal.control (kind, feed_id, source_relid, detail) VALUES ('columns', f.feed_id, scd2_internal.leaf_with_rows(f.source_relid), except_column_list::text);
END $$;
COMMENT ON FUNCTION scd2_internal.change_excepted(scd2_internal.feed, name[]) IS
    'Makes a feed''s columns be the source''s without those excepted. Errors: 42703, 42701 wrong list, 55000 a flow copies a column that leaves, 55P03 the feed could not be locked.';

CREATE FUNCTION scd2.alter_change_feed(source regclass, retention interval DEFAULT NULL, except_column_list name[] DEFAULT NULL) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
CREATE FUNCTION scd2_internal.alter_change_feed(caller oid, source regclass, retention interval, except_column_list name[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed;
BEGIN
    PERFORM scd2_internal.check_owner(caller, source);
    f := scd2_internal.require_feed_of(source);
    PERFORM scd2_internal.check_retention(retention);
    IF except_column_list IS NOT NULL THEN
        PERFORM scd2_internal.check_owner(caller, f.feed_relid);
        PERFORM scd2_internal.change_excepted(f, except_column_list);
    END IF;
    UPDATE scd2_internal.feed x SET retention = coalesce(alter_change_feed.retention, x.retention) WHERE x.feed_id = f.feed_id;
END $$;
COMMENT ON FUNCTION scd2.alter_change_feed(regclass, interval, name[]) IS
    'Changes a feed; NULL leaves a setting as it is. source: a table that you own; retention: how long rows are kept; except_column_list: the columns that are not stored from now on: '
    'what the feed has of them is dropped, and a column that is no longer excepted begins with NULLs. '
    'Errors: 42501 not the owner, 55000 no feed or a flow copies such a column, 22023 negative retention, 42703, 42701 wrong columns, 55P03 a lock was not to be had.';

-- pg_scd2.enable_change_feed_on_create. Runs as the user who creates the table, and must not make that fail: what
-- goes wrong is a WARNING. A restore brings its feeds along, or meant to have none: dumps switch check_function_bodies
-- off, nobody else does.
CREATE FUNCTION scd2_internal.on_create_table() RETURNS event_trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    created oid;
    state text;
    message text;
    hint text;
BEGIN
    IF coalesce(current_setting('pg_scd2.enable_change_feed_on_create', true), 'off') <> 'on'
        OR current_setting('check_function_bodies') = 'off' THEN
        RETURN;
    END IF;
    FOR created IN
        SELECT c.oid FROM pg_event_trigger_ddl_commands() d JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
        WHERE d.object_type = 'table' AND NOT d.in_extension AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition
    LOOP
        BEGIN
            PERFORM scd2.enable_change_feed(created);
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
            CONTINUE WHEN state = '42710';
            RAISE WARNING 'table % has no change data feed: %', created::regclass, message
                USING HINT = coalesce(nullif(hint, ''), format('SELECT scd2.enable_change_feed(%L);', created::regclass));
        END;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.on_create_table() IS
    'Enables the feed of a table that was just created, if pg_scd2.enable_change_feed_on_create is on. Not for temporary and unlogged tables, partitions (their root has the feed) and tables of extensions.';

CREATE EVENT TRIGGER scd2_on_create_table ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'CREATE SCHEMA')
    EXECUTE FUNCTION scd2_internal.on_create_table();
ALTER EVENT TRIGGER scd2_on_create_table ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER scd2_on_create_table IS 'pg_scd2.enable_change_feed_on_create';

-- A publication made or changed later could break the application's writes as one that was there before could: it
-- is refused too, and is warned of where it would carry feeds along.
CREATE FUNCTION scd2_internal.on_publication() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT x.source_relid, x.feed_relid FROM scd2_internal.feed x JOIN pg_class c ON c.oid = x.source_relid WHERE NOT x.disabled LOOP
        PERFORM scd2_internal.refuse('55000', format('publication "%s" would make updates and deletes of table "%s" fail: %s', b.publication, scd2_internal.label(l), b.reason),
            'The table has a change data feed and hence REPLICA IDENTITY FULL.', format('SELECT scd2.disable_change_feed(%L); -- or publish the whole table', f.source_relid::regclass))
        FROM scd2_internal.leaves(f.source_relid) l, scd2_internal.breaking_publication(l) b WHERE b.publication IS NOT NULL;
    END LOOP;
    IF tg_tag = 'CREATE PUBLICATION' THEN
        FOR f IN
            SELECT x.publication, x.kind, string_agg(format('"%s"', scd2_internal.label(c.oid)), ', ' ORDER BY c.oid) AS feeds
            FROM pg_event_trigger_ddl_commands() d JOIN pg_publication p ON d.classid = 'pg_publication'::regclass AND p.oid = d.objid,
                 scd2_internal.feed fd JOIN pg_class c ON c.oid = fd.feed_relid AND NOT fd.disabled, scd2_internal.catch_all_publications(c.relnamespace) x
            WHERE x.publication = p.pubname GROUP BY x.publication, x.kind
        LOOP
            RAISE WARNING 'publication "%" (%) sends change data feeds to its subscribers too', f.publication, f.kind
                USING DETAIL = format('A subscriber that has no such table stops with an error at its first row: %s.', f.feeds);
        END LOOP;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.on_publication() IS 'Refuses publications that would make the application''s writes to captured tables fail. Errors: 55000, naming publication and table.';

CREATE EVENT TRIGGER scd2_on_publication ON ddl_command_end WHEN TAG IN ('CREATE PUBLICATION', 'ALTER PUBLICATION')
    EXECUTE FUNCTION scd2_internal.on_publication();
ALTER EVENT TRIGGER scd2_on_publication ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER scd2_on_publication IS 'Publications that would make the application''s writes to captured tables fail';
-- 32_feed_leaves.sql: cutting the last partition of a feed (when: src/feed/upkeep.c).
--
-- A feed is partitioned by version. New rows go into its last partition, [n, MAXVALUE). A cut at version b makes
-- that [n, b) and adds [b, MAXVALUE), so that what is old can be dropped as whole partitions.
--
-- b is the version after the last one captured. Under an ACCESS EXCLUSIVE lock on the feed no row is on its way
-- into it: those that are there have smaller versions, those that come later greater ones, and no batch has both.
-- Readers that come later see both partitions; those that have the feed open keep us out. (To attach a partition, a
-- weaker lock is enough for the server, but a transaction that has read the feed before may go on with the
-- partitions that it knows, and miss the rows of the new one.)
--
-- Nothing takes long under that lock. That no row has version b or a greater one (the owner can have written some)
-- shows in the BRIN index: only pages that it cannot exclude are read. Therefore the constraint that saves ATTACH a
-- scan of the whole partition is added as a valid one, without a scan of its own.
--
-- The lock is tried once, for 100 ms, and not at all while somebody has the feed for longer than that already. So
-- nobody queues behind a cut that waits for a long transaction; it is put off.
--
-- Attaching and detaching run what the owner hung on the feed (checks and index expressions are simplified), so the
-- owner does it. The new partition is made bare; all that hangs on the feed comes to it then.
--
-- All of it is one transaction: a crash leaves the feed as it was, or cut.

CREATE FUNCTION scd2_internal.last_leaf(feed oid, OUT leaf oid, OUT first_version bigint)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.oid, substring(b.bound FROM 'FROM \(''?(\d+)''?\)')::bigint
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid, pg_get_expr(c.relpartbound, 0) b (bound)
    WHERE i.inhparent = feed AND c.relkind = 'r' AND b.bound LIKE '% TO (MAXVALUE)'
$$;
COMMENT ON FUNCTION scd2_internal.last_leaf(oid) IS
    'The partition of a feed that takes new versions, and the first version that it can have, NULL: no bound. Locks nothing.';

CREATE FUNCTION scd2_internal.in_long_use(relations oid[]) RETURNS boolean
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
                   WHERE l.locktype = 'relation' AND l.relation = ANY (relations) AND l.pid IS DISTINCT FROM pg_backend_pid()
                     AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
                     AND (l.pid IS NULL OR a.xact_start < clock_timestamp() - interval '100 ms'))
$$;
COMMENT ON FUNCTION scd2_internal.in_long_use(oid[]) IS
    'Whether a transaction that has run for more than 100 ms, or a prepared one, has locks on one of these tables or waits for one.';

CREATE FUNCTION scd2_internal.has_brin_index(leaf oid) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_am a ON a.oid = i.relam
                   WHERE x.indrelid = leaf AND x.indisvalid AND a.amname = 'brin')
$$;
COMMENT ON FUNCTION scd2_internal.has_brin_index(oid) IS 'Whether the range of a partition can be proved without reading it.';

CREATE FUNCTION scd2_internal.add_proven_check(leaf oid, first_version bigint, bound bigint) RETURNS name
    AS 'MODULE_PATHNAME', 'scd2_add_proven_check' LANGUAGE C;
COMMENT ON FUNCTION scd2_internal.add_proven_check(oid, bigint, bigint) IS
    'Adds CHECK (_commit_version >= first_version AND _commit_version < bound), the first part not with NULL, as a valid constraint without looking at the rows: for who has looked. Returns its name.';

CREATE FUNCTION scd2_internal.checks_of_feed(feed oid, leaf text) RETURNS text[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(format('ALTER TABLE ONLY %s ADD CONSTRAINT %I %s', leaf, c.conname, pg_get_constraintdef(c.oid)) ORDER BY c.oid), '{}')
    FROM pg_constraint c WHERE c.conrelid = feed AND c.contype = 'c' AND NOT c.connoinherit
$$;
COMMENT ON FUNCTION scd2_internal.checks_of_feed(oid, text) IS
    'Statements that give a table the checks of a feed, which it must have to become a partition.';

-- A partition like the last one, behind it.
CREATE FUNCTION scd2_internal.add_leaf(feed oid, like_leaf oid, first_version bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET pg_scd2.enable_change_feed_on_create = off SET client_min_messages = warning AS $$
DECLARE
    own record;
    options text;
    leaf text;
BEGIN
    SELECT c.relname, c.relowner, n.nspname INTO own FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = feed;
    SELECT coalesce(' WITH (' || string_agg(format('%I = %L', o.option_name, o.option_value), ', ') || ')', '')
    INTO options FROM pg_class c, pg_options_to_table(c.reloptions) o WHERE c.oid = like_leaf;
    options := options || coalesce((SELECT format(' TABLESPACE %I', t.spcname) FROM pg_class c JOIN pg_tablespace t ON t.oid = c.reltablespace WHERE c.oid = like_leaf), '');
    leaf := format('%I.%I', own.nspname, scd2_internal.leaf_name(own.nspname, own.relname, 'p' || first_version));
    EXECUTE format('CREATE TABLE %s (LIKE %s INCLUDING GENERATED INCLUDING STORAGE INCLUDING COMPRESSION) USING heap', leaf, feed::regclass) || options;
    PERFORM scd2_internal.guard_feed(leaf::regclass);
    PERFORM scd2_internal.own_alone(leaf::regclass, own.relowner);
    PERFORM scd2_internal.alter_as_owner(feed, scd2_internal.checks_of_feed(feed, leaf)
        || format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%s) TO (MAXVALUE)', feed::regclass, leaf, first_version));
END $$;
COMMENT ON FUNCTION scd2_internal.add_leaf(oid, oid, bigint) IS
    'Adds [first_version, MAXVALUE) to a feed that has no such partition: owned, guarded and stored like like_leaf, readable through the feed only.';

CREATE FUNCTION scd2_internal.cut_locked_feed(feed oid) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    last record := scd2_internal.last_leaf(feed);
    bound bigint;
    proof name;
BEGIN
    SELECT p.version + 1 INTO bound FROM scd2_internal.position p;
    IF bound <= last.first_version OR NOT scd2_internal.has_rows(last.leaf) THEN
        RETURN NULL;
    END IF;
    IF NOT scd2_internal.has_brin_index(last.leaf) THEN
        RETURN NULL;
    END IF;
    IF scd2_internal.as_owner(last.leaf, format('SELECT true FROM ONLY %s WHERE _commit_version >= $1 LIMIT 1', last.leaf::regclass), bound) THEN
        PERFORM scd2_internal.refuse('55000', format('partition "%s" of change data feed "%s" has rows of versions that are yet to come', scd2_internal.label(last.leaf), scd2_internal.label(feed)),
            format('The latest version is %s. Rows like these are not written by capture.', bound - 1),
            format('BEGIN; SET LOCAL pg_scd2.allow_target_writes = on; DELETE FROM %s WHERE _commit_version >= %s; COMMIT;', last.leaf::regclass, bound));
    END IF;
    proof := scd2_internal.add_proven_check(last.leaf, last.first_version, bound);
    PERFORM scd2_internal.alter_as_owner(feed, ARRAY[
        format('ALTER TABLE %s DETACH PARTITION %s', feed::regclass, last.leaf::regclass),
        format('ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM (%s) TO (%s)', feed::regclass, last.leaf::regclass, coalesce(last.first_version::text, 'MINVALUE'), bound),
        format('ALTER TABLE ONLY %s DROP CONSTRAINT %I', last.leaf::regclass, proof)]);
    PERFORM scd2_internal.add_leaf(feed, last.leaf, bound);
    RETURN bound;
END $$;
COMMENT ON FUNCTION scd2_internal.cut_locked_feed(oid) IS
    'Ends the last partition of a feed and begins another, for versions from the returned one on. NULL, and nothing done: it has no rows, or no BRIN index to prove its range with. '
    'The caller has locked both against everybody. Errors: 55000 the owner has written rows of versions that are yet to come.';

CREATE FUNCTION scd2_internal.cut_feed(feed oid) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    last record := scd2_internal.last_leaf(feed);
BEGIN
    IF last.leaf IS NULL OR NOT scd2_internal.has_brin_index(last.leaf)
       OR scd2_internal.in_long_use(ARRAY[feed, last.leaf])
       OR NOT scd2_internal.try_lock(ARRAY[feed, last.leaf], ARRAY['ACCESS EXCLUSIVE', 'ACCESS EXCLUSIVE'])
       OR last IS DISTINCT FROM scd2_internal.last_leaf(feed) THEN
        RETURN NULL;
    END IF;
    RETURN scd2_internal.cut_locked_feed(feed);
END $$;
COMMENT ON FUNCTION scd2_internal.cut_feed(oid) IS
    'Ends the last partition of a feed and begins another, for versions from the returned one on. NULL, and nothing done: it has no rows, no BRIN index to prove its range with, or is in use. '
    'Errors: 55000 the owner has written rows of versions that are yet to come.';
-- 32_feed_partitions.sql: what DDL on the partitions of a captured table does to its feed (called by the hook of
-- src/feed/partitions.c).
--
-- Rows that come with a partition are inserts, those that go with one are deletes, in their place in the transaction.
-- They are read and written while the statement has the partition locked; where that would take long
-- (pg_scd2.max_partition_copy), or where something goes wrong, the feed has a gap instead, with a WARNING.

CREATE FUNCTION scd2_internal.stage_rows(feed integer, leaf oid, arrives boolean) RETURNS bigint
    AS 'MODULE_PATHNAME', 'scd2_stage_rows' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.stage_rows(integer, oid, boolean) IS
    'Puts the rows of a table into the log, for capture to take them for inserts into the source of the feed, or deletes. The caller has locked the table against everybody. Returns how many';

-- Leaves and what is between.
CREATE FUNCTION scd2_internal.partition_tree(relation oid) RETURNS SETOF oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT relation UNION SELECT t.relid FROM pg_partition_tree(relation) t
$$;
COMMENT ON FUNCTION scd2_internal.partition_tree(oid) IS 'A table and all partitions below it';

-- Feeds that capture writes into.
CREATE FUNCTION scd2_internal.feeds_above(relation oid) RETURNS SETOF scd2_internal.feed
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT f.* FROM scd2_internal.feed f LEFT JOIN scd2_internal.feed_state s USING (feed_id)
    WHERE NOT f.disabled AND s.state IS DISTINCT FROM 'failed'
      AND (f.source_relid = relation OR f.source_relid IN (SELECT a.relid FROM pg_partition_ancestors(relation) a))
$$;
COMMENT ON FUNCTION scd2_internal.feeds_above(oid) IS
    'The running feed of a table or of a partitioned one above it';

CREATE FUNCTION scd2_internal.is_small(leaf oid) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT bound = '-1' OR pg_table_size(leaf) <= pg_size_bytes(bound) FROM current_setting('pg_scd2.max_partition_copy') AS bound
$$;
COMMENT ON FUNCTION scd2_internal.is_small(oid) IS 'Whether the rows of a partition are recorded when it comes or goes';

CREATE FUNCTION scd2_internal.move_rows(f scd2_internal.feed, leaf oid, what text, arrives boolean, trouble text)
    RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    unfit CONSTANT text := (SELECT k.reason FROM scd2_internal.unfit_kind(leaf) k);
BEGIN
    IF unfit IS NOT NULL AND (arrives OR what = 'CREATE') THEN
        PERFORM scd2_internal.declare_gap(f, format('partition %s cannot be captured: %s', leaf::regclass, rtrim(unfit, '.')),
            'SELECT * FROM scd2.diagnose();');
    ELSIF what = 'CREATE' OR NOT scd2_internal.has_rows(leaf) THEN
        RETURN;
    ELSIF trouble IS NOT NULL OR unfit IS NOT NULL OR NOT scd2_internal.is_small(leaf) THEN
        PERFORM scd2_internal.declare_gap(f,
            format('%s of partition %s: its rows are not recorded, %s', what, leaf::regclass,
                   coalesce(trouble, unfit, format('it is larger than pg_scd2.max_partition_copy (%s)',
                       current_setting('pg_scd2.max_partition_copy')))), 'SELECT * FROM scd2.diagnose();');
    ELSE
        PERFORM scd2_internal.stage_rows(f.feed_id, leaf, arrives);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.move_rows(scd2_internal.feed, oid, text, boolean, text) IS
    'Records the rows of one partition that comes or goes, or declares the gap that they are';

CREATE FUNCTION scd2_internal.partition_came(parent oid, partition oid, what text, trouble text) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.set_leaf_identities(parent);
    SELECT scd2_internal.move_rows(f, l, what, what = 'ATTACH', trouble)
    FROM scd2_internal.feeds_above(parent) f, scd2_internal.leaves(partition) l ORDER BY l;
$$;
COMMENT ON FUNCTION scd2_internal.partition_came(oid, oid, text, text) IS
    'New leaves have REPLICA IDENTITY FULL; their rows are inserts';

-- It is nobody's partition any more, and locked.
CREATE FUNCTION scd2_internal.partition_was_detached(parent oid, partition oid, trouble text) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.move_rows(f, l, 'DETACH', false, trouble)
    FROM scd2_internal.feeds_above(parent) f, scd2_internal.leaves(partition) l ORDER BY l;
    SELECT scd2_internal.give_back_identity(i.leaf_relid, i.identity, i.index_name)
    FROM scd2_internal.feeds_above(parent) f JOIN scd2_internal.found_identity i USING (feed_id)
    WHERE i.leaf_relid IN (SELECT l FROM scd2_internal.leaves(partition) l);
    DELETE FROM scd2_internal.found_identity i USING scd2_internal.feeds_above(parent) f
    WHERE i.feed_id = f.feed_id AND i.leaf_relid IN (SELECT l FROM scd2_internal.leaves(partition) l);
$$;
COMMENT ON FUNCTION scd2_internal.partition_was_detached(oid, oid, text) IS
    'The rows of a partition that was detached are deletes; its leaves get the replica identity that was found';

-- Before the statement: it may still be refused.
CREATE FUNCTION scd2_internal.may_take_rows(caller oid, relation oid, what text) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE what WHEN 'TRUNCATE' THEN has_table_privilege(caller, relation, 'TRUNCATE')
                ELSE pg_has_role(caller, c.relowner, 'USAGE') OR pg_has_role(caller, n.nspowner, 'USAGE') END
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation
$$;
COMMENT ON FUNCTION scd2_internal.may_take_rows(oid, oid, text) IS 'Whether a role may drop or truncate a table';

-- The locks are those that the statement takes, in its order.
CREATE FUNCTION scd2_internal.lock_leaving(partition oid, what text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    relation oid;
BEGIN
    FOR relation IN
        SELECT i.inhparent FROM pg_inherits i WHERE i.inhrelid = partition AND what = 'DROP'
        UNION ALL SELECT t FROM scd2_internal.partition_tree(partition) t
    LOOP
        EXECUTE format('LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE', relation::regclass);
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.lock_leaving(oid, text) IS 'Locks a partition, and all below it, that is dropped or truncated';

CREATE FUNCTION scd2_internal.partition_goes(caller oid, partition oid, what text, named oid[], trouble text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed;
    relation oid;
BEGIN
    -- Where the captured table itself goes, all of it does.
    SELECT x.* INTO f FROM scd2_internal.feeds_above(partition) x
        WHERE x.source_relid <> partition AND x.source_relid <> ALL (named)
          AND NOT EXISTS (SELECT FROM pg_partition_ancestors(partition) a WHERE a.relid <> partition AND a.relid = ANY (named));
    IF NOT FOUND OR NOT scd2_internal.may_take_rows(caller, partition, what) THEN
        RETURN;
    END IF;
    PERFORM scd2_internal.lock_leaving(partition, what);
    FOR relation IN SELECT t FROM scd2_internal.partition_tree(partition) t ORDER BY t LOOP
        IF (SELECT c.relkind <> 'p' FROM pg_class c WHERE c.oid = relation) THEN
            PERFORM scd2_internal.move_rows(f, relation, what, false, trouble);
        END IF;
        IF what = 'TRUNCATE' THEN
            INSERT INTO scd2_internal.control (kind, feed_id, source_relid) VALUES ('partition emptied', f.feed_id, relation);
        ELSE
            DELETE FROM scd2_internal.found_identity i WHERE i.feed_id = f.feed_id AND i.leaf_relid = relation;
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.partition_goes(oid, oid, text, oid[], text) IS
    'The rows of a partition that is about to be dropped or truncated are deletes';

CREATE FUNCTION scd2_internal.partition_event(caller oid, what text, parent oid, partitions oid[], trouble text)
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = on AS $$
BEGIN
    IF what IN ('CREATE', 'ATTACH') THEN
        PERFORM scd2_internal.partition_came(parent, partitions[1], what, trouble);
    ELSIF what = 'DETACH' THEN
        PERFORM scd2_internal.partition_was_detached(parent, partitions[1], trouble);
    ELSE
        PERFORM scd2_internal.partition_goes(caller, p, what, partitions, trouble)
            FROM (SELECT DISTINCT u AS p FROM unnest(partitions) u) d ORDER BY p;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.partition_event(oid, text, oid, oid[], text) IS
    'Follows DDL of partitions: new leaves get REPLICA IDENTITY FULL; rows that come or go with one become changes. '
    'trouble: why they cannot, then they are a declared gap';
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

-- A feed that capture has not reached yet begins at a version that is not given out yet.
CREATE FUNCTION scd2_internal.feed_extent(id integer, OUT enabled_version bigint, OUT enabled_at timestamptz,
    OUT earliest_version bigint, OUT latest_version bigint, OUT gap int8range)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(s.enabled_version, p.version, 0), coalesce(s.enabled_at, p.commit_timestamp, '-infinity'),
        coalesce(s.earliest_version, p.version, 0), coalesce(p.version, 0), s.gap
    FROM (VALUES (id)) i LEFT JOIN scd2_internal.position p ON p.singleton
        LEFT JOIN scd2_internal.feed_state s ON s.feed_id = id
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
    IF bound ~ '^\s*[-+]?[0-9]+\s*$' THEN
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
BEGIN
    RETURN QUERY EXECUTE format('SELECT c.* FROM %s c ', r.feed)
        || scd2._range_condition(starting_timestamp, ending_timestamp)
        USING r.first_version, r.last_version, starting_timestamp, ending_timestamp;
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
BEGIN
    SELECT string_agg(format('c.%I', a.attname), ', ' ORDER BY a.attnum) INTO columns FROM pg_attribute a
        WHERE a.attrelid = r.feed AND a.attnum > 5 AND NOT a.attisdropped;
    RETURN QUERY EXECUTE format(
        'SELECT c._change_type, c._commit_version, c._commit_timestamp, c._change_ordinal, to_jsonb(o.*) '
        'FROM %s c, LATERAL (SELECT %s) o ', r.feed, columns)
        || scd2._range_condition(starting_timestamp, ending_timestamp)
        USING r.first_version, r.last_version, starting_timestamp, ending_timestamp;
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
BEGIN
    RETURN QUERY EXECUTE format($query$
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
              FROM %s f WHERE f._commit_version BETWEEN $1 AND $2 GROUP BY f._commit_version) v
             FULL JOIN (SELECT x.* FROM scd2._reconstructions(%L) x WHERE x.version BETWEEN $1 AND $2) c ON c.version = v.version
        UNION ALL
        SELECT lower($3), NULL, NULL, 'GAP', 0, 0, 0, 0 WHERE $3 IS NOT NULL
        ORDER BY 1 $query$, r.feed, source)
        USING r.first_version, r.last_version, r.gap;
END $$;
COMMENT ON FUNCTION scd2.describe_history(regclass) IS
    'A row per version that changed a table: when, by which transaction, what it did and how often; GAP where '
    'versions were not recorded, RECONSTRUCTED for what a repair found by comparison. Errors: 55000 no feed, 42501 no right to read it.';
-- 34_feed_table_at.sql: a table as it was right after a version.
--
-- Today's rows with later changes undone. One statement reads the rows under its snapshot S and calls scd2._undo_rows,
-- which waits until everything that S sees is captured and returns, from a newer snapshot, the changes after the
-- version whose transaction S sees. Rows are taken as a bag of row images: an insert or post-image takes one away, a
-- pre-image or delete puts one back, and only the sums count. So no key is needed, no equality of the types (images are
-- compared as text, which every type has), and no order.
--
-- A TRUNCATE does not say what it removed, a gap says nothing: with one in between there is no answer.

CREATE FUNCTION scd2._wait_captured(timeout interval) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_wait_captured' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2._wait_captured(interval) IS
    'Part of table_at: waits until everything in the log up to now is captured. Errors: 55000 if no worker captures, '
    '57014 at the timeout.';

CREATE FUNCTION scd2._truncated(version bigint, source regclass) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('table %s was truncated at version %s', source, version),
        DETAIL = 'A TRUNCATE does not record the rows that it removed, '
                 'so the table cannot be shown as it was before it.',
        HINT = format('SELECT * FROM scd2.table_at(NULL::%s, %s);', source, version);
END $$;
COMMENT ON FUNCTION scd2._truncated(bigint, regclass) IS 'Part of table_at: raises 55000.';

CREATE FUNCTION scd2._undo_rows(feed anyelement, source regclass, after_version bigint, after_timestamp timestamptz,
    seen pg_snapshot) RETURNS SETOF anyelement
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET max_parallel_workers_per_gather = 0 AS $$
DECLARE
    r record;
BEGIN
    PERFORM scd2._wait_captured('1 min');
    r := scd2._feed_range(source, after_version, NULL, after_timestamp, NULL, true);
    IF upper_inf(r.gap) OR upper(r.gap) - 1 > coalesce(after_version, r.first_version) THEN
        RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = format('changes of table %s are missing since then', source),
            DETAIL = format('Changes of versions %s were not recorded.', r.gap),
                HINT = CASE WHEN upper_inf(r.gap) THEN format('SELECT scd2.resync(%L);', source)
                    ELSE format('SELECT * FROM scd2.table_at(NULL::%s, %s);', source, upper(r.gap)) END;
    ELSIF EXISTS (SELECT FROM scd2._reconstructions(source) c WHERE (c.version > after_version OR c."timestamp" > after_timestamp)
                  AND NOT pg_visible_in_snapshot(c.xid, seen)) THEN
        RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = format('the change data feed of table %s was repaired meanwhile', source),
            HINT = 'Try again.';
    END IF;
    RETURN QUERY EXECUTE format('SELECT * FROM %s WHERE _commit_version BETWEEN $1 AND $2', r.feed)
        || CASE WHEN after_version IS NULL THEN ' AND _commit_timestamp > $3' ELSE '' END
        || ' AND (_commit_version <= $6 OR pg_visible_in_snapshot(_xid, $4))'
           ' AND (_change_type <> ''truncate'' OR scd2._truncated(_commit_version, $5))'
        USING greatest(r.first_version, after_version + 1), r.last_version, after_timestamp, seen, source, scd2._foreign_until();
END $$;
COMMENT ON FUNCTION scd2._undo_rows(anyelement, regclass, bigint, timestamptz, pg_snapshot) IS
    'Part of table_at: the changes after a version (or time) whose transactions a snapshot sees. Errors: 55000 a '
    'TRUNCATE or missing versions among them, or as of _feed_range and _wait_captured.';

-- The statement that shows a table at a version. Whole rows are written alias.*: a bare alias would be a column of that
-- name, if there is one.
CREATE FUNCTION scd2._table_at_query(source regclass, feed regclass) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH c AS (
        SELECT a.attnum, a.attname, a.atttypid, a.atttypmod, a.attgenerated = 'v' AS is_virtual,
               EXISTS (SELECT FROM pg_attribute f WHERE f.attrelid = feed AND f.attname = a.attname
                   AND NOT f.attisdropped) AS in_feed
        FROM pg_attribute a WHERE a.attrelid = source AND a.attnum > 0 AND NOT a.attisdropped),
    t AS (
        SELECT coalesce(string_agg(format('(u.r).%I', c.attname), ', ' ORDER BY c.attnum) FILTER (WHERE c.in_feed),
            '') AS undo_image,
               coalesce(string_agg(format('s.%I', c.attname), ', ' ORDER BY c.attnum) FILTER (WHERE c.in_feed),
                   '') AS image,
               string_agg(CASE WHEN c.in_feed
                   THEN format('((b.r).%I)::%s AS %1$I', c.attname, format_type(c.atttypid, c.atttypmod))
                               ELSE format('NULL::%s AS %I', format_type(c.atttypid, c.atttypmod), c.attname) END, ', '
                                   ORDER BY c.attnum) AS columns,
               string_agg(CASE WHEN c.is_virtual
                   THEN (SELECT format('(%s)::%s', pg_get_expr(d.adbin, d.adrelid),
                   format_type(c.atttypid, c.atttypmod))
                                                       FROM pg_attrdef d WHERE d.adrelid = source
                                                           AND d.adnum = c.attnum)
                               ELSE quote_ident(c.attname) END, ', ' ORDER BY c.attnum) AS computed,
               (SELECT CASE k.relkind WHEN 'p' THEN '' ELSE 'ONLY ' END || source FROM pg_class k
                   WHERE k.oid = source) AS rows
        FROM c)
    SELECT format($query$
        WITH undo AS MATERIALIZED (
            SELECT u.r, ROW(%1$s)::text COLLATE "C" AS image,
                   CASE WHEN (u.r)._change_type IN ('insert', 'update_postimage') THEN -1 ELSE 1 END AS sign
            FROM (SELECT (c.*)::%2$s AS r FROM scd2._undo_rows(NULL::%2$s, %3$L, $1, $2, pg_current_snapshot()) c) u),
        net AS MATERIALIZED (
            SELECT image, sum(sign) AS n FROM undo GROUP BY image HAVING sum(sign) <> 0)
        SELECT s.* FROM %4$s s
        WHERE NOT EXISTS (SELECT FROM net WHERE net.n < 0 AND net.image = ROW(%5$s)::text COLLATE "C")
        UNION ALL
        SELECT (k.r).* FROM (SELECT (s.*)::%3$s AS r, net.n, row_number() OVER (PARTITION BY net.image) AS copy
                             FROM %4$s s JOIN net ON net.n < 0 AND net.image = ROW(%5$s)::text COLLATE "C") k
        WHERE k.copy > -k.n
        UNION ALL
        SELECT %7$s FROM (
            SELECT %6$s FROM (SELECT undo.r, net.n, row_number() OVER (PARTITION BY net.image) AS copy
                              FROM undo JOIN net ON net.n > 0 AND net.image = undo.image WHERE undo.sign = 1) b
            WHERE b.copy <= b.n) q $query$, t.undo_image, feed, source, t.rows, t.image, t.columns, t.computed)
    FROM t
$$;
COMMENT ON FUNCTION scd2._table_at_query(regclass, regclass) IS
    'Part of table_at: the text of its query; $1 the version, $2 the time. Columns that the feed does not have are '
    'NULL in rows that are put back, virtual generated ones are computed.';

-- What would make the answer wrong without anybody noticing.
CREATE FUNCTION scd2._check_table_at(source regclass, feed regclass) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION USING ERRCODE = '25001',
            MESSAGE = 'table_at cannot run in a transaction whose snapshot is fixed',
            DETAIL = 'It must see changes that are captured after the snapshot was taken.',
                HINT = 'ROLLBACK; BEGIN ISOLATION LEVEL READ COMMITTED;';
    END IF;
    IF EXISTS (SELECT FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.granted
               AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
               AND l.relation IN (SELECT source UNION ALL SELECT p.relid FROM pg_partition_tree(source) p)
               AND l.mode NOT IN ('AccessShareLock', 'RowShareLock')) THEN
        RAISE EXCEPTION USING ERRCODE = '25001',
            MESSAGE = format('table_at cannot run in a transaction that has written %s', source),
            DETAIL = 'Its changes are not captured before it commits.', HINT = 'COMMIT;';
    END IF;
    IF row_security_active(source) OR row_security_active(feed) THEN
        RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE = format('row security hides rows of %s', CASE WHEN row_security_active(source) THEN source ELSE feed END),
            DETAIL = 'A feed has all rows, whatever the policies of its source say, so the two cannot be put together.';
    END IF;
END $$;
COMMENT ON FUNCTION scd2._check_table_at(regclass, regclass) IS
    'Part of table_at. Errors: 25001 the transaction''s snapshot is fixed or it has written the table, 42501 row '
    'security hides rows from the caller.';

CREATE FUNCTION scd2._table_at(source anyelement, after_version bigint, after_timestamp timestamptz)
    RETURNS SETOF anyelement
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 SET jit = off AS $$
DECLARE
    relation regclass;
    r record;
BEGIN
    SELECT c.oid INTO relation FROM pg_type t JOIN pg_class c ON c.oid = t.typrelid AND c.relkind IN ('r', 'p')
        WHERE t.oid = pg_typeof(source);
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '42804',
            MESSAGE = format('argument of table_at must be a row of a table, not of type %s', pg_typeof(source)),
            HINT = 'SELECT * FROM scd2.table_at(NULL::customers, 1);';
    END IF;
    IF after_version IS NULL AND after_timestamp IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22004', MESSAGE = 'the version of table_at must not be null';
    END IF;
    r := scd2._feed_range(relation, after_version, NULL, after_timestamp, NULL, true);
    IF r.feed = relation THEN
        RAISE EXCEPTION USING ERRCODE = '42804', MESSAGE = format('%s is a change data feed, not a source', relation);
    END IF;
    PERFORM scd2._check_table_at(relation, r.feed);
    IF after_version > r.last_version THEN
        PERFORM scd2._wait_captured('1 min');
        IF after_version > scd2.latest_version() THEN
            RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('version %s is yet to come', after_version),
                DETAIL = format('The latest version is %s.', scd2.latest_version());
        END IF;
    END IF;
    RETURN QUERY EXECUTE scd2._table_at_query(relation, r.feed) USING after_version, after_timestamp;
END $$;
COMMENT ON FUNCTION scd2._table_at(anyelement, bigint, timestamptz) IS 'Part of table_at: all of its forms.';

CREATE FUNCTION scd2.table_at(source anyelement, version bigint) RETURNS SETOF anyelement
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM scd2._table_at($1, $2, NULL)
$$;
CREATE FUNCTION scd2.table_at(source anyelement, "timestamp" timestamptz) RETURNS SETOF anyelement
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM scd2._table_at($1, NULL, $2)
$$;
-- An untyped literal would be ambiguous without this one.
CREATE FUNCTION scd2.table_at(source anyelement, point text) RETURNS SETOF anyelement
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT t.* FROM scd2._bound($2) b, scd2._table_at($1, b.version, b."timestamp") t
$$;
COMMENT ON FUNCTION scd2.table_at(anyelement, bigint) IS
    'The rows of a table as they were right after a version: today''s rows with later changes undone. source: '
    'NULL::<table>. Waits until what the statement sees is captured. Columns that the feed leaves out are NULL in '
    'rows that '
    'are put back. Errors: 22023 a version before the feed or yet to come; 55000 no feed, no worker that captures, or '
    'a TRUNCATE or missing versions since then; 25001 the transaction has written the table or its snapshot is '
    'fixed; 42501 no right to read the feed, or row security hides rows; 42804 the argument is no row of a table.';
COMMENT ON FUNCTION scd2.table_at(anyelement, timestamptz) IS
    'The rows of a table as they were after the last commit at or before this time. Errors as table_at by version.';
COMMENT ON FUNCTION scd2.table_at(anyelement, text) IS
    'As table_at by version, if "point" has digits only, else by time.';
-- 35_feed_columns.sql: DDL of captured tables that the log shows too late or not at all.
--
-- The decoder shows a table's columns as they were when each change was made. But what an ALTER TABLE did to the
-- rows that were there, only it can tell: so each one on a captured table leaves a control record, at which capture
-- looks at the columns (src/feed/layout.c); and where the values of rows changed without a trace, one that declares
-- the feed's gap, and has it repaired where there is a target to compare the table with (38_resync.sql).

CREATE FUNCTION scd2_internal.leaf_with_rows(relation oid) RETURNS oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT c.oid FROM pg_class c WHERE c.oid = relation AND c.relkind = 'r'), (SELECT min(l) FROM scd2_internal.leaves(relation) l), relation)
$$;
COMMENT ON FUNCTION scd2_internal.leaf_with_rows(oid) IS 'A table, or a leaf of a partitioned one: it shows what its rows had before a column was added';

CREATE FUNCTION scd2_internal.feed_above(relation oid) RETURNS scd2_internal.feed
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT f FROM scd2_internal.feed f WHERE NOT f.disabled AND (f.source_relid = relation OR f.source_relid IN (SELECT a.relid FROM pg_partition_ancestors(relation) a))
$$;
COMMENT ON FUNCTION scd2_internal.feed_above(oid) IS 'The feed that the rows of a table go to, its own or that of a partitioned table above it';

CREATE FUNCTION scd2_internal.declare_gap(f scd2_internal.feed, why text, hint text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO scd2_internal.control (kind, feed_id, detail) VALUES ('gap', f.feed_id, why);
    RAISE WARNING 'the change data feed of table "%" has a gap from here on: %', scd2_internal.label(f.source_relid), why USING HINT = hint;
END $$;
COMMENT ON FUNCTION scd2_internal.declare_gap(scd2_internal.feed, text, text) IS 'Leaves the control record of a gap, with a WARNING';

CREATE FUNCTION scd2_internal.type_is_followed(from_type oid, from_typmod integer, to_type oid, to_typmod integer) RETURNS boolean
    AS 'MODULE_PATHNAME', 'scd2_type_is_followed' LANGUAGE C IMMUTABLE STRICT;
COMMENT ON FUNCTION scd2_internal.type_is_followed(oid, integer, oid, integer) IS
    'Whether a feed''s column can get the type that its source''s column has now, with its values';

CREATE FUNCTION scd2_internal.takes_type(type oid, typmod integer, other oid, other_typmod integer) RETURNS boolean
    AS 'MODULE_PATHNAME', 'scd2_takes_type' LANGUAGE C IMMUTABLE STRICT;
COMMENT ON FUNCTION scd2_internal.takes_type(oid, integer, oid, integer) IS
    'Whether a feed''s column of a type takes the values of another type as it is';

-- As far as that can be seen here: the feed has its columns as of what is captured.
CREATE FUNCTION scd2_internal.retyped_column(f scd2_internal.feed) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('column "%s" changed its type from %s to %s: its values left no trace in the log', s.attname,
        format_type(a.atttypid, a.atttypmod), format_type(b.base, b.base_typmod))
    FROM scd2_internal.feed_column c JOIN pg_attribute s ON s.attrelid = f.source_relid AND s.attnum = c.source_attnum AND NOT s.attisdropped
        JOIN pg_attribute a ON a.attrelid = f.feed_relid AND a.attnum = c.feed_attnum AND NOT a.attisdropped
        CROSS JOIN LATERAL scd2_internal.base_type(s.atttypid, s.atttypmod) b
    WHERE c.feed_id = f.feed_id AND NOT scd2_internal.takes_type(a.atttypid, a.atttypmod, b.base, b.base_typmod)
      AND NOT scd2_internal.type_is_followed(a.atttypid, a.atttypmod, b.base, b.base_typmod)
    ORDER BY s.attnum LIMIT 1
$$;
COMMENT ON FUNCTION scd2_internal.retyped_column(scd2_internal.feed) IS
    'What is to be said of a column of a source whose type cannot be followed; NULL: there is none';

-- Whether there is a target to compare with, capture looks again: a flow may begin in this transaction, or go.
CREATE FUNCTION scd2_internal.declare_rewrite(f scd2_internal.feed, why text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO scd2_internal.control (kind, feed_id, detail) VALUES ('rewrite', f.feed_id, why);
    IF scd2_internal.is_comparable(f) THEN
        RAISE NOTICE '%', why USING DETAIL = 'A worker compares the table with a target of it: what differs comes as the changes of one version.',
            HINT = 'SELECT scd2.sync(); -- waits for it';
    ELSE
        RAISE WARNING 'the change data feed of table "%" has a gap from here on: %', scd2_internal.label(f.source_relid), why
            USING HINT = 'SELECT * FROM scd2.diagnose();';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.declare_rewrite(scd2_internal.feed, text) IS
    'Leaves the control record of a gap that is repaired if there is a target to compare with: a NOTICE, else a WARNING';

CREATE FUNCTION scd2_internal.look_at_columns(f scd2_internal.feed) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    why CONSTANT text := scd2_internal.retyped_column(f);
    -- That locks every partition, which not all that comes here has done.
    has_rows boolean := true;
BEGIN
    IF why IS NOT NULL OR EXISTS (SELECT FROM scd2_internal.control c WHERE c.feed_id = f.feed_id AND NOT c.settled) THEN
        has_rows := scd2_internal.has_rows(f.source_relid);
    END IF;
    IF why IS NOT NULL AND has_rows
       AND NOT EXISTS (SELECT FROM scd2_internal.control c WHERE c.feed_id = f.feed_id AND c.kind = 'rewrite' AND NOT c.settled)
       AND EXISTS (SELECT FROM scd2_internal.feed_state s WHERE s.feed_id = f.feed_id AND s.state = 'running') THEN
        PERFORM scd2_internal.declare_rewrite(f, why);
    END IF;
    INSERT INTO scd2_internal.control (kind, feed_id, source_relid, no_rows)
    VALUES ('columns', f.feed_id, scd2_internal.leaf_with_rows(f.source_relid), NOT has_rows);
END $$;
COMMENT ON FUNCTION scd2_internal.look_at_columns(scd2_internal.feed) IS
    'Has capture look at the columns of the source at this place in the log; tells of a type that it will not be able to follow';

-- The event names what the statement names: not the tables that inherit from it or are of its type.
CREATE FUNCTION scd2_internal.altered_with(relation oid) RETURNS SETOF oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE a (oid) AS (
        SELECT relation
        UNION SELECT x.oid FROM a, LATERAL (SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = a.oid
            UNION ALL SELECT c.oid FROM pg_type t JOIN pg_class c ON c.reloftype = t.oid WHERE t.typrelid = a.oid) x (oid))
    SELECT oid FROM a
$$;
COMMENT ON FUNCTION scd2_internal.altered_with(oid) IS 'Relations whose columns change with those of one';

-- Most DDL is none of our business, and is not held up by more than this.
CREATE FUNCTION scd2_internal.may_concern_us(relation oid) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM scd2_internal.feed f WHERE f.source_relid = relation OR f.feed_relid = relation)
        OR EXISTS (SELECT FROM scd2_internal.flow w WHERE w.target_relid = relation OR w.source_relid = relation OR w.memory_relid = relation)
        OR EXISTS (SELECT FROM pg_class c WHERE c.oid = relation AND (c.relispartition AND c.relkind IN ('r', 'p', 'f') OR c.relhassubclass OR c.relkind = 'c'));
END $$;
COMMENT ON FUNCTION scd2_internal.may_concern_us(oid) IS 'Whether DDL of a relation may concern feeds or flows; false: it does not';

-- Changes of a row go to one feed.
CREATE FUNCTION scd2_internal.refuse_feed_below(source oid) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    below oid;
BEGIN
    SELECT f.source_relid INTO below FROM scd2_internal.feed f
        WHERE NOT f.disabled AND f.source_relid <> source AND f.source_relid IN (SELECT t.relid FROM pg_partition_tree(source) t);
    IF FOUND THEN
        PERFORM scd2_internal.refuse('55000', format('partition "%s" of table "%s" has a change data feed of its own', scd2_internal.label(below), scd2_internal.label(source)),
            'The changes of a partition are in the feed of the partitioned table.', format('SELECT scd2.untrack(%1$L); SELECT scd2.disable_change_feed(%1$L);', below::regclass));
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.refuse_feed_below(oid) IS 'Errors: 55000 if a partition of a captured table has a feed';

CREATE FUNCTION scd2_internal.warn_of_identity(f scd2_internal.feed, relation oid) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (SELECT c.relreplident <> 'f' AND c.relkind = 'r' FROM pg_class c WHERE c.oid = relation)
        AND EXISTS (SELECT FROM scd2_internal.found_identity i WHERE i.feed_id = f.feed_id AND i.leaf_relid = relation) THEN   -- not given back
        RAISE WARNING 'the next update or delete of "%" gives its change data feed a gap: it would not be recorded whole', scd2_internal.label(relation)
            USING HINT = format('ALTER TABLE %s REPLICA IDENTITY FULL; -- or, before: SELECT scd2.disable_change_feed(%L);', relation::regclass, f.source_relid::regclass);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.warn_of_identity(scd2_internal.feed, oid) IS 'WARNING if a captured table lacks REPLICA IDENTITY FULL';

-- CI-14: a captured table that becomes unlogged, or is stored by what decoding does not read, changes without a trace in
-- the log from then on, and becoming logged again writes no row changes either.
CREATE FUNCTION scd2_internal.on_alter_table() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = on AS $$
DECLARE
    f record;
BEGIN
    IF scd2_internal.awaits_resume()            -- jobs of a restore would be in each other's way here, for nothing
       OR NOT EXISTS (SELECT FROM pg_event_trigger_ddl_commands() d WHERE d.classid = 'pg_class'::regclass AND scd2_internal.may_concern_us(d.objid)) THEN
        RETURN;
    END IF;
    FOR f IN
        SELECT x AS feed, c.oid AS relation, k.reason, k.hint
        FROM pg_event_trigger_ddl_commands() d JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relkind = 'r'
             CROSS JOIN LATERAL scd2_internal.feed_above(c.oid) x
             LEFT JOIN scd2_internal.feed_state s ON s.feed_id = x.feed_id, scd2_internal.unfit_kind(c.oid) k
        WHERE x.feed_id IS NOT NULL AND k.code IS NOT NULL AND (s.gap IS NULL OR NOT upper_inf(s.gap))
    LOOP
        PERFORM scd2_internal.declare_gap(f.feed, format('changes of table %s cannot be captured: %s', f.relation::regclass, rtrim(f.reason, '.')),
            concat_ws(' ', f.hint, 'SELECT * FROM scd2.diagnose();'));
    END LOOP;
    PERFORM scd2_internal.refuse_feed_below(x.source_relid)
        FROM pg_event_trigger_ddl_commands() d, scd2_internal.feed_above(d.objid) x WHERE d.classid = 'pg_class'::regclass AND x.feed_id IS NOT NULL;
    PERFORM scd2_internal.warn_of_identity(x, d.objid)
        FROM pg_event_trigger_ddl_commands() d, scd2_internal.feeds_above(d.objid) x WHERE d.classid = 'pg_class'::regclass AND tg_tag = 'ALTER TABLE';
    PERFORM scd2_internal.look_at_columns(x)
        FROM (SELECT DISTINCT x.feed_id FROM pg_event_trigger_ddl_commands() d, scd2_internal.altered_with(d.objid) a JOIN scd2_internal.feed x
                  ON x.source_relid = a WHERE NOT x.disabled AND d.classid = 'pg_class'::regclass) i
             JOIN scd2_internal.feed x USING (feed_id);
END $$;
COMMENT ON FUNCTION scd2_internal.on_alter_table() IS
    'Has capture look at the columns of a captured table at this place in the log; declares a gap in the feed of one that becomes unlogged or is stored in another way, with a WARNING. Errors: 55000 a captured table becomes a partition of another.';

-- ALTER VIEW and ALTER INDEX rename columns of tables too, ALTER TYPE alters those of typed tables.
CREATE EVENT TRIGGER scd2_on_alter_table ON ddl_command_end
    WHEN TAG IN ('ALTER TABLE', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW', 'ALTER INDEX', 'ALTER FOREIGN TABLE', 'ALTER TYPE')
    EXECUTE FUNCTION scd2_internal.on_alter_table();
ALTER EVENT TRIGGER scd2_on_alter_table ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER scd2_on_alter_table IS 'Columns of captured tables, and those that become unlogged';

-- What DROP takes along: columns, by DROP TYPE … CASCADE and the like; partitions, by DROP SCHEMA and the like (those
-- that DROP TABLE names have been seen to); tables that have a feed.
CREATE FUNCTION scd2_internal.on_drop() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = on AS $$
DECLARE
    f scd2_internal.feed;
    gone record;
BEGIN
    IF NOT EXISTS (SELECT FROM scd2_internal.feed) THEN
        RETURN;
    END IF;
    FOR f IN SELECT x.* FROM scd2_internal.feed x WHERE NOT x.disabled AND EXISTS (SELECT FROM pg_class c WHERE c.oid = x.source_relid)
                AND x.source_relid IN (SELECT scd2_internal.altered_with(d.objid) FROM pg_event_trigger_dropped_objects() d WHERE d.object_type = 'table column') LOOP
        PERFORM scd2_internal.look_at_columns(f);
    END LOOP;
    FOR gone IN
        SELECT i.feed_id, min(d.object_identity) AS leaf FROM pg_event_trigger_dropped_objects() d JOIN scd2_internal.found_identity i ON i.leaf_relid = d.objid
            JOIN scd2_internal.feed x USING (feed_id) LEFT JOIN scd2_internal.feed_state s USING (feed_id)
        WHERE d.classid = 'pg_class'::regclass AND d.objsubid = 0 AND x.source_relid <> d.objid AND NOT x.disabled AND s.state IS DISTINCT FROM 'failed'
          AND EXISTS (SELECT FROM pg_class c WHERE c.oid = x.source_relid) GROUP BY i.feed_id
    LOOP
        PERFORM scd2_internal.declare_gap(x, format('partition %s was dropped with something else: its rows left no trace in the log', gone.leaf), 'SELECT * FROM scd2.diagnose();')
            FROM scd2_internal.feed x WHERE x.feed_id = gone.feed_id;
    END LOOP;
    FOR f IN SELECT x.* FROM pg_event_trigger_dropped_objects() d JOIN scd2_internal.feed x ON d.classid = 'pg_class'::regclass AND d.objsubid = 0 AND x.source_relid = d.objid
             WHERE NOT x.disabled AND EXISTS (SELECT FROM pg_class c WHERE c.oid = x.feed_relid) LOOP
        RAISE NOTICE 'the change data feed "%" of table "%.%" is still there', scd2_internal.label(f.feed_relid), f.source_schema, f.source_name
            USING HINT = format('SELECT scd2.disable_change_feed(%L, drop_feed => true);', f.feed_relid::regclass);
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.on_drop() IS
    'Has capture look at the columns of a captured table that lost some with something else; declares a gap where partitions went so; NOTICE of the feed of a table that was dropped';

CREATE EVENT TRIGGER scd2_on_drop ON sql_drop EXECUTE FUNCTION scd2_internal.on_drop();
ALTER EVENT TRIGGER scd2_on_drop ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER scd2_on_drop IS 'Columns and partitions of captured tables that go with something else';

-- Called by the trigger of src/feed/rewrite.c, before the table is rewritten.
CREATE FUNCTION scd2_internal.table_rewritten(relation oid, reason integer, given_values text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed := scd2_internal.feed_above(relation);
BEGIN
    -- 2: values for a new column, or of an expression; 4: another type.
    IF f.feed_id IS NULL OR NOT (reason & 2 > 0 OR reason & 4 > 0 AND given_values IS NOT NULL) OR NOT scd2_internal.has_rows(relation) THEN
        RETURN;
    END IF;
    PERFORM scd2_internal.declare_rewrite(f, format('rows of table %s got values of their own in column %s: they left no trace in the log',
            relation::regclass, coalesce(given_values, '(a generated one)')));
END $$;
COMMENT ON FUNCTION scd2_internal.table_rewritten(oid, integer, text) IS
    'Declares a gap, to be repaired, where a rewrite gives rows values that cannot be known: a default that is not constant, USING, a stored generated column';

CREATE FUNCTION scd2_internal.on_table_rewrite() RETURNS event_trigger AS 'MODULE_PATHNAME', 'scd2_on_table_rewrite' LANGUAGE C;
COMMENT ON FUNCTION scd2_internal.on_table_rewrite() IS 'Finds out which columns get values of their own, and calls table_rewritten()';
CREATE EVENT TRIGGER scd2_on_table_rewrite ON table_rewrite EXECUTE FUNCTION scd2_internal.on_table_rewrite();
ALTER EVENT TRIGGER scd2_on_table_rewrite ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER scd2_on_table_rewrite IS 'Values of captured tables that change without a trace in the log';

-- Called by capture when a feed's columns have followed the source's.
CREATE FUNCTION scd2_internal.columns_changed(feed integer) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    excepted name[] := ARRAY(SELECT c.name FROM scd2_internal.feed_column c WHERE c.feed_id = feed AND c.feed_attnum = 0 ORDER BY c.source_attnum);
BEGIN
    UPDATE scd2_internal.feed_state s SET catches_up = false WHERE s.feed_id = feed AND s.catches_up;
    INSERT INTO scd2_internal.feed_layout AS l (feed_id, changes) VALUES (feed, 1) ON CONFLICT (feed_id) DO UPDATE SET changes = l.changes + 1;
    -- Only names change here.
    UPDATE scd2_internal.feed f SET except_columns = excepted
    WHERE f.feed_id = feed AND cardinality(f.except_columns) = cardinality(excepted) AND NOT (f.except_columns @> excepted);
END $$;
COMMENT ON FUNCTION scd2_internal.columns_changed(integer) IS 'Has the flows over a feed look at its columns; columns that stay out do so under their new names';

-- Capture may be behind: then names in the source are not yet those in the feed.
CREATE FUNCTION scd2_internal.columns_pending(feed integer) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT min(a.attname) FROM scd2_internal.feed f JOIN scd2_internal.feed_column c USING (feed_id)
        JOIN pg_attribute a ON a.attrelid = f.source_relid AND (a.attnum = c.source_attnum AND NOT a.attisdropped AND a.attname <> c.name
            OR a.attnum <> c.source_attnum AND NOT a.attisdropped AND a.attname = c.name AND c.feed_attnum <> 0)
    WHERE f.feed_id = feed
$$;
COMMENT ON FUNCTION scd2_internal.columns_pending(integer) IS 'A column of a source whose new name its feed has not followed yet; NULL: none';
-- 36_feed_retention.sql: removing what is old from feeds (when: src/feed/upkeep.c; how readers are kept safe:
-- src/feed/retention.c).
--
-- Whole partitions go, the oldest first: no dead rows, nothing to vacuum. One is removed when its last change is
-- older than the feed's retention and everybody has passed that change: each flow over the feed (one that is paused
-- or has failed too; one that copies needs what came after its beginning) and each reader. So the first that is not
-- to go ends it.
--
-- earliest_version moves in the transaction that drops the partition; a crash leaves both or neither. Looked at
-- first without a lock, then again under ACCESS EXCLUSIVE on the feed and its old partitions: whoever relies on
-- what the feed has holds it (hold_feed), and is seen as flow or reader once his transaction has ended.
--
-- The worker tries that lock once, for 100 ms, and not at all while somebody has had the feed open for longer than
-- that: it is put off, and nobody queues behind it. Who calls vacuum_feed() waits for pg_scd2.lock_timeout in
-- total.

CREATE FUNCTION scd2_internal.hold_feed(feed_id integer, feed oid, OUT earliest_version bigint, OUT earliest_state bigint, OUT removed_until timestamptz, OUT removed_at timestamptz)
    AS 'MODULE_PATHNAME', 'scd2_hold_feed' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.hold_feed(integer, oid) IS
    'Keeps what a feed has from being removed until the transaction ends (ACCESS SHARE), and tells how far back that reaches, whatever the transaction''s snapshot: the first version whose changes it has, and the first after which the source''s rows are known. NULLs: capture has not reached the feed yet.';

CREATE FUNCTION scd2_internal.last_row(leaf oid, beyond bigint, OUT looked boolean, OUT version bigint, OUT at timestamptz)
    AS 'MODULE_PATHNAME', 'scd2_last_row' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.last_row(oid, bigint) IS
    'Version and commit time of the last change in a partition of a feed, NULLs if it has no rows. beyond: changes up to this version count only if there are no others. looked: false if it is locked, or no such partition; nobody is waited for.';

-- A flow whose beginning capture has not met yet needs nothing that is captured already, unless it is to begin earlier.
CREATE VIEW scd2_internal.feed_holder AS
    SELECT w.feed_id, format('flow "%s" at version %s', w.name, h.version) AS who, h.version
    FROM scd2_internal.flow w LEFT JOIN scd2_internal.flow_state s USING (flow_id),
         LATERAL (SELECT CASE WHEN coalesce(s.failed_phase, s.phase, 'copy') = 'copy' THEN least(s.watermark_version, s.begin_version, w.starting_version)
                              ELSE s.watermark_version END AS version) h
    WHERE w.feed_id IS NOT NULL AND s.phase IS DISTINCT FROM 'done' AND h.version IS NOT NULL
    UNION ALL
    SELECT r.feed_id, format('reader "%s" at version %s', r.name, r.version), r.version FROM scd2_internal.reader r WHERE r.expired_at IS NULL;
COMMENT ON VIEW scd2_internal.feed_holder IS 'Who needs the changes of a feed after which version';

CREATE FUNCTION scd2_internal.holder_of(id integer, upto bigint) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT h.who FROM scd2_internal.feed_holder h WHERE h.feed_id = id AND (h.version < upto OR upto IS NULL) ORDER BY h.version, h.who LIMIT 1
$$;
COMMENT ON FUNCTION scd2_internal.holder_of(integer, bigint) IS
    'Who is furthest behind in a feed, of those that have not passed version "upto" (NULL: of all); NULL: nobody.';

CREATE FUNCTION scd2_internal.feed_leaves(feed oid) RETURNS TABLE (leaf oid, first_version bigint, last_version bigint)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.oid, substring(b.bound FROM 'FROM \(''?(-?\d+)''?\)')::bigint, substring(b.bound FROM 'TO \(''?(-?\d+)''?\)')::bigint - 1
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid, pg_get_expr(c.relpartbound, 0) b (bound)
    WHERE i.inhparent = feed AND c.relkind = 'r' AND b.bound LIKE 'FOR VALUES FROM %'
    ORDER BY 3 NULLS LAST
$$;
COMMENT ON FUNCTION scd2_internal.feed_leaves(oid) IS
    'The partitions of a feed, oldest first; first_version NULL: no lower bound; last_version NULL: it takes new versions. Locks nothing.';

-- Volatile: it sees what is committed now.
CREATE FUNCTION scd2_internal.old_leaves(f scd2_internal.feed, cutoff timestamptz)
    RETURNS TABLE (leaf oid, first_version bigint, last_version bigint, ended timestamptz, held_by text)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l record;
    r record;
BEGIN
    FOR l IN SELECT x.* FROM scd2_internal.feed_leaves(f.feed_relid) x LOOP
        SELECT x.* INTO r FROM scd2_internal.last_row(l.leaf, 0) x;
        EXIT WHEN NOT r.looked OR r.at > cutoff OR r.version IS NULL AND l.last_version IS NULL;
        IF EXISTS (SELECT FROM scd2_internal.reconstruction c WHERE c.feed_id = f.feed_id AND c.version = r.version) THEN
            -- What a repair wrote stands behind what was captured meanwhile.
            SELECT x.* INTO r FROM scd2_internal.last_row(l.leaf, r.version) x;
            EXIT WHEN NOT r.looked OR r.at > cutoff;
        END IF;
        leaf := l.leaf;
        first_version := l.first_version;
        last_version := l.last_version;
        ended := r.at;
        held_by := coalesce(held_by, scd2_internal.holder_of(f.feed_id, r.version));
        RETURN NEXT;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.old_leaves(scd2_internal.feed, timestamptz) IS
    'The partitions of a feed, from the oldest on, whose last change (committed at "ended") is not younger than "cutoff", and who keeps each from being removed. last_version NULL: it takes new versions, and would have to be cut first.';

CREATE FUNCTION scd2_internal.cutoff(f scd2_internal.feed, retain interval) RETURNS timestamptz
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN k.retain > '0' THEN clock_timestamp() - k.retain ELSE 'infinity' END
    FROM (SELECT coalesce(cutoff.retain, f.retention, current_setting('pg_scd2.feed_retention')::interval) AS retain) k
$$;
COMMENT ON FUNCTION scd2_internal.cutoff(scd2_internal.feed, interval) IS
    'Changes that were committed until then are old. retain: NULL: the feed''s retention.';

CREATE FUNCTION scd2_internal.remove_leaves(f scd2_internal.feed, cutoff timestamptz) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    gone record;
BEGIN
    SELECT array_agg(o.leaf ORDER BY o.last_version) AS leaves, max(o.last_version) AS upto, max(o.ended) AS ended INTO gone
    FROM scd2_internal.old_leaves(f, cutoff) o WHERE o.held_by IS NULL AND o.last_version IS NOT NULL;
    FOR i IN 1 .. coalesce(cardinality(gone.leaves), 0) LOOP
        EXECUTE format('DROP TABLE %s', gone.leaves[i]::regclass);
    END LOOP;
    UPDATE scd2_internal.feed_state s
    SET earliest_version = greatest(s.earliest_version, gone.upto + 1), removed_until = greatest(s.removed_until, gone.ended), removed_at = clock_timestamp()
    WHERE s.feed_id = f.feed_id AND gone.upto IS NOT NULL;
    RETURN gone.upto IS NOT NULL;
END $$;
COMMENT ON FUNCTION scd2_internal.remove_leaves(scd2_internal.feed, timestamptz) IS
    'Drops the old partitions of a feed that nobody holds. The caller holds ACCESS EXCLUSIVE on the feed and these partitions. Returns whether there was one. Errors: 2BP01 other objects depend on a partition.';

-- Not called for feeds that are disabled: what stays of them is the owner's.
CREATE FUNCTION scd2_internal.retain_feed(id integer) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    f scd2_internal.feed;
    cutoff timestamptz;
    relations oid[];
BEGIN
    SELECT x.* INTO f FROM scd2_internal.feed x WHERE x.feed_id = id AND NOT x.disabled;
    cutoff := scd2_internal.cutoff(f, NULL);
    relations := ARRAY(SELECT o.leaf FROM scd2_internal.old_leaves(f, cutoff) o WHERE o.held_by IS NULL AND o.last_version IS NOT NULL);
    IF relations = '{}' THEN
        RETURN false;
    END IF;
    relations := f.feed_relid || relations;
    IF scd2_internal.in_long_use(relations)
       OR NOT scd2_internal.try_lock(relations, array_fill('ACCESS EXCLUSIVE'::text, ARRAY[cardinality(relations)])) THEN
        RETURN NULL;
    END IF;
    RETURN scd2_internal.remove_leaves(f, cutoff);
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN     -- DROP needs more locks: of indexes, of TOAST
    RETURN NULL;
END $$;
COMMENT ON FUNCTION scd2_internal.retain_feed(integer) IS
    'Removes from a feed what its retention no longer keeps and nobody holds. false: nothing; NULL: it is in use, to be tried later.';

CREATE FUNCTION scd2_internal.feeds_to_retain() RETURNS SETOF integer
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT f.feed_id FROM scd2_internal.feed f JOIN scd2_internal.feed_state s USING (feed_id)
    WHERE NOT f.disabled AND EXISTS (SELECT FROM scd2_internal.old_leaves(f, scd2_internal.cutoff(f, NULL)) o WHERE o.held_by IS NULL AND o.last_version IS NOT NULL)
$$;
COMMENT ON FUNCTION scd2_internal.feeds_to_retain() IS 'The feeds that have something to be removed.';

-- Partitions that have ended are counted before they are locked: they do not change.
CREATE FUNCTION scd2_internal.count_rows(leaf oid) RETURNS bigint
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.as_owner(leaf, format('SELECT count(*) FROM ONLY %s', leaf::regclass), 0)::bigint
$$;
COMMENT ON FUNCTION scd2_internal.count_rows(oid) IS 'How many rows a partition of a feed has.';

-- What is whole in the last partition and old is cut off, so that it can go.
CREATE FUNCTION scd2_internal.lock_and_cut(f scd2_internal.feed, cutoff timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    relations oid[] := f.feed_relid || ARRAY(SELECT o.leaf FROM scd2_internal.old_leaves(f, cutoff) o WHERE o.held_by IS NULL);
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        PERFORM scd2_internal.refuse('25001', 'vacuum_feed cannot run in a transaction whose snapshot is fixed',
            'It must see who needs the feed now.', 'ROLLBACK; BEGIN ISOLATION LEVEL READ COMMITTED;');
    END IF;
    PERFORM scd2_internal.lock_tables(relations, array_fill('ACCESS EXCLUSIVE'::text, ARRAY[cardinality(relations)]));
    IF EXISTS (SELECT FROM scd2_internal.old_leaves(f, cutoff) o WHERE o.held_by IS NULL AND o.last_version IS NULL AND o.leaf = ANY (relations))
       AND scd2_internal.cut_locked_feed(f.feed_relid) IS NULL THEN
        RAISE NOTICE 'the last partition of change data feed "%" cannot be cut: it has no BRIN index', scd2_internal.label(f.feed_relid);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.lock_and_cut(scd2_internal.feed, timestamptz) IS
    'Part of vacuum_feed: locks what can be removed, and cuts the last partition if all of it can. Errors: 55P03 a lock was not to be had, 25001 the transaction''s snapshot is fixed.';

CREATE FUNCTION scd2.vacuum_feed(source regclass, retain interval DEFAULT NULL, dry_run boolean DEFAULT false)
    RETURNS TABLE (first_version bigint, last_version bigint, rows bigint, bytes bigint, held_by text)
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
CREATE FUNCTION scd2_internal.vacuum_feed(caller oid, source regclass, retain interval, dry_run boolean)
    RETURNS TABLE (first_version bigint, last_version bigint, rows bigint, bytes bigint, held_by text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    f scd2_internal.feed := scd2_internal.owned_feed(caller, source);
    cutoff timestamptz;
    counted jsonb;
    o record;
BEGIN
    PERFORM scd2_internal.check_retention(retain);
    cutoff := scd2_internal.cutoff(f, retain);
    dry_run := coalesce(dry_run, false);
    counted := (SELECT jsonb_object_agg(x.leaf, scd2_internal.count_rows(x.leaf)) FROM scd2_internal.old_leaves(f, cutoff) x WHERE dry_run OR x.last_version IS NOT NULL);
    IF NOT dry_run AND EXISTS (SELECT FROM scd2_internal.old_leaves(f, cutoff) x WHERE x.held_by IS NULL) THEN
        PERFORM scd2_internal.lock_and_cut(f, cutoff);
    END IF;
    FOR o IN SELECT x.* FROM scd2_internal.old_leaves(f, cutoff) x WHERE dry_run OR x.held_by IS NOT NULL OR x.last_version IS NOT NULL LOOP
        first_version := coalesce(o.first_version, (SELECT s.enabled_version + 1 FROM scd2_internal.feed_state s WHERE s.feed_id = f.feed_id));
        last_version := coalesce(o.last_version, (SELECT p.version FROM scd2_internal.position p));
        rows := coalesce((counted ->> o.leaf::text)::bigint, scd2_internal.count_rows(o.leaf));
        bytes := pg_total_relation_size(o.leaf);
        held_by := o.held_by;
        RETURN NEXT;
    END LOOP;
    IF NOT dry_run AND EXISTS (SELECT FROM scd2_internal.old_leaves(f, cutoff) x WHERE x.held_by IS NULL AND x.last_version IS NOT NULL) THEN
        PERFORM scd2_internal.remove_leaves(f, cutoff);
    END IF;
END $$;
COMMENT ON FUNCTION scd2.vacuum_feed(regclass, interval, boolean) IS
    'Removes from a feed now what is older than "retain" (NULL: the feed''s retention; 0: everything) and has been passed by all flows and readers; returns a row for each partition that is old enough: its versions, '
    'rows and bytes, and who keeps it from being removed, NULL if it is removed. source: a table that you own; dry_run: nothing is removed. The feed is locked until the transaction ends. '
    'Errors: 42501 not the owner, 55000 no feed, 22023 a negative retain, 55P03 the lock was not to be had, 25001 the transaction''s snapshot is fixed, 2BP01 objects depend on a partition.';
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
    PERFORM FROM scd2_internal.feed x WHERE x.feed_id = f.feed_id AND NOT x.disabled FOR SHARE;
    IF NOT FOUND THEN                                   -- disabled meanwhile
        f := scd2_internal.owned_feed(caller, source);
    END IF;
    SELECT h.* INTO held FROM scd2_internal.hold_feed(f.feed_id, f.feed_relid) h;       -- first: then nothing that is seen below goes
    SELECT p.version INTO latest FROM scd2_internal.position p;
    start := coalesce(starting_version, latest, 0);
    PERFORM scd2_internal.refuse_start(f, format('version %s', start + 1), held.earliest_version, (SELECT s.enabled_at FROM scd2_internal.feed_state s WHERE s.feed_id = f.feed_id),
            held.earliest_version, held.removed_until, held.removed_at,
            format('SELECT scd2.create_reader(%L, %L, %s);', name, f.source_relid::regclass, held.earliest_version - CASE WHEN held.removed_at IS NULL THEN 0 ELSE 1 END))
        WHERE start + 1 < held.earliest_version AND starting_version IS NOT NULL;
    IF start > coalesce(latest, 0) THEN
        PERFORM scd2_internal.refuse('22023', format('version %s is yet to come', start), format('The latest version is %s.', coalesce(latest, 0)));
    END IF;
    BEGIN
        INSERT INTO scd2_internal.reader (name, feed_id, version, reached) VALUES (name, f.feed_id, start, scd2_internal.reached(f, start));
    EXCEPTION WHEN unique_violation THEN
        PERFORM scd2_internal.refuse('42710', format('reader "%s" exists already', name));
    END;
    RETURN start;
END $$;
COMMENT ON FUNCTION scd2.create_reader(name, regclass, bigint) IS
    'Creates a reader of the change data feed of a table that you own, and returns the version after which it starts. The feed keeps what came later until the reader has advanced. starting_version: NULL: the latest. '
    'Errors: 42501 not the owner, 55000 no feed, 42710 there is such a reader, 22023 a version that is yet to come or no longer in the feed, 22004 NULL.';

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
    extent record;
BEGIN
    UPDATE scd2_internal.reader x SET last_read = clock_timestamp(), used_at = clock_timestamp() WHERE x.name = r.name;
    SELECT x.* INTO f FROM scd2_internal.feed x WHERE x.feed_id = r.feed_id;
    IF f.feed_relid <> feed THEN
        PERFORM scd2_internal.refuse('42804', format('reader "%s" reads "%s", not "%s"', name, scd2_internal.label(f.feed_relid), scd2_internal.label(feed)),
            hint => format('SELECT * FROM scd2.read_changes(%L, NULL::%s);', name, f.feed_relid::regclass));
    END IF;
    SELECT x.* INTO extent FROM scd2_internal.feed_extent(f.feed_id) x;
    feed_id := f.feed_id;
    first_version := r.version + 1;
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
    UPDATE scd2_internal.reader x SET read_version = least(version, (SELECT p.version FROM scd2_internal.position p)) WHERE x.name = r.name AND version >= x.version;
END $$;
COMMENT ON FUNCTION scd2._covered(name, bigint) IS 'Part of read_changes: notes how far a read went.';

-- The last of the next "n" versions with changes, looked for in ranges that grow; NULL: there are fewer.
CREATE FUNCTION scd2._nth_version(feed regclass, first_version bigint, last_version bigint, n bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET max_parallel_workers_per_gather = 0 SET jit = off AS $$
DECLARE
    span bigint := least(n, last_version - first_version + 1);
    found record;
BEGIN
    LOOP
        EXECUTE format('SELECT count(*) AS n, max(v) AS version FROM (SELECT DISTINCT _commit_version AS v FROM %s WHERE _commit_version BETWEEN $1 AND $2 ORDER BY 1 LIMIT $3) d', feed)
            INTO found USING first_version, first_version + span - 1, n;
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
    RETURN QUERY EXECUTE format('SELECT c.* FROM %s c WHERE c._commit_version BETWEEN $1 AND $2 ORDER BY c._commit_version, c._change_ordinal', relation)
        USING r.first_version, r.last_version;
END $$;
COMMENT ON FUNCTION scd2.read_changes(name, anyelement, bigint) IS
    'The changes that come after a reader, whole versions, in order; the reader stays where it is until advance_reader(), and is locked until the transaction ends. feed: NULL::<feed>; max_versions: at most so many versions '
    'with changes of the table, NULL: all. Errors: 42704 no such reader, 42501 not the owner of the source, 42804 another feed''s type, 22023 max_versions, 55000 the reader has expired, or versions were not recorded here.';

CREATE FUNCTION scd2.advance_reader(name name, version bigint DEFAULT NULL) RETURNS bigint
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
CREATE FUNCTION scd2_internal.advance_reader(caller oid, name name, version bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    r scd2_internal.reader := scd2_internal.lock_reader(caller, name);
    latest bigint;
BEGIN
    SELECT p.version INTO latest FROM scd2_internal.position p;
    version := coalesce(version, r.read_version, r.version);
    IF version < r.version THEN
        PERFORM scd2_internal.refuse('22023', format('reader "%s" is at version %s already', name, r.version),
            format('It was to advance to version %s; what it has passed may have been removed.', version));
    ELSIF version > latest THEN
        PERFORM scd2_internal.refuse('22023', format('version %s is yet to come', version), format('The latest version is %s.', latest));
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
        UPDATE scd2_internal.reader x SET expired_at = clock_timestamp() WHERE x.name = r.name;
        RAISE WARNING 'reader "%" of table "%" has expired: it was not read for more than %', r.name,
                (SELECT scd2_internal.label(f.source_relid) FROM scd2_internal.feed f WHERE f.feed_id = r.feed_id), current_setting('pg_scd2.reader_timeout')
            USING DETAIL = format('What came after version %s is no longer kept for it.', r.version);
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.expire_readers() IS
    'Readers that were not read for pg_scd2.reader_timeout no longer keep anything, with a WARNING for each.';
-- 38_feed_follows_source.sql: what the owner of a table decides about its rows holds for what is made from them.
--
-- Feeds, targets and memories are their owner's alone (own_alone()), until he grants. Policies of the source are not
-- evaluated on them: they speak of rows as they are, not as they were. So where the source has row level security,
-- the tables made from it have it too, without a policy: a grant alone shows nothing, and who shall read them needs a
-- policy on them. That follows when row level security comes to the source later. It stays when it goes there:
-- to open a table is its owner's decision.
--
-- While a dump is being restored its jobs must not wait for each other's locks here, and fail: then resume_capture()
-- makes up for it.
--
-- A new owner of the source gets feed and targets too: 51_follow_relations.sql.

CREATE FUNCTION scd2_internal.close_rows(relation oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (SELECT NOT c.relrowsecurity FROM pg_class c WHERE c.oid = relation) THEN
        PERFORM scd2_internal.lock_tables(ARRAY[relation], ARRAY['ACCESS EXCLUSIVE']);
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', relation::regclass);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.close_rows(oid) IS
    'Row level security for a table, if it has none. Errors: 55P03 a lock was not to be had.';

CREATE FUNCTION scd2_internal.close_rows_as(source oid, relation oid) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.close_rows(relation) FROM pg_class c WHERE c.oid = source AND c.relrowsecurity
$$;
COMMENT ON FUNCTION scd2_internal.close_rows_as(oid, oid) IS
    'Row level security for a table that is made from a source that has it.';

CREATE FUNCTION scd2_internal.made_from(source oid) RETURNS SETOF oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.oid FROM pg_class c
    WHERE c.oid IN (SELECT f.feed_relid FROM scd2_internal.feed f WHERE f.source_relid = source
                    UNION SELECT unnest(ARRAY[w.target_relid, w.memory_relid]) FROM scd2_internal.flow w WHERE w.source_relid = source)
    ORDER BY c.oid
$$;
COMMENT ON FUNCTION scd2_internal.made_from(oid) IS 'Feed, targets and memories that have rows of a table.';

CREATE FUNCTION scd2_internal.close_all_rows() RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.close_rows_as(s.oid, m)
    FROM (SELECT f.source_relid::oid AS oid FROM scd2_internal.feed f UNION SELECT w.source_relid::oid FROM scd2_internal.flow w) s,
         scd2_internal.made_from(s.oid) m
$$;
COMMENT ON FUNCTION scd2_internal.close_all_rows() IS
    'Row level security for all that is made from sources that have it. Errors: 55P03 a lock was not to be had.';

CREATE FUNCTION scd2_internal.on_row_security() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    closed oid;
BEGIN
    IF scd2_internal.awaits_resume() THEN
        RETURN;
    END IF;
    FOR closed IN
        SELECT DISTINCT m FROM pg_event_trigger_ddl_commands() d
            JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relrowsecurity,
            scd2_internal.made_from(c.oid) m JOIN pg_class t ON t.oid = m AND NOT t.relrowsecurity ORDER BY m
    LOOP
        PERFORM scd2_internal.close_rows(closed);
        RAISE WARNING 'table "%" has row level security now, as its source has', scd2_internal.label(closed)
            USING DETAIL = 'It has rows that the policies of the source may hide; its owner sees them all, others none.',
                  HINT = format('CREATE POLICY readers ON %s TO some_role USING (true); -- for who shall read it', closed::regclass);
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.on_row_security() IS
    'Row level security comes to what is made from a table when it comes to the table, with a WARNING. Errors: 55P03.';

CREATE EVENT TRIGGER scd2_on_row_security ON ddl_command_end WHEN TAG IN ('ALTER TABLE')
    EXECUTE FUNCTION scd2_internal.on_row_security();
ALTER EVENT TRIGGER scd2_on_row_security ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER scd2_on_row_security IS 'Row level security of captured tables';
-- 38_resync.sql: repairing a feed that has a gap (the worker's part: src/flow/resync.c).
--
-- What was missed cannot be read any more, but what came of it can be seen: a flow's target still shows the source as it
-- was before the gap. scd2.resync() leaves a control record; at its place, version R, the feed is captured again.
-- A worker then compares the target with the source as it was at R (table_at: the rows that a snapshot sees, with
-- what was captured after R undone), writes the differences into the feed as the changes of version R, and closes the
-- gap, in one transaction. So nobody waits, nothing is held back meanwhile, and a crash begins the comparison anew.
-- The flows go on through version R as through any other: rows that are as they were are in no difference and are not
-- touched.
--
-- A rewrite of the table that gives its rows values which the log does not show (35_feed_columns.sql) is repaired in
-- the same way, without being asked, from the end of the transaction that did it, if there is a target to compare
-- with: capture begins that with the gap, and goes on following the table's columns, so nothing has to be caught up.
--
-- Which target: one that a flow keeps alone, without a filter, from the feed's rows as they are; the one with most
-- columns. Where no target shows a column, what it was before the gap is not known: then readers are still
-- refused to cross the gap, which ends before R, and flows that need such a column fail and say what can be done.
-- Without any such target nothing can be compared: the feed goes on behind the gap. Flows over event tables need no
-- comparison then: they read the events that are there once more, and those that they have are duplicates.

-- The columns that are compared: those that source and feed have.
CREATE FUNCTION scd2_internal.resync_columns(f scd2_internal.feed)
    RETURNS TABLE (ordinal bigint, name name, type text, attnum smallint)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT w.ordinal, w.name, format_type(a.atttypid, a.atttypmod), a.attnum
    FROM scd2_internal.feed_columns(f.source_relid, f.except_columns) w
         JOIN pg_attribute a ON a.attrelid = f.feed_relid AND a.attname = w.name AND a.attnum > 5 AND NOT a.attisdropped
    WHERE w.ordinal > 0
$$;
COMMENT ON FUNCTION scd2_internal.resync_columns(scd2_internal.feed) IS
    'The columns of a source that its feed has, with their types in the feed';

CREATE FUNCTION scd2_internal.column_behind(f scd2_internal.feed) RETURNS name
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(scd2_internal.columns_pending(f.feed_id),
        (SELECT w.name FROM scd2_internal.feed_columns(f.source_relid, f.except_columns) w
             LEFT JOIN pg_attribute a ON a.attrelid = f.feed_relid AND a.attname = w.name AND a.attnum > 5 AND NOT a.attisdropped
         WHERE w.ordinal > 0 AND NOT coalesce(scd2_internal.takes_type(a.atttypid, a.atttypmod, w.type, w.typmod), false)
         ORDER BY w.ordinal LIMIT 1))
$$;
COMMENT ON FUNCTION scd2_internal.column_behind(scd2_internal.feed) IS
    'A column of a source that its feed has not followed yet; NULL: none';

CREATE FUNCTION scd2_internal.resync_obstacle(f scd2_internal.feed) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE
        WHEN NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = f.source_relid) THEN 'it was dropped'
        WHEN NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = f.feed_relid) THEN 'its feed was dropped'
        WHEN EXISTS (SELECT FROM scd2_internal.feed_columns(f.source_relid, f.except_columns) w GROUP BY w.name HAVING count(*) > 1)
            THEN 'a column of it has the name of a metadata column' END
$$;
COMMENT ON FUNCTION scd2_internal.resync_obstacle(scd2_internal.feed) IS
    'Why a table and its feed can never be compared; NULL: they can.';

-- Whether there is something to repair; a NOTICE if not.
CREATE FUNCTION scd2_internal.needs_resync(f scd2_internal.feed) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s scd2_internal.feed_state;
BEGIN
    SELECT x.* INTO s FROM scd2_internal.feed_state x WHERE x.feed_id = f.feed_id;
    IF s.resync_version IS NOT NULL
       OR EXISTS (SELECT FROM scd2_internal.control c WHERE c.kind IN ('resync', 'rewrite') AND c.feed_id = f.feed_id AND NOT c.settled) THEN
        RAISE NOTICE 'the change data feed of table "%" is being repaired already', scd2_internal.label(f.source_relid);
        RETURN false;
    ELSIF s.broken_at IS NULL THEN
        RAISE NOTICE 'the change data feed of table "%" has no gap that is open: nothing to repair', scd2_internal.label(f.source_relid);
        RETURN false;
    END IF;
    RETURN true;
END $$;
COMMENT ON FUNCTION scd2_internal.needs_resync(scd2_internal.feed) IS 'Whether a feed has a gap that nobody repairs yet; a NOTICE if not';

CREATE FUNCTION scd2.resync(source regclass) RETURNS void AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
CREATE FUNCTION scd2_internal.resync(caller oid, source regclass) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed;
BEGIN
    PERFORM scd2_internal.check_owner(caller, source);
    f := scd2_internal.require_feed_of(source);
    -- A statement that warned of a gap may not be captured yet.
    IF pg_current_xact_id_if_assigned() IS NULL AND (SELECT s.broken_at IS NULL FROM scd2_internal.feed_state s WHERE s.feed_id = f.feed_id) THEN
        PERFORM scd2._wait_captured('1 min');
    END IF;
    IF NOT scd2_internal.needs_resync(f) THEN
        RETURN;
    END IF;
    IF scd2_internal.resync_obstacle(f) IS NOT NULL THEN
        PERFORM scd2_internal.refuse('55000',
            format('table "%s" cannot be compared with what its feed has: %s', scd2_internal.label(source), scd2_internal.resync_obstacle(f)),
            'The feed can only begin anew.', scd2_internal.repair_statement(f));
    ELSIF EXISTS (SELECT FROM scd2_internal.leaves(source) l JOIN pg_class c ON c.oid = l WHERE c.relpersistence = 'u') THEN
        PERFORM scd2_internal.refuse('55000',
            format('table "%s" is unlogged: its changes leave no trace in the log', scd2_internal.label(source)), NULL,
            format('ALTER TABLE %s SET LOGGED; SELECT scd2.resync(%L);', source, source));
    END IF;
    PERFORM scd2_internal.require_capture();
    PERFORM scd2_internal.lock_source(source, true);
    IF NOT scd2_internal.needs_resync(f) THEN           -- somebody was quicker
        RETURN;
    END IF;
    PERFORM scd2_internal.set_full_identity(f.feed_id, l) FROM scd2_internal.leaves(source) l;
    INSERT INTO scd2_internal.control (kind, feed_id, source_relid, feed_relid) VALUES ('resync', f.feed_id, f.source_relid, f.feed_relid);
END $$;
COMMENT ON FUNCTION scd2.resync(regclass) IS
    'Repairs a table''s change data feed that has a gap: from the caller''s commit on changes are captured again; right '
    'after it a worker compares the table with what a target had of it before the gap, writes the differences into the '
    'feed as one version, marked as reconstructed, and lets the flows go on (scd2.sync() waits for it). A NOTICE if there '
    'is nothing to repair. source: a table that you own. Waits until all changes are captured if no gap is known. Errors: 42501 not the owner, '
    '55000 no feed, no worker that captures, or it can only begin anew, 57014 no capture for a minute, 55P03 the table could not be locked for a moment.';
COMMENT ON FUNCTION scd2_internal.resync(oid, regclass) IS 'Privileged twin of scd2.resync.';

-- Flows whose targets show their source as it is, one target each.
CREATE FUNCTION scd2_internal.resync_candidates(f scd2_internal.feed)
    RETURNS TABLE (flow scd2_internal.flow, state scd2_internal.flow_state, known bigint)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT w, s, (SELECT count(*) FROM scd2_internal.resync_columns(f) c WHERE c.name = ANY (w.columns)) AS known
    FROM scd2_internal.flow w JOIN scd2_internal.flow_state s USING (flow_id) JOIN pg_class t ON t.oid = w.target_relid
         JOIN pg_class fc ON fc.oid = f.feed_relid
    WHERE w.feed_id = f.feed_id AND w.input IN ('net', 'changes') AND w.source_filter IS NULL AND NOT w.once AND w.ignores_null = '{}'
      AND (w.input = 'net' OR w.sequence_by IS NOT NULL AND w.apply_as_truncates IS DISTINCT FROM 'false')
      AND NOT EXISTS (SELECT FROM scd2_internal.flow o WHERE o.target_relid = w.target_relid AND o.flow_id <> w.flow_id)
      AND coalesce(s.failed_phase, s.phase) = 'apply'
      -- of these the target lacks something that the feed has
      AND NOT EXISTS (SELECT FROM scd2_internal.skipped_version k WHERE k.flow_id = w.flow_id) AND s.rejected = 0 AND s.too_late = 0
      AND (t.relowner = fc.relowner OR has_table_privilege(fc.relowner, t.oid, 'SELECT'))
    ORDER BY known DESC, w.input = 'net' DESC, w.flow_id
$$;
COMMENT ON FUNCTION scd2_internal.resync_candidates(scd2_internal.feed) IS
    'Flows over a feed whose targets show the source as of their watermarks, and how many of its columns; the best first';

-- Nobody waits for this repair and sees what became of it: so it needs a flow that runs. (One that is paused, or has
-- failed, may stand before the gap when it is asked for.) A flow that has not made its copy begins behind the repair.
CREATE FUNCTION scd2_internal.is_comparable(f scd2_internal.feed) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM scd2_internal.resync_candidates(f) c WHERE (c.state).phase = 'apply' AND NOT (c.flow).paused)
        OR EXISTS (SELECT FROM scd2_internal.flow w LEFT JOIN scd2_internal.flow_state s USING (flow_id)
                   WHERE w.feed_id = f.feed_id AND (s.flow_id IS NULL OR s.phase = 'copy' AND NOT s.rereads))
$$;
COMMENT ON FUNCTION scd2_internal.is_comparable(scd2_internal.feed) IS
    'Whether a repair of a feed that nobody asked for brings its flows on';

-- Called by capture, with the gap in the same transaction.
CREATE FUNCTION scd2_internal.begin_repair(id integer, version bigint, at timestamptz) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE scd2_internal.feed_state s SET state = 'running', resync_version = version, resync_timestamp = at,
        resync_failures = 0, resync_retry_at = NULL
        WHERE s.feed_id = id AND s.state = 'failed' AND s.broken_at IS NOT NULL
          AND (SELECT scd2_internal.is_comparable(f) FROM scd2_internal.feed f WHERE f.feed_id = id);
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION scd2_internal.begin_repair(integer, bigint, timestamptz) IS
    'Has a feed that got a gap by a rewrite be repaired from this version on; false: there is nothing to compare with';

-- Has the flow all that was captured before the gap?
CREATE FUNCTION scd2_internal.stands_before_gap(f scd2_internal.feed, state scd2_internal.flow_state, broken_at bigint) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT state.watermark_version >= broken_at - 1
        OR scd2_internal.as_owner(f.feed_relid, format('SELECT 1 FROM %s WHERE _commit_version > %s AND _commit_version < $1 LIMIT 1',
            f.feed_relid::regclass, state.watermark_version), broken_at) IS NULL
$$;
COMMENT ON FUNCTION scd2_internal.stands_before_gap(scd2_internal.feed, scd2_internal.flow_state, bigint) IS
    'Whether a flow has applied everything that its feed has before a gap';

-- Equality of keys: the image of a type that is not the server's own does it as well, and needs no operator's name.
CREATE FUNCTION scd2_internal.resync_condition(keys name[], target oid) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(format(CASE WHEN t.typnamespace = 'pg_catalog'::regnamespace OR t.typtype = 'e' THEN 'k.%1$I = n.%1$I'
        ELSE 'ROW(k.%1$I)::text COLLATE "C" = ROW(n.%1$I)::text COLLATE "C"' END, a.attname), ' AND ')
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = target AND a.attname = ANY (keys)
$$;
COMMENT ON FUNCTION scd2_internal.resync_condition(name[], oid) IS 'The condition under which a row of a target and one of its source are of one key';

-- What the target has in columns that were the source's until their type changed; the source has nothing there.
CREATE FUNCTION scd2_internal.former_columns(f scd2_internal.feed, w scd2_internal.flow)
    RETURNS TABLE (ordinal bigint, name name, type text, attnum smallint)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT 10000::bigint + c.attnum, c.name, c.type, c.attnum
    FROM scd2_internal.followed_columns(f.feed_id) c
    WHERE c.until IS NOT NULL AND c.name = ANY (w.columns) AND c.name <> ALL (w.absent)
$$;
COMMENT ON FUNCTION scd2_internal.former_columns(scd2_internal.feed, scd2_internal.flow) IS
    'Columns of a feed that a target has too, and that are kept of ones whose type changed';

-- Columns that the target lacks are taken to be as they are.
CREATE FUNCTION scd2_internal.resync_statement(f scd2_internal.feed, w scd2_internal.flow, s scd2_internal.feed_state) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH c AS (
        SELECT r.*, r.name = ANY (w.columns) AS known, false AS former FROM scd2_internal.resync_columns(f) r
        UNION ALL SELECT r.*, true, true FROM scd2_internal.former_columns(f, w) r),
    t AS (
        SELECT string_agg(format('%I', c.name), ', ' ORDER BY c.ordinal) AS names,
               string_agg(format(CASE WHEN c.former THEN 'NULL::%2$s AS %1$I' ELSE 'n.%1$I::%2$s AS %1$I' END, c.name, c.type), ', ' ORDER BY c.ordinal) AS now,
               string_agg(format('k.%1$I::%2$s AS %1$I', c.name, c.type), ', ' ORDER BY c.ordinal) FILTER (WHERE c.known) AS then_known,
               string_agg(format('n.%I', c.name), ', ' ORDER BY c.ordinal) AS new_image,
               string_agg(CASE WHEN c.known THEN format('k.%I', c.name) ELSE format('n.%I', c.name) END, ', ' ORDER BY c.ordinal) AS old_image,
               string_agg(format('k.%I', c.name), ', ' ORDER BY c.ordinal) FILTER (WHERE c.known) AS known_old,
               string_agg(format('n.%I', c.name), ', ' ORDER BY c.ordinal) FILTER (WHERE c.known) AS known_new,
               (SELECT quote_ident(k) FROM unnest(w.keys) k LIMIT 1) AS one_key
        FROM c)
    SELECT format($query$
        INSERT INTO %1$s (_change_type, _commit_version, _commit_timestamp, _change_ordinal, _xid, %2$s)
        SELECT d._change_type, %3$s, %4$L::timestamptz, (row_number() OVER ())::integer, pg_current_xact_id(), %2$s
        FROM (SELECT v.* FROM (SELECT %5$s FROM ONLY %6$s k %7$s) k
              FULL JOIN (SELECT %8$s FROM scd2.table_at(NULL::%9$s, %3$s) n) n ON %10$s
              CROSS JOIN LATERAL (
                  SELECT CASE WHEN n.%11$s IS NULL THEN 'delete' ELSE 'update_preimage' END AS _change_type, %12$s WHERE k.%11$s IS NOT NULL
                  UNION ALL
                  SELECT CASE WHEN k.%11$s IS NULL THEN 'insert' ELSE 'update_postimage' END, %13$s WHERE n.%11$s IS NOT NULL) v
              WHERE k.%11$s IS NULL OR n.%11$s IS NULL OR record_image_ne(ROW(%14$s), ROW(%15$s))) d $query$,
        f.feed_relid::regclass, t.names, s.resync_version, s.resync_timestamp, t.then_known, w.target_relid::regclass,
        CASE w.scd_type WHEN 2 THEN format('WHERE k.%I IS NULL', w.end_column) ELSE '' END,
        t.now, f.source_relid::regclass, scd2_internal.resync_condition(w.keys, w.target_relid), t.one_key,
        t.old_image, t.new_image, t.known_old, t.known_new)
    FROM t
$$;
COMMENT ON FUNCTION scd2_internal.resync_statement(scd2_internal.feed, scd2_internal.flow, scd2_internal.feed_state) IS
    'The statement that writes the differences between a target and the source as the changes of the version of the repair';

-- A flow that goes through the repair and only then gets a column of the feed would never have what it was told there.
CREATE FUNCTION scd2_internal.columns_to_follow(w scd2_internal.flow) RETURNS name[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(c.name), '{}') FROM scd2_internal.followed_columns(w.feed_id) c
    WHERE NOT c.dropped AND c.attnum <> ALL (w.known_attnums) AND scd2_internal.takes_column(w, c.name)
$$;
COMMENT ON FUNCTION scd2_internal.columns_to_follow(scd2_internal.flow) IS
    'Columns that came to a flow''s feed and will come to its target before its next batch';

CREATE FUNCTION scd2_internal.flows_will_follow(id integer) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM scd2_internal.flow w JOIN scd2_internal.flow_state s USING (flow_id)
                       LEFT JOIN scd2_internal.feed_layout l ON l.feed_id = w.feed_id
                   WHERE w.feed_id = id AND s.phase = 'apply' AND NOT w.paused
                     AND w.known_changes IS DISTINCT FROM coalesce(l.changes, 0))
$$;
COMMENT ON FUNCTION scd2_internal.flows_will_follow(integer) IS
    'Whether flows over a feed are about to follow columns that changed';

-- What a worker does next about a feed that is being repaired. "wait": not yet; "remove" takes what capture wrote of
-- the gap's versions, "statement" (NULL: nothing can be compared) writes the differences.
CREATE FUNCTION scd2_internal.resync_plan(id integer, OUT wait boolean, OUT owner oid, OUT remove text, OUT statement text,
    OUT whole boolean, OUT known name[], OUT truncated bigint)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed;
    s scd2_internal.feed_state;
    chosen record;
    behind name;
BEGIN
    SELECT x.* INTO f FROM scd2_internal.feed x WHERE x.feed_id = id;
    SELECT x.* INTO s FROM scd2_internal.feed_state x WHERE x.feed_id = id;
    wait := true;
    IF f.feed_id IS NULL OR f.disabled OR s.resync_version IS NULL THEN
        RETURN;
    END IF;
    behind := scd2_internal.column_behind(f);
    IF behind IS NOT NULL THEN              -- capture has not followed the source's columns yet
        IF clock_timestamp() > s.resync_timestamp + interval '1 minute'
           AND NOT EXISTS (SELECT FROM scd2_internal.control c WHERE c.feed_id = id AND NOT c.settled) THEN
            PERFORM scd2_internal.refuse('55000', format('column "%s" of table "%s" is not in its feed as it is', behind, scd2_internal.label(f.source_relid)));
        END IF;
        RETURN;
    ELSIF scd2_internal.flows_will_follow(id) THEN
        RETURN;
    END IF;
    FOR chosen IN SELECT c.* FROM scd2_internal.resync_candidates(f) c WHERE NOT scd2_internal.has_retyped((c.flow)) LOOP
        IF scd2_internal.stands_before_gap(f, chosen.state, s.broken_at) THEN
            EXIT;
        ELSIF (chosen.state).phase = 'apply' AND NOT (chosen.flow).paused AND (chosen.state).failures = 0 THEN
            RETURN;         -- it will soon
        END IF;
        chosen := NULL;
    END LOOP;
    wait := false;
    owner := (SELECT c.relowner FROM pg_class c WHERE c.oid = f.feed_relid);
    remove := format('DELETE FROM %s WHERE _commit_version >= %s AND _commit_version <= %s', f.feed_relid::regclass, s.broken_at, s.resync_version);
    truncated := scd2_internal.as_owner(f.feed_relid,
        format('SELECT max(_commit_version) FROM %s WHERE _commit_version > $1 AND _change_type = ''truncate''', f.feed_relid::regclass),
        s.resync_version);
    whole := false;
    IF chosen.flow IS NULL OR truncated IS NOT NULL THEN
        RETURN;
    END IF;
    known := (chosen.flow).columns;
    whole := NOT EXISTS (SELECT FROM scd2_internal.resync_columns(f) c WHERE c.name <> ALL (known));
    statement := scd2_internal.resync_statement(f, chosen.flow, s);
    -- Within this transaction, so that the source can be seen as of the repair.
    UPDATE scd2_internal.feed_state x SET gap = int8range(lower(x.gap), x.resync_version) WHERE x.feed_id = id;
END $$;
COMMENT ON FUNCTION scd2_internal.resync_plan(integer) IS 'Part of the repair of a feed, in a worker: what is to be done now';

-- Flows that could not get what they missed.
CREATE FUNCTION scd2_internal.fail_unserved(f scd2_internal.feed, s scd2_internal.feed_state, known name[]) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE scd2_internal.flow_state x
    SET phase = 'failed', failed_phase = 'apply', watermark_version = s.resync_version, watermark_timestamp = s.resync_timestamp,
        last_error = format('55000: the changes of versions %s to %s are missing, and no target shows what they were. '
            'Remedy: SELECT scd2.full_refresh(%L, allow_loss => true); -- or go on without them: SELECT scd2.resume_flow(%L);',
            x.watermark_version + 1, s.resync_version, w.target_relid::regclass, w.name),
        last_error_at = clock_timestamp()
    FROM scd2_internal.flow w
    WHERE w.flow_id = x.flow_id AND w.feed_id = f.feed_id AND x.phase <> 'done' AND coalesce(x.failed_phase, x.phase) = 'apply'
      AND w.input <> 'events'
      AND NOT CASE w.input WHEN 'net' THEN w.source_filter IS NULL AND w.columns || scd2_internal.columns_to_follow(w) <@ coalesce(known, '{}')
                           WHEN 'changes' THEN false
                           ELSE known IS NOT NULL END       -- rows that came are known by their keys alone
      AND NOT scd2_internal.has_retyped_key(w)      -- which will never get on, and says why
$$;
COMMENT ON FUNCTION scd2_internal.fail_unserved(scd2_internal.feed, scd2_internal.feed_state, name[]) IS
    'Has the flows fail that need more of a repaired feed than the columns that were known, with the remedy';

-- The differences are written. A flow that had not made its copy begins behind the gap.
CREATE FUNCTION scd2_internal.resync_done(id integer, whole boolean, known name[], truncated bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed;
    s scd2_internal.feed_state;
BEGIN
    SELECT x.* INTO f FROM scd2_internal.feed x WHERE x.feed_id = id;
    SELECT x.* INTO s FROM scd2_internal.feed_state x WHERE x.feed_id = id;
    IF NOT whole AND truncated IS NULL THEN
        PERFORM scd2_internal.fail_unserved(f, s, known);
    END IF;
    UPDATE scd2_internal.flow_state x
    SET begin_version = s.resync_version, begin_timestamp = s.resync_timestamp, watermark_version = s.resync_version, watermark_timestamp = s.resync_timestamp,
        phase = 'copy', failed_phase = NULL, failures = 0, retry_at = NULL
    FROM scd2_internal.flow w
    WHERE w.flow_id = x.flow_id AND w.feed_id = id AND coalesce(x.failed_phase, x.phase) = 'copy' AND x.begin_version < s.resync_version;
    IF known IS NULL AND truncated IS NULL THEN
        UPDATE scd2_internal.flow_state x SET phase = 'copy', rereads = true, failed_phase = NULL, failures = 0, retry_at = NULL
        FROM scd2_internal.flow w
        WHERE w.flow_id = x.flow_id AND w.feed_id = id AND w.input = 'events' AND coalesce(x.failed_phase, x.phase) = 'apply';
    END IF;
    INSERT INTO scd2_internal.reconstruction (feed_id, version, commit_time, xid, gap, whole)
    SELECT id, s.resync_version, s.resync_timestamp, pg_current_xact_id(), int8range(s.broken_at, s.resync_version), resync_done.whole
    WHERE known IS NOT NULL;
    UPDATE scd2_internal.feed_state x
    SET gap = CASE WHEN NOT resync_done.whole THEN int8range(lower(x.gap), coalesce(truncated, x.resync_version))
                   WHEN lower(x.gap) < x.broken_at THEN int8range(lower(x.gap), x.broken_at) END,
        broken_at = NULL, repaired_version = x.resync_version, resync_version = NULL, catches_up = false, resync_failures = 0, resync_retry_at = NULL,
        error = NULL, error_at = NULL
    WHERE x.feed_id = id;
END $$;
COMMENT ON FUNCTION scd2_internal.resync_done(integer, boolean, name[], bigint) IS 'Part of the repair of a feed, in a worker: closes the gap and lets the flows go on';

CREATE FUNCTION scd2_internal.resync_failed(id integer, why text, counts boolean) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE scd2_internal.feed_state x
    SET resync_failures = x.resync_failures + CASE WHEN counts THEN 1 ELSE 0 END,
        resync_retry_at = clock_timestamp() + make_interval(secs => least(60, 2 ^ least(x.resync_failures, 6))),
        state = CASE WHEN counts AND x.resync_failures >= 4 THEN 'failed' ELSE x.state END,
        resync_version = CASE WHEN counts AND x.resync_failures >= 4 THEN NULL ELSE x.resync_version END,
        error = format('it could not be repaired: %s', why), error_at = clock_timestamp()
    WHERE x.feed_id = id AND x.resync_version IS NOT NULL
$$;
COMMENT ON FUNCTION scd2_internal.resync_failed(integer, text, boolean) IS
    'Part of the repair of a feed, in a worker: records an error and when to try again; gives up after five that count';

CREATE FUNCTION scd2._reconstructions(relation regclass) RETURNS TABLE (version bigint, "timestamp" timestamptz, xid xid8, gap int8range)
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STABLE;
CREATE FUNCTION scd2_internal._reconstructions(caller oid, relation regclass)
    RETURNS TABLE (version bigint, "timestamp" timestamptz, xid xid8, gap int8range)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
    f scd2_internal.feed := scd2_internal.readable_feed(caller, relation);
BEGIN
    RETURN QUERY SELECT r.version, r.commit_time, r.xid, r.gap FROM scd2_internal.reconstruction r WHERE r.feed_id = f.feed_id;
END $$;
COMMENT ON FUNCTION scd2._reconstructions(regclass) IS
    'Part of describe_history and table_at: the versions of a feed that repairs brought. Errors: 55000 no feed, 42501 no right to read it.';
-- 40_flow_check.sql: what is checked when a flow is created, never left to the first batch.

-- "name" clipped so that it fits with "_label" behind it, as PostgreSQL clips the names of indexes.
CREATE FUNCTION scd2_internal.object_name(name text, label text) RETURNS name
    AS 'MODULE_PATHNAME', 'scd2_object_name' LANGUAGE C IMMUTABLE STRICT;
COMMENT ON FUNCTION scd2_internal.object_name(text, text) IS 'name_label, the name clipped to what fits, as makeObjectName';

-- A relation's name as the caller of a public function means it: along his search_path, which is not the one that
-- twins run with.
CREATE FUNCTION scd2_internal.caller_relation(name text, OUT schema name, OUT relation name, OUT relid oid)
    AS 'MODULE_PATHNAME', 'scd2_caller_relation' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.caller_relation(text) IS
    'Resolves a relation name along the search_path of the caller of the public function; relid is NULL if there is none, then schema is where it would be created. 42P01/3F000 if no schema fits';

-- Raises unless "expression" over the columns of "relation" parses, is of (or assignable to) type "wanted", has no
-- aggregate, window function, subquery or set and is not volatile.
CREATE FUNCTION scd2_internal.check_expression(expression text, relation oid, wanted oid, argument text) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_check_expression' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.check_expression(text, oid, oid, text) IS 'Raises what is wrong with an expression that was given as "argument"';

-- The same for an expression of any type that has an order: its type (of a domain, the base type), collation (0:
-- none), and the columns that it uses.
CREATE FUNCTION scd2_internal.sequence_expression(expression text, relation oid, argument text, OUT type oid, OUT collation oid, OUT column_names name[])
    AS 'MODULE_PATHNAME', 'scd2_sequence_expression' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.sequence_expression(text, oid, text) IS 'Raises what is wrong with an expression that orders; tells its type and the columns it uses';

-- Raises unless an expression that has passed check_expression() gives the same answer at all times.
CREATE FUNCTION scd2_internal.check_immutable(expression text, relation oid, argument text) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_check_immutable' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.check_immutable(text, oid, text) IS 'Raises 22023 if an expression depends on more than the columns that it uses';

-- The columns that an expression uses that has passed check_expression().
CREATE FUNCTION scd2_internal.expression_columns(expression text, relation oid, argument text) RETURNS name[]
    AS 'MODULE_PATHNAME', 'scd2_expression_columns' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.expression_columns(text, oid, text) IS 'Columns of the relation that an expression uses';

-- The fields of struct(a, b) or named_struct('x', a, 'y', b); NULLs for other expressions.
CREATE FUNCTION scd2_internal.struct_fields(expression text, OUT names name[], OUT expressions text[])
    AS 'MODULE_PATHNAME', 'scd2_struct_fields' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.struct_fields(text) IS 'Names and expressions of the fields of a struct, NULLs if the expression is none';

CREATE FUNCTION scd2_internal.check_column_list(list name[], allowed name[], argument text, relation text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bad name;
BEGIN
    SELECT c INTO bad FROM unnest(list) AS c WHERE c IS NULL;
    IF FOUND THEN
        RAISE null_value_not_allowed USING MESSAGE = format('%s contains a NULL', argument);
    END IF;
    SELECT c INTO bad FROM unnest(list) AS c WHERE c <> ALL (allowed) LIMIT 1;
    IF FOUND THEN
        RAISE undefined_column USING MESSAGE = format('column "%s" in %s is not a column of "%s"', bad, argument, relation),
            HINT = format('Columns to choose from: %s.', array_to_string(allowed, ', '));
    END IF;
    SELECT c INTO bad FROM unnest(list) AS c GROUP BY c HAVING count(*) > 1 LIMIT 1;
    IF FOUND THEN
        RAISE duplicate_column USING MESSAGE = format('column "%s" occurs more than once in %s', bad, argument);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_column_list(name[], name[], text, text) IS 'Raises 42703, 42701 or 22004 unless the list holds names of "allowed", each once';

-- The list of a pair (…_list, …_except_list) that was given, applied to "allowed", in the order of "allowed".
CREATE FUNCTION scd2_internal.choose_columns(list name[], except_list name[], allowed name[], argument text, except_argument text, relation text) RETURNS name[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF list IS NOT NULL AND except_list IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = format('%s and %s exclude each other', argument, except_argument);
    END IF;
    PERFORM scd2_internal.check_column_list(list, allowed, argument, relation);
    PERFORM scd2_internal.check_column_list(except_list, allowed, except_argument, relation);
    RETURN coalesce((SELECT array_agg(c ORDER BY n) FROM unnest(allowed) WITH ORDINALITY AS a (c, n)
                     WHERE (list IS NULL OR c = ANY (list)) AND (except_list IS NULL OR c <> ALL (except_list))), '{}');
END $$;
COMMENT ON FUNCTION scd2_internal.choose_columns(name[], name[], name[], text, text, text) IS 'Applies a column list or its opposite';

-- Flows need keys that identify a row at every moment: a unique index that is whole, over columns that are not null
-- and among the keys.
CREATE FUNCTION scd2_internal.check_keys_guarded(source oid, keys name[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM pg_index AS i
        WHERE i.indrelid = source AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
          AND NOT EXISTS (SELECT FROM unnest(i.indkey[0:i.indnkeyatts - 1]) AS k
                          JOIN pg_attribute AS a ON a.attrelid = source AND a.attnum = k
                          WHERE a.attname <> ALL (keys) OR NOT a.attnotnull);
    IF NOT FOUND THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('keys (%s) of "%s" are not unique and not null', array_to_string(keys, ', '), source::regclass),
            DETAIL = 'A flow needs keys that a unique index guards, one that is not partial, over columns that are NOT NULL.',
            HINT = format('ALTER TABLE %s ADD PRIMARY KEY (%s);', source::regclass,
                          (SELECT string_agg(quote_ident(k), ', ') FROM unnest(keys) AS k));
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_keys_guarded(oid, name[]) IS 'Raises 55000 unless a unique, not null, whole index guards the keys';

-- Targets can be sources of flows; a circle would never come to rest.
CREATE FUNCTION scd2_internal.check_no_cycle(source oid, target oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF source = target OR EXISTS (
        WITH RECURSIVE downstream AS (
            SELECT target AS relid
            UNION
            SELECT f.target_relid FROM scd2_internal.flow AS f JOIN downstream AS d ON f.source_relid = d.relid)
        SELECT FROM downstream WHERE relid = source)
    THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('target "%s" would be made from itself', target::regclass),
            DETAIL = format('"%s" is the target, or is kept from it by other flows.', source::regclass);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_no_cycle(oid, oid) IS 'Raises 55000 if a flow from source into target closed a circle';

CREATE FUNCTION scd2_internal.check_member(caller oid, role oid, what text, relation text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT pg_has_role(caller, role, 'USAGE') THEN
        RAISE insufficient_privilege USING MESSAGE = format('must be owner of %s "%s"', what, relation);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_member(oid, oid, text, text) IS 'Raises 42501 unless the caller has the rights of the owner';
-- 41_flow_target.sql: the tables that flows keep.
--
-- A target is an ordinary table of the user's. What makes it a target: its shape (selected columns, then the
-- interval, primary key (keys, start)), a guard trigger that keeps others from writing, and <target>_as_of().

-- The columns a target must have, in order: the selected ones as in the source, then those of the flow. A domain
-- becomes its base type, as in the feed: old versions must stay what they are when the domain becomes stricter.
CREATE FUNCTION scd2_internal.target_columns(source oid, columns name[], keys name[], scd_type integer, sequence_type text, sequence_collation oid,
                                             start_column name, end_column name, current_column name,
                                             OUT ordinal bigint, OUT name name, OUT type text, OUT collation oid, OUT not_null boolean)
    RETURNS SETOF record
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.n, a.attname, format_type(b.base, b.base_typmod), a.attcollation, a.attname = ANY (keys)
    FROM unnest(columns) WITH ORDINALITY AS c (name, n) JOIN pg_attribute AS a ON a.attrelid = source AND a.attname = c.name
        CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) AS b
    UNION ALL
    SELECT cardinality(columns) + i.n, i.name, i.type, i.coll, i.not_null
    FROM (VALUES (1, start_column, sequence_type, sequence_collation, true), (2, end_column, sequence_type, sequence_collation, false),
                 (3, current_column, 'boolean', 0::oid, true)) AS i (n, name, type, coll, not_null)
    WHERE scd_type = 2 AND i.name IS NOT NULL
    ORDER BY 1
$$;
COMMENT ON FUNCTION scd2_internal.target_columns(oid, name[], name[], integer, text, oid, name, name, name) IS 'The columns that a target of these properties has';

-- An operator of the default btree order of a type, qualified, as SQL: 1 <, 2 <=, 4 >=, 5 >.
CREATE FUNCTION scd2_internal.order_operator(type regtype, strategy integer) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT format('OPERATOR(%I.%s)', n.nspname, o.oprname)
                     FROM pg_opclass AS c
                     JOIN pg_am AS m ON m.oid = c.opcmethod AND m.amname = 'btree'
                     JOIN pg_amop AS a ON a.amopfamily = c.opcfamily AND a.amoplefttype = c.opcintype AND a.amoprighttype = c.opcintype AND a.amopstrategy = strategy
                     JOIN pg_operator AS o ON o.oid = a.amopopr JOIN pg_namespace AS n ON n.oid = o.oprnamespace
                     WHERE c.opcdefault AND c.opcintype = type),
                    format('OPERATOR(pg_catalog.%s)', (ARRAY['<', '<=', '=', '>=', '>'])[strategy]))
$$;
COMMENT ON FUNCTION scd2_internal.order_operator(regtype, integer) IS 'Operator of a btree strategy for a type, as qualified SQL';

-- Who a new target belongs to: its maker, but not a superuser who makes it for somebody else's table. The worker
-- reads source and feed as the target's owner, and the planner runs what the source's owner wrote (checks, index
-- predicates): that must never be as a superuser.
CREATE FUNCTION scd2_internal.target_owner(caller oid, source oid) RETURNS oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN me.rolsuper AND NOT o.rolsuper THEN o.oid ELSE me.oid END
    FROM pg_roles AS me, pg_class AS c JOIN pg_roles AS o ON o.oid = c.relowner WHERE me.oid = caller AND c.oid = source
$$;
COMMENT ON FUNCTION scd2_internal.target_owner(oid, oid) IS 'The role that a target made by the caller belongs to';

-- Beside a target stand its function, its memory and perhaps a type.
CREATE FUNCTION scd2_internal.check_may_create(caller oid, schema name) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT has_schema_privilege(caller, schema, 'CREATE') THEN
        RAISE insufficient_privilege USING MESSAGE = format('permission denied for schema %s', schema),
            HINT = format('GRANT CREATE ON SCHEMA %I TO %I;', schema, pg_get_userbyid(caller));
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_may_create(oid, name) IS 'Raises 42501 unless the caller may create objects in the schema';

-- How full the pages of a new target are written. Half of each stays free, so that most closes are HOT even where a
-- batch closes all open rows: measured 20 % faster than with full pages. Most rows of an event table that comes in any
-- order are closed from the start: with less space free all closes were HOT still, and the whole, in a table larger than
-- the buffers, took 15 % less (but half as much again where a batch closes all rows).
CREATE FUNCTION scd2_internal.target_fillfactor(scd_type integer, input text) RETURNS integer
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN scd_type = 1 THEN 80 WHEN input = 'events' THEN 70 ELSE 50 END
$$;
COMMENT ON FUNCTION scd2_internal.target_fillfactor(integer, text) IS 'The fillfactor of the table that is created for a flow';

-- CREATE TABLE for the target; it belongs to "owner", who must be allowed to create in its schema.
CREATE FUNCTION scd2_internal.create_target(caller oid, schema name, relation name, source oid, columns name[], keys name[], scd_type integer, input text,
                                            sequence_type text, sequence_collation oid, start_column name, end_column name, current_column name,
                                            open_row_index boolean) RETURNS oid
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET pg_scd2.enable_change_feed_on_create = off AS $$
DECLARE
    body   text;
    target oid;
BEGIN
    PERFORM scd2_internal.check_may_create(caller, schema);
    SELECT string_agg(format('%I %s%s%s', t.name, t.type,
                             CASE WHEN c.oid IS NOT NULL THEN format(' COLLATE %I.%I', n.nspname, c.collname) END,
                             CASE WHEN t.not_null THEN ' NOT NULL' END), ', ' ORDER BY t.ordinal)
        INTO body
        FROM scd2_internal.target_columns(source, columns, keys, scd_type, sequence_type, sequence_collation, start_column, end_column, current_column) AS t
        LEFT JOIN pg_collation AS c ON c.oid = t.collation
        LEFT JOIN pg_namespace AS n ON n.oid = c.collnamespace;
    IF scd_type = 2 THEN
        body := body || format(', CHECK (%I %s %I)', end_column, scd2_internal.order_operator(sequence_type::regtype, 5), start_column);
    END IF;
    EXECUTE format('CREATE TABLE %I.%I (%s, PRIMARY KEY (%s)) WITH (fillfactor = %s)', schema, relation, body,
                   (SELECT string_agg(quote_ident(k), ', ' ORDER BY n)
                    FROM unnest(CASE scd_type WHEN 2 THEN keys || start_column ELSE keys END) WITH ORDINALITY AS k (k, n)),
                   scd2_internal.target_fillfactor(scd_type, input));
    target := format('%I.%I', schema, relation)::regclass;
    PERFORM scd2_internal.own_alone(target, scd2_internal.target_owner(caller, source));
    PERFORM scd2_internal.close_rows_as(source, target);
    IF open_row_index THEN
        EXECUTE format('CREATE UNIQUE INDEX %I ON %s (%s) WHERE %I IS NULL', scd2_internal.object_name(relation, 'open_idx'), target::regclass,
                       (SELECT string_agg(quote_ident(k), ', ' ORDER BY n) FROM unnest(keys) WITH ORDINALITY AS k (k, n)), end_column);
    END IF;
    RETURN target;
END $$;
COMMENT ON FUNCTION scd2_internal.create_target(oid, name, name, oid, name[], name[], integer, text, text, oid, name, name, name, boolean) IS 'Creates the table of a flow for its owner';

-- Raises 42804 or 55000, saying what differs, unless the table can be a target as it is.
CREATE FUNCTION scd2_internal.check_can_be_target(caller oid, target oid, source oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    rel record;
BEGIN
    SELECT c.relkind, c.relpersistence, c.relowner, c.relispartition, c.relhassubclass INTO rel FROM pg_class AS c WHERE c.oid = target;
    PERFORM scd2_internal.check_member(caller, rel.relowner, 'table', target::regclass::text);
    PERFORM scd2_internal.check_may_create(caller, (SELECT n.nspname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = target));
    IF scd2_internal.target_owner(rel.relowner, source) <> rel.relowner THEN
        RAISE insufficient_privilege USING MESSAGE = format('"%s" belongs to a superuser, "%s" does not', target::regclass, source::regclass),
            DETAIL = 'The worker would read the source, and run what its owner wrote, as a superuser.',
            HINT = format('ALTER TABLE %s OWNER TO %I;', target::regclass, pg_get_userbyid(scd2_internal.target_owner(rel.relowner, source)));
    END IF;
    IF rel.relkind <> 'r' OR rel.relpersistence <> 'p' OR rel.relispartition OR rel.relhassubclass THEN
        RAISE wrong_object_type USING MESSAGE = format('"%s" cannot be a target', target::regclass),
            DETAIL = 'A target is an ordinary, permanent table without partitions or children.';
    END IF;
    IF EXISTS (SELECT FROM scd2_internal.feed AS f WHERE f.feed_relid = target) THEN
        RAISE wrong_object_type USING MESSAGE = format('"%s" cannot be a target', target::regclass), DETAIL = 'It is a change data feed.';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_can_be_target(oid, oid, oid) IS 'Raises why an existing relation cannot be the target of a flow over "source": 42501, 42809';

CREATE FUNCTION scd2_internal.check_columns_fit(target oid, source oid, columns name[], keys name[], scd_type integer,
                                                sequence_type text, sequence_collation oid, start_column name, end_column name, current_column name) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bad record;
BEGIN
    SELECT t.name, t.type, a.attname, format_type(b.base, b.base_typmod) AS is_type, a.attgenerated, t.collation <> a.attcollation AND t.collation <> 0 AS other_collation
        INTO bad
        FROM scd2_internal.target_columns(source, columns, keys, scd_type, sequence_type, sequence_collation, start_column, end_column, current_column) AS t
        LEFT JOIN pg_attribute AS a ON a.attrelid = target AND a.attname = t.name AND a.attnum > 0 AND NOT a.attisdropped
        LEFT JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) AS b ON true
        WHERE a.attname IS NULL OR format_type(b.base, b.base_typmod) <> t.type OR a.attgenerated <> '' OR a.attidentity <> ''
              OR (t.collation <> 0 AND t.collation <> a.attcollation)
        ORDER BY t.ordinal LIMIT 1;
    IF FOUND THEN
        RAISE datatype_mismatch USING MESSAGE = format('table "%s" does not fit as target', target::regclass),
            DETAIL = CASE WHEN bad.attname IS NULL THEN format('Column "%s" of type %s is missing.', bad.name, bad.type)
                          WHEN bad.is_type <> bad.type THEN format('Column "%s" is of type %s instead of %s.', bad.name, bad.is_type, bad.type)
                          WHEN bad.other_collation THEN format('Column "%s" has another collation than in "%s".', bad.name, source::regclass)
                          ELSE format('Column "%s" is generated or an identity column.', bad.name) END;
    END IF;
    SELECT a.attname INTO bad
        FROM pg_attribute AS a
        WHERE a.attrelid = target AND a.attnum > 0 AND NOT a.attisdropped AND a.attnotnull AND NOT a.atthasdef AND a.attidentity = ''
          AND NOT EXISTS (SELECT FROM scd2_internal.target_columns(source, columns, keys, scd_type, sequence_type, sequence_collation, start_column, end_column, current_column) AS t
                          WHERE t.name = a.attname)
        LIMIT 1;
    IF FOUND THEN
        RAISE datatype_mismatch USING MESSAGE = format('table "%s" does not fit as target', target::regclass),
            DETAIL = format('Column "%s" is NOT NULL, has no default, and the flow does not fill it.', bad.attname);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_columns_fit(oid, oid, name[], name[], integer, text, oid, name, name, name) IS 'Raises 42804 unless a table has the columns of a target, and fills its others by itself';

CREATE FUNCTION scd2_internal.check_target_fits(caller oid, target oid, source oid, columns name[], keys name[], scd_type integer,
                                                sequence_type text, sequence_collation oid, start_column name, end_column name, current_column name) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    expected name[] := CASE scd_type WHEN 2 THEN keys || start_column ELSE keys END;
    key_is   name[];
BEGIN
    PERFORM scd2_internal.check_can_be_target(caller, target, source);
    PERFORM scd2_internal.check_columns_fit(target, source, columns, keys, scd_type, sequence_type, sequence_collation, start_column, end_column, current_column);
    SELECT array_agg(a.attname ORDER BY k.n) INTO key_is
        FROM pg_index AS i
        CROSS JOIN unnest(i.indkey[0:i.indnkeyatts - 1]) WITH ORDINALITY AS k (attnum, n)
        JOIN pg_attribute AS a ON a.attrelid = target AND a.attnum = k.attnum
        WHERE i.indrelid = target AND i.indisprimary AND i.indimmediate;
    IF cardinality(keys) > 0 AND key_is IS DISTINCT FROM expected THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('table "%s" does not fit as target', target::regclass),
            DETAIL = format('Its primary key is (%s) instead of (%s), not deferrable.', coalesce(array_to_string(key_is, ', '), 'none'), array_to_string(expected, ', '));
    END IF;
    IF scd2_internal.has_rows(target) THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('table "%s" holds rows that no flow put there', target::regclass),
            HINT = format('TRUNCATE %s; -- or name another target, or seed a new one from these rows by a flow with once => true', target::regclass);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_target_fits(oid, oid, oid, name[], name[], integer, text, oid, name, name, name) IS 'Raises what keeps an existing table from being the target';

-- A sequence of several fields: the composite type <target>_sequence, and the expression that makes one. Fields
-- compare in their order.
CREATE FUNCTION scd2_internal.create_sequence_type(owner oid, schema name, target name, source oid, names name[], expressions text[]) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    type   text := format('%I.%I', schema, scd2_internal.object_name(target, 'sequence'));
    fields text;
BEGIN
    SELECT string_agg(format('%I %s%s', f.name, format_type(e.type, -1), CASE WHEN c.oid IS NOT NULL THEN format(' COLLATE %I.%I', n.nspname, c.collname) END), ', ' ORDER BY f.ordinality)
        INTO fields
        FROM ROWS FROM (unnest(names), unnest(expressions)) WITH ORDINALITY AS f (name, expression),
             LATERAL (SELECT s.* FROM scd2_internal.sequence_expression(f.expression, source, 'sequence_by') AS s) AS e
             LEFT JOIN pg_collation AS c ON c.oid = e.collation LEFT JOIN pg_namespace AS n ON n.oid = c.collnamespace;
    -- Else: of the flow that this one joins. (That of another target can have the name, if both were clipped: an error.)
    IF NOT EXISTS (SELECT FROM scd2_internal.flow AS f WHERE f.sequence_type = type AND f.target_relid = to_regclass(format('%I.%I', schema, target))) THEN
        EXECUTE format('CREATE TYPE %s AS (%s)', type, fields);
        EXECUTE format('ALTER TYPE %s OWNER TO %I', type, pg_get_userbyid(owner));
        EXECUTE format('COMMENT ON TYPE %s IS %L', type, format('pg_scd2: sequence of the rows of %I.%I', schema, target));
    END IF;
    RETURN format('ROW(%s)::%s', (SELECT string_agg(format('(%s%s)', e, E'\n'), ', ' ORDER BY n) FROM unnest(expressions) WITH ORDINALITY AS u (e, n)), type);
END $$;
COMMENT ON FUNCTION scd2_internal.create_sequence_type(oid, name, name, oid, name[], text[]) IS 'Creates <target>_sequence; returns the expression of that type';

CREATE FUNCTION scd2_internal.is_sequence_type(type text) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_type AS t WHERE t.oid = to_regtype(type) AND t.typtype = 'c' AND obj_description(t.oid, 'pg_type') LIKE 'pg\_scd2: sequence of %')
$$;
COMMENT ON FUNCTION scd2_internal.is_sequence_type(text) IS 'Whether a type is there and was made for a target: it goes with it';

CREATE FUNCTION scd2_internal.check_memory_columns(kept name[], target oid, memory name) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    clash name;
BEGIN
    SELECT c INTO clash FROM unnest(kept) AS c WHERE c IN ('_sequence', '_kind', '_version', '_ordinal', '_sequences') LIMIT 1;
    IF FOUND THEN
        RAISE duplicate_column USING MESSAGE = format('column "%s" cannot be a key or an untracked column of "%s"', clash, target::regclass),
            DETAIL = format('Table "%s" would have it twice: it keeps what the rows of the target do not show, and has a column of that name.', memory),
            HINT = 'Leave it out by except_column_list, or track it.';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_memory_columns(name[], oid, name) IS 'Raises 42701 if a column would have the name of one that every memory has';

-- What the rows of a target do not show of the events behind them (src/flow/recall.c). Of type 2: per key and
-- sequence, with the untracked values of the event before (where NULL says nothing, with all values as they were
-- sent); of type 1: per key its last event (and since when columns are as they are).
CREATE FUNCTION scd2_internal.create_memory(owner oid, target oid, layout oid, keys name[], kept name[], scd_type integer, sequence_type text, sequence_collation oid, ignores_null name[]) RETURNS oid
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET pg_scd2.enable_change_feed_on_create = off AS $$
DECLARE
    schema   name;
    relation name;
    memory   regclass;
    body     text;
    coll     text;
BEGIN
    SELECT n.nspname, scd2_internal.object_name(c.relname, 'memory') INTO schema, relation
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = target;
    PERFORM scd2_internal.check_memory_columns(keys || kept, target, relation);
    SELECT string_agg(format('%I %s%s%s', a.attname, format_type(b.base, b.base_typmod),
                             CASE WHEN c.oid IS NOT NULL THEN format(' COLLATE %I.%I', cn.nspname, c.collname) END,
                             CASE WHEN a.attname = ANY (keys) THEN ' NOT NULL' END), ', ' ORDER BY u.n)
        INTO body
        FROM unnest(keys || kept) WITH ORDINALITY AS u (name, n)
        JOIN pg_attribute AS a ON a.attrelid = layout AND a.attname = u.name
        CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) AS b       -- a domain may refuse NULL
        LEFT JOIN pg_collation AS c ON c.oid = a.attcollation LEFT JOIN pg_namespace AS cn ON cn.oid = c.collnamespace;
    coll := (SELECT format(' COLLATE %I.%I', n.nspname, c.collname) FROM pg_collation AS c JOIN pg_namespace AS n ON n.oid = c.collnamespace WHERE c.oid = sequence_collation);
    EXECUTE format('CREATE TABLE %I.%I (%s, _sequence %s%s NOT NULL, _kind "char" NOT NULL, _version bigint, _ordinal integer%s, PRIMARY KEY (%s%s))',
                   schema, relation, body, sequence_type, coll,
                   CASE WHEN scd_type = 1 AND ignores_null <> '{}' THEN format(', _sequences %s[]%s', sequence_type, coll) END,
                   (SELECT string_agg(quote_ident(k), ', ' ORDER BY n) FROM unnest(keys) WITH ORDINALITY AS k (k, n)), CASE scd_type WHEN 2 THEN ', _sequence' END);
    memory := format('%I.%I', schema, relation)::regclass;
    EXECUTE format('COMMENT ON TABLE %s IS %L', memory, format('pg_scd2: events of %s that its rows do not show', target::regclass));
    PERFORM scd2_internal.own_alone(memory, owner);
    PERFORM scd2_internal.close_rows_as(target, memory);
    PERFORM scd2_internal.put_guard(memory);
    RETURN memory;
END $$;
COMMENT ON FUNCTION scd2_internal.create_memory(oid, oid, oid, name[], name[], integer, text, oid, name[]) IS 'Creates <target>_memory';

-- No SET clause and one SELECT: the planner inlines it. Operators are qualified instead.
CREATE FUNCTION scd2_internal.as_of_body(target oid, sequence_type text, start_column name, end_column name) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('SELECT t.* FROM %I.%I AS t WHERE t.%I %s $1 AND (t.%I %s $1 OR t.%I IS NULL)', n.nspname, c.relname,
                  start_column, scd2_internal.order_operator(sequence_type::regtype, 2),
                  end_column, scd2_internal.order_operator(sequence_type::regtype, 5), end_column)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = target
$$;
COMMENT ON FUNCTION scd2_internal.as_of_body(oid, text, name, name) IS 'The query of <target>_as_of';

CREATE FUNCTION scd2_internal.define_as_of(target oid, as_of text, sequence_type text, start_column name, end_column name, again boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('CREATE%s FUNCTION %s(point %s) RETURNS SETOF %s LANGUAGE sql STABLE PARALLEL SAFE AS %L',
        CASE WHEN again THEN ' OR REPLACE' END, as_of, sequence_type, target::regclass,
        scd2_internal.as_of_body(target, sequence_type, start_column, end_column));
    EXECUTE format('COMMENT ON FUNCTION %s(%s) IS %L', as_of, sequence_type,
                   format('Rows of %s that were valid at a point %s', target::regclass, CASE WHEN sequence_type ~ '^(timestamp|date)' THEN 'in time' ELSE 'of its sequence' END));
END $$;
COMMENT ON FUNCTION scd2_internal.define_as_of(oid, text, text, name, name, boolean) IS 'Makes <target>_as_of; again: for what the target is called now';

-- Guard and as-of function of a target that is there.
CREATE FUNCTION scd2_internal.dress_target(target oid, scd_type integer, sequence_type text, start_column name, end_column name) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    schema   name;
    relation name;
    owner    name;
    as_of    text;
BEGIN
    SELECT n.nspname, c.relname, pg_get_userbyid(c.relowner) INTO schema, relation, owner
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = target;
    PERFORM scd2_internal.lock_tables(ARRAY[target], ARRAY['SHARE ROW EXCLUSIVE']);
    PERFORM scd2_internal.put_guard(target);
    IF scd_type = 2 THEN
        as_of := format('%I.%I', schema, scd2_internal.object_name(relation, 'as_of'));
        PERFORM scd2_internal.define_as_of(target, as_of, sequence_type, start_column, end_column, false);
        EXECUTE format('ALTER FUNCTION %s(%s) OWNER TO %I', as_of, sequence_type, owner);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.dress_target(oid, integer, text, name, name) IS 'Puts the guard on a target and creates <target>_as_of';

-- By what it returns, since both may have been renamed, and how it is described: not one of the user's.
CREATE FUNCTION scd2_internal.as_of_functions(target oid, sequence_type text) RETURNS SETOF pg_proc
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT p.* FROM pg_proc p JOIN pg_class c ON c.reltype = p.prorettype
    WHERE c.oid = target AND p.proretset AND p.proname LIKE '%\_as\_of' AND p.prosecdef IS FALSE
      AND p.proargtypes::text = to_regtype(sequence_type)::oid::text
      AND obj_description(p.oid, 'pg_proc') LIKE 'Rows of % that were valid at a point %'
$$;
COMMENT ON FUNCTION scd2_internal.as_of_functions(oid, text) IS 'The function <target>_as_of, under whatever name';

CREATE FUNCTION scd2_internal.undress_target(target oid, sequence_type text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    as_of regprocedure;
BEGIN
    IF EXISTS (SELECT FROM pg_class AS c WHERE c.oid = target) THEN
        PERFORM scd2_internal.lock_tables(ARRAY[target], ARRAY['ACCESS EXCLUSIVE']);
        IF EXISTS (SELECT FROM pg_trigger AS g WHERE g.tgrelid = target AND g.tgname = 'scd2_guard') THEN
            EXECUTE format('DROP TRIGGER scd2_guard ON %s', target::regclass);
        END IF;
        FOR as_of IN SELECT p.oid FROM scd2_internal.as_of_functions(target, sequence_type) p LOOP
            EXECUTE format('DROP FUNCTION %s', as_of);
        END LOOP;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.undress_target(oid, text) IS 'Makes a target an ordinary table again';
-- 42_flow_arguments.sql: what the arguments of a flow must be, and what follows from them.
--
-- Checked when the flow is declared, by name, never left to the first batch.

CREATE FUNCTION scd2_internal.check_not_repeated(once boolean, refresh_interval interval) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF once AND refresh_interval > '0' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'once and refresh_interval exclude each other',
            DETAIL = 'A flow that reads its source once has nothing to look at again.';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_not_repeated(boolean, interval) IS 'Raises 22023 if both are given';

CREATE FUNCTION scd2_internal.flow_name(wanted name, relation name) RETURNS name
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    free_name name := coalesce(wanted, relation);
    n     integer := 1;
BEGIN
    WHILE EXISTS (SELECT FROM scd2_internal.flow AS f WHERE f.name = free_name) LOOP
        IF wanted IS NOT NULL THEN
            RAISE duplicate_object USING MESSAGE = format('flow "%s" exists already', wanted);
        END IF;
        n := n + 1;
        free_name := scd2_internal.object_name(relation, n::text);
    END LOOP;
    RETURN free_name;
END $$;
COMMENT ON FUNCTION scd2_internal.flow_name(name, name) IS
    'The name of a new flow: as wanted, or the target''s, with a number if it is taken';

-- starting_version: the feed must hold every change since.
CREATE FUNCTION scd2_internal.check_starting_version(feed_id integer, source oid, starting_version bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    earliest bigint;
    latest   bigint;
BEGIN
    SELECT h.earliest_state INTO earliest FROM scd2_internal.feed AS f, scd2_internal.hold_feed(f.feed_id, f.feed_relid) AS h
        WHERE f.feed_id = check_starting_version.feed_id;
    SELECT p.version INTO latest FROM scd2_internal.position AS p;
    IF earliest IS NULL OR starting_version < earliest OR starting_version > latest THEN
        RAISE invalid_parameter_value
            USING MESSAGE = format('starting_version %s is not in the feed of "%s"', starting_version,
            source::regclass),
            DETAIL = CASE WHEN earliest IS NULL THEN 'The feed begins with this transaction.'
                ELSE format('It can be from %s to %s.', earliest, latest) END;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_starting_version(integer, oid, bigint) IS
    'Raises 22023 unless the feed reaches back to the version';

-- A feed that failed gets no more rows: what is made from it would stand still, and say so to nobody.
CREATE FUNCTION scd2_internal.check_feed_runs(feed_id integer, since bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    s scd2_internal.feed_state;
BEGIN
    IF feed_id IS NULL THEN                 -- a flow that runs once
        RETURN;
    END IF;
    IF NOT EXISTS (SELECT FROM scd2_internal.feed AS f JOIN pg_class AS c ON c.oid = f.feed_relid
        WHERE f.feed_id = check_feed_runs.feed_id) THEN
        RAISE object_not_in_prerequisite_state USING HINT = 'SELECT * FROM scd2.diagnose();',
            MESSAGE = (SELECT format('the change data feed of table "%s" was dropped',
                scd2_internal.label(f.source_relid)) FROM scd2_internal.feed AS f
                WHERE f.feed_id = check_feed_runs.feed_id);
    END IF;
    SELECT q.* INTO s FROM scd2_internal.feed_state AS q WHERE q.feed_id = check_feed_runs.feed_id;
    IF s.state = 'failed' OR upper_inf(s.gap) OR since IS NOT NULL AND s.gap && int8range(since, NULL, '()') THEN
        RAISE object_not_in_prerequisite_state
            USING MESSAGE = format('feed of "%s" has a gap at versions %s', s.source_relid::regclass, s.gap),
            DETAIL = s.error, HINT = (SELECT CASE WHEN upper_inf(s.gap) THEN scd2_internal.gap_remedy(f, s.gap)
                ELSE 'SELECT * FROM scd2.feeds;' END FROM scd2_internal.feed AS f WHERE f.feed_id = s.feed_id);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_feed_runs(integer, bigint) IS
    'Raises 55000 if the feed was dropped, has failed, or has a gap after version "since" (NULL: now)';

-- The columns a flow can select: those of the source that its feed has.
CREATE FUNCTION scd2_internal.feed_columns(feed_id integer) RETURNS name[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(a.attname ORDER BY a.attnum)
    FROM scd2_internal.feed AS f JOIN pg_attribute AS a ON a.attrelid = f.source_relid AND a.attnum > 0
        AND NOT a.attisdropped AND a.attname <> ALL (f.except_columns)
    WHERE f.feed_id = feed_columns.feed_id
      AND EXISTS (SELECT FROM pg_attribute AS fa WHERE fa.attrelid = f.feed_relid AND fa.attname = a.attname
          AND fa.attnum > 0 AND NOT fa.attisdropped)
$$;
COMMENT ON FUNCTION scd2_internal.feed_columns(integer) IS
    'Columns that both a source and its feed have, in the order of the source';

-- The expressions of a flow over an event table, or over a feed (then its metadata are columns too). Returns the type
-- of the sequence, and the columns that say what an event is rather than what it brings: they are not tracked by
-- default.
CREATE FUNCTION scd2_internal.check_event_expressions(asked scd2_internal.flow, source oid, allowed name[],
    OUT sequence_type text, OUT sequence_collation oid, OUT control_columns name[])
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    sequence   record;
    expression record;
    used       name[];
    metadata   name[] := CASE asked.input
        WHEN 'changes' THEN '{_change_type,_commit_version,_commit_timestamp,_change_ordinal,_xid}'::name[]
        ELSE '{}' END;
BEGIN
    SELECT e.* INTO sequence FROM scd2_internal.sequence_expression(asked.sequence_by, source, 'sequence_by') AS e;
    sequence_type := format_type(sequence.type, -1);
    sequence_collation := sequence.collation;
    control_columns := sequence.column_names;
    FOR expression IN
        SELECT e.* FROM (VALUES ('apply_as_deletes', asked.apply_as_deletes),
            ('apply_as_truncates', asked.apply_as_truncates), ('source_filter', asked.source_filter)) AS e (argument,
            text)
        WHERE e.text IS NOT NULL
    LOOP
        PERFORM scd2_internal.check_expression(expression.text, source, 'boolean'::regtype, expression.argument);
        used := scd2_internal.expression_columns(expression.text, source, expression.argument);
        PERFORM scd2_internal.check_column_list(used, allowed || metadata, expression.argument, source::regclass::text);
        IF expression.argument <> 'source_filter' THEN
            control_columns := control_columns || used;
        END IF;
    END LOOP;
    PERFORM scd2_internal.check_column_list(sequence.column_names, allowed || metadata, 'sequence_by',
        source::regclass::text);
END $$;
COMMENT ON FUNCTION scd2_internal.check_event_expressions(scd2_internal.flow, oid, name[]) IS
    'Raises what is wrong with the expressions of a flow over an event table';

-- The expressions of a flow over a feed with its default sequence: of the source's rows, wherever they are met; whether
-- one empties the target may depend on the change. Returns the columns that are not tracked by default.
CREATE FUNCTION scd2_internal.check_image_expressions(asked scd2_internal.flow, source oid, feed oid, allowed name[])
    RETURNS name[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    expression      record;
    used            name[];
    control_columns name[] := '{}';
BEGIN
    FOR expression IN
        SELECT e.*
        FROM (VALUES ('apply_as_deletes', asked.apply_as_deletes, source, '{}'::name[]),
                     ('source_filter', asked.source_filter, source, '{}'),
                     ('apply_as_truncates', asked.apply_as_truncates, feed,
                      '{_change_type,_commit_version,_commit_timestamp,_change_ordinal,_xid}'))
                 AS e (argument, text, reads, metadata)
        WHERE e.text IS NOT NULL
    LOOP
        PERFORM scd2_internal.check_expression(expression.text, expression.reads, 'boolean'::regtype,
            expression.argument);
        used := scd2_internal.expression_columns(expression.text, expression.reads, expression.argument);
        PERFORM scd2_internal.check_column_list(used, allowed || expression.metadata, expression.argument,
            source::regclass::text);
        IF expression.argument <> 'source_filter' THEN
            control_columns := control_columns || used;
        END IF;
    END LOOP;
    RETURN control_columns;
END $$;
COMMENT ON FUNCTION scd2_internal.check_image_expressions(scd2_internal.flow, oid, oid, name[]) IS
    'Raises what is wrong with the expressions of a flow over a feed with its default sequence';

-- Of a feed with a sequence of its own: which changes are deletes, besides those that the feed says are; and what
-- empties the target, a TRUNCATE if nothing else is said.
CREATE FUNCTION scd2_internal.changes_that_delete(given text) RETURNS text
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT '_change_type IN (''delete'', ''update_preimage'')' || CASE WHEN given IS NULL THEN ''
        ELSE format(E' OR COALESCE((%s\n)::boolean, false)', given) END
$$;
COMMENT ON FUNCTION scd2_internal.changes_that_delete(text) IS
    'Expression over a feed: is a change a delete? "given": apply_as_deletes, or NULL';

CREATE FUNCTION scd2_internal.changes_that_empty(given text) RETURNS text
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN given IS NULL THEN '_change_type = ''truncate'''
        ELSE format(E'_change_type NOT IN (''delete'', ''update_preimage'') AND COALESCE((%s\n)::boolean, false)',
        given) END
$$;
COMMENT ON FUNCTION scd2_internal.changes_that_empty(text) IS
    'Expression over a feed: does a change empty the target? "given": apply_as_truncates, or NULL';

-- The sequence of deletes of a feed that has one of its own, as an expression over the feed's columns. A delete carries
-- the old row, and must come after it: one step, in types that have steps; in others what comes no later is NULL, which
-- makes the event invalid. A sequence made from metadata alone is the delete's own.
CREATE FUNCTION scd2_internal.delete_sequence(asked scd2_internal.flow, feed oid, sequence_type text, of_row boolean)
    RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given  text := asked.delete_sequence_by;
    struct record;
    step   text := CASE WHEN sequence_type LIKE 'timestamp with%' THEN 'interval ''1 microsecond'''
                        WHEN sequence_type IN ('smallint', 'integer', 'bigint') THEN '1::' || sequence_type
                            WHEN sequence_type = 'date' THEN '1' END;
    own    text := format(E'(%s\n)::%s', asked.sequence_by, sequence_type);
BEGIN
    IF given IS NULL THEN
        IF NOT of_row THEN
            RETURN asked.sequence_by;
        ELSIF sequence_type <> 'timestamp with time zone' THEN
            RAISE invalid_parameter_value USING MESSAGE = 'delete_sequence_by is missing',
                DETAIL = format('A row that is deleted does not say when, in the type of the sequence, %s.',
                    sequence_type), HINT = 'delete_sequence_by => ''…''';
        END IF;
        given := '_commit_timestamp';
    END IF;
    SELECT f.* INTO struct FROM scd2_internal.struct_fields(given) AS f;
    IF struct.names IS NOT NULL THEN
        given := format('ROW(%s)', (SELECT string_agg(format('(%s%s)', e, E'\n'), ', ' ORDER BY n)
            FROM unnest(struct.expressions) WITH ORDINALITY AS u (e, n)));
    END IF;
    PERFORM scd2_internal.check_expression(given, feed, sequence_type::regtype, 'delete_sequence_by');
    given := format(E'(%s\n)::%s', given, sequence_type);
    RETURN CASE WHEN NOT of_row THEN given WHEN step IS NOT NULL THEN format('GREATEST(%s, %s + %s)', given, own, step)
                ELSE format('CASE WHEN _change_type = ''truncate'' OR %1$s %2$s %3$s THEN %1$s END', given,
                    scd2_internal.order_operator(sequence_type::regtype, 5), own) END;
END $$;
COMMENT ON FUNCTION scd2_internal.delete_sequence(scd2_internal.flow, oid, text, boolean) IS
    'Expression for the sequence of a delete; 22023 if delete_sequence_by is needed';

-- Where a row of an event table ends, as an expression of the sequence's type; and the columns that say so.
CREATE FUNCTION scd2_internal.end_sequence(given text, source oid, sequence_type text, allowed name[],
    OUT expression text, OUT column_names name[])
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    struct record;
BEGIN
    expression := given;
    SELECT f.* INTO struct FROM scd2_internal.struct_fields(given) AS f;
    IF struct.names IS NOT NULL AND (SELECT t.typtype FROM pg_type AS t WHERE t.oid = sequence_type::regtype) <> 'c'
        THEN
        RAISE datatype_mismatch USING MESSAGE = format('end_sequence_by is a struct instead of %s', sequence_type);
    ELSIF struct.names IS NOT NULL THEN
        expression := format('ROW(%s)::%s',
            (SELECT string_agg(format('(%s%s)', e, E'\n'), ', ' ORDER BY n)
            FROM unnest(struct.expressions) WITH ORDINALITY AS u (e, n)), sequence_type);
    END IF;
    PERFORM scd2_internal.check_expression(expression, source, sequence_type::regtype, 'end_sequence_by');
    column_names := scd2_internal.expression_columns(expression, source, 'end_sequence_by');
    PERFORM scd2_internal.check_column_list(column_names, allowed, 'end_sequence_by', source::regclass::text);
END $$;
COMMENT ON FUNCTION scd2_internal.end_sequence(text, oid, text, name[]) IS
    'Raises what is wrong with an end_sequence_by';

-- How late events may be, in the unit of the differences of sequences.
CREATE FUNCTION scd2_internal.check_max_lateness(given text, asked scd2_internal.flow, sequence_type text) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    example text := CASE WHEN sequence_type IN ('smallint', 'integer', 'bigint', 'numeric', 'real', 'double precision')
        THEN '1000'
                         WHEN sequence_type = 'date' OR sequence_type LIKE 'timestamp%' THEN '7 days' END;
    lateness text := given;
    fits    boolean;
BEGIN
    IF given IS NULL THEN
        RETURN NULL;
    ELSIF asked.input = 'net' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'max_lateness is for flows whose events can be late',
            DETAIL = 'A change data feed with its default sequence is in order.';
    ELSIF asked.once THEN
        RAISE invalid_parameter_value USING MESSAGE = 'max_lateness is for flows that go on',
            DETAIL = 'The rows that a flow reads once come all at the same time.';
    ELSIF example IS NULL THEN
        RAISE datatype_mismatch USING MESSAGE = format('max_lateness does not go with a sequence of type %s',
            sequence_type), DETAIL = 'Its values have no differences.';
    END IF;
    BEGIN
        CASE WHEN sequence_type IN ('smallint', 'integer', 'bigint') THEN fits := lateness::bigint >= 0;
             WHEN example = '1000' THEN fits := lateness::numeric >= 0 AND lateness::numeric NOT IN ('NaN', 'Infinity');
             ELSE
                lateness := CASE WHEN sequence_type = 'date' AND given ~ '^\s*\d+\s*$' THEN given || ' days'
                    ELSE given END;
                fits := isfinite(lateness::interval) AND lateness::interval BETWEEN '0' AND '1000 years';
        END CASE;
    EXCEPTION WHEN data_exception THEN
        fits := false;
    END;
    IF NOT fits THEN
        RAISE invalid_parameter_value USING MESSAGE = format('max_lateness is %L', given),
            HINT = format('max_lateness => %L', example);
    END IF;
    RETURN lateness;
END $$;
COMMENT ON FUNCTION scd2_internal.check_max_lateness(text, scd2_internal.flow, text) IS
    'Raises what is wrong with a max_lateness; returns it as the flow keeps it';

-- Arguments that hold for every flow.
CREATE FUNCTION scd2_internal.check_flow_arguments(asked scd2_internal.flow, open_row_index boolean, track_list name[],
    track_except_list name[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF asked.scd_type IS NULL OR asked.scd_type NOT IN (1, 2) THEN
        RAISE invalid_parameter_value
            USING MESSAGE = format('stored_as_scd_type is %s', coalesce(asked.scd_type::text, 'NULL')),
            HINT = 'It is 1 or 2.';
    END IF;
    IF asked.refresh_interval IS NULL OR asked.refresh_interval < '0' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'refresh_interval must not be NULL or negative';
    END IF;
    IF asked.on_invalid_event IS NULL OR asked.on_invalid_event NOT IN ('fail', 'quarantine') THEN
        RAISE invalid_parameter_value
            USING MESSAGE = format('on_invalid_event is %s', coalesce(quote_literal(asked.on_invalid_event), 'NULL')),
            HINT = 'It is ''fail'' or ''quarantine''.';
    END IF;
    IF asked.scd_type = 1 THEN
        PERFORM scd2_internal.refuse_with_type_1('track_history_column_list', track_list IS NOT NULL);
        PERFORM scd2_internal.refuse_with_type_1('track_history_except_column_list', track_except_list IS NOT NULL);
        PERFORM scd2_internal.refuse_with_type_1('current_column', asked.current_column IS NOT NULL);
        PERFORM scd2_internal.refuse_with_type_1('open_row_index', open_row_index);
        PERFORM scd2_internal.refuse_with_type_1('initial_start', asked.initial_start IS NOT NULL);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_flow_arguments(scd2_internal.flow, boolean, name[], name[]) IS
    'Raises 22023 for arguments that are wrong whatever the source is';

-- The columns that open a version. A list is taken as it is; an except list takes away from the default.
CREATE FUNCTION scd2_internal.tracked_columns(track_list name[], track_except_list name[], chosen name[], keys name[],
    control_columns name[], source oid) RETURNS name[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY(SELECT c FROM unnest(scd2_internal.choose_columns(track_list, track_except_list,
                                          ARRAY(SELECT s FROM unnest(chosen) WITH ORDINALITY AS u (s, n)
                                              WHERE s <> ALL (keys) ORDER BY n),
                                          'track_history_column_list', 'track_history_except_column_list',
                                              source::regclass::text)) WITH ORDINALITY AS t (c, n)
                 WHERE track_list IS NOT NULL OR c <> ALL (control_columns) ORDER BY n)
$$;
COMMENT ON FUNCTION scd2_internal.tracked_columns(name[], name[], name[], name[], name[], oid) IS
    'Tracked columns of a flow';

-- The columns in which NULL means that nothing was sent. A list says so by itself.
CREATE FUNCTION scd2_internal.ignored_nulls(asked scd2_internal.flow, ignore_null boolean, ignore_list name[],
    ignore_except_list name[], source oid) RETURNS name[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    argument text := CASE WHEN ignore_list IS NOT NULL THEN 'ignore_null_updates_column_list'
        WHEN ignore_except_list IS NOT NULL THEN 'ignore_null_updates_except_column_list'
        ELSE 'ignore_null_updates' END;
    ignored  name[];
BEGIN
    IF ignore_list IS NULL AND ignore_except_list IS NULL AND NOT coalesce(ignore_null, false) THEN
        RETURN '{}';
    ELSIF asked.input <> 'events' THEN
        RAISE invalid_parameter_value USING MESSAGE = format('%s is for tables whose rows are events', argument),
            DETAIL = 'The images of a change data feed are whole: NULL is a value there.';
    ELSIF (ignore_list || ignore_except_list) && asked.keys THEN
        RAISE invalid_parameter_value
            USING MESSAGE = format('key column "%s" in %s',
            (SELECT k FROM unnest(asked.keys) AS k WHERE k = ANY (ignore_list || ignore_except_list) LIMIT 1),
            argument),
            DETAIL = 'The keys of an event are never NULL.';
    END IF;
    ignored := scd2_internal.choose_columns(ignore_list, ignore_except_list,
        ARRAY(SELECT c FROM unnest(asked.columns) WITH ORDINALITY AS u (c, n) WHERE c <> ALL (asked.keys) ORDER BY n),
        'ignore_null_updates_column_list', 'ignore_null_updates_except_column_list', source::regclass::text);
    IF asked.scd_type = 1 AND asked.end_sequence_by IS NOT NULL AND ignored <> '{}' THEN
        RAISE invalid_parameter_value
            USING MESSAGE = format('%s and end_sequence_by exclude each other in a target of SCD type 1', argument),
            DETAIL = 'Whether an end counts depends on events that such a target does not remember.',
                HINT = 'stored_as_scd_type => 2';
    END IF;
    RETURN ignored;
END $$;
COMMENT ON FUNCTION scd2_internal.ignored_nulls(scd2_internal.flow, boolean, name[], name[], oid) IS
    'Columns in which a NULL is no value; raises what is wrong with the arguments that say so';
-- 43_flow_register.sql: the target of a flow, made, found or joined, and the flow's row.
--
-- All of it happens in the caller's transaction: the target, the flow's row, and a control record whose place in the
-- log is the flow's beginning. What follows the commit is the workers'.

-- NULL says nothing in columns that come later, unless a list of columns says in which it does. Of columns that events
-- bring their flow says so; of others, whose images are whole, the flows whose events lack them.
CREATE FUNCTION scd2_internal.ignored_later(target oid, asked scd2_internal.flow, columns name[]) RETURNS name[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY(SELECT c FROM unnest(columns) WITH ORDINALITY AS u (c, n)
        WHERE EXISTS (
            SELECT FROM (SELECT asked.input, asked.ignores_null, asked.options UNION ALL
                         SELECT f.input, f.ignores_null, f.options FROM scd2_internal.flow AS f
                         WHERE f.target_relid = target AND asked.input <> 'events') AS o
            WHERE o.input = 'events' AND o.ignores_null <> '{}' AND o.options -> 'ignore_null_updates_column_list' IS NULL
              AND NOT coalesce(o.options -> 'ignore_null_updates_except_column_list' ? c, false)) ORDER BY n)
$$;
COMMENT ON FUNCTION scd2_internal.ignored_later(oid, scd2_internal.flow, name[]) IS
    'Those of the columns, which a flow brings or lacks, in which NULL says nothing in events of its target';

-- A flow brings columns that its target does not have: target, memory and the other flows get them, whose events do not
-- have them. Returns the first of those.
CREATE FUNCTION scd2_internal.widen_target(first scd2_internal.flow, asked scd2_internal.flow, source oid)
    RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    more  name[] := ARRAY(SELECT c FROM unnest(asked.columns) WITH ORDINALITY AS u (c, n) WHERE c <> ALL (first.columns)
        ORDER BY n);
    kept  name[] := CASE WHEN first.scd_type = 2
        THEN ARRAY(SELECT c FROM unnest(more) AS c WHERE first.ignores_null <> '{}' OR c <> ALL (asked.tracked))
        ELSE '{}' END;
    ignored name[] := CASE asked.input WHEN 'events' THEN asked.ignores_null
        ELSE scd2_internal.ignored_later(first.target_relid, asked, more) END;
    added record;
BEGIN
    IF more = '{}' THEN
        RETURN first;
    END IF;
    PERFORM scd2_internal.check_memory_columns(kept, first.target_relid, first.memory_name);
    PERFORM scd2_internal.lock_tables(ARRAY[first.target_relid, first.memory_relid],
        ARRAY['ACCESS EXCLUSIVE', 'ACCESS EXCLUSIVE']);
    FOR added IN
        SELECT t.name, t.type || CASE WHEN c.oid IS NULL THEN ''
            ELSE format(' COLLATE %I.%I', n.nspname, c.collname) END AS type
        FROM scd2_internal.target_columns(source, more, '{}', 1, NULL, NULL, NULL, NULL, NULL) AS t
        LEFT JOIN pg_collation AS c ON c.oid = t.collation LEFT JOIN pg_namespace AS n ON n.oid = c.collnamespace
            ORDER BY t.ordinal
    LOOP
        EXECUTE format('ALTER TABLE %s ADD COLUMN %I %s', first.target_relid::regclass, added.name, added.type);
        IF added.name = ANY (kept) THEN
            EXECUTE format('ALTER TABLE %s ADD COLUMN %I %s', first.memory_relid::regclass, added.name, added.type);
        END IF;
    END LOOP;
    UPDATE scd2_internal.flow AS f SET columns = f.columns || more, absent = f.absent || more,
            tracked = f.tracked || ARRAY(SELECT c FROM unnest(more) AS c WHERE c = ANY (asked.tracked)),
            ignores_null = f.ignores_null || ARRAY(SELECT c FROM unnest(more) AS c WHERE c = ANY (ignored) AND c <> ALL (f.ignores_null))
        WHERE f.target_relid = first.target_relid;
    SELECT f.* INTO first FROM scd2_internal.flow AS f WHERE f.flow_id = first.flow_id;
    RETURN first;
END $$;
COMMENT ON FUNCTION scd2_internal.widen_target(scd2_internal.flow, scd2_internal.flow, oid) IS
    'Adds the columns to a target that a flow brings into it';

-- A column that a flow brings and its target has: both of one type.
CREATE FUNCTION scd2_internal.differing_column(target oid, source oid, columns name[]) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN format_type(b.base, b.base_typmod) <> t.type
        THEN format('Its column "%s" is of type %s instead of %s.', t.name, format_type(b.base, b.base_typmod), t.type)
                ELSE format('Its column "%s" has another collation.', t.name) END
    FROM scd2_internal.target_columns(source, columns, '{}', 1, NULL, NULL, NULL, NULL, NULL) AS t
        JOIN pg_attribute AS a ON a.attrelid = target AND a.attname = t.name AND NOT a.attisdropped
        CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) AS b
    WHERE format_type(b.base, b.base_typmod) <> t.type OR a.attcollation <> t.collation
    ORDER BY t.ordinal LIMIT 1
$$;
COMMENT ON FUNCTION scd2_internal.differing_column(oid, oid, name[]) IS
    'What differs in a column that a target and a source have; NULL: nothing';

-- Events in which NULL says nothing come to a flow that has its target for itself: there is no memory yet that would
-- have taken NULL for a value. What the target has is whole.
CREATE FUNCTION scd2_internal.ignore_null_from_now(first scd2_internal.flow, asked scd2_internal.flow)
    RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF asked.input = 'events' AND asked.ignores_null <> '{}' AND first.ignores_null = '{}'
        AND first.memory_relid IS NULL THEN
        UPDATE scd2_internal.flow AS f
            SET ignores_null = asked.ignores_null || scd2_internal.ignored_later(first.target_relid, asked,
                ARRAY(SELECT c FROM unnest(first.columns) WITH ORDINALITY AS u (c, n)
                      WHERE c <> ALL (asked.columns || first.keys) ORDER BY n))
            WHERE f.flow_id = first.flow_id RETURNING f.* INTO first;
    END IF;
    RETURN first;
END $$;
COMMENT ON FUNCTION scd2_internal.ignore_null_from_now(scd2_internal.flow, scd2_internal.flow) IS
    'The first flow into a target as it is when one joins whose events ignore NULL';

-- Of the columns that a flow brings and the target has, are those on both lists the same?
CREATE FUNCTION scd2_internal.agree(theirs name[], target_columns name[], ours name[], own_columns name[])
    RETURNS boolean
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY(SELECT c FROM unnest(theirs) AS c WHERE c = ANY (own_columns)) <@ ours
       AND ARRAY(SELECT c FROM unnest(ours) AS c WHERE c = ANY (target_columns)) <@ theirs
$$;
COMMENT ON FUNCTION scd2_internal.agree(name[], name[], name[], name[]) IS
    'Whether two flows say the same of the columns that both bring';

CREATE FUNCTION scd2_internal.what_differs(asked scd2_internal.flow, first scd2_internal.flow, source oid)
    RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE
        WHEN asked.keys <> first.keys THEN format('Its keys are %s instead of %s.', first.keys, asked.keys)
        WHEN asked.scd_type <> first.scd_type THEN format('It is of SCD type %s.', first.scd_type)
        WHEN asked.sequence_type <> first.sequence_type
            THEN format('Its sequence is of type %s instead of %s.', first.sequence_type, asked.sequence_type)
        WHEN d.column IS NOT NULL THEN d.column
        -- images of feeds and snapshots are whole, whatever NULL is in events
        WHEN asked.input = 'events' AND first.ignores_null = '{}' AND asked.ignores_null <> '{}'
            THEN 'It has remembered NULL as a value so far: a flow that ignores NULL is the first into a target, or comes to one that has it for itself.'
        WHEN asked.input = 'events'
            AND NOT scd2_internal.agree(first.ignores_null, first.columns, asked.ignores_null, asked.columns)
            THEN format('The columns of which it ignores NULL are %s.', first.ignores_null)
        WHEN asked.scd_type = 2
            AND NOT scd2_internal.agree(first.tracked, first.columns, asked.tracked, asked.columns)
            THEN format('Its tracked columns are %s.', first.tracked)
        WHEN asked.scd_type = 2 AND ROW(asked.start_column, asked.end_column, asked.current_column)
            IS DISTINCT FROM ROW(first.start_column, first.end_column, first.current_column)
            THEN 'The columns of its interval have other names.' END
    FROM (SELECT scd2_internal.differing_column(first.target_relid, source,
            ARRAY(SELECT c FROM unnest(asked.columns) WITH ORDINALITY AS u (c, n) WHERE c = ANY (first.columns)
                  ORDER BY n))) AS d ("column")
$$;
COMMENT ON FUNCTION scd2_internal.what_differs(scd2_internal.flow, scd2_internal.flow, oid) IS
    'In what a flow does not agree with those into a target, of which one is given; NULL: in nothing';

-- A flow into a target that has one: what both declare must agree. The new flow takes the target's columns; those that
-- it lacks are NULL in its events.
CREATE FUNCTION scd2_internal.join_target(caller oid, asked scd2_internal.flow, first scd2_internal.flow, source oid)
    RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    target  regclass := first.target_relid;
    differs text;
    own     name[] := asked.columns;
BEGIN
    PERFORM scd2_internal.check_owner(caller, target);
    IF asked.kind = 'append' OR first.kind = 'append' THEN
        RAISE feature_not_supported USING MESSAGE = format('"%s" is the target of a flow already', target),
            DETAIL = 'A target that is appended to is kept by such flows only.';
    END IF;
    first := scd2_internal.ignore_null_from_now(first, asked);
    differs := scd2_internal.what_differs(asked, first, source);
    IF differs IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = format('flow does not agree with the others into "%s"', target),
            DETAIL = differs;
    END IF;
    IF first.sequence_column IS NOT NULL AND first.sequence_column IS DISTINCT FROM asked.sequence_column THEN
        RAISE object_not_in_prerequisite_state
            USING MESSAGE = format('flow "%s" has its target for itself', first.name),
            DETAIL = format('What it remembers of "%s" is in column "%s".', target, first.sequence_column),
                HINT = 'Create the first flow with shared => true.';
    END IF;
    IF first.memory_relid IS NULL THEN
        first := scd2_internal.remember_from_now(first);
    END IF;
    first := scd2_internal.widen_target(first, asked, source);
    asked.absent := ARRAY(SELECT c FROM unnest(first.columns) AS c WHERE c <> ALL (own));
    asked.columns := first.columns;
    asked.tracked := first.tracked;
    asked.ignores_null := first.ignores_null;
    asked.sequence_column := first.sequence_column;
    asked.memory_relid := first.memory_relid;
    asked.memory_name := first.memory_name;
    UPDATE scd2_internal.flow AS f SET definition = f.definition + 1 WHERE f.target_relid = first.target_relid;
    RETURN asked;
END $$;
COMMENT ON FUNCTION scd2_internal.join_target(oid, scd2_internal.flow, scd2_internal.flow, oid) IS
    'Raises what does not agree with the flows that are there; returns the flow as it joins them';

-- A flow with the memory of its target, which is made.
CREATE FUNCTION scd2_internal.give_memory(asked scd2_internal.flow, layout oid, sequence_collation oid)
    RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    asked.memory_relid := scd2_internal.create_memory((SELECT c.relowner FROM pg_class AS c
        WHERE c.oid = asked.target_relid), asked.target_relid, layout, asked.keys,
        CASE asked.scd_type WHEN 2 THEN ARRAY(SELECT c FROM unnest(asked.columns) WITH ORDINALITY AS u (c, n)
                                              WHERE c <> ALL (asked.keys) AND (asked.ignores_null <> '{}'
                                                  OR c <> ALL (asked.tracked)) ORDER BY n) ELSE '{}' END,
        asked.scd_type, asked.sequence_type, sequence_collation, asked.ignores_null);
    asked.memory_name := (SELECT c.relname FROM pg_class AS c WHERE c.oid = asked.memory_relid);
    RETURN asked;
END $$;
COMMENT ON FUNCTION scd2_internal.give_memory(scd2_internal.flow, oid, oid) IS
    'Creates the memory of the flow''s target, with the types that the relation "layout" has; returns the flow with it';

CREATE FUNCTION scd2_internal.check_columns_captured(feed_id integer) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    pending text := scd2_internal.columns_pending(feed_id);
BEGIN
    IF pending IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('capture is behind a change of column "%s" of table "%s"', pending,
            (SELECT scd2_internal.label(f.source_relid) FROM scd2_internal.feed f WHERE f.feed_id = check_columns_captured.feed_id)),
            DETAIL = 'What the column is called in the change data feed is not known yet.', HINT = 'SELECT scd2.sync(); -- then again';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_columns_captured(integer) IS
    'Raises 55000 if columns of a source have names that its feed does not have yet';

-- The columns a flow can select: those of the source, and, if it is read through a feed, that its feed has. The feed
-- may not have met the newest yet: they are added.
CREATE FUNCTION scd2_internal.selectable_columns(asked scd2_internal.flow, source oid) RETURNS name[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF asked.feed_id IS NULL THEN
        RETURN (SELECT array_agg(a.attname ORDER BY a.attnum) FROM pg_attribute AS a
                WHERE a.attrelid = source AND a.attnum > 0 AND NOT a.attisdropped);
    END IF;
    PERFORM scd2_internal.check_feed_runs(asked.feed_id, asked.starting_version);
    PERFORM scd2_internal.check_columns_captured(asked.feed_id);
    PERFORM scd2_internal.add_missing_columns(f, f.except_columns)
        FROM scd2_internal.feed AS f WHERE f.feed_id = asked.feed_id;
    RETURN scd2_internal.feed_columns(asked.feed_id);
END $$;
COMMENT ON FUNCTION scd2_internal.selectable_columns(scd2_internal.flow, oid) IS
    'The columns that a flow can select. Raises 55000 if its feed does not run';

CREATE FUNCTION scd2_internal.with_columns(asked scd2_internal.flow, source oid, allowed name[], column_list name[],
        except_column_list name[]) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce(cardinality(asked.keys), 0) = 0 THEN
        RAISE invalid_parameter_value USING MESSAGE = format('flow over "%s" has no keys', source::regclass),
            HINT = 'Name the columns that identify a row: keys => ''{…}''.';
    END IF;
    PERFORM scd2_internal.check_column_list(asked.keys, allowed, 'keys', source::regclass::text);
    asked.columns := scd2_internal.choose_columns(column_list, except_column_list, allowed,
                                                  'column_list', 'except_column_list', source::regclass::text);
    IF NOT asked.keys <@ asked.columns THEN
        RAISE invalid_parameter_value USING MESSAGE = 'keys must be among the selected columns',
            DETAIL = format('Not selected: %s.', (SELECT string_agg(k, ', ') FROM unnest(asked.keys) AS k
                                                  WHERE k <> ALL (asked.columns)));
    END IF;
    IF asked.input IN ('net', 'changes') THEN
        PERFORM scd2_internal.check_keys_guarded(source, asked.keys);
    END IF;
    RETURN asked;
END $$;
COMMENT ON FUNCTION scd2_internal.with_columns(scd2_internal.flow, oid, name[], name[], name[]) IS
    'A flow with its selected columns; raises what is wrong with its keys and lists';

-- The sequence of events that have one of their own. "reads": over whose columns the expressions are. "lone": the
-- target may be read for what was remembered.
CREATE FUNCTION scd2_internal.with_event_sequence(caller oid, asked scd2_internal.flow, reads oid, allowed name[],
    lone boolean,
        OUT flow scd2_internal.flow, OUT sequence_collation oid, OUT control_columns name[])
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    struct record;
    events record;
    ends   record;
BEGIN
    SELECT f.* INTO struct FROM scd2_internal.struct_fields(asked.sequence_by) AS f;
    IF struct.names IS NOT NULL THEN
        asked.sequence_by := scd2_internal.create_sequence_type(
            coalesce((SELECT c.relowner FROM pg_class AS c WHERE c.oid = asked.target_relid), caller),
            asked.target_schema, asked.target_name, reads, struct.names, struct.expressions);
    END IF;
    SELECT e.* INTO events FROM scd2_internal.check_event_expressions(asked, reads, allowed) AS e;
    asked.sequence_type := events.sequence_type;
    IF asked.input = 'changes' THEN
        asked.delete_sequence_by := scd2_internal.delete_sequence(asked, reads, events.sequence_type,
                                                                  allowed && events.control_columns);
        IF asked.closes THEN
            asked.apply_as_truncates := coalesce(asked.apply_as_truncates, '_change_type = ''truncate''');
        ELSE
            asked.apply_as_deletes := scd2_internal.changes_that_delete(asked.apply_as_deletes);
            asked.apply_as_truncates := scd2_internal.changes_that_empty(asked.apply_as_truncates);
        END IF;
    END IF;
    control_columns := events.control_columns;
    IF asked.end_sequence_by IS NOT NULL THEN
        SELECT e.* INTO ends
            FROM scd2_internal.end_sequence(asked.end_sequence_by, reads, events.sequence_type, allowed) AS e;
        asked.end_sequence_by := ends.expression;
        control_columns := control_columns || ends.column_names;
    END IF;
    IF lone THEN
        asked.sequence_column := (SELECT c FROM unnest(asked.columns) AS c
                                  WHERE asked.sequence_by IN (c, quote_ident(c)) AND control_columns[1] = c LIMIT 1);
    END IF;
    flow := asked;
    sequence_collation := events.sequence_collation;
END $$;
COMMENT ON FUNCTION scd2_internal.with_event_sequence(oid, scd2_internal.flow, oid, name[], boolean) IS
    'A flow with the sequence of its events, and the columns that say what an event is; raises what is wrong with its '
    'expressions';

CREATE FUNCTION scd2_internal.check_interval_columns(asked scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.check_flow_column('start_column', asked.start_column, asked.columns,
                                            ARRAY[asked.end_column, asked.current_column]);
    PERFORM scd2_internal.check_flow_column('end_column', asked.end_column, asked.columns,
                                            ARRAY[asked.start_column, asked.current_column]);
    IF asked.current_column IS NOT NULL THEN
        PERFORM scd2_internal.check_flow_column('current_column', asked.current_column, asked.columns,
                                                ARRAY[asked.start_column, asked.end_column]);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_interval_columns(scd2_internal.flow) IS
    'Raises what is wrong with the names of a type 2 target''s own columns';

-- The flow's table: created, or found and fitting, or that of other flows. "layout" has the types of the columns.
CREATE FUNCTION scd2_internal.with_target(caller oid, asked scd2_internal.flow, source oid, layout oid,
    sequence_collation oid,
        open_row_index boolean, shared boolean) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first scd2_internal.flow;
BEGIN
    IF asked.target_relid IS NULL THEN
        asked.target_relid := scd2_internal.create_target(caller, asked.target_schema, asked.target_name, source,
            asked.columns, asked.keys, asked.scd_type, asked.input, asked.sequence_type, sequence_collation,
            asked.start_column, asked.end_column, asked.current_column, open_row_index);
    ELSE
        PERFORM scd2_internal.check_no_cycle(source, asked.target_relid);
        SELECT f.* INTO first FROM scd2_internal.flow AS f
            WHERE f.target_relid = asked.target_relid ORDER BY f.flow_id LIMIT 1;
        IF FOUND THEN
            RETURN scd2_internal.join_target(caller, asked, first, source);
        END IF;
        PERFORM scd2_internal.check_target_fits(caller, asked.target_relid, source,
            asked.columns, asked.keys, asked.scd_type, asked.sequence_type, sequence_collation,
            asked.start_column, asked.end_column, asked.current_column);
    END IF;
    PERFORM scd2_internal.dress_target(asked.target_relid, asked.scd_type, asked.sequence_type,
                                       asked.start_column, asked.end_column);
    IF asked.input IN ('changes', 'events') OR asked.input = 'snapshots' AND shared THEN
        asked := scd2_internal.give_memory(asked, layout, sequence_collation);
    END IF;
    RETURN asked;
END $$;
COMMENT ON FUNCTION scd2_internal.with_target(oid, scd2_internal.flow, oid, oid, oid, boolean, boolean) IS
    'A flow with its target and what belongs to it; raises why it cannot have it';

-- Marks and what ignores NULL of type 1 are kept with arrays of the sequence's type.
CREATE FUNCTION scd2_internal.check_array_type(asked scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF asked.input = 'events'
       AND (asked.apply_as_truncates IS NOT NULL OR asked.scd_type = 1 AND asked.ignores_null <> '{}')
       AND (SELECT t.typarray FROM pg_type AS t WHERE t.oid = asked.sequence_type::regtype) = 0 THEN
        RAISE feature_not_supported USING MESSAGE = format('a sequence of type %s does not go with %s',
            asked.sequence_type,
            CASE WHEN asked.apply_as_truncates IS NOT NULL THEN 'apply_as_truncates' ELSE 'ignore_null_updates' END);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_array_type(scd2_internal.flow) IS
    'Raises 0A000 where arrays of the sequence''s type are needed and there are none';

-- The flow's row, and its place in the log. (One that takes snapshots begins at no place.)
CREATE FUNCTION scd2_internal.register_flow(asked scd2_internal.flow, source oid) RETURNS integer
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    asked.name := scd2_internal.flow_name(asked.name, asked.target_name);
    asked.kind := CASE asked.input WHEN 'snapshots' THEN 'snapshot' ELSE 'auto_cdc' END;
    asked.source_relid := source;
    SELECT n.nspname, c.relname INTO asked.source_schema, asked.source_name
        FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = source;
    INSERT INTO scd2_internal.flow AS f (name, kind, target_schema, target_name, target_relid, source_schema,
        source_name,
            source_relid, feed_id, scd_type, keys, columns, tracked, start_column, end_column, current_column, input,
            closes, ignores_null, absent, sequence_by, sequence_type, sequence_column, delete_sequence_by,
                end_sequence_by,
            apply_as_deletes, apply_as_truncates, source_filter, on_invalid_event, max_lateness, memory_name,
                memory_relid,
            initial_start, starting_version, once, refresh_interval, scope, delete_absent, max_delete_fraction,
            version_query, options, settings)
        VALUES (asked.name, asked.kind, asked.target_schema, asked.target_name, asked.target_relid, asked.source_schema,
            asked.source_name, asked.source_relid, asked.feed_id, asked.scd_type, asked.keys, asked.columns,
                asked.tracked,
            asked.start_column, asked.end_column, asked.current_column, asked.input, coalesce(asked.closes, false),
                asked.ignores_null,
            coalesce(asked.absent, '{}'), asked.sequence_by, asked.sequence_type, asked.sequence_column,
            asked.delete_sequence_by, asked.end_sequence_by, asked.apply_as_deletes, asked.apply_as_truncates,
            asked.source_filter, asked.on_invalid_event, asked.max_lateness, asked.memory_name, asked.memory_relid,
            asked.initial_start, asked.starting_version, coalesce(asked.once, false), asked.refresh_interval,
                asked.scope,
            coalesce(asked.delete_absent, true), asked.max_delete_fraction, asked.version_query, asked.options,
            ARRAY(SELECT s || '=' || current_setting(s) FROM unnest('{TimeZone,DateStyle,IntervalStyle}'::text[]) AS s))
        RETURNING f.flow_id INTO asked.flow_id;
    PERFORM scd2_internal.know_columns(asked.flow_id);
    PERFORM scd2_internal.know_source_columns(asked.flow_id);
    IF asked.input = 'snapshots' THEN
        INSERT INTO scd2_internal.flow_state
                (flow_id, phase, begin_version, begin_timestamp, watermark_version, watermark_timestamp)
            VALUES (asked.flow_id, 'apply', 0, now(), 0, now());
        PERFORM scd2_internal.wake_apply_at_commit();
    ELSE
        INSERT INTO scd2_internal.control (kind, flow_id, feed_id) VALUES ('begin flow', asked.flow_id, asked.feed_id);
    END IF;
    RETURN asked.flow_id;
END $$;
COMMENT ON FUNCTION scd2_internal.register_flow(scd2_internal.flow, oid) IS
    'Writes the definition of a flow and its control record; returns the flow_id';

-- What orders the events of a flow, and the columns that say what an event is. "feed": NULL if it has none; "lone": as
-- above.
CREATE FUNCTION scd2_internal.with_sequence(caller oid, asked scd2_internal.flow, source oid, feed oid, allowed name[],
    lone boolean, OUT flow scd2_internal.flow, OUT sequence_collation oid, OUT control_columns name[])
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    events record;
BEGIN
    sequence_collation := 0;
    IF asked.input = 'snapshots' THEN
        SELECT e.* INTO events FROM scd2_internal.snapshot_sequence(asked.sequence_type, source) AS e;
        PERFORM scd2_internal.check_snapshot_flow(asked, source, events.sequence_type);
        asked.sequence_type := events.sequence_type;
        sequence_collation := events.sequence_collation;
        control_columns := events.control_columns;
    ELSIF asked.input = 'net' THEN
        asked.sequence_type := 'timestamp with time zone';
        control_columns := scd2_internal.check_image_expressions(asked, source, feed, allowed);
    ELSE
        events := scd2_internal.with_event_sequence(caller, asked,
            CASE asked.input WHEN 'changes' THEN feed ELSE source END, allowed, lone);
        asked := events.flow;
        sequence_collation := events.sequence_collation;
        control_columns := events.control_columns;
    END IF;
    flow := asked;
END $$;
COMMENT ON FUNCTION scd2_internal.with_sequence(oid, scd2_internal.flow, oid, oid, name[], boolean) IS
    'A flow with its sequence, and the columns that are not tracked by default; raises what is wrong with its '
    'expressions';

-- Everything about a flow that track(), create_auto_cdc_flow() and create_auto_cdc_from_snapshot_flow() all do. "asked"
-- has the arguments that are columns of the catalog; the rest of it is filled in here.
CREATE FUNCTION scd2_internal.add_feed_flow(caller oid, asked scd2_internal.flow, column_list name[],
    except_column_list name[],
        track_list name[], track_except_list name[], open_row_index boolean, shared boolean,
        ignore_null boolean DEFAULT false, ignore_list name[] DEFAULT NULL, ignore_except_list name[] DEFAULT NULL)
    RETURNS integer
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    feed      scd2_internal.feed;
    source    oid;
    allowed   name[];
    sequenced record;
BEGIN
    SELECT f.* INTO feed FROM scd2_internal.feed AS f WHERE f.feed_id = asked.feed_id;
    source := coalesce(feed.source_relid, asked.source_relid);      -- flows that run once have no feed
    PERFORM scd2_internal.check_owner(caller, source);
    PERFORM scd2_internal.check_flow_arguments(asked, open_row_index, track_list, track_except_list);
    asked.options := jsonb_strip_nulls(jsonb_build_object('sequence_by', asked.sequence_by,
        'column_list', column_list, 'except_column_list', except_column_list, 'track_history_column_list', track_list,
        'track_history_except_column_list', track_except_list, 'open_row_index', open_row_index, 'shared', shared,
        'ignore_null_updates', ignore_null, 'ignore_null_updates_column_list', ignore_list,
        'ignore_null_updates_except_column_list', ignore_except_list));
    allowed := scd2_internal.selectable_columns(asked, source);
    asked := scd2_internal.with_columns(asked, source, allowed, column_list, except_column_list);

    sequenced := scd2_internal.with_sequence(caller, asked, source, feed.feed_relid, allowed,
        NOT (shared OR coalesce(ignore_null, false) OR ignore_list IS NOT NULL OR ignore_except_list IS NOT NULL));
    asked := sequenced.flow;
    asked.max_lateness := scd2_internal.check_max_lateness(asked.max_lateness, asked, asked.sequence_type);
    asked.ignores_null := scd2_internal.ignored_nulls(asked, ignore_null, ignore_list, ignore_except_list, source);
    asked.tracked := scd2_internal.tracked_columns(track_list, track_except_list, asked.columns, asked.keys,
                                                   sequenced.control_columns, source);
    IF asked.scd_type = 2 THEN
        PERFORM scd2_internal.check_interval_columns(asked);
    END IF;
    IF asked.initial_start IS NOT NULL THEN
        PERFORM scd2_internal.check_expression(asked.initial_start, source, 'timestamptz'::regtype, 'initial_start');
    END IF;
    IF asked.starting_version IS NOT NULL THEN
        PERFORM scd2_internal.check_starting_version(asked.feed_id, source, asked.starting_version);
    END IF;

    asked := scd2_internal.with_target(caller, asked, source, coalesce(feed.feed_relid, source),
                                       sequenced.sequence_collation, open_row_index, shared);
    PERFORM scd2_internal.check_array_type(asked);
    IF asked.scope IS NOT NULL AND asked.memory_relid IS NOT NULL THEN
        PERFORM scd2_internal.check_immutable(asked.scope, source, 'scope');
    END IF;
    RETURN scd2_internal.register_flow(asked, source);
END $$;
COMMENT ON FUNCTION scd2_internal.add_feed_flow(oid, scd2_internal.flow, name[], name[], name[], name[], boolean,
    boolean, boolean, name[], name[]) IS
    'Checks, creates the target, registers the flow and its control record; returns the flow_id';

CREATE FUNCTION scd2_internal.refuse_with_type_1(argument text, given boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF given THEN
        RAISE invalid_parameter_value USING MESSAGE = format('%s needs SCD type 2', argument),
            HINT = 'stored_as_scd_type => 2';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.refuse_with_type_1(text, boolean) IS
    'Raises 22023 if an argument for histories was given for a type 1 target';

CREATE FUNCTION scd2_internal.check_flow_column(argument text, column_name name, selected name[], others name[])
    RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF column_name IS NULL OR column_name = '' THEN
        RAISE invalid_parameter_value USING MESSAGE = format('%s must have a name', argument);
    END IF;
    IF column_name = ANY (selected) OR column_name = ANY (others) THEN
        RAISE duplicate_column USING MESSAGE = format('column "%s" would occur twice in the target', column_name),
            HINT = format('Choose another name: %s => ''…''.', argument);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_flow_column(text, name, name[], name[]) IS
    'Raises if a column of the flow has no name or that of another column';

-- Where the target was dropped, whoever owns the source, or what is left of its feed, may clear up.
CREATE FUNCTION scd2_internal.flow_owner(flow scd2_internal.flow) RETURNS oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT c.relowner FROM pg_class c WHERE c.oid = flow.target_relid),
                    (SELECT c.relowner FROM pg_class c WHERE c.oid = flow.source_relid),
                    (SELECT c.relowner FROM scd2_internal.feed f JOIN pg_class c ON c.oid = f.feed_relid
                        WHERE f.feed_id = flow.feed_id))
$$;
COMMENT ON FUNCTION scd2_internal.flow_owner(scd2_internal.flow) IS
    'Whose flow it is: the owner of the target; NULL if target, source and feed are gone';

-- A flow and the rights of who names it.
CREATE FUNCTION scd2_internal.find_flow(caller oid, flow_name name) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    named scd2_internal.flow;
BEGIN
    SELECT f.* INTO named FROM scd2_internal.flow AS f WHERE f.name = flow_name;
    IF NOT FOUND THEN
        RAISE undefined_object USING MESSAGE = format('flow "%s" does not exist', flow_name),
            HINT = 'SELECT flow FROM scd2.flows;';
    END IF;
    PERFORM scd2_internal.check_member(caller, coalesce(scd2_internal.flow_owner(named), 10), 'the target of flow',
        flow_name);
    RETURN named;
END $$;
COMMENT ON FUNCTION scd2_internal.find_flow(oid, name) IS
    'The flow; 42704 if there is none, 42501 unless the caller owns its target';

-- And nobody else changes it before the transaction ends.
CREATE FUNCTION scd2_internal.own_flow(caller oid, flow_name name) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM scd2_internal.flow AS f WHERE f.name = flow_name FOR NO KEY UPDATE;
    RETURN scd2_internal.find_flow(caller, flow_name);
END $$;
COMMENT ON FUNCTION scd2_internal.own_flow(oid, name) IS
    'The flow, locked; 42704 if there is none, 42501 unless the caller owns its target';

CREATE FUNCTION scd2_internal.remove_flow(doomed scd2_internal.flow, drop_target boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- The worker that applies it right now finishes its batch first.
    PERFORM scd2_internal.lock_flow(doomed.flow_id);
    DELETE FROM scd2_internal.flow AS f WHERE f.flow_id = doomed.flow_id;
    PERFORM scd2_internal.wake_apply_at_commit();
    IF NOT EXISTS (SELECT FROM scd2_internal.flow AS f WHERE f.target_relid = doomed.target_relid) THEN
        PERFORM scd2_internal.undress_target(doomed.target_relid, doomed.sequence_type);
        DELETE FROM scd2_internal.mark AS m WHERE m.target_relid = doomed.target_relid;
        DELETE FROM scd2_internal.erased_key AS e WHERE e.target_relid = doomed.target_relid;
        DELETE FROM scd2_internal.purge AS p WHERE p.target_relid = doomed.target_relid;
        IF EXISTS (SELECT FROM pg_class AS c WHERE c.oid = doomed.memory_relid) THEN
            EXECUTE format('DROP TABLE %s', doomed.memory_relid::regclass);
        END IF;
        IF drop_target AND EXISTS (SELECT FROM pg_class AS c WHERE c.oid = doomed.target_relid) THEN
            EXECUTE format('DROP TABLE %s', doomed.target_relid::regclass);
        END IF;
        IF (drop_target OR doomed.scd_type = 1) AND scd2_internal.is_sequence_type(doomed.sequence_type) THEN
            EXECUTE format('DROP TYPE %s', doomed.sequence_type);
        END IF;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.remove_flow(scd2_internal.flow, boolean) IS
    'Removes a flow, and its target''s guard with the last flow into it';

-- Waits for the worker that has the flow, and keeps workers from it until the transaction ends.
CREATE FUNCTION scd2_internal.lock_flow(flow_id integer) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_lock_flow' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.lock_flow(integer) IS
    'Takes the lock under which workers apply a flow; 55P03 after pg_scd2.lock_timeout';

CREATE FUNCTION scd2_internal.wake_apply_at_commit() RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_wake_apply_at_commit' LANGUAGE C;
COMMENT ON FUNCTION scd2_internal.wake_apply_at_commit() IS
    'Has the apply workers look for work when the calling transaction commits';

-- create_auto_cdc_flow
-- 44_flow_create.sql: create_auto_cdc_flow(), track() and untrack().

CREATE FUNCTION scd2_internal.refuse_over_a_feed(asked scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF asked.end_sequence_by IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'end_sequence_by is for tables whose rows are events',
            DETAIL = 'A change data feed says itself where a row ends.';
    END IF;
    IF asked.input = 'net' THEN
        IF asked.on_invalid_event IS DISTINCT FROM 'fail' THEN
            RAISE invalid_parameter_value USING MESSAGE = 'on_invalid_event needs a sequence_by of its own',
                DETAIL = 'Changes in the order of their commits are never invalid.';
        END IF;
        IF asked.delete_sequence_by IS NOT NULL THEN
            RAISE invalid_parameter_value USING MESSAGE = 'delete_sequence_by needs a sequence_by of its own',
                HINT = 'sequence_by => ''…''';
        END IF;
    ELSIF asked.initial_start IS NOT NULL AND NOT asked.closes THEN
        RAISE invalid_parameter_value
            USING MESSAGE = 'initial_start is for flows over a feed with its default sequence',
            DETAIL = 'Copied rows are valid since their sequence_by.';
    ELSIF asked.closes AND asked.delete_sequence_by IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'delete_sequence_by needs a sequence_by of its own',
            HINT = 'sequence_by => ''…''';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.refuse_over_a_feed(scd2_internal.flow) IS
    'Raises 0A000 or 22023 for arguments that flows over feeds do not have';

-- What is left of a key after a version is told by its last change, if no two rows ever have the key.
CREATE FUNCTION scd2_internal.check_keys_immediate(source oid, keys name[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM pg_index AS i
        WHERE i.indrelid = source AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL
          AND i.indexprs IS NULL
          AND NOT EXISTS (SELECT FROM unnest(i.indkey[0:i.indnkeyatts - 1]) AS k
                          JOIN pg_attribute AS a ON a.attrelid = source AND a.attnum = k WHERE a.attname <> ALL (keys));
    IF NOT FOUND THEN
        RAISE feature_not_supported
            USING MESSAGE = format('keys of "%s" can be the same for a moment', source::regclass),
            DETAIL = 'A flow over its feed into a target that is shared needs a unique index that is not deferrable.';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_keys_immediate(oid, name[]) IS
    'Raises 0A000 unless a unique index guards the keys row by row';

-- How a flow reads its feed: the net effect of each version, or each change, with a sequence of its own. In a target
-- that is shared what comes may be out of order, and is remembered as changes are.
CREATE FUNCTION scd2_internal.over_a_feed(asked scd2_internal.flow, shared boolean) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    others  boolean := EXISTS (SELECT FROM scd2_internal.flow AS f WHERE f.target_relid = asked.target_relid);
    by_time boolean := coalesce(asked.sequence_by, '_commit_timestamp') = '_commit_timestamp';
    source  oid := (SELECT f.source_relid FROM scd2_internal.feed AS f WHERE f.feed_id = asked.feed_id);
    same    name := (SELECT f.name FROM scd2_internal.flow AS f
                     WHERE f.target_relid = asked.target_relid AND f.source_relid = source LIMIT 1);
BEGIN
    IF same IS NOT NULL AND asked.apply_as_truncates IS NULL THEN       -- not meant to be shared: the same call twice
        RAISE duplicate_object USING MESSAGE = format('"%s" is the target of a flow already', asked.target_relid::regclass),
            DETAIL = format('Flow "%s" keeps it from "%s".', same, source::regclass);
    END IF;
    asked.input := CASE WHEN by_time AND NOT coalesce(shared, false) AND NOT others THEN 'net' ELSE 'changes' END;
    asked.closes := by_time AND asked.input = 'changes';
    PERFORM scd2_internal.refuse_over_a_feed(asked);
    IF asked.closes THEN
        asked.sequence_by := '_commit_timestamp';
        PERFORM scd2_internal.check_keys_immediate(source, asked.keys);
    END IF;
    IF (others OR shared) AND asked.apply_as_truncates IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'apply_as_truncates is missing',
            DETAIL = format('A TRUNCATE of "%s" would end the rows of the other flows too.', source::regclass),
            HINT = 'It is ''false'', or ''_change_type = ''''truncate'''''', or what else says so.';
    END IF;
    RETURN asked;
END $$;
COMMENT ON FUNCTION scd2_internal.over_a_feed(scd2_internal.flow, boolean) IS
    'A flow over a feed, with how it reads it; raises what does not go together';

-- The feed through which an event table is read: enabled if it is off. Raises what makes no sense with event tables.
CREATE FUNCTION scd2_internal.event_feed(caller oid, source regclass, once boolean, sequence_by text,
    starting_version bigint, initial_start text, delete_sequence_by text) RETURNS integer
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF sequence_by IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'sequence_by is missing',
            DETAIL = format('The rows of "%s" are taken as events, which must say in which order they happened.',
                source),
            HINT = format('SELECT scd2.track(%L); -- for the history of the table itself; or give sequence_by',
                source::text);
    END IF;
    IF starting_version IS NOT NULL OR initial_start IS NOT NULL OR delete_sequence_by IS NOT NULL THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('%s is for flows over a feed', CASE WHEN starting_version IS NOT NULL
                THEN 'starting_version' WHEN initial_start IS NOT NULL THEN 'initial_start'
                ELSE 'delete_sequence_by' END),
            DETAIL = format('"%s" is a table whose rows are events.', source);
    END IF;
    IF once THEN                -- any relation will do; capture only says when the flow begins
        IF (SELECT c.relkind FROM pg_class AS c WHERE c.oid = source) NOT IN ('r', 'p', 'v', 'm', 'f') THEN
            RAISE wrong_object_type USING MESSAGE = format('"%s" has no rows to read', source);
        END IF;
        PERFORM scd2_internal.require_capture();
        RETURN NULL;
    END IF;
    RETURN scd2_internal.enabled_feed(caller, source);
END $$;
COMMENT ON FUNCTION scd2_internal.event_feed(oid, regclass, boolean, text, bigint, text, text) IS
    'The feed of an event table, enabled if it is off; NULL for a flow that runs once';

CREATE FUNCTION scd2_internal.create_auto_cdc_flow(caller oid, target text, source regclass, keys name[],
    sequence_by text, apply_as_deletes text, apply_as_truncates text,
        column_list name[], except_column_list name[], stored_as_scd_type integer, track_history_column_list name[],
            track_history_except_column_list name[],
        ignore_null_updates boolean, ignore_null_updates_column_list name[],
            ignore_null_updates_except_column_list name[], name name, once boolean,
        source_filter text, delete_sequence_by text, end_sequence_by text, starting_version bigint, initial_start text,
        start_column name, end_column name, current_column name, open_row_index boolean, shared boolean,
            on_invalid_event text, max_lateness text,
        refresh_interval interval) RETURNS name
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    asked scd2_internal.flow;
    place record;
BEGIN
    IF target IS NULL OR source IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = format('%s must not be NULL', CASE
            WHEN target IS NULL THEN 'target' ELSE 'source' END);
    END IF;
    PERFORM scd2_internal.check_not_repeated(once, refresh_interval);

    asked.keys := keys;
    asked.scd_type := stored_as_scd_type;
    asked.start_column := start_column;
    asked.end_column := end_column;
    asked.current_column := current_column;
    asked.sequence_by := sequence_by;
    asked.end_sequence_by := end_sequence_by;
    asked.apply_as_deletes := apply_as_deletes;
    asked.apply_as_truncates := apply_as_truncates;
    asked.source_filter := source_filter;
    asked.on_invalid_event := on_invalid_event;
    asked.initial_start := initial_start;
    asked.starting_version := starting_version;
    asked.refresh_interval := refresh_interval;
    asked.name := name;
    asked.source_relid := source;
    asked.once := coalesce(once, false);
    asked.max_lateness := max_lateness;
    SELECT r.* INTO place FROM scd2_internal.caller_relation(target) AS r;
    asked.target_schema := place.schema;
    asked.target_name := place.relation;
    asked.target_relid := place.relid;
    SELECT f.feed_id INTO asked.feed_id FROM scd2_internal.feed AS f WHERE f.feed_relid = source AND NOT f.disabled
        AND NOT asked.once;
    IF FOUND THEN
        asked.delete_sequence_by := delete_sequence_by;
        asked := scd2_internal.over_a_feed(asked, shared);
    ELSE
        asked.input := 'events';
        asked.feed_id := scd2_internal.event_feed(caller, source, asked.once, sequence_by, starting_version,
            initial_start, delete_sequence_by);
        IF apply_as_deletes IS NULL AND end_sequence_by IS NULL AND NOT asked.once THEN
            RAISE NOTICE 'flow into "%" deletes nothing: there is no apply_as_deletes', target;
        END IF;
    END IF;
    asked.flow_id := scd2_internal.add_feed_flow(caller, asked, column_list, except_column_list,
        track_history_column_list, track_history_except_column_list, open_row_index, shared,
        ignore_null_updates, ignore_null_updates_column_list, ignore_null_updates_except_column_list);
    RETURN (SELECT f.name FROM scd2_internal.flow AS f WHERE f.flow_id = asked.flow_id);
END $$;

COMMENT ON FUNCTION scd2_internal.create_auto_cdc_flow(oid, text, regclass, name[], text, text, text, name[], name[],
    integer, name[], name[], boolean, name[], name[], name, boolean, text, text, text, bigint, text, name, name, name,
    boolean, boolean, text, text, interval) IS
    'What scd2.create_auto_cdc_flow() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.create_auto_cdc_flow(target text, source regclass, keys name[], sequence_by text DEFAULT NULL,
    apply_as_deletes text DEFAULT NULL, apply_as_truncates text DEFAULT NULL,
        column_list name[] DEFAULT NULL, except_column_list name[] DEFAULT NULL, stored_as_scd_type integer DEFAULT 1,
            track_history_column_list name[] DEFAULT NULL,
        track_history_except_column_list name[] DEFAULT NULL, ignore_null_updates boolean DEFAULT false,
            ignore_null_updates_column_list name[] DEFAULT NULL,
        ignore_null_updates_except_column_list name[] DEFAULT NULL, name name DEFAULT NULL, once boolean DEFAULT false,
            source_filter text DEFAULT NULL,
        delete_sequence_by text DEFAULT NULL, end_sequence_by text DEFAULT NULL, starting_version bigint DEFAULT NULL,
            initial_start text DEFAULT NULL,
        start_column name DEFAULT '__start_at', end_column name DEFAULT '__end_at', current_column name DEFAULT NULL,
            open_row_index boolean DEFAULT false,
        shared boolean DEFAULT false, on_invalid_event text DEFAULT 'fail', max_lateness text DEFAULT NULL,
            refresh_interval interval DEFAULT '0') RETURNS name
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.create_auto_cdc_flow(text, regclass, name[], text, text, text, name[], name[], integer, name[],
    name[], boolean, name[], name[], name, boolean, text, text, text, bigint, text, name, name, name, boolean, boolean,
    text, text, interval) IS
    'Declares a flow that keeps "target" (created if it is not there) from "source": a change data feed, a table whose '
    'rows are events, or, with once, any relation whose rows are events; returns the flow''s name. keys: columns that '
    'identify a row; sequence_by, delete_sequence_by, end_sequence_by, initial_start: expressions of when a row is valid; '
    'apply_as_deletes, apply_as_truncates, source_filter: conditions on rows of the source; column_list, track_history_column_list '
    'and ignore_null_updates_column_list, or each with except: columns of the target, that open a version, in which NULL means '
    'not sent; stored_as_scd_type: 1 or 2; name: by default the target''s; starting_version: of the feed; start_column, end_column, '
    'current_column: names; open_row_index: a unique index on the keys of open rows; shared: others write into the target too; '
    'on_invalid_event: fail or quarantine; max_lateness: in the unit of the sequence''s differences; refresh_interval: 0: as changes arrive. '
    'Errors: 42501 not the owner, 42703/42701 columns, 42804/55000 a target or keys that do not fit, 22023 arguments, '
    '0A000 flows that cannot share a target.';

-- track, untrack

CREATE FUNCTION scd2_internal.track(caller oid, source regclass, target text, keys name[], stored_as_scd_type integer,
    sequence_by text, apply_as_deletes text,
        apply_as_truncates text, column_list name[], except_column_list name[], track_history_column_list name[],
            track_history_except_column_list name[], name name,
        source_filter text, delete_sequence_by text, starting_version bigint, initial_start text, start_column name,
            end_column name, current_column name,
        open_row_index boolean, shared boolean, on_invalid_event text, max_lateness text, refresh_interval interval)
            RETURNS regclass
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    asked   scd2_internal.flow;
    feed_id integer;
    place   record;
BEGIN
    IF source IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'source must not be NULL';
    END IF;

    feed_id := scd2_internal.enabled_feed(caller, source);
    IF keys IS NULL THEN
        SELECT array_agg(a.attname ORDER BY k.n) INTO keys
            FROM pg_index AS i CROSS JOIN unnest(i.indkey[0:i.indnkeyatts - 1]) WITH ORDINALITY AS k (attnum, n)
            JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
            WHERE i.indrelid = source AND i.indisprimary;
        IF keys IS NULL THEN
            RAISE object_not_in_prerequisite_state USING MESSAGE = format('"%s" has no primary key', source),
                DETAIL = 'A flow needs keys that identify a row.',
                HINT = format('SELECT scd2.track(%L, keys => ''{…}''); -- columns that a unique index guards',
                    source::text);
        END IF;
    END IF;
    IF target IS NULL THEN
        SELECT n.nspname AS schema, scd2_internal.object_name(c.relname, CASE stored_as_scd_type WHEN 1 THEN 'current'
            ELSE 'history' END) AS relation, NULL::oid AS relid
            INTO place
            FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = source;
        place.relid := to_regclass(format('%I.%I', place.schema, place.relation));
    ELSE
        SELECT r.* INTO place FROM scd2_internal.caller_relation(target) AS r;
    END IF;
    asked.sequence_by := sequence_by;
    asked.delete_sequence_by := delete_sequence_by;
    asked.apply_as_deletes := apply_as_deletes;
    asked.apply_as_truncates := apply_as_truncates;
    asked.source_filter := source_filter;
    asked.feed_id := feed_id;
    asked.target_schema := place.schema;
    asked.target_name := place.relation;
    asked.target_relid := place.relid;
    asked.keys := keys;
    asked.scd_type := stored_as_scd_type;
    asked.start_column := start_column;
    asked.end_column := end_column;
    asked.current_column := current_column;
    asked.on_invalid_event := on_invalid_event;
    asked.initial_start := initial_start;
    asked.starting_version := starting_version;
    asked.refresh_interval := refresh_interval;
    asked.name := name;
    asked.max_lateness := max_lateness;
    asked := scd2_internal.over_a_feed(asked, shared);
    asked.flow_id := scd2_internal.add_feed_flow(caller, asked, column_list, except_column_list,
        track_history_column_list, track_history_except_column_list, open_row_index, coalesce(shared, false));
    RETURN (SELECT f.target_relid FROM scd2_internal.flow AS f WHERE f.flow_id = asked.flow_id);
END $$;

COMMENT ON FUNCTION scd2_internal.track(oid, regclass, text, name[], integer, text, text, text, name[], name[], name[],
    name[], name, text, text, bigint, text, name, name, name, boolean, boolean, text, text, interval) IS
    'What scd2.track() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.track(source regclass, target text DEFAULT NULL, keys name[] DEFAULT NULL,
    stored_as_scd_type integer DEFAULT 2, sequence_by text DEFAULT NULL,
        apply_as_deletes text DEFAULT NULL, apply_as_truncates text DEFAULT NULL, column_list name[] DEFAULT NULL,
            except_column_list name[] DEFAULT NULL,
        track_history_column_list name[] DEFAULT NULL, track_history_except_column_list name[] DEFAULT NULL,
            name name DEFAULT NULL, source_filter text DEFAULT NULL,
        delete_sequence_by text DEFAULT NULL, starting_version bigint DEFAULT NULL, initial_start text DEFAULT NULL,
            start_column name DEFAULT '__start_at',
        end_column name DEFAULT '__end_at', current_column name DEFAULT NULL, open_row_index boolean DEFAULT false,
            shared boolean DEFAULT false,
        on_invalid_event text DEFAULT 'fail', max_lateness text DEFAULT NULL, refresh_interval interval DEFAULT '0')
            RETURNS regclass
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.track(regclass, text, name[], integer, text, text, text, name[], name[], name[], name[], name,
    text, text, bigint, text, name, name, name, boolean, boolean, text, text, interval) IS
    'Keeps the history (SCD type 2) or the current rows (type 1) of "source" in "target", by default <source>_history '
    'or <source>_current: enables the feed if it is off, creates the target, '
    'copies the rows that are there after the commit, and keeps it from then on. "keys": by default the primary key. '
    'Returns the target. The other arguments and errors as create_auto_cdc_flow.';

CREATE FUNCTION scd2_internal.untrack(caller oid, source regclass, drop_targets boolean, drop_feed boolean) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    doomed scd2_internal.flow;
    owner  oid;
BEGIN
    SELECT c.relowner INTO owner FROM pg_class AS c WHERE c.oid = source;
    PERFORM scd2_internal.check_member(caller, owner, 'table', source::text);
    FOR doomed IN SELECT f.* FROM scd2_internal.flow AS f WHERE f.source_relid = source AND f.feed_id IS NOT NULL
        ORDER BY f.flow_id LOOP
        doomed := scd2_internal.own_flow(caller, doomed.name);
        PERFORM scd2_internal.remove_flow(doomed, drop_targets);
    END LOOP;
    IF doomed.flow_id IS NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('"%s" is not tracked', source);
    END IF;
    IF drop_feed THEN
        PERFORM scd2_internal.disable_change_feed(caller, source, true);
    END IF;
END $$;

COMMENT ON FUNCTION scd2_internal.untrack(oid, regclass, boolean, boolean) IS
    'What scd2.untrack() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.untrack(source regclass, drop_targets boolean DEFAULT false, drop_feed boolean DEFAULT false)
    RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2.untrack(regclass, boolean, boolean) IS
    'Ends all flows over the feed of "source". Targets stay as ordinary tables, or are dropped with them; the feed '
    'goes on, or is disabled and dropped. 55000 if there is no flow, 42501 if not the owner.';

-- pause, resume, drop, refresh
-- 44_flow_life.sql: pausing, resuming, altering, dropping a flow, and building its target anew.

CREATE FUNCTION scd2_internal.pause_flow(caller oid, name name) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    named scd2_internal.flow := scd2_internal.own_flow(caller, name);
BEGIN
    UPDATE scd2_internal.flow AS f SET paused = true WHERE f.flow_id = named.flow_id AND NOT f.paused;
END $$;

COMMENT ON FUNCTION scd2_internal.pause_flow(oid, name) IS
    'What scd2.pause_flow() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.pause_flow(name name) RETURNS void AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2.pause_flow(name) IS
    'Stops a flow after its current batch, until resume_flow(). 42704 no such flow, 42501 not the owner of its target.';

CREATE FUNCTION scd2_internal.resume_flow(caller oid, name name) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    named scd2_internal.flow := scd2_internal.own_flow(caller, name);
BEGIN
    UPDATE scd2_internal.flow AS f SET paused = false WHERE f.flow_id = named.flow_id AND f.paused;
    UPDATE scd2_internal.flow_state AS s SET phase = coalesce(s.failed_phase, s.phase), failed_phase = NULL,
        failures = 0, retry_at = NULL
        WHERE s.flow_id = named.flow_id AND (s.failures > 0 OR s.retry_at IS NOT NULL OR s.failed_phase IS NOT NULL);
    PERFORM scd2_internal.wake_apply_at_commit();
END $$;

COMMENT ON FUNCTION scd2_internal.resume_flow(oid, name) IS
    'What scd2.resume_flow() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.resume_flow(name name) RETURNS void AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2.resume_flow(name) IS
    'Has a paused or failed flow go on where it stopped. 42704 no such flow, 42501 not the owner of its target.';

-- A version that a flow cannot apply is left out, and the flow goes on (src/flow/apply.c).
CREATE FUNCTION scd2_internal.skip_version(caller oid, flow name, version bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    named  scd2_internal.flow := scd2_internal.own_flow(caller, flow);
    state  scd2_internal.flow_state;
    latest bigint;
BEGIN
    PERFORM scd2_internal.lock_flow(named.flow_id);
    SELECT s.* INTO state FROM scd2_internal.flow_state AS s WHERE s.flow_id = named.flow_id;
    SELECT p.version INTO latest FROM scd2_internal.position AS p;
    IF named.feed_id IS NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('flow "%s" does not apply versions of a feed', flow);
    ELSIF coalesce(state.failed_phase, state.phase) IS DISTINCT FROM 'apply' THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('flow "%s" has not made its first copy', flow),
            DETAIL = 'That has rows as they are, of no version.';
    ELSIF version <= state.watermark_version THEN
        RAISE invalid_parameter_value USING MESSAGE = format('flow "%s" has applied version %s', flow, version),
            DETAIL = format('It stands at version %s.', state.watermark_version);
    ELSIF version > latest THEN
        RAISE invalid_parameter_value USING MESSAGE = format('version %s is yet to come', version), DETAIL = format('The latest version is %s.', latest);
    END IF;
    INSERT INTO scd2_internal.skipped_version (flow_id, version, skipped_by) VALUES (named.flow_id, version, pg_get_userbyid(caller)) ON CONFLICT DO NOTHING;
    UPDATE scd2_internal.flow AS f SET definition = f.definition + 1 WHERE f.flow_id = named.flow_id;
    PERFORM scd2_internal.resume_flow(caller, flow) WHERE NOT named.paused;
END $$;
COMMENT ON FUNCTION scd2_internal.skip_version(oid, name, bigint) IS
    'What scd2.skip_version() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.skip_version(flow name, version bigint) RETURNS void AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2.skip_version(name, bigint) IS
    'Has a flow leave out a version of its feed that it has not applied, for good, and go on (unless it is paused). Its events are counted as skipped, and scd2.skipped_versions has it. 42704 no such flow, 42501 not the '
    'owner of its target, 55000 the flow has no feed, or has not made its first copy, 22023 a version that it has applied or that is yet to come, 55P03 the flow is at work.';

-- The expressions of a flow that is altered: "source_filter" and "apply_as_deletes" are what was given, "asked" has all
-- that will be.
CREATE FUNCTION scd2_internal.with_altered_expressions(asked scd2_internal.flow, source_filter text,
    apply_as_deletes text) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    reads   oid := asked.source_relid;
    checked record;
BEGIN
    IF asked.input = 'events' THEN
        SELECT e.* INTO checked FROM scd2_internal.check_event_expressions(asked, reads,
            CASE WHEN asked.feed_id IS NULL
                THEN (SELECT array_agg(a.attname) FROM pg_attribute AS a WHERE a.attrelid = reads AND a.attnum > 0
                AND NOT a.attisdropped)
                 ELSE scd2_internal.feed_columns(asked.feed_id) END) AS e;
        IF checked.sequence_type <> asked.sequence_type THEN
            RAISE datatype_mismatch USING MESSAGE = format('sequence_by is of type %s instead of %s',
                checked.sequence_type, asked.sequence_type);
        END IF;
    ELSIF asked.input = 'append' THEN
        PERFORM scd2_internal.check_append_filter(source_filter, asked.source_relid, asked.columns);
    ELSIF asked.input = 'net' THEN
        SELECT f.feed_relid INTO reads FROM scd2_internal.feed AS f WHERE f.feed_id = asked.feed_id;
        PERFORM scd2_internal.check_image_expressions(asked, asked.source_relid, reads,
            scd2_internal.feed_columns(asked.feed_id));
    ELSE
        SELECT f.feed_relid INTO reads FROM scd2_internal.feed AS f WHERE f.feed_id = asked.feed_id;
        PERFORM scd2_internal.check_expression(e.text, reads, 'boolean'::regtype, e.argument)
            FROM (VALUES ('source_filter', source_filter), ('apply_as_deletes', apply_as_deletes)) AS e (argument, text)
                WHERE e.text IS NOT NULL;
        IF apply_as_deletes IS NOT NULL AND NOT asked.closes THEN
            asked.apply_as_deletes := scd2_internal.changes_that_delete(apply_as_deletes);
        END IF;
    END IF;
    RETURN asked;
END $$;
COMMENT ON FUNCTION scd2_internal.with_altered_expressions(scd2_internal.flow, text, text) IS
    'Part of alter_flow: the flow as it will be; raises what is wrong with its expressions';

-- What some kinds of flows do not have.
CREATE FUNCTION scd2_internal.check_can_be_altered(asked scd2_internal.flow, apply_as_deletes text, sequence_by text,
    on_invalid_event text, max_lateness text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    IF asked.input = 'net' AND on_invalid_event IS NOT NULL THEN
        RAISE invalid_parameter_value
            USING MESSAGE = format('flow "%s" has no invalid events: its sequence is that of the commits', asked.name);
    END IF;
    IF asked.input = 'append' AND coalesce(apply_as_deletes, sequence_by, on_invalid_event) IS NOT NULL THEN
        RAISE invalid_parameter_value
            USING MESSAGE = format('flow "%s" appends: it has neither deletes nor a sequence, and no row is invalid',
            asked.name);
    END IF;
    IF asked.input <> 'events' AND sequence_by IS NOT NULL THEN
        RAISE feature_not_supported
            USING MESSAGE = format('sequence_by of flow "%s", which is over a feed, cannot be altered', asked.name),
            DETAIL = 'Rows that were applied by the old one are deleted by the new one.';
    END IF;
    IF asked.input = 'append' AND max_lateness IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = format('flow "%s" appends: nothing is too late', asked.name);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_can_be_altered(scd2_internal.flow, text, text, text, text) IS
    'Part of alter_flow: raises 22023 or 0A000 for what is not for this kind of flow';

CREATE FUNCTION scd2_internal.with_altered_sequence(asked scd2_internal.flow, sequence_by text)
    RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
    IF sequence_by IS NOT NULL THEN
        IF asked.sequence_column IS DISTINCT FROM NULL AND asked.sequence_column <> sequence_by THEN
            RAISE object_not_in_prerequisite_state
                USING MESSAGE = format('flow "%s" remembers its sequence in column "%s"', asked.name, asked.sequence_column),
                DETAIL = 'Another sequence_by would not agree with what is there.';
        END IF;
        IF (SELECT f.names IS NOT NULL FROM scd2_internal.struct_fields(sequence_by) AS f) THEN
            RAISE feature_not_supported USING MESSAGE = 'sequence_by cannot become a struct',
                DETAIL = 'The interval columns have the type of the sequence.';
        END IF;
        asked.sequence_by := sequence_by;
    END IF;
    RETURN asked;
END $$;
COMMENT ON FUNCTION scd2_internal.with_altered_sequence(scd2_internal.flow, text) IS
    'Part of alter_flow: the flow with another sequence_by, NULL: as it is. Errors: 55000, 0A000';

-- alter_flow: what the flow was declared with, from now on. NULL: as it is.
CREATE FUNCTION scd2_internal.alter_flow(caller oid, name name, source_filter text, apply_as_deletes text,
    sequence_by text, refresh_interval interval,
        on_invalid_event text, max_lateness text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    asked scd2_internal.flow := scd2_internal.own_flow(caller, name);
BEGIN
    IF asked.input = 'snapshots' THEN
        PERFORM scd2_internal.alter_snapshot_flow(asked, refresh_interval,
            ROW(source_filter, apply_as_deletes, sequence_by, on_invalid_event,
            max_lateness) IS NOT DISTINCT FROM ROW(NULL::text, NULL::text, NULL::text, NULL::text, NULL::text));
        RETURN;
    END IF;
    PERFORM scd2_internal.check_can_be_altered(asked, apply_as_deletes, sequence_by, on_invalid_event, max_lateness);
    IF coalesce(source_filter, apply_as_deletes, sequence_by) IS NOT NULL THEN
        -- What is given names the columns as they are called now.
        PERFORM scd2_internal.follow_columns(asked.flow_id, stops => false);
        PERFORM scd2_internal.check_columns_followed(asked.flow_id) WHERE asked.feed_id IS NOT NULL;
        SELECT f.* INTO asked FROM scd2_internal.flow AS f WHERE f.flow_id = asked.flow_id;
    END IF;
    asked.source_filter := coalesce(source_filter, asked.source_filter);
    asked.apply_as_deletes := coalesce(apply_as_deletes, asked.apply_as_deletes);
    asked.refresh_interval := coalesce(refresh_interval, asked.refresh_interval);
    asked.on_invalid_event := coalesce(on_invalid_event, asked.on_invalid_event);
    PERFORM scd2_internal.check_flow_arguments(asked, false, NULL, NULL);
    asked := scd2_internal.with_altered_sequence(asked, sequence_by);
    asked := scd2_internal.with_altered_expressions(asked, source_filter, apply_as_deletes);
    PERFORM scd2_internal.check_no_dropped(asked)
        WHERE coalesce(source_filter, apply_as_deletes, sequence_by) IS NOT NULL AND asked.feed_id IS NOT NULL;
    IF max_lateness IS NOT NULL THEN
        asked.max_lateness := scd2_internal.check_max_lateness(max_lateness, asked, asked.sequence_type);
    END IF;
    UPDATE scd2_internal.flow AS f SET source_filter = asked.source_filter, apply_as_deletes = asked.apply_as_deletes,
        sequence_by = asked.sequence_by,
            refresh_interval = asked.refresh_interval, on_invalid_event = asked.on_invalid_event,
                max_lateness = asked.max_lateness, definition = f.definition + 1
        WHERE f.flow_id = asked.flow_id;
    PERFORM scd2_internal.wake_apply_at_commit();
END $$;
COMMENT ON FUNCTION scd2_internal.alter_flow(oid, name, text, text, text, interval, text, text) IS
    'What scd2.alter_flow() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.alter_flow(name name, source_filter text DEFAULT NULL, apply_as_deletes text DEFAULT NULL,
    sequence_by text DEFAULT NULL, refresh_interval interval DEFAULT NULL,
        on_invalid_event text DEFAULT NULL, max_lateness text DEFAULT NULL) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.alter_flow(name, text, text, text, interval, text, text) IS
    'Changes how a flow reads from now on; NULL leaves an option as it is. sequence_by must keep its type. What has '
    'been applied stays. 42704 no such flow, 42501 not the owner of its target, 42703, 42804 an expression, 0A000 or '
    '22023 not for this kind of flow, 55000 the target has the sequence in a column.';

CREATE FUNCTION scd2_internal.drop_flow(caller oid, name name, drop_target boolean) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.remove_flow(scd2_internal.own_flow(caller, name), drop_target);
END $$;

COMMENT ON FUNCTION scd2_internal.drop_flow(oid, name, boolean) IS
    'What scd2.drop_flow() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.drop_flow(name name, drop_target boolean DEFAULT false) RETURNS void AS 'MODULE_PATHNAME',
    'scd2_call_internal' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2.drop_flow(name, boolean) IS
    'Ends a flow. Its target stays as an ordinary table, or is dropped with it. 42704 no such flow, 42501 not the '
    'owner of its target, 55P03 if a batch does not end within pg_scd2.lock_timeout.';

-- The table as it was at the flow's beginning is today's with all later changes undone; that needs them all, and a
-- TRUNCATE does not say what it took.
CREATE FUNCTION scd2_internal.refresh_loss(refreshed scd2_internal.flow, state scd2_internal.flow_state,
    allow_loss boolean, key_filter text DEFAULT NULL, OUT version bigint, OUT at timestamptz)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    feed record;
BEGIN
    PERFORM scd2_internal.check_feed_runs(refreshed.feed_id, NULL);
    SELECT f.feed_relid, h.earliest_state, h.removed_until, upper(e.gap) AS behind_gap INTO feed
        FROM scd2_internal.feed AS f LEFT JOIN scd2_internal.feed_state AS e USING (feed_id),
            scd2_internal.hold_feed(f.feed_id, f.feed_relid) AS h
            WHERE f.feed_id = refreshed.feed_id;
    IF NOT FOUND THEN                       -- a flow that runs once
        RETURN;
    END IF;
    version := scd2_internal.as_owner(feed.feed_relid,
        format('SELECT max(_commit_version) FROM %s WHERE _commit_version > $1 AND _change_type = ''truncate''',
            feed.feed_relid::regclass), state.begin_version);
    version := greatest(version, CASE WHEN feed.earliest_state > state.begin_version THEN feed.earliest_state END,
        CASE WHEN feed.behind_gap > state.begin_version THEN feed.behind_gap END);
    IF version IS NULL THEN
        RETURN;
    END IF;
    IF NOT coalesce(allow_loss, false) THEN
        RAISE object_not_in_prerequisite_state
            USING MESSAGE = format('a full refresh of "%s" would lose history', refreshed.target_relid::regclass),
            DETAIL = format('The flow began at version %s; the table can be rebuilt from version %s on, after %s.',
                state.begin_version, version,
                            CASE WHEN version = feed.earliest_state THEN 'retention removed what was before'
                                 WHEN version = feed.behind_gap THEN 'a gap of its feed'
                                ELSE 'a TRUNCATE of its source' END),
            HINT = format('SELECT scd2.full_refresh(%L, %sallow_loss => true);', refreshed.target_relid::regclass,
                CASE WHEN key_filter IS NOT NULL THEN format('key_filter => %L, ', key_filter) END);
    END IF;
    at := greatest(feed.removed_until, scd2_internal.as_owner(feed.feed_relid,
        format('SELECT max(_commit_timestamp) FROM %s WHERE _commit_version <= $1', feed.feed_relid::regclass),
        version)::timestamptz);
END $$;
COMMENT ON FUNCTION scd2_internal.refresh_loss(scd2_internal.flow, scd2_internal.flow_state, boolean, text) IS
    'From which version (and time) on a flow can begin anew, NULL: from its beginning. Errors: 55000 if that is '
    'later, unless allow_loss';

-- A flow over a feed goes back to its beginning, or as far as it can.
CREATE FUNCTION scd2_internal.begin_again(refreshed scd2_internal.flow, allow_loss boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    state scd2_internal.flow_state;
    loss  record;
BEGIN
    SELECT s.* INTO state FROM scd2_internal.flow_state AS s WHERE s.flow_id = refreshed.flow_id;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT l.* INTO loss FROM scd2_internal.refresh_loss(refreshed, state, allow_loss) AS l;
    UPDATE scd2_internal.flow_state AS s SET begin_version = coalesce(loss.version, s.begin_version),
        watermark_version = coalesce(loss.version, s.begin_version),
            begin_timestamp = coalesce(loss.at, s.begin_timestamp),
                watermark_timestamp = coalesce(loss.at, s.begin_timestamp)
        WHERE s.flow_id = refreshed.flow_id;
END $$;
COMMENT ON FUNCTION scd2_internal.begin_again(scd2_internal.flow, boolean) IS
    'Sets a flow back to its beginning; 55000 if the feed does not reach back, unless allow_loss';

-- What a target is made of is said by the first flow into it.
CREATE FUNCTION scd2_internal.first_flow(target regclass) RETURNS scd2_internal.flow
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.flow;
BEGIN
    IF target IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'target must not be NULL';
    END IF;
    SELECT x.* INTO f FROM scd2_internal.flow AS x WHERE x.target_relid = target ORDER BY x.flow_id LIMIT 1;
    IF NOT FOUND THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('"%s" is not the target of a flow', target),
            HINT = 'SELECT target FROM scd2.flows;';
    END IF;
    RETURN f;
END $$;
COMMENT ON FUNCTION scd2_internal.first_flow(regclass) IS
    'The first flow into a target; 22004 NULL, 55000 if there is none';

-- What a column had that the source has no more is, for rows that did not change since, in the target alone.
CREATE FUNCTION scd2_internal.lost_column(target oid, for_good boolean) RETURNS name
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.name FROM scd2_internal.flow f, scd2_internal.followed_columns(f.feed_id) c
    WHERE f.target_relid = target AND c.dropped AND c.name = ANY (f.columns)
      AND (NOT for_good OR c.until IS NULL OR c.name = (scd2_internal.retyped_since(f)).unrepaired)
    ORDER BY f.flow_id, c.attnum LIMIT 1
$$;
COMMENT ON FUNCTION scd2_internal.lost_column(oid, boolean) IS
    'A column of a target that was dropped from a source, or kept of one whose type changed; for_good: open rows may have something in it; NULL: none';

CREATE FUNCTION scd2_internal.check_columns_lost(target regclass, key_filter text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lost name := scd2_internal.lost_column(target, false);
BEGIN
    IF lost IS NOT NULL THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('a full refresh of "%s" would lose history', target),
            DETAIL = format('Column "%s" is not in its source any more: what it had is known only of rows that changed since the feed began.', lost),
            HINT = format('SELECT scd2.full_refresh(%L, %sallow_loss => true);', target,
                CASE WHEN key_filter IS NOT NULL THEN format('key_filter => %L, ', key_filter) END);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_columns_lost(regclass, text) IS
    'Errors: 55000 a column was dropped from a source of the target';

CREATE FUNCTION scd2_internal.full_refresh(caller oid, target regclass, key_filter text, allow_loss boolean)
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    refreshed scd2_internal.flow;
    state     scd2_internal.flow_state;
BEGIN
    PERFORM scd2_internal.check_owner(caller, target) WHERE target IS NOT NULL;
    refreshed := scd2_internal.own_flow(caller, (scd2_internal.first_flow(target)).name);
    PERFORM scd2_internal.check_columns_lost(target, key_filter) WHERE NOT coalesce(allow_loss, false);
    IF key_filter IS NOT NULL THEN
        PERFORM scd2_internal.refresh_keys(target, refreshed, key_filter, coalesce(allow_loss, false));
        RETURN;
    ELSIF refreshed.kind = 'append' THEN
        PERFORM scd2_internal.refresh_append(target, allow_loss);
        RETURN;
    END IF;
    PERFORM scd2_internal.lock_flow(refreshed.flow_id);
    SELECT s.* INTO state FROM scd2_internal.flow_state AS s WHERE s.flow_id = refreshed.flow_id;
    IF NOT FOUND THEN           -- it has not even begun: the first copy is still to come
        RETURN;
    END IF;
    PERFORM scd2_internal.check_feed_runs(f.feed_id, NULL) FROM scd2_internal.flow AS f WHERE f.target_relid = target;
    PERFORM scd2_internal.forget_purge(target);
    -- begins anew with the events that are there, of all flows into the target
    IF refreshed.input IN ('events', 'snapshots')
        OR EXISTS (SELECT FROM scd2_internal.flow AS f WHERE f.target_relid = target AND f.flow_id <> refreshed.flow_id)
        THEN
        PERFORM scd2_internal.check_snapshots_lost(target) WHERE NOT coalesce(allow_loss, false);
        PERFORM scd2_internal.lock_flow(f.flow_id) FROM scd2_internal.flow AS f WHERE f.target_relid = target
            AND f.flow_id <> refreshed.flow_id ORDER BY f.flow_id;
        PERFORM scd2_internal.begin_again(f, allow_loss) FROM scd2_internal.flow AS f WHERE f.target_relid = target
            AND f.input = 'changes';
        -- what workers have of its marks will be gone
        UPDATE scd2_internal.flow AS f SET definition = f.definition + 1 WHERE f.target_relid = target;
        UPDATE scd2_internal.flow_state AS s SET phase = 'copy', rereads = false, failed_phase = NULL, failures = 0, retry_at = NULL,
            finished_at = NULL, highest = NULL, horizon = NULL
            WHERE s.flow_id IN (SELECT f.flow_id FROM scd2_internal.flow AS f WHERE f.target_relid = target);
        PERFORM scd2_internal.wake_apply_at_commit();
        RETURN;
    END IF;
    PERFORM scd2_internal.begin_again(refreshed, allow_loss);
    UPDATE scd2_internal.flow_state AS s SET phase = 'copy', rereads = false, failed_phase = NULL, failures = 0, retry_at = NULL,
        finished_at = NULL, highest = NULL, horizon = NULL
        WHERE s.flow_id = refreshed.flow_id;
    PERFORM scd2_internal.wake_apply_at_commit();
END $$;

COMMENT ON FUNCTION scd2_internal.full_refresh(oid, regclass, text, boolean) IS
    'What scd2.full_refresh() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.full_refresh(target regclass, key_filter text DEFAULT NULL, allow_loss boolean DEFAULT false)
    RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.full_refresh(regclass, text, boolean) IS
    'Has a worker rebuild the target from its source and feed, with the flow''s recorded beginning; readers see the '
    'old rows until it is done. With key_filter, a condition over the keys, the rows of these keys are made again, '
    'in the caller''s transaction, until whose end the flows wait. 55000 if history would be lost (allow_loss => '
    'true: accept it), 42501 not the owner, 42703, 42804 the filter, 0A000 a filter with snapshots or max_lateness, '
    '22023 a filter without keys, 25001 a filter in a transaction that has written the source or whose snapshot is '
    'fixed.';
-- 45_snapshot.sql: complete snapshots as a source.
--
-- A flow over snapshots has no feed and begins at no place of the log: its state is there with it. Snapshots are
-- applied by scd2.apply_snapshot() in the caller's transaction, or by a worker, every
-- refresh_interval or once; src/flow/snapshot.c is what both do. Alone in its target it needs no memory: versions grow.

CREATE FUNCTION scd2_internal.check_version_query(query text, role oid) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_check_version_query' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.check_version_query(text, oid)
    IS 'Raises 22023 unless the query is one SELECT of one column, as the role reads it';

CREATE FUNCTION scd2_internal.lock_target(target oid) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_lock_target' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.lock_target(oid)
    IS 'Takes the lock under which flows write into a target that several have; 55P03 after pg_scd2.lock_timeout';

CREATE FUNCTION scd2_internal.take_snapshot(flow_id integer, version text, expected_rows bigint, dry_run boolean,
    allow_deletes boolean,
        OUT inserted bigint, OUT updated bigint, OUT deleted bigint, OUT unchanged bigint)
    AS 'MODULE_PATHNAME', 'scd2_take_snapshot' LANGUAGE C;
COMMENT ON FUNCTION scd2_internal.take_snapshot(integer, text, bigint, boolean, boolean)
    IS 'Applies a snapshot; the caller has the locks and has checked the rights';

-- The type of versions, as other flows have that of their sequence_by.
CREATE FUNCTION scd2_internal.snapshot_sequence(wanted text, source oid, OUT sequence_type text,
    OUT sequence_collation oid, OUT control_columns name[])
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF wanted IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'sequence_type must not be NULL';
    END IF;
    SELECT format_type(e.type, -1), e.collation INTO sequence_type, sequence_collation
        FROM scd2_internal.sequence_expression('NULL::' || wanted, source, 'sequence_type') AS e;
    control_columns := '{}';
END $$;
COMMENT ON FUNCTION scd2_internal.snapshot_sequence(text, oid)
    IS 'Raises unless the type has an order; the base type of a domain';

-- The snapshot is joined with the target, in full: that takes a key type that can be hashed or merged. (All of the
-- server's can.)
CREATE FUNCTION scd2_internal.check_keys_join(source oid, keys name[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bad record;
BEGIN
    SELECT a.attname AS name, format_type(b.base, -1) AS type INTO bad
        FROM pg_attribute AS a CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) AS b
        JOIN pg_opclass AS c ON c.opcdefault AND c.opcintype = b.base
        JOIN pg_am AS m ON m.oid = c.opcmethod AND m.amname = 'btree'
        JOIN pg_amop AS p ON p.amopfamily = c.opcfamily AND p.amoplefttype = c.opcintype
            AND p.amoprighttype = c.opcintype AND p.amopstrategy = 3
        JOIN pg_operator AS o ON o.oid = p.amopopr
        WHERE a.attrelid = source AND a.attname = ANY (keys) AND NOT o.oprcanmerge AND NOT o.oprcanhash
        LIMIT 1;
    IF FOUND THEN
        RAISE feature_not_supported USING MESSAGE = format('column "%s" of "%s" cannot be a key of snapshots',
            bad.name, source::regclass),
            DETAIL = format('The equality of type %s supports neither merge nor hash joins.', bad.type);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_keys_join(oid, name[]) IS 'Raises 0A000 unless the keys can be joined in full';

CREATE FUNCTION scd2_internal.check_snapshot_schedule(asked scd2_internal.flow, sequence_type text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF asked.version_query IS NULL AND (asked.once OR asked.refresh_interval > '0')
        AND sequence_type NOT IN ('timestamp with time zone', 'timestamp without time zone', 'date') THEN
        RAISE invalid_parameter_value USING MESSAGE = 'version_query is missing',
            DETAIL = format('A snapshot that a worker takes is of version now(), which is no %s.', sequence_type),
                HINT = 'version_query => ''SELECT …''';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_snapshot_schedule(scd2_internal.flow, text)
    IS 'Raises 22023 if a worker could give its snapshots no version';

-- What only flows over snapshots have.
CREATE FUNCTION scd2_internal.check_snapshot_flow(asked scd2_internal.flow, source oid, sequence_type text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    others name[];
BEGIN
    IF asked.delete_absent IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'delete_absent must not be NULL';
    END IF;
    IF asked.max_delete_fraction IS NULL OR NOT asked.max_delete_fraction BETWEEN 0 AND 1 THEN
        RAISE invalid_parameter_value USING MESSAGE = format('max_delete_fraction is %s',
            coalesce(asked.max_delete_fraction::text, 'NULL')),
            HINT = 'It is from 0 to 1: 0.1 for at most a tenth of the keys.';
    END IF;
    PERFORM scd2_internal.check_keys_join(source, asked.keys);
    PERFORM scd2_internal.check_snapshot_schedule(asked, sequence_type);
    IF asked.scope IS NOT NULL THEN
        PERFORM scd2_internal.check_expression(asked.scope, source, 'boolean'::regtype, 'scope');
        others := ARRAY(SELECT c FROM unnest(scd2_internal.expression_columns(asked.scope, source, 'scope')) AS c
            WHERE c <> ALL (asked.keys));
        IF others <> '{}' THEN
            RAISE invalid_parameter_value USING MESSAGE = 'scope must use key columns only',
                DETAIL = format('It uses %s.', array_to_string(others, ', ')),
                HINT = 'A row that a snapshot lacks has nothing but its key to be asked by.';
        END IF;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_snapshot_flow(scd2_internal.flow, oid, text)
    IS 'Raises what is wrong with a flow over snapshots';

-- The same of a flow over a feed with its default sequence: as it was just before the last version that it has
-- applied, whose changes are in the rows. From then on it remembers what changes it makes.
CREATE FUNCTION scd2_internal.remember_changes_from_now(first scd2_internal.flow) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.check_keys_immediate(first.source_relid, first.keys);
    first := scd2_internal.give_memory(first, first.target_relid, 0);
    UPDATE scd2_internal.flow AS f SET memory_name = first.memory_name, memory_relid = first.memory_relid,
            input = 'changes', closes = true,
            -- nothing that it will bring is below the first moment after what it has brought
            purged_before = (SELECT to_char(least(f.purged_before::timestamptz, s.watermark_timestamp + interval '1 us') AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') || '+00'
                             FROM scd2_internal.flow_state AS s WHERE s.flow_id = f.flow_id AND f.purged_before IS NOT NULL), sequence_by = '_commit_timestamp', delete_sequence_by = '_commit_timestamp',
            apply_as_truncates = coalesce(f.apply_as_truncates, '_change_type = ''truncate''')
        WHERE f.flow_id = first.flow_id;
    INSERT INTO scd2_internal.mark (target_schema, target_name, target_relid, sequence, kind, flow_id)
        SELECT first.target_schema, first.target_name, first.target_relid,
               to_char(s.watermark_timestamp AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') || '+00', 'horizon', first.flow_id
        FROM scd2_internal.flow_state AS s
        WHERE s.flow_id = first.flow_id AND coalesce(s.failed_phase, s.phase) <> 'copy';
    SELECT f.* INTO first FROM scd2_internal.flow AS f WHERE f.flow_id = first.flow_id;
    RETURN first;
END $$;
COMMENT ON FUNCTION scd2_internal.remember_changes_from_now(scd2_internal.flow) IS
    'Gives the target of a flow over a feed a memory, with a mark that says how each key was';

-- A flow that had its target for itself gets company: its rows are taken as found, as of its last snapshot.
CREATE FUNCTION scd2_internal.remember_from_now(first scd2_internal.flow) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.lock_flow(first.flow_id);
    IF first.input = 'net' THEN
        RETURN scd2_internal.remember_changes_from_now(first);
    END IF;
    IF first.scope IS NOT NULL THEN
        PERFORM scd2_internal.check_immutable(first.scope, first.source_relid, 'scope');
    END IF;
    first := scd2_internal.give_memory(first, first.target_relid, (SELECT t.typcollation FROM pg_type AS t
        WHERE t.oid = first.sequence_type::regtype));
    UPDATE scd2_internal.flow AS f SET memory_name = first.memory_name, memory_relid = first.memory_relid, purged_before = NULL
        WHERE f.flow_id = first.flow_id;
    INSERT INTO scd2_internal.mark (target_schema, target_name, target_relid, sequence, kind, flow_id, scope,
        scope_alias, scope_settings)
        SELECT first.target_schema, first.target_name, first.target_relid, s.snapshot_version, 'snapshot',
            first.flow_id, first.scope, first.source_name,
               CASE WHEN first.scope IS NOT NULL THEN first.settings END
        FROM scd2_internal.flow_state AS s WHERE s.flow_id = first.flow_id AND s.snapshot_version IS NOT NULL;
    RETURN first;
END $$;
COMMENT ON FUNCTION scd2_internal.remember_from_now(scd2_internal.flow)
    IS 'Gives the target of a flow that has none a memory, with its last snapshot in it';

CREATE FUNCTION scd2_internal.create_auto_cdc_from_snapshot_flow(caller oid, target text, source regclass, keys name[],
    sequence_type regtype, stored_as_scd_type integer,
        column_list name[], except_column_list name[], track_history_column_list name[],
            track_history_except_column_list name[], name name, once boolean,
        start_column name, end_column name, current_column name, open_row_index boolean, shared boolean, scope text,
            delete_absent boolean, max_delete_fraction numeric,
        refresh_interval interval, version_query text) RETURNS name
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    asked scd2_internal.flow;
    rel   record;
    place record;
BEGIN
    IF target IS NULL OR source IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = format('%s must not be NULL',
            CASE WHEN target IS NULL THEN 'target' ELSE 'source' END);
    END IF;
    PERFORM scd2_internal.check_not_repeated(once, refresh_interval);
    IF refresh_interval <= '0' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'refresh_interval must be positive',
            HINT = 'Without one, only scd2.apply_snapshot() applies snapshots.';
    END IF;
    SELECT c.relkind, c.relpersistence INTO rel FROM pg_class AS c WHERE c.oid = source;
    IF rel.relkind NOT IN ('r', 'p', 'v', 'm', 'f') OR rel.relpersistence = 't' THEN
        RAISE wrong_object_type USING MESSAGE = format('"%s" cannot be a source of snapshots', source),
            DETAIL = CASE WHEN rel.relpersistence = 't' THEN 'It is temporary.' ELSE 'It has no rows to read.' END;
    END IF;
    asked.input := 'snapshots';
    asked.source_relid := source;
    asked.keys := keys;
    asked.sequence_type := format_type(sequence_type, -1);
    asked.scd_type := stored_as_scd_type;
    asked.name := name;
    asked.once := coalesce(once, false);
    asked.start_column := start_column;
    asked.end_column := end_column;
    asked.current_column := current_column;
    asked.scope := scope;
    asked.delete_absent := delete_absent;
    asked.max_delete_fraction := max_delete_fraction;
    asked.refresh_interval := coalesce(refresh_interval, '0');
    asked.version_query := version_query;
    asked.on_invalid_event := 'fail';
    SELECT r.* INTO place FROM scd2_internal.caller_relation(target) AS r;
    asked.target_schema := place.schema;
    asked.target_name := place.relation;
    asked.target_relid := place.relid;
    asked.flow_id := scd2_internal.add_feed_flow(caller, asked, column_list, except_column_list,
        track_history_column_list, track_history_except_column_list, open_row_index, coalesce(shared, false));
    IF version_query IS NOT NULL THEN
        PERFORM scd2_internal.check_version_query(version_query, c.relowner) FROM scd2_internal.flow AS f
            JOIN pg_class AS c ON c.oid = f.target_relid WHERE f.flow_id = asked.flow_id;
    END IF;
    RETURN (SELECT f.name FROM scd2_internal.flow AS f WHERE f.flow_id = asked.flow_id);
END $$;
COMMENT ON FUNCTION scd2_internal.create_auto_cdc_from_snapshot_flow(oid, text, regclass, name[], regtype, integer,
    name[], name[], name[], name[], name, boolean, name, name, name, boolean, boolean, text, boolean, numeric,
    interval, text) IS
    'What scd2.create_auto_cdc_from_snapshot_flow() does, with the rights of the extension''s owner; "caller" is '
    'whose rights count';

CREATE FUNCTION scd2.create_auto_cdc_from_snapshot_flow(target text, source regclass, keys name[],
    sequence_type regtype DEFAULT 'timestamptz', stored_as_scd_type integer DEFAULT 1,
        column_list name[] DEFAULT NULL, except_column_list name[] DEFAULT NULL,
            track_history_column_list name[] DEFAULT NULL, track_history_except_column_list name[] DEFAULT NULL,
        name name DEFAULT NULL, once boolean DEFAULT false, start_column name DEFAULT '__start_at',
            end_column name DEFAULT '__end_at', current_column name DEFAULT NULL,
        open_row_index boolean DEFAULT false, shared boolean DEFAULT false, scope text DEFAULT NULL,
            delete_absent boolean DEFAULT true, max_delete_fraction numeric DEFAULT 0.1,
        refresh_interval interval DEFAULT NULL, version_query text DEFAULT NULL) RETURNS name
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.create_auto_cdc_from_snapshot_flow(text, regclass, name[], regtype, integer, name[], name[],
    name[], name[], name, boolean, name, name, name, boolean, boolean, text, boolean, numeric, interval, text) IS
    'Declares a flow that keeps "target" (created if it is not there) from snapshots of "source", any relation: its '
    'rows, each time anew, are all that there is. Returns the flow''s name. apply_snapshot() applies one; '
    'with refresh_interval or once a worker does, of the version that version_query gives (NULL: now()). '
    'sequence_type: of versions; scope: a condition over the keys, only keys for which it is true are deleted when absent; '
    'delete_absent: false: none is; max_delete_fraction: of the keys, 0 to 1. The other arguments and errors as create_auto_cdc_flow.';

CREATE FUNCTION scd2_internal.check_snapshot_can_be_applied(named scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    phase text;
BEGIN
    IF named.kind <> 'snapshot' THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('flow "%s" takes no snapshots', named.name),
            HINT = 'SELECT flow FROM scd2.flows WHERE kind = ''snapshot'';';
    END IF;
    IF named.paused THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('flow "%s" is paused', named.name),
            HINT = format('SELECT scd2.resume_flow(%L);', named.name);
    END IF;
    SELECT coalesce(s.failed_phase, s.phase) INTO phase FROM scd2_internal.flow_state AS s
        WHERE s.flow_id = named.flow_id;
    IF phase = 'copy' THEN
        RAISE object_not_in_prerequisite_state
            USING MESSAGE = format('a full refresh of the target of flow "%s" has not ended', named.name),
            HINT = 'SELECT scd2.sync();';
    ELSIF phase = 'done' THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('flow "%s" has taken its snapshot', named.name),
            DETAIL = 'It is of once => true.',
            HINT = format('SELECT scd2.full_refresh(%L);', named.target_relid::regclass::text);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_snapshot_can_be_applied(scd2_internal.flow)
    IS 'Raises 55000 unless the flow is over snapshots and ready for one';

CREATE FUNCTION scd2_internal.apply_snapshot(caller oid, flow name, snapshot_version text, expected_rows bigint,
    dry_run boolean, allow_deletes boolean)
    RETURNS TABLE (inserted bigint, updated bigint, deleted bigint, unchanged bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    named  scd2_internal.flow := scd2_internal.find_flow(caller, flow);
    counts record;
BEGIN
    IF snapshot_version IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'snapshot_version must not be NULL';
    END IF;
    PERFORM scd2_internal.check_snapshot_can_be_applied(named);
    -- Until the transaction ends: two runs never interleave.
    PERFORM scd2_internal.lock_flow(named.flow_id);
    PERFORM scd2_internal.lock_target(named.target_relid);
    PERFORM scd2_internal.check_snapshot_can_be_applied(scd2_internal.find_flow(caller, flow));
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        -- What was applied since the transaction's snapshot was taken would not be seen, and be undone in part: a
        -- serialization failure instead.
        PERFORM FROM scd2_internal.flow_state AS s JOIN scd2_internal.flow AS f USING (flow_id)
            WHERE f.target_relid = named.target_relid FOR UPDATE OF s;
    END IF;
    -- (Before it, the flow follows the columns of its source.)
    IF coalesce(dry_run, false) THEN
        BEGIN
            SELECT t.* INTO counts FROM scd2_internal.take_snapshot(named.flow_id, snapshot_version, expected_rows,
                true, allow_deletes) AS t;
            RAISE EXCEPTION SQLSTATE 'SC2DR' USING MESSAGE = 'what a dry run did is undone';
        EXCEPTION WHEN SQLSTATE 'SC2DR' THEN
            RETURN QUERY SELECT counts.inserted, counts.updated, counts.deleted, counts.unchanged;
            RETURN;
        END;
    END IF;
    RETURN QUERY SELECT t.* FROM scd2_internal.take_snapshot(named.flow_id, snapshot_version, expected_rows, false,
        allow_deletes) AS t;
END $$;
COMMENT ON FUNCTION scd2_internal.apply_snapshot(oid, name, text, bigint, boolean, boolean)
    IS 'What scd2.apply_snapshot() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.apply_snapshot(flow name, snapshot_version text, expected_rows bigint DEFAULT NULL,
    dry_run boolean DEFAULT false, allow_deletes boolean DEFAULT false)
    RETURNS TABLE (inserted bigint, updated bigint, deleted bigint, unchanged bigint)
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.apply_snapshot(name, text, bigint, boolean, boolean) IS
    'Applies what the source of a flow over snapshots shows now, as version "snapshot_version", in the caller''s '
    'transaction, after the target has followed the columns of the source; how many keys it added, changed, deleted, '
    'and left as they were. A version must be above the '
    'last; the same is skipped with a notice. expected_rows: of the source; dry_run: only counts; allow_deletes: of any '
    'number of keys. Refused: a version below the last (22023), keys that are NULL (22004), out of scope (22000) or '
    'there twice (21000), another number than expected_rows (22000); more deletes than max_delete_fraction, or no '
    'row at all (55000, '
    'unless allow_deletes), columns that cannot be followed (55000; 55P03 while the target is in use). 42704 no such flow, 42501 not the owner of its target, 55P03 if the flow is at work.';

CREATE FUNCTION scd2.apply_snapshot(flow name, snapshot_version anyelement, expected_rows bigint DEFAULT NULL,
    dry_run boolean DEFAULT false, allow_deletes boolean DEFAULT false)
    RETURNS TABLE (inserted bigint, updated bigint, deleted bigint, unchanged bigint)
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.* FROM scd2.apply_snapshot($1, $2::text, $3, $4, $5) AS s
$$;
COMMENT ON FUNCTION scd2.apply_snapshot(name, anyelement, bigint, boolean, boolean)
    IS 'The same with a version of any type: apply_snapshot(''f'', 42). Arguments and errors as there.';

CREATE FUNCTION scd2_internal.alter_snapshot_flow(altered scd2_internal.flow, refresh_interval interval,
    nothing_else boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT nothing_else THEN
        RAISE feature_not_supported
            USING MESSAGE = format('of flow "%s", which is over snapshots, only refresh_interval can be altered',
            altered.name);
    END IF;
    altered.refresh_interval := coalesce(alter_snapshot_flow.refresh_interval, altered.refresh_interval);
    IF altered.refresh_interval < '0' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'refresh_interval must not be negative';
    END IF;
    PERFORM scd2_internal.check_not_repeated(altered.once, altered.refresh_interval);
    PERFORM scd2_internal.check_snapshot_schedule(altered, altered.sequence_type);
    UPDATE scd2_internal.flow AS f SET refresh_interval = altered.refresh_interval, definition = f.definition + 1
        WHERE f.flow_id = altered.flow_id;
    PERFORM scd2_internal.wake_apply_at_commit();
END $$;
COMMENT ON FUNCTION scd2_internal.alter_snapshot_flow(scd2_internal.flow, interval, boolean)
    IS 'alter_flow() for flows over snapshots. An interval of 0 leaves them to apply_snapshot()';

-- A refresh knows what the source shows now, not what earlier snapshots showed.
CREATE FUNCTION scd2_internal.check_snapshots_lost(target regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    losing record;
BEGIN
    SELECT f.name, s.batches INTO losing FROM scd2_internal.flow AS f JOIN scd2_internal.flow_state AS s USING (flow_id)
        WHERE f.target_relid = target AND f.kind = 'snapshot' AND s.batches > 1 AND (f.scd_type = 2
            OR NOT f.delete_absent)
        ORDER BY f.flow_id LIMIT 1;
    IF FOUND THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('a full refresh of "%s" would lose history',
            target),
            DETAIL = format('Flow "%s" has applied %s snapshots; only what its source shows now can be applied again.',
                losing.name, losing.batches),
            HINT = format('SELECT scd2.full_refresh(%L, allow_loss => true);', target::text);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_snapshots_lost(regclass)
    IS 'Raises 55000 if a full refresh could not bring back what earlier snapshots made';
-- 46_append.sql: flows that append rows (src/flow/append.c).
--
-- Their targets have no keys and no interval: the columns of the sources, by name, and nothing says that a row came
-- twice. Several flows append to one target, which has the union of their columns; a column that a source lacks is
-- what INSERT makes of it.

CREATE FUNCTION scd2_internal.check_append_source(caller oid, source regclass, once boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    rel pg_class;
    f   scd2_internal.feed;
BEGIN
    SELECT c.* INTO rel FROM pg_class AS c WHERE c.oid = source;
    PERFORM scd2_internal.check_member(caller, rel.relowner, 'table', source::text);
    IF once THEN
        IF rel.relkind NOT IN ('r', 'p', 'v', 'm', 'f') THEN
            RAISE wrong_object_type USING MESSAGE = format('"%s" has no rows to read', source);
        END IF;
        PERFORM scd2_internal.require_capture();        -- it says when the flow begins
        RETURN;
    END IF;
    SELECT x.* INTO f FROM scd2_internal.feed AS x WHERE x.feed_relid = source ORDER BY x.feed_id DESC LIMIT 1;
    IF FOUND THEN
        RAISE wrong_object_type USING MESSAGE = format('"%s" is a change data feed', source),
            DETAIL = 'Rows that are inserted into a table are appended; its feed is read for that.',
            HINT = format('source => %L, or once => true for the changes that are there.', f.source_relid::regclass);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_append_source(oid, regclass, boolean) IS 'Raises what stands against appending from a relation: 42501 not the owner, 42809 it has no rows or is a feed, 55000 nothing captures';

-- The rows that a filter lets pass are decided by the columns that the feed has.
CREATE FUNCTION scd2_internal.check_append_filter(source_filter text, source oid, columns name[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF source_filter IS NOT NULL THEN
        PERFORM scd2_internal.check_expression(source_filter, source, 'boolean'::regtype, 'source_filter');
        PERFORM scd2_internal.check_column_list(scd2_internal.expression_columns(source_filter, source, 'source_filter'), columns, 'source_filter', source::regclass::text);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_append_filter(text, oid, name[]) IS 'Raises what is wrong with the source_filter of an append flow';

-- The columns of a target for these of a source, as definitions: all, or those that "target" lacks.
CREATE FUNCTION scd2_internal.append_definitions(source oid, columns name[], target oid) RETURNS SETOF text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('%I %s%s', t.name, t.type, CASE WHEN c.oid IS NOT NULL THEN format(' COLLATE %I.%I', n.nspname, c.collname) END)
    FROM scd2_internal.target_columns(source, columns, '{}', 1, NULL, 0, NULL, NULL, NULL) AS t
         LEFT JOIN pg_collation AS c ON c.oid = t.collation LEFT JOIN pg_namespace AS n ON n.oid = c.collnamespace
    WHERE target IS NULL OR NOT EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = target AND a.attname = t.name AND a.attnum > 0 AND NOT a.attisdropped)
    ORDER BY t.ordinal
$$;
COMMENT ON FUNCTION scd2_internal.append_definitions(oid, name[], oid) IS 'Column definitions for a target of an append flow; with a target, only of columns that it lacks';

CREATE FUNCTION scd2_internal.create_append_target(caller oid, schema name, relation name, source oid, columns name[]) RETURNS oid
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET pg_scd2.enable_change_feed_on_create = off AS $$
BEGIN
    PERFORM scd2_internal.check_may_create(caller, schema);
    EXECUTE format('CREATE TABLE %I.%I (%s)', schema, relation, (SELECT string_agg(d, ', ') FROM scd2_internal.append_definitions(source, columns, NULL) AS d));
    PERFORM scd2_internal.own_alone(format('%I.%I', schema, relation)::regclass, scd2_internal.target_owner(caller, source));
    PERFORM scd2_internal.close_rows_as(source, format('%I.%I', schema, relation)::regclass);
    RETURN format('%I.%I', schema, relation)::regclass;
END $$;
COMMENT ON FUNCTION scd2_internal.create_append_target(oid, name, name, oid, name[]) IS 'Creates the table of an append flow for its owner';

-- A target that other flows append to already: it gets the columns that it lacks.
CREATE FUNCTION scd2_internal.join_append_target(caller oid, target regclass, source regclass, columns name[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner   oid := (SELECT c.relowner FROM pg_class AS c WHERE c.oid = target);
    other   scd2_internal.flow;
    differs text;
    missing text;
BEGIN
    PERFORM scd2_internal.check_member(caller, owner, 'table', target::text);
    IF scd2_internal.target_owner(owner, source) <> owner THEN
        RAISE insufficient_privilege USING MESSAGE = format('"%s" belongs to a superuser, "%s" does not', target, source),
            DETAIL = 'The worker would read the source, and run what its owner wrote, as a superuser.';
    END IF;
    SELECT f.* INTO other FROM scd2_internal.flow AS f WHERE f.target_relid = target AND f.kind <> 'append' LIMIT 1;
    IF FOUND THEN
        RAISE object_not_in_prerequisite_state USING MESSAGE = format('"%s" is the target of flow "%s", which does not append', target, other.name),
            DETAIL = 'What is appended to it would be no part of what that flow keeps.', HINT = 'Name another target.';
    END IF;
    SELECT format('Column "%s" is %s%s instead of %s%s.', t.name, format_type(b.base, b.base_typmod), coalesce(' with collation ' || nullif(a.attcollation, 0)::regcollation, ''),
                  t.type, coalesce(' with collation ' || nullif(t.collation, 0)::regcollation, ''))
        INTO differs
        FROM scd2_internal.target_columns(source, columns, '{}', 1, NULL, 0, NULL, NULL, NULL) AS t
        JOIN pg_attribute AS a ON a.attrelid = target AND a.attname = t.name AND a.attnum > 0 AND NOT a.attisdropped
        CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) AS b
        WHERE format_type(b.base, b.base_typmod) <> t.type OR a.attcollation <> t.collation ORDER BY t.ordinal LIMIT 1;
    IF FOUND THEN
        RAISE datatype_mismatch USING MESSAGE = format('flow does not agree with the others into "%s"', target), DETAIL = differs;
    END IF;
    SELECT string_agg('ADD COLUMN ' || d, ', ') INTO missing FROM scd2_internal.append_definitions(source, columns, target) AS d;
    IF missing IS NOT NULL THEN
        PERFORM scd2_internal.lock_tables(ARRAY[target::oid], ARRAY['ACCESS EXCLUSIVE']);
        EXECUTE format('ALTER TABLE %s %s', target, missing);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.join_append_target(oid, regclass, regclass, name[]) IS
    'Raises what stands against one more append flow into a target; adds the columns that it lacks';

-- The relation that the flow appends to: created, joined or found to fit.
CREATE FUNCTION scd2_internal.append_target(caller oid, place record, source oid, columns name[]) RETURNS oid
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    target oid := place.relid;
BEGIN
    IF target IS NULL THEN
        target := scd2_internal.create_append_target(caller, place.schema, place.relation, source, columns);
    ELSE
        PERFORM scd2_internal.check_no_cycle(source, target);
        IF EXISTS (SELECT FROM scd2_internal.flow AS f WHERE f.target_relid = target) THEN
            PERFORM scd2_internal.join_append_target(caller, target, source, columns);
            RETURN target;
        END IF;
        PERFORM scd2_internal.check_target_fits(caller, target, source, columns, '{}', 1, NULL, 0, NULL, NULL, NULL);
    END IF;
    PERFORM scd2_internal.dress_target(target, 1, NULL, NULL, NULL);
    RETURN target;
END $$;
COMMENT ON FUNCTION scd2_internal.append_target(oid, record, oid, name[]) IS 'The target of an append flow, as it must be. Errors: what does not fit';

CREATE FUNCTION scd2_internal.create_append_flow(caller oid, target text, source regclass, source_filter text, name name, once boolean, refresh_interval interval) RETURNS name
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    place   record;
    origin  record;
    feed_id integer;
    columns name[];
    made    scd2_internal.flow;
BEGIN
    IF target IS NULL OR source IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = format('%s must not be NULL', CASE WHEN target IS NULL THEN 'target' ELSE 'source' END);
    END IF;
    once := coalesce(once, false);
    IF refresh_interval IS NULL OR refresh_interval < '0' THEN
        RAISE invalid_parameter_value USING MESSAGE = 'refresh_interval must not be NULL or negative';
    END IF;
    PERFORM scd2_internal.check_not_repeated(once, refresh_interval);
    PERFORM scd2_internal.check_append_source(caller, source, once);
    IF NOT once THEN
        feed_id := scd2_internal.enabled_feed(caller, source);
        PERFORM scd2_internal.check_feed_runs(feed_id, NULL);
        PERFORM scd2_internal.check_columns_captured(feed_id);
        PERFORM scd2_internal.add_missing_columns(f, f.except_columns) FROM scd2_internal.feed AS f WHERE f.feed_id = feed_id;
    END IF;
    columns := CASE WHEN once THEN (SELECT array_agg(a.attname ORDER BY a.attnum) FROM pg_attribute AS a WHERE a.attrelid = source AND a.attnum > 0 AND NOT a.attisdropped)
                    ELSE scd2_internal.feed_columns(feed_id) END;
    IF columns IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = format('"%s" has no columns to append', source);
    END IF;
    PERFORM scd2_internal.check_append_filter(source_filter, source, columns);
    SELECT r.* INTO place FROM scd2_internal.caller_relation(target) AS r;
    place.relid := scd2_internal.append_target(caller, place, source, columns);
    SELECT n.nspname AS schema, c.relname AS relation INTO origin FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = source;
    INSERT INTO scd2_internal.flow AS f (name, kind, target_schema, target_name, target_relid, source_schema, source_name, source_relid, feed_id, scd_type, keys, columns, tracked,
            input, source_filter, once, refresh_interval, settings)
        VALUES (scd2_internal.flow_name(name, place.relation), 'append', place.schema, place.relation, place.relid, origin.schema, origin.relation, source, feed_id, 1, '{}', columns, '{}',
            'append', source_filter, once, refresh_interval, ARRAY(SELECT s || '=' || current_setting(s) FROM unnest('{TimeZone,DateStyle,IntervalStyle}'::text[]) AS s))
        RETURNING f.* INTO made;
    PERFORM scd2_internal.know_columns(made.flow_id);
    INSERT INTO scd2_internal.control (kind, flow_id, feed_id) VALUES ('begin flow', made.flow_id, feed_id);
    RETURN made.name;
END $$;
COMMENT ON FUNCTION scd2_internal.create_append_flow(oid, text, regclass, text, name, boolean, interval) IS 'What scd2.create_append_flow() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.create_append_flow(target text, source regclass, source_filter text DEFAULT NULL, name name DEFAULT NULL, once boolean DEFAULT false, refresh_interval interval DEFAULT '0') RETURNS name
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.create_append_flow(text, regclass, text, name, boolean, interval) IS
    'Declares a flow that appends to "target" (created if it is not there) the rows of "source" that are there at the commit and every row inserted later, columns matched by name, exactly once each and nothing deduplicated; returns the '
    'flow''s name. Updates and deletes append nothing. source_filter: rows for which it is not true are left out; once: only the rows that are there, of any relation. '
    'Errors: 42501 not the owner, 42703, 42804 the filter or a column does not fit, 42809 a feed, 55000 a target that holds rows or belongs to a flow of another kind, 22023 arguments.';

-- full_refresh of a target that is appended to: all flows begin anew, those that run once too.
CREATE FUNCTION scd2_internal.refresh_append(target regclass, allow_loss boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f     scd2_internal.flow;
    state scd2_internal.flow_state;
    loss  record;
BEGIN
    FOR f IN SELECT x.* FROM scd2_internal.flow AS x WHERE x.target_relid = target ORDER BY x.flow_id LOOP
        PERFORM scd2_internal.lock_flow(f.flow_id);
        SELECT s.* INTO state FROM scd2_internal.flow_state AS s WHERE s.flow_id = f.flow_id;
        CONTINUE WHEN NOT FOUND;                -- its first copy is still to come
        SELECT l.* INTO loss FROM scd2_internal.refresh_loss(f, state, allow_loss) AS l;
        UPDATE scd2_internal.flow_state AS s SET phase = 'copy', rereads = false, failed_phase = NULL, failures = 0, retry_at = NULL, finished_at = NULL,
                begin_version = coalesce(loss.version, s.begin_version), watermark_version = coalesce(loss.version, s.begin_version),
                begin_timestamp = coalesce(loss.at, s.begin_timestamp), watermark_timestamp = coalesce(loss.at, s.begin_timestamp)
            WHERE s.flow_id = f.flow_id;
    END LOOP;
    PERFORM scd2_internal.wake_apply_at_commit();
END $$;
COMMENT ON FUNCTION scd2_internal.refresh_append(regclass, boolean) IS 'Part of full_refresh: has all flows that append to a target begin anew';
-- 47_check_target.sql: is a target what it must be?
--
-- First what can be said of its rows alone, and of its memory beside them. Then they are compared with what the sources
-- say: copies of the flows into it write into an empty temporary table, by the same engine, up to the versions that the
-- flows have applied (src/flow/rebuild.c). Until the caller's transaction ends, no worker applies these flows.
--
-- A source that was read once may have changed since: if what it shows now is what the target has, nothing is wrong;
-- else nobody can say which of the two changed, so that is a NOTICE.
--
-- The owner's tables are looked at as he (src/ask.c): queries come here as text, findings as JSON. Images are
-- compared as text, which every type has.

CREATE FUNCTION scd2_internal.key_json(keys name[]) RETURNS text
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN cardinality(keys) = 0 THEN 'NULL::jsonb'
                ELSE format('pg_catalog.jsonb_build_object(%s)', (SELECT string_agg(format('%L, t.%I', k, k), ', ' ORDER BY n) FROM unnest(keys) WITH ORDINALITY AS u (k, n))) END
$$;
COMMENT ON FUNCTION scd2_internal.key_json(name[]) IS 'The key of a row t as an expression of type jsonb; NULL without keys';

-- One query for each way in which rows can contradict themselves: problem, key, detail.
CREATE FUNCTION scd2_internal.check_queries(f scd2_internal.flow, target regclass) RETURNS SETOF text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    keys   text := (SELECT string_agg(format('t.%I', k), ', ' ORDER BY n) FROM unnest(f.keys) WITH ORDINALITY AS u (k, n));
    nulls  text := (SELECT string_agg(format('t.%I IS NULL', k), ' OR ' ORDER BY n) FROM unnest(f.keys) WITH ORDINALITY AS u (k, n));
    key    text := scd2_internal.key_json(f.keys);
    starts text := format('t.%I', f.start_column);
    ends   text := format('t.%I', f.end_column);
    above  text;
BEGIN
    IF f.kind = 'append' THEN
        RETURN;
    END IF;
    RETURN NEXT format('SELECT ''NULL key'', %s, t::text FROM ONLY %s AS t WHERE %s', key, target, nulls);
    IF f.scd_type = 1 THEN
        RETURN NEXT format('SELECT ''several rows'', %s, format(''The key has %%s rows.'', count(*)) FROM ONLY %s AS t GROUP BY %s HAVING count(*) > 1', key, target, keys);
        RETURN;
    END IF;
    above := scd2_internal.order_operator(f.sequence_type::regtype, 5);
    RETURN NEXT format('SELECT ''several open rows'', %s, format(''The key has %%s open rows.'', count(*)) FROM ONLY %s AS t WHERE %s IS NULL GROUP BY %s HAVING count(*) > 1', key, target, ends, keys);
    RETURN NEXT format('SELECT ''end not after start'', %s, format(''A row begins at %%s and ends at %%s.'', %s, %s) FROM ONLY %s AS t WHERE NOT %s IS NULL AND (%s %s %s) IS NOT TRUE',
                       key, starts, ends, target, ends, ends, above, starts);
    -- A row overlaps if one that begins no later ends after its start. Two open rows are told of above.
    RETURN NEXT format('SELECT ''overlap'', %1$s, format(''A row from %%s to %%s is followed by one from %%s on.'', o._scd2_start, coalesce(o._scd2_end::text, ''its open end''), %2$s) '
                       'FROM (SELECT t.*, lag(%2$s) OVER w AS _scd2_start, lag(%3$s) OVER w AS _scd2_end, lag(1) OVER w AS _scd2_before FROM ONLY %4$s AS t WINDOW w AS (PARTITION BY %5$s ORDER BY %2$s)) AS t '
                       'CROSS JOIN LATERAL (VALUES (t._scd2_start, t._scd2_end)) AS o (_scd2_start, _scd2_end) '
                       'WHERE t._scd2_before = 1 AND (o._scd2_end %6$s %2$s OR o._scd2_end IS NULL AND NOT %3$s IS NULL)', key, starts, ends, target, keys, above);
    IF f.current_column IS NOT NULL THEN
        RETURN NEXT format('SELECT ''wrong current column'', %s, format(''Column "%%s" is %%s in a row that %%s.'', %L, t.%I, coalesce(''ends at '' || %s::text, ''is open'')) FROM ONLY %s AS t WHERE t.%I IS DISTINCT FROM (%s IS NULL)',
                           key, f.current_column, f.current_column, ends, target, f.current_column, ends);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_queries(scd2_internal.flow, regclass) IS 'Queries that find rows of a target that contradict themselves or each other';

-- What is remembered of an event (src/flow/recall.c) says whether its key was there right after it: of type 1 now, of
-- type 2 at its sequence. What is not remembered says nothing.
CREATE FUNCTION scd2_internal.check_memory_query(f scd2_internal.flow, target regclass) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format($query$
        SELECT 'contradicting memory', %1$s, format(CASE WHEN d.gone THEN 'A delete at %%s is remembered, and a row says that the key was there.' ELSE 'An upsert at %%s is remembered, and no row has it.' END, t._sequence)
        FROM ONLY %2$s AS t CROSS JOIN LATERAL (SELECT t._kind IN ('d', 'c')) AS d (gone)
        WHERE d.gone = EXISTS (SELECT FROM ONLY %3$s AS r WHERE %4$s) $query$,
        scd2_internal.key_json(f.keys), f.memory_relid::regclass, target,
        concat_ws(' AND ', (SELECT string_agg(format('r.%1$I %2$s t.%1$I', k, scd2_internal.order_operator(a.atttypid, 3)), ' AND ' ORDER BY n)
                            FROM unnest(f.keys) WITH ORDINALITY AS u (k, n) JOIN pg_attribute AS a ON a.attrelid = target AND a.attname = k),
            CASE WHEN f.scd_type = 2 THEN format('CASE t._kind WHEN ''u'' THEN t._sequence %2$s r.%1$I WHEN ''v'' THEN t._sequence %3$s r.%1$I ELSE t._sequence %4$s r.%1$I END AND (r.%5$I IS NULL OR r.%5$I %2$s t._sequence)',
                f.start_column, scd2_internal.order_operator(f.sequence_type::regtype, 5), scd2_internal.order_operator(f.sequence_type::regtype, 3),
                scd2_internal.order_operator(f.sequence_type::regtype, 4), f.end_column) END))
    WHERE f.memory_relid IS NOT NULL
$$;
COMMENT ON FUNCTION scd2_internal.check_memory_query(scd2_internal.flow, regclass) IS 'Query for what a target''s memory says that its rows deny; NULL without one';

-- The findings of a query, at most a thousand.
CREATE FUNCTION scd2_internal.findings(target oid, query text) RETURNS TABLE (problem text, key jsonb, detail text)
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT r ->> 0, nullif(r -> 1, 'null'), r ->> 2
    FROM jsonb_array_elements(scd2_internal.as_owner(target, format('SELECT pg_catalog.jsonb_agg(pg_catalog.jsonb_build_array(q.problem, q.key, q.detail)) FROM (%s LIMIT 1000) AS q (problem, key, detail)', query), 0)::jsonb) AS r
$$;
COMMENT ON FUNCTION scd2_internal.findings(oid, text) IS 'The rows (problem, key, detail) of a query that runs as the owner of the relation';

-- What a column had until its type changed is in the feed, but not in the source that a copy would begin with. After the
-- repair that brought the new values no row of source or target has anything in it any more.
CREATE FUNCTION scd2_internal.retyped_since(w scd2_internal.flow, OUT version bigint, OUT unrepaired name)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT max(r.version), min(c.name) FILTER (WHERE r.version IS NULL)
    FROM scd2_internal.followed_columns(w.feed_id) AS c
        LEFT JOIN LATERAL (SELECT min(x.version) AS version FROM scd2_internal.reconstruction AS x WHERE x.feed_id = w.feed_id AND x.version > c.until) AS r ON true
    WHERE c.until IS NOT NULL AND c.name = ANY (w.columns) AND c.name <> ALL (w.absent)
$$;
COMMENT ON FUNCTION scd2_internal.retyped_since(scd2_internal.flow) IS
    'The version since which columns of a target whose type changed have nothing any more; unrepaired: one of which that is not known';

-- Since when the sources of a target tell what it must hold: "why" not at all, or, with a version, only of what was valid
-- at its time or later. All NULL: since its beginning. A flow over a feed that has its target for itself can be begun
-- again wherever the feed reaches back to; of others, what came before may show later.
CREATE FUNCTION scd2_internal.comparable_since(target regclass, OUT why text, OUT version bigint, OUT at timestamptz)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f     scd2_internal.flow;
    s     scd2_internal.flow_state;
    feed  record;
    loss  record;
    retyped record;
BEGIN
    FOR f IN SELECT x.* FROM scd2_internal.flow AS x WHERE x.target_relid = target ORDER BY x.flow_id LOOP
        SELECT x.* INTO s FROM scd2_internal.flow_state AS x WHERE x.flow_id = f.flow_id;
        why := CASE WHEN f.kind = 'snapshot' OR f.once THEN format('flow "%s" read its source once, which may have changed since', f.name)
                    WHEN f.max_lateness IS NOT NULL AND (s.too_late > 0 OR EXISTS (SELECT FROM scd2_internal.mark AS m WHERE m.target_relid = target AND m.kind = 'horizon' AND m.flow_id IS NOT NULL))
                    THEN format('flow "%s" has a max_lateness, and what was too late depends on when it came', f.name)
                    WHEN f.purged_before IS NOT NULL AND s.too_late > 0 THEN format('events of flow "%s" were too late after a purge, and its source still has them', f.name)
                    WHEN f.purged_before IS NULL AND EXISTS (SELECT FROM scd2_internal.mark AS m WHERE m.target_relid = target AND m.kind = 'horizon' AND m.flow_id IS NULL)
                    THEN format('flow "%s" came after a purge, and what it has of before only filled in history', f.name)
                    WHEN s.flow_id IS NULL OR coalesce(s.failed_phase, s.phase) <> 'apply' THEN format('flow "%s" has not made its first copy', f.name) END;
        EXIT WHEN why IS NOT NULL;
        SELECT e.gap, c.oid AS there, sc.oid AS source_there INTO feed
            FROM scd2_internal.feed AS x LEFT JOIN scd2_internal.feed_state AS e USING (feed_id) LEFT JOIN pg_class AS c ON c.oid = x.feed_relid LEFT JOIN pg_class AS sc ON sc.oid = x.source_relid
            WHERE x.feed_id = f.feed_id;
        why := CASE WHEN feed.there IS NULL OR feed.source_there IS NULL THEN format('the source of flow "%s", or its feed, was dropped', f.name)
                    WHEN upper_inf(feed.gap) THEN format('the feed of flow "%s" lacks versions %s', f.name, feed.gap) END;
        EXIT WHEN why IS NOT NULL;
        why := format('column "%s" was dropped from a source, and what it had is known only of rows that changed since', scd2_internal.lost_column(target, true));
        EXIT WHEN scd2_internal.lost_column(target, true) IS NOT NULL;
        why := NULL;
        SELECT l.version, l.at INTO loss FROM scd2_internal.refresh_loss(f, s, true) AS l;
        SELECT r.version, r.commit_time AS at INTO retyped FROM scd2_internal.retyped_since(f) AS v JOIN scd2_internal.reconstruction AS r ON r.feed_id = f.feed_id AND r.version = v.version;
        IF retyped.version > coalesce(loss.version, 0) THEN
            loss := retyped;
        END IF;
        IF loss.version IS NOT NULL AND (f.input <> 'net' OR (SELECT count(*) > 1 FROM scd2_internal.flow AS x WHERE x.target_relid = target)) THEN
            why := format('flow "%s" began at version %s, and its source is known since version %s: what was before was removed from its feed, or a TRUNCATE took it', f.name, s.begin_version, loss.version);
            EXIT;
        END IF;
        version := loss.version;
        at := loss.at;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.comparable_since(regclass) IS
    'Why a target cannot be compared with its sources; NULL: it can, and, with a version, of what is valid at its time or later';

-- A temporary table of the target's owner with the columns that its flows keep, the same key, and no rows.
CREATE FUNCTION scd2_internal.empty_copy(relation regclass, columns name[], key name[]) RETURNS oid
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    copy text := format('pg_temp.scd2_copy_of_%s', relation::oid);
BEGIN
    EXECUTE format('CREATE TEMPORARY TABLE %s AS SELECT %s FROM %s WITH NO DATA', copy, (SELECT string_agg(quote_ident(c), ', ' ORDER BY n) FROM unnest(columns) WITH ORDINALITY AS u (c, n)), relation);
    IF cardinality(key) > 0 THEN
        EXECUTE format('ALTER TABLE %s ADD PRIMARY KEY (%s)', copy, (SELECT string_agg(quote_ident(c), ', ' ORDER BY n) FROM unnest(key) WITH ORDINALITY AS u (c, n)));
    END IF;
    EXECUTE format('ALTER TABLE %s OWNER TO %I', copy, (SELECT pg_get_userbyid(c.relowner) FROM pg_class AS c WHERE c.oid = relation));
    RETURN copy::regclass;
END $$;
COMMENT ON FUNCTION scd2_internal.empty_copy(regclass, name[], name[]) IS 'An empty temporary table with these columns of a relation, and its owner';

CREATE FUNCTION scd2_internal.rebuild(flow_id integer, upto bigint, from_beginning boolean) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_rebuild' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.rebuild(integer, bigint, boolean) IS
    'Runs a flow that only this transaction knows: its first copy, and all versions up to one. from_beginning: of event tables, the rows at the flow''s beginning count instead of those that are there';

CREATE FUNCTION scd2_internal.target_columns_kept(target oid) RETURNS name[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(a.attname ORDER BY a.attnum) FROM pg_attribute AS a
    WHERE a.attrelid = target AND a.attnum > 0 AND NOT a.attisdropped
      AND EXISTS (SELECT FROM scd2_internal.flow AS f WHERE f.target_relid = target
                  AND (a.attname = ANY (f.columns) OR f.kind <> 'append' AND f.scd_type = 2 AND a.attname IN (f.start_column, f.end_column, f.current_column)))
$$;
COMMENT ON FUNCTION scd2_internal.target_columns_kept(oid) IS 'The columns of a target that its flows fill';

-- Copies of the flows of a target, into the temporary table that is returned when they have run; with a key_filter,
-- only these keys; begun at a later version than they were, if one is given.
CREATE FUNCTION scd2_internal.rebuild_beside(target regclass, first scd2_internal.flow, key_filter text DEFAULT NULL, allow_loss boolean DEFAULT false,
        since_version bigint DEFAULT NULL, since timestamptz DEFAULT NULL) RETURNS oid
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f      scd2_internal.flow;
    s      scd2_internal.flow_state;
    beside oid;
    memory oid;
    place  record;
    flow_ids integer[] := '{}';
    applied  bigint[] := '{}';
    at_once  boolean[] := '{}';
    loss     record;
BEGIN
    beside := scd2_internal.empty_copy(target, scd2_internal.target_columns_kept(target), CASE WHEN first.scd_type = 2 THEN first.keys || first.start_column ELSE first.keys END);
    IF first.memory_relid IS NOT NULL THEN
        memory := scd2_internal.empty_copy(first.memory_relid, ARRAY(SELECT a.attname FROM pg_attribute AS a WHERE a.attrelid = first.memory_relid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum),
            ARRAY(SELECT a.attname FROM pg_index AS i CROSS JOIN unnest(i.indkey) WITH ORDINALITY AS k (attnum, n) JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
                  WHERE i.indrelid = first.memory_relid AND i.indisprimary ORDER BY k.n));
    END IF;
    SELECT n.nspname AS schema, c.relname AS name INTO place FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = beside;
    -- All are there before one runs: then each knows that it is not alone.
    FOR f IN SELECT x.* FROM scd2_internal.flow AS x WHERE x.target_relid = target ORDER BY x.flow_id LOOP
        SELECT x.* INTO s FROM scd2_internal.flow_state AS x WHERE x.flow_id = f.flow_id;
        f.flow_id := nextval(pg_get_serial_sequence('scd2_internal.flow', 'flow_id'));
        f.name := scd2_internal.object_name(f.name, format('rebuilt_%s', f.flow_id));
        f.max_lateness := NULL;                 -- nothing was too late
        f.purged_before := NULL;
        s.begin_version := coalesce(since_version, s.begin_version);
        s.begin_timestamp := coalesce(since, s.begin_timestamp);
        IF key_filter IS NOT NULL THEN
            SELECT l.version, l.at INTO loss FROM scd2_internal.refresh_loss(f, s, allow_loss, key_filter) AS l WHERE f.input <> 'events';
            s.begin_version := coalesce(loss.version, s.begin_version);
            s.begin_timestamp := coalesce(loss.at, s.begin_timestamp);
            f.source_filter := concat_ws(' AND ', '(' || f.source_filter || E'\n)', format(E'(%s\n%s)', key_filter, ' OR (' || f.apply_as_truncates || E'\n)'));
        END IF;
        f.target_schema := place.schema;
        f.target_name := place.name;
        f.target_relid := beside;
        f.memory_relid := memory;
        f.memory_name := (SELECT c.relname FROM pg_class AS c WHERE c.oid = memory);
        INSERT INTO scd2_internal.flow OVERRIDING SYSTEM VALUE SELECT f.*;
        INSERT INTO scd2_internal.flow_state (flow_id, phase, begin_version, begin_timestamp, watermark_version, watermark_timestamp, last_batch)
            VALUES (f.flow_id, 'copy', s.begin_version, s.begin_timestamp, s.begin_version, s.begin_timestamp, now());
        INSERT INTO scd2_internal.skipped_version (flow_id, version, skipped_by)
            SELECT f.flow_id, k.version, k.skipped_by FROM scd2_internal.skipped_version k WHERE k.flow_id = s.flow_id;
        flow_ids := flow_ids || f.flow_id;
        applied := applied || s.watermark_version;
        at_once := at_once || f.once;
    END LOOP;
    INSERT INTO scd2_internal.erased_key SELECT place.schema, place.name, beside, e.fingerprint, e.seed, e.sequence FROM scd2_internal.erased_key e WHERE e.target_relid = target;
    FOR i IN 1 .. cardinality(flow_ids) LOOP
        -- what the first had all by itself when the second came stays as it was found (remember_changes_from_now)
        INSERT INTO scd2_internal.mark (target_schema, target_name, target_relid, sequence, kind, flow_id)
            SELECT place.schema, place.name, beside, m.sequence, m.kind, flow_ids[1] FROM scd2_internal.mark AS m
            WHERE i = 2 AND m.target_relid = target AND m.kind = 'horizon' AND m.flow_id = first.flow_id;
        PERFORM scd2_internal.rebuild(flow_ids[i], applied[i], key_filter IS NULL AND NOT at_once[i]);
    END LOOP;
    RETURN beside;
END $$;
COMMENT ON FUNCTION scd2_internal.rebuild_beside(regclass, scd2_internal.flow, text, boolean, bigint, timestamptz) IS 'Makes a target, or some of its keys, again from its sources, in a temporary table';

CREATE FUNCTION scd2_internal.forget_beside(beside oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    memory oid := (SELECT f.memory_relid FROM scd2_internal.flow AS f WHERE f.target_relid = beside LIMIT 1);
BEGIN
    DELETE FROM scd2_internal.flow AS f WHERE f.target_relid = beside;
    DELETE FROM scd2_internal.mark AS m WHERE m.target_relid = beside;
    DELETE FROM scd2_internal.erased_key AS e WHERE e.target_relid = beside;
    EXECUTE format('DROP TABLE %s', concat_ws(', ', beside::regclass, memory::regclass));
END $$;
COMMENT ON FUNCTION scd2_internal.forget_beside(oid) IS 'Removes what rebuild_beside() made';

-- What is in one of two tables more often than in the other. Of type 2, what was valid before "since" does not count, nor
-- do versions that ended before a purge.
CREATE FUNCTION scd2_internal.difference_query(target regclass, beside regclass, columns name[], first scd2_internal.flow, since timestamptz) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format($query$
        SELECT CASE WHEN d.n > 0 THEN 'missing row' ELSE 'unexpected row' END,
               CASE WHEN d.n > 0 THEN (SELECT %3$s FROM %2$s AS t WHERE t.ctid = d.wanted) ELSE (SELECT %3$s FROM ONLY %1$s AS t WHERE t.ctid = d.found) END,
               format(CASE WHEN d.n > 0 THEN 'The sources say %%s%%s.' ELSE 'The sources do not say %%s%%s.' END, d.image, CASE WHEN abs(d.n) > 1 THEN format(', %%s times', abs(d.n)) END)
        FROM (SELECT c.image, sum(c.side) AS n, min(c.place) FILTER (WHERE c.side = 1) AS wanted, min(c.place) FILTER (WHERE c.side = -1) AS found
              FROM (SELECT ROW(%4$s)::text COLLATE "C" AS image, 1 AS side, t.ctid AS place FROM %2$s AS t WHERE %5$s
                    UNION ALL SELECT ROW(%4$s)::text COLLATE "C", -1, t.ctid FROM ONLY %1$s AS t WHERE %5$s) AS c
              GROUP BY c.image HAVING sum(c.side) <> 0) AS d
        ORDER BY 2, 1 $query$, target, beside, scd2_internal.key_json(first.keys),
        (SELECT string_agg(CASE WHEN first.scd_type = 2 AND c = first.start_column AND since IS NOT NULL THEN format('GREATEST(t.%I, %L::timestamptz)', c, since) ELSE format('t.%I', c) END, ', ' ORDER BY n)
         FROM unnest(columns) WITH ORDINALITY AS u (c, n)),
        CASE WHEN first.scd_type = 2 AND coalesce(since::text, first.purged_before) IS NOT NULL
             THEN format('(t.%I IS NULL OR %s)', first.end_column, concat_ws(' AND ', CASE WHEN since IS NOT NULL THEN format('t.%I > %L::timestamptz', first.end_column, since) END,
                  CASE WHEN first.purged_before IS NOT NULL THEN format('t.%I %s %L::%s', first.end_column, scd2_internal.order_operator(first.sequence_type::regtype, 4), first.purged_before, first.sequence_type) END))
             ELSE 'true' END)
$$;
COMMENT ON FUNCTION scd2_internal.difference_query(regclass, regclass, name[], scd2_internal.flow, timestamptz) IS 'Query for the rows in which a target differs from what it must be';

-- A snapshot that is fixed, or changes that nobody captures before they are committed, would make differences where
-- there are none.
CREATE FUNCTION scd2_internal.check_can_rebuild(target regclass, what text) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    written regclass;
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE active_sql_transaction USING MESSAGE = format('%s cannot run in a transaction whose snapshot is fixed', what),
            DETAIL = 'It must see changes that are captured after the snapshot was taken.', HINT = 'ROLLBACK; BEGIN ISOLATION LEVEL READ COMMITTED;';
    END IF;
    SELECT l.relation INTO written FROM scd2_internal.flow AS f CROSS JOIN LATERAL (SELECT f.source_relid AS oid UNION ALL SELECT p.relid FROM pg_partition_tree(f.source_relid) AS p) AS r
        JOIN pg_locks AS l ON l.relation = r.oid
        WHERE f.target_relid = target AND l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.granted AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
          AND l.mode NOT IN ('AccessShareLock', 'RowShareLock') LIMIT 1;
    IF FOUND THEN
        RAISE active_sql_transaction USING MESSAGE = format('%s cannot run in a transaction that has written "%s"', what, written),
            DETAIL = 'Its changes are not captured before it commits.', HINT = 'COMMIT;';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_can_rebuild(regclass, text) IS 'Raises 25001 if the transaction has a fixed snapshot or has written a source of the target';

-- In how many rows a target differs from the one relation that its snapshots are of, as that is now: what is open.
CREATE FUNCTION scd2_internal.count_differing_from_source(target regclass, f scd2_internal.flow) RETURNS bigint
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.as_owner(target, format('SELECT count(*) FROM (SELECT q.image FROM (SELECT ROW(%1$s)::text COLLATE "C" AS image, 1 AS side FROM %2$s AS t '
            'UNION ALL SELECT ROW(%1$s)::text COLLATE "C", -1 FROM ONLY %3$s AS t WHERE %4$s) AS q GROUP BY q.image HAVING sum(q.side) <> 0) AS d',
        (SELECT string_agg(format('t.%I', c), ', ' ORDER BY n) FROM unnest(f.columns) WITH ORDINALITY AS u (c, n)),
        CASE (SELECT c.relkind FROM pg_class AS c WHERE c.oid = f.source_relid) WHEN 'r' THEN 'ONLY ' ELSE '' END || f.source_relid::regclass,
        target, CASE f.scd_type WHEN 2 THEN format('t.%I IS NULL', f.end_column) ELSE 'true' END), 0)::bigint
$$;
COMMENT ON FUNCTION scd2_internal.count_differing_from_source(regclass, scd2_internal.flow) IS 'How many images of rows a source and the open rows of its target do not share';

-- The NOTICE about a target that is made of what was read once and of nothing else; NULL: it is as its sources are now.
CREATE FUNCTION scd2_internal.compare_with_what_is_there(target regclass, first scd2_internal.flow) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    beside  oid;
    differs bigint;
BEGIN
    IF first.kind = 'snapshot' THEN
        differs := scd2_internal.count_differing_from_source(target, first);
        IF differs = 0 THEN
            RETURN CASE first.scd_type WHEN 2 THEN format('rows of "%s" that have ended are not compared: flow "%s" took snapshots, of which its source shows the last', target, first.name) END;
        END IF;
    ELSE
        beside := scd2_internal.rebuild_beside(target, first);
        SELECT count(*) INTO differs FROM scd2_internal.findings(target, scd2_internal.difference_query(target, beside, scd2_internal.target_columns_kept(target), first, NULL));
        PERFORM scd2_internal.forget_beside(beside);
        IF differs = 0 THEN
            RETURN NULL;
        END IF;
    END IF;
    RETURN format('rows of "%s" are not what its sources show now (%s images differ): they were changed, or the sources were since they were read', target, differs);
END $$;
COMMENT ON FUNCTION scd2_internal.compare_with_what_is_there(regclass, scd2_internal.flow) IS
    'What can be said of a target whose sources were read once, and may have changed since';

-- Flows that ran once, or one over complete snapshots, all by themselves: then what the target must hold follows from what their sources were.
CREATE FUNCTION scd2_internal.is_made_of_what_was_there(target regclass) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(bool_and(f.once AND f.input = 'events' AND s.phase = 'done' AND f.purged_before IS NULL AND NOT (s.rejected > 0 OR s.too_late > 0)), false)
               AND NOT EXISTS (SELECT FROM scd2_internal.mark AS m WHERE m.target_relid = target AND m.kind <> 'truncate')
           OR count(*) = 1 AND coalesce(bool_and(f.kind = 'snapshot' AND f.delete_absent AND f.memory_relid IS NULL AND s.snapshot_version IS NOT NULL), false)
    FROM scd2_internal.flow AS f JOIN scd2_internal.flow_state AS s USING (flow_id) JOIN pg_class AS c ON c.oid = f.source_relid WHERE f.target_relid = target
    HAVING count(*) = (SELECT count(*) FROM scd2_internal.flow AS f WHERE f.target_relid = target)
$$;
COMMENT ON FUNCTION scd2_internal.is_made_of_what_was_there(regclass) IS 'Whether a target can be compared with what its sources show now; NULL: a source is gone';

-- What can go wrong with sources that no longer tell is a NOTICE (a feed that was shortened since, a TRUNCATE); any
-- other error is one: nobody can say what the target must hold.
CREATE FUNCTION scd2_internal.compare_with_sources(target regclass, first scd2_internal.flow) RETURNS TABLE (problem text, key jsonb, detail text)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
    sources record;
    why     text;
    beside  oid;
BEGIN
    SELECT c.* INTO sources FROM scd2_internal.comparable_since(target) AS c;
    why := sources.why;
    IF why IS NOT NULL AND scd2_internal.is_made_of_what_was_there(target) THEN
        BEGIN
            why := scd2_internal.compare_with_what_is_there(target, first);
            IF why IS NOT NULL THEN
                RAISE NOTICE '%', why;
            END IF;
            RETURN;
        EXCEPTION WHEN syntax_error_or_access_rule_violation OR data_exception OR object_not_in_prerequisite_state THEN
            why := SQLERRM;
        END;
    ELSIF why IS NULL THEN
        PERFORM scd2._wait_captured('1 min');
        BEGIN
            beside := scd2_internal.rebuild_beside(target, first, since_version => sources.version, since => sources.at);
            RETURN QUERY SELECT d.* FROM scd2_internal.findings(target, scd2_internal.difference_query(target, beside, scd2_internal.target_columns_kept(target), first, sources.at)) AS d;
            PERFORM scd2_internal.forget_beside(beside);
        EXCEPTION WHEN object_not_in_prerequisite_state OR invalid_parameter_value THEN
            why := SQLERRM;
        END;
    END IF;
    IF why IS NOT NULL THEN
        RAISE NOTICE 'rows of "%" are not compared with its sources: %', target, why;
    ELSIF sources.version IS NOT NULL AND first.scd_type = 2 THEN
        RAISE NOTICE 'what rows of "%" say of the time before % is not compared with its source, which is not known before version %', target, sources.at, sources.version;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.compare_with_sources(regclass, scd2_internal.flow) IS 'The rows in which a target differs from what its sources say; a NOTICE of what they do not say any more';

CREATE FUNCTION scd2_internal.check_target(caller oid, target regclass) RETURNS TABLE (problem text, key jsonb, detail text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first scd2_internal.flow;
    query text;
BEGIN
    PERFORM scd2_internal.check_owner(caller, target) WHERE target IS NOT NULL;
    first := scd2_internal.first_flow(target);
    PERFORM scd2_internal.check_can_rebuild(target, 'check_target');
    PERFORM scd2_internal.lock_flow(f.flow_id) FROM scd2_internal.flow AS f WHERE f.target_relid = target ORDER BY f.flow_id;
    FOR query IN SELECT q FROM scd2_internal.check_queries(first, target) AS q UNION ALL SELECT scd2_internal.check_memory_query(first, target) LOOP
        CONTINUE WHEN query IS NULL;
        RETURN QUERY SELECT d.* FROM scd2_internal.findings(target, query) AS d;
    END LOOP;
    RETURN QUERY SELECT d.* FROM scd2_internal.compare_with_sources(target, first) AS d;
END $$;
COMMENT ON FUNCTION scd2_internal.check_target(oid, regclass) IS 'What scd2.check_target() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.check_target(target regclass) RETURNS TABLE (problem text, key jsonb, detail text)
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.check_target(regclass) IS
    'What is wrong with the rows of a target, no row if nothing is: NULL key, several rows (type 1), several open rows, end not after start, overlap, wrong current column, contradicting memory (an event is remembered that the rows deny), and missing or unexpected row where it differs from what its sources say '
    '(it is made again from them, as far as its flows have applied them, which takes about as long as a full refresh). At most a thousand of each. A NOTICE of what is not compared because the sources no longer tell; of sources that were read once, if they are not as the target says. Until the caller''s transaction ends, its flows wait. '
    'Errors: 42501 not the owner, 55000 not the target of a flow, 55P03 a batch does not end within pg_scd2.lock_timeout, 25001 the transaction has written a source or its snapshot is fixed.';
-- 48_purge.sql: purge_history(): versions that ended before a point leave their target.
--
-- From then on the point is the target's horizon (src/flow/purge.c says why): flow.purged_before of each flow that is
-- there, and a mark behind which later ones come. It is never above what the target has seen: an event that is later
-- than all others is not too late, whatever somebody typed. Nor above what a captured table or a source of snapshots
-- that shares the target has brought: what comes from there is always accepted.
--
-- In the caller's transaction: horizon, memory, and the rows of a target of up to pg_scd2.debug_purge_size. Its flows
-- wait until the transaction ends, so a larger one is left to the worker that looks after feeds (src/feed/upkeep.c),
-- so many pages in each transaction. Whoever reads is never in the way, nor is he hindered. Horizon first: a crash
-- leaves rows that the worker will remove, never a target that would take what was removed.

CREATE FUNCTION scd2_internal.sequence_point(flow_id integer, point text) RETURNS text
    AS 'MODULE_PATHNAME', 'scd2_sequence_point' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.sequence_point(integer, text) IS
    'A value of the sequence of a flow''s target, given in the caller''s settings, in the text form of the '
    'catalogs. Errors: what the type says of it, 22023 NaN or a NULL field.';

CREATE FUNCTION scd2_internal.purge_rows(flow_id integer, before text, first_block bigint, last_block bigint,
    horizon boolean) RETURNS bigint
    AS 'MODULE_PATHNAME', 'scd2_purge_rows' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.purge_rows(integer, text, bigint, bigint, boolean) IS
    'Removes the versions of a flow''s target that ended before a point, of pages from first_block up to, not '
    'including, last_block; horizon: and what is remembered below it. Returns how many rows.';

CREATE FUNCTION scd2_internal.check_can_purge(target regclass) RETURNS scd2_internal.flow
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    first scd2_internal.flow := scd2_internal.first_flow(target);
BEGIN
    IF first.kind = 'append' THEN
        PERFORM scd2_internal.refuse('22023', format('"%s" has no closed versions: rows are appended to it', target));
    ELSIF first.scd_type <> 2 THEN
        PERFORM scd2_internal.refuse('22023', format('"%s" has no closed versions: it is of SCD type 1', target),
            'It has the current row of each key; what is remembered of deleted ones is bounded by max_lateness.');
    END IF;
    RETURN first;
END $$;
COMMENT ON FUNCTION scd2_internal.check_can_purge(regclass) IS
    'The first flow of a target that has closed versions. Errors: 55000 not the target of a flow, 22023 SCD type '
    '1 or appended to.';

-- Of flows whose events come in order by construction nothing can be too late. The text form needs these settings.
CREATE FUNCTION scd2_internal.purge_horizon(first scd2_internal.flow, before text) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET TimeZone = 'UTC' SET DateStyle = 'ISO, YMD'
        SET IntervalStyle = 'postgres' SET bytea_output = 'hex' SET extra_float_digits = 1 AS $$
DECLARE
    bounds text;
BEGIN
    IF first.input = 'net' THEN             -- no row of such a flow ends later than now
        RETURN least(before::timestamptz, clock_timestamp())::text;
    ELSIF first.memory_relid IS NULL THEN
        RETURN before;
    END IF;
    SELECT string_agg(format(', %L::%s',
            CASE WHEN f.closes THEN s.watermark_timestamp::text ELSE s.snapshot_version END, first.sequence_type), '')
        INTO bounds
        FROM scd2_internal.flow AS f JOIN scd2_internal.flow_state AS s USING (flow_id)
        WHERE f.target_relid = first.target_relid AND NOT f.once
            AND (f.closes OR f.kind = 'snapshot' AND s.snapshot_version IS NOT NULL);
    RETURN scd2_internal.as_owner(first.target_relid, format(
        'SELECT LEAST(%1$L::%2$s, '
        '(SELECT q.s FROM (SELECT t.%3$I AS s FROM ONLY %5$s AS t '
        'UNION ALL SELECT t.%4$I FROM ONLY %5$s AS t WHERE NOT t.%4$I IS NULL) AS q ORDER BY q.s DESC LIMIT 1)%6$s)::text',
        before, first.sequence_type, first.start_column, first.end_column, first.target_relid::regclass, bounds), 0);
END $$;
COMMENT ON FUNCTION scd2_internal.purge_horizon(scd2_internal.flow, text) IS
    'Before what versions are removed if somebody asks for "before": not above what the target has seen, nor '
    'what flows whose events must never be too late have brought.';

CREATE FUNCTION scd2_internal.count_ended(first scd2_internal.flow, before text) RETURNS bigint
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.as_owner(first.target_relid, format('SELECT count(*) FROM ONLY %s AS t WHERE t.%I %s %L::%s',
        first.target_relid::regclass, first.end_column,
        scd2_internal.order_operator(first.sequence_type::regtype, 1), before, first.sequence_type), 0)::bigint
$$;
COMMENT ON FUNCTION scd2_internal.count_ended(scd2_internal.flow, text) IS 'How many versions of a target ended before a point.';

-- Values of the type are compared as the owner, whose type it may be.
CREATE FUNCTION scd2_internal.raise_horizon(first scd2_internal.flow, horizon text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    below CONSTANT text := format('%s %L::%s',
        scd2_internal.order_operator(first.sequence_type::regtype, 1), horizon, first.sequence_type);
    passed bigint[];
BEGIN
    IF first.purged_before IS NOT NULL
       AND NOT scd2_internal.as_owner(first.target_relid,
           format('SELECT %L::%s %s', first.purged_before, first.sequence_type, below), 0)::boolean THEN
        RETURN;
    END IF;
    UPDATE scd2_internal.flow AS f SET purged_before = horizon, definition = f.definition + 1
        WHERE f.target_relid = first.target_relid;
    PERFORM scd2_internal.wake_apply_at_commit();
    IF first.memory_relid IS NULL THEN
        RETURN;
    END IF;
    passed := scd2_internal.as_owner(first.target_relid,
        (SELECT format('SELECT array_agg(u.id) FROM unnest(%L::bigint[], %L::text[]) AS u (id, s) WHERE u.s::%s %s',
            array_agg(m.mark_id), array_agg(m.sequence), first.sequence_type, below)
         FROM scd2_internal.mark AS m WHERE m.target_relid = first.target_relid), 0)::bigint[];
    DELETE FROM scd2_internal.mark AS m WHERE m.target_relid = first.target_relid AND m.mark_id = ANY (passed);
    INSERT INTO scd2_internal.mark (target_schema, target_name, target_relid, sequence, kind)
        VALUES (first.target_schema, first.target_name, first.target_relid, horizon, 'horizon');
END $$;
COMMENT ON FUNCTION scd2_internal.raise_horizon(scd2_internal.flow, text) IS
    'Events below the point are too late for the flows into a target from now on, those that come later come '
    'behind a mark there, and marks below it are forgotten. It never sinks.';

-- Under the locks of all flows into it, and of the target itself: nobody writes it, or reads its marks.
CREATE FUNCTION scd2_internal.lock_flows_to_purge(target regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    beginning name;
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        PERFORM scd2_internal.refuse('25001', 'purge_history cannot run in a transaction whose snapshot is fixed',
            'It must see what flows have applied until now.', 'ROLLBACK; BEGIN ISOLATION LEVEL READ COMMITTED;');
    END IF;
    PERFORM scd2_internal.lock_flow(f.flow_id) FROM scd2_internal.flow AS f WHERE f.target_relid = target
        ORDER BY f.flow_id;
    PERFORM scd2_internal.lock_target(target);
    SELECT f.name INTO beginning FROM scd2_internal.flow AS f LEFT JOIN scd2_internal.flow_state AS s USING (flow_id)
        WHERE f.target_relid = target AND coalesce(coalesce(s.failed_phase, s.phase) = 'copy', f.kind <> 'snapshot')
        ORDER BY f.flow_id LIMIT 1;
    IF FOUND THEN
        PERFORM scd2_internal.refuse('55000', format('flow "%s" has not made its first copy', beginning),
            hint => 'SELECT scd2.sync();');
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.lock_flows_to_purge(regclass) IS
    'Keeps workers from a target until the transaction ends. Errors: 55P03 a batch does not end within '
    'pg_scd2.lock_timeout, 55000 a flow that has not begun, 25001 the transaction''s snapshot is fixed.';

CREATE FUNCTION scd2_internal.not_below_pending(first scd2_internal.flow, horizon text) RETURNS text
    LANGUAGE sql SET search_path = pg_catalog, pg_temp SET TimeZone = 'UTC' SET DateStyle = 'ISO, YMD'
        SET IntervalStyle = 'postgres' SET bytea_output = 'hex' SET extra_float_digits = 1 AS $$
    SELECT coalesce((SELECT scd2_internal.as_owner(first.target_relid, format('SELECT GREATEST(%L::%s, %L::%2$s)::text',
        horizon, first.sequence_type, p.before), 0)
        FROM scd2_internal.purge AS p WHERE p.target_relid = first.target_relid), horizon)
$$;
COMMENT ON FUNCTION scd2_internal.not_below_pending(scd2_internal.flow, text) IS
    'A point, or that up to which a worker still removes versions: who asks for less does not call that off';

CREATE FUNCTION scd2_internal.purge_history(caller oid, target regclass, older_than text, dry_run boolean) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    first   scd2_internal.flow;
    before  text;
    horizon text;
    ended   bigint;
BEGIN
    PERFORM scd2_internal.check_owner(caller, target) WHERE target IS NOT NULL;
    first := scd2_internal.check_can_purge(target);
    IF older_than IS NULL THEN
        PERFORM scd2_internal.refuse('22004', 'older_than must not be NULL');
    END IF;
    before := scd2_internal.sequence_point(first.flow_id, older_than);
    -- What takes long comes before the locks: what the target has seen only grows.
    horizon := scd2_internal.purge_horizon(first, before);
    ended := scd2_internal.count_ended(first, horizon);
    IF coalesce(dry_run, false) THEN
        RETURN ended;
    END IF;
    PERFORM scd2_internal.lock_flows_to_purge(target);
    first := scd2_internal.check_can_purge(target);
    horizon := scd2_internal.not_below_pending(first, horizon);
    PERFORM scd2_internal.raise_horizon(first, horizon);
    DELETE FROM scd2_internal.purge AS p WHERE p.target_relid = target;
    IF pg_relation_size(target) <= pg_size_bytes(current_setting('pg_scd2.debug_purge_size')) THEN
        ended := scd2_internal.purge_rows(first.flow_id, horizon, 0, 4294967294, true);
    ELSE
        PERFORM scd2_internal.purge_rows(first.flow_id, horizon, 0, 0, true);
        INSERT INTO scd2_internal.purge (target_relid, before, storage, rows_estimated)
            VALUES (target, horizon, pg_relation_filenode(target), ended);
    END IF;
    RETURN ended;
END $$;
COMMENT ON FUNCTION scd2_internal.purge_history(oid, regclass, text, boolean) IS
    'What scd2.purge_history() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.purge_history(target regclass, older_than text, dry_run boolean DEFAULT false) RETURNS bigint
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
COMMENT ON FUNCTION scd2.purge_history(regclass, text, boolean) IS
    'Removes the versions of an SCD type 2 target that ended before a point, and returns how many: at once, or, '
    'of a large target, by a worker after the commit (scd2.progress). older_than: in the type of the target''s '
    'sequence. dry_run: only counted. '
    'Rows that are open, or ended at the point or later, stay. Events below it are too late from then on, and '
    'what is remembered of such is forgotten. Flows into the target wait until the transaction ends. '
    'Errors: 42501 not the owner, 55000 not the target of a flow, or one that has not made its first copy, 22023 '
    'SCD type 1 or appended to, 22004 NULL, 55P03 a batch does not end within pg_scd2.lock_timeout, 25001 the '
    'transaction''s snapshot is fixed.';

CREATE FUNCTION scd2.purge_history(target regclass, older_than anyelement, dry_run boolean DEFAULT false) RETURNS bigint
    LANGUAGE sql SET search_path = pg_catalog, pg_temp SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres'
        SET extra_float_digits = 1 AS $$
    SELECT scd2.purge_history($1, $2::text, $3)
$$;
COMMENT ON FUNCTION scd2.purge_history(regclass, anyelement, boolean) IS
    'The same with a point of any type: purge_history(''t_history'', now() - interval ''1 year''). Arguments and errors as there.';

-- By the worker. Nobody changes rows that ended below the horizon; flows that begin could fill in such.
CREATE FUNCTION scd2_internal.purge_some(target oid) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    p     scd2_internal.purge;
    f     scd2_internal.flow;
    pages CONSTANT bigint :=
        pg_size_bytes(current_setting('pg_scd2.debug_purge_size')) / current_setting('block_size')::bigint;
    ended bigint;
BEGIN
    SELECT x.* INTO p FROM scd2_internal.purge AS x WHERE x.target_relid = target FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    SELECT x.* INTO f FROM scd2_internal.flow AS x JOIN pg_class AS c ON c.oid = x.target_relid
        WHERE x.target_relid = target ORDER BY x.flow_id LIMIT 1;
    IF NOT FOUND THEN                       -- an ordinary table now, or gone
        DELETE FROM scd2_internal.purge AS x WHERE x.target_relid = target;
        RETURN false;
    ELSIF EXISTS (SELECT FROM scd2_internal.flow AS x JOIN scd2_internal.flow_state AS s USING (flow_id)
                  WHERE x.target_relid = target AND coalesce(s.failed_phase, s.phase) = 'copy') THEN
        RETURN false;
    END IF;
    IF p.storage <> pg_relation_filenode(target) THEN
        p.next_block := 0;
    END IF;
    ended := scd2_internal.purge_rows(f.flow_id, p.before, p.next_block, p.next_block + pages, false);
    IF (p.next_block + pages) * current_setting('block_size')::bigint >= pg_relation_size(target) THEN
        DELETE FROM scd2_internal.purge AS x WHERE x.target_relid = target;
        RETURN false;
    END IF;
    UPDATE scd2_internal.purge AS x SET next_block = p.next_block + pages, rows_done = x.rows_done + ended,
            last_error = NULL, storage = pg_relation_filenode(target)
        WHERE x.target_relid = target;
    RETURN true;
END $$;
COMMENT ON FUNCTION scd2_internal.purge_some(oid) IS
    'Removes the next versions of a target that purge_history() left to be removed. Returns whether there is '
    'more to do now.';

-- What sources still have comes back with a full refresh: they are asked anew.
CREATE FUNCTION scd2_internal.forget_purge(target regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before text := (SELECT f.purged_before FROM scd2_internal.flow AS f
                    WHERE f.target_relid = target AND f.purged_before IS NOT NULL ORDER BY f.flow_id LIMIT 1);
BEGIN
    IF before IS NOT NULL THEN
        RAISE NOTICE 'versions of "%" that were purged will be there again, as far as its sources have them', target
            USING HINT = format('SELECT scd2.purge_history(%L, %L); -- when the refresh is done', target::text, before);
    END IF;
    UPDATE scd2_internal.flow AS f SET purged_before = NULL, definition = f.definition + 1
        WHERE f.target_relid = target AND f.purged_before IS NOT NULL;
    DELETE FROM scd2_internal.purge AS p WHERE p.target_relid = target;
END $$;
COMMENT ON FUNCTION scd2_internal.forget_purge(regclass) IS
    'Part of full_refresh: nothing is too late any more; a NOTICE says how to purge again.';
-- 48_refresh_keys.sql: full_refresh() of some keys.
--
-- In the caller's transaction: the keys are made again from the sources in a temporary table (47_check_target.sql),
-- and what differs is replaced in the target, and in what it remembers. The flows wait until that transaction ends.
-- Whatever they apply then comes after what was made here, or is known already.

CREATE FUNCTION scd2_internal.write_target(flow_id integer, statements text[]) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_write_target' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.write_target(integer, text[]) IS 'Runs statements that write the target of a flow, as its owner';

CREATE FUNCTION scd2_internal.check_refresh_keys(target regclass, key_filter text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.flow;
    s scd2_internal.flow_state;
BEGIN
    FOR f IN SELECT x.* FROM scd2_internal.flow AS x WHERE x.target_relid = target ORDER BY x.flow_id LOOP
        IF f.kind = 'append' THEN
            RAISE invalid_parameter_value USING MESSAGE = format('"%s" has no keys: rows are appended to it', target);
        END IF;
        IF f.max_lateness IS NOT NULL THEN
            RAISE feature_not_supported USING MESSAGE = format('keys of "%s" cannot be refreshed: flow "%s" has a max_lateness', target, f.name),
                DETAIL = 'Which events were too late depends on those of all keys.', HINT = format('SELECT scd2.full_refresh(%L);', target::text);
        END IF;
        IF f.purged_before IS NOT NULL AND f.memory_relid IS NOT NULL THEN
            RAISE object_not_in_prerequisite_state USING MESSAGE = format('keys of "%s" cannot be refreshed: its history was purged', target),
                DETAIL = format('What is remembered begins at %s.', f.purged_before), HINT = format('SELECT scd2.full_refresh(%L);', target::text);
        END IF;
        IF f.kind = 'snapshot' OR EXISTS (SELECT FROM scd2_internal.mark AS m WHERE m.target_relid = target AND m.kind = 'snapshot') THEN
            RAISE feature_not_supported USING MESSAGE = format('keys of "%s" cannot be refreshed: snapshots were applied to it', target),
                DETAIL = 'They spoke of all keys.', HINT = format('SELECT scd2.full_refresh(%L);', target::text);
        END IF;
        PERFORM scd2_internal.check_expression(key_filter, r, 'boolean'::regtype, 'key_filter'),
                scd2_internal.check_column_list(scd2_internal.expression_columns(key_filter, r, 'key_filter'), f.keys, 'key_filter', target::text)
            FROM unnest(ARRAY[target::oid, f.source_relid]) AS r;
        PERFORM scd2_internal.lock_flow(f.flow_id);
        SELECT x.* INTO s FROM scd2_internal.flow_state AS x WHERE x.flow_id = f.flow_id;
        IF s.flow_id IS NULL OR coalesce(s.failed_phase, s.phase) NOT IN ('apply', 'done') THEN
            RAISE object_not_in_prerequisite_state USING MESSAGE = format('flow "%s" has not made its first copy', f.name), HINT = 'SELECT scd2.sync();';
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.check_refresh_keys(regclass, text) IS 'Raises what stands against the refresh of some keys; locks the flows';

-- Rows that are as they must be stay as they are. (Rows of one image are equal in what identifies them, by which an
-- index or a hash finds them.)
CREATE FUNCTION scd2_internal.replace_statements(relation regclass, beside regclass, columns name[], identity name[], key_filter text) RETURNS text[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT ARRAY[
        format(E'DELETE FROM ONLY %s AS t WHERE (%s\n) AND NOT EXISTS (SELECT FROM %s AS b WHERE %s)', relation, key_filter, beside, l.same),
        format(E'INSERT INTO %s (%s) SELECT %s FROM %s AS b WHERE (%s\n) AND NOT EXISTS (SELECT FROM ONLY %s AS t WHERE %s)', relation, l.names, l.values, beside, key_filter, relation, l.same)]
    FROM (SELECT string_agg(quote_ident(c), ', ' ORDER BY n) AS names, string_agg(format('b.%I', c), ', ' ORDER BY n) AS values,
                 format('%s AND pg_catalog.record_image_eq(ROW(%s), ROW(%s))', (SELECT string_agg(format('b.%I %s t.%1$I', k, scd2_internal.order_operator(a.atttypid, 3)), ' AND ')
                                                                          FROM unnest(identity) AS k JOIN pg_attribute AS a ON a.attrelid = relation AND a.attname = k),
                        string_agg(format('b.%I', c), ', ' ORDER BY n), string_agg(format('t.%I', c), ', ' ORDER BY n)) AS same
          FROM unnest(columns) WITH ORDINALITY AS u (c, n)) AS l
$$;
COMMENT ON FUNCTION scd2_internal.replace_statements(regclass, regclass, name[], name[], text) IS 'Statements that make the rows of some keys what they are in another table';

CREATE FUNCTION scd2_internal.refresh_keys(target regclass, first scd2_internal.flow, key_filter text, allow_loss boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    beside     oid;
    memory     oid;
    statements text[];
BEGIN
    PERFORM scd2_internal.check_can_rebuild(target, 'full_refresh of some keys');
    PERFORM scd2_internal.check_refresh_keys(target, key_filter);
    SELECT f.* INTO first FROM scd2_internal.flow AS f WHERE f.target_relid = target ORDER BY f.flow_id LIMIT 1;
    PERFORM scd2._wait_captured('1 min');
    beside := scd2_internal.rebuild_beside(target, first, key_filter, allow_loss);
    statements := scd2_internal.replace_statements(target, beside, scd2_internal.target_columns_kept(target),
        CASE WHEN first.scd_type = 2 THEN first.keys || first.start_column ELSE first.keys END,
        -- what was purged stays so
        CASE WHEN first.purged_before IS NULL THEN key_filter
             ELSE format(E'(%s\n) AND (%I IS NULL OR %2$I >= %L::%s)', key_filter, first.end_column, first.purged_before, first.sequence_type) END);
    IF first.memory_relid IS NOT NULL THEN
        memory := (SELECT f.memory_relid FROM scd2_internal.flow AS f WHERE f.target_relid = beside LIMIT 1);
        statements := statements || scd2_internal.replace_statements(first.memory_relid, memory,
            ARRAY(SELECT a.attname FROM pg_attribute AS a WHERE a.attrelid = memory AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum), first.keys || '_sequence'::name, key_filter);
    END IF;
    PERFORM scd2_internal.write_target(first.flow_id, statements);
    PERFORM scd2_internal.forget_beside(beside);
END $$;
COMMENT ON FUNCTION scd2_internal.refresh_keys(regclass, scd2_internal.flow, text, boolean) IS 'Part of full_refresh: makes the rows of some keys again';
-- 49_follow_columns.sql: flows follow the columns of their feeds.
--
-- A feed follows its source (src/feed/layout.c), in all its rows at once: a column has its new name and type in old
-- versions too. So it does not matter how far a flow is: before its next batch, definition and target get what the
-- feed has. Columns of a feed keep their number; a flow knows which there were, under which names.
--
--   renamed     renamed in target, memory and definition, expressions included
--   added       added, unless a column_list or track_history_column_list says otherwise; rows that are there have the constant default, as their source's have, and so no row changes
--   new type    the target's column gets it; where values changed, the feed keeps the column beside a new one of the name, and so does the target: what a flow says of
--               the column (lists) it says of the new one. A flow with an expression that names it stops, and so does one whose key it is
--   dropped     stays; a flow with an expression that names it stops
--
-- A target that other flows keep too has its columns from all of them: there, only adding is followed, and the rows
-- that are there have NULL.
--
-- As the owner of the target, under its lock, which is tried for 100 ms: what cannot be done now is tried again.

CREATE FUNCTION scd2_internal.alter_as_owner(relation oid, statements text[]) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_alter_as_owner' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.alter_as_owner(oid, text[]) IS 'Executes the statements as the owner of the relation';

-- Columns of a feed that are its source's. (The owner may have added others.)
CREATE FUNCTION scd2_internal.followed_columns(feed integer, OUT attnum smallint, OUT name name, OUT type text, OUT typmod integer, OUT base oid, OUT collation oid, OUT missing text, OUT dropped boolean, OUT until bigint, OUT stands_for name)
    RETURNS SETOF record
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.atttypmod, a.atttypid, a.attcollation, c.missing,
           NOT EXISTS (SELECT FROM pg_attribute s WHERE s.attrelid = f.source_relid AND s.attnum = c.source_attnum AND NOT s.attisdropped),
           c.until, coalesce((SELECT n.name FROM scd2_internal.feed_column n WHERE n.feed_id = c.feed_id AND n.source_attnum = c.was), a.attname)
    FROM scd2_internal.feed f JOIN scd2_internal.feed_column c USING (feed_id) JOIN pg_attribute a ON a.attrelid = f.feed_relid AND a.attnum = c.feed_attnum AND NOT a.attisdropped
    WHERE f.feed_id = feed ORDER BY a.attnum
$$;
COMMENT ON FUNCTION scd2_internal.followed_columns(integer) IS
    'The columns of a feed that follow those of its source, or did: dropped; until: its type changed in this version, and stands_for is the column that came then';

-- What a new flow knows. (A column that came to the feed with it is not followed yet: it is known by its name.)
CREATE FUNCTION scd2_internal.know_columns(id integer) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE scd2_internal.flow f SET (known_changes, known_attnums, known_names) = (
        SELECT coalesce((SELECT l.changes FROM scd2_internal.feed_layout l WHERE l.feed_id = f.feed_id), 0), array_agg(a.attnum ORDER BY a.attnum), array_agg(a.attname ORDER BY a.attnum)
        FROM scd2_internal.feed d JOIN pg_attribute a ON a.attrelid = d.feed_relid AND a.attnum > 5 AND NOT a.attisdropped WHERE d.feed_id = f.feed_id)
    WHERE f.flow_id = id AND f.feed_id IS NOT NULL
$$;
COMMENT ON FUNCTION scd2_internal.know_columns(integer) IS 'Writes down the columns of a flow''s feed as they are';

CREATE FUNCTION scd2_internal.renamed(names name[], old_names name[], new_names name[]) RETURNS name[]
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(coalesce(new_names[array_position(old_names, n)], n) ORDER BY i), '{}') FROM unnest(names) WITH ORDINALITY u (n, i)
$$;
COMMENT ON FUNCTION scd2_internal.renamed(name[], name[], name[]) IS 'A list of columns under their new names';

CREATE FUNCTION scd2_internal.cannot_follow(w scd2_internal.flow, what text, detail text, hint text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.refuse('55000', format('flow "%s" cannot follow its source "%s.%s": %s', w.name, w.source_schema, w.source_name, what), concat_ws(' ', detail, 'Remedy: ' || hint), hint);
END $$;
COMMENT ON FUNCTION scd2_internal.cannot_follow(scd2_internal.flow, text, text, text) IS 'Raises 55000';

CREATE FUNCTION scd2_internal.rename_columns(expression text, alias name, old_names name[], new_names name[]) RETURNS text
    AS 'MODULE_PATHNAME', 'scd2_rename_columns' LANGUAGE C IMMUTABLE STRICT;
COMMENT ON FUNCTION scd2_internal.rename_columns(text, name, name[], name[]) IS
    'An expression over the columns of a relation, called alias in it, after columns of it were renamed';

-- A table that is renamed keeps its alias in expressions that have it (follow_recorded_names).
CREATE FUNCTION scd2_internal.source_alias(w scd2_internal.flow) RETURNS name
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(w.options ->> 'source_alias', CASE w.input WHEN 'changes' THEN (SELECT f.feed_name FROM scd2_internal.feed f WHERE f.feed_id = w.feed_id) END, w.source_name)::name
$$;
COMMENT ON FUNCTION scd2_internal.source_alias(scd2_internal.flow) IS 'What expressions of a flow may call the relation whose columns they name';

CREATE FUNCTION scd2_internal.renamed_expression(w scd2_internal.flow, expression text, old_names name[], new_names name[])
    RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.rename_columns(expression, scd2_internal.source_alias(w), old_names, new_names)
$$;
COMMENT ON FUNCTION scd2_internal.renamed_expression(scd2_internal.flow, text, name[], name[]) IS
    'An expression of a flow after columns were renamed';

-- The lists among the arguments as given; what is left out stays so under its new name, and a new column of the old name
-- is another.
CREATE FUNCTION scd2_internal.renamed_options(options jsonb, old_names name[], new_names name[]) RETURNS jsonb
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_object_agg(o.key, CASE jsonb_typeof(o.value) WHEN 'array'
        THEN to_jsonb(scd2_internal.renamed(ARRAY(SELECT jsonb_array_elements_text(o.value))::name[], old_names, new_names))
        ELSE o.value END), '{}') FROM jsonb_each(options) o
$$;
COMMENT ON FUNCTION scd2_internal.renamed_options(jsonb, name[], name[]) IS 'Lists of columns under their new names';

CREATE FUNCTION scd2_internal.has_column(relation oid, column_name name) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = column_name AND a.attnum > 0 AND NOT a.attisdropped)
$$;
COMMENT ON FUNCTION scd2_internal.has_column(oid, name) IS 'Whether a relation has a column of this name';

-- Statements that rename the columns of one relation that it has. Names can go round, so there are names between.
CREATE FUNCTION scd2_internal.rename_statements(relation oid, old_names name[], new_names name[]) RETURNS text[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(array_agg(format('ALTER TABLE %s RENAME COLUMN %I TO %I', relation::regclass, CASE p WHEN 1 THEN o ELSE '_scd2_renamed_' || n END, CASE p WHEN 1 THEN '_scd2_renamed_' || n ELSE new_names[n] END) ORDER BY p, n), '{}')
    FROM unnest(old_names) WITH ORDINALITY u (o, n), generate_series(1, 2) p WHERE scd2_internal.has_column(relation, o)
$$;
COMMENT ON FUNCTION scd2_internal.rename_statements(oid, name[], name[]) IS 'ALTER TABLE … RENAME COLUMN for each of these that the relation has';

CREATE FUNCTION scd2_internal.is_shared(w scd2_internal.flow) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM scd2_internal.flow o WHERE o.target_relid = w.target_relid AND o.flow_id <> w.flow_id)
$$;
COMMENT ON FUNCTION scd2_internal.is_shared(scd2_internal.flow) IS 'Whether other flows keep the target too';

-- Before columns of target and memory change.
CREATE FUNCTION scd2_internal.lock_target_columns(w scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    relations oid[] := array_remove(ARRAY[w.target_relid, w.memory_relid], NULL);
BEGIN
    IF NOT scd2_internal.try_lock(relations, array_fill('ACCESS EXCLUSIVE'::text, ARRAY[cardinality(relations)])) THEN
        RAISE lock_not_available USING MESSAGE = format('the columns of target "%s" cannot follow the source''s while it is in use', scd2_internal.label(w.target_relid));
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.lock_target_columns(scd2_internal.flow) IS 'Locks target and memory. Raises 55P03 if they are in use';

CREATE FUNCTION scd2_internal.naming_expressions(w scd2_internal.flow, column_name name) RETURNS TABLE (argument text, text text, can_be_altered boolean)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT x.argument, x.text, x.argument IN ('source_filter', 'apply_as_deletes')
    FROM (VALUES ('source_filter', w.source_filter), ('apply_as_deletes', w.apply_as_deletes), ('apply_as_truncates', w.apply_as_truncates),
                 ('sequence_by', w.sequence_by), ('delete_sequence_by', w.delete_sequence_by), ('end_sequence_by', w.end_sequence_by)) x (argument, text)
    WHERE x.text IS NOT NULL
      AND scd2_internal.rename_columns(x.text, scd2_internal.source_alias(w), ARRAY[column_name], ARRAY['_scd2_dropped'::name]) <> x.text
$$;
COMMENT ON FUNCTION scd2_internal.naming_expressions(scd2_internal.flow, name) IS 'The expressions of a flow that name a column, and whether scd2.alter_flow() can give it another';

-- Columns that a flow knows and does not know yet to have changed their types so.
CREATE FUNCTION scd2_internal.retyped_columns(w scd2_internal.flow) RETURNS TABLE (known name, kept name, now name, type text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT k.name, c.name, n.name, n.type
    FROM ROWS FROM (unnest(w.known_attnums), unnest(w.known_names)) k (attnum, name) JOIN scd2_internal.followed_columns(w.feed_id) c USING (attnum)
        JOIN scd2_internal.followed_columns(w.feed_id) n ON n.name = c.stands_for AND n.attnum <> ALL (w.known_attnums)
    WHERE c.until IS NOT NULL ORDER BY c.attnum
$$;
COMMENT ON FUNCTION scd2_internal.retyped_columns(scd2_internal.flow) IS
    'Columns of a flow''s feed, as it knows them, that are kept beside a new one now: their names, and those, and the types, of the new ones';

CREATE FUNCTION scd2_internal.has_retyped(w scd2_internal.flow) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM scd2_internal.retyped_columns(w) r WHERE r.known = ANY (w.columns))
$$;
COMMENT ON FUNCTION scd2_internal.has_retyped(scd2_internal.flow) IS
    'Whether columns of a target have other values now than those that are called so in the feed';

CREATE FUNCTION scd2_internal.has_retyped_key(w scd2_internal.flow) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM scd2_internal.retyped_columns(w) r WHERE r.known = ANY (w.keys))
$$;
COMMENT ON FUNCTION scd2_internal.has_retyped_key(scd2_internal.flow) IS 'Whether a key of a flow has other values now';

-- Where an expression names a column of another type, it may mean something else now.
CREATE FUNCTION scd2_internal.check_retyped(w scd2_internal.flow, stops boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    r record;
    e record;
    what text;
BEGIN
    FOR r IN SELECT c.* FROM scd2_internal.retyped_columns(w) c LOOP
        what := format('column "%s" is of type %s now, and has other values', r.known, r.type);
        IF r.known = ANY (w.keys) THEN
            PERFORM scd2_internal.cannot_follow(w, what, 'It is a key: which row was which is not known.', format('SELECT scd2.drop_flow(%L); -- then begin anew', w.name));
        ELSIF r.known = ANY (w.columns) AND r.known <> ALL (w.absent) AND scd2_internal.is_shared(w) THEN
            PERFORM scd2_internal.cannot_follow(w, what, 'Other flows keep the target too, with the type that it had.',
                format('SELECT scd2.drop_flow(%L); -- then let it join the target anew', w.name));
        END IF;
        FOR e IN SELECT x.* FROM scd2_internal.naming_expressions(w, r.known) x WHERE stops LOOP
            PERFORM scd2_internal.cannot_follow(w, what, format('Its %s names the column: %s.', e.argument, e.text),
                CASE WHEN e.can_be_altered THEN format('SELECT scd2.alter_flow(%L, %s => %L); SELECT scd2.resume_flow(%1$L); -- or what it shall be now', w.name, e.argument, e.text)
                     ELSE format('SELECT scd2.drop_flow(%L); -- then begin anew', w.name) END);
        END LOOP;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.check_retyped(scd2_internal.flow, boolean) IS
    'Raises 55000 if a flow needs a column whose type changed so that its values are others; stops: for an expression that names it, too';

CREATE FUNCTION scd2_internal.follow_names(w scd2_internal.flow) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old_names name[];
    new_names name[];
    ours name[];
    theirs name[];
    taken name;
BEGIN
    -- (What was known by another name, and is kept beside a new column since, is that to the flow.)
    SELECT array_agg(k.name ORDER BY k.n), array_agg(CASE WHEN r.known IS NULL THEN c.name ELSE r.now END ORDER BY k.n),
           array_agg(k.name ORDER BY k.n) FILTER (WHERE k.name = ANY (w.columns) AND k.name <> ALL (w.absent)),
           array_agg(c.name ORDER BY k.n) FILTER (WHERE k.name = ANY (w.columns) AND k.name <> ALL (w.absent))
    INTO old_names, new_names, ours, theirs
    FROM ROWS FROM (unnest(w.known_attnums), unnest(w.known_names)) WITH ORDINALITY k (attnum, name, n) JOIN scd2_internal.followed_columns(w) c USING (attnum)
         LEFT JOIN scd2_internal.retyped_columns(w) r ON r.known = k.name WHERE c.name <> k.name;
    IF old_names IS NULL THEN
        RETURN w;
    END IF;
    w.sequence_by := scd2_internal.renamed_expression(w, w.sequence_by, old_names, new_names);
    w.delete_sequence_by := scd2_internal.renamed_expression(w, w.delete_sequence_by, old_names, new_names);
    w.end_sequence_by := scd2_internal.renamed_expression(w, w.end_sequence_by, old_names, new_names);
    w.apply_as_deletes := scd2_internal.renamed_expression(w, w.apply_as_deletes, old_names, new_names);
    w.apply_as_truncates := scd2_internal.renamed_expression(w, w.apply_as_truncates, old_names, new_names);
    w.source_filter := scd2_internal.renamed_expression(w, w.source_filter, old_names, new_names);
    w.initial_start := scd2_internal.renamed_expression(w, w.initial_start, old_names, new_names);
    IF ours IS NOT NULL THEN
        IF scd2_internal.is_shared(w) THEN
            PERFORM scd2_internal.cannot_follow(w, format('column "%s" was renamed to "%s"', ours[1], theirs[1]), 'Other flows keep the target too, under the old name.',
                format('SELECT scd2.drop_flow(%L); -- then let it join the target anew', w.name));
        END IF;
        SELECT n INTO taken FROM unnest(theirs) n WHERE n <> ALL (ours) AND scd2_internal.has_column(w.target_relid, n) LIMIT 1;
        IF FOUND THEN
            PERFORM scd2_internal.cannot_follow(w, format('column "%s" was renamed to "%s", and target "%s" has a column of that name', ours[array_position(theirs, taken)], taken, scd2_internal.label(w.target_relid)),
                NULL, format('ALTER TABLE %s RENAME COLUMN %I TO %I; SELECT scd2.resume_flow(%L);', w.target_relid::regclass, taken, taken || '_old', w.name));
        END IF;
        PERFORM scd2_internal.lock_target_columns(w);
        PERFORM scd2_internal.alter_as_owner(w.target_relid, scd2_internal.rename_statements(w.target_relid, ours, theirs) || coalesce(scd2_internal.rename_statements(w.memory_relid, ours, theirs), '{}'));
    END IF;
    w.keys := scd2_internal.renamed(w.keys, old_names, new_names);
    w.columns := scd2_internal.renamed(w.columns, ours, theirs);
    w.tracked := scd2_internal.renamed(w.tracked, ours, theirs);
    w.ignores_null := scd2_internal.renamed(w.ignores_null, ours, theirs);
    w.options := scd2_internal.renamed_options(w.options, old_names, new_names);
    w.sequence_column := coalesce(new_names[array_position(old_names, w.sequence_column)], w.sequence_column);
    RETURN w;
END $$;
COMMENT ON FUNCTION scd2_internal.follow_names(scd2_internal.flow) IS 'A flow, and its target, under the names that its feed''s columns have now. Raises 55000, 55P03';

CREATE FUNCTION scd2_internal.follow_types(w scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c record;
BEGIN
    FOR c IN
        SELECT r.oid AS relation, f.name, f.type FROM scd2_internal.followed_columns(w) f, unnest(ARRAY[w.target_relid, w.memory_relid]) r (oid)
            JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) b
        WHERE a.attname = f.name AND f.name = ANY (w.columns) AND f.name <> ALL (w.absent) AND (b.base <> f.base OR b.base_typmod <> f.typmod AND b.base_typmod <> -1)
        ORDER BY r.oid, f.attnum
    LOOP
        IF scd2_internal.is_shared(w) THEN
            PERFORM scd2_internal.cannot_follow(w, format('column "%s" is of type %s now', c.name, c.type), 'Other flows keep the target too, with the type that it had.',
                format('SELECT scd2.drop_flow(%L); -- then let it join the target anew', w.name));
        END IF;
        PERFORM scd2_internal.lock_target_columns(w);
        PERFORM scd2_internal.alter_as_owner(c.relation, ARRAY[format('ALTER TABLE %s ALTER COLUMN %I TYPE %s', c.relation::regclass, c.name, c.type)]);
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.follow_types(scd2_internal.flow) IS 'The target''s columns get the types that the feed''s have now. Raises 55000, 55P03, or what the server says of what hangs on them';

-- Does a flow take columns that come later?
CREATE FUNCTION scd2_internal.takes_column(w scd2_internal.flow, column_name name) RETURNS boolean
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(w.options -> 'column_list' ? column_name, true) AND NOT coalesce(w.options -> 'except_column_list' ? column_name, false)
       AND (w.scd_type = 1 OR column_name NOT IN (w.start_column, w.end_column, coalesce(w.current_column, w.end_column)))
$$;
COMMENT ON FUNCTION scd2_internal.takes_column(scd2_internal.flow, name) IS 'Whether a column that is added to the source comes into the target';

CREATE FUNCTION scd2_internal.add_to_target(w scd2_internal.flow, c record, kept boolean, shared boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    definition text := format('%I %s%s', c.name, c.type, (SELECT format(' COLLATE %I.%I', n.nspname, l.collname) FROM pg_collation l JOIN pg_namespace n ON n.oid = l.collnamespace WHERE l.oid = c.collation))
        || CASE WHEN c.missing IS NOT NULL AND NOT shared THEN format(' DEFAULT %L::%s', c.missing, c.type) ELSE '' END;
BEGIN
    PERFORM scd2_internal.lock_target_columns(w);
    PERFORM scd2_internal.alter_as_owner(r, ARRAY[format('ALTER TABLE %s ADD COLUMN %s', r::regclass, definition), format('ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT', r::regclass, c.name)])
        FROM unnest(ARRAY[w.target_relid] || CASE WHEN kept THEN ARRAY[w.memory_relid] ELSE '{}' END) r;
END $$;
COMMENT ON FUNCTION scd2_internal.add_to_target(scd2_internal.flow, record, boolean, boolean) IS 'Part of follow_additions: the column comes into target and memory';

CREATE FUNCTION scd2_internal.follow_additions(w scd2_internal.flow) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    shared boolean := scd2_internal.is_shared(w);
    is_tracked boolean;
    ignores boolean;
    c record;
BEGIN
    FOR c IN SELECT f.* FROM scd2_internal.followed_columns(w) f
             WHERE f.attnum <> ALL (w.known_attnums) AND scd2_internal.takes_column(w, f.stands_for) AND (f.name <> ALL (w.columns) OR f.name = ANY (w.absent))
    LOOP
        is_tracked := w.input <> 'append' AND coalesce(w.options -> 'track_history_column_list' ? c.stands_for, true) AND NOT coalesce(w.options -> 'track_history_except_column_list' ? c.stands_for, false);
        ignores := scd2_internal.ignored_later(w.target_relid, w, ARRAY[c.stands_for]) <> '{}'
            OR w.ignores_null <> '{}' AND coalesce(w.options -> 'ignore_null_updates_column_list' ? c.stands_for, false);
        IF c.name <> ALL (w.columns) AND scd2_internal.has_column(w.target_relid, c.name) THEN
            PERFORM scd2_internal.cannot_follow(w, format('column "%s" was added, and target "%s" has a column of that name', c.name, scd2_internal.label(w.target_relid)),
                NULL, format('ALTER TABLE %s RENAME COLUMN %I TO %I; SELECT scd2.resume_flow(%L);', w.target_relid::regclass, c.name, c.name || '_old', w.name));
        ELSIF c.name <> ALL (w.columns) THEN
            PERFORM scd2_internal.add_to_target(w, c, w.memory_relid IS NOT NULL AND w.scd_type = 2 AND (w.ignores_null <> '{}' OR NOT is_tracked), shared);
            UPDATE scd2_internal.flow f SET columns = f.columns || c.name, absent = f.absent || c.name, tracked = f.tracked || CASE WHEN is_tracked THEN ARRAY[c.name] ELSE '{}' END,
                    ignores_null = f.ignores_null || CASE WHEN ignores THEN ARRAY[c.name] ELSE '{}' END, definition = f.definition + 1
                WHERE f.target_relid = w.target_relid AND f.flow_id <> w.flow_id;
            w.columns := w.columns || c.name;
            IF is_tracked THEN
                w.tracked := w.tracked || c.name;
            END IF;
            IF ignores THEN
                w.ignores_null := w.ignores_null || c.name;
            END IF;
        END IF;
        w.absent := array_remove(w.absent, c.name);
    END LOOP;
    RETURN w;
END $$;
COMMENT ON FUNCTION scd2_internal.follow_additions(scd2_internal.flow) IS 'A flow, and its target, with the columns that came to its feed. Raises 55000, 55P03';

-- A column that was dropped is NULL from then on: a filter would leave out all that comes, a condition for deletes would
-- never be true again.
CREATE FUNCTION scd2_internal.check_no_dropped(w scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    e record;
BEGIN
    FOR e IN
        SELECT x.*, d.name FROM scd2_internal.followed_columns(w.feed_id) d, scd2_internal.naming_expressions(w, d.name) x WHERE d.dropped LIMIT 1
    LOOP
        PERFORM scd2_internal.cannot_follow(w, format('column "%s" was dropped', e.name), format('Its %s names the column: %s.', e.argument, e.text),
            CASE WHEN e.can_be_altered THEN format('SELECT scd2.alter_flow(%L, %s => %L); SELECT scd2.resume_flow(%1$L); -- or what it shall be now', w.name, e.argument, CASE e.argument WHEN 'source_filter' THEN 'true' ELSE 'false' END)
                 ELSE format('SELECT scd2.drop_flow(%L); -- then begin anew', w.name) END);
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.check_no_dropped(scd2_internal.flow) IS 'Raises 55000 if an expression of a flow names a column that its source has no more';

-- stops: unless expressions are about to be altered, a flow with one that names a dropped column stops.
CREATE FUNCTION scd2_internal.follow_columns(id integer, stops boolean DEFAULT true) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET pg_scd2.enable_change_feed_on_create = off AS $$
DECLARE
    w scd2_internal.flow;
BEGIN
    SELECT f.* INTO w FROM scd2_internal.flow f LEFT JOIN scd2_internal.feed_layout l USING (feed_id)
        WHERE f.flow_id = id AND f.feed_id IS NOT NULL AND f.known_changes IS DISTINCT FROM coalesce(l.changes, 0) AND EXISTS (SELECT FROM pg_class c WHERE c.oid = f.target_relid);
    IF NOT FOUND THEN
        PERFORM scd2_internal.follow_source_columns(id);
        RETURN;
    END IF;
    PERFORM scd2_internal.check_retyped(w, stops);
    w := scd2_internal.follow_names(w);
    PERFORM scd2_internal.check_no_dropped(w) WHERE stops;
    PERFORM scd2_internal.follow_types(w);
    w := scd2_internal.follow_additions(w);
    UPDATE scd2_internal.flow f SET keys = w.keys, columns = w.columns, tracked = w.tracked, ignores_null = w.ignores_null, absent = w.absent, sequence_column = w.sequence_column,
            sequence_by = w.sequence_by, delete_sequence_by = w.delete_sequence_by, end_sequence_by = w.end_sequence_by, apply_as_deletes = w.apply_as_deletes,
            apply_as_truncates = w.apply_as_truncates, source_filter = w.source_filter, initial_start = w.initial_start, options = w.options, definition = f.definition + 1
        WHERE f.flow_id = id;
    PERFORM scd2_internal.know_columns(id);
END $$;
COMMENT ON FUNCTION scd2_internal.follow_columns(integer, boolean) IS 'Has a flow follow the columns of its feed, if they changed';

-- Before a flow reads its source. A name there must mean what it means in the feed.
CREATE FUNCTION scd2_internal.check_columns_followed(id integer) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    w scd2_internal.flow := (SELECT f FROM scd2_internal.flow f WHERE f.flow_id = id);
BEGIN
    IF scd2_internal.columns_pending(w.feed_id) IS NOT NULL OR w.known_changes <> (SELECT l.changes FROM scd2_internal.feed_layout l WHERE l.feed_id = w.feed_id) THEN
        RAISE lock_not_available USING MESSAGE = format('flow "%s" waits until changes of columns of "%s.%s" are captured', w.name, w.source_schema, w.source_name);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_columns_followed(integer) IS 'Raises 55P03 if columns of the flow''s source have names that its feed does not have yet';
-- 49_follow_source_columns.sql: flows over snapshots follow the columns of their source.
--
-- The source is any relation, and nothing says that it was altered. So before each snapshot, under a lock on the
-- source, its columns are compared with those that the flow knows, by number, and definition and target follow in the
-- transaction of the snapshot (a dry run: in one that is undone). As with feeds (49_follow_columns.sql):
--
--   renamed     renamed in target, memory and definition, the scope included
--   added       added, unless a column_list or track_history_column_list says otherwise
--   new type    the target's column gets it, if it takes the same values; a narrower one needs nothing
--   dropped     stays and is NULL from then on; if another column has its name now, it becomes <name>_until_<version>
--
-- Where the source is another relation than the numbers are of (after a restore), columns are known by their names.

-- As followed_columns() of a feed, with base types. A type that takes fewer values than the target's is the target's.
CREATE FUNCTION scd2_internal.followed_columns(w scd2_internal.flow, OUT attnum smallint, OUT name name, OUT type text,
    OUT typmod integer, OUT base oid, OUT collation oid, OUT missing text, OUT dropped boolean, OUT until bigint,
    OUT stands_for name)
    RETURNS SETOF record
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.* FROM scd2_internal.followed_columns(w.feed_id) AS c WHERE w.feed_id IS NOT NULL
    UNION ALL
    SELECT a.attnum, a.attname, format_type(b.base, m.typmod), m.typmod, b.base, a.attcollation,
           (SELECT (l.attmissingval::text::text[])[1] FROM pg_attribute AS l
            WHERE l.attrelid = scd2_internal.leaf_with_rows(a.attrelid) AND l.attname = a.attname AND l.atthasmissing),
           false, NULL, a.attname
    FROM pg_attribute AS a CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) AS b
    LEFT JOIN pg_attribute AS t ON t.attrelid = w.target_relid AND t.attname = a.attname AND NOT t.attisdropped
    LEFT JOIN LATERAL scd2_internal.base_type(t.atttypid, t.atttypmod) AS tb ON true
    CROSS JOIN LATERAL (SELECT CASE WHEN tb.base = b.base
        AND scd2_internal.type_is_followed(b.base, b.base_typmod, tb.base, tb.base_typmod)
        THEN tb.base_typmod ELSE b.base_typmod END) AS m (typmod)
    WHERE w.feed_id IS NULL AND a.attrelid = w.source_relid AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY 1
$$;
COMMENT ON FUNCTION scd2_internal.followed_columns(scd2_internal.flow) IS
    'The columns that a flow follows: of its feed, or, if it has none, of its source';

CREATE FUNCTION scd2_internal.know_source_columns(id integer) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE scd2_internal.flow AS f SET known_attnums = n.attnums, known_names = n.names, known_changes = n.source
    FROM (SELECT a.attrelid, array_agg(a.attnum ORDER BY a.attnum) AS attnums,
                 array_agg(a.attname ORDER BY a.attnum) AS names, hashoid(a.attrelid) AS source
          FROM pg_attribute AS a WHERE a.attnum > 0 AND NOT a.attisdropped
            AND a.attrelid = (SELECT w.source_relid FROM scd2_internal.flow AS w WHERE w.flow_id = id) GROUP BY a.attrelid) AS n
    WHERE f.flow_id = id AND f.kind = 'snapshot'
      AND (f.known_attnums, f.known_names, f.known_changes) IS DISTINCT FROM (n.attnums, n.names, n.source)
$$;
COMMENT ON FUNCTION scd2_internal.know_source_columns(integer) IS
    'Writes down the columns that the source of a flow over snapshots has now';

CREATE FUNCTION scd2_internal.with_known_numbers(w scd2_internal.flow) RETURNS scd2_internal.flow
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF w.known_changes IS DISTINCT FROM hashoid(w.source_relid) THEN
        w.known_attnums := ARRAY(SELECT coalesce(scd2_internal.column_number(w.source_relid, k.name), -k.n::smallint)
            FROM unnest(w.known_names) WITH ORDINALITY AS k (name, n) ORDER BY k.n);
    END IF;
    RETURN w;
END $$;
COMMENT ON FUNCTION scd2_internal.with_known_numbers(scd2_internal.flow) IS
    'A flow that knows its source''s columns by their numbers now, if the source is another relation';

-- A column that its source has no more, and whose name another has.
CREATE FUNCTION scd2_internal.keep_under_other_name(w scd2_internal.flow, column_name name) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kept name := scd2_internal.object_name(column_name,
        format('until_%s', (SELECT p.version FROM scd2_internal.position AS p)));
BEGIN
    WHILE scd2_internal.has_column(w.target_relid, kept) LOOP
        kept := scd2_internal.object_name(kept, 'too');
    END LOOP;
    PERFORM scd2_internal.lock_target_columns(w);
    PERFORM scd2_internal.alter_as_owner(w.target_relid,
        scd2_internal.rename_statements(w.target_relid, ARRAY[column_name], ARRAY[kept])
        || coalesce(scd2_internal.rename_statements(w.memory_relid, ARRAY[column_name], ARRAY[kept]), '{}'));
    w.columns := scd2_internal.renamed(w.columns, ARRAY[column_name], ARRAY[kept]);
    w.tracked := scd2_internal.renamed(w.tracked, ARRAY[column_name], ARRAY[kept]);
    w.ignores_null := scd2_internal.renamed(w.ignores_null, ARRAY[column_name], ARRAY[kept]);
    w.absent := w.absent || kept;
    RETURN w;
END $$;
COMMENT ON FUNCTION scd2_internal.keep_under_other_name(scd2_internal.flow, name) IS
    'A flow, and its target, in which a column that was dropped makes room for another of its name. Raises 55P03';

CREATE FUNCTION scd2_internal.leave_dropped_columns(w scd2_internal.flow) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    gone name;
BEGIN
    FOR gone IN
        SELECT k.name FROM ROWS FROM (unnest(w.known_attnums), unnest(w.known_names)) WITH ORDINALITY AS k (attnum, name, n)
        WHERE k.name = ANY (w.columns) AND k.name <> ALL (w.absent)
          AND k.attnum NOT IN (SELECT c.attnum FROM scd2_internal.followed_columns(w) AS c) ORDER BY k.n
    LOOP
        IF gone = ANY (w.keys) THEN
            PERFORM scd2_internal.cannot_follow(w, format('key column "%s" was dropped', gone), NULL,
                format('SELECT scd2.drop_flow(%L); -- then begin anew', w.name));
        ELSIF scd2_internal.has_column(w.source_relid, gone) AND NOT scd2_internal.is_shared(w) THEN
            w := scd2_internal.keep_under_other_name(w, gone);
        ELSE
            w.absent := w.absent || gone;
        END IF;
    END LOOP;
    RETURN w;
END $$;
COMMENT ON FUNCTION scd2_internal.leave_dropped_columns(scd2_internal.flow) IS
    'A flow for which columns that its source has no more are NULL. Raises 55000, 55P03';

-- Snapshots that are remembered speak of the keys in their scope.
CREATE FUNCTION scd2_internal.rename_in_scopes(w scd2_internal.flow) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old_names name[];
    new_names name[];
BEGIN
    SELECT array_agg(k.name), array_agg(c.name) INTO old_names, new_names
        FROM ROWS FROM (unnest(w.known_attnums), unnest(w.known_names)) AS k (attnum, name)
        JOIN scd2_internal.followed_columns(w) AS c USING (attnum) WHERE c.name <> k.name;
    IF old_names IS NOT NULL THEN
        w.scope := scd2_internal.renamed_expression(w, w.scope, old_names, new_names);
        UPDATE scd2_internal.mark AS m SET scope = scd2_internal.rename_columns(m.scope, m.scope_alias, old_names, new_names)
            WHERE m.target_relid = w.target_relid AND m.flow_id = w.flow_id AND m.scope IS NOT NULL;
    END IF;
    RETURN w;
END $$;
COMMENT ON FUNCTION scd2_internal.rename_in_scopes(scd2_internal.flow) IS
    'A flow, and the snapshots of it that are remembered, with scopes under the names that columns have now';

CREATE FUNCTION scd2_internal.check_types_follow(w scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c record;
BEGIN
    SELECT f.name, f.type, format_type(b.base, b.base_typmod) AS was INTO c
        FROM scd2_internal.followed_columns(w) AS f
        JOIN pg_attribute AS a ON a.attrelid = w.target_relid AND a.attname = f.name AND NOT a.attisdropped
        CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) AS b
        WHERE f.name = ANY (w.columns) AND f.name <> ALL (w.absent)
          AND (b.base <> f.base OR b.base_typmod <> f.typmod)
          AND NOT scd2_internal.type_is_followed(b.base, b.base_typmod, f.base, f.typmod)
        ORDER BY f.attnum LIMIT 1;
    IF FOUND THEN
        PERFORM scd2_internal.cannot_follow(w, format('column "%s" is of type %s now', c.name, c.type),
            format('In target "%s" it is of type %s, whose values are not all of the new one in one way only.',
                scd2_internal.label(w.target_relid), c.was),
            (SELECT string_agg(format('ALTER TABLE %s ALTER COLUMN %I TYPE %s USING %2$I::%3$s; ', r::regclass, c.name, c.type), '')
             FROM unnest(ARRAY[w.target_relid, w.memory_relid]::oid[]) AS r WHERE scd2_internal.has_column(r, c.name))
            || format('SELECT scd2.resume_flow(%L); -- or what else makes new values of the old', w.name));
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_types_follow(scd2_internal.flow) IS
    'Raises 55000 if the target''s values of a column cannot become the type that the source''s column has now';

CREATE FUNCTION scd2_internal.follow_source_columns(id integer) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET pg_scd2.enable_change_feed_on_create = off AS $$
DECLARE
    w     scd2_internal.flow;
    known scd2_internal.flow;
BEGIN
    SELECT f.* INTO known FROM scd2_internal.flow AS f JOIN pg_class AS t ON t.oid = f.target_relid
        JOIN pg_class AS s ON s.oid = f.source_relid WHERE f.flow_id = id AND f.kind = 'snapshot';
    IF NOT FOUND THEN
        RETURN;
    END IF;
    known := scd2_internal.with_known_numbers(known);
    w := scd2_internal.leave_dropped_columns(known);
    w := scd2_internal.rename_in_scopes(w);
    w := scd2_internal.follow_names(w);
    PERFORM scd2_internal.check_types_follow(w);
    PERFORM scd2_internal.follow_types(w);
    w := scd2_internal.follow_additions(w);
    IF w OPERATOR(pg_catalog.*<>) known THEN
        UPDATE scd2_internal.flow AS f SET keys = w.keys, columns = w.columns, tracked = w.tracked, absent = w.absent,
                ignores_null = w.ignores_null, scope = w.scope, options = w.options, definition = f.definition + 1
            WHERE f.flow_id = id;
    END IF;
    PERFORM scd2_internal.know_source_columns(id);
END $$;
COMMENT ON FUNCTION scd2_internal.follow_source_columns(integer) IS
    'Has a flow over snapshots follow the columns of its source, which is locked. Errors: 55000, 55P03';
-- 50_erase.sql: forgetting a row that is gone from its table.
--
-- erase() removes what is left of a key: in the feed, in the targets of flows over the table and their memories, in
-- rejected events, and in what is made from those targets. All of it in the caller's transaction, as the owner of
-- each relation, and without leaving it in a feed of a target again (src/flow/erase.c).
--
-- Nothing of it must be on its way. The flows are locked, so that none applies anything meanwhile; then a snapshot
-- S is taken that shows that the key is gone, and capture passes the end of the log as it is then: now the feed has
-- all that S has seen of the key. What S does not see of it comes later, and is another row with the same key: if
-- there is such a thing already, the call fails, and can be made again.
--
-- A row can have had other keys before. The feed says so: a pre-image whose post-image has another key. What the
-- row was under its earlier key, from there back to where that key came to it, is erased too: its *lives*. If the
-- earlier key was used for other rows as well, they stay; then targets of flows over the feed in commit order are
-- told apart by time, and for others there is a NOTICE.
--
-- Where a late event could bring it back (event tables), a fingerprint of the key and its last sequence are kept:
-- events of that key up to there are counted as skipped.

-- The key as conditions on rows of a relation, with its own types and equality.
CREATE FUNCTION scd2_internal.key_condition(relation oid, key jsonb, alias text DEFAULT 't') RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(format('%s.%I %s %L::%s', alias, a.attname, scd2_internal.order_operator(b.base, 3), key ->> a.attname, format_type(b.base, b.base_typmod)), ' AND ' ORDER BY a.attnum)
    FROM pg_attribute a CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) b
    WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND key ? a.attname
    HAVING count(*) = (SELECT count(*) FROM jsonb_object_keys(key))
$$;
COMMENT ON FUNCTION scd2_internal.key_condition(oid, jsonb, text) IS 'Condition on the rows t of a relation that have a key; NULL if it lacks a column of it';

-- A key in a form that does not depend on the session's settings.
CREATE FUNCTION scd2_internal.key_as_text(relation oid, key jsonb) RETURNS jsonb
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.as_owner(relation, format('SELECT pg_catalog.jsonb_build_object(%s)',
        string_agg(format('%L, (SELECT CASE WHEN pg_catalog.jsonb_typeof(pg_catalog.to_jsonb(x)) IN (''object'', ''array'') THEN x::text ELSE pg_catalog.to_jsonb(x) #>> ''{}'' END FROM (SELECT %L::%s) v (x))',
                          a.attname, key ->> a.attname, format_type(b.base, b.base_typmod)), ', ')), 0)::jsonb
    FROM pg_attribute a CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) b
    WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND key ? a.attname
$$;
COMMENT ON FUNCTION scd2_internal.key_as_text(oid, jsonb) IS 'A key with its values as text that every session reads in the same way. Errors: what the types say of the values';

CREATE FUNCTION scd2_internal.erase_rows(relation oid, condition text) RETURNS bigint
    AS 'MODULE_PATHNAME', 'scd2_erase_rows' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.erase_rows(oid, text) IS 'Deletes rows t of a feed, target or memory, as its owner; no feed gets that. Returns how many';

CREATE FUNCTION scd2_internal.key_fingerprint(flow_id integer, key jsonb, seed bigint) RETURNS bigint
    AS 'MODULE_PATHNAME', 'scd2_key_fingerprint' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.key_fingerprint(integer, jsonb, bigint) IS 'A hash of a key of the flow; NULL if its types cannot be hashed';

CREATE FUNCTION scd2_internal.check_erase(caller oid, source oid, key jsonb) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names name[];
    bad   name;
BEGIN
    PERFORM scd2_internal.check_owner(caller, source);
    IF key IS NULL OR jsonb_typeof(key) <> 'object' OR key = '{}' THEN
        PERFORM scd2_internal.refuse('22023', 'the key must be an object with a value for each key column', hint => format('SELECT * FROM scd2.erase(%L, ''{"id": 17}'');', source::regclass));
    END IF;
    names := ARRAY(SELECT k::name FROM jsonb_object_keys(key) k);
    SELECT k INTO bad FROM unnest(names) k WHERE NOT scd2_internal.has_column(source, k) LIMIT 1;
    IF FOUND THEN
        PERFORM scd2_internal.refuse('42703', format('column "%s" of table "%s" does not exist', bad, scd2_internal.label(source)));
    END IF;
    SELECT k INTO bad FROM unnest(names) k WHERE key ->> k IS NULL LIMIT 1;
    IF FOUND THEN
        PERFORM scd2_internal.refuse('22004', format('key column "%s" must not be null', bad));
    END IF;
    IF NOT EXISTS (SELECT FROM scd2_internal.made_from(source)) THEN
        PERFORM scd2_internal.refuse('55000', format('nothing is made from table "%s"', scd2_internal.label(source)), 'It has no change data feed and no flows.');
    END IF;
    IF NOT EXISTS (SELECT FROM scd2_internal.flow f WHERE f.source_relid = source AND f.keys @> names AND f.keys <@ names) THEN
        BEGIN
            PERFORM scd2_internal.check_keys_guarded(source, names);
        EXCEPTION WHEN object_not_in_prerequisite_state THEN
            PERFORM scd2_internal.refuse('22023', format('(%s) is no key of table "%s"', array_to_string(names, ', '), scd2_internal.label(source)),
                'A key has the columns of a unique index that are not null, or the keys of a flow.');
        END;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_erase(oid, oid, jsonb) IS 'Errors: 42501 not the owner, 22023 no key, 42703 no such column, 22004 a NULL in the key, 55000 nothing is made from the table';

CREATE FUNCTION scd2_internal.check_can_erase(source oid) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE active_sql_transaction USING MESSAGE = 'erase cannot run in a transaction whose snapshot is fixed',
            DETAIL = 'It must see changes that are captured after the snapshot was taken.', HINT = 'ROLLBACK; BEGIN ISOLATION LEVEL READ COMMITTED;';
    END IF;
    IF EXISTS (SELECT FROM pg_locks AS l WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.granted
               AND l.relation IN (SELECT source UNION ALL SELECT p.relid FROM pg_partition_tree(source) p)
               AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()) AND l.mode NOT IN ('AccessShareLock', 'RowShareLock')) THEN
        RAISE active_sql_transaction USING MESSAGE = format('erase cannot run in a transaction that has written "%s"', scd2_internal.label(source)),
            DETAIL = 'Its changes are not captured before it commits.', HINT = 'COMMIT;';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_can_erase(oid) IS 'Raises 25001 if the transaction has a fixed snapshot or has written the table';

-- The table, what is made from it, and what is made from that. A flow can read a feed as a table, too.
CREATE FUNCTION scd2_internal.all_made_from(source oid) RETURNS TABLE (relation oid)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE made (relation) AS (
        SELECT source
        UNION
        SELECT m FROM made, LATERAL (SELECT f.feed_relid FROM scd2_internal.feed f WHERE f.source_relid = made.relation
                                     UNION ALL SELECT w.target_relid FROM scd2_internal.flow w WHERE w.source_relid = made.relation) x (m))
    SELECT made.relation FROM made JOIN pg_class c ON c.oid = made.relation
$$;
COMMENT ON FUNCTION scd2_internal.all_made_from(oid) IS 'A table, its feeds and targets, and what is made from those';

CREATE FUNCTION scd2_internal.rows_of(relation oid) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE c.relkind WHEN 'r' THEN 'ONLY ' ELSE '' END || c.oid::regclass FROM pg_class c WHERE c.oid = relation
$$;
COMMENT ON FUNCTION scd2_internal.rows_of(oid) IS 'A relation as FROM takes it, without those that inherit from it';

-- When a key came to a row (insert) or a row to a key (from an update of another), before a place in the feed (NULL:
-- ever): the last time, or all.
CREATE FUNCTION scd2_internal.arrivals_of(feed regclass, key jsonb, version bigint, ordinal integer, seen text) RETURNS jsonb
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(scd2_internal.as_owner(feed, format(
        'SELECT pg_catalog.jsonb_agg(a.life) FROM (SELECT pg_catalog.jsonb_build_object(''version'', t._commit_version, ''ordinal'', t._change_ordinal, ''at'', t._commit_timestamp, ''key'', CASE WHEN b._change_type IS NOT NULL THEN pg_catalog.jsonb_build_object(%s) END) AS life '
        'FROM %s t LEFT JOIN %s b ON b._commit_version = t._commit_version AND b._change_ordinal = t._change_ordinal - 1 AND b._change_type = ''update_preimage'' AND t._change_type = ''update_postimage'' '
        'WHERE %s AND %s AND (%s) ORDER BY t._commit_version DESC, t._change_ordinal DESC%s) AS a',
        (SELECT string_agg(format('%L, b.%I::text', k, k), ', ') FROM jsonb_object_keys(key) k), feed, feed, scd2_internal.key_condition(feed, key), seen,
        CASE WHEN version IS NULL THEN format('t._change_type = ''update_postimage'' AND NOT (%s)', scd2_internal.key_condition(feed, key, 'b'))
             ELSE format('(t._commit_version, t._change_ordinal) < (%s, %s) AND (t._change_type = ''insert'' OR t._change_type = ''update_postimage'' AND NOT (%s))', version, ordinal, scd2_internal.key_condition(feed, key, 'b')) END,
        CASE WHEN version IS NOT NULL THEN ' LIMIT 1' ELSE '' END), 0)::jsonb, '[]')
$$;
COMMENT ON FUNCTION scd2_internal.arrivals_of(regclass, jsonb, bigint, integer, text) IS
    'Part of erase: version, ordinal and time at which rows got a key, and which key they had before, if any';

-- What the row was under earlier keys: key, where that begins in the feed (NULL: before it) and where it ends.
CREATE FUNCTION scd2_internal.earlier_lives(feed regclass, key jsonb, seen text) RETURNS jsonb
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET TimeZone = 'UTC' SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET bytea_output = 'hex' SET extra_float_digits = 1 AS $$
DECLARE
    todo  jsonb := scd2_internal.arrivals_of(feed, key, NULL, NULL, seen);
    lives jsonb := '[]';
    life  jsonb;
    came  jsonb;
BEGIN
    WHILE jsonb_array_length(todo) > 0 AND jsonb_array_length(lives) < 1000 LOOP
        life := todo -> 0;
        todo := todo - 0;
        came := scd2_internal.arrivals_of(feed, life -> 'key', (life ->> 'version')::bigint, (life ->> 'ordinal')::integer - 1, seen) -> 0;
        lives := lives || jsonb_build_array(life || jsonb_build_object('from', came));
        IF came -> 'key' <> 'null' THEN
            todo := todo || jsonb_build_array(came);
        END IF;
    END LOOP;
    RETURN lives;
END $$;
COMMENT ON FUNCTION scd2_internal.earlier_lives(regclass, jsonb, text) IS
    'Part of erase: the keys that rows of a key had before, as far as the feed knows';

CREATE FUNCTION scd2_internal.life_condition(feed oid, life jsonb) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT concat_ws(' AND ', scd2_internal.key_condition(feed, life -> 'key'), format('(t._commit_version, t._change_ordinal) < (%s, %s)', life ->> 'version', life ->> 'ordinal'),
        CASE WHEN life -> 'from' <> 'null' THEN format('(t._commit_version, t._change_ordinal) >= (%s, %s)', life #>> '{from,version}', life #>> '{from,ordinal}') END)
$$;
COMMENT ON FUNCTION scd2_internal.life_condition(oid, jsonb) IS 'Condition on the rows t of a feed that are of an earlier life';

-- After its lives are gone from the feed: is a key that of another row too, now or then?
CREATE FUNCTION scd2_internal.is_used_again(source oid, feed oid, key jsonb) RETURNS boolean
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT bool_or(scd2_internal.as_owner(r, format('SELECT true FROM %s t WHERE %s LIMIT 1', scd2_internal.rows_of(r), scd2_internal.key_condition(r, key)), 0)::boolean) IS TRUE
    FROM unnest(ARRAY[source, feed]) r
$$;
COMMENT ON FUNCTION scd2_internal.is_used_again(oid, oid, jsonb) IS 'Part of erase: whether a key that a row had before is, or was, another row''s';

-- The highest sequence of a key in a target and in what it remembers, as the catalog has sequences.
CREATE FUNCTION scd2_internal.last_sequence(f scd2_internal.flow, key jsonb) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET TimeZone = 'UTC' SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET bytea_output = 'hex' SET extra_float_digits = 1 AS $$
    SELECT scd2_internal.as_owner(f.target_relid, format('SELECT s::text FROM (%s) x (s) WHERE s IS NOT NULL ORDER BY s DESC LIMIT 1', string_agg(q, ' UNION ALL ')), 0)
    FROM (SELECT format('SELECT t._sequence FROM ONLY %s t WHERE %s', f.memory_relid::regclass, scd2_internal.key_condition(f.memory_relid, key))
          UNION ALL
          SELECT format('SELECT t.%I::%s FROM ONLY %s t WHERE %s', c, f.sequence_type, f.target_relid::regclass, scd2_internal.key_condition(f.target_relid, key))
          FROM unnest(CASE f.scd_type WHEN 2 THEN ARRAY[f.start_column, f.end_column] ELSE array_remove(ARRAY[f.sequence_column], NULL) END) c) u (q)
$$;
COMMENT ON FUNCTION scd2_internal.last_sequence(scd2_internal.flow, jsonb) IS 'Up to where a target knows of a key; NULL: it does not';

-- Events of the key that come late are not accepted.
CREATE FUNCTION scd2_internal.remember_erased(target oid, key jsonb) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f     scd2_internal.flow;
    until text;
    salt  bigint := coalesce((SELECT min(e.seed) FROM scd2_internal.erased_key e WHERE e.target_relid = target), ('x' || substr(md5(gen_random_uuid()::text), 1, 16))::bit(64)::bigint);
    print bigint;
BEGIN
    SELECT w.* INTO f FROM scd2_internal.flow w WHERE w.target_relid = target AND w.input = 'events' AND w.memory_relid IS NOT NULL ORDER BY w.flow_id LIMIT 1;
    IF NOT FOUND OR NOT (key ?& f.keys::text[] AND cardinality(f.keys) = (SELECT count(*) FROM jsonb_object_keys(key))) THEN
        RETURN;
    END IF;
    until := scd2_internal.last_sequence(f, key);
    print := scd2_internal.key_fingerprint(f.flow_id, key, salt);
    IF print IS NULL THEN
        RAISE NOTICE 'an event of the erased key that comes late into "%" would be taken: its type cannot be hashed', scd2_internal.label(target);
    ELSIF until IS NOT NULL THEN
        INSERT INTO scd2_internal.erased_key AS e (target_schema, target_name, target_relid, fingerprint, seed, sequence)
            SELECT f.target_schema, f.target_name, target, print, salt, until
            ON CONFLICT (target_relid, fingerprint) DO UPDATE SET sequence = excluded.sequence;
        UPDATE scd2_internal.flow w SET definition = w.definition + 1 WHERE w.target_relid = target;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.remember_erased(oid, jsonb) IS 'Part of erase: keeps a fingerprint of the key for a target that takes events in any order';

-- Rejected events of flows over a table. Their keys are compared by the owner, whose types they are of.
CREATE FUNCTION scd2_internal.erase_rejected(source oid, key jsonb) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names text[] := ARRAY(SELECT k FROM jsonb_object_keys(key) k);
    found jsonb;
    n     bigint;
BEGIN
    SELECT jsonb_agg(DISTINCT r.event - ARRAY(SELECT k FROM jsonb_object_keys(r.event) k WHERE k <> ALL (names))) INTO found
        FROM scd2_internal.rejected r JOIN scd2_internal.flow f USING (flow_id) WHERE f.source_relid = source AND r.event ?& names;
    IF found IS NULL THEN
        RETURN 0;
    END IF;
    found := scd2_internal.as_owner(source, format('SELECT pg_catalog.jsonb_agg(e.event) FROM (SELECT x.event, t.* FROM pg_catalog.jsonb_array_elements(%L::jsonb) AS x (event), LATERAL (SELECT %s) AS t) AS e WHERE %s', found,
        (SELECT string_agg(format('(x.event ->> %L)::%s AS %I', a.attname, format_type(b.base, b.base_typmod), a.attname), ', ') FROM pg_attribute a CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) b
         WHERE a.attrelid = source AND a.attname = ANY (names) AND NOT a.attisdropped), scd2_internal.key_condition(source, key, 'e')), 0)::jsonb;
    DELETE FROM scd2_internal.rejected r USING scd2_internal.flow f
        WHERE f.flow_id = r.flow_id AND f.source_relid = source AND r.event ?& names
          AND found @> jsonb_build_array(r.event - ARRAY(SELECT k FROM jsonb_object_keys(r.event) k WHERE k <> ALL (names)));
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;
COMMENT ON FUNCTION scd2_internal.erase_rejected(oid, jsonb) IS 'Part of erase: removes rejected events of a key; returns how many';

-- Texts of errors can name a key or show a row.
CREATE FUNCTION scd2_internal.erase_errors(made oid[]) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE scd2_internal.flow_state s SET last_error = left(s.last_error, 5) || ': (its text was removed by erase)'
    FROM scd2_internal.flow f WHERE f.flow_id = s.flow_id AND f.target_relid = ANY (made) AND s.last_error IS NOT NULL
$$;
COMMENT ON FUNCTION scd2_internal.erase_errors(oid[]) IS 'Part of erase: error texts of flows into these targets';

-- A key everywhere: feed and targets of the table, and all that is made from them.
CREATE FUNCTION scd2_internal.erase_key(source oid, made oid[], key jsonb, seen text) RETURNS TABLE (relation oid, rows bigint)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.remember_erased(m, key) FROM unnest(made) m;
    FOR relation IN SELECT m FROM unnest(made) m WHERE m <> source
                    UNION SELECT f.memory_relid FROM scd2_internal.flow f JOIN pg_class c ON c.oid = f.memory_relid WHERE f.target_relid = ANY (made) ORDER BY 1 LOOP
        rows := scd2_internal.erase_rows(relation, concat_ws(' AND ', scd2_internal.key_condition(relation, key),
            CASE WHEN EXISTS (SELECT FROM scd2_internal.feed f WHERE f.feed_relid = relation AND f.source_relid = source) THEN seen END));
        RETURN NEXT;
    END LOOP;
    relation := 'scd2.rejected_events'::regclass;
    rows := (SELECT sum(scd2_internal.erase_rejected(m, key)) FROM unnest(made) m);
    RETURN NEXT;
END $$;
COMMENT ON FUNCTION scd2_internal.erase_key(oid, oid[], jsonb, text) IS 'Part of erase: removes a key from what is made from a table';

-- A key that the row had before, and that other rows have too: what can be told apart.
CREATE FUNCTION scd2_internal.erase_life(source oid, made oid[], life jsonb) RETURNS TABLE (relation oid, rows bigint)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.flow;
    m oid;
BEGIN
    FOR m IN SELECT DISTINCT w.target_relid FROM scd2_internal.flow w WHERE w.target_relid = ANY (made) ORDER BY 1 LOOP
        SELECT w.* INTO f FROM scd2_internal.flow w WHERE w.target_relid = m ORDER BY w.flow_id LIMIT 1;
        IF f.source_relid = source AND f.input = 'net' THEN
            CONTINUE WHEN f.scd_type = 1;               -- it has the row under its last key only
            relation := m;
            rows := scd2_internal.erase_rows(m, concat_ws(' AND ', scd2_internal.key_condition(m, life -> 'key'), format('t.%I < %L::timestamptz', f.start_column, life ->> 'at'),
                CASE WHEN life -> 'from' <> 'null' THEN format('t.%I >= %L::timestamptz', f.start_column, life #>> '{from,at}') END));
            RETURN NEXT;
        ELSE
            RAISE NOTICE 'rows of "%" under a key that the erased row had before are not told apart from those of others: %', scd2_internal.label(m), life ->> 'key'
                USING HINT = 'SET pg_scd2.allow_target_writes = on; -- then delete them by hand';
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.erase_life(oid, oid[], jsonb) IS 'Part of erase: removes an earlier life of a row from the targets of flows over the table; a NOTICE for what it cannot do';

CREATE FUNCTION scd2_internal.erase_lives(source oid, feed oid, made oid[], lives jsonb, seen text) RETURNS TABLE (relation oid, rows bigint)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    life jsonb;
BEGIN
    FOR life IN SELECT l FROM jsonb_array_elements(lives) l LOOP
        relation := feed;
        rows := scd2_internal.erase_rows(feed, scd2_internal.life_condition(feed, life));
        RETURN NEXT;
    END LOOP;
    FOR life IN SELECT l FROM jsonb_array_elements(lives) l LOOP
        IF scd2_internal.is_used_again(source, feed, life -> 'key') THEN
            RETURN QUERY SELECT e.relation, e.rows FROM scd2_internal.erase_life(source, made, life) e;
        ELSE
            RETURN QUERY SELECT e.relation, e.rows FROM scd2_internal.erase_key(source, made, life -> 'key', seen) e;
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.erase_lives(oid, oid, oid[], jsonb, text) IS 'Part of erase: removes what the row was under earlier keys';

-- What the key is looked for in must have its columns.
CREATE FUNCTION scd2_internal.check_has_key(made oid[], key jsonb) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.refuse('55000', format('table "%s" lacks a column of the key', scd2_internal.label(m)),
            'What it has of the row cannot be found. It is made from the table, or from what is made from it.', 'Delete it by hand (SET pg_scd2.allow_target_writes = on), and drop the flow or the feed.')
        FROM (SELECT unnest(made) UNION ALL
              SELECT f.memory_relid FROM scd2_internal.flow f JOIN pg_class c ON c.oid = f.memory_relid WHERE f.target_relid = ANY (made)) x (m)
        WHERE scd2_internal.key_condition(m, key) IS NULL;
END $$;
COMMENT ON FUNCTION scd2_internal.check_has_key(oid[], jsonb) IS 'Part of erase. Errors: 55000';

-- Waits until all that shows that the key is gone is captured; returns a condition on the rows t of the feed: that it
-- is what was seen then.
CREATE FUNCTION scd2_internal.wait_until_gone(source oid, feed oid, key jsonb) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    look record;
    seen text;
BEGIN
    SELECT pg_current_snapshot() AS snapshot, scd2_internal.as_owner(source, format('SELECT true FROM %s t WHERE %s LIMIT 1', scd2_internal.rows_of(source), scd2_internal.key_condition(source, key)), 0)::boolean AS there INTO look;
    IF look.there THEN
        PERFORM scd2_internal.refuse('55000', format('the row is still in table "%s"', scd2_internal.label(source)), 'What is gone from its table can be erased from what is made from it.',
            format('DELETE FROM %s t WHERE %s; -- then again', source::regclass, replace(scd2_internal.key_condition(source, key), 'OPERATOR(pg_catalog.=)', '=')));
    END IF;
    IF feed IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM scd2._wait_captured('1 min');
    seen := format('(t._commit_version <= %s OR pg_catalog.pg_visible_in_snapshot(t._xid, %L))', scd2._foreign_until(), look.snapshot);
    IF scd2_internal.as_owner(feed, format('SELECT true FROM %s t WHERE %s AND NOT %s LIMIT 1', feed::regclass, scd2_internal.key_condition(feed, key), seen), 0)::boolean THEN
        PERFORM scd2_internal.refuse('40001', format('a row with the key came back into table "%s" while it was erased', scd2_internal.label(source)));
    END IF;
    RETURN seen;
END $$;
COMMENT ON FUNCTION scd2_internal.wait_until_gone(oid, oid, jsonb) IS 'Part of erase. Errors: 55000 the row is there, 40001 it came back';

CREATE FUNCTION scd2.erase(source regclass, key jsonb) RETURNS TABLE (relation regclass, rows bigint)
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
CREATE FUNCTION scd2_internal.erase(caller oid, source regclass, key jsonb) RETURNS TABLE (relation regclass, rows bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    made oid[];
    feed oid;
    seen text;
    done jsonb;
BEGIN
    PERFORM scd2_internal.check_erase(caller, source, key);
    PERFORM scd2_internal.check_can_erase(source);
    key := scd2_internal.key_as_text(source, key);
    made := ARRAY(SELECT m.relation FROM scd2_internal.all_made_from(source) m);
    PERFORM scd2_internal.check_has_key(made, key);
    PERFORM scd2_internal.lock_flow(f.flow_id) FROM (SELECT x.flow_id FROM scd2_internal.flow x WHERE x.target_relid = ANY (made) ORDER BY x.flow_id) f;
    feed := (SELECT f.feed_relid FROM scd2_internal.feed f JOIN pg_class c ON c.oid = f.feed_relid WHERE f.source_relid = source AND NOT f.disabled);
    seen := scd2_internal.wait_until_gone(source, feed, key);
    done := coalesce((SELECT jsonb_agg(e) FROM scd2_internal.erase_lives(source, feed, made, scd2_internal.earlier_lives(feed, key, seen), seen) e), '[]');
    done := done || coalesce((SELECT jsonb_agg(e) FROM scd2_internal.erase_key(source, made, key, seen) e), '[]');
    PERFORM scd2_internal.erase_errors(made);
    INSERT INTO scd2_internal.erasure (source_schema, source_name, source_relid, rows, erased_by)
        SELECT n.nspname, c.relname, c.oid, (SELECT sum((e ->> 'rows')::bigint) FROM jsonb_array_elements(done) e), pg_get_userbyid(caller)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = source;
    PERFORM scd2_internal.wake_apply_at_commit();
    RETURN QUERY SELECT (e ->> 'relation')::oid::regclass, sum((e ->> 'rows')::bigint)::bigint FROM jsonb_array_elements(done) e GROUP BY 1 ORDER BY 1;
END $$;
COMMENT ON FUNCTION scd2.erase(regclass, jsonb) IS
    'Removes what is left of a row that is gone from "source": from its change data feed, from targets and their memories, from rejected events, and from what is made from those targets, under keys that it had before too (as '
    'far back as the feed reaches). key: the values of the key columns, ''{"id": 17}''. Returns how many rows were removed from each relation. Waits until all changes are captured; until the transaction ends, the flows wait. '
    'It is recorded that this was done, without the key. The log, backups, and pages until they are vacuumed are out of reach. '
    'Errors: 42501 not the owner, 55000 the row is still there, nothing is made from the table, or something that lacks a key column, 22023, 42703, 22004 no key, 40001 the row came back meanwhile, 55P03 a flow is at work, '
    '25001 the transaction has written the table or its snapshot is fixed.';

CREATE VIEW scd2.erasures WITH (security_barrier) AS
    SELECT coalesce(c.oid::regclass::text, format('%I.%I', e.source_schema, e.source_name)) AS source, e.rows, e.erased_by, e.erased_at
    FROM scd2_internal.erasure e LEFT JOIN pg_class c ON c.oid = e.source_relid
    WHERE pg_has_role(c.relowner, 'USAGE') OR pg_has_role('pg_monitor', 'USAGE');
COMMENT ON VIEW scd2.erasures IS 'What was erased from what is made from tables that you own (members of pg_monitor: all): when, by whom, how many rows; not which';
GRANT SELECT ON scd2.erasures TO public;
-- 51_follow_relations.sql: what stands beside a relation follows it when it gets another owner, name or schema.
--
--   owner of a source   its feed, and targets that belonged to the former owner, unless another's table goes into
--                       them too: who may not read the table any more does not read on what is recorded of it. (A
--                       target of anybody else stays his; his flow reads the feed with his rights, if he has them.)
--   owner of a target   memory, <target>_as_of and the type of a struct
--   names               the catalogs, which find relations by name after a restore; <target>_as_of, whose body
--                       names the target (as a parse tree, which follows by itself, it would keep columns from
--                       being altered) and which is called after it
--
-- All of it in the transaction of the statement, which fails (55P03) where the locks are not to be had in time: rather
-- than that rows go on to whom they should not. What is altered here comes here again, so chains of flows follow.

CREATE FUNCTION scd2_internal.owner_of(relation oid) RETURNS oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.relowner FROM pg_class c WHERE c.oid = relation
$$;
COMMENT ON FUNCTION scd2_internal.owner_of(oid) IS 'The owner of a relation; NULL: there is none';

-- What hangs on a table runs as its owner, in the workers without his doing. Who gets a table along with another has
-- not looked at it: functions of somebody who cannot act as he may not come with it.
CREATE FUNCTION scd2_internal.code_of_others(relations oid[], owner oid) RETURNS TABLE (relation oid, code regprocedure, whose name)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT DISTINCT o.relation, p.oid::regprocedure, pg_get_userbyid(p.proowner)
    FROM (SELECT c.conrelid AS relation, 'pg_constraint'::regclass AS class, c.oid FROM pg_constraint c WHERE c.conrelid = ANY (relations)
          UNION ALL SELECT a.attrelid, 'pg_constraint'::regclass, c.oid FROM pg_attribute a JOIN pg_constraint c ON c.contypid = a.atttypid WHERE a.attrelid = ANY (relations)
          UNION ALL SELECT t.tgrelid, 'pg_trigger'::regclass, t.oid FROM pg_trigger t WHERE t.tgrelid = ANY (relations)
          UNION ALL SELECT d.adrelid, 'pg_attrdef'::regclass, d.oid FROM pg_attrdef d WHERE d.adrelid = ANY (relations)
          UNION ALL SELECT i.indrelid, 'pg_class'::regclass, i.indexrelid FROM pg_index i WHERE i.indrelid = ANY (relations)
          UNION ALL SELECT r.ev_class, 'pg_rewrite'::regclass, r.oid FROM pg_rewrite r WHERE r.ev_class = ANY (relations)
          UNION ALL SELECT y.polrelid, 'pg_policy'::regclass, y.oid FROM pg_policy y WHERE y.polrelid = ANY (relations)) o
         JOIN pg_depend d ON d.classid = o.class AND d.objid = o.oid AND d.refclassid = 'pg_proc'::regclass
         JOIN pg_proc p ON p.oid = d.refobjid JOIN pg_roles r ON r.oid = p.proowner
    WHERE NOT r.rolsuper AND NOT pg_has_role(p.proowner, owner, 'USAGE')
    ORDER BY 1, 2
$$;
COMMENT ON FUNCTION scd2_internal.code_of_others(oid[], oid) IS
    'Functions that triggers, checks, indexes, defaults, rules and policies of these tables call, of roles that cannot act as "owner"';

CREATE FUNCTION scd2_internal.give_relations(relations oid[], owner oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    others oid[] := ARRAY(SELECT c.oid FROM pg_class c WHERE c.oid = ANY (relations) AND c.relowner <> owner ORDER BY c.oid);
BEGIN
    PERFORM scd2_internal.lock_tables(others, array_fill('ACCESS EXCLUSIVE'::text, ARRAY[cardinality(others)]))
        WHERE others <> '{}';
    PERFORM scd2_internal.refuse('42501', format('table "%s" cannot go to role "%s" along with what it is made from: it calls a function of role "%s"',
            scd2_internal.label(c.relation), pg_get_userbyid(owner), c.whose),
            format('%s would run as its new owner, in a worker, whenever something is written.', c.code),
            format('ALTER FUNCTION %s OWNER TO %I; -- when you have read it', c.code, pg_get_userbyid(owner)))
        FROM scd2_internal.code_of_others(others, owner) c LIMIT 1;
    FOR i IN 1 .. cardinality(others) LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO %I', others[i]::regclass, pg_get_userbyid(owner));
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.give_relations(oid[], oid) IS
    'Gives these tables to an owner, with the rights that others were granted. Errors: 55P03, 42501 they call functions of others';

CREATE FUNCTION scd2_internal.follow_source_owner(f scd2_internal.feed) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner CONSTANT oid := scd2_internal.owner_of(f.source_relid);
    former CONSTANT oid := scd2_internal.owner_of(f.feed_relid);
BEGIN
    IF owner IS NULL OR former IS NULL OR owner = former THEN
        RETURN;
    END IF;
    -- First the feed: no partition comes then. (To list them by pg_partition_tree() would lock them, and capture may be
    -- waiting for these locks with that of the feed in hand.)
    PERFORM scd2_internal.give_relations(ARRAY[f.feed_relid], owner);
    PERFORM scd2_internal.give_relations(ARRAY(SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = f.feed_relid), owner);
    PERFORM scd2_internal.give_relations(ARRAY(
        SELECT DISTINCT w.target_relid FROM scd2_internal.flow w
        WHERE w.feed_id = f.feed_id AND scd2_internal.owner_of(w.target_relid) = former
          AND NOT EXISTS (SELECT FROM scd2_internal.flow o WHERE o.target_relid = w.target_relid
                          AND scd2_internal.owner_of(o.source_relid) <> owner)), owner);
END $$;
COMMENT ON FUNCTION scd2_internal.follow_source_owner(scd2_internal.feed) IS
    'Gives a feed to the owner of its source, and targets that belonged to the former one. Errors: 55P03';

CREATE FUNCTION scd2_internal.follow_as_of(w scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    target record;
    f record;
    wanted name;
BEGIN
    SELECT c.relname, n.nspname, c.relnamespace, c.relowner INTO target
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = w.target_relid;
    wanted := scd2_internal.object_name(target.relname, 'as_of');
    FOR f IN SELECT p.oid, p.proname, p.pronamespace, p.proowner, p.prosrc FROM scd2_internal.as_of_functions(w.target_relid, w.sequence_type) p LOOP
        IF f.prosrc <> scd2_internal.as_of_body(w.target_relid, w.sequence_type, w.start_column, w.end_column) THEN
            PERFORM scd2_internal.define_as_of(w.target_relid,
                f.pronamespace::regnamespace || '.' || quote_ident(f.proname), w.sequence_type, w.start_column,
                w.end_column, true);
        END IF;
        IF f.pronamespace <> target.relnamespace AND NOT scd2_internal.function_exists(target.relnamespace, f.proname, w.sequence_type) THEN
            EXECUTE format('ALTER FUNCTION %s SET SCHEMA %I', f.oid::regprocedure, target.nspname);
        END IF;
        IF f.proname <> wanted AND f.proname = scd2_internal.object_name(w.target_name, 'as_of')
           AND NOT scd2_internal.function_exists(target.relnamespace, wanted, w.sequence_type) THEN
            EXECUTE format('ALTER FUNCTION %s RENAME TO %I', f.oid::regprocedure, wanted);
        END IF;
        IF f.proowner <> target.relowner THEN
            EXECUTE format('ALTER FUNCTION %s OWNER TO %I', f.oid::regprocedure, pg_get_userbyid(target.relowner));
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.follow_as_of(scd2_internal.flow) IS
    'Makes <target>_as_of that of the target as it is called now; it keeps its name if the new one is taken';

CREATE FUNCTION scd2_internal.function_exists(schema oid, function name, argument text) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = schema AND p.proname = function
                   AND p.proargtypes::text = argument::regtype::oid::text)
$$;
COMMENT ON FUNCTION scd2_internal.function_exists(oid, name, text) IS 'Whether there is a function of one argument';

-- Types are recorded by name too. That of the sequence is that of a column.
CREATE FUNCTION scd2_internal.sequence_type_now(w scd2_internal.flow) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT format_type(a.atttypid, -1) FROM pg_attribute a
                     WHERE a.attnum > 0 AND NOT a.attisdropped
                       AND (w.scd_type = 2 AND a.attrelid = w.target_relid AND a.attname = w.start_column
                            OR w.scd_type = 1 AND a.attrelid = w.memory_relid AND a.attname = '_sequence')),
                    w.sequence_type)
$$;
COMMENT ON FUNCTION scd2_internal.sequence_type_now(scd2_internal.flow) IS
    'The type of a target''s sequence as it is called now';

CREATE FUNCTION scd2_internal.follow_sequence_type(w scd2_internal.flow) RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    former CONSTANT text := w.sequence_type;
BEGIN
    w.sequence_type := scd2_internal.sequence_type_now(w);
    IF w.sequence_type <> former AND w.input <> 'append' THEN
        w.sequence_by := replace(w.sequence_by, '::' || former, '::' || w.sequence_type);
        w.delete_sequence_by := replace(w.delete_sequence_by, '::' || former, '::' || w.sequence_type);
        w.end_sequence_by := replace(w.end_sequence_by, '::' || former, '::' || w.sequence_type);
        UPDATE scd2_internal.flow f SET sequence_type = w.sequence_type, sequence_by = w.sequence_by,
            delete_sequence_by = w.delete_sequence_by, end_sequence_by = w.end_sequence_by,
            definition = f.definition + 1 WHERE f.flow_id = w.flow_id;
    END IF;
    RETURN w;
END $$;
COMMENT ON FUNCTION scd2_internal.follow_sequence_type(scd2_internal.flow) IS
    'A flow with the type of its sequence as it is called now, in its expressions too';

CREATE FUNCTION scd2_internal.follow_target(w scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner CONSTANT oid := scd2_internal.owner_of(w.target_relid);
    made oid;
BEGIN
    IF owner IS NULL OR w.input = 'append' THEN
        RETURN;
    END IF;
    w := scd2_internal.follow_sequence_type(w);
    PERFORM scd2_internal.give_relations(ARRAY[w.memory_relid], owner);
    SELECT t.oid INTO made FROM pg_type t WHERE t.oid = to_regtype(w.sequence_type) AND t.typowner <> owner
        AND scd2_internal.is_sequence_type(w.sequence_type);
    IF FOUND THEN
        EXECUTE format('ALTER TYPE %s OWNER TO %I', made::regtype, pg_get_userbyid(owner));
    END IF;
    IF w.scd_type = 2 THEN
        PERFORM scd2_internal.follow_as_of(w);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.follow_target(scd2_internal.flow) IS
    'Has what was made for a target follow its owner and name. Errors: 55P03';

-- Expressions may qualify columns with the name that the source had: it stays their alias.
CREATE FUNCTION scd2_internal.names_relation(w scd2_internal.flow, relation name) RETURNS boolean
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT concat_ws(' ', w.sequence_by, w.delete_sequence_by, w.end_sequence_by, w.apply_as_deletes, w.apply_as_truncates, w.source_filter,
        w.initial_start, w.scope) ~* ('(^|\W)"?' || regexp_replace(relation, '(\W)', '\\\1', 'g') || '"?\s*\.')
$$;
COMMENT ON FUNCTION scd2_internal.names_relation(scd2_internal.flow, name) IS
    'Whether an expression of a flow may name its source';

CREATE FUNCTION scd2_internal.follow_recorded_names(relations oid[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE scd2_internal.flow f SET options = f.options || jsonb_build_object('source_alias', scd2_internal.source_alias(f)), definition = f.definition + 1
        FROM pg_class c
        WHERE c.oid = CASE f.input WHEN 'changes' THEN (SELECT d.feed_relid FROM scd2_internal.feed d WHERE d.feed_id = f.feed_id) ELSE f.source_relid END
          AND (relations IS NULL OR c.oid = ANY (relations)) AND c.relname <> scd2_internal.source_alias(f)
          AND NOT f.options ? 'source_alias' AND scd2_internal.names_relation(f, scd2_internal.source_alias(f));
    UPDATE scd2_internal.feed f SET source_schema = n.nspname, source_name = c.relname
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = f.source_relid AND (relations IS NULL OR c.oid = ANY (relations))
          AND (f.source_schema, f.source_name) IS DISTINCT FROM (n.nspname, c.relname);
    UPDATE scd2_internal.feed f SET feed_schema = n.nspname, feed_name = c.relname
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = f.feed_relid AND (relations IS NULL OR c.oid = ANY (relations))
          AND (f.feed_schema, f.feed_name) IS DISTINCT FROM (n.nspname, c.relname);
    UPDATE scd2_internal.flow f SET source_schema = n.nspname, source_name = c.relname, definition = f.definition + 1
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = f.source_relid AND (relations IS NULL OR c.oid = ANY (relations))
          AND (f.source_schema, f.source_name) IS DISTINCT FROM (n.nspname, c.relname);
    UPDATE scd2_internal.flow f SET target_schema = n.nspname, target_name = c.relname, definition = f.definition + 1
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = f.target_relid AND (relations IS NULL OR c.oid = ANY (relations))
          AND (f.target_schema, f.target_name) IS DISTINCT FROM (n.nspname, c.relname);
    UPDATE scd2_internal.flow f SET memory_name = c.relname, definition = f.definition + 1
        FROM pg_class c WHERE c.oid = f.memory_relid AND (relations IS NULL OR c.oid = ANY (relations))
          AND f.memory_name IS DISTINCT FROM c.relname;
    UPDATE scd2_internal.mark m SET target_schema = n.nspname, target_name = c.relname
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = m.target_relid AND (relations IS NULL OR c.oid = ANY (relations))
          AND (m.target_schema, m.target_name) IS DISTINCT FROM (n.nspname, c.relname);
END $$;
COMMENT ON FUNCTION scd2_internal.follow_recorded_names(oid[]) IS
    'Writes down what relations are called now; NULL: all that are recorded';

CREATE FUNCTION scd2_internal.follow_relations(relations oid[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = on AS $$
DECLARE
    f scd2_internal.feed;
    w scd2_internal.flow;
BEGIN
    FOR f IN SELECT x.* FROM scd2_internal.feed x WHERE NOT x.disabled
             AND (relations IS NULL OR x.source_relid = ANY (relations)) ORDER BY x.feed_id LOOP
        PERFORM scd2_internal.follow_source_owner(f);
    END LOOP;
    -- One flow of each target: they agree in what matters here but for the names of their own types.
    FOR w IN SELECT x.* FROM scd2_internal.flow x WHERE relations IS NULL OR x.target_relid = ANY (relations)
             ORDER BY x.flow_id LOOP
        PERFORM scd2_internal.follow_target(w);
    END LOOP;
    PERFORM scd2_internal.follow_recorded_names(relations);
END $$;
COMMENT ON FUNCTION scd2_internal.follow_relations(oid[]) IS
    'Has everything that is recorded follow the owners and names that these relations have now, NULL: all. '
    'Errors: 55P03';

CREATE FUNCTION scd2_internal.on_relation_changed() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = on
        SET pg_scd2.enable_change_feed_on_create = off SET client_min_messages = warning AS $$
DECLARE
    relations oid[] := ARRAY(SELECT d.objid FROM pg_event_trigger_ddl_commands() d
                             WHERE d.classid = 'pg_class'::regclass AND scd2_internal.may_concern_us(d.objid));
BEGIN
    IF tg_tag IN ('ALTER SCHEMA', 'ALTER TYPE', 'ALTER DOMAIN') THEN
        PERFORM scd2_internal.follow_relations(NULL);
    ELSIF relations <> '{}' THEN
        PERFORM scd2_internal.follow_relations(relations);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.on_relation_changed() IS
    'Has feeds, targets and what was made for them follow owner and name of what was altered. Errors: 55P03';

-- ALTER VIEW and ALTER INDEX rename tables too. (REASSIGN OWNED: src/feed/utility.c.)
CREATE EVENT TRIGGER scd2_on_relation_changed ON ddl_command_end
    WHEN TAG IN ('ALTER TABLE', 'ALTER VIEW', 'ALTER MATERIALIZED VIEW', 'ALTER INDEX', 'ALTER FOREIGN TABLE',
                 'ALTER SEQUENCE', 'ALTER SCHEMA', 'ALTER TYPE', 'ALTER DOMAIN')
    EXECUTE FUNCTION scd2_internal.on_relation_changed();
ALTER EVENT TRIGGER scd2_on_relation_changed ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER scd2_on_relation_changed IS 'Owners and names of sources, feeds and targets';
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
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.feed_latest(feed_id)
$$;
COMMENT ON FUNCTION scd2._feed_latest(integer) IS
    'Part of the views: the last version with rows in a feed, NULL if it is not known.';

CREATE FUNCTION scd2._wal_position() RETURNS pg_lsn
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END
$$;
COMMENT ON FUNCTION scd2._wal_position() IS
    'Part of the views: where the server''s log ends; on a standby, how far it is replayed.';

-- Sizes without waiting for locks longer than pg_total_relation_size does.
CREATE FUNCTION scd2._feed_size(feed oid, OUT rows bigint, OUT bytes bigint)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(sum(greatest(pg_stat_get_live_tuples(c.oid), c.reltuples::bigint)), 0)::bigint,
        coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = feed
$$;
COMMENT ON FUNCTION scd2._feed_size(oid) IS
    'Part of the views: rows (as the statistics have them) and bytes of a feed with its indexes.';

-- The feeds, with what both scd2.feeds and scd2.flows need.
CREATE VIEW scd2_internal.feed_status AS
    SELECT f.*, s.state AS captured, s.enabled_version, s.enabled_at, s.earliest_version, s.removed_at, s.gap, s.broken_at,
           s.resync_version, s.error, s.error_at,
           least(p.version, coalesce(scd2._feed_latest(f.feed_id), p.version)) AS latest_version,
           sc.oid AS source_there, fc.oid AS feed_there, coalesce(sc.relowner, fc.relowner) AS owner
    FROM scd2_internal.feed f
         LEFT JOIN scd2_internal.feed_state s USING (feed_id)
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
           f.removed_at AS last_vacuum, f.gap
    FROM scd2_internal.feed_status f, scd2._feed_size(f.feed_relid) z
    WHERE pg_has_role(f.owner, 'USAGE') OR pg_has_role('pg_monitor', 'USAGE');
COMMENT ON VIEW scd2.feeds IS 'The change data feeds of tables that you own (members of pg_monitor: all)';

CREATE FUNCTION scd2._bytes_after(feed oid, version bigint) RETURNS bigint
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid, pg_get_expr(c.relpartbound, 0) b (bound)
    WHERE i.inhparent = feed
      AND coalesce(substring(b.bound FROM 'TO \(''?(-?\d+)''?\)')::bigint - 1 > version, true)
$$;
COMMENT ON FUNCTION scd2._bytes_after(oid, bigint) IS
    'Part of the views: size of the partitions of a feed that can have changes after a version.';

CREATE VIEW scd2.readers WITH (security_barrier) AS
    SELECT r.name, f.source_relid::regclass AS source, r.version, l.lag_versions,
           CASE WHEN l.lag_versions > 0 THEN clock_timestamp() - coalesce(r.reached, r.used_at)
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
                ELSE greatest(clock_timestamp() - greatest(s.caught_up_at, p.commit_timestamp),
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
                WHEN w.kind = 'snapshot' THEN clock_timestamp() - s.snapshot_at
                WHEN b.lag_versions > 0 THEN greatest(clock_timestamp() - s.watermark_timestamp, c.lag)
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
    SELECT 'no worker captures changes', 'The launcher starts one when it is asked to.', 'SELECT scd2.start();'
    FROM s WHERE s.state = 'off' AND NOT s.stopped AND scd2_internal.setting_lists_us('shared_preload_libraries')
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
        - coalesce(f.retention, current_setting('pg_scd2.feed_retention', true)::interval)
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

-- A flow reads with the rights of its target's owner; the source may have got another owner.
CREATE FUNCTION scd2_internal.rights_remedy(name name, target oid, reads oid) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('ALTER TABLE %s OWNER TO %I; SELECT scd2.resume_flow(%L);', target::regclass, pg_get_userbyid(r.relowner), name)
    FROM pg_class r WHERE r.oid = reads AND r.relowner <> scd2_internal.owner_of(target)
$$;
COMMENT ON FUNCTION scd2_internal.rights_remedy(name, oid, oid) IS
    'Statements that give a target to the owner of what its flow reads; NULL: he has it';

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
        SELECT w.name, w.paused, w.kind, w.version_query, w.source_schema, w.source_name, NOT EXISTS (SELECT FROM pg_class sc WHERE sc.oid = w.source_relid) AS source_gone, w.feed_id, w.target_schema, w.target_name, c.oid AS there,
            c.relname, scd2_internal.flow_owner(w) AS relowner,
               scd2_internal.snapshot_columns_remedy(w) AS columns_remedy,
               scd2_internal.rights_remedy(w.name, w.target_relid,
                   coalesce((SELECT d.feed_relid FROM scd2_internal.feed d WHERE d.feed_id = w.feed_id), w.source_relid)) AS rights,
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
    FROM w WHERE w.phase = 'failed' AND w.there IS NOT NULL
    UNION ALL
    SELECT w.relowner, w.name, 'it fails and is tried again', w.last_error,
        format('Failures in a row: %s; next try at %s.', w.failures, w.retry_at),
        coalesce(CASE WHEN w.last_error LIKE '42501: %' THEN w.rights
                      WHEN w.last_error ~ '^(42703|42804): ' THEN w.columns_remedy END,
            format('SELECT scd2.resume_flow(%L);', w.name))
    FROM w WHERE w.phase <> 'failed' AND w.failures > 0 AND w.there IS NOT NULL
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
-- 61_diagnose_retention.sql: feeds that are not shortened although nobody needs what is old.
--
-- Asked of the feed itself, not of what a worker has noted: it is told of too where no worker comes by. Within 60 looks
-- of the worker (ten minutes) there is nothing to tell: so long it pauses after a failure.

CREATE FUNCTION scd2_internal.retention_problems()
    RETURNS TABLE (owner oid, source text, problem text, detail text, fix text)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    patience CONSTANT interval := 60 * current_setting('pg_scd2.debug_upkeep_every')::interval;
    f      scd2_internal.feed;
    old    record;
    holder record;
BEGIN
    FOR f IN SELECT x.* FROM scd2_internal.feed x JOIN pg_class c ON c.oid = x.feed_relid WHERE NOT x.disabled LOOP
        SELECT count(*) AS n, array_agg(o.leaf) AS leaves, min(o.ended) AS ended INTO old
        FROM scd2_internal.old_leaves(f, least(scd2_internal.cutoff(f, NULL), clock_timestamp()) - patience) o
        WHERE o.held_by IS NULL AND o.last_version IS NOT NULL;
        CONTINUE WHEN old.n = 0;
        SELECT h.* INTO holder
        FROM scd2_internal.lock_holder(f.feed_relid || old.leaves,
            array_fill('ACCESS EXCLUSIVE'::text, ARRAY[old.n::integer + 1])) h;
        owner := (SELECT c.relowner FROM pg_class c WHERE c.oid = f.feed_relid);
        source := coalesce((SELECT c.oid::regclass::text FROM pg_class c WHERE c.oid = f.source_relid),
            format('%I.%I', f.source_schema, f.source_name));
        problem := 'its change data feed is not shortened, although nobody needs what is older than its retention';
        detail := format('Partitions: %s, with changes since %s or earlier. ', old.n, old.ended)
            || coalesce(format('Table "%s": %s.', scd2_internal.label(holder.relation), holder.who),
                        'The server''s log says why, and so does the statement.');
        fix := coalesce(holder.fix, format('SELECT * FROM scd2.vacuum_feed(%L);', source));
        RETURN NEXT;
    END LOOP;
    RETURN QUERY SELECT c.relowner, c.oid::regclass::text, 'old versions that purge_history() left to a worker are not removed', p.last_error,
            format('SELECT scd2.purge_history(%L, %L); -- begins again', c.oid::regclass, p.before)
        FROM scd2_internal.purge p JOIN pg_class c ON c.oid = p.target_relid WHERE p.last_error IS NOT NULL;
END $$;
COMMENT ON FUNCTION scd2_internal.retention_problems() IS
    'Part of diagnose: feeds with partitions that should have been removed, and targets with versions.';
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
    FOREACH dumped IN ARRAY '{feed,feed_feed_id_seq,feed_state,reconstruction,feed_column,feed_layout,found_identity,reader,flow,
        flow_flow_id_seq,flow_state,batch,mark,mark_mark_id_seq,rejected,rejected_rejected_id_seq,skipped_version,erasure,
        erasure_erasure_id_seq,erased_key,purge}'::text[] LOOP
        PERFORM pg_catalog.pg_extension_config_dump('scd2_internal.' || dumped, '');
    END LOOP;
END $$;
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
-- 99_end.sql: nothing in the internal schema is for others; then tell the launcher that this database has work.

REVOKE ALL ON ALL TABLES IN SCHEMA scd2_internal FROM public;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA scd2_internal FROM public;

SELECT scd2_internal.start_workers_at_commit();
