#!/usr/bin/env bash
# Checks the files of examples/deployments and the systemd unit, and tries those that run without a cluster: the
# unit under a systemd of its own, nginx and Caddy with TLS, Prometheus, the configuration of a pod. The last
# line counts: `N passed, N failed`.
#
#   tests/deployments/check.sh
#
# TOOLYARD_BIN names another program than target/release/toolyard.
set -euo pipefail
cd "$(dirname "$0")/../.."
export TOOLYARD_BIN=${TOOLYARD_BIN:-target/release/toolyard}
. host/packaging/common.sh
. host/packaging/check.sh
need_program
need systemd-analyze openssl curl python3
readonly EXAMPLES=examples/deployments HERE=tests/deployments TOOLS=$ROOT/target/deployments
if [ ! -f "$TOOLS/.installed" ]; then
  echo "SKIPPED: the programs of tests/deployments are missing; tests/deployments/install.sh gets them" >&2
  [ "${CI:-}" != true ] || exit 1
  exit 0
fi
PATH=$TOOLS/bin:$PATH:/usr/sbin
readonly PYTHON=$TOOLS/python/bin/python3
# Caddy keeps its files below this folder.
export HOME=$WORK/home
mkdir -p "$HOME"

readonly RESULTS=$WORK/lines
: >"$RESULTS"
report() { # NAME, COMMAND…
  check "$@" | tee -a "$RESULTS"
}

children=()
cleanup() {
  local child
  for child in "${children[@]}"; do stop "$child"; done
}
trap cleanup EXIT

# Starts a process that lives until this script ends.
start() { # LOG, COMMAND…
  local log=$WORK/$1
  shift
  "$@" >"$log" 2>&1 </dev/null &
  children+=("$!")
}

# --- systemd -----------------------------------------------------------------------------

readonly UNIT=$WORK/toolyard.service
sed "s#/usr/bin/toolyard#$BIN#" host/packaging/deb/toolyard.service >"$UNIT"

unit_is_valid() {
  systemd-analyze verify --man=no "$UNIT"
}

# 10 is a service without any protection; 20 means 2.0.
unit_is_hardened() {
  systemd-analyze security --no-pager --offline=yes --threshold=20 "$UNIT" | tail -n 1
}

# In namespaces of its own, systemd runs as process 1 and applies the whole unit. Only paths differ: the program
# and its tools are in a temporary folder, because the service cannot enter homes.
unit_serves() {
  local folder=$WORK/systemd port admin systemd
  port=$(free_port)
  admin=$(free_port)
  systemd=$(ls /usr/lib/systemd/systemd /lib/systemd/systemd 2>/dev/null | head -n 1)
  fresh "$folder"
  sed -e 's#/usr/bin/toolyard#/opt/toolyard#' -e 's#/etc/toolyard/#/opt/#' -e '/network-online/d' \
    -e "s#^\[Service\]#&\nStandardOutput=append:$folder/host.log\nStandardError=append:$folder/host.log#" \
    -e 's#^\[Unit\]#&\nDefaultDependencies=no#' host/packaging/deb/toolyard.service >"$folder/toolyard.service"
  printf '[Unit]\nDefaultDependencies=no\nWants=toolyard.service\n' >"$folder/trial.target"
  {
    printf 'plugins = "/opt/tools"\ndata = "/var/lib/toolyard"\nlisten = "127.0.0.1:%s"\n' "$port"
    printf '[admin]\nlisten = "127.0.0.1:%s"\n' "$admin"
  } >"$folder/toolyard.toml"
  probe_folder "$folder/tools"
  cat >"$folder/start" <<'START'
set -e
mount --make-rprivate /
for place in /run /var/lib /opt; do mount -t tmpfs -o mode=755 tmpfs "$place"; done
mount -t cgroup2 none /sys/fs/cgroup
mkdir -p /run/systemd/system /run/lock
cp -r "$1/toolyard.toml" "$1/tools" /opt/
cp "$2" /opt/toolyard
chmod -R go+rX /opt
cp "$1/toolyard.service" "$1/trial.target" /run/systemd/system/
export container=other
exec "$3" --system --unit=trial.target --log-target=console --show-status=false
START
  unshare --pid --fork --kill-child --mount-proc --mount --cgroup --ipc --uts \
    sh "$folder/start" "$folder" "$BIN" "$systemd" >"$folder/systemd.log" 2>&1 &
  pid=$!
  trap 'kill -KILL "$pid"; wait "$pid" 2>/dev/null || true' EXIT
  until_ok curl -sf "http://127.0.0.1:$admin/readyz" || { cat "$folder/systemd.log" "$folder/host.log"; return 1; }
  answers --url "http://127.0.0.1:$port/mcp"
  # The process of the service, as the kernel sees it.
  local host
  host=$(pgrep -f '^/opt/toolyard serve' --newest)
  grep -E '^(Uid|NoNewPrivs|Seccomp|CapEff):' "/proc/$host/status"
  [ "$(stat -c %u "/proc/$host")" != 0 ]
  has 'CapEff:	0000000000000000' "/proc/$host/status"
  has 'Seccomp:	2' "/proc/$host/status"
}

