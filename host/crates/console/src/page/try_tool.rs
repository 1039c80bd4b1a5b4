//! A tool is tried: a form for its arguments, and the result of the call below.

use super::{Rendered, content};
use crate::action::Action;
use crate::console::Console;
use crate::fields::{FieldFault, Reading, defaults, entered, inputs, read, schema, summary};
use crate::form::{Pairs, value};
use crate::html::{View, error, rpc_error, section};
use crate::reply::{self, Reply};
use crate::session::Session;
use crate::text::{block, line, named, segment, span};
use http::StatusCode;
use maud::{Markup, html};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use toolyard_dispatch::{
    ArgumentCheck, CallParams, CallReply, Caller, CreatedTask, Fault, Field, Form, HandOff, NoClientChannel,
    RateKey, RawJson, RequestedTtl, Stop, StopCause, TaskSupport, Terms, ToolCall, ToolSpec, visible,
};

/// How long the page waits for a plain call.
const PLAIN_TIME: Duration = Duration::from_secs(30);
/// The name of the arguments as JSON.
const JSON: &str = "json";

/// A call, as far as the page shows it.
struct Attempt {
    /// The entered values.
    entered: Pairs,
    faults: Vec<FieldFault>,
    /// Whether the arguments are entered as one JSON text.
    is_json: bool,
    as_task: bool,
    /// The arguments, as far as they can be read.
    arguments: Map<String, Value>,
    outcome: Option<Markup>,
}

/// The page of a tool. `None` if there is none of this name: no other text of the address is shown.
pub(super) fn page(view: &View<'_>, tool: &str) -> Option<Rendered> {
    let catalog = view.console.dispatch.catalog().current();
    let spec = catalog.get(&named(tool))?.spec();
    let fields = Form::fields_of(&spec.description.input_schema);
    let given = value(view.query, "arguments").map(serde_json::from_str::<Map<String, Value>>);
    let are_given = matches!(given, Some(Ok(_)));
    let (arguments, is_unreadable) = match given {
        Some(Ok(arguments)) => (arguments, false),
        Some(Err(_)) => (Map::new(), true),
        None => (defaults(fields.as_deref().unwrap_or_default()), false),
    };
    // A form shows the given arguments only if it would send the same ones again.
    let shows = |fields: &[Field]| {
        !are_given || read(fields, &entered(fields, &arguments), Reading::Arguments).0 == arguments
    };
    let is_json = value(view.query, "mode") == Some(JSON) || !fields.as_deref().is_some_and(shows);
    let entered = match &fields {
        Some(fields) if !is_json => entered(fields, &arguments),
        _ => vec![(JSON.to_owned(), serde_json::to_string_pretty(&arguments).unwrap_or_default())],
    };
    let outcome =
        is_unreadable.then(|| html! { p.bad { "The arguments in the address are not a JSON object." } });
    let as_task = spec.task_support == TaskSupport::Required;
    let attempt = Attempt { entered, faults: Vec::new(), is_json, as_task, arguments, outcome };
    Some(shown(view, spec, fields.as_deref(), &attempt))
}

/// Calls the tool, and shows its page with the result; or sends the browser to the task.
pub(crate) async fn call(view: &View<'_>, tool: &str, form: &Pairs) -> Reply {
    let catalog = view.console.dispatch.catalog().current();
    let Some(tool) = catalog.get(&named(tool)).cloned() else { return super::not_found(view) };
    let spec = tool.spec();
    let fields = Form::fields_of(&spec.description.input_schema);
    let is_json = value(form, "mode") == Some(JSON) || fields.is_none();
    let as_task = value(form, "how") == Some("task");
    let (arguments, mut faults) = match &fields {
        Some(fields) if !is_json => read(fields, form, Reading::Arguments),
        _ => read_json(form),
    };
    let sent = RawJson::of(&arguments);
    if faults.is_empty()
        && let ArgumentCheck::Misfit(text) = tool.check(&sent)
    {
        faults = misfits(&text);
    }
    let mut attempt = Attempt { entered: form.clone(), faults, is_json, as_task, arguments, outcome: None };
    let mut status = StatusCode::UNPROCESSABLE_ENTITY;
    if attempt.faults.is_empty() {
        status = StatusCode::OK;
        match run(view.console, view.session, spec.name(), sent, as_task).await {
            Ok(outcome) => attempt.outcome = Some(outcome),
            Err(task) => return reply::see(&format!("/tasks/{task}")),
        }
    }
    let page = shown(view, spec, fields.as_deref(), &attempt);
    super::framed(view, status, page).await
}

