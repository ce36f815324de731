-- 06_span.sql: lengths of time that users give (src/span.c).

CREATE FUNCTION scd2_internal.bounded(span interval) RETURNS interval
    AS 'MODULE_PATHNAME', 'scd2_bounded' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION scd2_internal.bounded(interval) IS
    'A length of time that is stored: from 0 to 1000 years, the nearest of these if it is another';

CREATE FUNCTION scd2_internal.check_span(argument text, span interval) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF span::text <> scd2_internal.bounded(span)::text THEN
        RAISE invalid_parameter_value USING MESSAGE = format(CASE WHEN span < interval '0' THEN '%s must not be negative: %s'
            ELSE '%s must be at most 1000 years: %s' END, argument, span);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_span(text, interval) IS
    'Raises 22023 unless an argument is from 0 to 1000 years; NULL is';
