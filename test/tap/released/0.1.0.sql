--
-- PostgreSQL database dump
--


-- Dumped from database version 15.20 (Debian 15.20-0+deb12u1)
-- Dumped by pg_dump version 15.20 (Debian 15.20-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: Odd, schema; Type: SCHEMA; Schema: -; Owner: the owner
--

CREATE SCHEMA "Odd, schema";


ALTER SCHEMA "Odd, schema" OWNER TO "the owner";

--
-- Name: dim; Type: SCHEMA; Schema: -; Owner: the owner
--

CREATE SCHEMA dim;


ALTER SCHEMA dim OWNER TO "the owner";

--
-- Name: scd2; Type: SCHEMA; Schema: -; Owner: postgres
--

CREATE SCHEMA scd2;


ALTER SCHEMA scd2 OWNER TO postgres;

--
-- Name: pg_scd2; Type: EXTENSION; Schema: -; Owner: -
--

CREATE EXTENSION IF NOT EXISTS pg_scd2 WITH SCHEMA scd2;


--
-- Name: kind; Type: TYPE; Schema: Odd, schema; Owner: the owner
--

CREATE TYPE "Odd, schema".kind AS ENUM (
    'big',
    'small'
);


ALTER TYPE "Odd, schema".kind OWNER TO "the owner";

--
-- Name: struct_history_sequence; Type: TYPE; Schema: Odd, schema; Owner: the owner
--

CREATE TYPE "Odd, schema".struct_history_sequence AS (
	day date,
	n integer
);


ALTER TYPE "Odd, schema".struct_history_sequence OWNER TO "the owner";

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: accounts_history; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".accounts_history (
    id integer NOT NULL,
    rev integer,
    v text,
    gone boolean,
    __start_at integer NOT NULL,
    __end_at integer,
    CONSTRAINT accounts_history_check CHECK ((__end_at > __start_at))
)
WITH (fillfactor='50');


ALTER TABLE "Odd, schema".accounts_history OWNER TO "the owner";

--
-- Name: accounts_history_as_of(integer); Type: FUNCTION; Schema: Odd, schema; Owner: the owner
--

CREATE FUNCTION "Odd, schema".accounts_history_as_of(point integer) RETURNS SETOF "Odd, schema".accounts_history
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$SELECT t.* FROM "Odd, schema".accounts_history AS t WHERE t.__start_at OPERATOR(pg_catalog.<=) $1 AND (t.__end_at OPERATOR(pg_catalog.>) $1 OR t.__end_at IS NULL)$_$;


ALTER FUNCTION "Odd, schema".accounts_history_as_of(point integer) OWNER TO "the owner";

--
-- Name: accounts_paused; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".accounts_paused (
    id integer NOT NULL,
    rev integer,
    v text,
    gone boolean,
    __start_at timestamp with time zone NOT NULL,
    __end_at timestamp with time zone,
    CONSTRAINT accounts_paused_check CHECK ((__end_at > __start_at))
)
WITH (fillfactor='50');


ALTER TABLE "Odd, schema".accounts_paused OWNER TO "the owner";

--
-- Name: accounts_paused_as_of(timestamp with time zone); Type: FUNCTION; Schema: Odd, schema; Owner: the owner
--

CREATE FUNCTION "Odd, schema".accounts_paused_as_of(point timestamp with time zone) RETURNS SETOF "Odd, schema".accounts_paused
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$SELECT t.* FROM "Odd, schema".accounts_paused AS t WHERE t.__start_at OPERATOR(pg_catalog.<=) $1 AND (t.__end_at OPERATOR(pg_catalog.>) $1 OR t.__end_at IS NULL)$_$;


ALTER FUNCTION "Odd, schema".accounts_paused_as_of(point timestamp with time zone) OWNER TO "the owner";

--
-- Name: event_history; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".event_history (
    k integer NOT NULL,
    v text,
    u integer,
    __start_at integer NOT NULL,
    __end_at integer,
    CONSTRAINT event_history_check CHECK ((__end_at > __start_at))
)
WITH (fillfactor='70');


ALTER TABLE "Odd, schema".event_history OWNER TO "the owner";

--
-- Name: event_history_as_of(integer); Type: FUNCTION; Schema: Odd, schema; Owner: the owner
--

CREATE FUNCTION "Odd, schema".event_history_as_of(point integer) RETURNS SETOF "Odd, schema".event_history
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$SELECT t.* FROM "Odd, schema".event_history AS t WHERE t.__start_at OPERATOR(pg_catalog.<=) $1 AND (t.__end_at OPERATOR(pg_catalog.>) $1 OR t.__end_at IS NULL)$_$;


ALTER FUNCTION "Odd, schema".event_history_as_of(point integer) OWNER TO "the owner";

--
-- Name: places_history; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".places_history (
    id integer NOT NULL,
    y integer NOT NULL,
    n_until_16 text,
    v text,
    __start_at timestamp with time zone NOT NULL,
    __end_at timestamp with time zone,
    n integer,
    CONSTRAINT places_history_check CHECK ((__end_at > __start_at))
)
WITH (fillfactor='50');


ALTER TABLE "Odd, schema".places_history OWNER TO "the owner";

--
-- Name: places_history_as_of(timestamp with time zone); Type: FUNCTION; Schema: Odd, schema; Owner: the owner
--

CREATE FUNCTION "Odd, schema".places_history_as_of(point timestamp with time zone) RETURNS SETOF "Odd, schema".places_history
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$SELECT t.* FROM "Odd, schema".places_history AS t WHERE t.__start_at OPERATOR(pg_catalog.<=) $1 AND (t.__end_at OPERATOR(pg_catalog.>) $1 OR t.__end_at IS NULL)$_$;


ALTER FUNCTION "Odd, schema".places_history_as_of(point timestamp with time zone) OWNER TO "the owner";

--
-- Name: prices; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".prices (
    sku text NOT NULL,
    price numeric,
    __start_at bigint NOT NULL,
    __end_at bigint,
    CONSTRAINT prices_check CHECK ((__end_at > __start_at))
)
WITH (fillfactor='50');


ALTER TABLE "Odd, schema".prices OWNER TO "the owner";

--
-- Name: prices_as_of(bigint); Type: FUNCTION; Schema: Odd, schema; Owner: the owner
--

CREATE FUNCTION "Odd, schema".prices_as_of(point bigint) RETURNS SETOF "Odd, schema".prices
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$SELECT t.* FROM "Odd, schema".prices AS t WHERE t.__start_at OPERATOR(pg_catalog.<=) $1 AND (t.__end_at OPERATOR(pg_catalog.>) $1 OR t.__end_at IS NULL)$_$;


ALTER FUNCTION "Odd, schema".prices_as_of(point bigint) OWNER TO "the owner";

--
-- Name: rates_history; Type: TABLE; Schema: Odd, schema; Owner: postgres
--

CREATE TABLE "Odd, schema".rates_history (
    id integer NOT NULL,
    v numeric,
    __start_at timestamp with time zone NOT NULL,
    __end_at timestamp with time zone,
    CONSTRAINT rates_history_check CHECK ((__end_at > __start_at))
)
WITH (fillfactor='50');


ALTER TABLE "Odd, schema".rates_history OWNER TO postgres;

--
-- Name: rates_history_as_of(timestamp with time zone); Type: FUNCTION; Schema: Odd, schema; Owner: postgres
--

CREATE FUNCTION "Odd, schema".rates_history_as_of(point timestamp with time zone) RETURNS SETOF "Odd, schema".rates_history
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$SELECT t.* FROM "Odd, schema".rates_history AS t WHERE t.__start_at OPERATOR(pg_catalog.<=) $1 AND (t.__end_at OPERATOR(pg_catalog.>) $1 OR t.__end_at IS NULL)$_$;


ALTER FUNCTION "Odd, schema".rates_history_as_of(point timestamp with time zone) OWNER TO postgres;

--
-- Name: seeded; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".seeded (
    k integer NOT NULL,
    v text,
    __start_at integer NOT NULL,
    __end_at integer,
    CONSTRAINT seeded_check CHECK ((__end_at > __start_at))
)
WITH (fillfactor='70');


ALTER TABLE "Odd, schema".seeded OWNER TO "the owner";

--
-- Name: seeded_as_of(integer); Type: FUNCTION; Schema: Odd, schema; Owner: the owner
--

CREATE FUNCTION "Odd, schema".seeded_as_of(point integer) RETURNS SETOF "Odd, schema".seeded
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$SELECT t.* FROM "Odd, schema".seeded AS t WHERE t.__start_at OPERATOR(pg_catalog.<=) $1 AND (t.__end_at OPERATOR(pg_catalog.>) $1 OR t.__end_at IS NULL)$_$;


ALTER FUNCTION "Odd, schema".seeded_as_of(point integer) OWNER TO "the owner";

--
-- Name: stock; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".stock (
    sku text NOT NULL,
    n integer,
    __start_at timestamp with time zone NOT NULL,
    __end_at timestamp with time zone,
    CONSTRAINT stock_check CHECK ((__end_at > __start_at))
)
WITH (fillfactor='50');


ALTER TABLE "Odd, schema".stock OWNER TO "the owner";

--
-- Name: stock_as_of(timestamp with time zone); Type: FUNCTION; Schema: Odd, schema; Owner: the owner
--

CREATE FUNCTION "Odd, schema".stock_as_of(point timestamp with time zone) RETURNS SETOF "Odd, schema".stock
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$SELECT t.* FROM "Odd, schema".stock AS t WHERE t.__start_at OPERATOR(pg_catalog.<=) $1 AND (t.__end_at OPERATOR(pg_catalog.>) $1 OR t.__end_at IS NULL)$_$;


ALTER FUNCTION "Odd, schema".stock_as_of(point timestamp with time zone) OWNER TO "the owner";

--
-- Name: struct_history; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".struct_history (
    k integer NOT NULL,
    v text,
    __start_at "Odd, schema".struct_history_sequence NOT NULL,
    __end_at "Odd, schema".struct_history_sequence,
    CONSTRAINT struct_history_check CHECK ((__end_at > __start_at))
)
WITH (fillfactor='70');


ALTER TABLE "Odd, schema".struct_history OWNER TO "the owner";

--
-- Name: struct_history_as_of("Odd, schema".struct_history_sequence); Type: FUNCTION; Schema: Odd, schema; Owner: the owner
--

CREATE FUNCTION "Odd, schema".struct_history_as_of(point "Odd, schema".struct_history_sequence) RETURNS SETOF "Odd, schema".struct_history
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$SELECT t.* FROM "Odd, schema".struct_history AS t WHERE t.__start_at OPERATOR(pg_catalog.<=) $1 AND (t.__end_at OPERATOR(pg_catalog.>) $1 OR t.__end_at IS NULL)$_$;


ALTER FUNCTION "Odd, schema".struct_history_as_of(point "Odd, schema".struct_history_sequence) OWNER TO "the owner";

--
-- Name: customers_history; Type: TABLE; Schema: dim; Owner: the owner
--

CREATE TABLE dim.customers_history (
    id integer NOT NULL,
    "Name" text,
    "Region" text,
    __start_at timestamp with time zone NOT NULL,
    __end_at timestamp with time zone,
    added text,
    CONSTRAINT history_check CHECK ((__end_at > __start_at))
)
WITH (fillfactor='50');


ALTER TABLE dim.customers_history OWNER TO "the owner";

--
-- Name: customers_history_as_of(timestamp with time zone); Type: FUNCTION; Schema: dim; Owner: the owner
--

CREATE FUNCTION dim.customers_history_as_of(point timestamp with time zone) RETURNS SETOF dim.customers_history
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$SELECT t.* FROM dim.customers_history AS t WHERE t.__start_at OPERATOR(pg_catalog.<=) $1 AND (t.__end_at OPERATOR(pg_catalog.>) $1 OR t.__end_at IS NULL)$_$;


ALTER FUNCTION dim.customers_history_as_of(point timestamp with time zone) OWNER TO "the owner";

--
-- Name: totals; Type: TABLE; Schema: dim; Owner: the owner
--

CREATE TABLE dim.totals (
    id integer NOT NULL,
    "Name" text,
    "Region" text,
    __start_at timestamp with time zone NOT NULL,
    __end_at timestamp with time zone,
    added text,
    CONSTRAINT totals_check CHECK ((__end_at > __start_at))
)
WITH (fillfactor='50');


ALTER TABLE dim.totals OWNER TO "the owner";

--
-- Name: totals_as_of(timestamp with time zone); Type: FUNCTION; Schema: dim; Owner: the owner
--

CREATE FUNCTION dim.totals_as_of(point timestamp with time zone) RETURNS SETOF dim.totals
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $_$SELECT t.* FROM dim.totals AS t WHERE t.__start_at OPERATOR(pg_catalog.<=) $1 AND (t.__end_at OPERATOR(pg_catalog.>) $1 OR t.__end_at IS NULL)$_$;


ALTER FUNCTION dim.totals_as_of(point timestamp with time zone) OWNER TO "the owner";

