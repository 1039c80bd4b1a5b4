#!/usr/bin/env bash
# `make dist`: the binary as it is given out, target/dist/toolyard. Optimised across all crates,
# and by what record.sh saw to be hot. It takes a quarter of an hour on two cores; it is for
# running, while `make build` is for working on it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

about=$("${RUSTC:-rustc}" -vV | sed -n '/^release: /p; /^commit-hash: /p; /^host: /p')
host=${about##*host: }
host=${host%%$'\n'*}
flags=
if [ "$about" = "$(cat host/profile/calls.rustc)" ]; then
  # A profile tells rustc where to optimise for speed and what to keep apart; it changes nothing
  # of what the program does. Of functions that have changed since, it says nothing; that is no
  # cause for a warning each.
  flags="-Cprofile-use=$PWD/host/profile/calls.profdata -Cllvm-args=-no-pgo-warn-mismatch"
else
  echo "build.sh: host/profile/calls.profdata was recorded by another rustc, or for another machine, and is of" >&2
  echo "  no use here; \`make profile\` records one by yours. This build is optimised without it." >&2
fi
# --target, as the profile was recorded (see record.sh).
RUSTFLAGS="${RUSTFLAGS:-} $flags" "${CARGO:-cargo}" build --profile dist --locked -p toolyard --target "$host"
mkdir -p target/dist
# A host that runs keeps the file that it was started from.
install "target/$host/dist/toolyard" target/dist/toolyard
echo "target/dist/toolyard"
