# ALTER EXTENSION UPDATE from each released version makes of a database what a fresh installation is: every
# object, its definition, rights, comment and dependencies; and leaves alone what is the
# administrator's: rights that were granted or revoked, views over ours.
#
# A version from before is made by its install script with the library of today, so this also says
# that every C function that the script names is still there: a server with the new library and the
# old catalogs, a pg_upgrade of it, need them all. What old code did is not seen here (see update_of_old_databases.pl).
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;
use Catalog;

my $node = new_node('complete');
my $version = $node->safe_psql('postgres', q{SELECT default_version FROM pg_available_extensions WHERE name = 'pg_scd2'});
my @released = sort map { m{pg_scd2--([\d.]+)\.sql$} ? $1 : () } glob $node->config_data('--sharedir') . '/extension/pg_scd2--*.sql';
@released = grep { $_ ne $version } @released;
cmp_ok(scalar @released, '>=', 1, "versions from before: @released");
is($node->safe_psql('postgres', 'SHOW pg_scd2.debug_version'), $version, 'library and control file are of one version');
$node->safe_psql('postgres', 'CREATE ROLE ops; CREATE ROLE another SUPERUSER');

# signatures(DATABASE): of what keeps CREATE OR REPLACE FUNCTION from replacing one that takes the same
# arguments: the result, names and how many have defaults
sub signatures
{
    my ($db) = @_;
    return { map { split /\t/, $_, 2 } split /\n/, $node->safe_psql($db, q{
        SELECT concat_ws(E'\t', oid::regprocedure, coalesce(pg_get_function_result(oid), '-'), pg_get_function_identity_arguments(oid), pronargdefaults)
        FROM pg_proc WHERE pronamespace IN ('scd2'::regnamespace, 'scd2_internal'::regnamespace)}) };
}

$node->safe_psql('postgres', 'CREATE DATABASE fresh');
$node->safe_psql('fresh', 'CREATE EXTENSION pg_scd2');
my $fresh = catalog($node, 'fresh');

