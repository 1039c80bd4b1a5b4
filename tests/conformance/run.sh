#!/usr/bin/env bash
# Runs the official conformance suites against target/release/toolyard, and prints the outcome of
# each scenario. Fails if one failed. The output of the suites and of the host stays in
# target/conformance. `make conformance` builds what this needs.
set -euo pipefail
cd "$(dirname "$0")/../.."

./tests/conformance/install.sh
# With the same flags as the Makefile.
CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS=$(host/profile/flags.sh)
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS
# As part of the workspace, so that it reuses the dependencies that `cargo test` has built.
"${CARGO:-cargo}" build --quiet --release --locked --workspace --bin conformance
exec "${CARGO_TARGET_DIR:-target}/release/conformance"
