//! The channels from the dispatcher to a client over HTTP: the stream of a request, or the
//! streams of a session (H-20, IR-3, IR-4).

use super::session_registry::{LiveSession, Registry};
use crate::session::ClientSession;
use crate::stream::Stream;
use std::sync::{Arc, Weak};
use std::time::Duration;
use toolyard_dispatch::{
    Line, NoOutlet, Notice, Outlet, Place, Presence, Reach, SessionDigest, SessionId, TaskId,
};
use toolyard_protocol::{RawJson, notification, response};

/// Where notices about the tasks of a session go, looked up when there is one: a
/// task outlives what is held in memory of its session.
pub(super) struct SessionOutlet {
    registry: Weak<Registry>,
    id: SessionId,
}

impl SessionOutlet {
    pub fn new(registry: Weak<Registry>, id: SessionId) -> Arc<Self> {
        Arc::new(Self { registry, id })
    }

    fn session(&self) -> Option<Arc<LiveSession>> {
        self.registry.upgrade()?.in_memory(&self.id)
    }
}

/// Reaches clients by their sessions, for tasks that were taken over from a host that
/// is gone.
pub(super) struct BySession(pub Weak<Registry>);

impl Reach for BySession {
    fn outlet(&self, session: Option<&SessionId>) -> Arc<dyn Outlet> {
        match session {
            Some(id) => SessionOutlet::new(self.0.clone(), id.clone()),
            // Without a session a client asks, or listens.
            None => Arc::new(NoOutlet),
        }
    }

    fn listening(&self, session: &SessionDigest, task: Option<TaskId>) -> Option<SessionId> {
        let live = self.0.upgrade()?.in_memory_by_digest(session)?;
        live.has_stream(task).then(|| live.session.id.clone())
    }
}

impl Outlet for SessionOutlet {
    fn notify(&self, task: Option<TaskId>, notice: Notice) {
        let Some(registry) = self.registry.upgrade() else { return };
        let Some(session) = registry.in_memory(&self.id).filter(|session| session.has_stream(task)) else {
            return registry.pass_on(&self.id, task, &notice);
        };
        if let Some(message) = session.client.audience.message(task, &notice) {
            session.tell_of(task, message);
        }
    }

    fn line(&self, task: Option<TaskId>, place: Place) -> Option<Arc<dyn Line>> {
        // Where it is expected, whoever waits for the result has a line (IR-3).
        if place == Place::Expected {
            return None;
        }
        let session = self.session()?;
        let stream = session.stream_read(task)?;
        session.client.audience.is_initialized().then(|| Arc::new(StreamLine(stream)) as Arc<dyn Line>)
    }

    fn release(&self, _retry: Duration) {}
}

/// Where notices and questions of a request go: its own stream (P-2, IR-3).
pub(crate) struct CallOutlet {
    stream: Arc<Stream>,
    client: Arc<ClientSession>,
}

impl CallOutlet {
    pub fn new(stream: &Arc<Stream>, client: &Arc<ClientSession>) -> Arc<Self> {
        Arc::new(Self { stream: stream.clone(), client: client.clone() })
    }
}

impl Outlet for CallOutlet {
    fn notify(&self, task: Option<TaskId>, notice: Notice) {
        if let Some(message) = self.client.audience.message(task, &notice) {
            self.stream.push(message);
        }
    }

    fn line(&self, _task: Option<TaskId>, _place: Place) -> Option<Arc<dyn Line>> {
        let can_be_asked = self.client.audience.is_initialized() && self.stream.ended().is_none();
        can_be_asked.then(|| Arc::new(StreamLine(self.stream.clone())) as Arc<dyn Line>)
    }

    fn release(&self, retry: Duration) {
        // H-14: only a client that was given an event id can come back.
        if self.client.revision.has_priming_event() {
            self.stream.release(retry);
        }
    }
}

/// A stream as a way to ask the client.
struct StreamLine(Arc<Stream>);

impl Line for StreamLine {
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

    fn presence(&self) -> Presence {
        match (self.0.ended(), self.0.unread_for()) {
            (Some(_), _) => Presence::Gone,
            (None, None) => Presence::There,
            (None, Some(time)) => Presence::AwayFor(time),
        }
    }
}
