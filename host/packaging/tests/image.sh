#!/usr/bin/env bash
# The container image: skopeo reads it, equal input gives equal bytes, and its unpacked files serve tools
# under the image's own configuration, user and command, with nothing else in their root.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
. host/packaging/check.sh
. host/packaging/tools.sh
need curl
debian_tool umoci
debian_tool skopeo
archive=$OUT/toolyard-$VERSION-image.tar
bundle=$WORK/bundle
root=$bundle/rootfs

skopeo_reads() {
  with_libraries skopeo inspect "oci-archive:$archive:$VERSION" >"$WORK/inspected.json"
  has "\"io.modelcontextprotocol.server.name\": \"$MCP_NAME\"" "$WORK/inspected.json"
  has "\"org.opencontainers.image.version\": \"$VERSION\"" "$WORK/inspected.json"
}

# As docker or podman would import it.
skopeo_converts() {
  with_libraries skopeo copy --insecure-policy "oci-archive:$archive:$VERSION" "docker-archive:$WORK/docker.tar:$IMAGE:$VERSION"
}

twice_equal() {
  cp "$archive" "$WORK/first.tar"
  host/packaging/image.sh
  same_again "$WORK/first.tar" "$archive"
}

unpacks() {
  mkdir "$WORK/layout"
  tar -xf "$archive" -C "$WORK/layout"
  umoci unpack --rootless --image "$WORK/layout:$VERSION" "$bundle"
  same "$BIN" "$root/usr/bin/toolyard"
  has 'BEGIN CERTIFICATE' "$root/etc/ssl/certs/ca-certificates.crt"
  tar -xOf "$archive" "$(layer_of_image)" | tar -tvzf - >"$WORK/layer.list"
  has "drwx------ 65532/65532" <(grep ' ./data/$' "$WORK/layer.list")
  has "drwxrwxrwt 0/0" <(grep ' ./tmp/$' "$WORK/layer.list")
}

layer_of_image() {
  python3 - "$WORK/layout" <<'PY'
import json, sys
def blob(digest):
    return "blobs/sha256/" + digest.split(":")[1]
index = json.load(open(sys.argv[1] + "/index.json"))
manifest = json.load(open(sys.argv[1] + "/" + blob(index["manifests"][0]["digest"])))
print(blob(manifest["layers"][0]["digest"]))
PY
}

# Runs the image's entry point with its environment, and its own or further arguments, as its user if this
# test is root, else as the only user of a new namespace. An engine also mounts /proc and the devices.
# A program, so that its process becomes the host.
in_image=$WORK/in-image
cat >"$in_image" <<'PY'
#!/usr/bin/env python3
import json, os, sys

bundle, arguments = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bundle"), sys.argv[1:]
root = bundle + "/rootfs"
with open(bundle + "/config.json", encoding="utf-8") as file:
    process = json.load(file)["process"]
command = process["args"][:1] + (arguments or process["args"][1:])
namespace, user = ["unshare", "--mount"], ["--userspec=65532:65532"]
if os.getuid() != 0:
    namespace, user = ["unshare", "--map-root-user", "--mount"], []
mounts = 'mount --rbind /proc "$0/proc" && mount --bind /dev/null "$0/dev/null" && exec chroot "$@"'
environment = dict(item.split("=", 1) for item in process["env"])
environment["PATH"] += ":/usr/sbin:/bin:/sbin"
# As `docker run -e` does.
environment.update(item for item in os.environ.items() if item[0].startswith("TOOLYARD_LISTEN"))
os.execvpe(namespace[0], [*namespace, "sh", "-c", mounts, root, *user, root, *command], environment)
PY
chmod +x "$in_image"

