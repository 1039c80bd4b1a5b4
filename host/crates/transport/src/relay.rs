//! The relay of `toolyard stdio --detach`: it carries the messages between a client's pipe and a background
//! host, to which it speaks Streamable HTTP over a Unix socket. The host outlives the pipe.
//!
//! The relay has no tools and no store of its own. It opens a connection for each message, and starts the
//! host again if that has ended. The port [`Background`] finds and starts the host.

mod event_reader;

use crate::http::header_check::PROTOCOL_VERSION;
use crate::http::relayed::RELAY;
use crate::http::reply::SESSION_ID;
use crate::inflight::Inflight;
use crate::stateless::claim_of;
use crate::stdio::line_framing::{self, Line, Outbox, Outgoing};
use crate::stdio::{EOF_GRACE, MAX_INBOX, MAX_OUTBOX};
use bytes::Bytes;
use event_reader::EventReader;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{HeaderName, HeaderValue, Method as HttpMethod, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming as HttpBody;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde::Deserialize;
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use toolyard_protocol::message::decode;
use toolyard_protocol::notification::cancellation;
use toolyard_protocol::stateless::VERSION;
use toolyard_protocol::stateless::claim::VersionClaim;
use toolyard_protocol::{DecodeError, Id, Incoming, Message, Method, RpcError, response};

/// How often a request that may be repeated is sent to a host that ends before it has answered.
const MAX_ATTEMPTS: u32 = 20;
/// The pause before a request is repeated, or a stream is opened again.
const AGAIN: Duration = Duration::from_millis(100);
/// How long the cancellation of a request waits for the beginning of its answer: both travel on connections of
/// their own, and the request must arrive first.
const CANCEL_AFTER: Duration = Duration::from_millis(50);

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Connects to the background host.
pub trait Background: Send + Sync + 'static {
    /// A connection to the background host. Starts the host if it is not running.
    ///
    /// # Errors
    /// The reason why there is none, for the client.
    fn connect(&self) -> BoxFuture<'_, Result<Connection, String>>;
}

/// A connection to a background host.
#[derive(Debug)]
pub struct Connection {
    /// The connection.
    pub stream: UnixStream,
    /// Tells one background host from the next.
    pub process: Option<i32>,
}

/// The settings of a relay.
#[derive(Debug, Clone, Copy)]
pub struct RelaySettings {
    /// The longest message, in bytes.
    pub message_bytes: usize,
    /// The most requests under way.
    pub requests: usize,
    /// Tells this relay from others of the host.
    pub relay: u128,
}

/// Relays the messages of one client until its input ends or `stop` is cancelled.
pub async fn serve(
    background: Arc<dyn Background>,
    settings: RelaySettings,
    input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
    stop: CancellationToken,
) {
    let (outbox, written) = line_framing::spawn_writer(output, MAX_OUTBOX);
    let mut lines = line_framing::spawn_reader(input, settings.message_bytes, MAX_INBOX, None);
    let relay = Arc::new(Relay {
        background,
        max_requests: settings.requests,
        name: HeaderValue::from_str(&format!("{:032x}", settings.relay)).expect("hexadecimal digits"),
        outbox,
        session: AsyncMutex::default(),
        exchanges: Mutex::default(),
        end: CancellationToken::new(),
    });
    let (requests, mut standing) = (TaskTracker::new(), JoinSet::new());
    loop {
        let line = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            line = lines.recv() => line,
        };
        let message = match line {
            None => break,
            Some(Line::Text(text)) if text.iter().all(u8::is_ascii_whitespace) => continue,
            Some(Line::Text(text)) => decode(&text).map(|incoming| (incoming, text)),
            Some(Line::TooLong | Line::NoRoom(..)) => Err(line_framing::too_long(settings.message_bytes)),
        };
        if standing.is_empty() {
            standing.spawn(relay.clone().stay_connected());
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = relay.take(message, &requests, &mut standing) => {}
        }
    }
    requests.close();
    if !stop.is_cancelled() {
        // A shell that pipes its requests in has closed the input by now but still wants the answers.
        drop(tokio::time::timeout(EOF_GRACE, requests.wait()).await);
    }
    let is_idle = requests.is_empty();
    // The connections of the requests that still run end, so the host learns that the client has left.
    relay.end.cancel();
    standing.shutdown().await;
    requests.wait().await;
    if is_idle {
        // The end of the session would cancel requests that continue without their client.
        drop(tokio::time::timeout(EOF_GRACE, relay.close_session()).await);
    }
    drop(relay);
    // The writer ends when the last sender is gone.
    drop(tokio::time::timeout(EOF_GRACE, written).await);
}

