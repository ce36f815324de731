-- 50_erase.sql: forgetting a row that is gone from its table.
--
-- erase() removes what is left of a key: in the feed, in the targets of flows over the table and their memories, in
-- rejected events, and in what is made from those targets. All of it in the caller's transaction, as the owner of
-- each relation, and without leaving it in a feed of a target again (src/flow/erase.c).
--
-- Nothing of it must be on its way. The flows are locked, so that none applies anything meanwhile; then a snapshot
-- S is taken that shows that the key is gone, and capture passes the end of the log as it is then: now the feed has
-- all that S has seen of the key. What S does not see of it comes later, and is another row with the same key: if
-- there is such a thing already, the call fails, and can be made again.
--
-- A row can have had other keys, before and afterwards. The feed says so: a pre-image whose post-image has another key.
-- What the row was under its earlier key, from there back to where that key came to it, is erased too, and what it was
-- under a later one, until it left that: its *lives*. If such a key was used for other rows as well, they stay; then
-- targets of flows over the feed in commit order are told apart by time, and for others there is a NOTICE. So there is
-- where a later life has not ended: that row is still in the table.
--
-- Where a late event could bring it back (event tables), a fingerprint of the key and its last sequence are kept:
-- events of that key up to there are counted as skipped.

-- The key as conditions on rows of a relation, with its own types and equality.
CREATE FUNCTION scd2_internal.key_condition(relation oid, key jsonb, alias text DEFAULT 't') RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT string_agg(format('%s.%I %s %L::%s', alias, a.attname, scd2_internal.order_operator(b.base, 3), key ->> a.attname, format_type(b.base, b.base_typmod)), ' AND ' ORDER BY a.attnum)
    FROM pg_attribute a CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) b
    WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND key ? a.attname
    HAVING count(*) = (SELECT count(*) FROM jsonb_object_keys(key))
$$;
COMMENT ON FUNCTION scd2_internal.key_condition(oid, jsonb, text) IS 'Condition on the rows t of a relation that have a key; NULL if it lacks a column of it';

-- A key in a form that does not depend on the session's settings.
CREATE FUNCTION scd2_internal.key_as_text(relation oid, key jsonb) RETURNS jsonb
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT scd2_internal.as_owner(relation, format('SELECT pg_catalog.jsonb_build_object(%s)',
        string_agg(format('%L, (SELECT CASE WHEN pg_catalog.jsonb_typeof(pg_catalog.to_jsonb(x)) IN (''object'', ''array'') THEN x::text ELSE pg_catalog.to_jsonb(x) #>> ''{}'' END FROM (SELECT %L::%s) v (x))',
                          a.attname, key ->> a.attname, format_type(b.base, b.base_typmod)), ', ')), 0)::jsonb
    FROM pg_attribute a CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) b
    WHERE a.attrelid = relation AND a.attnum > 0 AND NOT a.attisdropped AND key ? a.attname
$$;
COMMENT ON FUNCTION scd2_internal.key_as_text(oid, jsonb) IS 'A key with its values as text that every session reads in the same way. Errors: what the types say of the values';

CREATE FUNCTION scd2_internal.erase_rows(relation oid, condition text) RETURNS bigint
    AS 'MODULE_PATHNAME', 'scd2_erase_rows' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.erase_rows(oid, text) IS 'Deletes rows t of a feed, target or memory, as its owner; no feed gets that. Returns how many';

CREATE FUNCTION scd2_internal.key_fingerprint(flow_id integer, key jsonb, seed bigint) RETURNS bigint
    AS 'MODULE_PATHNAME', 'scd2_key_fingerprint' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.key_fingerprint(integer, jsonb, bigint) IS 'A hash of a key of the flow; NULL if its types cannot be hashed';

CREATE FUNCTION scd2_internal.check_erase(caller oid, source oid, key jsonb) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names name[];
    bad   name;
