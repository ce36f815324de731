# What cannot be done for one feed, or with one flow, does not keep workers from the others: no worker
# ends, the error is in the log once and in diagnose(), and is gone when the cause is.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use Scd2;

my $node = new_node('upkeep', 'pg_scd2.debug_upkeep_every = 20ms', 'pg_scd2.debug_leaf_size = 64kB', 'pg_scd2.max_apply_workers = 1');
$node->safe_psql('postgres', 'CREATE EXTENSION pg_scd2; CREATE TABLE a (id int PRIMARY KEY, body text); CREATE TABLE b (LIKE a INCLUDING ALL)');
$node->safe_psql('postgres', "SELECT scd2.track('$_')") for qw(a b);
sync($node);
my $pid = $node->safe_psql('postgres', 'SELECT apply_pids FROM scd2_internal.capture_status()');

sub leaves { my ($t) = @_; return $node->safe_psql('postgres', "SELECT count(*) FROM pg_inherits WHERE inhparent = '${t}_changes'::regclass"); }
sub last_leaf { my ($t) = @_; return $node->safe_psql('postgres', "SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = '${t}_changes'::regclass ORDER BY inhrelid DESC LIMIT 1"); }
sub fill { $node->safe_psql('postgres', "INSERT INTO $_ SELECT coalesce((SELECT max(id) FROM $_), 0) + n, repeat('x', 500) FROM generate_series(1, 500) n") for qw(a b); return; }


for my $case ([ 'look at feed', 'cannot be looked after', 0 ], [ 'cut feed', 'cannot be cut', 0 ], [ 'summarise', 'cannot be summarised', 1 ])
{
    my ($where, $problem, $is_cut) = @$case;
    my ($before_a, $before_b, $log) = (leaves('a'), leaves('b'), -s $node->logfile);
    fail_at($node, "$where: " . last_leaf('a'));
    sleep 0.2;
    fill();
    sync($node);
    wait_until($node, 'postgres', "SELECT count(*) > $before_b FROM pg_inherits WHERE inhparent = 'b_changes'::regclass", "$where: the other feed is cut");
    wait_until($node, 'postgres', "SELECT EXISTS (SELECT FROM scd2.diagnose() WHERE subject ~ 'a\$' AND problem ~ '$problem' AND detail ~ 'injected failure')", '... diagnose() tells of the one');
    sleep 3;
    is(leaves('a') > $before_a ? 1 : 0, $is_cut, $is_cut ? '... which is cut all the same' : '... which is not cut');
    is(scalar(() = substr(slurp_file($node->logfile), $log) =~ /ERROR:.*injected failure/g), 1, '... the log has the error once');
    fail_at($node);
    wait_until($node, 'postgres', "SELECT NOT EXISTS (SELECT FROM scd2.diagnose() WHERE subject ~ 'a\$')", '... and all is well when the cause is gone');
    wait_until($node, 'postgres', "SELECT count(*) > $before_a FROM pg_inherits WHERE inhparent = 'a_changes'::regclass", '... it is cut then');
}

# A flow that cannot be listed.
my $flow = $node->safe_psql('postgres', q{SELECT flow_id FROM scd2_internal.flow WHERE target_relid = 'a_history'::regclass});
my $log = -s $node->logfile;
fail_at($node, "list flow: $flow");
for (1 .. 100) { last if substr(slurp_file($node->logfile), $log) =~ /injected failure: list flow/; sleep 0.1; }
fill();
my $rows = $node->safe_psql('postgres', 'SELECT count(*) FROM b');
wait_until($node, 'postgres', "SELECT count(*) = $rows FROM b_history", 'a flow that cannot be listed keeps no other from being applied');
isnt($node->safe_psql('postgres', 'SELECT count(*) FROM a_history'), $rows, '... and waits');
fail_at($node);
sync($node);
is($node->safe_psql('postgres', 'SELECT count(*) FROM a_history'), $rows, '... until it can');
is($node->safe_psql('postgres', 'SELECT apply_pids FROM scd2_internal.capture_status()'), $pid, 'the worker is the same all the time');
targets_are_right($node, 'postgres', 'in the end');
done_testing();
