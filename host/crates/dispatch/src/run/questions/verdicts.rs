//! The permissions of one run.

use parking_lot::Mutex;
use std::collections::HashMap;
use tokio::sync::Semaphore;
use toolyard_task::permission::WhyNot;

/// The permissions that one run knows. Permanent verdicts are not here but in the store: each use
/// reads them there, so that the operator can revoke them.
pub(crate) struct Permissions {
    /// At most one question is asked at a time: its answer may also settle those that wait behind it.
    pub(crate) turn: Semaphore,
    /// Whether the host asks a person for what the manifest leaves to a person.
    pub(crate) asks: bool,
    pub(crate) answers: Mutex<PermissionAnswers>,
}

#[derive(Default)]
pub(crate) struct PermissionAnswers {
    /// For this run, by the key of what is wanted.
    pub(crate) by_key: HashMap<String, RunVerdict>,
    /// How many questions were asked.
    pub(crate) asked: u32,
}

#[derive(Clone)]
pub(crate) enum RunVerdict {
    Yes,
    No(WhyNot),
}

impl Permissions {
    pub fn new(asks: bool) -> Self {
        Self { turn: Semaphore::new(1), asks, answers: Mutex::default() }
    }
}
