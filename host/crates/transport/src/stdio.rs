//! stdio: one message a line (S-1 to S-5). Standard output carries only the protocol; logs go elsewhere.

mod line_framing;
mod relay;
mod stateless;

use crate::Server;
use crate::answer::Answer;
use crate::change_notifications::{ChangeReceiver, Changes};
use crate::notifications::Audience;
use crate::request::{Request, RequestMessage};
use crate::session::{ClientSession, DurableState, SessionTerms, take_response};
use crate::stateless::{claim_of, is_among};
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
pub use line_framing::{Line, LineReader};
use line_framing::{Outbox, Outgoing};
use relay::{AnnouncementReceiver, ClientResponse, Relay, RelayOutcome, RelayedRequest};
pub use relay::{Background, Connection};
use stateless::Stateless;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use toolyard_dispatch::{
    Caller, ClientChannel, ClientPresence, ClientRoute, Handover, Notice, RateKey, RouteScope, StopCause,
    TaskId,
};
use toolyard_protocol::initialize::InitializeParams;
use toolyard_protocol::message::decode;
use toolyard_protocol::method::Capability;
use toolyard_protocol::notification::{Cancellation, cancellation};
use toolyard_protocol::revision::Transport;
use toolyard_protocol::stateless::envelope::VersionClaim;
use toolyard_protocol::{
    DecodeError, Id, Incoming, LogLevel, Message, Method, RawJson, Revision, RpcError, notification, response,
};

/// The most messages that wait to be written. A client that does not read slows down its own requests, and
/// the host drops notices to it.
const OUTBOX: usize = 256;
/// The most lines that wait to be handled.
const INBOX: usize = 64;
/// How long the first message waits for the plugins, so that it can say exactly what they offer. Plugins
/// whose code is in the cache are loaded by then.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The kind of client at a pipe.
pub enum PipeClient {
    /// A client that this process serves alone.
    Direct,
    /// A client whose calls go to a background host if they may begin a task, so that the task outlives the
    /// client and this process.
    Relayed(Arc<dyn Background>),
    /// The relay of such a client, which the background host serves. It gets all changes that it cannot
    /// detect itself, because it notifies its own clients.
    Relay,
}

/// Serves one client until its input ends or `stop` is cancelled. Running requests then get
/// `Settings::eof_grace` to end; the rest ends with `drained`, and every answer is written.
pub async fn serve<R, W>(
    server: Arc<Server>,
    client: PipeClient,
    input: R,
    output: W,
    stop: CancellationToken,
    drained: impl Future<Output = ()>,
) where
    R: BufRead + Send + 'static,
    W: Write + Send + 'static,
{
    let (outbox, written) = line_framing::spawn_writer(output, OUTBOX);
    let dispatch = &server.dispatch;
    let notifications = match &client {
        PipeClient::Direct | PipeClient::Relayed(_) => {
            NotificationSource::Changes(ChangeReceiver::of(dispatch))
        }
        PipeClient::Relay => NotificationSource::Announcements(AnnouncementReceiver::of(dispatch)),
    };
    // A background host continues without its client.
    let end_cause = match client {
        PipeClient::Relay => StopCause::Detached,
        PipeClient::Direct | PipeClient::Relayed(_) => StopCause::Ended,
    };
    let relay = match client {
        PipeClient::Relayed(background) => Some(Relay::start(background, dispatch.clone(), outbox.clone())),
        PipeClient::Direct | PipeClient::Relay => None,
    };
    Client::new(&server, outbox, relay, end_cause).serve(input, written, stop, notifications, drained).await;
}

/// The source of notifications without a request.
enum NotificationSource {
    /// Changes of the catalog that the client wants.
    Changes(ChangeReceiver),
    /// Changes that guests announce.
    Announcements(AnnouncementReceiver),
}

impl NotificationSource {
    /// The next messages. Safe to drop while it waits for them.
    async fn next(&mut self) -> ClientMessage {
        match self {
            Self::Changes(changes) => ClientMessage::Changes(changes.next().await),
            Self::Announcements(announced) => ClientMessage::Message(announced.next().await),
        }
    }
}

enum ClientMessage {
    Changes(Changes),
    Message(Bytes),
}

struct Client {
    server: Arc<Server>,
    outbox: Outbox,
    client: Option<Arc<ClientSession>>,
    requests: TaskTracker,
    /// The part without a session.
    stateless: Stateless,
    /// The relay, if there is a background host.
    relay: Option<Relay>,
    /// The reason that its requests record when the pipe ends.
    end_cause: StopCause,
    /// Ends the relay when it is dropped.
    relaying: Option<AbortOnDropHandle<()>>,
}