--
-- Name: accounts; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".accounts (
    id integer NOT NULL,
    rev integer,
    v text,
    gone boolean DEFAULT false NOT NULL
);

ALTER TABLE ONLY "Odd, schema".accounts REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".accounts OWNER TO "the owner";

--
-- Name: accounts_as_captured; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".accounts_as_captured (
    id integer NOT NULL,
    rev integer,
    v text,
    gone boolean
)
WITH (fillfactor='80');


ALTER TABLE "Odd, schema".accounts_as_captured OWNER TO "the owner";

--
-- Name: accounts_changes; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".accounts_changes (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    id integer,
    rev integer,
    v text,
    gone boolean,
    CONSTRAINT users_check CHECK ((v <> 'never'::text))
)
PARTITION BY RANGE (_commit_version);

ALTER TABLE ONLY "Odd, schema".accounts_changes REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".accounts_changes OWNER TO "the owner";

--
-- Name: accounts_changes_p1; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".accounts_changes_p1 (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    id integer,
    rev integer,
    v text,
    gone boolean,
    CONSTRAINT users_check CHECK ((v <> 'never'::text))
);

ALTER TABLE ONLY "Odd, schema".accounts_changes_p1 REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".accounts_changes_p1 OWNER TO "the owner";

--
-- Name: accounts_history_memory; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".accounts_history_memory (
    id integer NOT NULL,
    rev integer,
    gone boolean,
    _sequence integer NOT NULL,
    _kind "char" NOT NULL,
    _version bigint,
    _ordinal integer
);


ALTER TABLE "Odd, schema".accounts_history_memory OWNER TO "the owner";

--
-- Name: archive; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".archive (
    id integer,
    line text
);


ALTER TABLE "Odd, schema".archive OWNER TO "the owner";

--
-- Name: both; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema"."both" (
    k integer NOT NULL,
    v text,
    w text
)
WITH (fillfactor='80');


ALTER TABLE "Odd, schema"."both" OWNER TO "the owner";

--
-- Name: both_memory; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".both_memory (
    k integer NOT NULL,
    _sequence integer NOT NULL,
    _kind "char" NOT NULL,
    _version bigint,
    _ordinal integer
);


ALTER TABLE "Odd, schema".both_memory OWNER TO "the owner";

--
-- Name: by_kind; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".by_kind (
    kind "Odd, schema".kind NOT NULL,
    v text
)
WITH (fillfactor='80');


ALTER TABLE "Odd, schema".by_kind OWNER TO "the owner";

--
-- Name: by_kind_memory; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".by_kind_memory (
    kind "Odd, schema".kind NOT NULL,
    _sequence integer NOT NULL,
    _kind "char" NOT NULL,
    _version bigint,
    _ordinal integer
);


ALTER TABLE "Odd, schema".by_kind_memory OWNER TO "the owner";

--
-- Name: customers; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".customers (
    id integer NOT NULL,
    "Name" text,
    secret text,
    "Region" text,
    added text DEFAULT 'constant'::text
);

ALTER TABLE ONLY "Odd, schema".customers REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".customers OWNER TO "the owner";

--
-- Name: customers' changes; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema"."customers' changes" (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    id integer,
    "Name" text,
    "Region" text,
    later_gone integer,
    added text
)
PARTITION BY RANGE (_commit_version);

ALTER TABLE ONLY "Odd, schema"."customers' changes" REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema"."customers' changes" OWNER TO "the owner";

--
-- Name: disabled; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".disabled (
    id integer NOT NULL
);


ALTER TABLE "Odd, schema".disabled OWNER TO "the owner";

--
-- Name: disabled_changes; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".disabled_changes (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    id integer
)
PARTITION BY RANGE (_commit_version);

ALTER TABLE ONLY "Odd, schema".disabled_changes REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".disabled_changes OWNER TO "the owner";

--
-- Name: disabled_changes_p1; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".disabled_changes_p1 (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    id integer
);

ALTER TABLE ONLY "Odd, schema".disabled_changes_p1 REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".disabled_changes_p1 OWNER TO "the owner";

--
-- Name: dropped_changes; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".dropped_changes (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    id integer
)
PARTITION BY RANGE (_commit_version);

ALTER TABLE ONLY "Odd, schema".dropped_changes REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".dropped_changes OWNER TO "the owner";

--
-- Name: dropped_changes_p1; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".dropped_changes_p1 (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    id integer
);

ALTER TABLE ONLY "Odd, schema".dropped_changes_p1 REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".dropped_changes_p1 OWNER TO "the owner";

--
-- Name: event_current; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".event_current (
    k integer NOT NULL,
    v text,
    u integer
)
WITH (fillfactor='80');


ALTER TABLE "Odd, schema".event_current OWNER TO "the owner";

--
-- Name: event_current_memory; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".event_current_memory (
    k integer NOT NULL,
    _sequence integer NOT NULL,
    _kind "char" NOT NULL,
    _version bigint,
    _ordinal integer,
    _sequences integer[]
);


ALTER TABLE "Odd, schema".event_current_memory OWNER TO "the owner";

--
-- Name: event_history_memory; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".event_history_memory (
    k integer NOT NULL,
    u integer,
    _sequence integer NOT NULL,
    _kind "char" NOT NULL,
    _version bigint,
    _ordinal integer
);


ALTER TABLE "Odd, schema".event_history_memory OWNER TO "the owner";

--
-- Name: events; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".events (
    k integer,
    v text,
    u integer,
    seq integer,
    op text
);

ALTER TABLE ONLY "Odd, schema".events REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".events OWNER TO "the owner";

--
-- Name: events_changes; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".events_changes (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    k integer,
    v text,
    u integer,
    seq integer,
    op text
)
PARTITION BY RANGE (_commit_version);

ALTER TABLE ONLY "Odd, schema".events_changes REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".events_changes OWNER TO "the owner";

--
-- Name: events_changes_p1; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".events_changes_p1 (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    k integer,
    v text,
    u integer,
    seq integer,
    op text
);

ALTER TABLE ONLY "Odd, schema".events_changes_p1 REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".events_changes_p1 OWNER TO "the owner";

--
-- Name: first_half; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".first_half (
    k integer,
    v text,
    seq integer
);

ALTER TABLE ONLY "Odd, schema".first_half REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".first_half OWNER TO "the owner";

--
-- Name: first_half_changes; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".first_half_changes (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    k integer,
    v text,
    seq integer
)
PARTITION BY RANGE (_commit_version);

ALTER TABLE ONLY "Odd, schema".first_half_changes REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".first_half_changes OWNER TO "the owner";

--
-- Name: first_half_changes_p1; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".first_half_changes_p1 (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    k integer,
    v text,
    seq integer
);

ALTER TABLE ONLY "Odd, schema".first_half_changes_p1 REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".first_half_changes_p1 OWNER TO "the owner";

--
-- Name: inventory; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".inventory (
    sku text NOT NULL,
    n integer
);


ALTER TABLE "Odd, schema".inventory OWNER TO "the owner";

--
-- Name: kinds; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".kinds (
    kind "Odd, schema".kind,
    v text,
    seq integer
);

ALTER TABLE ONLY "Odd, schema".kinds REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".kinds OWNER TO "the owner";

--
-- Name: kinds_changes; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".kinds_changes (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    kind "Odd, schema".kind,
    v text,
    seq integer
)
PARTITION BY RANGE (_commit_version);

ALTER TABLE ONLY "Odd, schema".kinds_changes REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".kinds_changes OWNER TO "the owner";

--
-- Name: kinds_changes_p1; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".kinds_changes_p1 (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    kind "Odd, schema".kind,
    v text,
    seq integer
);

ALTER TABLE ONLY "Odd, schema".kinds_changes_p1 REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".kinds_changes_p1 OWNER TO "the owner";

--
-- Name: log; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".log (
    id integer,
    line text
);

ALTER TABLE ONLY "Odd, schema".log REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".log OWNER TO "the owner";

--
-- Name: log_changes; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".log_changes (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    id integer,
    line text
)
PARTITION BY RANGE (_commit_version);

ALTER TABLE ONLY "Odd, schema".log_changes REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".log_changes OWNER TO "the owner";

--
-- Name: log_changes_p1; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".log_changes_p1 (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    id integer,
    line text
);

ALTER TABLE ONLY "Odd, schema".log_changes_p1 REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".log_changes_p1 OWNER TO "the owner";

--
-- Name: places; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".places (
    id integer NOT NULL,
    y integer NOT NULL,
    n integer,
    v text
)
PARTITION BY RANGE (y);


ALTER TABLE "Odd, schema".places OWNER TO "the owner";

--
-- Name: places_changes; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".places_changes (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    id integer,
    y integer,
    n_until_16 text,
    v text,
    n integer
)
PARTITION BY RANGE (_commit_version);

ALTER TABLE ONLY "Odd, schema".places_changes REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".places_changes OWNER TO "the owner";

--
-- Name: places_changes_p1; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".places_changes_p1 (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    id integer,
    y integer,
    n_until_16 text,
    v text,
    n integer
);

ALTER TABLE ONLY "Odd, schema".places_changes_p1 REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".places_changes_p1 OWNER TO "the owner";

--
-- Name: places_new; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".places_new (
    id integer NOT NULL,
    y integer NOT NULL,
    n integer,
    v text
);

ALTER TABLE ONLY "Odd, schema".places_new REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".places_new OWNER TO "the owner";

--
-- Name: places_old; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".places_old (
    id integer NOT NULL,
    y integer NOT NULL,
    n integer,
    v text
);

ALTER TABLE ONLY "Odd, schema".places_old REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".places_old OWNER TO "the owner";

--
-- Name: products; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".products (
    sku text NOT NULL,
    price numeric
);


ALTER TABLE "Odd, schema".products OWNER TO "the owner";

--
-- Name: rates; Type: TABLE; Schema: Odd, schema; Owner: postgres
--

CREATE TABLE "Odd, schema".rates (
    id integer NOT NULL,
    v numeric
);

ALTER TABLE ONLY "Odd, schema".rates REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".rates OWNER TO postgres;

--
-- Name: rates_changes; Type: TABLE; Schema: Odd, schema; Owner: postgres
--

CREATE TABLE "Odd, schema".rates_changes (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    id integer,
    v numeric
)
PARTITION BY RANGE (_commit_version);

ALTER TABLE ONLY "Odd, schema".rates_changes REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".rates_changes OWNER TO postgres;

--
-- Name: rates_changes_p1; Type: TABLE; Schema: Odd, schema; Owner: postgres
--

CREATE TABLE "Odd, schema".rates_changes_p1 (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    id integer,
    v numeric
);

ALTER TABLE ONLY "Odd, schema".rates_changes_p1 REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".rates_changes_p1 OWNER TO postgres;

--
-- Name: second_half; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".second_half (
    k integer,
    w text,
    seq integer
);

ALTER TABLE ONLY "Odd, schema".second_half REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".second_half OWNER TO "the owner";

--
-- Name: second_half_changes; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".second_half_changes (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    k integer,
    w text,
    seq integer
)
PARTITION BY RANGE (_commit_version);

ALTER TABLE ONLY "Odd, schema".second_half_changes REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".second_half_changes OWNER TO "the owner";

--
-- Name: second_half_changes_p1; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".second_half_changes_p1 (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    k integer,
    w text,
    seq integer
);

ALTER TABLE ONLY "Odd, schema".second_half_changes_p1 REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".second_half_changes_p1 OWNER TO "the owner";

--
-- Name: seeded_memory; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".seeded_memory (
    k integer NOT NULL,
    _sequence integer NOT NULL,
    _kind "char" NOT NULL,
    _version bigint,
    _ordinal integer
);


ALTER TABLE "Odd, schema".seeded_memory OWNER TO "the owner";

--
-- Name: seeds; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".seeds (
    k integer,
    v text,
    seq integer
);


ALTER TABLE "Odd, schema".seeds OWNER TO "the owner";

--
-- Name: struct_events; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".struct_events (
    k integer,
    v text,
    day date,
    n integer
);

ALTER TABLE ONLY "Odd, schema".struct_events REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".struct_events OWNER TO "the owner";

--
-- Name: struct_events_changes; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".struct_events_changes (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    k integer,
    v text,
    day date,
    n integer
)
PARTITION BY RANGE (_commit_version);

ALTER TABLE ONLY "Odd, schema".struct_events_changes REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".struct_events_changes OWNER TO "the owner";

--
-- Name: struct_events_changes_p1; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".struct_events_changes_p1 (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    k integer,
    v text,
    day date,
    n integer
);

ALTER TABLE ONLY "Odd, schema".struct_events_changes_p1 REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".struct_events_changes_p1 OWNER TO "the owner";

--
-- Name: struct_history_memory; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".struct_history_memory (
    k integer NOT NULL,
    _sequence "Odd, schema".struct_history_sequence NOT NULL,
    _kind "char" NOT NULL,
    _version bigint,
    _ordinal integer
);


ALTER TABLE "Odd, schema".struct_history_memory OWNER TO "the owner";

