#!/usr/bin/env bash
# Fetches the programs that check the files of examples/deployments: Debian's caddy, prometheus, promtool and
# docker-compose, and a Python environment with the schemas of Kubernetes. Everything is in target/deployments:
# nothing is installed, and no service is started. A second run does nothing.
#
# This needs Debian or a derivative, Python, and no root. If the script cannot fetch them, it prints a prominent
# message; in CI it fails. nginx comes from tests/nginx/install.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/pins.sh
. tests/debian.sh

readonly OUT=$PWD/target/deployments
readonly STAMP=$OUT/.installed
readonly LOG=$PWD/target/deployments.log
# A suite keeps one version of each package, so the suite is the pin. These programs run on older ones too.
readonly SUITE=trixie

get() { # STAGE
  local stage=$1 mirror
  mirror=$(debian_mirror)
  [ -n "$mirror" ] || return 1
  write_apt_settings "$stage" "$mirror" "$SUITE"
  APT_CONFIG=$stage/apt/apt.conf apt-get -q update
  unpack_debian "$stage" caddy prometheus promtool docker-compose
  mkdir "$stage/bin"
  mv "$stage"/unpacked/usr/bin/{caddy,prometheus,promtool} "$stage/unpacked/usr/libexec/docker/cli-plugins/docker-compose" \
    "$stage/bin"
  "$stage/bin/caddy" version
  "$stage/bin/promtool" --version
  # Not in the stage: an environment names its own folder.
  rm -rf "$OUT"
  mkdir -p "$OUT"
  python3 -m venv "$OUT/python"
  "$OUT/python/bin/pip" --quiet --disable-pip-version-check install -r tests/deployments/requirements.txt
  mv "$stage/bin" "$OUT/bin"
}

PINS=$(fingerprint "$SUITE $(python3 --version 2>&1)" tests/deployments/install.sh tests/deployments/requirements.txt tests/debian.sh)
readonly PINS
is_current "$STAMP" "$PINS" && exit
mkdir -p target
if is_debian; then
  echo "deployments: getting caddy, prometheus, docker-compose and the schemas of Kubernetes (about 65 MB) ..."
  rm -rf "$PWD"/target/deployments.stage.*
  stage=$PWD/target/deployments.stage.$$
  trap 'rm -rf "$stage"' EXIT
  mkdir -p "$stage"
  # bash ignores `set -e` inside any command whose status is tested, so the status is tested afterwards.
  set +e
  (
    set -e
    get "$stage"
  ) >"$LOG" 2>&1 </dev/null
  status=$?
  set -e
  if [ "$status" = 0 ]; then
    echo "$PINS" >"$STAMP"
  else
    tail -n 12 "$LOG" | sed 's/^/deployments: | /' >&2
  fi
fi
is_current "$STAMP" "$PINS" ||
  without "$STAMP" "the programs of tests/deployments" \
    "This system is not Debian, or a package could not be fetched (target/deployments.log)."