BEGIN
    PERFORM scd2_internal.check_owner(caller, source);
    IF key IS NULL OR jsonb_typeof(key) <> 'object' OR key = '{}' THEN
        PERFORM scd2_internal.refuse('22023', 'the key must be an object with a value for each key column', hint => format('SELECT * FROM scd2.erase(%L, ''{"id": 17}'');', source::regclass));
    END IF;
    names := ARRAY(SELECT k::name FROM jsonb_object_keys(key) k);
    SELECT k INTO bad FROM unnest(names) k WHERE NOT scd2_internal.has_column(source, k) LIMIT 1;
    IF FOUND THEN
        PERFORM scd2_internal.refuse('42703', format('column "%s" of table "%s" does not exist', bad, scd2_internal.label(source)));
    END IF;
    SELECT k INTO bad FROM unnest(names) k WHERE key ->> k IS NULL LIMIT 1;
    IF FOUND THEN
        PERFORM scd2_internal.refuse('22004', format('key column "%s" must not be null', bad));
    END IF;
    IF NOT EXISTS (SELECT FROM scd2_internal.made_from(source)) THEN
        PERFORM scd2_internal.refuse('55000', format('nothing is made from table "%s"', scd2_internal.label(source)), 'It has no change data feed and no flows.');
    END IF;
    IF NOT EXISTS (SELECT FROM scd2_internal.flow f WHERE f.source_relid = source AND f.keys @> names AND f.keys <@ names) THEN
        BEGIN
            PERFORM scd2_internal.check_keys_guarded(source, names);
        EXCEPTION WHEN object_not_in_prerequisite_state THEN
            PERFORM scd2_internal.refuse('22023', format('(%s) is no key of table "%s"', array_to_string(names, ', '), scd2_internal.label(source)),
                'A key has the columns of a unique index that are not null, or the keys of a flow.');
        END;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_erase(oid, oid, jsonb) IS 'Errors: 42501 not the owner, 22023 no key, 42703 no such column, 22004 a NULL in the key, 55000 nothing is made from the table';

CREATE FUNCTION scd2_internal.check_can_erase(source oid) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE active_sql_transaction USING MESSAGE = 'erase cannot run in a transaction whose snapshot is fixed',
            DETAIL = 'It must see changes that are captured after the snapshot was taken.', HINT = 'ROLLBACK; BEGIN ISOLATION LEVEL READ COMMITTED;';
    END IF;
    IF EXISTS (SELECT FROM pg_locks AS l WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.granted
               AND l.relation IN (SELECT source UNION ALL SELECT p.relid FROM pg_partition_tree(source) p)
               AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()) AND l.mode NOT IN ('AccessShareLock', 'RowShareLock')) THEN
        RAISE active_sql_transaction USING MESSAGE = format('erase cannot run in a transaction that has written "%s"', scd2_internal.label(source)),
            DETAIL = 'Its changes are not captured before it commits.', HINT = 'COMMIT;';
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_can_erase(oid) IS 'Raises 25001 if the transaction has a fixed snapshot or has written the table';

-- The table, what is made from it, and what is made from that. A flow can read a feed as a table, too.
CREATE FUNCTION scd2_internal.all_made_from(source oid) RETURNS TABLE (relation oid)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    WITH RECURSIVE made (relation) AS (
        SELECT source
        UNION
        SELECT m FROM made, LATERAL (SELECT f.feed_relid FROM scd2_internal.feed f WHERE f.source_relid = made.relation
                                     UNION ALL SELECT w.target_relid FROM scd2_internal.flow w WHERE w.source_relid = made.relation) x (m))
    SELECT made.relation FROM made JOIN pg_class c ON c.oid = made.relation
$$;
COMMENT ON FUNCTION scd2_internal.all_made_from(oid) IS 'A table, its feeds and targets, and what is made from those';

CREATE FUNCTION scd2_internal.rows_of(relation oid) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE c.relkind WHEN 'r' THEN 'ONLY ' ELSE '' END || c.oid::regclass FROM pg_class c WHERE c.oid = relation
$$;
COMMENT ON FUNCTION scd2_internal.rows_of(oid) IS 'A relation as FROM takes it, without those that inherit from it';

