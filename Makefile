# Needs a Rust toolchain (1.95 or newer), a C compiler and make. It fetches everything else itself, and
# nothing needs root.

CARGO ?= cargo

# Everything that make builds is optimised by the recorded profile of calls; a plain `cargo build` is
# not. This Cargo variable enables the profile for this target only: components are built without it.
# Cargo distinguishes builds by this variable, so plain builds and these can share a folder.
# TOOLYARD_PROFILE=off disables the profile, and so do your own RUSTFLAGS
# (host/docs/decisions/0023-a-profile-of-calls.md).
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS := $(shell ./host/profile/flags.sh)
export RUSTC_WRAPPER ?= $(CURDIR)/host/profile/rustc.sh

# LINT=1: clippy compiles what the tests are made of, and refuses warnings, as `make lint` does. Clippy alone would first
# check all dependencies once more. It is no part of the product's build, because it changes how rustc optimises.
ifdef LINT
CLIPPY := --config 'build.rustc-workspace-wrapper="clippy-driver"'
# The variable by which `cargo clippy -- -D warnings` passes its arguments to clippy-driver.
export CLIPPY_ARGS := -D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
endif

# For all tests except those that count instructions.
QUICK := --config tests/quick.toml $(CLIPPY)

PLUGINS_DIST := plugins/dist
BIN := target/release/toolyard
# Not --locked: if the dependencies of the host's crates change, Cargo.lock there must change too.
SIMULATION := $(CARGO) test --release --manifest-path tests/simulation/Cargo.toml --target-dir target/simulation

.DEFAULT_GOAL := help
.PHONY: help build host cargo profile plugins fixtures examples first-build serve test budget format lint audit clients published conformance bench bench-full bridge-full nightly check test-one simulation compare soak chaos failpoints fuzz screenshots simulate mutants package fmt clean

help: ## What can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

build: plugins host ## The binary and the shipped plugins

# One profile for the build and the tests, so that wasmtime is compiled once. With the features of the
# whole workspace, because the profile of calls identifies functions by the features of their crates.
host:
	@./host/build-cache.sh restore
	$(CARGO) build --release --locked --workspace --bin toolyard
	@./host/build-cache.sh store

cargo: ## Run cargo as make does: make cargo ARGS="test --release --workspace NAME"
	$(CARGO) $(if $(filter test,$(firstword $(ARGS))),$(QUICK)) $(ARGS)

profile: build fixtures ## Record the profile of calls again, which every build by make optimises with
	./host/profile/record.sh

plugins:
	./plugins/build.sh

fixtures:
	./tests/fixtures/build.sh

examples: host ## Build the examples of every language (EXAMPLES selects some), with tools that are fetched for it
	./examples/plugins/build.sh $(EXAMPLES)

# A first build takes 800 to 1,900 seconds of processors, some of them one after another.
first-build:
	@[ -x $(BIN) ] || getconf _NPROCESSORS_ONLN | awk '{ \
		printf "A first build compiles about 450 crates: %d to %d minutes with %d processors.\n", 3 + 650 / $$1 / 60, 4 + 1900 / $$1 / 60, $$1; \
		print "Packages that need no build are made, and not published yet: host/docs/getting-started/install.md" }' >&2

serve: first-build build ## Build everything, then serve plugins/dist at http://127.0.0.1:7420/mcp
	exec $(BIN) serve --plugins $(PLUGINS_DIST)

# Of the languages and clients, those that a landing needs; `make nightly` takes all, with the optimised program.
test: EXAMPLES := rust typescript desk-rust desk-typescript
test: CLIENTS := typescript second-python
# The program with fail points, which is not optimised: it builds in half of the time.
test: export TOOLYARD_BIN := $(CURDIR)/target/release/toolyard-failpoints
test: plugins fixtures failpoints clients ## Build what tests need, then run them and the conformance suites (minutes: CONTRIBUTING.md)
	TOOLYARD=$(TOOLYARD_BIN) ./examples/plugins/build.sh $(EXAMPLES)
	cd plugins && $(CARGO) $(CLIPPY) test --locked --release --target-dir ../target/plugins-native
	cd examples/plugins/rust && $(CARGO) test --locked --release --target-dir ../../../target/plugins-native
# All failures at once, because a run takes long.
	$(CARGO) $(QUICK) test --release --locked --workspace --no-fail-fast
	$(MAKE) simulation
	./tests/conformance/run.sh

check: ## Formatting, clippy, the rules of the workspace, and unit tests of what changed since main (BASE), in two minutes
	./tests/check.sh

