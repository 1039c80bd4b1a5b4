//! The contract's interface `host`: the functions that the host provides to a guest. A run with a journal repeats them
//! (`recorded_host_functions.rs`).

use crate::bindings::toolyard::plugin::types as wit;
use crate::bindings::toolyard::plugin::{host, types};
use crate::convert::form::Forms;
use crate::convert::guest_input;
use crate::guest::state::GuestState;
use crate::run::recorded_host_functions::{self as recorded, NO_TASK};
use crate::wasi::clocks;
use std::time::{Duration, Instant};
use toolyard_task::AskError;
use toolyard_task::tool::{GivenAnswer, OfferChange, Report};
use toolyard_task::wire::{Progress, RawJson, RpcError, Timestamp, is_uri};

impl types::Host for GuestState {}

impl host::Host for GuestState {
    fn progress(
        &mut self,
        progress: f64,
        total: Option<f64>,
        message: Option<String>,
    ) -> wasmtime::Result<()> {
        // JSON cannot represent infinite values or NaN.
        if progress.is_finite() {
            let total = total.filter(|total| total.is_finite());
            let message =
                message.map(|message| guest_input::cut(self.clean(message), guest_input::MAX_MESSAGE_BYTES));
            self.report(Report::Progress(Progress { progress, total, message }));
        }
        Ok(())
    }

    fn status(&mut self, message: String) -> wasmtime::Result<()> {
        self.report(Report::Status(guest_input::cut(self.clean(message), guest_input::MAX_MESSAGE_BYTES)));
        Ok(())
    }

    fn log(&mut self, level: wit::LogLevel, logger: Option<String>, data: String) -> wasmtime::Result<()> {
        self.report_log(guest_input::level(level), logger, guest_input::log_data(data));
        Ok(())
    }

    fn cancelled(&mut self) -> wasmtime::Result<bool> {
        // A cancelled run with a journal is dropped. One that is handed over to another host must not see that.
        Ok(self.find_journal().is_none() && self.context.stopped())
    }

    async fn sleep(&mut self, milliseconds: u64) -> wasmtime::Result<()> {
        if let Some(journal) = self.find_journal() {
            return recorded::sleep(journal, &self.context, milliseconds).await;
        }
        // No run outlives its wall-clock limit, so a longer sleep is pointless. But the sleep must
        // not end before the limit is noticed.
        let time = Duration::from_millis(milliseconds).min(self.about.limits.wall.saturating_mul(2));
        if !time.is_zero() {
            let began = Instant::now();
            tokio::time::sleep(time).await;
            clocks::report_sleep(&self.context, began);
        }
        Ok(())
    }

    async fn ask(
        &mut self,
        questions: Vec<wit::Question>,
    ) -> wasmtime::Result<Result<Vec<wit::Answer>, wit::AskError>> {
        let mut questions = match guest_input::questions(questions) {
            Ok(questions) => questions,
            Err(what) => return Ok(Err(wit::AskError::Invalid(what))),
        };
        if questions.iter().any(|question| self.holds_secret(&question.key)) {
            return Ok(Err(wit::AskError::Invalid("the key of a question holds a secret".to_owned())));
        }
        for question in &mut questions {
            question.params =
                self.clean_json(std::mem::replace(&mut question.params, RawJson::empty_object()));
        }
        let forms = match Forms::compile(&mut questions, self.about.schemas) {
            Ok(forms) => forms,
            Err(what) => return Ok(Err(wit::AskError::Invalid(what))),
        };
        let answers = match self.find_journal() {
            None => self.context.ask(questions).await,
            Some(journal) => recorded::ask(journal, &self.context, questions).await?,
        };
        let answers =
            answers.map(|answers| answers.into_iter().map(|given| answer(forms.check(given))).collect());
        Ok(answers.map_err(ask_error))
    }

    fn elicitation_complete(&mut self, key: String) -> wasmtime::Result<()> {
        if guest_input::is_key(&key) && !self.holds_secret(&key) {
            self.report(Report::ElicitationComplete { key });
        }
        Ok(())
    }

