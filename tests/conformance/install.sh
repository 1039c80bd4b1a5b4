#!/usr/bin/env bash
# Installs the official conformance suites into node_modules/, with the Node.js 22 that they and the
# Inspector need. package-lock.json pins the versions. A second run does nothing.
#
# Without npm, the script skips them with a message; in CI it fails.
set -euo pipefail
cd "$(dirname "$0")"
. ../pins.sh

readonly NODE_AT_LEAST=22
readonly STAMP=node_modules/.installed
readonly SUITES="the conformance suites and the Inspector"

# Selects the package of Node.js for this machine, or the Node.js on the PATH.
provide_node() {
  if [ -x node_modules/.bin/node ]; then return; fi
  local version
  version=$(node --version)
  local major=${version#v}
  if [ "${major%%.*}" -lt "$NODE_AT_LEAST" ]; then
    without "$STAMP" "$SUITES" "They need Node.js $NODE_AT_LEAST or newer; this is $version, and npm has none for this machine."
    exit 0
  fi
  ln -s "$(command -v node)" node_modules/.bin/node
}

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
  without "$STAMP" "$SUITES" "They are installed by npm: node or npm is not on the PATH."
  exit 0
fi
# No installed package is compiled, but the choice of packages depends on the machine.
print=$(fingerprint "$(uname -sm)" package.json package-lock.json install.sh)
if is_current "$STAMP" "$print" && [ -x node_modules/.bin/node ]; then exit 0; fi
echo "Installing the conformance suites into tests/conformance/node_modules"
npm ci --ignore-scripts --loglevel=error
provide_node
echo "$print" >"$STAMP"
