# A capture worker that dies after its commit and before it told the apply workers: they must apply
# what it committed, although nothing follows.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('telling');
$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    CREATE TABLE t (id int PRIMARY KEY, v int);
    INSERT INTO t VALUES (1, 1);
    SELECT scd2.track('t')});
sync($node);
$node->safe_psql('postgres', 'UPDATE t SET v = 2');
sync($node);

my $capture = wait_capture($node);
$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_scd2.debug_fail_at = 'committed'});
$node->reload;
wait_until($node, 'postgres', q{SELECT current_setting('pg_scd2.debug_fail_at') = 'committed'}, 'a failure is injected');
select(undef, undef, undef, 0.3);
$node->safe_psql('postgres', 'UPDATE t SET v = 3');
wait_until($node, 'postgres', "SELECT pid IS DISTINCT FROM $capture FROM scd2_internal.capture_status()", 'the capture worker died');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_scd2.debug_fail_at');
$node->reload;
wait_capture($node);
sync($node);
is($node->safe_psql('postgres', 'SELECT v FROM t_history WHERE __end_at IS NULL'), '3', 'the last change is in the history');
done_testing();
