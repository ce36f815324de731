# Workers start soon after CREATE EXTENSION commits, show what they are in pg_stat_activity, follow
# settings that are reloaded, and stay away after scd2.stop(), also across a restart. Commits wake
# them: nothing waits for pg_scd2.naptime, whoever commits and however.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Scd2;

my $node = new_node('workers', 'pg_scd2.naptime = 1h');

# seconds_until(QUERY): how long until it is true
sub seconds_until
{
    my ($query) = @_;
    my $start = time;
    for (1 .. 100) { last if $node->safe_psql('postgres', $query) eq 't'; select(undef, undef, undef, 0.1); }
    return time - $start;
}

sub workers { my ($kind) = @_; return $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'pg_scd2 $kind' AND datname = current_database()"); }

# the one that looked for it when the server started has gone
seconds_until(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'pg_scd2 capture' AND datname = current_database()});
is(workers('capture'), '0', 'no worker without the extension');
$node->safe_psql('postgres', 'BEGIN; CREATE EXTENSION pg_scd2; ROLLBACK');
is(workers('capture'), '0', 'none after a CREATE EXTENSION that was rolled back');
$node->safe_psql('postgres', 'CREATE EXTENSION pg_scd2; CREATE TABLE t (id int PRIMARY KEY, v int)');
cmp_ok(seconds_until("SELECT state = 'running' FROM scd2_internal.capture_status()"), '<', 2, 'capture runs soon after CREATE EXTENSION');
$node->safe_psql('postgres', "SELECT scd2.track('t')");
$node->safe_psql('postgres', 'SELECT scd2.sync()');
is(workers('capture'), '1', 'one capture worker');
is(workers('apply'), '2', 'pg_scd2.max_apply_workers apply workers');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ 'pg_scd2 (capture|apply)' AND (state IN ('idle', 'active')) IS NOT TRUE"), '0',
    'each shows in pg_stat_activity whether it works');

$node->append_conf('postgresql.conf', 'pg_scd2.max_apply_workers = 1');
$node->reload;
wait_until($node, 'postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'pg_scd2 apply'", 'a reloaded setting is followed: one apply worker less');

# Each kind of commit is in the history soon, also where nobody else flushes the log.
$node->append_conf('postgresql.conf', "wal_writer_delay = 10s\nautovacuum = off");
$node->reload;
my %commits = (
    'a plain commit' => 'INSERT INTO t VALUES (1, 0)',
    'synchronous_commit = off' => 'SET synchronous_commit = off; INSERT INTO t VALUES (2, 0)',
    'COMMIT PREPARED' => "BEGIN; INSERT INTO t VALUES (3, 0); PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'",
    'a commit in a procedure' => 'CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$BEGIN INSERT INTO t VALUES (4, 0); COMMIT; PERFORM pg_sleep(2); END$$; CALL commits()');
for my $kind (sort keys %commits)
{
    my ($id) = $commits{$kind} =~ /VALUES \((\d)/;
    $node->safe_psql('postgres', $commits{$kind});
    cmp_ok(seconds_until("SELECT count(*) = 1 FROM t_history WHERE id = $id"), '<', 1, "$kind is in the history at once")
      or diag($node->safe_psql('postgres', "SELECT (SELECT count(*) FROM t_changes WHERE id = $id) AS in_feed, state, captured_lsn, pg_current_wal_insert_lsn(), version, apply_pids,
            (SELECT watermark_version FROM scd2.flows), (SELECT string_agg(concat_ws(' ', backend_type, state, wait_event, query), ', ') FROM pg_stat_activity WHERE backend_type LIKE 'pg_scd2%') FROM scd2_internal.capture_status()"));
}

$node->safe_psql('postgres', 'SELECT scd2.stop()');
wait_until($node, 'postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type ~ 'pg_scd2 (capture|apply)'", 'scd2.stop() ends the workers');
my $start = time;
my ($result, $stdout, $stderr) = $node->psql('postgres', 'SELECT scd2.sync()');
isnt($result, 0, 'sync() fails while they are stopped');
cmp_ok(time - $start, '<', 2, '... at once');
like($stderr, qr/scd2\.start\(\)/, '... and names the way out');
$node->restart;
sleep 2;
is(workers('capture'), '0', 'they stay away across a restart');
$node->safe_psql('postgres', 'UPDATE t SET v = 1');
$node->safe_psql('postgres', 'SELECT scd2.start()');
sync($node);
is($node->safe_psql('postgres', 'SELECT count(*) FROM t_history WHERE v = 1 AND __end_at IS NULL'), '4', 'scd2.start() brings them back, and what happened meanwhile is there');
done_testing();
