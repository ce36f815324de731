# The captured table is idle, other tables and another database are not: the slot must not hold back
# WAL for ever, and it must not write for ever either.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('idle', 'checkpoint_timeout = 30s', 'autovacuum = off');
create_audited_table($node, 'postgres');
$node->safe_psql('postgres', 'CREATE DATABASE busy');
$node->safe_psql('postgres', "INSERT INTO t VALUES (1, 1, 'x')");
sync($node);

for my $db (qw(postgres busy))
{
    my $before = $node->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
    $node->safe_psql($db, 'CREATE TABLE heavy AS SELECT i, repeat(md5(i::text), 20) AS filler FROM generate_series(1, 40000) i');
    $node->safe_psql($db, 'UPDATE heavy SET i = i + 1');
    $node->safe_psql($db, 'CHECKPOINT');
    wait_until($node, 'postgres', "SELECT confirmed_flush_lsn > '$before' FROM pg_replication_slots WHERE plugin = 'pg_scd2'",
        "confirmed_flush_lsn passes WAL written in $db");
    wait_until($node, 'postgres', "SELECT restart_lsn > '$before' FROM pg_replication_slots WHERE plugin = 'pg_scd2'",
        "restart_lsn passes WAL written in $db");
}

# Quiet: the position's own records must not keep each other going.
$node->safe_psql('postgres', 'CHECKPOINT');
sleep 12;
my $quiet = $node->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
sleep 25;
my $written = $node->safe_psql('postgres', "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '$quiet')");
cmp_ok($written, '<', 5000, "an idle server writes next to nothing ($written bytes in 25 s)");
$node->restart;
sync($node);
feed_is_right($node, 'postgres', 'in the end');
done_testing();
