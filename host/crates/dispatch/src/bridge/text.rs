//! The texts of the bridge: results of the host that a model reads. Each one says that nothing has
//! failed, or what has failed, and names the next call.
//!
//! A part of each text comes from guests: progress, status, questions. It is quoted and on one line,
//! so that a guest cannot forge a line of the host. It is short, because a model pays for it.

mod descriptors;
mod task_list;

pub(crate) use descriptors::{ANSWER, CALL, CANCEL, LIST, SEARCH, WAIT, host_tools, search_tools};
pub(crate) use task_list::{ListFilter, several_tasks, task_list};

use serde_json::Value;
use std::time::Duration;
use toolyard_protocol::progress::Progress;
use toolyard_protocol::question::form::{describe_form, example_content, one_line, quoted};
use toolyard_protocol::{RawJson, RpcError, Timestamp};
use toolyard_task::approval::ConfirmBy;
use toolyard_task::task::Question;
use toolyard_task::wire::QuestionKind;

/// The longest text of a guest that is shown whole, in characters.
const MAX_GUEST_CHARS: usize = 200;
/// The same for the message of a question, which the user must read, for the message of an error,
/// which is the result of its call, and for the manifest's immediate response.
const MAX_MESSAGE_CHARS: usize = 2_000;
/// The longest address that is shown; a clipped one would lead elsewhere.
const MAX_URL_CHARS: usize = 2_000;
/// The number of `task_wait` calls for one task after which the user should hear of the delay.
const MANY_WAITS: u32 = 3;

/// The names of the host tools as the client lists them, with prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolNames {
    pub wait: String,
    pub list: String,
    pub cancel: String,
    /// `None` for a client that is not offered this tool.
    pub answer: Option<String>,
    /// The address of the console, if there is one.
    pub console: Option<String>,
}

impl ToolNames {
    /// The same, with the address of the console.
    pub fn at(self, console: Option<&str>) -> Self {
        Self { console: console.map(str::to_owned), ..self }
    }
}

/// A task that has not ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunningTask<'a> {
    pub tool: &'a str,
    pub id: &'a str,
    /// The time since the call began.
    pub elapsed: Duration,
    /// The latest progress.
    pub progress: Option<&'a Progress>,
    /// The latest status message.
    pub status: Option<&'a str>,
    pub state: RunState,
}

/// The state of a task that has not ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RunState {
    Running,
    /// The task waits for its turn behind this many running calls.
    Queued(u32),
    /// The task waits for an approval by these.
    Unapproved(ConfirmBy),
}

/// A question that a task is waiting with.
#[derive(Debug, Clone)]
pub(crate) struct OpenQuestion {
    /// The key of the question on the wire.
    pub key: String,
    /// The text for the user.
    pub message: String,
    /// The time until it is withdrawn.
    pub left: Duration,
    pub kind: OpenQuestionKind,
}

/// How a question is answered.
#[derive(Debug, Clone)]
pub(crate) enum OpenQuestionKind {
    /// With a form of this schema.
    Form(RawJson),
    /// On the page of this address.
    Url(String),
}

impl OpenQuestion {
    /// The question as it waits now.
    pub fn of(question: &Question, now: Timestamp) -> Self {
        let params: Value = question.params.decode().unwrap_or_default();
        let text = |name: &str| params[name].as_str().unwrap_or_default().to_owned();
        Self {
            key: question.wire_key().into_owned(),
            message: text("message"),
            left: Duration::from_millis(question.deadline.since(now)),
            kind: match question.kind {
                QuestionKind::Url => OpenQuestionKind::Url(text("url")),
                _ => OpenQuestionKind::Form(RawJson::of(&params["requestedSchema"])),
            },
        }
    }
}

/// The result of a search that found `count` tools, of which these are shown.
pub(crate) fn search_result(entries: &[&RawJson], count: usize, call: &str) -> String {
    if entries.is_empty() {
        return "No tool fits. Search again with other words, such as the name of what it works on."
            .to_owned();
    }
    let mut text = format!("{} of {count} tools that fit. Call one with {call}.\n", entries.len());
    for entry in entries {
        text += entry.as_str();
        text.push('\n');
    }
    text
}

