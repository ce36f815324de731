# However the extension is dropped, nothing of it stays: no slot, worker or trigger, and the replica
# identities that it found are back. Feeds, targets and memory are tables of their owners, who may
# write them; tables are altered and written as before; and the extension can be created again.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('dropped', q{pg_scd2.lock_timeout = '300ms'});
$node->safe_psql('postgres', 'CREATE ROLE other_superuser SUPERUSER LOGIN; CREATE ROLE owner');

sub left
{
    my ($db) = @_;
    return $node->safe_psql($db, q{
        SELECT 'trigger', tgrelid::regclass, tgname FROM pg_trigger WHERE NOT tgisinternal
        UNION ALL SELECT 'event trigger', NULL, evtname FROM pg_event_trigger
        UNION ALL SELECT 'identity', oid::regclass, relreplident::text FROM pg_class WHERE relname IN ('t', 'n', 'i', 'leaf', 'events') AND relreplident <> CASE relname WHEN 'n' THEN 'n' WHEN 'i' THEN 'i' ELSE 'd' END::"char"
        UNION ALL SELECT 'schema', NULL, nspname FROM pg_namespace WHERE nspname = 'scd2_internal'
        UNION ALL SELECT 'type', NULL, typname FROM pg_type WHERE typname = 'relation'
        ORDER BY 1, 3});
}

