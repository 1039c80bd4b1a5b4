#!/usr/bin/env bash
# The wheel: twine accepts it, pip and uv install and run it, and equal input gives equal bytes.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
. host/packaging/check.sh
. host/packaging/tools.sh
python_tools

wheel=$(echo "$OUT"/pypi/*.whl)
probe_folder "$WORK/tools"
export UV_OFFLINE=1 UV_CACHE_DIR=$WORK/uv-cache

twice_equal() {
  export VERSION PYPI_PROJECT SUMMARY REPOSITORY MCP_NAME
  mkdir "$WORK/again"
  python3 host/packaging/wheel.py "$BIN" "$WORK/again"
  same_again "$wheel" "$WORK/again/$(basename "$wheel")"
}

metadata() {
  python3 -m zipfile -e "$wheel" "$WORK/unpacked"
  has "mcp-name: $MCP_NAME" "$WORK/unpacked/$PYPI_PROJECT-$VERSION.dist-info/METADATA"
  same "$BIN" "$WORK/unpacked/$PYPI_PROJECT-$VERSION.data/scripts/toolyard"
}

by_pip() {
  python3 -m venv "$WORK/venv"
  "$WORK/venv/bin/pip" --quiet --disable-pip-version-check install --no-index "$wheel"
  "$WORK/venv/bin/pip" --disable-pip-version-check check
  "$WORK/venv/bin/toolyard" --version | has "$("$BIN" --version)"
}

by_uvx() {
  uvx --from "$wheel" toolyard --version | has "$("$BIN" --version)"
}

check "pypi: twine accepts the wheel" twine check --strict "$wheel"
check "pypi: a second wheel has the same bytes" twice_equal
check "pypi: the metadata name the MCP server, and the program is unchanged" metadata
check "pypi: pip installs it without an index" by_pip
check "pypi: the installed program serves tools" \
  answers -- "$WORK/venv/bin/toolyard" stdio --plugins "$WORK/tools" --data "$WORK/data"
check "pypi: uvx runs it" by_uvx
