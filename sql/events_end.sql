-- end_sequence_by: rows that say where they end, as a legacy table with valid_from and valid_to does.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = error;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, MDY';
CREATE SCHEMA events_end;
SET search_path = events_end;

-- Seeding: a chain, a gap, a key that was deleted, ends that are none (NULL, infinity), rows that overlap, an untracked change
CREATE TABLE legacy (id int, name text, region text, valid_from timestamptz, valid_to timestamptz);
INSERT INTO legacy VALUES
    (1, 'Ana', 'Norte', '2026-01-01', '2026-02-01'), (1, 'Ana', 'Este', '2026-02-01', '2026-03-01'), (1, 'Ana M', 'Este', '2026-03-01', NULL),
    (2, 'Luis', 'Centro', '2026-01-01', '2026-02-01'), (2, 'Luis', 'Centro', '2026-04-01', 'infinity'),
    (3, 'Marta', 'Oeste', '2026-01-01', '2026-02-01'),
    (4, 'a', 'a', '2026-01-10', '2026-01-30'), (4, 'b', 'b', '2026-01-20', NULL),
    (5, 'first', 'x', '2026-01-01', '2026-02-01'), (5, 'second', 'x', '2026-02-01', '2026-03-01');
SELECT scd2.create_auto_cdc_flow('h', 'legacy', '{id}', 'valid_from', end_sequence_by => 'valid_to', except_column_list => '{valid_from,valid_to}',
    track_history_column_list => '{region}', stored_as_scd_type => 2, once => true);
SELECT scd2.create_auto_cdc_flow('c', 'legacy', '{id}', 'valid_from', end_sequence_by => 'valid_to', except_column_list => '{valid_from,valid_to}', once => true, shared => true);
-- the end is not tracked by default: of row 5 the end alone changes
SELECT scd2.create_auto_cdc_flow('whole', 'legacy', '{id}', 'valid_from', end_sequence_by => 'valid_to', column_list => '{id,region,valid_to}', stored_as_scd_type => 2, once => true);
SELECT scd2.sync() >= 0;
TABLE h ORDER BY id, __start_at;
TABLE c ORDER BY id;
SELECT * FROM whole WHERE id IN (1, 5) ORDER BY id, __start_at;
SELECT flow, state, events, applied, duplicates, conflicts FROM scd2.flows ORDER BY flow;

-- then live events into the same targets, late ones too: a version that begins where a legacy row ends is not harmed, and one in a gap ends where the next begins
CREATE TABLE live (id int, name text, region text, at timestamptz, op text);
SELECT scd2.create_auto_cdc_flow('h', 'live', '{id}', 'at', apply_as_deletes => 'op = ''D''', column_list => '{id,name,region}', track_history_column_list => '{region}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('c', 'live', '{id}', 'at', apply_as_deletes => 'op = ''D''', column_list => '{id,name,region}');
INSERT INTO live VALUES (1, 'Ana', 'Sur', '2026-05-01', 'U'), (2, 'Luis', 'Gap', '2026-02-15', 'U'), (3, 'Marta', 'Back', '2026-02-01', 'U'), (3, 'Marta', 'Late', '2026-01-15', 'U'), (5, NULL, NULL, '2026-02-01', 'D');
SELECT scd2.sync() >= 0;
TABLE h ORDER BY id, __start_at;
TABLE c ORDER BY id;
SELECT t, c.* FROM unnest('{h,c}'::text[]) AS t, scd2.check_target(t::regclass) AS c;
-- the other order gives the same: live first, then the seed; and so does a rebuild
SELECT scd2.create_auto_cdc_flow('h2', 'live', '{id}', 'at', apply_as_deletes => 'op = ''D''', column_list => '{id,name,region}', track_history_column_list => '{region}', stored_as_scd_type => 2);
SELECT scd2.create_auto_cdc_flow('c2', 'live', '{id}', 'at', apply_as_deletes => 'op = ''D''', column_list => '{id,name,region}', shared => true);
SELECT scd2.sync() >= 0;
SELECT scd2.create_auto_cdc_flow('h2', 'legacy', '{id}', 'valid_from', end_sequence_by => 'valid_to', except_column_list => '{valid_from,valid_to}',
    track_history_column_list => '{region}', stored_as_scd_type => 2, once => true);
