# shellcheck shell=bash
# lib.sh: what the measurements share. Sourced by the scripts of this folder, after test/lib.sh.
#
#   SCALE    size of everything, 1 as in the README; 0.01 to see whether a script works
#   ROUNDS   how often each side is measured, in turns; medians count
#
# Every script measures both sides in one run on one server, in turns, and leaves its lines with `result`.

SCALE=${SCALE:-1}
ROUNDS=${ROUNDS:-3}
RESULTS=${RESULTS:-$BUILD/logs/bench.tsv}

# start_bench_server NAME [LINE...]: the server's defaults, but without checkpoints by volume, which
# would hit one side or the other, and without autovacuum, for the same reason: scripts vacuum
# between rounds where that matters.
start_bench_server() {
    start_server "$1" 'max_wal_size = 32GB' 'checkpoint_timeout = 1h' 'autovacuum = off' 'log_min_messages = warning' 'client_min_messages = warning' "${@:2}"
    sql 'CREATE EXTENSION pg_scd2'
    quietly "SELECT scd2.sync('5 min')"
}

sql() { psql -XqAt -v ON_ERROR_STOP=1 <<< "$1"; }

# quietly SQL: without its result
quietly() { sql "$1" >/dev/null; }

# scaled N: N at this scale, at least 100.
scaled() { awk -v n="$1" -v s="$SCALE" 'BEGIN { n = int(n * s); print (n < 100 ? 100 : n) }'; }

now() { date +%s.%N; }

# seconds COMMAND...: how long it took. What it prints goes nowhere.
seconds() {
    local before
    before=$(now)
    "$@" >/dev/null
    awk -v a="$before" -v b="$(now)" 'BEGIN { printf "%.3f\n", b - a }'
}

# median NUMBER...
median() { printf '%s\n' "$@" | sort -g | awk '{ v[NR] = $1 } END { print (NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2) }'; }

# percentile P, of the numbers on standard input
percentile() { sort -g | awk -v p="$1" '{ v[NR] = $1 } END { i = int(NR * p / 100 + 0.999999); print v[i < 1 ? 1 : i] }'; }

divide() { awk -v a="$1" -v b="$2" 'BEGIN { if (b == 0) print "-"; else printf "%.3f\n", a / b }'; }

# result WHAT OURS OTHER RATIO TO_REACH: a line of the table. Figures with their units; RATIO a
# number, TO_REACH like "<= 0.4".
result() {
    printf '%s\t%s\t%s\t%s\t%s\n' "$@" >> "$RESULTS"
    say "    $1: ours $2, other $3, ratio $4 (to reach: $5)"
}

sync_all() { sql "SELECT scd2.sync('2 hours')" >/dev/null; }

capture_pid() { sql 'SELECT pid FROM scd2_internal.capture_status()'; }

# The capture worker sleeps while a transaction is written, so that all of it lies in the log when
# the clock starts. It is at rest when it is stopped: it holds no lock.
stop_capture() {
    sync_all
    sleep 0.5
    STOPPED=$(capture_pid)
    kill -STOP "$STOPPED"
}

continue_capture_and_sync() {
    kill -CONT "$STOPPED"
    sync_all
}

# The table that is measured.
create_customers() {
    sql "CREATE TABLE $1 (customer_id bigint PRIMARY KEY, name text NOT NULL, region text, status text, balance numeric(12,2), updated_at timestamptz)"
}

# customer_rows FROM TO: a query for its rows.
customer_rows() {
    echo "SELECT i, 'customer number ' || i, (ARRAY['Norte','Sur','Este','Oeste'])[1 + i % 4], 'activo', i % 10000 / 100.0, now() FROM generate_series($1::bigint, $2::bigint) AS i"
}