/// The result of a call that goes on as a task. `immediate_response` is the manifest's text.
pub(crate) fn hand_off(
    task: &RunningTask<'_>,
    kept_until: Timestamp,
    now: Timestamp,
    immediate_response: Option<&str>,
    questions: &[OpenQuestion],
    names: &ToolNames,
) -> String {
    let RunningTask { id, .. } = task;
    let (tool, until) = (tool_name(task.tool), moment(kept_until, now));
    let (wait, cancel) = (&names.wait, &names.cancel);
    let response = immediate_response.map(|response| one_line(response, MAX_MESSAGE_CHARS));
    let state = match task.state {
        RunState::Queued(running) => {
            let queue = queue(running);
            format!("{tool} is {queue}. Nothing has failed. It will run in the background as task {id}.")
        }
        RunState::Unapproved(by) => {
            format!("{tool} runs only after an approval. {}", approval(id, by, names))
        }
        RunState::Running => {
            format!(
                "{tool} is still running. Nothing has failed. It continues in the background as task {id}."
            )
        }
    };
    let mut lines: Vec<String> = response.into_iter().collect();
    lines.extend([
        state,
        format!("So far: {}.\n", so_far(task)),
        format!("To get the result, call {wait} with {{\"task_id\": \"{id}\"}}."),
        format!("Do not call {tool} again for this: it would do the work a second time."),
        format!(
            "You may do other things first. The result is kept until {until}. To stop it, call {cancel} with the same \
             task_id."
        ),
    ]);
    if !questions.is_empty() {
        lines.push(format!("\n{}", waiting_for_answer(id, task.tool, questions, names)));
    }
    lines.join("\n")
}

/// The result of a `task_wait` that ended before the task. `waits` counts those for this task, this
/// one included.
pub(crate) fn still_running(task: &RunningTask<'_>, waits: u32, names: &ToolNames) -> String {
    let (head, wait) = (task_head(task.id, task.tool), &names.wait);
    let mut text = match task.state {
        RunState::Queued(running) => format!("{head} is {} ({})", queue(running), so_far(task)),
        RunState::Unapproved(by) => {
            format!("{head}: {}", approval(task.id, by, names).trim_end_matches('.'))
        }
        RunState::Running => format!("{head} is still running ({})", so_far(task)),
    };
    text += &format!(". To get the result, call {wait} again with {{\"task_id\": \"{}\"}}.", task.id);
    if waits >= MANY_WAITS {
        text += " You may also tell the user that it takes longer, and come back later.";
    }
    text
}

/// The text in front of the result of an ended task.
pub(crate) fn done_prefix(id: &str, tool: &str) -> String {
    format!("{} is done. Its result:", task_head(id, tool))
}

/// The result of a task that ended with a JSON-RPC error.
pub(crate) fn failed(id: &str, tool: &str, error: &RpcError) -> String {
    let message = quoted(&error.message, MAX_MESSAGE_CHARS);
    format!("{} failed: {message} ({}).", task_head(id, tool), error.code)
}

/// The result of a task that a client or an operator cancelled.
pub(crate) fn cancelled(id: &str, tool: &str) -> String {
    format!("{} was cancelled. It has no result.", task_head(id, tool))
}

/// The result of a task that did not end within its time.
pub(crate) fn expired(id: &str, tool: &str) -> String {
    format!("{} ran out of time, so the host stopped it. It has no result.", task_head(id, tool))
}

/// The result of a host tool for an id that the caller may not see. `id` is as the client sent it.
pub(crate) fn unknown_task(id: &str, names: &ToolNames) -> String {
    let (id, list) = (quoted(id, MAX_GUEST_CHARS), &names.list);
    format!("There is no task {id} (or no longer, or it is not yours). {list} shows those there are.")
}

/// The result of a `task_wait` without an id for a caller with no task to wait for.
pub(crate) fn no_task(names: &ToolNames) -> String {
    format!(
        "You have no task to wait for. {} with {{\"status\": \"all\"}} shows those that ended.",
        names.list
    )
}

/// The result of a host tool without an id for a caller whose tasks have no owner.
pub(crate) fn id_needed(tool: &str) -> String {
    format!(
        "{tool} needs the task_id here: the host does not know who you are. Use the one from the hand-off."
    )
}

