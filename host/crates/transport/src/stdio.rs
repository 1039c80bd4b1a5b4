//! stdio: one message a line (S-1 to S-5). Standard output belongs to the
//! protocol; logs go elsewhere.

mod lines;
mod outstanding;
mod stateless;

use crate::Server;
use crate::conversation::{Agreed, Conversation, Memory};
use crate::methods::{self, Answer, Request};
use crate::notices::Audience;
use crate::stateless::{Received, claim_of, is_among};
use crate::tidings::Tidings;
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
pub use lines::{Line, LineReader};
use lines::{Outbox, Outgoing};
use stateless::Stateless;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;
use toolyard_dispatch::{Caller, Line as ClientLine, Notice, Outlet, Place, Presence, RateKey, TaskId};
use toolyard_protocol::initialize::InitializeParams;
use toolyard_protocol::message::decode;
use toolyard_protocol::notification::cancelled_request;
use toolyard_protocol::revision::Transport;
use toolyard_protocol::stateless::envelope::Claim;
use toolyard_protocol::{
    DecodeError, Id, Incoming, LogLevel, Message, RawJson, Revision, RpcError, notification, response,
};

/// Messages that wait to be written. A client that does not read slows its own
/// requests down; notices to it are dropped.
const OUTBOX: usize = 256;
/// Lines that wait to be looked at.
const INBOX: usize = 64;

/// Serves one client until its input ends or `stop` turns true. Requests under
/// way then get `Settings::eof_grace` to end, and their answers are written.
pub async fn serve<R, W>(server: Arc<Server>, input: R, output: W, mut stop: watch::Receiver<bool>)
where
    R: BufRead + Send + 'static,
    W: Write + Send + 'static,
{
    let mut lines = lines::spawn_reader(input, server.settings.message_bytes, INBOX);
    let (outbox, written) = lines::spawn_writer(output, OUTBOX);
    let mut client = Client {
        server: server.clone(),
        stateless: Stateless::new(&server, outbox.clone()),
        outbox,
        conversation: None,
        requests: TaskTracker::new(),
    };
    let mut tidings = Tidings::of(&server.dispatch);
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            line = lines.recv() => match line {
                Some(line) => client.take(line).await,
                None => break,
            },
            news = tidings.next() => {
                if let Some(conversation) = &client.conversation {
                    for message in news.messages(&server.dispatch, conversation).await {
                        client.send(message).await;
                    }
                }
            }
        }
    }
    // A shell that pipes its requests in has closed our input by now and still
    // wants the answers.
    tokio::join!(client.finish(), client.stateless.finish(server.settings.eof_grace));
    drop(client);
    // The writer ends when the last sender is gone.
    drop(tokio::time::timeout(server.settings.eof_grace, written).await);
}

struct Client {
    server: Arc<Server>,
    outbox: Outbox,
    conversation: Option<Arc<Conversation>>,
    requests: TaskTracker,
    /// What needs no session.
    stateless: Stateless,
}

impl Client {
    async fn take(&mut self, line: Line) {
        let decoded = match line {
            Line::Text(text) if text.iter().all(u8::is_ascii_whitespace) => return,
            Line::Text(text) => decode(&text),
            Line::TooLong => {
                let most = self.server.settings.message_bytes;
                let error =
                    RpcError::invalid_request(format!("a line is longer than {most} bytes (wire.message)"));
                Err(DecodeError { id: None, error })
            }
        };
        match decoded {
            Ok(Incoming::One(message)) => {
                if let Some(answer) = self.message(message).await {
                    self.send(answer).await;
                }
            }
            Ok(Incoming::Batch(members)) if is_among(&members) => self.send(stateless::batch()).await,
            Ok(Incoming::Batch(members)) => self.batch(members).await,
            Err(fault) => self.send(response::error(fault.id.as_ref(), &fault.error)).await,
        }
    }

    /// Takes a message in. What can be answered at once is given back; what
    /// cannot is answered when it is done.
    async fn message(&mut self, message: Message) -> Option<Bytes> {
        match message {
            Message::Request { id, method, params } => {
                // Which generation a line is of, it says itself (26B-5).
                match claim_of(&method, params.as_ref()) {
                    Claim::None => {}
                    claim => {
                        return self.stateless.take(Received { id, method, params, trace: None }, &claim);
                    }
                }
                if method == "initialize" {
                    return Some(self.initialize(&id, params.as_ref()));
                }
                let answering = match self.answering(id, method, params) {
                    Ok(answering) => answering,
                    Err(refusal) => return Some(refusal),
                };
                let mut answering = Box::pin(answering);
                if let Some(answer) = (&mut answering).now_or_never() {
                    return answer;
                }
                let outbox = self.outbox.clone();
                self.requests.spawn(async move {
                    if let Some(answer) = answering.await {
                        // Nobody reads any more once the writer is gone.
                        drop(outbox.send(Outgoing::line(answer)).await);
                    }
                });
                None
            }
            Message::Notification { method, params } => {
                if method == "notifications/cancelled"
                    && cancelled_request(params.as_ref()).is_some_and(|id| self.stateless.cancel(&id))
                {
                    return None;
                }
                if let Some(conversation) = &self.conversation {
                    methods::notified(conversation, &method, params.as_ref());
                }
                None
            }
            Message::Response { id, outcome } => {
                // Before the next line is read, so that answers cannot pile up.
                if let Some(conversation) = &self.conversation
                    && let Err(fault) =
                        methods::responded(&self.server, &conversation.caller(), id, outcome).await
                {
                    tracing::error!(error = &fault as &dyn std::error::Error, "an answer was not kept");
                }
                None
            }
        }
    }

