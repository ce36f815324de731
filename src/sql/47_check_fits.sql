-- 47_check_fits.sql: are a flow's relations as it believes them to be (src/flow/relations.c)?
--
-- Workers ask that before they read a row. Here sessions ask, where SQL would meet what differs first, and say it worse.

CREATE FUNCTION scd2_internal.check_flow_fits(flow_id integer) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_check_flow_fits' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.check_flow_fits(integer) IS
    'Raises what a flow would raise of its relations before it reads a row of them, with the name of the relation';

CREATE FUNCTION scd2_internal.misfit(w scd2_internal.flow, OUT relation oid, OUT what text, OUT code text)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    schema_of text;
    name_of text;
BEGIN
    PERFORM scd2_internal.check_flow_fits(w.flow_id);
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, what = MESSAGE_TEXT, schema_of = SCHEMA_NAME, name_of = TABLE_NAME;
    relation := (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = schema_of AND c.relname = name_of);
END $$;
COMMENT ON FUNCTION scd2_internal.misfit(scd2_internal.flow) IS
    'The first relation of a flow that is not as the flow believes it to be, and how it differs; NULL: none, or something else is wrong with the flow';

CREATE FUNCTION scd2_internal.check_target_fits_flows(target oid) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.check_flow_fits(f.flow_id) FROM scd2_internal.flow f WHERE f.target_relid = target
        AND (EXISTS (SELECT FROM scd2_internal.misfit(f) m WHERE m.relation IS NOT NULL AND m.code IN ('42703', '42804'))
             OR f.memory_name IS NOT NULL AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = f.memory_relid))
$$;
COMMENT ON FUNCTION scd2_internal.check_target_fits_flows(oid) IS
    'Raises 42703 or 42804 if columns of a target''s flows are not what they believe of them, 42P01 if its memory is gone. (Keys and rows are for check_target() to tell of.)';
