-- Names that need quotes, have 63 bytes, or clash.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = warning;
CREATE SCHEMA "feed Names";
SET search_path = "feed Names";
CREATE TABLE "O'Neil ""Q"" \" ("Id" integer PRIMARY KEY, "select" text, "a%b" text, "$1" text, "o'c" text);
SELECT scd2.enable_change_feed('"O''Neil ""Q"" \"');
INSERT INTO "O'Neil ""Q"" \" VALUES (1, 's', '%s', '$1', '''');
UPDATE "O'Neil ""Q"" \" SET "Id" = 2;
SELECT scd2.sync() AS v \gset
SELECT _change_type, "Id", "select", "a%b", "$1", "o'c" FROM scd2.table_changes(NULL::"O'Neil ""Q"" \_changes");
SELECT _change_type, _row FROM scd2.table_changes('"O''Neil ""Q"" \"');
SELECT operation, inserts, updates FROM scd2.describe_history('"O''Neil ""Q"" \"');
SELECT * FROM scd2.table_at(NULL::"O'Neil ""Q"" \", (SELECT min(_commit_version) FROM "O'Neil ""Q"" \_changes"));
SELECT scd2.disable_change_feed('"O''Neil ""Q"" \"', drop_feed => true);

-- 63 bytes: the source's name is clipped in the feed's, at a character
CREATE TABLE abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk (id integer);
SELECT scd2.enable_change_feed('abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk');
CREATE TABLE "ñandúñandúñandúñandúñandúñandúñandúñandúñandú" (id integer);
SELECT scd2.enable_change_feed('"ñandúñandúñandúñandúñandúñandúñandúñandúñandú"') AS feed \gset
SELECT relname, octet_length(relname) FROM pg_class WHERE oid = :'feed'::regclass;
INSERT INTO "ñandúñandúñandúñandúñandúñandúñandúñandúñandú" VALUES (1);
SELECT scd2.sync() AS v \gset
SELECT _change_type, _row FROM scd2.table_changes('"ñandúñandúñandúñandúñandúñandúñandúñandúñandú"');
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent WHERE p.relnamespace = '"feed Names"'::regnamespace AND p.relkind = 'p' ORDER BY 1;

-- two that would get the same name: an error, and the way out that it shows
CREATE TABLE abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdef_two (id integer);
SELECT scd2.enable_change_feed('abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdef_two');
SELECT scd2.enable_change_feed('"feed Names".abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdef_two', feed => 'abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabc_chang_2');

-- a name of one's own, parsed as relation names are
CREATE TABLE own (id integer);
SELECT scd2.enable_change_feed('own', feed => '"Feed of Own"');
SELECT scd2.disable_change_feed('own', true);
SELECT scd2.enable_change_feed('own', feed => '"feed Names".OWN_FEED');
SELECT scd2.disable_change_feed('own', true);
SELECT scd2.enable_change_feed('own', feed => 'public.own_feed');
SELECT scd2.enable_change_feed('own', feed => 'a.b.c');
SELECT scd2.enable_change_feed('own', feed => 'abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdef_64bytes');
SELECT scd2.enable_change_feed('own', feed => 'not a name');
SELECT scd2.enable_change_feed('own', feed => '');
SELECT scd2.enable_change_feed('own', feed => 'own');
CREATE VIEW own_changes AS SELECT 1 AS one;
SELECT scd2.enable_change_feed('own');
DROP VIEW own_changes;
CREATE TYPE own_changes AS ENUM ();
SELECT scd2.enable_change_feed('own');

DROP SCHEMA "feed Names" CASCADE;
