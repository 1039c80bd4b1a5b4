#!/usr/bin/env bash
# Writes server.json, the entry in the MCP registry. Its mcpb entry has the checksum of the bundle, so run
# this after mcpb.sh.
set -euo pipefail
. "$(dirname "$0")/common.sh"

bundle=toolyard-$VERSION-linux-x64.mcpb
[ -f "$OUT/$bundle" ] || die "there is no $OUT/$bundle; run host/packaging/package.sh mcpb"
sum=$(sha256sum "$OUT/$bundle" | cut -d ' ' -f 1)

stdio='"transport": { "type": "stdio" }'
# The client asks for the folder, and the program gets it after `stdio`.
arguments='"packageArguments": [
        { "type": "positional", "value": "stdio" },
        {
          "type": "named",
          "name": "--plugins",
          "description": "The folder with WebAssembly components and their manifests",
          "format": "filepath",
          "isRequired": true
        }
      ]'
cat >"$OUT/server.json" <<JSON
{
  "\$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
  "name": "$MCP_NAME",
  "title": "Toolyard",
  "description": "$SUMMARY",
  "version": "$VERSION",
  "repository": { "url": "$REPOSITORY", "source": "github" },
  "packages": [
    {
      "registryType": "npm",
      "identifier": "$NPM_PACKAGE",
      "version": "$VERSION",
      "runtimeHint": "npx",
      $stdio,
      $arguments
    },
    {
      "registryType": "pypi",
      "identifier": "$PYPI_PROJECT",
      "version": "$VERSION",
      "runtimeHint": "uvx",
      $stdio,
      $arguments
    },
    {
      "registryType": "oci",
      "identifier": "$IMAGE:$VERSION",
      "runtimeHint": "docker",
      "runtimeArguments": [
        {
          "type": "named",
          "name": "--mount",
          "value": "type=bind,src={tools},dst=/plugins,readonly",
          "variables": {
            "tools": {
              "description": "The folder with WebAssembly components and their manifests",
              "format": "filepath",
              "isRequired": true
            }
          }
        }
      ],
      "packageArguments": [{ "type": "positional", "value": "stdio" }],
      $stdio
    },
    {
      "registryType": "mcpb",
      "identifier": "$REPOSITORY/releases/download/v$VERSION/$bundle",
      "fileSha256": "$sum",
      $stdio
    }
  ]
}
JSON
made "$OUT/server.json"
