# What waits of a feed does not wait for ever, and whatever happens to that feed, its table or the extension meanwhile: the
# feed has what there was room for, then a gap that a repair mends, the feeds of other tables go on, and nobody loops.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use Scd2;

$SIG{PIPE} = 'IGNORE';    # sessions go with the server
my $node = new_node('backlog_full', 'pg_scd2.feed_backlog = 64kB', 'pg_scd2.debug_drain_size = 16kB', "pg_scd2.lock_timeout = '1s'");
$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    CREATE TABLE other (id int PRIMARY KEY, v int);
    SELECT scd2.track('other');
    INSERT INTO other VALUES (1, 0);
    -- 3 kB that stay so many
    CREATE FUNCTION much() RETURNS text LANGUAGE sql VOLATILE AS $$ SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 96) $$;
    -- What the images of a feed come to is the table.
    CREATE FUNCTION sums(t text, names text) RETURNS bigint LANGUAGE plpgsql AS $$
    DECLARE
        n bigint;
    BEGIN
        EXECUTE format('SELECT count(*) FROM (SELECT %1$s, sum(b) AS b FROM (SELECT %1$s, CASE WHEN _change_type IN (''insert'', ''update_postimage'') THEN 1 ELSE -1 END AS b FROM %2$s_changes
                        UNION ALL SELECT %1$s, -1 FROM %2$s) i GROUP BY %1$s) x WHERE b <> 0', names, t) INTO n;
        RETURN n;
    END $$;});
sync($node);

my $holder;

sub hold
{
    my (@sql) = @_;
    $holder = $node->background_psql('postgres', on_error_stop => 0);
    $holder->query_safe($_) for 'SET client_min_messages = error', 'BEGIN', @sql;
    return;
}

sub let_go
{
    $holder->query_safe('COMMIT');
    $holder->quit;
    undef $holder;
    return;
}

sub sql { return $node->safe_psql('postgres', @_); }

# Everything that was committed is captured, in the feed or beside it; the other table's feed and history have it.
my $n = 0;

sub others_go_on
{
    my ($what) = @_;
    $n++;
    sql("UPDATE other SET v = $n");
    is(sql(q{SELECT scd2.sync('20 s', '{other_history}') > 0}), 't', "$what: the other table goes on");
    is(sql('SELECT v FROM other_history WHERE __end_at IS NULL'), $n, "$what: its history has what was written");
    return;
}

