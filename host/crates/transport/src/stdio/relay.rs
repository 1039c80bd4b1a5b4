//! A process at the client's pipe that is a relay (`toolyard stdio --detach`): a background host,
//! which outlives the pipe, makes the calls that may begin a task. This process answers everything
//! else, also about tasks, since both use one store.
//!
//! Not here: how the background host is found and started; that is behind the port [`Background`].

mod change_notifications;
mod link;

use super::line_framing::Outbox;
use crate::inflight::InflightRequest;
use crate::request::{Origin, Request};
use bytes::Bytes;
pub(super) use change_notifications::AnnouncementReceiver;
use futures_util::future::BoxFuture;
pub(super) use link::ClientResponse;
use link::{Handshake, Links, RelayMessage, Shared};
use std::io::{BufRead, Write};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::AbortOnDropHandle;
use toolyard_dispatch::{Dispatch, TaskSupport};
use toolyard_protocol::{Id, RawJson, RpcError};

/// Messages for the background host that wait to be written.
const POSTS: usize = 256;

/// The way to the background host.
pub trait Background: Send + Sync + 'static {
    /// A connection to it. If it does not run, it is started.
    ///
    /// # Errors
    /// Why there is none, for the client to read.
    fn connect(&self) -> BoxFuture<'_, Result<Connection, String>>;
}

/// Both directions of a connection. It ends for the other side when `output` is dropped.
pub struct Connection {
    /// The bytes that the other side writes.
    pub input: Box<dyn BufRead + Send>,
    /// The bytes that it reads.
    pub output: Box<dyn Write + Send>,
}

/// The relay, for one client.
#[derive(Clone)]
pub(super) struct Relay {
    posts: mpsc::Sender<RelayMessage>,
    shared: Arc<Shared>,
    handshake: Arc<watch::Sender<Handshake>>,
}

/// The outcome of a relayed request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RelayOutcome {
    /// Its answer is on its way to the client, or none is wanted any more.
    Done,
    /// The background host cannot be reached; nothing was done.
    Unreachable(String),
    /// The connection ended while the request was under way.
    Lost,
}

impl RelayOutcome {
    /// The error for a call that has no answer.
    pub fn error(&self) -> Option<RpcError> {
        Some(RpcError::internal(match self {
            Self::Done => return None,
            Self::Unreachable(why) => {
                format!("The background host, where tasks run, cannot be reached: {why}")
            }
            Self::Lost => {
                "The background host stopped during this call, which may have had effects".to_owned()
            }
        }))
    }
}

/// A request that is sent on.
pub(super) struct RelayedRequest {
    pub id: Id,
    /// The line that it came in.
    pub line: Bytes,
    /// Let go of just before its answer is written. Its stop is set when its client
    /// takes no answer any more.
    pub kept: InflightRequest,
    /// Whether a background host is started for it.
    pub starts: bool,
}

impl Relay {
    /// A relay for the client that `outbox` leads to. Nothing is connected, and nothing
    /// started, before the first request that needs it. It ends when the handle is
    /// dropped.
    pub fn start(
        background: Arc<dyn Background>,
        dispatch: Arc<Dispatch>,
        outbox: Outbox,
    ) -> (Self, AbortOnDropHandle<()>) {
        let (posts, posted) = mpsc::channel(POSTS);
        let (handshake, shaken) = watch::channel(Handshake::default());
        let shared = Arc::new(Shared::default());
        let links = Links { background, dispatch, outbox, shared: shared.clone(), handshake: shaken };
        let running = AbortOnDropHandle::new(tokio::spawn(links.run(posted)));
        (Self { posts, shared, handshake: Arc::new(handshake) }, running)
    }

    /// Whether there is a connection now.
    pub fn is_up(&self) -> bool {
        self.shared.is_up()
    }

    /// Sends a request on and waits until its answer has gone to the client.
    pub async fn pass(&self, passage: RelayedRequest) -> RelayOutcome {
        let RelayedRequest { id, line, kept, starts } = passage;
        let (done, told) = oneshot::channel();
        let stop = kept.stop.clone();
        let post = RelayMessage::Request { id: id.clone(), line, kept, starts, done };
        let passing = async {
            if self.posts.send(post).await.is_err() {
                return RelayOutcome::Lost;
            }
            told.await.unwrap_or(RelayOutcome::Lost)
        };
        tokio::select! {
            biased;
            relayed = passing => relayed,
            () = stop.wait() => {
                // After the request itself, which may still wait in the same line.
                drop(self.posts.send(RelayMessage::Cancel { id }).await);
                RelayOutcome::Done
            }
        }
    }

    /// Sends a response of the client on, if it was the background host that asked. Else
    /// it is given back.
    pub async fn respond(&self, response: ClientResponse) -> Option<ClientResponse> {
        if !self.shared.was_asked(&response.id) {
            return Some(response);
        }
        // The other end of this lives as long as the client is served.
        drop(self.posts.send(RelayMessage::Response(response)).await);
        None
    }

    /// The client has opened a session with these params.
    pub fn initialize(&self, params: Option<&RawJson>) {
        self.handshake.send_modify(|handshake| handshake.initialize = params.cloned());
    }

    /// It is ready to be asked.
    pub fn initialized(&self) {
        self.handshake.send_modify(|handshake| handshake.initialized = true);
    }

    /// It has set the level of its log messages.
    pub fn set_level(&self, params: Option<&RawJson>) {
        self.handshake.send_modify(|handshake| handshake.level = params.cloned());
    }
}

/// Whether this is a call that may become a task: of a session, if it asks for one.
pub(super) fn may_become_task(request: &Request) -> bool {
    let Some(Ok((call, _))) = &request.call else { return false };
    let is_wanted = match request.origin {
        Origin::Session(_) => matches!(call.task, Some(Ok(_))),
        Origin::Envelope(_) => true,
    };
    let dispatch = &request.server.dispatch;
    is_wanted
        && request.has_tasks()
        && dispatch.settings().tasks
        && dispatch
            .catalog()
            .get(&call.name)
            .is_some_and(|tool| tool.spec().task_support != TaskSupport::Forbidden)
}
