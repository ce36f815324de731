# Whoever reads a feed, or is told how far it reaches, while changes of it wait to be written or are just being written: the
# answer is right, or an error says who is in the way and which statement helps. Nothing hangs, nothing is incomplete and
# says nothing, no flow and no reader skips anything.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use Scd2;

my $node = new_node('backlog_read', 'pg_scd2.debug_drain_size = 8kB', "pg_scd2.lock_timeout = '300ms'", "statement_timeout = '30s'");
$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    -- What a call says: ok and its result, or its error.
    CREATE FUNCTION outcome(call text) RETURNS text LANGUAGE plpgsql AS $$
    DECLARE
        answer text;
        state text; message text; detail text; hint text;
    BEGIN
        EXECUTE call INTO answer;
        RETURN 'ok ' || coalesce(answer, '');
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
        RETURN format('%s %s | %s | %s', state, message, detail, hint);
    END $$;});

sub sql { return $node->safe_psql('postgres', @_); }

my ($C, $L);    # up to where the feed is complete, and what was captured
my $holder;
my $n = 0;

# A table with a feed, a history and a reader; ten rows that are in the feed, and ten changes that wait, as others hold a lock.
sub stand
{
    my ($how) = @_;
    my $t = 'r' . ++$n;
    sql(qq{CREATE TABLE $t (id int PRIMARY KEY, v int); SELECT scd2.track('$t'); SELECT scd2.create_reader('reader_$t', '$t', NULL);});
    sql("INSERT INTO $t VALUES ($_, 0)") for 1 .. 10;
    sync($node);
    $C = sql('SELECT scd2.latest_version()');
    $holder = $node->background_psql('postgres', on_error_stop => 0);
    if ($how eq 'session' || $how eq 'own')
    {
        $holder->query_safe($_) for 'BEGIN', "LOCK TABLE ${t}_changes IN SHARE MODE";
    }
    elsif ($how eq 'prepared')
    {
        $holder->query_safe($_) for 'BEGIN', "LOCK TABLE ${t}_changes IN SHARE MODE", "PREPARE TRANSACTION 'w'";
    }
    sql("UPDATE $t SET v = v + 1 WHERE id = $_") for 1 .. 9;
    sql("DELETE FROM $t WHERE id = 10");
    sql(q{SELECT scd2._wait_captured('10 s')});
    $L = sql('SELECT scd2.latest_version()');
    return $t;
}

sub is_over
{
    my ($t, $what) = @_;
    sync($node);
    is(sql("SELECT count(*) FROM scd2_internal.feed_backlog"), '0', "$what: nothing waits any more");
    is(sql("SELECT * FROM scd2.check_target('${t}_history') LIMIT 3"), '', "$what: the history is right");
    is(sql("SELECT count(*) FROM scd2.read_changes('reader_$t', NULL::${t}_changes)"), 10 + 18 + 1, "$what: the reader has everything");
    return;
}

