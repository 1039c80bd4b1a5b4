#!/usr/bin/env bash
# Builds the static program for Linux on x86_64, optimised by its recorded profile of calls, and what comes
# with it: completions, man pages, licences and the list of packages (SBOM). They go to the stage folder, from
# which the other artefacts take them, and into a tarball. TOOLYARD_BIN=PATH skips the build.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cargo=${CARGO:-cargo}
tools=$ROOT/target/tools
target=x86_64-unknown-linux-musl
about=$OUT/toolyard-$VERSION-x86_64-linux

install_tool() { # CRATE, VERSION, ARGUMENTS OF CARGO
  # Not every tool prints its own version, but cargo lists what it installed.
  grep -qsF "\"$1 $2 " "$tools/.crates.toml" && return
  # Built quickly, because each runs once, and without the profile of calls, which make switches on for the host.
  env -u CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS "$cargo" install --quiet --locked \
    --config profile.release.lto=false --config profile.release.opt-level=1 \
    --root "$tools" --version "$2" "$1" "${@:3}"
}

write_sbom() {
  install_tool cargo-cyclonedx 0.5.9
  # It writes a file for each program of the workspace, beside its manifest.
  find host tests -name '*_bin.cdx.json' -delete
  "$tools/bin/cargo-cyclonedx" cyclonedx --quiet --manifest-path host/Cargo.toml --format json --spec-version 1.5 \
    --target "$target" --no-build-deps --describe binaries
  # It lists optional packages that no feature enables; the tree does not.
  "$cargo" tree --locked --package toolyard --target "$target" --edges normal --prefix none |
    python3 host/packaging/sbom.py host/toolyard_bin.cdx.json "$ROOT" >"$STAGE/toolyard.cdx.json"
  find host tests -name '*_bin.cdx.json' -delete
}

write_licences() {
  local library musl notices=$STAGE/THIRD-PARTY-LICENSES.txt
  install_tool cargo-about 0.9.3 --features cli
  # The licences that the policy allows.
  python3 -c 'import json, sys, tomllib
print("accepted =", json.dumps(tomllib.load(sys.stdin.buffer)["licenses"]["allow"]))
print("ignore-build-dependencies = true\nignore-dev-dependencies = true")' <deny.toml >"$OUT/about.toml"
  "$tools/bin/cargo-about" generate --locked --offline --fail --manifest-path host/Cargo.toml \
    --config "$OUT/about.toml" --target "$target" --output-file "$notices" host/packaging/licenses.hbs
  rm "$OUT/about.toml"
  # No package of Cargo has the standard library and libc, which are in a static program too.
  library=$(rustc --print sysroot)/share/doc/rust/COPYRIGHT-library.html
  [ -f "$library" ] || die "there is no $library; reinstall the Rust toolchain with rustup"
  heading "The Rust standard library" >>"$notices"
  python3 -c 'import html, re, sys
text = html.unescape(re.sub("<[^>]*>", "", sys.stdin.read()))
print(re.sub(r"\n\s*\n+", "\n\n", text).strip())' <"$library" >>"$notices"
  heading "musl, the C library" >>"$notices"
  musl=$(musl_notice)
  if [ -n "$musl" ]; then
    cat "$musl" >>"$notices"
  else
    # Only a program that this script builds is linked with musl for certain.
    [ -n "${TOOLYARD_BIN:-}" ] || die "there is no copyright file of musl; install the Debian package musl-dev"
    echo "packaging: the licences lack those of musl" >&2
  fi
}

musl_notice() {
  local doc
  for doc in target/tools/musl/root/usr/share/doc/musl-dev /usr/share/doc/musl-dev /usr/share/doc/musl; do
    [ ! -f "$doc/copyright" ] || { echo "$doc/copyright"; return; }
  done
}

heading() { # TEXT
  printf '\n%s\n%s\n\n' "$(printf '=%.0s' {1..80})" "$1"
}

[ "$BIN" = "$STAGE/toolyard" ] && [ -n "${TOOLYARD_BIN:-}" ] &&
  die "TOOLYARD_BIN is in the stage folder, which this script empties; copy the program elsewhere"
fresh "$STAGE"
write_sbom
if [ -n "${TOOLYARD_BIN:-}" ]; then
  install -m 755 "$BIN" "$STAGE/toolyard"
else
  . host/packaging/musl.sh
  CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS="$(host/profile/flags.sh musl) $MUSL_FLAGS" \
    "$cargo" build --profile dist --locked --workspace --bin toolyard --target "$target"
  # The program lists its packages in a section, which `cargo audit bin` reads.
  python3 host/packaging/auditable.py "$STAGE/toolyard.cdx.json" >"$OUT/dep-v0"
  # Every toolchain has this program, and that of binutils does not read the short relocations.
  "$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/rust-objcopy" \
    --add-section .dep-v0="$OUT/dep-v0" "target/$target/dist/toolyard" "$STAGE/toolyard"
  rm "$OUT/dep-v0"
fi
"$STAGE/toolyard" generate "$STAGE"
write_licences

fresh "$about"
install -D -m 755 "$STAGE/toolyard" "$about/bin/toolyard"
cp -r "$STAGE/completions" "$STAGE/man" "$STAGE/toolyard.cdx.json" "$STAGE/THIRD-PARTY-LICENSES.txt" \
  LICENSE LICENSE-APACHE LICENSE-MIT CHANGELOG.md "$about"
package_readme >"$about/README.md"
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$OUT" -c "$(basename "$about")" |
  gzip -n -9 >"$about.tar.gz"
rm -rf "$about"
made "$STAGE/toolyard"
made "$about.tar.gz"
