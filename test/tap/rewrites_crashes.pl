# A rewrite that the log does not show is repaired exactly once, also if capture or the repair is
# interrupted at any step of it, by an error in a worker or a crash of the server, and the table goes
# on being altered before they come back.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('rewrites_crashes');
$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    CREATE TABLE t (id int PRIMARY KEY, v int, body text, kind text);
    SELECT scd2.track('t');
    SELECT scd2.track('t', 't_now', stored_as_scd_type => 1);});
sync($node);
$node->safe_psql('postgres', "INSERT INTO t SELECT i, i, 'x', 'k' FROM generate_series(1, 200) i");
sync($node);

my $repairs = 0;

sub repaired_once
{
    my ($what) = @_;
    sync($node);
    $repairs++;
    is($node->safe_psql('postgres', 'SELECT state, gap FROM scd2.feeds'), 'running|', "$what: repaired");
    is($node->safe_psql('postgres', q{SELECT count(*) FROM scd2.describe_history('t') WHERE operation LIKE 'RECONSTRUCTED%'}), $repairs, "$what: once");
    my $names = $node->safe_psql('postgres', q{SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 AND NOT attisdropped});
    is($node->safe_psql('postgres', qq{
            SELECT count(*) FROM (SELECT $names, sum(balance) AS balance FROM (
                SELECT $names, CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END AS balance FROM t_changes
                UNION ALL SELECT $names, -1 FROM t) i GROUP BY $names) x WHERE balance <> 0}),
        '0', "$what: the images of the feed add up to the table");
    is($node->safe_psql('postgres', qq{
            (SELECT $names FROM t EXCEPT ALL SELECT $names FROM t_now) UNION ALL (SELECT $names FROM t_now EXCEPT ALL SELECT $names FROM t)
            UNION ALL (SELECT $names FROM t EXCEPT ALL SELECT $names FROM t_history WHERE __end_at IS NULL)
            UNION ALL (SELECT $names FROM t_history WHERE __end_at IS NULL EXCEPT ALL SELECT $names FROM t)}),
        '', "$what: the targets are the table");
    is($node->safe_psql('postgres', q{SELECT * FROM scd2.check_target('t_history') UNION ALL SELECT * FROM scd2.check_target('t_now')}), '', "$what: and nothing is wrong with them");
    return;
}

# Each rewrites; what comes behind it, before the workers are back, is followed as if they had been there.
my @rewrites = (
    "ALTER TABLE t ADD COLUMN r double precision DEFAULT random()",
    "ALTER TABLE t ALTER COLUMN body TYPE text USING body || '!'",
    "ALTER TABLE t ADD COLUMN twice int GENERATED ALWAYS AS (v * 2) STORED",
    "ALTER TABLE t DROP COLUMN twice, ALTER COLUMN random TYPE double precision USING random + 1",
    "ALTER TABLE t ALTER COLUMN kind TYPE date USING date '2026-01-01' + v",
    "ALTER TABLE t ALTER COLUMN sort TYPE timestamp, ALTER COLUMN v TYPE bigint; ALTER TABLE t ALTER COLUMN sort TYPE text; ALTER TABLE t RENAME COLUMN sort TO kind; ALTER TABLE t DROP COLUMN v; ALTER TABLE t ADD COLUMN v int DEFAULT 7");
my @behind = (
    "ALTER TABLE t RENAME COLUMN r TO random",
    "ALTER TABLE t ADD COLUMN five int DEFAULT 5; UPDATE t SET five = 6 WHERE id = 60",
    "UPDATE t SET body = 'behind' WHERE id = 61",
    "ALTER TABLE t DROP COLUMN five; ALTER TABLE t ADD COLUMN r text DEFAULT 'constant'; ALTER TABLE t DROP COLUMN r; UPDATE t SET v = 3 WHERE id = 62",
    "ALTER TABLE t RENAME COLUMN kind TO sort; UPDATE t SET sort = sort + 1 WHERE id = 63",
    "UPDATE t SET v = 5 WHERE id = 64; ALTER TABLE t ADD COLUMN more text; UPDATE t SET more = 'm' WHERE id = 65; ALTER TABLE t DROP COLUMN more");

# Waits until a failure was injected, after this place in the log.
sub came_by
{
    my ($where, $from) = @_;
    for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
    {
        return 1 if slurp_file($node->logfile, $from) =~ /injected failure: $where/;
        $node->safe_psql('postgres', 'SELECT pg_sleep(0.1)');
    }
    return 0;
}

my $n = 0;
for my $case (['decoded', 'error'], ['feeds written', 'crash'], ['position written', 'error'], ['position written', 'crash'], ['committed', 'error'], ['committed', 'crash'],
    ['resync taken', 'crash'], ['resync compared', 'error'], ['resync compared', 'crash'], ['resync done', 'crash'], ['resync committed', 'error'], ['resync committed', 'crash'])
{
    my ($where, $how) = @$case;
    my $rewrite = $rewrites[$n % 6];
    my $after = $behind[$n % 6];
    $n++;
    $node->safe_psql('postgres', 'ALTER TABLE t DROP COLUMN random') if $n % 6 == 1 && $n > 1;
    sync($node);
    my $from = -s $node->logfile;
    fail_at($node, $where);
    $node->safe_psql('postgres', "BEGIN; UPDATE t SET v = v + 1 WHERE id = $n; DELETE FROM t WHERE id = 100 + $n; $rewrite; INSERT INTO t (id, body) VALUES (300 + $n, 'came'); COMMIT");
    $node->safe_psql('postgres', "$after; UPDATE t SET v = v + 1 WHERE id = 50 + $n");
    ok(came_by($where, $from), "$how at $where: it came by");
    come_back($node, $how);
    repaired_once("$how at $where");
}

# The slot is lost while the repair waits: what it would have brought comes with scd2.resync().
fail_at($node, 'wait: resync taken');
$node->safe_psql('postgres', $rewrites[1]);
wait_until($node, 'postgres', q{SELECT state = 'repairing' FROM scd2.feeds}, 'a repair waits');
lose_slot($node, 'postgres', 'UPDATE t SET v = v + 1 WHERE id = 32');
is($node->safe_psql('postgres', 'SELECT state, upper_inf(gap) FROM scd2.feeds'), 'failed|t', 'the slot is lost meanwhile: the feed has failed');
fail_at($node);
$node->safe_psql('postgres', q{SELECT scd2.resync('t')});
repaired_once('lost meanwhile');

# Another rewrite while the repair waits: one repair, at the last of them, as what is between cannot be told apart any more.
fail_at($node, 'wait: resync taken');
$node->safe_psql('postgres', $rewrites[1]);
wait_until($node, 'postgres', q{SELECT state = 'repairing' FROM scd2.feeds}, 'a repair waits');
$node->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id = 33');
$node->safe_psql('postgres', $rewrites[1]);
fail_at($node);
repaired_once('rewritten meanwhile');
done_testing();