# Each: name, call, what is right while changes wait; "names": an error that names who is in the way, and what helps.
sub calls
{
    my ($t) = @_;
    my $feed = "NULL::${t}_changes";
    my $first = $C - 9;
    my @of_versions = map { my $source = $_; (
        [ "table_changes($source)", "SELECT concat_ws(' ', count(*), max(_commit_version)) FROM scd2.table_changes($source)", "ok 10 $C" ],
        [ "table_changes($source, start)", "SELECT concat_ws(' ', count(*), max(_commit_version)) FROM scd2.table_changes($source, $first)", "ok 10 $C" ],
        [ "table_changes($source, start, complete)", "SELECT count(*) FROM scd2.table_changes($source, $first, $C)", 'ok 10' ],
        [ "table_changes($source, start, before)", "SELECT count(*) FROM scd2.table_changes($source, $first, $C - 1)", 'ok 9' ],
        [ "table_changes($source, start, latest)", "SELECT count(*) FROM scd2.table_changes($source, $first, $L)", 'names' ],
        [ "table_changes($source, start, yet to come)", "SELECT count(*) FROM scd2.table_changes($source, $first, $L + 100)", 'names' ],
        [ "table_changes($source, start, the first that waits)", "SELECT count(*) FROM scd2.table_changes($source, $first, $C + 1)", 'names' ],
        [ "table_changes($source, behind it)", "SELECT count(*) FROM scd2.table_changes($source, $C + 1)", 'ok 0' ],
        [ "table_changes($source, text)", "SELECT count(*) FROM scd2.table_changes($source, '$first', '$C')", 'ok 10' ],
        [ "table_changes($source, text, latest)", "SELECT count(*) FROM scd2.table_changes($source, '$first', '$L')", 'names' ],
        [ "table_changes($source, time)", "SELECT count(*) FROM scd2.table_changes($source, (SELECT min(_commit_timestamp) FROM ${t}_changes))", 'ok 10' ],
        [ "table_changes($source, time, now)", "SELECT count(*) FROM scd2.table_changes($source, (SELECT min(_commit_timestamp) FROM ${t}_changes), clock_timestamp())", 'names' ],
        [ "table_changes($source, time, one that is over)", "SELECT count(*) FROM scd2.table_changes($source, (SELECT min(_commit_timestamp) FROM ${t}_changes), (SELECT max(_commit_timestamp) - interval '1 microsecond' FROM ${t}_changes))", 'ok 9' ],
        [ "table_changes($source, text, time)", "SELECT count(*) FROM scd2.table_changes($source, '$first', clock_timestamp()::text)", 'names' ],
    ) } "'$t'", $feed;
    return (
        @of_versions,
        [ 'table_at(complete)', "SELECT concat_ws(' ', count(*), sum(v)) FROM scd2.table_at(NULL::$t, $C)", 'names', '25001' ],
        [ 'table_at(latest)', "SELECT concat_ws(' ', count(*), sum(v)) FROM scd2.table_at(NULL::$t, $L)", 'names', '25001' ],
        [ 'table_at(now)', "SELECT count(*) FROM scd2.table_at(NULL::$t, clock_timestamp())", 'names', '25001' ],
        [ 'describe_history', "SELECT concat_ws(' ', count(*), max(version)) FROM scd2.describe_history('$t')", "ok 10 $C" ],
        [ 'earliest_version', "SELECT scd2.earliest_version('$t') <= $first", 'ok true' ],
        [ 'latest_version', 'SELECT scd2.latest_version()', "ok $L" ],
        [ 'read_changes', "SELECT concat_ws(' ', count(*), max(_commit_version)) FROM scd2.read_changes('reader_$t', $feed)", "ok 10 $C" ],
        [ 'read_changes, some', "SELECT concat_ws(' ', count(*), max(_commit_version)) FROM scd2.read_changes('reader_$t', $feed, 100)", "ok 10 $C" ],
        [ 'advance_reader', "SELECT scd2.advance_reader('reader_$t') FROM (SELECT count(*) FROM scd2.read_changes('reader_$t', $feed)) x WHERE x.count = 10", "ok $C" ],
        [ 'advance_reader(complete)', "SELECT scd2.advance_reader('reader_$t', $C)", "ok $C" ],
        [ 'advance_reader(latest)', "SELECT scd2.advance_reader('reader_$t', $L)", 'names' ],
        [ 'create_reader', "SELECT scd2.create_reader('new_$t', '$t')", "ok $L" ],
        [ 'create_reader, read, advance', "SELECT concat_ws(' ', r, (SELECT count(*) FROM scd2.read_changes('new_$t', $feed)), scd2.advance_reader('new_$t')) FROM scd2.create_reader('new_$t', '$t') r", "ok $L 0 $L" ],
        [ 'check_target', "SELECT count(*) FROM scd2.check_target('${t}_history')", 'names', '25001' ],
        [ 'full_refresh(key_filter)', "SELECT scd2.full_refresh('${t}_history', key_filter => 'id = 1')", 'names', '25001' ],
        [ 'full_refresh', "SELECT scd2.full_refresh('${t}_history', allow_loss => true)", 'ok ' ],
        [ 'track', "SELECT scd2.track('$t', 'more_$t')", "ok more_$t" ],
        [ 'create_auto_cdc_flow', "SELECT scd2.create_auto_cdc_flow('more_$t', '$t', '{id}', 'v', stored_as_scd_type => 1)", qr/^ok / ],
        [ 'create_append_flow', "SELECT scd2.create_append_flow('more_$t', '$t')", qr/^ok / ],
        [ 'starting_version, complete', "SELECT scd2.track('$t', 'more_$t', starting_version => $C - 2)", qr/^ok / ],
        [ 'starting_version, latest', "SELECT scd2.track('$t', 'more_$t', starting_version => $L)", qr/^ok / ],
        [ 'starting_version, yet to come', "SELECT scd2.track('$t', 'more_$t', starting_version => $L + 1)", qr/^22023 / ],
        [ 'resync', "SELECT scd2.resync('$t')", qr{^ok $|^55000 .*(process \d+|prepared transaction "w") has held} ],
        [ 'erase', qq{SELECT count(*) FROM scd2.erase('$t', '{"id": 10}')}, 'names', qr/^(25001|55000|55P03)/ ],
        [ 'vacuum_feed', "SELECT count(*) FROM scd2.vacuum_feed('$t', interval '0')", qr/^(ok 1$|55P03 .*has held)/ ],
        [ 'vacuum_feed, dry', "SELECT max(last_version) FROM scd2.vacuum_feed('$t', interval '0', dry_run => true)", qr/^ok ($C)?$/ ],
        [ 'alter_change_feed(retention)', "SELECT scd2.alter_change_feed('$t', retention => '1 day')", 'ok ' ],
        [ 'alter_change_feed(except)', "SELECT scd2.alter_change_feed('$t', except_column_list => '{}')", qr/^(ok|55P03|55000)/ ],
        [ 'disable_change_feed', "SELECT scd2.drop_flow('${t}_history'), scd2.drop_reader('reader_$t'), scd2.disable_change_feed('$t')", 'ok ' ],
        [ 'purge_history', "SELECT scd2.purge_history('${t}_history', now() - interval '1 year')", qr/^ok/, '25001' ],
        [ 'feeds', "SELECT concat_ws(' ', complete_version, latest_version, backlog_bytes > 0, waits_for IS NOT NULL) FROM scd2.feeds WHERE source = '$t'::regclass", "ok $C $L t t" ],
        [ 'flows', "SELECT concat_ws(' ', state, watermark_version, lag_versions) FROM scd2.flows WHERE source = '$t'::regclass", "ok running $C 10" ],
        [ 'readers', "SELECT concat_ws(' ', version < $C, lag_versions) FROM scd2.readers WHERE name = 'reader_$t'", 'ok t 20' ],
        [ 'diagnose', "SELECT concat_ws(' ', problem, detail, fix) FROM scd2.diagnose() WHERE problem LIKE 'its changes since%'", 'diagnosed' ],
    );
}

