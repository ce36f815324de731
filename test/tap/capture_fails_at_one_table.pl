# An error that comes again and again while the changes of one table are decoded: the worker dies of it
# a few times, then that feed has a gap with the error, and the others are captured. An error that
# passes costs nothing.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);
use Scd2;

my $node = new_node('one_table');
$node->safe_psql('postgres', 'CREATE EXTENSION pg_scd2; CREATE TABLE a (id int PRIMARY KEY, v int); CREATE TABLE b (LIKE a INCLUDING ALL);
    CREATE TABLE p (id int PRIMARY KEY, v int) PARTITION BY RANGE (id); CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (1000)');
$node->safe_psql('postgres', "SELECT scd2.track('$_')") for qw(a b p);
sync($node);

my $id = 0;
sub write_all { $id++; $node->safe_psql('postgres', "BEGIN; INSERT INTO a VALUES ($id, 1); INSERT INTO p VALUES ($id, 1); INSERT INTO b VALUES ($id, 1); COMMIT; UPDATE b SET v = 2 WHERE id = $id"); return; }
sub deaths { my ($from) = @_; return scalar(() = substr(slurp_file($node->logfile), $from) =~ /pg_scd2 capture  ERROR:  injected failure/g); }

# It passes before it is taken for the feed's.
my $log = -s $node->logfile;
fail_at($node, 'capture change: a');
write_all();
for (1 .. 100) { last if deaths($log) >= 2; sleep 0.1; }
fail_at($node);
sync($node);
is($node->safe_psql('postgres', 'SELECT count(*) FROM scd2.feeds WHERE gap IS NOT NULL'), '0', 'an error that passes makes no gap');
cmp_ok(deaths($log), '>=', 2, '... although the worker died of it');

for my $case ([ 'capture change: a', 'a' ], [ 'map columns: a', 'a' ], [ 'capture change: p_1', 'p' ])
{
    my ($where, $table) = @$case;
    $log = -s $node->logfile;
    $node->safe_psql('postgres', 'ALTER TABLE a ALTER v SET STATISTICS 7; ALTER TABLE p ALTER v SET STATISTICS 7');   # columns are looked at again
    fail_at($node, $where);
    my $start = time;
    write_all();
    wait_until($node, 'postgres', "SELECT count(*) = 2 FROM b_changes WHERE id = $id AND _change_type IN ('insert', 'update_postimage')", "$where: another table is captured");
    cmp_ok(time - $start, '<', 20, sprintf('... after %.1f s', time - $start));
    is(deaths($log), 5, '... and five deaths of the worker');
    write_all();
    wait_until($node, 'postgres', "SELECT count(*) = 2 FROM b_changes WHERE id = $id AND _change_type IN ('insert', 'update_postimage')", '... and what follows at once');
    is($node->safe_psql('postgres', q{SELECT string_agg(source::text, ' ') FROM scd2.feeds WHERE gap IS NOT NULL AND upper_inf(gap)}), $table, '... that feed alone has a gap');
    like($node->safe_psql('postgres', q{SELECT detail FROM scd2.diagnose() WHERE problem = 'its change data feed has failed'}), qr/capture failed 5 times at a change of it: injected failure: \Q$where\E/, '... diagnose() has the error');
    like(substr(slurp_file($node->logfile), $log), qr/WARNING:.*change data feed of table .*has a gap.*injected failure/, '... and the log');
    is(deaths($log), 5, '... it is no more');
    fail_at($node);
    $node->safe_psql('postgres', $node->safe_psql('postgres', q{SELECT fix FROM scd2.diagnose() WHERE problem = 'its change data feed has failed'}));
    write_all();
    sync($node);
    is($node->safe_psql('postgres', q{SELECT count(*) FROM scd2.feeds WHERE upper_inf(gap)}), '0', '... it is repaired when the cause is gone');
    targets_are_right($node, 'postgres', 'then');
}
done_testing();
