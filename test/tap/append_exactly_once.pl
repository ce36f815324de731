# A flow that appends, declared while sessions insert, update and delete, and the server dies again
# and again: its target has the rows of the source at the flow's beginning and every one inserted
# since, each as often as it was there.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('append', 'pg_scd2.batch_changes = 200', "pg_scd2.debug_leaf_size = '256kB'", "pg_scd2.debug_upkeep_every = '200ms'");
create_audited_table($node, 'postgres');

# The beginning is a version; before it, what came minus what went.
sub target_is_right
{
    my ($flow, $filter, $when) = @_;
    my $difference = $node->safe_psql('postgres', qq{
        WITH b AS (SELECT begin_version AS v FROM scd2_internal.flow_state JOIN scd2_internal.flow USING (flow_id) WHERE name = '$flow'),
             before AS (SELECT id, v, body, sum(CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END) AS n
                        FROM t_changes WHERE _commit_version <= (SELECT b.v FROM b) GROUP BY 1, 2, 3),
             expected AS (SELECT id, v, body FROM before, generate_series(1, n) WHERE $filter
                          UNION ALL SELECT id, v, body FROM t_changes WHERE _commit_version > (SELECT b.v FROM b) AND _change_type = 'insert' AND $filter)
        (SELECT 'missing', id, v FROM (TABLE expected EXCEPT ALL TABLE $flow) m LIMIT 5)
        UNION ALL (SELECT 'too many', id, v FROM (TABLE $flow EXCEPT ALL TABLE expected) m LIMIT 5)});
    my $rows = $node->safe_psql('postgres', "SELECT count(*) FROM $flow");
    ok($rows > 0 && $difference eq '', "$flow is right $when ($rows rows)") or diag($difference);
    return;
}

my $writer = start_writer($node, 'postgres', 4);
sleep 1;
$node->safe_psql('postgres', q{SELECT scd2.create_append_flow('plain', 't')});
$node->safe_psql('postgres', q{SELECT scd2.create_append_flow('filtered', 't', source_filter => 'v % 3 = 0')});
sleep 1;
for my $round (1 .. 3)
{
    finish_writer($writer);
    $writer = start_writer($node, 'postgres', 4);
    sleep 1;
    $node->stop('immediate');
    $node->start;
}
finish_writer($writer);
sync($node);
feed_is_right($node, 'postgres', 'after crashes');
target_is_right('plain', 'true', 'after crashes');
target_is_right('filtered', 'v % 3 = 0', 'after crashes');
is($node->safe_psql('postgres', q{SELECT string_agg(DISTINCT (rows_inserted = applied AND applied = events)::text, ',') FROM scd2.flows WHERE kind = 'append'}), 'true', 'counters agree');
cmp_ok($node->safe_psql('postgres', q{SELECT count(*) FROM pg_inherits WHERE inhparent = 't_changes'::regclass}), '>', 1, 'the feed was cut meanwhile');

# An error in the middle of a batch, and a rebuild while writers go on.
$writer = start_writer($node, 'postgres', 2);
$node->safe_psql('postgres', q{SELECT scd2.full_refresh('plain')});
$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'pg_scd2 apply'});
sleep 2;
finish_writer($writer);
ok($node->poll_query_until('postgres', q{SELECT scd2.sync('50 s') > 0}), 'synced');
target_is_right('plain', 'true', 'after a rebuild');
done_testing();