# Each call in a transaction of its own that is taken back.
sub try_all
{
    my ($t, $how, $isolation) = @_;
    my $session = $how eq 'own' ? $holder : $node->background_psql('postgres', on_error_stop => 0);
    $session->query_safe('SET client_min_messages = error');
    my $who = $how eq 'prepared' ? qr/prepared transaction "w" has held a lock on it.* \| .*COMMIT PREPARED 'w'/ : qr/process \d+ has held a lock on it.* \| .*SELECT pg_terminate_backend\(\d+\);/i;
    for my $call (calls($t))
    {
        my ($name, $sql, $expected, $in_snapshot) = @$call;
        $expected = $in_snapshot if defined $in_snapshot && $isolation eq 'REPEATABLE READ';
        $sql =~ s/'/''/g;
        $session->query_safe($how eq 'own' ? 'SAVEPOINT s' : "BEGIN ISOLATION LEVEL $isolation");
        my $at = time;
        my $outcome = $session->query("SELECT outcome('$sql');");
        my $took = time - $at;
        $session->query_safe($how eq 'own' ? 'ROLLBACK TO SAVEPOINT s' : 'ROLLBACK');
        my $what = "$how, " . lc($isolation) . ": $name";
        if ($how eq 'own')
        {
            # What waits is to be named as the caller's. (Who has written asks for no repair of what is not captured yet.)
            if (ref $expected) { ok($outcome =~ $expected || $outcome =~ /^55P03 /, $what) or diag($outcome); }
            elsif ($expected eq 'names') { ok($outcome =~ /^(55000|55P03|25001) .*COMMIT/s || $outcome =~ /^ok/ && $name eq 'resync', $what) or diag($outcome); }
            elsif ($expected eq 'diagnosed') { like($outcome, qr/^ok its changes since/, $what); }
            else { is($outcome, $expected, $what); }
        }
        elsif (ref $expected) { like($outcome, $expected, $what); }
        elsif ($expected eq 'names') { like($outcome, qr/^55(000|P03) .* \| .*$who/i, $what); }
        elsif ($expected eq '25001') { like($outcome, qr/^25001|^55000 .*$who/i, $what); }
        elsif ($expected eq 'diagnosed') { like($outcome, qr/^ok its changes since version @{[$C + 1]} wait.*(process \d+|prepared transaction "w").*(pg_terminate|PREPARED)/i, $what); }
        else { is($outcome, $expected, $what); }
        cmp_ok($took, '<', 5, "$what: within $took s") if $took > 2;
    }
    $session->quit unless $how eq 'own';
    return;
}

