//! stdio: one message a line (S-1 to S-5). Standard output carries only the protocol; logs go elsewhere.

pub(crate) mod line_framing;
mod stateless;

use crate::answer::{Answer, logged};
use crate::change_notifications::{ChangeReceiver, Changes};
use crate::notifications::NotificationFilter;
use crate::request::{Request, RequestMessage};
use crate::server::Server;
use crate::session::{ClientSession, DurableState, SessionTerms};
use crate::stateless::{batched, claim_of, is_among};
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
pub use line_framing::{Line, LineReader};
use line_framing::{Outbox, Outgoing};
use stateless::Stateless;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolyard_dispatch::{
    Caller, ClientChannel, ClientPresence, ClientRoute, Notice, RateKey, RouteScope, StopCause, TaskId,
};
use toolyard_protocol::initialize::InitializeParams;
use toolyard_protocol::message::decode;
use toolyard_protocol::notification::{Cancellation, cancellation};
use toolyard_protocol::revision::Transport;
use toolyard_protocol::stateless::claim::VersionClaim;
use toolyard_protocol::{
    DecodeError, Id, Incoming, LogLevel, Message, Method, RawJson, Revision, RpcError, notification, response,
};

/// The most messages that wait to be written. A client that does not read slows down its own requests, and
/// the host drops notices to it.
pub(crate) const MAX_OUTBOX: usize = 256;
/// The most lines that wait to be handled.
pub(crate) const MAX_INBOX: usize = 64;
/// How long requests under way may go on after stdin has ended. A script that pipes its requests in still reads
/// their answers, but a client that has ended must not keep the process for long.
pub(crate) const EOF_GRACE: Duration = Duration::from_millis(1_500);

/// Serves one client until its input ends or `stop` is cancelled. Running requests then get
/// a moment to end; the rest ends with `drained`, and every answer is written.
pub async fn serve(
    server: Arc<Server>,
    input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
    stop: CancellationToken,
    drained: impl Future<Output = ()>,
) {
    let (outbox, written) = line_framing::spawn_writer(output, MAX_OUTBOX);
    let mut changes = ChangeReceiver::of(&server.dispatch);
    let (budget, most) = (server.shares.messages.clone(), server.settings.message_bytes);
    let mut lines = line_framing::spawn_reader(input, most, MAX_INBOX, Some(budget));
    let requests = TaskTracker::new();
    let mut client = Client {
        stateless: Stateless::new(&server, outbox.clone(), &requests),
        server,
        outbox,
        session: None,
        requests,
    };
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            line = lines.recv() => match line {
                Some(line) => client.take(line, &stop).await,
                None => break,
            },
            changes = changes.next() => client.tell(changes).await,
        }
    }
    // A shell that pipes its requests in has closed the input by now but still wants the answers.
    drop(tokio::time::timeout(EOF_GRACE, client.ended()).await);
    drained.await;
    client.finish().await;
    drop(client);
    // The writer ends when the last sender is gone.
    drop(tokio::time::timeout(EOF_GRACE, written).await);
}

struct Client {
    server: Arc<Server>,
    outbox: Outbox,
    session: Option<Arc<ClientSession>>,
    /// The requests and subscriptions that are running, with and without a session.
    requests: TaskTracker,
    /// The part without a session.
    stateless: Stateless,
}

impl Client {
    async fn tell(&self, changes: Changes) {
        if let Some(client) = &self.session {
            for message in changes.messages(&self.server.dispatch, client).await {
                self.send(message).await;
            }
        }
    }

    async fn take(&mut self, line: Line, stop: &CancellationToken) {
        let decoded = match line {
            Line::Text(text) if text.iter().all(u8::is_ascii_whitespace) => return,
            Line::Text(text) => decode(&text),
            Line::TooLong => Err(line_framing::too_long(self.server.settings.message_bytes)),
            Line::NoRoom(id, no_room) => Err(DecodeError { id, error: no_room.fault().rpc() }),
        };
        // Later messages wait too: the client sends them in the order in which they take effect.
        if let Ok(incoming) = &decoded {
            tokio::select! {
                biased;
                () = self.server.loaded_for(incoming) => {}
                () = stop.cancelled() => return,
            }
        }
        match decoded {
            Ok(Incoming::One(message)) => {
                if let Some(answer) = self.message(message).await {
                    self.send(answer).await;
                }
            }
            Ok(Incoming::Batch(members)) if is_among(&members) => {
                self.send(response::error(None, &batched())).await
            }
            Ok(Incoming::Batch(members)) => self.batch(members).await,
            Err(fault) => self.send(response::error(fault.id.as_ref(), &fault.error)).await,
        }
    }

