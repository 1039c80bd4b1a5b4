//! The interfaces of WASI 0.2 that a component may import.

/// All interfaces, without `wasi:` and version. How a run with a journal repeats their functions is written beside the
/// tests of its linker (`run/recorded_linker/tests/functions.rs`), which compare them with those of wasmtime-wasi.
const INTERFACES: [&str; 29] = [
    "cli/environment",
    "cli/exit",
    "cli/stdin",
    "cli/stdout",
    "cli/stderr",
    "cli/terminal-input",
    "cli/terminal-output",
    "cli/terminal-stdin",
    "cli/terminal-stdout",
    "cli/terminal-stderr",
    "clocks/monotonic-clock",
    "clocks/wall-clock",
    "filesystem/preopens",
    "filesystem/types",
    "http/outgoing-handler",
    "http/types",
    "io/error",
    "io/poll",
    "io/streams",
    "random/insecure",
    "random/insecure-seed",
    "random/random",
    "sockets/instance-network",
    "sockets/ip-name-lookup",
    "sockets/network",
    "sockets/tcp",
    "sockets/tcp-create-socket",
    "sockets/udp",
    "sockets/udp-create-socket",
];

/// Whether the host provides an interface of this name, such as `cli/exit`.
pub(crate) fn has_interface(name: &str) -> bool {
    INTERFACES.contains(&name)
}
