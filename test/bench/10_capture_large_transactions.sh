#!/bin/bash
# Capture of two large transactions, inserts and updates of 1 million rows each: from the log to
# committed feed rows, against reading the same log by built-in pgoutput and by wal2json.
set -euo pipefail
. test/lib.sh
. test/bench/lib.sh
start_bench_server bench-capture
n=$(scaled 1000000)

create_customers customers
quietly "SELECT scd2.enable_change_feed('customers')"
sql "CREATE PUBLICATION bench FOR TABLE customers"

others=(pgoutput)
[ ! -e "$("$PG_CONFIG" --pkglibdir)/wal2json.so" ] || others+=(wal2json)

write() { # write ROUND
    sql "INSERT INTO customers $(customer_rows $((($1 - 1) * n + 1)) $(($1 * n)))"
    sql "UPDATE customers SET balance = balance + 1, updated_at = now() WHERE customer_id > $((($1 - 1) * n))"
}
peek() { # peek PLUGIN MEMORY
    if [ "$1" = pgoutput ]; then
        sql "SET logical_decoding_work_mem = '$2'; SELECT count(*) FROM pg_logical_slot_peek_binary_changes('pgoutput', NULL, NULL, 'proto_version', '1', 'publication_names', 'bench')"
    else
        sql "SET logical_decoding_work_mem = '$2'; SELECT count(*) FROM pg_logical_slot_peek_changes('wal2json', NULL, NULL, 'format-version', '2')"
    fi
}
set_memory() {
    sql "ALTER SYSTEM SET pg_scd2.decoding_work_mem = '$1'"
    sql "SELECT pg_reload_conf()" >/dev/null
    sleep 0.2
    sync_all
}

for round in $(seq $((2 * ROUNDS))); do
    memory=$([ $((round % 2)) = 1 ] && echo 512MB || echo 64MB)
    set_memory "$memory"
    for plugin in "${others[@]}"; do sql "SELECT pg_create_logical_replication_slot('$plugin', '$plugin')" >/dev/null; done
    stop_capture
    write "$round"
    if [ "$memory" = 512MB ]; then
        pgoutput64+=("$(seconds peek pgoutput 64MB)")
        ours512+=("$(seconds continue_capture_and_sync)")
        pgoutput512+=("$(seconds peek pgoutput 512MB)")
        [ ${#others[@]} = 1 ] || wal2json+=("$(seconds peek wal2json 64MB)")
    else
        ours64+=("$(seconds continue_capture_and_sync)")
    fi
    for plugin in "${others[@]}"; do sql "SELECT pg_drop_replication_slot('$plugin')" >/dev/null; done
    sql 'TRUNCATE customers; CHECKPOINT'
done

ours=$(median "${ours512[@]}")
line() { # line WHAT OURS OTHER TO_REACH
    result "$1" "$2 s" "$3 s" "$(divide "$2" "$3")" "$4"
}
line "capture, $n inserts + $n updates in two transactions; other: pgoutput; both at defaults" "$ours" "$(median "${pgoutput64[@]}")" '<= 0.4'
line "… pgoutput, both with 512 MB" "$ours" "$(median "${pgoutput512[@]}")" '<= 1.0'
line "… pgoutput, both with 64 MB" "$(median "${ours64[@]}")" "$(median "${pgoutput64[@]}")" '-'
[ ${#others[@]} = 1 ] || line "… wal2json, both at defaults" "$ours" "$(median "${wal2json[@]}")" '<= 0.25'
stop_server
