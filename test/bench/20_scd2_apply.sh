#!/bin/bash
# SCD2 apply: 1 million updates over 1 million open rows that are in the feed, by our one worker and
# by the two statements that most people write, on the table that most people make (primary key
# (key, start), unique index on the key of open rows) and on one made like ours.
set -euo pipefail
. test/lib.sh
. test/bench/lib.sh
start_bench_server bench-apply 'pg_scd2.max_apply_workers = 1'
n=$(scaled 1000000)

create_customers customers
sql "INSERT INTO customers $(customer_rows 1 "$n")"
quietly "SELECT scd2.track('customers')"
sync_all
sql "CREATE TABLE usual (LIKE customers, valid_from timestamptz NOT NULL, valid_to timestamptz, PRIMARY KEY (customer_id, valid_from))"
sql "CREATE UNIQUE INDEX ON usual (customer_id) WHERE valid_to IS NULL"
sql "CREATE TABLE alike (LIKE customers_history INCLUDING ALL) WITH (fillfactor = 50)"
sql "ALTER TABLE alike RENAME __start_at TO valid_from; ALTER TABLE alike RENAME __end_at TO valid_to"
sql "INSERT INTO usual TABLE customers_history"
sql "INSERT INTO alike TABLE customers_history"
sql "VACUUM ANALYZE"

two_statements() { # two_statements TABLE AFTER_VERSION
    psql -XqAt -v ON_ERROR_STOP=1 <<SQL
BEGIN;
UPDATE $1 AS h SET valid_to = e.first_at
FROM (SELECT customer_id, min(_commit_timestamp) AS first_at FROM customers_changes
      WHERE _commit_version > $2 AND _change_type IN ('insert', 'update_postimage') GROUP BY customer_id) AS e
WHERE h.customer_id = e.customer_id AND h.valid_to IS NULL;
INSERT INTO $1 SELECT customer_id, name, region, status, balance, updated_at, _commit_timestamp,
                      lead(_commit_timestamp) OVER (PARTITION BY customer_id ORDER BY _commit_version)
FROM customers_changes WHERE _commit_version > $2 AND _change_type IN ('insert', 'update_postimage');
COMMIT;
SQL
}
resume_and_sync() {
    quietly "SELECT scd2.resume_flow('customers_history')"
    sync_all
}

for _ in $(seq "$ROUNDS"); do
    version=$(sql 'SELECT scd2.latest_version()')
    quietly "SELECT scd2.pause_flow('customers_history')"
    sql "UPDATE customers SET region = CASE region WHEN 'Norte' THEN 'Sur' ELSE 'Norte' END, updated_at = now()"
    sync_all
    sql "VACUUM customers; ANALYZE customers_changes; CHECKPOINT"
    usual+=("$(seconds two_statements usual "$version")")
    sql CHECKPOINT
    ours+=("$(seconds resume_and_sync)")
    sql CHECKPOINT
    alike+=("$(seconds two_statements alike "$version")")
    differ=$(sql "SELECT count(*) FROM ((TABLE customers_history EXCEPT ALL TABLE alike) UNION ALL (TABLE alike EXCEPT ALL TABLE customers_history)) AS d")
    [ "$differ" = 0 ] || say "    $differ rows differ between ours and theirs"
    sql "VACUUM ANALYZE usual; VACUUM ANALYZE alike; VACUUM ANALYZE customers_history; CHECKPOINT"
done
a=$(median "${ours[@]}")
b=$(median "${usual[@]}")
c=$(median "${alike[@]}")
result "SCD2 apply, $n updates over $n open rows; other: two statements, primary key and unique index on open rows" "$a s" "$b s" "$(divide "$b" "$a")" '>= 1.5'
result "… two statements, a table made like ours" "$a s" "$c s" "$(divide "$c" "$a")" '>= 1.1'
stop_server
