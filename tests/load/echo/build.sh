#!/usr/bin/env bash
# Builds the tool `echo` in each language: a project that `toolyard new` writes into target/echo/, with
# the source of this folder. Uses the tools that `make examples` has installed, and skips a language
# whose example it could not build. A second run without changes builds nothing.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
out=$root/target/echo
tools=$root/target/toolchains
toolyard=$root/target/release/toolyard
. "$root/tests/pins.sh"
export PATH="$tools/bin:$tools/npm/node_modules/.bin:$PATH"
export GOCACHE="$tools/go-cache" GOPATH="$tools/go-path"

build() { # NAME, EXAMPLE, SOURCE, ITS PLACE, OPTIONS OF `toolyard new`…
  local name=$1 example=$root/target/examples/$2.built source=$here/$3 place=$4 print
  shift 4
  if [ ! -f "$example" ]; then
    echo "The tool echo in $name is not measured: \`make examples\` has not built its language." >&2
    rm -f "$out/$name.built" "$out/echo-$name.wasm"
    return
  fi
  # `built` has the fingerprint of the tools and the library.
  print=$(fingerprint "$*" "$example" "$source" "$here/build.sh")
  if is_current "$out/$name.built" "$print"; then return; fi
  echo "Building the tool echo in $name" >&2
  rm -rf "${out:?}/$name" "$out/$name.built"
  "$toolyard" new echo --dir "$out/$name" "$@" >/dev/null
  cp "$source" "$out/$name/$place"
  # The packages that npm would install into the project.
  if [ -f "$out/$name/package.json" ]; then ln -s "$tools/npm/node_modules" "$out/$name/node_modules"; fi
  "$toolyard" build "$out/$name" >&2
  cp "$out/$name/plugin/echo.wasm" "$out/echo-$name.wasm"
  echo "$print" >"$out/$name.built"
}

mkdir -p "$out"
build python python app.py src/app.py --lang python
build quickjs typescript index.ts src/index.ts --lang ts --engine quickjs
build starlingmonkey desk-typescript index.ts src/index.ts --lang ts
build go go main.go main.go --lang go
