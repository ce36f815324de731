# The owner of two schemas swaps their names while functions and workers of ours change his tables, as
# superuser, and wait for locks on them or for somebody who makes something of the same name. In the other
# schema somebody else has relations, types and functions of the same names: none of them changes, and
# nothing is made there. Once while they wait, and again and again.
use strict;
use warnings;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use Scd2;

my $node = new_node('swapped', 'pg_scd2.max_apply_workers = 2', 'log_min_messages = fatal', 'deadlock_timeout = 100ms',
    "pg_scd2.lock_timeout = '4s'");
$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    CREATE ROLE mallory LOGIN; CREATE ROLE mallory_too LOGIN; CREATE ROLE alice LOGIN;
    GRANT mallory_too TO mallory; GRANT CREATE ON DATABASE postgres TO mallory;
    CREATE SCHEMA a AUTHORIZATION mallory; CREATE SCHEMA b AUTHORIZATION mallory;
    GRANT CREATE, USAGE ON SCHEMA b TO alice; GRANT CREATE, USAGE ON SCHEMA a, b TO mallory_too;
    SET ROLE mallory;
    CREATE TABLE a.t (id int PRIMARY KEY, v text, w text);
    CREATE TABLE a.e (id int, s int, n int, v text);
    SET ROLE alice;
    CREATE TABLE b.t (id int PRIMARY KEY, v text, w text);
    CREATE TABLE b.e (id int, s int, n int, v text);
    CREATE TYPE b.d_sequence AS (s int, n int);
    CREATE TABLE b.t_changes (_change_type text, _commit_version bigint, _commit_timestamp timestamptz, _change_ordinal int, _xid xid8, id int, v text, w text) PARTITION BY RANGE (_commit_version);
    CREATE TABLE b.t_changes_p1 PARTITION OF b.t_changes FOR VALUES FROM (MINVALUE) TO (MAXVALUE);
    CREATE TABLE b.e_changes (LIKE b.e);
    CREATE TABLE b.t_history (id int, v text, w text, __start_at timestamptz, __end_at timestamptz, PRIMARY KEY (id, __start_at));
    CREATE TABLE b.d (id int, s int, n int, v text, __start_at b.d_sequence, __end_at b.d_sequence, PRIMARY KEY (id, __start_at));
    CREATE TABLE b.d_memory (id int, v text);
    CREATE TABLE b.q (id int, s int, n int, v text);
    CREATE TABLE b.snap (id int PRIMARY KEY, v text, w text);
    CREATE FUNCTION b.t_history_as_of(timestamptz) RETURNS SETOF b.t_history LANGUAGE sql AS 'SELECT * FROM b.t_history';
    CREATE FUNCTION b.d_as_of(b.d_sequence) RETURNS SETOF b.d LANGUAGE sql AS 'SELECT * FROM b.d'});
my ($t, $e, $of_mallory, $of_alice) =
  split /\|/, $node->safe_psql('postgres', q{SELECT 'a.t'::regclass::oid, 'a.e'::regclass::oid, 'a'::regnamespace::oid, 'b'::regnamespace::oid});

# All that alice has, and who else has something there.
my $state = qq{
    SELECT md5(string_agg(x, E'\\n' ORDER BY x)) FROM (
        SELECT concat_ws(' ', c.oid, c.relname, c.relowner, c.relkind, c.relreplident, c.relrowsecurity, c.relacl, c.relispartition, obj_description(c.oid, 'pg_class')) FROM pg_class c WHERE c.relnamespace = $of_alice
        UNION ALL SELECT concat_ws(' ', a.attrelid, a.attnum, a.attname, a.atttypid, a.attisdropped) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.relnamespace = $of_alice AND a.attnum > 0
        UNION ALL SELECT concat_ws(' ', g.tgrelid, g.tgname) FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid WHERE c.relnamespace = $of_alice
        UNION ALL SELECT concat_ws(' ', y.oid, y.typname, y.typowner, obj_description(y.oid, 'pg_type')) FROM pg_type y WHERE y.typnamespace = $of_alice
        UNION ALL SELECT concat_ws(' ', p.oid, p.proname, p.proowner, p.prosrc, obj_description(p.oid, 'pg_proc')) FROM pg_proc p WHERE p.pronamespace = $of_alice) s (x)};
my $before = $node->safe_psql('postgres', $state);

# One of mallory's relations, whatever its schema is called now.
sub mine
{
    my ($name) = @_;
    return $node->safe_psql('postgres', "SELECT oid FROM pg_class WHERE relname = '$name' AND relnamespace = $of_mallory");
}

# While the schemas are swapped all the time, and a lock on the named relations of mallory's is held for a while, the
# statement is tried until it succeeds. Then alice has what she had.
my $swaps = q{
    SET ROLE mallory; SET client_min_messages = error;
    DO $$ BEGIN
        FOR i IN 1 .. 100000 LOOP
            BEGIN
                ALTER SCHEMA a RENAME TO c; ALTER SCHEMA b RENAME TO a; ALTER SCHEMA c RENAME TO b;
            EXCEPTION WHEN OTHERS THEN NULL;
            END;
            COMMIT;
            PERFORM pg_sleep(0.003);
        END LOOP;
    END $$};