# Without --workspace, which would compile the tests of every crate.
test-one: ## One end-to-end test: NAME is in its name; T=tidy or T=checklist selects another program
	$(CARGO) $(QUICK) test --release --locked -p toolyard-tests --test $(or $(T),it) -- $(NAME)

nightly: ## What takes too long for each landing: PART=durability|clients|languages|packages|fuzz|cost, or all of them
	./tests/nightly.sh $(PART)

simulation:
	$(SIMULATION) -- --nocapture $(SIMULATION_ARGS)

budget: ## Count the instructions of the parts of a call; UPDATE_BUDGET=1 rewrites what they may be
	$(CARGO) test --release --locked --workspace --test budget

# The program with fail points, at which tests stop it: only `toolyard` and its store are compiled
# once more.
failpoints:
	@./host/build-cache.sh restore
	$(CARGO) $(QUICK) build --release --locked --workspace --bin toolyard-failpoints --features toolyard/failpoints

clients:
	./tests/clients/install.sh $(CLIENTS)
	./tests/console/install.sh
	./tests/conformance/install.sh
	./tests/postgres/install.sh
	./tests/registry/install.sh

conformance: build fixtures ## Run the official conformance suites
	./tests/conformance/run.sh

published: ## Fetch the published components that tests run
	./tests/published/install.sh

format:
	$(CARGO) fmt --all --check
	cd tests/simulation && $(CARGO) fmt --check
	cd plugins && $(CARGO) fmt --all --check

lint: format ## Formatting and clippy, warnings refused
	cd plugins && $(CARGO) clippy --locked --all-targets --target-dir ../target/plugins-native -- -D warnings
	$(CARGO) clippy --release --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --release --locked --workspace --bin toolyard-failpoints --features toolyard/failpoints -- -D warnings

# Not part of CI, whose machines cannot reach the database of advisories.
audit: ## Licences, banned crates and sources of all dependencies; advisories where their database can be reached
	./tests/audit/run.sh

screenshots: build clients ## Draw the pictures of the console in the docs again
	UPDATE_DOCS=1 $(CARGO) $(QUICK) test --release --locked --workspace --test it -- console::the_pictures

fuzz: ## Fuzz what parses, briefly (FUZZ_SECONDS for longer)
	./tests/fuzz/run.sh

simulate: ## A hundred thousand (SIMULATE_SEEDS) runs of several hosts on one store, and of clients without tasks; SEED replays one
	SIMULATE_SEEDS=$${SIMULATE_SEEDS:-100000} $(SIMULATION) --test seeds --test bridge -- --nocapture

mutants: build fixtures ## Break the host in small ways, and require that tests fail each time; long (BASE)
	./tests/mutations/run.sh
	./tests/mutations/generated.sh $(BASE)

bench: build fixtures examples ## The benchmarks, in minutes
	./tests/load/bench.sh

compare: build fixtures ## Calls and tasks of the host beside those of another build of it (BASE=path/to/toolyard)
	./tests/valgrind/install.sh
	$(CARGO) build --release --locked --workspace
	target/release/toolyard-load compare $(BASE)

soak: build fixtures ## Hostile and honest calls for 20 minutes (SOAK_MINUTES)
	$(CARGO) build --release --locked --workspace
	target/release/soak

chaos: build fixtures ## Kill a host under load 1,000 times, 100,000 races, 30 minutes of disasters (CHAOS_KILLS, _RACES, _MINUTES)
	$(CARGO) build --release --locked --workspace
	target/release/chaos

bridge-full: build fixtures clients ## Clients without tasks at their real timeouts, which make test divides by ten
	BRIDGE_FULL=1 $(CARGO) $(QUICK) test --release --locked --workspace --test it -- --include-ignored bridge::clients bridge::keeping

bench-full: build fixtures examples ## The benchmarks, longer
	BENCH_FULL=1 ./tests/load/bench.sh

package: plugins ## Make the artefacts of a release in target/package, and test them (host/packaging)
	./host/packaging/package.sh
	./host/packaging/test.sh

fmt:
	$(CARGO) fmt --all
	cd tests/simulation && $(CARGO) fmt
	cd plugins && $(CARGO) fmt --all
	cd examples/plugins/rust && $(CARGO) fmt --all
	cd tests/fixtures && $(CARGO) fmt --all

clean:
	$(CARGO) clean
	# Folders in it contain files of their users, so they stay.
	rm -f plugins/dist/*.wasm plugins/dist/*.toml plugins/extra/*.wasm plugins/extra/*.toml
