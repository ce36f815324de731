# Names of flows and readers are theirs in the whole database. Who is about to give one keeps nobody from
# his tables: the name is taken before a table is locked, and waited for within pg_scd2.lock_timeout.
use strict;
use warnings;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use Scd2;

my $node = new_node('names');
$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    CREATE ROLE ann; CREATE ROLE max; CREATE SCHEMA a AUTHORIZATION ann; CREATE SCHEMA m AUTHORIZATION max;
    SET ROLE ann; GRANT USAGE ON SCHEMA a TO max; CREATE TABLE a.orders (id int PRIMARY KEY, v int); CREATE TABLE a.events (id int, s int);
    SET ROLE max; CREATE TABLE m.orders (id int PRIMARY KEY, v int); CREATE TABLE m.events (id int, s int)});

sub as
{
    my ($role, $sql) = @_;
    my $started = time;
    my ($ret, $out, $err) = $node->psql('postgres', "SET ROLE $role; SET pg_scd2.lock_timeout = '1s'; SET client_min_messages = error; $sql");
    return ($ret, $out, $err, time - $started);
}

my $open = $node->background_psql('postgres');
$open->query_safe('SET ROLE max; BEGIN');
$open->query_safe(q{SELECT scd2.track('m.orders')});
$open->query_safe(q{SELECT scd2.create_reader('the_reader', 'm.orders')});
my ($ret, $out, $err, $took) = as('ann', q{SELECT scd2.track('a.orders')});
is($out, 'a.orders_history', 'a name that another transaction is giving gets a number') or diag($err);
cmp_ok($took, '<', 0.9, '... without a wait');
is($node->safe_psql('postgres', q{SELECT flow FROM scd2.flows}), 'orders_history_2', '... which it keeps');
for (
    q{SELECT scd2.track('a.orders', 'a.second', name => 'orders_history')},
    q{SELECT scd2.create_auto_cdc_flow('a.third', 'a.events', '{id}', 's', name => 'orders_history')},
    q{SELECT scd2.create_append_flow('a.fourth', 'a.events', name => 'orders_history')},
    q{SELECT scd2.create_auto_cdc_from_snapshot_flow('a.fifth', 'a.events', '{id}', name => 'orders_history')},
    q{SELECT scd2.create_reader('the_reader', 'a.orders')})
{
    ($ret, $out, $err, $took) = as('ann', $_);
    like($err, qr/could not take the name "\w+" for a (flow|reader) within 1s/, 'a name that was asked for is waited for within the bound') or diag($out);
    cmp_ok($took, '>', 0.9, '... that long') if /track/;
}
my $waiting = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') . ' application_name=asking', '-c', q{SET ROLE ann; SET pg_scd2.lock_timeout = '30s'; SELECT scd2.create_append_flow('a.fourth', 'a.events', name => 'orders_history')} ],
    '>', \my $created, '2>', \my $refused);
wait_until($node, 'postgres', q{SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'asking' AND state = 'active')}, 'somebody waits for a name');
($ret, $out, $err) = $node->psql('postgres', q{SET lock_timeout = '1s'; BEGIN; LOCK a.events IN ACCESS EXCLUSIVE MODE; COMMIT});
is($ret, 0, '... and has nothing locked') or diag($err);
$open->query_safe('ROLLBACK');
$waiting->finish;
is($created, "orders_history\n", '... and gets it when who had it gives it back') or diag($refused);
($ret, $out, $err) = as('max', q{SELECT scd2.track('m.orders', name => 'orders_history')});
like($err, qr/flow "orders_history" exists already/, 'a name that is given is refused at once');

# the server's own names
$open->query_safe(q{BEGIN; CREATE TABLE m.orders_changes (id int)});
($ret, $out, $err, $took) = as('max', q{SELECT scd2.track('m.orders')});
like($err, qr/lock timeout/, 'a relation of the same name that another transaction makes is waited for within the bound');
cmp_ok($took, '<', 5, '... no longer');
$open->query_safe('ROLLBACK');
($ret, $out, $err) = as('max', q{SELECT scd2.track('m.orders')});
is($out, 'm.orders_history', '... and then it can be made') or diag($err);
is($node->safe_psql('postgres', q{SELECT string_agg(flow, ' ' ORDER BY flow) FROM scd2.flows}), 'orders_history orders_history_2 orders_history_3', 'all names are different');
$open->quit;
done_testing();
