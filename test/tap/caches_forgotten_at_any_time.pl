# Where there is much DDL, a session is told to forget all it knows of catalogs, at any look into
# them: what the capture worker has of its tables is made anew and never used after it went.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('forgetful');
$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    CREATE TABLE t (id int PRIMARY KEY, a text, b int);
    CREATE TABLE parted (id int, v text) PARTITION BY RANGE (id);
    CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10);
    SELECT scd2.enable_change_feed('t'), scd2.enable_change_feed('parted', except_column_list => '{v}')});
sync($node);
set_setting($node, 'pg_scd2.debug_fail_at', 'forget: columns followed');
my $pid = wait_capture($node);
$node->safe_psql('postgres', $_) foreach (
    q{INSERT INTO t VALUES (1, repeat('x', 3000), 1)},
    q{CREATE TABLE later (id int, n int); SELECT scd2.enable_change_feed('later'); INSERT INTO later VALUES (1, 1)},
    q{ALTER TABLE t ADD c int DEFAULT 7; ALTER TABLE t ALTER b TYPE bigint; UPDATE t SET b = 2},
    q{ALTER TABLE t DROP a; UPDATE t SET c = 8},
    q{CREATE TABLE parted_2 (v text, gone int, id int); ALTER TABLE parted_2 DROP gone; INSERT INTO parted_2 VALUES ('x', 11);
      ALTER TABLE parted ATTACH PARTITION parted_2 FOR VALUES FROM (10) TO (20); INSERT INTO parted VALUES (1, 'y'), (12, 'z')},
    q{TRUNCATE parted_2; TRUNCATE later});
is($node->safe_psql('postgres', q{SELECT scd2.sync('50 s') > 0}), 't', 'everything is captured');
is($node->safe_psql('postgres', q{SELECT _change_type, id, b, c FROM t_changes ORDER BY _commit_version, _change_ordinal}),
    "insert|1|1|7\nupdate_preimage|1|1|7\nupdate_postimage|1|2|7\nupdate_preimage|1|2|7\nupdate_postimage|1|2|8", 'columns that come, change and go');
is($node->safe_psql('postgres', q{SELECT _change_type, id FROM parted_changes ORDER BY _commit_version, _change_ordinal}),
    "insert|11\ninsert|1\ninsert|12\ndelete|11\ndelete|12", 'partitions');
is($node->safe_psql('postgres', q{SELECT _change_type, n FROM later_changes ORDER BY _commit_version, _change_ordinal}), "insert|1\ntruncate|", 'a feed that came meanwhile');
is($node->safe_psql('postgres', q{SELECT DISTINCT state FROM scd2.feeds}), 'running', 'no feed failed');
is(capture_pid($node), $pid, 'the worker has not died');
like(slurp_file($node->logfile), qr/injected: forget: columns followed/, 'it was told to forget');
done_testing();
