-- ignore_null_updates: NULL in an event means that nothing was sent. A late event changes what later ones took over.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = error;
CREATE SCHEMA events_nulls;
SET search_path = events_nulls;
CREATE TABLE ev (k text, l text, r text, seq int, op text);
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''DEL''', apply_as_truncates => 'op = ''T''', column_list => '{k,l,r}', stored_as_scd_type => 2, ignore_null_updates => true);
SELECT scd2.create_auto_cdc_flow('c', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''DEL''', apply_as_truncates => 'op = ''T''', column_list => '{k,l,r}', ignore_null_updates => true);
-- tracked: l; r is kept current
SELECT scd2.create_auto_cdc_flow('u', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''DEL''', apply_as_truncates => 'op = ''T''', column_list => '{k,l,r}', stored_as_scd_type => 2,
    track_history_column_list => '{l}', ignore_null_updates => true);
-- of l alone, or of all but l, NULL is no value
SELECT scd2.create_auto_cdc_flow('hl', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''DEL''', apply_as_truncates => 'op = ''T''', column_list => '{k,l,r}', stored_as_scd_type => 2, ignore_null_updates_column_list => '{l}');
SELECT scd2.create_auto_cdc_flow('cl', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''DEL''', apply_as_truncates => 'op = ''T''', column_list => '{k,l,r}', ignore_null_updates_except_column_list => '{l}');

-- each example is a key of its own, its events in arrival order; - is NULL
CREATE TABLE examples (n serial, events text, k text GENERATED ALWAYS AS (events) STORED);
INSERT INTO examples (events) VALUES
    ('l1,r1@1 l2,-@2 -,r3@3'),
    ('-,r3@3 | l2,-@2 | l1,r1@1'),
    ('-,r3@3 | l1,r1@1 | l2,-@2'),
    ('old,-@10 -,-@20 | new,-@15'),
    ('before,-@1 DEL@2 -,-@3'),
    ('a,-@10 -,-@20 | b,-@5'),
    ('a,r@10 -,-@20 | DEL@15'),
    ('a,r@10 -,s@20 | DEL@20'),
    ('a,-@10 | -,r@10'),
    ('a,-@10 b,-@10 | -,r@10 | a,q@10'),
    ('-,r@10 DEL@10'),
    ('a,r@10 | -,-@20 | -,-@30 | -,s@25'),
    ('a,1@10 -,2@20 -,3@30 | b,-@15 | -,4@12'),
    ('a,1@10 a,2@20 -,-@30 | -,9@25 | c,-@5'),
    ('DEL@10 | -,r@5 | l,-@15 | DEL@12'),
    ('l,-@40 | -,r@10 | DEL@20 | -,s@30');
CREATE FUNCTION batch(number int) RETURNS void LANGUAGE sql AS $$
    INSERT INTO events_nulls.ev
    SELECT x.k, nullif(nullif(split_part(split_part(e, '@', 1), ',', 1), '-'), 'DEL'), nullif(nullif(split_part(split_part(e, '@', 1), ',', 2), '-'), ''), split_part(e, '@', 2)::int,
           CASE WHEN e LIKE 'DEL@%' THEN 'DEL' END
    FROM events_nulls.examples AS x, regexp_split_to_table(split_part(x.events, ' | ', number), ' ') AS e WHERE e <> '' ORDER BY x.n $$;
