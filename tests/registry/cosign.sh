#!/usr/bin/env bash
# Fetches two releases of cosign for tests/fixtures/signed/make.sh: 2.5 of Debian trixie and 3.1 of sid. They are
# unpacked in target/registry/cosign-{2,3}; nothing is installed. A second run does nothing.
#
# This needs Debian or a derivative, and no root. If the script cannot fetch them, it prints a prominent message; in
# CI it fails.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/pins.sh
. tests/debian.sh

readonly OUT=$PWD/target/registry STAMP=$PWD/target/registry/.cosign
# Major version, and the suite that has it.
readonly RELEASES=(2:trixie 3:sid)

runs() { # FOLDER
  "$1/usr/bin/cosign" version >/dev/null 2>&1
}

fetch() { # MAJOR, SUITE
  local folder=$OUT/cosign-$1 stage=$OUT/stage.$$
  rm -rf "$stage" "$folder"
  mkdir -p "$stage"
  (
    set -e
    write_apt_settings "$stage" "$MIRROR" "$2"
    export APT_CONFIG=$stage/apt/apt.conf
    cd "$stage"
    apt-get -q update
    apt-get -q download cosign
    dpkg-deb -x cosign_*.deb unpacked
  ) >"$OUT/cosign-$1.log" 2>&1 </dev/null || { rm -rf "$stage"; return 1; }
  mv "$stage/unpacked" "$folder"
  rm -rf "$stage"
  runs "$folder"
}

mkdir -p "$OUT"
current=$(fingerprint "${RELEASES[*]}" "$0" tests/debian.sh)
is_current "$STAMP" "$current" && exit
MIRROR=
if is_debian && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then MIRROR=$(debian_mirror); fi
for release in "${RELEASES[@]}"; do
  if [ -z "$MIRROR" ]; then
    without "$STAMP" "cosign" "Its packages are Debian's, and this system is not Debian."
    exit 0
  fi
  echo "Fetching cosign ${release%%:*} of Debian ${release#*:}"
  if ! fetch "${release%%:*}" "${release#*:}"; then
    without "$STAMP" "cosign ${release%%:*}" "It could not be fetched: see target/registry/cosign-${release%%:*}.log."
    exit 0
  fi
done
echo "$current" >"$STAMP"
