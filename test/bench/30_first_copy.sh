#!/bin/bash
# First copy of 5 million rows, from track() to its end, against INSERT … SELECT into a table with
# the same indexes.
set -euo pipefail
. test/lib.sh
. test/bench/lib.sh
start_bench_server bench-copy
n=$(scaled 5000000)

create_customers customers
sql "INSERT INTO customers $(customer_rows 1 "$n")"
sql "VACUUM ANALYZE customers"
quietly "SELECT scd2.enable_change_feed('customers')"
sync_all

track() {
    quietly "SELECT scd2.track('customers')"
    sync_all
}
copy() { sql "INSERT INTO plain SELECT *, now(), NULL FROM customers"; }

for _ in $(seq "$ROUNDS"); do
    ours+=("$(seconds track)")
    sql "CREATE TABLE plain (LIKE customers_history INCLUDING ALL) WITH (fillfactor = 50)"
    sql CHECKPOINT
    other+=("$(seconds copy)")
    quietly "SELECT scd2.drop_flow('customers_history', drop_target => true)"
    sql "DROP TABLE plain"
    sql CHECKPOINT
done
a=$(median "${ours[@]}")
b=$(median "${other[@]}")
result "first copy of $n rows; other: INSERT … SELECT, same indexes" "$a s" "$b s" "$(divide "$a" "$b")" '<= 1.3'
stop_server