--
-- Name: was_called_changes_p1; Type: TABLE; Schema: Odd, schema; Owner: the owner
--

CREATE TABLE "Odd, schema".was_called_changes_p1 (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    id integer,
    "Name" text,
    "Region" text,
    later_gone integer,
    added text
);

ALTER TABLE ONLY "Odd, schema".was_called_changes_p1 REPLICA IDENTITY FULL;


ALTER TABLE "Odd, schema".was_called_changes_p1 OWNER TO "the owner";

--
-- Name: current; Type: TABLE; Schema: dim; Owner: the owner
--

CREATE TABLE dim.current (
    id integer NOT NULL,
    "Name" text,
    "Region" text,
    added text
)
WITH (fillfactor='80');

ALTER TABLE ONLY dim.current REPLICA IDENTITY FULL;


ALTER TABLE dim.current OWNER TO "the owner";

--
-- Name: current_changes; Type: TABLE; Schema: dim; Owner: the owner
--

CREATE TABLE dim.current_changes (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    id integer,
    "Name" text,
    "Region" text,
    added text
)
PARTITION BY RANGE (_commit_version);

ALTER TABLE ONLY dim.current_changes REPLICA IDENTITY FULL;


ALTER TABLE dim.current_changes OWNER TO "the owner";

--
-- Name: current_changes_p1; Type: TABLE; Schema: dim; Owner: the owner
--

CREATE TABLE dim.current_changes_p1 (
    _change_type text NOT NULL,
    _commit_version bigint NOT NULL,
    _commit_timestamp timestamp with time zone NOT NULL,
    _change_ordinal integer NOT NULL,
    _xid xid8 NOT NULL,
    id integer,
    "Name" text,
    "Region" text,
    added text
);

ALTER TABLE ONLY dim.current_changes_p1 REPLICA IDENTITY FULL;


ALTER TABLE dim.current_changes_p1 OWNER TO "the owner";

--
-- Name: accounts_changes_p1; Type: TABLE ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".accounts_changes ATTACH PARTITION "Odd, schema".accounts_changes_p1 FOR VALUES FROM (MINVALUE) TO (MAXVALUE);


--
-- Name: disabled_changes_p1; Type: TABLE ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".disabled_changes ATTACH PARTITION "Odd, schema".disabled_changes_p1 FOR VALUES FROM (MINVALUE) TO (MAXVALUE);


--
-- Name: dropped_changes_p1; Type: TABLE ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".dropped_changes ATTACH PARTITION "Odd, schema".dropped_changes_p1 FOR VALUES FROM (MINVALUE) TO (MAXVALUE);


--
-- Name: events_changes_p1; Type: TABLE ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".events_changes ATTACH PARTITION "Odd, schema".events_changes_p1 FOR VALUES FROM (MINVALUE) TO (MAXVALUE);


--
-- Name: first_half_changes_p1; Type: TABLE ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".first_half_changes ATTACH PARTITION "Odd, schema".first_half_changes_p1 FOR VALUES FROM (MINVALUE) TO (MAXVALUE);


--
-- Name: kinds_changes_p1; Type: TABLE ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".kinds_changes ATTACH PARTITION "Odd, schema".kinds_changes_p1 FOR VALUES FROM (MINVALUE) TO (MAXVALUE);


--
-- Name: log_changes_p1; Type: TABLE ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".log_changes ATTACH PARTITION "Odd, schema".log_changes_p1 FOR VALUES FROM (MINVALUE) TO (MAXVALUE);


--
-- Name: places_changes_p1; Type: TABLE ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".places_changes ATTACH PARTITION "Odd, schema".places_changes_p1 FOR VALUES FROM (MINVALUE) TO (MAXVALUE);


--
-- Name: places_new; Type: TABLE ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".places ATTACH PARTITION "Odd, schema".places_new FOR VALUES FROM (10) TO (20);


--
-- Name: places_old; Type: TABLE ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".places ATTACH PARTITION "Odd, schema".places_old FOR VALUES FROM (0) TO (10);


--
-- Name: rates_changes_p1; Type: TABLE ATTACH; Schema: Odd, schema; Owner: postgres
--

ALTER TABLE ONLY "Odd, schema".rates_changes ATTACH PARTITION "Odd, schema".rates_changes_p1 FOR VALUES FROM (MINVALUE) TO (MAXVALUE);


--
-- Name: second_half_changes_p1; Type: TABLE ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".second_half_changes ATTACH PARTITION "Odd, schema".second_half_changes_p1 FOR VALUES FROM (MINVALUE) TO (MAXVALUE);


--
-- Name: struct_events_changes_p1; Type: TABLE ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".struct_events_changes ATTACH PARTITION "Odd, schema".struct_events_changes_p1 FOR VALUES FROM (MINVALUE) TO (MAXVALUE);


--
-- Name: was_called_changes_p1; Type: TABLE ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema"."customers' changes" ATTACH PARTITION "Odd, schema".was_called_changes_p1 FOR VALUES FROM (MINVALUE) TO (MAXVALUE);


--
-- Name: current_changes_p1; Type: TABLE ATTACH; Schema: dim; Owner: the owner
--

ALTER TABLE ONLY dim.current_changes ATTACH PARTITION dim.current_changes_p1 FOR VALUES FROM (MINVALUE) TO (MAXVALUE);


--
-- Data for Name: accounts; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".accounts (id, rev, v, gone) FROM stdin;
1	1	one	f
2	2	two again	f
\.


--
-- Data for Name: accounts_as_captured; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".accounts_as_captured (id, rev, v, gone) FROM stdin;
1	1	one	f
2	2	two again	f
\.


--
-- Data for Name: accounts_changes_p1; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".accounts_changes_p1 (_change_type, _commit_version, _commit_timestamp, _change_ordinal, _xid, id, rev, v, gone) FROM stdin;
update_preimage	21	2026-11-30 23:58:03.186313+00	1	1145	2	1	two	f
update_postimage	21	2026-11-30 23:58:03.186313+00	2	1145	2	2	two again	f
\.


--
-- Data for Name: accounts_history; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".accounts_history (id, rev, v, gone, __start_at, __end_at) FROM stdin;
1	1	one	f	1	\N
2	1	two	f	1	2
2	2	two again	f	2	\N
\.


--
-- Data for Name: accounts_history_memory; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".accounts_history_memory (id, rev, gone, _sequence, _kind, _version, _ordinal) FROM stdin;
\.


--
-- Data for Name: accounts_paused; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".accounts_paused (id, rev, v, gone, __start_at, __end_at) FROM stdin;
1	1	one	f	2026-11-30 23:58:02.594469+00	\N
2	1	two	f	2026-11-30 23:58:02.594469+00	\N
\.


--
-- Data for Name: archive; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".archive (id, line) FROM stdin;
1	line
\.


--
-- Data for Name: both; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema"."both" (k, v, w) FROM stdin;
1	late	\N
\.


--
-- Data for Name: both_memory; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".both_memory (k, _sequence, _kind, _version, _ordinal) FROM stdin;
1	20	v	\N	\N
\.


--
-- Data for Name: by_kind; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".by_kind (kind, v) FROM stdin;
small	stays
\.


--
-- Data for Name: by_kind_memory; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".by_kind_memory (kind, _sequence, _kind, _version, _ordinal) FROM stdin;
small	10	v	\N	\N
\.


--
-- Data for Name: customers; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".customers (id, "Name", secret, "Region", added) FROM stdin;
3	Marta	s	Oeste	constant
1	Ana María	s	Sur	constant
\.


--
-- Data for Name: disabled; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".disabled (id) FROM stdin;
1
\.


--
-- Data for Name: disabled_changes_p1; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".disabled_changes_p1 (_change_type, _commit_version, _commit_timestamp, _change_ordinal, _xid, id) FROM stdin;
insert	12	2026-11-30 23:58:00.842737+00	1	1047	1
\.


--
-- Data for Name: dropped_changes_p1; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".dropped_changes_p1 (_change_type, _commit_version, _commit_timestamp, _change_ordinal, _xid, id) FROM stdin;
insert	13	2026-11-30 23:58:00.842954+00	1	1048	1
\.


--
-- Data for Name: event_current; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".event_current (k, v, u) FROM stdin;
1	a	2
3	x	1
4	keep	9
\.


--
-- Data for Name: event_current_memory; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".event_current_memory (k, _sequence, _kind, _version, _ordinal, _sequences) FROM stdin;
1	20	v	\N	\N	{20,20}
2	50	d	\N	\N	\N
3	5	v	\N	\N	{5,5}
4	45	v	\N	\N	{40,45}
\.


--
-- Data for Name: event_history; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".event_history (k, v, u, __start_at, __end_at) FROM stdin;
1	a	2	10	30
3	x	1	5	30
4	keep	\N	40	45
4	\N	9	45	\N
\.


--
-- Data for Name: event_history_memory; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".event_history_memory (k, u, _sequence, _kind, _version, _ordinal) FROM stdin;
1	1	20	u	\N	\N
2	\N	50	d	\N	\N
\.


--
-- Data for Name: events; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".events (k, v, u, seq, op) FROM stdin;
1	a	1	10	U
1	a	2	20	U
2	\N	\N	50	D
3	x	1	5	U
\N	\N	\N	30	T
4	keep	\N	40	U
4	\N	9	45	U
\N	no key	1	46	U
\.


--
-- Data for Name: events_changes_p1; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".events_changes_p1 (_change_type, _commit_version, _commit_timestamp, _change_ordinal, _xid, k, v, u, seq, op) FROM stdin;
insert	8	2026-11-30 23:58:00.816481+00	1	1031	1	a	1	10	U
insert	8	2026-11-30 23:58:00.816481+00	2	1031	1	a	2	20	U
insert	8	2026-11-30 23:58:00.816481+00	3	1031	2	\N	\N	50	D
insert	8	2026-11-30 23:58:00.816481+00	4	1031	3	x	1	5	U
insert	8	2026-11-30 23:58:00.816481+00	5	1031	\N	\N	\N	30	T
insert	8	2026-11-30 23:58:00.816481+00	6	1031	4	keep	\N	40	U
insert	8	2026-11-30 23:58:00.816481+00	7	1031	4	\N	9	45	U
insert	8	2026-11-30 23:58:00.816481+00	8	1031	\N	no key	1	46	U
\.


--
-- Data for Name: first_half; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".first_half (k, v, seq) FROM stdin;
1	late	20
1	early	10
\.


--
-- Data for Name: first_half_changes_p1; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".first_half_changes_p1 (_change_type, _commit_version, _commit_timestamp, _change_ordinal, _xid, k, v, seq) FROM stdin;
insert	22	2026-11-30 23:58:03.186556+00	1	1146	1	late	20
insert	22	2026-11-30 23:58:03.186556+00	2	1146	1	early	10
\.


--
-- Data for Name: inventory; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".inventory (sku, n) FROM stdin;
bread	2
apple	5
\.


--
-- Data for Name: kinds; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".kinds (kind, v, seq) FROM stdin;
small	stays	10
\.


--
-- Data for Name: kinds_changes_p1; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".kinds_changes_p1 (_change_type, _commit_version, _commit_timestamp, _change_ordinal, _xid, kind, v, seq) FROM stdin;
insert	11	2026-11-30 23:58:00.842497+00	2	1046	small	stays	10
\.


--
-- Data for Name: log; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".log (id, line) FROM stdin;
1	line
2	not appended yet
\.


--
-- Data for Name: log_changes_p1; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".log_changes_p1 (_change_type, _commit_version, _commit_timestamp, _change_ordinal, _xid, id, line) FROM stdin;
insert	10	2026-11-30 23:58:00.842271+00	1	1045	1	line
insert	20	2026-11-30 23:58:01.257631+00	1	1097	2	not appended yet
\.


--
-- Data for Name: places_changes_p1; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".places_changes_p1 (_change_type, _commit_version, _commit_timestamp, _change_ordinal, _xid, id, y, n_until_16, v, n) FROM stdin;
insert	5	2026-11-30 23:58:00.815801+00	1	1028	1	5	1	old	\N
insert	5	2026-11-30 23:58:00.815801+00	2	1028	2	15	2	new	\N
delete	7	2026-11-30 23:58:00.816189+00	1	1030	1	5	1	old	\N
insert	7	2026-11-30 23:58:00.816189+00	2	1030	1	16	1	old	\N
update_preimage	17	2026-11-30 23:58:01.019286+00	1	1082	2	15	2	new	\N
update_postimage	17	2026-11-30 23:58:01.019286+00	2	1082	2	15	\N	new	3
update_preimage	17	2026-11-30 23:58:01.019286+00	3	1082	1	16	1	old	\N
update_postimage	17	2026-11-30 23:58:01.019286+00	4	1082	1	16	\N	old	2
\.


--
-- Data for Name: places_history; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".places_history (id, y, n_until_16, v, __start_at, __end_at, n) FROM stdin;
1	5	1	old	2026-11-30 23:58:00.815801+00	2026-11-30 23:58:00.816189+00	\N
1	16	1	old	2026-11-30 23:58:00.816189+00	2026-11-30 23:58:01.019286+00	\N
2	15	2	new	2026-11-30 23:58:00.815801+00	2026-11-30 23:58:01.019286+00	\N
1	16	\N	old	2026-11-30 23:58:01.019286+00	\N	2
2	15	\N	new	2026-11-30 23:58:01.019286+00	\N	3
\.


