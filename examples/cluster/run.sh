#!/usr/bin/env bash
# Runs three hosts that share a PostgreSQL database, behind nginx, on this machine: one deployment,
# whichever host a client reaches. Ctrl-C stops everything; a second start continues with the same
# data. The script restarts a process that dies after one second.
#
#   CLUSTER_PORT        the port for clients (7420); the hosts use the next three ports
#   CLUSTER_HOST_PORTS  or these ports: "7421 7422 7423"
#   CLUSTER_DATA        the folder for all data
#   TOOLYARD_BIN        the program (target/release/toolyard, or the one on the PATH)
#   TOOLYARD_PLUGINS    the folder of tools, the same for all hosts (plugins/dist)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)

is_root() { [ "$(id -u)" = 0 ]; }

port=${CLUSTER_PORT:-7420}
read -r -a host_ports <<<"${CLUSTER_HOST_PORTS:-$((port + 1)) $((port + 2)) $((port + 3))}"
if is_root; then
  # The user that PostgreSQL runs as cannot enter root's home.
  data=${CLUSTER_DATA:-/var/lib/toolyard-cluster}
else
  data=${CLUSTER_DATA:-${XDG_STATE_HOME:-$HOME/.local/state}/toolyard-cluster}
fi

fail() {
  printf 'cluster: %s\n' "$@" >&2
  exit 1
}

# --- Requirements ----------------------------------------------------------------------

