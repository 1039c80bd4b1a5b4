//! The channel from the dispatcher to a client over the stream of a request, and questions over any stream (IR-3,
//! IR-4).

use crate::session::ClientSession;
use crate::stream::Stream;
use std::sync::Arc;
use std::time::Duration;
use toolyard_dispatch::{ClientChannel, ClientPresence, ClientRoute, Notice, RouteScope, TaskId};
use toolyard_protocol::{RawJson, notification, response};

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
        if let Some(message) = self.client.notification_filter.message(task, &notice) {
            self.stream.push(message);
        }
    }

    fn route(&self, _task: Option<TaskId>, _scope: RouteScope) -> Option<Arc<dyn ClientRoute>> {
        let can_be_asked = self.client.notification_filter.is_initialized() && self.stream.ended().is_none();
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
pub(super) struct StreamRoute(pub Arc<Stream>);

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
