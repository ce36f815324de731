# Nothing is read by an assumed type. Every column of feeds, targets and what flows remember gets other
# types, is dropped, generated, renamed and made anew, while its flow is paused or at work; primary keys
# are replaced, tables become unlogged and children. Each time the flow or the feed fails by name, or
# goes on and its target is right; no process dies, no error is an internal one, and others go on.
#
# Statements on what flows remember are refused: here a setting for tests lets them pass.
#
# PG_TEST_EXTRA=altered_relations: all cases, each both while its flow is paused and at work; else a third of those of
# columns, each in one of the ways.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('altered_relations', 'max_locks_per_transaction = 512', 'pg_scd2.max_apply_workers = 3', 'autovacuum = off',
    "log_line_prefix = '%m [%p] %b %d %e '");
my $sql = sub { return $node->safe_psql('postgres', $_[0]); };
$sql->(q{
    CREATE EXTENSION pg_scd2;
    CREATE ACCESS METHOD other_heap TYPE TABLE HANDLER heap_tableam_handler;
    ALTER DATABASE postgres SET pg_scd2.own_ddl = on;
    ALTER DATABASE postgres SET pg_scd2.lock_timeout = '500ms';
    ALTER DATABASE postgres SET client_min_messages = error});

# ---- a world: a source, its feed, a flow, a target, in a schema of its own ----

