# The server is killed, or a worker fails, at each step of putting changes aside and of writing them where they belong,
# while sessions write, somebody locks and unlocks the feed, and columns come, are renamed, get other types and go:
# the feed equals what a trigger noted, neither more nor less, in order, and the history is what its source says.
# With PG_TEST_EXTRA=backlog_crashes: 200 kills instead of 30.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use Scd2;

my $KILLS = $ENV{PG_TEST_EXTRA} && $ENV{PG_TEST_EXTRA} =~ /backlog_crashes/ ? 200 : 30;
$SIG{PIPE} = 'IGNORE';    # sessions go with the server
my $SEED = $ENV{SEED} // 7;
srand($SEED);
my $node = new_node('backlog_crashes', 'pg_scd2.batch_changes = 50', 'pg_scd2.debug_drain_size = 16kB', "pg_scd2.debug_upkeep_every = '500ms'");
create_audited_table($node, 'postgres');
$node->safe_psql('postgres', q{
    CREATE TRIGGER note_truncate AFTER TRUNCATE ON t FOR EACH STATEMENT EXECUTE FUNCTION note();
    CREATE OR REPLACE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'TRUNCATE' THEN
            INSERT INTO audit (change, image) VALUES ('truncate', '{}');
        END IF;
        IF TG_OP IN ('UPDATE', 'DELETE') THEN
            INSERT INTO audit (change, image) VALUES (CASE TG_OP WHEN 'DELETE' THEN 'delete' ELSE 'update_preimage' END, to_jsonb(OLD));
        END IF;
        IF TG_OP IN ('UPDATE', 'INSERT') THEN
            INSERT INTO audit (change, image) VALUES (CASE TG_OP WHEN 'INSERT' THEN 'insert' ELSE 'update_postimage' END, to_jsonb(NEW));
        END IF;
        RETURN NULL;
    END $$;
    -- What a name of the source is now. No name is used twice.
    CREATE TABLE renamed (old text PRIMARY KEY, new text);
    CREATE FUNCTION names(name text) RETURNS SETOF text LANGUAGE sql AS $$
        WITH RECURSIVE n (name) AS (SELECT $1 UNION SELECT r.new FROM n JOIN renamed r ON r.old = n.name) TABLE n $$;
    -- A value stands under the present name of its column, or of one that was kept when its type changed.
    CREATE FUNCTION has_image(now jsonb, image jsonb) RETURNS boolean LANGUAGE sql AS $$
        SELECT coalesce(bool_and(EXISTS (SELECT FROM names(i.key) n, jsonb_each(now) r
                                         WHERE (r.key = n.n OR r.key LIKE n.n || E'\\_until\\_%') AND r.value #>> '{}' IS NOT DISTINCT FROM i.value #>> '{}')), true)
        FROM jsonb_each(image) i $$;
    CREATE TABLE base (version bigint, n bigint);
    INSERT INTO base VALUES (0, 0);
    -- What the feed has more or less than the audit since it was looked at last.
    CREATE FUNCTION differences() RETURNS SETOF text LANGUAGE sql AS $$
        WITH f AS (SELECT _xid AS xid, row_number() OVER (PARTITION BY _xid ORDER BY _change_ordinal) AS n, _change_type AS change, to_jsonb(c) AS now
                   FROM t_changes c WHERE _commit_version > (SELECT version FROM base)
                    AND _commit_version <> ALL (ARRAY(SELECT version FROM scd2_internal.reconstruction))),
             a AS (SELECT xid, row_number() OVER (PARTITION BY xid ORDER BY n) AS n, change, image FROM audit WHERE audit.n > (SELECT n FROM base))
        SELECT concat_ws(' ', CASE WHEN f.xid IS NULL THEN 'missing' WHEN a.xid IS NULL THEN 'too many' ELSE 'different' END, coalesce(a.xid, f.xid), n, a.change, a.image - 'body', f.change, f.now - 'body')
        FROM f FULL JOIN a USING (xid, n) WHERE f.xid IS NULL OR a.xid IS NULL OR f.change <> a.change OR NOT (f.now @> a.image OR has_image(f.now, a.image)) LIMIT 5 $$;
    CREATE FUNCTION out_of_order() RETURNS bigint LANGUAGE sql AS $$
        SELECT count(*) FROM (SELECT _commit_version < lag(_commit_version) OVER w OR _commit_timestamp < lag(_commit_timestamp) OVER w
                                  OR _commit_version = lag(_commit_version) OVER w AND _change_ordinal <= lag(_change_ordinal) OVER w AS back
                              FROM t_changes WHERE _commit_version <> ALL (ARRAY(SELECT version FROM scd2_internal.reconstruction))
                              WINDOW w AS (PARTITION BY tableoid ORDER BY ctid)) o WHERE back $$;
    -- How far capture is, without waiting for what was put aside.
    CREATE FUNCTION captured() RETURNS boolean LANGUAGE sql AS $$ SELECT scd2._wait_captured('30 s') IS NOT NULL $$;});

my $writer;
my $holder;
my $columns = 0;
my %live = (body => 'text');    # what may be altered, with its type

sub start
{
    $writer = start_writer($node, 'postgres', 2, "\\set kind random(1, 10)\n\\set id random(1, 200)\n\\set v random(1, 1000)\nSELECT step(:kind, :id, :v);\n\\sleep 4 ms\n");
    return;
}

sub stop
{
    finish_writer($writer) if $writer;
    undef $writer;
    return;
}

sub let_go
{
    my ($how) = @_;
    return unless $holder;
    if ($how eq 'gone') { eval { $holder->quit }; }
    else { $holder->query_safe('COMMIT'); $holder->quit; }
    undef $holder;
    return;
}

sub hold
{
    $holder = $node->background_psql('postgres', on_error_stop => 0);
    $holder->query_safe('BEGIN');
    my $leaf = $node->safe_psql('postgres', q{SELECT max(inhrelid)::regclass FROM pg_inherits WHERE inhparent = 't_changes'::regclass});
    my @locks = ('LOCK TABLE t_changes IN SHARE MODE', "LOCK TABLE $leaf IN EXCLUSIVE MODE", 'LOCK TABLE t_changes IN ACCESS EXCLUSIVE MODE');
    $holder->query_safe($locks[rand @locks]);
    return;
}

# Each name once. Values that only the log has follow.
sub new_name { return 'c' . ++$columns; }

sub some_column
{
    my @names = sort grep { $_ ne 'body' } keys %live;
    return @names ? $names[rand @names] : undef;
}

sub drop_column
{
    my ($name) = @_;
    delete $live{$name};
    return "ALTER TABLE t DROP COLUMN $name;";
}

sub rename_column
{
    my ($name) = @_;
    my $new = new_name();
    $live{$new} = delete $live{$name};
    return "ALTER TABLE t RENAME COLUMN $name TO $new; INSERT INTO renamed VALUES ('$name', '$new');";
}

# A change of columns, with rows behind it. The last gives rows values that the log does not show.
sub ddl
{
    my ($kind) = @_;
    my $name = some_column();
    my $new = new_name();
    my $some = int(rand 200);
    $kind = 3 if $kind != 0 && keys %live > 12;
    return "BEGIN; TRUNCATE t; INSERT INTO t SELECT i, i, 'anew' FROM generate_series(1, 20) i; COMMIT;" if $kind == 0;
    if ($kind == 1 || !defined $name)
    {
        $live{$new} = 'int';
        return "ALTER TABLE t ADD COLUMN $new int DEFAULT $columns; UPDATE t SET $new = $new + id WHERE id < $some;";
    }
    return rename_column($name) . "UPDATE t SET v = v + 1 WHERE id < $some;" if $kind == 2;
    return drop_column($name) . "UPDATE t SET v = v + 1 WHERE id < $some;" if $kind == 3;
    my ($int) = grep { $live{$_} eq 'int' } sort keys %live;
    if ($kind == 4 && $int)
    {
        $live{$int} = 'bigint';
        return "ALTER TABLE t ALTER COLUMN $int TYPE bigint; UPDATE t SET $int = 3000000000 + id WHERE id < $some;";
    }
    return "BEGIN; ALTER TABLE t ADD COLUMN $new text DEFAULT 'gone'; ALTER TABLE t DROP COLUMN $new; UPDATE t SET v = 0 WHERE id = $some; COMMIT;" if $kind == 5;
    $live{$new} = 'int';
    return "BEGIN; ALTER TABLE t ADD COLUMN $new int DEFAULT 5; UPDATE t SET $new = id WHERE id < $some; ALTER TABLE t RENAME COLUMN $new TO ${new}a; INSERT INTO renamed VALUES ('$new', '${new}a'); COMMIT;" . do { $live{"${new}a"} = delete $live{$new}; '' };
}

sub using
{
    my ($name) = grep { $live{$_} =~ /int/ } sort keys %live;
    return unless $name;
    $live{$name} = 'text';
    return "ALTER TABLE t ALTER COLUMN $name TYPE text USING 'x' || ($name % 100);";
}

sub came_by
{
    my ($where, $from) = @_;
    for (1 .. 20 * $PostgreSQL::Test::Utils::timeout_default)
    {
        return 1 if slurp_file($node->logfile, $from) =~ /injected failure: $where/;
        sleep 0.05;
    }
    diag($node->safe_psql('postgres', 'SELECT * FROM scd2_internal.feed_backlog; SELECT state, error FROM scd2_internal.capture_status()'));
    return 0;
}

sub kill_server
{
    my ($how) = @_;
    my $pid = $how eq 'capture' ? capture_pid($node) : '';
    if ($pid)
    {
        crash($node, $pid);
        fail_at($node);
        $node->safe_psql('postgres', 'SELECT scd2.start()');
        wait_capture($node);
    }
    else { come_back($node, $how eq 'error' ? 'error' : 'crash'); }
    let_go('gone') if $how ne 'error';
    return;
}

my @filling = ('decoded', 'put aside', 'feeds written', 'position written', 'committed', undef);
my @draining = ('backlog locked', 'backlog rows written', 'backlog entries removed', 'backlog ended', 'backlog written', 'backlog committed', undef);
my @hows = ('crash', 'capture', 'error');
my $kills = 0;
my %count;

sub is_right
{
    my ($what) = @_;
    my $synced = eval { sync($node); 1 };
    ok($synced, "$what: sync() returns") or do { diag($@); diag($node->safe_psql('postgres', q{SELECT * FROM scd2.diagnose()})); };
    is($node->safe_psql('postgres', 'SELECT count(*) FROM scd2_internal.feed_backlog') + $node->safe_psql('postgres', 'SELECT count(*) FROM scd2_internal.backlog'),
        0, "$what: nothing waits any more");
    is($node->safe_psql('postgres', q{SELECT state || coalesce(error, '') FROM scd2_internal.feed_state}), 'running', "$what: the feed is captured");
    is($node->safe_psql('postgres', 'SELECT * FROM differences()'), '', "$what: the feed is the audit");
    is($node->safe_psql('postgres', 'SELECT out_of_order()'), '0', "$what: in order");
    is($node->safe_psql('postgres', q{SELECT * FROM scd2.check_target('t_history') LIMIT 5}), '', "$what: the history is right");
    return;
}

sub new_base
{
    $node->safe_psql('postgres', 'UPDATE base SET version = scd2.latest_version(), n = (SELECT max(n) FROM audit)');
    return;
}

# Writing goes on while the step fails: at filling with the lock held, at draining when it is gone.
sub one_kill
{
    my ($where, $how, $draining, $ddl) = @_;
    my $from = -s $node->logfile;
    hold() if $where ? 1 : rand() < 0.8;
    start() unless $writer;
    if ($draining)
    {
        sleep 0.3;
        $node->safe_psql('postgres', $ddl);
        sleep 0.3;
        fail_at($node, $where) if $where;
        let_go('');
    }
    else
    {
        sleep 0.2;
        fail_at($node, $where) if $where;
        $node->safe_psql('postgres', $ddl);
    }
    if ($where) { ok(came_by($where, $from), "$how at $where: it came by"); }
    else { sleep rand(0.5); }
    kill_server($how);
    let_go('') if $holder;
    stop() if $how ne 'error';
    $kills++;
    $count{"$how at " . ($where // ($draining ? 'any time of draining' : 'any time of filling'))}++;
    return;
}

my $round = 0;
while ($kills < $KILLS)
{
    my @plan = $round % 2 ? \@draining : \@filling;
    my $steps = $plan[0];
    my $where = $steps->[ int($round / 2) % @$steps ];
    my $how = $where ? $hows[ int(rand 3) ] : $hows[ int(rand 2) ];
    my $ddl = ddl(int rand 7);
    one_kill($where, $how, $round % 2, $ddl);
    $round++;
    next if $round % 2;
    start() unless $writer;
    $node->safe_psql('postgres', ddl(int rand 7)) for 1 .. 2;
    if ($round % 6 == 0)
    {
        # A repair is made by itself, when all before it is written. What it makes is no transaction of the audit.
        stop();
        my $sql = using();
        hold();
        $node->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id < 50');
        fail_at($node, 'put aside');
        my $from = -s $node->logfile;
        $node->safe_psql('postgres', $sql) if $sql;
        came_by('put aside', $from) if $sql;
        kill_server('crash');
        $kills++;
        $count{'crash at a repair put aside'}++;
        $node->safe_psql('postgres', 'UPDATE t SET v = v + 2 WHERE id < 50');
    }
    stop();
    is_right("after $kills kills");
    new_base();
}

# An error that comes again and again is a gap from the first entry on; killed at each step of giving up, it is the same gap, once.
for my $where ('backlog error noted', 'backlog given up', 'gap committed')
{
    hold();
    $node->safe_psql('postgres', 'UPDATE t SET v = v + 3 WHERE id < 100; UPDATE t SET v = v + 3 WHERE id < 100');
    $node->safe_psql('postgres', 'SELECT captured()');
    my $from = -s $node->logfile;
    my $first = $node->safe_psql('postgres', 'SELECT complete_version + 1 FROM scd2_internal.feed_backlog');
    fail_at($node, $where);
    sleep 0.5;    # it is noted once
    $node->safe_psql('postgres', q{UPDATE scd2_internal.backlog SET content = '\x00' WHERE kind IN ('l', 'L')});
    let_go('');
    ok(came_by($where, $from), "crash at $where: it came by");
    kill_server('crash');
    $kills++;
    $count{"crash at $where"}++;
    $node->poll_query_until('postgres', 'SELECT NOT EXISTS (SELECT FROM scd2_internal.feed_backlog)') or die;
    is($node->safe_psql('postgres', 'SELECT state, lower(gap) FROM scd2_internal.feed_state'), "failed|$first", "$where: a gap from the first entry on");
    $node->safe_psql('postgres', q{SELECT scd2.resync('t')});
    sync($node);
    is($node->safe_psql('postgres', 'SELECT state, gap FROM scd2.feeds'), 'running|', "$where: it is whole again");
    is($node->safe_psql('postgres', q{SELECT * FROM scd2.check_target('t_history') LIMIT 5}), '', "$where: the history is right");
    new_base();
    $node->safe_psql('postgres', 'UPDATE t SET v = v + 4 WHERE id < 100');
    is_right($where);
    new_base();
}

note(join "\n", "seed $SEED, $kills kills:", map { "$count{$_} $_" } sort keys %count);
cmp_ok($kills, '>=', $KILLS, "$kills kills");
done_testing();
