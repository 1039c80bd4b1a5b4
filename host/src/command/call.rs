//! `toolyard call`: calls one tool from the shell.

use super::{configure, start_log};
use crate::assemble::{self, Assembled, Start};
use crate::config::{Flags, StoreChoice};
use crate::signals::stop_signal;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use toolyard_workshop::{Call, CallOptions};

/// The options of `call`.
#[derive(Debug, Args)]
pub struct Options {
    /// The name of the tool.
    tool: String,
    /// The arguments, a JSON object; `-` reads them from stdin.
    #[arg(default_value = "{}")]
    arguments: String,
    /// Print the result as one JSON object instead of its text.
    #[arg(long)]
    json: bool,
    /// Read the answers to the tool's questions from stdin even if it is no terminal, one per line.
    #[arg(long)]
    ask: bool,
    /// Answer the tool's questions from this file, TOML or JSON. It maps the key of each question to the
    /// response of a client, such as `who = { action = "accept", content = { name = "Ada" } }`. For a
    /// question without an answer, ask at the terminal if there is one, else decline.
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
    /// Answer one question; may be repeated; overrides --answers.
    #[arg(long = "answer", value_name = "KEY=JSON")]
    answer: Vec<String>,
    /// Run it as a task, like a client that polls for the result.
    #[arg(long)]
    task: bool,
    /// Fail and show the difference unless this is the result: its structured content if it has any, else its
    /// text blocks joined by newlines. Give it as JSON, or as a file that contains JSON or the text. A text
    /// that is not a JSON string is then read as JSON.
    #[arg(long, value_name = "FILE|JSON", conflicts_with = "expect_error")]
    expect: Option<String>,
    /// Fail unless the call ends in an error, of the tool or of JSON-RPC, whose text contains this.
    #[arg(long, value_name = "TEXT")]
    expect_error: Option<String>,
    /// Write the images, sounds and files of the result into this folder; no file is replaced.
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Write the call with its questions, HTTP requests and their answers into a new file, as a case for
    /// `toolyard test`.
    #[arg(long, value_name = "NAME.case.toml")]
    record: Option<PathBuf>,
}

/// Calls the tool and prints its result.
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
        save: options.save.clone(),
        record: options.record.clone(),
    })?;
    // One call needs no durable store.
    config.store = StoreChoice::Memory;
    config.limits.tasks = options.task;
    // Anyone who can start this command can change the rules.
    config.rules.clear();
    assemble::with_runtimes(|guests| async move {
        let stop = stop_signal()?;
        let assembled = Assembled::start(&config, guests, &stop, Start::for_operator(None)).await?;
        let refused = assembled.first_load().await.plugins.iter().filter_map(|report| report.refusal());
        let refused: Vec<&str> = refused.collect();
        let code = call.run(&assembled.server.dispatch, (&config.plugins, &refused), &stop).await?;
        assembled.shut_down().await;
        Ok(code)
    })
}
