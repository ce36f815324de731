# Rewrites that the log does not show while writers run at full speed, one after the other and faster
# than they are repaired: each comes at its place, every change before and behind it once, in feed and
# targets.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('rewrites_load');
create_audited_table($node, 'postgres');
sync($node);
$node->safe_psql('postgres', q{SELECT scd2.track('t', 't_current', stored_as_scd_type => 1)});
$node->safe_psql('postgres', q{INSERT INTO t SELECT i, i, 'quiet' FROM generate_series(1001, 3000) i});
sync($node);

my $writer = start_writer($node, 'postgres', 4);
my @rewrites = (
    q{ALTER TABLE t ADD COLUMN extra text DEFAULT md5(random()::text)},
    q{ALTER TABLE t ALTER COLUMN v TYPE int USING v + 100000},
    q{ALTER TABLE t ALTER COLUMN extra DROP DEFAULT, ALTER COLUMN extra TYPE date USING date '2026-01-01' + length(extra)},
    q{BEGIN; UPDATE t SET v = -1 WHERE id BETWEEN 1001 AND 1010; ALTER TABLE t ALTER COLUMN extra TYPE text; DELETE FROM t WHERE id = 1011; INSERT INTO t (id, v, body) VALUES (1011, 0, 'again'); COMMIT});
for my $rewrite (@rewrites)
{
    $node->safe_psql('postgres', $rewrite);
    $node->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id = 1020');
    sync($node);
}
is($node->safe_psql('postgres', q{SELECT state, gap FROM scd2.feeds}), 'running|', 'each is repaired, under load');
is($node->safe_psql('postgres', q{SELECT count(*) FROM scd2.describe_history('t') WHERE operation LIKE 'RECONSTRUCTED%'}), '4', 'as one version each');
# without waiting: they are repaired together where the worker is slower
$node->safe_psql('postgres', $_) for q{ALTER TABLE t ALTER COLUMN v TYPE int USING v - 100000}, q{ALTER TABLE t RENAME COLUMN extra TO more}, q{ALTER TABLE t ALTER COLUMN more TYPE int USING length(more)},
  q{ALTER TABLE t ADD COLUMN last double precision DEFAULT random()};
sync($node);
finish_writer($writer);
sync($node);

my $columns = 'id, v, body, more, last';
is($node->safe_psql('postgres', q{SELECT state, gap FROM scd2.feeds}), 'running|', 'all are repaired');
is($node->safe_psql('postgres', qq{SELECT count(*) FROM ((SELECT $columns FROM t_history WHERE __end_at IS NULL EXCEPT ALL SELECT $columns FROM t) UNION ALL (SELECT $columns FROM t EXCEPT ALL SELECT $columns FROM t_history WHERE __end_at IS NULL)) d}),
    '0', 'the history ends in what the table is');
is($node->safe_psql('postgres', qq{SELECT count(*) FROM ((SELECT $columns FROM t_current EXCEPT ALL SELECT $columns FROM t) UNION ALL (SELECT $columns FROM t EXCEPT ALL SELECT $columns FROM t_current)) d}), '0', 'so does the target of type 1');
is($node->safe_psql('postgres', q{SELECT * FROM scd2.check_target('t_history') UNION ALL SELECT * FROM scd2.check_target('t_current')}), '', 'and nothing is wrong with them');
is($node->safe_psql('postgres', qq{
        SELECT count(*) FROM (SELECT $columns, sum(balance) AS balance FROM (
            SELECT $columns, CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END AS balance FROM t_changes
            UNION ALL SELECT $columns, -1 FROM t) i GROUP BY $columns) x WHERE balance <> 0}),
    '0', 'the images of the feed add up to the table');
# what the triggers noted of the changes behind the last rewrite is what the feed has of them
is($node->safe_psql('postgres', q{
        WITH since AS (SELECT max(version) AS last_repair FROM scd2.describe_history('t') WHERE operation LIKE 'RECONSTRUCTED%'),
             f AS (SELECT _xid AS xid, _change_type AS change, jsonb_build_object('id', id, 'v', v, 'body', body, 'more', more, 'last', last) AS image FROM t_changes, since WHERE _commit_version > since.last_repair),
             a AS (SELECT xid, change, image FROM audit WHERE xid IN (SELECT xid FROM f))
        SELECT (SELECT count(*) > 0 FROM f), count(*) FROM ((TABLE f EXCEPT ALL TABLE a) UNION ALL (TABLE a EXCEPT ALL TABLE f)) d}),
    't|0', 'changes behind the last one are in the feed once');
done_testing();
