#!/usr/bin/env bash
# Installs nginx, which a test puts in front of the hosts of examples/cluster. The test starts it
# with a separate folder and port, stops it, and touches no other server of this machine. A second
# run does nothing.
#
# If it is missing, the script installs it; this needs Debian or a derivative, and root. If the
# script cannot install it, it prints a prominent message; in CI it fails.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/pins.sh

there() {
  command -v nginx >/dev/null || [ -x /usr/sbin/nginx ]
}

# The package would start a server at port 80, now and at the next boot. Packages ask this file
# whether they may. A file that already exists stays unchanged.
install_unstarted() {
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
  fi
  # Nor may needrestart, which looks for outdated libraries, restart other servers.
  DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
    apt-get -q install -y --no-install-recommends nginx || return 0
  if command -v systemctl >/dev/null; then systemctl -q disable nginx || true; fi
}

there && exit
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "Installing nginx"
  apt-get -q update && install_unstarted
fi
mkdir -p target
there || without target/.nginx "nginx" \
  "It is neither on the PATH nor in /usr/sbin (Debian: apt-get install nginx)."
