//! The connection to the background host, one at a time. Keeps the order of messages in both directions, and
//! settles the running requests when the connection ends.

use super::{Background, Connection, RelayOutcome, change_notifications};
use crate::inflight::InflightRequest;
use crate::stdio::INBOX;
use crate::stdio::OUTBOX;
use crate::stdio::line_framing::{self, Line, Outbox, Outgoing};
use bytes::Bytes;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::AbortOnDropHandle;
use toolyard_dispatch::{Caller, Dispatch, Fault};
use toolyard_protocol::message::decode;
use toolyard_protocol::notification::cancellation;
use toolyard_protocol::response::{self, notification};
use toolyard_protocol::{Id, Incoming, Message, Method, RawJson, RpcError};

/// The prefix of the ids of the relay's own requests. Their answers are not forwarded.
const OWN: &str = "toolyard-relay-";

/// A message for the background host.
pub(super) enum RelayMessage {
    /// A request of the client.
    Request { id: Id, line: Bytes, kept: InflightRequest, starts: bool, done: oneshot::Sender<RelayOutcome> },
    /// The client no longer accepts an answer to it.
    Cancel { id: Id },
    /// The client's response to a request of the background host.
    Response(ClientResponse),
}

/// A response of the client.
pub(in crate::stdio) struct ClientResponse {
    pub caller: Arc<Caller>,
    pub id: Id,
    pub outcome: Result<RawJson, RpcError>,
    /// The line that it came in.
    pub line: Bytes,
}

/// The state of the client's session that the background host needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Handshake {
    /// The params of `initialize`.
    pub initialize: Option<RawJson>,
    /// Whether `notifications/initialized` has come.
    pub initialized: bool,
    /// The params of the last `logging/setLevel`.
    pub level: Option<RawJson>,
}

/// The state that all parts of a relay share.
#[derive(Default)]
pub(super) struct Shared {
    under_way: Mutex<LinkState>,
}

/// The running requests of the connection; empty without one.
#[derive(Default)]
struct LinkState {
    /// Whether there is a connection.
    up: bool,
    /// Forwarded requests of the client.
    pending: HashMap<Id, PendingRelay>,
    /// Requests of the background host that wait for the client.
    asked: HashSet<Id>,
}

/// A running request; the sender is dropped without a message if the connection ends.
struct PendingRelay {
    kept: InflightRequest,
    done: oneshot::Sender<RelayOutcome>,
}

impl Shared {
    /// Whether there is a connection.
    pub fn is_up(&self) -> bool {
        self.lock().up
    }

    /// Whether the background host waits for a response with this id. After this call, it no longer does.
    pub fn was_asked(&self, id: &Id) -> bool {
        self.lock().asked.remove(id)
    }

    /// Marks the connection as open.
    fn begin(&self) {
        self.lock().up = true;
    }

    /// Marks the connection as ended, and drops all running requests.
    fn end(&self) {
        let ended = std::mem::take(&mut *self.lock());
        drop(ended);
    }

    /// Adds a request to forward. Returns it if the connection has ended.
    fn add(&self, id: &Id, pending: PendingRelay) -> Result<(), PendingRelay> {
        let mut under_way = self.lock();
        if !under_way.up {
            return Err(pending);
        }
        under_way.pending.insert(id.clone(), pending);
        Ok(())
    }

    fn take(&self, id: &Id) -> Option<PendingRelay> {
        self.lock().pending.remove(id)
    }

