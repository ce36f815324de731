# PostgreSQL 18 and later: the server invalidates a slot that nobody used for long
# (idle_replication_slot_timeout). That is a declared gap like any.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $probe = PostgreSQL::Test::Cluster->new('probe');
plan skip_all => 'idle_replication_slot_timeout came with PostgreSQL 18' if $probe->pg_version < 18;

my $node = new_node('idle', 'idle_replication_slot_timeout = 1s');
create_audited_table($node, 'postgres');
$node->safe_psql('postgres', "INSERT INTO t SELECT i, i, 'x' FROM generate_series(1, 20) i");
sync($node);
stop_workers($node);
$node->safe_psql('postgres', 'UPDATE t SET v = 0 WHERE id = 1');
for my $try (1 .. 30)
{
    sleep 1;
    $node->safe_psql('postgres', 'CHECKPOINT');
    last if $node->safe_psql('postgres', q{SELECT invalidation_reason FROM pg_replication_slots}) eq 'idle_timeout';
}
is($node->safe_psql('postgres', q{SELECT invalidation_reason FROM pg_replication_slots}), 'idle_timeout', 'the server has invalidated the slot');
$node->safe_psql('postgres', 'SELECT scd2.start()');
wait_capture($node);
like($node->safe_psql('postgres', 'SELECT state, gap FROM scd2.feeds'), qr/^failed\|\[\d+,\)$/, 'the feed has a declared gap');
like($node->safe_psql('postgres', 'SELECT error FROM scd2_internal.feed_state'), qr/was invalidated by the server/, '... that says why');
$node->safe_psql('postgres', q{SELECT scd2.resync('t')});
sync($node);
targets_are_right($node, 'postgres', 'after the repair');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'), '1', 'one slot');
done_testing();
