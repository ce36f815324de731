# The last partition of a feed is cut by size and by age while sessions write, poll and hold
# snapshots: nothing is lost or doubled, each partition has its own versions and no others, a crash
# in the middle leaves the feed whole, and who has it open puts the cut off without anybody waiting.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('leaves', "pg_scd2.debug_leaf_size = '64kB'", "pg_scd2.debug_upkeep_every = '100ms'", "pg_scd2.naptime = '100ms'");
create_audited_table($node, 'postgres');

my $LEAVES = q{SELECT count(*) FROM pg_inherits WHERE inhparent = 't_changes'::regclass};
my $LAST = q{(SELECT leaf FROM scd2_internal.last_leaf('t_changes'::regclass))};
sub sql { return $node->safe_psql('postgres', @_); }
sub leaves { return sql($LEAVES); }
sub set { return set_setting($node, @_); }

# Every row is where its version belongs, and there are no tables besides the partitions.
sub partitions_are_right
{
    my ($when) = @_;
    is(sql(q{SELECT sum(misplaced(i.inhrelid)) FROM pg_inherits i WHERE i.inhparent = 't_changes'::regclass}), '0', "every row is in the partition of its version $when");
    is(sql(q{SELECT count(*) FROM pg_class c WHERE relname LIKE 't\_changes\_p%' AND relkind = 'r' AND NOT relispartition}), '0', "no partition was left behind $when");
    return;
}

create_poller($node, 'postgres');
sql(q{
    CREATE FUNCTION misplaced(leaf regclass) RETURNS bigint LANGUAGE plpgsql AS $$
    DECLARE
        n bigint;
    BEGIN
        EXECUTE format('SELECT count(*) FROM ONLY %s WHERE (%s) IS NOT TRUE', leaf, pg_get_partition_constraintdef(leaf)) INTO n;
        RETURN n;
    END $$});
set('pg_scd2.debug_leaf_age', '0');
sql(q{SELECT scd2.alter_change_feed('t', retention => '0')});
sleep 1;
is(leaves(), '1', 'a feed without rows is not cut');
sql(q{SELECT scd2.alter_change_feed('t', retention => '7 days')});

# By size, with writers, a reader that polls, one who always asks for all there is, and one whose plan is kept. A worker that has
# the feed to itself for a cut is waited for: what is captured meanwhile is in the feed when its version is the latest.
sql(q{
    CREATE TABLE read_on (reads int DEFAULT 0, refused int DEFAULT 0, ended boolean DEFAULT false);
    INSERT INTO read_on DEFAULT VALUES;
    CREATE PROCEDURE read_on() LANGUAGE plpgsql AS $$
    DECLARE
        upto bigint;
        is_refused boolean;
    BEGIN
        LOOP
            upto := scd2.latest_version();
            BEGIN
                is_refused := false;
                PERFORM count(*) FROM scd2.table_changes('t', greatest(upto - 5, 1), upto);
            EXCEPTION WHEN object_not_in_prerequisite_state THEN
                is_refused := true;
                RAISE LOG 'refused: %', sqlerrm;
            END;
            UPDATE read_on SET reads = reads + 1, refused = refused + is_refused::int WHERE NOT ended;
            EXIT WHEN NOT FOUND;
            COMMIT;
            PERFORM pg_sleep(0.005);    -- in which it can be cut
        END LOOP;
    END $$});
my $kept = $node->background_psql('postgres');
$kept->query_safe('SET plan_cache_mode = force_generic_plan');
$kept->query_safe('PREPARE kept(bigint) AS SELECT count(*) FROM t_changes WHERE _commit_version <= $1');
$kept->query_safe('EXECUTE kept(1)');
my $writer = start_writer($node, 'postgres', 4);
my $reader = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'CALL read_on()' ], '<', \undef);
my $rounds = 0;
while ($rounds++ < 300 && (leaves() < 6 || $rounds < 10))
{
    sql('SELECT poll()');
    my $version = sql('SELECT version FROM polled_upto');
    my $polled = sql('SELECT count(*) FROM polled');
    if ($kept->query_safe("EXECUTE kept($version)") ne $polled) { fail("a kept plan finds what was polled"); last; }
}
finish_writer($writer);
sql('UPDATE read_on SET ended = true');
$reader->finish;
cmp_ok(leaves(), '>=', 6, 'cut by size, again and again');
my ($reads, $refused) = split /\|/, sql('SELECT reads, refused FROM read_on');
cmp_ok($reads, '>', 50, 'a reader read up to the latest version meanwhile');
# (A machine with much else to do may take longer for a cut than capture waits.)
cmp_ok($refused, '<=', $reads / 100, "... and was hardly ever told that it is not there yet: $refused times of $reads");
sync($node);
sql('SELECT poll()');
feed_is_right($node, 'postgres', 'after cuts by size');
history_is_right($node, 'postgres', 'after cuts by size');
partitions_are_right('after cuts by size');
is(sql(q{SELECT count(*) FROM ((TABLE polled EXCEPT ALL TABLE t_changes) UNION ALL (TABLE t_changes EXCEPT ALL TABLE polled)) d}), '0', 'who polls got each change once');
my $first = sql(qq{SELECT first_version FROM scd2_internal.last_leaf('t_changes'::regclass)});
my $plan = sql(qq{EXPLAIN (COSTS off) SELECT * FROM t_changes WHERE _commit_version >= $first});
is(() = $plan =~ /t_changes_p\d+ /g, 1, 'a range of versions reads only its partitions') or diag($plan);
wait_until($node, 'postgres', q{SELECT rows = (SELECT count(*) FROM audit) FROM scd2.feeds}, 'scd2.feeds counts the rows of all partitions');
$kept->quit;