    fn lock(&self) -> MutexGuard<'_, LinkState> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the connection, and makes a new one when it has ended and is needed again.
pub(super) struct Links {
    pub background: Arc<dyn Background>,
    pub dispatch: Arc<Dispatch>,
    /// The queue of the client's lines.
    pub outbox: Outbox,
    pub shared: Arc<Shared>,
    pub handshake: watch::Receiver<Handshake>,
}

/// A connection.
struct Link {
    /// The queue of the background host's lines.
    lines: Outbox,
    /// The state of the session, as last sent.
    told: Handshake,
    /// The number of the relay's own requests so far.
    own: u64,
    _listening: AbortOnDropHandle<()>,
}

impl Links {
    /// Runs until all senders are dropped.
    pub async fn run(mut self, mut posts: mpsc::Receiver<RelayMessage>) {
        let mut link = None;
        let mut unadopted = self.dispatch.unadopted();
        loop {
            let post = tokio::select! {
                biased;
                Ok(()) = self.handshake.changed(), if link.is_some() => None,
                post = posts.recv() => match post {
                    Some(post) => Some(post),
                    None => return,
                },
                Ok(()) = unadopted.changed() => {
                    if *unadopted.borrow_and_update() && !self.shared.is_up() {
                        // The host takes over existing tasks before it accepts connections.
                        link = self.connect().await.inspect_err(|why| unreachable(why)).ok();
                    }
                    continue;
                }
            };
            if !self.shared.is_up() {
                link = None;
            }
            match (post, &mut link) {
                (Some(RelayMessage::Request { id, line, kept, starts, done }), link) => {
                    let request = RelayRequest { id, line, pending: PendingRelay { kept, done } };
                    self.request(link, request, starts).await;
                }
                (Some(RelayMessage::Cancel { id }), Some(link)) => {
                    // A request that was answered meanwhile can no longer be cancelled.
                    if self.shared.take(&id).is_some() {
                        link.send(cancelled(&id)).await;
                    }
                }
                (Some(RelayMessage::Response(response)), Some(link)) => link.send(response.line).await,
                (Some(RelayMessage::Response(response)), None) => self.keep(response).await,
                (None, Some(link)) => link.shake_hands(&self.now()).await,
                // The cancelled request has ended with the connection.
                (Some(RelayMessage::Cancel { .. }) | None, None) => {}
            }
        }
    }

    /// Stores a response whose asking host is gone: the question of a task is in the store.
    async fn keep(&self, ClientResponse { caller, id, outcome, .. }: ClientResponse) {
        if let Id::Text(id) = id
            && let Err(fault) = self.dispatch.take_response(&caller, &id, outcome).await
        {
            tracing::error!(
                event = "question.answer_not_stored",
                error = &fault as &dyn std::error::Error,
                "cannot store answer of the client"
            );
        }
    }

    fn now(&mut self) -> Handshake {
        self.handshake.borrow_and_update().clone()
    }

    async fn request(&mut self, link: &mut Option<Link>, request: RelayRequest, starts: bool) {
        let RelayRequest { id, line, mut pending } = request;
        loop {
            if pending.done.is_closed() {
                // It was cancelled while it waited here.
                return;
            }
            let to = match &mut *link {
                Some(link) => link,
                None if starts => match self.connect().await {
                    Ok(new) => link.insert(new),
                    Err(why) => return drop(pending.done.send(RelayOutcome::Unreachable(why))),
                },
                None => return drop(pending.done.send(RelayOutcome::Lost)),
            };
            match self.shared.add(&id, pending) {
                Ok(()) => {
                    let now = self.handshake.borrow_and_update().clone();
                    to.shake_hands(&now).await;
                    return to.send(line).await;
                }
                // The connection ended before anything was sent.
                Err(again) => (pending, *link) = (again, None),
            }
        }
    }

    async fn connect(&self) -> Result<Link, String> {
        let Connection { input, output } = self.background.connect().await?;
        // The other end bounds its lines, because it is the same program.
        let received = line_framing::spawn_reader(input, usize::MAX, INBOX, None);
        let (lines, _) = line_framing::spawn_writer(output, OUTBOX);
        self.shared.begin();
        let listener = Listener {
            dispatch: self.dispatch.clone(),
            outbox: self.outbox.clone(),
            shared: self.shared.clone(),
        };
        let listening = AbortOnDropHandle::new(tokio::spawn(listener.listen(received)));
        Ok(Link { lines, told: Handshake::default(), own: 0, _listening: listening })
    }
}

struct RelayRequest {
    id: Id,
    line: Bytes,
    pending: PendingRelay,
}

impl Link {
    /// Sends a line. If the connection has ended, the listener reports that to all waiting requests.
    async fn send(&self, line: Bytes) {
        drop(self.lines.send(Outgoing::line(line)).await);
    }

    /// Sends the changes of the session since the last call.
    async fn shake_hands(&mut self, now: &Handshake) {
        if self.told == *now {
            return;
        }
        if let Some(params) = now.initialize.as_ref().filter(|_| self.told.initialize.is_none()) {
            self.ask(&Method::Initialize, params).await;
        }
        if now.initialized && !self.told.initialized {
            self.send(notification(Method::Initialized.as_str(), None)).await;
        }
        if let Some(level) = now.level.as_ref().filter(|level| self.told.level.as_ref() != Some(level)) {
            self.ask(&Method::LoggingSetLevel, level).await;
        }
        self.told = now.clone();
    }

