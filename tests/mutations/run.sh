#!/usr/bin/env bash
# Checks that tests fail when the tested code is broken: applies each mutation in
# tests/mutations/*.patch alone, builds, runs the one test that it names, and requires that this
# test fails. Before that, all of these tests must pass.
#
#     tests/mutations/run.sh              all, which takes many minutes
#     tests/mutations/run.sh 07 q_10      those whose file or test name contains one of these
#
# The working tree does not change. Mutations are applied to another tree, target/mutants/tree,
# which has the last commit and all changes since in tracked files. It has its own target folder, so
# no mutated binary ever reaches target/release. Logs stay in target/mutants. `make mutants` builds
# what this needs.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly CARGO=${CARGO:-cargo}
mkdir -p target/mutants
ROOT=$(pwd -P)
OUT=$(cd target/mutants && pwd -P)
readonly ROOT OUT TREE=$OUT/tree
# Use those of the tree, not those of the caller.
unset CARGO_TARGET_DIR TOOLYARD_BIN
# With the same flags as the Makefile and the profile of this folder, like the dependencies that are
# copied from it.
CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS=$(host/profile/flags.sh)
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS

# Never the surrounding repository, even if that folder is not one.
in_tree() {
  GIT_CEILING_DIRECTORIES=$OUT git -C "$TREE" "$@"
}

die() {
  echo "run.sh: $*" >&2
  exit 1
}

# Resets the tree to this commit. Git writes only files that differ, so builds stay valid, and with
# the current time, so that cargo notices the changes.
restore() { # COMMIT
  in_tree reset -q --hard "$1"
  in_tree clean -fdq
}

make_tree() { # COMMIT
  if ! in_tree rev-parse --git-dir >/dev/null 2>&1; then
    rm -rf "$TREE"
    git worktree prune
    git worktree add -q --force --detach "$TREE" "$1"
  fi
  restore "$1"
  if [ ! -d "$TREE/target/release" ]; then
    seed
  fi
  rm -rf "$TREE/target/fixtures" "$TREE"/plugins/{dist,extra}
  cp -R target/fixtures "$TREE/target/"
  cp -R plugins/{dist,extra} "$TREE/plugins/"
}

# Copies the built dependencies of the host; the host itself is built here.
seed() {
  local file
  mkdir -p "$TREE/target/release/deps"
  if [ ! -d target/release/deps ]; then return; fi
  echo "Copying the built dependencies" >&2
  cp -Rp target/release/build target/release/.fingerprint "$TREE/target/release/"
  for file in target/release/deps/*.{d,rlib,rmeta,so,dylib}; do
    case $file in
      *toolyard* | *'/*'.*) ;;
      *) cp -p "$file" "$TREE/target/release/deps/" ;;
    esac
  done
}

field() { # PATCH, NAME
  sed -n "/^---/q; s/^$2: //p" "$1"
}

# The cargo target of a test file.
target_of() { # TEST FILE
  local crate=${1#host/crates/} program
  crate=${crate%%/*}
  case $1 in
    tests/it/*) echo "-p toolyard-tests --test it" ;;
    tests/simulation/tests/*)
      echo "--manifest-path tests/simulation/Cargo.toml --target-dir target/simulation --test $(basename "$1" .rs)"
      ;;
    tests/store-contract/*) echo "-p toolyard-store --test it" ;;
    host/crates/*/src/*) echo "-p toolyard-$crate --lib" ;;
    host/crates/*/tests/*)
      program=${1#host/crates/*/tests/}
      program=${program%%/*}
      echo "-p toolyard-$crate --test ${program%.rs}"
      ;;
    *) die "no target is known for $1" ;;
  esac
}

# Builds what a test needs: tests in tests/it run the binary.
build() { # TEST FILE
  local target
  target=$(target_of "$1")
  # Joined by `&&`: errexit has no effect if the caller tests the status.
  (
    cd "$TREE" &&
      case $1 in
        tests/it/*) "$CARGO" build --release --locked --workspace --bin toolyard ;;
      esac &&
      # shellcheck disable=SC2086 # several arguments
      "$CARGO" test --release --locked --no-run $target
  )
}

# Runs a test and prints its outcome: passed, failed, or none if it printed none.
outcome() { # TEST FILE, TEST, LOG
  local target line="^test (.*::)?$2 \.\.\."
  target=$(target_of "$1")
  # shellcheck disable=SC2086 # several arguments
  (cd "$TREE" && "$CARGO" test --release --locked $target -- "$2") >>"$3" 2>&1 || true
  if grep -qE "$line FAILED" "$3"; then
    echo failed
  elif grep -qE "$line ok" "$3"; then
    echo passed
  else
    echo none
  fi
}

chosen=()
for patch in tests/mutations/*.patch; do
  if [ $# -eq 0 ]; then chosen+=("$patch"); fi
  for name in "$@"; do
    case "$(basename "$patch" .patch) $(field "$patch" Test)" in
      *"$name"*)
        chosen+=("$patch")
        break
        ;;
    esac
  done
done
[ ${#chosen[@]} -gt 0 ] || die "no mutation is named like this"

commit=$(git stash create)
commit=${commit:-$(git rev-parse HEAD)}
make_tree "$commit"

echo "Unmutated, all have to pass"
for patch in "${chosen[@]}"; do
  read -r file test < <(field "$patch" Test)
  log=$OUT/$(basename "$patch" .patch).unmutated.log
  build "$file" >"$log" 2>&1 || die "it does not build: see $log"
  [ "$(outcome "$file" "$test" "$log")" = passed ] || die "$test does not pass: see $log"
done

echo
row='%s | %s | %s | %s\n'
{
  # shellcheck disable=SC2059 # the format is above
  printf "$row" mutation test item killed
  # shellcheck disable=SC2059
  printf "$row" --- --- --- ---
} | tee "$OUT/table.md"
survived=0
for patch in "${chosen[@]}"; do
  read -r file test < <(field "$patch" Test)
  log=$OUT/$(basename "$patch" .patch).log
  if ! in_tree apply "$ROOT/$patch" >"$log" 2>&1; then
    killed="does not apply"
  elif ! build "$file" >>"$log" 2>&1; then
    killed="does not build"
  else
    case $(outcome "$file" "$test" "$log") in
      failed) killed=yes ;;
      passed) killed=no ;;
      none) killed="the test gave no result" ;;
    esac
  fi
  restore "$commit"
  [ "$killed" = yes ] || survived=$((survived + 1))
  # shellcheck disable=SC2059
  printf "$row" "$(field "$patch" Breaks)" "$test" "$(field "$patch" Item)" "$killed" | tee -a "$OUT/table.md"
done
echo
echo "$((${#chosen[@]} - survived)) of ${#chosen[@]} mutations were killed"
[ "$survived" -eq 0 ]
