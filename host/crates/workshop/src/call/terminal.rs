//! The client of a call, for a terminal: progress as a bar on stderr, log messages of the tool above it, and
//! questions asked line by line.

use super::form;
use crate::answers::{self, Answers, Given};
use crate::http_tape::CallRecorder;
use crate::question::{Question, QuestionRoute};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use std::io::{BufRead, IsTerminal as _};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use toolyard_cli::output::{self, Styled};
use toolyard_cli::tell;
use toolyard_dispatch::{
    Caller, ClientChannel, ClientRoute, Dispatch, Field, Form, HttpTape, Notice, RawJson, Report, RouteScope,
    RpcError, TaskId, visible,
};

/// The terminal.
pub struct Terminal {
    /// Shown where stderr is a terminal.
    bar: ProgressBar,
    /// Receives questions, if a person or recorded answers can answer them.
    questions: Option<QuestionRoute>,
    /// Whether a person can answer questions.
    person: bool,
    /// Records the HTTP exchanges of a call that becomes a case.
    recorder: Option<CallRecorder>,
    state: Mutex<State>,
}

/// The recorded answers, and what happened so far.
#[derive(Default)]
struct State {
    answers: Option<Answers>,
    given: Vec<(String, Given)>,
    progress: u64,
}

impl Terminal {
    /// The terminal for a call of this tool. Questions can be answered if stdin is a terminal, if `ask` says
    /// that answers arrive on stdin, or if there are recorded answers; then this also returns the receiver of
    /// questions.
    pub fn new(
        tool: &str,
        ask: bool,
        answers: Option<Answers>,
        recorder: Option<CallRecorder>,
    ) -> (Arc<Self>, Option<mpsc::Receiver<Question>>) {
        let bar =
            if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        bar.set_message(tool.to_owned());
        bar.enable_steady_tick(Duration::from_millis(120));
        let person = ask || std::io::stdin().is_terminal();
        let (questions, receiver) = (person || answers.is_some()).then(|| QuestionRoute::new(true)).unzip();
        let state = Mutex::new(State { answers, ..State::default() });
        (Arc::new(Self { bar, questions, person, recorder, state }), receiver)
    }

