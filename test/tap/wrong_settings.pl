# With wrong settings the calls that need them fail at once, name the setting and say what to do;
# preflight() shows each. No crash loop, no log flood.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Scd2;

my $node = new_node('settings');
$node->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY)');

# refused(PATTERN, WHAT): enabling fails, quickly, with SQLSTATE 55000 and words that match.
sub refused
{
    my ($pattern, $what) = @_;
    my $start = time;
    my ($result, $stdout, $stderr) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT scd2.enable_change_feed('t')");
    my $seconds = time - $start;
    isnt($result, 0, "$what: refused");
    like($stderr, qr/55000/, "$what: SQLSTATE 55000");
    like($stderr, $pattern, "$what: named");
    like($stderr, qr/HINT/, "$what: with a hint");
    cmp_ok($seconds, '<', 7, "$what: at once");
    return;
}

# preflight_tells(SETTING, WHAT): it is not ok, and there is a statement to paste.
sub preflight_tells
{
    my ($setting, $what) = @_;
    my $fix = $node->safe_psql('postgres', "SELECT fix FROM scd2.preflight() WHERE setting = '$setting' AND NOT ok");
    like($fix, qr/ALTER SYSTEM|CREATE|SET/i, "$what: preflight() has a fix");
    return $fix;
}

sub configure
{
    $node->append_conf('postgresql.conf', join("\n", @_, ''));
    $node->restart;
    return;
}

configure("shared_preload_libraries = ''");
$node->safe_psql('postgres', 'CREATE EXTENSION pg_scd2');
refused(qr/shared_preload_libraries/, 'not preloaded');
preflight_tells('shared_preload_libraries', 'not preloaded');

configure("shared_preload_libraries = 'pg_scd2'", 'wal_level = replica');
refused(qr/wal_level/, 'wal_level');
my $fix = preflight_tells('wal_level', 'wal_level');
$node->safe_psql('postgres', $fix);
configure();
is($node->safe_psql('postgres', 'SHOW wal_level'), 'logical', 'the fix works when pasted');

$node->safe_psql('postgres', 'ALTER SYSTEM RESET ALL');
configure('wal_level = logical', 'max_replication_slots = 1', 'max_wal_senders = 1');
$node->safe_psql('postgres', "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active");
$node->safe_psql('postgres', 'DROP EXTENSION pg_scd2');
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_replication_slots");
$node->safe_psql('postgres', "SELECT pg_create_physical_replication_slot('taken')");
$node->safe_psql('postgres', 'CREATE EXTENSION pg_scd2');
refused(qr/max_replication_slots|slot/, 'no free slot');
preflight_tells('max_replication_slots', 'no free slot');
$node->safe_psql('postgres', "SELECT pg_drop_replication_slot('taken')");
wait_until($node, 'postgres', "SELECT state = 'running' FROM scd2_internal.capture_status()", 'capture begins by itself once there is a slot');
$node->safe_psql('postgres', "SELECT scd2.enable_change_feed('t')");
ok(1, '... and the call works');

configure('max_worker_processes = 1');
my ($result, $stdout, $stderr) = $node->psql('postgres', "SELECT scd2.sync('5 s')");
isnt($result, 0, 'no free worker: sync() fails');
preflight_tells('max_worker_processes', 'no free worker');

# Enough for one database, and it has them. (The server's own launcher of subscriptions, ours, and
# two for the database that comes first.)
configure('max_worker_processes = 4');
wait_until($node, 'postgres', "SELECT state = 'running' AND cardinality(apply_pids) = 1 FROM scd2_internal.capture_status()", 'one database has the workers');
$node->safe_psql('postgres', 'CREATE DATABASE second');
$node->safe_psql('second', 'CREATE EXTENSION pg_scd2; CREATE TABLE t (id int PRIMARY KEY)');
wait_until($node, 'second', "SELECT state = 'failed' FROM scd2_internal.capture_status()", 'none is left for the second');
($result, $stdout, $stderr) = $node->psql('second', "SELECT scd2.enable_change_feed('t')");
like($stderr, qr/max_worker_processes.*HINT:  SELECT \* FROM scd2.diagnose/s, 'no worker left: named, with a hint');
is($node->safe_psql('second', "SELECT count(*) FROM scd2.diagnose() WHERE fix LIKE 'ALTER SYSTEM SET max_worker_processes = 16; --%' OR subject = 'capture'"), '1',
    'no worker left: diagnose() has the fix, once');
$node->safe_psql('postgres', 'DROP DATABASE second WITH (FORCE)');
configure('max_worker_processes = 16');

SKIP:
{
    skip 'this server does not know output_plugin_libraries', 6 unless $ENV{PLUGIN_SETTING};
    $node->safe_psql('postgres', 'SELECT scd2.stop()');
    $node->safe_psql('postgres', 'SELECT scd2.start()');
    $node->append_conf('postgresql.conf', "output_plugin_libraries = 'pgoutput'");
    $node->restart;
    $node->safe_psql('postgres', 'CREATE TABLE t2 (id int PRIMARY KEY)');
    ($result, $stdout, $stderr) = $node->psql('postgres', "SELECT scd2.enable_change_feed('t2')");
    isnt($result, 0, 'plugin not listed: refused');
    like($stderr, qr/output_plugin_libraries/, 'plugin not listed: named');
    $fix = preflight_tells('output_plugin_libraries', 'plugin not listed');
    $node->safe_psql('postgres', $_) for grep { /\S/ } split /;/, $fix;
    $node->safe_psql('postgres', 'SELECT pg_reload_conf()');
    wait_until($node, 'postgres', "SELECT state = 'running' FROM scd2_internal.capture_status()", 'the fix works when pasted');
    $node->safe_psql('postgres', "SELECT scd2.enable_change_feed('t2')");
    ok(1, '... and the call works');
}

my $lines = grep { /ERROR|FATAL|WARNING/ && !/statement|psql/ } split /\n/, slurp_file($node->logfile);
cmp_ok($lines, '<', 80, "no flood of messages in the log ($lines)");
is(scalar(grep { /terminated by signal/ } split /\n/, slurp_file($node->logfile)), 0, 'nothing crashed');
done_testing();
