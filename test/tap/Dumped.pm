# Dumped.pm: what the tests of dumps, restores and upgrades share: a database that has everything a
# dump can get wrong, a picture of it that a restore must give back, and what must go on afterwards.
package Dumped;

use strict;
use warnings;
use Exporter 'import';
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

our @EXPORT = qw(create_everything create_roles picture is_same_picture goes_on outcome_of_events workers_are_off succeeds);

# succeeds(NODE, WHAT, COMMAND...): a program runs against the node; a test result. Returns what it
# said on standard error.
sub succeeds
{
    my ($node, $what, @command) = @_;
    my ($out, $err);
    local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port);
    my $ok = IPC::Run::run(\@command, '<', \undef, '>', \$out, '2>', \$err);
    ok($ok, $what) or diag(substr($err, 0, 4000));
    return $err;
}

# Roles are the server's, not the database's.
sub create_roles
{
    my ($node) = @_;
    $node->safe_psql('postgres', q{CREATE ROLE "the owner"});
    return;
}

# create_everything(NODE, DATABASE, TEMPLATE, VERSION): the database with its feeds, flows and memory,
# all captured and applied; the extension in the version that is the default, or in that one.
sub create_everything
{
    my ($node, $db, $template, $version) = @_;
    $template //= 'template0';
    $version = defined $version ? "VERSION '$version'" : '';
    $node->safe_psql('postgres', qq{CREATE DATABASE "$db" TEMPLATE $template});
    $node->safe_psql($db, "CREATE EXTENSION IF NOT EXISTS pg_scd2 $version");
    $node->safe_psql($db, q{
        CREATE SCHEMA "Odd, schema" AUTHORIZATION "the owner";
        CREATE SCHEMA dim AUTHORIZATION "the owner";
        SET ROLE "the owner";
        SET search_path = "Odd, schema";
        -- columns are numbered anew in a restored table: one goes before the feed comes, one after
        CREATE TABLE was_called (gone text, id int PRIMARY KEY, "Name" text, secret text, region text, later_gone int);
        ALTER TABLE was_called DROP COLUMN gone;
        INSERT INTO was_called VALUES (1, 'Ana', 's', 'Norte', 1), (2, 'Luis', 's', 'Centro', 2);
        CREATE TABLE places (id int, y int, n text, v text, PRIMARY KEY (id, y)) PARTITION BY RANGE (y);
        CREATE TABLE places_old PARTITION OF places FOR VALUES FROM (0) TO (10);
        CREATE TABLE places_new PARTITION OF places FOR VALUES FROM (10) TO (20);
        ALTER TABLE places_new REPLICA IDENTITY NOTHING;
        CREATE TABLE events (k int, v text, u int, seq int, op text);
        CREATE TABLE struct_events (k int, v text, day date, n int);
        CREATE TYPE kind AS ENUM ('big', 'small');
        CREATE TABLE kinds (kind kind, v text, seq int);
        CREATE TABLE products (gone int, sku text PRIMARY KEY, price numeric);
        ALTER TABLE products DROP COLUMN gone;
        CREATE TABLE disabled (id int PRIMARY KEY);
        CREATE TABLE dropped (id int PRIMARY KEY);
        CREATE TABLE log (id int, line text);});
    sync($node, $db);
    $node->safe_psql($db, q{
        SET ROLE "the owner";
        SET search_path = "Odd, schema";
        SELECT scd2.enable_change_feed('was_called', except_column_list => '{secret}', retention => '30 days');
        SELECT scd2.track('was_called', 'dim.history', except_column_list => '{later_gone}'),
            scd2.track('was_called', 'dim.current', stored_as_scd_type => 1, except_column_list => '{later_gone}');
        SELECT scd2.track('dim.current', 'dim.totals');
        SELECT scd2.track('places');
        SELECT scd2.create_auto_cdc_flow('event_history', 'events', '{k}', 'seq', apply_as_deletes => $$op = 'D'$$,
            apply_as_truncates => $$op = 'T'$$, column_list => '{k,v,u}', track_history_column_list => '{v}',
            stored_as_scd_type => 2, on_invalid_event => 'quarantine', max_lateness => '1000');
        SELECT scd2.create_auto_cdc_flow('event_current', 'events', '{k}', 'seq', apply_as_deletes => $$op = 'D'$$,
            column_list => '{k,v,u}', ignore_null_updates => true, on_invalid_event => 'quarantine');
        SELECT scd2.create_auto_cdc_flow('struct_history', 'struct_events', '{k}', 'struct(day, n)', column_list => '{k,v}',
            stored_as_scd_type => 2, name => 'the flow of structs');
        SELECT scd2.create_auto_cdc_from_snapshot_flow('prices', 'products', '{sku}', 'bigint', stored_as_scd_type => 2, max_delete_fraction => 1);
        SELECT scd2.create_auto_cdc_flow('by_kind', 'kinds', '{kind}', 'seq', column_list => '{kind,v}');
        SELECT scd2.create_append_flow('archive', 'log');
        SELECT scd2.enable_change_feed('disabled'), scd2.enable_change_feed('dropped');
        SELECT scd2.create_reader('a reader', 'was_called');});
    sync($node, $db);
    $node->safe_psql($db, q{
        SET ROLE "the owner";
        SET search_path = "Odd, schema";
        INSERT INTO was_called VALUES (3, 'Marta', 's', 'Oeste', 3);
        UPDATE was_called SET region = 'Sur' WHERE id = 1;
        DELETE FROM was_called WHERE id = 2;
        INSERT INTO places VALUES (1, 5, '1', 'old'), (2, 15, '2', 'new');
        UPDATE places SET y = 16 WHERE id = 1;
        -- what rows do not show: a delete of what is not there yet, runs, what was sent, an invalid one
        INSERT INTO events VALUES (1, 'a', 1, 10, 'U'), (1, 'a', 2, 20, 'U'), (2, NULL, NULL, 50, 'D'), (3, 'x', 1, 5, 'U'),
            (NULL, NULL, NULL, 30, 'T'), (4, 'keep', NULL, 40, 'U'), (4, NULL, 9, 45, 'U'), (NULL, 'no key', 1, 46, 'U');
        INSERT INTO struct_events VALUES (1, 'a', '2026-01-01', 1), (1, 'b', '2026-01-01', 2);
        INSERT INTO products VALUES ('apple', 1), ('bread', 2);
        SELECT scd2.apply_snapshot('prices', 10);
        INSERT INTO log VALUES (1, 'line');
        INSERT INTO kinds VALUES ('big', 'erased', 10), ('small', 'stays', 10);
        INSERT INTO disabled VALUES (1);
        INSERT INTO dropped VALUES (1);});
    sync($node, $db);
    $node->safe_psql($db, q{
        SET ROLE "the owner";
        SET search_path = "Odd, schema";
        SELECT count(*) FROM scd2.read_changes('a reader', NULL::was_called_changes);
        SELECT scd2.advance_reader('a reader');
        SELECT scd2.disable_change_feed('disabled');
        DROP TABLE dropped;
        ALTER TABLE was_called DROP COLUMN later_gone;
        ALTER TABLE was_called ADD COLUMN added text DEFAULT 'constant';
        ALTER TABLE was_called RENAME COLUMN region TO "Region";
        UPDATE was_called SET "Name" = 'Ana María' WHERE id = 1;
        ALTER TABLE places ALTER COLUMN n TYPE int USING n::int + 1;
        ALTER TABLE was_called RENAME TO customers;
        ALTER TABLE was_called_changes RENAME TO "customers' changes";
        ALTER TABLE dim.history RENAME TO customers_history;
        UPDATE products SET price = 3 WHERE sku = 'apple';
        SELECT scd2.apply_snapshot('prices', 20);
        DELETE FROM kinds WHERE kind = 'big';
        SELECT scd2.pause_flow('archive');
        INSERT INTO log VALUES (2, 'not appended yet');});
    sync($node, $db);
    $node->safe_psql($db, q{SET ROLE "the owner"; SELECT * FROM scd2.erase('"Odd, schema".kinds', '{"kind": "big"}')});
    return;
}

