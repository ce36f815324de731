-- 52_memory.sql: <target>_memory stays as it was made.
--
-- It is a table of the target's owner, who can have it renamed, granted, commented on, moved and vacuumed. What its
-- flows would not find any more is refused when it is asked for, in the transaction of the statement: to drop it while
-- its target is there, to alter its columns or its primary key, and to hang on it what would see its rows come and go.
-- By event triggers, which fire under session_replication_role = replica too. (What comes by another way is found by
-- the flows: src/flow/relations.c. full_refresh() makes such a memory anew, and one that is gone.)

-- pg_restore --clean takes everything apart, one object at a time, and puts it together again.
CREATE FUNCTION scd2_internal.memory_may_change() RETURNS boolean
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT current_setting('pg_scd2.own_ddl')::boolean OR scd2_internal.awaits_resume()
        OR NOT current_setting('check_function_bodies')::boolean AND NOT current_setting('row_security')::boolean
            AND current_setting('xmloption') = 'content'
$$;
COMMENT ON FUNCTION scd2_internal.memory_may_change() IS
    'Whether a memory is altered by us, or by a restore, which is known by its settings';

CREATE FUNCTION scd2_internal.memory_misfit(w scd2_internal.flow) RETURNS text
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN w.memory_name IS NULL THEN NULL
                WHEN NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = w.memory_relid) THEN format('memory %I.%I does not exist', w.target_schema, w.memory_name)
                ELSE (SELECT m.what FROM scd2_internal.misfit(w) m WHERE m.relation = w.memory_relid) END
$$;
COMMENT ON FUNCTION scd2_internal.memory_misfit(scd2_internal.flow) IS
    'In what the memory of a flow is not as it was made, or that it is gone; NULL: it is, or something else is wrong with the flow';

