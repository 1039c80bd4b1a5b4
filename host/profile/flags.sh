#!/usr/bin/env bash
# Prints the flags by which rustc optimises with calls.profdata, the recorded profile of calls, or
# nothing if the profile cannot be used. `flags.sh musl` is for the packaged static program, whose functions
# have other symbols: it uses calls-musl.profdata. The Makefile exports them in Cargo's variable for this machine's
# target, CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS; scripts that build the host without make do
# the same. A `cargo build` without the variable compiles without the profile.
#
# A profile tells rustc where to optimise for speed and where to keep code apart; it does not change
# what the program does. TOOLYARD_PROFILE=record prints the flags for a program that counts instead
# (record.sh); TOOLYARD_PROFILE=off prints none.
set -euo pipefail
calls=calls${1:+-$1}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)

# Cargo splits the variable at white space, so it cannot contain a path with white space.
case ${TOOLYARD_PROFILE:-}$here in
  off* | *[[:space:]]*) exit ;;
esac
if [ "${TOOLYARD_PROFILE:-}" = record ]; then
  echo "-Cprofile-generate=${here%/host/profile}/target/profiling/children"
  exit
fi
# Only the rustc that recorded the profile can read it.
{ read -r hash && read -r host; } <"$here/calls.rustc"
case $("${RUSTC:-rustc}" -vV 2>/dev/null || true) in
  *"$hash"*"$host"*) ;;
  *) exit ;;
esac
# Cargo does not track the file, so its checksum is part of its path: everything is compiled again when the profile
# has changed. The path is the same in every clone, or each clone would have names of its own for the same crate
# (host/build-cache.sh). The profile has no data about functions that have changed since; the last flag prevents a
# warning for each of them.
read -r sum _ < <(cksum "$here/$calls.profdata")
profile=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/toolyard/profile/$calls-$sum.profdata
if [[ $profile = *[[:space:]]* ]] || ! mkdir -p "${profile%/*}" 2>/dev/null; then
  profile=$here/$calls.profdata
elif ! cmp -s "$here/$calls.profdata" "$profile"; then
  cp "$here/$calls.profdata" "$profile.$$" && mv "$profile.$$" "$profile"
fi
echo "--cfg=profiled -Cprofile-use=$profile -Cllvm-args=-no-pgo-warn-mismatch"
