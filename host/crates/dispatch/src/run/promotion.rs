//! The parts that a running call needs to become a task.

pub(crate) mod promote;

use crate::access::caller::Caller;
use crate::access::permit::CallPermit;
use crate::bridge::timeouts::ClientKey;
use crate::client::client_channel::ClientChannel;
use crate::error::Fault;
use crate::slots::registry::RunGuard;
use crate::slots::stop::Stop;
use parking_lot::{Mutex, MutexGuard};
use std::sync::{Arc, OnceLock};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use toolyard_protocol::{RawJson, Timestamp};
use toolyard_task::Task;
use toolyard_task::task::Era;

/// The parts that a running call needs to become a task.
pub(crate) struct Promotion {
    pub(crate) caller: Caller,
    pub(crate) permit: CallPermit,
    pub(crate) progress_token: Option<RawJson>,
    /// The run, the guest and the clock may all want to decide; only one at a time does.
    turn: Semaphore,
    /// Set when the run has ended: then there is nothing to promote.
    pub(crate) over: OnceLock<()>,
    /// Keeps the run registered: as a plain call, then as that of its task.
    guard: Mutex<Option<RunGuard>>,
    /// Tells the waiting call that it has become a task.
    pub(crate) tell: Mutex<Option<oneshot::Sender<Promoted>>>,
    /// Present if the client knows no tasks.
    pub(crate) bridge: Option<BridgedPromotion>,
}

/// A call that has become a task.
pub(crate) struct Promoted {
    pub task: Task,
    /// Whether the caller gets the task as its reply; otherwise it goes on waiting for the outcome.
    pub is_handed_off: bool,
}

/// The part of a promotion for a client that knows no tasks.
pub(crate) struct BridgedPromotion {
    /// The rules by which the task asks its client.
    pub era: Era,
    pub client: ClientKey,
    /// The channel of the task once the call has been answered.
    pub task_channel: Arc<dyn ClientChannel>,
    /// When it turned out that the call lasts longer than its first poll.
    pub begun: OnceLock<Timestamp>,
    /// Set when the call has become a task.
    pub promoted: Stop,
}

impl BridgedPromotion {
    pub fn new(era: Era, client: ClientKey, task_channel: Arc<dyn ClientChannel>) -> Self {
        Self { era, client, task_channel, begun: OnceLock::new(), promoted: Stop::default() }
    }
}

/// Why a call becomes a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromotionCause {
    /// The guest says that the call is long.
    Guest,
    /// The call takes longer than its caller waits.
    LongCall,
    /// The call is about to have an effect, which no other call may repeat.
    Effect,
    /// The call asks a question that its client cannot be asked.
    Question,
    /// The client stopped waiting.
    ClientLeft,
    /// The host is about to stop.
    HostLeaves,
}

impl PromotionCause {
    /// The reason in the audit log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Guest => "guest",
            Self::LongCall => "long_call",
            Self::Effect => "effect",
            Self::Question => "question",
            Self::ClientLeft => "client_timeout",
            Self::HostLeaves => "host_stops",
        }
    }
}

/// Why a call does not become a task.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotPromoted {
    /// The tool, the client or the operator does not allow it.
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
        bridge: Option<BridgedPromotion>,
    ) -> (Self, oneshot::Receiver<Promoted>) {
        let (tell, told) = oneshot::channel();
        let promotion = Self {
            caller: caller.clone(),
            permit: permit.clone(),
            progress_token,
            turn: Semaphore::new(1),
            over: OnceLock::new(),
            guard: Mutex::default(),
            tell: Mutex::new(Some(tell)),
            bridge,
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
        self.guard.lock()
    }
}
