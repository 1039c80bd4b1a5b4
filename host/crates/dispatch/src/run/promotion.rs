//! The parts that a running call needs to become a task.

use crate::Fault;
use crate::access::caller::Caller;
use crate::access::permit::CallPermit;
use crate::slots::registry::RunGuard;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use toolyard_protocol::RawJson;
use toolyard_task::Task;

/// The parts that a running call needs to become a task.
pub(crate) struct Promotion {
    pub(crate) caller: Caller,
    pub(crate) permit: CallPermit,
    pub(crate) progress_token: Option<RawJson>,
    /// The run, the guest and the clock may all want to decide; one at a time does.
    turn: Semaphore,
    /// Set when the run has ended: then there is nothing to promote.
    pub(crate) over: OnceLock<()>,
    /// Keeps the run registered: as a plain call, then as that of its task.
    guard: Mutex<Option<RunGuard>>,
    /// Tells the waiting call that it has become a task.
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
    /// The call has ended.
    #[error("the call has ended")]
    Over,
    /// Not now.
    #[error("{0}")]
    Fault(Fault),
}

impl Promotion {
    /// The promotion of a call, and the receiver of its task.
    pub fn new(
        caller: &Caller,
        permit: &CallPermit,
        progress_token: Option<RawJson>,
    ) -> (Self, oneshot::Receiver<Task>) {
        let (tell, told) = oneshot::channel();
        let promotion = Self {
            caller: caller.clone(),
            permit: permit.clone(),
            progress_token,
            turn: Semaphore::new(1),
            over: OnceLock::new(),
            guard: Mutex::default(),
            tell: Mutex::new(Some(tell)),
        };
        (promotion, told)
    }

    /// Waits for the right to decide what becomes of the call.
    pub async fn turn(&self) -> SemaphorePermit<'_> {
        self.turn.acquire().await.expect("it is never closed")
    }

    /// Closes the promotion because the run has ended.
    pub async fn close(&self) {
        let _turn = self.turn().await;
        // It ends once.
        let _ = self.over.set(());
    }

    pub(crate) fn guard(&self) -> MutexGuard<'_, Option<RunGuard>> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
