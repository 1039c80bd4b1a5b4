#!/usr/bin/env bash
# Builds the static program for Linux on x86_64, optimised by its recorded profile of calls, and what comes
# with it: completions, man pages, licences and the list of packages (SBOM). They go to the stage folder, from
# which the other artefacts take them, and into a tarball. TOOLYARD_BIN=PATH skips the build.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cargo=${CARGO:-cargo}
tools=$ROOT/target/tools
about=$OUT/toolyard-$VERSION-x86_64-linux

install_tool() { # CRATE, VERSION, PROGRAM, ARGUMENTS OF CARGO
  # Built quickly: each runs once.
  [ "$("$tools/bin/$3" --version 2>/dev/null | awk '{ print $2 }')" = "$2" ] ||
    "$cargo" install --quiet --locked --config profile.release.lto=false --config profile.release.opt-level=1 \
      --root "$tools" --version "$2" "$1" "${@:4}"
}

fresh "$STAGE"
if [ -n "${TOOLYARD_BIN:-}" ]; then
  install -m 755 "$BIN" "$STAGE/toolyard"
else
  . host/packaging/musl.sh
  # The program lists its packages in a section, which `cargo audit bin` reads.
  install_tool cargo-auditable 0.7.7 cargo-auditable
  PATH=$tools/bin:$PATH \
    CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS="$(host/profile/flags.sh musl) $MUSL_FLAGS" \
    "$cargo" auditable build --profile dist --locked --workspace --bin toolyard --target $MUSL_TARGET
  install -m 755 "target/$MUSL_TARGET/dist/toolyard" "$STAGE/toolyard"
fi
"$STAGE/toolyard" generate "$STAGE"

install_tool cargo-cyclonedx 0.5.9 cargo-cyclonedx
"$tools/bin/cargo-cyclonedx" cyclonedx --quiet --manifest-path host/Cargo.toml --format json \
  --target x86_64-unknown-linux-musl --override-filename toolyard.cdx
mv host/toolyard.cdx.json "$STAGE/"
install_tool cargo-about 0.9.3 cargo-about --features cli
"$tools/bin/cargo-about" generate --locked --offline --fail --manifest-path host/Cargo.toml \
  --config host/packaging/about.toml --target x86_64-unknown-linux-musl \
  --output-file "$STAGE/THIRD-PARTY-LICENSES.txt" host/packaging/licenses.hbs

fresh "$about"
install -D -m 755 "$STAGE/toolyard" "$about/bin/toolyard"
cp -r "$STAGE/completions" "$STAGE/man" "$STAGE/toolyard.cdx.json" "$STAGE/THIRD-PARTY-LICENSES.txt" \
  LICENSE LICENSE-APACHE LICENSE-MIT CHANGELOG.md "$about"
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$OUT" -c "$(basename "$about")" |
  gzip -n -9 >"$about.tar.gz"
rm -rf "$about"
made "$STAGE/toolyard"
made "$about.tar.gz"
