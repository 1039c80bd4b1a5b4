#!/usr/bin/env bash
# Three hosts that share a PostgreSQL database, behind nginx, on this machine: one
# deployment, whichever host a client reaches. Ctrl-C stops all of it; a second start goes on
# with the same data. Who dies is started again after a second.
#
#   CLUSTER_PORT        where clients connect (7420); the hosts have the three ports after it
#   CLUSTER_HOST_PORTS  or these: "7421 7422 7423"
#   CLUSTER_DATA        where everything is kept
#   TOOLYARD_BIN        the program (target/release/toolyard, or the one on the PATH)
#   TOOLYARD_PLUGINS    the folder of tools, the same for all hosts (plugins/dist)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)

is_root() { [ "$(id -u)" = 0 ]; }

port=${CLUSTER_PORT:-7420}
read -r -a host_ports <<<"${CLUSTER_HOST_PORTS:-$((port + 1)) $((port + 2)) $((port + 3))}"
if is_root; then
  # A home of root's is closed to the user that PostgreSQL runs as.
  data=${CLUSTER_DATA:-/var/lib/toolyard-cluster}
else
  data=${CLUSTER_DATA:-${XDG_STATE_HOME:-$HOME/.local/state}/toolyard-cluster}
fi

fail() {
  printf 'cluster: %s\n' "$@" >&2
  exit 1
}

# --- What is needed --------------------------------------------------------------------

postgres_bin() {
  local folder
  # The newest of those that packages install comes last.
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

# --- Where it is kept ------------------------------------------------------------------

# 711: as root, the folders in it belong to different users, who must reach theirs.
mkdir -p "$data" || fail "CLUSTER_DATA names another folder."
data=$(cd "$data" && pwd)
chmod 711 "$data"
case $data in
  *[!A-Za-z0-9/._-]*) fail "The path $data holds characters that do not fit into all the places where it is written;" \
    "CLUSTER_DATA names another folder, with letters, digits and ._- only." ;;
esac
# The kernel takes no longer names of sockets: .s.PGSQL.5432 follows.
[ ${#data} -le 70 ] || fail "The path $data is too long for a socket; CLUSTER_DATA names another folder."

# As root, PostgreSQL and nginx run as nobody. Where setpriv is there, whatever was started
# ends with this script, also if that is killed.
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

# Nobody but its user and root gets into this folder, and so to the database: it listens on a
# socket there and on no port, and needs no password.
database=$data/postgres
proxy=$data/nginx
for folder in "$database" "$proxy"; do
  mkdir -p "$folder"
  chmod 700 "$folder"
  if is_root; then chown nobody "$folder"; fi
done
(cd / && apart TERM test -x "$database") ||
  fail "The user nobody, as whom PostgreSQL runs, cannot get to $data; CLUSTER_DATA names another folder."

# --- What runs -------------------------------------------------------------------------

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
      # Five seconds, so that it can be watched how the tasks of a dead host are seen to; by
      # default it is fifteen.
      TOOLYARD_STORE="postgres:///postgres?user=toolyard&host=$database" beside TERM "$toolyard" serve \
        --listen "127.0.0.1:${host_ports[${1#host-} - 1]}" --plugins "$plugins" --data "$data/$1" \
        --set cluster.lease=5s
      ;;
  esac
}

# Each in a process group of its own: Ctrl-C is meant for this script, which stops them one
# after the other.
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
  # Waited for, so that a signal is heard at once.
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

# Whether a word of HTTP comes back. A host takes connections before its tools are loaded.
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

# --- The end ---------------------------------------------------------------------------

end() { # SIGNAL SECONDS INDEX…
  local signal=$1 tries=$(($2 * 10)) index
  shift 2
  for index in "$@"; do
    if lives "$index"; then kill -s "$signal" "${pids[index]}" 2>/dev/null || true; fi
  done
  for index in "$@"; do
    while lives "$index" && [ $((tries -= 1)) -gt 0 ]; do pause 0.1; done
    # What is left of its group, if it did not end in order.
    if [ "${pids[index]}" != 0 ]; then kill -s KILL -- "-${pids[index]}" 2>/dev/null || true; fi
    rm -f "$data/${names[index]}.pid"
  done
}

stop() {
  local code=$?
  trap - EXIT
  trap 'end KILL 1 0 1 2 3 4; exit 1' INT TERM HUP
  # Hosts first: what they still do goes into the database, and out by nginx. They take
  # shutdown.drain, 10 s, for what runs.
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

# --- The beginning ---------------------------------------------------------------------

for index in 0 1 2 3 4; do : >"$data/${names[index]}.log"; done

if [ ! -d "$database/data" ]; then
  echo "Making a database in $database"
  # Under another name until it is whole, should this be interrupted.
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

# --- From now on -----------------------------------------------------------------------

while :; do
  for index in 0 1 2 3 4; do
    lives "$index" && continue
    echo "${names[index]} has ended; it is started again (its log: $data/${names[index]}.log)"
    # Workers of nginx hold its port.
    kill -s KILL -- "-${pids[index]}" 2>/dev/null || true
    pause 1
    start "$index"
  done
  pause 0.5
done