--
-- Data for Name: places_new; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".places_new (id, y, n, v) FROM stdin;
2	15	3	new
1	16	2	old
\.


--
-- Data for Name: places_old; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".places_old (id, y, n, v) FROM stdin;
\.


--
-- Data for Name: prices; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".prices (sku, price, __start_at, __end_at) FROM stdin;
bread	2	10	\N
apple	1	10	20
apple	3	20	\N
\.


--
-- Data for Name: products; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".products (sku, price) FROM stdin;
bread	2
apple	3
\.


--
-- Data for Name: rates; Type: TABLE DATA; Schema: Odd, schema; Owner: postgres
--

COPY "Odd, schema".rates (id, v) FROM stdin;
1	1
2	-1
\.


--
-- Data for Name: rates_changes_p1; Type: TABLE DATA; Schema: Odd, schema; Owner: postgres
--

COPY "Odd, schema".rates_changes_p1 (_change_type, _commit_version, _commit_timestamp, _change_ordinal, _xid, id, v) FROM stdin;
insert	24	2026-11-30 23:58:03.190119+00	1	1150	1	1
insert	24	2026-11-30 23:58:03.190119+00	2	1150	2	-1
\.


--
-- Data for Name: rates_history; Type: TABLE DATA; Schema: Odd, schema; Owner: postgres
--

COPY "Odd, schema".rates_history (id, v, __start_at, __end_at) FROM stdin;
1	1	2026-11-30 23:58:03.190119+00	\N
\.


--
-- Data for Name: second_half; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".second_half (k, w, seq) FROM stdin;
1	beside it	15
\.


--
-- Data for Name: second_half_changes_p1; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".second_half_changes_p1 (_change_type, _commit_version, _commit_timestamp, _change_ordinal, _xid, k, w, seq) FROM stdin;
insert	23	2026-11-30 23:58:03.189452+00	1	1148	1	beside it	15
\.


--
-- Data for Name: seeded; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".seeded (k, v, __start_at, __end_at) FROM stdin;
1	seed	1	\N
\.


--
-- Data for Name: seeded_memory; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".seeded_memory (k, _sequence, _kind, _version, _ordinal) FROM stdin;
\.


--
-- Data for Name: seeds; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".seeds (k, v, seq) FROM stdin;
1	seed	1
\.


--
-- Data for Name: stock; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".stock (sku, n, __start_at, __end_at) FROM stdin;
bread	2	2026-11-30 23:58:02.859237+00	\N
apple	1	2026-11-30 23:58:02.859237+00	2026-11-30 23:58:03.229193+00
apple	5	2026-11-30 23:58:03.229193+00	\N
\.


--
-- Data for Name: struct_events; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".struct_events (k, v, day, n) FROM stdin;
1	a	2026-01-01	1
1	b	2026-01-01	2
\.


--
-- Data for Name: struct_events_changes_p1; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".struct_events_changes_p1 (_change_type, _commit_version, _commit_timestamp, _change_ordinal, _xid, k, v, day, n) FROM stdin;
insert	9	2026-11-30 23:58:00.81667+00	1	1032	1	a	2026-01-01	1
insert	9	2026-11-30 23:58:00.81667+00	2	1032	1	b	2026-01-01	2
\.


--
-- Data for Name: struct_history; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".struct_history (k, v, __start_at, __end_at) FROM stdin;
1	a	(2026-01-01,1)	(2026-01-01,2)
1	b	(2026-01-01,2)	\N
\.


--
-- Data for Name: struct_history_memory; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".struct_history_memory (k, _sequence, _kind, _version, _ordinal) FROM stdin;
\.


--
-- Data for Name: was_called_changes_p1; Type: TABLE DATA; Schema: Odd, schema; Owner: the owner
--

COPY "Odd, schema".was_called_changes_p1 (_change_type, _commit_version, _commit_timestamp, _change_ordinal, _xid, id, "Name", "Region", later_gone, added) FROM stdin;
insert	2	2026-11-30 23:58:00.81449+00	1	1024	3	Marta	Oeste	3	constant
update_preimage	3	2026-11-30 23:58:00.815026+00	1	1025	1	Ana	Norte	1	constant
update_postimage	3	2026-11-30 23:58:00.815026+00	2	1025	1	Ana	Sur	1	constant
delete	4	2026-11-30 23:58:00.815214+00	1	1027	2	Luis	Centro	2	constant
update_preimage	15	2026-11-30 23:58:00.982831+00	1	1069	1	Ana	Sur	\N	constant
update_postimage	15	2026-11-30 23:58:00.982831+00	2	1069	1	Ana María	Sur	\N	constant
\.


--
-- Data for Name: current; Type: TABLE DATA; Schema: dim; Owner: the owner
--

COPY dim.current (id, "Name", "Region", added) FROM stdin;
3	Marta	Oeste	constant
1	Ana María	Sur	constant
\.


--
-- Data for Name: current_changes_p1; Type: TABLE DATA; Schema: dim; Owner: the owner
--

COPY dim.current_changes_p1 (_change_type, _commit_version, _commit_timestamp, _change_ordinal, _xid, id, "Name", "Region", added) FROM stdin;
insert	1	2026-11-30 23:58:00.27588+00	1	988	1	Ana	Norte	constant
insert	1	2026-11-30 23:58:00.27588+00	2	988	2	Luis	Centro	constant
insert	6	2026-11-30 23:58:00.815836+00	1	1029	3	Marta	Oeste	constant
update_preimage	14	2026-11-30 23:58:00.844937+00	1	1050	1	Ana	Norte	constant
update_postimage	14	2026-11-30 23:58:00.844937+00	2	1050	1	Ana	Sur	constant
delete	14	2026-11-30 23:58:00.844937+00	3	1050	2	Luis	Centro	constant
update_preimage	18	2026-11-30 23:58:01.230394+00	1	1088	1	Ana	Sur	constant
update_postimage	18	2026-11-30 23:58:01.230394+00	2	1088	1	Ana María	Sur	constant
\.


--
-- Data for Name: customers_history; Type: TABLE DATA; Schema: dim; Owner: the owner
--

COPY dim.customers_history (id, "Name", "Region", __start_at, __end_at, added) FROM stdin;
3	Marta	Oeste	2026-11-30 23:58:00.81449+00	\N	constant
1	Ana	Norte	2026-11-30 23:58:00.195128+00	2026-11-30 23:58:00.815026+00	constant
2	Luis	Centro	2026-11-30 23:58:00.195128+00	2026-11-30 23:58:00.815214+00	constant
1	Ana	Sur	2026-11-30 23:58:00.815026+00	2026-11-30 23:58:00.982831+00	constant
1	Ana María	Sur	2026-11-30 23:58:00.982831+00	\N	constant
\.


--
-- Data for Name: totals; Type: TABLE DATA; Schema: dim; Owner: the owner
--

COPY dim.totals (id, "Name", "Region", __start_at, __end_at, added) FROM stdin;
3	Marta	Oeste	2026-11-30 23:58:00.815836+00	\N	constant
1	Ana	Norte	2026-11-30 23:58:00.27588+00	2026-11-30 23:58:00.844937+00	constant
2	Luis	Centro	2026-11-30 23:58:00.27588+00	2026-11-30 23:58:00.844937+00	constant
1	Ana	Sur	2026-11-30 23:58:00.844937+00	2026-11-30 23:58:01.230394+00	constant
1	Ana María	Sur	2026-11-30 23:58:01.230394+00	\N	constant
\.


--
-- Data for Name: batch; Type: TABLE DATA; Schema: scd2_internal; Owner: postgres
--

COPY scd2_internal.batch (flow_id, slot, started, duration, first_version, last_version, events, rows_inserted, rows_updated, rows_deleted) FROM stdin;
1	0	2026-11-30 23:58:00.310774+00	00:00:00.00035	1	1	0	0	0	0
3	0	2026-11-30 23:58:00.311529+00	00:00:00.000253	1	1	2	2	0	0
2	0	2026-11-30 23:58:00.300184+00	00:00:00.013802	1	1	0	0	0	0
5	0	2026-11-30 23:58:00.445897+00	00:00:00.013277	2	1	0	0	0	0
6	0	2026-11-30 23:58:00.472432+00	00:00:00.006146	2	1	0	0	0	0
7	0	2026-11-30 23:58:00.564926+00	00:00:00.005264	2	1	0	0	0	0
9	0	2026-11-30 23:58:00.628361+00	00:00:00.005936	2	1	0	0	0	0
10	0	2026-11-30 23:58:00.692338+00	00:00:00.0174	2	1	0	0	0	0
2	1	2026-11-30 23:58:00.815455+00	00:00:00.00035	2	2	1	1	0	0
1	1	2026-11-30 23:58:00.817223+00	00:00:00.000152	2	2	1	1	0	0
5	1	2026-11-30 23:58:00.825384+00	00:00:00.000718	2	2	0	0	0	0
7	1	2026-11-30 23:58:00.826221+00	00:00:00.000418	2	9	2	2	0	0
9	1	2026-11-30 23:58:00.826722+00	00:00:00.000184	2	9	0	0	0	0
1	2	2026-11-30 23:58:00.826962+00	00:00:00.000211	3	4	2	1	2	0
3	1	2026-11-30 23:58:00.827218+00	00:00:00.000132	2	6	1	1	0	0
5	2	2026-11-30 23:58:00.82739+00	00:00:00.001601	3	8	8	4	0	0
4	0	2026-11-30 23:58:00.833359+00	00:00:00.000416	2	2	0	0	0	0
8	0	2026-11-30 23:58:00.840339+00	00:00:00.001031	0	0	2	2	0	0
6	1	2026-11-30 23:58:00.836358+00	00:00:00.005542	2	8	8	3	0	0
10	1	2026-11-30 23:58:00.844266+00	00:00:00.000295	2	9	0	0	0	0
2	2	2026-11-30 23:58:00.844667+00	00:00:00.000249	3	4	2	0	1	1
3	2	2026-11-30 23:58:00.846134+00	00:00:00.000128	7	14	2	1	2	0
9	2	2026-11-30 23:58:00.846341+00	00:00:00.000278	10	11	2	2	0	0
4	1	2026-11-30 23:58:00.844976+00	00:00:00.003439	3	7	4	3	0	0
10	2	2026-11-30 23:58:00.848553+00	00:00:00.000151	10	10	1	1	0	0
4	2	2026-11-30 23:58:01.162021+00	00:00:00.000427	8	15	0	0	0	0
2	3	2026-11-30 23:58:01.230039+00	00:00:00.000318	5	15	1	0	1	0
4	3	2026-11-30 23:58:01.244705+00	00:00:00.004421	16	17	2	2	2	0
8	1	2026-11-30 23:58:01.250774+00	00:00:00.000632	0	0	2	1	1	0
3	3	2026-11-30 23:58:01.28388+00	00:00:00.000264	15	18	1	1	1	0
9	3	2026-11-30 23:58:01.293131+00	00:00:00.000313	12	19	0	0	0	0
1	3	2026-11-30 23:58:02.246323+00	00:00:00.000399	5	15	1	1	1	0
11	0	2026-11-30 23:58:02.548751+00	00:00:00.018163	21	20	2	2	0	0
14	0	2026-11-30 23:58:02.704415+00	00:00:00.009051	21	20	0	0	0	0
15	0	2026-11-30 23:58:02.803794+00	00:00:00.009896	21	20	0	0	0	0
16	0	2026-11-30 23:58:02.841638+00	00:00:00.001398	21	20	1	1	0	0
17	0	2026-11-30 23:58:02.885757+00	00:00:00.000815	0	0	2	2	0	0
17	1	2026-11-30 23:58:03.049506+00	00:00:00.000351	0	0	2	0	0	0
17	2	2026-11-30 23:58:03.069515+00	00:00:00.000319	0	0	2	0	0	0
11	1	2026-11-30 23:58:03.195846+00	00:00:00.00063	21	21	1	1	1	0
15	1	2026-11-30 23:58:03.196592+00	00:00:00.000204	21	21	0	0	0	0
15	2	2026-11-30 23:58:03.199941+00	00:00:00.000645	22	23	1	1	0	0
17	3	2026-11-30 23:58:03.229434+00	00:00:00.000268	0	0	2	1	1	0
17	4	2026-11-30 23:58:03.23554+00	00:00:00.000231	0	0	2	0	0	0
12	0	2026-11-30 23:58:03.20296+00	00:00:00.000492	21	21	1	0	1	0
14	1	2026-11-30 23:58:03.215018+00	00:00:00.000546	21	22	2	0	1	0
18	0	2026-11-30 23:58:03.223008+00	00:00:00.00083	21	24	1	1	0	0
\.


--
-- Data for Name: erased_key; Type: TABLE DATA; Schema: scd2_internal; Owner: postgres
--

