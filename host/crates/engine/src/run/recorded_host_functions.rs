//! The contract's interface `host` for runs with a journal. Its Rust trait makes sure that no function is forgotten.

use crate::bindings::FullPlugin;
use crate::bindings::toolyard::plugin::types as wit;
use crate::bindings::toolyard::plugin::{host, types};
use crate::guest::state::GuestState;
use crate::journal::now_ms;
use crate::run::host_functions::NO_TASK;
use crate::wasi::recorded_clocks;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::time::Instant;
use toolyard_journal::{Origin, QuestionName, Source};
use toolyard_task::AskError;
use toolyard_task::tool::{AskedQuestion, GivenAnswer};
use toolyard_task::wire::RawJson;
use wasmtime::component::{HasData, Linker};

const CONTINUE_WITH: &str = "continue-with";
/// The most bytes of the state that a run hands over.
const MAX_STATE_BYTES: usize = 256 << 10;

/// A run with a journal.
pub(crate) struct Recorded<'a>(&'a mut GuestState);

/// Marks the linker's access to such a run.
struct HasRecorded;

impl HasData for HasRecorded {
    type Data<'a> = Recorded<'a>;
}

pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    FullPlugin::add_to_linker::<_, HasRecorded>(linker, |run| Recorded(run))
}

/// The answers to questions, as the journal keeps them.
#[derive(Serialize, Deserialize)]
struct Answers(Result<Vec<Answer>, AskError>);

#[derive(Serialize, Deserialize)]
struct Answer {
    key: String,
    outcome: Result<RawJson, AskError>,
}

impl Recorded<'_> {
    fn is_live(&self) -> wasmtime::Result<bool> {
        Ok(self.0.journal()?.is_live())
    }

    /// A function that gives JSON: from the past, or what `make` gives now.
    async fn call<T>(
        &mut self,
        function: &'static str,
        make: impl AsyncFnOnce(&mut GuestState) -> wasmtime::Result<T>,
    ) -> wasmtime::Result<T>
    where
        T: Serialize + for<'de> Deserialize<'de>,
    {
        let journal = self.0.journal()?.clone();
        if let Source::Past(result) = journal.with(|recorder| recorder.call(function, 0))? {
            return Ok(serde_json::from_slice(&result)?);
        }
        let result = make(self.0).await?;
        let text = Bytes::from(serde_json::to_vec(&result)?);
        journal.with(|recorder| recorder.record_call(function, 0, text.clone()))?;
        Ok(result)
    }
}

impl types::Host for Recorded<'_> {}

