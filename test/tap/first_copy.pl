# First copies of large tables: sessions change all keys at full speed while they run; a crash of the
# server in the middle, and none of it is there twice; their source dropped and made again meanwhile;
# the changes of other tables do not wait for them, nor does the log that the slot holds back.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('first_copy', 'pg_scd2.max_apply_workers = 2', 'checkpoint_timeout = 30s');
my $ROWS = 20000;
$node->safe_psql('postgres', qq{
    CREATE EXTENSION pg_scd2;
    -- whoever reads row 15000 waits for the lock of its number; valid since 2020
    CREATE FUNCTION pass(id int, gate int) RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE AS \$\$
    BEGIN
        IF id = 15000 THEN
            PERFORM pg_advisory_lock_shared(gate);
            PERFORM pg_advisory_unlock_shared(gate);
        END IF;
        RETURN '2020-01-01';
    END \$\$;
    CREATE TABLE big (id int PRIMARY KEY, v int, body text);
    CREATE TABLE other (id int PRIMARY KEY, v int);
    INSERT INTO big SELECT i, 0, repeat(md5(i::text), CASE WHEN i % 1000 = 0 THEN 300 ELSE 1 END) FROM generate_series(1, $ROWS) i;
    SELECT scd2.track('other')});
sync($node);

sub gate
{
    my ($number) = @_;
    my $gate = $node->background_psql('postgres');
    $gate->query_safe("SELECT pg_advisory_lock($number)");
    return $gate;
}

# (It gives up soon, as who waits for a lock on a target does, and comes back.)
my $waiting = q{FROM pg_stat_activity WHERE backend_type = 'pg_scd2 apply' AND wait_event = 'advisory'};

sub track
{
    my ($table, $target, $gate, $type) = @_;
    return $node->safe_psql('postgres', "SELECT scd2.track('$table', '$target', stored_as_scd_type => $type" . ($type == 2 ? ", initial_start => 'public.pass(id, $gate)'" : '') . ')');
}

# the open rows of a history (or the current rows) and the table, in one snapshot
sub is_the_source
{
    my ($table, $target, $when) = @_;
    my $rows = $target =~ /now$/ ? "SELECT id, v, body FROM $target" : "SELECT id, v, body FROM $target WHERE __end_at IS NULL";
    is($node->safe_psql('postgres', "SELECT count(*) FROM ((TABLE $table EXCEPT ALL $rows) UNION ALL ($rows EXCEPT ALL TABLE $table)) d"), '0', "$target is the table $when");
    return;
}

# other tables go on while a copy stands still in the middle
my $gate = gate(1);
track('big', 'held', 1, 2);
wait_until($node, 'postgres', "SELECT count(*) = 1 $waiting", 'a copy stands in the middle');
$node->safe_psql('postgres', 'INSERT INTO other SELECT i, i FROM generate_series(1, 100) i');
$node->safe_psql('postgres', q{SELECT scd2.sync('30 s', '{other_history}')});
is($node->safe_psql('postgres', 'SELECT count(*) FROM other_history'), '100', 'the changes of another table arrive meanwhile');
is($node->safe_psql('postgres', q{SELECT task, relation FROM scd2.progress}), 'first copy of flow held|held', 'the copy is to be seen');
$node->safe_psql('postgres', 'SELECT pg_switch_wal()');
my $end = $node->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
$node->safe_psql('postgres', "UPDATE other SET v = v + 1; CHECKPOINT");
wait_until($node, 'postgres', "SELECT confirmed_flush_lsn >= '$end' FROM pg_replication_slots WHERE plugin = 'pg_scd2'", '... and the slot does not wait for it');

# a crash in the middle: the copy is made again, as a whole
my $pid = '';
for (1 .. 100)
{
    last if $pid ne '';
    $pid = $node->safe_psql('postgres', "SELECT pid $waiting");
    select(undef, undef, undef, 0.1);
}
crash($node, $pid);
eval { $gate->quit };
wait_capture($node);
sync($node);
is($node->safe_psql('postgres', q{SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE __start_at = '2020-01-01') FROM held}), "$ROWS|$ROWS|$ROWS", 'after a crash in the middle every row is there once');
is_the_source('big', 'held', 'after a crash');
is($node->safe_psql('postgres', q{SELECT state, rows_inserted FROM scd2.flows WHERE flow = 'held'}), "running|$ROWS", '... and counted once');

