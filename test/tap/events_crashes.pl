# Flows over event tables, with crashes in between: events late, twice and in any order, deletes,
# truncates, invalid ones; workers killed (a crash of the server) and terminated, immediate stops,
# errors injected. After each the targets are what the definition makes of all events, each was
# counted once, and two flows into one target have brought it to the same. Two flows take NULL as
# not sent, and one has a horizon, which must be where it would be without the crashes.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $seed = $ENV{SEED} // int(rand(1_000_000));
srand($seed);
note "SEED=$seed";
my $node = new_node('events', 'pg_scd2.batch_changes = 40', 'pg_scd2.max_apply_workers = 2', 'checkpoint_timeout = 30s');
$node->safe_psql('postgres', 'CREATE EXTENSION pg_scd2');
wait_capture($node);
$node->safe_psql('postgres', slurp_file('../oracle/events.sql'));
$node->safe_psql('postgres', q{
    CREATE TABLE ev (k int, p text, t text, u int, s int, op text, cut boolean);
    CREATE TABLE ev2 (LIKE ev);
    CREATE VIEW both_ev AS TABLE ev UNION ALL TABLE ev2;
    -- the "n" events of a transaction; now and then some that were there before, and what cannot be an event
    CREATE FUNCTION new_events(n int, top int) RETURNS SETOF ev LANGUAGE sql VOLATILE AS $$
        SELECT CASE WHEN random() < 0.005 THEN NULL ELSE floor(random() * 80)::int END, CASE WHEN random() < 0.5 THEN 'a' ELSE 'b' END,
               CASE WHEN random() < 0.1 THEN NULL ELSE chr(97 + floor(random() * 3)::int) END, CASE WHEN random() < 0.1 THEN NULL ELSE floor(random() * 4)::int END,
               CASE WHEN random() < 0.005 THEN NULL ELSE floor(random() * top)::int END, CASE WHEN random() < 0.2 THEN 'D' ELSE 'U' END, random() < 0.0005
        FROM generate_series(1, n);
    $$;
    INSERT INTO ev SELECT (new_events(300, 900)).*;
    INSERT INTO ev2 SELECT (new_events(300, 900)).*;
    CREATE TABLE first_ev AS TABLE ev});

my $OPTIONS = q{apply_as_deletes => 'op = ''D''', apply_as_truncates => 'cut', on_invalid_event => 'quarantine'};
# What a flow with a horizon takes follows from the order in which events came.
$node->safe_psql('postgres', "SELECT scd2.create_auto_cdc_flow('late_h', 'ev', '{k,p}', 's', column_list => '{k,p,t,u}', track_history_column_list => '{t}', stored_as_scd_type => 2, max_lateness => '400', $OPTIONS)");
$node->safe_psql('postgres', 'SELECT scd2.sync()');
$node->safe_psql('postgres', q{
    CREATE VIEW late_ev AS
        SELECT k, p, t, u, s, op, cut
        FROM (SELECT *, max(CASE WHEN cut OR k IS NOT NULL THEN s END) OVER (ORDER BY v, o ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS seen
              FROM (SELECT 0 AS v, 0 AS o, * FROM first_ev UNION ALL
                    SELECT _commit_version, _change_ordinal, k, p, t, u, s, op, cut FROM ev_changes WHERE _change_type = 'insert') AS e) AS q
        WHERE v = 0 OR s IS NULL OR s >= seen - 400});
my @FLOWS = (
    "SELECT scd2.create_auto_cdc_flow('nulls_h', 'ev2', '{k,p}', 's', column_list => '{k,p,t,u}', track_history_column_list => '{t}', stored_as_scd_type => 2, ignore_null_updates => true, $OPTIONS)",
    "SELECT scd2.create_auto_cdc_flow('nulls_c', 'ev2', '{k,p}', 's', column_list => '{k,p,t,u}', ignore_null_updates => true, $OPTIONS)",
    "SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k,p}', 's', column_list => '{k,p,t,u}', track_history_column_list => '{t}', stored_as_scd_type => 2, $OPTIONS)",
    "SELECT scd2.create_auto_cdc_flow('c', 'ev', '{k,p}', 's', column_list => '{k,p,t,u}', $OPTIONS)",
    "SELECT scd2.create_auto_cdc_flow('both_h', 'ev', '{k,p}', 's', except_column_list => '{op,cut}', stored_as_scd_type => 2, shared => true, $OPTIONS)",
    "SELECT scd2.create_auto_cdc_flow('both_h', 'ev2', '{k,p}', 's', except_column_list => '{op,cut}', stored_as_scd_type => 2, shared => true, name => 'second_h', $OPTIONS)",
    "SELECT scd2.create_auto_cdc_flow('both_c', 'ev2', '{k,p}', 's', column_list => '{k,p,t,u}', shared => true, $OPTIONS)",
    "SELECT scd2.create_auto_cdc_flow('both_c', 'ev', '{k,p}', 's', column_list => '{k,p,t,u}', shared => true, name => 'second_c', $OPTIONS)");

# Events come later and later, mostly, and some were there before.
my $WRITER = <<'SCRIPT';
\set n random(1, 12)
\set ending random(1, 10)
\set which random(1, 3)
BEGIN;
\if :which = 1
INSERT INTO ev2 SELECT (new_events(:n, 1500)).*;
\else
INSERT INTO ev SELECT (new_events(:n, 1500)).*;
INSERT INTO ev SELECT * FROM (SELECT * FROM ev TABLESAMPLE BERNOULLI (5) LIMIT 3) q WHERE random() < 0.3;
\endif
\if :ending = 1
ROLLBACK;
\else
COMMIT;
\endif
SCRIPT

sub pid_of
{
    my ($type) = @_;
    return $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type LIKE 'pg_scd2 $type%' ORDER BY random() LIMIT 1");
}

my @points = ('decoded', 'committed', 'applied', 'applied and committed');
my %INCIDENTS = (
    'SIGKILL of capture' => sub { crash($node, wait_capture($node)); return; },
    'SIGKILL of apply'   => sub { my $pid = pid_of('apply'); crash($node, $pid) if $pid; return; },
    'immediate stop'     => sub { $node->stop('immediate'); $node->start; return; },
    'workers terminated' => sub {
        for (1 .. 4)
        {
            $node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type LIKE 'pg_scd2 apply%' OR (backend_type LIKE 'pg_scd2 capture%' AND random() < 0.5)});
            select(undef, undef, undef, rand(0.4));
        }
        return;
    },
    'errors injected'    => sub {
        $node->safe_psql('postgres', "ALTER SYSTEM SET pg_scd2.debug_fail_at = '$points[rand @points]'");
        $node->reload;
        sleep 1;
        $node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_scd2.debug_fail_at');
        $node->reload;
        # A busy machine: a flow may have failed so often that it was given up.
        $node->poll_query_until('postgres', q{SELECT current_setting('pg_scd2.debug_fail_at', true) IS NULL OR current_setting('pg_scd2.debug_fail_at') = ''});
        sleep 1;
        $node->safe_psql('postgres', q{SELECT scd2.resume_flow(flow) FROM scd2.flows WHERE last_error LIKE '%injected failure%'});
        return;
    });

