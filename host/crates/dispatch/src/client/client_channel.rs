//! The port to the client of a call, for everything but the answer: notices, which have no
//! response, and requests of this host.

use std::sync::Arc;
use std::time::Duration;
use toolyard_task::tool::Report;
use toolyard_task::wire::{LogLevel, Progress, RawJson, TaskView};
use toolyard_task::{HttpTape, TaskId};

/// A notice to the client.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// How far the call is (P-1).
    Progress {
        /// The token of the call.
        token: RawJson,
        /// The progress to report.
        progress: Progress,
    },
    /// A log message of the guest (G-1). The receiver of notices knows whether the client wants
    /// this level.
    Log {
        /// How serious it is.
        level: LogLevel,
        /// The name of the logger.
        logger: Option<String>,
        /// Any JSON value.
        data: RawJson,
    },
    /// How a task stands now (T-37).
    Status(TaskView),
    /// The tools that the client is offered have changed, because of the client itself.
    ToolsChanged,
    /// The user has finished a task in the browser (E-6).
    ElicitationComplete {
        /// The id that the question had.
        elicitation_id: String,
    },
}

/// The streams of the client that a request may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteScope {
    /// Only where it is expected: on the stream that waits for the call or the task, or on the only
    /// channel (IR-4, IR-5).
    Expected,
    /// On any stream of the client.
    Anywhere,
}

/// The way to the client of a call, for notices and questions. Nothing here blocks; messages that a
/// slow client cannot take are dropped.
pub trait ClientChannel: Send + Sync + 'static {
    /// Tells the client something, about a task if it belongs to one (T-38).
    fn notify(&self, task: Option<TaskId>, notice: Notice);

    /// A route by which the client can be asked now, if there is one.
    fn route(&self, task: Option<TaskId>, scope: RouteScope) -> Option<Arc<dyn ClientRoute>>;

    /// Closes the connection of the call for this long, to free it (H-14). Does nothing if the client
    /// could not come back to it.
    fn release(&self, _retry: Duration) {}

    /// The guest reports this. The resulting notices are delayed, bounded and merged; a client within
    /// this process gets the report itself, at once.
    fn reported(&self, _report: &Report) {}

    /// The recorded exchanges that answer the HTTP requests of the run, if the client is within this process
    /// and has some.
    fn http_tape(&self) -> Option<&dyn HttpTape> {
        None
    }
}

/// A way to ask a client: a stream, or the other end of a pipe. A request sent here is on no other
/// route (H-20).
pub trait ClientRoute: Send + Sync + 'static {
    /// Sends a request. False if the route can take nothing.
    fn request(&self, id: &str, method: &str, params: &RawJson) -> bool;

    /// As [`ClientRoute::request`], for the guest's question with this key. The key is not on the wire:
    /// it is for a client within this process.
    fn question(&self, _key: &str, id: &str, method: &str, params: &RawJson) -> bool {
        self.request(id, method, params)
    }

    /// Withdraws a request that was not answered (C-6).
    fn withdraw(&self, id: &str, reason: &str, task: Option<TaskId>);

    /// Whether the client is at the other end.
    fn presence(&self) -> ClientPresence;
}

/// Whether the client is at the other end of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientPresence {
    /// Yes.
    There,
    /// Not for this long, but it may come back.
    AwayFor(Duration),
    /// The route has ended.
    Gone,
}

/// For callers that want no notices and cannot be asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoClientChannel;

impl ClientChannel for NoClientChannel {
    fn notify(&self, _task: Option<TaskId>, _notice: Notice) {}

    fn route(&self, _task: Option<TaskId>, _scope: RouteScope) -> Option<Arc<dyn ClientRoute>> {
        None
    }
}
