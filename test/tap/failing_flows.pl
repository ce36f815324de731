# Flows that fail for ever, each in its own way, change nothing for capture and for other flows: a
# check, a trigger, missing rights, a target or memory that was dropped, a disk that is full, a lock
# that somebody holds. Each says what is wrong with it, the log is bounded and says whose each line
# is, and each goes on when what is wrong was put right.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('failing_flows', 'pg_scd2.max_apply_workers = 2', 'allow_in_place_tablespaces = on');
$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    CREATE ROLE alice;
    CREATE ROLE bob;
    CREATE SCHEMA a AUTHORIZATION alice;
    GRANT ALL ON SCHEMA a TO bob;
    GRANT alice TO bob;
    CREATE TABLESPACE small LOCATION '';
    GRANT CREATE ON TABLESPACE small TO alice});
my $as = sub { my ($role, $sql) = @_; return $node->safe_psql('postgres', "SET SESSION AUTHORIZATION $role; SET search_path = a; $sql"); };
my @kinds = qw(good check trigger rights target memory disk lock);
$as->('alice', "CREATE TABLE t_$_ (id int PRIMARY KEY, v int)") for @kinds;
$as->('alice', "SELECT scd2.track('t_$_', '$_')") for grep { !/memory|rights/ } @kinds;
$as->('alice', q{SELECT scd2.track('t_memory', 'memory', shared => true, apply_as_truncates => 'false')});
$as->('bob', q{SELECT scd2.track('t_rights', 'rights')});
sync($node);
$as->('alice', "INSERT INTO t_$_ VALUES (1, 1)") for @kinds;
sync($node);
my $capture = capture_pid($node);

# what is wrong
$as->('alice', q{ALTER TABLE "check" ADD CHECK (v < 10)});
$as->('alice', q{
    CREATE FUNCTION evil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN SET ROLE postgres; RETURN NEW; END $$;
    CREATE TRIGGER evil BEFORE INSERT OR UPDATE ON trigger FOR EACH ROW EXECUTE FUNCTION evil();
    CREATE TABLE is_full (yes boolean);
    INSERT INTO is_full VALUES (true);
    CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF (SELECT yes FROM a.is_full) THEN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER no_space BEFORE INSERT OR UPDATE ON disk FOR EACH ROW EXECUTE FUNCTION no_space()});
$node->safe_psql('postgres', 'REVOKE alice FROM bob');
$as->('alice', 'DROP TABLE target CASCADE');
$node->safe_psql('postgres', 'SET pg_scd2.own_ddl = on; DROP TABLE a.memory_memory');
my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN; LOCK TABLE a.lock IN SHARE MODE');
my $log_before = -s $node->logfile;
$as->('alice', "UPDATE t_$_ SET v = 20") for @kinds;

# the others
is($as->('alice', q{SELECT scd2.sync('20 s', '{good}') > 0}), 't', 'a flow that has nothing wrong gets on');
is($as->('alice', q{SELECT v FROM good WHERE __end_at IS NULL}), '20', '... and has what came');
my $state = sub { my ($flow) = @_; return $node->safe_psql('postgres', "SELECT state FROM scd2.flows WHERE flow = '$flow'"); };
my $error = sub { my ($flow) = @_; return $node->safe_psql('postgres', "SELECT last_error FROM scd2.flows WHERE flow = '$flow'"); };
wait_until($node, 'postgres', "SELECT state = 'failed' FROM scd2.flows WHERE flow = '$_'", "flow $_ has failed") for qw(check trigger rights target memory);
my $version = $node->safe_psql('postgres', q{SELECT max(_commit_version) FROM a.t_check_changes});
like($error->('check'), qr/^23514: .*\(at version $version\).*\(1, 20, /, 'a check: version and row are told');
like($error->('trigger'), qr/^42501: cannot set parameter "role" within security/, 'a trigger that wants to be somebody else: it cannot');
like($error->('rights'), qr/^42501: permission denied for table t_rights\b/, 'an owner who lost his rights');
like($error->('target'), qr/^42P01: target a.target of flow "target" does not exist/, 'a target that was dropped');
like($error->('memory'), qr/^42P01: memory a.memory_memory of flow "memory" does not exist/, 'its memory');
wait_until($node, 'postgres', q{SELECT last_error ~ '^53100' FROM scd2.flows WHERE flow = 'disk'}, 'a disk that is full is told');
is($state->('disk'), 'running', '... and tried again');
wait_until($node, 'postgres', q{SELECT last_error ~ '^55P03' FROM scd2.flows WHERE flow = 'lock'}, 'a lock that somebody holds is told');
is($state->('lock'), 'running', '... and waited for');
is(capture_pid($node), $capture, 'the capture worker is the same');

# under load: capture and the good flow do not feel it
$as->('alice', "INSERT INTO t_good SELECT g, g FROM generate_series(2, 1000) g");
is($as->('alice', q{SELECT scd2.sync('20 s', '{good}') > 0; SELECT count(*) FROM good}), "t\n1001", 'a flow that has nothing wrong gets on, later too');
sleep 3;
my $log = slurp_file($node->logfile, $log_before);
my @errors = grep { /ERROR:/ && !/STATEMENT/ } split /\n/, $log;
cmp_ok(scalar(@errors), '<', 60, 'the log is bounded: ' . scalar(@errors) . ' errors');
my @contexts = ($log =~ /flow "\w+", (?:after )?version \d+\n\s*pg_scd2 apply worker of database "postgres"/g);
cmp_ok(scalar(@contexts), '>=', scalar(grep { !/does not exist/ } @errors), 'each says which flow, version and database it is about');

# a disk that is full is no reason to give up, however long it is
$node->safe_psql('postgres', q{SELECT scd2.stop()});
$node->safe_psql('postgres', q{UPDATE scd2_internal.flow_state AS s SET failures = 30, retry_at = now() FROM scd2_internal.flow AS f WHERE f.flow_id = s.flow_id AND f.name = 'disk'});
$node->safe_psql('postgres', q{SELECT scd2.start()});
wait_until($node, 'postgres', q{SELECT s.failures > 30 FROM scd2_internal.flow_state AS s JOIN scd2_internal.flow AS f USING (flow_id) WHERE f.name = 'disk'}, 'it is tried again after thirty failures');
is($state->('disk'), 'running', '... and after that');

# put right
$as->('alice', 'ALTER TABLE "check" DROP CONSTRAINT check_v_check; DROP TRIGGER evil ON trigger; UPDATE is_full SET yes = false');
$node->safe_psql('postgres', 'GRANT alice TO bob');
$holder->query_safe('COMMIT');
$holder->quit;
$as->('alice', "SELECT scd2.resume_flow('$_')") for qw(check trigger disk);
$as->('bob', "SELECT scd2.resume_flow('rights')");
$as->('alice', q{SELECT scd2.drop_flow('target'); SELECT scd2.drop_flow('memory')});
sync($node);
for my $flow (qw(check trigger rights disk lock))
{
    is($node->safe_psql('postgres', qq{SELECT v FROM a."$flow" WHERE __end_at IS NULL}), '20', "flow $flow has gone on");
    is($node->safe_psql('postgres', qq{SELECT count(*) FROM scd2.check_target('a."$flow"')}), '0', '... and its target is right');
}
is($node->safe_psql('postgres', q{SELECT count(*) FROM scd2.diagnose() WHERE subject LIKE 'flow%'}), '0', 'nothing is wrong any more');
$node->stop;
done_testing();
