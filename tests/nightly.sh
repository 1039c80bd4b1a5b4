#!/usr/bin/env bash
# `make nightly`: campaigns, and the tests that take too long for each landing. They are in parts:
#
#   tests/nightly.sh [durability|clients|languages|packages|fuzz|cost]…
#
# Each part builds and installs what it needs, and takes at most 40 minutes. It ends with one line, which also joins
# target/nightly.txt. NIGHTLY=SEED repeats a run with its seed, which otherwise is the number of the day.
set -uo pipefail
cd "$(dirname "$0")/.."

readonly PARTS=(durability clients languages packages fuzz cost)
readonly MINUTES=40
export NIGHTLY=${NIGHTLY:-$(($(date +%s) / 86400))}
# The simulation begins at the same seeds as on that day.
export SIMULATE_FROM=$((NIGHTLY * 1000000))
# A missing tool is an error.
export CI=true

# Each ignored test names its part, and one of the prefixes of the part selects it (tests/tidy.rs). The last four of
# durability are part of each landing, which has fewer races and cases.
prefixes() { # PART
  case $1 in
    durability) echo chaos:: detached::kills:: soak:: contract:: postgres:: journal::cuts:: mutation:: ;;
    clients) echo clients:: inspector:: bridge::clients:: bridge::keeping:: console:: observed:: rmcp:: ;;
    languages) echo book:: desk:: languages:: ;;
    packages) echo published:: examples:: tools:: ;;
  esac
}

end_to_end() { # PREFIXES…
  make cargo ARGS="test --release --locked --workspace --test it -- --include-ignored $*"
}

run() { # PART
  set -e
  case $1 in
    durability)
      make build fixtures
      ./tests/postgres/install.sh
      end_to_end $(prefixes durability)
      SIMULATE_SEEDS=${SIMULATE_SEEDS:-10000} make simulation SIMULATION_ARGS=--include-ignored
      ;;
    clients)
      make build fixtures clients
      ./tests/clients/install.sh agents frameworks suites
      ./tests/conformance/install.sh
      end_to_end $(prefixes clients)
      make bridge-full
      ;;
    languages)
      make build fixtures examples clients CLIENTS=typescript
      end_to_end $(prefixes languages)
      ;;
    packages)
      make build fixtures failpoints
      ./tests/published/install.sh
      ./tests/nginx/install.sh
      ./tests/registry/install.sh clients
      ./tests/deployments/install.sh
      ./tests/postgres/install.sh
      end_to_end $(prefixes packages)
      export TOOLYARD_BIN=target/release/toolyard
      ./host/packaging/package.sh pypi deb
      ./host/packaging/test.sh pypi guides workflows
      ./tests/deployments/check.sh
      ;;
    fuzz) ./tests/fuzz/run.sh ;;
    cost)
      ./tests/valgrind/install.sh
      make build fixtures budget
      ;;
  esac
}

part() { # PART
  local log=target/nightly-$1.log began=$SECONDS status=0 counts minutes
  echo "== nightly $1, seed $NIGHTLY"
  mkdir -p target
  timeout --kill-after=30s "${MINUTES}m" "$0" --run "$1" 2>&1 | tee "$log" || status=$?
  counts=$(awk -f tests/count.awk "$log")
  minutes=$(awk -v seconds=$((SECONDS - began)) 'BEGIN { printf "%.1f", seconds / 60 }')
  case $status in
    0) ;;
    124) counts+="; stopped after $MINUTES minutes" ;;
    *) counts+="; status $status" ;;
  esac
  echo "nightly $1: commit $(git rev-parse --short HEAD), seed $NIGHTLY, $minutes minutes, $counts" | tee -a target/nightly.txt
  [ "$status" = 0 ]
}

if [ "${1:-}" = --run ]; then
  run "$2"
  exit
fi
[ $# != 0 ] || set -- "${PARTS[@]}"
for name in "$@"; do
  case " ${PARTS[*]} " in
    *" $name "*) ;;
    *)
      echo "nightly.sh: there is no part $name; the parts are ${PARTS[*]}" >&2
      exit 2
      ;;
  esac
done
failed=0
for name in "$@"; do part "$name" || failed=1; done
exit "$failed"
