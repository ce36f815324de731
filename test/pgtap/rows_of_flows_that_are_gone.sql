-- The rows of a target are removed by flows that put them there, by full_refresh, and by statements that say so. A flow that
-- takes the place of another, in one transaction, finds that one's rows and leaves them: every kind of flow after every other,
-- both types, whether the flow before had begun to copy or not.
\set QUIET on
SET client_min_messages = error;
CREATE TABLE kinds (kind text, call text);
INSERT INTO kinds VALUES
    ('events', 'scd2.create_auto_cdc_flow(%1$L, %2$L, ''{k}'', ''s'', column_list => ''{k,v}'', stored_as_scd_type => %3$s, shared => true, name => %4$L)'),
    ('once', 'scd2.create_auto_cdc_flow(%1$L, %2$L, ''{k}'', ''s'', column_list => ''{k,v}'', stored_as_scd_type => %3$s, shared => true, once => true, name => %4$L)'),
    ('snapshots', 'scd2.create_auto_cdc_from_snapshot_flow(%1$L, %2$L, ''{k}'', ''integer'', column_list => ''{k,v}'', stored_as_scd_type => %3$s, shared => true, delete_absent => false, version_query => ''SELECT 10'', refresh_interval => ''100 ms'', name => %4$L)'),
    ('captured', 'scd2.create_auto_cdc_flow(%1$L, %2$L, ''{k}'', ''s'', column_list => ''{k,v}'', stored_as_scd_type => %3$s, shared => true, name => %4$L)'),
    ('appended', 'scd2.create_append_flow(%1$L, %2$L, name => %4$L)');
CREATE TABLE cases AS
    SELECT row_number() OVER (ORDER BY a.kind, b.kind, t) AS n, a.kind AS before, b.kind AS after, t, format(a.call, 'h%s', 'a_%s', t, 'before_%s') AS first, format(b.call, 'h%s', 'b_%s', t, 'after_%s') AS second,
           NULL::text AS refused
    FROM kinds a, kinds b, (VALUES (1), (2)) v (t) WHERE (a.kind = 'appended') = (b.kind = 'appended') AND NOT (a.kind = 'appended' AND t = 2);
UPDATE cases SET first = replace(first, '%s', n::text), second = replace(second, '%s', n::text);
-- the sources of each: the later one has one row, of a key of its own
DO $$
DECLARE
    c record;
BEGIN
    FOR c IN SELECT * FROM cases LOOP
        EXECUTE format('CREATE TABLE a_%1$s (k int%2$s, v text, s int); CREATE TABLE b_%1$s (k int%3$s, v text, s int)', c.n,
            CASE c.before WHEN 'captured' THEN ' PRIMARY KEY' ELSE '' END, CASE c.after WHEN 'captured' THEN ' PRIMARY KEY' ELSE '' END);
        IF c.before = 'captured' THEN PERFORM scd2.enable_change_feed(format('a_%s', c.n)::regclass); END IF;
        IF c.after = 'captured' THEN PERFORM scd2.enable_change_feed(format('b_%s', c.n)::regclass); END IF;
        EXECUTE format('INSERT INTO a_%1$s VALUES (1, ''one'', 1), (2, ''two'', 2); INSERT INTO b_%1$s VALUES (3, ''three'', 3)', c.n);
    END LOOP;
END $$;
DO $$
DECLARE
    c record;
BEGIN
    FOR c IN SELECT * FROM cases LOOP
        EXECUTE 'SELECT ' || c.first;
    END LOOP;
END $$;
SELECT scd2.sync('50 s') \g /dev/null
CREATE FUNCTION keys(n bigint) RETURNS text LANGUAGE plpgsql AS $$ DECLARE x text; BEGIN EXECUTE format('SELECT string_agg(DISTINCT k::text, '','' ORDER BY k::text) FROM h%s', n) INTO x; RETURN x; END $$;
SELECT plan(5);
SELECT is((SELECT count(*) FROM cases WHERE keys(n) IS DISTINCT FROM '1,2'), 0::bigint, 'each target has the rows of its first flow');

-- Replaced: the one comes, the other goes.
DO $$
DECLARE
    c record;
BEGIN
    FOR c IN SELECT * FROM cases LOOP
        BEGIN
            EXECUTE 'SELECT ' || c.second;
            EXECUTE format('SELECT scd2.drop_flow(%L)', 'before_' || c.n);
        EXCEPTION WHEN OTHERS THEN
            UPDATE cases SET refused = sqlstate || ': ' || sqlerrm WHERE n = c.n;
        END;
    END LOOP;
END $$;
SELECT scd2.sync('50 s') \g /dev/null
SELECT is((SELECT string_agg(format('%s after %s, type %s: %s', after, before, t, refused), E'\n') FROM cases WHERE refused IS NOT NULL), NULL, 'each can be replaced by each');
SELECT is((SELECT string_agg(format('%s after %s, type %s: %s', after, before, t, keys(n)), E'\n') FROM cases WHERE keys(n) IS DISTINCT FROM '1,2,3'), NULL,
          'what the flow before put there stays, and what the next one has comes');
SELECT is((SELECT string_agg(DISTINCT state || coalesce(': ' || last_error, ''), E'\n') FROM scd2.flows WHERE state NOT IN ('running', 'done')), NULL, 'no flow has failed');

-- One that comes, and has copied, and goes before the first has begun.
CREATE TABLE late (k int, v text, s int);
CREATE TABLE early (k int, v text, s int);
INSERT INTO late VALUES (1, 'late', 1);
INSERT INTO early VALUES (2, 'early', 1);
BEGIN;
SELECT scd2.create_auto_cdc_flow('both', 'late', '{k}', 's', stored_as_scd_type => 2, name => 'late') \g /dev/null
SELECT scd2.pause_flow('late') \g /dev/null
COMMIT;
SELECT scd2.create_auto_cdc_flow('both', 'early', '{k}', 's', stored_as_scd_type => 2, name => 'early') \g /dev/null
SELECT scd2.sync('50 s') \g /dev/null
SELECT scd2.drop_flow('early') \g /dev/null
SELECT scd2.resume_flow('late') \g /dev/null
SELECT scd2.sync('50 s') \g /dev/null
SELECT results_eq('SELECT v FROM "both" ORDER BY k', $$VALUES ('late'), ('early')$$, 'a flow that begins late leaves what another, which is gone, had there before');
SELECT * FROM finish();
