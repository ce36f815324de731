-- 30_feed_check.sql: may this table have a change data feed, and whose is it.
--
-- Each check raises its own error, which names the table, says why, and, where there is one, gives the statement that
-- helps. The checks read the catalogs only; they run once before the source is locked (so that a hopeless call waits
-- for nobody) and once after it (because what they saw may have changed meanwhile).

CREATE FUNCTION scd2_internal.refuse(code text, message text, detail text DEFAULT NULL, hint text DEFAULT NULL)
    RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF detail IS NOT NULL AND hint IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = detail, HINT = hint;
    ELSIF detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = detail;
    ELSIF hint IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, HINT = hint;
    END IF;
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message;
END $$;
COMMENT ON FUNCTION scd2_internal.refuse(text, text, text, text) IS
    'Raises an error with this SQLSTATE, message and, where not null, detail and hint.';

CREATE FUNCTION scd2_internal.label(relation oid) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT n.nspname || '.' || c.relname
                     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation),
                         relation::text)
$$;
COMMENT ON FUNCTION scd2_internal.label(oid) IS
    'A relation''s name for messages, where it stands in double quotes: schema and name, not quoted. For statements '
    'use regclass.';

CREATE FUNCTION scd2_internal.generated_name(base text, label text) RETURNS name
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    room CONSTANT integer := 63 - octet_length(label) - 1;
    clipped text := left(base, room);
BEGIN
    WHILE octet_length(clipped) > room LOOP
        clipped := left(clipped, -1);
    END LOOP;
    RETURN clipped || '_' || label;
END $$;
COMMENT ON FUNCTION scd2_internal.generated_name(text, text) IS
    'base_label in at most 63 bytes: the base is clipped, at a character, as the server does for index names.';

-- Where rows are stored: the table itself, or all leaves of a partitioned one.
CREATE FUNCTION scd2_internal.leaves(source oid) RETURNS SETOF oid
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.oid FROM pg_class c WHERE c.oid = source AND c.relkind <> 'p'
    UNION ALL
    SELECT t.relid::oid FROM pg_class c, pg_partition_tree(source) t WHERE c.oid = source AND c.relkind = 'p'
        AND t.isleaf
        AND (SELECT l.relkind FROM pg_class l WHERE l.oid = t.relid) <> 'p'
    ORDER BY 1
$$;
COMMENT ON FUNCTION scd2_internal.leaves(oid) IS
    'The tables that hold a source''s rows, by oid: itself, or the leaves of a partitioned table (none for one '
    'without partitions).';

CREATE FUNCTION scd2_internal.feed_of(source oid) RETURNS scd2_internal.feed
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT f FROM scd2_internal.feed f WHERE f.source_relid = source AND NOT f.disabled
$$;
COMMENT ON FUNCTION scd2_internal.feed_of(oid) IS 'The feed of a table, NULL if it has none or it was disabled.';

CREATE FUNCTION scd2_internal.require_feed_of(source oid) RETURNS scd2_internal.feed
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.feed := scd2_internal.feed_of(source);
    root oid;
BEGIN
    IF f.feed_id IS NULL THEN
        SELECT pg_partition_root(c.oid) INTO root FROM pg_class c WHERE c.oid = source AND c.relispartition;
        IF root IS NOT NULL THEN
            PERFORM scd2_internal.refuse('55000',
                format('partition "%s" has no change data feed of its own', scd2_internal.label(source)),
                format('The feed of the partitioned table "%s" has the changes of all its partitions.',
                    scd2_internal.label(root)),
                CASE WHEN (scd2_internal.feed_of(root)).feed_id IS NULL
                    THEN format('SELECT scd2.enable_change_feed(%L);', root::regclass)
                     ELSE format('SELECT * FROM scd2.table_changes(%L);', root::regclass) END);
        END IF;
        PERFORM scd2_internal.refuse('55000', format('table "%s" has no change data feed', scd2_internal.label(source)),
            hint => format('SELECT scd2.enable_change_feed(%L);', source::regclass));
    END IF;
    RETURN f;