/// The result of a `task_cancel` that stopped its task.
pub(crate) fn stopped(id: &str, tool: &str) -> String {
    format!("{} is cancelled. Its effects so far are not undone.", task_head(id, tool))
}

/// The result of a `task_cancel` for a task that has ended.
pub(crate) fn already_ended(id: &str, tool: &str, names: &ToolNames) -> String {
    format!(
        "{} has already ended. To get its result, call {} with {{\"task_id\": \"{id}\"}}.",
        task_head(id, tool),
        names.wait
    )
}

/// The questions that a task is waiting with, and the calls that answer them.
pub(crate) fn waiting_for_answer(
    id: &str,
    tool: &str,
    questions: &[OpenQuestion],
    names: &ToolNames,
) -> String {
    let head = task_head(id, tool);
    questions
        .iter()
        .flat_map(|question| question_lines(&head, id, question, names))
        .collect::<Vec<_>>()
        .join("\n")
}

fn question_lines(head: &str, id: &str, question: &OpenQuestion, names: &ToolNames) -> Vec<String> {
    let OpenQuestion { key, message, left, kind } = question;
    let key = quoted(key, MAX_GUEST_CHARS);
    let left = time_left(*left);
    let mut lines = vec![
        format!("{head} is waiting for an answer from the user (key {key}, {left}):"),
        format!("  {}", quoted(message, MAX_MESSAGE_CHARS)),
    ];
    let answer = names.answer.as_deref();
    match kind {
        OpenQuestionKind::Form(schema) => {
            lines.extend(describe_form(schema).iter().map(|field| format!("  {field}")));
            lines.extend(answer.map(|answer| {
                let content = example_content(schema);
                format!(
                    "Ask the user in this conversation, then call {answer} with {{\"task_id\": \"{id}\", \"key\": {key}, \
                     \"action\": \"accept\", \"content\": {content}}}."
                )
            }));
        }
        OpenQuestionKind::Url(url) => {
            lines.push(match url.chars().count() <= MAX_URL_CHARS {
                true => format!("  The user must open {}.", quoted(url, MAX_URL_CHARS)),
                false => "  The address to open is too long to be shown.".to_owned(),
            });
            lines.extend(answer.map(|answer| {
                format!(
                    "Give the user this address. If the user agrees to open it, call {answer} with {{\"task_id\": \
                     \"{id}\", \"key\": {key}, \"action\": \"accept\"}}."
                )
            }));
        }
    }
    lines.extend(answer.map(|answer| {
        format!("If the user refuses, call {answer} with \"action\": \"decline\" and no content.")
    }));
    lines.extend(names.console.as_ref().map(|console| format!("Or the user answers at {console}/q/{id}.")));
    lines
}

/// The result of a `task_answer` that the task received.
pub(crate) fn answer_passed_on(id: &str, tool: &str, names: &ToolNames) -> String {
    format!(
        "{} has the answer and goes on. To get the result, call {} with {{\"task_id\": \"{id}\"}}.",
        task_head(id, tool),
        names.wait
    )
}

/// The result of a `task_answer` that does not fit the form. `fault` completes "it does not fit".
/// `question` is the question as it waits now, with its new key; `None` if the task asks no more.
pub(crate) fn answer_misfit(
    id: &str,
    tool: &str,
    fault: &str,
    question: Option<&OpenQuestion>,
    names: &ToolNames,
) -> String {
    let fault = quoted(fault, MAX_MESSAGE_CHARS);
    match question {
        Some(question) => format!(
            "The answer does not fit the form: {fault}. Correct it and answer again.\n{}",
            waiting_for_answer(id, tool, std::slice::from_ref(question), names)
        ),
        None => format!(
            "The answer does not fit the form: {fault}. {} does not ask again. To see how it goes on, call {} with \
             {{\"task_id\": \"{id}\"}}.",
            task_head(id, tool),
            names.wait
        ),
    }
}

/// The result of a `task_answer` for a key without an open question.
pub(crate) fn no_such_question(id: &str, tool: &str, key: &str, names: &ToolNames) -> String {
    format!(
        "{} is not waiting for an answer with the key {}. To see how it goes on, call {} with {{\"task_id\": \"{id}\"}}.",
        task_head(id, tool),
        quoted(key, MAX_GUEST_CHARS),
        names.wait
    )
}

