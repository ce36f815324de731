# A worker whose batch failed has lost the flow's lock. If another takes the flow before the failure
# is recorded, the failure is over: recording it would move the flow's state from under the other,
# whose batch would fail with an internal error, and so on until the flow had failed for good.
# Likewise when resume_flow() changes the state of a flow that is being applied.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('overtaken', 'pg_scd2.max_apply_workers = 2');
$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    CREATE TABLE t (id int PRIMARY KEY, v int);
    SELECT scd2.track('t')});
sync($node);

# The first statement that comes by fails, the second stays until the test gives its lock back.
$node->safe_psql('postgres', q{
    CREATE SEQUENCE visits;
    CREATE FUNCTION visit() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF nextval('public.visits') = 1 THEN
            RAISE EXCEPTION 'the first one fails';
        END IF;
        WHILE NOT pg_try_advisory_xact_lock(42) LOOP
            PERFORM pg_sleep(0.01);
        END LOOP;
        RETURN NULL;
    END $$;
    CREATE TRIGGER visit BEFORE INSERT ON t_history FOR EACH STATEMENT EXECUTE FUNCTION visit()});
my $keeper = $node->background_psql('postgres');
$keeper->query_safe('SELECT pg_advisory_lock(42)');
$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_scd2.debug_fail_at = 'wait: failed'});
$node->reload;
sleep 1;    # idle workers look at their settings when they wake
$node->safe_psql('postgres', 'INSERT INTO t VALUES (1, 1)');
wait_until($node, 'postgres', 'SELECT last_value = 2 FROM visits', 'the other worker has the flow while the failure is not recorded');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_scd2.debug_fail_at');
$node->reload;
sleep 2;    # time enough to record it
is($node->safe_psql('postgres', 'SELECT state, last_error FROM scd2.flows'), 'running|', 'a failure that is over is not recorded');
$keeper->query_safe('SELECT pg_advisory_unlock(42)');
sync($node);
is($node->safe_psql('postgres', 'SELECT state, last_error, rows_inserted FROM scd2.flows'), 'running||1', 'the other worker went on undisturbed');
is($node->safe_psql('postgres', 'SELECT id, v, __end_at FROM t_history'), '1|1|', 'and the row is there, once');

# resume_flow() while a batch that failed before is tried again: it does not wait for the batch,
# which finds its state where it is then.
$keeper->query_safe('SELECT pg_advisory_lock(42)');
$node->safe_psql('postgres', 'ALTER SEQUENCE visits RESTART');
$node->safe_psql('postgres', 'INSERT INTO t VALUES (2, 2)');
wait_until($node, 'postgres', 'SELECT last_value = 2 FROM visits', 'the first batch has failed, the second is at work');
is($node->safe_psql('postgres', q{SELECT last_error LIKE '%the first one fails%' FROM scd2.flows}), 't', 'the failure is recorded');
$node->safe_psql('postgres', q{SELECT scd2.resume_flow('t_history')});
$keeper->query_safe('SELECT pg_advisory_unlock(42)');
sync($node);
is($node->safe_psql('postgres', 'SELECT string_agg(id::text, $$,$$ ORDER BY id) FROM t_history'), '1,2', 'the batch is applied');
is($node->safe_psql('postgres', q{SELECT last_error LIKE '%the first one fails%' FROM scd2.flows}), 't', '... without another failure');
unlike(slurp_file($node->logfile), qr/state of flow \d+ is gone/, 'no internal error');
$keeper->quit;
done_testing();
