# A column that is excepted is in no file but those of its table (and the log): neither in the feed,
# targets, memory, rejected events, rows of partitions that come and go, nor in what capture spills.
use strict;
use warnings;
use File::Copy;
use File::Find;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $MARKER = 'kept-out-of-everything';
my $node = new_node('excluded_columns', 'autovacuum = off', "pg_scd2.decoding_work_mem = '64kB'");
$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    CREATE TABLE t (id int PRIMARY KEY, name text, secret text);
    CREATE TABLE p (id int PRIMARY KEY, name text, secret text) PARTITION BY RANGE (id);
    CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
    CREATE TABLE p2 (secret text, id int PRIMARY KEY, name text);
    CREATE TABLE ev (id int, name text, secret text, s int)});
$node->safe_psql('postgres', qq{INSERT INTO t VALUES (0, 'there before', '$MARKER'); INSERT INTO p2 VALUES ('$MARKER', 11, 'came')});
$node->safe_psql('postgres', q{SELECT scd2.enable_change_feed(c::regclass, except_column_list => '{secret}') FROM unnest('{t,p,ev}'::text[]) c});
sync($node);
$node->safe_psql('postgres', q{SELECT scd2.track('t'), scd2.track('t', stored_as_scd_type => 1), scd2.track('p'), scd2.create_append_flow('all_t', 't')});
$node->safe_psql('postgres', q{SELECT scd2.create_auto_cdc_flow('dim', 'ev', '{id}', 's', stored_as_scd_type => 2, track_history_column_list => '{}', on_invalid_event => 'quarantine', max_lateness => '10')});
sync($node);
$node->safe_psql('postgres', "INSERT INTO t VALUES (1, 'a', '$MARKER')");
$node->safe_psql('postgres', "UPDATE t SET name = 'b', secret = secret || '$MARKER' WHERE id = 1");
$node->safe_psql('postgres', "UPDATE t SET secret = repeat('$MARKER', 1000) WHERE id = 1");
$node->safe_psql('postgres', 'DELETE FROM t WHERE id = 1');
$node->safe_psql('postgres', "INSERT INTO ev VALUES (1, 'a', '$MARKER', 100), (1, 'b', '$MARKER', 101), (2, 'invalid', '$MARKER', NULL)");
sync($node);
$node->safe_psql('postgres', "INSERT INTO ev VALUES (1, 'late', '$MARKER', 1)");
$node->safe_psql('postgres', "INSERT INTO p VALUES (1, 'a', '$MARKER')");
$node->safe_psql('postgres', 'ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20)');
$node->safe_psql('postgres', 'UPDATE p SET name = name || 1');
$node->safe_psql('postgres', 'ALTER TABLE p DETACH PARTITION p1');
$node->safe_psql('postgres', 'ALTER TABLE t RENAME COLUMN secret TO still_secret');
$node->safe_psql('postgres', "INSERT INTO t VALUES (2, 'renamed', '$MARKER')");
sync($node);
is($node->safe_psql('postgres', q{SELECT count(*) FROM scd2.rejected_events}), '2', 'events were rejected');
is($node->safe_psql('postgres', q{SELECT string_agg(_change_type || ' ' || id, ', ' ORDER BY _commit_version, _change_ordinal) FROM p_changes}),
    'insert 1, insert 11, update_preimage 1, update_postimage 1, update_preimage 11, update_postimage 11, delete 1', 'partitions came and went');

# what capture spills
my %spilled;
my $big = $node->background_psql('postgres');
$big->query_safe("INSERT INTO t SELECT g, 'many' || g || repeat('x', 300), '$MARKER' FROM generate_series(10, 200000) g");
my $latest = $node->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
for my $round (1 .. 3000)
{
    for my $file (glob($node->data_dir . '/base/pgsql_tmp/*'))
    {
        my $content = eval { slurp_file($file) } // next;
        $spilled{$file} = ($spilled{$file} // 0) | ($content =~ /$MARKER/ ? 2 : $content =~ /many\d/ ? 1 : 0);
    }
    last if $round % 20 == 0 && $node->safe_psql('postgres', "SELECT captured_lsn >= '$latest' FROM scd2.capture") eq 't';
}
sync($node);
$big->quit;
ok(grep({ $_ & 1 } values %spilled), 'capture spilled rows to files: ' . scalar(keys %spilled) . ' were seen');
ok(!grep({ $_ & 2 } values %spilled), '... without the column');

# all files
$node->safe_psql('postgres', 'CHECKPOINT');
my %own = map { $_ => 1 } split /\n/, $node->safe_psql('postgres', q{
    SELECT pg_relation_filepath(c.oid) FROM pg_class c WHERE c.relname IN ('t', 'p1', 'p2', 'ev')
    UNION SELECT pg_relation_filepath(c.reltoastrelid) FROM pg_class c WHERE c.relname IN ('t', 'p1', 'p2', 'ev') AND c.reltoastrelid <> 0});
$node->stop;
my (%with, @elsewhere);
find({
        no_chdir => 1,
        wanted => sub {
            return unless -f $_;
            my $name = substr($_, length($node->data_dir) + 1);
            return if $name =~ m{^(pg_wal|log)/};
            return unless slurp_file($_) =~ /$MARKER/;
            (my $file = $name) =~ s/\.\d+$//;
            $own{$file} ? $with{$file}++ : push @elsewhere, $name;
        } }, $node->data_dir);
cmp_ok(scalar(keys %with), '>=', 4, 'the tables have it in their files');
is("@elsewhere", '', 'no other file has');
done_testing();
