-- Snapshots beside flows of events that may be so late and no later: what comes below the horizon.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = warning;
CREATE SCHEMA snapshot_late;
SET search_path = snapshot_late;
CREATE TABLE ev (k int, v text, seq int, op text);
CREATE TABLE snap (k int, v text);
CREATE TABLE snap2 (k int, v text);
SELECT scd2.create_auto_cdc_flow('h', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''D''', column_list => '{k,v}', max_lateness => '10', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('c', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''D''', column_list => '{k,v}', max_lateness => '10');
INSERT INTO ev VALUES (1, 'a', 50, 'U'), (2, 'b', 60, 'U'), (2, NULL, 90, 'D'), (3, 'c', 100, 'U');
SELECT scd2.sync() >= 0;
SELECT scd2.create_auto_cdc_from_snapshot_flow('h', 'snap', '{k}', 'int', name => 'hs', stored_as_scd_type => 2, max_delete_fraction => 1);
SELECT scd2.create_auto_cdc_from_snapshot_flow('c', 'snap', '{k}', 'int', name => 'cs', max_delete_fraction => 1);
INSERT INTO snap VALUES (1, 'a'), (2, 'x'), (4, 'old');
-- the first of a flow that comes later: it fills in what was before the horizon, 90, and changes nothing after it
SELECT * FROM scd2.apply_snapshot('hs', 80, dry_run => true);
SELECT * FROM scd2.apply_snapshot('cs', 80, dry_run => true);
SELECT kind, sequence FROM scd2_internal.mark;
SELECT * FROM scd2.apply_snapshot('hs', 80);
SELECT * FROM scd2.apply_snapshot('cs', 80);
TABLE h ORDER BY k, __start_at;
TABLE c ORDER BY k;
-- another below the horizon is too late
SELECT * FROM scd2.apply_snapshot('hs', 85, dry_run => true);
SELECT * FROM scd2.apply_snapshot('hs', 85);
SELECT * FROM scd2.apply_snapshot('cs', 89);
SELECT flow, version, reason, event FROM scd2.rejected_events ORDER BY flow;
SELECT flow, events - applied AS not_applied, too_late, events = applied + duplicates + too_late + rejected + skipped AS adds_up, state FROM scd2.flows WHERE kind = 'snapshot' ORDER BY flow;
-- at the horizon and above it is not
SELECT * FROM scd2.apply_snapshot('hs', 95);
SELECT * FROM scd2.apply_snapshot('cs', 95);
INSERT INTO ev VALUES (1, 'late', 92, 'U'), (5, 'late', 91, 'U'), (5, 'too late', 89, 'U');
SELECT scd2.sync() >= 0;
TABLE h ORDER BY k, __start_at;
TABLE c ORDER BY k;
-- a rebuild begins without a horizon
CREATE TABLE h_was AS TABLE h;
SELECT scd2.full_refresh('h', allow_loss => true);
SELECT scd2.sync() >= 0;
SELECT * FROM h WHERE k IN (1, 4, 5) ORDER BY k, __start_at;
SELECT flow, state, last_error FROM scd2.flows WHERE target = 'h'::regclass ORDER BY flow;
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows;
DROP SCHEMA snapshot_late CASCADE;