$sql->(q{
    CREATE FUNCTION make(schema text, kind text) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        EXECUTE format('CREATE SCHEMA %I', schema);
        PERFORM set_config('search_path', schema, true);
        IF kind LIKE 'captured%' THEN
            CREATE TABLE t (k int PRIMARY KEY, v text, s text);
            PERFORM scd2.track('t', 'h', name => schema, stored_as_scd_type => CASE kind WHEN 'captured 1' THEN 1 ELSE 2 END);
        ELSIF kind = 'own sequence' THEN
            CREATE TABLE t (k int PRIMARY KEY, v text, s int);
            PERFORM scd2.enable_change_feed('t');
            PERFORM scd2.create_auto_cdc_flow('h', 't_changes', '{k}', 's', delete_sequence_by => 's + 1', name => schema, stored_as_scd_type => 2, shared => true, apply_as_truncates => 'false');
        ELSIF kind = 'append' THEN
            CREATE TABLE t (k int, v text, s int);
            PERFORM scd2.enable_change_feed('t');
            PERFORM scd2.create_append_flow('h', 't', name => schema);
        ELSIF kind = 'snapshots' THEN
            CREATE TABLE t (k int, v text, s text);
            PERFORM scd2.create_auto_cdc_from_snapshot_flow('h', 't', keys => '{k}', sequence_type => 'int', name => schema, shared => true, stored_as_scd_type => 2, track_history_column_list => '{s}');
        ELSE
            CREATE TABLE t (k text, v text, s text);
            PERFORM scd2.enable_change_feed('t');
            PERFORM scd2.create_auto_cdc_flow('h', 't', '{k}', CASE kind WHEN 'events 1' THEN 's || ''''' ELSE 's' END, name => schema, stored_as_scd_type => CASE WHEN kind LIKE '%1' THEN 1 ELSE 2 END,
                track_history_column_list => CASE kind WHEN 'events 2' THEN '{s}'::name[] END, ignore_null_updates => kind LIKE 'nulls%', current_column => CASE kind WHEN 'events 2' THEN 'is_current'::name END);
        END IF;
        ALTER TABLE h DROP CONSTRAINT IF EXISTS h_check;    -- it would keep the interval's types
    END $$;
    CREATE FUNCTION write_rows(schema text, kind text, n int) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM set_config('search_path', schema, true);
        IF kind LIKE 'captured%' OR kind = 'own sequence' THEN
            INSERT INTO t VALUES (n * 2, 'a', n * 10), (n * 2 + 1, NULL, n * 10);
            UPDATE t SET v = 'b', s = (s::int + 5)::text::int WHERE k IN (n * 2, n * 2 - 1);
            DELETE FROM t WHERE k = n * 2 - 2;
        ELSE
            DELETE FROM t WHERE kind = 'snapshots';
            INSERT INTO t VALUES (1, 'a' || n, 1000 + n * 10), (2, NULL, 1000 + n * 10);
            INSERT INTO t SELECT 1, 'late' || n, 1000 - n WHERE kind <> 'snapshots';
            INSERT INTO t SELECT 2, 'late' || n, 1005 WHERE kind <> 'snapshots';
        END IF;
    END $$;
    CREATE FUNCTION apply_by_hand(schema text, version int) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM scd2.apply_snapshot(schema, version::text);
    END $$;
    -- What a statement of a session raises; NULL: nothing.
    CREATE FUNCTION told(statement text) RETURNS text LANGUAGE plpgsql AS $$
    BEGIN
        EXECUTE statement;
        RETURN NULL;
    EXCEPTION WHEN OTHERS THEN
        RETURN SQLSTATE || ': ' || SQLERRM;
    END $$;
    CREATE FUNCTION columns_of(relation regclass) RETURNS SETOF name LANGUAGE sql AS $$
        SELECT attname FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped ORDER BY attnum
    $$;
    CREATE FUNCTION altered(relation text, c text, how text) RETURNS text LANGUAGE sql AS $$
        SELECT CASE how
            WHEN 'dropped' THEN format('ALTER TABLE %s DROP COLUMN %I', relation, c)
            WHEN 'renamed' THEN format('ALTER TABLE %s RENAME COLUMN %I TO other_name', relation, c)
            WHEN 'reordered' THEN format('ALTER TABLE %1$s DROP COLUMN %2$I; ALTER TABLE %1$s ADD COLUMN %2$I %3$s', relation, c, t)
            WHEN 'generated' THEN format('ALTER TABLE %1$s DROP COLUMN %2$I; ALTER TABLE %1$s ADD COLUMN %2$I %3$s GENERATED ALWAYS AS (NULL::%3$s) STORED', relation, c, t)
            WHEN 'not null' THEN format('ALTER TABLE %s ALTER COLUMN %I DROP NOT NULL', relation, c)
            ELSE format('ALTER TABLE %s ALTER COLUMN %I TYPE %s USING %s', relation, c, how, CASE how
                WHEN 'int' THEN h WHEN 'bigint' THEN h WHEN 'numeric' THEN h WHEN 'float8' THEN h WHEN 'text' THEN m WHEN 'name' THEN m WHEN '"char"' THEN m || '::"char"'
                WHEN 'bytea' THEN format('decode(%s, ''hex'')', m) WHEN 'jsonb' THEN format('to_jsonb(%s)', m) WHEN 'int[]' THEN format('ARRAY[%s]', h)
                WHEN 'timestamptz' THEN format('to_timestamp(%s)', h) WHEN 'point' THEN format('point(%s, 1)', h) END) END
        FROM (SELECT format('hashtext(%I::text)', c), format('md5(%I::text)', c),
                     (SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = relation::regclass AND attname = c)) AS x (h, m, t)
    $$;
    CREATE TABLE world (schema text PRIMARY KEY, round text, kind text, relation text, statement text, what text, paused boolean, refused text)});

my @kinds = ('captured 2', 'captured 1', 'own sequence', 'append', 'snapshots', 'events 2', 'events 1', 'nulls 2', 'nulls 1');
my $all = ($ENV{PG_TEST_EXTRA} // '') =~ /\baltered_relations\b/;
my $made = 0;

# What there is to alter, from one world of each kind.
$sql->(join ';', map { "SELECT make('model_' || $_, '$kinds[$_]')" } 0 .. $#kinds);
sync($node);
my @columns;
for my $i (0 .. $#kinds)
{
    my @relations = ('h');
    push @relations, 'h_memory' if $sql->("SELECT to_regclass('model_$i.h_memory') IS NOT NULL") eq 't';
    push @relations, 't_changes' if $kinds[$i] =~ /captured 2|events 2/;
    push @relations, 't' if $kinds[$i] eq 'snapshots';
    for my $relation (@relations)
    {
        push @columns, [ $kinds[$i], $relation, $_ ] for split /\n/, $sql->("SELECT columns_of('model_$i.$relation')");
    }
}
cmp_ok(scalar @columns, '>', 50, scalar(@columns) . ' columns to alter');

# ---- a round ----

my %state = map { $_ => $sql->("SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE backend_type LIKE 'pg_scd2%' AND datname = 'postgres'") } ('workers');
my $started = $sql->('SELECT pg_postmaster_start_time()');
$sql->(q{SELECT make('good', 'events 2')});

# try_all(ROUND, CASES): each case is [kind, relation, statement over "%s", what]; each in a world of its own.
sub try_all
{
    my ($round, @cases) = @_;
    my $first = $made + 1;
    my $log_before = -s $node->logfile;
    my $n = 0;
    for my $case (@cases)
    {
        my ($kind, $relation, $statement, $what) = @$case;
        for my $paused ($all ? (0, 1) : ($n % 2))
        {
            $made++;
            my $target = "w$made.$relation";
            (my $text = $statement) =~ s/%s/$target/g;
            $sql->("INSERT INTO world VALUES ('w$made', \$q\$$round\$q\$, '$kind', '$relation', \$q\$$text\$q\$, \$q\$$what\$q\$, $paused = 1)");
        }
        $n++;
    }
    my $mine = "substr(schema, 2)::int >= $first";
    $sql->("SELECT make(schema, kind) FROM world WHERE $mine");
    $sql->("SELECT write_rows(schema, kind, 1) FROM world WHERE $mine");
    sync($node);
    $sql->("SELECT apply_by_hand(schema, 1) FROM world WHERE $mine AND kind = 'snapshots'");
    $sql->("SELECT write_rows(schema, kind, 2) FROM world WHERE $mine");
    sync($node);
    $sql->("SELECT scd2.pause_flow(schema) FROM world WHERE $mine AND paused");
    $sql->("UPDATE world SET refused = public.told(altered(schema || '.' || relation, what, round)) WHERE $mine AND statement = ''") if !$cases[0][2];
    $sql->("UPDATE world SET refused = public.told(statement) WHERE $mine AND statement <> ''");
    $sql->("SELECT scd2.resume_flow(schema) FROM world WHERE $mine AND paused");
    # (Of a captured table whose row changes fail nothing is left: that is what it was for.)
    my $written = $sql->("SELECT string_agg(public.told(format('SELECT public.write_rows(%L, %L, 3)', schema, kind)), E'\\n') FROM world WHERE $mine AND relation <> 't'");
    is($written, '', "$round: sources are written as ever");
    my $by_hand = $sql->("SELECT string_agg(public.told(format('SELECT public.apply_by_hand(%L, 3)', schema)), E'\\n') FROM world WHERE $mine AND kind = 'snapshots'");
    unlike($by_hand, qr/^XX/m, "$round: by hand, no internal error");
    $sql->(q{SELECT write_rows('good', 'events 2', } . ($made + 3) . ')');
    like($node->safe_psql('postgres', q{SELECT scd2.sync('50 s', '{good.h}')}), qr/^\d+$/, "$round: another flow goes on");

    # Each has failed, or has all that is in its feed, or the feed waits until what stands on it is gone.
    my $pending = qq{SELECT schema FROM world w JOIN scd2.flows f ON f.flow = schema JOIN scd2.feeds d ON d.source = f.source
                     WHERE $mine AND f.kind <> 'snapshot' AND f.last_error IS NULL AND f.lag_versions > 0 AND coalesce(d.waits_for, '') NOT LIKE '%stands on the feed'};
    ok($node->poll_query_until('postgres', "SELECT NOT EXISTS ($pending)"), "$round: each flow has failed, or applied what came")
        or diag($sql->("SELECT string_agg(schema, ' ') FROM ($pending) p"));

    # The sessions' side.
    my $more = $cases[0][2] ? q{ARRAY['SELECT scd2.purge_history(''%1$I.h'', ''1001'')', 'SELECT * FROM scd2.erase(''%1$I.t'', ''{"k": 1}'')', 'SELECT * FROM scd2.diagnose()']} : "'{}'::text[]";
    my $session = $sql->(qq{
        SELECT string_agg(format('%s (%s, %s %s): %s: %s', schema, kind, relation, what, q, public.told(format(q, schema))), E'\\n')
        FROM world, unnest(ARRAY['SELECT * FROM scd2.check_target(''%1\$I.h'')', 'SELECT scd2.full_refresh(''%1\$I.h'', key_filter => ''k = ''''1'''''')',
            'SELECT * FROM scd2.table_changes(''%1\$I.t'', 0)', 'SELECT * FROM scd2.table_at(NULL::%1\$I.t, 1)'] || $more) q
        WHERE $mine AND public.told(format(q, schema)) ~ '^XX'});
    is($session, '', "$round: no session meets an internal error");

    # An error is by name; without one the target is right.
    my $unnamed = $sql->(qq{
        SELECT string_agg(format('%s (%s, %s %s, %s): %s %s', schema, w.kind, relation, what, coalesce(refused, ''), s.last_error, e.error), E'\\n')
        FROM world w JOIN scd2_internal.flow f ON f.name = w.schema JOIN scd2_internal.flow_state s USING (flow_id) LEFT JOIN scd2_internal.feed_state e USING (feed_id)
        WHERE $mine AND coalesce(s.last_error, e.error) IS NOT NULL AND coalesce(s.last_error, e.error) !~ ('(h|h_memory|t_changes|t_changes_p1|t)"?( |\$|:)|"' || w.schema || '"')});
    is($unnamed, '', "$round: who fails says what it is about");
    my $wrong = $sql->(qq{
        SELECT string_agg(format('%s (%s, %s %s, %s): %s', schema, w.kind, relation, what, coalesce(refused, ''), c), E'\\n')
        FROM world w JOIN scd2_internal.flow f ON f.name = w.schema JOIN scd2_internal.flow_state s USING (flow_id) LEFT JOIN scd2_internal.feed_state e USING (feed_id),
            LATERAL scd2.check_target(format('%I.h', schema)) c
        WHERE $mine AND w.kind <> 'snapshots' AND refused IS NOT NULL AND s.last_error IS NULL AND e.error IS NULL});
    is($wrong, '', "$round: where the statement was refused, the target is right");
    my $counts = $sql->(qq{SELECT format('%s altered, %s refused by the server, %s flows and %s feeds failed', count(*) FILTER (WHERE refused IS NULL), count(refused), count(s.last_error), count(e.error))
        FROM world w JOIN scd2_internal.flow f ON f.name = w.schema JOIN scd2_internal.flow_state s USING (flow_id) LEFT JOIN scd2_internal.feed_state e USING (feed_id) WHERE $mine});
    note("$round: $counts");
    is($sql->("SELECT string_agg(format('%s, %s: %s', kind, statement, refused), E'\\n') FROM world WHERE $mine AND statement <> '' AND refused IS NOT NULL"), '', "$round: each statement was executed");

    # Nobody died, and nothing was internal.
    my $log = slurp_file($node->logfile, $log_before);
    my @internal = grep { / XX\w{3} (ERROR|FATAL|PANIC)|TRAP:|terminated by signal|terminating connection because of crash/ } split /\n/, $log;
    is(join("\n", @internal), '', "$round: no internal error, no process died");
    is($sql->('SELECT pg_postmaster_start_time()'), $started, "$round: the server is the same");
    is($sql->("SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE backend_type LIKE 'pg_scd2%' AND datname = 'postgres'"), $state{workers}, "$round: the workers are the same");

    # Away with them.
    $sql->("SELECT scd2.drop_flow(schema) FROM world WHERE $mine");
    $sql->("DO \$\$ DECLARE w record; BEGIN FOR w IN SELECT schema FROM world WHERE $mine LOOP PERFORM public.told(format('SELECT scd2.disable_change_feed(%L, drop_feed => true)', w.schema || '.t')); EXECUTE format('DROP SCHEMA %I CASCADE', w.schema); END LOOP; END \$\$");
    return;
}

wait_until($node, 'postgres', "SELECT count(*) >= 4 FROM pg_stat_activity WHERE backend_type LIKE 'pg_scd2%' AND datname = 'postgres'", 'all workers are there');
$state{workers} = $sql->("SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE backend_type LIKE 'pg_scd2%' AND datname = 'postgres'");
my $rounds = 0;
for my $round ('int', 'bigint', 'text', '"char"', 'name', 'bytea', 'numeric', 'float8', 'jsonb', 'int[]', 'timestamptz', 'point', 'dropped', 'renamed', 'reordered', 'generated', 'not null')
{
    my @cases = map { [ @{$_}[0, 1], '', $_->[2] ] } @columns[grep { $all || ($_ + $rounds) % 3 == 0 } 0 .. $#columns];
    try_all($round, @cases);
    $rounds++;
}

# ---- tables and their keys ----

my @histories = ('captured 2', 'own sequence', 'events 2', 'nulls 2', 'snapshots');
try_all('keys',
    (map { [ $_, 'h', 'ALTER TABLE %s DROP CONSTRAINT h_pkey', 'key dropped' ] } @histories, 'captured 1', 'events 1'),
    (map { [ $_, 'h', 'ALTER TABLE %s DROP CONSTRAINT h_pkey, ADD PRIMARY KEY (__start_at, k)', 'key in another order' ] } @histories),
    (map { [ $_, 'h', 'ALTER TABLE %s DROP CONSTRAINT h_pkey, ADD PRIMARY KEY (k, __start_at) DEFERRABLE', 'key deferrable' ] } @histories),
    (map { [ $_, 'h', 'ALTER TABLE %s DROP CONSTRAINT h_pkey, ADD PRIMARY KEY (k, __start_at) INCLUDE (v)', 'key with more' ] } @histories),
    (map { [ $_, 'h', 'REINDEX TABLE %s', 'reindexed' ] } @histories),
    (map { [ $_, 'h_memory', 'ALTER TABLE %s DROP CONSTRAINT h_memory_pkey', 'key dropped' ] } 'own sequence', 'events 2', 'events 1', 'nulls 1'),
    (map { [ $_, 'h_memory', 'ALTER TABLE %s DROP CONSTRAINT h_memory_pkey, ADD PRIMARY KEY (_sequence, k)', 'key in another order' ] } 'own sequence', 'events 2', 'snapshots'),
    (map { [ $_, 'h_memory', 'ALTER TABLE %s DROP CONSTRAINT h_memory_pkey, ADD PRIMARY KEY (k, _sequence) INCLUDE (_kind)', 'key with more' ] } 'own sequence', 'events 2', 'snapshots'),
    (map { [ $_, 'h_memory', 'ALTER TABLE %s ALTER COLUMN k TYPE text COLLATE "C"', 'key of another collation' ] } 'events 2', 'events 1'),
    (map { [ $_, 'h_memory', 'ALTER TABLE %s ALTER COLUMN _sequence TYPE text COLLATE "C"', 'sequence of another collation' ] } 'events 2', 'events 1'),
    (map { [ $_, 'h', 'ALTER TABLE %s ALTER COLUMN k TYPE text COLLATE "C"', 'key of another collation' ] } 'events 2', 'events 1'),
    (map { [ $_, 'h', "ALTER TABLE %s ALTER COLUMN __start_at TYPE bytea USING decode(md5(__start_at::text), 'hex'), ALTER COLUMN __end_at TYPE bytea USING decode(md5(__end_at::text), 'hex')", 'interval of another type' ] } @histories),
    (map { [ $_, 'h', "ALTER TABLE %s ALTER COLUMN __end_at TYPE bigint USING 1", 'end of another type' ] } @histories),
    (map { [ $_, 'h', "ALTER TABLE %s ALTER COLUMN v TYPE varchar(20)", 'shorter column' ] } @histories));
try_all('tables',
    (map { [ $_, 'h', 'ALTER TABLE %s SET UNLOGGED', 'unlogged' ] } @histories, 'append', 'captured 1'),
    (map { [ $_, 'h', 'ALTER TABLE %s SET ACCESS METHOD other_heap', 'of another access method' ] } @histories, 'append', 'captured 1'),
    (map { [ $_, 'h_memory', 'ALTER TABLE %s SET UNLOGGED', 'unlogged' ] } 'events 2', 'events 1', 'snapshots'),
    (map { [ $_, 'h_memory', 'ALTER TABLE %s SET ACCESS METHOD other_heap', 'of another access method' ] } 'events 2', 'events 1', 'snapshots'),
    (map { [ $_, 'h_memory', 'CREATE TABLE %s_parent (k text); ALTER TABLE %s INHERIT %s_parent', 'a child' ] } 'events 2', 'events 1', 'nulls 1'),
    (map { [ $_, 'h_memory', 'DROP TABLE %s', 'dropped' ] } 'events 2', 'events 1', 'snapshots', 'own sequence'),
    (map { [ $_, 't_changes_p1', 'ALTER TABLE %s SET UNLOGGED', 'unlogged' ] } 'captured 2', 'events 2'),
    (map { [ $_, 't_changes_p1', 'ALTER TABLE %s SET ACCESS METHOD other_heap', 'of another access method' ] } 'captured 2', 'events 2'),
    (map { [ $_, 't_changes', 'ALTER TABLE %s ALTER COLUMN _change_type TYPE bytea USING convert_to(_change_type, \'UTF8\'), ALTER COLUMN _commit_timestamp TYPE text', 'metadata of other types' ] } 'captured 2', 'events 2'));
$node->stop;
done_testing();
