# A dump that is restored under other owners (--no-owner), or where the role is missing that a flow was
# written for: nothing of it runs before the new owner has said so, the restore itself does not fail, and
# who resumes capture is told.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('here');
my $dir = PostgreSQL::Test::Utils::tempdir();
$node->safe_psql('postgres', 'CREATE ROLE alice; CREATE ROLE "Ben ""-"""; CREATE DATABASE original; ');
$node->safe_psql('original', q{
    CREATE EXTENSION pg_scd2;
    CREATE SCHEMA a AUTHORIZATION alice;
    CREATE SCHEMA b AUTHORIZATION "Ben ""-""";});
sync($node, 'original');
for my $who (['alice', 'a'], ['"Ben ""-"""', 'b'])
{
    my ($role, $schema) = @$who;
    $node->safe_psql('original', qq{
        SET ROLE $role;
        CREATE TABLE $schema.ran (who name);
        CREATE FUNCTION $schema.even(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS \$\$ BEGIN RETURN true; END \$\$;
        CREATE TABLE $schema.ev (id int, s int);
        SELECT scd2.create_auto_cdc_flow('$schema.h', '$schema.ev', '{id}', 's', source_filter => '$schema.even(s)', stored_as_scd_type => 2, name => 'of_$schema');
        INSERT INTO $schema.ev VALUES (1, 1);});
}
sync($node, 'original');
is($node->safe_psql('original', 'SELECT name, author FROM scd2_internal.flow ORDER BY 1'), qq{of_a|alice\nof_b|"Ben ""-"""}, 'a flow knows whom it was written for');
$node->command_ok(['pg_dump', '-Fc', '-f', "$dir/dump", $node->connstr('original')], 'dumped');

sub resumed
{
    my ($db) = @_;
    my ($ret, $out, $err) = $node->psql($db, 'SELECT scd2.resume_capture(no_gap => true)');
    is($ret, 0, '... capture is resumed');
    return $err;
}

sub goes_on
{
    my ($db, $what) = @_;
    $node->safe_psql($db, "SELECT scd2.authorize_flow('of_a', 'of_b'); INSERT INTO a.ev VALUES (2, 1); INSERT INTO b.ev VALUES (2, 1);");
    sync($node, $db);
    is($node->safe_psql($db, 'SELECT (SELECT count(*) FROM a.h), (SELECT count(*) FROM b.h)'), '2|2', $what);
}

# as it was
$node->safe_psql('postgres', 'CREATE DATABASE same TEMPLATE template0');
$node->command_ok(['pg_restore', '-d', $node->connstr('same'), "$dir/dump"], 'restored with its owners');
unlike(resumed('same'), qr/WARNING/, '... without a warning');
$node->safe_psql('same', 'INSERT INTO a.ev VALUES (2, 1); INSERT INTO b.ev VALUES (2, 1)');
sync($node, 'same');
is($node->safe_psql('same', 'SELECT (SELECT count(*) FROM a.h), (SELECT count(*) FROM b.h)'), '2|2', '... and goes on');

# everything is the superuser's who restores it
$node->safe_psql('postgres', 'CREATE DATABASE mine TEMPLATE template0');
$node->command_ok(['pg_restore', '--no-owner', '-d', $node->connstr('mine'), "$dir/dump"], 'restored without owners');
my $err = resumed('mine');
like($err, qr/WARNING:  flow "of_a" is not authorized and does not run: its target a\.h belongs to role "[^"]+"\nDETAIL:  It was written for role "alice"\.\nHINT:  SELECT \* FROM scd2\.authorize_flow\('of_a'\);/, '... and a warning for each flow');
like($err, qr/WARNING:  flow "of_b"/, '... each');
$node->safe_psql('mine', 'INSERT INTO a.ev VALUES (3, 1)');
wait_until($node, 'mine', q{SELECT state = 'failed' FROM scd2.flows WHERE flow = 'of_a'}, '... they stop');
is($node->safe_psql('mine', 'SELECT count(*) FROM a.h'), '1', '... and what they have stays');
like($node->safe_psql('mine', q{SELECT fix FROM scd2.diagnose() WHERE subject = 'flow of_a'}), qr/^SELECT \* FROM scd2\.authorize_flow\('of_a'\);$/, 'diagnose() has the statement');
$node->safe_psql('mine', 'DELETE FROM a.ev WHERE id = 3');
is($node->safe_psql('mine', q{SELECT count(*) > 0 FROM scd2.authorize_flow('of_a', 'of_b')}), 't', 'the new owner looks');
sync($node, 'mine');
is($node->safe_psql('mine', 'SELECT count(*) FROM a.h'), '2', 'with his word they go on');

# a role that is not there
$node->safe_psql('postgres', 'CREATE DATABASE without TEMPLATE template0; ALTER ROLE "Ben ""-""" RENAME TO gone');
$node->command_ok(['pg_restore', '--no-owner', '-d', $node->connstr('without'), "$dir/dump"], 'restored where a role is missing');
is($node->safe_psql('without', 'SELECT name, author FROM scd2_internal.flow ORDER BY 1'), "of_a|alice\nof_b|-", '... which is no error');
like(resumed('without'), qr/flow "of_b" is not authorized.*\nDETAIL:  Whom it was written for is not known here\./, '... but a warning');
goes_on('without', 'with the word of the new owner they go on');
done_testing();
