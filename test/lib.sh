# shellcheck shell=bash
# lib.sh: throwaway servers for `make check`, `make demo` and `make bench`. To be sourced by bash scripts in this folder.
#
#   as_ordinary_user "$@"        when root: goes on as another user in a copy of the tree (PostgreSQL's programs refuse root), never returns
#   prepare_server_tree          a private copy of the server of PG_CONFIG with the extension built and installed into it
#   start_server NAME [LINE...]  a new data folder with our settings and the given configuration lines; psql and friends connect to it
#   stop_server [MODE]           of the server started last (fast, immediate)
#   faults LOG...                what servers' logs tell of faults that no query shows
#
# VALGRIND=/path/to/valgrind.supp runs the servers of the tree under valgrind, with that file of what it shall not report (see test/assert).
#
# Everything is below tmp_check of this tree (data folders below DATA_DIR, if that is set); the sockets are in a short path of their own (a socket's path has at most 107 bytes).

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=$ROOT/tmp_check
SOURCE_PG_CONFIG=${PG_CONFIG:-pg_config}
SERVER_DATA=

say() { printf '%s\n' "$*" >&2; }

#-------- what must be installed --------

server_path() { "$SOURCE_PG_CONFIG" "--$1"; }

# The major version whose packages are asked for when there is no server yet: the distribution's own. Nothing if apt has no lists. apt translates its words.
default_major() {
    LC_ALL=C LANGUAGE='' apt-cache depends postgresql 2>/dev/null | sed -nE 's/.*Depends: postgresql-([0-9]+)$/\1/p' | head -1
}

major_version() {
    local major
    major=$(server_path version 2>/dev/null | sed -nE 's/^PostgreSQL ([0-9]+).*/\1/p')
    echo "${major:-$(default_major)}"
}

# Packages of Debian for a major version. Without one: those that bring whichever version the distribution has.
server_package() { echo "postgresql${1:+-$1}"; }
headers_package() { echo "postgresql-server-dev-${1:-all}"; }
pgtap_package() { echo "postgresql-${1:+$1-}pgtap"; }

# Each file that is needed is looked for itself: pg_config comes with the client library and pgxs.mk with the client's programs, and both name folders
# that other packages fill.
has_server() { [ -x "$(server_path bindir 2>/dev/null)/postgres" ]; }
has_headers() { [ -e "$(server_path includedir-server 2>/dev/null)/postgres.h" ] && [ -e "$(server_path pgxs 2>/dev/null)" ]; }
has_regress() { [ -x "$(dirname "$(server_path pgxs 2>/dev/null)")/../test/regress/pg_regress" ]; }
has_pgtap() { [ -e "$(server_path sharedir 2>/dev/null)/extension/pgtap.control" ]; }
has_libc_headers() { [ -e /usr/include/stdio.h ] || echo '#include <stdio.h>' | gcc -E - >/dev/null 2>&1; }

# One package a line that is missing for the tests, by its Debian name.
missing_packages() {
    local major
    major=$(major_version)
    command -v gcc >/dev/null || echo gcc
    has_libc_headers || echo libc6-dev
    command -v make >/dev/null || echo make
    has_headers || headers_package "$major"
    has_server || server_package "$major"
    if [ "${1:-}" = tests ]; then
        has_regress || headers_package "$major"
        has_pgtap || pgtap_package "$major"
        perl -MIPC::Run -e 1 2>/dev/null || echo libipc-run-perl
    fi
}

say_missing() {
    say "missing: $1"
    say "on Debian: sudo apt-get update && sudo apt-get install $1   (another server: PG_CONFIG=/path/to/its/pg_config)"
    exit 1
}

# require_packages [tests]: root gets what is missing by apt, others are told.
require_packages() {
    local missing
    missing=$(missing_packages "$@" | sort -u | xargs)
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        say_missing "$missing"
    fi
    apt-get -qq update >&2 || true
    missing=$(missing_packages "$@" | sort -u | xargs) # the version is known only now if the lists were empty
    say "installing $missing"
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends $missing >/dev/null </dev/null || true
    missing=$(missing_packages "$@" | sort -u | xargs)
    [ -z "$missing" ] || say_missing "$missing"
}

#-------- not as root --------

ordinary_user() {
    if ! id postgres >/dev/null 2>&1; then
        useradd --system --create-home postgres
    fi
    echo postgres
}

# as_ordinary_user COMMAND...: when root, runs "test/COMMAND..." of a copy of the tree as another user and exits with its result.
# What the run left in tmp_check/logs comes back into this tree.
as_ordinary_user() {
    local user copy result=0
    [ "$(id -u)" = 0 ] || return 0
    user=$(ordinary_user)
    copy=$(mktemp -d /var/tmp/pg_scd2.XXXXXX)
    tar -C "$ROOT" --exclude=./.git --exclude=./tmp_check --exclude='*.bc' -cf - . | tar -C "$copy" -xf -
    chown -R "$user" "$copy"
    (cd "$copy" && runuser -u "$user" -- env HOME="$copy" bash "test/$1" "${@:2}" </dev/null) || result=$?
    rm -rf "$BUILD/logs"
    if [ -d "$copy/tmp_check/logs" ]; then
        mkdir -p "$BUILD"
        cp -r "$copy/tmp_check/logs" "$BUILD/logs"
    fi
    rm -rf "$copy"
    exit "$result"
}

#-------- a private copy of the server --------

