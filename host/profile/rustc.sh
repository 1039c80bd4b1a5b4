#!/usr/bin/env bash
# The compiler of make (RUSTC_WRAPPER): gives the profile of calls to the crates at opt-level 3, and to no others. The
# profile has nothing about the others, and LLVM would take up to twice as long for them. Cargo need not know which
# crates have it: a program has the same functions either way.
#
# Not for sh: dash drops variables such as CARGO_BIN_EXE_toolyard-load.
level=0
for argument do
  case $argument in opt-level=*) level=${argument#*=} ;; esac
done
if [ "$level" != 3 ]; then
  for argument do
    shift
    case $argument in
      -Cprofile-use=* | -Cllvm-args=-no-pgo-warn-mismatch) ;;
      *) set -- "$@" "$argument" ;;
    esac
  done
fi
exec "$@"
