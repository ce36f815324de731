# A feed remembers which transaction made each change, so that rows under a snapshot can be brought
# back to a version. In a restored database those are transactions of another server: whether that
# was younger or older, and whoever has one of their numbers here, table_at(), first copies, full
# refreshes and erase() answer as in the database that was dumped.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;
use Dumped;

# Takes transaction ids up to this one.
sub burn
{
    my ($node, $upto) = @_;
    $node->safe_psql('postgres', qq{
        SET synchronous_commit = off;
        DO \$\$ BEGIN
            WHILE pg_current_xact_id() < '$upto' LOOP
                COMMIT;
            END LOOP;
        END \$\$});
    return;
}

# Each version of the table, by table_at(): a line each.
sub all_versions
{
    my ($node, $upto) = @_;
    return join "\n", map {
        "$_: " . $node->safe_psql('shop', "SELECT string_agg(t::text, ' ' ORDER BY id) FROM scd2.table_at(NULL::t, $_) t")
    } 1 .. $upto;
}

# As of a version both targets can be compared with those of the original.
sub history
{
    my ($node, $target) = @_;
    return $node->safe_psql('shop', "SELECT h::text FROM $target h ORDER BY 1");
}

my $original = new_node('original');
burn($original, 20000);
$original->safe_psql('postgres', 'CREATE DATABASE shop');
$original->safe_psql('shop', q{
    CREATE EXTENSION pg_scd2;
    CREATE TABLE t (id int PRIMARY KEY, v int);
    CREATE TABLE events (k int, v int, n int);
    INSERT INTO t VALUES (1, 0), (2, 0);
    INSERT INTO events VALUES (1, 0, 0)});
sync($original, 'shop');
$original->safe_psql('shop', q{SELECT scd2.track('t'), scd2.create_auto_cdc_flow('kept', 'events', '{k}', 'n', stored_as_scd_type => 2)});
sync($original, 'shop');
# many numbers in a row: one of them will be somebody's
$original->safe_psql('shop', q{
    DO $$ BEGIN
        FOR i IN 1 .. 60 LOOP
            UPDATE t SET v = i WHERE id = 1 + i % 2;
            COMMIT;
        END LOOP;
    END $$;
    INSERT INTO t VALUES (3, 0);
    UPDATE t SET id = 4 WHERE id = 3;
    DELETE FROM t WHERE id = 4;
    DELETE FROM events;
    INSERT INTO events VALUES (1, 1, 1)});
sync($original, 'shop');
my $last = $original->safe_psql('shop', 'SELECT scd2.latest_version()');
my ($first_xid, $last_xid) = split /\|/, $original->safe_psql('shop', 'SELECT min(_xid::text::bigint), max(_xid::text::bigint) FROM t_changes');
my $versions = all_versions($original, $last);
my $dump = PostgreSQL::Test::Utils::tempdir() . '/shop';
succeeds($original, 'dumped', 'pg_dump', '-Fc', '-f', $dump, 'shop');

# what it has to be: the same in the original
sub go_on
{
    my ($node) = @_;
    $node->safe_psql('shop', q{UPDATE t SET v = 100 WHERE id = 1; DELETE FROM t WHERE id = 2; INSERT INTO t VALUES (5, 5)});
    sync($node, 'shop');
    return all_versions($node, $last + 3);
}
my $later = go_on($original);
$original->safe_psql('shop', q{SELECT scd2.create_auto_cdc_flow('from_ten', 't_changes', '{id}', stored_as_scd_type => 2, starting_version => 10)});
sync($original, 'shop');
my $by_version = q{
    SELECT id, v, (SELECT min(_commit_version) FROM t_changes WHERE _commit_timestamp = __start_at),
        (SELECT min(_commit_version) FROM t_changes WHERE _commit_timestamp = __end_at) FROM from_ten ORDER BY id, __start_at};

sub check_restored
{
    my ($node, $what, $meanwhile) = @_;
    $node->safe_psql('postgres', 'DROP DATABASE IF EXISTS shop WITH (FORCE)');
    succeeds($node, "$what: restored", 'pg_restore', '-C', '-d', 'postgres', $dump);
    $node->safe_psql('shop', 'SELECT scd2.resume_capture(no_gap => true)');
    sync($node, 'shop');
    $meanwhile->($node) if $meanwhile;
    is(all_versions($node, $last), $versions, '... table_at() of every version before the restore');
    is(go_on($node), $later, '... and after it');
    $node->safe_psql('shop', q{SELECT scd2.create_auto_cdc_flow('from_ten', 't_changes', '{id}', stored_as_scd_type => 2, starting_version => 10)});
    sync($node, 'shop');
    is($node->safe_psql('shop', $by_version), $original->safe_psql('shop', $by_version), '... a flow that begins before the restore');
    my $before = join "\n", map { history($node, $_) } qw(t_history kept);
    $node->safe_psql('shop', q{SELECT scd2.full_refresh('t_history')});
    sync($node, 'shop');
    is(join("\n", map { history($node, $_) } qw(t_history kept)), $before, '... a full refresh gives what was there');
    targets_are_right($node, 'shop', $what);
    is($node->safe_psql('shop', q{SELECT sum(rows) > 0 FROM scd2.erase('t', '{"id": 4}')}), 't', '... a key can be erased');
    is($node->safe_psql('shop', q{SELECT count(*) FROM t_changes WHERE id IN (3, 4)}), '0', '... from what came with the dump');
    return;
}

my $younger = new_node('younger');
check_restored($younger, 'a younger server');
cmp_ok($younger->safe_psql('postgres', 'SELECT pg_current_xact_id()'), '<', $first_xid, '... which it was');

check_restored($younger, 'a server of the same age', sub {
    my ($node) = @_;
    burn($node, $first_xid);
    for my $n (1 .. 5)
    {
        $node->safe_psql('postgres', "BEGIN; CREATE TABLE taken$n (); PREPARE TRANSACTION 'taken$n'");
    }
    my ($low, $high) = split /\|/, $node->safe_psql('postgres', "SELECT min(transaction::text::bigint), max(transaction::text::bigint) FROM pg_prepared_xacts");
    ok($low > $first_xid && $high < $last_xid, '... some numbers are those of transactions that are not over');
});
$younger->safe_psql('postgres', "ROLLBACK PREPARED 'taken$_'") for 1 .. 5;

my $older = new_node('older');
burn($older, 40000);
check_restored($older, 'an older server');

done_testing();