COPY scd2_internal.erased_key (target_schema, target_name, target_relid, fingerprint, seed, sequence) FROM stdin;
Odd, schema	by_kind	"Odd, schema".by_kind	-6665702537109604063	7856251234499861836	10
\.


--
-- Data for Name: erasure; Type: TABLE DATA; Schema: scd2_internal; Owner: postgres
--

COPY scd2_internal.erasure (erasure_id, source_schema, source_name, source_relid, rows, erased_by, erased_at) FROM stdin;
1	Odd, schema	kinds	"Odd, schema".kinds	4	the owner	2026-11-30 23:58:02.314658+00
\.


--
-- Data for Name: feed; Type: TABLE DATA; Schema: scd2_internal; Owner: postgres
--

COPY scd2_internal.feed (feed_id, source_schema, source_name, feed_schema, feed_name, source_relid, feed_relid, except_columns, retention, found_identity, found_index, disabled, created_at) FROM stdin;
2	dim	current	dim	current_changes	dim.current	dim.current_changes	{}	\N	d	\N	f	2026-11-30 23:58:00.195541+00
3	Odd, schema	places	Odd, schema	places_changes	"Odd, schema".places	"Odd, schema".places_changes	{}	\N	d	\N	f	2026-11-30 23:58:00.26937+00
4	Odd, schema	events	Odd, schema	events_changes	"Odd, schema".events	"Odd, schema".events_changes	{}	\N	d	\N	f	2026-11-30 23:58:00.35108+00
5	Odd, schema	struct_events	Odd, schema	struct_events_changes	"Odd, schema".struct_events	"Odd, schema".struct_events_changes	{}	\N	d	\N	f	2026-11-30 23:58:00.450535+00
6	Odd, schema	kinds	Odd, schema	kinds_changes	"Odd, schema".kinds	"Odd, schema".kinds_changes	{}	\N	d	\N	f	2026-11-30 23:58:00.565492+00
7	Odd, schema	log	Odd, schema	log_changes	"Odd, schema".log	"Odd, schema".log_changes	{}	\N	d	\N	f	2026-11-30 23:58:00.619915+00
9	Odd, schema	dropped	Odd, schema	dropped_changes	-	"Odd, schema".dropped_changes	{}	\N	d	\N	f	2026-11-30 23:58:00.675574+00
8	Odd, schema	disabled	Odd, schema	disabled_changes	"Odd, schema".disabled	"Odd, schema".disabled_changes	{}	\N	d	\N	t	2026-11-30 23:58:00.675574+00
1	Odd, schema	customers	Odd, schema	customers' changes	"Odd, schema".customers	"Odd, schema"."customers' changes"	{secret}	30 days	d	\N	f	2026-11-30 23:58:00.126427+00
10	Odd, schema	accounts	Odd, schema	accounts_changes	"Odd, schema".accounts	"Odd, schema".accounts_changes	{}	\N	d	\N	f	2026-11-30 23:58:02.39473+00
11	Odd, schema	first_half	Odd, schema	first_half_changes	"Odd, schema".first_half	"Odd, schema".first_half_changes	{}	\N	d	\N	f	2026-11-30 23:58:02.597448+00
12	Odd, schema	second_half	Odd, schema	second_half_changes	"Odd, schema".second_half	"Odd, schema".second_half_changes	{}	\N	d	\N	f	2026-11-30 23:58:02.69352+00
13	Odd, schema	rates	Odd, schema	rates_changes	"Odd, schema".rates	"Odd, schema".rates_changes	{}	\N	d	\N	f	2026-11-30 23:58:02.861946+00
\.


--
-- Data for Name: feed_column; Type: TABLE DATA; Schema: scd2_internal; Owner: postgres
--

COPY scd2_internal.feed_column (feed_id, source_attnum, feed_attnum, name, missing, was, until) FROM stdin;
4	1	6	k	\N	\N	\N
4	2	7	v	\N	\N	\N
4	3	8	u	\N	\N	\N
4	4	9	seq	\N	\N	\N
4	5	10	op	\N	\N	\N
5	1	6	k	\N	\N	\N
5	2	7	v	\N	\N	\N
5	3	8	day	\N	\N	\N
5	4	9	n	\N	\N	\N
6	1	6	kind	\N	\N	\N
6	2	7	v	\N	\N	\N
6	3	8	seq	\N	\N	\N
7	1	6	id	\N	\N	\N
7	2	7	line	\N	\N	\N
9	1	6	id	\N	\N	\N
1	2	6	id	\N	\N	\N
1	3	7	Name	\N	\N	\N
1	5	8	Region	\N	\N	\N
1	6	9	later_gone	\N	\N	\N
1	7	10	added	constant	\N	\N
1	4	0	secret	\N	\N	\N
3	1	6	id	\N	\N	\N
3	2	7	y	\N	\N	\N
3	-10008	8	n_until_16	\N	3	16
3	4	9	v	\N	\N	\N
3	3	10	n	\N	\N	\N
2	1	6	id	\N	\N	\N
2	2	7	Name	\N	\N	\N
2	3	8	Region	\N	\N	\N
2	4	9	added	constant	\N	\N
10	1	6	id	\N	\N	\N
10	2	7	rev	\N	\N	\N
10	3	8	v	\N	\N	\N
10	4	9	gone	\N	\N	\N
11	1	6	k	\N	\N	\N
11	2	7	v	\N	\N	\N
11	3	8	seq	\N	\N	\N
12	1	6	k	\N	\N	\N
12	2	7	w	\N	\N	\N
12	3	8	seq	\N	\N	\N
13	1	6	id	\N	\N	\N
13	2	7	v	\N	\N	\N
\.


--
-- Data for Name: feed_layout; Type: TABLE DATA; Schema: scd2_internal; Owner: postgres
--

COPY scd2_internal.feed_layout (feed_id, changes) FROM stdin;
1	3
3	1
2	1
\.


--
-- Data for Name: feed_state; Type: TABLE DATA; Schema: scd2_internal; Owner: postgres
--

COPY scd2_internal.feed_state (feed_id, source_relid, feed_relid, state, enabled_version, enabled_at, earliest_version, removed_until, removed_at, gap, broken_at, resync_version, resync_timestamp, resync_failures, resync_retry_at, catches_up, repaired_version, error, error_at, home) FROM stdin;
1	"Odd, schema".customers	"Odd, schema"."customers' changes"	running	0	2026-11-30 23:58:00.168167+00	0	\N	\N	\N	\N	\N	\N	0	\N	f	0	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
2	dim.current	dim.current_changes	running	0	2026-11-30 23:58:00.26652+00	0	\N	\N	\N	\N	\N	\N	0	\N	f	0	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
4	"Odd, schema".events	"Odd, schema".events_changes	running	1	2026-11-30 23:58:00.42938+00	1	\N	\N	\N	\N	\N	\N	0	\N	f	0	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
5	"Odd, schema".struct_events	"Odd, schema".struct_events_changes	running	1	2026-11-30 23:58:00.547626+00	1	\N	\N	\N	\N	\N	\N	0	\N	f	0	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
6	"Odd, schema".kinds	"Odd, schema".kinds_changes	running	1	2026-11-30 23:58:00.619447+00	1	\N	\N	\N	\N	\N	\N	0	\N	f	0	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
7	"Odd, schema".log	"Odd, schema".log_changes	running	1	2026-11-30 23:58:00.67497+00	1	\N	\N	\N	\N	\N	\N	0	\N	f	0	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
9	-	"Odd, schema".dropped_changes	running	1	2026-11-30 23:58:00.753637+00	1	\N	\N	\N	\N	\N	\N	0	\N	f	0	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
3	"Odd, schema".places	"Odd, schema".places_changes	running	1	2026-11-30 23:58:00.350477+00	1	\N	\N	\N	\N	\N	2026-11-30 23:58:01.019286+00	0	\N	f	17	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
10	"Odd, schema".accounts	"Odd, schema".accounts_changes	running	20	2026-11-30 23:58:02.519992+00	20	\N	\N	\N	\N	\N	\N	0	\N	f	0	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
11	"Odd, schema".first_half	"Odd, schema".first_half_changes	running	20	2026-11-30 23:58:02.690272+00	20	\N	\N	\N	\N	\N	\N	0	\N	f	0	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
12	"Odd, schema".second_half	"Odd, schema".second_half_changes	running	20	2026-11-30 23:58:02.787866+00	20	\N	\N	\N	\N	\N	\N	0	\N	f	0	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
13	"Odd, schema".rates	"Odd, schema".rates_changes	running	20	2026-11-30 23:58:02.998416+00	20	\N	\N	\N	\N	\N	\N	0	\N	f	0	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
\.


--
-- Data for Name: flow; Type: TABLE DATA; Schema: scd2_internal; Owner: postgres
--

