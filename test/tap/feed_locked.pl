# One feed alone: whatever lock somebody holds on a feed, the changes of nine other tables are in theirs within a
# second, nobody who reads any of them queues behind us, and when the lock is gone the feed has everything.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use Scd2;

my $HELD = $ENV{PG_TEST_EXTRA} && $ENV{PG_TEST_EXTRA} =~ /feed_locked/ ? 60 : 3;   # seconds for each lock
my $node = new_node('feed_locked', "pg_scd2.debug_upkeep_every = '200ms'");
create_audited_table($node);
$node->safe_psql('postgres', q{
    SELECT format('CREATE TABLE o%1$s (id int PRIMARY KEY, at timestamptz)', n) FROM generate_series(1, 9) n \gexec
    SELECT format('SELECT scd2.enable_change_feed(%L)', 'o' || n) FROM generate_series(1, 9) n \gexec
    SELECT format('INSERT INTO o%s VALUES (1, clock_timestamp())', n) FROM generate_series(1, 9) n \gexec
    -- how far capture is behind those who write without end; none of the others' changes waits
    CREATE FUNCTION lag() RETURNS float8 LANGUAGE sql AS $$
        SELECT CASE WHEN EXISTS (SELECT FROM scd2_internal.feed_backlog b JOIN scd2_internal.feed f USING (feed_id) WHERE f.source_name <> 't') THEN 'infinity'
                    ELSE extract(epoch FROM clock_timestamp() - p.commit_timestamp) END FROM scd2_internal.position p $$});
sync($node);

my $beside = start_writer($node, 'postgres', 2, join('', map { "UPDATE o$_ SET at = clock_timestamp();\n\\sleep 1 ms\n" } 1 .. 9));
my $some = join('', map { "\\set kind random(1, 10)\n\\set id random(1, 200)\n\\set v random(1, 1000)\nSELECT step(:kind, :id, :v);\n\\sleep 1 ms\n" } 1);
my $writer = start_writer($node, 'postgres', 2, $some);

# Looks at the others until the time is over. Returns the longest lag, and how long a read of feeds took at most ("all": nobody can read
# that of t).
sub watch
{
    my ($seconds, $all) = @_;
    my ($lag, $read) = (0, 0);
    my $end = time + $seconds;
    sleep 0.5;
    while (time < $end)
    {
        my $now = $node->safe_psql('postgres', 'SELECT lag()');
        my $at = time;
        $node->safe_psql('postgres', 'SELECT FROM t_changes LIMIT 1') unless $all;
        $node->safe_psql('postgres', "SELECT FROM o${_}_changes LIMIT 1") for 1, 9;
        $read = time - $at if time - $at > $read;
        $lag = $now if $now > $lag;
        sleep 0.1;
    }
    return ($lag, $read);
}

sub others_go_on
{
    my ($what) = @_;
    my ($lag, $read) = watch($HELD, $what =~ /^ACCESS EXCLUSIVE/);
    cmp_ok($lag, '<', 1, sprintf('%s: the others lag %.2f s at most', $what, $lag));
    cmp_ok($read, '<', 1, sprintf('%s: reads take %.2f s at most', $what, $read));
    return;
}

sub is_complete_again
{
    my ($what) = @_;
    is($node->safe_psql('postgres', "SELECT scd2.sync('50 s') > 0"), 't', "$what: sync() returns");
    is($node->safe_psql('postgres', 'SELECT count(*) FROM scd2_internal.feed_backlog') +
       $node->safe_psql('postgres', 'SELECT count(*) FROM scd2_internal.backlog'), 0, "$what: nothing waits any more");
    return;
}

