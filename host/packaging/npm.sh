#!/usr/bin/env bash
# Writes two packages for the npm registry: the one that people name, and the one with the program, which
# npm installs only on its platform. Neither runs a script at its installation.
set -euo pipefail
. "$(dirname "$0")/common.sh"
need_program
need npm node

work=$OUT/npm
fresh "$work/main/bin"
fresh "$work/linux-x64/bin"

sed -e "s#SCOPE#$NPM_SCOPE#" -e "s#REPOSITORY#$REPOSITORY#" host/packaging/shim.js >"$work/main/bin/toolyard.js"
cp "$BIN" "$work/linux-x64/bin/toolyard"
chmod 755 "$work/main/bin/toolyard.js" "$work/linux-x64/bin/toolyard"
package_readme >"$work/main/README.md"
echo "The program of [toolyard]($REPOSITORY) for Linux on x86-64. Install \`$NPM_PACKAGE\` instead." \
  >"$work/linux-x64/README.md"
cp LICENSE LICENSE-APACHE LICENSE-MIT "$work/main/"
cp LICENSE LICENSE-APACHE LICENSE-MIT "$work/linux-x64/"

about=$(
  cat <<JSON
  "version": "$VERSION",
  "license": "Apache-2.0 OR MIT",
  "repository": { "type": "git", "url": "git+$REPOSITORY.git" },
  "publishConfig": { "access": "public" },
JSON
)
cat >"$work/main/package.json" <<JSON
{
  "name": "$NPM_PACKAGE",
$about
  "description": "$SUMMARY",
  "mcpName": "$MCP_NAME",
  "keywords": ["mcp", "model-context-protocol", "webassembly", "wasi", "sandbox"],
  "bin": { "toolyard": "bin/toolyard.js" },
  "files": ["bin", "LICENSE*"],
  "engines": { "node": ">=18" },
  "optionalDependencies": { "$NPM_SCOPE/linux-x64": "$VERSION" }
}
JSON
cat >"$work/linux-x64/package.json" <<JSON
{
  "name": "$NPM_SCOPE/linux-x64",
$about
  "description": "The program of $NPM_PACKAGE for Linux on x86-64",
  "os": ["linux"],
  "cpu": ["x64"],
  "files": ["bin", "LICENSE*"],
  "preferUnplugged": true
}
JSON

cd "$work"
for package in linux-x64 main; do
  # npm reads the user's settings otherwise, such as a registry that needs a login.
  name=$(npm pack --silent --userconfig /dev/null "./$package")
  made "$work/$name"
done
rm -rf "$work/main" "$work/linux-x64"