sub beside_swaps
{
    my ($what, $statement, @locked) = @_;
    my ($swapped, $ended) = ('', '');
    my $swapper = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', $swaps ], '>', \$swapped, '2>', \$ended);
    my ($ok, $err) = (0, '');
    for my $try (1 .. 10)
    {
        my $locks = join('; ', map { "PERFORM scd2_internal.lock_relation($_, 'ACCESS SHARE')" } grep { $_ } map { mine($_) } @locked);
        my $holder = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c',
                'DO $$ BEGIN ' . ($locks ? "$locks; " : '') . 'PERFORM pg_sleep(0.25); END $$' ], '>', \my $held, '2>', \my $trouble);
        sleep(0.05);
        my $result = $node->psql('postgres', "SET ROLE mallory; SET client_min_messages = error; $statement", stderr => \$err);
        $holder->finish;
        $ok = $result == 0;
        last if $ok || $err !~ /lock|deadlock|does not exist|concurrently|being renamed/;
    }
    $node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE query LIKE '%ALTER SCHEMA%' AND pid <> pg_backend_pid()});
    $swapper->finish;
    ok($ok, $what) or diag($err);
    is($node->safe_psql('postgres', $state), $before, '... and what is of others in a schema of that name is as it was');
    return;
}

# One swap, while the statement waits for what another transaction holds.
my $swap = 'SET ROLE mallory; SET client_min_messages = error; BEGIN; ALTER SCHEMA a RENAME TO c; ALTER SCHEMA b RENAME TO a; ALTER SCHEMA c RENAME TO b; COMMIT';
sub psql_beside
{
    my ($name, $sql, $err) = @_;
    return IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres') . " application_name=$name", '-c', $sql ], '>', \my $out, '2>', $err);
}

