#!/usr/bin/env bash
# `make dist`: the binary as it is given out, target/dist/toolyard: as `make build` makes it, and
# optimised across all crates. It takes a quarter of an hour on two cores; it is for running,
# while `make build` is for working on it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if ! "${RUSTC:-rustc}" -vV | grep -qxFf <(head -1 host/profile/calls.rustc); then
  echo "build.sh: host/profile/calls.profdata was recorded by another rustc, and is of no use here;" >&2
  echo "  \`make profile\` records one by yours. This build is optimised without it." >&2
fi
# In a folder of its own: Cargo does not know that this is compiled otherwise.
TOOLYARD_PROFILE=dist "${CARGO:-cargo}" build --release --locked --workspace --bin toolyard --target-dir target/across
mkdir -p target/dist
# A host that runs keeps the file that it was started from.
install target/across/release/toolyard target/dist/toolyard
echo "target/dist/toolyard"
