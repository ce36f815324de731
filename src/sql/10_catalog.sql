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
    earliest_version bigint NOT NULL,                   -- lowest legal start: enabled_version; more where version 0.1.0
    removed_until    timestamptz,                       -- has removed old changes. What was removed since: table
    removed_at       timestamptz,                       -- "removal"
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

-- What was removed of a feed because it was old. Apart from feed_state: vacuum_feed() writes it in its caller's
-- transaction, and capture must not wait for that.
CREATE TABLE scd2_internal.removal (
    feed_id          integer PRIMARY KEY,
    earliest_version bigint NOT NULL,                   -- the first that is left (before: feed_state.earliest_version)
    removed_until    timestamptz,                       -- commit time of the last change that was removed,
    removed_at       timestamptz NOT NULL               -- and when that was
);

-- Feeds whose owner wrote rows by hand or sorted them anew: what they had until then lies in any order. Apart from
-- feed_state, as "removal" is.
CREATE TABLE scd2_internal.disorder (
    feed_id integer PRIMARY KEY,
    version bigint NOT NULL                             -- up to this one
);

-- Feeds that cannot be written now: capture keeps what comes in "backlog", and writes it where it belongs when it can
-- (src/capture/backlog.c). No row: nothing waits. Written by capture alone.
CREATE TABLE scd2_internal.feed_backlog (
    feed_id          integer PRIMARY KEY,
    complete_version bigint NOT NULL,                   -- the feed has everything up to this version
    bytes            bigint NOT NULL,
    since            timestamptz NOT NULL DEFAULT clock_timestamp(),
    error            text,                              -- because of which it waits; NULL: a lock
    gap_version      bigint,                            -- the feed is captured no longer: it has a gap from here on, once all
    gap_reason       text,                              -- that waits is written
    disabled         boolean NOT NULL DEFAULT false     -- likewise: it was disabled
);
CREATE TABLE scd2_internal.backlog (
    feed_id       integer,
    n             bigint,
    kind          "char" NOT NULL,                      -- what the entry is: see there
    first_version bigint NOT NULL,
    last_version  bigint NOT NULL,
    content       bytea NOT NULL,
    PRIMARY KEY (feed_id, n)
);
ALTER TABLE scd2_internal.backlog ALTER content SET STORAGE EXTERNAL;

-- What went wrong when feeds were looked after (src/feed/upkeep.c), until it goes well. Written by the worker that does it.
CREATE TABLE scd2_internal.upkeep_error (
    chore   "char",                                     -- f: looked at; s: index summarised; c: cut; r: old partitions removed
    id      oid,                                        -- of the relation, or a feed's number
    feed_id integer NOT NULL,
    error   text NOT NULL,
    since   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chore, id)
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
    created_at       timestamptz NOT NULL DEFAULT now(),
    author           scd2_internal.role NOT NULL DEFAULT '-',   -- the owner of the target whom it was written for: nobody else runs its expressions
    trusted          boolean NOT NULL DEFAULT false     -- a superuser's word: his target may take what others own
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
