# Three roles do whatever they can think of to their own objects and to each other's, for ten minutes: DDL, DML, locks, cancels,
# ownership and every function of schema scd2 with arguments at random. At the end no process has died, nothing failed in a way that is
# ours alone to explain, every feed is complete or says what it lacks, every flow that runs holds what it should, and nobody has
# gained a right.
#
#   ENEMY_SECONDS=600   how long; 0: not at all, where a run must not depend on chance (.ci/run)
#   ENEMY_SEED=N        what they do; without, another each time, and it is told
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use Scd2;

my $SECONDS = $ENV{ENEMY_SECONDS} // 600;
my $SEED = $ENV{ENEMY_SEED} // int(rand(1_000_000));
my @ROLES = ('ann', 'bob', 'carl');    # bob is a member of ann's role
plan skip_all => 'ENEMY_SECONDS is 0' if $SECONDS == 0;
diag("ENEMY_SEED=$SEED");

$SIG{PIPE} = 'IGNORE';
my $node = new_node('random_enemy', 'log_statement = all', "log_line_prefix = '%m [%p] %b %e %u '", "pg_scd2.debug_leaf_size = '64kB'", "pg_scd2.debug_upkeep_every = '500ms'",
    "pg_scd2.feed_backlog = '1MB'", "pg_scd2.lock_timeout = '500ms'", 'autovacuum_naptime = 1s', 'autovacuum_vacuum_threshold = 20', 'autovacuum_analyze_threshold = 20');
sub sql { return $node->safe_psql('postgres', @_); }

# Code of users tells if it ever runs as a superuser. No superuser's session looks at their objects meanwhile, but the workers.
sql(q{
    CREATE EXTENSION pg_scd2;
    CREATE SCHEMA pub;
    GRANT ALL ON SCHEMA pub TO PUBLIC;
    CREATE FUNCTION pub.spy(v anyelement) RETURNS anyelement LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) AND current_setting('is_superuser') = 'on' THEN
            RAISE LOG 'gained: superuser';
        END IF;
        RETURN v;
    END $$;
    CREATE FUNCTION pub.spy_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pub.spy(1); RETURN NEW; END $$;
    CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN IN ROLE ann; CREATE ROLE carl LOGIN; CREATE ROLE spy;
    ALTER FUNCTION pub.spy OWNER TO spy; ALTER FUNCTION pub.spy_row OWNER TO spy;
    -- What a superuser has, of which they may read one table.
    CREATE SCHEMA boss;
    GRANT USAGE ON SCHEMA boss TO PUBLIC;
    CREATE TABLE boss.seen (id int PRIMARY KEY, v text); CREATE TABLE boss.secret (id int PRIMARY KEY, v text);
    INSERT INTO boss.seen VALUES (1, 'seen'); INSERT INTO boss.secret VALUES (1, 'secret');
    SELECT scd2.track('boss.seen'); SELECT scd2.track('boss.secret');
    GRANT SELECT ON boss.seen, boss.seen_changes TO PUBLIC;});