/// The arguments from one JSON text.
fn read_json(form: &Pairs) -> (Map<String, Value>, Vec<FieldFault>) {
    let text = value(form, JSON).unwrap_or_default();
    match serde_json::from_str::<Map<String, Value>>(text) {
        Ok(arguments) => (arguments, Vec::new()),
        Err(error) => {
            let text = format!("must be a JSON object: {error}");
            (Map::new(), vec![FieldFault { pointer: String::new(), title: "Arguments".to_owned(), text }])
        }
    }
}

/// The complaints of an argument check, each at the field that it names: ``at `/field`: what``.
fn misfits(text: &str) -> Vec<FieldFault> {
    let mut parts = text.split("at `/");
    let before = parts.next().unwrap_or_default();
    let found: Vec<FieldFault> = parts
        .filter_map(|part| {
            let (path, what) = part.split_once("`: ")?;
            let title = path.rsplit('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~");
            let pointer = if path.is_empty() { String::new() } else { format!("/{path}") };
            let title = if title.is_empty() { "Arguments".to_owned() } else { title };
            Some(FieldFault { pointer, title, text: what.trim_end_matches([';', ' ', '\n', '.']).to_owned() })
        })
        .collect();
    if found.is_empty() {
        return vec![FieldFault {
            pointer: String::new(),
            title: "Arguments:".to_owned(),
            text: before.to_owned(),
        }];
    }
    found
}

/// Ends a call when its page is closed.
struct EndOnDrop(Arc<Stop>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.set_because(StopCause::Disconnected);
    }
}

/// The outcome of a call, or the id of its task. The rules of the user of this machine apply.
async fn run(
    console: &Console,
    session: &Session,
    tool: &str,
    arguments: RawJson,
    as_task: bool,
) -> Result<Markup, String> {
    // The page of a task has a form for its questions; a plain call has nobody to ask.
    let capabilities =
        if as_task { RawJson::of(&json!({"elicitation": {"form": {}}})) } else { RawJson::empty_object() };
    let caller = Caller::local_at_console(&session.id, capabilities);
    let stop = Arc::new(Stop::default());
    let call = ToolCall {
        params: CallParams {
            name: tool.to_owned(),
            arguments,
            task: as_task.then_some(Ok(RequestedTtl::Absent)),
            progress_token: None,
            trace: None,
        },
        terms: Terms::Sessions { has_tasks: as_task, bridge: None },
        stop: stop.clone(),
        channel: Arc::new(NoClientChannel),
        task_channel: Arc::new(NoClientChannel),
        rate_key: RateKey::Local,
    };
    let began = Instant::now();
    let end = EndOnDrop(stop);
    let called = tokio::time::timeout(PLAIN_TIME, console.dispatch.call(&caller, call)).await;
    drop(end);
    let took = span(i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX));
    let result =
        |result: &RawJson| html! { p.muted { "It took " (took) "." } (content::result(result, None)) };
    Ok(match called {
        Err(_) => failed(&format!(
            "The call was stopped after {} s, which is the longest that this page waits. Call the tool as a task.",
            PLAIN_TIME.as_secs()
        )),
        Ok(Ok(
            CallReply::Result(of)
            | CallReply::UnknownTask(of)
            | CallReply::HandedOff(HandOff { outcome: Ok(of), .. }),
        )) => result(&of),
        Ok(Ok(CallReply::Error(error) | CallReply::HandedOff(HandOff { outcome: Err(error), .. }))) => {
            rpc_error(&error)
        }
        Ok(Ok(CallReply::Created(CreatedTask { view, .. }))) => return Err(view.id),
        Ok(Ok(CallReply::InputRequired(_) | CallReply::TaskAsks(_))) => {
            failed("The tool asks a person. Call it as a task, and answer on its page.")
        }
        Ok(Err(Fault::Cancelled)) => failed("The call was stopped."),
        Ok(Err(fault)) => failed(&format!("The host did not make the call: {fault}")),
    })
}

fn failed(why: &str) -> Markup {
    error(html! { p { (line(why)) } })
}

