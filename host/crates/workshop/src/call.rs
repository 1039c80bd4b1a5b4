//! `toolyard call`: calls one tool from the shell.

mod expected;
mod form;
mod save;
mod terminal;

pub use terminal::ask_at_terminal;

use crate::answers::{Answers, read_answer};
use crate::case::{SUFFIX, text_of};
use crate::case_text::{self, Recorded};
use crate::compare::Outcome;
use crate::http_tape::CallRecorder;
use crate::run_call::{Ending, ToolRun, run_call};
use anyhow::Context as _;
use expected::Expected;
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use terminal::Terminal;
use tokio_util::sync::CancellationToken;
use toolyard_cli::nearest::nearest;
use toolyard_cli::output::{self, Styled};
use toolyard_cli::{INTERRUPTED, WrongUsage, tell};
use toolyard_dispatch::{Caller, Dispatch, RawJson, visible};

/// The most plugins that the error about an unknown tool names; `toolyard tools` lists all.
const MAX_REFUSED: usize = 3;

/// The options of `toolyard call`.
#[derive(Debug, Clone)]
pub struct CallOptions {
    /// The tool.
    pub tool: String,
    /// The arguments, as a JSON object; `-` reads them from stdin.
    pub arguments: String,
    /// Whether to print the result as one JSON object instead of its text.
    pub json: bool,
    /// Whether to read answers from stdin, one per line, even if it is no terminal.
    pub ask: bool,
    /// A file with answers to the tool's questions, TOML or JSON.
    pub answers: Option<PathBuf>,
    /// Further answers, each `KEY=JSON`; they override the file.
    pub answer: Vec<String>,
    /// Whether the call runs as a task.
    pub task: bool,
    /// The expected result: JSON, or a file that contains JSON or a text.
    pub expect: Option<String>,
    /// A part of the text of an expected error.
    pub expect_error: Option<String>,
    /// The folder for the images, sounds and files of the result.
    pub save: Option<PathBuf>,
    /// The file in which to record the call as a case; it must not exist.
    pub record: Option<PathBuf>,
}

/// A call that is ready to run.
pub struct Call {
    options: CallOptions,
    arguments: RawJson,
    answers: Option<Answers>,
    expected: Option<Expected>,
    record: Option<NewCase>,
}

impl Call {
    /// Reads the arguments, the answers, and the expected result that the options name.
    ///
    /// # Errors
    /// [`WrongUsage`] if an option is wrong; else if the arguments cannot be read from stdin.
    pub fn prepare(options: CallOptions) -> anyhow::Result<Self> {
        let arguments = read_arguments(&options.arguments)?;
        let answers = read_answers(&options)?;
        let expected = match (&options.expect, &options.expect_error) {
            (Some(said), _) => Some(Expected::read(said)?),
            (None, part) => part.clone().map(Expected::Error),
        };
        let record = options.record.as_deref().map(NewCase::named).transpose()?;
        Ok(Self { options, arguments, answers, expected, record })
    }