END $$;
COMMENT ON FUNCTION scd2_internal.require_feed_of(oid) IS 'The feed of a table. Errors: 55000 if it has none.';

CREATE FUNCTION scd2_internal.check_owner(caller oid, relation oid) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner oid;
BEGIN
    IF relation IS NULL THEN
        PERFORM scd2_internal.refuse('22004', 'the table must not be null');
    END IF;
    SELECT c.relowner INTO owner FROM pg_class c WHERE c.oid = relation;
    IF owner IS NULL THEN
        PERFORM scd2_internal.refuse('42P01', format('relation with oid %s does not exist', relation));
    END IF;
    IF NOT pg_has_role(caller, owner, 'USAGE') THEN
        PERFORM scd2_internal.refuse('42501', format('must be owner of table "%s"', scd2_internal.label(relation)));
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_owner(oid, oid) IS
    'Errors: 42501 if "caller" has not the privileges of the relation''s owner, 42P01 if there is none, 22004 for '
    'NULL.';

-- What stands against a feed in the kind of the relation, NULL if nothing. "root" is what to enable instead.
CREATE FUNCTION scd2_internal.unfit_kind(source oid, OUT code text, OUT what text, OUT reason text, OUT hint text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT k.code, k.what, k.reason, k.hint
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_am a ON a.oid = c.relam,
         LATERAL (VALUES
            (1, c.relkind = 'v', '42809', 'view', 'A view stores no rows, so it has no changes of its own.',
                'Enable the feeds of the tables that it reads.'),
            (2, c.relkind = 'm', '42809', 'materialized view',
                'A refresh replaces its contents; the log does not show it as changes.', NULL),
            (3, c.relkind = 'f', '42809', 'foreign table',
                'Its rows are stored elsewhere, and the log of this server does not show them.', NULL),
            (4, c.relkind NOT IN ('r', 'p', 'v', 'm', 'f'), '42809', 'relation', 'It is not a table.', NULL),
            (5, c.oid < 16384 OR n.nspname IN ('pg_catalog', 'information_schema') OR n.nspname LIKE E'pg\\_toast%',
                '42809', 'system catalog', 'Changes of system catalogs are not decoded.', NULL),
            (6, n.nspname IN ('scd2', 'scd2_internal'), '42809', 'table', 'It belongs to pg_scd2 itself.', NULL),
            (7, EXISTS (SELECT FROM scd2_internal.feed f
                        WHERE f.feed_relid = c.oid OR f.feed_relid IN (SELECT p.relid
                            FROM pg_partition_ancestors(c.oid) p)),
                '42809', 'table', 'It is a change data feed itself.', NULL),
            (8, c.relpersistence = 't', '42809', 'temporary table', 'Changes of temporary tables are not logged.',
                NULL),
            (9, c.relpersistence = 'u', '55000', 'unlogged table', 'Changes of unlogged tables are not logged.',
                format('ALTER TABLE %s SET LOGGED;', c.oid::regclass)),
            (10, c.relkind = 'r' AND a.amname <> 'heap', '0A000', 'table',
                format('Its access method "%s" is none that logical decoding reads.', a.amname),
                format('ALTER TABLE %s SET ACCESS METHOD heap;', c.oid::regclass))
         ) k (rank, applies, code, what, reason, hint)
    WHERE c.oid = source AND k.applies
    ORDER BY k.rank LIMIT 1
$$;
COMMENT ON FUNCTION scd2_internal.unfit_kind(oid) IS
    'Why a relation of this kind can have no feed: SQLSTATE, word for the kind, reason and hint; NULLs if it can.';

CREATE FUNCTION scd2_internal.check_kind(source oid) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    unfit record;
    leaf oid;
    root oid;
BEGIN
    SELECT k.* INTO unfit FROM scd2_internal.unfit_kind(source) k;
    IF unfit.code IS NOT NULL THEN
        PERFORM scd2_internal.refuse(unfit.code,
            format('cannot enable a change data feed for %s "%s"', unfit.what, scd2_internal.label(source)),
                                     unfit.reason, unfit.hint);
    END IF;
    IF (SELECT c.relispartition FROM pg_class c WHERE c.oid = source) THEN
        root := pg_partition_root(source);
        PERFORM scd2_internal.refuse('42809',
            format('cannot enable a change data feed for partition "%s"', scd2_internal.label(source)),
            format('The feed of the partitioned table "%s" has the changes of all its partitions.',
                scd2_internal.label(root)),
            format('SELECT scd2.enable_change_feed(%L);', root::regclass));
    END IF;
    PERFORM scd2_internal.refuse_feed_below(source);
    FOR leaf IN SELECT l FROM scd2_internal.leaves(source) l WHERE l <> source LOOP
        SELECT k.* INTO unfit FROM scd2_internal.unfit_kind(leaf) k;
        IF unfit.code IS NOT NULL THEN
            PERFORM scd2_internal.refuse(unfit.code,
                format('cannot enable a change data feed for table "%s": '
                       'its partition "%s" is no table that can be captured',
                                                            scd2_internal.label(source), scd2_internal.label(leaf)),
                                                                unfit.reason, unfit.hint);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.check_kind(oid) IS
    'Errors: 42809, 55000, 0A000 if the relation, or a partition of it, is of a kind whose changes cannot be captured.';

CREATE FUNCTION scd2_internal.check_excepted(source oid, except_column_list name[]) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bad name;
BEGIN
    SELECT e INTO bad FROM unnest(except_column_list) e
    WHERE e IS NULL OR NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = source AND a.attname = e
        AND a.attnum > 0 AND NOT a.attisdropped)
    LIMIT 1;
    IF FOUND THEN
        PERFORM scd2_internal.refuse('42703',
            format('column "%s" of table "%s" does not exist', coalesce(bad, 'NULL'), scd2_internal.label(source)),
            detail => 'It is named in except_column_list.');
    END IF;
    SELECT e INTO bad FROM unnest(except_column_list) e GROUP BY e HAVING count(*) > 1 LIMIT 1;
    IF FOUND THEN
        PERFORM scd2_internal.refuse('42701', format('column "%s" is named twice in except_column_list', bad));
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_excepted(oid, name[]) IS
    'Errors: 42703 if a name of the list is no column of the table, 42701 if one is named twice.';

