-- Event tables: events that cannot be accepted fail their flow alone, or are put aside and shown; truncates; rows that are no events.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = warning;
CREATE SCHEMA events_invalid;
SET search_path = events_invalid;
CREATE TABLE ev (k int, k2 text, v text, seq numeric, op text);
SELECT scd2.create_auto_cdc_flow('strict', 'ev', '{k,k2}', 'seq', apply_as_deletes => 'op = ''D''', stored_as_scd_type => 2, column_list => '{k,k2,v}');
SELECT scd2.create_auto_cdc_flow('kind', 'ev', '{k,k2}', 'seq', apply_as_deletes => 'op = ''D''', stored_as_scd_type => 2, column_list => '{k,k2,v}', on_invalid_event => 'quarantine');
SELECT scd2.create_auto_cdc_flow('kind1', 'ev', '{k,k2}', 'seq', apply_as_deletes => 'op = ''D''', column_list => '{k,k2,v}', on_invalid_event => 'quarantine', source_filter => 'op <> ''skip'' -- no event');
INSERT INTO ev VALUES (1, 'a', 'x', 10, 'U'), (2, 'a', 'y', 10, 'U');
SELECT scd2.sync() >= 0;

-- NULL sequence, NaN, NULL in a key; the same event without fault comes later
INSERT INTO ev VALUES (1, 'a', 'y', NULL, 'U'), (1, 'a', 'z', 30, 'U'), (2, 'a', 'z', 'NaN', 'U'), (3, NULL, 'n', 10, 'U'), (4, 'a', 'skipped', NULL, 'skip'), (2, 'a', NULL, 20, 'D');
SELECT scd2.sync(targets => '{kind,kind1}') >= 0;
TABLE kind ORDER BY k, __start_at;
TABLE kind1;
SELECT flow, change_ordinal, reason, event FROM scd2.rejected_events ORDER BY 1, 2;
-- the strict flow stops by itself, and says why
DO $$ BEGIN
    FOR i IN 1 .. 150 LOOP
        EXIT WHEN EXISTS (SELECT FROM scd2.flows WHERE state = 'failed');
        PERFORM pg_sleep(0.1);
    END LOOP;
END $$;
SELECT flow, state, events, applied, rejected, regexp_replace(last_error, 'version \d+', 'version N', 'g') AS last_error FROM scd2.flows WHERE target::text IN ('strict', 'kind', 'kind1') ORDER BY flow;
TABLE strict ORDER BY k, __start_at;
-- told to go on without them
SELECT scd2.alter_flow('strict', on_invalid_event => 'quarantine', source_filter => 'op <> ''skip''');
SELECT scd2.resume_flow('strict');
SELECT scd2.sync(targets => '{strict}') >= 0;
TABLE strict ORDER BY k, __start_at;
SELECT state, events, applied, rejected FROM scd2.flows WHERE flow = 'strict';
SELECT scd2.alter_flow('strict', sequence_by => 'k');
SELECT scd2.alter_flow('strict', on_invalid_event => 'hope');
SELECT scd2.alter_flow('strict', apply_as_deletes => 'nope');
SELECT scd2.alter_flow('nobody');
SELECT scd2.drop_flow('strict', drop_target => true);
-- what is not an insert is no event
UPDATE ev SET v = 'changed' WHERE k = 1;
DELETE FROM ev WHERE k = 1;
SELECT scd2.sync(targets => '{kind,kind1}') >= 0;
SELECT * FROM kind WHERE k = 1 ORDER BY __start_at;
-- a rebuild knows the rows that are there now
SELECT scd2.full_refresh('kind');
SELECT scd2.sync(targets => '{kind}') >= 0;
TABLE kind ORDER BY k, __start_at;
SELECT version, change_ordinal, reason, event FROM scd2.rejected_events WHERE flow = 'kind' ORDER BY event;

-- truncates: every key, also of keys whose earlier events arrive later
CREATE TABLE cuts (k int, v text, seq bigint, op text);
SELECT scd2.create_auto_cdc_flow('cut2', 'cuts', '{k}', 'seq', apply_as_deletes => 'op = ''D''', apply_as_truncates => 'op = ''T''', stored_as_scd_type => 2, column_list => '{k,v}');
SELECT scd2.create_auto_cdc_flow('cut1', 'cuts', '{k}', 'seq', apply_as_deletes => 'op = ''D''', apply_as_truncates => 'op = ''T''', column_list => '{k,v}');
INSERT INTO cuts VALUES (1, 'a', 10, 'U'), (1, 'a', 30, 'U'), (2, 'b', 10, 'U'), (3, 'c', 25, 'U');
SELECT scd2.sync() >= 0;
INSERT INTO cuts VALUES (NULL, NULL, 20, 'T');
SELECT scd2.sync() >= 0;
TABLE cut2 ORDER BY k, __start_at;
TABLE cut1 ORDER BY k;
INSERT INTO cuts VALUES (4, 'late', 15, 'U'), (5, 'at it', 20, 'U'), (2, 'b', 12, 'U'), (NULL, NULL, 20, 'T');
SELECT scd2.sync() >= 0;
TABLE cut2 ORDER BY k, __start_at;
TABLE cut1 ORDER BY k;
-- two at once, with other events
INSERT INTO cuts VALUES (NULL, NULL, 40, 'T'), (NULL, NULL, 28, 'T'), (1, 'f', 29, 'U'), (3, 'g', 50, 'U');
SELECT scd2.sync() >= 0;
TABLE cut2 ORDER BY k, __start_at;
TABLE cut1 ORDER BY k;
SELECT flow, events, applied, duplicates FROM scd2.flows WHERE flow LIKE 'cut%' ORDER BY 1;
SELECT scd2.full_refresh('cut2'), scd2.full_refresh('cut1');
SELECT scd2.sync(targets => '{cut1,cut2}') >= 0;
TABLE cut2 ORDER BY k, __start_at;
TABLE cut1 ORDER BY k;

-- memory is the flow's, not ours to write
INSERT INTO cut2_memory VALUES (1, 1, 'd');
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows WHERE source::text IN ('ev', 'cuts');
SELECT count(*) FROM scd2.rejected_events;
DROP SCHEMA events_invalid CASCADE;
