# Much WAL of others behind a captured change: the change shows before all of it is read, the position
# moves on meanwhile, scd2.stop() is heard, and the next worker does not begin again at the change.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);
use Scd2;

my $MB = 500;

my $node = new_node('others', 'autovacuum = off', 'fsync = off', 'full_page_writes = off', 'max_wal_size = 4GB', 'checkpoint_timeout = 1h');
$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    CREATE TABLE t (id int PRIMARY KEY, v int);
    CREATE TABLE other (body text);});
$node->safe_psql('postgres', q{SELECT scd2.track('t')});
$node->safe_psql('postgres', 'INSERT INTO t VALUES (1, 0)');
sync($node);

# bytes of WAL between a captured update and the end, with nobody reading meanwhile
sub write_behind_an_update
{
    my ($v) = @_;
    stop_workers($node);
    $node->safe_psql('postgres', "UPDATE t SET v = $v");
    my $lsn = $node->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
    $node->safe_psql('postgres', join ';', ("INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 900)") x $MB);
    $node->safe_psql('postgres', 'TRUNCATE other');
    return $lsn;
}

# when QUERY is true: the time since START, and how much of the log is yet to be read
sub when
{
    my ($start, $query) = @_;
    my $result = $node->safe_psql('postgres', qq{
        DO \$\$ BEGIN FOR i IN 1 .. 60000 LOOP EXIT WHEN ($query); PERFORM pg_sleep(0.001); END LOOP; END \$\$;
        SELECT coalesce(pg_current_wal_lsn() - nullif(captured_lsn, '0/0'), pg_current_wal_lsn() - (SELECT captured_lsn FROM scd2_internal.position))::bigint >> 20 FROM scd2_internal.capture_status()});
    return (time - $start, $result);
}

my $lsn = write_behind_an_update(1);
my $start = time;
$node->safe_psql('postgres', 'SELECT scd2.start()');
my ($shown, $left) = when($start, 'SELECT EXISTS (SELECT FROM t_changes WHERE v = 1)');
cmp_ok($left, '>', $MB / 4, sprintf('the change is there after %.2f s, with %d MB of others\' to be read', $shown, $left));
($shown, $left) = when($start, "SELECT captured_lsn > '$lsn'::pg_lsn + 67108864 FROM scd2_internal.position");
cmp_ok($left, '>', $MB / 8, sprintf('the position moves on while others\' is read (%.2f s, %d MB left)', $shown, $left));
is($node->safe_psql('postgres', 'SELECT scd2.sync()'), $node->safe_psql('postgres', 'SELECT version FROM scd2_internal.position'), 'sync() waits for the end');
is($node->safe_psql('postgres', 'SELECT pg_current_wal_lsn() - captured_lsn < 1000000 FROM scd2_internal.capture_status()'), 't', '... which is reached then');
my $all = time - $start;

# Told to stop in the midst of it.
$lsn = write_behind_an_update(2);
$node->safe_psql('postgres', 'SELECT scd2.start()');
when($start, "SELECT captured_lsn > '$lsn'::pg_lsn + 67108864 FROM scd2_internal.position");
$start = time;
$node->safe_psql('postgres', 'SELECT scd2.stop()');
wait_until($node, 'postgres', 'SELECT pid IS NULL FROM scd2_internal.capture_status()', 'scd2.stop() is heard while there is much to read');
cmp_ok(time - $start, '<', 2, sprintf('... soon (of %.1f s for all)', $all));
my $kept = $node->safe_psql('postgres', "SELECT (captured_lsn - '$lsn'::pg_lsn)::bigint >> 20 FROM scd2_internal.position");
$left = $node->safe_psql('postgres', 'SELECT (pg_current_wal_lsn() - captured_lsn)::bigint >> 20 FROM scd2_internal.position');
ok($kept >= 64 && $left > 0, "what was read is not read again ($kept MB, $left MB are left)");
is($node->safe_psql('postgres', 'SELECT count(*) FROM t_changes WHERE v = 2'), '1', 'what was captured is in the feed');
$node->safe_psql('postgres', 'SELECT scd2.start()');
$node->safe_psql('postgres', 'UPDATE t SET v = 3');
sync($node);
is($node->safe_psql('postgres', q{SELECT string_agg(concat(_change_type, v), ' ' ORDER BY _commit_version, _change_ordinal) FROM t_changes}),
    'insert0 update_preimage0 update_postimage1 update_preimage1 update_postimage2 update_preimage2 update_postimage3', 'each change is there once');
is($node->safe_psql('postgres', 'SELECT v FROM t_history WHERE __end_at IS NULL'), '3', '... and in the history');
done_testing();
