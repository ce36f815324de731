# What comes between the steps of a repair: a column that is added after the comparison was planned and
# before its differences are written; a flow that is made or refreshed, a reader whose snapshot is
# older than the repair and could not tell what it wrote from what it sees.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('resync_meets', 'pg_scd2.max_apply_workers = 2');
$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    CREATE TABLE t (id int PRIMARY KEY, v int);
    INSERT INTO t SELECT i, 0 FROM generate_series(1, 10) i;
    SELECT scd2.track('t');
    SELECT scd2.track('t', stored_as_scd_type => 1)});
sync($node);

# The slot is lost, and a repair asked for, which stands before it writes.
sub begin_repair
{
    my ($sql) = @_;
    lose_slot($node, 'postgres', $sql);
    set_setting($node, 'pg_scd2.debug_fail_at', 'wait: resync taken');
    $node->safe_psql('postgres', q{SELECT scd2.resync('t')});
    $node->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query = 'comparing a source with a target')}) or die 'no repair';
    return;
}

sub finish_repair
{
    my ($what) = @_;
    set_setting($node, 'pg_scd2.debug_fail_at', undef);
    $node->poll_query_until('postgres', q{SELECT scd2.sync('50 s') > 0}) or die 'sync';
    is($node->safe_psql('postgres', q{SELECT state, gap FROM scd2.feeds WHERE source = 't'::regclass}), 'running|', "$what: repaired");
    is($node->safe_psql('postgres', q{
            SELECT count(*) FROM (
                SELECT to_jsonb(f) - '{_change_type,_commit_version,_commit_timestamp,_change_ordinal,_xid}'::text[] AS image, sum(CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END) AS n
                FROM t_changes f WHERE id > 10 GROUP BY 1
            ) f FULL JOIN (SELECT to_jsonb(t) AS image, count(*) AS n FROM t WHERE id > 10 GROUP BY 1) s USING (image) WHERE coalesce(f.n, 0) <> coalesce(s.n, 0)}),
        '0', "$what: the images of the feed add up to the table");
    targets_are_right($node, 'postgres', "($what)");
    return;
}

# a column that comes between
begin_repair('UPDATE t SET v = 1 WHERE id <= 3; DELETE FROM t WHERE id = 4; INSERT INTO t VALUES (11, 1)');
$node->safe_psql('postgres', 'ALTER TABLE t ADD COLUMN c int DEFAULT 5');
$node->safe_psql('postgres', 'UPDATE t SET v = 2 WHERE id = 2; INSERT INTO t VALUES (12, 2, 6)');
wait_until($node, 'postgres', q{SELECT EXISTS (SELECT FROM scd2_internal.feed_backlog)}, 'a column that comes before the differences are written waits for them');
my ($ret, $out, $err) = $node->psql('postgres', q{SELECT scd2.track('t', 't_late')});
like($err, qr/has a gap at versions.*it is being repaired/s, 'no flow begins meanwhile');
($ret, $out, $err) = $node->psql('postgres', q{SET pg_scd2.lock_timeout = '200ms'; SELECT scd2.full_refresh('t_history')});
like($err, qr/is at work/, '... none is refreshed');
finish_repair('a column between');
is($node->safe_psql('postgres', q{SELECT _change_type, id, v, c FROM t_changes WHERE _commit_version = (SELECT max(version) FROM scd2.describe_history('t') WHERE operation LIKE 'RECONSTRUCTED%') ORDER BY id, _change_ordinal}),
    join("\n", (map { ("update_preimage|$_|0|5", "update_postimage|$_|1|5") } 1 .. 3), 'delete|4|0|5', 'insert|11|1|5'), '... in which the differences have what it gave to all rows');
is($node->safe_psql('postgres', 'SELECT id, v, c FROM t_history WHERE __end_at IS NULL EXCEPT TABLE t'), '', '... and so has the history');
my $before = $node->safe_psql('postgres', q{SELECT max(version) - 1 FROM scd2.describe_history('t') WHERE operation LIKE 'RECONSTRUCTED%'});
is($node->safe_psql('postgres', "SELECT count(*), sum(v) FROM scd2.table_at(NULL::t, $before)"), '10|0', '... and the table can be seen as it was before');

# a reader that sees the rows as they are, and not the repair that tells how they came
begin_repair('UPDATE t SET v = 7 WHERE id = 7');
my $before_it = $node->safe_psql('postgres', 'SELECT scd2.latest_version() - 1');
my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN; LOCK scd2_internal.reconstruction IN SHARE MODE');
set_setting($node, 'pg_scd2.debug_fail_at', undef);
wait_until($node, 'postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query = 'comparing a source with a target' AND wait_event_type = 'Lock')}, 'a repair is about to commit');
my $capture = capture_pid($node);
kill 'STOP', $capture;
$node->safe_psql('postgres', 'UPDATE t SET v = 8 WHERE id = 8');
my $reader = $node->background_psql('postgres', on_error_stop => 0);
$reader->query_until(qr/begun/, "\\set VERBOSITY verbose\n\\echo begun\nSELECT sum(v) FROM scd2.table_at(NULL::t, $before_it);\n");
wait_until($node, 'postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%table_at%' AND wait_event_type = 'Extension' AND pid <> pg_backend_pid())}, 'a reader waits for what its snapshot sees');
$holder->query_safe('COMMIT');
$holder->quit;
$node->poll_query_until('postgres', q{SELECT broken_at IS NULL FROM scd2_internal.feed_state}) or die 'not repaired';
kill 'CONT', $capture;
$reader->quit;
finish_repair('a reader between');
is(join(' ', $reader->{stderr}, $reader->{stdout} =~ /(\d+)\s*$/), ' ' . $node->safe_psql('postgres', "SELECT sum(v) FROM scd2.table_at(NULL::t, $before_it)"), '... before it reads, so the repair that comes between does no harm');
is($node->safe_psql('postgres', "SELECT v FROM scd2.table_at(NULL::t, $before_it) WHERE id = 7"), '0', '... then it sees what was before the repair');
done_testing();
