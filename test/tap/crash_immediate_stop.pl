# pg_ctl stop -m immediate with a writer running: after each start the feed holds every committed change once.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('immediate');
create_audited_table($node, 'postgres');

for my $round (1 .. 6)
{
    my $writer = start_writer($node, 'postgres', 4);
    select(undef, undef, undef, 0.3 + rand(1.2));
    $node->stop('immediate');
    finish_writer($writer);
    $node->start;
    sync($node);
    feed_is_right($node, 'postgres', "after stop $round");
}
history_is_right($node, 'postgres', 'in the end');
done_testing();
