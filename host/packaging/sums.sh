#!/usr/bin/env bash
# Writes SHA256SUMS over all artefacts. Only npm and pypi have a folder of their own; other folders hold parts.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$OUT"
find . -maxdepth 2 -type f ! -name SHA256SUMS \( ! -path './*/*' -o -path './npm/*' -o -path './pypi/*' \) -printf '%P\n' |
  sort | xargs -d '\n' sha256sum >SHA256SUMS
made "$OUT/SHA256SUMS"
