# Values of many megabytes with little memory; and a row that is more than fits into memory in one
# piece, which ends its own feed and no other (OP-06). PostgreSQL itself takes such a row only in
# parts. The second half needs some gigabytes of memory and of disk: PG_TEST_EXTRA=huge_rows.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('huge', "pg_scd2.decoding_work_mem = '64kB'", 'max_wal_size = 8GB');
$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    CREATE TABLE doc (id int PRIMARY KEY, n int, a text, b text);
    ALTER TABLE doc ALTER a SET STORAGE EXTERNAL, ALTER b SET STORAGE EXTERNAL;
    CREATE TABLE other (id int PRIMARY KEY);
    SELECT scd2.track('doc'), scd2.track('other')});
sync($node);
$node->safe_psql('postgres', q{INSERT INTO doc VALUES (1, 0, repeat('a', 40000000), NULL)});
$node->safe_psql('postgres', q{UPDATE doc SET n = 1; UPDATE doc SET id = 2, b = repeat('b', 20000000); DELETE FROM doc});
sync($node);
is($node->safe_psql('postgres', q{SELECT _change_type, id, n, length(a), length(b), md5(a) = md5(repeat('a', 40000000)) FROM doc_changes ORDER BY _commit_version, _change_ordinal}),
    "insert|1|0|40000000||t\nupdate_preimage|1|0|40000000||t\nupdate_postimage|1|1|40000000||t\nupdate_preimage|1|1|40000000||t\n"
      . "update_postimage|2|1|40000000|20000000|t\ndelete|2|1|40000000|20000000|t", 'values of 40 MB are whole in every image');
is($node->safe_psql('postgres', q{SELECT id, n, length(a), length(b), __end_at IS NULL FROM doc_history ORDER BY __start_at}), "1|0|40000000||f\n1|1|40000000||f\n2|1|40000000|20000000|f", '... and in the history');

SKIP:
{
    skip 'PG_TEST_EXTRA does not have huge_rows', 3 unless ($ENV{PG_TEST_EXTRA} // '') =~ /\bhuge_rows\b/;
    $node->safe_psql('postgres', q{INSERT INTO doc VALUES (3, 0, repeat('a', 540000000), NULL)});
    $node->safe_psql('postgres', q{UPDATE doc SET b = repeat('b', 540000000)});
    $node->safe_psql('postgres', 'INSERT INTO other VALUES (1)');
    is($node->safe_psql('postgres', q{SELECT scd2.sync('50 s', '{other_history}') > 0}), 't', 'others are captured');
    is($node->safe_psql('postgres', 'SELECT state FROM scd2.feeds ORDER BY source::text'), "failed\nrunning", 'the feed has failed, alone');
    like($node->safe_psql('postgres', q{SELECT detail FROM scd2.diagnose() WHERE subject = 'table public.doc'}), qr/a row of table "doc" has 1080000008 bytes/, 'and says why');
}
done_testing();
