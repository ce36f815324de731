#!/bin/bash
# AUTO CDC over an event table: 1 million events over 100,000 keys in 20 batches, shuffled and in
# order. The other side is the fewest writes that reach the same end: the same row changes, batch by
# batch, known in advance and applied by one UPDATE and one INSERT (and a DELETE where a row goes),
# without reading an event, a timeline or memory, into a table made like ours. For type 1 it is
# INSERT ... ON CONFLICT DO UPDATE WHERE newer, batch by batch. The last lines: an event that comes
# late for a key with few and with very many versions.
#
# The row changes come from a first pass: a flow of the same kind takes the batches one at a time,
# and the target is copied after each.
set -euo pipefail
. test/lib.sh
. test/bench/lib.sh
events=$(scaled 1000000)
keys=$((events / 10))
batches=20
start_bench_server bench-events 'pg_scd2.max_apply_workers = 1'

# Events: a key's tenth part are deletes; status is tracked, balance is not. The batch they arrive
# in is known.
sql "CREATE TABLE all_events AS
     SELECT k, 'customer number ' || k AS name, (ARRAY['Norte','Sur','Este','Oeste'])[1 + (random() * 3)::int] AS region, (random() * 10000)::numeric(12,2) AS balance,
            s, CASE WHEN random() < 0.1 THEN 'DELETE' ELSE 'UPSERT' END AS op
     FROM (SELECT 1 + floor(random() * $keys)::bigint AS k, n AS s FROM generate_series(1, $events::bigint) AS n) AS e"
sql "CREATE TABLE shuffled_arrivals AS SELECT e.*, 1 + (row_number() OVER (ORDER BY random()) - 1) / ($events / $batches) AS batch FROM all_events AS e;
     CREATE TABLE ordered_arrivals AS SELECT e.*, 1 + (row_number() OVER (ORDER BY s) - 1) / ($events / $batches) AS batch FROM all_events AS e;
     CREATE INDEX ON shuffled_arrivals (batch); CREATE INDEX ON ordered_arrivals (batch); VACUUM ANALYZE"

columns='k, name, region, balance, s, op'
flow_of() { # flow_of TARGET EVENTS TYPE COLUMNS
    local tracked=
    if [ "$3" = 2 ]; then tracked=", track_history_column_list => '{region}'"; fi
    quietly "SELECT scd2.create_auto_cdc_flow('$1', '$2', '{k}', 's', apply_as_deletes => 'op = ''DELETE''', stored_as_scd_type => $3, column_list => '{$4}'$tracked)"
    sync_all
}
event_table() { sql "CREATE TABLE $1 (LIKE all_events)"; }
arrive() { # arrive TABLE ORDER BATCH
    sql "INSERT INTO $1 SELECT $columns FROM $2_arrivals WHERE batch = $3"
}
# apply_batches TABLE ORDER TARGET: seconds that the flow takes, each batch alone, from being told
# to go on until the target is complete. Each is captured before. (In one session, which has parsed
# and planned what it says itself.)
apply_batches() {
    local i
    for i in $(seq $batches); do
        cat <<SQL
SELECT scd2.pause_flow('$3') \g /dev/null
INSERT INTO $1 SELECT $columns FROM $2_arrivals WHERE batch = $i;
SELECT scd2.sync('1 hour') \g /dev/null
SELECT clock_timestamp() AS before \gset
SELECT scd2.resume_flow('$3') \g /dev/null
SELECT scd2.sync('1 hour') \g /dev/null
SELECT extract(epoch FROM clock_timestamp() - :'before');
SQL
    done | PGOPTIONS='-c client_min_messages=error' psql -XqAt -v ON_ERROR_STOP=1 | awk '{ sum += $1 } END { printf "%.3f\n", sum }'
}