-- When a key came to a row (insert) or a row to a key (from an update of another), before a place in the feed (NULL:
-- ever): the last time, or all.
CREATE FUNCTION scd2_internal.arrivals_of(feed regclass, key jsonb, version bigint, ordinal integer, seen text) RETURNS jsonb
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(scd2_internal.as_owner(feed, format(
        'SELECT pg_catalog.jsonb_agg(a.life) FROM (SELECT pg_catalog.jsonb_build_object(''version'', t._commit_version, ''ordinal'', t._change_ordinal, ''at'', t._commit_timestamp, ''key'', CASE WHEN b._change_type IS NOT NULL THEN pg_catalog.jsonb_build_object(%s) END) AS life '
        'FROM %s t LEFT JOIN %s b ON b._commit_version = t._commit_version AND b._change_ordinal = t._change_ordinal - 1 AND b._change_type = ''update_preimage'' AND t._change_type = ''update_postimage'' '
        'WHERE %s AND %s AND (%s) ORDER BY t._commit_version DESC, t._change_ordinal DESC%s) AS a',
        (SELECT string_agg(format('%L, b.%I::text', k, k), ', ') FROM jsonb_object_keys(key) k), feed, feed, scd2_internal.key_condition(feed, key), seen,
        CASE WHEN version IS NULL THEN format('t._change_type = ''update_postimage'' AND NOT (%s)', scd2_internal.key_condition(feed, key, 'b'))
             ELSE format('(t._commit_version, t._change_ordinal) < (%s, %s) AND (t._change_type = ''insert'' OR t._change_type = ''update_postimage'' AND NOT (%s))', version, ordinal, scd2_internal.key_condition(feed, key, 'b')) END,
        CASE WHEN version IS NOT NULL THEN ' LIMIT 1' ELSE '' END), 0)::jsonb, '[]')
$$;
COMMENT ON FUNCTION scd2_internal.arrivals_of(regclass, jsonb, bigint, integer, text) IS
    'Part of erase: version, ordinal and time at which rows got a key, and which key they had before, if any';

-- When rows left a key for another, after a place in the feed (NULL: ever), and which; or, with a place, how the row that
-- had it then ended: the key is NULL if it was removed. The first time, or all.
CREATE FUNCTION scd2_internal.departures_of(feed regclass, key jsonb, version bigint, ordinal integer, seen text) RETURNS jsonb
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(scd2_internal.as_owner(feed, format(
        'SELECT pg_catalog.jsonb_agg(d.life) FROM (SELECT pg_catalog.jsonb_build_object(''version'', t._commit_version, ''ordinal'', t._change_ordinal + 1, ''at'', t._commit_timestamp, ''key'', CASE WHEN a._change_type IS NOT NULL THEN pg_catalog.jsonb_build_object(%s) END) AS life '
        'FROM %s t LEFT JOIN %s a ON a._commit_version = t._commit_version AND a._change_ordinal = t._change_ordinal + 1 AND a._change_type = ''update_postimage'' AND t._change_type = ''update_preimage'' '
        'WHERE %s AND (%s) ORDER BY t._commit_version, t._change_ordinal%s) AS d',
        (SELECT string_agg(format('%L, a.%I::text', k, k), ', ') FROM jsonb_object_keys(key) k), feed, feed, seen,
        CASE WHEN version IS NULL THEN format('t._change_type = ''update_preimage'' AND %s AND NOT (%s)', scd2_internal.key_condition(feed, key), scd2_internal.key_condition(feed, key, 'a'))
             ELSE format('(t._commit_version, t._change_ordinal) > (%s, %s) AND (t._change_type = ''truncate'' OR %s AND (t._change_type = ''delete'' OR t._change_type = ''update_preimage'' AND NOT (%s)))',
                         version, ordinal, scd2_internal.key_condition(feed, key), scd2_internal.key_condition(feed, key, 'a')) END,
        CASE WHEN version IS NOT NULL THEN ' LIMIT 1' ELSE '' END), 0)::jsonb, '[]')
$$;
COMMENT ON FUNCTION scd2_internal.departures_of(regclass, jsonb, bigint, integer, text) IS
    'Part of erase: version, ordinal behind it, and time at which rows left a key, and which key they got, if any';

