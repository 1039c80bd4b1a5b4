//! Requests that were under way when the host of their task stopped.

use super::{Action, By, Entry};
use crate::task::Task;
use crate::wire::visible::clip;
use toolyard_journal::{DecidedBy, DoubtDecision};

/// The longest request (characters).
pub(super) const MAX_REQUEST: usize = 512;

impl Entry {
    /// A decision about a request in doubt. `request` has its method and its URL without the query.
    #[must_use]
    pub fn doubt(task: &Task, request: &str, decision: DoubtDecision, by: DecidedBy<'_>) -> Self {
        let actor = match by {
            DecidedBy::Person(name) => By::principal(name, None),
            DecidedBy::Method | DecidedBy::Key | DecidedBy::Manifest => By::host(),
        };
        Self {
            request: Some(clip(request, MAX_REQUEST)),
            decision: Some(decision.as_str()),
            ..Self::about(Action::Doubt, task, &actor.because(decider(by)))
        }
    }
}

/// The keyword for the cause of a decision.
pub(crate) const fn decider(by: DecidedBy<'_>) -> &'static str {
    match by {
        DecidedBy::Method => "method",
        DecidedBy::Key => "idempotency_key",
        DecidedBy::Manifest => "manifest",
        DecidedBy::Person(_) => "person",
    }
}