CREATE FUNCTION shown(target regclass, key text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    IF target::text LIKE 'c%' THEN
        EXECUTE format('SELECT string_agg(format(''%%s,%%s'', coalesce(l, ''-''), coalesce(r, ''-'')), '' '') FROM %s WHERE k = $1', target) INTO result USING key;
    ELSE
        EXECUTE format('SELECT string_agg(format(''%%s,%%s[%%s,%%s)'', coalesce(l, ''-''), coalesce(r, ''-''), __start_at, coalesce(__end_at::text, ''-'')), '' '' ORDER BY __start_at) FROM %s WHERE k = $1', target) INTO result USING key;
    END IF;
    RETURN result;
END $$;
CREATE VIEW result AS SELECT n, events, shown('h', k) AS history, shown('c', k) AS current, shown('u', k) AS r_untracked, shown('hl', k) AS only_l, shown('cl', k) AS all_but_l FROM examples;
SELECT batch(1);
SELECT scd2.sync() >= 0;
SELECT batch(2);
SELECT scd2.sync() >= 0;
SELECT batch(3);
SELECT scd2.sync() >= 0;
SELECT batch(4);
SELECT scd2.sync() >= 0;
SELECT events, history, current, r_untracked FROM result ORDER BY n;
SELECT events, only_l, all_but_l FROM result ORDER BY n;
CREATE TABLE was AS SELECT * FROM result;
-- the targets say what their sources say
SET client_min_messages = notice;        -- that it was compared, too
SELECT t, c.* FROM unnest('{h,c,u,hl,cl}'::text[]) AS t, scd2.check_target(t::regclass) AS c;
SET client_min_messages = error;
-- sent again: nothing is written
CREATE TABLE places AS SELECT 'h' AS t, k, ctid::text AS place FROM h UNION ALL SELECT 'c', k, ctid::text FROM c UNION ALL SELECT 'hm', k, ctid::text FROM h_memory UNION ALL SELECT 'cm', k, ctid::text FROM c_memory;
INSERT INTO ev SELECT * FROM ev;
SELECT scd2.sync() >= 0;
SELECT count(*) FROM places FULL JOIN (SELECT 'h' AS t, k, ctid::text AS place FROM h UNION ALL SELECT 'c', k, ctid::text FROM c UNION ALL SELECT 'hm', k, ctid::text FROM h_memory UNION ALL SELECT 'cm', k, ctid::text FROM c_memory) AS now USING (t, k, place)
    WHERE places.t IS NULL OR now.t IS NULL;
-- a rebuild, in one go
SELECT scd2.full_refresh(t::regclass) FROM unnest('{h,c,u,hl,cl}'::text[]) AS t;
SELECT scd2.sync() >= 0;
SELECT r.* FROM result AS r JOIN was AS w USING (n) WHERE ROW(r.*) IS DISTINCT FROM ROW(w.*);
-- a truncate takes away what was sent, also of what came later but sent less; what never came before it never comes back
INSERT INTO ev VALUES ('t', 'l', 'r', 10, 'U'), ('t', 'm', NULL, 30, 'U'), ('t2', NULL, 'x', 30, 'U');
SELECT scd2.sync() >= 0;
INSERT INTO ev VALUES (NULL, NULL, NULL, 20, 'T');
SELECT scd2.sync() >= 0;
SELECT shown(t::regclass, 't'), shown(t::regclass, 't2') FROM unnest('{h,c,u,hl,cl}'::text[]) AS t;
INSERT INTO ev VALUES ('t2', 'late', 'late', 15, 'U'), ('t2', 'late', NULL, 25, 'U'), ('t3', 'l', NULL, 5, 'U');
SELECT scd2.sync() >= 0;
SELECT shown(t::regclass, 't2'), shown(t::regclass, 't3') FROM unnest('{h,c,u,hl,cl}'::text[]) AS t;
-- counters add up; what comes twice is counted
SELECT flow, events = applied + duplicates + rejected AS adds_up, duplicates > 0 AS duplicates FROM scd2.flows ORDER BY flow;

-- rows with an end: the next does not look past it, unless it begins there
CREATE TABLE ends (k int, l text, r text, since int, upto int);
SELECT scd2.create_auto_cdc_flow('e', 'ends', '{k}', 'since', end_sequence_by => 'upto', column_list => '{k,l,r}', stored_as_scd_type => 2, ignore_null_updates => true);
INSERT INTO ends VALUES (1, NULL, 'r2', 20, 30), (1, 'l3', NULL, 40, NULL), (1, 'l1', 'r1', 10, 20);
SELECT scd2.sync() >= 0;
TABLE e ORDER BY __start_at;
INSERT INTO ends VALUES (1, NULL, NULL, 30, 40);
SELECT scd2.sync() >= 0;
TABLE e ORDER BY __start_at;

-- flows of one target agree; a column that an event lacks is not sent
CREATE TABLE rights (k text, r text, at int);
SELECT scd2.create_auto_cdc_flow('u', 'rights', '{k}', 'at', column_list => '{k,r}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('u', 'rights', '{k}', 'at', column_list => '{k,r}', stored_as_scd_type => 2, track_history_column_list => '{}', ignore_null_updates => true, name => 'u_rights');
INSERT INTO rights VALUES ('t', 'from rights', 40), ('t', 'early', 25);
SELECT scd2.sync() >= 0;
SELECT shown('u', 't');
INSERT INTO ev VALUES ('t', 'n', NULL, 50, 'U');
SELECT scd2.sync() >= 0;
SELECT shown('u', 't');

-- refused
SELECT scd2.create_auto_cdc_flow('x', 'ev', '{k}', 'seq', ignore_null_updates_column_list => '{nope}');
SELECT scd2.create_auto_cdc_flow('x', 'ev', '{k}', 'seq', ignore_null_updates_column_list => '{l,l}');
SELECT scd2.create_auto_cdc_flow('x', 'ev', '{k}', 'seq', ignore_null_updates_column_list => '{l,k}');
SELECT scd2.create_auto_cdc_flow('x', 'ev', '{k}', 'seq', ignore_null_updates_except_column_list => '{k}');
SELECT scd2.create_auto_cdc_flow('x', 'ev', '{k}', 'seq', column_list => '{k,r}', ignore_null_updates_column_list => '{l}');
SELECT scd2.create_auto_cdc_flow('x', 'ev', '{k}', 'seq', ignore_null_updates_column_list => '{l}', ignore_null_updates_except_column_list => '{r}');
SELECT scd2.create_auto_cdc_flow('x', 'ends', '{k}', 'since', end_sequence_by => 'upto', ignore_null_updates => true);
SELECT scd2.create_auto_cdc_flow('x', 'ends', '{k}', 'ARRAY[since]', ignore_null_updates => true);
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'seq', column_list => '{k,l,r}', stored_as_scd_type => 2, ignore_null_updates_column_list => '{r}');
CREATE TABLE captured (k text PRIMARY KEY, l text);
SELECT scd2.enable_change_feed('captured');
SELECT scd2.create_auto_cdc_flow('x', 'captured_changes', '{k}', ignore_null_updates => true);
DROP VIEW result;
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows;
DROP SCHEMA events_nulls CASCADE;
