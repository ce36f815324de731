# VACUUM beside event flows, while keys come and go in windows that move on: it takes entries out of
# the indexes that flows find rows by, deletes their pages and uses them again, while a batch goes on
# from page to page. The targets are what the definition makes of all events, the indexes are whole,
# and pages did go.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('vacuum', 'pg_scd2.max_apply_workers = 2', 'vacuum_cost_delay = 0', 'autovacuum = off');
$node->safe_psql('postgres', 'CREATE EXTENSION pg_scd2; CREATE EXTENSION amcheck; CREATE EXTENSION pageinspect; CREATE EXTENSION pgstattuple');
wait_capture($node);
$node->safe_psql('postgres', slurp_file('../oracle/events.sql'));
# A window of keys is written, the one far behind it deleted, from time to time all of it comes again.
$node->safe_psql('postgres', q{
    CREATE TABLE ev (k int, p text, t text, u int, s int, op text, cut boolean);
    CREATE SEQUENCE moments;
    CREATE FUNCTION moment(late int) RETURNS int LANGUAGE sql VOLATILE AS $$ SELECT nextval('moments')::int - CASE WHEN random() < 0.2 THEN floor(random() * late)::int ELSE 0 END $$;
    CREATE FUNCTION window_of(width int) RETURNS int LANGUAGE sql VOLATILE AS $$ SELECT ((SELECT last_value FROM moments) / 8000 % 12)::int * width $$;
    CREATE PROCEDURE move(n int) LANGUAGE sql AS $$
        INSERT INTO ev SELECT window_of(2000) + floor(random() * 2000)::int, 'p', chr(97 + floor(random() * 3)::int), floor(random() * 4)::int, moment(3000), 'U', false FROM generate_series(1, n);
        INSERT INTO ev SELECT (window_of(2000) + 10000 + k) % 24000, 'p', NULL, NULL, moment(1), 'D', false FROM generate_series(floor(random() * 1700)::int, floor(random() * 1700)::int + 300) AS k;
    $$});
my $options = q{apply_as_deletes => 'op = ''D'''};
$node->safe_psql('postgres', "SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k,p}', 's', column_list => '{k,p,t,u}', track_history_column_list => '{t}', stored_as_scd_type => 2, $options);
    SELECT scd2.create_auto_cdc_flow('c', 'ev', '{k,p}', 's', column_list => '{k,p,t,u}', $options)");
sync($node);

my @indexes = split /\n/, $node->safe_psql('postgres', q{SELECT indexrelid::regclass FROM pg_index WHERE indrelid IN (SELECT oid FROM pg_class WHERE relname IN ('h', 'c', 'h_memory', 'c_memory')) ORDER BY 1});
cmp_ok(scalar @indexes, '==', 4, 'targets and memories have an index each');
my $deleted = 0;
for my $round (1 .. 4)
{
    my $writer = start_writer($node, 'postgres', 1, "CALL move(400);\n\\sleep 20 ms\n");
    for (1 .. 12)
    {
        $node->safe_psql('postgres', $_) for ('VACUUM (INDEX_CLEANUP on) c', 'VACUUM (INDEX_CLEANUP on) h_memory', 'VACUUM (INDEX_CLEANUP on) c_memory', 'VACUUM (INDEX_CLEANUP on) h');
        $deleted += $node->safe_psql('postgres', "SELECT sum(deleted_pages + empty_pages) FROM unnest('{" . join(',', @indexes) . "}'::regclass[]) AS i, pgstatindex(i)");
    }
    finish_writer($writer);
    sync($node);
    compare("round $round");
}
cmp_ok($deleted, '>', 0, 'pages of indexes were deleted meanwhile');

$node->safe_psql('postgres', 'CREATE INDEX ON c (u)');	# no update leaves the indexes alone
my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM c');
for my $round (1 .. 15)
{
    $node->safe_psql('postgres', "INSERT INTO ev SELECT k, 'p', chr(97 + $round % 3), $round, moment(100), CASE WHEN (k + $round) % 9 = 0 THEN 'D' ELSE 'U' END, false FROM generate_series(0, 799) AS k");
    sync($node);
}
cmp_ok($node->safe_psql('postgres', q{SELECT count(*) FROM generate_series(1, pg_relation_size('c_pkey') / current_setting('block_size')::int - 1) AS b, bt_page_items('c_pkey', b) WHERE tids IS NOT NULL}),
    '>', 0, 'there are lists of versions');
compare('with an old state in view');
$session->quit;
$node->safe_psql('postgres', "INSERT INTO ev SELECT k, 'p', 'z', 3, moment(1), 'U', false FROM generate_series(0, 799) AS k");
sync($node);
compare('once it is not');
is($node->safe_psql('postgres', q{SELECT flow || ' ' || coalesce(last_error, '') FROM scd2.flows WHERE state <> 'running' OR last_error IS NOT NULL}), '', 'no flow failed');
cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM ev'), '>', 20000, 'there was something to do');
done_testing();

sub compare
{
    my ($when) = @_;
    is($node->safe_psql('postgres', q{SELECT differences('h', 'k, p, t, u, __start_at, __end_at', format('k, p, t, u, start, "end" FROM (%s) AS x', expected('ev', 's::int', 't', NULL, '{}')))}), '0', "history, $when");
    is($node->safe_psql('postgres', q{SELECT differences('c', 'k, p, t, u', format('k, p, t, u FROM (%s) AS x WHERE "end" IS NULL', expected('ev', 's::int', 't, u', NULL, '{}')))}), '0', "current rows, $when");
    is($node->safe_psql('postgres', "SELECT bt_index_check(i, true) FROM unnest('{" . join(',', @indexes) . "}'::regclass[]) AS i"), "\n\n\n", "indexes are whole, $when");
    return;
}
