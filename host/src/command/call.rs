//! `toolyard call`: one tool, from the shell.

use super::expected::Expected;
use super::terminal::Terminal;
use super::{WrongUsage, configure, start_log};
use crate::assemble::{self, Assembled};
use crate::config::{Flags, StoreChoice};
use crate::output::{self, Styled, tell};
use crate::project::answers::{Answers, Given};
use crate::project::case::text_of;
use crate::project::case_text::{self, Recorded};
use crate::project::compare::{Mismatch, Outcome, diff};
use crate::project::play::{Ending, Play, play};
use crate::signals::stop_signal;
use anyhow::Context as _;
use clap::Args;
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use toolyard_dispatch::{Caller, Departure, DrainMode, RawJson, visible};

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

const CTRL_C: u8 = 130;

/// Runs the tool and prints what it gives.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let mut config = configure(flags, None)?;
    start_log(&config, "warn")?;
    let arguments = read_arguments(&options.arguments)?;
    let answers = read_answers(options)?;
    let expected = match (&options.expect, &options.expect_error) {
        (Some(said), _) => Some(Expected::read(said)?),
        (None, part) => part.clone().map(Expected::Error),
    };
    let record = options.record.as_deref().map(NewCase::named).transpose()?;
    // One call needs no durable store.
    config.store = StoreChoice::Memory;
    config.limits.tasks = options.task;
    // Whoever can start this can change the rules.
    config.rules.clear();
    assemble::with_runtimes(|guests| async move {
        let signal = stop_signal()?;
        let assembled = Assembled::start(&config, guests, signal.clone()).await?;
        if assembled.server.dispatch.catalog().get(&options.tool).is_none() {
            return Err(WrongUsage(unknown_tool(&options.tool, &assembled, &config)).into());
        }
        let (terminal, questions) = Terminal::new(&options.tool, options.ask, answers);
        let caller = Caller::local(terminal.capabilities());
        let dispatch = assembled.server.dispatch.clone();
        let attendant = questions.map(|questions| {
            tokio::spawn(terminal.clone().attend(questions, dispatch.clone(), caller.clone()))
        });
        let played = Play { tool: options.tool.clone(), arguments: arguments.clone(), task: options.task };
        let ended = play(&dispatch, &caller, played, terminal.clone(), signal).await;
        // It may be in the middle of reading a line that nobody will type.
        if let Some(attendant) = attendant {
            attendant.abort();
        }
        terminal.clear();
        for key in terminal.unused() {
            tell!("toolyard: nobody asked for the answer to `{key}`");
        }
        let outcome = match ended {
            Ok(ending) => Outcome { ending, progress: terminal.progress() },
            Err(fault) => anyhow::bail!("{}", visible::line(&fault.to_string())),
        };
        let code = match &expected {
            Some(expected) => judge(expected, &outcome.ending, options.json)?,
            None => show(&outcome.ending, options.json)?,
        };
        if let Some(record) = record
            && outcome.ending != Ending::Stopped
        {
            record.write(options, &arguments, &terminal.given(), &outcome)?;
        }
        assembled.shut_down(Duration::ZERO, DrainMode::End(Departure::ShutDown)).await;
        Ok(code)
    })
}

fn read_answers(options: &Options) -> anyhow::Result<Option<Answers>> {
    if options.answers.is_none() && options.answer.is_empty() {
        return Ok(None);
    }
    let mut answers = match &options.answers {
        None => Answers::default(),
        Some(file) => text_of(file)
            .and_then(|text| Answers::of_text(&text))
            .map_err(|error| WrongUsage(format!("--answers: {}: {error}", file.display())))?,
    };
    for said in &options.answer {
        let given =
            said.split_once('=').ok_or_else(|| "expected KEY=JSON".to_owned()).and_then(|(key, json)| {
                let value =
                    serde_json::from_str(json).map_err(|error| format!("`{key}` is no JSON: {error}"))?;
                Ok((key.to_owned(), Given::read(key, value)?))
            });
        let (key, given) = given.map_err(|error| WrongUsage(format!("--answer {said}: {error}")))?;
        answers.insert(key, given);
    }
    Ok(Some(answers))
}

/// A file for a case that is not there yet.
struct NewCase(PathBuf);

impl NewCase {
    fn named(path: &Path) -> Result<Self, WrongUsage> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.ends_with(crate::project::case::SUFFIX) {
            return Err(WrongUsage(format!(
                "--record: the name of a case ends with .case.toml, not `{name}`"
            )));
        }
        match path.symlink_metadata() {
            Ok(_) => Err(WrongUsage(format!("--record: {} is there already", path.display()))),
            Err(_) => Ok(Self(path.to_owned())),
        }
    }

    fn write(
        &self,
        options: &Options,
        arguments: &RawJson,
        answers: &[(String, Given)],
        outcome: &Outcome,
    ) -> anyhow::Result<()> {
        let path = self.0.display();
        let arguments = arguments.decode().context("the arguments cannot be read")?;
        let recorded =
            Recorded { tool: &options.tool, task: options.task, arguments: &arguments, answers, outcome };
        let text = case_text::write(&recorded).map_err(anyhow::Error::msg)?;
        let mut file =
            std::fs::File::create_new(&self.0).with_context(|| format!("{path} cannot be made"))?;
        file.write_all(text.as_bytes()).with_context(|| format!("{path} cannot be written"))?;
        tell!("toolyard: recorded in {path}");
        Ok(())
    }
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

/// Holds what came against what was expected: prints it if it fits, else the difference.
fn judge(expected: &Expected, ending: &Ending, json: bool) -> anyhow::Result<ExitCode> {
    let missed = match ending {
        Ending::Result(result) => expected.misses(&result.decode().context("the result cannot be read")?),
        Ending::Error(error) => expected.misses_error(error.code, &error.message),
        Ending::Stopped => return show(ending, json),
    };
    match missed {
        None => show(ending, json).map(|_| ExitCode::SUCCESS),
        Some(mismatch) => {
            let described = described(&mismatch, std::io::stderr().is_terminal());
            Styled::default().text("toolyard: not as expected: ").styled(&described).tell();
            Ok(ExitCode::FAILURE)
        }
    }
}

/// A mismatch in lines for a terminal.
pub fn described(mismatch: &Mismatch, colours: bool) -> Styled {
    let what = Styled::default().text(&mismatch.what).text("\n");
    match &mismatch.texts {
        None => what,
        Some((expected, actual)) => what.styled(&diff(expected, actual, colours)),
    }
}

/// Prints the result; the exit code says how it ended.
fn show(ending: &Ending, json: bool) -> anyhow::Result<ExitCode> {
    let result = match ending {
        Ending::Result(result) => result,
        Ending::Error(error) => {
            let message = visible::line(&error.message);
            tell!("toolyard: the tool answered with the error {}: {message}", error.code);
            if let Some(data) = &error.data {
                tell!("{}", visible::line(data.as_str()));
            }
            return Ok(ExitCode::FAILURE);
        }
        Ending::Stopped => {
            tell!("toolyard: cancelled");
            return Ok(ExitCode::from(CTRL_C));
        }
    };
    let value: serde_json::Value = result.decode().context("the result cannot be read")?;
    let failed = value["isError"].as_bool().unwrap_or_default();
    match json {
        true => output::json(result.as_str()),
        false => output::result(&as_text(&value), failed).context("the result cannot be written")?,
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