-- What a domain stands for: a feed must take values that an older or stricter domain would refuse.
CREATE FUNCTION scd2_internal.base_type(type oid, typmod integer, OUT base oid, OUT base_typmod integer)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t record;
BEGIN
    base := type;
    base_typmod := typmod;
    LOOP
        SELECT y.typtype, y.typbasetype, y.typtypmod INTO t FROM pg_type y WHERE y.oid = base;
        EXIT WHEN t.typtype IS DISTINCT FROM 'd';
        base := t.typbasetype;
        base_typmod := t.typtypmod;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.base_type(oid, integer) IS
    'The type and type modifier that a domain is over, through all levels; other types as they are.';

-- A feed's columns. Virtual generated columns are not stored, so the log cannot show them.
CREATE FUNCTION scd2_internal.feed_columns(source oid, except_column_list name[])
    RETURNS TABLE (ordinal bigint, name name, type oid, typmod integer, collation_oid oid, not_null boolean)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT * FROM (VALUES (-5::bigint, '_change_type'::name, 'text'::regtype::oid, -1,
        'pg_catalog.default'::regcollation::oid, true),
                          (-4, '_commit_version', 'bigint'::regtype, -1, 0, true),
                          (-3, '_commit_timestamp', 'timestamptz'::regtype, -1, 0, true),
                          (-2, '_change_ordinal', 'integer'::regtype, -1, 0, true),
                          (-1, '_xid', 'xid8'::regtype, -1, 0, true)) m
    UNION ALL
    SELECT a.attnum, a.attname, b.base, b.base_typmod, a.attcollation, false
    FROM pg_attribute a, scd2_internal.base_type(a.atttypid, a.atttypmod) b
    WHERE a.attrelid = source AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> 'v'
        AND a.attname <> ALL (except_column_list)
    ORDER BY 1
