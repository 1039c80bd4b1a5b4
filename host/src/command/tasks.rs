//! `toolyard tasks`: the operator's view of the store.

mod answer;
mod history;
mod reencrypt;
mod timeline;
mod watch;

use super::table::{self, Column};
use super::{operator, until_stopped};
use crate::config::{Config, Flags};
use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use std::process::ExitCode;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use toolyard_cli::{output, say};
use toolyard_dispatch::{Caller, Dispatch, Fault, NoClientChannel, Summary, Task, owner_name, visible};
use toolyard_store::Backend;

const COLUMNS: [Column<Summary>; 9] = [
    Column::new("TASK", "taskId", |task| task.id.to_string().into()),
    Column::new("STATUS", "status", |task| task.status.as_str().into()),
    Column::new("TOOL", "tool", |task| task.tool.as_str().into()),
    Column::member("digest", |task| task.digest.to_string().into()),
    Column::new("CREATED", "createdAt", |task| task.created_at.to_string().into()),
    Column::new("OWNER", "owner", |task| owner_name(&task.owner).into()),
    Column::member("lastUpdatedAt", |task| task.updated_at.to_string().into()),
    Column::member("ttl", |task| task.ttl_ms.into()),
    Column::new("MESSAGE", "statusMessage", |task| task.status_message.as_deref().into()),
];

/// The options of `tasks`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(subcommand)]
    action: Action,
    /// Print JSON instead of a table.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// All stored tasks, the oldest first.
    List {
        /// Print a task again whenever it changes, until Ctrl-C.
        #[arg(long)]
        watch: bool,
    },
    /// Print each change of a task until it ends. Fails unless the task completes.
    Watch {
        /// The id.
        id: String,
    },
    Answer(answer::Options),
    /// Show one task.
    Show {
        /// The id.
        id: String,
        /// Print its events instead: when it waited, ran, asked, logged and ended.
        #[arg(long)]
        timeline: bool,
    },
    /// Print the log messages of the tool that worked on a task.
    Logs {
        /// The id.
        id: String,
        /// Print new messages until the task ends.
        #[arg(long)]
        follow: bool,
    },
    History(history::Options),
    /// Print the result of a task; waits until the task ends.
    Result {
        /// The id.
        id: String,
        /// Fail at once if it has not ended.
        #[arg(long)]
        no_wait: bool,
    },
    /// Cancel a task; the host that runs it stops its guest.
    Cancel {
        /// The id.
        id: String,
    },
    /// Continue a task that failed because it stalled or its run diverged from its journal. A host takes it at once.
    Resume {
        /// The id.
        id: String,
    },
    Reencrypt(reencrypt::Options),
}

/// Runs the chosen command.
pub fn run(flags: &Flags, options: &Options) -> anyhow::Result<ExitCode> {
    let config = operator::configured(flags)?;
    let lists = matches!(options.action, Action::List { watch: false });
    if !operator::has_store(&config, lists)? {
        return Ok(list(&[], &config, options.json));
    }
    if let Action::Reencrypt(reencrypt) = &options.action {
        return reencrypt::run(&config, reencrypt, options.json);
    }
    if let Action::History(history) = &options.action {
        return operator::with_store_to_read(&config, async |store| {
            history::run(store, history, options.json).await
        });
    }
    operator::with_store(&config, async |dispatch, store| {
        let service = tokio::spawn(dispatch.clone().keep_time(CancellationToken::new()));
        let done = until_stopped(act(&dispatch, &*store, &config, options)).await;
        service.abort();
        done
    })
}

