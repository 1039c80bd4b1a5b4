//! `toolyard tasks answer`: answers the open questions of a task, at a terminal or by flags.

use super::said;
use anyhow::{Context as _, bail};
use clap::Args;
use std::collections::HashMap;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use toolyard_cli::{bail_usage, say, tell};
use toolyard_dispatch::{Caller, RawJson, Tasks, misfit, visible};

/// Answer the open questions of a task.
#[derive(Debug, Args)]
pub struct Options {
    /// The id.
    id: String,
    /// The content of an answer, a JSON object, after the key of its question; may be repeated. [default: ask on the
    /// terminal]
    #[arg(long = "answer", value_name = "KEY=JSON", value_parser = answer)]
    answers: Vec<(String, RawJson)>,
    /// Decline all questions that no other flag answers.
    #[arg(long)]
    decline: bool,
}

fn answer(text: &str) -> Result<(String, RawJson), String> {
    let wrong = || format!("expected KEY=JSON with a JSON object, not `{text}`");
    let (key, json) = text.split_once('=').ok_or_else(wrong)?;
    let content = RawJson::parse(json.to_owned()).ok().filter(RawJson::is_object).ok_or_else(wrong)?;
    Ok((key.to_owned(), content))
}

/// Answers the questions. A call that waits for an approval is not a question: `toolyard approvals` decides about it.
pub async fn run(tasks: &Tasks, options: &Options) -> anyhow::Result<ExitCode> {
    let (operator, id) = (Caller::operator(), &options.id);
    let task = tasks.task(&operator, id).await.map_err(|fault| said(&fault, id))?;
    let questions: Vec<_> =
        task.open_questions().map(|question| (question.wire_key().into_owned(), question)).collect();
    if task.open_approval().is_some() {
        bail!("task {id} waits for an approval; `toolyard approvals approve {id}` decides about it");
    }
    if questions.is_empty() {
        bail!("task {id} has no open question; it is {}", task.status().as_str());
    }
    let known = |key: &String| questions.iter().any(|(known, _)| known == key);
    if let Some((key, _)) = options.answers.iter().find(|(key, _)| !known(key)) {
        let keys: Vec<&str> = questions.iter().map(|(key, _)| key.as_str()).collect();
        let keys = visible::line(&keys.join(", ")).into_owned();
        bail_usage!("no open question has the key `{key}`; the keys are {keys}");
    }
    let mut responses = HashMap::new();
    for (key, question) in &questions {
        let given = options.answers.iter().find(|(of, _)| of == key);
        let response = match given {
            Some((_, content)) => {
                if let Some(fault) = misfit(&question.params, content) {
                    bail_usage!("the answer to `{key}` does not fit: {fault}");
                }
                RawJson::of(&serde_json::json!({"action": "accept", "content": content}))
            }
            None if options.decline => RawJson::of(&serde_json::json!({"action": "decline"})),
            None if !io::stdin().is_terminal() => {
                tell!("toolyard: `{}` stays open; --answer KEY=JSON answers it", visible::line(key));
                continue;
            }
            None => {
                let (method, params) = (question.kind.method(), question.params.clone());
                let asked =
                    tokio::task::spawn_blocking(move || toolyard_workshop::ask_at_terminal(method, &params));
                let asked = asked.await.context("cannot read the answer")?;
                asked.map_err(|error| anyhow::anyhow!("{}", visible::line(&error.message)))?
            }
        };
        responses.insert(key.clone(), response);
    }
    if responses.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    let count = responses.len();
    tasks.update_task(&operator, id, responses).await.map_err(|fault| said(&fault, id))?;
    say!("answered {count} of {} questions of {id}", questions.len());
    Ok(ExitCode::SUCCESS)
}
