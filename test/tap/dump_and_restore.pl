# pg_dump and pg_restore bring feeds, targets, flows, watermarks and memory (OP-14), in every format, by
# parts and in parallel, with workers running on both sides: the restore's own inserts are no
# changes, nothing is captured or applied before scd2.resume_capture(), and then everything goes on
# as it would have in the database that was dumped.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;
use Dumped;

my $node = new_node('original');
my $other = new_node('other', 'autovacuum = off');
my $dir = PostgreSQL::Test::Utils::tempdir();
create_roles($_) for ($node, $other);
create_everything($node, 'original');
my $original = picture($node, 'original');

succeeds($node, 'dumped as SQL', 'pg_dump', '-f', "$dir/plain.sql", 'original');
succeeds($node, 'dumped in custom format', 'pg_dump', '-Fc', '-f', "$dir/custom", 'original');
succeeds($node, 'dumped in parallel', 'pg_dump', '-Fd', '-j', '3', '-f', "$dir/directory", 'original');
is_same_picture(picture($node, 'original'), $original, 'a dump changes nothing');

# what it had to be: the same events in the original
goes_on($node, 'original', 'the original');
my $outcome = outcome_of_events($node, 'original');

sub check_restored
{
    my ($n, $db, $what) = @_;
    workers_are_off($n, $db, $what);
    is_same_picture(picture($n, $db), $original, $what);
    $n->safe_psql($db, 'SELECT scd2.resume_capture(no_gap => true)');
    sync($n, $db);
    is_same_picture(picture($n, $db), $original, "$what, resumed");
    goes_on($n, $db, $what);
    is(outcome_of_events($n, $db), $outcome, '... events make of it what they made of the original');
    is($n->safe_psql($db, 'SELECT problem FROM scd2.diagnose()'), $node->safe_psql('original', 'SELECT problem FROM scd2.diagnose()'), '... with no other problems');
    return;
}

$node->safe_psql('postgres', 'CREATE DATABASE "another name" TEMPLATE template0');
succeeds($node, 'restored under another name, in parallel', 'pg_restore', '-j', '3', '-d', 'another name', "$dir/custom");
check_restored($node, 'another name', 'another name');

succeeds($other, 'restored on another server, the database with it', 'pg_restore', '-C', '-j', '3', '-d', 'postgres', "$dir/directory");
check_restored($other, 'original', 'another server');

$other->safe_psql('postgres', 'CREATE DATABASE plain TEMPLATE template0');
succeeds($other, 'restored by psql', 'psql', '-qX', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/plain.sql", 'plain');
check_restored($other, 'plain', 'from SQL');

$other->safe_psql('postgres', 'CREATE DATABASE sections TEMPLATE template0');
for my $section (qw(pre-data data post-data))
{
    succeeds($other, "restored: $section", 'pg_restore', "--section=$section", '-d', 'sections', "$dir/custom");
    # workers that come and go meanwhile find nothing to do
    $other->restart if $section eq 'data';
}
check_restored($other, 'sections', 'by sections');

$other->safe_psql('postgres', 'CREATE DATABASE once TEMPLATE template0');
succeeds($other, 'restored in one transaction', 'pg_restore', '--single-transaction', '-d', 'once', "$dir/custom");
check_restored($other, 'once', 'in one transaction');

# The worker that the new extension had until its position was replaced has not failed by that.
$other->safe_psql('postgres', 'CREATE DATABASE hurried TEMPLATE template0');
succeeds($other, 'restored once more', 'pg_restore', '-j', '3', '-d', 'hurried', "$dir/custom");
my ($ret, $out, $err) = $other->psql('hurried', 'SELECT scd2.resume_capture(no_gap => true); SELECT scd2.sync() IS NOT NULL', on_error_stop => 1);
is($ret, 0, '... who resumes and waits at once meets no error of before') or diag($err);

done_testing();
