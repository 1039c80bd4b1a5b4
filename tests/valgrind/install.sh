#!/usr/bin/env bash
# Installs valgrind, with which tests/load/tests/budget.rs counts instructions. A second run does
# nothing.
#
# If it is missing, the script installs it; this needs Debian or a derivative, and root. If the
# script cannot install it, it prints a prominent message; in CI it fails.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/pins.sh

there() {
  command -v valgrind >/dev/null
}

there && exit
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "Installing valgrind"
  apt-get -q update && DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
    apt-get -q install -y --no-install-recommends valgrind libc6-dbg || true
fi
mkdir -p target
there || without target/.valgrind "valgrind" "It is not on the PATH (Debian: apt-get install valgrind)."
