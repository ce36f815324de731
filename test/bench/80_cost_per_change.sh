#!/bin/bash
# Cost of a change when the history has 1, 4 and 16 million rows: buffers of the target and its
# indexes that are touched per change, and the time. 250,000, 1 million and 4 million customers with
# 4 versions each; 2,000 updates of different customers all over the table, in 20 transactions,
# captured first and then applied in one batch. The history is vacuumed before, so that at each size
# nearly every change is the first on its page. "After a restart" is right after one of the server
# (the kernel's cache stays warm).
set -euo pipefail
. test/lib.sh
. test/bench/lib.sh
start_bench_server bench-cost 'pg_scd2.max_apply_workers = 1'
changes=$(scaled 2000)

touched() { # buffers of the target and its indexes, once the worker has reported
    sql "SELECT heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit FROM pg_statio_user_tables WHERE relname = '$1_history'"
}
prepare() { # prepare TABLE CUSTOMERS
    create_customers "$1"
    sql "INSERT INTO $1 $(customer_rows 1 "$2")"
    quietly "SELECT scd2.track('$1')"
    sync_all
    sql "SET pg_scd2.allow_target_writes = on;
         INSERT INTO $1_history SELECT customer_id, name, region, status, balance, updated_at, now() - (v + 1) * interval '1 day', now() - v * interval '1 day'
         FROM $1, generate_series(1, 3) AS v"
    sql "VACUUM ANALYZE; CHECKPOINT"
}
update_some() { # update_some TABLE CUSTOMERS FROM: a transaction's worth; other customers for every FROM
    sql "UPDATE $1 SET balance = balance + 1 WHERE customer_id IN (SELECT 1 + i * 611953 % $2 FROM generate_series($3::bigint, $3 + $changes / 20 - 1) AS i)"
}
resume_and_sync() {
    quietly "SELECT scd2.resume_flow('$1_history')"
    sync_all
}
measure() { # measure TABLE CUSTOMERS cold|warm ROUND: buffers and microseconds per change
    local before after time done_before i
    quietly "SELECT scd2.pause_flow('$1_history')"
    sql "VACUUM $1_history"
    done_before=$(sql "SELECT count(*) FROM $1_changes WHERE _change_type = 'update_postimage'")
    for i in $(seq 0 19); do update_some "$1" "$2" $((($4 * 20 + i) * (changes / 20))); done
    sync_all
    if [ "$3" = cold ]; then restart_server; fi
    before=$(touched "$1")
    time=$(seconds resume_and_sync "$1")
    sleep 1.5
    quietly "SELECT scd2.pause_flow('$1_history')"
    sleep 0.5
    after=$(touched "$1")
    awk -v n="$(($(sql "SELECT count(*) FROM $1_changes WHERE _change_type = 'update_postimage'") - done_before))" -v b="$((after - before))" -v t="$time" \
        'BEGIN { printf "%.2f %.1f\n", b / n, t * 1e6 / n }'
    quietly "SELECT scd2.resume_flow('$1_history')"
    sync_all
}
restart_server() {
    "$BINDIR/pg_ctl" --pgdata "$SERVER_DATA" --log "$SERVER_LOG" --wait --silent --mode fast restart
    sync_all
}
for millions in 1 4 16; do
    customers=$(scaled $((millions * 250000)))
    prepare "m$millions" "$customers"
    read -r cold_buffers cold_time <<< "$(measure "m$millions" "$customers" cold 0)"
    buffers=() times=()
    for round in $(seq "$ROUNDS"); do
        read -r b t <<< "$(measure "m$millions" "$customers" warm "$round")"
        buffers+=("$b") times+=("$t")
    done
    b=$(median "${buffers[@]}")
    [ "$millions" != 1 ] || first=$b
    result "buffers touched per change, history of $((4 * customers)) rows" "$b" "$cold_buffers after a restart" "$(divide "$b" "$first")" '<= 1.3'
    result "… time" "$(median "${times[@]}") µs" "$cold_time µs after a restart" '-' '-'
done
stop_server