/// The result of a `task_answer` to a question that asks for a permission.
pub(crate) fn only_the_user() -> &'static str {
    "Only the user of this host can allow this, not a model."
}

/// The state of a task that needs an approval, and the ways for the user to decide.
fn approval(id: &str, by: ConfirmBy, names: &ToolNames) -> String {
    let operator = || match &names.console {
        Some(console) => format!("at {console}/q/{id} or by `toolyard approvals approve {id}`"),
        None => format!("by `toolyard approvals approve {id}`"),
    };
    let who = match by {
        ConfirmBy::Operator => format!("the operator of this host approves or denies it {}", operator()),
        ConfirmBy::Person => "answer the question that your client shows".to_owned(),
        ConfirmBy::Either => format!(
            "answer the question that your client shows, or the operator of this host approves or denies it {}",
            operator()
        ),
    };
    format!("Nothing has run yet. It waits as task {id}. Tell the user: {who}. A model cannot approve it.")
}

/// `Task ID ("TOOL")`.
fn task_head(id: &str, tool: &str) -> String {
    format!("Task {id} ({})", tool_name(tool))
}

fn tool_name(tool: &str) -> String {
    quoted(tool, MAX_GUEST_CHARS)
}

/// Completes "it is".
fn queue(running: u32) -> String {
    match running {
        0 => "waiting for its turn".to_owned(),
        1 => "waiting for its turn; 1 call is running".to_owned(),
        running => format!("waiting for its turn; {running} calls are running"),
    }
}

/// The time, the progress and the status of a task.
fn so_far(task: &RunningTask<'_>) -> String {
    let mut text = duration(task.elapsed);
    if let Some(progress) = task.progress {
        text += &progress_text(progress);
    }
    if let Some(status) = task.status.filter(|status| !status.is_empty()) {
        text += &format!("; status {}", quoted(status, MAX_GUEST_CHARS));
    }
    text
}

fn progress_text(progress: &Progress) -> String {
    let is_step = |number: f64| number.fract() == 0.0;
    let mut text = match progress.total.filter(|total| total.is_finite()) {
        _ if !progress.progress.is_finite() => String::new(),
        Some(total) if is_step(progress.progress) && is_step(total) && total > 1.0 => {
            format!("; step {} of {}", number(progress.progress), number(total))
        }
        Some(total) => format!("; progress {} of {}", number(progress.progress), number(total)),
        None => format!("; progress {}", number(progress.progress)),
    };
    if let Some(message) = progress.message.as_deref().filter(|message| !message.is_empty()) {
        let comma = if text.is_empty() { ';' } else { ',' };
        text += &format!("{comma} {}", quoted(message, MAX_GUEST_CHARS));
    }
    text
}

/// A number with at most three decimals; a huge one with an exponent.
fn number(number: f64) -> String {
    if number.abs() >= 1e15 {
        return format!("{number:e}");
    }
    let text = format!("{number:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// A duration with its two largest units, such as `1 min 35 s`.
fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let units = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let first = units.iter().position(|(size, _)| seconds >= *size).unwrap_or(units.len() - 1);
    let shown = units[first..].iter().take(2).scan(seconds, |rest, (size, unit)| {
        let count = *rest / size;
        *rest %= size;
        Some((count, unit))
    });
    let parts = shown.enumerate().filter(|(index, (count, _))| *index == 0 || *count > 0);
    parts.map(|(_, (count, unit))| format!("{count} {unit}")).collect::<Vec<_>>().join(" ")
}

/// The largest unit of a duration, such as `4 min left`.
fn time_left(left: Duration) -> String {
    let text = duration(left);
    let largest: Vec<&str> = text.split(' ').take(2).collect();
    format!("{} left", largest.join(" "))
}

/// A moment to the minute, such as `23:10 UTC`, with its date if that is not the date of `now`.
fn moment(moment: Timestamp, now: Timestamp) -> String {
    let (text, now) = (moment.to_string(), now.to_string());
    let (date, time) = text.split_once('T').unwrap_or(("", &text));
    let time = time.get(..5).unwrap_or(time);
    match now.split_once('T') {
        Some((today, _)) if today == date => format!("{time} UTC"),
        _ => format!("{date} {time} UTC"),
    }
}

#[cfg(test)]
mod tests;
