#!/usr/bin/env bash
# Installs the clients that tests/it/ runs against the host. This folder has those of the first
# generation: the TypeScript SDK and the Inspector in node_modules/, the Python SDK in .venv/.
# v2/ has those of the second: the TypeScript client and the Python SDK.
# agents/ has Claude Code and Codex, frameworks/ agent frameworks, suites/ the test suites of others.
# package-lock.json and requirements.txt pin the versions. A second run does nothing. Arguments select
# clients: typescript, python, second-typescript, second-python; and agents, frameworks and suites, which are
# large and installed only by name.
#
# Without Node.js or Python, the script skips that client with a message; in CI it fails.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/pins.sh

readonly PYTHON_AT_LEAST=3.11
# Marks a complete installation, with the fingerprint of its sources.
readonly TYPESCRIPT=node_modules/.installed
readonly PYTHON=.venv/.installed

install_typescript() { # FOLDER, CLIENT, NODE
  cd "$1"
  local folder=$1 client=$2 at_least=$3
  if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    without "$TYPESCRIPT" "$client" "It needs Node.js $at_least or newer, with npm: node or npm is not on the PATH."
    return
  fi
  local version
  version=$(node --version)
  local major=${version#v}
  if [ "${major%%.*}" -lt "$at_least" ]; then
    without "$TYPESCRIPT" "$client" "It needs Node.js $at_least or newer; this is $version."
    return
  fi
  local print
  # The major version is enough, because no installed package is compiled.
  print=$(fingerprint "${major%%.*}" package.json package-lock.json)
  if is_current "$TYPESCRIPT" "$print"; then return; fi
  echo "Installing $client into $folder/node_modules"
  npm ci --ignore-scripts --loglevel=error
  echo "$print" >"$TYPESCRIPT"
}

install_python() { # FOLDER, CLIENT
  cd "$1"
  local folder=$1 client=$2
  if ! command -v python3 >/dev/null; then
    without "$PYTHON" "$client" "It needs Python $PYTHON_AT_LEAST or newer: python3 is not on the PATH."
    return
  fi
  # The interpreter starts only once, because its start takes most of the time of a run with nothing
  # to do.
  local found
  found=$(python3 -c '
import sys
try:
    import ensurepip, venv
    can = "venv"
except ImportError:
    can = "bare"
print("%d.%d" % sys.version_info[:2], can, sys.base_prefix)
')
  local version can prefix
  read -r version can prefix <<<"$found"
  if [ "${version%%.*}" -lt 3 ] || [ "${version#*.}" -lt "${PYTHON_AT_LEAST#*.}" ]; then
    without "$PYTHON" "$client" "It needs Python $PYTHON_AT_LEAST or newer; this is $version."
    return
  fi
  if [ "$can" != venv ]; then
    without "$PYTHON" "$client" "This Python has no venv and ensurepip (on Debian: the package python3-venv)."
    return
  fi
  local print
  print=$(fingerprint "$version $prefix" requirements.txt)
  # An interpreter that was removed leaves a dangling link.
  if is_current "$PYTHON" "$print" && [ -x .venv/bin/python ]; then return; fi
  echo "Installing $client into $folder/.venv"
  rm -rf .venv
  python3 -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements.txt
  echo "$print" >"$PYTHON"
}

install_agents() { # FOLDER, CLIENT
  local folder=$1 client=$2
  (install_typescript "$folder" "$client" 18)
  cd "$folder"
  if [ ! -f "$TYPESCRIPT" ]; then return; fi
  # npm leaves an optional package out if it has none for this platform.
  if ! compgen -G "node_modules/@anthropic-ai/claude-code-*/claude" >/dev/null ||
    ! compgen -G "node_modules/@openai/codex-*/vendor/*/bin/codex" >/dev/null; then
    without "$TYPESCRIPT" "$client" "They have no packages for this platform: $(uname -sm)."
  fi
}

[ $# != 0 ] || set -- typescript python second-typescript second-python
for client in "$@"; do
  # In subshells, so that each starts in the root folder.
  case $client in
    typescript) (install_typescript tests/clients "the TypeScript client and the Inspector" 18) ;;
    python) (install_python tests/clients "the Python client") ;;
    second-typescript) (install_typescript tests/clients/v2 "the second TypeScript client" 20) ;;
    second-python) (install_python tests/clients/v2 "the second Python client") ;;
    frameworks)
      (install_python tests/clients/frameworks/first "the agent frameworks of the first generation")
      (install_python tests/clients/frameworks/second "the agent frameworks of the second generation")
      (install_python tests/clients/frameworks/strands "Strands")
      (install_typescript tests/clients/frameworks/typescript "the AI SDK" 18)
      ;;
    suites)
      (install_python tests/clients/suites "the public test suites")
      (install_typescript tests/clients/suites/typescript "the client of the tasks extension" 20)
      ;;
    agents) (install_agents tests/clients/agents "Claude Code and Codex") ;;
    *)
      echo "install.sh: there is no client $client" >&2
      exit 2
      ;;
  esac
done
