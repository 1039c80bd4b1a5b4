#!/usr/bin/env bash
# Publishes the artefacts of a release to one place. Only .github/workflows/release.yml runs it: each
# registry trusts that workflow, so there are no passwords here, and no machine of a person can publish.
#
#   host/packaging/publish.sh check TAG | github | npm | pypi | image | server
#
# RELEASE names the folder with the artefacts. Only `check` has been tried; the others need the registries.
set -euo pipefail
. "$(dirname "$0")/common.sh"
RELEASE=$(realpath -m "${RELEASE:-$OUT}")

# The changes of this version, for the text of the release.
notes() {
  awk -v heading="## $VERSION" 'index($0, "## ") == 1 { on = index($0, heading) == 1; next } on' CHANGELOG.md
}

check_tag() { # TAG
  [ "$1" = "v$VERSION" ] || die "the tag $1 does not name the version $VERSION of host/Cargo.toml; tag v$VERSION"
  notes | grep -q '[^[:space:]]' || die "CHANGELOG.md has no section ## $VERSION; write one"
}

# A second run after a failure goes on where the first one ended.
publish_npm() {
  local file name
  for name in "$NPM_SCOPE/linux-x64" "$NPM_PACKAGE"; do
    file=${name#@}
    if npm view "$name@$VERSION" version >/dev/null 2>&1; then continue; fi
    npm publish --provenance "$RELEASE/npm/${file/\//-}-$VERSION.tgz"
  done
}

publish_image() {
  local tag
  for tag in "$VERSION" latest; do
    skopeo copy --dest-creds "$GITHUB_ACTOR:$GITHUB_TOKEN" \
      "oci-archive:$RELEASE/toolyard-$VERSION-image.tar:$VERSION" "docker://$IMAGE:$tag"
  done
}

publish_server() {
  # The publisher of the MCP registry is a Go program. Choose its version before the first release.
  local publisher=github.com/modelcontextprotocol/registry/cmd/publisher@${MCP_PUBLISHER:-latest}
  cd "$RELEASE"
  go run "$publisher" login github-oidc
  go run "$publisher" publish
}

case ${1:-} in
  check) check_tag "${2:?a tag}" ;;
  github)
    mapfile -d '' files < <(find "$RELEASE" -type f -print0 | sort -z)
    notes | gh release create "v$VERSION" --draft --verify-tag --title "Toolyard $VERSION" --notes-file - "${files[@]}"
    ;;
  npm) publish_npm ;;
  pypi)
    . host/packaging/tools.sh
    python_tools
    uv publish --trusted-publishing always "$RELEASE"/pypi/*.whl
    ;;
  image) publish_image ;;
  server) publish_server ;;
  *) die "publish.sh publishes to github, npm, pypi, image or server" ;;
esac
