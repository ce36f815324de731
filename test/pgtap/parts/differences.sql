-- differences.sql: differences(TARGET, COLUMNS, QUERY): in how many rows a target, of which these columns are looked at, is not what the query gives.
CREATE FUNCTION differences(target text, shown text, wanted text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n bigint;
BEGIN
    EXECUTE format('WITH has AS MATERIALIZED (SELECT %1$s FROM %2$I), should AS MATERIALIZED (SELECT %3$s) SELECT (SELECT count(*) FROM (TABLE has EXCEPT ALL TABLE should) AS x) + (SELECT count(*) FROM (TABLE should EXCEPT ALL TABLE has) AS x)',
                   shown, target, wanted) INTO n;
    RETURN n;
END $$;