for my $role (@ROLES)
{
    sql("CREATE SCHEMA $role; GRANT ALL ON SCHEMA $role TO $role; GRANT USAGE ON SCHEMA $role TO PUBLIC;
         ALTER ROLE $role SET statement_timeout = '3s'; ALTER ROLE $role SET lock_timeout = '1s';
         ALTER ROLE $role SET idle_in_transaction_session_timeout = '2s'; ALTER ROLE $role SET search_path = $role, pub, public");
}
sync($node);
my $rights = q{SELECT md5(string_agg(x, E'\n' ORDER BY x)) FROM (
    SELECT concat_ws(' ', rolname, rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls) FROM pg_roles
    UNION ALL SELECT concat_ws(' ', roleid::regrole, member::regrole) FROM pg_auth_members
    UNION ALL SELECT concat_ws(' ', n.nspname, c.relname, c.relowner::regrole, c.relacl) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE nspname IN ('boss', 'scd2', 'scd2_internal')
    UNION ALL SELECT concat_ws(' ', p.oid::regprocedure, p.proowner::regrole, p.proacl) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE nspname IN ('scd2', 'scd2_internal')
    UNION ALL SELECT v FROM boss.secret UNION ALL SELECT concat_ws(' ', v, __end_at) FROM boss.secret_history) AS r (x)};
my $rights_before = sql($rights);

# ---- what they say ----

my @FUNCTIONS = map { [ split /\|/, $_, -1 ] } split /\n/, sql(q{
    SELECT concat_ws('|', p.proname, (SELECT string_agg(format_type(t, NULL), ',' ORDER BY n) FROM unnest(p.proargtypes) WITH ORDINALITY a (t, n)),
                     (SELECT string_agg(p.proargnames[n], ',' ORDER BY n) FROM generate_series(1, p.pronargs) n), p.pronargs - p.pronargdefaults, p.provariadic <> 0)
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE nspname = 'scd2' AND prokind = 'f' AND prorettype <> 'trigger'::regtype AND prorettype <> 'event_trigger'::regtype AND p.pronargs > 0 ORDER BY p.oid});

sub any { return $_[ int(rand(@_)) ]; }
sub chance { return rand() < $_[0]; }
sub table { return any(@ROLES, 'pub', 'boss') . '.' . any('t1', 't2', 't3', 'ev', 'p', 'seen'); }
sub column { return any('id', 'v', 'n', 'at', 'm', 'x', '__start_at', '__end_at', '_commit_version', '_change_type', 'now', 'all'); }
sub type { return any('int', 'bigint', 'text', 'numeric', 'numeric(6,2)', 'timestamptz', 'jsonb', 'char(3)', 'varchar(5)', 'boolean', 'int4range', 'int[]', 'pub.mood', 'pub.dom', 'uuid', 'bytea', 'name'); }
# Mostly one that is there: see PICK.
sub relation { return chance(0.6) ? ':r' : table() . any('', '', '_changes', '_history', '_history_memory', '_changes_p1', '_current', '_history_as_of'); }
sub literal { return $_[0] eq ':r' ? ":'r'" : "'$_[0]'"; }
sub value { return any('NULL', int(rand(1000)), "'" . any('a', 'b', 'x y', '', '2026-01-01', '1e5', '{"a":1}', "it''s") . "'", 'now()', 'random()', 'DEFAULT'); }
sub expression { return any(column(), column() . ' + 1', 'pub.spy(' . column() . ')', column() . " = 'a'", 'true', 'NULL', '1/0', '(SELECT count(*) FROM ' . relation() . ')', "$_[0]("); }

sub argument
{
    my ($type, $name) = @_;
    return 'NULL' if chance(0.05);
    return literal(relation()) if $type eq 'regclass';
    return any('true', 'false') if $type eq 'boolean';
    return any(0, 1, 2, -1, 5, 10, 1000, 'scd2.latest_version()') if $type =~ /^(bigint|integer|smallint)$/;
    return any('0.1', '1', '-1', "'NaN'") if $type =~ /^(real|double precision|numeric)$/;
    return "'" . any('0', '1 s', '100 ms', '1 day', '-1 day', '200000000 years') . "'" if $type eq 'interval';
    return any('now()', "'2026-01-01'", "'infinity'") if $type =~ /^timestamp/;
    return "'{" . join(',', map { column() } 1 .. int(rand(3))) . "}'" if $type =~ /^(name|text)\[\]$/;
    return "'" . any('{}', '{"id": 1}', '[1]', '{"id": "x"}') . "'" if $type =~ /^json/;
    return 'NULL::' . relation() if $type =~ /^any/;
    return "'" . any(@ROLES) . "'" if $type =~ /^(oid|regrole|scd2\.role)$/;
    return literal(relation()) if $type =~ /^(name|text)$/ && $name =~ /target|source|flow|reader|table/;
    (my $text = expression('f')) =~ s/'/''/g;
    return "'$text'";
}

sub call
{
    my ($name, $types, $names, $needed, $variadic) = @{ any(@FUNCTIONS) };
    my @types = split /,/, $types;
    my @names = split /,/, $names;
    my @arguments;
    for my $i (0 .. $#types)
    {
        next if $i >= $needed && chance(0.7);
        push @arguments, ($variadic eq 't' && $i == $#types ? 'VARIADIC ' : '') . ($names[$i] // '') . ' => ' . argument($types[$i], $names[$i] // '');
    }
    s/^VARIADIC (\S+) => /VARIADIC $1 => / for @arguments;
    return "SELECT count(*) FROM scd2.$name(" . join(', ', @arguments) . ') AS r';
}

# What is most often meant: so that there is something to meet.
sub sensible
{
    my ($me) = @_;
    my $t = "$me." . any('t1', 't2', 't3');
    return any(
        "CREATE TABLE IF NOT EXISTS $t (id int PRIMARY KEY, v text, n int, at timestamptz DEFAULT now())",
        "CREATE TABLE IF NOT EXISTS $me.ev (id int, v text, n int, at timestamptz DEFAULT clock_timestamp())",
        "CREATE TABLE IF NOT EXISTS $me.p (id int PRIMARY KEY, v text, n int) PARTITION BY HASH (id)",
        "CREATE TABLE IF NOT EXISTS $me.p_0 PARTITION OF $me.p FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
        "SELECT scd2.track('$t', stored_as_scd_type => " . any(1, 2) . ')',
        "SELECT scd2.track('$me.p')",
        "SELECT scd2.enable_change_feed('$t')",
        "SELECT scd2.create_auto_cdc_flow('$me.d" . any(1, 2) . "', '$me.ev', '{id}', 'at', stored_as_scd_type => " . any(1, 2) . ')',
        "SELECT scd2.create_auto_cdc_flow('$me.d" . any(1, 2) . "', '$me.ev', '{id}', 'at', apply_as_deletes => 'pub.spy(v) = ''x''')",
        "SELECT scd2.create_append_flow('$me.copy', '$t')",
        "SELECT scd2.create_reader('r_$me', '$t')",
        "SELECT count(*) FROM scd2.read_changes('r_$me')",
        "SELECT count(*) FROM scd2.table_changes('$t', 1)",
        "SELECT scd2.resume_flow('${t}_history')",
        "SELECT scd2.authorize_flow('${t}_history')",
        "SELECT scd2.resync('$t')",
        "SELECT scd2.sync('300 ms')",
        'SELECT count(*) FROM scd2.diagnose()',
        "SELECT count(*) FROM scd2.check_target('${t}_history')");
}

sub dml
{
    my ($me) = @_;
    my $t = chance(0.9) ? "$me." . any('t1', 't2', 't3', 'ev', 'p') : relation();
    my $id = int(rand(50));
    return any(
        "INSERT INTO $t (id, v, n) VALUES ($id, " . value() . ', ' . value() . ')',
        "INSERT INTO $t (id, v) SELECT i, " . value() . " FROM generate_series($id, $id + 20) i ON CONFLICT DO NOTHING",
        "UPDATE $t SET v = " . value() . " WHERE id = $id",
        "UPDATE $t SET n = n + 1",
        "UPDATE $t SET id = id + 100 WHERE id = $id",
        "DELETE FROM $t WHERE id = $id",
        chance(0.1) ? "TRUNCATE $t" : "UPDATE $t SET " . column() . ' = ' . value());
}

sub ddl
{
    my ($me) = @_;
    my $r = chance(0.5) ? "$me." . any('t1', 't2', 't3', 'ev', 'p') : relation();
    my $c = column();
    return any(
        "ALTER TABLE $r ADD COLUMN $c " . type() . any('', ' DEFAULT ' . value(), ' GENERATED ALWAYS AS (pub.spy(id)) STORED'),
        "ALTER TABLE $r DROP COLUMN $c" . any('', ' CASCADE'),
        "ALTER TABLE $r RENAME COLUMN $c TO " . column(),
        "ALTER TABLE $r ALTER COLUMN $c TYPE " . type() . any('', " USING NULL", " USING $c\::text::" . type()),
        "ALTER TABLE $r ALTER COLUMN $c " . any('SET NOT NULL', 'DROP NOT NULL', 'SET DEFAULT pub.spy(1)', 'DROP DEFAULT', 'SET STORAGE EXTERNAL', 'SET STATISTICS 100'),
        "ALTER TABLE $r RENAME TO " . any('t1', 't2', 't3', 't1_changes', 't1_history', 'u'),
        "ALTER TABLE $r SET SCHEMA " . any(@ROLES, 'pub'),
        "ALTER TABLE $r OWNER TO " . any(@ROLES),
        "ALTER TABLE $r REPLICA IDENTITY " . any('FULL', 'DEFAULT', 'NOTHING'),
        "ALTER TABLE $r ADD CHECK (pub.spy(id) >= 0)", "ALTER TABLE $r ADD UNIQUE (" . column() . ')', "ALTER TABLE $r ADD PRIMARY KEY (" . column() . ')',
        "ALTER TABLE $r DROP CONSTRAINT " . any('t1_pkey', 't2_pkey', 't1_id_check', 't1_history_pkey'),
        "ALTER TABLE $r " . any('ENABLE', 'DISABLE', 'FORCE', 'NO FORCE') . ' ROW LEVEL SECURITY',
        "ALTER TABLE $r " . any('SET UNLOGGED', 'SET LOGGED', 'DISABLE TRIGGER ALL', 'ENABLE TRIGGER ALL', 'CLUSTER ON t1_pkey', 'SET (fillfactor = 50)'),
        "ALTER TABLE $r " . any('INHERIT', 'NO INHERIT', 'DETACH PARTITION') . ' ' . relation(),
        "ALTER TABLE $r ATTACH PARTITION " . relation() . any(' DEFAULT', ' FOR VALUES FROM (0) TO (10)', ' FOR VALUES WITH (MODULUS 2, REMAINDER 0)'),
        "CREATE INDEX ON $r " . any("($c)", "(pub.spy($c))", "USING brin ($c)", "USING gist ($c)", "($c) WHERE pub.spy(id) > 0"),
        "CREATE POLICY p$c ON $r USING (pub.spy(true))", "CREATE TRIGGER tr BEFORE INSERT OR UPDATE ON $r FOR EACH ROW EXECUTE FUNCTION pub.spy_row()",
        "CREATE TRIGGER tt AFTER INSERT OR UPDATE OR DELETE ON $r FOR EACH ROW EXECUTE FUNCTION pub.spy_row()", "DROP TRIGGER tr ON $r",
        "CREATE RULE ru AS ON INSERT TO $r DO INSTEAD NOTHING", "DROP RULE ru ON $r",
        "CREATE STATISTICS ON id, (pub.spy(v)) FROM $r", "CREATE VIEW $me.seen AS SELECT *, pub.spy(1) AS spied FROM $r",
        "GRANT " . any('SELECT', 'INSERT', 'UPDATE', 'TRIGGER', 'ALL', 'REFERENCES', 'SELECT (id)') . " ON $r TO " . any(@ROLES, 'PUBLIC'), "REVOKE ALL ON $r FROM PUBLIC",
        "CREATE TYPE pub.mood AS ENUM ('a', 'b')", "ALTER TYPE pub.mood ADD VALUE IF NOT EXISTS 'm" . int(rand(20)) . "'", "ALTER TYPE pub.mood RENAME VALUE 'a' TO 'z'",
        'CREATE DOMAIN pub.dom AS text CHECK (pub.spy(VALUE) IS NOT NULL)', 'ALTER DOMAIN pub.dom ADD CHECK (length(VALUE) < 5) NOT VALID',
        chance(0.2) ? 'DROP TYPE pub.mood CASCADE' : 'DROP DOMAIN pub.dom',
        chance(0.3) ? "DROP TABLE $r" . any('', ' CASCADE') : "COMMENT ON TABLE $r IS 'scd2'",
        chance(0.05) ? 'DROP OWNED BY CURRENT_USER CASCADE' : 'REASSIGN OWNED BY CURRENT_USER TO ' . any('ann', $me),
        "LOCK TABLE $r IN " . any('ACCESS SHARE', 'SHARE', 'EXCLUSIVE', 'ACCESS EXCLUSIVE') . ' MODE',
        "SELECT count(*) FROM $r", "SELECT pg_sleep(0.2)");
}

# What cannot be within a transaction.
sub alone
{
    my $r = relation();
    return any("VACUUM $r", "VACUUM FULL $r", "ANALYZE $r", "CLUSTER $r", "REINDEX TABLE CONCURRENTLY $r", "CREATE INDEX CONCURRENTLY ON $r (id)",
        'SET ROLE ' . any(@ROLES), 'RESET ROLE', 'SET search_path = ' . any(@ROLES) . ', pub', "SET session_replication_role = 'replica'",
        'SET default_table_access_method = heap', "SET row_security = " . any('on', 'off'), "SET standard_conforming_strings = " . any('on', 'off'),
        "ALTER ROLE CURRENT_USER SET " . any("DateStyle = 'German'", "extra_float_digits = -15", "lc_messages = 'C'", 'check_function_bodies = off'),
        q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = current_user},
        chance(0.1) ? q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = current_user} : 'SELECT 1',
        q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE backend_type LIKE 'pg_scd2%'});
}

