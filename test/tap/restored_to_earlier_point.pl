# Point-in-time recovery (OP-03). A base backup has no slots: after the restore the feed has a
# declared gap, what was captured at that point can be read, and scd2.resync() brings the rest. A
# copy of the whole data folder has the slot as it was: capture goes on from the position that was
# restored, with every change that was committed before the point, once, and none that came after.
# A slot that is ahead of what was restored is a gap, too.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $primary = PostgreSQL::Test::Cluster->new('original');
$primary->init(allows_streaming => 'logical', has_archiving => 1);
$primary->append_conf('postgresql.conf', join("\n", "shared_preload_libraries = 'pg_scd2'", $ENV{PLUGIN_SETTING} // '', 'max_worker_processes = 16', 'max_connections = 40', "timezone = 'UTC'", ''));
$primary->start;
create_audited_table($primary, 'postgres');
$primary->safe_psql('postgres', "INSERT INTO t SELECT i, i, 'first' FROM generate_series(1, 20) i");
sync($primary);

$primary->backup('base');
$primary->stop;
$primary->backup_fs_cold('folder');
$primary->start;
wait_capture($primary);
$primary->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id <= 10');
$primary->safe_psql('postgres', 'CREATE TABLE churn (i int); DROP TABLE churn; VACUUM pg_class, pg_attribute');
sync($primary);
my $captured = $primary->safe_psql('postgres', 'SELECT scd2.latest_version()');
my $history = $primary->safe_psql('postgres', 'SELECT id, v, __start_at, __end_at FROM t_history ORDER BY id, __start_at');

# committed before the point, captured after it
$primary->safe_psql('postgres', 'SELECT scd2.stop()');
$primary->poll_query_until('postgres', 'SELECT NOT active FROM pg_replication_slots') or die;
$primary->safe_psql('postgres', 'UPDATE t SET v = 100 WHERE id = 1; DELETE FROM t WHERE id = 2');
$primary->safe_psql('postgres', q{SELECT pg_create_restore_point('here')});
$primary->safe_psql('postgres', 'SELECT scd2.start()');
wait_capture($primary);
$primary->safe_psql('postgres', 'UPDATE t SET v = 200 WHERE id = 1; INSERT INTO t VALUES (99, 99, $$after$$)');
sync($primary);
$primary->safe_psql('postgres', 'SELECT pg_switch_wal()');
$primary->stop;

sub restore
{
    my ($name, $backup) = @_;
    my $node = PostgreSQL::Test::Cluster->new($name);
    $node->init_from_backup($primary, $backup, has_restoring => 1, standby => 0);
    $node->append_conf('postgresql.conf', "recovery_target_name = 'here'\nrecovery_target_action = 'promote'\narchive_mode = off\n");
    $node->start;
    $node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'no promotion';
    return $node;
}

# without the slot
my $node = restore('from_base', 'base');
is($node->safe_psql('postgres', 'SELECT v FROM t WHERE id = 1'), '100', 'the server is at the point');
# scd2.stop() was in force there
is($node->safe_psql('postgres', 'SELECT state FROM scd2.capture'), 'stopped: SELECT scd2.start();', 'and so are the workers');
is($node->safe_psql('postgres', q{SELECT fix FROM scd2.diagnose() WHERE problem = 'the replication slot is lost'}), 'SELECT scd2.start();', 'diagnose() tells of the slot before capture is started');
is($node->safe_psql('postgres', 'SELECT scd2.latest_version()'), $captured, 'what was captured at the point is there');
is($node->safe_psql('postgres', 'SELECT count(*) FROM scd2.table_changes(NULL::t_changes, 0)'), '40', '... and can be read');
is($node->safe_psql('postgres', 'SELECT id, v, __start_at, __end_at FROM t_history ORDER BY id, __start_at'), $history, '... and so can the history');
$node->safe_psql('postgres', 'SELECT scd2.start()');
wait_capture($node);
my ($ret, $out, $err) = $node->psql('postgres', q{SELECT scd2.sync('20 s')});
like($err, qr/has failed: changes were lost: replication slot "\w+" is gone.*scd2\.resync/s, 'sync() says why');
is($node->safe_psql('postgres', 'SELECT state, lower(gap) FROM scd2.feeds'), 'failed|' . ($captured + 1), 'the feed has a gap from the next version on');
($ret, $out, $err) = $node->psql('postgres', 'SELECT count(*) FROM scd2.table_changes(NULL::t_changes, 0)');
like($err, qr/has a gap in this range/, 'which reads refuse to cross');
is($node->safe_psql('postgres', 'SELECT id, v, __start_at, __end_at FROM t_history ORDER BY id, __start_at'), $history, 'and the history stops before it');
is($node->safe_psql('postgres', q{SELECT timeline > 1 FROM scd2_internal.position}), 't', 'the position is on the new timeline');
$node->safe_psql('postgres', $node->safe_psql('postgres', q{SELECT fix FROM scd2.diagnose() WHERE subject LIKE 'table %'}));
$node->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id = 3');
sync($node);
targets_are_right($node, 'postgres', 'after the repair');
is($node->safe_psql('postgres', q{SELECT inserts, updates, deletes FROM scd2.describe_history('t') WHERE operation LIKE 'RECONSTRUCTED%'}), '0|1|1', 'what was committed before the point and not captured came with it');
is($node->safe_psql('postgres', '(SELECT id, v, body FROM t_history WHERE __end_at IS NULL EXCEPT ALL TABLE t) UNION ALL (TABLE t EXCEPT ALL SELECT id, v, body FROM t_history WHERE __end_at IS NULL)'),
    '', 'repaired, the history is right');
is($node->safe_psql('postgres', 'SELECT count(*) FROM scd2.diagnose()'), '0', 'nothing is wrong any more');
$node->stop;

# with the slot, as it was before
$node = restore('from_folder', 'folder');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'), '1', 'the slot came with the folder');
$node->safe_psql('postgres', 'SELECT scd2.start()');
wait_capture($node);
if ($node->safe_psql('postgres', 'SELECT gap IS NULL FROM scd2.feeds') eq 't')
{
    sync($node);
    feed_is_right($node, 'postgres', 'after the restore of the folder');
    history_is_right($node, 'postgres', 'after the restore of the folder');
    is($node->safe_psql('postgres', "SELECT count(*) FROM t_changes WHERE body = 'after' OR v = 200"), '0', 'nothing of what came after the point');
    $node->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id > 5');
    sync($node);
    feed_is_right($node, 'postgres', 'on the new timeline');
    history_is_right($node, 'postgres', 'on the new timeline');
    like(slurp_file($node->logfile), qr/capture goes on at [0-9A-F\/]+ on timeline \d+: slot "\w+" came along from timeline 1/, 'the log tells of the timeline');
}
else
{
    # From 16 on the server may give the slot up while it replays the log: catalog rows that the
    # slot needed were vacuumed on the original.
    like(slurp_file($node->logfile), qr/have a gap from version \d+ on: replication slot "\w+" was invalidated by the server/, 'the server gave the slot up: the log says so');
    is($node->safe_psql('postgres', 'SELECT id, v, __start_at, __end_at FROM t_history ORDER BY id, __start_at'), $history, '... and the history is as of the point');
    $node->safe_psql('postgres', q{SELECT scd2.resync('t')});
    sync($node);
    targets_are_right($node, 'postgres', 'after the repair');
}

# A row that is older than its slot, as of a restore of the tables alone.
$node->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id = 7; CHECKPOINT');
sync($node);
stop_workers($node);
$node->safe_psql('postgres', q{UPDATE scd2_internal.position SET captured_lsn = (SELECT confirmed_flush_lsn - 8 FROM pg_replication_slots), version = version - 1});
$node->safe_psql('postgres', 'SELECT scd2.start()');
wait_capture($node);
like($node->safe_psql('postgres', q{SELECT state, error FROM scd2_internal.feed_state}), qr/^failed\|changes were lost: replication slot "\w+" is ahead of what is captured/, 'a slot that is ahead: a gap, not silence');
done_testing();
