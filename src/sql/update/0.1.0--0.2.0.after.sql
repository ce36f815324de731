-- 0.1.0--0.2.0.after.sql: rights on what is new and public (GRANT, REVOKE), data that new functions move, and a WARNING
-- with the statement that helps for each thing that is not from now on as it was before.

-- Each flow is authorized for the present owner of its target, as whom it ran all along. The catalogs do not say who wrote
-- it: a superuser looks at what others may have written before it runs as him. (A column's name is no code.)
UPDATE scd2_internal.flow f SET author = c.relowner FROM pg_class c WHERE c.oid = f.target_relid;
DO $$
DECLARE
    w scd2_internal.flow;
    why text;
BEGIN
    FOR w IN SELECT f.* FROM scd2_internal.flow f JOIN pg_roles r ON r.oid = f.author WHERE r.rolsuper ORDER BY f.name LOOP
        why := (SELECT format('It has the expression %s => %L.', e.kind, e.definition) FROM scd2_internal.expressions_of(w) e
                WHERE e.definition !~ '^[[:space:]]*([a-z_][a-z0-9_]*|"[^"]+")[[:space:]]*$' AND e.definition <> '_change_type = ''truncate''' LIMIT 1);
        why := coalesce(why, (SELECT format('What role "%s" owns is called by %s %s.', c.owner, c.kind, c.object) FROM scd2_internal.code_of_flow(w) c
                JOIN pg_roles r ON r.rolname = c.owner WHERE NOT r.rolsuper LIMIT 1));
        IF why IS NULL THEN
            BEGIN
                PERFORM scd2_internal.check_rights(w.author, w.target_relid, array_remove(ARRAY[w.source_relid::oid,
                    (SELECT f.feed_relid::oid FROM scd2_internal.feed f WHERE f.feed_id = w.feed_id)], NULL), false);
            EXCEPTION WHEN insufficient_privilege THEN
                why := initcap(left(SQLERRM, 1)) || substr(SQLERRM, 2) || '.';
            END;
        END IF;
        IF why IS NOT NULL THEN
            UPDATE scd2_internal.flow f SET author = '-' WHERE f.flow_id = w.flow_id;
            RAISE WARNING 'flow "%" does not run until it is authorized: it acts as superuser "%"', w.name, pg_get_userbyid(w.author)
                USING DETAIL = why, HINT = format('SELECT * FROM scd2.authorize_flow(%L);', w.name);
        END IF;
    END LOOP;
END $$;

-- Which functions <target>_as_of are ours is known by a dependency from now on.
SELECT scd2_internal.follow_all_as_of();

-- Feeds have no code of users any more. Where they have some, their changes wait.
DO $$
DECLARE
    u record;
BEGIN
    FOR u IN SELECT scd2_internal.label(f.source_relid) AS source, x.* FROM scd2_internal.feed f, scd2_internal.unfit_on_feed(f.feed_relid) x
             WHERE NOT f.disabled AND EXISTS (SELECT FROM pg_class c WHERE c.oid = f.feed_relid) ORDER BY 1, 2 LOOP
        RAISE WARNING '% may not stand on the change data feed of table "%" any more: what is captured of the table waits until that is gone', u.what, u.source
            USING DETAIL = u.why, HINT = u.fix;
    END LOOP;
END $$;