sub statement
{
    my ($me) = @_;
    my $kind = rand();
    return $kind < 0.45 ? dml($me) : $kind < 0.6 ? sensible($me) : $kind < 0.75 ? call() : ddl($me);
}

my $PICK = q{SELECT format('%I.%I', n.nspname, c.relname) AS r FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname IN ('ann', 'bob', 'carl', 'pub', 'boss') AND c.relkind IN ('r', 'p', 'v') ORDER BY pg_catalog.random() LIMIT 1 \gset};
$PICK =~ s/\s+/ /g;

sub something
{
    my ($me) = @_;
    return alone() . ';' if chance(0.05);
    return "$PICK\n" . statement($me) . ';' if chance(0.6);
    return "$PICK\n" . join('; ', 'BEGIN' . any('', '', ' ISOLATION LEVEL REPEATABLE READ'), (map { chance(0.1) ? ('SAVEPOINT s', statement($me), 'ROLLBACK TO s') : statement($me) } 1 .. 1 + int(rand(4))),
        any('COMMIT', 'COMMIT', 'ROLLBACK', "PREPARE TRANSACTION 'gid_${me}_$$'; ROLLBACK PREPARED 'gid_${me}_$$'", "PREPARE TRANSACTION 'gid_${me}_$$'; SELECT pg_sleep(0.3); COMMIT PREPARED 'gid_${me}_$$'")) . ';';
}