for my $how ('session', 'prepared')
{
    my $t = stand($how);
    try_all($t, $how, $_) for 'READ COMMITTED', 'REPEATABLE READ';
    # sync() cannot run in a block that catches errors of it.
    for my $targets ('', ", '{${t}_history}'")
    {
        my ($code, undef, $err) = $node->psql('postgres', "SELECT scd2.sync('1 s'$targets)");
        like($err, qr/timeout.*DETAIL:  Changes of table ".*$t" wait to be written into its feed: .*HINT:  (SELECT pg_terminate_backend|COMMIT PREPARED)/s, "$how: sync('1 s'$targets) names who is in the way");
    }
    # The statement that diagnose shows, pasted.
    my $fix = sql("SELECT fix FROM scd2.diagnose() WHERE problem LIKE 'its changes since%'");
    my ($code, $out, $err) = $node->psql('postgres', $fix, on_error_stop => 1);
    is($code, 0, "$how: the remedy runs") or diag("$fix: $err");
    eval { $holder->quit };
    is_over($t, $how);
    is(sql("SELECT count(*) FROM scd2.diagnose() WHERE problem LIKE 'its changes since%'"), '0', "$how: diagnose has nothing more to say");
}

# The caller's own lock.
{
    my $t = stand('own');
    try_all($t, 'own', 'READ COMMITTED');
    $holder->query("SELECT scd2.sync('5 s');");
    like($holder->{stderr}, qr/ERROR:  .*would wait for.*HINT:  COMMIT/s, 'own: sync() does not wait for itself');
    $holder->query('ROLLBACK');
    $holder->quit;
    is_over($t, 'own');
}

#-------- flows that begin while changes wait --------

{
    my $t = stand('session');
    sql("ALTER TABLE $t ADD COLUMN extra int DEFAULT 7; UPDATE $t SET extra = 8 WHERE id = 1; SELECT scd2._wait_captured('10 s')");
    my ($code, undef, $err) = $node->psql('postgres', "SELECT scd2.track('$t', 'late_$t', stored_as_scd_type => 1)");
    like($err, qr/could not lock table.*process \d+ has held.*pg_terminate_backend/s, 'a flow that needs a column of the feed that waits: refused, who is in the way is named') if $code;
    sql(qq{SELECT scd2.track('$t', 'at_$t', column_list => '{id,v}', starting_version => $C - 2, name => 'at_$t')}) if !$code;
    $holder->query_safe('COMMIT');
    $holder->quit;
    sync($node);
    sql("SELECT scd2.track('$t', 'late_$t', stored_as_scd_type => 1)") if $code;
    sql(qq{SELECT scd2.track('$t', 'at_$t', starting_version => $C - 2, name => 'at_$t')}) if $code;
    sync($node);
    is(sql("SELECT * FROM scd2.check_target('$_') LIMIT 3"), '', "$_ is right") for "${t}_history", "late_$t", "at_$t";
    is(sql("SELECT count(*) FROM ((SELECT id, v, extra FROM $t EXCEPT ALL SELECT id, v, extra FROM late_$t) UNION ALL (SELECT id, v, extra FROM late_$t EXCEPT ALL SELECT id, v, extra FROM $t)) d"), '0', 'and is the table');
}

