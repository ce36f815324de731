# Columns, names, owner and storage of a table change in the midst of transactions, in ones that are
# rolled back too, while capture is up, stopped for many of them, or killed; feed and history are
# what a trigger noted of every row, each value by the number of its column.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Scd2;
use Test::More;

my $SEED = $ENV{SEED} // 4;
my $ROUNDS = $ENV{ROUNDS} // 40;
my $node = new_node('schema_changes', 'pg_scd2.decoding_work_mem = 64kB', 'pg_scd2.batch_changes = 40', 'autovacuum = off');
note("seed $SEED, rounds $ROUNDS");

$node->safe_psql('postgres', q{
    CREATE EXTENSION pg_scd2;
    CREATE ROLE first_owner;
    CREATE ROLE second_owner;
    CREATE SCHEMA other;
    GRANT ALL ON SCHEMA public, other TO first_owner, second_owner;
    GRANT pg_read_all_data TO first_owner;   -- whose the history stays, whoever gets the table
    CREATE TABLE t (id int PRIMARY KEY, a int, b text, c varchar(10));
    CREATE TABLE captured AS SELECT 't'::regclass::oid AS oid;
    CREATE TABLE audit (n bigserial PRIMARY KEY, xid xid8 DEFAULT pg_current_xact_id(), change text, image jsonb);
    -- what rows from before a column came have in it
    CREATE TABLE added (attnum int PRIMARY KEY, value text);
    CREATE FUNCTION image(r jsonb) RETURNS jsonb LANGUAGE sql AS $$
        SELECT jsonb_object_agg(attnum, r -> attname::text) FROM pg_attribute WHERE attrelid = (SELECT oid FROM captured) AND attnum > 0 AND NOT attisdropped $$;
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        IF TG_OP IN ('UPDATE', 'DELETE') THEN
            INSERT INTO audit (change, image) VALUES (CASE TG_OP WHEN 'DELETE' THEN 'delete' ELSE 'update_preimage' END, image(to_jsonb(OLD)));
        END IF;
        IF TG_OP IN ('UPDATE', 'INSERT') THEN
            INSERT INTO audit (change, image) VALUES (CASE TG_OP WHEN 'INSERT' THEN 'insert' ELSE 'update_postimage' END, image(to_jsonb(NEW)));
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION note();
    CREATE FUNCTION tab() RETURNS text LANGUAGE sql AS 'SELECT oid::regclass::text FROM captured';
    -- the x-th column that is not the key
    CREATE FUNCTION col(x int) RETURNS pg_attribute LANGUAGE sql AS $$
        SELECT a FROM pg_attribute a WHERE attrelid = (SELECT oid FROM captured) AND attnum > 1 AND NOT attisdropped ORDER BY attnum
        OFFSET x % (SELECT count(*) FROM pg_attribute WHERE attrelid = (SELECT oid FROM captured) AND attnum > 1 AND NOT attisdropped) LIMIT 1 $$;
    CREATE FUNCTION dml(x int) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        k int := x / 7 % 40;
        names text;
        vals text;
    BEGIN
        SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum), string_agg(CASE WHEN (x / 3 + attnum) % 5 = 0 AND NOT attnotnull THEN 'NULL' ELSE (x % 1000 + attnum)::text || '::text::' || format_type(atttypid, atttypmod) END, ', ' ORDER BY attnum)
        INTO names, vals FROM pg_attribute WHERE attrelid = (SELECT oid FROM captured) AND attnum > 1 AND NOT attisdropped;
        IF x % 7 < 3 THEN
            EXECUTE format('INSERT INTO %s (id, %s) VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET (%2$s) = ROW(%4$s)', tab(), names, k, vals);
        ELSIF x % 7 < 6 THEN
            EXECUTE format('UPDATE %s SET (%s) = ROW(%s) WHERE id %% 13 = %s', tab(), names, vals, k % 13);
        ELSE
            EXECUTE format('DELETE FROM %s WHERE id = %s', tab(), k);
        END IF;
    END $$;
    CREATE FUNCTION ddl(x int) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        c pg_attribute := col(x / 17);
        d pg_attribute := col(x / 17 + 1);
        live int := (SELECT count(*) FROM pg_attribute WHERE attrelid = (SELECT oid FROM captured) AND attnum > 0 AND NOT attisdropped);
        wider text := CASE c.atttypid::regtype::text WHEN 'integer' THEN 'bigint' WHEN 'bigint' THEN 'numeric' WHEN 'numeric' THEN 'text' WHEN 'character varying' THEN 'text' ELSE 'text' END;
        alter text := format('ALTER TABLE %s ', tab());
    BEGIN
        CASE x % 13
        WHEN 0 THEN
            IF live < 12 AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = (SELECT oid FROM captured) AND attname = 'n' || x % 5) THEN
                EXECUTE alter || format('ADD COLUMN n%s int', x % 5);
            END IF;
        WHEN 1 THEN
            IF live < 12 AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = (SELECT oid FROM captured) AND attname = 'n' || x % 5) THEN
                EXECUTE alter || format('ADD COLUMN n%s varchar(12) DEFAULT ''d%s''', x % 5, x);
                INSERT INTO added SELECT max(attnum), 'd' || x FROM pg_attribute WHERE attrelid = (SELECT oid FROM captured);
            END IF;
        WHEN 2, 3 THEN
            IF live > 3 THEN
                EXECUTE alter || format('DROP COLUMN %I', c.attname);
                IF x % 2 = 0 THEN
                    EXECUTE alter || format('ADD COLUMN %I int', c.attname);
                END IF;
            END IF;
        WHEN 4 THEN
            IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = (SELECT oid FROM captured) AND attname = 'r' || x % 5) THEN
                EXECUTE alter || format('RENAME COLUMN %I TO r%s', c.attname, x % 5);
            END IF;
        WHEN 5, 6 THEN
            IF c.attnum <> d.attnum THEN
                EXECUTE alter || format('RENAME COLUMN %I TO swapping', c.attname);
                EXECUTE alter || format('RENAME COLUMN %I TO %I', d.attname, c.attname);
                EXECUTE alter || format('RENAME COLUMN swapping TO %I', d.attname);
            END IF;
        WHEN 7 THEN
            EXECUTE alter || format('ALTER COLUMN %I TYPE %s', c.attname, wider);
        WHEN 8 THEN
            EXECUTE format('UPDATE %s SET %I = ''1'' WHERE %2$I IS NULL', tab(), c.attname);
            EXECUTE alter || format('ALTER COLUMN %I SET NOT NULL', c.attname);
            EXECUTE alter || format('ALTER COLUMN %I DROP NOT NULL', c.attname);
        WHEN 9 THEN
            EXECUTE format('ALTER TABLE %s RENAME TO t%s', tab(), x);
        WHEN 10 THEN
            EXECUTE alter || format('SET SCHEMA %I', (SELECT CASE relnamespace::regnamespace::text WHEN 'public' THEN 'other' ELSE 'public' END FROM pg_class WHERE oid = (SELECT oid FROM captured)));
        WHEN 11 THEN
            EXECUTE alter || format('OWNER TO %I', (ARRAY['first_owner', 'second_owner'])[1 + x % 2]);
        WHEN 12 THEN
            EXECUTE alter || 'SET (fillfactor = 70)';
        END CASE;
    END $$;});