    /// Handles a message. Returns an answer that is ready at once; any other answer is sent when it
    /// is ready.
    async fn message(&mut self, message: Message) -> Option<Bytes> {
        match message {
            Message::Request { id, method, params } => {
                // Each line itself shows its generation (26B-5).
                let claimed = claim_of(&method, params.as_ref());
                let message = RequestMessage { id, method, params, trace: None };
                if claimed.claim != VersionClaim::None {
                    return self.stateless.take(message, claimed);
                }
                if message.method == Method::Initialize {
                    return Some(self.initialize(&message.id, message.params.as_ref()));
                }
                let mut answering = match self.answering(message) {
                    Ok(answering) => answering,
                    Err(refusal) => return Some(refusal),
                };
                let outbox = self.outbox.clone();
                match (&mut answering).now_or_never() {
                    Some(None) => {}
                    Some(Some(Answer { message, handover: None, .. })) => return Some(message),
                    Some(Some(answer)) => drop(self.requests.spawn(deliver(answer, outbox))),
                    None => drop(self.requests.spawn(async move {
                        if let Some(answer) = answering.await {
                            deliver(answer, outbox).await;
                        }
                    })),
                }
                None
            }
            Message::Notification { method, params } => {
                if method == Method::Cancelled
                    && let Some(Cancellation { request, reason }) = cancellation(params.as_ref())
                    && self.stateless.inflight.cancel(&request, StopCause::of_cancellation(reason.as_deref()))
                {
                    return None;
                }
                if let Some(client) = &self.session {
                    client.take_notification(&method, params.as_ref());
                }
                None
            }
            Message::Response { id, outcome } => {
                // Before the next line is read, so that answers cannot pile up.
                if let Some(client) = &self.session {
                    let (dispatch, caller) = (&self.server.dispatch, client.caller());
                    if let Err(fault) = client.take_response(dispatch, &caller, id, outcome).await {
                        logged(&fault);
                    }
                }
                None
            }
        }
    }

