# Scd2.pm: what the TAP tests share: a node with our settings, a writer whose every change is
# audited, and the comparison of feed and history with that audit.
package Scd2;

use strict;
use warnings;
use Exporter 'import';
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

our @EXPORT = qw(new_node create_audited_table start_writer finish_writer crash sync wait_capture capture_pid feed_is_right history_is_right wait_until set_setting fail_at come_back create_poller worker_memory memory_is_bounded stop_workers lose_slot targets_are_right);

# Our own queries are not what the servers' tight settings are for.
my $UNLIMITED = '-c temp_file_limit=-1 -c work_mem=64MB';

# new_node(NAME, LINE...): a started server with the extension preloaded; the lines come last in
# postgresql.conf.
sub new_node
{
    my ($name, @lines) = @_;
    my $node = PostgreSQL::Test::Cluster->new($name);
    $node->init(allows_streaming => 'logical');
    $node->append_conf('postgresql.conf', join("\n",
            "shared_preload_libraries = 'pg_scd2'",
            $ENV{PLUGIN_SETTING} // '',
            'max_worker_processes = 16',
            'max_connections = 40',
            'shared_buffers = 32MB',
            'max_prepared_transactions = 5',
            'restart_after_crash = on',
            'log_statement = none',
            "log_line_prefix = '%m [%p] %b %d '",
            "timezone = 'UTC'",
            @lines, ''));
    $node->start;
    return $node;
}

# Polls until the query gives "t"; a test result of its own.
sub wait_until
{
    my ($node, $db, $query, $what) = @_;
    return ok($node->poll_query_until($db, $query), $what);
}

