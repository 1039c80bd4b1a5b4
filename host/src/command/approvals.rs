//! `toolyard approvals`: calls that wait for the operator's approval.

use super::operator;
use super::table::table;
use super::tasks::{said, say_changed};
use crate::config::{Config, Flags};
use crate::prompt;
use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde::Serialize;
use std::process::ExitCode;
use toolyard_cli::{output, say, tell};
use toolyard_dispatch::{
    Approval, ApprovalDecision, Caller, Dispatch, MAX_NOTE, RawJson, Task, TaskStatus, Tasks, Timestamp,
    owner_name, visible,
};

/// The longest arguments in the table (characters).
const MAX_ARGUMENTS: usize = 60;

/// The options of `approvals`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(subcommand)]
    action: Action,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the calls that wait for an approval, the oldest first.
    List,
    /// Show a call and ask on the terminal whether it may run.
    Approve {
        /// The id of its task, as `list` shows it.
        id: String,
    },
    /// Deny a call, which then ends without having run.
    Deny {
        /// The id of its task, as `list` shows it.
        id: String,
        /// A text for the caller.
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
}

/// Runs the chosen command.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let config = operator::configured(flags)?;
    if !operator::has_store(&config, matches!(options.action, Action::List))? {
        return Ok(none(&config, options.json));
    }
    operator::with_store(&config, async |dispatch, _| match &options.action {
        Action::List => list(&dispatch, &config, options.json).await,
        Action::Approve { id } => approve(&dispatch, id, options.json).await,
        Action::Deny { id, note } => {
            if note.as_ref().is_some_and(|note| note.chars().count() > MAX_NOTE) {
                bail!("a note has at most {MAX_NOTE} characters");
            }
            let tasks = dispatch.tasks().await?;
            let task = waiting(tasks, id).await?;
            decide(tasks, &task, ApprovalDecision::Deny { note: note.clone() }, options.json).await
        }
    })
}

async fn list(dispatch: &Dispatch, config: &Config, json: bool) -> anyhow::Result<ExitCode> {
    let tasks = dispatch.tasks().await?;
    let mut rows = table(&["TASK", "TOOL", "CALLER", "TIME LEFT", "ARGUMENTS"]);
    let mut is_empty = true;
    for summary in operator::find_tasks(tasks, Some(&[TaskStatus::InputRequired])).await? {
        // Others have ended meanwhile, or wait for an answer.
        let Ok(task) = tasks.task(&Caller::operator(), &summary.id.to_string()).await else { continue };
        let Some(approval) = task.open_approval() else { continue };
        is_empty = false;
        if json {
            output::json(listed(&task, approval).as_str());
            continue;
        }
        let arguments = task.arguments.as_str();
        let short: String = arguments.chars().take(MAX_ARGUMENTS).collect();
        let more = if short.len() < arguments.len() { "…" } else { "" };
        rows.add_row([
            task.id.to_string(),
            task.tool.clone(),
            owner_name(&task.owner),
            left(&task, approval, dispatch.now()),
            visible::line(&format!("{short}{more}")).into_owned(),
        ]);
    }
    if is_empty {
        return Ok(none(config, json));
    }
    if !json {
        say!("{rows}");
        tell!("`toolyard approvals approve ID` shows a call whole and asks whether it may run.");
    }
    Ok(ExitCode::SUCCESS)
}

fn none(config: &Config, json: bool) -> ExitCode {
    if !json {
        say!("No call in {} waits for an approval.", config.data.display());
    }
    ExitCode::SUCCESS
}

fn left(task: &Task, approval: &Approval, now: Timestamp) -> String {
    let seconds = approval.expires_at(task).since(now) / 1_000;
    format!("{} min {:02} s", seconds / 60, seconds % 60)
}

/// A call that waits, for programs. The arguments are as the caller wrote them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'a> {
    task_id: String,
    tool: &'a str,
    digest: String,
    owner: String,
    created_at: String,
    expires_at: String,
    message: Option<&'a str>,
    fingerprint: &'a str,
    arguments: &'a RawJson,
}

fn listed(task: &Task, approval: &Approval) -> RawJson {
    RawJson::of(&Listed {
        task_id: task.id.to_string(),
        tool: &task.tool,
        digest: task.digest.to_string(),
        owner: owner_name(&task.owner),
        created_at: task.created_at.to_string(),
        expires_at: approval.expires_at(task).to_string(),
        message: approval.message.as_deref(),
        fingerprint: &approval.fingerprint,
        arguments: &task.arguments,
    })
}

/// The task of this id, which waits for the operator.
async fn waiting(tasks: &Tasks, id: &str) -> anyhow::Result<Task> {
    let task = tasks.task(&Caller::operator(), id).await.map_err(|fault| said(&fault, id))?;
    match task.open_approval() {
        Some(approval) if approval.is_for_operator() => Ok(task),
        Some(_) => bail!("only the person who called decides about {id} (`confirm-by = \"person\"`)"),
        None => bail!("task {id} does not wait for an approval; `toolyard approvals list` shows all that do"),
    }
}

/// Approves after a question on the terminal: a program that starts this command decides nothing.
async fn approve(dispatch: &Dispatch, id: &str, json: bool) -> anyhow::Result<ExitCode> {
    if !prompt::is_attended() {
        bail!("to approve a call, run this on a terminal or open the console (`toolyard console`)");
    }
    let tasks = dispatch.tasks().await?;
    let task = waiting(tasks, id).await?;
    let approval = task.open_approval().context("it was decided just now")?;
    tell!("       tool  {}", visible::line(&task.tool));
    tell!("  component  {}", task.digest);
    tell!("     caller  {}", owner_name(&task.owner));
    if let Some(message) = &approval.message {
        tell!("    message  {}", visible::line(message));
    }
    tell!("  time left  {}", left(&task, approval, dispatch.now()));
    tell!("  arguments");
    task.arguments.pretty().lines().for_each(|line| tell!("    {}", visible::line(line)));
    match prompt::read_line("Run it? Type yes or no:\n").await?.as_deref() {
        Some("yes") => decide(tasks, &task, ApprovalDecision::Approve, json).await,
        Some("no") => decide(tasks, &task, ApprovalDecision::Deny { note: None }, json).await,
        _ => {
            tell!("Nothing was decided; the call goes on waiting.");
            Ok(ExitCode::FAILURE)
        }
    }
}

async fn decide(
    tasks: &Tasks,
    shown: &Task,
    decision: ApprovalDecision,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let id = shown.id.to_string();
    let approval = shown.open_approval().context("it was decided just now")?;
    let word = match &decision {
        ApprovalDecision::Approve => "approved",
        ApprovalDecision::Deny { .. } => "denied",
    };
    let decided = tasks.decide(&Caller::operator(), &id, &approval.fingerprint, decision).await;
    say_changed(word, &id, decided, json)
}
