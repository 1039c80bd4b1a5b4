//! `toolyard test`: a plugin's recorded cases, run and judged.

use super::build::{self, time};
use super::call::described;
use super::{WrongUsage, configure, start_log};
use crate::assemble::{self, Assembled};
use crate::config::{Flags, StoreChoice};
use crate::output::{self, GREEN, RED, RESET, Styled, YELLOW, say, tell};
use crate::project::case::{Case, text_of};
use crate::project::case_text;
use crate::project::compare::Mismatch;
use crate::project::file::{PLUGIN, Project};
use crate::project::find::{Found, cases};
use crate::project::rehearsal::{Rehearsed, rehearse};
use crate::project::shell::Output;
use crate::replace::replace;
use crate::signals::stop_signal;
use anyhow::Context as _;
use clap::Args;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use toolyard_dispatch::{Departure, DrainMode};
use toolyard_engine::PluginState;

/// The options of `test`.
#[derive(Debug, Args)]
pub struct Options {
    /// A project, which is built first, or a plugin folder.
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Run the cases whose names hold one of these.
    #[arg(value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Test the project as it was built last.
    #[arg(long)]
    no_build: bool,
    /// Where a case fails, write what came into its file as what is expected.
    #[arg(long)]
    update: bool,
    /// How many cases run at once.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Print one JSON object when all have run.
    #[arg(long)]
    json: bool,
}

const CTRL_C: u8 = 130;

/// A case that was run.
struct Ran<'a> {
    found: &'a Found,
    case: &'a Case,
    rehearsed: Rehearsed,
    took: Duration,
    updated: bool,
}

/// Runs the cases; fails if one does.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let mut config = configure(flags, None)?;
    start_log(&config, "error")?;
    let project = Project::is_at(&options.dir).then(|| build::open(&options.dir)).transpose()?;
    let cases = read_cases(options)?;
    config.plugins = match &project {
        Some(_) => options.dir.join(PLUGIN),
        None => options.dir.clone(),
    };
    config.store = StoreChoice::Memory;
    config.limits.tasks = true;
    // Whoever can start this can change the rules.
    config.rules.clear();
    assemble::with_runtimes(|guests| async move {
        let stop = stop_signal()?;
        if let Some(project) = project.as_ref().filter(|_| !options.no_build)
            && let Err(error) = crate::project::build::build(project, false, &Output::Terminal, &stop).await
        {
            return build::ended(&error);
        }
        let began = Instant::now();
        let assembled = Assembled::start(&config, guests, stop.clone()).await?;
        let refused = refused(&assembled);
        if !options.json {
            for (file, why) in &refused {
                say!("FAILED  {file} is not loaded: {why}");
            }
        }
        let dispatch = &assembled.server.dispatch;
        let running = cases.iter().map(async |(found, case)| {
            let began = Instant::now();
            let rehearsed = rehearse(dispatch, case, stop.clone()).await;
            Ran { found, case, rehearsed, took: began.elapsed(), updated: false }
        });
        let mut running = futures_util::stream::iter(running).buffered(options.jobs.into());
        let mut all = Vec::new();
        while let Some(mut ran) = running.next().await {
            if *stop.borrow() {
                break;
            }
            if options.update {
                ran.update()?;
            }
            if !options.json {
                ran.lines(std::io::stdout().is_terminal()).say();
            }
            all.push(ran);
        }
        let stopped = *stop.borrow();
        drop(running);
        let took = began.elapsed();
        let failed = all.iter().filter(|ran| !ran.passed()).count();
        if stopped {
            tell!("toolyard: stopped after {} of {} cases", all.len(), cases.len());
        } else if options.json {
            output::json(report(&all, &refused, took));
        } else {
            say!("{} passed, {failed} failed, in {}", all.len() - failed, time(took));
        }
        let code = match (stopped, failed + refused.len()) {
            (true, _) => ExitCode::from(CTRL_C),
            (false, 0) => ExitCode::SUCCESS,
            (false, _) => ExitCode::FAILURE,
        };
        drop(all);
        assembled.shut_down(Duration::ZERO, DrainMode::End(Departure::ShutDown)).await;
        Ok(code)
    })
}