for my $from (@released)
{
    my $db = "from $from";
    $node->safe_psql('postgres', qq{CREATE DATABASE "$db"});
    my ($ret, $out, $err) = $node->psql($db, "CREATE EXTENSION pg_scd2 VERSION '$from'");
    is($err, '', "version $from can be made: each C function that it names is there");
    isnt(join("\n", sort keys %{ catalog($node, $db) }), join("\n", sort keys %$fresh), '... and is another than the present one');
    my ($before, $now) = (signatures($db), signatures('fresh'));
    my @other = grep { defined $now->{$_} && $now->{$_} ne $before->{$_} } sort keys %$before;
    # by another superuser than whose the extension is
    ($ret, $out, $err) = $node->psql($db, 'SET ROLE another; ALTER EXTENSION pg_scd2 UPDATE; SELECT current_user', on_error_stop => 1);
    is("$ret $err", '0 ', 'updated, without a word where nothing is tracked')
      or diag("the step from $from in src/sql/update may have to begin with:\n" . join('', map { "DROP FUNCTION $_;\n" } @other))
      or die 'not updated';
    is($out, 'another', '... whoever updated is who he was');
    wait_capture($node, $db);
    pass('... and capture is at work');

    # what is the administrator's
    $db = "from $from, used";
    $node->safe_psql('postgres', qq{CREATE DATABASE "$db"});
    $node->safe_psql($db, qq{
        CREATE EXTENSION pg_scd2 VERSION '$from';
        GRANT EXECUTE ON FUNCTION scd2.stop() TO ops;
        REVOKE SELECT ON scd2.progress FROM public;
        GRANT SELECT ON scd2.progress TO ops;
        CREATE VIEW overview AS SELECT f.flow, f.state, c.state AS capture FROM scd2.flows f, scd2.capture c;
        CREATE TABLE t (id int PRIMARY KEY);
        CREATE FUNCTION since(v bigint) RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM scd2.table_changes(''t'', v)';});
    my $rights = q{SELECT string_agg(r::text, ' ' ORDER BY r::text) FROM (SELECT unnest(proacl) FROM pg_proc WHERE oid = 'scd2.stop()'::regprocedure
        UNION ALL SELECT unnest(relacl) FROM pg_class WHERE oid = 'scd2.progress'::regclass) x (r)};
    my $granted = $node->safe_psql($db, $rights);
    my ($dumped) = run_command([ 'pg_dump', '-d', $node->connstr($db), '--schema-only' ]);
    my @dumped = sort $dumped =~ /^((?:GRANT|REVOKE).*)$/mg;
    cmp_ok(scalar @dumped, '>=', 3, "rights that a dump of $from has");
    $node->safe_psql($db, 'ALTER EXTENSION pg_scd2 UPDATE');
    is($node->safe_psql($db, $rights), $granted, 'rights that were granted and revoked stay');
    ($dumped) = run_command([ 'pg_dump', '-d', $node->connstr($db), '--schema-only' ]);
    is_deeply([ sort $dumped =~ /^((?:GRANT|REVOKE).*)$/mg ], \@dumped, '... and a dump still has them');
    is($node->safe_psql($db, 'SELECT count(*) FROM overview'), '0', '... and views over ours');

    # the library from before is loaded still
    $db = "from $from, early";
    $node->safe_psql('postgres', qq{CREATE DATABASE "$db"});
    $node->safe_psql($db, qq{CREATE EXTENSION pg_scd2 VERSION '$from'});
    $node->append_conf('postgresql.conf', "pg_scd2.debug_version = '$from'");
    $node->restart;
    ($ret, $out, $err) = $node->psql($db, 'ALTER EXTENSION pg_scd2 UPDATE');
    like($err, qr/cannot be updated to version \Q$version\E: the library that the server has loaded is of version \Q$from\E\nHINT:  Restart the server/, 'not before the server was restarted');
    is($node->safe_psql($db, q{SELECT extversion FROM pg_extension WHERE extname = 'pg_scd2'}), $from, '... and nothing has changed');
    $node->append_conf('postgresql.conf', "pg_scd2.debug_version = '$version'");
    $node->restart;

    # who is in the way is named
    my $other = $node->background_psql($db) or die;
    $other->query_safe('BEGIN; LOCK TABLE scd2_internal.feed IN ACCESS SHARE MODE');
    ($ret, $out, $err) = $node->psql($db, q{SET pg_scd2.lock_timeout = '1 s'; ALTER EXTENSION pg_scd2 UPDATE});
    like($err, qr/process \d+ has held a lock on it .*HINT:  SELECT pg_terminate_backend/s, 'who is in the way is named');
    $other->query_safe('COMMIT');
    $other->quit;

    # what no part has any more, and what stands on it
    $node->safe_psql($db, q{
        CREATE FUNCTION scd2_internal.gone() RETURNS int LANGUAGE sql AS 'SELECT 1';
        CREATE VIEW scd2.gone AS SELECT scd2_internal.gone() AS one;
        ALTER EXTENSION pg_scd2 ADD FUNCTION scd2_internal.gone();
        ALTER EXTENSION pg_scd2 ADD VIEW scd2.gone;
        CREATE VIEW on_gone AS SELECT * FROM scd2.gone;});
    ($ret, $out, $err) = $node->psql($db, 'ALTER EXTENSION pg_scd2 UPDATE');
    like($err, qr/cannot drop view scd2\.gone because other objects depend on it\nDETAIL:  view public\.on_gone depends/, 'what stands on a view that is gone is named');
    $node->safe_psql($db, 'DROP VIEW on_gone');
    $node->safe_psql($db, 'BEGIN; SAVEPOINT s; ALTER EXTENSION pg_scd2 UPDATE; RELEASE s; COMMIT');

    is_same_catalog(catalog($node, $db), $fresh, "updated from $from in a subtransaction");
    is_same_catalog(catalog($node, "from $from"), $fresh, "updated from $from");
}
done_testing();
