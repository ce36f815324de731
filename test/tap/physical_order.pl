# The rows of a feed need not lie in the order of their versions: an owner may write them by hand, sort partitions
# by CLUSTER, or rewrite them. Nothing that a reader or flow needs is removed, and each reads all of it.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

# (The upkeep is called here.)
my $node = new_node('order', "pg_scd2.debug_upkeep_every = '1h'", "pg_scd2.feed_retention = '1 microsecond'");
sub sql { return $node->safe_psql('postgres', @_); }

# Returns SQLSTATE and message.
sub error_of
{
    my ($sql) = @_;
    my (undef, undef, $stderr) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");
    return $stderr =~ /ERROR:\s+(\w{5}: .*)/ ? $1 : "no error: $stderr";
}

sql(q{
    CREATE EXTENSION pg_scd2;
    -- as the worker does; leaves a partition behind that gets no more
    CREATE FUNCTION cut(feed regclass) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        WHILE scd2_internal.cut_feed(feed) IS NULL LOOP PERFORM pg_sleep(0.05); END LOOP;
    END $$;
    CREATE FUNCTION retain(source regclass) RETURNS bigint LANGUAGE plpgsql AS $$
    BEGIN
        WHILE scd2_internal.retain_feed((SELECT feed_id FROM scd2_internal.feed WHERE source_relid = source AND NOT disabled)) IS NULL LOOP PERFORM pg_sleep(0.05); END LOOP;
        RETURN (SELECT count(*) FROM pg_inherits WHERE inhparent = (SELECT feed FROM scd2.feeds f WHERE f.source = retain.source));
    END $$;
    -- one version for each row
    CREATE PROCEDURE write(t text, first int, last int, val text) LANGUAGE plpgsql AS $$
    BEGIN
        FOR i IN first .. last LOOP
            EXECUTE format('INSERT INTO %I VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET v = excluded.v', t) USING i, val || repeat('x', 500);
            COMMIT;
        END LOOP;
    END $$;});

my %permute = (
    'nothing' => sub { },
    'an update of the first row' => sub { sql("SET pg_scd2.allow_target_writes = on; UPDATE $_[0]_changes SET v = v WHERE _commit_version = (SELECT min(_commit_version) FROM $_[0]_changes)"); },
    'CLUSTER, newest first' => sub { sql("CREATE INDEX $_[0]_down ON $_[1] (_commit_version DESC)"); sql("CLUSTER $_[1] USING $_[0]_down"); },
    'CLUSTER by a column' => sub { sql("CREATE INDEX $_[0]_v ON $_[1] (v)"); sql("CLUSTER $_[1] USING $_[0]_v"); },
    'VACUUM FULL' => sub { sql("VACUUM FULL $_[1]"); },
    'an update of all, VACUUM FULL' => sub { sql("SET pg_scd2.allow_target_writes = on; UPDATE $_[0]_changes SET v = v WHERE _commit_version % 2 = 0"); sql("VACUUM FULL $_[1]"); });

my $n = 0;
for my $how (sort keys %permute)
{
    my $t = 't' . ++$n;
    sql("CREATE TABLE $t (id int PRIMARY KEY, v text); SELECT scd2.track('$t')");
    sync($node);
    my $leaf = sql("SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = '${t}_changes'::regclass");
    sql("CALL write('$t', 1, 30, 'a')");
    sync($node);
    sql("SELECT scd2.create_reader('$t', '$t')");
    sql("SELECT scd2.pause_flow('${t}_history')");
    sql("CALL write('$t', 16, 45, 'b')");
    sql("SELECT scd2.sync('50 s', '{}')");
    sql("SELECT cut('${t}_changes')");
    sql("CALL write('$t', 46, 50, 'c')");
    sql("SELECT scd2.sync('50 s', '{}')");
    $permute{$how}->($t, $leaf);
    is(sql("SELECT retain('$t')"), '2', "$how: what is needed is not removed");
    is(sql("SELECT count(*) FROM scd2.read_changes('$t', NULL::${t}_changes)"), '50', '... a reader reads all');
    sql("SELECT scd2.resume_flow('${t}_history')");
    sync($node);
    is(sql("SELECT count(*), count(*) FILTER (WHERE __end_at IS NULL) FROM ${t}_history"), '65|50', '... a flow applies all');
    is(sql("SELECT count(*) FROM scd2.check_target('${t}_history')"), '0', '... and its target is right');
    is(sql("SELECT retain('$t')"), '2', '... the reader keeps it still');
    sql("SELECT scd2.advance_reader('$t', (SELECT max(_commit_version) FROM $leaf))");
    is(sql("SELECT retain('$t')"), '1', '... which is removed when both have passed it');
    is(sql("SELECT count(*) FROM scd2.read_changes('$t', NULL::${t}_changes)"), '5', '... and the reader reads on');
}

