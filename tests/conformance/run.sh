#!/usr/bin/env bash
# Runs the official conformance suites against target/release/toolyard and shows how
# each scenario ended; fails if one did. What the suites and the host said is left in
# target/conformance. `make conformance` builds what this needs.
set -euo pipefail
cd "$(dirname "$0")/../.."

./tests/conformance/install.sh
# As the Makefile builds.
CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS=$(host/profile/flags.sh)
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS
# As part of the workspace, with what it depends on as `cargo test` has built it.
"${CARGO:-cargo}" build --quiet --release --locked --workspace --bin conformance
exec "${CARGO_TARGET_DIR:-target}/release/conformance"
