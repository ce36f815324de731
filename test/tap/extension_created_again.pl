# DROP EXTENSION and CREATE EXTENSION in one transaction: the workers see that theirs is gone, its slot goes with it, and the new one starts from nothing.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('again');
$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    CREATE TABLE t (id int PRIMARY KEY, v int);
    INSERT INTO t VALUES (1, 1);
    SELECT scd2.track('t')});
sync($node);
$node->safe_psql('postgres', "UPDATE t SET v = $_") for 2 .. 20;
sync($node);
my $slot = $node->safe_psql('postgres', 'SELECT slot FROM scd2_internal.position');

$node->safe_psql('postgres', q{
    BEGIN;
    SELECT scd2.untrack('t', true, true);
    DROP EXTENSION pg_scd2;
    CREATE EXTENSION pg_scd2;
    COMMIT});
$node->safe_psql('postgres', q{SELECT scd2.track('t')});
$node->safe_psql('postgres', 'UPDATE t SET v = 100');
sync($node);
is($node->safe_psql('postgres', 'SELECT version FROM scd2_internal.position'), '1', 'versions begin anew');
is($node->safe_psql('postgres', 'SELECT string_agg(v::text, $$,$$ ORDER BY __start_at) FROM t_history'), '20,100', 'and so does the history');
is($node->safe_psql('postgres', 'SELECT count(*), bool_or(slot_name = $$' . $slot . '$$) FROM pg_replication_slots'), '1|f', 'the old slot is gone');
done_testing();
