#!/usr/bin/env bash
# Makes the artefacts of a release in target/package/VERSION, or only those that are named:
#
#   host/packaging/package.sh [ARTEFACT…]
#
# TOOLYARD_BIN=PATH packages that program instead of building one.
set -euo pipefail
. "$(dirname "$0")/common.sh"

# The order matters: `binary` makes the program that the others contain, `server` has the checksum of
# the mcpb, and `sums` has those of all.
readonly ARTEFACTS=(binary deb image npm pypi mcpb server sums)

[ $# != 0 ] || set -- "${ARTEFACTS[@]}"
for artefact in "$@"; do
  case " ${ARTEFACTS[*]} " in
    *" $artefact "*) ;;
    *) die "there is no artefact $artefact; the artefacts are ${ARTEFACTS[*]}" ;;
  esac
done
for artefact in "$@"; do
  echo "== $artefact"
  "$ROOT/host/packaging/$artefact.sh"
done
