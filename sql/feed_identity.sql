-- Replica identity: set when a feed is enabled, given back when it is disabled. Application writes never fail because of it.
\set SHOW_CONTEXT never
\set VERBOSITY terse
SET client_min_messages = warning;
CREATE SCHEMA feed_identity;
SET search_path = feed_identity;

-- CI-01, CI-04: a table without a key has a feed, and one delete of two equal rows is one row
CREATE TABLE nopk (x integer);
SELECT scd2.enable_change_feed('nopk');
INSERT INTO nopk VALUES (1), (1);
UPDATE nopk SET x = 2 WHERE ctid = (SELECT min(ctid) FROM nopk);
DELETE FROM nopk WHERE ctid = (SELECT min(ctid) FROM nopk);
SELECT scd2.sync() AS v \gset
SELECT _change_type, x FROM scd2.table_changes(NULL::nopk_changes);

-- CI-02: a deferrable primary key is none to the server's replica identity; a shift of all keys in one statement
CREATE TABLE sw (id integer PRIMARY KEY DEFERRABLE, v text);
SELECT scd2.enable_change_feed('sw');
INSERT INTO sw VALUES (1, 'a'), (2, 'b');
UPDATE sw SET id = id + 1;
DELETE FROM sw WHERE id = 2;
SELECT scd2.sync() AS v \gset
SELECT _change_type, id, v FROM scd2.table_changes(NULL::sw_changes);

-- CI-05: a changed key is the old image and the new one
CREATE TABLE t (id integer PRIMARY KEY, v text);
SELECT scd2.enable_change_feed('t');
BEGIN;
INSERT INTO t VALUES (1, 'a');
UPDATE t SET id = 1001 WHERE id = 1;
COMMIT;
SELECT scd2.sync() AS v \gset
SELECT _change_ordinal AS o, _change_type, id, v FROM scd2.table_changes(NULL::t_changes);

-- each identity is given back as it was found
CREATE TABLE d (id integer PRIMARY KEY);
CREATE TABLE n (id integer PRIMARY KEY);
ALTER TABLE n REPLICA IDENTITY NOTHING;
CREATE TABLE f (id integer);
ALTER TABLE f REPLICA IDENTITY FULL;
CREATE TABLE i (id integer NOT NULL, u text NOT NULL);
CREATE UNIQUE INDEX "i U" ON i (u);
ALTER TABLE i REPLICA IDENTITY USING INDEX "i U";
CREATE TABLE gone (id integer NOT NULL);
CREATE UNIQUE INDEX gone_id ON gone (id);
ALTER TABLE gone REPLICA IDENTITY USING INDEX gone_id;
CREATE TABLE mine (id integer PRIMARY KEY);
SELECT count(scd2.enable_change_feed(c.oid)) FROM pg_class c WHERE c.oid IN ('d'::regclass, 'n'::regclass, 'f'::regclass, 'i'::regclass, 'gone'::regclass, 'mine'::regclass);
SELECT relname, relreplident FROM pg_class WHERE relname IN ('d', 'n', 'f', 'i', 'gone', 'mine') AND relnamespace = 'feed_identity'::regnamespace ORDER BY 1;
DROP INDEX gone_id;
ALTER TABLE mine REPLICA IDENTITY NOTHING;
SELECT count(*) FROM pg_class c, LATERAL scd2.disable_change_feed(c.oid) WHERE c.oid IN ('d'::regclass, 'n'::regclass, 'f'::regclass, 'i'::regclass, 'gone'::regclass, 'mine'::regclass);
SELECT relname, relreplident, (SELECT indexrelid::regclass FROM pg_index WHERE indrelid = c.oid AND indisreplident) FROM pg_class c
WHERE relname IN ('d', 'n', 'f', 'i', 'gone', 'mine') AND relnamespace = 'feed_identity'::regnamespace ORDER BY 1;

-- CI-03: what changes the identity behind our back is shown with the statement that helps; no incomplete row is ever stored
ALTER TABLE t REPLICA IDENTITY DEFAULT;
SELECT problem, detail, fix FROM scd2.diagnose() WHERE subject = 'table feed_identity.t';
SELECT fix FROM scd2.diagnose() WHERE subject = 'table feed_identity.t' \gexec
SELECT problem FROM scd2.diagnose() WHERE subject = 'table feed_identity.t';
SELECT relreplident FROM pg_class WHERE oid = 't'::regclass;
ALTER TABLE t REPLICA IDENTITY DEFAULT;
UPDATE t SET v = 'b';
ALTER TABLE t REPLICA IDENTITY FULL;
SELECT scd2.sync() AS v \gset
SELECT state, gap IS NOT NULL AS has_gap FROM scd2.feeds WHERE source = 't'::regclass;
SELECT problem, detail, fix FROM scd2.diagnose() WHERE subject = 'table feed_identity.t';
SELECT _change_type, id, v FROM t_changes ORDER BY _commit_version, _change_ordinal;
SELECT * FROM scd2.table_changes('t');
SELECT fix FROM scd2.diagnose() WHERE subject = 'table feed_identity.t' \gexec
UPDATE t SET v = 'c';
SELECT scd2.sync() AS v \gset
SELECT _change_type, id, v FROM scd2.table_changes(NULL::t_changes, (SELECT upper(gap) FROM scd2.feeds WHERE source = 't'::regclass));


DROP SCHEMA feed_identity CASCADE;
