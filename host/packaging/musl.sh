# Sourced in the root of the repository. Prepares the build of a static program for Linux on x86_64: the Rust
# target, a C compiler for SQLite, mimalloc and ring, and the flags of rustc. Nothing needs root.

MUSL_TARGET=x86_64-unknown-linux-musl
musl=$PWD/target/tools/musl

musl_fail() {
  echo "packaging: cannot build for $MUSL_TARGET: $1" >&2
  exit 1
}

if ! compgen -G "$(rustc --print target-libdir --target $MUSL_TARGET)/libstd-*.rlib" >/dev/null; then
  rustup target add $MUSL_TARGET || musl_fail "rustc has no standard library for it; run: rustup target add $MUSL_TARGET"
fi

# Debian's wrapper of gcc, unpacked, with the paths of this folder.
if command -v musl-gcc >/dev/null; then
  musl_cc=musl-gcc
else
  musl_cc=$musl/musl-gcc
  if [ ! -x "$musl_cc" ]; then
    command -v apt-get >/dev/null || musl_fail "there is no musl-gcc; install the package musl-tools"
    rm -rf "$musl" && mkdir -p "$musl/debs"
    (cd "$musl/debs" && apt-get -qq -o APT::Sandbox::User=root download musl-tools musl-dev)
    for deb in "$musl"/debs/*.deb; do dpkg -x "$deb" "$musl/root"; done
    sed "s#/usr/\(include\|lib\)/x86_64-linux-musl#$musl/root&#g" \
      "$musl/root/usr/lib/x86_64-linux-musl/musl-gcc.specs" >"$musl/specs"
    printf '#!/bin/sh\nexec gcc "$@" -specs "%s"\n' "$musl/specs" >"$musl_cc"
    chmod +x "$musl_cc"
  fi
fi
export CC_x86_64_unknown_linux_musl=$musl_cc AR_x86_64_unknown_linux_musl=ar

# Panics and C assertions name source files: without the folders of the machine that builds.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
# Identical functions once, and relocations in their short form: a sixteenth of the program.
sysroot=$(rustc --print sysroot)/lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld
MUSL_LINK="-Clink-arg=-B$sysroot -Clink-arg=-fuse-ld=lld -Clink-arg=-Wl,--icf=all -Clink-arg=-Wl,-z,pack-relative-relocs"
MUSL_FLAGS="$MUSL_LINK --remap-path-prefix=$PWD=toolyard --remap-path-prefix=$cargo_home=cargo"
export CFLAGS_x86_64_unknown_linux_musl="-ffile-prefix-map=$PWD=toolyard -ffile-prefix-map=$cargo_home=cargo"
