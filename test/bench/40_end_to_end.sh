#!/bin/bash
# End to end: 4 clients in a closed loop update single rows; time until the history is complete.
# Against a plpgsql trigger that keeps the same history synchronously, and the system versioning of
# the extension periods.
set -euo pipefail
. test/lib.sh
. test/bench/lib.sh
start_bench_server bench-end-to-end
rows=$(scaled 100000)
each=$(scaled 25000)

for table in ours by_trigger by_periods; do
    create_customers "$table"
    sql "INSERT INTO $table $(customer_rows 1 "$rows")"
done
quietly "SELECT scd2.track('ours')"

sql "CREATE TABLE by_trigger_history (LIKE ours_history INCLUDING ALL) WITH (fillfactor = 50)"
sql "INSERT INTO by_trigger_history SELECT *, now() FROM by_trigger"
sql "CREATE FUNCTION keep_history() RETURNS trigger LANGUAGE plpgsql AS \$\$
    DECLARE
        at timestamptz := clock_timestamp();
    BEGIN
        IF TG_OP <> 'INSERT' THEN
            UPDATE by_trigger_history SET __end_at = at WHERE customer_id = OLD.customer_id AND __end_at IS NULL;
        END IF;
        IF TG_OP <> 'DELETE' THEN
            INSERT INTO by_trigger_history VALUES (NEW.customer_id, NEW.name, NEW.region, NEW.status, NEW.balance, NEW.updated_at, at, NULL);
        END IF;
        RETURN NULL;
    END \$\$"
sql "CREATE TRIGGER history AFTER INSERT OR UPDATE OR DELETE ON by_trigger FOR EACH ROW EXECUTE FUNCTION keep_history()"

kinds=(ours by_trigger)
if [ -e "$("$PG_CONFIG" --sharedir)/extension/periods.control" ]; then
    sql "CREATE EXTENSION periods CASCADE"
    sql "SELECT periods.add_system_time_period('by_periods')" >/dev/null
    sql "SELECT periods.add_system_versioning('by_periods')" >/dev/null 2>&1
    kinds+=(by_periods)
fi
sync_all
sql "VACUUM ANALYZE"

for kind in "${kinds[@]}"; do
    cat > "$BUILD/$kind.pgbench" <<PGBENCH
\set id random(1, $rows)
\set amount random(1, 100000)
UPDATE $kind SET balance = :amount / 100.0, updated_at = now() WHERE customer_id = :id;
PGBENCH
done
loop() {
    pgbench -n -M prepared -c 4 -j 1 -t "$each" -f "$BUILD/$1.pgbench" 2>/dev/null
    [ "$1" != ours ] || sync_all
}
declare -A times
for _ in $(seq "$ROUNDS"); do
    for kind in "${kinds[@]}"; do
        sql CHECKPOINT
        times[$kind]+=" $(seconds loop "$kind")"
    done
    sql VACUUM
done
# shellcheck disable=SC2086
a=$(median ${times[ours]})
for kind in "${kinds[@]:1}"; do
    # shellcheck disable=SC2086
    b=$(median ${times[$kind]})
    name=$([ "$kind" = by_trigger ] && echo 'a plpgsql trigger that keeps the same history' || echo 'system versioning of periods')
    result "end to end, $((4 * each)) single-row updates by 4 clients until the history is complete; other: $name" "$a s" "$b s" "$(divide "$a" "$b")" '<= 1.0'
done
stop_server