/// The cases that are meant. All that are broken are named.
fn read_cases(options: &Options) -> anyhow::Result<Vec<(Found, Case)>> {
    let dir = options.dir.display();
    let wrong = |what: String| anyhow::Error::from(WrongUsage(what));
    let found = cases(&options.dir, &options.patterns).map_err(wrong)?;
    if found.is_empty() {
        let which = match options.patterns.is_empty() {
            true => String::new(),
            false => format!(" whose name holds {}", options.patterns.join(" or ")),
        };
        return Err(wrong(format!(
            "there is no case (*.case.toml) in {dir}{which}; `toolyard call TOOL … --record NAME.case.toml` makes one"
        )));
    }
    let mut read = Vec::new();
    let mut broken = Vec::new();
    for found in found {
        match Case::of_file(&found.path) {
            Ok(case) => read.push((found, case)),
            Err(error) => broken.push(format!("{}: {error}", found.path.display())),
        }
    }
    if broken.is_empty() { Ok(read) } else { Err(wrong(broken.join("\n"))) }
}

/// The files that are not loaded, or not as they are.
fn refused(assembled: &Assembled) -> Vec<(String, String)> {
    let why = |report: &toolyard_engine::PluginReport| match &report.state {
        PluginState::Refused { why } | PluginState::Former { why } => {
            Some((report.file.clone(), why.clone()))
        }
        PluginState::Serving | PluginState::Disabled => None,
    };
    assembled.plugins.iter().filter_map(why).collect()
}

impl Ran<'_> {
    fn passed(&self) -> bool {
        self.updated || self.rehearsed.is_ok()
    }

    fn wrong(&self) -> impl Iterator<Item = &Mismatch> {
        self.rehearsed.unanswered.iter().chain(&self.rehearsed.wrong)
    }

    /// Makes what came what is expected. A case that lacks answers stays as it is.
    fn update(&mut self) -> anyhow::Result<()> {
        if self.passed() || !self.rehearsed.unanswered.is_empty() {
            return Ok(());
        }
        let path = &self.found.path;
        let text = text_of(path).map_err(anyhow::Error::msg)?;
        let text = case_text::update(&text, &self.rehearsed.outcome)
            .map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
        write(path, &text).with_context(|| format!("{} cannot be written", path.display()))?;
        self.updated = true;
        Ok(())
    }

    fn lines(&self, colours: bool) -> Styled {
        let (word, colour) = match (self.updated, self.passed()) {
            (true, _) => ("updated", YELLOW),
            (false, true) => ("ok", GREEN),
            (false, false) => ("FAILED", RED),
        };
        let (begin, end) = if colours { (colour, RESET) } else { ("", "") };
        let mut out = Styled::default().control(begin).text(&format!("{word:<7}")).control(end);
        out = out.text(" ").line(&self.found.name).text(&format!("  ({})\n", time(self.took)));
        if self.passed() {
            return out;
        }
        if let Some(description) = &self.case.description {
            out = out.text(&format!("    {description}\n"));
        }
        for mismatch in self.wrong() {
            let text = described(mismatch, colours);
            out = out.text(&format!("    {}: ", mismatch.key)).styled(&text.indented("      "));
        }
        out
    }

    fn json(&self) -> Value {
        let why = |mismatch: &Mismatch| {
            let (expected, actual) = mismatch.texts.clone().unzip();
            json!({"key": mismatch.key, "what": mismatch.what, "expected": expected, "actual": actual})
        };
        json!({
            "name": self.found.name,
            "file": self.found.path,
            "tool": self.case.tool,
            "description": self.case.description,
            "ok": self.passed(),
            "updated": self.updated,
            "ms": milliseconds(self.took),
            "why": self.wrong().map(why).collect::<Vec<_>>(),
        })
    }
}

fn report(all: &[Ran<'_>], refused: &[(String, String)], took: Duration) -> Value {
    let passed = all.iter().filter(|ran| ran.passed()).count();
    json!({
        "passed": passed,
        "failed": all.len() - passed,
        "ms": milliseconds(took),
        "cases": all.iter().map(Ran::json).collect::<Vec<_>>(),
        "refused": refused.iter().map(|(file, why)| json!({"file": file, "why": why})).collect::<Vec<_>>(),
    })
}

fn milliseconds(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

/// Writes a file whole or not at all.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    replace(path, text.as_bytes(), std::fs::metadata(path)?.permissions())
}