# full speed: copies begin while all keys are changed
my $writer = start_writer($node, 'postgres', 4, <<"SCRIPT");
\\set id random(1, $ROWS)
\\set what random(1, 10)
\\if :what <= 5
UPDATE big SET v = v + 1 WHERE id BETWEEN :id AND :id + 20;
\\elif :what <= 7
DELETE FROM big WHERE id BETWEEN :id AND :id + 5;
\\elif :what <= 9
INSERT INTO big VALUES (:id, 1, 'came') ON CONFLICT (id) DO UPDATE SET body = 'came again';
\\else
UPDATE big SET id = -id WHERE id = :id AND NOT EXISTS (SELECT FROM big WHERE id = -:id);
\\endif
SCRIPT
for my $n (1 .. 3)
{
    track('big', "history_$n", 9, 2);
    track('big', "current_${n}_now", 9, 1);
    $node->poll_query_until('postgres', "SELECT count(*) = 2 FROM scd2.flows WHERE flow IN ('history_$n', 'current_${n}_now') AND state = 'running'") or die 'no copy';
}
finish_writer($writer);
$node->poll_query_until('postgres', "SELECT scd2.sync('50 s') > 0") or die 'sync';
is_the_source('big', $_, 'after copies among writers') for 'held', map { ("history_$_", "current_${_}_now") } 1 .. 3;
for my $n (1 .. 3)
{
    is($node->safe_psql('postgres', "SELECT count(*) FROM (SELECT __end_at, lead(__start_at) OVER (PARTITION BY id ORDER BY __start_at) AS next FROM history_$n) h WHERE __end_at > next OR (__end_at IS NULL AND next IS NOT NULL)"),
        '0', "no rows of history_$n overlap");
}
targets_are_right($node, 'postgres', 'after copies among writers');

# dropped and made again while a copy reads it: DROP waits for the copy, and the new table is another
$gate = gate(2);
$node->safe_psql('postgres', "CREATE TABLE gone (LIKE big INCLUDING ALL); INSERT INTO gone SELECT i, 0, 'row' FROM generate_series(1, $ROWS) i");
track('gone', 'gone_history', 2, 2);
wait_until($node, 'postgres', "SELECT count(*) = 1 $waiting", 'a copy stands in the middle');
my $drop = $node->background_psql('postgres', on_error_stop => 0);
$drop->query_until(qr/begun/, "\\echo begun\nBEGIN; DROP TABLE gone; CREATE TABLE gone (id int PRIMARY KEY, v int, body text); INSERT INTO gone VALUES (1, 1, 'another'); COMMIT;\n");
wait_until($node, 'postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%DROP TABLE gone%' AND wait_event_type = 'Lock' AND pid <> pg_backend_pid())}, 'DROP TABLE waits for it');
$gate->quit;
$drop->quit;
$node->poll_query_until('postgres', q{SELECT EXISTS (SELECT FROM scd2.diagnose() WHERE problem LIKE 'it was dropped%' AND subject ~ 'gone')}) or die 'nobody says so';
is($node->safe_psql('postgres', q{SELECT count(*) FROM gone_history WHERE body = 'another'}), '0', 'nothing of the new table is in the history of the old');
cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM gone_history'), '>', 0, '... which is there');
$node->safe_psql('postgres', q{SELECT scd2.enable_change_feed('gone', feed => 'gone_changes_2'); SELECT scd2.track('gone', 'gone_again')});
$node->safe_psql('postgres', q{SELECT scd2.sync('50 s', '{gone_again}')});
is($node->safe_psql('postgres', 'SELECT id, v, body FROM gone_again'), '1|1|another', 'the new table has its own');
done_testing();
