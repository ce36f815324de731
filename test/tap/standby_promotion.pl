# On a standby the workers stay away, quietly, and feed and history can be read. After a promotion
# capture comes back by itself or says what it needs; it never goes on as if nothing had happened
# while changes are missing.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $primary = new_node('primary');
create_audited_table($primary, 'postgres');
$primary->safe_psql('postgres', "INSERT INTO t SELECT i, i, 'x' FROM generate_series(1, 20) i");
sync($primary);

$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->safe_psql('postgres', 'UPDATE t SET v = v + 1');
sync($primary);
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));

is($standby->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ 'pg_scd2 (capture|apply)'"), '0', 'no workers on the standby');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM t_changes'), 60, 'the feed can be read there');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM scd2.table_changes(NULL::t_changes, 1)'), 60, '... by table_changes too');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM t_history'), 40, 'and the history');
my ($result, $stdout, $stderr) = $standby->psql('postgres', "SELECT scd2.sync('5 s')");
isnt($result, 0, 'sync() fails on a standby');
like($stderr, qr/standby|recovery/, '... and says why');
is(scalar(grep { /pg_scd2 (launcher|capture|apply)/ && /ERROR|FATAL/ } split /\n/, slurp_file($standby->logfile)), 0, 'no noise of workers in its log');

# not captured when the primary goes down
set_setting($primary, 'pg_scd2.enabled', 'off');
$primary->poll_query_until('postgres', 'SELECT NOT active FROM pg_replication_slots') or die;
$primary->safe_psql('postgres', 'UPDATE t SET v = 100 WHERE id = 20; DELETE FROM t WHERE id = 19');
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
$primary->stop('immediate');
$standby->promote;

# The slot was on the old primary: a gap is declared, and capture goes on behind it.
wait_capture($standby);
like($standby->safe_psql('postgres', 'SELECT state, gap FROM scd2.feeds'), qr/^failed\|\[\d+,\)$/, 'the feed has a declared gap');
like($standby->safe_psql('postgres', 'SELECT * FROM scd2.diagnose()'), qr/slot "\w+" is gone\|SELECT scd2\.resync\('(public\.)?t'\);/, 'diagnose() tells of the slot, and what helps');
($result, $stdout, $stderr) = $standby->psql('postgres', "SELECT scd2.sync('10 s')");
isnt($result, 0, 'sync() does not claim that all is captured');
$standby->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id <= 5');
$standby->safe_psql('postgres', q{CREATE TABLE after_promotion (id int PRIMARY KEY); SELECT scd2.track('after_promotion')});
$standby->safe_psql('postgres', 'INSERT INTO after_promotion VALUES (1)');
$standby->safe_psql('postgres', q{SELECT scd2.sync('20 s', '{after_promotion_history}')});
is($standby->safe_psql('postgres', 'SELECT count(*) FROM after_promotion_history'), '1', 'the promoted server captures what is enabled there');

$standby->safe_psql('postgres', q{SELECT scd2.resync('t')});
$standby->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id = 6');
sync($standby);
targets_are_right($standby, 'postgres', 'after the repair');
is($standby->safe_psql('postgres', q{SELECT inserts, updates, deletes FROM scd2.describe_history('t') WHERE operation LIKE 'RECONSTRUCTED%'}), '0|6|1', 'what was committed on either server and not captured came with it');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM scd2.diagnose()'), '0', 'nothing is wrong any more');
done_testing();
