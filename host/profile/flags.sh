#!/usr/bin/env bash
# Prints the flags by which rustc optimises with calls.profdata, the recorded profile of calls, or
# nothing where the profile cannot be used. The Makefile exports them in the variable of Cargo's for
# this machine's target, CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS; scripts that build the host
# without make do the same. A `cargo build` without the variable compiles plainly.
#
# A profile tells rustc where to optimise for speed and where to keep code apart; it does not change
# what the program does. TOOLYARD_PROFILE=record prints the flags for a program that counts instead
# (record.sh), TOOLYARD_PROFILE=off prints none.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)

# Cargo splits the variable at white space, so that no path with white space can be in it.
case ${TOOLYARD_PROFILE:-}$here in
  off* | *[[:space:]]*) exit ;;
esac
if [ "${TOOLYARD_PROFILE:-}" = record ]; then
  echo "-Cprofile-generate=${here%/host/profile}/target/profiling/children"
  exit
fi
# Another rustc than the profile's cannot read it.
{ read -r hash && read -r host; } <"$here/calls.rustc"
case $("${RUSTC:-rustc}" -vV 2>/dev/null || true) in
  *"$hash"*"$host"*) ;;
  *) exit ;;
esac
# Cargo does not look into the file. With its sum among the flags, everything is compiled again when
# the profile has changed. Of functions that have changed since, the profile says nothing; that is no
# cause for a warning each.
read -r sum _ < <(cksum "$here/calls.profdata")
echo "--cfg=profiled --cfg=profile_sum=\"$sum\" -Cprofile-use=$here/calls.profdata -Cllvm-args=-no-pgo-warn-mismatch"
