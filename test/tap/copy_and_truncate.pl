# A TRUNCATE that commits while a first copy waits for its lock: the copy must not take the emptied
# table for what the flow began with.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('copytruncate');
$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    CREATE TABLE t (id int PRIMARY KEY);
    INSERT INTO t SELECT generate_series(1, 1000);
    SELECT scd2.enable_change_feed('t')});
sync($node);

# The lock is there before the flow is, and a TRUNCATE comes with it.
my $other = $node->background_psql('postgres');
$other->query_safe('BEGIN');
$other->query_safe('TRUNCATE t');
$node->safe_psql('postgres', q{SELECT scd2.create_auto_cdc_flow('t_history', 't_changes', '{id}', stored_as_scd_type => 2)});
wait_until($node, 'postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'pg_scd2 apply' AND wait_event_type = 'Lock')}, 'the copy waits for the lock');
$other->query_safe('INSERT INTO t VALUES (5000)');
$other->query_safe('COMMIT');
$other->quit;
sync($node);

is($node->safe_psql('postgres', 'SELECT id, __end_at IS NULL FROM t_history'), '5000|t', 'the rows after the TRUNCATE, and no others');
is($node->safe_psql('postgres', 'SELECT begin_version FROM scd2_internal.flow_state'),
    $node->safe_psql('postgres', q{SELECT _commit_version FROM t_changes WHERE _change_type = 'truncate'}), 'the flow says that it begins after it');
done_testing();
