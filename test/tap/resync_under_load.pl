# scd2.resync() while writers run at full speed: what was missed comes as one version, every later
# change once, in all targets of the feed; rows that are as they were are not touched; and two that
# ask for it at once are one.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('resync_load');
create_audited_table($node, 'postgres');
$node->safe_psql('postgres', q{
    CREATE TABLE p (id int, part int, v int, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
    CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
    CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2);
    CREATE TABLE no_key (v int)});
sync($node);
$node->safe_psql('postgres', q{SELECT scd2.track('t', 't_current', stored_as_scd_type => 1)});
$node->safe_psql('postgres', q{SELECT scd2.create_auto_cdc_flow('t_narrow', 't_changes', '{id}', column_list => '{id,v}', stored_as_scd_type => 2)});
$node->safe_psql('postgres', q{SELECT scd2.create_append_flow('t_log', 't')});
$node->safe_psql('postgres', q{SELECT scd2.track('p')});
$node->safe_psql('postgres', q{SELECT scd2.enable_change_feed('no_key')});
$node->safe_psql('postgres', q{INSERT INTO t SELECT i, i, 'quiet' FROM generate_series(1001, 21000) i; INSERT INTO p SELECT i, i % 2 + 1, 0 FROM generate_series(1, 100) i});
sync($node);

my $writer = start_writer($node, 'postgres', 4);
sleep 1;
my $quiet = q{SELECT md5(string_agg(id || ' ' || xmin || ' ' || ctid, ',' ORDER BY id)) FROM t_history WHERE id BETWEEN 1100 AND 21000};
for my $round (1 .. 3)
{
    my $before = $node->safe_psql('postgres', $quiet);
    lose_slot($node, 'postgres', q{UPDATE p SET v = v + 1 WHERE id <= 10; DELETE FROM p WHERE id = 20 + (SELECT count(*) FROM scd2.feeds); INSERT INTO no_key VALUES (1);
        UPDATE t SET v = -1 WHERE id = 1001; DELETE FROM t WHERE id = 1002; INSERT INTO t VALUES (1002, 7, 'back'); DELETE FROM t WHERE id = 1003; INSERT INTO t VALUES (22000 + extract(epoch FROM now())::int % 1000, 1, 'new')});
    my @sessions = map { $node->background_psql('postgres', on_error_stop => 0) } 1, 2;
    $_->query(q{SELECT scd2.resync('t')}) for @sessions;
    $_->quit for @sessions;
    $node->safe_psql('postgres', q{SELECT scd2.resync('p'); SELECT scd2.resync('no_key')});
    sleep 1;
    sync($node);
    is($node->safe_psql('postgres', q{SELECT source, state, gap IS NOT NULL FROM scd2.feeds ORDER BY source::text}), "no_key|running|t\np|running|f\nt|running|f", "round $round: repaired, under load");
    is($node->safe_psql('postgres', $quiet), $before, "round $round: rows that are as they were are not touched");
}
finish_writer($writer);
sync($node);
is($node->safe_psql('postgres', q{SELECT count(*) FROM (
        (SELECT id, v, body FROM t_history WHERE __end_at IS NULL EXCEPT ALL SELECT id, v, body FROM t) UNION ALL (SELECT id, v, body FROM t EXCEPT ALL SELECT id, v, body FROM t_history WHERE __end_at IS NULL)) d}), '0', 'the history is what the table is');
is($node->safe_psql('postgres', q{SELECT count(*) FROM ((SELECT id, v, body FROM t_current EXCEPT ALL SELECT id, v, body FROM t) UNION ALL (SELECT id, v, body FROM t EXCEPT ALL SELECT id, v, body FROM t_current)) d}), '0', 'so is the target of type 1');
is($node->safe_psql('postgres', q{SELECT count(*) FROM ((SELECT id, v FROM t_narrow WHERE __end_at IS NULL EXCEPT ALL SELECT id, v FROM t) UNION ALL (SELECT id, v FROM t EXCEPT ALL SELECT id, v FROM t_narrow WHERE __end_at IS NULL)) d}), '0', 'so is one with fewer columns');
is($node->safe_psql('postgres', q{SELECT count(*) FROM ((SELECT id, part, v FROM p_history WHERE __end_at IS NULL EXCEPT ALL SELECT id, part, v FROM p) UNION ALL (SELECT id, part, v FROM p EXCEPT ALL SELECT id, part, v FROM p_history WHERE __end_at IS NULL)) d}), '0', 'so is that of the partitioned table');
targets_are_right($node, 'postgres', 'at the end');
# A row that had one image in the feed last has it in the table: nothing twice, nothing missing.
is($node->safe_psql('postgres', q{
        SELECT count(*) FROM (
            SELECT id, v, body, sum(CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END) AS n FROM t_changes GROUP BY id, v, body
        ) f FULL JOIN (SELECT id, v, body, count(*) AS n FROM t GROUP BY id, v, body) s USING (id, v, body) WHERE coalesce(f.n, 0) <> coalesce(s.n, 0)}),
    '0', 'the images of the feed add up to the table');
my $v = $node->safe_psql('postgres', q{SELECT max(version) FROM scd2.describe_history('t') WHERE operation LIKE 'RECONSTRUCTED%'});
is($node->safe_psql('postgres', qq{SELECT count(*) FROM (
        (SELECT id, v, body FROM scd2.table_at(NULL::t, $v - 1) EXCEPT ALL
         SELECT id, v, body FROM t_history WHERE __start_at <= (SELECT max(_commit_timestamp) FROM t_changes WHERE _commit_version < $v)
            AND coalesce(__end_at, 'infinity') > (SELECT max(_commit_timestamp) FROM t_changes WHERE _commit_version < $v))) d}), '0', 'table_at() goes back across the repair');
done_testing();