# An old snapshot sees the same before and after. (It has not opened the feed: that would put the cut off.)
my $before = leaves();
my $count = sql('SELECT count(*) FROM t_changes');
my $old = $node->background_psql('postgres');
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
$old->query_safe('SELECT count(*) FROM audit');
$writer = start_writer($node, 'postgres', 2);
ok($node->poll_query_until('postgres', "SELECT ($LEAVES) > $before + 1"), 'old snapshots do not stand against a cut');
is($old->query_safe('SELECT count(*) FROM t_changes'), $count, 'and see what they saw');

# It has now. Nobody waits for anybody.
$before = leaves();
ok($node->poll_query_until('postgres', "SELECT pg_relation_size($LAST) > 4 * 65536"), 'a feed that is open in a transaction is not cut');
my $waits = 0;
$waits += sql(q{SELECT count(*) FROM pg_locks WHERE NOT granted AND relation IN (SELECT relid FROM pg_partition_tree('t_changes'))}) for 1 .. 20;
is($waits, 0, 'and nobody waits for it');
is(leaves(), $before, 'until then');
$old->query_safe('COMMIT');
$old->quit;
ok($node->poll_query_until('postgres', "SELECT ($LEAVES) > $before"), 'it is when that has ended');

# A lock that shuts everybody out ends no worker that looks after feeds.
my $workers = q{SELECT string_agg(pid::text, ',' ORDER BY pid) FROM pg_stat_activity WHERE backend_type LIKE 'pg_scd2%'};
my $pids = sql($workers);
my $owner = $node->background_psql('postgres');
$owner->query_safe('BEGIN');
$owner->query_safe('LOCK t_changes IN ACCESS EXCLUSIVE MODE');
sleep 2;
$owner->query_safe('COMMIT');
$owner->quit;
sync($node);
is(sql($workers), $pids, 'a locked feed is left alone');

# Crashes: an error just before the commit, then the server dies with it.
set('pg_scd2.debug_fail_at', 'feed cut');
my $log = -s $node->logfile;
ok($node->poll_query_until('postgres', "SELECT pg_relation_size($LAST) > 4 * 65536"), 'a cut that fails leaves the feed as it is');
like(substr(slurp_file($node->logfile), $log), qr/pg_scd2 apply.*ERROR:.*injected failure: feed cut/, 'and tells the log');
is(() = substr(slurp_file($node->logfile), $log) =~ /injected failure/g, 1, 'once');
$node->stop('immediate');
finish_writer($writer);
$node->start;
wait_capture($node);
$before = leaves();
partitions_are_right('after a crash');
set('pg_scd2.debug_fail_at', undef);
$node->restart;
ok($node->poll_query_until('postgres', "SELECT ($LEAVES) > $before"), 'it is cut after all');
for my $round (1 .. 3)
{
    $writer = start_writer($node, 'postgres', 2);
    $before = leaves();
    $node->poll_query_until('postgres', "SELECT ($LEAVES) > $before");
    $node->stop('immediate');
    finish_writer($writer);
    $node->start;
}
sync($node);
feed_is_right($node, 'postgres', 'after crashes');
history_is_right($node, 'postgres', 'after crashes');
partitions_are_right('after crashes');

# By age.
set('pg_scd2.debug_leaf_size', '1GB');
set('pg_scd2.debug_leaf_age', '300ms');
sql(q{SELECT scd2.alter_change_feed('t', retention => '5 s')});
ok($node->poll_query_until('postgres', "SELECT pg_relation_size($LAST) = 0"), 'what is old is cut off');
$before = sql("SELECT $LAST");
sql('INSERT INTO t VALUES (1000, 1)');
ok($node->poll_query_until('postgres', "SELECT $LAST <> $before"), 'cut when its first row is as old as a tenth of the retention');
is(sql("SELECT pg_relation_size($LAST)"), '0', 'the new one is empty');
$before = sql("SELECT $LAST");
sleep 2;
is(sql("SELECT $LAST"), $before, 'and not cut before it has rows');

# Dropping an old partition takes its rows and nothing else.
sql(q{SELECT scd2.alter_change_feed('t', retention => '7 days')});
sql('UPDATE t SET v = 1 WHERE id = 1000');
sync($node);
ok($node->poll_query_until('postgres', q{SELECT scd2_internal.cut_feed('t_changes'::regclass) IS NOT NULL}), 'one more');
my ($oldest, $rows) = split /\|/, sql(q{SELECT tableoid::regclass, count(*) FROM t_changes GROUP BY 1 ORDER BY min(_commit_version) LIMIT 1});
$count = sql('SELECT count(*) FROM t_changes');
sql("DROP TABLE $oldest");
is(sql('SELECT count(*) FROM t_changes'), $count - $rows, 'an old partition can be dropped');
sql('UPDATE t SET v = v + 1 WHERE id = 1000');
sync($node);
is(sql('SELECT v FROM t_history WHERE id = 1000 AND __end_at IS NULL'), '2', 'and the flow goes on');
done_testing();