SELECT scd2.create_auto_cdc_flow('c2', 'legacy', '{id}', 'valid_from', end_sequence_by => 'valid_to', except_column_list => '{valid_from,valid_to}', once => true);
SELECT scd2.sync() >= 0;
SELECT count(*) FROM ((TABLE h EXCEPT ALL TABLE h2) UNION ALL (TABLE h2 EXCEPT ALL TABLE h)) AS x;
SELECT count(*) FROM ((TABLE c EXCEPT ALL TABLE c2) UNION ALL (TABLE c2 EXCEPT ALL TABLE c)) AS x;
SELECT scd2.full_refresh('h'), scd2.full_refresh('c');
SELECT scd2.sync() >= 0;
SELECT count(*) FROM ((TABLE h EXCEPT ALL TABLE h2) UNION ALL (TABLE h2 EXCEPT ALL TABLE h)) AS x;
SELECT count(*) FROM ((TABLE c EXCEPT ALL TABLE c2) UNION ALL (TABLE c2 EXCEPT ALL TABLE c)) AS x;

-- an event table whose rows end; a delete has no end; ends that are not above the start, or NaN, are invalid
CREATE TABLE ev (k int, v text, seq numeric, upto numeric, op text);
SELECT scd2.create_auto_cdc_flow('n', 'ev', '{k}', 'seq', apply_as_deletes => 'op = ''D''', end_sequence_by => 'upto', column_list => '{k,v}', stored_as_scd_type => 2, on_invalid_event => 'quarantine');
SELECT scd2.sync() >= 0;
INSERT INTO ev VALUES (1, 'a', 1, 5, 'U'), (1, NULL, 3, 2, 'D'), (1, 'b', 4, 'Infinity', 'U'), (2, 'x', 5, 5, 'U'), (2, 'y', 5, 4, 'U'), (2, 'z', 6, 'NaN', 'U'), (2, 'ok', 7, NULL, 'U'), (2, 'no', NULL, 9, 'U'), (NULL, 'no', 8, 9, 'U'), (2, 'w', 9, '-Infinity', 'U');
SELECT scd2.sync() >= 0;
TABLE n ORDER BY k, __start_at;
SELECT change_ordinal, reason, event FROM scd2.rejected_events WHERE flow = 'n' ORDER BY version, change_ordinal;
SELECT events, applied, duplicates, rejected FROM scd2.flows WHERE flow = 'n';
-- sent again, later: nothing
INSERT INTO ev SELECT * FROM ev WHERE k = 1;
SELECT scd2.sync() >= 0;
TABLE n ORDER BY k, __start_at;
SELECT events, applied, duplicates, rejected FROM scd2.flows WHERE flow = 'n';
SELECT scd2.create_auto_cdc_flow('failing', 'ev', '{k}', 'seq', end_sequence_by => 'upto', source_filter => 'k = 2 AND seq < 6', column_list => '{k,v}', stored_as_scd_type => 2);
SELECT scd2.sync(targets => '{failing}');
SELECT scd2.drop_flow('failing', drop_target => true);

-- several fields
CREATE TABLE many (k int, v text, day date, nth int, last_day date, last_nth int);
INSERT INTO many VALUES (1, 'a', '2026-01-01', 1, '2026-01-01', 2), (1, 'b', '2026-01-02', 1, 'infinity', 9), (2, 'c', '2026-01-01', 1, '2026-01-03', NULL), (3, 'd', '2026-01-01', 1, NULL, NULL);
SELECT scd2.create_auto_cdc_flow('s', 'many', '{k}', 'struct(day, nth)', end_sequence_by => 'struct(last_day, last_nth)', column_list => '{k,v}', stored_as_scd_type => 2, on_invalid_event => 'quarantine', once => true);
SELECT scd2.sync() >= 0;
TABLE s ORDER BY k, __start_at;
SELECT reason, event FROM scd2.rejected_events WHERE flow = 's';

-- refused
SELECT scd2.create_auto_cdc_flow('x', 'legacy', '{id}', 'valid_from', end_sequence_by => 'nope');
SELECT scd2.create_auto_cdc_flow('x', 'legacy', '{id}', 'valid_from', end_sequence_by => 'name');
SELECT scd2.create_auto_cdc_flow('x', 'legacy', '{id}', 'valid_from', end_sequence_by => 'clock_timestamp()');
SELECT scd2.create_auto_cdc_flow('x', 'many', '{k}', 'day', end_sequence_by => 'struct(last_day, last_nth)');
CREATE TABLE captured (id int PRIMARY KEY, upto timestamptz);
SELECT scd2.enable_change_feed('captured');
SELECT scd2.create_auto_cdc_flow('x', 'captured_changes', '{id}', end_sequence_by => 'upto');
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows;
DROP SCHEMA events_end CASCADE;
