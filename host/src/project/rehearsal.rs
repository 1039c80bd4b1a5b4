//! One case, run against the tools that a host offers: its call is made by a client that
//! answers as recorded, and what comes is held against what is expected.

use super::answers::{self, Answers};
use super::case::Case;
use super::compare::{Mismatch, Outcome, compare};
use super::play::{Ending, Play, play};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use toolyard_dispatch::{
    Caller, ClientChannel, ClientPresence, ClientRoute, Dispatch, Notice, RawJson, Report, RouteScope,
    RpcError, TaskId,
};

/// Questions that may wait for their answers.
const WAITING: usize = 64;

/// How a case went.
#[derive(Debug)]
pub struct Rehearsed {
    /// What came.
    pub outcome: Outcome,
    /// What was not as expected.
    pub wrong: Vec<Mismatch>,
    /// What is wrong with the answers: some are missing, or nobody asked for them.
    pub unanswered: Vec<Mismatch>,
}

impl Rehearsed {
    /// Whether all was as expected.
    pub fn is_ok(&self) -> bool {
        self.wrong.is_empty() && self.unanswered.is_empty()
    }
}

/// Runs a case to its end, or until `stop` is true.
pub async fn rehearse(dispatch: &Arc<Dispatch>, case: &Case, stop: watch::Receiver<bool>) -> Rehearsed {
    let caller = Caller::local(RawJson::trusted(answers::CAPABILITIES));
    let (questions, mut asked) = mpsc::channel(WAITING);
    let channel = Arc::new(Client { questions, progress: AtomicU64::new(0) });
    let mut course = Course { answers: case.answers.clone(), missing: Vec::new() };
    let answering = async {
        while let Some(question) = asked.recv().await {
            let response = course.answer(&question);
            // An answer that comes too late is the host's to ignore.
            drop(dispatch.take_response(&caller, &question.id, response).await);
        }
        std::future::pending::<()>().await;
    };
    let arguments = RawJson::of(&case.arguments);
    let called = Play { tool: case.tool.clone(), arguments, task: case.task };
    let playing = play(dispatch, &caller, called, channel.clone(), stop);
    let ended = tokio::select! {
        biased;
        ended = playing => ended,
        // Never ends; it is dropped with the call.
        () = answering => Ok(Ending::Stopped),
    };
    let ending = ended.unwrap_or_else(|fault| Ending::Error(fault.rpc()));
    let outcome = Outcome { ending, progress: channel.progress.load(Ordering::Relaxed) };
    // What follows from a question without an answer says nothing.
    let wrong = if course.missing.is_empty() { compare(&case.expect, &outcome) } else { Vec::new() };
    Rehearsed { wrong, unanswered: course.told(), outcome }
}

/// What was asked, and what is left to answer.
struct Course {
    answers: Answers,
    missing: Vec<Mismatch>,
}

impl Course {
    fn answer(&mut self, question: &Question) -> Result<RawJson, RpcError> {
        let Question { key, method, params, .. } = question;
        if let Some(given) = self.answers.give(key) {
            return given.response();
        }
        let example = answers::example("answers", key, method, params);
        let what = format!("there is no answer to the question `{key}`; this would be one:\n{example}");
        self.missing.push(Mismatch::said("answers", what));
        Err(RpcError::new(-1, "The case has no answer to this question"))
    }

    fn told(mut self) -> Vec<Mismatch> {
        let unused = |key: &str| Mismatch::said("answers", format!("nobody asked for the answer to `{key}`"));
        self.missing.extend(self.answers.unused().into_iter().map(unused));
        self.missing
    }
}

struct Question {
    key: String,
    id: String,
    method: String,
    params: RawJson,
}

/// The client of a case.
struct Client {
    questions: mpsc::Sender<Question>,
    progress: AtomicU64,
}

impl ClientChannel for Client {
    fn notify(&self, _task: Option<TaskId>, _notice: Notice) {}

    fn route(&self, _task: Option<TaskId>, _scope: RouteScope) -> Option<Arc<dyn ClientRoute>> {
        Some(Arc::new(Pipe(self.questions.clone())))
    }

    fn release(&self, _retry: Duration) {}

    fn reported(&self, report: &Report) {
        if matches!(report, Report::Progress(_)) {
            self.progress.fetch_add(1, Ordering::Relaxed);
        }
    }
}

struct Pipe(mpsc::Sender<Question>);

impl ClientRoute for Pipe {
    // A client without tasks of its own is asked nothing but questions.
    fn request(&self, _id: &str, _method: &str, _params: &RawJson) -> bool {
        false
    }

    fn question(&self, key: &str, id: &str, method: &str, params: &RawJson) -> bool {
        let (key, id, method, params) = (key.to_owned(), id.to_owned(), method.to_owned(), params.clone());
        self.0.try_send(Question { key, id, method, params }).is_ok()
    }

    // What was asked is answered in any case.
    fn withdraw(&self, _id: &str, _reason: &str, _task: Option<TaskId>) {}

    fn presence(&self) -> ClientPresence {
        ClientPresence::There
    }
}
