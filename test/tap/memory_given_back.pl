# Memory that a large transaction took of the capture worker goes back to the system although small ones
# keep coming, so that it never rests.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);
use Scd2;

my $ROWS = 700_000;
my $node = new_node('given_back', 'max_wal_size = 4GB');
create_audited_table($node, 'postgres');
$node->safe_psql('postgres', "CREATE TABLE large (id int PRIMARY KEY, body text); SELECT scd2.enable_change_feed('large')");
sync($node);
my $pid = capture_pid($node);
my $before = worker_memory($node)->{$pid};
plan skip_all => 'the system does not tell of memory' unless defined $before;

my $most = 0;
my $large = $node->background_psql('postgres', on_error_stop => 0);
$large->query_safe("INSERT INTO large SELECT i, repeat(md5(i::text), 10) FROM generate_series(1, $ROWS) i");
$large->quit;
my $writer = start_writer($node, 'postgres', 2);
my $began = time;
until ($node->safe_psql('postgres', 'SELECT EXISTS (SELECT FROM large_changes)') eq 't' || time - $began > 100)
{
    my $now = worker_memory($node)->{$pid};
    $most = $now if $now > $most;
}
cmp_ok($most, '>', 300, sprintf 'the transaction took memory (%.0f MB, before it %.0f)', $most, $before);
my ($now, $latest) = ($most, 0);
$began = time;
while (time - $began < 20)
{
    $now = worker_memory($node)->{$pid};
    last if $now < $before + 100;
    sleep 0.2;
}
cmp_ok($now, '<', $before + 100, sprintf 'it went back while others wrote (%.0f MB after %.1f s)', $now, time - $began);
sleep 3;
cmp_ok(worker_memory($node)->{$pid}, '<', $before + 100, 'and did not come again');
is(capture_pid($node), $pid, 'it is the same worker');
finish_writer($writer);
sync($node);
feed_is_right($node, 'postgres', 'in the end');
done_testing();