$node->safe_psql('postgres', q{ALTER TABLE t OWNER TO first_owner; GRANT ALL ON ALL TABLES IN SCHEMA public TO public; GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO public});
$node->safe_psql('postgres', q{SELECT scd2.track('t')});
sync($node);
$node->safe_psql('postgres', q{SELECT dml(x * 7) FROM generate_series(1, 20) x});

srand($SEED);
sub number { return int(rand(100000)); }

# A transaction, as text.
sub transaction
{
    my $sql = "BEGIN;\n";
    for my $step (1 .. 2 + int(rand(5)))
    {
        my $kind = rand();
        if ($kind < 0.55) { $sql .= 'SELECT dml(' . number() . ");\n"; }
        elsif ($kind < 0.85) { $sql .= 'SELECT ddl(' . number() . ");\n"; }
        else
        {
            $sql .= "SAVEPOINT s;\nSELECT dml(" . number() . ");\nSELECT ddl(" . number() . ");\nSELECT dml(" . number() . ");\n"
              . (rand() < 0.6 ? "ROLLBACK TO s;\n" : "RELEASE s;\n");
        }
    }
    return $sql . (rand() < 0.85 ? "COMMIT;\n" : "ROLLBACK;\n");
}

sub rounds
{
    my ($n) = @_;
    for (1 .. $n)
    {
        $node->safe_psql('postgres', transaction());
        next if rand() > 0.1;
        my $table = $node->safe_psql('postgres', 'SELECT tab()');
        $node->safe_psql('postgres', rand() < 0.5 ? "VACUUM FULL $table" : "CLUSTER $table USING t_pkey");
    }
    return;
}

