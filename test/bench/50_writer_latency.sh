#!/bin/bash
# What the writer feels: latency of single-row updates at a fixed 2,000 a second, with feed and
# history on, against the same table with REPLICA IDENTITY FULL in a database without the extension.
# The time of a transaction itself, not how late pgbench began it.
set -euo pipefail
. test/lib.sh
. test/bench/lib.sh
start_bench_server bench-latency
rows=$(scaled 100000)
duration=$(awk -v s="$SCALE" 'BEGIN { d = int(20 * s); print (d < 3 ? 3 : d) }')

sql "CREATE DATABASE without"
for database in postgres without; do
    export PGDATABASE=$database
    create_customers customers
    sql "INSERT INTO customers $(customer_rows 1 "$rows")"
    sql "ALTER TABLE customers REPLICA IDENTITY FULL"
done
export PGDATABASE=postgres
quietly "SELECT scd2.track('customers')"
sync_all
for database in postgres without; do PGDATABASE=$database sql "VACUUM ANALYZE"; done

cat > "$BUILD/update.pgbench" <<PGBENCH
\set id random(1, $rows)
\set amount random(1, 100000)
UPDATE customers SET balance = :amount / 100.0, updated_at = now() WHERE customer_id = :id;
PGBENCH

measure() { # measure DATABASE: median and 99th percentile, in µs
    rm -f "$BUILD"/latency.*
    pgbench -n -M prepared -c 4 -j 1 -R 2000 -T "$duration" --log --log-prefix="$BUILD/latency" -f "$BUILD/update.pgbench" "$1" >/dev/null 2>&1
    # client, number, latency with lag, script, s, µs, lag
    awk '{ print $3 - $7 }' "$BUILD"/latency.* > "$BUILD/latencies"
    echo "$(percentile 50 < "$BUILD/latencies") $(percentile 99 < "$BUILD/latencies")"
}
for _ in $(seq $((2 * ROUNDS))); do
    sql CHECKPOINT
    read -r p50 p99 <<< "$(measure postgres)"
    ours50+=("$p50") ours99+=("$p99")
    sync_all
    sql CHECKPOINT
    read -r p50 p99 <<< "$(measure without)"
    other50+=("$p50") other99+=("$p99")
    for database in postgres without; do PGDATABASE=$database sql VACUUM; done
done
a=$(median "${ours50[@]}") b=$(median "${other50[@]}")
result 'latency of single-row updates at 2,000/s, median; other: REPLICA IDENTITY FULL, no extension' "$a µs" "$b µs" "$(divide "$a" "$b")" '<= 1.15'
a=$(median "${ours99[@]}") b=$(median "${other99[@]}")
result '… 99th percentile' "$a µs" "$b µs" "$(divide "$a" "$b")" '<= 1.25'
stop_server