    async fn ask(&mut self, method: &Method, params: &RawJson) {
        self.own += 1;
        self.send(response::request(&format!("{OWN}{}", self.own), method.as_str(), params)).await;
    }
}

fn unreachable(why: &str) {
    tracing::warn!(
        event = "background.unreachable", reason = %why,
        "cannot reach the background host; tasks wait for recovery"
    );
}

/// `notifications/cancelled` for a request of the client, whose id may be a number.
fn cancelled(id: &Id) -> Bytes {
    let params = serde_json::json!({"requestId": id, "reason": "The client cancelled the request."});
    notification(Method::Cancelled.as_str(), Some(&RawJson::of(&params)))
}

/// Handles the messages of the background host.
struct Listener {
    dispatch: Arc<Dispatch>,
    outbox: Outbox,
    shared: Arc<Shared>,
}

impl Listener {
    async fn listen(self, mut lines: mpsc::Receiver<Line>) {
        while let Some(line) = lines.recv().await {
            let Line::Text(line) = line else { continue };
            match decode(&line) {
                Ok(Incoming::One(message)) => self.take(message, line).await,
                Ok(Incoming::Batch(_)) | Err(_) => {
                    tracing::warn!(
                        event = "background.message_invalid",
                        "invalid message from the background host"
                    );
                }
            }
        }
        tracing::debug!("the connection to the background host has ended");
        self.shared.end();
        // Recovers the host's unfinished tasks now, even without a request.
        self.dispatch.recover_now().await;
    }

    async fn take(&self, message: Message, line: Bytes) {
        match message {
            Message::Response { id: Id::Text(id), outcome } if id.starts_with(OWN) => {
                if let Err(error) = outcome {
                    tracing::warn!(
                        event = "background.session_refused", %error,
                        "background host refuses the session of the client"
                    );
                }
            }
            Message::Response { id, outcome } => {
                let task = outcome.ok().and_then(|result| handed_out(&result));
                let known = match self.shared.take(&id) {
                    Some(pending) => self.answer(pending, line, task.is_some()).await,
                    // Its client has cancelled it.
                    None => false,
                };
                if let Some(task) = task.filter(|_| !known) {
                    self.cancel(&task).await;
                }
            }
            Message::Request { id, .. } => {
                self.shared.lock().asked.insert(id);
                self.send(line).await;
            }
            Message::Notification { method, params } if method.as_str() == change_notifications::METHOD => {
                change_notifications::announce(&self.dispatch, params.as_ref());
            }
            Message::Notification { method, params } => {
                if method == Method::Cancelled
                    && let Some(id) = cancellation(params.as_ref()).map(|cancelled| cancelled.request)
                {
                    self.shared.was_asked(&id);
                }
                self.send(line).await;
            }
        }
    }

    /// Writes an answer. If `matters`, waits until it is written. Returns whether the client can read it.
    async fn answer(&self, pending: PendingRelay, line: Bytes, matters: bool) -> bool {
        let PendingRelay { kept, done } = pending;
        let (tell, told) = oneshot::channel();
        let place = self.outbox.reserve().await;
        // The id may be used again as soon as the answer can be read.
        drop(kept);
        let Ok(place) = place else { return false };
        place.send(Outgoing { written: matters.then_some(tell), ..Outgoing::line(line) });
        // The waiting request may have been cancelled just now.
        let _ = done.send(RelayOutcome::Done);
        !matters || told.await.is_ok()
    }

    /// Cancels a task that no client knows of.
    async fn cancel(&self, task: &str) {
        let caller = Caller::local(RawJson::empty_object());
        match self.dispatch.cancel_task(&caller, task).await {
            Ok(_) | Err(Fault::AlreadyOver(_)) => {}
            Err(fault) => {
                let error = &fault as &dyn std::error::Error;
                tracing::error!(
                    event = "task.not_cancelled",
                    task,
                    error,
                    "cannot cancel a task that its client does not know"
                );
            }
        }
    }

    async fn send(&self, line: Bytes) {
        // The writer is gone, and the client with it; the input ends too.
        drop(self.outbox.send(Outgoing::line(line)).await);
    }
}

/// The task that a result hands out to a client without a session, which learns of the task only from this
/// answer (26T-10).
fn handed_out(result: &RawJson) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Created {
        result_type: String,
        task_id: String,
    }
    let created = result.decode::<Created>().ok()?;
    (created.result_type == "task").then_some(created.task_id)
}