    /// The future answer, or the reason why there is none. Before `initialize`, only `ping` is answered (L-5,
    /// L-7).
    fn answering(&self, message: RequestMessage) -> Result<BoxFuture<'static, Option<Answer>>, Bytes> {
        let Some(client) = &self.session else {
            return Err(if message.method == Method::Ping {
                response::result(&message.id, &RawJson::empty_object())
            } else {
                let error = RpcError::invalid_request("the first request must be initialize");
                response::error(Some(&message.id), &error)
            });
        };
        let channel = self.channel(client);
        let caller = client.caller();
        let request = Request::of_session(&self.server, message, client, caller, RateKey::Local);
        client.answer(request, channel).map_err(|answer| answer.message)
    }

    fn initialize(&mut self, id: &Id, raw: Option<&RawJson>) -> Bytes {
        self.server.metrics.count_request(&Method::Initialize);
        let params = match InitializeParams::decode(raw) {
            Ok(params) => params,
            Err(error) => return response::error(Some(id), &error),
        };
        if self.session.is_some() {
            let error = RpcError::invalid_request("this connection is initialized already");
            return response::error(Some(id), &error);
        }
        let revision = Revision::negotiate(&params.protocol_version, Transport::Stdio);
        let declared = self.server.dispatch.catalog().offers();
        let notification_filter = Arc::new(NotificationFilter::new(LogLevel::DEFAULT, false));
        let task_channel = Arc::new(PipeChannel {
            outbox: self.outbox.clone(),
            notification_filter: notification_filter.clone(),
        });
        let client = params.client_info.name;
        let agreed =
            SessionTerms { revision, declared, notification_filter, memory: DurableState::default(), client };
        let caller = Caller::local(params.capabilities);
        self.session = Some(Arc::new(ClientSession::new(&self.server, caller, agreed, task_channel)));
        response::result(id, &self.server.identity.initialize_result(revision, declared))
    }

    /// The answers to a batch are sent together (J-6).
    async fn batch(&mut self, members: Vec<Result<Message, DecodeError>>) {
        let answering = match &self.session {
            Some(client) => {
                let channel = self.channel(client);
                let caller = client.caller();
                client.batch(&self.server, &caller, &RateKey::Local, members, &channel)
            }
            None => {
                Err(RpcError::invalid_request("the first request must be initialize, and not in a batch"))
            }
        };
        let answering = match answering {
            Ok(answering) => answering,
            Err(error) => return self.send(response::error(None, &error)).await,
        };
        let outbox = self.outbox.clone();
        self.requests.spawn(async move {
            let answers: Vec<Bytes> = join_all(answering).await.into_iter().flatten().collect();
            if !answers.is_empty() {
                drop(outbox.send(Outgoing::line(response::batch(&answers))).await);
            }
        });
    }

    /// Ends the subscriptions, each with its response, and waits until no request is running.
    async fn ended(&self) {
        self.stateless.end.cancel();
        self.requests.close();
        self.requests.wait().await;
    }

    /// Gives the running requests some time, then cancels them.
    async fn finish(&self) {
        if tokio::time::timeout(EOF_GRACE, self.ended()).await.is_err() {
            self.stateless.inflight.cancel_all(StopCause::Ended);
            if let Some(client) = &self.session {
                client.inflight.cancel_all(StopCause::Ended);
            }
            tracing::debug!("requests under way were ended with the input");
        }
    }

    fn channel(&self, client: &ClientSession) -> Arc<dyn ClientChannel> {
        Arc::new(PipeChannel {
            outbox: self.outbox.clone(),
            notification_filter: client.notification_filter.clone(),
        })
    }

    async fn send(&self, message: Bytes) {
        // The writer is gone, and the client with it; the input ends too.
        drop(self.outbox.send(Outgoing::line(message)).await);
    }
}

/// Sends an answer to a request of a session.
async fn deliver(answer: Answer, outbox: Outbox) {
    // Without a writer there is no client either.
    if outbox.send(Outgoing::line(answer.message)).await.is_ok()
        && let Some(handover) = answer.handover
    {
        handover.mark_delivered();
    }
}

/// Notices and questions go directly to the only channel (IR-5).
#[derive(Clone)]
struct PipeChannel {
    outbox: Outbox,
    notification_filter: Arc<NotificationFilter>,
}

impl PipeChannel {
    /// False if the client does not read: it loses notices, and gets questions later, but receives every
    /// answer.
    fn send(&self, message: Bytes) -> bool {
        self.outbox.try_send(Outgoing::line(message)).is_ok()
    }
}

impl ClientChannel for PipeChannel {
    fn notify(&self, task: Option<TaskId>, notice: Notice) {
        if let Some(message) = self.notification_filter.message(task, &notice) {
            self.send(message);
        }
    }

    fn route(&self, _task: Option<TaskId>, _scope: RouteScope) -> Option<Arc<dyn ClientRoute>> {
        let can_be_asked = self.notification_filter.is_initialized() && !self.outbox.is_closed();
        can_be_asked.then(|| Arc::new(self.clone()) as Arc<dyn ClientRoute>)
    }
}

impl ClientRoute for PipeChannel {
    fn request(&self, id: &str, method: &str, params: &RawJson) -> bool {
        self.send(response::request(id, method, params))
    }

    fn withdraw(&self, id: &str, reason: &str, task: Option<TaskId>) {
        let task = task.map(|task| task.to_string());
        self.send(notification::cancelled(id, reason, task.as_deref()));
    }

    fn presence(&self) -> ClientPresence {
        if self.outbox.is_closed() { ClientPresence::Gone } else { ClientPresence::There }
    }
}
