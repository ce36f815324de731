# The worker removes what is older than a short retention while sessions write, poll and read
# ranges: a read is whole or an error, a flow and a reader lose nothing and keep what they need, one
# that is forgotten expires, a feed that cannot be shortened does not stop the others, and a crash
# leaves a feed that tells the truth about itself.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('retention', "pg_scd2.debug_leaf_age = '200ms'", "pg_scd2.debug_upkeep_every = '50ms'", "pg_scd2.naptime = '100ms'", "pg_scd2.feed_retention = '3 s'");
create_audited_table($node, 'postgres');

sub sql { return $node->safe_psql('postgres', @_); }
sub set { return set_setting($node, @_); }

my $EARLIEST = q{scd2.earliest_version('t')};

# What the feed says of itself: no change below its earliest version, and none above it is missing.
sub feed_tells_the_truth
{
    my ($when) = @_;
    is(sql(qq{SELECT count(*) FROM t_changes WHERE _commit_version < (SELECT $EARLIEST)}), '0', "nothing is left below the earliest version $when");
    is(sql(qq{SELECT count(*) FROM (SELECT * FROM consumed WHERE _commit_version >= (SELECT $EARLIEST) EXCEPT ALL TABLE t_changes) d}), '0', "nothing that was read is missing above it $when");
    return;
}

create_poller($node, 'postgres');
sql(q{
    CREATE INDEX ON polled (_commit_version);
    CREATE TABLE reads (first bigint, last bigint, rows bigint);
    -- from about where the feed begins: removal is near
    CREATE FUNCTION read_near_the_edge() RETURNS text LANGUAGE plpgsql AS $$
    DECLARE
        first bigint := scd2.earliest_version('t') + (random() * 20)::integer;
        last bigint := (SELECT version FROM polled_upto);
        n bigint;
    BEGIN
        PERFORM pg_sleep(random() * 0.2);
        SELECT count(*) INTO n FROM scd2.table_changes(NULL::t_changes, first, last);
        INSERT INTO reads VALUES (first, last, n);
        RETURN 'read';
    EXCEPTION WHEN invalid_parameter_value THEN
        RETURN 'gone';
    END $$});

