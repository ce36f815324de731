# The launcher's death: the next one takes over the workers that are there. It starts none a second
# time, starts again what ends, and ends what is to end, although another launcher started it.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);
use Scd2;

my $node = new_node('launcher', 'log_min_messages = debug1');
create_audited_table($node, 'postgres');
$node->safe_psql('postgres', 'CREATE DATABASE second');
$node->safe_psql('second', 'CREATE EXTENSION pg_scd2; CREATE TABLE u (id int PRIMARY KEY)');
wait_capture($node, 'second');
$node->poll_query_until('postgres', "SELECT count(*) = 6 FROM pg_stat_activity WHERE backend_type ~ 'pg_scd2 (capture|apply)'");

sub pids { my ($kind) = @_; return $node->safe_psql('postgres', "SELECT string_agg(pid::text, ',' ORDER BY pid) FROM pg_stat_activity WHERE backend_type ~ 'pg_scd2 ($kind)'"); }
sub forks { return scalar(() = slurp_file($node->logfile) =~ /starting background worker process "pg_scd2 (?:capture|apply)/g); }

# kill_launcher(): returns when another one works
sub kill_launcher
{
    my $pid = pids('launcher');
    $node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
    $node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'pg_scd2 launcher' AND pid <> $pid")
      or die 'no launcher';
    sleep 1;
    return;
}

my $writer = start_writer($node, 'postgres', 2);
my $before = pids('capture|apply');
my $forked = forks();
kill_launcher() for 1 .. 2;
is(pids('capture|apply'), $before, 'the workers go on while the launcher is another');
is(forks() - $forked, 0, '... which starts none beside them');

# Workers that it did not start.
my ($apply) = split /,/, pids('apply');
for my $pid (wait_capture($node), wait_capture($node, 'second'), $apply)
{
    my $start = time;
    $node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
    ok($node->poll_query_until('postgres', "SELECT count(*) = 6 AND count(*) FILTER (WHERE pid = $pid) = 0 FROM pg_stat_activity WHERE backend_type ~ 'pg_scd2 (capture|apply)'"),
        'a worker that is terminated then comes back');
    cmp_ok(time - $start, '<', 5, '... soon');
}
cmp_ok(forks() - $forked, '<=', 6, 'with few processes started');
sync($node);

# At the same time as workers end.
$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type LIKE 'pg_scd2%'");
wait_until($node, 'postgres', "SELECT count(*) = 7 FROM pg_stat_activity WHERE backend_type LIKE 'pg_scd2%'", 'all of them, together with the launcher');

kill_launcher();
set_setting($node, 'pg_scd2.max_apply_workers', 1);
wait_until($node, 'postgres', "SELECT count(*) = 2 FROM pg_stat_activity WHERE backend_type = 'pg_scd2 apply'", 'a setting that was lowered ends workers that another launcher started');
set_setting($node, 'pg_scd2.max_apply_workers');
wait_until($node, 'postgres', "SELECT count(*) = 4 FROM pg_stat_activity WHERE backend_type = 'pg_scd2 apply'", '... and raised again, brings them back');

kill_launcher();
stop_workers($node, 'second');
wait_until($node, 'postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type ~ 'pg_scd2 (capture|apply)' AND datname = 'second'", 'scd2.stop() ends them');
kill_launcher();
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ 'pg_scd2 (capture|apply)' AND datname = 'second'"), '0', '... and a new launcher starts none');
set_setting($node, 'pg_scd2.enabled', 'off');
wait_until($node, 'postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type ~ 'pg_scd2 (capture|apply)'", 'pg_scd2.enabled = off ends all');
set_setting($node, 'pg_scd2.enabled');
finish_writer($writer);
wait_capture($node);
sync($node);
feed_is_right($node, 'postgres', 'after all that');
history_is_right($node, 'postgres', 'after all that');
cmp_ok(forks() - $forked, '<', 60, 'few processes were started in all');
done_testing();
