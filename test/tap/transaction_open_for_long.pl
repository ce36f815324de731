# A transaction with many changes stays open, another keeps its snapshot, while others write: their
# changes arrive in time, the workers' memory stays bounded (what is open is spilled), and when the
# transaction ends its changes are there and the server may forget the log.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);
use Scd2;

my $SECONDS = 15;
my $ROWS = 200_000;
my $MEMORY = 150;    # MB; without spilling the transaction would need over 200
my $node = new_node('open', "pg_scd2.decoding_work_mem = '4MB'", 'checkpoint_timeout = 30s');
create_audited_table($node, 'postgres');
$node->safe_psql('postgres', "INSERT INTO t VALUES (1, 1, 'x')");
$node->safe_psql('postgres', "CREATE TABLE large (id int PRIMARY KEY, body text); SELECT scd2.enable_change_feed('large')");
sync($node);

my $changes = $node->background_psql('postgres', on_error_stop => 0);
$changes->query_safe("BEGIN; INSERT INTO large SELECT i, repeat(md5(i::text), 30) FROM generate_series(1, $ROWS) i");
my $reader = $node->background_psql('postgres', on_error_stop => 0);
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t_history');

my $writer = start_writer($node, 'postgres', 2);
my $elsewhere = start_writer($node, 'postgres', 1, "BEGIN;\nCREATE TEMP TABLE a (id int) ON COMMIT DROP;\nINSERT INTO a SELECT generate_series(1, 1000);\nCOMMIT;\n");
my ($before, $captured, $applied) = (undef, 0, 0);
my $began = time;
while (time - $began < $SECONDS)
{
    my ($capture, $flow) = split /\|/, $node->safe_psql('postgres', 'SELECT extract(epoch FROM c.lag), extract(epoch FROM f.lag) FROM scd2.capture c, scd2.flows f');
    $captured = $capture if $capture > $captured;
    $applied = $flow if $flow > $applied;
    $before //= worker_memory($node) if time - $began > $SECONDS / 3;
    sleep 0.5;
}
my $after = worker_memory($node);
finish_writer($_) for $writer, $elsewhere;
cmp_ok($captured, '<', 5, sprintf 'capture was never more than %.2f s behind', $captured);
cmp_ok($applied, '<', 10, sprintf 'the flow was never more than %.2f s behind', $applied);
memory_is_bounded($before, $after, 32, $MEMORY, 'memory of the workers');
sync($node);
is($node->safe_psql('postgres', 'SELECT count(*) FROM large_changes'), '0', 'what is not committed is not there');
feed_is_right($node, 'postgres', 'while it is open');
history_is_right($node, 'postgres', 'while it is open');

$changes->query_safe('COMMIT');
$changes->quit;
sync($node);
memory_is_bounded({}, worker_memory($node), 0, $MEMORY, 'memory of the workers after its end');
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT id), bool_and(body = repeat(md5(id::text), 30)), count(DISTINCT _commit_version) FROM large_changes'),
    "$ROWS|$ROWS|t|1", 'its changes arrive when it ends');
$reader->query_safe('COMMIT');
$reader->quit;
my $end = $node->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
$node->safe_psql('postgres', 'CHECKPOINT');
wait_until($node, 'postgres', "SELECT restart_lsn > '$end' FROM pg_replication_slots WHERE plugin = 'pg_scd2'", 'the server may forget the log of it');
feed_is_right($node, 'postgres', 'in the end');
history_is_right($node, 'postgres', 'in the end');
done_testing();
