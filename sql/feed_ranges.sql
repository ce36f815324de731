-- The rules of table_changes' range, by versions, timestamps and text, in both forms of the result.
\set SHOW_CONTEXT never
\set VERBOSITY sqlstate
SET client_min_messages = warning;
CREATE SCHEMA feed_ranges;
SET search_path = feed_ranges;
CREATE TABLE t (id integer);
INSERT INTO t VALUES (0);
SELECT scd2.enable_change_feed('t');
SELECT scd2.sync() AS v0 \gset
INSERT INTO t VALUES (1);
INSERT INTO t VALUES (2), (3);
UPDATE t SET id = 4 WHERE id = 1;
SELECT scd2.sync() AS v3 \gset
SELECT min(_commit_timestamp) AS t1 FROM t_changes WHERE _commit_version = :v0 + 1 \gset
SELECT min(_commit_timestamp) AS t2 FROM t_changes WHERE _commit_version = :v0 + 2 \gset
SELECT min(_commit_timestamp) AS t3 FROM t_changes WHERE _commit_version = :v0 + 3 \gset
SELECT enabled_at AS t0 FROM scd2.feeds WHERE source = 't'::regclass \gset
-- a range as one line; _row is compared with the typed form further down
CREATE FUNCTION show(c t_changes, base bigint) RETURNS text LANGUAGE sql AS $$ SELECT format('%s.%s %s %s', c._commit_version - base, c._change_ordinal, c._change_type, c.id) $$;

SELECT scd2.latest_version() = :v3 AS latest, scd2.earliest_version('t') = :v0 AS earliest;

-- without bounds, NULL bounds: everything there is
SELECT show(c, :v0) FROM scd2.table_changes(NULL::t_changes) c;
SELECT count(*) FROM scd2.table_changes(NULL::t_changes, NULL);
SELECT count(*) FROM scd2.table_changes(NULL::t_changes, NULL::bigint, NULL);
SELECT count(*) FROM scd2.table_changes(NULL::t_changes, NULL::timestamptz, NULL);
SELECT count(*) FROM scd2.table_changes('t');
SELECT count(*) FROM scd2.table_changes('t', NULL, NULL);
SELECT count(*) FROM scd2.table_changes('t', NULL::bigint);

-- both ends are included
SELECT show(c, :v0) FROM scd2.table_changes(NULL::t_changes, :v0 + 2, :v0 + 2) c;
SELECT show(c, :v0) FROM scd2.table_changes(NULL::t_changes, :v0 + 2) c;
SELECT show(c, :v0) FROM scd2.table_changes(NULL::t_changes, NULL, :v0 + 1) c;
SELECT show(c, :v0) FROM scd2.table_changes(NULL::t_changes, :'t2'::timestamptz, :'t2'::timestamptz) c;
SELECT show(c, :v0) FROM scd2.table_changes(NULL::t_changes, :'t2'::timestamptz) c;
SELECT show(c, :v0) FROM scd2.table_changes(NULL::t_changes, NULL, :'t1'::timestamptz) c;
SELECT show(c, :v0) FROM scd2.table_changes(NULL::t_changes, :'t2', :'t2') c;

-- a start between two commits is the later one, an end the earlier one; in between is nothing
SELECT show(c, :v0) FROM scd2.table_changes(NULL::t_changes, :'t1'::timestamptz + interval '1 us', :'t3'::timestamptz - interval '1 us') c;
SELECT count(*) FROM scd2.table_changes(NULL::t_changes, :'t3'::timestamptz + interval '1 us', 'infinity'::timestamptz);
-- text: digits are a version, else a timestamp; the two can be mixed
SELECT show(c, :v0) FROM scd2.table_changes(NULL::t_changes, (:v0 + 2)::text, :'t2') c;
SELECT show(c, :v0) FROM scd2.table_changes(NULL::t_changes, ' ' || (:v0 + 3)::text || ' ') c;
SELECT count(*) FROM scd2.table_changes('t', 'soon');
-- names of arguments, expressions, arguments of other types
SELECT count(*) FROM scd2.table_changes(NULL::t_changes, starting_version => :v0 + 1, ending_version => (SELECT :v0 + 2));
SELECT count(*) FROM scd2.table_changes(NULL::t_changes, starting_timestamp => :'t1', ending_timestamp => now());
SELECT count(*) FROM scd2.table_changes(feed => NULL::t_changes, starting => (:v0 + 1)::text, ending => NULL);
SELECT count(*) FROM scd2.table_changes(source => 't', starting_version => :v0 + 1);
SELECT count(*) FROM scd2.table_changes('feed_ranges.t', :v0::integer + 1, :v0::smallint + 1);
SELECT count(*) FROM scd2.table_changes('t', :'t1', CURRENT_DATE + 1);
SELECT count(*) FROM scd2.table_changes('t', :v0 + 1, :v0 + 1) a, LATERAL scd2.table_changes('t', a._commit_version + 1) b;
SELECT sum((SELECT count(*) FROM scd2.table_changes('t', v))) FROM generate_series(:v0 + 1, :v0 + 3) v;

