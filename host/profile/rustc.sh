#!/usr/bin/env bash
# What Cargo calls in place of rustc (.cargo/config.toml), with rustc and its arguments. What is
# optimised for speed, for this machine, is optimised by calls.profdata; the rest (guests, build
# scripts, macros, clippy) is left as it is, and all of it with another rustc than the profile's:
# that could not read it.
#
# A profile tells rustc where to optimise for speed and what to keep apart; it changes nothing of
# what the program does. With TOOLYARD_PROFILE=record the program counts instead, for record.sh.
#
# It runs for each crate, so no programs are started that the shell can do without. Not for sh:
# dash drops from the environment what is no name to it, such as CARGO_BIN_EXE_toolyard-load.
optimised= linked= before=
for argument; do
  case $before,$argument in
    -C,opt-level=3) optimised=yes ;;
    *,--emit=*link*) linked=yes ;;
    *,--target | *,--target=*) exec "$@" ;;
  esac
  before=$argument
done
[ "$optimised,$linked" = yes,yes ] || exec "$@"

here=${0%/*}
if [ "${TOOLYARD_PROFILE:-}" = record ]; then
  exec "$@" -Cprofile-generate="$here/../../target/profiling/children"
fi
{ read -r hash && read -r host; } <"$here/calls.rustc"
case $("$1" -vV) in
  # Of functions that have changed since, the profile says nothing; that is no cause for a warning each.
  *"$hash"*"$host"*) set -- "$@" --cfg=profiled -Cprofile-use="$here/calls.profdata" -Cllvm-args=-no-pgo-warn-mismatch ;;
esac
exec "$@"
