#!/usr/bin/env bash
# Draws tests at random, but always the same ones: of all tests whose name cites an item of the
# checklist (see tests/checklist.rs), the first 20 by the SHA-256 of the seed and their name. So the
# draw needs no particular random number generator, and an added test moves others by at most one
# place.
#
#     tests/mutations/draw.sh           the drawn ones: file, line and name
#     tests/mutations/draw.sh --all     all candidates
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly SEED=2025-11-25 COUNT=20

# `A` is left out, as in tests/checklist.rs.
readonly SECTIONS='j|l|s|h|tl|t|ir|q|p|c|g|n|e|m|f|r|pr|co|x'

all() {
  # Each is marked as a test, except for the contract of the stores, where a macro makes the tests.
  git grep -nE "^ *(pub )?(async )?fn ($SECTIONS)_[0-9]+_[a-z0-9_]+\(" -- tests/it host |
    sed -E 's/^([^:]+):([0-9]+):.*fn ([a-z0-9_]+)\(.*$/\1:\2 \3/' | LC_ALL=C sort -k 2
}

sha256() {
  if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi
}

if [ "${1:-}" = --all ]; then
  all
  exit
fi
while read -r where name; do
  hash=$(printf '%s %s' "$SEED" "$name" | sha256)
  printf '%s %s %s\n' "${hash%% *}" "$where" "$name"
done < <(all) | LC_ALL=C sort | head -n "$COUNT" | cut -d ' ' -f 2-
