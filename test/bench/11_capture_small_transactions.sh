#!/bin/bash
# Capture of 1 million transactions of one update each, against reading the same log by pgoutput.
set -euo pipefail
. test/lib.sh
. test/bench/lib.sh
start_bench_server bench-capture-small 'synchronous_commit = off'
n=$(scaled 1000000)

create_customers customers
quietly "SELECT scd2.enable_change_feed('customers')"
sql "CREATE PUBLICATION bench FOR TABLE customers"
sql "INSERT INTO customers $(customer_rows 1 10000)"
sql "CREATE PROCEDURE commit_updates(n integer) LANGUAGE plpgsql AS \$\$
    BEGIN
        FOR i IN 1..n LOOP
            UPDATE customers SET balance = i % 1000, updated_at = now() WHERE customer_id = 1 + i % 10000;
            COMMIT;
        END LOOP;
    END \$\$"

peek() {
    sql "SELECT count(*) FROM pg_logical_slot_peek_binary_changes('pgoutput', NULL, NULL, 'proto_version', '1', 'publication_names', 'bench')"
}

for _ in $(seq "$ROUNDS"); do
    sql "SELECT pg_create_logical_replication_slot('pgoutput', 'pgoutput')" >/dev/null
    stop_capture
    sql "CALL commit_updates($n)"
    other+=("$(seconds peek)")
    ours+=("$(seconds continue_capture_and_sync)")
    sql "SELECT pg_drop_replication_slot('pgoutput')" >/dev/null
    sql 'VACUUM customers; CHECKPOINT'
done
a=$(median "${ours[@]}")
b=$(median "${other[@]}")
result "capture, $n transactions of one update; other: pgoutput" "$a s" "$b s" "$(divide "$a" "$b")" '<= 1.0'
stop_server
