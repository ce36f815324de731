# A worker's own death (pg_terminate_backend) is no crash of the server: it comes back by itself,
# soon, without a second consumer of the slot and without filling the log, and nothing is lost or
# doubled.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Scd2;

my $node = new_node('terminated');
create_audited_table($node, 'postgres');

my $writer = start_writer($node, 'postgres', 2);
my $longest = 0;
for my $round (1 .. 10)
{
    my $pid = wait_capture($node);
    $node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
    if ($round % 2)
    {
        $node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type LIKE 'pg_scd2 apply%'");
    }
    my $start = time;
    $node->poll_query_until('postgres', "SELECT pid <> $pid FROM scd2_internal.capture_status() WHERE state = 'running' AND pid IS NOT NULL");
    $longest = time - $start if time - $start > $longest;
    select(undef, undef, undef, rand(0.3));
}
# ... and again and again, without waiting for them: whatever they are at, also before they have the
# slot (OP-04)
for my $round (1 .. 60)
{
    $node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type LIKE 'pg_scd2 capture%' OR (backend_type LIKE 'pg_scd2%' AND $round % 5 = 0)");
    select(undef, undef, undef, 0.05);
}
finish_writer($writer);
wait_capture($node);
sync($node);
feed_is_right($node, 'postgres', 'after all that');
history_is_right($node, 'postgres', 'after all that');
cmp_ok($longest, '<', 10, sprintf('a terminated worker was back after at most %.1f s', $longest));
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'pg_scd2 capture%'"), '1', 'one capture worker');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'), '1', 'one slot');
my @errors = grep { /ERROR|FATAL|PANIC/ && !/terminating|pg_scd2 writer/ } split /\n/, slurp_file($node->logfile);
cmp_ok(scalar @errors, '<=', 10, 'no flood of errors in the log') or diag(join "\n", @errors[0 .. 20]);
done_testing();