impl Client {
    fn new(
        server: &Arc<Server>,
        outbox: Outbox,
        relay: Option<(Relay, AbortOnDropHandle<()>)>,
        end_cause: StopCause,
    ) -> Self {
        let (relay, relaying) = relay.unzip();
        Self {
            server: server.clone(),
            stateless: Stateless::new(server, outbox.clone(), relay.clone(), end_cause),
            end_cause,
            outbox,
            client: None,
            requests: TaskTracker::new(),
            relay,
            relaying,
        }
    }

    async fn serve(
        mut self,
        input: impl BufRead + Send + 'static,
        written: oneshot::Receiver<()>,
        stop: CancellationToken,
        mut told: NotificationSource,
        drained: impl Future<Output = ()>,
    ) {
        let budget = Some(self.server.messages.clone());
        let most = self.server.settings.message_bytes;
        let mut lines = line_framing::spawn_reader(input, most, INBOX, budget);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                line = lines.recv() => match line {
                    Some(line) => self.take(line, &stop).await,
                    None => break,
                },
                tell = told.next() => self.tell(tell).await,
            }
        }
        if self.end_cause == StopCause::Detached
            && let Some(client) = &self.client
        {
            // At once: no client reads the result any more, and an equal call finds a kept one.
            client.inflight.cancel_all(self.end_cause);
        }
        // A shell that pipes its requests in has closed the input by now but still wants the answers.
        let patience = self.server.settings.eof_grace;
        let ended = async { tokio::join!(self.ended(), self.stateless.ended()) };
        drop(tokio::time::timeout(patience, ended).await);
        drained.await;
        tokio::join!(self.finish(), self.stateless.finish(patience));
        if let Some(relaying) = self.relaying.take() {
            relaying.abort();
            // The relay has its end signal, and holds the outbox to the client until it ends.
            drop(relaying.await);
        }
        drop(self);
        // The writer ends when the last sender is gone.
        drop(tokio::time::timeout(patience, written).await);
    }

    async fn tell(&self, tell: ClientMessage) {
        match tell {
            ClientMessage::Message(message) => self.send(message).await,
            ClientMessage::Changes(changes) => {
                if let Some(client) = &self.client {
                    for message in changes.messages(&self.server.dispatch, client).await {
                        self.send(message).await;
                    }
                }
            }
        }
    }

    async fn take(&mut self, line: Line, stop: &CancellationToken) {
        let (decoded, line) = match line {
            Line::Text(text) if text.iter().all(u8::is_ascii_whitespace) => return,
            Line::Text(text) => (decode(&text), text),
            Line::TooLong => {
                let most = self.server.settings.message_bytes;
                let error =
                    RpcError::invalid_request(format!("a line is longer than {most} bytes (wire.message)"));
                (Err(DecodeError { id: None, error }), Bytes::new())
            }
            Line::BudgetExceeded(id, exceeded) => {
                let fault = exceeded.fault();
                (Err(DecodeError { id, error: fault.rpc() }), Bytes::new())
            }
        };
        if let Ok(incoming) = &decoded
            && !self.server.dispatch.is_loaded()
        {
            tokio::select! {
                () = self.loaded_for(incoming) => {}
                () = stop.cancelled() => return,
            }
        }
        match decoded {
            Ok(Incoming::One(message)) => {
                if let Some(answer) = self.message(message, line).await {
                    self.send(answer).await;
                }
            }
            Ok(Incoming::Batch(members)) if is_among(&members) => self.send(stateless::batch()).await,
            Ok(Incoming::Batch(members)) => self.batch(members).await,
            Err(fault) => self.send(response::error(fault.id.as_ref(), &fault.error)).await,
        }
    }

    /// Waits until the plugins are loaded, if the answer depends on them. Later messages wait too: the client
    /// sends them in the order in which they take effect.
    async fn loaded_for(&self, incoming: &Incoming) {
        let loaded = self.server.dispatch.loaded();
        match incoming {
            Incoming::One(Message::Request { method, .. }) => match method {
                Method::Initialize | Method::ServerDiscover => {
                    drop(tokio::time::timeout(FIRST_WAIT, loaded).await);
                }
                method if reads_catalog(method) => loaded.await,
                _ => {}
            },
            Incoming::One(_) => {}
            Incoming::Batch(_) => loaded.await,
        }
    }

    /// Handles a message. Returns an answer that is ready at once; any other answer is sent when it
    /// is ready.
    async fn message(&mut self, message: Message, line: Bytes) -> Option<Bytes> {
        match message {
            Message::Request { id, method, params } => {
                // Each line itself shows its generation (26B-5).
                let claimed = claim_of(&method, params.as_ref());
                let message = RequestMessage { id, method, params, trace: None };
                match claimed.claim {
                    VersionClaim::None => {}
                    VersionClaim::Version(_) | VersionClaim::Malformed => {
                        return self.stateless.take(message, claimed, line);
                    }
                }
                if message.method == Method::Initialize {
                    return Some(self.initialize(&message.id, message.params.as_ref()));
                }
                let mut answering = match self.answering(message, line) {
                    Ok(answering) => answering,
                    Err(refusal) => return Some(refusal),
                };
                let outbox = self.outbox.clone();
                match (&mut answering).now_or_never() {
                    Some(None) => {}
                    Some(Some(PipeAnswer { message, handover: None })) => return Some(message),
                    Some(Some(answer)) => drop(self.requests.spawn(answer.deliver(outbox))),
                    None => drop(self.requests.spawn(async move {
                        if let Some(answer) = answering.await {
                            answer.deliver(outbox).await;
                        }
                    })),
                }
                None
            }
            Message::Notification { method, params } => {
                if method == Method::Cancelled
                    && let Some(Cancellation { request, reason }) = cancellation(params.as_ref())
                    && self.stateless.cancel(&request, StopCause::of_cancellation(reason.as_deref()))
                {
                    return None;
                }
                if let Some(client) = &self.client {
                    client.take_notification(&method, params.as_ref());
                    if let Some(relay) = self.relay.as_ref().filter(|_| method == Method::Initialized) {
                        relay.initialized();
                    }
                }
                None
            }
            Message::Response { id, outcome } => {
                // Before the next line is read, so that answers cannot pile up.
                if let Some(client) = &self.client {
                    let caller = client.caller();
                    self.responded(ClientResponse { caller, id, outcome, line }).await;
                }
                None
            }
        }
    }

    async fn responded(&self, response: ClientResponse) {
        let response = match &self.relay {
            Some(relay) => relay.respond(response).await,
            None => Some(response),
        };
        let Some(ClientResponse { caller, id, outcome, .. }) = response else { return };
        if let Err(fault) = take_response(&self.server, &caller, id, outcome).await {
            tracing::error!(
                event = "question.answer_not_stored",
                error = &fault as &dyn std::error::Error,
                "cannot store answer of the client"
            );
        }
    }

    /// The future answer, or the reason why there is none. Before `initialize`, only `ping` is answered (L-5,
    /// L-7).
    fn answering(
        &self,
        message: RequestMessage,
        line: Bytes,
    ) -> Result<BoxFuture<'static, Option<PipeAnswer>>, Bytes> {
        let Some(client) = &self.client else {
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
        if let Some((relay, starts)) = self.relayed(&request) {
            return Ok(relayed(relay, starts, client.clone(), request, line, channel).boxed());
        }
        match client.answer(request, channel) {
            Ok(answering) => Ok(answering.map(|answer| answer.map(PipeAnswer::from)).boxed()),
            Err(answer) => Err(answer.message),
        }
    }

    /// The relay to the background host if that host must answer the request, and whether to start the host
    /// for it.
    fn relayed(&self, request: &Request) -> Option<(Relay, bool)> {
        let relay = self.relay.as_ref()?;
        let params = request.params.as_ref();
        match request.method {
            Method::LoggingSetLevel if LogLevel::decode(params).is_ok() => relay.set_level(params),
            Method::ToolsCall if relay::goes_to_the_background(request) => {
                return Some((relay.clone(), true));
            }
            // Only the process that runs a task knows its progress and its questions.
            Method::ToolsCall if relay.is_up() && request.is_host_tool() => {
                return Some((relay.clone(), false));
            }
            // A task's question is sent only once, and only the process that runs the task knows of it.
            Method::TasksResult if request.has_tasks() && relay.is_up() => {
                return Some((relay.clone(), false));
            }
            _ => {}
        }
        None
    }

    fn initialize(&mut self, id: &Id, raw: Option<&RawJson>) -> Bytes {
        self.server.metrics.count_request(&Method::Initialize);
        let params = match InitializeParams::decode(raw) {
            Ok(params) => params,
            Err(error) => return response::error(Some(id), &error),
        };
        if self.client.is_some() {
            let error = RpcError::invalid_request("this connection is initialized already");
            return response::error(Some(id), &error);
        }
        let revision = Revision::negotiate(&params.protocol_version, Transport::Stdio);
        let declared = self.server.dispatch.offers();
        let audience = Arc::new(Audience::new(LogLevel::DEFAULT, false));
        let task_channel = Arc::new(PipeChannel { outbox: self.outbox.clone(), audience: audience.clone() });
        let client = params.client_info.name;
        let agreed = SessionTerms { revision, declared, audience, memory: DurableState::default(), client };
        let caller = Caller::local(params.capabilities);
        if let Some(relay) = &self.relay {
            relay.initialize(raw);
        }
        self.client = Some(Arc::new(ClientSession::new(&self.server, caller, agreed, task_channel)));
        response::result(id, &self.server.identity.initialize_result(revision, declared))
    }

    /// The answers to a batch are sent together (J-6).
    async fn batch(&mut self, members: Vec<Result<Message, DecodeError>>) {
        let answering = match &self.client {
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

    /// Waits until no request is running.
    async fn ended(&self) {
        self.requests.close();
        self.requests.wait().await;
    }

    /// Gives the running requests some time, then cancels them.
    async fn finish(&self) {
        if tokio::time::timeout(self.server.settings.eof_grace, self.ended()).await.is_err() {
            if let Some(client) = &self.client {
                client.inflight.cancel_all(self.end_cause);
            }
            tracing::debug!("requests under way were ended with the input");
        }
    }

    fn channel(&self, client: &ClientSession) -> Arc<dyn ClientChannel> {
        Arc::new(PipeChannel { outbox: self.outbox.clone(), audience: client.audience.clone() })
    }

    async fn send(&self, message: Bytes) {
        // The writer is gone, and the client with it; the input ends too.
        drop(self.outbox.send(Outgoing::line(message)).await);
    }
}

/// Whether the answer depends on what the plugins offer.
fn reads_catalog(method: &Method) -> bool {
    use Capability::{Completions, Prompts, Resources, Tools};
    matches!(method.capability(), Some(Tools | Resources | Prompts | Completions))
}

/// A request of a session that the background host answers.
async fn relayed(
    relay: Relay,
    starts: bool,
    client: Arc<ClientSession>,
    request: Box<Request>,
    line: Bytes,
    channel: Arc<dyn ClientChannel>,
) -> Option<PipeAnswer> {
    let id = request.id.clone();
    let kept = match client.inflight.add(&id) {
        Ok(kept) => kept,
        Err(failure) => return Some(request.refuse(failure).into()),
    };
    let relayed = relay.pass(RelayedRequest { id: id.clone(), line, kept, starts }).await;
    let is_of_task = request.method == Method::TasksResult || request.is_host_tool();
    if relayed == RelayOutcome::Lost && is_of_task {
        // The task is in the store, whatever happened to the host that ran it.
        return match client.answer(request, channel) {
            Ok(answering) => answering.await.map(PipeAnswer::from),
            Err(answer) => Some(answer.into()),
        };
    }
    request.server.metrics.count_request(&request.method);
    let error = relayed.error()?;
    Some(PipeAnswer { message: response::error(Some(&id), &error), handover: None })
}

/// An answer to a request of a session.
struct PipeAnswer {
    message: Bytes,
    handover: Option<Handover>,
}

impl From<Answer> for PipeAnswer {
    fn from(Answer { message, handover, .. }: Answer) -> Self {
        Self { message, handover }
    }
}

impl PipeAnswer {
    async fn deliver(self, outbox: Outbox) {
        // Without a writer there is no client either.
        if outbox.send(Outgoing::line(self.message)).await.is_ok()
            && let Some(handover) = self.handover
        {
            handover.mark_delivered();
        }
    }
}

/// Notices and questions go directly to the only channel (IR-5).
#[derive(Clone)]
struct PipeChannel {
    outbox: Outbox,
    audience: Arc<Audience>,
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
        if let Some(message) = self.audience.message(task, &notice) {
            self.send(message);
        }
    }

    fn route(&self, _task: Option<TaskId>, _scope: RouteScope) -> Option<Arc<dyn ClientRoute>> {
        let can_be_asked = self.audience.is_initialized() && !self.outbox.is_closed();
        can_be_asked.then(|| Arc::new(self.clone()) as Arc<dyn ClientRoute>)
    }

    fn release(&self, _retry: Duration) {}
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
