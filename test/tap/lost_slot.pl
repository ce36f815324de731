# A slot that is gone is never passed over: the gap is declared, reads across it are refused, flows
# stop before it and say what repairs it, capture goes on with another slot, and scd2.resync()
# brings what was missed.
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

my ($ret, $out, $err) = $node->psql('postgres', q{SELECT scd2.resync('t')});
like($err, qr/NOTICE:.*has no gap that is open: nothing to repair/, 'nothing to repair');
($ret, $out, $err) = $node->psql('postgres', 'SELECT scd2.resume_capture()');
like($err, qr/NOTICE:.*nothing to resume from/, 'nothing to resume');

stop_workers($node);
$node->safe_psql('postgres', 'SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots');
$node->safe_psql('postgres', q{INSERT INTO t VALUES (2, 'lost')});
is($node->safe_psql('postgres', q{SELECT fix FROM scd2.diagnose() WHERE problem = 'the replication slot is lost'}), 'SELECT scd2.start();', 'diagnose() tells of it although no worker runs');
$node->safe_psql('postgres', 'SELECT scd2.start()');
wait_capture($node);
is($node->safe_psql('postgres', 'SELECT state, gap FROM scd2.feeds'), 'failed|[2,)', 'the feed has a declared gap');
($ret, $out, $err) = $node->psql('postgres', q{SELECT * FROM scd2.table_changes('t', 0)});
like($err, qr/has a gap in this range.*versions \[2,\) were not recorded.*HINT:  SELECT scd2\.resync\('(public\.)?t'\);/s, 'reads across it are refused, with the remedy');
is($node->safe_psql('postgres', q{SELECT id FROM scd2.table_changes(NULL::t_changes, 0, 1)}), '1', 'reads before it are not');
like($node->safe_psql('postgres', 'SELECT state, watermark_version, last_error FROM scd2.flows'), qr/^failed\|1\|55000: it stands before a gap of its feed, from version 2 on: changes were lost: replication slot "\w+" is gone\. Remedy: SELECT scd2\.resync\('(public\.)?t'\);$/, 'the flow stops before it and says so');
($ret, $out, $err) = $node->psql('postgres', 'SELECT scd2.sync()');
like($err, qr/the feed of "public\.t" has failed: changes were lost.*HINT:  SELECT scd2\.resync\('(public\.)?t'\);/s, 'sync() does not wait for it');
is(() = slurp_file($node->logfile) =~ /WARNING:  change data feeds have a gap from version 2 on: replication slot/g, 1, 'the log has it once');

$node->safe_psql('postgres', q{CREATE TABLE u (id int PRIMARY KEY, v text); SELECT scd2.track('u')});
$node->safe_psql('postgres', q{INSERT INTO u VALUES (1, 'new')});
is($node->safe_psql('postgres', q{SELECT scd2.sync(targets => '{u_history}')}), '3', 'capture goes on, versions go on counting');
is($node->safe_psql('postgres', 'SELECT v FROM u_history'), 'new', 'what is enabled from then on is kept');
is($node->safe_psql('postgres', q{SELECT fix FROM scd2.diagnose() WHERE subject = 'table public.t' OR subject = 'table t'}), q{SELECT scd2.resync('public.t');}, 'diagnose() has the remedy');
$node->safe_psql('postgres', q{SELECT scd2.resync('t')});
$node->safe_psql('postgres', q{INSERT INTO t VALUES (3, 'again')});
sync($node);
is($node->safe_psql('postgres', q{SELECT state, gap FROM scd2.feeds WHERE source = 't'::regclass}), 'running|', 'repaired');
is($node->safe_psql('postgres', q{SELECT _commit_version, _change_type, id FROM scd2.table_changes(NULL::t_changes, 0)}), "1|insert|1\n4|insert|2\n5|insert|3", 'what was missed is in the feed as one version, and what came after');
is($node->safe_psql('postgres', q{SELECT version, operation, inserts FROM scd2.describe_history('t')}), "1|INSERT|1\n4|RECONSTRUCTED, INSERT|1\n5|INSERT|1", '... marked as such');
is($node->safe_psql('postgres', 'SELECT id, v FROM t_history WHERE __end_at IS NULL ORDER BY id'), "1|kept\n2|lost\n3|again", 'the history goes on');
targets_are_right($node, 'postgres', 'after the repair');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'), '1', 'one slot');
is($node->safe_psql('postgres', 'SELECT count(*) FROM scd2.diagnose()'), '0', 'nothing is wrong any more');

# Dropped under a worker that dies: the one that is started at once finds it gone.
$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_scd2.debug_fail_at = 'decoded'});
$node->reload;
$node->safe_psql('postgres', q{INSERT INTO t VALUES (4, 'lost')});
$node->poll_query_until('postgres', q{SELECT count(pg_drop_replication_slot(slot_name)) > 0 FROM pg_replication_slots WHERE NOT active}) or die;
$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_scd2.debug_fail_at');
$node->reload;
wait_until($node, 'postgres', q{SELECT bool_and(state = 'failed' AND gap IS NOT NULL) FROM scd2.feeds}, 'while running: every feed has a gap');
wait_capture($node);
$node->safe_psql('postgres', q{SELECT scd2.resync(source) FROM scd2.feeds});
sync($node);
targets_are_right($node, 'postgres', 'after two repairs at once');
is($node->safe_psql('postgres', 'SELECT id FROM t_history WHERE __end_at IS NULL ORDER BY id DESC LIMIT 1'), '4', '... with the row that was lost');

# The server gives the slot up itself: its WAL has become too much (OP-02).
$node->safe_psql('postgres', q{ALTER SYSTEM SET max_slot_wal_keep_size = '32MB'; ALTER SYSTEM SET max_wal_size = '32MB'; ALTER SYSTEM SET min_wal_size = '32MB'});
$node->reload;
stop_workers($node);
$node->safe_psql('postgres', q{INSERT INTO t VALUES (5, 'lost, too')});
my $versions = $node->safe_psql('postgres', 'SELECT scd2.latest_version()');
$node->safe_psql('postgres', q{SELECT pg_logical_emit_message(false, 'test', 'x'), pg_switch_wal()}) for 1 .. 10;
$node->safe_psql('postgres', 'CHECKPOINT');
is($node->safe_psql('postgres', 'SELECT wal_status FROM scd2.capture'), 'lost', 'the server has given the slot up');
$node->safe_psql('postgres', 'SELECT scd2.start()');
wait_capture($node);
is($node->safe_psql('postgres', q{SELECT source, lower(gap) > (SELECT enabled_version FROM scd2.feeds g WHERE g.feed = f.feed) FROM scd2.feeds f WHERE state = 'failed' ORDER BY 1}), "t|t\nu|t", 'every feed has a declared gap');
is($node->safe_psql('postgres', q{SELECT min(lower(gap)) FROM scd2.feeds WHERE state = 'failed'}), $versions + 1, '... of the next version');
is($node->safe_psql('postgres', q{SELECT string_agg(fix, ' ' ORDER BY fix) FROM scd2.diagnose() WHERE subject LIKE 'table %'}), q{SELECT scd2.resync('public.t'); SELECT scd2.resync('public.u');}, 'diagnose() has the remedies');
$node->safe_psql('postgres', q{SELECT scd2.resync('t'); SELECT scd2.resync('u')});
sync($node);
targets_are_right($node, 'postgres', 'after an invalidated slot');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'), '1', 'one slot, the lost one is gone');
done_testing();
