# Dumps and restores of parts: some schemas, no data, tables left out, without a superuser's rights, into
# a database that has feeds, over the database that was dumped. What can be restored is; what
# cannot says so, and nothing is captured, guarded or claimed by mistake.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;
use Dumped;

my $node = new_node('original');
my $dir = PostgreSQL::Test::Utils::tempdir();
create_roles($node);
$node->safe_psql('postgres', q{ALTER ROLE "the owner" LOGIN});
# a template with the extension: no two databases made of it are taken for one
$node->safe_psql('postgres', 'CREATE DATABASE with_extension IS_TEMPLATE true');
$node->safe_psql('with_extension', 'CREATE EXTENSION pg_scd2');
create_everything($node, 'original', 'with_extension');
my $original = picture($node, 'original');
succeeds($node, 'dumped', 'pg_dump', '-Fc', '-f', "$dir/custom", 'original');

# restore(DATABASE, OPTIONS...): returns the errors, without what pg_restore adds to each
sub restore
{
    my ($db, @options) = @_;
    my ($out, $err) = ('', '');
    local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port);
    IPC::Run::run([ 'pg_restore', '-d', $db, @options, "$dir/custom" ], '<', \undef, '>', \$out, '2>', \$err);
    return join("\n", $err =~ /^pg_restore: error: (?:could not execute query: |COPY failed for table .*?: )?(ERROR: .*)$/mg);
}

# (Each database that captures has three workers: those before go.)
my @made;
my $template = 'template0';
sub new_database
{
    my ($db, @statements) = @_;
    $node->safe_psql('postgres', "DROP DATABASE $_ WITH (FORCE)") for splice @made;
    push @made, $db;
    $node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE $template");
    $node->safe_psql($db, $_) for @statements;
    return;
}

my $rows = q{SELECT count(*), (SELECT count(*) FROM "Odd, schema"."customers' changes"), (SELECT count(*) FROM dim.customers_history) FROM "Odd, schema".customers};
my $counts = $node->safe_psql('original', $rows);
my $captures = q{CREATE TABLE public.anew (id int PRIMARY KEY); SELECT scd2.track('public.anew'); INSERT INTO public.anew VALUES (1)};

# some schemas, without the extension
my @some = ('-n', 'Odd, schema', '-n', 'dim');
new_database('bare', 'CREATE SCHEMA "Odd, schema" AUTHORIZATION "the owner"; CREATE SCHEMA dim AUTHORIZATION "the owner"');
my @errors = grep { !/scd2_internal|extension "pg_scd2" does not exist/ } split /\n/, restore('bare', @some);
is("@errors", '', 'some schemas, where the extension is not: only what is of the extension is missing');
is($node->safe_psql('bare', $rows), $counts, '... all rows are there');
$node->safe_psql('bare', q{SET ROLE "the owner"; DELETE FROM dim.customers_history; DELETE FROM "Odd, schema"."customers' changes"});

# some schemas, with it
new_database('several', 'CREATE EXTENSION pg_scd2; CREATE SCHEMA "Odd, schema" AUTHORIZATION "the owner"; CREATE SCHEMA dim AUTHORIZATION "the owner"');
wait_capture($node, 'several');
is(restore('several', @some), '', 'some schemas, where the extension is: no error');
is($node->safe_psql('several', $rows), $counts, '... all rows are there');
is($node->safe_psql('several', 'SELECT (SELECT count(*) FROM scd2.feeds), (SELECT count(*) FROM scd2.flows), scd2.latest_version()'), '0|0|0', '... and no registrations');
my ($ret, $out, $err) = $node->psql('several', q{DELETE FROM dim.customers_history});
like($err, qr/is written by pg_scd2 alone/, '... but the guards');
$node->safe_psql('several', q{SET ROLE "the owner"; SET pg_scd2.allow_target_writes = on; DELETE FROM dim.customers_history; DROP TABLE "Odd, schema"."customers' changes" CASCADE});
$node->safe_psql('several', $captures);
sync($node, 'several');
is($node->safe_psql('several', 'SELECT count(*) FROM public.anew_history'), '1', '... the database captures');

