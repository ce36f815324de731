#!/bin/bash
# Transaction ids that are used while an application writes at a fixed rate, one row a transaction, with feed and history on: for
# each of the application's own. Every batch of capture uses one, and every batch of a flow; the more is written, the larger
# batches are.
set -euo pipefail
. test/lib.sh
. test/bench/lib.sh
start_bench_server bench-ids
rows=$(scaled 100000)
duration=$(awk -v s="$SCALE" 'BEGIN { d = int(30 * s); print (d < 5 ? 5 : d) }')

create_customers customers
sql "INSERT INTO customers $(customer_rows 1 "$rows")"
quietly "SELECT scd2.track('customers')"
sync_all

cat > "$BUILD/update.pgbench" <<PGBENCH
\set id random(1, $rows)
\set amount random(1, 100000)
UPDATE customers SET balance = :amount / 100.0, updated_at = now() WHERE customer_id = :id;
PGBENCH

next_id() { sql 'SELECT pg_snapshot_xmax(pg_current_snapshot())'; }
measure() { # measure RATE: ids for each transaction
    local before transactions
    sleep 1
    before=$(next_id)
    transactions=$(pgbench -n -M prepared -c 4 -j 1 -R "$1" -T "$duration" -f "$BUILD/update.pgbench" postgres 2>/dev/null |
        sed -nE 's/^number of transactions actually processed: ([0-9]+).*/\1/p')
    sync_all
    divide "$(($(next_id) - before))" "$transactions"
}
for rate in 10 100 1000; do
    result "transaction ids for each of the application's, at $rate transactions/s" "$(measure "$rate")" 1 - '<= 3'
done
stop_server
