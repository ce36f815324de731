# A slot that is gone is never passed over: capture stops and says so, scd2.resume_capture()
# declares the gap, reads across it are refused, flows stop before it, and what is enabled anew is
# captured from then on.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('lost_slot');
$node->safe_psql('postgres', 'CREATE EXTENSION pg_scd2');
wait_capture($node);
$node->safe_psql('postgres', q{CREATE TABLE t (id int PRIMARY KEY, v text); SELECT scd2.track('t'); INSERT INTO t VALUES (1, 'kept')});
sync($node);

my ($ret, $out, $err) = $node->psql('postgres', 'SELECT scd2.resume_capture()');
like($err, qr/nothing to resume from/, 'refused while nothing is lost');

$node->safe_psql('postgres', 'SELECT scd2.stop()');
$node->poll_query_until('postgres', 'SELECT NOT active FROM pg_replication_slots');
$node->safe_psql('postgres', 'SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots');
$node->safe_psql('postgres', q{INSERT INTO t VALUES (2, 'lost')});
$node->safe_psql('postgres', 'SELECT scd2.start()');
wait_until($node, 'postgres', q{SELECT state LIKE 'failed%' AND last_error LIKE '%is lost' FROM scd2.capture}, 'capture stops and says that the slot is lost');
($ret, $out, $err) = $node->psql('postgres', 'SELECT scd2.sync()');
like($err, qr/is lost/, 'sync() does not wait for it');
is($node->safe_psql('postgres', q{SELECT fix FROM scd2.diagnose() WHERE problem = 'the replication slot is lost'}), 'SELECT scd2.resume_capture();', 'diagnose() has the way out');

$node->safe_psql('postgres', 'SELECT scd2.resume_capture()');
wait_capture($node);
is($node->safe_psql('postgres', 'SELECT state, gap FROM scd2.feeds'), 'failed|[2,)', 'the feed has a declared gap');
($ret, $out, $err) = $node->psql('postgres', q{SELECT * FROM scd2.table_changes('t', 0)});
like($err, qr/has a gap in this range/, 'reads across it are refused');
is($node->safe_psql('postgres', q{SELECT id FROM scd2.table_changes(NULL::t_changes, 0, 1)}), '1', 'reads before it are not');
is($node->safe_psql('postgres', 'SELECT watermark_version FROM scd2.flows'), '1', 'the flow stops before it');

$node->safe_psql('postgres', q{CREATE TABLE u (id int PRIMARY KEY, v text); SELECT scd2.track('u')});
$node->safe_psql('postgres', q{INSERT INTO u VALUES (1, 'new')});
is($node->safe_psql('postgres', q{SELECT scd2.sync(targets => '{u_history}')}), '3', 'capture goes on, versions go on counting');
is($node->safe_psql('postgres', 'SELECT v FROM u_history'), 'new', 'what is enabled from then on is kept');
my $fix = $node->safe_psql('postgres', q{SELECT fix FROM scd2.diagnose() WHERE subject = 'table public.t'});
$node->safe_psql('postgres', $fix);
$node->safe_psql('postgres', q{INSERT INTO t VALUES (3, 'again')});
sync($node);
is($node->safe_psql('postgres', q{SELECT id FROM scd2.table_changes(NULL::t_changes, scd2.earliest_version('t'))}), '3', 'the statement that diagnose() gives begins the feed anew');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'), '1', 'one slot');

# The server gives the slot up itself: its WAL has become too much (OP-02).
$node->safe_psql('postgres', q{ALTER SYSTEM SET max_slot_wal_keep_size = '32MB'; ALTER SYSTEM SET max_wal_size = '32MB'; ALTER SYSTEM SET min_wal_size = '32MB'});
$node->reload;
$node->safe_psql('postgres', 'SELECT scd2.stop()');
$node->poll_query_until('postgres', 'SELECT NOT active FROM pg_replication_slots');
$node->safe_psql('postgres', q{INSERT INTO t VALUES (4, 'lost, too')});
my $versions = $node->safe_psql('postgres', 'SELECT scd2.latest_version()');
$node->safe_psql('postgres', q{SELECT pg_logical_emit_message(false, 'test', 'x'), pg_switch_wal()}) for 1 .. 10;
$node->safe_psql('postgres', 'CHECKPOINT');
is($node->safe_psql('postgres', 'SELECT wal_status FROM scd2.capture'), 'lost', 'the server has given the slot up');
is($node->safe_psql('postgres', q{SELECT fix FROM scd2.diagnose() WHERE problem = 'the replication slot is lost'}), 'SELECT scd2.resume_capture();', 'diagnose() tells of it although no worker runs');
$node->safe_psql('postgres', 'SELECT scd2.start()');
wait_until($node, 'postgres', q{SELECT state LIKE 'failed%' FROM scd2.capture}, 'capture does not begin at "now" in silence');
sleep 4;
my $tries = () = slurp_file($node->logfile) =~ /ERROR:  (?=.*(invalidated by the server|can no longer get changes))/g;
cmp_ok($tries, '<=', 5, "it does not try without end ($tries times so far)");
$node->safe_psql('postgres', 'SELECT scd2.resume_capture()');
wait_capture($node);
is($node->safe_psql('postgres', q{SELECT source, lower(gap) > (SELECT enabled_version FROM scd2.feeds g WHERE g.feed = f.feed) FROM scd2.feeds f WHERE state = 'failed' ORDER BY 1}), "t|t\nu|t", 'every feed has a declared gap');
is($node->safe_psql('postgres', q{SELECT min(lower(gap)) FROM scd2.feeds WHERE state = 'failed'}), $versions + 1, '... of the next version');
$node->safe_psql('postgres', $node->safe_psql('postgres', q{SELECT string_agg(fix, ' ') FROM scd2.diagnose() WHERE subject LIKE 'table public.%'}));
$node->safe_psql('postgres', q{INSERT INTO t VALUES (5, 'and on')});
sync($node);
is($node->safe_psql('postgres', q{SELECT id FROM scd2.table_changes(NULL::t_changes, scd2.earliest_version('t'))}), '5', 'the statements that diagnose() gives begin the feeds anew');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'), '1', 'one slot, the lost one is gone');
done_testing();