    /// The answer to come, or why there is none. Before `initialize` only `ping`
    /// is answered (L-5, L-7).
    fn answering(
        &self,
        id: Id,
        method: String,
        params: Option<RawJson>,
    ) -> Result<impl Future<Output = Option<Bytes>> + Send + use<>, Bytes> {
        let Some(conversation) = &self.conversation else {
            return Err(if method == "ping" {
                response::result(&id, &RawJson::empty_object())
            } else {
                let error = RpcError::invalid_request("the first request must be initialize");
                response::error(Some(&id), &error)
            });
        };
        let outlet = self.outlet(conversation);
        let caller = conversation.caller();
        let request = Request { caller, key: RateKey::Local, id, method, params, trace: None };
        match methods::answer(self.server.clone(), conversation.clone(), request, outlet) {
            Ok(answering) => Ok(answering.map(Answer::message)),
            Err(refusal) => Err(refusal.message),
        }
    }

    fn initialize(&mut self, id: &Id, params: Option<&RawJson>) -> Bytes {
        self.server.metrics.asked("initialize");
        let params = match InitializeParams::decode(params) {
            Ok(params) => params,
            Err(error) => return response::error(Some(id), &error),
        };
        if self.conversation.is_some() {
            let error = RpcError::invalid_request("this connection is initialized already");
            return response::error(Some(id), &error);
        }
        let revision = Revision::negotiate(&params.protocol_version, Transport::Stdio);
        let declared = self.server.dispatch.offers();
        let audience = Arc::new(Audience::new(LogLevel::DEFAULT, false));
        let task_outlet = Arc::new(PipeOutlet { outbox: self.outbox.clone(), audience: audience.clone() });
        let agreed = Agreed { revision, declared, audience, memory: Memory::default() };
        let caller = Caller::local(params.capabilities);
        let requests = self.server.settings.requests_per_session;
        self.conversation = Some(Arc::new(Conversation::new(caller, agreed, task_outlet, requests)));
        response::result(id, &self.server.identity.initialize_result(revision, declared))
    }

    /// The answers to a batch leave together (J-6).
    async fn batch(&mut self, members: Vec<Result<Message, DecodeError>>) {
        let answering = match &self.conversation {
            Some(conversation) => {
                let outlet = self.outlet(conversation);
                let caller = conversation.caller();
                methods::batch(&self.server, conversation, &caller, &RateKey::Local, members, &outlet)
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

    /// Gives the requests under way some time, then cancels them.
    async fn finish(&self) {
        self.requests.close();
        if tokio::time::timeout(self.server.settings.eof_grace, self.requests.wait()).await.is_err() {
            if let Some(conversation) = &self.conversation {
                conversation.cancel_all();
            }
            tracing::debug!("requests under way were ended with the input");
        }
    }

    fn outlet(&self, conversation: &Conversation) -> Arc<dyn Outlet> {
        Arc::new(PipeOutlet { outbox: self.outbox.clone(), audience: conversation.audience.clone() })
    }

    async fn send(&self, message: Bytes) {
        // Nobody reads any more once the writer is gone; the input ends then too.
        drop(self.outbox.send(Outgoing::line(message)).await);
    }
}

/// Notices and questions go straight to the one channel there is (IR-5).
#[derive(Clone)]
struct PipeOutlet {
    outbox: Outbox,
    audience: Arc<Audience>,
}

impl PipeOutlet {
    /// False if the client does not read: it loses notices, and is asked later, but
    /// gets every answer.
    fn send(&self, message: Bytes) -> bool {
        self.outbox.try_send(Outgoing::line(message)).is_ok()
    }
}

impl Outlet for PipeOutlet {
    fn notify(&self, task: Option<TaskId>, notice: Notice) {
        if let Some(message) = self.audience.message(task, &notice) {
            self.send(message);
        }
    }

    fn line(&self, _task: Option<TaskId>, _place: Place) -> Option<Arc<dyn ClientLine>> {
        let can_be_asked = self.audience.is_initialized() && !self.outbox.is_closed();
        can_be_asked.then(|| Arc::new(self.clone()) as Arc<dyn ClientLine>)
    }

    fn release(&self, _retry: Duration) {}
}

impl ClientLine for PipeOutlet {
    fn request(&self, id: &str, method: &str, params: &RawJson) -> bool {
        self.send(response::request(id, method, params))
    }

    fn withdraw(&self, id: &str, reason: &str, task: Option<TaskId>) {
        let task = task.map(|task| task.to_string());
        self.send(notification::cancelled(id, reason, task.as_deref()));
    }

    fn presence(&self) -> Presence {
        if self.outbox.is_closed() { Presence::Gone } else { Presence::There }
    }
}