# What each batch changes in the target: rows that go are paired by key with rows that come, which
# is one update.
record_changes() { # record_changes ORDER
    local i
    event_table "$1_first"
    flow_of "$1_model" "$1_first" 2 k,name,region,balance
    sql "CREATE TABLE $1_before (LIKE $1_model)"
    for i in $(seq $batches); do
        arrive "$1_first" "$1" "$i"
        sync_all
        sql "CREATE TABLE $1_gone AS SELECT *, row_number() OVER (PARTITION BY k ORDER BY __start_at) AS n FROM (TABLE $1_before EXCEPT ALL TABLE $1_model) AS g;
             CREATE TABLE $1_come AS SELECT *, row_number() OVER (PARTITION BY k ORDER BY __start_at) AS n FROM (TABLE $1_model EXCEPT ALL TABLE $1_before) AS c;
             CREATE TABLE $1_changed AS SELECT c.*, g.__start_at AS old_start FROM $1_gone AS g JOIN $1_come AS c USING (k, __start_at);
             DELETE FROM $1_gone AS g USING $1_changed AS u WHERE u.k = g.k AND u.__start_at = g.__start_at;
             DELETE FROM $1_come AS c USING $1_changed AS u WHERE u.k = c.k AND u.__start_at = c.__start_at;
             CREATE TABLE $1_moves AS SELECT c.*, g.__start_at AS old_start
                 FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY __start_at) AS m FROM $1_gone) AS g JOIN (SELECT *, row_number() OVER (PARTITION BY k ORDER BY __start_at) AS m FROM $1_come) AS c USING (k, m);
             CREATE TABLE $1_updates_$i AS
                 SELECT k, name, region, balance, __start_at, __end_at, old_start FROM (TABLE $1_changed UNION ALL SELECT k, name, region, balance, __start_at, __end_at, n, old_start FROM $1_moves) AS u ORDER BY k, old_start;
             CREATE TABLE $1_deletes_$i AS SELECT k, __start_at FROM $1_gone AS g WHERE NOT EXISTS (SELECT FROM $1_moves AS m WHERE m.k = g.k AND m.old_start = g.__start_at) ORDER BY 1, 2;
             CREATE TABLE $1_inserts_$i AS SELECT k, name, region, balance, __start_at, __end_at FROM $1_come AS c WHERE NOT EXISTS (SELECT FROM $1_moves AS m WHERE m.k = c.k AND m.__start_at = c.__start_at) ORDER BY k, __start_at;
             DROP TABLE $1_gone, $1_come, $1_changed, $1_moves, $1_before;
             CREATE TABLE $1_before AS TABLE $1_model; ANALYZE $1_updates_$i; ANALYZE $1_inserts_$i; ANALYZE $1_deletes_$i"
    done
    sql "CREATE TABLE $1_writes (LIKE $1_model INCLUDING ALL) WITH (fillfactor = 70)"
}
write_set() { # write_set ORDER: a transaction per batch
    local i
    for i in $(seq $batches); do
        echo "BEGIN;
              DELETE FROM $1_writes AS t USING $1_deletes_$i AS d WHERE t.k = d.k AND t.__start_at = d.__start_at;
              UPDATE $1_writes AS t SET name = u.name, region = u.region, balance = u.balance, __start_at = u.__start_at, __end_at = u.__end_at FROM $1_updates_$i AS u WHERE t.k = u.k AND t.__start_at = u.old_start;
              INSERT INTO $1_writes TABLE $1_inserts_$i;
              COMMIT;"
    done | psql -XqAt -v ON_ERROR_STOP=1
}
one_lead() { # one_lead ORDER: everything at once, beside it (untracked values and runs are not even looked at)
    sql "CREATE TABLE $1_lead AS SELECT k, name, region, balance, s, lead(s) OVER (PARTITION BY k ORDER BY s) AS ends FROM $1_arrivals; ALTER TABLE $1_lead ADD PRIMARY KEY (k, s)"
    sql "DROP TABLE $1_lead"
}
same() { # same TABLE TABLE
    local differ
    differ=$(sql "SELECT count(*) FROM ((TABLE $1 EXCEPT ALL TABLE $2) UNION ALL (TABLE $2 EXCEPT ALL TABLE $1)) AS d")
    [ "$differ" = 0 ] || say "    $differ rows differ between $1 and $2"
}

