#!/usr/bin/env bash
# Unpacks the registry that tests start, Debian's docker-registry. `install.sh clients` also unpacks the clients
# that the tests of host/crates/registry compare ours with: skopeo, oras and cosign. Everything is in
# target/registry: nothing is installed, and no service is started. A second run does nothing.
#
# This needs Debian or a derivative, and no root. If the script cannot get the registry, it prints a
# prominent message; in CI it fails. The clients may be missing: their tests say so.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/pins.sh
. tests/debian.sh

readonly OUT=$PWD/target/registry
readonly WHAT=${1:-server}
readonly STAMP=$OUT/.installed-$WHAT
readonly LOG=$PWD/target/registry.log

# oras and cosign 3 are in no stable release; their programs run on older ones.
readonly NEWER=sid

say() { printf 'registry: %s\n' "$*"; }

# The first dependency of a package that begins with a name: `libgpgme11` is `libgpgme11t64` elsewhere.
dependency() { # STAGE, PACKAGE, PREFIX
  APT_CONFIG=$1/apt/apt.conf apt-cache depends "$2" | sed -n "s/^ *Depends: \($3[^ :]*\).*/\1/p" | head -n 1
}

# A program of the stage, with the libraries that came with it.
install_program() { # STAGE, NAME
  local library
  library=$(cd "$1/unpacked" && find usr/lib -name '*.so.*' -printf '%h\n' 2>/dev/null | sort -u | head -n 1) || true
  printf '#!/bin/sh\nhere=$(dirname "$0")/..\nLD_LIBRARY_PATH=$here/%s exec "$here/usr/bin/%s" "$@"\n' \
    "${library:-usr/lib}" "$2" >"$1/unpacked/bin/$2"
  chmod 755 "$1/unpacked/bin/$2"
}

get() { # STAGE
  local stage=$1 release mirror gpgme assuan
  release=$(debian_release)
  mirror=$(debian_mirror)
  [ -n "$mirror" ] || return 1
  write_apt_settings "$stage" "$mirror" "$release"
  APT_CONFIG=$stage/apt/apt.conf apt-get -q update
  mkdir -p "$stage/unpacked/bin"
  unpack_debian "$stage" docker-registry
  install_program "$stage" docker-registry
  "$stage/unpacked/bin/docker-registry" --version
  [ "$WHAT" = clients ] || return 0
  gpgme=$(dependency "$stage" skopeo libgpgme)
  assuan=$(dependency "$stage" "${gpgme:-libgpgme11}" libassuan)
  if unpack_debian "$stage" skopeo ${gpgme:+"$gpgme"} ${assuan:+"$assuan"}; then
    install_program "$stage" skopeo
  fi
  write_apt_settings "$stage/newer" "$mirror" "$NEWER"
  APT_CONFIG=$stage/newer/apt/apt.conf apt-get -q update
  if unpack_debian "$stage/newer" oras cosign; then
    cp "$stage"/newer/unpacked/usr/bin/{oras,cosign} "$stage/unpacked/bin"
  fi
}

PINS=$(fingerprint 2 tests/registry/install.sh tests/debian.sh)
readonly PINS
is_current "$STAMP" "$PINS" && exit
mkdir -p target
if is_debian; then
  case $WHAT in
    clients) say "getting docker-registry, skopeo, oras and cosign from Debian (about 80 MB) ..." ;;
    *) say "getting docker-registry from Debian ..." ;;
  esac
  rm -rf "$PWD"/target/registry.stage.*
  stage=$PWD/target/registry.stage.$$
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
    # cosign.sh has its programs there too.
    mkdir -p "$OUT"
    rm -rf "$OUT"/{bin,etc,lib,usr,var}
    mv "$stage"/unpacked/* "$OUT"
    echo "$PINS" >"$OUT/.installed-server"
    echo "$PINS" >"$STAMP"
  else
    tail -n 12 "$LOG" | sed 's/^/registry: | /' >&2
  fi
fi
is_current "$STAMP" "$PINS" ||
  without "$STAMP" "docker-registry" "This system is not Debian, or its mirror does not answer (target/registry.log)."
