#!/usr/bin/env bash
# `make bench`: the benchmarks of the stores, and the load generator for the whole host. The report
# goes to target/bench/. BENCH_FULL=1 measures longer. TOOLYARD_BIN selects another host than the
# one of this build. Further arguments go to the load generator (`--only calls,tasks`).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
cargo=${CARGO:-cargo}
# With the same flags as the Makefile.
CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS=$(host/profile/flags.sh)
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS
out=target/bench
mkdir -p "$out"

# A killed run leaves its folder behind.
rm -rf "$out"/run-*

options=(--out "$out")
if [[ ${BENCH_FULL:-} == 1 ]]; then
    options+=(--full)
fi

# With the features that all targets share, as for the tests, so that nothing is compiled twice.
"$cargo" build --release --locked --workspace
CARGO=$cargo ./tests/load/peers/install.sh

benches=()
for source in host/crates/*/benches/*.rs; do
    benches+=(--bench "$(basename "$source" .rs)")
done

if [[ " $* " != *" --only "* ]]; then
    # Built first, so that the time limit does not include compiling.
    "$cargo" bench --locked --workspace --no-run "${benches[@]}"
    echo "… the stores (the output: $out/stores.log)"
    "$cargo" bench --locked --workspace "${benches[@]}" >"$out/stores.log" 2>&1 || {
        tail -n 40 "$out/stores.log" >&2
        exit 1
    }
    printf '\n## Store: durable transitions by SQLite\n\n'
    grep -A 10 'fdatasync: .* a second' "$out/stores.log" || true
    for database in SQLite PostgreSQL; do
        printf '\n## Store: pages of tasks in %s\n\n' "$database"
        sed -n "/^| .* tasks in $database | p50/,/^[^|]/{/^|/p}" "$out/stores.log"
    done
    echo
fi

# In its own process group, so that its child processes end with it even if it is killed.
set -m
target/release/toolyard-load run "${options[@]}" "$@" &
load=$!
clean_up() {
    kill -- "-$load" 2>/dev/null || true
    # Removed only when no process writes there any more.
    for _ in {1..50}; do
        kill -0 -- "-$load" 2>/dev/null || break
        sleep 0.1
    done
    kill -9 -- "-$load" 2>/dev/null || true
    rm -rf "$out"/run-*
}
trap clean_up EXIT
trap 'exit 130' INT TERM
wait "$load"