COPY scd2_internal.flow (flow_id, name, kind, target_schema, target_name, target_relid, source_schema, source_name, source_relid, feed_id, scd_type, keys, columns, tracked, start_column, end_column, current_column, input, closes, ignores_null, absent, sequence_by, sequence_type, sequence_column, delete_sequence_by, end_sequence_by, apply_as_deletes, apply_as_truncates, source_filter, on_invalid_event, max_lateness, purged_before, memory_name, memory_relid, scope, delete_absent, max_delete_fraction, version_query, initial_start, starting_version, once, refresh_interval, options, settings, known_changes, known_attnums, known_names, definition, paused, created_at) FROM stdin;
10	archive	append	Odd, schema	archive	"Odd, schema".archive	Odd, schema	log	"Odd, schema".log	7	1	{}	{id,line}	{}	__start_at	__end_at	\N	append	f	{}	{}	\N	timestamp with time zone	\N	\N	\N	\N	\N	\N	fail	\N	\N	\N	\N	\N	t	\N	\N	\N	\N	f	00:00:00	{}	{TimeZone=UTC,"DateStyle=ISO, MDY",IntervalStyle=postgres}	0	{6,7}	{id,line}	1	t	2026-11-30 23:58:00.619915+00
9	by_kind	auto_cdc	Odd, schema	by_kind	"Odd, schema".by_kind	Odd, schema	kinds	"Odd, schema".kinds	6	1	{kind}	{kind,v}	{v}	__start_at	__end_at	\N	events	f	{}	{}	seq	integer	\N	\N	\N	\N	\N	\N	fail	\N	\N	by_kind_memory	"Odd, schema".by_kind_memory	\N	t	\N	\N	\N	\N	f	00:00:00	{"shared": false, "column_list": ["kind", "v"], "sequence_by": "seq", "open_row_index": false, "ignore_null_updates": false}	{TimeZone=UTC,"DateStyle=ISO, MDY",IntervalStyle=postgres}	0	{6,7,8}	{kind,v,seq}	2	f	2026-11-30 23:58:00.565492+00
5	event_history	auto_cdc	Odd, schema	event_history	"Odd, schema".event_history	Odd, schema	events	"Odd, schema".events	4	2	{k}	{k,v,u}	{v}	__start_at	__end_at	\N	events	f	{}	{}	seq	integer	\N	\N	\N	op = 'D'	op = 'T'	\N	quarantine	1000	\N	event_history_memory	"Odd, schema".event_history_memory	\N	t	\N	\N	\N	\N	f	00:00:00	{"shared": false, "column_list": ["k", "v", "u"], "sequence_by": "seq", "open_row_index": false, "ignore_null_updates": false, "track_history_column_list": ["v"]}	{TimeZone=UTC,"DateStyle=ISO, MDY",IntervalStyle=postgres}	0	{6,7,8,9,10}	{k,v,u,seq,op}	1	f	2026-11-30 23:58:00.35108+00
3	totals	auto_cdc	dim	totals	dim.totals	dim	current	dim.current	2	2	{id}	{id,Name,Region,added}	{Name,Region,added}	__start_at	__end_at	\N	net	f	{}	{}	\N	timestamp with time zone	\N	\N	\N	\N	\N	\N	fail	\N	\N	\N	\N	\N	t	\N	\N	\N	\N	f	00:00:00	{"shared": false, "open_row_index": false, "ignore_null_updates": false}	{TimeZone=UTC,"DateStyle=ISO, MDY",IntervalStyle=postgres}	1	{6,7,8,9}	{id,Name,Region,added}	2	f	2026-11-30 23:58:00.195541+00
6	event_current	auto_cdc	Odd, schema	event_current	"Odd, schema".event_current	Odd, schema	events	"Odd, schema".events	4	1	{k}	{k,v,u}	{v,u}	__start_at	__end_at	\N	events	f	{v,u}	{}	seq	integer	\N	\N	\N	op = 'D'	\N	\N	quarantine	\N	\N	event_current_memory	"Odd, schema".event_current_memory	\N	t	\N	\N	\N	\N	f	00:00:00	{"shared": false, "column_list": ["k", "v", "u"], "sequence_by": "seq", "open_row_index": false, "ignore_null_updates": true}	{TimeZone=UTC,"DateStyle=ISO, MDY",IntervalStyle=postgres}	0	{6,7,8,9,10}	{k,v,u,seq,op}	1	f	2026-11-30 23:58:00.429956+00
7	the flow of structs	auto_cdc	Odd, schema	struct_history	"Odd, schema".struct_history	Odd, schema	struct_events	"Odd, schema".struct_events	5	2	{k}	{k,v}	{v}	__start_at	__end_at	\N	events	f	{}	{}	ROW((day\n), ( n\n))::"Odd, schema".struct_history_sequence	"Odd, schema".struct_history_sequence	\N	\N	\N	\N	\N	\N	fail	\N	\N	struct_history_memory	"Odd, schema".struct_history_memory	\N	t	\N	\N	\N	\N	f	00:00:00	{"shared": false, "column_list": ["k", "v"], "sequence_by": "struct(day, n)", "open_row_index": false, "ignore_null_updates": false}	{TimeZone=UTC,"DateStyle=ISO, MDY",IntervalStyle=postgres}	0	{6,7,8,9}	{k,v,day,n}	1	f	2026-11-30 23:58:00.450535+00
8	prices	snapshot	Odd, schema	prices	"Odd, schema".prices	Odd, schema	products	"Odd, schema".products	\N	2	{sku}	{sku,price}	{price}	__start_at	__end_at	\N	snapshots	f	{}	{}	\N	bigint	\N	\N	\N	\N	\N	\N	fail	\N	\N	\N	\N	\N	t	1	\N	\N	\N	f	00:00:00	{"shared": false, "open_row_index": false, "ignore_null_updates": false}	{TimeZone=UTC,"DateStyle=ISO, MDY",IntervalStyle=postgres}	-1096134336	{2,3}	{sku,price}	1	f	2026-11-30 23:58:00.548285+00
18	rates_history	auto_cdc	Odd, schema	rates_history	"Odd, schema".rates_history	Odd, schema	rates	"Odd, schema".rates	13	2	{id}	{id,v}	{v}	__start_at	__end_at	\N	net	f	{}	{}	\N	timestamp with time zone	\N	\N	\N	\N	\N	v > 0	fail	\N	\N	\N	\N	\N	t	\N	\N	\N	\N	f	00:00:00	{"shared": false, "open_row_index": false, "ignore_null_updates": false}	{TimeZone=UTC,"DateStyle=ISO, MDY",IntervalStyle=postgres}	0	{6,7}	{id,v}	1	f	2026-11-30 23:58:02.861946+00
4	places_history	auto_cdc	Odd, schema	places_history	"Odd, schema".places_history	Odd, schema	places	"Odd, schema".places	3	2	{id,y}	{id,y,n_until_16,v,n}	{n_until_16,v,n}	__start_at	__end_at	\N	net	f	{}	{}	\N	timestamp with time zone	\N	\N	\N	\N	\N	\N	fail	\N	\N	\N	\N	\N	t	\N	\N	\N	\N	f	00:00:00	{"shared": false, "open_row_index": false, "ignore_null_updates": false}	{TimeZone=UTC,"DateStyle=ISO, MDY",IntervalStyle=postgres}	1	{6,7,8,9,10}	{id,y,n_until_16,v,n}	2	f	2026-11-30 23:58:00.26937+00
2	current	auto_cdc	dim	current	dim.current	Odd, schema	customers	"Odd, schema".customers	1	1	{id}	{id,Name,Region,added}	{Name,Region,added}	__start_at	__end_at	\N	net	f	{}	{}	\N	timestamp with time zone	\N	\N	\N	\N	\N	\N	fail	\N	\N	\N	\N	\N	t	\N	\N	\N	\N	f	00:00:00	{"shared": false, "open_row_index": false, "except_column_list": ["later_gone"], "ignore_null_updates": false}	{TimeZone=UTC,"DateStyle=ISO, MDY",IntervalStyle=postgres}	3	{6,7,8,9,10}	{id,Name,Region,later_gone,added}	4	f	2026-11-30 23:58:00.168615+00
1	history	auto_cdc	dim	customers_history	dim.customers_history	Odd, schema	customers	"Odd, schema".customers	1	2	{id}	{id,Name,Region,added}	{Name,Region,added}	__start_at	__end_at	\N	net	f	{}	{}	\N	timestamp with time zone	\N	\N	\N	\N	\N	\N	fail	\N	\N	\N	\N	\N	t	\N	\N	\N	\N	f	00:00:00	{"shared": false, "open_row_index": false, "except_column_list": ["later_gone"], "ignore_null_updates": false}	{TimeZone=UTC,"DateStyle=ISO, MDY",IntervalStyle=postgres}	3	{6,7,8,9,10}	{id,Name,Region,later_gone,added}	6	f	2026-11-30 23:58:00.168615+00
11	accounts_history	auto_cdc	Odd, schema	accounts_history	"Odd, schema".accounts_history	Odd, schema	accounts	"Odd, schema".accounts	10	2	{id}	{id,rev,v,gone}	{v}	__start_at	__end_at	\N	changes	f	{}	{}	rev	integer	rev	GREATEST((rev + 1\n)::integer, (rev\n)::integer + 1::integer)	\N	_change_type IN ('delete', 'update_preimage') OR COALESCE((gone\n)::boolean, false)	_change_type = 'truncate'	\N	fail	\N	\N	accounts_history_memory	"Odd, schema".accounts_history_memory	\N	t	\N	\N	\N	\N	f	00:00:00	{"shared": false, "sequence_by": "rev", "open_row_index": false, "ignore_null_updates": false}	{TimeZone=UTC,"DateStyle=ISO, MDY",IntervalStyle=postgres}	0	{6,7,8,9}	{id,rev,v,gone}	1	f	2026-11-30 23:58:02.39473+00
12	accounts_as_captured	auto_cdc	Odd, schema	accounts_as_captured	"Odd, schema".accounts_as_captured	Odd, schema	accounts	"Odd, schema".accounts	10	1	{id}	{id,rev,v,gone}	{rev,v,gone}	__start_at	__end_at	\N	net	f	{}	{}	\N	timestamp with time zone	\N	\N	\N	\N	\N	\N	fail	\N	\N	\N	\N	\N	t	\N	\N	\N	\N	f	00:00:00	{"shared": false, "open_row_index": false, "ignore_null_updates": false}	{TimeZone=UTC,"DateStyle=ISO, MDY",IntervalStyle=postgres}	0	{6,7,8,9}	{id,rev,v,gone}	1	f	2026-11-30 23:58:02.524881+00
13	accounts_paused	auto_cdc	Odd, schema	accounts_paused	"Odd, schema".accounts_paused	Odd, schema	accounts	"Odd, schema".accounts	10	2	{id}	{id,rev,v,gone}	{rev,v,gone}	__start_at	__end_at	\N	net	f	{}	{}	\N	timestamp with time zone	\N	\N	\N	\N	\N	\N	fail	\N	\N	\N	\N	\N	t	\N	\N	\N	\N	f	00:00:00	{"shared": false, "open_row_index": false, "ignore_null_updates": false}	{TimeZone=UTC,"DateStyle=ISO, MDY",IntervalStyle=postgres}	0	{6,7,8,9}	{id,rev,v,gone}	1	t	2026-11-30 23:58:02.56337+00
14	first half	auto_cdc	Odd, schema	both	"Odd, schema"."both"	Odd, schema	first_half	"Odd, schema".first_half	11	1	{k}	{k,v,w}	{v,w}	__start_at	__end_at	\N	events	f	{}	{w}	seq	integer	\N	\N	\N	\N	\N	\N	fail	\N	\N	both_memory	"Odd, schema".both_memory	\N	t	\N	\N	\N	\N	f	00:00:00	{"shared": true, "column_list": ["k", "v"], "sequence_by": "seq", "open_row_index": false, "ignore_null_updates": false}	{TimeZone=UTC,"DateStyle=ISO, MDY",IntervalStyle=postgres}	0	{6,7,8}	{k,v,seq}	2	f	2026-11-30 23:58:02.597448+00
15	second half	auto_cdc	Odd, schema	both	"Odd, schema"."both"	Odd, schema	second_half	"Odd, schema".second_half	12	1	{k}	{k,v,w}	{v,w}	__start_at	__end_at	\N	events	f	{}	{v}	seq	integer	\N	\N	\N	\N	\N	\N	fail	\N	\N	both_memory	"Odd, schema".both_memory	\N	t	\N	\N	\N	\N	f	00:00:00	{"shared": true, "column_list": ["k", "w"], "sequence_by": "seq", "open_row_index": false, "ignore_null_updates": false}	{TimeZone=UTC,"DateStyle=ISO, MDY",IntervalStyle=postgres}	0	{6,7,8}	{k,w,seq}	1	f	2026-11-30 23:58:02.69352+00
16	seed	auto_cdc	Odd, schema	seeded	"Odd, schema".seeded	Odd, schema	seeds	"Odd, schema".seeds	\N	2	{k}	{k,v}	{v}	__start_at	__end_at	\N	events	f	{}	{}	seq	integer	\N	\N	\N	\N	\N	\N	fail	\N	\N	seeded_memory	"Odd, schema".seeded_memory	\N	t	\N	\N	\N	\N	t	00:00:00	{"shared": false, "column_list": ["k", "v"], "sequence_by": "seq", "open_row_index": false, "ignore_null_updates": false}	{TimeZone=UTC,"DateStyle=ISO, MDY",IntervalStyle=postgres}	\N	\N	\N	1	f	2026-11-30 23:58:02.79171+00
17	stock	snapshot	Odd, schema	stock	"Odd, schema".stock	Odd, schema	inventory	"Odd, schema".inventory	\N	2	{sku}	{sku,n}	{n}	__start_at	__end_at	\N	snapshots	f	{}	{}	\N	timestamp with time zone	\N	\N	\N	\N	\N	\N	fail	\N	\N	\N	\N	\N	t	1	\N	\N	\N	f	00:00:01	{"shared": false, "open_row_index": false, "ignore_null_updates": false}	{TimeZone=UTC,"DateStyle=ISO, MDY",IntervalStyle=postgres}	-1586118860	{1,2}	{sku,n}	1	t	2026-11-30 23:58:02.828657+00
\.


--
-- Data for Name: flow_state; Type: TABLE DATA; Schema: scd2_internal; Owner: postgres
--

COPY scd2_internal.flow_state (flow_id, phase, begin_version, begin_timestamp, watermark_version, watermark_timestamp, rereads, failed_phase, failures, retry_at, last_error, last_error_at, events, applied, duplicates, out_of_order, too_late, highest, horizon, conflicts, rejected, skipped, rows_inserted, rows_updated, rows_deleted, batches, last_batch, snapshot_version, snapshot_at, finished_at, home) FROM stdin;
5	apply	1	2026-11-30 23:58:00.429382+00	8	2026-11-30 23:58:00.816481+00	f	\N	0	\N	\N	\N	8	7	0	0	0	50	-950	0	1	0	4	0	0	3	2026-11-30 23:58:00.828974+00	\N	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
2	apply	0	2026-11-30 23:58:00.195129+00	15	2026-11-30 23:58:00.982831+00	f	\N	0	\N	\N	\N	4	4	0	0	0	\N	\N	0	0	0	3	2	1	4	2026-11-30 23:58:01.230336+00	\N	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
4	apply	1	2026-11-30 23:58:00.350479+00	17	2026-11-30 23:58:01.019286+00	f	\N	0	\N	\N	\N	6	6	0	0	0	\N	\N	0	0	0	5	2	0	4	2026-11-30 23:58:01.244999+00	\N	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
8	apply	0	2026-11-30 23:58:00.548285+00	0	2026-11-30 23:58:01.250774+00	f	\N	0	\N	\N	\N	4	4	0	0	0	\N	\N	0	0	0	3	1	0	2	2026-11-30 23:58:01.251385+00	20	2026-11-30 23:58:01.250774+00	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
3	apply	0	2026-11-30 23:58:00.266522+00	18	2026-11-30 23:58:01.230394+00	f	\N	0	\N	\N	\N	6	6	0	0	0	\N	\N	0	0	0	5	3	0	4	2026-11-30 23:58:01.284127+00	\N	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
9	apply	1	2026-11-30 23:58:00.619449+00	19	2026-11-30 23:58:00.842497+00	f	\N	0	\N	\N	\N	2	2	0	0	0	\N	\N	0	0	0	2	0	0	4	2026-11-30 23:58:01.293412+00	\N	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
6	apply	1	2026-11-30 23:58:00.450037+00	8	2026-11-30 23:58:00.816481+00	f	\N	0	\N	\N	\N	8	6	0	0	0	\N	\N	0	2	0	3	0	0	2	2026-11-30 23:58:00.841779+00	\N	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
1	apply	0	2026-11-30 23:58:00.195128+00	15	2026-11-30 23:58:00.982831+00	f	\N	0	\N	42P01: relation "dim.history" does not exist	2026-11-30 23:58:01.220057+00	4	4	0	0	0	\N	\N	0	0	0	5	3	0	4	2026-11-30 23:58:02.246694+00	\N	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
7	apply	1	2026-11-30 23:58:00.547628+00	9	2026-11-30 23:58:00.81667+00	f	\N	0	\N	\N	\N	2	2	0	0	0	\N	\N	0	0	0	2	0	0	2	2026-11-30 23:58:00.826616+00	\N	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
10	apply	1	2026-11-30 23:58:00.674972+00	10	2026-11-30 23:58:00.842271+00	f	\N	0	\N	\N	\N	1	1	0	0	0	\N	\N	0	0	0	1	0	0	3	2026-11-30 23:58:00.848688+00	\N	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
13	apply	20	2026-11-30 23:58:02.594469+00	20	2026-11-30 23:58:02.594469+00	f	\N	0	\N	\N	\N	0	0	0	0	0	\N	\N	0	0	0	2	0	0	0	2026-11-30 23:58:02.617738+00	\N	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
11	apply	20	2026-11-30 23:58:02.519994+00	21	2026-11-30 23:58:03.186313+00	f	\N	0	\N	\N	\N	3	3	0	0	0	\N	\N	0	0	0	3	1	0	2	2026-11-30 23:58:03.196458+00	\N	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
16	done	20	2026-11-30 23:58:02.824382+00	20	2026-11-30 23:58:02.824382+00	f	\N	0	\N	\N	\N	1	1	0	0	0	\N	\N	0	0	0	1	0	0	1	2026-11-30 23:58:02.843002+00	\N	\N	2026-11-30 23:58:02.843245+00	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
15	apply	20	2026-11-30 23:58:02.787868+00	23	2026-11-30 23:58:03.189452+00	f	\N	0	\N	\N	\N	1	1	0	0	0	\N	\N	0	0	0	1	0	0	3	2026-11-30 23:58:03.200552+00	\N	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
12	apply	20	2026-11-30 23:58:02.55827+00	21	2026-11-30 23:58:03.186313+00	f	\N	0	\N	\N	\N	1	1	0	0	0	\N	\N	0	0	0	2	1	0	1	2026-11-30 23:58:03.203423+00	\N	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
14	apply	20	2026-11-30 23:58:02.690274+00	22	2026-11-30 23:58:03.186556+00	f	\N	0	\N	\N	\N	2	2	0	1	0	\N	\N	0	0	0	0	1	0	2	2026-11-30 23:58:03.215539+00	\N	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
18	apply	20	2026-11-30 23:58:02.998418+00	24	2026-11-30 23:58:03.190119+00	f	\N	0	\N	\N	\N	1	1	0	0	0	\N	\N	0	0	0	1	0	0	1	2026-11-30 23:58:03.223807+00	\N	\N	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
17	apply	0	2026-11-30 23:58:02.828657+00	0	2026-11-30 23:58:03.235333+00	f	\N	0	\N	\N	\N	10	10	0	0	0	\N	\N	0	0	0	3	1	0	5	2026-11-30 23:58:03.235741+00	2026-11-30 23:58:03.235333+00	2026-11-30 23:58:03.23554+00	\N	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
\.


