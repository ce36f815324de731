-- No clock that is ahead makes another's event too late: an event counts as seen up to its commit. Where there is no clock
-- (numbers), diagnose() tells of what is rejected, and the horizon can be lowered.
\set QUIET on
SET client_min_messages = error;
SELECT plan(26);
CREATE TABLE types (t text, lateness text);
INSERT INTO types VALUES ('timestamptz', '1 hour'), ('timestamp', '1 hour'), ('date', '3 days');
CREATE TABLE leads (lead text);
INSERT INTO leads VALUES ('59 minutes'), ('2 hours'), ('25 hours'), ('3 days'), ('2 years'), ('infinity');
\o /dev/null
SELECT format('CREATE TABLE ev_%1$s (k text, v text, s %1$s)', t) FROM types \gexec
SELECT format('SELECT scd2.create_auto_cdc_flow(''to_%1$s'', ''ev_%1$s'', ''{k}'', ''s'', column_list => ''{k,v}'', stored_as_scd_type => 2, max_lateness => %2$L)', t, lateness) FROM types \gexec
SELECT scd2.sync('50 s');
-- one clock is ahead, all others bring events that are as old as they may be
SELECT format('INSERT INTO ev_%1$s VALUES (%2$L, ''ahead'', %3$s), (%2$L, ''honest'', now() - interval %4$L + interval ''1 minute'')',
              t, lead, CASE lead WHEN 'infinity' THEN '''infinity''' ELSE format('now() + interval %L', lead) END, CASE t WHEN 'date' THEN '2 days' ELSE lateness END) FROM types, leads ORDER BY t, lead \gexec
SELECT format('INSERT INTO ev_%1$s VALUES (%2$L, ''honest, later'', now() - interval %4$L + interval ''1 minute'')',
              t, lead, lead, CASE t WHEN 'date' THEN '2 days' ELSE lateness END) FROM types, leads ORDER BY t, lead \gexec
SELECT scd2.sync('50 s');
\o
SELECT is((SELECT too_late FROM scd2.flows WHERE flow = 'to_' || t), 0::bigint, t || ': no honest event is too late') FROM types ORDER BY t;
-- (days are one and the same)
SELECT cmp_ok((xpath('/table/row/n/text()', query_to_xml(format('SELECT count(*) AS n FROM to_%s WHERE v = ''ahead''', t), true, false, '')))[1]::text::int, '=', 6, t || ': those that are ahead are there') FROM types ORDER BY t;
SELECT is((SELECT count(*) FROM scd2.diagnose() WHERE problem = 'it rejected events'), 0::bigint, 'nothing is told');
-- what is really late is too late
SELECT format('INSERT INTO ev_%1$s VALUES (''x'', ''late'', now() - interval %2$L - interval ''1 day'')', t, lateness) FROM types \gexec
SELECT scd2.sync('50 s') \g /dev/null
SELECT is((SELECT too_late FROM scd2.flows WHERE flow = 'to_' || t), 1::bigint, t || ': one that is late is too late') FROM types ORDER BY t;
SELECT is((SELECT count(*) FROM scd2.diagnose() WHERE problem = 'it rejected events'), 3::bigint, '... and is told');
-- a clock that is ahead before there is any other event
SELECT format('CREATE TABLE first_%1$s (k text, v text, s %1$s)', t) FROM types \gexec
\o /dev/null
SELECT format('SELECT scd2.create_auto_cdc_flow(''to_first_%1$s'', ''first_%1$s'', ''{k}'', ''s'', column_list => ''{k,v}'', max_lateness => %2$L)', t, lateness) FROM types \gexec
SELECT scd2.sync('50 s');
SELECT format('INSERT INTO first_%1$s VALUES (''a'', ''ahead'', now() + interval ''2 hours'')', t) FROM types \gexec
SELECT scd2.sync('50 s');
SELECT format('INSERT INTO first_%1$s VALUES (''b'', ''honest'', now())', t) FROM types \gexec
SELECT scd2.sync('50 s');
\o
SELECT is((SELECT ROW(events, too_late)::text FROM scd2.flows WHERE flow = 'to_first_' || t), '(2,0)', t || ': the first event of all is ahead') FROM types ORDER BY t;