{
    my $t = stand('session');
    sql("SELECT scd2.track('$t', 'two_$t', starting_version => $C - 5)");
    sql("SELECT scd2.track('$t', 'one_$t', stored_as_scd_type => 1); SELECT scd2.create_append_flow('all_$t', '$t')");
    sql("INSERT INTO $t SELECT i, i FROM generate_series(20, 30) i");
    sleep 1;
    is(sql("SELECT (SELECT count(*) FROM one_$t) + (SELECT count(*) FROM two_$t WHERE __end_at IS NULL AND v > 0)"), '0', 'no first copy is made while changes wait');
    my ($code, undef, $err) = $node->psql('postgres', "SELECT scd2.sync('1 s', '{one_$t}')");
    like($err, qr/timeout.*Changes of table.*process \d+/s, 'sync() of such a target says why');
    $holder->query_safe('COMMIT');
    $holder->quit;
    is_over_but($t);
}

sub is_over_but
{
    my ($t) = @_;
    sync($node);
    is(sql("SELECT * FROM scd2.check_target('$_') LIMIT 3"), '', "$_ is right") for "${t}_history", "one_$t", "two_$t";
    is(sql("SELECT count(*) FROM ((TABLE $t EXCEPT ALL TABLE one_$t) UNION ALL (TABLE one_$t EXCEPT ALL TABLE $t)) d"), '0', 'the copy is the table');
    is(sql("SELECT count(*) FROM ((TABLE $t EXCEPT ALL SELECT id, v FROM two_$t WHERE __end_at IS NULL) UNION ALL (SELECT id, v FROM two_$t WHERE __end_at IS NULL EXCEPT ALL TABLE $t)) d"), '0', 'the history from a version on is the table');
    return;
}

# A column that was renamed while changes wait: who alters the feed is not to make another of that name.
{
    my $t = stand('session');
    sql("SELECT scd2.drop_flow('${t}_history'); ALTER TABLE $t RENAME COLUMN v TO w; INSERT INTO $t VALUES (77, 7); SELECT scd2._wait_captured('10 s')");
    $holder->query_safe('COMMIT');
    my ($code, undef, $err) = $node->psql('postgres', "SELECT scd2.alter_change_feed('$t', except_column_list => '{}')");
    like($err, qr/^$|capture is behind a change of column|wait to be written|could not lock/, 'alter_change_feed beside a column that was renamed');
    $holder->quit;
    sync($node);
    is(sql("SELECT state || coalesce(gap::text, '') FROM scd2.feeds WHERE source = '$t'::regclass"), 'running', 'no gap comes of it');
    is(sql("SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = '${t}_changes'::regclass AND attnum > 5 AND NOT attisdropped"), 'id,w', 'and one column');
    # The same while something stands on the feed: nobody's lock is in the way then.
    sql(qq{CREATE FUNCTION f_$t() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
        SET session_replication_role = replica; SET pg_scd2.own_ddl = on; CREATE TRIGGER users AFTER INSERT ON ${t}_changes FOR EACH ROW EXECUTE FUNCTION f_$t();});
    sql("INSERT INTO $t VALUES (78, 7); ALTER TABLE $t RENAME COLUMN w TO x; INSERT INTO $t VALUES (79, 7); SELECT scd2._wait_captured('10 s')");
    ($code, undef, $err) = $node->psql('postgres', "SELECT scd2.alter_change_feed('$t', except_column_list => '{}')");
    like($err, qr/capture is behind a change of column|wait to be written/, 'alter_change_feed while a new name waits: refused');
    ($code, undef, $err) = $node->psql('postgres', "SELECT scd2.track('$t')");
    like($err, qr/capture is behind a change of column|wait to be written/, 'track while a new name waits: refused');
    sql(sql(q{SELECT fix FROM scd2.diagnose() WHERE problem LIKE 'its changes since%'}));
    sync($node);
    is(sql("SELECT state || coalesce(gap::text, '') FROM scd2.feeds WHERE source = '$t'::regclass"), 'running', 'no gap comes of it');
    is(sql("SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = '${t}_changes'::regclass AND attnum > 5 AND NOT attisdropped"), 'id,x', 'and one column');
}

#-------- while it is being written --------

