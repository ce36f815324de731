-- 32_feed_bare.sql: what may stand on a feed and its partitions.
--
-- One process writes the feeds of everybody, as a superuser. So no code of users runs there: a feed's relation has none,
-- and what may stand on it is a short list.
--
--   indexes       btree, hash and BRIN, on plain columns, not unique, without a predicate; the functions of their
--                 operator classes are in C, as those of the server and of citext
--   statistics    on plain columns
--   grants, comments, policies, publications, storage parameters, tablespaces, the owner, row level security
--   what is ours  NOT NULL of the metadata, the BRIN index, the guard
--
-- unfit_on() is that list, as what it leaves out. Statements that put something else there are refused
-- (src/feed/bare.c), also with session_replication_role = replica and event_triggers = off. What came another way (from
-- version 0.1.0, in a restore, by DDL of functions and operator classes) is shown by diagnose, with the statement that
-- removes it; until then the changes of that feed wait (src/capture/backlog.c).
--
-- While a dump is being restored nothing is refused: capture begins with resume_capture().

-- What else shall be kept as it was made is another branch here.
CREATE FUNCTION scd2_internal.kept_bare(relation oid) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT format('change data feed "%s"', scd2_internal.label(f.feed_relid))
    FROM scd2_internal.feed f
    WHERE NOT f.disabled AND (f.feed_relid = relation
        OR f.feed_relid IN (SELECT i.inhparent FROM pg_inherits i WHERE i.inhrelid = relation)) LIMIT 1
$$;
COMMENT ON FUNCTION scd2_internal.kept_bare(oid) IS
    'What a relation is, for messages, on which nothing may stand that runs code of users: a feed or a partition of one; NULL: another';

CREATE FUNCTION scd2_internal.is_in_c(function oid) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT l.lanname IN ('internal', 'c') FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang WHERE p.oid = function
$$;
COMMENT ON FUNCTION scd2_internal.is_in_c(oid) IS 'Whether a function is in C, which only superusers write; NULL: there is none';

-- Functions of an operator class, and, for BRIN, which computes ranges, those of a range type.
CREATE FUNCTION scd2_internal.code_of_index(index oid) RETURNS SETOF regprocedure
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT f.function::regprocedure
    FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_opclass o ON o.oid = ANY (x.indclass),
         LATERAL (SELECT p.amproc::oid FROM pg_amproc p
                  WHERE p.amprocfamily = o.opcfamily AND o.opcintype IN (p.amproclefttype, p.amprocrighttype)
                  UNION
                  SELECT r.oprcode::oid FROM pg_amop m JOIN pg_operator r ON r.oid = m.amopopr
                  WHERE m.amopfamily = o.opcfamily AND o.opcintype IN (m.amoplefttype, m.amoprighttype)
                  UNION
                  SELECT g.rngcanonical::oid
                  FROM pg_attribute a JOIN pg_range g ON g.rngtypid = a.atttypid JOIN pg_am m ON m.oid = i.relam AND m.amname = 'brin'
                  WHERE a.attrelid = x.indrelid AND a.attnum = ANY (x.indkey)) f (function)
    WHERE x.indexrelid = index AND NOT scd2_internal.is_in_c(f.function)
    ORDER BY 1
$$;
COMMENT ON FUNCTION scd2_internal.code_of_index(oid) IS 'Functions that an index on plain columns calls and that are not in C';

CREATE FUNCTION scd2_internal.unfit_index(index oid) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN a.amname NOT IN ('btree', 'hash', 'brin') THEN format('Its access method is %s; btree, hash and brin may be.', a.amname)
                WHEN x.indisunique THEN 'It is unique.'
                WHEN x.indpred IS NOT NULL THEN 'It has a predicate.'
                WHEN x.indexprs IS NOT NULL THEN 'It has expressions.'
                ELSE (SELECT format('It calls function %s, which is not in C.', f) FROM scd2_internal.code_of_index(index) f LIMIT 1) END
    FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_am a ON a.oid = i.relam WHERE x.indexrelid = index