# Rows that a flow has yet to read come to lie before its place: by an update that uses places of others, by CLUSTER.
for my $how ('update', 'cluster')
{
    my $t = "u_$how";
    sql("CREATE TABLE $t (id int PRIMARY KEY, v text); SELECT scd2.track('$t')");
    sync($node);
    my $leaf = sql("SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = '${t}_changes'::regclass");
    for my $i (1 .. 3)    # it has a place
    {
        sql("CALL write('$t', 1, 40, 'a$i')");
        sync($node);
    }
    sql("SELECT scd2.pause_flow('${t}_history')");
    sql("CALL write('$t', 41, 80, 'b')");
    sql("SELECT scd2.sync('50 s', '{}')");
    if ($how eq 'update')
    {
        sql("SET pg_scd2.allow_target_writes = on; UPDATE ${t}_changes SET v = v WHERE ctid < '(4,0)'");
        sql("VACUUM $leaf");
        sql("SET pg_scd2.allow_target_writes = on; UPDATE ${t}_changes SET v = v WHERE id > 60 AND _change_type = 'insert'");
    }
    else
    {
        sql("CREATE INDEX ${t}_id ON $leaf (id DESC)");
        sql("CLUSTER $leaf USING ${t}_id");
    }
    cmp_ok(sql("SELECT min((ctid::text::point)[0]) FROM $leaf WHERE id > 60"), '<', 4, "$how: rows that are not read yet lie first");
    # a batch ends before a version that is left out
    sql("SELECT scd2.skip_version('${t}_history', (SELECT _commit_version FROM $leaf WHERE id = 45))") if $how eq 'cluster';
    sql("SELECT scd2.resume_flow('${t}_history')");
    sync($node);
    my $all = $how eq 'cluster' ? 79 : 80;
    is(sql("SELECT count(*) FROM ${t}_history WHERE __end_at IS NULL"), $all, '... the flow reads them nevertheless');
    sql("CALL write('$t', 81, 90, 'c')");
    sync($node);
    is(sql("SELECT count(*) FROM ${t}_history WHERE __end_at IS NULL"), $all + 10, '... and goes on');
}

# Whoever is below the earliest version all the same is told. (Our own statements never let it come to that.)
my $below = sql("SELECT scd2.earliest_version('t1') - 2");
sql("UPDATE scd2_internal.reader SET version = $below WHERE name = 't1'");
is(error_of("SELECT * FROM scd2.read_changes('t1', NULL::t1_changes);"),
    '22023: the change data feed of table "public.t1" does not reach back to version ' . ($below + 1), 'a reader below the earliest version is an error');
my (undef, undef, $stderr) = $node->psql('postgres', "SELECT * FROM scd2.read_changes('t1', NULL::t1_changes)");
$stderr =~ /HINT:  (.*)/ or die $stderr;
sql($1);
is(sql("SELECT count(*) FROM scd2.read_changes('t1', NULL::t1_changes)"), '5', 'whose hint helps');
sql("SELECT scd2.pause_flow('t1_history')");
sql("UPDATE scd2_internal.flow_state SET watermark_version = $below WHERE flow_id = (SELECT flow_id FROM scd2_internal.flow WHERE name = 't1_history')");
sql("CALL write('t1', 1, 1, 'd')");
sql("SELECT scd2.resume_flow('t1_history')");
ok($node->poll_query_until('postgres', "SELECT state = 'failed' FROM scd2.flows WHERE flow = 't1_history'"), 'a flow below it fails');
like(sql("SELECT last_error FROM scd2.flows WHERE flow = 't1_history'"), qr/changes that flow "t1_history" has not applied were removed from its feed/, 'and says so');
done_testing();