-- FR-03: the version at which the feed was enabled is a legal start, one below is not; likewise for timestamps
SELECT count(*) FROM scd2.table_changes('t', :v0);
SELECT count(*) FROM scd2.table_changes('t', :v0 - 1);
SELECT count(*) FROM scd2.table_changes('t', -1);
SELECT count(*) FROM scd2.table_changes('t', '-1');
SELECT count(*) FROM scd2.table_changes('t', -9223372036854775808, -9223372036854775808);
SELECT count(*) FROM scd2.table_changes('t', :'t0'::timestamptz);
SELECT count(*) FROM scd2.table_changes('t', :'t0'::timestamptz - interval '1 us');
SELECT count(*) FROM scd2.table_changes('t', '-infinity');
SELECT count(*) FROM scd2.table_changes('t', NULL, '-infinity');
SELECT count(*) FROM scd2.table_changes('t', NULL, -5);

-- FR-01: beyond the latest version there is nothing, without an error: who polls asks for the next one
SELECT count(*) FROM scd2.table_changes('t', :v3 + 1);
SELECT count(*) FROM scd2.table_changes('t', :v3 + 1, :v3);
SELECT count(*) FROM scd2.table_changes('t', :v3 + 100);
SELECT count(*) FROM scd2.table_changes('t', 9223372036854775807, 9223372036854775807);
SELECT count(*) FROM scd2.table_changes('t', :v0 + 3, 9223372036854775807);
SELECT count(*) FROM scd2.table_changes('t', now() + interval '1 day');
SELECT count(*) FROM scd2.table_changes('t', 'infinity');
-- reversed ranges are errors; a range whose end lies right before its start is empty, and so is one that has become empty by resolving
SELECT count(*) FROM scd2.table_changes('t', :v3, :v3 - 1);
SELECT count(*) FROM scd2.table_changes('t', :v3, :v3 - 2);
SELECT count(*) FROM scd2.table_changes('t', (:v3)::text, (:v3 - 2)::text);
SELECT count(*) FROM scd2.table_changes('t', :'t2'::timestamptz, :'t1'::timestamptz);
SELECT count(*) FROM scd2.table_changes('t', (:v3)::text, :'t1');

-- what is no feed
CREATE TABLE nofeed (id integer);
SELECT * FROM scd2.table_changes('nofeed');
SELECT * FROM scd2.table_changes(NULL::nofeed);
SELECT * FROM scd2.table_changes(NULL::t);
SELECT * FROM scd2.table_changes(NULL::integer);
SELECT * FROM scd2.table_changes('nosuchtable');
SELECT * FROM scd2.table_changes(NULL::text);
SELECT scd2.earliest_version('nofeed');
SELECT scd2.earliest_version(NULL);
\set VERBOSITY terse
SELECT * FROM scd2.table_changes(NULL::t);
SELECT * FROM scd2.table_changes('t', 'soon');
\set VERBOSITY default
SELECT * FROM scd2.table_changes('nofeed');
\set VERBOSITY sqlstate

-- the two forms have the same rows; the feed itself is taken for its source
SELECT count(*) FROM scd2.table_changes('t') j JOIN scd2.table_changes(NULL::t_changes) c USING (_change_type, _commit_version, _commit_timestamp, _change_ordinal) WHERE j._row = jsonb_build_object('id', c.id);
SELECT count(*) FROM scd2.table_changes('t_changes');

-- FR-08: the same range, read again, is the same rows in the same order
SELECT md5(string_agg(c::text, ',')) AS before FROM scd2.table_changes(NULL::t_changes, :v0, :v3) c \gset
INSERT INTO t VALUES (5);
SELECT scd2.sync() AS v \gset
VACUUM t_changes;
SELECT md5(string_agg(c::text, ',')) = :'before' AS same FROM scd2.table_changes(NULL::t_changes, :v0, :v3) c;

-- FR-03: disabled and enabled again: the range begins anew, although the relation is used again
SELECT scd2.disable_change_feed('t');
SELECT count(*) FROM scd2.table_changes('t');
INSERT INTO t VALUES (6);
SELECT scd2.enable_change_feed('t');
SELECT scd2.sync() AS v4 \gset
SELECT count(*) FROM scd2.table_changes('t', :v4);
SELECT count(*) FROM scd2.table_changes('t', :v4 - 1);
INSERT INTO t VALUES (7);
SELECT scd2.sync() AS v \gset
SELECT show(c, :v4) FROM scd2.table_changes(NULL::t_changes) c;
SELECT count(*) FROM t_changes;

-- a range reads its own part of the feed only
INSERT INTO t SELECT generate_series(1, 100000);
INSERT INTO t VALUES (8);
SELECT scd2.sync() AS v5 \gset
SELECT brin_summarize_new_values(i.indexrelid) >= 0 AS summarized FROM pg_index i JOIN pg_inherits h ON h.inhrelid = i.indrelid WHERE h.inhparent = 't_changes'::regclass;
-- blocks of the feed alone: those of catalogs are read or not, as this session's caches happen to be
CREATE FUNCTION blocks_read(q text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    before bigint := pg_stat_get_xact_blocks_fetched('t_changes_p1'::regclass);
BEGIN
    EXECUTE 'SELECT count(*) FROM (' || q || ') AS c';
    RETURN pg_stat_get_xact_blocks_fetched('t_changes_p1'::regclass) - before;
END $$;
ANALYZE t_changes;
SELECT blocks_read(format('SELECT * FROM scd2.table_changes(NULL::t_changes, %s)', :v5)) < 200 AS by_version,
       blocks_read(format('SELECT * FROM scd2.table_changes(NULL::t_changes, %L::timestamptz)', (SELECT max(_commit_timestamp) FROM t_changes))) < 200 AS by_time,
       pg_relation_size('t_changes_p1') / 8192 > 700 AS of_many;

DROP SCHEMA feed_ranges CASCADE;
