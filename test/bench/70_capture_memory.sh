#!/bin/bash
# Private memory of the capture worker while it captures a transaction of 5 million rows: all of it
# in one piece, and in subtransactions of 4,096 and of 1,000 changes. Anonymous memory as the kernel
# counts it for the process (Pss_Anon), the greatest of ten looks a second.
set -euo pipefail
. test/lib.sh
. test/bench/lib.sh
start_bench_server bench-memory
n=$(scaled 5000000)

create_customers customers
quietly "SELECT scd2.enable_change_feed('customers')"

watch_memory() { # prints the most seen, in MB, when told to end
    trap 'echo $((most / 1024)); exit' TERM
    local most=0 kb
    while :; do
        kb=$(awk '/^Pss_Anon/ { print $2 }' "/proc/$1/smaps_rollup")
        if [ "${kb:-0}" -gt "$most" ]; then most=$kb; fi
        sleep 0.1
    done
}
measure() { # measure SQL
    local watcher
    stop_capture
    sql "$1"
    watch_memory "$STOPPED" > "$BUILD/memory" &
    watcher=$!
    continue_capture_and_sync
    kill "$watcher"
    wait "$watcher" || true
    sql "TRUNCATE customers; CHECKPOINT"
    sync_all
    # A new worker: what the last transaction left does not count for the next.
    sql "SELECT pg_terminate_backend($STOPPED)" >/dev/null
    sleep 1
    sync_all
    cat "$BUILD/memory"
}
in_subtransactions() { # in_subtransactions SIZE
    echo "DO \$\$ BEGIN
        FOR s IN 0..$n / $1 - 1 LOOP
            BEGIN
                INSERT INTO customers $(customer_rows "s * $1 + 1" "(s + 1) * $1");
            EXCEPTION WHEN division_by_zero THEN NULL;
            END;
        END LOOP; END \$\$"
}
limit=$(sql "SELECT setting::bigint / 1024 FROM pg_settings WHERE name = 'pg_scd2.decoding_work_mem'")
result "private memory of the capture worker, a transaction of $n rows" "$(measure "INSERT INTO customers $(customer_rows 1 "$n")") MB" "decoding_work_mem $limit MB" '-' '<= other + 100 MB'
for size in 4096 1000; do
    result "… in subtransactions of $size rows" "$(measure "$(in_subtransactions "$size")") MB" "decoding_work_mem $limit MB" '-' '<= other + 100 MB + 4,096 changes each'
done
sql "ALTER SYSTEM SET pg_scd2.decoding_work_mem = '64MB'"
sql "SELECT pg_reload_conf()" >/dev/null
sync_all
result "… in one piece, decoding_work_mem 64 MB" "$(measure "INSERT INTO customers $(customer_rows 1 "$n")") MB" 'decoding_work_mem 64 MB' '-' '<= other + 100 MB'
stop_server
