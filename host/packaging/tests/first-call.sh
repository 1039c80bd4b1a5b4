#!/usr/bin/env bash
# From nothing to the answer of a tool, for each way to install, with local packages: an empty root for the
# binary, the Debian package and the image, an empty home for npm and pip. Prints the seconds, which
# include the compilation of the tool. FIRST_CALL_SECONDS is the most that a way may take.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
. host/packaging/check.sh
. host/packaging/tools.sh
. host/packaging/registry.sh
npm_tools
debian_tool umoci
start_registry
publish_to_registry >/dev/null
readonly MOST=${FIRST_CALL_SECONDS:-30}

way() { # NAME, FUNCTION
  local start seconds
  start=$(date +%s%N)
  check "first call: $1" "$2" >"$WORK/outcome"
  seconds=$((($(date +%s%N) - start) / 1000000))
  if grep -q '^ok ' "$WORK/outcome" && [ "$seconds" -gt $((MOST * 1000)) ]; then
    echo "failed first call: $1: it took $((seconds / 1000)) s, and FIRST_CALL_SECONDS is $MOST"
  else
    sed "s/^ok .*/&: $((seconds / 1000)).$((seconds % 1000 / 100)) s/" "$WORK/outcome"
  fi
}

# The folder of tools is at the same path in every root.
answers_in() { # ROOT, PROGRAM
  probe_folder "$1/tools"
  add_libraries "$1"
  answers -- bash -c 'in_root "$@"' in_root "$1" "$2" stdio --plugins /tools
}

by_binary() {
  fresh "$WORK/binary"
  tar -xzf "$OUT/toolyard-$VERSION-x86_64-linux.tar.gz" -C "$WORK/binary" --strip-components=1
  answers_in "$WORK/binary" /bin/toolyard
}

by_deb() {
  fresh "$WORK/deb"
  mkdir -p "$WORK"/deb/var/lib/dpkg/{info,updates,triggers}
  touch "$WORK"/deb/var/lib/dpkg/{status,available}
  unshare --map-root-user dpkg --root="$WORK/deb" --force-not-root --force-script-chrootless --force-depends \
    --log=/dev/null --install "$OUT/${DEB_PACKAGE}_${VERSION}_amd64.deb"
  answers_in "$WORK/deb" /usr/bin/toolyard
}

by_image() {
  mkdir "$WORK/layout"
  tar -xf "$OUT/toolyard-$VERSION-image.tar" -C "$WORK/layout"
  umoci unpack --rootless --image "$WORK/layout:$VERSION" "$WORK/bundle"
  answers_in "$WORK/bundle/rootfs" /usr/bin/toolyard
}

by_npm() {
  probe_folder "$WORK/npm/tools"
  answers -- env HOME="$WORK/npm" npx --yes --registry "$REGISTRY" "$NPM_PACKAGE" stdio --plugins "$WORK/npm/tools"
}

by_pip() {
  probe_folder "$WORK/pip/tools"
  python3 -m venv "$WORK/pip/venv"
  "$WORK/pip/venv/bin/pip" --quiet --disable-pip-version-check install --no-index "$OUT"/pypi/*.whl
  answers -- env HOME="$WORK/pip" "$WORK/pip/venv/bin/toolyard" stdio --plugins "$WORK/pip/tools"
}

# There is no archive if TOOLYARD_BIN replaced the program.
if [ -z "${TOOLYARD_BIN:-}" ] || [ -f "$OUT/toolyard-$VERSION-x86_64-linux.tar.gz" ]; then
  way binary by_binary
fi
way deb by_deb
way image by_image
way npm by_npm
way pip by_pip
