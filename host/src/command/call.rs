//! `toolyard call`: one tool, from the shell.

use super::{configure, start_log};
use crate::assemble::{self, Assembled};
use crate::config::{Flags, StoreChoice};
use crate::signals::stop_signal;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use toolyard_dispatch::{Departure, DrainMode};
use toolyard_workshop::{Call, CallOptions};

/// The options of `call`.
#[derive(Debug, Args)]
pub struct Options {
    /// The tool.
    tool: String,
    /// Its arguments, a JSON object; `-` reads them from stdin.
    #[arg(default_value = "{}")]
    arguments: String,
    /// Print the result as one JSON object instead of its text.
    #[arg(long)]
    json: bool,
    /// Take the answers to the tool's questions from stdin though it is no
    /// terminal, one line each.
    #[arg(long)]
    ask: bool,
    /// Answer the tool's questions from this file, TOML or JSON: to the key of each
    /// question what a client would answer, such as `who = { action = "accept",
    /// content = { name = "Ada" } }`. A question without an answer is put to the
    /// terminal if there is one, else declined.
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
    /// Answer one question; may be repeated, and wins over --answers.
    #[arg(long = "answer", value_name = "KEY=JSON")]
    answer: Vec<String>,
    /// Run it as a task, as a client does that polls for the result.
    #[arg(long)]
    task: bool,
    /// Fail, and show the difference, unless this is the result: its structured
    /// content if it has one, else its text blocks joined by newlines. Given as JSON
    /// (a text that is no JSON string is then read as JSON), or as a file with JSON
    /// or the text in it.
    #[arg(long, value_name = "FILE|JSON", conflicts_with = "expect_error")]
    expect: Option<String>,
    /// Fail unless the call ends in an error, of the tool or a JSON-RPC error, with
    /// this in its text.
    #[arg(long, value_name = "TEXT")]
    expect_error: Option<String>,
    /// Write what happened, questions and answers too, into a new file, as a case for
    /// `toolyard test`.
    #[arg(long, value_name = "NAME.case.toml")]
    record: Option<PathBuf>,
}

/// Runs the tool and prints what it gives.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let mut config = configure(flags, None)?;
    start_log(&config, "warn")?;
    let call = Call::prepare(CallOptions {
        tool: options.tool.clone(),
        arguments: options.arguments.clone(),
        json: options.json,
        ask: options.ask,
        answers: options.answers.clone(),
        answer: options.answer.clone(),
        task: options.task,
        expect: options.expect.clone(),
        expect_error: options.expect_error.clone(),
        record: options.record.clone(),
    })?;
    // One call needs no durable store.
    config.store = StoreChoice::Memory;
    config.limits.tasks = options.task;
    // Anyone who can start this command can change the rules.
    config.rules.clear();
    assemble::with_runtimes(|guests| async move {
        let stop = stop_signal()?;
        let assembled = Assembled::start(&config, guests, &stop).await?;
        let code = call.run(&assembled.server.dispatch, &config.plugins, &stop).await?;
        assembled.shut_down(Duration::ZERO, DrainMode::End(Departure::ShutDown)).await;
        Ok(code)
    })
}
