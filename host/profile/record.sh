#!/usr/bin/env bash
# `make profile`: writes host/profile/calls.profdata anew, which every build optimises by. An
# instrumented host serves the load generator's calls, of both generations and all shapes, tasks,
# and stdio; what it counted is merged. A quarter of an hour on two cores, most of it for the build.
#
# It needs llvm-profdata of the LLVM that rustc was built with: `rustup component add llvm-tools`
# brings it; LLVM_PROFDATA names another.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cargo=${CARGO:-cargo}
rustc=${RUSTC:-rustc}
profile=host/profile/calls.profdata
work=$PWD/target/profiling

about=$("$rustc" -vV)
host=$(sed -n 's/^host: //p' <<<"$about")
llvm=$(sed -n 's/^LLVM version: \([0-9]*\).*/\1/p' <<<"$about")

find_profdata() {
  local known
  for known in "${LLVM_PROFDATA:-}" "$("$rustc" --print sysroot)/lib/rustlib/$host/bin/llvm-profdata" \
    "llvm-profdata-$llvm"; do
    if [ -n "$known" ] && command -v "$known" >/dev/null; then
      echo "$known"
      return
    fi
  done
  echo "record.sh: there is no llvm-profdata of LLVM $llvm, rustc's own: \`rustup component add llvm-tools\`," >&2
  echo "  or name one in LLVM_PROFDATA" >&2
  return 1
}
profdata=$(find_profdata)

# Their calls are measured beside ours.
./tests/load/peers/install.sh

# With the features of all members, as everything is built: functions are found again by names
# that those go into.
TOOLYARD_PROFILE=record "$cargo" build --release --locked --workspace --bin toolyard --target-dir "$work"
"$cargo" build --release --locked --workspace

rm -rf "$work/counts" "$work/children" "$work/bench"
mkdir -p "$work/counts"
TOOLYARD_BIN=$work/release/toolyard LLVM_PROFILE_FILE=$work/counts/%p-%m.profraw \
  target/release/toolyard-load run --brief --only calls,shapes,tasks,stdio --out "$work/bench"

# Sparse: without the functions that were never called.
"$profdata" merge --sparse -o "$profile" "$work"/counts/*.profraw
# By which it can be used; rustc.sh reads it.
sed -n '/^commit-hash: /p; /^host: /p' <<<"$about" >host/profile/calls.rustc
ls -l "$profile"
# Cargo does not know of the profile.
echo "record.sh: what is compiled in target/ was so by the profile before; rm -r target/release starts anew"
