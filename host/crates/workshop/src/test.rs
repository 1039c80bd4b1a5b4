//! `toolyard test`: runs a plugin's recorded cases, and checks their results.

use crate::build::{ended, make};
use crate::case::{Case, text_of};
use crate::case_text;
use crate::compare::Mismatch;
use crate::find::{CaseFile, cases};
use crate::project::{PLUGIN, Project};
use crate::run_case::{CaseResult, run_case};
use crate::shell::Output;
use crate::time::shown_time;
use anyhow::Context as _;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use toolyard_cli::output::{self, GREEN, RED, RESET, Styled, YELLOW};
use toolyard_cli::replace::replace;
use toolyard_cli::{INTERRUPTED, WrongUsage, say, tell};
use toolyard_dispatch::Dispatch;
use toolyard_engine::PluginReport;

/// The options of `toolyard test`.
#[derive(Debug, Clone)]
pub struct TestOptions {
    /// A project, or a plugin folder.
    pub dir: PathBuf,
    /// Only cases whose names contain one of these run; all run if this is empty.
    pub patterns: Vec<String>,
    /// Whether to test the last build of a project.
    pub no_build: bool,
    /// Whether to write the result of a failed case into its file as the expected one.
    pub update: bool,
    /// The number of cases that run at once, at least 1.
    pub jobs: u16,
    /// Whether HTTP requests without an entry in their case, and raw sockets, use the network.
    pub network: bool,
    /// Whether to print one JSON object after all cases have run.
    pub json: bool,
}

/// The cases of a project or plugin folder.
pub struct Tests {
    options: TestOptions,
    project: Option<Project>,
    cases: Vec<(CaseFile, Case)>,
}

impl Tests {
    /// Reads the project, if the folder is one, and its cases.
    ///
    /// # Errors
    /// [`WrongUsage`] if the project or a case is wrong (all cases that are wrong are named), or if there
    /// is no case.
    pub fn open(options: TestOptions) -> Result<Self, WrongUsage> {
        let project = Project::is_at(&options.dir).then(|| Project::open(&options.dir)).transpose()?;
        let cases = read_cases(&options)?;
        Ok(Self { options, project, cases })
    }

    /// The plugin folder that a host must serve for [`Tests::run`].
    pub fn plugins(&self) -> PathBuf {
        match &self.project {
            Some(_) => self.options.dir.join(PLUGIN),
            None => self.options.dir.clone(),
        }
    }

    /// Builds the project, if the folder is one and the options require it. Returns the exit code if the
    /// tests end here because `stop` is cancelled.
    ///
    /// # Errors
    /// If the build fails.
    pub async fn build(&self, stop: &CancellationToken) -> anyhow::Result<Option<ExitCode>> {
        let Some(project) = self.project.as_ref().filter(|_| !self.options.no_build) else { return Ok(None) };
        match make(project, false, &Output::Terminal, stop).await {
            Ok(_) => Ok(None),
            Err(error) => ended(&error).map(Some),
        }
    }

    /// Runs the cases against a host that has loaded these plugins, and prints their results. The exit code
    /// shows whether a case failed or a plugin was refused. `began` is when loading began.
    ///
    /// # Errors
    /// If a case cannot be updated.
    pub async fn run(
        &self,
        dispatch: &Arc<Dispatch>,
        plugins: &[PluginReport],
        began: Instant,
        stop: &CancellationToken,
    ) -> anyhow::Result<ExitCode> {
        let Self { options, cases, .. } = self;
        let refused = refused(plugins);
        if !options.json {
            for (file, why) in &refused {
                say!("FAILED  {file} is not loaded: {why}");
            }
        }
        let running = cases.iter().map(async |(found, case)| {
            let began = Instant::now();
            let result = run_case(dispatch, case, options.network, stop).await;
            Ran { found, case, result, took: began.elapsed(), updated: false }
        });
        let mut running = futures_util::stream::iter(running).buffered(options.jobs.into());
        let mut all = Vec::new();
        while let Some(mut ran) = running.next().await {
            if stop.is_cancelled() {
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
        let stopped = stop.is_cancelled();
        drop(running);
        let took = began.elapsed();
        let failed = all.iter().filter(|ran| !ran.passed()).count();
        if stopped {
            tell!("toolyard: stopped after {} of {} cases", all.len(), cases.len());
        } else if options.json {
            output::json(report(&all, &refused, took));
        } else {
            say!("{} passed, {failed} failed, in {}", all.len() - failed, shown_time(took));
        }
        Ok(match (stopped, failed + refused.len()) {
            (true, _) => ExitCode::from(INTERRUPTED),
            (false, 0) => ExitCode::SUCCESS,
            (false, _) => ExitCode::FAILURE,
        })
    }
}

/// A case that was run.
struct Ran<'a> {
    found: &'a CaseFile,
    case: &'a Case,
    result: CaseResult,
    took: Duration,
    updated: bool,
}

/// The cases that the options select. The error names all invalid cases.
fn read_cases(options: &TestOptions) -> Result<Vec<(CaseFile, Case)>, WrongUsage> {
    let dir = options.dir.display();
    let found = cases(&options.dir, &options.patterns).map_err(WrongUsage)?;
    if found.is_empty() {
        let which = match options.patterns.is_empty() {
            true => String::new(),
            false => format!(" whose name holds {}", options.patterns.join(" or ")),
        };
        return Err(WrongUsage(format!(
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
    if broken.is_empty() { Ok(read) } else { Err(WrongUsage(broken.join("\n"))) }
}

/// The files that are not loaded, or not in their current version.
fn refused(plugins: &[PluginReport]) -> Vec<(String, String)> {
    let why = |report: &PluginReport| Some((report.file.clone(), report.refusal()?.to_owned()));
    plugins.iter().filter_map(why).collect()
}

impl Ran<'_> {
    fn passed(&self) -> bool {
        self.updated || self.result.is_ok()
    }

    fn wrong(&self) -> impl Iterator<Item = &Mismatch> {
        self.result.unanswered.iter().chain(&self.result.wrong)
    }

    /// Makes the actual result the expected one. A case that lacks answers stays unchanged.
    fn update(&mut self) -> anyhow::Result<()> {
        if self.passed() || !self.result.unanswered.is_empty() {
            return Ok(());
        }
        let path = &self.found.path;
        let text = text_of(path).map_err(anyhow::Error::msg)?;
        let text = case_text::update(&text, &self.result.outcome)
            .map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
        write(path, &text).with_context(|| format!("cannot write {}", path.display()))?;
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
        out = out.text(" ").line(&self.found.name).text(&format!("  ({})\n", shown_time(self.took)));
        if self.passed() {
            return out;
        }
        if let Some(description) = &self.case.description {
            out = out.text(&format!("    {description}\n"));
        }
        for mismatch in self.wrong() {
            let text = mismatch.described(colours);
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

/// Writes a file completely or not at all.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    replace(path, text.as_bytes(), std::fs::metadata(path)?.permissions())
}
