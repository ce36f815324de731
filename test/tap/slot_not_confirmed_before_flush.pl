# The slot must not move past a position whose commit is not on disk yet. A busy server hides such a
# fault, because others flush our commits; so here nothing else commits, and the WAL writer is
# stopped. A slot is worth moving after enough WAL, and reaches the disk when it moves past a record
# of the running transactions, which a checkpoint writes: hence checkpoint, one transaction that
# writes much elsewhere and one row of ours, crash.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('flush', 'autovacuum = off', 'checkpoint_timeout = 1h', 'bgwriter_delay = 10s', 'max_wal_size = 1GB');
create_audited_table($node, 'postgres');
$node->safe_psql('postgres', q{INSERT INTO t VALUES (1, 0, 'x'); CREATE TABLE elsewhere (v text)});
sync($node);

for my $round (1 .. 4)
{
    my $wal_writer = $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'");
    $node->safe_psql('postgres', 'CHECKPOINT');
    kill 'STOP', $wal_writer;
    $node->safe_psql('postgres', "BEGIN; INSERT INTO elsewhere SELECT repeat('x', 1000) FROM generate_series(1, 25000); UPDATE t SET v = $round WHERE id = 1; COMMIT");
    select(undef, undef, undef, 0.5);
    crash($node, $wal_writer);
    my ($result, $stdout, $stderr) = $node->psql('postgres', "SELECT scd2.sync('50 s')");
    is($stderr, '', "capture goes on after crash $round");
    feed_is_right($node, 'postgres', "after crash $round");
}
history_is_right($node, 'postgres', 'in the end');
done_testing();