# One session of a role, in a process of its own, until the time is over.
sub act
{
    my ($me, $number, $end) = @_;
    srand($SEED * 100 + $number);
    my $said = $node->logfile . ".$me.$number";
    while (time < $end)
    {
        my $pid = open(my $psql, '|-', "exec psql -XAtq -v ON_ERROR_STOP=0 -d '" . $node->connstr('postgres') . " user=$me' > /dev/null 2>> $said.errors") or die;
        $psql->autoflush(1);
        print $psql "\\set ON_ERROR_ROLLBACK " . any('on', 'off') . "\nSELECT pg_catalog.setseed(" . rand() . ");\n";
        open(my $log, '>>', $said) or die;
        while (time < $end)
        {
            my $line = something($me);
            print $log "$line\n";
            print $psql "$line\n" or last;
            sleep 0.002;
        }
        close $log;
        kill 'TERM', $pid;    # what it has not read yet is not done
        close $psql;
    }
    return;
}

# ---- they say it ----

my $end = time + $SECONDS;
my @children;
my $number = 0;
for my $me (@ROLES, @ROLES)
{
    $number++;
    my $pid = fork();
    if ($pid == 0)
    {
        eval { act($me, $number, $end) };
        require POSIX;
        POSIX::_exit(0);
    }
    push @children, $pid;
}
waitpid($_, 0) for @children;

