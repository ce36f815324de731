-- 44_flow_authorize.sql: what runs as the owner of a target, and his word for it.
--
-- Expressions belong to the role that they were written for (flow.author): the owner of the target at that time. When
-- the target has another owner (ALTER TABLE, REASSIGN OWNED, a restore under another name), its flows stop, for nobody's
-- code is to run with rights that its author has not. The new owner looks at what would run as him, and says so.

-- The roles whose functions, operators and casts an expression uses, the server's own left out; NULL: none. As the role
-- that it was written for, since to parse a literal can run code; NULL too where that cannot be done any more.
CREATE FUNCTION scd2_internal.expression_owners(expression text, relation oid, role oid) RETURNS oid[]
    AS 'MODULE_PATHNAME', 'scd2_expression_owners' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.expression_owners(text, oid, oid) IS
    'Owners of the functions that an expression over a relation calls. Errors: it does not parse';

CREATE FUNCTION scd2_internal.owners_in_expression(w scd2_internal.flow, kind text, expression text) RETURNS oid[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    feed CONSTANT oid := (SELECT f.feed_relid FROM scd2_internal.feed AS f WHERE f.feed_id = w.feed_id);
BEGIN
    IF w.author::oid = 0 OR kind = 'version_query' THEN
        RETURN NULL;
    END IF;
    RETURN scd2_internal.expression_owners(expression,
        CASE WHEN w.input = 'changes' OR kind = 'apply_as_truncates' AND w.input = 'net' THEN feed ELSE w.source_relid END, w.author);
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$;
COMMENT ON FUNCTION scd2_internal.owners_in_expression(scd2_internal.flow, text, text) IS
    'Owners of the functions that an expression of a flow calls; NULL: none, or not known';

CREATE FUNCTION scd2_internal.expressions_of(w scd2_internal.flow) RETURNS TABLE (kind text, definition text)
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT e.kind, e.definition
    FROM (VALUES ('sequence_by', w.sequence_by), ('delete_sequence_by', w.delete_sequence_by), ('end_sequence_by', w.end_sequence_by),
                 ('apply_as_deletes', w.apply_as_deletes), ('apply_as_truncates', w.apply_as_truncates), ('source_filter', w.source_filter),
                 ('initial_start', w.initial_start), ('scope', w.scope), ('version_query', w.version_query)) AS e (kind, definition)
    WHERE e.definition IS NOT NULL
$$;
COMMENT ON FUNCTION scd2_internal.expressions_of(scd2_internal.flow) IS 'The expressions of a flow, by argument';

-- A superuser's flow calls what superusers own. (That is refused when it runs, too: src/worker/code.c.)
CREATE FUNCTION scd2_internal.check_expression_owners(w scd2_internal.flow) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bad record;
BEGIN
    IF w.trusted OR NOT (SELECT r.rolsuper FROM pg_roles AS r WHERE r.oid = w.author) THEN
        RETURN;
    END IF;
    SELECT e.kind, pg_get_userbyid(o) AS owner INTO bad
        FROM scd2_internal.expressions_of(w) AS e, unnest(scd2_internal.owners_in_expression(w, e.kind, e.definition)) AS o
            JOIN pg_roles AS r ON r.oid = o
        WHERE NOT r.rolsuper LIMIT 1;
    IF FOUND THEN
        RAISE insufficient_privilege USING MESSAGE = format('target of flow belongs to a superuser, a function in %s does not', bad.kind),
            DETAIL = format('What its owner, role "%s", wrote would run as superuser "%s".', bad.owner, pg_get_userbyid(w.author)),
            HINT = 'Give trust => true if that role is to be trusted.';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_expression_owners(scd2_internal.flow) IS
    'Raises 42501 if a flow that acts as a superuser calls functions that none owns, unless it is trusted';

-- What hangs on a table and can run when it is written, read or analyzed; our own guard left out.
CREATE FUNCTION scd2_internal.code_on(relation oid)
    RETURNS TABLE (kind text, object text, definition text, class oid, id oid)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'trigger', t.tgname, pg_get_triggerdef(t.oid), 'pg_trigger'::regclass, t.oid
        FROM pg_trigger AS t WHERE t.tgrelid = relation AND NOT t.tgisinternal AND t.tgfoid <> 'scd2_internal.guard()'::regprocedure
    UNION ALL SELECT 'rule', r.rulename, pg_get_ruledef(r.oid), 'pg_rewrite'::regclass, r.oid FROM pg_rewrite AS r WHERE r.ev_class = relation
    UNION ALL SELECT CASE c.contype WHEN 'f' THEN 'foreign key' ELSE 'check' END, c.conname, pg_get_constraintdef(c.oid), 'pg_constraint'::regclass, c.oid
        FROM pg_constraint AS c WHERE c.conrelid = relation AND c.contype IN ('c', 'f')
    UNION ALL SELECT 'index', c.relname, pg_get_indexdef(i.indexrelid), 'pg_class'::regclass, i.indexrelid
        FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid WHERE i.indrelid = relation
    UNION ALL SELECT 'statistics', s.stxname, pg_get_statisticsobjdef(s.oid), 'pg_statistic_ext'::regclass, s.oid FROM pg_statistic_ext AS s WHERE s.stxrelid = relation
    UNION ALL SELECT 'policy', p.polname, concat_ws(' ', 'USING (' || pg_get_expr(p.polqual, p.polrelid) || ')', 'WITH CHECK (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')'),
            'pg_policy'::regclass, p.oid FROM pg_policy AS p WHERE p.polrelid = relation
    UNION ALL SELECT CASE a.attgenerated WHEN '' THEN 'default' ELSE 'generated column' END, a.attname, pg_get_expr(d.adbin, d.adrelid), 'pg_attrdef'::regclass, d.oid
        FROM pg_attrdef AS d JOIN pg_attribute AS a ON a.attrelid = d.adrelid AND a.attnum = d.adnum WHERE d.adrelid = relation
    UNION ALL SELECT 'column type', a.attname, format_type(a.atttypid, a.atttypmod), 'pg_type'::regclass, a.atttypid
        FROM pg_attribute AS a WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384
$$;
COMMENT ON FUNCTION scd2_internal.code_on(oid) IS 'Triggers, rules, checks, indexes, statistics, policies, defaults and types of a table; class and id: its row in the catalogs';

-- Whose functions, operators, operator classes and types an object depends on, the server's own left out.
CREATE FUNCTION scd2_internal.owners_of_code(class oid, id oid) RETURNS oid[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT array_agg(DISTINCT o.owner ORDER BY o.owner)
    FROM (SELECT owners_of_code.class AS refclassid, owners_of_code.id AS refobjid
          UNION ALL SELECT d.refclassid, d.refobjid FROM pg_depend AS d WHERE d.classid = owners_of_code.class AND d.objid = owners_of_code.id) AS r
        CROSS JOIN LATERAL (
            SELECT p.proowner FROM pg_proc AS p WHERE r.refclassid = 'pg_proc'::regclass AND p.oid = r.refobjid
            UNION ALL SELECT x.oprowner FROM pg_operator AS x WHERE r.refclassid = 'pg_operator'::regclass AND x.oid = r.refobjid
            UNION ALL SELECT p.proowner FROM pg_operator AS x JOIN pg_proc AS p ON p.oid = x.oprcode WHERE r.refclassid = 'pg_operator'::regclass AND x.oid = r.refobjid
            UNION ALL SELECT c.opcowner FROM pg_opclass AS c WHERE r.refclassid = 'pg_opclass'::regclass AND c.oid = r.refobjid
            UNION ALL SELECT t.typowner FROM pg_type AS t WHERE r.refclassid = 'pg_type'::regclass AND t.oid = r.refobjid) AS o (owner)
    WHERE r.refobjid >= 16384
$$;
COMMENT ON FUNCTION scd2_internal.owners_of_code(oid, oid) IS 'Owners of what an object calls or is made of; NULL: the server''s own alone';

-- All that a flow runs as the owner of its target. A row for each owner of a function that is called; without one, NULL.
CREATE FUNCTION scd2_internal.code_of_flow(w scd2_internal.flow)
    RETURNS TABLE (flow name, kind text, object text, definition text, owner name)
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT w.name, c.kind, c.object, c.definition, pg_get_userbyid(o)
    FROM (SELECT e.kind, w.name::text AS object, e.definition, scd2_internal.owners_in_expression(w, e.kind, e.definition) AS owners
          FROM scd2_internal.expressions_of(w) AS e
          UNION ALL
          SELECT x.kind, format('%s.%I', w.target_relid::regclass, x.object), x.definition, scd2_internal.owners_of_code(x.class, x.id)
          FROM scd2_internal.code_on(w.target_relid) AS x
          UNION ALL             -- what came to hang on the memory by another way; its primary key and columns are the target's
          SELECT x.kind, format('%s.%I', w.memory_relid::regclass, x.object), x.definition, scd2_internal.owners_of_code(x.class, x.id)
          FROM scd2_internal.code_on(w.memory_relid) AS x
          WHERE x.kind <> 'column type' AND NOT EXISTS (SELECT FROM pg_index AS i WHERE i.indexrelid = x.id AND i.indisprimary)) AS c
        LEFT JOIN LATERAL unnest(c.owners) AS o ON true
$$;
COMMENT ON FUNCTION scd2_internal.code_of_flow(scd2_internal.flow) IS
    'What a flow runs as the owner of its target: its expressions, and what hangs on the target, each with the owners of the functions that it calls';

CREATE FUNCTION scd2_internal.authorize_flow(caller oid, VARIADIC names name[])
    RETURNS TABLE (flow name, kind text, object text, definition text, owner name)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    w     scd2_internal.flow;
    holds oid;
    asked name;
BEGIN
    IF names = '{}' OR array_position(names, NULL) IS NOT NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'names of flows must be given, and not be NULL';
    END IF;
    FOR asked IN SELECT DISTINCT n FROM unnest(names) AS n ORDER BY n LOOP
        SELECT f.* INTO w FROM scd2_internal.flow AS f WHERE f.name = asked FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            w := scd2_internal.find_flow(caller, asked);
        END IF;
        PERFORM scd2_internal.lock_tables(ARRAY[w.target_relid::oid], ARRAY['ACCESS SHARE']);   -- its owner stays what it is
        holds := (SELECT c.relowner FROM pg_class AS c WHERE c.oid = w.target_relid);
        PERFORM scd2_internal.check_can_set_role(caller, coalesce(holds, 10), scd2_internal.label(w.target_relid));
        RETURN QUERY SELECT c.* FROM scd2_internal.code_of_flow(w) AS c ORDER BY 2, 3, 5;
        UPDATE scd2_internal.flow AS f SET author = holds, trusted = f.trusted AND f.author = holds, definition = f.definition + 1
            WHERE f.flow_id = w.flow_id;
        UPDATE scd2_internal.flow_state AS s SET phase = coalesce(s.failed_phase, s.phase), failed_phase = NULL, failures = 0, retry_at = NULL
            WHERE s.flow_id = w.flow_id AND (s.failures > 0 OR s.failed_phase IS NOT NULL);
    END LOOP;
    PERFORM scd2_internal.wake_apply_at_commit();
END $$;
COMMENT ON FUNCTION scd2_internal.authorize_flow(oid, name[]) IS
    'What scd2.authorize_flow() does, with the rights of the extension''s owner; "caller" is whose rights count';

CREATE FUNCTION scd2.authorize_flow(VARIADIC names name[])
    RETURNS TABLE (flow name, kind text, object text, definition text, owner name)
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2.authorize_flow(name[]) IS
    'After the target of these flows got another owner: their expressions and what hangs on the target run as that owner '
    'from this commit on. Returns all of it, to be looked at before COMMIT: kind, object and definition, and the owner of '
    'a function that it calls (a row for each; NULL: the server''s own only). Flows that have failed go on. 42704 no such '
    'flow, 42501 the caller cannot SET ROLE to the owner of the target, 22004 no name.';
