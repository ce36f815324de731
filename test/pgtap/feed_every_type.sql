-- Every type of the server that a column can have: a value goes through the feed and comes out with
-- the same image, before and after (CT-09).
\set QUIET on
SET client_min_messages = warning;
SET search_path = public;
-- a value of each type: what its input function makes of one of these, the first that it takes
CREATE TABLE candidate (n integer GENERATED ALWAYS AS IDENTITY, text text);
INSERT INTO candidate (text) VALUES ('1'), ('1.5'), ('t'), ('a'), ('2026-11-30 10:11:12.131415+02'), ('(1,2)'), ('((1,2),(3,4))'), ('<(1,2),3>'), ('{1,2,3}'), ('{1,-1,0}'), ('[1,2]'), ('[2026-01-01,2026-02-01)'), ('{[1,2)}'),
    ('{[2026-01-01,2026-02-01)}'), ('10.0.0.1'), ('10.0.0.0/8'), ('08:00:2b:01:02:03'), ('08:00:2b:01:02:03:04:05'), ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'), ('{"a": [1, null]}'), ('<a>b</a>'), ('$.a[*]'), ('0/16B3748'),
    ('1 mon 2 days 03:04:05'), ('10:11:12+02'), ('a b:1'), ('a & b'), ('1:2:1'), ('pg_class'), ('now'), ('pg_catalog.now()'), ('+'), ('pg_catalog.+(integer,integer)'), ('integer'), ('english'), ('simple'), ('postgres'), ('{a}'), ('{{1,2},{3,4}}'),
    ('[(0,0),(1,1)]'), ('"C"'), ('101'), ('100:104:102'), ('{}'), ('postgres=r/postgres');
CREATE FUNCTION value_of(type regtype) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    c text;
    taken text;
BEGIN
    FOR c IN SELECT text FROM candidate ORDER BY n LOOP
        BEGIN
            EXECUTE format('SELECT %L::%s::text', c, type) INTO taken;
            IF taken IS NOT NULL THEN
                RETURN c;
            END IF;
        EXCEPTION WHEN OTHERS THEN
        END;
    END LOOP;
    RETURN NULL;
END $$;
CREATE FUNCTION can_be_column(type regtype) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE try_type (c %s)', type);
    DROP TABLE try_type;
    RETURN true;
EXCEPTION WHEN OTHERS THEN
    RETURN false;
END $$;
CREATE TABLE types AS
    SELECT t.oid::regtype AS type, format('c%s', row_number() OVER (ORDER BY t.oid)) AS name, NULL::text AS value
    FROM pg_type t WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.typtype IN ('b', 'r', 'm') AND can_be_column(t.oid)
      AND (t.typtype <> 'b' OR t.typelem = 0 OR t.typarray <> 0 OR t.typelem IN ('integer'::regtype, 'text'::regtype, 'numeric'::regtype, 'point'::regtype, 'json'::regtype, 'timestamptz'::regtype));
UPDATE types SET value = value_of(type);

SELECT plan(5);
SELECT ok(count(*) > 50, 'types that a column can have: ' || count(*)) FROM types;
SELECT is((SELECT string_agg(type::text, ', ' ORDER BY type::text) FROM types WHERE value IS NULL AND type::text NOT IN ('pg_node_tree', 'pg_ndistinct', 'pg_dependencies', 'pg_mcv_list', 'pg_brin_bloom_summary', 'pg_brin_minmax_multi_summary', 'gtsvector')), NULL, 'each has a value');
DELETE FROM types WHERE value IS NULL;
SELECT format('CREATE TABLE every (id integer, %s)', string_agg(format('%I %s', name, type), ', ' ORDER BY name)) FROM types \gexec
SELECT scd2.enable_change_feed('every') \g /dev/null
SELECT format('INSERT INTO every VALUES (1, %s)', string_agg(format('%L', value), ', ' ORDER BY name)) FROM types \gexec
UPDATE every SET id = 2;
INSERT INTO every (id) VALUES (3);
SELECT scd2.sync() \g /dev/null
CREATE FUNCTION images() RETURNS TABLE (change text, image text) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY EXECUTE format('SELECT _change_type, ROW(%s)::text FROM scd2.table_changes(NULL::every_changes) WHERE id < 3', (SELECT string_agg(quote_ident(name), ', ' ORDER BY name) FROM types));
END $$;
CREATE FUNCTION now_image() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    image text;
BEGIN
    EXECUTE format('SELECT ROW(%s)::text FROM every WHERE id = 2', (SELECT string_agg(quote_ident(name), ', ' ORDER BY name) FROM types)) INTO image;
    RETURN image;
END $$;
SELECT set_eq('SELECT change FROM images()', ARRAY['insert', 'update_preimage', 'update_postimage'], 'all three images are there');
SELECT is((SELECT count(DISTINCT image) FROM images()), 1::bigint, 'the images are equal');
SELECT is((SELECT min(image) FROM images()), now_image(), 'and equal to the row');
SELECT * FROM finish();