    /// Runs the call and prints its result; cancels the call if `stop` is cancelled. For messages, `plugins` is the
    /// folder that the dispatcher's tools come from, with the reasons why plugins in it are not loaded.
    ///
    /// # Errors
    /// [`WrongUsage`] if there is no such tool; else if the host refuses the call, or the result cannot be
    /// shown or recorded.
    pub async fn run(
        self,
        dispatch: &Arc<Dispatch>,
        plugins: (&Path, &[&str]),
        stop: &CancellationToken,
    ) -> anyhow::Result<ExitCode> {
        let Self { options, arguments, answers, expected, record } = self;
        if dispatch.catalog().current().get(&options.tool).is_none() {
            let catalog = dispatch.catalog().current();
            let names: Vec<&str> = catalog.tools().map(|tool| tool.spec().name()).collect();
            return Err(WrongUsage(unknown_tool(&options.tool, &names, plugins)).into());
        }
        let recorder = record.is_some().then(CallRecorder::default);
        let (terminal, questions) = Terminal::new(&options.tool, options.ask, answers, recorder);
        let caller = Caller::local(terminal.capabilities());
        let attendant = questions.map(|questions| {
            tokio::spawn(terminal.clone().attend(questions, dispatch.clone(), caller.clone()))
        });
        let run = ToolRun { tool: options.tool.clone(), arguments: arguments.clone(), task: options.task };
        let ended = run_call(dispatch, &caller, run, terminal.clone(), stop).await;
        // It may be waiting for a line that the person will never type.
        if let Some(attendant) = attendant {
            attendant.abort();
        }
        terminal.clear();
        for key in terminal.unused() {
            tell!("toolyard: the tool did not ask the question `{key}`");
        }
        let outcome = match ended {
            Ok(ending) => Outcome { ending, progress: terminal.progress() },
            Err(fault) => anyhow::bail!("{}", visible::line(&fault.to_string())),
        };
        let code = match &expected {
            Some(expected) => judge(expected, &outcome.ending, options.json)?,
            None => show(&outcome.ending, options.json)?,
        };
        if let (Some(folder), Ending::Result(result)) = (&options.save, &outcome.ending) {
            save::save(&result.decode().context("cannot read the result")?, folder)?;
        }
        if let Some(record) = record
            && outcome.ending != Ending::Stopped
        {
            record.write(&options, &arguments, &terminal, &outcome)?;
        }
        Ok(code)
    }
}

fn read_answers(options: &CallOptions) -> anyhow::Result<Option<Answers>> {
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
                    serde_json::from_str(json).map_err(|error| format!("`{key}` is not JSON: {error}"))?;
                Ok((key.to_owned(), read_answer(key, value)?))
            });
        let (key, given) = given.map_err(|error| WrongUsage(format!("--answer {said}: {error}")))?;
        answers.insert(key, given);
    }
    Ok(Some(answers))
}

/// A file for a new case, which must not exist.
struct NewCase(PathBuf);

impl NewCase {
    fn named(path: &Path) -> Result<Self, WrongUsage> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.ends_with(SUFFIX) {
            return Err(WrongUsage(format!(
                "--record: the name of a case ends with .case.toml, not `{name}`"
            )));
        }
        match path.symlink_metadata() {
            Ok(_) => Err(WrongUsage(format!("--record: {} already exists", path.display()))),
            Err(_) => Ok(Self(path.to_owned())),
        }
    }

    fn write(
        &self,
        options: &CallOptions,
        arguments: &RawJson,
        terminal: &Terminal,
        outcome: &Outcome,
    ) -> anyhow::Result<()> {
        let path = self.0.display();
        let arguments = arguments.decode().context("cannot read the arguments")?;
        let refused = |why: String| anyhow::anyhow!("cannot record {path}: {}", visible::line(&why));
        let entries = terminal.recorder().map(CallRecorder::entries).transpose().map_err(refused)?;
        let recorded = Recorded {
            tool: &options.tool,
            task: options.task,
            arguments: &arguments,
            answers: &terminal.given(),
            http: entries.unwrap_or_default(),
            outcome,
        };
        let text = case_text::write(&recorded).map_err(refused)?;
        let mut file = std::fs::File::create_new(&self.0).with_context(|| format!("cannot make {path}"))?;
        file.write_all(text.as_bytes()).with_context(|| format!("cannot write {path}"))?;
        tell!("toolyard: recorded in {path}");
        Ok(())
    }
}

fn read_arguments(text: &str) -> anyhow::Result<RawJson> {
    let text = if text == "-" {
        let mut read = String::new();
        std::io::stdin().read_to_string(&mut read).context("cannot read the arguments from stdin")?;
        read
    } else {
        text.to_owned()
    };
    const FORM: &str = "write one JSON object, such as '{\"program\": \".a\"}', or `-` to read it from stdin";
    let arguments =
        RawJson::parse(text).map_err(|error| WrongUsage(format!("the arguments are {error}; {FORM}")))?;
    if arguments.is_object() {
        Ok(arguments)
    } else {
        Err(WrongUsage(format!("the arguments are not a JSON object; {FORM}")).into())
    }
}

