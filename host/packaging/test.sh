#!/usr/bin/env bash
# Tests the artefacts in target/package/VERSION, or only those that are named, and goes on after a
# failure. The last line counts: `N passed, 0 failed`.
#
#   host/packaging/test.sh [TEST…]
set -euo pipefail
. "$(dirname "$0")/common.sh"

if [ $# = 0 ]; then
  for script in host/packaging/tests/*.sh; do
    set -- "$@" "$(basename "$script" .sh)"
  done
fi

lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
for name in "$@"; do
  echo "== $name"
  before=$(grep -c '^\(ok\|failed\) ' "$lines" || true)
  status=0
  "host/packaging/tests/$name.sh" | tee -a "$lines" || status=$?
  # A script that ends early, or tests nothing, must not pass.
  if [ "$status" != 0 ]; then
    echo "failed $name: its script ended with status $status" | tee -a "$lines"
  elif [ "$(grep -c '^\(ok\|failed\) ' "$lines" || true)" = "$before" ]; then
    echo "failed $name: its script tested nothing" | tee -a "$lines"
  fi
done

failed=$(grep -c '^failed ' "$lines" || true)
grep '^failed ' "$lines" || true
echo "$(grep -c '^ok ' "$lines" || true) passed, $failed failed"
[ "$failed" = 0 ]
