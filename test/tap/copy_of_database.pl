# CREATE DATABASE … TEMPLATE copies our tables, but the slot is the original's: the copy leaves it
# alone, captures nothing until somebody says that it shall, says so once, and then has a gap of its
# own to repair.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('copies');
$node->safe_psql('postgres', 'CREATE DATABASE a');
create_audited_table($node, 'a');
$node->safe_psql('a', "INSERT INTO t SELECT i, i, 'x' FROM generate_series(1, 20) i");
sync($node, 'a');
stop_workers($node, 'a');
$node->safe_psql('a', 'UPDATE t SET v = 0 WHERE id = 1');       # not captured when the copy is made
$node->safe_psql('postgres', 'CREATE DATABASE b TEMPLATE a');
$node->safe_psql('a', 'SELECT scd2.start()');
sync($node, 'a');
my $slot = $node->safe_psql('a', 'SELECT slot FROM scd2.capture');

$node->safe_psql('b', 'SELECT scd2.start()');
wait_until($node, 'b', q{SELECT state = 'a copy, off: SELECT scd2.resume_capture();' FROM scd2.capture}, 'the copy says what it is');
is($node->safe_psql('b', 'SELECT problem, fix FROM scd2.diagnose()'), 'nothing is captured here|SELECT scd2.resume_capture();', '... and diagnose() too');
is($node->safe_psql('b', 'SELECT wal_held_bytes, wal_status IS NULL FROM scd2.capture'), '0|t', 'the slot of the original is not shown as its own');
$node->safe_psql('b', 'UPDATE t SET v = 100 WHERE id = 2');
for my $call ('SELECT scd2.sync()', q{CREATE TABLE u (id int PRIMARY KEY); SELECT scd2.track('u')}, q{SELECT * FROM scd2.table_at(NULL::t, 1)})
{
    my ($ret, $out, $err) = $node->psql('b', $call);
    like($err, qr/nothing is captured in database "b": .*\nHINT:  SELECT scd2\.resume_capture\(\);/, "refused: $call");
}
sleep 3;
is(() = slurp_file($node->logfile) =~ /nothing is captured here/g, 1, 'no worker tries again and again: one line in the log');
is($node->safe_psql('b', 'SELECT count(*) FROM scd2.table_changes(NULL::t_changes, 0)'), $node->safe_psql('b', 'SELECT count(*) FROM t_changes'), 'what was captured before can be read');

$node->restart;
wait_until($node, 'b', q{SELECT state = 'a copy, off: SELECT scd2.resume_capture();' FROM scd2.capture}, 'after a restart it is the same');
wait_capture($node, 'a');
is($node->safe_psql('a', 'SELECT slot FROM scd2.capture'), $slot, 'the original has its slot');
$node->safe_psql('a', 'UPDATE t SET v = v + 1 WHERE id = 3');
sync($node, 'a');
feed_is_right($node, 'a', 'in the original');

$node->safe_psql('b', 'SELECT scd2.resume_capture()');
wait_capture($node, 'b');
like($node->safe_psql('b', 'SELECT state, gap FROM scd2.feeds'), qr/^failed\|\[\d+,\)$/, 'the copy is captured, with a declared gap');
$node->safe_psql('b', q{SELECT scd2.resync('t')});
$node->safe_psql('b', 'DELETE FROM t WHERE id = 4');
sync($node, 'b');
targets_are_right($node, 'b', 'in the copy');
is($node->safe_psql('b', 'SELECT id, v FROM t_history WHERE id <= 4 AND __end_at IS NULL ORDER BY id'), "1|0\n2|100\n3|3", '... with what was missed');
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT slot_name) FROM pg_replication_slots'), '2|2', 'a slot each');
history_is_right($node, 'a', 'in the original');
done_testing();