# The feed has what the audit has, in order: neither more nor less.
sub feed_has_all
{
    my ($when) = @_;
    is($node->safe_psql('postgres', q{
            WITH f AS (SELECT _xid AS xid, row_number() OVER (PARTITION BY _xid ORDER BY _change_ordinal) AS n, _change_type AS change, id FROM t_changes),
                 a AS (SELECT xid, row_number() OVER (PARTITION BY xid ORDER BY n) AS n, change, (image ->> 'id')::int AS id FROM audit)
            SELECT count(*) FROM ((TABLE a EXCEPT ALL TABLE f) UNION ALL (TABLE f EXCEPT ALL TABLE a)) d}), '0', "the feed is the audit $when");
    is($node->safe_psql('postgres', q{
            SELECT count(*) FROM (SELECT _commit_version < lag(_commit_version) OVER w OR _commit_timestamp < lag(_commit_timestamp) OVER w AS back
                                  FROM t_changes WINDOW w AS (PARTITION BY tableoid ORDER BY ctid)) o WHERE back}), '0', "in the order of versions $when");
    return;
}

my $holder = $node->background_psql('postgres');

# Locks of rows: those that writers cannot go beside.
for my $mode ('SHARE', 'SHARE ROW EXCLUSIVE', 'EXCLUSIVE', 'ACCESS EXCLUSIVE')
{
    for my $relation ('t_changes', $node->safe_psql('postgres', q{SELECT max(inhrelid)::regclass FROM pg_inherits WHERE inhparent = 't_changes'::regclass}))
    {
        $holder->query_safe('BEGIN');
        $holder->query_safe("LOCK TABLE $relation IN $mode MODE");
        others_go_on("$mode on $relation");
        like($node->safe_psql('postgres', q{SELECT waits_for FROM scd2.feeds WHERE source = 't'::regclass}), qr/^process \d+ has held a lock/, 'the holder is named');
        $holder->query_safe('COMMIT');
        $node->poll_query_until('postgres', q{SELECT complete_version >= scd2.latest_version() - 100 FROM scd2.feeds WHERE source = 't'::regclass}) or die;
    }
}
finish_writer($writer);
is_complete_again('locks of rows');
feed_has_all('after locks of rows');
history_is_right($node, 'postgres', 'after locks of rows');

# A reader that does not end, and a column that comes: ALTER TABLE of the feed would need it for itself.
$writer = start_writer($node, 'postgres', 2, $some);
$holder->query_safe('BEGIN');
$holder->query_safe('SELECT count(*) FROM t_changes');
$node->safe_psql('postgres', 'ALTER TABLE t ADD COLUMN extra int DEFAULT 7');
others_go_on('a reader of the feed beside ADD COLUMN');
my ($diagnosed) = $node->safe_psql('postgres', q{SELECT problem || ': ' || detail || ' ' || fix FROM scd2.diagnose() WHERE problem LIKE 'its changes since%'});
like($diagnosed, qr/^its changes since version \d+ wait to be written into its feed: Process \d+ has held a lock.*pg_terminate_backend/, 'diagnose names the holder, and the statement');
my $at = time;
$node->safe_psql('postgres', 'SELECT count(*) FROM t_changes');
cmp_ok(time - $at, '<', 1, 'who comes to read that feed does not queue behind us');
$node->safe_psql('postgres', 'ALTER TABLE t RENAME COLUMN extra TO more; UPDATE t SET more = 8 WHERE id < 10; ALTER TABLE t ALTER COLUMN v TYPE bigint');
sleep 1;
my ($code, $out, $err) = $node->psql('postgres', q{SELECT count(*) FROM scd2.table_changes('t', 1, scd2.latest_version())});
like($err, qr/has no changes after version \d+ yet.*process \d+ has/s, 'a read up to a version that waits says for whom');
$holder->query_safe('COMMIT');
finish_writer($writer);
is_complete_again('ADD COLUMN beside a reader');
feed_has_all('after a change of columns');
is($node->safe_psql('postgres', q{SELECT count(*) FROM t EXCEPT SELECT count(*) FROM t_history WHERE __end_at IS NULL}), '', 'the history has all rows');
is($node->safe_psql('postgres', q{SELECT count(*) FROM (SELECT id, v, body, more FROM t EXCEPT ALL SELECT id, v, body, more FROM t_history WHERE __end_at IS NULL) d}), '0', 'with their columns');
is($node->safe_psql('postgres', q{SELECT string_agg(problem, '; ') FROM scd2.check_target('t_history')}), '', 'and is what its source says');

finish_writer($beside);
$holder->quit;
done_testing();