sub swapped_once
{
    my ($what, $statement, $held, $undo) = @_;
    my ($err, $trouble) = ('', '');
    my $schema = $node->safe_psql('postgres', "SELECT $of_mallory\::regnamespace");
    $held = $held =~ /^\w+$/ ? 'LOCK ' . $node->safe_psql('postgres', 'SELECT ' . mine($held) . '::regclass') . ' IN ACCESS SHARE MODE' : $held =~ s/%s/$schema/gr;
    my $holder = $node->background_psql('postgres');
    $holder->query_safe("BEGIN; $held");
    my $call = psql_beside('call', "SET ROLE mallory; SET client_min_messages = error; SELECT 1; $statement", \$err);
    sleep(0.1);
    for (1 .. 5)
    {
        last if $node->safe_psql('postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'call' AND wait_event_type = 'Lock')}) eq 't';
        sleep(0.1);
    }
    my $swapper = psql_beside('swap', $swap, \$trouble);
    sleep(0.3);
    $holder->query_safe('ROLLBACK');
    $holder->quit;
    my $done = $call->finish;
    ok($swapper->finish, 'names are swapped') or diag($trouble);
    if (!$done && $err =~ /renam/)      # who renames waited for us, too
    {
        $call = psql_beside('again', "SET ROLE mallory; SET client_min_messages = error; $statement", \$err);
        $done = $call->finish;
    }
    ok($done, "$what beside $held") or diag($err);
    is($node->safe_psql('postgres', $state), $before, '... and what is of others in a schema of that name is as it was');
    $node->safe_psql('postgres', "SET ROLE mallory; SET client_min_messages = error; $undo") if $undo;
    return;
}

my $table = '(id int)';
my $type = '(a int)';
my $make_d = "SELECT scd2.create_auto_cdc_flow(target => $of_mallory\::regnamespace || '.d', source => $e, keys => '{id}', sequence_by => 'struct(s, n)', stored_as_scd_type => 2)";
swapped_once('track', "SELECT scd2.track($t)", $_, "SELECT scd2.untrack($t, true, true)")
  for "CREATE TABLE %s.t_changes $table", "CREATE TABLE %s.t_changes_p1 $table", "CREATE TABLE %s.t_history $table", q{CREATE FUNCTION %s.t_history_as_of(timestamptz) RETURNS int LANGUAGE sql AS 'SELECT 1'}, 't';
swapped_once('create_auto_cdc_flow', $make_d, $_, "SELECT scd2.drop_flow('d', true)")
  for "CREATE TABLE %s.d $table", "CREATE TYPE %s.d_sequence AS $type", "CREATE TABLE %s.d_memory $table";
$node->safe_psql('postgres', "SET ROLE mallory; $make_d; SELECT scd2.sync('20 s')");
for (qw(d_memory d))
{
    swapped_once('drop_flow', "SELECT scd2.drop_flow('d', true)", $_);
    $node->safe_psql('postgres', "SET ROLE mallory; $make_d; SELECT scd2.sync('20 s')");
}
$node->safe_psql('postgres', "SET ROLE mallory; SELECT scd2.drop_flow('d', true); SELECT scd2.disable_change_feed($e, true)");
swapped_once('create_append_flow', "SELECT scd2.create_append_flow($of_mallory\::regnamespace || '.q', $e)", $_, "SELECT scd2.drop_flow('q', true); SELECT scd2.disable_change_feed($e, true)")
  for "CREATE TABLE %s.e_changes $table", "CREATE TABLE %s.q $table";
swapped_once('create_auto_cdc_from_snapshot_flow', "SELECT scd2.create_auto_cdc_from_snapshot_flow($of_mallory\::regnamespace || '.snap', $t, '{id}')", "CREATE TABLE %s.snap $table", "SELECT scd2.drop_flow('snap', true)");

# Swaps without end, beside all that changes tables.
beside_swaps('track', "SELECT scd2.track($t)", 't');
beside_swaps('create_auto_cdc_flow, with a type and a memory', $make_d, 'e');
beside_swaps('create_append_flow', "SELECT scd2.create_append_flow(n.nspname || '.q', $e) FROM pg_namespace n WHERE n.oid = $of_mallory", 'e', 'e_changes');
beside_swaps('create_auto_cdc_from_snapshot_flow', "SELECT scd2.create_auto_cdc_from_snapshot_flow(n.nspname || '.snap', $t, '{id}', stored_as_scd_type => 2, refresh_interval => '100 ms') FROM pg_namespace n WHERE n.oid = $of_mallory", 't');
$node->safe_psql('postgres', "SELECT scd2.sync('50 s')");
my $alter = 'DO $do$ BEGIN EXECUTE format(\'ALTER TABLE %%s ' . '%s' . "', $t" . '::regclass); END $do$; ';
my $insert = 0;
sub rows_come { $insert++; return 'DO $do$ BEGIN EXECUTE format(\'INSERT INTO %s (id) VALUES (' . $insert . ")', $t" . '::regclass); END $do$;'; }
sub by_workers
{
    my ($what, $change, @locked) = @_;
    beside_swaps($what, sprintf($alter, $change) . rows_come() . " SELECT scd2.sync('20 s')", @locked);
    return;
}
by_workers('a column that is added: feed, history and snapshot', 'ADD COLUMN x int DEFAULT 1', 't_changes', 't_history', 'snap');
by_workers('a column that is renamed', 'RENAME COLUMN x TO y', 't_changes', 't_history', 'snap');
by_workers('a column with another type', 'ALTER COLUMN y TYPE bigint', 't_changes', 't_history', 'snap');
beside_swaps('alter_change_feed', "SELECT scd2.pause_flow('t_history'), scd2.pause_flow('snap'); SELECT scd2.alter_change_feed($e, except_column_list => '{}')", 'e_changes');
$node->safe_psql('postgres', q{SELECT scd2.resume_flow('t_history'), scd2.resume_flow('snap')});
my ($h, $d) = (mine('t_history'), mine('d'));
beside_swaps('check_target', "SELECT * FROM scd2.check_target($h)", 't_history', 't_changes');
beside_swaps('full_refresh', "SELECT scd2.full_refresh($h)", 't_history', 't_changes');
beside_swaps('vacuum_feed', "SELECT scd2.vacuum_feed($t, retain => '0')", 't_changes', 't_changes_p1');
beside_swaps('purge_history', "SELECT scd2.purge_history($h, now())", 't_history');
beside_swaps('row level security of a source', sprintf($alter, 'ENABLE ROW LEVEL SECURITY'), 't_changes', 't_history');
beside_swaps('another owner of a source', sprintf($alter, 'OWNER TO mallory_too'), 't_changes', 't_history');
beside_swaps('another owner of a target', "DO \$do\$ BEGIN EXECUTE format('ALTER TABLE %s OWNER TO mallory_too', $d\::regclass); END \$do\$", 'd', 'd_memory');
beside_swaps('untrack', "SELECT scd2.drop_flow('snap'); SELECT scd2.untrack($t, true, true)", 't', 't_changes', 't_history');
beside_swaps('drop_flow', "SELECT scd2.drop_flow('d', true)", 'd', 'd_memory');
beside_swaps('disable_change_feed', "SELECT scd2.drop_flow('q', true); SELECT scd2.disable_change_feed($e, true)", 'e', 'e_changes');
beside_swaps('enable_change_feed', "SELECT scd2.enable_change_feed($e)", 'e');
is($node->safe_psql('postgres', "SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relnamespace = $of_mallory AND relkind IN ('r', 'p', 'c')"), 'e e_changes e_changes_p1 snap t',
    'what was made for mallory was made in his schema, and dropped there');
done_testing();
