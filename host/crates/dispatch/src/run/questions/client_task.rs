//! Requests of a run to its client, and tasks that the client runs for us (Q-1 to
//!

use crate::client::client_channel::RouteScope;
use crate::client::pending_requests::{ClientResponse, SentRequest};
use crate::run::client::Client;
use crate::run::run::Run;
use std::time::Duration;
use tokio::time::Instant;
use toolyard_protocol::question::{self, ClientAnswer, ClientTask};
use toolyard_protocol::{ClientCapabilities, RawJson, RpcError};
use toolyard_task::AskError;
use toolyard_task::task::Sent;
use toolyard_task::wire::{QuestionKind, TaskStatus};

/// How long one request about a client's task may take before it is repeated (L-9).
const REQUEST_TIME: Duration = Duration::from_secs(15);
/// How long one wait for the result of a client's task may take.
const RESULT_TIME: Duration = Duration::from_secs(60);
/// How often the host checks whether the client can be reached.
const LINE_TIME: Duration = Duration::from_millis(200);
/// How often the host asks about a client's task that names no interval.
const POLL: Duration = Duration::from_secs(1);
/// The bounds of the interval that a client may name.
const POLL_BOUNDS: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(60));

/// Sends a request to the client of this run, as the question of this key if it is one. The client's response, if it
/// comes in time. Waits until the client can be reached.
pub(super) async fn send(
    run: &Run,
    key: Option<&str>,
    method: &str,
    params: &RawJson,
    until: Instant,
) -> Option<ClientResponse> {
    let (deps, client, task) = (&run.deps, &run.client, run.task().map(|task| task.id));
    loop {
        if let Some(route) = client.channel.route(task, RouteScope::Anywhere) {
            let id = deps.ids.uuid().simple().to_string();
            let elicits = method == QuestionKind::Form.method();
            let request = SentRequest { id: id.clone(), elicits, task, route: route.clone() };
            let (pending, told) = deps.clients.requests.expect(request, client.session.clone());
            let sent = match key {
                Some(key) => {
                    let asked = Sent { id: id.clone(), session: client.session.clone() };
                    run.questions.history().mark_sent(key, asked, route.clone());
                    route.question(key, &id, method, params)
                }
                None => route.request(&id, method, params),
            };
            if sent {
                let response = tokio::time::timeout_at(until, told).await.ok()?.ok()?;
                pending.settle();
                return Some(response);
            }
            // It never left, so there is nothing to take back.
            pending.settle();
        }
        tokio::time::timeout_at(until, tokio::time::sleep(LINE_TIME)).await.ok()?;
    }
}

/// Waits for a task of the client and fetches its outcome. If dropped before, it cancels
/// the task.
pub(super) async fn follow(
    run: &Run,
    kind: QuestionKind,
    task: ClientTask,
    until: Instant,
) -> Result<RawJson, AskError> {
    let mut entrusted = ClientTaskGuard { run, id: task.id.clone(), over: false };
    let params = RawJson::of(&serde_json::json!({"taskId": task.id}));
    let mut now = task;
    // At `input_required` the result is asked for at once: whatever the client
    // needs for it is its own affair.
    while now.status == TaskStatus::Working {
        let pause = now.poll_interval_ms.map_or(POLL, Duration::from_millis);
        let pause = pause.clamp(POLL_BOUNDS.0, POLL_BOUNDS.1);
        if tokio::time::timeout_at(until, tokio::time::sleep(pause)).await.is_err() {
            return Err(AskError::TimedOut);
        }
        let patience = until.min(Instant::now() + REQUEST_TIME);
        match send(run, None, "tasks/get", &params, patience).await {
            Some(Ok(task)) => now = decode_task(&entrusted.id, &task)?,
            // it has expired, or was never there.
            Some(Err(error)) => {
                entrusted.over = true;
                return Err(AskError::Refused(error));
            }
            None if Instant::now() >= until => return Err(AskError::TimedOut),
            None => {}
        }
    }
    loop {
        let patience = until.min(Instant::now() + RESULT_TIME);
        match send(run, None, "tasks/result", &params, patience).await {
            Some(outcome) => {
                entrusted.over = true;
                let result = outcome.map_err(AskError::Refused)?;
                return match question::given(kind, false, &result).map_err(AskError::Refused)? {
                    ClientAnswer::Answer(answer) => Ok(answer),
                    ClientAnswer::Task(_) => Err(unusable("a task instead of its result")),
                };
            }
            None if Instant::now() >= until => return Err(AskError::TimedOut),
            None => {}
        }
    }
}

/// a response that is not a task, or is another task, is a fault of the client and ends the
/// wait.
fn decode_task(id: &str, task: &RawJson) -> Result<ClientTask, AskError> {
    let task = ClientTask::decode(task).map_err(|what| unusable(&what))?;
    if task.id == id { Ok(task) } else { Err(unusable("another task than the one it was asked for")) }
}

fn unusable(what: &str) -> AskError {
    AskError::Refused(RpcError::internal(format!(
        "The client's answer about its task cannot be used: {what}"
    )))
}

/// A task that a client runs for us.
struct ClientTaskGuard<'a> {
    run: &'a Run,
    id: String,
    over: bool,
}

impl Drop for ClientTaskGuard<'_> {
    fn drop(&mut self) {
        let Run { deps, client: Client { channel, capabilities, .. }, .. } = self.run;
        let task = self.run.task();
        if self.over || !ClientCapabilities::of(capabilities).cancels_tasks {
            return;
        }
        // The response does not matter.
        if let Some(route) = channel.route(task.map(|task| task.id), RouteScope::Anywhere) {
            let id = deps.ids.uuid().simple().to_string();
            let params = RawJson::of(&serde_json::json!({"taskId": self.id}));
            route.request(&id, "tasks/cancel", &params);
            tracing::debug!(client_task = self.id, "asked the client to cancel its task");
        }
    }
}