struct Relay {
    background: Arc<dyn Background>,
    max_requests: usize,
    /// The name of the relay at the host, which ids of requests belong to.
    name: HeaderValue,
    outbox: Outbox,
    /// The session of the client, if it has opened one. Held while it is opened again.
    session: AsyncMutex<Option<Session>>,
    /// The requests under way.
    exchanges: Mutex<HashMap<Id, Arc<Exchange>>>,
    /// Cancelled when the client has left.
    end: CancellationToken,
}

/// The session of a client (2025-11-25).
#[derive(Clone)]
struct Session {
    /// The name of the session at the host, as the header has it.
    id: HeaderValue,
    /// The `initialize` that opened it, to open another one if the host knows it no more.
    opened_by: Bytes,
}

/// A request of the client.
struct Exchange {
    line: Bytes,
    /// Whether the request belongs to the session.
    is_of_session: bool,
    /// Whether it may be sent again to the next host: a tool's call has effects.
    is_repeatable: bool,
    /// Cancelled when its answer begins.
    begun: CancellationToken,
    /// Cancelled when its client wants no answer any more.
    gone: CancellationToken,
}

/// An answer of the host, which ends when this is dropped.
struct Answered {
    response: Response<HttpBody>,
    /// The host that gives it.
    process: Option<i32>,
    _connection: AbortOnDropHandle<hyper::Result<()>>,
}

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The background host cannot be reached; the request did nothing.
    #[error("The background host, where tools run, cannot be reached: {0}")]
    Unreachable(String),
    /// The connection ended while the request was under way.
    #[error("The background host stopped during this call, which may have had effects")]
    Lost,
}

impl Failure {
    fn error(&self) -> RpcError {
        RpcError::internal(self.to_string())
    }
}

impl Relay {
    async fn take(
        self: &Arc<Self>,
        message: Result<(Incoming, Bytes), DecodeError>,
        requests: &TaskTracker,
        standing: &mut JoinSet<()>,
    ) {
        let (incoming, line) = match message {
            Ok(both) => both,
            Err(fault) => return self.send(response::error(fault.id.as_ref(), &fault.error)).await,
        };
        if requests.len() >= self.max_requests
            && let Incoming::One(Message::Request { id, .. }) = &incoming
        {
            let fault = Inflight::full(self.max_requests, "on this pipe");
            return self.send(response::error(Some(id), &fault.rpc())).await;
        }
        match incoming {
            Incoming::One(Message::Request { id, method: Method::Initialize, .. }) => {
                self.initialize(&id, line).await;
            }
            Incoming::One(Message::Request { id, method, params }) => {
                let is_of_session = matches!(claim_of(&method, params.as_ref()).claim, VersionClaim::None);
                let is_repeatable = method != Method::ToolsCall;
                let exchange = Arc::new(Exchange {
                    line,
                    is_of_session,
                    is_repeatable,
                    begun: CancellationToken::new(),
                    gone: self.end.child_token(),
                });
                if self.exchanges.lock().contains_key(&id) {
                    let error = RpcError::invalid_request("a request with this id is under way");
                    return self.send(response::error(Some(&id), &error)).await;
                }
                self.exchanges.lock().insert(id.clone(), exchange.clone());
                let relay = self.clone();
                requests.spawn(async move {
                    let gone = exchange.gone.clone();
                    tokio::select! {
                        biased;
                        () = gone.cancelled() => {}
                        () = relay.exchange(&id, &exchange) => {}
                    }
                    relay.exchanges.lock().remove(&id);
                });
            }
            Incoming::One(Message::Notification { method: Method::Cancelled, params }) => {
                let cancelled = cancellation(params.as_ref());
                let exchange =
                    cancelled.and_then(|cancelled| self.exchanges.lock().get(&cancelled.request).cloned());
                let Some(exchange) = exchange else { return };
                drop(tokio::time::timeout(CANCEL_AFTER, exchange.begun.cancelled()).await);
                // The reason matters, so the end of its connection is not enough.
                self.tell(line, exchange.is_of_session).await;
                exchange.gone.cancel();
            }
            Incoming::One(Message::Notification { method, .. }) => {
                self.tell(line, true).await;
                // Beside the connection that stays there is one stream, however often a client says so.
                if method == Method::Initialized && standing.len() < 2 {
                    standing.spawn(self.clone().listen());
                }
            }
            Incoming::One(Message::Response { .. }) => self.tell(line, true).await,
            Incoming::Batch(_) => {
                let relay = self.clone();
                requests.spawn(async move {
                    let end = relay.end.clone();
                    let exchanged = async {
                        match relay.post(&line, true).await {
                            Ok(answered) => relay.forward_whole(answered, None).await,
                            Err(failure) => relay.send(response::error(None, &failure.error())).await,
                        }
                    };
                    end.run_until_cancelled(exchanged).await;
                });
            }
        }
    }

