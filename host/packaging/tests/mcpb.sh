#!/usr/bin/env bash
# The MCP bundle: its manifest is valid, and a client can start the server by the manifest alone.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
. host/packaging/check.sh
. host/packaging/tools.sh
npm_tools
bundle=$OUT/toolyard-$VERSION-linux-x64.mcpb
# Clients unpack into folders with spaces in their names.
unpacked="$WORK/Claude Extensions/toolyard"
probe_folder "$WORK/my tools"

unpacks() {
  mcpb unpack "$bundle" "$unpacked"
  mcpb validate "$unpacked/manifest.json"
  same "$BIN" "$unpacked/server/toolyard"
  [ -x "$unpacked/server/toolyard" ]
}

twice_equal() {
  cp "$bundle" "$WORK/first.mcpb"
  # A zip counts in steps of two seconds.
  sleep 2
  host/packaging/mcpb.sh
  same_again "$WORK/first.mcpb" "$bundle"
}

# As a client: the command of the manifest, with the placeholders filled in.
by_its_manifest() {
  local command
  python3 - "$unpacked" "$WORK/my tools" >"$WORK/command" <<'PY'
import json, sys
folder, tools = sys.argv[1:]
with open(folder + "/manifest.json", encoding="utf-8") as file:
    manifest = json.load(file)
assert list(manifest["user_config"]) == ["tools"], "the client of this test knows one question"
config = manifest["server"]["mcp_config"]
for part in [config["command"], *config["args"]]:
    print(part.replace("${__dirname}", folder).replace("${user_config.tools}", tools))
PY
  mapfile -t command <"$WORK/command"
  answers -- env HOME="$WORK/home" "${command[@]}"
}

check "mcpb: it unpacks to a valid manifest and the very program" unpacks
check "mcpb: a second bundle has the same bytes" twice_equal
check "mcpb: its manifest starts a server of the chosen folder" by_its_manifest
