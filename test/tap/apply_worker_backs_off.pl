# An apply worker that fails outside of any flow: it backs off, diagnose() and sync() say why, and
# it comes back by itself when the cause is gone.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('backs_off', 'pg_scd2.max_apply_workers = 2');
create_audited_table($node, 'postgres');
$node->safe_psql('postgres', q{CREATE ROLE somebody; CREATE SCHEMA s AUTHORIZATION somebody; SET ROLE somebody; CREATE TABLE s.of_his (id int PRIMARY KEY); SELECT scd2.track('s.of_his')});
$node->safe_psql('postgres', q{SELECT scd2.sync('50 s')});

my $log = -s $node->logfile;
$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_scd2.debug_fail_at = 'list flows'});
$node->reload;
ok($node->poll_query_until('postgres', q{SELECT detail LIKE '%injected failure: list flows%' FROM scd2.diagnose() WHERE problem = 'an apply worker fails'}), 'diagnose() says why');
ok($node->poll_query_until('postgres', q{SELECT cardinality(apply_pids) = 0 FROM scd2_internal.capture_status()}), 'none is left');
sleep 8;
my $errors = () = substr(slurp_file($node->logfile), $log) =~ /pg_scd2 apply.*ERROR:.*injected failure/g;
# Each tells it twice: of the list as a whole, and of the flows one by one.
cmp_ok($errors, '<=', 2 * 2 * 4, "both back off ($errors errors)");
cmp_ok($errors, '>=', 2 * 2 * 2, 'and try again');
$node->safe_psql('postgres', q{INSERT INTO t VALUES (1, 1, 'waits')});
my ($result, $stdout, $stderr) = $node->psql('postgres', q{SELECT scd2.sync('50 s')});
like($stderr, qr/the apply workers of database "postgres" failed: injected failure: list flows/, 'sync() says so at once');
($result, $stdout, $stderr) = $node->psql('postgres', q{SET ROLE somebody; INSERT INTO s.of_his VALUES (1); SELECT scd2.sync('50 s')});
like($stderr, qr/the apply workers of database "postgres" failed$/m, '... to others without the text, which can have values of rows');
unlike($stderr, qr/injected/, '... nowhere in the message');
is($node->safe_psql('postgres', q{SELECT state FROM scd2.capture}), 'running', 'capture goes on');

$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_scd2.debug_fail_at');
$node->reload;
ok($node->poll_query_until('postgres', q{SELECT cardinality(apply_pids) = 2 FROM scd2_internal.capture_status()}), 'both come back, at once when settings are reloaded');
ok($node->poll_query_until('postgres', q{SELECT NOT EXISTS (SELECT FROM scd2.diagnose() WHERE problem = 'an apply worker fails')}), 'diagnose() is silent again');
history_is_right($node, 'postgres', 'in the end');
done_testing();
