#!/usr/bin/env bash
# server.json: its form, and that it names what the artefacts contain. If TOOLYARD_SPEC names a folder with
# server.schema.json, the official schema of 2025-12-11, the file must also be valid by it.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
. host/packaging/check.sh
. host/packaging/tools.sh
python_tools
export OUT VERSION NPM_PACKAGE PYPI_PROJECT IMAGE MCP_NAME

has_the_form() {
  python3 - <<'PY'
import json, os, re

with open(os.environ["OUT"] + "/server.json", encoding="utf-8") as file:
    server = json.load(file)
assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", server["name"]), server["name"]
assert server["name"] == os.environ["MCP_NAME"]
assert 1 <= len(server["description"]) <= 100, len(server["description"])
assert server["version"] == os.environ["VERSION"]
found = {package["registryType"]: package for package in server["packages"]}
expected = {"npm": os.environ["NPM_PACKAGE"], "pypi": os.environ["PYPI_PROJECT"]}
for kind, name in expected.items():
    assert (found[kind]["identifier"], found[kind]["version"]) == (name, server["version"])
assert found["oci"]["identifier"] == f"{os.environ['IMAGE']}:{server['version']}"
assert all(package["transport"] == {"type": "stdio"} for package in found.values())
# The registry accepts bundles only from addresses that contain "mcp".
assert "mcp" in found["mcpb"]["identifier"]
PY
}

names_the_bundle() {
  sha256sum "$OUT/toolyard-$VERSION-linux-x64.mcpb" | cut -d ' ' -f 1 | xargs -I{} grep -qF '"fileSha256": "{}"' "$OUT/server.json"
}

fits_the_schema() {
  python3 -c 'import json, jsonschema, sys; jsonschema.validate(json.load(open(sys.argv[1])), json.load(open(sys.argv[2])))' \
    "$OUT/server.json" "$TOOLYARD_SPEC/server.schema.json"
}

check "server: server.json names the other packages" has_the_form
check "server: it has the checksum of the bundle" names_the_bundle
if [ -f "${TOOLYARD_SPEC:-/nonexistent}/server.schema.json" ]; then
  check "server: it fits the official schema" fits_the_schema
fi
