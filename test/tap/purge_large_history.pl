# History of a large target is purged by a worker, some pages at a time, while changes and events
# are applied: nobody waits long, an error and a crash in the midst lose nothing, nothing is removed
# that should stay, and scd2.progress tells how far it is.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('purge', "pg_scd2.debug_purge_size = '256kB'", "pg_scd2.debug_upkeep_every = '50ms'", "pg_scd2.naptime = '100ms'", 'autovacuum = off');
sub sql { return $node->safe_psql('postgres', @_); }

sql(q{
    CREATE EXTENSION pg_scd2;
    CREATE TABLE t (id int PRIMARY KEY, v int);
    INSERT INTO t SELECT i, 0 FROM generate_series(1, 5000) i;
    CREATE TABLE ev (k int, v text, n int);
    INSERT INTO ev SELECT k, n || ' of ' || k, n FROM generate_series(1, 3000) k, generate_series(1, 12) n;
    SELECT scd2.track('t');
    SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'n', column_list => '{k,v}', stored_as_scd_type => 2)});
sync($node);
for my $v (1 .. 6)
{
    sql("UPDATE t SET v = $v");
}
sync($node);
is(sql('SELECT (SELECT count(*) FROM t_history), (SELECT count(*) FROM h)'), '35000|36000', 'there is much to purge');
cmp_ok(sql(q{SELECT least(pg_relation_size('t_history'), pg_relation_size('h')) / 262144}), '>=', 5, 'in targets of many pages');

# An error in the midst is told, and the worker tries again.
my $log = -s $node->logfile;
set_setting($node, 'pg_scd2.debug_fail_at', 'target purged');
is(sql(q{SELECT scd2.purge_history('h', '7')}), '15000', 'the call says how many there are, and is over at once');
is(sql('SELECT count(*) FROM h'), '36000', 'a worker removes them');
is(sql(q{SELECT task, relation, rows_done, rows_estimated FROM scd2.progress WHERE task = 'purge of history'}), 'purge of history|h|0|15000', 'scd2.progress has it');
$node->wait_for_log(qr/injected|fail.*target purged/i, $log);
is(sql('SELECT count(*) FROM h'), '36000', 'what failed has removed nothing');
wait_until($node, 'postgres', q{SELECT EXISTS (SELECT FROM scd2.diagnose() WHERE subject = 'table public.h' AND problem LIKE '%are not removed' AND detail = 'XX000: injected failure: target purged' AND fix LIKE 'SELECT scd2.purge_history(''public.h'', ''7'');%')}, 'diagnose() tells of it');
sql(q{INSERT INTO ev VALUES (1, 'too late', 6), (1, 'in time', 7), (1, '13', 13)});
sync($node);
is(sql(q{SELECT too_late FROM scd2.flows WHERE flow = 'h'}), '1', 'but events below the point are too late already');

# Who asks for less does not call it off.
is(sql(q{SELECT scd2.purge_history('h', '3')}), '3000', 'versions up to an earlier point are among those that a worker still has to remove');
is(sql(q{SELECT before FROM scd2_internal.purge}), '7', 'and it goes on up to the later one');

# It goes on while events come.
set_setting($node, 'pg_scd2.debug_fail_at', undef);
for my $i (14 .. 60)
{
    sql("INSERT INTO ev VALUES (2, '$i', $i)");
    last if sql('SELECT count(*) FROM scd2_internal.purge') eq '0';
}
wait_until($node, 'postgres', 'SELECT count(*) = 0 FROM scd2_internal.purge', 'it comes to an end');
is(sql(q{SELECT count(*) FROM scd2.diagnose() WHERE subject = 'table public.h'}), '0', 'there is nothing to tell any more');
sync($node);
is(sql(q{SELECT count(*) FROM h WHERE __end_at < 7}), '0', 'nothing of it is left');
is(sql(q{SELECT count(*) FROM h WHERE __end_at = 7 OR __start_at = 7}), '6000', 'what ended at the point is there, and what began then');
is(sql(q{SELECT count(*) FROM h WHERE __end_at IS NULL}), '3000', 'and what is open');
is(sql(q{SELECT last_error IS NULL, state FROM scd2.flows WHERE flow = 'h'}), 't|running', 'the flow did not notice');

# A crash in the midst: the first batch is in, the second is not.
my $ended = sql('SELECT count(*) FROM t_history WHERE __end_at IS NOT NULL');
sql(q{
    CREATE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF OLD.id = 4000 AND OLD.v = 3 THEN
            PERFORM pg_advisory_lock_shared(1);
            PERFORM pg_advisory_unlock_shared(1);
        END IF;
        RETURN OLD;
    END $$;
    CREATE TRIGGER gate BEFORE DELETE ON t_history FOR EACH ROW EXECUTE FUNCTION gate()});
my $gate = $node->background_psql('postgres');
$gate->query_safe('SELECT pg_advisory_lock(1)');
is(sql(q{SELECT scd2.purge_history('t_history', now())}), $ended, 'a captured table');
wait_until($node, 'postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = 'advisory'}, 'a batch is at work');
my $done = sql(q{SELECT rows_done FROM scd2.progress WHERE task = 'purge of history'});
cmp_ok($done, '>', 0, 'batches before it are done');
is(sql('SELECT count(*) FROM t_history WHERE __end_at IS NOT NULL'), $ended - $done, 'and committed');
$node->stop('immediate');
eval { $gate->quit };
$node->start;
sql('UPDATE t SET v = 7 WHERE id <= 100');
wait_until($node, 'postgres', 'SELECT count(*) = 0 FROM scd2_internal.purge', 'it goes on after the restart');
sync($node);
is(sql(q{SELECT count(*) FILTER (WHERE __end_at IS NULL), count(*) FILTER (WHERE __end_at IS NOT NULL) FROM t_history}), '5000|100', 'all that had ended is gone, what ended since is there');
is(sql(q{SELECT count(*) FROM (SELECT id, v FROM t_history WHERE __end_at IS NULL EXCEPT TABLE t) d}), '0', 'open rows are those of the table');
is(sql(q{SELECT count(*) FROM scd2.check_target('t_history')}), '0', 'nothing is wrong with it');

# A target whose rows are moved in between begins again; one that is dropped is forgotten.
sql('UPDATE t SET v = v + 1');
sync($node);
set_setting($node, 'pg_scd2.debug_fail_at', 'target purged');
sql(q{SELECT scd2.purge_history('t_history', now())});
sql(q{UPDATE scd2_internal.purge SET next_block = 100000});
sql('VACUUM FULL t_history');
sql(q{SELECT scd2.purge_history('h', '9')});
sql(q{SELECT scd2.drop_flow('h', drop_target => true)});
set_setting($node, 'pg_scd2.debug_fail_at', undef);
wait_until($node, 'postgres', 'SELECT count(*) = 0 FROM scd2_internal.purge', 'both come to an end');
is(sql('SELECT count(*) FROM t_history WHERE __end_at IS NOT NULL'), '0', 'nothing is left out');
done_testing();
