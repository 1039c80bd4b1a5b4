#!/usr/bin/env bash
# Runs a command, and appends a line to the file that TIMES names: its wall, user and system seconds, and its name,
# separated by tabs. `.ci/run` lets make use it as its shell (`timed.sh -c LINE`), and cargo as the runner of test
# programs (`timed.sh PROGRAM ARGUMENT…`).
set -uo pipefail
TIMEFORMAT=$'%R\t%U\t%S'

kind=step
case $1 in
  -c)
    name=${2%%$'\n'*}
    set -- bash "$@"
    ;;
  */deps/*-*)
    kind=tests
    name="$(basename "${CARGO_MANIFEST_DIR:-}"): $(basename "${1%-*}")"
    # The harness prints the time of each test only if a variable permits its unstable options.
    set -- env RUSTC_BOOTSTRAP=1 "$@" -Zunstable-options --report-time
    ;;
  *) exec "$@" ;;
esac

status=0
exec 3>&1 4>&2
took=$({ time "$@" >&3 2>&4 3>&- 4>&-; } 2>&1) || status=$?
printf '%s\t%s\t%s\n' "$took" "$kind" "$name" >>"$TIMES"
exit "$status"
