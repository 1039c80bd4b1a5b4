#!/usr/bin/env bash
# Installs the browser and the packages with which a test uses the console: Debian's Chromium, Playwright
# without browsers, and axe. A second run does nothing.
#
# If Chromium is missing, the script installs it; this needs Debian or a derivative, and root. If the
# script cannot install something, it prints a prominent message; in CI it fails.
set -euo pipefail
cd "$(dirname "$0")"
. ../pins.sh

readonly STAMP=node_modules/.installed
readonly NODE_AT_LEAST=20

version=$(node --version 2>/dev/null || true)
major=${version#v}
major=${major%%.*}
if [ "${major:-0}" -lt "$NODE_AT_LEAST" ] || ! command -v npm >/dev/null; then
  without "$STAMP" "the browser for the console" "It needs Node.js $NODE_AT_LEAST or newer, with npm; found ${version:-none}."
  exit
fi
if ! command -v chromium >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "Installing Chromium"
  apt-get -q update && DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
    apt-get -q install -y --no-install-recommends chromium fonts-dejavu-core || true
fi
if ! command -v chromium >/dev/null; then
  without "$STAMP" "the browser for the console" "Chromium is not on the PATH (Debian: apt-get install chromium)."
  exit
fi
print=$(fingerprint "$major" package.json package-lock.json)
if is_current "$STAMP" "$print"; then exit; fi
echo "Installing Playwright and axe into tests/console/node_modules"
npm ci --ignore-scripts --loglevel=error
echo "$print" >"$STAMP"
