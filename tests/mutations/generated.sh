#!/usr/bin/env bash
# Has cargo-mutants break toolyard-task everywhere, and toolyard-dispatch in the lines that changed since BASE
# (default: the commit before this one). The tests of these two crates must fail for each mutant. Rules that
# span crates have patches of their own (run.sh).
#
#     tests/mutations/generated.sh [BASE]
#
# Each of some 300 mutants costs a build and the tests. Reports are in target/mutants/generated.
# `mutants.toml` lists mutants whose changes no caller can notice, each with the reason.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly VERSION=27.1.0 CARGO=${CARGO:-cargo} BASE=${1:-HEAD~1}
readonly TOOL=$PWD/target/tools/bin/cargo-mutants OUT=$PWD/target/mutants/generated

if [ "$("$TOOL" mutants --version 2>/dev/null)" != "cargo-mutants $VERSION" ]; then
  "$CARGO" install --locked --version "$VERSION" --root target/tools cargo-mutants
fi

mutate() { # NAME, ARGUMENTS
  echo "Mutating $1"
  mkdir -p "$OUT/$1"
  # In seconds. By default, the tool derives its time limit from the tests of the mutated crate
  # alone.
  "$TOOL" mutants --config tests/mutations/mutants.toml --timeout 300 --output "$OUT/$1" "${@:2}"
}

rm -rf "$OUT"
mkdir -p "$OUT"
git diff "$BASE" -- host/crates/dispatch/src >"$OUT/dispatch.diff"
# The crate's own tests take seconds and catch most mutants; the tests of dispatch run for the rest.
mutate task --package toolyard-task --test-package toolyard-task || true
mutate task --iterate --package toolyard-task --test-package toolyard-task,toolyard-dispatch
if [ -s "$OUT/dispatch.diff" ]; then
  mutate dispatch --package toolyard-dispatch --test-package toolyard-dispatch --in-diff "$OUT/dispatch.diff"
fi
