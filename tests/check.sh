#!/usr/bin/env bash
# `make check`: formatting, clippy, the rules of the workspace, and the unit tests of the crates that changed since
# BASE. BASE is the branch that this one follows, else main; on main itself, only what is not committed counts.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
quick=(--config tests/quick.toml)

base=${BASE:-$(git rev-parse --verify --quiet --abbrev-ref '@{upstream}' || echo main)}
since=$(git merge-base "$base" HEAD)
# The folders with a Cargo.toml that have changed files.
changed=$({ git diff --name-only "$since"; git ls-files --others --exclude-standard; } |
  sed -nE 's#^(host/crates/[^/]+|tests/(kit|load|readers|store-contract)|tests|host)/.*\.rs$#\1#p' | sort -u)

"$cargo" fmt --all --check
"$cargo" clippy --release --locked --workspace --all-targets --quiet -- -D warnings
# The rules read all files, whichever changed.
"$cargo" "${quick[@]}" test --release --locked --workspace --quiet --test tidy --test checklist
if [ -z "$changed" ]; then
  echo "check: no crate has changed since $base"
  exit
fi
# With the features of the whole workspace, so that nothing is compiled again; only the changed crates' tests run.
"$cargo" "${quick[@]}" test --release --locked --workspace --lib --no-run --message-format=json-render-diagnostics |
  python3 -c '
import json, os, subprocess, sys

changed = {os.path.abspath(folder) for folder in sys.argv[1:]}
failed = []
for line in sys.stdin:
    found = json.loads(line)
    if found.get("executable") and found["profile"]["test"]:
        folder = os.path.dirname(found["manifest_path"])
        if folder in changed:
            print("check:", os.path.relpath(folder), flush=True)
            if subprocess.run([found["executable"], "--quiet"], cwd=folder).returncode:
                failed.append(os.path.relpath(folder))
sys.exit("check: tests failed in " + ", ".join(failed) if failed else 0)
' $changed
