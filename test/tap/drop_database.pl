# DROP DATABASE: of another database never waits for our workers; of their own works after
# scd2.stop(), or with FORCE; afterwards nobody retries in a loop.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Scd2;

my $node = new_node('dropdb');
$node->safe_psql('postgres', "CREATE DATABASE $_") for qw(ours theirs forced copied);
create_audited_table($node, 'ours');
my $writer = start_writer($node, 'ours', 2);

my $start = time;
$node->safe_psql('postgres', 'DROP DATABASE theirs');
cmp_ok(time - $start, '<', 3, 'dropping another database does not wait for a busy worker');
$start = time;
$node->safe_psql('postgres', 'CREATE DATABASE empty TEMPLATE copied');
$node->safe_psql('postgres', 'ALTER DATABASE empty RENAME TO renamed');
cmp_ok(time - $start, '<', 6, 'nor does creating one from another, or renaming');
finish_writer($writer);

my ($result, $stdout, $stderr) = $node->psql('postgres', 'DROP DATABASE ours');
isnt($result, 0, 'a database with workers is in use');
$node->safe_psql('ours', 'SELECT scd2.stop()');
wait_until($node, 'postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = 'ours'", 'scd2.stop() ends its workers');
$node->safe_psql('postgres', 'CREATE DATABASE clone TEMPLATE ours');
$node->safe_psql('postgres', 'DROP DATABASE ours');
ok(1, 'then it can be copied and dropped');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_replication_slots WHERE database = 'ours'"), '0', 'its slot went with it');

# A copy has our catalogs, but they are not its own: capture must not go on there as if it were the original.
my ($state) = $node->safe_psql('clone', 'SELECT state FROM scd2.capture');
isnt($state, 'running', "the copy does not capture by itself (it is $state)");
$node->safe_psql('postgres', 'DROP DATABASE clone WITH (FORCE)');

create_audited_table($node, 'forced');
$node->safe_psql('postgres', 'DROP DATABASE forced WITH (FORCE)');
ok(1, 'FORCE drops a database with workers');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_replication_slots"), '0', 'no slot is left');
sleep 3;
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ 'pg_scd2 (capture|apply)'"), '0', 'no worker is left');
my @complaints = grep { /database \d+ does not exist|database "(ours|forced|clone)" does not exist|FATAL/ && !/terminating/ } split /\n/, slurp_file($node->logfile);
cmp_ok(scalar @complaints, '<=', 3, 'nobody retries in a loop against a database that is gone') or diag(join "\n", @complaints[0 .. 10]);
done_testing();
