# A clean restart, and one with a backlog: changes made while capture is off are captured
# afterwards; versions go on where they were. Deletes that came before what they delete are
# remembered.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('restart');
create_audited_table($node, 'postgres');
$node->safe_psql('postgres', "INSERT INTO t SELECT i, i, 'x' FROM generate_series(1, 100) i");
sync($node);
my $version = $node->safe_psql('postgres', 'SELECT scd2.latest_version()');
my $rows = $node->safe_psql('postgres', 'SELECT md5(string_agg(c::text, chr(10) ORDER BY _commit_version, _change_ordinal)) FROM t_changes c');

$node->restart;
sync($node);
is($node->safe_psql('postgres', 'SELECT scd2.latest_version()'), $version, 'the same version after a restart');
is($node->safe_psql('postgres', 'SELECT md5(string_agg(c::text, chr(10) ORDER BY _commit_version, _change_ordinal)) FROM t_changes c'),
    $rows, 'the same rows after a restart');

$node->append_conf('postgresql.conf', 'pg_scd2.enabled = off');
$node->restart;
$node->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id <= 50');
$node->safe_psql('postgres', 'DELETE FROM t WHERE id > 90');
my ($result, $stdout, $stderr) = $node->psql('postgres', "SELECT scd2.sync('5 s')");
isnt($result, 0, 'sync() fails while workers are off');
like($stderr, qr/pg_scd2\.enabled|workers/, '... and says so');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ 'pg_scd2 (capture|apply)'"), '0', 'no workers while pg_scd2.enabled is off');

$node->adjust_conf('postgresql.conf', 'pg_scd2.enabled', 'on');
$node->reload;
$node->poll_query_until('postgres', "SELECT state = 'running' FROM scd2_internal.capture_status()");
sync($node);
feed_is_right($node, 'postgres', 'after a time without capture');
history_is_right($node, 'postgres', 'after a time without capture');
is($node->safe_psql('postgres', 'SELECT scd2.latest_version()'), $version + 2, 'two commits, two versions');

my $delete = q{apply_as_deletes => 'op = ''D''', column_list => '{k,v}'};
$node->safe_psql('postgres', "CREATE TABLE ev (k int, v text, seq int, op text);
    SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'seq', $delete, stored_as_scd_type => 2);
    SELECT scd2.create_auto_cdc_flow('c', 'ev', '{k}', 'seq', $delete)");
sync($node);
$node->safe_psql('postgres', q{INSERT INTO ev VALUES (1, NULL, 30, 'D'), (2, 'a', 10, 'U'), (2, NULL, 30, 'D')});
sync($node);
$node->restart;
$node->safe_psql('postgres', $_) for 'VACUUM FULL', q{INSERT INTO ev VALUES (1, 'late', 20, 'U'), (2, 'late', 20, 'U')};
wait_capture($node);
sync($node);
is($node->safe_psql('postgres', 'SELECT * FROM h ORDER BY k, __start_at'), "1|late|20|30\n2|a|10|20\n2|late|20|30", 'deletes are remembered after a restart and VACUUM FULL');
is($node->safe_psql('postgres', 'SELECT count(*) FROM c'), '0', '... and what is older does not bring rows back');
done_testing();
