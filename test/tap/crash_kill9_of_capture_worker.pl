# SIGKILL of the capture worker is a crash of the whole server. Whatever it was doing: the feed
# holds every committed change once, and the history follows.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('kill9');
create_audited_table($node, 'postgres');

for my $round (1 .. 6)
{
    my $writer = start_writer($node, 'postgres', 4);
    select(undef, undef, undef, 0.3 + rand(1.2));
    crash($node, wait_capture($node));
    finish_writer($writer);
    sync($node);
    feed_is_right($node, 'postgres', "after crash $round");
}
history_is_right($node, 'postgres', 'in the end');
done_testing();
