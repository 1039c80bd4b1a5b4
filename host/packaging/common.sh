# Shared by the packaging scripts: version, folders, names, the program. Source this file.

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
ROOT=$PWD
. host/packaging/names.sh

VERSION=$(sed -n 's/^version = "\(.*\)"/\1/p' host/Cargo.toml)
OUT=$ROOT/target/package/$VERSION
STAGE=$OUT/stage
# Packages have the time of the commit, so that equal sources make equal bytes.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
# Names of files, `sort` and messages of tools must not depend on the builder's language.
export LC_ALL=C.UTF-8 TZ=UTC
umask 022
mkdir -p "$OUT"

# The program that goes into every artefact. TOOLYARD_BIN names another one, to try the scripts without
# the long build.
BIN=${TOOLYARD_BIN:-$STAGE/toolyard}
BIN=$(realpath -m "$BIN")

die() {
  echo "packaging: $*" >&2
  exit 1
}

need_program() {
  [ -x "$BIN" ] || die "there is no program $BIN; run host/packaging/package.sh binary, or set TOOLYARD_BIN"
}

need() { # COMMAND…
  local command
  for command in "$@"; do
    command -v "$command" >/dev/null || die "$command is not on the PATH; install it"
  done
}

# An empty folder of this name, below target/.
fresh() { # FOLDER
  rm -rf "$1"
  mkdir -p "$1"
}

# The text of a package's page, with the names and the version of this release.
package_readme() {
  sed -e "s#REPOSITORY#$REPOSITORY#g" -e "s#VERSION#$VERSION#g" host/packaging/README.package.md
}

# Prints a file name and its size for people.
made() { # FILE
  printf '%s  %s MB\n' "${1#"$ROOT"/}" "$(awk -v bytes="$(stat -c %s "$1")" 'BEGIN { printf "%.1f", bytes / 1e6 }')"
}
