-- Every value of every type arrives in the feed as it is in the table: unchanged TOAST values, generated columns, special numbers, types without equality.
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA feed_types;
SET search_path = feed_types;
SELECT scd2.sync() AS v0 \gset

-- CT-01, CT-02: a large value that an UPDATE does not touch is whole in both images, also when the key changes
CREATE TABLE doc (id integer PRIMARY KEY, n integer, body text);
ALTER TABLE doc ALTER body SET STORAGE external;
SELECT scd2.enable_change_feed('doc');
INSERT INTO doc VALUES (1, 0, repeat('x', 9000));
UPDATE doc SET n = 1;
UPDATE doc SET id = 2;
UPDATE doc SET body = repeat('y', 9001);
DELETE FROM doc;
SELECT scd2.sync() AS v1 \gset
SELECT _commit_version - :v0 AS v, _change_ordinal AS o, _change_type, id, n, length(body), left(body, 1) AS b FROM scd2.table_changes(NULL::doc_changes);

-- a compressed one, and two of them in a row with a small one between
CREATE TABLE docs (id integer PRIMARY KEY, a text, n integer, b bytea);
SELECT scd2.enable_change_feed('docs');
INSERT INTO docs SELECT 1, string_agg(md5(i::text), ''), 1, decode(string_agg(md5((-i)::text), ''), 'hex') FROM generate_series(1, 2000) i;
UPDATE docs SET n = 2;
UPDATE docs SET b = b || '\x00'::bytea;
SELECT scd2.sync() AS v1 \gset
SELECT _change_type, n, md5(a) = (SELECT md5(a) FROM docs) AS a_whole, md5(b) = (SELECT md5(b) FROM docs) AS b_as_now, length(b) FROM scd2.table_changes(NULL::docs_changes);

-- CT-04: numbers that are none, and trailing zeros
CREATE TABLE m (id integer, n numeric, nb numeric(10, 2), f double precision, r real);
SELECT scd2.enable_change_feed('m');
INSERT INTO m VALUES (1, 'NaN', 'NaN', '-Infinity', 'NaN'), (2, 'Infinity', 1.10, 'NaN', '-0'), (3, 1.100, -0.5, 1e-310, 1e-40);
SELECT scd2.sync() AS v1 \gset
SELECT id, n, nb, f, r FROM scd2.table_changes(NULL::m_changes);

-- CT-06: an enum whose label is renamed, and one that gets a label
CREATE TYPE mood AS ENUM ('ok', 'sad');
CREATE TABLE e (id integer, m mood);
SELECT scd2.enable_change_feed('e');
INSERT INTO e VALUES (1, 'ok');
ALTER TYPE mood RENAME VALUE 'ok' TO 'fine';
INSERT INTO e VALUES (2, 'fine');
ALTER TYPE mood ADD VALUE 'new';
INSERT INTO e VALUES (3, 'new');
SELECT scd2.sync() AS v1 \gset
SELECT id, m FROM scd2.table_changes(NULL::e_changes);
-- type and table made anew under the same names: the new table has its own feed, the old one stays what it was
SELECT scd2.disable_change_feed('e');
ALTER TABLE e_changes RENAME TO e_changes_old;
DROP TABLE e;
ALTER TYPE mood RENAME TO mood_old;
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TABLE e (id integer, m mood);
SELECT scd2.enable_change_feed('e');
INSERT INTO e VALUES (1, 'glad'), (2, 'sad');
SELECT scd2.sync() AS v1 \gset
SELECT id, m FROM scd2.table_changes(NULL::e_changes);
SELECT id, m FROM e_changes_old ORDER BY _commit_version;

-- CT-10: a stored generated column is a plain column of the feed
CREATE TABLE g (id integer GENERATED ALWAYS AS IDENTITY, a integer, b integer GENERATED ALWAYS AS (a * 2) STORED, d text DEFAULT 'd');
SELECT scd2.enable_change_feed('g');
INSERT INTO g (a) VALUES (1);
UPDATE g SET a = 5;
SELECT scd2.sync() AS v1 \gset
SELECT _change_type, id, a, b, d FROM scd2.table_changes(NULL::g_changes);
SELECT attname, attgenerated, attidentity, atthasdef FROM pg_attribute WHERE attrelid = 'g_changes'::regclass AND attnum > 5;