$$;
COMMENT ON FUNCTION scd2_internal.unfit_index(oid) IS 'Why an index may not stand on a feed; NULL: it may';

-- Parts of unfit_on(): what the catalogs have of a relation, each with how it is told of.
CREATE FUNCTION scd2_internal.unfit_objects(r oid)
    RETURNS TABLE (class oid, object oid, sub integer, what text, why text, fix text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT 'pg_class'::regclass::oid, x.indexrelid, 0, format('index "%s"', scd2_internal.label(x.indexrelid)), u, format('DROP INDEX %s;', x.indexrelid::regclass)
    FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid, scd2_internal.unfit_index(x.indexrelid) u
    WHERE x.indrelid = r AND NOT i.relispartition AND u IS NOT NULL
      AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = x.indexrelid AND c.conrelid = r)
    UNION ALL
    SELECT 'pg_constraint'::regclass, c.oid, 0, format('constraint "%s" on "%s"', c.conname, scd2_internal.label(r)),
        'Constraints may not.', format('ALTER TABLE %s DROP CONSTRAINT %I;', r::regclass, c.conname)
    FROM pg_constraint c
    WHERE c.conrelid = r AND c.coninhcount = 0 AND c.conparentid = 0 AND NOT (c.contype = 'n' AND c.conkey[1] <= 5)
    UNION ALL
    SELECT 'pg_trigger'::regclass, t.oid, 0, format('trigger "%s" on "%s"', t.tgname, scd2_internal.label(r)),
        'Triggers may not.', format('DROP TRIGGER %I ON %s;', t.tgname, r::regclass)
    FROM pg_trigger t
    WHERE t.tgrelid = r AND NOT t.tgisinternal AND t.tgparentid = 0 AND t.tgfoid <> 'scd2_internal.guard()'::regprocedure
    UNION ALL
    SELECT 'pg_rewrite'::regclass, w.oid, 0, format('rule "%s" on "%s"', w.rulename, scd2_internal.label(r)),
        'Rules may not.', format('DROP RULE %I ON %s;', w.rulename, r::regclass)
    FROM pg_rewrite w WHERE w.ev_class = r
    UNION ALL
    SELECT 'pg_statistic_ext'::regclass, s.oid, 0, format('statistics object "%s.%s"', n.nspname, s.stxname),
        'It has expressions.', format('DROP STATISTICS %I.%I;', n.nspname, s.stxname)
    FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace WHERE s.stxrelid = r AND s.stxexprs IS NOT NULL
$$;
COMMENT ON FUNCTION scd2_internal.unfit_objects(oid) IS
    'Indexes, constraints, triggers, rules and statistics on a relation that may not stand on a feed';

