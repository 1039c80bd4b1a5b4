#!/usr/bin/env bash
# Checks the dependencies against deny.toml: licences, bans and sources always, advisories if their
# database can be fetched. Installs cargo-deny into target/tools, at this version.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly VERSION=0.20.2
readonly TOOLS=$PWD/target/tools
readonly CARGO=${CARGO:-cargo}
readonly DENY=$TOOLS/bin/cargo-deny

if ! "$DENY" --version 2>/dev/null | grep -qF " $VERSION"; then
  env -u CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS "$CARGO" install --locked --quiet --root "$TOOLS" --target-dir target/tools/build \
    --version "$VERSION" cargo-deny
fi

for manifest in Cargo.toml plugins/Cargo.toml; do
  echo "$manifest: licences, bans, sources"
  "$DENY" --manifest-path "$manifest" --config deny.toml check licenses bans sources
done

if "$DENY" --config deny.toml fetch >/dev/null 2>&1; then
  for manifest in Cargo.toml plugins/Cargo.toml; do
    echo "$manifest: advisories"
    "$DENY" --manifest-path "$manifest" --config deny.toml check advisories
  done
else
  echo "the database of advisories cannot be reached: advisories were NOT checked" >&2
fi