    async fn begin_task(&mut self) -> wasmtime::Result<Result<(), wit::TaskError>> {
        let begun = self.context.begin_task();
        let begun = match self.find_journal() {
            None => begun.await,
            Some(journal) => recorded::call(journal, "begin-task", begun).await?,
        };
        Ok(begun.map_err(wit::TaskError::Failed))
    }

    async fn effects(&mut self) -> wasmtime::Result<Result<(), wit::AskError>> {
        let begun = self.context.effects();
        let begun = match self.find_journal() {
            None => begun.await,
            Some(journal) => {
                let begun = recorded::call(journal, "effects", begun).await?;
                // Durable before the effects.
                journal.commit().await?;
                begun
            }
        };
        Ok(begun.map_err(ask_error))
    }

    fn call_info(&mut self) -> wasmtime::Result<String> {
        match self.find_journal() {
            None => Ok(self.info()),
            Some(journal) => Ok(self.restored(recorded::call_info(journal, || self.info())?)),
        }
    }

    fn changed(&mut self, what: wit::Change) -> wasmtime::Result<()> {
        let change = match what {
            wit::Change::Tools => OfferChange::Tools,
            wit::Change::Prompts => OfferChange::Prompts,
            wit::Change::Resources => OfferChange::Resources,
            // No client can have subscribed to it.
            wit::Change::Resource(uri) if !is_uri(&uri) || self.holds_secret(&uri) => return Ok(()),
            wit::Change::Resource(uri) => OfferChange::Resource(uri),
        };
        self.report(Report::Changed(change));
        Ok(())
    }

    fn release_stream(&mut self, retry_ms: u64) -> wasmtime::Result<()> {
        self.report(Report::ReleaseStream { retry_ms });
        Ok(())
    }

    async fn continue_with(&mut self, state: String) -> wasmtime::Result<Result<(), wit::TaskError>> {
        let why = match self.find_journal() {
            None => NO_TASK.to_owned(),
            Some(journal) => recorded::continue_with(journal, &self.context, self.kept(state)).await?,
        };
        Ok(Err(wit::TaskError::Failed(why)))
    }
}

impl GuestState {
    /// The object of `call-info`.
    fn info(&self) -> String {
        let info = self.context.info();
        let left = self.about.limits.wall.saturating_sub(self.about.began.elapsed());
        let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as i64);
        let limit = Timestamp(now).plus(left.as_millis() as u64);
        let deadline = info.deadline.map_or(limit, |deadline| deadline.min(limit));
        let mut out = serde_json::json!({
            "attempt": info.attempt,
            "deadline": deadline.to_string(),
            "clientCapabilities": info.client_capabilities,
        });
        if self.about.is_tool {
            out["tool"] = (*self.about.function).into();
        }
        if let Some(task) = info.task {
            out["taskId"] = task.to_string().into();
        }
        if let Some(trace) = info.trace {
            out["traceparent"] = trace.parent().into();
            if let Some(state) = trace.state {
                out["tracestate"] = state.into();
            }
        }
        out.to_string()
    }
}

fn answer(given: GivenAnswer) -> wit::Answer {
    let outcome = given.outcome.map(|result| result.as_str().to_owned()).map_err(ask_error);
    wit::Answer { key: given.key, outcome }
}

fn ask_error(error: AskError) -> wit::AskError {
    match error {
        AskError::Unsupported(what) => wit::AskError::Unsupported(what),
        AskError::TimedOut => wit::AskError::TimedOut,
        AskError::Refused(RpcError { code, message, data }) => {
            let data = data.map(|data: RawJson| data.as_str().to_owned());
            wit::AskError::Refused(wit::RpcError { code, message, data })
        }
        AskError::Invalid(what) => wit::AskError::Invalid(what),
        AskError::TooLate => wit::AskError::TooLate,
        AskError::Cancelled => wit::AskError::Cancelled,
    }
}
