# A repair that is interrupted at any step is done again, as if nothing had been: by an error in the
# worker, by a crash of the server, by another slot that is lost meanwhile.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('resync_crashes');
create_audited_table($node, 'postgres');
$node->safe_psql('postgres', "INSERT INTO t SELECT i, i, 'x' FROM generate_series(1, 200) i");
sync($node);
my $repairs = 0;

sub repaired_once
{
    my ($what) = @_;
    sync($node);
    $repairs++;
    is($node->safe_psql('postgres', 'SELECT state, gap FROM scd2.feeds'), 'running|', "$what: repaired");
    is($node->safe_psql('postgres', q{SELECT count(*) FROM scd2.describe_history('t') WHERE operation LIKE 'RECONSTRUCTED%'}), $repairs, "$what: once");
    is($node->safe_psql('postgres', q{
            SELECT count(*) FROM (
                SELECT id, v, body, sum(CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END) AS n FROM t_changes GROUP BY id, v, body
            ) f FULL JOIN (SELECT id, v, body, count(*) AS n FROM t GROUP BY id, v, body) s USING (id, v, body) WHERE coalesce(f.n, 0) <> coalesce(s.n, 0)}),
        '0', "$what: the images of the feed add up to the table");
    targets_are_right($node, 'postgres', "($what)");
    return;
}

my $n = 0;
for my $where ('resync begun', 'position written', 'resync taken', 'resync compared', 'resync done', 'resync committed')
{
    for my $how ('error', 'crash')
    {
        $n++;
        lose_slot($node, 'postgres', "UPDATE t SET v = v + 1 WHERE id = $n; DELETE FROM t WHERE id = 100 + $n; INSERT INTO t VALUES (300 + $n, 1, 'came')");
        my $log = -s $node->logfile;
        fail_at($node, $where);
        # Asking wakes the workers, which may fail before the answer.
        $node->safe_psql('postgres', q{SELECT scd2.resync('t')});
        $node->safe_psql('postgres', "UPDATE t SET v = v + 1 WHERE id = 50 + $n");
        ok(eval { $node->wait_for_log(qr/injected failure: $where/, $log) }, "$how at $where: it came by");
        come_back($node, $how);
        repaired_once("$how at $where");
    }
}

# The slot is lost again while the repair waits: the gap is one, and is repaired as one.
lose_slot($node, 'postgres', 'UPDATE t SET v = v + 1 WHERE id = 30');
fail_at($node, 'wait: resync taken');
$node->safe_psql('postgres', q{SELECT scd2.resync('t')});
$node->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id = 31');
wait_until($node, 'postgres', q{SELECT state = 'repairing' FROM scd2.feeds}, 'a repair waits');
lose_slot($node, 'postgres', 'UPDATE t SET v = v + 1 WHERE id = 32');
is($node->safe_psql('postgres', 'SELECT state, upper_inf(gap) FROM scd2.feeds'), 'failed|t', 'the slot is lost meanwhile: the feed has failed again');
fail_at($node);
$node->safe_psql('postgres', q{SELECT scd2.resync('t')});
repaired_once('lost twice');

# Errors that do not pass: given up after some, with the error and the remedy.
lose_slot($node, 'postgres', 'UPDATE t SET v = v + 1 WHERE id = 40');
fail_at($node, 'resync compared');
$node->safe_psql('postgres', q{SELECT scd2.resync('t')});
wait_until($node, 'postgres', q{SELECT state = 'failed' FROM scd2.feeds}, 'after some failures the repair is given up');
like($node->safe_psql('postgres', q{SELECT detail, fix FROM scd2.diagnose() WHERE subject LIKE 'table %'}), qr/^it could not be repaired: injected failure: resync compared\|SELECT scd2\.resync\('(public\.)?t'\);$/, '... and diagnose() says why');
fail_at($node);
$node->safe_psql('postgres', q{SELECT scd2.resync('t')});
repaired_once('given up before');
done_testing();
