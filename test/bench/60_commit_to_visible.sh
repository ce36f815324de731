#!/bin/bash
# Commit until visible in the history, at 1,000 commits a second. Nothing polls: the server keeps
# the time of each commit (track_commit_timestamp). A row of the history has the time of the
# source's commit as its start, and was written by a transaction whose commit time is looked up
# afterwards. (The start is taken before the source's commit is flushed, so an fsync is part of the
# figure.) Rows whose history was written again since (closed) are left out: with so many customers,
# few.
set -euo pipefail
. test/lib.sh
. test/bench/lib.sh
start_bench_server bench-visible 'track_commit_timestamp = on'
duration=$(awk -v s="$SCALE" 'BEGIN { d = int(30 * s); print (d < 3 ? 3 : d) }')
rows=$(scaled 1000000)

create_customers customers
sql "INSERT INTO customers $(customer_rows 1 "$rows")"
quietly "SELECT scd2.track('customers')"
sync_all
sql "VACUUM ANALYZE"
cat > "$BUILD/update.pgbench" <<PGBENCH
\set id random(1, $rows)
UPDATE customers SET updated_at = now() WHERE customer_id = :id;
PGBENCH

for _ in $(seq "$ROUNDS"); do
    since=$(sql 'SELECT clock_timestamp()')
    pgbench -n -M prepared -c 2 -j 1 -R 1000 -T "$duration" -f "$BUILD/update.pgbench" >/dev/null 2>&1
    sync_all
    sql "SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin) - __start_at) * 1000 FROM customers_history WHERE __start_at > '$since' AND __end_at IS NULL" > "$BUILD/latencies"
    p50+=("$(percentile 50 < "$BUILD/latencies")")
    p99+=("$(percentile 99 < "$BUILD/latencies")")
    sql 'VACUUM; CHECKPOINT'
done
result 'commit until visible in the history, 1,000 commits/s, median' "$(printf '%.2f ms' "$(median "${p50[@]}")")" '-' '-' '<= 2 ms'
result '… 99th percentile' "$(printf '%.2f ms' "$(median "${p99[@]}")")" '-' '-' '<= 10 ms'
stop_server
