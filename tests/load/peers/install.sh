#!/usr/bin/env bash
# Builds and installs the servers that `make bench` compares with the host: one of the Rust SDK, one of
# the TypeScript SDK into typescript/node_modules/, and one of the Python SDK into python/.venv/. A
# second run does nothing. Without Node.js or Python it skips that server with a message.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../../.."
. tests/pins.sh

readonly NODE_AT_LEAST=20
readonly PYTHON_AT_LEAST=3.11
# Mark complete installations, with the fingerprints of their sources.
readonly TYPESCRIPT=$here/typescript/node_modules/.installed
readonly PYTHON=$here/python/.venv/.installed
readonly CHECK_ROWS=target/peers/check-rows

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

# The sources of the example in TypeScript, as JavaScript for Node.js.
translate_check_rows() {
  local esbuild=target/toolchains/npm/node_modules/.bin/esbuild
  rm -rf "$CHECK_ROWS"
  if [ ! -x "$esbuild" ]; then
    echo "check_rows of the TypeScript SDK is not measured: \`make examples\` has not installed esbuild." >&2
    return
  fi
  "$esbuild" examples/plugins/typescript/src/{check,rules}.ts --bundle --format=esm --outdir="$CHECK_ROWS" \
    --out-extension:.js=.mjs --log-level=warning
}

install_python() {
  cd "$here/python"
  local found print
  # Fails without venv and ensurepip, which Debian packages separately.
  found=$(python3 -c "
import ensurepip, sys, venv
assert sys.version_info >= tuple(map(int, '$PYTHON_AT_LEAST'.split('.')))
print(sys.version, sys.base_prefix)
" 2>/dev/null || true)
  if [ -z "$found" ]; then
    rm -f "$PYTHON"
    echo "The server of the Python SDK is not measured: it needs Python $PYTHON_AT_LEAST or newer, with venv and ensurepip." >&2
    return
  fi
  print=$(fingerprint "$found" requirements.txt)
  if is_current "$PYTHON" "$print" && [ -x .venv/bin/python ]; then return; fi
  echo "Installing the server of the Python SDK into tests/load/peers/python/.venv"
  rm -rf .venv
  python3 -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.txt
  echo "$print" >"$PYTHON"
}

# In subshells, so that each starts in the root folder.
(install_typescript)
(translate_check_rows)
(install_python)
