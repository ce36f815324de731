# ALTER EXTENSION UPDATE of databases that a library from before has made and served: with a writer at
# work all the time, with workers that run and with workers that were stopped. Nothing is lost or
# repeated, all flows go on, and the update says nothing where nothing is other than before.
#
# OLD_LIBRARY is the file of that library, OLD_VERSION its version: test/update builds it from the
# history of this repository. Without them this test is left out; update_of_dumps.pl then has the rows
# that old code wrote, this one also its workers and what they leave in the server. With DUMP_TO it only
# writes such a database's dump, which is how the files of test/tap/released are made.
use strict;
use warnings;
use File::Copy qw(copy);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;
use Dumped;
use Released;

plan skip_all => 'no library from before: test/update has one' unless $ENV{OLD_LIBRARY};
my ($library, $old_version) = @ENV{qw(OLD_LIBRARY OLD_VERSION)};
my $probe = PostgreSQL::Test::Cluster->new('probe');
my $installed = $probe->config_data('--pkglibdir') . '/pg_scd2.so';
my $new_library = PostgreSQL::Test::Utils::tempdir() . '/pg_scd2.so';

# as make install does it: another file of the same name
sub install
{
    my ($file) = @_;
    unlink $installed;
    copy($file, $installed) or die "$installed: $!";
    chmod 0755, $installed;
    return;
}
copy($installed, $new_library) or die "$installed: $!";
END { install($new_library) if $new_library && -e $new_library }

install($library);
my $node = new_node('updated');
my $version = $node->safe_psql('postgres', q{SELECT default_version FROM pg_available_extensions WHERE name = 'pg_scd2'});
is($node->safe_psql('postgres', 'SHOW pg_scd2.debug_version'), $old_version, "the server has the library of $old_version");
create_roles($node);
$node->safe_psql('postgres', "CREATE EXTENSION pg_scd2 VERSION '$old_version'");
wait_capture($node);
create_audited_table($node, 'postgres');
my @databases = ('running', 'stopped');
create_flows_of_each_kind($node, $_, $old_version) for @databases;
stop_workers($node, 'stopped');
if ($ENV{DUMP_TO})
{
    succeeds($node, 'dumped', 'pg_dump', '--no-comments', '-f', $ENV{DUMP_TO}, 'stopped');
    done_testing();
    exit 0;
}
my @new_columns = qw(author trusted);
my %picture = map { $_ => picture($node, $_, @new_columns) } @databases;
my %states = map { $_ => states_of_flows($node, $_) } @databases;

# the files are replaced, the server is not restarted
install($new_library);
my $writer = start_writer($node, 'postgres', 2);
for my $db ('postgres', @databases)
{
    my ($ret, $out, $err) = $node->psql($db, 'ALTER EXTENSION pg_scd2 UPDATE');
    like($err, qr/the library that the server has loaded is of version \Q$old_version\E/, "$db: not updated before the restart");
}
finish_writer($writer);
sync($node);
history_is_right($node, 'postgres', 'where the update was refused');

$node->restart;
$writer = start_writer($node, 'postgres', 2);
wait_until($node, $_, q{SELECT state LIKE 'failed%' FROM scd2.capture}, "$_: the new library waits for its catalogs") for 'postgres', 'running';
$node->safe_psql('running', q{SET ROLE "the owner"; CREATE TABLE dim.meanwhile (id int PRIMARY KEY); DROP TABLE dim.meanwhile});
for my $db ('postgres', @databases)
{
    my ($ret, $out, $err) = $node->psql($db, 'ALTER EXTENSION pg_scd2 UPDATE', on_error_stop => 1);
    is($ret, 0, "$db: updated");
    is(join("\n", $err =~ /WARNING:  (.*)/g), $db eq 'postgres' ? '' : told($old_version), '... and told what is not as it was before');
    $node->safe_psql($db, $_) for $err =~ /HINT:  (SELECT .*authorize_flow.*;)/g;
}
sync($node);
finish_writer($writer);
sync($node);
feed_is_right($node, 'postgres', 'written while it was updated');
history_is_right($node, 'postgres', 'written while it was updated');

is($node->safe_psql('stopped', 'SELECT state FROM scd2.capture'), 'stopped: SELECT scd2.start();', 'stopped workers stay so');
$node->safe_psql('stopped', 'SELECT scd2.start()');
for my $db (@databases)
{
    wait_capture($node, $db);
    sync($node, $db);
    is_same_picture(picture($node, $db, @new_columns), $picture{$db}, "$db, updated");
    is(states_of_flows($node, $db), $states{$db}, '... with each flow in its state');
    all_goes_on($node, $db, $db);
}
done_testing();
