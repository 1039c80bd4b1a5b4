#!/usr/bin/env bash
# The npm packages: published to a registry on loopback, and run from there by npx.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
. host/packaging/check.sh
. host/packaging/tools.sh
. host/packaging/registry.sh
need curl
npm_tools
start_registry
probe_folder "$WORK/tools"
mkdir -p "$WORK/project"

npx_toolyard=(npx --yes --registry "$REGISTRY" "$NPM_PACKAGE")

by_npx() {
  cd "$WORK/project"
  "${npx_toolyard[@]}" --version | has "$("$BIN" --version)"
}

# An installation as of a project, whose command a client starts without npx.
by_install() {
  cd "$WORK/project"
  npm init -y >/dev/null
  npm install --silent "$NPM_PACKAGE"
  same "$BIN" "node_modules/$NPM_SCOPE/linux-x64/bin/toolyard"
  npm view "$NPM_PACKAGE" mcpName | has "$MCP_NAME"
}

serve=(stdio --plugins "$WORK/tools" --data "$WORK/data")
shim=$WORK/project/node_modules/.bin/toolyard

status_passes() {
  local status
  for expected in "2 --no-such-option" "1 check $WORK/none.wasm" "0 --version"; do
    status=0
    # shellcheck disable=SC2086
    "$shim" ${expected#* } || status=$?
    [ "$status" = "${expected%% *}" ] || { echo "$status for $expected"; return 1; }
  done
}

# SIGKILL cannot be handled, so the shim must end by the signal that ended its program.
signal_of_the_program_passes() {
  local status=0
  "$shim" serve --listen 127.0.0.1:0 --plugins "$WORK/tools" --data "$WORK/data2" &
  local pid=$!
  until_ok pgrep -P "$pid" -x toolyard
  pkill -KILL -P "$pid" -x toolyard
  wait "$pid" || status=$?
  [ "$status" = 137 ] || { echo "status $status"; return 1; }
}

ends_by_ctrl_c() {
  local port
  port=$(free_port)
  python3 host/packaging/tests/terminal.py "http://127.0.0.1:$port/mcp" \
    "$shim" serve --listen "127.0.0.1:$port" --plugins "$WORK/tools" --data "$WORK/data3"
}

refuses_other_platforms() {
  cat >"$WORK/other.cjs" <<'JS'
const { find } = require(process.argv[2]);
const missing = () => { throw new Error("not found"); };
for (const [platform, arch, resolve] of [["win32", "x64"], ["linux", "arm64"], ["linux", "x64", missing]]) {
  try {
    find(platform, arch, resolve);
    process.exit(1);
  } catch (error) {
    console.log(error.message);
  }
}
JS
  node "$WORK/other.cjs" "$WORK/project/node_modules/$NPM_PACKAGE/bin/toolyard.js" >"$WORK/other.log"
  has "there is no program for win32 on x64, only for linux x64; build it from source: $REPOSITORY" "$WORK/other.log"
  has "there is no program for linux on arm64" "$WORK/other.log"
  has "npm install --include=optional toolyard" "$WORK/other.log"
}

# npm leaves the program out, as on another platform, and the command says so.
says_that_the_program_is_missing() {
  mkdir "$WORK/without" && cd "$WORK/without"
  npm init -y >/dev/null
  npm install --silent --omit=optional "$NPM_PACKAGE"
  ! node_modules/.bin/toolyard --version 2>"$WORK/without.log"
  has "install toolyard again with optional dependencies" "$WORK/without.log"
}

check "npm: the packages can be published" publish_to_registry
check "npm: npx runs the program" by_npx
check "npm: npx serves tools over stdio" answers -- "${npx_toolyard[@]}" "${serve[@]}"
# npx starts the command by a shell, which does not pass SIGTERM on. A client closes the input as well.
check "npm: SIGTERM to npx and the end of its input end the host" answers --end both --status -15 -- "${npx_toolyard[@]}" "${serve[@]}"
check "npm: npm installs the very program" by_install
check "npm: SIGTERM to the command ends the host" answers --end term -- "$shim" "${serve[@]}"
check "npm: the exit status passes" status_passes
check "npm: a signal that ends the program ends the command" signal_of_the_program_passes
check "npm: Ctrl-C in a terminal lets running calls end" ends_by_ctrl_c
check "npm: other platforms get an error that says what to do" refuses_other_platforms
check "npm: an installation without the program says so" says_that_the_program_is_missing
