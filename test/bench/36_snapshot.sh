#!/bin/bash
# A snapshot of 1 million rows of which 1 % changed, applied to a history, against a full outer join
# of source and open rows that compares all columns and writes nothing: from a table whose primary
# key guards the keys, and from a view, where two rows of one key have to be looked for.
set -euo pipefail
. test/lib.sh
. test/bench/lib.sh
start_bench_server bench-snapshot
n=$(scaled 1000000)
version=1

create_customers customers
sql "INSERT INTO customers $(customer_rows 1 "$n")"
sql "CREATE VIEW seen AS SELECT * FROM customers"
sql "VACUUM ANALYZE customers"
quietly "SELECT scd2.create_auto_cdc_from_snapshot_flow('from_table', 'customers', '{customer_id}', 'bigint', stored_as_scd_type => 2)"
quietly "SELECT scd2.create_auto_cdc_from_snapshot_flow('from_view', 'seen', '{customer_id}', 'bigint', stored_as_scd_type => 2)"
quietly "SELECT scd2.apply_snapshot('from_table', $version)"
quietly "SELECT scd2.apply_snapshot('from_view', $version)"

apply() { quietly "SELECT scd2.apply_snapshot('$1', $version)"; }
join() {
    quietly "SELECT count(*) FROM $2 AS s FULL JOIN (SELECT * FROM $1 WHERE __end_at IS NULL) AS t USING (customer_id)
        WHERE s.customer_id IS NULL OR t.customer_id IS NULL OR (s.name, s.region, s.status, s.balance, s.updated_at) IS DISTINCT FROM (t.name, t.region, t.status, t.balance, t.updated_at)"
}

for _ in $(seq "$ROUNDS"); do
    version=$((version + 1))
    sql "UPDATE customers SET region = 'region $version' WHERE customer_id % 100 = $version % 100"
    sql "VACUUM ANALYZE customers, from_table, from_view"
    sql CHECKPOINT
    table_other+=("$(seconds join from_table customers)")
    table_ours+=("$(seconds apply from_table)")
    view_other+=("$(seconds join from_view seen)")
    view_ours+=("$(seconds apply from_view)")
done
for which in table view; do
    ours="${which}_ours[@]"
    other="${which}_other[@]"
    a=$(median "${!ours}")
    b=$(median "${!other}")
    result "snapshot of $n rows of a $which, 1 % changed; other: a full join that compares all columns" "$a s" "$b s" "$(divide "$a" "$b")" '<= 2.0'
done
stop_server
