-- DROP EXTENSION needs no CASCADE and takes no data along: feeds stay as ordinary tables of their
-- owners, who may write them then.
\set QUIET on
SET client_min_messages = warning;
SET search_path = public;
SELECT plan(7);
CREATE TABLE t (id integer PRIMARY KEY);
SELECT scd2.enable_change_feed('t') \g /dev/null
INSERT INTO t VALUES (1);
SELECT scd2.sync() \g /dev/null
SELECT lives_ok('DROP EXTENSION pg_scd2', 'the extension goes without CASCADE');
SELECT results_eq('SELECT _change_type, id FROM t_changes', $$VALUES ('insert', 1)$$, 'the feed stays');
SELECT hasnt_trigger('t_changes', 'scd2_guard', 'its guard does not');
SELECT lives_ok('DELETE FROM t_changes', 'nor does anything else keep its owner out');
SELECT lives_ok('UPDATE t SET id = 2', 'the source is written as before');
-- anew: the relation is nobody's feed any more
CREATE EXTENSION pg_scd2;
SELECT scd2.sync() \g /dev/null
SELECT throws_ok($$SELECT scd2.enable_change_feed('t')$$, '42P07', NULL, 'a relation that is in the way is not taken');
SELECT lives_ok($$SELECT scd2.enable_change_feed('t', feed => 't_changes_2')$$, 'another name goes');
SELECT * FROM finish();
