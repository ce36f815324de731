# A first copy waits for capture. Capture waits for the feed's lock, behind a VACUUM FULL, which
# waits for the copy: nobody but the copy can see that they wait in a circle.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('givesway');
$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    CREATE TABLE t (id int PRIMARY KEY, v int);
    INSERT INTO t SELECT generate_series(1, 1000), 0;
    SELECT scd2.enable_change_feed('t')});
sync($node);
$node->safe_psql('postgres', 'UPDATE t SET v = 1');
sync($node);

# The copy has read the feed (its starting_version asks for a time) and waits for a capture worker
# that does not get on.
my $source = $node->background_psql('postgres');
$source->query_safe('BEGIN');
$source->query_safe('LOCK t IN ACCESS EXCLUSIVE MODE');
$node->safe_psql('postgres', q{SELECT scd2.create_auto_cdc_flow('t_past', 't_changes', '{id}', starting_version => 1)});
wait_until($node, 'postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'pg_scd2 apply' AND wait_event_type = 'Lock')}, 'the copy stands before the source');
my $capture = wait_capture($node);
kill 'STOP', $capture;
$source->query_safe('UPDATE t SET v = 2 WHERE id = 1');
$source->query_safe('COMMIT');
$source->quit;
wait_until($node, 'postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query = 'first copy: waiting for capture')}, 'the copy waits for capture');
my $vacuum = $node->background_psql('postgres');
$vacuum->query_until(qr/started/, "\\echo started\nVACUUM FULL t_changes;\n");
wait_until($node, 'postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE 'VACUUM FULL%' AND wait_event_type = 'Lock')}, 'VACUUM FULL waits for the copy');
kill 'CONT', $capture;

sync($node);
is($node->safe_psql('postgres', 'SELECT count(*), sum(v) FROM t_past'), '1000|1001', 'the copy gave way, and was made after all');
like(slurp_file($node->logfile), qr/first copy of flow "t_past" gives way/, 'and said so');
$vacuum->quit;
done_testing();
