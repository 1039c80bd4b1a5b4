# Fetches the programs that the packaging scripts use, into target/package/tools and without root. Each
# function installs once and sets a variable or the PATH. Source this file after common.sh.

TOOLS=$ROOT/target/package/tools
. tests/pins.sh

python_tools() { # puts twine, uv and a python with pyyaml and jsonschema first on the PATH
  need python3
  local pins=host/packaging/tools/requirements.txt print
  print=$(fingerprint "$(python3 --version)" "$pins")
  if ! is_current "$TOOLS/python/.installed" "$print"; then
    fresh "$TOOLS/python"
    python3 -m venv "$TOOLS/python" >&2
    "$TOOLS/python/bin/pip" --quiet --disable-pip-version-check install -r "$pins" >&2
    echo "$print" >"$TOOLS/python/.installed"
  fi
  PATH=$TOOLS/python/bin:$PATH
}

npm_tools() { # puts mcpb and verdaccio first on the PATH
  need node npm
  local from=host/packaging/tools print
  print=$(fingerprint "$(node --version)" "$from"/package.json "$from"/package-lock.json)
  if ! is_current "$TOOLS/npm/.installed" "$print"; then
    fresh "$TOOLS/npm"
    cp "$from"/package.json "$from"/package-lock.json "$from"/.npmrc "$TOOLS/npm/"
    (cd "$TOOLS/npm" && npm ci --ignore-scripts --loglevel=error) >&2
    echo "$print" >"$TOOLS/npm/.installed"
  fi
  PATH=$TOOLS/npm/node_modules/.bin:$PATH
}

# Unpacks Debian packages, with the packages they need that this machine lacks, below
# target/package/tools/PACKAGE. Debian keeps one version in a release, so the release is the pin.
debian_tool() { # PACKAGE
  need apt-get dpkg-deb
  local root=$TOOLS/$1 names package
  if [ ! -f "$root/.installed" ]; then
    fresh "$root"
    mkdir -p "$TOOLS"/apt/{lists,cache/archives}/partial "$root/packages"
    # bash ignores `set -e` where the caller tests the status.
    private_apt update >&2 || die "cannot read the lists of Debian packages"
    names=$(private_apt install --simulate --no-install-recommends "$1" | awk '$1 == "Inst" { print $2 }')
    [ -n "$names" ] || names=$1
    # shellcheck disable=SC2086
    (cd "$root/packages" && private_apt download $names >&2) || die "cannot fetch the Debian package $1"
    for package in "$root"/packages/*.deb; do
      dpkg-deb -x "$package" "$root"
    done
    rm -rf "$root/packages"
    touch "$root/.installed"
  fi
  PATH=$root/usr/bin:$root/usr/sbin:$PATH
  # Only for the tool itself: see with_libraries.
  TOOL_ROOT=$root
}

# apt with its own lists, so that it needs no root.
private_apt() {
  apt-get -q -o Dir::State::Lists="$TOOLS/apt/lists" -o Dir::Cache="$TOOLS/apt/cache" \
    -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)" "$@"
}

# Runs a command with the libraries that debian_tool unpacked.
with_libraries() { # COMMAND…
  LD_LIBRARY_PATH=$TOOL_ROOT/usr/lib/x86_64-linux-gnu "$@"
}