report "deployments: systemd accepts the unit" unit_is_valid
report "deployments: the exposure of the unit is at most 2.0" unit_is_hardened
can_run_systemd() {
  # Mounts hide these folders in the namespaces.
  case $ROOT/ in /opt/* | /run/* | /var/lib/*) return 1 ;; esac
  [ "$(id -u)" = 0 ] && unshare --pid --fork --mount --cgroup \
    sh -c 'mount --make-rprivate / && mount -t cgroup2 none /sys/fs/cgroup' 2>/dev/null
}

if can_run_systemd; then
  report "deployments: a host serves tools under the unit" unit_serves
else
  echo "not tried: the unit under systemd; that needs root, and a cgroup file system that can be mounted" >&2
fi

# --- Containers and Kubernetes -----------------------------------------------------------

compose_is_valid() {
  docker-compose -f "$EXAMPLES/container/compose.yaml" config --quiet
  DATABASE_PASSWORD=x docker-compose -f examples/cluster/compose.yaml config --quiet
}

schemas_fit() {
  local version
  # The oldest with the action `sleep` of preStop without a switch, and the newest that there is.
  for version in 1.30 1.37; do
    "$TOOLS/python/bin/kubernetes-validate" --strict --kubernetes-version "$version" "$EXAMPLES"/kubernetes/*/*.yaml
  done
}

manifests_fit_together() {
  "$PYTHON" "$HERE/manifests.py" "$WORK/pod.toml"
  "$BIN" config check --config "$WORK/pod.toml" --plugins "$WORK/tools" --data "$WORK/pod"
}

# The kubelet makes a volume writable for its group; the host refuses such a folder, and takes one in it.
pod_starts() {
  local port admin
  port=$(free_port)
  admin=$(free_port)
  fresh "$WORK/volume"
  chmod 2775 "$WORK/volume"
  export TOOLYARD_DATA="$WORK/volume/toolyard" TOOLYARD_CONFIG="$WORK/pod.toml" TOOLYARD_PLUGINS="$WORK/tools"
  # The init container.
  "$BIN" tools
  env TOOLYARD_LISTEN="0.0.0.0:$port" TOOLYARD_ADMIN_LISTEN="0.0.0.0:$admin" TOOLYARD_ADMIN_ON_NETWORK=true \
    "$BIN" serve &
  pid=$!
  trap 'stop "$pid"' EXIT
  # As the kubelet asks: by the address of the pod.
  until_ok curl -sf -H 'Host: 10.1.2.3:7421' "http://127.0.0.1:$admin/readyz"
  [ "$(curl -s -o /dev/null -w '%{http_code}' -d '{}' "http://127.0.0.1:$port/mcp" -H 'Host: toolyard.toolyard:7420')" = 401 ]
  kill -TERM "$pid"
  wait "$pid"
}

probe_folder "$WORK/tools"
report "deployments: docker-compose accepts the compose files" compose_is_valid
report "deployments: the manifests fit the schemas of Kubernetes" schemas_fit
report "deployments: the manifests are hardened and fit together" manifests_fit_together
report "deployments: a host starts with the configuration of a pod" pod_starts

# --- Proxies and Prometheus --------------------------------------------------------------

host_port=$(free_port)
admin_port=$(free_port)
"$BIN" token me >"$WORK/token" 2>"$WORK/token.lines"
{
  printf '[http]\nhosts = ["tools.example.com"]\n'
  sed -n '/^\[\[auth/,$p' "$WORK/token.lines"
} >"$WORK/host.toml"
fresh "$WORK/data"
start host.log "$BIN" serve --config "$WORK/host.toml" --plugins "$WORK/tools" --data "$WORK/data" \
  --listen "127.0.0.1:$host_port" --set "admin.listen=127.0.0.1:$admin_port" --set trace.endpoint=http://127.0.0.1:1

proxy=$WORK/proxy
fresh "$proxy"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=tools.example.com \
  -addext subjectAltName=DNS:tools.example.com -keyout "$proxy/key.pem" -out "$proxy/fullchain.pem" 2>/dev/null

# The example, with the ports, the certificate and the folders of this test.
nginx_port=$(free_port)
sed -e "s#/etc/ssl/toolyard/#$proxy/#" -e "s#listen 443#listen 127.0.0.1:$nginx_port#" \
  -e "s#127.0.0.1:7420#127.0.0.1:$host_port#" "$EXAMPLES/nginx/toolyard.conf" >"$proxy/toolyard.conf"
cat >"$proxy/nginx.conf" <<NGINX
daemon off;
pid nginx.pid;
error_log stderr warn;
events {}
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    scgi_temp_path scgi;
    uwsgi_temp_path uwsgi;
    include $proxy/toolyard.conf;
}
NGINX
caddy_port=$(free_port)
{
  printf '{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n}\n'
  sed -e "s#^tools.example.com {#tools.example.com:$caddy_port {\n\tbind 127.0.0.1\n\ttls $proxy/fullchain.pem $proxy/key.pem#" \
    -e "s#127.0.0.1:7420#127.0.0.1:$host_port#" "$EXAMPLES/caddy/Caddyfile"
} >"$proxy/Caddyfile"

