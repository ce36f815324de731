# Shared memory has room for pg_scd2.max_databases databases and some feeds of theirs. What was dropped
# or is stopped takes no room from others; when there is none, diagnose() says which setting to raise.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use Scd2;

my $node = new_node('databases', 'pg_scd2.max_databases = 3', 'autovacuum = off', 'fsync = off', 'max_worker_processes = 24');

sub create
{
    my ($db) = @_;
    $node->safe_psql('postgres', "CREATE DATABASE $db");
    return $node->safe_psql($db, 'CREATE EXTENSION pg_scd2');
}

sub has_capture { my ($db) = @_; wait_capture($node, $db); return $node->safe_psql($db, q{SELECT count(*) FROM scd2.diagnose()}); }

create('stays');
is(has_capture('stays'), '0', 'a database that stays');
for my $n (1 .. 5)
{
    create('comes');
    wait_capture($node, 'comes');
    $node->safe_psql('comes', q{CREATE TABLE t (id int PRIMARY KEY); SELECT scd2.enable_change_feed('t')});
    $node->safe_psql('comes', 'INSERT INTO t VALUES (1)');
    sync($node, 'comes');
    stop_workers($node, 'comes');
    $node->safe_psql('postgres', 'DROP DATABASE comes' . ($n % 2 ? '' : ' WITH (FORCE)'));
}
ok(1, 'more databases come and go than there is room for');

# Stopped ones are there, but need no room.
for my $n (1 .. 4)
{
    create("stopped$n");
    wait_capture($node, "stopped$n");
    stop_workers($node, "stopped$n");
}
create('late');
is(has_capture('late'), '0', 'nor do databases whose workers are stopped');
my ($result, $stdout, $stderr) = $node->psql('stopped1', 'SELECT scd2.sync()');
like($stderr, qr/are stopped.*scd2\.start\(\)/s, 'they know that they are stopped');
like($node->safe_psql('stopped1', 'SELECT problem FROM scd2.diagnose()'), qr/the workers of this database are stopped/, '... as diagnose() says');
$node->safe_psql('stopped1', 'SELECT scd2.start()');
wait_capture($node, 'stopped1');
ok(1, 'one of them begins again');

# No room at all.
create('surplus');
sleep 1;
my $fix = $node->safe_psql('surplus', q{SELECT fix FROM scd2.diagnose() WHERE problem = 'no worker captures changes'});
like($fix, qr/^ALTER SYSTEM SET pg_scd2\.max_databases = 6; -- then restart the server$/, 'diagnose() says what to raise when there is no room');
like(slurp_file($node->logfile), qr/no workers for database \d+: 3 databases have pg_scd2 already/, '... and so does a warning');
# A database that stops makes room; then scd2.start() is what helps.
stop_workers($node, 'late');
is($node->safe_psql('surplus', q{SELECT fix FROM scd2.diagnose() WHERE problem = 'no worker captures changes'}), 'SELECT scd2.start();', 'once there is room it says scd2.start()');
$node->safe_psql('surplus', 'SELECT scd2.start()');
wait_capture($node, 'surplus');
$node->safe_psql('late', 'SELECT scd2.start()');
$node->safe_psql('late', $node->safe_psql('late', q{SELECT fix FROM scd2.diagnose() WHERE problem = 'no worker captures changes'}));
$node->restart;
wait_capture($node, $_) for qw(stays stopped1 surplus late);
ok(1, 'what it says helps');

# The words of feeds, one after another in one database (there is room for 4096).
$node->safe_psql('stays', 'CREATE TABLE t (id int PRIMARY KEY)');
my $rounds = join '', map { "SELECT scd2.enable_change_feed('t'); INSERT INTO t VALUES ($_); SELECT scd2.disable_change_feed('t'); DROP TABLE t_changes;" } 1 .. 5;
$node->safe_psql('stays', $rounds);
$node->safe_psql('stays', q{SELECT scd2.enable_change_feed('t')});
sync($node, 'stays');
is($node->safe_psql('stays', 'SELECT count(*) FROM generate_series(1, 100) n WHERE scd2_internal.feed_latest(n) IS NOT NULL'), '0', 'feeds that were disabled are forgotten');
done_testing();
