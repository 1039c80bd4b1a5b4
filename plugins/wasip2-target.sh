#!/usr/bin/env bash
# Makes sure that guests can be compiled for wasm32-wasip2. Prints the compiler flags that they need on
# standard output, in the format of CARGO_ENCODED_RUSTFLAGS (separated by the byte 0x1f, so that paths may
# contain spaces). Messages for people go to standard error.
#
#   CARGO_ENCODED_RUSTFLAGS=$(plugins/wasip2-target.sh)
#   export CARGO_ENCODED_RUSTFLAGS
#
# Tries three ways in this order:
#   1. the toolchain, or our private sysroot, has the target already;
#   2. `rustup target add`;
#   3. on Debian: the distribution's sources of the standard library, compiled
#      into target/wasip2-sysroot. This needs neither root nor write access to the
#      toolchain, and the folder appears only when it is complete.
#
# WASIP2_RUSTUP_SECONDS limits the second way (default 90; 0 skips it).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
. tests/debian.sh

target=wasm32-wasip2
sysroot=$root/target/wasip2-sysroot
log=$root/target/wasip2-sysroot.log
rustc=${RUSTC:-rustc}
separator=$'\x1f'

say() { printf 'wasip2: %s\n' "$*" >&2; }

fail() {
    say "cannot get the Rust target $target."
    say "$1"
    say "On a machine with rustup: rustup target add $target"
    exit 1
}

has_std() { compgen -G "$1/libstd-*.rlib" >/dev/null; }

toolchain_has_target() {
    has_std "$("$rustc" --print target-libdir --target "$target" 2>/dev/null)"
}

# The standard library must come from the very compiler that uses it. So the sysroot records its compiler, and
# is rebuilt after an update of Rust.
sysroot_fits() {
    has_std "$sysroot/lib/rustlib/$target/lib" &&
        [ "$(cat "$sysroot/compiler" 2>/dev/null)" = "$("$rustc" -vV)" ]
}

print_flags() {
    local cargo_home=${CARGO_HOME:-${HOME:-/nonexistent}/.cargo}
    # A guest contains the paths of its sources in panic messages. The flags hide the build machine's folders,
    # and let equal sources give equal bytes.
    local flags="--remap-path-prefix=$root=.${separator}--remap-path-prefix=$cargo_home=cargo"
    if [ "$1" = private ]; then
        flags="--sysroot${separator}$sysroot${separator}$flags"
    fi
    printf '%s\n' "$flags"
}

finish_if_present() {
    if toolchain_has_target; then
        print_flags toolchain
        exit 0
    fi
    if sysroot_fits; then
        print_flags private
        exit 0
    fi
}

add_by_rustup() {
    local seconds=${WASIP2_RUSTUP_SECONDS:-90}
    [ "$seconds" != 0 ] && command -v rustup >/dev/null || return 1
    say "asking rustup for $target (at most $seconds s) ..."
    local limit=()
    command -v timeout >/dev/null && limit=(timeout "$seconds")
    # By default, rustup retries an unreachable server several times.
    if RUSTUP_MAX_RETRIES=0 ${limit[@]+"${limit[@]}"} rustup target add "$target" >"$log" 2>&1 </dev/null &&
        toolchain_has_target; then
        say "rustup has added it."
        return 0
    fi
    local reason
    reason=$(grep -m1 '^error' "$log" | cut -c1-160) || reason="no answer in time"
    say "rustup cannot (${reason#error: }); taking the next way."
    return 1
}

# --- The third way -----------------------------------------------------------

fetch_debian_sources() {
    local stage=$1 release=$2
    APT_CONFIG=$stage/apt/apt.conf apt-get -q update
    unpack_debian "$stage" "rust-src=$release*" wasi-libc
}

lay_out_sysroot() {
    local stage=$1 release=$2 host=$3 lib=$1/sysroot/lib/rustlib
    local crt
    crt=$(find "$stage/unpacked" -path "*/$target/crt1-reactor.o" -print -quit)
    [ -n "$crt" ] || { echo "wasi-libc has no files for $target"; return 1; }
    mkdir -p "$lib/src/rust" "$lib/$target/lib/self-contained"
    # The linker for components is in the host part of the toolchain.
    ln -s "$("$rustc" --print sysroot)/lib/rustlib/$host" "$lib/$host"
    mv "$stage/unpacked/usr/src/rustc-$release/library" "$lib/src/rust/library"
    cp "${crt%/*}"/{crt1-command.o,crt1-reactor.o,libc.a} "$lib/$target/lib/self-contained/"
}