    /// The capabilities of this client.
    pub fn capabilities(&self) -> RawJson {
        match (self.state.lock().answers.is_some(), self.person) {
            (true, _) => RawJson::trusted(answers::CAPABILITIES),
            (false, true) => RawJson::trusted(r#"{"elicitation":{"form":{},"url":{}}}"#),
            (false, false) => RawJson::empty_object(),
        }
    }

    /// The questions that were asked, by key, and their answers.
    pub fn given(&self) -> Vec<(String, Given)> {
        self.state.lock().given.clone()
    }

    /// The recorder of HTTP exchanges.
    pub fn recorder(&self) -> Option<&CallRecorder> {
        self.recorder.as_ref()
    }

    /// The number of progress messages received.
    pub fn progress(&self) -> u64 {
        self.state.lock().progress
    }

    /// The recorded answers that no question has used.
    pub fn unused(&self) -> Vec<String> {
        let state = self.state.lock();
        let unused = state.answers.as_ref().map(Answers::unused).unwrap_or_default();
        unused.into_iter().map(str::to_owned).collect()
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// The bar must not overwrite a question.
    fn hide_bar(&self) {
        self.bar.set_draw_target(ProgressDrawTarget::hidden());
        if std::io::stderr().is_terminal() {
            // Moves to the beginning of the line, and clears it.
            Styled::default().control("\r\u{1b}[2K").tell();
        }
    }

    /// Answers one question after the other, until no more can arrive: with the recorded answer, else by
    /// asking the person.
    pub async fn attend(
        self: Arc<Self>,
        mut questions: mpsc::Receiver<Question>,
        dispatch: Arc<Dispatch>,
        caller: Caller,
    ) {
        while let Some(Question { key, id, method, params }) = questions.recv().await {
            let recorded = key.as_ref().and_then(|key| self.state.lock().answers.as_mut()?.give(key));
            let response = match recorded {
                Some(given) => given.map(|members| RawJson::of(&members)),
                None if self.person => self.ask_person(method, params).await,
                None => {
                    self.bar.suspend(|| output::tell_text(&unanswered(key.as_deref(), &method, &params)));
                    refusal(&method)
                }
            };
            if let (Some(key), Some(given)) = (key, answers::answer_of(&response)) {
                self.state.lock().given.push((key, given));
            }
            if let Err(fault) = dispatch.take_response(&caller, &id, response).await {
                tell!("toolyard: the answer was not taken: {fault}");
            }
        }
    }

    async fn ask_person(&self, method: String, params: RawJson) -> Result<RawJson, RpcError> {
        self.hide_bar();
        // Reading a line blocks, and holds no lock meanwhile.
        let asked = tokio::task::spawn_blocking(move || ask(&method, &params, &mut std::io::stdin().lock()));
        let response = asked.await.unwrap_or_else(|_| Ok(action("cancel")));
        if std::io::stderr().is_terminal() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        response
    }
}

/// The message about a question without an answer.
fn unanswered(key: Option<&str>, method: &str, params: &RawJson) -> String {
    let key = key.unwrap_or_default();
    let example = answers::example("", key, method, params);
    format!(
        "toolyard: there is no answer to the question `{}`; this in the file of --answers would be one:\n{}",
        visible::line(key),
        example
    )
}

/// The response if there is no answer.
fn refusal(method: &str) -> Result<RawJson, RpcError> {
    match method {
        "elicitation/create" => Ok(action("decline")),
        _ => Err(RpcError::new(-1, "The user has recorded no answer to this")),
    }
}

/// Asks the person at the terminal a question of a tool; the end of the input declines it. Blocks.
///
/// # Errors
/// A terminal cannot answer the method.
pub fn ask_at_terminal(method: &str, params: &RawJson) -> Result<RawJson, RpcError> {
    ask(method, params, &mut std::io::stdin().lock())
}

/// Asks one question; the end of the input declines it.
fn ask(method: &str, params: &RawJson, input: &mut impl BufRead) -> Result<RawJson, RpcError> {
    let form = match Form::read(params) {
        Ok(form) if method == "elicitation/create" => form,
        _ => return Err(RpcError::invalid_params(format!("a terminal cannot answer {method}"))),
    };
    tell!("{}", form.message);
    if form.url.is_some() || form.fields.is_empty() {
        let (prompt, accepted) = match &form.url {
            Some(url) => {
                tell!("  {}", visible::line(url));
                ("Open this page? [y/N] ", r#"{"action":"accept"}"#)
            }
            None => ("Agree? [y/N] ", r#"{"action":"accept","content":{}}"#),
        };
        return Ok(match line(prompt, input).as_deref().map(str::trim) {
            Some("y" | "Y" | "yes") => RawJson::trusted(accepted),
            _ => action("decline"),
        });
    }
    tell!("  (Ctrl-D declines)");
    let mut content = serde_json::Map::new();
    for field in &form.fields {
        loop {
            let Some(text) = line(&prompt(field), input) else { return Ok(action("decline")) };
            match form::value(field, text.trim()) {
                Ok(Some(value)) => {
                    content.insert(field.name.clone(), value);
                }
                Ok(None) => {}
                Err(what) => {
                    tell!("    {what}");
                    continue;
                }
            }
            break;
        }
    }
    Ok(RawJson::of(&serde_json::json!({"action": "accept", "content": content})))
}

fn prompt(field: &Field) -> String {
    let default = field.default.as_ref().map(|value| format!(" [{value}]")).unwrap_or_default();
    let optional = if field.required || field.default.is_some() { "" } else { ", may be empty" };
    visible::line(&format!("  {} ({}{optional}){default}: ", field.title, form::kind(field))).into_owned()
}

fn line(prompt: &str, input: &mut impl BufRead) -> Option<String> {
    output::tell_text(prompt);
    let mut text = String::new();
    match input.read_line(&mut text) {
        Ok(read) if read > 0 => Some(text),
        _ => {
            tell!("");
            None
        }
    }
}

fn action(name: &str) -> RawJson {
    RawJson::of(&serde_json::json!({"action": name}))
}

impl ClientChannel for Terminal {
    fn notify(&self, _task: Option<TaskId>, notice: Notice) {
        let bar = &self.bar;
        match notice {
            Notice::Progress { progress, .. } => {
                if let Some(total) = progress.total.filter(|total| *total > 0.0) {
                    // A bar has whole steps; a thousand suffice for any unit.
                    bar.set_style(
                        ProgressStyle::with_template("{wide_bar} {percent}% {elapsed} {msg}")
                            .unwrap_or_else(|_| ProgressStyle::default_bar()),
                    );
                    bar.set_length(1000);
                    bar.set_position((progress.progress / total * 1000.0).clamp(0.0, 1000.0) as u64);
                }
                if let Some(message) = progress.message {
                    bar.set_message(visible::line(&message).into_owned());
                }
            }
            Notice::Log { level, data, .. } => {
                let text = data.decode::<String>().unwrap_or_else(|_| data.as_str().to_owned());
                bar.suspend(|| tell!("{level}: {text}"));
            }
            Notice::Status(_) | Notice::ToolsChanged | Notice::ElicitationComplete { .. } => {}
        }
    }

    fn route(&self, _task: Option<TaskId>, _scope: RouteScope) -> Option<Arc<dyn ClientRoute>> {
        self.questions.clone().map(|questions| Arc::new(questions) as Arc<dyn ClientRoute>)
    }

    fn reported(&self, report: &Report) {
        if matches!(report, Report::Progress(_)) {
            self.state.lock().progress += 1;
        }
    }

    fn http_tape(&self) -> Option<&dyn HttpTape> {
        self.recorder.as_ref().map(|recorder| recorder as &dyn HttpTape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(params: &'static str, typed: &str) -> serde_json::Value {
        let answer = ask("elicitation/create", &RawJson::trusted(params), &mut typed.as_bytes());
        answer.expect("an answer").decode().expect("JSON")
    }

    const FORM: &str = r#"{"message":"m","requestedSchema":{"type":"object","properties":{
        "z":{"type":"string","minLength":2},"a":{"type":"integer","default":3},"ok":{"type":"boolean"},
        "one":{"type":"string","enum":["x","y"]},"many":{"type":"array","items":{"enum":["p","q"]}}},
        "required":["z","ok"]}}"#;

    #[test]
    fn a_form_is_asked_field_by_field_in_its_own_order() {
        let answer = asked(FORM, "zz\n\nyes\ny\np, q\n");
        let content = serde_json::json!({"z": "zz", "a": 3, "ok": true, "one": "y", "many": ["p", "q"]});
        assert_eq!(answer, serde_json::json!({"action": "accept", "content": content}));
    }

    #[test]
    fn what_does_not_fit_is_asked_again_and_what_may_be_empty_is_left_out() {
        let answer = asked(FORM, "\nz\nzz\nseven\n7\nperhaps\nno\nw\n\n\n");
        let content = serde_json::json!({"z": "zz", "a": 7, "ok": false});
        assert_eq!(answer, serde_json::json!({"action": "accept", "content": content}));
    }

    #[test]
    fn the_end_of_the_input_declines() {
        assert_eq!(asked(FORM, "zz\n")["action"], "decline");
        let url = r#"{"mode":"url","message":"m","url":"https://e.com","elicitationId":"1"}"#;
        assert_eq!(asked(url, "")["action"], "decline");
        assert_eq!(asked(url, "y\n"), serde_json::json!({"action": "accept"}));
    }
}
