-- schema.sql: tables of several kinds, an audit trail of everything that happens to them, and what
-- is under test.

CREATE EXTENSION pg_scd2;
CREATE EXTENSION citext;
GRANT USAGE, CREATE ON SCHEMA public TO keeper;

SET ROLE keeper;
CREATE TABLE plain (id int PRIMARY KEY, v int, twice int GENERATED ALWAYS AS (v * 2) STORED, body text, note text);
ALTER TABLE plain ALTER body SET STORAGE EXTERNAL;
CREATE TABLE composite (k1 int, k2 text COLLATE "C", n numeric, doc jsonb, js json, tags text[], at timestamptz, note text, PRIMARY KEY (k2, k1));
CREATE TABLE shifting (id int PRIMARY KEY DEFERRABLE, v int);
CREATE TABLE parts (id int, region int, v int, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (1);
CREATE TABLE parts_2 (v int, dropped text, region int NOT NULL, id int NOT NULL);
ALTER TABLE parts_2 DROP COLUMN dropped;
ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES IN (2);
CREATE TABLE people (nick citext PRIMARY KEY, points int, motto citext);
CREATE TABLE keyless (v int, w text);
CREATE TABLE owners (id int PRIMARY KEY, v int);
CREATE TABLE owned (id int PRIMARY KEY, owner int REFERENCES owners ON UPDATE CASCADE ON DELETE CASCADE);
RESET ROLE;

-- What happened, written by the transaction in which it happened. Values are text, by column. A
-- truncate is noted row by row as well (change 'truncated').
CREATE TABLE audit (n bigserial PRIMARY KEY, xid xid8 NOT NULL DEFAULT pg_current_xact_id(), source text, change text, image jsonb);
GRANT ALL ON audit, audit_n_seq TO keeper;

-- The sources, and which transaction enabled the feed of each (NULL: not yet).
CREATE TABLE sources (source text PRIMARY KEY, keys text[], key_sql text, columns text[], enabled_xid xid8);
GRANT ALL ON sources TO keeper;

-- The flows, with the definition that their targets are compared by.
CREATE TABLE flows (flow text PRIMARY KEY, source text, scd_type int, columns text[], tracked text[], current_column text, starting_version bigint, open_since timestamptz, xid xid8);

-- What table_at said while others wrote.
CREATE TABLE seen (source text, version bigint, image jsonb);

-- An expression that makes the image of a row of "alias".
CREATE FUNCTION image_sql(alias text, columns text[]) RETURNS text LANGUAGE sql AS $$
    SELECT 'jsonb_build_object(' || string_agg(format('%L, %s.%I::text', c, alias, c), ', ') || ')' FROM unnest(columns) c
$$;

-- Triggers of a source. A partition's rows are those of the root, with columns in another order:
-- hence by name. They always fire, for replicas and in workers too.
CREATE FUNCTION audit_source(which text, keys text[], key_sql text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    columns text[] := ARRAY(SELECT attname FROM pg_attribute WHERE attrelid = which::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum);
    leaf regclass;
BEGIN
    INSERT INTO sources VALUES (which, keys, key_sql, columns);
    EXECUTE format($f$
        CREATE FUNCTION audit_%1$s() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $t$
        BEGIN
            IF TG_OP = 'INSERT' THEN
                INSERT INTO audit (source, change, image) VALUES (%1$L, 'insert', %2$s);
            ELSIF TG_OP = 'DELETE' THEN
                INSERT INTO audit (source, change, image) VALUES (%1$L, 'delete', %3$s);
            ELSIF TG_OP = 'UPDATE' THEN
                INSERT INTO audit (source, change, image) VALUES (%1$L, 'update_preimage', %3$s), (%1$L, 'update_postimage', %2$s);
            ELSE
                INSERT INTO audit (source, change, image) SELECT %1$L, 'truncated', %4$s FROM %1$I t;
                INSERT INTO audit (source, change) VALUES (%1$L, 'truncate');
            END IF;
            RETURN NULL;
        END $t$ $f$, which, image_sql('NEW', columns), image_sql('OLD', columns), image_sql('t', columns));
    EXECUTE format('CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON %1$I FOR EACH ROW EXECUTE FUNCTION audit_%1$s()', which);
    EXECUTE format('CREATE TRIGGER audit_truncate BEFORE TRUNCATE ON %1$I EXECUTE FUNCTION audit_%1$s()', which);
    EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER audit_truncate', which);
    FOR leaf IN SELECT which::regclass UNION SELECT relid FROM pg_partition_tree(which::regclass) LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER audit', leaf);
    END LOOP;
END $$;

SELECT audit_source('plain', '{id}', 'image ->> ''id'''), audit_source('composite', '{k2,k1}', '(image ->> ''k1'') || '':'' || (image ->> ''k2'')'),
       audit_source('shifting', '{id}', 'image ->> ''id'''), audit_source('parts', '{id,region}', '(image ->> ''id'') || '':'' || (image ->> ''region'')'),
       audit_source('people', '{nick}', 'lower(image ->> ''nick'')'), audit_source('keyless', NULL, NULL),
       audit_source('owners', '{id}', 'image ->> ''id'''), audit_source('owned', '{id}', 'image ->> ''id''');

-- Enables the feed of a source, unless that is done.
CREATE FUNCTION enable(which text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM sources WHERE source = which AND enabled_xid IS NULL) THEN
        PERFORM scd2.enable_change_feed(which::regclass);
        UPDATE sources SET enabled_xid = pg_current_xact_id() WHERE source = which;
    END IF;
END $$;

-- Begins a flow, unless that is done. "tracked": NULL is all.
CREATE FUNCTION begin_flow(flow text, which text, scd_type int DEFAULT 2, column_list name[] DEFAULT NULL, tracked name[] DEFAULT NULL, current_column name DEFAULT NULL,
                           from_version bigint DEFAULT NULL, open_row_index boolean DEFAULT false) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    s sources;
    names text[];
BEGIN
    IF EXISTS (SELECT FROM flows f WHERE f.flow = begin_flow.flow) THEN
        RETURN;
    END IF;
    PERFORM enable(which);
    SELECT * INTO s FROM sources WHERE sources.source = which;
    names := coalesce(column_list::text[], s.columns);
    PERFORM scd2.track(which::regclass, target => flow, stored_as_scd_type => scd_type, column_list => column_list, track_history_column_list => tracked,
                       current_column => current_column, starting_version => from_version, open_row_index => open_row_index);
    INSERT INTO flows VALUES (flow, which, scd_type, names, coalesce(tracked::text[], ARRAY(SELECT c FROM unnest(names) c WHERE c <> ALL (s.keys))), current_column, from_version, NULL,
                              pg_current_xact_id());
END $$;

-- A version that is reached from today's rows: not before the last TRUNCATE.
CREATE FUNCTION any_past(which text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    earliest bigint;
BEGIN
    EXECUTE format('SELECT greatest(max(_commit_version), scd2.earliest_version(%L)) FROM %I WHERE _change_type = ''truncate''', which, which || '_changes') INTO earliest;
    RETURN earliest + floor(random() * (scd2.latest_version() - earliest + 1));
END $$;

-- table_at while others write; compared when all is over. (A TRUNCATE since then: no answer.)
CREATE FUNCTION look_back(which text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v bigint := CASE WHEN random() < 0.2 THEN scd2.earliest_version(which::regclass) ELSE any_past(which) END;
BEGIN
    EXECUTE format('INSERT INTO seen SELECT %L, $1, %s FROM scd2.table_at(NULL::%I, $1) t', which, image_sql('t', (SELECT columns FROM sources WHERE source = which)), which) USING v;
    INSERT INTO seen VALUES (which, v, NULL);
EXCEPTION WHEN object_not_in_prerequisite_state THEN NULL;
END $$;

-- Rows that are there before anything is captured; some to be copied in later.
INSERT INTO plain (id, v, body) SELECT g, g, 'before' FROM generate_series(1, 20) g;
INSERT INTO plain (id, v, note) SELECT g, g, 'far away' FROM generate_series(1000, 3000) g;
INSERT INTO parts SELECT g, 1 + g % 2, g FROM generate_series(1, 10) g;
INSERT INTO owners SELECT g, 0 FROM generate_series(1, 10) g;
INSERT INTO owned SELECT g, 1 + g % 10 FROM generate_series(1, 30) g;
COPY (SELECT g, 'copied' FROM generate_series(1, 6) g) TO :'copy_file';
