-- What flows over snapshots refuse when they are made, and to whom.
\set SHOW_CONTEXT never
\set VERBOSITY default
SET client_min_messages = notice;
CREATE SCHEMA snapshot_refusals;
SET search_path = snapshot_refusals;
CREATE TABLE s (k int, k2 text, v text, j json);
CREATE FUNCTION try(more text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    detail text;
    hint   text;
BEGIN
    EXECUTE format('SELECT scd2.create_auto_cdc_from_snapshot_flow(%s)', more);
    RAISE EXCEPTION USING ERRCODE = 'P9999';
EXCEPTION WHEN SQLSTATE 'P9999' THEN
    RAISE NOTICE 'accepted: %', more;
WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RAISE NOTICE '%: % | % | %', SQLSTATE, SQLERRM, detail, hint;
END $$;
SELECT try($$NULL, 's', '{k}'$$);
SELECT try($$'t', 's', NULL$$);
SELECT try($$'t', 's', '{}'$$);
SELECT try($$'t', 's', '{nope}'$$);
SELECT try($$'t', 's', '{k,k}'$$);
SELECT try($$'t', 's', '{j}'$$);
SELECT try($$'t', 's', '{k}', NULL$$);
SELECT try($$'t', 's', '{k}', 'json'$$);
SELECT try($$'t', 's', '{k}', 'record'$$);
SELECT try($$'t', 's', '{k}', 'nope'$$);
SELECT try($$'t', 's', '{k}', stored_as_scd_type => 3$$);
SELECT try($$'t', 's', '{k}', stored_as_scd_type => 1, track_history_column_list => '{v}'$$);
SELECT try($$'t', 's', '{k}', column_list => '{v}'$$);
SELECT try($$'t', 's', '{k}', column_list => '{k}', except_column_list => '{v}'$$);
SELECT try($$'t', 's', '{k}', stored_as_scd_type => 2, start_column => 'v'$$);
SELECT try($$'t', 's', '{k}', scope => 'v > ''a'''$$);
SELECT try($$'t', 's', '{k}', scope => 'k'$$);
SELECT try($$'t', 's', '{k}', scope => 'k = '$$);
SELECT try($$'t', 's', '{k}', scope => 'k > random()'$$);
SELECT try($$'t', 's', '{k}', scope => 'k > (SELECT 1)'$$);
SELECT try($$'t', 's', '{k}', scope => 's IS NOT NULL'$$);
SELECT try($$'t', 's', '{k}', scope => 'k > extract(day FROM now())'$$);
SELECT try($$'t', 's', '{k}', scope => 'k > extract(day FROM now())', shared => true$$);
SELECT try($$'t', 's', '{k}', delete_absent => NULL$$);
SELECT try($$'t', 's', '{k}', max_delete_fraction => 1.5$$);
SELECT try($$'t', 's', '{k}', max_delete_fraction => NULL$$);
SELECT try($$'t', 's', '{k}', refresh_interval => '0'$$);
SELECT try($$'t', 's', '{k}', refresh_interval => '-1 s'$$);
SELECT try($$'t', 's', '{k}', once => true, refresh_interval => '1 s'$$);
SELECT try($$'t', 's', '{k}', 'bigint', refresh_interval => '1 s'$$);
SELECT try($$'t', 's', '{k}', 'bigint', once => true$$);
SELECT try($$'t', 's', '{k}', 'date', once => true$$);
SELECT try($$'t', 's', '{k}', version_query => 'SELECT nope'$$);
SELECT try($$'t', 's', '{k}', version_query => 'SELECT 1, 2'$$);
SELECT try($$'t', 's', '{k}', version_query => 'SELECT 1; SELECT 2'$$);
SELECT try($$'t', 's', '{k}', version_query => 'DELETE FROM snapshot_refusals.s'$$);
SELECT try($$'t', 's', '{k}', version_query => 'WITH d AS (DELETE FROM snapshot_refusals.s RETURNING 1) SELECT 1'$$);
SELECT try($$'t', 's', '{k}', version_query => 'SELECT k FROM snapshot_refusals.s FOR UPDATE'$$);
SELECT try($$'t', 's', '{k}', version_query => 'SHOW work_mem'$$);
SELECT try($$'s', 's', '{k}'$$);
CREATE TABLE full_of AS SELECT 1 AS k;
ALTER TABLE full_of ADD PRIMARY KEY (k);
SELECT try($$'full_of', 's', '{k}', column_list => '{k}'$$);
SELECT try($$'full_of', 's', '{k}'$$);
CREATE TEMPORARY TABLE temp (k int);
SELECT try($$'t', 'temp', '{k}'$$);
CREATE SEQUENCE q;
SELECT try($$'t', 'q', '{last_value}'$$);
-- a key type that neither hashes nor merges
CREATE TYPE pair AS (a int, b int);
CREATE TABLE p (k pair, v text);
SELECT try($$'t', 'p', '{k}'$$);
CREATE FUNCTION lt(pair, pair) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT $1.a < $2.a';
CREATE FUNCTION le(pair, pair) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT $1.a <= $2.a';
CREATE FUNCTION eq(pair, pair) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT $1.a = $2.a';
CREATE FUNCTION cmp(pair, pair) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT btint4cmp($1.a, $2.a)';
CREATE OPERATOR <# (PROCEDURE = lt, LEFTARG = pair, RIGHTARG = pair, COMMUTATOR = ># );
CREATE OPERATOR ># (PROCEDURE = lt, LEFTARG = pair, RIGHTARG = pair);
CREATE OPERATOR <=# (PROCEDURE = le, LEFTARG = pair, RIGHTARG = pair);
CREATE OPERATOR >=# (PROCEDURE = le, LEFTARG = pair, RIGHTARG = pair);
CREATE OPERATOR =# (PROCEDURE = eq, LEFTARG = pair, RIGHTARG = pair);
CREATE OPERATOR CLASS pair_ops DEFAULT FOR TYPE pair USING btree AS OPERATOR 1 <#, OPERATOR 2 <=#, OPERATOR 3 =#, OPERATOR 4 >=#, OPERATOR 5 >#, FUNCTION 1 cmp(pair, pair);
SELECT try($$'t', 'p', '{k}'$$);

-- rights: the source's owner makes the flow, the target's owner applies snapshots
CREATE ROLE snapshot_refusals_owner;
CREATE ROLE snapshot_refusals_stranger;
GRANT ALL ON SCHEMA snapshot_refusals TO snapshot_refusals_owner, snapshot_refusals_stranger;
CREATE TABLE mine (k int PRIMARY KEY, v text);
INSERT INTO mine VALUES (1, 'x');
ALTER TABLE mine OWNER TO snapshot_refusals_owner;
SET ROLE snapshot_refusals_stranger;
SELECT try($$'t', 'mine', '{k}'$$);
SET ROLE snapshot_refusals_owner;
SELECT scd2.create_auto_cdc_from_snapshot_flow('mine_h', 'mine', '{k}', 'int');
SELECT try($$'t', 'mine', '{k}', version_query => 'SELECT 1 FROM pg_authid'$$);
SELECT * FROM scd2.apply_snapshot('mine_h', 1);
SET ROLE snapshot_refusals_stranger;
SELECT * FROM scd2.apply_snapshot('mine_h', 2);
SELECT scd2.drop_flow('mine_h');
SELECT scd2_internal.take_snapshot(1, '1', NULL, false, false);
RESET ROLE;
SELECT * FROM scd2.apply_snapshot('nope', 2);
SELECT * FROM scd2.apply_snapshot('mine_h', 2);
-- what a view does is done as the target's owner, who cannot leave his rights
SET ROLE snapshot_refusals_owner;
CREATE FUNCTION whoami() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN current_user; END $$;
CREATE FUNCTION escape() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RESET ROLE; RETURN current_user; END $$;
CREATE VIEW who AS SELECT 1 AS k, snapshot_refusals.whoami() AS v;
CREATE VIEW out AS SELECT 1 AS k, snapshot_refusals.escape() AS v;
SELECT scd2.create_auto_cdc_from_snapshot_flow('who_h', 'who', '{k}', 'int');
SELECT scd2.create_auto_cdc_from_snapshot_flow('out_h', 'out', '{k}', 'int');
RESET ROLE;
SELECT * FROM scd2.apply_snapshot('who_h', 1);
SELECT * FROM scd2.apply_snapshot('out_h', 1);
TABLE who_h;
-- an event flow takes none
CREATE TABLE ev (k int, seq int);
SELECT scd2.create_auto_cdc_flow('e', 'ev', '{k}', 'seq');
SELECT * FROM scd2.apply_snapshot('e', 2);
SELECT scd2.drop_flow(flow, drop_target => true) FROM scd2.flows;
SET client_min_messages = warning;
DROP SCHEMA snapshot_refusals CASCADE;
DROP ROLE snapshot_refusals_owner, snapshot_refusals_stranger;
