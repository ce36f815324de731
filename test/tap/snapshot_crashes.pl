# A crash of the server in the middle of a snapshot, while a worker reads its source, while it
# writes, and while somebody applies one by hand: it is applied once, as a whole.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('snapshots');
$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    CREATE TABLE parts (id int PRIMARY KEY, v int, note text);
    INSERT INTO parts SELECT i, 1, 'first' FROM generate_series(1, 20000) AS i;
    CREATE TABLE loads (version int);
    CREATE TABLE events (id int, v int, note text, version int);
    INSERT INTO loads VALUES (10);
    -- whoever comes by one of these rows waits for the lock of its number
    CREATE FUNCTION pass(id int, gate int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        IF id = 15000 THEN
            PERFORM pg_advisory_lock_shared(gate);
            PERFORM pg_advisory_unlock_shared(gate);
        END IF;
        RETURN true;
    END $$;
    CREATE VIEW seen AS SELECT id, v, note FROM parts WHERE pass(id, 1);
    SELECT scd2.create_auto_cdc_flow('h', 'events', '{id}', 'version', column_list => '{id,v,note}', stored_as_scd_type => 2);
    SELECT scd2.create_auto_cdc_from_snapshot_flow('h', 'seen', '{id}', 'int', name => 'by_worker', stored_as_scd_type => 2, refresh_interval => '100 ms',
        version_query => 'SELECT max(version) FROM public.loads', max_delete_fraction => 0.2);
    SELECT scd2.create_auto_cdc_from_snapshot_flow('c', 'parts', '{id}', 'int', name => 'by_hand', max_delete_fraction => 0.2)});
sync($node);
$node->safe_psql('postgres', q{SELECT scd2.apply_snapshot('by_hand', 10);
    ALTER TABLE h ADD CHECK (pass(id, 2));
    ALTER TABLE c ADD CHECK (pass(id, 2))});
is($node->safe_psql('postgres', 'SELECT (SELECT count(*) FROM h), (SELECT count(*) FROM c)'), '20000|20000', 'the first snapshots are there');

# What must be there after the n-th load, of which every third row is another, and whose first rows are gone.
sub load
{
    my ($n) = @_;
    $node->safe_psql('postgres', "UPDATE parts SET v = v + 1 WHERE id % 3 = 0; UPDATE parts SET note = 'load $n' WHERE id % 5 = 0; DELETE FROM parts WHERE id <= $n * 100; INSERT INTO loads VALUES (10 + $n)");
}

sub gate
{
    my ($number) = @_;
    my $gate = $node->background_psql('postgres');
    $gate->query_safe("SELECT pg_advisory_lock($number)");
    return $gate;
}

my $waiting = q{FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = 'advisory'};

sub crash_at
{
    my ($gate) = @_;
    wait_until($node, 'postgres', "SELECT count(*) = 1 $waiting", 'somebody waits at the gate');
    my $pid = $node->safe_psql('postgres', "SELECT pid $waiting");
    crash($node, $pid);
    eval { $gate->quit };
}

my $open = 'SELECT id, v, note FROM h WHERE __end_at IS NULL';
my $differs = "SELECT count(*) FROM ((TABLE parts EXCEPT $open) UNION ALL ($open EXCEPT TABLE parts)) AS x";

my $gate = gate(1);
load(1);
crash_at($gate);
wait_until($node, 'postgres', q{SELECT count(*) = 2 FROM scd2.batches WHERE flow = 'by_worker'}, 'read again after a crash while it was read');
is($node->safe_psql('postgres', $differs), '0', 'and what it says is in the history');

$gate = gate(2);
load(2);
crash_at($gate);
wait_until($node, 'postgres', q{SELECT count(*) = 3 FROM scd2.batches WHERE flow = 'by_worker'}, 'written again after a crash while it was written');
is($node->safe_psql('postgres', $differs), '0', 'and what it says is in the history');
is($node->safe_psql('postgres', 'SELECT __start_at, count(*) FROM h WHERE __end_at IS NULL GROUP BY 1 ORDER BY 1'), "10|10560\n12|9240", 'versions begin when they were loaded')
  or diag $node->safe_psql('postgres', 'SELECT * FROM scd2.batches ORDER BY started');
is($node->safe_psql('postgres', 'SELECT count(*), min(__end_at - __start_at) > 0 FROM h'), $node->safe_psql('postgres', q{SELECT sum(rows_inserted), true FROM scd2.batches WHERE flow = 'by_worker'}), 'no row was written twice');
is($node->safe_psql('postgres', q{SELECT events = applied, events, state FROM scd2.flows WHERE flow = 'by_worker'}),
    $node->safe_psql('postgres', q{SELECT true, sum(events), 'running' FROM scd2.batches WHERE flow = 'by_worker'}), 'counters say it once');

# an event that is late for all three finds the marks of each
$node->safe_psql('postgres', q{INSERT INTO events VALUES (1, 7, 'late', 5), (20001, 7, 'late', 10), (20002, 7, 'late', 11)});
sync($node);
is($node->safe_psql('postgres', 'SELECT id, v, __start_at, __end_at FROM h WHERE v = 7 ORDER BY id'), '1|7|5|10', 'the marks are there once each')
  or diag $node->safe_psql('postgres', 'SELECT * FROM scd2_internal.mark');

$gate = gate(2);
my $hand = $node->background_psql('postgres', on_error_stop => 0);
$hand->query_until(qr/begun/, "\\echo begun\nSELECT * FROM scd2.apply_snapshot('by_hand', 12);\n");
crash_at($gate);
eval { $hand->quit };
is($node->safe_psql('postgres', 'SELECT count(*), max(v) FROM c'), '20000|1', 'by hand: nothing of it is there after a crash');
is($node->safe_psql('postgres', q{SELECT * FROM scd2.apply_snapshot('by_hand', 12)}), '0|9240|200|10560', 'and it can be applied again');
is($node->safe_psql('postgres', 'SELECT count(*) FROM (TABLE c EXCEPT TABLE parts) AS x'), '0', 'the target is the source');
done_testing();