-- CT-11, CT-12: types without equality, or whose equality hides a change
CREATE TABLE j (id integer PRIMARY KEY, doc json, p point, x xml);
SELECT scd2.enable_change_feed('j');
INSERT INTO j VALUES (1, '{"a" : 1}', '(1,2)', '<a/>');
UPDATE j SET doc = doc;
UPDATE j SET doc = '{"a":1}';
SELECT scd2.sync() AS v1 \gset
SELECT _change_type, id, doc, p, x FROM scd2.table_changes(NULL::j_changes);

-- domains are stored as what they are over, through all levels, with their modifier and collation
CREATE DOMAIN code AS varchar(3) COLLATE "C" CHECK (VALUE <> '');
CREATE DOMAIN strict_code AS code NOT NULL;
CREATE TABLE dom (id integer, c strict_code, n text COLLATE "POSIX", a code[]);
SELECT scd2.enable_change_feed('dom');
INSERT INTO dom VALUES (1, 'abc', 'x', '{a,b}');
TRUNCATE dom;
SELECT scd2.sync() AS v1 \gset
SELECT attname, format_type(atttypid, atttypmod), attcollation::regcollation, attnotnull FROM pg_attribute WHERE attrelid = 'dom_changes'::regclass AND attnum > 5 ORDER BY attnum;
SELECT _change_type, id, c, n, a FROM scd2.table_changes(NULL::dom_changes);

-- composites, arrays, ranges, dates before Christ and without end, bits, network addresses, full text, money, dropped columns in between
CREATE TYPE pair AS (a integer, b text);
CREATE TABLE more (gone integer, id integer, pr pair, prs pair[], gone2 text, r int4range, mr int8multirange, d date, ts timestamp, tz timestamptz, i interval, b bit(3), vb bit varying(5), ip inet, m macaddr, tv tsvector, mo money,
                   u uuid, js jsonb, by bytea, ch char(4), q "char", na name, o oid, rc regclass, t tid, ls pg_lsn, x xid, bo boolean, arr integer[][], tim timetz, bx box, pa path, ci circle);
ALTER TABLE more DROP gone, DROP gone2;
SELECT scd2.enable_change_feed('more');
INSERT INTO more VALUES (1, '(1,"x y")', '{"(2,)"}', '[1,5)', '{[1,2],[5,)}', '0044-03-15 BC', 'infinity', '-infinity', '1 mon -3 days 04:05:06.000007', B'101', B'10', '10.0.0.0/8', '08:00:2b:01:02:03', 'a:1A b:2', '12.34',
                         'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"k": [1, null]}', '\x00ff', 'ab', 'q', 'nm', 7, 'pg_class', '(1,2)', '0/16', '9', true, '[0:1][1:1]={{1},{2}}', '10:00+05:30', '(1,1),(0,0)', '[(0,0),(1,1)]', '<(0,0),1>');
INSERT INTO more DEFAULT VALUES;
UPDATE more SET id = 2 WHERE id = 1;
SELECT scd2.sync() AS v1 \gset
-- CT-09: the same row before and after is one distinct row of the feed (without metadata), and equal to the table's
SELECT count(*) FROM (SELECT DISTINCT (to_jsonb(c) - '{_change_type,_commit_version,_commit_timestamp,_change_ordinal,_xid,id}'::text[])::text FROM scd2.table_changes(NULL::more_changes) c) x;
SELECT (SELECT s::text FROM more s WHERE id = 2) = (SELECT ROW(id, pr, prs, r, mr, d, ts, tz, i, b, vb, ip, m, tv, mo, u, js, by, ch, q, na, o, rc, t, ls, x, bo, arr, tim, bx, pa, ci)::text
       FROM scd2.table_changes(NULL::more_changes) WHERE _change_type = 'update_postimage') AS same;
\x
SELECT id, pr, prs, r, mr, d, ts, tz, i, b, ch || '|' AS ch, arr FROM scd2.table_changes(NULL::more_changes) WHERE _change_type = 'update_postimage';
\x
-- types of extensions, where they are installed
SELECT count(*) = 2 AS has_both FROM pg_available_extensions WHERE name IN ('hstore', 'citext') \gset
\if :has_both
CREATE EXTENSION hstore SCHEMA feed_types;
CREATE EXTENSION citext SCHEMA feed_types;
\endif
CREATE TABLE ext (id integer, h hstore, c citext);
SELECT scd2.enable_change_feed('ext');
INSERT INTO ext VALUES (1, 'a=>1, b=>NULL', 'Ana');
UPDATE ext SET c = 'ANA' WHERE c = 'Ana';
SELECT scd2.sync() AS v1 \gset
SELECT _change_type, id, h, c FROM scd2.table_changes(NULL::ext_changes);

DROP SCHEMA feed_types CASCADE;
