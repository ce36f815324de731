# A column comes while somebody has read the feed and stays, as pg_dump does, for a long time and under load: the feeds of
# nine other tables go on, nobody who reads any feed queues, and in the end everything is there. Readers that overlap
# without end keep the column out for some seconds, not for ever.
# With PG_TEST_EXTRA=feed_dumped: ten minutes instead of five seconds.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use Scd2;

my $HELD = $ENV{PG_TEST_EXTRA} && $ENV{PG_TEST_EXTRA} =~ /feed_dumped/ ? 600 : 5;
my $node = new_node('feed_dumped', "pg_scd2.debug_upkeep_every = '200ms'", "pg_scd2.debug_leaf_age = '1s'", 'pg_scd2.debug_leaf_size = 64kB');
$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    SELECT format('CREATE TABLE t%1$s (id int PRIMARY KEY, v int, at timestamptz)', n) FROM generate_series(0, 9) n \gexec
    SELECT format('INSERT INTO t%s SELECT i, 0, clock_timestamp() FROM generate_series(1, 20) i', n) FROM generate_series(0, 9) n \gexec
    SELECT format('SELECT scd2.track(%L)', 't' || n) FROM generate_series(0, 9) n \gexec
    -- what was committed: each transaction notes what it did
    CREATE TABLE written (xid xid8, t text, n bigint);
    CREATE FUNCTION step(t text, k int) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        EXECUTE format('UPDATE %I SET v = v + 1, at = clock_timestamp() WHERE id = $1', t) USING k;
        INSERT INTO written VALUES (pg_current_xact_id(), t, 1);
    END $$;
    -- how far the others' feeds are behind those who write without end
    CREATE FUNCTION lag(waiting text) RETURNS float8 LANGUAGE sql AS $$
        SELECT extract(epoch FROM clock_timestamp() - least(p.commit_timestamp, (SELECT min(b.since) FROM scd2_internal.feed_backlog b JOIN scd2_internal.feed f USING (feed_id)
                                                                               WHERE f.source_name <> waiting))) FROM scd2_internal.position p $$});
sync($node);

sub start_load
{
    return start_writer($node, 'postgres', 3, join('', map { "\\set id random(1, 20)\nSELECT step('t$_', :id);\n\\sleep 1 ms\n" } 0 .. 9));
}

# Until the time is over, or a query gives "t": the longest lag of the others, the longest read of a feed, and how long it took.
sub watch
{
    my ($seconds, $until) = @_;
    my ($lag, $read, $begun) = (0, 0, time);
    while (time < $begun + $seconds)
    {
        my $now = $node->safe_psql('postgres', q{SELECT lag('t0')});
        for my $feed (0, 1, 9)
        {
            my $at = time;
            $node->safe_psql('postgres', "SELECT FROM t${feed}_changes LIMIT 1");
            $read = time - $at if time - $at > $read;
        }
        $lag = $now if $now > $lag;
        last if $until && $node->safe_psql('postgres', $until) eq 't';
        sleep 0.05;
    }
    return ($lag, $read, time - $begun);
}

sub is_complete
{
    my ($what) = @_;
    is($node->safe_psql('postgres', q{SELECT scd2.sync('50 s') > 0}), 't', "$what: sync() returns");
    is($node->safe_psql('postgres', 'SELECT count(*) FROM scd2_internal.feed_backlog') + $node->safe_psql('postgres', 'SELECT count(*) FROM scd2_internal.backlog'),
        0, "$what: nothing waits any more");
    my $images = join ' UNION ALL ', map { "SELECT 't$_', _xid FROM t${_}_changes WHERE _change_type = 'update_postimage'" } 0 .. 9;
    is($node->safe_psql('postgres', qq{
            WITH f (t, xid) AS ($images), w AS (SELECT t, xid FROM written)
            SELECT count(*) FROM ((TABLE w EXCEPT ALL TABLE f) UNION ALL (TABLE f EXCEPT ALL TABLE w)) d}), '0', "$what: the feeds have what was written");
    is($node->safe_psql('postgres', q{SELECT string_agg(f.target || ': ' || p.problem, E'\n') FROM (SELECT DISTINCT target FROM scd2.flows) f, scd2.check_target(f.target) p}),
        '', "$what: the histories are right");
    return;
}

# Somebody dumps.
my $load = start_load();
my $dump = $node->background_psql('postgres');
# (It has read the source before: ALTER TABLE of that would wait for it.)
$dump->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
$dump->query_safe("LOCK TABLE t${_}_changes IN ACCESS SHARE MODE") for 0 .. 9;
$dump->query_safe('SELECT count(*) FROM t0_changes');
$node->safe_psql('postgres', 'ALTER TABLE t0 ADD COLUMN extra int DEFAULT 7');
sleep 0.3;
my ($lag, $read) = watch($HELD);
cmp_ok($lag, '<', 1, sprintf('beside a dump: the others lag %.2f s at most', $lag));
cmp_ok($read, '<', 1, sprintf('beside a dump: reads take %.2f s at most', $read));
like($node->safe_psql('postgres', q{SELECT waits_for FROM scd2.feeds WHERE source = 't0'::regclass}), qr/^process \d+ has held a lock on it for/, 'the dump is named');
is($node->safe_psql('postgres', q{SELECT count(*) FROM scd2_internal.feed_backlog}), '1', 'one feed waits');
like($dump->query_safe('SELECT count(*) FROM t0_changes'), qr/^\d+$/, 'the dump reads on');
$dump->query_safe('COMMIT');
finish_writer($load);
is_complete('beside a dump');
is($node->safe_psql('postgres', 'SELECT count(*) FROM t0 WHERE extra = 7') . $node->safe_psql('postgres', 'SELECT count(*) FROM t0_history WHERE extra = 7 AND __end_at IS NULL'), '2020', 'the column is in the history');

# Readers that overlap: two at least hold a lock at any time.
$load = start_load();
my $reader = start_writer($node, 'postgres', 2, "BEGIN;\nSELECT count(*) FROM t0_changes;\n\\sleep 300 ms\nCOMMIT;\n");
my $second = start_writer($node, 'postgres', 1, "\\sleep 150 ms\nBEGIN;\nSELECT count(*) FROM t0_changes;\n\\sleep 300 ms\nCOMMIT;\n");
sleep 1;
for my $change ('ADD COLUMN more int DEFAULT 8', 'RENAME COLUMN more TO most', 'ALTER COLUMN most TYPE bigint')
{
    $node->safe_psql('postgres', "ALTER TABLE t0 $change");
    my ($lag, $read, $took) = watch(60, q{SELECT NOT EXISTS (SELECT FROM scd2_internal.feed_backlog) AND (SELECT changes FROM scd2_internal.feed_layout l JOIN scd2_internal.feed f USING (feed_id) WHERE f.source_name = 't0') >= } . ($change =~ /ADD/ ? 2 : $change =~ /RENAME/ ? 3 : 4));
    cmp_ok($took, '<', 30, sprintf('readers that overlap keep %s waiting for %.1f s', $change, $took));
    cmp_ok($lag, '<', 1.5, sprintf('%s: the others lag %.2f s at most', $change, $lag));
    cmp_ok($read, '<', 1.5, sprintf('%s: reads take %.2f s at most', $change, $read));
}
finish_writer($_) for $reader, $second, $load;
is_complete('readers that overlap');
done_testing();
