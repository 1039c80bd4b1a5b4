//! Runs one case against the tools of a host: a client makes the call and gives the recorded answers, and the
//! outcome is compared with the expectations.

use crate::answers::{self, Answers};
use crate::case::Case;
use crate::compare::{Mismatch, Outcome, compare};
use crate::http_tape::CaseTape;
use crate::question::{Question, QuestionRoute};
use crate::run_call::{Ending, ToolRun, run_call};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio_util::sync::CancellationToken;
use toolyard_dispatch::{
    Caller, ClientChannel, ClientRoute, Dispatch, HttpTape, Notice, RawJson, Report, RouteScope, RpcError,
    TaskId,
};

/// How a case ended.
#[derive(Debug)]
pub struct CaseResult {
    /// How the call ended.
    pub outcome: Outcome,
    /// The expectations that were not met.
    pub wrong: Vec<Mismatch>,
    /// Questions and HTTP requests without an answer, and answers without a question or request.
    pub unanswered: Vec<Mismatch>,
}

impl CaseResult {
    /// Whether everything was as expected.
    pub fn is_ok(&self) -> bool {
        self.wrong.is_empty() && self.unanswered.is_empty()
    }
}

/// Runs a case to its end, or until `stop` is cancelled. With `has_network`, HTTP requests without an entry
/// are sent.
pub async fn run_case(
    dispatch: &Arc<Dispatch>,
    case: &Case,
    has_network: bool,
    stop: &CancellationToken,
) -> CaseResult {
    let caller = Caller::local(RawJson::trusted(answers::CAPABILITIES));
    // A client without its own tasks is asked only questions.
    let (questions, mut asked) = QuestionRoute::new(false);
    let tape = CaseTape::new(&case.tool, &case.http, has_network);
    let channel = Arc::new(Client { questions, progress: AtomicU64::new(0), tape });
    let mut answering = Answering { answers: case.answers.clone(), missing: Vec::new() };
    let attending = async {
        while let Some(question) = asked.recv().await {
            let response = answering.answer(&question);
            // The host ignores an answer that arrives too late.
            drop(dispatch.take_response(&caller, &question.id, response).await);
        }
        std::future::pending::<()>().await;
    };
    let arguments = RawJson::of(&case.arguments);
    let called = ToolRun { tool: case.tool.clone(), arguments, task: case.task };
    let calling = run_call(dispatch, &caller, called, channel.clone(), stop);
    let ended = tokio::select! {
        biased;
        ended = calling => ended,
        // Never ends; it is dropped with the call.
        () = attending => Ok(Ending::Stopped),
    };
    let ending = ended.unwrap_or_else(|fault| Ending::Error(fault.rpc()));
    let outcome = Outcome { ending, progress: channel.progress.load(Ordering::Relaxed) };
    // After a question or request without an answer, the outcome of the call means nothing.
    let is_answered = answering.missing.is_empty() && !channel.tape.has_missing();
    let wrong = if is_answered { compare(&case.expect, &outcome) } else { Vec::new() };
    let mut unanswered = answering.finish();
    unanswered.extend(channel.tape.mismatches());
    CaseResult { wrong, unanswered, outcome }
}

/// The recorded answers, and the questions that have none.
struct Answering {
    answers: Answers,
    missing: Vec<Mismatch>,
}

impl Answering {
    fn answer(&mut self, question: &Question) -> Result<RawJson, RpcError> {
        let Question { key, method, params, .. } = question;
        let key = key.as_deref().unwrap_or_default();
        if let Some(given) = self.answers.give(key) {
            return given.map(|members| RawJson::of(&members));
        }
        let example = answers::example("answers", key, method, params);
        let what = format!("there is no answer to the question `{key}`; this would be one:\n{example}");
        self.missing.push(Mismatch::said("answers", what));
        Err(RpcError::new(-1, "The case has no answer to this question"))
    }

    fn finish(mut self) -> Vec<Mismatch> {
        let unused =
            |key: &str| Mismatch::said("answers", format!("the tool did not ask the question `{key}`"));
        self.missing.extend(self.answers.unused().into_iter().map(unused));
        self.missing
    }
}

/// The client of a case.
struct Client {
    questions: QuestionRoute,
    progress: AtomicU64,
    tape: CaseTape,
}

impl ClientChannel for Client {
    fn notify(&self, _task: Option<TaskId>, _notice: Notice) {}

    fn route(&self, _task: Option<TaskId>, _scope: RouteScope) -> Option<Arc<dyn ClientRoute>> {
        Some(Arc::new(self.questions.clone()))
    }

    fn reported(&self, report: &Report) {
        if matches!(report, Report::Progress(_)) {
            self.progress.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn http_tape(&self) -> Option<&dyn HttpTape> {
        Some(&self.tape)
    }
}
