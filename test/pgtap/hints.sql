-- A hint is a sentence, or it is statements and nothing else: then it works when pasted. All hints
-- in the expected results of the tests: what has a statement parses, as a whole. (A query string is
-- parsed before any of it is run, so a division by zero in front keeps them from being run.)
\set QUIET on
\set hints `grep -rhoE '^HINT:  .*' expected test/isolation/expected | cut -c8- | sort -u`
CREATE TABLE hint AS SELECT h AS hint, h ~ '\m(SELECT|SET|RESET|ALTER|BEGIN|COMMIT|ROLLBACK|TRUNCATE|GRANT|REVOKE|DELETE|UPDATE|INSERT|CREATE|DROP)\M.*[^.]$|scd2\.\w+\(' AS has_statement
    FROM regexp_split_to_table(:'hints', E'\n') AS h WHERE h <> '';
CREATE FUNCTION parse(statements text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'SELECT 1/0; ' || statements;
    RETURN 'ran';
EXCEPTION WHEN division_by_zero THEN RETURN 'parses';
WHEN OTHERS THEN RETURN SQLERRM;
END $$;
SELECT plan(count(*)::int + 3) FROM hint WHERE has_statement;
SELECT is(parse(hint), 'parses', hint) FROM hint WHERE has_statement ORDER BY hint;
SELECT is(parse('As the owner: SET x = on;'), 'syntax error at or near "As"', 'a sentence before a statement does not');
SELECT cmp_ok((SELECT count(*) FROM hint WHERE has_statement)::int, '>', 30, 'hints were found');
SELECT is_empty($$SELECT hint FROM hint WHERE NOT has_statement AND hint ~ ';'$$, 'a hint without a statement is a sentence');
SELECT * FROM finish();
