//! The questions of a run, to its client: in three ways, as a plain call, in rounds, or as a task.

pub(crate) mod approval;
pub(crate) mod ask;
mod choice_form;
mod client_task;
mod doubt;
pub(crate) mod history;
mod in_rounds;
mod in_task;
pub(crate) mod pending;
mod permission;
mod plain;
pub(crate) mod round_trip;
mod verdicts;

use history::QuestionHistory;
use parking_lot::{Mutex, MutexGuard};
use round_trip::RoundTrip;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use verdicts::Permissions;

/// How often the host retries a question that no client has received.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The questions of a run.
pub(crate) struct Questions {
    /// How a stateless client is asked while the run is that of a plain call.
    pub round_trip: Option<Box<RoundTrip>>,
    history: Mutex<QuestionHistory>,
    permissions: Permissions,
    /// Whether the guest has said that effects begin.
    has_effects: AtomicBool,
}

impl Questions {
    /// `asks_permission` says whether the host asks a person for what the manifest leaves to a person.
    pub fn new(round_trip: Option<Box<RoundTrip>>, asks_permission: bool) -> Self {
        Self {
            round_trip,
            history: Mutex::default(),
            permissions: Permissions::new(asks_permission),
            has_effects: AtomicBool::new(false),
        }
    }

    /// The questions so far.
    pub fn history(&self) -> MutexGuard<'_, QuestionHistory> {
        self.history.lock()
    }

    /// Whether the guest has said that effects begin.
    pub fn has_effects(&self) -> bool {
        self.has_effects.load(Ordering::Acquire)
    }

    pub fn set_effects(&self) {
        self.has_effects.store(true, Ordering::Release);
    }

    /// Whether the run has to wait for its client's next request.
    pub fn is_suspended(&self) -> bool {
        self.round_trip.as_ref().is_some_and(|round_trip| round_trip.is_suspended())
    }

    /// Waits until the run has to wait for its client's next request.
    pub async fn wait_until_suspended(&self) {
        match &self.round_trip {
            Some(round_trip) => round_trip.wait_until_suspended().await,
            None => std::future::pending().await,
        }
    }
}
