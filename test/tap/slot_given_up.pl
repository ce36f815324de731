# pg_scd2.max_slot_lag: the slot is given up before the disk fills, whether workers are stopped or
# one waits for a lock; what was not captured is a declared gap.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('limit', 'min_wal_size = 32MB', 'max_wal_size = 64MB', 'autovacuum = off');
create_audited_table($node, 'postgres');
$node->safe_psql('postgres', "INSERT INTO t VALUES (1, 1, 'before')");
sync($node);

sub slots { return $node->safe_psql('postgres', q{SELECT count(*) FROM pg_replication_slots}); }
sub write_wal { $node->safe_psql('postgres', q{SELECT pg_logical_emit_message(false, 'test', 'x'), pg_switch_wal()}) for 1 .. 4; return; }

sub resume
{
    my ($what) = @_;
    my $log = slurp_file($node->logfile);
    like($log, qr/replication slot "pg_scd2_\w+" of database \d+ was given up: it held back \d+ MB of WAL/, "$what: the log says so");
    wait_until($node, 'postgres', q{SELECT gap IS NOT NULL FROM scd2.feeds}, "$what: the gap is declared");
    my ($result, $stdout, $stderr) = $node->psql('postgres', q{SELECT * FROM scd2.table_changes('t')});
    like($stderr, qr/gap/, "$what: reads do not cross it");
    return;
}

sub repair
{
    my ($what) = @_;
    wait_capture($node);
    $node->safe_psql('postgres', $node->safe_psql('postgres', q{SELECT fix FROM scd2.diagnose() WHERE problem = 'its change data feed has failed'}));
    sync($node);
    targets_are_right($node, 'postgres', "after it ($what)");
    return;
}

# below the limit nothing happens
$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_scd2.max_slot_lag = '32MB'});
$node->reload;
$node->safe_psql('postgres', 'SELECT scd2.stop()');
wait_until($node, 'postgres', 'SELECT NOT active FROM pg_replication_slots', 'the workers are stopped');
sleep 2;
is(slots(), 1, 'below the limit the slot stays');
$node->safe_psql('postgres', "INSERT INTO t VALUES (2, 2, 'lost')");
write_wal();
wait_until($node, 'postgres', 'SELECT NOT EXISTS (SELECT FROM pg_replication_slots)', 'stopped: beyond the limit it goes');
$node->safe_psql('postgres', 'SELECT scd2.start()');
resume('stopped');
repair('stopped');

# a worker that is at work, and waits for a lock that somebody keeps on its own table
my $slot = $node->safe_psql('postgres', 'SELECT slot_name FROM pg_replication_slots');
my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN; LOCK TABLE scd2_internal.position IN SHARE MODE');
$node->safe_psql('postgres', "INSERT INTO t VALUES (3, 3, 'lost')");
wait_until($node, 'postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'pg_scd2 capture' AND wait_event_type = 'Lock')}, 'capture waits for a lock');
write_wal();
wait_until($node, 'postgres', "SELECT NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = '$slot')", 'waiting: beyond the limit it goes');
$session->query_safe('ROLLBACK');
wait_until($node, 'postgres', 'SELECT gap IS NOT NULL FROM scd2_internal.feed_state', 'and the gap is declared');
$session->quit;
resume('waiting');
repair('waiting');
$node->safe_psql('postgres', "INSERT INTO t VALUES (4, 4, 'after')");
sync($node);
is($node->safe_psql('postgres', q{SELECT count(*) FROM scd2.table_changes('t') WHERE _row ->> 'id' = '4'}), 1, 'and capture goes on');
$node->stop;
done_testing();