sub tracked
{
    my ($t, $columns) = @_;    # the history does not have these columns
    my $except = $columns ? ", except_column_list => '{m}'" : '';
    sql("CREATE TABLE $t (id int PRIMARY KEY, v text" . ($columns // '') . "); SELECT scd2.track('$t'$except); INSERT INTO $t SELECT i, 'first' FROM generate_series(1, 10) i;");
    sync($node);
    return;
}

sub none_waits
{
    my ($what) = @_;
    ok($node->poll_query_until('postgres', 'SELECT NOT EXISTS (SELECT FROM scd2_internal.feed_backlog) AND NOT EXISTS (SELECT FROM scd2_internal.backlog)'), "$what: nothing waits any more")
      or diag(sql('SELECT * FROM scd2_internal.feed_backlog'));
    return;
}

sub logged
{
    my ($from, $what, $name) = @_;
    ok($node->poll_query_until('postgres', 'SELECT true') && slurp_file($node->logfile, $from) =~ $what, $name);
    return;
}

# What diagnose says of a table, pasted, until it says nothing more.
sub paste_remedies
{
    my ($t, $what) = @_;
    for (1 .. 5)
    {
        my $fix = sql("SELECT fix FROM scd2.diagnose() WHERE subject ~ '\\m$t\\M' AND fix IS NOT NULL LIMIT 1");
        last if $fix eq '';
        note("$what: $fix");
        my ($code, $out, $err) = $node->psql('postgres', $fix);
        is($code, 0, "$what: the remedy runs") or diag("$fix: $err");
        eval { sync($node) };
    }
    is(sql("SELECT string_agg(problem || coalesce(': ' || detail, ''), '; ') FROM scd2.diagnose() WHERE subject ~ '\\m$t\\M'"), '', "$what: diagnose has nothing more to say");
    return;
}

sub is_whole
{
    my ($t, $what, $names) = @_;
    sync($node);
    is(sql("SELECT state, gap FROM scd2.feeds WHERE source = '$t'::regclass"), 'running|', "$what: the feed is whole");
    is(sql("SELECT * FROM scd2.check_target('${t}_history') LIMIT 3"), '', "$what: its history is right");
    is(sql("SELECT sums('$t', '" . ($names // 'id, v') . "')"), '0', "$what: the images of the feed are the table");
    return;
}

#-------- no room --------

tracked('f');
my $begun = sql('SELECT scd2.latest_version()');
my $from = -s $node->logfile;
hold('LOCK TABLE f_changes IN SHARE MODE');
sql("UPDATE f SET v = much() WHERE id = $_") for 1 .. 10;
sql("UPDATE f SET v = 'then ' || much() WHERE id = $_") for 1 .. 10;
others_go_on('full');
my $gap = sql('SELECT gap_version FROM scd2_internal.feed_backlog');
cmp_ok($gap, '>', $begun + 3, "a gap from version $gap on, not from the first that waits, $begun + 1");
cmp_ok($gap, '<', $begun + 20, '... nor none');
cmp_ok(sql('SELECT sum(pg_column_size(content)) FROM scd2_internal.backlog'), '<', 66 * 1024, 'no more than fits is kept');
logged($from, qr/WARNING:  the change data feed of table "f" will have a gap from version $gap on: .*feed_backlog \(64kB\)/, 'the log tells');
like(sql("SELECT problem || fix FROM scd2.diagnose() WHERE subject ~ '\\mf\\M'"), qr/^its changes since version \d+ wait to be written into its feed.*pg_terminate_backend/, 'diagnose names the holder');
my (undef, undef, $said) = $node->psql('postgres', "SELECT * FROM scd2.table_changes('f', 1, $gap)");
like($said, qr/has no changes after version $begun yet.*process \d+ has held/s, 'a read says what waits');
$node->restart('immediate');
is(sql('SELECT gap_version FROM scd2_internal.feed_backlog UNION ALL SELECT lower(gap) FROM scd2_internal.feed_state WHERE broken_at IS NOT NULL LIMIT 1'), $gap, 'a crash changes nothing of it');
eval { $holder->quit };
none_waits('full');
is(sql('SELECT state, lower(gap), upper_inf(gap) FROM scd2_internal.feed_state WHERE broken_at IS NOT NULL'), "failed|$gap|t", 'the gap is as it was told');
is(sql("SELECT count(*) FROM scd2.table_changes('f', $begun + 1, $gap - 1)"), 2 * ($gap - 1 - $begun), 'what was kept is in the feed');
is(sql("SELECT count(*) FROM f_changes WHERE _commit_version >= $gap"), '0', 'and nothing of the rest');
($said) = (sql(q{SELECT string_agg(problem || ' | ' || fix, E'\n') FROM scd2.diagnose() WHERE subject ~ '\mf\M'}));
like($said, qr/resync/, 'diagnose has the repair');
paste_remedies('f', 'full');
is_whole('f', 'full');
others_go_on('full, mended');

# One transaction that has no room: nothing of it is in the feed.
$begun = sql('SELECT scd2.latest_version()');
hold('LOCK TABLE f_changes IN SHARE MODE');
sql(q{UPDATE f SET v = 'before'});
sql(q{INSERT INTO f SELECT i, much() FROM generate_series(100, 200) i});
others_go_on('a large transaction');
let_go();
none_waits('a large transaction');
is(sql('SELECT lower(gap) FROM scd2_internal.feed_state WHERE broken_at IS NOT NULL'), $begun + 2, 'a large transaction: the gap begins with it');
is(sql("SELECT max(_commit_version) FROM f_changes"), $begun + 1, 'a large transaction: the one before it is in the feed, nothing of it is');
paste_remedies('f', 'a large transaction');
is_whole('f', 'a large transaction');

#-------- errors --------

# One that comes again and again is that feed's. (Here what is kept cannot be read.)
set_setting($node, 'pg_scd2.feed_backlog', '10MB');
tracked('e');
$begun = sql('SELECT scd2.latest_version()');
$from = -s $node->logfile;
hold('LOCK TABLE e_changes IN SHARE MODE');
sql(q{UPDATE e SET v = 'x'; INSERT INTO e SELECT i, much() FROM generate_series(100, 200) i});
others_go_on('an error');
my $second = sql('SELECT max(last_version) FROM scd2_internal.backlog');
sql(q{UPDATE scd2_internal.backlog SET content = '\x0000' WHERE n = (SELECT max(n) FROM scd2_internal.backlog)});
# A transaction of several chunks is written in part when the error comes.
let_go();
none_waits('an error');
logged($from, qr/WARNING:  the change data feed of table "e" has a gap from version $second on: /, 'an error: the log tells');
is(sql('SELECT lower(gap) FROM scd2_internal.feed_state WHERE broken_at IS NOT NULL'), $second, 'an error: a gap from the version that could not be written whole');
is(sql("SELECT count(*) FROM scd2.table_changes('e', $begun + 1, $second - 1)"), '20', 'an error: what is before it can be read');
is(sql("SELECT string_agg(concat_ws(' ', version - $begun, operation, inserts, updates), ',') FROM scd2.describe_history('e') WHERE version > $begun"), '1 UPDATE 0 10,2 GAP 0 0', 'an error: a part of a version does not show');
others_go_on('an error, given up');
paste_remedies('e', 'an error');
is_whole('e', 'an error');

# Errors that take turns are as many.
hold('LOCK TABLE e_changes IN SHARE MODE');
$begun = sql('SELECT scd2.latest_version()');
sql(q{UPDATE e SET v = 'in turn' WHERE id = 1});
others_go_on('errors in turn');
my @turns = ('backlog rows written', 'backlog entries removed');
set_setting($node, 'pg_scd2.debug_fail_at', $turns[0]);
let_go();
for (1 .. 10)
{
    $node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM scd2_internal.feed_backlog WHERE error IS DISTINCT FROM 'injected failure: $turns[0]')") or last;
    last if sql('SELECT count(*) FROM scd2_internal.feed_backlog') eq '0';
    @turns = reverse @turns;
    set_setting($node, 'pg_scd2.debug_fail_at', $turns[0]);
}
none_waits('errors in turn');
set_setting($node, 'pg_scd2.debug_fail_at', undef);
is(sql('SELECT lower(gap) FROM scd2_internal.feed_state WHERE broken_at IS NOT NULL'), $begun + 1, 'errors in turn: a gap');
paste_remedies('e', 'errors in turn');
is_whole('e', 'errors in turn');

# What stands on a feed that may not waits, and the remedy helps.
tracked('u');
sql(q{CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
      SET session_replication_role = replica; SET pg_scd2.own_ddl = on; CREATE TRIGGER users AFTER INSERT ON u_changes FOR EACH ROW EXECUTE FUNCTION nothing();});
sql(q{UPDATE u SET v = 'x'});
others_go_on('a trigger');
is(sql('SELECT count(*) FROM scd2_internal.feed_backlog'), '1', 'a trigger: the feed waits');
is(sql(q{SELECT count(*) FROM u_changes WHERE v = 'x'}), '0', 'a trigger: nothing is written beside it');
paste_remedies('u', 'a trigger');
none_waits('a trigger');
is_whole('u', 'a trigger');

# Others' errors in the batch, and the feed is disabled in it: it is written anew, feed by feed.
sql(q{CREATE TABLE d (id int PRIMARY KEY); SELECT scd2.enable_change_feed('d'); INSERT INTO d VALUES (0)});
sync($node);
stop_workers($node);
sql(q{SET session_replication_role = replica; SET pg_scd2.own_ddl = on; CREATE TRIGGER users AFTER INSERT ON u_changes FOR EACH ROW EXECUTE FUNCTION nothing();});
hold('LOCK TABLE d_changes IN SHARE MODE');
sql(q{INSERT INTO d SELECT generate_series(1, 10); UPDATE u SET v = 'y'; SELECT scd2.disable_change_feed('d'); INSERT INTO d VALUES (11)});
sql('SELECT scd2.start()');
wait_capture($node);
others_go_on('disabled in a batch that fails');
let_go();
paste_remedies('u', 'disabled in a batch that fails');
none_waits('disabled in a batch that fails');
is(sql('SELECT count(*), max(id) FROM d_changes'), '11|10', 'disabled in a batch that fails: the feed has what came before');
is(sql(q{SELECT state FROM scd2.feeds WHERE feed = 'd_changes'::regclass}), 'disabled', 'and is disabled');

# The space that entries took is given back, if nobody is in the way; who is, is not waited for.
$node->safe_psql('postgres', q{CREATE TABLE l (id int, v text); SELECT scd2.enable_change_feed('l')});
sync($node);
hold('LOCK TABLE l_changes IN SHARE MODE');
sql('INSERT INTO l SELECT i, much() FROM generate_series(1, 1000) i');
others_go_on('much waits');
cmp_ok(sql(q{SELECT pg_total_relation_size('scd2_internal.backlog')}), '>', 2 * 1024 * 1024, 'what waits takes space');
my $reader = $node->background_psql('postgres');
$reader->query_safe($_) for 'BEGIN', 'SELECT count(*) FROM scd2_internal.backlog';
let_go();
none_waits('much waits');
sleep 1.5;
others_go_on('much has waited');
$reader->query_safe('COMMIT');
$reader->quit;
ok($node->poll_query_until('postgres', q{SELECT pg_total_relation_size('scd2_internal.backlog') < 100000}), 'its space is given back');
is(sql('SELECT count(*) FROM l_changes'), '1000', 'the feed has it');

#-------- the feed, its columns and its table --------

# The feed is dropped while changes of it wait: who drops it holds its lock.
tracked('g');
hold();
$holder->query_safe('DROP TABLE g_changes');
sql(q{UPDATE g SET v = 'x'});
others_go_on('a feed is being dropped');
let_go();
none_waits('a feed was dropped');
others_go_on('a feed was dropped');
is(sql(q{SELECT s.state FROM scd2_internal.feed_state s JOIN scd2_internal.feed f USING (feed_id) WHERE f.source_name = 'g'}), 'failed', 'a feed was dropped: it alone has failed');
paste_remedies('g', 'a feed was dropped');
sync($node);

# A type goes, and takes columns of the source and of the feed along: in the transaction that wrote such values, under live
# inserts, and while such values wait.
for my $case (['mood', q{CREATE TYPE mood AS ENUM ('a', 'b')}, 'mood', 'DROP TYPE mood CASCADE', q{'a'}],
    ['nocase', q{CREATE COLLATION nocase (provider = icu, locale = 'und', deterministic = true)}, 'text COLLATE nocase', 'DROP COLLATION nocase CASCADE', q{'a'}],
    ['positive', q{CREATE DOMAIN positive AS int CHECK (VALUE > 0)}, 'positive', 'DROP DOMAIN positive CASCADE', '1'])
{
    my ($name, $create, $type, $drop, $value) = @$case;
    my $t = "with_$name";
    sql($create);
    tracked($t, ", m $type");
    sql("BEGIN; ALTER TABLE $t ADD m2 text; UPDATE $t SET m = $value, m2 = 'z'; $drop; COMMIT;");
    others_go_on("$drop in the transaction");
    is_whole($t, "$drop in the transaction", 'id, v, m2');

    sql("$create; ALTER TABLE $t ADD m $type; UPDATE $t SET m = $value");
    my $live = start_writer($node, 'postgres', 2, "\\set id random(1000, 100000000)\nINSERT INTO $t (id, v) VALUES (:id, 'live') ON CONFLICT DO NOTHING;\n\\sleep 2 ms\n");
    sleep 0.5;
    sql($drop);
    sleep 0.3;
    finish_writer($live);
    others_go_on("$drop under inserts");
    is_whole($t, "$drop under inserts", 'id, v, m2');

    sql("$create; ALTER TABLE $t ADD m $type");
    sync($node);
    hold("LOCK TABLE ${t}_changes IN SHARE MODE");
    sql("UPDATE $t SET m = $value WHERE id < 5");
    sql("UPDATE $t SET v = 'waits' WHERE id < 5");
    others_go_on("$drop while values wait");
    $holder->query_safe($drop);
    let_go();
    none_waits("$drop while values wait");
    is_whole($t, "$drop while values wait", 'id, v, m2');
    is(sql("SELECT count(*) FROM ${t}_changes WHERE v = 'waits' AND _change_type = 'update_postimage'"), '4', "$drop while values wait: the rows are there, without that column");
}

# A column whose type goes before the feed has ever got it: nobody's lock on the feed is in the way of that.
tracked('c', ', m int');
hold('SELECT count(*) FROM c_changes');
sql(q{CREATE TYPE short AS ENUM ('a', 'b');
    ALTER TABLE c ADD COLUMN s short DEFAULT 'a', ADD COLUMN after int DEFAULT 5; UPDATE c SET s = 'b' WHERE id < 4; UPDATE c SET v = 'second'; DROP TYPE short CASCADE; UPDATE c SET v = 'third' WHERE id = 1});
others_go_on('a type that came and went');
let_go();
none_waits('a type that came and went');
is_whole('c', 'a type that came and went', 'id, v, after');
is(sql(q{SELECT string_agg(attname, ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'c_changes'::regclass AND attnum > 5 AND NOT attisdropped}), 'id,v,m,after', 'a type that came and went: the column is left out');

# Columns that go and come again under the same name, or change names with each other; the relations get other names, too.
hold('SELECT count(*) FROM c_changes');
sql(q{UPDATE c SET m = id; ALTER TABLE c DROP COLUMN m; UPDATE c SET v = 'without'; ALTER TABLE c ADD COLUMN m text DEFAULT 'anew'; UPDATE c SET v = 'with';
    BEGIN; ALTER TABLE c RENAME COLUMN after TO x; ALTER TABLE c RENAME COLUMN m TO after; ALTER TABLE c RENAME COLUMN x TO m; COMMIT; UPDATE c SET after = 'swapped', m = id WHERE id < 5;
    ALTER TABLE c RENAME TO renamed; CREATE SCHEMA elsewhere; ALTER TABLE renamed SET SCHEMA elsewhere; UPDATE elsewhere.renamed SET after = 'elsewhere' WHERE id = 9});
others_go_on('columns that come again');
$node->restart;
eval { $holder->quit };
none_waits('columns that come again');
sync($node);
is(sql(q{SELECT state, gap FROM scd2.feeds WHERE source = 'elsewhere.renamed'::regclass}), 'running|', 'columns that come again: no gap');
is(sql(q{SELECT * FROM scd2.check_target('c_history') LIMIT 3}), '', 'columns that come again: the history is right');
is(sql(q{SELECT count(*) FROM (SELECT id, v, after, m FROM elsewhere.renamed EXCEPT ALL SELECT id, v, after, m FROM (SELECT DISTINCT ON (id) * FROM c_changes WHERE _change_type <> 'update_preimage' ORDER BY id, _commit_version DESC) l) d}), '0', 'columns that come again: the last images are the table');

# A column is left out while values of it wait.
sql(q{CREATE TABLE x (id int PRIMARY KEY, v text, secret text); SELECT scd2.enable_change_feed('x'); INSERT INTO x VALUES (1, 'a', 's')});
sync($node);
sql(q{SET session_replication_role = replica; SET pg_scd2.own_ddl = on; CREATE TRIGGER users AFTER INSERT ON x_changes FOR EACH ROW EXECUTE FUNCTION nothing();});
sql(q{INSERT INTO x VALUES (2, 'b', 's'); SELECT scd2._wait_captured('10 s')});
sql(q{SELECT scd2.alter_change_feed('x', except_column_list => '{secret}'); INSERT INTO x VALUES (3, 'c', 's')});
others_go_on('a column is left out');
paste_remedies('x', 'a column is left out');
none_waits('a column is left out');
is(sql(q{SELECT string_agg(v, ',' ORDER BY _commit_version), max(to_jsonb(c) ->> 'secret') FROM x_changes c}), 'a,b,c|', 'a column is left out: the rows are there without it');

# Partitions come, with their rows, and go, and are emptied.
sql(q{CREATE TABLE p (id int, v text, y int, PRIMARY KEY (id, y)) PARTITION BY RANGE (y); CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (10);
    SELECT scd2.track('p'); INSERT INTO p SELECT i, 'first', i FROM generate_series(1, 9) i;
    CREATE TABLE p_2 (y int NOT NULL, v text, id int NOT NULL, PRIMARY KEY (id, y)); INSERT INTO p_2 SELECT i, 'second', i FROM generate_series(10, 19) i});
sync($node);
hold('LOCK TABLE p_changes IN SHARE MODE');
sql(q{UPDATE p SET v = 'x' WHERE id = 1; ALTER TABLE p ATTACH PARTITION p_2 FOR VALUES FROM (10) TO (20); UPDATE p SET v = 'y' WHERE id IN (2, 12); UPDATE p SET y = 15 WHERE id = 3});
sql(q{ALTER TABLE p DETACH PARTITION p_1; INSERT INTO p VALUES (30, 'z', 11)});
others_go_on('partitions');
let_go();
none_waits('partitions');
is_whole('p', 'partitions', 'id, v, y');
hold('LOCK TABLE p_changes IN SHARE MODE');
sql(q{TRUNCATE p_2; INSERT INTO p VALUES (31, 'after', 12)});
others_go_on('a partition is emptied');
let_go();
none_waits('a partition is emptied');
sync($node);
is(sql(q{SELECT * FROM scd2.check_target('p_history') LIMIT 3}), '', 'a partition is emptied: the history is right');
is(sql('SELECT count(*) FROM p_history WHERE __end_at IS NULL'), '1', 'a partition is emptied: and has one open row');

# Disabled and enabled again on the same relation, while what came before waits, with changes of columns before and after.
for my $change ('', 'ALTER TABLE %s ADD COLUMN extra int DEFAULT 7', 'ALTER TABLE %s RENAME COLUMN v TO w')
{
    my $t = 'again' . length $change;
    my $what = "disabled and enabled again, $change";
    my $ddl = $change ? sprintf($change, $t) : 'SELECT 1';
    sql("CREATE TABLE $t (id int PRIMARY KEY, v text); SELECT scd2.enable_change_feed('$t'); INSERT INTO $t VALUES (1, 'a')");
    sync($node);
    hold("SELECT count(*) FROM ${t}_changes", $change ? () : "LOCK TABLE ${t}_changes IN SHARE MODE");
    sql("INSERT INTO $t VALUES (2, 'b'); $ddl; INSERT INTO $t VALUES (3, 'c')");
    sql(q{SELECT scd2._wait_captured('10 s')});
    is(sql('SELECT count(*) FROM scd2_internal.feed_backlog'), '1', "$what: it waits");
    sql("SELECT scd2.disable_change_feed('$t'); INSERT INTO $t VALUES (4, 'not captured')");
    my ($code, undef, $err) = $node->psql('postgres', "SELECT scd2.enable_change_feed('$t')");
    if ($code)
    {
        like($err, qr/ERROR:  .*(could not lock table|wait to be written|has no changes after|behind a change)/, "$what: enabling it is refused: " . ($err =~ /ERROR:  (.*)/)[0]);
        like($err, qr/HINT:  .*(pg_terminate_backend|sync)/, "$what: with what helps");
        let_go();
        # The feed follows its columns when its turn comes.
        $node->poll_query_until('postgres', 'SELECT NOT EXISTS (SELECT FROM scd2_internal.feed_backlog)') or die;
        sql("SELECT scd2.enable_change_feed('$t')");
    }
    sql("INSERT INTO $t VALUES (5, 'e')");
    others_go_on($what);
    let_go() if $holder;
    sync($node);
    none_waits($what);
    is(sql("SELECT string_agg(id::text, ',' ORDER BY _commit_version) FROM ${t}_changes"), '1,2,3,5', "$what: the feed has what was captured, in order");
    is(sql("SELECT state, gap FROM scd2.feeds WHERE source = '$t'::regclass"), 'running|', "$what: it is captured");
    is(sql("SELECT max(id) FROM scd2.table_changes(NULL::${t}_changes)"), '5', "$what: it can be read");
    sql("INSERT INTO $t VALUES (6, 'f')");
    sync($node);
    is(sql("SELECT max(id) FROM ${t}_changes"), '6', "$what: it goes on");
}

# The source is dropped.
sql(q{CREATE TABLE s (id int PRIMARY KEY); SELECT scd2.enable_change_feed('s'); INSERT INTO s VALUES (1)});
sync($node);
hold('LOCK TABLE s_changes IN SHARE MODE');
sql('INSERT INTO s VALUES (2)');
sql('INSERT INTO s VALUES (3); DROP TABLE s');
others_go_on('the source is dropped');
let_go();
none_waits('the source is dropped');
is(sql('SELECT count(*) FROM s_changes'), '3', 'the source is dropped: the feed has its last rows');
is(sql(q{SELECT state FROM scd2.feeds WHERE feed = 's_changes'::regclass}), 'source dropped', 'the source is dropped: and says so');

#-------- the workers, the slot, the extension --------

tracked('w');
hold('LOCK TABLE w_changes IN SHARE MODE');
sql(q{UPDATE w SET v = 'x'});
others_go_on('stopped');
stop_workers($node);
sql(q{UPDATE w SET v = 'y'});
let_go();
is(sql('SELECT count(*) FROM scd2_internal.feed_backlog'), '1', 'stopped: what waits is still there');
my ($code, undef, $err) = $node->psql('postgres', q{SELECT count(*) FROM scd2.table_changes('w', scd2.earliest_version('w'), scd2.latest_version())});
like($err, qr/has no changes after version/, 'stopped: what waits is not read as if it were there');
sql('SELECT scd2.start()');
is_whole('w', 'stopped and started');

# The slot is lost while changes wait: they are written, then comes the gap.
$begun = sql('SELECT scd2.latest_version()');
hold('LOCK TABLE w_changes IN SHARE MODE');
sql(q{UPDATE w SET v = 'kept'});
others_go_on('a lost slot');
lose_slot($node, 'postgres', q{UPDATE w SET v = 'lost' WHERE id < 5});
is(sql(q{SELECT complete_version FROM scd2.feeds WHERE source = 'w'::regclass}), $begun, 'a lost slot: what waits still waits');
sql(q{SELECT scd2.resync(source) FROM scd2.feeds WHERE state = 'failed'});
sql(q{UPDATE w SET v = 'later' WHERE id = 7});
sleep 1;
is(sql(q{SELECT state FROM scd2.feeds WHERE source = 'w'::regclass}), 'repairing', 'a lost slot: a repair waits for what came before');
let_go();
is_whole('w', 'a lost slot');
is(sql(q{SELECT count(*) FROM w_changes WHERE v = 'kept' AND _change_type = 'update_postimage'}), '10', 'a lost slot: what waited is in the feed');

# A dump leaves out what waits: the restored feed says that it lacks it.
my $dir = PostgreSQL::Test::Utils::tempdir();
$begun = sql('SELECT scd2.latest_version()');
hold('LOCK TABLE w_changes IN SHARE MODE');
sql(q{UPDATE w SET v = 'waits'});
others_go_on('dumped');
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/dump", $node->connstr('postgres') ], 'dumped while changes wait');
let_go();
is_whole('w', 'dumped');
for my $no_gap ('false', 'true')
{
    my $db = "restored_$no_gap";
    sql("CREATE DATABASE $db TEMPLATE template0");
    $node->command_ok([ 'pg_restore', '-d', $node->connstr($db), "$dir/dump" ], "restored, no_gap => $no_gap");
    my ($code, undef, $err) = $node->psql($db, "SELECT scd2.resume_capture(no_gap => $no_gap)");
    is($code, 0, "no_gap => $no_gap: capture is resumed") or diag($err);
    like($err, qr/WARNING:  .*changes of table "(public\.)?w" waited/, "no_gap => $no_gap: it is said that the feed lacks what waited") if $no_gap eq 'true';
    is($node->safe_psql($db, q{SELECT state, lower(gap) FROM scd2.feeds WHERE source = 'w'::regclass}), 'failed|' . ($begun + 1), "no_gap => $no_gap: a gap from the first that waited");
    is($node->safe_psql($db, 'SELECT count(*) FROM scd2_internal.feed_backlog'), '0', "no_gap => $no_gap: nothing waits here");
    is($node->safe_psql($db, q{SELECT state FROM scd2.feeds WHERE source = 'other'::regclass}), $no_gap eq 'true' ? 'running' : 'failed', "no_gap => $no_gap: the other feed");
    $node->safe_psql($db, q{SELECT scd2.resync('w'); SELECT scd2.resync('other')});
    is($node->safe_psql($db, q{SELECT scd2.sync('50 s', '{w_history,other_history}') > 0}), 't', "no_gap => $no_gap: repaired");
    is($node->safe_psql($db, q{SELECT * FROM scd2.check_target('w_history') LIMIT 3}), '', "no_gap => $no_gap: the history is right");
    is($node->safe_psql($db, q{SELECT gap FROM scd2.feeds WHERE source = 'w'::regclass}), '', "no_gap => $no_gap: no gap any more");
    $node->safe_psql($db, 'SELECT scd2.stop()');
}

# The extension goes.
hold('LOCK TABLE w_changes IN SHARE MODE');
sql(q{UPDATE w SET v = 'never seen'});
sql(q{SELECT scd2._wait_captured('10 s')});
($code, undef, $err) = $node->psql('postgres', q{SET lock_timeout = '1s'; DROP EXTENSION pg_scd2 CASCADE});
note("DROP EXTENSION beside the holder: $code $err");
let_go();
sql('DROP EXTENSION IF EXISTS pg_scd2 CASCADE');
sql(q{CREATE EXTENSION pg_scd2; CREATE TABLE anew (id int PRIMARY KEY); SELECT scd2.track('anew'); INSERT INTO anew VALUES (1)});
sync($node);
is(sql('SELECT count(*) FROM anew_history'), '1', 'the extension is dropped and created again while changes wait');
is(sql('SELECT count(*) FROM scd2_internal.feed_backlog') + sql('SELECT count(*) FROM scd2_internal.backlog'), '0', 'nothing is left of them');
done_testing();
