# Minutes of heavy writes in tables that are not captured, of this and of another database, and 5,000
# temporary tables a minute, while nothing happens in the captured table: the slot follows the log,
# never more than a minute behind, and the workers' memory stays where it was.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);
use Scd2;

my $SECONDS = 180;
my $node = new_node('busy', 'checkpoint_timeout = 5min', 'max_wal_size = 4GB');
create_audited_table($node, 'postgres');
$node->safe_psql('postgres', "INSERT INTO t VALUES (1, 1, 'x')");
$node->safe_psql('postgres', 'CREATE DATABASE busy');
$node->safe_psql($_, "CREATE TABLE heavy AS SELECT i AS id, 0 AS v, repeat('x', 200) AS filler FROM generate_series(1, 10000) i; CREATE UNIQUE INDEX ON heavy (id)") for qw(postgres busy);
sync($node);
my $temporary = '';
$temporary .= "BEGIN;\nCREATE TEMP TABLE a$_ (id int PRIMARY KEY, v text) ON COMMIT DROP;\nINSERT INTO a$_ VALUES (1, 'x');\nCOMMIT;\n" for 1 .. 10;
my $heavy = "\\set id random(1, 10000)\nUPDATE heavy SET v = v + 1 WHERE id BETWEEN :id AND :id + 50;\n";

my @writers = ((map { start_writer($node, $_, 1, $heavy) } qw(postgres busy)), start_writer($node, 'postgres', 2, "\\sleep 1 s\n" . $temporary x 10));
my (@positions, $before, %behind);
my $began = time;
while (time - $began < $SECONDS)
{
    push @positions, [ time, $node->safe_psql('postgres', 'SELECT pg_current_wal_lsn()') ];
    # the time of the oldest position that is not behind the slot yet
    for my $which (qw(confirmed_flush_lsn restart_lsn))
    {
        my $passed = $node->safe_psql('postgres', "SELECT $which FROM pg_replication_slots WHERE plugin = 'pg_scd2'");
        my ($oldest) = grep { lsn($_->[1]) > lsn($passed) } @positions;
        my $seconds = $oldest ? time - $oldest->[0] : 0;
        $behind{$which} = $seconds if $seconds > ($behind{$which} // 0);
    }
    $before //= worker_memory($node) if time - $began > 45;
    sleep 1;
}
my $after = worker_memory($node);
finish_writer($_) for @writers;

sub lsn { my ($high, $low) = split m{/}, $_[0]; return hex($high) * 2**32 + hex $low; }

note sprintf '%s of WAL, %s temporary tables a minute',
  $node->safe_psql('postgres', "SELECT pg_size_pretty('$positions[-1][1]'::pg_lsn - '$positions[0][1]')"),
  $node->safe_psql('postgres', "SELECT n_tup_del * 60 / $SECONDS FROM pg_stat_sys_tables WHERE relid = 'pg_constraint'::regclass");
cmp_ok($behind{$_}, '<', 60, sprintf '%s was never more than %.1f s behind the log', $_, $behind{$_}) for qw(confirmed_flush_lsn restart_lsn);
memory_is_bounded($before, $after, 32, 100, 'memory of the workers');
sync($node);
feed_is_right($node, 'postgres', 'in the end');
is($node->safe_psql('postgres', 'SELECT count(*) FROM scd2.diagnose()'), '0', 'nothing is wrong');
done_testing();
