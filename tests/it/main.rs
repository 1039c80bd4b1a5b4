//! End-to-end tests: the real binary, real sockets and pipes, real components. Tests cite the clauses of
//! `host/docs/spec`.

mod approvals;
mod audit;
mod authentication;
mod authority;
mod backup;
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
mod erase;
mod examples;
mod flushes;
mod granted;
mod hostile;
mod http_endpoint;
mod identity;
mod inspector;
mod install;
mod kept;
mod languages;
mod lifecycle;
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
mod project_test;
mod provenance;
mod published;
mod questions;
mod rates;
mod readme;
mod recorded_http;
mod reload;
mod reload_config;
mod requestor;
mod resume;
mod resume_operate;
mod rmcp;
mod secrets;
mod shipped;
mod shutdown;
mod soak;
mod sockets;
mod stateless;
mod stdio;
mod store;
mod tasks;
mod timeline;
mod traced;
mod typed;
mod upgrade;

/// Prints a line that is visible even if the test passes: the harness captures only the output of macros.
fn say(what: &str) {
    use std::io::Write as _;
    writeln!(std::io::stderr(), "{what}").expect("stderr is open");
}