-- numbers
CREATE TABLE n (k int, v text, s int);
SELECT scd2.create_auto_cdc_flow('to_n', 'n', '{k}', 's', column_list => '{k,v}', stored_as_scd_type => 2, max_lateness => '50') \g /dev/null
SELECT scd2.sync('50 s') \g /dev/null
INSERT INTO n VALUES (1, 'a', 100), (2, 'b', 100);
INSERT INTO n VALUES (1, 'wrong', 1000000);
INSERT INTO n VALUES (2, 'c', 101), (3, 'd', 102);
SELECT scd2.sync('50 s') \g /dev/null
SELECT is((SELECT too_late FROM scd2.flows WHERE flow = 'to_n'), 2::bigint, 'a number that is wrong makes all too late');
SELECT problem, detail, fix FROM scd2.diagnose() WHERE subject = 'flow to_n' \gset
SELECT is(:'problem'::text, 'it rejected events', 'diagnose() tells of it');
SELECT matches(:'detail'::text, 'too late: the horizon was at 999950.* 2 were too late and 0 invalid', '... and where the horizon is');
SELECT isnt_empty(regexp_replace(:'fix', ';.*', ''), 'its fix shows them');
SELECT lives_ok(regexp_replace(:'fix', '^.*-- if the horizon is ahead: ', ''), '... and lowers the horizon');
INSERT INTO n SELECT (event ->> 'k')::int, event ->> 'v', (event ->> 's')::int FROM scd2.rejected_events WHERE flow = 'to_n';
SELECT scd2.sync('50 s') \g /dev/null
SELECT results_eq('SELECT k, v, __start_at, __end_at FROM to_n ORDER BY k, __start_at', $$VALUES (1, 'a', 100, 1000000), (1, 'wrong', 1000000, NULL), (2, 'b', 100, 101), (2, 'c', 101, NULL), (3, 'd', 102, NULL)$$, 'they are taken when they come again');
INSERT INTO n VALUES (4, 'late', 51), (3, 'on', 200), (4, 'late', 149), (4, 'in time', 150);
SELECT scd2.sync('50 s') \g /dev/null
SELECT results_eq('SELECT v FROM to_n WHERE k = 4 ORDER BY __start_at', $$VALUES ('in time')$$, 'and there is a horizon again: of what comes since');
-- with another max_lateness, too
SELECT scd2.alter_flow('to_n', max_lateness => '100') \g /dev/null
INSERT INTO n VALUES (5, 'taken', 60);
SELECT scd2.sync('50 s') \g /dev/null
SELECT results_eq('SELECT v FROM to_n WHERE k = 5', $$VALUES ('taken')$$, 'one that is raised counts at once');
\set said `psql -XAtq -d :DBNAME -c "SELECT scd2.alter_flow('to_n', max_lateness => '100')" 2>&1`
SELECT matches(:'said'::text, 'NOTICE:  flow "to_n" has no horizon before the next event: it was at -40', 'that what was forgotten is forgotten is said');
-- invalid ones are told of, too
SELECT scd2.create_auto_cdc_flow('to_q', 'n', '{k}', 's', column_list => '{k,v}', on_invalid_event => 'quarantine') \g /dev/null
SELECT scd2.sync('50 s') \g /dev/null
SELECT is((SELECT count(*) FROM scd2.diagnose() WHERE subject = 'flow to_q'), 0::bigint, 'where nothing is rejected nothing is told');
SELECT scd2.alter_flow('to_n', on_invalid_event => 'quarantine') \g /dev/null
INSERT INTO n VALUES (1, 'no sequence', NULL);
SELECT scd2.sync('50 s') \g /dev/null
SELECT matches((SELECT detail FROM scd2.diagnose() WHERE subject = 'flow to_q'), '0 were too late and 1 invalid', 'invalid events are told of');
-- for a day
UPDATE scd2_internal.rejected SET rejected_at = rejected_at - interval '25 hours';
SELECT is((SELECT count(*) FROM scd2.diagnose() WHERE problem = 'it rejected events'), 0::bigint, 'what was rejected is no lasting problem');
SELECT * FROM finish();
