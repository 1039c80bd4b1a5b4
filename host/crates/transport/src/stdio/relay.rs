//! The relay at the client's pipe (`toolyard stdio --detach`): a background host, which outlives the pipe,
//! makes the calls that may begin a task. This process answers everything else, including requests about
//! tasks, because both use the same store.
//!
//! The port [`Background`] finds and starts the background host.

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

/// The most messages for the background host that wait to be written.
const POSTS: usize = 256;

/// Connects to the background host.
pub trait Background: Send + Sync + 'static {
    /// A connection to the background host. Starts the host if it is not running.
    ///
    /// # Errors
    /// The reason why there is none, for the client.
    fn connect(&self) -> BoxFuture<'_, Result<Connection, String>>;
}

/// Both directions of a connection. It ends for the other side when `output` is dropped.
pub struct Connection {
    /// Reads the bytes that the other side writes.
    pub input: Box<dyn BufRead + Send>,
    /// Writes the bytes that the other side reads.
    pub output: Box<dyn Write + Send>,
}

/// The relay of one client.
#[derive(Clone)]
pub(super) struct Relay {
    posts: mpsc::Sender<RelayMessage>,
    shared: Arc<Shared>,
    handshake: Arc<watch::Sender<Handshake>>,
}

/// The outcome of a relayed request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RelayOutcome {
    /// Its answer is on its way to the client, or the client no longer wants one.
    Done,
    /// The background host cannot be reached; the request did nothing.
    Unreachable(String),
    /// The connection ended while the request was running.
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

/// A request to forward.
pub(super) struct RelayedRequest {
    pub id: Id,
    /// The line that it came in.
    pub line: Bytes,
    /// Dropped just before its answer is written. Its stop is set when its client no longer accepts an
    /// answer.
    pub kept: InflightRequest,
    /// Whether to start a background host for it.
    pub starts: bool,
}

impl Relay {
    /// A relay for the client behind `outbox`. It connects and starts nothing before the first request that
    /// needs it. It ends when the handle is dropped.
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

    /// Forwards a request and waits until its answer has been sent to the client.
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
                // After the request itself, which may still be in the same queue.
                drop(self.posts.send(RelayMessage::Cancel { id }).await);
                RelayOutcome::Done
            }
        }
    }

    /// Forwards a response of the client if the background host asked for it. Otherwise returns it.
    pub async fn respond(&self, response: ClientResponse) -> Option<ClientResponse> {
        if !self.shared.was_asked(&response.id) {
            return Some(response);
        }
        // The receiver lives as long as the client is served.
        drop(self.posts.send(RelayMessage::Response(response)).await);
        None
    }

    /// The client has opened a session with these params.
    pub fn initialize(&self, params: Option<&RawJson>) {
        self.handshake.send_modify(|handshake| handshake.initialize = params.cloned());
    }

    /// The client is ready for questions.
    pub fn initialized(&self) {
        self.handshake.send_modify(|handshake| handshake.initialized = true);
    }

    /// The client has set the level of its log messages.
    pub fn set_level(&self, params: Option<&RawJson>) {
        self.handshake.send_modify(|handshake| handshake.level = params.cloned());
    }
}

/// Whether a background host makes this call: one that asks for a task or may become one. A run cannot move
/// between processes, so a call that may be handed off begins in the background host.
pub(super) fn goes_to_the_background(request: &Request) -> bool {
    let Some(Ok((call, _))) = &request.call else { return false };
    let has_task = match request.origin {
        Origin::Session(_) => request.has_tasks() && matches!(call.task, Some(Ok(_))),
        Origin::Envelope(_) => request.has_tasks(),
    };
    let dispatch = &request.server.dispatch;
    (has_task || request.bridge().is_some())
        && dispatch.settings().tasks
        && dispatch
            .catalog()
            .get(&call.name)
            .is_some_and(|tool| tool.spec().task_support != TaskSupport::Forbidden)
}