compile_std() {
    local stage=$1 lib=$1/sysroot/lib/rustlib/$target/lib
    mkdir -p "$stage/empty/src"
    : >"$stage/empty/src/lib.rs"
    # A workspace of its own, or cargo would search the parent folders for one.
    printf '[package]\nname = "empty"\nversion = "0.0.0"\nedition = "2024"\n[workspace]\n' >"$stage/empty/Cargo.toml"
    # The paths of the library's sources also end up in guests. Without the flag, they would name a temporary
    # folder, which differs in each build.
    printf '#!/bin/sh\nexec "%s" "$@" --sysroot "%s" --remap-path-prefix "%s=rust"\n' \
        "$(command -v "$rustc")" "$stage/sysroot" "$stage/sysroot/lib/rustlib/src/rust" >"$stage/rustc"
    chmod +x "$stage/rustc"
    # A stable compiler builds its own standard library only with RUSTC_BOOTSTRAP, which exists for this
    # purpose.
    (cd "$stage/empty" && unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_TARGET &&
        RUSTC=$stage/rustc RUSTC_BOOTSTRAP=1 cargo build --release --target "$target" \
            -Zbuild-std=std,panic_abort --target-dir "$stage/build")
    find "$stage/build/$target/release/deps" -name '*.rlib' ! -name 'libempty-*' -exec cp {} "$lib/" \;
    # From here on only the compiled library is needed.
    rm -rf "$stage/sysroot/lib/rustlib/src"
    "$rustc" -vV >"$stage/sysroot/compiler"
    has_std "$lib"
}

build_from_debian() {
    local release host mirror
    release=$("$rustc" -vV | sed -n 's/^release: //p')
    host=$("$rustc" -vV | sed -n 's/^host: //p')
    [ -r /etc/os-release ] && [ "$(. /etc/os-release && printf '%s' "${ID:-}")" = debian ] ||
        fail "rustup did not provide it, and this system is not Debian, whose sources would be the other way."
    local tool
    for tool in apt-get dpkg-deb cargo; do
        command -v "$tool" >/dev/null || fail "$tool is missing."
    done
    mirror=$(debian_mirror)
    [ -n "$mirror" ] || fail "The apt sources of this system name no mirror of its release."

    # Not local: the trap that removes it runs after the function.
    stage=$root/target/wasip2-sysroot.stage.$$
    trap 'rm -rf "$stage"' EXIT
    rm -rf "$root"/target/wasip2-sysroot.stage.*
    mkdir -p "$stage"
    say "building the standard library of Rust $release from Debian's sources (about a minute, 50 MB) ..."
    # bash ignores `set -e` inside any command whose status is tested, so the status is tested afterwards.
    local status
    set +e
    (
        set -e
        # Suites with the standard library of a current compiler, and wasi-libc with files for wasip2. Suites
        # that lack one of them cost a few megabytes.
        write_apt_settings "$stage" "$mirror" trixie-backports forky sid trixie
        fetch_debian_sources "$stage" "$release"
        lay_out_sysroot "$stage" "$release" "$host"
        compile_std "$stage"
    ) >"$log" 2>&1 </dev/null
    status=$?
    set -e
    if [ "$status" != 0 ]; then
        grep -vE '^(Get|Hit|Fetched|Reading|Building)' "$log" | tail -n 12 | sed 's/^/wasip2: | /' >&2
        fail "Building it from Debian's sources failed, see above; all of it is in target/${log##*/}."
    fi
    rm -rf "$sysroot"
    mv "$stage/sysroot" "$sysroot"
    say "done: target/${sysroot##*/}"
}

# --- Main --------------------------------------------------------------------

command -v "$rustc" >/dev/null || fail "There is no Rust compiler ($rustc) on the path."
finish_if_present

mkdir -p "$root/target"
# Two builds at the same time would both fetch and compile. The second waits, and then finds the work done.
if command -v flock >/dev/null; then
    exec 9>"$root/target/wasip2-sysroot.lock"
    flock -n 9 || { say "another build is getting $target; waiting for it ..." && flock 9; }
    finish_if_present
fi
add_by_rustup || build_from_debian
finish_if_present
fail "It was built, but the compiler does not find it."
