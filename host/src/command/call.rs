//! `toolyard call`: one tool, from the shell.

use super::terminal::Terminal;
use super::{WrongUsage, configure, start_log};
use crate::assemble::{self, Assembled};
use crate::config::{Flags, StoreChoice};
use crate::signals::stop_signal;
use anyhow::Context as _;
use clap::Args;
use std::io::{Read as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use toolyard_dispatch::{CallParams, CallReply, Caller, Fault, RawJson, Stop, ToolCall};

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
}

const CTRL_C: u8 = 130;

/// Runs the tool and prints what it gives.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let mut config = configure(flags, None)?;
    start_log(&config, "warn")?;
    let arguments = read_arguments(&options.arguments)?;
    // One call needs no durable store.
    config.store = StoreChoice::Memory;
    config.limits.tasks = false;
    // Whoever can start this can change the rules.
    config.rules.clear();
    assemble::with_runtimes(|guests| async move {
        let mut signal = stop_signal()?;
        let assembled = Assembled::start(&config, guests, signal.clone()).await?;
        if assembled.server.dispatch.catalog().get(&options.tool).is_none() {
            return Err(WrongUsage(unknown_tool(&options.tool, &assembled, &config)).into());
        }
        let (terminal, questions) = Terminal::new(&options.tool, options.ask);
        let stop = Arc::new(Stop::default());
        let call = ToolCall {
            params: CallParams {
                name: options.tool.clone(),
                arguments,
                task: None,
                progress_token: Some(RawJson::trusted("0")),
                trace: None,
            },
            client_has_tasks: false,
            stop: stop.clone(),
            outlet: terminal.clone(),
            task_outlet: terminal.clone(),
        };
        let caller = Caller::local(terminal.capabilities());
        let dispatch = assembled.server.dispatch.clone();
        let attendant = questions.map(|questions| {
            tokio::spawn(terminal.clone().attend(questions, dispatch.clone(), caller.clone()))
        });
        let calling = dispatch.call(&caller, call);
        tokio::pin!(calling);
        let reply = tokio::select! {
            biased;
            reply = &mut calling => reply,
            _ = async { signal.wait_for(|stop| *stop).await.is_ok() } => {
                stop.set();
                calling.await
            }
        };
        // It may be in the middle of reading a line that nobody will type.
        if let Some(attendant) = attendant {
            attendant.abort();
        }
        terminal.clear();
        let code = show(reply, options.json)?;
        assembled.shut_down(Duration::ZERO).await;
        Ok(code)
    })
}

fn read_arguments(text: &str) -> anyhow::Result<RawJson> {
    let text = if text == "-" {
        let mut read = String::new();
        std::io::stdin().read_to_string(&mut read).context("the arguments cannot be read from stdin")?;
        read
    } else {
        text.to_owned()
    };
    let arguments = RawJson::parse(text).map_err(|error| WrongUsage(format!("the arguments are {error}")))?;
    if arguments.is_object() {
        Ok(arguments)
    } else {
        Err(WrongUsage("the arguments must be a JSON object, such as '{\"text\":\"hello\"}'".to_owned())
            .into())
    }
}

fn unknown_tool(name: &str, assembled: &Assembled, config: &crate::config::Config) -> String {
    let catalog = assembled.server.dispatch.catalog();
    let names: Vec<&str> = catalog.tools().map(|tool| tool.spec().name()).collect();
    let nearest = names
        .iter()
        .map(|known| (strsim::jaro_winkler(known, name), known))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((_, nearest)) => {
            format!("no tool `{name}` in {}; did you mean `{nearest}`?", config.plugins.display())
        }
        None => format!(
            "no tool `{name}` in {}; it offers: {}",
            config.plugins.display(),
            if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
        ),
    }
}

/// Prints the result; the exit code says how it ended.
fn show(reply: Result<CallReply, Fault>, json: bool) -> anyhow::Result<ExitCode> {
    let result = match reply {
        Ok(CallReply::Result(result) | CallReply::Created(result)) => result,
        Ok(CallReply::Error(error)) => {
            eprintln!("toolyard: the tool answered with the error {}: {}", error.code, error.message);
            if let Some(data) = error.data {
                eprintln!("{}", data.as_str());
            }
            return Ok(ExitCode::FAILURE);
        }
        Err(Fault::Cancelled | Fault::Closing) => {
            eprintln!("toolyard: cancelled");
            return Ok(ExitCode::from(CTRL_C));
        }
        Err(fault) => anyhow::bail!("{fault}"),
    };
    let value: serde_json::Value = result.decode().context("the result cannot be read")?;
    let failed = value["isError"].as_bool().unwrap_or_default();
    let text = if json { format!("{}\n", result.as_str()) } else { as_text(&value) };
    let shown = if failed && !json {
        write!(std::io::stderr(), "{text}")
    } else {
        write!(std::io::stdout(), "{text}")
    };
    match shown {
        // Whoever reads us has seen enough, such as `head`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        other => other.context("the result cannot be written")?,
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The blocks of a result for a terminal: text as it is, the rest named.
fn as_text(result: &serde_json::Value) -> String {
    let mut out = String::new();
    for block in result["content"].as_array().into_iter().flatten() {
        match block["type"].as_str() {
            Some("text") => out.push_str(block["text"].as_str().unwrap_or_default()),
            Some(kind @ ("image" | "audio")) => {
                let bytes = block["data"].as_str().map_or(0, |data| data.len() / 4 * 3);
                out.push_str(&format!(
                    "[{kind}, {}, about {bytes} bytes; --json shows it]",
                    block["mimeType"].as_str().unwrap_or("unknown type")
                ));
            }
            _ => out.push_str(&block.to_string()),
        }
        out.push('\n');
    }
    out
}