impl host::Host for Recorded<'_> {
    fn progress(
        &mut self,
        progress: f64,
        total: Option<f64>,
        message: Option<String>,
    ) -> wasmtime::Result<()> {
        if self.is_live()? { host::Host::progress(self.0, progress, total, message) } else { Ok(()) }
    }

    fn status(&mut self, message: String) -> wasmtime::Result<()> {
        if self.is_live()? { host::Host::status(self.0, message) } else { Ok(()) }
    }

    fn log(&mut self, level: wit::LogLevel, logger: Option<String>, data: String) -> wasmtime::Result<()> {
        if self.is_live()? { host::Host::log(self.0, level, logger, data) } else { Ok(()) }
    }

    fn cancelled(&mut self) -> wasmtime::Result<bool> {
        // A cancelled run is dropped. One that is handed over to another host must not see that.
        Ok(false)
    }

    async fn sleep(&mut self, milliseconds: u64) -> wasmtime::Result<()> {
        if milliseconds == 0 {
            return Ok(());
        }
        let journal = self.0.journal()?.clone();
        let until_ms = journal.with(|recorder| recorder.sleep(milliseconds, now_ms()))?;
        if !journal.is_live() {
            return Ok(());
        }
        let began = Instant::now();
        journal.wait_long(until_ms).await?;
        recorded_clocks::sleep_until(until_ms).await;
        crate::wasi::clocks::report_sleep(&self.0.context, began);
        Ok(())
    }

    async fn ask(
        &mut self,
        questions: Vec<wit::Question>,
    ) -> wasmtime::Result<Result<Vec<wit::Answer>, wit::AskError>> {
        let journal = self.0.journal()?.clone();
        self.0
            .ask_by(questions, async |run, questions: Vec<AskedQuestion>| {
                let names: Vec<_> = questions
                    .iter()
                    .map(|question| QuestionName { key: &question.key, method: &question.method })
                    .collect();
                let mut sum = crc32fast::Hasher::new();
                questions.iter().for_each(|question| sum.update(question.params.as_bytes()));
                let arguments = sum.finalize();
                let origin = journal.with(|recorder| recorder.ask(arguments, &names))?;
                if origin == Origin::Past
                    && let Source::Past(answers) = journal.with(toolyard_journal::Recorder::answer)?
                {
                    let Answers(answers) = serde_json::from_slice(&answers)?;
                    let given = |answer: Answer| GivenAnswer { key: answer.key, outcome: answer.outcome };
                    return Ok(answers.map(|answers| answers.into_iter().map(given).collect()));
                }
                // Before the questions leave.
                journal.commit().await?;
                let answers = run.context.ask(questions).await;
                let kept = answers.clone().map(|answers| {
                    let answer = |given: GivenAnswer| Answer { key: given.key, outcome: given.outcome };
                    answers.into_iter().map(answer).collect()
                });
                let text = Bytes::from(serde_json::to_vec(&Answers(kept))?);
                journal.with(|recorder| recorder.record_answer(text.clone()))?;
                Ok(answers)
            })
            .await
    }

    fn elicitation_complete(&mut self, key: String) -> wasmtime::Result<()> {
        if self.is_live()? { host::Host::elicitation_complete(self.0, key) } else { Ok(()) }
    }

    async fn begin_task(&mut self) -> wasmtime::Result<Result<(), wit::TaskError>> {
        let begun = self.call("begin-task", async |run| Ok(run.context.begin_task().await)).await?;
        Ok(begun.map_err(wit::TaskError::Failed))
    }

    async fn effects(&mut self) -> wasmtime::Result<Result<(), wit::AskError>> {
        let begun = self.call("effects", async |run| Ok(run.context.effects().await)).await?;
        // Durable before the effects.
        self.0.journal()?.clone().commit().await?;
        Ok(begun.map_err(crate::run::host_functions::ask_error))
    }

    fn call_info(&mut self) -> wasmtime::Result<String> {
        let journal = self.0.journal()?.clone();
        if let Source::Past(result) = journal.with(|recorder| recorder.call("call-info", 0))? {
            return Ok(self.0.restored(String::from_utf8(result.to_vec())?));
        }
        let mut info = host::Host::call_info(self.0)?;
        if let Some(state) = journal.begin().state {
            // Both are JSON texts; the first one is an object with members.
            info.truncate(info.len() - 1);
            info += &format!(",\"state\":{state}}}");
        }
        let text = Bytes::from(info.clone());
        journal.with(|recorder| recorder.record_call("call-info", 0, text.clone()))?;
        Ok(self.0.restored(info))
    }

    fn changed(&mut self, what: wit::Change) -> wasmtime::Result<()> {
        if self.is_live()? { host::Host::changed(self.0, what) } else { Ok(()) }
    }

    fn release_stream(&mut self, retry_ms: u64) -> wasmtime::Result<()> {
        if self.is_live()? { host::Host::release_stream(self.0, retry_ms) } else { Ok(()) }
    }

    async fn continue_with(&mut self, state: String) -> wasmtime::Result<Result<(), wit::TaskError>> {
        let journal = self.0.journal()?.clone();
        let state = self.0.kept(state);
        let sum = crc32fast::hash(state.as_bytes());
        // Only what failed is recorded: what succeeds begins another journal.
        if let Source::Past(why) = journal.with(|recorder| recorder.call(CONTINUE_WITH, sum))? {
            return Ok(Err(wit::TaskError::Failed(String::from_utf8(why.to_vec())?)));
        }
        // Its journal may be given up while it is stored.
        journal.commit().await?;
        let why = if state.len() > MAX_STATE_BYTES {
            format!("the state has {} bytes; the most are {MAX_STATE_BYTES}", state.len())
        } else if let Err(error) = RawJson::parse(state.clone()) {
            format!("the state is not JSON: {error}")
        } else if journal.has_request() {
            "a request is under way".to_owned()
        } else if self.0.context.info().task.is_none() || journal.is_abandoned() {
            NO_TASK.to_owned()
        } else {
            return Err(journal.continue_with(state).await);
        };
        let kept = Bytes::from(why.clone());
        journal.with(|recorder| recorder.record_call(CONTINUE_WITH, sum, kept.clone()))?;
        Ok(Err(wit::TaskError::Failed(why)))
    }
}
