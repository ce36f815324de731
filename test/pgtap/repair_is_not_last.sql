-- What a repair writes stands behind what was captured meanwhile, which is of later versions: who has yet to read that
-- keeps it, and it is as old as it is.
\set QUIET on
SET client_min_messages = warning;
SELECT plan(3);
CREATE TABLE t (id int PRIMARY KEY, v int);
SELECT scd2.enable_change_feed('t') \g /dev/null
INSERT INTO t VALUES (1, 1);
UPDATE t SET v = 2;
UPDATE t SET v = 3;
SELECT scd2.sync() AS last \gset
SELECT scd2.create_reader('r', 't', :last - 1) \g /dev/null
-- as a repair at the first version that took until now
INSERT INTO scd2_internal.reconstruction (feed_id, version, commit_time, xid, gap, whole)
    SELECT feed_id, :last - 2, now(), '2', int8range(1, 1), true FROM scd2_internal.feed;
SET pg_scd2.allow_target_writes = on;
INSERT INTO t_changes (_change_type, _commit_version, _commit_timestamp, _change_ordinal, _xid, id, v)
    SELECT _change_type, _commit_version, _commit_timestamp, 2, _xid, 2, v FROM t_changes WHERE _commit_version = :last - 2;
SELECT l.leaf FROM scd2_internal.feed f, scd2_internal.feed_leaves(f.feed_relid) l \gset
SELECT is((SELECT _commit_version FROM t_changes ORDER BY ctid DESC LIMIT 1), :last - 2::bigint, 'the last row is of the repair');
SELECT is((version, at), (SELECT (_commit_version, _commit_timestamp) FROM t_changes WHERE _commit_version = :last LIMIT 1), 'the newest change is not')
    FROM scd2_internal.newest_change(:leaf, 'infinity', false);
SELECT is(held_by, format('reader "r" at version %s', :last - 1), 'a reader holds it') FROM scd2.vacuum_feed('t', '0', dry_run => true);
SELECT * FROM finish();
