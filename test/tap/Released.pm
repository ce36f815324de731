# Released.pm: what the tests of updates share: databases made by a version from before, with flows of
# every kind, and what must go on in them after the update. The pictures and the first half of all
# this are Dumped.pm's.
package Released;

use strict;
use warnings;
use Exporter 'import';
use Test::More;
use Scd2;
use Dumped;

our @EXPORT = qw(create_flows_of_each_kind all_goes_on states_of_flows told);

# create_flows_of_each_kind(NODE, DATABASE, VERSION): also those that create_everything() lacks: sequences of
# their own, shared targets, once, snapshots that the worker takes, a superuser's target with an
# expression, and what users put on feeds.
sub create_flows_of_each_kind
{
    my ($node, $db, $version) = @_;
    create_everything($node, $db, undef, $version);
    $node->safe_psql($db, q{
        SET ROLE "the owner";
        SET search_path = "Odd, schema";
        CREATE TABLE accounts (id int PRIMARY KEY, rev int, v text, gone boolean NOT NULL DEFAULT false);
        CREATE TABLE first_half (k int, v text, seq int);
        CREATE TABLE second_half (k int, w text, seq int);
        CREATE TABLE seeds (k int, v text, seq int);
        CREATE TABLE inventory (sku text PRIMARY KEY, n int);
        INSERT INTO accounts VALUES (1, 1, 'one'), (2, 1, 'two');
        INSERT INTO seeds VALUES (1, 'seed', 1);
        INSERT INTO inventory VALUES ('apple', 1), ('bread', 2);
        RESET ROLE;
        CREATE TABLE rates (id int PRIMARY KEY, v numeric);});
    $node->safe_psql($db, q{
        SET ROLE "the owner";
        SET search_path = "Odd, schema";
        SELECT scd2.track('accounts', sequence_by => 'rev', delete_sequence_by => 'rev + 1', apply_as_deletes => 'gone');
        SELECT scd2.track('accounts', 'accounts_as_captured', stored_as_scd_type => 1);
        SELECT scd2.track('accounts', 'accounts_paused');
        SELECT scd2.create_auto_cdc_flow('both', 'first_half', '{k}', 'seq', column_list => '{k,v}', shared => true, name => 'first half');
        SELECT scd2.create_auto_cdc_flow('both', 'second_half', '{k}', 'seq', column_list => '{k,w}', shared => true, name => 'second half');
        SELECT scd2.create_auto_cdc_flow('seeded', 'seeds', '{k}', 'seq', column_list => '{k,v}', stored_as_scd_type => 2, once => true, name => 'seed');
        SELECT scd2.create_auto_cdc_from_snapshot_flow('stock', 'inventory', '{sku}', stored_as_scd_type => 2, refresh_interval => '1 s', max_delete_fraction => 1, name => 'stock');
        RESET ROLE;
        SELECT scd2.track('rates', source_filter => 'v > 0');});
    sync($node, $db);
    $node->safe_psql($db, q{
        SET ROLE "the owner";
        SET search_path = "Odd, schema";
        SELECT scd2.pause_flow(flow) FROM scd2.flows WHERE target::text ~ 'accounts_paused';
        CREATE INDEX ON accounts_changes (lower(v));
        ALTER TABLE accounts_changes ADD CONSTRAINT users_check CHECK (v <> 'never');
        UPDATE accounts SET rev = 2, v = 'two again' WHERE id = 2;
        INSERT INTO first_half VALUES (1, 'late', 20), (1, 'early', 10);
        INSERT INTO second_half VALUES (1, 'beside it', 15);
        UPDATE inventory SET n = 5 WHERE sku = 'apple';
        RESET ROLE;
        INSERT INTO rates VALUES (1, 1), (2, -1);});
    sync($node, $db);
    # it would go on counting what it looks at
    $node->safe_psql($db, q{SELECT scd2.pause_flow('stock')});
    sync($node, $db);
    return;
}

# told(VERSION): the warnings of an update of such a database.
sub told
{
    my $source = 'Odd, schema.accounts';
    return join "\n", 'flow "rates_history" does not run until it is authorized: it acts as superuser "postgres"',
        map { qq{$_ may not stand on the change data feed of table "$source" any more: what is captured of the table waits until that is gone} }
        qq{constraint "users_check" on "Odd, schema.accounts_changes"}, qq{index "Odd, schema.accounts_changes_lower_idx"};
}

sub states_of_flows
{
    my ($node, $db) = @_;
    return $node->safe_psql($db, 'SELECT flow, state, last_error FROM scd2.flows ORDER BY 1');
}

# all_goes_on(NODE, DATABASE, WHAT): changes in each source reach each target; what the paused flow
# missed comes when it is resumed.
sub all_goes_on
{
    my ($node, $db, $what) = @_;
    # What stands on feeds has their changes wait: the statements of diagnose() help.
    $node->safe_psql($db, $_) for split /\n/, $node->safe_psql($db, q{SELECT fix FROM scd2.diagnose() WHERE problem LIKE '% stands on its change data feed'});
    $node->safe_psql($db, q{
        SET ROLE "the owner";
        SET search_path = "Odd, schema";
        UPDATE accounts SET rev = 3, v = 'two more' WHERE id = 2;
        UPDATE accounts SET rev = 2, gone = true WHERE id = 1;
        INSERT INTO first_half VALUES (1, 'between', 15), (2, 'new', 1);
        INSERT INTO second_half VALUES (1, 'after it', 30);
        DELETE FROM inventory WHERE sku = 'bread';
        SELECT scd2.resume_flow(flow) FROM scd2.flows WHERE target::text ~ 'accounts_paused|stock';
        RESET ROLE;
        UPDATE rates SET v = 2;});
    sync($node, $db);
    my %expected = (
        accounts_history => "1|one|1|2\n2|two|1|2\n2|two again|2|3\n2|two more|3|",
        accounts_as_captured => "1|one|t\n2|two more|f",
        accounts_paused => "1|one|f\n1|one|t\n2|two|f\n2|two again|f\n2|two more|f",
        both => "1||after it\n2|new|",
        seeded => '1|seed|1|',
        stock => "apple|1|t\napple|5|f\nbread|2|t",
        rates_history => "1|1|t\n1|2|f\n2|2|f");
    my %columns = (
        accounts_history => 'id, v, __start_at, __end_at', accounts_as_captured => 'id, v, gone', accounts_paused => 'id, v, gone',
        both => 'k, v, w', seeded => 'k, v, __start_at, __end_at', stock => 'sku, n, __end_at IS NOT NULL', rates_history => 'id, v, __end_at IS NOT NULL');
    is(join("\n", sort split /\n/, $node->safe_psql($db, qq{SELECT $columns{$_} FROM "Odd, schema".$_})), join("\n", sort split /\n/, $expected{$_}), "$what: $_") for sort keys %expected;
    goes_on($node, $db, $what);
    is(join("\n", grep { !/\|(?:running|done)\|/ } split /\n/, states_of_flows($node, $db)), '', '... all flows run, or are done');
    return;
}

1;
