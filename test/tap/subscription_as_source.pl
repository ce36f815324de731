# Changes that logical replication applies are changes like others: they are captured although
# triggers do not fire for them and they carry another server's origin and clock; versions and times
# keep ascending.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $publisher = PostgreSQL::Test::Cluster->new('publisher');
$publisher->init(allows_streaming => 'logical');
$publisher->append_conf('postgresql.conf', $ENV{PLUGIN_SETTING} // '');
$publisher->start;
$publisher->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY, v int, body text)');
$publisher->safe_psql('postgres', 'ALTER TABLE t REPLICA IDENTITY FULL');
$publisher->safe_psql('postgres', "INSERT INTO t VALUES (1, 1, repeat('long', 3000)), (2, 2, 'b')");
$publisher->safe_psql('postgres', 'CREATE PUBLICATION p FOR TABLE t');

my $node = new_node('subscriber', 'max_logical_replication_workers = 6');
$node->safe_psql('postgres', 'CREATE EXTENSION pg_scd2; CREATE TABLE t (id int PRIMARY KEY, v int, body text)');
$node->safe_psql('postgres', q{SELECT scd2.track('t')});
my $connection = $publisher->connstr . ' dbname=postgres';
$node->safe_psql('postgres', "CREATE SUBSCRIPTION s CONNECTION '$connection' PUBLICATION p");
$node->wait_for_subscription_sync($publisher, 's');
sync($node);
is($node->safe_psql('postgres', 'SELECT id, v, length(body) FROM t_changes ORDER BY id'), "1|1|12000\n2|2|1", 'rows of the initial copy of the subscription');

$publisher->safe_psql('postgres', 'UPDATE t SET v = 10 WHERE id = 1');
$publisher->safe_psql('postgres', 'BEGIN; UPDATE t SET id = 20 WHERE id = 2; INSERT INTO t VALUES (3, 3, NULL); COMMIT');
$publisher->safe_psql('postgres', 'DELETE FROM t WHERE id = 3');
$publisher->wait_for_catchup('s');
sync($node);
is( $node->safe_psql('postgres', q{SELECT _commit_version - (SELECT min(_commit_version) FROM t_changes WHERE _change_type LIKE 'update%') AS version,
        _change_type, id, v, length(body) FROM t_changes
        WHERE _commit_version >= (SELECT min(_commit_version) FROM t_changes WHERE _change_type LIKE 'update%') ORDER BY _commit_version, _change_ordinal}),
    "0|update_preimage|1|1|12000\n0|update_postimage|1|10|12000\n"
      . "1|update_preimage|2|2|1\n1|update_postimage|20|2|1\n1|insert|3|3|\n2|delete|3|3|",
    'changes of the publisher, whole and in order');
history_is_right_without_audit();

# A session that replays by itself sets session_replication_role = replica: triggers do not fire,
# the feed has the rows all the same.
$node->safe_psql('postgres', "SET session_replication_role = replica; INSERT INTO t VALUES (50, 5, 'r'); UPDATE t SET v = 6 WHERE id = 50");
sync($node);
is($node->safe_psql('postgres', 'SELECT _change_type FROM t_changes WHERE id = 50 ORDER BY _commit_version, _change_ordinal'),
    "insert\nupdate_preimage\nupdate_postimage", 'session_replication_role = replica hides nothing');
history_is_right_without_audit();
is($node->safe_psql('postgres', q{SELECT count(*) FROM (SELECT _commit_timestamp AS t, lag(_commit_timestamp) OVER (ORDER BY _commit_version) AS earlier
        FROM t_changes GROUP BY _commit_version, _commit_timestamp) s WHERE t <= earlier OR t > clock_timestamp()}), '0', 'times ascend and are not in the future');
$node->safe_psql('postgres', 'DROP SUBSCRIPTION s');
done_testing();

sub history_is_right_without_audit
{
    is($node->safe_psql('postgres', q{SELECT count(*) FROM (
            (SELECT id, v, body FROM t_history WHERE __end_at IS NULL EXCEPT ALL TABLE t)
            UNION ALL (TABLE t EXCEPT ALL SELECT id, v, body FROM t_history WHERE __end_at IS NULL)) d}), '0', 'open rows of the history are the table');
    return;
}
