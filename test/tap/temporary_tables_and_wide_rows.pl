# Transactions that make and drop temporary tables, thousands a minute, beside a captured table of
# 200 columns (OP-07): capture keeps up, its memory stays where it was, and the feed is whole.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $COLUMNS = 200;
my $SECONDS = 10;
my $node = new_node('churn', 'max_locks_per_transaction = 256');
$node->safe_psql('postgres', qq{
    CREATE EXTENSION pg_scd2;
    DO \$\$ BEGIN EXECUTE (SELECT format('CREATE TABLE wide (id bigserial PRIMARY KEY, %s)', string_agg(format('c%s %s', i, (ARRAY['int', 'text', 'numeric', 'timestamptz'])[i % 4 + 1]), ', '))
        FROM generate_series(1, $COLUMNS) i); END \$\$;
    CREATE FUNCTION write_wide() RETURNS void LANGUAGE plpgsql AS \$f\$
    BEGIN
        EXECUTE (SELECT format('INSERT INTO wide (%s) VALUES (%s)', string_agg('c' || i, ', '),
                 string_agg(CASE i % 4 WHEN 0 THEN '7' WHEN 1 THEN quote_literal(md5(i::text)) WHEN 2 THEN '1.50' ELSE 'now()' END, ', ')) FROM generate_series(1, $COLUMNS) i);
        UPDATE wide SET c4 = c4 + 1 WHERE id = (SELECT max(id) FROM wide);
    END \$f\$;
    SELECT scd2.track('wide')});
sync($node);
my $pid = wait_capture($node);
my $TEMPORARY = "BEGIN;\nCREATE TEMP TABLE a (id int PRIMARY KEY, v text) ON COMMIT DROP;\nINSERT INTO a VALUES (1, 'x');\nCREATE TEMP TABLE b AS TABLE a;\nDROP TABLE b;\nCOMMIT;\n";

# private memory in MB; undefined where the system does not tell
sub memory
{
    return undef unless -r "/proc/$pid/status";
    return slurp_file("/proc/$pid/status") =~ /^RssAnon:\s+(\d+) kB/m ? $1 / 1024 : undef;
}

my ($before, $longest) = (undef, 0);
my $wide = start_writer($node, 'postgres', 1, "SELECT write_wide();\n");
my $temporary = start_writer($node, 'postgres', 2, $TEMPORARY);
for my $half_second (1 .. $SECONDS * 2)
{
    select(undef, undef, undef, 0.5);
    $before = memory() if $half_second == 6;    # caches are warm
    my $lag = $node->safe_psql('postgres', 'SELECT extract(epoch FROM lag) FROM scd2.capture');
    $longest = $lag if $lag > $longest;
}
my $after = memory();
finish_writer($_) for $wide, $temporary;
my $made = $node->safe_psql('postgres', q{SELECT n_tup_ins FROM pg_stat_sys_tables WHERE relid = 'pg_class'::regclass});
cmp_ok($longest, '<', 3, sprintf('capture was never more than %.2f s behind', $longest));
SKIP:
{
    skip 'the system does not tell of memory', 1 unless defined $before && defined $after;
    cmp_ok($after - $before, '<', 16, sprintf('its memory did not grow: %.1f MB, then %.1f MB', $before, $after));
}
sync($node);
my $rows = $node->safe_psql('postgres', 'SELECT count(*) FROM wide');
note "$rows rows, pg_class got $made";
cmp_ok($rows, '>', 100, 'rows were written meanwhile');
is($node->safe_psql('postgres', q{SELECT string_agg(_change_type || ' ' || n, ', ' ORDER BY _change_type) FROM (SELECT _change_type, count(*) AS n FROM wide_changes GROUP BY 1) q}),
    "insert $rows, update_postimage $rows, update_preimage $rows", 'the feed has each change once');
is($node->safe_psql('postgres', 'SELECT count(*) FROM (TABLE wide EXCEPT ALL SELECT id, ' . join(', ', map { "c$_" } 1 .. $COLUMNS) . ' FROM wide_history WHERE __end_at IS NULL) q'), '0', 'and every value of them');
$node->safe_psql('postgres', 'CHECKPOINT');
is($node->safe_psql('postgres', 'SELECT count(*) FROM scd2.diagnose()'), '0', 'nothing is wrong');
done_testing();
