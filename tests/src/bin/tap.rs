//! A tap on a pipe: starts a host on stdin and stdout, passes each line on unchanged, and records whether the
//! lines of the host are valid.
//!
//!     tap SPEC REPORT COMMAND [ARG…]
//!
//! SPEC is the folder with the official schema: clients start processes without an environment. REPORT gets a
//! line for each message: `ok` and the recognised type, or `VIOLATION` and the reason.

use std::fs::File;
use std::io::Write as _;
use std::process::{ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use toolyard_tests::schema::Schema;
use toolyard_tests::tap::{Conversation, Violation};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let (Some(spec), Some(report), Some(command)) = (args.next(), args.next(), args.next()) else {
        eprintln!("usage: tap SPEC REPORT COMMAND [ARG…]");
        return ExitCode::from(2);
    };
    let mut report = File::options().append(true).create(true).open(report).expect("a report");
    let mut host = Command::new(command);
    host.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut host = host.spawn().expect("the host starts");
    let schema = Schema::of(spec.as_ref()).map(|schema| &*Box::leak(Box::new(schema)));
    let conversation = schema.map(|schema| Arc::new(Mutex::new(Conversation::new(schema))));

    let to_host = host.stdin.take().expect("piped");
    let heard = conversation.clone();
    // The end of this task closes the host's input.
    let forward = tokio::spawn(pass(BufReader::new(tokio::io::stdin()), to_host, move |line| {
        if let Some(conversation) = &heard {
            conversation.lock().expect("nothing panics").from_client(line);
        }
    }));
    let from_host = BufReader::new(host.stdout.take().expect("piped"));
    let backward = pass(from_host, tokio::io::stdout(), |line| {
        let Some(conversation) = &conversation else { return };
        let verdict = conversation.lock().expect("nothing panics").from_host(line);
        let Some(verdict) = verdict else { return };
        let taken_for = verdict.taken_for.clone();
        let written = match Violation::of(verdict, line.trim_ascii_end()) {
            Some(violation) => writeln!(report, "VIOLATION {violation}"),
            None => writeln!(report, "ok {taken_for}"),
        };
        written.expect("the report can be written");
    });

    // The clients end their processes with this signal.
    let mut terminated = signal(SignalKind::terminate()).expect("signals can be heard");
    tokio::select! {
        () = backward => {}
        _ = terminated.recv() => {}
    }
    forward.abort();
    // A read of stdin cannot be interrupted, and must not delay the exit.
    let status = host.wait().await.expect("waiting works");
    std::process::exit(status.code().unwrap_or(1));
}

/// Passes lines on, each as soon as it arrives, until either side ends.
async fn pass(
    mut from: impl AsyncBufRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut hear: impl FnMut(&[u8]),
) {
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).await.is_ok_and(|length| length > 0) {
        // Before it is passed on: the response may arrive at once.
        hear(&line);
        if to.write_all(&line).await.is_err() || to.flush().await.is_err() {
            return;
        }
        line.clear();
    }
}