-- What the statement has put on it: a trigger, rule, policy or index, or, of the table itself, constraints and defaults.
CREATE FUNCTION scd2_internal.memory_strangers(memory oid, class oid, object oid) RETURNS SETOF text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('trigger "%s" would run whenever a flow writes it', t.tgname) FROM pg_trigger t
        WHERE class = 'pg_trigger'::regclass AND t.oid = object AND t.tgname <> 'scd2_guard'
    UNION ALL SELECT format('rule "%s" would rewrite what flows do to it', r.rulename) FROM pg_rewrite r
        WHERE class = 'pg_rewrite'::regclass AND r.oid = object
    UNION ALL SELECT format('index "%s" would be checked or computed whenever a flow writes it', object::regclass) FROM pg_index i
        WHERE class = 'pg_class'::regclass AND i.indexrelid = object AND NOT i.indisprimary AND (i.indisunique OR i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
    UNION ALL SELECT format('constraint "%s" would be checked whenever a flow writes it', c.conname) FROM pg_constraint c
        WHERE class = 'pg_class'::regclass AND object = memory AND (c.conrelid = memory AND c.contype NOT IN ('p', 'n') OR c.confrelid = memory)
    UNION ALL SELECT format('table "%s" inherits from it, or it from that', scd2_internal.label(CASE h.inhrelid WHEN memory THEN h.inhparent ELSE h.inhrelid END)) FROM pg_inherits h
        WHERE class = 'pg_class'::regclass AND object = memory AND memory IN (h.inhparent, h.inhrelid)
    UNION ALL SELECT format('column "%s" has a default', a.attname) FROM pg_attribute a
        WHERE class = 'pg_class'::regclass AND object = memory AND a.attrelid = memory AND a.attnum > 0 AND NOT a.attisdropped AND (a.atthasdef OR a.attidentity <> '')
$$;
COMMENT ON FUNCTION scd2_internal.memory_strangers(oid, oid, oid) IS
    'What is wrong with an object that a statement has put on a memory, a row each';

CREATE FUNCTION scd2_internal.refuse_memory_change(w scd2_internal.flow, what text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.refuse('55000', format('table "%s" cannot be altered: it is what flows into "%s" remember', scd2_internal.label(w.memory_relid), scd2_internal.label(w.target_relid)),
        format('Afterwards, %s.', what), format('SELECT scd2.drop_flow(%L); -- the table goes with the last flow into its target', w.name));
END $$;
COMMENT ON FUNCTION scd2_internal.refuse_memory_change(scd2_internal.flow, text) IS 'Raises 55000';

CREATE FUNCTION scd2_internal.on_memory_altered() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = on AS $$
DECLARE
    c record;
    what text;
BEGIN
    IF scd2_internal.memory_may_change() THEN
        RETURN;
    END IF;
    FOR c IN
        SELECT DISTINCT ON (m.relation, d.classid, d.objid) f AS flow, m.relation, d.classid AS class, d.objid AS object
        FROM pg_event_trigger_ddl_commands() d
            CROSS JOIN LATERAL (SELECT d.objid WHERE d.classid = 'pg_class'::regclass
                                UNION SELECT i.indrelid FROM pg_index i WHERE d.classid = 'pg_class'::regclass AND i.indexrelid = d.objid
                                UNION SELECT unnest(ARRAY[h.inhrelid, h.inhparent]) FROM pg_inherits h WHERE d.classid = 'pg_class'::regclass AND d.objid IN (h.inhparent, h.inhrelid)
                                UNION SELECT t.tgrelid FROM pg_trigger t WHERE d.classid = 'pg_trigger'::regclass AND t.oid = d.objid
                                UNION SELECT k.confrelid FROM pg_constraint k WHERE d.classid = 'pg_class'::regclass AND k.conrelid = d.objid AND k.contype = 'f'
                                UNION SELECT r.ev_class FROM pg_rewrite r WHERE d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid) m (relation)
            JOIN scd2_internal.flow f ON f.memory_relid = m.relation
        WHERE EXISTS (SELECT FROM pg_class t WHERE t.oid = f.target_relid)
        ORDER BY m.relation, d.classid, d.objid, f.flow_id
    LOOP
        what := scd2_internal.memory_misfit(c.flow);
        IF what IS NULL THEN
            SELECT s INTO what FROM scd2_internal.memory_strangers(c.relation, c.class, CASE WHEN c.class = 'pg_class'::regclass
                AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indexrelid = c.object) THEN c.relation ELSE c.object END) s LIMIT 1;
        END IF;
        PERFORM scd2_internal.refuse_memory_change(c.flow, what) WHERE what IS NOT NULL;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.on_memory_altered() IS
    'Errors: 55000 a memory would not be as it was made';

CREATE EVENT TRIGGER scd2_on_memory_altered ON ddl_command_end
    WHEN TAG IN ('ALTER TABLE', 'ALTER INDEX', 'CREATE INDEX', 'CREATE TRIGGER', 'CREATE RULE', 'CREATE TABLE')
    EXECUTE FUNCTION scd2_internal.on_memory_altered();
ALTER EVENT TRIGGER scd2_on_memory_altered ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER scd2_on_memory_altered IS 'What targets'' flows remember stays as it was made';

-- Whatever drops it, as DROP SCHEMA and DROP OWNED do: with its target it may go.
CREATE FUNCTION scd2_internal.on_memory_dropped() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = on AS $$
DECLARE
    d record;
    what text;
BEGIN
    IF scd2_internal.memory_may_change() THEN
        RETURN;
    END IF;
    FOR d IN
        SELECT DISTINCT ON (o.objid) f AS flow, o.objid, o.objsubid, o.schema_name, split_part(o.object_identity, '.', 2) AS label
        FROM pg_event_trigger_dropped_objects() o JOIN scd2_internal.flow f ON f.memory_relid = o.objid
        WHERE o.classid = 'pg_class'::regclass AND EXISTS (SELECT FROM pg_class t WHERE t.oid = f.target_relid)
        ORDER BY o.objid, o.objsubid, f.flow_id
    LOOP
        IF d.objsubid = 0 THEN
            PERFORM scd2_internal.refuse('2BP01', format('cannot drop table "%s.%s": it is what flows into "%s" remember', (d.flow).target_schema, (d.flow).memory_name, scd2_internal.label((d.flow).target_relid)),
                'What the rows of the target do not show of their events is nowhere else.',
                format('SELECT scd2.drop_flow(%L); -- it goes with the last flow into its target', (d.flow).name));
        END IF;
        what := scd2_internal.memory_misfit(d.flow);
        PERFORM scd2_internal.refuse_memory_change(d.flow, what) WHERE what IS NOT NULL;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.on_memory_dropped() IS
    'Errors: 2BP01 a memory was dropped without its target, 55000 a column that it needs';

CREATE EVENT TRIGGER scd2_on_memory_dropped ON sql_drop EXECUTE FUNCTION scd2_internal.on_memory_dropped();
ALTER EVENT TRIGGER scd2_on_memory_dropped ENABLE ALWAYS;
COMMENT ON EVENT TRIGGER scd2_on_memory_dropped IS 'What targets'' flows remember is not dropped without the target';

-- Part of full_refresh, whose flows are locked. The collation of sequences is that of the target's start; where nothing
-- shows it, that of the type.
CREATE FUNCTION scd2_internal.remake_memory(target oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    w scd2_internal.flow;
BEGIN
    SELECT f.* INTO w FROM scd2_internal.flow f WHERE f.target_relid = target ORDER BY f.flow_id LIMIT 1;
    IF scd2_internal.memory_misfit(w) IS NULL THEN
        RETURN;
    END IF;
    PERFORM scd2_internal.lock_flow(f.flow_id) FROM scd2_internal.flow f WHERE f.target_relid = target ORDER BY f.flow_id;
    UPDATE scd2_internal.flow f SET memory_relid = 0::oid WHERE f.target_relid = target;
    IF EXISTS (SELECT FROM pg_class c WHERE c.oid = w.memory_relid) THEN
        PERFORM scd2_internal.lock_tables(ARRAY[w.memory_relid::oid], ARRAY['ACCESS EXCLUSIVE']);
        EXECUTE format('DROP TABLE %s', scd2_internal.fixed_name(w.memory_relid));
    END IF;
    w := scd2_internal.give_memory(w, target, coalesce(
        (SELECT a.attcollation FROM pg_attribute a WHERE a.attrelid = target AND a.attname = w.start_column AND NOT a.attisdropped AND w.scd_type = 2),
        (SELECT t.typcollation FROM pg_type t WHERE t.oid = w.sequence_type::regtype)));
    UPDATE scd2_internal.flow f SET memory_relid = w.memory_relid, memory_name = w.memory_name, definition = f.definition + 1 WHERE f.target_relid = target;
END $$;
COMMENT ON FUNCTION scd2_internal.remake_memory(oid) IS
    'Makes the memory of a target anew if it is gone, or is not as it was made. Errors: 55P03';
