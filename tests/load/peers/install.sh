#!/usr/bin/env bash
# Builds and installs the servers that `make bench` compares with the host: one of the Rust SDK, and one
# of the TypeScript SDK into typescript/node_modules/. A second run does nothing. Without Node.js it skips
# that server with a message.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../../.."
. tests/pins.sh

readonly NODE_AT_LEAST=20
# Marks a complete installation, with the fingerprint of its sources.
readonly TYPESCRIPT=$here/typescript/node_modules/.installed

# Without this host's profile, as its own users build it.
env -u CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS "${CARGO:-cargo}" build --release --locked --manifest-path "$here/rmcp/Cargo.toml" --target-dir target/peers

install_typescript() {
  cd "$here/typescript"
  local version major print
  version=$(node --version 2>/dev/null || true)
  major=${version#v}
  major=${major%%.*}
  if [ "${major:-0}" -lt "$NODE_AT_LEAST" ] || ! command -v npm >/dev/null; then
    rm -f "$TYPESCRIPT"
    echo "The server of the TypeScript SDK is not measured: it needs Node.js $NODE_AT_LEAST or newer, with npm; found ${version:-none}." >&2
    return
  fi
  # The major version is enough, because no installed package is compiled.
  print=$(fingerprint "$major" package.json package-lock.json)
  if is_current "$TYPESCRIPT" "$print"; then return; fi
  echo "Installing the server of the TypeScript SDK into tests/load/peers/typescript/node_modules"
  npm ci --ignore-scripts --loglevel=error
  echo "$print" >"$TYPESCRIPT"
}

install_typescript