# no data
new_database('nodata');
is(restore('nodata', '--schema-only'), '', 'without data');
wait_capture($node, 'nodata');
$node->safe_psql('nodata', $captures);
sync($node, 'nodata');
is($node->safe_psql('nodata', 'SELECT string_agg(flow, $$,$$), scd2.latest_version() FROM scd2.flows'), 'anew_history|1', '... has no registrations, and captures');
# then the data, into guarded tables
my $first = restore('nodata', '--data-only', @some);
like($first, qr/is written by pg_scd2 alone/, 'data alone is kept out by the guards');
{
    local $ENV{PGOPTIONS} = '-c pg_scd2.allow_target_writes=on';
    $node->safe_psql('nodata', q{TRUNCATE "Odd, schema".customers, "Odd, schema".places, "Odd, schema".events, "Odd, schema".struct_events, "Odd, schema".products, "Odd, schema".disabled, "Odd, schema".log});
    is(restore('nodata', '--data-only', @some), '', '... unless that is allowed');
}
is($node->safe_psql('nodata', $rows), $counts, '... all rows are there');
# the way back to feeds that capture
$node->safe_psql('nodata', q{SET ROLE "the owner"; SET search_path = "Odd, schema"; DROP TABLE "customers' changes", dim.customers_history CASCADE;
    SELECT scd2.track('customers', 'dim.customers_history'); SELECT scd2.sync(targets => '{dim.customers_history}')});
is($node->safe_psql('nodata', q{SELECT count(*) = (SELECT count(*) FROM "Odd, schema".customers) FROM dim.customers_history}), 't', '... and feeds are enabled anew');

# nothing but its owner's rights
new_database('owned', 'ALTER DATABASE owned OWNER TO "the owner"', 'CREATE EXTENSION pg_scd2');
wait_capture($node, 'owned');
my @told = split /\n/, restore('owned', '-U', 'the owner');
cmp_ok(scalar @told, '>', 0, 'by the owner: what is the superuser\'s is refused');
is(join("\n", grep { !/permission denied for (schema scd2_internal|table|sequence)|must be owner of|must be member of|permission denied for schema public|schema "scd2" already exists|must be able to SET ROLE/ } @told), '', '... nothing else');
is($node->safe_psql('owned', $rows), $counts, '... all of his rows are there');
is($node->safe_psql('owned', 'SELECT (SELECT count(*) FROM scd2.feeds), (SELECT count(*) FROM scd2.flows)'), '0|0', '... and no registrations');

# tables left out: the rest goes on
succeeds($node, 'dumped without some tables', 'pg_dump', '-Fc', '-f', "$dir/less", '-T', '"Odd, schema".events', '-T', '"Odd, schema".places_(old|new)', '-T', '"Odd, schema".log_changes*', '-T', 'dim.totals', 'original');
new_database('less');
{
    my ($out, $err) = ('', '');
    local %ENV = (%ENV, PGHOST => $node->host, PGPORT => $node->port);
    IPC::Run::run([ 'pg_restore', '-j', '2', '-d', 'less', "$dir/less" ], '<', \undef, '>', \$out, '2>', \$err);
    unlike($err, qr/COPY failed/, 'every catalog is restored where some tables are not');
}
$node->safe_psql('less', 'SELECT scd2.resume_capture(no_gap => true)');
wait_capture($node, 'less');
is($node->safe_psql('less', q{SELECT source_schema, source_name, error FROM scd2_internal.feed_state s JOIN scd2_internal.feed f USING (feed_id) WHERE error IS NOT NULL}),
    'Odd, schema|log|table "Odd, schema".log_changes was not restored', '... a feed without its relation has failed');
is($node->safe_psql('less', q{SELECT feed FROM scd2.feeds WHERE state = 'source dropped' ORDER BY feed::text}), qq{"Odd, schema".dropped_changes\n"Odd, schema".events_changes}, '... a feed without its source stays readable');
$node->safe_psql('less', q{UPDATE "Odd, schema".customers SET "Region" = 'Este' WHERE id = 1});
$node->poll_query_until('less', q{SELECT count(*) = 1 FROM dim.customers_history WHERE "Region" = 'Este'}) or die;
is($node->safe_psql('less', q{SELECT count(*) FROM scd2.check_target('dim.customers_history')}), '0', '... and the others go on');
is($node->safe_psql('less', q{SELECT phase FROM scd2_internal.flow_state s JOIN scd2_internal.flow f USING (flow_id) WHERE f.name = 'totals'}) =~ /apply|failed/, 1, '... a flow without its target harms nobody');

# a worker that is slow to hear that its position is another's: nobody takes it for the one that captures
$template = 'with_extension';
new_database('slow');
sync($node, 'slow');
my $slow = wait_capture($node, 'slow');
wait_until($node, 'slow', "SELECT state = 'idle' FROM pg_stat_activity WHERE pid = $slow", 'the worker rests');
kill 'STOP', $slow;
restore('slow');
$node->safe_psql('slow', 'SELECT scd2.resume_capture(no_gap => true)');
is($node->safe_psql('slow', 'SELECT state, pid FROM scd2_internal.capture_status()'), "starting|$slow", 'a worker that has not heard of the restore does not count as running');
kill 'CONT', $slow;
wait_capture($node, 'slow');
is($node->safe_psql('slow', q{SELECT p.slot = s.slot_name FROM scd2_internal.position p, pg_replication_slots s WHERE s.database = 'slow'}), 't', '... the next one has the slot');
$node->safe_psql('slow', q{UPDATE "Odd, schema".customers SET "Region" = 'Este' WHERE id = 1});
sync($node, 'slow');
is($node->safe_psql('slow', q{SELECT count(*) FROM dim.customers_history WHERE "Region" = 'Este'}), '1', '... and captures');
$template = 'template0';

