# Shared by host/packaging/tests: one line for each check. Source this file after common.sh.

# An absolute folder for this test, empty at its start.
WORK=$ROOT/target/package/work/$(basename "$0" .sh)
fresh "$WORK"

# Runs a function or a command, and prints `ok NAME` or `failed NAME: why`.
check() { # NAME, COMMAND…
  local name=$1 log=$WORK/check.log status
  shift
  # bash ignores `set -e` inside a command whose status is tested.
  set +e
  (set -e; "$@") >"$log" 2>&1 </dev/null
  status=$?
  set -e
  if [ "$status" = 0 ]; then
    echo "ok $name"
  else
    sed 's/^/  | /' "$log" | tail -n 15 >&2
    echo "failed $name: status $status: $(tail -n 1 "$log" | cut -c 1-300)"
  fi
}

# Requires a text in a file or in standard input.
has() { # TEXT, [FILE]
  grep -qF -- "$1" "${2:--}" || { echo "not found: $1"; return 1; }
}

same() { # FILE, FILE
  cmp "$1" "$2"
}