async fn act(
    dispatch: &Dispatch,
    store: &dyn Backend,
    config: &Config,
    options: &Options,
) -> anyhow::Result<ExitCode> {
    let (tasks, operator) = (dispatch.tasks().await?, Caller::operator());
    match &options.action {
        Action::List { watch: false } => {
            Ok(list(&operator::find_tasks(tasks, None).await?, config, options.json))
        }
        Action::List { watch: true } => watch::all(tasks, options.json).await,
        Action::Watch { id } => watch::run(tasks, id, options.json).await,
        Action::Answer(options) => answer::run(tasks, options).await,
        Action::Show { id, timeline: true } => timeline::show(tasks, id, options.json).await,
        Action::Logs { id, follow } => timeline::logs(tasks, id, *follow, options.json).await,
        Action::Show { id, timeline: false } => {
            let task = tasks.task(&operator, id).await.map_err(|fault| said(&fault, id))?;
            let why = match task.resume {
                Some(_) => None,
                None => timeline::unresumable_reason(store, task.id).await?,
            };
            show(&task, why, options.json);
            Ok(ExitCode::SUCCESS)
        }
        Action::Result { id, no_wait } => {
            let task = tasks.task(&operator, id).await.map_err(|fault| said(&fault, id))?;
            if *no_wait && task.is_live() {
                bail!("task {id} has not ended; it is {}", task.status().as_str());
            }
            let result = tasks.task_result(&operator, id, Arc::new(NoClientChannel)).await;
            match result.map_err(|fault| said(&fault, id))? {
                Ok(result) => {
                    output::json(result.as_str());
                    let value: serde_json::Value = result.decode().context("cannot read the result")?;
                    let failed = value["isError"].as_bool().unwrap_or_default();
                    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
                }
                Err(error) => {
                    let message = visible::line(&error.message);
                    bail!("the task ended with the error {}: {message}", error.code)
                }
            }
        }
        Action::Cancel { id } => {
            say_changed("cancelled", id, tasks.cancel_task(&operator, id).await, options.json)
        }
        Action::Resume { id } => {
            say_changed("resumed", id, tasks.resume_task(&operator, id).await, options.json)
        }
        Action::Reencrypt(_) | Action::History(_) => {
            unreachable!("these are done with the store alone")
        }
    }
}

pub(super) fn said(fault: &Fault, id: &str) -> anyhow::Error {
    match fault {
        Fault::UnknownTask => anyhow::anyhow!("no task {id} in this store; `toolyard tasks list` shows all"),
        other => anyhow::anyhow!("{}", visible::line(&other.to_string())),
    }
}

/// Prints a task after a change. `word` names the change.
pub(super) fn say_changed(
    word: &str,
    id: &str,
    changed: Result<Task, Fault>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let task = changed.map_err(|fault| said(&fault, id))?;
    match json {
        true => output::json(task.view().render().as_str()),
        false => say!("{word} {id}"),
    }
    Ok(ExitCode::SUCCESS)
}

fn list(all: &[Summary], config: &Config, json: bool) -> ExitCode {
    table::list_or(&COLUMNS, all, json, format_args!("No tasks in {}.", config.data.display()));
    ExitCode::SUCCESS
}

fn as_json(summary: &Summary) -> serde_json::Value {
    table::object(&COLUMNS, summary)
}

/// Prints a task. `unresumable` is why it no longer resumes.
fn show(task: &Task, unresumable: Option<String>, json: bool) {
    let mut value = as_json(&Summary::of(task));
    value["startedAt"] = task.started_at.map(|started| started.to_string()).into();
    value["incarnation"] = task.fence.incarnation.0.into();
    value["attempt"] = task.fence.attempt.into();
    value["resumes"] = task.resume.is_some().into();
    if task.resume.is_some() || unresumable.is_some() {
        value["resumptions"] = task.fence.attempt.saturating_sub(1).into();
    }
    if let Some(why) = unresumable {
        value["notResumable"] = why.into();
    }
    let wake = task.parked().map(|parked| parked.wake.map(|wake| wake.to_string()));
    value["parked"] = match &wake {
        Some(until) => serde_json::json!({"until": until}),
        None => serde_json::Value::Null,
    };
    if let Ok(arguments) = task.arguments.decode::<serde_json::Value>() {
        value["arguments"] = arguments;
    }
    if json {
        output::json(value);
        return;
    }
    value["parked"] = match wake {
        Some(Some(until)) => format!("until {until}").into(),
        Some(None) => "until an answer".into(),
        None => "no".into(),
    };
    for (name, member) in value.as_object().into_iter().flatten() {
        let text = member.as_str().map_or_else(|| member.to_string(), str::to_owned);
        say!("{name:>14}  {}", visible::line(&text));
    }
}
