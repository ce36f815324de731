# check_target() while sessions write and the feed is cut: it finds nothing where nothing is wrong,
# its flows go on afterwards, and a session that dies in the middle of it leaves nothing behind.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('check', 'pg_scd2.batch_changes = 200', "pg_scd2.debug_leaf_size = '256kB'", "pg_scd2.debug_upkeep_every = '200ms'");
create_audited_table($node, 'postgres');
$node->safe_psql('postgres', q{SELECT scd2.track('t', stored_as_scd_type => 1)});
$node->safe_psql('postgres', q{SELECT scd2.create_auto_cdc_flow('every_change', 't_changes', '{id}', 'struct(_commit_timestamp, _change_ordinal)', stored_as_scd_type => 2)});
$node->safe_psql('postgres', q{SELECT scd2.create_append_flow('appended', 't')});
$node->safe_psql('postgres', q{SELECT scd2.create_auto_cdc_flow('audited', 'audit', '{xid}', 'n')});

# Not more than can be made again in a moment.
my $writer = start_writer($node, 'postgres', 4, q{
\set kind random(1, 10)
\set id random(1, 200)
\set v random(1, 1000)
SELECT step(:kind, :id, :v);
\sleep 10 ms
});
sleep 1;
for my $round (1 .. 2)
{
    for my $target (qw(t_history t_current every_change appended audited))
    {
        my ($result, $out, $err) = $node->psql('postgres', "SET pg_scd2.lock_timeout = '30s'; SELECT * FROM scd2.check_target('$target') LIMIT 5");
        is("$result $out $err", '0  ', "$target is right in round $round, and it was compared");
    }
}
for my $round (1 .. 2)
{
    $node->safe_psql('postgres', "SET pg_scd2.allow_target_writes = on;\n$_") for 'UPDATE t_history SET v = -5 WHERE id % 3 = 0 AND __end_at IS NOT NULL', 'DELETE FROM every_change WHERE id % 3 = 0 AND __end_at IS NOT NULL';
    for my $target (qw(t_history t_current every_change))
    {
        $node->safe_psql('postgres', "SET pg_scd2.lock_timeout = '30s'; SELECT scd2.full_refresh('$target', key_filter => 'id % 3 = 0')");
    }
}
is($node->safe_psql('postgres', "SET pg_scd2.lock_timeout = '30s'; SELECT count(*) FROM scd2.check_target('every_change')"), '0', 'keys that were damaged are right after a refresh');
my $session = $node->background_psql('postgres');
my $pid = $session->query_safe('SELECT pg_backend_pid()');
$session->query_safe('BEGIN');
$session->query_safe(q{SELECT * FROM scd2.check_target('t_history')});
my $behind = $node->safe_psql('postgres', q{SELECT watermark_version FROM scd2.flows WHERE flow = 't_history'});
sleep 1;
is($node->safe_psql('postgres', q{SELECT watermark_version FROM scd2.flows WHERE flow = 't_history'}), $behind, 'until its transaction ends, the flow waits');
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
wait_until($node, 'postgres', qq{SELECT watermark_version > $behind FROM scd2.flows WHERE flow = 't_history'}, 'then it goes on');
finish_writer($writer);
sync($node);
is($node->safe_psql('postgres', q{SELECT (SELECT count(*) FROM pg_class WHERE relname LIKE 'scd2\_copy%') + (SELECT count(*) FROM scd2_internal.flow WHERE name LIKE '%rebuilt%')}), '0', 'nothing is left');
feed_is_right($node, 'postgres', 'in the end');
history_is_right($node, 'postgres', 'in the end');
done_testing();