sub sync
{
    my ($node, $db) = @_;
    return $node->safe_psql($db // 'postgres', "SELECT scd2.sync('50 s')");
}

sub capture_pid
{
    my ($node, $db) = @_;
    return $node->safe_psql($db // 'postgres',
        "SELECT pid FROM pg_stat_activity WHERE backend_type LIKE 'pg_scd2 capture%' AND datname = current_database()");
}

# Waits until a capture worker is there and at work; returns its pid.
sub wait_capture
{
    my ($node, $db) = @_;
    $db //= 'postgres';
    $node->poll_query_until($db, "SELECT state = 'running' AND pid IS NOT NULL FROM scd2_internal.capture_status()")
      or die "no capture worker at work in $db: " . $node->safe_psql($db, 'SELECT state, error FROM scd2_internal.capture_status()');
    return capture_pid($node, $db);
}

# Until scd2.start(); the slot is free then.
sub stop_workers
{
    my ($node, $db) = @_;
    $db //= 'postgres';
    $node->safe_psql($db, 'SELECT scd2.stop()');
    $node->poll_query_until($db, 'SELECT NOT EXISTS (SELECT FROM pg_replication_slots WHERE active AND database = current_database())')
      or die 'the workers do not stop';
    return;
}

# lose_slot(NODE, DATABASE, SQL): somebody drops the slot while no worker has it; the statements are
# never captured. The workers run again, and the gap is declared.
sub lose_slot
{
    my ($node, $db, $sql) = @_;
    $db //= 'postgres';
    stop_workers($node, $db);
    $node->safe_psql($db, 'SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()');
    $node->safe_psql($db, $sql) if defined $sql;
    $node->safe_psql($db, 'SELECT scd2.start()');
    wait_capture($node, $db);
    return;
}

# All targets hold what their sources and feeds say (the slow way: everything is built again beside them).
sub targets_are_right
{
    my ($node, $db, $when) = @_;
    local $ENV{PGOPTIONS} = $UNLIMITED;
    is($node->safe_psql($db, q{
            SELECT string_agg(format('%s: %s %s %s', f.target, p.problem, p.key, p.detail), E'\n')
            FROM (SELECT DISTINCT target FROM scd2.flows) f, scd2.check_target(f.target) p}),
        '', "targets are what their sources say $when");
    return;
}

# crash(NODE, PID): signal 9 to one of the server's processes, which the postmaster takes for a crash
# of all; returns when the server is back. Until the postmaster has seen it, the process is listed.
sub crash
{
    my ($node, $pid) = @_;
    die 'no pid' unless $pid && $pid =~ /^\d+$/;
    kill 9, $pid;
    # The query is an argument: a psql that cannot connect ends before it has read what it is given.
    my @query = ('psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid");
    for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
    {
        IPC::Run::run(\@query, '<', \undef, '>', \my $listed, '2>', \my $refused);
        return if $listed eq "0\n";
        sleep 0.1;
    }
    die 'the server did not come back';
}

# set_setting(NODE, NAME, VALUE): a setting of the whole server; without a value it is reset.
sub set_setting
{
    my ($node, $name, $value) = @_;
    $node->safe_psql('postgres', defined $value ? "ALTER SYSTEM SET $name = '$value'" : "ALTER SYSTEM RESET $name");
    $node->reload;
    return;
}

# fail_at(NODE, WHERE): workers fail where the library has a point of this name; without one, no more.
sub fail_at
{
    my ($node, $where) = @_;
    set_setting($node, 'pg_scd2.debug_fail_at', $where);
    return;
}

# come_back(NODE, HOW): after a failure at such a point, a "crash" of the server too, workers are at
# work, and nothing fails any more.
sub come_back
{
    my ($node, $how) = @_;
    if ($how eq 'crash')
    {
        $node->stop('immediate');
        $node->append_conf('postgresql.auto.conf', "pg_scd2.debug_fail_at = ''");
        $node->start;
    }
    fail_at($node);
    $node->safe_psql('postgres', 'SELECT scd2.start()');
    wait_capture($node);
    return;
}

# worker_memory(NODE, DATABASE): MB of memory that belongs to each of the database's workers alone,
# by process id; nothing where the system does not tell.
sub worker_memory
{
    my ($node, $db) = @_;
    my %megabytes;
    for my $pid (split /\n/, $node->safe_psql($db // 'postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type LIKE 'pg_scd2%worker%' OR (backend_type LIKE 'pg_scd2%' AND datname = current_database())"))
    {
        next unless open my $rollup, '<', "/proc/$pid/smaps_rollup";
        while (<$rollup>) { $megabytes{$pid} += $1 / 1024 if /^Private_(?:Clean|Dirty):\s+(\d+) kB/; }
    }
    return \%megabytes;
}

# memory_is_bounded(BEFORE, AFTER, GROWTH, LIMIT, WHAT): two results of worker_memory(); no worker
# that is in both has grown by more than GROWTH MB, none has more than LIMIT.
sub memory_is_bounded
{
    my ($before, $after, $growth, $limit, $what) = @_;
  SKIP:
    {
        skip 'the system does not tell of memory', 1 unless %$after;
        my @too_much = grep { $after->{$_} > $limit || (defined $before->{$_} && $after->{$_} > $before->{$_} + $growth) } sort keys %$after;
        my $told = join ', ', map { sprintf '%d: %s MB', $_, join ' then ', map { sprintf '%.1f', $_ } grep { defined } $before->{$_}, $after->{$_} } sort keys %$after;
        is(scalar @too_much, 0, "$what ($told)") or diag("growth may be $growth, all of it $limit MB: $told");
    }
    return;
}

# create_poller(NODE, DATABASE): poll() adds to table polled what the feed of t has since the
# version in table polled_upto.
sub create_poller
{
    my ($node, $db) = @_;
    $node->safe_psql($db, q{
        CREATE TABLE polled (LIKE t_changes);
        CREATE TABLE polled_upto AS SELECT 0::bigint AS version;
        CREATE FUNCTION poll() RETURNS void LANGUAGE plpgsql AS $$
        DECLARE
            latest bigint := (SELECT complete_version FROM scd2.feeds WHERE source = 't'::regclass);
        BEGIN
            INSERT INTO polled SELECT * FROM scd2.table_changes(NULL::t_changes, (SELECT version + 1 FROM polled_upto), latest);
            UPDATE polled_upto SET version = latest;
        END $$});
    return;
}

# create_audited_table(NODE, DATABASE): table t(id, v, body) with feed and history, and table audit,
# where a trigger notes every row change in the transaction that makes it: what is committed there
# is what must be in the feed.
sub create_audited_table
{
    my ($node, $db) = @_;
    $node->safe_psql($db, q{
        CREATE EXTENSION IF NOT EXISTS pg_scd2;
        CREATE TABLE t (id int PRIMARY KEY, v int, body text);
        CREATE TABLE audit (n bigserial PRIMARY KEY, xid xid8 DEFAULT pg_current_xact_id(), change text, image jsonb);
        CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF TG_OP = 'INSERT' THEN
                INSERT INTO audit (change, image) VALUES ('insert', to_jsonb(NEW));
            ELSIF TG_OP = 'DELETE' THEN
                INSERT INTO audit (change, image) VALUES ('delete', to_jsonb(OLD));
            ELSE
                INSERT INTO audit (change, image) VALUES ('update_preimage', to_jsonb(OLD));
                INSERT INTO audit (change, image) VALUES ('update_postimage', to_jsonb(NEW));
            END IF;
            RETURN NULL;
        END $$;
        CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION note();
        -- one step of the writer: a few rows, sometimes in a subtransaction that is rolled back, sometimes with a long value
        CREATE FUNCTION step(kind int, k int, x int) RETURNS void LANGUAGE plpgsql AS $$
        BEGIN
            IF kind < 5 THEN
                INSERT INTO t VALUES (k, x, CASE WHEN x % 20 = 0 THEN repeat(md5(x::text), 300) ELSE 'short' END)
                    ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v;
            ELSIF kind < 7 THEN
                UPDATE t SET v = x WHERE id = k;
            ELSIF kind = 7 THEN
                DELETE FROM t WHERE id = k;
            ELSIF kind = 8 THEN
                BEGIN
                    UPDATE t SET v = -1 WHERE id = k;
                    RAISE EXCEPTION 'back' USING ERRCODE = 'P0002';
                EXCEPTION WHEN no_data_found THEN
                    UPDATE t SET v = x WHERE id = k;
                END;
            ELSE
                DELETE FROM t WHERE id = k;
                INSERT INTO t VALUES (k, x, 'again') ON CONFLICT DO NOTHING;
            END IF;
        END $$;});
    $node->safe_psql($db, q{SELECT scd2.track('t')});
    sync($node, $db);
    return;
}

# start_writer(NODE, DATABASE, CLIENTS, SCRIPT): pgbench runs the script, by default one that writes
# into t, until the server goes away or finish_writer().
sub start_writer
{
    my ($node, $db, $clients, $own_script) = @_;
    my $script = PostgreSQL::Test::Utils::tempdir() . '/writer.sql';
    unlink $script;
    PostgreSQL::Test::Utils::append_to_file($script, $own_script // q{
\set kind random(1, 10)
\set id random(1, 200)
\set v random(1, 1000)
\set ending random(1, 10)
BEGIN;
SELECT step(:kind, :id, :v);
\if :ending = 1
ROLLBACK;
\else
COMMIT;
\endif
});
    my $out = '';
    my $writer = { out => \$out };
    local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port);
    $writer->{handle} = IPC::Run::start(
        [ 'pgbench', '-n', '-f', $script, '-c', $clients // 4, '-T', 300, $db ],
        '<', \undef, '>', $writer->{out}, '2>', $writer->{out});
    return $writer;
}

sub finish_writer
{
    my ($writer) = @_;
    $writer->{handle}->signal('TERM') if $writer->{handle}->pumpable;
    eval { $writer->{handle}->finish };
    return;
}

# The feed of t holds what the audit holds: the same rows for each transaction, in the same order,
# neither more nor less; versions without holes.
sub feed_is_right
{
    my ($node, $db, $when) = @_;
    local $ENV{PGOPTIONS} = $UNLIMITED;
    my $audited = $node->safe_psql($db, 'SELECT count(*) FROM audit');
    my $in_feed = $node->safe_psql($db, 'SELECT count(*) FROM t_changes');
    my $difference = $node->safe_psql($db, q{
        WITH f AS (SELECT _xid AS xid, row_number() OVER (PARTITION BY _xid ORDER BY _change_ordinal) AS n, _change_type AS change,
                          to_jsonb(c) - '{_change_type,_commit_version,_commit_timestamp,_change_ordinal,_xid}'::text[] AS image FROM t_changes c),
             a AS (SELECT xid, row_number() OVER (PARTITION BY xid ORDER BY n) AS n, change, image FROM audit)
        (SELECT 'missing', * FROM (TABLE a EXCEPT ALL TABLE f) m ORDER BY xid, n LIMIT 5)
        UNION ALL (SELECT 'too many', * FROM (TABLE f EXCEPT ALL TABLE a) m ORDER BY xid, n LIMIT 5)});
    ok($audited > 0 && $difference eq '', "feed equals audit $when ($in_feed rows of $audited)")
      or diag(substr($difference, 0, 2000));
    is($node->safe_psql($db, q{
            SELECT count(*) FROM (SELECT _commit_version AS v, lag(_commit_version) OVER (ORDER BY _commit_version) AS before,
                min(_commit_timestamp) AS t, lag(min(_commit_timestamp)) OVER (ORDER BY _commit_version) AS earlier,
                count(DISTINCT _xid) AS xids FROM t_changes GROUP BY 1) s
            WHERE v <> before + 1 OR t <= earlier OR xids <> 1}),
        '0', "versions without holes, times ascending, one transaction each $when");
    return;
}

# The history of t is what the feed says, and its open rows are the table. (The writer never changes
# a key, and all columns are tracked.)
sub history_is_right
{
    my ($node, $db, $when) = @_;
    local $ENV{PGOPTIONS} = $UNLIMITED;
    my $difference = $node->safe_psql($db, q{
        WITH last_of_version AS (
                SELECT DISTINCT ON (id, _commit_version) id, _commit_timestamp AS at, _change_type = 'delete' AS gone, ROW(v, body)::text AS image, v, body
                FROM t_changes WHERE _change_type <> 'update_preimage' ORDER BY id, _commit_version, _change_ordinal DESC),
             marked AS (
                SELECT *, lag(gone) OVER w IS DISTINCT FROM gone OR (NOT gone AND lag(image) OVER w IS DISTINCT FROM image) AS starts
                FROM last_of_version WINDOW w AS (PARTITION BY id ORDER BY at)),
             run AS (SELECT id, v, body, gone, at, lead(at) OVER (PARTITION BY id ORDER BY at) AS until FROM marked WHERE starts),
             expected AS (SELECT id, v, body, at, until FROM run WHERE NOT gone),
             history AS (SELECT id, v, body, __start_at, __end_at FROM t_history)
        (SELECT 'missing', id, v, at, until FROM (TABLE expected EXCEPT ALL TABLE history) m ORDER BY id, at LIMIT 5)
        UNION ALL
        (SELECT 'too many', id, v, __start_at, __end_at FROM (TABLE history EXCEPT ALL TABLE expected) m ORDER BY id, __start_at LIMIT 5)});
    is($difference, '', "history is what the feed says $when");
    is($node->safe_psql($db, q{
            SELECT count(*) FROM (
                (SELECT id, v, body FROM t_history WHERE __end_at IS NULL EXCEPT ALL TABLE t)
                UNION ALL (TABLE t EXCEPT ALL SELECT id, v, body FROM t_history WHERE __end_at IS NULL)) d}),
        '0', "open rows of the history are the table $when");
    return;
}

1;
