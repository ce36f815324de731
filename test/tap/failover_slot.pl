# PostgreSQL 17 and later: the slot is a failover slot, a standby has it, and after a promotion
# capture goes on by itself: every change that came over, once, no gap. What is confirmed on the
# primary never outruns what the standby has of the feeds.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $standby = PostgreSQL::Test::Cluster->new('standby');
plan skip_all => 'failover slots came with PostgreSQL 17' if $standby->pg_version < 17;

my $primary = new_node('primary', 'wal_sender_timeout = 0', 'pg_scd2.naptime = 100ms');
$primary->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('to_standby', true)});
$primary->backup('base');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
my $conninfo = sprintf('host=%s port=%d dbname=postgres', $primary->host, $primary->port);
$standby->append_conf('postgresql.conf', join("\n", q{primary_slot_name = 'to_standby'}, 'hot_standby_feedback = on', 'wal_receiver_status_interval = 1', 'sync_replication_slots = on', "primary_conninfo = '$conninfo'", ''));
$standby->start;
$primary->poll_query_until('postgres', q{SELECT xmin IS NOT NULL FROM pg_replication_slots WHERE slot_name = 'to_standby'}) or die 'no feedback';
set_setting($primary, 'synchronized_standby_slots', 'to_standby');

create_audited_table($primary, 'postgres');
my $slot = $primary->safe_psql('postgres', 'SELECT slot FROM scd2.capture');
is($primary->safe_psql('postgres', "SELECT failover FROM pg_replication_slots WHERE slot_name = '$slot'"), 't', 'the slot is a failover slot');
$primary->safe_psql('postgres', "INSERT INTO t SELECT i, i, 'x' FROM generate_series(1, 20) i");
sync($primary);
# The server synchronizes a slot when it has moved past where the standby began to keep catalog rows; and
# begins anew, after 10 s, if replay was in its way.
my $synced = "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = '$slot' AND synced AND NOT temporary AND invalidation_reason IS NULL)";
for my $try (1 .. 90)
{
    last if $standby->safe_psql('postgres', $synced) eq 't';
    $primary->safe_psql('postgres', 'UPDATE t SET v = v + 1 WHERE id = 1; SELECT pg_log_standby_snapshot()');
    sleep 1;
}
is($standby->safe_psql('postgres', $synced), 't', 'the standby has it');

# a standby that is away: the slot waits for it, capture does not
my $writer = start_writer($primary, 'postgres', 4);
sleep 2;
$standby->stop;
my $confirmed = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '$slot'";
sleep 1;
my $before = $primary->safe_psql('postgres', $confirmed);
my $replayed = $primary->safe_psql('postgres', q{SELECT restart_lsn FROM pg_replication_slots WHERE slot_name = 'to_standby'});
$primary->safe_psql('postgres', q{SELECT pg_logical_emit_message(false, 'test', repeat('x', 1000000)) FROM generate_series(1, 40)});
sleep 12;
is($primary->safe_psql('postgres', "SELECT ($confirmed) <= '$replayed'::pg_lsn OR ($confirmed) = '$before'::pg_lsn"), 't', 'while the standby is away the slot is not moved beyond what it has');
is($primary->safe_psql('postgres', q{SELECT state, lag < '5 s' FROM scd2.capture}), 'running|t', '... and capture goes on');
$standby->start;
wait_until($primary, 'postgres', "SELECT ($confirmed) > '$before'::pg_lsn", 'the standby is back: the slot moves on');
sleep 3;
is($standby->safe_psql('postgres', $synced), 't', 'the standby has the slot still');

# the primary dies in the midst of it
$primary->stop('immediate');
finish_writer($writer);
$standby->promote;
wait_capture($standby);
is($standby->safe_psql('postgres', 'SELECT slot FROM scd2.capture'), $slot, 'the promoted standby captures with the same slot');
is($standby->safe_psql('postgres', 'SELECT state, gap FROM scd2.feeds'), 'running|', 'no gap');
sync($standby);
feed_is_right($standby, 'postgres', 'after the promotion');
history_is_right($standby, 'postgres', 'after the promotion');
like(slurp_file($standby->logfile), qr/capture goes on at [0-9A-F\/]+ on timeline 2: slot "$slot" came along from timeline 1/, 'the log tells of the timeline');
is($standby->safe_psql('postgres', 'SELECT timeline FROM scd2_internal.position'), '2', 'the position is on it');

set_setting($standby, 'synchronized_standby_slots', '');
$writer = start_writer($standby, 'postgres', 4);
sleep 2;
finish_writer($writer);
sync($standby);
feed_is_right($standby, 'postgres', 'on the new primary');
history_is_right($standby, 'postgres', 'on the new primary');
done_testing();