my $round = 0;
for my $incident ('immediate stop', 'SIGKILL of apply', 'SIGKILL of capture', 'workers terminated', 'SIGKILL of apply', 'errors injected', 'immediate stop', 'SIGKILL of apply')
{
    $round++;
    my $writer = start_writer($node, 'postgres', 3, $WRITER);
    # flows begin while others write and things go wrong
    $node->safe_psql('postgres', shift @FLOWS) if @FLOWS;
    select(undef, undef, undef, rand(0.8));
    $INCIDENTS{$incident}->();
    finish_writer($writer);
    wait_capture($node);
    $node->safe_psql('postgres', shift @FLOWS) if @FLOWS && $round > 1;
    $node->poll_query_until('postgres', "SELECT scd2.sync('50 s') > 0") or die 'sync';
    compare("after $incident ($round)");
}
$node->safe_psql('postgres', "SELECT scd2.full_refresh('both_h'), scd2.full_refresh('h'), scd2.full_refresh('c')");
sync($node);
compare('rebuilt', 1);
cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM h'), '>', 500, 'there was something to compare');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relname = 'both_h_memory'}), '1', 'shared targets remember');
done_testing();

sub compare
{
    my ($when, $rebuilt) = @_;
    my %columns = (h => 'k, p, t, u, __start_at, __end_at', c => 'k, p, t, u', both_h => 'k, p, t, u, s, __start_at, __end_at', both_c => 'k, p, t, u',
        nulls_h => 'k, p, t, u, __start_at, __end_at', nulls_c => 'k, p, t, u', late_h => 'k, p, t, u, __start_at, __end_at');
    for my $target (split /\n/, $node->safe_psql('postgres', 'SELECT DISTINCT target FROM scd2.flows ORDER BY 1'))
    {
        my @sources = split /\n/, $node->safe_psql('postgres', "SELECT source FROM scd2.flows WHERE target = '$target'::regclass");
        next if $rebuilt && $target eq 'late_h';
        my $events = @sources == 2 ? 'both_ev' : $target eq 'late_h' ? 'late_ev' : $sources[0];
        my $tracked = $target =~ /^(nulls_|late_)?h$/ ? 't' : 't, u';
        my $ignores = $target =~ /^nulls/ ? '{t,u}' : '{}';
        my $wanted = $target =~ /h$/ ? $columns{$target} =~ s/__start_at, __end_at/start, "end"/r : $columns{$target};
        my $where = $target =~ /c$/ ? 'WHERE "end" IS NULL' : '';
        # both_h has s, too, which is what the sequence is: not tracked
        is($node->safe_psql('postgres', "SELECT differences('$target', '$columns{$target}', format('$wanted FROM (%s) AS x $where', expected('$events', 's::int', '$tracked', NULL, '$ignores')))"),
            '0', "$target $when");
    }
    is($node->safe_psql('postgres', q{SELECT flow || ' ' || state || coalesce(' ' || last_error, '') FROM scd2.flows WHERE state <> 'running' OR events <> applied + duplicates + rejected + too_late}), '', "flows run, counters add up $when");
    for my $source ($rebuilt ? () : ('ev', 'ev2'))
    {
        is($node->safe_psql('postgres', "SELECT flow, events FROM scd2.flows WHERE source = '$source'::regclass AND events <> (SELECT count(*) FROM $source)"), '', "each event of $source counted once $when");
        is($node->safe_psql('postgres', "SELECT flow FROM scd2.flows f WHERE source = '$source'::regclass AND rejected + too_late <> (SELECT count(*) FROM scd2.rejected_events r WHERE r.flow = f.flow)"),
            '', "each invalid event of $source kept once $when");
    }
    return;
}
