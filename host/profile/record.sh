#!/usr/bin/env bash
# `make profile`: records host/profile/calls.profdata again, the profile that every build by make uses, and
# calls-musl.profdata, which the packaged static program uses. `record.sh musl` records only the latter.
# An instrumented host serves the load generator's calls, of both generations and all shapes, tasks,
# and stdio, and the calls once more with a console; its counts are merged. Each takes a quarter of an hour on two cores, mostly for the build.
#
# It needs llvm-profdata of the LLVM that rustc was built with: `rustup component add llvm-tools`
# installs it; LLVM_PROFDATA names another. On Debian llvm.sh unpacks one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cargo=${CARGO:-cargo}
rustc=${RUSTC:-rustc}
work=$PWD/target/profiling

about=$("$rustc" -vV)
host=$(sed -n 's/^host: //p' <<<"$about")
llvm=$(sed -n 's/^LLVM version: \([0-9]*\).*/\1/p' <<<"$about")

# The rustc that can use the profiles; flags.sh reads this.
recorder=$(sed -n '/^commit-hash: /p; /^host: /p' <<<"$about")
if [ "${1:-}" = musl ] && [ "$recorder" != "$(cat host/profile/calls.rustc)" ]; then
  echo "record.sh: calls.profdata is of another rustc; record both, by \`make profile\`" >&2
  exit 1
fi

find_profdata() {
  local known
  for known in "${LLVM_PROFDATA:-}" "$("$rustc" --print sysroot)/lib/rustlib/$host/bin/llvm-profdata" \
    "llvm-profdata-$llvm"; do
    if [ -n "$known" ] && command -v "$known" >/dev/null; then
      echo "$known"
      return
    fi
  done
  if ./host/profile/llvm.sh "$llvm"; then return; fi
  echo "record.sh: there is no llvm-profdata of LLVM $llvm, rustc's own: \`rustup component add llvm-tools\`," >&2
  echo "  or name one in LLVM_PROFDATA" >&2
  return 1
}
profdata=$(find_profdata)

# The load generator measures their calls beside ours.
./tests/load/peers/install.sh

# With the features of all members, like every build: they are part of the names by which the profile
# identifies functions.
build() { # TOOLYARD_PROFILE, ARGUMENTS OF CARGO
  local flags
  flags=$(TOOLYARD_PROFILE=$1 host/profile/flags.sh)
  CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS=$flags "$cargo" build --release --locked --workspace "${@:2}"
}

record() { # PROFILE, PROGRAM
  rm -rf "$work/counts" "$work/children" "$work/bench"
  mkdir -p "$work/counts"
  TOOLYARD_BIN=$2 LLVM_PROFILE_FILE=$work/counts/%p-%m.profraw \
    target/release/toolyard-load run --brief --only calls,shapes,tasks,stdio --out "$work/bench"
  TOOLYARD_BIN=$2 TOOLYARD_CONSOLE_LISTEN=127.0.0.1:0 LLVM_PROFILE_FILE=$work/counts/%p-%m.profraw \
    target/release/toolyard-load run --brief --only calls --out "$work/bench"
  # Sparse: without the functions that were never called.
  "$profdata" merge --sparse -o "host/profile/$1.profdata" "$work"/counts/*.profraw
  ls -l "host/profile/$1.profdata"
}

# It drives the instrumented hosts.
build use
if [ "${1:-}" != musl ]; then
  build record --bin toolyard --target-dir "$work"
  record calls "$work/release/toolyard"
fi
. host/packaging/musl.sh
CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS="$(TOOLYARD_PROFILE=record host/profile/flags.sh) $MUSL_FLAGS" \
  "$cargo" build --profile dist --locked --workspace --bin toolyard --target $MUSL_TARGET --target-dir "$work"
record calls-musl "$work/$MUSL_TARGET/dist/toolyard"

echo "$recorder" >host/profile/calls.rustc
echo "record.sh: the next build compiles everything again, with these profiles"