$$;
COMMENT ON FUNCTION scd2_internal.feed_columns(oid, name[]) IS
    'The columns that the feed of a table has, in order: the five metadata columns, then the table''s, without those '
    'excepted.';

-- Bytes that a row takes if all of its columns of fixed width have a value and all others are moved out of line or
-- NULL. No row can be stored in less.
CREATE FUNCTION scd2_internal.fixed_row_width(source oid, except_column_list name[]) RETURNS integer
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    c record;
    width integer := 0;
    columns integer := 0;
    step integer;
BEGIN
    FOR c IN SELECT t.typlen, t.typalign FROM scd2_internal.feed_columns(source, except_column_list) f
        JOIN pg_type t ON t.oid = f.type ORDER BY f.ordinal LOOP
        columns := columns + 1;
        CONTINUE WHEN c.typlen < 0;
        step := CASE c.typalign WHEN 'd' THEN 8 WHEN 'i' THEN 4 WHEN 's' THEN 2 ELSE 1 END;
        width := (width + step - 1) / step * step + c.typlen;
    END LOOP;
    RETURN (23 + (columns + 7) / 8 + 7) / 8 * 8 + width;
END $$;
COMMENT ON FUNCTION scd2_internal.fixed_row_width(oid, name[]) IS
    'The least bytes of a feed row whose columns of fixed width all have values.';

CREATE FUNCTION scd2_internal.check_columns(source oid, except_column_list name[]) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    source_label CONSTANT text := scd2_internal.label(source);
    most CONSTANT integer := 1600;          -- MaxHeapAttributeNumber
    room CONSTANT integer := 8160;          -- MaxHeapTupleSize with 8 kB pages
    page CONSTANT integer := current_setting('block_size')::integer;
    bad name[];
    n bigint;
BEGIN
    bad := ARRAY(SELECT f.name FROM scd2_internal.feed_columns(source, except_column_list) f
        GROUP BY f.name HAVING count(*) > 1 ORDER BY f.name);
    IF bad <> '{}' THEN
        PERFORM scd2_internal.refuse('42701',
            format('column "%s" of table "%s" has the name of a metadata column of its feed', bad[1], source_label),
            'Rename it, or leave it out of the feed.',
            format('SELECT scd2.enable_change_feed(%L, except_column_list => %L);', source::regclass, except_column_list
                || bad));
    END IF;
    SELECT count(*) INTO n FROM scd2_internal.feed_columns(source, except_column_list);
    IF n > most THEN
        PERFORM scd2_internal.refuse('54011',
            format('table "%s" has too many columns for a change data feed', source_label),
            format('The feed would have %s columns, five of them metadata; a table can have %s.', n, most),
            'Leave columns out with except_column_list.');
    END IF;
    IF scd2_internal.fixed_row_width(source, except_column_list) > room + page - 8192 THEN
        PERFORM scd2_internal.refuse('54000',
            format('rows of table "%s" are too wide for a change data feed', source_label),
            format('A feed row with a value in each column of fixed width takes %s bytes with its metadata; '
                   'a page has room for %s.',
                   scd2_internal.fixed_row_width(source, except_column_list), room + page - 8192),
            'Leave columns out with except_column_list.');
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_columns(oid, name[]) IS
    'Errors: 42701 if a column is called like a metadata column, 54011 if the feed would have too many columns, 54000 '
    'if its rows would not fit a page.';
