#!/usr/bin/env bash
# Installs valgrind, with which tests/load/tests/budget.rs counts instructions. A second run does
# nothing.
#
# Where it is missing it is installed, on Debian and its relatives, by root. A person's
# machine goes on without it, with a loud message; in CI that is an error.
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
