# An application that locks feeds in any order, while each transaction writes two of their tables, columns come and partitions
# are cut, meets no deadlock: capture and upkeep only try for locks.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use Scd2;

my $node = new_node('locks_in_any_order', "deadlock_timeout = '10ms'", "pg_scd2.debug_leaf_size = '64kB'", "pg_scd2.debug_upkeep_every = '50ms'");
sub sql { return $node->safe_psql('postgres', @_); }
sql('CREATE EXTENSION pg_scd2');

for my $t ('a', 'b')
{
    sql(qq{
        CREATE TABLE $t (id int PRIMARY KEY, v int NOT NULL);
        INSERT INTO $t SELECT i, 0 FROM generate_series(1, 100) i;
        SELECT scd2.enable_change_feed('$t');});
}
sync($node);
# Both orders in each session. Rows are in the order of their keys, so that writers do not meet each other.
my $writer = start_writer($node, 'postgres', 1, <<'END');
BEGIN;
UPDATE a SET v = v + 1 WHERE id <= 5;
UPDATE b SET v = v + 1 WHERE id <= 5;
COMMIT;
\sleep 1 ms
BEGIN;
UPDATE b SET v = v + 1 WHERE id > 95;
UPDATE a SET v = v + 1 WHERE id > 95;
COMMIT;
\sleep 1 ms
END

my $application = $node->background_psql('postgres', on_error_stop => 0);
my $met = '';
my $locks = 0;

sub locks
{
    my ($first, $second) = @_;
    for ('BEGIN', $first, 'SELECT pg_sleep(0.03)', $second, 'COMMIT')
    {
        $application->query($_);
        $met .= $application->{stderr};
        $application->{stderr} = '';
    }
    $locks++;
    return;
}

for my $round (1 .. 6)
{
    for my $mode ('SHARE', 'SHARE ROW EXCLUSIVE', 'EXCLUSIVE', 'ACCESS EXCLUSIVE')
    {
        locks("LOCK TABLE b_changes IN $mode MODE", "LOCK TABLE a_changes IN $mode MODE");
        locks("LOCK TABLE a_changes IN $mode MODE", "LOCK TABLE b_changes IN $mode MODE");
    }
    locks("CREATE INDEX ON b_changes (id)", "CREATE INDEX ON a_changes (id)");
    locks("CREATE INDEX ON a_changes (v)", "CREATE INDEX ON b_changes (v)");
    sql("ALTER TABLE a ADD COLUMN c$round int DEFAULT $round; ALTER TABLE b ADD COLUMN c$round int DEFAULT $round");
}
$application->quit;
finish_writer($writer);
is($locks, 60, 'an application locked two feeds again and again');
is($met, '', '... and met no deadlock');
unlike(slurp_file($node->logfile), qr/deadlock detected/, 'nor did anybody else');
sync($node);
for my $t ('a', 'b')
{
    is(sql("SELECT state, gap FROM scd2.feeds WHERE source = '$t'::regclass"), 'running|', "the feed of $t goes on");
    is(sql("SELECT count(*) FROM ${t}_changes WHERE _change_type = 'update_postimage'"), sql("SELECT sum(v) FROM $t"), "the feed of $t has every update, once");
}
done_testing();
