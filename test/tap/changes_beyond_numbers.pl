# Changes are numbered within their version. A transaction with more of them than there are numbers is a
# gap of the tables that it changed beyond the last number; other tables and later transactions are captured.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('numbers', 'pg_scd2.debug_max_ordinal = 100');
$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    CREATE TABLE t (id int PRIMARY KEY, v int);
    CREATE TABLE u (id int PRIMARY KEY, v int);
    CREATE TABLE d (id int, v int DEFAULT 1, w int);
    SELECT scd2.enable_change_feed('t');
    SELECT scd2.enable_change_feed('u');
    SELECT scd2.enable_change_feed('d')});
sync($node);

sub gap { return $node->safe_psql('postgres', "SELECT s.error FROM scd2_internal.feed_state s WHERE s.source_relid = '$_[0]'::regclass::oid AND s.gap IS NOT NULL"); }

$node->safe_psql('postgres', 'INSERT INTO t SELECT i, 0 FROM generate_series(1, 100) i');
sync($node);
is($node->safe_psql('postgres', 'SELECT max(_change_ordinal) FROM t_changes'), '100', 'as many changes as there are numbers');
is(gap('t'), '', 'are no gap');

my $reason = qr/a transaction has more than 100 changes of captured tables: they cannot be numbered/;
for my $kind (['t', 'UPDATE t SET v = 1 WHERE id <= 50; INSERT INTO t VALUES (101, 0)', 'inserts'],
    ['t', 'UPDATE t SET v = v + 1 WHERE id <= 49; INSERT INTO t VALUES (102, 0); UPDATE t SET v = 9 WHERE id = 102', 'an update whose images are on both sides'],
    ['t', 'DELETE FROM t', 'deletes'],
    ['d', 'INSERT INTO d SELECT i FROM generate_series(1, 101) i', 'rows of a table without a key'])
{
    my ($table, $sql, $what) = @$kind;
    my $from = $node->safe_psql('postgres', 'SELECT scd2.latest_version() + 1');
    $node->safe_psql('postgres', "BEGIN; INSERT INTO u VALUES ($from, 1); $sql; COMMIT");
    $node->safe_psql('postgres', "SELECT scd2.sync('50 s')");
    like(gap($table), $reason, "$what: more are a gap, which says why");
    is($node->safe_psql('postgres', "SELECT count(*) FROM ${table}_changes WHERE _commit_version >= $from"), '0', '... and of that version nothing is written');
    is($node->safe_psql('postgres', "SELECT count(*) FROM u_changes WHERE _commit_version = $from"), '1', '... but what another table has of it');
    $node->safe_psql('postgres', "SELECT scd2.resync('$table')");
    sync($node);
    is(gap($table), '', '... and is repaired');
}
is($node->safe_psql('postgres', 'SELECT count(*) FROM (TABLE t EXCEPT SELECT (x).id, (x).v FROM (SELECT scd2.table_at(NULL::t, scd2.latest_version()) x) y) z'), '0', 'the feed is the table');
done_testing();
