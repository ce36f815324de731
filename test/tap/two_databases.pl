# Two databases of one server, each with its workers, slot and versions; a third without the
# extension has none. Writers in both, a crash in between.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('two');
$node->safe_psql('postgres', "CREATE DATABASE $_") for qw(one other plain);
create_audited_table($node, 'one');
create_audited_table($node, 'other');

isnt(capture_pid($node, 'one'), capture_pid($node, 'other'), 'each database has a capture worker of its own');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'pg_scd2%' AND datname IN ('plain', 'postgres')"),
    '0', 'none where the extension is not');
is($node->safe_psql('postgres', "SELECT count(DISTINCT slot_name), count(DISTINCT database) FROM pg_replication_slots WHERE plugin = 'pg_scd2'"),
    '2|2', 'a slot for each');

my @writers = map { start_writer($node, $_, 2) } qw(one other);
sleep 1;
$node->stop('immediate');
finish_writer($_) for @writers;
$node->start;
@writers = map { start_writer($node, $_, 2) } qw(one other);
sleep 1;
finish_writer($_) for @writers;
for my $db (qw(one other))
{
    sync($node, $db);
    feed_is_right($node, $db, "in $db");
    history_is_right($node, $db, "in $db");
}

# Extension gone: workers and slot go, the user's tables stay.
$node->safe_psql('other', 'DROP EXTENSION pg_scd2 CASCADE');
wait_until($node, 'postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type LIKE 'pg_scd2%' AND datname = 'other'",
    'DROP EXTENSION ends the workers');
wait_until($node, 'postgres', "SELECT count(*) = 1 FROM pg_replication_slots WHERE plugin = 'pg_scd2'", '... and drops the slot');
cmp_ok($node->safe_psql('other', 'SELECT count(*) FROM t_changes'), '>', 0, '... while feed and history stay');
$node->safe_psql('other', 'INSERT INTO t VALUES (1000, 1, NULL)');
sync($node, 'one');
ok(1, 'the other database goes on');
done_testing();
