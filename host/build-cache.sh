#!/usr/bin/env bash
# Lets clones of this repository share what is compiled from the registry, which is most of a first build:
#
#   host/build-cache.sh restore    before a build: fills target/release, if it does not exist
#   host/build-cache.sh store      after a build: keeps target/release without this repository's crates
#
# Both copy by hard links. Cargo's own `build.build-dir` cannot be shared by clones: Cargo takes a crate that another
# clone has compiled for its own if its files have not changed since. Off in CI, with TOOLYARD_CACHE=off, and where
# links are not possible. There is one copy, which the next settings of the build replace.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${TOOLYARD_CACHE:-}${CI:-} in off* | true*) exit ;; esac

readonly CACHE=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/toolyard/build
readonly MAX_KIB=$((20 << 20))
# A change of these selects other dependencies, or other names for them.
settings=$({
  "${RUSTC:-rustc}" -vV
  cat Cargo.lock
  sed -n '/^\[profile/,$p' Cargo.toml
  echo "${CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS:-} ${RUSTFLAGS:-}"
} | cksum)

case $1 in
  restore)
    if [ ! -e target/release ] && [ "$(cat "$CACHE/settings" 2>/dev/null)" = "$settings" ]; then
      mkdir -p target
      cp -al "$CACHE/release" "target/release.$$" 2>/dev/null && mv "target/release.$$" target/release ||
        rm -rf "target/release.$$"
    fi
    ;;
  store)
    [ "$(cat "$CACHE/settings" 2>/dev/null)" != "$settings" ] || exit 0
    [ "$(du -sk target/release | cut -f 1)" -le "$MAX_KIB" ] || exit 0
    new=$CACHE.$$
    trap 'rm -rf "$new"' EXIT
    mkdir -p "$new" && cp -al target/release "$new/" 2>/dev/null || exit 0
    members=$("${CARGO:-cargo}" metadata --no-deps --format-version 1 | grep -o '"name":"toolyard[a-z-]*","version"' | cut -d '"' -f 4)
    CARGO_TARGET_DIR=$new "${CARGO:-cargo}" clean --quiet --release $(printf -- '-p %s ' $members)
    echo "$settings" >"$new/settings"
    rm -rf "$CACHE"
    mv "$new" "$CACHE"
    ;;
esac