-- Partitions have what the feed has: only what is theirs alone is told of.
CREATE FUNCTION scd2_internal.unfit_columns(r oid)
    RETURNS TABLE (class oid, object oid, sub integer, what text, why text, fix text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH a AS (
        SELECT c.*, y.typtype, format('ALTER TABLE %s ALTER COLUMN %I', r::regclass, c.attname) AS alter,
            (SELECT p FROM pg_inherits i JOIN pg_attribute p ON p.attrelid = i.inhparent AND p.attname = c.attname WHERE i.inhrelid = r) AS above
        FROM pg_attribute c JOIN pg_type y ON y.oid = c.atttypid
        WHERE c.attrelid = r AND c.attnum > 0 AND NOT c.attisdropped)
    SELECT k.class::oid, r, a.attnum::integer, format('%s column "%s" of "%s"', k.what, a.attname, scd2_internal.label(r)), k.why, k.fix
    FROM a, LATERAL (VALUES
        ('pg_class'::regclass, a.attnotnull AND a.attnum > 5 AND a.attidentity = '' AND (a.above).attnotnull IS NOT TRUE
             AND NOT EXISTS (SELECT FROM pg_constraint n WHERE n.conrelid = r AND (n.contype = 'n' AND n.conkey[1] = a.attnum OR n.contype = 'p' AND a.attnum = ANY (n.conkey))),
            'NOT NULL on', 'Constraints may not.', a.alter || ' DROP NOT NULL;'),
        ('pg_attrdef'::regclass, a.atthasdef AND a.attgenerated = '' AND (a.above).atthasdef IS NOT TRUE,
            'the default of', 'Defaults may not.', a.alter || ' DROP DEFAULT;'),
        ('pg_attrdef'::regclass, a.attgenerated <> '' AND coalesce((a.above).attgenerated, '') = '',
            'generated', 'Generated columns may not.', CASE a.attgenerated WHEN 's' THEN a.alter || ' DROP EXPRESSION;' ELSE format('ALTER TABLE %s DROP COLUMN %I;', r::regclass, a.attname) END),
        ('pg_class'::regclass, a.attidentity <> '' AND coalesce((a.above).attidentity, '') = '',
            'identity', 'Defaults may not.', a.alter || ' DROP IDENTITY;'),
        ('pg_class'::regclass, a.typtype = 'd' AND (a.above).atttypid IS DISTINCT FROM a.atttypid,
            'the domain of', 'Domains have checks; columns of feeds have the type below.',
            a.alter || format(' TYPE %s;', (SELECT format_type(b.base, b.base_typmod) FROM scd2_internal.base_type(a.atttypid, a.atttypmod) b)))
        ) k (class, applies, what, why, fix)
    WHERE k.applies
$$;
COMMENT ON FUNCTION scd2_internal.unfit_columns(oid) IS 'What columns of a relation have that those of a feed may not';

-- Types that are made of a feed's row type, and columns of it, keep the server from changing the feed's columns.
CREATE FUNCTION scd2_internal.made_of_rows(relations oid[])
    RETURNS TABLE (class oid, object oid, sub integer, relation oid, what text, fix text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT d.classid, d.objid, d.objsubid, c.oid,
        CASE d.classid WHEN 'pg_type'::regclass THEN format('type "%s"', d.objid::regtype) ELSE format('column "%s" of "%s"', a.attname, scd2_internal.label(u.oid)) END,
        CASE WHEN d.classid = 'pg_type'::regclass THEN format('DROP TYPE %s;', d.objid::regtype)
             WHEN u.relkind = 'c' THEN format('ALTER TYPE %s ALTER ATTRIBUTE %I TYPE text;', u.oid::regclass, a.attname)
             WHEN u.relkind = 'm' THEN format('DROP MATERIALIZED VIEW %s;', u.oid::regclass)
             ELSE format('ALTER TABLE %s ALTER COLUMN %I TYPE text;', u.oid::regclass, a.attname) END
    FROM pg_class c JOIN pg_type y ON y.oid = c.reltype
         JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid IN (y.oid, y.typarray) AND d.deptype = 'n'
         LEFT JOIN pg_class u ON d.classid = 'pg_class'::regclass AND u.oid = d.objid
         LEFT JOIN pg_attribute a ON a.attrelid = u.oid AND a.attnum = d.objsubid
    WHERE c.oid = ANY (relations) AND (d.classid = 'pg_type'::regclass OR a.attnum > 0 AND u.relkind IN ('r', 'p', 'm', 'f', 'c'))
$$;
COMMENT ON FUNCTION scd2_internal.made_of_rows(oid[]) IS 'Columns and types that are made of the row types of these relations';

CREATE FUNCTION scd2_internal.unfit_on(relation oid)
    RETURNS TABLE (class oid, object oid, sub integer, what text, why text, fix text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM scd2_internal.unfit_objects(relation)
    UNION ALL
    SELECT * FROM scd2_internal.unfit_columns(relation)
    UNION ALL
    SELECT 'pg_class'::regclass, c.oid, 0, format('%s table "%s"', k.what, scd2_internal.label(c.oid)), k.why, k.fix
    FROM pg_class c LEFT JOIN pg_am m ON m.oid = c.relam, LATERAL (VALUES
        (c.relpersistence <> 'p', 'unlogged', 'What is written there is lost in a crash.', format('ALTER TABLE %s SET LOGGED;', c.oid::regclass)),
        (c.relkind = 'r' AND m.amname <> 'heap', m.amname || ' as access method of', 'Capture writes heap tables.', format('ALTER TABLE %s SET ACCESS METHOD heap;', c.oid::regclass)),
        (c.relkind NOT IN ('r', 'p') OR c.relkind = 'p' AND c.relispartition, 'foreign or partitioned', 'Capture writes heap tables.', NULL),
        (c.reloftype <> 0, 'typed', 'Its columns follow a type.', format('ALTER TABLE %s NOT OF;', c.oid::regclass))
        ) k (applies, what, why, fix)
    WHERE c.oid = relation AND k.applies
    UNION ALL
    SELECT 'pg_inherits'::regclass, i.inhrelid, 0, format('table "%s" as a partition of "%s"', scd2_internal.label(i.inhrelid), scd2_internal.label(i.inhparent)),
        'A feed stands alone.', format('ALTER TABLE %s DETACH PARTITION %s;', i.inhparent::regclass, i.inhrelid::regclass)
    FROM pg_inherits i WHERE i.inhrelid = relation AND EXISTS (SELECT FROM scd2_internal.feed f WHERE f.feed_relid = relation AND NOT f.disabled)
    UNION ALL
    SELECT m.class, m.object, m.sub, m.what || format(' of the row type of "%s"', scd2_internal.label(m.relation)),
        'It keeps the feed''s columns from following those of its source.', m.fix
    FROM scd2_internal.made_of_rows(ARRAY[relation]) m
$$;
COMMENT ON FUNCTION scd2_internal.unfit_on(oid) IS
    'What stands on a feed, or a partition of one, that may not, as catalog and object; why; and the statement that removes it';

CREATE FUNCTION scd2_internal.unfit_on_feed(feed oid) RETURNS TABLE (what text, why text, fix text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT u.what, u.why, u.fix
    FROM (SELECT feed AS r UNION ALL SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = feed) x, scd2_internal.unfit_on(x.r) u
        LEFT JOIN pg_constraint c ON u.class = 'pg_constraint'::regclass AND c.oid = u.object
    ORDER BY x.r, u.class, c.contype = 'n', u.object, u.sub -- NOT NULL goes after the primary key that needs it
$$;
COMMENT ON FUNCTION scd2_internal.unfit_on_feed(oid) IS 'What stands on a feed and its partitions that may not';

-- The relation that an object stands on; a column''s or table''s own.
CREATE FUNCTION scd2_internal.stands_on(class oid, object oid) RETURNS oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE class
        WHEN 'pg_class'::regclass THEN coalesce((SELECT x.indrelid FROM pg_index x WHERE x.indexrelid = object), object)
        WHEN 'pg_constraint'::regclass THEN (SELECT nullif(c.conrelid, 0) FROM pg_constraint c WHERE c.oid = object)
        WHEN 'pg_trigger'::regclass THEN (SELECT t.tgrelid FROM pg_trigger t WHERE t.oid = object)
        WHEN 'pg_rewrite'::regclass THEN (SELECT w.ev_class FROM pg_rewrite w WHERE w.oid = object)
        WHEN 'pg_statistic_ext'::regclass THEN (SELECT s.stxrelid FROM pg_statistic_ext s WHERE s.oid = object)
        WHEN 'pg_type'::regclass THEN NULL
        ELSE object END
$$;
COMMENT ON FUNCTION scd2_internal.stands_on(oid, oid) IS
    'The relation that an index, constraint, trigger, rule or statistics object stands on; other objects of relations are named by the relation; NULL: on none';

-- how: c created, a altered, n a column that has another name or type, p a partition came or went
CREATE FUNCTION scd2_internal.refuse_unfit(classes oid[], objects oid[], subs integer[], hows "char"[]) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = on AS $$
DECLARE
    touch record;
    unfit text;
    reason text;
    of oid;
    feeds oid[];
BEGIN
    IF scd2_internal.awaits_resume() THEN
        RETURN;
    END IF;
    FOR touch IN
        SELECT t.*, k.kept, k.relation
        FROM unnest(classes, objects, subs, hows) WITH ORDINALITY t (class, object, sub, how, n), scd2_internal.stands_on(t.class, t.object) s (relation),
             LATERAL (SELECT s.relation, scd2_internal.kept_bare(s.relation) AS kept) k
        WHERE k.kept IS NOT NULL ORDER BY t.n
    LOOP
        SELECT u.what, u.why INTO unfit, reason FROM scd2_internal.unfit_on(touch.relation) u
            WHERE (u.class, u.object, u.sub) = (touch.class, touch.object, touch.sub) LIMIT 1;
        IF unfit IS NULL AND touch.how = 'p' THEN
            SELECT 'partitions of table "' || scd2_internal.label(touch.relation) || '" that others attach or detach', 'They come and go as versions do.' INTO unfit, reason;
        ELSIF unfit IS NULL AND touch.class = 'pg_class'::regclass AND touch.sub > 0 AND touch.how IN ('c', 'n') THEN
            SELECT format('column "%s" of "%s" as it would be', a.attname, scd2_internal.label(touch.relation)), 'Its columns are those of its source.'
            INTO unfit, reason FROM pg_attribute a WHERE a.attrelid = touch.relation AND a.attnum = touch.sub;
        END IF;
        IF unfit IS NOT NULL THEN
            PERFORM scd2_internal.refuse('55000', format('%s must not stand on %s', unfit, touch.kept),
                format('Feeds are written by one process for everybody, which runs no code of users. %s', reason));
        END IF;
    END LOOP;
    -- Nearly all DDL ends here: nothing of it is of a type that a user made, as row types of feeds are.
    IF NOT EXISTS (SELECT FROM unnest(classes, objects) t (class, object) JOIN pg_depend d ON d.classid = t.class AND d.objid = t.object
                   WHERE t.class IN ('pg_class'::regclass, 'pg_type'::regclass) AND d.refclassid = 'pg_type'::regclass AND d.refobjid >= 16384) THEN
        RETURN;
    END IF;
    feeds := ARRAY(SELECT r FROM (SELECT f.feed_relid::oid AS r FROM scd2_internal.feed f WHERE NOT f.disabled
                                  UNION ALL SELECT i.inhrelid FROM scd2_internal.feed f JOIN pg_inherits i ON i.inhparent = f.feed_relid WHERE NOT f.disabled) x
                   WHERE r IN (SELECT y.typrelid FROM unnest(classes, objects) t (class, object)
                                   JOIN pg_depend d ON d.classid = t.class AND d.objid = t.object AND d.refclassid = 'pg_type'::regclass
                                   JOIN pg_type e ON e.oid = d.refobjid LEFT JOIN pg_type l ON l.typarray = e.oid
                                   JOIN pg_type y ON y.oid = coalesce(l.oid, e.oid) WHERE y.typrelid <> 0));
    SELECT m.what, m.relation INTO unfit, of
    FROM scd2_internal.made_of_rows(feeds) m JOIN unnest(classes, objects) t (class, object) ON (t.class, t.object) = (m.class, m.object)
    LIMIT 1;
    IF unfit IS NOT NULL THEN
        PERFORM scd2_internal.refuse('55000', format('%s must not be of the row type of %s', unfit, scd2_internal.kept_bare(of)),
            'It would keep the feed''s columns from following those of its source.');
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.refuse_unfit(oid[], oid[], integer[], "char"[]) IS
    'Refuses what statements put on feeds that may not stand there (src/feed/bare.c). Errors: 55000, naming the object, the feed and the reason';
