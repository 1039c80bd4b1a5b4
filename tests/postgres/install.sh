#!/usr/bin/env bash
# Installs the programs of a PostgreSQL server. Tests start their own servers, each with its folder
# and port, stop them, and touch no other server of this machine. A second run does nothing.
#
# If they are missing, the script installs them; this needs Debian or a derivative, and root. If the
# script cannot install them, it prints a prominent message; in CI it fails.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/pins.sh

there() {
  local folder
  for folder in $(IFS=:; echo $PATH) /usr/lib/postgresql/*/bin; do
    if [ -x "$folder/initdb" ] && [ -x "$folder/postgres" ]; then return 0; fi
  done
  return 1
}

there && exit
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "Installing PostgreSQL"
  export DEBIAN_FRONTEND=noninteractive
  # The package would create and start a server itself.
  mkdir -p /etc/postgresql-common
  [ -e /etc/postgresql-common/createcluster.conf ] ||
    echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
  apt-get -q update && apt-get -q install -y --no-install-recommends postgresql || true
fi
mkdir -p target
there || without target/.postgres "PostgreSQL" \
  "It needs initdb and postgres: they are neither on the PATH nor in /usr/lib/postgresql (Debian: apt-get install postgresql)."