# A reader: what it reads and that it has it, in one transaction.
sql(q{
    CREATE TABLE consumed (LIKE t_changes);
    SELECT scd2.create_reader('consumer', 't', scd2.earliest_version('t'));
    CREATE FUNCTION consume(versions bigint DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO consumed SELECT * FROM scd2.read_changes('consumer', NULL::t_changes, versions);
        PERFORM scd2.advance_reader('consumer');
    END $$});
# What is polled is kept for it, however slow the machine is.
sql(q{SELECT scd2.create_reader('poller', 't', 0)});
my $begun = sql('SELECT now()');
my $writer = start_writer($node, 'postgres', 3);
my %answers;
my $rounds = 0;
while ($rounds++ < 200 && ($rounds < 40 || sql("SELECT $EARLIEST") < 500 || !$answers{gone}))
{
    sql('SELECT poll()');
    sql(q{SELECT scd2.advance_reader('poller', u.version) FROM polled_upto u WHERE u.version > (SELECT version FROM scd2.readers WHERE name = 'poller')});
    sql('SELECT consume(' . ($rounds % 3 ? 'NULL' : '20') . ')');
    $answers{$_}++ for split /\n/, sql('SELECT read_near_the_edge() FROM generate_series(1, 3)');
}
sql(q{SELECT scd2.drop_reader('poller')});
ok($answers{read}, 'ranges were read');
ok($answers{gone}, 'some were removed before they could be read: an error');
is(sql('SELECT count(*) FROM reads r WHERE rows <> (SELECT count(*) FROM polled p WHERE p._commit_version BETWEEN r.first AND r.last)'), '0', 'what was read was whole');
cmp_ok(sql("SELECT $EARLIEST"), '>', 0, 'old versions are removed');
cmp_ok(sql(q{SELECT count(*) FROM pg_inherits WHERE inhparent = 't_changes'::regclass}), '<', 60, 'whole partitions go');
is(sql(qq{SELECT last_vacuum BETWEEN '$begun' AND now() FROM scd2.feeds WHERE source = 't'::regclass}), 't', 'scd2.feeds tells when');

# A consistent start: the rows at the version after which a reader starts, whenever they are fetched, and the changes that follow.
sql(q{
    CREATE TABLE mirror (LIKE t INCLUDING ALL);
    -- of each key the last change counts
    CREATE FUNCTION mirror() RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        CREATE TEMPORARY TABLE last ON COMMIT DROP AS
            SELECT DISTINCT ON (id) * FROM scd2.read_changes('mirror', NULL::t_changes) ORDER BY id, _commit_version DESC, _change_ordinal DESC;
        DELETE FROM mirror USING last WHERE mirror.id = last.id;
        INSERT INTO mirror SELECT id, v, body FROM last WHERE _change_type <> 'delete';
        PERFORM scd2.advance_reader('mirror');
    END $$});
my $since = sql(q{SELECT scd2.create_reader('mirror', 't')});
sleep 3;
sql("INSERT INTO mirror SELECT * FROM scd2.table_at(NULL::t, $since)");
for my $round (1 .. 5)
{
    sql('SELECT mirror()');
    sql('SELECT consume()');
}
# (What the reader has passed is a version; the table is looked at as it was then.)
is(sql(q{SELECT count(*) FROM scd2.readers r, LATERAL (
    (SELECT * FROM scd2.table_at(NULL::t, r.version) EXCEPT ALL TABLE mirror) UNION ALL (TABLE mirror EXCEPT ALL SELECT * FROM scd2.table_at(NULL::t, r.version))) d WHERE r.name = 'mirror'}), '0', 'a consumer that starts so has the table');
cmp_ok(sql(q{SELECT version FROM scd2.readers WHERE name = 'mirror'}), '>', $since, 'and what came later');
sql(q{SELECT scd2.drop_reader('mirror')});

# A reader that is not read.
my $unread = sql(q{SELECT version FROM scd2.readers WHERE name = 'consumer'});
sleep 4;
cmp_ok(sql("SELECT $EARLIEST"), '<=', $unread + 1, 'a reader keeps what it has not read');
sql('SELECT consume()');
my $start = sql("SELECT $EARLIEST");
ok($node->poll_query_until('postgres', "SELECT consume() IS NOT NULL AND $EARLIEST > $start + 100"), 'which is removed when it has');
my $log = -s $node->logfile;
sql(q{SELECT scd2.create_reader('forgotten', 't')});
set('pg_scd2.reader_timeout', '2s');
ok($node->poll_query_until('postgres', q{SELECT consume() IS NOT NULL AND (SELECT array_agg(name) = '{consumer}' FROM scd2.readers)}), 'one that is forgotten expires, one that is read does not');
set('pg_scd2.reader_timeout', undef);
like(substr(slurp_file($node->logfile), $log), qr/WARNING:  reader "forgotten" of table "public.t" has expired: it was not read for more than 2s/, 'the log tells');
is(sql(q{SELECT fix FROM scd2.diagnose() WHERE problem LIKE '%"forgotten" has expired%'}), q{SELECT scd2.drop_reader('forgotten');}, 'and diagnose()');
sql(q{SELECT scd2.drop_reader('forgotten')});

# A paused flow.
sql(q{SELECT scd2.pause_flow('t_history')});
sql(q{SELECT consume()});
my $held = sql(q{SELECT watermark_version FROM scd2.flows WHERE flow = 't_history'});
sleep 4;
cmp_ok(sql("SELECT $EARLIEST"), '<=', $held + 1, 'a paused flow keeps what it has not applied');
sql(q{SELECT consume()});
like(sql(q{SELECT held_by FROM scd2.feeds WHERE source = 't'::regclass}), qr/^flow "t_history" at version $held$/, 'which scd2.feeds tells');
sql(q{SELECT scd2.resume_flow('t_history')});
ok($node->poll_query_until('postgres', "SELECT consume() IS NOT NULL AND $EARLIEST > $held + 100"), 'it is removed when the flow has');

# A feed that cannot be shortened.
sql(q{CREATE TABLE stuck (id int PRIMARY KEY); SELECT scd2.enable_change_feed('stuck'); CREATE VIEW in_the_way AS SELECT * FROM stuck_changes_p1});
sql('INSERT INTO stuck VALUES (1)');
$log = -s $node->logfile;
ok($node->poll_query_until('postgres', q{SELECT count(*) > 1 FROM pg_inherits WHERE inhparent = 'stuck_changes'::regclass}), 'another feed is cut');
my $told = qr/ERROR:  cannot drop table (?:public\.)?stuck_changes_p1 because other objects depend on it/;
my $waits = 0;
sleep 1 while $waits++ < 30 && substr(slurp_file($node->logfile), $log) !~ $told;
like(substr(slurp_file($node->logfile), $log), $told, 'what stands in the way is told in the log');
my $told_at = time;
my $before = sql("SELECT $EARLIEST");
ok($node->poll_query_until('postgres', "SELECT consume() IS NOT NULL AND $EARLIEST > $before + 500"), 'the others go on');
my $times = () = substr(slurp_file($node->logfile), $log) =~ /cannot drop table/g;
cmp_ok($times, '<=', 1 + (time - $told_at) / 3, "once in a while: $times");
wait_until($node, 'postgres', q{SELECT EXISTS (SELECT FROM scd2.diagnose() WHERE subject = 'table public.stuck' AND problem LIKE '%is not shortened%' AND fix = 'SELECT * FROM scd2.vacuum_feed(''public.stuck'');')}, 'diagnose() tells of it');
is($node->psql('postgres', q{SELECT * FROM scd2.vacuum_feed('stuck')}), 3, '... with a statement that says what stands in the way');
my $reader = $node->background_psql('postgres', on_error_stop => 0);
$reader->query_safe('BEGIN; SELECT count(*) FROM stuck_changes');
wait_until($node, 'postgres', q{SELECT EXISTS (SELECT FROM scd2.diagnose() WHERE subject = 'table public.stuck' AND problem LIKE '%is not shortened%' AND fix LIKE 'SELECT pg_terminate_backend(%);')}, 'who has the feed open, if somebody has');
my $terminate = sql(q{SELECT format('SELECT pg_terminate_backend(%s);', pid) FROM pg_stat_activity WHERE state = 'idle in transaction'});
sql('DROP VIEW in_the_way');
sleep 4;
is(sql(q{SELECT count(*) FROM pg_inherits WHERE inhparent = 'stuck_changes'::regclass}), '2', 'he keeps it from being shortened');
sql($terminate);
eval { $reader->quit };
ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_inherits WHERE inhparent = 'stuck_changes'::regclass}), 'it is shortened after all');
is(sql(q{SELECT count(*) FROM scd2.diagnose() WHERE subject = 'table public.stuck'}), '0', 'and diagnose() has nothing to tell');

