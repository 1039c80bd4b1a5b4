#!/usr/bin/env bash
# Writes the wheel for the Python package index.
set -euo pipefail
. "$(dirname "$0")/common.sh"
need_program
need python3

fresh "$OUT/pypi"
export VERSION PYPI_PROJECT SUMMARY REPOSITORY MCP_NAME
made "$(python3 host/packaging/wheel.py "$BIN" "$OUT/pypi")"
