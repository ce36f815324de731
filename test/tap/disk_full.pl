# The disk of a tablespace is full, for real: a small file system of its own, mounted where nobody
# else sees it. A flow into a target there says so, with the version, and tries again; capture and
# the other flows go on, and when there is space again it catches up by itself. A feed there holds
# up capture, which loses nothing.
use strict;
use warnings;
use File::Temp;
use Test::More;

# Who may make namespaces is root in a new one and may mount there; the server wants an ordinary
# user, who is made in one more. Before PostgreSQL::Test takes the output.
my $place;

BEGIN
{
    $place = $ENV{SCD2_SMALL_DISK};
    if (!defined $place)
    {
        $ENV{SCD2_SMALL_DISK} = File::Temp::tempdir('scd2.XXXXXX', TMPDIR => 1, CLEANUP => 1);
        my ($group) = split / /, $(;
        my $mounts = 'mount -t tmpfs -o size=24m,mode=700 tmpfs "$SCD2_SMALL_DISK" && exec unshare --user --map-user=' . "$< --map-group=$group" . ' -- "$@"';
        my @inside = ('unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', $mounts, 'sh');
        plan skip_all => 'file systems cannot be mounted here' if system(join(' ', map({ quotemeta } @inside), 'true', '2>/dev/null')) != 0;
        system(@inside, $^X, map({ ('-I', $_) } @INC), $0);
        exit($? >> 8);
    }
}

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Scd2;

mkdir "$place/small" or die "$place/small: $!";
my $node = new_node('disk_full', 'pg_scd2.max_apply_workers = 2', 'wal_level = logical');
$node->safe_psql('postgres', qq{
    CREATE EXTENSION pg_scd2;
    CREATE TABLESPACE small LOCATION '$place/small';
    CREATE TABLE good (id int PRIMARY KEY, v text);
    CREATE TABLE t (id int PRIMARY KEY, v text);
    SELECT scd2.track('good'), scd2.track('t')});
sync($node);
$node->safe_psql('postgres', q{
    ALTER TABLE t_history SET TABLESPACE small;
    ALTER INDEX t_history_pkey SET TABLESPACE small;
    INSERT INTO good VALUES (0, 'first');
    INSERT INTO t VALUES (0, 'first')});
sync($node);

# leave(KB): what else is on the disk takes all but this
sub leave
{
    my ($kb) = @_;
    my $ballast = "$place/ballast";
    unlink $ballast;
    my ($free) = (`df --output=avail -k $place`)[1] =~ /(\d+)/ or die;
    return if $kb >= $free;
    system("dd if=/dev/zero of=$ballast bs=1k count=" . ($free - $kb) . ' status=none') == 0 or die;
    return;
}

sub flow_state
{
    return $node->safe_psql('postgres', q{SELECT state FROM scd2.flows WHERE flow = 't_history'});
}

leave(64);
my $capture = capture_pid($node);
my $log_before = -s $node->logfile;
$node->safe_psql('postgres', q{INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, 2000) g});
wait_until($node, 'postgres', q{SELECT last_error IS NOT NULL FROM scd2.flows WHERE flow = 't_history'}, 'a flow whose target has no space has an error');
my $version = $node->safe_psql('postgres', 'SELECT max(_commit_version) FROM t_changes');
like($node->safe_psql('postgres', q{SELECT last_error FROM scd2.flows WHERE flow = 't_history'}),
    qr/^53100: could not extend file .*\(at version $version\)$/, '... that says which version has no room');
is(flow_state(), 'running', '... and it is tried again');
$node->safe_psql('postgres', q{INSERT INTO good SELECT g, 'x' FROM generate_series(1, 1000) g});
is($node->safe_psql('postgres', q{SELECT scd2.sync('30 s', '{good_history}') > 0; SELECT count(*) FROM good_history}), "t\n1001", 'another flow goes on');
is(capture_pid($node), $capture, '... and capture');
is($node->safe_psql('postgres', 'SELECT count(*) FROM t_history'), '1', '... readers see what was applied before');
ok($node->safe_psql('postgres', q{SELECT count(*) > 0 FROM scd2.diagnose() WHERE problem ~ 't_history' OR subject ~ 't_history'}), 'diagnose() tells');

# it backs off
sleep 5;
my @errors = slurp_file($node->logfile, $log_before) =~ /^.*ERROR: .*$/mg;
cmp_ok(scalar @errors, '<', 15, scalar(@errors) . ' errors in the log');

leave(1024 * 1024);
sync($node);
is(flow_state(), 'running', 'with space the flow goes on by itself');
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT id) FROM t_history WHERE __end_at IS NULL'), '2001|2001', '... and applies all of it once');
targets_are_right($node, 'postgres', 'after the disk was full');
is($node->safe_psql('postgres', q{SELECT count(*) FROM scd2.diagnose() WHERE problem ~ 't_history' OR subject ~ 't_history'}), '0', '... nothing is wrong any more');

# the feed's own disk: nobody else's changes wait for it
my $leaf = $node->safe_psql('postgres', q{SELECT relid FROM pg_partition_tree('t_changes') WHERE isleaf ORDER BY relid::regclass::text DESC LIMIT 1});
$node->safe_psql('postgres', qq{ALTER TABLE $leaf SET TABLESPACE small});
leave(64);
$node->safe_psql('postgres', q{UPDATE t SET v = repeat('y', 1000); INSERT INTO good VALUES (-1, 'later')});
wait_until($node, 'postgres', q{SELECT waits_for ~ 'could not extend file' FROM scd2.feeds WHERE source = 't'::regclass}, 'a feed without space waits, and says so');
is($node->safe_psql('postgres', 'SELECT count(*) FROM scd2.feeds WHERE gap IS NOT NULL'), '0', '... and gives up none');
leave(1024 * 1024);
wait_capture($node);
sync($node);
is($node->safe_psql('postgres', q{SELECT count(*) FROM t_changes WHERE v LIKE 'y%'}), '2001', 'with space it has all of it, once');
targets_are_right($node, 'postgres', 'after the disk of a feed was full');
$node->stop;
done_testing();