# nothing was ever enabled: nothing to resume
new_database('pristine', 'CREATE EXTENSION pg_scd2');
wait_capture($node, 'pristine');
succeeds($node, 'dumped without any feed', 'pg_dump', '-f', "$dir/pristine.sql", 'pristine');
new_database('virgin');
succeeds($node, 'restored without any feed', 'psql', '-qX', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/pristine.sql", 'virgin');
wait_capture($node, 'virgin');

# into a database that captures
new_database('taken', 'CREATE EXTENSION pg_scd2');
wait_capture($node, 'taken');
$node->safe_psql('taken', $captures);
sync($node, 'taken');
like(restore('taken'), qr/ERROR:  database "taken" has change data feeds already: a dump of others cannot be added/, 'a database that has feeds takes no dump of others');
is($node->safe_psql('taken', q{SELECT version, state FROM scd2_internal.position, scd2.feeds WHERE source = 'anew'::regclass}), '1|running', '... and goes on with its own');

# tables that a restore creates have the feeds that they bring, however the database is set
$template = 'with_extension';
new_database('setting', 'ALTER DATABASE setting SET pg_scd2.enable_change_feed_on_create = on');
sync($node, 'setting');
is(restore('setting'), 'ERROR:  schema "scd2" already exists', 'with enable_change_feed_on_create: no error');
is_same_picture(picture($node, 'setting'), $original, 'with enable_change_feed_on_create');

# without the promise that nothing was written, each feed has a gap of one version
my $before = $node->safe_psql('setting', 'SELECT scd2.latest_version()');
$node->safe_psql('setting', 'ALTER TABLE "Odd, schema".customers ENABLE ROW LEVEL SECURITY');
$node->safe_psql('setting', 'SELECT scd2.resume_capture()');
wait_capture($node, 'setting');
is($node->safe_psql('setting', q{SELECT count(*) > 1, bool_and(c.relrowsecurity) FROM scd2_internal.made_from('"Odd, schema".customers'::regclass) m JOIN pg_class c ON c.oid = m}), 't|t',
    'row level security that came before resume_capture() is followed then');
is($node->safe_psql('setting', 'SELECT scd2.latest_version()'), $before + 1, 'without no_gap the gap has a version of its own');
is($node->safe_psql('setting', q{SELECT DISTINCT lower(gap) FROM scd2.feeds WHERE state <> 'disabled'}), $before + 1, '... in every feed');
($ret, $out, $err) = $node->psql('setting', q{SELECT count(*) FROM scd2.table_changes('"Odd, schema".customers', 0)});
like($err, qr/has a gap/, '... which reads refuse to cross');
# ... and is repaired as any: what was written meanwhile comes as one version
$node->safe_psql('setting', q{UPDATE "Odd, schema".customers SET "Region" = 'meanwhile' WHERE id = (SELECT min(id) FROM "Odd, schema".customers)});
$node->safe_psql('setting', q{SELECT scd2.resync('"Odd, schema".customers'); SELECT scd2.sync('50 s', '{dim.customers_history}')});
is($node->safe_psql('setting', q{SELECT count(*) FROM dim.customers_history WHERE "Region" = 'meanwhile'}), '1', '... until scd2.resync()');
is($node->safe_psql('setting', q{SELECT count(*) FROM scd2.check_target('dim.customers_history')}), '0', '... which finds no difference after that');

# over the database that was dumped, whose slot may still be there
is(join('', grep { !/cannot drop inherited constraint/ } split /\n/, restore('original', '--clean', '--if-exists')), '', 'over the original');
workers_are_off($node, 'original', 'over the original');
is_same_picture(picture($node, 'original'), $original, 'over the original');
$node->safe_psql('original', 'SELECT scd2.resume_capture(no_gap => true)');
sync($node, 'original');
goes_on($node, 'original', 'over the original');

# no_gap is not for what was lost
$node->safe_psql('original', 'SELECT scd2.stop()');
$node->poll_query_until('original', q{SELECT bool_and(NOT active) FROM pg_replication_slots WHERE database = 'original'}) or die;
$node->safe_psql('original', 'SELECT pg_drop_replication_slot(slot) FROM scd2.capture');
($ret, $out, $err) = $node->psql('original', 'SELECT scd2.resume_capture(no_gap => true)');
like($err, qr/changes of database "original" were lost.*HINT:  SELECT scd2.resume_capture\(\);/s, 'no_gap is refused where the slot was lost');
done_testing();
