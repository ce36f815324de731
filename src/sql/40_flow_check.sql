-- 40_flow_check.sql: what is checked when a flow is created, never left to the first batch.

-- "name" clipped so that it fits with "_label" behind it, as PostgreSQL clips the names of indexes.
CREATE FUNCTION scd2_internal.object_name(name text, label text) RETURNS name
    AS 'MODULE_PATHNAME', 'scd2_object_name' LANGUAGE C IMMUTABLE STRICT;
COMMENT ON FUNCTION scd2_internal.object_name(text, text) IS 'name_label, the name clipped to what fits, as makeObjectName';

CREATE FUNCTION scd2_internal.is_cut(name text, label text) RETURNS boolean
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT octet_length(name) + 1 + octet_length(label) > 63
$$;
COMMENT ON FUNCTION scd2_internal.is_cut(text, text) IS 'Whether name_label has more than 63 bytes';

-- Names that are equal in what fits would be one. A name that was not cut is the one that is documented: if it is taken,
-- that is an error.
CREATE FUNCTION scd2_internal.free_name(schema oid, name text, label text, argument text DEFAULT NULL) RETURNS name
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    candidate name := scd2_internal.object_name(name, label);
    n integer := 1;
BEGIN
    WHILE scd2_internal.is_cut(name, label)
          AND CASE WHEN argument IS NOT NULL THEN EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = schema AND p.proname = candidate AND p.proargtypes::text = argument::regtype::oid::text)
                   ELSE EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = schema AND c.relname = candidate)
                        OR EXISTS (SELECT FROM pg_type t WHERE t.typnamespace = schema AND t.typname = candidate) END LOOP
        n := n + 1;
        candidate := scd2_internal.object_name(name, format('%s_%s', n, label));
    END LOOP;
    RETURN candidate;
END $$;
COMMENT ON FUNCTION scd2_internal.free_name(oid, text, text, text) IS
    'A name for what belongs to a relation: name_label; if that is cut and taken in the schema, with a number before the label. argument: of a function; NULL: of a relation or type';

-- A relation's name as the caller of a public function means it: along his search_path, which is not the one that
-- twins run with.
CREATE FUNCTION scd2_internal.caller_relation(name text, OUT schema oid, OUT relation name, OUT relid oid)
    AS 'MODULE_PATHNAME', 'scd2_caller_relation' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.caller_relation(text) IS
    'Resolves a relation name along the search_path of the caller of the public function; relid is NULL if there is none, then schema is where it would be created. 42P01/3F000 if no schema fits';

-- Flows and readers have names that are theirs in the database. A name is taken first, before a table is locked, so that
-- who waits for it keeps nobody from his tables.
CREATE FUNCTION scd2_internal.take_name(kind text, name name, waits boolean) RETURNS boolean
    AS 'MODULE_PATHNAME', 'scd2_take_name' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.take_name(text, name, boolean) IS
    'Keeps others from giving a flow or a reader (kind) this name until the transaction ends; false: one does already. waits: for pg_scd2.lock_timeout, until it has ended';

CREATE FUNCTION scd2_internal.refuse_name_in_use(kind text, name name) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE lock_not_available USING MESSAGE = format('could not take the name "%s" for a %s within %s', name, kind, current_setting('pg_scd2.lock_timeout')),
        DETAIL = format('A transaction that has not ended yet creates a %s of this name.', kind),
        HINT = 'Try again, or choose another name.';
END $$;
COMMENT ON FUNCTION scd2_internal.refuse_name_in_use(text, name) IS 'Raises 55P03: the name is being given';

-- Raises unless "expression" over the columns of "relation" parses, is of (or assignable to) type "wanted", has no
-- aggregate, window function, subquery or set and is not volatile. It parses as "role", which is whom it will run as:
-- the owner of the flow's target.
CREATE FUNCTION scd2_internal.check_expression(expression text, relation oid, wanted oid, argument text, role oid) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_check_expression' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.check_expression(text, oid, oid, text, oid) IS 'Raises what is wrong with an expression that was given as "argument"';

-- The same for an expression of any type that has an order: its type (of a domain, the base type), collation (0:
-- none), and the columns that it uses.
CREATE FUNCTION scd2_internal.sequence_expression(expression text, relation oid, argument text, role oid, OUT type oid, OUT collation oid, OUT column_names name[])
    AS 'MODULE_PATHNAME', 'scd2_sequence_expression' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.sequence_expression(text, oid, text, oid) IS 'Raises what is wrong with an expression that orders; tells its type and the columns it uses';

