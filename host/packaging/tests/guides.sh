#!/usr/bin/env bash
# Every command of the page on installation and of the guides for operators, in the order of the pages: those of
# toolyard run in a root with the Debian package and a registry; each other one is in a test that this script names.
# As root, the service's folders have a user of their own.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
. host/packaging/check.sh
export COSIGN_PASSWORD=secret
deb=$OUT/${DEB_PACKAGE}_${VERSION}_amd64.deb
root=$WORK/root
registry_port=$(free_port)
image=oci://127.0.0.1:$registry_port/acme/fetch:1.2.0

# toolyard as root of the machine with the package.
machine() { # ARGUMENT…
  (VARIABLES=TOOLYARD_CONFIG=/etc/toolyard/toolyard.toml FOLDER=/var/backups/toolyard in_root "$root" toolyard "$@")
}
export -f machine

# As postinst does where there is adduser.
installs() {
  mkdir -p "$root"/{srv,root,var/lib/toolyard,var/backups/toolyard}
  chmod 1777 "$root/srv"
  dpkg -x "$deb" "$root"
  add_libraries "$root"
  probe_folder "$root/var/backups/toolyard/tools"
  cp "$root"/var/backups/toolyard/tools/probe.* "$root/etc/toolyard/plugins/"
  chmod 700 "$root"/var/{lib,backups}/toolyard
  [ "$(id -u)" != 0 ] ||
    chown -R 12345:12345 "$root"/var/{lib,backups}/toolyard "$root/etc/toolyard/plugins"
  machine tools | has echo
}

publishes() {
  ./tests/registry/install.sh clients
  local tools=$ROOT/target/registry/bin name=${image#oci://}
  printf 'version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: 127.0.0.1:%s}\n' \
    "$WORK/images" "$registry_port" >"$WORK/registry.yml"
  setsid "$tools/docker-registry" serve "$WORK/registry.yml" >"$WORK/registry.log" 2>&1 &
  echo $! >"$WORK/registry.pid"
  until_ok curl -s "http://127.0.0.1:$registry_port/v2/"
  cp "$DIST/fetch.wasm" "$WORK"
  echo '{}' >"$WORK/config.json"
  (
    cd "$WORK"
    "$tools/oras" push --plain-http --config config.json:application/vnd.wasm.config.v0+json "$name" \
      fetch.wasm:application/wasm
    "$tools/cosign" generate-key-pair --output-key-prefix acme
    "$tools/cosign" sign --yes --key acme.key --use-signing-config=false --tlog-upload=false \
      --allow-http-registry "$name"
  )
  install -m 644 "$WORK/acme.pub" "$root/var/backups/toolyard/acme.pub"
}

# The commands of a page, without prompts, comments and continued lines. A block with prompts also has output.
commands() { # FILE
  awk '/^```/ { on = !on && /^```(sh|console)$/; block = ""; next }
    on { line = $0; prompt = sub(/^\$ /, "", line); while (sub(/\\$/, "", line) && (getline more) > 0) line = line more
         if (prompt) block = "prompts"
         if (prompt || block == "") print line }' "$1" | sed -E 's/[[:space:]]+#.*//; /^(#|$)/d'
}

serves() { # ARGUMENT…
  local port
  port=$(free_port)
  machine "$@" --listen "127.0.0.1:$port" 2>"$WORK/served.log" &
  served=$!
  # The check runs in a shell of its own, which ends here.
  trap 'pkill -TERM -P "$served" || true; stop "$served"' EXIT
  until_ok curl -s "http://127.0.0.1:$port/mcp"
}

tested_in() { # TEST, TEXT
  has "$2" "host/packaging/tests/$1.sh"
}

runs() { # COMMAND
  local command=${1//0.2.0/$VERSION}
  command=${command//oci:\/\/ghcr.io\/acme\/fetch:1.2.0/$image}
  case $command in
    "toolyard serve"*) serves ${command#toolyard } ;;
    "toolyard console"*) serves serve --set "console.listen=127.0.0.1:$(free_port)" && machine ${command#toolyard } ;;
    "toolyard add"*) machine ${command#toolyard } --grant none --name "fetch$RANDOM" --prefix "p$RANDOM" ;;
    toolyard*) machine ${command#toolyard } ;;
    npx* | "npm install"*) tested_in npm "npm install" ;;
    uvx* | "pip install"*) tested_in pypi "pip install" ;;
    "dpkg "*) tested_in deb "--install" ;;
    "docker run"*stdio) tested_in image "answers -- \"\$in_image\" stdio" ;;
    "docker run"*token*) tested_in image "token me" ;;
    "docker run"*) tested_in image "runs_its_own_command" ;;
    "sed -n"*) tested_in image "sed -n '/^\\[\\[auth/,\$p'" ;;
    "skopeo "* | "docker load"*) tested_in image "skopeo" ;;
    "sha256sum "* | "tar "* | ./toolyard-*) tested_in binary "tar -xzf" ;;
    "make build" | "export PATH"*) has "make format test" .ci/run ;;
    "systemctl "* | "kill -HUP "*) tested_in deb "systemd-analyze verify" ;;
    "cp examples/deployments/"* | "docker build "* | "kubectl "* | --from-literal*) has "caddy" tests/deployments/check.sh ;;
    *) echo "no test runs: $command" && return 1 ;;
  esac
}

check "guides: the package in a root of its own has tools" installs
check "guides: a registry has a signed plugin" publishes
for page in host/docs/getting-started/install.md host/docs/guides/operate/*.md; do
  while IFS= read -r command; do
    check "guides: $(basename "$page"): $command" runs "$command"
  done < <(commands "$page")
done
kill "$(cat "$WORK/registry.pid")"
