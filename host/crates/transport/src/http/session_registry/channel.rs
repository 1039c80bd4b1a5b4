//! The channel from the dispatcher to the client of a session, over the streams of the session (H-20).

use super::Registry;
use crate::http::client_channels::StreamRoute;
use std::sync::{Arc, Weak};
use toolyard_dispatch::{
    ClientChannel, ClientLookup, ClientRoute, NoClientChannel, Notice, RouteScope, SessionDigest, SessionId,
    TaskId,
};

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
            return registry.server.dispatch.node().pass_on(&self.id, task, &notice);
        };
        if let Some(message) = session.client.notification_filter.message(task, &notice) {
            session.tell_of(task, message);
        }
    }

    fn route(&self, task: Option<TaskId>, scope: RouteScope) -> Option<Arc<dyn ClientRoute>> {
        // A client that waits for the result has a stream for it (IR-3).
        if scope == RouteScope::Expected {
            return None;
        }
        let session = self.registry.upgrade()?.in_memory(&self.id)?;
        let stream = session.stream_read(task)?;
        session
            .client
            .notification_filter
            .is_initialized()
            .then(|| Arc::new(StreamRoute(stream)) as Arc<dyn ClientRoute>)
    }
}
