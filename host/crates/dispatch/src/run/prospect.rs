//! What it takes to make a task of a running call.

use crate::Fault;
use crate::access::caller::Caller;
use crate::access::permit::CallPermit;
use crate::slots::registry::RunGuard;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use toolyard_protocol::RawJson;
use toolyard_task::Task;

/// What it takes to make a task of a running call.
pub(crate) struct Prospect {
    pub(crate) caller: Caller,
    pub(crate) permit: CallPermit,
    pub(crate) progress_token: Option<RawJson>,
    /// The run, the guest and the clock may all want to decide; one at a time does.
    turn: Semaphore,
    /// The run is over: there is nothing to make a task of.
    pub(crate) over: OnceLock<()>,
    /// Keeps the run registered: as a plain call, then as that of its task.
    guard: Mutex<Option<RunGuard>>,
    /// Whoever waits for the call is told that it is a task.
    pub(crate) tell: Mutex<Option<oneshot::Sender<Task>>>,
}

/// Why a call does not become a task.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotPromoted {
    /// By the tool's own word, the client's, or the operator's.
    #[error(
        "this call cannot become a task: its client has not declared the tasks extension, or its tool forbids it"
    )]
    MayNot,
    /// It is over.
    #[error("the call is over")]
    Over,
    /// Not now.
    #[error("{0}")]
    Fault(Fault),
}

impl Prospect {
    /// The prospect of a call, and the news that it has become a task.
    pub fn new(
        caller: &Caller,
        permit: &CallPermit,
        progress_token: Option<RawJson>,
    ) -> (Self, oneshot::Receiver<Task>) {
        let (tell, told) = oneshot::channel();
        let prospect = Self {
            caller: caller.clone(),
            permit: permit.clone(),
            progress_token,
            turn: Semaphore::new(1),
            over: OnceLock::new(),
            guard: Mutex::default(),
            tell: Mutex::new(Some(tell)),
        };
        (prospect, told)
    }

    /// Waits for the right to decide what becomes of the call.
    pub async fn turn(&self) -> SemaphorePermit<'_> {
        self.turn.acquire().await.expect("it is never closed")
    }

    /// The run is over. From here on it becomes no task any more.
    pub async fn close(&self) {
        let _turn = self.turn().await;
        // It ends once.
        let _ = self.over.set(());
    }

    pub(crate) fn guard(&self) -> MutexGuard<'_, Option<RunGuard>> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
