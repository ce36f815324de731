-- Targets that others have put something on: triggers, deferrable constraints, a feed. A snapshot is applied in somebody's transaction, whose own deferred checks are none of its business.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = warning;
CREATE SCHEMA snapshot_triggers;
SET search_path = snapshot_triggers;
CREATE ROLE snapshot_triggers_owner;
GRANT ALL ON SCHEMA snapshot_triggers TO snapshot_triggers_owner;
CREATE TABLE source (k int PRIMARY KEY, v text);
INSERT INTO source VALUES (1, 'a'), (2, 'b');
ALTER TABLE source OWNER TO snapshot_triggers_owner;
SELECT scd2.create_auto_cdc_from_snapshot_flow('h', 'source', '{k}', 'int', stored_as_scd_type => 2, max_delete_fraction => 1);
SELECT scd2.create_auto_cdc_from_snapshot_flow('c', 'source', '{k}', 'int', max_delete_fraction => 1);
SET ROLE snapshot_triggers_owner;
CREATE TABLE log (n int GENERATED ALWAYS AS IDENTITY, what text, k int, v text, who text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO snapshot_triggers.log (what, k, v, who) VALUES (TG_TABLE_NAME || ' ' || TG_OP || coalesce(' ' || TG_ARGV[0], ''), coalesce(NEW.k, OLD.k), coalesce(NEW.v, OLD.v), current_user);
    RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON h FOR EACH ROW EXECUTE FUNCTION note();
CREATE CONSTRAINT TRIGGER note_late AFTER INSERT OR DELETE ON c DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note('late');
CREATE TABLE known (v text PRIMARY KEY);
INSERT INTO known VALUES ('a'), ('b'), ('c');
ALTER TABLE c ADD FOREIGN KEY (v) REFERENCES known DEFERRABLE INITIALLY DEFERRED;
RESET ROLE;
SELECT * FROM scd2.apply_snapshot('h', 1);
SELECT * FROM scd2.apply_snapshot('c', 1);
UPDATE source SET v = 'c' WHERE k = 1;
DELETE FROM source WHERE k = 2;
INSERT INTO source VALUES (3, 'a');
SELECT * FROM scd2.apply_snapshot('h', 2);
SELECT * FROM scd2.apply_snapshot('c', 2);
SELECT what, k, v, who FROM log ORDER BY n;
TABLE h ORDER BY k, __start_at;
-- a constraint of the target's is checked at once, also when nobody has committed yet
INSERT INTO source VALUES (4, 'unknown');
SELECT * FROM scd2.apply_snapshot('c', 3);
-- not what the caller has deferred elsewhere
CREATE TABLE mine (v text REFERENCES known DEFERRABLE INITIALLY DEFERRED);
BEGIN;
INSERT INTO mine VALUES ('not yet');
UPDATE source SET v = 'b' WHERE k = 4;
SELECT * FROM scd2.apply_snapshot('c', 3);
INSERT INTO known VALUES ('not yet');
COMMIT;
TABLE c ORDER BY k;
-- a trigger that keeps a row out is told of
SET ROLE snapshot_triggers_owner;
CREATE FUNCTION keep_out() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE TRIGGER keep_out BEFORE INSERT ON h FOR EACH ROW EXECUTE FUNCTION keep_out();
RESET ROLE;
SELECT * FROM scd2.apply_snapshot('h', 3);
DROP TRIGGER keep_out ON h;
-- what others write is still kept out, whatever the snapshot did
INSERT INTO h VALUES (9, 'x', 1);
SET ROLE snapshot_triggers_owner;
INSERT INTO h VALUES (9, 'x', 1);
RESET ROLE;
-- a target with a feed: what a snapshot writes is captured
SELECT scd2.enable_change_feed('c', feed => 'c_feed');
SELECT scd2.sync() >= 0;
DELETE FROM source WHERE k = 4;
SELECT * FROM scd2.apply_snapshot('c', 4);
SELECT scd2.sync() >= 0;
SELECT _change_type, k, v FROM c_feed ORDER BY _commit_version, _change_ordinal;
-- what the source lacks
ALTER TABLE source RENAME v TO w;
SELECT * FROM scd2.apply_snapshot('h', 9);
ALTER TABLE source RENAME w TO v;
ALTER TABLE source ALTER v TYPE varchar(10);
SELECT * FROM scd2.apply_snapshot('h', 9);
DROP TABLE source;
SELECT * FROM scd2.apply_snapshot('h', 9);
DROP TABLE h CASCADE;
SELECT * FROM scd2.apply_snapshot('h', 9);
SELECT subject, problem, fix FROM scd2.diagnose() ORDER BY 1;
SELECT scd2.disable_change_feed('c', true);
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows;
DROP SCHEMA snapshot_triggers CASCADE;
DROP ROLE snapshot_triggers_owner;
