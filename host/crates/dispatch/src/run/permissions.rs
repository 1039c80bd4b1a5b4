//! What one run may have by a person's word.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;
use toolyard_task::permission::WhyNot;

/// What one run knows of what it may have. What was said for ever is not here but
/// in the store, and is read there at each use, so that it can be taken back.
pub(crate) struct Permissions {
    /// One question at a time: what waits behind it may be answered by it.
    pub(crate) turn: Semaphore,
    /// Whether a person is asked for what the manifest leaves to a person.
    pub(crate) asks: bool,
    said: Mutex<Said>,
}

#[derive(Default)]
pub(crate) struct Said {
    /// For this run, by the key of what is wanted.
    pub(crate) by_key: HashMap<String, ForThisRun>,
    /// How many questions were asked.
    pub(crate) asked: u32,
}

#[derive(Clone)]
pub(crate) enum ForThisRun {
    Yes,
    No(WhyNot),
}

impl Permissions {
    pub fn new(asks: bool) -> Self {
        Self { turn: Semaphore::new(1), asks, said: Mutex::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