--
-- Data for Name: found_identity; Type: TABLE DATA; Schema: scd2_internal; Owner: postgres
--

COPY scd2_internal.found_identity (feed_id, leaf_relid, identity, index_name) FROM stdin;
1	"Odd, schema".customers	d	\N
2	dim.current	d	\N
3	"Odd, schema".places_old	d	\N
3	"Odd, schema".places_new	n	\N
4	"Odd, schema".events	d	\N
5	"Odd, schema".struct_events	d	\N
6	"Odd, schema".kinds	d	\N
7	"Odd, schema".log	d	\N
9	-	d	\N
10	"Odd, schema".accounts	d	\N
11	"Odd, schema".first_half	d	\N
12	"Odd, schema".second_half	d	\N
13	"Odd, schema".rates	d	\N
\.


--
-- Data for Name: mark; Type: TABLE DATA; Schema: scd2_internal; Owner: postgres
--

COPY scd2_internal.mark (mark_id, target_schema, target_name, target_relid, sequence, kind, scope, scope_alias, scope_settings, flow_id) FROM stdin;
1	Odd, schema	event_history	"Odd, schema".event_history	30	truncate	\N	\N	\N	5
\.


--
-- Data for Name: position; Type: TABLE DATA; Schema: scd2_internal; Owner: postgres
--

COPY scd2_internal."position" (singleton, version, commit_timestamp, captured_lsn, database, system_identifier, timeline, slot, home) FROM stdin;
t	24	2026-11-30 23:58:03.190119+00	0/2B34848	18474	7714118068053155631	1	pg_scd2_18474_38d360db	a68dcc75-5798-41c2-8bcb-22ed6de0b95c
\.


--
-- Data for Name: purge; Type: TABLE DATA; Schema: scd2_internal; Owner: postgres
--

COPY scd2_internal.purge (target_relid, before, storage, next_block, rows_done, rows_estimated, started, home, last_error) FROM stdin;
\.


--
-- Data for Name: reader; Type: TABLE DATA; Schema: scd2_internal; Owner: postgres
--

COPY scd2_internal.reader (name, feed_id, version, read_version, reached, last_read, used_at, expired_at) FROM stdin;
a reader	1	14	\N	\N	2026-11-30 23:58:00.925137+00	2026-11-30 23:58:00.927746+00	\N
\.


--
-- Data for Name: reconstruction; Type: TABLE DATA; Schema: scd2_internal; Owner: postgres
--

COPY scd2_internal.reconstruction (feed_id, version, commit_time, xid, gap, whole) FROM stdin;
3	17	2026-11-30 23:58:01.019286+00	1082	[16,17)	t
\.


--
-- Data for Name: rejected; Type: TABLE DATA; Schema: scd2_internal; Owner: postgres
--

COPY scd2_internal.rejected (rejected_id, flow_id, version, change_ordinal, reason, event, rejected_at) FROM stdin;
1	5	8	8	key column "k" is NULL	{"k": null, "u": 1, "v": "no key", "op": "U", "seq": 46}	2026-11-30 23:58:00.828857+00
2	6	8	5	key column "k" is NULL	{"k": null, "u": null, "v": null, "op": "T", "seq": 30}	2026-11-30 23:58:00.841638+00
3	6	8	8	key column "k" is NULL	{"k": null, "u": 1, "v": "no key", "op": "U", "seq": 46}	2026-11-30 23:58:00.841734+00
\.


--
-- Data for Name: skipped_version; Type: TABLE DATA; Schema: scd2_internal; Owner: postgres
--

COPY scd2_internal.skipped_version (flow_id, version, skipped_by, skipped_at) FROM stdin;
\.


--
-- Name: erasure_erasure_id_seq; Type: SEQUENCE SET; Schema: scd2_internal; Owner: postgres
--

SELECT pg_catalog.setval('scd2_internal.erasure_erasure_id_seq', 1, true);


--
-- Name: feed_feed_id_seq; Type: SEQUENCE SET; Schema: scd2_internal; Owner: postgres
--

SELECT pg_catalog.setval('scd2_internal.feed_feed_id_seq', 13, true);


--
-- Name: flow_flow_id_seq; Type: SEQUENCE SET; Schema: scd2_internal; Owner: postgres
--

SELECT pg_catalog.setval('scd2_internal.flow_flow_id_seq', 18, true);


--
-- Name: mark_mark_id_seq; Type: SEQUENCE SET; Schema: scd2_internal; Owner: postgres
--

SELECT pg_catalog.setval('scd2_internal.mark_mark_id_seq', 1, true);


--
-- Name: rejected_rejected_id_seq; Type: SEQUENCE SET; Schema: scd2_internal; Owner: postgres
--

SELECT pg_catalog.setval('scd2_internal.rejected_rejected_id_seq', 3, true);


--
-- Name: accounts_as_captured accounts_as_captured_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".accounts_as_captured
    ADD CONSTRAINT accounts_as_captured_pkey PRIMARY KEY (id);


--
-- Name: accounts_history_memory accounts_history_memory_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".accounts_history_memory
    ADD CONSTRAINT accounts_history_memory_pkey PRIMARY KEY (id, _sequence);


--
-- Name: accounts_history accounts_history_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".accounts_history
    ADD CONSTRAINT accounts_history_pkey PRIMARY KEY (id, __start_at);


--
-- Name: accounts_paused accounts_paused_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".accounts_paused
    ADD CONSTRAINT accounts_paused_pkey PRIMARY KEY (id, __start_at);


--
-- Name: accounts accounts_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".accounts
    ADD CONSTRAINT accounts_pkey PRIMARY KEY (id);


--
-- Name: both_memory both_memory_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".both_memory
    ADD CONSTRAINT both_memory_pkey PRIMARY KEY (k);


--
-- Name: both both_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema"."both"
    ADD CONSTRAINT both_pkey PRIMARY KEY (k);


--
-- Name: by_kind_memory by_kind_memory_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".by_kind_memory
    ADD CONSTRAINT by_kind_memory_pkey PRIMARY KEY (kind);


--
-- Name: by_kind by_kind_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".by_kind
    ADD CONSTRAINT by_kind_pkey PRIMARY KEY (kind);


--
-- Name: disabled disabled_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".disabled
    ADD CONSTRAINT disabled_pkey PRIMARY KEY (id);


--
-- Name: event_current_memory event_current_memory_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".event_current_memory
    ADD CONSTRAINT event_current_memory_pkey PRIMARY KEY (k);


--
-- Name: event_current event_current_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".event_current
    ADD CONSTRAINT event_current_pkey PRIMARY KEY (k);


--
-- Name: event_history_memory event_history_memory_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".event_history_memory
    ADD CONSTRAINT event_history_memory_pkey PRIMARY KEY (k, _sequence);


--
-- Name: event_history event_history_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".event_history
    ADD CONSTRAINT event_history_pkey PRIMARY KEY (k, __start_at);


--
-- Name: inventory inventory_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".inventory
    ADD CONSTRAINT inventory_pkey PRIMARY KEY (sku);


--
-- Name: places_history places_history_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".places_history
    ADD CONSTRAINT places_history_pkey PRIMARY KEY (id, y, __start_at);


--
-- Name: places places_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".places
    ADD CONSTRAINT places_pkey PRIMARY KEY (id, y);


--
-- Name: places_new places_new_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".places_new
    ADD CONSTRAINT places_new_pkey PRIMARY KEY (id, y);


--
-- Name: places_old places_old_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".places_old
    ADD CONSTRAINT places_old_pkey PRIMARY KEY (id, y);


--
-- Name: prices prices_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".prices
    ADD CONSTRAINT prices_pkey PRIMARY KEY (sku, __start_at);


--
-- Name: products products_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".products
    ADD CONSTRAINT products_pkey PRIMARY KEY (sku);


--
-- Name: rates_history rates_history_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: postgres
--

ALTER TABLE ONLY "Odd, schema".rates_history
    ADD CONSTRAINT rates_history_pkey PRIMARY KEY (id, __start_at);


--
-- Name: rates rates_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: postgres
--

ALTER TABLE ONLY "Odd, schema".rates
    ADD CONSTRAINT rates_pkey PRIMARY KEY (id);


--
-- Name: seeded_memory seeded_memory_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".seeded_memory
    ADD CONSTRAINT seeded_memory_pkey PRIMARY KEY (k, _sequence);


--
-- Name: seeded seeded_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".seeded
    ADD CONSTRAINT seeded_pkey PRIMARY KEY (k, __start_at);


--
-- Name: stock stock_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".stock
    ADD CONSTRAINT stock_pkey PRIMARY KEY (sku, __start_at);


--
-- Name: struct_history_memory struct_history_memory_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".struct_history_memory
    ADD CONSTRAINT struct_history_memory_pkey PRIMARY KEY (k, _sequence);


--
-- Name: struct_history struct_history_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".struct_history
    ADD CONSTRAINT struct_history_pkey PRIMARY KEY (k, __start_at);


--
-- Name: customers was_called_pkey; Type: CONSTRAINT; Schema: Odd, schema; Owner: the owner
--

ALTER TABLE ONLY "Odd, schema".customers
    ADD CONSTRAINT was_called_pkey PRIMARY KEY (id);


--
-- Name: current current_pkey; Type: CONSTRAINT; Schema: dim; Owner: the owner
--

ALTER TABLE ONLY dim.current
    ADD CONSTRAINT current_pkey PRIMARY KEY (id);


--
-- Name: customers_history history_pkey; Type: CONSTRAINT; Schema: dim; Owner: the owner
--

ALTER TABLE ONLY dim.customers_history
    ADD CONSTRAINT history_pkey PRIMARY KEY (id, __start_at);


--
-- Name: totals totals_pkey; Type: CONSTRAINT; Schema: dim; Owner: the owner
--

ALTER TABLE ONLY dim.totals
    ADD CONSTRAINT totals_pkey PRIMARY KEY (id, __start_at);


--
-- Name: accounts_changes__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX accounts_changes__commit_version__commit_timestamp_idx ON ONLY "Odd, schema".accounts_changes USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: accounts_changes_lower_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX accounts_changes_lower_idx ON ONLY "Odd, schema".accounts_changes USING btree (lower(v));