# Crashes: an error just before the commit, and whenever it happens.
set('pg_scd2.debug_fail_at', 'feed retained');
$log = -s $node->logfile;
$waits = 0;
do { sql('SELECT consume()'); sleep 1; } while $waits++ < 30 && substr(slurp_file($node->logfile), $log) !~ /injected failure/;
like(substr(slurp_file($node->logfile), $log), qr/pg_scd2 apply.*ERROR:.*injected failure: feed retained/, 'removal fails');
$node->stop('immediate');
finish_writer($writer);
$node->start;
wait_capture($node);
sync($node);
feed_tells_the_truth('after a crash before the commit');
set('pg_scd2.debug_fail_at', undef);
for my $round (1 .. 3)
{
    $writer = start_writer($node, 'postgres', 2);
    $before = sql("SELECT $EARLIEST");
    $node->poll_query_until('postgres', "SELECT consume() IS NOT NULL AND $EARLIEST > $before");
    $node->stop('immediate');
    finish_writer($writer);
    $node->start;
}
sync($node);
sql('SELECT consume()');
is(sql(q{SELECT count(*) FROM ((SELECT xid, change, image FROM audit EXCEPT ALL SELECT _xid, _change_type, to_jsonb(r) FROM consumed, LATERAL (SELECT id, v, body) r)
                              UNION ALL (SELECT _xid, _change_type, to_jsonb(r) FROM consumed, LATERAL (SELECT id, v, body) r EXCEPT ALL SELECT xid, change, image FROM audit)) d}),
    '0', 'the reader had every change once');
feed_tells_the_truth('after crashes');
is(sql(q{
    WITH change AS (SELECT n, xid, change, (image ->> 'id')::int AS id, image FROM audit WHERE change <> 'update_preimage'),
         net AS (SELECT DISTINCT ON (id, xid) id, xid, n, CASE WHEN change <> 'delete' THEN image END AS after FROM change ORDER BY id, xid, n DESC),
         version AS (SELECT id, after, lag(after) OVER (PARTITION BY id ORDER BY n) AS before FROM net),
         expected AS (SELECT after FROM version WHERE after IS NOT NULL AND after IS DISTINCT FROM before),
         found AS (SELECT to_jsonb(r) FROM (SELECT id, v, body FROM t_history) r)
    SELECT count(*) FROM ((TABLE expected EXCEPT ALL TABLE found) UNION ALL (TABLE found EXCEPT ALL TABLE expected)) d}), '0', 'the history has every version that ever was');
done_testing();
