# A prepared transaction is captured when it is committed, from whichever session, and soon; one
# that is rolled back never; a restart in between does not matter.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Scd2;

my $node = new_node('prepared', 'pg_scd2.naptime = 1h');
create_audited_table($node, 'postgres');
$node->safe_psql('postgres', "INSERT INTO t SELECT i, i, 'x' FROM generate_series(1, 10) i");
sync($node);
my $version = $node->safe_psql('postgres', 'SELECT scd2.latest_version()');

$node->safe_psql('postgres', "BEGIN; UPDATE t SET v = 100 WHERE id = 1; INSERT INTO t VALUES (11, 11, NULL); PREPARE TRANSACTION 'kept'");
$node->safe_psql('postgres', "BEGIN; UPDATE t SET v = 200 WHERE id = 2; PREPARE TRANSACTION 'dropped'");
$node->safe_psql('postgres', "BEGIN; UPDATE t SET v = 300 WHERE id = 3; PREPARE TRANSACTION 'later'");
sync($node);
is($node->safe_psql('postgres', 'SELECT scd2.latest_version()'), $version, 'nothing is captured before it is committed');

$node->safe_psql('postgres', "ROLLBACK PREPARED 'dropped'");
$node->safe_psql('postgres', "COMMIT PREPARED 'kept'");
my $start = time;
$node->poll_query_until('postgres', 'SELECT scd2.latest_version() > ' . $version);
cmp_ok(time - $start, '<', 5, 'COMMIT PREPARED wakes the worker');
sync($node);
feed_is_right($node, 'postgres', 'after COMMIT PREPARED');
is($node->safe_psql('postgres', 'SELECT scd2.latest_version()'), $version + 1, 'one version');

$node->stop('immediate');
$node->start;
$node->safe_psql('postgres', "INSERT INTO t VALUES (12, 12, NULL)");
$node->safe_psql('postgres', "COMMIT PREPARED 'later'");
sync($node);
feed_is_right($node, 'postgres', 'after a crash while a transaction was prepared');
history_is_right($node, 'postgres', 'after a crash while a transaction was prepared');
is($node->safe_psql('postgres', 'SELECT id, v FROM t_changes WHERE _commit_version = ' . ($version + 3) . q{ AND _change_type = 'update_postimage'}),
    '3|300', 'it comes in the order of the commits');
done_testing();
