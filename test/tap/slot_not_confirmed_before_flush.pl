# The slot must not move past a position whose commit is not on disk yet. A busy server hides such a fault, because other commits flush ours; so here
# nothing else commits: the WAL writer sleeps, one update, the worker captures it asynchronously, immediate stop.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('flush', 'wal_writer_delay = 10s', 'autovacuum = off', 'checkpoint_timeout = 1h', 'bgwriter_delay = 10s');
create_audited_table($node, 'postgres');
$node->safe_psql('postgres', "INSERT INTO t VALUES (1, 0, 'x')");
sync($node);

for my $round (1 .. 5)
{
    $node->safe_psql('postgres', "UPDATE t SET v = $round WHERE id = 1");
    select(undef, undef, undef, 0.4);
    $node->stop('immediate');
    $node->start;
    sync($node);
    feed_is_right($node, 'postgres', "after stop $round");
}
history_is_right($node, 'postgres', 'in the end');
done_testing();
