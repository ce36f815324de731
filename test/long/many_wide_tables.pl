# 300 captured tables of 200 columns, 50 of them with a history, written all over for two minutes
# beside temporary tables and a transaction that stays open: lag and memory stay bounded.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);
use Scd2;

my ($TABLES, $FLOWS, $COLUMNS, $SECONDS) = (300, 50, 200, 120);
my $node = new_node('wide', 'max_locks_per_transaction = 1024', "pg_scd2.decoding_work_mem = '16MB'");
$node->safe_psql('postgres', 'CREATE EXTENSION pg_scd2');
sync($node);
$node->safe_psql('postgres', qq{
    DO \$\$ BEGIN FOR i IN 1 .. $TABLES LOOP
        EXECUTE (SELECT format('CREATE TABLE w%s (id int PRIMARY KEY, v int NOT NULL DEFAULT 0, %s)', i,
            string_agg(format('c%s %s', c, (ARRAY['int DEFAULT 7', 'text DEFAULT md5(''x'')', 'numeric DEFAULT 1.50', 'timestamptz DEFAULT now()'])[c % 4 + 1]), ', '))
            FROM generate_series(3, $COLUMNS) c);
        EXECUTE format('INSERT INTO w%s (id) SELECT generate_series(1, 5)', i);
    END LOOP; END \$\$});
for my $statement ((map { "SELECT scd2.enable_change_feed('w$_')" } 1 .. $TABLES), (map { "SELECT scd2.track('w$_')" } 1 .. $FLOWS)) { $node->safe_psql('postgres', $statement); }
$node->safe_psql('postgres', "SELECT scd2.sync('5 min')");

my $open = $node->background_psql('postgres', on_error_stop => 0);
$open->query_safe("BEGIN; UPDATE w1 SET c3 = 8 WHERE id = 5");
my @writers = (start_writer($node, 'postgres', 2, "\\set t random(1, $TABLES)\n\\set id random(1, 4)\nUPDATE w:t SET v = v + 1 WHERE id = :id;\n"),
    start_writer($node, 'postgres', 1, "BEGIN;\nCREATE TEMP TABLE a (id int PRIMARY KEY, v text) ON COMMIT DROP;\nINSERT INTO a VALUES (1, 'x');\nCOMMIT;\n"));
my ($before, $captured, $applied) = (undef, 0, 0);
my $began = time;
while (time - $began < $SECONDS)
{
    my ($capture, $flows) = split /\|/, $node->safe_psql('postgres', 'SELECT extract(epoch FROM lag), (SELECT max(extract(epoch FROM lag)) FROM scd2.flows) FROM scd2.capture');
    $captured = $capture if $capture > $captured;
    $applied = $flows if $flows > $applied;
    $before //= worker_memory($node) if time - $began > $SECONDS / 3;
    sleep 1;
}
my $after = worker_memory($node);
finish_writer($_) for @writers;
cmp_ok($captured, '<', 10, sprintf 'capture was never more than %.2f s behind', $captured);
cmp_ok($applied, '<', 30, sprintf 'flows were never more than %.2f s behind', $applied);
memory_is_bounded($before, $after, 32, 300, 'memory of the workers');
$open->query_safe('COMMIT');
$open->quit;
$node->safe_psql('postgres', "SELECT scd2.sync('5 min')");
my @wrong = grep { $node->safe_psql('postgres', "SELECT count(*) FROM w${_}_changes") ne $node->safe_psql('postgres', "SELECT 2 * (sum(v) + count(*) FILTER (WHERE c3 = 8)) FROM w$_") } 1 .. $TABLES;
is("@wrong", '', 'each feed has both images of each update');
@wrong = grep { $node->safe_psql('postgres', "SELECT count(*) FROM (TABLE w$_ EXCEPT ALL SELECT " . join(', ', 'id', 'v', map { "c$_" } 3 .. $COLUMNS) . " FROM w${_}_history WHERE __end_at IS NULL) q") ne '0' } 1 .. $FLOWS;
is("@wrong", '', 'each history has the table');
done_testing();
