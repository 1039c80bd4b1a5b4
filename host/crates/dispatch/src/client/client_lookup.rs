//! Clients whose requests are over.

use crate::client::Clients;
use crate::client::client_channel::{Line, NoOutlet, Notice, Outlet, Place};
use std::sync::Arc;
use std::time::Duration;
use toolyard_task::{SessionDigest, SessionId, TaskId};

/// The way to clients whose requests are over: those of tasks that are run by another
/// host than the one which took their calls.
pub trait Reach: Send + Sync + 'static {
    /// Where notices go for the client of a task, and where it is asked.
    fn outlet(&self, session: Option<&SessionId>) -> Arc<dyn Outlet>;

    /// The session of this digest, if its client has a stream open here that may carry what
    /// belongs to the task.
    fn listening(&self, session: &SessionDigest, task: Option<TaskId>) -> Option<SessionId> {
        let _ = (session, task);
        None
    }
}

/// The client of a task that was taken over, wherever it is by then.
pub(crate) struct Reached {
    pub clients: Arc<Clients>,
    pub session: Option<SessionId>,
}

impl Reached {
    fn outlet(&self) -> Arc<dyn Outlet> {
        self.clients.lookup().map_or_else(
            || Arc::new(NoOutlet) as Arc<dyn Outlet>,
            |reach| reach.outlet(self.session.as_ref()),
        )
    }
}

impl Outlet for Reached {
    fn notify(&self, task: Option<TaskId>, notice: Notice) {
        self.outlet().notify(task, notice);
    }

    fn line(&self, task: Option<TaskId>, place: Place) -> Option<Arc<dyn Line>> {
        self.outlet().line(task, place)
    }

    fn release(&self, retry: Duration) {
        self.outlet().release(retry);
    }
}