fn shown(view: &View<'_>, spec: &ToolSpec, fields: Option<&[Field]>, attempt: &Attempt) -> Rendered {
    let name = segment(spec.name());
    let (may_plain, may_task) = match spec.task_support {
        _ if !view.console.dispatch.settings().tasks => (true, false),
        TaskSupport::Forbidden => (true, false),
        TaskSupport::Optional => (true, true),
        TaskSupport::Required => (false, true),
    };
    let fields = fields.filter(|_| !attempt.is_json);
    let form = html! {
        (summary(fields.unwrap_or_default(), "f", &attempt.faults))
        @match fields {
            Some([]) => p.muted { "It has no arguments." },
            Some(fields) => (inputs(fields, "f", &attempt.entered, &attempt.faults)),
            None => {
                input type="hidden" name="mode" value=(JSON);
                div.field {
                    label for="f" { "Arguments as JSON" }
                    textarea.code #f name=(JSON) rows="8" spellcheck="false" aria-invalid=[(!attempt.faults.is_empty()).then_some("true")] {
                        "\n" (value(&attempt.entered, JSON).unwrap_or("{}"))
                    }
                    (schema(&spec.description.input_schema.decode().unwrap_or(Value::Null)))
                }
            }
        }
        fieldset {
            legend { "Call it" }
            @if may_plain {
                label.choice { input type="radio" name="how" value="plain" checked[!attempt.as_task]; " plainly: this page waits for the result, 30 s at most" }
            }
            @if may_task {
                label.choice { input type="radio" name="how" value="task" checked[attempt.as_task || !may_plain]; " as a task: its page shows its state, and its questions" }
            }
        }
        p.buttons { button.primary { "Call" } }
    };
    let content = html! {
        @if let Some(description) = &spec.description.description {
            p.muted { "The tool of " a href={ "/tools/" (segment(&spec.plugin)) } { code { (line(&spec.plugin)) } } " says:" }
            p.said { (visible::text(&description[..description.floor_char_boundary(4 << 10)])) }
        }
        (section("call", "Arguments", html! {
            div.question { (view.form(Action::Try(&name), form)) }
            @if fields.is_some() { p { a href={ "/try/" (name) "?mode=json" } { "Enter the arguments as JSON" } } }
            @else if Form::fields_of(&spec.description.input_schema).is_some() { p { a href={ "/try/" (name) } { "Enter the arguments in a form" } } }
        }))
        @if let Some(outcome) = &attempt.outcome { (section("result", "Result", html! { (outcome) })) }
        (section("same", "The same call elsewhere", commands(view.console, spec.name(), attempt)))
    };
    Rendered { title: format!("Try {}", line(spec.name())), is_live: false, content }
}

/// The call for a terminal.
fn commands(console: &Console, tool: &str, attempt: &Attempt) -> Markup {
    let arguments = Value::Object(attempt.arguments.clone());
    let declared = if attempt.as_task {
        json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
    } else {
        json!({})
    };
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": tool, "arguments": arguments, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": declared,
        },
    }});
    let curl = format!(
        "curl -s {} {HEADERS} \\\n  -H {} \\\n  -d {}",
        quoted(&console.settings.endpoint),
        quoted(&format!("mcp-name: {tool}")),
        quoted(&visible::json(&message.to_string()))
    );
    let plugins = quoted(&console.settings.plugins.display().to_string());
    let task = if attempt.as_task { " --task" } else { "" };
    let arguments = quoted(&visible::json(&arguments.to_string()));
    let command = format!("toolyard --plugins {plugins} call {}{task} {arguments}", quoted(tool));
    html! {
        (block(&command))
        (block(&curl))
        p.muted { "If this host asks for a token, add " code { "-H 'authorization: Bearer …'" } "." }
    }
}

/// The headers of every call.
const HEADERS: &str = r"-H 'content-type: application/json' \
  -H 'accept: application/json, text/event-stream' \
  -H 'mcp-protocol-version: 2026-07-28' -H 'mcp-method: tools/call'";

/// A word for a POSIX shell.
fn quoted(word: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_bare) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_stand_at_their_fields() {
        let text = "The arguments do not fit the input schema of `t`: at `/count`: 7 is more than 3; at `/a~1b/0`: \"x\" is not a number; at `/`: \"name\" is required";
        let shown = misfits(text).into_iter().map(|fault| [fault.pointer, fault.title, fault.text]);
        let expected = [
            ["/count", "count", "7 is more than 3"],
            ["/a~1b/0", "0", "\"x\" is not a number"],
            ["", "Arguments", "\"name\" is required"],
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
        assert_eq!(misfits("too deep")[0].text, "too deep");
    }

    #[test]
    fn a_shell_reads_a_word_as_it_is() {
        let words = ["a-b", "", "it's", "$(x)", "a b"].map(quoted);
        assert_eq!(words, ["a-b", "''", "'it'\\''s'", "'$(x)'", "'a b'"]);
    }
}