    async fn initialize(&self, id: &Id, line: Bytes) {
        let mut session = self.session.lock().await;
        if session.is_some() {
            let error = RpcError::invalid_request("this connection is initialized already");
            return self.send(response::error(Some(id), &error)).await;
        }
        match self.open(&line).await {
            Ok((opened, answer)) => {
                *session = opened;
                self.send(answer).await;
            }
            Err(failure) => self.send(response::error(Some(id), &failure.error())).await,
        }
    }

    /// Opens a session at the host; `None` if it refuses. With the answer of the host.
    async fn open(&self, line: &Bytes) -> Result<(Option<Session>, Bytes), Failure> {
        let mut left = MAX_ATTEMPTS;
        loop {
            let answered = async {
                let answered = self.request(HttpMethod::POST, line.clone(), []).await?;
                let id = answered.response.headers().get(SESSION_ID).cloned();
                let answer =
                    answered.response.into_body().collect().await.map_err(|_| Failure::Lost)?.to_bytes();
                Ok((id.map(|id| Session { id, opened_by: line.clone() }), answer))
            };
            match answered.await {
                Err(Failure::Lost) if left > 0 => left -= 1,
                answered => return answered,
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Sends a request, and its answer to the client.
    async fn exchange(&self, id: &Id, exchange: &Exchange) {
        let mut left = if exchange.is_repeatable { MAX_ATTEMPTS } else { 0 };
        loop {
            match self.answered(id, exchange).await {
                Ok(()) => return,
                Err(Failure::Lost) if left > 0 => left -= 1,
                Err(failure) => return self.send(response::error(Some(id), &failure.error())).await,
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn answered(&self, id: &Id, exchange: &Exchange) -> Result<(), Failure> {
        let mut answered = self.post(&exchange.line, exchange.is_of_session).await?;
        exchange.begun.cancel();
        let process = answered.process;
        if !is_events(&answered.response) {
            self.forward_whole(answered, Some(id)).await;
            return Ok(());
        }
        loop {
            match self.forward(answered, |message| is_answer_to(message, id)).await {
                Forwarded::Answer => return Ok(()),
                // The host has released the stream, or has ended.
                Forwarded::Ended(Some(last)) if exchange.is_of_session => {
                    answered = self.of_session(HttpMethod::GET, Bytes::new(), Some(&last)).await?;
                }
                Forwarded::Ended(_) => return Err(Failure::Lost),
            }
            if answered.process != process || !is_events(&answered.response) {
                return Err(Failure::Lost);
            }
        }
    }

    /// Sends a notification or a response, which have no answer.
    async fn tell(&self, line: Bytes, is_of_session: bool) {
        for _ in 0..MAX_ATTEMPTS {
            match self.post(&line, is_of_session).await {
                Err(Failure::Unreachable(why)) => return unreachable(&why),
                Ok(answered) if answered.response.status() != StatusCode::SERVICE_UNAVAILABLE => return,
                Ok(_) | Err(Failure::Lost) => tokio::time::sleep(AGAIN).await,
            }
        }
    }

    /// Posts a message.
    async fn post(&self, line: &Bytes, is_of_session: bool) -> Result<Answered, Failure> {
        if is_of_session {
            return self.of_session(HttpMethod::POST, line.clone(), None).await;
        }
        let version = HeaderValue::from_static(VERSION);
        self.request(HttpMethod::POST, line.clone(), [(PROTOCOL_VERSION.clone(), version)]).await
    }

    /// Makes a request of the session; continues the stream of this event, if one is named. A session that the
    /// host knows no more is opened again.
    async fn of_session(
        &self,
        method: HttpMethod,
        body: Bytes,
        last: Option<&HeaderValue>,
    ) -> Result<Answered, Failure> {
        let session = self.session.lock().await.clone();
        let headers = |id: HeaderValue| {
            let last = last.map(|last| (LAST_EVENT_ID, last.clone()));
            std::iter::once((SESSION_ID, id)).chain(last).collect::<Vec<_>>()
        };
        // Without a session, the host says that one is missing.
        let Some(session) = session else { return self.request(method, body, []).await };
        let answered = self.request(method.clone(), body.clone(), headers(session.id.clone())).await?;
        if answered.response.status() != StatusCode::NOT_FOUND {
            return Ok(answered);
        }
        let id = self.reopen(&session).await?;
        self.request(method, body, headers(id)).await
    }

    async fn reopen(&self, ended: &Session) -> Result<HeaderValue, Failure> {
        let mut session = self.session.lock().await;
        if let Some(other) = session.as_ref().filter(|other| other.id != ended.id) {
            return Ok(other.id.clone());
        }
        let (opened, _) = self.open(&ended.opened_by).await?;
        let opened = opened.ok_or(Failure::Lost)?;
        let initialized = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        self.request(HttpMethod::POST, initialized, [(SESSION_ID, opened.id.clone())]).await?;
        *session = Some(opened.clone());
        Ok(opened.id)
    }

    async fn close_session(&self) {
        if let Some(Session { id, .. }) = self.session.lock().await.take() {
            // Without an answer, the session expires.
            drop(self.request(HttpMethod::DELETE, Bytes::new(), [(SESSION_ID, id)]).await);
        }
    }

    /// Makes one HTTP request, on a connection of its own.
    async fn request(
        &self,
        method: HttpMethod,
        body: Bytes,
        headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
    ) -> Result<Answered, Failure> {
        let Connection { stream, process } = self.background.connect().await.map_err(Failure::Unreachable)?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|_| Failure::Lost)?;
        let connection = AbortOnDropHandle::new(tokio::spawn(connection));
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = Uri::from_static("/mcp");
        request.headers_mut().extend([
            (HOST, HeaderValue::from_static("localhost")),
            (ACCEPT, HeaderValue::from_static("application/json, text/event-stream")),
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (RELAY.clone(), self.name.clone()),
        ]);
        request.headers_mut().extend(headers);
        let response = sender.send_request(request).await.map_err(|_| Failure::Lost)?;
        Ok(Answered { response, process, _connection: connection })
    }

    /// Forwards the messages of a stream to the client, until one `is_last`.
    async fn forward(&self, mut answered: Answered, is_last: impl Fn(&Bytes) -> bool) -> Forwarded {
        let mut events = EventReader::default();
        let body = answered.response.body_mut();
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(bytes) = frame.into_data() else { continue };
            for message in events.read(&bytes) {
                let ends = is_last(&message);
                self.send(message).await;
                if ends {
                    return Forwarded::Answer;
                }
            }
        }
        Forwarded::Ended(events.last_id().and_then(|id| HeaderValue::from_str(&id).ok()))
    }

    /// Forwards an answer that is one object. A refusal that names no request is the answer to this one.
    async fn forward_whole(&self, answered: Answered, id: Option<&Id>) {
        let whole = answered.response.into_body().collect().await.map(|body| body.to_bytes());
        match (whole, id) {
            // Accepted without an answer.
            (Ok(whole), _) if whole.is_empty() => {}
            (Ok(whole), Some(id)) if !is_answer_to(&whole, id) => {
                self.send(response::error(Some(id), &error_in(&whole))).await;
            }
            (Ok(whole), _) => self.send(whole).await,
            (Err(_), id) => self.send(response::error(id, &Failure::Lost.error())).await,
        }
    }

    /// Forwards the messages that belong to no request.
    async fn listen(self: Arc<Self>) {
        let mut last: Option<HeaderValue> = None;
        loop {
            match self.of_session(HttpMethod::GET, Bytes::new(), last.as_ref()).await {
                Ok(answered) if is_events(&answered.response) => {
                    if let Forwarded::Ended(id) = self.forward(answered, |_| false).await {
                        last = id.or(last);
                    }
                }
                Ok(_) | Err(Failure::Lost) => {}
                Err(Failure::Unreachable(why)) => unreachable(&why),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Keeps a connection to the host, which ends when it has none and nothing to do. If the host ends all the
    /// same, the next one starts: a task may wait for it.
    async fn stay_connected(self: Arc<Self>) {
        let mut pause = AGAIN;
        loop {
            match self.background.connect().await {
                Ok(Connection { mut stream, .. }) => {
                    pause = AGAIN;
                    // The host sends nothing here.
                    drop(stream.read(&mut [0]).await);
                }
                Err(why) => {
                    unreachable(&why);
                    pause = (pause * 2).min(Duration::from_secs(60));
                }
            }
            tokio::time::sleep(pause).await;
        }
    }

    async fn send(&self, message: Bytes) {
        // The writer is gone, and the client with it; the input ends too.
        drop(self.outbox.send(Outgoing::line(message)).await);
    }
}

/// How the forwarding of a stream ended.
enum Forwarded {
    /// With the answer that it was for.
    Answer,
    /// The stream ended; with the id of its last event.
    Ended(Option<HeaderValue>),
}

fn is_events(response: &Response<HttpBody>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

fn is_answer_to(message: &Bytes, request: &Id) -> bool {
    matches!(decode(message), Ok(Incoming::One(Message::Response { id, .. })) if id == *request)
}

/// The error in a refusal.
fn error_in(refusal: &[u8]) -> RpcError {
    #[derive(Deserialize)]
    struct Refusal {
        error: RpcError,
    }
    serde_json::from_slice::<Refusal>(refusal).map_or_else(
        |_| RpcError::internal("The background host gave an answer that is none"),
        |refusal| refusal.error,
    )
}

fn unreachable(reason: &str) {
    tracing::warn!(event = "background.unreachable", reason, "cannot reach the background host");
}
