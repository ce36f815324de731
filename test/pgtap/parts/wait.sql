-- wait.sql: CALL wait_until(CONDITION), an SQL expression, outside of a transaction: returns when it is true, an error if that takes a minute.
CREATE PROCEDURE wait_until(condition text) LANGUAGE plpgsql AS $$
DECLARE
    met boolean;
BEGIN
    FOR i IN 1 .. 1200 LOOP
        EXECUTE 'SELECT ' || condition INTO met;
        COMMIT;
        IF met THEN
            RETURN;
        END IF;
        PERFORM pg_sleep(0.05);
    END LOOP;
    RAISE 'waited in vain for %', condition;
END $$;
