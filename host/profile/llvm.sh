#!/usr/bin/env bash
# Unpacks llvm-profdata of the given LLVM from Debian's unstable suite into target/profiling/llvm, with its
# libraries and their loader, and prints the path of a script that runs it. Nothing is installed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
. tests/debian.sh

readonly LLVM=$1 OUT=$PWD/target/profiling/llvm-$1
readonly LIBRARIES=(libc6 libstdc++6 libgcc-s1 zlib1g libzstd1 libxml2-16 libffi8 libedit2 libtinfo6 libbsd0 libmd0 libz3-4)

if [ ! -x "$OUT/llvm-profdata" ]; then
  is_debian
  mirror=$(debian_mirror)
  [ -n "$mirror" ]
  stage=$OUT.$$
  trap 'rm -rf "$stage"' EXIT
  mkdir -p "$stage"
  write_apt_settings "$stage" "$mirror" sid
  APT_CONFIG=$stage/apt/apt.conf apt-get -q update >&2
  unpack_debian "$stage" "llvm-$LLVM" "libllvm$LLVM" "${LIBRARIES[@]}" >&2
  cat >"$stage/llvm-profdata" <<SCRIPT
#!/bin/sh
root=\$(dirname "\$0")/unpacked/usr
exec "\$root/lib64/ld-linux-x86-64.so.2" --library-path "\$root/lib/x86_64-linux-gnu:\$root/lib/llvm-$LLVM/lib" \\
  "\$root/lib/llvm-$LLVM/bin/llvm-profdata" "\$@"
SCRIPT
  chmod +x "$stage/llvm-profdata"
  "$stage/llvm-profdata" --version >&2
  rm -rf "$stage"/{apt,packages} "$OUT"
  mv "$stage" "$OUT"
fi
echo "$OUT/llvm-profdata"
