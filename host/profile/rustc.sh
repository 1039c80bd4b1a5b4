#!/usr/bin/env bash
# The compiler of make (RUSTC_WRAPPER): gives the profile of calls to the crates at opt-level 3, and to no others. The
# profile has nothing about the others, and LLVM would take up to twice as long for them. Those of the registry are
# compiled in one piece, which takes a fifth less processor time (cranelift-codegen 129 s, not 159); our own are compiled
# last, and need both processors. Cargo need not know any of this: a program has the same functions either way.
#
# Not for sh: dash drops variables such as CARGO_BIN_EXE_toolyard-load.
level=0 name= previous=
for argument do
  case $argument in opt-level=*) level=${argument#*=} ;; esac
  [ "$previous" != --crate-name ] || name=$argument
  previous=$argument
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
case $level$name in
  [12]toolyard*) ;;
  [12]*) set -- "$@" -Ccodegen-units=1 ;;
esac
exec "$@"
