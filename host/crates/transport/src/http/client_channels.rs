//! The channels from the dispatcher to a client over HTTP: the stream of a request, or the
//! streams of a session (H-20, IR-3, IR-4).

use super::session_registry::{LiveSession, Registry};
use crate::session::ClientSession;
use crate::stream::Stream;
use std::sync::{Arc, Weak};
use std::time::Duration;
use toolyard_dispatch::{
    ClientChannel, ClientLookup, ClientPresence, ClientRoute, NoClientChannel, Notice, RouteScope,
    SessionDigest, SessionId, TaskId,
};
use toolyard_protocol::{RawJson, notification, response};

/// The channel for notices about the tasks of a session. It looks up the session for each notice, because a
/// task outlives the session's state in memory.
pub(super) struct SessionChannel {
    registry: Weak<Registry>,
    id: SessionId,
}

impl SessionChannel {
    pub fn new(registry: Weak<Registry>, id: SessionId) -> Arc<Self> {
        Arc::new(Self { registry, id })
    }

    fn session(&self) -> Option<Arc<LiveSession>> {
        self.registry.upgrade()?.in_memory(&self.id)
    }
}

/// Reaches clients by their sessions, for tasks taken over from a dead host.
pub(super) struct SessionLookup(pub Weak<Registry>);

impl ClientLookup for SessionLookup {
    fn channel(&self, session: Option<&SessionId>) -> Arc<dyn ClientChannel> {
        match session {
            Some(id) => SessionChannel::new(self.0.clone(), id.clone()),
            // Clients without a session poll or listen.
            None => Arc::new(NoClientChannel),
        }
    }

    fn end(&self, session: &SessionId) {
        if let Some(registry) = self.0.upgrade() {
            registry.close(session);
        }
    }

    fn listening(&self, session: &SessionDigest, task: Option<TaskId>) -> Option<SessionId> {
        let live = self.0.upgrade()?.in_memory_by_digest(session)?;
        live.has_stream(task).then(|| live.session.id.clone())
    }
}

impl ClientChannel for SessionChannel {
    fn notify(&self, task: Option<TaskId>, notice: Notice) {
        let Some(registry) = self.registry.upgrade() else { return };
        let Some(session) = registry.in_memory(&self.id).filter(|session| session.has_stream(task)) else {
            return registry.pass_on(&self.id, task, &notice);
        };
        if let Some(message) = session.client.audience.message(task, &notice) {
            session.tell_of(task, message);
        }
    }

    fn route(&self, task: Option<TaskId>, scope: RouteScope) -> Option<Arc<dyn ClientRoute>> {
        // A client that waits for the result has a stream for it (IR-3).
        if scope == RouteScope::Expected {
            return None;
        }
        let session = self.session()?;
        let stream = session.stream_read(task)?;
        session
            .client
            .audience
            .is_initialized()
            .then(|| Arc::new(StreamRoute(stream)) as Arc<dyn ClientRoute>)
    }

    fn release(&self, _retry: Duration) {}
}

/// The channel of a request: the request's own stream, for notices and questions (P-2, IR-3).
pub(crate) struct StreamChannel {
    stream: Arc<Stream>,
    client: Arc<ClientSession>,
}

impl StreamChannel {
    pub fn new(stream: &Arc<Stream>, client: &Arc<ClientSession>) -> Arc<Self> {
        Arc::new(Self { stream: stream.clone(), client: client.clone() })
    }
}

impl ClientChannel for StreamChannel {
    fn notify(&self, task: Option<TaskId>, notice: Notice) {
        if let Some(message) = self.client.audience.message(task, &notice) {
            self.stream.push(message);
        }
    }

    fn route(&self, _task: Option<TaskId>, _scope: RouteScope) -> Option<Arc<dyn ClientRoute>> {
        let can_be_asked = self.client.audience.is_initialized() && self.stream.ended().is_none();
        can_be_asked.then(|| Arc::new(StreamRoute(self.stream.clone())) as Arc<dyn ClientRoute>)
    }

    fn release(&self, retry: Duration) {
        // H-14: only a client that received an event id can come back.
        if self.client.revision.has_priming_event() {
            self.stream.release(retry);
        }
    }
}

/// A stream as a channel for questions to the client.
struct StreamRoute(Arc<Stream>);

impl ClientRoute for StreamRoute {
    fn request(&self, id: &str, method: &str, params: &RawJson) -> bool {
        if self.0.ended().is_some() {
            return false;
        }
        self.0.push(response::request(id, method, params));
        true
    }

    fn withdraw(&self, id: &str, reason: &str, task: Option<TaskId>) {
        let task = task.map(|task| task.to_string());
        self.0.push(notification::cancelled(id, reason, task.as_deref()));
    }

    fn presence(&self) -> ClientPresence {
        match (self.0.ended(), self.0.unread_for()) {
            (Some(_), _) => ClientPresence::Gone,
            (None, None) => ClientPresence::There,
            (None, Some(time)) => ClientPresence::AwayFor(time),
        }
    }
}
