//! The live view of calls and of loaded plugins that `toolyard dev` shows.

use super::show::{CYAN, DIM, GREEN, RED, RESET, Show, YELLOW, clipped, value};
use crate::compare::text_of;
use crate::time::shown_time;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use toolyard_dispatch::{
    AskError, CallEvent, CallOutcome, GivenAnswer, ObservedCall, Observer, RawJson, Report,
};
use toolyard_engine::{PluginReport, PluginState};

/// Shows calls and changes of the loaded plugins.
pub struct CallLog {
    show: Arc<Show>,
    /// The plugins of the last [`CallLog::loaded`], by file.
    loaded: Mutex<BTreeMap<String, PluginReport>>,
}

impl CallLog {
    pub(super) fn new(show: Arc<Show>) -> Self {
        Self { show, loaded: Mutex::default() }
    }

    /// Shows an event of a call: a word, its colour, a text, and JSON members.
    fn call(
        &self,
        call: &ObservedCall<'_>,
        event: &'static str,
        colour: &'static str,
        text: &str,
        json: Value,
    ) {
        let mut members = Map::new();
        members.insert("call".to_owned(), call.number.into());
        members.insert("tool".to_owned(), call.tool.into());
        if let Some(task) = call.task {
            members.insert("task".to_owned(), task.to_string().into());
        }
        if let Value::Object(more) = json {
            members.extend(more);
        }
        let text = format!("#{} {} {text}", call.number, call.tool);
        self.show.say(event, colour, &text, members.into());
    }

    fn reported(&self, call: &ObservedCall<'_>, report: &Report) {
        match report {
            Report::Progress(progress) => {
                let total = progress.total.map(|total| format!("/{total}")).unwrap_or_default();
                let message = progress.message.as_deref().unwrap_or_default();
                let text = format!("{}{total} {}", progress.progress, clipped(message));
                let json = json!({"progress": progress.progress, "total": progress.total, "message": progress.message});
                self.call(call, "progress", DIM, &text, json);
            }
            Report::Status(message) => {
                self.call(call, "status", DIM, &clipped(message), json!({"message": message}));
            }
            Report::Log { level, logger, data } => {
                let said = data.decode::<String>().unwrap_or_else(|_| data.as_str().to_owned());
                let of = logger.as_deref().map(|logger| format!(" {logger}")).unwrap_or_default();
                let text = format!("{}{of}: {}", level.as_str(), clipped(&said));
                let json = json!({"level": level.as_str(), "logger": logger, "data": value(data.as_str())});
                self.call(call, "log", RESET, &text, json);
            }
            // Not shown: the time of the call shows what was used.
            Report::Changed(_)
            | Report::ElicitationComplete { .. }
            | Report::Usage(_)
            // The log of the host shows the lines of guests.
            | Report::Output { .. }
            | Report::HostCall(_)
            | Report::ReleaseStream { .. } => {}
        }
    }

    fn answered(&self, call: &ObservedCall<'_>, answer: &GivenAnswer) {
        let (said, json) = match &answer.outcome {
            Ok(result) => {
                (result.as_str().to_owned(), json!({"key": answer.key, "answer": value(result.as_str())}))
            }
            Err(error) => {
                let why = why(error);
                (why.clone(), json!({"key": answer.key, "why": why}))
            }
        };
        let text = format!("{}: {}", answer.key, clipped(&said));
        self.call(call, "answered", YELLOW, &text, json);
    }

    fn ended(&self, call: &ObservedCall<'_>, outcome: CallOutcome<'_>) {
        let ms = u64::try_from(call.after.as_millis()).unwrap_or(u64::MAX);
        let took = shown_time(call.after);
        match outcome {
            CallOutcome::Result { is_error, result } => {
                let (event, colour) = if is_error { ("failed", RED) } else { ("result", GREEN) };
                let text = format!("in {took}: {}", clipped(&shown(result)));
                self.call(call, event, colour, &text, json!({"ms": ms, "result": value(result.as_str())}));
            }
            CallOutcome::Error(error) => {
                let text = format!("in {took}: {} {}", error.code, clipped(&error.message));
                let json = json!({"ms": ms, "code": error.code, "message": error.message});
                self.call(call, "error", RED, &text, json);
            }
            CallOutcome::Refused(fault) => {
                let error = fault.rpc();
                let text = clipped(&error.message);
                let json = json!({"code": error.code, "message": error.message});
                self.call(call, "refused", RED, &text, json);
            }
            CallOutcome::Stopped => {
                self.call(call, "stopped", YELLOW, &format!("after {took}"), json!({"ms": ms}));
            }
        }
    }

