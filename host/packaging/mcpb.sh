#!/usr/bin/env bash
# Packs the bundle that MCP clients such as Claude Desktop install by a click. The client asks its user for
# the folder of tools.
set -euo pipefail
. "$(dirname "$0")/common.sh"
. host/packaging/tools.sh
need_program
npm_tools

work=$OUT/mcpb
fresh "$work"
install -D "$BIN" "$work/server/toolyard"
install -m 644 LICENSE LICENSE-APACHE LICENSE-MIT "$work/"
cat >"$work/manifest.json" <<JSON
{
  "manifest_version": "0.3",
  "name": "toolyard",
  "display_name": "Toolyard",
  "version": "$VERSION",
  "description": "$SUMMARY",
  "author": { "name": "The Toolyard authors", "url": "$REPOSITORY" },
  "repository": { "type": "git", "url": "$REPOSITORY" },
  "license": "Apache-2.0 OR MIT",
  "keywords": ["webassembly", "wasi", "sandbox", "tools"],
  "server": {
    "type": "binary",
    "entry_point": "server/toolyard",
    "mcp_config": {
      "command": "\${__dirname}/server/toolyard",
      "args": ["stdio", "--detach", "--plugins", "\${user_config.tools}"],
      "env": {}
    }
  },
  "tools_generated": true,
  "prompts_generated": true,
  "user_config": {
    "tools": {
      "type": "directory",
      "title": "Folder of tools",
      "description": "The folder with your WebAssembly components (.wasm) and their manifests (.toml)",
      "required": true
    }
  },
  "compatibility": { "platforms": ["linux"] }
}
JSON
find "$work" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
bundle=$OUT/toolyard-$VERSION-linux-x64.mcpb
rm -f "$bundle"
mcpb pack "$work" "$bundle" >/dev/null
rm -rf "$work"
made "$bundle"
