#!/usr/bin/env bash
# Fetches the packages that `packages` lists, with the clients of their registries, and puts the
# components in them into target/published. A second run does nothing.
#
# If the script cannot fetch a package, it prints a prominent message and skips the package; in CI
# it fails. A file that differs from the listed one is always an error.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../pins.sh"
out=$(cd "$here/../.." && pwd)/target/published
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sum() { # FILE
  checksum <"$1" | cut -d ' ' -f 1
}

# Each prints the folder with the package's files.

fetch_cargo() { # PACKAGE, VERSION
  # Outside of any workspace, so that cargo looks at the registry and not at our own crates.
  (cd "$work" && cargo info --quiet "$1@$2" >/dev/null 2>"$work/error") || return 1
  local folder
  for folder in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$1-$2"; do
    [ -d "$folder" ] && echo "$folder" && return
  done
  echo "cargo left no folder $1-$2" >"$work/error"
  return 1
}

fetch_pip() { # PACKAGE, VERSION
  local folder=$work/$1-$2
  if [ ! -d "$folder" ]; then
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
      --dest "$folder.wheel" "$1==$2" >"$work/error" 2>&1 || return 1
    python3 -m zipfile -e "$folder.wheel"/*.whl "$folder" 2>"$work/error" || return 1
  fi
  echo "$folder"
}

while read -r name client package version file expected; do
  case $name in '' | '#'*) continue ;; esac
  component=$out/$name.wasm
  if [ -f "$component" ] && [ "$(sum "$component")" = "$expected" ]; then continue; fi
  if ! folder=$("fetch_$client" "$package" "$version" </dev/null); then
    without "$component" "the published component $name of $package $version" "$(head -n 3 "$work/error")"
    continue
  fi
  found=$(sum "$folder/$file")
  if [ "$found" != "$expected" ]; then
    echo "install.sh: $file of $package $version has the SHA-256 $found, not $expected" >&2
    exit 1
  fi
  cp "$folder/$file" "$component.$$.tmp"
  mv "$component.$$.tmp" "$component"
done <"$here/packages"