# ---- what is left ----

# Nobody is in the way any more.
sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename IN ('ann', 'bob', 'carl') AND backend_type = 'client backend'});
sql("ROLLBACK PREPARED '$_'") for split /\n/, sql('SELECT gid FROM pg_prepared_xacts');
my $log = slurp_file($node->logfile);
is(join("\n", grep { /terminated by signal (?!15)|PANIC:|TRAP:|server process .* was terminated/ } split /\n/, $log), '', 'no process has died');
# The server's own are known: statements of two sessions meet in a catalog, REASSIGN OWNED and DROP OWNED look at what is gone by then,
# and so does NULL::a_table.
my ($internal, $error) = ('', '');
for (split /\n/, $log)
{
    next unless / XX\d\d\d /;
    if (/ (ERROR|FATAL):  /) { $error = /tuple concurrently (updated|deleted)/ ? '' : "$_\n"; }
    elsif (/ STATEMENT:  (.*)/) { $error = '' if $1 =~ /^(REASSIGN|DROP) OWNED/ || $1 =~ /NULL::/ && $error =~ /could not open relation with OID/; $internal .= $error; $error = ''; }
    else { $error .= "$_\n" if $error; }
}
$internal .= $error;
is($internal, '', 'no error is an internal one');
is(join("\n", grep { /LOG:  gained: / } split /\n/, $log), '', 'no code of users ran as a superuser');
is(sql($rights), $rights_before, 'nobody has gained a right, and nothing of the superuser has changed');
is(sql("SELECT scd2.sync('60 s', '{boss.seen_history, boss.secret_history}') > 0"), 't', 'who took no part goes on');
is(sql(q{SELECT count(*) FROM scd2.check_target('boss.secret_history')}), '0', 'and has what is his');