    /// Shows one file of the folder, before and now.
    fn file(&self, name: &str, was: Option<&PluginReport>, is: Option<&PluginReport>) {
        let (event, colour, (text, mut json)) = match is {
            None => ("removed", YELLOW, (String::new(), json!({}))),
            Some(is) => match &is.state {
                PluginState::Disabled => ("disabled", YELLOW, ("by its manifest".to_owned(), json!({}))),
                PluginState::Refused { why } => {
                    ("refused", RED, (why.clone(), json!({"why": why, "former": false})))
                }
                PluginState::KeptPrevious { why } => {
                    let text = format!("{why}; the former version goes on");
                    ("refused", RED, (text, json!({"why": why, "former": true})))
                }
                PluginState::Serving => ("loaded", GREEN, served(was, is)),
            },
        };
        json["file"] = name.into();
        self.show.say(event, colour, &format!("{name}: {text}"), json);
    }
}

/// A served file, and how it differs from before, for people and for programs.
fn served(was: Option<&PluginReport>, is: &PluginReport) -> (String, Value) {
    let had: &[String] = was.map_or(&[], |was| &was.tools);
    let less = |these: &[String], those: &[String]| -> Vec<String> {
        these.iter().filter(|tool| !those.contains(tool)).cloned().collect()
    };
    let (added, removed) = (less(&is.tools, had), less(had, &is.tools));
    let mut parts = vec![is.tools.join(", ")];
    for (word, tools) in [("added", &added), ("removed", &removed)] {
        if was.is_some() && !tools.is_empty() {
            parts.push(format!("{word} {}", tools.join(", ")));
        }
    }
    parts.extend(is.left_out.iter().map(|why| format!("left out: {why}")));
    parts.extend(is.compiled_in.map(|took| format!("compiled in {}", shown_time(took))));
    if was.is_some_and(|was| was.digest == is.digest) {
        parts.push("by its manifest".to_owned());
    }
    let digest = is.digest.as_ref().map(ToString::to_string);
    let json = json!({"tools": is.tools, "added": added, "removed": removed, "digest": digest, "leftOut": is.left_out});
    (parts.join("; "), json)
}

impl Observer for CallLog {
    fn observed(&self, call: &ObservedCall<'_>, event: CallEvent<'_>) {
        match event {
            CallEvent::Began { caller, arguments } => {
                let text = format!("{} from {caller}", clipped(arguments.as_str()));
                let json = json!({"caller": caller, "arguments": value(arguments.as_str())});
                self.call(call, "call", CYAN, &text, json);
            }
            CallEvent::IsTask => {
                let id = call.task.map(|task| task.to_string()).unwrap_or_default();
                self.call(call, "task", CYAN, &id, json!({}));
            }
            CallEvent::Reported(report) => self.reported(call, report),
            CallEvent::Asked { key, method, params } => {
                let asked: Value = params.decode().unwrap_or_default();
                let what =
                    asked["message"].as_str().map_or_else(|| params.as_str().to_owned(), str::to_owned);
                let text = format!("{key}: {} ({method})", clipped(&what));
                let json = json!({"key": key, "method": method, "params": value(params.as_str())});
                self.call(call, "asked", YELLOW, &text, json);
            }
            CallEvent::Answered(answer) => self.answered(call, answer),
            CallEvent::Ended(outcome) => self.ended(call, outcome),
        }
    }
}

impl CallLog {
    /// Shows how the plugin folder differs from the last time.
    pub fn loaded(&self, plugins: &[PluginReport]) {
        let now: BTreeMap<String, PluginReport> =
            plugins.iter().map(|report| (report.file.clone(), report.clone())).collect();
        let former = {
            let mut loaded = self.loaded.lock();
            std::mem::replace(&mut *loaded, now.clone())
        };
        for (name, was) in former.iter().filter(|(name, _)| !now.contains_key(*name)) {
            self.file(name, Some(was), None);
        }
        for (name, is) in &now {
            let was = former.get(name);
            // The time of a compilation is no difference.
            let same =
                was.is_some_and(|was| PluginReport { compiled_in: is.compiled_in, ..was.clone() } == *is);
            if !same {
                self.file(name, was, Some(is));
            }
        }
    }
}

/// A result for people: its text, else its structured content.
fn shown(result: &RawJson) -> String {
    let result: Value = result.decode().unwrap_or_default();
    let text = text_of(&result);
    match result.get("structuredContent") {
        Some(structured) if text.is_empty() => structured.to_string(),
        _ => text,
    }
}

/// The reason why a question has no answer, in words.
fn why(error: &AskError) -> String {
    match error {
        AskError::Unsupported(what) => format!("the client cannot be asked: {what}"),
        AskError::TimedOut => "no answer in time".to_owned(),
        AskError::Refused(error) => format!("the client refused: {} {}", error.code, error.message),
        AskError::Invalid(what) => format!("the question is invalid: {what}"),
        AskError::TooLate => "too late to ask: the call has had effects".to_owned(),
        AskError::Cancelled => "the call is being stopped".to_owned(),
    }
}
