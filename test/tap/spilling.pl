# With 64 kB of memory for decoding everything spills: the core's buffer, ours, subtransactions,
# long values. The feed is the same.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Scd2;

my $node = new_node('spill', "pg_scd2.decoding_work_mem = '64kB'", "logical_decoding_work_mem = '64kB'", "work_mem = '64kB'", "temp_file_limit = '10MB'");
create_audited_table($node, 'postgres');

$node->safe_psql('postgres', "INSERT INTO t SELECT i, i, repeat(md5(i::text), 10) FROM generate_series(1, 20000) i");
$node->safe_psql('postgres', 'UPDATE t SET v = v + 1');
sync($node);
feed_is_right($node, 'postgres', 'after two large transactions');

# Savepoints, some rolled back, each with more than fits; long values kept and changed; two large
# transactions at once.
$node->safe_psql('postgres', q{
    BEGIN;
    UPDATE t SET body = repeat(md5(id::text), 400) WHERE id <= 50;
    SAVEPOINT a;
    UPDATE t SET v = -1 WHERE id <= 5000;
    ROLLBACK TO a;
    UPDATE t SET v = 7 WHERE id <= 3000;
    SAVEPOINT b;
    UPDATE t SET v = 8 WHERE id <= 2000;
    RELEASE b;
    DELETE FROM t WHERE id > 18000;
    COMMIT;});
$node->safe_psql('postgres', q{
    DO $$
    BEGIN
        FOR i IN 1 .. 300 LOOP
            BEGIN
                UPDATE t SET v = i WHERE id BETWEEN i AND i + 20;
                IF i % 3 = 0 THEN RAISE EXCEPTION 'back'; END IF;
            EXCEPTION WHEN raise_exception THEN NULL;
            END;
        END LOOP;
    END $$;});
sync($node);
feed_is_right($node, 'postgres', 'after savepoints');
is($node->safe_psql('postgres', q{SELECT count(*) FROM t_changes WHERE _change_type = 'update_postimage' AND id <= 50 AND body IS DISTINCT FROM repeat(md5(id::text), 400)
        AND _commit_version > 2}), '0', 'unchanged long values are whole in every later image');
history_is_right($node, 'postgres', 'after savepoints');
cmp_ok($node->safe_psql('postgres', 'SELECT spilled_bytes FROM scd2.capture'), '>', 0, 'scd2.capture tells how much was spilled');

my $writer = start_writer($node, 'postgres', 3);
sleep 2;
finish_writer($writer);
sync($node);
feed_is_right($node, 'postgres', 'with several writers');
history_is_right($node, 'postgres', 'with several writers');
done_testing();
