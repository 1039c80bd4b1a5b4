//! The port to the client of a call, for what is sent besides the answer: notices
//! that nobody answers, and requests of ours.

use std::sync::Arc;
use std::time::Duration;
use toolyard_task::TaskId;
use toolyard_task::tool::Report;
use toolyard_task::wire::{LogLevel, Progress, RawJson, TaskView};

/// Something the client is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// How far the call is (P-1).
    Progress {
        /// The token of the call.
        token: RawJson,
        /// What to tell.
        progress: Progress,
    },
    /// What the guest logs (G-1). Whether the client wants this level is known
    /// where notices go, not here.
    Log {
        /// How serious it is.
        level: LogLevel,
        /// Who logs.
        logger: Option<String>,
        /// Any JSON value.
        data: RawJson,
    },
    /// How a task stands now (T-37).
    Status(TaskView),
    /// What the user was sent to do is done (E-6).
    ElicitationComplete {
        /// The id that the question had.
        elicitation_id: String,
    },
}

/// Where in the client's reach a request may be put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Only where it is expected: on the stream that waits for the call or the
    /// task, or on the one channel that there is (IR-4, IR-5).
    Expected,
    /// On any stream of the client.
    Anywhere,
}

/// Where notices for the client of a call go, and the way to ask it. Nothing here
/// blocks; what a slow client cannot take is dropped.
pub trait Outlet: Send + Sync + 'static {
    /// Tells the client something, about a task if it belongs to one (T-38).
    fn notify(&self, task: Option<TaskId>, notice: Notice);

    /// A line to the client on which it can be asked now, if there is one.
    fn line(&self, task: Option<TaskId>, place: Place) -> Option<Arc<dyn Line>>;

    /// Closes the connection of the call for so long, to spare it (H-14). Where
    /// there is none that the client could come back to, nothing happens.
    fn release(&self, retry: Duration);

    /// The guest reports this. Notices come of it that are held back, bounded, and
    /// merged; here is what was said, at once, for a client within this process.
    fn reported(&self, _report: &Report) {}
}

/// One way to ask a client: a stream, or the other end of a pipe. A request put
/// here is on no other line (H-20).
pub trait Line: Send + Sync + 'static {
    /// Sends a request. False if the line can take nothing.
    fn request(&self, id: &str, method: &str, params: &RawJson) -> bool;

    /// As [`Line::request`], for a question of the guest's that has this key. The key
    /// is not on the wire: it is for a client within this process.
    fn question(&self, _key: &str, id: &str, method: &str, params: &RawJson) -> bool {
        self.request(id, method, params)
    }

    /// Takes a request back that was not answered (C-6).
    fn withdraw(&self, id: &str, reason: &str, task: Option<TaskId>);

    /// Whether somebody is at the other end.
    fn presence(&self) -> Presence;
}

/// Whether somebody is at the other end of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Yes.
    There,
    /// Not for so long, but it may come back.
    AwayFor(Duration),
    /// The line has ended.
    Gone,
}

/// For callers that want no notices and cannot be asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoOutlet;

impl Outlet for NoOutlet {
    fn notify(&self, _task: Option<TaskId>, _notice: Notice) {}

    fn line(&self, _task: Option<TaskId>, _place: Place) -> Option<Arc<dyn Line>> {
        None
    }

    fn release(&self, _retry: Duration) {}
}
