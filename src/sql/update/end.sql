-- end.sql: how every update ends: what is new in the internal schema is not for others, as 99_end.sql has it. (What has
-- rights was there before.)
DO $$
DECLARE
    what text;
BEGIN
    FOR what IN
        SELECT format('ROUTINE %s', p.oid::regprocedure) FROM pg_proc p WHERE p.pronamespace = 'scd2_internal'::regnamespace AND p.proacl IS NULL
        UNION ALL
        SELECT format('TABLE %s', c.oid::regclass) FROM pg_class c
        WHERE c.relnamespace = 'scd2_internal'::regnamespace AND c.relkind IN ('r', 'v') AND c.relacl IS NULL LOOP
        EXECUTE format('REVOKE ALL ON %s FROM public', what);
    END LOOP;
END $$;
