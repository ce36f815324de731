# Dumps of versions from before, with flows of each kind, what is on their feeds and a superuser's
# target: restored into the present version, which is what "CREATE EXTENSION" in a dump makes; and
# restored into the version that they are of, which is then updated in place. Both hold the same then,
# catalogs included, and all flows go on without a gap.
#
# The dumps are those of databases that the library of that version has made and served
# (DUMP_TO=… test/update says how); so the rows are old code's, its workers are not here.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;
use Dumped;
use Released;

my $node = new_node('dumps');
create_roles($node);
my %dump = map { m{([\d.]+)\.sql$} ? ($1 => "$_") : () } glob 'released/*.sql';
my @released = sort map { m{pg_scd2--([\d.]+)\.sql$} ? $1 : () } glob $node->config_data('--sharedir') . '/extension/pg_scd2--*.sql';
my $version = $node->safe_psql('postgres', q{SELECT default_version FROM pg_available_extensions WHERE name = 'pg_scd2'});
is(join(' ', sort keys %dump), join(' ', grep { $_ ne $version } @released), 'each released version has a dump');

# resumed(DATABASE, HOW_MANY): a picture, once capture goes on and flows are authorized that nobody had. Each
# of those had a warning.
sub resumed
{
    my ($db, $unauthorized) = @_;
    # in one transaction: no worker meets a flow that is not authorized
    my ($ret, $out, $err) = $node->psql($db, q{
        BEGIN;
        SELECT scd2.resume_capture(no_gap => true);
        SELECT * FROM (SELECT array_agg(name) AS names FROM scd2_internal.flow WHERE author::text = '-') f, scd2.authorize_flow(VARIADIC f.names);
        COMMIT}, on_error_stop => 1);
    is($ret, 0, '... capture is resumed');
    my @hints = $err =~ /WARNING:  flow "[^"]+" is not authorized.*\nDETAIL:.*\nHINT:  (SELECT .*;)/g;
    is(scalar @hints, $unauthorized, "... with a warning for each of $unauthorized flows that nobody has authorized");
    sync($node, $db);
    return picture($node, $db);
}

for my $from (sort keys %dump)
{
    my ($restored, $updated) = ("restored $from", "updated $from");
    $node->safe_psql('postgres', qq{CREATE DATABASE "$_" TEMPLATE template0}) for $restored, $updated;

    succeeds($node, "a dump of $from, restored", 'psql', '-qX', '-v', 'ON_ERROR_STOP=1', '-f', $dump{$from}, $restored);
    is($node->safe_psql($restored, q{SELECT extversion FROM pg_extension WHERE extname = 'pg_scd2'}), $version, '... into the present version');
    workers_are_off($node, $restored, '... before capture is resumed');
    my $flows = $node->safe_psql($restored, 'SELECT count(*) FROM scd2_internal.flow');
    my $picture = resumed($restored, $flows);
    all_goes_on($node, $restored, "restored into $version");

    $node->safe_psql($updated, "CREATE EXTENSION pg_scd2 VERSION '$from'");
    my $said = succeeds($node, 'the same dump', 'psql', '-qX', '-f', $dump{$from}, $updated);
    is(join("\n", $said =~ /ERROR:  (.*)/g), 'schema "scd2" already exists', '... with no error but the one that the README names');
    is($node->safe_psql($updated, q{SELECT extversion FROM pg_extension WHERE extname = 'pg_scd2'}), $from, '... restored into its own version');
    my ($ret, $out, $err) = $node->psql($updated, 'ALTER EXTENSION pg_scd2 UPDATE', on_error_stop => 1);
    is($ret, 0, '... which is updated');
    is(join("\n", $err =~ /WARNING:  (.*)/g), told($from), '... and told what is not as it was before');
    $node->safe_psql($updated, $_) for $err =~ /HINT:  (SELECT .*authorize_flow.*;)/g;
    is_same_picture(resumed($updated, 0), $picture, "a dump of $from, updated");
    all_goes_on($node, $updated, "updated in place");
}
done_testing();