nginx_is_valid() {
  nginx -t -p "$proxy/" -c "$proxy/nginx.conf"
}

caddy_is_valid() {
  caddy validate --adapter caddyfile --config "$EXAMPLES/caddy/Caddyfile"
  # It prints the difference to its own format, and fails if there is one.
  caddy fmt --diff "$EXAMPLES/caddy/Caddyfile"
}

passes_streams() { # PORT
  until_ok curl -sf "http://127.0.0.1:$admin_port/readyz"
  until_ok curl -s -o /dev/null --cacert "$proxy/fullchain.pem" --resolve "tools.example.com:$1:127.0.0.1" \
    "https://tools.example.com:$1/mcp"
  python3 "$HERE/stream.py" "$1" "$proxy/fullchain.pem" "$(cat "$WORK/token")" "$admin_port"
}

if command -v nginx >/dev/null; then
  start nginx.log nginx -p "$proxy/" -c "$proxy/nginx.conf"
  report "deployments: nginx accepts its file" nginx_is_valid
  report "deployments: nginx delays no event, and passes on that a client left" passes_streams "$nginx_port"
else
  echo "not tried: nginx; tests/nginx/install.sh installs it" >&2
  [ "${CI:-}" != true ] || exit 1
fi
start caddy.log caddy run --adapter caddyfile --config "$proxy/Caddyfile"
report "deployments: Caddy accepts its file" caddy_is_valid
report "deployments: Caddy delays no event, and passes on that a client left" passes_streams "$caddy_port"

prometheus_port=$(free_port)
mkdir -p "$WORK/prometheus"
cp "$EXAMPLES/prometheus/alerts.yml" "$WORK/prometheus"
sed -e "s#127.0.0.1:7421#127.0.0.1:$admin_port#" -e 's#scrape_interval: 15s#scrape_interval: 1s#' \
  "$EXAMPLES/prometheus/prometheus.yml" >"$WORK/prometheus/prometheus.yml"

rules_are_valid() {
  promtool check config --lint-fatal "$EXAMPLES/prometheus/prometheus.yml"
  promtool check rules --lint-fatal "$EXAMPLES/prometheus/alerts.yml"
}

alerts_fire() {
  cp "$HERE/alerts.test.yml" "$WORK/prometheus"
  promtool test rules "$WORK/prometheus/alerts.test.yml"
}

has_several_samples() {
  curl -s -G "http://127.0.0.1:$prometheus_port/api/v1/query" --data-urlencode 'query=count_over_time(up[1m]) > 3' |
    has '"instance"'
}

queries_work() {
  until_ok has_several_samples
  "$PYTHON" "$HERE/metrics.py" "http://127.0.0.1:$prometheus_port"
}

rm -rf "$WORK/prometheus/data"
start prometheus.log prometheus --config.file "$WORK/prometheus/prometheus.yml" \
  --storage.tsdb.path "$WORK/prometheus/data" --web.listen-address "127.0.0.1:$prometheus_port"
report "deployments: promtool accepts the configuration and the alerts" rules_are_valid
report "deployments: the alerts fire when they should" alerts_fire
report "deployments: Prometheus answers the queries of the dashboard and the alerts" queries_work

failed=$(grep -c '^failed ' "$RESULTS" || true)
echo "$(grep -c '^ok ' "$RESULTS" || true) passed, $failed failed"
[ "$failed" = 0 ]
