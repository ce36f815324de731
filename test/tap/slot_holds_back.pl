# What the slot costs the server while capture is off, fails or waits for an old transaction: WAL,
# and catalogs that cannot be vacuumed (OP-13). diagnose() tells of it, with a statement that ends
# it, and when all else fails the slot can be given up: a gap that is declared.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

# 128 MB of WAL, 25,000 transactions
my $node = new_node('holds', 'min_wal_size = 32MB', 'max_wal_size = 32MB', 'autovacuum_freeze_max_age = 100000', 'autovacuum = off', 'checkpoint_timeout = 1h');
create_audited_table($node, 'postgres');
$node->safe_psql('postgres', "INSERT INTO t VALUES (1, 1, 'x')");
sync($node);

sub problems { return $node->safe_psql('postgres', q{SELECT regexp_replace(problem, '\d+( MB| transactions)', 'so much') FROM scd2.diagnose() WHERE problem LIKE 'its slot%' ORDER BY 1}); }
sub fixes { return $node->safe_psql('postgres', q{SELECT DISTINCT fix FROM scd2.diagnose() WHERE problem LIKE 'its slot%'}); }
sub write_wal { my ($segments) = @_; $node->safe_psql('postgres', q{SELECT pg_logical_emit_message(false, 'test', 'x'), pg_switch_wal()}) for 1 .. $segments // 9; return; }

sub use_xids
{
    $node->safe_psql('postgres', 'DO $$ BEGIN FOR i IN 1 .. 26000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$');
    return;
}
my $BOTH = "its slot holds back so much of WAL\nits slot keeps the server from vacuuming catalogs: so much";

is(problems(), '', 'nothing to tell');
$node->safe_psql('postgres', 'SELECT scd2.stop()');
wait_until($node, 'postgres', 'SELECT NOT active FROM pg_replication_slots', 'the workers are stopped');
write_wal();
use_xids();
is(problems(), $BOTH, 'stopped: WAL and catalogs are told of');
is(fixes(), 'SELECT scd2.start();', '... and how to go on');
is($node->safe_psql('postgres', 'SELECT wal_held_bytes > 128 * 1024 * 1024, catalog_xmin_age > 25000 FROM scd2.capture'), 't|t', 'scd2.capture has the figures');
$node->safe_psql('postgres', fixes());
sync($node);
# The slot moves past a record of the running transactions, which a checkpoint writes.
$node->safe_psql('postgres', 'CHECKPOINT');
wait_until($node, 'postgres', q{SELECT NOT EXISTS (SELECT FROM scd2.diagnose() WHERE problem LIKE 'its slot%')}, 'the statement ends it');

# half of what the server lets a slot hold back
set_setting($node, 'max_slot_wal_keep_size', '80MB');
stop_workers($node);
write_wal(2);
is(problems(), '', 'less than half of max_slot_wal_keep_size: nothing to tell');
write_wal(1);
is(problems(), 'its slot holds back so much of WAL', 'more: told of');
$node->safe_psql('postgres', fixes());
set_setting($node, 'max_slot_wal_keep_size', undef);
sync($node);
$node->safe_psql('postgres', 'CHECKPOINT');
wait_until($node, 'postgres', q{SELECT NOT EXISTS (SELECT FROM scd2.diagnose() WHERE problem LIKE 'its slot%')}, 'the statement ends it');

# somebody's transaction stays open
my $session = $node->background_psql('postgres', on_error_stop => 0);
$session->query_safe("BEGIN; INSERT INTO t VALUES (2, 2, 'open')");
$node->safe_psql('postgres', 'CHECKPOINT');
write_wal();
use_xids();
sync($node);
is(problems(), $BOTH, 'an old transaction: told of');
my $holder = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction'});
is(fixes(), "SELECT pg_terminate_backend($holder);", '... with the process that is in the way');
$node->safe_psql('postgres', fixes());
$node->safe_psql('postgres', 'CHECKPOINT');
wait_until($node, 'postgres', q{SELECT NOT EXISTS (SELECT FROM scd2.diagnose() WHERE problem LIKE 'its slot%')}, 'the statement ends it');
eval { $session->quit };

$node->safe_psql('postgres', q{BEGIN; INSERT INTO t VALUES (3, 3, 'prepared'); PREPARE TRANSACTION 'long ago'});
$node->safe_psql('postgres', 'CHECKPOINT');
write_wal();
sync($node);
is(fixes(), q{ROLLBACK PREPARED 'long ago'; -- or COMMIT PREPARED}, 'a prepared transaction');
$node->safe_psql('postgres', fixes());
feed_is_right($node, 'postgres', 'so far');

# capture fails, and is given up
$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_scd2.debug_fail_at = 'decoded'});
$node->reload;
$node->safe_psql('postgres', "INSERT INTO t VALUES (4, 4, 'not captured')");
wait_until($node, 'postgres', q{SELECT state LIKE 'failed%' FROM scd2.capture}, 'capture fails');
write_wal();
# The worker tries again and again: for a moment it has not failed, and the slot is in use.
my ($drop, $refused) = ('', 1);
for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
{
    $drop = $node->safe_psql('postgres', q{SELECT fix FROM scd2.diagnose() WHERE problem LIKE 'its slot holds%'});
    $refused = $node->psql('postgres', $drop) if $drop =~ /^SELECT pg_drop_replication_slot/;
    last unless $refused;
    select(undef, undef, undef, 0.1);
}
is($refused, 0, "the slot can be given up: $drop");
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_replication_slots'), '0', '... by the statement');
$node->safe_psql('postgres', 'ALTER SYSTEM RESET pg_scd2.debug_fail_at');
$node->reload;
wait_capture($node);
isnt($node->safe_psql('postgres', 'SELECT gap FROM scd2.feeds'), '', 'then capture goes on, and the feed has a declared gap');
done_testing();
