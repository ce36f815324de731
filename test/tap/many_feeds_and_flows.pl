# 300 captured tables, 50 of them with a history: single changes all over them, and transactions
# that touch every one. Capture and flows keep up, the workers' memory stays where it was, and no
# change is lost.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);
use Scd2;

my ($TABLES, $FLOWS, $SECONDS) = (300, 50, 15);
my $node = new_node('many', 'max_locks_per_transaction = 512');
my $began = time;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_scd2');
sync($node);
$node->safe_psql('postgres', qq{
    DO \$\$ BEGIN FOR i IN 1 .. $TABLES LOOP
        EXECUTE format('CREATE TABLE s%s (id int PRIMARY KEY, v int, body text)', i);
        EXECUTE format('INSERT INTO s%s SELECT i, 0, md5(i::text) FROM generate_series(1, 20) i', i);
    END LOOP; END \$\$;
    CREATE PROCEDURE update_all() LANGUAGE plpgsql AS \$\$ BEGIN FOR i IN 1 .. $TABLES LOOP
        EXECUTE format('UPDATE s%s SET v = v + 1 WHERE id <= 3', i);
    END LOOP; END \$\$;});
$node->safe_psql('postgres', "DO \$\$ BEGIN FOR i IN 1 .. $TABLES LOOP PERFORM scd2.enable_change_feed(format('s%s', i)::regclass); END LOOP; END \$\$");
$node->safe_psql('postgres', "DO \$\$ BEGIN FOR i IN 1 .. $FLOWS LOOP PERFORM scd2.track(format('s%s', i)::regclass); END LOOP; END \$\$");
sync($node);
note sprintf '%d feeds and %d flows began in %.1f s', $TABLES, $FLOWS, time - $began;
is($node->safe_psql('postgres', "SELECT count(*) FROM scd2.feeds WHERE state = 'running'"), $TABLES, 'all feeds run');
is($node->safe_psql('postgres', "SELECT count(*) FROM scd2.flows WHERE state = 'running'"), $FLOWS, 'all flows run');

my $writer = start_writer($node, 'postgres', 2, "\\set t random(1, $TABLES)\n\\set id random(1, 20)\nUPDATE s:t SET v = v + 1 WHERE id = :id;\n");
my ($before, $longest) = (undef, 0);
$began = time;
while (time - $began < $SECONDS)
{
    $node->safe_psql('postgres', 'CALL update_all()');
    my $lag = $node->safe_psql('postgres', 'SELECT extract(epoch FROM lag) FROM scd2.capture');
    $longest = $lag if $lag > $longest;
    $before //= worker_memory($node) if time - $began > $SECONDS / 3;
    sleep 1;
}
finish_writer($writer);
my $ended = time;
sync($node);
cmp_ok($longest, '<', 5, sprintf 'capture was never more than %.2f s behind', $longest);
cmp_ok(time - $ended, '<', 20, sprintf 'all flows were there %.1f s after the last change', time - $ended);
memory_is_bounded($before, worker_memory($node), 16, 150, 'memory of the workers');

# Every feed has both images of each update, and its newest images are the table; so is the history.
is($node->safe_psql('postgres', qq{
        CREATE FUNCTION wrong() RETURNS text LANGUAGE plpgsql AS \$\$
        DECLARE
            wrong text := '';
            bad boolean;
        BEGIN
            FOR i IN 1 .. $TABLES LOOP
                EXECUTE format('SELECT count(*) <> 2 * (SELECT sum(v) FROM s%1\$s) OR EXISTS (
                    (SELECT DISTINCT ON (id) id, v, body FROM s%1\$s_changes WHERE _change_type = ''update_postimage'' ORDER BY id, _commit_version DESC)
                    EXCEPT ALL SELECT id, v, body FROM s%1\$s) FROM s%1\$s_changes', i) INTO bad;
                wrong := wrong || CASE WHEN bad THEN format(' feed of s%s', i) ELSE '' END;
            END LOOP;
            FOR i IN 1 .. $FLOWS LOOP
                EXECUTE format('SELECT count(*) <> (SELECT sum(v) + 20 FROM s%1\$s) OR EXISTS (
                    TABLE s%1\$s EXCEPT ALL SELECT id, v, body FROM s%1\$s_history WHERE __end_at IS NULL) FROM s%1\$s_history', i) INTO bad;
                wrong := wrong || CASE WHEN bad THEN format(' history of s%s', i) ELSE '' END;
            END LOOP;
            RETURN wrong;
        END \$\$;
        SELECT wrong()}), '', 'feeds and histories have every change');
cmp_ok($node->safe_psql('postgres', 'SELECT scd2.latest_version()'), '>', 500, 'there were changes');
done_testing();