for my $how ('DROP EXTENSION pg_scd2', 'DROP SCHEMA scd2 CASCADE', 'DROP OWNED BY other_superuser CASCADE')
{
    my $db = lc(join '_', (split / /, $how)[ 0, 1 ]);
    $node->safe_psql('postgres', "CREATE DATABASE $db");
    $node->safe_psql($db, q{GRANT CREATE ON SCHEMA public TO owner});
    $node->safe_psql($db, ($how =~ /OWNED/ ? 'SET ROLE other_superuser;' : '') . 'CREATE EXTENSION pg_scd2');
    sync($node, $db);
    $node->safe_psql($db, q{
        SET ROLE owner;
        CREATE TABLE t (id int PRIMARY KEY, v text);
        CREATE TABLE n (id int PRIMARY KEY);
        ALTER TABLE n REPLICA IDENTITY NOTHING;
        CREATE TABLE i (id int NOT NULL UNIQUE);
        ALTER TABLE i REPLICA IDENTITY USING INDEX i_id_key;
        CREATE TABLE p (id int) PARTITION BY RANGE (id);
        CREATE TABLE leaf PARTITION OF p DEFAULT;
        CREATE TABLE events (k int, v text, a int, b int);
        INSERT INTO t VALUES (1, 'a');
        SELECT scd2.track('t'), scd2.enable_change_feed('n'), scd2.enable_change_feed('i'), scd2.enable_change_feed('p');
        SELECT scd2.create_auto_cdc_flow('event_history', 'events', '{k}', 'struct(a, b)', column_list => '{k,v}', stored_as_scd_type => 2)});
    sync($node, $db);
    $node->safe_psql($db, q{UPDATE t SET v = 'b'; INSERT INTO events VALUES (1, 'x', 1, 1)});
    sync($node, $db);
    isnt(left($db), '', "$how: there is something to leave behind");
    my ($ret, $out, $err) = $node->psql($db, "$how; SELECT 'done'");
    is($out, 'done', '... it is dropped');
    unlike($err, qr/WARNING/, '... and giving back identities warns of no gap');
    is(left($db), '', '... and nothing stays');
    wait_until($node, 'postgres', "SELECT count(*) = 0 FROM pg_replication_slots WHERE database = '$db'", '... no slot');
    wait_until($node, 'postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = '$db' AND backend_type LIKE 'pg_scd2%'", '... no worker');
    is($node->safe_psql($db, q{
            SET ROLE owner;
            DELETE FROM t_changes WHERE id = 0; UPDATE t_history SET v = v; DELETE FROM event_history_memory;
            UPDATE t SET v = 'c'; ALTER TABLE t ADD COLUMN w int DEFAULT random(); CREATE TABLE later (id int);
            SELECT count(*) FROM t_history; SELECT count(*) FROM t_changes; SELECT count(*) FROM event_history}),
        "2\n2\n1", '... what users have is there, and is theirs');
    $node->safe_psql($db, 'CREATE EXTENSION pg_scd2');
    wait_capture($node, $db);
    $node->safe_psql($db, q{ALTER TABLE t_history RENAME TO t_history_until_now; DROP FUNCTION t_history_as_of});
    is($node->safe_psql($db, q{SET ROLE owner; SELECT scd2.enable_change_feed('t', feed => 't_changes_2'), scd2.track('t')}), 't_changes_2|t_history', '... and it can be created again');
    $node->safe_psql($db, q{UPDATE t SET v = 'd'});
    sync($node, $db);
    is($node->safe_psql($db, 'SELECT string_agg(v, $$,$$ ORDER BY __start_at) FROM t_history'), 'c,d', '... and captures');
    is($node->safe_psql($db, 'SELECT count(*) FROM pg_replication_slots WHERE database = current_database()'), '1', '... with one slot');
    $node->safe_psql('postgres', "DROP DATABASE $db WITH (FORCE)");
    is($node->safe_psql('postgres', "SELECT count(*) FROM pg_replication_slots"), '0', '... which DROP DATABASE takes along');
}

# What is in use keeps its identity, with the statement that gives it back.
$node->safe_psql('postgres', 'CREATE EXTENSION pg_scd2');
create_audited_table($node, 'postgres');
$node->safe_psql('postgres', 'INSERT INTO t VALUES (1, 1)');
my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN; SELECT count(*) FROM t');
my ($ret, $out, $err) = $node->psql('postgres', 'DROP EXTENSION pg_scd2');
is($ret, 0, 'dropped while a table is being read') or diag($err);
my ($statement) = $err =~ /WARNING:  table "public.t" keeps REPLICA IDENTITY FULL: .*HINT:  (ALTER TABLE \S+ REPLICA IDENTITY DEFAULT;)/s;
ok($statement, '... with a warning') or diag($err);
$session->query_safe('COMMIT');
$session->quit;
$node->safe_psql('postgres', $statement // '');
is($node->safe_psql('postgres', q{SELECT relreplident FROM pg_class WHERE relname = 't'}), 'd', '... whose statement can be pasted');

# What a DROP that fails did is undone.
$node->safe_psql('postgres', 'CREATE DATABASE failing');
$node->safe_psql('failing', 'CREATE EXTENSION pg_scd2');
sync($node, 'failing');
$node->safe_psql('failing', q{CREATE TABLE t (id int PRIMARY KEY); SELECT scd2.track('t'); CREATE VIEW mine AS TABLE scd2.flows});
sync($node, 'failing');
($ret, $out, $err) = $node->psql('failing', 'DROP EXTENSION pg_scd2');
like($err, qr/other objects depend on it/, 'a view of the user is in the way');
$node->safe_psql('failing', 'INSERT INTO t VALUES (1); UPDATE t SET id = 2');
sync($node, 'failing');
is($node->safe_psql('failing', 'SELECT count(*) FROM t_changes'), '3', '... and all goes on');

# Who uses our tables in another order than they are dropped in, as workers do, is not in a deadlock.
$node->safe_psql('failing', 'DROP VIEW mine');
$session = $node->background_psql('failing');
$session->query_safe('BEGIN; SELECT count(*) FROM scd2_internal.flow_state');
my $told = '';
my $drop = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('failing'), '-c', q{SET pg_scd2.lock_timeout = '1min'}, '-c', 'DROP EXTENSION pg_scd2' ], '<', \undef, '&>', \$told);
wait_until($node, 'failing', q{SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE query LIKE 'DROP EXTENSION%'}, 'a DROP waits for a session that uses our tables');
$session->query_safe("SELECT count(*) FROM scd2_internal.$_") for qw(home position feed flow control);
$session->query_safe('COMMIT');
$session->quit;
$drop->finish;
is($told, '', '... which uses others, and both get on');

# Whoever commits a prepared transaction could not tell the launcher.
$node->safe_psql('postgres', 'CREATE DATABASE prepared');
for my $statement ('CREATE EXTENSION pg_scd2', 'SELECT scd2.stop()', 'SELECT scd2.start()', 'DROP EXTENSION pg_scd2')
{
    $node->safe_psql('prepared', 'CREATE EXTENSION IF NOT EXISTS pg_scd2') unless $statement =~ /CREATE/;
    ($ret, $out, $err) = $node->psql('prepared', "BEGIN; $statement; PREPARE TRANSACTION 'p'");
    like($err, qr/cannot PREPARE a transaction that creates, alters or drops extension "pg_scd2", or starts or stops its workers/, "$statement is not prepared");
}
wait_capture($node, 'prepared');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_prepared_xacts'), '0', 'nothing is left of it');
done_testing();
