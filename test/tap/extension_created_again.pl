# DROP EXTENSION takes the slot along, or says how. DROP EXTENSION and CREATE EXTENSION in one
# transaction: the workers see that theirs is gone, its slot goes with it, and the new one starts
# from nothing.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('again');
$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    CREATE TABLE t (id int PRIMARY KEY, v int);
    INSERT INTO t VALUES (1, 1);
    SELECT scd2.track('t')});
sync($node);
$node->safe_psql('postgres', "UPDATE t SET v = $_") for 2 .. 20;
sync($node);
my $slot = $node->safe_psql('postgres', 'SELECT slot FROM scd2_internal.position');

$node->safe_psql('postgres', q{
    BEGIN;
    SELECT scd2.untrack('t', true, true);
    DROP EXTENSION pg_scd2;
    CREATE EXTENSION pg_scd2;
    COMMIT});
$node->safe_psql('postgres', q{SELECT scd2.track('t')});
$node->safe_psql('postgres', 'UPDATE t SET v = 100');
sync($node);
is($node->safe_psql('postgres', 'SELECT version FROM scd2_internal.position'), '1', 'versions begin anew');
is($node->safe_psql('postgres', 'SELECT string_agg(v::text, $$,$$ ORDER BY __start_at) FROM t_history'), '20,100', 'and so does the history');
is($node->safe_psql('postgres', 'SELECT count(*), bool_or(slot_name = $$' . $slot . '$$) FROM pg_replication_slots'), '1|f', 'the old slot is gone');

# No worker runs: the slot goes all the same (OP-15).
sub slots { return $node->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'); }
$node->safe_psql('postgres', 'SELECT scd2.stop()');
$node->poll_query_until('postgres', 'SELECT NOT active FROM pg_replication_slots') or die;
$node->safe_psql('postgres', 'DROP EXTENSION pg_scd2');
wait_until($node, 'postgres', 'SELECT count(*) = 0 FROM pg_replication_slots', 'dropped after scd2.stop(), the slot goes too');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ 'pg_scd2 (capture|apply)'"), '0', '... and no worker stays');
is($node->safe_psql('postgres', 'SELECT count(*) FROM t_history'), '2', 'the history is still there');

# No worker can run: the statement is given, and the next server that can drops it.
for my $setting ('pg_scd2.enabled = off', "shared_preload_libraries = ''")
{
    $node->safe_psql('postgres', 'CREATE EXTENSION pg_scd2');
    wait_capture($node);
    $node->append_conf('postgresql.conf', $setting);
    $node->restart;
    my ($ret, $out, $err) = $node->psql('postgres', 'DROP EXTENSION pg_scd2');
    is($ret, 0, "$setting: dropped");
    my ($statement) = $err =~ /WARNING:.*stays and holds back WAL.*HINT:\s+(SELECT pg_drop_replication_slot\('\w+'\);)/s;
    ok($statement, '... with a warning of the slot') or diag($err);
    is(slots(), '1', '... which is there');
    $node->safe_psql('postgres', $statement) if $setting =~ /preload/;
    $node->append_conf('postgresql.conf', "pg_scd2.enabled = on\nshared_preload_libraries = 'pg_scd2'");
    $node->restart;
    wait_until($node, 'postgres', 'SELECT count(*) = 0 FROM pg_replication_slots', '... and then is not');
}
done_testing();
