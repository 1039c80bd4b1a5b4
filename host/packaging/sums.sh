#!/usr/bin/env bash
# Writes SHA256SUMS over all artefacts.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$OUT"
find . -type f ! -path './stage/*' ! -name SHA256SUMS -printf '%P\n' | sort | xargs -d '\n' sha256sum >SHA256SUMS
made "$OUT/SHA256SUMS"