# Feeds are complete, or say what they lack.
wait_until($node, 'postgres', q{SELECT NOT EXISTS (SELECT FROM scd2_internal.feed_backlog WHERE error IS NULL)}, 'nothing waits but for what is told');
my $feeds = sql(q{SELECT count(*), count(*) FILTER (WHERE state = 'running'), count(*) FILTER (WHERE gap IS NOT NULL) FROM scd2.feeds});
diag("feeds, running, with a gap: $feeds");
is(sql(q{SELECT string_agg(source::text || ' ' || state, ', ') FROM scd2.feeds WHERE state = 'failed' AND gap IS NULL}), '', 'a feed that failed says where');
my @targets = split /\n/, sql(q{SELECT target FROM scd2.flows WHERE state = 'running' AND target::text !~ '^\d+$' GROUP BY 1 ORDER BY 1});
diag('flows by state: ' . sql(q{SELECT string_agg(state || ' ' || n, ', ') FROM (SELECT state, count(*) AS n FROM scd2.flows GROUP BY 1 ORDER BY 1) s}));
my $unfit = '';
for my $target (@targets)
{
    my ($code, $out, $err) = $node->psql('postgres', "SELECT scd2.sync('20 s', ARRAY['$target']::regclass[]); SELECT string_agg(problem || coalesce(' ' || key::text, ''), '; ') FROM scd2.check_target('$target')");
    my $still = sql("SELECT bool_and(state = 'running') FROM scd2.flows WHERE target::text = '$target'");
    next if $still ne 't' || $out !~ /[a-z]/;    # an error names what was altered since the last batch
    $unfit .= "$target: " . substr($out, 0, 300) . " $err\n";
    diag(sql("SELECT json_agg(f)::text FROM scd2_internal.flow f WHERE target_relid = '$target'::regclass"));
    diag(sql("SELECT json_agg(f)::text FROM scd2_internal.feed f JOIN scd2_internal.feed_state USING (feed_id) WHERE feed_id IN (SELECT feed_id FROM scd2_internal.flow WHERE target_relid = '$target'::regclass)"));
    diag($node->psql('postgres', "SELECT c FROM scd2.check_target('$target') c LIMIT 6"));
    diag($node->psql('postgres', "SELECT problem, key, detail FROM scd2.check_target('$target') WHERE key->>'id' = '9'"));
    diag($node->psql('postgres', "SELECT f FROM scd2_internal.flow w JOIN scd2_internal.feed USING (feed_id) CROSS JOIN LATERAL query_to_xml(format('SELECT * FROM %s WHERE id = 9 ORDER BY _commit_version, _change_ordinal', feed_relid::oid::regclass), false, true, '') f WHERE target_relid = '$target'::regclass LIMIT 1"));
    diag($node->psql('postgres', "SELECT t FROM $target t WHERE id = 9 ORDER BY __start_at"));
}
is($unfit, '', 'every flow that runs holds what it should, in ' . @targets . ' targets');
done_testing();
