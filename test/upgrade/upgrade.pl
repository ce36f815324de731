# pg_upgrade, done as the README says: feeds, targets, flows, watermarks and memory come along, nothing
# runs in either server meanwhile, and after scd2.resume_capture(no_gap => true) everything goes on
# as it would have in the old server. Without that promise each feed has a gap.
#
# Not done so, nothing is harmed: a new server that lacks the library is refused, a slot that is
# still there is refused from 17 on and left behind before.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;
use Dumped;

# server(NAME, PLUGIN_SETTING, OPTIONS...): one that is not started, with our settings
sub server
{
    my ($name, $plugin_setting, %options) = @_;
    my $node = PostgreSQL::Test::Cluster->new($name, %options);
    # from 18 on the default is another than before
    my $checksums = (PostgreSQL::Test::Utils::run_command([ 'initdb', '--help' ]))[0] =~ /--no-data-checksums/;
    # not allows_streaming: what that writes is for the version of PostgreSQL::Test
    $node->init(extra => [ '--locale=C.UTF-8', ($checksums && !$options{install_path} ? '--no-data-checksums' : ()) ]);
    $node->append_conf('postgresql.conf', join("\n", "shared_preload_libraries = 'pg_scd2'", $plugin_setting, 'wal_level = logical', 'max_wal_senders = 10', 'max_replication_slots = 10',
            'max_worker_processes = 16', 'max_connections = 40', 'jit = off', "timezone = 'UTC'", ''));
    return $node;
}

sub upgrade
{
    my ($from, $to, @options) = @_;
    my ($out, $err) = ('', '');
    chdir PostgreSQL::Test::Utils::tempdir();
    my $ok = IPC::Run::run([ 'pg_upgrade', '-b', "$ENV{OLD_INSTALL}/bin", '-B', $to->config_data('--bindir'), '-d', $from->data_dir, '-D', $to->data_dir,
            '-s', $from->host, '-p', $from->port, '-P', $to->port, '-U', $ENV{PGUSER} // scalar(getpwuid($<)), @options ], '<', \undef, '>', \$out, '2>', \$err);
    # what its programs said is in files; those that failed last
    $out .= "\n$_:\n" . substr(slurp_file($_), -3000) for $ok ? () : grep { /dump|server/ } glob($to->data_dir . '/pg_upgrade_output.d/*/log/*.log');
    return ($ok, "$out$err");
}

# From the minor releases of November 2026 on a server notes in pg_attribute what its pg_dump writes
# down and no server from before can read: no table of one can be upgraded to the other. What is
# tested here does not depend on it.
sub forget_what_the_new_server_cannot_read
{
    my ($node) = @_;
    my $new = server('probe', '');
    my $notes = q{SELECT count(*) FROM pg_attribute WHERE attrelid >= 16384 AND attoptions::text ~ 'pg_attver'};
    $new->start;
    my $knows = $new->safe_psql('postgres', "CREATE TABLE t (c int); $notes");
    $new->stop;
    return if $knows || !$node->safe_psql('original', $notes);
    diag('the new server is older than the old one: it cannot read pg_attver');
    $node->safe_psql($_, q{SET allow_system_table_mods = on; UPDATE pg_attribute SET attoptions = NULL WHERE attrelid >= 16384 AND attoptions::text ~ 'pg_attver'})
        for qw(original postgres template1);
    return;
}

my $old = server('old', $ENV{OLD_PLUGIN_SETTING}, install_path => $ENV{OLD_INSTALL});
$old->start;
create_roles($old);
create_everything($old, 'original');
my $version = $old->safe_psql('postgres', q{SELECT current_setting('server_version_num')::int / 10000});
my $original = picture($old, 'original');
# as the README says
sync($old, 'original');
$old->safe_psql('original', 'SELECT scd2.stop()');
$old->poll_query_until('original', 'SELECT bool_and(NOT active) FROM pg_replication_slots') or die;
forget_what_the_new_server_cannot_read($old);
$old->stop;
if ($version >= 17)
{
    my ($ok, $said) = upgrade($old, server('unlucky', $ENV{PLUGIN_SETTING}), '--check');
    ok(!$ok && $said =~ /slot/, 'a slot that is still there is refused') or diag($said);
}
else
{
    my $new = server('forgetful', $ENV{PLUGIN_SETTING});
    my ($ok, $said) = upgrade($old, $new);
    ok($ok, 'a slot that is still there is left behind') or diag($said);
    $new->start;
    $new->safe_psql('original', 'SELECT scd2.start()');
    workers_are_off($new, 'original', 'upgraded with a slot');
    is_same_picture(picture($new, 'original'), $original, 'upgraded with a slot');
    $new->stop;
}
$old->start;
$old->safe_psql('original', 'SELECT pg_drop_replication_slot(slot) FROM scd2.capture');
$old->stop;

# what the new server has to have before
{
    my $library = PostgreSQL::Test::Utils::tempdir() . '/pg_scd2.so';
    my $installed = PostgreSQL::Test::Cluster->new('any')->config_data('--pkglibdir') . '/pg_scd2.so';
    rename $installed, $library or die "$installed: $!";
    my $bare = server('bare', '');
    $bare->append_conf('postgresql.conf', "shared_preload_libraries = ''");
    my ($ok, $said) = upgrade($old, $bare, '--check');
    rename $library, $installed or die "$installed: $!";
    ok(!$ok && $said =~ /loadable libraries/, 'a server without the library is refused') or diag($said);
    ($ok, $said) = upgrade($old, $bare, '--check');
    ok($ok, '... with the library it is not') or diag($said);
}

for my $no_gap (1, 0)
{
    my $new = server("new$no_gap", $ENV{PLUGIN_SETTING});
    my ($ok, $said) = upgrade($old, $new);
    ok($ok, 'upgraded') or diag($said);
    $new->start;
    is($new->safe_psql('original', 'SELECT state FROM scd2.capture'), 'stopped: SELECT scd2.start();', 'the workers are as they were');
    is_same_picture(picture($new, 'original'), $original, 'the new server');
    my ($ret, $out, $err) = $new->psql('original', 'SELECT scd2.start()');
    workers_are_off($new, 'original', 'started before capture is resumed');
    if ($no_gap)
    {
        $new->safe_psql('original', 'SELECT scd2.resume_capture(no_gap => true)');
        sync($new, 'original');
        is_same_picture(picture($new, 'original'), $original, 'resumed');
        goes_on($new, 'original', 'the new server');
        $new->stop;
        next;
    }
    $new->safe_psql('original', 'SELECT scd2.resume_capture()');
    wait_capture($new, 'original');
    is($new->safe_psql('original', q{SELECT count(*) FROM scd2.feeds WHERE gap IS NULL AND state <> 'disabled'}), '0', 'without the promise, every feed has a gap');
    $new->stop;
}
done_testing();
