//! Clients whose requests are over.

use crate::client::Clients;
use crate::client::client_channel::{ClientChannel, ClientRoute, NoClientChannel, Notice, RouteScope};
use std::sync::Arc;
use std::time::Duration;
use toolyard_task::{SessionDigest, SessionId, TaskId};

/// The way to clients whose requests are over: those of tasks that do not run on the host that took
/// their calls.
pub trait ClientLookup: Send + Sync + 'static {
    /// Where notices go for the client of a task, and where it is asked.
    fn channel(&self, session: Option<&SessionId>) -> Arc<dyn ClientChannel>;

    /// The operator has ended this session: its streams end, and its calls stop.
    fn end(&self, session: &SessionId) {
        let _ = session;
    }

    /// The session of this digest, if its client has a stream open here that may carry what
    /// belongs to the task.
    fn listening(&self, session: &SessionDigest, task: Option<TaskId>) -> Option<SessionId> {
        let _ = (session, task);
        None
    }
}

/// The client of a task that was taken over, wherever it is by then.
pub(crate) struct RecoveredClient {
    pub clients: Arc<Clients>,
    pub session: Option<SessionId>,
}

impl RecoveredClient {
    fn channel(&self) -> Arc<dyn ClientChannel> {
        self.clients.lookup().map_or_else(
            || Arc::new(NoClientChannel) as Arc<dyn ClientChannel>,
            |lookup| lookup.channel(self.session.as_ref()),
        )
    }
}

impl ClientChannel for RecoveredClient {
    fn notify(&self, task: Option<TaskId>, notice: Notice) {
        self.channel().notify(task, notice);
    }

    fn route(&self, task: Option<TaskId>, scope: RouteScope) -> Option<Arc<dyn ClientRoute>> {
        self.channel().route(task, scope)
    }

    fn release(&self, retry: Duration) {
        self.channel().release(retry);
    }
}
