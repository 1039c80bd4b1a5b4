//! `toolyard tasks history`: the journal of a task that resumes, an entry a line.

use super::{said, timeline};
use anyhow::bail;
use clap::Args;
use std::process::ExitCode;
use toolyard_cli::{output, say};
use toolyard_dispatch::{Fault, TaskId, visible};
use toolyard_journal::{Detail, History, HistoryLine};
use toolyard_store::Backend;

/// Bytes of a journal that are read at once.
const PIECE: u64 = 1 << 20;

/// Print the journal of a task that resumes: what came from outside, in its order.
#[derive(Debug, Args)]
pub struct Options {
    /// The id.
    id: String,
    /// Print results, answers, headers and bodies too.
    #[arg(long)]
    full: bool,
}

/// Prints the journal, piece by piece. Changes nothing in the store.
pub async fn run(store: &dyn Backend, options: &Options, json: bool) -> anyhow::Result<ExitCode> {
    let id = &options.id;
    let unknown = || said(&Fault::UnknownTask, id);
    let task = TaskId::parse(id).ok_or_else(unknown)?;
    let read = store.read(task, None).await?.filter(|read| !read.task.is_gone(read.now));
    let read = read.ok_or_else(unknown)?;
    let Some(head) = store.journal(task).await? else {
        let why = match (timeline::unresumable_reason(store, task).await?, read.task.resume) {
            (Some(why), _) => format!("it no longer resumes: {}", visible::line(&why)),
            (None, Some(_)) => {
                "it was removed; `journal` in the manifest and `tasks.journals` say when".to_owned()
            }
            (None, None) => "only tasks of tools with `durability = \"resume\"` have one".to_owned(),
        };
        bail!("task {id} has no journal: {why}");
    };
    let detail = if options.full { Detail::Full } else { Detail::Summary };
    let mut history = History::after(detail, head.first, 0);
    let mut at = head.first;
    while at < head.next {
        let piece = store.chunks(task, at, PIECE).await?;
        if piece.is_empty() {
            bail!(
                "the journal of task {id} was replaced or removed while it was read; run the command again"
            );
        }
        for chunk in &piece {
            let (lines, fault) = history.read(chunk);
            for line in &lines {
                print(line, options.full, json);
            }
            if let Some(fault) = fault {
                bail!("cannot read the rest of the journal of task {id}: {fault}");
            }
        }
        at = at.saturating_add(u32::try_from(piece.len()).unwrap_or(u32::MAX));
    }
    if !json {
        say!("{}", history.summary());
    }
    Ok(ExitCode::SUCCESS)
}

fn print(line: &HistoryLine, is_full: bool, json: bool) {
    if json {
        output::json(line.to_json());
        return;
    }
    say!("{line}");
    if is_full {
        for more in contents(line) {
            say!("      {}", visible::line(&more));
        }
    }
}

/// Results, answers, headers and bodies, for the lines below an entry.
fn contents(line: &HistoryLine) -> Vec<String> {
    let mut all = Vec::new();
    for name in ["result", "answers", "headers", "body", "bodyBase64"] {
        match &line.fields.get(name) {
            None => {}
            Some(serde_json::Value::String(text)) => all.extend(text.lines().map(str::to_owned)),
            Some(serde_json::Value::Array(headers)) if name == "headers" => {
                let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
                all.extend(
                    headers.iter().map(|header| format!("{}: {}", text(&header[0]), text(&header[1]))),
                );
            }
            Some(value) => all.push(value.to_string()),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use toolyard_journal::EntryKind;

    #[test]
    fn the_contents_of_an_entry_are_lines_below_it() {
        let line = |fields: serde_json::Value| HistoryLine {
            number: None,
            kind: EntryKind::Response,
            time_ms: 0,
            words: String::new(),
            remark: String::new(),
            fields: fields.as_object().expect("an object").clone(),
        };
        let response = line(json!({"status": 200, "headers": [["a", "b"]], "body": "one\ntwo"}));
        assert_eq!(contents(&response), ["a: b", "one", "two"]);
        assert_eq!(contents(&line(json!({"answers": {"q": 1}, "bytes": 7}))), [r#"{"q":1}"#]);
        assert_eq!(contents(&line(json!({"steps": 1}))), Vec::<String>::new());
    }
}