history() { # history ORDER LABEL
    local ours=() others=() leads=() round
    record_changes "$1"
    for round in $(seq "$ROUNDS"); do
        event_table "$1_$round"
        flow_of "$1_history_$round" "$1_$round" 2 k,name,region,balance
        ours+=("$(apply_batches "$1_$round" "$1" "$1_history_$round")")
        sql "TRUNCATE $1_writes; CHECKPOINT"
        others+=("$(seconds write_set "$1")")
        same "$1_history_$round" "$1_writes"
        leads+=("$(seconds one_lead "$1")")
        quietly "SELECT scd2.drop_flow('$1_history_$round', true); SELECT scd2.disable_change_feed('$1_$round', true)"
        sql "DROP TABLE $1_$round"
    done
    result "$events events over $keys keys, $2, in $batches batches, SCD2 with tracked columns; other: the row changes alone" "$(median "${ours[@]}") s" "$(median "${others[@]}") s" \
        "$(divide "$(median "${ours[@]}")" "$(median "${others[@]}")")" '<= 1.5'
    result "… one lead() over everything, without runs and deletes" "$(median "${ours[@]}") s" "$(median "${leads[@]}") s" "$(divide "$(median "${ours[@]}")" "$(median "${leads[@]}")")" '-'
}
history shuffled shuffled
history ordered 'in order'

# Type 1: with the sequence among the columns nothing is remembered for keys that are there; deleted
# keys stay in the other side's table, marked.
upserts() { # upserts ORDER
    local i
    for i in $(seq $batches); do
        echo "INSERT INTO current_writes SELECT DISTINCT ON (k) k, name, region, balance, s, op FROM $1_arrivals WHERE batch = $i ORDER BY k, s DESC
              ON CONFLICT (k) DO UPDATE SET name = excluded.name, region = excluded.region, balance = excluded.balance, s = excluded.s, op = excluded.op WHERE excluded.s > current_writes.s;"
    done | psql -XqAt -v ON_ERROR_STOP=1
}
current() { # current COLUMNS LABEL TO_REACH
    local ours=() others=() round
    for round in $(seq "$ROUNDS"); do
        event_table "current_$round"
        flow_of "current_target_$round" "current_$round" 1 "$1"
        ours+=("$(apply_batches "current_$round" shuffled "current_target_$round")")
        sql "DROP TABLE IF EXISTS current_writes; CREATE TABLE current_writes (LIKE all_events, PRIMARY KEY (k)); CHECKPOINT"
        others+=("$(seconds upserts shuffled)")
        sql "CREATE VIEW live AS SELECT $1 FROM current_writes WHERE op <> 'DELETE'"
        same "current_target_$round" live
        sql "DROP VIEW live"
        quietly "SELECT scd2.drop_flow('current_target_$round', true); SELECT scd2.disable_change_feed('current_$round', true)"
        sql "DROP TABLE current_$round"
    done
    result "the same events, shuffled, SCD1, $2; other: INSERT … ON CONFLICT DO UPDATE WHERE newer" "$(median "${ours[@]}") s" "$(median "${others[@]}") s" \
        "$(divide "$(median "${ours[@]}")" "$(median "${others[@]}")")" "$3"
}
current k,name,region,balance,s 'the sequence is a column of the target' '<= 1.0'
current k,name,region,balance 'it is not' '<= 1.7'

# One late event: its batch as the worker counts it, so that neither the client nor the way through
# capture is in it.
versions=$(scaled 100000)
event_table late
flow_of late_history late 2 k,name,region,balance
sql "INSERT INTO late SELECT 1, 'few', 'region ' || n, n, 2 * n, 'UPSERT' FROM generate_series(1, 10) AS n;
     INSERT INTO late SELECT 2, 'many', 'region ' || n, n, 2 * n, 'UPSERT' FROM generate_series(1, $versions) AS n"
sync_all
sql 'VACUUM ANALYZE'
late_event() { # late_event KEY SEQUENCE
    sql "INSERT INTO late VALUES ($1, 'late', 'late', 0, $2, 'UPSERT')"
    sync_all
    sql "SELECT extract(epoch FROM duration) * 1000 FROM scd2.batches WHERE flow = 'late_history' ORDER BY started DESC LIMIT 1"
}
few=() many=()
for n in 1 2 3 4 5 6 7 8 9; do
    few+=("$(late_event 1 $((2 * n + 1)))")
    many+=("$(late_event 2 $((versions + 2 * n + 1)))")
done
result "one late event for a key with $versions versions; other: with 10" "$(median "${many[@]}") ms" "$(median "${few[@]}") ms" "$(divide "$(median "${many[@]}")" "$(median "${few[@]}")")" '<= 2'
stop_server
