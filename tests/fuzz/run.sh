#!/usr/bin/env bash
# Fuzzes the readers of bytes from outside, each target (tests/readers/src/targets.rs) for FUZZ_SECONDS (12):
#
#     tests/fuzz/run.sh             all targets
#     tests/fuzz/run.sh decode      one
#
# Uses libFuzzer with the stable toolchain: the flags below provide the coverage of the code and the
# values of its comparisons. Corpora grow in target/fuzz/corpus; the seeds in tests/fuzz/corpus do
# not change. Without a C++ compiler for libFuzzer itself, the script prints a message and skips
# fuzzing; in CI it fails.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly SECONDS_EACH=${FUZZ_SECONDS:-12}
readonly JOBS=${FUZZ_JOBS:-$(getconf _NPROCESSORS_ONLN)}
readonly CARGO=${CARGO:-cargo}
readonly OUT=$PWD/target/fuzz
readonly INSTRUMENTED=(
  -Cpasses=sancov-module
  -Cllvm-args=-sanitizer-coverage-level=4
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
  -Cllvm-args=-sanitizer-coverage-pc-table
  -Cllvm-args=-sanitizer-coverage-trace-compares
  # Calls for each edge, which `src/main.rs` counts.
  -Cllvm-args=-sanitizer-coverage-trace-pc-guard
)

require_compiler() {
  local compiler
  for compiler in "${CXX:-c++}" g++ clang++; do
    # CXX may contain arguments, or a wrapper before the compiler.
    if command -v "${compiler%% *}" >/dev/null; then return; fi
  done
  {
    echo "************************************************************************"
    echo "SKIPPED: fuzzing"
    echo "  It needs a C++ compiler: none of \$CXX, c++, g++ and clang++ is there."
    echo "************************************************************************"
  } >&2
  if [ "${CI:-}" = true ]; then
    echo "run.sh: CI=true, so this is an error" >&2
    exit 1
  fi
  exit 0
}

build() {
  # With an explicit target, build scripts and macros are not instrumented: they run in the
  # compiler, which lacks the runtime for it. Not --locked: the dependencies of the host's crates
  # change with them, and Cargo.lock here follows.
  env -u CARGO_ENCODED_RUSTFLAGS RUSTFLAGS="${INSTRUMENTED[*]}" \
    "$CARGO" build --release --manifest-path tests/fuzz/Cargo.toml \
    --target "$TRIPLE" --target-dir "$OUT"
}

fuzz() { # TARGET
  local target=$1
  local corpus=$OUT/corpus/$target log=$OUT/$target.log
  mkdir -p "$corpus" "$OUT/crashes" "$OUT/costliest"
  cp tests/fuzz/corpus/"$target"/* "$corpus"/
  echo "Fuzzing $target for $SECONDS_EACH s"
  local status=0
  FUZZ_TARGET=$target "$BINARY" "$corpus" \
    -dict="tests/fuzz/dictionaries/$target.txt" \
    -artifact_prefix="$OUT/crashes/$target-" \
    -max_total_time="$SECONDS_EACH" -max_len=4096 -timeout=10 -rss_limit_mb=2048 \
    -seed="${NIGHTLY:-0}" -print_final_stats=1 >"$log" 2>&1 || status=$?
  if [ "$status" -ne 0 ]; then
    tail -n 60 "$log" >&2
    local artifact
    artifact=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
    {
      echo
      echo "$target failed with status $status; the whole log is $log"
      if [ -n "$artifact" ]; then
        echo "Once more, with this input:  FUZZ_TARGET=$target $BINARY $artifact"
        echo "As small as it can be:       FUZZ_TARGET=$target $BINARY -minimize_crash=1 -runs=100000 $artifact"
      fi
    } >&2
    exit 1
  fi
  report "$target" "$log"
}

report() { # TARGET, LOG
  local target=$1 log=$2
  local executions seeds last
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  seeds=$(coverage INITED "$log")
  last=$(coverage DONE "$log")
  # Without feedback, it would keep running and find nothing.
  if [ "${last:-0}" -eq 0 ]; then
    tail -n 20 "$log" >&2
    echo "$target: no coverage was measured; the instrumentation does not work" >&2
    exit 1
  fi
  echo "  $target: $executions executions, coverage $seeds at first, $last at last," \
    "$(inputs "$OUT/corpus/$target") inputs kept$(costliest "$target")"
}

# Prints the share of its target's budget that the costliest input of the corpus uses, if the target has one. An input above the budget has failed before. The input is kept.
costliest() { # TARGET
  local cost
  cost=$(FUZZ_TARGET=$1 COSTLIEST=$OUT/costliest/$1 "$BINARY" -runs=0 "$OUT/corpus/$1" 2>&1 |
    sed -n 's/^COSTLIEST //p' | tail -n 1)
  [ -z "$cost" ] || echo "; the costliest: $cost"
}

coverage() { # EVENT, LOG
  sed -n "s/^#[0-9]*[[:space:]]*$1 *cov: \([0-9]*\) .*/\1/p" "$2"
}

inputs() { # FOLDER
  find "$1" -type f | wc -l | tr -d ' '
}

require_compiler
TRIPLE=$(rustc -vV | sed -n 's/^host: //p')
readonly TRIPLE BINARY=$OUT/$TRIPLE/release/toolyard-fuzz
# A test of tests/readers compares the folders with the targets.
[ $# -gt 0 ] || set -- $(ls tests/fuzz/corpus)
for target; do
  if [ ! -d "tests/fuzz/corpus/$target" ]; then
    echo "run.sh: $target is not a target; the targets are:" $(ls tests/fuzz/corpus) >&2
    exit 2
  fi
done
build
# One target per processor runs at a time. A passing target leaves a file, because bash forgets the
# status of a job that `wait -n` has reported.
rm -rf "$OUT/passed"
mkdir -p "$OUT/passed"
for target; do
  while [ "$(jobs -rp | wc -l)" -ge "$JOBS" ]; do wait -n || true; done
  (
    fuzz "$target"
    : >"$OUT/passed/$target"
  ) &
done
wait
passed=$(inputs "$OUT/passed")
echo "$passed passed, $(($# - passed)) failed"
[ "$passed" -eq $# ]