# The server's programs look for their libraries and shared files relative to themselves. So a copy of the programs, with links to everything else
# at the same relative places, is a server of its own, and `make install` into it replaces links only.
copy_server() {
    local tree=$1 dir path
    mkdir -p "$tree"
    for dir in bindir pkglibdir sharedir includedir-server; do
        path=$(server_path "$dir")
        mkdir -p "$tree$path"
        if [ "$dir" = bindir ]; then
            cp -L "$path"/* "$tree$path/"
        else
            cp -rs "$path/." "$tree$path/"
        fi
    done
    # pg_config reports these too
    for dir in includedir pkgincludedir; do
        path=$(server_path "$dir")
        mkdir -p "$tree$path"
        cp -rsn "$path/." "$tree$path/" 2>/dev/null || true
    done
}

# Sets PG_CONFIG, BINDIR and PATH to the copy's.
prepare_server_tree() {
    local tree built
    tree=$BUILD/server-$(major_version)
    built="$(server_path version) ${ASSERTS:+asserts}"
    mkdir -p "$BUILD/logs"
    if [ "$(cat "$tree/built" 2>/dev/null)" != "$built" ]; then
        rm -rf "$tree"
        copy_server "$tree"
    fi
    BINDIR=$tree$(server_path bindir)
    export PG_CONFIG=$BINDIR/pg_config PATH="$BINDIR:$PATH"
    if [ "$(cat "$BUILD/built" 2>/dev/null)" != "$built" ]; then # objects of another version
        rm -f "$ROOT"/*.so "$ROOT"/src/*.o "$ROOT"/src/*/*.o
    fi
    if ! make -s -j2 -C "$ROOT" with_llvm=no ASSERTS="${ASSERTS:-}" WERROR="${WERROR:-}" all install > "$BUILD/logs/build.log" 2>&1; then
        cat "$BUILD/logs/build.log" >&2
        say "the build failed"
        exit 1
    fi
    echo "$built" | tee "$tree/built" > "$BUILD/built"
    run_under_valgrind
}

# The program "postgres" of the tree becomes a script. What only answers, or sets up a data folder, runs as it is: valgrind makes it fifty times slower.
run_under_valgrind() {
    [ -e "$BINDIR/postgres.plain" ] || mv "$BINDIR/postgres" "$BINDIR/postgres.plain"
    rm -rf "$BINDIR/postgres" "$BUILD/logs/valgrind"
    if [ -z "${VALGRIND:-}" ]; then
        mv "$BINDIR/postgres.plain" "$BINDIR/postgres"
        return 0
    fi
    mkdir -p "$BUILD/logs/valgrind"
    cat > "$BINDIR/postgres" <<SCRIPT
#!/bin/sh
case " \$* " in
    *" --boot "* | *" --check "* | *" --single "* | *" -V "* | *" --describe-config "* | *" -C "*) exec "$BINDIR/postgres.plain" "\$@" ;;
esac
exec valgrind --quiet --leak-check=no --num-callers=25 --trace-children=no --suppressions="$VALGRIND" \
    --log-file="$BUILD/logs/valgrind/%p.log" "$BINDIR/postgres.plain" "\$@"
SCRIPT
    chmod +x "$BINDIR/postgres"
}

#-------- faults that no query shows --------

# Failed assertions, crashes that no test made (tests kill by signal 9), memory written beyond its end, and what was not given back at the end of a
# transaction: snapshots, buffer pins, references to relations, catalog rows, tuple descriptors. One line each.
faults() {
    grep -hE 'TRAP:|PANIC:|terminated by signal (4|5|6|7|8|11)\b|WARNING: .*( leak: | leaked|still active|seem to remain|problem in |left non-empty|was not closed|while in [A-Z_]+ state|own a lock of type)' "$@" 2>/dev/null
}

# The setting that lists the output plugins, where the server knows it.
plugin_setting() {
    if [[ "$("$BINDIR/postgres" --describe-config)" == *output_plugin_libraries* ]]; then
        echo "output_plugin_libraries = 'pgoutput, test_decoding, wal2json, pg_scd2'"
    fi
}

server_settings() {
    cat <<SETTINGS
shared_preload_libraries = 'pg_scd2'
wal_level = logical
max_worker_processes = 16
listen_addresses = ''
unix_socket_directories = '$PGHOST'
log_line_prefix = '%m [%p] %b %q%d '
log_checkpoints = off
timezone = 'UTC'
lc_messages = 'C'
SETTINGS
    plugin_setting
}

# start_server NAME [LINE...]: configuration lines come after ours and win.
start_server() {
    local name=$1
    SERVER_DATA=${DATA_DIR:-$BUILD}/data-$name
    SERVER_LOG=$BUILD/logs/server-$name.log
    PGHOST=$(mktemp -d /tmp/scd2.XXXXXX)
    export PGHOST PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
    unset PGOPTIONS PGSERVICE PGTZ PGDATESTYLE
    rm -rf "$SERVER_DATA"
    "$BINDIR/initdb" --pgdata "$SERVER_DATA" --username postgres --auth trust --encoding UTF8 --locale C.UTF-8 --no-sync > "$BUILD/logs/initdb.log"
    server_settings >> "$SERVER_DATA/postgresql.conf"
    if [ $# -gt 1 ]; then printf '%s\n' "${@:2}" >> "$SERVER_DATA/postgresql.conf"; fi
    trap 'stop_server immediate' EXIT
    if ! "$BINDIR/pg_ctl" --pgdata "$SERVER_DATA" --log "$SERVER_LOG" --wait --silent start; then
        tail -20 "$SERVER_LOG" >&2
        exit 1
    fi
}

stop_server() {
    [ -n "$SERVER_DATA" ] || return 0
    if [ -e "$SERVER_DATA/postmaster.pid" ]; then
        "$BINDIR/pg_ctl" --pgdata "$SERVER_DATA" --mode "${1:-fast}" --wait --silent stop || true
    fi
    rm -rf "$SERVER_DATA" "$PGHOST"
    SERVER_DATA=
}