sub feed_equals_audit
{
    my ($when) = @_;
    my $feed = $node->safe_psql('postgres', 'SELECT feed FROM scd2.feeds');
    my $history = $node->safe_psql('postgres', 'SELECT target FROM scd2.flows');
    my $table = $node->safe_psql('postgres', 'SELECT tab()');
    is($node->safe_psql('postgres', "SELECT * FROM scd2.diagnose() WHERE problem <> 'its source lacks columns that it keeps'"), '', "nothing is wrong $when");
    my $difference = $node->safe_psql('postgres', qq{
        WITH live AS (SELECT attnum, attname::text FROM pg_attribute WHERE attrelid = (SELECT oid FROM captured) AND attnum > 0 AND NOT attisdropped),
             f AS (SELECT _xid AS xid, row_number() OVER (PARTITION BY _xid ORDER BY _change_ordinal) AS n, _change_type AS change,
                          (SELECT array_agg(to_jsonb(feed_row) ->> l.attname ORDER BY l.attnum) FROM live l) AS image FROM $feed feed_row),
             a AS (SELECT xid, row_number() OVER (PARTITION BY xid ORDER BY n) AS n, change,
                          (SELECT array_agg(CASE WHEN image ? l.attnum::text THEN image ->> l.attnum::text ELSE (SELECT value FROM added d WHERE d.attnum = l.attnum) END ORDER BY l.attnum) FROM live l) AS image FROM audit)
        (SELECT 'missing', * FROM (TABLE a EXCEPT ALL TABLE f) m ORDER BY xid, n LIMIT 5)
        UNION ALL (SELECT 'too many', * FROM (TABLE f EXCEPT ALL TABLE a) m ORDER BY xid, n LIMIT 5)});
    my $rows = $node->safe_psql('postgres', 'SELECT count(*) FROM audit');
    ok($rows > 0 && $difference eq '', "feed equals audit $when ($rows rows)") or diag($difference);
    my $names = $node->safe_psql('postgres', q{SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = (SELECT oid FROM captured) AND attnum > 0 AND NOT attisdropped});
    $difference = $node->safe_psql('postgres', qq{
        WITH s AS (SELECT $names FROM $table), h AS (SELECT $names FROM $history WHERE __end_at IS NULL)
        (SELECT 'missing', m::text FROM (TABLE s EXCEPT ALL TABLE h) m LIMIT 3) UNION ALL (SELECT 'too many', m::text FROM (TABLE h EXCEPT ALL TABLE s) m LIMIT 3)});
    is($difference, '', "open rows of the history are the table $when");
    $difference = $node->safe_psql('postgres', qq{
        WITH last_of_version AS (
                SELECT DISTINCT ON (id, _commit_version) id, _commit_timestamp AS at, _change_type = 'delete' AS gone,
                       jsonb_strip_nulls(to_jsonb(feed_row) - '{_change_type,_commit_version,_commit_timestamp,_change_ordinal,_xid}'::text[]) AS image
                FROM $feed feed_row WHERE _change_type <> 'update_preimage' ORDER BY id, _commit_version, _change_ordinal DESC),
             marked AS (
                SELECT *, lag(gone) OVER w IS DISTINCT FROM gone OR (NOT gone AND lag(image) OVER w IS DISTINCT FROM image) AS starts
                FROM last_of_version WINDOW w AS (PARTITION BY id ORDER BY at)),
             run AS (SELECT image, gone, at, lead(at) OVER (PARTITION BY id ORDER BY at) AS until FROM marked WHERE starts),
             expected AS (SELECT image, at, until FROM run WHERE NOT gone),
             history AS (SELECT jsonb_strip_nulls(to_jsonb(history_row) - '{__start_at,__end_at}'::text[]), __start_at, __end_at FROM $history history_row)
        (SELECT 'missing', m::text FROM (TABLE expected EXCEPT ALL TABLE history) m LIMIT 5)
        UNION ALL (SELECT 'too many', m::text FROM (TABLE history EXCEPT ALL TABLE expected) m LIMIT 5)});
    is($difference, '', "the history is what the feed says $when");
    my $owner = $node->safe_psql('postgres', 'SELECT relowner::regrole FROM pg_class WHERE oid = (SELECT oid FROM captured)');
    is($node->safe_psql('postgres', "SELECT relowner::regrole FROM pg_class WHERE oid = '$feed'::regclass"), $owner, "the feed belongs to the owner of the table $when");
    is($node->safe_psql('postgres', "SELECT relowner::regrole FROM pg_class WHERE oid = '$history'::regclass"), 'first_owner', "... the history to whom it did $when");
    return;
}

rounds($ROUNDS / 4);
sync($node);
feed_equals_audit('with capture up');

$node->safe_psql('postgres', 'SELECT scd2.stop()');
rounds($ROUNDS / 2);
$node->safe_psql('postgres', 'SELECT scd2.start()');
sync($node);
feed_equals_audit('after a backlog');

$node->safe_psql('postgres', 'SELECT scd2.stop()');
rounds($ROUNDS / 4);
$node->stop('immediate');
$node->start;
$node->safe_psql('postgres', 'SELECT scd2.start()');
rounds(3);
sync($node);
feed_equals_audit('after a crash with a backlog');

done_testing();
