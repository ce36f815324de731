# ALTER EXTENSION UPDATE with workers running and a writer at work: nothing is lost or repeated. While
# library and catalogs are of different versions nothing is captured, the error says what to do, and
# the workers back off (OP-12).
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('updated');
my $version = $node->safe_psql('postgres', q{SELECT default_version FROM pg_available_extensions WHERE name = 'pg_scd2'});
# what the next version would bring
my $script = $node->config_data('--sharedir') . "/extension/pg_scd2--$version--99.sql";
PostgreSQL::Test::Utils::append_to_file($script, q{
    CREATE FUNCTION scd2.brought_by_update() RETURNS integer LANGUAGE sql AS 'SELECT 99';
    ALTER TABLE scd2_internal.feed ADD COLUMN brought_by_update integer;
});

sub state_is
{
    my ($expected, $what) = @_;
    return wait_until($node, 'postgres', "SELECT state LIKE 'failed%' AND last_error = 'extension \"pg_scd2\" is of version $expected->[0], the library that the server has loaded of $expected->[1]' FROM scd2.capture", $what);
}

create_audited_table($node, 'postgres');
my $writer = start_writer($node, 'postgres', 2);
$node->poll_query_until('postgres', 'SELECT scd2.latest_version() > 50') or die;

$node->safe_psql('postgres', q{ALTER EXTENSION pg_scd2 UPDATE TO '99'});
state_is([ '99', $version ], 'catalogs newer than the library: the workers end and say so');
wait_until($node, 'postgres', 'SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type LIKE $$pg_scd2 a%$$', '... all of them');
is($node->safe_psql('postgres', 'SELECT scd2.brought_by_update()'), '99', '... what the update brought is there');
my $offset = -s $node->logfile;
sleep 5;
my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile, $offset);
cmp_ok(scalar(() = $log =~ /the library that the server has loaded/g), '<=', 3, '... they back off');
like(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/HINT:  ALTER EXTENSION pg_scd2 UPDATE TO '\Q$version\E'; -- or restart/, '... and the log has the remedy');
my ($ret, $out, $err) = $node->psql('postgres', q{SELECT scd2.sync('10 s')});
like($err, qr/is of version 99/, '... and so has sync()');
finish_writer($writer);

$node->append_conf('postgresql.conf', "pg_scd2.debug_version = '99'");
$node->restart;
sync($node);
feed_is_right($node, 'postgres', 'with the library updated too');
history_is_right($node, 'postgres', 'with the library updated too');

# the other way round: first the library
$node->safe_psql('postgres', q{CREATE DATABASE second});
$node->safe_psql('second', qq{CREATE EXTENSION pg_scd2 VERSION '$version'});
wait_until($node, 'second', "SELECT state LIKE 'failed%' FROM scd2.capture", 'library newer than the catalogs: nothing is captured');
like($node->safe_psql('second', 'SELECT last_error FROM scd2.capture'), qr/is of version \Q$version\E, .* of 99/, '... for this reason');
$node->safe_psql('second', q{ALTER EXTENSION pg_scd2 UPDATE TO '99'});
wait_capture($node, 'second');
create_audited_table($node, 'second');
$node->safe_psql('second', q{INSERT INTO t SELECT i, i, 'x' FROM generate_series(1, 9) i});
sync($node, 'second');
feed_is_right($node, 'second', 'after the update');

unlink $script;
done_testing();
