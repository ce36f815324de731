-- Who may have code run as a role: who can SET ROLE to it, whatever he inherits. Each combination that the server knows.
\set QUIET on
SET client_min_messages = warning;
CREATE ROLE alice;
CREATE SCHEMA a AUTHORIZATION alice;
GRANT ALL ON SCHEMA a TO public;
SELECT current_setting('server_version_num')::int >= 160000 AS has_options \gset
CREATE TABLE member (name name, inherits boolean, sets boolean, admin boolean);
\if :has_options
INSERT INTO member SELECT format('m%s%s%s', i::int, s::int, a::int), i, s, a FROM (VALUES (true), (false)) x (i), (VALUES (true), (false)) y (s), (VALUES (true), (false)) z (a);
SELECT format('CREATE ROLE %1$I; GRANT alice TO %1$I WITH INHERIT %2$s, SET %3$s, ADMIN %4$s', name, inherits::text, sets::text, admin::text) FROM member \gexec
\else
INSERT INTO member VALUES ('m_inherits', true, true, false), ('m_not', false, true, false), ('m_inherits_admin', true, true, true), ('m_not_admin', false, true, true);
SELECT format('CREATE ROLE %1$I %2$s; GRANT alice TO %1$I%3$s', name, CASE WHEN inherits THEN 'INHERIT' ELSE 'NOINHERIT' END, CASE WHEN admin THEN ' WITH ADMIN OPTION' END) FROM member \gexec
\endif
-- and through a role in between
CREATE ROLE between;
GRANT alice TO between;
INSERT INTO member VALUES ('m_through', true, true, false);
CREATE ROLE m_through IN ROLE between;
INSERT INTO member VALUES ('m_none', false, false, false);
CREATE ROLE m_none;
SET ROLE alice;
CREATE TABLE a.t (id int PRIMARY KEY, v int);
SELECT scd2.track('a.t') \g /dev/null
RESET ROLE;
SELECT scd2.sync() \g /dev/null
CREATE FUNCTION refused(role name, call text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', role);
    EXECUTE call;
    RAISE EXCEPTION 'back';
EXCEPTION WHEN insufficient_privilege THEN
    RETURN true;
WHEN OTHERS THEN
    RETURN false;
END $$;
SELECT plan((SELECT count(*)::int FROM member) * 6);
SELECT is(NOT refused(m.name, c.call), CASE c.takes WHEN 'set' THEN m.sets WHEN 'inherit' THEN m.inherits ELSE m.inherits AND m.sets END, format('%s: %s takes %s', m.name, c.call, c.takes))
FROM member m, (VALUES
    ('set', 'SELECT scd2.alter_flow(''t_history'', source_filter => ''v > 1'')'),
    ('set', 'SELECT * FROM scd2.authorize_flow(''t_history'')'),
    ('set', 'SELECT scd2.track(''a.t'', ''a.t_history'', apply_as_truncates => ''false'')'),
    ('inherit', 'SELECT scd2.pause_flow(''t_history'')'),
    ('inherit', 'SELECT scd2.track(''a.t'', ''a.own'')'),
    ('both', 'SELECT scd2.full_refresh(''a.t_history'', key_filter => ''id = 1'')')) c (takes, call)
ORDER BY m.name, c.call;
SELECT * FROM finish();
