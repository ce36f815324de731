-- end.sql: how every update ends (src/sql/update/make).

-- What this script did not write is of the version from before: the row of an object that was replaced is of this
-- transaction, as that of the extension is, of which ALTER EXTENSION has changed the version. No CASCADE: views and
-- functions of users over what is gone are named in the error.
DO $$
DECLARE
    gone text;
BEGIN
    FOR gone IN
        WITH own AS (SELECT d.classid, d.objid, e.xmin FROM pg_depend d JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass
            AND d.refobjid = e.oid WHERE e.extname = 'pg_scd2' AND d.deptype = 'e')
        SELECT g.what FROM (
            SELECT 1, c.oid, c.relnamespace, format('VIEW %s', c.oid::regclass)
            FROM own o JOIN pg_class c ON c.oid = o.objid JOIN pg_rewrite w ON w.ev_class = c.oid
            WHERE o.classid = 'pg_class'::regclass AND w.xmin <> o.xmin
            UNION ALL
            SELECT 2, p.oid, p.pronamespace, format('ROUTINE %s', p.oid::regprocedure) FROM own o JOIN pg_proc p ON p.oid = o.objid
            WHERE o.classid = 'pg_proc'::regclass AND p.xmin <> o.xmin) g (kind, oid, schema, what)
        WHERE g.schema IN ('scd2'::regnamespace, 'scd2_internal'::regnamespace)
        ORDER BY g.kind, g.oid DESC LOOP
        EXECUTE format('DROP %s', gone);
    END LOOP;
END $$;

-- What is new in the internal schema is not for others, as 99_end.sql has it. What has rights was there before.
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