my @OURS = map { "scd2_internal.$_" } qw(feed feed_state feed_column feed_layout found_identity reader flow flow_state batch mark rejected skipped_version erasure erased_key purge);

# What a database holds: rows of every table of the owner and of our catalogs. Numbers of columns
# and identities of databases are not of this, nor columns of our catalogs that are named.
sub picture
{
    my ($node, $db, @columns) = @_;
    my $but = join ',', qw(home source_attnum feed_attnum was known_attnums definition batches last_batch watermark_version watermark_timestamp), @columns;
    my %picture;
    my @tables = split /\n/, $node->safe_psql($db, q{
        SELECT c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname IN ('Odd, schema', 'dim') ORDER BY 1});
    for my $table (@tables, @OURS)
    {
        $picture{$table} = $node->safe_psql($db, qq{
            SELECT string_agg(r::text, E'\n' ORDER BY r::text)
            FROM (SELECT to_jsonb(t) - '{$but}'::text[] AS r FROM $table t) x
            WHERE NOT r @> '{"leaf_relid": "-"}'});
    }
    # batches without an event are none
    $picture{'scd2_internal.batch'} = join "\n", grep { !/"events": 0,/ } split /\n/, $picture{'scd2_internal.batch'};
    $picture{position} = $node->safe_psql($db, 'SELECT version, commit_timestamp FROM scd2_internal.position');
    $picture{views} = $node->safe_psql($db, q{
        SELECT flow, target, source, kind, state, events, applied, too_late, rejected FROM scd2.flows ORDER BY 1;
        SELECT CASE state WHEN 'source dropped' THEN NULL ELSE source END, feed, state, enabled_version, earliest_version, retention, gap FROM scd2.feeds ORDER BY feed::text});
    $picture{triggers} = $node->safe_psql($db, q{
        SELECT t.tgrelid::regclass, t.tgname, t.tgenabled FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE NOT t.tgisinternal AND c.relnamespace <> 'scd2_internal'::regnamespace ORDER BY t.tgrelid::regclass::text, 2;
        SELECT c.oid::regclass, c.relreplident, c.relowner::regrole FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p') AND n.nspname IN ('Odd, schema', 'dim') ORDER BY c.oid::regclass::text});
    return \%picture;
}

sub is_same_picture
{
    my ($picture, $expected, $what, @but) = @_;
    my %but = map { $_ => 1 } @but;
    my @differing;
    for my $table (sort keys %$expected)
    {
        next if $but{$table} || ($picture->{$table} // '(no such table)') eq $expected->{$table};
        push @differing, $table;
        my ($is, $was) = map { { map { $_ => 1 } split /\n/, $_->{$table} // '(no such table)' } } $picture, $expected;
        diag(join("\n  ", "$table:", map({ "is  $_" } grep { !$was->{$_} } sort keys %$is), map({ "was $_" } grep { !$is->{$_} } sort keys %$was)));
    }
    cmp_ok(scalar keys %$expected, '>', 25, "$what: a picture was taken");
    is("@differing", '', "$what: all is as it was");
    return;
}

# Nothing is captured and nothing held back.
sub workers_are_off
{
    my ($node, $db, $what) = @_;
    wait_until($node, $db, q{SELECT state NOT IN ('running', 'starting', 'creating slot') FROM scd2_internal.capture_status()}, "$what: capture is off");
    wait_until($node, $db, q{SELECT count(*) = 0 FROM pg_replication_slots WHERE database = current_database()}, '... without a slot');
    my ($ret, $out, $err) = $node->psql($db, q{SET ROLE "the owner"; CREATE TABLE dim.x (id int PRIMARY KEY); SELECT scd2.track('dim.x')});
    like($err, qr/HINT:  SELECT scd2.resume_capture\(\);/, '... and who wants to track is told how it goes on');
    $node->safe_psql($db, 'DROP TABLE IF EXISTS dim.x');
    is($node->safe_psql($db, q{SELECT fix FROM scd2.diagnose() WHERE fix LIKE 'SELECT scd2.resume_capture()%' LIMIT 1}), 'SELECT scd2.resume_capture();', '... by diagnose() too');
    return;
}

# goes_on(NODE, DATABASE, WHAT): changes after the restore, captured and applied as if there had been
# none.
sub goes_on
{
    my ($node, $db, $what) = @_;
    my $before = $node->safe_psql($db, 'SELECT scd2.latest_version()');
    $node->safe_psql($db, q{
        SET ROLE "the owner";
        SET search_path = "Odd, schema";
        UPDATE customers SET "Region" = 'Este', secret = 'changed' WHERE id = 1;
        UPDATE places SET v = 'newer' WHERE id = 2;
        INSERT INTO events VALUES (2, 'before its delete', 1, 49, 'U'), (2, 'after it', 1, 60, 'U'), (1, 'a', 0, 15, 'U'), (3, 'below the truncate', 1, 29, 'U')});
    sync($node, $db);       # batches decide what counts as out of order
    $node->safe_psql($db, q{
        SET ROLE "the owner";
        SET search_path = "Odd, schema";
        INSERT INTO events VALUES (4, 'late', NULL, 41, 'U'), (4, NULL, NULL, 1200, 'U'), (5, 'too late', 1, 100, 'U');
        INSERT INTO struct_events VALUES (1, 'between', '2026-01-01', 0), (1, 'c', '2026-01-02', 0);
        INSERT INTO kinds VALUES ('big', 'late', 5);
        SELECT scd2.resume_flow('archive');});
    sync($node, $db);
    is($node->safe_psql($db, 'SELECT scd2.latest_version()'), $before + 7, "$what: versions go on without a hole");
    is($node->safe_psql($db, q{SELECT "Name", "Region", added FROM dim.customers_history WHERE id = 1 ORDER BY __start_at}),
        "Ana|Norte|constant\nAna|Sur|constant\nAna María|Sur|constant\nAna María|Este|constant", '... the history has the new row');
    is($node->safe_psql($db, q{SELECT "Region" FROM dim.current WHERE id = 1}), 'Este', '... and the current rows');
    is($node->safe_psql($db, q{SELECT "Region" FROM dim.totals WHERE id = 1 AND __end_at IS NULL}), 'Este', '... and what follows these');
    is($node->safe_psql($db, q{SELECT count(*) FROM scd2_internal.feed f, LATERAL (SELECT * FROM "Odd, schema"."customers' changes" c WHERE c::text LIKE '%changed%') x}), '0', '... the column that stays out stays out');
    is($node->safe_psql($db, q{SELECT v FROM "Odd, schema".places_history WHERE id = 2 AND __end_at IS NULL}), 'newer', '... a partition is followed');
    is($node->safe_psql($db, q{SELECT v, __start_at FROM "Odd, schema".struct_history ORDER BY 2}), "between|(2026-01-01,0)\na|(2026-01-01,1)\nb|(2026-01-01,2)\nc|(2026-01-02,0)", '... structs are compared');
    is($node->safe_psql($db, q{SELECT v FROM "Odd, schema".by_kind}), 'stays', '... what was erased does not come back with a late event');
    is($node->safe_psql($db, q{SELECT string_agg(id::text, ',' ORDER BY id) FROM "Odd, schema".archive}), '1,2', '... the paused flow goes on where it was');
    is($node->safe_psql($db, q{UPDATE "Odd, schema".products SET price = 4 WHERE sku = 'apple'; SELECT * FROM scd2.apply_snapshot('prices', 30)}), '0|1|0|1', '... the next snapshot is compared with the last');
    is($node->safe_psql($db, q{SELECT count(*) > 0 FROM scd2.read_changes('a reader', NULL::"Odd, schema"."customers' changes")}), 't', '... the reader reads on');
    $node->safe_psql($db, q{ALTER TABLE "Odd, schema".places ALTER COLUMN n TYPE date USING date '2026-01-01' + n});
    sync($node, $db);
    is($node->safe_psql($db, q{
            SELECT string_agg(concat_ws(' ', values[1], values[2], values[3]), ', ' ORDER BY __start_at) FROM (
                SELECT ARRAY(SELECT value FROM jsonb_each_text(to_jsonb(h)) WHERE key LIKE 'n%' AND value IS NOT NULL) AS values, __start_at
                FROM "Odd, schema".places_history h WHERE id = 2) v}),
        '2, 3, 3, 2026-01-04', '... columns whose types changed are kept, before the dump and behind it');
    is($node->safe_psql($db, q{SELECT f.target, c.* FROM (SELECT DISTINCT target FROM scd2.flows) f, scd2.check_target(f.target) c}), '', '... check_target() agrees with every target');
    return;
}

# What events made of the targets, and what is remembered of them: for comparing a restored database
# with the one that was dumped, after the same events. (Nothing of it depends on when they came.)
sub outcome_of_events
{
    my ($node, $db) = @_;
    return join("\n--\n", map { $node->safe_psql($db, $_) } (
        map({ qq{SELECT t::text FROM "Odd, schema".$_ t ORDER BY 1} } qw(event_history event_history_memory event_current event_current_memory struct_history struct_history_memory)),
        'SELECT flow, version, change_ordinal, reason, event FROM scd2.rejected_events ORDER BY flow, version, change_ordinal',
        q{SELECT target_relid, sequence, kind FROM scd2_internal.mark ORDER BY 1::text, 2, 3},
        q{SELECT flow, events, applied, duplicates, out_of_order, too_late, rejected FROM scd2.flows WHERE flow ~ 'event|struct' ORDER BY 1}));
}

1;