--
-- Name: accounts_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX accounts_changes_p1__commit_version__commit_timestamp_idx ON "Odd, schema".accounts_changes_p1 USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: accounts_changes_p1_lower_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX accounts_changes_p1_lower_idx ON "Odd, schema".accounts_changes_p1 USING btree (lower(v));


--
-- Name: disabled_changes__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX disabled_changes__commit_version__commit_timestamp_idx ON ONLY "Odd, schema".disabled_changes USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: disabled_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX disabled_changes_p1__commit_version__commit_timestamp_idx ON "Odd, schema".disabled_changes_p1 USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: dropped_changes__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX dropped_changes__commit_version__commit_timestamp_idx ON ONLY "Odd, schema".dropped_changes USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: dropped_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX dropped_changes_p1__commit_version__commit_timestamp_idx ON "Odd, schema".dropped_changes_p1 USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: events_changes__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX events_changes__commit_version__commit_timestamp_idx ON ONLY "Odd, schema".events_changes USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: events_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX events_changes_p1__commit_version__commit_timestamp_idx ON "Odd, schema".events_changes_p1 USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: first_half_changes__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX first_half_changes__commit_version__commit_timestamp_idx ON ONLY "Odd, schema".first_half_changes USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: first_half_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX first_half_changes_p1__commit_version__commit_timestamp_idx ON "Odd, schema".first_half_changes_p1 USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: kinds_changes__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX kinds_changes__commit_version__commit_timestamp_idx ON ONLY "Odd, schema".kinds_changes USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: kinds_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX kinds_changes_p1__commit_version__commit_timestamp_idx ON "Odd, schema".kinds_changes_p1 USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: log_changes__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX log_changes__commit_version__commit_timestamp_idx ON ONLY "Odd, schema".log_changes USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: log_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX log_changes_p1__commit_version__commit_timestamp_idx ON "Odd, schema".log_changes_p1 USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: places_changes__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX places_changes__commit_version__commit_timestamp_idx ON ONLY "Odd, schema".places_changes USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: places_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX places_changes_p1__commit_version__commit_timestamp_idx ON "Odd, schema".places_changes_p1 USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: rates_changes__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: postgres
--

CREATE INDEX rates_changes__commit_version__commit_timestamp_idx ON ONLY "Odd, schema".rates_changes USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: rates_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: postgres
--

CREATE INDEX rates_changes_p1__commit_version__commit_timestamp_idx ON "Odd, schema".rates_changes_p1 USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: second_half_changes__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX second_half_changes__commit_version__commit_timestamp_idx ON ONLY "Odd, schema".second_half_changes USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: second_half_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX second_half_changes_p1__commit_version__commit_timestamp_idx ON "Odd, schema".second_half_changes_p1 USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: struct_events_changes__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX struct_events_changes__commit_version__commit_timestamp_idx ON ONLY "Odd, schema".struct_events_changes USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: struct_events_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX struct_events_changes_p1__commit_version__commit_timestamp_idx ON "Odd, schema".struct_events_changes_p1 USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: was_called_changes__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX was_called_changes__commit_version__commit_timestamp_idx ON ONLY "Odd, schema"."customers' changes" USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: was_called_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX; Schema: Odd, schema; Owner: the owner
--

CREATE INDEX was_called_changes_p1__commit_version__commit_timestamp_idx ON "Odd, schema".was_called_changes_p1 USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: current_changes__commit_version__commit_timestamp_idx; Type: INDEX; Schema: dim; Owner: the owner
--

CREATE INDEX current_changes__commit_version__commit_timestamp_idx ON ONLY dim.current_changes USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: current_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX; Schema: dim; Owner: the owner
--

CREATE INDEX current_changes_p1__commit_version__commit_timestamp_idx ON dim.current_changes_p1 USING brin (_commit_version, _commit_timestamp) WITH (pages_per_range='16');


--
-- Name: accounts_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER INDEX "Odd, schema".accounts_changes__commit_version__commit_timestamp_idx ATTACH PARTITION "Odd, schema".accounts_changes_p1__commit_version__commit_timestamp_idx;


--
-- Name: accounts_changes_p1_lower_idx; Type: INDEX ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER INDEX "Odd, schema".accounts_changes_lower_idx ATTACH PARTITION "Odd, schema".accounts_changes_p1_lower_idx;


--
-- Name: disabled_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER INDEX "Odd, schema".disabled_changes__commit_version__commit_timestamp_idx ATTACH PARTITION "Odd, schema".disabled_changes_p1__commit_version__commit_timestamp_idx;


--
-- Name: dropped_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER INDEX "Odd, schema".dropped_changes__commit_version__commit_timestamp_idx ATTACH PARTITION "Odd, schema".dropped_changes_p1__commit_version__commit_timestamp_idx;


--
-- Name: events_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER INDEX "Odd, schema".events_changes__commit_version__commit_timestamp_idx ATTACH PARTITION "Odd, schema".events_changes_p1__commit_version__commit_timestamp_idx;


--
-- Name: first_half_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER INDEX "Odd, schema".first_half_changes__commit_version__commit_timestamp_idx ATTACH PARTITION "Odd, schema".first_half_changes_p1__commit_version__commit_timestamp_idx;


--
-- Name: kinds_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER INDEX "Odd, schema".kinds_changes__commit_version__commit_timestamp_idx ATTACH PARTITION "Odd, schema".kinds_changes_p1__commit_version__commit_timestamp_idx;


--
-- Name: log_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER INDEX "Odd, schema".log_changes__commit_version__commit_timestamp_idx ATTACH PARTITION "Odd, schema".log_changes_p1__commit_version__commit_timestamp_idx;


--
-- Name: places_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER INDEX "Odd, schema".places_changes__commit_version__commit_timestamp_idx ATTACH PARTITION "Odd, schema".places_changes_p1__commit_version__commit_timestamp_idx;


--
-- Name: places_new_pkey; Type: INDEX ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER INDEX "Odd, schema".places_pkey ATTACH PARTITION "Odd, schema".places_new_pkey;


--
-- Name: places_old_pkey; Type: INDEX ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER INDEX "Odd, schema".places_pkey ATTACH PARTITION "Odd, schema".places_old_pkey;


--
-- Name: rates_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX ATTACH; Schema: Odd, schema; Owner: postgres
--

ALTER INDEX "Odd, schema".rates_changes__commit_version__commit_timestamp_idx ATTACH PARTITION "Odd, schema".rates_changes_p1__commit_version__commit_timestamp_idx;


--
-- Name: second_half_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER INDEX "Odd, schema".second_half_changes__commit_version__commit_timestamp_idx ATTACH PARTITION "Odd, schema".second_half_changes_p1__commit_version__commit_timestamp_idx;


--
-- Name: struct_events_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER INDEX "Odd, schema".struct_events_changes__commit_version__commit_timestamp_idx ATTACH PARTITION "Odd, schema".struct_events_changes_p1__commit_version__commit_timestamp_idx;


--
-- Name: was_called_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX ATTACH; Schema: Odd, schema; Owner: the owner
--

ALTER INDEX "Odd, schema".was_called_changes__commit_version__commit_timestamp_idx ATTACH PARTITION "Odd, schema".was_called_changes_p1__commit_version__commit_timestamp_idx;


--
-- Name: current_changes_p1__commit_version__commit_timestamp_idx; Type: INDEX ATTACH; Schema: dim; Owner: the owner
--

ALTER INDEX dim.current_changes__commit_version__commit_timestamp_idx ATTACH PARTITION dim.current_changes_p1__commit_version__commit_timestamp_idx;


--
-- Name: accounts_as_captured scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".accounts_as_captured FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".accounts_as_captured DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".accounts_as_captured ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: accounts_changes scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".accounts_changes FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".accounts_changes DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".accounts_changes ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: accounts_changes_p1 scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".accounts_changes_p1 FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".accounts_changes_p1 DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".accounts_changes_p1 ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: accounts_history scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".accounts_history FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".accounts_history DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".accounts_history ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: accounts_history_memory scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".accounts_history_memory FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".accounts_history_memory DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".accounts_history_memory ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: accounts_paused scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".accounts_paused FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".accounts_paused DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".accounts_paused ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: archive scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".archive FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".archive DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".archive ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: both scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema"."both" FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema"."both" DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema"."both" ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: both_memory scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".both_memory FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".both_memory DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".both_memory ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: by_kind scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".by_kind FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".by_kind DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".by_kind ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: by_kind_memory scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".by_kind_memory FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".by_kind_memory DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".by_kind_memory ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: customers' changes scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema"."customers' changes" FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema"."customers' changes" DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema"."customers' changes" ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: disabled_changes scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".disabled_changes FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".disabled_changes DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".disabled_changes ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: disabled_changes_p1 scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".disabled_changes_p1 FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".disabled_changes_p1 DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".disabled_changes_p1 ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: dropped_changes scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".dropped_changes FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".dropped_changes DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".dropped_changes ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: dropped_changes_p1 scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".dropped_changes_p1 FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".dropped_changes_p1 DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".dropped_changes_p1 ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: event_current scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".event_current FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".event_current DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".event_current ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: event_current_memory scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".event_current_memory FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".event_current_memory DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".event_current_memory ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: event_history scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".event_history FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".event_history DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".event_history ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: event_history_memory scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".event_history_memory FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".event_history_memory DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".event_history_memory ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: events_changes scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".events_changes FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".events_changes DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".events_changes ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: events_changes_p1 scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".events_changes_p1 FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".events_changes_p1 DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".events_changes_p1 ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: first_half_changes scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".first_half_changes FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".first_half_changes DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".first_half_changes ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: first_half_changes_p1 scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".first_half_changes_p1 FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".first_half_changes_p1 DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".first_half_changes_p1 ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: kinds_changes scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".kinds_changes FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".kinds_changes DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".kinds_changes ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: kinds_changes_p1 scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".kinds_changes_p1 FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".kinds_changes_p1 DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".kinds_changes_p1 ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: log_changes scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".log_changes FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".log_changes DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".log_changes ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: log_changes_p1 scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".log_changes_p1 FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".log_changes_p1 DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".log_changes_p1 ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: places_changes scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".places_changes FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".places_changes DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".places_changes ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: places_changes_p1 scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".places_changes_p1 FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".places_changes_p1 DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".places_changes_p1 ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: places_history scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".places_history FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".places_history DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".places_history ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: prices scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".prices FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".prices DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".prices ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: rates_changes scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: postgres
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".rates_changes FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".rates_changes DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".rates_changes ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: rates_changes_p1 scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: postgres
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".rates_changes_p1 FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".rates_changes_p1 DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".rates_changes_p1 ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: rates_history scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: postgres
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".rates_history FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".rates_history DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".rates_history ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: second_half_changes scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".second_half_changes FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".second_half_changes DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".second_half_changes ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: second_half_changes_p1 scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".second_half_changes_p1 FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".second_half_changes_p1 DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".second_half_changes_p1 ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: seeded scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".seeded FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".seeded DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".seeded ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: seeded_memory scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".seeded_memory FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".seeded_memory DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".seeded_memory ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: stock scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".stock FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".stock DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".stock ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: struct_events_changes scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".struct_events_changes FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".struct_events_changes DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".struct_events_changes ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: struct_events_changes_p1 scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".struct_events_changes_p1 FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".struct_events_changes_p1 DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".struct_events_changes_p1 ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: struct_history scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".struct_history FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".struct_history DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".struct_history ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: struct_history_memory scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".struct_history_memory FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".struct_history_memory DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".struct_history_memory ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: was_called_changes_p1 scd2_guard; Type: TRIGGER; Schema: Odd, schema; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON "Odd, schema".was_called_changes_p1 FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON "Odd, schema".was_called_changes_p1 DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE "Odd, schema".was_called_changes_p1 ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: current scd2_guard; Type: TRIGGER; Schema: dim; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON dim.current FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON dim.current DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE dim.current ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: current_changes scd2_guard; Type: TRIGGER; Schema: dim; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON dim.current_changes FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON dim.current_changes DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE dim.current_changes ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: current_changes_p1 scd2_guard; Type: TRIGGER; Schema: dim; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON dim.current_changes_p1 FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON dim.current_changes_p1 DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE dim.current_changes_p1 ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: customers_history scd2_guard; Type: TRIGGER; Schema: dim; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON dim.customers_history FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON dim.customers_history DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE dim.customers_history ENABLE ALWAYS TRIGGER scd2_guard;


--
-- Name: totals scd2_guard; Type: TRIGGER; Schema: dim; Owner: the owner
--

CREATE TRIGGER scd2_guard BEFORE INSERT OR DELETE OR UPDATE OR TRUNCATE ON dim.totals FOR EACH STATEMENT EXECUTE FUNCTION scd2_internal.guard();
ALTER TRIGGER scd2_guard ON dim.totals DEPENDS ON EXTENSION pg_scd2;

ALTER TABLE dim.totals ENABLE ALWAYS TRIGGER scd2_guard;


--
-- PostgreSQL database dump complete
--


