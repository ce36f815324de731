-- memory.sql: one test: of no target is anything remembered that its rows deny.
SELECT is_empty($$SELECT q.target_relid::regclass, d.* FROM (SELECT DISTINCT ON (x.target_relid) x.target_relid, x AS f FROM scd2_internal.flow x WHERE x.memory_relid IS NOT NULL ORDER BY x.target_relid, x.flow_id) q,
    scd2_internal.findings(q.target_relid, scd2_internal.check_memory_query(q.f, q.target_relid)) d LIMIT 20$$, 'nothing is remembered that the rows deny');
