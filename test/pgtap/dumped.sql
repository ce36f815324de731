-- What a dump needs of our catalogs: every one is dumped, or is known not to be; no foreign keys, which
-- a parallel restore does not heed; relations by name, not by oid; states that say where they are at
-- home. (What dumps do: test/tap/dump_and_restore.pl.)
\set QUIET on
SELECT plan(5);
SELECT results_eq($$
    SELECT c.relname FROM pg_class c
    WHERE c.relnamespace = 'scd2_internal'::regnamespace AND c.relkind = 'r'
      AND c.oid <> ALL ((SELECT e.extconfig FROM pg_extension e WHERE e.extname = 'pg_scd2')::oid[]) ORDER BY 1$$,
    $$VALUES ('backlog'::name), ('control'), ('home'), ('staged_row'), ('switch'), ('upkeep_error')$$, 'all tables are dumped but these');
SELECT is_empty($$
    SELECT s.relname FROM pg_class s JOIN pg_depend d ON d.objid = s.oid AND d.deptype = 'i'
        JOIN pg_extension e ON e.extname = 'pg_scd2' AND d.refobjid = ANY (e.extconfig)
    WHERE s.relkind = 'S' AND s.oid <> ALL (e.extconfig)$$, 'and so are the sequences of their identities');
SELECT is_empty($$
    SELECT conname FROM pg_constraint WHERE contype = 'f' AND connamespace = 'scd2_internal'::regnamespace$$, 'none refers to another by a foreign key');
SELECT results_eq($$
    SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace = 'scd2_internal'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND a.atttypid::regtype::text ~ '^(oid|reg)'
      AND c.relname NOT IN ('control', 'staged_row', 'upkeep_error') ORDER BY 1, 2$$, $$VALUES ('position'::name, 'database'::name), ('purge', 'storage')$$,
    'oids that are dumped are names, but for those that only say whether something is still the same');
SELECT results_eq($$
    SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'home'
    WHERE c.relnamespace = 'scd2_internal'::regnamespace AND c.relkind = 'r' ORDER BY 1$$,
    $$VALUES ('feed_state'::name), ('flow_state'), ('position'), ('purge')$$, 'what workers act on says whose it is');
SELECT * FROM finish();
