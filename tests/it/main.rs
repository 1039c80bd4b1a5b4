//! End-to-end tests: the real binary, real sockets and pipes, real components. Tests cite the clauses of
//! `host/docs/spec`.

mod approvals;
mod audit;
mod authentication;
mod authority;
mod backtraces;
mod book;
mod bridge;
mod call_answers;
mod chaos;
mod clients;
mod cluster;
mod command_line;
mod console;
mod crash;
mod desk;
mod detached;
mod examples;
mod fetching;
mod flushes;
mod granted;
mod grants;
mod hostile;
mod http_endpoint;
mod identity;
mod inspector;
mod install;
mod kept;
mod languages;
mod lifecycle;
mod limits;
mod logging;
mod matrix;
mod neighbours;
mod network;
mod notices;
mod observed;
mod offered;
mod overload;
mod ownership;
mod permissions;
mod project_dev;
mod project_new;
mod project_test;
mod provenance;
mod published;
mod questions;
mod rates;
mod raw_bytes;
mod readme;
mod recorded_http;
mod recovery;
mod refusals;
mod reload;
mod reload_config;
mod requestor;
mod rmcp;
mod secrets;
mod shipped;
mod shutdown;
mod soak;
mod sockets;
mod stateless;
mod stdio;
mod store;
mod streams;
mod tasks;
mod timeline;
mod tools;
mod traced;
mod typed;

/// Prints a line that is visible even if the test passes: the harness captures only the output of macros.
fn say(what: &str) {
    use std::io::Write as _;
    writeln!(std::io::stderr(), "{what}").expect("stderr is open");
}