-- Raises unless an expression that has passed check_expression() gives the same answer at all times.
CREATE FUNCTION scd2_internal.check_immutable(expression text, relation oid, argument text, role oid) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_check_immutable' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.check_immutable(text, oid, text, oid) IS 'Raises 22023 if an expression depends on more than the columns that it uses';

-- The columns that an expression uses that has passed check_expression().
CREATE FUNCTION scd2_internal.expression_columns(expression text, relation oid, argument text, role oid) RETURNS name[]
    AS 'MODULE_PATHNAME', 'scd2_expression_columns' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.expression_columns(text, oid, text, oid) IS 'Columns of the relation that an expression uses';

-- The fields of struct(a, b) or named_struct('x', a, 'y', b); NULLs for other expressions.
CREATE FUNCTION scd2_internal.struct_fields(expression text, OUT names name[], OUT expressions text[])
    AS 'MODULE_PATHNAME', 'scd2_struct_fields' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.struct_fields(text) IS 'Names and expressions of the fields of a struct, NULLs if the expression is none';

CREATE FUNCTION scd2_internal.check_column_list(list name[], allowed name[], argument text, relation text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bad name;
BEGIN
    SELECT c INTO bad FROM unnest(list) AS c WHERE c IS NULL;
    IF FOUND THEN
        RAISE null_value_not_allowed USING MESSAGE = format('%s contains a NULL', argument);
    END IF;
    SELECT c INTO bad FROM unnest(list) AS c WHERE c <> ALL (allowed) LIMIT 1;
    IF FOUND THEN
        RAISE undefined_column USING MESSAGE = format('column "%s" in %s is not a column of "%s"', bad, argument, relation),
            HINT = format('Columns to choose from: %s.', array_to_string(allowed, ', '));
    END IF;
    SELECT c INTO bad FROM unnest(list) AS c GROUP BY c HAVING count(*) > 1 LIMIT 1;
    IF FOUND THEN
        RAISE duplicate_column USING MESSAGE = format('column "%s" occurs more than once in %s', bad, argument);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_column_list(name[], name[], text, text) IS 'Raises 42703, 42701 or 22004 unless the list holds names of "allowed", each once';

-- The list of a pair (…_list, …_except_list) that was given, applied to "allowed", in the order of "allowed".
CREATE FUNCTION scd2_internal.choose_columns(list name[], except_list name[], allowed name[], argument text, except_argument text, relation text) RETURNS name[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF list IS NOT NULL AND except_list IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = format('%s and %s exclude each other', argument, except_argument);
    END IF;
    PERFORM scd2_internal.check_column_list(list, allowed, argument, relation);
    PERFORM scd2_internal.check_column_list(except_list, allowed, except_argument, relation);
    RETURN coalesce((SELECT array_agg(c ORDER BY n) FROM unnest(allowed) WITH ORDINALITY AS a (c, n)
                     WHERE (list IS NULL OR c = ANY (list)) AND (except_list IS NULL OR c <> ALL (except_list))), '{}');
END $$;
COMMENT ON FUNCTION scd2_internal.choose_columns(name[], name[], name[], text, text, text) IS 'Applies a column list or its opposite';

-- Flows need keys that identify a row at every moment: a unique index that is whole, over columns that are not null
-- and among the keys.
CREATE FUNCTION scd2_internal.check_keys_guarded(source oid, keys name[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM pg_index AS i
        WHERE i.indrelid = source AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
          AND NOT EXISTS (SELECT FROM unnest(i.indkey[0:i.indnkeyatts - 1]) AS k
                          JOIN pg_attribute AS a ON a.attrelid = source AND a.attnum = k
                          WHERE a.attname <> ALL (keys) OR NOT a.attnotnull);
    IF NOT FOUND THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('keys (%s) of "%s" are not unique and not null', array_to_string(keys, ', '), source::regclass),
            DETAIL = 'A flow needs keys that a unique index guards, one that is not partial, over columns that are NOT NULL.',
            HINT = format('ALTER TABLE %s ADD PRIMARY KEY (%s);', source::regclass,
                          (SELECT string_agg(quote_ident(k), ', ') FROM unnest(keys) AS k));
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_keys_guarded(oid, name[]) IS 'Raises 55000 unless a unique, not null, whole index guards the keys';

-- Targets can be sources of flows; a circle would never come to rest.
CREATE FUNCTION scd2_internal.check_no_cycle(source oid, target oid) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF source = target OR EXISTS (
        WITH RECURSIVE downstream AS (
            SELECT target AS relid
            UNION
            SELECT f.target_relid FROM scd2_internal.flow AS f JOIN downstream AS d ON f.source_relid = d.relid)
        SELECT FROM downstream WHERE relid = source)
    THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('target "%s" would be made from itself', target::regclass),
            DETAIL = format('"%s" is the target, or is kept from it by other flows.', source::regclass);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_no_cycle(oid, oid) IS 'Raises 55000 if a flow from source into target closed a circle';

-- To have code run as a role takes what SET ROLE takes: to inherit from it is not enough (nor needed).
CREATE FUNCTION scd2_internal.check_can_set_role(caller oid, role oid, target text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT scd2_internal.can_set_role(caller, role) THEN
        RAISE insufficient_privilege USING MESSAGE = format('must be able to SET ROLE "%s"', pg_get_userbyid(role)),
            DETAIL = format('The flow acts as the owner of its target "%s".', target);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_can_set_role(oid, oid, text) IS
    'Raises 42501 unless the caller may become the owner of a flow''s target';

-- What a flow that acts as "role" will read (src/flow/rights.c).
CREATE FUNCTION scd2_internal.check_rights(role oid, target oid, relations oid[], trusted boolean) RETURNS void
    AS 'MODULE_PATHNAME', 'scd2_check_rights' LANGUAGE C STRICT;
COMMENT ON FUNCTION scd2_internal.check_rights(oid, oid, oid[], boolean) IS
    'Raises 42501 unless the role has SELECT on these relations, and, if it is a superuser, they and their types are superusers'', unless trusted';

CREATE FUNCTION scd2_internal.check_trust(caller oid, role oid, trust boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT coalesce(trust, false) THEN
        RETURN;
    ELSIF NOT (SELECT r.rolsuper FROM pg_roles AS r WHERE r.oid = caller) THEN
        RAISE insufficient_privilege USING MESSAGE = 'must be superuser to give trust => true',
            DETAIL = 'It has code of other roles run as the superuser who owns the target.';
    ELSIF NOT (SELECT r.rolsuper FROM pg_roles AS r WHERE r.oid = role) THEN
        RAISE invalid_parameter_value USING MESSAGE = 'trust is for targets that a superuser owns',
            DETAIL = format('This one belongs to role "%s", as whom all of the flow runs.', pg_get_userbyid(role));
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_trust(oid, oid, boolean) IS 'Raises 42501 or 22023 where trust => true must not be given';

-- The flow as the role "author" acts it: the owner of the target, of one that is made the role that it will belong to.
CREATE FUNCTION scd2_internal.with_author(caller oid, asked scd2_internal.flow, source oid, feed oid, trust boolean)
    RETURNS scd2_internal.flow
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    label CONSTANT text := format('%s.%s', asked.target_schema, asked.target_name);
BEGIN
    asked.author := coalesce((SELECT c.relowner FROM pg_class AS c WHERE c.oid = asked.target_relid),
        scd2_internal.target_owner(caller, source));
    asked.trusted := coalesce(trust, false);
    PERFORM scd2_internal.check_can_set_role(caller, asked.author, label);
    PERFORM scd2_internal.check_trust(caller, asked.author, trust);
    PERFORM scd2_internal.check_rights(asked.author, coalesce(asked.target_relid::oid, 0), array_remove(ARRAY[source, feed], NULL), asked.trusted);
    RETURN asked;
END $$;
COMMENT ON FUNCTION scd2_internal.with_author(oid, scd2_internal.flow, oid, oid, boolean) IS
    'A flow with whom it acts as. Errors: 42501 the caller may not become that role, or it may not read, 22023 trust';

CREATE FUNCTION scd2_internal.check_member(caller oid, role oid, what text, relation text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT pg_has_role(caller, role, 'USAGE') THEN
        RAISE insufficient_privilege USING MESSAGE = format('must be owner of %s "%s"', what, relation);
    END IF;
END $$;
COMMENT ON FUNCTION scd2_internal.check_member(oid, oid, text, text) IS 'Raises 42501 unless the caller has the rights of the owner';