CREATE FUNCTION scd2_internal.note_unfollowed(source oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE NOTICE 'rows of table "%" had more keys than are followed: what is left under the others is not erased', scd2_internal.label(source)
        USING HINT = 'Erase them by these keys, too.';
END $$;
COMMENT ON FUNCTION scd2_internal.note_unfollowed(oid) IS 'Part of erase: a NOTICE that rows had very many keys';

-- What the row was under earlier keys: key, where that begins in the feed (NULL: before it) and where it ends.
CREATE FUNCTION scd2_internal.earlier_lives(source oid, feed regclass, key jsonb, seen text) RETURNS jsonb
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET TimeZone = 'UTC' SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET bytea_output = 'hex' SET extra_float_digits = 1 AS $$
DECLARE
    todo  jsonb := scd2_internal.arrivals_of(feed, key, NULL, NULL, seen);
    lives jsonb := '[]';
    life  jsonb;
    came  jsonb;
BEGIN
    WHILE jsonb_array_length(todo) > 0 AND jsonb_array_length(lives) < 1000 LOOP
        life := todo -> 0;
        todo := todo - 0;
        came := scd2_internal.arrivals_of(feed, life -> 'key', (life ->> 'version')::bigint, (life ->> 'ordinal')::integer - 1, seen) -> 0;
        lives := lives || jsonb_build_array(life || jsonb_build_object('from', came));
        IF came -> 'key' <> 'null' THEN
            todo := todo || jsonb_build_array(came);
        END IF;
    END LOOP;
    PERFORM scd2_internal.note_unfollowed(source) WHERE jsonb_array_length(todo) > 0;
    RETURN lives;
END $$;
COMMENT ON FUNCTION scd2_internal.earlier_lives(oid, regclass, jsonb, text) IS
    'Part of erase: the keys that rows of a key had before, as far as the feed knows';

-- The same under later keys. A life that has not ended is not among them: that row is there.
CREATE FUNCTION scd2_internal.later_lives(source oid, feed regclass, key jsonb, seen text) RETURNS jsonb
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET TimeZone = 'UTC' SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET bytea_output = 'hex' SET extra_float_digits = 1 AS $$
DECLARE
    todo  jsonb := scd2_internal.departures_of(feed, key, NULL, NULL, seen);
    lives jsonb := '[]';
    came  jsonb;
    went  jsonb;
BEGIN
    WHILE jsonb_array_length(todo) > 0 AND jsonb_array_length(lives) < 1000 LOOP
        came := todo -> 0;
        todo := todo - 0;
        went := scd2_internal.departures_of(feed, came -> 'key', (came ->> 'version')::bigint, (came ->> 'ordinal')::integer, seen) -> 0;
        IF went IS NULL THEN
            RAISE NOTICE 'a row that had the key is still in table "%", as %: what is left of it under that is not erased', scd2_internal.label(source), came ->> 'key'
                USING HINT = format('BEGIN; DELETE FROM %s t WHERE %s; COMMIT; SELECT * FROM scd2.erase(%L, %L);', source::regclass,
                    replace(scd2_internal.key_condition(source, came -> 'key'), 'OPERATOR(pg_catalog.=)', '='), source::regclass, came -> 'key');
            CONTINUE;
        ELSIF went -> 'version' = came -> 'version' AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = source AND i.indisunique AND NOT i.indimmediate) THEN
            -- Two rows can have had the key for a moment, and the other may be the one that left it.
            RAISE NOTICE 'a row that had the key had another later, as had other rows of that transaction: % is not followed', came ->> 'key'
                USING HINT = format('SELECT * FROM scd2.erase(%L, %L); -- when it is gone from its table', source::regclass, came -> 'key');
            CONTINUE;
        END IF;
        lives := lives || jsonb_build_array(went || jsonb_build_object('key', came -> 'key', 'from', came));
        IF went -> 'key' <> 'null' AND went -> 'key' <> key THEN
            todo := todo || jsonb_build_array(went);
        END IF;
    END LOOP;
    PERFORM scd2_internal.note_unfollowed(source) WHERE jsonb_array_length(todo) > 0;
    RETURN lives;
END $$;
COMMENT ON FUNCTION scd2_internal.later_lives(oid, regclass, jsonb, text) IS
    'Part of erase: the keys that rows of a key had afterwards, with a NOTICE for those that are still there';

