# An error injected at each step of the capture worker, while sessions write: the worker backs off,
# says what is wrong, comes back by itself when the cause is gone, and nothing is lost or doubled.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('steps', 'pg_scd2.batch_changes = 50');
create_audited_table($node, 'postgres');

for my $where ('decoded', 'feeds written', 'position written', 'committed', 'before confirm')
{
    my $log = -s $node->logfile;
    my $writer = start_writer($node, 'postgres', 2);
    fail_at($node, $where);
    ok($node->poll_query_until('postgres', "SELECT error LIKE '%injected failure: $where%' FROM scd2_internal.capture_status()"), "$where: the error is shown");
    sleep 2;
    fail_at($node);
    finish_writer($writer);
    ok($node->poll_query_until('postgres', "SELECT scd2.sync('50 s') > 0"), "$where: the worker comes back by itself");    # it may fail once more before it sees the setting
    feed_is_right($node, 'postgres', "after errors at \"$where\"");
    my $errors = () = substr(slurp_file($node->logfile), $log) =~ /pg_scd2 capture.*ERROR:.*injected failure/g;    # the worker's own, not those told to sync()
    cmp_ok($errors, '<=', 6, "$where: the worker backed off ($errors errors)");
}
history_is_right($node, 'postgres', 'in the end');
done_testing();