# Each transaction changes one row. Reads go on while a large backlog is written, in parts: each is a prefix, whole up to where it
# says that it is.
{
    my $t = 'drains';
    sql(qq{CREATE TABLE $t (id int PRIMARY KEY, v int, w text); INSERT INTO $t VALUES (1, 0);
        SELECT scd2.track('$t'); SELECT scd2.create_reader('by_$t', '$t');
        CREATE TABLE seen (LIKE ${t}_changes); CREATE TABLE reads (complete bigint, counted bigint, last bigint)});
    sync($node);
    my $begun = sql('SELECT scd2.latest_version()');
    sql("SELECT scd2.advance_reader('by_$t', $begun)");
    $holder = $node->background_psql('postgres', on_error_stop => 0);
    $holder->query_safe($_) for 'BEGIN', "LOCK TABLE ${t}_changes IN SHARE MODE";
    my $script = PostgreSQL::Test::Utils::tempdir() . '/one.sql';
    append_to_file($script, "UPDATE $t SET v = v + 1, w = repeat('x', 500);\n");
    my $changes = 8000;
    $node->command_ok([ 'pgbench', '-n', '-f', $script, '-c', 1, '-t', $changes, $node->connstr('postgres') ], "$changes changes wait");
    sql(q{SELECT scd2._wait_captured('60 s')});
    $L = sql('SELECT scd2.latest_version()');
    is($L, $begun + $changes, 'each is a version');
    $holder->query_safe('COMMIT');
    $holder->quit;
    my ($reads, $partial, $wrong, $errors) = (0, 0, 0, 0);
    my $rr = $node->background_psql('postgres', on_error_stop => 0);
    my $rc = $node->background_psql('postgres', on_error_stop => 0);
    while (1)
    {
        # One snapshot: what is said of the feed, and what is in it.
        $rr->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
        my ($complete, $counted, $last, $described) = split /\|/, $rr->query_safe(qq{SELECT f.complete_version, c.n, c.last, (SELECT count(*) FROM scd2.describe_history('$t') WHERE version > $begun)
            FROM scd2.feeds f, (SELECT count(*) / 2 AS n, coalesce(max(_commit_version), $begun) AS last FROM scd2.table_changes('$t', $begun + 1)) c WHERE f.source = '$t'::regclass});
        my ($again) = $rr->query_safe("SELECT count(*) / 2 FROM scd2.table_changes(NULL::${t}_changes, $begun + 1)");
        my $asked = $rr->query("SELECT outcome('SELECT count(*) / 2 FROM scd2.table_changes(''$t'', $begun + 1, $L)');");
        $rr->query_safe('COMMIT');
        $reads++;
        $partial++ if $complete > $begun && $complete < $L;
        $wrong++ if $counted != $complete - $begun || $last != $complete || $again != $counted || $described != $counted;
        diag("$complete - $begun: $counted, up to $last, $described, then $again") if $counted != $complete - $begun || $last != $complete || $again != $counted || $described != $counted;
        $wrong++ if $complete < $L ? $asked !~ /^55000 .*yet/ : $asked ne "ok $changes";
        diag($asked) if $complete < $L ? $asked !~ /^55000 .*yet/ : $asked ne "ok $changes";
        # A reader takes what is there, without another word.
        $rc->query_safe($_) for 'BEGIN', "INSERT INTO seen SELECT * FROM scd2.read_changes('by_$t', NULL::${t}_changes, 500)", "SELECT scd2.advance_reader('by_$t')", 'COMMIT';
        # A statement of its own for each: the later may see more, never less.
        my $at = $rc->query(qq{SELECT outcome('SELECT concat_ws('' '', count(*), sum(v)) FROM scd2.table_at(NULL::$t, $begun)');});
        $wrong++, diag($at) if $at !~ /^ok 1 0$|^55000 .*yet|^40001/;
        last if $complete >= $L && sql(qq{SELECT version FROM scd2.readers WHERE name = 'by_$t'}) >= $L;
    }
    $rr->quit;
    $rc->quit;
    cmp_ok($partial, '>', 2, "$reads reads, $partial of them while a part was written");
    is($wrong, 0, 'each is what the feed has up to where it is complete');
    is(sql("SELECT count(*) FROM ((TABLE seen EXCEPT ALL TABLE ${t}_changes) UNION ALL (TABLE ${t}_changes EXCEPT ALL TABLE seen)) d"), '0', 'the reader had each change once');
    sync($node);
    is(sql("SELECT count(*) FROM ${t}_history"), $changes + 1, 'the history has each version');
    is(sql("SELECT * FROM scd2.check_target('${t}_history') LIMIT 3"), '', 'the history is right');
}
done_testing();
