-- Generated columns: stored ones are plain columns of the feed (CT-10); virtual ones (PostgreSQL
-- 18) are not stored anywhere, so a feed does not have them, and table_at computes them.
\set QUIET on
SET client_min_messages = warning;
SET search_path = public;
SELECT current_setting('server_version_num')::integer >= 180000 AS has_virtual \gset
SELECT plan(8);

CREATE TABLE stored (id integer PRIMARY KEY, a integer, b integer GENERATED ALWAYS AS (a * 2) STORED);
SELECT scd2.enable_change_feed('stored') \g /dev/null
INSERT INTO stored VALUES (1, 1);
SELECT scd2.sync() AS v \gset
UPDATE stored SET a = 2;
SELECT scd2.sync() \g /dev/null
SELECT results_eq('SELECT _change_type, a, b FROM scd2.table_changes(NULL::stored_changes)', $$VALUES ('insert', 1, 2), ('update_preimage', 1, 2), ('update_postimage', 2, 4)$$, 'a stored column is in every image');
SELECT results_eq(format('SELECT id, a, b FROM scd2.table_at(NULL::stored, %s::bigint)', :v), 'VALUES (1, 1, 2)', 'and in table_at');

\if :has_virtual
CREATE TABLE virtual (id integer PRIMARY KEY, a integer, b integer GENERATED ALWAYS AS (a * 2) VIRTUAL, c text);
SELECT scd2.enable_change_feed('virtual') \g /dev/null
SELECT hasnt_column('virtual_changes', 'b', 'a virtual column is not in the feed');
INSERT INTO virtual VALUES (1, 1, DEFAULT, 'x');
SELECT scd2.sync() AS v \gset
UPDATE virtual SET a = 2;
SELECT scd2.sync() \g /dev/null
SELECT results_eq('SELECT _change_type, a, c FROM scd2.table_changes(NULL::virtual_changes)', $$VALUES ('insert', 1, 'x'), ('update_preimage', 1, 'x'), ('update_postimage', 2, 'x')$$, 'the others are');
SELECT results_eq(format('SELECT id, a, b, c FROM scd2.table_at(NULL::virtual, %s::bigint)', :v), $$VALUES (1, 1, 2, 'x')$$, 'table_at computes it');
-- with REPLICA IDENTITY FULL the server refuses updates if a publication leaves out generated
-- columns: enabling is refused before that
CREATE TABLE pub_virtual (id integer PRIMARY KEY, a integer, b integer GENERATED ALWAYS AS (a * 2) VIRTUAL);
CREATE TABLE pub_stored (id integer PRIMARY KEY, a integer, b integer GENERATED ALWAYS AS (a * 2) STORED);
CREATE PUBLICATION p FOR TABLE pub_virtual, pub_stored;
SELECT throws_ok($$SELECT scd2.enable_change_feed('pub_virtual')$$, '55000', NULL, 'refused: a virtual column of a published table');
SELECT throws_ok($$SELECT scd2.enable_change_feed('pub_stored')$$, '55000', NULL, 'refused: a stored column that the publication leaves out');
ALTER PUBLICATION p SET (publish_generated_columns = stored);
SELECT lives_ok($$SELECT scd2.enable_change_feed('pub_stored')$$, 'allowed once it is published');
\else
SELECT skip('virtual generated columns came with PostgreSQL 18', 6);
\endif
SELECT * FROM finish();
