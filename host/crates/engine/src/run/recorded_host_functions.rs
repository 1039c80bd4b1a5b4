//! The functions of the contract for runs with a journal: what they give is recorded, and repeated.

use crate::journal::{GuestJournal, now_ms};
use crate::wasi::{clocks, recorded_clocks};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;
use toolyard_journal::{QuestionName, Recorder, Source};
use toolyard_task::tool::{AskedQuestion, GivenAnswer};
use toolyard_task::wire::RawJson;
use toolyard_task::{AskError, RunContext};

const CONTINUE_WITH: &str = "continue-with";
/// The most bytes of the state that a run hands over.
const MAX_STATE_BYTES: usize = 256 << 10;
/// Why a call cannot continue with a state.
pub(crate) const NO_TASK: &str = "the call is not a task that resumes";

/// A function that gives JSON: from the past, or what `live` gives now.
pub(crate) async fn call<T>(
    journal: &GuestJournal,
    function: &'static str,
    live: impl Future<Output = T>,
) -> wasmtime::Result<T>
where
    T: Serialize + for<'de> Deserialize<'de>,
{
    if let Source::Past(result) = journal.with(|recorder| recorder.call(function, 0))? {
        return Ok(serde_json::from_slice(&result)?);
    }
    let result = live.await;
    let text = Bytes::from(serde_json::to_vec(&result)?);
    journal.with(|recorder| recorder.record_call(function, 0, text.clone()))?;
    Ok(result)
}

pub(crate) async fn sleep(
    journal: &GuestJournal,
    context: &Arc<dyn RunContext>,
    milliseconds: u64,
) -> wasmtime::Result<()> {
    if milliseconds == 0 {
        return Ok(());
    }
    let until_ms = journal.with(|recorder| recorder.sleep(milliseconds, now_ms()))?;
    if !journal.is_live() {
        return Ok(());
    }
    let began = Instant::now();
    journal.wait_long(until_ms).await?;
    recorded_clocks::sleep_until(until_ms).await;
    clocks::report_sleep(context, began);
    Ok(())
}

pub(crate) async fn ask(
    journal: &GuestJournal,
    context: &Arc<dyn RunContext>,
    questions: Vec<AskedQuestion>,
) -> wasmtime::Result<Result<Vec<GivenAnswer>, AskError>> {
    let names: Vec<_> = questions
        .iter()
        .map(|question| QuestionName { key: &question.key, method: &question.method })
        .collect();
    let mut sum = crc32fast::Hasher::new();
    questions.iter().for_each(|question| sum.update(question.params.as_bytes()));
    let arguments = sum.finalize();
    let origin = journal.with(|recorder| recorder.ask(arguments, &names))?;
    if origin == Source::Past(())
        && let Source::Past(answers) = journal.with(Recorder::answer)?
    {
        return Ok(serde_json::from_slice(&answers)?);
    }
    // Before the questions leave.
    journal.commit().await?;
    let answers = context.ask(questions).await;
    let text = Bytes::from(serde_json::to_vec(&answers)?);
    journal.with(|recorder| recorder.record_answer(text.clone()))?;
    Ok(answers)
}

/// The object of `call-info`, with the state that the run was handed. `info` makes the object without it.
pub(crate) fn call_info(journal: &GuestJournal, info: impl FnOnce() -> String) -> wasmtime::Result<String> {
    if let Source::Past(result) = journal.with(|recorder| recorder.call("call-info", 0))? {
        return Ok(String::from_utf8(result.to_vec())?);
    }
    let mut info = info();
    if let Some(state) = journal.begin().state {
        // Both are JSON texts; the first one is an object with members.
        info.truncate(info.len() - 1);
        info += &format!(",\"state\":{state}}}");
    }
    let text = Bytes::from(info.clone());
    journal.with(|recorder| recorder.record_call("call-info", 0, text.clone()))?;
    Ok(info)
}

/// Hands the state over to another run of the task. Returns only if that is not possible: why.
pub(crate) async fn continue_with(
    journal: &GuestJournal,
    context: &Arc<dyn RunContext>,
    state: String,
) -> wasmtime::Result<String> {
    let sum = crc32fast::hash(state.as_bytes());
    // Only what failed is recorded: what succeeds begins another journal.
    if let Source::Past(why) = journal.with(|recorder| recorder.call(CONTINUE_WITH, sum))? {
        return Ok(String::from_utf8(why.to_vec())?);
    }
    // Its journal may be given up while it is stored.
    journal.commit().await?;
    let why = if state.len() > MAX_STATE_BYTES {
        format!("the state has {} bytes; the most are {MAX_STATE_BYTES}", state.len())
    } else if let Err(error) = RawJson::parse(state.clone()) {
        format!("the state is not JSON: {error}")
    } else if journal.has_request() {
        "a request is under way".to_owned()
    } else if context.info().task.is_none() || journal.is_abandoned() {
        NO_TASK.to_owned()
    } else {
        return Err(journal.continue_with(state).await);
    };
    let kept = Bytes::from(why.clone());
    journal.with(|recorder| recorder.record_call(CONTINUE_WITH, sum, kept.clone()))?;
    Ok(why)
}
