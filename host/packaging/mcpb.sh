#!/usr/bin/env bash
# Packs the bundle that MCP clients such as Claude Desktop install by a click. The client asks its user for
# the folder of tools.
set -euo pipefail
. "$(dirname "$0")/common.sh"
. host/packaging/tools.sh
need_program
need python3
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
bundle=$OUT/toolyard-$VERSION-linux-x64.mcpb
mcpb pack "$work" "$work/packed.mcpb" >/dev/null
# mcpb writes the current time into its entries, so equal input would not give equal bytes.
rm -f "$bundle"
python3 - "$work/packed.mcpb" "$bundle" <<'PY'
import os, sys, time, zipfile

moment = time.gmtime(max(int(os.environ["SOURCE_DATE_EPOCH"]), 315532800))[:6]
with zipfile.ZipFile(sys.argv[1]) as packed, zipfile.ZipFile(sys.argv[2], "w") as bundle:
    for entry in sorted(packed.infolist(), key=lambda entry: entry.filename):
        copy = zipfile.ZipInfo(entry.filename, moment)
        copy.external_attr, copy.compress_type = entry.external_attr, zipfile.ZIP_DEFLATED
        bundle.writestr(copy, packed.read(entry), compresslevel=9)
PY
rm -rf "$work"
made "$bundle"
