# Event triggers of others that refuse our DDL in workers: what needs it waits and is told by name, with
# the reason; other tables and flows go on, and so does this one when the trigger is gone. In a user's
# call they are his error.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use Scd2;

my $node = new_node('refused', 'pg_scd2.debug_upkeep_every = 50ms', 'pg_scd2.debug_leaf_size = 64kB');
$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    CREATE ROLE hoster SUPERUSER;
    CREATE ROLE app LOGIN;
    CREATE SCHEMA s AUTHORIZATION app;
    SET ROLE app;
    CREATE TABLE s.a (id int PRIMARY KEY, v int, body text);
    CREATE TABLE s.b (id int PRIMARY KEY, v int, body text);});
$node->safe_psql('postgres', "SET ROLE app; SELECT scd2.track('s.$_')") for qw(a b);
sync($node);

# The hoster's trigger: raises in workers, or for everybody, at statements with these tags.
sub refuse
{
    my ($event, $tags, $condition) = @_;
    $node->safe_psql('postgres', qq{
        SET ROLE hoster;
        CREATE OR REPLACE FUNCTION public.refuse() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS \$\$
        BEGIN
            IF $condition THEN
                RAISE EXCEPTION 'no DDL for "%" here: %', session_user, tg_tag;
            END IF;
        END \$\$;
        DROP EVENT TRIGGER IF EXISTS refuse;
        CREATE EVENT TRIGGER refuse ON $event WHEN TAG IN ($tags) EXECUTE FUNCTION public.refuse()});
    return;
}
my $in_worker = "EXISTS (SELECT FROM pg_stat_activity WHERE pid = pg_backend_pid() AND backend_type LIKE 'pg_scd2%')";
sub gone { $node->safe_psql('postgres', 'DROP EVENT TRIGGER IF EXISTS refuse'); return; }
sub problems { my ($of) = @_; return $node->safe_psql('postgres', "SELECT string_agg(concat_ws(' | ', subject, problem, detail), E'\\n') FROM scd2.diagnose() WHERE subject ~ '$of'"); }

my $n = 0;
for my $event (qw(ddl_command_start ddl_command_end))
{
    # the feed's columns: capture
    refuse($event, q{'ALTER TABLE', 'CREATE TABLE'}, $in_worker);
    $n++;
    $node->safe_psql('postgres', "SET ROLE app; ALTER TABLE s.a ADD COLUMN new$n int; INSERT INTO s.a (id, new$n) VALUES ($n, $n); INSERT INTO s.b VALUES ($n, 1, 'b')");
    wait_until($node, 'postgres', "SELECT count(*) = 1 FROM s.b_history WHERE id = $n", "$event: another table is captured and applied");
    sleep 5;
    like(problems('table s.a'), qr/table s\.a \| its changes since version \d+ wait to be written into its feed \| no DDL for "postgres" here: ALTER TABLE/i, '... diagnose() tells of the one, and why');
    is($node->safe_psql('postgres', "SELECT string_agg(concat_ws(' ', source, state, gap), ',' ORDER BY source::text) FROM scd2.feeds"), 's.a running,s.b running', '... neither feed has a gap');
    is(problems('s.b|b_history'), '', '... of the other there is nothing to tell');
    $node->safe_psql('postgres', "INSERT INTO s.b VALUES (-$n, 1, 'b')");
    wait_until($node, 'postgres', "SELECT count(*) = 1 FROM s.b_history WHERE id = -$n", '... which goes on');
    gone();
    sync($node);
    is($node->safe_psql('postgres', "SELECT new$n FROM s.a_history WHERE id = $n"), $n, '... and the one when the trigger is gone');

    # the target's columns: an apply worker
    refuse($event, q{'ALTER TABLE'}, $in_worker =~ s/LIKE 'pg_scd2%'/= 'pg_scd2 apply'/r);
    $n++;
    $node->safe_psql('postgres', "SET ROLE app; ALTER TABLE s.a ADD COLUMN new$n int; INSERT INTO s.a (id, new$n) VALUES ($n, $n); INSERT INTO s.b VALUES ($n, 1, 'b')");
    wait_until($node, 'postgres', "SELECT count(*) = 1 FROM s.b_history WHERE id = $n", "$event, apply workers: another flow goes on");
    wait_until($node, 'postgres', q{SELECT failures >= 3 FROM scd2_internal.flow_state s JOIN scd2_internal.flow f USING (flow_id) WHERE f.name ~ 'a_history'}, '... the one is tried');
    like(problems('flow'), qr/flow a_history \| it fails and is tried again \| P0001: no DDL for "postgres" here: ALTER TABLE/, '... diagnose() tells of it, and why');
    gone();
    sleep 8;
    sync($node);
    is($node->safe_psql('postgres', "SELECT new$n FROM s.a_history WHERE id = $n"), $n, '... and it goes on by itself');

    # a feed's next partition: upkeep
    refuse($event, q{'CREATE TABLE'}, $in_worker);
    my $leaves = $node->safe_psql('postgres', "SELECT count(*) FROM pg_inherits WHERE inhparent = 's.a_changes'::regclass");
    $node->safe_psql('postgres', "INSERT INTO s.a (id, body) SELECT 1000 * $n + i, repeat('x', 500) FROM generate_series(1, 400) i; INSERT INTO s.b (id, v) VALUES (100 + $n, 1)");
    wait_until($node, 'postgres', q{SELECT EXISTS (SELECT FROM scd2.diagnose() WHERE subject = 'table s.a' AND problem ~ 'cannot be cut' AND detail ~ 'no DDL for')}, "$event, upkeep: diagnose() tells which feed cannot be cut");
    sync($node);
    is($node->safe_psql('postgres', "SELECT count(*) FROM s.b_history WHERE id = 100 + $n"), '1', '... everything else goes on');
    gone();
    wait_until($node, 'postgres', "SELECT count(*) > $leaves FROM pg_inherits WHERE inhparent = 's.a_changes'::regclass", '... it is cut when the trigger is gone');
    wait_until($node, 'postgres', q{SELECT NOT EXISTS (SELECT FROM scd2.diagnose())}, '... and nothing is left to tell');

    # a user's call
    refuse($event, q{'CREATE TABLE'}, "session_user = 'app'");
    my ($result, $stdout, $stderr) = $node->psql('postgres', "SET SESSION AUTHORIZATION app; SELECT scd2.create_append_flow('s.appended', 's.a')");
    like($stderr, qr/no DDL for "app" here: CREATE TABLE/, "$event: a call fails with the reason") or diag($stdout);
    gone();
}
# A trigger that only writes a log.
$node->safe_psql('postgres', q{
    CREATE TABLE ddl_log (who name, tag text, at timestamptz DEFAULT now()); GRANT INSERT ON ddl_log TO PUBLIC;
    SET ROLE hoster;
    CREATE OR REPLACE FUNCTION public.refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.ddl_log VALUES (current_user, tg_tag); END$$;
    CREATE EVENT TRIGGER refuse ON ddl_command_end EXECUTE FUNCTION public.refuse()});
$node->safe_psql('postgres', 'SET ROLE app; ALTER TABLE s.a ADD COLUMN logged int; INSERT INTO s.a (id, logged) VALUES (77, 7)');
sync($node);
is($node->safe_psql('postgres', 'SELECT logged FROM s.a_history WHERE id = 77'), '7', 'a trigger that writes a log does not keep columns from being followed');
cmp_ok($node->safe_psql('postgres', q{SELECT count(*) FROM ddl_log WHERE tag = 'ALTER TABLE'}), '>=', 3, '... and logs ours too');
targets_are_right($node, 'postgres', 'in the end');
done_testing();