CREATE FUNCTION scd2_internal.life_condition(feed oid, life jsonb) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT concat_ws(' AND ', scd2_internal.key_condition(feed, life -> 'key'), format('(t._commit_version, t._change_ordinal) < (%s, %s)', life ->> 'version', life ->> 'ordinal'),
        CASE WHEN life -> 'from' <> 'null' THEN format('(t._commit_version, t._change_ordinal) >= (%s, %s)', life #>> '{from,version}', life #>> '{from,ordinal}') END)
$$;
COMMENT ON FUNCTION scd2_internal.life_condition(oid, jsonb) IS 'Condition on the rows t of a feed that are of another life';

-- After its lives are gone from the feed: is a key that of another row too, now or then?
CREATE FUNCTION scd2_internal.is_used_again(source oid, feed oid, key jsonb) RETURNS boolean
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT bool_or(scd2_internal.as_owner(r, format('SELECT true FROM %s t WHERE %s LIMIT 1', scd2_internal.rows_of(r), scd2_internal.key_condition(r, key)), 0)::boolean) IS TRUE
    FROM unnest(ARRAY[source, feed]) r
$$;
COMMENT ON FUNCTION scd2_internal.is_used_again(oid, oid, jsonb) IS 'Part of erase: whether another key that a row had is, or was, another row''s';

-- The highest sequence of a key in a target and in what it remembers, as the catalog has sequences.
CREATE FUNCTION scd2_internal.last_sequence(f scd2_internal.flow, key jsonb) RETURNS text
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET TimeZone = 'UTC' SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres' SET bytea_output = 'hex' SET extra_float_digits = 1 AS $$
    SELECT scd2_internal.as_owner(f.target_relid, format('SELECT s::text FROM (%s) x (s) WHERE s IS NOT NULL ORDER BY s DESC LIMIT 1', string_agg(q, ' UNION ALL ')), 0)
    FROM (SELECT format('SELECT t._sequence FROM ONLY %s t WHERE %s', f.memory_relid::regclass, scd2_internal.key_condition(f.memory_relid, key))
          UNION ALL
          SELECT format('SELECT t.%I::%s FROM ONLY %s t WHERE %s', c, f.sequence_type, f.target_relid::regclass, scd2_internal.key_condition(f.target_relid, key))
          FROM unnest(CASE f.scd_type WHEN 2 THEN ARRAY[f.start_column, f.end_column] ELSE array_remove(ARRAY[f.sequence_column], NULL) END) c) u (q)
$$;
COMMENT ON FUNCTION scd2_internal.last_sequence(scd2_internal.flow, jsonb) IS 'Up to where a target knows of a key; NULL: it does not';

-- Events of the key that come late are not accepted.
CREATE FUNCTION scd2_internal.remember_erased(target oid, key jsonb) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f     scd2_internal.flow;
    until text;
    salt  bigint := coalesce((SELECT min(e.seed) FROM scd2_internal.erased_key e WHERE e.target_relid = target), ('x' || substr(md5(gen_random_uuid()::text), 1, 16))::bit(64)::bigint);
    print bigint;
BEGIN
    SELECT w.* INTO f FROM scd2_internal.flow w WHERE w.target_relid = target AND w.input = 'events' AND w.memory_relid IS NOT NULL ORDER BY w.flow_id LIMIT 1;
    IF NOT FOUND OR NOT (key ?& f.keys::text[] AND cardinality(f.keys) = (SELECT count(*) FROM jsonb_object_keys(key))) THEN
        RETURN;
    END IF;
    until := scd2_internal.last_sequence(f, key);
    print := scd2_internal.key_fingerprint(f.flow_id, key, salt);
    IF print IS NULL THEN
        RAISE NOTICE 'an event of the erased key that comes late into "%" would be taken: its type cannot be hashed', scd2_internal.label(target);
    ELSIF until IS NOT NULL THEN
        INSERT INTO scd2_internal.erased_key AS e (target_schema, target_name, target_relid, fingerprint, seed, sequence)
            SELECT f.target_schema, f.target_name, target, print, salt, until
            ON CONFLICT (target_relid, fingerprint) DO UPDATE SET sequence = excluded.sequence;
        UPDATE scd2_internal.flow w SET definition = w.definition + 1 WHERE w.target_relid = target;
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.remember_erased(oid, jsonb) IS 'Part of erase: keeps a fingerprint of the key for a target that takes events in any order';

-- Rejected events of flows over a table. Their keys are compared by the owner, whose types they are of.
CREATE FUNCTION scd2_internal.erase_rejected(source oid, key jsonb) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    names text[] := ARRAY(SELECT k FROM jsonb_object_keys(key) k);
    found jsonb;
    n     bigint;
BEGIN
    SELECT jsonb_agg(DISTINCT r.event - ARRAY(SELECT k FROM jsonb_object_keys(r.event) k WHERE k <> ALL (names))) INTO found
        FROM scd2_internal.rejected r JOIN scd2_internal.flow f USING (flow_id) WHERE f.source_relid = source AND r.event ?& names;
    IF found IS NULL THEN
        RETURN 0;
    END IF;
    found := scd2_internal.as_owner(source, format('SELECT pg_catalog.jsonb_agg(e.event) FROM (SELECT x.event, t.* FROM pg_catalog.jsonb_array_elements(%L::jsonb) AS x (event), LATERAL (SELECT %s) AS t) AS e WHERE %s', found,
        (SELECT string_agg(format('(x.event ->> %L)::%s AS %I', a.attname, format_type(b.base, b.base_typmod), a.attname), ', ') FROM pg_attribute a CROSS JOIN LATERAL scd2_internal.base_type(a.atttypid, a.atttypmod) b
         WHERE a.attrelid = source AND a.attname = ANY (names) AND NOT a.attisdropped), scd2_internal.key_condition(source, key, 'e')), 0)::jsonb;
    DELETE FROM scd2_internal.rejected r USING scd2_internal.flow f
        WHERE f.flow_id = r.flow_id AND f.source_relid = source AND r.event ?& names
          AND found @> jsonb_build_array(r.event - ARRAY(SELECT k FROM jsonb_object_keys(r.event) k WHERE k <> ALL (names)));
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;
COMMENT ON FUNCTION scd2_internal.erase_rejected(oid, jsonb) IS 'Part of erase: removes rejected events of a key; returns how many';

-- Texts of errors can name a key or show a row.
CREATE FUNCTION scd2_internal.erase_errors(made oid[]) RETURNS void
    LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    UPDATE scd2_internal.flow_state s SET last_error = left(s.last_error, 5) || ': (its text was removed by erase)'
    FROM scd2_internal.flow f WHERE f.flow_id = s.flow_id AND f.target_relid = ANY (made) AND s.last_error IS NOT NULL
$$;
COMMENT ON FUNCTION scd2_internal.erase_errors(oid[]) IS 'Part of erase: error texts of flows into these targets';

-- A key everywhere: feed and targets of the table, and all that is made from them.
CREATE FUNCTION scd2_internal.erase_key(source oid, made oid[], key jsonb, seen text) RETURNS TABLE (relation oid, rows bigint)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.remember_erased(m, key) FROM unnest(made) m;
    FOR relation IN SELECT m FROM unnest(made) m WHERE m <> source
                    UNION SELECT f.memory_relid FROM scd2_internal.flow f JOIN pg_class c ON c.oid = f.memory_relid WHERE f.target_relid = ANY (made) ORDER BY 1 LOOP
        rows := scd2_internal.erase_rows(relation, concat_ws(' AND ', scd2_internal.key_condition(relation, key),
            CASE WHEN EXISTS (SELECT FROM scd2_internal.feed f WHERE f.feed_relid = relation AND f.source_relid = source) THEN seen END));
        RETURN NEXT;
    END LOOP;
    relation := 'scd2.rejected_events'::regclass;
    rows := (SELECT sum(scd2_internal.erase_rejected(m, key)) FROM unnest(made) m);
    RETURN NEXT;
END $$;
COMMENT ON FUNCTION scd2_internal.erase_key(oid, oid[], jsonb, text) IS 'Part of erase: removes a key from what is made from a table';

-- Another key that the row had, and that other rows have too: what can be told apart.
CREATE FUNCTION scd2_internal.erase_life(source oid, made oid[], life jsonb) RETURNS TABLE (relation oid, rows bigint)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    f scd2_internal.flow;
    m oid;
BEGIN
    FOR m IN SELECT DISTINCT w.target_relid FROM scd2_internal.flow w WHERE w.target_relid = ANY (made) ORDER BY 1 LOOP
        SELECT w.* INTO f FROM scd2_internal.flow w WHERE w.target_relid = m ORDER BY w.flow_id LIMIT 1;
        IF f.source_relid = source AND f.input = 'net' THEN
            CONTINUE WHEN f.scd_type = 1;               -- it has the row under its last key only
            relation := m;
            rows := scd2_internal.erase_rows(m, concat_ws(' AND ', scd2_internal.key_condition(m, life -> 'key'), format('t.%I < %L::timestamptz', f.start_column, life ->> 'at'),
                CASE WHEN life -> 'from' <> 'null' THEN format('t.%I >= %L::timestamptz', f.start_column, life #>> '{from,at}') END));
            RETURN NEXT;
        ELSE
            RAISE NOTICE 'rows of "%" under another key that the erased row had are not told apart from those of others: %', scd2_internal.label(m), life ->> 'key'
                USING HINT = 'SET pg_scd2.allow_target_writes = on; -- then delete them by hand';
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.erase_life(oid, oid[], jsonb) IS 'Part of erase: removes another life of a row from the targets of flows over the table; a NOTICE for what it cannot do';

CREATE FUNCTION scd2_internal.erase_lives(source oid, feed oid, made oid[], lives jsonb, seen text) RETURNS TABLE (relation oid, rows bigint)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    life jsonb;
BEGIN
    FOR life IN SELECT l FROM jsonb_array_elements(lives) l LOOP
        relation := feed;
        rows := scd2_internal.erase_rows(feed, scd2_internal.life_condition(feed, life));
        RETURN NEXT;
    END LOOP;
    FOR life IN SELECT l FROM jsonb_array_elements(lives) l LOOP
        IF scd2_internal.is_used_again(source, feed, life -> 'key') THEN
            RETURN QUERY SELECT e.relation, e.rows FROM scd2_internal.erase_life(source, made, life) e;
        ELSE
            RETURN QUERY SELECT e.relation, e.rows FROM scd2_internal.erase_key(source, made, life -> 'key', seen) e;
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION scd2_internal.erase_lives(oid, oid, oid[], jsonb, text) IS 'Part of erase: removes what the row was under other keys';

-- What the key is looked for in must have its columns.
CREATE FUNCTION scd2_internal.check_has_key(made oid[], key jsonb) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM scd2_internal.refuse('55000', format('table "%s" lacks a column of the key', scd2_internal.label(m)),
            'What it has of the row cannot be found. It is made from the table, or from what is made from it.', 'Delete it by hand (SET pg_scd2.allow_target_writes = on), and drop the flow or the feed.')
        FROM (SELECT unnest(made) UNION ALL
              SELECT f.memory_relid FROM scd2_internal.flow f JOIN pg_class c ON c.oid = f.memory_relid WHERE f.target_relid = ANY (made)) x (m)
        WHERE scd2_internal.key_condition(m, key) IS NULL;
END $$;
COMMENT ON FUNCTION scd2_internal.check_has_key(oid[], jsonb) IS 'Part of erase. Errors: 55000';

-- Waits until all that shows that the key is gone is captured; returns a condition on the rows t of the feed: that it
-- is what was seen then.
CREATE FUNCTION scd2_internal.wait_until_gone(source oid, feed oid, key jsonb) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    look record;
    seen text;
BEGIN
    SELECT pg_current_snapshot() AS snapshot, scd2_internal.as_owner(source, format('SELECT true FROM %s t WHERE %s LIMIT 1', scd2_internal.rows_of(source), scd2_internal.key_condition(source, key)), 0)::boolean AS there INTO look;
    IF look.there THEN
        PERFORM scd2_internal.refuse('55000', format('the row is still in table "%s"', scd2_internal.label(source)), 'What is gone from its table can be erased from what is made from it.',
            format('DELETE FROM %s t WHERE %s; -- then again', source::regclass, replace(scd2_internal.key_condition(source, key), 'OPERATOR(pg_catalog.=)', '=')));
    END IF;
    IF feed IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM scd2._wait_captured('1 min');
    PERFORM scd2_internal.wait_complete(f, scd2.latest_version()) FROM scd2_internal.feed f WHERE f.source_relid = source AND NOT f.disabled;
    seen := format('(t._commit_version <= %s OR pg_catalog.pg_visible_in_snapshot(t._xid, %L))', scd2._foreign_until(), look.snapshot);
    IF scd2_internal.as_owner(feed, format('SELECT true FROM %s t WHERE %s AND NOT %s LIMIT 1', feed::regclass, scd2_internal.key_condition(feed, key), seen), 0)::boolean THEN
        PERFORM scd2_internal.refuse('40001', format('a row with the key came back into table "%s" while it was erased', scd2_internal.label(source)));
    END IF;
    RETURN seen;
END $$;
COMMENT ON FUNCTION scd2_internal.wait_until_gone(oid, oid, jsonb) IS 'Part of erase. Errors: 55000 the row is there, 40001 it came back';

CREATE FUNCTION scd2.erase(source regclass, key jsonb) RETURNS TABLE (relation regclass, rows bigint)
    AS 'MODULE_PATHNAME', 'scd2_call_internal' LANGUAGE C;
CREATE FUNCTION scd2_internal.erase(caller oid, source regclass, key jsonb) RETURNS TABLE (relation regclass, rows bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    made oid[];
    feed oid;
    seen text;
    done jsonb;
BEGIN
    PERFORM scd2_internal.check_erase(caller, source, key);
    PERFORM scd2_internal.check_can_erase(source);
    key := scd2_internal.key_as_text(source, key);
    made := ARRAY(SELECT m.relation FROM scd2_internal.all_made_from(source) m);
    PERFORM scd2_internal.check_authorized(f) FROM scd2_internal.flow f WHERE f.target_relid = ANY (made);
    PERFORM scd2_internal.check_has_key(made, key);
    PERFORM scd2_internal.lock_flow(f.flow_id) FROM (SELECT x.flow_id FROM scd2_internal.flow x WHERE x.target_relid = ANY (made) ORDER BY x.flow_id) f;
    feed := (SELECT f.feed_relid FROM scd2_internal.feed f JOIN pg_class c ON c.oid = f.feed_relid WHERE f.source_relid = source AND NOT f.disabled);
    seen := scd2_internal.wait_until_gone(source, feed, key);
    done := coalesce((SELECT jsonb_agg(e) FROM scd2_internal.erase_lives(source, feed, made,
        scd2_internal.earlier_lives(source, feed, key, seen) || scd2_internal.later_lives(source, feed, key, seen), seen) e), '[]');
    done := done || coalesce((SELECT jsonb_agg(e) FROM scd2_internal.erase_key(source, made, key, seen) e), '[]');
    PERFORM scd2_internal.erase_errors(made);
    INSERT INTO scd2_internal.erasure (source_schema, source_name, source_relid, rows, erased_by)
        SELECT n.nspname, c.relname, c.oid, (SELECT sum((e ->> 'rows')::bigint) FROM jsonb_array_elements(done) e), pg_get_userbyid(caller)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = source;
    PERFORM scd2_internal.wake_apply_at_commit();
    RETURN QUERY SELECT (e ->> 'relation')::oid::regclass, sum((e ->> 'rows')::bigint)::bigint FROM jsonb_array_elements(done) e GROUP BY 1 ORDER BY 1;
END $$;
COMMENT ON FUNCTION scd2.erase(regclass, jsonb) IS
    'Removes what is left of a row that is gone from "source": from its change data feed, from targets and their memories, from rejected events, and from what is made from those targets, under other keys that it had, too (as '
    'far back as the feed reaches). key: the values of the key columns, ''{"id": 17}''. Returns how many rows were removed from each relation. Waits until all changes are captured; until the transaction ends, the flows wait. '
    'It is recorded that this was done, without the key. The log, backups, and pages until they are vacuumed are out of reach. '
    'Errors: 42501 not the owner, 55000 the row is still there, nothing is made from the table, or something that lacks a key column, 22023, 42703, 22004 no key, 40001 the row came back meanwhile, 55P03 a flow is at work, '
    '25001 the transaction has written the table or its snapshot is fixed.';

CREATE VIEW scd2.erasures WITH (security_barrier) AS
    SELECT coalesce(c.oid::regclass::text, format('%I.%I', e.source_schema, e.source_name)) AS source, e.rows, e.erased_by, e.erased_at
    FROM scd2_internal.erasure e LEFT JOIN pg_class c ON c.oid = e.source_relid
    WHERE pg_has_role(c.relowner, 'USAGE') OR pg_has_role('pg_monitor', 'USAGE');
COMMENT ON VIEW scd2.erasures IS 'What was erased from what is made from tables that you own (members of pg_monitor: all): when, by whom, how many rows; not which';
GRANT SELECT ON scd2.erasures TO public;
