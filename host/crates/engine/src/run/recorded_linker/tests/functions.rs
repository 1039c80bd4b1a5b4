//! How a run with a journal repeats each function of WASI.

/// How a run that is repeated gets what a function gave to the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repetition {
    /// From the journal: the function is replaced, or the host's port behind it records.
    Recorded,
    /// By executing it again: it depends on nothing but the guest's own calls and what these gave.
    Executed,
    /// The function needs a descriptor, a socket or the like, which no tool that resumes has: manifests refuse it the
    /// grants.
    Refused,
}

use Repetition::{Executed, Recorded, Refused};

/// An interface: its name without `wasi:` and version, and its functions, parted by spaces, without the marks of the
/// component model. `tcp-socket.*` stands for every function of a resource that no tool gets.
type WasiInterface = (&'static str, &'static [(Repetition, &'static str)]);

/// All interfaces. A test compares their functions with those of wasmtime-wasi.
pub(super) const INTERFACES: [WasiInterface; 29] = [
    ("cli/environment", &[(Recorded, "get-environment"), (Executed, "get-arguments initial-cwd")]),
    ("cli/exit", &[(Executed, "exit exit-with-code")]),
    ("cli/stdin", &[(Executed, "get-stdin")]),
    ("cli/stdout", &[(Executed, "get-stdout")]),
    ("cli/stderr", &[(Executed, "get-stderr")]),
    ("cli/terminal-input", &[]),
    ("cli/terminal-output", &[]),
    ("cli/terminal-stdin", &[(Executed, "get-terminal-stdin")]),
    ("cli/terminal-stdout", &[(Executed, "get-terminal-stdout")]),
    ("cli/terminal-stderr", &[(Executed, "get-terminal-stderr")]),
    ("clocks/monotonic-clock", &[(Recorded, "now resolution subscribe-duration subscribe-instant")]),
    ("clocks/wall-clock", &[(Recorded, "now resolution")]),
    ("filesystem/preopens", &[(Executed, "get-directories")]),
    (
        "filesystem/types",
        &[(Refused, "descriptor.* directory-entry-stream.*"), (Executed, "filesystem-error-code")],
    ),
    ("http/outgoing-handler", &[(Recorded, "handle")]),
    (
        "http/types",
        &[
            // The whole response is in the journal, and a poll shows that it is there.
            (
                Executed,
                "fields fields.append fields.clone fields.delete fields.entries fields.from-list \
                 fields.get fields.has fields.set future-incoming-response.get \
                 future-incoming-response.subscribe future-trailers.get future-trailers.subscribe \
                 http-error-code incoming-body.finish incoming-body.stream incoming-response.consume \
                 incoming-response.headers incoming-response.status outgoing-body.finish \
                 outgoing-body.write outgoing-request outgoing-request.authority outgoing-request.body \
                 outgoing-request.headers outgoing-request.method outgoing-request.path-with-query \
                 outgoing-request.scheme outgoing-request.set-authority outgoing-request.set-method \
                 outgoing-request.set-path-with-query outgoing-request.set-scheme outgoing-response \
                 outgoing-response.body outgoing-response.headers outgoing-response.set-status-code \
                 outgoing-response.status-code request-options request-options.between-bytes-timeout \
                 request-options.connect-timeout request-options.first-byte-timeout \
                 request-options.set-between-bytes-timeout request-options.set-connect-timeout \
                 request-options.set-first-byte-timeout",
            ),
            // Of servers.
            (Refused, "incoming-request.* response-outparam.*"),
        ],
    ),
    ("io/error", &[(Recorded, "error.to-debug-string")]),
    ("io/poll", &[(Recorded, "poll pollable.block pollable.ready")]),
    (
        "io/streams",
        &[(
            // Of bodies, which are whole, of standard output, and of standard input, which is empty.
            Executed,
            "input-stream.blocking-read input-stream.blocking-skip input-stream.read input-stream.skip \
             input-stream.subscribe output-stream.blocking-flush output-stream.blocking-splice \
             output-stream.blocking-write-and-flush output-stream.blocking-write-zeroes-and-flush \
             output-stream.check-write output-stream.flush output-stream.splice output-stream.subscribe \
             output-stream.write output-stream.write-zeroes",
        )],
    ),
    // They follow from the seed in the journal.
    ("random/insecure", &[(Recorded, "get-insecure-random-bytes get-insecure-random-u64")]),
    ("random/insecure-seed", &[(Recorded, "insecure-seed")]),
    ("random/random", &[(Recorded, "get-random-bytes get-random-u64")]),
    ("sockets/instance-network", &[(Executed, "instance-network")]),
    ("sockets/ip-name-lookup", &[(Refused, "resolve-address-stream.* resolve-addresses")]),
    ("sockets/network", &[]),
    ("sockets/tcp", &[(Refused, "tcp-socket.*")]),
    ("sockets/tcp-create-socket", &[(Refused, "create-tcp-socket")]),
    ("sockets/udp", &[(Refused, "incoming-datagram-stream.* outgoing-datagram-stream.* udp-socket.*")]),
    ("sockets/udp-create-socket", &[(Refused, "create-udp-socket")]),
];
