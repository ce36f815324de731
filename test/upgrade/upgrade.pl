# pg_upgrade, done as the README says: feeds, targets, flows, watermarks and memory come along, nothing
# runs in either server meanwhile, and after scd2.resume_capture(no_gap => true) everything goes on
# as it would have in the old server. Without that promise each feed has a gap.
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
    $node->init(allows_streaming => 'logical', extra => [ '--locale=C.UTF-8', ($checksums && !$options{install_path} ? '--no-data-checksums' : ()) ]);
    $node->append_conf('postgresql.conf', join("\n", "shared_preload_libraries = 'pg_scd2'", $plugin_setting, 'max_worker_processes = 16', 'jit = off', "timezone = 'UTC'", ''));
    return $node;
}

sub upgrade
{
    my ($from, $to, @options) = @_;
    my ($out, $err) = ('', '');
    chdir PostgreSQL::Test::Utils::tempdir();
    my $ok = IPC::Run::run([ 'pg_upgrade', '-b', "$ENV{OLD_INSTALL}/bin", '-B', $to->config_data('--bindir'), '-d', $from->data_dir, '-D', $to->data_dir,
            '-s', $from->host, '-p', $from->port, '-P', $to->port, '-U', $ENV{PGUSER} // scalar(getpwuid($<)), @options ], '<', \undef, '>', \$out, '2>', \$err);
    return ($ok, "$out$err");
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
if ($version >= 17)
{
    $old->stop;
    my ($ok, $said) = upgrade($old, server('unlucky', $ENV{PLUGIN_SETTING}), '--check');
    ok(!$ok, 'a slot that is still there is refused');
    $old->start;
}
$old->safe_psql('original', 'SELECT pg_drop_replication_slot(slot) FROM scd2.capture');
$old->stop;

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