# An engine cannot be tried everywhere, so this compares what the Containerfile says with the image.
containerfile_says_the_same() {
  python3 - "$WORK/layout" <<'PY'
import json, sys

def blob(digest):
    with open(f"{sys.argv[1]}/blobs/sha256/{digest.split(':')[1]}", encoding="utf-8") as file:
        return json.load(file)

with open(sys.argv[1] + "/index.json", encoding="utf-8") as file:
    manifest = blob(json.load(file)["manifests"][0]["digest"])
config = blob(manifest["config"]["digest"])["config"]
with open("host/packaging/Containerfile", encoding="utf-8") as file:
    last = file.read().split("FROM scratch")[1].replace("\\\n", " ")
said = dict(line.split(None, 1) for line in last.splitlines() if line.strip())
assert sorted(said.pop("ENV").split()) == sorted(config["Env"]), "ENV"
assert json.loads(said.pop("ENTRYPOINT")) == config["Entrypoint"], "ENTRYPOINT"
assert json.loads(said.pop("CMD")) == config["Cmd"], "CMD"
assert {said.pop("EXPOSE"): {}} == config["ExposedPorts"], "EXPOSE"
assert {said.pop("VOLUME"): {}} == config["Volumes"], "VOLUME"
for word, key in {"USER": "User", "WORKDIR": "WorkingDir", "STOPSIGNAL": "StopSignal"}.items():
    assert said.pop(word) == config[key], word
assert list(said) == ["COPY"], said
PY
}

prepare() {
  mkdir -p "$root/proc" "$root/dev"
  touch "$root/dev/null"
  # The engine gives the volume to the image's user; umoci without root cannot.
  [ "$(id -u)" != 0 ] || chown 65532:65532 "$root/data"
  probe_folder "$root/plugins"
  add_libraries "$root"
}

refuses_strangers_by_default() {
  ! "$in_image" >"$WORK/refused.log" 2>&1
  has "callers need no credentials; configure [[auth.tokens]]" "$WORK/refused.log"
}

# Before any token exists: what does not listen needs none.
needs_no_token_without_a_port() {
  "$in_image" tools | has echo
  "$in_image" call echo '{"text":"hello"}' | has hello
  "$in_image" tasks list
  "$in_image" verify
  "$in_image" backup -o /data/backup.tar
  ! "$in_image" config check 2>"$WORK/checked.log"
  has "callers need no credentials" "$WORK/checked.log"
  answers -- "$in_image" stdio
}

# As in the guide: the token's lines in a configuration that is mounted over the image's.
serves_with_a_token() {
  local token port
  "$in_image" token me >"$WORK/token" 2>"$WORK/token.lines"
  token=$(cat "$WORK/token")
  sed -n '/^\[\[auth/,$p' "$WORK/token.lines" >"$root/etc/toolyard/toolyard.toml"
  port=$(free_port)
  TOOLYARD_LISTEN=0.0.0.0:$port "$in_image" serve &
  pid=$!
  trap 'stop "$pid"' EXIT
  until_ok curl -s "http://127.0.0.1:$port/mcp"
  [ "$(curl -s -o "$WORK/answer" -w '%{http_code}' -X POST "http://127.0.0.1:$port/mcp" -d '{}')" = 401 ]
  answers --url "http://127.0.0.1:$port/mcp" --token "$token"
  if [ "$(id -u)" = 0 ]; then
    [ "$(stat -c %u "/proc/$pid")" = 65532 ]
    [ "$(stat -c %u "$root/data/toolyard.sqlite")" = 65532 ]
  fi
}

# The image's own command, with everybody let in.
runs_its_own_command() {
  local port
  printf '[auth]\nanonymous-on-network = true\n' >"$root/etc/toolyard/toolyard.toml"
  port=$(free_port)
  TOOLYARD_LISTEN=0.0.0.0:$port "$in_image" &
  pid=$!
  trap 'stop "$pid"' EXIT
  until_ok curl -s "http://127.0.0.1:$port/mcp"
  answers --url "http://127.0.0.1:$port/mcp"
  kill -TERM "$pid"
  wait "$pid"
}

check "image: skopeo reads it, with its labels" skopeo_reads
check "image: skopeo converts it for docker" skopeo_converts
check "image: a second image has the same bytes" twice_equal
check "image: umoci unpacks it" unpacks
check "image: the Containerfile says the same" containerfile_says_the_same
check "image: its root can be entered" prepare
check "image: it refuses to serve without credentials, and says what to do" refuses_strangers_by_default
check "image: commands that do not listen, and stdio, need no token" needs_no_token_without_a_port
check "image: it serves tools to the bearer of a token, as its own user" serves_with_a_token
check "image: its own command serves tools, and SIGTERM ends it with 0" runs_its_own_command
check "image: it serves tools over stdio" answers -- "$in_image" stdio