fn unknown_tool(name: &str, names: &[&str], (plugins, refused): (&Path, &[&str])) -> String {
    if !plugins.is_dir() {
        return format!("there is no plugin folder {}; name one by --plugins", plugins.display());
    }
    let plugins = plugins.display();
    let mut said = format!("no tool `{name}` in {plugins}");
    match nearest(name, names.iter().copied()) {
        Some(nearest) => said.push_str(&format!("; did you mean `{nearest}`?")),
        None if !names.is_empty() => said.push_str(&format!("; it offers: {}", names.join(", "))),
        None if refused.is_empty() => said.push_str("; it has no tools; name another folder by --plugins"),
        None => {}
    }
    for why in refused.iter().take(MAX_REFUSED) {
        said.push_str(&format!("; not loaded: {why}"));
    }
    said
}

/// Compares the result with the expected one: prints the result if it matches, else the difference.
fn judge(expected: &Expected, ending: &Ending, json: bool) -> anyhow::Result<ExitCode> {
    let missed = match ending {
        Ending::Result(result) => expected.misses(&result.decode().context("cannot read the result")?),
        Ending::Error(error) => expected.misses_error(error.code, &error.message),
        Ending::Stopped => return show(ending, json),
    };
    match missed {
        None => show(ending, json).map(|_| ExitCode::SUCCESS),
        Some(mismatch) => {
            let described = mismatch.described(std::io::stderr().is_terminal());
            Styled::default().text("toolyard: not as expected: ").styled(&described).tell();
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Prints the result; the exit code shows how the call ended.
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
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    let value: serde_json::Value = result.decode().context("cannot read the result")?;
    let failed = value["isError"].as_bool().unwrap_or_default();
    match json {
        true => output::json(result.as_str()),
        false => output::result(&as_text(&value), failed).context("cannot write the result")?,
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The blocks of a result for a terminal: text in full, others by name.
fn as_text(result: &serde_json::Value) -> String {
    let mut out = String::new();
    for block in result["content"].as_array().into_iter().flatten() {
        match block["type"].as_str() {
            Some("text") => out.push_str(block["text"].as_str().unwrap_or_default()),
            Some(kind @ ("image" | "audio")) => {
                let bytes = block["data"].as_str().map_or(0, |data| data.len() / 4 * 3);
                out.push_str(&format!(
                    "[{kind}, {}, about {bytes} bytes; --save DIR writes it]",
                    block["mimeType"].as_str().unwrap_or("unknown type")
                ));
            }
            _ => out.push_str(&block.to_string()),
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_are_no_object_show_the_form() {
        for text in ["{program: .a}", "program=.a", "@args.json", "[]"] {
            let said = read_arguments(text).expect_err(text).to_string();
            assert!(said.contains("'{\"program\": \".a\"}', or `-` to read it from stdin"), "{said}");
        }
    }

    #[test]
    fn an_unknown_tool_has_the_likely_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let (at, shown) = (folder.path(), folder.path().display());
        let refused = ["jq.wasm: the manifest jq.toml line 2: …"];
        for (names, refused, says) in [
            (
                &[][..],
                &[][..],
                format!("no tool `jq` in {shown}; it has no tools; name another folder by --plugins"),
            ),
            (&[], &refused, format!("no tool `jq` in {shown}; not loaded: {}", refused[0])),
            (&["jqs"], &[], format!("no tool `jq` in {shown}; did you mean `jqs`?")),
            (
                &["csv"],
                &refused,
                format!("no tool `jq` in {shown}; it offers: csv; not loaded: {}", refused[0]),
            ),
        ] {
            assert_eq!(unknown_tool("jq", names, (at, refused)), says);
        }
        let absent = at.join("absent");
        let says = format!("there is no plugin folder {}; name one by --plugins", absent.display());
        assert_eq!(unknown_tool("jq", &[], (&absent, &[])), says);
    }
}
