#!/usr/bin/env bash
# Writes the Debian package by dpkg-deb. cargo-deb would compile for minutes, to write the same control
# file from the tables of a Cargo.toml.
set -euo pipefail
. "$(dirname "$0")/common.sh"
need_program
need dpkg-deb gzip md5sum

work=$OUT/deb
fresh "$work"
from=host/packaging/deb
doc=$work/usr/share/doc/$DEB_PACKAGE

install -D "$BIN" "$work/usr/bin/toolyard"
install -D -m 644 "$from/toolyard.service" "$work/usr/lib/systemd/system/toolyard.service"
install -D -m 644 "$from/toolyard.toml" "$work/etc/toolyard/toolyard.toml"
install -d "$work/etc/toolyard/plugins"
install -D -m 644 "$from/overrides" "$work/usr/share/lintian/overrides/$DEB_PACKAGE"

completion() { # SOURCE, TARGET
  install -D -m 644 "$STAGE/completions/$1" "$work/usr/share/$2"
}
# The program of TOOLYARD_BIN may come without them.
if [ -d "$STAGE/completions" ]; then
  completion toolyard.bash bash-completion/completions/toolyard
  completion _toolyard zsh/vendor-completions/_toolyard
  completion toolyard.fish fish/vendor_completions.d/toolyard.fish
  for page in "$STAGE"/man/*.1; do
    install -D -m 644 "$page" "$work/usr/share/man/man1/$(basename "$page")"
    gzip -9n "$work/usr/share/man/man1/$(basename "$page")"
  done
  install -D -m 644 "$STAGE/THIRD-PARTY-LICENSES.txt" "$doc/THIRD-PARTY-LICENSES.txt"
  gzip -9n "$doc/THIRD-PARTY-LICENSES.txt"
fi

install -d "$doc"
{
  echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
  echo "Source: $REPOSITORY"
  echo
  echo "Files: *"
  echo "Copyright: The Toolyard authors"
  echo "License: Apache-2.0 or Expat"
  echo "Comment: The licences of the libraries in the program are in THIRD-PARTY-LICENSES.txt.gz."
  echo
  echo "License: Apache-2.0"
  echo " On Debian systems, the text is in /usr/share/common-licenses/Apache-2.0."
  echo
  echo "License: Expat"
  sed -e 's/^$/./' -e 's/^/ /' LICENSE-MIT
} >"$doc/copyright"
{
  echo "$DEB_PACKAGE ($VERSION) stable; urgency=medium"
  echo
  echo "  * Release $VERSION; the changes are in CHANGELOG.md.gz."
  echo
  echo " -- $MAINTAINER  $(date -R -u -d "@$SOURCE_DATE_EPOCH")"
} | gzip -9n >"$doc/changelog.gz"
gzip -9nc CHANGELOG.md >"$doc/CHANGELOG.md.gz"

install -d "$work/DEBIAN"
install -m 755 "$from"/{postinst,prerm,postrm} "$work/DEBIAN/"
echo /etc/toolyard/toolyard.toml >"$work/DEBIAN/conffiles"
cat >"$work/DEBIAN/control" <<CONTROL
Package: $DEB_PACKAGE
Version: $VERSION
Architecture: amd64
Maintainer: $MAINTAINER
Installed-Size: $(du -sk --apparent-size --exclude DEBIAN "$work" | cut -f 1)
Depends: adduser
Recommends: ca-certificates
Section: net
Priority: optional
Homepage: $REPOSITORY
Description: MCP host for sandboxed WebAssembly tools
 Toolyard serves a folder of WebAssembly components as tools of the Model
 Context Protocol, over HTTP and over standard input and output. Each tool
 runs in its own sandbox and reaches only the files, hosts and secrets that
 its manifest grants.
CONTROL
(cd "$work" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$work" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

package=$OUT/${DEB_PACKAGE}_${VERSION}_amd64.deb
dpkg-deb --root-owner-group -Zxz --build "$work" "$package" >/dev/null
rm -rf "$work"
made "$package"
