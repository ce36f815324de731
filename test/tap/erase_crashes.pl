# erase(): all of it or nothing, also through a crash; what is captured again after one does not
# bring anything back; beside writers of the same keys, feeds and targets stay right.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('erase_crashes');
create_audited_table($node, 'postgres');
$node->safe_psql('postgres', q{
    SELECT scd2.track('t', stored_as_scd_type => 1);
    CREATE FUNCTION found(word text) RETURNS bigint LANGUAGE sql AS $$
        SELECT (SELECT count(*) FROM t_changes WHERE body LIKE word) + (SELECT count(*) FROM t_history WHERE body LIKE word) + (SELECT count(*) FROM t_current WHERE body LIKE word) $$});
sync($node);
$node->safe_psql('postgres', q{INSERT INTO t VALUES (1, 1, 'marker'), (2, 1, 'other')});
$node->safe_psql('postgres', 'UPDATE t SET v = 2');
$node->safe_psql('postgres', 'DELETE FROM t WHERE id = 1');
sync($node);
is($node->safe_psql('postgres', q{SELECT found('marker')}), '6', 'feed and history have the row');

# a crash before the commit
my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query(q{BEGIN});
like($session->query(q{SELECT sum(rows) FROM scd2.erase('t', '{"id": 1}')}), qr/6/, 'it is erased in an open transaction');
$node->stop('immediate');
eval { $session->quit };
$node->start;
wait_capture($node);
is($node->safe_psql('postgres', q{SELECT found('marker')}), '6', 'a crash before the commit: all is there');
is($node->safe_psql('postgres', 'SELECT count(*) FROM scd2.erasures'), '0', '... and nothing is recorded');

# a crash right after it; capture begins at its position again
$node->safe_psql('postgres', q{INSERT INTO t VALUES (3, 1, 'another')});
$node->safe_psql('postgres', q{SELECT count(*) FROM scd2.erase('t', '{"id": 1}')});
$node->stop('immediate');
$node->start;
wait_capture($node);
$node->safe_psql('postgres', q{UPDATE t SET v = 3});
sync($node);
is($node->safe_psql('postgres', q{SELECT found('marker')}), '0', 'a crash after the commit: nothing of it is there, nor does it come again');
is($node->safe_psql('postgres', q{SELECT found('another')}), '6', 'what was committed just before is');
is($node->safe_psql('postgres', q{SELECT count(*) FROM scd2.check_target('t_history')}), '0', 'the history is what its sources say');

# nobody captures
$node->safe_psql('postgres', 'SELECT scd2.stop()');
wait_until($node, 'postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type LIKE 'pg_scd2 capture%'}, 'the workers are stopped');
$node->safe_psql('postgres', 'DELETE FROM t WHERE id = 3');
my ($result, $out, $err) = $node->psql('postgres', q{SELECT * FROM scd2.erase('t', '{"id": 3}')});
like($err, qr/ERROR/, 'what is not captured yet is not erased while nobody captures');
is($node->safe_psql('postgres', q{SELECT found('another')}), '6', '... and nothing is, in part');
$node->safe_psql('postgres', 'SELECT scd2.start()');
wait_capture($node);
$node->safe_psql('postgres', q{SELECT count(*) FROM scd2.erase('t', '{"id": 3}')});
sync($node);
is($node->safe_psql('postgres', q{SELECT found('another')}), '0', 'later it is, with what was captured meanwhile');

# beside writers of the same keys
$node->safe_psql('postgres', 'TRUNCATE audit; DELETE FROM t; TRUNCATE audit');
$node->safe_psql('postgres', q{SELECT scd2.full_refresh('t_history')});
sync($node);
my $writer = start_writer($node, 'postgres', 3, q{
\set id random(1, 300)
\set v random(1, 1000)
\set kind random(1, 5)
\if :kind <= 2
DELETE FROM t WHERE id = :id;
\elif :kind = 3
UPDATE t SET id = id + 1000 WHERE id = :id AND NOT EXISTS (SELECT FROM t WHERE id = :id + 1000);
\else
INSERT INTO t VALUES (:id, :v, 'x') ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v;
\endif
});
my %results;
for my $i (1 .. 60)
{
    my $id = 1 + $i * 7 % 300 + ($i % 3 == 0 ? 1000 : 0);
    ($result, $out, $err) = $node->psql('postgres', qq{\\set VERBOSITY sqlstate\nSELECT count(*) FROM scd2.erase('t', '{"id": $id}')});
    $results{ $err =~ /ERROR:  (\w+)/ ? $1 : 'done' }++;
    $node->psql('postgres', "DELETE FROM t WHERE id = $id") if $id > 1000;
}
finish_writer($writer);
ok($results{done} && $results{done} > 5, 'some keys were gone: ' . join(', ', map { "$_ $results{$_}" } sort keys %results));
ok(!grep({ !/^(done|55000|40001|55P03)$/ } keys %results), 'others were there, came back, or had to be waited for too long');
sync($node);
is($node->safe_psql('postgres', q{SELECT count(*) FROM scd2.check_target('t_history')}), '0', 'the history is what its sources say');
is($node->safe_psql('postgres', q{SELECT count(*) FROM scd2.check_target('t_current')}), '0', 'and the current rows');
is($node->safe_psql('postgres', q{
    SELECT count(*) FROM ((SELECT id, v FROM t_history WHERE __end_at IS NULL EXCEPT ALL SELECT id, v FROM t) UNION ALL (SELECT id, v FROM t EXCEPT ALL SELECT id, v FROM t_history WHERE __end_at IS NULL)) d}),
    '0', 'what is open is the table');
$node->stop;
done_testing();
