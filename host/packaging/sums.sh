#!/usr/bin/env bash
# Writes SHA256SUMS over all artefacts. Folders beside them are parts of artefacts.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$OUT"
find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs -d '\n' sha256sum >SHA256SUMS
made "$OUT/SHA256SUMS"
