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

# Requires a text in a file or in standard input. Reads all of it: the writer of a pipe whose reader ends early
# would fail.
has() { # TEXT, [FILE]
  [ -n "$(grep -F -- "$1" "${2:--}")" ] || { echo "not found: $1"; return 1; }
}

same() { # FILE, FILE
  cmp "$1" "$2"
}

# For an artefact that was made a second time. Its time is that of the commit.
same_again() { # FILE, FILE
  same "$1" "$2" && return
  echo "the second one differs; if the first is of another commit, make it again by package.sh"
  return 1
}

# The folder with the shipped tool that the tests call.
EXTRA=${TOOLYARD_PLUGINS_EXTRA:-plugins/extra}

# Makes a folder with the shipped tool `probe`, which has 5 tools.
probe_folder() { # FOLDER
  [ -f "$EXTRA/probe.wasm" ] || die "there is no $EXTRA/probe.wasm; run make plugins, or set TOOLYARD_PLUGINS_EXTRA"
  fresh "$1"
  cp "$EXTRA"/probe.{wasm,toml} "$1/"
}

# Starts a server by its command, and requires an answer of the tool `echo` and the status 0 at the end.
answers() { # [OPTION…] -- COMMAND…
  python3 host/packaging/tests/ask.py --tools 5 --call echo '{"text":"from the package"}' \
    --expect "from the package" "$@"
}

# Runs a command in an environment with nothing but a home and the system's PATH.
bare() { # COMMAND…
  mkdir -p "$WORK/home"
  env -i HOME="$WORK/home" PATH="${BARE_PATH:-/usr/local/bin:/usr/bin:/bin}" "$@"
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Ends a process that this test started, and waits for it.
stop() { # PID
  kill "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}

# Waits until a command succeeds, at most 30 s.
until_ok() { # COMMAND…
  local tries
  for tries in $(seq 150); do
    "$@" >/dev/null 2>&1 && return
    sleep 0.2
  done
  "$@"
}

# Copies the C library of this machine into a root, if the program is a dynamic one of TOOLYARD_BIN.
add_libraries() { # ROOT
  local library
  for library in $(ldd "$BIN" 2>/dev/null | grep -o '/[^ ]*'); do
    cp --parents -L "$library" "$1/"
  done
}

# Runs a command in a root with nothing but its own files, /proc, /dev/null and the VARIABLES, in its FOLDER. Users
# other than root exist only for root.
in_root() { # ROOT, COMMAND…
  local map=--map-root-user
  [ "$(id -u)" != 0 ] || map=
  mkdir -p "$1"/{proc,dev,tmp}
  touch "$1/dev/null"
  # shellcheck disable=SC2016,SC2086
  exec env -i HOME=/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin ROOT="$1" FOLDER="${FOLDER:-/}" ${VARIABLES:-} \
    unshare $map --mount sh -c 'mount --rbind /proc "$ROOT/proc" && mount --bind /dev/null "$ROOT/dev/null" && shift &&
      exec env -u ROOT -u FOLDER unshare --root="$ROOT" --wd="$FOLDER" "$@"' sh "$@"
}
export -f in_root