postgres_bin() {
  local folder
  # Packages install several versions side by side; the newest comes first.
  for folder in $(printf '%s\n' /usr/lib/postgresql/*/bin /usr/pgsql-*/bin | sort -rV) ${PATH//:/ }; do
    if [ -x "$folder/initdb" ] && [ -x "$folder/postgres" ] && [ -x "$folder/pg_isready" ]; then
      echo "$folder"
      return
    fi
  done
  return 1
}

first_of() {
  local name
  for name in "$@"; do
    if command -v "$name"; then return; fi
  done
  return 1
}

missing=()
pg=$(postgres_bin) || missing+=(
  "PostgreSQL (initdb, postgres, pg_isready) is neither in /usr/lib/postgresql/*/bin nor on the PATH."
  "  Debian, Ubuntu: apt-get install postgresql    Fedora: dnf install postgresql-server    macOS: brew install postgresql")
nginx=$(first_of nginx /usr/sbin/nginx) || missing+=(
  "nginx is neither on the PATH nor in /usr/sbin."
  "  Debian, Ubuntu: apt-get install nginx    Fedora: dnf install nginx    macOS: brew install nginx"
  "  A server that the package starts at port 80 is not needed here: systemctl disable --now nginx")
toolyard=$(first_of "${TOOLYARD_BIN:-$root/target/release/toolyard}" "${TOOLYARD_BIN:-toolyard}") || missing+=(
  "There is no program ${TOOLYARD_BIN:-toolyard in target/release or on the PATH}: make build, or name it by TOOLYARD_BIN.")
plugins=$(cd "${TOOLYARD_PLUGINS:-$root/plugins/dist}" 2>/dev/null && pwd) || missing+=(
  "There is no folder ${TOOLYARD_PLUGINS:-$root/plugins/dist} with tools: make build, or name one by TOOLYARD_PLUGINS.")
if is_root && ! command -v setpriv >/dev/null; then
  missing+=("PostgreSQL does not run as root. Start this as another user, or install setpriv (util-linux).")
fi
if [ ${#missing[@]} -gt 0 ]; then fail "${missing[@]}"; fi
toolyard=$(cd "$(dirname "$toolyard")" && pwd)/$(basename "$toolyard")
[ ${#host_ports[@]} = 3 ] || fail "CLUSTER_HOST_PORTS has to name three ports, as \"7421 7422 7423\" does."

# --- Data folder -----------------------------------------------------------------------

# 711: as root, its subfolders belong to different users, who must be able to enter them.
mkdir -p "$data" || fail "CLUSTER_DATA names another folder."
data=$(cd "$data" && pwd)
chmod 711 "$data"
case $data in
  *[!A-Za-z0-9/._-]*) fail "The path $data holds characters that do not fit into all the places where it is written;" \
    "CLUSTER_DATA names another folder, with letters, digits and ._- only." ;;
esac
# The kernel limits the length of socket paths, and .s.PGSQL.5432 is appended.
[ ${#data} -le 70 ] || fail "The path $data is too long for a socket; CLUSTER_DATA names another folder."

# As root, PostgreSQL and nginx run as nobody. With setpriv, every process ends with this script,
# even if the script is killed.
apart() { # SIGNAL COMMAND…
  local signal=$1
  shift
  if is_root; then
    exec setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups --pdeathsig "$signal" "$@"
  fi
  beside "$signal" "$@"
}
beside() {
  local signal=$1
  shift
  if command -v setpriv >/dev/null; then exec setpriv --pdeathsig "$signal" "$@"; fi
  exec "$@"
}

# Only its user and root can enter this folder and so reach the database: it listens on a socket
# there and on no port, and needs no password.
database=$data/postgres
proxy=$data/nginx
for folder in "$database" "$proxy"; do
  mkdir -p "$folder"
  chmod 700 "$folder"
  if is_root; then chown nobody "$folder"; fi
done
(cd / && apart TERM test -x "$database") ||
  fail "The user nobody, as whom PostgreSQL runs, cannot get to $data; CLUSTER_DATA names another folder."

# --- Processes -------------------------------------------------------------------------

names=(postgres host-1 host-2 host-3 nginx)
pids=(0 0 0 0 0)

launch() { # NAME
  cd "$data"
  case $1 in
    postgres)
      cd "$database"
      apart QUIT "$pg/postgres" -D "$database/data" -c listen_addresses= \
        -c unix_socket_directories="$database" -c max_connections=60
      ;;
    nginx)
      cd "$proxy"
      apart TERM "$nginx" -p "$proxy/" -c "$data/nginx.conf"
      ;;
    host-*)
      # Five seconds instead of the default fifteen, so that you can watch the recovery of a dead
      # host's tasks.
      TOOLYARD_STORE="postgres:///postgres?user=toolyard&host=$database" beside TERM "$toolyard" serve \
        --listen "127.0.0.1:${host_ports[${1#host-} - 1]}" --plugins "$plugins" --data "$data/$1" \
        --set cluster.lease=5s
      ;;
  esac
}

# Each process has its own process group: Ctrl-C reaches only this script, which stops the processes
# in order.
start() { # INDEX
  local name=${names[$1]}
  set -m
  launch "$name" </dev/null >>"$data/$name.log" 2>&1 &
  pids[$1]=$!
  set +m
  disown
  echo "${pids[$1]}" >"$data/$name.pid"
}

lives() { # INDEX
  [ "${pids[$1]}" != 0 ] && kill -0 "${pids[$1]}" 2>/dev/null
}

pause() {
  # In the background, so that signals are handled at once.
  sleep "$1" &
  wait $! || true
}

explain() { # INDEX
  local name=${names[$1]}
  tail -n 15 "$data/$name.log" >&2
  fail "$name did not start; these are the last lines of $data/$name.log."
}

until_ready() { # INDEX COMMAND…
  local index=$1 began=$SECONDS
  shift
  until "$@"; do
    if ! lives "$index" || [ $((SECONDS - began)) -gt 300 ]; then explain "$index"; fi
    pause 0.2
  done
}

database_answers() { "$pg/pg_isready" -q -h "$database" -U toolyard -d postgres; }

# Whether the port answers HTTP. A host accepts connections before its tools are loaded.
answers() { # PORT
  local line=
  {
    printf 'GET /mcp HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' >&3
    read -r -t 2 line <&3
  } 2>/dev/null 3<>"/dev/tcp/127.0.0.1/$1" || return 1
  [[ $line == HTTP/1.* ]]
} 2>/dev/null

is_taken() { # PORT
  (: 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# --- Shutdown --------------------------------------------------------------------------

end() { # SIGNAL SECONDS INDEX…
  local signal=$1 tries=$(($2 * 10)) index
  shift 2
  for index in "$@"; do
    if lives "$index"; then kill -s "$signal" "${pids[index]}" 2>/dev/null || true; fi
  done
  for index in "$@"; do
    while lives "$index" && [ $((tries -= 1)) -gt 0 ]; do pause 0.1; done
    # Kills the rest of its process group, if it did not end by itself.
    if [ "${pids[index]}" != 0 ]; then kill -s KILL -- "-${pids[index]}" 2>/dev/null || true; fi
    rm -f "$data/${names[index]}.pid"
  done
}

stop() {
  local code=$?
  trap - EXIT
  trap 'end KILL 1 0 1 2 3 4; exit 1' INT TERM HUP
  # Hosts first: they still write to the database and answer through nginx. They wait up to
  # shutdown.drain, 10 s, for running calls.
  end TERM 20 1 2 3
  end TERM 5 4
  end INT 20 0
  exit "$code"
}

for taken in "$port" "${host_ports[@]}"; do
  if is_taken "$taken"; then
    fail "Port $taken is taken, perhaps by a cluster that runs already; CLUSTER_PORT and CLUSTER_HOST_PORTS name others."
  fi
done

trap stop EXIT
trap 'echo "Stopping; once more to end it at once"; exit 0' INT TERM HUP

# --- Startup ---------------------------------------------------------------------------

for index in 0 1 2 3 4; do : >"$data/${names[index]}.log"; done

if [ ! -d "$database/data" ]; then
  echo "Making a database in $database"
  # Under a temporary name until it is complete, in case this is interrupted.
  # shellcheck disable=SC2016
  (cd "$database" && apart TERM sh -c 'rm -rf data.new && "$1" --username=toolyard --auth=trust \
    --encoding=UTF8 --locale=C -D data.new && mv data.new data' sh "$pg/initdb") >>"$data/postgres.log" 2>&1 ||
    explain 0
fi

sed -e "s/127\.0\.0\.1:7420/127.0.0.1:$port/" -e "s/127\.0\.0\.1:7421/127.0.0.1:${host_ports[0]}/" \
  -e "s/127\.0\.0\.1:7422/127.0.0.1:${host_ports[1]}/" -e "s/127\.0\.0\.1:7423/127.0.0.1:${host_ports[2]}/" \
  "$here/nginx.conf" >"$data/nginx.conf"

start 0
until_ready 0 database_answers
echo "Starting the hosts; the first time each of them compiles the tools"
for index in 1 2 3; do start "$index"; done
for index in 1 2 3; do until_ready "$index" answers "${host_ports[index - 1]}"; done
start 4
until_ready 4 answers "$port"

url=http://127.0.0.1:$port/mcp
cat <<END
The cluster serves $url
  hosts     1 at 127.0.0.1:${host_ports[0]}, 2 at 127.0.0.1:${host_ports[1]}, 3 at 127.0.0.1:${host_ports[2]}
  data      $data, with a log and a pid of each
  connect   claude mcp add --transport http toolyard $url
Try, in another terminal:
  . $here/client.sh $url
  served_by                     # the host that nginx keeps this session at
  create wait '{"ms":20000}'    # a task, which that host runs
  kill -9 "\$(cat $data/host-1.pid)"   # that host, or another one
  tasks                         # asked of another host: a task that the dead one ran has failed
                                # within some seconds; all others are as they were
Ctrl-C stops all of it; the next start finds the same tasks.
END

# --- Supervision -----------------------------------------------------------------------

while :; do
  for index in 0 1 2 3 4; do
    lives "$index" && continue
    echo "${names[index]} has ended; it is started again (its log: $data/${names[index]}.log)"
    # Worker processes of nginx keep its port.
    kill -s KILL -- "-${pids[index]}" 2>/dev/null || true
    pause 1
    start "$index"
  done
  pause 0.5
done
